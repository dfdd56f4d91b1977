"""Pods that a permit hook holds, among them gangs."""

import json
import time
from collections import Counter

import helpers.tutorial  # noqa: F401 (registers the rules of the example)
from helpers.control_plane import wait_for
from helpers.extras import new_cluster, node, pod, run_pass, table
from helpers.fake_api import Clock, Server
from helpers.spy import RULES, built, live_cluster, make_pass, policy
from scheduler_extras.api.responses import error_of
from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.configuration.profile import Profile
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.pod_record import WaitsFor
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.policy_reader import read_policy


def test_permit_is_not_called_again_after_it_has_approved(spy):
    spy.answers["pre_bind"] = [("PATCH", "/api/v1/namespaces/default/pods/p", {})]
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    make_pass(server, spy, cluster)
    spy.answers |= {"permit": 60, "pre_bind": None}
    make_pass(server, spy, cluster)
    assert server.placements() == {"p": "n"} and spy.seen.count("permit") == spy.seen.count("reserve") == 1
    assert len(server.sent("PATCH", "/pods/p")) == 1


@table("point, wait", {
    "permit": ("permit", 60), "pre_bind": ("pre_bind", [("PATCH", "/api/v1/namespaces/default/pods/p", {})])})
def test_hooks_receive_the_current_version_of_a_waiting_pod(spy, point, wait):
    spy.answers[point] = lambda pod, node, snapshot: None if "ready" in pod.labels else wait
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    make_pass(server, spy, cluster)
    assert server.placements() == {}
    server.put(pod("p", labels={"ready": "yes"}))
    make_pass(server, spy, cluster)
    assert server.placements() == {"p": "n"}


def test_a_held_pod_keeps_its_room_until_permit_approves(spy):
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "1"}), pod("z", {"cpu": "1"}))
    spy.policies["my-scheduler"].predicates += built(["PodFitsResources"])["my-scheduler"].predicates
    spy.answers["permit"] = 60
    cluster, decisions = make_pass(server, spy)
    assert [(decision.pod.name, decision.pod.record.waits_for) for decision in decisions] == [
        ("z", WaitsFor.PERMIT), ("p", WaitsFor.NODE)]
    assert decisions[1].message == "0/1 nodes are available: 1 Insufficient cpu."
    make_pass(server, spy, cluster)
    assert server.placements() == {}
    spy.answers["permit"] = None
    make_pass(server, spy, cluster)
    assert server.placements() == {"z": "n"} and spy.seen.count("reserve") == 1


@table("point", {"reserve": ("reserve",), "permit": ("permit",), "pre_bind": ("pre_bind",)})
def test_a_rejected_pod_gives_up_its_room_at_once(spy, point):
    spy.policies["my-scheduler"].predicates += built(["PodFitsResources"])["my-scheduler"].predicates

    def refuse(pod, *_):
        if pod.name == "z":
            raise Unschedulable("not z")

    spy.answers[point[0]] = refuse
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "1"}), pod("z", {"cpu": "1"}))
    _, decisions = make_pass(server, spy)
    assert [(decision.pod.name, decision.node) for decision in decisions] == [("z", None), ("p", "n")]


@table("answer, text", {
    "without a reason": (60, "rejected due to timeout after waiting 60s at plugin Spy"),
    "with its last reason": ((60, "1 of 2 pods"), "rejected due to timeout after waiting 60s at plugin Spy: 1 of 2 pods")})
def test_a_pod_gives_up_its_room_after_the_permit_timeout(spy, answer, text, monkeypatch):
    server = Server(node("n"), pod("p"))
    spy.answers["permit"] = answer
    cluster, _ = make_pass(server, spy)
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    _, [decision] = make_pass(server, spy, cluster)
    assert decision.message == 'pod "p" rejected while waiting on permit: ' + text
    assert spy.seen.count("unreserve") == 1 and not cluster.queue[decision.pod.uid].decision


