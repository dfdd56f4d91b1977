// Many nodes: a square for each, by zone; coloured by its points, or by why it does not fit.

let selected = null;  // the node whose tile is shown beside the winner

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
  const size = squareSize(names.length, zones.size);
  const square = name => {
    const about = decision ? verdict(decision, name, step) : {is: 'open'};
    const element = h(`i.square.${about.is}${name === decision?.node && isEnd(decision, step) ? '.best' : ''}`, {'data-node': name});
    if (about.is === 'out') element.classList.add(`r${colours.get(decision.out[name])}`);
    else if (order.length && decision.places.has(name)) {
      const share = totals[0] > totals[1] ? (totalOf(decision, name) - totals[1]) / (totals[0] - totals[1]) : 1;
      element.style.setProperty('--share', `${Math.round(15 + 85 * share)}%`);
    }
    return element;
  };
  const map = h('div.map', {style: {'--size': `${size}px`}, onclick: event => choose(event.target.dataset.node),
    onmouseover: event => { if (event.target.dataset.node) event.target.title = inWords(event.target.dataset.node, decision, step); }},
    [...zones].map(([zone, members]) => h('section.zone', {}, h('h4', {}, `${zone || 'no zone'}: ${members.length}`),
      h('div.squares', {}, members.map(square)))));
  const shownTiles = [...new Set([...(order.length ? [order[0]] : []), selected, ...order.slice(1, 3), ...names.slice(0, 2)])]
    .filter(name => name && nodes.has(name)).slice(0, 2);
  return h('div.heat', {}, legend(decision, step, colours, totals), map,
    h('div.tiles.middle', {style: {'--columns': 2, '--rows': 1}}, shownTiles.map(name => tile(name, decision, step))));
}

// The largest squares with which all nodes fit into the space between the legend and the two tiles.
function squareSize(count, zones) {
  const wide = Math.max(document.querySelector('main')?.clientWidth || 700, 300) - 20;
  const high = Math.max(innerHeight * .45 - 40 * Math.ceil(zones / 3), 120);
  for (let size = 40; size > 4; size--) {
    const columns = Math.floor((wide / Math.min(zones, 3) - 10) / (size + 1));
    const rows = Math.ceil(count / Math.max(zones, 1) / columns);
    if (rows * (size + 1) * Math.ceil(zones / 3) <= high) return size;
  }
  return 4;
}

// The colours of the reasons: the five most frequent have their own.
function coloursOf(decision) {
  const counts = new Map();
  Object.values(decision.out).forEach(i => counts.set(i, (counts.get(i) || 0) + 1));
  const byCount = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
  return new Map(byCount.map((group, place) => [group, Math.min(place, 5)]));
}

function legend(decision, step, colours, totals) {
  if (!decision) return h('p.legend', {}, plural(nodes.size, 'node'));
  const counts = new Map();
  Object.keys(decision.out).forEach(name => {
    if (verdict(decision, name, step).is !== 'out') return;
    const place = colours.get(decision.out[name]);
    const group = counts.get(place) || {count: 0, words: decision.against[decision.out[name]].words.replace(/, free [^,]*/, '')};
    group.count += 1;
    counts.set(place, group);
  });
  const out = sum([...counts.values()].map(each => each.count));
  const left = decision.nodes - out;
  return h('p.legend', {}, h('span', {}, h('i.square.fits', {}), showsPoints(decision, step)
    ? `${left} fit: ${number(totals[1])} to ${number(totals[0])} points` : `${left} left`),
    [...counts].sort(([a], [b]) => a - b).map(([place, {count, words}]) =>
      h('span', {}, h(`i.square.out.r${place}`, {}), `${count}: ${place === 5 ? 'other reasons' : words}`)));
}

function inWords(name, decision, step) {
  const about = decision ? verdict(decision, name, step) : {};
  const points = decision && showsPoints(decision, step) && decision.places.has(name) ? `, ${number(totalOf(decision, name))} points` : '';
  return about.words ? `${name}: ${about.words}` : name + points;
}

function choose(name) {
  if (!name) return;
  selected = name;
  clickNode(name);
}
