// What stands around the nodes: the question on top, the queue and the pod at the left, the rules at the right.

// The name of a priority. In large letters its ending is left out, as it stands in the heading.
const nameOf = title => title.split(/(?=[+])/).map(part => {
  const [, name, ending] = part.match(/^(.+?)(Priority)?$/s);
  return h('span', {}, name, h('wbr'), h('span.ending', {}, ending));
});

function noDecision() {
  if (!isConnected()) return 'No decision was made';
  if (connection.operator.standby) return 'Standby';
  return known.entries.length || nodes.size ? 'No decision yet' : 'Waiting for the scheduler';
}

function heading(decision, other) {
  if (!decision) return h('h1', {}, noDecision());
  const where = !view.done ? null : !other ? h('span.no', {}, 'not known') : other.node
    ? h('span.yes', {title: other.node}, isWhatIf() && other.node !== decision.node ? `It would go to ${nodeInShort(other.node)}` : `To ${nodeInShort(other.node)}`)
    : h('span.no', {}, isGone(decision) ? 'It is gone' : decision.outcome?.remedy ? 'It waits for room' : 'Nowhere yet');
  return h('h1', {title: decision.pod}, h('span.question', {}, 'Where does ', h('u', {}, short(decision.pod)), ' go?'), where);
}

// What decides, in one line; below it what has happened since and, at the end, what to know about the answer.
function because(decision, step) {
  const isOver = decision && isEnd(decision, step);
  const last = decision && newsAbout(decision).at(-1);
  const change = last && `${last.n > decision.n ? 'Since then' : 'Decided again after'}: ${editInWords(last)}`;
  const problem = view.live && withoutFolder(known.problem);
  const news = isOver && aboutNext(decision) || change || isOver && remark(decision);
  const message = isOver ? !decision.node && decision.message : decision && leftOut(decision, step);
  return h('div.because', {}, h('div', {}, reason(decision, step), ' ', problem ? h('p.news.problem', {}, problem) : news ? h('p.news', {title: news}, news) : message && h('p.message', {title: message}, message)));
}

// While the points come up: what their bars leave out.
function leftOut(decision, step) {
  const words = showsPoints(decision, step) && cutInWords(decision);
  return words && `… the same for all: ${words}`;
}

// What waits for the key →, by hand or after a guess.
function aboutNext(decision) {
  const next = (guess.choice || view.byHand) && view.live && distinct().find(each => each.n > decision.n);
  return next && `→ next: Where does ${short(next.pod)} go?`;
}

// The second line about an answer: about the guess, or what no rule has checked.
function remark(decision) {
  if (guess.choice === NOWHERE) return `Your guess was nowhere: ${isRight(decision, NOWHERE) ? 'right' : 'wrong'}`;
  if (guess.on && !guess.choice && isNewest(decision)) return 'Guess: the next pod waits for your click.';
  return decision.notes.find(each => each.startsWith(decision.pod))?.replace(decision.pod, 'It').replace(/, which [^,]*,/, '');
}

const isNewest = decision => view.live && decision?.n === distinct().at(-1)?.n;

// The changes just before a decision, if the pod was tried again, and while it is the newest one, those since then.
function newsAbout(decision) {
  const isAgain = known.entries.some(each => each.pod === decision.pod && each.n < decision.n);
  const isNear = each => each.n > decision.n ? isNewest(decision) : isAgain && decision.at - each.at < .5;
  const isNote = each => each.kind === 'note' && !each.text.startsWith(decision.pod) && (!each.problem || each.text === known.problem);
  return known.entries.filter(each => isNear(each) && (each.kind === 'change' || isNote(each) || each.kind === 'brief' && each.n > decision.n && !each.repeats));
}

