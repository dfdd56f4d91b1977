const steps = document.querySelectorAll('section');
const moves = {ArrowRight: 1, PageDown: 1, ' ': 1, ArrowLeft: -1, PageUp: -1, Home: -Infinity, End: Infinity};
let at = 0;

// A wide screen shows a step in the largest letters with which it fits; where none fit, it is scrolled.
function fit(step) {
  const page = document.documentElement;
  for (let size = 1.25; size > .65; size -= .05) {
    step.style.fontSize = `${size}em`;
    if (page.scrollHeight <= innerHeight && page.scrollWidth <= innerWidth) return;
  }
  step.style.fontSize = '.8em';
}

function show(number) {
  at = Math.max(0, Math.min(number, steps.length - 1));
  steps.forEach((step, i) => step.hidden = i !== at);
  document.getElementById('where').textContent = `${at + 1} of ${steps.length}`;
  fit(steps[at]);
  scrollTo(0, 0);
  steps[at].querySelector('article.best')?.scrollIntoView({block: 'nearest'});
  steps[at].querySelector('h2').focus({preventScroll: true});
  history.replaceState(null, '', `#${at + 1}`);
}

onkeydown = event => {
  const isForButton = event.key === ' ' && event.target.closest('button');
  if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey || isForButton) return;
  event.preventDefault();
  show(at + moves[event.key]);
};
document.getElementById('back').onclick = () => show(at - 1);
document.getElementById('next').onclick = () => show(at + 1);
document.querySelector('nav').hidden = false;
onresize = () => fit(steps[at]);
onhashchange = () => show(parseInt(location.hash.slice(1)) - 1 || 0);
onhashchange();
