"""The README's promises: its exercises run as they are written there, and show what the text says."""

import ast
import itertools
import json
import re
import subprocess
import sys
import textwrap

import pytest
import scheduler
from conftest import ROOT, node, pod, run_scheduler

README = (ROOT / "README.md").read_text()


def block(beginning):
    """The first block of code behind a text."""
    lines = itertools.dropwhile(lambda line: not line.startswith("    "),
                                README[README.index(beginning):].splitlines())
    lines = itertools.takewhile(lambda line: line.startswith("    ") or not line, lines)
    return textwrap.dedent("\n".join(lines)).strip()


def run_exercise(number, folder):
    """Run an exercise's commands; return what each of them printed."""
    outputs = []
    for command in block(f"**{number}. ").splitlines():
        command = command.replace("/tmp/", f"{folder}/").replace(".venv/bin/python", sys.executable)
        run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, timeout=60)
        assert (run.returncode, run.stderr) == (0, ""), command
        outputs.append(run.stdout)
    return outputs


def places(output):
    """Where the pods went, by the lines for people."""
    return dict(re.findall(r"^default/(\S+) -> (\S+) ", output, re.M))


def test_exercise_1_taints(tmp_path):
    before, after = run_exercise(1, tmp_path)
    assert places(before) == places(after) == {"batch": "steady"}
    assert re.search(r"^  ✗ spot +PodToleratesNodeTaints", before, re.M)
    assert re.search(r"^ +\* steady +spot$", after, re.M)
    assert re.search(r"^  TaintTolerationPriority +0→100×1 +1→0×1$", after, re.M)
    [(steady, spot)] = re.findall(r"^  Total +(\d+) +(\d+)$", after, re.M)
    assert int(spot) < int(steady) < int(spot) + 100, "the taint decides it"


def test_exercise_2_resources(tmp_path):
    _, comparison = run_exercise(2, tmp_path)
    assert re.search(r"^default/whole +<none> +node-\d$", comparison, re.M)
    assert re.search(r"^pods that fit +3 of 4 +4 of 4$", comparison, re.M)


def test_exercise_3_affinity(tmp_path):
    before, _, after = run_exercise(3, tmp_path)
    assert places(before) == {"web-1": "big", "web-2": "big"}
    assert places(after) == {"web-1": "big", "web-2": "little"}
    assert re.search(r"^  ✗ big +MatchInterPodAffinity", after, re.M)


def test_exercise_4_spreading(tmp_path):
    before, after = run_exercise(4, tmp_path)
    assert places(before).keys() == {"web-1", "web-2", "web-3"}
    assert ("default/web-4 stays pending: 0/2 nodes are available: 1 Too many pods, 1 node(s) didn't match pod "
            "topology spread constraints.") in before
    assert places(after)["web-4"] == "east-1"


def test_exercise_5_a_rule_of_ones_own(tmp_path):
    before, _, after = run_exercise(5, tmp_path)
    assert places(before) == {"shop": "cloud", "telescope": "cloud"}
    assert places(after) == {"shop": "cloud", "telescope": "edge"}
    assert re.search(r"^  ✗ cloud +SpaceCloud: node\(s\) were not at the edge$", after, re.M)


def test_the_code_that_it_shows_is_the_scripts_own():
    source = (ROOT / "scheduler.py").read_text()
    functions = block("This is the script's own code").split("\n\n\n")
    assert len(functions) == 1
    for function in functions:
        assert f"\n{function}\n" in source, function.partition("\n")[0]


def test_the_shortest_predicate_works_as_it_stands(tmp_path):
    rules = block("This is all of")
    assert len(rules.splitlines()) < 10 and ast.parse(rules)
    [name] = re.findall(r'Name it in the Policy, `(.*?)`', README)
    (tmp_path / "my_rules.py").write_text(rules)
    (tmp_path / "policy.json").write_text(f'{{"kind": "Policy", "apiVersion": "v1", "predicates": [{name}]}}')
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [
        node("a", labels={"closed": "yes"}), node("b"), pod("p")]}))
    run = run_scheduler("--plugins", tmp_path / "my_rules.py", "--policy", tmp_path / "policy.json",
                        "--cluster", tmp_path / "cluster.json", "--output=json")
    assert json.loads(run.stdout)["failed"] == {"a": ["node(s) were closed"]}


def test_the_table_that_it_shows_has_the_form_of_the_real_one():
    shown = block("Ask why").partition("\n\n")[2]
    out = run_scheduler("--cluster", ROOT / "tests/clusters/demo.yaml", "--explain", "default/report").stdout
    assert shown in out


def test_the_configuration_that_it_shows_loads(tmp_path):
    (tmp_path / "config.yaml").write_text(block("## KubeSchedulerConfiguration"))
    spreading, packing = scheduler.load_policies(tmp_path / "config.yaml", "x").values()
    assert "MostRequestedPriority" in [rule.name for rule in packing.priorities]
    assert "ImageLocalityPriority" not in [rule.name for rule in packing.priorities]
    assert len(spreading.priorities) == 7


@pytest.mark.parametrize("point", [
    "PreEnqueue", "QueueSort", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore", "Reserve",
    "Unreserve", "Permit", "PreBind", "Bind", "PostBind", "EnqueueExtensions"])
def test_every_extension_point_has_its_row(point):
    assert re.search(rf"^\| ([A-Za-z]+, )*{point}(, [A-Za-z]+)* \|", README, re.M)
