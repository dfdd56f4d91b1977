"""Custom rules: loading, parameters and arguments."""

import inspect
import json
import re
from pathlib import Path

import pytest

import helpers.tutorial  # noqa: F401 (registers the rules of the example)
from helpers.configuration import read_configuration
from helpers.extras import MANDATORY_PREDICATES, ROOT, decide, node, pod, run_afresh, run_scheduler, table
from helpers.spy import RULES, built, policy
from scheduler_extras.common.errors import InputError
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.deciding.rule import CATALOGUES, PREDICATES, PRIORITIES
from scheduler_extras.policy.own_rules import (
    checked_rule,
    load_plugins,
    predicate,
    priority,
    unplug,
)
from scheduler_extras.policy.policy_file import PolicyFile
from scheduler_extras.rules.script_rules import IN_THE_SCRIPT


@table("wanted, feasible", {
    "a pod with a node label fits only that node": ({"node": "b"}, ["b"]),
    "a pod without a node label fits all nodes": ({}, ["a", "b"]),
    "a pod with the label of an unknown node fits none": ({"node": "z"}, []),
})
def test_custom_predicate(wanted, feasible):
    decision = decide(built(["CustomPredicatePolicy"]), pod("p", labels=wanted), node("a"), node("b"))
    assert list(decision.total) == feasible
    message = "0/2 nodes are available: 2 node(s) were not the one that the pod names."
    assert decision.message == (None if feasible else message)


def test_custom_priority_is_mapped_reduced_and_weighted():
    decision = decide(built((), [{"name": "CustomPriorityPolicy", "weight": 3}]), pod("p"), node("abcd"), node("a"))
    assert decision.raw == {"CustomPriorityPolicy": {"a": 1, "abcd": 4}}
    assert decision.total == {"a": 75, "abcd": 300}


def test_a_custom_rule_may_be_configured_under_several_names():
    """The built-in labelPreference works like this."""
    priority("Favourite", member="favourite", argument={"node": str})(
        lambda pod, node, arguments: 50 * sum(argument["node"] == node.name for argument in arguments))
    try:
        policies = built((), [{"name": name, "weight": 1, "argument": {"favourite": {"node": node_name}}}
                              for name, node_name in {"First": "a", "Second": "b"}.items()])
    finally:
        del PRIORITIES["Favourite"]
    decision = decide(policies, pod("p"), node("a"), node("b"), node("c"))
    assert decision.scores == {"First+Second": {"a": 100, "b": 100, "c": 0}}, "two entries weigh twice as much"


def test_sample_plugin_accepts_all_nodes_and_logs_its_calls(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(policy(["sample-plugin"])))
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [node("a"), node("b", "2"), pod("p")]}))
    run = run_scheduler("--plugins", RULES, "--policy", path, "--cluster", tmp_path / "cluster.json", "--seed=1")
    place = run.stdout.split()[2]
    assert run.stderr.splitlines()[1:] == ["PreFilter default/p: 2 nodes, arguments [{}]", "Filter default/p: a",
                                       "Filter default/p: b", f"PreBind default/p: {place}"]


@table("text, message", {
    "a syntax error": ("def x(:\n", "SyntaxError: "),
    "an exception": ("\n\nraise RuntimeError('no')\n", ", line 3: RuntimeError: no"),
    "a rule with the name of a built-in one": ("from scheduler import predicate\npredicate('HostName')(print)\n",
                                     ', line 2: there is a rule "HostName" already (HostName: scheduler.py, line '),
    "two rules with the same name": (
        "from scheduler import predicate\n" + 2 * "@predicate('One')\ndef one(pod, node): return []\n",
        ': there is a rule "One" already (One: my_rules.py, line 2)'),
    "a decorator without a name": (
        "from scheduler import predicate\n\n@predicate\ndef closed(pod, node):\n    return []\n",
        ': a rule needs the name that a Policy has for it, as in @predicate("Name")'),
    "a decorator with parentheses and no name": (
        "from scheduler import priority\n\n@priority()\ndef closed(pod, node):\n    return 1\n",
        ': a rule needs the name that a Policy has for it, as in @predicate("Name")'),
    "a missing file": (None, "FileNotFoundError: No such file or directory"),
})
def test_an_invalid_plugins_file_gives_one_line(text, message, tmp_path):
    path = tmp_path / "my_rules.py"
    if text is not None:
        path.write_text(text)
    run = run_scheduler("--plugins", path, "--cluster", ROOT / "tests/demo.yaml")
    assert run.returncode == 2
    [line] = run.stderr.splitlines()
    assert line.startswith(str(path)) and message in line


