"""Kubernetes of today: the decisions of kube-scheduler 1.36.2 itself under a KubeSchedulerConfiguration (tests/golden/),
one by one; and fields of pods and volumes that 1.20 did not know, which count whatever the configuration."""

import copy
import gzip
import json
from pathlib import Path

import pytest
import scheduler
from conftest import cluster_of, decide, node, pod, run_scheduler, table

MODERN = Path(__file__).parent / "golden" / "modern.jsonl.gz"
SEQUENCES = {line["id"]: line for line in map(json.loads, gzip.open(MODERN, "rt"))}
ALIKE_EVERYWHERE = "DynamicResources"  # a plugin of kube-scheduler's that gives each node the same score here


@pytest.mark.parametrize("name", SEQUENCES)
def test_every_step_is_decided_as_kube_scheduler_does(name):
    """Every node is among our best, every score is equal, every message is equal."""
    sequence = SEQUENCES[name]
    policies = scheduler.read_configuration(copy.deepcopy(sequence["config"]), "my-scheduler")
    manifests = scheduler.Manifests()
    for thing in sequence["objects"]:
        manifests.add(thing)
    cluster, differences = scheduler.Cluster(manifests), []
    for step in sequence["steps"]:
        pod = scheduler.Pod(step["pod"])
        decision = scheduler.schedule(pod, cluster.snapshot(policies), policies["my-scheduler"])
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


def test_a_configuration_is_todays_and_a_policy_is_not():
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    said = {kind: decide(policies, pod("p"), node("n", taints=taints)).message for kind, policies in BOTH.items()}
    assert said == {
        "Policy": "0/1 nodes are available: 1 node(s) had taint {k: v}, that the pod didn't tolerate.",
        "KubeSchedulerConfiguration": "0/1 nodes are available: 1 node(s) had untolerated taint(s)."}


BOTH = {"Policy": {"my-scheduler": scheduler.read_policy({"kind": "Policy", "apiVersion": "v1"})},
        "KubeSchedulerConfiguration": scheduler.read_configuration({
            "apiVersion": scheduler.CONFIGURATION_VERSION, "kind": "KubeSchedulerConfiguration"}, "my-scheduler")}
BY_BOTH = pytest.mark.parametrize("policies", BOTH.values(), ids=BOTH.keys())


