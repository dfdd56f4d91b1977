"""scheduler.py alone, copied into an empty folder, is a whole scheduler; and with its extras it does the same."""

import ast
import collections
import contextlib
import copy
import importlib.util
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import tokenize
import types
from pathlib import Path

import pytest
import requests
from conftest import ROOT, free_port, node, pod, run_afresh, table, wait_for
from faulty import ApiServer, Choice, answering
from test_golden import CASES

POLICY = json.loads((ROOT / "policy.json").read_text())
MAIN = 'if __name__ == "__main__":\n'


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The script in a folder of its own."""
    return shutil.copy(ROOT / "scheduler.py", tmp_path_factory.mktemp("alone"))


def lines_of_code(text):
    """The numbers of the lines that are no blank lines, comments or docstrings, as cloc counts them."""
    documented = set()
    for place in ast.walk(ast.parse(text)):
        if isinstance(place, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(place):
            documented |= {*range(place.body[0].lineno, place.body[0].end_lineno + 1)}
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING):
            code |= {*range(token.start[0], token.end[0] + 1)}
    return code - documented


def test_it_has_at_most_a_thousand_lines_of_which_650_are_code():
    text = (ROOT / "scheduler.py").read_text()
    assert len(text.splitlines()) <= 1000
    assert len(lines_of_code(text)) <= 650


@pytest.fixture(scope="module")
def small(alone):
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("small", alone)
    module = sys.modules["small"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["small"]


def is_for(small, policy):
    """Whether a Policy names rules and weights only, and rules of the script."""
    lists = [policy.get(where) for where in small.CATALOGUES]
    return None not in lists and policy.keys() <= {*small.CATALOGUES, "kind", "apiVersion"} and all(
        entry["name"] in catalogue and entry.keys() <= {"name", "weight"}
        for where, catalogue in small.CATALOGUES.items() for entry in policy[where])


def decisions_of(small, case, folder):
    """What the script decides about the pods of a golden case."""
    path = folder / "policy.json"
    path.write_text(json.dumps(case["policy"]))
    policy = small.policy_in_file(path)
    nodes = {thing["metadata"]["name"]: small.Node(thing) for thing in case["objects"] if thing["kind"] == "Node"}
    waiting = {}
    for thing in case["objects"]:
        if thing["kind"] == "Pod" and thing.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            each = small.Pod(thing)
            waiting[each.key] = each
            if each.node_name in nodes:
                nodes[each.node_name].add(each)
    snapshot = small.Snapshot(dict(sorted(nodes.items())))
    return {key: small.schedule(each, snapshot, policy) for key, each in waiting.items() if not each.node_name}


def test_it_decides_the_golden_cases_of_its_rules(small, tmp_path):
    decided = 0
    for line in CASES.values():
        case, expected = line["case"], line["expect"]["pods"]
        if not is_for(small, case["policy"]):
            continue
        decisions = decisions_of(small, case, tmp_path)
        for each in expected:
            decision = decisions[each["pod"]]
            if each.get("skipped"):
                continue
            decided += 1
            if "error" in each:
                assert each["error"].startswith(decision.message), each["pod"]
            elif decision.node:
                assert decision.total.keys() == set(each["feasible"]), each["pod"]
                assert len(decision.total) == 1 or decision.total == (each["total"] or dict.fromkeys(decision.total, 1))
            else:
                assert decision.message == each["message"], each["pod"]
    assert decided > 450


SCRIPTS = {"alone": [], "told to be alone": ["--alone"], "with its extras": []}


class Process:
    """The script as it runs beside a control plane."""

    def __init__(self, path, folder, *arguments):
        self.files = folder / "out", folder / "err"
        with open(self.files[0], "wb") as out, open(self.files[1], "wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, path, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder)

    @property
    def out(self):
        """The lines that it has printed."""
        return self.files[0].read_text().splitlines()

    @property
    def err(self):
        """The lines that it has logged."""
        return self.files[1].read_text().splitlines()


@pytest.fixture(params=SCRIPTS)
def start(request, alone, tmp_path):
    """A function that starts the script, alone or with its extras; it is ended with the test."""
    started = []
    path = alone if request.param == "alone" else ROOT / "scheduler.py"

    def start(*arguments):
        started.append(Process(path, tmp_path, *SCRIPTS[request.param], *arguments))
        return started[-1]

    start.is_alone = request.param != "with its extras"
    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


def start_proxy(control_plane, port):
    """Start a kubectl proxy of the test's own, and wait until it answers."""
    kubeconfig = control_plane.kubeconfig()
    proxy = control_plane.start("kubectl", "--kubeconfig", kubeconfig, "proxy", f"--port={port}")

    def answers():
        """Whether the API server answers through it."""
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"http://127.0.0.1:{port}/readyz", timeout=5).ok

    wait_for("the proxy answers", answers)
    return proxy


