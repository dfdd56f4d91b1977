"""Problems that users reported, with their manifests (tests/reports), and similar cases.

Each row failed before it was fixed.
"""

import re

import pytest
import yaml

from helpers.everywhere import ROOT
from helpers.extras import claim, node, pod, run_scheduler, storage_class, table, volume
from helpers.manifests import LEFT_OUT, kind, priority_class
from helpers.workloads import HOSTNAME, owned, pods_of, terminating, workload
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.manifests.manifests import Manifests


REPORTS = ROOT / "tests" / "reports"
DEFAULTS = ["--policy", "DefaultProvider", "--seed", "1"]


def run_report(report, *arguments):
    """Run the program on the files of a report, which are given relative to its folder."""
    folder = REPORTS / report
    words = [folder / each if (folder / each).exists() and not each.startswith("-") else each for each in arguments]
    return run_scheduler("--cluster", *words, cwd=folder)


def placed_in(run):
    """Return {pod, without the random suffix: node}."""
    return {re.sub("-[b-z2-9]{5,10}(?=-|$)", "", key): place for key, place in re.findall(r"^(\S+) -> (\S+)  ", run.stdout, re.M)}


NO_PODS = "no pods are created from its template here; add the pods themselves"


@table("report, files, code, placements, message", {
    "Nodes of Longhorn and of OpenShift": ("node-of-longhorn", ["cluster.yaml"], 0, {"default/web": "harv-2"}, []),
    "a folder with a kustomization": (
        "folder-with-other-files", ["kust"], 0, {"default/web": "n2"}, ["skipped, not Kubernetes objects: kustomization.yaml"]),
    "... with the values of a chart": (
        "folder-with-other-files", ["chart"], 0, {"default/web": "n1"}, ["objects: values.yaml; helm template renders"]),
    "... with a scheduler's configuration": (
        "folder-with-other-files", ["conf"], 0, {"default/web": "n1"}, ["objects: scheduler-config.yaml; --policy takes"]),
    "... with a configuration of kind": ("folder-with-other-files", ["kind"], 0, {"default/web": "n1"}, ["objects: kind-config.yaml"]),
    "... whose files are named one by one": (
        "folder-with-other-files", ["kind/nodes.yaml", "kind/app.yaml", "kind/kind-config.yaml"], 0, {"default/web": "n1"},
        ["objects: Cluster"]),
    "removed API versions": (
        "old-api-versions", ["cluster.yaml"], 1, {"default/p": "n1"},
        ['no matches for kind "Deployment" in version "extensions/v1beta1"; today: apps/v1',
         'no matches for kind "StatefulSet" in version "apps/v1beta1"; today: apps/v1']),
    "API versions that never existed": (
        "old-api-versions", ["wrong-group.yaml"], 1, {},
        ['"Deployment" in version "v1"; today: apps/v1', '"Pod" in version "apps/v1"; today: v1', '"DaemonSet" in version "apps/v2"']),
    "nested templates in custom resources": (
        "templates-in-custom-resources", ["cluster.yaml"], 0, {"default/p": "n1"},
        [f"{each}: {NO_PODS}" for each in ("DeploymentConfig dc", "RayCluster ray", "PyTorchJob pt", "JobSet js", "LeaderWorkerSet lws",
                                           "Template tpl")]),
    "an affinity as a list": (
        "one-bad-object-stops-all", ["affinity.yaml"], 1, {"default/good": "n1"},
        [f"Pod bad{LEFT_OUT}: spec.affinity.podAntiAffinity: expected an object"]),
    "tolerations as an object": (
        "one-bad-object-stops-all", ["tolerations.yaml"], 1, {"default/good": "n1"}, [f"Pod bad{LEFT_OUT}: spec.tolerations: expected a list"]),
    "a label without quotes": (
        "one-bad-object-stops-all", ["label.yaml"], 1, {"default/good": "n1"},
        [f"Pod bad{LEFT_OUT}: metadata.labels.version: expected a string, got 1.1; put it in quotes"]),
    "... of a node": (
        "one-bad-object-stops-all", ["node-label.yaml"], 1, {"default/good": "n1"},
        [f"Node n2{LEFT_OUT}: metadata.labels.gpu: expected a string, got true; put it in quotes"]),
    "... in a template": (
        "one-bad-object-stops-all", ["deployment.yaml"], 1, {"default/good": "n1"},
        [f"Deployment d{LEFT_OUT}: spec.template.spec.tolerations: expected a list"]),
    "templates that cannot be read": (
        "left-out-but-there", ["cluster.yaml"], 1, {"default/good": "n1"},
        [f"Deployment d{LEFT_OUT}: spec.template.spec.tolerations: expected a list",
         f"Job j{LEFT_OUT}: spec.template.spec.affinity.podAntiAffinity: expected an object"]),
    "namespaces with a node selector": (
        "namespace-node-selector", ["cluster.yaml"], 0, {"ml/train": "cpu-1", "infra/router": "cpu-1"},
        ["Namespace ml: the node selector in its annotation", "Namespace ml: the tolerations in its annotation",
         "Namespace infra: the node selector in its annotation openshift.io/node-selector is not applied here"]),
    "a paused Deployment": ("paused-deployment", ["cluster.yaml"], 0, {}, ["Deployment d is paused, so it gets no pods"]),
    "nodes without a status": (
        "node-without-status", ["cluster.yaml"], 0, {},
        ["Node kwok-0: it has neither status.allocatable nor status.capacity", "Node kwok-1: status.allocatable has no pods"]),
    "a StatefulSet whose first pod fits nowhere": (
        "statefulset-starts-at-one", ["cluster.yaml"], 0, {"default/small": "n1"}, []),
    "... whose second pod fits nowhere": ("statefulset-starts-at-one", ["mixed.yaml"], 0, {"default/db-0": "n1"}, []),
    "claims of an Immediate class": (
        "claims-of-immediate-classes", ["cluster.yaml"], 0, {"default/db-0": "n2", "default/db-1": "n1"}, []),
    "patches of kustomize": (
        "patches-of-kustomize", ["repo"], 1, {"default/web": "n2"},
        ["replicas.yaml: Deployment web is skipped", "deployment.yaml stays; if this is a patch, render it: kubectl kustomize"]),
    "an invalid pod after a valid one of the same name": (
        "patches-of-kustomize", ["pods.yaml"], 1, {"default/p": "n1"}, [f"Pod p{LEFT_OUT}: spec.containers: Required value; the one in "]),
})
def test_a_reported_cluster(report, files, code, placements, message):
    run = run_report(report, *files, *DEFAULTS)
    assert (run.returncode, placed_in(run)) == (code, placements), run.stderr
    assert [each for each in message if each not in run.stderr] == []
    assert "scheduling gates" not in run.stdout and "Traceback" not in run.stderr


