"""Manifests as users write them: formats of files and streams, skipped objects, and the lines of errors."""

import json
import re

import yaml

from helpers.command_line import DEMO, WITH_CLAIM, pictured
from helpers.extras import ROOT, claim, cluster_of, node, pod, run_scheduler, table, volume
from helpers.manifests import LEFT_OUT, MODES, kind
from scheduler_extras.deciding.rule import DURING_SCHEDULING


@table("text", {
    "a YAML List, as from kubectl get -o yaml": "list.yaml",
    "JSON": "list.json",
    "several documents": "documents.yaml",
})
def test_manifests_are_read_in_each_format(text, tmp_path):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "creationTimestamp": None},
            "status": {"allocatable": {"cpu": 4, "memory": "8Gi", "pods": "10"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
           "spec": {"schedulerName": "my-scheduler", "containers": [{"name": "c"}]}}
    (tmp_path / "list.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, pod]}))
    (tmp_path / "list.yaml").write_text(
        "apiVersion: v1\nkind: List\nitems:\n- " + json.dumps(node) + "\n- " + json.dumps(pod) + "\n")
    (tmp_path / "documents.yaml").write_text(f"---\n{json.dumps(node)}\n---\n# nothing\n---\n{json.dumps(pod)}\n")
    run = run_scheduler("--cluster", tmp_path / text)
    assert run.stdout.startswith("default/p -> n "), run.stderr
    run = run_scheduler("--cluster", "-", input=(tmp_path / text).read_text())
    assert run.stdout.startswith("default/p -> n "), run.stderr


def test_a_kubectl_list_keeps_its_timestamps_and_quantities(tmp_path):
    (tmp_path / "cluster.yaml").write_text("""
apiVersion: v1
kind: List
items:
- {kind: Node, metadata: {name: n}, status: {allocatable: {cpu: 1.5, memory: 1e9, pods: 10}}}
- {kind: Pod, metadata: {name: young, creationTimestamp: 2024-01-02T00:00:00Z},
   spec: {schedulerName: my-scheduler, containers: [{resources: {requests: {cpu: 1.5}}}]}}
- {kind: Pod, metadata: {name: old, creationTimestamp: 2024-01-01T00:00:00Z},
   spec: {schedulerName: my-scheduler, containers: [{resources: {requests: {cpu: 0.5, memory: 1e9}}}]}}
""")
    run = run_scheduler("--cluster", tmp_path / "cluster.yaml")
    assert run.stdout.splitlines()[0].startswith("default/old -> n "), run.stderr
    assert run.stdout.splitlines()[1] == (
        "default/young stays pending: 0/1 nodes are available: 1 Insufficient cpu.")


def test_a_pending_pod_that_is_tried_again_is_printed_once():
    run = run_scheduler("--cluster", DEMO, "--output=json")
    assert [json.loads(line)["pod"] for line in run.stdout.splitlines()].count("default/warehouse") == 1


@table("thing, message", {
    "a string": ("just text", 'skipped: expected a Kubernetes object with kind and metadata.name, got "just text"'),
    "an object without a name": (
        {"kind": "Pod"}, "Pod{}: metadata.name: Required value; spec.containers: Required value"),
    "a PriorityClass with a value that is not a number": (
        {"kind": "PriorityClass", "metadata": {"name": "c"}, "value": "high"},
        'PriorityClass c{}: value: expected a whole number, got "high"'),
    "a node with invalid taints": (
        {"kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": "gpu"}},
        'Node n{}: spec.taints: expected a list, got "gpu"'),
    "a pod with an invalid quantity": (
        pod("p", {"cpu": "much"}), 'Pod p{}: spec.containers[0].resources.requests.cpu: "much" is not a '
        "quantity of 0 or more, such as 100m, 0.5 or 1.5Gi"),
    "... with an unknown unit": (
        pod("p", {"memory": "512MB"}), 'Pod p{}: spec.containers[0].resources.requests.memory: "512MB" is not a '
        'quantity of 0 or more, such as 100m, 0.5 or 1.5Gi; did you mean "512M"?'),
    # The bars for a node that is used to minus a billion times its capacity used to take all memory.
    "a running pod with a negative request": (
        pod("p", {"example.com/gpu": "-2M"}, nodeName="a"), 'Pod p{}: spec.containers[0].resources.requests.example.com/gpu: '
        '"-2M" is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi'),
    "a pod with a negative request below the smallest unit": (
        pod("p", {"cpu": "-0.5m"}), 'Pod p{}: spec.containers[0].resources.requests.cpu: "-0.5m" is not a '
        "quantity of 0 or more, such as 100m, 0.5 or 1.5Gi"),
    # BalancedResourceAllocation used to give it -74 points.
    "a node with a negative quantity": (
        {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": -1.0}}},
        "Node n{}: status.allocatable.cpu: -1 is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi"),
    "a node with a negative number of pods": (
        {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "-1"}}},
        'Node n{}: status.allocatable.pods: "-1" is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi'),
    "a pod whose container's name is a list": (
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": ["c"]}]}},
        'Pod p{}: spec.containers[0].name: expected a string, got ["c"]'),
    "a pod whose schedulerName is a boolean": (
        pod("p", schedulerName=False), "Pod p{}: spec.schedulerName: expected a string, got false"),
    "a pod whose hostNetwork is a string": (
        pod("p", hostNetwork="true"), 'Pod p{}: spec.hostNetwork: expected true or false, got "true"'),
    "a pod with an empty toleration": (
        pod("p", tolerations=[None]), "Pod p{}: spec.tolerations[0].operator: must be Exists when `key` is empty"),
    "a Service with a selector like a ReplicaSet's": (
        {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": {"app": "x"}}}},
        'Service s{}: spec.selector[matchLabels]: expected a string, got {{"app": "x"}}'),
    "a PriorityClass whose globalDefault is a string": (
        {"kind": "PriorityClass", "metadata": {"name": "c"}, "value": 5, "globalDefault": "false"},
        'PriorityClass c{}: globalDefault: expected true or false, got "false"'),
    "a default StorageClass without quotes": (
        {"kind": "StorageClass", "metadata": {"name": "s", "annotations": {
            "storageclass.kubernetes.io/is-default-class": True}}},
        "StorageClass s{}: metadata.annotations.storageclass.kubernetes.io/is-default-class: expected a string, got true; "
        "put it in quotes"),
    "a Service whose selector is a list": (
        {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": ["web"]}},
        'Service s{}: spec.selector: expected an object, got ["web"]'),
    "a claim for a size with an unknown unit": (
        claim("c", resources={"requests": {"storage": "5GB"}}),
        'PersistentVolumeClaim c{}: spec.resources.requests.storage: "5GB" is not a quantity of 0 or more, such as 100m, 0.5 '
        'or 1.5Gi; did you mean "5G"?'),
    "a claim whose requests are not an object": (
        claim("c", resources={"requests": 5}), "PersistentVolumeClaim c{}: spec.resources.requests: expected an object, got 5"),
    "a claim that is bound to a number": (
        claim("c", volumeName=7), "PersistentVolumeClaim c{}: spec.volumeName: expected a string, got 7"),
    "a claim with a selector with an empty label key": (
        claim("c", selector={"matchLabels": {"": ":"}}), 'PersistentVolumeClaim c{}: spec.selector.matchLabels: invalid label key: ""'),
    "a volume whose access mode is a list": (
        volume("v", accessModes=[["RWO"]]), "PersistentVolume v{}: spec.accessModes[0]: expected one of ReadOnlyMany, "
        'ReadWriteMany, ReadWriteOnce, ReadWriteOncePod, got ["RWO"]'),
    "a budget whose minAvailable is a number in quotes": (
        kind("PodDisruptionBudget", "b", spec={"minAvailable": "1"}),
        'PodDisruptionBudget b{}: spec.minAvailable: expected a number of pods, or a share such as "50%", got "1"'),
    "an autoscaler whose minReplicas is a string": (
        kind("HorizontalPodAutoscaler", "h", spec={"minReplicas": "2", "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment"}}),
        'HorizontalPodAutoscaler h{}: spec.minReplicas: expected a whole number, got "2"'),
})
def test_a_malformed_object_is_skipped_with_a_message(thing, message):
    others = [node("a"), pod("other")]
    for text in (yaml.safe_dump({"kind": "List", "items": [others[0], thing, others[1]]}),
                 yaml.safe_dump_all([others[0], thing, others[1]])):
        run = run_scheduler("--cluster", "-", input=text)
        assert (run.returncode, run.stderr) == (1, f"-: {message.format(LEFT_OUT)}\n")
        assert re.findall("^default/.*", run.stdout, re.M) == ["default/other -> a  (1 of 1 nodes fit, score 296)"]


@table("thing", {
    "a label": (pod("p", labels={"app": None}),),
    "an annotation": (pod("p", metadata={"annotations": {"a": None}}),),
    "a nodeSelector": (pod("p", nodeSelector={"disk": None}),),
    "a request": (pod("p", {"cpu": None}),),
    "a value in node affinity": (pod("p", affinity={"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": [None]}]}]}}}),),
})
def test_null_in_a_map_is_an_empty_string_or_a_zero_quantity_as_in_an_api_server(thing):
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([node("a", labels={"disk": None}), thing[0]]))
    assert (run.returncode, run.stderr) == (0, "") and run.stdout.startswith("default/p -> a ")


