"""The pods of Deployments, Jobs, StatefulSets and other workloads match those that controllers create."""

import collections
import json
import re

import pytest
import yaml

from helpers.control_plane import wait_for
from helpers.everywhere import replace
from helpers.extras import claim, node, pod, run_scheduler, storage_class, table
from helpers.manifests import LEFT_OUT, kind, placed
from helpers.workloads import HOSTNAME, SPREAD, owned, pods_of, terminating, workload
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.manifests.workload import generated


ENDED = {"phase": "Failed"}


@table("things, count", {
    "a Deployment with three replicas": ([workload("Deployment", replicas=3)], 3),
    "the default is one replica": ([workload("ReplicaSet")], 1),
    "no replicas": ([workload("ReplicaSet", replicas=0)], 0),
    "a ReplicationController without a selector": (
        [workload("ReplicationController", replicas=2, selector=None), pod("x", labels={"app": "w"})], 2),
    "existing pods count": ([workload("ReplicaSet", replicas=3), owned("x", "ReplicaSet"), owned("y", "ReplicaSet")], 3),
    "... even without an owner": ([workload("ReplicaSet", replicas=3), pod("x", labels={"app": "w"})], 3),
    "... but not with other labels": ([workload("ReplicaSet", replicas=3), pod("x", labels={"app": "v"})], 4),
    "... nor with another owner": ([workload("ReplicaSet", replicas=3), owned("x", "ReplicaSet", "v")], 4),
    "... nor if they have ended": ([workload("ReplicaSet", replicas=3), owned("x", "ReplicaSet", status=ENDED)], 4),
    "a workload that is being deleted creates none": ([terminating(workload("ReplicaSet", replicas=3))], 0),
    "a Deployment in a copy without ReplicaSets": (
        [workload("Deployment", replicas=3), owned("x", "ReplicaSet", "w-1"), owned("y", "ReplicaSet", "w-1")], 3),
    "a StatefulSet creates the missing ordinals": (
        [workload("StatefulSet", replicas=3, podManagementPolicy="Parallel"), pod("w-1"), pod("w-7")], 4),
    "a DaemonSet creates one for each node that it tolerates": (
        [workload("DaemonSet"), node("b"), node("c", taints=[{"key": "a", "effect": "NoSchedule"}]), node("d", unschedulable=True)], 3),
    "... and that it selects": ([workload("DaemonSet", template={"nodeSelector": {"disk": "ssd"}}), node("b", labels={"disk": "ssd"})], 1),
    "... and that has none yet": ([workload("DaemonSet"), node("b"), owned("x", "DaemonSet", nodeName="b")], 2),
    "a Job": ([workload("Job")], 1),
    "... with parallelism": ([workload("Job", parallelism=3, completions=5)], 3),
    "... with fewer completions than parallelism": ([workload("Job", parallelism=3, completions=2, suspend=False)], 2),
    "a suspended Job creates none": ([workload("Job", suspend=True)], 0),
    "a Job that has ended creates none": (
        [workload("Job") | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}], 0),
    "a Job with a succeeded pod": ([workload("Job", completions=1), owned("x", "Job", status={"phase": "Succeeded"})], 1),
})
def test_the_number_of_pods(things, count, tmp_path):
    assert len(pods_of(tmp_path, node("a"), *things)) == count


OF_DEPLOYMENT = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "1", "controller": True}]}


