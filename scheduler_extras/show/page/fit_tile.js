// What a tile leaves out where it has no room, in which order, and how that is counted.

// A low tile has no amounts. In this order, a tile gives up: what the pod adds, decimals, labels, all pods but one, keys
// and prefixes of labels that the pod asks for, the last pod, effects of taints, the end of the name of the pod that it
// gets, amounts, what the pod asks for and taints, large letters, the bars of a node that falls, further lines of its
// name, and words of the reason. Nodes that fit keep their bars, so that they can be compared, and the winner keeps its
// pod.
function fitTile(tile, isTall) {
  shortenTexts(tile);
  const [bars, chips] = ['.bars', '.chips'].map(each => tile.querySelector(each));
  const asked = askedOnAllTiles(tile);
  const ranked = chipsByRank(tile);
  const [main, lesser] = [true, false].map(is => ranked.filter(chip => isMain(chip) === is));
  const rest = counterOf(tile, ranked);
  bars.classList.toggle('half', !isTall);
  const steps = [
    ...lesser.slice(0, -1).map(rest.giveUp),
    () => asked.forEach(withoutKey),
    () => asked.forEach(withoutPrefix),
    ...lesser.slice(-1).map(rest.giveUp),
    () => bars.classList.toggle('compact', isTall),
    () => tile.querySelectorAll('.chip.mark').forEach(shortenTaint),
    () => intoOneRow(chips),
    ...main.filter(each => isTall && each.matches('.best .asked:not(.scored)')).map(rest.giveUp),
    () => bars.classList.add('half'),
    ...main.flatMap(chip => [rest.giveUp(chip), () => intoOneRow(chips)]),
    () => tile.classList.add('small'),
    () => tile.matches('.out') && bars.remove(),
    () => tile.querySelectorAll('.chip.label.changed').forEach(each => each.remove()),
    () => wrap(tile.querySelector('.name'), false)
  ];
  while (steps.length && isHigh(tile)) steps.shift()();
  tile.querySelectorAll('.chip.short').forEach(chip => unfold(chip, tile, lesser.map(rest.giveUp)));
  if (isTall) takeBack(bars, 'half', tile);
  rest.restore();
  return rest;
}

// Texts that are too wide for the tile, whatever its height is.
function shortenTexts(tile) {
  const all = selector => [...tile.querySelectorAll(selector)];
  const areCut = all('.bar').map(fitAmounts);
  if (areCut.includes(true)) all('.amounts small').forEach(each => each.remove());
  if (all('.asked').some(chip => isWide(chip) || isFolded(chip))) askedOnAllTiles(tile).forEach(withoutKey);
  const wide = selector => all(selector).filter(isWide);
  wide('.pod').forEach(pod => pod.querySelector('.prio')?.remove());
  wide('.new').forEach(pod => pod.classList.add('condensed'));
  wide('.label:not(.asked)').forEach(withoutKey);
}

// The labels that the pod asks for: they read alike on all tiles.
const askedOnAllTiles = tile => tile.parentNode.querySelectorAll('.chip.asked');

// Undo a step if there is room for that after all.
function takeBack(element, step, tile) {
  element.classList.remove(step);
  if (isHigh(tile)) element.classList.add(step);
}

// Beside the name of a resource: without what the pod adds, or without decimals. Return whether amounts are cut.
function fitAmounts(bar) {
  const amounts = bar.querySelector('.amounts');
  if (!isWide(bar.firstChild)) return false;
  amounts.querySelector('small')?.remove();
  if (isWide(bar.firstChild)) amounts.textContent = amounts.dataset.rounded;
  return true;
}

// Let a name take several lines, around the total, or one.
function wrap(name, wraps) {
  const head = name.parentNode;
  const total = head.querySelector('.total');
  head.classList.toggle('wraps', wraps);
  if (total) name[wraps ? 'before' : 'after'](total);
}

// A taint in one line: without its effect if that is the most frequent one, and if need be without its value.
function shortenTaint(chip) {
  chip.classList.add('short');
  const text = chip.textContent.replace(/:NoSchedule$/, '').replace(/:PreferNoSchedule$/, ':Prefer…');
  chip.textContent = text;
  if (isWide(chip)) withoutValue(chip);
}

// Its effect tells a taint without its value from a label.
function withoutValue(taint) {
  taint.textContent = taint.textContent.replace(/=[^:]*/, '').replace(/^[^:]*$/, '$&:No…');
}

// A taint that is still too wide has two lines, if pods and labels that decide nothing can make room for these.
function unfold(chip, tile, others) {
  const text = chip.textContent;
  if (!isWide(chip)) return;
  chip.classList.remove('short');
  chip.replaceChildren(...inLines(text));
  while (others.length && isHigh(tile)) others.shift()();
  if (!isHigh(tile)) return;
  chip.classList.add('short');
  chip.textContent = text;
}

// The key of a label that the pod asks for stands at the left, too.
function withoutKey(chip) {
  chip.textContent = chip.title.replace(/^[^=]*=/, '');
}

// The values of a label that the pod asks for may share a prefix, as do eu-west-1a and eu-west-1b: …1a says enough.
function withoutPrefix(chip) {
  chip.textContent = chip.dataset.brief;
}

