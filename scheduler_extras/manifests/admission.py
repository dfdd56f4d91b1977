"""What an API server adds to objects: the defaults of their fields, and what admission gives them.

manifests.py has each object completed by it as it is read, and all of them admitted once they are there.
"""

import collections
import contextlib
from types import MappingProxyType as read_only

from scheduler_extras.common.errors import Malformed
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.manifests.refusals import CONTAINERS
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.hints import did_you_mean
from scheduler_extras.reading.pod_requests import container_requests, pod_amounts
from scheduler_extras.reading.pods_and_nodes import FullNode
from scheduler_extras.rules.disks import class_name_of
from scheduler_extras.rules.selectors import OWNERS, SELECT_BY_LABELS


SYSTEM_CLASSES = {  # the PriorityClasses that every cluster has
    "system-node-critical": {"value": 2000001000}, "system-cluster-critical": {"value": 2000000000}}


def complete(resource, thing, age):
    """Complete an object as the API server does by itself. age: less for older ones. Raises Malformed."""
    metadata = thing["metadata"]
    if not metadata.get("creationTimestamp"):
        metadata["creationTimestamp"] = f"{age:09}"
    spec = pick(thing, dict, "spec")
    if resource == "pods":
        thing["spec"] = with_defaults(spec)
    elif resource in READ_BY:
        READ_BY[resource](thing)


def read_node(node):
    """Read a node; what is allocatable is its capacity, unless it says so. Raises Malformed."""
    if not pick(node, dict, "status", "allocatable"):
        capacity = pick(node, dict, "status", "capacity")
        node["status"] = pick(node, dict, "status") | {"allocatable": capacity}
    FullNode(node)


def read_priority_class(thing):
    """Read what is looked at of a PriorityClass. Raises Malformed."""
    pick(thing, int, "value")
    pick(thing, bool, "globalDefault")


READ_BY = {  # resource -> a function that raises Malformed if the object cannot be read
    "nodes": read_node,
    "priorityclasses": read_priority_class,
    "storageclasses": lambda thing: pick(thing, dict, "metadata", "annotations", of=str),
    **dict.fromkeys(OWNERS, lambda thing: pick(thing, dict, "spec", "selector")),
    **dict.fromkeys(SELECT_BY_LABELS, lambda thing: pick(thing, dict, "spec", "selector", of=str))}


def with_defaults(spec):
    """Return a pod's spec as the API server completes it. Upstream: pkg/apis/core/v1/defaults.go."""
    spec = spec | {"schedulerName": pick(spec, str, "schedulerName") or "default-scheduler"}
    on_host_network = pick(spec, bool, "hostNetwork")
    for kind in CONTAINERS:
        containers = [dict(container) for container in pick(spec, list, kind, of=dict)]
        if containers:
            spec[kind] = containers
        for container in containers:
            container["resources"] = with_requests(pick(container, dict, "resources"))
            for port in pick(container, list, "ports", of=dict) if on_host_network else ():
                port["hostPort"] = port.get("hostPort") or port.get("containerPort")
    for volume in pick(spec, list, "volumes", of=dict):
        if rbd := pick(volume, dict, "rbd"):
            rbd["pool"] = rbd.get("pool") or "rbd"
    if pick(spec, dict, "resources", "limits"):  # of the pod as a whole
        wanted = pod_amounts(container_requests({"spec": spec}), {}, {}, {})  # by its containers together
        units = {"cpu": "m", "memory": ""}  # besides huge pages, all that a pod as a whole requests
        requests = {name: f"{wanted[name]}{unit}" for name, unit in units.items() if name in wanted}
        spec["resources"] = with_requests(spec["resources"], requests)
    return spec


def with_requests(resources, default_requests=read_only({})):
    """Return resources with requests: what is said, else these, else the limits."""
    requests = pick(resources, dict, "limits") | default_requests | pick(resources, dict, "requests")
    return resources | {"requests": requests}


# What admission knows of the other objects: {name: class}, and the names of volumes that claims have.
Known = collections.namedtuple("Known", "storage_classes priority_classes runtime_classes claimed")


def admit(manifests):
    """Complete the objects as admission does, once all are there. Upstream: plugin/pkg/admission."""
    for namespace in {namespace for _, namespace, _ in manifests.objects if namespace}:
        manifests.objects.setdefault(("namespaces", None, namespace), {"metadata": {"name": namespace}})
    claimed = {text_at(thing, "spec", "volumeName") for (resource, *_), thing in manifests.objects.items()
               if resource == "persistentvolumeclaims"}
    known = Known(
        manifests.by_name("storageclasses"), SYSTEM_CLASSES | manifests.by_name("priorityclasses"),
        manifests.by_name("runtimeclasses"), claimed)
    for place, thing in [*manifests.objects.items()]:
        resource, _, name = place
        with contextlib.suppress(Malformed):  # which rules will say that look at it
            if resource in ADMITTED_BY:
                manifests.leave_out(place, ADMITTED_BY[resource](name, thing, known))


