"""Validation of a KubeSchedulerConfiguration, including the arguments of plugins.

config_file.py calls it before it creates profiles.
"""

import collections
from collections.abc import Collection, Iterator
from typing import Any

from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.configuration.plugins import (
    PLUGIN_POINTS,
    REPLACED,
    WITHOUT_EFFECT,
    plugins_of_136,
    running_plugins,
)
from scheduler_extras.configuration.schema import IGNORED_FIELDS, PLUGIN_ARGUMENTS, VOLUME_LIMITS
from scheduler_extras.policy.extenders import extender_problems
from scheduler_extras.reading.fields import JsonObject
from scheduler_extras.reading.hints import REPLACEMENTS, did_you_mean
from scheduler_extras.reading.schemas import decode_part, in_short


# These functions add mistakes that no schema finds to `problems`, and settings without effect to `notices`.
# Upstream: pkg/scheduler/apis/config/validation, and NewFramework in runtime.


FORMER_LOCKS = ["endpoints", "configmaps", "endpointsleases", "configmapsleases"]  # tutorials use them


def changes_since(document: JsonObject) -> Iterator[str]:
    """Yield the changes since the version of a configuration that affect it, except for renamed fields."""
    version = document.get("apiVersion")
    if version != CONFIGURATION_VERSION:
        yield f'apiVersion "{version}": write {CONFIGURATION_VERSION}'
    if str(version).endswith(("v1alpha1", "v1alpha2", "v1beta1", "v1beta2")):
        yield ("the default weight of InterPodAffinity and NodeAffinity is now 2, of TaintToleration 3 (each "
               "was 1), and the annotation preferAvoidPods has no effect")


def check_configuration(body: JsonObject, notices: list[str], problems: list[str]) -> None:
    """Check a configuration whose fields have the right types; decode the arguments of plugins, in place."""
    problems += extender_problems(body.get("extenders", []))
    if body.get("podInitialBackoffSeconds", 1) > body.get("podMaxBackoffSeconds", 10):
        problems.append("expected 0 < podInitialBackoffSeconds <= podMaxBackoffSeconds")
    election = body.get("leaderElection", {})
    lock = election.get("resourceLock") or "leases"
    if lock in FORMER_LOCKS:
        notices.append("leaderElection.resourceLock: only leases are supported now, and used here")
    elif lock != "leases" and election.get("leaderElect", True):
        problems.append(f"leaderElection.resourceLock: expected leases, got {in_short(lock)}")
    profiles = body["profiles"]
    ignored = [name for part in (body, *profiles) for name in IGNORED_FIELDS if name in part]
    if ignored:
        notices.append(f"no effect here: {', '.join(dict.fromkeys(ignored))}")
    for i, profile in enumerate(profiles):
        decode_arguments(profile.get("pluginConfig", []), f"profiles[{i}].pluginConfig", notices, problems)
    problems += profile_problems(profiles)
    check_plugins(profiles, notices, problems)


NEEDED_BEFORE = {  # point -> the point before it, and the plugins that fail every pod unless they run there
    "filter": ("preFilter", [
        "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "VolumeBinding", "PodTopologySpread",
        "InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"]),
    "score": ("preScore", ["TaintToleration", "PodTopologySpread", "InterPodAffinity"])}


def missing_points(profile: JsonObject) -> Iterator[str]:
    """Yield a mistake for each plugin that runs at a point, but not at the one before it, which it needs."""
    for point, (before, plugins) in NEEDED_BEFORE.items():
        there, prepared = plugins_at(point, profile), plugins_at(before, profile)
        for name in plugins:
            if name in there and name not in prepared:
                yield (f"{before}: {name} is disabled there and still runs at {point}: kube-scheduler fails "
                       f"every pod then; disable it at {point}, too")


def profile_problems(profiles: list[JsonObject]) -> Iterator[str]:
    """Yield the mistakes in profiles, apart from those in their lists of plugins."""
    names = [profile.get("schedulerName", "") for profile in profiles]
    for i, profile in enumerate(profiles):
        place = f"profiles[{i}]"
        if not names[i] or names[i] in names[:i]:
            yield f"{place}.schedulerName: each profile needs its own"
        if queue_sort_of(profile) != queue_sort_of(profiles[0]):
            yield f"{place}.plugins.queueSort: must be the same as in profiles[0], including args"
        sorting = plugins_at("queueSort", profile)
        if len(sorting) != 1:
            yield f"{place}.plugins.queueSort: expected one plugin, got {', '.join(sorting) or 'none'}"
        for problem in missing_points(profile):
            yield f"{place}.plugins.{problem}"
        if not plugins_at("bind", profile):
            yield f"{place}.plugins.bind: expected one plugin, got none"