def test_it_schedules_alone_as_it_does_with_its_extras(control_plane, start, tmp_path):
    """300 pods on 20 nodes, one that fits nowhere, an edited Policy, a broken one, an API server that goes and comes."""
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    control_plane.create(*(node(f"n{i:02}", cpu="8") for i in range(20)), node("cordoned", unschedulable=True))
    control_plane.create(pod("huge", {"cpu": "9"}, priority=None), *(pod(f"p{i:03}", {"cpu": "100m"}) for i in range(299)))
    port = free_port()
    proxy = start_proxy(control_plane, port)
    running = start("--server", f"http://127.0.0.1:{port}", "--policy", policy, "--interval", "0.2")
    wait_for("all but one are bound", lambda: len(control_plane.places()) == 299)
    assert set(collections.Counter(control_plane.places().values()).values()) <= {14, 15}
    wait_for("each is told", lambda: len(control_plane.events("Scheduled")) == 299)
    why = "0/21 nodes are available: 1 node(s) were unschedulable, 20 Insufficient cpu."
    wait_for("huge is told why", lambda: ("default/huge", why, "my-scheduler") in control_plane.events("FailedScheduling"))
    if not start.is_alone:  # alone, it writes events only
        [condition] = wait_for("its condition says so", lambda: control_plane.pods()["default/huge"]["status"].get("conditions"))
        assert (condition["status"], condition["reason"], condition["message"]) == ("False", "Unschedulable", why)
    assert f"default/huge stays pending: {why}" in running.out

    policy.write_text("{")
    wait_for("it says that the Policy is broken", lambda: any(str(policy) in line for line in running.err))
    policy.write_text(json.dumps(POLICY | {"predicates": [{"name": "HostName"}]}))
    wait_for("without PodFitsResources the pod is bound", lambda: len(control_plane.places()) == 300)

    proxy.kill()
    proxy.wait()
    wait_for("it says that nobody answers", lambda: any("is `kubectl proxy` running" in line for line in running.err))
    proxy = start_proxy(control_plane, port)
    control_plane.create(pod("late"))
    wait_for("it goes on", lambda: "default/late" in control_plane.places())
    wait_for("it says so", lambda: "the API server answers again" in running.err)
    lines = [line.partition(" ")[0] for line in running.out if " -> " in line]
    assert len(lines) == len(set(lines)) == 301, "each is bound once"
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(timeout=30) == 0
    proxy.kill()
    proxy.wait()


BOTH = "scheduler.py alone reads predicates and priorities, both; got "


@table("policy, line", {
    "a list that is missing, as its name is wrong": ("predicats: []\npriorities: []\n", BOTH + ".*'predicats'"),
    "a list that is null": ("predicates: []\npriorities:\n", BOTH + r"\['predicates'\]"),
    "an empty file": ("# nothing", "expected an object"),
    "an option that the extras have": (
        "predicates: []\npriorities: []\nalwaysCheckAllPredicates: true\n", BOTH + ".*'alwaysCheckAllPredicates'"),
    "extenders": ("predicates: []\npriorities: []\nextenders: [{urlPrefix: 'http://x'}]\n", BOTH + ".*'extenders'"),
    "an argument of a rule": (
        "predicates: [{name: PodFitsResources, argument: {x: 1}}]\npriorities: []\n",
        "predicates: PodFitsResources: scheduler.py alone reads a name and a weight, and no more"),
})
def test_a_policy_has_two_lists_of_rules_and_what_is_not_read_is_an_error(small, tmp_path, policy, line):
    path = tmp_path / "policy.json"
    path.write_text(policy)
    with pytest.raises(small.InputError, match=line):
        small.policy_in_file(path)


