"""Of which nodes and pods a rule is asked again, and of which its answers are remembered."""

import copy
import dataclasses
import gc
import json
import tracemalloc

import pytest

from helpers.extras import ROOT, claim, cluster_of, new_cluster, node, pending_pods, pod, storage_class, table
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
from scheduler_extras.live.record import PodRecord
from scheduler_extras.policy.extenders import Extender
from scheduler_extras.policy.own_rules import predicate, priority
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.policy_file import load_policies
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.pods_and_nodes import FullPod


pytestmark = pytest.mark.usefixtures("changing_rules")


def test_a_predicate_that_looks_at_no_node_is_asked_once_for_all_of_them_and_all_pods_that_are_alike():
    """As the one about host ports is, if the pod has none."""
    asked = []

    @predicate("Quiet", steady=True)
    def quiet(pod, node):
        """Only pods that say so need a node of their team."""
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
        assert len(asked) == 10  # each node once
    finally:
        PREDICATES.pop("Quiet")


@table("reads, asked", {
    "a value that many nodes share": (lambda node: node.unschedulable, 2),
    "more of some nodes than of others": (lambda node: not node.unschedulable or node.name == "n7", 1 + 4),
    "what cannot be looked up": (lambda node: node.unschedulable or "a" in node.labels, 9),
})
def test_a_rule_is_asked_once_for_nodes_that_are_equal_in_all_that_it_reads(reads, asked):
    calls = []

    def function(pod, node):
        """Count the calls."""
        calls.append(None)
        return ["no"] if reads(node) else []

    policy = FullPolicy([FullRule("Reads", function, title="Reads", steady=True)], [])
    snapshot = cluster_of(*(node(f"n{i}", unschedulable=bool(i % 2)) for i in range(9))).refresh_snapshot({"my-scheduler": policy})
    decision = schedule(FullPod(pod("p")), snapshot, policy)
    assert len(calls) == asked
    assert [*decision.failed] == [name for name, each in snapshot.nodes.items() if reads(each)]


def test_the_totals_of_other_rules_are_others_even_if_these_look_at_nothing(monkeypatch):
    """Two priorities, of which each has something to say to one pod; to both of them all pods are alike."""
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


def test_a_property_that_raises_for_a_pod_that_no_rule_asks_for_it_stops_nobody(monkeypatch):
    monkeypatch.setattr(FullPod, "team", property(lambda pod: pod.raw["metadata"]["labels"]["team"]), raising=False)
    monkeypatch.setitem(PREDICATES, "HostName", dataclasses.replace(
        PREDICATES["HostName"], function=lambda pod, node: [pod.team] if pod.namespace == "teams" else []))
    policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "HostName"}], "priorities": []})
    snapshot = cluster_of(node("a")).refresh_snapshot({"my-scheduler": policy})
    decisions = [schedule(FullPod(each), snapshot, policy) for each in (
        pod("p", namespace="teams", labels={"team": "red"}), pod("p"), pod("p", namespace="teams", labels={"team": "blue"}))]
    assert [decision.failed.message if decision.failed else decision.node for decision in decisions] == [
        "0/1 nodes are available: 1 red.", "a", "0/1 nodes are available: 1 blue."]


def test_a_node_that_metadata_has_chosen_is_told_from_the_others(monkeypatch):
    monkeypatch.setitem(PRIORITIES, "Chosen", None)
    del PRIORITIES["Chosen"]
    priority("Chosen", metadata=lambda pod, nodes, snapshot: nodes[0], steady=True)(
        lambda pod, node, metadata: 100 * (node is metadata))
    policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [{"name": "Chosen", "weight": 1}]})
    snapshot = cluster_of(node("a"), node("b")).refresh_snapshot({"my-scheduler": policy})
    assert schedule(FullPod(pod("p")), snapshot, policy).total == {"a": 100, "b": 0}


def test_what_a_rule_looks_at_when_it_fails_does_not_count():
    """Here, the pod's name, for the message: pods go on sharing what the rule says to them."""
    asked = []

    @predicate("Fails", steady=True)
    def fails(pod, node):
        """It raises an error about pods that ask for nothing."""
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
        assert [*rule.reads] == ["requests"] and len(asked) == 4  # nobody for `r` and `t`
    finally:
        PREDICATES.pop("Fails")