def test_objects_of_other_kinds_are_not_validated():
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([node("a"), pod("p"), kind("ConfigMap", "c", spec=7)]))
    assert (run.returncode, run.stderr) == (0, "")


@table("spec, thing, message", {
    "a claim with annotations that are a list": (
        WITH_CLAIM, {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "annotations": []}, "spec": {"accessModes": MODES}},
        "metadata.annotations: expected an object, got []"),
    "a bound claim with annotations that are a list": (
        WITH_CLAIM, {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "annotations": []},
                     "spec": {"accessModes": MODES, "volumeName": "v"}},
        "metadata.annotations: expected an object, got []"),
    "a class whose provisioner is a list": (
        WITH_CLAIM, {"kind": "StorageClass", "metadata": {"name": "s"}, "provisioner": []},
        "provisioner: expected a string, got []"),
    "a CSINode whose count is a list": (
        WITH_CLAIM,
        {"kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": [{"name": "p", "allocatable": {"count": []}}]}},
        "count: expected a whole number, got []"),
})
def test_a_pod_stays_pending_because_of_a_malformed_object_that_a_rule_reads(spec, thing, message):
    made = {"kind": "StorageClass", "metadata": {"name": "s"}, "provisioner": "p",
            "volumeBindingMode": "WaitForFirstConsumer"}
    _, below = pictured(node("n"), made, claim("c", of="s"), pod("p", labels={"app": "web"}, **spec), thing,
                        arguments=["--policy", "DefaultProvider"])
    assert below == [f"default/p stays pending: {message}"]


