"""News at the worst moment: what Reflectors bring is told by hand; and Reflectors themselves, beside servers that fail."""

import copy
import gc
import io
import threading
import time
import weakref

import pytest
import queue
from helpers.everywhere import replace
from scheduler_extras.api.errors import JSON, Unreadable, error_of
from scheduler_extras.api.proxy import PooledProxy, objects_of
from scheduler_extras.api.watch import Reflector, list_all
from scheduler_extras.live.session import keep_up
from scheduler_extras.common.errors import Trouble, Unschedulable
from scheduler_extras.deciding.decision import Failures
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.record import WaitsFor
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.reading import read_policy
from scheduler_extras.policy.reloading import load_policies
from scheduler_extras.reading.pods_and_nodes import FullPod
from helpers.control_plane import wait_for
from helpers.extras import (
    ROOT, a_cluster, a_live_cluster, a_pass, claim, node, pod, storage_class, table, volume
)
from helpers.faulty import ApiServer
from helpers.fake_api import Clock, Told

[POLICY] = load_policies(ROOT / "policy.json", "my-scheduler").values()


@pytest.fixture
def told(monkeypatch):
    """A function that returns a watched cluster of some objects."""
    return lambda *objects, **more: Told(monkeypatch, *objects, **more)


ONE = {"cpu": "1"}


# --- whom a pod names


@table("name, said", {
    "nearly ours": ("my-schedular", ["default/p names my-schedular: did you mean my-scheduler?"]),
    "another one's": ("a-scheduler", []),
    "none": ("default-scheduler", [])})
@pytest.mark.parametrize("is_there_before", [True, False])
def test_that_a_pod_names_nearly_this_scheduler_is_said_once(name, said, is_there_before, told, caplog):
    mistaken = pod("p", schedulerName=name), pod("q", schedulerName=name)
    cluster = told(node("n"), *(mistaken if is_there_before else ()))
    if not is_there_before:
        cluster.make_pass()
        cluster.comes(*mistaken)
    assert cluster.make_pass() == cluster.make_pass() == []
    assert caplog.messages == said


# --- the Binding's answer, and what the watch shows


def test_a_bound_pod_keeps_its_room_and_is_not_decided_about_until_the_watch_shows_it(told):
    cluster = told(node("n", cpu="2"))
    cluster.comes(pod("a", ONE))
    assert cluster.make_pass() == [("a", "n")] and cluster.on("n") == ["a"] and cluster.under_way() == {"a"}
    assert cluster.make_pass() == [] and cluster.bound() == ["a"]
    cluster.tell("MODIFIED", cluster.stamp(pod("a", ONE)))  # that was before the Binding
    assert cluster.make_pass() == [] and cluster.on("n") == ["a"]
    cluster.tell("MODIFIED", cluster.stamp(pod("a", ONE, nodeName="n")))
    assert cluster.on("n") == ["a"]
    assert cluster.make_pass() == [] and cluster.under_way() == set()
    cluster.tell("DELETED", cluster.stamp(pod("a", ONE, nodeName="n")))
    assert cluster.on("n") == []


def test_a_bound_pod_that_a_rule_passes_over_until_the_watch_shows_it_is_not_bound_twice(told):
    why = []
    rule = FullRule("Gates", lambda pod, node: (), hooks={"pre_enqueue": lambda pod: why[0] if why else None})
    cluster = told(node("n", cpu="2"), policy=FullPolicy([*POLICY.predicates, rule], []))
    cluster.comes(pod("a", ONE))
    assert cluster.make_pass() == [("a", "n")]
    why.append("not now")
    assert cluster.make_pass() == []
    why.clear()
    assert cluster.make_pass() == [] and cluster.bound() == ["a"] and cluster.on("n") == ["a"]


def test_a_pod_that_cannot_be_read_any_more_while_it_is_being_bound_keeps_its_room(told):
    cluster = told(node("n", cpu="1"))
    cluster.comes(pod("a", ONE))
    assert cluster.make_pass() == [("a", "n")]
    cluster.tell("MODIFIED", *(cluster.stamp(pod("a", {"cpu": amount})) for amount in ("much", "more")))
    cluster.comes(pod("b", ONE))
    assert cluster.make_pass() == [("b", None)]
    cluster.tell("DELETED", cluster.stamp(pod("a", {"cpu": "more"})))
    wait_for("its room is free", lambda: cluster.make_pass() == [("b", "n")])


def test_the_watch_shows_a_pod_before_its_binding_is_answered(told):
    cluster = told(node("n", cpu="2"))
    plain = cluster.server.request

    def request(method, path, body=None, params=None):
        answer = plain(method, path, body, params)
        if path.endswith("/binding"):
            cluster.tell("MODIFIED", cluster.stamp(pod("a", ONE, nodeName="n")))
            wait_for("the news are taken in", lambda: cluster.cache.pods["default/a"].node_name or cluster.cache.apply_updates())
        return answer

    cluster.server.request = request
    cluster.comes(pod("a", ONE))
    cluster.make_pass()
    assert cluster.on("n") == ["a"]
    assert cluster.make_pass() == [] and cluster.bound() == ["a"] and cluster.under_way() == set()


def test_a_pod_is_deleted_between_its_binding_and_the_news_of_it(told):
    cluster = told(node("n", cpu="1"))
    cluster.comes(pod("a", ONE))
    cluster.make_pass()
    del cluster.server.objects["pods", "default", "a"]
    cluster.tell("DELETED", cluster.stamp(pod("a", ONE)))
    assert cluster.on("n") == []
    cluster.comes(pod("b", ONE))
    assert cluster.make_pass() == [("b", "n")] and cluster.under_way() == {"b"}


def test_a_list_that_was_asked_for_before_a_binding_does_not_free_its_room(told):
    cluster = told(node("n", cpu="2"))
    cluster.comes(pod("a", ONE))
    old = cluster.stamp(pod("a", ONE))
    cluster.make_pass()
    cluster.tell("LISTED", old)
    assert cluster.on("n") == ["a"] and cluster.make_pass() == [], "it is bound all the same"
    cluster.tell("LISTED")
    assert cluster.on("n") == [] and not cluster.cache.pods, "and in this one it has gone"


