"""--explain, --compare: what people see of a decision, and that it is what the decision was made of."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import threading

import scheduler
from conftest import ROOT, SCHEDULER, cluster_of, free_port, node, pod, run_scheduler, table

DEMO = ROOT / "tests" / "clusters" / "demo.yaml"


def explained(*arguments, **options):
    """Run --explain; return {pod: the lines of its table}."""
    run = run_scheduler("--explain", *arguments, **options)
    assert (run.returncode, run.stderr) == (0, "")
    tables = re.split(r"^(?=\S+/\S+ (?:->|stays))", run.stdout.partition("\n\nNAMESPACE")[0], flags=re.M)[1:]
    return {table.split()[0]: table.rstrip().splitlines() for table in tables}


def manifest(folder, *objects):
    """Write objects into a file."""
    path = folder / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": objects}))
    return path


def test_a_table_has_a_row_per_node_and_says_what_every_rule_made_of_it():
    assert explained("--cluster", DEMO)["default/report"] == """\
default/report -> node-a  (2 of 5 nodes fit, score 419)
                          Least      Balanced    Node      Taint
                          Requested  Resource    Affinity  Toleration
                 1234567  Priority   Allocation  Priority  Priority    Total
* node-a         ✓✓✓✓✓✓✓  29×1       90×1        1→100×2   0→100×1     419
  node-b         ✓✓✓✓✓✓✓  88×1       92×1        0→0×2     0→100×1     280
  control-plane  ✓✓✓✓✓✓✗ PodToleratesNodeTaints: node(s) had taint
                         {node-role.kubernetes.io/control-plane: }, that the pod
                         didn't tolerate
  node-gpu       ✓✓✓✓✓✓✗ PodToleratesNodeTaints: node(s) had taint {gpu: true},
                         that the pod didn't tolerate
  node-old       ✗······ CheckNodeUnschedulable: node(s) were unschedulable""".splitlines()


def test_a_pod_that_fits_nowhere_has_a_table_too():
    assert explained("--cluster", DEMO)["default/warehouse"][3:6] == [
        "                 1234567",
        "  control-plane  ✓✓✓✓✗·· PodFitsResources: Insufficient cpu",
        "  node-a         ✓✓✓✓✗·· PodFitsResources: Insufficient cpu, Insufficient memory"]


def test_the_legend_says_what_the_numbers_and_names_mean():
    out = run_scheduler("--explain", "--cluster", DEMO).stdout
    assert out.count("  5 PodFitsResources: The node has room for one more pod, and free of each\n") == 1
    assert out.count("    NodeAffinityPriority ×2: The summed weights of") == 1


def test_every_number_is_the_decisions_own():
    tables = explained("--cluster", DEMO, "--seed=1")
    run = run_scheduler("--cluster", DEMO, "--seed=1", "--output=json")
    for record in map(json.loads, run.stdout.splitlines()):
        rows = {line[2:].split()[0]: line for line in tables[record["pod"]][1:] if re.match("[*= ] [a-z]", line)}
        for name in record["feasible"]:
            cells = rows[name][2:].split()
            assert cells[-1] == str(record["total"][name])
            assert [eval(cell.split("→")[-1].replace("×", "*")) for cell in cells[2:-1]] == [
                scores[name] for scores in record["scores"].values()]
            assert rows[name].startswith("*") == (name == record["node"])
        for name, [predicate] in record["failedBy"].items():
            assert f"✗{rows[name].partition('✗')[2]}".split()[1] == f"{predicate}:"


def test_ties_are_shown_as_ties(tmp_path):
    path = manifest(tmp_path, node("a"), node("b"), node("c", cpu="2"), pod("p", {"cpu": "1"}))
    lines = explained("--cluster", path, "--seed=1")["default/p"]
    chosen = lines[0].split()[2]
    assert [line[:3] for line in lines[4:7]] == [f"* {chosen}", f"= {'b' if chosen == 'a' else 'a'}", "  c"]
    assert lines[7] == "  2 nodes (* and =) have the highest total: any of them is taken, at random"


def big_cluster(folder):
    """Sixty nodes with long names, for half of which something is against a pod."""
    nodes = [node(f"ip-10-0-{i}-17.eu-west-1.compute.internal", unschedulable=i % 4 == 0,
                  cpu="100m" if i % 4 == 1 else str(i)) for i in range(60)]
    return manifest(folder, *nodes, pod("p", {"cpu": "1"}))


@table("policy", {"the shipped policy": None, "kube-scheduler's default rules": {}})
def test_many_nodes_many_rules_and_long_names_are_folded_into_80_columns(tmp_path, policy):
    (tmp_path / "policy.json").write_text(json.dumps({"kind": "Policy", "apiVersion": "v1", **(policy or {})}))
    lines = explained("--cluster", big_cluster(tmp_path), "--policy",
                      ROOT / "policy.json" if policy is None else tmp_path / "policy.json")["default/p"]
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "  and 25 more that fit, down to a total of " in text
    assert len({line for line in lines if re.match(r"[*=] ip-10-0-\d+-17", line)}) >= 1
    assert re.search(r"^  15 nodes +✗·+ CheckNodeUnschedulable: ", text, re.M), text
    assert re.search(r"^  15 nodes +✓✗?.*PodFitsResources: ", text, re.M), text


def on_a_terminal(*arguments, **environment):
    """Run the scheduler on a terminal of 130 columns; return what it shows."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, True)
    process = subprocess.Popen([*SCHEDULER, *map(str, arguments)], stdout=theirs, stderr=theirs, env={
        **os.environ, "TERM": "xterm", "COLUMNS": "130", **environment})
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the terminal's other end has been closed
            break
    process.wait()
    os.close(ours)
    return shown.decode()


