"""Nodes and pods that are added, modified and deleted in a watch."""

import gc

from helpers.control_plane import wait_for
from helpers.extras import new_cluster, new_live_cluster, node, pod, run_pass, table
from helpers.fake_api import POLICY
from helpers.faulty import ApiServer
from scheduler_extras.api.client import ApiClient
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.reading.pods_and_nodes import FullPod


ONE = {"cpu": "1"}


def test_a_node_is_deleted_and_recreated_while_it_has_pods(watched):
    cluster = watched(node("n", cpu="2"), node("o"))
    cluster.send("ADDED", cluster.put(pod("a", ONE, nodeName="n")))
    assert cluster.on("n") == ["a"]
    cluster.send("DELETED", cluster.stamp(node("n")), resource="nodes")
    cluster.send("ADDED", cluster.put(pod("b", ONE, nodeName="n")))
    cluster.cache.apply_updates()
    assert [*cluster.cache.snapshot.nodes] == ["o"]
    cluster.send("ADDED", cluster.stamp(node("n", cpu="8"), uid="another"), resource="nodes")
    assert cluster.on("n") == ["a", "b"] and [*cluster.cache.snapshot.nodes] == ["n", "o"]
    assert cluster.cache.nodes["n"].allocatable["cpu"] == 8000


@table("what", {"is deleted": "DELETED", "is terminating": "MODIFIED"})
def test_a_node_is_deleted_and_recreated_within_one_update_and_its_last_pod(watched, what):
    cluster = watched(node("n", cpu="2"), node("o"))
    there = cluster.put(pod("a", ONE, nodeName="n"))
    cluster.send("ADDED", there)
    assert cluster.on("n") == ["a"]
    cluster.send("DELETED", cluster.stamp(node("n")), resource="nodes")
    cluster.send(what, cluster.stamp(there, deletionTimestamp="2024-01-01T00:00:00Z"))
    cluster.send("ADDED", cluster.stamp(node("n", cpu="8"), uid="another"), resource="nodes")
    assert cluster.on("n") == (["a"] if what == "MODIFIED" else [])
    assert cluster.cache.snapshot.nodes["n"] is cluster.cache.nodes["n"]


def test_a_pod_is_added_before_its_node_and_both_are_deleted_in_the_end(watched):
    cluster = watched(node("o"))
    cluster.send("ADDED", cluster.put(pod("a", ONE, nodeName="n")))
    assert cluster.on("n") == ["a"] and [*cluster.cache.snapshot.nodes] == ["o"]
    cluster.send("ADDED", cluster.stamp(node("n")), resource="nodes")
    assert cluster.on("n") == ["a"] and [*cluster.cache.snapshot.nodes] == ["n", "o"]
    cluster.send("DELETED", cluster.stamp(node("n")), resource="nodes")
    cluster.send("DELETED", cluster.stamp(pod("a", ONE, nodeName="n")))
    cluster.send("ADDED", cluster.stamp(node("p")), resource="nodes")
    cluster.cache.apply_updates()
    assert sorted(cluster.cache.nodes) == ["o", "p"]


def test_the_same_name_with_another_uid_is_another_pod(watched):
    cluster = watched(node("n", cpu="3"))
    first = cluster.put(pod("a", ONE, nodeName="n"))
    second = cluster.stamp(pod("a", {"cpu": "2"}, nodeName="n"), uid="second")
    cluster.send("ADDED", first)
    cluster.send("LISTED", second)  # the deletion of the first one was missed
    assert cluster.on("n") == ["a"] and [there.uid for there in cluster.counted()] == ["second"]


def test_a_bound_pod_is_replaced_by_another_one_with_its_name(watched):
    cluster = watched(node("n"))
    cluster.create(pod("a"))
    cluster.make_pass()
    assert [*cluster.cluster.queue] == ["uid-a"]
    cluster.send("LISTED", cluster.put(pod("a"), uid="second"))
    assert cluster.on("n") == []
    assert cluster.make_pass() == [("a", "n")] and [*cluster.cluster.queue] == ["second"]


