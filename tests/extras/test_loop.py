"""Passes of the loop with a misbehaving API server in memory."""

import dataclasses
import functools
import gc
import itertools
import re
import sys
import threading
import weakref
from collections import Counter
from types import SimpleNamespace

import pytest

from helpers.extras import (
    ROOT,
    cluster_of,
    new_cluster,
    new_live_cluster,
    node,
    pending_pods,
    pod,
    run_pass,
    table,
)
from helpers.fake_api import POLICY, Clock, Server, make_pass, run_to_the_end, scheduler_of, without_streams
from scheduler_extras.api.responses import error_of
from scheduler_extras.common.errors import ApiError, Malformed, ServerUnavailable
from scheduler_extras.deciding.rule import PREDICATES, PRIORITIES, FullRule
from scheduler_extras.live.pass_errors import PassErrors
from scheduler_extras.live.writer import Writer
from scheduler_extras.policy.own_rules import predicate, priority
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.policy_file import PolicyFile
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.rules.selectors import OWNERS


pytestmark = pytest.mark.usefixtures("cache_mode")


def test_pods_are_tried_by_priority_then_age_and_each_sees_the_ones_before_it():
    server = Server(node("n", cpu="3"),
                    pod("young", {"cpu": "1"}, metadata={"creationTimestamp": "2024-01-02T00:00:00Z"}),
                    pod("old", {"cpu": "1"}, metadata={"creationTimestamp": "2024-01-01T00:00:00Z"}),
                    pod("urgent", {"cpu": "2"}, priority=10, metadata={"creationTimestamp": "2024-01-03T00:00:00Z"}))
    decisions = []
    make_pass(scheduler_of(server), decisions)
    assert [(decision.pod.name, decision.node) for decision in decisions] == [
        ("urgent", "n"), ("old", "n"), ("young", None)]
    assert decisions[-1].message == "0/1 nodes are available: 1 Insufficient cpu."


def test_a_binding_has_the_uid_of_the_pod():
    server = Server(node("n"), pod("web"))
    make_pass(scheduler_of(server))
    [(_, path, _, body)] = server.sent("POST", "/binding")
    assert path == "/api/v1/namespaces/default/pods/web/binding"
    assert (body["metadata"]["uid"], body["target"]["name"]) == ("uid-web", "n")


def test_a_pass_sends_no_requests_with_watches(monkeypatch):
    without_streams(monkeypatch)
    server = Server(node("n"), pod("running", nodeName="n"), pod("stuck", nodeSelector={"disk": "ssd"}))
    cluster = new_live_cluster(server)
    make_pass(cluster)
    server.requests.clear()
    make_pass(cluster)
    assert server.requests == []


def test_other_kinds_are_listed_only_if_a_rule_needs_them_and_once_in_a_pass():
    server = Server(node("n"), pod("plain"), pod("plainer"))
    make_pass(scheduler_of(server))
    assert {path for method, path, _, _ in server.requests if method == "GET"} == {"/api/v1/pods", "/api/v1/nodes"}
    claims = [pod(f"claims-{i}", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]) for i in "ab"]
    server.put(*claims)
    make_pass(scheduler_of(server))
    assert len(server.sent("GET", "/persistentvolumeclaims")) == 1
    defaults = read_policy({"kind": "Policy", "apiVersion": "v1"})
    server.put(pod("more"))
    make_pass(scheduler_of(server), policy=defaults)
    assert len(server.sent("GET", "/apis/apps/v1/replicasets")) == 1
    assert not server.sent("GET", "/namespaces"), "no pod has a namespaceSelector"


def test_a_failed_list_for_a_rule_fails_only_the_pods_that_need_it():
    server = Server(node("n", cpu="1"), pod("a", {"cpu": "1"}), pod("b", volumes=[
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]), pod("c", {"cpu": "1"}))
    server.failures["persistentvolumeclaims"] = [503] * 3
    cluster, decisions = scheduler_of(server), []
    make_pass(cluster, decisions)
    assert not cluster.writer.awaited and server.placements() == {"a": "n"}
    assert [(decision.pod.name, decision.message) for decision in decisions] == [
        ("a", None), ("b", "status 503"), ("c", "0/1 nodes are available: 1 Insufficient cpu.")]


def test_a_forbidden_list_of_a_custom_rule_fails_only_the_pods_that_need_it():
    def nosy(pod, nodes, snapshot):
        return pod.name == "curious" and snapshot.objects["secrets"]

    rule, decisions = FullRule("Nosy", lambda pod, node, metadata: (), metadata=nosy), []
    server = Server(node("n"), pod("curious"), pod("discreet"))
    server.failures["secrets"] = [403]
    make_pass(scheduler_of(server), decisions, FullPolicy([rule], []))
    assert [(decision.pod.name, decision.node, decision.message) for decision in decisions] == [
        ("curious", None, "status 403"), ("discreet", "n", None)]


