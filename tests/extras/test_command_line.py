"""The command line: what it prints, and its exit codes."""

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import termios
import threading
from http.server import BaseHTTPRequestHandler
from unittest.mock import Mock

import pytest
import time
from scheduler_extras.api.proxy import USER_AGENT
from scheduler_extras.common.kinds import CORE, GROUPS
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.common.version import VERSION
from scheduler_extras.deciding.rule import PREDICATES, PRIORITIES, WHEN
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.options import option_parser, read_arguments
from scheduler_extras.policy.own_rules import rules_in, unplug
from scheduler_extras.policy.policy import CONFIGURATION_VERSION
from scheduler_extras.policy.reading import POLICY, known_names
from scheduler_extras.policy.reloading import PolicyFile
from scheduler_extras.process import stop_on_signals
from scheduler_extras.reading.hints import REPLACEMENTS
from scheduler_extras.reading.pods_and_nodes import FullPod
import yaml
from helpers.control_plane import free_port, wait_for
from helpers.extras import (
    PATIENT, ROOT, SCHEDULER, a_cluster, claim, cluster_of, node, on_any_machine, pod, run_afresh, run_scheduler, table, volume
)
from helpers.faulty import ApiServer, QuietServer
from helpers.manifests import LEFT_OUT, MODES, kind, limited, placed, priority_class

DEMO = ROOT / "tests" / "demo.yaml"
NOBODY_WAITS = "no pod waits for my-scheduler: no pod without a node has this spec.schedulerName"
NOBODY_IS_READY = ("no pod waits for my-scheduler: those without a node have scheduling gates, are being deleted, "
                   "or are held back by a rule")


def test_the_demo_tells_what_its_comments_say():
    run = run_scheduler("--cluster", DEMO)
    assert (run.returncode, run.stderr) == (0, "")
    decisions, picture, homeless = run.stdout.split("\n\n")
    places = dict(re.findall(r"^default/(\S+) -> (\S+)  \(\d of 5 nodes fit, score \d+\)$", decisions, re.M))
    assert places == {"web-1": "node-b", "web-2": "node-b", "cache": "node-a", "report": "node-a",
                      "training": "node-gpu", "ingress-1": "node-b", "ingress-2": "node-a"}
    assert decisions.splitlines()[-1].startswith("default/warehouse stays pending: 0/5 nodes are available: 1 ")
    assert picture == """\
NODE           PODS   CPU                MEMORY                 GPU
control-plane  0/110  ░░░░░░░░░░░░ 0/4   ░░░░░░░░░░░░ 0/8Gi
node-a         4/110  █████████░░░ 3/4   ████████░░░░ 5.25/8Gi
    +cache, +ingress-2, +report, database
node-b         3/110  ██░░░░░░░░░░ 1/8   █░░░░░░░░░░░ 1/16Gi
    +ingress-1, +web-1, +web-2
node-gpu       1/110  ███░░░░░░░░░ 4/16  ██░░░░░░░░░░ 8/64Gi    ██████░░░░░░ 1/2
    +training
node-old       0/110  ░░░░░░░░░░░░ 0/4   ░░░░░░░░░░░░ 0/8Gi"""
    assert homeless == """\
default/warehouse stays pending: 0/5 nodes are available: 1 Insufficient memory,
    1 node(s) had taint {gpu: true}, that the pod didn't tolerate, 1 node(s)
    were unschedulable, 3 Insufficient cpu.
"""


def test_json_is_a_line_per_decision_with_all_that_it_rests_on():
    run = run_scheduler("--cluster", DEMO, "--output=json", "--seed=1")
    lines = {line["pod"]: line for line in map(json.loads, run.stdout.splitlines())}
    assert len(lines) == 8
    report = lines["default/report"]
    assert report == {
        "pod": "default/report", "node": "node-a", "feasible": ["node-a", "node-b"],
        "failed": {"control-plane": ["node(s) had taint {node-role.kubernetes.io/control-plane: }, that the pod didn't "
                                     "tolerate"],
                   "node-gpu": ["node(s) had taint {gpu: true}, that the pod didn't tolerate"],
                   "node-old": ["node(s) were unschedulable"]},
        "failedBy": {"control-plane": ["PodToleratesNodeTaints"], "node-gpu": ["PodToleratesNodeTaints"],
                     "node-old": ["CheckNodeUnschedulable"]},
        "requests": {"cpu": 250, "memory": 256 * 2**20},
        "free": {"control-plane": {"cpu": 4000, "memory": 8 * 2**30}, "node-gpu": {"cpu": 16000, "memory": 64 * 2**30},
                 "node-old": {"cpu": 4000, "memory": 8 * 2**30}},
        "raw": report["raw"], "scores": report["scores"], "total": report["total"], "held": False, "waits": "",
        "message": None, "remedy": ""}
    assert report["raw"]["NodeAffinityPriority"] == {"node-a": 1, "node-b": 0}, "the weight of the one term"
    assert report["scores"]["NodeAffinityPriority"] == {"node-a": 200, "node-b": 0}, "weight 2"
    assert report["total"] == {name: sum(scores[name] for scores in report["scores"].values())
                               for name in ("node-a", "node-b")}
    assert lines["default/cache"]["scores"]["LeastRequestedPriority"].keys() == {"node-a"}, "one alone is scored, too"
    assert (lines["default/warehouse"]["node"], lines["default/warehouse"]["total"]) == (None, {})


def test_a_seed_repeats_the_run():
    runs = {run_afresh("--cluster", DEMO, "--seed=x", "--output=json").stdout for _ in range(3)}  # sets differ in order
    assert len(runs) == 1


def test_a_dry_run_says_so_in_a_line_and_sees_its_own_placements():
    real, dry = run_scheduler("--cluster", DEMO), run_scheduler("--cluster", DEMO, "--dry-run")
    assert (real.stderr, dry.stderr) == ("", "dry run: nothing is written\n")
    assert dry.stdout == real.stdout


def pictured(*things, arguments=(), **options):
    """Schedule manifests; return the picture: {node: (the rest of its line, its pods)}, and the lines below it."""
    run = run_scheduler("--cluster", "-", *arguments, input=json.dumps({"kind": "List", "items": things}), **options)
    assert run.returncode == 0, run
    _, _, picture = run.stdout.partition("NODE ")
    picture, _, below = picture.partition("\n\n")
    name, nodes = "", {}
    for line in picture.splitlines()[1:]:
        if line.startswith("    "):
            nodes[name] = (*nodes[name], *line.strip().split(", "))
        else:
            name, *cells = re.split("  +", line)
            nodes[name] = (cells,)
    return {name: (cells, pods) for name, (cells, *pods) in nodes.items()}, below.splitlines()


def test_the_pods_of_a_node_are_below_it_and_new_ones_are_marked():
    nodes, below = pictured(node("n"), node("no-room", pods="0"), pod("old", {"cpu": "1"}, nodeName="n"),
                            pod("new", {"cpu": "2900m"}), pod("far", namespace="kube-system", nodeName="n"))
    assert nodes["n"][1] == ["+new", "kube-system/far", "old"] and nodes["no-room"][1] == below == []
    assert nodes["n"][0][0] == "3/110" and nodes["n"][0][1].endswith("█ 3.9/4") and nodes["no-room"][0][0] == "0/0"


@table("things, where, cell", {
    "a device that a pod requests": ([limited({"example.com/gpu": "1"})], "n", "█+░+ 1/2"),
    "a node without it has no bar": ([limited({"example.com/gpu": "1"})], "other", ""),
    "a device that nobody requests": ([pod("p")], "n", ""),
    "local storage": ([pod("p", {"ephemeral-storage": "1Gi"})], "n", "█+░+ 1/2Gi"),
    "large pages": ([limited({"hugepages-1Gi": "16Gi", "cpu": "1"})], "n", "█+░+ 16/32Gi"),
    "more than there is": ([limited({"example.com/gpu": "3"}, nodeName="n")], "n", "█+ 3/2"),
})
def test_a_resource_has_bars_where_some_pod_requests_it(things, where, cell):
    room = {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "2", "ephemeral-storage": "2Gi",
            "hugepages-1Gi": "32Gi"}
    nodes, _ = pictured(node("n", status={"allocatable": room}), node("other"), *things)
    assert re.fullmatch(cell, "".join(nodes[where][0][3:]))


def test_of_many_nodes_the_fullest_and_those_that_took_pods_are_shown():
    nodes, _ = pictured(*(node(f"n{i:03}", labels={"i": str(i)}) for i in range(500)),
                        *(pod(f"old-{i}", {"cpu": "3"}, nodeName=f"n{i:03}") for i in range(100, 150)),
                        *(pod(f"new-{i}", nodeSelector={"i": str(400 + i)}) for i in range(5)))
    assert [*nodes][-6:] == ["n400", "n401", "n402", "n403", "n404", "and 485 other nodes"]
    assert len(nodes) == 16 and [*nodes][:10] == [f"n{i}" for i in range(100, 110)]


