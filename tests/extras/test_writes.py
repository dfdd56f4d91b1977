"""Writes beside a server that misbehaves: nothing is lost, nobody is held up, and nothing is done twice."""

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


def test_few_writes_are_on_their_way_at_once(serve, start):
    server = serve(ApiServer(node("n", pods="1000"), *many(100)))
    server.faults["binding"] = "hang"
    start(server)
    wait_for("a Binding is sent", lambda: server.sent("binding"))
    time.sleep(2)
    assert len(server.sent("binding")) <= FEW


@table("kinds, fault", {
    "whose Binding fails": (["binding"], "500 before"),
    "whose Binding's answer is lost": (["binding"], "reset after"),
    "about whom nothing can be written": (["binding", "event", "status"], "500 before"),
    "whose Binding hangs": (["binding"], "hang"),
})
def test_a_pod_holds_up_nobody(kinds, fault, serve, start):
    troubled = [pod(f"troubled-{i}", namespace="a-cursed", priority=1) for i in range(3)]
    hopeless = [pod("hopeless", {"cpu": "99"}, namespace="a-cursed", priority=1)]
    server = serve(ApiServer(node("n", pods="1000"), *troubled, *hopeless, *many(300)))
    choice = Choice(lambda asked: fault if "/namespaces/a-cursed/" in asked.path else None)
    server.faults.update(dict.fromkeys(kinds, choice))
    start(server)
    wait_for("it lists pods", lambda: server.sent("list"))
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
    "when it asks for less": (["binding"], "429"),
})
def test_the_api_server_is_left_alone(kinds, fault, serve, start):
    """A pass ends after ten pods; what is under way by then, 64 Bindings at most, is sent up to three times."""
    server = serve(ApiServer(node("n", pods="1000"), *many(300)))
    server.faults.update(dict.fromkeys(kinds, fault))
    running = start(server)
    wait_for("it pauses", lambda: (asked := server.sent("binding")) and time.monotonic() > asked[-1].at + 0.5)
    sent = len(server.sent("binding"))
    assert sent < 250, f"{sent} Bindings in a pass"
    assert len(running.err.splitlines()) < 100, running.err
    server.faults.clear()
    wait_for("all are bound", lambda: len(server.placements()) == 300)


def test_pods_that_are_made_again_are_not_bound_by_the_decision_about_those_before_them(serve, start):
    server = serve(ApiServer(*(node(f"n-{i}", cpu="700m") for i in range(16)),
                             *(pod(f"pod-{i:03}", {"cpu": "100m"}) for i in range(100))))
    server.delays["binding"] = 0.1
    running = start(server)
    wait_for("some pods are bound", lambda: len(server.placements()) >= 5)
    server.create(*(pod(f"pod-{i:03}", {"cpu": "300m"}) for i in range(100)))
    again = {f"default/{key[1]}": thing["metadata"]["uid"] for key, thing in server.pods.items()}
    made = time.monotonic()
    wait_for("all that have room are bound", lambda: len(server.placements()) >= 32)
    time.sleep(1)
    running.kill()
    stale = [asked.pod for asked in server.sent("binding")
             if asked.at > made and asked.status == 201 and asked.json["metadata"].get("uid", "") != again[asked.pod]]
    crowds = Counter(server.placements().values())
    assert max(crowds.values()) <= 2, f"nodes with room for two have {sorted(crowds.values())}"
    assert not stale, f"{len(stale)} pods were bound by the decision about their predecessors"


def told_that_they_are_placed(running):
    """Where pods go, by the lines that were printed: {namespace/name: node}."""
    lines = re.findall("^(default/\\S+) -> (\\S+) ", running.out, re.M)
    assert len(dict(lines)) == len(lines)
    return dict(lines)


@pytest.mark.parametrize("output", ["text", "json"])
def test_no_line_says_that_a_pod_goes_where_somebody_else_has_not_let_it_go(output, serve, start):
    """Each third pod is bound elsewhere before its Binding comes, and each other third is deleted."""
    server = serve(ApiServer(*(node(f"n-{i}", pods="1000") for i in range(5)), node("else", unschedulable=True), *many(60)))

    def meddle(request):
        """Be faster than a Binding."""
        number = int(request.asked.pod.rpartition("-")[2])
        if number % 3 == 1:
            server.delete(request.asked.pod.partition("/")[2])
        if number % 3 == 2 and request.asked.pod not in server.placements():
            server.answer_binding(SimpleNamespace(pod=request.asked.pod, json={"metadata": {}, "target": {"name": "else"}}))
        request.answer(*request.carry_out())

    server.faults["binding"] = meddle
    running = start(server, f"--output={output}")
    wait_for("all are bound, or have gone", lambda: len(server.placements()) == len(server.pods) == 40)
    ours = {key: name for key, name in server.placements().items() if name != "else"}
    if output == "json":
        wait_for("all are told", lambda: len(running.out.splitlines()) >= 20)
        told = {each["pod"]: each["node"] for each in map(json.loads, running.out.splitlines())}
    else:
        wait_for("all are told", lambda: len(told_that_they_are_placed(running)) >= 20)
        told = told_that_they_are_placed(running)
    assert len(ours) == 20 and told == ours


def test_that_a_pod_is_bound_is_said_between_passes_too(serve, start):
    server = serve(ApiServer(node("n"), pod("slow")))
    server.delays["binding"] = 1.5  # longer than a pass waits for answers
    running = start(server, "--interval=1000")
    wait_for("it is told", lambda: told_that_they_are_placed(running) == {"default/slow": "n"}, 20)


def bound_but_not_told(server):
    """Return the pods whose Binding was carried out, and of which no event says so."""
    whole = [asked for asked in server.sent("event") if asked.body.endswith(b"}")]  # not one that a kill cut short
    told = {asked.json["involvedObject"]["name"] for asked in whole
            if asked.status == 201 and asked.json["reason"] == "Scheduled"}
    return {asked.pod.partition("/")[2] for asked in server.sent("binding") if asked.status == 201} - told


def in_the_midst_of_binding(serve, start):
    """Return a server and the script beside it, which has bound some pods, and for two seconds has more to bind."""
    server = serve(ApiServer(node("n", cpu="100", pods="2000"), *many(600)))
    server.delays["binding"] = 0.3
    running = start(server, program=PATIENT)
    wait_for("many are bound", lambda: len(server.placements()) > 150)
    return server, running


def test_after_a_kill_at_most_as_many_pods_lack_their_event_as_there_are_threads(serve, start):
    """Events follow their Bindings, also while there are always some under way."""
    server, running = in_the_midst_of_binding(serve, start)
    running.kill()
    time.sleep(1)  # what has been sent arrives
    assert 150 < len(server.placements()) < 600 and len(bound_but_not_told(server)) <= FEW


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_event_is_lost_when_it_is_told_to_end(number, serve, start):
    server, running = in_the_midst_of_binding(serve, start)
    running.send_signal(number)
    assert running.wait(60) == 0
    assert 150 < len(server.placements()) < 600 and not bound_but_not_told(server)


def test_a_leader_that_is_none_any_more_still_tells_whom_it_has_bound(serve, start, tmp_path):
    server = serve(ApiServer(node("n", pods="1000"), *many(500)))
    leader = leading(server, start, tmp_path, program=PATIENT)
    take_lease(server, leader)
    assert leader.wait(60) == 1
    assert len(server.placements()) < 500 and not bound_but_not_told(server)
