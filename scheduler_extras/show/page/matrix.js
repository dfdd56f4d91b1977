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
  const votes = decision.votes.filter(vote => [].concat(vote.points).some(points => points));
  const zeros = decision.votes.filter(vote => !votes.includes(vote)).map(vote => vote.title);
  const names = rowsOf(decision);
  const head = (title, kind, weight) =>
    h(
      `th.${kind}`,
      {scope: 'col', title},
      h('span', {}, nameOf(title), weight !== undefined && [' ', h('span.times', {}, `× ${weight}`)])
    );
  const rows = names.map(name =>
    h(
      `tr${name === decision.node ? '.best' : ''}`,
      {onclick: () => clickNode(name)},
      h('th', {scope: 'row', title: name}, nodeInShort(name)),
      predicates.map(title => predicateCell(decision, name, title)),
      decision.places.has(name)
        ? votes.map(vote => pointsCell(decision, vote, name))
        : h('td.cause', {colspan: votes.length + 1}, plain(decision.against[decision.out[name]].words)),
      decision.places.has(name) && h('td.sum', {title: number(totalOf(decision, name))}, totalInShort(decision, name))
    )
  );
  const left = decision.nodes - names.length;
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
    left > 0 &&
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
          `and ${left} other nodes`
        )
      ),
    rest > 0 &&
      h(
        'p',
        {title: all.filter(title => !predicates.includes(title)).join('\n')},
        `${plural(rest, 'other predicate')} that no node has failed`
      ),
    zeros.length > 0 && decision.fit.length > 0 && h('p', {}, `no points from ${zeros.join(', ')}`),
    h('p.key', {}, '✓ passes · ✗ fails · blank: not asked, as the node is out already. Points: as given → normalized.'),
    decision.votes
      .map(vote => normalized(decision, vote))
      .filter(Boolean)
      .map(line => h('p', {}, line)),
    decision.notes.map(note => h('p.warn', {title: note}, withoutDomain(note)))
  );
}

// The nodes that fit, the best one first, then the others. Of many, the best ones and one for each reason, unless
// somebody asks for all.
function rowsOf(decision) {
  const names = [...ranked(decision), ...inPlaces().filter(name => name in decision.out)];
  if (names.length <= MAX_ROWS || showsAllRows) return names;
  const groups = new Map(
    Object.entries(decision.out)
      .reverse()
      .map(([name, group]) => [group, name])
  );
  const best = ranked(decision).slice(0, Math.max(MAX_ROWS - groups.size, 5));
  return [...new Set([...best, ...groups.values(), ...names])].slice(0, MAX_ROWS);
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
