"""The settings of rules that follow from the arguments of plugins (pluginConfig).

config_file.py calls `settings_of`, for arguments that have been checked already.
"""

from __future__ import annotations

from scheduler_extras.configuration.schema import STRATEGIES
from scheduler_extras.deciding.rule import DURING_SCHEDULING, FullRule
from scheduler_extras.reading.fields import JsonObject
from scheduler_extras.rules.spreading import DEFAULT_SPREAD


def settings_of(plugin: str, rules: list[FullRule], args: JsonObject) -> dict[str, JsonObject]:
    """Return {name of a rule: its settings}, of the rules of a plugin that run."""
    if plugin in SETTINGS_BY_RULE:
        return SETTINGS_BY_RULE[plugin](args)
    settings = SETTINGS_OF_ALL_RULES.get(plugin, arguments_of_own_rules)(args)
    return {rule.name: settings for rule in rules}


def node_affinity(args: JsonObject) -> dict[str, JsonObject]:
    """Return the settings of the rules of NodeAffinity."""
    added = args.get("addedAffinity", {})
    required = added.get(f"required{DURING_SCHEDULING}")  # no node matches it without terms
    terms = [] if required is None else required.get("nodeSelectorTerms") or [{}]
    return {"MatchNodeSelector": {"added_terms": terms},
            "NodeAffinityPriority": {"added_terms": added.get(f"preferred{DURING_SCHEDULING}", [])}}


def resources_fit(args: JsonObject) -> dict[str, JsonObject]:
    """Return the settings of the rules of NodeResourcesFit; its strategy means one of several priorities."""
    groups = [f"{group}/" for group in args.get("ignoredResourceGroups", [])]
    strategy = args.get("scoringStrategy", {"type": "LeastAllocated"})
    resources = [each | {"weight": each.get("weight") or 1}
                 for each in strategy.get("resources") or [{"name": "cpu"}, {"name": "memory"}]]
    settings: JsonObject = {"weights": {each.get("name", ""): each["weight"] for each in resources}}
    if strategy["type"] == "RequestedToCapacityRatio":
        settings = {"arguments": [strategy["requestedToCapacityRatio"] | {"resources": resources}]}
    return {"PodFitsResources": {"excepted": args.get("ignoredResources", []) + groups},
            STRATEGIES[strategy["type"]]: settings}


def pod_affinity(args: JsonObject) -> dict[str, JsonObject]:
    """Return the settings of the rules of InterPodAffinity."""
    return {"MatchInterPodAffinity": {}, "InterPodAffinityPriority": {
        "hard_weight": args.get("hardPodAffinityWeight", 1),
        "ignores_others": args.get("ignorePreferredTermsOfExistingPods", False)}}


def spreading(args: JsonObject) -> JsonObject:
    """Return the settings of PodTopologySpread."""
    system = [] if args.get("defaultingType") == "List" else DEFAULT_SPREAD
    return {"default_constraints": args.get("defaultConstraints") or system}


def balanced_allocation(args: JsonObject) -> JsonObject:
    """Return the settings of NodeResourcesBalancedAllocation."""
    names = [resource.get("name", "") for resource in args.get("resources", [])]
    return {"resources": names} if names else {}


def preemption(args: JsonObject) -> JsonObject:
    """Return the settings of DefaultPreemption."""
    fields = {"percentage": "minCandidateNodesPercentage", "absolute": "minCandidateNodesAbsolute"}
    return {name: args[field] for name, field in fields.items() if field in args}


def volume_binding(args: JsonObject) -> JsonObject:
    """Return the settings of VolumeBinding."""
    return {"timeout": args["bindTimeoutSeconds"]} if "bindTimeoutSeconds" in args else {}


def arguments_of_own_rules(args: JsonObject) -> JsonObject:
    """Return the settings of a plugin that is a rule of the user's own."""
    return {"arguments": [args]} if args else {}


SETTINGS_BY_RULE = {  # plugin -> function(its arguments) that returns {name of a rule: its settings}
    "NodeAffinity": node_affinity, "NodeResourcesFit": resources_fit, "InterPodAffinity": pod_affinity}
SETTINGS_OF_ALL_RULES = {  # plugin -> function(its arguments) that returns the settings of each of its rules
    "PodTopologySpread": spreading, "NodeResourcesBalancedAllocation": balanced_allocation,
    "DefaultPreemption": preemption, "VolumeBinding": volume_binding}