function reason(decision, step) {
  if (!decision) return h('p', {}, connection.operator.standby ? `${connection.operator.leader}. This replica takes over when that one ends.` : 'Each pod that the scheduler decides about appears here.');
  const title = stepsOf(decision)[step];
  if (step === 0 && guess.on && !guess.choice) return h('p', {}, 'Guess: click a node, or ', h('button', {onclick: () => clickNode(NOWHERE)}, 'nowhere'));
  if (step === 0) return h('p', {}, `${plural(decision.nodes, 'node')}: which of them fit?`);
  if (step <= decision.refused.length) {
    const count = Object.values(decision.out).filter(group => title in decision.against[group].by).length;
    return h('p', {}, h('b', {}, title), `: ${plural(count, 'node')} out. `, h('q', {}, causesOf(decision, title)));
  }
  if (!decision.fit.length) {
    return h('p.no', {title: decision.message}, isGone(decision) ? 'It is no longer in the queue.' : decision.outcome?.remedy || (decision.help ? `It would help to ${verb(decision.help)}.` : decision.message));
  }
  const [first, second] = ranked(decision);
  if (!isEnd(decision, step)) return h('p', {}, 'Points times weights: the highest total wins.');
  const note = decision.outcome?.waits ? ` It waits: ${decision.outcome.waits}` : '';
  if (second === undefined) return h('p', {}, `${nodeInShort(first)} is the only node that fits.${note}`);
  const ahead = totalOf(decision, first) - totalOf(decision, second);
  const ties = decision.fit.filter(name => totalOf(decision, name) === totalOf(decision, first)).length;
  if (ties > 2) return h('p', {}, `${ties} nodes tie at ${number(totalOf(decision, first))}: ${nodeInShort(first)} is picked at random.${note}`);
  if (!ahead) return h('p', {}, `${nodeInShort(first)} and ${nodeInShort(second)} tie: one is picked at random.${note}`);
  const leads = partsOf(decision, first).map((part, i) => [part - partsOf(decision, second)[i], i]).filter(([lead]) => lead);
  leads.sort(([a], [b]) => b - a);
  return h('p', {}, h('b', {}, `wins by ${number(ahead)}`), ` over ${nodeInShort(second)}: `, leads.map(([lead, i], place) =>
    [place > 0 && ' · ', h(`b.t${hue(decision.votes[i].title)}`, {title: decision.votes[i].title}, `${means(decision.votes[i].title)}\u00a0${lead > 0 ? '+' : '−'}${number(Math.abs(lead))}`)]), note);
}

// Why a predicate has refused nodes: in its own words, or in short if there are several reasons.
function causesOf(decision, title) {
  const groups = decision.against.filter(each => title in each.by);
  const whole = each => each.by[title].join(', ');
  const isShort = new Set(groups.map(whole)).size > 1;
  const words = groups.map(each => isShort && each.words && Object.keys(each.by).length === 1 ? plain(each.words) : whole(each));
  return [...new Set(words)].join('; ');
}

// The entries up to what is shown: the page does not tell how it ends.
const sofar = () => !view.at || view.live && view.done && !guess.on && !view.byHand && !view.next.length ? known.entries
  : known.entries.filter(each => each.n < view.at.n || each === view.at && view.done);

const queueNow = () => !view.at || isNewest(view.at) ? known.queue : view.at.queue;

// Whether a pending pod is no longer in the queue: somebody has deleted it.
const hasLeftQueue = decision => known.queue.n > decision.n && known.queue.pods.length === known.queue.count
  && !known.queue.pods.some(each => each.pod === decision.pod);
const isGone = decision => isConnected() && isNewest(decision) && !decision.node && hasLeftQueue(decision);

const verb = change => /^(tolerate|label|uncordon|free|move|do without)/.test(change) ? change : `have ${change}`;

// How many pods are pending at this step: with the one that is shown, until it has a node.
function pendingNow(decision) {
  const {count, pods} = queueNow();
  const others = count - pods.filter(each => each.pod === decision?.pod).length;
  return others + (decision && !(view.done && decision.node) && !isGone(decision) ? 1 : 0);
}

