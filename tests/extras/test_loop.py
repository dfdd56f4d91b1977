"""The loop against a cluster in memory that misbehaves on purpose: what real ones do seldom, at the worst moment."""

import contextlib
import dataclasses
import functools
import gc
import itertools
import json
import re
import socket
import sys
import threading
import time
import types
import weakref
from collections import Counter
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from helpers.everywhere import replace
from scheduler_extras.api.errors import TooLarge, error_of
from scheduler_extras.api.proxy import PooledProxy
from scheduler_extras.api.retries import patiently
from scheduler_extras.api.watch import Reflector, list_all
from scheduler_extras.command_line import election_for
from scheduler_extras.live.session import poll, run_to_the_end
from scheduler_extras.common.errors import ApiError, Trouble, Unschedulable
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.rule import FullRule, PREDICATES, PRIORITIES
from scheduler_extras.deciding.schedule import schedule
from scheduler_extras.live.events import Recorder
from scheduler_extras.live.record import PodRecord, WaitsFor
from scheduler_extras.live.writer import Result, Writer
from scheduler_extras.options import read_arguments
from scheduler_extras.policy.own_rules import predicate, priority
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.reading import read_policy
from scheduler_extras.policy.reloading import PolicyFile, load_policies
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.selectors import OWNERS
from scheduler_extras.show.report import Reporter
from scheduler_extras.show.text import Screen
from helpers.control_plane import wait_for
from helpers.extras import ROOT, a_cluster, a_live_cluster, a_pass, cluster_of, node, pending_pods, pod, table, wait_until_told
from helpers.faulty import ApiServer
from helpers.fake_api import Clock, Server, make_pass, scheduler_of, times_tried


pytestmark = pytest.mark.usefixtures("memory")

@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


[POLICY] = load_policies(ROOT / "policy.json", "my-scheduler").values()


def test_pods_come_in_order_of_priority_then_age_and_each_sees_those_before_it():
    server = Server(node("n", cpu="3"),
                    pod("young", {"cpu": "1"}, metadata={"creationTimestamp": "2024-01-02T00:00:00Z"}),
                    pod("old", {"cpu": "1"}, metadata={"creationTimestamp": "2024-01-01T00:00:00Z"}),
                    pod("urgent", {"cpu": "2"}, priority=10, metadata={"creationTimestamp": "2024-01-03T00:00:00Z"}))
    decisions = []
    make_pass(scheduler_of(server), decisions)
    assert [(decision.pod.name, decision.node) for decision in decisions] == [
        ("urgent", "n"), ("old", "n"), ("young", None)]
    assert decisions[-1].message == "0/1 nodes are available: 1 Insufficient cpu."


def test_a_binding_names_the_pod_by_its_uid():
    server = Server(node("n"), pod("web"))
    make_pass(scheduler_of(server))
    [(_, path, _, body)] = server.sent("POST", "/binding")
    assert path == "/api/v1/namespaces/default/pods/web/binding"
    assert (body["metadata"]["uid"], body["target"]["name"]) == ("uid-web", "n")


def test_a_pass_over_what_is_watched_asks_nothing(monkeypatch):
    monkeypatch.setattr(Reflector, "work", lambda reflector: None)
    server = Server(node("n"), pod("running", nodeName="n"), pod("stuck", nodeSelector={"disk": "ssd"}))
    cluster = a_live_cluster(server)
    make_pass(cluster)
    server.requests.clear()
    make_pass(cluster)
    assert server.requests == []


def test_other_kinds_are_read_only_when_a_rule_needs_them_and_once_in_a_pass():
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


def test_trouble_with_what_a_rule_looks_at_fails_its_pod_only():
    server = Server(node("n", cpu="1"), pod("a", {"cpu": "1"}), pod("b", volumes=[
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]), pod("c", {"cpu": "1"}))
    server.failures["persistentvolumeclaims"] = [503] * 3
    cluster, decisions = scheduler_of(server), []
    make_pass(cluster, decisions)
    assert not cluster.writer.awaited and server.places() == {"a": "n"}
    assert [(decision.pod.name, decision.message) for decision in decisions] == [
        ("a", None), ("b", "status 503"), ("c", "0/1 nodes are available: 1 Insufficient cpu.")]


def test_a_rule_may_look_at_what_it_likes_and_what_it_may_not_fails_its_pods_only():
    def nosy(pod, nodes, snapshot):
        return pod.name == "curious" and snapshot.objects["secrets"]

    rule, decisions = FullRule("Nosy", lambda pod, node, metadata: (), metadata=nosy), []
    server = Server(node("n"), pod("curious"), pod("discreet"))
    server.failures["secrets"] = [403]
    make_pass(scheduler_of(server), decisions, FullPolicy([rule], []))
    assert [(decision.pod.name, decision.node, decision.message) for decision in decisions] == [
        ("curious", None, "status 403"), ("discreet", "n", None)]


def test_lists_are_paged_and_a_page_that_has_expired_ends_the_pass():
    server = Server(node("n"), *(pod(f"pod-{i}") for i in range(5)))
    server.page = 2
    server.failures["pods"] = [None, 410]
    cluster = scheduler_of(server)
    with pytest.raises(ApiError):
        make_pass(cluster)
    assert make_pass(cluster) == 5
    assert [request[2].get("continue") for request in server.sent("GET", "/pods")][:5] == [None, "2", None, "2", "4"]
    assert not any("resourceVersion" in params and "continue" in params for _, _, params, _ in server.requests)


def test_a_pass_over_manifests_goes_on_however_long_it_takes(monkeypatch):
    clock = Clock(monkeypatch)
    cluster, decided = a_cluster(Server(node("n"), *(pod(name) for name in "abc"))), []

    def tick(decision):
        decided.append(decision.pod.name)
        clock.now += 2

    a_pass(cluster, {"my-scheduler": POLICY}, tick)
    assert decided == ["a", "b", "c"]


@table("status, code", {
    "it is bound": (201, 0),
    "somebody bound it": (409, 0),
    "it is gone": (404, 0),
    "forbidden": (403, 1),
    "the API server failed": (500, 1),
    "no answer came": (0, 1),
})
def test_a_single_pass_tells_by_its_exit_code_whether_all_could_be_written(status, code):
    server = Server(node("n"), pod("p"))
    server.failures["binding"] = [] if status == 201 else [status] * 3
    run = functools.partial(run_to_the_end, scheduler_of(server), SimpleNamespace(
        current=lambda: {"my-scheduler": POLICY}), threading.Event(), 1)
    assert run(once=True) == code


@table("once, code", {"a single pass has failed": (True, 1), "the loop has not": (False, 0)})
def test_if_a_signal_ends_it(once, code):
    server, stop = Server(node("n"), pod("p"), pod("q")), threading.Event()
    policies = SimpleNamespace(current=lambda: {"my-scheduler": POLICY})
    cluster = a_cluster(server, lambda decision: stop.set())
    assert run_to_the_end(cluster, policies, stop, 1, once) == code and len(server.places()) == 1


@table("status, told", {
    "somebody bound it": (409, []),
    "it is gone": (404, []),
    "it is forbidden": (403, ["SchedulerError"]),
    "an admission webhook says no": (400, ["SchedulerError"]),
    "the API server failed, or an admission webhook": (500, ["SchedulerError"]),
    "it wants to be left alone": (429, []),
})
def test_a_pod_whose_binding_is_refused_is_told_so(status, told):
    server = Server(node("n"), pod("p"))
    server.failures["binding"] = [status] * 3
    make_pass(scheduler_of(server))
    events, conditions = said_about(server)
    assert events == [("Warning", "FailedScheduling", f"binding rejected: status {status}") for _ in told]
    assert conditions == [("False", reason, f"binding rejected: status {status}") for reason in told]