def test_what_a_steady_rule_writes_into_a_pod_is_its_own_affair():
    written = []

    @predicate("Writes", steady=True)
    def writes(pod, node):
        """It keeps in the pod what it has worked out."""
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
    """A predicate and a priority of one name, of which only one has something to say."""
    predicate("Odd", steady=True)(lambda pod, node: [])
    priority("Odd", steady=True, metadata=lambda pod, nodes, snapshot: None)(lambda pod, node, metadata: 7)


def answers_to_none(dice):
    """A predicate to which metadata that is None says something."""
    @predicate("Odd", steady=True, metadata=lambda pod, nodes, snapshot: None)
    def odd(pod, node, metadata):
        """There is a quota."""
        if metadata is None:
            yield "no quota has been set"


def asked_every_time(dice):
    """A predicate that is not steady."""
    @predicate("Odd")
    def odd(pod, node):
        """The dice allow it."""
        return ["no luck"] if dice[0] == node.name else []


def reduces_in_place(dice):
    """A priority whose `reduce` changes what it is given, as NormalizeScore does in Go."""
    def normalize(points):
        """Stretch the scores so that the highest is 100."""
        highest = max(points.values())
        for name in points:
            points[name] = 100 * points[name] // highest
        return points

    priority("Odd", steady=True, reduce=normalize)(lambda pod, node: len(node.pods) + 1)


def reduces_by_chance(dice):
    """A priority that is not steady, of which only `reduce` changes its mind."""
    def reduce(points):
        """Score the nodes by the dice."""
        return {name: 100 * (name == dice[0]) for name in points}

    priority("Odd", reduce=reduce)(lambda pod, node: 1)


@pytest.mark.parametrize("register", [
    one_name_for_two, answers_to_none, asked_every_time, reduces_in_place, reduces_by_chance], ids=lambda f: f.__doc__)
def test_an_odd_rule_of_ones_own_is_asked_as_if_nothing_were_remembered(register):
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
            with_memory, without = (schedule(FullPod(pod("p")), of.refresh_snapshot(policies), policies[
                "my-scheduler"]) for of in (cluster, new_cluster(server)))
            assert everything(with_memory) == everything(without), f"{name}: {with_memory.message}"
            decisions.append(with_memory)
            server.put(pod(f"new-{name}", nodeName="n0"))
        assert not any("TypeError" in str(decision.message) for decision in decisions)
        assert register is not answers_to_none or decisions[0].node is None
    finally:
        PREDICATES.pop("Odd", None)
        PRIORITIES.pop("Odd", None)


def test_a_rule_is_not_asked_again_before_those_ahead_of_it_whatever_it_has_said():
    """It may rely on them: here, on a label that the node has lost."""
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
            full["c"] = full.get("c", 0) + 1  # so that the rule's metadata is another one
            decision = schedule(FullPod(pod("p")), cluster.refresh_snapshot(policies), policies["my-scheduler"])
            assert decision.node == "n1", decision.message
    finally:
        PREDICATES.pop("ZoneQuota", None)


TOKEN = "kube-api-access-%s"


@table("spec, alike", {  # of pods that differ in the random part of what is called as the volumes of tokens are
    "a token's volume, and where it is mounted": ({
        "volumes": [{"name": TOKEN, "projected": {}}],
        "containers": [{"name": "c", "volumeMounts": [{"name": TOKEN, "mountPath": "/var"}]}],
        "initContainers": [{"name": "i", "volumeMounts": [{"name": TOKEN, "mountPath": "/var"}]}]}, True),
    "a disk's volume": ({"volumes": [{"name": TOKEN, "gcePersistentDisk": {"pdName": "d"}}]}, False),
    "a node selector": ({"nodeSelector": {"name": TOKEN}}, False),
    "a container": ({"containers": [{"name": TOKEN}]}, False),
    "a resource": ({"volumes": [{"name": TOKEN, "projected": {}}], "overhead": {TOKEN: "1"}}, False),
})
def test_pods_are_alike_whatever_their_tokens_volumes_are_called(spec, alike):
    kinds = {signature(FullPod(json.loads(json.dumps(pod("p", **spec)).replace("%s", end))), ("spec",))
             for end in ("aaaaa", "bbbbb")}
    assert (len(kinds) == 1) == alike


