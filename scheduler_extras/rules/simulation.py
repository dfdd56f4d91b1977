"""Simulations: would a pod fit a node without some of its pods, or with others added?

preemption.py and always.py use it; rules of your own may call `reasons_supposing`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from scheduler_extras.deciding.prepared_rules import PreparedRule, prepare
from scheduler_extras.deciding.rule import FullRule, Rejected
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod, with_pods


def reasons_supposing(pod: FullPod, node: FullNode, snapshot: FullSnapshot, gone: Collection = (),
                      there: Iterable = ()) -> list[str]:
    """Return the reasons against the node if the pods `gone` were not on it and the pods `there` were."""
    predicates = snapshot.policies[pod.scheduler].predicates_to_ask()
    return Simulation(predicates, pod, node, snapshot, gone, there).reasons()


class Simulation:
    """A copy of the snapshot in which some pods have left a node, or others have been added to it.

    prepared: the predicates, ready to be called, if they read no pods on other nodes.
    """

    def __init__(self, predicates: list[FullRule], pod: FullPod, node: FullNode, snapshot: FullSnapshot,
                 gone: Collection = (), there: Iterable = (), prepared: list[PreparedRule] | None = None):
        self.predicates = predicates
        self.pod = pod
        self.prepared = prepared
        self.node = with_pods(node, [*(each for each in node.pods.values() if each not in gone), *there])
        self.node.taken_off = [*node.taken_off, *(other for other in gone if is_leaving(other, snapshot))]
        self.snapshot = replace(snapshot, nodes=snapshot.nodes | {node.name: self.node},
                                answer_cache=snapshot.answer_cache.copy())
        self.snapshot.note_change(self.node)

    def reasons(self) -> list[str]:
        """Return the reasons of the predicates against the node."""
        try:
            prepared = self.prepared or prepare(self.predicates, self.pod, self.snapshot.nodes, self.snapshot)
            return first_reasons(prepared, self.node)
        except Rejected as error:
            return [str(error)]

    def reprieve(self, other: FullPod) -> bool:
        """Put a pod that is gone back on the node. If the incoming pod then does not fit, take it off again.

        Return whether it stays. Upstream: reprievePod.
        """
        taken_off = self.node.taken_off
        self.node.taken_off = [each for each in taken_off if each.uid != other.uid]
        self.snapshot.put(other, self.node)
        if not self.reasons():
            return True
        self.snapshot.take_off(other, self.node)
        self.node.taken_off = taken_off
        return False


def is_leaving(pod: FullPod, snapshot: FullSnapshot) -> bool:
    """Return whether a pod is terminating, or is a victim that is about to be deleted."""
    return pod.terminating or pod.uid in snapshot.victims


def first_reasons(prepared: list[PreparedRule], node: FullNode) -> list[str]:
    """Return the reasons of the first PreparedRule that refuses the node, or []."""
    return next(filter(None, (rule.reasons(node) for rule in prepared)), [])


def prepared_for_nodes(predicates: list[FullRule], pod: FullPod,
                       snapshot: FullSnapshot) -> list[PreparedRule] | None:
    """Return PreparedRules; None if one of them may read pods on other nodes. Raises Rejected.

    If none does, a changed node can be simulated without a copy of the snapshot, which is fast.
    """
    prepared = prepare(predicates, pod, snapshot.nodes, snapshot)
    needs_metadata = pod.is_affine or any(rule.metadata is not None for rule in prepared)
    return None if needs_metadata or any(map(reads_other_nodes, predicates)) else prepared


def reads_other_nodes(rule: FullRule) -> bool:
    """Return whether a rule may read pods on other nodes even if it has no metadata for the pod.

    That is so for rules of the user's own, and for CheckServiceAffinity.
    """
    return bool(rule.metadata and (rule.argument or not rule.steady))
