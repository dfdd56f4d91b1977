"""Events and conditions of pods: when they are written, updated, and left unchanged."""

import itertools
import json
import threading
import types
from types import SimpleNamespace

import pytest

from helpers.control_plane import wait_for
from helpers.everywhere import replace
from helpers.extras import node, pod, run_pass, table, wait_for_writes
from helpers.fake_api import POLICY, Server, events_and_conditions, make_pass, run_to_the_end, scheduler_of
from scheduler_extras.api.responses import error_of
from scheduler_extras.common.errors import ServerUnavailable
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.event_recorder import Recorder
from scheduler_extras.live.pod_record import PodRecord, WaitsFor
from scheduler_extras.live.writer import Writer
from scheduler_extras.options import read_arguments
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.show.report import Reporter
from scheduler_extras.show.text import Screen


def test_an_event_and_a_condition_are_written_only_if_the_message_changes(clock):
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
    assert server.sent("PATCH", "/status")[0][3]["metadata"] == {"uid": "uid-big"}, "so that a recreated pod is not changed"
    server.put(node("m", cpu="1"))
    assert retry(5) == (2, 2)
    server.failures["status"] = [500] * 3
    server.put(node("o", cpu="1"))
    retry(1)
    assert retry(3) == (3, 6), "a condition that could not be written is written after the next attempt, without another event"
    server.failures["events"] = [500] * 3
    server.put(node("p", cpu="1"))
    assert retry(1) == (6, 6)
    assert retry(3) == (7, 7), "an event that could not be written, too, followed by the condition"


def test_the_event_is_not_posted_again_while_the_condition_cannot_be_written(clock):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    server.failures["status"] = [500] * 1000
    cluster = scheduler_of(server)
    for _ in range(30):
        make_pass(cluster)
        clock.now += 61
    [(_, path, _, event)] = server.sent("POST", "/events")
    counted = [where for method, where, *_ in server.requests if (method, where) == ("PATCH", f"{path}/{event['metadata']['name']}")]
    assert len(counted) in range(2, 7) and len(server.sent("PATCH", "/status")) == 3 * 30, "the condition is written after each attempt"


@table("refused", {"events": ("events",), "conditions": ("status",)})
def test_writes_that_rbac_forbids_are_logged_once_and_not_repeated(refused, clock, caplog):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}), pod("small"))
    server.failures[refused[0]] = [403] * 100
    cluster = scheduler_of(server)
    for _ in range(5):
        make_pass(cluster)
        clock.now += 20
    assert server.placements() == {"small": "n"}
    assert (len(server.sent("POST", "/events")), len(server.sent("PATCH", "/status"))) == (2, 1)
    assert caplog.messages == ["status 403"]


