"""The requests of a pod: as in kube-scheduler 1.20, and with sidecars, resizes and pod-level resources.

FullPod computes its requests with it. Amounts are in millicores of cpu, and in units (bytes) of all else.
"""

import math
from collections.abc import Mapping

from scheduler import DEFAULT_REQUESTS, NO_REQUESTS
from scheduler_extras.reading.fields import JsonObject, pick
from scheduler_extras.reading.quantities import Amounts, add_to, amounts


NOTHING_SCORED = dict.fromkeys(DEFAULT_REQUESTS, 0)  # the requests that scores count without any container


def raise_to(total: Amounts, others: Mapping[str, int]) -> None:
    """Raise each amount in `total`, in place, to the one in `others` if that is higher."""
    for name, amount in others.items():
        if amount > total.get(name, 0):
            total[name] = amount


# Since 1.20, three things have been added: sidecars keep running beside the containers that start after them,
# a resize in place counts before it is complete, and a pod may have pod-level resources.

def is_sidecar(init_container: JsonObject) -> bool:
    """Return whether an init container keeps running beside the containers that start after it."""
    return init_container.get("restartPolicy") == "Always"


def requests_of_pod(raw: JsonObject) -> tuple[Amounts, Amounts, Amounts]:
    """Return a pod's requests, the requests that scores count on a node, and those for the incoming pod.

    The last one includes `uncounted_cpu`.
    """
    spec = pick(raw, dict, "spec")
    overhead = amounts(spec, "overhead")
    wanted = amounts(spec, "resources", "requests")
    status = pick(raw, dict, "status")
    if wanted and status.get("resources") is not None:
        resized = while_resized(wanted, status, raw)
        wanted = {name: resized.get(name, 0) for name in wanted}
    as_a_whole = {name: amount for name, amount in wanted.items()
                  if name in DEFAULT_REQUESTS or name.startswith("hugepages-")}
    containers = container_requests(raw)
    requested = pod_amounts(containers, as_a_whole, overhead, {})
    incoming = scored = NOTHING_SCORED | pod_amounts(containers, {}, overhead, DEFAULT_REQUESTS)
    if as_a_whole:
        defaults = {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in requested}
        scored = NOTHING_SCORED | pod_amounts(containers, as_a_whole, overhead, defaults)
    return NO_REQUESTS | requested, scored, incoming


def uncounted_cpu(spec: JsonObject) -> int:
    """Return the millicores of a pod's overhead that scores do not count while the pod waits.

    This is a bug of kube-scheduler 1.20: a core counts as a millicore. Upstream: calculatePodResourceRequest.
    """
    cpu = amounts(spec, "overhead").get("cpu", 0)
    return cpu - math.ceil(cpu / 1000)


def pod_amounts(
    containers: list[tuple[Amounts, bool]], as_a_whole: Amounts, overhead: Amounts, default: Amounts
) -> Amounts:
    """Return a pod's requests: max(sum of its containers, each init container) + overhead.

    containers: see `container_requests`. as_a_whole: pod-level requests, which override the sum.
    default: the amounts of a container without requests. Upstream: PodRequests.
    """
    total: Amounts = {}  # the sum of the containers that keep running
    most: Amounts = {}  # the maximum at any time
    for wanted, runs_on in containers:
        together = default | wanted
        add_to(together, total)
        raise_to(most, together)
        if runs_on:
            total = together
    total = total | most | as_a_whole
    add_to(total, overhead)
    return total


def container_requests(raw: JsonObject) -> list[tuple[Amounts, bool]]:
    """Return (its requests, whether it keeps running beside the next containers) for each container."""
    statuses = container_statuses(raw) if raw.get("status") else {}
    pairs = []
    for kind in ("initContainers", "containers"):
        for container in pick(raw, list, "spec", kind, of=dict):
            wanted = amounts(container, "resources", "requests")
            runs_on = kind == "containers" or is_sidecar(container)
            status = statuses.get(pick(container, str, "name"), {}) if statuses and runs_on else {}
            if status.get("resources") is not None:
                wanted = while_resized(wanted, status, raw)
            pairs.append((wanted, runs_on))
    return pairs


def container_statuses(raw: JsonObject) -> dict[str, JsonObject]:
    """Return {name of a container: its status}."""
    return {pick(status, str, "name"): status for kind in ("initContainerStatuses", "containerStatuses")
            for status in pick(raw, list, "status", kind, of=dict)}


def while_resized(wanted: Amounts, status: JsonObject, raw: JsonObject) -> Amounts:
    """Return the requests that count for a container, or for the pod as a whole, during a resize in place.

    They are the maximum of the amounts requested, allocated and in use. The request does not count if the
    resize is infeasible. Upstream: determineContainerReqs.
    """
    conditions = pick(raw, list, "status", "conditions", of=dict)
    reasons = [each.get("reason") for each in conditions if each.get("type") == "PodResizePending"]
    largest = {} if "Infeasible" in reasons else dict(wanted)
    raise_to(largest, amounts(status, "resources", "requests"))
    raise_to(largest, amounts(status, "allocatedResources"))
    return largest
