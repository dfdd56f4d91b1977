"""The pods that controllers would make of Deployments, Jobs and so on. Upstream: pkg/controller.

Manifests have them made once all are read; pods that are there already count.
"""

import collections
import hashlib
import itertools
import json

from scheduler import untolerated_taints, matches_node
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.deciding.rule import WHEN
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.label_selectors import label_selector, labels_match
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.selectors import SELECT_BY_LABELS, selector_in


MOST = 10_000  # pods that are made of one workload
INDEX = "batch.kubernetes.io/job-completion-index"  # of a pod of an Indexed Job: a label, and an annotation
LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # of which generated names are made
LOST = "a ReplicaSet that is not there"  # as the owner of pods
DAEMON_TAINTS = {  # what the pods of a DaemonSet tolerate -> its effect
    "not-ready": "NoExecute", "unreachable": "NoExecute", "disk-pressure": "NoSchedule",
    "memory-pressure": "NoSchedule", "pid-pressure": "NoSchedule", "unschedulable": "NoSchedule"}


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
# that ends with a hyphen gets letters), and labels and fields of its spec that are not in the template.

def pods_of_replicas(workload):
    """Yield as many pods as lack. Upstream: pkg/controller/replicaset."""
    missing = number_in(workload.spec, "replicas") - len(active(workload.pods))
    yield from itertools.repeat((f"{workload.name}-", {}, {}), max(missing, 0))


def pods_of_stateful_set(workload):
    """Yield pods with numbers, as if each were ready at once, and make their claims.

    Upstream: pkg/controller/statefulset.
    """
    objects = workload.manifests.objects
    start = pick(workload.spec, int, "ordinals", "start")
    for ordinal in range(start, start + number_in(workload.spec, "replicas")):
        name = f"{workload.name}-{ordinal}"
        if ("pods", workload.namespace, name) in objects:
            continue
        volumes = {text_at(each, "name"): each
                   for each in pick(workload.template, list, "spec", "volumes", of=dict)}
        for template in pick(workload.spec, list, "volumeClaimTemplates", of=dict):
            volume = text_at(template, "metadata", "name")
            claim = f"{volume}-{name}"
            volumes[volume] = {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            if ("persistentvolumeclaims", workload.namespace, claim) not in objects:
                metadata = pick(template, dict, "metadata") | {"name": claim, "namespace": workload.namespace}
                workload.manifests.add(template | {"metadata": metadata}, "PersistentVolumeClaim")
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal),
                  "controller-revision-hash": f"{workload.name}-{workload.hash}"}
        yield name, labels, {"volumes": [*volumes.values()]}


def pods_of_daemon_set(workload):
    """Yield a pod for each node that it may be on, and that has none. Upstream: pkg/controller/daemon."""
    spec = pick(workload.template, dict, "spec")
    names = [*DAEMON_TAINTS, *(["network-unavailable"] if pick(spec, bool, "hostNetwork") else [])]
    tolerations = [{"key": f"node.kubernetes.io/{name}", "operator": "Exists",
                    "effect": DAEMON_TAINTS.get(name, "NoSchedule")} for name in names]
    changes = {"tolerations": pick(spec, list, "tolerations", of=dict) + tolerations}
    pod = FullPod(workload.pod(workload.name, {}, changes))
    theirs = {text_at(each, "spec", "nodeName") or node_asked_for(each) for each in active(workload.pods)}
    for node in map(FullNode, workload.manifests.by_name("nodes").values()):
        is_meant = pod.node_name in ("", node.name) and matches_node(pod, node)
        if is_meant and node.name not in theirs and not untolerated_taints(pod, node):
            term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.name]}]}
            affinity = pick(spec, dict, "affinity", "nodeAffinity") | {
                f"required{WHEN}": {"nodeSelectorTerms": [term]}}
            whole = pick(spec, dict, "affinity") | {"nodeAffinity": affinity}
            labels = {"controller-revision-hash": workload.hash, "pod-template-generation": "1"}
            yield f"{workload.name}-", labels, changes | {"affinity": whole}


def node_asked_for(pod):
    """Return the name of the node that the affinity of a DaemonSet's pod asks for, or ""."""
    affinity = pick(pod, dict, "spec", "affinity", "nodeAffinity", f"required{WHEN}")
    fields = [field for term in pick(affinity, list, "nodeSelectorTerms", of=dict)
              for field in pick(term, list, "matchFields", of=dict)]
    return next((name for field in fields for name in pick(field, list, "values", of=str)), "")