function leftSide(decision) {
  const queue = queueNow();
  const waiting = queue.pods.filter(each => each.pod !== decision?.pod);
  const others = queue.count - (queue.pods.length - waiting.length);
  const requests = decision ? Object.entries(decision.requests) : [];
  const isKnown = each => !view.at || isNewest(view.at) || each.n <= view.at.n;  // like the queue: as of the decision that is shown
  const lasts = sofar().filter(each => each.kind === 'decision' || each.kind === 'brief')
    .filter(each => isKnown(each) && (!each.repeats || each === view.at)).slice(-5).reverse();
  return h('aside.left', {},
    h('h2', {}, `Queue: ${pendingNow(decision)} pending`),
    h('ul', {}, decision && h(`li.asked-about${view.done && decision.node ? '.placed' : ''}`, {title: decision.pod}, h('b', {}, briefly(decision.pod)),
      h('span', {}, view.done ? (decision.node ? 'placed' : isGone(decision) ? 'gone' : 'pending') : 'now')),
      waiting.slice(0, 3).map(each => h('li.waits', {title: each.pod, onclick: () => showPod(each.pod)}, h('span', {}, briefly(each.pod)), h('small', {'data-again': each.again}, again(each)))),
      others > 3 && h('li.more', {onclick: () => show('pending')}, h('small', {}, `and ${others - 3} more`))),
    decision && [h('h2', {}, 'It asks for'),
      h('ul.asks', {}, requests.map(([name, value]) => h('li', {}, h('span', {}, resourceName(name)), h('b', {}, amount(name, value)))),
        decision.asks.map(([name, value]) => h('li.long', {title: value}, h('span', {}, name), h('b', {}, value))),
        !requests.length && !decision.asks.length && h('li', {}, 'nothing'))],
    lasts.length > 0 && h('h2', {}, 'Last decisions'),
    h('ul.lasts', {}, lasts.map(each => h('li', {title: [each.pod, each.node].filter(Boolean).join(' → '), onclick: () => go(each)}, h('span', {}, briefly(each.pod)),
      each.node ? h('span.yes', {}, '→\u00a0', h('span.node', {}, h('bdi', {}, nodeOnTile(each.node)))) : h('span.no', {}, '✗ pending')))));
}

function again(waiting) {
  const seconds = Math.round(waiting.again - Date.now() / 1000);
  const held = {permit: 'is held', pre_bind: 'is being prepared', post_filter: 'makes room'}[waiting.for];
  if (held) return held;
  return waiting.attempts === 0 ? 'next' : seconds > 0 && isBesideCluster() ? `in ${seconds} s` : 'pending';
}

// Whether a predicate was asked about any node: not if those before it have refused all. Preemption refuses none.
function isAsked(decision, title) {
  const earlier = decision.rules.slice(0, decision.rules.indexOf(title));
  const before = decision.refused.filter(each => earlier.includes(each)).length;
  const isOut = group => firstAgainst(decision, group) < before;
  return title !== 'Preemption' && (decision.all || decision.fit.length > 0 || !Object.values(decision.out).every(isOut));
}

const rulesOf = (policy, decision) => policy ? policy.by[decision?.by] || Object.values(policy.by)[0] : {predicates: [], priorities: [], always: []};

// The Policies between which an edit is shown: since the newest decision, or before it, if the pod was tried with another one.
function policiesAround(decision) {
  if (!decision) return [known.policy, known.policy];
  if (isNewest(decision) && decision.policy !== known.policy) return [decision.policy, known.policy];
  const last = known.entries.findLast(each => each.kind === 'decision' && each.pod === decision.pod && each.n < decision.n);
  return [(last || decision).policy, decision.policy];
}

