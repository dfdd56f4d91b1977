"""Admission: the defaults that depend on other objects, such as the priority of a pod's PriorityClass.

manifests.py calls `admit` once all files are read, and for objects that are created later.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from scheduler_extras.common.errors import Malformed
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.manifests.kinds import Place
from scheduler_extras.manifests.volumes import bind_claim, make_available
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.hints import did_you_mean
from scheduler_extras.reading.pods_and_nodes import FullNode


SYSTEM_CLASSES = {  # the PriorityClasses that every cluster has
    "system-node-critical": {"value": 2000001000}, "system-cluster-critical": {"value": 2000000000}}


NOT_APPLIED = {  # resource that an admission plugin would apply -> the warning about an object
    "limitranges": "its requests and limits are not applied here; add them to the pods themselves",
    "runtimeclasses": "its overhead, nodeSelector and tolerations are not applied here; add them to the "
                      "pods themselves",
    "resourcequotas": "it is not enforced here"}
SELECTOR = "the node selector in its annotation {} is not applied here; add it to the pods themselves"
TOLERATIONS = "the tolerations in its annotation {} are not applied here; add them to the pods themselves"
ANNOTATIONS = {  # annotation of a namespace that an admission plugin would apply -> the warning
    "scheduler.alpha.kubernetes.io/node-selector": SELECTOR,  # PodNodeSelector
    "openshift.io/node-selector": SELECTOR,
    "scheduler.alpha.kubernetes.io/defaultTolerations": TOLERATIONS}  # PodTolerationRestriction


# What admission reads of other objects. The classes are {name: class}. claimed: the names of the volumes that
# claims name. tainted: resources that are also keys of taints.
Known = collections.namedtuple("Known", "storage_classes priority_classes runtime_classes claimed tainted")


def known_objects(manifests: Any) -> Known:
    """Return the Known objects."""
    claimed = {text_at(obj, "spec", "volumeName") for (resource, *_), obj in manifests.objects.items()
               if resource == "persistentvolumeclaims"}
    tainted = {taint.key for node in map(FullNode, manifests.by_name("nodes").values())
               for taint in node.taints if taint.key in node.allocatable}
    return Known(
        manifests.by_name("storageclasses"), SYSTEM_CLASSES | manifests.by_name("priorityclasses"),
        manifests.by_name("runtimeclasses"), claimed, tainted)


def admit(manifests: Any, places: list[Place] | None = None) -> None:
    """Admit all objects, or those at these places: complete or reject them. Upstream: plugin/pkg/admission.

    This also binds claims and volumes.
    """
    if places is None:
        for namespace in {namespace for _, namespace, _ in manifests.objects if namespace}:
            manifests.objects.setdefault(("namespaces", None, namespace), {"metadata": {"name": namespace}})
    known = known_objects(manifests)
    chosen = [*manifests.objects] if places is None else places
    for resource, admit_one in ADMITTED_BY.items():
        for place in [place for place in chosen if place[0] == resource]:
            with contextlib.suppress(Malformed):  # rules that read this part report it
                obj = manifests.objects[place]
                manifests.leave_out(place, admit_one(place[-1], obj, known, manifests))
    if places is None:
        warn_about_plugins(manifests)


def warn_about_plugins(manifests: Any) -> None:
    """Log what admission plugins would do to pods and this program does not.

    Copied pods have been through these plugins in their cluster.
    """
    pods = [pod for (resource, *_), pod in manifests.objects.items()
            if resource == "pods" and "uid" not in pod["metadata"]]
    concerned = {("namespaces", None, text_at(pod, "metadata", "namespace")) for pod in pods} | {
        ("runtimeclasses", None, text_at(pod, "spec", "runtimeClassName")) for pod in pods}
    for place, (path, kind) in manifests.read_from.items():
        if place in manifests.objects and {place, ("namespaces", None, place[1])} & concerned:
            for remark in not_applied(place[0], manifests.objects[place]):
                warn_once(f"{path}: {kind} {place[-1]}: {remark}")


def not_applied(resource: str, obj: dict) -> Iterator[str]:
    """Yield a warning for each effect of this object on pods that is not applied here."""
    if resource in NOT_APPLIED:
        yield NOT_APPLIED[resource]
    for annotation, remark in ANNOTATIONS.items() if resource == "namespaces" else ():
        if pick(obj, dict, "metadata", "annotations").get(annotation, "") not in ("", "[]"):
            yield remark.format(annotation)


# For each resource, a function admits an object. It returns why admission rejects the object, if it does.

def admit_namespace(name: str, namespace: dict, *_: object) -> None:
    """Set the label with a namespace's name."""
    labels = pick(namespace, dict, "metadata", "labels")
    namespace["metadata"]["labels"] = labels | {"kubernetes.io/metadata.name": name}