def test_a_pod_is_made_bound_and_deleted_while_nothing_is_heard(told):
    cluster = told(node("n", cpu="1"))
    cluster.comes(pod("a", ONE))
    cluster.make_pass()
    cluster.tell("LISTED", cluster.put(pod("b", ONE)))  # after 410
    del cluster.server.objects["pods", "default", "a"]
    assert cluster.make_pass() == [("b", "n")] and cluster.on("n") == ["b"]


def test_somebody_else_binds_elsewhere_what_is_assumed_here(told):
    cluster = told(node("m", cpu="1"), node("n", cpu="2"))
    cluster.server.failures["binding"] = [409]
    cluster.comes(pod("a", {"cpu": "2"}))
    plain = cluster.server.request

    def request(method, path, body=None, params=None):
        if path.endswith("/binding"):
            cluster.tell("MODIFIED", cluster.put(pod("a", {"cpu": "2"}, nodeName="m")))
        return plain(method, path, body, params)

    cluster.server.request = request
    assert cluster.make_pass() == [("a", "n")]
    assert (cluster.on("m"), cluster.on("n")) == (["a"], [])
    assert cluster.make_pass() == [] and cluster.cache.has_changed is False


def test_a_pod_whose_labels_change_while_it_is_being_bound_counts_once(told):
    cluster = told(node("n", cpu="2"))
    cluster.comes(pod("a", ONE))
    cluster.make_pass(lambda decision: cluster.tell("MODIFIED", cluster.stamp(pod("a", ONE, labels={"x": "y"}))))
    assert cluster.on("n") == ["a"]
    assert [each.labels for each in cluster.cache.nodes["n"].pods.values()] == [{"x": "y"}]
    cluster.tell("MODIFIED", cluster.put(pod("a", ONE, labels={"x": "y"}, nodeName="n")))
    assert cluster.on("n") == ["a"]
    assert cluster.make_pass() == [] and cluster.under_way() == set()


def test_a_held_pod_that_somebody_binds_after_its_labels_changed_keeps_the_place_where_it_is(told):
    rule = FullRule("Holds", lambda pod, node: (), hooks={"permit": lambda *_: 60})
    cluster = told(node("m"), node("n"), policy=FullPolicy([rule], []))
    cluster.comes(pod("a", ONE))
    [(_, place)] = cluster.make_pass()
    other = {"m": "n", "n": "m"}[place]
    cluster.tell("MODIFIED", cluster.stamp(pod("a", ONE, labels={"x": "y"})),
                 cluster.put(pod("a", ONE, labels={"x": "y"}, nodeName=other)))
    cluster.comes(pod("b"))
    cluster.make_pass()
    assert cluster.on(other).count("a") == 1 and "a" not in cluster.on(place)


# --- nodes and pods that come and go


def test_a_node_is_deleted_and_made_again_under_its_pods(told):
    cluster = told(node("n", cpu="2"), node("o"))
    cluster.tell("ADDED", cluster.put(pod("a", ONE, nodeName="n")))
    assert cluster.on("n") == ["a"]
    cluster.tell("DELETED", cluster.stamp(node("n")), resource="nodes")
    cluster.tell("ADDED", cluster.put(pod("b", ONE, nodeName="n")))
    cluster.cache.apply_updates()
    assert [*cluster.cache.snapshot.nodes] == ["o"]
    cluster.tell("ADDED", cluster.stamp(node("n", cpu="8"), uid="another"), resource="nodes")
    assert cluster.on("n") == ["a", "b"] and [*cluster.cache.snapshot.nodes] == ["n", "o"]
    assert cluster.cache.nodes["n"].allocatable["cpu"] == 8000


@table("what", {"its last pod goes": "DELETED", "its last pod is to go": "MODIFIED"})
def test_before_anybody_looks_a_node_is_deleted_and_made_again_and(told, what):
    cluster = told(node("n", cpu="2"), node("o"))
    there = cluster.put(pod("a", ONE, nodeName="n"))
    cluster.tell("ADDED", there)
    assert cluster.on("n") == ["a"]
    cluster.tell("DELETED", cluster.stamp(node("n")), resource="nodes")
    cluster.tell(what, cluster.stamp(there, deletionTimestamp="2024-01-01T00:00:00Z"))
    cluster.tell("ADDED", cluster.stamp(node("n", cpu="8"), uid="another"), resource="nodes")
    assert cluster.on("n") == (["a"] if what == "MODIFIED" else [])
    assert cluster.cache.snapshot.nodes["n"] is cluster.cache.nodes["n"]


def test_a_pod_is_told_before_its_node_and_both_are_forgotten_in_the_end(told):
    cluster = told(node("o"))
    cluster.tell("ADDED", cluster.put(pod("a", ONE, nodeName="n")))
    assert cluster.on("n") == ["a"] and [*cluster.cache.snapshot.nodes] == ["o"]
    cluster.tell("ADDED", cluster.stamp(node("n")), resource="nodes")
    assert cluster.on("n") == ["a"] and [*cluster.cache.snapshot.nodes] == ["n", "o"]
    cluster.tell("DELETED", cluster.stamp(node("n")), resource="nodes")
    cluster.tell("DELETED", cluster.stamp(pod("a", ONE, nodeName="n")))
    cluster.tell("ADDED", cluster.stamp(node("p")), resource="nodes")
    cluster.cache.apply_updates()
    assert sorted(cluster.cache.nodes) == ["o", "p"]


def test_the_same_name_with_another_uid_is_another_pod(told):
    cluster = told(node("n", cpu="3"))
    first = cluster.put(pod("a", ONE, nodeName="n"))
    second = cluster.stamp(pod("a", {"cpu": "2"}, nodeName="n"), uid="second")
    cluster.tell("ADDED", first)
    cluster.tell("LISTED", second)  # that the first one has gone, was not heard
    assert cluster.on("n") == ["a"] and [there.uid for there in cluster.counted()] == ["second"]


