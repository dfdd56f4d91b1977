// The matrix: nodes by rules. Passed, failed, not asked; points as they were given, normalized, times the weight.

const MAX_ROWS = 30;
const maxColumns = () => (isBig() ? 9 : 13);
let showsAllRows = false;

function matrix(decision) {
  if (!decision) return h('p.empty', {}, `${noDecision()}.`);
  const all = decision.rules.filter(
    title => !/^(devices|room for nominated pods|Preemption)$/.test(title) || decision.refused.includes(title)
  );
  const predicates =
    all.length + decision.votes.length > maxColumns() ? all.filter(title => decision.refused.includes(title)) : all;
  const rest = all.length - predicates.length;
  const cut = cutShort(decision); // the totals leave these points out
  const isZero = vote => ![].concat(vote.points).some(points => points);
  const votes = decision.votes.filter(vote => !isZero(vote) && !cut.has(vote));
  const zeros = decision.votes.filter(isZero).map(vote => vote.title);
  const names = rowsOf(decision);
  const isWhole = names.length === decision.nodes;
  const head = (title, kind, weight) =>
    h(
      `th.${kind}`,
      {scope: 'col', title},
      h('span', {}, nameOf(title), weight !== undefined && [' ', h('span.times', {}, `× ${weight}`)])
    );
  const hiddenFits = decision.fit.length - names.filter(name => decision.places.has(name)).length;
  const gap = h(
    'tr.gap',
    {},
    h('td', {colspan: 2 + predicates.length + votes.length}, `⋮ ${plural(hiddenFits, 'other node')} that fit`)
  );
  const isLastFit = (name, i) => decision.places.has(name) && !decision.places.has(names[i + 1]);
  const rows = names.map((name, i) => [
    h(
      `tr${name === decision.node ? '.best' : ''}`,
      {onclick: () => clickNode(name)},
      h('th', {scope: 'row', title: name}, nodeInShort(name)),
      predicates.map(title => predicateCell(decision, name, title)),
      decision.places.has(name)
        ? votes.map(vote => pointsCell(decision, vote, name))
        : h('td.cause', {colspan: votes.length + 1}, isWhole ? causeOf(decision, name) : kindInWords(decision, name)),
      decision.places.has(name) && h('td.sum', {title: number(totalOf(decision, name))}, totalInShort(decision, name))
    ),
    hiddenFits > 0 && isLastFit(name, i) && gap
  ]);
  return h(
    'div.matrix',
    {},
    h(
      'table',
      {},
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', {scope: 'col'}, 'Node'),
          predicates.map(title => head(title, 'rule')),
          votes.map(vote => head(vote.title, `rule.t${hue(vote.title)}`, vote.weight)),
          h('th.rule', {scope: 'col'}, h('span', {}, decision.fit.length ? 'Total' : 'Why not'))
        )
      ),
      h('tbody', {}, rows)
    ),
    !isWhole &&
      h(
        'p',
        {},
        h(
          'button',
          {
            onclick: () => {
              showsAllRows = true;
              render();
            }
          },
          `show all ${decision.nodes} nodes`
        )
      ),
    rest > 0 &&
      h(
        'p',
        {title: all.filter(title => !predicates.includes(title)).join('\n')},
        `${plural(rest, 'other predicate')} that no node has failed`
      ),
    zeros.length > 0 && decision.fit.length > 0 && h('p', {}, `no points from ${zeros.join(', ')}`),
    [...cut].map(vote =>
      h(
        'p',
        {},
        `… = ${number(vote.weight * vote.points)}: ${vote.title} ${number(vote.points)} × ${vote.weight}, for all`
      )
    ),
    h('p.key', {}, '✓ passes · ✗ fails · blank: not asked, as the node is out already. Points: as given → normalized.'),
    decision.votes
      .map(vote => normalized(decision, vote))
      .filter(Boolean)
      .map(line => h('p', {}, line)),
    decision.notes.map(note => h('p.warn', {title: note}, withoutDomain(note)))
  );
}

// The nodes that fit, the best one first, then the others. Of many, the best ones and one for each kind of reason, the
// most frequent one first, unless somebody asks for all.
function rowsOf(decision) {
  const names = [...ranked(decision), ...inPlaces().filter(name => name in decision.out)];
  if (names.length <= MAX_ROWS || showsAllRows) return names;
  const kinds = [...nodesByKind(decision).values()].sort((a, b) => b.length - a.length).slice(0, MAX_ROWS - 5);
  return [...ranked(decision).slice(0, MAX_ROWS - kinds.length), ...kinds.map(([name]) => name)];
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

function predicateCell(decision, name, title) {
  const against = name in decision.out ? decision.against[decision.out[name]].by : {};
  if (title in against) return h('td.no', {title: against[title].join(', ')}, '✗');
  const first = Math.min(...Object.keys(against).map(each => decision.rules.indexOf(each)));
  const isAsked = decision.all || name in decision.out === false || decision.rules.indexOf(title) < first;
  return isAsked ? h('td.yes', {title: `${title}: passes`}, '✓') : h('td.open', {title: `${title}: not asked`}, '');
}

function pointsCell(decision, vote, name) {
  const points = pointsOf(decision, vote, name),
    raw = vote.raw === null ? points : rawOf(decision, vote, name);
  const came = vote.reduced && raw !== null && raw !== points ? `${number(raw)} → ${number(points)}` : number(points);
  return h(
    'td.points',
    {title: `${vote.title}: ${came} × ${vote.weight}`},
    vote.weight === 1 || !points ? came : `${came} × ${vote.weight}`
  );
}

function span(values) {
  const all = [].concat(values);
  return `${number(Math.min(...all))} to ${number(Math.max(...all))}`;
}

// In words, what a priority made of scores that say nothing about points by themselves.
function normalized(decision, vote) {
  if (!vote.reduced || vote.raw === null || JSON.stringify(vote.raw) === JSON.stringify(vote.points)) return '';
  if (!Array.isArray(vote.raw) && !Array.isArray(vote.points)) {
    return `${vote.title}: ${number(vote.raw)} → ${number(vote.points)}, as all nodes have the same score`;
  }
  return `${vote.title}: scores from ${span(vote.raw)} become ${span(vote.points)} points`;
}
