"""The fields of a KubeSchedulerConfiguration, and the arguments of its plugins.

config_file.py and validation.py use these tables.
"""

import decimal
import re
from collections.abc import Iterable
from typing import Any

from scheduler_extras.common.election_defaults import ELECTION
from scheduler_extras.configuration.plugins import POINTS, VOLUME_LIMITS
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.policy.extenders import EXTENDER, FILTERED
from scheduler_extras.reading.fields import JsonObject
from scheduler_extras.reading.hints import REPLACEMENTS
from scheduler_extras.reading.label_selectors import OPERATORS
from scheduler_extras.reading.label_syntax import NAME
from scheduler_extras.reading.node_affinity import is_valid_term
from scheduler_extras.reading.schemas import Form, Schema
from scheduler_extras.rules.resources import SHAPE, WEIGHT, shape_problems


REPLACEMENTS.update({
    "Coscheduling":
        "use the rule Coscheduling of scheduler_extras/examples/tutorial_rules.py, a file for --plugins",
    "NodeResourcesLeastAllocated": "use NodeResourcesFit (in a Policy: LeastRequestedPriority)",
    "NodeResourcesMostAllocated":
        "use NodeResourcesFit with scoringStrategy.type MostAllocated (in a Policy: MostRequestedPriority)",
    **dict.fromkeys(
        ["SelectorSpread", "DefaultPodTopologySpread"],
        "use PodTopologySpread with its default constraints (in a Policy: SelectorSpreadPriority)"),
    **dict.fromkeys(VOLUME_LIMITS,
                    "leave it out, NodeVolumeLimits replaces it (in a Policy: MaxCSIVolumeCountPred)"),
    "NodePreferAvoidPods": "use TaintToleration, and taints on the nodes",
    **dict.fromkeys(["NodeResourceLimits", "healthzBindAddress", "metricsBindAddress", "disablePreemption",
                     "failureDomains"], "leave it out"),
    "unreserve": "use reserve", "enableHttps": "use enableHTTPS",
    "algorithmSource": "leave it out for DefaultProvider; for a Policy, use --policy with its file",
    "extenders": "use extenders beside profiles, for all profiles",
    **{part: f"use multiPoint.{part}, or that of another extension point"
       for part in ("enabled", "disabled")},
    "resources": "use scoringStrategy.resources (in a Policy: within requestedToCapacityRatioArguments)",
    "shape": "use requestedToCapacityRatio.shape in scoringStrategy "
             "(in a Policy: within requestedToCapacityRatioArguments)",
    "bindTimeoutSeconds": "use bindTimeoutSeconds in the args of VolumeBinding (in a Policy: leave it out)",
    "lockObjectName": "use resourceName", "lockObjectNamespace": "use resourceNamespace",
    "schedulerName":
        "use profiles[0].schedulerName, or --scheduler-name (in a Policy: only --scheduler-name)",
    **{part: f"use profiles[0].{part} (in a Policy: predicates and priorities)"
       for part in ("plugins", "pluginConfig")},
    "hardPodAffinitySymmetricWeight": "use hardPodAffinityWeight in the args of InterPodAffinity"})
IN_A_POLICY = re.compile(r" \(in a Policy.*\)$")  # the part of these hints that a configuration leaves out
STRATEGIES = {"LeastAllocated": "LeastRequestedPriority", "MostAllocated": "MostRequestedPriority",
              "RequestedToCapacityRatio": "RequestedToCapacityRatio"}  # of NodeResourcesFit -> the priority


def duration(text: Any) -> int | None:
    """Return a duration such as 15s, 1m30s or .5h in nanoseconds; None if it is invalid or negative."""
    units = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9,
             "h": 3600 * 10**9}
    number = r"([0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,20})"
    part = f"{number}({'|'.join(units)})"
    if not isinstance(text, str) or not re.fullmatch(rf"\+?(0|({part})+)", text):  # 0 alone needs no unit
        return None
    total = sum(int(decimal.Decimal(count) * units[unit]) for count, unit in re.findall(part, text))
    return total if total < 2**63 else None


def election_times(election: JsonObject) -> dict[str, float]:
    """Return the durations of leader election in seconds."""
    return {name: (duration(election.get(name, "0")) or 0) / 10**9 or default
            for name, default in ELECTION.items()}


def leaves_time(election: JsonObject) -> bool:
    """Return whether a leader has time to renew its Lease, even if JitterFactor makes its pauses longer."""
    lease, renew, retry = [round(seconds * 10**9) for seconds in election_times(election).values()]
    is_elected = election.get("leaderElect", True)  # upstream's default
    return lease > renew > int(1.2 * retry) or not is_elected


def is_strategy(strategy: JsonObject) -> bool:
    """Return whether a scoringStrategy has what its type needs. Upstream: ValidateNodeResourcesFitArgs."""
    if strategy.get("type") != "RequestedToCapacityRatio":
        return "type" in strategy and "requestedToCapacityRatio" not in strategy
    return not any(shape_problems([strategy.get("requestedToCapacityRatio", {})]))


