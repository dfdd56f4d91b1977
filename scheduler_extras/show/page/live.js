// The connection to the scheduler: frames come as server-sent events. Without a server, the page is a recording.

const connection = {source: null, is: 'recording', heard: 0, operator: {}};
const isConnected = () => connection.is !== 'recording';

function connect() {
  connection.is = 'lost';
  const source = connection.source = new EventSource('/events');
  const hears = listener => event => {
    connection.heard = Date.now();
    if (connection.is !== 'live') connection.is = 'live';
    listener(event);
  };
  source.addEventListener('version', event => {
    if (event.data !== document.documentElement.dataset.version) location.reload();
  });
  source.addEventListener('state', hears(event => {
    const state = JSON.parse(event.data);
    const wasAt = view.live ? null : view.at;
    halt();
    begin(state);
    view.at = wasAt && known.entries.find(each => each.n === wasAt.n) || null;
    if (!view.at) view.live = true;
    arrived(known.entries.slice(-1));
  }));
  source.addEventListener('frames', hears(event => {
    const before = known.entries.length;
    JSON.parse(event.data).forEach(take);
    arrived(known.entries.slice(before));
    forget();
  }));
  source.addEventListener('alive', hears(event => {
    const before = JSON.stringify(connection.operator);
    connection.operator = JSON.parse(event.data);
    if (event.data !== before) render();
    else showStatus();
  }));
  source.onerror = () => {
    connection.is = 'lost';
    showStatus();
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
  };
}

// New entries: while LIVE, the page plays the new decisions one after another. By hand, and after a guess, it waits for →.
function arrived(entries) {
  const all = entries.filter(each => each.kind === 'decision');
  const news = all.filter(each => !each.repeats);
  const again = all.findLast(each => each.repeats && each.uid === view.at?.uid);
  const waits = view.byHand || guess.on && (guess.choice || !view.done);
  if (view.live && !view.at) Object.assign(view, {at: distinct().at(-1) || null, step: Infinity});
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
  const target = news.length && ofRun(news.at(-1));
  view.next = target ? [target].filter(each => each !== view.at) : [...view.next, ...news].slice(-MAX_NEXT);
  const changed = known.entries.findLast(each => each.kind === 'change')?.n || 0;
  const isOld = decision => decision.n < changed || decision.policy !== known.policy;
  if (isOld(view.at)) {
    const since = view.next.filter(each => !isOld(each));
    view.next = since.length ? since : view.next.slice(-1);
  } else if (view.timer && !target) return null;
  const next = view.next.shift();
  if (guess.on) view.next = [];
  return next;
}

// When files have changed, all is decided again: then the page goes to the first pod that goes elsewhere, or stays
// with the pod that it showed.
function ofRun(newest) {
  const run = known.entries.findLast(each => each.kind === 'run');
  if (!run || newest.at - run.at > 3) return null;
  const news = decisions().filter(each => each.n > run.n);
  return changedIn(news, run) || news.find(each => each.pod === view.at.pod);
}

function changedIn(news, run) {
  const before = new Map();
  decisions().filter(each => each.n < run.n).forEach(each => before.set(each.pod, each));
  const total = each => each.node && totalOf(each, each.node);
  return news.find(each => before.has(each.pod) && before.get(each.pod).node !== each.node) || news.find(each => !before.has(each.pod))
    || news.find(each => before.get(each.pod).message !== each.message) || news.find(each => total(before.get(each.pod)) !== total(each));
}

function statusNow() {
  if (connection.is === 'recording') return ['recording', 'RECORDING'];
  if (connection.is === 'lost') return ['lost', 'LOST: reconnecting'];
  return view.live ? ['live', '● LIVE'] : ['paused', '❚❚ PAUSED'];
}

function showStatus() {
  const [kind, words] = statusNow();
  const status = document.getElementById('status');
  if (!status) return;
  status.className = kind;
  status.textContent = words;
}

// A server that hangs sends no error: it is lost if it was not heard for 5 seconds.
function watch() {
  if (connection.is === 'live' && Date.now() - connection.heard > 5000) {
    connection.is = 'lost';
    showStatus();
  }
  document.querySelectorAll('[data-since]').forEach(each => { each.textContent = ago(each.dataset.since); });
  document.querySelectorAll('[data-again]').forEach(each => {
    const waiting = known.queue.pods.find(pod => String(pod.again) === each.dataset.again);
    if (waiting) each.textContent = again(waiting);
  });
}
