"""KubeSchedulerConfiguration: profiles, the plugins that run at each extension point, and edits."""

import json
from pathlib import Path

import pytest

import helpers.tutorial  # noqa: F401 (registers the rules of the example)
from helpers.configuration import (
    FILTERS,
    RULES,
    SCORES,
    configuration,
    load,
    plugins,
    read_configuration,
    rules,
)
from helpers.control_plane import wait_for
from helpers.extras import cluster_of, decide, node, pending_pods, pod, table
from helpers.policies import load_policies
from scheduler_extras.common.errors import InputError
from scheduler_extras.configuration.overrides.registry import OVERRIDES, override
from scheduler_extras.deciding.rule import PREDICATES, PRIORITIES, FullRule
from scheduler_extras.policy.own_rules import predicate, priority
from scheduler_extras.policy.policy_file import PolicyFile
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod


def test_the_default_plugins():
    policy = load()["my-scheduler"]
    assert rules(policy) == (FILTERS, SCORES) and not policy.always_check_all


@table("points, filters", {
    "enabled plugins come after the defaults": (
        {"filter": {"enabled": plugins("SpaceCloud")}}, [*FILTERS, "SpaceCloud"]),
    "disabled plugins are removed": (
        {"filter": {"disabled": plugins("NodeName", "NodePorts")}},
        [name for name in FILTERS if name not in ("HostName", "PodFitsHostPorts")]),
    "* disables all defaults": (
        {"filter": {"disabled": plugins("*"), "enabled": plugins("NodePorts", "NodeName")}},
        ["PodFitsHostPorts", "HostName"]),
    "an unknown plugin may be disabled": ({"filter": {"disabled": plugins("Yesteryear")}}, FILTERS),
    "* at another point changes nothing": ({"score": {"disabled": plugins("*")}}, FILTERS),
    "a plugin that is enabled only at another point does not filter": (
        {"permit": {"enabled": plugins("Coscheduling")}}, FILTERS),
})
def test_plugins_enabled_and_disabled(points, filters):
    assert rules(load({"plugins": points})["my-scheduler"])[0] == filters


@table("points, filters", {
    "a multiPoint plugin runs at all its points, after the defaults": (
        {"multiPoint": {"enabled": plugins("SpaceCloud")}}, [*FILTERS, "SpaceCloud"]),
    "all defaults can be disabled at multiPoint": (
        {"multiPoint": {"enabled": plugins("PrioritySort", "DefaultBinder", "SpaceCloud"), "disabled": plugins("*")}},
        ["SpaceCloud"]),
    "a multiPoint plugin can be disabled at a point": (
        {"multiPoint": {"enabled": plugins("SpaceCloud")}, "filter": {"disabled": plugins("SpaceCloud")}}, FILTERS),
    "plugins that are enabled at the point come first": (
        {"filter": {"enabled": plugins("VolumeZone")}},
        ["NoVolumeZoneConflict", *(name for name in FILTERS if name != "NoVolumeZoneConflict")]),
    "a plugin that is disabled and enabled at the point comes last": (
        {"filter": {"disabled": plugins("NodePorts"), "enabled": plugins("NodePorts")}},
        [*(name for name in FILTERS if name != "PodFitsHostPorts"), "PodFitsHostPorts"]),
    "after * the order is that of the enabled plugins": (
        {"filter": {"disabled": plugins("*"), "enabled": plugins("SpaceCloud", "NodePorts")}},
        ["SpaceCloud", "PodFitsHostPorts"]),
})
def test_multi_point(points, filters):
    assert rules(load({"plugins": points})["my-scheduler"])[0] == filters