@table("weight", {"none": {}, "0": {"weight": 0}, "one below 0": {"weight": -3},
                  "one that overflows": {"weight": 2**63 // 100}})
def test_a_priority_has_a_weight_above_0(small, tmp_path, weight):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"predicates": [], "priorities": [{"name": "LeastRequestedPriority"} | weight]}))
    with pytest.raises(small.InputError, match="priorities: LeastRequestedPriority: expected a weight above 0"):
        small.policy_in_file(path)


def test_a_policy_in_json_may_be_indented_with_tabs(small, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(POLICY, indent="\t"))
    policy = small.policy_in_file(path)
    assert [rule.name for rule in policy.priorities] == [entry["name"] for entry in POLICY["priorities"]]


@table("policy, line", {
    "no file": (None, "No such file or directory"),
    "no YAML": ("{", "policy.json"),
    "a tag that its value does not go with": ("predicates: []\npriorities: [{name: LeastRequestedPriority, weight: !!bool x}]", "policy.json"),
    "a rule that there is not": ('{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Nobody"}]}', '"Nobody"'),
    "a list that is none": ('{"kind": "Policy", "apiVersion": "v1", "predicates": 5}', "predicates: expected a list, got 5"),
})
def test_a_broken_policy_is_one_line_and_exit_code_2(start, tmp_path, policy, line):
    path = tmp_path / "policy.json"
    if policy:
        path.write_text(policy)
    running = start("--policy", path, "--server", "http://127.0.0.1:1", "--once")
    assert running.process.wait(timeout=60) == 2
    [said] = running.err
    assert str(path) in said and line in said


@table("code, told", {
    "it may not be written": (403, ["SchedulerError"]),
    "the pod has gone": (404, []),
    "somebody else has bound it": (409, []),
})
def test_where_a_binding_is_refused_the_other_pods_are_bound_in_the_same_run(start, tmp_path, code, told):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    server = ApiServer(node("n"), *(pod(name) for name in "abc"))

    def refused(asked):
        if asked.pod != "default/a":
            return None
        if code == 404:
            server.pods.pop(("default", "a"), None)
        return answering(code)

    server.faults["binding"] = Choice(refused)
    try:
        running = start("--policy", policy, "--server", server.url, "--once")
        assert running.process.wait(timeout=60) == len(told)
        assert server.places() == {"default/b": "n", "default/c": "n"}
        conditions = [asked.json["status"]["conditions"] for asked in server.sent("status")]
        assert [condition["reason"] for [condition] in conditions] == ([] if start.is_alone else told)
        failed = [asked.json for asked in server.sent("event") if asked.json["reason"] == "FailedScheduling"]
        assert [event["message"].partition(": ")[0] for event in failed] == ["binding rejected"] * len(told)
        assert "the API server answers again" not in running.err
    finally:
        server.stop()


