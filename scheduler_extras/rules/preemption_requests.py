"""The requests of a preemption: nominate the preemptor, delete the victims, and post their events.

preemption.py chooses the victims and returns these requests. Upstream: PrepareCandidate.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler import event
from scheduler_extras.common.clocks import now
from scheduler_extras.deciding.extension_points import Request
from scheduler_extras.deciding.snapshot import FullSnapshot, Victim
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.budgets import budgets_of
from scheduler_extras.rules.nominating import nominate, nominated_below
from scheduler_extras.rules.preemption_behavior import PreemptionBehavior
from scheduler_extras.rules.simulation import is_leaving


def make_room(pod: FullPod, node: FullNode, victims: list[FullPod], snapshot: FullSnapshot,
              behavior: PreemptionBehavior) -> list[Request]:
    """Return the requests that nominate the pod to the node, and then delete the victims.

    Also records the nomination and the victims in the snapshot.
    Nominations of less important pods to the node are cleared first, because these pods may soon be nominated
    to other nodes. A victim that waits at Permit may be rejected instead of deleted.
    """
    remaining = [victim for victim in victims if not is_leaving(victim, snapshot)]
    for victim in remaining:
        snapshot.victims[victim.uid] = Victim(victim, budgets_of(victim, snapshot))
    requests = []
    if behavior.ends_nominations(victims):
        requests += [nominate(other, None, snapshot) for other in nominated_below(pod, node, snapshot)]
    requests.append(nominate(pod, node.name, snapshot))
    for victim in remaining:
        if not behavior.reject_if_waiting(victim):
            requests += [disruption(victim, pod), deletion(victim)]
        requests.append(preempted_event(victim, pod, behavior.event_message(pod, node)))
    return requests


def deletion(victim: FullPod) -> Request:
    """Return the request that deletes a pod by name and uid, so that it deletes no newer pod of that name."""
    return "DELETE", victim.path, {"preconditions": {"uid": victim.uid}}


def count_deletions(requests: Iterable[Request]) -> int:
    """Return how many of these requests delete a pod."""
    return [method for method, *_ in requests].count("DELETE")


def disruption(victim: FullPod, pod: FullPod) -> Request:
    """Return the request that sets the victim's DisruptionTarget condition, which Job controllers read."""
    return "PATCH", f"{victim.path}/status", {"metadata": {"uid": victim.uid}, "status": {"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": f"{pod.scheduler}: preempting to accommodate a higher priority pod",
        "lastTransitionTime": now()}]}}


def preempted_event(victim: FullPod, pod: FullPod, message: str) -> Request:
    """Return the request for the Preempted event of a victim."""
    method, path, body = event(victim, "Normal", "Preempted", message)
    reporter = {"source": {"component": pod.scheduler}, "reportingComponent": pod.scheduler}
    return method, path, body | reporter
