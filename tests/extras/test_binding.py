"""Bindings against a cluster in memory that misbehaves: those that fail, hang, or have no answer."""

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
from helpers.fake_api import POLICY, Server, events_and_conditions, make_pass, scheduler_of
from scheduler_extras.api.client import ApiClient
from scheduler_extras.api.responses import TooLarge, error_of
from scheduler_extras.common.errors import ApiError, ServerUnavailable, Unschedulable
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.session import run_to_the_end
from scheduler_extras.live.writer import Result, Step, Writer
from scheduler_extras.policy.policy import FullPolicy


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
    events, conditions = events_and_conditions(server)
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
    assert cluster.queue["uid-p"].retry.failures == 5


@table("status", {"as if it were in trouble": 500, "as if somebody had been faster": 409})
def test_what_etcd_does_not_take_is_an_error_of_its_own(status):
    api = ApiClient("http://127.0.0.1:1")
    data = b'{"kind": "Status", "message": "etcdserver: request is too large"}'
    with pytest.raises(TooLarge, match="request is too large") as raised:
        api.content(SimpleNamespace(status=status, reason="", retry_after=lambda: 0), data, "POST", "/api/v1/pods")
    assert raised.value.status == 413 and not isinstance(raised.value, ServerUnavailable)


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
    text = f"with its node, the pod is larger than etcd takes: {answer}"
    assert [message for message in caplog.messages if text in message] == [f"default/p: {text}"]
    assert [body["message"] for *_, body in server.sent("POST", "/events")] == [f"binding rejected: {text}"]


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
        assert cluster.queue["uid-first"].retry.failures == 0 and "uid-first" in cluster.refresh_snapshot().nodes["n"].pods
        assert [body["reason"] for *_, body in server.sent("POST", "/events")] == ["Scheduled"]
    else:
        assert cluster.queue["uid-first"].retry.failures == 1, "it backs off"
        assert not cluster.refresh_snapshot().nodes["n"].pods, "its room is free, as it is known not to be bound"
    server.put(pod("second", {"cpu": "1"}))
    for _ in range(3):
        clock.now += 20
        make_pass(cluster)
    assert len(server.placements()) == 1, "both would be too many for the node"
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
    assert server.placements() == {"p": "n"} and seen == ["post_bind"] and not cluster.writer.awaited
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

    def request(method, path, body=None, params=None, accept=None, check=None):
        if path.endswith("/binding"):
            server.put(pod("p", metadata={"uid": there["uid"]}, nodeName=there["nodeName"]))
        return plain(method, path, body, params)

    server.request = request
    cluster = scheduler_of(server)
    make_pass(cluster)
    assert cluster.queue["uid-p"].retry.failures == attempts
    assert len(server.sent("GET", "/pods/p")) == 5


