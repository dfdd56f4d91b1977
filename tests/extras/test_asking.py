"""For which nodes and pods a rule runs again, and for which its cached answers are used."""

import copy
import dataclasses
import gc
import json
import tracemalloc

import pytest

from helpers.extras import ROOT, claim, cluster_of, new_cluster, node, pending_pods, pod, storage_class, table
from helpers.policies import load_policies
from helpers.random_objects import HOSTNAME, POLICIES, ZONE, Server, everything
from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.deciding import answers
from scheduler_extras.deciding.decision import Vote
from scheduler_extras.deciding.recorded_reads import signature
from scheduler_extras.deciding.rule import (
    CATALOGUES,
    DURING_SCHEDULING,
    PREDICATES,
    PRIORITIES,
    SKIP,
    FullRule,
)
from scheduler_extras.live.pod_record import PodRecord
from scheduler_extras.policy.extenders import Extender
from scheduler_extras.policy.own_rules import predicate, priority
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.pods_and_nodes import FullPod


pytestmark = pytest.mark.usefixtures("changing_rules")


def test_a_predicate_that_reads_nothing_of_a_node_runs_once_for_all_nodes_and_similar_pods():
    """PodFitsHostPorts is such a predicate, if the pod has no host ports."""
    asked = []

    @predicate("Quiet", steady=True)
    def quiet(pod, node):
        """Pods with a team need a node of that team."""
        asked.append(pod.name if pod.labels.get("team") else "")
        if pod.labels.get("team", node.labels.get("team") if "team" in pod.labels else None):
            yield "no" if node.labels.get("team") != pod.labels["team"] else "yes"

    try:
        policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Quiet"}], "priorities": []})
        snapshot = cluster_of(*(node(f"n{i}") for i in range(9))).refresh_snapshot({"my-scheduler": policy})
        for i in range(5):
            assert schedule(FullPod(pod(f"p{i}")), snapshot, policy).node
        assert asked == [""]
        assert not schedule(FullPod(pod("q", labels={"team": "a"})), snapshot, policy).node
        assert len(asked) == 10  # once for each node
    finally:
        PREDICATES.pop("Quiet")


@table("reads, count", {
    "a value that many nodes share": (lambda node: node.unschedulable, 2),
    "more attributes of some nodes than of others": (lambda node: not node.unschedulable or node.name == "n7", 1 + 4),
    "an attribute that is not hashable": (lambda node: node.unschedulable or "a" in node.labels, 9),
})
def test_a_rule_runs_once_for_nodes_that_are_equal_in_all_attributes_that_it_reads(reads, count):
    calls = []

    def function(pod, node):
        """Count the calls."""
        calls.append(None)
        return ["no"] if reads(node) else []

    policy = FullPolicy([FullRule("Reads", function, title="Reads", steady=True)], [])
    snapshot = cluster_of(*(node(f"n{i}", unschedulable=bool(i % 2)) for i in range(9))).refresh_snapshot({"my-scheduler": policy})
    decision = schedule(FullPod(pod("p")), snapshot, policy)
    assert len(calls) == count
    assert [*decision.failed] == [name for name, each in snapshot.nodes.items() if reads(each)]


def test_totals_are_not_shared_between_different_rules(monkeypatch):
    """Each of two priorities scores only one of two pods, and neither reads an attribute of the pod."""
    def wants(what):
        return lambda pod, nodes, snapshot: what if pod.annotations.get("wants") == what else SKIP

    for what in ("ssd", "gpu"):
        monkeypatch.setitem(PRIORITIES, what, None)
        del PRIORITIES[what]
        priority(what, metadata=wants(what), steady=True)(lambda pod, node, metadata: 100 if metadata in node.labels else 0)
    policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [
        {"name": "ssd", "weight": 1}, {"name": "gpu", "weight": 1}]})
    snapshot = cluster_of(node("a", labels={"ssd": ""}), node("b", labels={"gpu": ""})).refresh_snapshot({"my-scheduler": policy})
    for what, total in (("ssd", {"a": 100, "b": 0}), ("gpu", {"a": 0, "b": 100})) * 2:
        waiting = FullPod(pod("p", metadata={"annotations": {"wants": what}}))
        assert schedule(waiting, snapshot, policy).total == total


