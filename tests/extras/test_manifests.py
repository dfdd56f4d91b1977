"""Manifests as people have them: every form of input, what an API server refuses, workloads, copies of clusters.

Where a control plane is there, its API server refuses the same, and its controllers make the same pods.
"""

import collections
import json
import os
import re
import stat
import subprocess
import textwrap

import pytest
import yaml
from helpers.everywhere import replace
from scheduler_extras.deciding.rule import WHEN
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.manifests.workload import generated
from scheduler_extras.reading.texts import parse
from helpers.control_plane import free_port, wait_for
from helpers.extras import claim, node, pod, run_scheduler, storage_class, table, volume
from helpers.manifests import LEFT_OUT, kind, limited, placed, priority_class

HOSTNAME = "kubernetes.io/hostname"


# ---- forms of input

NODE, POD = node("n1"), pod("p1")
NODES, PODS = {"kind": "NodeList", "apiVersion": "v1", "items": [NODE]}, {"kind": "PodList", "apiVersion": "v1", "items": [POD]}
LOG = '==== START logs for container c of pod default/p1 ====\n{"level": "info"}\nlistening: [\n==== END logs for container c of pod default/p1 ====\n'
BARE = [{name: thing[name] for name in ("metadata", "spec", "status") if name in thing} for thing in (NODE, POD)]


@table("text", {
    "JSON documents one after another": (json.dumps(NODES, indent=1) + "\n" + json.dumps(PODS, indent=1),),
    "... one on a line": (json.dumps(NODE) + "\n" + json.dumps(POD) + "\n",),
    "... with --- between them": (json.dumps(NODE) + "\n---\n" + json.dumps(POD) + "\n",),
    "... and YAML behind it": (json.dumps(NODE, indent=1) + "\n---\n" + yaml.safe_dump(POD),),
    "... that is indented": (json.dumps(NODE) + "\n---\n" + textwrap.indent(yaml.safe_dump(POD), "  "),),
    "... on the same line": (json.dumps(NODE) + "\n--- " + yaml.safe_dump(POD, default_flow_style=True),),
    "... in braces": (json.dumps(NODE) + "\n---\n" + yaml.safe_dump(POD, default_flow_style=True),),
    "... behind more JSON": (f"{json.dumps(NODE)}\n---\n{json.dumps(POD)}\n---\n{{kind: List, items: []}}\n",),
    "... and JSON behind that": (f"{json.dumps(NODE)}\n---\n{{kind: List, items: []}}\n---\n{json.dumps(POD)}",),
    "a comment between JSON documents": (f"{json.dumps(NODE)}\n# of today\n{json.dumps(POD)}\n# that is all",),
    "YAML's end of a document between them": (f"{json.dumps(NODE)}\n...\n{json.dumps(POD)}\n...",),
    "--- at the end, without a new line": (json.dumps([NODE, POD]) + "\n---",),
    "an array": (json.dumps([NODE, POD]),),
    "a list of nothing": (json.dumps([NODE, POD, {"kind": "EventList", "items": None}]),),
    "lists whose items do not say their kind": (json.dumps(NODES | {"items": BARE[:1]}) + json.dumps(PODS | {"items": BARE[1:]}),),
    "lists in an array": (json.dumps([NODES, PODS]),),
    "a list in YAML": (yaml.safe_dump([NODE, POD]),),
    "kubectl cluster-info dump": (json.dumps(NODES) + "\n" + json.dumps({"kind": "EventList", "items": []}) + "\n" + json.dumps(PODS) + "\n" + LOG,),
    "... with logs that end without a new line": (json.dumps(NODES) + json.dumps(PODS) + "\n" + LOG.replace("[\n", "==== END logs for ") + LOG,),
    "a List in a List": (json.dumps({"kind": "List", "items": [{"kind": "List", "items": [NODE]}, POD]}),),
    "Windows' lines, and a mark of Unicode": ("\ufeff" + json.dumps(NODE) + "\r\n" + json.dumps(POD) + "\r\n",),
    "... and UTF-16, as PowerShell writes": ((json.dumps(NODE) + "\r\n" + json.dumps(POD)).encode("utf-16"),),
    "an export of kube-scheduler-simulator": (yaml.safe_dump({
        "pods": BARE[1:], "nodes": BARE[:1], "pvs": [], "pvcs": None, "schedulerConfig": {"kind": "KubeSchedulerConfiguration"}}),),
    "... as its first versions wrote it": (json.dumps({"podList": BARE[1:], "nodeList": BARE[:1], "pvList": [], "schedulerConfig": None}),),
})
def test_what_kubectl_and_others_write_is_read(text):
    run = run_scheduler("--cluster", "-", input=text[0])
    assert (run.returncode, run.stderr) == (0, "") and run.stdout.startswith("default/p1 -> n1 ")


def test_a_folder_means_the_manifests_in_it(tmp_path):
    """Also what `kubectl cluster-info dump --output-directory` puts into folders; a ConfigMap's volume has a hidden copy of each file."""
    for name, content in {"a.json": json.dumps(NODES), "b.yaml": yaml.safe_dump(POD), "default/c.yml": yaml.safe_dump(pod("p2")),
                          "README.md": "nothing: [", "default/web/logs.txt": "nothing: [", "..2024/b.yaml": yaml.safe_dump(POD)}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(content)
    run = run_scheduler("--cluster", tmp_path)
    assert run.stderr == "" and re.findall(r"^default/(\w+) -> n1 ", run.stdout, re.M) == ["p1", "p2"]
    (tmp_path / "e.yaml").write_text("a: b: c")
    assert run_scheduler("--cluster", tmp_path).stderr.startswith(f"{tmp_path}/e.yaml: line 1: ")
    (tmp_path / "empty").mkdir()
    assert run_scheduler("--cluster", tmp_path / "empty").stderr == (
        f"{tmp_path}/empty: there is no file .yaml, .yml, .json in this folder\n")


