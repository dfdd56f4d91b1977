"""Pending pods that change or are deleted before they are tried, and the events that cause a retry."""

import copy
import gc
import threading
import weakref

from helpers.extras import node, pod, table
from helpers.fake_api import POLICY, Clock
from scheduler_extras.common.errors import ServerUnavailable, Unschedulable
from scheduler_extras.deciding.decision import Diagnosis
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.reading.pods_and_nodes import FullPod


ONE = {"cpu": "1"}


def test_a_pod_that_was_bound_or_deleted_before_its_turn_is_skipped(watched):
    cluster = watched(node("n", cpu="9"))
    cluster.create(*(pod(name, ONE) for name in "abc"))

    def meanwhile(decision):
        if decision.pod.name == "a":
            cluster.send("DELETED", cluster.stamp(pod("b", ONE)))
            cluster.send("MODIFIED", cluster.stamp(pod("c", ONE, nodeName="n")))

    assert cluster.make_pass(meanwhile) == [("a", "n")]


def test_a_pod_that_is_terminating_before_its_turn_is_skipped(watched):
    cluster = watched(node("n"))
    cluster.create(pod("a"), pod("b"))
    assert cluster.make_pass(lambda decision: cluster.send("MODIFIED", cluster.stamp(pod("b"), deletionTimestamp="now"))) == [("a", "n")]


def test_a_pod_that_became_malformed_before_its_turn_is_skipped(watched):
    cluster = watched(node("n"))
    cluster.create(pod("a"), pod("b"), pod("c"))
    assert cluster.make_pass(lambda decision: cluster.send("MODIFIED", cluster.stamp(pod("b", {"cpu": "much"})))) == [
        ("a", "n"), ("c", "n")]


def test_room_that_other_pods_take_during_a_pass_counts(watched):
    cluster = watched(node("n", cpu="2"))
    cluster.create(*(pod(name, ONE) for name in "ab"))
    assert cluster.make_pass(lambda decision: decision.pod.name == "a" and cluster.send(
        "ADDED", cluster.put(pod("other", ONE, nodeName="n")))) == [("a", "n"), ("b", None)]


def test_a_pod_is_tried_when_its_added_event_arrives(watched):
    cluster = watched(node("n"))
    late = cluster.put(pod("a"))
    assert cluster.make_pass() == [] and not cluster.cluster.has_urgent_pod()
    cluster.send("ADDED", late)
    cluster.cache.apply_updates()
    assert cluster.cluster.has_urgent_pod(), "this ends the pause"
    assert cluster.make_pass() == [("a", "n")] and not cluster.cluster.has_urgent_pod()


@table("spec, wakes", {
    "a pod with scheduling gates": ({"schedulingGates": [{"name": "example.com/quota"}]}, False),
    "a pod in backoff": ({"nodeSelector": {"disk": "ssd"}}, False),
    "a pod of another scheduler": ({"schedulerName": "other"}, False),
})
def test_changes_of_a_pod_that_cannot_be_tried_start_no_pass(watched, spec, wakes):
    cluster = watched(node("n"))
    cluster.create(pod("a", **spec))
    cluster.make_pass()
    for i in range(3):
        cluster.send("MODIFIED", cluster.put(pod("a", labels={"i": str(i)}, **spec)))
        cluster.cache.apply_updates()
        assert cluster.cluster.has_urgent_pod() == wakes
    cluster.send("MODIFIED", cluster.put(pod("a")))
    cluster.cache.apply_updates()
    assert cluster.cluster.has_urgent_pod() == ("schedulingGates" in spec or "schedulerName" in spec)


def test_a_pod_that_keeps_changing_starts_at_most_ten_passes_a_second(watched, monkeypatch):
    """An example is a held pod, for which permit is called in each pass."""
    clock = Clock(monkeypatch)
    cluster = watched(node("n"), policy=FullPolicy([FullRule("Holds", lambda pod, node: (), hooks={"permit": lambda *_: 600})], []))
    cluster.create(pod("a"))
    cluster.make_pass()
    begun = 0
    for i in range(100):
        clock.now += 0.01
        cluster.send("MODIFIED", cluster.put(pod("a", labels={"i": str(i)})))
        cluster.cache.apply_updates()
        if cluster.cluster.has_urgent_pod():
            begun += 1
            cluster.make_pass()
    assert begun in (9, 10)


def test_arrival_times_of_other_schedulers_pods_are_not_kept(watched):
    cluster = watched(node("n"))
    cluster.create(*(pod(f"p{i}", schedulerName=f"other-{i}") for i in range(50)))
    cluster.stand_by()
    assert cluster.cache.arrived == {}
    cluster.create(*(pod(f"q{i}", schedulerName=f"other-{i}") for i in range(50)))
    cluster.make_pass()
    assert cluster.cache.arrived == {}


