"""The plugins of kube-scheduler 1.36: their extension points, default weights, and rules here.

config_file.py, validation.py and schema.py use it.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from scheduler_extras.deciding.extension_points import EXTENSION_POINTS
from scheduler_extras.deciding.rule import PREDICATES, PRIORITIES
from scheduler_extras.reading.fields import JsonObject
from scheduler_extras.rules import PLUGIN_ORDER


PLUGIN_POINTS = {  # kube-scheduler's own plugin -> its extension points. Upstream: framework/plugins/names.
    "PrioritySort": "queueSort", "SchedulingGates": "preEnqueue", "DefaultBinder": "bind",
    **dict.fromkeys(["NodeUnschedulable", "NodeName"], "filter"),
    **dict.fromkeys(["NodePorts", "VolumeRestrictions", "NodeVolumeLimits", "VolumeZone",
                     "NodeDeclaredFeatures"], "preFilter filter"),
    **dict.fromkeys(["NodeAffinity", "PodTopologySpread", "InterPodAffinity"],
                    "preFilter filter preScore score"),
    "NodeResourcesFit": "preFilter filter preScore score placementScore",
    "VolumeBinding": "preFilter filter preScore score reserve preBind",
    "TaintToleration": "filter preScore score", "ImageLocality": "score",
    "NodeResourcesBalancedAllocation": "preScore score",
    "DefaultPreemption": "preEnqueue postFilter",
    "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
    "GangScheduling": "preEnqueue reserve permit",
    "PodGroupPodsCount": "placementScore", "TopologyPlacementGenerator": "placementGenerate"}
BUILT_IN = ["PrioritySort", "SchedulingGates", "DefaultBinder"]  # the loop itself does what these do
WITHOUT_EFFECT = PLUGIN_POINTS.keys() - {*PLUGIN_ORDER, *BUILT_IN}
VOLUME_LIMITS = ["EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"]  # removed plugins
REMOVED = [*VOLUME_LIMITS, "NodeLabel", "ServiceAffinity", "NodePreferAvoidPods", "EvenPodsSpreadPriority"]
REPLACED = ["SelectorSpread", "DefaultPodTopologySpread", "NodePreferAvoidPods"]  # by plugins that do more
# Default weights that are no longer 1, or of plugins that do not run by default under a Policy.
WEIGHTS_136 = {"DefaultPreemption": 1, "TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2,
               "InterPodAffinity": 2}
RULE_POINTS = {"predicates": ["preFilter", "filter"], "priorities": ["preScore", "score"]}
HOOK_POINTS: dict[str, str] = {hook: point.in_configuration for hook, point in EXTENSION_POINTS.items()}
POINTS = ["multiPoint", "preFilter", "filter", "preScore", "score", *dict.fromkeys(HOOK_POINTS.values()),
          "placementGenerate", "placementScore"]


class Plugin(NamedTuple):
    """A plugin of a KubeSchedulerConfiguration."""

    rules: list[Any]  # FullRule
    points: list[str]  # the extension points at which it runs
    weight: int  # by default; 0 if it does not run by default


def plugins_of_136() -> dict[str, Plugin]:
    """Return {name: Plugin} in the order in which they run; the user's own rules are plugins, too."""
    found: dict[str, list[Any]] = {name: [] for name in (*PLUGIN_ORDER, *PLUGIN_POINTS)}
    for rule in [*PREDICATES.values(), *PRIORITIES.values()]:
        found.setdefault(rule.plugin, []).append(rule)
    plugins = {}
    for name, rules in found.items():
        if name not in REMOVED:
            rule_points = [RULE_POINTS[rule.where] + [HOOK_POINTS[hook] for hook in rule.hooks]
                           for rule in rules]
            points = PLUGIN_POINTS.get(name, "").split() or [*itertools.chain(*rule_points)]
            weight = max([rule.by_default or rule.always for rule in rules], default=1)
            plugins[name] = Plugin(rules, points, WEIGHTS_136.get(name, weight))
    return plugins


def running_plugins(profile: JsonObject) -> dict[str, dict[str, int]]:
    """Return {point: {plugin: weight}} in running order. Upstream: expandMultiPointPlugins."""
    by_default = {name: plugin.weight for name, plugin in plugins_of_136().items() if plugin.weight}
    running: dict[str, dict[str, int]] = {}
    for point in POINTS:
        chosen = profile.get("plugins", {}).get(point, {})
        enabled = {entry.get("name", ""): entry.get("weight", 0) for entry in chosen.get("enabled", [])}
        disabled = {entry.get("name", "") for entry in chosen.get("disabled", [])}
        anyway = running.get("multiPoint", by_default)
        kept = {name: weight for name, weight in anyway.items() if disabled.isdisjoint([name, "*"])}
        # Plugins that run anyway, and are also enabled at the point itself, come first.
        first = {name: weight for name, weight in enabled.items() if name in kept and point != "multiPoint"}
        running[point] = first | kept | enabled
    return running