@table("make", {
    "a pipe, which has no end": os.mkfifo,
    "a socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "a folder": os.mkdir,
    "a link to a folder": lambda path: path.symlink_to("/"),
})
def test_what_is_called_like_a_manifest_in_a_folder_but_is_none_is_passed_over(make, tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([NODE, POD]))
    make(tmp_path / "b.yaml")
    run = run_scheduler("--cluster", tmp_path, timeout=20)
    assert (run.returncode, run.stderr) == (0, "") and run.stdout.startswith("default/p1 -> n1 ")


def test_a_link_to_nowhere_in_a_folder_is_said(tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([NODE, POD]))
    (tmp_path / "b.yaml").symlink_to("nowhere.yaml")
    run = run_scheduler("--cluster", tmp_path)
    assert (run.returncode, run.stderr) == (1, f"{tmp_path}/b.yaml: No such file or directory; this file is skipped\n")


@table("options, names_a_folder", {"one text": ([], False), "a folder": (["--output-directory"], True), "YAML": (["--output=yaml"], False)})
def test_what_kubectl_dumps_of_a_cluster_is_read(options, names_a_folder, control_plane, tmp_path):
    control_plane.create(node("a"), pod("there", nodeName="a"), pod("p"))
    options = [*options, *[tmp_path / "dump"] * names_a_folder]
    dump = subprocess.run([control_plane.assets / "kubectl", "--kubeconfig", control_plane.kubeconfig(), "cluster-info", "dump", "-A", *options],
                          capture_output=True, text=True)
    assert dump.returncode == 0, dump.stderr
    run = run_scheduler("--cluster", tmp_path / "dump" if names_a_folder else "-", input=dump.stdout)
    assert (run.returncode, run.stderr) == (0, "") and "default/p -> a " in run.stdout and "+p, there" in run.stdout


def test_pods_with_generate_name_get_names_that_differ():
    prefixed = [pod("x", metadata={"name": None, "generateName": "job-"}) for _ in range(3)]
    decisions, said = placed(*prefixed)
    names = [key.removeprefix("default/") for key in decisions]
    assert said == "" and len(set(names)) == 3 and all(re.fullmatch("job-[a-z0-9]{5}", name) for name in names)


@table("text, said", {
    "words behind a document": ('{"kind": "Node"}\nwords\n', "line 2: expected { or [, like the document before it: words"),
    "a mistake in the second document": (
        json.dumps(NODE) + '\n{"kind": "Pod",\n "metadata": {"name" "p"}}\n', """line 3: Expecting ':' delimiter: "metadata": {"name" "p"}}"""),
    "a mistake in YAML behind JSON": ('{"kind": "Node"}\n---\na: b: c\n', "line 3: mapping values are not allowed in this context: a: b: c"),
    "... and in JSON behind JSON": (
        '{"kind": "Node"}\n---\n{"kind": "Pod"\n "metadata": {}}', """line 4: did not find expected ',' or '}': "metadata": {}}"""),
    "YAML behind JSON, without ---": ('{"kind": "Node"}\n...\na: 1\n', "line 3: expected { or [, like the document before it: a: 1"),
    "a key that comes twice behind JSON": ('{"kind": "Node"}\n---\n{"a": 1, "a": 2}', 'line 3: duplicate key "a": {"a": 1, "a": 2}'),
    "what is no text": (b"\x80\x8b", "'utf-8' codec can't decode byte 0x80 in position 0: invalid start byte"),
    "--- is missing": (
        "apiVersion: v1\nmetadata: {name: a}\napiVersion: v1\n",
        'line 3: duplicate key "apiVersion"; if a second object begins here, the line --- is missing above it: apiVersion: v1'),
})
def test_the_line_is_quoted_where_it_goes_wrong(text, said):
    run = run_scheduler("--cluster", "-", input=text)
    assert (run.returncode, run.stderr) == (2, f"-: {said}\n")


@table("text, value", {
    "a whole number with a point": ("1.0", 1),
    "a whole number as Helm writes it": ("1e+06", 1_000_000),
    "... with a point": ("1.5e6", 1_500_000),
    "a small number with an exponent": ("25e-2", 0.25),
    "a number that is too large": ("5e12345", "5e12345"),
    "a uid that begins like a number": ("13e97971-3ad5-45cb", "13e97971-3ad5-45cb"),
    "a date": ("2024-01-02", "2024-01-02"),
    "a time": ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
    "a version that looks like a date": ("2024-99-99", "2024-99-99"),
    "a date as a key": ("{2024-01-02: x}", {"2024-01-02": "x"}),
    "base64": ("!!binary d2Vi", "web"),
    "an equals sign": ("=", "="),
    "two merges": ("[&a {x: 1}, &b {y: 2}, {<<: *a, <<: *b}]", [{"x": 1}, {"y": 2}, {"x": 1, "y": 2}]),
})
def test_what_yaml_means_is_what_it_means_to_kubectl(text, value):
    assert [*parse(f"a: {text}")] == [{"a": value}]


@table("document, is_said", {
    "values of Helm": ({"scheduler": {"replicas": 2}}, True),
    "a Policy without its kind": ({"predicates": [], "rules": 1}, False),
    "a configuration without its kind": ({"profiles": []}, False),
    "an object without its kind": ({"apiVersion": "v1", "spec": {}}, False),
})
def test_a_hint_says_nothing_where_it_would_lead_astray(document, is_said, tmp_path):
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(document))
    run = run_scheduler("--policy", tmp_path / "policy.yaml", "--cluster", "/dev/null")
    assert run.returncode == 2 and ("Helm" in run.stderr) == is_said


# ---- what an API server refuses

def spec(**fields):
    """A pod with these fields of its spec."""
    return pod("p", **fields)


def scaler_of(spec):
    """A HorizontalPodAutoscaler with this spec."""
    return kind("HorizontalPodAutoscaler", "h", "default", apiVersion="autoscaling/v1", spec=spec)


