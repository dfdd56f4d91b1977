"""If a rule raises an exception, its pod stays pending, other pods are scheduled, and the log shows the line."""

import re

import pytest

from helpers.script import ROOT, api_server, node, pod, policy, run, running, scheduler, table, wait_for


TEXT = (ROOT / "scheduler.py").read_text()


def with_mistake(folder, line, rule="match_node_selector"):
    """Write the script with a line inserted at the start of a rule, which runs for the pod odd; return its path."""
    before, head, after = TEXT.partition(f"def {rule}(pod, node):\n")
    docstring, newline, rest = after.partition('"""\n')
    path = folder / "scheduler.py"
    path.write_text(f"{before}{head}{docstring}{newline}    if pod.name == 'odd':\n        {line}\n{rest}")
    return path


@table("rule, line, error", {
    "a name with a typo": ("match_node_selector", "nod.labels", "NameError: name 'nod' is not defined"),
    "an attribute with a typo": ("match_node_selector", "node.label", "AttributeError: 'Node' object has no attribute 'label'"),
    "a missing label": ("match_node_selector", 'node.labels["zone"]', "KeyError: 'zone'"),
    "a division by zero in a priority": ("least_requested", "1 / 0", "ZeroDivisionError: division by zero"),
    "a priority that returns nothing": ("least_requested", "return", "ValueError: LeastRequestedPriority must return 0 to 100 points, not None"),
    "a predicate that yields None": ("match_node_selector", "yield", "TypeError: MatchNodeSelector must yield texts, not [None]"),
    "points above 100": ("least_requested", "return 101",
                         "ValueError: LeastRequestedPriority must return 0 to 100 points, not 101"),
})
def test_the_pod_stays_pending_and_other_pods_are_scheduled(tmp_path, rule, line, error):
    script = with_mistake(tmp_path, line, rule)
    with api_server(node("a"), pod("odd", priority=1), pod("web")) as server, running(
            tmp_path, "--server", server.url, "--policy", ROOT / "policy.json", "--interval", "0.1", script=script) as scheduler_:
        wait_for("web is bound", lambda: server.placements() == {"default/web": "a"})
        wait_for("odd is tried again", lambda: scheduler_.process.poll() is None and "odd stays pending" in scheduler_.out)
        server.create(pod("later"))
        wait_for("later is bound", lambda: server.placements() == {"default/web": "a", "default/later": "a"})
        assert re.findall("^default/odd (.*)", scheduler_.out, re.M) == [f"stays pending: {error}"]
        assert scheduler_.err.count("Traceback") == 1
        number = 1 + script.read_text().splitlines().index(f"        {line}")
        assert f'scheduler.py", line {number}, in {rule}' in scheduler_.err or "must" in error
        assert error in scheduler_.err


def test_a_mistake_is_logged_once_for_all_its_pods(tmp_path):
    script = with_mistake(tmp_path, "pass\n    raise ValueError(pod.name)")
    with api_server(node("a"), *(pod(f"p{i}") for i in range(20))) as server:
        done = run("--server", server.url, "--policy", ROOT / "policy.json", "--once", script=script)
    assert done.stderr.count("Traceback") == 1 and done.stdout.count("ValueError: p") == 20
    assert done.returncode == 0 and not server.placements()


@table("function", {
    "it returns a reason": lambda pod, node: "node(s) were closed", "it returns a boolean": lambda pod, node: True})
def test_a_predicate_that_does_not_yield_cannot_be_registered(function):
    with pytest.raises(TypeError, match="the predicate Closed must yield reasons"):
        scheduler.predicate("Closed")(function)
    assert "Closed" not in scheduler.PREDICATES


def test_the_error_for_a_predicate_without_yield_shows_its_line(tmp_path):
    (tmp_path / "scheduler.py").write_text(TEXT + '\n\n@predicate("Closed")\ndef closed(pod, node):\n    return "closed"\n')
    (tmp_path / "policy.json").write_text(str(policy()))
    done = run("--once", script=tmp_path / "scheduler.py")
    assert done.returncode == 1
    assert '@predicate("Closed")' in done.stderr or "def closed(pod, node):" in done.stderr  # Python 3.10 shows the latter
    assert done.stderr.splitlines()[-1] == 'TypeError: the predicate Closed must yield reasons: yield "node(s) were closed"'
