// Many nodes: a square for each, by zone; coloured by its points, or by why it does not fit.

let selected = null;  // the node whose tile is shown beside the winner, or beside the one that a change would help

function heatMap(names, decision, step) {
  const order = decision && showsPoints(decision, step) ? ranked(decision) : [];
  const totals = order.length ? [totalOf(decision, order[0]), totalOf(decision, order[order.length - 1])] : [0, 0];
  const colours = decision ? coloursOf(decision) : new Map();
  const zones = new Map();
  for (const name of names) {
    const zone = nodes.get(name).zone;
    if (!zones.has(zone)) zones.set(zone, []);
    zones.get(zone).push(name);
  }
  const {size, across} = squareSize([...zones.values()].map(members => members.length));
  const changed = new Set(decision ? newsAbout(decision).flatMap(each => each.names || []) : []);
  const helped = decision && isEnd(decision, step) ? decision.help.split(' ').filter(word => nodes.has(word)) : [];
  const shownTiles = [...new Set([...(order.length ? [order[0]] : []), selected, ...changed, ...order.slice(1, 3), ...helped, ...names.slice(0, 2)])]
    .filter(name => name && nodes.has(name)).slice(0, 2);
  const square = name => {
    const isTile = shownTiles.includes(name);
    const about = decision ? verdict(decision, name, step) : {is: 'open'};
    const element = h(`i.square.${about.is}${isTile ? '.seen' : ''}${changed.has(name) ? '.changed' : ''}${name === decision?.node && isEnd(decision, step) ? '.best' : ''}`, {'data-node': name});
    if (about.is === 'out') element.classList.add(`r${colours.get(decision.out[name])}`);
    else if (order.length && decision.places.has(name)) {
      const share = totals[0] > totals[1] ? (totalOf(decision, name) - totals[1]) / (totals[0] - totals[1]) : 1;
      element.style.setProperty('--share', `${Math.round(15 + 85 * share)}%`);
    }
    return element;
  };
  const map = h('div.map', {style: {'--size': `${size}px`, '--across': across}, onclick: event => choose(event.target.dataset.node),
    onmouseover: event => { if (event.target.dataset.node) event.target.title = inWords(event.target.dataset.node, decision, step); }},
    [...zones].map(([zone, members]) => h('section.zone', {}, h('h4', {}, `${zone || 'no zone'}: ${members.length}`),
      h('div.squares', {}, members.map(square)))));
  return h('div.heat', {}, legend(decision, step, colours, totals), map,
    h('div.tiles.middle', {style: {'--columns': 2, '--rows': 1}}, shownTiles.map(name => tile(name, decision, step))));
}

// The largest squares with which all zones fit between the legend and the two tiles, and how many zones are side by side.
function squareSize(counts) {
  const main = document.querySelector('main');
  const letter = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const wide = Math.max(main?.clientWidth || 700, 300), high = Math.max((main?.clientHeight || 600) * .7 - 6.5 * letter, 120);
  for (let size = 40; size > 4; size--) {
    for (let across = Math.min(counts.length, Math.floor(wide / (6 * letter))); across > 0; across--) {
      const columns = Math.floor((wide / across - 8) / (size + 1));
      const rows = counts.map(count => Math.ceil(count / columns));
      let needed = 0;
      for (let i = 0; i < rows.length; i += across) needed += Math.max(...rows.slice(i, i + across)) * (size + 1) + 1.3 * letter;
      if (needed <= high) return {size, across};
    }
  }
  return {size: 4, across: Math.max(1, Math.min(counts.length, 3))};
}

// What is against nodes, without what differs from node to node.
const kindOf = (decision, group) => plain(decision.against[group].words).replace(/, free [^,]*/g, '').replace(/=[^,;]*, not /g, ' is not ');

// The colours of what is against nodes: the five most frequent kinds have their own.
function coloursOf(decision) {
  const counts = new Map();
  Object.values(decision.out).forEach(group => counts.set(kindOf(decision, group), (counts.get(kindOf(decision, group)) || 0) + 1));
  const byCount = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
  return new Map(decision.against.map((_, group) => [group, Math.min(byCount.indexOf(kindOf(decision, group)), 5)]));
}

function legend(decision, step, colours, totals) {
  if (!decision) return h('p.legend', {}, plural(nodes.size, 'node'));
  const counts = new Map();
  Object.keys(decision.out).forEach(name => {
    if (verdict(decision, name, step).is !== 'out') return;
    const place = colours.get(decision.out[name]);
    const group = counts.get(place) || {count: 0, words: kindOf(decision, decision.out[name])};
    group.count += 1;
    counts.set(place, group);
  });
  const out = sum([...counts.values()].map(each => each.count));
  const left = decision.nodes - out;
  return h('p.legend', {}, h('span', {}, h('i.square.fits', {}), showsPoints(decision, step)
    ? `${left} fit: ${[...new Set([totals[1], totals[0]].map(number))].join(' to ')} points` : `${left} left`),
    [...counts].sort(([a], [b]) => a - b).map(([place, {count, words}]) =>
      h('span', {}, h(`i.square.out.r${place}`, {}), `${count}: ${place === 5 ? 'other reasons' : words}`)));
}

function inWords(name, decision, step) {
  const about = decision ? verdict(decision, name, step) : {};
  const points = decision && showsPoints(decision, step) && decision.places.has(name) ? `, ${number(totalOf(decision, name))} points` : '';
  return about.words ? `${name}: ${plain(about.words)}` : name + points;
}

function choose(name) {
  if (!name) return;
  selected = name;
  clickNode(name);
}