def workload(of, name="w", template=None, labels=True, **fields):
    """A workload whose template has a label."""
    group = {"Job": "batch/v1", "ReplicationController": "v1"}.get(of, "apps/v1")
    template = {"metadata": {"labels": {"app": name}}, "spec": {
        "schedulerName": "my-scheduler", "containers": [{"name": "c", "image": "x"}],
        **({"restartPolicy": "Never"} if of == "Job" else {}), **(template or {})}}
    selector = {"ReplicationController": {"app": name}, "Job": None}.get(of, {"matchLabels": {"app": name}})
    return kind(of, name, "default", apiVersion=group, spec={"template": template, **({"selector": selector} if selector else {}), **fields})


def with_ports(*ports, **fields):
    """A pod of a container with these ports."""
    return spec(containers=[{"name": "c", "image": "x", "ports": [*ports]}], **fields)


SPREAD = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}
LOCAL = volume("v", local={"path": "/mnt"})
REFUSED = {
    "no containers": (spec(containers=[]), "spec.containers: Required value"),
    "two containers of one name": (
        spec(containers=[{"name": "c", "image": "x"}] * 2), "spec.containers: Duplicate value: two have one name"),
    "a host port twice": (
        with_ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}),
        "spec.containers: Duplicate value: a hostPort comes twice"),
    "another host port on the host's network": (
        with_ports({"containerPort": 80, "hostPort": 8080}, hostNetwork=True),
        "spec.containers: containerPort must match `hostPort` when `hostNetwork` is true"),
    "one spread constraint twice": (
        spec(topologySpreadConstraints=[SPREAD, SPREAD | {"maxSkew": 3}]),
        "spec.topologySpreadConstraints: Duplicate value of {topologyKey, whenUnsatisfiable}"),
    "a name in capital letters": (pod("MyPod"), 'metadata.name: expected a lowercase RFC 1123 subdomain, such as my-pod, got "MyPod"'),
    "a node's name with an underscore": (
        node("worker_3"), 'metadata.name: expected a lowercase RFC 1123 subdomain, such as my-pod, got "worker_3"'),
    "a container's name with a capital letter": (
        spec(containers=[{"name": "C", "image": "x"}]),
        'spec.containers[0].name: expected a lowercase RFC 1123 label, such as my-name, got "C"'),
    "a namespace that there cannot be": (
        kind("Namespace", "my_space"), 'metadata.name: expected a lowercase RFC 1123 subdomain, such as my-pod, got "my_space"'),
    "a priority without its class": (
        spec(priority=100), "spec.priority: must not be provided, or be that of its PriorityClass: 0"),
    "a policy of preemption without its class": (
        spec(preemptionPolicy="Never"),
        "spec.preemptionPolicy: must not be provided, or be that of its PriorityClass: PreemptLowerPriority"),
    "... that there is not": (
        spec(preemptionPolicy="never"), 'spec.preemptionPolicy: expected one of Never, PreemptLowerPriority, got "never"'),
    "huge pages without cpu or memory": (
        spec(containers=[{"name": "c", "image": "x", "resources": {"limits": {"hugepages-2Mi": "4Mi"}}}]),
        "spec.containers[0].resources: HugePages require cpu or memory"),
    "half a device": (
        spec(containers=[{"name": "c", "image": "x", "resources": {"limits": {"example.com/gpu": "500m"}}}]),
        "spec.containers[0].resources.requests.example.com/gpu: must be an integer"),
    "a local volume that is on no node": (LOCAL, "spec.nodeAffinity: Local volume requires node affinity"),
    "a volume without access modes": (volume("v", accessModes=[], hostPath={"path": "/mnt"}), "spec.accessModes: Required value"),
    "a claim without access modes": (claim("c", accessModes=[]), "spec.accessModes: Required value"),
    "an operator that needs values": (
        spec(affinity={"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}),
        f"spec.affinity.nodeAffinity.required{WHEN}.nodeSelectorTerms[0].matchExpressions[0].values: must be specified "
        "when `operator` is 'In' or 'NotIn'"),
    "... that takes none": (
        spec(affinity={"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}]}}}),
        f"spec.affinity.nodeAffinity.required{WHEN}.nodeSelectorTerms[0].matchExpressions[0].values: may not be specified "
        "when `operator` is 'Exists' or 'DoesNotExist'"),
    "a value without quotes": (
        spec(affinity={"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": [5]}]}]}}}),
        f"spec.affinity.nodeAffinity.required{WHEN}.nodeSelectorTerms[0].matchExpressions[0].values[0]: expected a string, got 5"),
    "a resource of a name with two slashes": (
        spec(containers=[{"name": "c", "image": "x", "resources": {"limits": {"example.com/gpu/big": "1"}}}]),
        "spec.containers[0].resources.limits.example.com/gpu/big: expected a name, such as example.com/gpu"),
    "two volumes of one name": (
        spec(volumes=[{"name": "v", "emptyDir": {}}] * 2), "spec.volumes: Duplicate value of {name}"),
    "one taint twice": (
        node("m", taints=[{"key": "a", "value": value, "effect": "NoSchedule"} for value in "bc"]),
        "spec.taints: Duplicate value of {key, effect}"),
    "a Deployment that selects others' pods": (
        kind("Deployment", "d", "default", apiVersion="apps/v1", spec={
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}),
        "spec.template.metadata.labels: `selector` does not match template `labels`"),
    "a Deployment that selects nothing": (
        kind("Deployment", "d", "default", apiVersion="apps/v1", spec={
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}),
        "spec.selector: Required value"),
    "... or whose pods have no containers": (
        kind("Deployment", "d", "default", apiVersion="apps/v1", spec={
            "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}}),
        "spec.template.spec.containers: Required value"),
    "... or that does not restart them": (
        workload("Deployment", template={"restartPolicy": "Never"}), 'spec.template.spec.restartPolicy: Unsupported value, expected "Always"'),
    "a Job that restarts its pods": (
        workload("Job", template={"restartPolicy": None}), 'spec.template.spec.restartPolicy: Required value, "OnFailure" or "Never"'),
    "a policy of a StatefulSet in small letters": (
        workload("StatefulSet", podManagementPolicy="parallel"), 'spec.podManagementPolicy: expected one of OrderedReady, Parallel, got "parallel"'),
    "an autoscaler of nothing, as in a patch": (
        scaler_of({"minReplicas": 3}), "spec.maxReplicas: Required value; spec.scaleTargetRef: Required value"),
    "... with less at most than at least": (
        scaler_of({"minReplicas": 3, "maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}),
        "spec.maxReplicas: must be greater than or equal to `minReplicas`"),
    "a budget of two kinds": (
        kind("PodDisruptionBudget", "b", "default", apiVersion="policy/v1beta1", spec={"minAvailable": 1, "maxUnavailable": 1}),
        "spec: minAvailable and maxUnavailable cannot be both set"),
    "a PriorityClass as high as those of the system": (
        priority_class("c", 2_000_000_000), "value: maximum allowed value of a user defined priority is 1000000000"),
}
TODAY = {  # what an API server of 1.20 takes, as it drops the field, and one of today refuses
    "keys of labels without a selector": (
        spec(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"]}]),
        "spec.topologySpreadConstraints[0].matchLabelKeys: must not be specified when labelSelector is not set"),
}
PLACES = {"Node": "nodes", "Namespace": "namespaces", "PersistentVolume": "persistentvolumes", "Pod": "namespaces/default/pods",
          "PersistentVolumeClaim": "namespaces/default/persistentvolumeclaims",
          "PodDisruptionBudget": "../../apis/policy/v1beta1/namespaces/default/poddisruptionbudgets",
          "HorizontalPodAutoscaler": "../../apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
          "PriorityClass": "../../apis/scheduling.k8s.io/v1/priorityclasses",
          "Job": "../../apis/batch/v1/namespaces/default/jobs",
          **{kind: f"../../apis/apps/v1/namespaces/default/{kind.lower()}s" for kind in ("Deployment", "StatefulSet")}}


@table("thing, said", REFUSED | TODAY)
def test_what_an_api_server_refuses_is_named_and_left_out(thing, said):
    decisions, err = placed(thing, pod("other"))
    assert err.splitlines() == [f"-: {thing['kind']} {thing['metadata']['name']}{LEFT_OUT}: {said}"]
    assert [*decisions] == ["default/other"]


@table("thing, said", REFUSED)
def test_an_api_server_refuses_it(thing, said, control_plane):
    url = f"{control_plane.server}/api/v1/{PLACES[thing['kind']]}"
    answer = control_plane.session.post(url, json=thing, timeout=60)
    assert answer.status_code in (400, 403, 422), answer.text


@table("thing", {
    "as much memory as a thousandth of a byte": (pod("p", {"memory": "100m"}),),
    "a port on the host's network": (with_ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 81}, hostNetwork=True),),
    "a host port of two protocols": (with_ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 80, "protocol": "UDP"}),),
    "two constraints of one key": (spec(topologySpreadConstraints=[SPREAD, SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"}]),),
    "a number of node affinity that is none": (
        spec(affinity={"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["150.1"]}]}]}}}),),
    "the priority that it gets": (spec(priority=0, preemptionPolicy="PreemptLowerPriority"),),
})
def test_what_an_api_server_takes_is_not_left_out(thing, control_plane):
    thing = thing[0]
    assert "default/p" in placed(thing)[0]
    control_plane.create(thing)


def test_a_refused_pod_keeps_no_device_from_the_next_one():
    gpus = node("m", status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "1"}})
    bad = limited({"example.com/gpu": "1"}, nodeName="m", priority=5)
    good = limited({"example.com/gpu": "1"})
    good["metadata"]["name"] = "good"
    assert placed(gpus, bad, good)[0]["default/good"]["node"] == "m"


@table("metadata, spec, is_there", {
    "one that runs takes room, whatever was edited": ({"uid": "1"}, {"nodeName": "n"}, True),
    "one that waits is left out": ({"uid": "1"}, {}, False),
})
def test_a_copied_pod_with_a_mistake_is_told(metadata, spec, is_there):
    bad = pod("bad", {"cpu": "4"}, metadata=metadata, tolerations=[{"key": "a", "operator": "Exist"}], **spec)
    decisions, err = placed(bad, pod("p", {"cpu": "1"}))
    assert err.startswith(f"-: Pod bad{'' if is_there else LEFT_OUT}: spec.tolerations[0].operator: expected one of ")
    assert decisions["default/p"]["node"] == (None if is_there else "n")


@table("fields, said", {
    "a field in the wrong place": (
        {"containers": [{"name": "c", "nodeSelector": {"a": "b"}}]}, "-: Pod p: spec.containers[0].nodeSelector: belongs in spec, beside containers\n"),
    "a number that is none": (
        {"affinity": {"nodeAffinity": {f"preferred{WHEN}": [{"weight": 1, "preference": {
            "matchExpressions": [{"key": "a", "operator": "Lt", "values": ["x"]}]}}]}}},
        f"-: Pod p: spec.affinity.nodeAffinity.preferred{WHEN}[0].preference.matchExpressions[0]: for 'Gt', 'Lt' "
        "operators, the value must be an integer\n"),
    "a field that is misspelt": ({"nodeselector": {"a": "b"}}, '-: Pod p: spec.nodeselector: did you mean "nodeSelector"?\n'),
    "... of a container": (
        {"containers": [{"name": "c", "resource": {}}]}, '-: Pod p: spec.containers[0].resource: did you mean "resources"?\n'),
    "... of an affinity": (
        {"affinity": {"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": [
            {"matchExpression": [{"key": "a", "operator": "Exists"}]}]}}}},
        f"-: Pod p: spec.affinity.nodeAffinity.required{WHEN}.nodeSelectorTerms[0].matchExpression: "
        'did you mean "matchExpressions"?\n'),
    "a priority that its class had once": ({"priority": 7}, ""),
})
def test_of_an_edited_copy_it_is_said_what_is_odd(fields, said):
    decisions, err = placed(pod("p", metadata={"uid": "1"}, **fields))
    assert (err.splitlines()[:1], [*decisions]) == (said.splitlines(), ["default/p"])


@table("tolerations, effect, place", {
    "a node that fails has five minutes": ([], "NoExecute", "n"),
    "... but no new pods while its taint says so": ([], "NoSchedule", None),
    "who says something else about it is obeyed": (
        [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "operator": "Equal", "value": "x"}], "NoExecute", None),
})
def test_pods_get_the_tolerations_of_admission(tolerations, effect, place):
    taint = {"key": "node.kubernetes.io/not-ready", "effect": effect}
    things = [node("n", taints=[taint]), pod("p", tolerations=tolerations)]
    assert placed(text=yaml.safe_dump_all(things))[0]["default/p"]["node"] == place


# ---- workloads

def made_of(folder, *things):
    """The pods that there are, once all is read, as (raw objects)."""
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(things))
    objects = Manifests([folder / "cluster.yaml"]).objects
    return [thing for (resource, *_), thing in objects.items() if resource == "pods"]