def test_of_pods_that_fit_nowhere_for_one_reason_one_has_a_line_and_the_others_are_counted():
    things = [node("n"), *(pod(f"p{i:03}", {"cpu": "9"}) for i in range(257)), *(pod(f"q{i}", {"memory": "1Ti"}) for i in range(2)),
              pod("alone", nodeSelector={"a": "b"}), pod("fits")]
    run = run_scheduler("--cluster", "-", input=json.dumps({"items": things}))
    why = "stays pending: 0/1 nodes are available: 1"
    assert run.stdout.partition("\n\nNODE ")[0].splitlines() == [
        f"default/p000 {why} Insufficient cpu.", f"default/q0 {why} Insufficient memory.",
        f"default/alone {why} node(s) didn't match Pod's node affinity.", "default/fits -> n  (1 of 1 nodes fit, score 296)",
        "256 other pods stay pending: 0/1 nodes are available: 1 Insufficient cpu.",
        "1 other pod stays pending: 0/1 nodes are available: 1 Insufficient memory."]
    for arguments, count in (["--output=json"], 261), (["--explain"], 261):
        run = run_scheduler("--cluster", "-", *arguments, input=json.dumps({"items": things}))
        assert len(re.findall(r'default/(?:p|q|alone|fits)\d* (?:stays|->)|"node": ', run.stdout.partition("\n\nNODE ")[0])) == count


def test_of_many_pods_without_a_node_some_are_shown_and_the_others_counted():
    _, below = pictured(node("n"), *(pod(f"p{i:03}", {"cpu": "9"}) for i in range(100)))
    assert len(below) == 16 and below[-1] == "and 85 other pods without a node"
    assert below[0] == "default/p000 stays pending: 0/1 nodes are available: 1 Insufficient cpu."


@table("thing, said", {
    "it fits nowhere": (pod("p", {"cpu": "9"}), "stays pending: 0/1 nodes are available: 1 Insufficient cpu."),
    "its scheduler's name is nearly ours": (
        pod("p", schedulerName="my-sheduler"), "names my-sheduler (did you mean my-scheduler?)"),
    "another scheduler's": (pod("p", schedulerName="volcano"), "is left to volcano"),
    "it names none": (pod("p", schedulerName=None), "is left to default-scheduler, as it names no other"),
    "gates": (pod("p", schedulingGates=[{"name": "quota"}]), "has scheduling gates (quota)"),
    "it is on its way out": (
        pod("p", metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"}), "is being deleted"),
    "its node is not there": (pod("p", nodeName="gone"), "is on gone, a node that does not exist"),
    "it is done": (pod("p", status={"phase": "Succeeded"}), None),
    "it is placed": (pod("p"), None),
})
def test_of_a_pod_without_a_node_it_is_said_where_it_stands(thing, said):
    _, below = pictured(node("n"), thing)
    assert below[:1] == ([f"default/p {said}"] if said else [])
    assert below[1:] == (["", "to place a pod that names no scheduler: python scheduler_extras --cluster -", "    --scheduler-name default-scheduler"]
                         if thing["spec"]["schedulerName"] is None else [])


@table("size, place, below, placed", {
    "a gang that cannot be complete is held, and on no node": (3, [], "stays pending: Coscheduling does not permit the binding to n yet: 2 of 3 pods of group crew have a node", 1),
    "a complete one is placed": (2, ["+one", "+two"], None, 3),
})
def test_a_gang_in_the_picture_and_in_a_comparison(size, place, below, placed, tmp_path):
    labels = {"group": "crew", "group-size": str(size)}
    things = [node("n"), *(pod(name, labels=labels) for name in ("one", "two")), pod("alone")]
    (tmp_path / "policy.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": ['
                                          '{"name": "PodFitsResources"}, {"name": "Coscheduling"}]}')
    arguments = ["--plugins", ROOT / "scheduler_extras" / "examples" / "tutorial_rules.py", "--policy", "policy.json"]
    nodes, homeless = pictured(*things, arguments=arguments, cwd=tmp_path)
    assert nodes["n"][1] == ["+alone", *place] and nodes["n"][0][0] == f"{placed}/110"
    said = " ".join(" ".join(homeless).split())
    assert said == (" ".join(f"default/{name} {below}" for name in ("one", "two")) if below else "")
    run = run_scheduler("--cluster", "-", *arguments, "--compare", ROOT / "policy.json", cwd=tmp_path,
                        input=json.dumps({"items": things}))
    assert re.search(r"^pods that fit +(\d) of 3 +3 of 3$", run.stdout, re.M)[1] == str(placed)


@table("text", {
    "a List, as kubectl get -o yaml writes it": "list.yaml",
    "JSON": "list.json",
    "several documents": "documents.yaml",
})
def test_manifests_come_in_every_form(text, tmp_path):
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


def test_a_pod_that_affects_an_earlier_one_is_followed_by_a_second_look_which_says_nothing_twice():
    run = run_scheduler("--cluster", DEMO, "--output=json")
    assert [json.loads(line)["pod"] for line in run.stdout.splitlines()].count("default/warehouse") == 1


EMPTY = "is empty; is a variable of the shell not set?\n"


@table("arguments, said", {
    "an unknown flag": (["--frobnicate"], "unrecognized arguments: --frobnicate"),
    "kube-scheduler's --kubeconfig": (
        ["--kubeconfig=x"], "unrecognized arguments: --kubeconfig=x; use kubectl --kubeconfig FILE proxy"),
    "kube-scheduler's --master": (["--master", "x"], "unrecognized arguments: --master x; use --server"),
    "kube-scheduler's --v": (["--v=2"], "unrecognized arguments: --v=2; use --verbose"),
    "a flag of kube-scheduler's that means nothing here": (
        ["--feature-gates", "A=true", "--leader-elect=false"], "unrecognized arguments: --feature-gates A=true\n"),
    "... behind files": (["--cluster", "-", "--kube-api-qps=50"], "unrecognized arguments: --kube-api-qps=50\n"),
    "an interval that is no time": (["--interval=never"], "argument --interval: invalid float value: 'never'"),
    "a pod without a name, as of a variable of the shell that is empty": (["--fits="], f"--fits: {EMPTY}"),
    "... to explain": (["--explain="], f"--explain: {EMPTY}"),
    "a manifest without a name": (["--cluster", DEMO, ""], f"--cluster: {EMPTY}"),
    "a Policy without a name": (["--policy="], f": {EMPTY}"),
    "a configuration without a name": (["--config", ""], f": {EMPTY}"),
    "a file of rules without a name": (["--plugins", ""], f"--plugins: {EMPTY}"),
    "a comparison with nothing": (["--cluster", DEMO, "--compare", ""], f"--compare: {EMPTY}"),
    "a scheduler without a name": (["--scheduler-name="], f"--scheduler-name: {EMPTY}"),
    "an interval of nothing": (["--interval=0"], "--interval 0.0: expected a number of seconds above 0"),
    "an interval that is no number": (["--interval=nan"], "--interval nan: expected a number of seconds above 0"),
    "a server that is no URL": (["--server=localhost:8001"], "expected a URL such as http://127.0.0.1:8001"),
    "... for want of http://": (["--server=localhost:8001/k8s-api"], "with http:// before the host"),
    "a server at a port that there is not": (["--server=http://127.0.0.1:99999"], "expected a URL such as http://"),
    "a server with a password": (
        ["--server=http://user:secret@localhost:8001"], "http://127.0.0.1:8001, without a user or a password"),
    "a Policy that is not there": (["--policy=nowhere.json"], "nowhere.json: No such file or directory"),
    "a provider, misspelt": (["--policy=DefaultProvidr"], 'DefaultProvidr: No such file or directory; did you mean "DefaultProvider"?'),
    "a manifest that is not there": (["--cluster", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
    "a manifest that is no YAML": (["--cluster", "-"], "-: line 2: did not find expected"),
    "a manifest that is none": (["--cluster", ROOT / "policy.json"], "policy.json: expected a Kubernetes object with kind "),
    "nothing at all": (["--cluster", "/dev/null"], "/dev/null: there is no Node; a copy of a cluster has all: "),
    "both a comparison and an explanation": (
        ["--cluster", DEMO, "--compare", "policy.json", "--explain", "p"], "--compare needs --cluster, and excludes "),
})
def test_wrong_usage_is_exit_code_2(arguments, said):
    run = run_scheduler(*arguments, "--once", input="a: [b\n")
    assert run.returncode == 2
    assert said in run.stderr and "Traceback" not in run.stderr and "secret" not in run.stderr


@table("thing, said", {
    "text": ("just text", 'left out: expected a Kubernetes object with kind and metadata.name, got "just text"'),
    "an object without a name": (
        {"kind": "Pod"}, "Pod{}: metadata.name: Required value; spec.containers: Required value"),
    "a PriorityClass of no number": (
        {"kind": "PriorityClass", "metadata": {"name": "c"}, "value": "high"},
        'PriorityClass c{}: value: expected a whole number, got "high"'),
    "a node whose taints are none": (
        {"kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": "gpu"}},
        'Node n{}: spec.taints: expected a list, got "gpu"'),
    "a pod that requests what is no amount": (
        pod("p", {"cpu": "much"}), 'Pod p{}: spec.containers[0].resources.requests.cpu: "much" is not a '
        "quantity of 0 or more, such as 100m, 0.5 or 1.5Gi"),
    "... in a unit that there is not": (
        pod("p", {"memory": "512MB"}), 'Pod p{}: spec.containers[0].resources.requests.memory: "512MB" is not a '
        'quantity of 0 or more, such as 100m, 0.5 or 1.5Gi; did you mean "512M"?'),
    # Bars of the picture took all memory, where a node was full to minus some billion times what it has.
    "a running pod that requests less than nothing": (
        pod("p", {"example.com/gpu": "-2M"}, nodeName="a"), 'Pod p{}: spec.containers[0].resources.requests.example.com/gpu: '
        '"-2M" is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi'),
    "... by less than what is counted": (
        pod("p", {"cpu": "-0.5m"}), 'Pod p{}: spec.containers[0].resources.requests.cpu: "-0.5m" is not a '
        "quantity of 0 or more, such as 100m, 0.5 or 1.5Gi"),
    # BalancedResourceAllocation gave it -74 points, for which the rule was blamed.
    "a node that has less than nothing": (
        {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": -1.0}}},
        "Node n{}: status.allocatable.cpu: -1 is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi"),
    "... or takes fewer pods than none": (
        {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "-1"}}},
        'Node n{}: status.allocatable.pods: "-1" is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi'),
    "a pod whose container is called a list": (
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": ["c"]}]}},
        'Pod p{}: spec.containers[0].name: expected a string, got ["c"]'),
    "a pod whose schedulerName is none": (
        pod("p", schedulerName=False), "Pod p{}: spec.schedulerName: expected a string, got false"),
    "a pod on the host's network by a text": (
        pod("p", hostNetwork="true"), 'Pod p{}: spec.hostNetwork: expected true or false, got "true"'),
    "a pod with an empty toleration": (
        pod("p", tolerations=[None]), "Pod p{}: spec.tolerations[0].operator: must be Exists when `key` is empty"),
    "a Service that selects as a ReplicaSet does": (
        {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": {"app": "x"}}}},
        'Service s{}: spec.selector[matchLabels]: expected a string, got {{"app": "x"}}'),
    "a default class of pods by a text": (
        {"kind": "PriorityClass", "metadata": {"name": "c"}, "value": 5, "globalDefault": "false"},
        'PriorityClass c{}: globalDefault: expected true or false, got "false"'),
    "a default class of volumes without quotes": (
        {"kind": "StorageClass", "metadata": {"name": "s", "annotations": {
            "storageclass.kubernetes.io/is-default-class": True}}},
        "StorageClass s{}: metadata.annotations.storageclass.kubernetes.io/is-default-class: expected a string, got true; "
        "put it in quotes"),
    "a Service that selects by a list": (
        {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": ["web"]}},
        'Service s{}: spec.selector: expected an object, got ["web"]'),
    "a claim for a size in a unit that there is not": (
        claim("c", resources={"requests": {"storage": "5GB"}}),
        'PersistentVolumeClaim c{}: spec.resources.requests.storage: "5GB" is not a quantity of 0 or more, such as 100m, 0.5 '
        'or 1.5Gi; did you mean "5G"?'),
    "... for a size that is none": (
        claim("c", resources={"requests": 5}), "PersistentVolumeClaim c{}: spec.resources.requests: expected an object, got 5"),
    "a claim that is bound to a number": (
        claim("c", volumeName=7), "PersistentVolumeClaim c{}: spec.volumeName: expected a string, got 7"),
    "a claim that selects volumes by no label": (
        claim("c", selector={"matchLabels": {"": ":"}}), 'PersistentVolumeClaim c{}: spec.selector.matchLabels: invalid label key: ""'),
    "a volume that is used in a way that is a list": (
        volume("v", accessModes=[["RWO"]]), "PersistentVolume v{}: spec.accessModes[0]: expected one of ReadOnlyMany, "
        'ReadWriteMany, ReadWriteOnce, ReadWriteOncePod, got ["RWO"]'),
    "a budget of a number as a text": (
        kind("PodDisruptionBudget", "b", spec={"minAvailable": "1"}),
        'PodDisruptionBudget b{}: spec.minAvailable: expected a number of pods, or a share such as "50%", got "1"'),
    "a scaler of a number as a text": (
        kind("HorizontalPodAutoscaler", "h", spec={"minReplicas": "2"}),
        'HorizontalPodAutoscaler h{}: spec.minReplicas: expected a whole number, got "2"'),
})
def test_an_object_that_cannot_be_read_is_left_out_and_the_run_goes_on(thing, said):
    others = [node("a"), pod("other")]
    for text in (yaml.safe_dump({"kind": "List", "items": [others[0], thing, others[1]]}),
                 yaml.safe_dump_all([others[0], thing, others[1]])):
        run = run_scheduler("--cluster", "-", input=text)
        assert (run.returncode, run.stderr) == (1, f"-: {said.format(LEFT_OUT)}\n")
        assert re.findall("^default/.*", run.stdout, re.M) == ["default/other -> a  (1 of 1 nodes fit, score 296)"]


@table("thing", {
    "a label": (pod("p", labels={"app": None}),),
    "an annotation": (pod("p", metadata={"annotations": {"a": None}}),),
    "a node's label that is asked for": (pod("p", nodeSelector={"disk": None}),),
    "a request": (pod("p", {"cpu": None}),),
    "a value that is chosen from": (pod("p", affinity={"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": [None]}]}]}}}),),
})
def test_null_in_a_map_is_an_empty_text_or_none_of_a_resource_as_for_an_api_server(thing):
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([node("a", labels={"disk": None}), thing[0]]))
    assert (run.returncode, run.stderr) == (0, "") and run.stdout.startswith("default/p -> a ")