@table("thing, message", {
    "a CronJob": ({"kind": "CronJob", "metadata": {"name": "c"}, "spec": {"jobTemplate": {}}},
                  "-: CronJob c: no Jobs are created on its schedule here\n"),
    "a suspended CronJob": ({"kind": "CronJob", "metadata": {"name": "c"}, "spec": {"suspend": True, "jobTemplate": {}}}, ""),
    "a workload of another API": ({"kind": "Rollout", "metadata": {"name": "c"}, "spec": {"template": {}}},
                                      "-: Rollout c: no pods are created from its template here; add the pods themselves\n"),
    "a PodTemplate": (
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "c"}, "template": {"spec": {"containers": []}}}, ""),
    "a template of nodes": ({"kind": "NodePool", "metadata": {"name": "c"}, "spec": {"template": {"spec": {"taints": []}}}}, ""),
    "a template of secrets": ({"kind": "SealedSecret", "metadata": {"name": "c"}, "spec": {"template": {"type": "Opaque"}}}, ""),
    "a LimitRange": (
        {"kind": "LimitRange", "metadata": {"name": "x"}},
        "-: LimitRange x: its requests and limits are not applied here; add them to the pods themselves\n"),
    "a quota": (
        {"kind": "ResourceQuota", "metadata": {"name": "x"}},
        "-: ResourceQuota x: it is not enforced here\n"),
    "a RuntimeClass that does not exist": (
        pod("q", runtimeClassName="gvisor"), 'Pod q: spec.runtimeClassName: there is no RuntimeClass "gvisor"\n'),
    "a kind with a typo": (
        {"kind": "PriorityClas", "metadata": {"name": "x"}},
        f'-: PriorityClas x{LEFT_OUT}: no matches for kind "PriorityClas" in version "scheduling.k8s.io/v1"; '
        'did you mean "PriorityClass"?\n'),
    "a kind in lower case": (
        {"kind": "pod", "metadata": {"name": "x"}},
        f'-: pod x{LEFT_OUT}: no matches for kind "pod" in version "v1"; did you mean "Pod"?\n'),
    "a kind of another group that resembles a known one": (
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.example.com"}}, ""),
    "a kind of a known group that resembles a known one": (
        {"apiVersion": "apps/v1", "kind": "StatefulSets", "metadata": {"name": "x"}},
        f'-: StatefulSets x{LEFT_OUT}: no matches for kind "StatefulSets" in version "apps/v1"; did you mean "StatefulSet"?\n'),
    "a schema with fields named like those of pods": (
        {"kind": "CustomResourceDefinition", "metadata": {"name": "x"}, "spec": {"resources": {"type": "object"}, "ports": [{"appProtocol": "x"}]}}, ""),
    "a kind that no rule reads": ({"kind": "ConfigMap", "metadata": {"name": "x"}}, ""),
})
def test_remarks_about_manifests(thing, message):
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([node("a"), pod("p"), thing]), cwd=ROOT)
    assert (run.returncode, run.stderr) == (" is skipped " in message, message)


