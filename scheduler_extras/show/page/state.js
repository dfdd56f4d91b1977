// What the page knows: the frames of the journal, in their order, and the cluster as it was at each of them.

const known = {
  id: null,
  last: 0,
  entries: [],
  lasts: new Map(),
  changes: [],
  policy: null,
  queue: {count: 0, oldest: 0, pods: []},
  problem: ''
};
const nodes = new Map(); // name -> record, as of `applied` changes
let applied = 0;

// Begin with a state: {id, nodes, policy, frames}. Its id is the time at which the scheduler started.
function begin(state) {
  const isRestart = known.id !== null && known.id !== state.id;
  Object.assign(known, {
    id: state.id,
    last: 0,
    entries: [],
    lasts: new Map(),
    changes: [],
    policy: state.policy,
    problem: ''
  });
  nodes.clear();
  applied = 0;
  Object.entries(state.nodes).forEach(([name, record]) => nodes.set(name, record));
  const text = `the scheduler restarted at ${clock(state.id).slice(0, 5)}: decisions before that are gone`;
  if (isRestart) take({kind: 'note', n: 0, at: Number(state.id), text});
  state.frames.forEach(take);
}

// Apply a frame. Each entry of the timeline remembers how many changes came before it, and its Policy.
function take(frame) {
  known.last = frame.n;
  const enter = more =>
    known.entries.push({...frame, ...more, world: known.changes.length, policy: known.policy, queue: known.queue});
  if (frame.kind === 'nodes') {
    goTo(known.changes.length);
    const {lines, ...about} = known.changes.length || nodes.size ? differencesOf(frame.nodes) : {lines: []};
    known.changes.push({after: frame.nodes, before: null});
    if (lines.length) enter({kind: 'change', lines, ...about});
  } else if (frame.kind === 'policy') {
    known.policy = frame;
    Object.values(frame.by).forEach(each => each.priorities.forEach(([title]) => hue(title)));
  } else if (frame.kind === 'decision') {
    coloursOf(frame); // in the order of the decisions, wherever somebody opens the page
    enter({
      repeats: saysAgain(frame),
      refused: refusing(frame),
      places: new Map(frame.fit.map((name, i) => [name, i]))
    });
  } else if (frame.kind === 'skipped') {
    frame.rows.forEach(([at, pod, node, message]) =>
      enter({kind: 'brief', at, pod, node, message, repeats: saysAgain({pod, node, message})})
    );
  } else if (frame.kind === 'outcome') {
    const about = known.entries.find(each => each.n === frame.of);
    // A pod that waits for its victims keeps them.
    if (about) about.outcome = {...frame, victims: frame.victims.length ? frame.victims : about.outcome?.victims || []};
    if (about && !about.node && frame.message) about.message = frame.message;
  } else if (frame.kind === 'queue') {
    known.queue = frame;
  } else {
    if (frame.kind === 'run') known.lasts.clear();
    if (frame.problem) known.problem = frame.text;
    else if (frame.kind === 'run' || endsProblem(frame.text || '')) known.problem = '';
    enter({});
  }
}

// Whether a pod is pending for the same reasons as after its last attempt, if at another number of nodes. Then the page
// stays where it is.
function saysAgain({pod, uid, node, message}) {
  const before = known.lasts.get(pod);
  const reasons = message
    ?.replace(/\d+|\.$/g, '')
    .replace('/ nodes are available:', '')
    .split(',')
    .sort()
    .join();
  known.lasts.set(pod, {uid, node, reasons});
  return (
    node === null && before?.node === null && before.reasons === reasons && (!uid || !before.uid || uid === before.uid)
  );
}

// Whether a line of the log is about the same file as the problem, or says that the API server answers again.
const endsProblem = text => text.split(':')[0] === known.problem.split(':')[0] || text.includes('answers again');

// Forget entries that are too old: the server has done so, too.
function forget() {
  if (known.entries.length > 3000) known.entries.splice(0, known.entries.length - 2500);
  for (const pod of known.lasts.keys()) if (known.lasts.size > 3000) known.lasts.delete(pod);
}

// Bring `nodes` to what they were after so many changes.
function goTo(count) {
  while (applied < count) {
    const change = known.changes[applied++];
    change.before = {};
    for (const [name, record] of Object.entries(change.after)) {
      change.before[name] = nodes.get(name) || null;
      put(name, record);
    }
  }
  while (applied > count)
    Object.entries(known.changes[--applied].before).forEach(([name, record]) => put(name, record));
}