@table("report, arguments, pending", {
    "OrderedReady creates no pod before the previous one has a node": (
        "statefulset-starts-at-one", ["cluster.yaml"], ["default/db-3"]),
    "... with a second pod that fits nowhere": ("statefulset-starts-at-one", ["mixed.yaml"], ["default/db-1"]),
    "only real nodes are counted in the message": ("node-of-longhorn", ["cluster.yaml"], ["default/big"]),
})
def test_pods_that_stay_pending(report, arguments, pending):
    run = run_report(report, *arguments, *DEFAULTS)
    assert re.findall(r"^(\S+) stays pending: 0/[12] nodes", run.stdout, re.M)[:len(pending)] == pending
    assert "other pod" not in run.stdout
    assert ("more pod" in run.stdout) == ("db-" in pending[0])


def test_nodes_of_longhorn_alone_do_not_count_as_nodes():
    run = run_report("node-of-longhorn", "only-longhorn.yaml", *DEFAULTS)
    assert run.returncode == 2 and "only-longhorn.yaml: there is no Node; a copy of a cluster has all: " in run.stderr


@table("file, message", {
    "a table": ("table.txt", "this is a table that kubectl printed; add -o json to kubectl get: NAME STATUS "),
    "... of all namespaces": ("wide.txt", "this is a table that kubectl printed; add -o json"),
    "a description": ("describe.txt", "this is the output of kubectl describe; use kubectl get -o json"),
    "an error": ("error.txt", "this cluster has no csistoragecapacities; copy it without: kubectl get nodes,"),
    "a warning before JSON": ("warning.txt", "this begins with a warning of kubectl; to keep it out, write 2>/dev/null"),
    "a compressed file": ("dump.yaml.gz", "this file is compressed; pipe the output of `gunzip -c` to --cluster -"),
})
def test_a_file_that_is_not_a_manifest_gives_a_hint(file, message):
    data = (REPORTS / "not-yaml-at-all" / file).read_bytes()
    run = run_scheduler("--cluster", "-", *DEFAULTS, input=data)
    assert run.returncode == 2 and run.stderr.startswith(f"-: {message}") and run.stderr.count("\n") == 1
    assert "csistoragecapacities," not in run.stderr


@table("text, message", {
    "nothing": ("", "-: standard input is empty; has the command before the pipe failed?"),
    "kubectl found nothing": ("No resources found in default namespace.\n", "-: this is a message of kubectl: it found nothing"),
    "a connection error of kubectl": (
        "The connection to the server localhost:8080 was refused - did you specify the right host or port?\n", "-: this is an error message of kubectl"),
    "an error of the API server": ('Error from server (Forbidden): nodes is forbidden: User "x" cannot list\n', "-: this is an error message of kubectl"),
    "a log line before YAML": ("W0101 10:00:00.000000   1 x.go:1] deprecated\napiVersion: v1\nkind: List\nitems: []\n", "-: this begins with a warning of kubectl"),
})
def test_other_output_of_kubectl_gives_a_hint(text, message):
    run = run_scheduler("--cluster", "-", input=text)
    assert run.returncode == 2 and run.stderr.startswith(message)


