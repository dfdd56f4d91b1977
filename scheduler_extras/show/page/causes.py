"""The causes for which nodes do not fit, in a few words for the page, and the changes that would help.

records.py asks for the cause of each node in a small cluster.
"""

from __future__ import annotations

import collections
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from scheduler import untolerated_taints
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.rule import SKIP
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.affinity import (
    ANTI_AFFINITY_OF_OTHERS,
    IN_GENERAL,
    NO_AFFINITY,
    OWN_ANTI_AFFINITY,
)
from scheduler_extras.rules.affinity_terms import affinity_terms
from scheduler_extras.rules.always import ROOM_FOR_NOMINATED, rivals_of
from scheduler_extras.rules.ports import PORTS_TAKEN, share_a_port
from scheduler_extras.rules.script_rules import (
    OTHER_LABELS,
    OTHER_LABELS_136,
    TAINT,
    TAINTS_136,
    TOO_MANY_PODS,
    UNSCHEDULABLE,
    insufficient,
)
from scheduler_extras.rules.spreading import NO_TOPOLOGY_LABEL, TOO_SKEWED
from scheduler_extras.show.obstacles import Obstacles, skews, unmet_requirements
from scheduler_extras.show.picture import amounts_of
from scheduler_extras.show.text import shorten


# Beginnings of labels that the kubelet or the cloud sets. They describe the node, so they stay as they are.
FACTS = ("kubernetes.io/", "beta.kubernetes.io/", "node.kubernetes.io/", "topology.kubernetes.io/",
         "failure-domain.beta.kubernetes.io/")


FREE = " free"  # the end of words about an amount


@dataclass
class Cause:
    """Why a node does not fit a pod."""

    words: str
    blame: list[str] = field(default_factory=list)  # what the page frames, such as pod:default/web-1
    change: str = ""  # the change that would help; {node} stands for the node's name
    size: float = 1  # the size of that change: the smallest one is shown


def cause_of(decision: FullDecision, name: str, against: dict) -> Cause:
    """Return the Cause of a node that does not fit. against: {predicate: its reasons}."""
    node = decision.nodes[name]
    if ROOM_FOR_NOMINATED in against:
        return reserved(decision, node)
    reasons = [*itertools.chain(*against.values())]
    precise = [reason for reason in reasons if reason != IN_GENERAL] or reasons
    causes = [function_for(reason)(decision, node, reason) for reason in precise]
    words = in_one_line(dict.fromkeys(cause.words for cause in causes)) or "no reason given"
    blame = [each for cause in causes for each in cause.blame]
    change = " and ".join(cause.change for cause in causes)
    return Cause(words, blame, change, max((cause.size for cause in causes), default=1))


def in_one_line(texts: Iterable[str]) -> str:
    """Return the words of several causes. Of amounts in a row, only the last says "free"."""
    words: list[str] = []
    for text in texts:
        if words and text.endswith(FREE):
            words[-1] = words[-1].removesuffix(FREE)
        words.append(text)
    return ", ".join(words)


def pods_with_reserved_room(decision: FullDecision, nodes: Iterable[FullNode]) -> dict[str, list[FullPod]]:
    """Return the nominated pods whose room a pod may not take, {node: pods}."""
    if decision.snapshot is None:
        return {}
    rivals = rivals_of(decision.pod, [*nodes], decision.snapshot)
    return {} if rivals is SKIP else rivals.on_nodes


def reserved(decision: FullDecision, node: FullNode) -> Cause:
    """Return the Cause: the node has no room beside the pods that are nominated to it."""
    rivals = pods_with_reserved_room(decision, [node]).get(node.name, [])
    taken = requests_of(rivals)
    taken.update(node.requested)
    lacking = [resource for resource, wanted in decision.pod.requests.items()
               if taken[resource] + wanted > node.allocatable.get(resource, 0)]
    return Cause(f"reserved for {names_of(rivals)}", [f"room:{resource}" for resource in lacking])


