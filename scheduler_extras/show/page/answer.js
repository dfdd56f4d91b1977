// What stands above the nodes: the question or the answer, and in two lines why.

function noDecision() {
  if (!isConnected()) return 'No decision was made';
  if (connection.operator.standby) return 'Standby';
  return known.entries.length || nodes.size ? 'No decision yet' : 'Waiting for the scheduler';
}

function heading(decision, other) {
  if (!decision) return h('h1', {}, noDecision());
  const question = h('span.question', {}, 'Where does ', h('u', {}, short(decision.pod)), ' go?');
  return h('h1', {title: decision.pod}, question, view.done && answer(decision, other));
}

// Where the pod goes. other: the decision under the edited rules of a what-if, else the same one.
function answer(decision, other) {
  if (!other) return h('span.no', {}, 'not known');
  if (other.node) {
    const goes = isWhatIf() ? `It would ${other.node === decision.node ? 'still ' : ''}go to` : 'To';
    const before = nodeBefore(decision);
    return h(
      'span.yes',
      {title: other.node},
      `${goes} ${nodeInShort(other.node)}`,
      before && !isWhatIf() && h('small', {}, ` (was ${nodeInShort(before)})`)
    );
  }
  if (isGone(decision)) return h('span.no', {}, 'It is gone');
  return h('span.no', {}, waitsForRoom(decision.pod) ? 'It waits for room' : 'Nowhere yet');
}

// The node to which a pod went before the files changed, if that was another one.
function nodeBefore(decision) {
  const last = known.entries.findLast(each => each.pod === decision.pod && each.n < decision.n && each.node);
  return !isBesideCluster() && last && last.node !== decision.node ? last.node : null;
}

// What decides, in one line, and a second line below it. A file that cannot be read takes both.
function because(decision, step) {
  const problem = view.live && withoutFolder(known.problem);
  const second = decision ? secondLine(decision, step) : lineOnTop('message', howToRead(false));
  const lines = problem ? lineOnTop('problem', problem) : [reason(decision, step), ' ', second];
  return h('div.because', {}, h('div', {role: problem ? 'alert' : null}, lines));
}

const lineOnTop = (kind, text) => text && h(`p.${kind}`, {title: text}, withoutDomain(text));

// What has happened since; else what to know about the answer; else why it is so; else how to read the squares.
function secondLine(decision, step) {
  const isOver = isEnd(decision, step);
  const news = (isOver && aboutNext(decision)) || newsInWords(decision);
  const about = isOver && remark(decision);
  const why = isOver ? moreAbout(decision) : leftOut(decision, step);
  return lineOnTop('news', news) || lineOnTop('news.remark', about) || lineOnTop('message', why || howToRead(isOver));
}

// What more there is to say about an answer. The first line says what is done for a pod that waits for room.
function moreAbout(decision) {
  if (decision.node) return aheadOfRest(decision);
  return decision.outcome?.remedy ? '' : byFrequency(decision.message);
}

function howToRead(isOver) {
  if (nodes.size <= MAX_TILES || view.mode !== 'nodes') return '';
  return isOver ? 'Click a square to see its tile.' : 'Darker: fuller. ◤: a taint or a cordon.';
}

// How many pods have gone elsewhere in the run of a decision, after files had changed; null if it was no such run.
function movedInRun(decision) {
  const runs = known.entries.filter(each => each.kind === 'run').map(each => each.n);
  const start = runs.findLast(n => n < decision.n);
  if (isBesideCluster() || start === undefined) return null;
  const end = runs.find(n => n > decision.n) ?? Infinity;
  const places = isIn =>
    new Map(known.entries.filter(each => each.pod && isIn(each.n)).map(each => [each.pod, each.node]));
  const before = places(n => n < start);
  const isMoved = ([pod, node]) => before.has(pod) && before.get(pod) !== node;
  return [...places(n => n > start && n < end)].filter(isMoved).length;
}

// What has changed since the decision, or made the scheduler decide again.
function newsInWords(decision) {
  const all = newsAbout(decision);
  const last = all.findLast(each => each.kind === 'change' || editedFile(each)) || all.at(-1); // rather than a warning
  if (!last) return '';
  const ofRules = isConfiguration() ? 'Config' : 'Policy';
  const edit = plain(editInWords(last)).replace(/^\S+(?=: )/, file => (isPolicy(file) ? ofRules : file));
  const moved = movedInRun(decision);
  const effect = moved === null ? '' : ` (${moved ? plural(moved, 'pod') : 'no pod'} moved)`;
  const again = isBesideCluster() ? 'Retried after' : `Run again${effect} after`;
  return `${last.n > decision.n ? 'Since then' : again}: ${edit}`;
}

// By how much the winner and those that tie with it are ahead of the next node.
function aheadOfRest(decision) {
  const order = ranked(decision);
  const most = totalOf(decision, order[0]);
  const next = order.find(name => totalOf(decision, name) < most);
  if (!next || next === order[1]) return '';
  const leads = leadsOver(decision, order[0], next).map(([lead, i]) => leadInWords(decision, lead, i));
  return `${number(most - totalOf(decision, next))} ahead of ${nodeInShort(next)}: ${leads.join(' · ')}`;
}

// What the priorities add to the lead of one node over another: [[lead, place of the vote], ...], the largest first.
function leadsOver(decision, first, second) {
  const others = partsOf(decision, second);
  const leads = partsOf(decision, first).map((part, i) => [part - others[i], i]);
  return leads.filter(([lead]) => lead).sort(([a], [b]) => b - a);
}
const leadInWords = (decision, lead, i) => `${means(decision.votes[i].title)}\u00a0${signedNumber(lead)}`;