@table("environment, coloured", {
    "a terminal has colours": ({}, True),
    "NO_COLOR is honoured": ({"NO_COLOR": "1"}, False),
    "a dumb terminal has none": ({"TERM": "dumb"}, False),
})
def test_colours(environment, coloured):
    shown = on_a_terminal("--explain", "default/report", "--cluster", DEMO, **environment)
    assert ("\033[1;32m* node-a" in shown) == coloured
    assert ("\033" in shown) == coloured
    wide = [line for line in shown.splitlines() if "control-plane" in line]
    assert len(wide) == 1 and "that the pod" in wide[0], "it uses the width of the terminal"


def test_piped_output_is_plain_and_does_not_depend_on_the_terminal():
    runs = {run_scheduler("--explain", "--cluster", DEMO, "--seed=1", env={**os.environ, "COLUMNS": columns}).stdout
            for columns in ("40", "200")}
    assert len(runs) == 1 and "\033" not in runs.pop()


def test_output_that_has_no_such_characters_is_no_traceback():
    run = run_scheduler("--explain", "--cluster", DEMO, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (run.returncode, run.stderr) == (0, "") and "* node-a" in run.stdout


@table("terminal, shown", {
    "on a terminal": (True, "\033[K1 of 3 pods\r\033[K2 of 3 pods\r"),
    "not elsewhere": (False, ""),
})
def test_a_pass_that_takes_long_shows_progress(monkeypatch, terminal, shown):
    """Each pod takes a second here, but for the first."""
    screen = io.StringIO()
    screen.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", screen)
    times = iter([0, 0, 1, 1, 2, 2])
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: next(times))
    assert list(scheduler.with_progress("abc")) == list("abc")
    assert screen.getvalue() == shown


def test_progress_is_shown_during_a_pass(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(scheduler, "with_progress", lambda pods: seen.append(list(pods)) or seen[-1])
    policies = scheduler.load_policies(ROOT / "policy.json", "my-scheduler")
    cluster = cluster_of(node("n"), pod("p"))
    scheduler.schedule_pending_pods(cluster, policies, lambda decision: None, threading.Event())
    assert [[waiting.name for waiting in pods] for pods in seen] == [["p"]]


@table("key, first", {
    "a pending pod": ("default/report", "default/report -> node-a"),
    "the namespace default needs no naming": ("report", "default/report -> node-a"),
    "one that has a node, as if it had none": (
        "default/database", "default/database is on node-a. If it were"),
    "another scheduler's": ("default/foreign", "default/foreign is left to other-scheduler. If it were"),
    "another scheduler's, unnamed": (
        "default/plain", "default/plain is left to default-scheduler. If it were"),
    "one with scheduling gates": ("default/gated", "default/gated has scheduling gates. If it were"),
})
def test_explain_a_pod(key, first, tmp_path):
    run_one = explain_one(tmp_path, key)
    assert run_one.returncode == 0, run_one.stderr
    assert run_one.stdout.split("\n\n")[1].startswith(first)


def explain_one(folder, key, *arguments):
    """Run --explain for one pod of the demo, to which a few have been added."""
    manifest(folder, pod("foreign", schedulerName="other-scheduler"), pod("plain", schedulerName=""),
             pod("gated", schedulingGates=[{"name": "quota"}]))
    return run_scheduler("--cluster", DEMO, folder / "cluster.json", "--explain", key, *arguments)


def test_a_pod_on_a_node_does_not_stand_in_its_own_way(tmp_path):
    there = pod("there", {"cpu": "3"}, nodeName="a", containers=[
        {"name": "c", "image": "i", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "3"}}}])
    run = run_scheduler("--cluster", manifest(tmp_path, node("a"), there), "--explain", "there", "--output=json")
    assert json.loads(run.stdout)["node"] == "a"
    assert run_scheduler("--cluster", manifest(tmp_path, node("a"), there)).stderr.startswith("no pod waits")