def test_an_object_that_does_not_count_may_say_anything():
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([node("a"), pod("p"), kind("ConfigMap", "c", spec=7)]))
    assert (run.returncode, run.stderr) == (0, "")


WITH_CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}


@table("spec, thing, said", {
    "a claim with annotations that are a list": (
        WITH_CLAIM, {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "annotations": []}, "spec": {"accessModes": MODES}},
        "metadata.annotations: expected an object, got []"),
    "... or that is bound": (
        WITH_CLAIM, {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "annotations": []},
                     "spec": {"accessModes": MODES, "volumeName": "v"}},
        "metadata.annotations: expected an object, got []"),
    "a class whose provisioner is a list": (
        WITH_CLAIM, {"kind": "StorageClass", "metadata": {"name": "s"}, "provisioner": []},
        "provisioner: expected a string, got []"),
    "a node that takes a list of volumes": (
        WITH_CLAIM,
        {"kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": [{"name": "p", "allocatable": {"count": []}}]}},
        "count: expected a whole number, got []"),
})
def test_what_a_rule_cannot_read_is_why_the_pod_stays_pending(spec, thing, said):
    made = {"kind": "StorageClass", "metadata": {"name": "s"}, "provisioner": "p",
            "volumeBindingMode": "WaitForFirstConsumer"}
    _, below = pictured(node("n"), made, claim("c", of="s"), pod("p", labels={"app": "web"}, **spec), thing,
                        arguments=["--policy", "DefaultProvider"])
    assert below == [f"default/p stays pending: {said}"]


@table("thing, said", {
    "a CronJob": ({"kind": "CronJob", "metadata": {"name": "c"}, "spec": {"jobTemplate": {}}},
                  "-: CronJob c: no pods are made of its template here: add the pods themselves\n"),
    "a workload of somebody else's": ({"kind": "Rollout", "metadata": {"name": "c"}, "spec": {"template": {}}},
                                      "-: Rollout c: no pods are made of its template here: add the pods themselves\n"),
    "a template of pods that no controller makes": (
        {"kind": "PodTemplate", "metadata": {"name": "c"}, "template": {"spec": {"containers": []}}},
        "-: PodTemplate c: no pods are made of its template here: add the pods themselves\n"),
    "a template of nodes": ({"kind": "NodePool", "metadata": {"name": "c"}, "spec": {"template": {"spec": {"taints": []}}}}, ""),
    "a template of texts": ({"kind": "SealedSecret", "metadata": {"name": "c"}, "spec": {"template": {"type": "Opaque"}}}, ""),
    "what admission obeys": (
        {"kind": "LimitRange", "metadata": {"name": "x"}},
        "-: LimitRange x: pods do not get its requests and limits here: add these to the pods themselves\n"),
    "a quota": (
        {"kind": "ResourceQuota", "metadata": {"name": "x"}},
        "-: ResourceQuota x: pods are not refused because of it here\n"),
    "a class that gives nothing here": (
        pod("q", runtimeClassName="gvisor"), 'Pod q: spec.runtimeClassName: there is no RuntimeClass "gvisor"\n'),
    "a kind that is nearly one that is read": (
        {"kind": "PriorityClas", "metadata": {"name": "x"}},
        f'-: PriorityClas x{LEFT_OUT}: no matches for kind "PriorityClas" in version "scheduling.k8s.io/v1"; '
        'did you mean "PriorityClass"?\n'),
    "a kind in small letters": (
        {"kind": "pod", "metadata": {"name": "x"}},
        f'-: pod x{LEFT_OUT}: no matches for kind "pod" in version "v1"; did you mean "Pod"?\n'),
    "a kind of another group with a name that is near": (
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.example.com"}}, ""),
    "... and of a group whose kinds are read": (
        {"apiVersion": "apps/v1", "kind": "StatefulSets", "metadata": {"name": "x"}},
        f'-: StatefulSets x{LEFT_OUT}: no matches for kind "StatefulSets" in version "apps/v1"; did you mean "StatefulSet"?\n'),
    "a schema in which a field is named as one of pods": (
        {"kind": "CustomResourceDefinition", "metadata": {"name": "x"}, "spec": {"resources": {"type": "object"}, "ports": [{"appProtocol": "x"}]}}, ""),
    "a kind that no rule reads": ({"kind": "ConfigMap", "metadata": {"name": "x"}}, ""),
})
def test_what_is_odd_in_a_manifest_is_said(thing, said):
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([node("a"), pod("p"), thing]), cwd=ROOT)
    assert (run.returncode, run.stderr) == (" is left out, " in said, said)