def test_a_property_that_raises_does_not_affect_pods_for_which_no_rule_reads_it(monkeypatch):
    monkeypatch.setattr(FullPod, "team", property(lambda pod: pod.raw["metadata"]["labels"]["team"]), raising=False)
    monkeypatch.setitem(PREDICATES, "HostName", dataclasses.replace(
        PREDICATES["HostName"], function=lambda pod, node: [pod.team] if pod.namespace == "teams" else []))
    policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "HostName"}], "priorities": []})
    snapshot = cluster_of(node("a")).refresh_snapshot({"my-scheduler": policy})
    decisions = [schedule(FullPod(each), snapshot, policy) for each in (
        pod("p", namespace="teams", labels={"team": "red"}), pod("p"), pod("p", namespace="teams", labels={"team": "blue"}))]
    assert [decision.failed.message if decision.failed else decision.node for decision in decisions] == [
        "0/1 nodes are available: 1 red.", "a", "0/1 nodes are available: 1 blue."]


def test_a_node_object_in_metadata_is_not_confused_with_others(monkeypatch):
    monkeypatch.setitem(PRIORITIES, "Chosen", None)
    del PRIORITIES["Chosen"]
    priority("Chosen", metadata=lambda pod, nodes, snapshot: nodes[0], steady=True)(
        lambda pod, node, metadata: 100 * (node is metadata))
    policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [{"name": "Chosen", "weight": 1}]})
    snapshot = cluster_of(node("a"), node("b")).refresh_snapshot({"my-scheduler": policy})
    assert schedule(FullPod(pod("p")), snapshot, policy).total == {"a": 100, "b": 0}


def test_attributes_that_a_rule_reads_when_it_raises_do_not_count():
    """Here, it reads the pod's name for the message; pods still share cached answers."""
    asked = []

    @predicate("Fails", steady=True)
    def fails(pod, node):
        """Pods without requests raise an error."""
        asked.append(node.name)
        if pod.requests["cpu"] == 0:
            raise Unschedulable(f"{pod.name} asks for nothing")
        return []

    try:
        policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Fails"}], "priorities": []})
        snapshot = cluster_of(node("a"), node("b")).refresh_snapshot({"my-scheduler": policy})
        messages = [schedule(FullPod(pod(name, requests)), snapshot, policy).message
                    for name, requests in (("p", {}), ("q", {"cpu": "1"}), ("r", {"cpu": "1"}), ("s", {}), ("t", {"cpu": "1"}))]
        assert messages == ["p asks for nothing", None, None, "s asks for nothing", None]
        [rule] = [rule for rule in policy.predicates if rule.name == "Fails"]
        assert [*rule.reads] == ["requests"] and len(asked) == 4  # none for `r` and `t`
    finally:
        PREDICATES.pop("Fails")


def test_an_attribute_that_a_steady_rule_sets_on_a_pod_is_visible_only_to_it():
    written = []

    @predicate("Writes", steady=True)
    def writes(pod, node):
        """It stores a value in the pod."""
        if not hasattr(pod, "kept"):
            pod.kept = pod.labels.get("app")
        return [] if pod.kept == node.labels.get("app") else ["no"]

    try:
        policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Writes"}], "priorities": []})
        snapshot = cluster_of(node("a", labels={"app": "a"}), node("b", labels={"app": "b"})).refresh_snapshot({"my-scheduler": policy})
        for app in "abab":
            waiting = FullPod(pod("p", labels={"app": app}))
            written.append(schedule(waiting, snapshot, policy).node)
            assert not hasattr(waiting, "kept")
        assert written == ["a", "b", "a", "b"]
    finally:
        PREDICATES.pop("Writes")


