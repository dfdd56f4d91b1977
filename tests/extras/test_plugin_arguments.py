"""The arguments of plugins in a KubeSchedulerConfiguration, and their effects."""

import pytest

import helpers.tutorial  # noqa: F401 (registers the rules of the example)
from helpers.configuration import FILTERS, SCORES, load, plugins, rules
from helpers.extras import decide, node, pod, table
from scheduler_extras.common.election_defaults import ELECTION
from scheduler_extras.deciding.rule import PREDICATES
from scheduler_extras.policy.policy_reader import set_up
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.spreading import DEFAULT_SPREAD


def test_arguments_change_a_plugin():
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
    "a hardPodAffinityWeight of 0": (
        "InterPodAffinity", {"hardPodAffinityWeight": 0}, "InterPodAffinityPriority",
        {"hard_weight": 0, "ignores_others": False}),
    "the default hardPodAffinityWeight": (
        "InterPodAffinity", {}, "InterPodAffinityPriority", {"hard_weight": 1, "ignores_others": False}),
    "resources to balance": (
        "NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 1}, {"name": "example.com/gpu"}]},
        "BalancedResourceAllocation", {"resources": ["cpu", "example.com/gpu"]}),
    "the default resources to balance": (
        "NodeResourcesBalancedAllocation", {}, "BalancedResourceAllocation", {}),
})
def test_the_settings_of_a_rule(plugin, args, rule, settings):
    [policy] = load({"pluginConfig": [{"name": plugin, "args": args}]}).values()
    assert {rule.name: rule.settings for rule in policy.priorities}[rule] == settings


ENABLED, DISABLED = "profiles[0].plugins.{}.enabled[0]", "profiles[0].plugins.{}.disabled[0]"


@table("profile, more, notices", {
    "an empty profile": ({}, {}, []),
    "plugins without effect": (
        {"plugins": {"multiPoint": {"enabled": plugins("GangScheduling")}, "filter": {
            "enabled": plugins("NodeDeclaredFeatures")}, "score": {"enabled": plugins(DynamicResources=2)}}}, {},
        [f"{ENABLED.format('multiPoint')}: GangScheduling has no effect here",
         f"{ENABLED.format('filter')}: NodeDeclaredFeatures has no effect here",
         f"{ENABLED.format('score')}: DynamicResources has no effect here"]),
    "a plugin without effect is disabled": ({"plugins": {"multiPoint": {"disabled": plugins("DynamicResources")}}}, {}, []),
    "an unknown plugin is disabled": (
        {"plugins": {"filter": {"disabled": plugins("NodePort")}}}, {},
        [f'{DISABLED.format("filter")}: there is no plugin "NodePort"; did you mean "NodePorts"?']),
    "a predicate's name is disabled": (
        {"plugins": {"filter": {"disabled": plugins("PodFitsResources")}}}, {},
        [f'{DISABLED.format("filter")}: there is no plugin "PodFitsResources"; did you mean "NodeResourcesFit"?']),
    "another project's plugin is disabled": (
        {"plugins": {"score": {"disabled": plugins("Yesteryear")}}}, {},
        [f'{DISABLED.format("score")}: there is no plugin "Yesteryear"']),
    "a removed plugin is disabled": (
        {"plugins": {"filter": {"disabled": plugins("EBSLimits")}}}, {},
        [f'{DISABLED.format("filter")}: there is no plugin "EBSLimits"; leave it out, NodeVolumeLimits replaces it']),
    "a removed plugin without a direct replacement is disabled": (
        {"plugins": {"score": {"disabled": plugins("NodePreferAvoidPods")}}}, {},
        [f'{DISABLED.format("score")}: there is no plugin "NodePreferAvoidPods"; leave it out']),
    "fields without effect": (
        {"percentageOfNodesToScore": 50}, {"percentageOfNodesToScore": 0, "parallelism": 16, "clientConnection": {"qps": 5},
                                           "enableProfiling": True},
        ["no effect here: clientConnection, parallelism, enableProfiling, percentageOfNodesToScore"]),
    "arguments without effect": (
        {"pluginConfig": [{"name": "NodePorts", "args": {"ports": 600}}]}, {},
        ["profiles[0].pluginConfig[0].args: the arguments of NodePorts have no effect here"]),
    "arguments of a plugin with a typo": (
        {"pluginConfig": [{"name": "NodeResourceFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]}, {},
        ['profiles[0].pluginConfig[0].args: the arguments of NodeResourceFit have no effect here; '
         'did you mean "NodeResourcesFit"?']),
    "arguments with only their kind": (
        {"pluginConfig": [{"name": "DefaultPreemption", "args": {"kind": "DefaultPreemptionArgs"}}]}, {}, []),
    "extension points for gangs": ({"plugins": {"placementScore": {}, "placementGenerate": {}}}, {}, []),
})
def test_entries_without_effect_give_a_notice(profile, more, notices):
    [policy] = load(profile, **more).values()
    assert policy.notices == notices


def test_arguments_of_a_removed_plugin_are_no_error_in_kube_scheduler():
    """There are four exceptions: see the rows of validatePluginConfig in test_configuration_checks.py."""
    [policy] = load({"pluginConfig": [{"name": "NodeLabel", "args": {"presentLabels": ["ssd"]}}]}).values()
    assert policy.notices == [
        "profiles[0].pluginConfig[0].args: the arguments of NodeLabel have no effect here; use node affinity"]


@table("ignored, args, reasons", {
    "a resource that is ignored for an extender": (True, {}, []),
    "a resource of an extender that is not ignored": (False, {}, ["Insufficient example.com/fpga"]),
    "the extender takes precedence over ignoredResources": (
        True, {"ignoredResources": ["example.com/gpu"]}, ["Insufficient example.com/gpu"]),
    "... but not over ignoredResourceGroups": (True, {"ignoredResourceGroups": ["example.com"]}, []),
})
def test_resources_that_extenders_manage_are_not_checked(ignored, args, reasons):
    wanted = {"example.com/fpga": "1"} | ({"example.com/gpu": "1"} if args else {})
    [policy] = load({"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}, extenders=[
        {"urlPrefix": "http://x", "managedResources": [{"name": "example.com/fpga", "ignoredByScheduler": ignored}]}]).values()
    fits = {rule.name: rule for rule in policy.predicates}["PodFitsResources"]
    assert list(fits.function(FullPod(pod("p", wanted)), FullNode(node("n")))) == reasons


SSD, FAST = ({"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]} for value in ("ssd", "nvme"))


def test_a_setting_without_a_parameter_is_an_error():
    with pytest.raises(TypeError, match="HostName has no setting hard_weight"):
        set_up(PREDICATES["HostName"], "HostName", "predicates[0]", 1, {"hard_weight": 1})


@table("added, failed, scores", {
    "no added affinity": ({}, {}, {"hdd": 0, "nvme": 0, "ssd": 0}),
    "required: a node must match one of the terms": (
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [SSD, FAST]}},
        {"hdd": "node(s) didn't match scheduler-enforced node affinity"}, {"nvme": 0, "ssd": 0}),
    "required without terms: no node matches": (
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}},
        dict.fromkeys(["hdd", "nvme", "ssd"], "node(s) didn't match scheduler-enforced node affinity"), None),
    "preferred: the weights are added to those of the pod": (
        {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": FAST},
                                                             {"weight": 3, "preference": SSD}]},
        {}, {"hdd": 0, "nvme": 200, "ssd": 120}),
})
def test_added_affinity(added, failed, scores):
    policies = load({"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": added}}]})
    decision = decide(policies, pod("p"), *(node(disk, labels={"disk": disk}) for disk in ("hdd", "nvme", "ssd")))
    assert {name: reason for name, against in decision.failed.items() for [reason] in against.values()} == failed
    assert decision.scores.get("NodeAffinity") == scores