def test_any_document_may_begin_with_a_byte_order_mark():
    text = f"\ufeff{yaml.safe_dump(node('a'))}---\n\ufeff{yaml.safe_dump(pod('p'))}"
    run = run_scheduler("--cluster", "-", input=text)
    assert (run.returncode, run.stderr) == (0, "") and run.stdout.startswith("default/p -> a ")


# ---- the group, kind and version of an object

@table("thing, message", {
    "a StatefulSet of Kruise": (workload("StatefulSet") | {"apiVersion": "apps.kruise.io/v1beta1"}, f"-: StatefulSet w: {NO_PODS}"),
    "a Job of Volcano": (
        kind("Job", "j", apiVersion="batch.volcano.sh/v1alpha1", spec={"tasks": [{"replicas": 2, "template": workload("Job")["spec"]["template"]}]}),
        f"-: Job j: {NO_PODS}"),
    "a Deployment of Crossplane": (kind("Deployment", "d", apiVersion="apps.example.crossplane.io/v1", spec={"forProvider": {}}), ""),
    "a Service of Knative": (
        kind("Service", "s", apiVersion="serving.knative.dev/v1", spec={"template": workload("Job")["spec"]["template"]}), f"-: Service s: {NO_PODS}"),
    "a Namespace of Rancher, with an invalid spec": (kind("Namespace", "n", apiVersion="management.cattle.io/v3", spec=5), ""),
    "a pattern of Kyverno": (
        kind("ClusterPolicy", "p", apiVersion="kyverno.io/v1", spec={"rules": [{"validate": {"pattern": workload("Deployment")}}]}), ""),
    "a beta version that 1.20 serves": (kind("PodDisruptionBudget", "b", apiVersion="policy/v1beta1", spec={"minAvailable": 1}), ""),
    "a beta version that 1.20 does not serve": (
        kind("CronJob", "c", apiVersion="batch/v2alpha1", spec={}),
        f'-: CronJob c{LEFT_OUT}: no matches for kind "CronJob" in version "batch/v2alpha1"; today: batch/v1'),
    "a group without a version": (
        workload("Deployment") | {"apiVersion": "apps"},
        f'-: Deployment w{LEFT_OUT}: no matches for kind "Deployment" in version "apps"; today: apps/v1'),
    "an alpha version of a class": (
        priority_class("c", 5) | {"apiVersion": "scheduling.k8s.io/v1alpha1"},
        f'-: PriorityClass c{LEFT_OUT}: no matches for kind "PriorityClass" in version "scheduling.k8s.io/v1alpha1"; today: scheduling.k8s.io/v1'),
    "a ConfigMap of an unknown version": (kind("ConfigMap", "c", apiVersion="v1beta3"), ""),
})
def test_objects_are_identified_by_group_kind_and_version(thing, message):
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([node("a"), pod("p"), thing]))
    assert (run.stderr, run.returncode) == (message and f"{message}\n", "skipped" in message)
    assert [line for line in run.stdout.splitlines() if "->" in line] == ["default/p -> a  (1 of 1 nodes fit, score 296)"]


# ---- folders

def test_a_must_gather_is_read(tmp_path):
    """It has lists and single objects of the same pods, captured one after the other, and output of other tools."""
    there = pod("there", nodeName="a", metadata={"uid": "1", "resourceVersion": "7"})
    later = pod("there", nodeName="a", metadata={"uid": "1", "resourceVersion": "9"}, labels={"later": "yes"})
    files = {
        "quay/cluster-scoped-resources/core/nodes/a.yaml": "---\n" + yaml.safe_dump(node("a")),
        "quay/namespaces/default/core/pods.yaml": yaml.safe_dump({"apiVersion": "v1", "kind": "PodList", "items": [there, pod("p")]}),
        "quay/namespaces/default/pods/there/there.yaml": "---\n" + yaml.safe_dump(later),
        "quay/cluster-scoped-resources/config.openshift.io/nodes/cluster.yaml": yaml.safe_dump(
            kind("Node", "cluster", apiVersion="config.openshift.io/v1")),
        "quay/etcd_info/member_list.json": '{"members": [{"ID": 1}]}',
        "quay/monitoring/prometheus/rules.json": '{"status": "success", "data": {"items": {}}}',
        "quay/etcd_info/endpoint_health.json": '[{"endpoint": "https://10.0.0.1:2379", "health": true}]',
        "quay/namespaces/default/pods/there/c/logs/current.log": "{"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    run = run_scheduler("--cluster", tmp_path)
    assert run.returncode == 0 and run.stderr == (
        f"{tmp_path}: skipped, not Kubernetes objects: quay/etcd_info/endpoint_health.json, quay/etcd_info/member_list.json, "
        "quay/monitoring/prometheus/rules.json\n")
    assert "default/p -> a  (1 of 1 nodes fit" in run.stdout and "+p, there" in run.stdout


@table("second, message", {
    "an equal object": (node("a"), []),
    "a different object": (node("a", cpu="8"), ["-: Node a: there is one of this name already, which this one replaces"]),
    "an invalid object": (
        node("a", cpu="many"), [f'-: Node a{LEFT_OUT}: status.allocatable.cpu: "many" is not a quantity of 0 or more, such as 100m, 0.5 or '
                                "1.5Gi; the one in - stays; if this is a patch, render it: kubectl kustomize"]),
})
def test_two_objects_of_the_same_name(second, message):
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([node("a"), pod("p"), second]))
    assert run.stderr.splitlines() == message and "default/p -> a " in run.stdout


