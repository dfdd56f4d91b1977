"""Edits of rules in scheduler.py count in the second program, too: a rule that is changed, added or deleted there.

Each edit is tried among manifests and in a live loop. Eight pods differ only in what the edit looks at: the team of each,
and each pod is to go to the node of its team.
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


# What tells a pod's team in Python -> a function that makes the pod with number i so.
SAID_BY = {
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
ASKS = [*SAID_BY]


def function_of(name):
    """The place of a function of the script, or of the rule of this name."""
    for place in ast.walk(TREE):
        if isinstance(place, ast.FunctionDef):
            names = [each.args[0].value for each in place.decorator_list if isinstance(each, ast.Call) and each.args
                     and isinstance(each.args[0], ast.Constant)]
            if name in (place.name, *names):
                return place


def with_body(name, body):
    """The script with another body of this rule, or function."""
    place = function_of(name)
    lines = TEXT.splitlines()
    lines[place.body[0].end_lineno:place.end_lineno] = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ").splitlines()
    return "\n".join(lines) + "\n"


def without(name):
    """The script without this rule."""
    place = function_of(name)
    lines = TEXT.splitlines()
    del lines[place.decorator_list[0].lineno - 1:place.end_lineno]
    return "\n".join(lines) + "\n"


def with_more(function):
    """The script with a function before its chapter of priorities."""
    before, head, after = TEXT.partition("# ==== 4. Priorities")
    return before + textwrap.dedent(function) + "\n\n" + head + after


def refuses(team):
    """The body of a predicate."""
    return f"""
        team = {team}
        if node.labels.get("team") != team:
            yield f"node(s) were not of team {{team}}"
        """


def prefers(team):
    """The body of a priority; its `reduce` makes 100 points of the highest score, or of the lowest."""
    return f"""
        return int(node.labels.get("team") == {team})
        """


def avoids(team):
    """The body of a priority of which the lowest score is best."""
    return f"""
        return int(node.labels.get("team") != {team})
        """


EDITS = {  # what is edited: the script, the rules that the Policy names, what tells the team
    **{f"the predicate {name}, by {team}": (with_body(name, refuses(team)), {"predicates": [name]}, team)
       for name, team in zip(("CheckNodeUnschedulable", "HostName", "MatchNodeSelector", "PodFitsResources",
                              "PodToleratesNodeTaints", "HostName", "HostName", "HostName", "HostName", "HostName", "HostName", "HostName"), ASKS)},
    **{f"the priority {name}, by {team}": (with_body(name, body(team)), {"priorities": [name]}, team)
       for name, body, team in (("LeastRequestedPriority", prefers, ASKS[0]), ("BalancedResourceAllocation", prefers, ASKS[2]),
                                ("NodeAffinityPriority", prefers, ASKS[1]), ("TaintTolerationPriority", avoids, ASKS[4]),
                                ("LeastRequestedPriority", prefers, ASKS[8]))},
    **{f"a new predicate, by {team}": (
        with_more(f'@predicate("OnlyTeam")\ndef only_team(pod, node):\n    """Its team."""{refuses(team)}'.replace("\n        ", "\n    ")),
        {"predicates": ["OnlyTeam"]}, team) for team in (ASKS[0], ASKS[1], ASKS[2], ASKS[4])},
    "a new priority": (
        with_more('@priority("Team")\ndef team(pod, node):\n    return 100 if node.labels.get("team") == pod.namespace else 0\n'),
        {"priorities": ["Team"]}, "pod.namespace"),
    "a new priority with a reduce": (
        with_more('@priority("Team", reduce=lambda scores: {name: 100 * score for name, score in scores.items()})\n'
                  'def team(pod, node):\n    return node.labels.get("team") == pod.namespace\n'),
        {"priorities": ["Team"]}, "pod.namespace"),
    "what rules call: matches_node": (
        with_body("matches_node", f'return node.labels.get("team") == {ASKS[1]}'), {"predicates": ["MatchNodeSelector"]}, ASKS[1]),
    "what rules call: usage": (
        with_body("usage", """
            far = node.labels.get("team") != ["red", "blue"][pod.nonzero_incoming["cpu"] % 2]
            return 2 * [(90 if far else 10, 100)]"""), {"priorities": ["LeastRequestedPriority"]}, ASKS[8]),
    "select_host": (
        with_body("select_host", 'return sorted(total)[-1 if "red" in total else 0]'), {"predicates": []}, None)}
DRIVER = """
import sys, json, scheduler_extras
for arguments in json.loads(sys.stdin.read()):
    print("exit code", scheduler_extras.main(arguments), flush=True)