// Whether a file is the Policy, whose edits need the room of its name.
const isPolicy = name => known.policy?.path.split('/').pop() === name;

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
  const note = decision.notes.find(each => each.startsWith(decision.pod));
  return note && plain(note.replace(decision.pod, 'It').replace(/, which [^,]*,/, ''));
}

const isNewest = decision => view.live && decision?.n === distinct().at(-1)?.n;

// The changes just before a decision, if the pod was tried again, and while it is the newest one, those since then.
function newsAbout(decision) {
  const isAgain = known.entries.some(each => each.pod === decision.pod && each.n < decision.n);
  const isNear = each => (each.n > decision.n ? isNewest(decision) : isAgain && decision.at - each.at < 0.5);
  const isNote = each =>
    each.kind === 'note' && !each.text.startsWith(decision.pod) && (!each.problem || each.text === known.problem);
  return known.entries.filter(
    each =>
      isNear(each) &&
      (each.kind === 'change' || isNote(each) || (each.kind === 'brief' && each.n > decision.n && !each.repeats))
  );
}

// The first line: what happens at a step.
function reason(decision, step) {
  if (!decision) return h('p', {}, whyNothingIsShown());
  if (step === 0) return question(decision);
  if (step <= decision.refused.length) return refusal(decision, stepsOf(decision)[step]);
  if (!decision.fit.length) return whyPending(decision);
  if (!isEnd(decision, step)) return pointsInWords(decision, step);
  return whyThere(decision);
}

function whyNothingIsShown() {
  const {standby, leader} = connection.operator;
  if (standby) return `${leader}. This replica takes over when that one ends.`;
  return 'Each pod that the scheduler decides about appears here.';
}

function question(decision) {
  if (!guess.on || guess.choice) return h('p', {}, `${plural(decision.nodes, 'node')}: which of them fit?`);
  const how = nodes.size > MAX_TILES ? 'click a node twice' : 'click a node';
  return h('p', {}, `Guess: ${how}, or `, h('button', {onclick: () => clickNode(NOWHERE)}, 'nowhere'));
}

// Which nodes a predicate refuses, and why.
function refusal(decision, title) {
  const causes = causesOf(decision, title);
  const count = `: ${plural(nodesOut(decision, title), 'node')} out. `;
  return h('p', {}, h('b', {}, title), count, h('q', {title: causes}, withoutDomain(causes)));
}

// What is done for a pod that fits nowhere, or what would help.
function whyPending(decision) {
  const helps = decision.help && `It would help to ${verb(decision.help)}.`;
  const isDone = withoutNamespace(decision.outcome?.remedy);
  const words = isGone(decision) ? 'It is no longer in the queue.' : isDone || helps;
  const title = words ? `${words}\n${decision.message}` : decision.message;
  return h('p.no', {title}, withoutDomain(words || byFrequency(decision.message)));
}

// Why the pod goes to its node.
function whyThere(decision) {
  const [first, second] = ranked(decision);
  const waits = decision.outcome?.waits;
  const note = waits ? ` It waits: ${withoutDomain(waits)}` : '';
  if (second === undefined)
    return h('p', {}, `${nodeInShort(first)} is the only node that fits: it needs no points.${note}`);
  const lead = totalOf(decision, first) - totalOf(decision, second);
  return lead ? leadsLine(decision, first, second, lead, note) : h('p', {}, tieInWords(decision, first, second) + note);
}

function tieInWords(decision, first, second) {
  const ofWhatIf = first === view.at.node ? 'keeps the pod' : 'would get it';
  const end = `${nodeInShort(first)} ${isWhatIf() ? ofWhatIf : 'is picked at random'}.`;
  const ties = decision.fit.filter(name => totalOf(decision, name) === totalOf(decision, first)).length;
  if (ties > 2) return `${ties} nodes tie at ${totalInShort(decision, first)}: ${end}`;
  return `${nodeInShort(first)} and ${nodeInShort(second)} tie: ${end}`;
}

// By how much the winner is ahead, and what each priority adds to that. fitLeads leaves out what has no room.
function leadsLine(decision, first, second, lead, note) {
  const parts = leadsOver(decision, first, second);
  const inWords = ([part, i]) => leadInWords(decision, part, i);
  return h(
    'p.leads',
    {title: parts.map(inWords).join(' · ')},
    h('b', {}, `wins by ${number(lead)}`),
    h('span.whom', {}, ` over ${nodeInShort(second)}`),
    ': ',
    parts.map(([part, i], place) =>
      h(
        'span.lead',
        {'data-lead': part},
        place > 0 && '\u00a0· ',
        h(`b.t${hue(decision.votes[i].title)}`, {title: decision.votes[i].title}, inWords([part, i]))
      )
    ),
    h('span.other-leads'),
    note
  );
}

// What points come up, and at the last step what they are for.
function pointsInWords(decision, step) {
  const all = raced(decision);
  const place = step - decision.refused.length;
  if (view.plays || !all[place - 1]) return h('p', {}, 'Points times weights: the highest total wins.');
  const {title, weight} = all[place - 1];
  const end = place === all.length ? '. The highest total wins.' : '';
  return h('p', {}, h(`b.t${hue(title)}`, {}, `${title} × ${weight}`), `: ${means(title)}${end}`);
}

// Why a predicate has refused nodes, as the tiles say it; in its own words if others refuse the same nodes, too.
function causesOf(decision, title) {
  const groups = decision.against.filter(each => title in each.by);
  const isByItself = each => each.words && Object.keys(each.by).length === 1;
  const words = groups.map(each => (isByItself(each) ? plain(each.words) : each.by[title].join(', ')));
  return [...new Set(words)].join('; ');
}