# ---- controllers

def test_jobs_continue_from_their_status():
    run = run_report("jobs", "cluster.yaml", *DEFAULTS)
    names = [re.sub("-[a-z0-9]{5}$", "", name) for name in re.findall(r"^default/(\S+) ->", run.stdout, re.M)]
    assert names == ["indexed-1", "indexed-2", "indexed-4", "few", "few", "pods-gone"] and run.returncode == 0


def status(thing, **more):
    """The object with this status."""
    return thing | {"status": more}


def of_deployment(name="w-1", **fields):
    """A ReplicaSet of Deployment w, with another template."""
    thing = workload("ReplicaSet", name, template={"hostPID": True}, **fields)
    thing["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "1", "controller": True}]
    return thing


def scaler(least, most=10, of="Deployment", **more):
    """An autoscaler of workload w."""
    reference = {"apiVersion": "apps/v1", "kind": of, "name": "w"}
    return kind("HorizontalPodAutoscaler", "h", "default", apiVersion="autoscaling/v2",
                spec={"minReplicas": least, "maxReplicas": most, "scaleTargetRef": reference, **more})


@table("things, count", {
    "a paused Deployment only scales its ReplicaSet": ([workload("Deployment", paused=True, replicas=3), of_deployment(replicas=1)], 3),
    "... and if no ReplicaSet has pods, the newest": ([workload("Deployment", paused=True, replicas=3), of_deployment(replicas=0)], 3),
    "... and nothing if several ReplicaSets have pods": (
        [workload("Deployment", paused=True, replicas=9), of_deployment(replicas=2), of_deployment("w-2", replicas=1)], 3),
    "... and creates nothing if it has no ReplicaSet": ([workload("Deployment", paused=True, replicas=3)], 0),
    "an autoscaler's minReplicas": ([workload("Deployment"), scaler(4)], 4),
    "an autoscaler's maxReplicas": ([workload("Deployment", replicas=30), scaler(1, 5)], 5),
    "... which does not apply to a workload with 0 replicas": ([workload("Deployment", replicas=0), scaler(4)], 0),
    "... nor to another workload": ([workload("Deployment"), scaler(4, of="StatefulSet")], 1),
    "an autoscaler of a StatefulSet": ([workload("StatefulSet", podManagementPolicy="Parallel"), scaler(4, of="StatefulSet")], 4),
    "a StatefulSet starts with one pod": ([workload("StatefulSet", replicas=3)], 1),
    "... continues after the pods that have a node": ([workload("StatefulSet", replicas=3), owned("w-0", "StatefulSet", nodeName="a")], 2),
    "... waits for a pod without a node": ([workload("StatefulSet", replicas=3), owned("w-0", "StatefulSet")], 1),
    "... and for a terminating pod": ([workload("StatefulSet", replicas=3), terminating(owned("w-0", "StatefulSet", nodeName="a"))], 1),
    "a Job with succeeded pods in its status": ([status(workload("Job", completions=3, parallelism=3), succeeded=2)], 1),
    "... and uncounted terminated pods": (
        [status(workload("Job", completions=3, parallelism=3), succeeded=1, uncountedTerminatedPods={"succeeded": ["x"]})], 1),
    "a Job with the podReplacementPolicy Failed waits for a terminating pod": (
        [workload("Job", podReplacementPolicy="Failed"), terminating(owned("x", "Job", nodeName="a"))], 1),
    "a Job replaces a terminating pod at once": ([workload("Job"), terminating(owned("x", "Job", nodeName="a"))], 2),
    "a Job that another controller manages": ([workload("Job", managedBy="kueue.x-k8s.io/multikueue")], 0),
    "a Job that is about to fail": (
        [status(workload("Job"), conditions=[{"type": "FailureTarget", "status": "True"}])], 0),
    "a Job with failed indexes": (
        [status(workload("Job", completionMode="Indexed", completions=3, parallelism=3, backoffLimitPerIndex=1), failedIndexes="0-1")], 1),
})
def test_the_number_of_pods_that_controllers_create(things, count, tmp_path):
    assert len(pods_of(tmp_path, node("a"), *things)) == count


def test_a_stateful_set_gets_its_pods_and_claims_one_by_one():
    template = {"metadata": {"name": "data"}, "spec": claim(of="soon")["spec"]}
    of_set = workload("StatefulSet", "db", replicas=3, volumeClaimTemplates=[template])
    things = [node("a"), storage_class("soon", "example.com/x", volumeBindingMode="Immediate"), of_set]
    run = run_scheduler("--cluster", "-", *DEFAULTS, input=yaml.safe_dump_all(things))
    assert (run.returncode, run.stderr) == (0, "")
    assert re.findall(r"^default/(\S+) -> a", run.stdout, re.M) == ["db-0", "db-1", "db-2"] and "+db-0, +db-1, +db-2" in run.stdout


@table("things, placements", {
    "an available volume is used first": ([volume("v", of="soon")], {"default/p": "a"}),
    "... even without a phase": ([volume("v", of="soon", phase=None)], {"default/p": "a"}),
    "a new volume is provisioned where its class allows": ([], {"default/p": "b"}),
})
def test_a_claim_of_an_immediate_class_is_bound_as_by_controllers(things, placements):
    zones = [{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]
    soon = storage_class("soon", "example.com/x", volumeBindingMode="Immediate", allowedTopologies=zones)
    for thing in things:
        thing["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}
    user = pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    nodes = [node(name, labels={"zone": name}) for name in "ab"]
    run = run_scheduler("--cluster", "-", *DEFAULTS, input=yaml.safe_dump_all([*nodes, soon, claim(of="soon"), user, *things]))
    assert (run.stderr, placed_in(run)) == ("", placements)


def budget(**spec):
    """A budget without a status for the pods of workload w."""
    return kind("PodDisruptionBudget", "b", "default", apiVersion="policy/v1", spec={"selector": {"matchLabels": {"app": "w"}}, **spec})


@table("spec, allowed", {
    "minAvailable as a number": ({"minAvailable": 2}, 1),
    "minAvailable in percent": ({"minAvailable": "50%"}, 1),
    "maxUnavailable as a number": ({"maxUnavailable": 1}, 0),
    "maxUnavailable in percent": ({"maxUnavailable": "50%"}, 1),
    "neither": ({}, 0),
})
def test_a_budget_without_a_status_gets_that_of_its_controller(spec, allowed, tmp_path):
    """Three of four pods have a node."""
    there = [owned(f"w-{i}", "ReplicaSet", nodeName="a" if i else "") for i in range(4)]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node("a"), workload("ReplicaSet", replicas=4), *there, budget(**spec)]))
    manifests = Manifests([tmp_path / "cluster.yaml"])
    [found] = manifests.get("/apis/policy/v1/poddisruptionbudgets", {"fieldSelector": ""})["items"]
    assert found["status"]["disruptionsAllowed"] == allowed