# A rule's function may be any callable. Each of these raises an exception in line 6.
FORMS = {
    "a partial function": "def mine(x, pod, node):\n    return pod.nothing\n\npredicate('Mine')(functools.partial(mine, 1))",
    "a partial of a partial": (
        "def mine(x, y, pod, node):\n    return pod.nothing\n\npredicate('Mine')(functools.partial(functools.partial(mine, 1), 2))"),
    "an object": "class Mine:\n  def __call__(self, pod, node): return pod.nothing\n\npredicate('Mine')(Mine())",
    "a method": "class Mine:\n  def mine(self, pod, node): return pod.nothing\n\npredicate('Mine')(Mine().mine)",
    "a function with lru_cache": (
        "mine = lambda pod, node: (\n    pod.nothing)\n\npredicate('Mine')(functools.lru_cache(mine))"),
    "a decorated function": (
        "def mine(pod, node):\n    return pod.nothing\n\n"
        "predicate('Mine')(functools.wraps(mine)(lambda *more: mine(*more)))"),
}


@table("text", FORMS)
def test_the_message_has_the_line_of_the_exception_in_a_rule_that_is(text, tmp_path):
    (tmp_path / "my_rules.py").write_text(f"import functools\nfrom scheduler import predicate\n\n\n{text}\n")
    load_plugins([tmp_path / "my_rules.py"])
    try:
        message = decide(built(["Mine"]), pod("p"), node("a")).message
    finally:
        unplug()
    assert re.fullmatch(r"AttributeError in \S+: .*'nothing' \(Mine: my_rules.py, line 6\), about node a", message)


ONE, TWO = ("@{}('{}')\ndef {}(pod, node): return {}\n".format(*parts) for parts in (
    ("predicate", "One", "one", "[]"), ("priority", "Two", "two", "1")))


