"""How preemption behaves where versions of kube-scheduler differ: here, as in 1.20.

preemption.py and preemption_requests.py call it. A later version has its own in configuration/.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler_extras.deciding.rule import is_unresolvable
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.node_ranking import importance
from scheduler_extras.rules.simulation import is_leaving


class PreemptionBehavior:
    """How kube-scheduler 1.20 preempts, where later versions differ; except for `keeps_nomination`."""

    def in_order(self, victims: list[FullPod]) -> list[FullPod]:
        """Return the victims, the one that represents them first.

        Pods whose deletion violates a budget come first.
        """
        return victims

    def is_waited_for(self, victim: FullPod, snapshot: FullSnapshot) -> bool:
        """Return whether a nominated pod waits until this one is gone before it preempts any others."""
        return is_leaving(victim, snapshot)

    def keeps_nomination(self, pod: FullPod, node_name: str, failed: dict, snapshot: FullSnapshot) -> bool:
        """Return whether a pod stays nominated to a node although preemption does not help it now.

        Unlike in 1.20, two pods of equal priority do not block each other on one node forever.
        """
        rivals = [other for other in snapshot.nominated if other.uid != pod.uid
                  and other.nominated_node == node_name and other.priority == pod.priority]
        return not rivals and not all(is_unresolvable(failed.get(name, {})) for name in snapshot.nodes)

    def event_message(self, pod: FullPod, node: FullNode) -> str:
        """Return the message of the event of a victim."""
        return f"Preempted by {pod.key} on node {node.name}"

    def importance(self, number: int, pod: FullPod) -> tuple:
        """Return the sort key of a pod on a node; the most important pod comes first. (MoreImportantPod)

        number: its position among the pods of the node.
        """
        return importance(pod)

    def reject_if_waiting(self, victim: FullPod) -> bool:
        """Return False: 1.20 deletes victims that wait at Permit."""
        return False

    def is_too_small(self, node: FullNode, pod: FullPod, against: dict[str, list[str]]) -> bool:
        """Return whether a node is skipped because the pod would not fit it even if it were empty.

        against: {predicate: its reasons} of the node.
        """
        return False

    def ends_nominations(self, victims: Iterable[FullPod]) -> bool:
        """Return whether less important pods lose their nomination to the node of these victims."""
        return True
