"""The command line: its output and its exit codes."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import threading

from helpers.command_line import DEMO
from helpers.control_plane import free_port, wait_for
from helpers.everywhere import replace
from helpers.extras import ROOT, SCHEDULER, node, pod, run_afresh, run_scheduler, table, without_timing
from helpers.faulty import ApiServer
from scheduler_extras.api.client import USER_AGENT, unreachable
from scheduler_extras.command_line import api_server
from scheduler_extras.common.version import VERSION
from scheduler_extras.options import PROXY


def test_the_output_of_the_demo():
    run = run_scheduler("--cluster", DEMO)
    assert (run.returncode, run.stderr) == (0, "")
    decisions, picture, homeless = run.stdout.split("\n\n")
    placements = dict(re.findall(r"^default/(\S+) -> (\S+)  \(\d of 5 nodes fit, score \d+\)$", decisions, re.M))
    assert placements == {"web-1": "node-b", "web-2": "node-b", "cache": "node-a", "report": "node-a",
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


def test_the_json_output_has_a_line_for_each_decision():
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
    assert lines["default/cache"]["scores"]["LeastRequestedPriority"].keys() == {"node-a"}, "a single node is scored, too"
    assert (lines["default/warehouse"]["node"], lines["default/warehouse"]["total"]) == (None, {})


def test_a_seed_repeats_the_run():
    runs = {run_afresh("--cluster", DEMO, "--seed=x", "--output=json").stdout for _ in range(3)}  # in new interpreters, because the order of sets differs
    assert len(runs) == 1


def test_a_dry_run_is_announced_and_counts_its_own_placements():
    real, dry = run_scheduler("--cluster", DEMO), run_scheduler("--cluster", DEMO, "--dry-run")
    assert (real.stderr, dry.stderr) == ("", "dry run: nothing is written\n")
    assert dry.stdout == real.stdout


EMPTY = "is empty; is a variable of the shell not set?\n"


@table("arguments, message", {
    "an unknown flag": (["--frobnicate"], "unrecognized arguments: --frobnicate"),
    "kube-scheduler's --kubeconfig": (
        ["--kubeconfig=x"], "unrecognized arguments: --kubeconfig=x; use kubectl --kubeconfig FILE proxy"),
    "kube-scheduler's --master": (["--master", "x"], "unrecognized arguments: --master x; use --server"),
    "kube-scheduler's --v": (["--v=2"], "unrecognized arguments: --v=2; use --verbose"),
    "a flag of kube-scheduler without a replacement": (
        ["--feature-gates", "A=true", "--leader-elect=false"], "unrecognized arguments: --feature-gates A=true\n"),
    "... after files": (["--cluster", "-", "--kube-api-qps=50"], "unrecognized arguments: --kube-api-qps=50\n"),
    "an interval in words": (["--interval=never"], "argument --interval: invalid float value: 'never'"),
    "an empty pod to fit, as from an unset shell variable": (["--fits="], f"--fits: {EMPTY}"),
    "an empty pod to explain": (["--explain="], f"--explain: {EMPTY}"),
    "an empty name of a manifest": (["--cluster", DEMO, ""], f"--cluster: {EMPTY}"),
    "an empty name of a Policy": (["--policy="], f": {EMPTY}"),
    "an empty name of a configuration": (["--config", ""], f": {EMPTY}"),
    "an empty name of a rules file": (["--plugins", ""], f"--plugins: {EMPTY}"),
    "an empty name of a Policy to compare": (["--cluster", DEMO, "--compare", ""], f"--compare: {EMPTY}"),
    "an empty name of a scheduler": (["--scheduler-name="], f"--scheduler-name: {EMPTY}"),
    "an interval of 0": (["--interval=0"], "--interval 0.0: expected a number of seconds above 0"),
    "an interval of nan": (["--interval=nan"], "--interval nan: expected a number of seconds above 0"),
    "a server that is not a URL": (["--server=localhost:8001"], "expected a URL such as http://127.0.0.1:8001"),
    "a server without http://": (["--server=localhost:8001/k8s-api"], "with http:// before the host"),
    "a server with an invalid port": (["--server=http://127.0.0.1:99999"], "expected a URL such as http://"),
    "a server with a password": (
        ["--server=http://user:secret@localhost:8001"], "http://127.0.0.1:8001, without a user or a password"),
    "a Policy that does not exist": (["--policy=nowhere.json"], "nowhere.json: No such file or directory"),
    "a provider with a typo": (["--policy=DefaultProvidr"], 'DefaultProvidr: No such file or directory; did you mean "DefaultProvider"?'),
    "a manifest that does not exist": (["--cluster", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
    "a manifest that is not YAML": (["--cluster", "-"], "-: line 2: did not find expected"),
    "a file that is not a manifest": (["--cluster", ROOT / "policy.json"], "policy.json: expected a Kubernetes object with kind "),
    "an empty manifest": (["--cluster", "/dev/null"], "/dev/null: there is no Node; a copy of a cluster has all: "),
    "--compare with --explain": (
        ["--cluster", DEMO, "--compare", "policy.json", "--explain", "p"], "--compare needs --cluster, and excludes "),
})
def test_wrong_usage_gives_exit_code_2(arguments, message):
    run = run_scheduler(*arguments, "--once", input="a: [b\n")
    assert run.returncode == 2
    assert message in run.stderr and "Traceback" not in run.stderr and "secret" not in run.stderr


def close_connections(server):
    """Close each connection at once, until the server is closed."""
    with contextlib.suppress(OSError):
        while True:
            server.accept()[0].close()


@table("server", {
    "the port is closed": "http://127.0.0.1:{free}", "the host does not exist": "http://nowhere.invalid:8001",
    "the server closes the connection": "http://127.0.0.1:{silent}"})
def test_the_error_for_an_unreachable_proxy_has_the_reason_and_a_hint_if(server):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        threading.Thread(target=close_connections, args=[silent], daemon=True).start()
        url = server.format(silent=silent.getsockname()[1], free=free_port())
        run = run_scheduler("--server", url, "--once")
    assert run.returncode == 1
    assert re.fullmatch(f"cannot reach {url}: [^'()]*; is `kubectl proxy` running there\\? To run without a "
                        "cluster, use --cluster FILE", run.stderr.splitlines()[-1])


def test_a_signal_ends_the_wait_for_a_proxy_with_exit_code_0(start_scheduler):
    waiting = start_scheduler("--server", f"http://127.0.0.1:{free_port()}")
    wait_for("the first attempt has failed", lambda: "cannot reach" in waiting.err)
    waiting.send_signal(signal.SIGTERM)
    assert (waiting.wait(60), waiting.out) == (0, "")
    assert [word in line for word, line in zip(("watching", "has no rule for", "cannot reach", "bound 0, 0 pending"), waiting.err.splitlines(), strict=True)] == [True] * 4


def test_the_loop_prints_times_and_at_ctrl_c_the_number_of_bound_pods(start_scheduler):
    server = ApiServer(node("n"), pod("small"), pod("large", {"cpu": "99"}))
    try:
        running = start_scheduler("--server", server.url)
        wait_for("both pods are tried", lambda: len(running.out.splitlines()) == 2)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0 and running.err.endswith("\nbound 1, 1 pending\n")
        lines = [line for path in running.files for line in path.read_text().splitlines()]
        assert len(lines) == 5 and all(re.match(r"\d\d:\d\d:\d\d  \S", line) for line in lines), lines
    finally:
        server.stop()


def test_the_version():
    assert run_scheduler("--version").stdout == (
        f"scheduler_extras {VERSION} (decides like kube-scheduler 1.20 with a Policy, "
        "and like 1.36 with a KubeSchedulerConfiguration)\n")
    assert f"scheduler_extras/{VERSION}" == USER_AGENT


def test_help_has_examples_and_exit_codes():
    run = run_scheduler("--help")
    assert run.returncode == 0
    for word in ("kubectl proxy", "--policy", "exit codes", "--cluster tests/demo.yaml"):
        assert word in run.stdout


@table("command, message", {
    "a reader that exits": ("{} | true", ""),
    "a file size limit": ("ulimit -f 0; {} > output", "cannot write the output: File too large\n"),
    "a closed standard output": ("{} >&-", ""),
    "a closed standard error": ("{} 2>&- >output || echo failed >&2", ""),
    "a closed standard input": (
        "{} --cluster - <&- >output",
        "-: standard input is empty; has the command before the pipe failed? (Before Kubernetes 1.24, leave out "
        "csistoragecapacities.); this file is skipped\n"),
})
def test_a_broken_stream_gives_no_traceback(command, message, tmp_path):
    command = command.format(f"{' '.join(SCHEDULER)} --cluster {DEMO} --output=json")
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert without_timing(run.stderr) == message


NO_PROXY = "GET /api/v1/pods: {}: {{}} is not a kubectl proxy, or has no API server behind it: {}"


@table("status, body, message", {
    "a web page": (200, "<html>", NO_PROXY.format("200 OK", "<html>")),
    "JSON without a list": (200, '{"items": 7}', "the list of pods is not as expected: items: expected a list, got 7"),
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
    "too many requests": (429, json.dumps({"message": "slow down"}), "GET /api/v1/pods: 429 Too Many Requests: slow down"),
})
def test_an_invalid_answer_of_the_api_server_gives_one_line(answering, status, body, message):
    url = answering(status, body)
    run = run_scheduler("--server", url, "--once")
    assert run.returncode == 1
    assert run.stderr.splitlines()[2:] == [message.format(url)]


@table("address, files, server", {
    "in a pod": ("10.0.0.1", ["token", "ca.crt"], "https://10.0.0.1:443"),
    "in a pod with IPv6": ("fd00::1", ["token", "ca.crt"], "https://[fd00::1]:443"),
    "in a pod without a token (automountServiceAccountToken: false)": ("10.0.0.1", [], "http://127.0.0.1:8001"),
    "outside of a pod": (None, ["token", "ca.crt"], "http://127.0.0.1:8001")})
def test_the_default_url_of_the_api_server(tmp_path, monkeypatch, address, files, server):
    replace(monkeypatch, "FOLDER", tmp_path)
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if address:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", address)
    for name in files:
        (tmp_path / name).touch()
    assert api_server(None).server == server
    assert api_server("http://box:80").server == "http://box:80", "--server takes precedence"


def test_in_a_pod_without_a_token_the_error_says_so(tmp_path, monkeypatch):
    replace(monkeypatch, "FOLDER", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert str(unreachable(PROXY, OSError("refused"))) == (
        f"cannot reach {PROXY}: refused; is `kubectl proxy` running there? "
        f"This pod has no service account's token and CA in {tmp_path}")