def annotated(thing):
    """The workload with an annotation in its template."""
    thing["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "2024-01-01T00:00:00Z"}
    return thing


@table("replicas, existing, created", {
    "a ReplicaSet with the same template creates them": (3, workload("ReplicaSet", "w-1", replicas=1), {"w-1": 3}),
    "pods with an older template count": (3, workload("ReplicaSet", "w-1", template={"hostPID": True}, replicas=2), {"w-1": 1, "w-*": 2}),
    "... as before `kubectl rollout restart`": (3, annotated(workload("ReplicaSet", "w-1", replicas=2)), {"w-1": 1, "w-*": 2}),
})
def test_a_deployment_uses_its_existing_replica_set(replicas, existing, created, tmp_path):
    existing["metadata"] |= OF_DEPLOYMENT
    existing["spec"]["template"]["metadata"]["labels"] = {"app": "w", "pod-template-hash": "1"}
    existing["spec"]["selector"] = {"matchLabels": {"app": "w", "pod-template-hash": "1"}}
    there = owned("x", "ReplicaSet", "w-1")
    pods = pods_of(tmp_path, node("a"), existing, workload("Deployment", replicas=replicas), there)
    names = [thing["metadata"]["ownerReferences"][0]["name"] for thing in pods]
    assert collections.Counter(name if name == "w-1" else "w-*" for name in names) == created


def test_pods_of_an_indexed_job_get_the_missing_indexes(tmp_path):
    number = "batch.kubernetes.io/job-completion-index"
    there = [owned("w-1-abcde", "Job", nodeName="a"), owned("w-0-abcde", "Job", status={"phase": "Succeeded"})]
    for i, each in zip("10", there):
        each["metadata"]["annotations"] = {number: i}
    made = pods_of(tmp_path, node("a"), *there, workload("Job", completionMode="Indexed", completions=5, parallelism=3))[2:]
    assert [each["metadata"]["name"][:-5] for each in made] == ["w-2-", "w-3-"]
    assert [each["metadata"]["labels"][number] for each in made] == ["2", "3"]
    assert made[0]["metadata"]["labels"]["job-name"] == made[0]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "w"


def test_existing_pods_and_claims_of_a_stateful_set_stay_unchanged(tmp_path):
    template = {"metadata": {"name": "data"}, "spec": claim()["spec"]}
    of_set = workload("StatefulSet", replicas=3, volumeClaimTemplates=[template], podManagementPolicy="Parallel")
    there = [node("a"), pod("w-1", nodeName="a"), claim("data-w-0", volumeName="v")]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([of_set, *there]))
    objects = Manifests([tmp_path / "cluster.yaml"]).objects
    assert [objects["pods", "default", f"w-{i}"]["spec"].get("nodeName") for i in range(3)] == [None, "a", None]
    claims = {name: thing["spec"].get("volumeName") for (resource, _, name), thing in objects.items() if "claim" in resource}
    assert claims == {"data-w-0": "v", "data-w-2": None}


def test_a_generated_name_is_unique():
    first = generated("job-", "pods", "default", {"another": {}})
    assert generated("job-", "pods", "default", {("pods", "default", first): {}}) != first


def test_the_pods_of_a_large_workload_have_different_names(tmp_path):
    pods = pods_of(tmp_path, node("a"), workload("ReplicaSet", replicas=1000))
    assert len({thing["metadata"]["name"] for thing in pods}) == 1000


@table("fields, message", {
    "a number in quotes": ({"replicas": "3"}, 'spec.replicas: expected a whole number, got "3"'),
    "an invalid selector": (
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
        'spec.selector.matchExpressions[0].operator: expected one of DoesNotExist, Exists, Gt, In, Lt, NotIn, got "Is"'),
})
@pytest.mark.parametrize("of", ["Deployment", "ReplicaSet"])
def test_a_malformed_workload_is_skipped(of, fields, message):
    decisions, err = placed(workload(of, **fields), pod("other"))
    assert (err, [*decisions]) == (f"-: {of} w{LEFT_OUT}: {message}\n", ["default/other"])


def test_the_number_of_pods_of_a_workload_is_limited(tmp_path, monkeypatch, caplog):
    replace(monkeypatch, "MOST", 5)
    assert len(pods_of(tmp_path, node("a"), workload("ReplicaSet", replicas=6), workload("ReplicaSet", "v", replicas=5))) == 10
    assert caplog.messages == ["ReplicaSet w: only 5 of its pods are made here"]


def test_an_invalid_template_gives_one_message(tmp_path, caplog):
    assert pods_of(tmp_path, node("a"), workload("ReplicaSet", replicas=9, template={"priority": 5})) == []
    [message] = caplog.messages
    assert message.endswith("spec.priority: must not be provided, or be that of its PriorityClass: 0")


