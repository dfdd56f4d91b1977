"""The victims of a preemption, and the comparison of nodes by their victims.

preemption.py calls it. Upstream: pickOneNodeForPreemption.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod


@dataclass
class Victims:
    """The pods that have to be deleted from a node so that the preemptor fits."""

    pods: list[FullPod]  # the first one represents all of them when nodes are compared
    violations: int  # how many of the deletions violate a budget


def importance(pod: FullPod) -> tuple:
    """Return the sort key that puts the most important pod first. Upstream: MoreImportantPod."""
    return -pod.priority, started(pod), pod.key


NOT_STARTED = "9"  # sorts after any time


def started(pod: FullPod) -> str:
    """Return the pod's start time in the API's format. A pod that has not started counts as the newest."""
    return pick(pod.raw, str, "status", "startTime") or NOT_STARTED


WHY = ["where the fewest budgets are violated", "where the most important of these matters least",
       "where their priorities add up to the least", "where they are the fewest", "where they started last"]
WHY_ONE = [WHY[0], "where the victim matters least", *WHY[2:]]  # for a single victim


def rank(victims: Victims) -> tuple:
    """Return the criteria by which nodes are compared, in the order of WHY; the greatest is the best."""
    pods = victims.pods
    highest = max(pod.priority for pod in pods)
    return (-victims.violations, -pods[0].priority, -sum(pod.priority + 2**31 for pod in pods), -len(pods),
            min(started(pod) for pod in pods if pod.priority == highest))


def pick_one_node(found: dict[FullNode, Victims]) -> tuple[FullNode, str]:
    """Return the best candidate of {node: its Victims}, and in words why it is the best."""
    best, *others = sorted(found, key=lambda node: rank(found[node]), reverse=True)
    if not others:
        return best, "the only node where that helps"
    return best, deciding_criterion(found[best], found[others[0]])


def deciding_criterion(victims: Victims, others: Victims) -> str:
    """Return in words the first criterion in which these victims differ from those of another node."""
    words = WHY_ONE if len(victims.pods) == 1 else WHY
    compared = zip(words, rank(victims), rank(others), strict=True)
    differing = [why for why, ours, its in compared if ours != its]
    return differing[0] if differing else "as good as any other node"
