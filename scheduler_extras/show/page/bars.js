// The bars of a tile: resources in use, and points as in a race.

// What others use of a node, what is reserved for nominated pods, what the pod would add (both hatched), and by how much
// that is too much (red).
function bars(name, decision, about, blame) {
  const node = nodes.get(name);
  const wanted = decision ? decision.requests : {};
  const special = Object.keys({...node.room, ...node.used}).filter(each => each.includes('/'));
  const blamed = blame.has('room:pods') ? ['pods'] : [];
  const resources = new Set(['cpu', 'memory', ...special, ...Object.keys(wanted), ...blamed]);
  const shown = [...resources].filter(each => node.room[each] || wanted[each]).slice(0, 4);
  return h(
    'div.bars',
    {},
    shown.map(resource => bar(resource, node, decision, about, blame.has(`room:${resource}`), decision?.reserved[name]))
  );
}

// Whether the predicate about resources has had its turn: before that, no bar tells what it will refuse.
function showsLack(decision) {
  if (!decision) return false;
  const index = decision.refused.findIndex(title => title.includes('Resources') || title.includes('General'));
  return index < 0 || view.step > index;
}

// reservation: for which pods what is reserved, if anything is.
function bar(resource, node, decision, about, isBlamed, reservation) {
  const wanted = decision?.requests[resource] || 0;
  const isHere = decision && node.pods.some(([key]) => key === decision.pod);
  const room = node.room[resource] || 0;
  const used = (node.used[resource] || 0) - (isHere ? wanted : 0);
  // While somebody guesses, this is left out: it would show where the pod does not fit.
  const adds = (about.is === 'out' && !isBlamed) || isGuessing(decision) ? 0 : wanted;
  const reserved = reservation?.amounts[resource] || 0;
  const taken = used + reserved;
  const fits = Math.min(adds, Math.max(room - taken, 0)); // what of that has room
  const lacks = showsLack(decision) ? adds - fits : 0;
  const whole = Math.max(room, taken + fits + lacks, 1);
  const percent = value => `${Math.min((100 * value) / whole, 100)}%`;
  const rounded = `${tenths(resource, used)}/${tenths(resource, room)}${unitOf(resource)[1]}`;
  const held = reserved > 0 && `${amount(resource, reserved)} reserved for ${reservation.for}`;
  const title = [`${amount(resource, used)} in use`, held, `${amount(resource, room)} in all`];
  return h(
    `div.bar${isBlamed ? '.blamed' : ''}${wanted ? '.wanted' : ''}`,
    {title: `${resource}: ${title.filter(Boolean).join(', ')}`},
    h('span', {}, resourceName(resource)),
    h(
      'i.track',
      {'aria-hidden': 'true'},
      h('i.used', {style: {width: percent(used)}}),
      reserved > 0 && h('i.reserved', {style: {left: percent(used), width: percent(reserved)}}),
      adds > 0 && h('i.adds', {style: {left: percent(taken), width: percent(fits)}}),
      lacks > 0 && h('i.over', {style: {left: percent(taken + fits), width: percent(lacks)}})
    ),
    h(
      'span.amounts',
      {'data-rounded': rounded},
      bare(resource, used),
      adds > 0 && h('small', {}, '+' + bare(resource, adds)),
      '/' + amount(resource, room)
    )
  );
}

// The votes that give each node the same very large number, as NodePreferAvoidPods does, and the points of these.
const VERY_LARGE = 100_000;
const cutShort = decision =>
  new Set(decision.votes.filter(vote => !Array.isArray(vote.points) && vote.weight * vote.points > VERY_LARGE));
const pointsCut = decision => sum([...cutShort(decision)].map(vote => vote.weight * vote.points));
const totalInShort = (decision, name, step = Infinity) =>
  (pointsCut(decision) ? '…' : '') + number(totalAt(decision, name, step) - pointsCut(decision));

// The votes that the bars of points leave out: those that give each node the same points, if others do not. If all
// votes do so, only the very large ones are left out.
function cutFromRace(decision) {
  const isEqual = vote => !Array.isArray(vote.points);
  if (decision.votes.every(isEqual)) return cutShort(decision);
  return new Set(decision.votes.filter(vote => isEqual(vote) && vote.weight * vote.points > 0));
}
const cutInWords = decision =>
  [...cutFromRace(decision)].map(vote => `${means(vote.title)}\u00a0${number(vote.weight * vote.points)}`).join(' · ');

// The priorities whose points come up one after another: those whose points bars show. null: all at once.
function raced(decision) {
  if (decision.fit.length <= 1) return [];
  if (nodes.size > MAX_TILES) return [null];
  const cut = cutFromRace(decision);
  const shown = decision.votes.filter(vote => !cut.has(vote) && [].concat(vote.points).some(points => points > 0));
  return shown.length ? shown : [null];
}

// Whether the points of a priority are shown by this step.
const isCounted = (decision, vote, step) => raced(decision).indexOf(vote) < step - decision.refused.length;
const totalAt = (decision, name, step) =>
  sum(partsOf(decision, name).filter((_, i) => isCounted(decision, decision.votes[i], step)));

// The points of a node: a part for each priority, its points times its weight.
function race(decision, name, step) {
  const cut = cutFromRace(decision);
  const start = sum([...cut].map(vote => vote.weight * vote.points));
  const most = Math.max(...decision.fit.slice(0, 2000).map(each => totalOf(decision, each)), 1) - start;
  const parts = partsOf(decision, name).map((part, i) => {
    const vote = decision.votes[i];
    const title = `${vote.title}: ${number(pointsOf(decision, vote, name))} × ${vote.weight}`;
    return (
      part > 0 &&
      !cut.has(vote) &&
      isCounted(decision, vote, step) &&
      h(`i.c${hue(vote.title)}`, {style: {width: `${(100 * part) / most}%`}, title}, number(part))
    );
  });
  return h(
    'div.race',
    {},
    cut.size > 0 && h('i.cut', {title: `the same for all: ${cutInWords(decision)}`}, '…'),
    parts
  );
}

const ALMOST = 0.7; // of the growth: then the numbers fade in, as they would tell the end
function animateAll(selector, keyframes, easing = 'linear') {
  const timing = {duration: pace(), easing};
  document.querySelectorAll(selector).forEach(each => each.animate(keyframes, timing));
}

// Let points grow, as in a race: those of one priority, or all at once when the page plays. A part that grew by its
// width would be too narrow for its number when fitAll measures it.
function grow(isPlaying) {
  if (still()) return;
  animateAll(isPlaying ? '.race' : '.race i:last-child', [{transform: 'scaleX(0)'}, {}], 'ease-out');
  animateAll(isPlaying ? '.race i' : '.race i:last-child', [
    {color: 'transparent'},
    {color: 'transparent', offset: ALMOST},
    {}
  ]);
  animateAll('.total', [{opacity: 0}, {opacity: 0, offset: ALMOST}, {}]);
}