WORKLOADS = [
    workload("Deployment", "web", replicas=3, template={"topologySpreadConstraints": [
        SPREAD | {"labelSelector": {"matchLabels": {"app": "web"}}}]}),
    workload("ReplicaSet", "rs", replicas=2), workload("ReplicationController", "rc", replicas=2),
    workload("StatefulSet", "db", replicas=2, serviceName="db", volumeClaimTemplates=[
        {"metadata": {"name": "data"}, "spec": claim()["spec"] | {"storageClassName": "late"}}], podManagementPolicy="Parallel"),
    workload("DaemonSet", "agent", template={"hostNetwork": True, "tolerations": [{"key": "a", "operator": "Exists"}]}),
    workload("Job", "once", parallelism=2, completions=3),
    workload("Deployment", "held", replicas=3, paused=True), workload("Deployment", "none", replicas=0),
    workload("Deployment", "strict", template={"priorityClassName": "system-node-critical", "tolerations": [{"operator": "Exists"}]}),
    workload("StatefulSet", "ordered", replicas=3, serviceName="ordered"),
    workload("StatefulSet", "ordinary", replicas=2, serviceName="ordinary", podManagementPolicy="OrderedReady"),
    workload("DaemonSet", "plain"), workload("DaemonSet", "picky", template={"nodeSelector": {HOSTNAME: "b"}}),
    workload("DaemonSet", "nowhere", template={"nodeSelector": {"disk": "ssd"}}),
    workload("DaemonSet", "affine", template={"affinity": {"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": ["a"]}]}]}}}, "tolerations": [{"operator": "Exists"}]}),
    workload("Job", "queue", parallelism=2), workload("Job", "few", parallelism=5, completions=2), workload("Job", "zero", parallelism=0),
    *(kind("CronJob", name, "default", apiVersion="batch/v1beta1", spec={
        "schedule": "0 0 29 2 *", "suspend": name == "idle", "jobTemplate": {"spec": workload("Job", name)["spec"]}})
      for name in ("idle", "yearly"))]


GROUPS = {"Job": "batch/v1", "CronJob": "batch/v1beta1",
          **dict.fromkeys(["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"], "apps/v1")}


def essence(thing):
    """Return a pod as text, without its random parts: suffixes of names, hashes, uids."""
    metadata, spec = thing["metadata"], thing["spec"]
    [owner] = metadata["ownerReferences"]
    random_parts = ("pod-template-hash", "controller-revision-hash", "controller-uid", "apps.kubernetes.io/pod-index")
    name = re.sub("-[a-z0-9]{5}$", "", metadata["name"])
    labels = {key: "" if key in random_parts else value for key, value in metadata["labels"].items() if not key.startswith(("apps.", "batch."))}
    claims = [each["persistentVolumeClaim"]["claimName"] for each in spec.get("volumes", []) if "persistentVolumeClaim" in each]
    tolerations = sorted(json.dumps(each, sort_keys=True) for each in spec["tolerations"])
    hashed = owner["kind"] == "ReplicaSet" and owner["name"] != "rs"
    return json.dumps([name.rpartition("-")[0] if hashed else name, owner["kind"], owner["name"].rpartition("-")[0] if hashed else owner["name"],
                       owner["controller"], labels, claims, tolerations, spec.get("affinity")], sort_keys=True)


def test_pods_and_placements_match_those_of_controllers_and_kube_scheduler(controllers, tmp_path):
    control_plane = controllers
    late = storage_class("late", provisioner="example.com/x")
    nodes = [*(node(name, labels={HOSTNAME: name}) for name in "abc"), node("d", taints=[{"key": "a", "effect": "NoSchedule"}])]
    control_plane.create(*nodes)
    for thing in WORKLOADS:
        group = GROUPS.get(thing["kind"])
        place = f"../../apis/{group}/" if group else ""
        control_plane.request("POST", f"{place}namespaces/default/{thing['kind'].lower()}s", thing)
    made = pods_of(tmp_path, *nodes, late, *WORKLOADS)
    expected = collections.Counter(map(essence, made))
    wait_for("all pods are created", lambda: len(control_plane.pods()) >= len(made))
    assert collections.Counter(map(essence, control_plane.pods().values())) == expected
    (tmp_path / "policy.json").write_text(json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": [
        {"name": name} for name in ("GeneralPredicates", "EvenPodsSpread")], "priorities": []}))
    theirs = control_plane.start(
        "kube-scheduler", f"--kubeconfig={control_plane.kubeconfig()}", "--leader-elect=false", "--port=0", "--secure-port=0",
        "--scheduler-name=my-scheduler", f"--policy-config-file={tmp_path / 'policy.json'}")
    run = run_scheduler("--cluster", tmp_path / "cluster.yaml", "--policy", tmp_path / "policy.json")

    def spread(placements):
        """Count the pods on each node, for the workloads whose nodes are not random."""
        return collections.Counter((key.split("/")[1].split("-")[0], place) for key, place in placements if re.search("/(web|agent|plain|picky|affine)-", key))

    ours = spread(re.findall(r"^(\S+) -> (\S+)  ", run.stdout, re.M))
    assert {*ours.values()} == {1} and len(ours) == 14
    try:
        wait_for("kube-scheduler has placed as many", lambda: spread(control_plane.placements().items()).total() == 14)
    finally:
        theirs.kill()
        theirs.wait()
    assert ours == spread(control_plane.placements().items())
