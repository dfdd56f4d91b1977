// The right side: the rules in force, what they did, and what if they were others.

// The name of a priority. In large letters its ending is left out, as it stands in the heading.
const nameOf = title =>
  title.split(/(?=[+])/).map(part => {
    const [, name, ending] = part.match(/^(.+?)(Priority)?$/s);
    return h('span', {}, name, h('wbr'), h('span.ending', {}, ending));
  });

// A rule that refuses no node, but may preempt pods.
const isPostFilter = title => /^(Default)?Preemption$/.test(title);

// Whether a predicate was asked about any node: not if those before it have refused all.
function isAsked(decision, title) {
  const earlier = decision.rules.slice(0, decision.rules.indexOf(title));
  const before = decision.refused.filter(each => earlier.includes(each)).length;
  const isOut = group => firstAgainst(decision, group) < before;
  return !isPostFilter(title) && (decision.all || decision.fit.length > 0 || !Object.values(decision.out).every(isOut));
}

const rulesOf = (policy, decision) =>
  policy ? policy.by[decision?.by] || Object.values(policy.by)[0] : {predicates: [], priorities: [], always: []};

const isConfiguration = () => known.policy?.object?.kind === 'KubeSchedulerConfiguration';

// The Policies between which an edit is shown: since the newest decision, or before it, if the pod was tried with
// another one.
function policiesAround(decision) {
  if (!decision) return [known.policy, known.policy];
  if (isNewest(decision) && decision.policy !== known.policy) return [decision.policy, known.policy];
  const last = known.entries.findLast(
    each => each.kind === 'decision' && each.pod === decision.pod && each.n < decision.n
  );
  return [(last || decision).policy, decision.policy];
}

// The rules in force; those that an edit has changed are marked. A click switches a predicate off, in the page only:
// what if?
function rightSide(decision, step) {
  const [before, rules] = policiesAround(decision).map(policy => rulesOf(policy, decision));
  return h(
    'aside.right',
    {},
    h(
      'div.lists',
      {},
      h('h2', {}, isConfiguration() ? 'Filter' : 'Predicates', h('small', {}, ' (click: what if?)')),
      predicatesList(decision, step, rules, before),
      h('h2', {}, `${isConfiguration() ? 'Score' : 'Priorities'} × weight`, h('small', {}, ' (hover: − +)')),
      prioritiesList(decision, step, rules, before)
    ),
    isWhatIf() && whatIfBox(decision, whoMoves())
  );
}

const WHATEVER_THE_NODE = ' (whatever the node)'; // the end of the title of a rule that has rejected a pod

// What a pod asks for, and the predicates that are about it, in a Policy and in a configuration.
const ABOUT = {
  podAffinity: ['MatchInterPodAffinity', 'InterPodAffinity'],
  podAntiAffinity: ['MatchInterPodAffinity', 'InterPodAffinity'],
  nodeAffinity: ['MatchNodeSelector', 'NodeAffinity'],
  nodeSelector: ['MatchNodeSelector', 'NodeAffinity'],
  tolerations: ['PodToleratesNodeTaints', 'TaintToleration'],
  DoNotSchedule: ['EvenPodsSpread', 'PodTopologySpread'],
  'host port': ['PodFitsHostPorts', 'NodePorts']
};
function isAskedFor(title, decision) {
  const asks = decision ? decision.asks.flat().join(' ') : '';
  return Object.entries(ABOUT).some(([what, titles]) => asks.includes(what) && titles.includes(title));
}

let showsAllRules = false; // whether somebody has clicked “12 others”

// Many rules do not all have room: those that refuse nodes, those that the pod asks for, and those that are edited come
// first.
function predicatesList(decision, step, rules, before) {
  const isNew = title => !before.predicates.includes(title);
  const gone = before.predicates.filter(title => !rules.predicates.includes(title));
  const refusedSoFar = decision ? decision.refused.slice(0, step) : [];
  const isMany = rules.predicates.length + rules.priorities.length > 13 && !showsAllRules;
  const isShown = title =>
    !isMany || refusedSoFar.includes(title) || isAskedFor(title, decision) || title === whatIf.off || isNew(title);
  const unnamed = refusedSoFar.filter(title => !rules.predicates.includes(title) && !title.endsWith(WHATEVER_THE_NODE));
  const shown = [...rules.predicates.filter(isShown), ...unnamed];
  const others = rules.predicates.filter(title => !isShown(title));
  const isOver = step > (decision?.refused.length || 0);
  const edit = title => {
    if (gone.includes(title)) return 'gone';
    return isNew(title) && !unnamed.includes(title) ? 'new' : '';
  };
  return h(
    'ul.rules',
    {},
    [...shown, ...gone].map(title => predicateLine(title, decision, step, rules, edit(title))),
    others.length > 0 &&
      h(
        'li.rest',
        {
          title: others.join('\n'),
          onclick: () => {
            showsAllRules = true;
            render();
          }
        },
        shown.length + gone.length ? `${others.length} others` : `${others.length} predicates`,
        h('b', {}, isOver ? '✓' : '')
      )
  );
}

