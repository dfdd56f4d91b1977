"""Bindings that fail, hang, or have no answer, with a misbehaving API server in memory."""

import contextlib
import json
import threading
import time
from collections import Counter
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from helpers.control_plane import wait_for
from helpers.everywhere import replace
from helpers.extras import new_cluster, node, pending_pods, pod, run_pass, table, wait_for_writes
from helpers.fake_api import POLICY, Server, events_and_conditions, make_pass, run_to_the_end, scheduler_of
from scheduler_extras.api.client import ApiClient
from scheduler_extras.api.responses import Conflict, TooLarge, error_of
from scheduler_extras.common.errors import ApiError, ServerUnavailable, Unschedulable
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.pod_record import PodRecord, WaitsFor
from scheduler_extras.live.writer import Result, Step, Writer
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.schedule import schedule


@table("status, reasons", {
    "another scheduler has bound the pod": (409, []),
    "the pod is gone": (404, []),
    "the Binding is forbidden": (403, ["SchedulerError"]),
    "an admission webhook rejects the Binding": (400, ["SchedulerError"]),
    "the API server failed, or an admission webhook": (500, ["SchedulerError"]),
    "there are too many requests": (429, []),
})
def test_the_events_and_conditions_of_a_rejected_binding(status, reasons):
    server = Server(node("n"), pod("p"))
    server.failures["binding"] = [status] * 3
    make_pass(scheduler_of(server))
    events, conditions = events_and_conditions(server)
    assert events == [("Warning", "FailedScheduling", f"binding rejected: status {status}") for _ in reasons]
    assert conditions == [("False", reason, f"binding rejected: status {status}") for reason in reasons]


@table("status", {"is forbidden": (403,), "fails in the API server": (500,)})
def test_there_is_one_event_and_one_condition_if_a_binding_always(status, clock):
    server = Server(node("n"), pod("p"))
    server.failures["binding"] = [status[0]] * 30
    cluster = scheduler_of(server)
    for _ in range(5):
        make_pass(cluster)
        clock.now += 20
    assert len(server.sent("POST", "/events")) == len(server.sent("PATCH", "/status")) == 1
    assert cluster.queue["uid-p"].retry.failures == 5


@table("status", {"with status 500": 500, "with status 409": 409})
def test_an_object_that_is_too_large_for_etcd_raises_its_own_error(status):
    api = ApiClient("http://127.0.0.1:1")
    data = b'{"kind": "Status", "message": "etcdserver: request is too large"}'
    with pytest.raises(TooLarge, match="request is too large") as raised:
        api.content(SimpleNamespace(status=status, reason="", retry_after=lambda: 0), data, "POST", "/api/v1/pods")
    assert raised.value.status == 413 and not isinstance(raised.value, ServerUnavailable)


def test_a_pod_that_is_too_large_to_be_bound_gets_an_event(caplog):
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
    text = f"with its node, the pod is larger than etcd takes: {answer}"
    assert [message for message in caplog.messages if text in message] == [f"default/p: {text}"]
    assert [body["message"] for *_, body in server.sent("POST", "/events")] == [f"binding rejected: {text}"]


@table("status, carried_out", {
    "another scheduler has bound the pod": (409, False),
    "the pod is gone": (404, False),
    "the Binding is forbidden": (403, False),
    "too many requests": (429, False),
    "the API server failed before binding": (500, False),
    "the API server failed after binding": (500, True),
    "the request was lost": (0, False),
    "the answer was lost": (0, True),
    "another server answers": ({"items": 7}, False),
})
def test_a_binding_that_fails(status, carried_out, clock, monkeypatch):
    """In the end the pod is bound once. If it was bound although the answer was lost, this is noticed at once."""
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as live
    server = Server(node("n", cpu="1"), pod("first", {"cpu": "1"}))
    fails = status if isinstance(status, dict) else (status, carried_out)
    server.failures["binding"] = [fails] * (3 if status == 500 else 1)
    cluster = scheduler_of(server)
    make_pass(cluster)
    if carried_out:
        assert cluster.queue["uid-first"].retry.failures == 0 and "uid-first" in cluster.refresh_snapshot().nodes["n"].pods
        assert [body["reason"] for *_, body in server.sent("POST", "/events")] == ["Scheduled"]
    else:
        assert cluster.queue["uid-first"].retry.failures == 1, "the pod backs off"
        assert not cluster.refresh_snapshot().nodes["n"].pods, "its room is free, because it is known not to be bound"
    server.put(pod("second", {"cpu": "1"}))
    for _ in range(3):
        clock.now += 20
        make_pass(cluster)
    assert len(server.placements()) == 1, "both would be too many for the node"
    assert Counter(path for _, path, _, _ in server.sent("POST", "first/binding")).total() <= 4