def test_lists_are_paged_and_an_expired_page_ends_the_pass():
    server = Server(node("n"), *(pod(f"pod-{i}") for i in range(5)))
    server.page = 2
    server.failures["pods"] = [None, 410]
    cluster = scheduler_of(server)
    with pytest.raises(ApiError):
        make_pass(cluster)
    assert make_pass(cluster) == 5
    assert [request[2].get("continue") for request in server.sent("GET", "/pods")][:5] == [None, "2", None, "2", "4"]
    assert not any("resourceVersion" in params and "continue" in params for _, _, params, _ in server.requests)


def test_a_pass_over_manifests_has_no_time_limit(monkeypatch):
    clock = Clock(monkeypatch)
    cluster, decided = new_cluster(Server(node("n"), *(pod(name) for name in "abc"))), []

    def tick(decision):
        decided.append(decision.pod.name)
        clock.now += 2

    run_pass(cluster, {"my-scheduler": POLICY}, tick)
    assert decided == ["a", "b", "c"]


@table("status, code", {
    "the pod is bound": (201, 0),
    "another scheduler has bound the pod": (409, 0),
    "the pod is gone": (404, 0),
    "the Binding is forbidden": (403, 1),
    "the API server failed": (500, 1),
    "no answer came": (0, 1),
})
def test_the_exit_code_of_a_single_pass(status, code):
    server = Server(node("n"), pod("p"))
    server.failures["binding"] = [] if status == 201 else [status] * 3
    run = functools.partial(run_to_the_end, scheduler_of(server), SimpleNamespace(
        reload_if_changed=lambda: {"my-scheduler": POLICY}), threading.Event(), 1)
    assert run(once=True) == code


@table("once, code", {"a single pass": (True, 1), "the loop": (False, 0)})
def test_the_exit_code_after_a_signal(once, code):
    server, stop = Server(node("n"), pod("p"), pod("q")), threading.Event()
    policies = SimpleNamespace(reload_if_changed=lambda: {"my-scheduler": POLICY})
    cluster = new_cluster(server, lambda decision: stop.set())
    assert run_to_the_end(cluster, policies, stop, 1, once) == code and len(server.placements()) == 1


@table("is_tried, message", {
    "after this scheduler has tried it": (True, [
        "default/p is on n, but this scheduler did not bind it; is a second my-scheduler running? Start both with --leader-elect"]),
    "before this scheduler has tried it": (False, [])})
def test_a_pod_that_another_scheduler_binds(caplog, is_tried, message):
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "2"}))
    cluster = scheduler_of(server)
    if is_tried:
        make_pass(cluster)
    else:
        pending_pods(cluster, {"my-scheduler": POLICY})
    server.put(pod("p", {"cpu": "2"}, nodeName="n"))
    make_pass(cluster)
    assert caplog.messages == message and not cluster.queue


def test_the_room_of_a_deleted_pod_is_free():
    server = Server(node("n", cpu="1"), pod("a", {"cpu": "1"}))
    cluster = scheduler_of(server)
    make_pass(cluster)
    del server.objects["pods", "default", "a"]
    server.put(pod("b", {"cpu": "1"}, priority=10))
    make_pass(cluster)
    assert server.placements() == {"b": "n"}


def test_a_pod_that_is_listed_twice_counts_once():
    twice = pod("twice", {"cpu": "1"}, metadata={"uid": "uid-twice"}, nodeName="n")
    server = Server(node("n", cpu="2"), twice, pod("p", {"cpu": "1"}))
    server.objects["pods", "default", "again"] = twice
    cluster = scheduler_of(server)
    assert make_pass(cluster) == 1 and server.placements()["p"] == "n"


def test_a_malformed_pod_is_skipped_with_a_message(caplog):
    server = Server(node("n"), pod("p"))
    plain = server.request

    def request(method, path, body=None, params=None, check=None):
        answer = plain(method, path, body, params)
        if path.endswith("/pods") and "!=" in params["fieldSelector"]:
            answer["items"] += [{"metadata": {"name": "worse"}, "spec": 7}]
        return answer

    server.request = request
    assert make_pass(scheduler_of(server)) == 1
    assert caplog.messages == ["pod worse is skipped: spec: expected an object, got 7"]