def pods_of_job(workload):
    """Yield the pods that run at first; an Indexed Job's have numbers. Upstream: pkg/controller/job."""
    labels = {"job-name": workload.name, "controller-uid": workload.reference["uid"]}
    labels |= {f"batch.kubernetes.io/{key}": value for key, value in labels.items()}
    there = active(workload.pods)
    succeeded = [pod for pod in workload.pods if text_at(pod, "status", "phase") == "Succeeded"]
    missing = max(pods_at_a_time(workload, len(succeeded)) - len(there), 0)
    if text_at(workload.spec, "completionMode") != "Indexed":
        yield from itertools.repeat((f"{workload.name}-", labels, {}), missing)
        return
    taken = {text_at(pod, "metadata", "annotations", INDEX) for pod in there + succeeded}
    numbers = map(str, range(pick(workload.spec, int, "completions")))
    free = (number for number in numbers if number not in taken)
    for number in itertools.islice(free, missing):
        yield f"{workload.name}-{number}-", labels | {INDEX: number}, {}


def pods_at_a_time(job, succeeded):
    """Return how many pods of a Job are to run beside each other, after so many have succeeded."""
    has_ended = any(each.get("type") in ("Complete", "Failed") and each.get("status") == "True"
                    for each in pick(job.status, list, "conditions", of=dict))
    if has_ended or pick(job.spec, bool, "suspend"):
        return 0
    wanted = number_in(job.spec, "parallelism")
    if job.spec.get("completions") is not None:
        return min(wanted, pick(job.spec, int, "completions") - succeeded)
    return 0 if succeeded else wanted


MAKERS = {"ReplicaSet": pods_of_replicas, "ReplicationController": pods_of_replicas,
          "StatefulSet": pods_of_stateful_set, "DaemonSet": pods_of_daemon_set, "Job": pods_of_job}
WORKLOADS = [*MAKERS, "Deployment"]  # which has a ReplicaSet make its pods


def replica_set_of(deployment, manifests, owned):
    """Return the ReplicaSet that makes a Deployment's pods, and have it count those of the others."""
    workload = Workload("Deployment", deployment, manifests, owned)
    name, namespace = workload.name, workload.namespace
    missing = number_in(workload.spec, "replicas") - len(active(workload.adopted))
    chosen = None
    for each in owned["Deployment", namespace, name]:
        theirs = Workload("ReplicaSet", each, manifests, owned)
        if not chosen and theirs.template_without_hash() == workload.template_without_hash():
            chosen = each
        else:
            each["spec"]["replicas"] = len(active(theirs.pods))
            missing -= each["spec"]["replicas"]
    if not chosen:
        label = {"pod-template-hash": workload.hash}
        selector = pick(workload.spec, dict, "selector")
        metadata = pick(workload.template, dict, "metadata") | {"labels": workload.labels | label}
        chosen = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": f"{name}-{workload.hash}", "namespace": namespace,
                         "labels": workload.labels | label, "ownerReferences": [workload.reference]},
            "spec": {"selector": selector | {"matchLabels": pick(selector, dict, "matchLabels") | label},
                     "template": workload.template | {"metadata": metadata}}}
        manifests.add(chosen)
    chosen["spec"]["replicas"] = max(missing, 0)
    return chosen


def owned_by_controllers(manifests):
    """Return which pods and ReplicaSets controllers have: {(kind, namespace, name): objects}."""
    owned = collections.defaultdict(list)
    for (resource, namespace, _), thing in manifests.objects.items():
        owners = pick(thing, list, "metadata", "ownerReferences", of=dict)
        owner = next((owner for owner in owners if owner.get("controller")), {})
        kind, name = text_at(owner, "kind"), text_at(owner, "name")
        if kind == "ReplicaSet" and ("replicasets", namespace, name) not in manifests.objects:
            kind, name = LOST, ""
        if resource == "pods" or (resource == "replicasets" and owner):
            owned[kind, namespace, name].append(thing)
    return owned


def make_pods(manifests):
    """Make the pods of all workloads, in the order in which these come."""
    owned = owned_by_controllers(manifests)
    kinds = {f"{kind.lower()}s": kind for kind in WORKLOADS}
    things = {place: thing for place, thing in manifests.objects.items()
              if place[0] in kinds and not text_at(thing, "metadata", "deletionTimestamp")}
    makers = {place: (kinds[place[0]], thing) for place, thing in things.items() if place[0] != "deployments"}
    for place in [place for place in things if place[0] == "deployments"]:
        with manifests.or_left_out(place):
            makers[place] = "ReplicaSet", replica_set_of(things[place], manifests, owned)
    for place in [place for place in things if place in makers]:
        with manifests.or_left_out(place):
            make_pods_of(Workload(*makers[place], manifests, owned), owned)


def make_pods_of(workload, owned):
    """Make the pods of a workload that lack. Raises Malformed."""
    kind = workload.reference["kind"]
    lacking = [*itertools.islice(MAKERS[kind](workload), MOST + 1)]
    if len(lacking) > MOST:
        warn_once(f"{kind} {workload.name}: only {MOST} of its pods are made here")
    for name, labels, spec in lacking[:MOST]:
        pod = workload.pod(name, labels, spec)
        workload.manifests.add(pod)
        owned[kind, workload.namespace, workload.name].append(pod)
