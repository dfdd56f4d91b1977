"""Preemption: a pod that fits nowhere has less important ones deleted, where these are missed least.

Under a Policy it is a rule to be named, as kube-scheduler 1.20 does it; what 1.36 does otherwise is in
configuration/overrides/preemption.py. Upstream: framework/plugins/defaultpreemption.
"""

import random
from dataclasses import dataclass

from scheduler import sum_up
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.deciding.asking import prepare
from scheduler_extras.deciding.rule import Rejected, Unresolvable, predicate
from scheduler_extras.reading.fields import pick
from scheduler_extras.rules.always import ALWAYS_ASKED, nominate
from scheduler_extras.rules.budgets import protected_by_budgets
from scheduler_extras.rules.eviction import make_room
from scheduler_extras.rules.supposed import Supposed, is_leaving, prepared_for_nodes


@dataclass
class Victims:
    """The pods that have to go from a node so that another one fits."""

    pods: list  # the first of them stands for all, when nodes are compared
    violations: int  # how many of them a budget protects


class Manner:
    """How kube-scheduler 1.20 does what later ones do otherwise."""

    def in_order(self, victims):
        """Return victims, of whom the first stands for all: those that a budget protects come first."""
        return victims

    def is_waited_for(self, victim, snapshot):
        """Return whether a pod that has made room lets this one go before it makes more."""
        return is_leaving(victim, snapshot)

    def keeps_nomination(self, pod, node_name, failed, snapshot):
        """Return whether a pod keeps its nomination to a node though preemption does not help it now.

        Otherwise than in 1.20, two of one priority do not keep each other from one room for ever.
        """
        rivals = [other for other in snapshot.nominated if other.uid != pod.uid
                  and other.nominated_node == node_name and other.priority == pod.priority]
        return not rivals and not all(is_hopeless(failed.get(name, {})) for name in snapshot.nodes)

    def words(self, pod, node):
        """Return the message of a victim's event."""
        return f"Preempted by {pod.key} on node {node.name}"

    def importance(self, number, pod):
        """Return by what the pods of a node are sorted, the most important one first. (MoreImportantPod)

        number: its place among the pods of the node.
        """
        return importance(pod)

    def rejects(self, victim):
        """Return whether a victim need not be deleted, as it is rejected."""
        return False

    def is_too_small(self, node, pod, against):
        """Return whether a node has too little room even when empty, so that it is skipped.

        against: {predicate: its reasons} of the node.
        """
        return False

    def ends_nominations(self, victims):
        """Return whether less important pods are no longer nominated to the node from which these go."""
        return True


def preempt(pod, failed, snapshot, percentage=10, absolute=100, manner=Manner()):  # noqa: B008
    """Have less important pods go where they are missed least. Return requests, and what they do; or None.

    percentage, absolute: as many candidates are compared, of all nodes and at least, if there are more.
    """
    pod.derived[WHY_NOT_PREEMPTED] = "not eligible due to preemptionPolicy=Never."
    if pod.spec.get("preemptionPolicy") == "Never":
        return None
    home = nomination_of(pod, snapshot)
    if waits_for_victims(pod, snapshot.nodes.get(home), failed, snapshot, manner):
        pod.derived[WHY_NOT_PREEMPTED] = "not eligible due to a terminating pod on the nominated node."
        return go_on_waiting(pod, home, snapshot)
    found, pod.derived[WHY_NOT_PREEMPTED] = candidates(pod, failed, snapshot, percentage, absolute, manner)
    if not found:
        return withdraw(pod, home, failed, snapshot, manner)
    try:
        found = left_by_extenders(pod, found, snapshot)
    except Unschedulable as error:
        return [], f"No preemption: {error}."
    if not found:
        pod.derived[WHY_NOT_PREEMPTED] = "no candidate node for preemption"
        return [], "No preemption: the extenders leave no node."
    best, why = where_missed_least(those_not_refused(pod, found))
    victims = found[best].pods
    del pod.derived[WHY_NOT_PREEMPTED]
    who = ", ".join(victim.key for victim in victims)
    requests = make_room(pod, best, victims, snapshot, manner)
    return requests, f"It preempts {who} on {best.name}, {why}{after_refusals(pod)}."