def test_what_could_not_be_said_of_a_pending_pod_is_said_later(start, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    server = ApiServer(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    server.faults |= {"event": "500 before", "status": "500 before"}
    try:
        running = start("--policy", policy, "--server", server.url, "--interval", "0.1")
        wait_for("it has tried to say it", lambda: server.sent("event"))
        server.faults.clear()
        server.nodes["n"]["metadata"]["labels"]["new"] = ""
        server.create(server.nodes["n"])  # something changes, so that it is tried again soon
        for kind in ["event"] if start.is_alone else ["event", "status"]:
            wait_for(f"it has said it: {kind}", lambda kind=kind: [asked for asked in server.sent(kind) if asked.status])
        assert running.process.poll() is None
    finally:
        server.stop()


class Lists:
    """What an API server lists, by the end of the field selector or the resource; each request takes no time."""

    def __init__(self, **listed):
        self.listed, self.requests = listed, []

    def list(self, resource, selector=""):
        which = "waiting" if ",spec.nodeName=," in selector else "placed" if selector else resource
        return self.listed.get(which, [])

    def request(self, *request):
        self.requests.append(request)


def test_a_pod_that_is_bound_between_the_two_lists_is_left_alone(small, tmp_path):
    api = Lists(waiting=[pod("p")], nodes=[node("n")], placed=[pod("p", nodeName="n")])
    cluster = small.Cluster(api, print)
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    policy = small.policy_in_file(tmp_path / "policy.json")
    small.schedule_pending_pods(cluster, {"my-scheduler": policy}, threading.Event())
    assert (cluster.due, api.requests) == ([], []) and [*cluster.snapshot.nodes["n"].pods] == ["default/p"]


def turns(small, monkeypatch, listed):
    """The names of the pods that have their turns in 60 s, of half a second each; `listed` returns those that wait."""
    clock = 1000
    monkeypatch.setattr(small.time, "monotonic", lambda: clock)
    cluster = small.Cluster(Lists(), print)
    tried = []
    while clock < 1060:
        cluster.api.listed["waiting"] = listed(clock)
        cluster.begin_pass(["my-scheduler"])
        while each := cluster.next_pod(threading.Event()):
            clock += 0.5
            tried.append(each.name)
            cluster.put_off(small.Decision(each, {}))
    return tried


def test_a_new_pod_has_its_turn_before_those_that_were_tried_however_many_and_slow_these_are(small, monkeypatch):
    stuck = [pod(f"p{i:02}", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"}) for i in range(40)]
    young = pod("young", metadata={"creationTimestamp": "2026-01-02T00:00:00Z"})
    assert "young" in turns(small, monkeypatch, lambda clock: [*stuck, young])[:41]


def test_a_pod_that_was_tried_has_its_turn_among_new_ones_however_many_come(small, monkeypatch):
    tried = turns(small, monkeypatch, lambda clock: [pod("old"), *(pod(f"p{clock}-{i}") for i in range(12))])
    assert tried.count("old") > 2


def test_an_important_pod_has_its_turn_next_however_many_wait(small, monkeypatch):
    crowd = [pod(f"p{i:02}") for i in range(40)]
    tried = turns(small, monkeypatch, lambda clock: [*crowd, *[pod("important", priority=1)] * (clock > 1003)])
    assert tried.index("important") == 10


@table("end, important", {
    "their Bindings hang": ("/binding", [pod(f"important-{i}", priority=1) for i in range(2)]),
    "the event of one that fits nowhere hangs": ("/events", [pod("important", {"cpu": "5"}, priority=1)]),
})
def test_important_pods_whose_requests_hang_keep_nobody_waiting(small, tmp_path, monkeypatch, end, important):
    clock = 1000
    monkeypatch.setattr(small.time, "monotonic", lambda: clock)

    class Hangs(Lists):
        def request(self, method, path, body):
            nonlocal clock
            if path.endswith(end) and "important" in json.dumps(body):
                clock += 30
                raise small.Trouble(0, "no answer")
            super().request(method, path, body)

    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    policies = {"my-scheduler": small.policy_in_file(tmp_path / "policy.json")}
    api = Hangs(waiting=[*important, pod("low")], nodes=[node("n")])
    cluster = small.Cluster(api, print)
    for _ in range(len(important) + 1):
        with contextlib.suppress(small.Trouble):
            small.schedule_pending_pods(cluster, policies, threading.Event())
        clock += 1
    assert "/api/v1/namespaces/default/pods/low/binding" in [path for _, path, _ in api.requests]


def test_an_event_has_a_bound(small):
    *_, body = small.event(small.Pod(pod("p")), "Warning", "FailedScheduling", 2000 * "x")
    assert body["message"] == 1024 * "x"


def test_a_node_with_a_pod_that_cannot_be_read_is_left_alone(start, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    odd = pod("odd", nodeName="m", containers=[{"name": "c", "resources": {"requests": {"cpu": "many"}}}])
    server = ApiServer(node("m"), node("n"), odd, *(pod(f"p{i}") for i in range(9)))
    try:
        running = start("--policy", policy, "--server", server.url, "--once")
        assert running.process.wait(timeout=60) == 0, running.err
        assert server.places() == {"default/odd": "m"} | {f"default/p{i}": "n" for i in range(9)}
        assert any("odd" in line and "many" in line for line in running.err), running.err
    finally:
        server.stop()


@table("code, status, said", {
    "no message": (403, {}, "GET /api/v1/nodes: 403"),
    "a message of several lines": (403, {"message": "no\n  rights"}, "GET /api/v1/nodes: no rights"),
    "it is elsewhere": (302, {"message": "moved"}, "GET /api/v1/nodes: moved"),
})
def test_a_refusal_is_one_line(small, code, status, said):
    answer = requests.Response()
    answer.status_code, answer._content = code, json.dumps({"kind": "Status"} | status).encode()
    proxy = small.Proxy("http://here")
    proxy.session.request = lambda *_, **__: answer
    with pytest.raises(small.ApiError) as refusal:
        proxy.request("GET", "/api/v1/nodes")
    assert str(refusal.value) == said


def test_a_pod_that_write_failed_and_then_fits_nowhere_has_its_turn_by_its_priority_again(small, monkeypatch):
    clock = 1000
    monkeypatch.setattr(small.time, "monotonic", lambda: clock)
    cluster = small.Cluster(Lists(waiting=[pod("low"), pod("important", priority=1)]), print)
    cluster.begin_pass(["my-scheduler"])
    for write_failed, order in ((True, ["low", "important"]), (False, ["important", "low"])):
        for each in cluster.due:
            cluster.put_off(small.Decision(each, {}))
            cluster.attempts[each.uid].write_failed = write_failed and each.name == "important"
        clock += 10
        cluster.begin_pass(["my-scheduler"])
        assert [each.name for each in cluster.due] == order
    for each in cluster.due:
        cluster.attempts[each.uid].write_failed = True
        cluster.put_off(small.Decision(each, {}))
        assert not cluster.attempts[each.uid].write_failed


def test_a_binding_that_succeeds_takes_the_refusal_back(small):
    cluster = small.Cluster(Lists(waiting=[pod("p")], nodes=[node("n")]), print)
    cluster.begin_pass(["my-scheduler"])
    [waiting] = cluster.due
    cluster.attempts[waiting.uid].write_failed = True
    cluster.bind(small.Decision(waiting, cluster.snapshot.nodes, node="n"))
    assert not cluster.attempts[waiting.uid].write_failed, "it would count in the exit code of --once"


def crashes(pod, node):
    return 1 // 0


STRINGS = "<lambda> is to yield strings, or return a list of them"
NUMBER = "<lambda> is to return a number from 0 to 100, or any with a `reduce`"
NUMBERS = "<lambda> is to give each node a number from 0 to 100"
HERE = r"\(test_script.py, line \d+\)"

@table("where, function, told", {
    "a predicate that crashes": ("predicates", crashes, r"ZeroDivisionError in crashes: integer division or modulo by zero \(test_script.py, line \d+\)"),
    "a priority that crashes": ("priorities", crashes, r"ZeroDivisionError in crashes: integer division or modulo by zero \(test_script.py, line \d+\)"),
    "a predicate that breaks in a library": ("predicates", lambda pod, node: json.loads("{"), r"JSONDecodeError in <lambda>: .* \(test_script.py, line \d+\)"),
    "a predicate that returns nothing": ("predicates", lambda pod, node: None, f"{STRINGS}, not None {HERE}"),
    "a predicate that returns a text": ("predicates", lambda pod, node: "no", f"{STRINGS}, not 'no' {HERE}"),
    "a predicate that returns a bool": ("predicates", lambda pod, node: False, f"{STRINGS}, not False {HERE}"),
    "a predicate whose reasons are no texts": ("predicates", lambda pod, node: [{"a": 1}], "0/2 nodes are available: 2 {'a': 1}."),
    "a priority that returns nothing": ("priorities", lambda pod, node: None, f"{NUMBER}, not None {HERE}"),
    "a priority that returns a bool": ("priorities", lambda pod, node: True, f"{NUMBERS}, not {{'a': True, 'b': True}} {HERE}"),
    "points above 100": ("priorities", lambda pod, node: 101, f"{NUMBERS}, not {{'a': 101, 'b': 101}} {HERE}"),
    "points that are no number": (
        "priorities", lambda pod, node: float("nan"), f"{NUMBERS}, not {{'a': nan, 'b': nan}} {HERE}"),
})
def test_where_a_rule_breaks_the_pod_stays_pending_and_it_is_named(small, where, function, told):
    rules = {"predicates": [], "priorities": []} | {where: [small.Rule("Mine", function)]}
    snapshot = small.Snapshot({name: small.Node(node(name)) for name in "ab"})
    decision = small.schedule(small.Pod(pod("p")), snapshot, small.Policy(**rules))
    assert decision.node is None and re.fullmatch(told, decision.message), decision.message


@table("listed, left_out", {
    "a node": ({"nodes": [node("odd", cpu="many")]}, "nodes odd is left out"),
    "a pod that waits": ({"waiting": [pod("odd", {"cpu": "many"})]}, "pods odd is left out"),
    "a pod on a node": ({"nodes": [node("n")], "placed": [pod("odd", {"cpu": "many"}, nodeName="n")]},
                        "pods odd is left out, and its node n"),
})
def test_what_cannot_be_read_is_said_once(small, caplog, listed, left_out):
    cluster = small.Cluster(Lists(**listed), print)
    for _ in range(3):
        cluster.begin_pass(["my-scheduler"])
    [said] = caplog.messages
    assert said.startswith(f"{left_out}: ") and '"many"' in said
    assert not (cluster.snapshot.nodes or cluster.due)


@table("interval, seconds", {
    "no end": (float("inf"), threading.TIMEOUT_MAX), "no number": (float("nan"), 0.01), "less than none": (-1, 0.01)})
def test_whatever_the_interval_it_rests(small, interval, seconds):
    waited = []
    small.Cluster(Lists(), print).rest(interval, types.SimpleNamespace(wait=waited.append))
    assert waited == [seconds]


def test_a_ctrl_c_while_it_begins_to_wait_ends_it(alone, tmp_path):
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    probe = Path(alone).read_text().replace(f"{MAIN}    sys.exit(main())", """
def run(cluster, read_policies, stop, *_):
    with stop._cond:
        signal.raise_signal(signal.SIGINT)
    sys.exit(0 if stop.wait(20) else 3)
run_script()""")
    assert subprocess.run([sys.executable, "-c", probe], cwd=tmp_path, timeout=60).returncode == 0


@table("encoding", {"nobody reads it": None, "who reads it does not know a letter": "ascii"})
def test_a_line_that_cannot_be_printed_holds_nobody_up(alone, tmp_path, monkeypatch, encoding):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    city = {"key": "city", "operator": "In", "values": ["Zürich"]}
    odd = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [city]}}]}}
    server = ApiServer(node("n"), node("m"), pod("a", affinity=odd, priority=1), pod("b"))
    monkeypatch.setenv("PYTHONIOENCODING", encoding or "utf-8")
    try:
        running = subprocess.Popen([sys.executable, alone, "--policy", policy, "--server", server.url, "--once"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if not encoding:
            running.stdout.close()
        said = running.stderr.read()
        running.wait(timeout=60)
        assert [*server.places()] == ["default/b"] and "Traceback" not in said, said
    finally:
        server.stop()


@table("code", {"500": 500, "503": 503})
def test_pods_whose_bindings_always_fail_keep_nobody_waiting(alone, tmp_path, code):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    server = ApiServer(node("n"), *(pod(f"p{i}", priority=1) for i in range(60)), pod("good"))
    server.faults["binding"] = Choice(lambda asked: answering(code) if asked.pod != "default/good" else None)
    running = Process(alone, tmp_path, "--policy", policy, "--server", server.url, "--interval", "1")
    try:
        wait_for("the good one is bound", lambda: server.places() == {"default/good": "n"})
        wait_for("the others are told", lambda: len({
            asked.json["involvedObject"]["name"] for asked in server.sent("event")
            if asked.json["message"].startswith("binding rejected: ")}) == 60)
        assert sum("fieldSelector" in asked.path for asked in server.sent("list")) < 60, "not all is listed for each of them"
        assert running.process.poll() is None
    finally:
        running.process.kill()
        running.process.wait()
        server.stop()


@table("fault, places", {
    "before": ("500 before", {}), "after": ("500 after", {"default/p": "n"}), "503": ("503", {})})
def test_a_binding_that_is_answered_5xx_is_told(alone, tmp_path, fault, places):
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    server = ApiServer(node("n"), pod("p"))
    server.faults["binding"] = fault
    try:
        run = subprocess.run([sys.executable, alone, "--server", server.url, "--once"], cwd=tmp_path, timeout=60,
                             capture_output=True, text=True)
        assert server.places() == places and not server.sent("status")
        assert run.returncode == 1 and "default/p stays pending: binding rejected: " in run.stdout
        assert [asked.json["reason"] for asked in server.sent("event")] == ["FailedScheduling"]
    finally:
        server.stop()


@table("body", {"what is no answer of an API server": b'{"ok": true}', "nothing": b"", "null": b"null", "a text": b"Bad Gateway"})
def test_whoever_answers_a_binding_that_is_carried_out_no_pod_is_denied(alone, tmp_path, body):
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    server = ApiServer(node("n"), pod("p"))

    def answered_by_somebody_else(request):
        request.carry_out()
        request.answer(200, body)

    server.faults["binding"] = answered_by_somebody_else
    try:
        run = subprocess.run([sys.executable, alone, "--server", server.url, "--once"], cwd=tmp_path, timeout=60,
                             capture_output=True, text=True)
        assert server.places() == {"default/p": "n"} and not server.sent("status") and not server.sent("event")
        assert run.returncode == 1 and run.stderr == f"default/p: {server.url}: 200 {body.decode()!r}\n"
    finally:
        server.stop()


@table("charset", {"one that cannot replace": "idna", "one that reads nothing": "undefined", "no charset": "?"})
def test_a_text_is_read_whatever_its_charset(small, charset):
    server = ApiServer(node("n"))
    server.faults["list"] = lambda request: request.answer(502, b"error trying to reach", {"Content-Type": f"text/plain; charset={charset}"})
    try:
        with pytest.raises(small.Trouble, match=": 502 'error trying to reach'"):
            small.Proxy(server.url).list("nodes")
    finally:
        server.stop()


def test_what_is_no_url_is_named(small):
    with pytest.raises(small.Trouble, match="cannot reach 127.0.0.1:8001: InvalidSchema; is `kubectl proxy` running there"):
        small.Proxy("127.0.0.1:8001").list("pods")


def test_a_gated_pod_is_not_tried(small):
    cluster = small.Cluster(Lists(waiting=[pod("gated", schedulingGates=[{"name": "wait"}]), pod("p")]), print)
    cluster.begin_pass(["my-scheduler"])
    assert [each.name for each in cluster.due] == ["p"]


@table("body", {
    "nothing": b"{}", "what is nested too deep to read": b"[" * 100_000, "no list": b'{"kind": "Status", "status": "Success"}',
    "a list that has no items": b'{"kind": "PodList"}'})
def test_an_answer_of_no_api_server_ends_the_pass_only(start, tmp_path, body):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    server = ApiServer(node("n", cpu="1"), pod("there", {"cpu": "1"}, nodeName="n"), pod("p", {"cpu": "1"}))
    # Alone it lists the pods on nodes by spec.nodeName!=, with its extras all pods that have not ended.
    of_placed = ("/api/v1/pods?fieldSelector=spec.nodeName%21%3D", "/api/v1/pods?fieldSelector=status.phase")
    server.faults["list"] = Choice(
        lambda asked: (lambda request: request.answer(200, body)) if asked.path.startswith(of_placed) else None)
    words = [": 200 '{}'", ": 200 '[[[", 'items: expected a list, got "missing"', "the list of pods is not as expected", "is no kubectl proxy"]
    try:
        running = start("--policy", policy, "--server", server.url, "--interval", "0.1")
        wait_for("it says so", lambda: any(each in line for line in running.err for each in words))
        assert running.process.poll() is None and "default/p" not in server.places()
        server.faults.clear()
        wait_for("it goes on", lambda: any("default/p stays pending: 0/1 nodes" in line for line in running.out))
    finally:
        server.stop()


def test_a_dead_proxy_is_one_line_and_exit_code_1(start, tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    running = start("--policy", policy, "--server", "http://127.0.0.1:1", "--once")
    assert running.process.wait(timeout=60) == 1
    assert [line for line in running.err if "is `kubectl proxy` running there?" in line] == running.err[-1:]


def test_it_says_how_its_policy_is_edited_and_keeps_the_last_good_one(small, tmp_path, caplog):
    path = tmp_path / "policy.json"
    named = ["CheckNodeUnschedulable", "HostName", "PodToleratesNodeTaints"]
    rules = {"predicates": [{"name": "HostName"}], "priorities": [{"name": "LeastRequestedPriority", "weight": 2}]}
    texts = {  # what is written, and what is said then
        json.dumps(rules): [f"{path}: {', '.join(named)}, LeastRequestedPriority ×2"],
        json.dumps(rules, indent=4): [],
        json.dumps(rules | {"priorities": []}): [f"{path}: {', '.join(named)}"],
        "{": [f"{path}: while parsing a flow node .*; the last good Policy stays"],
        json.dumps(rules | {"predicates": []}): [f"{path}: {named[0]}, {named[2]}, LeastRequestedPriority ×2"]}
    caplog.set_level("INFO", "scheduler")
    policies = small.policies_by_now(path, "my-scheduler")
    seen = []
    for text, lines in texts.items():
        caplog.clear()
        path.write_text(text)
        seen.append([rule.name for rule in next(policies)["my-scheduler"].predicates])
        next(policies)
        assert [re.fullmatch(line, said) is not None for line, said in zip(lines, caplog.messages, strict=True)] == [True] * len(lines)
    assert seen == [named] * 4 + [[named[0], named[2]]]


@table("spec, ignored", {
    "a claim": ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "persistentVolumeClaim"),
    "spreading, and affinity of pods": (
        {"topologySpreadConstraints": [{"maxSkew": 1}], "affinity": {"podAffinity": {"x": []}, "podAntiAffinity": {"x": []}}},
        "podAffinity, podAntiAffinity, topologySpreadConstraints"),
    "a device": ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
    "empty lists": ({"topologySpreadConstraints": [], "affinity": {"podAffinity": {}}}, None),
    "what reads like it": ({"containers": [{"name": "podAffinity", "args": ['"podAffinity": {"x"']}]}, None),
})
def test_what_a_pod_asks_for_and_nobody_looks_at_is_said_once(small, caplog, capsys, spec, ignored):
    decision = small.Decision(small.Pod(pod("p", **spec)), {"a": None, "b": None}, node="a", total={"a": 1000282})
    for _ in range(2):
        small.print_decision(decision)
    said = f"default/p is placed, though scheduler.py alone ignores its {ignored}"
    assert caplog.messages == ([said] if ignored else [])
    assert capsys.readouterr().out == 2 * "default/p -> a  (1 of 2 nodes fit, score 1000282)\n"


@table("pods, nodes", {
    "nodes that differ": ([pod("a", {"cpu": "1"}), pod("b")], [node("n"), node("m", cpu="7")]),
    "a single one": ([pod("a")], [node("n")]),
    "a single one, and a preference that cannot be read": ([pod("a", affinity={"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [
            {"key": "k", "operator": "In", "values": ["-"]}]}}]}})], [node("n")]),
})
def test_a_decision_is_printed_as_the_extras_print_it(alone, tmp_path, pods, nodes):
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    printed = []
    for script in (alone, ROOT / "scheduler.py"):
        server = ApiServer(*copy.deepcopy([*nodes, *pods]))
        try:
            run = run_afresh("--server", server.url, "--policy", "policy.json", "--once", script=script, cwd=tmp_path)
            printed.append(sorted(run.stdout.splitlines()))
            assert len(server.places()) == len(pods), run.stderr
        finally:
            server.stop()
    assert printed[0] == printed[1], run


