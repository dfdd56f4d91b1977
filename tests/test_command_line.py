"""The command line: what it prints, its exit codes, and the README's promises."""

import json
import re
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import scheduler
import yaml
from conftest import ROOT, SCHEDULER, free_port, run_scheduler, table

DEMO = ROOT / "tests" / "clusters" / "demo.yaml"


def test_the_demo_tells_what_its_comments_say():
    run = run_scheduler("--cluster", DEMO)
    assert (run.returncode, run.stderr) == (0, "")
    decisions, pods, nodes = run.stdout.split("\n\n")
    places = dict(re.findall(r"^default/(\S+) -> (\S+)  \(\d of 5 nodes fit, score \d+\)$", decisions, re.M))
    assert places == {"web-1": "node-b", "web-2": "node-b", "cache": "node-a", "report": "node-a",
                      "training": "node-gpu", "ingress-1": "node-b", "ingress-2": "node-a"}
    assert decisions.splitlines()[-1].startswith("default/warehouse stays pending: 0/5 nodes are available: 1 ")
    rows = [row.split() for row in pods.splitlines()]
    assert rows[0] == ["NAMESPACE", "NAME", "STATUS", "CPU", "MEMORY", "NODE"]
    assert {row[1]: row[-1] for row in rows[1:]} == places | {"database": "node-a", "warehouse": "<none>"}
    assert ["node-a", "4/110", "3000m/4000m", "(75%)", "5376Mi/8192Mi", "(65%)"] in [
        row.split() for row in nodes.splitlines()]


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
        "raw": report["raw"], "scores": report["scores"], "total": report["total"], "held": False, "message": None}
    assert report["raw"]["NodeAffinityPriority"] == {"node-a": 1, "node-b": 0}, "the weight of the one term"
    assert report["scores"]["NodeAffinityPriority"] == {"node-a": 200, "node-b": 0}, "weight 2"
    assert report["total"] == {name: sum(scores[name] for scores in report["scores"].values())
                               for name in ("node-a", "node-b")}
    assert lines["default/cache"]["scores"]["LeastRequestedPriority"].keys() == {"node-a"}, "one alone is scored, too"
    assert (lines["default/warehouse"]["node"], lines["default/warehouse"]["total"]) == (None, {})


def test_a_seed_repeats_the_run():
    runs = {run_scheduler("--cluster", DEMO, "--seed=x", "--output=json").stdout for _ in range(3)}
    assert len(runs) == 1


def test_a_dry_run_says_so_and_sees_its_own_placements():
    real, dry = run_scheduler("--cluster", DEMO), run_scheduler("--cluster", DEMO, "--dry-run")
    assert dry.stdout.replace(" (dry run)", "") == real.stdout
    lines = [line for line in dry.stdout.splitlines() if line]
    assert all(line.endswith(" (dry run)") for line in lines) and len(lines) > 8


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


@table("arguments, said", {
    "an unknown flag": (["--frobnicate"], "unrecognized arguments: --frobnicate"),
    "an interval that is no time": (["--interval=never"], "argument --interval: invalid seconds value: 'never'"),
    "an interval of nothing": (["--interval=0"], "argument --interval: invalid seconds value: '0'"),
    "a server that is no URL": (["--server=localhost:8001"], "expected a URL such as http://127.0.0.1:8001"),
    "a Policy that is not there": (["--policy=nowhere.json"], "nowhere.json: No such file or directory"),
    "a manifest that is not there": (["--cluster", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
    "a manifest that is no YAML": (["--cluster", "-"], "-: while parsing"),
})
def test_wrong_usage_is_exit_code_2(arguments, said):
    run = run_scheduler(*arguments, "--once", input="a: [b\n")
    assert run.returncode == 2
    assert said in run.stderr and "Traceback" not in run.stderr


@table("thing, said", {
    "text": ("just text", 'it: expected an object, got "just text"'),
    "an object without a name": (
        {"kind": "Pod"}, 'expected a Kubernetes object with kind and metadata.name, got {"kind": "Pod"}'),
    "a Service that selects by a list": (
        {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": ["web"]}},
        'Service s: spec.selector: expected an object, got ["web"]'),
    "a ReplicaSet that selects by a number": (
        {"kind": "ReplicaSet", "metadata": {"name": "r"}, "spec": {"selector": {"matchLabels": {"v": 1}}}},
        "ReplicaSet r: matchLabels[v]: expected a string, got 1"),
    "a volume of no size": (
        {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"capacity": {"storage": "big"}}},
        'PersistentVolume v: "big" is not a quantity, such as 100m, 0.5 or 1.5Gi'),
    "a claim for no size": (
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"resources": {"requests": 5}}},
        "PersistentVolumeClaim c: spec.resources.requests: expected an object, got 5"),
    "a StorageClass with two provisioners": (
        {"kind": "StorageClass", "metadata": {"name": "s"}, "provisioner": ["a", "b"]},
        'StorageClass s: provisioner: expected a string, got ["a", "b"]'),
    "a StorageClass for zones by number": (
        {"kind": "StorageClass", "metadata": {"name": "s"}, "provisioner": "p", "allowedTopologies": [
            {"matchLabelExpressions": [{"key": "zone", "values": [1]}]}]},
        "StorageClass s: values[0]: expected a string, got 1"),
    "a CSINode with any number of volumes": (
        {"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": [
            {"name": "d", "allocatable": {"count": "any"}}]}},
        'CSINode a: allocatable.count: expected a whole number, got "any"'),
})
def test_a_malformed_object_is_named_and_the_others_go_on(thing, said):
    others = [{"kind": "Node", "metadata": {"name": name}} for name in ("a", "b")]
    for text in (yaml.safe_dump({"kind": "List", "items": [others[0], thing, others[1]]}),
                 yaml.safe_dump_all([others[0], thing, others[1]])):
        run = run_scheduler("--cluster", "-", input=text)
        assert run.returncode == 0
        assert run.stderr.splitlines() == [
            f"-: left out: {said}", "no pod waits for my-scheduler: none without a node has this spec.schedulerName"]
        assert re.findall("^[ab] ", run.stdout, re.MULTILINE) == ["a ", "b "]


