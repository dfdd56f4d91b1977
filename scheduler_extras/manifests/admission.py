"""What admission and the controllers of volumes make of objects, once all are there.

manifests.py has them admitted by it, and what comes later, too.
"""

import collections
import contextlib

from scheduler_extras.common.errors import Malformed
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.manifests.volumes import bind_claim, make_available
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.hints import did_you_mean
from scheduler_extras.reading.pods_and_nodes import FullNode


SYSTEM_CLASSES = {  # the PriorityClasses that every cluster has
    "system-node-critical": {"value": 2000001000}, "system-cluster-critical": {"value": 2000000000}}


NOT_OBEYED = {  # resource that plugins of admission obey -> what is said of an object
    "limitranges": "its requests and limits are not applied here; add them to the pods themselves",
    "runtimeclasses": "its overhead, nodeSelector and tolerations are not applied here; add them to the "
                      "pods themselves",
    "resourcequotas": "it is not enforced here"}
SELECTOR = "the node selector in its annotation {} is not applied here; add it to the pods themselves"
TOLERATIONS = "the tolerations in its annotation {} are not applied here; add them to the pods themselves"
ANNOTATIONS = {  # of a namespace, which plugins of admission obey -> what is said of it
    "scheduler.alpha.kubernetes.io/node-selector": SELECTOR,  # PodNodeSelector
    "openshift.io/node-selector": SELECTOR,
    "scheduler.alpha.kubernetes.io/defaultTolerations": TOLERATIONS}  # PodTolerationRestriction


# What admission knows of the other objects: {name: class}, the names of volumes that claims have, and
# resources that are taints of nodes, too.
Known = collections.namedtuple("Known", "storage_classes priority_classes runtime_classes claimed tainted")


def what_is_known(manifests):
    """Return what admission knows of the objects that are there."""
    claimed = {text_at(thing, "spec", "volumeName") for (resource, *_), thing in manifests.objects.items()
               if resource == "persistentvolumeclaims"}
    tainted = {taint.key for node in map(FullNode, manifests.by_name("nodes").values())
               for taint in node.taints if taint.key in node.allocatable}
    return Known(
        manifests.by_name("storageclasses"), SYSTEM_CLASSES | manifests.by_name("priorityclasses"),
        manifests.by_name("runtimeclasses"), claimed, tainted)


def admit(manifests, places=None):
    """Complete objects, or those at these places, as admission does. Upstream: plugin/pkg/admission.

    What controllers of volumes do comes with it.
    """
    is_first = places is None
    if is_first:
        for namespace in {namespace for _, namespace, _ in manifests.objects if namespace}:
            manifests.objects.setdefault(("namespaces", None, namespace), {"metadata": {"name": namespace}})
    known = what_is_known(manifests)
    places = [*(manifests.objects if is_first else places)]
    for resource, admit_one in ADMITTED_BY.items():
        for place in [place for place in places if place[0] == resource]:
            with contextlib.suppress(Malformed):  # which rules will say that look at it
                thing = manifests.objects[place]
                manifests.leave_out(place, admit_one(place[-1], thing, known, manifests))
    if is_first:
        remark_on_plugins(manifests)


def remark_on_plugins(manifests):
    """Say what plugins of admission would do to pods, and this program does not.

    Pods that a cluster has admitted have all that.
    """
    pods = [pod for (resource, *_), pod in manifests.objects.items()
            if resource == "pods" and "uid" not in pod["metadata"]]
    concerned = {("namespaces", None, text_at(pod, "metadata", "namespace")) for pod in pods} | {
        ("runtimeclasses", None, text_at(pod, "spec", "runtimeClassName")) for pod in pods}
    for place, (path, kind) in manifests.read_from.items():
        if place in manifests.objects and {place, ("namespaces", None, place[1])} & concerned:
            for remark in not_obeyed(place[0], manifests.objects[place]):
                warn_once(f"{path}: {kind} {place[-1]}: {remark}")


def not_obeyed(resource, thing):
    """Yield what is not done for the pods of a namespace, or of a RuntimeClass, because of this object."""
    if resource in NOT_OBEYED:
        yield NOT_OBEYED[resource]
    for annotation, remark in ANNOTATIONS.items() if resource == "namespaces" else ():
        if pick(thing, dict, "metadata", "annotations").get(annotation, "") not in ("", "[]"):
            yield remark.format(annotation)


# Of each resource, a function that completes an object by what is known. It returns why admission refuses the
# object, if it does.

def admit_namespace(name, namespace, *_):
    """Give a namespace the label with its name."""
    labels = pick(namespace, dict, "metadata", "labels")
    namespace["metadata"]["labels"] = labels | {"kubernetes.io/metadata.name": name}


def admit_volume(name, volume, known, _):
    """Make a volume available that is no claim's."""
    make_available(volume, known.claimed)


def admit_claim(name, claim, known, manifests):
    """Give a claim the default StorageClass, and bind it, unless it waits for its consumer."""
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
    bind_claim(claim, classes, manifests)


def admit_pod(name, pod, known, _):
    """Give a pod its priority and tolerations, unless a live cluster has; say which class there is not."""
    spec = pod["spec"]
    is_copied = "uid" in pod["metadata"]  # admission has seen it, when the classes may have been others
    runtime = text_at(spec, "runtimeClassName")
    if not is_copied:
        give_tolerations(spec)
        remark_on_devices(name, pod, known.tainted)
    if not is_copied and runtime and runtime not in known.runtime_classes:
        warn_once(f'Pod {name}: spec.runtimeClassName: there is no RuntimeClass "{runtime:.60}"')
    if is_copied and spec.get("priority") is not None:
        return ""
    return give_priority(name, spec, known.priority_classes)


def remark_on_devices(name, pod, tainted):
    """Say which taint some clusters have a pod tolerate that requests a device. (ExtendedResourceToleration)

    tainted: resources of which a node has the taint.
    """
    requested = {resource for container in pick(pod, list, "spec", "containers", of=dict)
                 for resource in pick(container, dict, "resources", "requests")} & tainted
    keys = [each.get("key") for each in pick(pod, list, "spec", "tolerations", of=dict)]
    for resource in sorted(requested):
        if not {resource, None, ""} & {*keys}:
            warn_once(f"Pod {name} requests {resource} and does not tolerate this taint; GKE and AKS add a "
                      "toleration, this program does not: add it to the pods", about=f"taint {resource}")



def give_priority(pod, spec, classes):
    """Give a pod the priority of its PriorityClass. Return why admission refuses the pod, or ""."""
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


ADMITTED_BY = {  # in this order, as claims are bound to volumes
    "namespaces": admit_namespace, "persistentvolumes": admit_volume, "persistentvolumeclaims": admit_claim,
    "pods": admit_pod}
