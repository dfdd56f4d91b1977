"""The pending pods that are retried after another pod is placed. (After most other changes, all of them are retried.)"""

import pytest

from helpers.configuration import load
from helpers.extras import new_cluster, node, pod, run_pass, table
from helpers.fake_api import Clock, Server
from helpers.spy import built
from scheduler_extras.deciding.rule import PREDICATES
from scheduler_extras.policy.own_rules import predicate
from scheduler_extras.reading.pods_and_nodes import FullPod


WEB = {"app": "web"}
NEAR_WEB = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"labelSelector": {"matchLabels": WEB}, "topologyKey": "zone"}]}}
EVEN = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": WEB}}]
STUCK = {
    "a pod that is too large": ({"requests": {"cpu": "20"}}, (), False),
    "a pod with required affinity to it": ({"affinity": NEAR_WEB}, (), True),
    "a pod with required affinity to it that is too large": ({"requests": {"cpu": "20"}, "affinity": NEAR_WEB}, (), True),
    "a pod with a required spread constraint": ({"requests": {"cpu": "3"}, "labels": WEB, "topologySpreadConstraints": EVEN}, (), True),
    "a pod that a custom rule rejects": ({}, ("Own",), True),
    "a pod that a custom rule rejects, whose helped_by_pods raises an exception": ({}, ("OwnBroken",), True),
    "a pod that a custom rule rejects, with a helped_by_pods of None": ({}, ("OwnUnhelped",), False),
}
OTHER = {"requests": {"cpu": "1"}, "labels": WEB}


def is_created_on_a_node(cluster):
    cluster.send("ADDED", cluster.put(pod("other", **OTHER, nodeName="b")))


def is_bound_by_another_scheduler(cluster):
    cluster.send("ADDED", cluster.put(pod("other", **OTHER, schedulerName="another")))
    cluster.make_pass()
    cluster.send("MODIFIED", cluster.put(pod("other", **OTHER, schedulerName="another", nodeName="b")))


def is_bound_by_us(cluster):
    cluster.create(pod("other", **OTHER, nodeSelector={"zone": "b"}))
    assert ("other", "b") in cluster.make_pass()
    cluster.send("MODIFIED", cluster.put(pod("other", **OTHER, nodeSelector={"zone": "b"}, nodeName="b")))


def is_deleted(cluster):
    cluster.send("DELETED", cluster.stamp(pod("first", **OTHER, nodeName="a")))


def attempts(cluster):
    """Run a pass; return the number of attempts for the stuck pod."""
    record = cluster.cluster.queue["uid-stuck"]
    cluster.make_pass()
    return record.retry.failures + record.may_be_bound()


@pytest.fixture
def own_rules():
    """Custom rules that reject all nodes, with the option `helped_by_pods` and without it."""
    rules = {"Own": {}, "OwnUnhelped": {"helped_by_pods": None}, "OwnBroken": {"helped_by_pods": lambda pod: pod.oops}}
    for name, options in rules.items():
        predicate(name, **options)(lambda pod, node: ["node(s) were closed"] * (pod.name == "stuck"))
    yield
    for name in rules:
        del PREDICATES[name]


@table("happens", {happens.__name__.replace("_", " "): happens for happens in (
    is_created_on_a_node, is_bound_by_another_scheduler, is_bound_by_us, is_deleted)})
@table("spec, rules, is_helped", STUCK)
def test_retries_of_a_pending_pod_when_another_pod(happens, spec, rules, is_helped, own_rules, watched, monkeypatch):
    clock = Clock(monkeypatch)
    policy = built(["PodFitsResources", "MatchNodeSelector", "MatchInterPodAffinity", "EvenPodsSpread", *rules])["my-scheduler"]
    first = pod("first", **OTHER | {"labels": spec.get("labels", {})}, nodeName="a")
    cluster = watched(node("a", labels={"zone": "a"}, cpu="9"), node("b", labels={"zone": "b"}, cpu="2"), first, policy=policy)
    cluster.create(pod("stuck", **{"requests": {"cpu": "1"}} | spec))
    assert cluster.make_pass() == [("stuck", None)]
    clock.now += 20  # its backoff is over
    assert attempts(cluster) == 1
    happens(cluster)
    assert attempts(cluster) == (2 if is_helped or happens is is_deleted else 1)


@table("when, is_helped", {"DoNotSchedule": ("DoNotSchedule", True), "ScheduleAnyway": ("ScheduleAnyway", False)})
def test_default_constraints_of_a_configuration_apply_to_any_pod(when, is_helped):
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when}
    args = {"defaultingType": "List", "defaultConstraints": [constraint]}
    [policy] = load({"pluginConfig": [{"name": "PodTopologySpread", "args": args}]}).values()
    assert policy.is_helped_by_pods(FullPod(pod("p"))) == is_helped


def test_the_reserved_room_of_a_preemptor_that_is_bound_elsewhere_is_free(watched, monkeypatch):
    clock = Clock(monkeypatch)
    cluster = watched(node("a", cpu="1"), node("b", cpu="1"))
    preemptor = pod("preemptor", {"cpu": "1"}, priority=9, schedulingGates=[{"name": "wait"}], status={"nominatedNodeName": "a"})
    cluster.create(preemptor, pod("stuck", {"cpu": "9"}))
    assert cluster.make_pass() == [("stuck", None)]
    clock.now += 20
    assert attempts(cluster) == 1
    cluster.send("MODIFIED", cluster.put(preemptor | {"spec": preemptor["spec"] | {"nodeName": "b"}}))
    assert attempts(cluster) == 2


def test_in_a_dry_run_pending_pods_are_retried_after_an_assumed_pod(monkeypatch):
    clock = Clock(monkeypatch)
    first, second = pod("first", affinity=NEAR_WEB, priority=9), pod("second", labels=WEB)
    cluster = new_cluster(Server(node("a", labels={"zone": "a"}), first, second), dry_run=True)
    decisions = []
    for _ in range(2):
        run_pass(cluster, built(["MatchInterPodAffinity"]), decisions.append)
        clock.now += 20
    assert [(decision.pod.name, decision.node) for decision in decisions] == [("first", None), ("second", "a"), ("first", "a")]
