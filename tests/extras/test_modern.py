"""The recorded decisions of kube-scheduler 1.36.2 with a KubeSchedulerConfiguration (tests/golden/), and fields of pods
and volumes that 1.20 does not have; most of these also count with a Policy."""

import copy
import json
import re

import pytest

from helpers.configuration import read_configuration
from helpers.extras import (
    claim,
    cluster_of,
    csi_node,
    decide,
    new_cluster,
    node,
    pending_pods,
    pod,
    run_scheduler,
    storage_class,
    table,
    to_be_provisioned,
    volume,
)
from helpers.golden import recorded
from scheduler_extras.api.responses import error_of
from scheduler_extras.common.errors import ApiError
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.deciding.recorded_reads import signature
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.policy.policy_file import lines_of
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.always import ALWAYS_ASKED


SEQUENCES = {line["id"]: line for line in recorded("modern")}
ALIKE_EVERYWHERE = "DynamicResources"  # a plugin of kube-scheduler that gives each node the same score here


@pytest.mark.parametrize("name", SEQUENCES)
def test_every_step_is_decided_as_in_kube_scheduler(name):
    """Every recorded node is among our best, every score is equal, every message is equal."""
    sequence = SEQUENCES[name]
    policies = read_configuration(copy.deepcopy(sequence["config"]), "my-scheduler")
    manifests = Manifests()
    for thing in sequence["objects"]:
        manifests.add(thing)
    cluster, differences = new_cluster(manifests), []
    for step in sequence["steps"]:
        pod = FullPod(step["pod"])
        decision = schedule(pod, cluster.refresh_snapshot(policies), policies["my-scheduler"])
        highest = max(decision.total.values(), default=None)
        best = {node for node, total in decision.total.items() if total == highest} or {None}
        if step["node"] not in best or decision.message != step.get("message"):
            differences.append((pod.key, step["node"], step.get("message"), best, decision.message))
        for plugin, scores in (step["scores"] or {}).items():
            if plugin != ALIKE_EVERYWHERE and decision.scores.get(plugin) != scores:
                differences.append((pod.key, plugin, scores, decision.scores.get(plugin)))
        idle = decision.scores.keys() - (step["scores"] or {}).keys() if len(decision.total) > 1 else ()
        differences += [(pod.key, f"{plugin} has nothing to score here") for plugin in idle
                        if any(decision.scores[plugin].values())]
        if step["node"]:
            settled = copy.deepcopy(step.get("afterwards") or step["pod"])
            settled["spec"]["nodeName"] = step["node"]
            manifests.add(settled)
    assert not differences, f"{len(differences)} of {len(sequence['steps'])} steps: {differences[:3]}"


def test_messages_of_1_36_with_a_configuration_and_of_1_20_with_a_policy():
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    text = {kind: decide(policies, pod("p"), node("n", taints=taints)).message for kind, policies in BOTH.items()}
    assert text == {
        "Policy": "0/1 nodes are available: 1 node(s) had taint {k: v}, that the pod didn't tolerate.",
        "KubeSchedulerConfiguration": "0/1 nodes are available: 1 node(s) had untolerated taint(s)."}