@table("status", {"as it is forbidden": (403,), "as the API server does": (500,)})
def test_a_pod_whose_binding_always_fails_is_told_so_once(status, clock):
    server = Server(node("n"), pod("p"))
    server.failures["binding"] = [status[0]] * 30
    cluster = scheduler_of(server)
    for _ in range(5):
        make_pass(cluster)
        clock.now += 20
    assert len(server.sent("POST", "/events")) == len(server.sent("PATCH", "/status")) == 1
    assert cluster.pending["uid-p"].retry.attempts == 5


@table("status", {"as if it were in trouble": 500, "as if somebody had been faster": 409})
def test_what_etcd_does_not_take_is_an_error_of_its_own(status):
    api = PooledProxy("http://127.0.0.1:1")
    data = b'{"kind": "Status", "message": "etcdserver: request is too large"}'
    with pytest.raises(TooLarge, match="request is too large") as raised:
        api.content(SimpleNamespace(status=status, reason="", retry_after=lambda: 0), data, "POST", "/api/v1/pods")
    assert raised.value.status == 413 and not isinstance(raised.value, Trouble)


def test_a_pod_that_is_too_large_to_be_bound_is_told_so(caplog):
    server = Server(node("n"), pod("p"))
    cluster = scheduler_of(server)
    answer = 'Operation cannot be fulfilled on pods/binding "p": etcdserver: request is too large'

    plain = server.request

    def request(method, path, *more, **options):
        if path.endswith("/binding"):
            raise TooLarge(413, answer)
        return plain(method, path, *more, **options)

    server.request = request
    make_pass(cluster)
    said = f"with its node, the pod is larger than etcd takes: {answer}"
    assert [message for message in caplog.messages if said in message] == [f"default/p: {said}"]
    assert [body["message"] for *_, body in server.sent("POST", "/events")] == [f"binding rejected: {said}"]


@table("status, carried_out", {
    "somebody bound it": (409, False),
    "it is gone": (404, False),
    "forbidden": (403, False),
    "too many requests": (429, False),
    "the API server failed, before": (500, False),
    "the API server failed, after": (500, True),
    "no answer came, the request was lost": (0, False),
    "no answer came, the answer was lost": (0, True),
    "somebody else answers for an API server that has gone": ({"items": 7}, False),
})
def test_a_binding_that_fails(status, carried_out, clock, monkeypatch):
    """The pod is bound once in the end; if it is bound although its answer was lost, that is found out at once."""
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as a live one
    server = Server(node("n", cpu="1"), pod("first", {"cpu": "1"}))
    fails = status if isinstance(status, dict) else (status, carried_out)
    server.failures["binding"] = [fails] * (3 if status == 500 else 1)
    cluster = scheduler_of(server)
    make_pass(cluster)
    if carried_out:
        assert cluster.pending["uid-first"].retry.attempts == 0 and "uid-first" in cluster.look().nodes["n"].pods
        assert [body["reason"] for *_, body in server.sent("POST", "/events")] == ["Scheduled"]
    else:
        assert cluster.pending["uid-first"].retry.attempts == 1, "it backs off"
        assert not cluster.look().nodes["n"].pods, "its room is free, as it is known not to be bound"
    server.put(pod("second", {"cpu": "1"}))
    for _ in range(3):
        clock.now += 20
        make_pass(cluster)
    assert len(server.places()) == 1, "both would be too many for the node"
    assert Counter(path for _, path, _, _ in server.sent("POST", "first/binding")).total() <= 4


def test_a_binding_that_was_done_but_answered_with_504_and_then_409_is_followed_up(monkeypatch):
    """There is its event, post_bind is called, and nothing is unreserved."""
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as a live one
    server, seen = Server(node("n"), pod("p")), []
    server.failures["binding"] = [(504, True), 409]
    rule = FullRule("Notes", lambda pod, node: (), hooks={
        "post_bind": lambda *_: seen.append("post_bind"), "unreserve": lambda *_: seen.append("unreserve")})
    cluster = scheduler_of(server)
    make_pass(cluster, policy=FullPolicy([rule], []))
    assert server.places() == {"p": "n"} and seen == ["post_bind"] and not cluster.writer.awaited
    assert [body["reason"] for *_, body in server.sent("POST", "/events")] == ["Scheduled"]


@table("there, attempts", {
    "another one of that name": ({"uid": "another", "nodeName": "n"}, 1),
    "it, elsewhere": ({"uid": "uid-p", "nodeName": "m"}, 1),
    "it, there": ({"uid": "uid-p", "nodeName": "n"}, 0)})
def test_where_a_binding_had_no_answer_the_pod_itself_says_whether_it_is_bound(there, attempts, monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as a live one
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    server = Server(node("n"), pod("p"))
    # Nor does the API server answer the first requests to see it: what is no pod is not from it.
    server.failures |= {"binding": [0], "p": [503, 0, 401, {"items": 7}]}
    plain = server.request

    def request(method, path, body=None, params=None, accept=None):
        if path.endswith("/binding"):
            server.put(pod("p", metadata={"uid": there["uid"]}, nodeName=there["nodeName"]))
        return plain(method, path, body, params)

    server.request = request
    cluster = scheduler_of(server)
    make_pass(cluster)
    assert cluster.pending["uid-p"].retry.attempts == attempts
    assert len(server.sent("GET", "/pods/p")) == 5


def test_where_nobody_may_see_the_pod_a_binding_without_an_answer_has_failed(monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as a live one
    server = Server(node("n"), pod("p"))
    server.failures |= {"binding": [0], "p": [403]}
    cluster = scheduler_of(server)
    make_pass(cluster)
    assert cluster.pending["uid-p"].retry.attempts == 1


def test_a_pod_whose_writes_fail_holds_nobody_up(clock, caplog):
    server = Server(node("n"), *(pod(name, priority=10) for name in ("odd-1", "odd-2", "odd-3")),
                    *(pod(f"fine-{i}") for i in range(30)))
    plain = server.request

    def request(method, path, body=None, params=None):
        if "/odd-" in path:
            raise error_of(500, "the webhook has failed")
        return plain(method, path, body, params)

    server.request = request
    cluster = scheduler_of(server)
    assert make_pass(cluster) == 33 and len(server.places()) == 30
    for seconds in (1, 2, 4, 8, 10):
        assert make_pass(cluster) == 0, "they back off"
        clock.now += seconds + 0.01
        assert make_pass(cluster) == 3, "and are tried again"
    assert sorted(caplog.messages) == [f"default/odd-{i}: the webhook has failed" for i in (1, 2, 3)]


def test_many_pods_in_a_row_whose_writes_fail_mean_that_the_api_server_is_in_trouble():
    server = Server(node("n"), *(pod(f"pod-{i:02}") for i in range(60)))
    server.failures["binding"] = [503] * 180
    with pytest.raises(ApiError):
        make_pass(scheduler_of(server))
    assert 30 <= len(server.sent("POST", "/binding")) < 90


def test_a_pod_is_tried_again_at_once_by_another_policy(clock):
    server, refuses = Server(node("n"), pod("p")), FullRule("Refuses", lambda pod, node: ["no"])
    cluster, policy = scheduler_of(server), FullPolicy([refuses], [])
    for _ in range(2):
        make_pass(cluster, policy=policy)
    assert [record.retry.attempts for record in cluster.pending.values()] == [1], "by the same one it backs off"
    make_pass(cluster, policy=FullPolicy([], []))
    assert server.places() == {"p": "n"}


def test_a_dry_run_keeps_the_room_of_what_it_has_placed(clock):
    server, decisions = Server(node("n", cpu="1"), pod("first", {"cpu": "1"})), []
    cluster = a_cluster(server, dry_run=True)
    make_pass(cluster, decisions)
    server.put(pod("second", {"cpu": "1"}, priority=10))
    for _ in range(3):
        clock.now += 20
        make_pass(cluster, decisions)
    assert [(decision.pod.name, decision.node) for decision in decisions] == [("first", "n"), ("second", None)]
    assert {method for method, *_ in server.requests} == {"GET"}


def test_a_dry_run_needs_no_lease():
    """Or it would wait for as long as those replicas run that write."""
    server = Server(node("n"), pod("p"))
    options = read_arguments(["--dry-run", "--leader-elect", "--once"])
    policies, decisions = PolicyFile(ROOT / "policy.json", options.scheduler_name), []
    cluster = a_cluster(server, decisions.append, dry_run=True)
    election = election_for(cluster.api, policies.policies, options)
    code = poll(cluster, policies, threading.Event(), options, election)
    assert (code, [decision.node for decision in decisions]) == (0, ["n"])
    assert not any("leases" in path for _, path, _, _ in server.requests)


@table("is_tried, said", {
    "that this scheduler has tried in vain": (True, [
        "default/p is on n, but this scheduler did not bind it; is a second my-scheduler running? Start both with --leader-elect"]),
    "that it never tried, as while another replica led": (False, [])})
def test_a_pod_that_something_else_binds(caplog, is_tried, said):
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "2"}))
    cluster = scheduler_of(server)
    if is_tried:
        make_pass(cluster)
    else:
        pending_pods(cluster, {"my-scheduler": POLICY})
    server.put(pod("p", {"cpu": "2"}, nodeName="n"))
    make_pass(cluster)
    assert caplog.messages == said and not cluster.pending


