"""The rules of scheduler.py, registered with more options.

Edits of these rules in scheduler.py also work here, except for PodFitsHostPorts and NoDiskConflict.
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Iterable

import scheduler
from scheduler import untolerated_taints
from scheduler_extras.common.blame import note_rule
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.deciding.rule import CATALOGUES, any_pod, full_rule
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.affinity_terms import has_required_affinity


# Reasons of the rules in scheduler.py, and what 1.36 says instead.
UNSCHEDULABLE = "node(s) were unschedulable"
TOO_MANY_PODS = "Too many pods"
OTHER_LABELS = "node(s) didn't match Pod's node affinity"
OTHER_LABELS_136 = f"{OTHER_LABELS}/selector"
TAINT = "node(s) had taint {"  # the taint follows
TAINTS_136 = "node(s) had untolerated taint(s)"
OWN_VERSIONS = {"PodFitsHostPorts", "NoDiskConflict"}  # ports.py and disks.py have faster ones
OF_THE_SCRIPT = {"predicates": scheduler.PREDICATES, "priorities": scheduler.PRIORITIES}
# Name of a rule of the script -> its function. A rule that is edited or deleted there changes here, too.
IN_THE_SCRIPT = {rule.name: rule.function for rules in OF_THE_SCRIPT.values() for rule in rules.values()
                 if rule.name not in OWN_VERSIONS}
GENERAL = {"by_default": 1, "aliases": ["GeneralPredicates"]}


def pod_fits_other_resources(pod: FullPod, node: FullNode, excepted: Iterable[str] = ()) -> Iterable[str]:
    """PodFitsResources, except for the resources that only extenders check."""
    reasons = IN_THE_SCRIPT["PodFitsResources"](pod, node)
    if not excepted:
        return reasons
    return [reason for reason in reasons if reason not in map(insufficient, excepted)]


# A mistake in the rule is then reported with its place in scheduler.py.
pod_fits_other_resources.__signature__ = inspect.signature(  # type: ignore[attr-defined]
    pod_fits_other_resources)
pod_fits_other_resources.__wrapped__ = IN_THE_SCRIPT.get(  # type: ignore[attr-defined]
    "PodFitsResources")


def insufficient(resource: str) -> str:
    """Return the reason against a node that has too little of a resource."""
    return f"Insufficient {resource}"


def random_priority(pod: FullPod, node: FullNode) -> int:
    """RandomPriority; with --seed, a pod always gives a node the same score."""
    if CHANCE.seed is not None:
        random.seed(f"{CHANCE.seed} {pod.key} {node.name}")
    return IN_THE_SCRIPT["RandomPriority"](pod, node)


random_priority.__wrapped__ = IN_THE_SCRIPT.get("RandomPriority")  # type: ignore[attr-defined]


# A rule is steady if it always gives the same answer when it reads the same values. If you edit one so that
# its answer depends on chance, the clock, a file or state of its own, add "steady": False here, so that it is
# called each time. If another pod on a node may then make a pod fit there, add "helped_by_pods": any_pod.
# A rule of the script that is not listed here does not count as steady.
OPTIONS_OF_SCRIPT_RULES: dict[str, dict] = {
    "CheckNodeUnschedulable": {"plugin": "NodeUnschedulable", "always": True, "unresolvable": True},
    "HostName": {"plugin": "NodeName", "unresolvable": True, **GENERAL},
    "MatchNodeSelector": {
        "plugin": "NodeAffinity", "unresolvable": True, **GENERAL,
        "pod_requirements": {"a node selector": lambda pod, node: pod.node_selector,
                     "required node affinity": functools.partial(has_required_affinity, "nodeAffinity")}},
    "PodFitsResources": {
        "function": pod_fits_other_resources, "plugin": "NodeResourcesFit", **GENERAL,
        "pod_requirements": {"resource requests": lambda pod, node: any(pod.requests.values())}},
    "PodToleratesNodeTaints": {
        "plugin": "TaintToleration", "always": True, "unresolvable": True,
        "pod_requirements": {
            "no toleration for taints there": lambda pod, node: node and untolerated_taints(pod, node)}},
    "LeastRequestedPriority": {"plugin": "NodeResourcesFit", "by_default": 1},
    "MostRequestedPriority": {"plugin": "NodeResourcesFit"},
    "RandomPriority": {"function": random_priority, "steady": False},
    "BalancedResourceAllocation": {"plugin": "NodeResourcesBalancedAllocation", "by_default": 1},
    "NodeAffinityPriority": {"plugin": "NodeAffinity", "by_default": 1},
    "TaintTolerationPriority": {"plugin": "TaintToleration", "by_default": 1}}


for where, rules in OF_THE_SCRIPT.items():
    for rule in [rule for rule in rules.values() if rule.name in IN_THE_SCRIPT]:
        options_here = OPTIONS_OF_SCRIPT_RULES.get(rule.name, {"steady": False, "helped_by_pods": any_pod})
        options = {"function": rule.function, "reduce": rule.reduce, "steady": True} | options_here
        CATALOGUES[where][rule.name] = full_rule(where, rule.name, **options)
        note_rule(rule.name, [rule.function])

