"""Nominated pods: for whom a room is kept, and for how long."""

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
    "in 1.20 for all that go": (built(), None, True),
    "today not for those that go anyway": (configured(), None, False),
    "... nor that are evicted": (configured(), {"status": "True", "reason": "EvictionByEvictionAPI"}, False),
    "... nor whose condition is no longer true": (configured(), {"status": "False", "reason": "PreemptionByScheduler"}, False),
    "... but for those that go by a preemption": (configured(), {"status": "True", "reason": "PreemptionByScheduler"}, True)})
def test_for_whom_a_nominated_pod_waits(policies, condition, waits):
    leaving = running("a", "n", metadata=TERMINATING)
    leaving["status"]["conditions"] = [{"type": "DisruptionTarget"} | condition] if condition else []
    decision, _ = decide([node("n", cpu="2"), leaving, running("b", "n", 5), incoming("2", nominated="n")], policies)
    assert decision.remedy.startswith("It waits") == waits
    assert list(sent(decision, "DELETE", "/pods/(.*)")) == ([] if waits else ["b"])


@table("nominated, message", {
    "a more important pod's is left to it": (incoming(name="q", priority=20, nominated="n"), "1 Insufficient cpu"),
    "an equally important pod's, too": (incoming(name="q", nominated="n"), "1 Insufficient cpu"),
    "a less important pod's is taken": (incoming(name="q", priority=9, nominated="n"), None),
    "the pod's own is taken": (None, None),
    "another node's is no matter": (incoming(name="q", priority=20, nominated="m"), None),
    "what else is against it counts as well": (
        incoming(name="q", cpu="0", priority=20, nominated="n", labels=A), "1 node(s) didn't match pod affinity"),
    "a bound pod's is there, not nominated": (
        running("q", "n", 20, "0", metadata={"uid": "q"}) | {"status": {"nominatedNodeName": "n"}}, None),
    "a pod's that has had its time there is free": (
        pod("q", {"cpu": "1"}, nodeName="n", priority=20, status={
            "phase": "Succeeded", "nominatedNodeName": "n"}), None),
    "a pod's that has failed without a node is free": (
        pod("q", {"cpu": "1"}, priority=20, status={"phase": "Failed", "nominatedNodeName": "n"}), None),
    "another scheduler's pod's is no matter": (
        incoming(name="q", priority=20, nominated="n", schedulerName="other"), None),
})
def test_the_room_that_a_node_has_for_a_nominated_pod(nominated, message):
    decision, snapshot = decide([node("n", cpu="1", labels=HOST), *([nominated] if nominated else []),
                                 incoming(nominated="n" if nominated is None else None, affinity=anti_affinity("a"))])
    assert (decision.message or "").startswith(f"0/1 nodes are available: {message}" if message else "")
    assert (decision.node is None) == (message is not None)
    assert snapshot.nodes["n"].requested["cpu"] == 0


def test_pods_that_are_nominated_to_one_room_do_not_keep_each_other_from_it():
    """A more important pod, which needed nobody's going, has taken one of the two rooms that were made for them."""
    objects = [node("n", cpu="2"), running("a", "n", 20), incoming(name="p", nominated="n"),
               incoming(name="q", nominated="n")]
    first, second = make_pass(cluster_of(*objects), built())
    assert sent(first, "PATCH", "/pods/(.*)/status") == {
        "p": {"metadata": {"uid": first.pod.uid}, "status": {"nominatedNodeName": None}}}
    assert (second.pod.name, second.node) == ("q", "n")


def test_two_pods_of_one_pass_do_not_count_on_the_same_room():
    objects = [node("m", cpu="1"), node("n", cpu="1"), running("a", "m", 1), running("b", "n", 2),
               incoming(name="p"), incoming(name="q"), incoming(name="r")]
    first, second, third = make_pass(cluster_of(*objects), built())
    assert [list(sent(each, "DELETE", "/pods/(.*)")) for each in (first, second, third)] == [["a"], ["b"], []]


def test_who_needs_the_same_victim_to_go_does_not_delete_it_again():
    objects = [node("n", cpu="2"), running("a", "n", 1), running("b", "n", 2), incoming(name="p"), incoming(name="q")]
    first, second = make_pass(cluster_of(*objects), built())
    assert [list(sent(each, "DELETE", "/pods/(.*)")) for each in (first, second)] == [["a"], ["b"]]
    assert second.remedy == "It preempts default/b, default/a on n, where that helps."