def test_a_pod_that_was_bound_and_deleted_leaves_its_room():
    server = Server(node("n", cpu="1"), pod("a", {"cpu": "1"}))
    cluster = scheduler_of(server)
    make_pass(cluster)
    del server.objects["pods", "default", "a"]
    server.put(pod("b", {"cpu": "1"}, priority=10))
    make_pass(cluster)
    assert server.places() == {"b": "n"}


def test_a_pod_that_is_listed_twice_counts_once():
    twice = pod("twice", {"cpu": "1"}, metadata={"uid": "uid-twice"}, nodeName="n")
    server = Server(node("n", cpu="2"), twice, pod("p", {"cpu": "1"}))
    server.objects["pods", "default", "again"] = twice
    cluster = scheduler_of(server)
    assert make_pass(cluster) == 1 and server.places()["p"] == "n"


def test_a_pod_that_is_no_object_is_named_and_passed_over(caplog):
    server = Server(node("n"), pod("p"))
    plain = server.request

    def request(method, path, body=None, params=None):
        answer = plain(method, path, body, params)
        if path.endswith("/pods") and "!=" in params["fieldSelector"]:
            answer["items"] += [{"metadata": {"name": "worse"}, "spec": 7}]
        return answer

    server.request = request
    assert make_pass(scheduler_of(server)) == 1
    assert caplog.messages == ["pod worse is left out: spec: expected an object, got 7"]


def test_nothing_is_written_by_a_replica_that_does_not_lead_any_more():
    server, decided = Server(node("n"), *(pod(f"pod-{i:02}") for i in range(40))), []
    cluster = scheduler_of(server)
    cluster.writer.may_write = lambda: len(decided) < 20
    make_pass(cluster, decided)
    bound = len(server.places())
    assert len(decided) == 40 and bound in range(21)  # others were about to be sent
    make_pass(cluster, decided)
    assert bound == len(server.places()) == len(server.sent("POST", "/binding"))


def test_without_any_change_a_pod_that_fits_nowhere_is_tried_again_after_a_minute(clock):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    assert times_tried(scheduler_of(server), clock, 200) == [60, 60, 60]


def test_if_the_cluster_changes_all_the_time_it_backs_off_from_1_to_10_seconds(clock):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    change = itertools.count()
    assert times_tried(scheduler_of(server), clock, 40, meanwhile=lambda: server.put(
        node("n", cpu="1", labels={"change": str(next(change))}))) == [1, 2, 4, 8, 10, 10]


