// The left side: the queue, what the pod asks for, and the last decisions.

// The entries up to what is shown: the page does not tell how it ends.
const sofar = () =>
  !view.at || (isNewest(view.at) && view.done && !guess.on && !view.byHand && !view.next.length)
    ? known.entries
    : known.entries.filter(each => each.n < view.at.n || (each === view.at && view.done));

const queueNow = () => (!view.at || isNewest(view.at) ? known.queue : view.at.queue);

// Whether a pending pod is no longer in the queue: somebody has deleted it.
const hasLeftQueue = decision =>
  known.queue.n > decision.n &&
  known.queue.pods.length === known.queue.count &&
  !known.queue.pods.some(each => each.pod === decision.pod);
const isGone = decision => isConnected() && isNewest(decision) && !decision.node && hasLeftQueue(decision);

const verb = change => (/^(tolerate|label|uncordon|free|move|do without)/.test(change) ? change : `have ${change}`);

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
  // Like the queue: as of the decision that is shown.
  const isKnown = each => !view.at || isNewest(view.at) || each.n <= view.at.n;
  const lasts = sofar()
    .filter(each => each.kind === 'decision' || each.kind === 'brief')
    .filter(each => isKnown(each) && (!each.repeats || each === view.at))
    .slice(-5)
    .reverse();
  return h(
    'aside.left',
    {},
    h('h2', {}, `Queue: ${pendingNow(decision)} pending`),
    h(
      'ul',
      {},
      decision &&
        h(
          `li.asked-about${view.done && decision.node ? '.placed' : ''}`,
          {title: decision.pod},
          h('b', {}, briefly(decision.pod)),
          h('span', {}, view.done ? stateAtEnd(decision) : 'now')
        ),
      waiting
        .slice(0, 3)
        .map(each =>
          h(
            'li.waits',
            {title: each.pod, onclick: () => showPod(each.pod)},
            h('span', {}, briefly(each.pod)),
            h('small', {'data-again': each.again}, again(each))
          )
        ),
      others > 3 && h('li.more', {onclick: () => show('pending')}, h('small', {}, `and ${others - 3} more`))
    ),
    decision && [
      h('h2.of-asks', {}, 'It asks for'),
      h(
        'ul.asks',
        {},
        requests.map(([name, value]) =>
          h('li', {}, h('span', {}, resourceName(name)), h('b', {}, amount(name, value)))
        ),
        decision.asks.map(([name, value]) => h('li.long', {title: value}, h('span', {}, name), h('b', {}, value))),
        !requests.length && !decision.asks.length && h('li', {}, 'nothing')
      )
    ],
    lasts.length > 0 && h('h2', {}, 'Last decisions'),
    h(
      'ul.lasts',
      {},
      lasts.map(each =>
        h(
          'li',
          {title: [each.pod, each.node].filter(Boolean).join(' → '), onclick: () => go(each)},
          h('span', {}, briefly(each.pod)),
          each.node
            ? h('span.yes', {}, '→\u00a0', h('span.node', {}, h('bdi', {}, nodeOnTile(each.node))))
            : h('span.no', {}, '✗ pending')
        )
      )
    )
  );
}

function stateAtEnd(decision) {
  if (decision.node) return 'placed';
  if (isGone(decision)) return 'gone';
  return waitsForRoom(decision.pod) ? 'waits for room' : 'pending';
}

// Whether pods are preempted for a pod that has not got a node since.
function waitsForRoom(pod) {
  const own = decisions().filter(each => each.pod === pod && (!view.at || each.n <= view.at.n));
  const last = own.findLast(each => each.node || each.outcome?.remedy);
  return Boolean(last && !last.node);
}

function again(waiting) {
  const seconds = Math.round(waiting.again - Date.now() / 1000);
  const held = {permit: 'is held', pre_bind: 'is being prepared', post_filter: 'waits for room'}[waiting.for];
  if (held) return held;
  if (waitsForRoom(waiting.pod)) return 'waits for room';
  return waiting.attempts === 0 ? 'next' : seconds > 0 && isBesideCluster() ? `in ${seconds} s` : 'pending';
}
