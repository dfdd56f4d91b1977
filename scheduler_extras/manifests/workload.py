"""A workload as its controller sees it: what it says, the pods that it has, and those that it makes.

The modules of controllers read workloads with it.
"""

import hashlib
import itertools
import json

from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.label_selectors import label_selector, labels_match
from scheduler_extras.rules.selectors import SELECT_BY_LABELS, selector_in


LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # of which generated names are made
LOST = "a ReplicaSet that is not there"  # as the owner of pods


def letters_of(text, length=5):
    """Return letters as in generated names, always the same for a text."""
    number = int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:8], "big")
    return "".join(LETTERS[number // len(LETTERS) ** i % len(LETTERS)] for i in range(length))


def generated(prefix, resource, namespace, objects):
    """Return a name as API servers generate it for a prefix; in each run it is the same."""
    names = (prefix + letters_of(f"{prefix} {i}") for i in itertools.count(len(objects)))
    return next(name for name in names if (resource, namespace, name) not in objects)


def number_in(spec, name):
    """Return a number of a workload's spec; what is not said is 1. Raises Malformed."""
    return 1 if spec.get(name) is None else pick(spec, int, name)


class Workload:
    """A workload as its controller sees it: what it says, and the pods that it has. Raises Malformed."""

    def __init__(self, kind, thing, manifests, owned):
        self.manifests = manifests
        self.name = text_at(thing, "metadata", "name")
        self.namespace = text_at(thing, "metadata", "namespace")
        self.spec = pick(thing, dict, "spec")
        self.status = pick(thing, dict, "status")
        self.template = pick(self.spec, dict, "template")
        self.labels = pick(self.template, dict, "metadata", "labels", of=str)
        self.annotations = pick(self.template, dict, "metadata", "annotations")
        self.hash = letters_of(json.dumps(self.template, default=str), 10)  # upstream's is another one
        self.reference = {
            "apiVersion": text_at(thing, "apiVersion"), "kind": kind, "name": self.name, "controller": True,
            "uid": text_at(thing, "metadata", "uid") or f"{kind} {self.namespace}/{self.name}"}
        resource = f"{kind.lower()}s"
        selector = selector_in(thing, resource)
        if resource in SELECT_BY_LABELS and not selector:
            selector = {"matchLabels": self.labels}
        meant = label_selector(selector)
        orphans = owned[LOST if kind == "Deployment" else "", self.namespace, ""]
        self.adopted = [pod for pod in orphans if labels_match(pick(pod, dict, "metadata", "labels"), meant)]
        self.pods = owned[kind, self.namespace, self.name] + self.adopted

    def template_without_hash(self):
        """Return its template, without the label that a Deployment adds for its ReplicaSet."""
        labels = {key: value for key, value in self.labels.items() if key != "pod-template-hash"}
        return labels, self.annotations, pick(self.template, dict, "spec")

    def pod(self, name, labels, spec):
        """Return a pod of its template with these labels and fields, too; a name may be the begin of one."""
        metadata = {
            "generateName" if name.endswith("-") else "name": name,
            "namespace": self.namespace, "labels": self.labels | labels,
            "annotations": self.annotations, "ownerReferences": [self.reference]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                "spec": pick(self.template, dict, "spec") | spec}


def active(pods):
    """Return which pods have not ended, and are not being deleted: for these a controller makes no others."""
    return [pod for pod in pods if not text_at(pod, "metadata", "deletionTimestamp")
            and text_at(pod, "status", "phase") not in ("Succeeded", "Failed")]


# How many pods a controller makes: functions of a Workload that yield, for each pod that lacks, its name (one
# that ends with a hyphen gets letters), and labels and fields of its spec that are not in the template. Those
# of DaemonSets, Jobs and StatefulSets are in modules of their own.

def pods_of_replicas(workload):
    """Yield as many pods as lack. Upstream: pkg/controller/replicaset."""
    missing = number_in(workload.spec, "replicas") - len(active(workload.pods))
    yield from itertools.repeat((f"{workload.name}-", {}, {}), max(missing, 0))