def test_the_kinds_to_copy_are_those_that_rules_may_ask_for():
    source = "".join(path.read_text() for path in (ROOT / "scheduler_extras" / "rules").glob("*.py"))
    manual = (ROOT / "scheduler_extras" / "README.md").read_text()
    asked = set(re.findall(r'snapshot\.objects\["(\w+)"]|selectors_of\(pod, snapshot, "(\w+)"\)', source))
    short = {"ns": "namespaces", "svc": "services", "rc": "replicationcontrollers", "rs": "replicasets",
             "sts": "statefulsets", "pv": "persistentvolumes", "pvc": "persistentvolumeclaims", "sc": "storageclasses"}
    [copied] = re.findall("get (.*?) ", Manifests.COMMAND)
    copied = {short.get(name, name) for name in copied.split(",")}
    assert {one or other for one, other in asked} <= copied >= GROUPS.keys() - {*CORE}
    assert f"    {Manifests.COMMAND} | " in manual
    assert Manifests.COMMAND in run_scheduler("--help").stdout


def test_a_node_has_its_capacity_unless_it_says_what_is_allocatable():
    capacity = {"capacity": {"cpu": "2", "memory": "4Gi", "pods": "10"}}
    statuses = capacity, {**capacity, "allocatable": None}, {**capacity, "allocatable": {"cpu": "1"}}
    nodes = cluster_of(*({"kind": "Node", "metadata": {"name": f"n-{i}"}, "status": status}
                         for i, status in enumerate(statuses))).look().nodes
    assert [(one.allocatable["cpu"], one.max_pods) for one in nodes.values()] == [(2000, 10), (2000, 10), (1000, 0)]


@table("server", {
    "nobody listens": "http://127.0.0.1:{free}", "nobody has the name": "http://nowhere.invalid:8001",
    "the other end hangs up": "http://127.0.0.1:{silent}"})
def test_without_a_proxy_a_line_says_why_and_what_to_do(server):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        threading.Thread(target=lambda: [silent.accept()[0].close() for _ in range(9)], daemon=True).start()
        url = server.format(silent=silent.getsockname()[1], free=free_port())
        run = run_scheduler("--server", url, "--once")
    assert run.returncode == 1
    assert re.fullmatch(f"cannot reach {url}: [^'()]*; is `kubectl proxy` running there\\? Without it: "
                        "--cluster FILE", run.stderr.splitlines()[-1])


def test_a_signal_ends_the_wait_for_a_proxy_with_exit_code_0(start_scheduler):
    waiting = start_scheduler("--server", f"http://127.0.0.1:{free_port()}")
    wait_for("it has tried", lambda: "cannot reach" in waiting.err)
    waiting.send_signal(signal.SIGTERM)
    assert (waiting.wait(60), waiting.out) == (0, "")
    assert [word in line for word, line in zip(("watching", "checks", "cannot reach", "bound 0, 0 pending"), waiting.err.splitlines(), strict=True)] == [True] * 4


def test_a_run_that_goes_on_says_when_things_happen_and_at_ctrl_c_how_many_it_has_bound(start_scheduler):
    server = ApiServer(node("n"), pod("small"), pod("large", {"cpu": "99"}))
    try:
        running = start_scheduler("--server", server.url)
        wait_for("both are tried", lambda: len(running.out.splitlines()) == 2)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0 and running.err.endswith("\nbound 1, 1 pending\n")
        lines = [line for path in running.files for line in path.read_text().splitlines()]
        assert len(lines) == 5 and all(re.match(r"\d\d:\d\d:\d\d  \S", line) for line in lines), lines
    finally:
        server.stop()


def test_the_version():
    assert run_scheduler("--version").stdout == f"scheduler_extras {VERSION} (decides like kube-scheduler 1.20)\n"
    assert f"scheduler_extras/{VERSION}" == USER_AGENT


def test_a_signal_while_it_waits_for_manifests_is_no_traceback():
    waiting = subprocess.Popen(  # a shell's background jobs, of which these tests may be one, ignore the signal
        [*SCHEDULER, "--cluster", "-", "-v"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    waiting.stdin.write("kind: Pod\n")
    waiting.stdin.flush()
    wait_for("it reads", lambda: fcntl.ioctl(waiting.stdin, termios.FIONREAD, bytes(4)) == bytes(4))
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, err) == (130, "", "")


def test_help_teaches():
    run = run_scheduler("--help")
    assert run.returncode == 0
    for word in ("kubectl proxy", "--policy", "exit codes", "--cluster tests/demo.yaml"):
        assert word in run.stdout


@table("command, said", {
    "a reader that goes away": ("{} | true", ""),
    "a file that may not grow": ("ulimit -f 0; {} > output", "cannot write the output: File too large\n"),
    "an output that is closed": ("{} >&-", ""),
    "a log that is closed": ("{} 2>&- >output || echo failed >&2", ""),
    "an input that is closed": (
        "{} --cluster - <&- >output",
        "-: standard input is empty; has the command before the pipe failed? (Before Kubernetes 1.24, leave out "
        "csistoragecapacities.); this file is left out\n"),
})
def test_output_that_nobody_takes_or_a_stream_that_is_closed_is_no_traceback(command, said, tmp_path):
    command = command.format(f"{' '.join(SCHEDULER)} --cluster {DEMO} --output=json")
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert on_any_machine(run.stderr) == said


@pytest.fixture
def answering():
    """A function that starts an HTTP server which gives every request the same answer; it returns the URL."""
    servers = []

    def start(status, body, **headers):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *arguments):
                pass

        servers.append(QuietServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


NO_PROXY = "GET /api/v1/pods: {}: {{}} is no kubectl proxy, or has no API server behind it: {}"


@table("status, body, said", {
    "a web page": (200, "<html>", NO_PROXY.format("200 OK", "<html>")),
    "JSON that is no list": (200, '{"items": 7}', "the list of pods is not as expected: items: expected a list, got 7"),
    "the proxy cannot reach the API server": (
        502, "dial tcp:\nrefused", NO_PROXY.format("502 Bad Gateway", "dial tcp: refused")),
    "forbidden": (403, json.dumps({"message": 'pods is forbidden: User "x" cannot list resource "pods"'}),
                  'GET /api/v1/pods: 403 Forbidden: RBAC does not allow it: '
                  'pods is forbidden: User "x" cannot list resource "pods"'),
    "forbidden, but not by RBAC": (
        403, json.dumps({"message": 'pods "p" is forbidden: the namespace is being terminated'}),
        'GET /api/v1/pods: 403 Forbidden: pods "p" is forbidden: the namespace is being terminated'),
    "forbidden by kubectl proxy": (
        403, "Forbidden", "GET /api/v1/pods: 403 Forbidden: not let through, as by kubectl proxy's "
        "--accept-hosts or --reject-paths: Forbidden"),
    "too much": (429, json.dumps({"message": "slow down"}), "GET /api/v1/pods: 429 Too Many Requests: slow down"),
})
def test_what_the_api_server_answers_is_said_in_one_line(answering, status, body, said):
    url = answering(status, body)
    run = run_scheduler("--server", url, "--once")
    assert run.returncode == 1
    assert run.stderr.splitlines()[2:] == [said.format(url)]


RULE = """from scheduler import predicate

@predicate("{}")
def rule(pod, node):
    {}
"""


def own_rule(folder, body):
    """The arguments that have a rule of one's own decide, of which this is the body."""
    (folder / "rules.py").write_text("import sys, time\n" + RULE.format("Mine", body))
    (folder / "policy.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Mine"}]}')
    return ["--cluster", str(DEMO), "--plugins", str(folder / "rules.py"), "--policy", str(folder / "policy.json")]


def test_what_a_rule_prints_does_not_get_between_the_lines_of_json(tmp_path):
    run = run_scheduler(*own_rule(tmp_path, "print('looking at', node.name); return []"), "-o", "json")
    assert len([json.loads(line) for line in run.stdout.splitlines()]) == 8
    assert "looking at node-a\n" in run.stderr and "looking at" not in run.stdout
    assert "looking at node-a\n" in run_scheduler(*own_rule(tmp_path, "print('looking at', node.name); return []")).stdout


@table("bind, code, said", {
    "binds": ("return False", 0, "default/web-1 -> "),
    "fails": ("raise ValueError('no')", 1, "default/web-1: ValueError in ")})
def test_a_run_on_manifests_waits_for_a_rule_that_takes_long_to_bind_and(bind, code, said, tmp_path):
    arguments = own_rule(tmp_path, "return []")
    (tmp_path / "rules.py").write_text(
        "import time\nfrom scheduler import predicate\n\n"
        f"def bind(pod, node_name):\n    time.sleep(0.8)\n    {bind}\n"
        "@predicate('Mine', bind=bind)\ndef mine(pod, node): return []\n")
    run = run_scheduler(*arguments)
    assert run.returncode == code and said in run.stdout + run.stderr
    assert ("+web-1" in run.stdout) == (code == 0), "what is not bound is on no node"


