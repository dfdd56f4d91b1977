"""Preemption: a pod that fits no node has less important pods deleted, on the node where that costs least.

Under a Policy, it is a rule that the Policy names, and works as in kube-scheduler 1.20. What 1.36 does
differently is in configuration/overrides/preemption.py. Upstream: framework/plugins/defaultpreemption.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from scheduler import sum_up
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.deciding.prepared_rules import PreparedRule, prepare
from scheduler_extras.deciding.rule import Rejected, Unresolvable, predicate
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.always import ALWAYS_ASKED, nominate
from scheduler_extras.rules.budgets import protected_by_budgets
from scheduler_extras.rules.node_ranking import Victims, importance, pick_one_node
from scheduler_extras.rules.preemption_requests import make_room
from scheduler_extras.rules.simulation import Simulation, is_leaving, prepared_for_nodes


class NoPreemption(list):
    """The result of `preempt` for a pod that preempts no other: the reason, and its requests, if any."""

    def __init__(self, why: str | dict[str, tuple[str, ...]], requests: Iterable = ()):
        super().__init__(requests)
        self.why = why  # a text, or {node: the reasons that remain there}


class Behavior:
    """How kube-scheduler 1.20 preempts, where later versions differ."""

    def in_order(self, victims: list[FullPod]) -> list[FullPod]:
        """Return the victims, the one that represents them first: pods that a budget protects come first."""
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
        return not rivals and not all(is_hopeless(failed.get(name, {})) for name in snapshot.nodes)

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


def preempt(pod: FullPod, failed: dict, snapshot: FullSnapshot, percentage: int = 10, absolute: int = 100,
            behavior: Behavior = Behavior()) -> Any:  # noqa: B008
    """Choose victims for a pod that fits no node. Return (requests, what they do), or NoPreemption.

    percentage, absolute: the search ends when so many candidates are found, in percent of the nodes and in
    nodes, whichever is more. (minCandidateNodesPercentage, minCandidateNodesAbsolute)
    """
    if pod.spec.get("preemptionPolicy") == "Never":
        return NoPreemption("not eligible due to preemptionPolicy=Never.")
    home = nomination_of(pod, snapshot)
    if waits_for_victims(pod, snapshot.nodes.get(home), failed, snapshot, behavior):
        return keep_waiting(pod, home, snapshot)
    found, against = candidates(pod, failed, snapshot, percentage, absolute, behavior)
    if not found:
        return NoPreemption(against, withdrawal(pod, home, failed, snapshot, behavior))
    try:
        found = left_by_extenders(pod, found, snapshot)
    except Unschedulable as error:
        return [], f"No preemption: {error}."
    if not found:
        return [], "No preemption: the extenders leave no node."
    best, why = pick_one_node(not_refused(pod, found))
    victims = found[best].pods
    names = ", ".join(victim.key for victim in victims)
    requests = make_room(pod, best, victims, snapshot, behavior)
    return requests, f"It preempts {names} on {best.name}, {why}{after_refusals(pod)}."


@predicate("Preemption", post_filter=preempt, plugin="DefaultPreemption", steady=True)
def preemption(pod, node):
    """Every pod fits every node. (rules/always.py keeps room for nominated pods under any Policy.)"""
    return []


NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


def no_preemption_message(decision: Any) -> str:
    """Return kube-scheduler's message about why the pod preempts no other; "" if there is none."""
    why = decision.why_not_preempted
    if isinstance(why, dict):
        why = sum_up({name: {"": reasons} for name, reasons in why.items()})
    return why and f"preemption: {why}"


# Waiting: a preemptor stays nominated to the node until it is bound.

def nomination_of(pod: FullPod, snapshot: FullSnapshot) -> str | None:
    """Return the name of the node to which the pod is nominated, or None."""
    return next((other.nominated_node for other in snapshot.nominated if other.uid == pod.uid), None)


def waits_for_victims(pod: FullPod, home: FullNode | None, failed: dict, snapshot: FullSnapshot,
                      behavior: Behavior) -> bool:
    """Return whether less important pods are still terminating on the node to which the pod is nominated."""
    if home is None or is_hopeless(failed.get(home.name, {})):
        return False
    return any(other.priority < pod.priority and behavior.is_waited_for(other, snapshot)
               for other in home.pods.values())


def keep_waiting(pod: FullPod, home: str | None, snapshot: FullSnapshot) -> tuple[list, str]:
    """Return no requests, while victims terminate; but repeat the nomination if it was never written."""
    requests = [] if pod.nominated_node == home else [nominate(pod, home, snapshot)]
    return requests, f"It waits until the pods that are being deleted on {home} have gone."


def withdrawal(pod: FullPod, home: str | None, failed: dict, snapshot: FullSnapshot,
               behavior: Behavior) -> list:
    """Return, in a list, the request that ends the pod's nomination; [] if it has none or keeps it."""
    if not home or behavior.keeps_nomination(pod, home, failed, snapshot):
        return []
    return [nominate(pod, None, snapshot)]


