"""Hints about names and versions in a KubeSchedulerConfiguration, and the result of following them."""

import re

import pytest

import helpers.tutorial  # noqa: F401 (registers the rules of the example)
from helpers.configuration import FILTERS, SCORES, configuration, load, plugins, read_configuration, rules
from helpers.extras import ROOT, table
from helpers.policies import names_in_policies
from scheduler_extras.common.errors import InputError
from scheduler_extras.configuration.plugins import WITHOUT_EFFECT
from scheduler_extras.deciding.rule import CATALOGUES
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.reading.hints import REPLACEMENTS
from scheduler_extras.rules import PLUGIN_ORDER


def test_a_resource_lock_other_than_leases_gives_a_notice():
    [policy] = load(leaderElection={"leaderElect": True, "resourceLock": "endpointsleases"}).values()
    assert "leaderElection.resourceLock: only leases are supported now, and used here" in policy.notices


@table("profile, more, message", {
    "the algorithmSource of v1alpha1": (
        {}, {"algorithmSource": {"provider": "DefaultProvider"}},
        "algorithmSource: unknown field; leave it out for DefaultProvider; for a Policy, use --policy with its file"),
    "extenders in a profile": ({"extenders": []}, {}, "profiles[0].extenders: unknown field; use extenders beside profiles, for all "
                                                      "profiles"),
    "plugins without a point": ({"plugins": {"disabled": plugins("NodeName")}}, {}, "profiles[0].plugins.disabled: unknown field; "
                                "use multiPoint.disabled, or that of another extension point"),
    "failureDomains": ({}, {"failureDomains": "x"}, "failureDomains: unknown field; leave it out"),
    "resources outside of scoringStrategy": (
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"resources": []}}]}, {},
        "profiles[0].pluginConfig[0].args.resources: unknown field; use scoringStrategy.resources"),
    "a shape outside of requestedToCapacityRatio": (
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"shape": []}}}]}, {},
        "profiles[0].pluginConfig[0].args.scoringStrategy.shape: unknown field; use requestedToCapacityRatio.shape in "
        "scoringStrategy"),
    "a Policy's argument": (
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"requestedToCapacityRatioArguments": {}}}]}, {},
        "profiles[0].pluginConfig[0].args.requestedToCapacityRatioArguments: unknown field; use NodeResourcesFit with "
        "scoringStrategy.type RequestedToCapacityRatio"),
    "a Policy's MostRequestedPriority": (
        {"plugins": {"score": {"enabled": plugins("MostRequestedPriority")}}}, {},
        'profiles[0].plugins.score.enabled[0]: unknown plugin "MostRequestedPriority"; use NodeResourcesFit with '
        "scoringStrategy.type MostAllocated"),
    "a Policy's RequestedToCapacityRatio": (
        {"plugins": {"score": {"enabled": plugins("RequestedToCapacityRatio")}}}, {},
        'profiles[0].plugins.score.enabled[0]: unknown plugin "RequestedToCapacityRatio"; use NodeResourcesFit with '
        "scoringStrategy.type RequestedToCapacityRatio"),
    "the Go identifier of a rule": (
        {"plugins": {"filter": {"enabled": plugins("PodMatchNodeSelector")}}}, {},
        'profiles[0].plugins.filter.enabled[0]: unknown plugin "PodMatchNodeSelector"; use NodeAffinity'),
    "a timeout as in a Policy": ({}, {"extenders": [{"httpTimeout": 30000000000}]},
                                 'extenders[0].httpTimeout: expected a duration, such as "30s", got 30000000000'),
})
def test_hints(profile, more, message):
    with pytest.raises(InputError) as error:
        load(profile, **more)
    assert str(error.value) == message


EXAMPLES = {  # of the arguments that select the rule of a Policy's entry
    "labelsPresence": {"labels": ["ssd"], "presence": True}, "labelPreference": {"label": "ssd", "presence": True},
    "serviceAffinity": {"labels": ["zone"]}, "serviceAntiAffinity": {"label": "zone"},
    "requestedToCapacityRatioArguments": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}
RATIO_ARGS = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": EXAMPLES["requestedToCapacityRatioArguments"]}