def test_a_remark_about_the_toleration_that_some_clusters_add_for_devices():
    gpu = node("g", taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
               status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9", "nvidia.com/gpu": "1"}})
    train = pod("train", containers=[{"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}])
    run = run_scheduler("--cluster", "-", *DEFAULTS, input=yaml.safe_dump_all([gpu, train]))
    assert run.stderr.startswith("Pod train requests nvidia.com/gpu and does not tolerate this taint; GKE and AKS add a toleration")


def test_a_remark_about_a_deployment_that_is_paused_in_a_rollout():
    things = [node("a"), workload("Deployment", paused=True, replicas=9), of_deployment(replicas=2), of_deployment("w-2", replicas=1)]
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all(things))
    assert "Deployment w is paused in a rollout: its ReplicaSets keep their sizes here" in run.stderr.splitlines()


@table("fields, message", {
    "a misspelt field": ({"replica": 5}, '-: Deployment w: spec.replica: unknown field; did you mean "replicas"?\n'),
    "a field that resembles none": ({"instances": 5}, "-: Deployment w: spec.instances: unknown field\n"),
})
def test_a_remark_about_an_unknown_field_of_a_workload(fields, message):
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([node("a"), workload("Deployment", **fields)]))
    assert (run.returncode, run.stderr) == (0, message)


# ---- explanations

NOT_HELPFUL, NO_VICTIMS = "Preemption is not helpful for scheduling", "No preemption victims found for incoming pod"


@table("asked, in_message, for_nodes", {
    "a preemptionPolicy of Never": (
        "never", "preemption: not eligible due to preemptionPolicy=Never.", "no preemption: not eligible due to preemptionPolicy=Never"),
    "pods of equal priority, and a node that never fits": (
        "same", f"preemption: 0/2 nodes are available: 1 {NO_VICTIMS}, 1 {NOT_HELPFUL}.", f"reemption: {NO_VICTIMS}"),
    "a pod that is too large": (
        "too-big", f"preemption: 0/2 nodes are available: 2 {NOT_HELPFUL}.", "reemption: "),
})
def test_the_reason_why_no_pod_is_preempted(asked, in_message, for_nodes):
    texts = [" ".join(run_report("why-no-preemption", "cluster.yaml", "--explain", asked, *more).stdout.split())
             for more in (["--policy", "config.yaml"], ["--policy", "DefaultProvider", "--preempt"])]
    assert in_message in texts[0] and in_message not in texts[1]
    assert all(for_nodes in text for text in texts)


def test_the_reason_against_a_node_even_without_lower_priority_pods():
    things = [node("a", cpu="1", memory="1Gi"), pod("low", {"memory": "512Mi"}, nodeName="a"), priority_class("high", 5),
              pod("equal", {"cpu": "800m"}, nodeName="a", priorityClassName="high"), pod("p", {"cpu": "500m"}, priorityClassName="high")]
    run = run_scheduler("--cluster", "-", *DEFAULTS, "--preempt", "--explain", "p", input=yaml.safe_dump_all(things))
    assert "Preemption: Insufficient cpu, even without all less important pods" in run.stdout


@pytest.mark.parametrize("asked, message", [
    ("apart", "a0 (default/old-a0, by the pod's anti-affinity to app=app by hostname)"),
    ("twice", "a0 (3 in zone a, 1 in b, maxSkew 1)"),
])
def test_the_constraint_that_rejects_a_node(asked, message):
    run = run_report("which-constraint", "cluster.yaml", "--policy", "config.yaml", "--explain", asked)
    assert message in " ".join(run.stdout.split())


def required(side, label="db", key="zone"):
    """Required affinity or anti-affinity to the pods of an app."""
    return {side: {f"required{DURING_SCHEDULING}": [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": label}}}]}}


def claiming(**more):
    """A pod with the claim data."""
    return pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}], **more)


IN_B = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}}}