// The rules in force; those that an edit has changed are marked. A click switches a predicate off, in the page only: what if?
function rightSide(decision, step) {
  const [before, rules] = policiesAround(decision).map(policy => rulesOf(policy, decision));
  const gone = before.predicates.filter(title => !rules.predicates.includes(title));
  const goneToo = before.priorities.filter(([title]) => !rules.priorities.some(each => each[0] === title));
  const isNew = title => !before.predicates.includes(title);
  const weights = new Map(before.priorities);
  const many = rules.predicates.length + rules.priorities.length > 13;
  const refusedSoFar = decision ? decision.refused.slice(0, step) : [];
  const isShown = title => !many || refusedSoFar.includes(title) || title === whatIf.off || isNew(title);
  const shownRules = [...rules.predicates.filter(isShown), ...gone];
  const rest = rules.predicates.length + gone.length - shownRules.length;
  const moves = isWhatIf() ? movesInWords() : null;
  return h('aside.right', {},
    h('h2', {}, 'Predicates', h('small', {}, ' (click: what if?)')),
    h('ul.rules', {}, shownRules.map(title => {
      const count = decision ? Object.values(decision.out).filter(group => title in decision.against[group].by).length : 0;
      const isNow = decision && step > 0 && stepsOf(decision)[step] === title;
      const out = refusedSoFar.includes(title);
      const lit = decision && isAsked(decision, title) && (step > decision.refused.length || rules.predicates.indexOf(title) < rules.predicates.indexOf(decision.refused[step - 1]));
      const edit = isNew(title) ? 'new' : gone.includes(title) ? 'gone' : '';
      const victims = title === 'Preemption' && view.done && decision?.outcome?.victims.length;
      const kind = edit ? `.edited.${edit}` : whatIf.off === title ? '.off' : isNow ? '.now' : out || victims ? '.refuses' : lit ? '.passes' : view.done ? '.unasked' : '';
      return h(`li${kind}`, {role: 'button', tabindex: '0', title: rules.always.includes(title) ? `${title}: active whatever the Policy names` : title,
        onclick: () => switchOff(title)}, h('span', {}, title), h('b', {}, edit || (whatIf.off === title ? 'off' : out ? `−${count}` : victims ? plural(victims, 'victim') : lit ? '✓' : '')));
    }), rest > 0 && h('li.rest', {title: rules.predicates.filter(title => !isShown(title)).join('\n')}, `${rest} others`, h('b', {}, step > (decision?.refused.length || 0) ? '✓' : ''))),
    h('h2', {}, 'Priorities × weight', h('small', {}, ' (hover: − +)')),
    h('ul.rules.weights', {}, rules.priorities.map(([title, inForce]) => {
      const weight = whatIf.weights[title] ?? inForce;
      const was = weight !== inForce ? inForce : weights.get(title);
      return h(`li${weight !== inForce ? '.off' : weights.get(title) !== inForce ? '.edited' : ''}`, {title: `${title}: ${means(title)}`}, h(`i.key.c${hue(title)}`, {}), h('span', {}, nameOf(title)),
        h('button', {'aria-label': `less ${title}`, onclick: () => weigh(title, weight - 1, inForce)}, '−'), h('b', {}, was !== undefined && was !== weight && `×${was} → `, `×${weight}`),
        h('button', {'aria-label': `more ${title}`, onclick: () => weigh(title, weight + 1, inForce)}, '+'));
    }), goneToo.map(([title]) => h('li.edited.gone', {title}, h('span', {}, nameOf(title)), h('b', {}, 'gone')))),
    moves && h('div.what-if', {}, h('p', {}, h('b', {}, `What if: ${moves.count} of ${plural(moves.of, 'pod')} would move`), moves.unknown ? ` (${moves.unknown} not known${decision?.nodes > 500 ? ': only up to 500 nodes' : ''})` : ''),
      moves.lines.slice(0, 3).map(line => h('p', {}, line)), moves.count > 3 && h('p', {}, `and ${moves.count - 3} more`),
      h('p', {}, h('button', {onclick: forgetWhatIf}, 'back'), editedPolicy() && h('button', {onclick: () => show('policy')}, 'copy Policy'))));
}

function forgetWhatIf() {
  Object.assign(whatIf, {off: null, weights: {}});
  render();
}
