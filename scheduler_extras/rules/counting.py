"""Counting the matching pods on each node, for the rules about affinity and spreading."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable

from scheduler_extras.deciding.answers import compute_each, index_of_nodes
from scheduler_extras.deciding.recorded_reads import signature
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.label_selectors import Requirement
from scheduler_extras.reading.pods_and_nodes import FullNode
from scheduler_extras.rules.label_index import LabelIndex, labels_needed


def count_pods(node: FullNode, matches: Callable, namespace: str | None = None) -> int:
    """Return how many pods on a node match. `matches` is called once for all pods with equal labels.

    namespace: the namespace whose pods count; None for all.
    """
    by_namespace = pods_by_namespace(node)
    if namespace is not None and namespace not in by_namespace:  # as on most nodes
        return 0
    groups = by_namespace.values() if namespace is None else [by_namespace[namespace]]
    return sum([len(pods) for alike in groups for pods in alike.values() if matches(pods[0])])


def nodes_that_may_count(namespace: str, requirements: Iterable[Requirement], snapshot: FullSnapshot) -> set:
    """Return the names of the nodes that have pods of a namespace which may meet these requirements."""
    index = index_of_nodes("nodes by label", snapshot, compute_each(labels_on), with_labels)
    return index.find(namespace, labels_needed(requirements))


def labels_on(node: FullNode) -> frozenset:
    """Return the labels of the pods on a node, {(namespace, (key, value))}, and {(namespace, None)}."""
    return frozenset([
        (namespace, label) for namespace, alike in pods_by_namespace(node).items()
        for pods in alike.values() for label in (None, *pods[0].labels.items())])


def with_labels(index: LabelIndex | None, before: dict, now: dict) -> LabelIndex:
    """Return the LabelIndex of nodes after the labels of the pods on some of them have changed."""
    return (index or LabelIndex()).updated(
        (*filing, name) for name, labels in now.items() for filing in labels ^ before.get(name, frozenset()))


def with_numbers(numbers: dict | None, before: dict, now: dict) -> dict:
    """Return the numbers of nodes, without zeros, after some of them have changed."""
    return without_zeros((numbers or {}) | now)


def without_zeros(numbers: dict) -> dict:
    """Return the numbers that are not 0."""
    return {name: number for name, number in numbers.items() if number}


def pods_by_namespace(node: FullNode) -> dict[str, dict]:
    """Return the pods on a node, {namespace: {signature: pods with equal labels}}."""
    if pods_by_namespace not in node.derived:
        found: dict[str, dict] = {}
        node.derived[pods_by_namespace] = found
        for pod in node.pods.values():
            alike = found.setdefault(pod.namespace, collections.defaultdict(list))
            alike[signature(pod, ("labels", "terminating")) or pod.uid].append(pod)
    return node.derived[pods_by_namespace]