BOTH = {"Policy": {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1"})},
        "KubeSchedulerConfiguration": read_configuration({
            "apiVersion": CONFIGURATION_VERSION, "kind": "KubeSchedulerConfiguration"}, "my-scheduler")}
BY_BOTH = pytest.mark.parametrize("policies", BOTH.values(), ids=BOTH.keys())


def named(*terms):
    """Required node affinity to nodes by name. A term with several lists requires a name that is in all of them."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}
        for names in terms]}}}


@table("incoming, objects, message", {
    "required nodes by name: the reasons of other nodes are omitted": (
        pod("p", {"cpu": "9"}, affinity=named(["a"], ["gone"])), [node("b", unschedulable=True), node("c")],
        "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
    "a name that no node has": (
        pod("p", affinity=named(["gone"])), [], "1 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
    "contradicting names reject the pod": (
        pod("p", affinity=named(["a", "b"])), [node("b")], "pod affinity terms conflict"),
    "a claim that does not exist rejects the pod": (
        pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]), [node("b")],
        'persistentvolumeclaim "none" not found'),
})
def test_messages_if_pre_filter_excludes_nodes(incoming, objects, message):
    decision = decide(BOTH["KubeSchedulerConfiguration"], incoming, node("a"), *objects)
    assert decision.message == f"0/{1 + len(objects)} nodes are available: {message}."
    assert decision.failed.keys() == {"a", *(thing["metadata"]["name"] for thing in objects)}


def resized(spec, actual=None, allocated=None, condition=None, **more):
    """A pod on node n whose container is being resized in place."""
    status = {"name": "main", **({} if actual is None else {"resources": {"requests": {"cpu": actual}}}),
              **({"allocatedResources": {"cpu": allocated}} if allocated else {})}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": condition}] if condition else []
    return pod("resized", {"cpu": spec}, nodeName="n", status={
        "phase": "Running", "containerStatuses": [status], "conditions": conditions}, **more)


@BY_BOTH
@table("there, fits", {
    "a pod without a resize": (resized("2", "2"), True),
    "a pod that will grow counts with its new size": (resized("3", "2", "2"), False),
    "... but not if the resize is infeasible": (resized("3", "2", "2", "Infeasible"), True),
    "... even while the resize is deferred": (resized("3", "2", "2", "Deferred"), False),
    "a pod that will shrink counts with its old size": (resized("1", "3", "1"), False),
    "... and with the allocated size": (resized("1", "1", "3"), False),
    "a status without resources is ignored": (resized("1", None, "3"), True),
})
def test_a_container_that_is_resized_in_place(policies, there, fits):
    assert bool(decide(policies, pod("p", {"cpu": "2"}), there, node("n")).node) == fits


def test_the_resize_of_a_sidecar_counts_and_that_of_another_init_container_does_not():
    def requests(**more):
        container = {"name": "init", "resources": {"requests": {"cpu": "1"}}, **more}
        status = {"name": "init", "resources": {"requests": {"cpu": "4"}}}
        return FullPod(pod("p", {"cpu": "2"}, initContainers=[container], status={
            "initContainerStatuses": [status]})).requests["cpu"]

    assert (requests(), requests(restartPolicy="Always")) == (2000, 6000)


@BY_BOTH
@table("spec, status, reason, fits", {
    "a pod without pod-level requests": (None, {"allocatedResources": {"cpu": "3"}}, None, True),
    "a pod without a resize": ("2", {"resources": {"requests": {"cpu": "2"}}}, None, True),
    "a pod that will shrink counts with its old size": ("1", {"resources": {"requests": {"cpu": "3"}}}, None, False),
    "... and with the allocated size": ("1", {"resources": {}, "allocatedResources": {"cpu": "3"}}, None, False),
    "... but not before its kubelet has reported resources": ("1", {"allocatedResources": {"cpu": "3"}}, None, True),
    "a pod that will grow counts with its new size": ("3", {"resources": {"requests": {"cpu": "2"}}}, "Deferred", False),
    "... but not if the resize is infeasible": ("3", {"resources": {"requests": {"cpu": "2"}}}, "Infeasible", True),
    "a resource that is missing in the spec does not count": (
        "1", {"resources": {"requests": {"cpu": "1", "memory": "8Gi"}}}, None, True),
})
def test_pod_level_resources_that_are_resized_in_place(policies, spec, status, reason, fits):
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    whole = {"resources": {"requests": {"cpu": spec}}} if spec else {}
    there = pod("there", nodeName="n", status={"phase": "Running", "conditions": conditions, **status}, **whole)
    assert bool(decide(policies, pod("p", {"cpu": "2"}), there, node("n")).node) == fits


def test_pods_that_differ_only_in_a_resize_have_different_signatures():
    kinds = {signature(FullPod(resized("1", actual)), ("requests",)) for actual in ("1", "2", "2")}
    assert len(kinds) == 2


@table("resources, nonzero", {
    "none: each container counts with default requests": (None, {"cpu": 100, "memory": 200 * 2**20}),
    "pod-level requests replace the defaults": (
        {"requests": {"cpu": "1", "memory": "1Gi"}}, {"cpu": 1000, "memory": 2**30}),
    "a resource without a pod-level request has the default": ({"requests": {"cpu": "1"}}, {"cpu": 1000, "memory": 200 * 2**20}),
})
def test_pod_level_requests(resources, nonzero):
    there = FullPod(pod("p", nodeName="n", **({"resources": resources} if resources else {})))
    assert there.nonzero == nonzero
    assert there.requests["cpu"] == (1000 if resources else 0)


def with_port(name, restart_policy, **more):
    """A pod with an init container that has a host port."""
    ports = [{"containerPort": 80, "hostPort": 80}]
    return pod(name, initContainers=[{"name": "init", "ports": ports, "restartPolicy": restart_policy}], **more)


@BY_BOTH
@table("restart_policy, fits", {"a sidecar has its host ports": ("Always", False),
                                "another init container has none": (None, True)})
def test_host_ports_of_init_containers(policies, restart_policy, fits):
    decision = decide(policies, with_port("p", restart_policy), with_port("there", restart_policy, nodeName="n"),
                      node("n"))
    assert bool(decision.node) == fits


def nominated(name="q", node_name="n", priority=10, cpu="3", **more):
    """A pending pod with a nominated node."""
    return pod(name, {"cpu": cpu}, priority=priority, status={"nominatedNodeName": node_name}, **more)


@BY_BOTH
@table("other, node_name", {
    "room is reserved for a pod of higher priority": (nominated(priority=11), None),
    "... and of equal priority": (nominated(), None),
    "no room is reserved for a pod of another scheduler": (nominated(schedulerName="other"), "n"),
    "... nor for a pod of lower priority": (nominated(priority=9), "n"),
    "... nor for the pod itself": (nominated("p"), "n"),
    "... nor for a pod that has a node already": (nominated("there"), "n"),
    "... nor for a pod that is nominated to another node": (nominated(node_name="m"), "n"),
    "there is room for both": (nominated(cpu="2"), "n"),
    "the anti-affinity of a nominated pod counts": (nominated(cpu="0", affinity={"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}}), None),
})
def test_room_for_pods_that_are_nominated(policies, other, node_name):
    objects = [node("n", labels={"kubernetes.io/hostname": "n"}), pod("there", nodeName="n"),
               pod("p", {"cpu": "2"}, priority=10)]
    cluster = cluster_of(*objects)
    [incoming], snapshot = pending_pods(cluster, policies), cluster.refresh_snapshot(policies)
    snapshot.nominated = [FullPod(other)]
    decision = schedule(incoming, snapshot, policies["my-scheduler"])
    assert decision.node == node_name, decision.message
    assert decision.failed == {} or decision.failed["n"].keys() == {"room for nominated pods"}
    assert snapshot.nodes["n"].pods.keys() == {"default/there"}, "the snapshot is unchanged"


@table("format, nominated_to, node_name", {
    "the nominated node is chosen, though another one is better": ("KubeSchedulerConfiguration", "full", "full"),
    "... unless it does not fit": ("KubeSchedulerConfiguration", "cordoned", "empty"),
    "... or does not exist": ("KubeSchedulerConfiguration", "gone", "empty"),
    "1.20 chooses the best node": ("Policy", "full", "empty"),
})
def test_a_pod_with_a_nominated_node(format, nominated_to, node_name):
    decision = decide(BOTH[format], nominated("p", nominated_to, cpu="1"), pod("there", {"cpu": "3"}, nodeName="full"),
                      node("full"), node("empty"), node("cordoned", unschedulable=True))
    assert decision.node == node_name


def owned(kind, api_version="apps/v1", name="owner", is_controller=True):
    """The metadata of a pod with an owner."""
    return {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": is_controller}]}


def owner(kind, namespace="default", **selector):
    """An object that may own pods, and selects those with these labels."""
    if kind not in ("Service", "ReplicationController"):
        selector = {"matchLabels": selector}
    return {"kind": kind, "metadata": {"name": "owner", "namespace": namespace}, "spec": {"selector": selector}}


def spread_from(policies, metadata, *owners):
    """Return the nodes that a pod with the label app=a avoids. Each node has a pod with the labels in its name."""
    fellows = {"app-a": {"app": "a"}, "app-b": {"app": "b"}, "tier-t": {"tier": "t"}, "app-a-tier-t": {"app": "a", "tier": "t"},
               "other": {}}
    decision = decide(
        policies, pod("p", labels={"app": "a"}, metadata=metadata), *owners,
        *(node(name, labels={"kubernetes.io/hostname": name, TODAY: "z"}) for name in fellows),
        *(pod(f"on-{name}", labels=labels, nodeName=name) for name, labels in fellows.items()))
    scores = decision.scores.get("PodTopologySpread") or decision.scores["SelectorSpreadPriority"]
    return {name for name, score in scores.items() if score < scores["other"]}


@table("metadata, owners, names", {
    "a pod of a ReplicaSet": (owned("ReplicaSet"), [owner("ReplicaSet", app="a")], {"app-a", "app-a-tier-t"}),
    "... of a StatefulSet": (owned("StatefulSet"), [owner("StatefulSet", app="a")], {"app-a", "app-a-tier-t"}),
    "... of a ReplicationController": (
        owned("ReplicationController", "v1"), [owner("ReplicationController", app="a")], {"app-a", "app-a-tier-t"}),
    "... of an owner whose selector does not select it": (
        owned("ReplicaSet"), [owner("ReplicaSet", tier="t")], {"tier-t", "app-a-tier-t"}),
    "... of an owner with an invalid selector": (owned("ReplicaSet"), [owner("ReplicaSet", app="not a label!")], {}),
    "... of an owner that selects all pods": (owned("ReplicaSet"), [owner("ReplicaSet")], {}),
    "... of an owner that does not exist": (owned("ReplicaSet", name="gone"), [owner("ReplicaSet", app="a")], {}),
    "... of an owner in another namespace": (owned("ReplicaSet"), [owner("ReplicaSet", "red", app="a")], {}),
    "... of an owner with an old apiVersion": (owned("ReplicaSet", "extensions/v1beta1"), [owner("ReplicaSet", app="a")], {}),
    "... of an owner that is not its controller": (
        owned("ReplicaSet", is_controller=False), [owner("ReplicaSet", app="a")], {}),
    "a pod without an owner, selected by a ReplicaSet": ({}, [owner("ReplicaSet", app="a")], {}),
    "a pod of a Job": (owned("Job", "batch/v1"), [owner("Job", app="a")], {}),
    "a pod of a DaemonSet": (owned("DaemonSet"), [owner("DaemonSet", app="a")], {}),
    "a static pod": (owned("Node", "v1"), [], {}),
    "a pod of a Service": ({}, [owner("Service", app="a")], {"app-a", "app-a-tier-t"}),
    "... and of a DaemonSet": (
        owned("DaemonSet"), [owner("Service", app="a"), owner("DaemonSet", tier="t")], {"app-a", "app-a-tier-t"}),
    "... and of a ReplicaSet with another selector: both count": (
        owned("ReplicaSet"), [owner("Service", app="a"), owner("ReplicaSet", tier="t")], {"app-a-tier-t"}),
    "... and of a ReplicaSet with a contradicting selector: no pod matches both": (
        owned("ReplicaSet"), [owner("Service", app="a"), owner("ReplicaSet", app="b")], {}),
    "... and of a ReplicationController with a contradicting selector: the latter counts": (
        owned("ReplicationController", "v1"), [owner("Service", app="a"), owner("ReplicationController", app="b")],
        {"app-b"}),
})
def test_default_spreading_with_a_configuration(metadata, owners, names):
    assert spread_from(BOTH["KubeSchedulerConfiguration"], metadata, *owners) == set(names)


def test_spreading_with_a_policy_uses_all_selectors_that_match_the_pod():
    policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", "priorities": [
        {"name": "SelectorSpreadPriority", "weight": 1}]})}
    assert spread_from(policies, {}, owner("ReplicaSet", app="a")) == {"app-a", "app-a-tier-t"}
    assert spread_from(policies, owned("ReplicaSet"), owner("ReplicaSet", tier="t")) == set()


def test_rules_that_always_run_are_not_listed_in_a_policy():
    for policies in BOTH.values():
        message = "\n".join(lines_of(policies["my-scheduler"]))
        assert not any(rule.title in message for rule in ALWAYS_ASKED)


CLAIMS = [{"name": "gpu", "resourceClaimName": "mine"}]


@table("policies, message", {
    "with a Policy": (BOTH["Policy"], "0/2 nodes are available: 2 pod claims devices (spec.resourceClaims), which this "
                                    "scheduler does not allocate."),
    "with a configuration": (BOTH["KubeSchedulerConfiguration"], "0/2 nodes are available: pod claims devices "
                                                               "(spec.resourceClaims), which this scheduler does not "
                                                               "allocate."),
    "with a Policy without predicates": (
        {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": []})},
        "0/2 nodes are available: 2 pod claims devices (spec.resourceClaims), which this scheduler does not allocate."),
})
def test_a_pod_that_claims_devices_stays_pending(policies, message):
    assert decide(policies, pod("p", resourceClaims=CLAIMS), node("a"), node("b")).message == message


def test_a_running_pod_that_claims_devices_gets_no_such_message(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": [
        node("a"), pod("p", nodeName="a", resourceClaims=CLAIMS, status={"phase": "Running"})]}))
    run = run_scheduler("--policy", "DefaultProvider", "--cluster", path, "--explain", "p")
    assert "claims devices" not in run.stdout and "default/p -> a" in run.stdout, run.stdout + run.stderr


BETA, TODAY = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"


@table("on_volume, on_node, fits", {
    "the same label": (TODAY, TODAY, True),
    "a beta label on the volume": (BETA, TODAY, True),
    "a beta label on both": (BETA, BETA, True),
    "a beta label on the node": (TODAY, BETA, False),
    "another label": (TODAY, "topology.kubernetes.io/region", False),
})
def test_zone_labels_of_volumes(on_volume, on_node, fits):
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "annotations": {
        "pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"}}
    volume = {"kind": "PersistentVolume", "metadata": {"name": "v", "labels": {on_volume: "a__b"}}, "spec": {}}
    decision = decide(BOTH["KubeSchedulerConfiguration"], pod("p", volumes=CLAIMED), claim, volume,
                      node("n", labels={on_node: "a"}))
    assert bool(decision.node) == fits


CLAIMED = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]


def capacity(size, maximum=None, storage_class="fast", zone="a"):
    """The free storage of a driver in a zone."""
    return {"kind": "CSIStorageCapacity", "metadata": {"name": "capacity"}, "storageClassName": storage_class,
            "capacity": size, "nodeTopology": {"matchLabels": {"zone": zone}},
            **({"maximumVolumeSize": maximum} if maximum else {})}


@BY_BOTH
@table("publishes, capacities, fits", {
    "a driver that publishes no capacities has enough": (False, [], True),
    "a driver that publishes capacities has none before the first one": (True, [], False),
    "enough for the claim": (True, [capacity("5Gi")], True),
    "too little": (True, [capacity("4Gi")], False),
    "enough in total, but volumes are limited": (True, [capacity("9Gi", "4Gi")], False),
    "of another class": (True, [capacity("9Gi", storage_class="slow")], False),
    "in another zone than the node": (True, [capacity("9Gi", zone="b")], False),
})
def test_storage_capacity(monkeypatch, policies, publishes, capacities, fits):
    objects = {
        "persistentvolumeclaims": {"default/c": {"metadata": {"name": "c", "namespace": "default"}, "spec": {
            "storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}}},
        "storageclasses": {"fast": {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}},
        "csidrivers": {"csi.example.com": {"spec": {"storageCapacity": publishes}}}, "persistentvolumes": {},
        "csistoragecapacities": {f"default/{i}": thing for i, thing in enumerate(capacities)}}
    cluster = cluster_of(node("n", labels={"zone": "a"}), pod("p", volumes=CLAIMED))
    [incoming], snapshot = pending_pods(cluster, policies), cluster.refresh_snapshot(policies)
    snapshot.objects.update(objects)
    decision = schedule(incoming, snapshot, policies["my-scheduler"])
    assert (decision.node is not None) == fits
    assert fits or "1 node(s) did not have enough free storage" in decision.message


def using(*claims, ephemeral=(), disks=(), **more):
    """A pod with these claims, ephemeral volumes and EBS disks; its uid is its key."""
    return pod("p", volumes=[
        *({"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims),
        *({"name": name, "ephemeral": {"volumeClaimTemplate": {}}} for name in ephemeral),
        *({"name": name, "awsElasticBlockStore": {"volumeID": name}} for name in disks)], **more)


def attachment(driver="driver", node_name="a", volume_name="v"):
    """A VolumeAttachment that belongs to no pod."""
    return {"kind": "VolumeAttachment", "metadata": {"name": "attachment"}, "spec": {
        "attacher": driver, "nodeName": node_name, "source": {"persistentVolumeName": volume_name}}}


def of_csi(name):
    """A volume of a CSI driver."""
    return volume(name, "made", csi={"driver": "driver", "volumeHandle": name})


LOCAL, MADE, EBS = storage_class("local"), storage_class("made", "driver"), storage_class("ebs", "kubernetes.io/aws-ebs")
ELSEWHERE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "zone", "operator": "In", "values": ["elsewhere"]}]}]}}
OWNED = {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "default/p", "controller": True}]}
BOUND = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
TELLING = {"kind": "CSIDriver", "metadata": {"name": "driver"}, "spec": {"storageCapacity": True}}
NO_VOLUME = "1 node(s) didn't find available persistent volumes to bind"
TOO_MANY = "1 node(s) exceed max volume count"
IN_USE = ("1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
          "another pod")


def azure(*disks):
    """A pod with Azure disks, each with a name and a URI."""
    return pod("p", volumes=[{"name": uri, "azureDisk": {"diskName": name, "diskURI": uri}} for name, uri in disks])


@table("incoming, objects, reason", {
    "a bound volume out of reach": (
        using("c"), [claim("c", volumeName="v"), volume("v", nodeAffinity=ELSEWHERE)],
        "1 node(s) didn't match PersistentVolume's node affinity"),
    "a volume of another attributes class": (
        using("c"), [LOCAL, claim("c"), volume("v", volumeAttributesClassName="gold")], NO_VOLUME),
    "a volume of the same attributes class": (
        using("c"), [LOCAL, claim("c", volumeAttributesClassName="gold"),
                     volume("v", volumeAttributesClassName="gold")], None),
    "a bound volume that is gone": (
        using("c"), [claim("c", volumeName="v")], 'persistentvolume "v" not found'),
    "... of an ephemeral volume": (
        using(ephemeral=["e"]), [claim("p-e", volumeName="v", metadata=OWNED | BOUND)],
        "1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
    "a claim that has lost its volume": (
        using("c"), [claim("c", volumeName="v", status={"phase": "Lost"})],
        'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"'),
    "a terminating claim, and a missing one": (
        using("c", "d"), [LOCAL, claim("c", metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"})],
        'persistentvolumeclaim "d" not found'),
    "an ephemeral volume whose claim is not created yet": (
        using(ephemeral=["e"]), [],
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"'),
    "an ephemeral volume whose claim has another owner": (
        using(ephemeral=["e"]), [MADE, claim("p-e", "made")],
        "PVC default/p-e was not created for pod default/p (pod is not owner)"),
    "an ephemeral volume whose claim is owned by the pod": (using(ephemeral=["e"]), [MADE, claim("p-e", "made", metadata=OWNED)], None),
    "an ephemeral volume in another zone": (
        using(ephemeral=["e"]), [claim("p-e", volumeName="v", metadata=OWNED | BOUND),
                                 volume("v", metadata={"labels": {TODAY: "elsewhere"}})], None),
    "a ReadWriteOncePod claim in use by another pod": (
        using("c"), [LOCAL, claim("c", accessModes=["ReadWriteOncePod"]),
                     using("c") | {"metadata": {"name": "q"}, "spec": using("c", nodeName="a")["spec"]}], IN_USE),
    "too little storage for the smaller of two claims, and no volume for the other": (
        using("small", "large"), [LOCAL, MADE, TELLING, claim("small", "made"),
                                  claim("large", resources={"requests": {"storage": "9Gi"}})],
        "1 node(s) did not have enough free storage"),
    "two claims with this selected node: the reason of the first counts": (
        using("large", "small"), [MADE, LOCAL, TELLING, claim("small", metadata=to_be_provisioned("a")), claim(
            "large", "made", metadata=to_be_provisioned("a"), resources={"requests": {"storage": "9Gi"}})],
        "1 node(s) did not have enough free storage"),
    "a claim with another selected node, and one with too little storage": (
        using("large", "small"), [MADE, TELLING, claim("small", "made", metadata=to_be_provisioned("b")), claim(
            "large", "made", resources={"requests": {"storage": "9Gi"}})], NO_VOLUME),
    "two Azure disks with the same name, one more than the limit": (
        azure(["d", "one"], ["d", "two"]), [csi_node(**{"disk.csi.azure.com": 1})], TOO_MANY),
    "one Azure disk with two names": (
        azure(["d", "one"], ["e", "one"]), [csi_node(**{"disk.csi.azure.com": 1})], None),
    "one Portworx volume more than the limit": (
        pod("p", volumes=[{"name": name, "portworxVolume": {"volumeID": name}} for name in "ab"]),
        [csi_node(**{"pxd.portworx.com": 1})], TOO_MANY),
    "as many EBS disks as the limit of their CSI driver": (
        using(disks=["d"]), [csi_node(**{"ebs.csi.aws.com": 1})], None),
    "one EBS disk more": (using(disks=["d", "e"]), [csi_node(**{"ebs.csi.aws.com": 1})], TOO_MANY),
    "one EBS disk more, which will be provisioned": (
        using("c", disks=["d"]), [csi_node(**{"ebs.csi.aws.com": 1}), EBS, claim("c", "ebs")], TOO_MANY),
    "two EBS disks without a limit": (using(disks=["d", "e"]), [], None),
    "a limit in the node's status only": (
        using("c"), [node("a", status={"allocatable": {"pods": "9", "attachable-volumes-csi-driver": "0"}}), MADE,
                     claim("c", "made")], None),
    "an attached volume that belongs to no pod": (
        using("c"), [csi_node(driver=1), MADE, claim("c", "made"), of_csi("v"), attachment()], TOO_MANY),
    "a volume that is attached to another node": (
        using("c"), [csi_node(driver=1), MADE, claim("c", "made"), of_csi("v"), attachment(node_name="b")], None),
    "a volume that is attached for a pod on the node": (
        using("c"), [csi_node(driver=2), MADE, claim("c", "made"), of_csi("v"), attachment(),
                     claim("d", "made", volumeName="v"), using("d", nodeName="a") | {"metadata": {"name": "q"}}], None),
})
def test_volumes_as_in_1_36(incoming, objects, reason):
    decision = decide(BOTH["KubeSchedulerConfiguration"], incoming, node("a", labels={TODAY: "here"}), *objects)
    assert decision.message == (reason and f"0/1 nodes are available: {reason}.")


@table("status, known", {"an API server without this resource": (404, True),
                         "missing permissions": (403, False)})
def test_storage_capacities_of_an_old_api_server(status, known):
    class Old(Manifests):
        def request(self, *_):
            raise error_of(status, "no")

    objects = new_cluster(Old()).cache.objects
    if known:
        assert objects["csistoragecapacities"] == {} == dict(objects)["csistoragecapacities"]
    else:
        with pytest.raises(ApiError):
            objects["csistoragecapacities"]
        assert not objects
    with pytest.raises(ApiError):
        objects["services"]


# Copies of live clusters, each with a pod for which a decision of kube-scheduler 1.36.2 was recorded: volumes, pods of
# controllers and Services, pods and nodes with the newest fields.
COPIES = {f"{name} {number}, {case['group']}: {case['name']}": case for name in ("clusters", "owners")
          for number, case in enumerate(recorded(name), 1)}
CONFIGURATION = {"apiVersion": CONFIGURATION_VERSION, "kind": "KubeSchedulerConfiguration",
                 "profiles": [{"schedulerName": "kube"}]}


def parts(message):
    """Return the parts of a message, sorted."""
    return message and sorted(re.split(r"nodes are available: |, |\.$", message))


@pytest.mark.parametrize("name", COPIES)
def test_the_pod_gets_the_node_or_the_message_of_kube_scheduler(name):
    case = COPIES[name]
    policies = read_configuration(CONFIGURATION, "my-scheduler")
    cluster = cluster_of(*case["cluster"])
    [pod] = [pod for pod in pending_pods(cluster, policies) if pod.key == case["key"]]
    decision = schedule(pod, cluster.refresh_snapshot(policies), policies["kube"])
    highest = max(decision.total.values(), default=None)
    best = [node for node, total in decision.total.items() if total == highest]
    assert case["node"] in (best or [None]), (best, decision.message)
    assert parts(decision.message) == parts(case["message"])
