// Many nodes: a square for each, by zone; coloured by its points, or by why it does not fit.

let selected = null; // the node whose tile is shown beside the winner, or beside the one that a change would help

function heatMap(names, decision, step) {
  const order = decision && showsPoints(decision, step) ? ranked(decision) : [];
  const totals = [...new Set(order.map(name => totalOf(decision, name)))]; // the most first
  const colours = decision ? coloursOf(decision) : new Map();
  const changed = new Set(decision ? newsAbout(decision).flatMap(each => each.names || []) : []);
  const tiled = twoTiles(names, decision, step, order, changed);
  const isBest = name => name === decision?.node && isEnd(decision, step);
  const square = name => {
    const about = decision ? verdict(decision, name, step) : {is: 'open'};
    const tied = isTied(decision, name, step) ? '.tied' : '';
    const frame = (tiled.includes(name) ? '.seen' : '') + (changed.has(name) ? '.changed' : '') + tied;
    const element = h(`i.square.${about.is}${frame}${isBest(name) ? '.best' : ''}`, {'data-node': name});
    if (about.is === 'open') {
      element.style.setProperty('--share', `${Math.round(70 * fullness(nodes.get(name)))}%`);
      element.classList.toggle('marked', taintsOf(nodes.get(name)).length > 0);
    }
    if (about.is === 'out') element.classList.add(`r${colours.get(decision.out[name])}`);
    else if (order.length && decision.places.has(name)) {
      element.style.setProperty('--share', shareOf(totals.indexOf(totalOf(decision, name)), totals));
    }
    return element;
  };
  return h(
    'div.heat',
    {},
    legend(decision, step, colours, totals),
    mapOf(names, square, decision, step),
    h(
      'div.tiles',
      {style: {'--columns': 2, '--rows': 1}},
      tiled.map(name => tile(name, decision, step))
    )
  );
}

// The nodes that are shown as tiles, too: the winner, and the first of these. While predicates filter: nodes that are
// left.
function twoTiles(names, decision, step, order, changed) {
  const helped = decision && isEnd(decision, step) ? decision.help.split(' ') : [];
  const isLeft = name => !decision || verdict(decision, name, step).is !== 'out';
  const first = [names.find(isLeft), names.findLast(isLeft), ...names.slice(0, 2)];
  const actual = isWhatIf() && isEnd(decision, step) ? view.at.node : null;
  const wanted = [order[0], actual, selected, ...changed, ...order.slice(1, 3), ...helped, ...first];
  return [...new Set(wanted)].filter(name => nodes.has(name)).slice(0, 2);
}

// The share of CPU or memory that is in use, whichever is more.
const fullness = ({room, used}) =>
  Math.min(Math.max(...['cpu', 'memory'].map(each => (used[each] || 0) / (room[each] || Infinity))), 1);

// How green a square is: 15 % with the fewest points, 100 % with the most. In between, what counts is the rank among
// all totals, as most of them may be close together.
function shareOf(rank, totals) {
  const share = totals.length > 1 ? 1 - rank / (totals.length - 1) : 1;
  return `${Math.round(15 + 85 * share)}%`;
}

function mapOf(names, square, decision, step) {
  const zones = new Map();
  for (const name of names) {
    const {zone} = nodes.get(name);
    if (!zones.has(zone)) zones.set(zone, []);
    zones.get(zone).push(name);
  }
  const tell = ({target}) => {
    if (target.dataset.node) target.title = inWords(target.dataset.node, decision, step);
  };
  return h(
    'div.map',
    {onclick: event => choose(event.target.dataset.node), onmouseover: tell},
    [...zones].map(([zone, members]) =>
      h(
        'section.zone',
        {},
        h('h4', {}, `${zone || 'no zone'}: ${members.length}`),
        h('div.squares', {}, members.map(square))
      )
    )
  );
}

// In pixels: the side of a square, between squares, between zones.
const [MIN_SQUARE, MAX_SQUARE] = [4, 60];
const GAP = 1;
const BETWEEN = 10;

// Make the squares as large as fits, with the same number of zones in each row. Height that is left makes them higher.
function fitSquares() {
  const map = document.querySelector('.map');
  if (!map) return;
  const zones = [...map.children].map(zone => {
    const head = zone.firstChild;
    return {zone, count: zone.lastChild.childElementCount, wide: head.offsetWidth, high: head.offsetHeight};
  });
  const [wide, high] = [map.clientWidth - 1, map.clientHeight];
  let size = MAX_SQUARE;
  while (size > MIN_SQUARE && !rowsThatFit(zones, size + GAP, wide, high)) size--;
  const rows = rowsThatFit(zones, size + GAP, wide, high) || rowsThatFit(zones, size + GAP, wide, Infinity);
  const left = high - sum(rows.map(row => row.height));
  const more = Math.floor(left / sum(rows.map(row => row.lines)));
  map.style.setProperty('--size', `${size}px`);
  map.style.setProperty('--more', `${Math.max(Math.min(more, size / 3), 0)}px`);
  for (const {members, widths} of rows)
    members.forEach(({zone}, i) => {
      zone.style.width = `${widths[i]}px`;
    });
}