def test_what_is_no_matter_of_nodes_is_tried_again_after_its_backoff_alone(clock):
    def broken(pod, node):
        raise KeyError("surprise")

    server = Server(node("n"), pod("p"))
    policy, cluster, tried = FullPolicy([FullRule("Broken", broken)], []), scheduler_of(server), []
    for _ in range(40):
        make_pass(cluster, policy=policy)
        tried.append(cluster.pending["uid-p"].retry.attempts)
        clock.now += 1
    assert [tried.count(attempts) for attempts in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_a_configuration_says_how_long_pods_back_off(clock):
    server = Server(node("n", cpu="1"), pod("p"))
    def broken(pod, node):
        raise KeyError("surprise")

    policy = FullPolicy([FullRule("Broken", broken)], [], initial_backoff=3, max_backoff=7)
    cluster, tried = scheduler_of(server), []
    for _ in range(23):
        make_pass(cluster, policy=policy)
        tried.append(cluster.pending["uid-p"].retry.attempts)
        clock.now += 1
    assert [tried.count(attempts) for attempts in range(1, 5)] == [3, 6, 7, 7]


def test_a_pod_that_takes_long_to_decide_about_has_no_more_than_a_tenth_of_the_loop(clock, caplog):
    def slow(pod, node):
        if pod.name == "odd":
            clock.now += 3
        return ["no"]

    server, change, tried = Server(node("n"), pod("odd", priority=9)), itertools.count(), []
    policy, cluster = FullPolicy([FullRule("Slow", slow)], []), scheduler_of(server)
    for _ in range(100):
        server.put(node("n", labels={"change": str(next(change))}))
        make_pass(cluster, policy=policy)
        tried.append(cluster.pending["uid-odd"].retry.attempts)
        clock.now += 1
    assert tried[-1] == 4, "in 112 seconds, of which it had 12"
    said = [message for message in caplog.messages if not message.startswith("kube-scheduler might delete")]
    assert said == ["default/odd takes 3.0 s to decide about: it is tried again after 30 s at the earliest, "
                    "so that others have turns"]


def test_a_pod_does_not_back_off_longer_for_an_api_server_that_answers_late(clock, caplog):
    def asks_in_vain(pod, node):
        clock.now += 60
        raise error_of(0, "no answer")

    policy, cluster = FullPolicy([FullRule("Asks", asks_in_vain)], []), scheduler_of(Server(node("n"), pod("p")))
    for _ in range(2):
        make_pass(cluster, policy=policy)
        clock.now += FullPolicy([], []).max_backoff
    assert cluster.pending["uid-p"].retry.attempts == 2 and not [line for line in caplog.messages if "takes" in line]


def test_pods_that_are_stuck_do_not_come_before_one_that_is_new(clock, monkeypatch):
    server = Server(node("n", cpu="1"), *(pod(f"stuck-{i}", {"cpu": "9"}) for i in range(5)))
    cluster, order = scheduler_of(server), []
    make_pass(cluster)
    clock.now += 2
    server.put(pod("new"))
    make_pass(cluster)
    clock.now += 2
    server.put(pod("newer", {"cpu": "9"}), node("o", cpu="1"))
    replace(monkeypatch, "schedule", lambda pod, *rest: order.append(pod.name) or schedule(pod, *rest))
    make_pass(cluster)
    clock.now += 20
    server.put(pod("newest"), node("q", cpu="1"))
    make_pass(cluster)
    stuck = [f"stuck-{i}" for i in range(5)]
    assert order == [*stuck, "newer", *stuck, "newer", "newest"], "who has waited for longest since his last try is first"


@table("change", {
    "a node gets labels": (lambda server: server.put(node("n", cpu="1", labels={"a": "b"})),),
    "a node comes": (lambda server: server.put(node("m", cpu="1")),),
    "a node is ready": (lambda server: server.put(node("n", cpu="1", status={"conditions": [
        {"type": "Ready", "status": "True"}]})),),
    "a pod ends": (lambda server: server.objects["pods", "default", "runs"]["status"].update(phase="Succeeded"),),
})
def test_a_change_of_nodes_or_assigned_pods_has_pods_tried_once_their_backoff_is_over(change, clock):
    server = Server(node("n", cpu="1"), pod("runs", nodeName="n"), pod("big", {"cpu": "2"}))
    cluster = scheduler_of(server)
    make_pass(cluster)
    clock.now += 5
    make_pass(cluster)
    assert cluster.pending["uid-big"].retry.attempts == 1
    change[0](server)
    make_pass(cluster)
    assert cluster.pending["uid-big"].retry.attempts == 2
    server.put(node("another", cpu="1"))
    make_pass(cluster)
    assert cluster.pending["uid-big"].retry.attempts == 2, "a change does not end the backoff"
    clock.now += 2
    make_pass(cluster)
    assert cluster.pending["uid-big"].retry.attempts == 3, "and is not forgotten"


def test_a_pod_that_waits_is_written_about_when_its_message_changes_only(clock):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    cluster = scheduler_of(server)

    def retry(times):
        for _ in range(times):
            make_pass(cluster)
            clock.now += 70
        return len(server.sent("POST", "/events")), len(server.sent("PATCH", "/status"))

    assert retry(5) == (1, 1)
    [condition] = server.sent("PATCH", "/status")[0][3]["status"]["conditions"]
    assert condition["lastTransitionTime"].endswith("Z")
    assert server.sent("PATCH", "/status")[0][3]["metadata"] == {"uid": "uid-big"}, "and no pod made again meanwhile"
    server.put(node("m", cpu="1"))
    assert retry(5) == (2, 2)
    server.failures["status"] = [500] * 3
    server.put(node("o", cpu="1"))
    retry(1)
    assert retry(3) == (3, 6), "a condition that could not be written is written by the next attempt, without another event"
    server.failures["events"] = [500] * 3
    server.put(node("p", cpu="1"))
    assert retry(1) == (6, 6)
    assert retry(3) == (7, 7), "and so is an event, and the condition after it"


def test_while_the_condition_cannot_be_written_its_event_is_counted_up_and_not_posted_again(clock):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    server.failures["status"] = [500] * 1000
    cluster = scheduler_of(server)
    for _ in range(30):
        make_pass(cluster)
        clock.now += 61
    [(_, path, _, event)] = server.sent("POST", "/events")
    counted = [where for method, where, *_ in server.requests if (method, where) == ("PATCH", f"{path}/{event['metadata']['name']}")]
    assert len(counted) in range(2, 7) and len(server.sent("PATCH", "/status")) == 3 * 30, "each attempt tries to write it"


@table("refused", {"events": ("events",), "conditions": ("status",)})
def test_what_rbac_does_not_let_us_say_is_not_tried_again_and_again(refused, clock, caplog):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}), pod("small"))
    server.failures[refused[0]] = [403] * 100
    cluster = scheduler_of(server)
    for _ in range(5):
        make_pass(cluster)
        clock.now += 20
    assert server.places() == {"small": "n"}
    assert (len(server.sent("POST", "/events")), len(server.sent("PATCH", "/status"))) == (2, 1)
    assert caplog.messages == ["status 403"]


def test_a_condition_whose_message_alone_changes_has_made_no_transition():
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}, status={"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "another one"}]}))
    make_pass(scheduler_of(server))
    [condition] = server.sent("PATCH", "/status")[0][3]["status"]["conditions"]
    assert "lastTransitionTime" not in condition


def test_that_a_pod_waits_is_not_told_once_it_is_being_bound(clock):
    """A condition that came after the Binding would stay, with no kubelet to correct it."""
    server, told = Server(node("n", cpu="1"), pod("big", {"cpu": "2"})), threading.Event()
    plain = server.request

    def request(method, path, body=None, *more, **options):
        if path.endswith("/events") and body["reason"] == "FailedScheduling":
            told.wait(60)
        return plain(method, path, body, *more, **options)

    server.request = request
    cluster, policies = scheduler_of(server), {"my-scheduler": POLICY}
    a_pass(cluster, policies)
    server.put(node("m"))
    clock.now += 100
    a_pass(cluster, policies)
    wait_for("it is bound", server.places)
    told.set()
    wait_until_told(cluster)
    assert server.sent("PATCH", "/status") == []


def test_a_condition_that_is_being_written_is_written_before_the_binding(clock):
    """Or else it would stay, as that of a bound pod. Meanwhile others are bound."""
    server, begun, go_on = Server(node("n", cpu="1"), pod("big", {"cpu": "2"})), threading.Event(), threading.Event()
    plain = server.request

    def request(method, path, body=None, *more, **options):
        if path.endswith("/status"):
            begun.set()
            go_on.wait(60)
        return plain(method, path, body, *more, **options)

    server.request = request
    cluster, policies = scheduler_of(server), {"my-scheduler": POLICY}
    a_pass(cluster, policies)
    assert begun.wait(60)
    server.put(node("m"), pod("other"))
    clock.now += 100
    a_pass(cluster, policies)
    wait_for("the other one is bound", server.places)
    assert server.sent("POST", "/big/binding") == []
    go_on.set()
    wait_for("it is bound, too", lambda: server.sent("POST", "/big/binding"))
    [status], [binding] = server.sent("PATCH", "/status"), server.sent("POST", "/big/binding")
    assert server.requests.index(status) < server.requests.index(binding)


def test_why_a_pod_stays_pending_is_told_again_after_a_restart():
    """Its events may be gone by then."""
    message = "0/1 nodes are available: 1 Insufficient cpu."
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}, status={"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}))
    make_pass(scheduler_of(server))
    events, _ = said_about(server)
    assert events == [("Warning", "FailedScheduling", message)]


def test_an_event_is_counted_up_at_attempts_but_not_within_five_minutes(clock):
    """Events last for an hour, as the API server keeps them; where one has gone, the next attempt makes a new one."""
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    cluster, counts = scheduler_of(server), []
    for _ in range(60):
        make_pass(cluster)
        clock.now += 61
    [(_, path, _, event)] = server.sent("POST", "/events")
    counts = [body["count"] for method, where, _, body in server.requests
              if (method, where) == ("PATCH", f"{path}/{event['metadata']['name']}")]
    assert counts == [*range(2, len(counts) + 2)] and len(counts) in range(5, 13)
    assert len(server.sent("PATCH", "/status")) == 1
    server.failures[event["metadata"]["name"]] = [404]
    for _ in range(20):
        make_pass(cluster)
        clock.now += 61
    assert len(server.sent("POST", "/events")) == 2


def test_events_of_many_pods_are_not_counted_up_at_once(clock):
    server = Server(node("n", cpu="1"), *(pod(f"big-{i}", {"cpu": "2"}) for i in range(40)))
    cluster, written = scheduler_of(server), []
    for _ in range(11):
        make_pass(cluster)
        clock.now += 61
        written.append(len([each for each in server.requests if each[0] == "PATCH" and "/events/" in each[1]]))
    assert written[4] == 0 and written[-1] > 0
    assert max(after - before for before, after in itertools.pairwise(written)) < 25


@table("status", {"a pod that has gone": 404, "one that another of its name has replaced": 422})
def test_nothing_is_said_where_the_condition_is_too_late(status, caplog):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    server.failures["status"] = [status]
    make_pass(scheduler_of(server))
    assert caplog.messages == []


def test_two_copies_by_mistake_are_noticed(monkeypatch, caplog):
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
    [said] = caplog.messages
    assert re.fullmatch("default/[pq] is on m, but this scheduler did not bind it; is a second my-scheduler running[?] Start both with --leader-elect", said)
    assert server.sent("POST", "/events") == []


@table("thing, said", {
    "a pod with a quantity that is none": (
        pod("odd", {"cpu": "much"}), 'pod default/odd is left out: '
        '"much" is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi'),
    "a node that has less than nothing": (
        node("odd", cpu="-1"), 'node odd is left out: '
        '"-1" is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi'),
    "a pod whose containers are no list": (
        pod("odd", containers={}), "pod default/odd is left out: containers: expected a list, got {}"),
    "a pod whose tolerations are no objects": (
        pod("odd", tolerations=["all"]),
        'pod default/odd is left out: tolerations[0]: expected an object, got "all"'),
    "a node with a taint that is none": (
        node("odd", taints=[7]), "node odd is left out: spec.taints[0]: expected an object, got 7"),
})
def test_a_malformed_object_is_named_in_a_line_once_and_the_others_go_on(thing, said, caplog):
    server = Server(node("n"), thing, pod("fine"))
    cluster = scheduler_of(server)
    make_pass(cluster)
    server.put(pod("fine-too"))
    make_pass(cluster)
    assert server.places() == {"fine": "n", "fine-too": "n"}
    assert caplog.messages == [said]


@table("spec", {
    "one that has ended": ({"status": {"phase": "Failed"}},),
    "one that is being deleted": ({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}},),
    "one with scheduling gates": ({"schedulingGates": [{"name": "quota"}]},),
})
def test_pods_that_are_passed_over(spec):
    server, decisions = Server(node("n"), pod("p", **spec[0])), []
    make_pass(scheduler_of(server), decisions)
    assert decisions == [] and server.places() == {}