def test_a_signal_ends_the_wait_for_a_rule_that_binds(tmp_path):
    arguments = own_rule(tmp_path, "return []")
    (tmp_path / "rules.py").write_text(
        "import time\nfrom scheduler import predicate\n"
        "@predicate('Mine', post_bind=lambda pod, node_name: time.sleep(30))\ndef mine(pod, node): return []\n")
    running = subprocess.Popen([SCHEDULER[0], "-c", PATIENT, *arguments], cwd=ROOT, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(8):  # all are decided about
        running.stdout.readline()
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 1 and "+web-1" in out, "it ends with the picture, and has not done all"


def test_the_end_by_force_comes_after_four_seconds(monkeypatch):
    timer, handle = Mock(), Mock()
    monkeypatch.setattr(threading, "Timer", timer)
    monkeypatch.setattr(signal, "signal", handle)
    stop_on_signals()
    _, end = handle.call_args.args
    end(signal.SIGTERM, None)
    timer.assert_called_once_with(4, os._exit, [1])
    timer.return_value.start.assert_called_once_with()


IMPATIENT = """import sys
sys.path.append("tests")
from scheduler_extras.command_line import main
from scheduler_extras.process import watch_the_loop
watch_the_loop.__defaults__ = (0.5,)
sys.exit(main())"""


def test_a_rule_that_does_not_return_is_named_and_an_end_by_force_is_exit_code_1(tmp_path):
    """After ten seconds, or here half a second; and it ends four seconds after a signal."""
    stuck = subprocess.Popen([SCHEDULER[0], "-c", IMPATIENT, *own_rule(tmp_path, "time.sleep(60)")], cwd=ROOT, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = next(line for line in stuck.stderr if "to decide about" not in line)  # as it may be on a busy machine
    assert said == "Mine is slow: it has taken more than 0.5 s for one pod (rules.py, line 6)\n"
    stuck.send_signal(signal.SIGTERM)
    assert stuck.wait(60) == 1
    stuck.communicate()


@table("seconds, times", {"at once": (0, 1), "after five minutes": (300, 1), "after ten minutes": (601, 2)})
def test_a_warning_is_said_again_after_ten_minutes(seconds, times, monkeypatch, caplog):
    clock = iter([1000, 1000 + seconds])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    for name in ("first", "second"):
        warn_once(f"{name} pod", about="pods")
    assert caplog.messages == ["first pod", "second pod"][:times]


def test_a_plugin_that_is_edited_is_loaded_again_and_a_broken_one_changes_nothing(tmp_path, caplog):
    rules, path = tmp_path / "rules.py", tmp_path / "policy.json"
    path.write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Mine"}, '
                    '{"name": "CheckNodeUnschedulable"}, {"name": "PodToleratesNodeTaints"}], "priorities": []}')
    rules.write_text(RULE.format("Mine", "yield 'first'"))
    file = PolicyFile(str(path), "my-scheduler", [str(rules)])

    def reasons():
        """What the rule says now."""
        [rule] = [rule for rule in file.current()["my-scheduler"].predicates if rule.name == "Mine"]
        return list(rule.function(None, None))

    try:
        assert reasons() == ["first"] and caplog.messages == []
        rules.write_text(RULE.format("Mine", "yield 'the second'"))
        assert reasons() == ["the second"]
        assert caplog.messages == [f"{path}: {rules} has changed"]
        caplog.clear()
        path.write_text(path.read_text() + "\n")
        assert reasons() == ["the second"]
        assert caplog.messages == [f"{path}: says the same as before"], "of rules that nobody has edited nothing is said"
        caplog.clear()
        os.utime(rules, (1, 1))
        assert reasons() == ["the second"] and caplog.messages == [f"{path}: says the same as before"]
        for text, said in (("1 / 0", "line 1: ZeroDivisionError: division by zero"),
                           (RULE.format("Other", "return []"), 'unknown predicate "Mine"')):
            caplog.clear()
            rules.write_text(text)
            assert reasons() == reasons() == ["the second"]
            assert len(caplog.messages) == 1 and said in caplog.text and "the last good Policy stays" in caplog.text
        rules.write_text(RULE.format("Mine", "yield 'the third time'"))
        assert reasons() == ["the third time"]
    finally:
        unplug()


def test_a_policy_that_comes_through_a_pipe_is_read_once(tmp_path):
    """Whoever opens it again waits for somebody who writes."""
    path = tmp_path / "policy.json"
    os.mkfifo(path)
    threading.Thread(target=path.write_text, args=['{"kind": "Policy", "apiVersion": "v1"}'], daemon=True).start()
    file = PolicyFile(str(path), "my-scheduler")
    later = threading.Thread(target=file.current, daemon=True)
    later.start()
    later.join(5)
    assert file.policies and not later.is_alive()


HELPER = ("from scheduler import predicate, priority\n@predicate('Helper')\ndef helper(pod, node): yield '{}'\n"
          "@priority('HostName')\ndef named(pod, node): return 1\n")


def own(folder, reason="closed", **more):
    """Write rules that stand in a file which another one imports; return the Policy's file, and that other one."""
    (folder / "helper_of_mine.py").write_text(HELPER.format(reason))
    (folder / "main_rules.py").write_text("import helper_of_mine\n")
    (folder / "policy.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Helper"}],
        "priorities": [{"name": "HostName", "weight": 1}], **more}))
    return folder / "policy.json", folder / "main_rules.py"


