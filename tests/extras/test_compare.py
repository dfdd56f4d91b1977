"""--compare: the decisions of other policies side by side."""

import json
import re
import threading

from helpers.explain import DEMO, explained, manifest, read_scores
from helpers.extras import ROOT, cluster_of, node, pending_pods, pod, run_scheduler, table
from helpers.policies import load_policies
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.options import read_arguments
from scheduler_extras.policy.policy_file import PolicyFile
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.show.compare import compare
from scheduler_extras.show.text import Screen


def most_requested(folder):
    """Write policy.json with MostRequestedPriority as its only priority; return its path."""
    policy = json.loads((ROOT / "policy.json").read_text())
    policy["priorities"] = [{"name": "MostRequestedPriority", "weight": 1}]
    path = folder / "most.json"
    path.write_text(json.dumps(policy))
    return path


def packing_cluster(folder):
    """Write a cluster of three nodes, three small pods, and one that needs a whole node."""
    return manifest(folder, *(node(name) for name in "abc"), *(pod(f"small-{i}", {"cpu": "1"}) for i in range(3)),
                    pod("whole", {"cpu": "4"}))


def test_compare_shows_the_decisions_of_another_policy(tmp_path):
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


@table("repeated", {"one flag with several values": ["DefaultProvider"], "a flag for each": ["--compare", "DefaultProvider"]})
def test_compare_takes_several_policies(repeated, tmp_path):
    run = run_scheduler("--cluster", packing_cluster(tmp_path), "--compare", most_requested(tmp_path), *repeated, cwd=ROOT)
    assert run.stdout.splitlines()[0].split() == ["POD", "policy.json", str(tmp_path / "most.json"), "DefaultProvider"]


def test_cluster_may_be_given_several_times(tmp_path):
    for name, thing in (("nodes", node("a")), ("pods", pod("p"))):
        (tmp_path / f"{name}.json").write_text(json.dumps({"kind": "List", "items": [thing]}))
    run = run_scheduler("--cluster", tmp_path / "nodes.json", "--cluster", tmp_path / "pods.json")
    assert run.stdout.startswith("default/p -> a ")


def test_without_priorities_explain_says_where_the_total_comes_from(tmp_path):
    (tmp_path / "policy.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": []}')
    run = run_scheduler("--cluster", manifest(tmp_path, node("a"), node("b"), pod("p")), "--explain", "--policy",
                        tmp_path / "policy.json")
    assert "\n  no priority is active: each node that fits has a total of 1\n" in run.stdout


def test_compare_warns_of_a_policy_that_ignores_a_requirement_of_a_pod(tmp_path):
    (tmp_path / "blind.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": []}')
    path = manifest(tmp_path, node("a"), pod("p", {"cpu": "1"}))
    run = run_scheduler("--cluster", path, "--compare", tmp_path / "blind.json")
    assert run.stderr.splitlines()[-1] == (
        f"{tmp_path / 'blind.json'}: default/p is placed, though it has resource requests, and PodFitsResources, which looks "
        "at that, is not active")
    assert "policy.json: default/p" not in run.stderr


def test_compare_as_json(tmp_path):
    run = run_scheduler("--cluster", packing_cluster(tmp_path), "--compare", most_requested(tmp_path),
                        "--output=json", cwd=ROOT)
    spread, packed = json.loads(run.stdout).values()
    assert (spread["pods"]["default/whole"], packed["pods"]["default/whole"] is None) == (None, False)
    assert packed["utilization"]["cpu"]["max"] == 100


def test_compared_policies_may_be_for_other_schedulers(tmp_path):
    path = manifest(tmp_path, node("a"), pod("mine"), pod("theirs", schedulerName="theirs"))
    (tmp_path / "theirs.json").write_text(json.dumps({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "theirs", "plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}]}))
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
    assert {tuple(cells.items()) for cells in read_scores(lines).values()} == {(("", "100×1"), ("Total", "100"))}


def test_a_policy_compared_with_itself_places_pods_alike_even_if_nodes_tie(tmp_path):
    path = manifest(tmp_path, *(node(name) for name in "abcdefgh"), *(pod(f"p{i}") for i in range(8)))
    (tmp_path / "same.json").write_text((ROOT / "policy.json").read_text())
    run = run_scheduler("--cluster", path, "--compare", tmp_path / "same.json")
    assert run.stdout.startswith("0 of 8 pods land elsewhere.\n")


def test_the_active_policy_may_be_compared_with_itself_several_times(tmp_path):
    path = manifest(tmp_path, node("a"), pod("p", {"cpu": "1"}))
    run = run_scheduler("--cluster", path, "--policy", "policy.json", "--compare", "policy.json", "policy.json", cwd=ROOT)
    head, fit, *_ = [re.split("  +", line.strip()) for line in run.stdout.splitlines()[2:]]
    assert head == ["policy.json", "policy.json, again", "policy.json, again, again"]
    assert fit == ["pods that fit", *["1 of 1"] * 3]


def test_a_comparison_interrupted_by_a_signal_fails_and_shows_no_table(tmp_path, capsys):
    stop = threading.Event()
    stop.set()
    manifests = Manifests([packing_cluster(tmp_path)])
    files = [PolicyFile(str(ROOT / "policy.json"), "my-scheduler")]
    options = read_arguments(["--cluster", "-"])
    assert compare(manifests, files, stop, options, Screen()) and capsys.readouterr().out == ""


@table("arguments, message", {
    "without manifests": ([], "--compare needs --cluster"),
    "a broken Policy": (["--cluster", DEMO], "broken.json: predicates: expected a list, got 7"),
})
def test_compare_refuses(arguments, message, tmp_path):
    (tmp_path / "broken.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": 7}')
    run = run_scheduler(*arguments, "--compare", tmp_path / "broken.json")
    assert run.returncode == 2 and message in run.stderr


def test_with_a_seed_the_choice_between_ties_does_not_depend_on_the_order_of_pods(monkeypatch):
    cluster = cluster_of(*(node(f"n{i}") for i in range(9)), *(pod(f"p{i}") for i in range(9)))
    policies = load_policies(ROOT / "policy.json", "my-scheduler")
    monkeypatch.setattr(CHANCE, "seed", "1")
    pods = pending_pods(cluster, policies)
    placements = [{pod.key: schedule(pod, cluster.refresh_snapshot(policies), policies["my-scheduler"]).node
               for pod in order} for order in (pods, pods[::-1])]
    assert placements[0] == placements[1] and len(set(placements[0].values())) > 2