def test_a_replica_that_has_lost_the_lease_writes_nothing():
    server, decided = Server(node("n"), *(pod(f"pod-{i:02}") for i in range(40))), []
    cluster = scheduler_of(server)
    cluster.writer.may_write = lambda: len(decided) < 20
    make_pass(cluster, decided)
    bound = len(server.placements())
    assert len(decided) == 40 and bound in range(21)  # the others were still in the queue
    make_pass(cluster, decided)
    assert bound == len(server.placements()) == len(server.sent("POST", "/binding"))


def test_a_warning_is_logged_if_a_second_scheduler_is_running(monkeypatch, caplog):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)
    server = Server(node("n"), node("m", unschedulable=True), pod("p"), pod("q"))
    plain = server.request

    def request(method, path, body=None, *more, **options):
        if path.endswith("/binding"):
            plain(method, path, body | {"target": {"name": "m"}}, *more, **options)
            raise error_of(409, "already assigned")
        return plain(method, path, body, *more, **options)

    server.request = request
    make_pass(scheduler_of(server))
    [message] = caplog.messages
    assert re.fullmatch("default/[pq] is on m, but this scheduler did not bind it; is a second my-scheduler running[?] Start both with --leader-elect", message)
    assert server.sent("POST", "/events") == []


@table("thing, message", {
    "a pod with an invalid quantity": (
        pod("odd", {"cpu": "much"}), 'pod default/odd is skipped: '
        '"much" is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi'),
    "a node with a negative quantity": (
        node("odd", cpu="-1"), 'node odd is skipped: '
        '"-1" is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi'),
    "a pod whose containers are not a list": (
        pod("odd", containers={}), "pod default/odd is skipped: containers: expected a list, got {}"),
    "a pod whose tolerations are not objects": (
        pod("odd", tolerations=["all"]),
        'pod default/odd is skipped: tolerations[0]: expected an object, got "all"'),
    "a node with an invalid taint": (
        node("odd", taints=[7]), "node odd is skipped: spec.taints[0]: expected an object, got 7"),
})
def test_a_malformed_object_is_logged_once_and_other_pods_are_scheduled(thing, message, caplog):
    server = Server(node("n"), thing, pod("fine"))
    cluster = scheduler_of(server)
    make_pass(cluster)
    server.put(pod("fine-too"))
    make_pass(cluster)
    assert server.placements() == {"fine": "n", "fine-too": "n"}
    assert caplog.messages == [message]


@table("spec", {
    "a pod that has ended": ({"status": {"phase": "Failed"}},),
    "a pod that is being deleted": ({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}},),
    "a pod with scheduling gates": ({"schedulingGates": [{"name": "quota"}]},),
})
def test_pods_that_are_not_tried(spec):
    server, decisions = Server(node("n"), pod("p", **spec[0])), []
    make_pass(scheduler_of(server), decisions)
    assert decisions == [] and server.placements() == {}


def test_no_pod_is_placed_on_a_node_with_a_malformed_pod():
    server = Server(node("a"), node("b", cpu="1"), pod("odd", {"cpu": "much"}, nodeName="a"), pod("fine"))
    make_pass(scheduler_of(server))
    assert server.placements() == {"odd": "a", "fine": "b"}


def test_an_exception_in_a_rule_fails_only_its_pod():
    def broken(pod, node):
        if pod.name == "odd":
            raise KeyError("surprise")
        return ()

    policy = FullPolicy([FullRule("Broken", broken)], [])
    server = Server(node("n"), pod("fine"), pod("odd"), pod("later"))
    decisions = []
    make_pass(scheduler_of(server), decisions, policy)
    assert server.placements() == {"fine": "n", "later": "n"}
    assert decisions[1].message == f"KeyError in broken: 'surprise' (test_loop.py, line {broken.__code__.co_firstlineno + 2}), about node n"


def test_without_nodes_the_message_is_that_of_kube_scheduler():
    decisions = []
    make_pass(scheduler_of(Server(pod("web"))), decisions)
    assert decisions[0].message == "no nodes available to schedule pods"


def test_ties_are_broken_at_random():
    server = Server(*(node(f"n-{i}") for i in range(4)), *(pod(f"p-{i}") for i in range(80)))
    make_pass(scheduler_of(server), policy=FullPolicy([], []))
    counts = Counter(server.placements().values())
    assert len(counts) == 4 and len({server.placements()[f"p-{i}"] for i in range(8)}) > 1


def test_a_stop_ends_the_pass_after_the_current_pod():
    server, stop = Server(node("n"), pod("a"), pod("b"), pod("c")), threading.Event()
    run_pass(scheduler_of(server), {"my-scheduler": POLICY}, lambda decision: stop.set(), stop)
    assert list(server.placements()) == ["a"]


@table("error", {
    "the server is down": ServerUnavailable(500, "down"),
    "the server refuses": ApiError(403, "forbidden"), "the response is no list": Malformed("no list")})
