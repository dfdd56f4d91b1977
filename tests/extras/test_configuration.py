"""KubeSchedulerConfiguration: profiles, plugins per extension point, arguments."""

import json
import re
from pathlib import Path

import pytest
from helpers.everywhere import replace
from scheduler_extras.common.errors import InputError
from scheduler_extras.configuration.fields import WITHOUT_EFFECT
from scheduler_extras.configuration.overrides.registry import OVERRIDES, override
from scheduler_extras.configuration.reading import read_configuration
from scheduler_extras.deciding.rule import CATALOGUES, FullRule, PREDICATES, PRIORITIES, WHEN
from scheduler_extras.deciding.schedule import schedule
from scheduler_extras.policy.own_rules import as_in_the_script, predicate, priority
from scheduler_extras.policy.policy import ELECTION
from scheduler_extras.policy.reading import known_names, read_policy, set_up
from scheduler_extras.policy.reloading import PolicyFile, load_policies
from scheduler_extras.reading.hints import REPLACEMENTS
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules import PLUGIN_ORDER
from scheduler_extras.rules.spreading import DEFAULT_SPREAD
import yaml
from helpers.control_plane import wait_for
from helpers.extras import ROOT, cluster_of, decide, node, pending_pods, pod, run_scheduler, table

with as_in_the_script():
    import tutorial_rules  # noqa: F401 (registers its rules)

RULES = ROOT / "scheduler_extras" / "examples" / "tutorial_rules.py"
FILTERS = ["CheckNodeUnschedulable", "HostName", "PodToleratesNodeTaints", "MatchNodeSelector", "PodFitsHostPorts", "PodFitsResources", "NoDiskConflict", "MaxCSIVolumeCountPred", "CheckVolumeBinding", "NoVolumeZoneConflict", "EvenPodsSpread", "MatchInterPodAffinity"]


def configuration(*profiles, version="v1", **more):
    """A KubeSchedulerConfiguration."""
    return {"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": "KubeSchedulerConfiguration",
            "profiles": list(profiles), **more}


def plugins(*names, **weights):
    """Plugins as a profile enables or disables them."""
    return [{"name": name} for name in names] + [
        {"name": name, "weight": weight} for name, weight in weights.items()]


def load(*profiles, **options):
    """The Policies of a configuration."""
    return read_configuration(configuration(*profiles, **options), "my-scheduler")


def rules(policy):
    """The names of a Policy's predicates, and the weights of its priorities."""
    return [rule.name for rule in policy.predicates], {rule.name: rule.weight for rule in policy.priorities}


SCORES = {"BalancedResourceAllocation": 1, "ImageLocalityPriority": 1, "InterPodAffinityPriority": 2,
          "LeastRequestedPriority": 1, "NodeAffinityPriority": 2, "SelectorSpreadPriority": 2,
          "TaintTolerationPriority": 3}


def test_the_default_plugins():
    policy = load()["my-scheduler"]
    assert rules(policy) == (FILTERS, SCORES) and not policy.always_check_all


@table("points, filters", {
    "what is enabled comes behind the defaults": (
        {"filter": {"enabled": plugins("SpaceCloud")}}, [*FILTERS, "SpaceCloud"]),
    "what is disabled goes": (
        {"filter": {"disabled": plugins("NodeName", "NodePorts")}},
        [name for name in FILTERS if name not in ("HostName", "PodFitsHostPorts")]),
    "* disables all defaults": (
        {"filter": {"disabled": plugins("*"), "enabled": plugins("NodePorts", "NodeName")}},
        ["PodFitsHostPorts", "HostName"]),
    "a plugin that nobody knows may be disabled": ({"filter": {"disabled": plugins("Yesteryear")}}, FILTERS),
    "another point's * changes nothing here": ({"score": {"disabled": plugins("*")}}, FILTERS),
    "a plugin enabled for other points only does not filter": (
        {"permit": {"enabled": plugins("Coscheduling")}}, FILTERS),
})
def test_plugins_enabled_and_disabled(points, filters):
    assert rules(load({"plugins": points})["my-scheduler"])[0] == filters


@table("points, filters", {
    "a multiPoint plugin runs wherever it can, behind the defaults": (
        {"multiPoint": {"enabled": plugins("SpaceCloud")}}, [*FILTERS, "SpaceCloud"]),
    "all defaults can be disabled there": (
        {"multiPoint": {"enabled": plugins("PrioritySort", "DefaultBinder", "SpaceCloud"), "disabled": plugins("*")}},
        ["SpaceCloud"]),
    "one can be excepted at a point": (
        {"multiPoint": {"enabled": plugins("SpaceCloud")}, "filter": {"disabled": plugins("SpaceCloud")}}, FILTERS),
    "a point's own order of multiPoint plugins comes first": (
        {"filter": {"enabled": plugins("VolumeZone")}},
        ["NoVolumeZoneConflict", *(name for name in FILTERS if name != "NoVolumeZoneConflict")]),
    "what is disabled there, and enabled again, comes last": (
        {"filter": {"disabled": plugins("NodePorts"), "enabled": plugins("NodePorts")}},
        [*(name for name in FILTERS if name != "PodFitsHostPorts"), "PodFitsHostPorts"]),
    "where all is disabled, the order is that in which some are enabled": (
        {"filter": {"disabled": plugins("*"), "enabled": plugins("SpaceCloud", "NodePorts")}},
        ["SpaceCloud", "PodFitsHostPorts"]),
})
def test_multi_point(points, filters):
    assert rules(load({"plugins": points})["my-scheduler"])[0] == filters


@table("profile, scores", {
    "a weight": ({"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins(NodeAffinity=7)}}},
                 {"NodeAffinityPriority": 7}),
    "a weight of a default plugin, in its place": (
        {"plugins": {"score": {"enabled": plugins(TaintToleration=9), "disabled": plugins(
            "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality",
            "InterPodAffinity")}}},
        {"TaintTolerationPriority": 9, "SelectorSpreadPriority": 2}),
    "no weight is 1": ({"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins("PodCapacityOfNode")}}},
                       {"PodCapacityOfNode": 1}),
    "MostAllocated": (
        {"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins("NodeResourcesFit")}}, "pluginConfig": [
            {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]},
        {"MostRequestedPriority": 1}),
    "a shape": (
        {"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins(NodeResourcesFit=3)}}, "pluginConfig": [
            {"name": "NodeResourcesFit", "args": {"scoringStrategy": {
                "type": "RequestedToCapacityRatio", "resources": [{"name": "cpu", "weight": 2}],
                "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {
                    "utilization": 100, "score": 10}]}}}}]},
        {"RequestedToCapacityRatio": 3}),
})
def test_scores(profile, scores):
    assert rules(load(profile)["my-scheduler"])[1] == scores


def test_arguments_change_what_a_plugin_does():
    [policy] = load({"pluginConfig": [
        {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/gpu"],
                                              "ignoredResourceGroups": ["example.org"]}},
        {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 17}}]}).values()
    settings = {rule.name: rule.settings for rule in policy.predicates + policy.priorities}
    assert settings["InterPodAffinityPriority"]["hard_weight"] == 17
    wanted = FullPod(pod("p", {f"example.{domain}/{name}": "1" for domain in ("com", "org") for name in (
        "gpu", "fpga")}))
    fits = {rule.name: rule for rule in policy.predicates}["PodFitsResources"]
    assert list(fits.function(wanted, FullNode(node("n")))) == ["Insufficient example.com/fpga"]


@table("plugin, args, rule, settings", {
    "a weight of 0 leaves required affinity out": (
        "InterPodAffinity", {"hardPodAffinityWeight": 0}, "InterPodAffinityPriority",
        {"hard_weight": 0, "ignores_others": False}),
    "without a weight it is 1": (
        "InterPodAffinity", {}, "InterPodAffinityPriority", {"hard_weight": 1, "ignores_others": False}),
    "resources to balance": (
        "NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 1}, {"name": "example.com/gpu"}]},
        "BalancedResourceAllocation", {"resources": ["cpu", "example.com/gpu"]}),
    "without any, what the rule has by default": (
        "NodeResourcesBalancedAllocation", {}, "BalancedResourceAllocation", {}),
})
def test_a_rule_has_the_settings_of_its_plugin(plugin, args, rule, settings):
    [policy] = load({"pluginConfig": [{"name": plugin, "args": args}]}).values()
    assert {rule.name: rule.settings for rule in policy.priorities}[rule] == settings


ENABLED, DISABLED = "profiles[0].plugins.{}.enabled[0]", "profiles[0].plugins.{}.disabled[0]"


