"""The schedulers of well-known tutorials as rules, in a file for --plugins.

    python scheduler_extras --plugins scheduler_extras/examples/tutorial_rules.py --policy my_policy.json

A predicate yields the reasons why a pod does not fit a node. A priority returns a score, from 0 to 100 at the end.
A function for `metadata` computes what is needed once per pod, not once per node. The other extension points of the
scheduling framework are options, too: reserve, permit, pre_bind, ... (see scheduler_extras/deciding/extension_points.py).
"""

import logging

from scheduler_extras import Unschedulable, predicate, priority


log = logging.getLogger("scheduler")


# A pod with the label `node` fits only the node of that name.

@predicate("CustomPredicatePolicy")
def custom_predicate(pod, node):
    """The pod has no label `node`, or it names this node."""
    if pod.labels.get("node", node.name) != node.name:
        yield "node(s) were not the one that the pod names"


# A priority in two steps: map (a score for each node), then reduce (all scores together).

def longest_is_100(points):
    """Stretch the scores so that the highest is 100."""
    highest = max(points.values())
    return {name: 100 * score // highest for name, score in points.items()}


@priority("CustomPriorityPolicy", reduce=longest_is_100)
def custom_priority(pod, node):
    """The length of the node's name, as an example."""
    return len(node.name)


# A score that depends on more than the node: on nominated pods, too.

def nominated_pods(pod, nodes, snapshot):
    """Count the waiting pods that are nominated to each node."""
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
    """The percentage of the node's pod capacity that is neither in use nor nominated."""
    return (node.max_pods - len(node.pods) - metadata[node.name]) * 100 // node.max_pods if node.max_pods else 0


# The pod is read once, and checked against each node.

def is_space_pod(pod, nodes, snapshot):
    """Return whether the pod's annotation `type` is "space"."""
    return pod.annotations.get("type") == "space"


@predicate("SpaceCloud", metadata=is_space_pod)
def space_cloud(pod, node, metadata):
    """Space pods run on edge nodes only."""
    if metadata and node.labels.get("kubernetes.io/role") != "edge":
        yield "node(s) were not at the edge"


# Checked arguments, and three extension points.

def no_negative_number(arguments):
    """Yield the mistakes in the arguments."""
    for argument in arguments:
        for name in ("favorNumber", "favorite_number"):
            if (argument[name] or 0) < 0:
                yield f"{name} must not be negative"


def log_pre_filter(pod, nodes, snapshot, arguments):
    """Log that the scheduler is about to choose a node for a pod."""
    given = [{name: value for name, value in argument.items() if value is not None} for argument in arguments]
    log.info("PreFilter %s: %d nodes, arguments %s", pod.key, len(nodes), given)


def log_pre_bind(pod, node, snapshot):
    """Log that a pod is about to be bound."""
    log.info("PreBind %s: %s", pod.key, node.name)


FIELDS = {"favorColor": str, "favorNumber": int, "thanksTo": str,  # as the tutorial spells them in one place,
          "favorite_color": str, "favorite_number": int, "thanks_to": str}  # and in another


@predicate("sample-plugin", metadata=log_pre_filter, pre_bind=log_pre_bind, check=no_negative_number,
           argument=FIELDS, default=dict.fromkeys(FIELDS))  # so all of them are optional
def sample_plugin(pod, node, metadata):
    """Every pod fits every node."""
    log.info("Filter %s: %s", pod.key, node.name)
    return []


# Pods of a group are bound together or not at all. The label `group` names the group, `group-size` is its size.

hopeless: set[tuple[str, str] | None] = set()  # groups with a pod that fits no node


def group_of(pod):
    """Return (namespace, name) of the pod's group, or None."""
    return (pod.namespace, pod.labels["group"]) if "group" in pod.labels else None


def by_group(pod):
    """Sort pods so that the pods of a group follow one another."""
    return -pod.priority, group_of(pod) or (), pod.created


def group_has_hope(pod, node, snapshot):
    """Give the group another chance, because one of its pods has a node."""
    hopeless.discard(group_of(pod))


def group_has_none(pod, failed, snapshot):
    """Let the waiting pods of the group give up their nodes, because this pod fits no node."""
    hopeless.add(group_of(pod))


def group_is_complete(pod, node, snapshot):
    """Let the pod wait up to 30 seconds, until all pods of its group have a node."""
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