def admit_volume(name: str, volume: dict, known: Known, _: object) -> None:
    """Make a volume available unless it belongs to a claim."""
    make_available(volume, known.claimed)


def admit_claim(name: str, claim: dict, known: Known, manifests: Any) -> None:
    """Set the default StorageClass of a claim, and bind it, unless it waits for its consumer."""
    classes = known.storage_classes
    spec = pick(claim, dict, "spec")
    has_beta_class = "volume.beta.kubernetes.io/storage-class" in pick(
        claim, dict, "metadata", "annotations")
    has_class = spec.get("storageClassName") is not None or has_beta_class
    if not has_class and "uid" not in claim["metadata"]:  # a copied claim has been admitted already
        marks = ("storageclass.kubernetes.io/is-default-class",
                 "storageclass.beta.kubernetes.io/is-default-class")
        defaults = [name for name, each in sorted(classes.items())
                    if "true" in map(pick(each, dict, "metadata", "annotations").get, marks)]
        if defaults:
            newest = max(defaults, key=lambda name: text_at(classes[name], "metadata", "creationTimestamp"))
            claim["spec"] = spec | {"storageClassName": newest}
    bind_claim(claim, classes, manifests)


def admit_pod(name: str, pod: dict, known: Known, _: object) -> str:
    """Set a pod's priority and tolerations, unless its cluster has. Log which class is missing."""
    spec = pod["spec"]
    is_copied = "uid" in pod["metadata"]  # its cluster has admitted it, perhaps with other classes
    runtime = text_at(spec, "runtimeClassName")
    if not is_copied:
        set_tolerations(spec)
        warn_about_devices(name, pod, known.tainted)
    if not is_copied and runtime and runtime not in known.runtime_classes:
        warn_once(f'Pod {name}: spec.runtimeClassName: there is no RuntimeClass "{runtime:.60}"')
    if is_copied and spec.get("priority") is not None:
        return ""
    return set_priority(name, spec, known.priority_classes)


def warn_about_devices(name: str, pod: dict, tainted: set[str]) -> None:
    """Log the tolerations that some clusters add to pods that request a device. (ExtendedResourceToleration)

    tainted: the resources for which a node has a taint.
    """
    requested = {resource for container in pick(pod, list, "spec", "containers", of=dict)
                 for resource in pick(container, dict, "resources", "requests")} & tainted
    keys = [each.get("key") for each in pick(pod, list, "spec", "tolerations", of=dict)]
    for resource in sorted(requested):
        if not {resource, None, ""} & {*keys}:
            warn_once(f"Pod {name} requests {resource} and does not tolerate this taint; GKE and AKS add a "
                      "toleration, this program does not: add it to the pods", about=f"taint {resource}")




def set_priority(pod: str, spec: dict, classes: dict) -> str:
    """Set a pod's priority from its PriorityClass. Return why admission rejects the pod, or ""."""
    default: dict = next((each for each in classes.values() if each.get("globalDefault")), {})
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


def set_tolerations(spec: dict) -> None:
    """Let a pod tolerate a failed node for five minutes. Upstream: DefaultTolerationSeconds."""
    given = pick(spec, list, "tolerations", of=dict)
    spec["tolerations"] = [*given]
    for name in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{name}"
        if not any(each.get("key") in (None, "", key) and each.get("effect") in (None, "", "NoExecute")
                   for each in given):
            spec["tolerations"].append({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


ADMITTED_BY: dict[str, Callable[..., str | None]] = {  # in this order, as claims are bound to volumes
    "namespaces": admit_namespace, "persistentvolumes": admit_volume, "persistentvolumeclaims": admit_claim,
    "pods": admit_pod}
