"""The disruption controller: computes the status of PodDisruptionBudgets.

manifests.py answers each LIST of budgets with it. Upstream: pkg/controller/disruption.
"""

from __future__ import annotations

import math
from typing import Any

from scheduler_extras.manifests.kinds import Place
from scheduler_extras.manifests.workload import active, number_in
from scheduler_extras.reading.fields import controlling_owner, pick, text_at
from scheduler_extras.reading.label_selectors import label_selector, labels_match


SCALED = {"ReplicaSet": "replicasets", "ReplicationController": "replicationcontrollers",
          "StatefulSet": "statefulsets", "Deployment": "deployments"}  # kind -> resource


def with_status(budget: dict, objects: dict) -> dict:
    """Return the budget with a status computed from the pods, unless it has one. Raises Malformed."""
    if "disruptionsAllowed" in pick(budget, dict, "status"):
        return budget
    namespace = text_at(budget, "metadata", "namespace")
    selector = label_selector(pick(budget, dict, "spec").get("selector"))
    pods = active([obj for (resource, of, _), obj in objects.items()
                   if resource == "pods" and of == namespace
                   and labels_match(pick(obj, dict, "metadata", "labels"), selector)])
    healthy = sum(map(is_healthy, pods))
    expected, desired = expected_and_desired(budget, pods, objects)
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    return budget | {"status": pick(budget, dict, "status") | {
        "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
        "expectedPods": expected}}


def is_healthy(pod: dict) -> bool:
    """Return whether a pod counts as healthy: it has a node, and no condition says that it is not ready."""
    ready = [each.get("status") for each in pick(pod, list, "status", "conditions", of=dict)
             if each.get("type") == "Ready"]
    return bool(text_at(pod, "spec", "nodeName")) and ready in ([], ["True"])


def expected_and_desired(budget: dict, pods: list[dict], objects: dict) -> tuple[int, int]:
    """Return the number of pods that a budget expects, and how many of them must be healthy.

    Upstream: getExpectedPodCount.
    """
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


def share_of(value: Any, whole: int) -> int:
    """Return a number of pods, or the number that a percentage of the whole means, rounded up."""
    return value if isinstance(value, int) else math.ceil(whole * int(value.rstrip("%")) / 100)


def scales_of(pods: list[dict], objects: dict) -> dict:
    """Return {place of a controller of these pods: its number of replicas}."""
    scales: dict[tuple, int] = {}
    for pod in pods:
        scaled = controller_of(pod, objects)
        if scaled:
            place, obj = scaled
            known = number_in(pick(obj, dict, "spec"), "replicas") if obj else scales.get(place, 0) + 1
            scales[place] = known
    return scales


def controller_of(obj: dict, objects: dict) -> tuple[Place, dict | None] | None:
    """Return the place and the object of the controller that scales a pod or a ReplicaSet, or None.

    The object is None if the controller is missing; its existing pods then count instead of its replicas.
    """
    owner = controlling_owner(obj)
    if owner.get("kind") not in SCALED:
        return None
    place = SCALED[owner["kind"]], text_at(obj, "metadata", "namespace"), text_at(owner, "name")
    found = objects.get(place)
    return (found and controller_of(found, objects)) or (place, found)