def test_a_bound_pod_whose_name_another_one_has_is_forgotten(told):
    cluster = told(node("n"))
    cluster.comes(pod("a"))
    cluster.make_pass()
    assert [*cluster.cluster.pending] == ["uid-a"]
    cluster.tell("LISTED", cluster.put(pod("a"), uid="second"))
    assert cluster.on("n") == []
    assert cluster.make_pass() == [("a", "n")] and [*cluster.cluster.pending] == ["second"]


def test_however_often_an_object_changes_it_is_read_once(told, monkeypatch):
    cluster, read = told(node("n")), []
    plain = FullPod.__init__
    monkeypatch.setattr(FullPod, "__init__", lambda pod, raw: read.append(raw["metadata"]["name"]) or plain(pod, raw))
    for i in range(100):
        cluster.tell("MODIFIED", cluster.stamp(pod("a", schedulerName="other", labels={"i": str(i)})))
    cluster.tell("ADDED", cluster.stamp(pod("b", nodeName="n")))
    cluster.cache.apply_updates()
    assert read == ["a", "b"] and cluster.cache.pods["default/a"].labels == {"i": "99"}
    assert len(cluster.cache.objects.updates.last) == 0
    for i in range(100):
        cluster.tell("MODIFIED", cluster.stamp(pod("a", labels={"i": str(i)})))
    cluster.tell("DELETED", cluster.stamp(pod("a")))
    cluster.tell("LISTED", cluster.stamp(pod("b", nodeName="n")))
    assert len(cluster.cache.objects.updates.last) == 1
    assert cluster.on("n") == ["b"] and [*cluster.cache.pods] == ["default/b"] and read == ["a", "b"]


def test_a_list_of_another_cluster_under_one_address_replaces_all_though_versions_are_the_same(told):
    cluster = told(node("n", cpu="1"))
    there = cluster.put(pod("a", {"cpu": "1"}, nodeName="n"))
    cluster.tell("ADDED", there)
    assert cluster.on("n") == ["a"]
    cluster.tell("LISTED", pod("a", {"cpu": "100m"}, nodeName="n", metadata=there["metadata"] | {"uid": "of-the-other"}))
    assert cluster.on("n") == ["a"] and cluster.cache.nodes["n"].requested["cpu"] == 100


def test_a_pod_that_a_webhook_sends_elsewhere_counts_where_it_is(told):
    """Its Binding names one node, is answered 201, and the API server has written another one."""
    cluster = told(node("m", cpu="1"), node("n", cpu="2"))
    cluster.comes(pod("a", {"cpu": "1"}), pod("b", {"cpu": "2"}))
    cluster.make_pass()
    other = {"m": "n", "n": "m"}
    place = next(name for name in other if "a" in cluster.on(name))
    cluster.tell("MODIFIED", cluster.put(pod("a", {"cpu": "1"}, nodeName=other[place])))
    assert "a" in cluster.on(other[place]) and "a" not in cluster.on(place)
    assert cluster.make_pass() == [] or cluster.under_way() <= {"b"}


@table("times", {"once": 1, "ten times": 10})
def test_gates_that_come_and_go_have_the_pod_tried_when_there_are_none(times, told):
    cluster = told(node("n"))
    cluster.comes(pod("a", schedulingGates=[{"name": "example.com/g"}]))
    for _ in range(times):
        assert cluster.make_pass() == []
        cluster.tell("MODIFIED", cluster.put(pod("a")), cluster.put(pod("a", schedulingGates=[{"name": "example.com/g"}])))
    assert cluster.make_pass() == []
    cluster.tell("MODIFIED", cluster.put(pod("a")))
    assert cluster.make_pass() == [("a", "n")] and cluster.bound() == ["a"]


def test_a_pod_that_ends_leaves_its_room(told):
    cluster = told(node("n", cpu="1"))
    cluster.tell("ADDED", cluster.put(pod("a", ONE, nodeName="n")))
    assert cluster.on("n") == ["a"]
    cluster.tell("DELETED", cluster.stamp(pod("a", ONE, nodeName="n", status={"phase": "Succeeded"})))
    assert cluster.on("n") == []


def test_an_event_that_comes_twice_counts_once(told):
    cluster = told(node("n", cpu="2"))
    thing = cluster.put(pod("a", ONE, nodeName="n"))
    for what in ("ADDED", "ADDED", "MODIFIED", "DELETED", "DELETED"):
        cluster.tell(what, thing)
        assert cluster.on("n") == ([] if what == "DELETED" else ["a"])


def test_a_pod_that_cannot_be_read_closes_its_node_until_it_can_or_has_gone(told):
    cluster = told(node("m"), node("n"))
    cluster.tell("ADDED", cluster.stamp(pod("odd", {"cpu": "much"}, nodeName="n")))
    cluster.cache.apply_updates()
    assert [*cluster.cache.snapshot.nodes] == ["m"]
    cluster.tell("MODIFIED", cluster.stamp(pod("odd", ONE, nodeName="n")))
    assert cluster.on("n") == ["odd"] and [*cluster.cache.snapshot.nodes] == ["m", "n"]
    cluster.tell("MODIFIED", cluster.stamp(pod("odd", {"cpu": "much"}, nodeName="n")))
    cluster.cache.apply_updates()
    assert [*cluster.cache.snapshot.nodes] == ["m"]
    cluster.cache.has_changed = False
    cluster.tell("LISTED")
    assert cluster.on("n") == [] and [*cluster.cache.snapshot.nodes] == ["m", "n"]
    assert cluster.cache.has_changed, "so that pods that fitted nowhere are tried again"


def test_a_held_pod_that_cannot_be_read_any_more_is_called_off_and_opens_its_node(told):
    rule = FullRule("Holds", lambda pod, node: (), hooks={"permit": lambda *_: 60})
    cluster = told(node("n"), policy=FullPolicy([rule], []))
    cluster.comes(pod("a"))
    cluster.make_pass()
    cluster.tell("MODIFIED", cluster.stamp(pod("a", {"cpu": "much"})))
    cluster.make_pass()
    assert cluster.on("n") == [] and [*cluster.cache.snapshot.nodes] == ["n"]


def test_news_of_a_pod_without_a_spec_are_taken_in(told):
    cluster = told(node("n"))
    for _ in range(2):
        cluster.tell("MODIFIED", cluster.stamp({"metadata": {"name": "odd", "namespace": "default"}}))
        assert cluster.on("n") == []


