"""Edits of rules in scheduler.py take effect in the second program, too: a rule that is changed, added or deleted.

Each edit is tried with manifests and with an API server. Eight pods differ only in the attribute that the edit reads. It
determines the team of the pod, which must be placed on the node of its team.
"""

import ast
import json
import re
import shutil
import textwrap

import pytest

from helpers.control_plane import wait_for
from helpers.extras import ROOT, node, pod, table
from helpers.faulty import ApiServer
from helpers.forked import run_to_end
from scheduler_extras.rules.script_rules import OWN_VERSIONS


TEXT = (ROOT / "scheduler.py").read_text()
TREE = ast.parse(TEXT)
TEAMS = ["red", "blue"]


def a_pod(i, **more):
    """One of eight pods."""
    return pod(f"p{i}", **more)


# Python expression for a pod's team -> function that returns the pod with number i
TEAM_EXPRESSIONS = {
    'pod.labels.get("team")': lambda i: a_pod(i, labels={"team": TEAMS[i % 2]}),
    'pod.annotations.get("team")': lambda i: a_pod(i, metadata={"annotations": {"team": TEAMS[i % 2]}}),
    'pod.name.partition("-")[0]': lambda i: pod(f"{TEAMS[i % 2]}-{i}"),
    'pod.namespace': lambda i: a_pod(i, namespace=TEAMS[i % 2]),
    'pod.spec["containers"][0]["env"][0]["value"]': lambda i: a_pod(i, containers=[
        {"name": "main", "image": "nginx", "env": [{"name": "TEAM", "value": TEAMS[i % 2]}]}]),
    'pod.containers[0]["image"]': lambda i: a_pod(i, containers=[{"name": "main", "image": TEAMS[i % 2]}]),
    '["red", "blue"][pod.priority]': lambda i: a_pod(i, priority=i % 2, metadata={"uid": f"uid-{i}"}),
    '["red", "blue"][pod.requests["memory"] // 2**20 - 1]': lambda i: a_pod(i, requests={"memory": f"{i % 2 + 1}Mi"}),
    '["red", "blue"][pod.nonzero_incoming["cpu"] % 2]': lambda i: a_pod(i, requests={"cpu": f"{i % 2 + 10}m"}),
    '["red", "blue"]["blue" in [each.get("key") for each in pod.tolerations]]': lambda i: a_pod(i, tolerations=[{"key": "blue"}] * (i % 2)),
    '["red", "blue"][len(disks_of(pod))]': lambda i: a_pod(i, volumes=[
        {"name": "v", "gcePersistentDisk": {"pdName": f"disk-{i}", "readOnly": True}}] * (i % 2)),
    '["red", "blue"][bool(pod.host_ports)]': lambda i: a_pod(i, containers=[
        {"name": "main", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 80 + i}] * (i % 2)}])}
EXPRESSIONS = [*TEAM_EXPRESSIONS]


def function_of(name):
    """Return the syntax tree of a function in the script, or of the rule with this name."""
    for place in ast.walk(TREE):
        if isinstance(place, ast.FunctionDef):
            names = [each.args[0].value for each in place.decorator_list if isinstance(each, ast.Call) and each.args
                     and isinstance(each.args[0], ast.Constant)]
            if name in (place.name, *names):
                return place


def with_body(name, body):
    """Return the script with another body of this rule or function."""
    place = function_of(name)
    lines = TEXT.splitlines()
    lines[place.body[0].end_lineno:place.end_lineno] = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ").splitlines()
    return "\n".join(lines) + "\n"


def without(name):
    """Return the script without this rule."""
    place = function_of(name)
    lines = TEXT.splitlines()
    del lines[place.decorator_list[0].lineno - 1:place.end_lineno]
    return "\n".join(lines) + "\n"


def with_more(function):
    """Return the script with an additional function before its chapter about priorities."""
    before, head, after = TEXT.partition("# ==== 4. Priorities")
    return before + textwrap.dedent(function) + "\n\n" + head + after


def refuses(team):
    """Return the body of a predicate that rejects the nodes of other teams."""
    return f"""
        team = {team}
        if node.labels.get("team") != team:
            yield f"node(s) were not of team {{team}}"
        """


def prefers(team):
    """Return the body of a priority that scores the nodes of the team higher."""
    return f"""
        return int(node.labels.get("team") == {team})
        """


def avoids(team):
    """Return the body of a priority whose lowest score is best."""
    return f"""
        return int(node.labels.get("team") != {team})
        """