@table("profile, more, notices", {
    "nothing special": ({}, {}, []),
    "plugins that do nothing here": (
        {"plugins": {"multiPoint": {"enabled": plugins("GangScheduling")}, "filter": {
            "enabled": plugins("NodeDeclaredFeatures")}, "score": {"enabled": plugins(DynamicResources=2)}}}, {},
        [f"{ENABLED.format('multiPoint')}: GangScheduling has no effect here",
         f"{ENABLED.format('filter')}: NodeDeclaredFeatures has no effect here",
         f"{ENABLED.format('score')}: DynamicResources has no effect here"]),
    "one without effect here is disabled": ({"plugins": {"multiPoint": {"disabled": plugins("DynamicResources")}}}, {}, []),
    "a plugin that is not there is disabled": (
        {"plugins": {"filter": {"disabled": plugins("NodePort")}}}, {},
        [f'{DISABLED.format("filter")}: there is no plugin "NodePort"; did you mean "NodePorts"?']),
    "a predicate's name is disabled": (
        {"plugins": {"filter": {"disabled": plugins("PodFitsResources")}}}, {},
        [f'{DISABLED.format("filter")}: there is no plugin "PodFitsResources"; did you mean "NodeResourcesFit"?']),
    "a plugin of another's is disabled": (
        {"plugins": {"score": {"disabled": plugins("Yesteryear")}}}, {},
        [f'{DISABLED.format("score")}: there is no plugin "Yesteryear"']),
    "a plugin that has gone is disabled": (
        {"plugins": {"filter": {"disabled": plugins("EBSLimits")}}}, {},
        [f'{DISABLED.format("filter")}: there is no plugin "EBSLimits"; leave it out, NodeVolumeLimits replaces it']),
    "... and what does its work today does more": (
        {"plugins": {"score": {"disabled": plugins("NodePreferAvoidPods")}}}, {},
        [f'{DISABLED.format("score")}: there is no plugin "NodePreferAvoidPods"; leave it out']),
    "fields on which nothing depends": (
        {"percentageOfNodesToScore": 50}, {"percentageOfNodesToScore": 0, "parallelism": 16, "clientConnection": {"qps": 5},
                                           "enableProfiling": True},
        ["no effect here: clientConnection, parallelism, enableProfiling, percentageOfNodesToScore"]),
    "arguments on which nothing depends": (
        {"pluginConfig": [{"name": "NodePorts", "args": {"ports": 600}}]}, {},
        ["profiles[0].pluginConfig[0].args: the arguments of NodePorts have no effect here"]),
    "arguments of a plugin that is nearly one": (
        {"pluginConfig": [{"name": "NodeResourceFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]}, {},
        ['profiles[0].pluginConfig[0].args: the arguments of NodeResourceFit have no effect here; '
         'did you mean "NodeResourcesFit"?']),
    "arguments that say of what kind they are only": (
        {"pluginConfig": [{"name": "DefaultPreemption", "args": {"kind": "DefaultPreemptionArgs"}}]}, {}, []),
    "extension points of groups of pods": ({"plugins": {"placementScore": {}, "placementGenerate": {}}}, {}, []),
})
def test_what_is_read_without_effect_is_said(profile, more, notices):
    [policy] = load(profile, **more).values()
    assert policy.notices == notices


ALONE = {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}, {"name": "DefaultBinder"}]}}
OFF = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}


@table("plugins, active", {
    "DefaultPreemption runs by default": ({}, ["Preemption"]),
    "it is enabled": ({"postFilter": {"enabled": [{"name": "DefaultPreemption"}]}}, ["Preemption"]),
    "it is disabled": (OFF, []),
    "it is disabled everywhere": ({"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}, []),
    "all is disabled": (ALONE, []),
    "all is disabled but this": (ALONE | {"postFilter": {"enabled": [{"name": "DefaultPreemption"}]}}, ["Preemption"])})
def test_a_configuration_preempts_unless_it_says_otherwise(plugins, active):
    [policy] = load({"plugins": plugins}).values()
    assert [rule.name for rule in policy.rules_with["post_filter"]] == active
    assert [rule.name for rule in policy.rules() if rule.name == "Preemption"] == active


@table("plugins, said", {
    "a Policy": (None, True), "a Policy with a rule of one's own that does it": ("Helps", False),
    "a configuration that does it": ({}, False), "a configuration that has disabled it": (OFF, False)})
def test_that_nobody_is_preempted_is_said_where_kube_scheduler_would_do_it(plugins, said, monkeypatch, caplog):
    def helps(pod, node):
        yield "no"

    rule = FullRule("Helps", helps, hooks={"post_filter": lambda *_: None}, plugin="Helps")
    monkeypatch.setitem(PREDICATES, "Helps", rule)
    replace(monkeypatch, "WARNED", {})
    if isinstance(plugins, dict):
        policies = load({"plugins": plugins})
    else:
        also = [plugins] if plugins else []
        policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1"}, also)}
    cluster = cluster_of(pod("p", priority=7, nodeSelector={"is": "nowhere"}), node("n"))
    [waiting] = pending_pods(cluster, policies)
    snapshot = cluster.look(policies)
    policies["my-scheduler"].seek_remedy(schedule(waiting, snapshot, policies["my-scheduler"]), snapshot)
    assert ("less important pods to place default/p;" in caplog.text) == said


VOLUMES, TAINTS = "leave it out, NodeVolumeLimits replaces it", "use TaintToleration, and taints on the nodes"


@table("point, name, hint", {
    "EBSLimits": ("filter", "EBSLimits", VOLUMES), "GCEPDLimits": ("filter", "GCEPDLimits", VOLUMES),
    "AzureDiskLimits": ("multiPoint", "AzureDiskLimits", VOLUMES), "CinderLimits": ("filter", "CinderLimits", VOLUMES),
    "NodePreferAvoidPods": ("score", "NodePreferAvoidPods", TAINTS),
    "NodeLabel": ("score", "NodeLabel", "use node affinity"), "ServiceAffinity": ("filter", "ServiceAffinity", "use pod affinity")})
def test_plugins_that_have_gone_modern_are_refused(point, name, hint):
    with pytest.raises(InputError) as error:
        load({"plugins": {point: {"enabled": plugins(name)}}})
    assert str(error.value) == f'profiles[0].plugins.{point}.enabled[0]: unknown plugin "{name}"; {hint}'


def test_arguments_of_a_plugin_that_has_gone_are_no_error_to_kube_scheduler():
    """But for those of four: see the rows of validatePluginConfig below."""
    [policy] = load({"pluginConfig": [{"name": "NodeLabel", "args": {"presentLabels": ["ssd"]}}]}).values()
    assert policy.notices == [
        "profiles[0].pluginConfig[0].args: the arguments of NodeLabel have no effect here; use node affinity"]


@table("ignored, args, reasons", {
    "a resource that an extender sees to": (True, {}, []),
    "one that it has a say about only": (False, {}, ["Insufficient example.com/fpga"]),
    "its word takes precedence over the plugin's arguments": (
        True, {"ignoredResources": ["example.com/gpu"]}, ["Insufficient example.com/gpu"]),
    "... but not over their groups": (True, {"ignoredResourceGroups": ["example.com"]}, []),
})
def test_resources_that_extenders_see_to_are_not_held_against_nodes(ignored, args, reasons):
    wanted = {"example.com/fpga": "1"} | ({"example.com/gpu": "1"} if args else {})
    [policy] = load({"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}, extenders=[
        {"urlPrefix": "http://x", "managedResources": [{"name": "example.com/fpga", "ignoredByScheduler": ignored}]}]).values()
    fits = {rule.name: rule for rule in policy.predicates}["PodFitsResources"]
    assert list(fits.function(FullPod(pod("p", wanted)), FullNode(node("n")))) == reasons


SSD, FAST = ({"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]} for value in ("ssd", "nvme"))


def test_a_setting_that_no_function_of_a_rule_takes_is_an_error():
    with pytest.raises(TypeError, match="HostName has no setting hard_weight"):
        set_up(PREDICATES["HostName"], "HostName", "predicates[0]", 1, {"hard_weight": 1})


@table("added, failed, scores", {
    "none": ({}, {}, {"hdd": 0, "nvme": 0, "ssd": 0}),
    "required: a node has to meet one of the terms, whatever the pod": (
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [SSD, FAST]}},
        {"hdd": "node(s) didn't match scheduler-enforced node affinity"}, {"nvme": 0, "ssd": 0}),
    "required, but no term: no node meets it": (
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}},
        dict.fromkeys(["hdd", "nvme", "ssd"], "node(s) didn't match scheduler-enforced node affinity"), None),
    "preferred: the terms' weights are added to the pod's own": (
        {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": FAST},
                                                             {"weight": 3, "preference": SSD}]},
        {}, {"hdd": 0, "nvme": 200, "ssd": 120}),
})
def test_affinity_that_is_added_to_each_pods(added, failed, scores):
    policies = load({"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": added}}]})
    decision = decide(policies, pod("p"), *(node(disk, labels={"disk": disk}) for disk in ("hdd", "nvme", "ssd")))
    assert {name: reason for name, against in decision.failed.items() for [reason] in against.values()} == failed
    assert decision.scores.get("NodeAffinity") == scores