def lack(decision: FullDecision, node: FullNode, reason: str) -> Cause:
    """Return the Cause: the node lacks a resource."""
    pod, resource = decision.pod, reason.removeprefix(insufficient(""))
    wanted = pod.requests.get(resource, 0)
    used = node.requested.get(resource, 0) - (wanted if pod.uid in node.pods else 0)
    free = node.allocatable.get(resource, 0) - used
    name = resource.rpartition("/")[2]
    amounts = [amounts_of(resource, each).removesuffix("Gi") for each in (wanted, max(free, 0))]
    words = f"{'mem' if name == 'memory' else name} {' > '.join(amounts)}{FREE}"
    more = f"{amounts_of(resource, wanted - free)} more {name} on {{node}}"
    return Cause(words, [f"room:{resource}"], more, (wanted - free) / max(wanted, 1))


def too_many_pods(decision: FullDecision, node: FullNode, reason: str) -> Cause:
    """Return the Cause: the node is at its maximum number of pods."""
    words = f"has {len(node.pods)} of {node.max_pods} pods"
    return Cause(words, ["room:pods"], "one pod fewer on {node}", 0.2)


def taints(decision: FullDecision, node: FullNode, reason: str) -> Cause:
    """Return the Cause: taints that the pod does not tolerate."""
    against = untolerated_taints(decision.pod, node)
    names = ["=".join(filter(None, taint[:2])) for taint in against]
    blame = [f"taint:{name}:{taint.effect}" for name, taint in zip(names, against, strict=True)]
    words = f"taint {names[0].rpartition('/')[2]}" if names else "a taint"
    return Cause(words, blame, f"tolerate {', '.join(names)}", len(names) / 10)


def labels(decision: FullDecision, node: FullNode, reason: str) -> Cause:
    """Return the Cause: labels that the pod requires and the node lacks."""
    words, blame = [], []
    for key, operator, values, has in unmet_requirements(decision.pod, node):
        value = ", ".join(values)
        if operator != "In":
            value = f"{operator} {value}".rstrip()
        words.append(has if has.startswith("no ") else f"{has}, not {value}")
        blame.append(f"label:{key}")
    selector = decision.pod.node_selector.items()
    missing = [f"{key}={value}" for key, value in selector if node.labels.get(key) != value]
    wanted = missing or [each.removeprefix("label:") for each in blame]
    named = ", ".join(wanted)
    is_fact = any(label.startswith(FACTS) for label in wanted)
    change = f"do without {named} in the pod" if is_fact else f"label {{node}} {named}"
    return Cause("; ".join(words) or "labels", blame, change, len(wanted) * (1 if is_fact else 0.1))


def cordon(decision: FullDecision, node: FullNode, reason: str) -> Cause:
    """Return the Cause: the node is cordoned."""
    return Cause("cordoned", ["cordon"], "uncordon {node}", 0.1)


def ports(decision: FullDecision, node: FullNode, reason: str) -> Cause:
    """Return the Cause: other pods use the host ports."""
    pod = decision.pod
    others = [other for other in node.pods.values() if other.uid != pod.uid and share_a_port(pod, other)]
    taken = {number for other in others for _, number, _ in other.host_ports}
    numbers = ", ".join(str(number) for _, number, _ in pod.host_ports if number in taken)
    words = f"{names_of(others)} has port {numbers}"
    return Cause(words, pods_to_blame(others), f"free port {numbers} on {{node}}", len(others) / 10)


def anti_affinity(decision: FullDecision, node: FullNode, reason: str) -> Cause:
    """Return the Cause: pods that anti-affinity separates from this one."""
    found = dict(itertools.islice(repelling(decision, node), 5))
    others = [*found]
    keys = [*dict.fromkeys(key for key, place in found.values() if place is not node)]
    domain = " and ".join(domain_in_short(decision, node, key) for key in keys)
    words = f"not with {names_of(others)}" if others else "a pod there keeps it away"
    blame = [*pods_to_blame(others), *(f"label:{key}" for key in keys)]
    change = f"move {names_of(others)} {f'out of {domain}' if domain else 'away from {node}'}"
    return Cause(f"{words} in {domain}" if domain else words, blame, change, len(others) / 10)


def domain_in_short(decision: FullDecision, node: FullNode, key: str) -> str:
    """Return the domain of a node, such as "zone …1a": without the prefix that all domains share."""
    prefix = shared_prefix([*{each.labels[key] for each in decision.nodes.values() if key in each.labels}])
    return f"{key.rpartition('/')[2]} {'…' if prefix else ''}{node.labels[key].removeprefix(prefix)}"


