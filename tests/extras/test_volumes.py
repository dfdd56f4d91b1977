"""CheckVolumeBinding up to the binding: on a real control plane with the PV controller of kube-controller-manager, and without."""

import copy
import dataclasses
import json
import threading
import time

import pytest

from helpers import extras
from helpers.configuration import read_configuration
from helpers.control_plane import wait_for
from helpers.extras import node, pod, run_pass, table
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.live.passes import make_passes
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.rules.disks import claims_in_brief


HOSTNAME = "kubernetes.io/hostname"


@pytest.fixture
def cluster(control_plane, start_scheduler, tmp_path):
    """Two nodes, a PV controller, and the scheduler with a Policy that has CheckVolumeBinding."""
    for kind in ("persistentvolumeclaims", "persistentvolumes", "storageclasses"):
        place = {"persistentvolumeclaims": "namespaces/default/persistentvolumeclaims",
                 "storageclasses": "../../apis/storage.k8s.io/v1/storageclasses"}.get(kind, kind)
        control_plane.request("DELETE", place)
    wait_for("no claim is left", lambda: not control_plane.get("persistentvolumeclaims")["items"])
    controllers = control_plane.start(
        "kube-controller-manager", f"--kubeconfig={control_plane.kubeconfig()}", "--leader-elect=false", "--port=0",
        "--secure-port=0", "--controllers=persistentvolume-binder")
    control_plane.create(*(node(name, cpu="1", labels={HOSTNAME: name}) for name in ("a", "b")))
    (tmp_path / "policy.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "priorities": [],
        "predicates": [{"name": "CheckVolumeBinding"}, {"name": "PodFitsResources"}]}))
    start_scheduler("--server", control_plane.server, "--policy", tmp_path / "policy.json", "--interval=0.2")
    yield control_plane
    controllers.kill()
    controllers.wait()