@table("ignored, prefers, score", {
    "others' preferences count": (False, False, 200),
    "... but not if they are to be ignored": (True, False, 0),
    "... unless the pod has preferences of its own": (True, True, 200),
})
def test_preferences_of_existing_pods(ignored, prefers, score):
    def preference(app):
        return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}}]}}

    policies = load({"pluginConfig": [{"name": "InterPodAffinity", "args": {
        "ignorePreferredTermsOfExistingPods": ignored}}]})
    decision = decide(policies, pod("p", labels={"app": "p"}, **({"affinity": preference("x")} if prefers else {})),
                      pod("there", nodeName="a", affinity=preference("p")),
                      *(node(name, labels={"kubernetes.io/hostname": name}) for name in "ab"))
    assert decision.scores["InterPodAffinity"] == {"a": score, "b": 0}


@table("args, feasible, spreads", {
    "kube-scheduler's default constraints are preferences": ({}, ["a", "b"], True),
    "none at all": ({"defaultingType": "List"}, ["a", "b"], False),
    "a preference of the user's own": ({"defaultingType": "List", "defaultConstraints": [
        {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}]}, ["a", "b"], False),
    "one of the user's own": ({"defaultingType": "List", "defaultConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}]}, ["b"], False),
})
def test_default_spread_constraints(args, feasible, spreads):
    policies = load({"pluginConfig": [{"name": "PodTopologySpread", "args": args}]})
    service = {"kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}
    labels = {name: {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "z"} for name in "ab"}
    web = {"app": "web"}
    decision = decide(policies, pod("p", labels=web), service, pod("there", labels=web, nodeName="a"),
                      *(node(name, labels=labels[name]) for name in "ab"))
    assert list(decision.total) == feasible
    assert (len(set(decision.scores["PodTopologySpread"].values())) > 1) == spreads


@table("args, scores", {
    "the system's own constraints need no labels": ({}, {"a": 44, "b": 200}),
    "the same ones, written out, do": (
        {"defaultingType": "List", "defaultConstraints": DEFAULT_SPREAD}, {"a": 200, "b": 0}),
})
def test_a_node_without_a_zone_under_default_spread_constraints(args, scores):
    policies = load({"pluginConfig": [{"name": "PodTopologySpread", "args": args}]})
    service = {"kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}
    labels = {"a": {"kubernetes.io/hostname": "a", "topology.kubernetes.io/zone": "z"}, "b": {"kubernetes.io/hostname": "b"}}
    web = {"app": "web"}
    decision = decide(policies, pod("p", labels=web), service, pod("there", labels=web, nodeName="a"),
                      *(node(name, labels=labels[name]) for name in "ab"))
    assert decision.scores["PodTopologySpread"] == scores


def test_each_argument_of_a_plugin_is_taken_by_a_rule():
    args = {"NodeAffinity": {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
            "NodeResourcesFit": {"ignoredResources": ["example.com/gpu"]}, "VolumeBinding": {"bindTimeoutSeconds": 5},
            "NodeResourcesBalancedAllocation": {"resources": [{"name": "cpu", "weight": 1}]}}
    [policy] = load({"pluginConfig": [{"name": name, "args": args[name]} for name in args]}).values()
    given, taken = set(), set()
    for rule in policy.rules():
        given |= {(rule.title, name) for name in rule.settings}
        for function in (rule.function, rule.metadata, rule.reduce, *rule.hooks.values()):
            taken |= {(rule.title, name) for name in getattr(function, "keywords", {})}
    assert len(given) >= 7 and given <= taken


def test_arguments_of_plugins_that_take_none_are_no_error():
    [policy] = load({"pluginConfig": [{"name": "NodeName", "args": {"x": 1}}, {"name": "Nobody", "args": {"x": 1}},
                                       {"name": "NodePorts", "args": {}}]}).values()
    assert rules(policy) == (FILTERS, SCORES)


@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated"])
def test_resources_are_weighed_as_the_arguments_say(kind):
    resources = [{"name": "cpu", "weight": 3}, {"name": "example.com/gpu"}]
    [policy] = load({"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins("NodeResourcesFit")}},
                     "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
                         "type": kind, "resources": resources}}}]}).values()
    [rule] = policy.priorities
    there = FullNode(node("n", cpu="10", status={"allocatable": {
        "cpu": "10", "memory": "1Gi", "pods": "9", "example.com/gpu": "4"}}))
    score = rule.function(FullPod(pod("p", {"cpu": "2", "example.com/gpu": "1"})), there)
    assert score == ((3 * 20 + 25) // 4 if kind == "MostAllocated" else (3 * 80 + 75) // 4)


@table("times, seconds", {
    "kube-scheduler's times": ({}, (15, 10, 2)),
    "others": ({"leaseDuration": "1m30s", "retryPeriod": "500ms"}, (90, 10, 0.5)),
    "zero is the default": ({"leaseDuration": "0s", "renewDeadline": "0"}, (15, 10, 2)),
})
def test_the_times_of_leader_election(times, seconds):
    election = load(leaderElection={"leaderElect": True, **times})["my-scheduler"].election
    assert election["leaderElect"] and tuple(election[name] for name in ELECTION) == seconds


@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated"])
def test_a_resource_that_is_neither_there_nor_wanted_scores_0(kind):
    [policy] = load({"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins("NodeResourcesFit")}},
                     "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
                         "type": kind, "resources": [{"name": "example.com/gpu"}]}}}]}).values()
    assert policy.priorities[0].function(FullPod(pod("p")), FullNode(node("n"))) == 0


def test_an_unknown_plugin_is_said_at_every_point():
    with pytest.raises(InputError, match="permit.enabled.0.: unknown plugin"):
        load({"plugins": {"permit": {"enabled": plugins("Nobody")}}})


@table("timeout, seconds", {
    "minutes and seconds": ("1m30s", 90), "microseconds": ("500us", 0.0005), "zero": ("0", 5), "a sign": ("+15s", 15),
    "a Policy's nanoseconds": ("30000000000ns", 30), "no digit before the point": (".5m", 30), "in Greek": ("500μs", 0.0005)})
def test_extenders_have_their_timeouts_as_durations(timeout, seconds):
    [policy] = load(extenders=[{"urlPrefix": "http://x", "filterVerb": "filter", "httpTimeout": timeout,
                                "enableHTTPS": True}]).values()
    assert [(extender.endpoint.timeout, extender.endpoint.session.verify) for extender in policy.extenders] == [(seconds, False)]


def test_a_profile_leaves_only_the_extension_points_that_it_enables():
    arguments = [{"name": "sample-plugin", "args": {"favorite_number": 3}}]
    two = {"preFilter": {"enabled": plugins("sample-plugin")}, "filter": {"enabled": plugins("sample-plugin")}}
    for points, bound in ((two, False), ({**two, "preBind": {"enabled": plugins("sample-plugin")}}, True)):
        [policy] = load({"plugins": points, "pluginConfig": arguments}).values()
        [argument] = policy.predicates[-1].settings["arguments"]
        assert argument["favorite_number"] == 3 and argument["favorNumber"] is None
        assert len(policy.rules_with["pre_bind"]) == 1 + bound, "VolumeBinding's, and the sample's"
    [policy] = load({"plugins": {"permit": {"enabled": plugins("Coscheduling")}}}).values()
    assert [rule.name for rule in policy.others] == ["Preemption", "Coscheduling"] and len(policy.rules_with["permit"]) == 1
    [policy] = load({"plugins": {"preBind": {"disabled": plugins("*")}}}).values()
    assert policy.rules_with["pre_bind"] == []