def test_nothing_is_added_to_a_node_with_a_pod_that_cannot_be_read():
    server = Server(node("a"), node("b", cpu="1"), pod("odd", {"cpu": "much"}, nodeName="a"), pod("fine"))
    make_pass(scheduler_of(server))
    assert server.places() == {"odd": "a", "fine": "b"}


def test_a_rule_that_fails_on_a_pod_fails_that_pod_only():
    def broken(pod, node):
        if pod.name == "odd":
            raise KeyError("surprise")
        return ()

    policy = FullPolicy([FullRule("Broken", broken)], [])
    server = Server(node("n"), pod("fine"), pod("odd"), pod("later"))
    decisions = []
    make_pass(scheduler_of(server), decisions, policy)
    assert server.places() == {"fine": "n", "later": "n"}
    assert decisions[1].message == f"KeyError in broken: 'surprise' (test_loop.py, line {broken.__code__.co_firstlineno + 2}), about node n"


def test_no_nodes_is_said_as_kube_scheduler_says_it():
    decisions = []
    make_pass(scheduler_of(Server(pod("web"))), decisions)
    assert decisions[0].message == "no nodes available to schedule pods"


def test_ties_are_broken_at_random():
    server = Server(*(node(f"n-{i}") for i in range(4)), *(pod(f"p-{i}") for i in range(80)))
    make_pass(scheduler_of(server), policy=FullPolicy([], []))
    counts = Counter(server.places().values())
    assert len(counts) == 4 and len({server.places()[f"p-{i}"] for i in range(8)}) > 1


def test_a_stop_finishes_the_pod_in_hand():
    server, stop = Server(node("n"), pod("a"), pod("b"), pod("c")), threading.Event()
    a_pass(scheduler_of(server), {"my-scheduler": POLICY}, lambda decision: stop.set(), stop)
    assert list(server.places()) == ["a"]


def test_trouble_is_said_once_and_its_end_too(caplog, monkeypatch):
    caplog.set_level("INFO", "scheduler")
    server = Server(node("n"), pod("a"))
    server.failures["pods"] = [500, 500, 500] * 2 + [429, 500, 500, 500, 500]
    waits, rests, stop, cluster = [], itertools.count(1), threading.Event(), scheduler_of(server)
    monkeypatch.setattr(stop, "wait", waits.append)
    cluster.at_rest = lambda: next(rests) == 6 and stop.set()
    policy_file = PolicyFile(ROOT / "policy.json", "my-scheduler")
    assert run_to_the_end(cluster, policy_file, stop, 0.5, False) == 0
    assert waits == [1, 2, 4, 8], "and then it rests, as always"
    assert caplog.messages == ["status 500", "status 429", "status 500", "the API server answers again"]
    assert server.places() == {"a": "n"}


def test_a_write_that_hangs_holds_up_its_pod_only(monkeypatch):
    server, answer = Server(node("n", cpu="3"), *(pod(f"pod-{i}", {"cpu": "1"}) for i in range(2))), threading.Event()
    plain = server.request

    def request(method, path, body=None, params=None):
        if path.endswith("pod-0/binding"):
            answer.wait(3600)
        return plain(method, path, body, params)

    server.request = request
    cluster = scheduler_of(server)
    make_pass(cluster, patience=0)
    wait_for("the other one is bound", lambda: server.places() == {"pod-1": "n"})
    server.put(*(pod(f"later-{i}", {"cpu": "1"}, priority=9) for i in range(2)))
    make_pass(cluster, patience=0)
    wait_for("its room is kept, and it is not tried again meanwhile", lambda: server.places() == {
        "pod-1": "n", "later-0": "n"})
    answer.set()
    make_pass(cluster)
    make_pass(cluster)
    assert server.places() == {"pod-0": "n", "pod-1": "n", "later-0": "n"}


def test_when_all_writes_hang_the_pass_ends(monkeypatch):
    replace(monkeypatch, "THREADS", 8)
    server, answer = Server(node("n"), *(pod(f"pod-{i:02}") for i in range(20))), threading.Event()
    plain = server.request
    server.request = lambda method, *rest, **more: (method == "GET" or answer.wait(3600)) and plain(method, *rest, **more)
    cluster = scheduler_of(server)
    cluster.writer.patience = 0.5
    with pytest.raises(ApiError, match="no answer to 8 writes"):
        make_pass(cluster)
    cluster.writer.patience = 60
    answer.set()
    assert make_pass(cluster) == 12 and len(server.places()) == 20


def test_when_many_writes_fail_at_once_no_request_is_lost(clock):
    """What rules want undone of each failed Binding is sent, also if these are so many that the pass ends."""
    undone = [("PATCH", "/undo", {})]
    rule = FullRule("Undoes", lambda pod, node: (), hooks={"unreserve": lambda pod, snapshot: undone})
    server = Server(node("n"), *(pod(f"p{i:02}") for i in range(14)))
    server.failures["binding"] = [500] * 3 * 14
    cluster, failed = scheduler_of(server), 0
    for _ in range(4):
        try:
            make_pass(cluster, policy=FullPolicy([rule], []))
        except ApiError:
            failed += 1
            wait_until_told(cluster)
        clock.now += 20
    assert failed == 1 and len(server.places()) == 14 and len(server.sent("PATCH", "/undo")) == 14