def owned(name, by, number=0, **more):
    """A pod of a controller."""
    reference = {"apiVersion": "v1", "kind": by, "name": number or "w", "uid": "1", "controller": True}
    return pod(name, labels={"app": "w"}, metadata={"ownerReferences": [reference]}, **more)


ENDED = {"phase": "Failed"}


def going(thing):
    """The object, which is being deleted."""
    return thing | {"metadata": thing["metadata"] | {"deletionTimestamp": "2024-01-01T00:00:00Z"}}


@table("things, count", {
    "a Deployment of three": ([workload("Deployment", replicas=3)], 3),
    "one unless it says how many": ([workload("ReplicaSet")], 1),
    "none": ([workload("ReplicaSet", replicas=0)], 0),
    "a ReplicationController, which needs no selector": (
        [workload("ReplicationController", replicas=2, selector=None), pod("x", labels={"app": "w"})], 2),
    "those that are there count": ([workload("ReplicaSet", replicas=3), owned("x", "ReplicaSet"), owned("y", "ReplicaSet")], 3),
    "... also without an owner": ([workload("ReplicaSet", replicas=3), pod("x", labels={"app": "w"})], 3),
    "... unless it has other labels": ([workload("ReplicaSet", replicas=3), pod("x", labels={"app": "v"})], 4),
    "... but not those of others": ([workload("ReplicaSet", replicas=3), owned("x", "ReplicaSet", "v")], 4),
    "... nor those that have ended": ([workload("ReplicaSet", replicas=3), owned("x", "ReplicaSet", status=ENDED)], 4),
    "... and not while it is being deleted": ([going(workload("ReplicaSet", replicas=3))], 0),
    "a Deployment in a copy without ReplicaSets": (
        [workload("Deployment", replicas=3), owned("x", "ReplicaSet", "w-1"), owned("y", "ReplicaSet", "w-1")], 3),
    "a StatefulSet makes the numbers that lack": (
        [workload("StatefulSet", replicas=3, podManagementPolicy="Parallel"), pod("w-1"), pod("w-7")], 4),
    "a DaemonSet, on each node that it tolerates": (
        [workload("DaemonSet"), node("b"), node("c", taints=[{"key": "a", "effect": "NoSchedule"}]), node("d", unschedulable=True)], 3),
    "... and selects": ([workload("DaemonSet", template={"nodeSelector": {"disk": "ssd"}}), node("b", labels={"disk": "ssd"})], 1),
    "... and has no pod": ([workload("DaemonSet"), node("b"), owned("x", "DaemonSet", nodeName="b")], 2),
    "a Job": ([workload("Job")], 1),
    "... as many as run at a time": ([workload("Job", parallelism=3, completions=5)], 3),
    "... as many as lack": ([workload("Job", parallelism=3, completions=2, suspend=False)], 2),
    "... none while it is suspended": ([workload("Job", suspend=True)], 0),
    "... whose pods have gone since it ended": (
        [workload("Job") | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}], 0),
    "... one that has succeeded": ([workload("Job", completions=1), owned("x", "Job", status={"phase": "Succeeded"})], 1),
})
def test_workloads_make_pods(things, count, tmp_path):
    assert len(made_of(tmp_path, node("a"), *things)) == count


