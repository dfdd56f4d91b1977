// What if: without one predicate, or with other weights. Each pod is decided about at its own moment, from what
// the rules answered then; the scheduler goes on as before.

const whatIf = {off: null, weights: {}};
const isWhatIf = () => whatIf.off !== null || Object.keys(whatIf.weights).length > 0;

// Return a decision as it would be: with its own points, and who would be chosen; null if that is not known.
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
const totalOf = (decision, name) => decision.votes.length ? sum(partsOf(decision, name)) : 1;

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
  return [...decision.fit].sort((a, b) => totals.get(b) - totals.get(a) || (b === decision.node) - (a === decision.node) || (a < b ? -1 : 1));
}

// In words: how many pods would go elsewhere.
function movesInWords() {
  const lasts = new Map(decisions().map(each => [each.uid, each]));
  const moved = [], unknown = [];
  for (const decision of lasts.values()) {
    const other = supposed(decision);
    if (!other) unknown.push(decision);
    else if (other.node !== decision.node) moved.push([decision, other]);
  }
  return {count: moved.length, of: lasts.size - unknown.length, unknown: unknown.length,
    lines: moved.map(([decision, other]) => `${short(decision.pod)}: ${decision.node || 'pending'} → ${other.node || 'pending'}`)};
}

// The Policy file as it would say that; null if it is no Policy in JSON.
function editedPolicy() {
  try {
    const policy = JSON.parse(known.policy.text);
    if (policy.kind !== 'Policy') return null;
    if (policy.predicates) policy.predicates = policy.predicates.filter(each => each.name !== whatIf.off);
    for (const each of policy.priorities || []) each.weight = whatIf.weights[each.name] ?? each.weight;
    policy.priorities = policy.priorities?.filter(each => each.weight > 0);
    const entries = list => list.map(each => `    ${JSON.stringify(each)}`).join(',\n');
    const lines = Object.entries(policy).map(([key, value]) => Array.isArray(value)
      ? `  ${JSON.stringify(key)}: [\n${entries(value)}\n  ]` : `  ${JSON.stringify(key)}: ${JSON.stringify(value)}`);
    return `{\n${lines.join(',\n')}\n}\n`;
  } catch {
    return null;
  }
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
