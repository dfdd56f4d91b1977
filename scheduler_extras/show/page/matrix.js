// The matrix: nodes by rules. Passed, failed, not asked; points as they were given, normalized, times the weight.

const MAX_ROWS = 30; // in all
const FEW_ROWS = 16; // of more nodes: what a screen has room for
const maxColumns = () => (isBig() ? 9 : 13);
let showsAllRows = false;

// It fills step by step, like the tiles.
function matrix(decision, step) {
  if (!decision) return h('p.empty', {}, `${noDecision()}.`);
  const isScored = showsPoints(decision, step);
  const refused = decision.refused.slice(0, step);
  const all = decision.rules.filter(title => !ASKED_OF_NO_NODE.test(title) || refused.includes(title));
  const isMany = all.length + decision.votes.length > maxColumns();
  const predicates = isMany ? all.filter(title => refused.includes(title) || isAskedFor(title, decision)) : all;
  const cut = cutShort(decision); // the totals leave these points out
  const votes = decision.votes.filter(vote => !isZero(vote) && !cut.has(vote));
  const shown = new Set(rowsOf(decision));
  const names = isScored ? [...shown] : inPlaces().filter(name => shown.has(name));
  const isWhole = names.length === decision.nodes;
  const shownFits = sum(names.map(name => tiesOf(decision, name, isWhole)));
  const hiddenFits = isScored ? decision.fit.length - shownFits : 0;
  const isLastFit = (name, i) => decision.places.has(name) && !decision.places.has(names[i + 1]);
  const gap = h(
    'tr.gap',
    {},
    h('td', {colspan: 2 + predicates.length + votes.length}, `⋮ ${plural(hiddenFits, 'other node')} that fit`)
  );
  return h(
    'div.matrix',
    {},
    h(
      'table',
      {},
      headOfMatrix(decision, predicates, votes),
      h(
        'tbody',
        {},
        names.map((name, i) => [
          rowOfMatrix(decision, step, name, predicates, votes, isWhole),
          hiddenFits > 0 && isLastFit(name, i) && gap
        ])
      )
    ),
    !isWhole && h('p', {}, h('button', {onclick: showAllRows}, `show all ${decision.nodes} nodes`)),
    belowMatrix(
      decision,
      all.filter(title => !predicates.includes(title) && title !== whatIf.off),
      isScored,
      step
    )
  );
}

// Rules that stand among the predicates, and have no column unless they have refused a node.
const ASKED_OF_NO_NODE = /^(devices|room for nominated pods|(Default)?Preemption)$/;

// Whether a priority gives no node any points.
const isZero = vote => ![].concat(vote.points).some(points => points);

function showAllRows() {
  showsAllRows = true;
  render();
}

function headOfMatrix(decision, predicates, votes) {
  const head = (title, kind, weight) =>
    h(
      `th.${kind}`,
      {scope: 'col', title},
      h('span', {}, nameOf(title), weight !== undefined && [' ', h('span.times', {}, `× ${weight}`)])
    );
  return h(
    'thead',
    {},
    h(
      'tr',
      {},
      h('th', {scope: 'col'}, 'Node'),
      predicates.map(title => head(title, 'rule')),
      votes.map(vote => head(vote.title, `rule.t${hue(vote.title)}`, vote.weight)),
      decision.fit.length > 1
        ? h('th.rule', {scope: 'col'}, h('span', {}, 'Total'))
        : h('th', {scope: 'col'}, 'Why not')
    )
  );
}

function rowOfMatrix(decision, step, name, predicates, votes, isWhole) {
  const about = verdict(decision, name, step);
  const isScored = showsPoints(decision, step) && decision.places.has(name);
  const cause = isWhole ? causeOf : kindInWords;
  const ties = tiesOf(decision, name, isWhole);
  return h(
    `tr.${about.is}`,
    {onclick: () => clickNode(name)},
    h('th', {scope: 'row', title: name}, nodeInShort(name), isScored && ties > 1 && ` +${ties - 1} alike`),
    predicates.map(title => predicateCell(decision, step, name, title)),
    about.is === 'out' && h('td.cause', {colspan: votes.length + 1}, cause(decision, name)),
    isScored && votes.map(vote => pointsCell(decision, step, vote, name)),
    isScored && h('td.sum', {title: number(totalOf(decision, name))}, totalInShort(decision, name, step)),
    !isScored && about.is !== 'out' && h('td', {colspan: votes.length + 1}, '')
  );
}

