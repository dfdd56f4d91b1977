"""An index of things by label, so that a rule compares a pod only with selectors that may match.

Rules index the affinity terms of placed pods, nodes by the labels of their pods, budgets, and the selectors
of Services and ReplicaSets.
"""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterable

from scheduler_extras.reading.label_selectors import Requirement
from scheduler_extras.reading.pods_and_nodes import FullPod


def labels_needed(requirements: Iterable[Requirement]) -> list:
    """Return the labels, (key, value), of which a match must have one; [None] if it needs none of them."""
    values_by_key = [(each.key, dict.fromkeys(each.values)) for each in requirements if each.operator == "In"]
    if not values_by_key:
        return [None]
    key, values = min(values_by_key, key=lambda pair: len(pair[1]))
    return [(key, value) for value in values]


def labels_to_look_up(pod: FullPod) -> list:
    """Return the labels under which the selectors that may select a pod are filed."""
    return [None, *pod.labels.items()]


class LabelIndex:
    """Things by namespace and label. An index is immutable: `updated` returns a new one.

    It copies only the namespaces that change.
    """

    def __init__(self, filed: dict | None = None):
        self.filed = filed or {}  # namespace -> {label: the things filed under it}

    def find(self, namespace: str, labels: Iterable) -> set:
        """Return the things of a namespace that are filed under any of these labels."""
        by_label = self.filed.get(namespace, {})
        return set().union(*[by_label[label] for label in labels if label in by_label])

    def updated(self, changes: Iterable[tuple[str, Hashable, Hashable]]) -> LabelIndex:
        """Return the index after changes (namespace, label, thing), which add the thing or else remove it."""
        changed: dict = collections.defaultdict(lambda: collections.defaultdict(set))
        for namespace, label, obj in changes:
            changed[namespace][label] ^= {obj}
        filed = dict(self.filed)
        for namespace, things_by_label in changed.items():
            by_label = dict(filed.pop(namespace, ()))
            for label, things in things_by_label.items():
                by_label[label] = by_label.get(label, set()) ^ things
                if not by_label[label]:
                    del by_label[label]
            if by_label:
                filed[namespace] = by_label
        return LabelIndex(filed)
