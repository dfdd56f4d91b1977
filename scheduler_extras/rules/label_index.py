"""The index of labels: finds what is filed under a label without a search.

Rules file the terms of placed pods, the nodes of placed pods, and the selectors of Services and ReplicaSets.
"""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterable

from scheduler_extras.reading.label_selectors import Requirement
from scheduler_extras.reading.pods_and_nodes import FullPod


def labels_needed(requirements: Iterable[Requirement]) -> list:
    """Return labels, (key, value): all that a selector selects has one of them; [None]: there are none."""
    values_by_key = [(each.key, dict.fromkeys(each.values)) for each in requirements if each.operator == "In"]
    if not values_by_key:
        return [None]
    key, values = min(values_by_key, key=lambda pair: len(pair[1]))
    return [(key, value) for value in values]


def labels_to_look_up(pod: FullPod) -> list:
    """Return the labels under which all selectors are filed that may select a pod."""
    return [None, *pod.labels.items()]


class LabelIndex:
    """Things, filed by namespace and label. An index is immutable: `updated` returns a new one.

    That is cheap, because only the namespaces that change are copied.
    """

    def __init__(self, filed: dict | None = None):
        self.filed = filed or {}  # namespace -> {label: the things that are filed there}

    def find(self, namespace: str, labels: Iterable) -> set:
        """Return the things that are filed under one of these labels."""
        by_label = self.filed.get(namespace, {})
        return set().union(*[by_label[label] for label in labels if label in by_label])

    def updated(self, changes: Iterable[tuple[str, Hashable, Hashable]]) -> LabelIndex:
        """Return the index after changes, (namespace, label, thing): each adds a thing, or removes it."""
        changed: dict = collections.defaultdict(lambda: collections.defaultdict(set))
        for namespace, label, thing in changes:
            changed[namespace][label] ^= {thing}
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
