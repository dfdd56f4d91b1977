"""How kube-scheduler 1.36 preempts."""

import functools
from collections.abc import Iterable
from typing import Any

from scheduler_extras.configuration.overrides.registry import OVERRIDES
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.node_ranking import NOT_STARTED, importance, started
from scheduler_extras.rules.preemption import preempt
from scheduler_extras.rules.preemption_behavior import PreemptionBehavior
from scheduler_extras.rules.script_rules import insufficient
from scheduler_extras.rules.simulation import is_leaving


class PreemptionBehavior136(PreemptionBehavior):
    """How kube-scheduler 1.36 preempts."""

    def in_order(self, victims: list[FullPod]) -> list[FullPod]:
        """Return the victims with the most important one first. It represents all of them."""
        return sorted(victims, key=importance)

    def is_waited_for(self, victim: FullPod, snapshot: FullSnapshot) -> bool:
        """Return whether the preemptor waits until this pod is gone: only if a preemption deleted it."""
        conditions = pick(victim.raw, list, "status", "conditions", of=dict)
        reasons = [(each.get("status"), each.get("reason")) for each in conditions
                   if each.get("type") == "DisruptionTarget"]
        by_preemption = ("True", "PreemptionByScheduler") in reasons[:1]
        return is_leaving(victim, snapshot) and (by_preemption or victim.uid in snapshot.victims)

    def keeps_nomination(self, pod: FullPod, node_name: str, failed: Any, snapshot: FullSnapshot) -> bool:
        """Return False: no pod keeps its nomination."""
        return False

    def event_message(self, pod: FullPod, node: FullNode) -> str:
        """Return the message of the event. It gives the preemptor's uid, not its name."""
        return f"Preempted by pod {pod.uid} on node {node.name}"

    def importance(self, number: int, pod: FullPod) -> tuple[Any, ...]:
        """Return the sort key. Among pods that have not started, the last on the node is the most important.

        Upstream takes the time of the comparison as the start time of each, which has this effect.
        """
        has_started = started(pod) != NOT_STARTED
        return -pod.priority, started(pod), 0 if has_started else -number, pod.key

    def reject_if_waiting(self, victim: FullPod) -> bool:
        """If the victim waits at Permit, reject it instead of deleting it. Return whether this was done."""
        state = victim.pending_state
        if state is None or not state.waits_at_permit():
            return False
        state.reject("preempted")
        return True

    def is_too_small(self, node: FullNode, pod: FullPod, against: dict[str, list[str]]) -> bool:
        """Return whether the node has too little of a resource even when empty."""
        reasons = {reason for reasons in against.values() for reason in reasons}
        return any(insufficient(name) in reasons and amount > node.allocatable.get(name, 0)
                   for name, amount in pod.requests.items())

    def ends_nominations(self, victims: Iterable[FullPod]) -> bool:
        """Return whether nominations to the node end: not if all victims are terminating already."""
        return not all(victim.terminating for victim in victims)


OVERRIDES["Preemption"]["hooks"] = {
    "post_filter": functools.partial(preempt, behavior=PreemptionBehavior136())}
