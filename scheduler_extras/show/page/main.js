// What is shown, the keys, and the steps of a decision.

// `next` has the decisions to be played.
const view = {at: null, step: Infinity, mode: 'nodes', live: true, byHand: false, timer: 0, next: [], plays: false};
const guess = {on: false, choice: null, hits: 0, of: 0};
const NOWHERE = '✗'; // the guess that the pod stays pending
const PACE = 450; // milliseconds for a step that is shown by itself
const MIN_PACE = 150;
const MAX_NEXT = 20; // decisions that wait to be played; older ones are skipped

function render() {
  const decision = view.at;
  const other = decision && supposed(decision);
  const step = decision ? Math.min(view.step, stepsOf(other || decision).length - 1) : 0;
  view.done = !decision || isEnd(other || decision, step);
  goTo(!decision || isNewest(decision) ? known.changes.length : decision.world);
  inPlaces();
  const middle = {
    nodes: () => nodeTiles(other, step),
    matrix: () => matrix(other, step),
    timeline,
    pending: pendingBoard,
    manifest: () => manifestOf(decision),
    policy: policyView,
    help
  }[view.mode];
  const focused = document.activeElement?.id;
  document.body.dataset.mode = view.mode;
  document.body.replaceChildren(
    h(
      'header',
      {},
      heading(decision, other),
      h(
        'div.about',
        {},
        score(),
        view.byHand && h('span', {}, 'by hand'),
        place(),
        h('span', {id: 'status', role: 'status', title: 'End: the newest', onclick: toTheEnd}),
        h('button', {onclick: () => show('help'), 'aria-label': 'keys'}, '?')
      )
    ),
    leftSide(decision),
    h('main', {}, because(other, step), middle()),
    rightSide(other || decision, step),
    footer()
  );
  showStatus();
  fitAll();
  showCurrentLine();
  if (focused) document.getElementById(focused)?.focus();
}

function place() {
  const all = distinct();
  const i = all.indexOf(view.at);
  const recorded = i < 0 ? '' : `${i + 1} of ${all.length}`;
  return h(
    'nav',
    {},
    h('button', {id: 'back', onclick: () => move(-1), 'aria-label': 'back'}, '←'),
    h('span', {id: 'where'}, recorded),
    h('button', {id: 'next', onclick: () => move(1), 'aria-label': 'next'}, '→')
  );
}

// A guess counts once the answer is shown: the score would give it away.
function score() {
  const isOpen = guess.choice && !view.done;
  const of = guess.of - (isOpen ? 1 : 0);
  const hits = guess.hits - (isOpen && isRight(view.at, guess.choice) ? 1 : 0);
  return guess.on && of > 0 && h('span.score', {}, `guessed right: ${hits} of ${of}`);
}

// Show a decision by itself: from its question on, or only its end if others wait.
function enter(decision) {
  clearTimeout(view.timer);
  const waits = guess.on || view.byHand;
  const isShort = !waits && (still() || view.next.length > 0);
  Object.assign(view, {at: decision, step: isShort ? Infinity : 0, timer: 0});
  guess.choice = null;
  render();
  if (isShort) fly(decision);
  if (!waits) goOnSoon();
}

// The more decisions wait, the less time each one has: five are played within two seconds, twenty within five.
const pace = () => Math.max(MIN_PACE, PACE - 30 * view.next.length);

function goOnSoon() {
  view.timer = setTimeout(goOn, pace());
}

// Go on with the next step, or with the next decision.
function goOn() {
  view.timer = 0;
  if (view.done) return view.next.length && enter(view.next.shift());
  const steps = stepsOf(supposed(view.at) || view.at);
  const next = view.step + 1;
  view.plays = true; // all points come up at once
  view.step = view.next.length ? Infinity : steps[next] === 'points' ? steps.lastIndexOf('points') : next;
  render();
  animateStep(true);
  goOnSoon();
}

function halt() {
  clearTimeout(view.timer);
  Object.assign(view, {timer: 0, next: [], plays: false});
}

// Go to a decision, at its end; the page is PAUSED then.
function go(decision, step = Infinity) {
  if (decision.kind !== 'decision') return;
  halt();
  Object.assign(view, {at: decision, step, live: false});
  guess.choice = null;
  history.replaceState(null, '', addressOf(decision));
  render();
}

function addressOf(decision) {
  const several = decisions().filter(each => each.pod === decision.pod).length > 1;
  return `#pod=${encodeURIComponent(decision.pod)}${several ? `&n=${decision.n}` : ''}`;
}

function showPod(key) {
  const decision = decisions().findLast(each => each.pod === key);
  if (decision) go(decision);
}

// A step forward or back, and on to the next decision or the last one.
function move(by) {
  halt();
  if (!view.at) return;
  if (guess.on && by > 0 && view.step === 0 && !guess.choice) return;
  const last = stepsOf(supposed(view.at) || view.at).length - 1;
  const step = Math.min(view.step, last) + by;
  if (step > last) return leap(1, 0);
  if (step < 0) return leap(-1, Infinity);
  if (by < 0) view.live = false;
  view.step = step;
  render();
  if (by > 0) animateStep();
}

