"""CheckServiceAffinity and ServiceAffinity: keep a Service's pods together or apart, by labels of nodes."""

from __future__ import annotations

import collections
from typing import Any

from scheduler_extras.deciding.rule import SKIP, predicate, priority
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.label_selectors import NOTHING
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.selectors import selectors_of
from scheduler_extras.rules.spreading import by_domain, matching_pods


NO_SERVICE_AFFINITY = "node(s) didn't match service affinity"


def service_pairs(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot, arguments: list[dict]) -> Any:
    """Return the node labels that the pods of the Service share, {label: value}; or SKIP.

    They come from the pod's nodeSelector, or else from the node of another pod of the Service.
    """
    labels = [label for argument in arguments for label in argument.get("labels", [])]
    pairs = {label: pod.node_selector[label] for label in labels if label in pod.node_selector}
    if len(pairs) < len(labels) and selectors_of(pod, snapshot, "services"):
        for node in nodes:
            if any(other.namespace == pod.namespace and pod.labels.items() <= other.labels.items()
                   for other in node.pods.values()):
                return {label: node.labels[label] for label in labels if label in node.labels} | pairs
    return pairs or SKIP


@predicate("CheckServiceAffinity", metadata=service_pairs, member="serviceAffinity",
           argument={"labels": [str]}, steady=True)
def check_service_affinity(pod, node, metadata):
    """The node has the label values that the pods of the Service share."""
    if not metadata.items() <= node.labels.items():
        yield NO_SERVICE_AFFINITY


def service_spread(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot,
                   arguments: list[dict]) -> list[tuple[str, collections.Counter]]:
    """Return [(label of the Policy, {its value: how many pods of the Service are on nodes with it})]."""
    # A Service with an empty selector counts no pod, like one without a selector.
    selector = next(iter(selectors_of(pod, snapshot, "services")), ()) or NOTHING
    labels = [argument.get("label", "") for argument in arguments]
    numbers = matching_pods(pod, selector, snapshot)
    return [(label, by_domain(numbers, {node.name: node.labels.get(label) for node in nodes}))
            for label in labels]


@priority("ServiceAffinity", metadata=service_spread, member="serviceAntiAffinity",
          argument={"label": str}, steady=True)
def service_affinity(pod, node, metadata):
    """The percentage of the Service's pods that are in other domains: the mean over the Policy's labels."""
    score = 0.0
    for label, counts in metadata:
        if label in node.labels:
            total = sum(counts.values())
            elsewhere = total - counts[node.labels[label]]
            score += (100 * (elsewhere / total) if total else 100.0) / len(metadata)
    return int(score)
