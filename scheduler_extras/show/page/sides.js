// What stands around the nodes: the question on top, the queue and the pod at the left, the rules at the right.

const names = title => title.replace(/Priority$/, '');

function noDecision() {
  if (!isConnected()) return 'No decision was made';
  if (connection.operator.standby) return 'Standby';
  return known.entries.length || nodes.size ? 'No decision yet' : 'Waiting for the scheduler';
}

function heading(decision, other) {
  if (!decision) return h('h1', {}, noDecision());
  const where = !view.done ? null : !other ? h('span.no', {}, 'not known') : other.node
    ? h('span.yes', {}, isWhatIf() && other.node !== decision.node ? `It would go to ${other.node}` : `To ${other.node}`)
    : h('span.no', {}, decision.outcome?.remedy ? 'It waits for room' : 'Nowhere yet');
  return h('h1', {title: decision.pod}, 'Where does ', h('u', {}, short(decision.pod)), ' go? ', where);
}

// What decides, in one line; below it, at the end, what has happened since, or what no rule has checked.
function because(decision, step) {
  const since = decision && isEnd(decision, step) ? newsSince(decision).at(-1) : null;
  const note = decision && isEnd(decision, step) && decision.notes[0]?.replace(decision.pod, 'It').replace(/, which [^,]*,/, '');
  const next = guess.choice && view.live && decision && isEnd(decision, step) && distinct().find(each => each.n > decision.n);
  const news = next ? `→ next: Where does ${short(next.pod)} go?` : since ? `Since then: ${editInWords(since)}` : note;
  return h('div.because', {}, reason(decision, step), news && h('p.news', {title: news}, news));
}

// What has happened since the newest decision, while the page is LIVE.
const isNewest = decision => view.live && view.done && decision?.n === distinct().at(-1)?.n;
const newsSince = decision => !isNewest(decision) ? [] : known.entries.filter(each => each.n > decision.n
  && (each.kind === 'change' || each.kind === 'brief' && !each.repeats || each.kind === 'note' && !each.text.startsWith(decision.pod)));

function reason(decision, step) {
  if (!decision) return h('p', {}, connection.operator.standby ? `${connection.operator.leader}. This replica takes over when that one ends.` : 'Each pod that the scheduler decides about appears here.');
  const title = stepsOf(decision)[step];
  if (step === 0 && decision.refused[0] !== title) return h('p', {}, guess.on && !guess.choice ? 'Guess: click a node.' : `${plural(decision.nodes, 'node')}: which of them fit?`);
  if (step <= decision.refused.length) {
    const count = Object.values(decision.out).filter(group => title in decision.against[group].by).length;
    const cause = decision.against.find(each => title in each.by).by[title].join(', ');
    return h('p', {}, h('b', {}, title), `: ${plural(count, 'node')} out. `, h('q', {}, cause));
  }
  if (!decision.fit.length) {
    return h('p.no', {title: decision.message}, decision.outcome?.remedy || (decision.help ? `It would help to ${verb(decision.help)}.` : decision.message));
  }
  const [first, second] = ranked(decision);
  if (!isEnd(decision, step)) return h('p', {}, 'Points times weights: the highest total wins.');
  const note = decision.outcome?.waits ? ` It waits: ${decision.outcome.waits}` : '';
  if (second === undefined) return h('p', {}, `${first} is the only node that fits.${note}`);
  const ahead = totalOf(decision, first) - totalOf(decision, second);
  if (!ahead) return h('p', {}, `${first} and ${second} tie: any of the best is taken, at random.${note}`);
  const leads = partsOf(decision, first).map((part, i) => [part - partsOf(decision, second)[i], i]).filter(([lead]) => lead);
  leads.sort(([a], [b]) => b - a);
  return h('p', {}, h('b', {}, `wins by ${number(ahead)}`), ` over ${second}: `, leads.map(([lead, i], place) =>
    [place > 0 && ' · ', h(`b.t${hue(decision.votes[i].title)}`, {title: decision.votes[i].title}, `${means(decision.votes[i].title)} ${lead > 0 ? '+' : '−'}${number(Math.abs(lead))}`)]), note);
}

// The entries up to what is shown: the page does not tell how it ends.
const sofar = () => !view.at || view.live && view.done && !guess.on ? known.entries
  : known.entries.filter(each => each.n < view.at.n || each === view.at && view.done);

const queueNow = () => view.live || !view.at ? known.queue : view.at.queue;

const verb = change => /^(tolerate|label|uncordon|free|move|do without)/.test(change) ? change : `have ${change}`;