@table("profile, scores", {
    "a weight": ({"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins(NodeAffinity=7)}}},
                 {"NodeAffinityPriority": 7}),
    "a weight of a default plugin": (
        {"plugins": {"score": {"enabled": plugins(TaintToleration=9), "disabled": plugins(
            "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality",
            "InterPodAffinity")}}},
        {"TaintTolerationPriority": 9, "SelectorSpreadPriority": 2}),
    "the default weight is 1": ({"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins("PodCapacityOfNode")}}},
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


ALONE = {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}, {"name": "DefaultBinder"}]}}


OFF = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}


@table("plugins, active", {
    "DefaultPreemption runs by default": ({}, ["Preemption"]),
    "DefaultPreemption is enabled": ({"postFilter": {"enabled": [{"name": "DefaultPreemption"}]}}, ["Preemption"]),
    "DefaultPreemption is disabled": (OFF, []),
    "DefaultPreemption is disabled at multiPoint": ({"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}, []),
    "all plugins are disabled": (ALONE, []),
    "all plugins except DefaultPreemption are disabled": (ALONE | {"postFilter": {"enabled": [{"name": "DefaultPreemption"}]}}, ["Preemption"])})
def test_a_configuration_preempts_unless_the_plugin_is_disabled(plugins, active):
    [policy] = load({"plugins": plugins}).values()
    assert [rule.name for rule in policy.rules_with["post_filter"]] == active
    assert [rule.name for rule in policy.rules() if rule.name == "Preemption"] == active


@table("plugins, message", {
    "a Policy": (None, True), "a Policy with a custom post_filter": ("Helps", False),
    "a configuration with preemption": ({}, False), "a configuration with preemption disabled": (OFF, False)})
def test_a_warning_is_logged_if_kube_scheduler_would_preempt(plugins, message, monkeypatch, caplog):
    def helps(pod, node):
        yield "no"

    rule = FullRule("Helps", helps, hooks={"post_filter": lambda *_: None}, plugin="Helps")
    monkeypatch.setitem(PREDICATES, "Helps", rule)
    if isinstance(plugins, dict):
        policies = load({"plugins": plugins})
    else:
        also = [plugins] if plugins else []
        policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1"}, also)}
    cluster = cluster_of(pod("p", {"cpu": "3"}, priority=7), pod("less", {"cpu": "3"}, nodeName="n"), node("n"))
    [waiting] = pending_pods(cluster, policies)
    snapshot = cluster.refresh_snapshot(policies)
    policies["my-scheduler"].run_post_filter(schedule(waiting, snapshot, policies["my-scheduler"]), snapshot)
    assert ("less important pods to place default/p;" in caplog.text) == message


VOLUMES, TAINTS = "leave it out, NodeVolumeLimits replaces it", "use TaintToleration, and taints on the nodes"


@table("point, name, hint", {
    "EBSLimits": ("filter", "EBSLimits", VOLUMES), "GCEPDLimits": ("filter", "GCEPDLimits", VOLUMES),
    "AzureDiskLimits": ("multiPoint", "AzureDiskLimits", VOLUMES), "CinderLimits": ("filter", "CinderLimits", VOLUMES),
    "NodePreferAvoidPods": ("score", "NodePreferAvoidPods", TAINTS),
    "NodeLabel": ("score", "NodeLabel", "use node affinity"), "ServiceAffinity": ("filter", "ServiceAffinity", "use pod affinity")})
def test_removed_plugins_are_rejected_with_a_hint(point, name, hint):
    with pytest.raises(InputError) as error:
        load({"plugins": {point: {"enabled": plugins(name)}}})
    assert str(error.value) == f'profiles[0].plugins.{point}.enabled[0]: unknown plugin "{name}"; {hint}'


@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated"])
def test_a_resource_that_neither_the_node_nor_the_pod_has_scores_0(kind):
    [policy] = load({"plugins": {"score": {"disabled": plugins("*"), "enabled": plugins("NodeResourcesFit")}},
                     "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
                         "type": kind, "resources": [{"name": "example.com/gpu"}]}}}]}).values()
    assert policy.priorities[0].function(FullPod(pod("p")), FullNode(node("n"))) == 0


