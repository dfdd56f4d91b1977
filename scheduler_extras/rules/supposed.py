"""A node as it would be if some pods were gone from it and others there: why would a pod not fit it?

preemption.py and always.py ask; rules of your own may call `reasons_supposing`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from scheduler_extras.deciding.asking import Prepared, prepare
from scheduler_extras.deciding.rule import FullRule, Rejected
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod, with_pods


def reasons_supposing(pod: FullPod, node: FullNode, snapshot: FullSnapshot, gone: Collection = (),
                      there: Iterable = ()) -> list[str]:
    """Return why the predicates refuse the node to the pod if some pods were gone and others there."""
    predicates = snapshot.policies[pod.scheduler].predicates_to_ask()
    return Supposed(predicates, pod, node, snapshot, gone, there).reasons()


class Supposed:
    """A cluster in which some pods are gone from a node, and others are there, for a pod that is to come.

    prepared: the predicates, ready to be called, if they look at nothing but the node.
    """

    def __init__(self, predicates: list[FullRule], pod: FullPod, node: FullNode, snapshot: FullSnapshot,
                 gone: Collection = (), there: Iterable = (), prepared: list[Prepared] | None = None):
        self.predicates = predicates
        self.pod = pod
        self.prepared = prepared
        self.node = with_pods(node, [*(each for each in node.pods.values() if each not in gone), *there])
        self.node.taken_off = [*node.taken_off, *(other for other in gone if is_leaving(other, snapshot))]
        self.snapshot = replace(snapshot, nodes=snapshot.nodes | {node.name: self.node},
                                memory=snapshot.memory.copy())
        self.snapshot.note_change(self.node)

    def reasons(self) -> list[str]:
        """Return why the predicates refuse the node to the pod."""
        try:
            prepared = self.prepared or prepare(self.predicates, self.pod, self.snapshot.nodes, self.snapshot)
            return first_reasons(prepared, self.node)
        except Rejected as error:
            return [str(error)]

    def may_stay(self, other: FullPod) -> bool:
        """Bring back one of the pods that are gone, if the pod that is to come fits all the same."""
        taken_off = self.node.taken_off
        self.node.taken_off = [each for each in taken_off if each.uid != other.uid]
        self.snapshot.put(other, self.node)
        if not self.reasons():
            return True
        self.snapshot.take_off(other, self.node)
        self.node.taken_off = taken_off
        return False


def is_leaving(pod: FullPod, snapshot: FullSnapshot) -> bool:
    """Return whether a pod is being deleted, or is a victim that is about to be."""
    return pod.terminating or pod.uid in snapshot.victims


def first_reasons(prepared: list[Prepared], node: FullNode) -> list[str]:
    """Return the reasons of the first of these Prepared predicates that has some against a node, or []."""
    return next(filter(None, (rule.reasons(node) for rule in prepared)), [])


def prepared_for_nodes(predicates: list[FullRule], pod: FullPod, snapshot: FullSnapshot) -> Any:
    """Return Prepared predicates, if none of them looks at other pods than those on the node; else None.

    Then one supposes another node without another cluster, which is quick. Raises Rejected.
    """
    prepared = prepare(predicates, pod, snapshot.nodes, snapshot)
    concerns_others = pod.is_affine or any(rule.metadata is not None for rule in prepared)
    return None if concerns_others or any(map(looks_around, predicates)) else prepared


def looks_around(rule: FullRule) -> bool:
    """Return whether a rule may look at other pods without metadata: a user's own, ServiceAffinity."""
    return bool(rule.metadata and (rule.argument or not rule.steady))
