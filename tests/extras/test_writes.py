"""Writes to a faulty API server: none is lost or done twice, and none delays other pods."""

import json
import re
import signal
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from helpers.control_plane import wait_for
from helpers.extras import PATIENT, node, pod, table
from helpers.faults import FEW, leading, many, take_lease
from helpers.faulty import ApiServer, Choice


def test_the_number_of_concurrent_writes_is_bounded(serve, start):
    server = serve(ApiServer(node("n", pods="1000"), *many(100)))
    server.faults["binding"] = "hang"
    start(server)
    wait_for("a Binding is sent", lambda: server.sent("binding"))
    time.sleep(2)
    assert len(server.sent("binding")) <= FEW


@table("kinds, fault", {
    "whose Binding fails": (["binding"], "500 before"),
    "whose Binding loses its answer": (["binding"], "reset after"),
    "whose writes all fail": (["binding", "event", "status"], "500 before"),
    "whose Binding hangs": (["binding"], "hang"),
})
def test_other_pods_are_not_delayed_by_a_pod(kinds, fault, serve, start):
    troubled = [pod(f"troubled-{i}", namespace="a-cursed", priority=1) for i in range(3)]
    hopeless = [pod("hopeless", {"cpu": "99"}, namespace="a-cursed", priority=1)]
    server = serve(ApiServer(node("n", pods="1000"), *troubled, *hopeless, *many(300)))
    choice = Choice(lambda asked: fault if "/namespaces/a-cursed/" in asked.path else None)
    server.faults.update(dict.fromkeys(kinds, choice))
    start(server)
    wait_for("pods are listed", lambda: server.sent("list"))
    for wave, count in (("first", 300), ("next", 330)):
        try:
            wait_for("all are bound", lambda: sum(key.startswith("default/") for key in server.placements()) == count)
        except AssertionError:
            bound = sum(key.startswith("default/") for key in server.placements())
            raise AssertionError(f"the {wave} pods: {bound} of {count} others are bound after a minute") from None
        server.create(*(pod(f"next-{i}", {"cpu": "10m"}) for i in range(30)))


@table("kinds, fault", {
    "when no Binding succeeds": (["binding"], "500 before"),
    "when nothing can be written": (["binding", "event"], "503"),
    "when it answers 429": (["binding"], "429"),
})
def test_the_script_backs_off_from_the_api_server(kinds, fault, serve, start):
    """A pass ends after ten failures. Up to 64 Bindings may be in flight by then, each sent up to three times."""
    server = serve(ApiServer(node("n", pods="1000"), *many(300)))
    server.faults.update(dict.fromkeys(kinds, fault))
    running = start(server)
    wait_for("the script pauses", lambda: (asked := server.sent("binding")) and time.monotonic() > asked[-1].at + 0.5)
    sent = len(server.sent("binding"))
    assert sent < 250, f"{sent} Bindings in a pass"
    assert len(running.err.splitlines()) < 100, running.err
    server.faults.clear()
    wait_for("all are bound", lambda: len(server.placements()) == 300)


def test_recreated_pods_are_not_bound_with_the_decisions_about_their_predecessors(serve, start):
    server = serve(ApiServer(*(node(f"n-{i}", cpu="700m") for i in range(16)),
                             *(pod(f"pod-{i:03}", {"cpu": "100m"}) for i in range(100))))
    server.delays["binding"] = 0.1
    running = start(server)
    wait_for("some pods are bound", lambda: len(server.placements()) >= 5)
    server.create(*(pod(f"pod-{i:03}", {"cpu": "300m"}) for i in range(100)))
    again = {f"default/{key[1]}": thing["metadata"]["uid"] for key, thing in server.pods.items()}
    recreated = time.monotonic()
    wait_for("all pods that fit are bound", lambda: len(server.placements()) >= 32)
    time.sleep(1)
    running.kill()
    stale = [asked.pod for asked in server.sent("binding")
             if asked.at > recreated and asked.status == 201 and asked.json["metadata"].get("uid", "") != again[asked.pod]]
    crowds = Counter(server.placements().values())
    assert max(crowds.values()) <= 2, f"nodes with room for two have {sorted(crowds.values())}"
    assert not stale, f"{len(stale)} pods were bound with the decisions about their predecessors"