def test_a_held_pod_that_is_deleted_is_removed_from_the_queue(spy):
    server = Server(node("n"), pod("p"), pod("q"))
    spy.answers["permit"] = 60
    cluster, _ = make_pass(server, spy)
    del server.objects["pods", "default", "p"]
    make_pass(server, spy, cluster)
    assert [record.decision.pod.name for record in cluster.queue.values() if record.decision] == ["q"]
    assert spy.seen.count("unreserve") == 1


def test_a_held_pod_that_another_scheduler_binds_is_removed_from_the_queue(spy):
    server = Server(node("n"), node("m"), pod("p"))
    spy.answers["permit"] = 60
    cluster, _ = make_pass(server, spy)
    server.put(pod("p", nodeName="m"), pod("q"))
    for _ in range(2):
        make_pass(server, spy, cluster)
    assert [record.decision.pod.name for record in cluster.queue.values() if record.decision] == ["q"]
    assert spy.seen.count("unreserve") == 1


def test_a_rejected_binding_is_unreserved(spy):
    server = Server(node("n"), pod("p"))
    server.failures["binding"] = [409]
    make_pass(server, spy)
    assert spy.seen[-1] == "unreserve" and "post_bind" not in spy.seen


def test_a_held_pod_whose_node_is_deleted_is_placed_again(spy):
    server = Server(node("n"), pod("p"))
    spy.answers["permit"] = 60
    cluster, _ = make_pass(server, spy)
    del server.objects["nodes", None, "n"]
    server.add(node("m"))
    _, [decision] = make_pass(server, spy, cluster)
    assert decision.message == "node n has gone"
    cluster.queue[decision.pod.uid].retry.make_due()
    spy.answers["permit"] = None
    make_pass(server, spy, cluster)
    assert server.placements() == {"p": "m"}


def gang(*names, size=3):
    return [pod(name, {"cpu": "1"}, labels={"group": "crew", "group-size": str(size)}) for name in names]


def test_a_gang_is_bound_together_or_not_at_all(control_plane, tmp_path, start_scheduler):
    (tmp_path / "policy.json").write_text(json.dumps(policy(["PodFitsResources", "Coscheduling"])))
    control_plane.create(node("n", cpu="3"), *gang("one", "two"))
    running = start_scheduler("--server", control_plane.server, "--plugins", RULES, "--interval=0.2",
                              "--policy", tmp_path / "policy.json")
    wait_for("both pods wait", lambda: running.out.count("waits: Coscheduling does not permit the binding to ") == 2)
    control_plane.create(pod("other", {"cpu": "2"}))
    wait_for("another pod does not fit", lambda: control_plane.events("FailedScheduling"))
    assert control_plane.placements() == {}
    control_plane.create(*gang("three"))
    wait_for("all three are bound", lambda: len(control_plane.placements()) == 3)
    assert set(control_plane.placements()) == {"default/one", "default/two", "default/three"}


def test_competing_gangs_are_each_bound_together_or_not_at_all(control_plane, tmp_path, start_scheduler):
    """There is room for two groups of three, and there are three groups, whose pods are created alternately."""
    (tmp_path / "policy.json").write_text(json.dumps(policy(["PodFitsResources", "Coscheduling"])))
    control_plane.create(node("a", cpu="3"), node("b", cpu="3"))
    start_scheduler("--server", control_plane.server, "--plugins", RULES, "--interval=0.1",
                    "--policy", tmp_path / "policy.json")
    for i in range(3):
        for group in ("red", "green", "blue"):
            control_plane.create(pod(f"{group}-{i}", {"cpu": "1"}, labels={"group": group, "group-size": "3"}))
            time.sleep(0.3)
    # Groups may block each other until one has waited for half a minute, possibly more than once.
    wait_for("the room is used", lambda: len(control_plane.placements()) == 6, 180)
    time.sleep(1)
    assert sorted(Counter(key.split("/")[1].split("-")[0] for key in control_plane.placements()).values()) == [3, 3]