def test_a_held_pod_that_is_deleted_is_unreserved(watched):
    undone = []
    rule = FullRule("Holds", lambda pod, node: (), hooks={
        "permit": lambda *_: 60, "unreserve": lambda pod, snapshot: undone.append(pod.name)})
    cluster = watched(node("n"), policy=FullPolicy([rule], []))
    cluster.create(pod("a"))
    cluster.make_pass()
    assert cluster.on("n") == ["a"]
    gone = cluster.server.objects.pop(("pods", "default", "a"))
    cluster.send("DELETED", gone)
    cluster.make_pass()
    assert cluster.on("n") == [] and undone == ["a"] and not cluster.cluster.queue


def test_the_room_of_a_terminating_held_pod_is_free(watched, monkeypatch):
    clock = Clock(monkeypatch)
    rule = FullRule("Holds", lambda pod, node: (), hooks={"permit": lambda *_: 60})
    cluster = watched(node("n", cpu="1"), policy=FullPolicy([*POLICY.predicates, rule], []))
    cluster.create(pod("a", ONE, priority=1), pod("b", ONE))
    cluster.make_pass()
    assert cluster.on("n") == ["a"]
    cluster.create(pod("a", ONE, priority=1, metadata={"deletionTimestamp": "2020-01-01T00:00:00Z"}))
    clock.now += 2
    assert cluster.make_pass() == [("b", "n")] and cluster.on("n") == ["b"]


def test_a_pod_of_high_priority_that_arrives_during_a_long_pass_is_next(watched, monkeypatch):
    clock, cluster = Clock(monkeypatch), None
    cluster = watched(node("n", cpu="9"))
    cluster.create(*(pod(f"p{i}") for i in range(6)))
    order = []

    def tick(decision):
        order.append(decision.pod.name)
        clock.now += 0.4
        if len(order) == 1:
            cluster.create(pod("urgent", priority=9))

    while len(order) < 7:
        cluster.make_pass(tick)
    assert order.index("urgent") == 3, "the pass ends a second after its list"


def test_a_new_pod_does_not_wait_for_all_held_pods(watched, monkeypatch):
    clock, asked, cluster = Clock(monkeypatch), [], None

    def hold(pod, node, snapshot):
        """Hold a pod, which takes 0.1 s."""
        clock.now += 0.1
        asked.append(pod.name)
        if asked == ["a", "b", "c", "d", "e", "f", "a"]:
            cluster.create(new)
        return 60

    new = pod("new")
    cluster = watched(node("n", cpu="9"), policy=FullPolicy([FullRule("Holds", lambda pod, node: (), hooks={"permit": hold})], []))
    cluster.create(*(pod(name) for name in "abcdef"))
    for _ in range(3):
        cluster.make_pass()
    assert asked[6:].index("new") == 3, "0.2 s later"
    assert asked[10:13] == ["d", "e", "f"], "the pods that have waited the longest"


def test_garbage_is_collected_after_a_new_list(watched):
    cluster = watched(node("n"))
    gc.disable()
    garbage = Diagnosis()
    garbage.itself = garbage
    seen = weakref.ref(garbage)
    del garbage
    cluster.send("LISTED", cluster.put(pod("a", nodeName="n")))
    cluster.cache.apply_updates()
    gc.enable()
    gc.collect()
    assert seen() is None


def test_deleted_pods_are_in_no_reference_cycle(watched):
    cluster = watched(node("n", cpu="1"))
    gc.collect()
    gc.disable()
    try:
        cluster.create(pod("a", {"cpu": "2"}))
        assert cluster.make_pass() == [("a", None)]
        seen = weakref.ref(cluster.cache.pods["default/a"])
        cluster.send("DELETED", cluster.server.objects.pop(("pods", "default", "a")))
        cluster.make_pass()
        cluster.decided.clear()
        assert seen() is None
    finally:
        gc.enable()


def test_last_transition_time_is_written_once(watched):
    cluster = watched(node("n", cpu="1"))
    cluster.create(pod("a", {"cpu": "2"}))
    cluster.make_pass()
    written = cluster.server.sent("PATCH", "/status")[0][3]["status"]
    cluster.send("MODIFIED", cluster.put(pod("a", {"cpu": "2"}, status=written)))
    cluster.send("ADDED", cluster.put(node("m", cpu="1")), resource="nodes")
    cluster.cluster.queue.end_backoff()
    cluster.make_pass()
    times = ["lastTransitionTime" in request[3]["status"]["conditions"][0] for request in cluster.server.sent("PATCH", "/status")]
    assert times == [True, False]


def test_other_pods_are_retried_when_a_held_pod_gives_up_its_room(watched, monkeypatch):
    clock, limits = Clock(monkeypatch), {"a": [60]}

    def permit(pod, node, snapshot):
        if limits.get(pod.name) == []:
            raise Unschedulable("no")
        return limits.get(pod.name, [None])[0]

    rule = FullRule("Holds", lambda pod, node: (), hooks={"permit": permit})
    cluster = watched(node("n", cpu="1"), policy=FullPolicy([*POLICY.predicates, rule], []))
    cluster.create(pod("a", ONE, priority=1), pod("b", ONE))
    assert cluster.make_pass() == [("a", "n"), ("b", None)]
    clock.now += 2
    cluster.make_pass()
    limits["a"] = []
    cluster.make_pass()
    assert cluster.make_pass() == [("b", "n")]