@table("asked, things, message", {
    "anti-affinity of a pod on another node of the zone": (
        pod("p", labels={"app": "web"}), [pod("db", nodeName="a2", affinity=required("podAntiAffinity", "web"))],
        "a (default/db on a2, by its own anti-affinity to app=web by zone)"),
    "affinity that matches no pod": (pod("p", affinity=required("podAffinity")), [], "a (no pod app=db by zone on any node)"),
    "... no pod in the zone": (
        pod("p", affinity=required("podAffinity"), nodeSelector={"zone": "a"}), [pod("db", labels={"app": "db"}, nodeName="b")],
        "a (no pod app=db by zone in zone a)"),
    "affinity by a label that the node does not have": (pod("p", affinity=required("podAffinity", key="rack")), [], "a (no label rack)"),
    "a volume in another zone": (
        claiming(nodeSelector={"zone": "a"}), [claim(volumeName="v"), volume("v", phase="Bound", **IN_B)],
        "volume v of claim data is where zone=b"),
    "... by its labels": (
        claiming(nodeSelector={"zone": "a"}),
        [claim(volumeName="v"), volume("v", phase="Bound", metadata={"labels": {"topology.kubernetes.io/zone": "eu-2"}})],
        "volume v of claim data is in zone eu-2, the node in eu-1"),
    "a claim without a provisioner": (
        claiming(), [claim(), storage_class("local")], "claim data waits for a free volume of class local that suits it and the node can reach"),
    "a claim of a class that does not exist": (claiming(), [claim()], "claim data waits for StorageClass local, which is not there"),
})
def test_the_object_that_makes_a_node_unsuitable(asked, things, message):
    zones = {"a": "a", "a2": "a", "b": "b"}
    nodes = [node(name, labels={"zone": zone, HOSTNAME: name, "topology.kubernetes.io/zone": "eu-1"}) for name, zone in zones.items()]
    run = run_scheduler("--cluster", "-", *DEFAULTS, "--explain", "p", input=yaml.safe_dump_all([*nodes, asked, *things]))
    assert message in " ".join(run.stdout.split()), run.stdout + run.stderr


NAMED = [node("a"), workload("Deployment", "web"), pod("only", namespace="infra"), pod("twice", namespace="red"), pod("twice", namespace="blue"),
         pod("here"), pod("here", namespace="red")]


@table("arguments, found", {
    "a name in one namespace": (["only"], "infra/only is pending"),
    "a name in default and in another namespace": (["here"], "default/here is pending"),
    "a name with -n": (["here", "-n", "red"], "red/here is pending"),
    "pod/NAME": (["pod/here"], "default/here is pending"),
    "pods/NAME with --namespace": (["pods/here", "--namespace", "red"], "red/here is pending"),
    "a workload": (["deployment/web"], "default/web-"),
    "... with the short name of its kind": (["deploy/web"], "default/web-"),
})
def test_ways_to_name_a_pod(arguments, found):
    run = run_scheduler("--cluster", "-", "--explain", *arguments, input=yaml.safe_dump_all(NAMED))
    assert run.stdout.startswith(found), run.stderr