@table("file, text, said, reason", {
    "the Policy: it still knows them, and a priority with the name of a predicate": (
        "policy.json", "{} ", "{policy}: says the same as before", "closed"),
    "what is imported": ("helper_of_mine.py", HELPER.format("locked"), "{folder}/helper_of_mine.py has changed", "locked"),
    "what is imported, in as many bytes": (
        "helper_of_mine.py", HELPER.format("CLOSED"), "{folder}/helper_of_mine.py has changed", "CLOSED"),
    "what is imported is broken": ("helper_of_mine.py", "1 / 0", "line 1: ZeroDivisionError", "closed"),
    "it is imported no more": ("main_rules.py", "", 'unknown predicate "Helper"', "closed"),
})
def test_of_rules_in_an_imported_file_each_edit_is_obeyed(file, text, said, reason, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which the folder is added
    path, rules = own(tmp_path)
    policy_file = PolicyFile(path, "my-scheduler", [rules])

    def reasons():
        """What the rule says now."""
        rule = next(rule for rule in policy_file.current()["my-scheduler"].predicates if rule.name == "Helper")
        return [*rule.function(None, None)]

    try:
        assert reasons() == reasons() == ["closed"]
        caplog.clear()
        before = (tmp_path / file).read_text()
        (tmp_path / file).write_text(text.format(before) if file == "policy.json" else text)
        assert reasons() == reasons() == [reason]
        *_, line = caplog.messages
        assert said.format(policy=path, folder=tmp_path) in line
        names = [rule.name for rule in rules_in(rules)]
        assert sorted(names) == ["Helper", "HostName"] and "Helper" in PREDICATES, "also if the load has failed"
        caplog.clear()
        (tmp_path / file).write_text(before + "\n")
        assert reasons() == ["closed"] and "stays" not in caplog.text, "mended"
    finally:
        unplug()
    assert "helper_of_mine" not in sys.modules and "Helper" not in PREDICATES


def test_rules_in_an_imported_file_are_known_to_each_policy_that_is_compared(tmp_path):
    path, rules = own(tmp_path)
    run = run_scheduler("--cluster", DEMO, "--plugins", rules, "--policy", path, "--compare", path)
    assert run.returncode == 0 and "0 of 8 pods land elsewhere" in run.stdout, run


def test_that_no_pod_of_a_live_cluster_names_it_is_said(answering):
    for server, said in (answering(200, '{"items": []}'), NOBODY_WAITS), (answering(403, "{}"), "403"):
        run = run_scheduler("--server", server, "--once")
        assert len(run.stderr.splitlines()) == 3 and said in run.stderr.splitlines()[2]


LOOKS_AT_NO = ("my-scheduler: no rule in policy.json checks claims, required spreading, required pod affinity, required pod anti-affinity; "
               "--policy DefaultProvider does")


@table("arguments, is_placed", {
    "the shipped Policy, which is for teaching": ([], True),
    "kube-scheduler's defaults": (["--policy", "DefaultProvider"], False)})
def test_what_no_rule_looks_at_is_said_when_a_live_cluster_is_scheduled_and_in_the_event(arguments, is_placed):
    server = ApiServer(node("a"), pod("p", **WITH_CLAIM), pod("q"))
    try:
        run = run_scheduler("--server", server.url, "--once", *arguments)
        events = {asked.json["involvedObject"]["name"]: asked.json["message"]
                  for asked in list(server.asked) if asked.path.endswith("/events")}
    finally:
        server.stop()
    assert run.stderr.splitlines()[1:2] == ([LOOKS_AT_NO] if is_placed else [])
    assert events["q"] == "Successfully assigned default/q to a"
    assert events["p"] == (
        "Successfully assigned default/p to a, though it has claims, and CheckVolumeBinding, which looks at that, is not "
        "active" if is_placed else '0/1 nodes are available: 1 persistentvolumeclaim "c" not found.')


@table("arguments, said", {
    "a configuration": (["--config", "DefaultProvider"], "by DefaultProvider:"),
    "a Policy": (["--policy-config-file", "policy.json"], "by policy.json:"),
    "a provider": (["--algorithm-provider=ClusterAutoscalerProvider"], "by ClusterAutoscalerProvider:"),
    "no election": (["--leader-elect=false"], "by policy.json:"),
})
def test_kube_schedulers_own_flags_are_understood(arguments, said):
    run = run_scheduler("--cluster", DEMO, "--explain", "report", *arguments, cwd=ROOT)
    assert run.returncode == 0 and said in " ".join(run.stdout.split())


FLAGS = [name for name in REPLACEMENTS if name.startswith("--")]


OURS = [flag for flag in option_parser()._option_string_actions if len(flag) > len("--help")]


@pytest.mark.parametrize("flag", [*FLAGS, *sorted({flag[:-1] for flag in OURS} - {*OURS})])
def test_each_hint_about_a_flag_leads_to_something_that_works(flag, capsys):
    while True:
        with pytest.raises(SystemExit):
            read_arguments([flag])
        said = capsys.readouterr().err
        if found := re.search(r"; use (--\S+)|; did you mean \"(--\S+)\"", said):
            flag = found[1] or found[2]
            if flag in REPLACEMENTS:
                continue
            assert flag in OURS
        elif found := re.search(r"; use (\w+) in the Policy", said):
            assert found[1] in POLICY
        else:
            assert "; use kubectl --kubeconfig FILE proxy" in said or ";" not in said or "ConfigMap" in said
        return


def test_the_flag_overrules_the_configuration_about_leader_election(answering, tmp_path):
    (tmp_path / "config.yaml").write_text(f"""kind: KubeSchedulerConfiguration
apiVersion: {CONFIGURATION_VERSION}
leaderElection: {{leaderElect: true}}""")
    run = run_scheduler("--server", answering(200, '{"items": []}'), "--config", tmp_path / "config.yaml", "--once",
                        "--leader-elect=false")
    assert run.returncode == 0 and "no pod waits" in run.stderr


def test_the_tables_of_the_documents_have_every_rule():
    rules = (ROOT / "scheduler_extras" / "docs" / "rules.md").read_text()
    tutorial = (ROOT / "scheduler_extras" / "examples" / "tutorial_rules.py").read_text()  # which other tests have registered
    names = [name for name in [*known_names("predicates"), *known_names("priorities")]
             if f'("{name}"' not in tutorial]
    arguments = {rule.name: rule.member for rule in [*PREDICATES.values(), *PRIORITIES.values()]}
    assert [name for name in names if f"`{arguments.get(name) or name}`" not in rules] == []


@table("thing, requests", {
    "limits are requests": (limited({"cpu": "3", "memory": "1Gi"}), {"cpu": 3000, "memory": 2**30}),
    "of a resource that is not requested": (
        limited({"cpu": "3", "memory": "1Gi"}, {"cpu": "1"}), {"cpu": 1000, "memory": 2**30}),
    "also of init containers": (limited({"cpu": "3"}, kind="initContainers"), {"cpu": 3000, "memory": 0}),
    "an explicit nothing stays nothing": (limited({"cpu": "3"}, {"cpu": "0"}), {"cpu": 0, "memory": 0}),
    "no limits": (pod("p", {"cpu": "1"}), {"cpu": 1000, "memory": 0}),
})
def test_limits_count_as_requests_that_are_not_given(thing, requests):
    manifests = Manifests()
    manifests.add(thing)
    once = thing["spec"]
    manifests.add(thing)
    assert thing["spec"] == once, "what is complete stays as it is"
    [read] = a_cluster(manifests).waiting_pods({"my-scheduler": None})
    assert {name: read.requests[name] for name in requests} == requests


@table("spec, ports", {
    "on the host's network": ({"hostNetwork": True}, [80]),
    "on the pod's own": ({}, []),
    "where a host port is given already": ({"hostNetwork": True, "hostPort": 80}, [80]),
})
def test_on_the_hosts_network_ports_are_host_ports(spec, ports):
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


@table("spec, priority, said", {
    "a class in the manifests, even behind the pod": ({"priorityClassName": "high"}, 1000, ""),
    "for nodes": ({"priorityClassName": "system-node-critical"}, 2000001000, ""),
    "for clusters": ({"priorityClassName": "system-cluster-critical"}, 2000000000, ""),
    "no class: the default one": ({}, 7, ""),
    "a priority of its own, as in a copy": ({"priority": 3, "priorityClassName": "high", "uid": "1"}, 3, ""),
    "that of its class": ({"priority": 1000, "priorityClassName": "high"}, 1000, ""),
    "a class that is not there": (
        {"priorityClassName": "hihg"}, 0, 'Pod p: spec.priorityClassName: there is no PriorityClass "hihg"; '
        'did you mean "high"?'),
})
def test_a_priority_class_gives_its_priority(spec, priority, said, tmp_path, caplog):
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all([
        node("n"), pod("p", metadata={"uid": spec.pop("uid")} if "uid" in spec else {}, **spec), priority_class("high", 1000),
        priority_class("usual", 7, globalDefault=True)]))
    [read] = a_cluster(Manifests([path])).waiting_pods({"my-scheduler": None})
    assert (read.priority, caplog.messages) == (priority, [said] if said else [])


LIMITS = {"limits": {"cpu": "2", "memory": "2Gi"}}


@table("things, requests", {
    "limits of a pod as a whole": ([pod("p", resources=LIMITS)], {"cpu": 2000, "memory": 2**31}),
    "... where containers request something": ([pod("p", {"cpu": "1"}, resources=LIMITS)], {"cpu": 1000, "memory": 2**31}),
    "... and its own requests": (
        [pod("p", resources=LIMITS | {"requests": {"cpu": "1500m"}})], {"cpu": 1500, "memory": 2**31}),
    "... where one of its containers requests nothing, which counts as nothing, too": (
        [pod("p", resources=LIMITS, containers=[
            {"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}, {"name": "b"}])],
        {"cpu": 500, "memory": 2**30}),
})
def test_what_a_pod_requests_is_completed_as_a_cluster_does(things, requests, tmp_path):
    read = completed_pod(tmp_path, *things)
    assert {name: read.requests[name] for name in requests} == requests
    assert {name: read.nonzero[name] for name in requests} == requests, "also in scores, as the pod is a whole"


def completed_pod(tmp_path, *things):
    """The pod among these manifests, as it is once all are read."""
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node("n"), *things]))
    [read] = a_cluster(Manifests([tmp_path / "cluster.yaml"])).waiting_pods({"my-scheduler": None})
    return read


def test_each_namespace_has_a_label_with_its_name(tmp_path):
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([
        node("n"), kind("Namespace", "red", metadata={"labels": {"team": "red"}}), pod("p", namespace="blue")]))
    namespaces = Manifests([tmp_path / "cluster.yaml"]).by_name("namespaces")
    assert {name: thing["metadata"]["labels"] for name, thing in namespaces.items()} == {
        "red": {"team": "red", "kubernetes.io/metadata.name": "red"}, "blue": {"kubernetes.io/metadata.name": "blue"}}


DEFAULT = {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
           "volumeBindingMode": "WaitForFirstConsumer", "provisioner": "x"}


@table("spec, metadata, name", {
    "none: the default one": ({}, {}, "usual"),
    "none, in a copy": ({}, {"uid": "1"}, None),
    "one of its own": ({"storageClassName": "mine"}, {}, "mine"),
    "explicitly none": ({"storageClassName": ""}, {}, ""),
    "one of its own, in an annotation": ({}, {"annotations": {"volume.beta.kubernetes.io/storage-class": "mine"}}, None),
})
def test_a_claim_without_a_class_gets_the_default_one(spec, metadata, name, tmp_path):
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([
        node("n"), kind("PersistentVolumeClaim", "c", spec=spec, metadata=metadata), kind("StorageClass", "usual", **DEFAULT),
        kind("StorageClass", "other", provisioner="x")]))
    manifests = Manifests([tmp_path / "cluster.yaml"])
    claim = manifests.objects["persistentvolumeclaims", "default", "c"]
    assert claim["spec"].get("storageClassName") == name


@table("first, second", {
    "the second one is younger": ("2025-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
    "both are of an age": ("2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z"),
})
def test_of_two_default_classes_the_youngest_counts_then_the_first_by_name(first, second, tmp_path):
    classes = [kind("StorageClass", name, **DEFAULT | {"metadata": DEFAULT["metadata"] | {"creationTimestamp": created}})
               for name, created in (("a", first), ("b", second))]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node("n"), kind("PersistentVolumeClaim", "c"), *classes]))
    manifests = Manifests([tmp_path / "cluster.yaml"])
    assert manifests.objects["persistentvolumeclaims", "default", "c"]["spec"]["storageClassName"] == "a"


LATE = kind("StorageClass", "late", volumeBindingMode="WaitForFirstConsumer", provisioner="x")


