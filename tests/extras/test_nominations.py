"""Nominated pods: the room that is reserved for them, and the end of their nomination."""

import json

from helpers.extras import cluster_of, new_cluster, node, pod, run_scheduler, table
from helpers.fake_api import Clock, Server
from helpers.preempting import (
    HOST,
    OFF,
    TERMINATING,
    A,
    anti_affinity,
    built,
    configuration,
    configured,
    decide,
    incoming,
    make_pass,
    running,
    sent,
    victim,
)
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.live.pod_record import PodRecord
from scheduler_extras.live.retry import RetryOn
from scheduler_extras.rules.nominating import nominate, nomination_of


@table("policies, condition, waits", {
    "in 1.20 for all terminating pods": (built(), None, True),
    "in 1.36 not for pods that were simply deleted": (configured(), None, False),
    "... nor for evicted pods": (configured(), {"status": "True", "reason": "EvictionByEvictionAPI"}, False),
    "... nor for pods whose condition is no longer true": (configured(), {"status": "False", "reason": "PreemptionByScheduler"}, False),
    "... but for preempted pods": (configured(), {"status": "True", "reason": "PreemptionByScheduler"}, True)})
def test_a_nominated_pod_waits_for_the_termination(policies, condition, waits):
    leaving = running("a", "n", metadata=TERMINATING)
    leaving["status"]["conditions"] = [{"type": "DisruptionTarget"} | condition] if condition else []
    decision, _ = decide([node("n", cpu="2"), leaving, running("b", "n", 5), incoming("2", nominated="n")], policies)
    assert decision.remedy.startswith("It waits") == waits
    assert list(sent(decision, "DELETE", "/pods/(.*)")) == ([] if waits else ["b"])


@table("nominated, message", {
    "room of a pod of higher priority is reserved": (incoming(name="q", priority=20, nominated="n"), "1 Insufficient cpu"),
    "room of a pod of equal priority is reserved": (incoming(name="q", nominated="n"), "1 Insufficient cpu"),
    "room of a pod of lower priority is free": (incoming(name="q", priority=9, nominated="n"), None),
    "the pod's own room is free for it": (None, None),
    "room on another node is irrelevant": (incoming(name="q", priority=20, nominated="m"), None),
    "anti-affinity to the nominated pod counts, too": (
        incoming(name="q", cpu="0", priority=20, nominated="n", labels=A), "1 node(s) didn't match pod affinity"),
    "a bound pod is not nominated any more": (
        running("q", "n", 20, "0", metadata={"uid": "q"}) | {"status": {"nominatedNodeName": "n"}}, None),
    "room of a pod that has ended is free": (
        pod("q", {"cpu": "1"}, nodeName="n", priority=20, status={
            "phase": "Succeeded", "nominatedNodeName": "n"}), None),
    "room of a pod that has failed without a node is free": (
        pod("q", {"cpu": "1"}, priority=20, status={"phase": "Failed", "nominatedNodeName": "n"}), None),
    "room of another scheduler's pod is free": (
        incoming(name="q", priority=20, nominated="n", schedulerName="other"), None),
})
def test_the_room_of_a_nominated_pod(nominated, message):
    decision, snapshot = decide([node("n", cpu="1", labels=HOST), *([nominated] if nominated else []),
                                 incoming(nominated="n" if nominated is None else None, affinity=anti_affinity("a"))])
    assert (decision.message or "").startswith(f"0/1 nodes are available: {message}" if message else "")
    assert (decision.node is None) == (message is not None)
    assert snapshot.nodes["n"].requested["cpu"] == 0


def test_two_nominated_pods_do_not_block_each_other():
    """A pod of higher priority has taken the room of one of them."""
    objects = [node("n", cpu="2"), running("a", "n", 20), incoming(name="p", nominated="n"),
               incoming(name="q", nominated="n")]
    first, second = make_pass(cluster_of(*objects), built())
    assert sent(first, "PATCH", "/pods/(.*)/status") == {
        "p": {"metadata": {"uid": first.pod.uid}, "status": {"nominatedNodeName": None}}}
    assert (second.pod.name, second.node) == ("q", "n")