def test_a_decision_is_printed_again_when_it_begins_to_cost_others_something():
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
    "under a configuration its room is free at once": (STALE, configured(**OFF), {"p": None}, {"q": "n"}),
    "under a Policy it is kept, as by kube-scheduler 1.20": (
        STALE, built({"kind": "Policy", "apiVersion": "v1"}), {}, {}),
    "room on a node that has gone is no longer kept": (
        [node("n", cpu="1"), incoming("2", 20, nominated="gone")], configured(**OFF), {"p": None}, {}),
    "who is nominated to no node has nothing to give": (
        [node("n", cpu="1"), incoming("2", 20), incoming(name="q")], configured(**OFF), {}, {"q": "n"}),
    "who fits keeps it until it is bound": (
        [node("n", cpu="1"), incoming("1", 20, nominated="n"), incoming(name="q")], configured(**OFF), {}, {"p": "n"}),
    "who waits for victims to go keeps it": (
        [node("n", cpu="1"), victim("a", "n"), incoming("1", 20, nominated="n")], configured(), {}, {}),
    "who makes room elsewhere moves it": (
        [node("m", cpu="2"), running("a", "m"), node("n", cpu="1"), incoming("2", 20, nominated="n")],
        configured(), {"p": "m"}, {}),
    "who finds nobody does not keep it": (STALE, configured(), {"p": None}, {"q": "n"}),
})
def test_the_nomination_of_a_pod_that_fits_nowhere(objects, policies, nominated, placements):
    cluster = cluster_of(*objects)
    decisions = make_pass(cluster, policies)
    patches = [sent(decision, "PATCH", "/pods/(.*)/status") for decision in decisions]
    assert {name: body["status"]["nominatedNodeName"] for patch in patches for name, body in patch.items()
            if "nominatedNodeName" in body["status"]} == nominated
    assert {decision.pod.name: decision.node for decision in decisions if decision.node} == placements


def test_a_nomination_is_cleared_by_a_request():
    server = Server(*STALE)
    make_pass(new_cluster(server), configured(**OFF))
    assert [body for *_, body in server.sent("PATCH", "/pods/p/status") if "nominatedNodeName" in body["status"]] == [
        {"metadata": {"uid": "uid-p"}, "status": {"nominatedNodeName": None}}]


def test_in_a_dry_run_a_nomination_is_cleared_in_memory():
    server = Server(*STALE)
    cluster = new_cluster(server, dry_run=True)
    assert [decision.node for decision in make_pass(cluster, configured())] == [None, "n"]
    assert {method for method, *_ in server.requests} == {"GET"}


def test_a_nomination_lasts_while_the_api_server_is_in_trouble():
    server = Server(node("n", cpu="1"), incoming(nominated="n", volumes=[
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))
    server.failures["persistentvolumeclaims"] = [503, 503, 503]
    [decision] = make_pass(cluster := new_cluster(server), configured())
    assert (decision.server_error.status, decision.requests) == (503, [])
    assert [each.name for each in cluster.snapshot.nominated] == ["p"]


def test_of_manifests_who_was_tried_before_gets_the_room_that_becomes_free(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(configuration()))
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [
        node("n", cpu="1"), incoming(name="q", metadata={"uid": "q"}), incoming("2", nominated="n", metadata={"uid": "p"})]}))
    run = run_scheduler("--config", tmp_path / "config.json", "--cluster", tmp_path / "cluster.json")
    message = "stays pending: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1"
    assert run.stdout.splitlines()[:3] == [
        f"default/q {message} No preemption victims found for incoming pod.", f"default/p {message} Preemption is not helpful for scheduling.",
        "default/q -> n  (1 of 1 nodes fit, score 398)"]


def test_a_nomination_lasts_while_preemption_cannot_read_the_budgets():
    server = Server(node("n", cpu="1"), running("a", "n"), incoming(nominated="n"))
    server.failures["poddisruptionbudgets"] = [503] * 9
    cluster = new_cluster(server)
    make_pass(cluster, configured())
    [record] = cluster.queue.values()
    assert [body for *_, body in server.sent("PATCH", "/status") if "nominatedNodeName" in body["status"]] == []
    assert (record.retry.trigger, record.retry.has_met_server_error) == (RetryOn.BACKOFF, True), "it is tried again soon"


@table("nominated, event", {
    "a nomination that the API server does not show yet": ("b", "a"),
    "the end of a nomination that it does not show yet": (None, "a"),
    "a nomination that it does not show yet, of a pod without one": ("b", None),
})
def test_an_event_about_something_else_keeps(nominated, event, watched):
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
    assert nomination_of(waiting, cluster.cache.snapshot) == "c", "the API server shows another one now"


def test_a_nomination_that_cannot_be_written_frees_its_room_for_pods_that_have_waited(watched, monkeypatch):
    clock = Clock(monkeypatch)
    cluster = watched(node("n", cpu="2"), running("a", "n", cpu="1"), running("b", "n", cpu="1"), policy=built()["my-scheduler"])
    cluster.create(incoming("2", 20), incoming("1", 5, name="q"))
    cluster.server.failures["status"] = [403] * 9
    cluster.make_pass()
    assert cluster.cache.snapshot.nominated == []
    clock.now += 20
    cluster.make_pass()
    assert cluster.cluster.queue["uid-q"].retry.failures == 2