// What the table leaves out, and how to read it.
function belowMatrix(decision, rest, isScored, step) {
  const zeros = decision.votes.filter(isZero).map(vote => vote.title);
  const words = [
    rest.length > 0 &&
      step > decision.refused.length &&
      `${plural(rest.length, isConfiguration() ? 'other filter plugin' : 'other predicate')} that no node has failed`,
    isScored && zeros.length > 0 && `no points from ${zeros.join(', ')}`,
    ...[...cutShort(decision)].map(
      vote =>
        isScored &&
        `… = ${number(vote.weight * vote.points)}: ${vote.title} ${number(vote.points)} × ${vote.weight}, for all`
    ),
    '✓ passes · ✗ fails · blank: not asked, as the node is out already. Points: as given → normalized.',
    ...decision.votes.map(vote => isScored && normalized(decision, vote))
  ];
  return [
    words.filter(Boolean).map(each => h('p', {}, each)),
    decision.notes.map(note => h('p.warn', {title: note}, withoutDomain(note)))
  ];
}

// How many nodes a row stands for: of many nodes, for all that fit with as many points.
function tiesOf(decision, name, isWhole) {
  if (!decision.places.has(name)) return 0;
  return isWhole ? 1 : decision.fit.filter(each => totalOf(decision, each) === totalOf(decision, name)).length;
}

// The nodes that fit, the best one first, then the others. Of many, one for each total, and one for each kind of reason,
// the most frequent one first, unless somebody asks for all.
function rowsOf(decision) {
  const names = [...ranked(decision), ...inPlaces().filter(name => name in decision.out)];
  if (names.length <= MAX_ROWS || showsAllRows) return names;
  const kinds = [...nodesByKind(decision).values()].sort((a, b) => b.length - a.length).slice(0, FEW_ROWS - 5);
  const totals = new Map([...ranked(decision)].reverse().map(name => [totalOf(decision, name), name]));
  return [...[...totals.values()].reverse().slice(0, FEW_ROWS - kinds.length), ...kinds.map(([name]) => name)];
}

// The nodes that do not fit, by the kind of reason.
function nodesByKind(decision) {
  const byKind = new Map();
  for (const name of inPlaces().filter(each => each in decision.out)) {
    const kind = kindOf(decision, decision.out[name]);
    if (!byKind.has(kind)) byKind.set(kind, []);
    byKind.get(kind).push(name);
  }
  return byKind;
}

const causeOf = (decision, name) => plain(decision.against[decision.out[name]].words);

// The reason of a node that stands for all with such a reason.
function kindInWords(decision, name) {
  const others = nodesByKind(decision).get(kindOf(decision, decision.out[name])).length - 1;
  return causeOf(decision, name) + (others ? `, and ${plural(others, 'node')} like it` : '');
}

function predicateCell(decision, step, name, title) {
  const isNow = step > 0 && decision.refused[step - 1] === title;
  if (!isNow && !hasRun(decision, step, title)) return h('td.open', {}, '');
  const against = name in decision.out ? decision.against[decision.out[name]].by : {};
  if (title in against) return h('td.no', {title: against[title].join(', ')}, '✗');
  const first = Math.min(...Object.keys(against).map(each => decision.rules.indexOf(each)));
  const isAsked = decision.all || name in decision.out === false || decision.rules.indexOf(title) < first;
  return isAsked ? h('td.yes', {title: `${title}: passes`}, '✓') : h('td.open', {title: `${title}: not asked`}, '');
}

function pointsCell(decision, step, vote, name) {
  if (!isCounted(decision, vote, step)) return h('td.open', {}, '');
  const points = pointsOf(decision, vote, name),
    raw = vote.raw === null ? points : rawOf(decision, vote, name);
  const came = vote.reduced && raw !== null && raw !== points ? `${number(raw)} → ${number(points)}` : number(points);
  return h(
    'td.points',
    {title: `${vote.title}: ${came} × ${vote.weight}`},
    vote.weight === 1 || !points ? came : `${came} × ${vote.weight}`
  );
}

// In words, what a priority made of scores that say nothing about points by themselves.
function normalized(decision, vote) {
  if (!vote.reduced || vote.raw === null || JSON.stringify(vote.raw) === JSON.stringify(vote.points)) return '';
  if (!Array.isArray(vote.raw) && !Array.isArray(vote.points)) {
    return `${vote.title}: all nodes have the score ${number(vote.raw)}, which becomes ${number(vote.points)} points`;
  }
  const byScore = [...decision.fit].sort((a, b) => rawOf(decision, vote, a) - rawOf(decision, vote, b));
  const [least, most] = [byScore[0], byScore.at(-1)];
  const scores = [least, most].map(name => number(rawOf(decision, vote, name)));
  const points = [least, most].map(name => number(pointsOf(decision, vote, name)));
  return `${vote.title}: scores from ${scores.join(' to ')} become ${points.join(' to ')} points`;
}