def test_an_object_that_changes_many_times_is_parsed_once(watched, monkeypatch):
    cluster, read = watched(node("n")), []
    plain = FullPod.__init__
    monkeypatch.setattr(FullPod, "__init__", lambda pod, raw: read.append(raw["metadata"]["name"]) or plain(pod, raw))
    for i in range(100):
        cluster.send("MODIFIED", cluster.stamp(pod("a", schedulerName="other", labels={"i": str(i)})))
    cluster.send("ADDED", cluster.stamp(pod("b", nodeName="n")))
    cluster.cache.apply_updates()
    assert read == ["a", "b"] and cluster.cache.pods["default/a"].labels == {"i": "99"}
    assert len(cluster.cache.objects.updates.last) == 0
    for i in range(100):
        cluster.send("MODIFIED", cluster.stamp(pod("a", labels={"i": str(i)})))
    cluster.send("DELETED", cluster.stamp(pod("a")))
    cluster.send("LISTED", cluster.stamp(pod("b", nodeName="n")))
    assert len(cluster.cache.objects.updates.last) == 1
    assert cluster.on("n") == ["b"] and [*cluster.cache.pods] == ["default/b"] and read == ["a", "b"]


def test_a_list_of_another_cluster_replaces_all_objects_even_with_equal_versions(watched):
    cluster = watched(node("n", cpu="1"))
    there = cluster.put(pod("a", {"cpu": "1"}, nodeName="n"))
    cluster.send("ADDED", there)
    assert cluster.on("n") == ["a"]
    cluster.send("LISTED", pod("a", {"cpu": "100m"}, nodeName="n", metadata=there["metadata"] | {"uid": "of-the-other"}))
    assert cluster.on("n") == ["a"] and cluster.cache.nodes["n"].requested["cpu"] == 100


def test_a_pod_whose_binding_a_webhook_changes_counts_on_its_actual_node(watched):
    """The Binding names one node and is answered with 201, but the API server has written another node."""
    cluster = watched(node("m", cpu="1"), node("n", cpu="2"))
    cluster.create(pod("a", {"cpu": "1"}), pod("b", {"cpu": "2"}))
    cluster.make_pass()
    other = {"m": "n", "n": "m"}
    place = next(name for name in other if "a" in cluster.on(name))
    cluster.send("MODIFIED", cluster.put(pod("a", {"cpu": "1"}, nodeName=other[place])))
    assert "a" in cluster.on(other[place]) and "a" not in cluster.on(place)
    assert cluster.make_pass() == [] or cluster.under_way() <= {"b"}


@table("times", {"once": 1, "ten times": 10})
def test_a_pod_is_tried_when_its_last_gate_is_removed_after_gates_changed(times, watched):
    cluster = watched(node("n"))
    cluster.create(pod("a", schedulingGates=[{"name": "example.com/g"}]))
    for _ in range(times):
        assert cluster.make_pass() == []
        cluster.send("MODIFIED", cluster.put(pod("a")), cluster.put(pod("a", schedulingGates=[{"name": "example.com/g"}])))
    assert cluster.make_pass() == []
    cluster.send("MODIFIED", cluster.put(pod("a")))
    assert cluster.make_pass() == [("a", "n")] and cluster.bound() == ["a"]


def test_the_room_of_a_pod_that_has_ended_is_free(watched):
    cluster = watched(node("n", cpu="1"))
    cluster.send("ADDED", cluster.put(pod("a", ONE, nodeName="n")))
    assert cluster.on("n") == ["a"]
    cluster.send("DELETED", cluster.stamp(pod("a", ONE, nodeName="n", status={"phase": "Succeeded"})))
    assert cluster.on("n") == []