def test_an_unknown_plugin_is_an_error_at_any_point():
    with pytest.raises(InputError, match="permit.enabled.0.: unknown plugin"):
        load({"plugins": {"permit": {"enabled": plugins("Nobody")}}})


@table("timeout, seconds", {
    "minutes and seconds": ("1m30s", 90), "microseconds": ("500us", 0.0005), "zero": ("0", 5), "a sign": ("+15s", 15),
    "a Policy's nanoseconds": ("30000000000ns", 30), "no digit before the point": (".5m", 30), "microseconds with a Greek mu": ("500μs", 0.0005)})
def test_timeouts_of_extenders_are_durations(timeout, seconds):
    [policy] = load(extenders=[{"urlPrefix": "http://x", "filterVerb": "filter", "httpTimeout": timeout,
                                "enableHTTPS": True}]).values()
    assert [(extender.endpoint.timeout, extender.endpoint.session.verify) for extender in policy.extenders] == [(seconds, False)]


def test_a_custom_rule_runs_only_at_the_points_where_it_is_enabled():
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


@table("arguments, message", {
    "in the tutorial's camel case": (
        '{favorColor: "#326CE5", favorNumber: 7, thanksTo: thockin}', "'thanksTo': 'thockin'"),
    "in the tutorial's snake case": (
        '{favorite_color: "#326CE5", favorite_number: 7, thanks_to: thockin}', "'thanks_to': 'thockin'"),
})
def test_two_profiles_of_tutorials_schedule_side_by_side(control_plane, tmp_path, start_scheduler, arguments, message):
    (tmp_path / "config.yaml").write_text(TUTORIALS.replace("ARGUMENTS", arguments))
    control_plane.create(
        node("cloud", cpu="64", memory="256Gi"), node("edge", cpu="1", labels={"kubernetes.io/role": "edge"}),
        pod("space", {"cpu": "4"}, schedulerName="spacecloud", metadata={"annotations": {"type": "space"}}),
        pod("sample", {"cpu": "2"}, schedulerName="sample-scheduler"), pod("mine"))
    running = start_scheduler("--server", control_plane.server, "--plugins", RULES, "--interval=0.2",
                              "--policy", tmp_path / "config.yaml")
    wait_for("both pods are bound", lambda: len(control_plane.placements()) == 2)
    assert control_plane.placements() == {"default/space": "edge", "default/sample": "cloud"}, "SpaceCloud does not check resources"
    wait_for("each has an event", lambda: len(control_plane.events("Scheduled")) == 2)  # they follow the Bindings
    assert {(key, component) for key, _, component in control_plane.events("Scheduled")} == {
        ("default/space", "spacecloud"), ("default/sample", "sample-scheduler")}
    running.terminate()
    assert running.wait(60) == 0
    assert "\nsample-scheduler, spacecloud: watching " in running.err and "has no toleration" not in running.err
    assert message in running.err and "PreBind" not in running.err


@table("disabled, message", {
    "a plugin that filters and scores": (
        {"multiPoint": {"disabled": plugins("NodeResourcesFit")}},
        ["- NodeResourcesFit (PodFitsResources)",
         '- NodeResourcesFit (LeastRequestedPriority) ×1 weights={"cpu": 1, "memory": 1}']),
    "only the score of a plugin": ({"score": {"disabled": plugins("NodeResourcesFit")}},
                         ['- NodeResourcesFit (LeastRequestedPriority) ×1 weights={"cpu": 1, "memory": 1}']),
    "a plugin that filters": ({"filter": {"disabled": plugins("NodePorts")}}, ["- NodePorts (PodFitsHostPorts)"]),
    "the order of filter plugins": (
        {"filter": {"enabled": plugins("VolumeZone")}},
        ["+ VolumeZone (NoVolumeZoneConflict)", "- VolumeZone (NoVolumeZoneConflict)"]),
    "a rule's hook at another extension point": (
        {"preBind": {"disabled": plugins("VolumeBinding")}},
        ["- VolumeBinding (CheckVolumeBinding) pre_bind", "+ VolumeBinding (CheckVolumeBinding)"]),
})
def test_an_edit_of_plugins_is_logged_with_their_names(disabled, message, tmp_path, caplog):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configuration({})))
    file = PolicyFile(path, "my-scheduler")
    path.write_text(json.dumps(configuration({"plugins": disabled})))
    file.reload_if_changed()
    assert caplog.messages == [f"{path}: {line}" for line in message]


