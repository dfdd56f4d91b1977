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
  return h('span.no', {}, decision.outcome?.remedy ? 'It waits for room' : 'Nowhere yet');
}

// The node to which a pod went before the files changed, if that was another one.
function nodeBefore(decision) {
  const last = known.entries.findLast(each => each.pod === decision.pod && each.n < decision.n && each.node);
  return !isBesideCluster() && last && last.node !== decision.node ? last.node : null;
}

// What decides, in one line; below it what has happened since and, at the end, what to know about the answer. A file
// that cannot be read takes both lines.
function because(decision, step) {
  const isOver = decision && isEnd(decision, step);
  const problem = view.live && withoutFolder(known.problem);
  const news = (isOver && aboutNext(decision)) || (decision && newsInWords(decision));
  const isOpen = isOver && !decision.node && !decision.outcome?.remedy;
  const ofEnd = isOpen ? byFrequency(decision.message) : isOver && decision.node && aheadOfRest(decision);
  const message = isOver ? ofEnd : decision && leftOut(decision, step);
  const howToRead = isOver ? 'Click a square to see its tile.' : 'Darker: fuller. ◤: a taint or a cordon.';
  const hint = nodes.size > MAX_TILES && view.mode === 'nodes' && howToRead;
  const line = (kind, text) => text && h(`p.${kind}`, {title: text}, withoutDomain(text));
  const second =
    line('news', news) || line('news.remark', isOver && remark(decision)) || line('message', message || hint);
  const lines = problem ? line('problem', problem) : [reason(decision, step), ' ', second];
  return h('div.because', {}, h('div', {role: problem ? 'alert' : null}, lines));
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
  return [...places(n => n > start && n < end)].filter(([pod, node]) => before.has(pod) && before.get(pod) !== node)
    .length;
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

function reason(decision, step) {
  if (!decision) {
    const standby = `${connection.operator.leader}. This replica takes over when that one ends.`;
    const nothing = 'Each pod that the scheduler decides about appears here.';
    return h('p', {}, connection.operator.standby ? standby : nothing);
  }
  const title = stepsOf(decision)[step];
  if (step === 0 && guess.on && !guess.choice)
    return h(
      'p',
      {},
      `Guess: click a node${nodes.size > MAX_TILES ? ' twice' : ''}, or `,
      h('button', {onclick: () => clickNode(NOWHERE)}, 'nowhere')
    );
  if (step === 0) return h('p', {}, `${plural(decision.nodes, 'node')}: which of them fit?`);
  if (step <= decision.refused.length) {
    const count = Object.values(decision.out).filter(group => title in decision.against[group].by).length;
    return h(
      'p',
      {},
      h('b', {}, title),
      `: ${plural(count, 'node')} out. `,
      h('q', {title: causesOf(decision, title)}, withoutDomain(causesOf(decision, title)))
    );
  }
  if (!decision.fit.length) {
    const helps = decision.help && `It would help to ${verb(decision.help)}.`;
    const words = isGone(decision)
      ? 'It is no longer in the queue.'
      : withoutNamespace(decision.outcome?.remedy) || helps;
    const title = words ? `${words}\n${decision.message}` : decision.message;
    return h('p.no', {title}, withoutDomain(words || byFrequency(decision.message)));
  }
  const [first, second] = ranked(decision);
  if (!isEnd(decision, step)) return pointsInWords(decision, step);
  const note = decision.outcome?.waits ? ` It waits: ${withoutDomain(decision.outcome.waits)}` : '';
  if (second === undefined)
    return h('p', {}, `${nodeInShort(first)} is the only node that fits: it needs no points.${note}`);
  const ahead = totalOf(decision, first) - totalOf(decision, second);
  const ofWhatIf = first === view.at.node ? 'keeps the pod' : 'would get it';
  const how = isWhatIf() ? ofWhatIf : 'is picked at random';
  const ties = decision.fit.filter(name => totalOf(decision, name) === totalOf(decision, first)).length;
  if (ties > 2)
    return h('p', {}, `${ties} nodes tie at ${totalInShort(decision, first)}: ${nodeInShort(first)} ${how}.${note}`);
  if (!ahead)
    return h('p', {}, `${nodeInShort(first)} and ${nodeInShort(second)} tie: ${nodeInShort(first)} ${how}.${note}`);
  const leads = leadsOver(decision, first, second);
  const inWords = ([lead, i]) => leadInWords(decision, lead, i);
  return h(
    'p.leads',
    {title: leads.map(inWords).join(' · ')},
    h('b', {}, `wins by ${number(ahead)}`),
    h('span.whom', {}, ` over ${nodeInShort(second)}`),
    ': ',
    leads.map(([lead, i], place) =>
      h(
        'span.lead',
        {'data-lead': lead},
        place > 0 && '\u00a0· ',
        h(`b.t${hue(decision.votes[i].title)}`, {title: decision.votes[i].title}, inWords([lead, i]))
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
