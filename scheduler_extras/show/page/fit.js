// What to leave out where there is no room: main.js calls fitAll once the page stands.

const isWide = each => each.scrollWidth > each.clientWidth + 1;
const isHigh = each => each.scrollHeight > each.clientHeight + 1;

// Whether a text is cut off, even if by less than a pixel.
function isCut(each) {
  const text = new Range();
  text.selectNodeContents(each);
  return text.getBoundingClientRect().width > each.getBoundingClientRect().width + .01;
}

const MIN_TALL = 6.8;  // rem: the height from which a tile has room for a name of two lines

// Make everything fit: whole words and lines, or fewer. Points for which a bar has no room are left out.
function fitAll() {
  fitSquares();
  const heading = document.querySelector('h1');
  heading.classList.toggle('small', [...heading.children].some(isCut));
  document.querySelectorAll('.race i').forEach(each => { if (isWide(each)) each.textContent = ''; });
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const isTall = tile => tile.clientHeight > MIN_TALL * rem;
  const tiles = [...document.querySelectorAll('.tile')];
  for (const tile of tiles.filter(each => isCut(each.querySelector('.name')))) {
    if (isTall(tile)) wrap(tile.querySelector('.name'), true);
    else tile.parentNode.classList.add('small');
  }
  tiles.forEach(tile => fitTile(tile, isTall(tile)));
}

// In this order, a tile gives up: what the pod adds, decimals, labels and pods, amounts, large letters, the pod that it gets,
// further lines of its name, and words of the reason. A low one gives up amounts before it gives up labels and pods.
function fitTile(tile, isTall) {
  tile.querySelectorAll('.bar').forEach(bar => {
    const amounts = bar.querySelector('.amounts');
    if (isWide(bar.firstChild)) amounts.querySelector('small')?.remove();
    if (isWide(bar.firstChild)) amounts.textContent = amounts.dataset.rounded;
  });
  if (!isHigh(tile)) return;
  const bars = tile.querySelector('.bars');
  if (!isTall) bars.classList.add('half');
  fitChips(tile);
  if (isHigh(tile)) bars.classList.add('half');
  if (isHigh(tile)) tile.classList.add('small');
  if (isHigh(tile)) tile.querySelector('.chip.new')?.remove();
  if (isHigh(tile)) wrap(tile.querySelector('.name'), false);
  fitWords(tile);
}

// Have a name take several lines, around the total, or one.
function wrap(name, wraps) {
  const head = name.parentNode, total = head.querySelector('.total');
  head.classList.toggle('wraps', wraps);
  if (total) name[wraps ? 'before' : 'after'](total);
}

// What a tile keeps longest: what is to blame, then what the pod asks for, taints, and pods.
const RANKS = ['.blamed', '.asked', '.mark', '.pod', '.label'];

// Chips for which a tile has no room are counted instead.
function fitChips(tile) {
  const rank = chip => RANKS.findIndex(each => chip.matches(each));
  const all = [...tile.querySelectorAll('.chip:not(.changed, .new)')].sort((a, b) => rank(a) - rank(b));
  const rest = h('span.chip.rest', {title: all.map(each => each.title || each.textContent).join('\n')});
  let count = 0;
  while (count < all.length && isHigh(tile)) {
    all[all.length - ++count].remove();
    rest.textContent = `+${count}`;
    tile.querySelector('.chips').append(rest);
  }
  const isAlone = rest.parentNode?.childElementCount === 1;
  if (isAlone || isHigh(tile)) rest.remove();
}

// A reason that is too long ends with …
function fitWords(tile) {
  const parts = [...tile.querySelectorAll('.why span')].flatMap(word => [...word.childNodes].filter(each => each instanceof Text));
  const dots = new Text('…');
  while (parts.length > 1 && isHigh(tile)) {
    parts.pop().remove();
    parts.at(-1).data = parts.at(-1).data.replace(/[,;]$/, '');
    parts.at(-1).after(dots);
  }
}