def named(*terms):
    """Required node affinity to nodes by their names; in each term, to those of all its lists."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}
        for names in terms]}}}


@table("incoming, objects, message", {
    "who names nodes is told no more of the others": (
        pod("p", {"cpu": "9"}, affinity=named(["a"], ["gone"])), [node("b", unschedulable=True), node("c")],
        "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
    "a name that no node has": (
        pod("p", affinity=named(["gone"])), [], "1 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
    "names that exclude one another reject the pod": (
        pod("p", affinity=named(["a", "b"])), [node("b")], "pod affinity terms conflict"),
    "so does a claim that does not exist": (
        pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]), [node("b")],
        'persistentvolumeclaim "none" not found'),
})
def test_messages_where_not_every_node_is_asked(incoming, objects, message):
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
    "a pod that is as it was made": (resized("2", "2"), True),
    "one that is to grow counts as what it is to be": (resized("3", "2", "2"), False),
    "... but not if it can never be that": (resized("3", "2", "2", "Infeasible"), True),
    "... while it is put off it counts": (resized("3", "2", "2", "Deferred"), False),
    "one that is to shrink counts as what it still has": (resized("1", "3", "1"), False),
    "... and as what it has been granted": (resized("1", "1", "3"), False),
    "a status that tells no resources says nothing": (resized("1", None, "3"), True),
})
def test_a_pod_that_is_resized_in_place(policies, there, fits):
    assert bool(decide(policies, pod("p", {"cpu": "2"}), there, node("n")).node) == fits


def test_a_resized_sidecar_counts_too_and_another_init_container_does_not():
    def requests(**more):
        container = {"name": "init", "resources": {"requests": {"cpu": "1"}}, **more}
        status = {"name": "init", "resources": {"requests": {"cpu": "4"}}}
        return scheduler.Pod(pod("p", {"cpu": "2"}, initContainers=[container], status={
            "initContainerStatuses": [status]})).requests["cpu"]

    assert (requests(), requests(restartPolicy="Always")) == (2000, 6000)


def test_pods_that_differ_in_their_size_only_are_of_different_kinds():
    kinds = {scheduler.Pod(resized("1", actual)).kind for actual in ("1", "2", "2")}
    assert len(kinds) == 2


@table("resources, nonzero", {
    "none: each container counts a little": (None, {"cpu": 100, "memory": 200 * 2**20}),
    "what the pod says as a whole is not added to": (
        {"requests": {"cpu": "1", "memory": "1Gi"}}, {"cpu": 1000, "memory": 2**30}),
    "what it does not say is": ({"requests": {"cpu": "1"}}, {"cpu": 1000, "memory": 200 * 2**20}),
})
def test_requests_of_a_pod_as_a_whole(resources, nonzero):
    there = scheduler.Pod(pod("p", nodeName="n", **({"resources": resources} if resources else {})))
    assert there.nonzero == nonzero
    assert there.requests["cpu"] == (1000 if resources else 0)


def with_port(name, restart_policy, **more):
    """A pod whose init container has a host port."""
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
    """A pending pod for which room is being made."""
    return pod(name, {"cpu": cpu}, priority=priority, status={"nominatedNodeName": node_name}, **more)


@BY_BOTH
@table("other, node_name", {
    "room is left to a more important pod": (nominated(priority=11), None),
    "... and to one as important": (nominated(), None),
    "... of any scheduler": (nominated(schedulerName="other"), None),
    "a less important one does not get it": (nominated(priority=9), "n"),
    "a pod does not leave room to itself": (nominated("p"), "n"),
    "who has a node already is there, not to come": (nominated("there"), "n"),
    "another node's room is no matter": (nominated(node_name="m"), "n"),
    "there may be room for both": (nominated(cpu="2"), "n"),
    "what the other one repels does not fit": (nominated(cpu="0", affinity={"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}}), None),
})
def test_room_for_pods_that_are_nominated(policies, other, node_name):
    objects = [node("n", labels={"kubernetes.io/hostname": "n"}), pod("there", nodeName="n"),
               pod("p", {"cpu": "2"}, priority=10)]
    cluster = cluster_of(*objects)
    [incoming], snapshot = cluster.pending_pods(policies), cluster.snapshot(policies)
    snapshot.nominated = [scheduler.Pod(other)]
    decision = scheduler.schedule(incoming, snapshot, policies["my-scheduler"])
    assert decision.node == node_name, decision.message
    assert decision.failed == {} or decision.failed["n"].keys() == {"room for nominated pods"}
    assert snapshot.nodes["n"].pods.keys() == {"default/there"}, "all is as it was"


def test_what_is_always_asked_is_not_part_of_what_the_policy_says():
    for policies in BOTH.values():
        said = "\n".join(policies["my-scheduler"].lines())
        assert not any(rule.title in said for rule in scheduler.ALWAYS_ASKED)


CLAIMS = [{"name": "gpu", "resourceClaimName": "mine"}]


@table("policies, message", {
    "by a Policy": (BOTH["Policy"], "0/2 nodes are available: 2 pod claims devices (spec.resourceClaims), which this "
                                    "scheduler does not allocate."),
    "by a configuration": (BOTH["KubeSchedulerConfiguration"], "0/2 nodes are available: pod claims devices "
                                                               "(spec.resourceClaims), which this scheduler does not "
                                                               "allocate."),
    "by a Policy without predicates": (
        {"my-scheduler": scheduler.read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": []})},
        "0/2 nodes are available: 2 pod claims devices (spec.resourceClaims), which this scheduler does not allocate."),
})
def test_who_claims_devices_stays_pending(policies, message):
    assert decide(policies, pod("p", resourceClaims=CLAIMS), node("a"), node("b")).message == message


def test_who_has_got_its_devices_is_not_said_to_have_none(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": [
        node("a"), pod("p", nodeName="a", resourceClaims=CLAIMS, status={"phase": "Running"})]}))
    run = run_scheduler("--policy", "DefaultProvider", "--cluster", path, "--explain", "p")
    assert "claims devices" not in run.stdout and "default/p -> a" in run.stdout, run.stdout + run.stderr


BETA, TODAY = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"


@table("on_volume, on_node, fits", {
    "the same label": (TODAY, TODAY, True),
    "an old volume, and a node of today": (BETA, TODAY, True),
    "a volume of today, and an old node": (TODAY, BETA, True),
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
    """What a driver says of its storage in a zone."""
    return {"kind": "CSIStorageCapacity", "metadata": {"name": "capacity"}, "storageClassName": storage_class,
            "capacity": size, "nodeTopology": {"matchLabels": {"zone": zone}},
            **({"maximumVolumeSize": maximum} if maximum else {})}


@BY_BOTH
@table("tells, capacities, fits", {
    "a driver that does not tell its capacity has enough": (False, [], True),
    "one that tells has none until it says so": (True, [], False),
    "enough for the claim": (True, [capacity("5Gi")], True),
    "too little": (True, [capacity("4Gi")], False),
    "enough, but not in one piece": (True, [capacity("9Gi", "4Gi")], False),
    "of another class": (True, [capacity("9Gi", storage_class="slow")], False),
    "where the node cannot reach it": (True, [capacity("9Gi", zone="b")], False),
})
def test_storage_capacity(monkeypatch, policies, tells, capacities, fits):
    objects = {
        "persistentvolumeclaims": {"default/c": {"metadata": {"name": "c", "namespace": "default"}, "spec": {
            "storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}}},
        "storageclasses": {"fast": {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}},
        "csidrivers": {"csi.example.com": {"spec": {"storageCapacity": tells}}}, "persistentvolumes": {},
        "csistoragecapacities": {f"default/{i}": thing for i, thing in enumerate(capacities)}}
    cluster = cluster_of(node("n", labels={"zone": "a"}), pod("p", volumes=CLAIMED))
    [incoming], snapshot = cluster.pending_pods(policies), cluster.snapshot(policies)
    snapshot.objects.update(objects)
    decision = scheduler.schedule(incoming, snapshot, policies["my-scheduler"])
    assert (decision.node is not None) == fits
    assert fits or "1 node(s) did not have enough free storage" in decision.message


@table("status, known", {"an API server that does not know them has none": (404, True),
                         "one that does not show them is an error": (403, False)})
def test_storage_capacities_of_an_old_api_server(status, known):
    class Old:
        def list(self, resource):
            raise scheduler.ApiError(status, "no")

    objects = scheduler.Objects(Old())
    if known:
        assert objects["csistoragecapacities"] == {} == dict(objects)["csistoragecapacities"]
    else:
        with pytest.raises(scheduler.ApiError):
            objects["csistoragecapacities"]
        assert not objects
    with pytest.raises(scheduler.ApiError):
        objects["services"]