# --- pods that wait


def test_a_pod_that_is_bound_or_gone_by_its_turn_is_not_decided_about(told):
    cluster = told(node("n", cpu="9"))
    cluster.comes(*(pod(name, ONE) for name in "abc"))

    def meanwhile(decision):
        if decision.pod.name == "a":
            cluster.tell("DELETED", cluster.stamp(pod("b", ONE)))
            cluster.tell("MODIFIED", cluster.stamp(pod("c", ONE, nodeName="n")))

    assert cluster.make_pass(meanwhile) == [("a", "n")]


def test_a_pod_that_is_being_deleted_by_its_turn_is_not_decided_about(told):
    cluster = told(node("n"))
    cluster.comes(pod("a"), pod("b"))
    assert cluster.make_pass(lambda decision: cluster.tell("MODIFIED", cluster.stamp(pod("b"), deletionTimestamp="now"))) == [("a", "n")]


def test_a_pod_that_cannot_be_read_any_more_by_its_turn_is_not_decided_about(told):
    cluster = told(node("n"))
    cluster.comes(pod("a"), pod("b"), pod("c"))
    assert cluster.make_pass(lambda decision: cluster.tell("MODIFIED", cluster.stamp(pod("b", {"cpu": "much"})))) == [
        ("a", "n"), ("c", "n")]


def test_room_that_others_take_during_a_pass_is_taken(told):
    cluster = told(node("n", cpu="2"))
    cluster.comes(*(pod(name, ONE) for name in "ab"))
    assert cluster.make_pass(lambda decision: decision.pod.name == "a" and cluster.tell(
        "ADDED", cluster.put(pod("other", ONE, nodeName="n")))) == [("a", "n"), ("b", None)]


def test_a_pod_of_which_there_are_no_news_yet_waits_for_these(told):
    cluster = told(node("n"))
    late = cluster.put(pod("a"))
    assert cluster.make_pass() == [] and not cluster.cluster.has_come()
    cluster.tell("ADDED", late)
    cluster.cache.apply_updates()
    assert cluster.cluster.has_come(), "which ends the pause"
    assert cluster.make_pass() == [("a", "n")] and not cluster.cluster.has_come()


@table("spec, wakes", {
    "a pod that has scheduling gates": ({"schedulingGates": [{"name": "example.com/quota"}]}, False),
    "one that backs off": ({"nodeSelector": {"disk": "ssd"}}, False),
    "one of another scheduler": ({"schedulerName": "other"}, False),
})
def test_changes_of_a_pod_that_is_not_to_be_tried_begin_no_pass(told, spec, wakes):
    cluster = told(node("n"))
    cluster.comes(pod("a", **spec))
    cluster.make_pass()
    for i in range(3):
        cluster.tell("MODIFIED", cluster.put(pod("a", labels={"i": str(i)}, **spec)))
        cluster.cache.apply_updates()
        assert cluster.cluster.has_come() == wakes
    cluster.tell("MODIFIED", cluster.put(pod("a")))
    cluster.cache.apply_updates()
    assert cluster.cluster.has_come() == ("schedulingGates" in spec or "schedulerName" in spec)


def test_a_pod_that_changes_all_the_time_begins_ten_passes_a_second_at_most(told, monkeypatch):
    """As one that a rule holds, which is asked again in each pass."""
    clock = Clock(monkeypatch)
    cluster = told(node("n"), policy=FullPolicy([FullRule("Holds", lambda pod, node: (), hooks={"permit": lambda *_: 600})], []))
    cluster.comes(pod("a"))
    cluster.make_pass()
    begun = 0
    for i in range(100):
        clock.now += 0.01
        cluster.tell("MODIFIED", cluster.put(pod("a", labels={"i": str(i)})))
        cluster.cache.apply_updates()
        if cluster.cluster.has_come():
            begun += 1
            cluster.make_pass()
    assert begun in (9, 10)


def test_nothing_of_other_schedulers_pods_is_kept(told):
    cluster = told(node("n"))
    cluster.comes(*(pod(f"p{i}", schedulerName=f"other-{i}") for i in range(50)))
    keep_up(cluster.cluster.cache)
    assert cluster.cache.arrived == {}
    cluster.comes(*(pod(f"q{i}", schedulerName=f"other-{i}") for i in range(50)))
    cluster.make_pass()
    assert cluster.cache.arrived == {}


def test_a_held_pod_that_goes_is_called_off(told):
    undone = []
    rule = FullRule("Holds", lambda pod, node: (), hooks={
        "permit": lambda *_: 60, "unreserve": lambda pod, snapshot: undone.append(pod.name)})
    cluster = told(node("n"), policy=FullPolicy([rule], []))
    cluster.comes(pod("a"))
    cluster.make_pass()
    assert cluster.on("n") == ["a"]
    gone = cluster.server.objects.pop(("pods", "default", "a"))
    cluster.tell("DELETED", gone)
    cluster.make_pass()
    assert cluster.on("n") == [] and undone == ["a"] and not cluster.cluster.pending


def test_a_held_pod_that_is_not_to_be_tried_any_more_is_called_off_and_another_gets_its_room(told, monkeypatch):
    clock, why = Clock(monkeypatch), []
    rule = FullRule("Holds", lambda pod, node: (), hooks={
        "permit": lambda *_: 60, "pre_enqueue": lambda pod: why[0] if why and pod.name == "a" else None})
    cluster = told(node("n", cpu="1"), policy=FullPolicy([*POLICY.predicates, rule], []))
    cluster.comes(pod("a", ONE, priority=1), pod("b", ONE))
    cluster.make_pass()
    assert cluster.on("n") == ["a"]
    why.append("not now")
    clock.now += 2
    assert cluster.make_pass() == [("b", "n")] and cluster.on("n") == ["b"]


