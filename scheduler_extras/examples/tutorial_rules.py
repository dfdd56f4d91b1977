"""The schedulers of the tutorials, as rules: what a file for --plugins looks like.

    python scheduler.py --plugins scheduler_extras/examples/tutorial_rules.py --policy my_policy.json

A predicate yields the reasons why a pod does not fit a node. A priority returns a score, from 0 to 100 at the end.
What is to be worked out once per pod, not once per node, is a function for `metadata`. The other extension points of
the scheduling framework are options too: reserve, permit, pre_bind, ... (see scheduler_extras/extension_points.py).
"""

import collections
import contextlib
import logging

from scheduler import ApiError, InvalidSelector, Unschedulable, event, now, pick, predicate, priority, satisfies
from scheduler_extras import label_selector, nominate, reasons_supposing

log = logging.getLogger("scheduler")


# A pod that names a node fits only that node.

@predicate("CustomPredicatePolicy")
def custom_predicate(pod, node):
    """The pod's label `node` names this node, or none."""
    if pod.labels.get("node", node.name) != node.name:
        yield "node(s) were not the one that the pod names"


# A score of one's own: map (a score for each node), then reduce (all of them together).

def longest_is_100(points):
    """Stretch the scores so that the highest is 100."""
    highest = max(points.values())
    return {name: 100 * score // highest for name, score in points.items()}


@priority("CustomPriorityPolicy", reduce=longest_is_100)
def custom_priority(pod, node):
    """The length of the node's name: as good a reason as any."""
    return len(node.name)


# A score that looks beyond the node: pods on it, and pods that are nominated to it.

def nominated_pods(pod, nodes, snapshot):
    """Count the pods that are nominated to each node and have none yet."""
    counts = dict.fromkeys(snapshot.nodes, 0)
    for other in snapshot.objects["pods"].values():
        node_name = other.get("status", {}).get("nominatedNodeName")
        if node_name in counts and not other["spec"].get("nodeName"):
            counts[node_name] += 1
    return counts


def from_lowest_to_highest(points):
    """Stretch the scores so that the lowest is 0 and the highest 100; all are 0 if they are equal."""
    low, high = min(points.values()), max(points.values())
    return {name: 100 * (score - low) // (high - low) if high > low else 0 for name, score in points.items()}


@priority("PodCapacityOfNode", metadata=nominated_pods, reduce=from_lowest_to_highest)
def pod_capacity_of_node(pod, node, metadata):
    """The share of the node's room for pods, in percent, that is neither taken nor nominated."""
    return (node.max_pods - len(node.pods) - metadata[node.name]) * 100 // node.max_pods if node.max_pods else 0


# What is read of the pod once, and asked of each node.

def is_space_pod(pod, nodes, snapshot):
    """Whether the pod's annotation says so."""
    return pod.annotations.get("type") == "space"


@predicate("SpaceCloud", metadata=is_space_pod)
def space_cloud(pod, node, metadata):
    """Space pods run on edge nodes only."""
    if metadata and node.labels.get("kubernetes.io/role") != "edge":
        yield "node(s) were not at the edge"


# Arguments, which are checked, and three extension points.

def no_negative_number(arguments):
    """Yield what is wrong with the arguments."""
    for argument in arguments:
        for name in ("favorNumber", "favorite_number"):
            if (argument[name] or 0) < 0:
                yield f"{name} must not be negative"


def say_pre_filter(pod, nodes, snapshot, arguments):
    """Say that a pod is about to be placed."""
    given = [{name: value for name, value in argument.items() if value is not None} for argument in arguments]
    log.info("PreFilter %s: %d nodes, arguments %s", pod.key, len(nodes), given)


def say_pre_bind(pod, node, snapshot):
    """Say that a pod is about to be bound."""
    log.info("PreBind %s: %s", pod.key, node.name)


FIELDS = {"favorColor": str, "favorNumber": int, "thanksTo": str,  # as the tutorial's text has them in one place,
          "favorite_color": str, "favorite_number": int, "thanks_to": str}  # and in another


@predicate("sample-plugin", metadata=say_pre_filter, pre_bind=say_pre_bind, check=no_negative_number,
           argument=FIELDS, default=dict.fromkeys(FIELDS))  # so each of them may be left out
def sample_plugin(pod, node, metadata):
    """Every pod fits every node."""
    log.info("Filter %s: %s", pod.key, node.name)
    return []


# Pods of a group are bound together or not at all: the label `group` names it, `group-size` says how many they are.

hopeless = set()  # groups of which a pod fits nowhere


def group_of(pod):
    """Return the pod's group, which is one of its namespace; None: it is in none."""
    return (pod.namespace, pod.labels["group"]) if "group" in pod.labels else None


def by_group(pod):
    """Try the pods of a group one after another."""
    return -pod.priority, group_of(pod) or (), pod.created


def group_has_hope(pod, node, snapshot):
    """Begin anew when a pod of the group gets a node."""
    hopeless.discard(group_of(pod))


def group_has_none(pod, failed, snapshot):
    """Have those that wait for this pod, which fits nowhere, give their room to other groups."""
    hopeless.add(group_of(pod))


def group_is_complete(pod, node, snapshot):
    """Let the pod wait, for up to half a minute, until as many pods of its group as it needs have a node."""
    group, size = group_of(pod), int(pod.labels.get("group-size", 1))
    placed = sum(group_of(other) == group for there in snapshot.nodes.values() for other in there.pods.values())
    if not group or placed >= size:
        return None
    if group in hopeless:
        raise Unschedulable(f"there is no room for all {size} pods of group {group[1]}")
    return 30, f"{placed} of {size} pods of group {group[1]} have a node"


@predicate("Coscheduling", queue_sort=by_group, reserve=group_has_hope, post_filter=group_has_none,
           permit=group_is_complete)
def coscheduling(pod, node):
    """Pods of a group are bound together, or not at all."""
    return []


# Preemption: a pod that fits nowhere has less important ones deleted, as by DefaultPreemption of kube-scheduler 1.20, or,
# under a KubeSchedulerConfiguration, of 1.36. But under both its nomination ends as soon as nobody's going would help it,
# as since 1.24 (kubernetes#106816).

def budgets_of(pod, snapshot):
    """Yield the names of the disruption budgets that count the pod, and how many of their pods may go."""
    path = "apis/policy/{}/poddisruptionbudgets".format
    try:
        budgets = snapshot.objects[path("v1")]
    except ApiError:  # up to Kubernetes 1.20
        budgets = snapshot.objects[path("v1")] = snapshot.objects[path("v1beta1")]  # for this pass
    for key, budget in budgets.items():
        with contextlib.suppress(InvalidSelector):
            selector = label_selector(pick(budget, dict, "spec").get("selector"))
            if key.startswith(f"{pod.namespace}/") and selector and pod.labels and satisfies(pod.labels, selector):
                if pod.name not in pick(budget, dict, "status", "disruptedPods"):  # else its going is counted already
                    yield key, pick(budget, int, "status", "disruptionsAllowed")


def started(pod):
    """Return when the pod started, as the API writes times; a pod that has not is younger than all that have."""
    return pick(pod.raw, str, "status", "startTime") or "9"


def victims_on(pod, node, snapshot):
    """Return who has to go for the pod to fit: {pod: whether that violates a budget}; nobody if it does not help."""
    lower = sorted((other for other in node.pods.values() if other.priority < pod.priority),
                   key=lambda other: (-other.priority, started(other), other.key))
    if not lower or reasons_supposing(pod, node, snapshot, lower):
        return {}
    gone, taken = {}, collections.Counter()
    for other in lower:
        budgets = dict(budgets_of(other, snapshot))
        taken.update(budgets.keys())
        gone[other] = any(taken[key] > allowed for key, allowed in budgets.items())
    for other in sorted(gone, key=lambda other: not gone[other]):  # all are gone; who may come back?
        violates = gone.pop(other)
        if reasons_supposing(pod, node, snapshot, gone):
            gone[other] = violates
    if snapshot.policies[pod.scheduler].kind == "KubeSchedulerConfiguration":
        return {other: gone[other] for other in lower if other in gone}  # the most important one first
    return gone


def is_hopeless(pod, node, snapshot):
    """Say whether the pod does not fit the node even if that were empty."""
    return bool(reasons_supposing(pod, node, snapshot, gone=node.pods.values()))


def is_going(pod, snapshot):
    """Say whether a pod is being deleted, or is to be by what has been decided in this pass."""
    return pod.terminating or pod.uid in snapshot.objects.setdefault("going", set())


WHY = ["where the fewest budgets are violated", "where those that go matter least", "where their priorities add up to the least",
       "where they are the fewest", "where they started last"]


def merits(victims):
    """Return what speaks for the node with these victims, what counts most first; the first victim stands for all."""
    highest = max(victim.priority for victim in victims)
    return (-sum(victims.values()), -next(iter(victims)).priority, -sum(victim.priority + 2**31 for victim in victims),
            -len(victims), min(started(victim) for victim in victims if victim.priority == highest))


def make_room(pod, node, victims, snapshot):
    """Yield the requests: the victims go, the pod is nominated to the node, and less important ones no longer."""
    victims = [victim for victim in victims if not is_going(victim, snapshot)]
    for victim in victims:
        snapshot.objects["going"].add(victim.uid)
        path = f"/api/v1/namespaces/{victim.namespace}/pods/{victim.name}"
        yield "PATCH", f"{path}/status", {"metadata": {"uid": victim.uid}, "status": {"conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": f"{pod.scheduler}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": now()}]}}  # which tells a Job that its pod has not failed by itself
        yield "DELETE", path, {"preconditions": {"uid": victim.uid}}
    yield nominate(pod, node.name, snapshot)
    for victim in victims:
        message = f"Preempted by {pod.key} on node {node.name}"
        method, path, body = event(victim, "Normal", "Preempted", message)
        by = {"source": {"component": pod.scheduler}, "reportingComponent": pod.scheduler}
        yield method, path, body | by
    for other in snapshot.nominated:  # at the end, as one that has gone by now would end what is sent
        if (other.nominated_node == node.name and other.priority < pod.priority
                and other.scheduler in snapshot.policies):
            yield nominate(other, None, snapshot)