// The record of a node after all changes, whatever the page shows.
function latest(name) {
  const change = known.changes.findLast(each => name in each.after);
  return change ? change.after[name] : nodes.get(name);
}

function put(name, record) {
  if (record) nodes.set(name, record);
  else nodes.delete(name);
}

// Return in words how nodes differ from those before, which ones do, and what their chips say now that they did not say
// before; of pods, only which ones are gone.
function differencesOf(changed) {
  const [lines, names, come, gone, fresh] = [[], [], [], [], {}];
  // A run begins without the pods that it places, so these are not gone.
  const isRun = known.entries.findLast(each => each.kind !== 'note')?.kind === 'run';
  for (const [name, now] of Object.entries(changed)) {
    const before = nodes.get(name);
    if (!before || !now) {
      (now ? come : gone).push(name);
      continue;
    }
    const words = [];
    if (before.cordoned !== now.cordoned) words.push(now.cordoned ? 'cordoned' : 'uncordoned');
    words.push(...signed(before.taints, now.taints, 'taint '));
    words.push(...labelChanges(before.labels, now.labels));
    for (const resource of Object.keys({...before.room, ...now.room})) {
      const [was, is] = [before.room[resource] || 0, now.room[resource] || 0];
      if (was !== is) words.push(`${resourceName(resource)} ${amount(resource, was)} → ${amount(resource, is)}`);
    }
    const keys = now.pods.map(([key]) => key);
    if (now.used.pods < before.used.pods && !isRun)
      words.push(...before.pods.filter(([key]) => !keys.includes(key)).map(([key]) => `pod ${short(key)} is gone`));
    if (!words.length) continue;
    names.push(name);
    fresh[name] = marksOf(now).filter(each => !marksOf(before).includes(each));
    lines.push(`${name}: ${words.join(', ')}`);
  }
  for (const [which, what] of [
    [come, 'new'],
    [gone, 'gone']
  ]) {
    if (which.length) lines.unshift(`${inShort(which)} ${which.length === 1 ? 'is' : 'are'} ${what}`);
  }
  if (lines.length > 8) lines.splice(7, lines.length, `and ${lines.length - 7} more changes`);
  return {lines, names: [...names, ...come, ...gone], fresh};
}

const inShort = names =>
  names.length > 3 ? `${names.slice(0, 2).join(', ')} and ${names.length - 2} other nodes` : names.join(', ');

// The texts of the chips about a node itself.
const marksOf = node => [
  ...(node.cordoned ? ['cordoned'] : []),
  ...node.taints,
  ...Object.entries(node.labels).map(each => each.join('='))
];

function labelChanges(before, now) {
  const isOther = key => key in before && key in now && before[key] !== now[key];
  const rest = labels =>
    Object.entries(labels)
      .filter(([key]) => !isOther(key))
      .map(each => each.join('='));
  return [
    ...Object.keys(now)
      .filter(isOther)
      .map(key => `${key} ${before[key]} → ${now[key]}`),
    ...signed(rest(before), rest(now), 'label ')
  ];
}

function signed(before, now, what) {
  return [
    ...now.filter(each => !before.includes(each)).map(each => `+ ${what}${each}`),
    ...before.filter(each => !now.includes(each)).map(each => `- ${what}${each}`)
  ];
}

// The titles of the predicates that have refused nodes, in the order in which they were asked.
function refusing(decision) {
  const titles = new Set(decision.against.flatMap(each => Object.keys(each.by)));
  return [
    ...decision.rules.filter(title => titles.has(title)),
    ...[...titles].filter(title => !decision.rules.includes(title))
  ];
}

// What a vote gives a node, before and after it was normalized.
const pointsOf = (decision, vote, name) => of(vote.points, decision, name);
const rawOf = (decision, vote, name) => of(vote.raw, decision, name);
const of = (numbers, decision, name) => (Array.isArray(numbers) ? numbers[decision.places.get(name)] : numbers);

// The decisions of the timeline that are recorded in full.
const decisions = () => known.entries.filter(each => each.kind === 'decision');

// Those that say something new, and the one that is shown.
const distinct = () => decisions().filter(each => !each.repeats || each === view.at);