@table("arguments, message", {
    "a name in two namespaces": (["twice"], '"twice" is in several namespaces: blue, red; say which: -n NAMESPACE\n'),
    "a workload that does not exist": (["sts/web"], 'pod "sts/web" not found ('),
})
def test_a_name_that_matches_no_single_pod_gives_a_hint(arguments, message):
    run = run_scheduler("--cluster", "-", "--explain", *arguments, input=yaml.safe_dump_all(NAMED))
    assert run.returncode == 1 and run.stderr.startswith(message)


def test_pods_without_a_scheduler_name_give_a_command_that_places_them():
    run = run_report("chart-as-it-is", "nodes.yaml", "chart.yaml", *DEFAULTS)
    folder = REPORTS / "chart-as-it-is"
    command = f"--cluster {folder}/nodes.yaml {folder}/chart.yaml --policy DefaultProvider --scheduler-name default-scheduler"
    text = " ".join(run.stdout.split())
    assert text.endswith(f"to place the 61 pods of default-scheduler: python scheduler_extras {command}")


@table("policy, reason", {
    "the provider checks taints first": ("DefaultProvider", "1 node(s) had taint {a: }, that the pod didn't tolerate."),
    "a Policy without lists checks resources first": ({"kind": "Policy", "apiVersion": "v1"}, "1 Insufficient cpu."),
})
def test_the_two_default_policies_give_different_reasons(policy, reason, tmp_path):
    if isinstance(policy, dict):
        (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
        policy = tmp_path / "policy.yaml"
    things = [node("a", taints=[{"key": "a", "effect": "NoSchedule"}]), pod("p", {"cpu": "9"})]
    run = run_scheduler("--cluster", "-", "--policy", policy, input=yaml.safe_dump_all(things))
    assert run.stdout.startswith(f"default/p stays pending: 0/1 nodes are available: {reason}\n")


# ---- configurations

def half(point, name):
    """A configuration that disables a plugin only at one point."""
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [
        {"schedulerName": "my-scheduler", "plugins": {point: {"disabled": [{"name": name}]}}}]}


@table("config, message", {
    "a filter without its preFilter": (
        half("preFilter", "NodePorts"), "plugins.preFilter: NodePorts is disabled there and still runs at filter: kube-scheduler fails every pod then"),
    "a score without its preScore": (half("preScore", "TaintToleration"), "plugins.preScore: TaintToleration is disabled there and still runs at score"),
    "all preFilters": (half("preFilter", "*"), "plugins.preFilter: InterPodAffinity is disabled there and still runs at filter"),
    "a filter that works without its preFilter": (half("preFilter", "NodeAffinity"), ""),
    "a score that works without its preScore": (half("preScore", "NodeAffinity"), ""),
})
def test_a_plugin_that_is_disabled_only_at_its_pre_point_is_rejected(config, message, tmp_path):
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    run = run_scheduler("--cluster", "-", "--policy", tmp_path / "config.yaml", input=yaml.safe_dump_all([node("a"), pod("p")]))
    assert (run.returncode, message in run.stderr) == (2 if message else 0, True), run.stderr


CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@table("documents, message", {
    "a configuration among manifests": (
        [kind("ServiceAccount", "s", apiVersion="v1"), CONFIGURATION], "kube-scheduler reads only the first document, which is another one"),
    "a ConfigMap among manifests": (
        [kind("ServiceAccount", "s", apiVersion="v1"), kind("ConfigMap", "c", "kube-system", apiVersion="v1", data={"config.yaml": "kind: X"})],
        "kubectl get configmap c -n kube-system -o jsonpath="),
})
def test_a_configuration_in_a_file_of_several_documents(documents, message, tmp_path):
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(documents))
    run = run_scheduler("--cluster", "-", "--policy", tmp_path / "all.yaml", input=yaml.safe_dump_all([node("a"), pod("p")]))
    assert message in run.stderr and ("default/p -> a" in run.stdout) == (CONFIGURATION in documents)


# ---- first steps of a new user

def test_victims_are_named_as_deleted_and_a_single_one_in_the_singular():
    things = [node("a", cpu="1"), node("b", cpu="1"), priority_class("high", 5), priority_class("low", 1),
              pod("low", {"cpu": "1"}, nodeName="a"), pod("middle", {"cpu": "1"}, nodeName="b", priorityClassName="low"),
              pod("p", {"cpu": "1"}, priorityClassName="high")]
    run = run_scheduler("--cluster", "-", *DEFAULTS, "--preempt", input=yaml.safe_dump_all(things))
    assert "It preempts default/low on a, where the victim matters least." in run.stdout
    assert "deleted to make room: default/low (was on a)" in run.stdout and "default/p -> a " in run.stdout


