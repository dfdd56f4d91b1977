// What a key puts in the place of the nodes: the timeline, the pending pods, a manifest, the Policy, the keys.

let sought = ''; // what the timeline is searched for

function timeline() {
  return h(
    'div.timeline',
    {},
    h(
      'p',
      {},
      h('input', {
        id: 'find',
        type: 'search',
        value: sought,
        placeholder: 'find a pod, a node, a reason',
        'aria-label': 'find',
        oninput: event => {
          sought = event.target.value;
          refill();
        }
      }),
      ' ',
      h('span.count', {}, inTotal())
    ),
    h('ol', {}, foundLines())
  );
}

// Scroll the timeline to the decision that is shown.
function showCurrentLine() {
  const [list, current] = ['.timeline', '.timeline .current'].map(each => document.querySelector(each));
  if (current) list.scrollTop = current.offsetTop - list.offsetTop - (list.clientHeight - current.offsetHeight) / 2;
}

const isSought = text => text.toLowerCase().includes(sought.toLowerCase());
const found = () =>
  (isGuessing(view.at) ? sofar() : known.entries)
    .filter(each => isSought(lineOf(each)) && !isPartOfEdit(each))
    .slice(-400)
    .reverse();
const nodesFound = () => (sought ? inPlaces().filter(name => isSought(nodeInWords(name))) : []);
const nodeInWords = name => `${name}: ${marksOf(nodes.get(name)).join(', ')}`;

function inTotal() {
  const count = nodesFound().length;
  return plural(found().length, 'entry', 'entries') + (count ? ` and ${plural(count, 'node')}` : '');
}

// Nodes with such a name, taint or label, as they are beside the decision that is shown; then the entries.
function foundLines() {
  const open = name => {
    selected = name;
    show('nodes');
  };
  const ofNode = name =>
    h(
      'li.node-line',
      {onclick: () => open(name)},
      h('time', {}, 'node'),
      h('span', {title: name}, withoutDomain(nodeInWords(name)))
    );
  return [...nodesFound().slice(0, 100).map(ofNode), ...found().map(line)];
}

function refill() {
  document.querySelector('.timeline .count').textContent = inTotal();
  document.querySelector('.timeline ol').replaceChildren(...foundLines());
}

// A line of the timeline; that of a decision is a link.
function line(entry) {
  const time = h('time', {}, clock(entry.at));
  if (entry.kind !== 'decision')
    return h(
      `li.${entry.kind}${entry.problem ? '.no' : ''}`,
      {},
      time,
      h('span', {title: editInWords(entry)}, withoutDomain(editInWords(entry)))
    );
  return h(
    `li.decision${entry === view.at ? '.current' : ''}${entry.node === null ? '.stays' : ''}`,
    {},
    time,
    h(
      'a',
      {
        href: addressOf(entry),
        onclick: event => {
          event.preventDefault();
          view.mode = 'nodes';
          go(entry);
        },
        title: lineOf(entry)
      },
      withoutDomain(lineOf(entry))
    )
  );
}

// The pods that are pending, as in the queue on the left; first the one that is shown. With the least change that would
// help, and when they are tried again.
function pendingBoard() {
  const {at} = view;
  const until = !at || isNewest(at) ? Infinity : at.n;
  const lasts = new Map(
    decisions()
      .filter(each => each.n <= until)
      .map(each => [each.pod, each])
  );
  const {pods, count} = queueNow();
  const isShown = each => each.pod === at?.pod;
  const own =
    at && !at.node && !isGone(at) ? [{pod: at.pod, for: 'node', again: 0, ...pods.find(isShown), attempts: 1}] : [];
  const waiting = [...own, ...pods.filter(each => !isShown(each))].map(each => [each, lasts.get(each.pod)]);
  if (!waiting.length) return h('p.empty', {}, 'No pod is pending.');
  const more = count - pods.length;
  return h(
    'div.pending',
    {},
    waiting
      .slice(0, 60)
      .map(([each, decision]) =>
        h(
          'article',
          {onclick: () => decision && go(decision)},
          h('h3', {}, short(each.pod), h('small', {'data-again': each.again}, again(each))),
          decision?.help &&
            !decision.outcome?.remedy &&
            h(
              'p.help',
              {title: verb(decision.help)},
              h('b', {}, 'It would help to '),
              withoutDomain(verb(decision.help))
            ),
          decision &&
            !decision.node &&
            !decision.help &&
            decision.fit.length === 0 &&
            h('p.help', {}, 'More than one thing is in the way on each node.'),
          decision && h('p', {title: decision.message}, withoutDomain(byFrequency(decision.message))),
          decision?.outcome?.remedy &&
            h('p.warn', {title: decision.outcome.remedy}, withoutDomain(decision.outcome.remedy)),
          decision?.outcome?.waits &&
            h('p.warn', {title: decision.outcome.waits}, withoutDomain(`waits: ${decision.outcome.waits}`))
        )
      ),
    more > 0 && h('p', {}, `and ${more} more`)
  );
}