def test_two_pods_of_a_pass_do_not_use_the_same_room():
    objects = [node("m", cpu="1"), node("n", cpu="1"), running("a", "m", 1), running("b", "n", 2),
               incoming(name="p"), incoming(name="q"), incoming(name="r")]
    first, second, third = make_pass(cluster_of(*objects), built())
    assert [list(sent(each, "DELETE", "/pods/(.*)")) for each in (first, second, third)] == [["a"], ["b"], []]


def test_a_victim_of_two_preemptors_is_deleted_once():
    objects = [node("n", cpu="2"), running("a", "n", 1), running("b", "n", 2), incoming(name="p"), incoming(name="q")]
    first, second = make_pass(cluster_of(*objects), built())
    assert [list(sent(each, "DELETE", "/pods/(.*)")) for each in (first, second)] == [["a"], ["b"]]
    assert second.remedy == "It preempts default/b, default/a on n, the only node where that helps."


def test_a_decision_is_printed_again_when_it_starts_to_preempt():
    record = PodRecord(None)
    decision, preempting = (FullDecision(None, {}, message="no") for _ in "ab")
    preempting.remedy = "It preempts."
    reported = []
    for each in (decision, decision, preempting, preempting):
        if record.published.note_shown(each):
            reported.append(each)
    assert reported == [decision, preempting]


STALE = [node("n", cpu="1"), incoming("2", 20, nominated="n"), incoming(name="q")]


@table("objects, policies, nominated, placements", {
    "with a configuration its room is free at once": (STALE, configured(**OFF), {"p": None}, {"q": "n"}),
    "with a Policy its room stays reserved, as in kube-scheduler 1.20": (
        STALE, built({"kind": "Policy", "apiVersion": "v1"}), {}, {}),
    "room on a deleted node is not reserved": (
        [node("n", cpu="1"), incoming("2", 20, nominated="gone")], configured(**OFF), {"p": None}, {}),
    "a pod without a nomination": (
        [node("n", cpu="1"), incoming("2", 20), incoming(name="q")], configured(**OFF), {}, {"q": "n"}),
    "a pod that fits keeps its nomination until it is bound": (
        [node("n", cpu="1"), incoming("1", 20, nominated="n"), incoming(name="q")], configured(**OFF), {}, {"p": "n"}),
    "a pod that waits for victims keeps its nomination": (
        [node("n", cpu="1"), victim("a", "n"), incoming("1", 20, nominated="n")], configured(), {}, {}),
    "a pod that preempts on another node changes its nomination": (
        [node("m", cpu="2"), running("a", "m"), node("n", cpu="1"), incoming("2", 20, nominated="n")],
        configured(), {"p": "m"}, {}),
    "a pod that finds no victims loses its nomination": (STALE, configured(), {"p": None}, {"q": "n"}),
})
def test_the_nomination_of_a_pod_that_fits_nowhere(objects, policies, nominated, placements):
    cluster = cluster_of(*objects)
    decisions = make_pass(cluster, policies)
    patches = [sent(decision, "PATCH", "/pods/(.*)/status") for decision in decisions]
    assert {name: body["status"]["nominatedNodeName"] for patch in patches for name, body in patch.items()
            if "nominatedNodeName" in body["status"]} == nominated
    assert {decision.pod.name: decision.node for decision in decisions if decision.node} == placements


def test_a_nomination_is_cleared_with_a_request():
    server = Server(*STALE)
    make_pass(new_cluster(server), configured(**OFF))
    assert [body for *_, body in server.sent("PATCH", "/pods/p/status") if "nominatedNodeName" in body["status"]] == [
        {"metadata": {"uid": "uid-p"}, "status": {"nominatedNodeName": None}}]