@pytest.fixture
def own_rules():
    """A predicate and a priority of one's own, of which both say that they are steady."""
    predicate("Own", steady=True)(lambda pod, node: [])
    priority("OwnPriority", steady=True)(lambda pod, node: 1)
    yield
    del PREDICATES["Own"], PRIORITIES["OwnPriority"]


CLAIMS = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-1"}}]


@table("policy, other, asked", {
    "a label of its own": ({}, {"labels": {"apps.kubernetes.io/pod-index": "1"}}, 1),
    "a host name of its own": ({}, {"hostname": "web-1"}, 1),
    "an annotation of its own": ({}, {"metadata": {"annotations": {"a": "1"}}}, 1),
    "a variable of its own": ({}, {"containers": [
        {"name": "main", "image": "nginx", "env": [{"name": "INDEX", "value": "1"}]}]}, 1),
    "another request": ({}, {"requests": {"cpu": "1"}}, 1),
    "a toleration": ({}, {"tolerations": [{"key": "k", "operator": "Exists"}]}, 8),
    "a name of its own, and a predicate of one's own": ({"predicates": [{"name": "Own"}]}, {}, 1),
    "a claim of its own": ({}, {"volumes": CLAIMS}, 1),
    "a claim of its own, and all predicates are asked": ({"alwaysCheckAllPredicates": True}, {"volumes": CLAIMS}, 1),
    "a label of its own, and predicates of one's own": (
        {"predicates": [{"name": "Own"}, {"name": "Moody"}]}, {"labels": {"a": "1"}}, 1),
    "a label of its own, and a priority of one's own, whose predicates are built in": (
        {"priorities": [{"name": "OwnPriority", "weight": 1}]}, {"labels": {"a": "1"}}, 1),
})
def test_nodes_are_asked_again_about_a_pod_that_differs_if_a_rule_may_look_at_that(
        policy, other, asked, monkeypatch, own_rules):
    """About taints; of eight nodes one has changed, as the first pod went there."""
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
        cluster.cycle.assume(schedule(waiting, snapshot, policies["my-scheduler"]))
    assert len(nodes) == asked


@table("function, change, asked", {
    "it reads the node's labels, and a pod comes": (lambda pod, node: [*node.labels][:0], pod("b", nodeName="n3"), 0),
    "it reads the node's labels, and one comes": (
        lambda pod, node: [*node.labels][:0], node("n3", labels={"pool": "a"}), 1),
    "it reads pods only where there is a label, and a pod comes there": (
        lambda pod, node: [*node.pods][:0] if "pods" in node.labels else [], pod("b", nodeName="n0"), 1),
    "it reads pods only where there is a label, and that comes": (
        lambda pod, node: [*node.pods][:0] if "pods" in node.labels else [], node("n3", labels={"pods": "yes"}), 1),
    "it reads the node's copy, and a pod comes": (
        lambda pod, node: [copy.copy(node).name][:0], pod("b", nodeName="n3"), 1),
})
def test_a_node_is_asked_again_once_what_the_rule_reads_of_it_may_differ(function, change, asked):
    """Of eight nodes."""
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
    assert len(names) == asked


def test_pods_are_alike_by_the_names_of_their_tokens_volumes_only():
    kinds = {signature(FullPod(pod("p", **spec)), ("spec",)) for suffix in ("aaaaa", "bbbbb") for spec in (
        {"volumes": [{"name": f"kube-api-access-{suffix}", "projected": {}}]},
        {"nodeSelector": {"x": f"kube-api-access-{suffix}"}})}
    assert len(kinds) == 3