OF_DEPLOYMENT = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "1", "controller": True}]}


def annotated(thing):
    """The workload, with an annotation in its template."""
    thing["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "2024-01-01T00:00:00Z"}
    return thing


@table("replicas, existing, made", {
    "a ReplicaSet of the same template makes them": (3, workload("ReplicaSet", "w-1", replicas=1), {"w-1": 3}),
    "pods of an older template count": (3, workload("ReplicaSet", "w-1", template={"hostPID": True}, replicas=2), {"w-1": 1, "w-*": 2}),
    "... as before `kubectl rollout restart`": (3, annotated(workload("ReplicaSet", "w-1", replicas=2)), {"w-1": 1, "w-*": 2}),
})
def test_a_deployment_goes_on_with_the_replica_set_that_it_has(replicas, existing, made, tmp_path):
    existing["metadata"] |= OF_DEPLOYMENT
    existing["spec"]["template"]["metadata"]["labels"] = {"app": "w", "pod-template-hash": "1"}
    existing["spec"]["selector"] = {"matchLabels": {"app": "w", "pod-template-hash": "1"}}
    there = owned("x", "ReplicaSet", "w-1")
    pods = made_of(tmp_path, node("a"), existing, workload("Deployment", replicas=replicas), there)
    names = [thing["metadata"]["ownerReferences"][0]["name"] for thing in pods]
    assert collections.Counter(name if name == "w-1" else "w-*" for name in names) == made


def test_pods_of_an_indexed_job_have_the_numbers_that_lack(tmp_path):
    number = "batch.kubernetes.io/job-completion-index"
    there = [owned("w-1-abcde", "Job", nodeName="a"), owned("w-0-abcde", "Job", status={"phase": "Succeeded"})]
    for i, each in zip("10", there):
        each["metadata"]["annotations"] = {number: i}
    made = made_of(tmp_path, node("a"), *there, workload("Job", completionMode="Indexed", completions=5, parallelism=3))[2:]
    assert [each["metadata"]["name"][:-5] for each in made] == ["w-2-", "w-3-"]
    assert [each["metadata"]["labels"][number] for each in made] == ["2", "3"]
    assert made[0]["metadata"]["labels"]["job-name"] == made[0]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "w"


def test_what_a_stateful_set_has_stays_as_it_is(tmp_path):
    template = {"metadata": {"name": "data"}, "spec": claim()["spec"]}
    of_set = workload("StatefulSet", replicas=3, volumeClaimTemplates=[template], podManagementPolicy="Parallel")
    there = [node("a"), pod("w-1", nodeName="a"), claim("data-w-0", volumeName="v")]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([of_set, *there]))
    objects = Manifests([tmp_path / "cluster.yaml"]).objects
    assert [objects["pods", "default", f"w-{i}"]["spec"].get("nodeName") for i in range(3)] == [None, "a", None]
    claims = {name: thing["spec"].get("volumeName") for (resource, _, name), thing in objects.items() if "claim" in resource}
    assert claims == {"data-w-0": "v", "data-w-2": None}