def test_an_important_pod_that_comes_during_a_long_pass_is_next(told, monkeypatch):
    clock, cluster = Clock(monkeypatch), None
    cluster = told(node("n", cpu="9"))
    cluster.comes(*(pod(f"p{i}") for i in range(6)))
    order = []

    def tick(decision):
        order.append(decision.pod.name)
        clock.now += 0.4
        if len(order) == 1:
            cluster.comes(pod("urgent", priority=9))

    while len(order) < 7:
        cluster.make_pass(tick)
    assert order.index("urgent") == 3, "the pass breaks off a second after its list"


def test_lists_that_come_again_keep_no_garbage(told):
    cluster = told(node("n"))
    gc.disable()
    garbage = Failures()
    garbage.itself = garbage
    seen = weakref.ref(garbage)
    del garbage
    cluster.tell("LISTED", cluster.put(pod("a", nodeName="n")))
    cluster.cache.apply_updates()
    gc.enable()
    gc.collect()
    assert seen() is None


def test_pods_that_have_gone_leave_no_cycle(told):
    cluster = told(node("n", cpu="1"))
    gc.collect()
    gc.disable()
    try:
        cluster.comes(pod("a", {"cpu": "2"}))
        assert cluster.make_pass() == [("a", None)]
        seen = weakref.ref(cluster.cache.pods["default/a"])
        cluster.tell("DELETED", cluster.server.objects.pop(("pods", "default", "a")))
        cluster.make_pass()
        cluster.decided.clear()
        assert seen() is None
    finally:
        gc.enable()


def test_the_time_since_when_the_condition_is_false_is_written_once(told):
    cluster = told(node("n", cpu="1"))
    cluster.comes(pod("a", {"cpu": "2"}))
    cluster.make_pass()
    written = cluster.server.sent("PATCH", "/status")[0][3]["status"]
    cluster.tell("MODIFIED", cluster.put(pod("a", {"cpu": "2"}, status=written)))
    cluster.tell("ADDED", cluster.put(node("m", cpu="1")), resource="nodes")
    cluster.cluster.pending.end_backoff()
    cluster.make_pass()
    times = ["lastTransitionTime" in request[3]["status"]["conditions"][0] for request in cluster.server.sent("PATCH", "/status")]
    assert times == [True, False]


def test_a_pod_that_gives_up_its_room_has_others_tried_again(told, monkeypatch):
    clock, limits = Clock(monkeypatch), {"a": [60]}

    def permit(pod, node, snapshot):
        if limits.get(pod.name) == []:
            raise Unschedulable("no")
        return limits.get(pod.name, [None])[0]

    rule = FullRule("Holds", lambda pod, node: (), hooks={"permit": permit})
    cluster = told(node("n", cpu="1"), policy=FullPolicy([*POLICY.predicates, rule], []))
    cluster.comes(pod("a", ONE, priority=1), pod("b", ONE))
    assert cluster.make_pass() == [("a", "n"), ("b", None)]
    clock.now += 2
    cluster.make_pass()
    limits["a"] = []
    cluster.make_pass()
    assert cluster.make_pass() == [("b", "n")]


def test_a_replica_that_waits_to_lead_for_long_keeps_its_memory(told):
    cluster = told(node("n"))
    for i in range(3000):
        thing = cluster.stamp(pod("a", nodeName="n"), uid=str(i))
        cluster.tell("ADDED", thing)
        cluster.tell("DELETED", thing)
        if i % 100 == 0:
            keep_up(cluster.cluster.cache)
    assert len(cluster.cache.snapshot.memory.changes.versions) < 2000


def test_news_do_not_pile_up_while_lists_fail(told):
    cluster = told(node("n"))
    cluster.tell("MODIFIED", cluster.stamp(node("n")), resource="nodes")
    cluster.cluster.errors.last = Trouble(0, "no answer")
    cluster.cluster.rest(0, threading.Event())
    assert not cluster.cache.objects.updates.last


def test_what_rests_on_the_cluster_alone_makes_no_node_be_asked_again(told, monkeypatch):
    """Heartbeats, what kubelets report of pods, our own Bindings coming back; and pods are not parsed again."""
    asked, read = [], []
    fits = FullRule("Notes", lambda pod, node: asked.append(node.name) or [*node.pods][:0], steady=True)
    cluster = told(*(node(f"n{i}", cpu="1") for i in range(4)), policy=FullPolicy([fits], []))
    cluster.comes(pod("a", ONE))
    [(_, place)] = cluster.make_pass()
    with monkeypatch.context() as patch:
        patch.setattr(FullPod, "__init__", lambda pod, raw: read.append(raw))
        shown = pod("a", ONE, nodeName=place)
        cluster.tell("MODIFIED", cluster.stamp(shown), cluster.stamp(shown | {"status": {
            "phase": "", "podIP": "10.0.0.1", "startTime": "now", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 3}]}}))
        cluster.tell("MODIFIED", *(cluster.stamp(node(f"n{i}", cpu="1")) for i in range(4)), resource="nodes")
        cluster.cache.apply_updates()
    assert read == []
    asked.clear()
    cluster.comes(pod("b", ONE))
    cluster.make_pass()
    assert asked == [place], "only where the pod has come"


def test_a_label_of_a_node_makes_it_be_asked_again_and_stuck_pods_be_tried(told, monkeypatch):
    clock = Clock(monkeypatch)
    cluster = told(node("n"), node("m"))
    cluster.comes(pod("p", nodeSelector={"disk": "ssd"}))
    assert cluster.make_pass() == [("p", None)]
    clock.now += 2
    assert cluster.make_pass() == []
    cluster.tell("MODIFIED", cluster.stamp(node("m", labels={"disk": "ssd"})), resource="nodes")
    assert cluster.make_pass() == [("p", "m")]