function predicateLine(title, decision, step, rules, edit) {
  const [kind, words] = stateOf(title, decision, step, rules, edit);
  const about = rules.always.includes(title) ? `${title}: active whatever the Policy names` : title;
  return h(
    `li${kind}`,
    {role: 'button', tabindex: '0', title: about, onclick: () => switchOff(title)},
    h('span', {}, title),
    h('b', {}, words)
  );
}

// What a predicate has done by this step: the class of its line, and a few words.
function stateOf(title, decision, step, rules, edit) {
  if (edit) return [`.edited.${edit}`, edit];
  if (whatIf.off === title) return ['.off', 'off'];
  if (!decision) return [view.done ? '.unasked' : '', ''];
  if (decision.refused.slice(0, step).includes(title)) {
    const isNow = step > 0 && stepsOf(decision)[step] === title;
    return [isNow ? '.now' : '.refuses', `−${nodesOut(decision, title)}`];
  }
  const victims = isPostFilter(title) && view.done && decision.outcome?.victims.length;
  if (victims) return ['.refuses', plural(victims, 'victim')];
  if (isAsked(decision, title) && hasRun(decision, step, title)) return ['.passes', '✓'];
  return [view.done ? '.unasked' : '', ''];
}

// How many nodes a predicate has refused.
const nodesOut = (decision, title) =>
  Object.values(decision.out).filter(group => title in decision.against[group].by).length;

// Whether a predicate comes before the one of this step.
function hasRun(decision, step, title) {
  if (step === 0) return false;
  if (step > decision.refused.length) return true;
  const now = decision.rules.indexOf(decision.refused[step - 1]);
  return now < 0 || decision.rules.indexOf(title) < now;
}

function prioritiesList(decision, step, rules, before) {
  const now =
    decision &&
    showsPoints(decision, step) &&
    !isEnd(decision, step) &&
    !view.plays &&
    raced(decision)[step - decision.refused.length - 1];
  const weights = new Map(before.priorities);
  const gone = before.priorities.filter(([title]) => !rules.priorities.some(each => each[0] === title));
  return h(
    'ul.rules.weights',
    {},
    rules.priorities.map(([title, inForce]) => priorityLine(title, inForce, weights.get(title), title === now?.title)),
    gone.map(([title]) => h('li.edited.gone', {title}, h('span', {}, nameOf(title)), h('b', {}, 'gone')))
  );
}

// A priority with its weight. before: its weight before the last edit, if it was there. isNow: its points come up.
function priorityLine(title, inForce, before, isNow) {
  const weight = whatIf.weights[title] ?? inForce;
  const isTried = weight !== inForce;
  const was = isTried ? inForce : before;
  return h(
    `li${isTried ? '.off' : before !== inForce ? '.edited' : isNow ? '.comes' : ''}`,
    {title: `${title}: ${means(title)}`},
    h(`i.key.c${hue(title)}`, {}),
    h('span', {}, nameOf(title)),
    h('button', {'aria-label': `less ${title}`, onclick: () => weigh(title, weight - 1, inForce)}, '−'),
    h('b', {}, was !== undefined && was !== weight && `×${was} → `, `×${weight}`),
    h('button', {'aria-label': `more ${title}`, onclick: () => weigh(title, weight + 1, inForce)}, '+')
  );
}

const MAX_MOVES = 20; // in the box; fit.js leaves out those without room

function whatIfBox(decision, moves) {
  const limit = decision?.nodes > 500 ? ': only up to 500 nodes' : '';
  return h(
    'div.what-if',
    {},
    h(
      'p',
      {},
      h('b', {}, `What if: ${moves.count} of ${plural(moves.of, 'pod')} would move`),
      moves.unknown ? ` (${moves.unknown} not known${limit})` : ''
    ),
    h(
      'div.moves',
      {'data-more': Math.max(moves.count - MAX_MOVES, 0)},
      moves.moved.slice(0, MAX_MOVES).map(moveInWords)
    ),
    h(
      'p',
      {},
      h('span.more-moves'),
      h('button', {onclick: forgetWhatIf}, 'back'),
      editedPolicy() && h('button', {onclick: () => show('policy')}, 'copy Policy')
    )
  );
}

// With the names of nodes as on their tiles. In large letters without the node that it would leave.
function moveInWords({pod, from, to}) {
  const [before, after] = [from, to].map(name => (name ? nodeOnTile(name) : 'pending'));
  return h(
    'p.move',
    {title: `${short(pod)}: ${from || 'pending'} → ${to || 'pending'}`},
    h('span', {}, briefly(pod), h('span.leaves', {}, ':')),
    ' ',
    h('span.leaves', {}, before),
    ' ',
    h('span', {}, `→\u00a0${after}`)
  );
}

function forgetWhatIf() {
  Object.assign(whatIf, {off: null, weights: {}});
  render();
}
