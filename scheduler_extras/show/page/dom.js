'use strict';
// Elements and amounts. All names and messages are text: they may come from anybody.

// Control characters, and what is invisible or changes the direction of writing.
const CONTROL = /[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const shown = text => String(text).replace(CONTROL, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));

// Return an element: h('p.note', {onclick}, 'text', element, [more], null).
function h(spec, props, ...children) {
  const [tag, ...classes] = spec.split('.');
  const element = document.createElement(tag || 'div');
  if (classes.length) element.className = classes.join(' ');
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style') Object.entries(value).forEach(([key, each]) => element.style.setProperty(key, each));
    else element.setAttribute(name, name === 'title' ? shown(value) : value);
  }
  const add = child => {
    if (Array.isArray(child)) child.forEach(add);
    else if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined && child !== false) element.append(...broken(shown(child)));
  };
  add(children);
  return element;
}

// A text with places where a long word may be broken: behind / . = and at the humps of LeastRequestedPriority.
function broken(text) {
  const parts = text.split(/(?<=[/.=:,_])(?=[^\W\d])|(?<=[a-z])(?=[+]|[A-Z][a-z])/);
  return parts.flatMap((part, i) => (i ? [document.createElement('wbr'), part] : [part]));
}

// Amounts in the same units everywhere: cores, Gi.
const UNITS = {cpu: [1000, ''], memory: [2 ** 30, 'Gi'], 'ephemeral-storage': [2 ** 30, 'Gi']};
const unitOf = resource => UNITS[resource.startsWith('hugepages-') ? 'memory' : resource] || [1, ''];
const number = value => String(Math.abs(value) < 0.01 ? Number(value.toPrecision(1)) : Math.round(value * 100) / 100);
const signedNumber = value => (value < 0 ? '−' : '+') + number(Math.abs(value));
const bare = (resource, value) => number((value || 0) / unitOf(resource)[0]);
const tenths = (resource, value) =>
  bare(resource, (Math.round((10 * value) / unitOf(resource)[0]) / 10) * unitOf(resource)[0]);
const amount = (resource, value) => bare(resource, value) + unitOf(resource)[1];
const resourceName = resource => ({memory: 'mem', 'ephemeral-storage': 'disk'})[resource] || resource.split('/').pop();

const short = key => key.replace(/^default\//, '');
// A pod of a Deployment without the hash of its ReplicaSet, such as shop…9t9xd.
const briefly = key =>
  short(key).replace(/-[bcdfghjklmnpqrstvwxz2456789]{6,10}-(?=[bcdfghjklmnpqrstvwxz2456789]{5}$)/, '…');
// A text without the domain that all nodes share, as on the tiles. Labels and addresses, such as those of images, keep
// it. For display only: the full names stay in titles, and `/` finds them.
const NAME = /(?<![=/\w.-])[\w-]+([.][\w-]+)*(?![\w/-]|:\d)/g;
const withoutDomain = text =>
  places.domain
    ? text.replace(NAME, name => (name.endsWith(places.domain) ? name.slice(0, -places.domain.length) : name))
    : text;
const clock = at => new Date(at * 1000).toTimeString().slice(0, 8);
const plural = (count, noun, nouns = `${noun}s`) => `${count} ${count === 1 ? noun : nouns}`;
const sum = numbers => numbers.reduce((total, each) => total + each, 0);
const isBig = () => document.documentElement.classList.contains('big');
const isTelephone = () => matchMedia('screen and (max-width: 800px)').matches; // as in screens.css
const still = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

const PREFERRED = 'preferred labels';

// What a priority means, in a few words.
const MEANS = {
  LeastRequestedPriority: 'more left free',
  MostRequestedPriority: 'fuller already',
  BalancedResourceAllocation: 'balance',
  NodeAffinityPriority: PREFERRED,
  TaintTolerationPriority: 'fewer taints',
  SelectorSpreadPriority: 'fewer of its kind',
  InterPodAffinityPriority: 'preferred pods',
  ImageLocalityPriority: 'has its image',
  NodePreferAvoidPodsPriority: 'not avoided',
  'SelectorSpreadPriority+EvenPodsSpreadPriority': 'fewer of its kind',
  NodeResourcesBalancedAllocation: 'balance',
  NodeAffinity: PREFERRED,
  NodeResourcesFit: 'more left free',
  TaintToleration: 'fewer taints',
  InterPodAffinity: 'preferred pods',
  PodTopologySpread: 'fewer of its kind',
  ImageLocality: 'has its image'
};
const means = title => MEANS[title] || title;

// Each priority has one colour of eight, wherever it is shown.
const hues = new Map();
function hue(title) {
  if (!hues.has(title)) hues.set(title, hues.size % 8);
  return hues.get(title);
}