def test_the_default_of_allocatable_is_the_capacity():
    capacity = {"capacity": {"cpu": "2", "memory": "4Gi", "pods": "10"}}
    statuses = capacity, {**capacity, "allocatable": None}, {**capacity, "allocatable": {"cpu": "1"}}
    nodes = cluster_of(*({"kind": "Node", "metadata": {"name": f"n-{i}"}, "status": status}
                         for i, status in enumerate(statuses))).refresh_snapshot().nodes
    assert [(one.allocatable["cpu"], one.max_pods) for one in nodes.values()] == [(2000, 10), (2000, 10), (1000, 0)]


LONG = '{"kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": "my-scheduler", "containers": [{}]},, }'


@table("text, message", {
    "a tab as indentation": (
        "kind: Pod\nmetadata:\n\tname: p\n", "line 3: a tab; YAML is indented with spaces: name: p"),
    "a duplicate key": ("kind: Pod\nkind: Pod\n", 'line 2: duplicate key "kind": kind: Pod'),
    "... because --- is missing between two objects": (
        "kind: Pod\nmetadata: {name: p}\nkind: Pod\n",
        'line 3: duplicate key "kind"; if a second object begins here, the line --- is missing above it: kind: Pod'),
    "a duplicate key in a nested object": ("kind: Pod\nspec:\n  a: 1\n  a: 2\n", 'line 4: duplicate key "a": a: 2'),
    "another syntax error": ("a: b: c", "line 1: mapping values are not allowed in this context: a: b: c"),
    "a long line of JSON": (LONG, f"line 1: Expecting property name enclosed in double quotes: {LONG}"),
    "a very long line of JSON, which is cut": (
        '{"a": ' + "1" * 1000 + " x}", "line 1: Expecting ',' delimiter: " + "1" * 150 + " x}"),
})
def test_a_syntax_error_has_the_line(text, message):
    run = run_scheduler("--cluster", "-", input=text)
    assert (run.returncode, run.stderr) == (2, f"-: {message}\n")