"""


def project(folder, text):
    """Make a copy of the project with this script."""
    (folder / "scheduler.py").write_text(text)
    shutil.copytree(ROOT / "scheduler_extras", folder / "scheduler_extras")


def policy_of(predicates=(), priorities=()):
    """A Policy that names these rules."""
    return json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": name} for name in predicates],
                       "priorities": [{"name": name, "weight": 1} for name in priorities]})


def places_by(folder, text, policy, pods, *more):
    """Where pods go by a script: among manifests, in a live loop; {pod: node} of each. Then there are more runs."""
    project(folder, text)
    (folder / "policy.json").write_text(policy_of(**policy))
    nodes = [node(team, labels={"team": team}, status={"allocatable": {
        "cpu": "4", "memory": "8Gi", "pods": "110", f"example.com/{team}": "8"}}) for team in TEAMS]
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [*nodes, *pods]}))
    server = ApiServer(*nodes, *pods)
    runs = [["--cluster", "cluster.json"], ["--server", server.url, "--once"], *more]
    try:
        run = run_to_end([], script="-c", program=DRIVER, input=json.dumps(runs), cwd=folder)
        among_manifests = dict(re.findall(r"^(\S+) -> (\S+)  ", run.stdout.split("exit code")[0], re.M))
        return [among_manifests, server.placements()], run
    finally:
        server.stop()


@table("text, policy, team", EDITS)
def test_whoever_edits_the_script_is_obeyed(tmp_path, text, policy, team):
    assert text != TEXT, "there is nothing edited"
    pods = [SAID_BY[team](i) if team else a_pod(i) for i in range(8)]
    expected = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": TEAMS[i % 2] if team else "red"
                for i, each in enumerate(pods)}
    placements, run = places_by(tmp_path, text, policy, pods)
    assert placements == 2 * [expected], run.stderr
    assert re.findall("exit code (.)", run.stdout) == ["0", "0"]


@pytest.mark.parametrize("name", sorted(OWN_VERSIONS))
def test_of_a_rule_of_which_there_is_a_quicker_version_edits_do_not_count(tmp_path, name):
    placements, run = places_by(tmp_path, with_body(name, "yield 'no'"), {"predicates": [name]}, [a_pod(1)])
    assert [len(each) for each in placements] == [1, 1], run.stderr


@pytest.mark.parametrize("name", [name for name in re.findall(r'^@(?:predicate|priority)\("(\w+)"', TEXT, re.M)
                                  if name not in OWN_VERSIONS])
def test_a_rule_that_is_deleted_from_the_script_is_gone(tmp_path, name):
    """A Policy that names it is refused; one that does not goes on."""
    pods = [a_pod(i) for i in range(2)]
    names = {"predicates": ["PodFitsResources", "HostName"], "priorities": ["LeastRequestedPriority", "NodeAffinityPriority"]}
    left = {where: [each for each in names[where] if each != name] for where in names}
    where = "priorities" if f'@priority("{name}"' in TEXT else "predicates"
    (tmp_path / "named.json").write_text(policy_of(**{where: [name]}))
    placements, run = places_by(tmp_path, without(name), left, pods, ["--once", "--cluster", "cluster.json", "--policy", "named.json"])
    assert [len(each) for each in placements] == [2, 2], run.stderr
    assert re.findall("exit code (.)", run.stdout) == ["0", "0", "2"]
    assert f'"{name}"' in run.stderr.splitlines()[-1]


STEADY = '"HostName": {"plugin": "NodeName", "unresolvable": True, **GENERAL}'


@pytest.mark.parametrize("steady", [True, False])
def test_a_rule_that_goes_by_what_it_has_kept_is_asked_each_time_if_it_is_said_not_to_be_steady(tmp_path, steady):
    """The comment at the table of the script's rules in scheduler_extras/rules/script_rules.py says how."""
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


def test_a_steady_rule_of_plugins_that_is_edited_while_the_script_runs_is_obeyed(tmp_path, start_scheduler):
    (tmp_path / "rules.py").write_text(OWN.format("!="))
    (tmp_path / "policy.json").write_text(policy_of(["Team"]))
    server = ApiServer(*(node(team, labels={"team": team}) for team in TEAMS), *(pod(f"p{i}", namespace=TEAMS[i % 2]) for i in range(8)))
    try:
        start_scheduler("--server", server.url, "--policy", tmp_path / "policy.json", "--plugins", tmp_path / "rules.py", "--interval", "0.1")
        wait_for("all are bound", lambda: server.placements() == {f"{TEAMS[i % 2]}/p{i}": TEAMS[i % 2] for i in range(8)})
        (tmp_path / "rules.py").write_text(OWN.format("=="))
        wait_for("the edit has been read", lambda: "has changed" in (tmp_path / "run-0" / "stderr").read_text())
        server.create(*(pod(f"q{i}", namespace=TEAMS[i % 2]) for i in range(8)))
        wait_for("the others are, elsewhere", lambda: len(server.placements()) == 16)
        assert {key: place for key, place in server.placements().items() if "/q" in key} == {
            f"{TEAMS[i % 2]}/q{i}": TEAMS[(i + 1) % 2] for i in range(8)}
    finally:
        server.stop()
