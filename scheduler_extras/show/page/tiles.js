// Nodes as tiles in fixed places: by zone, then by name. A tile that falls says why, and frames what is to blame.

const byNumber = new Intl.Collator('en', {numeric: true}).compare;
// The names in their order, kept because sorting thousands takes long; `of` says of which nodes.
const places = {names: [], of: '', domain: '', prefix: ''};
function inPlaces() {
  const of = [...nodes].map(([name, node]) => `${node.zone} ${name}`).join();
  if (of !== places.of) {
    const names = [...nodes.keys()].sort((a, b) => byNumber(nodes.get(a).zone, nodes.get(b).zone) || byNumber(a, b));
    Object.assign(places, {names, of, domain: domainOf(names), prefix: prefixOf(names)});
  }
  return places.names;
}

// The domain that all nodes share, such as .eu-central-1.compute.internal: all have it.
function domainOf(names) {
  const [domain] = (names.length > 1 && /[.].*[a-z].*/.exec(names[0])) || [''];
  return names.every(name => name.endsWith(domain)) ? domain : '';
}

// The prefix that all nodes share, such as worker-, up to a separator.
function prefixOf(names) {
  if (names.length < 2) return '';
  const [first] = names;
  let length = 0;
  while (length < first.length && names.every(name => name[length] === first[length] && length + 1 < name.length))
    length++;
  return first.slice(0, first.slice(0, length).search(/[^-._]*$/));
}

function nodeInShort(name) {
  inPlaces();
  return name.endsWith(places.domain) ? name.slice(0, name.length - places.domain.length) : name;
}

// Between ten and 30 nodes, tiles are too narrow for such a prefix.
const isNarrow = () => nodes.size > 9 && nodes.size <= MAX_TILES && !isTelephone();
function nodeOnTile(name) {
  return places.prefix && isNarrow() ? `…${nodeInShort(name).slice(places.prefix.length)}` : nodeInShort(name);
}

// The steps of a decision: the question, each predicate that refuses nodes, the points of one priority after another,
// the end.
const stepsOf = decision => ['question', ...decision.refused, ...raced(decision).map(() => 'points'), 'end'];
const isEnd = (decision, step) => step >= stepsOf(decision).length - 1;
// A single node that fits is chosen without points, as by kube-scheduler.
const showsPoints = (decision, step) => decision.fit.length > 1 && step > decision.refused.length;

// The first predicate that refuses a node, as its place among those that refuse any.
const firstAgainst = (decision, group) =>
  Math.min(...Object.keys(decision.against[group].by).map(title => decision.refused.indexOf(title)));

// What is known about a node at a step: 'fits', 'out' with its cause, or 'open'.
function verdict(decision, name, step) {
  if (name in decision.out) {
    const against = decision.against[decision.out[name]];
    return step > firstAgainst(decision, decision.out[name]) ? {is: 'out', ...against} : {is: 'open'};
  }
  if (!decision.places.has(name)) return {is: 'open'};
  if (isEnd(decision, step) && name === decision.node) return {is: 'best'};
  return {is: showsPoints(decision, step) ? 'fits' : 'open'};
}

// Up to nine tiles stand in rows of equal length, of three at most.
function columnsFor(count) {
  if (count <= 2) return count;
  if (count <= 9) return Math.ceil(count / Math.ceil(count / 3));
  return count <= 24 ? 4 : 5;
}

const MAX_TILES = 30; // nodes; more become squares
function nodeTiles(decision, step) {
  const names = inPlaces();
  if (names.length > MAX_TILES) return heatMap(names, decision, step);
  const columns = columnsFor(names.length);
  const style = {'--columns': columns, '--rows': Math.ceil(names.length / columns)};
  return h(
    'div.tiles',
    {style},
    names.map(name => tile(name, decision, step))
  );
}