EDITS = {  # the edit: the script, the rules that the Policy names, the expression for the team
    **{f"the predicate {name}, by {team}": (with_body(name, refuses(team)), {"predicates": [name]}, team)
       for name, team in zip(("CheckNodeUnschedulable", "HostName", "MatchNodeSelector", "PodFitsResources",
                              "PodToleratesNodeTaints", "HostName", "HostName", "HostName", "HostName", "HostName", "HostName", "HostName"), EXPRESSIONS)},
    **{f"the priority {name}, by {team}": (with_body(name, body(team)), {"priorities": [name]}, team)
       for name, body, team in (("LeastRequestedPriority", prefers, EXPRESSIONS[0]), ("BalancedResourceAllocation", prefers, EXPRESSIONS[2]),
                                ("NodeAffinityPriority", prefers, EXPRESSIONS[1]), ("TaintTolerationPriority", avoids, EXPRESSIONS[4]),
                                ("LeastRequestedPriority", prefers, EXPRESSIONS[8]))},
    **{f"a new predicate, by {team}": (
        with_more(f'@predicate("OnlyTeam")\ndef only_team(pod, node):\n    """Its team."""{refuses(team)}'.replace("\n        ", "\n    ")),
        {"predicates": ["OnlyTeam"]}, team) for team in (EXPRESSIONS[0], EXPRESSIONS[1], EXPRESSIONS[2], EXPRESSIONS[4])},
    "a new priority": (
        with_more('@priority("Team")\ndef team(pod, node):\n    return 100 if node.labels.get("team") == pod.namespace else 0\n'),
        {"priorities": ["Team"]}, "pod.namespace"),
    "a new priority with a reduce": (
        with_more('@priority("Team", reduce=lambda scores: {name: 100 * score for name, score in scores.items()})\n'
                  'def team(pod, node):\n    return node.labels.get("team") == pod.namespace\n'),
        {"priorities": ["Team"]}, "pod.namespace"),
    "a function that rules call, matches_node": (
        with_body("matches_node", f'return node.labels.get("team") == {EXPRESSIONS[1]}'), {"predicates": ["MatchNodeSelector"]}, EXPRESSIONS[1]),
    "a function that rules call, usage": (
        with_body("usage", """
            far = node.labels.get("team") != ["red", "blue"][pod.nonzero_incoming["cpu"] % 2]
            return 2 * [(90 if far else 10, 100)]"""), {"priorities": ["LeastRequestedPriority"]}, EXPRESSIONS[8]),
    "select_host": (
        with_body("select_host", 'return sorted(total)[-1 if "red" in total else 0]'), {"predicates": []}, None)}
DRIVER = """
import sys, json, scheduler_extras
for arguments in json.loads(sys.stdin.read()):
    print("exit code", scheduler_extras.main(arguments), flush=True)
"""


def project(folder, text):
    """Copy the project, with this script."""
    (folder / "scheduler.py").write_text(text)
    shutil.copytree(ROOT / "scheduler_extras", folder / "scheduler_extras")


def policy_of(predicates=(), priorities=()):
    """A Policy that names these rules."""
    return json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": name} for name in predicates],
                       "priorities": [{"name": name, "weight": 1} for name in priorities]})


def placements_with(folder, text, policy, pods, *more):
    """Run a script with manifests, with an API server, and then with more arguments; return {pod: node} of the first two, and the run."""
    project(folder, text)
    (folder / "policy.json").write_text(policy_of(**policy))
    nodes = [node(team, labels={"team": team}, status={"allocatable": {
        "cpu": "4", "memory": "8Gi", "pods": "110", f"example.com/{team}": "8"}}) for team in TEAMS]
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [*nodes, *pods]}))
    server = ApiServer(*nodes, *pods)
    runs = [["--cluster", "cluster.json"], ["--server", server.url, "--once"], *more]
    try:
        run = run_to_end([], script="-c", program=DRIVER, input=json.dumps(runs), cwd=folder)
        with_manifests = dict(re.findall(r"^(\S+) -> (\S+)  ", run.stdout.split("exit code")[0], re.M))
        return [with_manifests, server.placements()], run
    finally:
        server.stop()


@table("text, policy, team", EDITS)
def test_an_edit_of_the_script_takes_effect(tmp_path, text, policy, team):
    assert text != TEXT, "the edit changes nothing"
    pods = [TEAM_EXPRESSIONS[team](i) if team else a_pod(i) for i in range(8)]
    expected = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": TEAMS[i % 2] if team else "red"
                for i, each in enumerate(pods)}
    placements, run = placements_with(tmp_path, text, policy, pods)
    assert placements == 2 * [expected], run.stderr
    assert re.findall("exit code (.)", run.stdout) == ["0", "0"]


