"""The rules of scheduler_extras/examples/tutorial_rules.py, and the policies of the tutorial."""

import json
from collections import Counter

import helpers.tutorial  # noqa: F401 (registers the rules of the example)
from helpers.extras import decide, node, pod, run_scheduler, table
from helpers.policies import load_policies
from helpers.spy import RULES, SAMPLE, built, policy


def terminating(name, **options):
    return pod(name, metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"}, **options)


def test_pod_capacity_of_node():
    """Three nodes of capacity 110: one full, one with 13 pods of which 3 are terminating, one empty."""
    full = [pod(f"a-{i}", nodeName="a") for i in range(110)]
    some = [pod(f"b-{i}", nodeName="b") for i in range(10)] + [terminating(f"t-{i}", nodeName="b") for i in range(3)]
    decision = decide(built((), ["PodCapacityOfNode"]), pod("p"), node("a"), node("b"), node("c"), *full, *some)
    assert decision.total == {"a": 0, "b": 88, "c": 100}


@table("counts, raw, points", {
    "equal nodes all get 0": ([1, 1], [90, 90], [0, 0]),
    "the lowest becomes 0, the highest 100": ([4, 0, 1], [60, 100, 90], [0, 100, 75]),
    "more pods than there is room for are below 0 at first": ([12, 0], [-20, 100], [0, 100]),
})
def test_pod_capacity_of_node_normalises(counts, raw, points):
    others = [pod(f"{name}-{i}", nodeName=name) for name, count in zip("abc", counts) for i in range(count)]
    decision = decide(built((), ["PodCapacityOfNode"]), pod("p"), *others,
                      *(node(name, pods="10") for name, _ in zip("abc", counts)))
    assert list(decision.raw["PodCapacityOfNode"].values()) == raw
    assert list(decision.total.values()) == points


def test_pod_capacity_of_node_counts_nominated_and_terminating_pods(control_plane, tmp_path, start_scheduler):
    """node-a has two terminating pods, node-b a running one, node-c a nominated one and one with the same host port."""
    port = [{"name": "c", "image": "i", "ports": [{"containerPort": 8080, "hostPort": 8080, "protocol": "TCP"}]}]
    finalizer = {"finalizers": ["example.com/stay"]}
    control_plane.create(
        node("node-a"), node("node-b"), node("node-c", labels={"nominated": "true"}), pod("a-1", metadata=finalizer),
        pod("a-2", metadata=finalizer), pod("b-1"), pod("holder", containers=port),
        pod("nominated", schedulerName="other", nodeSelector={"nominated": "true"}, containers=port))
    for name, place in {"a-1": "node-a", "a-2": "node-a", "b-1": "node-b", "holder": "node-c"}.items():
        control_plane.bind(name, place)
    for name in ("a-1", "a-2"):
        control_plane.request("DELETE", f"namespaces/default/pods/{name}")
    control_plane.request("PATCH", "namespaces/default/pods/nominated/status", {"status": {
        "nominatedNodeName": "node-c"}}, headers={"Content-Type": "application/merge-patch+json"})
    control_plane.create(pod("chosen", nodeSelector={"nominated": "true"}), pod("free"))
    (tmp_path / "policy.json").write_text(json.dumps(policy(["MatchNodeSelector"], ["PodCapacityOfNode"])))
    arguments = ["--server", control_plane.server, "--plugins", RULES, "--policy", tmp_path / "policy.json"]
    record = json.loads(run_scheduler(*arguments, "--explain", "free", "--output=json").stdout)
    assert record["raw"] == {"PodCapacityOfNode": {"node-a": 98, "node-b": 99, "node-c": 98}}
    assert record["total"] == {"node-a": 0, "node-b": 100, "node-c": 0}
    assert run_scheduler(*arguments, "--once").returncode == 0
    assert {name: control_plane.placements()[f"default/{name}"] for name in ("chosen", "free")} == {
        "chosen": "node-c", "free": "node-b"}
    for name in ("a-1", "a-2"):
        control_plane.request("PATCH", f"namespaces/default/pods/{name}", {"metadata": {"finalizers": None}},
                              headers={"Content-Type": "application/merge-patch+json"})


def test_the_tutorials_rules_together_on_a_real_cluster(control_plane, tmp_path):
    (tmp_path / "policy.json").write_text(json.dumps(policy(
        ["CustomPredicatePolicy", "SpaceCloud", {"name": "sample-plugin", "argument": SAMPLE}],
        [{"name": "CustomPriorityPolicy", "weight": 2}])))
    control_plane.create(
        node("short"), node("the-longest-name"), node("edge", labels={"kubernetes.io/role": "edge"}),
        pod("named", labels={"node": "short"}), pod("space", metadata={"annotations": {"type": "space"}}), pod("any"),
        pod("lost", labels={"node": "nowhere"}))
    run = run_scheduler("--server", control_plane.server, "--plugins", RULES, "--policy", tmp_path / "policy.json",
                        "--once")
    assert run.returncode == 0
    assert control_plane.placements() == {
        "default/named": "short", "default/space": "edge", "default/any": "the-longest-name"}
    assert f"PreFilter default/any: 3 nodes, arguments [{SAMPLE}]" in run.stderr
    assert "PreBind default/any: the-longest-name" in run.stderr and "PreBind default/lost" not in run.stderr
    assert [message for _, message, _ in control_plane.events("FailedScheduling")] == [
        "0/3 nodes are available: 3 node(s) were not the one that the pod names."]


@table("provider, place", {
    "DefaultProvider spreads": ("DefaultProvider", "empty"),
    "ClusterAutoscalerProvider packs": ("ClusterAutoscalerProvider", "busy"),
})
def test_algorithm_providers_on_a_real_cluster(control_plane, provider, place):
    control_plane.create(node("busy"), node("empty"), pod("other", {"cpu": "2", "memory": "4Gi"}),
                         pod("p", {"cpu": "1", "memory": "2Gi"}))
    control_plane.bind("other", "busy")
    assert run_scheduler("--server", control_plane.server, "--policy", provider, "--once").returncode == 0
    assert control_plane.placements()["default/p"] == place


@table("annotations, feasible", {
    "a space pod runs at the edge only": ({"type": "space"}, ["edge"]),
    "another type runs everywhere": ({"type": "ground"}, ["cloud", "edge"]),
    "no type, too": ({}, ["cloud", "edge"]),
})
def test_space_cloud(annotations, feasible):
    decision = decide(built(["SpaceCloud"]), pod("p", metadata={"annotations": annotations}),
                      node("edge", labels={"kubernetes.io/role": "edge"}), node("cloud"))
    assert list(decision.total) == feasible


def test_the_random_scheduler_is_a_policy_of_two_lists():
    policies = built([], ["RandomPriority"])
    placements = Counter(decide(policies, pod("p"), node("a"), node("b"), node("c")).node for _ in range(60))
    assert set(placements) == {"a", "b", "c"}


def test_algorithm_providers_have_the_built_in_rules():
    [[default], [autoscaler]] = [load_policies(name, "my-scheduler").values()
                                 for name in ("DefaultProvider", "ClusterAutoscalerProvider")]
    assert len(default.predicates) == len(autoscaler.predicates) == 15
    names = [{rule.name: rule.weight for rule in policy.priorities} for policy in (default, autoscaler)]
    assert names[0].pop("LeastRequestedPriority") == names[1].pop("MostRequestedPriority") == 1
    assert names[0] == names[1] and len(names[0]) == 7