@table("ends", {
    "goes": (lambda cluster, thing: cluster.tell("DELETED", thing),),
    "is made again": (lambda cluster, thing: cluster.tell("MODIFIED", cluster.stamp(pod("p", ONE), uid="another")),),
    "is bound": (lambda cluster, thing: cluster.tell("MODIFIED", cluster.stamp(pod("p", ONE, nodeName="n"))),),
})
def test_a_nomination_that_a_rule_has_noted_and_could_not_write_lasts_until_its_pod(ends, told):
    cluster = told(node("n"))
    cluster.comes(pod("p", ONE))
    cluster.cache.apply_updates()
    noted = copy.copy(cluster.cache.pods["default/p"])
    noted.nominated_node = "n"
    cluster.cache.snapshot.nominated = [noted]
    thing = cluster.stamp(pod("p", ONE, status={"conditions": [{"type": "PodScheduled", "status": "False"}]}))
    cluster.tell("MODIFIED", thing)
    cluster.cache.apply_updates()
    assert cluster.cache.snapshot.nominated == [noted], "its own news are no end"
    cluster.tell("MODIFIED", cluster.stamp(pod("p", ONE, status={"nominatedNodeName": "n"})))
    cluster.cache.apply_updates()
    assert len(cluster.cache.snapshot.nominated) == 1, "it is shown by now, and its room is kept once"
    ends[0](cluster, thing)
    cluster.cache.apply_updates()
    assert cluster.cache.snapshot.nominated == []


def test_a_pod_is_nominated_until_it_is_bound(told):
    cluster = told(node("n"))
    runs = pod("a", ONE, nodeName="n", status={"nominatedNodeName": "n"})
    cluster.tell("ADDED", cluster.put(runs))
    cluster.tell("MODIFIED", cluster.put(runs | {"status": {"nominatedNodeName": "n", "podIP": "10.0.0.1"}}))
    cluster.cache.apply_updates()
    assert cluster.cache.snapshot.nominated == []
    waits = pod("b", ONE, status={"nominatedNodeName": "n"})
    cluster.tell("ADDED", cluster.put(waits))
    cluster.cache.apply_updates()
    assert [each.name for each in cluster.cache.snapshot.nominated] == ["b"]
    cluster.tell("MODIFIED", cluster.put(pod("b", ONE, nodeName="n", status={"nominatedNodeName": "n"})))
    cluster.cache.apply_updates()
    assert cluster.cache.snapshot.nominated == []


# --- other objects


DEFAULTS = read_policy({"kind": "Policy", "apiVersion": "v1"})


def using(name):
    return pod(f"uses-{name}", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])


def test_other_objects_are_listed_once_and_told_from_then_on(told):
    cluster = told(node("n"), storage_class("local"), claim("data"), policy=DEFAULTS)
    cluster.comes(using("data"))
    assert cluster.make_pass() == [("uses-data", None)]
    lists = len(cluster.server.sent("GET", "/persistentvolumes"))
    cluster.tell("ADDED", cluster.put(volume("v")), resource="persistentvolumes")
    cluster.cluster.pending.end_backoff()
    assert cluster.make_pass() == [("uses-data", "n")], "the volume has come"
    assert lists == len(cluster.server.sent("GET", "/persistentvolumes")) == 1


def test_a_volume_that_is_set_aside_stays_so_until_the_watch_shows_it(told):
    cluster = told(node("n"), storage_class("local"), claim("data"), claim("more"), volume("v"), policy=DEFAULTS)
    cluster.comes(using("data"), using("more"))
    assert cluster.make_pass() == [("uses-data", "n"), ("uses-more", None)]
    same = cluster.server.objects["persistentvolumes", None, "v"]
    cluster.tell("MODIFIED", same, resource="persistentvolumes")  # told twice
    cluster.cluster.pending.end_backoff()
    cluster.make_pass()
    assert cluster.cluster.pending["uid-uses-more"].retry.attempts == 2
    assert cluster.cluster.pending["uid-uses-data"].waits_for is WaitsFor.PRE_BIND


def refusing(error):
    """The default Policy, and a rule that raises an error before the first binding."""
    errors = [error]

    def prepare(pod, node, snapshot):
        if errors:
            raise errors.pop()

    rule = FullRule("Prepares", lambda pod, node: (), hooks={"pre_bind": prepare})
    return FullPolicy([*DEFAULTS.predicates, rule], DEFAULTS.priorities)


@table("error", {"refuses": Unschedulable("no"), "trouble": error_of(503, "status 503")})
def test_what_was_set_aside_is_written_in_the_end_if_another_rule_fails_before(error, told):
    cluster = told(node("n"), storage_class("local"), claim("data"), volume("v"), policy=refusing(error))
    cluster.comes(using("data"))
    cluster.make_pass()
    assert not cluster.server.sent("PATCH", "/v")
    cluster.put(volume("v"))  # as the API server has it
    cluster.cluster.pending.end_backoff()
    cluster.make_pass()
    assert len(cluster.server.sent("PATCH", "/v")) == 1
    assert cluster.cluster.pending["uid-uses-data"].waits_for is WaitsFor.PRE_BIND


@table("name, status", {
    "the volume cannot be written": ("v", 403),
    "the volume is, and a claim cannot be": ("more", 422),
})
def test_if_the_write_of_what_was_set_aside_fails_it_is_put_back_and_nothing_is_listed_again(name, status, told):
    cluster = told(node("n"), storage_class("local"), claim("data"), volume("v"),
                   storage_class("csi", "csi.example.com"), claim("more", of="csi"), policy=DEFAULTS)
    cluster.server.failures[name] = [status]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "more")]
    cluster.comes(pod("uses-data", volumes=volumes))
    cluster.make_pass()
    assert cluster.cluster.pending["uid-uses-data"].waits_for is WaitsFor.NODE and cluster.on("n") == []
    assert not cluster.cache.objects["persistentvolumes"]["v"]["spec"]["claimRef"]
    assert cluster.cache.objects["persistentvolumeclaims"]["default/more"]["metadata"]["annotations"] == {}
    lists = len(cluster.server.sent("GET", ""))
    cluster.cluster.pending.end_backoff()
    cluster.make_pass()
    assert len(cluster.server.sent("GET", "")) == lists
    assert cluster.cluster.pending["uid-uses-data"].waits_for is WaitsFor.PRE_BIND and cluster.on("n") == ["uses-data"]


def test_what_a_rule_has_kept_of_objects_does_not_change_under_it(told):
    cluster = told(node("n"))
    before = cluster.cache.objects["services"]
    cluster.tell("ADDED", {"metadata": {"name": "s", "namespace": "default"}}, resource="services")
    cluster.cache.apply_updates()
    assert before == {} and [*cluster.cache.objects["services"]] == ["default/s"]


