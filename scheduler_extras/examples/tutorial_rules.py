"""The schedulers of the tutorials, as rules: what a file for --plugins looks like.

    python scheduler_extras --plugins scheduler_extras/examples/tutorial_rules.py --policy my_policy.json

A predicate yields the reasons why a pod does not fit a node. A priority returns a score, from 0 to 100 at the end.
What is to be worked out once per pod, not once per node, is a function for `metadata`. The other extension points of
the scheduling framework are options too: reserve, permit, pre_bind, ... (see scheduler_extras/deciding/extension_points.py).
"""

import logging

from scheduler import predicate, priority
from scheduler_extras import Unschedulable

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
    """Begin again when a pod of the group gets a node."""
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
