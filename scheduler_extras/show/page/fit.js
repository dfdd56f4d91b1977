// What to leave out where there is no room: main.js calls fitAll once the page stands. For tiles, see fit_tile.js.

const isWide = each => each.scrollWidth > each.clientWidth + 1;
const isHigh = each => each.scrollHeight > each.clientHeight + 1;

// Whether a text is cut off, even if by less than a pixel, or has less than this margin.
function isCut(each, margin = 0) {
  const text = new Range();
  text.selectNodeContents(each);
  return text.getBoundingClientRect().width > each.getBoundingClientRect().width - margin + 0.01;
}

const inRem = pixels => pixels / parseFloat(getComputedStyle(document.documentElement).fontSize);
const MIN_TALL = 6.8; // rem: the height from which a tile has room for a name of two lines

// Make everything fit: whole words and lines, or fewer. Points for which a bar has no room are left out.
function fitAll() {
  fitSquares();
  fitHeading();
  const points = [...document.querySelectorAll('.race i')];
  points.filter(each => isCut(each, 2)).forEach(each => each.replaceChildren());
  fitLeads();
  const isTall = tile => inRem(tile.clientHeight) > MIN_TALL;
  const tiles = [...document.querySelectorAll('.tile')];
  const withCutName = () => tiles.filter(each => isCut(each.querySelector('.name')));
  withCutName().forEach(tile => tile.parentNode.classList.add('tight')); // all alike, so that totals can be compared
  for (const tile of withCutName()) {
    if (isTall(tile)) wrap(tile.querySelector('.name'), true);
    else tile.parentNode.classList.add('small');
  }
  const amounts = [...document.querySelectorAll('.why span')].filter(each => each.textContent.includes('>'));
  if (amounts.some(isFolded)) document.querySelector('.tiles').classList.add('narrow');
  fitReasons(tiles.filter(each => each.matches('.out')));
  const counters = tiles.map(tile => fitTile(tile, isTall(tile)));
  tiles.forEach(breakWords); // once all reasons have the same letters, so that they break in the same places
  tiles.forEach(fitWords);
  counters.forEach(rest => rest.show());
  fitMoves();
  fitLeft();
  fitMessages();
  fitRows();
}

// What a pod asks for has the room of the last decisions if need be, and then smaller letters. Of these decisions, one
// has room, or the list is left out.
function fitLeft() {
  const [asks, lasts] = ['.asks', '.lasts'].map(each => document.querySelector(each));
  const isCramped = asks && [asks, ...asks.querySelectorAll('b')].some(isHigh);
  if (isCramped) asks.classList.add('alone');
  if (!lasts.firstChild || (!isCramped && lasts.firstChild.offsetHeight <= lasts.clientHeight)) return;
  lasts.previousSibling.remove();
  lasts.remove();
  if (asks && isHigh(asks)) asks.classList.add('small');
}

// The messages of pending pods are whole if all of them have room.
function fitMessages() {
  const pending = document.querySelector('.pending');
  if (!pending) return;
  pending.classList.add('whole');
  pending.classList.toggle('whole', !isHigh(pending));
}

// The headline has the largest letters with which nothing of it is cut off, down to those of the rest.
function fitHeading() {
  const heading = document.querySelector('h1');
  for (const size of [1.5, 1.4, 1.3, 1.2, 1.1, 1.05]) {
    heading.style.setProperty('--size', `${size}rem`);
    if (![...heading.children].some(each => isCut(each))) return;
  }
}

// Lists that scroll show whole rows: what is left of one at their lower end is covered.
function fitRows() {
  for (const list of document.querySelectorAll('.lists, .matrix, .timeline, .pending, .text')) {
    const end = list.getBoundingClientRect().top + list.clientHeight;
    const starts = [...list.querySelectorAll('h2, h3, li, tr, p:not(.timeline > p), pre > div')]
      .map(row => row.getBoundingClientRect())
      .filter(row => row.top < end && row.bottom > end + 1 && row.height < list.clientHeight)
      .map(row => row.top);
    list.style.setProperty('--cut', `${end - Math.min(end, ...starts)}px`);
  }
}
addEventListener('scroll', fitRows, true);

// The line on top says by how much the winner is ahead. What has no room there is added up: the sum stays right.
function fitLeads() {
  const line = document.querySelector('.leads');
  if (!line) return;
  const leads = [...line.querySelectorAll('.lead')];
  const rest = [];
  while (leads.length > 1 && isHigh(line)) {
    rest.unshift(leads.pop());
    rest[0].remove();
    line.querySelector('.other-leads').textContent =
      ` · and ${rest.length} more: ${signedNumber(sum(rest.map(each => Number(each.dataset.lead))))}`;
  }
}

// Beside the box of a what-if, the rules have smaller letters if need be. Pods that would move and for which the box has
// no room are counted.
function fitMoves() {
  const moves = document.querySelector('.moves');
  if (!moves) return;
  const lists = document.querySelector('.lists');
  if (isHigh(moves) || isHigh(lists)) lists.classList.add('small');
  for (let count = Number(moves.dataset.more); ; count++) {
    document.querySelector('.more-moves').textContent = count ? `and ${count} more ` : '';
    if (!isHigh(moves) || moves.childElementCount === 1) break;
    moves.lastChild.remove();
  }
  moves.parentNode.style.minHeight = 'auto'; // room that is left is for the rules
}

// All reasons have medium letters if one of them has no room in large ones, even without chips and amounts.
function fitReasons(tiles) {
  if (!tiles.length) return;
  const all = tiles[0].parentNode;
  all.classList.add('bare');
  tiles.forEach(tile => tile.querySelector('.bars').classList.add('half'));
  all.classList.toggle('medium', tiles.some(isHigh));
  all.classList.remove('bare');
}