def test_json_of_one_pod_is_its_record_and_nothing_else(tmp_path):
    run = explain_one(tmp_path, "default/training", "--output=json")
    assert json.loads(run.stdout)["pod"] == "default/training"
    assert json.loads(run.stdout)["node"] == "node-gpu"


def test_explain_a_pod_that_is_not_there(tmp_path):
    run = explain_one(tmp_path, "kube-system/nobody")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == 'pod "kube-system/nobody" not found; write --explain NAMESPACE/NAME\n'


def test_explain_a_pod_without_a_proxy():
    run = run_scheduler("--server", f"http://127.0.0.1:{free_port()}", "--explain", "web")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("cannot reach http://127.0.0.1:") and run.stderr.count("\n") == 1


def test_explain_on_the_control_plane_binds_and_writes_nothing(control_plane):
    control_plane.create(node("a"), node("b", unschedulable=True), pod("mine"), pod("theirs", schedulerName="other"),
                         pod("bound"))
    control_plane.bind("bound", "a")
    before = control_plane.pods()
    for name, said in {"mine": "default/mine -> a", "bound": "default/bound is on a. If",
                       "theirs": "default/theirs is left to other. If"}.items():
        run = run_scheduler("--server", control_plane.server, "--explain", f"default/{name}")
        assert (run.returncode, run.stderr) == (0, "")
        assert f"\n{said}" in run.stdout
        assert re.search("^  b +✗·+ CheckNodeUnschedulable", run.stdout, re.M)
    run = run_scheduler("--server", control_plane.server, "--explain", "default/mine", "--output=json")
    assert json.loads(run.stdout)["node"] == "a"
    assert control_plane.pods() == before
    assert control_plane.get("events")["items"] == []


def test_rejected_before_any_node_was_asked_no_node_is_said_to_have_passed(tmp_path):
    (tmp_path / "policy.json").write_text('{"kind": "Policy", "apiVersion": "v1"}')
    claims = pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}])
    lines = explained("--cluster", manifest(tmp_path, node("a", unschedulable=True), claims),
                      "--policy", tmp_path / "policy.json")["default/p"]
    assert lines[-2:] == ["  a  ··············· CheckVolumeBinding (whatever the node):",
                          '                     persistentvolumeclaim "none" not found']


def test_all_predicates_are_asked_where_the_policy_says_so(tmp_path):
    policy = json.loads((ROOT / "policy.json").read_text()) | {"alwaysCheckAllPredicates": True}
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    path = manifest(tmp_path, node("a", cpu="1", unschedulable=True), pod("p", {"cpu": "2"}))
    lines = explained("--cluster", path, "--policy", tmp_path / "policy.json")["default/p"]
    assert lines[-2] == "  a  ✗✓✓✓✗✓✓ CheckNodeUnschedulable: node(s) were unschedulable;"
    assert lines[-1].strip() == "PodFitsResources: Insufficient cpu"


def most_requested(folder):
    """policy.json with MostRequestedPriority instead of the priorities that spread."""
    policy = json.loads((ROOT / "policy.json").read_text())
    policy["priorities"] = [{"name": "MostRequestedPriority", "weight": 1}]
    path = folder / "most.json"
    path.write_text(json.dumps(policy))
    return path


def packing_cluster(folder):
    """Three nodes, three small pods, and one that wants a whole node."""
    return manifest(folder, *(node(name) for name in "abc"), *(pod(f"small-{i}", {"cpu": "1"}) for i in range(3)),
                    pod("whole", {"cpu": "4"}))