@predicate("Preemption", post_filter=preempt, plugin="DefaultPreemption", steady=True)
def preemption(pod, node):
    """Every pod fits every node. Room for nominated pods is left to them whatever the Policy names."""
    return []


# Why a pod preempts no other: a text, or {node: the reasons that remain}. It goes into the decision.

WHY_NOT_PREEMPTED = "why not preempted"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


def why_nobody(decision):
    """Return kube-scheduler's words for why a pod preempts no other; "" if it does, or preemption is off."""
    found = decision.why_not_preempted
    if isinstance(found, dict):
        found = sum_up({name: {"": reasons} for name, reasons in found.items()})
    return found and f"preemption: {found}"


# Who waits. A pod that has made room is nominated to the node, until it is bound.

def nomination_of(pod, snapshot):
    """Return the name of the node where room is being made for the pod, or None."""
    return next((other.nominated_node for other in snapshot.nominated if other.uid == pod.uid), None)


def waits_for_victims(pod, home, failed, snapshot, manner):
    """Return whether pods are on their way out of the node where room is being made for this one."""
    if home is None or is_hopeless(failed.get(home.name, {})):
        return False
    return any(other.priority < pod.priority and manner.is_waited_for(other, snapshot)
               for other in home.pods.values())


def go_on_waiting(pod, home, snapshot):
    """Return what is done while victims leave: nothing, unless the nomination could not be written before."""
    requests = [] if pod.nominated_node == home else [nominate(pod, home, snapshot)]
    return requests, f"It waits until the pods that are being deleted on {home} have gone."


def withdraw(pod, home, failed, snapshot, manner):
    """Return the request that ends the pod's nomination; None if it has none."""
    if not home or manner.keeps_nomination(pod, home, failed, snapshot):
        return None
    return [nominate(pod, None, snapshot)], ""


# Where it helps.

def is_hopeless(against: dict) -> bool:
    """Return whether what is against a node, {predicate: its reasons}, holds whichever pods go from there."""
    return any(isinstance(reason, Unresolvable) for reasons in against.values() for reason in reasons)