# Where it helps.

def is_hopeless(against: dict) -> bool:
    """Return whether a node would not fit even without pods. against: {predicate: its reasons}."""
    return any(isinstance(reason, Unresolvable) for reasons in against.values() for reason in reasons)


def candidates(pod: FullPod, failed: dict, snapshot: FullSnapshot, percentage: int, absolute: int,
               behavior: Behavior) -> tuple[dict[FullNode, Victims], dict[str, tuple[str, ...]]]:
    """Return {node: its Victims} of nodes that the pod fits without these, and {node: the reasons} of others.

    The search starts at a random node. It ends with enough candidates, one of which violates no budget.
    Upstream: dryRunPreemption.
    """
    nodes = [node for name, node in snapshot.nodes.items() if not is_hopeless(failed.get(name, {}))
             and not behavior.is_too_small(node, pod, failed.get(name, {}))]
    against: dict[str, tuple[str, ...]] = dict.fromkeys(snapshot.nodes, (NOT_HELPFUL,))
    enough = max(len(nodes) * percentage // 100, absolute)
    if enough < len(nodes):
        chance = random.Random(None if CHANCE.seed is None else f"{CHANCE.seed} {pod.key}")
        start = chance.randrange(len(nodes))
        nodes = nodes[start:] + nodes[:start]
    found = {}
    prepared = prepared_for_any_node(pod, snapshot)
    for node in nodes:
        victims, against[node.name] = victims_on(pod, node, snapshot, behavior, prepared)
        if victims:
            found[node] = victims
        if len(found) >= enough and any(victims.violations == 0 for victims in found.values()):
            break
    return found, against


def victims_on(pod: FullPod, node: FullNode, snapshot: FullSnapshot, behavior: Behavior,
               prepared: list[PreparedRule] | None) -> tuple[Victims | None, tuple[str, ...]]:
    """Return the Victims on a node, or None and the reasons why there are none. (selectVictimsOnNode)"""
    lower = lower_on(node, pod, behavior)
    if not lower:
        return None, (NO_VICTIMS,)
    predicates = snapshot.policies[pod.scheduler].predicates_to_ask()
    simulation = Simulation(predicates, pod, node, snapshot, gone=lower, prepared=prepared)
    reasons = simulation.reasons()
    if reasons:
        return None, tuple(reasons)
    protected = protected_by_budgets(lower, snapshot)
    in_order = sorted(lower, key=lambda other: other not in protected)  # protected ones may return first
    gone = [other for other in in_order if not simulation.reprieve(other)]
    if not gone:  # only an extender refuses the node
        return None, (NO_VICTIMS,)
    return Victims(behavior.in_order(gone), sum(other in protected for other in gone)), ()


def prepared_for_any_node(pod: FullPod, snapshot: FullSnapshot) -> list[PreparedRule] | None:
    """Return PreparedRules that serve for all nodes; None if some read pods on other nodes."""
    try:
        prepared = prepared_for_nodes(snapshot.policies[pod.scheduler].predicates, pod, snapshot)
        return prepared and prepared + prepare(ALWAYS_ASKED, pod, snapshot.nodes, snapshot)
    except Rejected:
        return None


def lower_on(node: FullNode, pod: FullPod, behavior: Behavior) -> list[FullPod]:
    """Return the pods of lower priority on a node, the most important one first."""
    numbered = [(number, other) for number, other in enumerate(node.pods.values())
                if other.priority < pod.priority]
    numbered.sort(key=lambda pair: behavior.importance(*pair))
    return [other for _, other in numbered]


# Which node.

def not_refused(pod: FullPod, found: dict[FullNode, Victims]) -> dict[FullNode, Victims]:
    """Return the candidates on which no deletion has been refused; all of them if that leaves none."""
    refused = refused_nodes(pod)
    left = {node: victims for node, victims in found.items() if node.name not in refused}
    if not left:
        refused.clear()
    return left or found


def after_refusals(pod: FullPod) -> str:
    """Return in words why better nodes were skipped, or ""."""
    refused = refused_nodes(pod)
    return f", as pods on {', '.join(sorted(refused))} could not be deleted" if refused else ""


def refused_nodes(pod: FullPod) -> set[str]:
    """Return the names of the nodes on which the API server has refused to delete victims of the pod."""
    return pod.record.retry.refused if pod.record else set()


def left_by_extenders(pod: FullPod, found: dict[FullNode, Victims],
                      snapshot: FullSnapshot) -> dict[FullNode, Victims]:
    """Return the candidates that the extenders accept, perhaps with other victims. Raises Unschedulable.

    This does not copy a bug of 1.20, which calls no extender because WithExtenders is never used.
    """
    for extender in snapshot.policies[pod.scheduler].extenders:
        if found and extender.is_interested("preemptVerb", pod):
            found = extender.preempt(pod, found)
    return found