def test_without_a_proxy_a_line_says_how_to_start_it():
    port = free_port()
    run = run_scheduler("--server", f"http://127.0.0.1:{port}", "--once")
    assert run.returncode == 1
    [_, line] = run.stderr.splitlines()
    assert line == (f"cannot reach http://127.0.0.1:{port}: start `kubectl proxy --port={port}`, or try it without a "
                    "cluster: python scheduler.py --cluster tests/clusters/demo.yaml")


def test_a_signal_ends_the_wait_for_a_proxy_with_exit_code_0(start_scheduler):
    waiting = start_scheduler("--server", f"http://127.0.0.1:{free_port()}")
    assert "polling" in waiting.stderr.readline() and "cannot reach" in waiting.stderr.readline()
    waiting.send_signal(signal.SIGTERM)
    out, err = waiting.communicate(timeout=10)
    assert (waiting.returncode, out, err) == (0, "", "")


def test_a_signal_while_it_waits_for_manifests_is_no_traceback():
    waiting = subprocess.Popen(  # a shell's background jobs, of which these tests may be one, ignore the signal
        [*SCHEDULER, "--cluster", "-", "-v"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    time.sleep(2)
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=10)
    assert (waiting.returncode, out, err) == (130, "", "")


def test_help_teaches():
    run = run_scheduler("--help")
    assert run.returncode == 0
    for word in ("kubectl proxy", "--policy", "exit codes", "--cluster tests/clusters/demo.yaml"):
        assert word in run.stdout


def test_a_reader_that_goes_away_is_no_traceback():
    run = subprocess.run(["bash", "-c", f"{' '.join(SCHEDULER)} --cluster {DEMO} --output=json | true"],
                         capture_output=True, text=True)
    assert "Traceback" not in run.stderr


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

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@table("status, body, said", {
    "a web page": (200, "<html>", "GET /api/v1/pods: 200 OK: {} is not like kubectl proxy"),
    "JSON that is no list": (200, '{"items": 7}', "the list of pods is not as expected: items: expected a list, got 7"),
    "the proxy cannot reach the API server": (
        502, "dial tcp: refused", "GET /api/v1/pods: 502 Bad Gateway: {} is not like kubectl proxy"),
    "forbidden": (403, json.dumps({"message": 'pods is forbidden: User "x" cannot list resource "pods"'}),
                  'GET /api/v1/pods: 403 Forbidden: RBAC does not allow it: '
                  'pods is forbidden: User "x" cannot list resource "pods"'),
    "too much": (429, json.dumps({"message": "slow down"}), "GET /api/v1/pods: 429 Too Many Requests: slow down"),
})
def test_what_the_api_server_answers_is_said_in_one_line(answering, status, body, said):
    url = answering(status, body)
    run = run_scheduler("--server", url, "--once")
    assert run.returncode == 1
    assert run.stderr.splitlines()[1:] == [said.format(url)]


@table("header, seconds", {"seconds": ("3", 3), "a date is not understood": ("Wed, 21 Oct 2026 07:28:00 GMT", 0)})
def test_retry_after_is_read(answering, header, seconds):
    with pytest.raises(scheduler.ApiError) as error:
        scheduler.Proxy(answering(503, "{}", Retry_After=header)).request("GET", "/api/v1/pods")
    assert error.value.retry_after == seconds


def test_the_readmes_random_policy_spreads_pods_at_random(tmp_path):
    [policy] = re.findall(r"^ +(\{.*RandomPriority.*\})$", (ROOT / "README.md").read_text(), re.M)
    (tmp_path / "policy.json").write_text(policy)
    places = {run_scheduler("--cluster", DEMO, "--policy", tmp_path / "policy.json", f"--seed={seed}").stdout
              for seed in range(5)}
    assert len(places) == 5


def test_the_readme_lists_every_rule_and_every_flag():
    readme = (ROOT / "README.md").read_text()
    tutorial = (ROOT / "tests" / "tutorial_rules.py").read_text()  # which other tests have registered
    names = [name for name in [*scheduler.PREDICATES, *scheduler.PRIORITIES, *scheduler.ALIASES, "EqualPriority"]
             if f'("{name}"' not in tutorial]
    arguments = {rule.name: rule.member for rule in [*scheduler.PREDICATES.values(), *scheduler.PRIORITIES.values()]}
    assert [name for name in names if f"`{arguments.get(name) or name}`" not in readme] == []
    flags = set(re.findall("--[a-z][a-z-]+", run_scheduler("--help").stdout)) - {"--help"}
    assert [flag for flag in flags if flag not in readme] == []