@pytest.mark.parametrize("name", sorted(OWN_VERSIONS))
def test_an_edit_of_a_rule_with_a_faster_version_has_no_effect(tmp_path, name):
    placements, run = placements_with(tmp_path, with_body(name, "yield 'no'"), {"predicates": [name]}, [a_pod(1)])
    assert [len(each) for each in placements] == [1, 1], run.stderr


@pytest.mark.parametrize("name", [name for name in re.findall(r'^@(?:predicate|priority)\("(\w+)"', TEXT, re.M)
                                  if name not in OWN_VERSIONS])
def test_a_rule_can_be_deleted_from_the_script(tmp_path, name):
    """A Policy that names it is rejected; another Policy works."""
    pods = [a_pod(i) for i in range(2)]
    names = {"predicates": ["PodFitsResources", "HostName"], "priorities": ["LeastRequestedPriority", "NodeAffinityPriority"]}
    left = {where: [each for each in names[where] if each != name] for where in names}
    where = "priorities" if f'@priority("{name}"' in TEXT else "predicates"
    (tmp_path / "named.json").write_text(policy_of(**{where: [name]}))
    placements, run = placements_with(tmp_path, without(name), left, pods, ["--once", "--cluster", "cluster.json", "--policy", "named.json"])
    assert [len(each) for each in placements] == [2, 2], run.stderr
    assert re.findall("exit code (.)", run.stdout) == ["0", "0", "2"]
    assert f'"{name}"' in run.stderr.splitlines()[-1]


STEADY = '"HostName": {"plugin": "NodeName", "unresolvable": True, **GENERAL}'


@pytest.mark.parametrize("steady", [True, False])
def test_a_rule_of_the_script_runs_each_time_if_it_is_declared_not_steady(tmp_path, steady):
    """See the comment at the table of the script's rules in scheduler_extras/rules/script_rules.py."""
    text = with_body("HostName", """
        ASKED.append(1)
        return
        yield
        """).replace("\n@predicate(\"HostName\")", "\nASKED = []\n\n\n@predicate(\"HostName\")")
    project(tmp_path, text)
    rule = tmp_path / "scheduler_extras" / "rules" / "script_rules.py"
    assert rule.read_text().count(STEADY) == 1
    if not steady:
        rule.write_text(rule.read_text().replace(STEADY, STEADY.replace("**GENERAL", '**GENERAL, "steady": False')))
    (tmp_path / "policy.json").write_text(policy_of(["HostName"]))
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [
        *map(node, "abcd"), *(a_pod(i) for i in range(8))]}))
    run = run_to_end([], script="-c", program="import scheduler, scheduler_extras; scheduler_extras.main(['--cluster', 'cluster.json']); print(len(scheduler.ASKED))",
                     cwd=tmp_path)
    assert (int(run.stdout.split()[-1]) == 8 * 4) == (not steady), run.stdout + run.stderr


OWN = """
from scheduler import predicate

@predicate("Team", steady=True)
def team(pod, node):
    if node.labels["team"] {} pod.namespace:
        yield "node(s) were of another team"
"""


def test_an_edit_of_a_steady_rule_in_a_plugins_file_takes_effect_at_runtime(tmp_path, start_scheduler):
    (tmp_path / "rules.py").write_text(OWN.format("!="))
    (tmp_path / "policy.json").write_text(policy_of(["Team"]))
    server = ApiServer(*(node(team, labels={"team": team}) for team in TEAMS), *(pod(f"p{i}", namespace=TEAMS[i % 2]) for i in range(8)))
    try:
        start_scheduler("--server", server.url, "--policy", tmp_path / "policy.json", "--plugins", tmp_path / "rules.py", "--interval", "0.1")
        wait_for("all pods are bound", lambda: server.placements() == {f"{TEAMS[i % 2]}/p{i}": TEAMS[i % 2] for i in range(8)})
        (tmp_path / "rules.py").write_text(OWN.format("=="))
        wait_for("the file is reloaded", lambda: "has changed" in (tmp_path / "run-0" / "stderr").read_text())
        server.create(*(pod(f"q{i}", namespace=TEAMS[i % 2]) for i in range(8)))
        wait_for("the new pods are bound", lambda: len(server.placements()) == 16)
        assert {key: place for key, place in server.placements().items() if "/q" in key} == {
            f"{TEAMS[i % 2]}/q{i}": TEAMS[(i + 1) % 2] for i in range(8)}
    finally:
        server.stop()