def test_the_end_of_an_error_is_logged(error, caplog):
    errors = PassErrors()
    for each in (error, None, None):
        errors.end_pass(each)
    assert caplog.messages == [str(error), "the API server answers again"]


def test_failures_and_recovery_are_logged_once(caplog, monkeypatch):
    caplog.set_level("INFO", "scheduler")
    server = Server(node("n"), pod("a"))
    server.failures["pods"] = [500, 500, 500] * 2 + [429, 500, 500, 500, 500]
    waits, rests, stop, cluster = [], itertools.count(1), threading.Event(), scheduler_of(server)
    monkeypatch.setattr(stop, "wait", waits.append)
    cluster.on_rest = lambda: next(rests) == 6 and stop.set()
    policy_file = PolicyFile(ROOT / "policy.json", "my-scheduler")
    assert run_to_the_end(cluster, policy_file, stop, 0.5, False) == 0
    assert waits == [1, 2, 4, 8], "then the loop waits as usual"
    assert caplog.messages == ["status 500", "status 429", "status 500", "the API server answers again"]
    assert server.placements() == {"a": "n"}


def test_a_snapshot_has_the_nominated_pods_of_all_schedulers():
    nominated = {"status": {"nominatedNodeName": "n"}}
    server = Server(
        node("n"), pod("ours", **nominated), pod("gated", schedulingGates=[{"name": "quota"}], **nominated),
        pod("others", schedulerName="other", **nominated), pod("plain", schedulerName="other"),
        pod("going", schedulerName="other", metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"}, **nominated),
        pod("bound", schedulerName="other", nodeName="n", **nominated))
    cluster = scheduler_of(server)
    cluster.begin_pass({"my-scheduler": POLICY})
    nominated = cluster.refresh_snapshot({"my-scheduler": POLICY}).nominated
    assert {pod.name for pod in nominated} == {"ours", "gated", "others"}


@table("function, code", {
    "a rule that rejects the node": (lambda pod, node: ["no"], 0),
    "a rule that raises an exception": (lambda pod, node: 1 / 0, 1),
    "a rule that returns an invalid value": (lambda pod, node: 7, 1)})
def test_the_exit_code_of_a_single_pass_with(function, code):
    policies = SimpleNamespace(reload_if_changed=lambda: {"my-scheduler": FullPolicy([FullRule("R", function)], [])})
    cluster = scheduler_of(Server(node("n"), pod("p")))
    assert run_to_the_end(cluster, policies, threading.Event(), 1, once=True) == code


def test_deleted_nodes_are_garbage_collected():
    """Nodes are replaced again and again, and each pass has another kind of pod."""
    server = Server()
    cluster, alive = scheduler_of(server), []
    for generation in range(100):
        for place in [place for place in server.objects if place[0] == "nodes"]:
            del server.objects[place]
        server.put(*(node(f"n{i}-{generation}") for i in range(5)))
        server.put(pod("p", {"cpu": "1m"}, labels={"job": str(generation)}, metadata={"uid": f"uid-{generation}"}))
        make_pass(cluster)
        alive += map(weakref.ref, cluster.refresh_snapshot().nodes.values())
    gc.collect()
    assert sum(seen() is not None for seen in alive) < 250, "fewer than 250 of 500 nodes are left"


@table("breaks", {
    "valid rules": lambda: None, "a rule that raises an exception": lambda: 1 / 0,
    "a rule that calls sys.exit": lambda: sys.exit("no"),
})
def test_resources_that_rules_need_are_listed_before_the_first_pod(breaks):
    """This happens once, not in each pass, and only for steady rules."""
    asked = []
    predicate("Own", steady=True, metadata=lambda pod, nodes, snapshot: breaks())(lambda pod, node, metadata: [])
    priority("Changing", metadata=lambda pod, nodes, snapshot: asked.append(pod))(lambda pod, node, metadata: 1)
    try:
        policy = read_policy({"kind": "Policy", "apiVersion": "v1"})
        policy.priorities.append(PRIORITIES["Changing"])
        cluster = cluster_of(node("n"))
        cluster.begin_pass({"my-scheduler": policy})
        assert cluster.cache.objects.keys() >= {*OWNERS} and asked == []
        del cluster.cache.objects["replicasets"]
        policy.predicates.append(PREDICATES["Own"])
        cluster.begin_pass({"my-scheduler": policy})
        assert "replicasets" not in cluster.cache.objects
        cluster.begin_pass({"my-scheduler": dataclasses.replace(policy)})
    finally:
        del PREDICATES["Own"], PRIORITIES["Changing"]