def test_a_generated_name_is_that_of_no_other():
    first = generated("job-", "pods", "default", {"another": {}})
    assert generated("job-", "pods", "default", {("pods", "default", first): {}}) != first


def test_many_pods_of_a_workload_have_names_that_differ(tmp_path):
    pods = made_of(tmp_path, node("a"), workload("ReplicaSet", replicas=1000))
    assert len({thing["metadata"]["name"] for thing in pods}) == 1000


@table("fields, said", {
    "a number that is a text": ({"replicas": "3"}, 'spec.replicas: expected a whole number, got "3"'),
    "a selector that there cannot be": (
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
        'spec.selector.matchExpressions[0].operator: expected one of DoesNotExist, Exists, Gt, In, Lt, NotIn, got "Is"'),
})
@pytest.mark.parametrize("of", ["Deployment", "ReplicaSet"])
def test_a_workload_that_cannot_be_read_is_left_out(of, fields, said):
    decisions, err = placed(workload(of, **fields), pod("other"))
    assert (err, [*decisions]) == (f"-: {of} w{LEFT_OUT}: {said}\n", ["default/other"])


def test_of_a_very_large_workload_not_all_pods_are_made(tmp_path, monkeypatch, caplog):
    replace(monkeypatch, "MOST", 5)
    assert len(made_of(tmp_path, node("a"), workload("ReplicaSet", replicas=6), workload("ReplicaSet", "v", replicas=5))) == 10
    assert caplog.messages == ["ReplicaSet w: only 5 of its pods are made here"]


def test_what_a_template_asks_for_in_vain_is_said_once(tmp_path, caplog):
    assert made_of(tmp_path, node("a"), workload("ReplicaSet", replicas=9, template={"priority": 5})) == []
    [said] = caplog.messages
    assert said.endswith("spec.priority: must not be provided, or be that of its PriorityClass: 0")


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
    workload("DaemonSet", "affine", template={"affinity": {"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": ["a"]}]}]}}}, "tolerations": [{"operator": "Exists"}]}),
    workload("Job", "queue", parallelism=2), workload("Job", "few", parallelism=5, completions=2), workload("Job", "zero", parallelism=0),
    *(kind("CronJob", name, "default", apiVersion="batch/v1beta1", spec={
        "schedule": "0 0 29 2 *", "suspend": name == "idle", "jobTemplate": {"spec": workload("Job", name)["spec"]}})
      for name in ("idle", "yearly"))]
GROUPS = {"Job": "batch/v1", "CronJob": "batch/v1beta1",
          **dict.fromkeys(["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"], "apps/v1")}


def what_it_is(thing):
    """What a controller makes of a pod, without what it makes up: letters of names, hashes, uids."""
    metadata, spec = thing["metadata"], thing["spec"]
    [owner] = metadata["ownerReferences"]
    made_up = ("pod-template-hash", "controller-revision-hash", "controller-uid", "apps.kubernetes.io/pod-index")
    name = re.sub("-[a-z0-9]{5}$", "", metadata["name"])
    labels = {key: "" if key in made_up else value for key, value in metadata["labels"].items() if not key.startswith(("apps.", "batch."))}
    claims = [each["persistentVolumeClaim"]["claimName"] for each in spec.get("volumes", []) if "persistentVolumeClaim" in each]
    tolerations = sorted(json.dumps(each, sort_keys=True) for each in spec["tolerations"])
    hashed = owner["kind"] == "ReplicaSet" and owner["name"] != "rs"
    return json.dumps([name.rpartition("-")[0] if hashed else name, owner["kind"], owner["name"].rpartition("-")[0] if hashed else owner["name"],
                       owner["controller"], labels, claims, tolerations, spec.get("affinity")], sort_keys=True)


@pytest.fixture
def controllers(control_plane):
    """kube-controller-manager, with the controllers of workloads."""
    names = "deployment,replicaset,replicationcontroller,statefulset,daemonset,job,cronjob"
    process = control_plane.start(
        "kube-controller-manager", f"--kubeconfig={control_plane.kubeconfig()}", "--leader-elect=false", "--port=0",
        "--secure-port=0", f"--controllers={names}")
    yield control_plane
    process.kill()
    process.wait()
    for of in ("deployments", "replicasets", "statefulsets", "daemonsets"):
        control_plane.request("DELETE", f"../../apis/apps/v1/namespaces/default/{of}")
    control_plane.request("DELETE", "../../apis/batch/v1/namespaces/default/jobs", params={"propagationPolicy": "Background"})
    for of in ("replicationcontrollers", "persistentvolumeclaims"):
        control_plane.request("DELETE", f"namespaces/default/{of}")