def test_a_pod_whose_labels_change_while_it_prepares_is_counted_once(told):
    cluster = told(node("n", cpu="1"), storage_class("local"), claim("data"), volume("v"), policy=DEFAULTS)
    cluster.comes(using("data") | {"spec": using("data")["spec"] | {"containers": pod("x", ONE)["spec"]["containers"]}})
    assert cluster.make_pass() == [("uses-data", "n")]
    record = cluster.cluster.pending["uid-uses-data"]
    assert record.waits_for is WaitsFor.PRE_BIND
    cluster.comes(pod("first", priority=5))
    raw = cluster.server.objects["pods", "default", "uses-data"]
    cluster.make_pass(lambda decision: decision.pod.name == "first" and cluster.tell(
        "MODIFIED", cluster.stamp(raw, labels={"x": "y"})))
    assert record.waits_for is WaitsFor.PRE_BIND
    assert record.decision.pod.labels == {"x": "y"}


# --- trouble


@table("resource, trouble", {"nodes": ("nodes", True), "pods": ("pods", True), "a resource that one pod's rule reads": ("services", False)})
def test_while_a_resource_cannot_be_listed_again_nothing_is_decided_that_rests_on_it(resource, trouble, told):
    looks = FullRule("Looks", lambda pod, node, metadata: (), metadata=lambda pod, nodes, snapshot: (
        pod.name == "b" and snapshot.objects["services"]))
    cluster = told(node("n"), policy=FullPolicy([looks], []))
    cluster.cache.objects["services"]
    cluster.comes(pod("a"), pod("b"))
    cluster.tell("FAILED", (503, "status 503"), resource=resource)
    lists = len(cluster.server.sent("GET", ""))
    if trouble:
        for _ in range(2):
            with pytest.raises(Trouble, match="status 503"):
                cluster.make_pass()
    else:
        assert cluster.make_pass() == [("a", "n"), ("b", None)]
        cluster.cluster.pending.end_backoff()
    cluster.tell("LISTED", *{"nodes": [node("n")], "services": []}.get(resource, [cluster.stamp(pod(name)) for name in "ab"]), resource=resource)
    assert ("b", "n") in cluster.make_pass()
    assert len(cluster.server.sent("GET", "")) == lists, "that is up to its Reflector"


class Streams(Manifests):
    """An API with streams as a test gives them, one after another; its lists are counted."""

    def __init__(self, *streams):
        self.streams, self.lists, self.asked = list(streams), 0, []

    def request(self, method, path, body=None, params=None):
        self.lists += 1
        return {"items": [], "metadata": {"resourceVersion": str(1000 * self.lists)}}

    def watch(self, path, params, silence):
        self.asked.append(params["resourceVersion"])
        stream = self.streams.pop(0) if self.streams else None
        if isinstance(stream, Exception):
            raise stream
        return self.events(stream)

    def events(self, stream):
        if stream is None:
            threading.Event().wait()  # a test may have time.sleep end at once
        for event in stream:
            if isinstance(event, Exception):
                raise event
            yield event


def told_of(name, version, what="ADDED"):
    return {"type": what, "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}


GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}
BREAKS = error_of(0, "broken")


@table("streams, lists, versions, names", {
    "a stream that ends is watched on from where it ended": ([[told_of("a", 1005)], [told_of("b", 1006)]], 1, ["1000", "1005", "1006"], "ab"),
    "a bookmark moves on where the next one begins": ([[told_of("", 1009, "BOOKMARK")], [told_of("a", 1012)]], 1, ["1000", "1009", "1012"], "a"),
    "one that breaks, too": ([[told_of("a", 1005), BREAKS], [told_of("b", 1006)]], 1, ["1000", "1005", "1006"], "ab"),
    "one that breaks before it has told anything: what was missed is listed": ([[BREAKS], [told_of("a", 2005)]], 2, ["1000", "2000", "2005"], "a"),
    "one that ends at once, likewise": ([[]], 2, ["1000", "2000"], ""),
    "one that does not begin: etcd may be restored from a copy meanwhile": ([BREAKS, [told_of("a", 5)]], 2, ["1000", "2000", "5"], "a"),
    "after 410 all is listed again": ([[told_of("a", 1005), GONE]], 2, ["1000", "2000"], "a"),
    "and if that is the answer to the watch itself": ([error_of(410, "gone")], 2, ["1000", "2000"], ""),
    "what is not there any more: a list says so": ([error_of(404, "no")], 2, ["1000", "2000"], ""),
    "what can be listed only": ([error_of(405, "no")], 2, ["1000", "2000"], ""),
    "an event that is none": ([[{"type": "ADDED", "object": 7}]], 2, ["1000", "2000"], ""),
    "an answer that is a list": ([[{"kind": "PodList", "items": []}]], 2, ["1000", "2000"], ""),
    "an event of an unknown type": ([[{"type": "LISTED", "object": {}}]], 2, ["1000", "2000"], ""),
    "no right to watch: all is listed again": ([error_of(403, "no")], 2, ["1000", "2000"], ""),
})
def test_a_reflector(streams, lists, versions, names, monkeypatch, caplog):
    replace(monkeypatch, "backoff", lambda *failures, **error: 0)
    api, news = Streams(*streams), queue.SimpleQueue()
    threading.Thread(target=Reflector(api, "nodes", "", news).work, daemon=True).start()
    wait_for("it watches for good", lambda: len(api.asked) == len(versions))
    told = [news.get() for _ in range(news.qsize())]
    assert (api.lists, api.asked) == (lists, versions)
    assert "".join(content["metadata"]["name"] for _, what, content in told if what != "LISTED") == names
    assert [what for _, what, _ in told].count("LISTED") == lists
    has_no_right = any(getattr(stream, "status", None) == 403 for stream in streams)
    assert ("until that is allowed, nodes are listed every 10 s" in caplog.text) == has_no_right


