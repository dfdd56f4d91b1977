"""The snapshot: the cluster as all rules see it.

The cache keeps one up to date. Rules get it, and may read all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler_extras.deciding.answers import AnswerCache
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod


@dataclass
class Victim:
    """A pod that is deleted for another one, and the budgets that protected it when it was chosen."""

    pod: FullPod  # its current version
    budgets: dict[str, dict]  # {namespace/name: the API's JSON}


@dataclass(eq=False)
class FullSnapshot:
    """The cluster as all rules see it. Only the loop's thread changes it, between decisions."""

    nodes: dict  # name -> Node, without nodes that can take no pods
    objects: dict  # resource -> {namespace/name or name: the API's JSON}
    is_live: bool = False  # whether controllers act on writes: no dry run, and no manifests
    answer_cache: AnswerCache = field(default_factory=lambda: AnswerCache())  # cached answers about the nodes
    policies: dict = field(default_factory=dict)  # schedulerName -> Policy
    nominated: list = field(default_factory=list)  # pending pods, of any scheduler, with a nominated node
    derived: dict = field(default_factory=dict)  # what rules have computed from objects, by keys of their own
    victims: dict[str, Victim] = field(default_factory=dict)  # by uid: pods that are being preempted
    time_rule: Callable | None = None  # called as (rule, is_metadata, seconds) after each call

    def put(self, pod: FullPod, node: FullNode) -> None:
        """Put a pod on a node."""
        node.add(pod)
        self.note_change(node, is_by_pod=True)

    def take_off(self, pod: FullPod, node: FullNode) -> None:
        """Remove a pod from a node, if it is there."""
        if node.remove(pod):
            self.note_change(node, is_by_pod=True)

    def note_change(self, node: FullNode, is_by_pod: bool = False) -> None:
        """Drop what was computed about a node. is_by_pod: only what depends on the pods on it."""
        node.derived.clear()
        self.answer_cache.note_change(node.name, is_by_pod)