@table("ignored, prefers, score", {
    "preferences of existing pods count": (False, False, 200),
    "... but not if they are ignored": (True, False, 0),
    "... unless the pod has preferences, too": (True, True, 200),
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
    "no default constraints": ({"defaultingType": "List"}, ["a", "b"], False),
    "a custom ScheduleAnyway constraint": ({"defaultingType": "List", "defaultConstraints": [
        {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}]}, ["a", "b"], False),
    "a custom DoNotSchedule constraint": ({"defaultingType": "List", "defaultConstraints": [
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
    "the System constraints do not require the labels": ({}, {"a": 44, "b": 200}),
    "the same constraints in a List require them": (
        {"defaultingType": "List", "defaultConstraints": DEFAULT_SPREAD}, {"a": 200, "b": 0}),
})
def test_a_node_without_a_zone_and_default_spread_constraints(args, scores):
    policies = load({"pluginConfig": [{"name": "PodTopologySpread", "args": args}]})
    service = {"kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}
    labels = {"a": {"kubernetes.io/hostname": "a", "topology.kubernetes.io/zone": "z"}, "b": {"kubernetes.io/hostname": "b"}}
    web = {"app": "web"}
    decision = decide(policies, pod("p", labels=web), service, pod("there", labels=web, nodeName="a"),
                      *(node(name, labels=labels[name]) for name in "ab"))
    assert decision.scores["PodTopologySpread"] == scores


def test_each_argument_of_a_plugin_is_used_by_a_rule():
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


def test_arguments_of_plugins_without_arguments_are_no_error():
    [policy] = load({"pluginConfig": [{"name": "NodeName", "args": {"x": 1}}, {"name": "Nobody", "args": {"x": 1}},
                                       {"name": "NodePorts", "args": {}}]}).values()
    assert rules(policy) == (FILTERS, SCORES)


@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated"])
def test_the_weights_of_resources(kind):
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
    "the defaults of kube-scheduler": ({}, (15, 10, 2)),
    "other times": ({"leaseDuration": "1m30s", "retryPeriod": "500ms"}, (90, 10, 0.5)),
    "zero means the default": ({"leaseDuration": "0s", "renewDeadline": "0"}, (15, 10, 2)),
})
def test_the_times_of_leader_election(times, seconds):
    election = load(leaderElection={"leaderElect": True, **times})["my-scheduler"].election
    assert election["leaderElect"] and tuple(election[name] for name in ELECTION) == seconds


def test_arguments_of_an_unknown_plugin_are_not_validated():
    [policy] = load({"pluginConfig": [{"name": "Nobody", "args": {"defaultConstraints": 5}}]}).values()
    assert policy.notices == ["profiles[0].pluginConfig[0].args: the arguments of Nobody have no effect here"]