@table("document, said", {
    "an unknown plugin": (configuration({"plugins": {"filter": {"enabled": plugins("NodePort")}}}),
                          'profiles[0].plugins.filter.enabled[0]: unknown plugin "NodePort"; did you mean "NodePorts"'),
    "a plugin with a typo is compared with those that can be there": (
        configuration({"plugins": {"filter": {"enabled": plugins("ImageLocalit")}}}),
        'unknown plugin "ImageLocalit"; is a file missing in --plugins?'),
    "a predicate's name, which a plugin does not have": (
        configuration({"plugins": {"filter": {"enabled": plugins("PodFitsResources")}}}),
        'profiles[0].plugins.filter.enabled[0]: unknown plugin "PodFitsResources"'),
    "a predicate's name, whose plugin is suggested": (
        configuration({"plugins": {"filter": {"enabled": plugins("PodToleratesNodeTaints")}}}),
        'unknown plugin "PodToleratesNodeTaints"; did you mean "TaintToleration"?'),
    "a plugin of v1beta1, and today's way": (
        configuration({"plugins": {"score": {"enabled": plugins("NodeResourcesMostAllocated")}}}),
        'enabled[0]: unknown plugin "NodeResourcesMostAllocated"; use NodeResourcesFit with scoringStrategy.type '
        "MostAllocated"),
    "a plugin of v1beta1 that is much like another one": (
        configuration({"plugins": {"score": {"enabled": plugins("NodeResourcesLeastAllocated")}}}),
        'unknown plugin "NodeResourcesLeastAllocated"; use NodeResourcesFit'),
    "a plugin of v1beta1 whose name has changed": (
        configuration({"plugins": {"score": {"enabled": plugins("SelectorSpread")}}}),
        'unknown plugin "SelectorSpread"; use PodTopologySpread with its default constraints'),
    "v1alpha1's algorithm": (configuration(algorithmSource={"provider": "DefaultProvider"}),
                             "algorithmSource: unknown field; leave it out for DefaultProvider; for a Policy, use --policy with "
                             "its file"),
    "v1alpha1's name of the scheduler": (
        configuration(schedulerName="x"), "schedulerName: unknown field; use profiles[0].schedulerName, or"),
    "v1alpha1's plugins": (configuration(plugins={}), "plugins: unknown field; use profiles[0].plugins"),
    "half of a priority's name": (
        configuration({"plugins": {"score": {"enabled": plugins("LeastRequested")}}}),
        'unknown plugin "LeastRequested"; is a file missing in --plugins?'),
    "an unknown extension point": (configuration({"plugins": {"filters": {}}}),
                                   'profiles[0].plugins.filters: unknown field; did you mean "filter"?'),
    "a version that has gone": (
        configuration(version="v1beta3"),
        'apiVersion "kubescheduler.config.k8s.io/v1beta3": write kubescheduler.config.k8s.io/v1'),
    "two profiles of one name": (configuration({"schedulerName": "a"}, {"schedulerName": "a"}),
                                 "profiles[1].schedulerName: each profile needs its own"),
    "two profiles, one without a name": (configuration({"schedulerName": "a"}, {}),
                                         "profiles[1].schedulerName: each profile needs its own"),
    "an argument of the wrong type": (
        configuration({"pluginConfig": [{"name": "sample-plugin", "args": {"favorite_number": "7"}}]}),
        'profiles[0].pluginConfig[0].args.favorite_number: expected a whole number, got "7"'),
    "an argument that the plugin rejects": (
        configuration({"plugins": {"filter": {"enabled": plugins("sample-plugin")}},
                       "pluginConfig": [{"name": "sample-plugin", "args": {"favorite_number": -7}}]}),
        "profiles[0].plugins.filter: sample-plugin: favorite_number must not be negative"),
    "an extender that never answers": (configuration(extenders=[{"urlPrefix": "http://x", "httpTimeout": "never"}]),
                                       'extenders[0].httpTimeout: expected a duration, such as "30s", got "never"'),
    "a plugin at a point that it does not extend": (
        configuration({"plugins": {"filter": {"enabled": plugins("ImageLocality")}}}),
        'profiles[0].plugins.filter.enabled[0]: plugin "ImageLocality" does not implement filter'),
    "arguments that come twice": (
        configuration({"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 1}}] * 2}),
        'profiles[0].pluginConfig[1]: duplicate arguments for "InterPodAffinity"'),
    "a weight out of range": (
        configuration({"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}}]}),
        "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: expected from 0 to 100, got 101"),
    "an unknown kind of defaulting": (
        configuration({"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "All"}}]}),
        'profiles[0].pluginConfig[0].args.defaultingType: expected one of List, System, got "All"'),
    "default constraints that are none": (
        configuration({"pluginConfig": [{"name": "PodTopologySpread", "args": {
            "defaultingType": "List", "defaultConstraints": [{"maxSkew": 1}]}}]}),
        "profiles[0].pluginConfig[0].args.defaultConstraints[0]: expected maxSkew, topologyKey and whenUnsatisfiable"),
    "an extender that scores, but has no weight": (
        configuration(extenders=[{"urlPrefix": "http://x", "prioritizeVerb": "score"}]),
        "extenders[0].weight: must be positive where there is a prioritizeVerb"),
    "an extender's field with a typo": (
        configuration(extenders=[{"urlPrefx": "http://x"}]),
        'extenders[0].urlPrefx: unknown field; did you mean "urlPrefix"?'),
    "a weight where all must have the same": (
        configuration({"pluginConfig": [{"name": "NodeResourcesBalancedAllocation", "args": {
            "resources": [{"name": "example.com/gpu", "weight": 2}]}}]}),
        'profiles[0].pluginConfig[0].args.resources[0].weight: expected from 0 to 1, got 2'),
    "an added affinity that is none": (
        configuration({"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": {"x": 1}}}]}),
        "profiles[0].pluginConfig[0].args.addedAffinity.x: unknown field"),
    "a plugin's weight that is none": (
        configuration({"plugins": {"score": {"enabled": plugins(NodeAffinity=-1)}}}),
        "profiles[0].plugins.score.enabled[0].weight: expected from 0 to 2147483647, got -1"),
    "a weight that is none": (
        configuration({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
            "resources": [{"name": "cpu", "weight": -1}]}}}]}),
        "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight: expected from 0 to 100, got -1"),
    "an unknown strategy": (
        configuration({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Best"}}}]}),
        "scoringStrategy.type: expected one of LeastAllocated, MostAllocated, RequestedToCapacityRatio, got"),
    "a lease of nearly all time": (configuration(leaderElection={"leaseDuration": "9" * 400 + "h"}),
                                   'leaderElection.leaseDuration: expected a duration, such as "30s", got "99999'),
    "a longest backoff that is shorter than the first one": (
        configuration(podInitialBackoffSeconds=5, podMaxBackoffSeconds=4),
        "expected 0 < podInitialBackoffSeconds <= podMaxBackoffSeconds"),
    "a lease that is no duration": (configuration(leaderElection={"leaseDuration": "15"}),
                                    'leaderElection.leaseDuration: expected a duration, such as "30s", got "15"'),
    "a lease that ends before it is renewed": (configuration(leaderElection={
        "leaderElect": True, "leaseDuration": "5s"}),
                                               "leaderElection: expected leaseDuration > renewDeadline > 1.2 x retryPeriod"),
})
def test_what_is_wrong_is_said_in_a_line(document, said, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(document))
    run = run_scheduler("--plugins", RULES, "--policy", path, "--cluster", ROOT / "tests/demo.yaml")
    assert run.returncode == 2
    [line] = run.stderr.splitlines()
    assert line.startswith(f"{path}: ") and said in line


def wrong(said, *profiles, **more):
    """A row: what is said of a configuration, behind the file's name."""
    return configuration(*profiles, **more), said


def argued(plugin, said, **args):
    """A row: what is said of a plugin's arguments."""
    return wrong(f"profiles[0].pluginConfig[0].{said}", {"pluginConfig": [{"name": plugin, "args": args}]})


def enabling(said, **points):
    """A row: what is said of plugins that are enabled."""
    return wrong(f"profiles[0].plugins.{said}", {"plugins": {
        point: {"enabled": plugins(*names)} for point, names in points.items()}})


def ratio(**more):
    """A scoring strategy by a shape."""
    return {"scoringStrategy": {"type": "RequestedToCapacityRatio", **more}}


REQUIRED, PREFERRED = (f"{how}{WHEN}" for how in ("required", "preferred"))
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
RATIO = "args.scoringStrategy.requestedToCapacityRatio"
SHAPELESS = "args.scoringStrategy: expected a type, and only for RequestedToCapacityRatio a shape, of ascending utilization"
LONGER = "leaderElection: expected leaseDuration > renewDeadline > 1.2 x retryPeriod"


@table("document, said", {
    # ValidateClientConnectionConfiguration, ValidateLeaderElectionConfiguration, NewLeaderElector
    "a burst below 0": wrong("clientConnection.burst: expected from 0 to 2147483647, got -1", clientConnection={"burst": -1}),
    "a lock that there never was": wrong('leaderElection.resourceLock: expected leases, got "foo"',
                                         leaderElection={"resourceLock": "foo"}),
    "a time that is no longer, to the nanosecond": wrong(LONGER, leaderElection={"renewDeadline": "3.6s", "retryPeriod": "3s"}),
    "a lease in a list": wrong('leaderElection.leaseDuration: expected a duration, such as "30s"',
                                leaderElection={"leaseDuration": ["15s"]}),
    "a lease that is empty": wrong('leaderElection.leaseDuration: expected a duration, such as "30s", got ""',
                                   leaderElection={"leaseDuration": ""}),
    "a lease that is longer than Go counts": wrong(
        'leaderElection.leaseDuration: expected a duration, such as "30s", got "999999999h"',
        leaderElection={"leaseDuration": "999999999h"}),
    "a lease below 0": wrong('leaderElection.leaseDuration: expected a duration, such as "30s", got "-1s"',
                             leaderElection={"leaseDuration": "-1s"}),
    "a lease no longer than the time to renew it": wrong(LONGER, leaderElection={"leaseDuration": "10s"}),
    "a time to renew that leaves none for pauses": wrong(LONGER, leaderElection={"renewDeadline": "2.4s"}),
    # ValidateKubeSchedulerConfiguration
    "nothing in parallel": wrong("parallelism: expected from 1 to 2147483647, got 0", parallelism=0),
    "more than all nodes": wrong("percentageOfNodesToScore: expected from 0 to 100, got 101", percentageOfNodesToScore=101),
    "less than none": wrong("profiles[0].percentageOfNodesToScore: expected from 0 to 100, got -1",
                            {"percentageOfNodesToScore": -1}),
    "a name that is empty": wrong("profiles[0].schedulerName: each profile needs its own", {"schedulerName": ""}),
    "a name that comes twice": wrong("profiles[1].schedulerName: each profile needs its own", *2 * [{"schedulerName": "a"}]),
    "no backoff": wrong(f"podInitialBackoffSeconds: expected from 1 to {2**63 - 1}, got 0", podInitialBackoffSeconds=0),
    "a longest backoff that is shorter": wrong("expected 0 < podInitialBackoffSeconds <= podMaxBackoffSeconds",
                                               podInitialBackoffSeconds=11),
    # validateKubeSchedulerProfile, validatePluginConfig
    "a plugin that has gone": enabling(
        'filter.enabled[0]: unknown plugin "EBSLimits"; leave it out, NodeVolumeLimits replaces it', filter=["EBSLimits"]),
    "arguments of one": wrong('profiles[0].pluginConfig[0]: unknown plugin "CinderLimits"; leave it out, NodeVolumeLimits '
                              "replaces it", {"pluginConfig": [{"name": "CinderLimits"}]}),
    "arguments that come twice": wrong('profiles[0].pluginConfig[1]: duplicate arguments for "NodePorts"',
                                       {"pluginConfig": 2 * [{"name": "NodePorts"}]}),
    "arguments of nobody": wrong("profiles[0].pluginConfig[0].name: is missing", {"pluginConfig": [{"args": {}}]}),
    "arguments of another kind": argued("NodeAffinity", 'args.kind: expected NodeAffinityArgs, got "X"', kind="X"),
    "arguments of another version": argued(
        "NodeAffinity", 'args.apiVersion: expected kubescheduler.config.k8s.io/v1, got "kubescheduler.config.k8s.io/v1beta3"',
        apiVersion="kubescheduler.config.k8s.io/v1beta3"),
    # validateCommonQueueSort
    "queues in different orders": wrong(
        "profiles[1].plugins.queueSort: must be the same as in profiles[0], including args", {"schedulerName": "a"},
        {"schedulerName": "b", "plugins": {"queueSort": {"enabled": plugins("PrioritySort")}}}),
    "... by their arguments": wrong(
        "profiles[1].plugins.queueSort: must be the same as in profiles[0], including args", *(
            {"schedulerName": name, "plugins": {"queueSort": {"enabled": plugins("PrioritySort")}},
             "pluginConfig": [{"name": "PrioritySort", "args": {"by": name}}]} for name in "ab")),
    "... by way of multiPoint": wrong(
        "profiles[1].plugins.queueSort: must be the same as in profiles[0], including args", {"schedulerName": "a"},
        {"schedulerName": "b", "plugins": {"multiPoint": {"enabled": plugins("Coscheduling"), "disabled": plugins("PrioritySort")}}}),
    # Since 1.37
    "an extension point to come": enabling("podGroupPostFilter: unknown field", podGroupPostFilter=["DefaultPreemption"]),
    "a field to come": wrong("percentageOfPlacementsToScore: unknown field; did you mean \"percentageOfNodesToScore\"?", percentageOfPlacementsToScore=50),
    "a queue in two orders": enabling("queueSort: expected one plugin, got PrioritySort, Coscheduling",
                                      queueSort=["PrioritySort", "Coscheduling"]),
    # validateExtenders
    "an extender that scores for nothing": wrong(
        "extenders[0].weight: must be positive where there is a prioritizeVerb", extenders=[{"prioritizeVerb": "x"}]),
    "two extenders that bind": wrong("extenders[1].bindVerb: only one extender may bind, and extenders[0] does",
                                     extenders=2 * [{"bindVerb": "x"}]),
    "a resource that is no name": wrong(
        'extenders[0].managedResources: "a b/c" is no extended resource, such as example.com/gpu',
        extenders=[{"managedResources": [{"name": "a b/c"}]}]),
    "a resource of kubernetes.io": wrong(
        'extenders[0].managedResources: "x.kubernetes.io/y" is no extended resource, such as example.com/gpu',
        extenders=[{"managedResources": [{"name": "x.kubernetes.io/y"}]}]),
    "a resource that is a quota's": wrong(
        'extenders[0].managedResources: "requests.a.b/c" is no extended resource, such as example.com/gpu',
        extenders=[{"managedResources": [{"name": "requests.a.b/c"}]}]),
    "a resource that comes twice": wrong('extenders[1].managedResources: "a.b/c" comes twice',
                                         extenders=2 * [{"managedResources": [{"name": "a.b/c"}]}]),
    # validation_pluginargs.go
    "a percentage beyond all": argued("DefaultPreemption", "args.minCandidateNodesPercentage: expected from 0 to 100, got 101",
                                      minCandidateNodesPercentage=101),
    "fewer than none": argued("DefaultPreemption", "args.minCandidateNodesAbsolute: expected from 0 to 2147483647, got -1",
                              minCandidateNodesAbsolute=-1),
    "no candidates either way": argued(
        "DefaultPreemption", "args: expected minCandidateNodesPercentage or minCandidateNodesAbsolute above 0",
        minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
    "a weight of affinity beyond 100": argued("InterPodAffinity", "args.hardPodAffinityWeight: expected from 0 to 100, got 101",
                                              hardPodAffinityWeight=101),
    "an unknown kind of defaults": argued("PodTopologySpread", 'args.defaultingType: expected one of List, System, got "X"',
                                          defaultingType="X"),
    "own defaults, and the system's": argued(
        "PodTopologySpread", "args: expected defaultingType List, because there are defaultConstraints", defaultConstraints=[SPREAD]),
    "no skew": argued("PodTopologySpread", "args.defaultConstraints[0].maxSkew: expected from 1 to 2147483647, got 0",
                      defaultingType="List", defaultConstraints=[SPREAD | {"maxSkew": 0}]),
    "no topologyKey": argued("PodTopologySpread", "args.defaultConstraints[0]: expected maxSkew, topologyKey and whenUnsatisfiable",
                             defaultingType="List", defaultConstraints=[{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]),
    "a topologyKey that is none": argued("PodTopologySpread", 'args.defaultConstraints[0].topologyKey: expected a name, such as example.com/gpu, got "a b"',
                                         defaultingType="List", defaultConstraints=[SPREAD | {"topologyKey": "a b"}]),
    "nothing to be done where it is not satisfied": argued(
        "PodTopologySpread", "args.defaultConstraints[0]: expected maxSkew, topologyKey and whenUnsatisfiable",
        defaultingType="List", defaultConstraints=[{"maxSkew": 1, "topologyKey": "zone"}]),
    "something unknown to be done": argued(
        "PodTopologySpread", "args.defaultConstraints[0].whenUnsatisfiable: expected one of DoNotSchedule, ScheduleAnyway, got "
        '"X"', defaultingType="List", defaultConstraints=[SPREAD | {"whenUnsatisfiable": "X"}]),
    "a selector of all pods": argued("PodTopologySpread", "args.defaultConstraints[0].labelSelector: unknown field",
                                     defaultingType="List", defaultConstraints=[SPREAD | {"labelSelector": {}}]),
    "a constraint twice": argued("PodTopologySpread", "args.defaultConstraints: expected each pair of topologyKey and whenUnsatisfiable only once",
                                 defaultingType="List", defaultConstraints=[SPREAD, SPREAD | {"maxSkew": 2}]),
    "no shape": argued("NodeResourcesFit", SHAPELESS, **ratio()),
    "a shape without points": argued("NodeResourcesFit", SHAPELESS,
                                     **ratio(requestedToCapacityRatio={"shape": []})),
    "a shape that stays": argued(
        "NodeResourcesFit", SHAPELESS,
        **ratio(requestedToCapacityRatio={"shape": [{"utilization": 5}, {"utilization": 5}]})),
    "a utilization beyond all": argued("NodeResourcesFit", f"{RATIO}.shape[0].utilization: expected from 0 to 100, got 101",
                                       **ratio(requestedToCapacityRatio={"shape": [{"utilization": 101}]})),
    "a score beyond ten": argued("NodeResourcesFit", f"{RATIO}.shape[0].score: expected from 0 to 10, got 11",
                                 **ratio(requestedToCapacityRatio={"shape": [{"score": 11}]})),
    "a shape beside another type": argued(
        "NodeResourcesFit", SHAPELESS,
        scoringStrategy={"type": "MostAllocated", "requestedToCapacityRatio": {}}),
    "no type": argued("NodeResourcesFit", SHAPELESS, scoringStrategy={}),
    "a resource's weight beyond 100": argued(
        "NodeResourcesFit", "args.scoringStrategy.resources[0].weight: expected from 0 to 100, got 101",
        scoringStrategy={"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}),
    "an ignored resource that is none": argued(
        "NodeResourcesFit", 'args.ignoredResources[0]: expected a name, such as example.com/gpu, got "a b"', ignoredResources=["a b"]),
    "a group with a slash": argued("NodeResourcesFit", 'args.ignoredResourceGroups[0]: expected a group, such as example.com, got "a/b"',
                                   ignoredResourceGroups=["a/b"]),
    "a group that is no name": argued("NodeResourcesFit", 'args.ignoredResourceGroups[0]: expected a name, such as example.com/gpu, got "-a"',
                                      ignoredResourceGroups=["-a"]),
    "a balanced resource twice": argued("NodeResourcesBalancedAllocation", "args.resources: expected each resource only once",
                                        resources=2 * [{"name": "cpu"}]),
    "a balanced resource that weighs more": argued(
        "NodeResourcesBalancedAllocation", "args.resources[0].weight: expected from 0 to 1, got 2",
        resources=[{"name": "cpu", "weight": 2}]),
    "a required term that is none": argued(
        "NodeAffinity", f"args.addedAffinity.{REQUIRED}.nodeSelectorTerms[0]: expected a term of node affinity",
        addedAffinity={REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}),
    "a preferred term that is none": argued(
        "NodeAffinity", f"args.addedAffinity.{PREFERRED}[0].preference.matchExpressions[0].key: expected a name, such as "
        'example.com/gpu, got "a b"', addedAffinity={PREFERRED: [{
            "weight": 1, "preference": {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}}]}),
    "... and one without a key": argued(
        "NodeAffinity", f"args.addedAffinity.{PREFERRED}[0].preference.matchExpressions[0]: expected a key",
        addedAffinity={PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [{"operator": "Exists"}]}}]}),
    "a timeout below 0": argued("VolumeBinding", "args.bindTimeoutSeconds: expected from 0 to 9223372036854775807, got -1",
                                bindTimeoutSeconds=-1),
    "a shape whose gate is off": argued(
        "VolumeBinding", "args.shape: expected nothing, because the feature gate StorageCapacityScoring is off by default",
        shape=[]),
    "a filter's timeout below 0": argued("DynamicResources", 'args.filterTimeout: expected a duration, such as "30s", got "-1s"',
                                         filterTimeout="-1s"),
    "a binding's timeout below 1 s": argued("DynamicResources", 'args.bindingTimeout: expected a duration of at least 1s, got "5ms"',
                                            bindingTimeout="5ms"),
    # NewFramework
    "a plugin twice": enabling('filter.enabled[1]: plugin "NodeName" is already enabled there', filter=["NodeName", "NodeName"]),
    "a plugin at another point": enabling(
        'preFilter.enabled[0]: plugin "ImageLocality" does not implement preFilter, only score', preFilter=["ImageLocality"]),
    "a plugin that there is not yet": enabling(
        'multiPoint.enabled[0]: unknown plugin "DeferredPodScheduling"; is a file missing in --plugins?',
        multiPoint=["DeferredPodScheduling"]),
    "a plugin without a name": enabling("filter.enabled[0].name: is missing", filter=[""]),
    "nobody to bind": wrong("profiles[0].plugins.bind: expected one plugin, got none",
                            {"plugins": {"bind": {"disabled": plugins("*")}}}),
    "another version's field": wrong('extenders[0].enableHttps: unknown field; use enableHTTPS',
                                     extenders=[{"enableHttps": True}]),
})
def test_what_kube_schedulers_validation_refuses_is_refused(document, said):
    """Upstream: pkg/scheduler/apis/config/validation, a row for each of its errors."""
    with pytest.raises(InputError) as error:
        read_configuration(document, "my-scheduler")
    assert str(error.value) == said


@table("document, said", {
    "fields": (configuration({"x": 1}, y=2), ["profiles[0].x: unknown field", "y: unknown field"]),
    "one plugin at two points, in two profiles": (
        configuration(*({"schedulerName": name, "plugins": {point: {"enabled": plugins("Other")} for point in ("filter", "score")}}
                        for name in "ab")),
        ['profiles[0].plugins.filter.enabled[0]: unknown plugin "Other"', "is a file missing in --plugins?"]),
    "another project's plugins, in one line": (
        configuration({"plugins": {"multiPoint": {"enabled": plugins("LoadAware", "Reservation")}}}),
        ['profiles[0].plugins.multiPoint.enabled[0]: unknown plugins "LoadAware", "Reservation"',
         "is a file missing in --plugins?"]),
    "what is like one of ours": (
        configuration({"plugins": {"score": {"enabled": plugins("NodeResourcesFitPlus")}}}),
        ['profiles[0].plugins.score.enabled[0]: unknown plugin "NodeResourcesFitPlus"', 'did you mean "NodeResourcesFit"?',
         "is a file missing in --plugins?"]),
    "arguments, an extender and a profile": (
        configuration({"pluginConfig": [{"name": "VolumeBinding", "args": {"x": 1, "bindTimeoutSeconds": "5"}}]}, {},
                      extenders=[{"prioritizeVerb": "x"}]),
        ["extenders[0].weight: must be positive where there is a prioritizeVerb",
         "profiles[0].pluginConfig[0].args.x: unknown field",
         'profiles[0].pluginConfig[0].args.bindTimeoutSeconds: expected a whole number, got "5"',
         "profiles[0].schedulerName: each profile needs its own",
         "profiles[1].schedulerName: each profile needs its own"]),
    "a field, a value, a plugin": (
        configuration({"x": 1, "plugins": {"filter": {"enabled": plugins("Other")}}}, parallelism=0),
        ["profiles[0].x: unknown field", "parallelism: expected from 1 to 2147483647, got 0",
         'profiles[0].plugins.filter.enabled[0]: unknown plugin "Other"', "is a file missing in --plugins?"]),
})
def test_all_that_is_wrong_is_said_at_once(document, said):
    with pytest.raises(InputError) as error:
        read_configuration(document, "my-scheduler")
    assert str(error.value).split("; ") == said


@table("profile, more", {
    "a weight of 0 is none": ({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
        "type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 0}]}}}]}, {}),
    "times of an election that nobody holds": ({}, {"leaderElection": {"leaderElect": False, "leaseDuration": "1s"}}),
    "... and its lock": ({}, {"leaderElection": {"leaderElect": False, "resourceLock": "foo"}}),
    "a plugin of kube-scheduler's where it runs": ({"plugins": {"score": {"enabled": plugins("VolumeBinding")},
                                                                "bind": {"enabled": plugins("DefaultBinder")}}}, {}),
    "default constraints of today": ({"pluginConfig": [{"name": "PodTopologySpread", "args": {
        "defaultingType": "List", "defaultConstraints": [SPREAD | {"nodeTaintsPolicy": "Honor"}]}}]}, {}),
    "arguments that do not say of what kind they are": ({"pluginConfig": [{"name": "VolumeBinding", "args": {
        "kind": "", "apiVersion": None}}]}, {}),
    "a queue whose order nobody changes": ({"schedulerName": "my-scheduler", "plugins": {"queueSort": {"enabled": []}}}, {}),
    "a binding that may take its time": ({"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 2**40}}]}, {}),
    "arguments of their own kind": ({"pluginConfig": [{"name": "VolumeBinding", "args": {
        "kind": "VolumeBindingArgs", "apiVersion": "kubescheduler.config.k8s.io/v1"}}]}, {}),
})
def test_what_kube_scheduler_accepts_is_accepted(profile, more):
    assert list(load(profile, **more)) == ["my-scheduler"]


def test_that_only_leases_lock_is_said():
    [policy] = load(leaderElection={"leaderElect": True, "resourceLock": "endpointsleases"}).values()
    assert "leaderElection.resourceLock: only leases are supported now, and used here" in policy.notices


@table("profile, more, said", {
    "v1alpha1's algorithm": (
        {}, {"algorithmSource": {"provider": "DefaultProvider"}},
        "algorithmSource: unknown field; leave it out for DefaultProvider; for a Policy, use --policy with its file"),
    "extenders in a profile": ({"extenders": []}, {}, "profiles[0].extenders: unknown field; use extenders beside profiles, for all "
                                                      "profiles"),
    "plugins without a point": ({"plugins": {"disabled": plugins("NodeName")}}, {}, "profiles[0].plugins.disabled: unknown field; "
                                "use multiPoint.disabled, or that of another extension point"),
    "domains of failure": ({}, {"failureDomains": "x"}, "failureDomains: unknown field; leave it out"),
    "resources of a strategy": (
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"resources": []}}]}, {},
        "profiles[0].pluginConfig[0].args.resources: unknown field; use scoringStrategy.resources"),
    "the shape of a strategy": (
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"shape": []}}}]}, {},
        "profiles[0].pluginConfig[0].args.scoringStrategy.shape: unknown field; use requestedToCapacityRatio.shape in "
        "scoringStrategy"),
    "a Policy's argument, without a word of a Policy": (
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"requestedToCapacityRatioArguments": {}}}]}, {},
        "profiles[0].pluginConfig[0].args.requestedToCapacityRatioArguments: unknown field; use NodeResourcesFit with "
        "scoringStrategy.type RequestedToCapacityRatio"),
    "a Policy's priority that packs": (
        {"plugins": {"score": {"enabled": plugins("MostRequestedPriority")}}}, {},
        'profiles[0].plugins.score.enabled[0]: unknown plugin "MostRequestedPriority"; use NodeResourcesFit with '
        "scoringStrategy.type MostAllocated"),
    "a Policy's priority by a shape": (
        {"plugins": {"score": {"enabled": plugins("RequestedToCapacityRatio")}}}, {},
        'profiles[0].plugins.score.enabled[0]: unknown plugin "RequestedToCapacityRatio"; use NodeResourcesFit with '
        "scoringStrategy.type RequestedToCapacityRatio"),
    "what Go calls a rule": (
        {"plugins": {"filter": {"enabled": plugins("PodMatchNodeSelector")}}}, {},
        'profiles[0].plugins.filter.enabled[0]: unknown plugin "PodMatchNodeSelector"; use NodeAffinity'),
    "a timeout as in a Policy": ({}, {"extenders": [{"httpTimeout": 30000000000}]},
                                 'extenders[0].httpTimeout: expected a duration, such as "30s", got 30000000000'),
})
def test_what_is_meant_is_said(profile, more, said):
    with pytest.raises(InputError) as error:
        load(profile, **more)
    assert str(error.value) == said