def fitting(**args):
    """A profile that scores only with NodeResourcesFit, with these arguments."""
    return {"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins("NodeResourcesFit")}},
            "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}


@table("bad, fixed, scores", {
    "the provider is left out": (configuration(algorithmSource={"provider": "DefaultProvider"}), configuration(), SCORES),
    "the plugin is left out": (
        configuration({"plugins": {"filter": {"enabled": plugins("EBSLimits", "NodeVolumeLimits")}}}),
        configuration({"plugins": {"filter": {"enabled": plugins("NodeVolumeLimits")}}}), SCORES),
    "resources are in scoringStrategy": (
        configuration(fitting(resources=[{"name": "cpu"}])),
        configuration(fitting(scoringStrategy={"type": "LeastAllocated", "resources": [{"name": "cpu"}]})),
        {"LeastRequestedPriority": 1}),
    "a shape is in requestedToCapacityRatio": (
        configuration(fitting(scoringStrategy={"type": "RequestedToCapacityRatio", "shape": []})),
        configuration(fitting(scoringStrategy=RATIO_ARGS)), {"RequestedToCapacityRatio": 1}),
    "plugins are disabled at a point": (
        configuration({"plugins": {"disabled": plugins("ImageLocality")}}),
        configuration({"plugins": {"multiPoint": {"disabled": plugins("ImageLocality")}}}),
        {name: weight for name, weight in SCORES.items() if name != "ImageLocalityPriority"}),
    "MostRequestedPriority is a scoringStrategy": (
        configuration({"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins("MostRequestedPriority")}}}),
        configuration(fitting(scoringStrategy={"type": "MostAllocated"})), {"MostRequestedPriority": 1}),
})
def test_following_a_hint_gives_a_valid_configuration(bad, fixed, scores):
    with pytest.raises(InputError):
        read_configuration(bad, "my-scheduler")
    [policy] = read_configuration(fixed, "my-scheduler").values()
    assert rules(policy)[1] == scores and sorted(rules(policy)[0]) == sorted(FILTERS)


WEIGHTS = ("the default weight of InterPodAffinity and NodeAffinity is now 2, of TaintToleration 3 (each was 1), and the "
           "annotation preferAvoidPods has no effect")
PLUGINS_OF_OLD = {"score": {"enabled": [{"name": "NodeResourcesMostAllocated", "weight": 5}, {"name": "SelectorSpread"}],
                            "disabled": [{"name": "NodeResourcesLeastAllocated"}]}}
UNKNOWN = "profiles[0].plugins.score.enabled[{}]: unknown plugin"


@table("version, body, message", {
    "v1alpha1": ("v1alpha1", {
        "schedulerName": "mine", "algorithmSource": {"provider": "DefaultProvider"}, "disablePreemption": True,
        "bindTimeoutSeconds": 600, "hardPodAffinitySymmetricWeight": 1, "healthzBindAddress": "0.0.0.0:10251",
        "leaderElection": {"leaderElect": True, "lockObjectName": "mine"}, "plugins": PLUGINS_OF_OLD}, [
        WEIGHTS, "schedulerName: unknown field; use profiles[0].schedulerName, or --scheduler-name",
        "algorithmSource: unknown field; leave it out for DefaultProvider; for a Policy, use --policy with its file",
        "disablePreemption: unknown field; leave it out",
        "bindTimeoutSeconds: unknown field; use bindTimeoutSeconds in the args of VolumeBinding",
        "hardPodAffinitySymmetricWeight: unknown field; use hardPodAffinityWeight in the args of InterPodAffinity",
        "healthzBindAddress: unknown field; leave it out",
        "leaderElection.lockObjectName: unknown field; use resourceName", "plugins: unknown field; use profiles[0].plugins"]),
    "v1beta1": ("v1beta1", {"metricsBindAddress": "", "profiles": [{"plugins": PLUGINS_OF_OLD}]}, [
        WEIGHTS, "metricsBindAddress: unknown field; leave it out",
        f'{UNKNOWN.format(0)} "NodeResourcesMostAllocated"; use NodeResourcesFit with scoringStrategy.type MostAllocated',
        f'{UNKNOWN.format(1)} "SelectorSpread"; use PodTopologySpread with its default constraints']),
    "v1beta2": ("v1beta2", {"profiles": [{"schedulerName": "mine"}]}, [WEIGHTS]),
    "v1beta3, which has the current weights": ("v1beta3", {"profiles": [{"schedulerName": "mine"}]}, []),
    "a malformed configuration": ("v1beta1", {"profiles": 7, "plugins": ["x"], "leaderElection": [{}]}, [
        WEIGHTS, "profiles: expected a list, got 7", "plugins: unknown field; use profiles[0].plugins",
        "leaderElection: expected an object, got [{}]"]),
})
def test_the_error_for_an_older_version_has_all_necessary_changes(version, body, message):
    first = f'apiVersion "kubescheduler.config.k8s.io/{version}": write kubescheduler.config.k8s.io/v1'
    with pytest.raises(InputError) as error:
        read_configuration({"apiVersion": f"kubescheduler.config.k8s.io/{version}", **body}, "my-scheduler")
    assert str(error.value) == "; ".join([first, *message])


OF_OLD = [name for name in REPLACEMENTS if name[0].isupper()]
PLUGINS = {rule.plugin for rules in CATALOGUES.values() for rule in rules.values()}
NAMES = sorted({*OF_OLD, *PLUGINS, *PLUGIN_ORDER, *WITHOUT_EFFECT,
                *names_in_policies()})


def problem_of(place, name, argument):
    """Load a Policy or a configuration with an entry of this name at this place; return the error, or ""."""
    try:
        if place in CATALOGUES:
            entry = {"name": name} | ({"weight": 1} if place == "priorities" else {})
            entry |= {"argument": argument} if argument else {}
            read_policy({"kind": "Policy", "apiVersion": "v1", place: [entry]})
        else:
            load({"plugins": {place: {"enabled": plugins(name)}},
                  "pluginConfig": [{"name": name, "args": argument or {}}]})
    except InputError as error:
        return str(error)
    return ""


def follow(message, place, name):
    """Return the place, name and argument of the entry that a hint suggests, or None."""
    if found := re.search(r'did you mean "(.*?)"', message):
        return place, found[1], None
    if found := re.search(r"put it under (\w+)", message):
        return found[1], name, None
    if place in CATALOGUES:
        if found := re.search(r"in a Policy: a (\w+) of any name, with the argument (\w+)\)", message):
            return {"predicate": "predicates", "priority": "priorities"}[found[1]], "Mine", {found[2]: EXAMPLES[found[2]]}
        if found := re.search(r"needs another name, and the argument (\w+)", message):
            return place, "Mine", {found[1]: EXAMPLES[found[1]]}
        if found := re.search(r"in a Policy: (\w+)\)", message):
            return place, found[1], None
    if found := re.search(r"; use the rule (\w+) of (\S+),", message):
        assert f'@predicate("{found[1]}"' in (ROOT / found[2]).read_text()
        return None
    if re.search(r"; (leave it out$|leave it out, |use (node affinity|pod affinity|spread constraints)\b)", message):
        return None
    if found := re.search(r"; use (\w+) with scoringStrategy.type (\w+)", message):
        shape = EXAMPLES["requestedToCapacityRatioArguments"]
        more = {"requestedToCapacityRatio": shape} if found[2] == "RequestedToCapacityRatio" else {}
        return place, found[1], {"scoringStrategy": {"type": found[2], **more}}
    if found := re.search(r"; use (\w+)", message):
        return place, found[1], None
    one = "queueSort: expected one plugin, got PrioritySort, "  # for a custom queueSort rule, PrioritySort must be disabled
    assert message.endswith("is a file missing in --plugins?") or " does not " in message or one in message, "any other message is a hint"
    return None


@pytest.mark.parametrize("name", [*NAMES, *(name[:-1] for name in NAMES[::4])])
def test_following_each_hint_about_a_name_works(name):
    """The name is tried at each place."""
    for place in ("predicates", "priorities", "filter", "score", "multiPoint"):
        entry, message = (place, name, None), []
        while entry and (wrong := problem_of(*entry)):
            assert wrong not in message and len(message) < 4, (place, message)
            message.append(wrong)
            assert message == [wrong] or not wrong.endswith("is a file missing in --plugins?"), (place, message)
            entry = follow(wrong, *entry[:2])
        assert entry is None or not wrong, (place, message)