def test_an_extender_that_fails_to_bind_is_no_trouble_of_the_api_servers(monkeypatch, caplog):
    server = Server(node("n"), *(pod(f"pod-{i:02}") for i in range(30)))
    rule = FullRule("Binder", lambda pod, node: (), hooks={"bind": lambda pod, node_name: 1 / 0})
    assert make_pass(scheduler_of(server), policy=FullPolicy([rule], [])) == 30
    assert len(caplog.messages) == 30 and ": ZeroDivisionError in <lambda>: division by zero (test_loop.py, " in caplog.messages[0]


def test_the_room_of_a_prepared_pod_is_kept_while_the_pass_goes_on(clock, monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as a live one
    server = Server(node("n", cpu="2"), pod("big", {"cpu": "2"}, priority=9), *(pod(f"p{i}", {"cpu": "1"}) for i in "ab"))
    prepared = [[("PATCH", "/api/v1/namespaces/default/pods/big", {})], None]
    rule = FullRule("Prepare", lambda pod, node: (), hooks={
        "pre_bind": lambda pod, node, snapshot: prepared.pop(0) if pod.name == "big" else None})
    fits = {rule.name: rule for rule in POLICY.predicates}["PodFitsResources"]
    policy, cluster = FullPolicy([fits, rule], []), scheduler_of(server)

    def tick(decision):
        clock.now += 0.2  # so that all is read again

    for _ in range(2):
        a_pass(cluster, {"my-scheduler": policy}, tick)
    assert server.places() == {"big": "n"}


def test_a_prepared_pod_is_not_tried_again_while_its_binding_is_under_way(clock, monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as a live one
    server, answer = Server(node("n", cpu="1"), pod("p", {"cpu": "1"})), threading.Event()
    prepared, plain = [[("PATCH", "/api/v1/namespaces/default/pods/p", {})]], server.request

    def request(method, path, body=None, params=None, accept=None):
        if path.endswith("/binding"):
            answer.wait(3600)
        return plain(method, path, body, params)

    server.request = request
    rule = FullRule("Prepare", lambda pod, node: (), hooks={
        "pre_bind": lambda pod, node, snapshot: prepared.pop() if prepared else None})
    fits = {rule.name: rule for rule in POLICY.predicates}["PodFitsResources"]
    cluster, decisions = scheduler_of(server), []
    for _ in range(4):
        make_pass(cluster, decisions, FullPolicy([fits, rule], []), patience=0)
        clock.now += 20
    server.put(pod("other", {"cpu": "1"}))
    make_pass(cluster, decisions, FullPolicy([fits, rule], []), patience=0)
    answer.set()
    wait_for("the Binding is answered", lambda: not cluster.writer.results.empty())
    make_pass(cluster, decisions, FullPolicy([fits, rule], []))
    assert server.places() == {"p": "n"} and len(server.sent("POST", "/binding")) == 1


def test_a_connection_has_five_seconds_and_an_answer_a_minute():
    server = ApiServer()
    api = PooledProxy(server.url)
    try:
        assert api.new_connection().socket.gettimeout() == 5
        api.request("GET", "/api/v1/nodes")
        [connection] = api.idle
        assert 59 < connection.ends_at - time.monotonic() <= 60
    finally:
        server.stop()


def test_an_idle_connection_that_its_other_side_has_ended_is_opened_anew():
    server = ApiServer(node("n"))
    api = PooledProxy(server.url)
    try:
        for _ in range(3):
            assert len(api.request("GET", "/api/v1/nodes")["items"]) == 1
            [connection] = api.idle
            connection.socket.shutdown(socket.SHUT_RD)  # what is read from it by now is its end
    finally:
        server.stop()


@table("body, sent", {"none": (None, b""), "empty": ({}, b"{}"), "letters of any language": ({"a": "\u00e4"}, b'{"a": "\\u00e4"}')})
def test_a_request_has_the_body_that_it_is_given(body, sent):
    server = ApiServer(node("n"))
    try:
        PooledProxy(server.url).request("GET", "/api/v1/nodes", body)
        assert [asked.body for asked in server.asked] == [sent]
    finally:
        server.stop()


def refuse_odd(pod):
    """What a permit hook says that refuses one pod."""
    if pod.name == "odd":
        raise Unschedulable("no")


def test_whether_this_replica_leads_is_asked_before_each_attempt_of_a_write():
    server = Server(node("n"), pod("p"))
    server.failures["binding"] = [503] * 3
    cluster = scheduler_of(server)
    cluster.writer.may_write = lambda: not server.sent("POST", "/binding")
    make_pass(cluster)
    assert len(server.sent("POST", "/binding")) == 1 and server.places() == {}


def test_who_has_bound_a_pod_says_so_even_if_another_replica_leads_by_then():
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "1"}), pod("q", {"cpu": "1"}))
    cluster = scheduler_of(server)
    cluster.writer.may_write = lambda: not server.places()
    make_pass(cluster)
    assert [body["reason"] for *_, body in server.sent("POST", "/events")].count("Scheduled") == 1
    assert not server.sent("PATCH", "/status"), "what a pod's status says is up to the other one"


def test_a_post_bind_that_takes_long_makes_no_bound_pod_count_as_failed_and_holds_nobody_up(clock):
    server, go_on, seen = Server(node("n"), *(pod(f"p-{i:02}") for i in range(20))), threading.Event(), []
    rule = FullRule("Slow", lambda pod, node: (), hooks={
        "post_bind": lambda pod, node_name: go_on.wait(3600), "unreserve": lambda pod, snapshot: seen.append(pod)})
    cluster, policy = scheduler_of(server), FullPolicy([rule], [])
    for _ in range(2):
        a_pass(cluster, {"my-scheduler": policy})
        clock.now += 100
    assert cluster.writer.tasks.unfinished_tasks == 20, "they are waited for at the end"
    go_on.set()
    wait_until_told(cluster)
    assert (len(server.places()), seen, cluster.writer.awaited) == (20, [], 0) and not cluster.has_failed()
    assert len(server.sent("POST", "/events")) == 20


def said_about(server):
    """What events and conditions say: [(type or status, reason, message)]."""
    events = [(body["type"], body["reason"], body["message"]) for *_, body in server.sent("POST", "/events")]
    conditions = [body["status"]["conditions"][0] for *_, body in server.sent("PATCH", "p/status")]
    return events, [(condition["status"], condition["reason"], condition["message"]) for condition in conditions]


@table("reason, waits", {
    "it says why": ("volumes are being bound", "Licence prepares the binding to n: volumes are being bound"),
    "it does not": ("", "Licence prepares the binding to n")})