def test_in_a_dry_run_a_nomination_is_cleared_in_memory():
    server = Server(*STALE)
    cluster = new_cluster(server, dry_run=True)
    assert [decision.node for decision in make_pass(cluster, configured())] == [None, "n"]
    assert {method for method, *_ in server.requests} == {"GET"}


def test_a_nomination_stays_while_the_api_server_fails():
    server = Server(node("n", cpu="1"), incoming(nominated="n", volumes=[
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))
    server.failures["persistentvolumeclaims"] = [503, 503, 503]
    [decision] = make_pass(cluster := new_cluster(server), configured())
    assert (decision.server_error.status, decision.requests) == (503, [])
    assert [each.name for each in cluster.snapshot.nominated] == ["p"]


def test_with_manifests_a_pod_that_was_tried_before_gets_the_room_of_a_cleared_nomination(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(configuration()))
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [
        node("n", cpu="1"), incoming(name="q", metadata={"uid": "q"}), incoming("2", nominated="n", metadata={"uid": "p"})]}))
    run = run_scheduler("--config", tmp_path / "config.json", "--cluster", tmp_path / "cluster.json")
    message = "stays pending: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1"
    assert run.stdout.splitlines()[:3] == [
        f"default/q {message} No preemption victims found for incoming pod.", f"default/p {message} Preemption is not helpful for scheduling.",
        "default/q -> n  (1 of 1 nodes fit, score 398)"]


def test_a_nomination_stays_while_the_budgets_cannot_be_listed():
    server = Server(node("n", cpu="1"), running("a", "n"), incoming(nominated="n"))
    server.failures["poddisruptionbudgets"] = [503] * 9
    cluster = new_cluster(server)
    make_pass(cluster, configured())
    [record] = cluster.queue.values()
    assert [body for *_, body in server.sent("PATCH", "/status") if "nominatedNodeName" in body["status"]] == []
    assert (record.retry.trigger, record.retry.has_met_server_error) == (RetryOn.BACKOFF, True), "the pod is retried soon"


@table("nominated, event", {
    "a nomination that is not in the event yet": ("b", "a"),
    "the end of a nomination that is still in the event": (None, "a"),
    "a first nomination that is not in the event yet": ("b", None),
})
def test_an_event_about_another_field_keeps(nominated, event, watched):
    cluster = watched(node("a"), node("b"))
    cluster.create(incoming(nominated=event))
    cluster.cache.apply_updates()
    waiting = cluster.cache.pods["default/p"]
    nominate(waiting, nominated, cluster.cache.snapshot)
    condition = [{"type": "PodScheduled", "status": "False"}]
    for change in ({"labels": {"x": "y"}}, {}):
        changed = incoming(nominated=event, **change)
        cluster.send("MODIFIED", cluster.stamp(changed | {"status": changed["status"] | {"conditions": condition}}))
        cluster.cache.apply_updates()
        assert nomination_of(waiting, cluster.cache.snapshot) == nominated
    cluster.send("MODIFIED", cluster.stamp(incoming(nominated="c")))
    cluster.cache.apply_updates()
    assert nomination_of(waiting, cluster.cache.snapshot) == "c", "a new nomination in the event counts"


def test_a_nomination_that_cannot_be_written_frees_its_room_for_pending_pods(watched, monkeypatch):
    clock = Clock(monkeypatch)
    cluster = watched(node("n", cpu="2"), running("a", "n", cpu="1"), running("b", "n", cpu="1"), policy=built()["my-scheduler"])
    cluster.create(incoming("2", 20), incoming("1", 5, name="q"))
    cluster.server.failures["status"] = [403] * 9
    cluster.make_pass()
    assert cluster.cache.snapshot.nominated == []
    clock.now += 20
    cluster.make_pass()
    assert cluster.cluster.queue["uid-q"].retry.failures == 2
