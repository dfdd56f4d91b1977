"""A workload, such as a ReplicaSet or Job, with its pods, as its controller reads it.

The modules that play controllers use it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.label_selectors import label_selector, labels_match
from scheduler_extras.rules.selectors import SELECT_BY_LABELS, selector_in


LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # the characters of generated names
LOST = "a missing ReplicaSet"  # as the owner of pods


def letters_of(text: str, length: int = 5) -> str:
    """Return the suffix of a generated name. It is always the same for a text."""
    number = int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:8], "big")
    return "".join(LETTERS[number // len(LETTERS) ** i % len(LETTERS)] for i in range(length))


def generated(prefix: str, resource: str, namespace: str | None, objects: dict) -> str:
    """Return a free name with a prefix, as API servers generate it, but the same in each run."""
    names = (prefix + letters_of(f"{prefix} {i}") for i in itertools.count(len(objects)))
    return next(name for name in names if (resource, namespace, name) not in objects)


def number_in(spec: dict, name: str) -> int:
    """Return a number in a workload's spec, 1 if it is missing. Raises Malformed."""
    return 1 if spec.get(name) is None else pick(spec, int, name)


class Workload:
    """A workload and its pods, as its controller reads them. Raises Malformed."""

    def __init__(self, kind: str, obj: dict, manifests: Any, owned: dict):
        self.kind = kind
        self.manifests = manifests
        self.name = text_at(obj, "metadata", "name")
        self.namespace = text_at(obj, "metadata", "namespace")
        self.spec = pick(obj, dict, "spec")
        self.status = pick(obj, dict, "status")
        self.template = pick(self.spec, dict, "template")
        self.labels = pick(self.template, dict, "metadata", "labels", of=str)
        self.annotations = pick(self.template, dict, "metadata", "annotations")
        self.hash = letters_of(json.dumps(self.template, default=str), 10)  # differs from upstream's
        self.reference = {
            "apiVersion": text_at(obj, "apiVersion"), "kind": kind, "name": self.name, "controller": True,
            "uid": text_at(obj, "metadata", "uid") or f"{kind} {self.namespace}/{self.name}"}
        resource = f"{kind.lower()}s"
        selector = selector_in(obj, resource)
        if resource in SELECT_BY_LABELS and not selector:
            selector = {"matchLabels": self.labels}
        meant = label_selector(selector)
        orphans = owned[LOST if kind == "Deployment" else "", self.namespace, ""]
        self.adopted = [pod for pod in orphans if labels_match(pick(pod, dict, "metadata", "labels"), meant)]
        self.pods = owned[kind, self.namespace, self.name] + self.adopted

    def template_without_hash(self) -> tuple:
        """Return the parts of its template without the label pod-template-hash, which Deployments add."""
        labels = {key: value for key, value in self.labels.items() if key != "pod-template-hash"}
        return labels, self.annotations, pick(self.template, dict, "spec")

    def pod(self, name: str, labels: dict, spec: dict) -> dict:
        """Return a pod of its template with more labels and fields. A name that ends in "-" is a prefix."""
        metadata = {
            "generateName" if name.endswith("-") else "name": name,
            "namespace": self.namespace, "labels": self.labels | labels,
            "annotations": self.annotations, "ownerReferences": [self.reference]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                "spec": pick(self.template, dict, "spec") | spec}


def active(pods: Iterable[dict]) -> list[dict]:
    """Return the pods that have not finished and are not terminating. Upstream: FilterActivePods."""
    return [pod for pod in pods if not text_at(pod, "metadata", "deletionTimestamp")
            and text_at(pod, "status", "phase") not in ("Succeeded", "Failed")]


# For each kind of workload, a function yields the pods that its controller would create: the name (if it ends
# in "-", a suffix is generated), and the labels and spec fields that are not in the template. The functions
# for DaemonSets, Jobs and StatefulSets are in modules of their own.

def pods_of_replicas(workload: Workload) -> Iterator[tuple[str, dict, dict]]:
    """Yield the missing pods. Upstream: pkg/controller/replicaset."""
    missing = number_in(workload.spec, "replicas") - len(active(workload.pods))
    yield from itertools.repeat((f"{workload.name}-", {}, {}), max(missing, 0))
