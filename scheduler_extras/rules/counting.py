"""How many pods on which nodes are meant: the rules of affinity and of spreading count by this."""

import collections

from scheduler_extras.memory import recall
from scheduler_extras.seen import signature


def count_pods(node, is_meant, namespace=None):
    """Return how many pods on a node are meant; of those that are alike to selectors, one is asked about.

    namespace: the one whose pods may be meant; None: any.
    """
    by_namespace = pods_by_namespace(node)
    if namespace is not None and namespace not in by_namespace:  # as on most nodes
        return 0
    groups = by_namespace.values() if namespace is None else [by_namespace[namespace]]
    return sum([len(pods) for alike in groups for pods in alike.values() if is_meant(pods[0])])


def nodes_by_namespace(snapshot):
    """Return {namespace: the names of the nodes on which it has pods}."""
    return recall("namespaces", "", snapshot, snapshot.nodes, lambda node: frozenset(pods_by_namespace(node)),
                  then=lambda nodes, on_nodes: regroup({}, {}, on_nodes), change=regroup)


def regroup(names, before, now):
    """Return {namespace: names of nodes}, as some nodes have pods of other namespaces now than before."""
    changed = {}
    for name, namespaces in now.items():
        for namespace in namespaces ^ before.get(name, frozenset()):
            if namespace not in changed:
                changed[namespace] = set(names.get(namespace, ()))  # what was known is not changed
            changed[namespace] ^= {name}
    return {namespace: found for namespace, found in (names | changed).items() if found}


def pods_by_namespace(node):
    """Return the pods on a node, {namespace: {what they share: those that are alike to selectors}}."""
    if pods_by_namespace not in node.derived:
        found = node.derived[pods_by_namespace] = {}
        for pod in node.pods.values():
            alike = found.setdefault(pod.namespace, collections.defaultdict(list))
            alike[signature(pod, ("labels", "terminating")) or pod.uid].append(pod)
    return node.derived[pods_by_namespace]