function leftSide(decision) {
  const queue = queueNow();
  const waiting = queue.pods.filter(each => each.pod !== decision?.pod);
  const others = queue.count - (queue.pods.length - waiting.length);
  const count = others + (decision && !(view.done && decision.node) ? 1 : 0);
  const requests = decision ? Object.entries(decision.requests) : [];
  const lasts = sofar().filter(each => each.kind === 'decision' || each.kind === 'brief').filter(each => !each.repeats || each === view.at).slice(-5).reverse();
  return h('aside.left', {},
    h('h2', {}, `Queue: ${count === 1 ? '1 waits' : `${count} wait`}`),
    h('ul', {}, decision && h(`li.asked-about${view.done && decision.node ? '.placed' : ''}`, {}, h('b', {}, short(decision.pod)),
      h('span', {}, view.done ? (decision.node ? `→ ${decision.node}` : 'stays') : 'now')),
      waiting.slice(0, 3).map(each => h('li.waits', {onclick: () => showPod(each.pod)}, h('span', {}, short(each.pod)), h('small', {'data-again': each.again}, again(each)))),
      others > 3 && h('li.more', {}, h('small', {}, `and ${others - 3} more`))),
    decision && [h('h2', {}, 'It asks for'),
      h('ul.asks', {}, requests.map(([name, value]) => h('li', {}, h('span', {}, resourceName(name)), h('b', {}, amount(name, value)))),
        decision.asks.map(([name, value]) => h('li.long', {title: value}, h('span', {}, name), h('b', {}, value))),
        !requests.length && !decision.asks.length && h('li', {}, 'nothing'))],
    h('h2', {}, 'Last decisions'),
    h('ul.lasts', {}, lasts.map(each => h('li', {onclick: () => go(each)}, h('span', {}, short(each.pod)),
      each.node ? h('span.yes', {}, `→ ${each.node}`) : h('span.no', {}, '✗ pending')))));
}

function again(waiting) {
  const seconds = Math.round(waiting.again - Date.now() / 1000);
  if (waiting.for !== 'node') return waiting.for === 'binding' ? 'is bound' : 'is held';
  return waiting.attempts === 0 ? 'next' : seconds > 0 && isConnected() ? `in ${seconds} s` : 'pending';
}

const rulesOf = (policy, decision) => policy ? policy.by[decision?.by] || Object.values(policy.by)[0] : {predicates: [], priorities: [], always: []};

// The rules in force; those that an edit has changed since the decision are marked. A click switches a predicate off, in the page only: what if?
function rightSide(decision, step) {
  const rules = rulesOf(isNewest(decision) ? known.policy : (decision || known).policy, decision);
  const before = decision ? rulesOf(decision.policy, decision) : rules;
  const gone = before.predicates.filter(title => !rules.predicates.includes(title));
  const goneToo = before.priorities.filter(([title]) => !rules.priorities.some(each => each[0] === title));
  const isNew = title => !before.predicates.includes(title);
  const weights = new Map(before.priorities);
  const many = rules.predicates.length + rules.priorities.length > 13;
  const isShown = title => !many || decision?.refused.includes(title) || title === whatIf.off || isNew(title);
  const refusedSoFar = decision ? decision.refused.slice(0, step) : [];
  const shownRules = [...rules.predicates.filter(isShown), ...gone];
  const rest = rules.predicates.length + gone.length - shownRules.length;
  const moves = isWhatIf() ? movesInWords() : null;
  return h('aside.right', {},
    h('h2', {}, 'Predicates', h('small', {}, ' (click: what if?)')),
    h('ul.rules', {}, shownRules.map(title => {
      const count = decision ? Object.values(decision.out).filter(group => title in decision.against[group].by).length : 0;
      const isNow = decision && step > 0 && stepsOf(decision)[step] === title;
      const out = refusedSoFar.includes(title);
      const lit = decision && (step > decision.refused.length || rules.predicates.indexOf(title) < rules.predicates.indexOf(decision.refused[step - 1]));
      const edit = isNew(title) ? 'new' : gone.includes(title) ? 'gone' : '';
      const kind = edit ? `.edited.${edit}` : whatIf.off === title ? '.off' : isNow ? '.now' : out ? '.refuses' : lit ? '.passes' : '';
      return h(`li${kind}`, {role: 'button', tabindex: '0', title: rules.always.includes(title) ? `${title}: active whatever the Policy names` : title,
        onclick: () => switchOff(title)}, h('span', {}, title), h('b', {}, edit || (whatIf.off === title ? 'off' : out ? `−${count}` : lit ? '✓' : '')));
    }), rest > 0 && h('li.rest', {title: rules.predicates.filter(title => !isShown(title)).join('\n')}, `${rest} others`, h('b', {}, step > (decision?.refused.length || 0) ? '✓' : ''))),
    h('h2', {}, 'Priorities × weight'),
    h('ul.rules.weights', {}, rules.priorities.map(([title, inForce]) => {
      const weight = whatIf.weights[title] ?? inForce;
      return h(`li${weight !== inForce ? '.off' : weights.get(title) !== inForce ? '.edited' : ''}`, {title: `${title}: ${means(title)}`}, h(`i.key.c${hue(title)}`, {}), h('span', {}, names(title)),
        h('button', {'aria-label': `less ${title}`, onclick: () => weigh(title, weight - 1, inForce)}, '−'), h('b', {}, `×${weight}`),
        h('button', {'aria-label': `more ${title}`, onclick: () => weigh(title, weight + 1, inForce)}, '+'));
    }), goneToo.map(([title]) => h('li.edited.gone', {title}, h('span', {}, names(title)), h('b', {}, 'gone')))),
    moves && h('div.what-if', {}, h('p', {}, h('b', {}, `What if: ${moves.count} of ${plural(moves.of, 'pod')} would move`), moves.unknown ? ` (${moves.unknown} not known${decision?.nodes > 500 ? ': only up to 500 nodes' : ''})` : ''),
      moves.lines.slice(0, 3).map(line => h('p', {}, line)),
      h('p', {}, h('button', {onclick: forgetWhatIf}, 'back'), editedPolicy() && h('button', {onclick: () => show('policy')}, 'copy Policy'))));
}

function forgetWhatIf() {
  Object.assign(whatIf, {off: null, weights: {}});
  render();
}