def test_where_nobody_may_see_the_pod_a_binding_without_an_answer_has_failed(monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as a live one
    server = Server(node("n"), pod("p"))
    server.failures |= {"binding": [0], "p": [403]}
    cluster = scheduler_of(server)
    make_pass(cluster)
    assert cluster.queue["uid-p"].retry.failures == 1


def test_a_pod_whose_writes_fail_holds_nobody_up(clock, caplog):
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
    assert [record.retry.failures for record in cluster.queue.values()] == [1], "by the same one it backs off"
    make_pass(cluster, policy=FullPolicy([], []))
    assert server.placements() == {"p": "n"}


def test_a_dry_run_keeps_the_room_of_what_it_has_placed(clock):
    server, decisions = Server(node("n", cpu="1"), pod("first", {"cpu": "1"})), []
    cluster = new_cluster(server, dry_run=True)
    make_pass(cluster, decisions)
    server.put(pod("second", {"cpu": "1"}, priority=10))
    for _ in range(3):
        clock.now += 20
        make_pass(cluster, decisions)
    assert [(decision.pod.name, decision.node) for decision in decisions] == [("first", "n"), ("second", None)]
    assert {method for method, *_ in server.requests} == {"GET"}


def test_a_write_that_hangs_holds_up_its_pod_only(monkeypatch):
    server, answer = Server(node("n", cpu="3"), *(pod(f"pod-{i}", {"cpu": "1"}) for i in range(2))), threading.Event()
    plain = server.request

    def request(method, path, body=None, params=None, check=None):
        if path.endswith("pod-0/binding"):
            answer.wait(3600)
        return plain(method, path, body, params)

    server.request = request
    cluster = scheduler_of(server)
    make_pass(cluster, patience=0)
    wait_for("the other one is bound", lambda: server.placements() == {"pod-1": "n"})
    server.put(*(pod(f"later-{i}", {"cpu": "1"}, priority=9) for i in range(2)))
    make_pass(cluster, patience=0)
    wait_for("its room is kept, and it is not tried again meanwhile", lambda: server.placements() == {
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
            wait_for_writes(cluster)
        clock.now += 20
    assert failed == 1 and len(server.placements()) == 14 and len(server.sent("PATCH", "/undo")) == 14


def test_an_extender_that_fails_to_bind_is_no_trouble_of_the_api_servers(monkeypatch, caplog):
    server = Server(node("n"), *(pod(f"pod-{i:02}") for i in range(30)))
    rule = FullRule("Binder", lambda pod, node: (), hooks={"bind": lambda pod, node_name: 1 / 0})
    assert make_pass(scheduler_of(server), policy=FullPolicy([rule], [])) == 30
    assert len(caplog.messages) == 30 and ": ZeroDivisionError in <lambda>: division by zero (test_binding.py, " in caplog.messages[0]


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
        run_pass(cluster, {"my-scheduler": policy}, tick)
    cluster.results.handle(patience=60)
    assert server.placements() == {"big": "n"}


def test_a_prepared_pod_is_not_tried_again_while_its_binding_is_under_way(clock, monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as a live one
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


def test_what_prepares_a_pod_may_fail_once_the_pod_is_gone(monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as a live one
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
    for _ in range(2):  # in the first it falls back, in the second it is forgotten
        make_pass(cluster, policy=policy, patience=0)
    assert not cluster.queue
    answer.set()
    server.put(pod("next"))
    make_pass(cluster, policy=policy)
    assert server.placements() == {"next": "n"}


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
    assert len(server.sent("POST", "/binding")) == 1 and server.placements() == {}


def test_who_has_bound_a_pod_says_so_even_if_another_replica_leads_by_then():
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "1"}))
    cluster = scheduler_of(server)
    cluster.writer.may_write = lambda: not server.placements()
    make_pass(cluster)
    server.put(pod("q", {"cpu": "1"}))  # a pass later, as what is said of it would overtake the Binding in one
    make_pass(cluster)
    assert [body["reason"] for *_, body in server.sent("POST", "/events")].count("Scheduled") == 1
    assert not server.sent("PATCH", "/status"), "what a pod's status says is up to the other one"


def test_a_post_bind_that_takes_long_makes_no_bound_pod_count_as_failed_and_holds_nobody_up(clock):
    server, go_on, seen = Server(node("n"), *(pod(f"p-{i:02}") for i in range(20))), threading.Event(), []
    rule = FullRule("Slow", lambda pod, node: (), hooks={
        "post_bind": lambda pod, node_name: go_on.wait(3600), "unreserve": lambda pod, snapshot: seen.append(pod)})
    cluster, policy = scheduler_of(server), FullPolicy([rule], [])
    for _ in range(2):
        run_pass(cluster, {"my-scheduler": policy})
        clock.now += 100
    assert cluster.writer.tasks.unfinished_tasks == 20, "they are waited for at the end"
    go_on.set()
    wait_for_writes(cluster)
    assert (len(server.placements()), seen, cluster.writer.awaited) == (20, [], 0) and not cluster.has_failed()
    assert len(server.sent("POST", "/events")) == 20


def bound_in_the_end(server, rule, clock, passes=12, cluster=None):
    """Make passes with a rule, whatever trouble there is; return the names of the pods that are bound then."""
    cluster = cluster or scheduler_of(server)
    for _ in range(passes):
        with contextlib.suppress(ApiError):
            make_pass(cluster, policy=FullPolicy([rule], []))
        clock.now += 2
    wait_for_writes(cluster)
    return {*server.placements()}


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


def test_pods_whose_bindings_always_fail_do_not_keep_those_behind_them_from_being_bound(clock):
    server = Server(node("n"), *(pod(f"bad-{i:02}", priority=9) for i in range(30)), *(pod(f"fine-{i}") for i in range(3)))
    plain = server.request

    def request(method, path, body=None, params=None, check=None):
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

    def request(method, path, body=None, params=None, check=None):
        if path.endswith("binding"):
            threading.Event().wait(1)
            raise error_of(403, "no right to bind")
        return plain(method, path, body, params)

    server.request = request
    policies = SimpleNamespace(reload_if_changed=lambda: {"my-scheduler": POLICY})
    code = run_to_the_end(scheduler_of(server), policies, threading.Event(), 1, once=True)
    assert (code, caplog.messages) == (1, ["default/p: no right to bind"])


def test_a_leader_that_is_none_any_more_asks_no_further_rule_to_bind():
    server, asked = Server(node("n"), pod("p")), []
    rules = [FullRule(name, lambda pod, node: (), hooks={"bind": lambda *_, name=name: asked.append(name)})
             for name in ("First", "Second")]
    cluster = scheduler_of(server)
    cluster.writer.may_write = lambda: not asked
    make_pass(cluster, policy=FullPolicy(rules, []))
    assert asked == ["First"] and server.placements() == {}


def test_what_a_rule_wants_sent_for_a_pod_is_not_sent_once_that_has_gone():
    server = Server(node("n"), pod("p"))
    cluster = scheduler_of(server)
    [waiting] = pending_pods(cluster, {"my-scheduler": POLICY})
    decision = SimpleNamespace(pod=waiting)
    requests = [("PATCH", "/slow", {}), ("PATCH", "/second", {})]
    shown = iter([waiting])  # until it is no longer there
    for step, left in [(Step.POST_FILTER, 1), (Step.PRE_BIND, 2), (Step.CLEANUP, 0)]:
        result = Result(step, decision, unsent=requests)
        cluster.writer.send_in_order(result, lambda pod: next(shown, None))
        assert cluster.writer.results.get(timeout=0) is result and len(result.unsent) == left
    assert [path for _, path, *_ in server.requests if path in ("/slow", "/second")] == ["/slow", "/slow", "/second"]


def test_a_binding_without_an_answer_is_said_once_and_a_failure_of_a_single_pass(caplog):
    server = Server(node("n"), *(pod(f"p-{i}") for i in range(4)))
    server.failures["binding"] = [0] * 4
    policies = SimpleNamespace(reload_if_changed=lambda: {"my-scheduler": POLICY})
    code = run_to_the_end(scheduler_of(server), policies, threading.Event(), 1, once=True)
    assert (code, len(caplog.messages)) == (1, 1) and caplog.messages[0].endswith(": status 0")


@table("running, carried_out", {"where others run": (1, True), "the first": (0, False)})
def test_a_thread_that_cannot_be_started(running, carried_out, monkeypatch):
    """Then the others do what it was to do; without any, the pod is tried again."""
    server = Server(node("n"), pod("p"))
    cluster = scheduler_of(server)
    if running:
        cluster.writer.start(lambda: None)
    wait_for("it has nothing to do", lambda: not cluster.writer.tasks.unfinished_tasks)
    monkeypatch.setattr(threading, "Thread", Mock(side_effect=RuntimeError("can't start new thread")))
    with contextlib.suppress(ServerUnavailable):
        run_pass(cluster, {"my-scheduler": POLICY})
    assert bool(cluster.writer.awaited or server.placements()) == carried_out
    monkeypatch.undo()
    for record in cluster.queue.values():
        record.retry.make_due()
    make_pass(cluster)
    wait_for("it is bound", server.placements)