def all_differ(things: Iterable[JsonObject], *fields: str) -> bool:
    """Return whether any two of the things differ in at least one of these fields."""
    kinds = [tuple(obj.get(name) for name in fields) for obj in things]
    return len(kinds) == len(set(kinds))


FILTERED_136 = FILTERED | {"FailedAndUnresolvableNodes": dict}  # whose reasons count before FailedNodes'
IGNORED_FIELDS: dict[str, Schema] = {  # nothing here depends on them
    "clientConnection": {"kubeconfig": str, "acceptContentTypes": str, "contentType": str, "qps": float,
                         "burst": range(2**31)},
    "parallelism": range(1, 2**31), "enableProfiling": bool, "enableContentionProfiling": bool,
    "delayCacheUntilActive": bool, "percentageOfNodesToScore": range(101)}
DURATION = Form('a duration, such as "30s"', lambda value: duration(value) is not None, None)
CONFIGURATION = IGNORED_FIELDS | {
    "kind": str, "apiVersion": str,
    "podInitialBackoffSeconds": range(1, 2**63), "podMaxBackoffSeconds": range(1, 2**63),
    "profiles": [{
        "schedulerName": str, "percentageOfNodesToScore": range(101),
        "pluginConfig": [{"name": str, "args": dict}],
        "plugins": {point: {part: [{"name": str, "weight": range(2**31)}] for part in ("enabled", "disabled")}
                    for point in POINTS}}],
    "leaderElection": Form("leaseDuration > renewDeadline > 1.2 x retryPeriod", leaves_time, {
        "leaderElect": bool, **dict.fromkeys(ELECTION, DURATION),
        "resourceLock": str, "resourceName": str, "resourceNamespace": str}),
    "extenders": [EXTENDER | {"httpTimeout": DURATION}]}
EXPRESSION = {"operator": {*OPERATORS}, "values": [str]}
NODE_SELECTOR_TERM = Form(
    "a term of node affinity", lambda term: is_valid_term(term) or not any(term.values()),
    {"matchExpressions": [Form("a key", lambda expression: "key" in expression, EXPRESSION | {"key": NAME})],
     "matchFields": [EXPRESSION | {"key": str}]})
SPREAD_CONSTRAINT = {
    "maxSkew": WEIGHT, "topologyKey": NAME, "whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"},
    "minDomains": WEIGHT, "matchLabelKeys": [str],
    "nodeAffinityPolicy": {"Honor", "Ignore"}, "nodeTaintsPolicy": {"Honor", "Ignore"}}
PLUGIN_ARGUMENTS: dict[str, Schema] = {  # some have no effect here. Upstream: validation_pluginargs.go
    "NodeAffinity": {"addedAffinity": {
        f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [NODE_SELECTOR_TERM]},
        f"preferred{DURING_SCHEDULING}": [{"weight": range(2**31), "preference": NODE_SELECTOR_TERM}]}},
    "NodeResourcesFit": {
        "ignoredResources": [NAME],
        "ignoredResourceGroups": [
            Form("a group, such as example.com", lambda name: "/" not in name, NAME)],
        "scoringStrategy": Form(
            "a type, and only for RequestedToCapacityRatio a shape, of ascending utilization", is_strategy, {
                "type": {*STRATEGIES}, "resources": [{"name": str, "weight": range(101)}],
                "requestedToCapacityRatio": {"shape": SHAPE}})},
    "InterPodAffinity": {"hardPodAffinityWeight": range(101), "ignorePreferredTermsOfExistingPods": bool},
    "PodTopologySpread": Form(
        "defaultingType List, because there are defaultConstraints",
        lambda args: args.get("defaultingType") == "List" or not args.get("defaultConstraints"), {
            "defaultingType": {"List", "System"},
            "defaultConstraints": Form(
                "each pair of topologyKey and whenUnsatisfiable only once",
                lambda constraints: all_differ(constraints, "topologyKey", "whenUnsatisfiable"),
                [Form("maxSkew, topologyKey and whenUnsatisfiable",
                      {"maxSkew", "topologyKey", "whenUnsatisfiable"}.issubset, SPREAD_CONSTRAINT)])}),
    "NodeResourcesBalancedAllocation": {"resources": Form(
        "each resource only once", lambda resources: all_differ(resources, "name"),
        [{"name": str, "weight": range(2)}])},
    "VolumeBinding": {
        "bindTimeoutSeconds": range(2**63),
        "shape": Form("nothing, because the feature gate StorageCapacityScoring is off by default",
                      lambda value: False, None)},
    "DefaultPreemption": Form(
        "minCandidateNodesPercentage or minCandidateNodesAbsolute above 0",
        lambda args: len(args) < 2 or any(args.values()),
        {"minCandidateNodesPercentage": range(101), "minCandidateNodesAbsolute": range(2**31)}),
    "DynamicResources": {"filterTimeout": DURATION, "bindingTimeout": Form(
        "a duration of at least 1s", lambda value: (duration(value) or 0) >= 10**9, None)}}