def test_compare_shows_what_another_policy_would_do(tmp_path):
    path = packing_cluster(tmp_path)
    before = path.read_text()
    run = run_scheduler("--cluster", path, "--compare", most_requested(tmp_path), cwd=ROOT)
    assert (run.returncode, run.stderr) == (0, "")
    moved, summary, numbers = run.stdout.split("\n\n")
    assert moved.splitlines()[0].split() == ["POD", "policy.json", str(tmp_path / "most.json")]
    rows = {line.split()[0]: line.split()[1:] for line in moved.splitlines()[1:]}
    assert rows["default/whole"][0] == "<none>" and rows["default/whole"][1] in "abc"
    assert summary == f"{len(rows)} of 4 pods land elsewhere."
    cells = {line.split("  ")[0]: re.findall(r"[\d.]+%|\d of \d", line) for line in numbers.splitlines()[1:]}
    assert cells["pods that fit"] == ["3 of 4", "4 of 4"]
    assert cells["cpu utilization of a node, min"] == ["25.0%", "0.0%"]
    assert cells["cpu utilization of a node, mean"] == ["25.0%", "58.3%"]
    assert cells["cpu utilization of a node, max"] == ["25.0%", "100.0%"]
    assert cells["cpu utilization of a node, standard deviation"] == ["0.0%", "42.5%"]
    assert path.read_text() == before


def test_compare_gives_the_same_as_json(tmp_path):
    run = run_scheduler("--cluster", packing_cluster(tmp_path), "--compare", most_requested(tmp_path),
                        "--output=json", cwd=ROOT)
    spread, packed = json.loads(run.stdout).values()
    assert (spread["pods"]["default/whole"], packed["pods"]["default/whole"] is None) == (None, False)
    assert packed["utilization"]["cpu"]["max"] == 100


def test_what_is_compared_may_be_for_other_schedulers(tmp_path):
    path = manifest(tmp_path, node("a"), pod("mine"), pod("theirs", schedulerName="theirs"))
    (tmp_path / "theirs.json").write_text(json.dumps({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "theirs"}]}))
    run = run_scheduler("--cluster", path, "--compare", tmp_path / "theirs.json", cwd=ROOT)
    assert (run.returncode, run.stderr) == (0, "")
    assert [line.split() for line in run.stdout.splitlines()[1:3]] == [
        ["default/mine", "a", "<none>"], ["default/theirs", "<none>", "a"]]


def test_a_rule_without_a_name_can_be_explained(tmp_path):
    (tmp_path / "policy.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "priorities": [
            {"name": "", "weight": 1, "argument": {"labelPreference": {"label": "x"}}}]}))
    lines = explained("--cluster", manifest(tmp_path, node("a"), node("b"), pod("p")),
                      "--policy", tmp_path / "policy.json")["default/p"]
    assert any(line.endswith("100×1  100") for line in lines)


def test_compared_with_itself_no_pod_lands_elsewhere_though_nodes_tie(tmp_path):
    path = manifest(tmp_path, *(node(name) for name in "abcdefgh"), *(pod(f"p{i}") for i in range(8)))
    (tmp_path / "same.json").write_text((ROOT / "policy.json").read_text())
    run = run_scheduler("--cluster", path, "--compare", tmp_path / "same.json")
    assert run.stdout.startswith("0 of 8 pods land elsewhere.\n")


@table("arguments, said", {
    "without manifests": ([], "--compare needs --cluster"),
    "another Policy that is broken": (["--cluster", DEMO], "broken.json: predicates: expected a list, got 7"),
})
def test_compare_with_wrong_usage(arguments, said, tmp_path):
    (tmp_path / "broken.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": 7}')
    run = run_scheduler(*arguments, "--compare", tmp_path / "broken.json")
    assert run.returncode == 2 and said in run.stderr


def test_a_seed_gives_each_pod_the_same_node_whoever_came_before_it():
    cluster = cluster_of(*(node(f"n{i}") for i in range(9)), *(pod(f"p{i}") for i in range(9)))
    policies = scheduler.load_policies(ROOT / "policy.json", "my-scheduler")
    scheduler.RANDOM.base = "1"
    try:
        pods = cluster.pending_pods(policies)
        places = [{pod.key: scheduler.schedule(pod, cluster.snapshot(policies), policies["my-scheduler"]).node
                   for pod in order} for order in (pods, pods[::-1])]
    finally:
        scheduler.RANDOM.base = None
    assert places[0] == places[1] and len(set(places[0].values())) > 2