def test_an_edit_of_the_backoff_takes_effect_and_is_logged(tmp_path, caplog):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configuration()))
    file = PolicyFile(path, "my-scheduler")
    for seconds in (3, 20), (4, 20), (1, 10):
        path.write_text(json.dumps(configuration(**dict(zip(("podInitialBackoffSeconds", "podMaxBackoffSeconds"), seconds)))))
        [policy] = file.reload_if_changed().values()
        assert (policy.initial_backoff, policy.max_backoff) == seconds
    assert [line.removeprefix(f"{path}: ") for line in caplog.messages] == [
        "+ backoff from 3 to 20 s", "- backoff from 3 to 20 s", "+ backoff from 4 to 20 s", "- backoff from 4 to 20 s"]


def test_an_edit_of_a_profile_is_logged_with_its_name(tmp_path, caplog):
    path = Path(tmp_path / "config.yaml")

    def write(*profiles):
        path.write_text(json.dumps(configuration(*profiles)))

    write({"schedulerName": "a"}, {"schedulerName": "b"})
    file = PolicyFile(path, "my-scheduler")
    write({"schedulerName": "a", "plugins": {"score": {"enabled": plugins(ImageLocality=5)},
                                             "permit": {"enabled": plugins("Coscheduling")}}}, {"schedulerName": "c"})
    file.reload_if_changed()
    lines = [message.removeprefix(f"{path}: ") for message in caplog.messages]
    assert {"- a: ImageLocality (ImageLocalityPriority) ×1", "+ a: ImageLocality (ImageLocalityPriority) ×5",
            "+ a: Coscheduling permit"} == {line for line in lines if line[2:].startswith("a: ")}
    assert "- b: NodePorts (PodFitsHostPorts)" in lines and "+ c: NodePorts (PodFitsHostPorts)" in lines
    assert list(file.policies) == ["a", "c"]


def test_node_names_in_affinity_are_ignored_if_the_plugin_is_disabled():
    only_a = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}}}
    feasible = [list(decide(load({"plugins": {"multiPoint": {"disabled": plugins(*disabled)}}}), pod("p", affinity=only_a),
                            node("a"), node("b")).total) for disabled in ([], ["NodeAffinity"])]
    assert feasible == [["a"], ["a", "b"]]


@pytest.fixture
def quiet_hours():
    """A rule with a plugin, a weight, an argument, and an override for 1.36, defined in one place."""
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
    assert policy.priorities[-1].function(None, None) == 5, "the alias takes the same argument"
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


def test_a_built_in_rule_can_be_removed_with_its_plugin(monkeypatch):
    monkeypatch.delitem(PREDICATES, "NoVolumeZoneConflict")
    assert rules(load()["my-scheduler"])[0] == [name for name in FILTERS if name != "NoVolumeZoneConflict"]
    for policy in (read_policy({"kind": "Policy", "apiVersion": "v1"}),
                   *load_policies("DefaultProvider", "x").values()):
        assert "NoVolumeZoneConflict" not in rules(policy)[0] and len(policy.predicates) == 14


@table("more, seconds", {
    "the default": ({}, (1, 10)),
    "configured": ({"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 7}, (3, 7))})
def test_the_backoff_of_a_configuration(more, seconds):
    [policy] = read_configuration(configuration(**more), "my-scheduler").values()
    assert (policy.initial_backoff, policy.max_backoff) == seconds