def test_a_duplicate_event_counts_once(watched):
    cluster = watched(node("n", cpu="2"))
    thing = cluster.put(pod("a", ONE, nodeName="n"))
    for what in ("ADDED", "ADDED", "MODIFIED", "DELETED", "DELETED"):
        cluster.send(what, thing)
        assert cluster.on("n") == ([] if what == "DELETED" else ["a"])


def test_a_malformed_pod_blocks_its_node_until_it_is_valid_or_deleted(watched):
    cluster = watched(node("m"), node("n"))
    cluster.send("ADDED", cluster.stamp(pod("odd", {"cpu": "much"}, nodeName="n")))
    cluster.cache.apply_updates()
    assert [*cluster.cache.snapshot.nodes] == ["m"]
    cluster.send("MODIFIED", cluster.stamp(pod("odd", ONE, nodeName="n")))
    assert cluster.on("n") == ["odd"] and [*cluster.cache.snapshot.nodes] == ["m", "n"]
    cluster.send("MODIFIED", cluster.stamp(pod("odd", {"cpu": "much"}, nodeName="n")))
    cluster.cache.apply_updates()
    assert [*cluster.cache.snapshot.nodes] == ["m"]
    cluster.cache.has_changed = False
    cluster.send("LISTED")
    assert cluster.on("n") == [] and [*cluster.cache.snapshot.nodes] == ["m", "n"]
    assert cluster.cache.has_changed, "so that pending pods are retried"


def test_a_held_pod_that_becomes_malformed_is_unreserved_and_does_not_block_its_node(watched):
    rule = FullRule("Holds", lambda pod, node: (), hooks={"permit": lambda *_: 60})
    cluster = watched(node("n"), policy=FullPolicy([rule], []))
    cluster.create(pod("a"))
    cluster.make_pass()
    cluster.send("MODIFIED", cluster.stamp(pod("a", {"cpu": "much"})))
    cluster.make_pass()
    assert cluster.on("n") == [] and [*cluster.cache.snapshot.nodes] == ["n"]


def test_an_update_of_a_pod_without_a_spec_is_applied(watched):
    cluster = watched(node("n"))
    for _ in range(2):
        cluster.send("MODIFIED", cluster.stamp({"metadata": {"name": "odd", "namespace": "default"}}))
        assert cluster.on("n") == []


def test_the_cache_matches_a_fresh_list_after_many_changes():
    """Pods are created, bound and deleted, while streams end again and again."""
    server = ApiServer(*(node(f"n{i}", pods="20") for i in range(5)))
    cluster = new_live_cluster(ApiClient(server.url))
    try:
        for step in range(60):
            server.create(pod(f"p{step}", {"cpu": "10m"}))
            if step % 3 == 2:
                server.delete(f"p{step - 2}")
            run_pass(cluster, {"my-scheduler": POLICY})
        wait_for("all pods are bound", lambda: run_pass(cluster, {"my-scheduler": POLICY}) or len(server.placements()) == 40)
        fresh = new_cluster(ApiClient(server.url))
        wait_for("all updates are applied", lambda: where_pods_are(cluster) == where_pods_are(fresh))
        assert sum(bool(there.counted_on) for there in cluster.cache.pods.values()) == 40
    finally:
        server.stop()


def where_pods_are(cluster):
    """Return {node: (the keys of its pods, their requests)}."""
    return {name: (sorted(pod.key for pod in node.pods.values()), node.requested)
            for name, node in cluster.refresh_snapshot().nodes.items()}


def test_deleted_objects_are_garbage_collected(watched):
    cluster = watched(node("n"))
    for generation in range(50):
        thing = cluster.put(pod("p", ONE, nodeName="n"), uid=f"uid-{generation}")
        cluster.send("ADDED", thing)
        cluster.send("DELETED", thing)
    cluster.cache.apply_updates()
    gc.collect()
    assert sum(isinstance(each, FullPod) and each.name == "p" for each in gc.get_objects()) == 0
