// What if: without one predicate, or with other weights. Each pod is decided about at its own moment, from what the
// rules answered then; the scheduler goes on as before.

const whatIf = {off: null, weights: {}};
const isWhatIf = () => whatIf.off !== null || Object.keys(whatIf.weights).length > 0;

// Return a decision as it would be: its points, and the node that would be chosen; null if that is not known.
function supposed(decision) {
  if (!isWhatIf()) return decision;
  const isAbout = decision.refused.includes(whatIf.off);
  const answers = isAbout ? decision.without[whatIf.off] : decision;
  if (!answers) return null;
  const other = {...decision, ...answers, places: new Map(answers.fit.map((name, i) => [name, i]))};
  other.votes = answers.votes.map(vote => ({...vote, weight: whatIf.weights[vote.title] ?? vote.weight}));
  other.refused = isAbout ? refusing(other).filter(title => title !== whatIf.off) : decision.refused;
  other.node = best(other, decision.node);
  return other;
}

// What each priority adds to the total of a node.
const partsOf = (decision, name) => decision.votes.map(vote => vote.weight * pointsOf(decision, vote, name));
const totalOf = (decision, name) => (decision.votes.length ? sum(partsOf(decision, name)) : 1);

// The node with the highest total: of those that tie, the one that was chosen.
function best(decision, chosen) {
  let node = decision.places.has(chosen) ? chosen : null;
  let most = node === null ? -Infinity : totalOf(decision, node);
  for (const name of decision.fit) {
    const total = totalOf(decision, name);
    if (total > most) [node, most] = [name, total];
  }
  return node;
}

// The nodes that fit, the best first; of those that tie, the chosen one.
function ranked(decision) {
  const totals = new Map(decision.fit.map(name => [name, totalOf(decision, name)]));
  return [...decision.fit].sort(
    (a, b) => totals.get(b) - totals.get(a) || (b === decision.node) - (a === decision.node) || (a < b ? -1 : 1)
  );
}

// Whether a pod is still there, as far as the nodes and the queue name their pods. In files, none is deleted between
// runs.
function isThere(decision) {
  if (!isBesideCluster()) return true;
  if (!decision.node) return !hasLeftQueue(decision);
  const node = latest(decision.node);
  const isRecorded = decision.world < known.changes.length;
  return (
    !isRecorded || (node && (node.used.pods > node.pods.length || node.pods.some(([key]) => key === decision.pod)))
  );
}

// The pods that would go elsewhere, and of how many.
function whoMoves() {
  // Files have changed: all pods are decided again.
  const run = known.entries.findLast(each => each.kind === 'run')?.n || 0;
  const lasts = new Map(
    decisions()
      .filter(each => each.n > run)
      .map(each => [each.pod, each])
  );
  if (view.at && view.at.n > run) lasts.set(view.at.pod, view.at);
  const existing = [...lasts.values()].filter(isThere);
  const moved = [];
  const unknown = [];
  for (const decision of existing) {
    const other = supposed(decision);
    if (!other) unknown.push(decision);
    else if (other.node !== decision.node) moved.push([decision, other]);
  }
  return {
    count: moved.length,
    of: existing.length - unknown.length,
    unknown: unknown.length,
    moved: moved.map(([decision, other]) => ({pod: decision.pod, from: decision.node, to: other.node}))
  };
}

// The Policy file as it would say that, in JSON or YAML as the file; null if it is no Policy.
function editedPolicy() {
  const {object, text} = known.policy || {};
  if (object?.kind !== 'Policy') return null;
  const policy = structuredClone(object);
  policy.predicates = policy.predicates?.filter(each => each.name !== whatIf.off);
  policy.priorities = policy.priorities?.map(each => ({...each, weight: whatIf.weights[each.name] ?? each.weight}));
  policy.priorities = policy.priorities?.filter(each => each.weight > 0);
  return text.trimStart().startsWith('{') ? inJson(policy) : inYaml(policy);
}

// Entries of lists have a line each.
const inALine = value => JSON.stringify(value, null, 1).replace(/\n\s*/g, ' ');
const fieldsOf = policy => Object.entries(policy).filter(([, value]) => value !== undefined && value !== null);

function inJson(policy) {
  const list = entries => `[\n${entries.map(each => `    ${inALine(each)}`).join(',\n')}\n  ]`;
  const lines = fieldsOf(policy).map(
    ([key, value]) => `  "${key}": ${Array.isArray(value) ? list(value) : inALine(value)}`
  );
  return `{\n${lines.join(',\n')}\n}\n`;
}

function inYaml(policy) {
  const list = entries => (entries.length ? entries.map(each => `\n- ${inALine(each)}`).join('') : ' []');
  return fieldsOf(policy)
    .map(([key, value]) => `${key}:${Array.isArray(value) ? list(value) : ` ${inALine(value)}`}\n`)
    .join('');
}

function switchOff(title) {
  whatIf.off = whatIf.off === title ? null : title;
  render();
}

function weigh(title, weight, inForce) {
  if (weight === inForce) delete whatIf.weights[title];
  else whatIf.weights[title] = Math.max(weight, 0);
  render();
}
