// Nodes as tiles in fixed places: by zone, then by name. A tile that falls says why, and frames what is to blame.

const byNumber = new Intl.Collator('en', {numeric: true}).compare;
const places = {names: [], of: '', domain: '', prefix: ''};  // the order of nodes, and of which ones, as to sort thousands takes long
function inPlaces() {
  const of = [...nodes].map(([name, node]) => `${node.zone} ${name}`).join();
  if (of !== places.of) {
    const names = [...nodes.keys()].sort((a, b) => byNumber(nodes.get(a).zone, nodes.get(b).zone) || byNumber(a, b));
    Object.assign(places, {names, of, domain: domainOf(names), prefix: prefixOf(names)});
  }
  return places.names;
}

// The domain that all nodes share, such as .eu-central-1.compute.internal: it tells none from another.
function domainOf(names) {
  const [domain] = names.length > 1 && /[.].*[a-z].*/.exec(names[0]) || [''];
  return names.every(name => name.endsWith(domain)) ? domain : '';
}

// The prefix that all nodes share, such as worker-, up to a separator.
function prefixOf(names) {
  if (names.length < 2) return '';
  const [first] = names;
  let length = 0;
  while (length < first.length && names.every(name => name[length] === first[length] && length + 1 < name.length)) length++;
  return first.slice(0, first.slice(0, length).search(/[^-._]*$/));
}

function nodeInShort(name) {
  inPlaces();
  return name.endsWith(places.domain) ? name.slice(0, name.length - places.domain.length) : name;
}

// Between ten and 30 nodes, tiles are too narrow for such a prefix.
function nodeOnTile(name) {
  const isNarrow = nodes.size > 9 && nodes.size <= MAX_TILES;
  return places.prefix && isNarrow ? `…${nodeInShort(name).slice(places.prefix.length)}` : nodeInShort(name);
}

// The steps of a decision: the question, each predicate that refuses nodes, the points, the end.
const stepsOf = decision => ['question', ...decision.refused, ...(decision.fit.length ? ['points'] : []), 'end'];
const isEnd = (decision, step) => step >= stepsOf(decision).length - 1;
const showsPoints = (decision, step) => decision.fit.length > 0 && step > decision.refused.length;

// The first predicate that refuses a node, as its place among those that refuse any.
const firstAgainst = (decision, group) => Math.min(...Object.keys(decision.against[group].by).map(title => decision.refused.indexOf(title)));

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

const MAX_TILES = 30;  // nodes; more become squares
function nodeTiles(decision, step) {
  const names = inPlaces();
  if (names.length > MAX_TILES) return heatMap(names, decision, step);
  const columns = names.length <= 2 ? names.length : names.length <= 9 ? Math.ceil(names.length / Math.ceil(names.length / 3)) : names.length <= 24 ? 4 : 5;
  const style = {'--columns': columns, '--rows': Math.ceil(names.length / columns)};
  return h('div.tiles', {style}, names.map(name => tile(name, decision, step)));
}

// A node: its name and total, bars, why it falls or what it gets, its labels and pods.
function tile(name, decision, step) {
  const node = nodes.get(name);
  const about = decision ? verdict(decision, name, step) : {is: 'open'};
  const blame = new Set(about.blame || []);
  const scored = decision && showsPoints(decision, step) && decision.places.has(name);
  const mark = about.is === 'out' ? '✗' : about.is === 'best' ? '✓' : '';
  const news = decision ? newsAbout(decision).filter(each => each.names?.includes(name)) : [];
  return h(`article.tile.${about.is}${news.length ? '.changed' : ''}`, {'data-node': name, onclick: () => clickNode(name),
    title: [name, ...Object.entries(about.by || {}).map(([title, reasons]) => `${title}: ${reasons.join(', ')}`)].join('\n')},
    h('h3', {}, mark && h('span.mark', {}, mark), h(`span.name${blame.has(HOSTNAME) ? '.blamed' : ''}`, {}, h('bdi', {}, nodeOnTile(name))), scored && h('b.total', {title: number(totalOf(decision, name))}, totalInShort(decision, name))),
    guess.choice === name && h('p.guessed', {}, guessInWords(decision, name, step)),
    bars(name, node, decision, about, blame),
    about.words && h('p.why', {}, plain(about.words).replace(/(?<=, free) /g, '\u00a0').split(' ').map(word => [h('span', {}, word), ' '])),
    scored && race(decision, name),
    chips(node, decision, about, blame, news.flatMap(each => each.fresh[name] || [])));
}