function manifestOf(decision) {
  return h('div.text', {}, textInLines(decision ? decision.yaml : ''));
}

// A text whose lines are elements, for fitRows.
const textInLines = (text, id) =>
  h(
    'pre',
    {id},
    text
      .trimEnd()
      .split('\n')
      .map(each => h('div', {}, each || h('br')))
  );

function policyView() {
  const text = isWhatIf() ? editedPolicy() : known.policy?.text;
  if (isWhatIf() && text) navigator.clipboard?.writeText(text).catch(() => {});
  const rules = known.policy ? Object.entries(known.policy.by) : [];
  return h(
    'div.text',
    {},
    h(
      'p',
      {},
      isWhatIf()
        ? `${known.policy.path}, as it would be. Nothing is written; copy it yourself.`
        : known.policy?.path || ''
    ),
    textInLines(text || rules.map(([name, each]) => `${name}:\n  ${each.lines.join('\n  ')}`).join('\n'), 'policy-text')
  );
}

const KEYS = [
  ['→ ←', 'next step, step back (also Space, Page Down, Page Up)'],
  ['↓ ↑', 'next decision, the one before'],
  ['Home End', 'first decision, the newest (End: LIVE again)'],
  ['n', 'nodes'],
  ['m', 'matrix: nodes by rules'],
  ['t', 'timeline'],
  ['/', 'find'],
  ['p', 'pending pods: what would help'],
  ['y', 'manifest of the pod'],
  ['e', 'Policy'],
  ['g', 'guess first: click a node'],
  ['a', 'by hand: new decisions wait for →'],
  ['b', 'big letters'],
  ['s', 'save as page'],
  ['?', 'this list']
];
const help = () =>
  h(
    'table.help',
    {},
    KEYS.map(([keys, text]) =>
      h('tr', {}, h('th', {}, DOES[keys] ? h('button', {onclick: DOES[keys]}, keys) : keys), h('td', {}, text))
    )
  );

// One line for an operator, and the last thing that has happened.
function footer() {
  const entries = sofar().filter(each => !(view.live && each.problem)); // live, a problem is named on top
  const isNews = each => !each.pod && each.kind !== 'run' && entries.at(-1).at - each.at < 3;
  // An edit shows even if pods go elsewhere because of it.
  const last = (view.live && entries.findLast(isNews)) || entries.at(-1);
  const recent = known.entries.filter(each => each.node && last && last.at - each.at < 10);
  const reasons = new Map();
  const lasts = new Map(entries.filter(each => each.pod).map(each => [each.pod, each]));
  if (isConnected()) lasts.forEach((_, pod) => known.queue.pods.some(each => each.pod === pod) || lasts.delete(pod));
  lasts.forEach(each => {
    if (!each.node) reasons.set(mainReason(each.message), (reasons.get(mainReason(each.message)) || 0) + 1);
  });
  const top = [...reasons].sort((a, b) => b[1] - a[1])[0];
  const queue = queueNow();
  const {leader, refused} = connection.operator;
  const words = [
    leader,
    isBesideCluster() && recent.length > 1 && `${number(recent.length / 10)} pods/s`,
    `${pendingNow(view.at)} pending`,
    isBesideCluster() && queue.count > 0 && h('span', {'data-since': queue.oldest}, ago(queue.oldest)),
    refused > 0 && h('b.no', {}, `${plural(refused, 'write')} refused`),
    reasons.size > 1 && `most often: ${top[0]}`
  ];
  return h(
    'footer',
    {},
    known.problem && !view.live
      ? h('p.no', {role: 'alert', title: known.problem}, withoutDomain(withoutFolder(known.problem)))
      : h(
          'p',
          {title: last && editInWords(last)},
          last && h('time', {}, clock(last.at)),
          ' ',
          last && withoutDomain(withoutCount(editInWords(last)))
        ),
    h(
      'p.operator',
      {},
      words.filter(Boolean).flatMap((each, i) => (i ? [' · ', each] : [each]))
    )
  );
}

const ago = since => `oldest ${Math.max(0, Math.round(Date.now() / 1000 - since))} s`;