def storage_class(cluster, name, provisioner):
    cluster.request("POST", "../../apis/storage.k8s.io/v1/storageclasses", {
        "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})


def volume(cluster, name, node_name, storage="1Gi", claim=None):
    """Create a local volume on a node, possibly provisioned for a claim."""
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node_name]}]}
    owner = {"claimRef": {"namespace": "default", "name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"]},
             "storageClassName": "made"} if claim else {"storageClassName": "local"}
    cluster.request("POST", "persistentvolumes", {"metadata": {"name": name}, "spec": {
        "capacity": {"storage": storage}, "accessModes": ["ReadWriteOnce"], "local": {"path": f"/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}, **owner}})


def claim(cluster, name, class_name):
    cluster.request("POST", "namespaces/default/persistentvolumeclaims", {"metadata": {"name": name}, "spec": {
        "storageClassName": class_name, "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "500Mi"}}}})


def with_claim(name, *claims, cpu="100m"):
    return pod(name, {"cpu": cpu}, volumes=[
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}} for i, claim in enumerate(claims)])


def claimed(cluster, name):
    return cluster.get(f"namespaces/default/persistentvolumeclaims/{name}")


def selected_node(cluster):
    """Return the selected node of the claim "data"."""
    return claimed(cluster, "data")["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node")


def test_the_smallest_fitting_volume_is_bound_and_then_the_pod(cluster):
    storage_class(cluster, "local", "kubernetes.io/no-provisioner")
    volume(cluster, "big", "b", "10Gi")
    volume(cluster, "small", "b", "1Gi")
    volume(cluster, "tiny", "a", "100Mi")
    claim(cluster, "data", "local")
    wait_for("the volumes are available", lambda: all(
        item["status"].get("phase") == "Available" for item in cluster.get("persistentvolumes")["items"]))
    cluster.create(with_claim("db", "data"))
    wait_for("the pod is bound", cluster.placements)
    assert cluster.placements() == {"default/db": "b"}
    assert claimed(cluster, "data")["spec"]["volumeName"] == "small"
    assert [key for key, _, _ in cluster.events("FailedScheduling")] in ([], ["default/db"])


def test_two_pods_do_not_get_the_same_volume(cluster):
    storage_class(cluster, "local", "kubernetes.io/no-provisioner")
    volume(cluster, "one", "a")
    claim(cluster, "first", "local")
    claim(cluster, "second", "local")
    wait_for("the volume is available", lambda: cluster.get(
        "persistentvolumes/one")["status"].get("phase") == "Available")
    cluster.create(with_claim("db-1", "first"), with_claim("db-2", "second"))
    wait_for("one pod is bound", cluster.placements)
    why = "node(s) didn't find available persistent volumes to bind"
    wait_for("the other pod has an event", lambda: any(
        why in text for _, text, _ in cluster.events("FailedScheduling")))
    assert len(cluster.placements()) == 1
    volume(cluster, "two", "b")
    wait_for("the other pod is bound, too", lambda: sorted(cluster.placements().values()) == ["a", "b"])


def test_a_volume_is_provisioned_for_the_chosen_node(cluster):
    """The test plays the provisioner: it creates a volume for the node in the claim's annotation."""
    storage_class(cluster, "made", "example.com/fake")
    claim(cluster, "data", "made")
    cluster.create(with_claim("db", "data"))

    chosen = wait_for("a node is selected", lambda: selected_node(cluster))
    assert cluster.placements() == {}, "not before the volume exists"
    volume(cluster, "new", chosen, claim=claimed(cluster, "data"))
    wait_for("the pod is bound", cluster.placements)
    assert cluster.placements() == {"default/db": chosen}


def test_after_the_provisioner_rejects_a_node_another_one_is_chosen(cluster):
    storage_class(cluster, "made", "example.com/fake")
    claim(cluster, "data", "made")
    cluster.create(with_claim("db", "data"))

    first = wait_for("a node is selected", lambda: selected_node(cluster))
    cluster.request("PATCH", f"nodes/{first}", {"spec": {"unschedulable": True}},
                    headers={"Content-Type": "application/merge-patch+json"})
    cluster.request("PATCH", "namespaces/default/persistentvolumeclaims/data",
                    {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": None}}},
                    headers={"Content-Type": "application/merge-patch+json"})
    second = "b" if first == "a" else "a"
    wait_for("the other node is selected", lambda: selected_node(cluster) == second)
    volume(cluster, "new", second, claim=claimed(cluster, "data"))
    wait_for("the pod is bound to it", lambda: cluster.placements() == {"default/db": second})


def test_a_pod_that_waits_for_its_volume_keeps_its_room(cluster):
    storage_class(cluster, "made", "example.com/fake")
    claim(cluster, "data", "made")
    cluster.request("DELETE", "nodes/b")
    cluster.create(with_claim("db", "data", cpu="800m"))
    wait_for("a node is selected", lambda: claimed(cluster, "data")["metadata"].get("annotations"))
    cluster.create(pod("greedy", {"cpu": "800m"}, priority=None))
    wait_for("the other pod has an event", lambda: [key for key, _, _ in cluster.events("FailedScheduling")] == [
        "default/greedy"])
    volume(cluster, "new", "a", claim=claimed(cluster, "data"))
    wait_for("the pod is bound", lambda: cluster.placements() == {"default/db": "a"})


@pytest.mark.parametrize("is_live", [False, True], ids=["manifests", "live"])
@table("objects, placements", {
    "a volume is used for one claim": (
        [extras.storage_class("c"), extras.claim("first", "c"), extras.claim("second", "c"),
         extras.volume("v", "c"), with_claim("db-1", "first"), with_claim("db-2", "second")], ["a or b", None]),
    "pods with the same unprovisioned claim go to the same node": (
        [extras.storage_class("c", "example.com/fake"), extras.claim("data", "c"),
         *(with_claim(f"db-{i}", "data") for i in range(3))], ["a or b"] * 3),
    "... and stay pending if it is full": (
        [extras.storage_class("c", "example.com/fake"), extras.claim("data", "c"),
         *(with_claim(f"db-{i}", "data", cpu="600m") for i in range(2))], ["a or b", None]),
})
def test_volumes_are_reserved_within_a_pass(is_live, objects, placements):
    """This does not depend on controllers."""
    cluster = extras.cluster_of(node("a", cpu="1"), node("b", cpu="1"), *copy.deepcopy(objects))
    cluster.cache.snapshot.is_live = is_live
    policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1"})}
    decisions = []
    run_pass(cluster, policies, decisions.append)
    nodes = [decision.node for decision in decisions]
    assert [name and "a or b" for name in nodes] == placements
    assert len({*nodes} - {None}) == 1
    cluster.attempts.on_carried_out = decisions.append
    make_passes(cluster, policies, threading.Event(), once=False)
    assert {decision.node for decision in decisions} == {*nodes}, "the reservations stay"


CONFIGURATION = {"kind": "KubeSchedulerConfiguration", "apiVersion": CONFIGURATION_VERSION}
LATE = {"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 30}}]}


@table("policy, limit, message", {
    "with a Policy": (read_policy({"kind": "Policy", "apiVersion": "v1"}), 600, "timed out waiting for the condition"),
    "with a configuration": (
        read_configuration(CONFIGURATION, "my-scheduler")["my-scheduler"], 600, "context deadline exceeded"),
    "with a configuration that has a timeout": (
        read_configuration(CONFIGURATION | {"profiles": [LATE]}, "my-scheduler")["my-scheduler"], 30,
        "context deadline exceeded"),
})
def test_a_pod_whose_volume_is_not_bound_in_time_gives_up_its_room_and_is_retried(policy, limit, message, monkeypatch):
    """The time in permit before does not count. The claim keeps its selected node."""
    moment = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: moment)
    holds = [3600]
    gate = FullRule("Gate", lambda pod, node: (), hooks={"permit": lambda pod, node, snapshot: holds[0]})
    policies = {"my-scheduler": dataclasses.replace(policy, others=[gate])}
    cluster = extras.cluster_of(node("a", cpu="1"), extras.claim("data", "c"), with_claim("db", "data", cpu="1"),
                                  extras.storage_class("c", "example.com/fake"))
    cluster.cache.snapshot.is_live = True
    decisions = []

    def make_pass():
        run_pass(cluster, policies, decisions.append)
        return [record.waits_for.value for record in cluster.queue.values()]

    assert make_pass() == ["permit"]
    moment += 700
    holds[0] = None
    assert make_pass() == ["pre_bind"]
    moment += limit
    assert make_pass() == ["pre_bind"]
    moment += 1
    assert make_pass() == ["node"]
    assert decisions[-1].message == f'running PreBind plugin "VolumeBinding": binding volumes: {message}'
    moment += 11
    assert make_pass() == ["pre_bind"]
    assert decisions[-1].node == "a"


@pytest.mark.parametrize("is_live", [False, True], ids=["manifests", "live"])
def test_a_pod_that_does_not_fit_on_the_selected_node_waits_for_the_provisioner(is_live):
    """The provisioner may be at work; it removes the annotation if it gives up."""
    there = with_claim("there", "another", cpu="1")
    data = extras.claim("data", "c", metadata={"annotations": {"volume.kubernetes.io/selected-node": "a"}})
    there = there | {"spec": there["spec"] | {"nodeName": "a"}}
    cluster = extras.cluster_of(node("a", cpu="1"), node("b", cpu="1"), there, data, with_claim("db", "data"),
                                  extras.storage_class("c", "example.com/fake"))
    cluster.cache.snapshot.is_live = is_live
    policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1"})}
    decisions = []
    for _ in range(2):
        run_pass(cluster, policies, decisions.append)
        cluster.queue.end_backoff()
    assert [decision.node for decision in decisions] == [None]
    assert data["metadata"]["annotations"] == {"volume.kubernetes.io/selected-node": "a"}


def claim_of(**more):
    """A claim as the API server returns it."""
    return {"metadata": {"name": "c", "annotations": more.pop("annotations", {})}, "spec": {"storageClassName": "a", **more}}


@table("now, are_same", {
    "a node is selected": ({"default/c": claim_of(annotations={"volume.kubernetes.io/selected-node": "n"})}, True),
    "the claim is bound": ({"default/c": claim_of(volumeName="v")}, False),
    "the claim has another class": ({"default/c": claim_of(storageClassName="b")}, False),
    "the claim has another class in the beta annotation": (
        {"default/c": claim_of(annotations={"volume.beta.kubernetes.io/storage-class": "b"})}, False),
    "another claim is created": ({"default/c": claim_of(), "default/d": claim_of()}, False),
    "the claim is deleted": ({}, False),
})
def test_volumes_on_nodes_are_recomputed_after_a_relevant_change_of_a_claim(now, are_same):
    snapshot = FullSnapshot({}, {"persistentvolumeclaims": {"default/c": claim_of()}})
    before = claims_in_brief(snapshot)
    snapshot.objects["persistentvolumeclaims"] = now
    after = claims_in_brief(snapshot)
    assert (after is before, after.keys()) == (are_same, now.keys())