@table("things, said", {
    "an immediate claim that is provisioned for": (
        [kind("PersistentVolumeClaim", "c", spec={"storageClassName": "soon"}), kind("StorageClass", "soon", provisioner="x")], None),
    "... of a class that provisions none": (
        [kind("PersistentVolumeClaim", "c", spec={"storageClassName": "by-hand"}),
         kind("StorageClass", "by-hand", provisioner="kubernetes.io/no-provisioner")],
        'PersistentVolumeClaim c: it stays unbound: no PersistentVolume matches, and StorageClass "by-hand" has no provisioner'),
    "... of a class that is not there": (
        [kind("PersistentVolumeClaim", "c", spec={"storageClassName": "gone"})],
        'PersistentVolumeClaim c: it stays unbound: no PersistentVolume matches, and there is no StorageClass "gone"'),
    "... of no class": (
        [kind("PersistentVolumeClaim", "c")],
        "PersistentVolumeClaim c: it stays unbound: no PersistentVolume matches, and it has no StorageClass"),
    "... that was copied so": (
        [kind("PersistentVolumeClaim", "c", metadata={"uid": "1"}, spec={"storageClassName": "soon"}),
         kind("StorageClass", "soon", provisioner="x")],
        "PersistentVolumeClaim c: it was not bound when it was copied, and is not here"),
    "... to a volume that is not there": (
        [kind("PersistentVolumeClaim", "c", spec={"volumeName": "v"})],
        "PersistentVolumeClaim c: it stays unbound: its volume v is not there"),
    "... or is another claim's": (
        [kind("PersistentVolumeClaim", "c", spec={"volumeName": "v"}),
         kind("PersistentVolume", "v", spec={"claimRef": {"namespace": "default", "name": "d"}})],
        "PersistentVolumeClaim c: it stays unbound: its volume v does not match, or belongs to another claim"),
    "a volume that is no claim's": ([kind("PersistentVolume", "v", spec={"capacity": {"storage": "1Gi"}})], None),
    "... that a claim has": ([kind("PersistentVolume", "v"), kind("PersistentVolumeClaim", "c", spec={"volumeName": "v"})], None),
    "a claim that waits for its pod": ([kind("PersistentVolumeClaim", "c", spec={"storageClassName": "late"}), LATE], None),
})
def test_what_pods_wait_for_in_vain_among_manifests_is_said(things, said, tmp_path, caplog):
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node("n"), *things]))
    Manifests([tmp_path / "cluster.yaml"])
    assert caplog.messages == ([said] if said else [])


def test_that_nobody_is_preempted_is_said_of_the_first_pod_that_might_preempt():
    classes = [priority_class(f"p{value}", value) for value in (0, 7, 8)]
    things = [node("n"), *classes, *(pod(name, {"cpu": "9"}, priorityClassName=of) for name, of in (("a", "p0"), ("b", "p7"), ("c", "p8")))]
    _, said = placed(text=yaml.safe_dump_all(things))
    assert said == ("kube-scheduler might delete less important pods to place default/c; to do so, too: --preempt, "
                    "or Preemption among the predicates\n")


def tolerating(sign):
    """A pod with a toleration."""
    return pod("p", tolerations=[{"key": "gpu", "operator": sign}])


def choosing(sign, values=("ssd",)):
    """A pod with required node affinity."""
    return pod("p", affinity={"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": sign, "values": [*values]}]}]}}})


CHOICE = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"