def test_a_mistake_in_a_rule_is_reported_once_with_a_suggestion(tmp_path):
    (tmp_path / "rules.py").write_text(
        "from scheduler import predicate\n@predicate('Mine')\ndef mine(pod, node):\n    return [] if pod.labls else []\n")
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Mine"}]}))
    run = run_scheduler("--cluster", "-", "--policy", tmp_path / "policy.yaml", "--plugins", tmp_path / "rules.py",
                        input=yaml.safe_dump_all([node("a"), *(pod(name) for name in "pqr")]))
    message = "'FullPod' object has no attribute 'labls'; did you mean \"labels\"?"
    assert " ".join(run.stdout.split()).count(message) == 2, "once with the decision, once below the table"
    assert "2 other pods stay pending for the same mistake in a rule" in run.stdout


def test_the_table_has_a_heading_for_the_parts_of_a_cell():
    run = run_scheduler("--cluster", "-", *DEFAULTS, "--explain", "p", input=yaml.safe_dump_all([node("a"), pod("p")]))
    assert re.search(r"^  raw→points×weight +\* a$", run.stdout, re.M)


# ---- draining

@table("things, message", {
    "a pod of a controller fits elsewhere, a static pod stays": (
        None, ["default/web-0 -> n", "n1 can be drained: 1 pod fits elsewhere", "not evicted: default/static-n1: static pods stay",
               "kubectl drain n1\n"]),
    "a pod that fits nowhere else": (
        [node("n1"), node("n2", cpu="1"), owned("x", "ReplicaSet", requests={"cpu": "2"}, nodeName="n1")],
        ["default/x stays pending: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.",
         "n1 cannot be drained: 1 of its pods fits nowhere else; no pod is moved"]),
    "a pod that is protected by a budget": (
        [node("n1"), node("n2"), workload("ReplicaSet"), owned("x", "ReplicaSet", nodeName="n1"), budget(minAvailable=1)],
        ["n1 cannot be drained: default/x is kept by the PodDisruptionBudget default/b; no pod is moved"]),
    "a budget that allows one eviction at a time": (
        [node("n1"), node("n2"), workload("ReplicaSet", replicas=2), *(owned(name, "ReplicaSet", nodeName="n1") for name in "xy"),
         budget(maxUnavailable=1)],
        ["default/x -> n2", "default/y -> n2", "n1 can be drained: 2 pods fit elsewhere"]),
    "a DaemonSet's pod, and a pod without a controller": (
        [node("n1"), node("n2"), owned("d", "DaemonSet", nodeName="n1"), pod("p", nodeName="n1", volumes=[{"name": "v", "emptyDir": {}}])],
        ["not evicted: default/d: a DaemonSet's pods stay", "default/p has no controller",
         "kubectl drain n1 --ignore-daemonsets --delete-emptydir-data --force\n"]),
    "a terminating pod without a controller": (
        [node("n1"), node("n2"), terminating(pod("p", nodeName="n1"))],
        ["n1 can be drained: no pod is moved", "not evicted: default/p: it is being deleted already", "kubectl drain n1 --force\n"]),
    "a pod without a controller that is protected by a budget": (
        [node("n1"), node("n2"), pod("p", labels={"app": "w"}, nodeName="n1"), budget(maxUnavailable=0)],
        ["n1 cannot be drained: default/p is kept by the PodDisruptionBudget default/b", "kubectl drain n1 --force\n"]),
    "a pod of another scheduler, with that scheduler's rules": (
        [node("n1"), node("n2"), pod("p", nodeName="n1", schedulerName="default-scheduler")],
        ["default/p -> n2  (1 of 2 nodes fit, score ", "1 pod fits elsewhere\ndecided with the default profile of kube-scheduler 1.36"]),
})
def test_whether_a_node_can_be_drained(things, message):
    text = (REPORTS / "drain-in-a-copy" / "cordoned.yaml").read_text() if things is None else yaml.safe_dump_all(things)
    rules = [] if "decided with" in message[-1] else DEFAULTS
    run = run_scheduler("--cluster", "-", *rules, "--drain", "n1", input=text)
    text = re.sub(r"\n    ", " ", run.stdout)
    assert run.returncode == any("cannot be drained" in each for each in message)
    assert [each for each in message if each not in text] == [], text + run.stderr


def test_draining_a_node_of_a_live_cluster_changes_nothing(control_plane):
    control_plane.create(node("n1"), node("n2"), pod("p", nodeName="n1"))
    run = run_scheduler("--server", control_plane.server, "--drain", "n1")
    assert run.returncode == 0 and "default/p -> n2 " in run.stdout and "n1 can be drained: 1 pod fits elsewhere" in run.stdout
    assert control_plane.placements() == {"default/p": "n1"} and not control_plane.get("nodes/n1")["spec"].get("unschedulable")


def test_a_node_that_does_not_exist_cannot_be_drained():
    run = run_scheduler("--cluster", "-", "--drain", "n-1", input=yaml.safe_dump_all([node("n1")]))
    assert (run.returncode, run.stderr) == (1, 'node "n-1" not found; did you mean "n1"?\n')