def one_name_for_two(dice):
    """A predicate and a priority with the same name, of which only one has an effect."""
    predicate("Odd", steady=True)(lambda pod, node: [])
    priority("Odd", steady=True, metadata=lambda pod, nodes, snapshot: None)(lambda pod, node, metadata: 7)


def answers_to_none(dice):
    """A predicate for which None is a meaningful metadata."""
    @predicate("Odd", steady=True, metadata=lambda pod, nodes, snapshot: None)
    def odd(pod, node, metadata):
        """There is a quota."""
        if metadata is None:
            yield "no quota has been set"


def asked_every_time(dice):
    """A predicate that is not steady."""
    @predicate("Odd")
    def odd(pod, node):
        """The dice allow the node."""
        return ["no luck"] if dice[0] == node.name else []


def reduces_in_place(dice):
    """A priority whose `reduce` changes its argument, like NormalizeScore in Go."""
    def normalize(points):
        """Stretch the scores so that the highest is 100."""
        highest = max(points.values())
        for name in points:
            points[name] = 100 * points[name] // highest
        return points

    priority("Odd", steady=True, reduce=normalize)(lambda pod, node: len(node.pods) + 1)


def reduces_by_chance(dice):
    """A priority that is not steady, because `reduce` is random."""
    def reduce(points):
        """Score the nodes by the dice."""
        return {name: 100 * (name == dice[0]) for name in points}

    priority("Odd", reduce=reduce)(lambda pod, node: 1)


@pytest.mark.parametrize("register", [
    one_name_for_two, answers_to_none, asked_every_time, reduces_in_place, reduces_by_chance], ids=lambda f: f.__doc__)
def test_the_answers_of_an_odd_custom_rule_are_those_without_the_cache(register):
    server, dice = Server(), ["n0"]
    server.put(node("n0"))
    server.put(node("n1"))
    register(dice)
    try:
        policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", **{
            part: [{"name": "Odd", "weight": 1} if part == "priorities" else {"name": "Odd"}] * ("Odd" in catalogue)
            for part, catalogue in CATALOGUES.items()}})}
        cluster, decisions = new_cluster(server), []
        cluster.cache.snapshot.is_live = True
        for name in ("n0", "n1", "n0"):
            dice[0] = name
            with_cache, without = (schedule(FullPod(pod("p")), of.refresh_snapshot(policies), policies[
                "my-scheduler"]) for of in (cluster, new_cluster(server)))
            assert everything(with_cache) == everything(without), f"{name}: {with_cache.message}"
            decisions.append(with_cache)
            server.put(pod(f"new-{name}", nodeName="n0"))
        assert not any("TypeError" in str(decision.message) for decision in decisions)
        assert register is not answers_to_none or decisions[0].node is None
    finally:
        PREDICATES.pop("Odd", None)
        PRIORITIES.pop("Odd", None)


def test_a_rule_does_not_run_again_before_the_rules_ahead_of_it():
    """It may rely on them: here, on a label that the node no longer has."""
    server, full = Server(), {"a": 0, "b": 1}

    @predicate("ZoneQuota", steady=True, metadata=lambda pod, nodes, snapshot: dict(full))
    def zone_quota(pod, node, metadata):
        """The zone has room."""
        return [] if metadata[node.labels["zone"]] else ["the zone is full"]

    try:
        policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [
            {"name": "zoned", "argument": {"labelsPresence": {"labels": ["zone"], "presence": True}}},
            {"name": "ZoneQuota"}]})}
        cluster = new_cluster(server)
        cluster.cache.snapshot.is_live = True
        for labels in ({"zone": "a"}, {}, {}):
            server.put(node("n0", labels=labels))
            server.put(node("n1", labels={"zone": "b"}))
            full["c"] = full.get("c", 0) + 1  # so that the rule's metadata changes
            decision = schedule(FullPod(pod("p")), cluster.refresh_snapshot(policies), policies["my-scheduler"])
            assert decision.node == "n1", decision.message
    finally:
        PREDICATES.pop("ZoneQuota", None)


TOKEN = "kube-api-access-%s"


