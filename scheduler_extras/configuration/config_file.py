"""Reading a KubeSchedulerConfiguration: each of its profiles becomes a Policy.

policy/policy_file.py calls it, through READERS, for files of that kind.
"""

import functools
from dataclasses import replace

from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.configuration.overrides.registry import OVERRIDES
from scheduler_extras.configuration.plugins import HOOK_POINTS, PLUGIN_POINTS, plugins_of_136, running_plugins
from scheduler_extras.configuration.profile import Profile
from scheduler_extras.configuration.schema import (
    CONFIGURATION,
    FILTERED_136,
    IN_A_POLICY,
    duration,
    election_times,
)
from scheduler_extras.configuration.settings import settings_of
from scheduler_extras.configuration.validation import changes_since, check_configuration
from scheduler_extras.deciding.rule import PREDICATES, PRIORITIES, FullRule
from scheduler_extras.policy.extenders import extenders_of, left_to_extenders
from scheduler_extras.policy.policy_file import READERS
from scheduler_extras.policy.policy_reader import ACCEPTED, set_up
from scheduler_extras.reading.fields import JsonObject
from scheduler_extras.reading.schemas import decode_part, refuse


def read_configuration(document: JsonObject, scheduler_name: str) -> dict[str, Profile]:
    """Return {schedulerName: Profile}. A single profile without a name gets this one. Raises InputError."""
    problems = [*changes_since(document)]
    notices: list[str] = []
    body = decode_part(document, CONFIGURATION, "", problems)
    body["profiles"] = body.get("profiles") or [{}]
    if len(body["profiles"]) == 1:
        body["profiles"][0].setdefault("schedulerName", scheduler_name)
    check_configuration(body, notices, problems)
    refuse([IN_A_POLICY.sub("", problem) for problem in problems])
    configs = body.get("extenders", [])
    for config in configs:  # an Extender expects nanoseconds
        config["httpTimeout"] = duration(config.get("httpTimeout", "0"))
    election = body.get("leaderElection", {})
    shared_fields = {
        "extenders": extenders_of(configs, FILTERED_136),
        "election": election | election_times(election),
        "initial_backoff": body.get("podInitialBackoffSeconds", 1),
        "max_backoff": body.get("podMaxBackoffSeconds", 10),
        "notices": [IN_A_POLICY.sub("", notice) for notice in notices]}
    left_out = left_to_extenders(configs)
    return {profile["schedulerName"]: read_profile(profile, f"profiles[{i}]", left_out, shared_fields)
            for i, profile in enumerate(body["profiles"])}


def read_profile(profile: JsonObject, place: str, left_out: list[str], shared_fields: JsonObject) -> Profile:
    """Return a Profile with the rules of the plugins that run. The fields have been checked already.

    left_out: resources that extenders manage. shared_fields: those that all profiles have.
    """
    arguments = {config["name"]: config["args"] for config in profile.get("pluginConfig", [])}
    if left_out:  # upstream: buildExtenders
        arguments.setdefault("NodeResourcesFit", {})["ignoredResources"] = left_out
    running = running_plugins(profile)
    rules_at = functools.partial(rules_that_run, place=place, running=running, arguments=arguments)
    predicates = rules_at("filter", PREDICATES)
    priorities = rules_at("score", PRIORITIES)
    own = {name: rule for name, rule in (PRIORITIES | PREDICATES).items()
           if rule.plugin not in WITH_RULES and name not in predicates | priorities}
    others: dict[str, FullRule] = {}  # they neither filter nor score in this profile
    for point in HOOK_POINTS.values():
        others |= rules_at(point, own)
    with_hooks = [rule for rule in others.values() if rule.hooks]
    made = Profile([*predicates.values()], [*priorities.values()], others=with_hooks, **shared_fields)
    made.deallocates = "DynamicResources" in running["postFilter"]
    return made


def rules_that_run(point: str, catalogue: dict[str, FullRule], place: str, running: dict[str, dict[str, int]],
                   arguments: dict[str, JsonObject]) -> dict[str, FullRule]:
    """Return {name: rule} of the plugins that run at a point, with those of their hooks that run.

    place: the path of the profile. arguments: {plugin: its arguments}.
    """
    known = plugins_of_136()
    rules = {}
    weights = {name: weight for name, weight in running[point].items() if point in known[name].points}
    for plugin, weight in weights.items():
        args = arguments.get(plugin, {})
        for name, settings in settings_of(plugin, known[plugin].rules, args).items():
            if name in catalogue:
                rule = replace(catalogue[name], **OVERRIDES.get(name, {}))
                hooks = {hook: function for hook, function in rule.hooks.items()
                         if plugin in running[HOOK_POINTS[hook]]}
                entry = f"{place}.plugins.{point}: {plugin}"
                rules[name] = set_up(replace(rule, hooks=hooks), plugin, entry, weight or 1, settings)
    return rules


WITH_RULES = {name for name, points in PLUGIN_POINTS.items() if {"filter", "score"} & {*points.split()}}


READERS["KubeSchedulerConfiguration"] = read_configuration
ACCEPTED.append(f"kind KubeSchedulerConfiguration with apiVersion {CONFIGURATION_VERSION}")