@pytest.mark.parametrize("option", [[], ["--alone"]], ids=["with the extras", "alone"])
def test_a_server_without_http_is_one_line(tmp_path, option):
    run = run_afresh(*option, "--server", "127.0.0.1:8001", cwd=tmp_path)
    assert run.returncode == 2 and "with http:// before the host" in run.stderr.splitlines()[-1]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python has no such option")
def test_the_extras_are_found_where_python_does_not_look_beside_a_script(tmp_path):
    demo = ROOT / "scheduler_extras" / "examples" / "demo.yaml"
    run = subprocess.run([sys.executable, "-P", ROOT / "scheduler.py", "--cluster", demo], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0 and "default/web-1 -> node-b" in run.stdout, run.stderr


@table("arguments, code, said", {
    "with --once nothing is said of the start": (["--server", "http://127.0.0.1:1"], 1, "cannot reach http://127.0.0.1:1: "),
    "an option of the extras": (["--cluster", "x.yaml"], 2, "scheduler.py alone: error: unrecognized arguments: --cluster x.yaml"),
    "a rule of the extras": (["--policy", "affinity.json"], 2, 'no "MatchInterPodAffinity" in scheduler.py; it has '),
    "a field of the extras": (["--policy", "extenders.json"], 2, "scheduler.py alone reads predicates and priorities, both; got ['extenders'"),
})
@pytest.mark.parametrize("option", [[], ["--alone"]], ids=["without the folder", "--alone"])
def test_what_only_the_extras_have_is_one_line(alone, tmp_path, arguments, code, said, option):
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    (tmp_path / "affinity.json").write_text(json.dumps(POLICY | {"predicates": [{"name": "MatchInterPodAffinity"}]}))
    (tmp_path / "extenders.json").write_text(json.dumps(POLICY | {"extenders": []}))
    run = run_afresh(*option, "--once", *arguments, script=ROOT / "scheduler.py" if option else alone, cwd=tmp_path)
    [line] = run.stderr.splitlines()
    assert run.returncode == code and said in line