def test_a_binding_that_was_carried_out_but_answered_with_504_and_409_counts_as_bound(monkeypatch):
    """The event is sent, post_bind is called, and nothing is unreserved."""
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as live
    server, seen = Server(node("n"), pod("p")), []
    server.failures["binding"] = [(504, True), 409]
    rule = FullRule("Notes", lambda pod, node: (), hooks={
        "post_bind": lambda *_: seen.append("post_bind"), "unreserve": lambda *_: seen.append("unreserve")})
    cluster = scheduler_of(server)
    make_pass(cluster, policy=FullPolicy([rule], []))
    assert server.placements() == {"p": "n"} and seen == ["post_bind"] and not cluster.writer.awaited
    assert [body["reason"] for *_, body in server.sent("POST", "/events")] == ["Scheduled"]


@table("failures, may_write", {
    "another client has bound it before": ([409], True), "it is forbidden, and another client binds it": ([403], True),
    "the leader, after this replica has lost the lease": ([], False)})
def test_a_pod_that_another_client_has_bound_to_the_same_node_does_not_count_as_bound(failures, may_write, caplog, monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as live
    server, seen = Server(node("n"), pod("p")), []
    plain = server.request

    def request(method, path, *more, **options):
        if path.endswith("/binding"):
            server.put(pod("p", nodeName="n"))
        return plain(method, path, *more, **options)

    server.request = request
    server.failures["binding"] = failures
    rule = FullRule("Notes", lambda pod, node: (), hooks={
        "post_bind": lambda *_: seen.append("post_bind"), "unreserve": lambda *_: seen.append("unreserve")})
    cluster = scheduler_of(server)
    cluster.writer.may_write = lambda: may_write
    make_pass(cluster, policy=FullPolicy([rule], []))
    assert seen == ["unreserve"] and cluster.attempts.bound == 0
    assert "Scheduled" not in [body["reason"] for *_, body in server.sent("POST", "/events")]
    assert ("is a second my-scheduler running?" in caplog.text) == may_write


@table("there, attempts", {
    "another pod has its name": ({"uid": "another", "nodeName": "n"}, 1),
    "it is on another node": ({"uid": "uid-p", "nodeName": "m"}, 1),
    "it is on the node": ({"uid": "uid-p", "nodeName": "n"}, 0)})
def test_after_a_binding_without_an_answer_the_pod_is_read(there, attempts, monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as live
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    server = Server(node("n"), pod("p"))
    # The first reads fail, too; an answer that is not a pod does not come from the API server.
    server.failures |= {"binding": [0], "p": [503, 0, 401, {"items": 7}]}
    plain = server.request

    def request(method, path, body=None, params=None, accept=None, check=None):
        if path.endswith("/binding"):
            server.put(pod("p", metadata={"uid": there["uid"]}, nodeName=there["nodeName"]))
        return plain(method, path, body, params)

    server.request = request
    cluster = scheduler_of(server)
    make_pass(cluster)
    assert cluster.queue["uid-p"].retry.failures == attempts
    assert len(server.sent("GET", "/pods/p")) == 5


def test_a_binding_without_an_answer_has_failed_if_the_pod_cannot_be_read(monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as live
    server = Server(node("n"), pod("p"))
    server.failures |= {"binding": [0], "p": [403]}
    cluster = scheduler_of(server)
    make_pass(cluster)
    assert cluster.queue["uid-p"].retry.failures == 1


def test_pods_whose_writes_fail_do_not_delay_other_pods(clock, caplog):
    server = Server(node("n"), *(pod(name, priority=10) for name in ("odd-1", "odd-2", "odd-3")),
                    *(pod(f"fine-{i}") for i in range(30)))
    plain = server.request

    def request(method, path, body=None, params=None, check=None):
        if "/odd-" in path:
            raise error_of(500, "the webhook has failed")
        return plain(method, path, body, params)

    server.request = request
    cluster = scheduler_of(server)
    assert make_pass(cluster) == 33 and len(server.placements()) == 30
    for seconds in (1, 2, 4, 8, 10):
        assert make_pass(cluster) == 0, "the failing pods back off"
        clock.now += seconds + 0.01
        assert make_pass(cluster) == 3, "and are retried"
    assert sorted(caplog.messages) == [f"default/odd-{i}: the webhook has failed" for i in (1, 2, 3)]


def test_failing_writes_of_many_pods_in_a_row_count_as_a_failure_of_the_api_server():
    server = Server(node("n"), *(pod(f"pod-{i:02}") for i in range(60)))
    server.failures["binding"] = [503] * 180
    with pytest.raises(ApiError):
        make_pass(scheduler_of(server))
    assert 30 <= len(server.sent("POST", "/binding")) < 90


def test_a_pod_is_tried_again_at_once_with_a_new_policy(clock):
    server, refuses = Server(node("n"), pod("p")), FullRule("Refuses", lambda pod, node: ["no"])
    cluster, policy = scheduler_of(server), FullPolicy([refuses], [])
    for _ in range(2):
        make_pass(cluster, policy=policy)
    assert [record.retry.failures for record in cluster.queue.values()] == [1], "with the same Policy it backs off"
    make_pass(cluster, policy=FullPolicy([], []))
    assert server.placements() == {"p": "n"}


def test_a_dry_run_keeps_the_room_of_the_pods_that_it_has_placed(clock):
    server, decisions = Server(node("n", cpu="1"), pod("first", {"cpu": "1"})), []
    cluster = new_cluster(server, dry_run=True)
    make_pass(cluster, decisions)
    server.put(pod("second", {"cpu": "1"}, priority=10))
    for _ in range(3):
        clock.now += 20
        make_pass(cluster, decisions)
    assert [(decision.pod.name, decision.node) for decision in decisions] == [("first", "n"), ("second", None)]
    assert {method for method, *_ in server.requests} == {"GET"}


def test_a_write_that_hangs_delays_only_its_pod(monkeypatch):
    server, answer = Server(node("n", cpu="3"), *(pod(f"pod-{i}", {"cpu": "1"}) for i in range(2))), threading.Event()
    plain = server.request

    def request(method, path, body=None, params=None, check=None):
        if path.endswith("pod-0/binding"):
            answer.wait(3600)
        return plain(method, path, body, params)

    server.request = request
    cluster = scheduler_of(server)
    make_pass(cluster, patience=0)
    wait_for("the other pod is bound", lambda: server.placements() == {"pod-1": "n"})
    server.put(*(pod(f"later-{i}", {"cpu": "1"}, priority=9) for i in range(2)))
    make_pass(cluster, patience=0)
    wait_for("one pod is bound beside the room of the hanging one", lambda: server.placements() == {
        "pod-1": "n", "later-0": "n"})
    answer.set()
    make_pass(cluster)
    make_pass(cluster)
    assert server.placements() == {"pod-0": "n", "pod-1": "n", "later-0": "n"}


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
    assert make_pass(cluster) == 12 and len(server.placements()) == 20


def test_no_unreserve_request_is_lost_if_many_bindings_fail_at_once(clock):
    """They are sent even if so many Bindings fail that the pass ends."""
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
            wait_for_writes(cluster)
        clock.now += 20
    assert failed == 1 and len(server.placements()) == 14 and len(server.sent("PATCH", "/undo")) == 14


def test_a_pass_ends_if_the_api_server_fails_for_the_requests_of_many_preemptors():
    rule = FullRule("Preempts", lambda pod, node: ["no"], hooks={
        "post_filter": lambda pod, failed, snapshot: ([("PATCH", "/room", {})], "makes room")})
    server = Server(node("n"), *(pod(f"p{i:02}") for i in range(14)))
    server.failures["room"] = [503] * 3 * 14
    with pytest.raises(ApiError, match="503"):
        make_pass(scheduler_of(server), policy=FullPolicy([rule], []))


def test_a_new_pod_does_not_wait_for_the_results_of_other_bindings(watched):
    cluster = watched(node("n"))
    waits = []
    cluster.cluster.results.handle = lambda patience=0: waits.append(patience)
    cluster.cluster.writer.awaited = 1
    cluster.create(pod("new"))
    cluster.cluster.next_pod(threading.Event())
    assert sum(waits) < 0.1


def test_exceptions_in_bind_do_not_count_as_failures_of_the_api_server(monkeypatch, caplog):
    server = Server(node("n"), *(pod(f"pod-{i:02}") for i in range(30)))
    rule = FullRule("Binder", lambda pod, node: (), hooks={"bind": lambda pod, node_name: 1 / 0})
    assert make_pass(scheduler_of(server), policy=FullPolicy([rule], [])) == 30
    assert len(caplog.messages) == 30 and ": ZeroDivisionError in <lambda>: division by zero (test_binding.py, " in caplog.messages[0]


def test_a_prepared_pod_keeps_its_room_during_the_pass(clock, monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as live
    server = Server(node("n", cpu="2"), pod("big", {"cpu": "2"}, priority=9), *(pod(f"p{i}", {"cpu": "1"}) for i in "ab"))
    prepared = [[("PATCH", "/api/v1/namespaces/default/pods/big", {})], None]
    rule = FullRule("Prepare", lambda pod, node: (), hooks={
        "pre_bind": lambda pod, node, snapshot: prepared.pop(0) if pod.name == "big" else None})
    fits = {rule.name: rule for rule in POLICY.predicates}["PodFitsResources"]
    policy, cluster = FullPolicy([fits, rule], []), scheduler_of(server)

    def tick(decision):
        clock.now += 0.2  # so that the cluster is listed again

    for _ in range(2):
        run_pass(cluster, {"my-scheduler": policy}, tick)
    cluster.results.handle(patience=60)
    assert server.placements() == {"big": "n"}


def test_a_prepared_pod_is_not_tried_again_during_its_binding(clock, monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as live
    server, answer = Server(node("n", cpu="1"), pod("p", {"cpu": "1"})), threading.Event()
    prepared, plain = [[("PATCH", "/api/v1/namespaces/default/pods/p", {})]], server.request

    def request(method, path, body=None, params=None, accept=None, check=None):
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
    assert server.placements() == {"p": "n"} and len(server.sent("POST", "/binding")) == 1


def test_a_pre_bind_request_may_fail_after_the_pod_is_gone(monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as live
    server, answer = Server(node("n"), pod("p")), threading.Event()
    plain = server.request

    def request(method, path, *more, **options):
        if path == "/prepare":
            answer.wait(3600)
            raise error_of(403, "no")
        return plain(method, path, *more, **options)

    server.request = request
    rule = FullRule("Prepare", lambda pod, node: (), hooks={
        "pre_bind": lambda pod, node, snapshot: [("PATCH", "/prepare", {})] if pod.name == "p" else None})
    cluster, policy = scheduler_of(server), FullPolicy([rule], [])
    make_pass(cluster, policy=policy, patience=0)
    del server.objects["pods", "default", "p"]
    for _ in range(2):  # the first pass gives the binding up, the second removes the pod from the queue
        make_pass(cluster, policy=policy, patience=0)
    assert not cluster.queue
    answer.set()
    server.put(pod("next"))
    make_pass(cluster, policy=policy)
    assert server.placements() == {"next": "n"}


def test_leadership_is_checked_before_each_attempt_of_a_write():
    server = Server(node("n"), pod("p"))
    server.failures["binding"] = [503] * 3
    cluster = scheduler_of(server)
    cluster.writer.may_write = lambda: not server.sent("POST", "/binding")
    make_pass(cluster)
    assert len(server.sent("POST", "/binding")) == 1 and server.placements() == {}


def test_the_event_of_a_binding_is_sent_even_if_the_replica_has_lost_the_lease():
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "1"}))
    cluster = scheduler_of(server)
    cluster.writer.may_write = lambda: not server.placements()
    make_pass(cluster)
    server.put(pod("q", {"cpu": "1"}))  # in the next pass: in the same one, its event could be sent before the Binding
    make_pass(cluster)
    assert [body["reason"] for *_, body in server.sent("POST", "/events")].count("Scheduled") == 1
    assert not server.sent("PATCH", "/status"), "the new leader writes the status of pods"


def test_a_slow_post_bind_delays_no_pod_and_does_not_count_as_a_failure(clock):
    server, go_on, seen = Server(node("n"), *(pod(f"p-{i:02}") for i in range(20))), threading.Event(), []
    rule = FullRule("Slow", lambda pod, node: (), hooks={
        "post_bind": lambda pod, node_name: go_on.wait(3600), "unreserve": lambda pod, snapshot: seen.append(pod)})
    cluster, policy = scheduler_of(server), FullPolicy([rule], [])
    for _ in range(2):
        run_pass(cluster, {"my-scheduler": policy})
        clock.now += 100
    assert cluster.writer.tasks.unfinished_tasks == 20, "they are awaited at the end"
    go_on.set()
    wait_for_writes(cluster)
    assert (len(server.placements()), seen, cluster.writer.awaited) == (20, [], 0) and not cluster.has_failed()
    assert len(server.sent("POST", "/events")) == 20


def bound_in_the_end(server, rule, clock, passes=12, cluster=None):
    """Run passes with a rule, ignoring API errors; return the names of the pods that are bound."""
    cluster = cluster or scheduler_of(server)
    for _ in range(passes):
        with contextlib.suppress(ApiError):
            make_pass(cluster, policy=FullPolicy([rule], []))
        clock.now += 2
    wait_for_writes(cluster)
    return {*server.placements()}


@table("hook, answer", {
    "pre_bind returns a body that is not JSON": ("pre_bind", [("PATCH", "/api/v1/x", {"when": 1j})]),
    "unreserve returns a body that is not JSON": ("unreserve", [("PATCH", "/api/v1/x", {"when": 1j})]),
    "pre_bind returns a path that is not a string": ("pre_bind", [("PATCH", 5, {})]),
    "reserve raises an exception without a text": ("reserve", None),
    "pre_enqueue raises an exception without a text": ("pre_enqueue", None)})
def test_invalid_requests_and_exceptions_of_a_rule_affect_only_its_pod(hook, answer, clock, monkeypatch):
    class Mute(Exception):
        def __str__(self):
            return self.missing

    def odd(pod, *_):
        if pod.name == "odd" and answer is None:
            raise Mute
        return answer if pod.name == "odd" else None

    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as live
    server = Server(node("n"), pod("odd", priority=9), pod("fine"))
    plain = server.request

    def request(method, path, body=None, params=None, accept=None, check=None):
        assert isinstance(path, str) and (json.dumps(body) or True)
        return plain(method, path, body, params)

    server.request = request

    def refuse_odd(pod, *_):
        if pod.name == "odd" and hook == "unreserve":
            raise Unschedulable("no")

    rule = FullRule("Odd", lambda pod, node: [], hooks={"permit": refuse_odd, hook: odd})
    cluster = scheduler_of(server)
    assert bound_in_the_end(server, rule, clock, cluster=cluster) == {"fine"} and cluster.has_failed()


def test_pods_whose_bindings_always_fail_do_not_block_the_pods_behind_them(clock):
    server = Server(node("n"), *(pod(f"bad-{i:02}", priority=9) for i in range(30)), *(pod(f"fine-{i}") for i in range(3)))
    plain = server.request

    def request(method, path, body=None, params=None, check=None):
        if "/bad-" in path and path.endswith("binding"):
            raise error_of(500, "the webhook says no")
        return plain(method, path, body, params)

    server.request = request
    rule = FullRule("Any", lambda pod, node: ())
    assert bound_in_the_end(server, rule, clock) == {"fine-0", "fine-1", "fine-2"}


def test_an_error_of_a_rule_for_one_pod_does_not_block_others(clock):
    def asks(pod, node):
        if pod.name == "odd":
            raise error_of(503, "the aggregated API is away")
        return []

    server = Server(node("n"), pod("odd", priority=9), pod("fine"))
    assert bound_in_the_end(server, FullRule("Asks", asks), clock) == {"fine"}


def test_post_bind_is_called_even_if_the_event_cannot_be_written(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    server, seen = Server(node("n"), pod("p")), []
    server.failures["events"] = [503] * 100
    rule = FullRule("Counts", lambda pod, node: (), hooks={"post_bind": lambda pod, node_name: seen.append(pod.name)})
    cluster = scheduler_of(server)
    make_pass(cluster, policy=FullPolicy([rule], []))
    assert seen == ["p"] and not cluster.has_failed()


def test_with_once_a_binding_that_fails_late_gives_exit_code_1(caplog):
    server = Server(node("n"), pod("p"))
    plain = server.request

    def request(method, path, body=None, params=None, check=None):
        if path.endswith("binding"):
            threading.Event().wait(1)
            raise error_of(403, "no right to bind")
        return plain(method, path, body, params)

    server.request = request
    policies = SimpleNamespace(reload_if_changed=lambda: {"my-scheduler": POLICY})
    code = run_to_the_end(scheduler_of(server), policies, threading.Event(), 1, once=True)
    assert (code, caplog.messages) == (1, ["default/p: no right to bind"])


def test_after_losing_the_lease_no_further_bind_hook_is_called():
    server, asked = Server(node("n"), pod("p")), []
    rules = [FullRule(name, lambda pod, node: (), hooks={"bind": lambda *_, name=name: asked.append(name)})
             for name in ("First", "Second")]
    cluster = scheduler_of(server)
    cluster.writer.may_write = lambda: not asked
    make_pass(cluster, policy=FullPolicy(rules, []))
    assert asked == ["First"] and server.placements() == {}


def test_requests_of_rules_are_not_sent_after_the_pod_is_gone():
    server = Server(node("n"), pod("p"))
    cluster = scheduler_of(server)
    [waiting] = pending_pods(cluster, {"my-scheduler": POLICY})
    decision = SimpleNamespace(pod=waiting)
    requests = [("PATCH", "/slow", {}), ("PATCH", "/second", {})]
    shown = iter([waiting])  # then the pod is gone
    for step, left in [(Step.POST_FILTER, 1), (Step.PRE_BIND, 2), (Step.CLEANUP, 0)]:
        result = Result(step, decision, unsent=requests)
        cluster.writer.send_in_order(result, lambda pod: next(shown, None))
        assert cluster.writer.results.get(timeout=0) is result and len(result.unsent) == left
    assert [path for _, path, *_ in server.requests if path in ("/slow", "/second")] == ["/slow", "/slow", "/second"]


def test_with_once_bindings_without_an_answer_are_logged_once_and_give_exit_code_1(caplog):
    server = Server(node("n"), *(pod(f"p-{i}") for i in range(4)))
    server.failures["binding"] = [0] * 4
    policies = SimpleNamespace(reload_if_changed=lambda: {"my-scheduler": POLICY})
    code = run_to_the_end(scheduler_of(server), policies, threading.Event(), 1, once=True)
    assert (code, len(caplog.messages)) == (1, 1) and caplog.messages[0].endswith(": status 0")


@table("running, carried_out", {"with another thread": (1, True), "without another thread": (0, False)})
def test_a_thread_that_cannot_be_started(running, carried_out, monkeypatch):
    """Another thread does its work; without one, the pod is tried again."""
    server = Server(node("n"), pod("p"))
    cluster = scheduler_of(server)
    if running:
        cluster.writer.start(lambda: None)
    wait_for("the thread is idle", lambda: not cluster.writer.tasks.unfinished_tasks)
    monkeypatch.setattr(threading, "Thread", Mock(side_effect=RuntimeError("can't start new thread")))
    with contextlib.suppress(ServerUnavailable):
        run_pass(cluster, {"my-scheduler": POLICY})
    assert bool(cluster.writer.awaited or server.placements()) == carried_out
    monkeypatch.undo()
    for record in cluster.queue.values():
        record.retry.make_due()
    make_pass(cluster)
    wait_for("the pod is bound", server.placements)


def test_requests_of_pre_bind_end_once_the_pod_has_given_up_its_node():
    """Otherwise they could be sent after those of Unreserve, and nothing would undo them."""
    server = Server(node("n"), pod("p"))
    cluster = scheduler_of(server)
    [waiting] = pending_pods(cluster, {"my-scheduler": POLICY})
    decision = schedule(waiting, cluster.snapshot, POLICY)
    waiting.record = PodRecord(waiting)
    waiting.record.hold(WaitsFor.PRE_BIND, decision)
    result = Result(Step.PRE_BIND, decision, unsent=[("POST", "/first", {}), ("POST", "/second", {})])
    sent = []

    def send(method, path, body):
        sent.append(path)
        waiting.record.back_off(decision)

    cluster.writer.request_if_leading = send
    cluster.writer.send_in_order(result, lambda pod: pod)
    assert sent == ["/first"] and isinstance(result.error, Conflict)
