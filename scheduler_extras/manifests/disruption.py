"""The status of a PodDisruptionBudget, as its controller would write it. Upstream: pkg/controller/disruption.

manifests.py answers lists of budgets with it, as pods come and go.
"""

import math

from scheduler_extras.manifests.workload import active, number_in
from scheduler_extras.reading.fields import controlling_owner, pick, text_at
from scheduler_extras.reading.label_selectors import label_selector, labels_match


SCALED = {"ReplicaSet": "replicasets", "ReplicationController": "replicationcontrollers",
          "StatefulSet": "statefulsets", "Deployment": "deployments"}  # kind -> resource


def with_status(budget, objects):
    """Return a budget with a status, by the pods that are there, unless it has one. Raises Malformed."""
    if "disruptionsAllowed" in pick(budget, dict, "status"):
        return budget
    namespace = text_at(budget, "metadata", "namespace")
    selector = label_selector(pick(budget, dict, "spec").get("selector"))
    pods = active([thing for (resource, of, _), thing in objects.items()
                   if resource == "pods" and of == namespace
                   and labels_match(pick(thing, dict, "metadata", "labels"), selector)])
    healthy = sum(map(is_healthy, pods))
    expected, desired = numbers_wanted(budget, pods, objects)
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    return budget | {"status": pick(budget, dict, "status") | {
        "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
        "expectedPods": expected}}


def is_healthy(pod):
    """Return whether a pod counts as ready: one with a node, unless its condition says that it is not."""
    ready = [each.get("status") for each in pick(pod, list, "status", "conditions", of=dict)
             if each.get("type") == "Ready"]
    return bool(text_at(pod, "spec", "nodeName")) and ready in ([], ["True"])


def numbers_wanted(budget, pods, objects):
    """Return how many pods a budget expects to be there, and how many of them it wants to be healthy."""
    spec = pick(budget, dict, "spec")
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if isinstance(least, int):
        return len(pods), least
    expected = sum(scales_of(pods, objects).values())
    if least is not None:
        return expected, share_of(least, expected)
    if most is not None:
        return expected, max(expected - share_of(most, expected), 0)
    return 0, 0


def share_of(value, whole):
    """Return a number, or a percentage of the whole, rounded up."""
    return value if isinstance(value, int) else math.ceil(whole * int(value.rstrip("%")) / 100)


def scales_of(pods, objects):
    """Return {controller: how many pods it is to have} of the controllers of these pods."""
    scales: dict[tuple, int] = {}
    for pod in pods:
        scaled = controller_of(pod, objects)
        if scaled:
            place, thing = scaled
            known = number_in(pick(thing, dict, "spec"), "replicas") if thing else scales.get(place, 0) + 1
            scales[place] = known
    return scales


def controller_of(thing, objects):
    """Return the place and the object of what scales a pod or a ReplicaSet; None if nothing does.

    The object is None if it is not there: then the pods that are there count.
    """
    owner = controlling_owner(thing)
    if owner.get("kind") not in SCALED:
        return None
    place = SCALED[owner["kind"]], text_at(thing, "metadata", "namespace"), text_at(owner, "name")
    found = objects.get(place)
    return (found and controller_of(found, objects)) or (place, found)