def test_a_pod_that_waits_until_what_it_needs_has_taken_effect_says_so_once(reason, waits, monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as a live one
    server, decisions, states = Server(node("n"), pod("p")), [], []
    answers = [[("PATCH", "/api/v1/namespaces/default/pods/p", {})], [], [], None]
    answers = [(answer, reason) if answer is not None and reason else answer for answer in answers]
    rule = FullRule("Licence", lambda pod, node: (), hooks={"pre_bind": lambda *_: answers.pop(0)})
    cluster, policy = scheduler_of(server), FullPolicy([rule], [])
    for _ in range(5):
        a_pass(cluster, {"my-scheduler": policy}, lambda decision: decisions.append(
            (decision.node, decision.waits)))
        wait_until_told(cluster)
        states.append([record.waits_for for record in cluster.pending.values()])
    assert states == [[WaitsFor.PRE_BIND]] * 3 + [[WaitsFor.CONFIRMATION], []]
    assert decisions == [("n", waits), ("n", "")]
    events, conditions = said_about(server)
    assert conditions == [("False", "Waiting", waits)], "the reason is none for which autoscalers make nodes"
    assert events == [("Normal", "Waiting", waits), ("Normal", "Scheduled", "Successfully assigned default/p to n")]
    assert server.places() == {"p": "n"}


def test_each_pass_says_how_many_pods_stay_pending_whoever_comes_last_in_it(capsys):
    """A pod that a rule holds comes last in each pass, and there is nothing new to be said of it."""
    rule = FullRule("Licence", lambda pod, node: ["no licence"] * ("big" in pod.name), hooks={"permit": lambda *_: 600})
    server = Server(node("n"), pod("held"))
    cluster, policies = scheduler_of(server), SimpleNamespace(current=lambda: {"my-scheduler": FullPolicy([rule], [])})
    cluster.show = Reporter(read_arguments(["--once"]), Screen())
    cluster.at_rest = cluster.show.sum_up
    said = []
    for names in ([], ["big-1", "big-2", "big-3"], [], ["big-4"]):
        server.put(*(pod(name) for name in names))
        run_to_the_end(cluster, policies, threading.Event(), 1, once=True)
        said.append(capsys.readouterr().out.splitlines())
    why = "stays pending: 0/1 nodes are available: 1 no licence."
    assert said[1:] == [[f"default/big-1 {why}", f"2 other pods {why.replace('stays', 'stay')}"], [], [f"default/big-4 {why}"]]


def test_a_pod_that_is_held_says_by_which_rule_once():
    server, decisions = Server(node("n"), pod("p")), []
    rules = [FullRule(name, lambda pod, node: (), hooks={"permit": lambda *_, wait=wait: wait})
             for name, wait in (("Patient", 900), ("Impatient", (600, "it is early")), ("Approves", None))]
    cluster, policy = scheduler_of(server), FullPolicy(rules, [])
    for _ in range(3):
        make_pass(cluster, decisions, policy)
    waits = "Impatient does not permit the binding to n yet: it is early"
    assert [decision.waits for decision in decisions] == [waits]
    assert [record.waits_for for record in cluster.pending.values()] == [WaitsFor.PERMIT]
    assert said_about(server) == ([("Normal", "Waiting", waits)], [("False", "Waiting", waits)])


def test_a_condition_that_cannot_be_written_costs_a_held_pod_neither_its_room_nor_its_time():
    server = Server(node("n"), pod("p"))
    server.failures["status"] = [500] * 3
    rule = FullRule("Holds", lambda pod, node: (), hooks={"permit": lambda *_: 60})
    cluster, policy = scheduler_of(server), FullPolicy([rule], [])
    decisions = []
    for _ in range(3):
        make_pass(cluster, policy=policy)
        decisions.append(cluster.pending["uid-p"].decision)
    assert decisions[0] is decisions[1] is decisions[2] is not None
    assert len(server.sent("PATCH", "/status")) == 4, "it is written later"


def test_a_snapshot_knows_the_pods_of_all_schedulers_that_are_nominated_to_a_node():
    nominated = {"status": {"nominatedNodeName": "n"}}
    server = Server(
        node("n"), pod("ours", **nominated), pod("gated", schedulingGates=[{"name": "quota"}], **nominated),
        pod("others", schedulerName="other", **nominated), pod("plain", schedulerName="other"),
        pod("going", schedulerName="other", metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"}, **nominated),
        pod("bound", schedulerName="other", nodeName="n", **nominated))
    cluster = scheduler_of(server)
    cluster.begin_pass({"my-scheduler": POLICY})
    nominated = cluster.look({"my-scheduler": POLICY}).nominated
    assert {pod.name for pod in nominated} == {"ours", "gated", "others"}


@table("function, code", {
    "a rule that says no": (lambda pod, node: ["no"], 0),
    "a rule that breaks": (lambda pod, node: 1 / 0, 1),
    "a rule that answers nonsense": (lambda pod, node: 7, 1)})
def test_a_single_pass_in_which_a_rule_breaks_has_failed(function, code):
    policies = SimpleNamespace(current=lambda: {"my-scheduler": FullPolicy([FullRule("R", function)], [])})
    cluster = scheduler_of(Server(node("n"), pod("p")))
    assert run_to_the_end(cluster, policies, threading.Event(), 1, once=True) == code


def test_a_request_that_the_api_server_fails_to_answer_is_sent_three_times():
    sent = []

    def fail():
        sent.append(len(sent))
        raise error_of(500, "oops")

    with pytest.raises(ApiError):
        patiently(fail)
    assert len(sent) == 3


def bound_in_the_end(server, rule, clock, passes=12, cluster=None):
    """Make passes with a rule, whatever trouble there is; return the names of the pods that are bound then."""
    cluster = cluster or scheduler_of(server)
    for _ in range(passes):
        with contextlib.suppress(ApiError):
            make_pass(cluster, policy=FullPolicy([rule], []))
        clock.now += 2
    wait_until_told(cluster)
    return {*server.places()}


@table("hook, answer", {
    "a body that is no JSON, to be sent before the binding": ("pre_bind", [("PATCH", "/api/v1/x", {"when": 1j})]),
    "one to be sent when the pod gives up its node": ("unreserve", [("PATCH", "/api/v1/x", {"when": 1j})]),
    "a path that is no string": ("pre_bind", [("PATCH", 5, {})]),
    "an error that cannot say its text": ("reserve", None),
    "one in a function that says whether a pod is ready": ("pre_enqueue", None)})
def test_what_a_rule_wants_sent_or_raises_does_harm_to_its_pod_only(hook, answer, clock, monkeypatch):
    class Mute(Exception):
        def __str__(self):
            return self.missing

    def odd(pod, *_):
        if pod.name == "odd" and answer is None:
            raise Mute
        return answer if pod.name == "odd" else None

    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as a live one
    server = Server(node("n"), pod("odd", priority=9), pod("fine"))
    plain = server.request

    def request(method, path, body=None, params=None, accept=None):
        assert isinstance(path, str) and (json.dumps(body) or True)
        return plain(method, path, body, params)

    server.request = request

    def refuse_odd(pod, *_):
        if pod.name == "odd" and hook == "unreserve":
            raise Unschedulable("no")

    rule = FullRule("Odd", lambda pod, node: [], hooks={"permit": refuse_odd, hook: odd})
    cluster = scheduler_of(server)
    assert bound_in_the_end(server, rule, clock, cluster=cluster) == {"fine"} and cluster.has_failed()


def test_pods_whose_bindings_always_fail_do_not_keep_those_behind_them_from_being_bound(clock):
    server = Server(node("n"), *(pod(f"bad-{i:02}", priority=9) for i in range(30)), *(pod(f"fine-{i}") for i in range(3)))
    plain = server.request

    def request(method, path, body=None, params=None):
        if "/bad-" in path and path.endswith("binding"):
            raise error_of(500, "the webhook says no")
        return plain(method, path, body, params)

    server.request = request
    rule = FullRule("Any", lambda pod, node: ())
    assert bound_in_the_end(server, rule, clock) == {"fine-0", "fine-1", "fine-2"}


def test_a_rule_that_has_trouble_with_one_pod_does_not_keep_others_from_being_bound(clock):
    def asks(pod, node):
        if pod.name == "odd":
            raise error_of(503, "the aggregated API is away")
        return []

    server = Server(node("n"), pod("odd", priority=9), pod("fine"))
    assert bound_in_the_end(server, FullRule("Asks", asks), clock) == {"fine"}


def test_an_event_that_fails_late_does_not_keep_what_is_told_by_then_from_being_told():
    waiting = FullPod(pod("p"))
    waiting.record = PodRecord(waiting)
    decision = FullDecision(waiting, {}, POLICY)
    tasks, sent = [], []

    def attempt(method, path, body):
        if "too small" in json.dumps(body) and len(tasks) == 1:
            recorder.report(decision, "Warning", "FailedScheduling", "Unschedulable", "too full")
        if "too small" in json.dumps(body):
            raise error_of(500, "away")
        sent.append((method, "too full" in json.dumps(body)))

    writer = types.SimpleNamespace(attempt=attempt, start=lambda *task: tasks.append(task))
    recorder = Recorder(writer)
    recorder.report(decision, "Warning", "FailedScheduling", "Unschedulable", "too small")
    for function, *arguments in tasks:
        function(*arguments)
    assert sent == [("POST", True), ("PATCH", True)]


def test_rules_follow_up_a_binding_of_which_nobody_can_be_told(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    server, seen = Server(node("n"), pod("p")), []
    server.failures["events"] = [503] * 100
    rule = FullRule("Counts", lambda pod, node: (), hooks={"post_bind": lambda pod, node_name: seen.append(pod.name)})
    cluster = scheduler_of(server)
    make_pass(cluster, policy=FullPolicy([rule], []))
    assert seen == ["p"] and not cluster.has_failed()


def test_a_binding_that_fails_late_is_a_failure_of_a_single_pass_too(caplog):
    server = Server(node("n"), pod("p"))
    plain = server.request

    def request(method, path, body=None, params=None):
        if path.endswith("binding"):
            threading.Event().wait(1)
            raise error_of(403, "no right to bind")
        return plain(method, path, body, params)

    server.request = request
    policies = SimpleNamespace(current=lambda: {"my-scheduler": POLICY})
    code = run_to_the_end(scheduler_of(server), policies, threading.Event(), 1, once=True)
    assert (code, caplog.messages) == (1, ["default/p: no right to bind"])


def test_a_leader_that_is_none_any_more_asks_no_further_rule_to_bind():
    server, asked = Server(node("n"), pod("p")), []
    rules = [FullRule(name, lambda pod, node: (), hooks={"bind": lambda *_, name=name: asked.append(name)})
             for name in ("First", "Second")]
    cluster = scheduler_of(server)
    cluster.writer.may_write = lambda: not asked
    make_pass(cluster, policy=FullPolicy(rules, []))
    assert asked == ["First"] and server.places() == {}


def test_old_nodes_are_not_kept():
    """Others come in their places again and again, and each pass has another kind of pod."""
    server = Server()
    cluster, alive = scheduler_of(server), []
    for generation in range(100):
        for place in [place for place in server.objects if place[0] == "nodes"]:
            del server.objects[place]
        server.put(*(node(f"n{i}-{generation}") for i in range(5)))
        server.put(pod("p", {"cpu": "1m"}, labels={"job": str(generation)}, metadata={"uid": f"uid-{generation}"}))
        make_pass(cluster)
        alive += map(weakref.ref, cluster.look().nodes.values())
    gc.collect()
    assert sum(seen() is not None for seen in alive) < 250, "of 500"


def test_what_a_rule_wants_sent_for_a_pod_is_not_sent_once_that_has_gone():
    server = Server(node("n"), pod("p"))
    cluster = scheduler_of(server)
    [waiting] = pending_pods(cluster, {"my-scheduler": POLICY})
    decision = SimpleNamespace(pod=waiting)
    requests = [("PATCH", "/slow", {}), ("PATCH", "/second", {})]
    shown = iter([waiting])  # until it is no longer there
    for step, left in [(WaitsFor.REMEDY, 1), (WaitsFor.PRE_BIND, 2), (WaitsFor.NODE, 0)]:
        result = Result(step, decision, left=requests)
        cluster.writer.send_in_order(result, lambda pod: next(shown, None))
        assert cluster.writer.results.get(timeout=0) is result and len(result.left) == left
    assert [path for _, path, *_ in server.requests if path in ("/slow", "/second")] == ["/slow", "/slow", "/second"]


def test_a_binding_without_an_answer_is_said_once_and_a_failure_of_a_single_pass(caplog):
    server = Server(node("n"), *(pod(f"p-{i}") for i in range(4)))
    server.failures["binding"] = [0] * 4
    policies = SimpleNamespace(current=lambda: {"my-scheduler": POLICY})
    code = run_to_the_end(scheduler_of(server), policies, threading.Event(), 1, once=True)
    assert (code, len(caplog.messages)) == (1, 1) and caplog.messages[0].endswith(": status 0")


def test_a_proxy_that_does_not_answer_is_named_once_before_it_is_trouble(monkeypatch, caplog):
    class Slow(PooledProxy):
        def request(self, *_):
            time.sleep(0.3)
            return {"items": []}

    replace(monkeypatch, "SLOW_SECONDS", 0.05)
    assert [list_all(Slow("http://127.0.0.1:8001"), resource) for resource in ("pods", "nodes", "pods")] == [([], "")] * 3
    assert caplog.messages == ["http://127.0.0.1:8001 has not answered for 0.05 s; it may take up to 60 s"]


@table("running, carried_out", {"where others run": (1, True), "the first": (0, False)})
def test_a_thread_that_cannot_be_started(running, carried_out, monkeypatch):
    """Then the others do what it was to do; without any, the pod is tried again."""
    server = Server(node("n"), pod("p"))
    cluster = scheduler_of(server)
    if running:
        cluster.writer.start(lambda: None)
    wait_for("it has nothing to do", lambda: not cluster.writer.tasks.unfinished_tasks)
    monkeypatch.setattr(threading, "Thread", Mock(side_effect=RuntimeError("can't start new thread")))
    with contextlib.suppress(Trouble):
        a_pass(cluster, {"my-scheduler": POLICY})
    assert bool(cluster.writer.awaited or server.places()) == carried_out
    monkeypatch.undo()
    for record in cluster.pending.values():
        record.retry.at_once()
    make_pass(cluster)
    wait_for("it is bound", server.places)


@table("breaks", {
    "rules that work": (lambda: None,), "a rule that breaks": (lambda: 1 / 0,),
    "a rule that calls sys.exit": (lambda: sys.exit("no"),),
})
def test_what_rules_need_for_a_first_pod_is_looked_up_before_its_turn(breaks):
    """Once, not in each pass; and for no pod are rules asked that may say something else each time."""
    asked = []
    predicate("Own", steady=True, metadata=lambda pod, nodes, snapshot: breaks())(lambda pod, node, metadata: [])
    priority("Moody", metadata=lambda pod, nodes, snapshot: asked.append(pod))(lambda pod, node, metadata: 1)
    try:
        policy = read_policy({"kind": "Policy", "apiVersion": "v1"})
        policy.priorities.append(PRIORITIES["Moody"])
        cluster = cluster_of(node("n"))
        cluster.begin_pass({"my-scheduler": policy})
        assert cluster.cache.objects.keys() >= {*OWNERS} and asked == []
        del cluster.cache.objects["replicasets"]
        policy.predicates.append(PREDICATES["Own"])
        cluster.begin_pass({"my-scheduler": policy})
        assert "replicasets" not in cluster.cache.objects
        cluster.begin_pass({"my-scheduler": dataclasses.replace(policy)})
    finally:
        del PREDICATES["Own"], PRIORITIES["Moody"]
