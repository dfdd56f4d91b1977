"""Counting matching pods per node, for the rules of affinity and spreading."""

import collections

from scheduler_extras.deciding.answers import recall
from scheduler_extras.deciding.seen import signature


def count_pods(node, is_meant, namespace=None):
    """Return how many pods on a node are meant; of those that are alike to selectors, one is asked about.

    namespace: the one whose pods may be meant; None: any.
    """
    by_namespace = pods_by_namespace(node)
    if namespace is not None and namespace not in by_namespace:  # as on most nodes
        return 0
    groups = by_namespace.values() if namespace is None else [by_namespace[namespace]]
    return sum([len(pods) for alike in groups for pods in alike.values() if is_meant(pods[0])])


def nodes_that_may_count(namespace, requirements, snapshot):
    """Return the names of the nodes with pods of a namespace that may meet these requirements.

    Where one of these is a label, as in most selectors, they are those with pods that have it.
    """
    labels = ((each.key, each.values[0]) for each in requirements
              if each.operator == "In" and len(each.values) == 1)
    label = next(labels, None)
    found = recall("nodes by label", "", snapshot, snapshot.nodes, labels_on,
                   then=lambda nodes, on_nodes: regroup({}, {}, on_nodes), change=regroup)
    return found.get(namespace, {}).get(label, ())


def labels_on(node):
    """Return the labels of the pods on a node, {(namespace, (key, value))}, and for each namespace None."""
    return frozenset([
        (namespace, label) for namespace, alike in pods_by_namespace(node).items()
        for pods in alike.values() for label in (None, *pods[0].labels.items())])


def regroup(found, before, now):
    """Return {namespace: {label: names of nodes}}, as on some nodes there are other labels than before."""
    changed = collections.defaultdict(lambda: collections.defaultdict(set))
    for name, labels in now.items():
        for namespace, label in labels ^ before.get(name, frozenset()):
            changed[namespace][label].add(name)
    found = dict(found)  # what was known is not changed
    for namespace, names_by_label in changed.items():
        by_label = dict(found.get(namespace, ()))
        for label, names in names_by_label.items():
            by_label[label] = by_label.get(label, set()) ^ names
        found[namespace] = {label: names for label, names in by_label.items() if names}
    return {namespace: by_label for namespace, by_label in found.items() if by_label}


def pods_by_namespace(node):
    """Return the pods on a node, {namespace: {what they share: those that are alike to selectors}}."""
    if pods_by_namespace not in node.derived:
        found = node.derived[pods_by_namespace] = {}
        for pod in node.pods.values():
            alike = found.setdefault(pod.namespace, collections.defaultdict(list))
            alike[signature(pod, ("labels", "terminating")) or pod.uid].append(pod)
    return node.derived[pods_by_namespace]