// All chips side by side, if it is enough to leave out the values of taints, and to cut the end of the name of the pod
// that the tile gets. Less than that much of a name says little.
const MIN_NAME = 6; // rem
function intoOneRow(chips) {
  const marks = [...chips.querySelectorAll('.mark.short')];
  const before = marks.map(each => each.textContent);
  const pod = chips.querySelector('.new:not(:only-child)');
  const isTight = () => isWide(chips) || (pod && isWide(pod) && inRem(pod.offsetWidth) < MIN_NAME);
  chips.classList.add('row');
  if (isTight()) marks.forEach(withoutValue);
  if (!isTight()) return;
  chips.classList.remove('row');
  marks.forEach((each, i) => (each.textContent = before[i]));
}

// A word of a reason that is too long for a line breaks at a hyphen, or before a value.
function breakWords(tile) {
  for (const word of [...tile.querySelectorAll('.why span')].filter(isFolded)) {
    const parts = word.textContent.split(/(?<=-)|(?==)/);
    word.replaceWith(...parts.map(part => h('span', {}, part)));
  }
}

// Whether a chip or a word has several lines.
const isFolded = chip => chip.offsetHeight > 1.5 * parseFloat(getComputedStyle(chip).lineHeight);

// What a tile keeps longest: what is to blame, victims, reservations, pods to which the pod refers, taints, what the pod
// asks for, and other pods. The winner keeps what the pod asks for: it has won in spite of its taints.
const RANKS = ['.blamed', '.goes', '.held', '.neighbor', '.mark', '.asked', '.pod', '.label'];
const RANKS_OF_WINNER = ['.blamed', '.goes', '.held', '.neighbor', '.asked', '.mark', '.pod', '.label'];

// Whether a chip tells what decides: of pods to which the pod refers, the first one does.
const isMain = chip =>
  chip.matches('.mark, .asked, .blamed, .goes, .held, :not(.neighbor) + .neighbor, .neighbor:first-child');

// The chips that a tile may give up, the last ones first.
function chipsByRank(tile) {
  const ranks = tile.matches('.best') ? RANKS_OF_WINNER : RANKS;
  const rank = chip => ranks.findIndex(each => chip.matches(each));
  return [...tile.querySelectorAll('.chip:not(.changed, .new)')].sort((a, b) => rank(a) - rank(b)).reverse();
}

const LESSER = '.chip:not(.changed, .new, .blamed, .goes, .held, .mark, .asked)'; // pods and labels that decide nothing

// Counts the chips that a tile gives up, puts back those that have room after all, and shows the number of the others.
function counterOf(tile, all) {
  const rest = h('span.chip.rest', {title: all.map(each => each.title || each.textContent).join('\n')});
  const chips = tile.querySelector('.chips');
  const inOrder = [...chips.children];
  const gone = new Set();
  const giveUp = chip => () => {
    chip.remove();
    gone.add(chip);
  };
  // A later step may have made room for what an earlier one gave up. But the number of pods says more than a label that
  // nobody asks for.
  const restore = () => {
    if (chips.childElementCount === 1) takeBack(chips, 'row', tile);
    for (const chip of [...gone].reverse()) {
      if (chip.matches('.label:not(.asked)') && countOf('.pod') > 0) continue;
      const next = inOrder.slice(inOrder.indexOf(chip) + 1).find(each => each.parentNode === chips);
      chips.insertBefore(chip, next || null);
      if (isHigh(tile) || isWide(chips) || isWide(chip)) chip.remove();
      else gone.delete(chip);
    }
  };
  const countOf = kind =>
    sum([...gone].filter(each => each.matches(kind)).map(each => Number(each.dataset.count || 1)));
  // Labels are counted only if no pod is left out.
  const wordings = () => {
    const pods = countOf('.pod');
    const what = pods ? 'pod' : 'label';
    const more = chips.querySelector(`.${what}:not(.new)`) ? '+' : '';
    return [more + plural(countOf(`.${what}`), what), ...(pods && more ? [`+${pods}`] : [])];
  };
  const hasRoom = () => {
    if (isHigh(tile) || isWide(chips)) return false;
    const pod = chips.querySelector('.new'); // its name says more than the count
    const isBesidePod = pod && pod.offsetTop === rest.offsetTop;
    return !(isBesidePod && isWide(pod));
  };
  // Put the count at the end, or that of pods behind the last chip that has room for it. Return whether there is one.
  const place = words => {
    rest.textContent = words;
    const others = [...chips.children].filter(each => each !== rest).reverse();
    for (const chip of countOf('.pod') ? others : others.slice(0, 1)) {
      chip.after(rest);
      if (hasRoom()) return true;
    }
    return false;
  };
  // The number of all pods says more than the name of one, and that of all labels more than the last one.
  const show = () => {
    if (countOf('.pod, .label') === 0 || isHigh(tile) || wordings().some(place)) return;
    rest.remove();
    const kind = countOf('.pod') ? '.pod:not(.neighbor)' : '.label';
    const last = [...chips.querySelectorAll(kind)].filter(each => each.matches(LESSER)).at(-1);
    if (!last) return;
    giveUp(last)();
    show();
  };
  return {giveUp, restore, show};
}

// A reason that is too long ends with …
function fitWords(tile) {
  const parts = [...tile.querySelectorAll('.why span')].flatMap(word =>
    [...word.childNodes].filter(each => each instanceof Text)
  );
  const dots = new Text('…');
  while (parts.length > 1 && isHigh(tile)) {
    parts.pop().remove();
    parts.at(-1).data = parts.at(-1).data.replace(/[,;]$/, '');
    parts.at(-1).after(dots);
  }
}