@table("spec, alike", {  # two pods differ only in the random suffix of the name of a token's volume
    "a token's volume, and its mounts": ({
        "volumes": [{"name": TOKEN, "projected": {}}],
        "containers": [{"name": "c", "volumeMounts": [{"name": TOKEN, "mountPath": "/var"}]}],
        "initContainers": [{"name": "i", "volumeMounts": [{"name": TOKEN, "mountPath": "/var"}]}]}, True),
    "a disk's volume": ({"volumes": [{"name": TOKEN, "gcePersistentDisk": {"pdName": "d"}}]}, False),
    "a node selector": ({"nodeSelector": {"name": TOKEN}}, False),
    "a container": ({"containers": [{"name": TOKEN}]}, False),
    "a resource": ({"volumes": [{"name": TOKEN, "projected": {}}], "overhead": {TOKEN: "1"}}, False),
})
def test_the_random_name_of_a_tokens_volume_does_not_change_the_signature(spec, alike):
    kinds = {signature(FullPod(json.loads(json.dumps(pod("p", **spec)).replace("%s", end))), ("spec",))
             for end in ("aaaaa", "bbbbb")}
    assert (len(kinds) == 1) == alike


@pytest.fixture
def own_rules():
    """A custom predicate and a custom priority, both declared steady."""
    predicate("Own", steady=True)(lambda pod, node: [])
    priority("OwnPriority", steady=True)(lambda pod, node: 1)
    yield
    del PREDICATES["Own"], PRIORITIES["OwnPriority"]


CLAIMS = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-1"}}]


@table("policy, other, count", {
    "another label": ({}, {"labels": {"apps.kubernetes.io/pod-index": "1"}}, 1),
    "another hostname": ({}, {"hostname": "web-1"}, 1),
    "another annotation": ({}, {"metadata": {"annotations": {"a": "1"}}}, 1),
    "another environment variable": ({}, {"containers": [
        {"name": "main", "image": "nginx", "env": [{"name": "INDEX", "value": "1"}]}]}, 1),
    "another request": ({}, {"requests": {"cpu": "1"}}, 1),
    "a toleration": ({}, {"tolerations": [{"key": "k", "operator": "Exists"}]}, 8),
    "another name, and a custom predicate": ({"predicates": [{"name": "Own"}]}, {}, 1),
    "another claim": ({}, {"volumes": CLAIMS}, 1),
    "another claim, and alwaysCheckAllPredicates": ({"alwaysCheckAllPredicates": True}, {"volumes": CLAIMS}, 1),
    "another label, and custom predicates": (
        {"predicates": [{"name": "Own"}, {"name": "Changing"}]}, {"labels": {"a": "1"}}, 1),
    "another label, built-in predicates, and a custom priority": (
        {"priorities": [{"name": "OwnPriority", "weight": 1}]}, {"labels": {"a": "1"}}, 1),
})
def test_a_rule_runs_again_for_all_nodes_if_the_pod_differs_in_an_attribute_that_it_reads(
        policy, other, count, monkeypatch, own_rules):
    """The rule is PodToleratesNodeTaints. One of eight nodes has changed, because the first pod was placed there."""
    cluster = cluster_of(*(node(f"n{i}") for i in range(8)), storage_class("local", "example.com/disks"), claim("data-1"))
    nodes = set()
    tolerates = PREDICATES["PodToleratesNodeTaints"]
    monkeypatch.setitem(PREDICATES, "PodToleratesNodeTaints", dataclasses.replace(tolerates,
        function=lambda pod, node: nodes.add(node.name) or [*node.pods, *pod.tolerations][:0]))
    policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", **policy})}
    snapshot = cluster.refresh_snapshot(policies)
    for each in (pod("first"), pod("second", **other)):
        nodes.clear()
        waiting = FullPod(each)
        vars(waiting).update(record=PodRecord(waiting))
        cluster.attempts.assume(schedule(waiting, snapshot, policies["my-scheduler"]))
    assert len(nodes) == count