def test_a_scoring_extender_is_heard_each_time_beside_two_priorities_of_one_name(monkeypatch):
    scores, policy = {"n0": 0, "n1": 100}, read_policy(
        {"kind": "Policy", "apiVersion": "v1", **POLICIES["two priorities under one name"]})
    extender = Extender({"urlPrefix": "http://extender", "prioritizeVerb": "score"}, "extenders[0]")
    monkeypatch.setattr(extender, "prioritize", lambda pod, nodes: [Vote("extenders[0]", 1, None, dict(scores))])
    policy.extenders, server = [extender], Server()
    server.put(node("n0"))
    server.put(node("n1"))
    snapshot = new_cluster(server).refresh_snapshot({"my-scheduler": policy})
    assert schedule(FullPod(pod("p")), snapshot, policy).node == "n1"
    scores.update(n0=100, n1=0)
    assert schedule(FullPod(pod("p")), snapshot, policy).node == "n0"


def test_what_was_remembered_of_a_cluster_of_other_nodes_is_forgotten():
    """Nodes come, as an autoscaler's do; each time it is another kind of pods that looks at all of them."""
    server = Server()
    cluster, policies = new_cluster(server), {"my-scheduler": read_policy(
        {"kind": "Policy", "apiVersion": "v1"})}
    for i in range(6):
        server.put(node(f"n{i}", labels={ZONE: "a"}))
        snapshot = cluster.refresh_snapshot(policies)
        assert (snapshot.answers.entries, snapshot.answers.changes.versions) == ({}, {})
        assert schedule(FullPod(pod("p", labels={"i": str(i)})), snapshot, policies["my-scheduler"]).node
        assert snapshot.answers.entries


@table("policy, more", {
    "pods that fit": ({}, {}),
    "pods that fit nowhere": ({}, {"nodeSelector": {"disk": "ssd"}}),
    "pods that fit nowhere, for several reasons": (
        {"alwaysCheckAllPredicates": True}, {"nodeSelector": {"disk": "ssd"}, "requests": {"cpu": "9"}}),
    "pods that spread": ({}, {"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]}),
    "pods that have to do with those on all nodes": ({}, {"affinity": {"podAntiAffinity": {
        f"preferred{DURING_SCHEDULING}": [{"weight": i, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": {
            "matchExpressions": [{"key": f"k{i}", "operator": "DoesNotExist"}]}}} for i in range(1, 20)]}}}),
})
def test_what_is_remembered_takes_100_mib_at_most(policy, more):
    """Measured: what takes up a unit of its size, of pods of many kinds; so many may be remembered."""
    policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", **policy})}
    snapshot = cluster_of(*(node(f"n{i}", labels={ZONE: "abc"[i % 3], HOSTNAME: f"n{i}"}) for i in range(500)),
                          *(pod(f"on-{i}", nodeName=f"n{i}") for i in range(500))).refresh_snapshot(policies)
    tracemalloc.start()
    try:
        for i in range(5):
            tolerations = [{"key": f"k{i}", "operator": "Exists"}]
            schedule(FullPod(pod(f"p{i}", tolerations=tolerations, **more)), snapshot, policies["my-scheduler"])
        size = len(snapshot.answers.entries) * (len(snapshot.nodes) + 500)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        snapshot.answers = answers.AnswerCache()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (before - after) / size * answers.AnswerCache.MAX_ANSWERS < 100 * 2**20


def test_what_is_remembered_is_known_by_a_short_key_however_long_the_pod_is():
    long = FullPod(pod("p", metadata={"annotations": {"a": "x" * 20_000}}, nodeSelector={"a": "x" * 20_000}))
    assert len(signature(long, ("annotations", "spec"))) == len(signature(long, ("node_selector",))) == 16


def test_copies_of_one_object_in_manifests_are_all_there():
    """Whoever copies an object of a snapshot and renames it leaves its uid and resourceVersion as they were."""
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


def test_a_priority_that_falls_silent_has_no_say_any_more():
    """Its metadata returns `SKIP`, whatever it said to the pod before."""
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


def test_pods_that_are_resized_are_not_alike_if_they_count_differently_in_scores():
    two = [{"name": name, "image": "i", "resources": {"requests": {"memory": "1Gi"}}} for name in "ab"]
    kinds = {signature(FullPod(pod("p", containers=two, status={"containerStatuses": [
        {"name": name, "resources": {"requests": {"cpu": cpu}}} for name, cpu in given.items()]})), ("nonzero",))
        for given in ({"a": "2"}, {"a": "1m", "b": "1999m"})}
    assert len(kinds) == 2