EXAMPLES = {  # of the arguments that say what rule a Policy's entry means
    "labelsPresence": {"labels": ["ssd"], "presence": True}, "labelPreference": {"label": "ssd", "presence": True},
    "serviceAffinity": {"labels": ["zone"]}, "serviceAntiAffinity": {"label": "zone"},
    "requestedToCapacityRatioArguments": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}
RATIO_ARGS = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": EXAMPLES["requestedToCapacityRatioArguments"]}


def fitting(**args):
    """A profile that scores by NodeResourcesFit alone, with these arguments."""
    return {"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins("NodeResourcesFit")}},
            "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}


@table("bad, obeyed, scores", {
    "the provider is left out": (configuration(algorithmSource={"provider": "DefaultProvider"}), configuration(), SCORES),
    "the plugin is left out": (
        configuration({"plugins": {"filter": {"enabled": plugins("EBSLimits", "NodeVolumeLimits")}}}),
        configuration({"plugins": {"filter": {"enabled": plugins("NodeVolumeLimits")}}}), SCORES),
    "resources stand in a strategy": (
        configuration(fitting(resources=[{"name": "cpu"}])),
        configuration(fitting(scoringStrategy={"type": "LeastAllocated", "resources": [{"name": "cpu"}]})),
        {"LeastRequestedPriority": 1}),
    "a shape stands in its own field": (
        configuration(fitting(scoringStrategy={"type": "RequestedToCapacityRatio", "shape": []})),
        configuration(fitting(scoringStrategy=RATIO_ARGS)), {"RequestedToCapacityRatio": 1}),
    "plugins are disabled at a point": (
        configuration({"plugins": {"disabled": plugins("ImageLocality")}}),
        configuration({"plugins": {"multiPoint": {"disabled": plugins("ImageLocality")}}}),
        {name: weight for name, weight in SCORES.items() if name != "ImageLocalityPriority"}),
    "what packs is a strategy": (
        configuration({"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins("MostRequestedPriority")}}}),
        configuration(fitting(scoringStrategy={"type": "MostAllocated"})), {"MostRequestedPriority": 1}),
})
def test_hints_that_are_obeyed_lead_to_what_is_accepted_and_means_the_same(bad, obeyed, scores):
    with pytest.raises(InputError):
        read_configuration(bad, "my-scheduler")
    [policy] = read_configuration(obeyed, "my-scheduler").values()
    assert rules(policy)[1] == scores and sorted(rules(policy)[0]) == sorted(FILTERS)


WEIGHTS = ("the default weight of InterPodAffinity and NodeAffinity is now 2, of TaintToleration 3 (each was 1), and the "
           "annotation preferAvoidPods has no effect")
PLUGINS_OF_OLD = {"score": {"enabled": [{"name": "NodeResourcesMostAllocated", "weight": 5}, {"name": "SelectorSpread"}],
                            "disabled": [{"name": "NodeResourcesLeastAllocated"}]}}
UNKNOWN = "profiles[0].plugins.score.enabled[{}]: unknown plugin"


@table("version, body, said", {
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
    "v1beta3, which has today's weights": ("v1beta3", {"profiles": [{"schedulerName": "mine"}]}, []),
    "one that is not as it should be": ("v1beta1", {"profiles": 7, "plugins": ["x"], "leaderElection": [{}]}, [
        WEIGHTS, "profiles: expected a list, got 7", "plugins: unknown field; use profiles[0].plugins",
        "leaderElection: expected an object, got [{}]"]),
})
def test_of_a_configuration_of_an_older_version_all_is_said_that_has_to_change(version, body, said):
    first = f'apiVersion "kubescheduler.config.k8s.io/{version}": write kubescheduler.config.k8s.io/v1'
    with pytest.raises(InputError) as error:
        read_configuration({"apiVersion": f"kubescheduler.config.k8s.io/{version}", **body}, "my-scheduler")
    assert str(error.value) == "; ".join([first, *said])


TUTORIALS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
profiles:
- schedulerName: sample-scheduler
  plugins:
    preFilter:
      enabled: [{name: sample-plugin}]
    filter:
      enabled: [{name: sample-plugin}]
  pluginConfig:
  - name: sample-plugin
    args: ARGUMENTS
- schedulerName: spacecloud
  plugins:
    preFilter:
      enabled: [{name: SpaceCloud}]
      disabled: [{name: "*"}]
    filter:
      enabled: [{name: SpaceCloud}]
      disabled: [{name: "*"}]
    reserve:
      disabled: [{name: "*"}]
    preBind:
      disabled: [{name: "*"}]
    postBind:
      disabled: [{name: "*"}]
"""


@table("arguments, said", {
    "as one place of the tutorial spells them": (
        '{favorColor: "#326CE5", favorNumber: 7, thanksTo: thockin}', "'thanksTo': 'thockin'"),
    "as another does": (
        '{favorite_color: "#326CE5", favorite_number: 7, thanks_to: thockin}', "'thanks_to': 'thockin'"),
})
def test_the_tutorials_configurations_schedule_side_by_side(control_plane, tmp_path, start_scheduler, arguments, said):
    (tmp_path / "config.yaml").write_text(TUTORIALS.replace("ARGUMENTS", arguments))
    control_plane.create(
        node("cloud", cpu="64", memory="256Gi"), node("edge", cpu="1", labels={"kubernetes.io/role": "edge"}),
        pod("space", {"cpu": "4"}, schedulerName="spacecloud", metadata={"annotations": {"type": "space"}}),
        pod("sample", {"cpu": "2"}, schedulerName="sample-scheduler"), pod("mine"))
    running = start_scheduler("--server", control_plane.server, "--plugins", RULES, "--interval=0.2",
                              "--policy", tmp_path / "config.yaml")
    wait_for("both pods are bound", lambda: len(control_plane.places()) == 2)
    assert control_plane.places() == {"default/space": "edge", "default/sample": "cloud"}, "space knows no resources"
    wait_for("each has an event", lambda: len(control_plane.events("Scheduled")) == 2)  # behind the Bindings
    assert {(key, component) for key, _, component in control_plane.events("Scheduled")} == {
        ("default/space", "spacecloud"), ("default/sample", "sample-scheduler")}
    running.terminate()
    assert running.wait(60) == 0
    assert "\nsample-scheduler, spacecloud: watching " in running.err and "has no toleration" not in running.err
    assert said in running.err and "PreBind" not in running.err


@table("disabled, said", {
    "a plugin that filters and scores": (
        {"multiPoint": {"disabled": plugins("NodeResourcesFit")}},
        ["- NodeResourcesFit (PodFitsResources)",
         '- NodeResourcesFit (LeastRequestedPriority) ×1 weights={"cpu": 1, "memory": 1}']),
    "one of its parts": ({"score": {"disabled": plugins("NodeResourcesFit")}},
                         ['- NodeResourcesFit (LeastRequestedPriority) ×1 weights={"cpu": 1, "memory": 1}']),
    "a plugin that filters": ({"filter": {"disabled": plugins("NodePorts")}}, ["- NodePorts (PodFitsHostPorts)"]),
    "the order in which plugins filter": (
        {"filter": {"enabled": plugins("VolumeZone")}},
        ["+ VolumeZone (NoVolumeZoneConflict)", "- VolumeZone (NoVolumeZoneConflict)"]),
    "a rule's functions for other extension points": (
        {"preBind": {"disabled": plugins("VolumeBinding")}},
        ["- VolumeBinding (CheckVolumeBinding) pre_bind", "+ VolumeBinding (CheckVolumeBinding)"]),
})
def test_an_edit_of_plugins_is_said_by_their_names(disabled, said, tmp_path, caplog):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configuration({})))
    file = PolicyFile(path, "my-scheduler")
    path.write_text(json.dumps(configuration({"plugins": disabled})))
    file.current()
    assert caplog.messages == [f"{path}: {line}" for line in said]


def test_an_edit_of_how_long_pods_back_off_is_obeyed_and_said(tmp_path, caplog):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configuration()))
    file = PolicyFile(path, "my-scheduler")
    for seconds in (3, 20), (4, 20), (1, 10):
        path.write_text(json.dumps(configuration(**dict(zip(("podInitialBackoffSeconds", "podMaxBackoffSeconds"), seconds)))))
        [policy] = file.current().values()
        assert (policy.initial_backoff, policy.max_backoff) == seconds
    assert [line.removeprefix(f"{path}: ") for line in caplog.messages] == [
        "+ backoff from 3 to 20 s", "- backoff from 3 to 20 s", "+ backoff from 4 to 20 s", "- backoff from 4 to 20 s"]


def test_an_edit_of_a_profile_is_said_by_its_name(tmp_path, caplog):
    path = Path(tmp_path / "config.yaml")

    def write(*profiles):
        path.write_text(json.dumps(configuration(*profiles)))

    write({"schedulerName": "a"}, {"schedulerName": "b"})
    file = PolicyFile(path, "my-scheduler")
    write({"schedulerName": "a", "plugins": {"score": {"enabled": plugins(ImageLocality=5)},
                                             "permit": {"enabled": plugins("Coscheduling")}}}, {"schedulerName": "c"})
    file.current()
    lines = [message.removeprefix(f"{path}: ") for message in caplog.messages]
    assert {"- a: ImageLocality (ImageLocalityPriority) ×1", "+ a: ImageLocality (ImageLocalityPriority) ×5",
            "+ a: Coscheduling permit"} == {line for line in lines if line[2:].startswith("a: ")}
    assert "- b: NodePorts (PodFitsHostPorts)" in lines and "+ c: NodePorts (PodFitsHostPorts)" in lines
    assert list(file.policies) == ["a", "c"]


def test_nodes_that_affinity_names_are_not_asked_for_where_the_plugin_is_disabled():
    only_a = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}}}
    feasible = [list(decide(load({"plugins": {"multiPoint": {"disabled": plugins(*disabled)}}}), pod("p", affinity=only_a),
                            node("a"), node("b")).total) for disabled in ([], ["NodeAffinity"])]
    assert feasible == [["a"], ["a", "b"]]


@pytest.fixture
def quiet_hours():
    """A rule that is said in one place: its plugin, its weight, an argument, a difference between versions."""
    @priority("QuietHoursPriority", plugin="QuietHours", by_default=3, aliases=["OldHours"],
                        argument={"hour": int}, default={"hour": 7})
    def quiet(pod, node, arguments):
        return arguments[0]["hour"]

    @override("QuietHoursPriority")
    def quiet_today(pod, node, arguments):
        return arguments[0]["hour"] + 1

    yield
    PRIORITIES.pop("QuietHoursPriority", None)
    OVERRIDES.pop("QuietHoursPriority")


def test_a_rule_is_added_and_removed_in_one_place(quiet_hours):
    documents = {"by default": {}, "by its name": {"priorities": [{"name": "QuietHoursPriority", "weight": 3}]},
                 "by another name": {"priorities": [{"name": "OldHours", "weight": 3}]}}
    for how, more in documents.items():
        policy = read_policy({"kind": "Policy", "apiVersion": "v1", **more})
        rule = policy.priorities[-1]
        assert (rule.name, rule.weight, rule.function(None, None)) == ("QuietHoursPriority", 3, 7), how
    policy = read_policy({"kind": "Policy", "apiVersion": "v1", "priorities": [
        {"name": "OldHours", "weight": 1, "argument": {"hour": 5}}]})
    assert policy.priorities[-1].function(None, None) == 5, "another name takes the same argument"
    profile = {"pluginConfig": [{"name": "QuietHours", "args": {"hour": 9}}]}
    for more, score in ({}, 8), (profile, 10):
        rule = load(more)["my-scheduler"].priorities[-1]
        assert (rule.title, rule.weight, rule.function(None, None)) == ("QuietHours", 3, score)
    assert rules(load({"plugins": {"score": {"disabled": plugins("QuietHours")}}})["my-scheduler"]) == (FILTERS, SCORES)
    del PRIORITIES["QuietHoursPriority"]
    assert rules(load()["my-scheduler"]) == (FILTERS, SCORES)
    with pytest.raises(InputError, match='unknown plugin "QuietHours"'):
        load({"plugins": {"score": {"enabled": plugins("QuietHours")}}})


def test_a_predicate_is_added_in_one_place():
    predicate("FreshNodes", plugin="Freshness", by_default=1, permit=lambda pod, node, snapshot: None)(
        lambda pod, node: ())
    try:
        assert rules(load()["my-scheduler"])[0] == [*FILTERS, "FreshNodes"]
        [policy] = load({"plugins": {"multiPoint": {"disabled": plugins("Freshness")},
                                     "permit": {"enabled": plugins("Freshness")}}}).values()
        assert rules(policy)[0] == FILTERS and [rule.name for rule in policy.others] == ["Preemption", "FreshNodes"]
        [policy] = load_policies("DefaultProvider", "my-scheduler").values()
        assert rules(policy)[0][-1] == "FreshNodes"
    finally:
        del PREDICATES["FreshNodes"]


def test_arguments_of_a_plugin_that_nobody_knows_may_be_anything():
    [policy] = load({"pluginConfig": [{"name": "Nobody", "args": {"defaultConstraints": 5}}]}).values()
    assert policy.notices == ["profiles[0].pluginConfig[0].args: the arguments of Nobody have no effect here"]


def test_a_built_in_rule_may_be_taken_out_with_its_plugin(monkeypatch):
    monkeypatch.delitem(PREDICATES, "NoVolumeZoneConflict")
    assert rules(load()["my-scheduler"])[0] == [name for name in FILTERS if name != "NoVolumeZoneConflict"]
    for policy in (read_policy({"kind": "Policy", "apiVersion": "v1"}),
                   *load_policies("DefaultProvider", "x").values()):
        assert "NoVolumeZoneConflict" not in rules(policy)[0] and len(policy.predicates) == 14


@table("more, seconds", {
    "as by default": ({}, (1, 10)),
    "as it says": ({"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 7}, (3, 7))})
def test_how_long_pods_back_off(more, seconds):
    [policy] = read_configuration(configuration(**more), "my-scheduler").values()
    assert (policy.initial_backoff, policy.max_backoff) == seconds


OF_OLD = [name for name in REPLACEMENTS if name[0].isupper()]
PLUGINS = {rule.plugin for rules in CATALOGUES.values() for rule in rules.values()}
NAMES = sorted({*OF_OLD, *PLUGINS, *PLUGIN_ORDER, *WITHOUT_EFFECT,
                *known_names("predicates"), *known_names("priorities")})


def what_is_wrong(place, name, argument):
    """Load a Policy, or a configuration, that has an entry of this name there; return what is wrong with it, or ""."""
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


def obey(said, place, name):
    """Return the place, name and argument that a hint leads to; None where there is none, or nothing to be named."""
    if found := re.search(r'did you mean "(.*?)"', said):
        return place, found[1], None
    if found := re.search(r"put it under (\w+)", said):
        return found[1], name, None
    if place in CATALOGUES:
        if found := re.search(r"in a Policy: a (\w+) of any name, with the argument (\w+)\)", said):
            return {"predicate": "predicates", "priority": "priorities"}[found[1]], "Mine", {found[2]: EXAMPLES[found[2]]}
        if found := re.search(r"needs another name, and the argument (\w+)", said):
            return place, "Mine", {found[1]: EXAMPLES[found[1]]}
        if found := re.search(r"in a Policy: (\w+)\)", said):
            return place, found[1], None
    if found := re.search(r"; use the rule (\w+) of (\S+),", said):
        assert f'@predicate("{found[1]}"' in (ROOT / found[2]).read_text()
        return None
    if re.search(r"; (leave it out$|leave it out, |use (node affinity|pod affinity|spread constraints)\b)", said):
        return None
    if found := re.search(r"; use (\w+) with scoringStrategy.type (\w+)", said):
        shape = EXAMPLES["requestedToCapacityRatioArguments"]
        more = {"requestedToCapacityRatio": shape} if found[2] == "RequestedToCapacityRatio" else {}
        return place, found[1], {"scoringStrategy": {"type": found[2], **more}}
    if found := re.search(r"; use (\w+)", said):
        return place, found[1], None
    one = "queueSort: expected one plugin, got PrioritySort, "  # a rule that sorts, and the other one is to be disabled
    assert said.endswith("is a file missing in --plugins?") or " does not " in said or one in said, "else it is a hint"
    return None


@pytest.mark.parametrize("name", [*NAMES, *(name[:-1] for name in NAMES)])
def test_each_hint_about_a_name_leads_to_something_that_works(name):
    """Wherever it is written."""
    for place in ("predicates", "priorities", "filter", "score", "multiPoint"):
        entry, said = (place, name, None), []
        while entry and (wrong := what_is_wrong(*entry)):
            assert wrong not in said and len(said) < 4, (place, said)
            said.append(wrong)
            assert said == [wrong] or not wrong.endswith("is a file missing in --plugins?"), (place, said)
            entry = obey(wrong, *entry[:2])
        assert entry is None or not wrong, (place, said)