@table("thing, said", {
    "a taint's effect": (
        pod("p", tolerations=[{"key": "a", "effect": "Noschedule"}]), 'spec.tolerations[0].effect: expected one of '
        'NoExecute, NoSchedule, PreferNoSchedule, got "Noschedule"'),
    "a toleration in a container": (
        pod("p", containers=[{"name": "c", "tolerations": []}]),
        "spec.containers[0].tolerations: belongs in spec, beside containers"),
    "... in an init container": (
        pod("p", initContainers=[{"name": "b"}, {"name": "c", "affinity": {}}]),
        "spec.initContainers[1].affinity: belongs in spec, beside containers"),
    "an amount that is neither requested nor a limit": (
        pod("p", containers=[{"name": "c", "resources": {"cpu": 1}}]),
        "spec.containers[0].resources.cpu: belongs in requests or limits"),
    "a resource that there is not": (
        pod("p", {"CPU": 1}), "spec.containers[0].resources.requests.CPU: no such resource; expected cpu, memory, "
        "ephemeral-storage, or example.com/CPU"),
    "resources that there are": (
        pod("p", containers=[{"name": "c", "resources": {
            "requests": {"cpu": "500m"}, "limits": {"cpu": 1, "hugepages-2Mi": "2Mi", "example.com/gpu": 1}}}],
            resources={"limits": {"cpu": 1}}), None),
    "more requested than the limit": (
        pod("p", containers=[{"name": "c", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1999m"}}}]),
        "spec.containers[0].resources.requests.cpu: must be less than or equal to cpu limit"),
    "a device without a limit": (
        pod("p", {"example.com/gpu": 1}),
        "spec.containers[0].resources.limits.example.com/gpu: Limit must be set for non overcommitable resources"),
    "... with another limit": (
        pod("p", containers=[{"name": "c", "resources": {"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}}}]),
        "spec.containers[0].resources.requests.example.com/gpu: must be equal to example.com/gpu limit"),
    "half a device": (
        pod("p", containers=[{"name": "c", "resources": {"limits": {"example.com/gpu": "0.5"}}}]),
        "spec.containers[0].resources.requests.example.com/gpu: must be an integer"),
    "a resource of Kubernetes' own may be overcommitted": (pod("p", {"kubernetes.io/batch": 1}), None),
    "a port of an unknown protocol": (
        pod("p", containers=[{"name": "c", "ports": [{"hostPort": 80, "protocol": "tcp"}]}]),
        'spec.containers[0].ports[0].protocol: expected one of SCTP, TCP, UDP, got "tcp"'),
    "a port that is too large": (
        pod("p", containers=[{"name": "c", "ports": [{"hostPort": 65536}]}]),
        "spec.containers[0].ports[0].hostPort: expected from 0 to 65535, got 65536"),
    "seconds of a toleration that evicts nobody": (
        pod("p", tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]),
        "spec.tolerations[0].effect: must be 'NoExecute' when `tolerationSeconds` is set"),
    "a toleration's value without quotes": (
        pod("p", tolerations=[{"key": "a", "value": True}]),
        "spec.tolerations[0].value: expected a string, got true"),
    "a preferred term outside of podAffinityTerm": (
        pod("p", affinity={"podAntiAffinity": {f"preferred{WHEN}": [
            {"weight": 1, "topologyKey": "zone", "labelSelector": {}}]}}),
        f"spec.affinity.podAntiAffinity.preferred{WHEN}[0].topologyKey: belongs in podAffinityTerm"),
    "a preferred term outside of preference": (
        pod("p", affinity={"nodeAffinity": {f"preferred{WHEN}": [{"weight": 1, "matchExpressions": []}]}}),
        f"spec.affinity.nodeAffinity.preferred{WHEN}[0].matchExpressions: belongs in preference, if it is of nodes"),
    "node affinity that is required as a list": (
        pod("p", affinity={"nodeAffinity": {f"required{WHEN}": [{}]}}),
        f"spec.affinity.nodeAffinity.required{WHEN}: expected an object, got [{{}}]"),
    "pod affinity that is required as an object": (
        pod("p", affinity={"podAffinity": {f"required{WHEN}": {"topologyKey": "z"}}}),
        f'spec.affinity.podAffinity.required{WHEN}: expected a list, got {{"topologyKey": "z"}}'),
    "requests outside of resources": (
        pod("p", containers=[{"name": "c", "requests": {"cpu": 1}}]), "spec.containers[0].requests: belongs in resources"),
    "a policy of a spread constraint": (
        pod("p", topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway",
                                             "nodeTaintsPolicy": "honor"}]),
        'spec.topologySpreadConstraints[0].nodeTaintsPolicy: expected one of Honor, Ignore, got "honor"'),
    "domains of a constraint that does not insist": (
        pod("p", topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway",
                                             "minDomains": 2}]),
        "spec.topologySpreadConstraints[0].minDomains: must be left out where whenUnsatisfiable is ScheduleAnyway"),
    "an operator that selectors of pods do not have": (
        pod("p", topologySpreadConstraints=[{
            "maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}]),
        "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator: Gt is for nodes only"),
    "a preference without a weight": (
        pod("p", affinity={"nodeAffinity": {f"preferred{WHEN}": [{"preference": {}}]}}),
        f"spec.affinity.nodeAffinity.preferred{WHEN}[0].weight: Required value"),
    "... with a weight above 100": (
        pod("p", affinity={"nodeAffinity": {f"preferred{WHEN}": [{"weight": 101, "preference": {}}]}}),
        f"spec.affinity.nodeAffinity.preferred{WHEN}[0].weight: expected from 1 to 100, got 101"),
    "node affinity without terms": (
        pod("p", affinity={"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": []}}}),
        f"spec.affinity.nodeAffinity.required{WHEN}.nodeSelectorTerms: Required value"),
    "an operator that needs values": (
        choosing("In", []), f"{CHOICE}.matchExpressions[0].values: must be specified when `operator` is 'In' or 'NotIn'"),
    "an operator that takes a number": (
        choosing("Gt", ["x"]),
        f"{CHOICE}.matchExpressions[0]: for 'Gt', 'Lt' operators, the value must be an integer"),
    "a field of nodes that nobody looks at": (
        pod("p", affinity={"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]}]}}}),
        f'{CHOICE}.matchFields[0].key: expected one of metadata.name, got "spec.x"'),
    "a label that no node can have": (
        pod("p", nodeSelector={"disk": "very fast"}),
        'spec.nodeSelector: invalid label value: "very fast": at key: "disk"'),
    "a key that no label can have": (
        pod("p", nodeSelector={"very fast": "yes"}), 'spec.nodeSelector: invalid label key: "very fast"'),
    "... of a toleration": (
        pod("p", tolerations=[{"key": "a b", "operator": "Exists"}]),
        'spec.tolerations[0].key: expected a name, such as example.com/gpu, got "a b"'),
    "... of a domain": (
        pod("p", topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone ", "whenUnsatisfiable": "ScheduleAnyway"}]),
        'spec.topologySpreadConstraints[0].topologyKey: expected a name, such as example.com/gpu, got "zone "'),
    "a value that no taint can have": (
        pod("p", tolerations=[{"key": "a", "value": "b c"}]),
        'spec.tolerations[0].value: expected a label\'s value, got "b c"'),
    "an expression without a key": (
        pod("p", affinity={"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": [
            {"matchExpressions": [{"operator": "Exists"}]}]}}}),
        f"{CHOICE}.matchExpressions[0].key: Required value"),
    "a label of the pod": (
        pod("p", labels={"app": "web/1"}), 'metadata.labels: invalid label value: "web/1": at key: "app"'),
    "a claim without a name": (
        pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"readOnly": True}}]),
        "spec.volumes[0].persistentVolumeClaim.claimName: Required value"),
    "what nobody looks at in volumes": (
        pod("p", volumes=[{"name": "v", "projected": {"sources": [{"labels": {"a": "b c"}}]}}]), None),
    "a value where any will do": (
        pod("p", tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        "spec.tolerations[0].value: must be empty when `operator` is 'Exists'"),
    "a toleration of any key, but one value": (
        pod("p", tolerations=[{"value": "b"}]), "spec.tolerations[0].operator: must be Exists when `key` is empty"),
    "a term without a domain": (
        pod("p", affinity={"podAntiAffinity": {f"required{WHEN}": [{"labelSelector": {}}]}}),
        f"spec.affinity.podAntiAffinity.required{WHEN}[0].topologyKey: Required value"),
    "a preferred one": (
        pod("p", affinity={"podAffinity": {f"preferred{WHEN}": [{"weight": 1, "podAffinityTerm": {}}]}}),
        f"spec.affinity.podAffinity.preferred{WHEN}[0].podAffinityTerm.topologyKey: Required value"),
    "a skew of none": (
        pod("p", topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]),
        "spec.topologySpreadConstraints[0].maxSkew: expected from 1 to 2147483647, got 0"),
    "a constraint without a skew": (
        pod("p", topologySpreadConstraints=[{"topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]),
        "spec.topologySpreadConstraints[0].maxSkew: Required value"),
    "a selector that is a text": (
        pod("p", topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway",
                                             "labelSelector": "app=web"}]),
        'spec.topologySpreadConstraints[0].labelSelector: expected an object, got "app=web"'),
    "labels may have any name": (pod("p", labels={"tolerationz": "x"}, nodeSelector={"request": "y"}), None),
    "an operator of tolerations": (
        tolerating("Exist"), 'spec.tolerations[0].operator: expected one of Equal, Exists, Gt, Lt, got "Exist"'),
    "an operator of tolerations, in the plural": (
        tolerating("Equals"), 'spec.tolerations[0].operator: expected one of Equal, Exists, Gt, Lt, got "Equals"'),
    "an operator of selectors": (
        choosing("Equals"), f"{CHOICE}.matchExpressions[0].operator: expected one of "
        'DoesNotExist, Exists, Gt, In, Lt, NotIn, got "Equals"'),
    "operators that there are": (tolerating("Exists"), None),
    "and of selectors": (choosing("NotIn"), None),
    "an operator that is a list": (
        tolerating(["Exists"]), 'spec.tolerations[0].operator: expected one of Equal, Exists, Gt, Lt, got ["Exists"]'),
    "names that are near others, and right": (pod(
        "p", volumes=[{"name": "v", "image": {"reference": "x"}}], status={"containerStatuses": [{"imageID": "x"}]},
        topologySpreadConstraints=[{
            "mismatchLabelKeys": [], "nodeTaintsPolicy": "Honor", "topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]), None),
    "that is near none": (pod("p", zzz=1, hostname="x", serviceAccountName="y", containers=[
        {"name": "c", "volumeMounts": [], "restartPolicyRules": []}]), None),
    "of a copy, which somebody has edited": (
        pod("p", metadata={"uid": "1"}, tolerations=[{"key": "a", "effect": "x"}]),
        'spec.tolerations[0].effect: expected one of NoExecute, NoSchedule, PreferNoSchedule, got "x"'),
    "of none": (pod("p", nodeSelector={}, containers=[{"name": "c", "resources": {}}]), None),
})
def test_what_an_api_server_refuses_of_a_pod_is_named(thing, said):
    decisions, err = placed(thing)
    is_refused = said is not None and not re.search(": belongs |the value must be an integer", said)
    assert err.splitlines()[:1] == ([f"-: Pod p{LEFT_OUT if is_refused else ''}: {said}"] if said else [])
    assert ("default/p" in decisions) != is_refused


@table("thing, said", {
    "a taint without an effect": (node("m", taints=[{"key": "a"}]), f"Node m{LEFT_OUT}: spec.taints[0].effect: Required value"),
    "a class of volumes with an unknown mode": (
        kind("StorageClass", "s", provisioner="x", volumeBindingMode="waitForFirstConsumer"),
        f'StorageClass s{LEFT_OUT}: volumeBindingMode: expected one of Immediate, WaitForFirstConsumer, got "waitForFirstConsumer"'),
    "a class of pods with an unknown policy": (
        kind("PriorityClass", "c", value=1, preemptionPolicy="never"),
        f'PriorityClass c{LEFT_OUT}: preemptionPolicy: expected one of Never, PreemptLowerPriority, got "never"'),
    "a volume of nodes that there cannot be": (
        kind("PersistentVolume", "v", status={"phase": "Available"}, spec={"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}]}}}),
        f"PersistentVolume v{LEFT_OUT}: spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator: "
        'expected one of DoesNotExist, Exists, Gt, In, Lt, NotIn, got "in"'),
})
def test_what_an_api_server_refuses_of_other_kinds_is_named(thing, said, tmp_path, caplog):
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node("n"), thing]))
    Manifests([tmp_path / "cluster.yaml"])
    assert [message.partition("cluster.yaml: ")[2] for message in caplog.messages] == ([said] if said else [])


@table("spec, policy", {
    "that of its class": ({"priorityClassName": "meek"}, "Never"),
    "the class says none": ({"priorityClassName": "bold"}, None),
    "its own": ({"priorityClassName": "meek", "preemptionPolicy": "Never"}, "Never"),
    "a pod without a class": ({}, None)})
def test_a_pod_gets_the_preemption_policy_of_its_class(spec, policy, tmp_path):
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([
        node("n"), pod("p", **spec), kind("PriorityClass", "meek", value=7, preemptionPolicy="Never"),
        kind("PriorityClass", "bold", value=9)]))
    given = Manifests([tmp_path / "cluster.yaml"]).objects["pods", "default", "p"]["spec"]
    assert given.get("preemptionPolicy") == policy


def test_what_is_refused_of_a_node_or_comes_twice_is_said():
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([
        node("n"), node("m", taints=[{"key": "a", "effect": "Noschedule"}]), node("n"), node("n", cpu="1")]))
    assert sorted(run.stderr.splitlines()[:2], reverse=True) == [
        "-: Node n: there is one of this name already, which this one replaces",
        f'-: Node m{LEFT_OUT}: spec.taints[0].effect: expected one of NoExecute, NoSchedule, PreferNoSchedule, got "Noschedule"']


def test_a_pod_with_scheduling_gates_is_no_pod_that_waits():
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([
        node("n"), pod("p", schedulingGates=[{"name": "quota"}])]))
    assert run.stderr == NOBODY_IS_READY + "\n"


LONG = '{"kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": "my-scheduler", "containers": [{}]},, }'


@table("text, said", {
    "a tab that indents": (
        "kind: Pod\nmetadata:\n\tname: p\n", "line 3: a tab; YAML is indented with spaces: name: p"),
    "a key that comes twice": ("kind: Pod\nkind: Pod\n", 'line 2: duplicate key "kind": kind: Pod'),
    "... as --- is missing between two objects": (
        "kind: Pod\nmetadata: {name: p}\nkind: Pod\n",
        'line 3: duplicate key "kind"; if a second object begins here, the line --- is missing above it: kind: Pod'),
    "... of another kind": ("kind: Pod\nspec:\n  a: 1\n  a: 2\n", 'line 4: duplicate key "a": a: 2'),
    "another mistake": ("a: b: c", "line 1: mapping values are not allowed in this context: a: b: c"),
    "the place in JSON is quoted whole": (LONG, f"line 1: Expecting property name enclosed in double quotes: {LONG}"),
    "but of a line that is very long, what is near": (
        '{"a": ' + "1" * 1000 + " x}", "line 1: Expecting ',' delimiter: " + "1" * 150 + " x}"),
})
def test_the_place_of_a_mistake_in_a_file_is_named(text, said):
    run = run_scheduler("--cluster", "-", input=text)
    assert (run.returncode, run.stderr) == (2, f"-: {said}\n")