@table("seconds, lists", {"the API server ends it in time, as nothing has changed": (20, 0), "silent beyond its time, as one that is held back": (25, 1)})
def test_a_stream_that_tells_nothing_and_is(seconds, lists, monkeypatch):
    clock, api = Clock(monkeypatch), Streams()
    def stream():
        clock.now += seconds
        raise BREAKS
        yield
    api.events = lambda _: stream()
    reflector = Reflector(api, "nodes", "7", queue.Queue())
    reflector.watch()
    assert reflector.version == ("" if lists else "7")


def test_that_streams_tell_nothing_is_said_once(monkeypatch, caplog):
    replace(monkeypatch, "backoff", lambda *failures, **error: 0)
    api = Streams(*[[]] * 6)
    threading.Thread(target=Reflector(api, "nodes", "", queue.Queue()).work, daemon=True).start()
    wait_for("it watches for good", lambda: len(api.asked) == 7)
    [said] = caplog.messages
    assert said.startswith("watches, as that of nodes, tell nothing (they end at once): it is listed every 10 s")


@table("fault", {"it breaks": BREAKS, "all that it tells is that versions are gone": [GONE]})
def test_a_stream_that_fails_is_begun_again_after_1_2_4_to_10_seconds(monkeypatch, fault):
    clock, pauses, here, plain = Clock(monkeypatch), [], threading.get_ident(), time.sleep

    def sleep(seconds):
        if threading.get_ident() != here:  # a thread of an earlier test
            plain(0.01)
            return
        pauses.append(round(seconds))
        clock.now += seconds
        if len(pauses) == 7:
            raise SystemExit

    monkeypatch.setattr(time, "sleep", sleep)
    reflector = Reflector(Streams(*[fault] * 9), "nodes", "", queue.SimpleQueue())
    with pytest.raises(SystemExit):
        reflector.work()
    assert pauses == [1, 2, 4, 8, 10, 10, 10]


def test_a_stream_is_closed_when_it_tells_that_versions_are_gone(monkeypatch):
    replace(monkeypatch, "backoff", lambda *failures, **error: 0)
    closed = []

    def stream():
        try:
            yield GONE
            yield told_of("a", 5)
        finally:
            closed.append(True)

    api = Streams(stream())
    api.events = lambda stream: stream or time.sleep(3600)
    reflector = Reflector(api, "nodes", "", queue.SimpleQueue())
    threading.Thread(target=reflector.work, daemon=True).start()
    wait_for("the stream is closed", lambda: closed)


@table("answer", {"nothing": {}, "something else": {"kind": "Status"}, "items that are none": {"items": 7}})
def test_a_list_without_items_is_trouble_and_not_an_empty_cluster(answer):
    api = Streams()
    api.request = lambda *request, **more: answer
    with pytest.raises(Trouble, match="the list of pods is not as expected: items: "):
        list_all(api, "pods")

    def unreadable(path, params, accept=JSON):
        if accept == JSON:
            raise Unreadable(0, "no JSON")
        return {"items": 7}

    api.get = unreadable
    with pytest.raises(Trouble):
        list_all(api, "pods")


def test_a_line_that_is_cut_in_the_middle_breaks_the_stream_and_loses_nothing():
    server = ApiServer(node("n"))
    text = b'{"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "5"}}}\n{"type": "ADD'
    try:
        names = []
        with pytest.raises(Trouble):
            for event in objects_of(io.BytesIO(text), "/api/v1/pods"):
                names.append(event["object"]["metadata"]["name"])
        assert names == ["a"], "the rest is told by the next stream"
    finally:
        server.stop()


# --- over HTTP


def test_an_object_that_cannot_be_read_hides_no_other_of_its_list(monkeypatch, caplog):
    """Such as one of a CustomResourceDefinition that is nested deeper than Python reads."""
    deep = "[" * 100_000 + "]" * 100_000
    server = ApiServer(*(pod(f"p{i}") for i in range(3)))
    plain = PooledProxy.answer

    def answer(api, method, path, body, params, accept):
        answer, data = plain(api, method, path, body, params, accept)
        is_whole = "PartialObjectMetadata" not in accept
        if path.endswith("/pods/p1") or (path.endswith("/pods") and is_whole):
            data = data.replace(b'"p1"', b'"p1", "x": ' + deep.encode())
        return answer, data

    monkeypatch.setattr(PooledProxy, "answer", answer)
    try:
        things, _ = list_all(PooledProxy(server.url), "pods")
        assert [thing["metadata"]["name"] for thing in things] == ["p0", "p2"]
        [said] = caplog.messages
        assert said.startswith("pods default/p1 is skipped: GET /api/v1/namespaces/default/pods/p1: 200 OK: ")
    finally:
        server.stop()


def test_what_it_knows_after_a_while_is_what_a_fresh_list_shows():
    """Pods come, are bound, change and go, while streams end all the time."""
    server = ApiServer(*(node(f"n{i}", pods="20") for i in range(5)))
    cluster = a_live_cluster(PooledProxy(server.url))
    try:
        for step in range(60):
            server.create(pod(f"p{step}", {"cpu": "10m"}))
            if step % 3 == 2:
                server.delete(f"p{step - 2}")
            a_pass(cluster, {"my-scheduler": POLICY})
        wait_for("all pods are bound", lambda: a_pass(cluster, {"my-scheduler": POLICY}) or len(server.places()) == 40)
        fresh = a_cluster(PooledProxy(server.url))
        wait_for("the news are there", lambda: where_pods_are(cluster) == where_pods_are(fresh))
        assert sum(bool(there.counts_on) for there in cluster.cache.pods.values()) == 40
    finally:
        server.stop()


def where_pods_are(cluster):
    """{node: the keys of its pods}, with what they request."""
    return {name: (sorted(pod.key for pod in node.pods.values()), node.requested)
            for name, node in cluster.look().nodes.items()}


def test_objects_that_have_gone_are_not_kept(told):
    cluster = told(node("n"))
    for generation in range(50):
        thing = cluster.put(pod("p", ONE, nodeName="n"), uid=f"uid-{generation}")
        cluster.tell("ADDED", thing)
        cluster.tell("DELETED", thing)
    cluster.cache.apply_updates()
    gc.collect()
    assert sum(isinstance(each, FullPod) and each.name == "p" for each in gc.get_objects()) == 0


# --- streams that tell nothing

