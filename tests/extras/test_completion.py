"""Fields that admission would fill in: requests, ports, priorities, and default storage classes."""

import yaml

from helpers.extras import new_cluster, node, pod, run_scheduler, table
from helpers.manifests import kind, limited, placed, priority_class
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.reading.pods_and_nodes import FullPod


NO_READY_PODS = ("no pods to schedule for my-scheduler: those without a node have scheduling gates, are being deleted, "
                   "or are held back by a rule")


@table("thing, requests", {
    "limits are requests": (limited({"cpu": "3", "memory": "1Gi"}), {"cpu": 3000, "memory": 2**30}),
    "only for a resource that is not requested": (
        limited({"cpu": "3", "memory": "1Gi"}, {"cpu": "1"}), {"cpu": 1000, "memory": 2**30}),
    "init containers": (limited({"cpu": "3"}, kind="initContainers"), {"cpu": 3000, "memory": 0}),
    "an explicit request of zero": (limited({"cpu": "3"}, {"cpu": "0"}), {"cpu": 0, "memory": 0}),
    "no limits": (pod("p", {"cpu": "1"}), {"cpu": 1000, "memory": 0}),
})
def test_limits_are_the_default_of_requests(thing, requests):
    manifests = Manifests()
    manifests.add(thing)
    once = thing["spec"]
    manifests.add(thing)
    assert thing["spec"] == once, "a complete spec does not change"
    [read] = new_cluster(manifests).find_waiting({"my-scheduler": None})
    assert {name: read.requests[name] for name in requests} == requests


@table("spec, ports", {
    "with hostNetwork": ({"hostNetwork": True}, [80]),
    "without hostNetwork": ({}, []),
    "with an explicit hostPort": ({"hostNetwork": True, "hostPort": 80}, [80]),
})
def test_with_host_network_container_ports_are_host_ports(spec, ports):
    port = {"containerPort": 80} | {name: spec.pop(name) for name in ["hostPort"] if name in spec}
    thing = pod("p", containers=[{"name": "c", "ports": [port]}], **spec)
    manifests = Manifests()
    manifests.add(thing)
    assert [number for _, number, _ in FullPod(thing).host_ports] == ports


def test_a_ceph_image_without_a_pool_is_in_the_pool_rbd():
    image = {"monitors": ["m"], "image": "i"}
    pods = [pod(name, volumes=[{"name": "v", "rbd": rbd}]) for name, rbd in {"p": image, "q": image | {"pool": "rbd"}}.items()]
    decisions, _ = placed(*pods)
    assert decisions["default/p"]["node"] == "n" and "no available disk" in decisions["default/q"]["message"]


@table("spec, priority, message", {
    "a class that comes after the pod in the manifests": ({"priorityClassName": "high"}, 1000, ""),
    "system-node-critical": ({"priorityClassName": "system-node-critical"}, 2000001000, ""),
    "system-cluster-critical": ({"priorityClassName": "system-cluster-critical"}, 2000000000, ""),
    "no class: the global default": ({}, 7, ""),
    "an explicit priority, as in a copy of a cluster": ({"priority": 3, "priorityClassName": "high", "uid": "1"}, 3, ""),
    "an explicit priority that is that of its class": ({"priority": 1000, "priorityClassName": "high"}, 1000, ""),
    "an unknown class": (
        {"priorityClassName": "hihg"}, 0, 'Pod p: spec.priorityClassName: there is no PriorityClass "hihg"; '
        'did you mean "high"?'),
})
def test_a_pod_gets_the_priority_of_its_class(spec, priority, message, tmp_path, caplog):
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all([
        node("n"), pod("p", metadata={"uid": spec.pop("uid")} if "uid" in spec else {}, **spec), priority_class("high", 1000),
        priority_class("usual", 7, globalDefault=True)]))
    [read] = new_cluster(Manifests([path])).find_waiting({"my-scheduler": None})
    assert (read.priority, caplog.messages) == (priority, [message] if message else [])


LIMITS = {"limits": {"cpu": "2", "memory": "2Gi"}}