def repelling(decision: FullDecision, node: FullNode) -> Iterator[tuple[FullPod, tuple[str, FullNode]]]:
    """Yield the pods in the node's domains that anti-affinity, of either pod, separates from this one.

    Each with the topology key, and the node that it is on.
    """
    pod, snapshot = decision.pod, decision.snapshot
    own = affinity_terms(pod)[0]["requiredAntiAffinity"]
    for place in decision.nodes.values():
        for other in place.pods.values():
            theirs = affinity_terms(other)[0]["requiredAntiAffinity"]
            terms = [*(term for term in own if term.selects(other, snapshot)),
                     *(term for term in theirs if term.selects(pod, snapshot))]
            keys = [term.key for term in terms if in_one_domain(place, node, term.key)]
            if other.uid != pod.uid and keys:
                yield other, (keys[0], place)


def in_one_domain(place: FullNode, node: FullNode, key: str) -> bool:
    """Return whether two nodes have the same value of a topology key."""
    return key in node.labels and place.labels.get(key) == node.labels[key]


def affinity(decision: FullDecision, node: FullNode, reason: str) -> Cause:
    """Return the Cause: no pod that affinity requires is in the node's domains."""
    terms = affinity_terms(decision.pod)[0]["requiredAffinity"]
    keys = [*dict.fromkeys(term.key for term in terms)]
    near = ", ".join(f"{key.rpartition('/')[2]} {node.labels.get(key, '(no label)')}" for key in keys)
    blame = [f"label:{key}" for key in keys]
    return Cause(f"no pod that it wants in {near}", blame, "a pod that it wants near {node}", 0.5)


def skew(decision: FullDecision, node: FullNode, reason: str) -> Cause:
    """Return the Cause: the pod would exceed maxSkew in the node's domain."""
    obstacles = Obstacles(decision)
    words = "; ".join(skews(obstacles, node)) or "no label to spread over"
    for _, counts in obstacles.spread:
        shared = shared_prefix([domain for domain in counts if domain])
        words = words.replace(f" {shared}", " …") if shared else words
    blame = [f"label:{constraint.key}" for constraint, _ in obstacles.spread]
    return Cause(words, blame, "a larger maxSkew, or room elsewhere", 0.5)


def shared_prefix(names: list[str]) -> str:
    """Return the longest prefix up to a separator that several names share, such as eu-west- of zones."""
    prefixes = [{name[:separator.end()] for separator in re.finditer("[-._]", name)} for name in names]
    return max(set.intersection(*prefixes), key=len, default="") if len(names) > 1 else ""


def as_given(decision: FullDecision, node: FullNode, reason: str) -> Cause:
    """Return the Cause with the words of the reason."""
    words = shorten(reason.removeprefix("node(s) "), 80)
    return Cause(words, [], f"“{words}” not to hold for {{node}}", math.inf)


CAUSES = {  # reason -> the function that returns its Cause
    UNSCHEDULABLE: cordon,
    TOO_MANY_PODS: too_many_pods,
    TAINTS_136: taints,
    OTHER_LABELS: labels,
    OTHER_LABELS_136: labels,
    PORTS_TAKEN: ports,
    OWN_ANTI_AFFINITY: anti_affinity,
    ANTI_AFFINITY_OF_OTHERS: anti_affinity,
    NO_AFFINITY: affinity,
    TOO_SKEWED: skew,
    NO_TOPOLOGY_LABEL: skew}
VARIABLE = {insufficient(""): lack, TAINT: taints}  # beginning of a reason -> such a function


def function_for(reason: str) -> Callable[..., Cause]:
    """Return the function that returns the Cause of a reason."""
    variable = next((find for beginning, find in VARIABLE.items() if reason.startswith(beginning)), as_given)
    return CAUSES.get(reason, variable)


def names_of(pods: list[FullPod]) -> str:
    """Return the names of the first two pods, and the number of others."""
    others = f" and {len(pods) - 2} more" if pods[2:] else ""
    return ", ".join(pod.key.removeprefix("default/") for pod in pods[:2]) + others


def requests_of(pods: list[FullPod]) -> collections.Counter[str]:
    """Return what these pods request together."""
    total: collections.Counter[str] = collections.Counter()
    for pod in pods:
        total.update(pod.requests)
    return total


def pods_to_blame(pods: list[FullPod]) -> list[str]:
    """Return the entries of `blame` for these pods."""
    return [f"pod:{pod.key}" for pod in pods]
