"""The selectors of the Services, ReplicaSets and so on that select a pod. Rules that spread pods use them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from scheduler_extras.common.errors import InvalidSelector, Malformed
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import Requirement, label_selector, labels_match
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.label_index import LabelIndex, labels_needed, labels_to_look_up


OWNERS = ("services", "replicationcontrollers", "replicasets", "statefulsets")  # upstream: DefaultSelector
SELECT_BY_LABELS = ("services", "replicationcontrollers")  # the selector of these kinds is {label: value}


def selectors_of(pod: FullPod, snapshot: FullSnapshot, *resources: str) -> list:
    """Return the selectors of the objects of these resources that select the pod."""
    selectors = []
    for resource in resources:
        key = "selectors", resource
        if key not in snapshot.derived:
            snapshot.derived[key] = Selectors(resource)
        with contextlib.suppress(InvalidSelector):  # the whole resource is then skipped, as upstream
            selectors += snapshot.derived[key].that_select(pod, snapshot.objects[resource])
    return selectors


def selector_in(owner: dict, resource: str | None) -> Any:
    """Return the selector of an object of the resource as a LabelSelector."""
    selector = pick(owner, dict, "spec").get("selector")
    return {"matchLabels": selector} if selector and resource in SELECT_BY_LABELS else selector


class Selectors:
    """The selectors of a resource, each parsed once and indexed by its namespace and one of its labels."""

    def __init__(self, resource: str):
        self.resource = resource
        # By namespace/name: the API's JSON, as of the last call of that_select, and the valid selectors.
        self.objects: dict[str, dict] = {}
        self.selectors: dict[str, Sequence[Requirement]] = {}
        self.index = LabelIndex()  # of namespace/name; invalid selectors are found for each pod

    def that_select(self, pod: FullPod, objects: dict[str, dict]) -> list:
        """Return the selectors of these objects that select a pod, sorted by the objects' names.

        Raises Malformed, such as InvalidSelector, if a selector in the pod's namespace is invalid.
        """
        if objects is not self.objects:  # each change makes a new dict
            self.update(objects)
        found = sorted(self.index.find(pod.namespace, labels_to_look_up(pod)))
        invalid = [key for key in found if key not in self.selectors]
        if invalid:
            self.read(objects[invalid[0]])  # raises
        return [self.selectors[key] for key in found if labels_match(pod.labels, self.selectors[key])]

    def update(self, objects: dict[str, dict]) -> None:
        """Apply new, changed and deleted objects."""
        before = self.objects
        keys = before.keys() | objects.keys()
        changed = [key for key in keys if before.get(key) is not objects.get(key)]
        filings = [*self.filings(changed)]
        self.objects = objects
        for key in changed:
            self.selectors.pop(key, None)
            with contextlib.suppress(Malformed):
                if key in objects:
                    self.selectors[key] = self.read(objects[key])
        self.index = self.index.updated([*filings, *self.filings(changed)])

    def filings(self, keys: Iterable[str]) -> Iterator[tuple[str, Any, str]]:
        """Yield the entries of the index for these keys, (namespace, label, key)."""
        for key in keys:
            if key in self.objects:
                for label in labels_needed(self.selectors.get(key, ())):
                    yield key.rpartition("/")[0], label, key

    def read(self, obj: dict) -> Sequence[Requirement]:
        """Return the Requirements of an object's selector. Raises Malformed, such as InvalidSelector."""
        return label_selector(selector_in(obj, self.resource))