@table("things, requests", {
    "pod-level limits": ([pod("p", resources=LIMITS)], {"cpu": 2000, "memory": 2**31}),
    "... and requests of a container": ([pod("p", {"cpu": "1"}, resources=LIMITS)], {"cpu": 1000, "memory": 2**31}),
    "... and pod-level requests": (
        [pod("p", resources=LIMITS | {"requests": {"cpu": "1500m"}})], {"cpu": 1500, "memory": 2**31}),
    "... and one of two containers without requests": (
        [pod("p", resources=LIMITS, containers=[
            {"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}, {"name": "b"}])],
        {"cpu": 500, "memory": 2**30}),
})
def test_pod_level_requests_default_as_in_a_cluster(things, requests, tmp_path):
    read = completed_pod(tmp_path, *things)
    assert {name: read.requests[name] for name in requests} == requests
    assert {name: read.nonzero[name] for name in requests} == requests, "scores use pod-level requests, too"


def completed_pod(tmp_path, *things):
    """Return the waiting pod among these manifests, after completion."""
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node("n"), *things]))
    [read] = new_cluster(Manifests([tmp_path / "cluster.yaml"])).find_waiting({"my-scheduler": None})
    return read


def test_each_namespace_gets_a_label_with_its_name(tmp_path):
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([
        node("n"), kind("Namespace", "red", metadata={"labels": {"team": "red"}}), pod("p", namespace="blue")]))
    namespaces = Manifests([tmp_path / "cluster.yaml"]).by_name("namespaces")
    assert {name: thing["metadata"]["labels"] for name, thing in namespaces.items()} == {
        "red": {"team": "red", "kubernetes.io/metadata.name": "red"}, "blue": {"kubernetes.io/metadata.name": "blue"}}


DEFAULT = {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
           "volumeBindingMode": "WaitForFirstConsumer", "provisioner": "x"}


@table("spec, metadata, name", {
    "no class: the default one": ({}, {}, "usual"),
    "no class, in a copy of a cluster": ({}, {"uid": "1"}, None),
    "an explicit class": ({"storageClassName": "mine"}, {}, "mine"),
    "an explicit empty class": ({"storageClassName": ""}, {}, ""),
    "a class in an annotation": ({}, {"annotations": {"volume.beta.kubernetes.io/storage-class": "mine"}}, None),
})
def test_a_claim_without_a_class_gets_the_default_one(spec, metadata, name, tmp_path):
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([
        node("n"), kind("PersistentVolumeClaim", "c", spec=spec, metadata=metadata), kind("StorageClass", "usual", **DEFAULT),
        kind("StorageClass", "other", provisioner="x")]))
    manifests = Manifests([tmp_path / "cluster.yaml"])
    claim = manifests.objects["persistentvolumeclaims", "default", "c"]
    assert claim["spec"].get("storageClassName") == name


@table("first, second", {
    "the first one is younger": ("2025-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
    "both are of the same age": ("2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z"),
})
def test_the_youngest_default_class_counts_and_then_the_first_by_name(first, second, tmp_path):
    classes = [kind("StorageClass", name, **DEFAULT | {"metadata": DEFAULT["metadata"] | {"creationTimestamp": created}})
               for name, created in (("a", first), ("b", second))]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node("n"), kind("PersistentVolumeClaim", "c"), *classes]))
    manifests = Manifests([tmp_path / "cluster.yaml"])
    assert manifests.objects["persistentvolumeclaims", "default", "c"]["spec"]["storageClassName"] == "a"


@table("spec, policy", {
    "a class with a policy": ({"priorityClassName": "meek"}, "Never"),
    "a class without one": ({"priorityClassName": "bold"}, None),
    "an explicit policy": ({"priorityClassName": "meek", "preemptionPolicy": "Never"}, "Never"),
    "a pod without a class": ({}, None)})
def test_a_pod_gets_the_preemption_policy_of_its_class(spec, policy, tmp_path):
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([
        node("n"), pod("p", **spec), kind("PriorityClass", "meek", value=7, preemptionPolicy="Never"),
        kind("PriorityClass", "bold", value=9)]))
    given = Manifests([tmp_path / "cluster.yaml"]).objects["pods", "default", "p"]["spec"]
    assert given.get("preemptionPolicy") == policy


def test_a_pod_with_scheduling_gates_does_not_count_as_waiting():
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([
        node("n"), pod("p", schedulingGates=[{"name": "quota"}])]))
    assert run.stderr == NO_READY_PODS + "\n"