def test_the_pods_are_those_that_controllers_make_and_go_where_kube_scheduler_has_them_go(controllers, tmp_path):
    control_plane = controllers
    late = storage_class("late", provisioner="example.com/x")
    nodes = [*(node(name, labels={HOSTNAME: name}) for name in "abc"), node("d", taints=[{"key": "a", "effect": "NoSchedule"}])]
    control_plane.create(*nodes)
    for thing in WORKLOADS:
        group = GROUPS.get(thing["kind"])
        place = f"../../apis/{group}/" if group else ""
        control_plane.request("POST", f"{place}namespaces/default/{thing['kind'].lower()}s", thing)
    made = made_of(tmp_path, *nodes, late, *WORKLOADS)
    scheduler_is_told = collections.Counter(map(what_it_is, made))
    wait_for("all pods are made", lambda: len(control_plane.pods()) >= len(made))
    assert collections.Counter(map(what_it_is, control_plane.pods().values())) == scheduler_is_told
    (tmp_path / "policy.json").write_text(json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": [
        {"name": name} for name in ("GeneralPredicates", "EvenPodsSpread")], "priorities": []}))
    theirs = control_plane.start(
        "kube-scheduler", f"--kubeconfig={control_plane.kubeconfig()}", "--leader-elect=false", "--port=0", "--secure-port=0",
        "--scheduler-name=my-scheduler", f"--policy-config-file={tmp_path / 'policy.json'}")
    run = run_scheduler("--cluster", tmp_path / "cluster.yaml", "--policy", tmp_path / "policy.json")

    def spread(places):
        """How many pods of each kind that does not leave its node to chance are on each node."""
        return collections.Counter((key.split("/")[1].split("-")[0], place) for key, place in places if re.search("/(web|agent|plain|picky|affine)-", key))

    ours = spread(re.findall(r"^(\S+) -> (\S+)  ", run.stdout, re.M))
    assert {*ours.values()} == {1} and len(ours) == 14
    try:
        wait_for("kube-scheduler has placed as many", lambda: spread(control_plane.places().items()).total() == 14)
    finally:
        theirs.kill()
        theirs.wait()
    assert ours == spread(control_plane.places().items())


# ---- copies of live clusters

MIRROR = {"annotations": {"kubernetes.io/config.mirror": "0123"}, "namespace": "kube-system"}
OF_NODE = {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "cp-1", "uid": "1", "controller": True}]}
CONTROL_PLANE = {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}