def plugins_at(point: str, profile: JsonObject) -> list[str]:
    """Return the names of the plugins that a profile runs at a point."""
    known = plugins_of_136()
    return [name for name in running_plugins(profile)[point] if name in known and point in known[name].points]


def queue_sort_of(profile: JsonObject) -> tuple[Any, ...]:
    """Return a profile's settings for the order of the queue, which must be the same in all profiles."""
    chosen = profile.get("plugins", {}).get("queueSort", {})
    disabled = [entry.get("name") for entry in chosen.get("disabled", [])]
    sorting = plugins_at("queueSort", profile)
    args = [config for config in profile.get("pluginConfig", []) if config.get("name") in sorting]
    return chosen.get("enabled", []), disabled, sorting, args


def check_plugins(profiles: list[JsonObject], notices: list[str], problems: list[str]) -> None:
    """Check the names of plugins. Unknown ones share a line, because most belong to one other scheduler."""
    known = plugins_of_136()
    unknown: dict[str, dict[str, str]] = collections.defaultdict(dict)  # hint -> {plugin: its first place}
    for where, point, name, before in entries_of(profiles, "enabled"):
        if not name:
            problems.append(f"{where}.name: is missing")
        elif name not in known:
            fitting = [each for each in known if point in ("multiPoint", *known[each].points)]
            unknown[hint_at_plugin(name, fitting)].setdefault(f'"{name}"', where)
        elif point not in ("multiPoint", *known[name].points):
            points = ", ".join(known[name].points)
            problems.append(f'{where}: plugin "{name}" does not implement {point}, only {points}')
        elif name in before:
            problems.append(f'{where}: plugin "{name}" is already enabled there')
        elif name in WITHOUT_EFFECT:
            notices.append(f"{where}: {name} has no effect here")
    for hint, places in unknown.items():
        where, *others = places.values()
        problems.append(f"{where}: unknown plugin{'s' if others else ''} {', '.join(places)}{hint}")
    for where, _, name, _ in entries_of(profiles, "disabled"):
        if name not in known and name != "*":
            hint = "; leave it out" if name in REPLACED else hint_at_plugin(name, known, "")
            notices.append(f'{where}: there is no plugin "{name}"{hint}')


def entries_of(profiles: list[JsonObject], part: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield (place, extension point, name, names before it) of each entry in enabled, or in disabled."""
    for i, profile in enumerate(profiles):
        for point, chosen in profile.get("plugins", {}).items():
            names = [entry.get("name", "") for entry in chosen.get(part, [])]
            for k, name in enumerate(names):
                yield f"profiles[{i}].plugins.{point}.{part}[{k}]", point, name, names[:k]


def hint_at_plugin(name: str, choice: Collection[str], *otherwise: str) -> str:
    """Return a hint for an unknown name of a plugin: see `did_you_mean`."""
    plugin_of = {rule.name: plugin for plugin, known in plugins_of_136().items() for rule in known.rules}
    plugin_of["MostRequestedPriority"] = "NodeResourcesMostAllocated"  # NodeResourcesFit would spread pods
    meant = name if name in REPLACEMENTS else plugin_of.get(name, name)
    return did_you_mean(meant, choice, *otherwise)


def decode_arguments(
    configs: list[JsonObject], place: str, notices: list[str], problems: list[str]
) -> None:
    """Decode the arguments of a profile's plugins, in place."""
    schemas = {name: rule.argument for name, plugin in plugins_of_136().items()
               for rule in plugin.rules if rule.argument} | PLUGIN_ARGUMENTS
    names = [config.setdefault("name", "") for config in configs]
    for i, config in enumerate(configs):
        where = f"{place}[{i}]"
        name = names[i]
        args = config.get("args", {})
        if not name:
            problems.append(f"{where}.name: is missing")
        elif name in VOLUME_LIMITS:
            problems.append(f'{where}: unknown plugin "{name}"{hint_at_plugin(name, ())}')
        elif name in names[:i]:
            problems.append(f'{where}: duplicate arguments for "{name}"')
        for part, expected in {"kind": f"{name}Args", "apiVersion": CONFIGURATION_VERSION}.items():
            given = args.pop(part, None) or expected
            if name in PLUGIN_ARGUMENTS and given != expected:
                problems.append(f"{where}.args.{part}: expected {expected}, got {in_short(given)}")
        if args and (name not in schemas or name in WITHOUT_EFFECT):
            hint = hint_at_plugin(name, schemas, "") if name not in PLUGIN_POINTS else ""
            notices.append(f"{where}.args: the arguments of {name} have no effect here{hint}")
        config["args"] = decode_part(args, schemas.get(name, dict), f"{where}.args", problems)