@table("function, change, count", {
    "it reads the node's labels, and a pod is added": (lambda pod, node: [*node.labels][:0], pod("b", nodeName="n3"), 0),
    "it reads the node's labels, and a label is added": (
        lambda pod, node: [*node.labels][:0], node("n3", labels={"pool": "a"}), 1),
    "it reads pods only on nodes with a label, and a pod is added there": (
        lambda pod, node: [*node.pods][:0] if "pods" in node.labels else [], pod("b", nodeName="n0"), 1),
    "it reads pods only on nodes with a label, and this label is added": (
        lambda pod, node: [*node.pods][:0] if "pods" in node.labels else [], node("n3", labels={"pods": "yes"}), 1),
    "it reads a copy of the node, and a pod is added": (
        lambda pod, node: [copy.copy(node).name][:0], pod("b", nodeName="n3"), 1),
})
def test_a_rule_runs_again_for_a_node_if_an_attribute_that_it_reads_changes(function, change, count):
    """There are eight nodes."""
    names = []
    rule = FullRule("Own", lambda pod, node: names.append(str(node.name)) or function(pod, node), steady=True)
    server, policy = Server(), FullPolicy([rule], [])
    for i in range(8):
        server.put(node(f"n{i}", labels={} if i else {"pods": "yes"}))
    cluster = new_cluster(server)
    schedule(FullPod(pod("p")), cluster.refresh_snapshot({"my-scheduler": policy}), policy)
    names.clear()
    server.put(change)
    schedule(FullPod(pod("p")), cluster.refresh_snapshot({"my-scheduler": policy}), policy)
    assert len(names) == count


def test_only_the_names_of_tokens_volumes_are_ignored_in_the_signature():
    kinds = {signature(FullPod(pod("p", **spec)), ("spec",)) for suffix in ("aaaaa", "bbbbb") for spec in (
        {"volumes": [{"name": f"kube-api-access-{suffix}", "projected": {}}]},
        {"nodeSelector": {"x": f"kube-api-access-{suffix}"}})}
    assert len(kinds) == 3


def test_a_scoring_extender_is_called_each_time_even_with_two_priorities_of_the_same_name(monkeypatch):
    scores, policy = {"n0": 0, "n1": 100}, read_policy(
        {"kind": "Policy", "apiVersion": "v1", **POLICIES["two priorities with the same name"]})
    extender = Extender({"urlPrefix": "http://extender", "prioritizeVerb": "score"}, "extenders[0]")
    monkeypatch.setattr(extender, "prioritize", lambda pod, nodes: [Vote("extenders[0]", 1, None, dict(scores))])
    policy.extenders, server = [extender], Server()
    server.put(node("n0"))
    server.put(node("n1"))
    snapshot = new_cluster(server).refresh_snapshot({"my-scheduler": policy})
    assert schedule(FullPod(pod("p")), snapshot, policy).node == "n1"
    scores.update(n0=100, n1=0)
    assert schedule(FullPod(pod("p")), snapshot, policy).node == "n0"


def test_the_cache_is_cleared_when_nodes_are_added():
    """Nodes are added one by one, as by an autoscaler, and pods of another kind are scheduled each time."""
    server = Server()
    cluster, policies = new_cluster(server), {"my-scheduler": read_policy(
        {"kind": "Policy", "apiVersion": "v1"})}
    for i in range(6):
        server.put(node(f"n{i}", labels={ZONE: "a"}))
        snapshot = cluster.refresh_snapshot(policies)
        assert (snapshot.answer_cache.entries, snapshot.answer_cache.changes.versions) == ({}, {})
        assert schedule(FullPod(pod("p", labels={"i": str(i)})), snapshot, policies["my-scheduler"]).node
        assert snapshot.answer_cache.entries


