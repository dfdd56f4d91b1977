// The chips of a tile: pods, taints and labels.

// The pods on a node, and its taints and labels; the pod in question first, what is to blame in a red frame, then what
// is new.
function chips(name, decision, about, blame, fresh) {
  const node = nodes.get(name);
  const isEarly = ([token, text]) => blame.has(token) || fresh.includes(text);
  const chip = ([token, text, kind, brief]) => {
    const frame = (blame.has(token) ? '.blamed' : '') + (fresh.includes(text) ? '.changed' : '');
    const isFine = kind === 'mark' && isTolerated(text, decision, about);
    return h(
      `span.chip.${kind}${frame}${isFine ? '.tolerated' : ''}`,
      {title: text, 'data-brief': brief},
      wordsOfChip(text)
    );
  };
  const marks = taintsOf(node).filter(each => !saidOf(each, about, blame));
  const labels = labelsOf(node, decision);
  labels.sort((a, b) => blame.has(b[0]) - blame.has(a[0]) || isRequested(b) - isRequested(a));
  const isKnown = token => WITHOUT_CHIP.test(token) || labels.some(each => each[0] === token);
  const absent = blamedLabels(blame).filter(each => !isKnown(`label:${each}`) && !saysAbsent(each, about));
  return h(
    'div.chips',
    {},
    about.is === 'best' &&
      h('span.chip.pod.new', {'data-pod': decision.pod, title: decision.pod}, `+ ${briefly(decision.pod)}`),
    isWhatIf() &&
      about.is !== 'best' &&
      view.done &&
      view.at?.node === name &&
      h('span.chip.pod.changed', {title: view.at.pod}, 'actual'),
    marks.filter(isEarly).map(chip),
    labels.filter(isEarly).map(chip),
    absent.map(key => h('span.chip.label.blamed', {}, `no ${key}`)),
    decision?.reserved[name] && h('span.chip.held', {}, `reserved for ${decision.reserved[name].for}`),
    podChips(node, decision, blame),
    marks.filter(each => !isEarly(each)).map(chip),
    labels.filter(each => !isEarly(each)).map(chip)
  );
}

// Whether a node fits in spite of this taint because the pod tolerates it.
function isTolerated(taint, decision, about) {
  const asks = title => ['PodToleratesNodeTaints', 'TaintToleration'].includes(title) && title !== whatIf.off;
  return /:No(Schedule|Execute)$/.test(taint) && ['fits', 'best'].includes(about.is) && decision.rules.some(asks);
}

// Labels that most nodes have, and that the records of nodes leave out (NOISE in records.py).
const WITHOUT_CHIP = /^label:(beta\.)?kubernetes\.io\/(hostname|arch|os)$/;

// The labels to blame.
const blamedLabels = blame => [...blame].filter(each => each.startsWith('label:')).map(each => each.slice(6));

// Whether the reason says that a node has no such label: then it needs no chip that says so.
const saysAbsent = (key, about) => plain(about.words) === plain(`no ${key}`);

// The word of the reason that says the same as the chip of a taint, which then needs no chip; '' if none does.
function saidOf([token, text], about, blame) {
  const word = text.replace(/:\w+$/, '').split('/').pop();
  return blame.has(token) && about.words.split(/[ ,;]+/).includes(word) ? word : '';
}

// What keeps pods away: [token, text, kind of chip].
function taintsOf(node) {
  const taints = node.taints.map(each => [`taint:${each}`, each, 'mark']);
  return node.cordoned ? [['cordon', 'cordoned', 'mark'], ...taints] : taints;
}

// The labels, in the same form; those that the pod asks for have a kind of their own. They are scored if its
// preferences tell nodes apart.
function labelsOf(node, decision) {
  const asks = JSON.stringify(decision ? decision.asks : '');
  const isScored = decision?.votes.some(vote => means(vote.title) === PREFERRED && Array.isArray(vote.points));
  return Object.entries(node.labels).map(([key, value]) => {
    const isAsked = asks.includes(key.split('/').pop());
    const kind = isAsked ? `label.asked${isScored ? '.scored' : ''}` : 'label';
    return [`label:${key}`, `${key}=${value}`, kind, isAsked && briefValue(key, value)];
  });
}

// The value of a label, without the prefix that its values on all nodes share.
function briefValue(key, value) {
  const prefix = prefixOf([...nodes.values()].map(node => node.labels[key]).filter(each => each !== undefined));
  return prefix ? `…${value.slice(prefix.length)}` : value;
}
const isRequested = ([, , kind]) => kind !== 'label';

function wordsOfChip(text) {
  return inLines(text.replace(/[\w.-]+\//, '').replace(/=$/, ''));
}

// The effect of a taint is a word of its own: a line breaks before it, not within it.
const inLines = text => text.split(/(?<=:)(?=\w+…?$)/).map(each => h('span', {}, each));

// The other pods, the newest one first; before them those to blame, then those that are preempted, then those to which
// the pod's affinity or spreading refers.
function podChips(node, decision, blame) {
  const victims = new Set((view.done && decision?.outcome?.victims) || []);
  const isOver = view.done && decision && !decision.node; // then priorities decide about preemption
  const isBlamed = key => blame.has(`pod:${key}`);
  const pods = [...node.pods].reverse().filter(([key]) => key !== decision?.pod);
  const neighbors = new Set(decision?.neighbors);
  const rank = key => [isBlamed(key), victims.has(key), neighbors.has(key)].indexOf(true) + 1 || 4;
  pods.sort(([a], [b]) => rank(a) - rank(b));
  const others = node.used.pods - node.pods.length;
  return [
    pods.map(([key, priority, ports]) =>
      h(
        `span.chip.pod.${['blamed', 'goes', 'neighbor', 'other'][rank(key) - 1]}`,
        {title: key},
        victims.has(key) ? 'victim: ' : '',
        briefly(key),
        ports.length ? ` :${ports.join(' :')}` : '',
        priority && (isOver || victims.has(key)) ? h('span.prio', {}, ` prio ${priority}`) : ''
      )
    ),
    others > 0 && h('span.chip.pod', {'data-count': others}, `and ${others} others`)
  ];
}

// Let the pod move from the queue to its tile: first to the right, so that it does not cover what the pod asks for.
// What moves is a copy, as a tile cuts off what is outside of it.
function fly(decision) {
  const from = document.querySelector('.asked-about');
  const to = document.querySelector('.chip.new') || document.querySelector('.tile.best .race');
  if (!from || !to || still()) return;
  const [a, b] = [from.getBoundingClientRect(), to.getBoundingClientRect()];
  const copy = h(
    'span.chip.pod.new.flying',
    {style: {left: `${b.x}px`, top: `${b.y}px`}},
    `+ ${briefly(decision.pod)}`
  );
  document.body.append(copy);
  to.animate([{visibility: 'hidden'}, {visibility: 'hidden'}], pace());
  const way = [{translate: `${a.x - b.x}px ${a.y - b.y}px`}, {translate: `0 ${a.y - b.y}px`}, {translate: 'none'}];
  copy.animate(way, {duration: pace(), easing: 'ease-in-out'}).onfinish = () => copy.remove();
}