def test_last_transition_time_stays_if_only_the_message_changes():
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}, status={"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "another one"}]}))
    make_pass(scheduler_of(server))
    [condition] = server.sent("PATCH", "/status")[0][3]["status"]["conditions"]
    assert "lastTransitionTime" not in condition


def test_the_pending_condition_is_not_written_during_the_binding(clock):
    """After the Binding, it would stay, because no kubelet corrects it."""
    server, go_on = Server(node("n", cpu="1"), pod("big", {"cpu": "2"})), threading.Event()
    plain = server.request

    def request(method, path, body=None, *more, **options):
        if path.endswith("/events") and body["reason"] == "FailedScheduling":
            go_on.wait(60)
        return plain(method, path, body, *more, **options)

    server.request = request
    cluster, policies = scheduler_of(server), {"my-scheduler": POLICY}
    run_pass(cluster, policies)
    server.put(node("m"))
    clock.now += 100
    run_pass(cluster, policies)
    wait_for("the pod is bound", server.placements)
    go_on.set()
    wait_for_writes(cluster)
    assert server.sent("PATCH", "/status") == []


def test_the_binding_waits_for_a_write_of_the_condition(clock):
    """Otherwise the bound pod would keep the condition. Other pods are bound meanwhile."""
    server, begun, go_on = Server(node("n", cpu="1"), pod("big", {"cpu": "2"})), threading.Event(), threading.Event()
    plain = server.request

    def request(method, path, body=None, *more, **options):
        if path.endswith("/status"):
            begun.set()
            go_on.wait(60)
        return plain(method, path, body, *more, **options)

    server.request = request
    cluster, policies = scheduler_of(server), {"my-scheduler": POLICY}
    run_pass(cluster, policies)
    assert begun.wait(60)
    server.put(node("m"), pod("other"))
    clock.now += 100
    run_pass(cluster, policies)
    wait_for("the other pod is bound", server.placements)
    assert server.sent("POST", "/big/binding") == []
    go_on.set()
    wait_for("the first pod is bound, too", lambda: server.sent("POST", "/big/binding"))
    [status], [binding] = server.sent("PATCH", "/status"), server.sent("POST", "/big/binding")
    assert server.requests.index(status) < server.requests.index(binding)


def test_the_event_of_a_pending_pod_is_sent_again_after_a_restart():
    """The old event may have expired."""
    message = "0/1 nodes are available: 1 Insufficient cpu."
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}, status={"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}))
    make_pass(scheduler_of(server))
    events, _ = events_and_conditions(server)
    assert events == [("Warning", "FailedScheduling", message)]


def test_the_count_of_an_event_is_updated_after_attempts_but_at_most_every_five_minutes(clock):
    """The API server keeps events for an hour. If one has expired, the next attempt creates a new one."""
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


def test_events_of_many_pods_are_not_updated_at_the_same_time(clock):
    server = Server(node("n", cpu="1"), *(pod(f"big-{i}", {"cpu": "2"}) for i in range(40)))
    cluster, written = scheduler_of(server), []
    for _ in range(11):
        make_pass(cluster)
        clock.now += 61
        written.append(len([each for each in server.requests if each[0] == "PATCH" and "/events/" in each[1]]))
    assert written[4] == 0 and written[-1] > 0
    assert max(after - before for before, after in itertools.pairwise(written)) < 25


@table("status", {"a deleted pod": 404, "a recreated pod": 422})
def test_no_error_is_logged_for_the_condition_of(status, caplog):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    server.failures["status"] = [status]
    make_pass(scheduler_of(server))
    assert caplog.messages == []


@table("reason, waits", {
    "with a reason": ("volumes are being bound", "Licence prepares the binding to n: volumes are being bound"),
    "without a reason": ("", "Licence prepares the binding to n")})
def test_a_pod_that_waits_for_pre_bind_is_printed_once_and_has_no_event(reason, waits, monkeypatch):
    monkeypatch.setattr(Server, "kind_of_writer", Writer, raising=False)  # so that the cluster counts as a live one
    server, decisions, states = Server(node("n"), pod("p")), [], []
    answers = [[("PATCH", "/api/v1/namespaces/default/pods/p", {})], [], [], None]
    answers = [(answer, reason) if answer is not None and reason else answer for answer in answers]
    rule = FullRule("Licence", lambda pod, node: (), hooks={"pre_bind": lambda *_: answers.pop(0)})
    cluster, policy = scheduler_of(server), FullPolicy([rule], [])
    for _ in range(5):
        run_pass(cluster, {"my-scheduler": policy}, lambda decision: decisions.append(
            (decision.node, decision.why_delayed)))
        cluster.results.handle(patience=60)
        wait_for_writes(cluster)
        states.append([record.waits_for for record in cluster.queue.values()])
    assert states == [[WaitsFor.PRE_BIND]] * 3 + [[WaitsFor.CONFIRMATION], []]
    assert decisions == [("n", waits), ("n", "")]
    assert events_and_conditions(server) == ([("Normal", "Scheduled", "Successfully assigned default/p to n")], [])
    assert server.placements() == {"p": "n"}


def test_each_pass_prints_the_number_of_pending_pods_even_if_a_held_pod_comes_last(capsys):
    """A held pod is the last one in each pass, and nothing new is printed about it."""
    rule = FullRule("Licence", lambda pod, node: ["no licence"] * ("big" in pod.name), hooks={"permit": lambda *_: 600})
    server = Server(node("n"), pod("held"))
    cluster, policies = scheduler_of(server), SimpleNamespace(reload_if_changed=lambda: {"my-scheduler": FullPolicy([rule], [])})
    cluster.attempts.on_carried_out = Reporter(read_arguments(["--once"]), Screen())
    cluster.on_rest = cluster.attempts.on_carried_out.print_counts
    message = []
    for names in ([], ["big-1", "big-2", "big-3"], [], ["big-4"]):
        server.put(*(pod(name) for name in names))
        run_to_the_end(cluster, policies, threading.Event(), 1, once=True)
        message.append(capsys.readouterr().out.splitlines())
    why = "stays pending: 0/1 nodes are available: 1 no licence."
    assert message[1:] == [[f"default/big-1 {why}", f"2 other pods {why.replace('stays', 'stay')}"], [], [f"default/big-4 {why}"]]


def test_the_rule_that_holds_a_pod_is_reported_once():
    server, decisions = Server(node("n"), pod("p")), []
    rules = [FullRule(name, lambda pod, node: (), hooks={"permit": lambda *_, wait=wait: wait})
             for name, wait in (("Patient", 900), ("Impatient", (600, "it is early")), ("Approves", None))]
    cluster, policy = scheduler_of(server), FullPolicy(rules, [])
    for _ in range(3):
        make_pass(cluster, decisions, policy)
    waits = "Impatient does not permit the binding to n yet: it is early"
    assert [decision.why_delayed for decision in decisions] == [waits]
    assert [record.waits_for for record in cluster.queue.values()] == [WaitsFor.PERMIT]
    events, conditions = events_and_conditions(server)
    assert events == [("Normal", "Waiting", waits)]
    assert conditions == [("False", "Waiting", waits)], "autoscalers do not add nodes for this reason"


def test_a_held_pod_keeps_its_room_and_its_timeout_if_its_condition_cannot_be_written():
    server = Server(node("n"), pod("p"))
    server.failures["status"] = [500] * 3
    rule = FullRule("Holds", lambda pod, node: (), hooks={"permit": lambda *_: 60})
    cluster, policy = scheduler_of(server), FullPolicy([rule], [])
    decisions = []
    for _ in range(3):
        make_pass(cluster, policy=policy)
        decisions.append(cluster.queue["uid-p"].decision)
    assert decisions[0] is decisions[1] is decisions[2] is not None
    assert len(server.sent("PATCH", "/status")) == 4, "it is written later"


def test_an_event_that_fails_late_does_not_prevent_a_newer_one():
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

    writer = types.SimpleNamespace(request_if_leading=attempt, start=lambda *task: tasks.append(task))
    recorder = Recorder(writer)
    recorder.report(decision, "Warning", "FailedScheduling", "Unschedulable", "too small")
    for function, *arguments in tasks:
        function(*arguments)
    assert sent == [("POST", True), ("PATCH", True)]


def test_if_no_thread_can_be_started_the_event_is_sent_after_the_next_attempt():
    waiting = FullPod(pod("p"))
    waiting.record = PodRecord(waiting)
    decision, started = FullDecision(waiting, {}, POLICY), []

    def start(*task):
        started.append(task)
        if len(started) == 1:
            raise ServerUnavailable(0, "this machine cannot start another thread")

    recorder = Recorder(types.SimpleNamespace(request_if_leading=None, start=start))
    with pytest.raises(ServerUnavailable):
        recorder.report(decision, "Warning", "FailedScheduling", "Unschedulable", "too small")
    recorder.report(decision, "Warning", "FailedScheduling", "Unschedulable", "too small")
    assert [sorted(requests) for *_, requests in started] == 2 * [["condition", "event"]]


def test_an_exception_in_an_edited_event_function_only_prevents_the_event(monkeypatch, caplog):
    replace(monkeypatch, "event", lambda *_: 1 / 0)
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}), pod("small"), pod("going", metadata={"deletionTimestamp": "2020-01-01T00:00:00Z"}))
    make_pass(scheduler_of(server))
    assert server.placements() == {"small": "n"} and len(server.sent("PATCH", "big/status")) == 1
    assert "ZeroDivisionError in <lambda>: division by zero (test_events.py, " in caplog.text


def test_the_count_of_an_event_is_updated_after_an_exception_in_the_event_function(clock, monkeypatch):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    cluster = scheduler_of(server)
    make_pass(cluster)
    with monkeypatch.context() as edited:
        replace(edited, "event", lambda *_: 1 / 0)
        server.put(node("m", cpu="1"))
        clock.now += 100
        make_pass(cluster)
    del server.objects["nodes", None, "m"]
    clock.now += 1000
    make_pass(cluster)
    assert [body["count"] for *_, body in server.sent("PATCH", "") if "count" in (body or {})] == [2]