def preempt(pod, failed, snapshot):
    """Choose the node where the pods that have to go are missed least. Return the requests, and what they do."""
    if pod.spec.get("preemptionPolicy") == "Never":
        return None
    nominated = next((other.nominated_node for other in snapshot.nominated if other.uid == pod.uid), None)
    home, nodes = snapshot.nodes.get(nominated), snapshot.nodes.values()
    if home and not is_hopeless(pod, home, snapshot) and any(
            is_going(other, snapshot) and other.priority < pod.priority for other in home.pods.values()):
        return [], f"It waits until the pods that are being deleted on {home.name} have gone."
    found = {node: victims for node in nodes if (victims := victims_on(pod, node, snapshot))}
    if not found:  # 1.20 lets it keep its nomination, so that two pods may keep each other from one room for ever
        return ([nominate(pod, None, snapshot)], "") if nominated else None
    best, *others = sorted(found, key=lambda node: merits(found[node]), reverse=True)
    runner_up = merits(found[others[0]]) if others else ()
    why = next((why for why, ours, its in zip(WHY, merits(found[best]), runner_up) if ours != its), "where that helps")
    return list(make_room(pod, best, found[best], snapshot)), (
        f"It preempts {', '.join(victim.key for victim in found[best])} on {best.name}, {why}.")


@predicate("Preemption", post_filter=preempt)
def preemption(pod, node):
    """Every pod fits every node. That room for nominated pods is left to them is seen to whatever the Policy."""
    return []