def reported_placements(running):
    """Return the placements in the printed lines: {namespace/name: node}."""
    lines = re.findall("^(default/\\S+) -> (\\S+) ", running.out, re.M)
    assert len(dict(lines)) == len(lines)
    return dict(lines)


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_placement_is_not_reported_if_its_binding_fails(output, serve, start):
    """A third of the pods is bound elsewhere before their Bindings arrive, and another third is deleted."""
    server = serve(ApiServer(*(node(f"n-{i}", pods="1000") for i in range(5)), node("else", unschedulable=True), *many(60)))

    def meddle(request):
        """Delete the pod, or bind it elsewhere, before its Binding is carried out."""
        number = int(request.asked.pod.rpartition("-")[2])
        if number % 3 == 1:
            server.delete(request.asked.pod.partition("/")[2])
        if number % 3 == 2 and request.asked.pod not in server.placements():
            server.answer_binding(SimpleNamespace(pod=request.asked.pod, json={"metadata": {}, "target": {"name": "else"}}))
        request.answer(*request.carry_out())

    server.faults["binding"] = meddle
    running = start(server, f"--output={output}")
    wait_for("all are bound or deleted", lambda: len(server.placements()) == len(server.pods) == 40)
    ours = {key: name for key, name in server.placements().items() if name != "else"}
    if output == "json":
        wait_for("all are reported", lambda: len(running.out.splitlines()) >= 20)
        reported = {each["pod"]: each["node"] for each in map(json.loads, running.out.splitlines())}
    else:
        wait_for("all are reported", lambda: len(reported_placements(running)) >= 20)
        reported = reported_placements(running)
    assert len(ours) == 20 and reported == ours


def test_a_binding_is_reported_between_passes_too(serve, start):
    server = serve(ApiServer(node("n"), pod("slow")))
    server.delays["binding"] = 1.5  # longer than a pass waits for answers
    running = start(server, "--interval=1000")
    wait_for("it is reported", lambda: reported_placements(running) == {"default/slow": "n"}, 20)


def bound_without_event(server):
    """Return the pods that were bound and have no Scheduled event."""
    whole = [asked for asked in server.sent("event") if asked.body.endswith(b"}")]  # not one that a kill cut short
    with_event = {asked.json["involvedObject"]["name"] for asked in whole
                  if asked.status == 201 and asked.json["reason"] == "Scheduled"}
    return {asked.pod.partition("/")[2] for asked in server.sent("binding") if asked.status == 201} - with_event


def while_binding(serve, start):
    """Return a server and a running script that has bound some pods, and is busy binding more for two seconds."""
    server = serve(ApiServer(node("n", cpu="100", pods="2000"), *many(600)))
    server.delays["binding"] = 0.3
    running = start(server, program=PATIENT)
    wait_for("many are bound", lambda: len(server.placements()) > 150)
    return server, running


def test_after_a_kill_no_more_pods_lack_their_event_than_there_are_threads(serve, start):
    """Each event follows its Binding, even while there are always more Bindings in flight."""
    server, running = while_binding(serve, start)
    running.kill()
    time.sleep(1)  # requests in flight arrive
    assert 150 < len(server.placements()) < 600 and len(bound_without_event(server)) <= FEW


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_event_is_lost_when_a_signal_ends_the_script(number, serve, start):
    server, running = while_binding(serve, start)
    running.send_signal(number)
    assert running.wait(60) == 0
    assert 150 < len(server.placements()) < 600 and not bound_without_event(server)


def test_a_leader_that_lost_its_lease_still_writes_the_events_of_its_bindings(serve, start, tmp_path):
    server = serve(ApiServer(node("n", pods="1000"), *many(500)))
    leader = leading(server, start, tmp_path, program=PATIENT)
    take_lease(server, leader)
    assert leader.wait(60) == 1
    assert len(server.placements()) < 500 and not bound_without_event(server)
