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
from scheduler_extras.deciding.extension_points import Request
from scheduler_extras.deciding.prepared_rules import PreparedRule, prepare
from scheduler_extras.deciding.rule import Rejected, is_unresolvable, predicate
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.always import ALWAYS_ASKED
from scheduler_extras.rules.budgets import violating_budgets
from scheduler_extras.rules.node_ranking import Victims, pick_one_node
from scheduler_extras.rules.nominating import nominate, nomination_of
from scheduler_extras.rules.preemption_behavior import PreemptionBehavior
from scheduler_extras.rules.preemption_requests import make_room
from scheduler_extras.rules.simulation import Simulation, prepared_for_nodes


class NoPreemption(list):
    """The result of `preempt` for a pod that preempts no other: the reason, and its requests, if any."""

    def __init__(self, why: str | dict[str, tuple[str, ...]], requests: Iterable = ()):
        super().__init__(requests)
        self.why = why  # a text, or {node: the reasons that remain there}


def preempt(pod: FullPod, failed: dict, snapshot: FullSnapshot, percentage: int = 10, absolute: int = 100,
            behavior: PreemptionBehavior = PreemptionBehavior()  # noqa: B008
            ) -> tuple[list[Request], str] | NoPreemption:
    """Choose victims for a pod that fits no node. Return (requests, what they do), or NoPreemption.

    percentage, absolute: the search ends when so many candidates are found, in percent of the nodes and in
    nodes, whichever is more. (minCandidateNodesPercentage, minCandidateNodesAbsolute)
    """
    if pod.spec.get("preemptionPolicy") == "Never":
        return NoPreemption("not eligible due to preemptionPolicy=Never.")
    nominated_node = nomination_of(pod, snapshot)
    if waits_for_victims(pod, snapshot.nodes.get(nominated_node), failed, snapshot, behavior):
        return keep_waiting(pod, nominated_node, snapshot)
    found, against = candidates(pod, failed, snapshot, percentage, absolute, behavior)
    if not found:
        return NoPreemption(against, withdrawal(pod, nominated_node, failed, snapshot, behavior))
    try:
        found = filtered_by_extenders(pod, found, snapshot)
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

def waits_for_victims(pod: FullPod, node: FullNode | None, failed: dict, snapshot: FullSnapshot,
                      behavior: PreemptionBehavior) -> bool:
    """Return whether less important pods are still terminating on the node to which the pod is nominated.

    Upstream: PodEligibleToPreemptOthers.
    """
    if node is None or is_unresolvable(failed.get(node.name, {})):
        return False
    return any(other.priority < pod.priority and behavior.is_waited_for(other, snapshot)
               for other in node.pods.values())


def keep_waiting(pod: FullPod, nominated_node: str | None, snapshot: FullSnapshot) -> tuple[list, str]:
    """Return no requests, while victims terminate; but repeat the nomination if it was never written."""
    requests = [] if pod.nominated_node == nominated_node else [nominate(pod, nominated_node, snapshot)]
    return requests, f"It waits until the pods that are being deleted on {nominated_node} have gone."


def withdrawal(pod: FullPod, nominated_node: str | None, failed: dict, snapshot: FullSnapshot,
               behavior: PreemptionBehavior) -> list:
    """Return, in a list, the request that ends the pod's nomination; [] if it has none or keeps it."""
    if not nominated_node or behavior.keeps_nomination(pod, nominated_node, failed, snapshot):
        return []
    return [nominate(pod, None, snapshot)]


# Finding candidates.

def candidates(pod: FullPod, failed: dict, snapshot: FullSnapshot, percentage: int, absolute: int,
               behavior: PreemptionBehavior) -> tuple[dict[FullNode, Victims], dict[str, tuple[str, ...]]]:
    """Return {node: its Victims} of nodes that the pod fits without these, and {node: the reasons} of others.

    The search starts at a random node. It ends with enough candidates, one of which violates no budget.
    Upstream: dryRunPreemption.
    """
    nodes = [node for name, node in snapshot.nodes.items() if not is_unresolvable(failed.get(name, {}))
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


def victims_on(pod: FullPod, node: FullNode, snapshot: FullSnapshot, behavior: PreemptionBehavior,
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
    violating = violating_budgets(lower, snapshot)
    in_order = sorted(lower, key=lambda other: other not in violating)  # those are reprieved first
    gone = [other for other in in_order if not simulation.reprieve(other)]
    if not gone:  # only an extender refuses the node
        return None, (NO_VICTIMS,)
    return Victims(behavior.in_order(gone), sum(other in violating for other in gone)), ()


def prepared_for_any_node(pod: FullPod, snapshot: FullSnapshot) -> list[PreparedRule] | None:
    """Return PreparedRules that serve for all nodes; None if some read pods on other nodes."""
    try:
        prepared = prepared_for_nodes(snapshot.policies[pod.scheduler].predicates, pod, snapshot)
        return prepared and prepared + prepare(ALWAYS_ASKED, pod, snapshot.nodes, snapshot)
    except Rejected:
        return None


def lower_on(node: FullNode, pod: FullPod, behavior: PreemptionBehavior) -> list[FullPod]:
    """Return the pods of lower priority on a node, the most important one first."""
    numbered = [(number, other) for number, other in enumerate(node.pods.values())
                if other.priority < pod.priority]
    numbered.sort(key=lambda pair: behavior.importance(*pair))
    return [other for _, other in numbered]


# Choosing the best candidate.

def not_refused(pod: FullPod, found: dict[FullNode, Victims]) -> dict[FullNode, Victims]:
    """Return the candidates on which no deletion has been refused.

    If that leaves none, forget the refusals, and return all.
    """
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
    return pod.pending_state.refused_nodes if pod.pending_state else set()


def filtered_by_extenders(pod: FullPod, found: dict[FullNode, Victims],
                          snapshot: FullSnapshot) -> dict[FullNode, Victims]:
    """Return the candidates that the extenders accept, perhaps with other victims. Raises Unschedulable.

    This does not copy a bug of 1.20, which calls no extender because WithExtenders is never used.
    """
    for extender in snapshot.policies[pod.scheduler].extenders:
        if found and extender.is_interested("preemptVerb", pod):
            found = extender.preempt(pod, found)
    return found
