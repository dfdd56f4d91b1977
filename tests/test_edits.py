"""Edits of scheduler.py take effect, with --cluster and with an API server."""

import json
import re
import textwrap

import pytest
import yaml

from helpers.script import ROOT, api_server, node, pod, policy, run, running, table, wait_for


TEXT = (ROOT / "scheduler.py").read_text()


def edited(*changes):
    """Return the script with some texts replaced."""
    text = TEXT
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def appended(text):
    """Return the script with a text after its last line."""
    return f"{TEXT}\n\n{textwrap.dedent(text)}"


CLOSED = """
@predicate("OnlyOpenNodes")
def only_open_nodes(pod, node):
    if node.labels.get("closed") == "yes":
        yield "node(s) were closed"
"""
LAST = """
@priority("LastName", reduce=lambda scores: {name: 100 * score for name, score in scores.items()})
def last_name(pod, node):
    return node.name == "b"
"""
BEFORE_PRIORITIES = "# ==== 4. Priorities ==="
NODES = [node("a", labels={"closed": "yes"}), node("b", cpu="2")]
SPREAD = policy(["PodFitsResources"], ["LeastRequestedPriority"])

EDITS = {  # the edited script, the Policy, and a part of the output
    "a new predicate among the others": (
        edited((BEFORE_PRIORITIES, f"{CLOSED.lstrip()}\n\n{BEFORE_PRIORITIES}")), policy(["OnlyOpenNodes"], ["LeastRequestedPriority"]),
        "default/web -> b  (1 of 2 nodes fit"),
    "a new predicate at the end of the file": (
        appended(CLOSED), policy(["OnlyOpenNodes"], ["LeastRequestedPriority"]), "default/web -> b  (1 of 2 nodes fit"),
    "a new priority with a reduce at the end of the file": (appended(LAST), policy([], ["LastName"]), "default/web -> b  (2 of 2 nodes fit, score 100)"),
    "a changed rule": (edited(('    if len(node.pods) + 1 > node.max_pods:\n', '    if node.name == "a":\n        yield "node(s) were a"\n    if len(node.pods) + 1 > node.max_pods:\n')),
                     SPREAD, "default/web -> b  (1 of 2"),
    "a changed select_host": (
        edited(("    return random.choice([name for name, score in total.items() if score == best])\n", "    return min(total, key=total.get)\n")),
        SPREAD, "default/web -> b  (2 of 2"),
    "a print in prioritize": (
        edited(("            for name in feasible:\n", "            print(rule.name, points)\n            for name in feasible:\n")),
        SPREAD, "LeastRequestedPriority {'a': 97, 'b': 96}\n"),
    "a new field of the Policy": (
        edited(('"priorities", "alwaysCheckAllPredicates"]', '"priorities", "alwaysCheckAllPredicates", "note"]')), SPREAD | {"note": "a lesson"}, "default/web -> a")}


@pytest.mark.parametrize("source", ["manifests", "an API server"])
@table("text, policy_text, printed", EDITS)
def test_an_edit_of_the_script_takes_effect(tmp_path, text, policy_text, printed, source):
    (tmp_path / "scheduler.py").write_text(text)
    (tmp_path / "policy.json").write_text(json.dumps(policy_text))
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([*NODES, pod("web")]))
    with api_server(*NODES, pod("web")) as server:
        where = ["--cluster", tmp_path / "cluster.yaml"] if source == "manifests" else ["--server", server.url, "--once"]
        done = run(*where, script=tmp_path / "scheduler.py")
    assert printed in done.stdout and (done.stderr, done.returncode) == ("", 0)


def test_the_backoff_can_be_changed(tmp_path):
    (tmp_path / "scheduler.py").write_text(edited(("min(2 ** attempts.count, 10)", "0.01")))
    (tmp_path / "policy.json").write_text(json.dumps(SPREAD))
    with api_server(node("a", cpu="1"), pod("web", {"cpu": "2"})) as server, running(
            tmp_path, "--server", server.url, "--interval", "0.05", script=tmp_path / "scheduler.py") as script:
        wait_for("web is pending", lambda: "web stays pending" in script.out)
        asked = len(server.sent("list"))
        server.create(node("b"))
        wait_for("web is bound", lambda: server.placements() == {"default/web": "b"})
        passes = (len(server.sent("list")) - asked) / 3
        assert passes <= 4  # with the original backoff of a second, it would be twenty


@pytest.mark.parametrize("name", re.findall(r'^@(?:predicate|priority)\("(\w+)"', TEXT, re.M))
def test_a_rule_can_be_deleted(tmp_path, name):
    start = TEXT.index(f'("{name}"')
    start, end = TEXT.rindex("\n@", 0, start), re.compile(r"\n\n\n").search(TEXT, start).start()
    (tmp_path / "scheduler.py").write_text(TEXT[:start] + TEXT[end:])
    names = {"predicates": ["PodFitsResources", "HostName"], "priorities": ["LeastRequestedPriority", "NodeAffinityPriority"]}
    (tmp_path / "policy.json").write_text(json.dumps(policy(*([each for each in each_list if each != name] for each_list in names.values()))))
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([*NODES, pod("web")]))
    done = run("--cluster", tmp_path / "cluster.yaml", script=tmp_path / "scheduler.py")
    assert "1 placed, 0 pending" in done.stdout, done.stderr
    lists = ([], [name]) if f'@priority("{name}"' in TEXT else ([name], [])
    (tmp_path / "policy.json").write_text(json.dumps(policy(*lists)))
    done = run("--cluster", tmp_path / "cluster.yaml", script=tmp_path / "scheduler.py")
    assert done.returncode == 2 and f'"{name}"' in done.stderr and len(done.stderr.splitlines()) == 1