def test_a_gang_of_another_namespace_is_a_different_gang():
    """A gang with the same name that fits nowhere does not affect this one."""
    group = {"group": "g", "group-size": "2"}
    server = Server(node("n"), pod("ours", {"cpu": "1"}, labels=group),
                    pod("theirs", {"cpu": "100"}, namespace="other", labels=group))
    cluster, decided = new_cluster(server), {}
    policies = {"my-scheduler": read_policy(policy(["PodFitsResources", "Coscheduling"]))}
    for _ in range(2):
        run_pass(cluster, policies, lambda decision: decided.update(
            {decision.pod.name: decision.why_delayed}))
    assert decided == {"ours": "Coscheduling does not permit the binding to n yet: 1 of 2 pods of group g have a node", "theirs": ""}


def test_coscheduling_is_under_30_lines_of_user_code():
    text = RULES.read_text()
    text = text[text.index("# Pods of a group"):]
    assert len([line for line in text.splitlines() if line]) < 30


def test_a_held_pod_keeps_its_room_while_the_api_server_fails(spy):
    server = Server(node("n"), pod("p"))
    spy.answers["permit"] = 60
    cluster, _ = make_pass(server, spy)
    spy.answers |= {"permit": None, "pre_bind": error_of(503, "away")}
    make_pass(server, spy, cluster)
    assert server.placements() == {} and spy.seen.count("unreserve") == 0
    del spy.answers["pre_bind"]
    make_pass(server, spy, cluster)
    assert server.placements() == {"p": "n"}


def test_a_held_pod_is_tried_again_when_its_policy_changes(spy):
    server = Server(node("n"), pod("p"))
    spy.answers["permit"] = 60
    cluster, _ = make_pass(server, spy)
    spy.policies = {"my-scheduler": FullPolicy([], [])}
    make_pass(server, spy, cluster)
    assert server.placements() == {"p": "n"} and spy.seen[-1] == "unreserve"


def test_a_pod_that_falls_back_during_a_pass_is_not_tried_again_in_it(watched, monkeypatch):
    clock = Clock(monkeypatch)
    requests = [("PATCH", "/api/v1/namespaces/default/pods/p", {})]
    rule = FullRule("Prepares", lambda pod, node: (), hooks={
        "pre_bind": lambda pod, node, snapshot: requests if pod.name == "p" else None})
    cluster = watched(node("n"), policy=FullPolicy([rule], []))
    cluster.create(pod("p"))
    cluster.make_pass()
    clock.now += 5
    cluster.create(pod("new"))
    [held] = [record.decision for record in cluster.cluster.queue.values()]

    def meanwhile(decision):
        if decision.pod.name == "new":
            cluster.cluster.attempts.handle_failed_write(held, error_of(500, "no"))

    cluster.make_pass(meanwhile)
    record = cluster.cluster.queue["uid-p"]
    assert (record.retry.failures, record.waits_for) == (1, WaitsFor.NODE)


@table("is_held", {"while a rule holds another pod": True, "while none is held": False})
def test_an_idle_queue_pops_pods_from_backoff_after_a_change(is_held, watched, monkeypatch):
    Clock(monkeypatch)
    rule = FullRule("Holds", lambda pod, node: ["no"] * (pod.name == "stuck"), helped_by_pods=None, hooks={
        "permit": lambda pod, node, snapshot: 60 if pod.name == "held" else None})
    cluster = watched(node("n"), policy=Profile([rule], []))
    cluster.create(*[pod("held")] * is_held, pod("stuck"))
    cluster.make_pass()
    cluster.send("MODIFIED", cluster.stamp(node("n", labels={"a": "b"})), resource="nodes")
    cluster.make_pass()
    assert cluster.cluster.queue["uid-stuck"].retry.failures == 2