// The zones in rows of equal length, as many side by side as fit; null if none of that is low enough.
function rowsThatFit(zones, pitch, wide, high) {
  const isNarrowEnough = group => group.length === 1 || sum(group.map(each => each.wide + BETWEEN)) <= wide + BETWEEN;
  for (let length = zones.length; length > 0; length--) {
    if (zones.length % length) continue;
    const starts = zones.map((_, i) => i).filter(i => i % length === 0);
    const groups = starts.map(i => zones.slice(i, i + length));
    const rows = groups.every(isNarrowEnough) && groups.map(group => rowOf(group, pitch, wide));
    if (rows && sum(rows.map(row => row.height)) <= high) return rows;
  }
  return null;
}

// Zones side by side: as few lines of squares as fit. The last zone has the rest of the width.
function rowOf(members, pitch, wide) {
  const room = wide - BETWEEN * (members.length - 1);
  for (let lines = Math.ceil((sum(members.map(each => each.count)) * pitch) / room); ; lines++) {
    const widths = members.map(each => Math.max(Math.ceil(each.count / lines) * pitch, each.wide));
    if (sum(widths) > room && lines < Math.max(...members.map(each => each.count))) continue;
    widths[widths.length - 1] += room - sum(widths);
    return {members, widths, lines, height: lines * pitch + members[0].high};
  }
}

// What is against nodes, without what differs from node to node.
const kindOf = (decision, group) =>
  plain(decision.against[group].words)
    .replace(/([\w-]+ [\d.]+) > [\d.]+( free)?/g, 'needs $1')
    .replace(/=[^,;]*, not /g, ' is not ')
    .replace(/not with .*/, 'anti-affinity');

// Each kind of reason keeps its colour in all decisions, whatever the amounts are, from the first one on that has it; of
// two kinds with the same colour in one decision, the rarer one gets another.
const colourOfKind = new Map([['cordoned', 0]]);

// The colours of what is against nodes: the five most frequent kinds have their own.
function coloursOf(decision) {
  const kinds = decision.against.map((_, group) => kindOf(decision, group));
  const counts = new Map();
  Object.values(decision.out).forEach(group => counts.set(kinds[group], (counts.get(kinds[group]) || 0) + 1));
  const frequent = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, 5);
  const places = new Map();
  const late = [];
  for (const kind of frequent) {
    const place = colourOfKind.get(withoutAmounts(kind));
    if (place === undefined || [...places.values()].includes(place)) late.push(kind);
    else places.set(kind, place);
  }
  for (const kind of late) {
    const free = [0, 1, 2, 3, 4].filter(each => ![...places.values()].includes(each));
    const place = free.find(each => ![...colourOfKind.values()].includes(each)) ?? free[0];
    places.set(kind, place);
    if (!colourOfKind.has(withoutAmounts(kind))) colourOfKind.set(withoutAmounts(kind), place);
  }
  return new Map(kinds.map((kind, group) => [group, places.get(kind) ?? 5]));
}
const withoutAmounts = kind => kind.replace(/[\d.]+\w*/g, '');

// What the colours mean.
function legend(decision, step, colours, totals) {
  if (!decision) return h('p.legend', {}, plural(nodes.size, 'node'));
  const groups = new Map(); // place of a colour -> how many nodes have it by this step, and why
  for (const name of Object.keys(decision.out)) {
    if (verdict(decision, name, step).is !== 'out') continue;
    const place = colours.get(decision.out[name]);
    const words = place === 5 ? 'other reasons' : kindOf(decision, decision.out[name]);
    groups.set(place, {words, count: (groups.get(place)?.count || 0) + 1});
  }
  const left = decision.nodes - sum([...groups.values()].map(each => each.count));
  const inShort = total => (pointsCut(decision) ? '…' : '') + number(total - pointsCut(decision));
  const points = [...new Set([totals.at(-1), totals[0]].map(inShort))].join(' to ');
  return h(
    'p.legend',
    {},
    showsPoints(decision, step)
      ? h('span', {}, h(`i.square.fits${totals.length > 1 ? '.scale' : ''}`, {}), `${left} fit: ${points} points`)
      : left > 0 && h('span', {}, h('i.square.use', {}), `${left} left`),
    [...groups]
      .sort(([a], [b]) => a - b)
      .map(([place, {count, words}]) =>
        h('span', {title: words}, h(`i.square.out.r${place}`, {}), h('span.words', {}, `${count}: ${words}`))
      )
  );
}

function inWords(name, decision, step) {
  const about = decision ? verdict(decision, name, step) : {};
  const points =
    decision && showsPoints(decision, step) && decision.places.has(name)
      ? `, ${number(totalOf(decision, name))} points`
      : '';
  return about.words ? `${name}: ${plain(about.words)}` : name + points;
}

function choose(name) {
  if (!name) return;
  const isSeen = selected === name;
  selected = name;
  // In a guess, the first click shows the tile of a square.
  if (isSeen || !isGuessing(view.at)) clickNode(name);
  else render();
}