@table("policy, more", {
    "pods that fit": ({}, {}),
    "pods that fit nowhere": ({}, {"nodeSelector": {"disk": "ssd"}}),
    "pods that fit nowhere, for several reasons": (
        {"alwaysCheckAllPredicates": True}, {"nodeSelector": {"disk": "ssd"}, "requests": {"cpu": "9"}}),
    "pods with spread constraints": ({}, {"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]}),
    "pods with affinity to pods on all nodes": ({}, {"affinity": {"podAntiAffinity": {
        f"preferred{DURING_SCHEDULING}": [{"weight": i, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": {
            "matchExpressions": [{"key": f"k{i}", "operator": "DoesNotExist"}]}}} for i in range(1, 20)]}}}),
})
def test_the_cache_takes_at_most_100_mib(policy, more):
    """The memory for one unit of the cache's size is measured, and multiplied by the maximum size."""
    policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", **policy})}
    snapshot = cluster_of(*(node(f"n{i}", labels={ZONE: "abc"[i % 3], HOSTNAME: f"n{i}"}) for i in range(500)),
                          *(pod(f"on-{i}", nodeName=f"n{i}") for i in range(500))).refresh_snapshot(policies)
    tracemalloc.start()
    try:
        for i in range(5):
            tolerations = [{"key": f"k{i}", "operator": "Exists"}]
            schedule(FullPod(pod(f"p{i}", tolerations=tolerations, **more)), snapshot, policies["my-scheduler"])
        size = len(snapshot.answer_cache.entries) * (len(snapshot.nodes) + 500)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        snapshot.answer_cache = answers.AnswerCache()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (before - after) / size * answers.AnswerCache.MAX_ANSWERS < 100 * 2**20


def test_signatures_are_short_even_for_large_pods():
    long = FullPod(pod("p", metadata={"annotations": {"a": "x" * 20_000}}, nodeSelector={"a": "x" * 20_000}))
    assert len(signature(long, ("annotations", "spec"))) == len(signature(long, ("node_selector",))) == 16


def test_renamed_copies_of_an_object_in_manifests_are_kept():
    """A user who copies an object of a cluster usually leaves its uid and resourceVersion unchanged."""
    same = {"uid": "u", "resourceVersion": "7"}
    server = Server()
    for name in "ab":
        server.add({**node(name), "metadata": {"name": name, **same}})
        server.add(pod(name, metadata=dict(same)))
        server.add(pod(f"placed-{name}", nodeName="a", metadata={"uid": "placed"}))
    cluster = new_cluster(server)
    waiting = pending_pods(cluster, load_policies(ROOT / "policy.json", "my-scheduler"))
    assert [*cluster.refresh_snapshot().nodes] == ["a", "b"] and [each.name for each in waiting] == ["a", "b"]
    assert sorted(each.name for each in cluster.cache.nodes["a"].pods.values()) == ["placed-a", "placed-b"]


def test_a_priority_does_not_count_after_its_metadata_returns_skip():
    """It scored the same pod before."""
    loud = [True]

    def when_loud(pod, nodes, snapshot):
        return "loud" if loud[0] else SKIP

    priority("Loud", steady=True, metadata=when_loud)(lambda pod, node, metadata: 60 * (node.name == "a"))
    priority("Quiet", steady=True)(lambda pod, node: 50 * (node.name == "b"))
    try:
        policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [
            {"name": "Loud", "weight": 1}, {"name": "Quiet", "weight": 1}]})
        server = Server()
        server.put(node("a"))
        server.put(node("b"))
        snapshot, chosen = new_cluster(server).refresh_snapshot({"my-scheduler": policy}), []
        for loud[0] in (True, False, True):
            chosen.append(schedule(FullPod(pod("p")), snapshot, policy).node)
        assert chosen == ["a", "b", "a"]
    finally:
        PRIORITIES.pop("Loud")
        PRIORITIES.pop("Quiet")


def test_resized_pods_that_count_differently_in_scores_have_different_signatures():
    two = [{"name": name, "image": "i", "resources": {"requests": {"memory": "1Gi"}}} for name in "ab"]
    kinds = {signature(FullPod(pod("p", containers=two, status={"containerStatuses": [
        {"name": name, "resources": {"requests": {"cpu": cpu}}} for name, cpu in given.items()]})), ("nonzero",))
        for given in ({"a": "2"}, {"a": "1m", "b": "1999m"})}
    assert len(kinds) == 2
