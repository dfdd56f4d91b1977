"""Other watched objects, such as claims and volumes, and resources that cannot be listed."""

import pytest

from helpers.extras import claim, node, pod, storage_class, table, volume
from scheduler_extras.api.responses import error_of
from scheduler_extras.common.errors import ServerUnavailable, Unschedulable
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.pod_record import WaitsFor
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.policy_reader import read_policy


ONE = {"cpu": "1"}


DEFAULTS = read_policy({"kind": "Policy", "apiVersion": "v1"})


def using(name):
    return pod(f"uses-{name}", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])


def test_other_objects_are_listed_once_and_then_watched(watched):
    cluster = watched(node("n"), storage_class("local"), claim("data"), policy=DEFAULTS)
    cluster.create(using("data"))
    assert cluster.make_pass() == [("uses-data", None)]
    lists = len(cluster.server.sent("GET", "/persistentvolumes"))
    cluster.send("ADDED", cluster.put(volume("v")), resource="persistentvolumes")
    cluster.cluster.queue.end_backoff()
    assert cluster.make_pass() == [("uses-data", "n")], "the watch has shown the volume"
    assert lists == len(cluster.server.sent("GET", "/persistentvolumes")) == 1


def test_an_assumed_volume_stays_assumed_until_the_watch_shows_it_bound(watched):
    cluster = watched(node("n"), storage_class("local"), claim("data"), claim("more"), volume("v"), policy=DEFAULTS)
    cluster.create(using("data"), using("more"))
    assert cluster.make_pass() == [("uses-data", "n"), ("uses-more", None)]
    same = cluster.server.objects["persistentvolumes", None, "v"]
    cluster.send("MODIFIED", same, resource="persistentvolumes")  # the same event twice
    cluster.cluster.queue.end_backoff()
    cluster.make_pass()
    assert cluster.cluster.queue["uid-uses-more"].retry.failures == 2
    assert cluster.cluster.queue["uid-uses-data"].waits_for is WaitsFor.PRE_BIND


def refusing(error):
    """Return the default Policy with a rule whose PreBind raises an error once."""
    errors = [error]

    def prepare(pod, node, snapshot):
        if errors:
            raise errors.pop()

    rule = FullRule("Prepares", lambda pod, node: (), hooks={"pre_bind": prepare})
    return FullPolicy([*DEFAULTS.predicates, rule], DEFAULTS.priorities)


@table("error", {"the rule refuses": Unschedulable("no"), "a server error": error_of(503, "status 503")})
def test_an_assumed_volume_is_written_by_a_retry_if_another_pre_bind_failed(error, watched):
    cluster = watched(node("n"), storage_class("local"), claim("data"), volume("v"), policy=refusing(error))
    cluster.create(using("data"))
    cluster.make_pass()
    assert not cluster.server.sent("PATCH", "/v")
    cluster.put(volume("v"))  # as the API server has it
    cluster.cluster.queue.end_backoff()
    cluster.make_pass()
    assert len(cluster.server.sent("PATCH", "/v")) == 1
    assert cluster.cluster.queue["uid-uses-data"].waits_for is WaitsFor.PRE_BIND


@table("name, status", {
    "the volume cannot be written": ("v", 403),
    "the volume is written, and a claim cannot be": ("more", 422),
})
def test_after_a_failed_write_volumes_are_no_longer_assumed_and_nothing_is_listed_again(name, status, watched):
    cluster = watched(node("n"), storage_class("local"), claim("data"), volume("v"),
                   storage_class("csi", "csi.example.com"), claim("more", of="csi"), policy=DEFAULTS)
    cluster.server.failures[name] = [status]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "more")]
    cluster.create(pod("uses-data", volumes=volumes))
    cluster.make_pass()
    assert cluster.cluster.queue["uid-uses-data"].waits_for is WaitsFor.NODE and cluster.on("n") == []
    assert not cluster.cache.objects["persistentvolumes"]["v"]["spec"]["claimRef"]
    assert cluster.cache.objects["persistentvolumeclaims"]["default/more"]["metadata"]["annotations"] == {}
    lists = len(cluster.server.sent("GET", ""))
    cluster.cluster.queue.end_backoff()
    cluster.make_pass()
    assert len(cluster.server.sent("GET", "")) == lists
    assert cluster.cluster.queue["uid-uses-data"].waits_for is WaitsFor.PRE_BIND and cluster.on("n") == ["uses-data"]


def test_objects_that_a_rule_has_kept_do_not_change(watched):
    cluster = watched(node("n"))
    before = cluster.cache.objects["services"]
    cluster.send("ADDED", {"metadata": {"name": "s", "namespace": "default"}}, resource="services")
    cluster.cache.apply_updates()
    assert before == {} and [*cluster.cache.objects["services"]] == ["default/s"]


def test_a_pod_whose_labels_change_during_pre_bind_counts_once(watched):
    cluster = watched(node("n", cpu="1"), storage_class("local"), claim("data"), volume("v"), policy=DEFAULTS)
    cluster.create(using("data") | {"spec": using("data")["spec"] | {"containers": pod("x", ONE)["spec"]["containers"]}})
    assert cluster.make_pass() == [("uses-data", "n")]
    record = cluster.cluster.queue["uid-uses-data"]
    assert record.waits_for is WaitsFor.PRE_BIND
    cluster.create(pod("first", priority=5))
    raw = cluster.server.objects["pods", "default", "uses-data"]
    cluster.make_pass(lambda decision: decision.pod.name == "first" and cluster.send(
        "MODIFIED", cluster.stamp(raw, labels={"x": "y"})))
    assert record.waits_for is WaitsFor.PRE_BIND
    assert record.decision.pod.labels == {"x": "y"}


@table("resource, trouble", {"nodes": ("nodes", True), "pods": ("pods", True), "a resource that one pod's rule reads": ("services", False)})
def test_while_a_resource_cannot_be_listed_again_no_decision_is_based_on_it(resource, trouble, watched):
    looks = FullRule("Looks", lambda pod, node, metadata: (), metadata=lambda pod, nodes, snapshot: (
        pod.name == "b" and snapshot.objects["services"]))
    cluster = watched(node("n"), policy=FullPolicy([looks], []))
    cluster.cache.objects["services"]
    cluster.create(pod("a"), pod("b"))
    cluster.send("FAILED", (503, "status 503"), resource=resource)
    lists = len(cluster.server.sent("GET", ""))
    if trouble:
        for _ in range(2):
            with pytest.raises(ServerUnavailable, match="status 503"):
                cluster.make_pass()
    else:
        assert cluster.make_pass() == [("a", "n"), ("b", None)]
        cluster.cluster.queue.end_backoff()
    cluster.send("LISTED", *{"nodes": [node("n")], "services": []}.get(resource, [cluster.stamp(pod(name)) for name in "ab"]), resource=resource)
    assert ("b", "n") in cluster.make_pass()
    assert len(cluster.server.sent("GET", "")) == lists, "only the Reflector lists again"