// A node: its name and total, bars, why it falls or what it gets, its labels and pods.
function tile(name, decision, step) {
  const node = nodes.get(name);
  const about = decision ? verdict(decision, name, step) : {is: 'open'};
  const blame = new Set(about.blame || []);
  const isScored = decision && showsPoints(decision, step) && decision.places.has(name);
  const said = taintsOf(node).filter(each => saidOf(each, about, blame));
  const isFramed = said.length > 0 || blamedLabels(blame).some(key => saysAbsent(key, about));
  const news = decision ? newsAbout(decision).filter(each => each.names?.includes(name)) : [];
  const fresh = news.flatMap(each => each.fresh[name] || []);
  const isFresh = said.some(each => fresh.includes(each[1]));
  const reasons = Object.entries(about.by || {}).map(([title, each]) => `${title}: ${each.join(', ')}`);
  const frame = (news.length ? '.changed' : '') + (isTied(decision, name, step) ? '.tied' : '');
  return h(
    `article.tile.${about.is}${frame}`,
    {'data-node': name, onclick: () => clickNode(name), title: [name, ...reasons].join('\n')},
    tileHeading(name, decision, about, blame, isScored ? step : null),
    guess.choice === name && h('p.guessed', {}, guessInWords(decision, name, step)),
    bars(name, decision, about, blame),
    about.words &&
      h(
        `p.why${isFramed ? '.blamed' : ''}${isFresh ? '.changed' : ''}`,
        {},
        whyInWords(withEffects(about, said, blame))
      ),
    isScored && race(decision, name, step),
    chips(name, decision, about, blame, fresh)
  );
}

// Whether a node has as many points as the winner, which was then picked at random.
function isTied(decision, name, step) {
  if (!decision?.node || !isEnd(decision, step) || !decision.places.has(name)) return false;
  return name !== decision.node && totalOf(decision, name) === totalOf(decision, decision.node);
}

// A total whose … is left out where names need its room.
const inTwoParts = total => [total.startsWith('…') && h('span.dots', {}, '…'), total.replace('…', '')];

// step: of the points that are shown, or null.
function tileHeading(name, decision, about, blame, step) {
  const mark = {out: '✗', best: '✓'}[about.is];
  return h(
    'h3',
    {},
    mark && h('span.mark', {}, mark),
    ' ',
    h(`span.name${blame.has(HOSTNAME) ? '.blamed' : ''}`, {}, h('bdi', {}, nodeOnTile(name))),
    step !== null &&
      h('b.total', {title: number(totalOf(decision, name))}, inTwoParts(totalInShort(decision, name, step)))
  );
}

// The reason, with the effects of the taints that it names if tiles have room for them.
function withEffects(about, said, blame) {
  if (isNarrow()) return about.words;
  const word = taint => saidOf(taint, about, blame);
  return said.reduce((words, taint) => words.replace(word(taint), taint[1].replace(/.*\//, '')), about.words);
}

// Each word by itself, so that a line breaks between words only; "12 > 7" stays together, and "cpu 12 > 7" if it fits.
function whyInWords(words) {
  const together = plain(words).replace(/(?<=>|maxSkew) | (?=>)/g, '\u00a0');
  return together.split(/ (?!\S+\u00a0>)/).map(word => [inLines(word), ' ']);
}

// Words without the prefixes of labels and resources.
const plain = words => words.replace(/\b[\w-]+(\.[\w-]+)+\//g, '');
const HOSTNAME = 'label:kubernetes.io/hostname'; // the name of the node: it has no chip

// Whether the page waits for a guess.
const isGuessing = decision => guess.on && !guess.choice && decision && !isEnd(decision, view.step);

// How good the guess was, once the winner is known.
function guessInWords(decision, name, step) {
  if (!isEnd(decision, step)) return 'your guess';
  if (!decision.places.has(name)) return 'guess: does not fit';
  const behind = totalOf(decision, ranked(decision)[0]) - totalOf(decision, name);
  return behind ? `guess: ${number(behind)} less` : 'guess: right';
}