def candidates(pod, failed, snapshot, percentage, absolute, manner):
    """Return {node: its Victims} of nodes that the pod fits once these have gone, and {node: why not}.

    Upstream: DryRunPreemption. Of many nodes it looks at those from a random one on, until there are enough,
    of which one violates no budget.
    """
    nodes = [node for name, node in snapshot.nodes.items() if not is_hopeless(failed.get(name, {}))
             and not manner.is_too_small(node, pod, failed.get(name, {}))]
    against = dict.fromkeys(snapshot.nodes, (NOT_HELPFUL,))
    enough = max(len(nodes) * percentage // 100, absolute)
    if enough < len(nodes):
        chance = random.Random(None if CHANCE.seed is None else f"{CHANCE.seed} {pod.key}")
        start = chance.randrange(len(nodes))
        nodes = nodes[start:] + nodes[:start]
    found = {}
    prepared = prepared_for_any_node(pod, snapshot)
    for node in nodes:
        victims, against[node.name] = victims_on(pod, node, snapshot, manner, prepared)
        if victims:
            found[node] = victims
        if len(found) >= enough and any(victims.violations == 0 for victims in found.values()):
            break
    return found, against


def victims_on(pod, node, snapshot, manner, prepared):
    """Return the Victims on a node, or None; and the reasons why there are none. (SelectVictimsOnNode)"""
    lower = lower_on(node, pod, manner)
    if not lower:
        return None, (NO_VICTIMS,)
    predicates = snapshot.policies[pod.scheduler].predicates_to_ask()
    supposed = Supposed(predicates, pod, node, snapshot, gone=lower, prepared=prepared)
    reasons = supposed.reasons()
    if reasons:
        return None, reasons
    protected = protected_by_budgets(lower, snapshot)
    in_order = sorted(lower, key=lambda other: other not in protected)  # all are gone; who may come back?
    gone = [other for other in in_order if not supposed.may_stay(other)]
    if not gone:  # it is an extender that refuses the node
        return None, (NO_VICTIMS,)
    return Victims(manner.in_order(gone), sum(other in protected for other in gone)), ()


def prepared_for_any_node(pod, snapshot):
    """Return the Prepared predicates, if they look at no pods but those on the node; else None."""
    try:
        prepared = prepared_for_nodes(snapshot.policies[pod.scheduler].predicates, pod, snapshot)
        return prepared and prepared + prepare(ALWAYS_ASKED, pod, snapshot.nodes, snapshot)
    except Rejected:
        return None


def lower_on(node, pod, manner):
    """Return the pods on a node that are less important than a pod, the most important ones first."""
    numbered = [(number, other) for number, other in enumerate(node.pods.values())
                if other.priority < pod.priority]
    numbered.sort(key=lambda pair: manner.importance(*pair))
    return [other for _, other in numbered]


def importance(pod):
    """Return by what pods are sorted: those that matter most come first. Upstream: MoreImportantPod."""
    return -pod.priority, started(pod), pod.key


NOT_STARTED = "9"  # is later than any time


def started(pod):
    """Return when the pod started, as the API writes times; one that has not is the youngest."""
    return pick(pod.raw, str, "status", "startTime") or NOT_STARTED


# Which node. Upstream: pickOneNodeForPreemption.

WHY = ["where the fewest budgets are violated", "where the most important of these matters least",
       "where their priorities add up to the least", "where they are the fewest", "where they started last"]
WHY_ONE = [WHY[0], "where the victim matters least", *WHY[2:]]  # of a single victim


def merits(victims):
    """Return what speaks for the node with these victims, what counts most first: see WHY."""
    pods = victims.pods
    highest = max(pod.priority for pod in pods)
    return (-victims.violations, -pods[0].priority, -sum(pod.priority + 2**31 for pod in pods), -len(pods),
            min(started(pod) for pod in pods if pod.priority == highest))


def where_missed_least(found):
    """Return the best of the candidates, {node: its Victims}, and in words why it is."""
    best, *others = sorted(found, key=lambda node: merits(found[node]), reverse=True)
    return best, what_decides(found[best], found[others[0]]) if others else "where that helps"


def those_not_refused(pod, found):
    """Return the candidates without nodes whose pods could not be deleted before, unless none is left."""
    refused = pod.record.retry.refused if pod.record else set()
    left = {node: victims for node, victims in found.items() if node.name not in refused}
    if not left:
        refused.clear()
    return left or found


def after_refusals(pod):
    """Return in words why better nodes have been passed over, or ""."""
    refused = pod.record.retry.refused if pod.record else set()
    return f", as pods on {', '.join(sorted(refused))} could not be deleted" if refused else ""


def what_decides(victims, others):
    """Return in words why these victims are missed less than those of another node."""
    words = WHY_ONE if len(victims.pods) == 1 else WHY
    compared = zip(words, merits(victims), merits(others), strict=True)
    differing = [why for why, ours, its in compared if ours != its]
    return differing[0] if differing else "where that helps"


def left_by_extenders(pod, found, snapshot):
    """Return the candidates that extenders leave, maybe with other victims. Raises Unschedulable.

    A bug of 1.20 is not followed: there, no extender is called, because nothing calls WithExtenders.
    """
    for extender in snapshot.policies[pod.scheduler].extenders:
        if found and extender.cares("preemptVerb", pod):
            found = extender.preempt(pod, found)
    return found