def test_the_memory_of_a_waiting_replica_does_not_grow(watched):
    cluster = watched(node("n"))
    for i in range(3000):
        thing = cluster.stamp(pod("a", nodeName="n"), uid=str(i))
        cluster.send("ADDED", thing)
        cluster.send("DELETED", thing)
        if i % 100 == 0:
            cluster.stand_by()
    assert len(cluster.cache.snapshot.answer_cache.changes.versions) < 2000


def test_updates_do_not_pile_up_while_lists_fail(watched):
    cluster = watched(node("n"))
    cluster.send("MODIFIED", cluster.stamp(node("n")), resource="nodes")
    cluster.cluster.errors.last = ServerUnavailable(0, "no answer")
    cluster.cluster.rest(0, threading.Event())
    assert not cluster.cache.objects.updates.last


def test_irrelevant_changes_cause_no_rule_to_run_again(watched, monkeypatch):
    """These are heartbeats, the status that kubelets report, and our own Bindings. The pods are not parsed again either."""
    asked, read = [], []
    fits = FullRule("Notes", lambda pod, node: asked.append(node.name) or [*node.pods][:0], steady=True)
    cluster = watched(*(node(f"n{i}", cpu="1") for i in range(4)), policy=FullPolicy([fits], []))
    cluster.create(pod("a", ONE))
    [(_, place)] = cluster.make_pass()
    with monkeypatch.context() as patch:
        patch.setattr(FullPod, "__init__", lambda pod, raw: read.append(raw))
        shown = pod("a", ONE, nodeName=place)
        cluster.send("MODIFIED", cluster.stamp(shown), cluster.stamp(shown | {"status": {
            "phase": "", "podIP": "10.0.0.1", "startTime": "now", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 3}]}}))
        cluster.send("MODIFIED", *(cluster.stamp(node(f"n{i}", cpu="1")) for i in range(4)), resource="nodes")
        cluster.cache.apply_updates()
    assert read == []
    asked.clear()
    cluster.create(pod("b", ONE))
    cluster.make_pass()
    assert asked == [place], "only the node with the new pod"


def test_a_new_label_of_a_node_causes_a_retry_of_pending_pods(watched, monkeypatch):
    clock = Clock(monkeypatch)
    cluster = watched(node("n"), node("m"))
    cluster.create(pod("p", nodeSelector={"disk": "ssd"}))
    assert cluster.make_pass() == [("p", None)]
    clock.now += 2
    assert cluster.make_pass() == []
    cluster.send("MODIFIED", cluster.stamp(node("m", labels={"disk": "ssd"})), resource="nodes")
    assert cluster.make_pass() == [("p", "m")]


@table("ends", {
    "is deleted": (lambda cluster, thing: cluster.send("DELETED", thing),),
    "is recreated": (lambda cluster, thing: cluster.send("MODIFIED", cluster.stamp(pod("p", ONE), uid="another")),),
    "is bound": (lambda cluster, thing: cluster.send("MODIFIED", cluster.stamp(pod("p", ONE, nodeName="n"))),),
})
def test_a_nomination_that_could_not_be_written_lasts_until_the_pod(ends, watched):
    cluster = watched(node("n"))
    cluster.create(pod("p", ONE))
    cluster.cache.apply_updates()
    noted = copy.copy(cluster.cache.pods["default/p"])
    noted.nominated_node = "n"
    cluster.cache.snapshot.nominated = [noted]
    thing = cluster.stamp(pod("p", ONE, status={"conditions": [{"type": "PodScheduled", "status": "False"}]}))
    cluster.send("MODIFIED", thing)
    cluster.cache.apply_updates()
    assert cluster.cache.snapshot.nominated == [noted], "an update of the pod does not end it"
    cluster.send("MODIFIED", cluster.stamp(pod("p", ONE, status={"nominatedNodeName": "n"})))
    cluster.cache.apply_updates()
    assert len(cluster.cache.snapshot.nominated) == 1, "the nomination has been written, and counts once"
    ends[0](cluster, thing)
    cluster.cache.apply_updates()
    assert cluster.cache.snapshot.nominated == []


def test_a_pod_is_nominated_until_it_is_bound(watched):
    cluster = watched(node("n"))
    runs = pod("a", ONE, nodeName="n", status={"nominatedNodeName": "n"})
    cluster.send("ADDED", cluster.put(runs))
    cluster.send("MODIFIED", cluster.put(runs | {"status": {"nominatedNodeName": "n", "podIP": "10.0.0.1"}}))
    cluster.cache.apply_updates()
    assert cluster.cache.snapshot.nominated == []
    waits = pod("b", ONE, status={"nominatedNodeName": "n"})
    cluster.send("ADDED", cluster.put(waits))
    cluster.cache.apply_updates()
    assert [each.name for each in cluster.cache.snapshot.nominated] == ["b"]
    cluster.send("MODIFIED", cluster.put(pod("b", ONE, nodeName="n", status={"nominatedNodeName": "n"})))
    cluster.cache.apply_updates()
    assert cluster.cache.snapshot.nominated == []