def kubeadm():
    """Objects of a cluster as kubeadm makes it, which kube-scheduler's pods are to be placed on."""
    static = [pod(f"{name}-cp-1", {"cpu": "100m"}, namespace="kube-system", nodeName="cp-1", metadata={
        **MIRROR, **OF_NODE, "name": f"{name}-cp-1"}, hostNetwork=True, schedulerName="default-scheduler",
        priorityClassName="system-node-critical") for name in ("etcd", "kube-apiserver", "kube-scheduler")]
    dns = [pod(f"coredns-{i}", {"cpu": "100m"}, namespace="kube-system", schedulerName="default-scheduler",
               priorityClassName="system-cluster-critical",
               tolerations=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule", "operator": "Exists"}]) for i in range(2)]
    people = [pod(f"job-{i}", {"cpu": f"{300 + 100 * i}m"}, schedulerName="default-scheduler") for i in range(6)]
    too_large = pod("large", {"cpu": "3500m"}, schedulerName="default-scheduler")
    return [node("cp-1", cpu="2", **CONTROL_PLANE), node("w-1", cpu="3"), node("w-2", cpu="3")], [*static, *dns, *people, too_large]


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_readmes_recipe_gives_every_pod_of_people_the_answer_of_the_live_script(form, controllers, tmp_path):
    nodes, pods = kubeadm()
    controllers.create(*nodes, *pods)
    ours = {"schedulerName": "default-scheduler"}
    for thing in (workload("Deployment", "web", replicas=3, template=ours), workload("DaemonSet", "proxy", template=ours)):
        controllers.request("POST", f"../../apis/apps/v1/namespaces/default/{thing['kind'].lower()}s", thing)
    wait_for("all pods are made", lambda: len(controllers.pods()) == len(pods) + 3 + 2)
    common = ["--scheduler-name", "default-scheduler", "--policy", "DefaultProvider", "--seed=1"]
    run_scheduler("--server", controllers.server, "--once", *common)
    live = {key: place for key, place in controllers.places().items() if "cp-1" not in key}
    words = Manifests.COMMAND.replace("csistoragecapacities,", "").replace("yaml", form).split()[1:]
    copy = subprocess.run([controllers.assets / "kubectl", "--kubeconfig", controllers.kubeconfig(), *words], capture_output=True, text=True)
    assert copy.returncode == 0, copy.stderr
    run = run_scheduler("--cluster", "-", "--anew", *common, input=copy.stdout)
    assert dict(re.findall(r"^(\S+) -> (\S+)  ", run.stdout, re.M)) == live and len(live) == 2 + 6 + 3 + 2, run.stderr
    assert "default/large stays pending: 0/3 nodes are available: " in run.stdout and run.stderr == ""


@table("metadata, where, said", {
    "its owner says where": (MIRROR | OF_NODE, "cp-1", ""),
    "an owner is enough": ({"namespace": "kube-system"} | OF_NODE, "cp-1", ""),
    "nothing does": (MIRROR, None, "-: Pod etcd is skipped as the mirror of a static pod: nothing says on which node it is\n"),
})
def test_a_static_pod_whose_node_was_taken_away_is_where_its_kubelet_is(metadata, where, said):
    things = [node("cp-1", **CONTROL_PLANE), node("w-1"), pod("etcd", metadata=metadata | {"uid": "1"})]
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all(things))
    assert "->" not in run.stdout and run.stderr.startswith(said)
    assert ("kube-system/etcd" in run.stdout) == (where is not None)


@table("of, shown", {
    "one of ours": (pod("p", nodeName="a", status={"phase": "Running"}), ["1/110", "+p"]),
    "... as large as it asks to be, not as it was": (
        pod("p", nodeName="a", status={"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "9"}}}]}), ["1/110", "+p"]),
    "another scheduler's": (pod("p", nodeName="a", schedulerName="other"), ["1/110", "p"]),
    "one that has ended": (pod("p", nodeName="a", status={"phase": "Succeeded"}), ["0/110"]),
    "one that is being deleted": (pod("p", nodeName="a", metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"}), ["1/110", "p"]),
    "a static one": (pod("p", nodeName="a", metadata=OF_NODE), ["1/110", "p"]),
})
def test_anew_are_placed(of, shown):
    run = run_scheduler("--cluster", "-", "--anew", input=yaml.safe_dump_all([node("a"), of]))
    assert re.findall(r"\d/110|(?<=    )\+?p$", run.stdout, re.M) == shown


def test_anew_is_for_manifests_only():
    run = run_scheduler("--anew", "--once")
    assert run.returncode == 2 and "--anew needs --cluster: pods of a live cluster stay where they are" in run.stderr


# ---- what is said

FULL = [node("full", cpu="1"), *(node(name, labels={HOSTNAME: name}) for name in "ab"), pod("hog", {"cpu": "1"}, nodeName="full"),
        *(pod(f"w-{i}", {"cpu": "500m"}, labels={"app": "web"}, topologySpreadConstraints=[SPREAD]) for i in range(3))]
FULL[0]["metadata"]["labels"] = {HOSTNAME: "full"}


def test_explain_answers_for_the_state_that_the_run_has_when_it_comes_to_the_pod():
    run = run_scheduler("--cluster", "-", "--policy", "DefaultProvider", "--explain", "w-2", input=yaml.safe_dump_all(FULL))
    text = " ".join(run.stdout.split())
    assert text.startswith("default/w-2 is pending. After 2 other pods, with DefaultProvider: default/w-2 stays pending: ")
    assert run.returncode == 0 and re.search(r"[ab] \(1 in hostname [ab], 0 in full, maxSkew 1\)", text)


@table("asked, said", {
    "a name that is nearly one": ("w1", '; did you mean "default/w-1"?'),
    "the name of a workload": ("of-workload", '; did you mean "default/of-workload-'),
    "a name that is near none": ("zzz", "default/ may be omitted)\n"),
})
@pytest.mark.parametrize("option", ["--explain", "--fits"])
def test_a_hint_names_the_pod_that_is_meant(asked, said, option):
    run = run_scheduler("--cluster", "-", option, asked, input=yaml.safe_dump_all([*FULL, workload("Deployment", "of-workload")]))
    assert run.returncode == 1 and said in run.stderr


@table("of, said", {
    "as many as have room": ("hog", "default/hog: 8 copies fit: 4 on {}, 4 on {} the next one stays pending: 0/3 nodes are available: 3 Insufficient cpu."),
    "as many as a constraint lets": ("w-0", "default/w-0: 2 copies fit: 1 on {}, 1 on {} the next one stays pending: 0/3 nodes are available: "
                                            "1 Insufficient cpu, 2 node(s) didn't match pod topology spread constraints."),
})
def test_how_many_copies_of_a_pod_fit(of, said):
    run = run_scheduler("--cluster", "-", "--policy", "DefaultProvider", "--fits", of, input=yaml.safe_dump_all(FULL))
    text = " ".join(run.stdout.split())
    text = re.sub(" [23] other waiting pods are not placed first$", "", text)
    assert text in (said.format("a", "b"), said.format("b", "a")) and run.returncode == 0
    run = run_scheduler("--cluster", "-", "--policy", "DefaultProvider", "--fits", of, "--output=json", input=yaml.safe_dump_all(FULL))
    told = json.loads(run.stdout)
    assert told["fits"] == sum(told["nodes"].values()) == int(said.split()[1]) and said.endswith(told["message"])


def test_none_of_a_pod_may_fit():
    run = run_scheduler("--cluster", "-", "--fits", "p", input=yaml.safe_dump_all([node("a"), pod("p", {"cpu": "9"})]))
    assert run.stdout == "default/p: no copy fits: 0/1 nodes are available: 1 Insufficient cpu.\n"


def test_of_each_other_scheduler_a_pod_is_shown():
    things = [node("a"), *(pod(f"a-{i:02}", schedulerName="first") for i in range(20)), pod("b", schedulerName="second")]
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all(things))
    assert "default/a-00 belongs to first" in run.stdout and "default/b belongs to second" in run.stdout
    assert "and 6 other pods without a node" in run.stdout


def test_each_name_that_is_nearly_ours_is_told():
    things = [node("a"), *(pod(f"p-{i}", schedulerName=name) for i, name in enumerate(["my-sheduler", "my-schedulr"] * 2))]
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all(things))
    assert [line for line in run.stderr.splitlines() if "did you mean" in line] == [
        f"default/p-{i} names {name}: did you mean my-scheduler?" for i, name in enumerate(["my-sheduler", "my-schedulr"])]


def test_the_prefix_of_kubectl_proxy_is_obeyed(control_plane):
    port = free_port()
    control_plane.create(node("a"), pod("p"))
    proxy = control_plane.start("kubectl", "--kubeconfig", control_plane.kubeconfig(), "proxy", f"--port={port}", "--api-prefix=/k8s-api")
    url = f"http://127.0.0.1:{port}/k8s-api"
    try:
        wait_for("it answers", lambda: run_scheduler("--server", url, "--explain", "p").returncode == 0)
        run = run_scheduler("--server", url, "--once")
        assert run.returncode == 0 and control_plane.places() == {"default/p": "a"}, run.stderr
    finally:
        proxy.kill()
        proxy.wait()