@table("text, rules, message", {
    "no rule is named": (ONE + TWO, {}, "policy.json: One, Two of my_rules.py: not named in it, so not used"),
    "one rule is not named": (ONE + TWO, {"predicates": ["One"]}, "policy.json: Two of my_rules.py: not named in it, so not used"),
    "both rules are named": (ONE + TWO, {"predicates": ["One"], "priorities": ["Two"]}, None),
    "a rule that is always active is not named": (ONE.replace("'One'", "'One', always=True"), {}, None),
    "the file has no rule": ("def one(pod, node): return []\n", {}, "policy.json: there is no rule in my_rules.py"),
})
@pytest.mark.parametrize("times", [1, 2])
def test_a_rule_that_the_policy_does_not_name_gives_one_notice(text, rules, message, times, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.json").write_text(json.dumps(policy(**{"predicates": [], **rules})))
    file = None
    try:
        for i in range(times):
            (tmp_path / "my_rules.py").write_text(f"from scheduler import predicate, priority\n{text}{'#' * i}")
            file = file or PolicyFile("policy.json", "my-scheduler", ["my_rules.py"])
            file.reload_if_changed()
    finally:
        unplug()
    lines = [line for line in caplog.messages if "has changed" not in line]
    assert lines == ([message] if message else [])


def test_the_built_in_rules_pass_the_checks_for_custom_rules():
    for where, rules in CATALOGUES.items():
        for rule in rules.values():
            names = ("metadata", "reduce", "argument", "default", "member", "check", "steady")
            options = {option: getattr(rule, option) for option in names} | rule.hooks
            if "arguments" not in inspect.signature(rule.function).parameters or rule.argument:
                checked_rule(where, f"Another{rule.name}", rule.function, **options)
    modules = (ROOT / "scheduler_extras" / "rules").glob("*.py")
    names = re.findall(r'^@(predicate|priority)\("(\w+)"', "".join(map(Path.read_text, modules)), re.MULTILINE)
    in_the_script = [("predicate" if name in PREDICATES else "priority", name) for name in IN_THE_SCRIPT]
    assert len(names) == len(set(names)) > 10 and not {*names} & {*in_the_script}


def prefers(default=None):
    """Register a rule with an argument, and possibly a default."""
    options = {} if default is None else {"default": default}
    priority("Prefers", argument={"zone": str, "share": float}, **options)(
        lambda pod, node, arguments: 100 * arguments[0]["share"])


@table("default, argument, problem, arguments", {
    "all fields": (None, {"zone": "east", "share": 0.5}, None, [{"zone": "east", "share": 0.5}]),
    "a whole number for a number": (None, {"zone": "east", "share": 1}, None, [{"zone": "east", "share": 1}]),
    "a missing field": (None, {"zone": "east"}, ': the argument lacks "share"; "Prefers" needs it', None),
    "no argument": (None, None, ': the argument lacks "zone"; "Prefers" needs it', None),
    "a missing field with a default": ({"share": 1}, {"zone": "east"}, None, [{"share": 1, "zone": "east"}]),
    "no argument, and a default for one field": ({"share": 1}, None, ': the argument lacks "zone"; "Prefers" needs it', None),
    "no argument, and a default for all fields": (
        {"share": 1, "zone": "west"}, None, None, [{"share": 1, "zone": "west"}]),
    "a string for a number": ({}, {"zone": "east", "share": "half"}, '.share: expected a number, got "half"', None),
    "infinity": ({}, {"zone": "east", "share": float("inf")}, ".share: expected a number, got Infinity", None),
})
@pytest.mark.parametrize("kind", ["Policy", "KubeSchedulerConfiguration"])
def test_required_arguments(default, argument, problem, arguments, kind):
    prefers(default)
    given = {} if argument is None else {"argument": argument}
    config = [] if argument is None else [{"name": "Prefers", "args": argument}]
    is_missing = problem and problem.startswith(": ")
    try:
        if kind == "Policy":
            place = "priorities[0]" if is_missing else "priorities[0].argument"
            made = built((), [{"name": "Prefers", "weight": 1, **given}])
        else:
            place = "profiles[0].plugins.score: Prefers" if is_missing else "profiles[0].pluginConfig[0].args"
            made = read_configuration({
                "kind": kind, "apiVersion": CONFIGURATION_VERSION, "profiles": [{
                    "pluginConfig": config, "plugins": {"score": {"enabled": [{"name": "Prefers"}]}}}]}, "my-scheduler")
    except InputError as error:
        assert str(error) == f"{place}{problem}"
    else:
        assert [rule.settings for rule in made["my-scheduler"].priorities if rule.name == "Prefers"] == [{"arguments": arguments}]
    finally:
        del PRIORITIES["Prefers"]


def test_the_rule_in_the_readme_requires_its_argument():
    priority("PreferZone", argument={"zone": str}, steady=True)(lambda pod, node, arguments: 1)
    try:
        with pytest.raises(InputError, match='priorities.0.: the argument lacks "zone"'):
            built((), [{"name": "PreferZone", "weight": 2}])
        built((), [{"name": "PreferZone", "weight": 2, "argument": {"zone": "east"}}])
    finally:
        del PRIORITIES["PreferZone"]


def test_metadata_may_take_arguments():
    priority("Mine", argument={"zone": str}, metadata=lambda pod, nodes, snapshot, arguments: arguments)(
        lambda pod, node, metadata: len(metadata[0]["zone"]))
    try:
        policies = built((), [{"name": "Mine", "weight": 1, "argument": {"zone": "east"}}])
    finally:
        del PRIORITIES["Mine"]
    assert decide(policies, pod("p"), node("a"), node("b")).total == {"a": 4, "b": 4}


YIELD = "yield strings, or return a list of them"


def test_a_custom_script_may_import_the_program_and_call_main(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from scheduler_extras import main, predicate

@predicate("OnlyGpu")
def only_gpu(pod, node):
    if "gpu" not in node.name:
        yield "node(s) were for other work"

sys.exit(main())
""")
    (tmp_path / "policy.json").write_text(json.dumps(policy([*MANDATORY_PREDICATES, "OnlyGpu"])))
    run = run_afresh("--cluster", ROOT / "tests/demo.yaml", "--policy", tmp_path / "policy.json",
                     script=script)
    assert "default/training -> node-gpu" in run.stdout
    assert " node(s) were for other work" in run.stdout
    assert run.stderr == ("default/training is placed, though it has resource requests, and PodFitsResources, which looks at that, is "
                          "not active\n")


@table("check, problem", {
    "raises an exception": (lambda arguments: [arguments[0]["y"]], "KeyError in <lambda>: 'y'"),
    "returns a string": (lambda arguments: "too long",
                         f"{YIELD}, not 'too long'")})
def test_a_policy_is_invalid_if_a_check(check, problem):
    predicate("Picky", argument={"x": str}, check=check)(lambda pod, node: ())
    try:
        with pytest.raises(InputError, match=f"predicates.0.: {problem}"):
            built([{"name": "Picky", "argument": {"x": ""}}])
    finally:
        del PREDICATES["Picky"]
