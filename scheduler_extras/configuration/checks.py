"""What kube-scheduler refuses in a KubeSchedulerConfiguration; a plugin's arguments are checked here.

reading.py calls it before it makes a profile.
"""

import collections

from scheduler_extras.configuration.fields import (
    EXTENDS, PLUGIN_ARGUMENTS, READ_OVER, REPLACED, VOLUME_LIMITS, WITHOUT_EFFECT, plugins_of_136,
    running_plugins
)
from scheduler_extras.policy.extenders import extender_problems
from scheduler_extras.policy.policy import CONFIGURATION_VERSION
from scheduler_extras.reading.hints import NAMES_OF_OLD, did_you_mean
from scheduler_extras.reading.schemas import decode_part, in_short


# What it refuses, and the schemas do not, is added to `problems`; what is said without effect, to `notices`.
# Upstream: pkg/scheduler/apis/config/validation, and NewFramework in runtime.


LOCKS_OF_OLD = ["endpoints", "configmaps", "endpointsleases", "configmapsleases"]  # tutorials print them


def changes_since(document):
    """Yield what is different in a configuration of an older version, besides names unknown today."""
    version = document.get("apiVersion")
    if version != CONFIGURATION_VERSION:
        yield f'apiVersion "{version}": write {CONFIGURATION_VERSION}'
    if str(version).endswith(("v1alpha1", "v1alpha2", "v1beta1", "v1beta2")):
        yield ("by default InterPodAffinity and NodeAffinity weigh 2 today, TaintToleration 3 (each was 1), "
               "and nobody heeds the annotation preferAvoidPods")


def check_configuration(body, notices, problems):
    """Check all of a configuration that is of the right types; decode the arguments of plugins, in place."""
    problems += extender_problems(body.get("extenders", []))
    if body.get("podInitialBackoffSeconds", 1) > body.get("podMaxBackoffSeconds", 10):
        problems.append("expected 0 < podInitialBackoffSeconds <= podMaxBackoffSeconds")
    election = body.get("leaderElection", {})
    lock = election.get("resourceLock") or "leases"
    if lock in LOCKS_OF_OLD:
        notices.append("leaderElection.resourceLock: today only leases lock, and they do here")
    elif lock != "leases" and election.get("leaderElect", True):
        problems.append(f"leaderElection.resourceLock: expected leases, got {in_short(lock)}")
    profiles = body["profiles"]
    read_over = [name for said in (body, *profiles) for name in READ_OVER if name in said]
    if read_over:
        notices.append(f"nothing here depends on {', '.join(dict.fromkeys(read_over))}")
    for i, profile in enumerate(profiles):
        decode_arguments(profile.get("pluginConfig", []), f"profiles[{i}].pluginConfig", notices, problems)
    problems += profile_problems(profiles)
    check_plugins(profiles, notices, problems)


def profile_problems(profiles):
    """Yield what is wrong with profiles besides their single plugins."""
    names = [profile.get("schedulerName", "") for profile in profiles]
    for i, profile in enumerate(profiles):
        place = f"profiles[{i}]"
        if not names[i] or names[i] in names[:i]:
            yield f"{place}.schedulerName: each profile needs one of its own"
        if queue_sort_of(profile) != queue_sort_of(profiles[0]):
            yield f"{place}.plugins.queueSort: must be as in profiles[0], with its args"
        sorting = plugins_at("queueSort", profile)
        if len(sorting) != 1:
            yield f"{place}.plugins.queueSort: expected one plugin, got {', '.join(sorting) or 'none'}"
        if not plugins_at("bind", profile):
            yield f"{place}.plugins.bind: expected one plugin, got none"


def plugins_at(point, profile):
    """Return the names of the plugins that a profile runs at a point."""
    known = plugins_of_136()
    return [name for name in running_plugins(profile)[point] if name in known and point in known[name].points]


def queue_sort_of(profile):
    """Return what a profile says of the order of the queue, which is one for all profiles."""
    chosen = profile.get("plugins", {}).get("queueSort", {})
    disabled = [entry.get("name") for entry in chosen.get("disabled", [])]
    sorting = plugins_at("queueSort", profile)
    args = [config for config in profile.get("pluginConfig", []) if config.get("name") in sorting]
    return chosen.get("enabled", []), disabled, sorting, args


def check_plugins(profiles, notices, problems):
    """Check the names of plugins. Unknown ones share a line, as they mostly belong to one other scheduler."""
    known = plugins_of_136()
    unknown = collections.defaultdict(dict)  # what may be meant -> {plugin: where it comes first}
    for where, point, name, before in entries_of(profiles, "enabled"):
        if not name:
            problems.append(f"{where}.name: is missing")
        elif name not in known:
            fitting = [each for each in known if point in ("multiPoint", *known[each].points)]
            unknown[hint_at_plugin(name, fitting)].setdefault(f'"{name}"', where)
        elif point not in ("multiPoint", *known[name].points):
            points = ", ".join(known[name].points)
            problems.append(f'{where}: plugin "{name}" does not {point}, but {points}')
        elif name in before:
            problems.append(f'{where}: plugin "{name}" is enabled there already')
        elif name in WITHOUT_EFFECT:
            notices.append(f"{where}: {name} does nothing here")
    for hint, places in unknown.items():
        where, *others = places.values()
        problems.append(f"{where}: unknown plugin{'s' if others else ''} {', '.join(places)}{hint}")
    for where, _, name, _ in entries_of(profiles, "disabled"):
        if name not in known and name != "*":
            hint = "; leave it out" if name in REPLACED else hint_at_plugin(name, known, "")
            notices.append(f'{where}: there is no plugin "{name}"{hint}')


def entries_of(profiles, part):
    """Yield (where it is, extension point, name, names before it) of what is enabled, or disabled."""
    for i, profile in enumerate(profiles):
        for point, chosen in profile.get("plugins", {}).items():
            names = [entry.get("name", "") for entry in chosen.get(part, [])]
            for k, name in enumerate(names):
                yield f"profiles[{i}].plugins.{point}.{part}[{k}]", point, name, names[:k]


def hint_at_plugin(name, choice, *otherwise):
    """Return a hint at what plugin is meant by a name that none has: see `did_you_mean`."""
    plugin_of = {rule.name: plugin for plugin, known in plugins_of_136().items() for rule in known.rules}
    plugin_of["MostRequestedPriority"] = "NodeResourcesMostAllocated"  # else pods would be spread
    meant = name if name in NAMES_OF_OLD else plugin_of.get(name, name)
    return did_you_mean(meant, choice, *otherwise)


def decode_arguments(configs, place, notices, problems):
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
            problems.append(f'{where}: there are arguments for "{name}" already')
        for part, expected in {"kind": f"{name}Args", "apiVersion": CONFIGURATION_VERSION}.items():
            said = args.pop(part, None) or expected
            if name in PLUGIN_ARGUMENTS and said != expected:
                problems.append(f"{where}.args.{part}: expected {expected}, got {in_short(said)}")
        if args and (name not in schemas or name in WITHOUT_EFFECT):
            hint = hint_at_plugin(name, schemas, "") if name not in EXTENDS else ""
            notices.append(f"{where}.args: nothing here depends on the arguments of {name}{hint}")
        config["args"] = decode_part(args, schemas.get(name, dict), f"{where}.args", problems)