// Words without the prefixes of labels and resources, and with the names of resources as at the bars.
const plain = words => words.replace(/\b[\w-]+(\.[\w-]+)+\//g, '').replace('needs memory', 'needs mem');
const HOSTNAME = 'label:kubernetes.io/hostname';  // the name of the node: it has no chip

// Whether the page waits for a guess.
const isGuessing = decision => guess.on && !guess.choice && decision && !isEnd(decision, view.step);

// How good the guess was, once the winner is known.
function guessInWords(decision, name, step) {
  if (!isEnd(decision, step)) return 'your guess';
  if (!decision.places.has(name)) return 'guess: does not fit';
  const behind = totalOf(decision, ranked(decision)[0]) - totalOf(decision, name);
  return behind ? `guess: ${number(behind)} less` : 'guess: right';
}

// What others use of a node, what the pod would add (hatched), and by how much that is too much (red): it would tell
// where the pod does not fit, so not while somebody guesses.
function bars(name, node, decision, about, blame) {
  const wanted = decision ? decision.requests : {};
  const isThere = decision && node.pods.some(([key]) => key === decision.pod);
  const special = Object.keys({...node.room, ...node.used}).filter(each => each.includes('/'));
  const resources = [...new Set(['cpu', 'memory', ...special, ...Object.keys(wanted), ...(blame.has('room:pods') ? ['pods'] : [])])];
  return h('div.bars', {}, resources.filter(each => node.room[each] || wanted[each]).slice(0, 4).map(resource => {
    const room = node.room[resource] || 0, isOut = about.is === 'out' && !blame.has(`room:${resource}`);
    const adds = isOut || isGuessing(decision) ? 0 : wanted[resource] || 0;
    const used = (node.used[resource] || 0) - (isThere ? wanted[resource] || 0 : 0);
    const percent = value => `${Math.min(100 * value / Math.max(room, used + adds, 1), 100)}%`;
    const over = Math.max(used + adds - room, 0);
    return h(`div.bar${blame.has(`room:${resource}`) ? '.blamed' : ''}`, {title: `${resource}: ${amount(resource, used)} in use, ${amount(resource, room)} in all`},
      h('span', {}, resourceName(resource)),
      h('i.track', {'aria-hidden': 'true'}, h('i.used', {style: {width: percent(used)}}),
        adds > 0 && h('i.adds', {style: {left: percent(used), width: percent(adds - over)}}),
        over > 0 && h('i.over', {style: {left: percent(Math.max(room, used)), width: percent(Math.min(over, adds))}})),
      h('span.amounts', {'data-rounded': `${tenths(resource, used)}/${tenths(resource, room)}${unitOf(resource)[1]}`}, bare(resource, used), adds > 0 && h('small', {}, '+' + bare(resource, adds)), '/' + amount(resource, room)));
  }));
}

// The votes that give each node the same large number, such as that of NodePreferAvoidPods, and the points of these.
const cutShort = decision => new Set(decision.votes.filter(vote => !Array.isArray(vote.points) && vote.weight * vote.points > 1000));
const pointsCut = decision => sum([...cutShort(decision)].map(vote => vote.weight * vote.points));
const totalInShort = (decision, name) => (pointsCut(decision) ? '…' : '') + number(totalOf(decision, name) - pointsCut(decision));

// The votes that the bars of points leave out: those that give each node the same points, if others do not. If all votes
// do so, only the very large ones are left out.
function cutFromRace(decision) {
  const isEqual = vote => !Array.isArray(vote.points);
  if (decision.votes.every(isEqual)) return cutShort(decision);
  return new Set(decision.votes.filter(vote => isEqual(vote) && vote.weight * vote.points > 0));
}
const cutInWords = decision => [...cutFromRace(decision)].map(vote => `${means(vote.title)}\u00a0${number(vote.weight * vote.points)}`).join(' · ');

// The points of a node: a part for each priority, its points times its weight.
function race(decision, name) {
  const cut = cutFromRace(decision);
  const start = sum([...cut].map(vote => vote.weight * vote.points));
  const most = Math.max(...decision.fit.slice(0, 2000).map(each => totalOf(decision, each)), 1) - start;
  const parts = partsOf(decision, name).map((part, i) => {
    const vote = decision.votes[i];
    const title = `${vote.title}: ${number(pointsOf(decision, vote, name))} × ${vote.weight}`;
    return part > 0 && !cut.has(vote) && h(`i.c${hue(vote.title)}`, {style: {width: `${100 * part / most}%`}, title}, number(part));
  });
  return h('div.race', {}, cut.size > 0 && h('i.cut', {title: `the same for all: ${cutInWords(decision)}`}, '…'), parts);
}

// The pods on a node, and its taints and labels; the pod in question first, what is to blame in a red frame, then what is new.
function chips(node, decision, about, blame, fresh) {
  const is = key => decision && key === decision.pod;
  const goes = new Set(view.done && decision?.outcome?.victims || []);
  const marks = [...(node.cordoned ? [['cordon', 'cordoned']] : []), ...node.taints.map(each => [`taint:${each}`, each])];
  const asked = JSON.stringify(decision ? decision.asks : '');
  const labels = Object.entries(node.labels).map(([key, value]) => [`label:${key}`, `${key}=${value}`, asked.includes(key.split('/').pop())]);
  labels.sort((a, b) => blame.has(b[0]) - blame.has(a[0]) || b[2] - a[2]);
  const isEarly = ([token, text]) => blame.has(token) || fresh.includes(text);
  const absent = [...blame].filter(each => each.startsWith('label:') && each !== HOSTNAME && !labels.some(([token]) => token === each));
  const pods = [...node.pods].reverse().filter(([key]) => !is(key));
  pods.sort((a, b) => blame.has(`pod:${b[0]}`) - blame.has(`pod:${a[0]}`) || goes.has(b[0]) - goes.has(a[0]));
  const others = node.used.pods - node.pods.length;
  // The effect of a taint is a word of its own: a line breaks before it, not within it.
  const words = text => text.replace(/[\w.-]+\//, '').replace(/=$/, '').split(/(?<=:)(?=\w+$)/).map(each => h('span', {}, each));
  const chip = (token, text, kind) => h(`span.chip.${kind}${blame.has(token) ? '.blamed' : ''}${fresh.includes(text) ? '.changed' : ''}`, {title: text}, words(text));
  return h('div.chips', {},
    about.is === 'best' && h('span.chip.pod.new', {'data-pod': decision.pod, title: decision.pod}, `+ ${briefly(decision.pod)}`),
    marks.filter(isEarly).map(([token, text]) => chip(token, text, 'mark')),
    labels.filter(isEarly).map(([token, text]) => chip(token, text, 'label')),
    absent.map(token => h('span.chip.label.blamed', {}, `no ${token.slice(6)}`)),
    pods.map(([key, priority, ports]) => h(`span.chip.pod${goes.has(key) ? '.goes' : ''}${blame.has(`pod:${key}`) ? '.blamed' : ''}`,
      {title: key}, goes.has(key) ? 'victim: ' : '', briefly(key), ports.length ? ` :${ports.join(' :')}` : '', priority ? ` prio ${priority}` : '')),
    others > 0 && h('span.chip.pod', {}, `and ${others} others`),
    marks.filter(each => !isEarly(each)).map(([token, text]) => chip(token, text, 'mark')),
    labels.filter(each => !isEarly(each)).map(([token, text, isAsked]) => chip(token, text, isAsked ? 'label.asked' : 'label')));
}

// Have the points grow, all at once: which node is ahead is seen as in a race. A part that grew by its width would be
// too narrow for its number when fitAll measures it.
function grow() {
  if (still()) return;
  document.querySelectorAll('.race').forEach(each => each.animate([{transform: 'scaleX(0)'}, {}], {duration: pace(), easing: 'ease-out'}));
}

// Have the pod move from the queue to its tile: first to the right, so that it does not cover what the pod asks for. What
// moves is a copy, as a tile cuts off what is outside of it.
function fly(decision) {
  const from = document.querySelector('.asked-about'), to = document.querySelector('.chip.new') || document.querySelector('.tile.best .race');
  if (!from || !to || still()) return;
  const [a, b] = [from.getBoundingClientRect(), to.getBoundingClientRect()];
  const copy = h('span.chip.pod.new.flying', {style: {left: `${b.x}px`, top: `${b.y}px`}}, `+ ${briefly(decision.pod)}`);
  document.body.append(copy);
  to.animate([{visibility: 'hidden'}, {visibility: 'hidden'}], pace());
  const way = [{translate: `${a.x - b.x}px ${a.y - b.y}px`}, {translate: `0 ${a.y - b.y}px`}, {translate: 'none'}];
  copy.animate(way, {duration: pace(), easing: 'ease-in-out'})
    .onfinish = () => copy.remove();
}