// What moves when a step is shown: the points where they come up, the pod at the end.
function animateStep(isPlaying = false) {
  if (view.done) fly(view.at);
  else grow(isPlaying);
}

// In a guess, each decision begins with its question.
function leap(by, step = guess.on ? 0 : Infinity) {
  const all = distinct();
  const next = all[all.indexOf(view.at) + by];
  const live = view.live && by > 0;
  if (!next) return;
  go(next, step);
  if (live) Object.assign(view, {live}) && render();
}

function toTheEnd() {
  history.replaceState(null, '', location.pathname + location.search);
  halt();
  guess.choice = null;
  const step = guess.on ? 0 : Infinity;
  Object.assign(view, {at: decisions().findLast(each => !each.repeats) || null, step, live: isConnected()});
  render();
}

function show(mode) {
  view.mode = view.mode === mode ? 'nodes' : mode;
  render();
}

// A click on a node is a guess, while the page waits for one.
function clickNode(name) {
  if (guess.on && view.at && !guess.choice && !isEnd(view.at, view.step)) {
    guess.choice = name;
    guess.of += 1;
    guess.hits += isRight(view.at, name);
    if (!view.byHand) goOnSoon();
  }
  render();
}

function isRight(decision, name) {
  if (decision.node === null) return name === NOWHERE;
  return (
    decision.places.has(name) &&
    totalOf(decision, name) === Math.max(...decision.fit.map(each => totalOf(decision, each)))
  );
}

function toggleGuess() {
  halt();
  Object.assign(guess, {on: !guess.on, choice: null, hits: 0, of: 0});
  if (guess.on && view.at && !view.live) view.step = 0; // a live page asks about the next pod
  render();
}

// The page with its data inside. It opens at the decision that is shown.
async function save() {
  if (!isConnected()) return;
  const text = await (await fetch('/page.html')).text();
  const page = text.replace('<html ', `<html data-at="${view.at ? view.at.n : ''}" `);
  const link = h('a', {href: URL.createObjectURL(new Blob([page], {type: 'text/html'})), download: 'decisions.html'});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const DOES = {
  ArrowRight: () => move(1),
  PageDown: () => move(1),
  ' ': () => move(1),
  ArrowLeft: () => move(-1),
  PageUp: () => move(-1),
  ArrowDown: () => leap(1),
  ArrowUp: () => leap(-1),
  Home: () => decisions()[0] && go(decisions()[0], 0),
  End: toTheEnd,
  n: () => show('nodes'),
  m: () => show('matrix'),
  t: () => show('timeline'),
  p: () => show('pending'),
  y: () => show('manifest'),
  e: () => show('policy'),
  '?': () => show('help'),
  Escape: () => {
    view.mode = 'nodes';
    render();
  },
  s: save,
  g: toggleGuess,
  a: () => {
    halt();
    view.byHand = !view.byHand;
    render();
  },
  b: () => {
    document.documentElement.classList.toggle('big');
    render();
  },
  '/': () => {
    view.mode = 'timeline';
    render();
    document.getElementById('find').focus();
  }
};

onkeydown = event => {
  const inField = event.target.matches('input');
  const isForButton = [' ', 'Enter'].includes(event.key) && event.target.matches('button, [role=button]');
  if (isForButton && event.target.matches('[role=button]')) return event.target.click();
  if (event.ctrlKey || event.altKey || event.metaKey || isForButton || (inField && event.key !== 'Escape')) return;
  const action = DOES[event.key];
  if (!action) return;
  event.preventDefault();
  action();
};

// On paper: what is shown, on a landscape page, and after the nodes the matrix on another one.
onbeforeprint = () => {
  document.documentElement.classList.add('on-paper');
  render();
  const other = view.mode === 'nodes' && view.at && supposed(view.at);
  if (other) document.body.append(h('div.paper', {}, matrix(other, Infinity)));
};
onafterprint = () => {
  document.documentElement.classList.remove('on-paper');
  render();
};
onhashchange = fromAddress;
onresize = () => view.mode === 'nodes' && render();

function fromAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const found = decisions().findLast(
    each => each.pod === wanted.get('pod') && (!wanted.has('n') || String(each.n) === wanted.get('n'))
  );
  if (found) go(found);
  return Boolean(found);
}

const data = JSON.parse(document.getElementById('data').textContent);
if (data) {
  begin(data);
  const saved = decisions().find(each => String(each.n) === document.documentElement.dataset.at);
  if (!fromAddress()) {
    Object.assign(view, {at: saved || decisions()[0] || null, step: saved ? Infinity : 0, live: false});
    render();
  }
} else {
  render();
  connect();
}
setInterval(watch, 1000);
