// The entries of the timeline in words.

// A line about a file, without its folder.
const withoutFolder = text => text.replace(/^\S*\/(?=[^/\s]+: )/, '');

// The file whose rules a line of the log says to be edited, such as 'policy.json: + ImageLocalityPriority ×2'; or ''.
function editedFile(entry) {
  const [, file] = (entry.kind === 'note' && /^([^:]+: )[+-] /.exec(lineOf(entry))) || [];
  return file || '';
}

// An edit of the Policy has a line of the log for each rule: all of them.
function linesOfEdit(entry) {
  const file = editedFile(entry);
  return known.entries.filter(each => file && editedFile(each) === file && Math.abs(entry.at - each.at) < 0.2);
}

// Whether a line is one of several about the same edit, and not the last one, which stands for all.
const isPartOfEdit = entry => editedFile(entry) !== '' && linesOfEdit(entry).at(-1) !== entry;

// The line of an entry, or one line for a whole edit.
function editInWords(entry) {
  const file = editedFile(entry);
  if (!file) return lineOf(entry);
  const rules = new Map(); // name -> its text before the edit, and after it
  for (const line of linesOfEdit(entry).map(each => lineOf(each).slice(file.length))) {
    const [, sign, name, text] = /^([+-]) (\S+)(.*)$/.exec(line);
    rules.set(name, {...rules.get(name), [sign]: text.replace(/ \([^)]*\)/, '')});
  }
  const names = [...rules.keys()].sort(byNumber);
  return file + names.map(name => ruleInWords(name, rules.get(name))).join(', ');
}

// How a rule was edited, such as NodeAffinity ×2 → ×20.
function ruleInWords(name, {'-': before, '+': after}) {
  const short = name.replace(/Priority$/, '');
  if (before === undefined) return `${short}${after} added`;
  if (after === undefined) return `${short} removed`;
  const [was, is] = [before, after].map(text => text.match(/×\d+/)?.[0]);
  return was === is ? `${short}${after}` : `${short} ${was} → ${is}`;
}

// What comes after the reasons: why preemption, or another plugin, does not help.
const END = /(\.(?= |$)| preemption: ).*$/s;

// A text without the namespace of pods that is the default.
const withoutNamespace = text => (text || '').replace(/\bdefault\//g, '');

const COUNT = /^0\/\d+ nodes are available: /;
const withoutCount = text => text.replace(/0\/\d+ nodes are available: /, '');

// The reasons of kube-scheduler's message, the most frequent one first: ['3 Insufficient cpu', ...]. It sorts them as
// texts itself.
function reasonsOf(message) {
  const [reasons] = message.replace(COUNT, '').split(END);
  return reasons.split(/, (?=\d+ )/).sort((a, b) => parseInt(b) - parseInt(a));
}

// A message with its reasons in this order.
function byFrequency(message) {
  const [count = ''] = COUNT.exec(message) || [];
  const [end = ''] = END.exec(message.replace(COUNT, '')) || [];
  return count ? count + reasonsOf(message).join(', ') + end : message;
}

// What keeps a pod from most of the nodes, without how many these are.
function mainReason(message) {
  return reasonsOf(message)[0].replace(/^\d+ (node\(s\) )?/, '');
}

// An entry in one line.
function lineOf(entry) {
  if (entry.kind === 'change') return entry.lines.join('; ');
  if (entry.kind === 'note' || entry.kind === 'run') return withoutFolder(entry.text);
  if (entry.node === null) {
    const helps = entry.help ? `it would help to ${verb(entry.help)} · ` : '';
    const remedy = withoutNamespace(entry.outcome?.remedy).replace(/^It /, 'it ');
    return `${short(entry.pod)} ✗ ${remedy || helps + withoutCount(byFrequency(entry.message))}`;
  }
  const {fit = []} = entry; // a decision that was not recorded in full has none
  const points = fit.length > 1 ? `, ${totalInShort(entry, entry.node)}` : '';
  const about = fit.length ? ` (${fit.length} of ${entry.nodes} fit${points})` : '';
  return `${short(entry.pod)} → ${entry.node}${about}`;
}