# Of each resource, a function that completes an object by what is known. It returns why admission refuses the
# object, if it does.

def admit_namespace(name, namespace, _):
    """Give a namespace the label with its name."""
    labels = pick(namespace, dict, "metadata", "labels")
    namespace["metadata"]["labels"] = labels | {"kubernetes.io/metadata.name": name}


def admit_claim(name, claim, known):
    """Give a claim the default StorageClass; warn if no controller would bind it here."""
    classes = known.storage_classes
    spec = pick(claim, dict, "spec")
    of_old = "volume.beta.kubernetes.io/storage-class" in pick(claim, dict, "metadata", "annotations")
    has_class = spec.get("storageClassName") is not None or of_old
    if not has_class and "uid" not in claim["metadata"]:  # else it is a live cluster's
        marks = ("storageclass.kubernetes.io/is-default-class",
                 "storageclass.beta.kubernetes.io/is-default-class")
        defaults = [name for name, each in sorted(classes.items())
                    if "true" in map(pick(each, dict, "metadata", "annotations").get, marks)]
        if defaults:  # the youngest one counts
            youngest = max(defaults, key=lambda name: text_at(classes[name], "metadata", "creationTimestamp"))
            claim["spec"] = spec | {"storageClassName": youngest}
    mode = text_at(classes.get(class_name_of(claim)), "volumeBindingMode")
    if not spec.get("volumeName") and mode != "WaitForFirstConsumer":
        warn_once(f"PersistentVolumeClaim {name}: nobody binds it here: add volumeName to its spec, "
                  "and the annotation pv.kubernetes.io/bind-completed")


def admit_volume(name, volume, known):
    """Warn about an unclaimed volume that no controller makes available here."""
    is_copied = "uid" in volume["metadata"]
    has_owner = name in known.claimed or pick(volume, dict, "spec").get("claimRef")
    has_phase = pick(volume, dict, "status").get("phase")
    if not (is_copied or has_owner or has_phase):
        warn_once(f"PersistentVolume {name}: nobody makes it available here: add a status with the phase "
                  "Available")


def admit_pod(name, pod, known):
    """Give a pod its priority and tolerations, unless a live cluster has; say which class there is not."""
    spec = pod["spec"]
    is_copied = "uid" in pod["metadata"]  # admission has seen it, when the classes may have been others
    runtime = text_at(spec, "runtimeClassName")
    if not is_copied:
        give_tolerations(spec)
    if not is_copied and runtime and runtime not in known.runtime_classes:
        warn_once(f'Pod {name}: spec.runtimeClassName: there is no RuntimeClass "{runtime:.60}"')
    if is_copied and spec.get("priority") is not None:
        return ""
    return give_priority(name, spec, known.priority_classes)


def give_priority(pod, spec, classes):
    """Give a pod the priority of its PriorityClass. Return why admission refuses the pod, or ""."""
    default = next((each for each in classes.values() if each.get("globalDefault")), {})
    name = text_at(spec, "priorityClassName")
    if name and name not in classes:
        warn_once(f'Pod {pod}: spec.priorityClassName: there is no PriorityClass "{name:.60}"'
                  + did_you_mean(name, classes, ""))
    of_pod = classes.get(name, {}) if name else default
    given = {"priority": pick(of_pod, int, "value"),
             "preemptionPolicy": of_pod.get("preemptionPolicy") or "PreemptLowerPriority"}
    for field, value in given.items():
        if spec.get(field) not in (None, value) and (name in classes or not name):
            return f"spec.{field}: must not be provided, or be that of its PriorityClass: {value}"
    spec["priority"] = spec.get("priority") or given["priority"]
    if of_pod.get("preemptionPolicy"):
        spec.setdefault("preemptionPolicy", of_pod["preemptionPolicy"])
    return ""


def give_tolerations(spec):
    """Have a pod stay for five minutes on a node that fails. Upstream: DefaultTolerationSeconds."""
    given = pick(spec, list, "tolerations", of=dict)
    spec["tolerations"] = [*given]
    for name in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{name}"
        if not any(each.get("key") in (None, "", key) and each.get("effect") in (None, "", "NoExecute")
                   for each in given):
            spec["tolerations"].append({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


ADMITTED_BY = {"namespaces": admit_namespace, "persistentvolumeclaims": admit_claim,
               "persistentvolumes": admit_volume, "pods": admit_pod}
