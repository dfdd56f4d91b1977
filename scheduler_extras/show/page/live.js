// The connection to the scheduler: frames come as server-sent events. Without a server, the page is a recording.

const connection = {source: null, is: 'recording', heard: 0, operator: {}};
const isConnected = () => connection.is !== 'recording';
const isBesideCluster = () => isConnected() && 'refused' in connection.operator; // else the pods are those of files

function connect() {
  connection.is = 'lost';
  const source = (connection.source = new EventSource('/events'));
  const hears = listener => event => {
    connection.heard = Date.now();
    if (connection.is !== 'live') connection.is = 'live';
    listener(event);
  };
  source.addEventListener('version', event => {
    if (event.data !== document.documentElement.dataset.version) location.reload();
  });
  source.addEventListener(
    'state',
    hears(event => {
      const state = JSON.parse(event.data);
      const wasAt = view.live || known.id !== state.id ? null : view.at;
      const isFirst = known.id === null;
      halt();
      begin(state);
      if (isFirst && fromAddress()) return;
      view.at = (wasAt && known.entries.find(each => each.n === wasAt.n)) || null;
      if (!view.at) view.live = true;
      arrived(known.entries.slice(-1), true);
    })
  );
  source.addEventListener(
    'frames',
    hears(event => {
      const before = known.entries.length;
      JSON.parse(event.data).forEach(take);
      arrived(known.entries.slice(before));
      forget();
    })
  );
  source.addEventListener(
    'alive',
    hears(event => {
      const before = JSON.stringify(connection.operator);
      connection.operator = JSON.parse(event.data);
      if (event.data !== before) render();
      else showStatus();
    })
  );
  source.onerror = () => {
    connection.is = 'lost';
    showStatus();
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
  };
}

// New entries: while LIVE, the page plays the new decisions one after another. By hand, and after a guess, it waits for
// →. When the page opens, it shows the newest decision instead: that was made before.
function arrived(entries, isStart = false) {
  const all = entries.filter(each => each.kind === 'decision');
  const news = all.filter(each => !each.repeats);
  const again = all.findLast(each => each.repeats && each.uid === view.at?.uid);
  const waits = view.at && (view.byHand || (guess.on && (guess.choice || !view.done)));
  if (isStart && !view.at) Object.assign(view, {at: distinct().at(-1) || null, step: Infinity});
  else {
    const next = view.live && !waits && playedNext(news);
    if (next) return enter(next);
    if (again && isNewest(view.at)) view.at = again;
  }
  render();
}

// Have new decisions wait to be played, and return the one to play now, if any. A change of the cluster or of the
// Policy shows at once: what was decided before it is not played any more.
function playedNext(news) {
  view.next = [...view.next, ...ofRun(news)].slice(-MAX_NEXT);
  const changed = known.entries.findLast(each => each.kind === 'change' || each.kind === 'run')?.n || 0;
  const isOld = decision => decision.n < changed || decision.policy !== known.policy;
  if (view.at && isOld(view.at)) {
    const since = view.next.filter(each => !isOld(each));
    view.next = since.length ? since : view.next.slice(-1);
  } else if (view.timer) return null;
  const next = view.next.shift();
  if (guess.on) view.next = [];
  return next;
}

// Those of new decisions that are worth playing. When files have changed, all is decided again: then these are the pods
// that are new, else the first pod that goes elsewhere, else the pod that the page showed.
function ofRun(news) {
  const run = known.entries.findLast(each => each.kind === 'run');
  if (!news.length || !run || news.at(-1).at - run.at > 3) return news;
  const before = new Map(
    decisions()
      .filter(each => each.n < run.n)
      .map(each => [each.pod, each])
  );
  const all = [
    ...new Map(
      decisions()
        .filter(each => each.n > run.n)
        .map(each => [each.pod, each])
    ).values()
  ]; // the last ones
  const isNew = each => !before.has(each.pod);
  if (all.some(isNew)) return news.filter(isNew);
  return [changedIn(all, before) || all.find(each => each.pod === view.at.pod)].filter(
    each => each && each !== view.at
  );
}

function changedIn(all, before) {
  const total = each => each.node && totalOf(each, each.node);
  return (
    all.find(each => before.get(each.pod).node !== each.node) ||
    all.find(each => before.get(each.pod).message !== each.message) ||
    all.find(each => total(before.get(each.pod)) !== total(each))
  );
}

// The errors of requests that no API server has answered.
const NO_API = /^cannot reach |no answer within |no API server behind it/;

function statusNow() {
  if (connection.is === 'recording') return ['recording', 'RECORDING'];
  if (connection.is === 'lost') return ['lost', 'LOST: reconnecting'];
  const newer = view.at ? distinct().filter(each => each.n > view.at.n).length : 0;
  if (!view.live) return ['paused', newer ? `❚❚ PAUSED · ${newer} newer` : '❚❚ PAUSED'];
  if (NO_API.test(known.problem)) return ['no-api', 'NO API'];
  const more = view.done && !view.next.length && newer;
  return ['live', more ? `● LIVE · ${more} more: →` : '● LIVE'];
}

function showStatus() {
  const [kind, words] = statusNow();
  const status = document.getElementById('status');
  if (!status) return;
  status.className = kind;
  document.body.classList.toggle('lost', kind === 'lost');
  status.textContent = words;
}

// A server that hangs sends no error. After 5 seconds of silence, the connection counts as lost.
function watch() {
  if (connection.is === 'live' && Date.now() - connection.heard > 5000) {
    connection.is = 'lost';
    showStatus();
  }
  document.querySelectorAll('[data-since]').forEach(each => {
    each.textContent = ago(each.dataset.since);
  });
  document.querySelectorAll('[data-again]').forEach(each => {
    const waiting = known.queue.pods.find(pod => String(pod.again) === each.dataset.again);
    if (waiting) each.textContent = again(waiting);
  });
}
