"""Rules of one's own (scheduler_extras/examples/tutorial_rules.py), at every extension point, and what holds around them."""

import inspect
import json
import re
from pathlib import Path
import sys
import threading
import time
from collections import Counter

import pytest
from helpers.everywhere import replace
from scheduler_extras.api.errors import error_of
from scheduler_extras.common.blame import FAILURE
from scheduler_extras.common.errors import InputError, Trouble, Unschedulable
from scheduler_extras.configuration.reading import read_configuration
from scheduler_extras.deciding.rule import CATALOGUES, FullRule, PREDICATES, PRIORITIES, Rejected
from scheduler_extras.deciding.schedule import schedule
from scheduler_extras.live.live import make_passes
from scheduler_extras.live.record import WaitsFor
from scheduler_extras.live.writer import Writer
from scheduler_extras.policy import own_rules
from scheduler_extras.policy.own_rules import as_in_the_script, checked_rule, load_plugins, predicate, priority, rules_in, unplug
from scheduler_extras.policy.policy import CONFIGURATION_VERSION, FullPolicy
from scheduler_extras.policy.reading import read_policy
from scheduler_extras.policy.reloading import PolicyFile, load_policies
from scheduler_extras.rules.of_the_script import IN_THE_SCRIPT
from scheduler_extras.show.explain import explain, in_words
from scheduler_extras.show.report import in_json
from scheduler_extras.show.text import Screen
from helpers.control_plane import wait_for
from helpers.extras import (
    MANDATORY_PREDICATES, ROOT, a_cluster, a_pass, cluster_of, decide, node, pending_pods, pod, run_afresh, run_scheduler,
    table, wait_until_told
)
from helpers.fake_api import Server

with as_in_the_script():
    import tutorial_rules  # noqa: F401 (registers its rules)

RULES = ROOT / "scheduler_extras" / "examples" / "tutorial_rules.py"
SAMPLE = {"favorite_color": "#326CE5", "favorite_number": 7, "thanks_to": "thockin"}


def policy(predicates=(), priorities=(), **more):
    """A Policy: names, or whole entries."""
    return {"kind": "Policy", "apiVersion": "v1", **more,
            "predicates": [{"name": entry} if isinstance(entry, str) else entry for entry in predicates],
            "priorities": [{"name": entry, "weight": 1} if isinstance(entry, str) else entry for entry in priorities]}


def built(*arguments, **options):
    """A Policy, built, as the only profile."""
    return {"my-scheduler": read_policy(policy(*arguments, **options))}


@table("wanted, feasible", {
    "a pod that names a node fits that node only": ({"node": "b"}, ["b"]),
    "a pod that names none fits all": ({}, ["a", "b"]),
    "a pod that names one that is not there fits none": ({"node": "z"}, []),
})
def test_custom_predicate(wanted, feasible):
    decision = decide(built(["CustomPredicatePolicy"]), pod("p", labels=wanted), node("a"), node("b"))
    assert list(decision.total) == feasible
    message = "0/2 nodes are available: 2 node(s) were not the one that the pod names."
    assert decision.message == (None if feasible else message)


def test_custom_priority_is_mapped_reduced_and_weighed():
    decision = decide(built((), [{"name": "CustomPriorityPolicy", "weight": 3}]), pod("p"), node("abcd"), node("a"))
    assert decision.raw == {"CustomPriorityPolicy": {"a": 1, "abcd": 4}}
    assert decision.total == {"a": 75, "abcd": 300}


def test_a_priority_that_leaves_its_range_leaves_the_pod_pending(caplog):
    priority("TooMuch")(lambda pod, node: 101)
    try:
        policies = built((), ["TooMuch"])
    finally:
        del PRIORITIES["TooMuch"]
    said = "TooMuch gives a the score 101: a score must be from 0 to 100, after `reduce` if there is one (TooMuch: "
    assert decide(policies, pod("p"), node("a"), node("b")).message.startswith(said) and caplog.messages == []
    assert decide(policies, pod("p"), node("a")).node == "a", "a single node is not scored, as in kube-scheduler"
    assert caplog.text.count(said) == 1, "but the rule is at fault"


@table("entry, said", {
    "an argument reaches its rule": ({"name": "sample-plugin", "argument": SAMPLE}, None),
    "the rule itself says what is wrong with it": (
        {"name": "sample-plugin", "argument": {"favorite_number": -1}},
        "predicates[0]: favorite_number must not be negative"),
    "so do its types": ({"name": "sample-plugin", "argument": {"favorite_number": "many"}},
                        'predicates[0].argument.favorite_number: expected a whole number, got "many"'),
    "and its names": ({"name": "sample-plugin", "argument": {"favourite_color": "red"}},
                      'predicates[0].argument.favourite_color: unknown field; did you mean "favorite_color"?'),
    "a name that nobody has registered": (
        {"name": "sample-plugins"}, 'predicates[0]: unknown predicate "sample-plugins"; did you mean "sample-plugin"?'),
})
def test_arguments_of_custom_rules(entry, said, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(policy([entry])))
    run = run_scheduler("--plugins", RULES, "--policy", path, "--cluster", ROOT / "tests/demo.yaml", "--once")
    if said:
        assert (run.returncode, run.stderr) == (2, f"{path}: {said}\n")
    else:
        assert run.returncode == 0
        assert f"PreFilter default/web-1: 5 nodes, arguments [{SAMPLE}]" in run.stderr


def test_a_custom_rule_may_be_configured_under_names_of_the_users_own():
    """As the built-in labelPreference is."""
    priority("Favourite", member="favourite", argument={"node": str})(
        lambda pod, node, arguments: 50 * sum(argument["node"] == node.name for argument in arguments))
    try:
        policies = built((), [{"name": name, "weight": 1, "argument": {"favourite": {"node": node_name}}}
                              for name, node_name in {"First": "a", "Second": "b"}.items()])
    finally:
        del PRIORITIES["Favourite"]
    decision = decide(policies, pod("p"), node("a"), node("b"), node("c"))
    assert decision.scores == {"First+Second": {"a": 100, "b": 100, "c": 0}}, "two entries weigh twice as much"


def test_sample_plugin_lets_everything_pass_and_says_what_it_saw(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(policy(["sample-plugin"])))
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [node("a"), node("b", "2"), pod("p")]}))
    run = run_scheduler("--plugins", RULES, "--policy", path, "--cluster", tmp_path / "cluster.json", "--seed=1")
    place = run.stdout.split()[2]
    assert run.stderr.splitlines()[1:] == ["PreFilter default/p: 2 nodes, arguments [{}]", "Filter default/p: a",
                                       "Filter default/p: b", f"PreBind default/p: {place}"]


@table("text, said", {
    "a syntax error": ("def x(:\n", "SyntaxError: "),
    "an error when it runs": ("\n\nraise RuntimeError('no')\n", ", line 3: RuntimeError: no"),
    "a rule that is there already": ("from scheduler import predicate\npredicate('HostName')(print)\n",
                                     ', line 2: there is a rule "HostName" already (HostName: scheduler.py, line '),
    "a rule that is there twice": (
        "from scheduler import predicate\n" + 2 * "@predicate('One')\ndef one(pod, node): return []\n",
        ': there is a rule "One" already (One: my_rules.py, line 2)'),
    "a decorator without a name": (
        "from scheduler import predicate\n\n@predicate\ndef closed(pod, node):\n    return []\n",
        ': a rule needs the name that a Policy has for it, as in @predicate("Name")'),
    "a decorator with brackets and no name": (
        "from scheduler import priority\n\n@priority()\ndef closed(pod, node):\n    return 1\n",
        ': a rule needs the name that a Policy has for it, as in @predicate("Name")'),
    "a file that is not there": (None, "FileNotFoundError: No such file or directory"),
})
def test_a_broken_plugin_file_is_one_line(text, said, tmp_path):
    path = tmp_path / "my_rules.py"
    if text is not None:
        path.write_text(text)
    run = run_scheduler("--plugins", path, "--cluster", ROOT / "tests/demo.yaml")
    assert run.returncode == 2
    [line] = run.stderr.splitlines()
    assert line.startswith(str(path)) and said in line


NO_FUNCTION = "expected a Python function, got"
OPTIONS = f"there are {', '.join(sorted(own_rules.OPTIONS))}"


@table("rule, said", {
    "parameters that are swapped": (
        "@predicate('Mine')\ndef mine(node, pod): return []", ': expected the parameters (pod, node), got (node, pod)'),
    "a parameter that is missing": (
        "@priority('Mine')\ndef mine(pod): return 1", ': expected the parameters (pod, node), got (pod)'),
    "parameters that are taken by their names only": (
        "@predicate('Mine')\ndef mine(*, pod, node): return []", ': expected the parameters (pod, node), got (*, pod, node)'),
    "metadata that nobody works out": (
        "@predicate('Mine')\ndef mine(pod, node, metadata): return []",
        ': expected the parameters (pod, node), got (pod, node, metadata)'),
    "metadata that nobody takes": (
        "@predicate('Mine', metadata=lambda pod, nodes, snapshot: 1)\ndef mine(pod, node): return []",
        ': expected the parameters (pod, node, metadata), got (pod, node)'),
    "metadata of one node": (
        "@predicate('Mine', metadata=lambda pod, node: 1)\ndef mine(pod, node, metadata): return []",
        ', metadata: expected the parameters (pod, nodes, snapshot), got (pod, node)'),
    "a hook with swapped parameters": (
        "@predicate('Mine', reserve=lambda node, pod, snapshot: 1)\ndef mine(pod, node): return []",
        ', reserve: expected the parameters (pod, node, snapshot), got (node, pod, snapshot)'),
    "a hook whose arguments are not the last": (
        "@predicate('Mine', argument={}, reserve=lambda pod, node, arguments, snapshot: 1)\ndef mine(pod, node): return []",
        ', reserve: expected the parameters (pod, node, snapshot, arguments), got (pod, node, arguments, snapshot)'),
    "a reduce that takes two": (
        "@priority('Mine', reduce=lambda pod, scores: 1)\ndef mine(pod, node): return 1",
        ', reduce: expected the parameters (scores), got (pod, scores)'),
    "a check that takes nothing": (
        "@priority('Mine', check=lambda: [])\ndef mine(pod, node): return 1",
        ', check: expected the parameters (arguments), got ()'),
    "arguments for argument": (
        "@priority('Mine', arguments={'zone': str})\ndef mine(pod, node): return 1", f': there is no option "arguments"; {OPTIONS}'),
    "pre_filter for metadata": (
        "@priority('Mine', pre_filter=print)\ndef mine(pod, node): return 1", f': there is no option "pre_filter"; {OPTIONS}'),
    "argument for arguments": (
        "@priority('Mine', argument={'zone': str})\ndef mine(pod, node, argument): return 1",
        ': expected the parameters (pod, node, arguments), got (pod, node, argument)'),
    "a weight, which the Policy says": (
        "@priority('Mine', weight=3)\ndef mine(pod, node): return 1", f': there is no option "weight"; {OPTIONS}'),
    "an argument without fields": (
        "@priority('Mine', argument=str)\ndef mine(pod, node): return 1",
        """, argument: expected an object, got "<class 'str'>\""""),
    "a list for an argument": (
        "@priority('Mine', argument=['zone'])\ndef mine(pod, node): return 1",
        ', argument: expected an object, got ["zone"]'),
    "a default without fields": (
        "@priority('Mine', argument={'zone': str}, default='east')\ndef mine(pod, node): return 1",
        ', default: expected an object, got "east"'),
    "a default of another type": (
        "@priority('Mine', argument={'zone': str}, default={'zone': 5})\ndef mine(pod, node, arguments): return 1",
        ', default.zone: expected a string, got 5'),
    "a default of no field": (
        "@priority('Mine', argument={'zone': str}, default={'zones': 'east'})\ndef mine(pod, node, arguments): return 1",
        ', default.zones: unknown field; did you mean "zone"?'),
    "arguments that the Policy cannot give": (
        "@priority('Mine')\ndef mine(pod, node, arguments): return 1",
        ': expected the parameters (pod, node), got (pod, node, arguments)'),
    "a default without an argument": (
        "@priority('Mine', default={'zone': 'east'})\ndef mine(pod, node): return 1",
        ", default.zone: unknown field"),
    "a check that is no function": (
        "@priority('Mine', check=False)\ndef mine(pod, node): return 1", ", check: expected a function, got False"),
    "metadata that is no function": (
        "@priority('Mine', metadata={'a': 1})\ndef mine(pod, node, metadata): return 1",
        ", metadata: expected a function, got {'a': 1}"),
    "a function that does not say what it takes": ("predicate('Mine')(max)", f": {NO_FUNCTION} <built-in function max>"),
    "a function that has no line in a file": ("predicate('Mine')(isinstance)", f": {NO_FUNCTION} <built-in function isinstance>"),
    "nothing, as of a decorator that does not return its function": ("predicate('Mine')(None)", f": {NO_FUNCTION} None"),
    "a class": ("predicate('Mine')(dict)", f": {NO_FUNCTION} <class 'dict'>"),
})
def test_a_rule_that_cannot_work_is_named_when_it_is_loaded(rule, said, tmp_path):
    (tmp_path / "my_rules.py").write_text(f"from scheduler import predicate, priority\n\n{rule}\n")
    with pytest.raises(InputError) as error:
        load_plugins([tmp_path / "my_rules.py"])
    line = 3 if sys.version_info > (3, 11) or "def" not in rule else 4  # 3.10 calls decorators in the line of `def`
    assert str(error.value) == f"""{tmp_path / 'my_rules.py'}, line {line}: rule "Mine"{said}"""


# A rule's function may be anything that can be called. Each of these breaks in line 6.
FORMS = {
    "a partial function": "def mine(x, pod, node):\n    return pod.nothing\n\npredicate('Mine')(functools.partial(mine, 1))",
    "a partial of a partial": (
        "def mine(x, y, pod, node):\n    return pod.nothing\n\npredicate('Mine')(functools.partial(functools.partial(mine, 1), 2))"),
    "an object": "class Mine:\n  def __call__(self, pod, node): return pod.nothing\n\npredicate('Mine')(Mine())",
    "a method": "class Mine:\n  def mine(self, pod, node): return pod.nothing\n\npredicate('Mine')(Mine().mine)",
    "a function that keeps its answers": (
        "mine = lambda pod, node: (\n    pod.nothing)\n\npredicate('Mine')(functools.lru_cache(mine))"),
    "a function that a decorator wraps": (
        "def mine(pod, node):\n    return pod.nothing\n\n"
        "predicate('Mine')(functools.wraps(mine)(lambda *more: mine(*more)))"),
}


@table("text", FORMS)
def test_where_a_rule_breaks_is_said_whatever_its_function_is(text, tmp_path):
    (tmp_path / "my_rules.py").write_text(f"import functools\nfrom scheduler import predicate\n\n\n{text}\n")
    load_plugins([tmp_path / "my_rules.py"])
    try:
        message = decide(built(["Mine"]), pod("p"), node("a")).message
    finally:
        unplug()
    assert re.fullmatch(r"AttributeError in \S+: .*'nothing' \(Mine: my_rules.py, line 6\), about node a", message)


@table("decorator, body", {
    "arguments and metadata, in any order": (
        "priority('Mine', metadata=lambda pod, nodes, snapshot: 1, argument={'zone': str})",
        "lambda pod, node, arguments, metadata: 1"),
    "a whole number for a number": ("priority('Mine', argument={'share': float}, default={'share': 1})",
                                    "lambda pod, node, arguments: 1"),
    "no default at all": ("priority('Mine', argument={'zone': str}, default=None)", "lambda pod, node, arguments: 1"),
    "an argument without fields": ("priority('Mine', argument={})", "lambda pod, node, arguments: 1"),
    "parameters that it calls otherwise": ("priority('Mine')", "lambda p, n: 1"),
    "a parameter that has a value": ("predicate('Mine')", "lambda pod, node, most=5: []"),
    "a hook that takes whatever there is": ("predicate('Mine', reserve=lambda *_: None)", "lambda pod, node: []"),
    "a reduce that does not say what it takes": ("priority('Mine', reduce=dict)", "lambda pod, node: 1"),
    "a reduce that calls its scores otherwise": ("priority('Mine', reduce=lambda points: points)", "lambda pod, node: 1"),
    "every type": ("priority('Mine', argument={'a': str, 'b': int, 'c': float, 'd': bool, 'e': [str], 'f': {'g': int}, "
                   "'h': range(5), 'i': {'x', 'y'}, 'j': dict})", "lambda pod, node: 1"),
})
def test_a_rule_that_can_work_is_loaded(decorator, body, tmp_path):
    (tmp_path / "my_rules.py").write_text(f"from scheduler import predicate, priority\n{decorator}({body})\n")
    try:
        load_plugins([tmp_path / "my_rules.py"])
        assert [rule.name for rule in rules_in(tmp_path / "my_rules.py")] == ["Mine"]
    finally:
        unplug()


ONE, TWO = ("@{}('{}')\ndef {}(pod, node): return {}\n".format(*parts) for parts in (
    ("predicate", "One", "one", "[]"), ("priority", "Two", "two", "1")))


@table("text, rules, said", {
    "none of them is named": (ONE + TWO, {}, "policy.json: One, Two of my_rules.py: not named here, so not asked"),
    "one of them is not": (ONE + TWO, {"predicates": ["One"]}, "policy.json: Two of my_rules.py: not named here, so not asked"),
    "both are named": (ONE + TWO, {"predicates": ["One"], "priorities": ["Two"]}, None),
    "one is active anyway": (ONE.replace("'One'", "'One', always=True"), {}, None),
    "there is none": ("def one(pod, node): return []\n", {}, "policy.json: there is no rule in my_rules.py"),
})
@pytest.mark.parametrize("times", [1, 2])
def test_a_rule_that_nobody_names_is_said_once(text, rules, said, times, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.json").write_text(json.dumps(policy(**{"predicates": [], **rules})))
    file = None
    try:
        for i in range(times):
            (tmp_path / "my_rules.py").write_text(f"from scheduler import predicate, priority\n{text}{'#' * i}")
            file = file or PolicyFile("policy.json", "my-scheduler", ["my_rules.py"])
            file.current()
    finally:
        unplug()
    lines = [line for line in caplog.messages if "has changed" not in line]
    assert lines == ([said] if said else [])


def test_the_rules_of_the_script_itself_would_pass_too():
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
    """Register a rule with an argument, with a default for its second field or none."""
    options = {} if default is None else {"default": default}
    priority("Prefers", argument={"zone": str, "share": float}, **options)(
        lambda pod, node, arguments: 100 * arguments[0]["share"])


@table("default, argument, problem, arguments", {
    "all fields": (None, {"zone": "east", "share": 0.5}, None, [{"zone": "east", "share": 0.5}]),
    "a whole number is a number": (None, {"zone": "east", "share": 1}, None, [{"zone": "east", "share": 1}]),
    "a field is missing": (None, {"zone": "east"}, ': the argument lacks "share"; "Prefers" needs it', None),
    "no argument": (None, None, ': the argument lacks "zone"; "Prefers" needs it', None),
    "a field that has a default": ({"share": 1}, {"zone": "east"}, None, [{"share": 1, "zone": "east"}]),
    "a field that has none": ({"share": 1}, None, ': the argument lacks "zone"; "Prefers" needs it', None),
    "no argument where all has a default": (
        {"share": 1, "zone": "west"}, None, None, [{"share": 1, "zone": "west"}]),
    "no number": ({}, {"zone": "east", "share": "half"}, '.share: expected a number, got "half"', None),
    "infinity": ({}, {"zone": "east", "share": float("inf")}, ".share: expected a number, got Infinity", None),
})
@pytest.mark.parametrize("kind", ["Policy", "KubeSchedulerConfiguration"])
def test_an_argument_that_a_rule_needs_has_to_be_given(default, argument, problem, arguments, kind):
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


def test_the_readmes_rule_with_an_argument_is_refused_without_it():
    priority("PreferZone", argument={"zone": str}, steady=True)(lambda pod, node, arguments: 1)
    try:
        with pytest.raises(InputError, match='priorities.0.: the argument lacks "zone"'):
            built((), [{"name": "PreferZone", "weight": 2}])
        built((), [{"name": "PreferZone", "weight": 2, "argument": {"zone": "east"}}])
    finally:
        del PRIORITIES["PreferZone"]


NUMBER = "return a number from 0 to 100, or any number with a `reduce`"
REDUCE = "reduce: return {name: score} of all nodes"


@table("reduce, message", {
    "returns nothing": ("lambda scores: None", f"{REDUCE}, not None (Mine: my_rules.py, line 2)"),
    "returns a list": ("lambda scores: [1]", f"{REDUCE}, not [1] (Mine: my_rules.py, line 2)"),
    "leaves a node out": ("lambda scores: {'a': 1}", f"{REDUCE}, not {{'a': 1}} (Mine: my_rules.py, line 2)"),
    "calls sys.exit": ("lambda scores: exit(3)", "SystemExit in <lambda>: 3 (Mine: my_rules.py, line 2)"),
    "returns no numbers": ("lambda scores: dict.fromkeys(scores)",
                           f"{NUMBER}, not None (Mine: my_rules.py, line 2)"),
})
def test_a_reduce_that_does_not_score_all_nodes_is_named(reduce, message, tmp_path):
    (tmp_path / "my_rules.py").write_text(
        f"from scheduler import priority\n@priority('Mine', reduce={reduce})\ndef mine(pod, node): return 1\n")
    assert said_of_mine(tmp_path, priorities=["Mine"])[0] == message


@table("reduce, expected", {
    "without a reduce": ("", "(Mine: my_rules.py, line 4)"),
    "with one": (", reduce=reduce", "(Mine: my_rules.py, line 2)")})
def test_a_score_out_of_range_is_said_with_its_place_in_the_event_too(reduce, expected, tmp_path):
    (tmp_path / "my_rules.py").write_text(
        "from scheduler import priority\ndef reduce(scores): return scores\n\n"
        f"@priority('Mine'{reduce})\ndef mine(pod, node): return 101\n")
    message, _ = said_of_mine(tmp_path, priorities=["Mine"])
    assert message == f"Mine gives a the score 101: a score must be from 0 to 100, after `reduce` if there is one {expected}"


def test_a_rule_that_calls_sys_exit_fails_its_pod_only(tmp_path):
    (tmp_path / "my_rules.py").write_text(
        "from scheduler import predicate\ndef permit(pod, node, snapshot):\n    exit(7)\n"
        "@predicate('Mine', permit=permit)\ndef mine(pod, node): return []\n")
    assert re.fullmatch(r"SystemExit in permit: 7 \(Mine: my_rules.py, line 3\), about node [ab]",
                        said_of_mine(tmp_path, predicates=["Mine"])[0])
    (tmp_path / "my_rules.py").write_text("exit(7)\n")
    with pytest.raises(InputError, match="line 1: SystemExit: 7"):
        load_plugins([tmp_path / "my_rules.py"])


GPU = "{'key': 'gpu', 'operator': 'Exists'}"


@table("body", {
    "what it tolerates": f"pod.tolerations.append({GPU})",
    "a label of the pod": "pod.labels['x'] = 'y'",
    "what it requests": "pod.requests['cpu'] = 0",
    "its containers": "pod.containers.clear()",
    "a node's taints": "node.taints.append('gpu')",
    "a node's label": "node.labels['x'] = 'y'",
    "what is free": "node.allocatable['cpu'] -= 100",
    "the pods there": "node.pods['x'] = pod",
    "what is requested of it": "node.requested['cpu'] = 0"})
def test_a_rule_cannot_change_what_it_looks_at(body, tmp_path):
    said = decision_under(tmp_path, "predicate", f"{body}\n    return []")
    assert said.startswith(("TypeError in mine: ", "AttributeError in mine: ")) and "(Mine: my_rules.py, line 7)" in said


@pytest.fixture
def mine():
    """A function that registers a rule of the user's own, Mine, with these functions, and returns the Policy."""
    def register(function=lambda pod, node: [], **options):
        predicate("Mine", **options)(function)
        return built(["Mine", "PodFitsResources"])

    yield register
    PREDICATES.pop("Mine", None)


def test_an_unknown_resource_is_an_error_that_lists_the_known_ones(tmp_path):
    said = decision_under(tmp_path, "predicate", "return []", metadata="snapshot.objects['service']")
    assert said.startswith('LookupError in <lambda>: snapshot.objects["service"]: expected '
                           "apis/GROUP/VERSION/RESOURCE or one of configmaps, ") and ", services, " in said and "my_rules.py, line 5)" in said
    for known in ("services", "pods", "apis/example.com/v1/widgets"):
        assert decision_under(tmp_path, "predicate", "return []", metadata=f"snapshot.objects['{known}']") is None


def test_a_file_of_rules_may_import_another_one_beside_it(tmp_path):
    (tmp_path / "helper_of_mine.py").write_text("REASON = 'closed'\n")
    assert decision_under(tmp_path, "predicate", "from helper_of_mine import REASON; return [REASON]") == (
        "0/2 nodes are available: 2 closed.")


def test_metadata_may_take_arguments():
    priority("Mine", argument={"zone": str}, metadata=lambda pod, nodes, snapshot, arguments: arguments)(
        lambda pod, node, metadata: len(metadata[0]["zone"]))
    try:
        policies = built((), [{"name": "Mine", "weight": 1, "argument": {"zone": "east"}}])
    finally:
        del PRIORITIES["Mine"]
    assert decide(policies, pod("p"), node("a"), node("b")).total == {"a": 4, "b": 4}


BROKEN = "(Error|SystemExit|StopIteration) in |, about node |^reduce: |^return a number "
YIELD = "yield strings, or return a list of them"


@table("body, said", {
    "fails at once": ("return node.labels['x']", "KeyError in mine: 'x' (Mine: my_rules.py, line 7)"),
    "fails after a while": ("yield from node.pods['x']", "KeyError in mine: 'x' (Mine: my_rules.py, line 7)"),
    "fails in a function of its own": ("return far_away(node)", "ZeroDivisionError in far_away: division by zero "
                                                                "(Mine: my_rules.py, line 3)"),
    "fails in a function of somebody else": ("return __import__('json').loads('')", "JSONDecodeError in mine: "
                                             "Expecting value: line 1 column 1 (char 0) (Mine: my_rules.py, line 7)"),
    "returns True": ("return True", f"{YIELD}, not True (Mine: my_rules.py, line 5)"),
    "returns False": ("return False", f"{YIELD}, not False (Mine: my_rules.py, line 5)"),
    "returns a string": ("return 'closed'", f"{YIELD}, not 'closed' (Mine: my_rules.py, line 5)"),
    "returns nothing": ("return", f"{YIELD}, not None (Mine: my_rules.py, line 5)"),
    "returns a list of what is no string": ("return [7]", f"{YIELD}, not [7] (Mine: my_rules.py, line 5)"),
    "returns a pair": (
        "return False, 'closed'", f"{YIELD}, not (False, 'closed') (Mine: my_rules.py, line 5)"),
    "yields nothing to read": ("yield ''", f"{YIELD}, not [''] (Mine: my_rules.py, line 5)"),
    "asks for the next of nothing": ("yield next(iter([]))", "StopIteration in mine:  (Mine: my_rules.py, line 7)"),
    "yields a number": ("yield 5", f"{YIELD}, not [5] (Mine: my_rules.py, line 5)"),
    "returns a number": ("return 5", f"{YIELD}, not 5 (Mine: my_rules.py, line 5)"),
    "calls sys.exit": ("raise SystemExit(3)",
                       "SystemExit in mine: 3 (Mine: my_rules.py, line 7)"),
    "calls sys.exit after a while": ("yield from exit()",
                                     "SystemExit in mine: None (Mine: my_rules.py, line 7)"),
})
def test_a_predicate_that_fails_or_gives_no_reasons_is_named(body, said, tmp_path):
    assert decision_under(tmp_path, "predicate", body) == said


@table("body, said", {
    "fails": ("return node.labels['x']", "KeyError in mine: 'x' (Mine: my_rules.py, line 7)"),
    "returns True": ("return True", f"{NUMBER}, not True (Mine: my_rules.py, line 5)"),
    "returns a string": ("return '7'", f"{NUMBER}, not '7' (Mine: my_rules.py, line 5)"),
    "returns nothing": ("return", f"{NUMBER}, not None (Mine: my_rules.py, line 5)"),
    "returns a list": ("return [7]", f"{NUMBER}, not [7] (Mine: my_rules.py, line 5)"),
    "returns a fraction": ("return 0.5", None),
    "calls sys.exit": ("raise SystemExit(3)", "SystemExit in mine: 3 (Mine: my_rules.py, line 7)"),
})
def test_a_priority_that_fails_or_returns_no_number_is_named(body, said, tmp_path):
    assert decision_under(tmp_path, "priority", body) == said


def decision_under(folder, kind, body, metadata=None):
    """Return why a pod waits if the only rule is one of the user's own; line 7 of its file is the body."""
    options, parameter = ("", "") if metadata is None else (
        f", metadata=lambda pod, nodes, snapshot: {metadata}", ", metadata")
    (folder / "my_rules.py").write_text(
        "from scheduler import predicate, priority\n"
        "def far_away(node):\n    return 1 / 0\n\n"
        f"@{kind}('Mine'{options})\ndef mine(pod, node{parameter}):\n    {body}\n")
    message, _ = said_of_mine(folder, **{"predicates" if kind == "predicate" else "priorities": ["Mine"]})
    if message and re.search(BROKEN, message) and metadata is None:
        assert message.endswith(", about node a"), "the first node of which it was asked"
    return message and message.removesuffix(", about node a")


def said_of_mine(folder, **rules):
    """Return why a pod waits under the rules of my_rules.py, and what else is said."""
    (folder / "policy.json").write_text(json.dumps(policy(**rules)))
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": [node("a"), node("b"), pod("p")]}))
    run = run_scheduler("--plugins", folder / "my_rules.py", "--policy", folder / "policy.json", "--cluster",
                        folder / "cluster.json", "--once", "--output=json")
    failed = bool(re.search(BROKEN, json.loads(run.stdout)["message"] or "")) or "the score 101" in run.stdout
    assert "Traceback" not in run.stderr and run.returncode == failed
    return json.loads(run.stdout)["message"], run.stderr


def test_a_script_of_ones_own_may_import_the_scheduler_and_call_main(tmp_path):
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


def terminating(name, **options):
    return pod(name, metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"}, **options)


def test_pod_capacity_of_node():
    """Three nodes of capacity 110: one full, one with 13 pods of which 3 are terminating, one empty."""
    full = [pod(f"a-{i}", nodeName="a") for i in range(110)]
    some = [pod(f"b-{i}", nodeName="b") for i in range(10)] + [terminating(f"t-{i}", nodeName="b") for i in range(3)]
    decision = decide(built((), ["PodCapacityOfNode"]), pod("p"), node("a"), node("b"), node("c"), *full, *some)
    assert decision.total == {"a": 0, "b": 88, "c": 100}


@table("counts, raw, points", {
    "equal nodes all get 0": ([1, 1], [90, 90], [0, 0]),
    "the lowest becomes 0, the highest 100": ([4, 0, 1], [60, 100, 90], [0, 100, 75]),
    "more pods than there is room for are below 0 at first": ([12, 0], [-20, 100], [0, 100]),
})
def test_pod_capacity_of_node_normalises(counts, raw, points):
    others = [pod(f"{name}-{i}", nodeName=name) for name, count in zip("abc", counts) for i in range(count)]
    decision = decide(built((), ["PodCapacityOfNode"]), pod("p"), *others,
                      *(node(name, pods="10") for name, _ in zip("abc", counts)))
    assert list(decision.raw["PodCapacityOfNode"].values()) == raw
    assert list(decision.total.values()) == points


def test_pod_capacity_of_node_counts_the_nominated_and_the_terminating(control_plane, tmp_path, start_scheduler):
    """node-a has two terminating pods, node-b one running, node-c a nominated pod and one with the same host port."""
    port = [{"name": "c", "image": "i", "ports": [{"containerPort": 8080, "hostPort": 8080, "protocol": "TCP"}]}]
    finalizer = {"finalizers": ["example.com/stay"]}
    control_plane.create(
        node("node-a"), node("node-b"), node("node-c", labels={"nominated": "true"}), pod("a-1", metadata=finalizer),
        pod("a-2", metadata=finalizer), pod("b-1"), pod("holder", containers=port),
        pod("nominated", schedulerName="other", nodeSelector={"nominated": "true"}, containers=port))
    for name, place in {"a-1": "node-a", "a-2": "node-a", "b-1": "node-b", "holder": "node-c"}.items():
        control_plane.bind(name, place)
    for name in ("a-1", "a-2"):
        control_plane.request("DELETE", f"namespaces/default/pods/{name}")
    control_plane.request("PATCH", "namespaces/default/pods/nominated/status", {"status": {
        "nominatedNodeName": "node-c"}}, headers={"Content-Type": "application/merge-patch+json"})
    control_plane.create(pod("chosen", nodeSelector={"nominated": "true"}), pod("free"))
    (tmp_path / "policy.json").write_text(json.dumps(policy(["MatchNodeSelector"], ["PodCapacityOfNode"])))
    arguments = ["--server", control_plane.server, "--plugins", RULES, "--policy", tmp_path / "policy.json"]
    record = json.loads(run_scheduler(*arguments, "--explain", "free", "--output=json").stdout)
    assert record["raw"] == {"PodCapacityOfNode": {"node-a": 98, "node-b": 99, "node-c": 98}}
    assert record["total"] == {"node-a": 0, "node-b": 100, "node-c": 0}
    assert run_scheduler(*arguments, "--once").returncode == 0
    assert {name: control_plane.places()[f"default/{name}"] for name in ("chosen", "free")} == {
        "chosen": "node-c", "free": "node-b"}
    for name in ("a-1", "a-2"):
        control_plane.request("PATCH", f"namespaces/default/pods/{name}", {"metadata": {"finalizers": None}},
                              headers={"Content-Type": "application/merge-patch+json"})


def test_the_tutorials_rules_together_on_a_real_cluster(control_plane, tmp_path):
    (tmp_path / "policy.json").write_text(json.dumps(policy(
        ["CustomPredicatePolicy", "SpaceCloud", {"name": "sample-plugin", "argument": SAMPLE}],
        [{"name": "CustomPriorityPolicy", "weight": 2}])))
    control_plane.create(
        node("short"), node("the-longest-name"), node("edge", labels={"kubernetes.io/role": "edge"}),
        pod("named", labels={"node": "short"}), pod("space", metadata={"annotations": {"type": "space"}}), pod("any"),
        pod("lost", labels={"node": "nowhere"}))
    run = run_scheduler("--server", control_plane.server, "--plugins", RULES, "--policy", tmp_path / "policy.json",
                        "--once")
    assert run.returncode == 0
    assert control_plane.places() == {
        "default/named": "short", "default/space": "edge", "default/any": "the-longest-name"}
    assert f"PreFilter default/any: 3 nodes, arguments [{SAMPLE}]" in run.stderr
    assert "PreBind default/any: the-longest-name" in run.stderr and "PreBind default/lost" not in run.stderr
    assert [message for _, message, _ in control_plane.events("FailedScheduling")] == [
        "0/3 nodes are available: 3 node(s) were not the one that the pod names."]


@table("provider, place", {
    "DefaultProvider spreads": ("DefaultProvider", "empty"),
    "ClusterAutoscalerProvider packs": ("ClusterAutoscalerProvider", "busy"),
})
def test_algorithm_providers_on_a_real_cluster(control_plane, provider, place):
    control_plane.create(node("busy"), node("empty"), pod("other", {"cpu": "2", "memory": "4Gi"}),
                         pod("p", {"cpu": "1", "memory": "2Gi"}))
    control_plane.bind("other", "busy")
    assert run_scheduler("--server", control_plane.server, "--policy", provider, "--once").returncode == 0
    assert control_plane.places()["default/p"] == place


@table("annotations, feasible", {
    "a space pod runs at the edge only": ({"type": "space"}, ["edge"]),
    "another type runs everywhere": ({"type": "ground"}, ["cloud", "edge"]),
    "no type, too": ({}, ["cloud", "edge"]),
})
def test_space_cloud(annotations, feasible):
    decision = decide(built(["SpaceCloud"]), pod("p", metadata={"annotations": annotations}),
                      node("edge", labels={"kubernetes.io/role": "edge"}), node("cloud"))
    assert list(decision.total) == feasible


def test_the_random_scheduler_is_a_policy_of_two_lists():
    policies = built([], ["RandomPriority"])
    places = Counter(decide(policies, pod("p"), node("a"), node("b"), node("c")).node for _ in range(60))
    assert set(places) == {"a", "b", "c"}


def test_algorithm_providers_mean_the_built_in_sets():
    [[default], [autoscaler]] = [load_policies(name, "my-scheduler").values()
                                 for name in ("DefaultProvider", "ClusterAutoscalerProvider")]
    assert len(default.predicates) == len(autoscaler.predicates) == 15
    names = [{rule.name: rule.weight for rule in policy.priorities} for policy in (default, autoscaler)]
    assert names[0].pop("LeastRequestedPriority") == names[1].pop("MostRequestedPriority") == 1
    assert names[0] == names[1] and len(names[0]) == 7


# --- every extension point, in the loop


class Spy:
    """A rule with every extension point, which notes what it is asked and answers as it was told."""

    def __init__(self):
        self.seen, self.answers = [], {}

        def hook(name):
            def record(first, *rest):
                self.seen.append(name)
                answer = self.answers.get(name)
                if isinstance(answer, Exception):
                    raise answer
                return answer(first, *rest) if callable(answer) else answer
            return record

        points = ["pre_enqueue", "post_filter", "reserve", "unreserve", "permit", "pre_bind", "bind", "post_bind"]

        def function(pod, node, metadata):
            self.seen.append("filter")
            return self.answers.get("filter", [])

        def score(pod, node, metadata):
            self.seen.append("score")
            return 7

        def reduce(points):
            self.seen.append("reduce")
            return points

        rules = [FullRule("Spy", function, metadata=hook("pre_filter"), title="Spy",
                                hooks={"queue_sort": self.sort} | {point: hook(point) for point in points}),
                 FullRule("Spy", score, metadata=hook("pre_score"), reduce=reduce, title="Spy")]
        self.policies = {"my-scheduler": FullPolicy(rules[:1], rules[1:])}

    def sort(self, pod):
        """Sort by name, backwards."""
        return -ord(pod.name[0])


LINE = Path(__file__).read_text().partition("raise answer\n")[0].count("\n") + 1  # of a Spy
OOPS = f"RuntimeError in record: oops (test_extension_points.py, line {LINE})"


@pytest.fixture
def spy():
    return Spy()


def make_pass(server, spy, cluster=None):
    """Make a pass; return the cluster and the decisions."""
    cluster, decisions = cluster or a_cluster(server), []
    a_pass(cluster, spy.policies, decisions.append)
    cluster.results.handle(patience=60)
    wait_until_told(cluster)
    return cluster, decisions


def test_extension_points_are_called_in_the_frameworks_order(spy):
    server = Server(node("n"), node("m"), pod("p"))
    make_pass(server, spy)
    assert spy.seen == ["pre_enqueue", "pre_filter", "filter", "filter", "pre_score", "score", "score", "reduce",
                        "reserve", "permit", "pre_bind", "bind", "post_bind"]
    assert server.places()["p"] in "nm"


def test_to_choose_a_node_is_not_to_act_on_it(spy):
    """As --explain relies on."""
    cluster = a_cluster(Server(node("n"), node("m"), pod("p")))
    for reasons in ([], ["node(s) were full"]):
        spy.answers["filter"] = reasons
        [waiting] = pending_pods(cluster, spy.policies)
        schedule(waiting, cluster.look(spy.policies), spy.policies["my-scheduler"])
    assert set(spy.seen) == {"pre_enqueue", "pre_filter", "filter", "pre_score", "score", "reduce"}


def test_a_dry_run_calls_no_rule_that_binds(spy):
    server = Server(node("n"), pod("p"))
    make_pass(server, spy, a_cluster(server, dry_run=True))
    assert "pre_bind" in spy.seen and not {"bind", "post_bind"} & set(spy.seen)
    assert server.places() == {}


@table("asked, is_bound", {
    "that has to be sent once": (1, True), "that it wants sent for ever": (10**6, False)})
def test_among_manifests_a_rule_is_asked_again_at_once_after_what(spy, asked, is_bound):
    requests = ([("PATCH", "/api/v1/namespaces/default/pods/p", {})], "it is to be seen")
    spy.answers["pre_bind"] = lambda *_: requests if spy.seen.count("pre_bind") <= asked else None
    cluster = cluster_of(node("n"), pod("p"))
    decisions = []
    cluster.show = decisions.append
    snapshot = make_passes(cluster, spy.policies, threading.Event(), once=False)
    assert (cluster.api.objects["pods", "default", "p"]["spec"].get("nodeName") == "n") == is_bound
    waits = "" if is_bound else "Spy prepares the binding to n: it is to be seen"
    assert [decision.waits for decision in decisions] == [waits] and bool(snapshot.nodes["n"].pods) == is_bound
    assert is_bound or [record.published.messages["event"] for record in cluster.pending.values()] == [waits]


def test_pre_enqueue_keeps_a_pod_out_of_the_queue_and_that_is_said(spy, caplog):
    spy.answers["pre_enqueue"] = lambda pod: "not yet" if pod.name == "early" else None
    server = Server(node("n"), pod("early"), pod("late"))
    make_pass(server, spy)
    assert list(server.places()) == ["late"]
    assert caplog.messages == ["default/early is not tried yet: Spy: not yet"]


@table("point, answer, expected", {
    "permit says False": ("permit", False, "permit: return None or seconds, or (seconds, why), not False"),
    "permit says a word": ("permit", "no", "permit: return None or seconds, or (seconds, why), not 'no'"),
    "pre_enqueue says True": ("pre_enqueue", True, "pre_enqueue: return None or a string, not True"),
    "pre_enqueue says False": ("pre_enqueue", False, "pre_enqueue: return None or a string, not False"),
    "post_filter says a request without a body": (
        "post_filter", ([("DELETE", "/api/v1/nodes/a")], "it goes"),
        "post_filter: return None or a list of requests, or (requests, why), not ([('DELETE', '/api/v1/nodes/a')], 'it goes')"),
    "pre_bind says much": (
        "pre_bind", "no" * 50,
        f"pre_bind: return None or a list of requests, or (requests, why), not '{'no' * 27}n ..."),
    "pre_bind says a word": ("pre_bind", "no", "pre_bind: return None or a list of requests, or (requests, why), not 'no'"),
    "pre_bind says a number": ("pre_bind", 5, "pre_bind: return None or a list of requests, or (requests, why), not 5")})
def test_a_hook_that_answers_something_else_fails_its_pod(spy, point, answer, expected, caplog):
    spy.answers |= {"filter": ["no"] if point == "post_filter" else [], point: answer}
    server = Server(node("n"), pod("p"))
    cluster, decisions = make_pass(server, spy)
    said = caplog.text + "".join(decision.message for decision in decisions)
    assert f"{expected} (" in said and cluster.has_failed() and not server.places()


@table("change", {
    "the nodes": lambda failed: failed.clear(),
    "the reasons": lambda failed: [reasons.append("X") for reasons in failed["n"].values()] and None})
def test_what_post_filter_does_to_what_it_is_shown_changes_nothing_for_others(spy, change):
    spy.answers |= {"filter": ["no"], "post_filter": lambda pod, failed, snapshot: change(failed)}
    _, decisions = make_pass(Server(node("n"), pod("p"), pod("q")), spy)
    assert [{name: [*against.values()] for name, against in decision.failed.items()} for decision in decisions] == [
        {"n": [["no"]]}, {"n": [["no"]]}]


@table("point, calls", {
    "after it": ("permit", ["reserve", "permit", "permit", "pre_bind", "bind"]),
    "at the last": ("pre_bind", ["reserve", "permit", "pre_bind", "permit", "pre_bind", "bind"])})
def test_no_reservation_is_made_twice_if_the_api_server_fails(spy, point, calls):
    spy.answers[point] = error_of(500, "away")
    server = Server(node("n"), pod("p"))
    cluster = a_cluster(server)
    make_pass(server, spy, cluster)
    assert server.places() == {} and cluster.has_failed()
    del spy.answers[point]
    make_pass(server, spy, cluster)
    assert [name for name in spy.seen if name in {"unreserve", *calls}] == calls and server.places() == {"p": "n"}


@table("status, message", {
    "the API server refuses": (403, "no"), "the API server fails": (500, "oops"), "no answer comes": (0, "away")})
def test_a_reservation_that_cannot_be_made_is_forgotten_once(spy, status, message):
    spy.answers["reserve"] = error_of(status, message)
    _, [decision] = make_pass(Server(node("n"), pod("p")), spy)
    assert decision.message == message and spy.seen[-2:] == ["reserve", "unreserve"]


def live_cluster(server):
    """A cluster on whose objects others act."""
    server.kind_of_writer = Writer
    return a_cluster(server)


def test_a_permit_that_was_given_is_not_asked_for_again(spy):
    spy.answers["pre_bind"] = [("PATCH", "/api/v1/namespaces/default/pods/p", {})]
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    make_pass(server, spy, cluster)
    spy.answers |= {"permit": 60, "pre_bind": None}
    make_pass(server, spy, cluster)
    assert server.places() == {"p": "n"} and spy.seen.count("permit") == spy.seen.count("reserve") == 1
    assert len(server.sent("PATCH", "/pods/p")) == 1


@table("point, answer, refused, reason, message", {
    "no node fits": ("filter", ["no"], [], "Unschedulable", "0/1 nodes are available: 1 no."),
    "it is not permitted": ("permit", Unschedulable("no"), [], "Unschedulable",
                            'rejected pod "p" by permit plugin "Spy": no'),
    "a rule breaks when it is asked for that": ("permit", RuntimeError("oops"), [], "SchedulerError",
                                                f"{OOPS}, about node n"),
    "a rule breaks as it takes note of the node": ("reserve", RuntimeError("oops"), [], "SchedulerError",
                                                   f"{OOPS}, about node n"),
    "it cannot be prepared": ("pre_bind", Unschedulable("no"), [], "SchedulerError",
                              'running PreBind plugin "Spy": no'),
    "what prepares it is refused": ("pre_bind", [("PATCH", "/api/v1/namespaces/default/pods/p", {})], [403],
                                    "SchedulerError", "status 403")})
def test_the_condition_has_kube_schedulers_reason_why(spy, point, answer, refused, reason, message):
    """Only where it is Unschedulable, cluster autoscalers make nodes."""
    spy.answers[point] = answer
    server = Server(node("n"), pod("p"))
    server.failures["p"] = refused
    make_pass(server, spy, live_cluster(server))
    conditions = [body["status"]["conditions"][0] for *_, body in server.sent("PATCH", "p/status")]
    assert [(condition["reason"], condition["message"]) for condition in conditions] == [(reason, message)]


def test_the_reason_why_is_that_of_the_last_attempt(spy):
    spy.answers["pre_bind"] = error_of(503, "trouble")
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    make_pass(server, spy, cluster)
    spy.answers["permit"] = Unschedulable("no")
    make_pass(server, spy, cluster)
    *_, body = server.sent("PATCH", "p/status")[-1]
    assert body["status"]["conditions"][0]["reason"] == "Unschedulable"


def test_what_a_rule_wants_deleted_and_is_not_there_is_no_change_of_manifests(spy):
    """Passes would go on for ever."""
    spy.answers |= {"permit": Unschedulable("no"), "unreserve": [("DELETE", "/api/v1/namespaces/a/configmaps/b", {})]}
    cluster = cluster_of(node("n"), pod("p"))
    make_passes(cluster, spy.policies, threading.Event(), once=False)
    assert spy.seen.count("permit") == 1


@table("error", {"refused": (Unschedulable("no"),), "broken": (RuntimeError("oops"),)})
def test_what_prepared_a_binding_is_not_sent_again_if_that_is_given_up(spy, error):
    spy.answers["pre_bind"] = [("PATCH", "/api/v1/namespaces/default/pods/p", {})]
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    make_pass(server, spy, cluster)
    spy.answers["pre_bind"] = error
    make_pass(server, spy, cluster)
    assert len(server.sent("PATCH", "/pods/p")) == 1 and spy.seen.count("unreserve") == 1


@table("point, told_to_wait", {
    "permit": ("permit", 60), "pre_bind": ("pre_bind", [("PATCH", "/api/v1/namespaces/default/pods/p", {})])})
def test_a_pod_that_waits_is_shown_to_rules_as_it_is_by_now(spy, point, told_to_wait):
    spy.answers[point] = lambda pod, node, snapshot: None if "ready" in pod.labels else told_to_wait
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    make_pass(server, spy, cluster)
    assert server.places() == {}
    server.put(pod("p", labels={"ready": "yes"}))
    make_pass(server, spy, cluster)
    assert server.places() == {"p": "n"}


@table("lists", {"at once": [], "while lists fail, once they succeed": [500] * 3})
def test_what_a_prepared_pod_has_to_have_undone_is_sent_once_when_its_policy_changes(lists, spy):
    undo = "PATCH", "/api/v1/nodes/n", {}
    spy.answers |= {"pre_bind": [("PATCH", "/api/v1/namespaces/default/pods/p", {})], "unreserve": [undo]}
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    make_pass(server, spy, cluster)
    spy.policies = {"my-scheduler": FullPolicy([], [])}
    if lists:
        server.failures["pods"] = lists
        asked = len(server.requests)
        with pytest.raises(Trouble):
            make_pass(server, spy, cluster)
        assert {method for method, *_ in server.requests[asked:]} == {"GET"}
    make_pass(server, spy, cluster)
    calls = [(method, path) for method, path, *_ in server.requests]
    assert server.places() == {"p": "n"} and calls.count(undo[:2]) == 1


def test_a_rule_that_notes_its_own_reservation_does_not_refuse_its_own_pod(spy):
    """CheckVolumeBinding asks all predicates again only of a pod that has waited."""
    taken = set()
    rule = FullRule("Device", lambda pod, node: ["taken"] if taken else [], title="Device", hooks={
        "reserve": lambda pod, node, snapshot: taken.add(pod.uid)})
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "annotations": {
        "pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv"}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    server = Server(node("n"), pod("p", volumes=volumes), claim, {
        "kind": "PersistentVolume", "metadata": {"name": "pv"}})
    spy.policies = {"my-scheduler": FullPolicy([rule, *built(["CheckVolumeBinding"])["my-scheduler"].predicates], [])}
    make_pass(server, spy, live_cluster(server))
    assert server.places() == {"p": "n"}


def test_a_prepared_pod_is_reserved_once(spy):
    wanted = [[("PATCH", "/api/v1/namespaces/default/pods/p", {})], [], None]
    spy.answers["pre_bind"] = lambda *_: wanted.pop(0)
    server = Server(node("n"), pod("p"))
    cluster = a_cluster(server)
    cluster.cache.snapshot.is_live = True
    for _ in range(3):
        make_pass(server, spy, cluster)
    assert server.places() == {"p": "n"} and spy.seen.count("reserve") == 1


def test_queue_sort_sorts_the_queue(spy):
    server = Server(node("n"), pod("a"), pod("b"), pod("c"))
    _, decisions = make_pass(server, spy)
    assert [decision.pod.name for decision in decisions] == ["c", "b", "a"]


@table("key", {"fails": lambda pod: pod.nonsense, "returns None": lambda pod: None,
               "returns what cannot be compared": lambda pod: 1 if pod.name == "a" else "1"})
def test_queue_sort_that_fails_leaves_the_usual_order(spy, key, caplog):
    spy.policies["my-scheduler"].predicates[0].hooks["queue_sort"] = key
    server = Server(node("n"), pod("a"), pod("b"))
    _, decisions = make_pass(server, spy)
    assert [decision.pod.name for decision in decisions] == ["a", "b"]
    line = key.__code__.co_firstlineno
    assert ("the queue is sorted by priority and age, not by Spy (Spy: test_extension_points.py, "
            f"line {line}): " in caplog.text)


def test_what_post_filter_returns_is_sent_and_said(spy):
    wanted = [("PATCH", "/api/v1/nodes/n", {"spec": {"unschedulable": False}}), ("DELETE", "/api/v1/nodes/m", None)]
    spy.answers |= {"filter": ["node(s) were full"], "post_filter": (wanted, "It tidies up.")}
    server = Server(node("n"), pod("p"))
    _, [decision] = make_pass(server, spy)
    assert spy.seen[-1] == "post_filter", "nothing was reserved, and nothing is unreserved"
    assert [(method, path, body) for method, path, _, body in server.requests if "/nodes/" in path] == wanted
    assert in_words(decision) == (
        "default/p stays pending: 0/1 nodes are available: 1 node(s) were full. It tidies up.")


def test_post_filter_is_not_asked_where_there_are_no_nodes(spy):
    _, [decision] = make_pass(Server(pod("p")), spy)
    assert decision.message == "no nodes available to schedule pods" and "post_filter" not in spy.seen


@table("point, before", {
    "Reserve": ("reserve", ["reserve", "unreserve"]),
    "Permit": ("permit", ["reserve", "permit", "unreserve"]),
    "PreBind": ("pre_bind", ["reserve", "permit", "pre_bind", "unreserve"]),
})
@table("error, message", {
    "that refuses": (Unschedulable("no"), None),
    "that breaks": (RuntimeError("oops"), f"{OOPS}, about node n"),
})
def test_a_hook_that_fails_leaves_its_pod_pending(spy, point, before, error, message):
    spy.answers[point] = error
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "1"}), pod("a", {"cpu": "1"}))
    cluster, decisions = make_pass(server, spy)
    refused = {"reserve": 'running Reserve plugin "Spy": no', "permit": 'rejected pod "{}" by permit plugin "Spy": no',
               "pre_bind": 'running PreBind plugin "Spy": no'}[point]
    assert [decision.message for decision in decisions] == [message or refused.format(name) for name in "pa"]
    said = [body["message"] for *_, body in server.sent("POST", "/events")]
    assert [in_json(decision)["message"] for decision in decisions] == said[:2]
    assert [name for name in spy.seen if name in before] == before * 2
    assert server.places() == {}
    del spy.answers[point]
    cluster.pending.clear()
    make_pass(server, spy, cluster)
    assert len(server.places()) == 2, "what was refused left nothing behind; this rule does not look at resources"


def test_a_pod_that_is_refused_after_it_had_a_node_can_be_explained(spy):
    spy.answers["reserve"] = Unschedulable("no")
    _, [decision] = make_pass(Server(node("n"), node("m"), pod("p")), spy)
    assert [line.split() for line in explain(decision, Screen())[1:]] == [
        ["raw→points×weight", "m", "n"], ["Spy", "7→7×1", "7→7×1"], ["Total", "7", "7"], []]


def test_pre_bind_sends_its_requests_and_is_asked_again_before_the_binding(spy):
    requests = [[("PATCH", "/api/v1/namespaces/default/pods/p", {"metadata": {"labels": {"prepared": "yes"}}})], None]
    spy.answers["pre_bind"] = lambda *_: requests.pop(0)
    server = Server(node("n"), pod("p"))
    cluster = a_cluster(server)
    cluster.cache.snapshot.is_live = True
    make_pass(server, spy, cluster)
    assert server.places() == {} and "bind" not in spy.seen
    make_pass(server, spy, cluster)
    assert server.places() == {"p": "n"} and spy.seen.count("bind") == 1


def test_unreserve_has_its_requests_sent(spy):
    request = "PATCH", "/api/v1/namespaces/default/pods/p", {"metadata": {"labels": {"prepared": None}}}
    spy.answers |= {"permit": Unschedulable("no"), "unreserve": [request]}
    server = Server(node("n"), pod("p"))
    make_pass(server, spy)
    assert [(method, path, body) for method, path, _, body in server.requests if path == request[1]] == [request]


def test_an_unreserve_that_breaks_changes_nothing(spy, caplog):
    spy.answers |= {"permit": Unschedulable("no"), "unreserve": RuntimeError("oops")}
    server = Server(node("n"), pod("p"))
    _, [decision] = make_pass(server, spy)
    assert decision.message == 'rejected pod "p" by permit plugin "Spy": no' and "oops" in caplog.text


@table("point, answer", {
    "no node fits": ("filter", ["no"]), "it is rejected before nodes are asked": ("pre_filter", Rejected("no")),
    "its nodes cannot be scored": ("pre_score", Unschedulable("no"))})
def test_who_was_not_reserved_is_not_unreserved(spy, point, answer):
    spy.answers[point] = answer
    server = Server(node("n"), node("m"), pod("p"))
    cluster, _ = make_pass(server, spy)
    make_pass(server, spy, cluster)
    assert point in spy.seen and "unreserve" not in spy.seen


@table("is_so, after_it, said", {
    "and has": (True, "post_bind", []),
    "and has not": (False, "unreserve", ["default/p: rule Spy says that the pod is bound to n, and it is not"])})
def test_a_rule_may_say_that_it_has_bound(spy, caplog, is_so, after_it, said):
    server = Server(node("n"), pod("p"))

    def bind(pod, node_name):
        server.objects["pods", "default", "p"]["spec"] |= {"nodeName": node_name} if is_so else {}
        return True

    spy.answers["bind"] = bind
    cluster, _ = make_pass(server, spy, live_cluster(server))
    assert not [request for request in server.requests if request[1].endswith("/binding")]
    assert spy.seen[-1] == after_it and caplog.messages == said
    assert [node.pods.keys() for node in cluster.cache.snapshot.nodes.values()] == [{"uid-p"} if is_so else set()]


def test_among_manifests_what_a_rule_says_it_has_bound_is_bound(spy):
    """Else no pass would be the last one."""
    spy.answers["bind"] = True
    cluster, _ = make_pass(None, spy, cluster_of(node("n"), pod("p")))
    assert cluster.api.objects["pods", "default", "p"]["spec"]["nodeName"] == "n"


@table("point, answer, said", {
    "a bind that breaks": ("bind", RuntimeError("oops"), OOPS),
    "a bind that returns a word": (
        "bind", "done", "bind: return None or True or False, not 'done' ("),
    "requests that are none": ("pre_bind", ["x"], None)})
def test_why_a_rule_could_not_bind_is_said_in_an_event(spy, point, answer, said):
    spy.answers[point] = answer
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    make_pass(server, spy, cluster)
    said = f"binding rejected: {said}" if said else (
        "pre_bind: return None or a list of requests, or (requests, why), not ['x'] (")
    events = [body for *_, body in server.sent("POST", "/events")]
    assert [body["reason"] for body in events] == ["FailedScheduling"] and events[0]["message"].startswith(said)
    assert server.places() == {} and cluster.has_failed()


def test_rules_that_do_not_return_from_bind_are_named_and_are_no_trouble_of_the_api_server(spy, monkeypatch, caplog):
    replace(monkeypatch, "HOOK_SECONDS", 0.2)
    spy.answers["bind"] = lambda pod, node_name: threading.Event().wait(3600)
    server = Server(node("n"), *(pod(f"p-{i:02}") for i in range(12)))
    cluster, _ = make_pass(server, spy, live_cluster(server))
    assert {record.retry.attempts for record in cluster.pending.values()} == {1} and len(caplog.messages) == 12
    said = "Spy: bind has not returned for 0.2 s"
    assert caplog.messages[0].endswith(said)
    assert cluster.pending["uid-p-00"].published.messages["event"] == f"binding rejected: {said}"


def test_many_bindings_that_break_at_a_time_are_no_trouble_of_the_api_server(spy):
    spy.answers["bind"] = RuntimeError("oops")
    server = Server(node("n"), *(pod(f"p-{i:02}") for i in range(40)))
    cluster, decisions = make_pass(server, spy, live_cluster(server))
    assert [record.retry.attempts for record in cluster.pending.values()] == [1] * 40
    assert not decisions, "none is shown that was not carried out"


@table("point, answer", {
    "pre_enqueue": ("pre_enqueue", RuntimeError("oops")), "queue_sort": ("queue_sort", RuntimeError("oops")),
    "post_filter": ("post_filter", RuntimeError("oops")), "post_bind": ("post_bind", RuntimeError("oops")),
    "an unreserve that returns a word": ("unreserve", "no")})
def test_a_hook_that_breaks_is_a_failure(spy, point, answer):
    def breaks(pod):
        raise answer
    before = {"post_filter": {"filter": ["no"]}, "unreserve": {"permit": Unschedulable("no")}}
    spy.answers |= {point: answer} | before.get(point, {})
    if point == "queue_sort":
        spy.policies["my-scheduler"].predicates[0].hooks["queue_sort"] = breaks
    make_pass(Server(node("n"), pod("p")), spy)
    assert FAILURE.is_set()


def test_a_post_filter_may_have_no_remedy_in_an_empty_tuple(spy):
    spy.answers |= {"filter": ["no"], "post_filter": ()}
    _, [decision] = make_pass(Server(node("n"), pod("p")), spy)
    assert decision.remedy == "" and not FAILURE.is_set()


def test_a_permit_that_returns_no_number_of_seconds_holds_nobody_for_ever(spy):
    spy.answers["permit"] = float("nan")
    _, [decision] = make_pass(Server(node("n"), pod("p")), spy)
    assert "rejected due to timeout" in decision.message


def test_explain_says_by_which_rule_a_pod_is_not_tried_yet(tmp_path):
    (tmp_path / "my_rules.py").write_text(
        "from scheduler import predicate\n@predicate('Mine', pre_enqueue=lambda pod: 'not before noon')\n"
        "def mine(pod, node): return []\n")
    (tmp_path / "policy.json").write_text(json.dumps(policy(["Mine"])))
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [node("a"), pod("p")]}))
    run = run_scheduler("--plugins", tmp_path / "my_rules.py", "--policy", tmp_path / "policy.json", "--cluster",
                        tmp_path / "cluster.json", "--explain", "p")
    assert run.stdout.startswith("default/p waits: Mine: not before noon. If scheduled now")


def test_a_bind_that_breaks_is_looked_into(spy, caplog):
    spy.answers["bind"] = RuntimeError("oops")
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "1"}))
    cluster, _ = make_pass(server, spy)
    assert caplog.messages == [f"default/p: {OOPS}"] and [record.retry.attempts for record in cluster.pending.values()] == [1]


def test_a_post_bind_that_breaks_changes_nothing(spy, caplog):
    spy.answers["post_bind"] = RuntimeError("oops")
    server = Server(node("n"), pod("p"))
    make_pass(server, spy)
    assert server.places() == {"p": "n"} and "oops" in caplog.text


def test_a_pre_enqueue_that_breaks_holds_up_its_pod_only(spy, caplog):
    spy.answers["pre_enqueue"] = lambda pod: 1 / 0 if pod.name == "bad" else None
    server = Server(node("n"), pod("bad"), pod("good"))
    make_pass(server, spy)
    assert list(server.places()) == ["good"] and "default/bad is not tried yet: Spy: ZeroDivisionError" in caplog.text


@table("point, is_bound", {
    "pre_enqueue": ("pre_enqueue", False), "queue_sort": ("queue_sort", True), "post_filter": ("post_filter", False),
    "reserve": ("reserve", False), "unreserve": ("unreserve", False), "permit": ("permit", False),
    "pre_bind": ("pre_bind", False), "bind": ("bind", False), "post_bind": ("post_bind", True)})
def test_a_hook_that_calls_sys_exit_fails_its_pod_only(spy, point, is_bound):
    def leave(pod, *_):
        if pod.name == "bad":
            raise SystemExit(3)
        return {"queue_sort": 0}.get(point)

    def refuse_bad(pod, *_):
        if pod.name == "bad":
            raise Unschedulable("it is bad")

    spy.policies["my-scheduler"].predicates[0].hooks[point] = leave
    if point == "unreserve":
        spy.answers["permit"] = refuse_bad
    if point == "post_filter":
        spy.policies["my-scheduler"].predicates.append(FullRule("Picky", lambda pod, node: ["it is bad"] if pod.name == "bad" else []))
    server = Server(node("n"), node("m"), pod("bad"), pod("good"))
    cluster, _ = make_pass(server, spy)
    make_pass(server, spy, cluster)
    assert server.places().keys() == ({"bad", "good"} if is_bound else {"good"})


def test_permit_holds_a_pod_with_its_room_until_it_approves(spy):
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "1"}), pod("z", {"cpu": "1"}))
    spy.policies["my-scheduler"].predicates += built(["PodFitsResources"])["my-scheduler"].predicates
    spy.answers["permit"] = 60
    cluster, decisions = make_pass(server, spy)
    assert [(decision.pod.name, decision.pod.record.waits_for) for decision in decisions] == [
        ("z", WaitsFor.PERMIT), ("p", WaitsFor.NODE)]
    assert decisions[1].message == "0/1 nodes are available: 1 Insufficient cpu."
    make_pass(server, spy, cluster)
    assert server.places() == {}
    spy.answers["permit"] = None
    make_pass(server, spy, cluster)
    assert server.places() == {"z": "n"} and spy.seen.count("reserve") == 1


@table("point", {"reserve": ("reserve",), "permit": ("permit",), "pre_bind": ("pre_bind",)})
def test_who_is_refused_gives_the_room_back_at_once(spy, point):
    spy.policies["my-scheduler"].predicates += built(["PodFitsResources"])["my-scheduler"].predicates

    def refuse(pod, *_):
        if pod.name == "z":
            raise Unschedulable("not z")

    spy.answers[point[0]] = refuse
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "1"}), pod("z", {"cpu": "1"}))
    _, decisions = make_pass(server, spy)
    assert [(decision.pod.name, decision.node) for decision in decisions] == [("z", None), ("p", "n")]


@table("answer, said", {
    "without a reason": (60, "rejected due to timeout after waiting 60s at plugin Spy"),
    "with its last reason": ((60, "1 of 2 pods"), "rejected due to timeout after waiting 60s at plugin Spy: 1 of 2 pods")})
def test_permit_that_is_not_given_in_time_gives_the_room_back(spy, answer, said, monkeypatch):
    server = Server(node("n"), pod("p"))
    spy.answers["permit"] = answer
    cluster, _ = make_pass(server, spy)
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    _, [decision] = make_pass(server, spy, cluster)
    assert decision.message == 'pod "p" rejected while waiting on permit: ' + said
    assert spy.seen.count("unreserve") == 1 and not cluster.pending[decision.pod.uid].decision


def test_a_held_pod_that_is_deleted_is_forgotten(spy):
    server = Server(node("n"), pod("p"), pod("q"))
    spy.answers["permit"] = 60
    cluster, _ = make_pass(server, spy)
    del server.objects["pods", "default", "p"]
    make_pass(server, spy, cluster)
    assert [record.decision.pod.name for record in cluster.pending.values() if record.decision] == ["q"]
    assert spy.seen.count("unreserve") == 1


def test_a_held_pod_that_somebody_binds_is_forgotten(spy):
    server = Server(node("n"), node("m"), pod("p"))
    spy.answers["permit"] = 60
    cluster, _ = make_pass(server, spy)
    server.put(pod("p", nodeName="m"), pod("q"))
    for _ in range(2):
        make_pass(server, spy, cluster)
    assert [record.decision.pod.name for record in cluster.pending.values() if record.decision] == ["q"]
    assert spy.seen.count("unreserve") == 1


def test_a_binding_that_is_refused_is_unreserved(spy):
    server = Server(node("n"), pod("p"))
    server.failures["binding"] = [409]
    make_pass(server, spy)
    assert spy.seen[-1] == "unreserve" and "post_bind" not in spy.seen


def test_a_held_pod_whose_node_goes_is_placed_anew(spy):
    server = Server(node("n"), pod("p"))
    spy.answers["permit"] = 60
    cluster, _ = make_pass(server, spy)
    del server.objects["nodes", None, "n"]
    server.add(node("m"))
    _, [decision] = make_pass(server, spy, cluster)
    assert decision.message == "node n has gone"
    cluster.pending[decision.pod.uid].retry.at_once()
    spy.answers["permit"] = None
    make_pass(server, spy, cluster)
    assert server.places() == {"p": "m"}


def gang(*names, size=3):
    return [pod(name, {"cpu": "1"}, labels={"group": "crew", "group-size": str(size)}) for name in names]


def test_a_gang_is_bound_together_or_not_at_all(control_plane, tmp_path, start_scheduler):
    (tmp_path / "policy.json").write_text(json.dumps(policy(["PodFitsResources", "Coscheduling"])))
    control_plane.create(node("n", cpu="3"), *gang("one", "two"))
    running = start_scheduler("--server", control_plane.server, "--plugins", RULES, "--interval=0.2",
                              "--policy", tmp_path / "policy.json")
    wait_for("both wait", lambda: running.out.count("waits: Coscheduling does not permit the binding to ") == 2)
    control_plane.create(pod("other", {"cpu": "2"}))
    wait_for("the room of those that wait is kept", lambda: control_plane.events("FailedScheduling"))
    assert control_plane.places() == {}
    control_plane.create(*gang("three"))
    wait_for("all three are bound", lambda: len(control_plane.places()) == 3)
    assert set(control_plane.places()) == {"default/one", "default/two", "default/three"}


def test_gangs_that_compete_for_room_are_each_bound_as_a_whole_or_not_at_all(control_plane, tmp_path, start_scheduler):
    """Room for two groups of three, and three groups whose pods come one by one, mixed."""
    (tmp_path / "policy.json").write_text(json.dumps(policy(["PodFitsResources", "Coscheduling"])))
    control_plane.create(node("a", cpu="3"), node("b", cpu="3"))
    start_scheduler("--server", control_plane.server, "--plugins", RULES, "--interval=0.1",
                    "--policy", tmp_path / "policy.json")
    for i in range(3):
        for group in ("red", "green", "blue"):
            control_plane.create(pod(f"{group}-{i}", {"cpu": "1"}, labels={"group": group, "group-size": "3"}))
            time.sleep(0.3)
    # Groups may block one another until one has waited for half a minute, perhaps more than once.
    wait_for("the room is used", lambda: len(control_plane.places()) == 6, 180)
    time.sleep(1)
    assert sorted(Counter(key.split("/")[1].split("-")[0] for key in control_plane.places()).values()) == [3, 3]


def test_a_gang_of_another_namespace_is_another_gang():
    """One that has this name, too, and fits nowhere, keeps nobody from waiting for the rest of his own."""
    group = {"group": "g", "group-size": "2"}
    server = Server(node("n"), pod("ours", {"cpu": "1"}, labels=group),
                    pod("theirs", {"cpu": "100"}, namespace="other", labels=group))
    cluster, decided = a_cluster(server), {}
    policies = {"my-scheduler": read_policy(policy(["PodFitsResources", "Coscheduling"]))}
    for _ in range(2):
        a_pass(cluster, policies, lambda decision: decided.update(
            {decision.pod.name: decision.waits}))
    assert decided == {"ours": "Coscheduling does not permit the binding to n yet: 1 of 2 pods of group g have a node", "theirs": ""}


def test_coscheduling_is_under_30_lines_of_user_code():
    text = RULES.read_text()
    text = text[text.index("# Pods of a group"):]
    assert len([line for line in text.splitlines() if line]) < 30




def test_a_held_pod_keeps_its_room_when_the_api_server_is_in_trouble(spy):
    server = Server(node("n"), pod("p"))
    spy.answers["permit"] = 60
    cluster, _ = make_pass(server, spy)
    spy.answers |= {"permit": None, "pre_bind": error_of(503, "away")}
    make_pass(server, spy, cluster)
    assert server.places() == {} and spy.seen.count("unreserve") == 0
    del spy.answers["pre_bind"]
    make_pass(server, spy, cluster)
    assert server.places() == {"p": "n"}


def test_a_held_pod_is_decided_about_anew_when_its_policy_changes(spy):
    server = Server(node("n"), pod("p"))
    spy.answers["permit"] = 60
    cluster, _ = make_pass(server, spy)
    spy.policies = {"my-scheduler": FullPolicy([], [])}
    make_pass(server, spy, cluster)
    assert server.places() == {"p": "n"} and spy.seen[-1] == "unreserve"


@table("check, problem", {
    "fails": (lambda arguments: [arguments[0]["y"]], "KeyError in <lambda>: 'y'"),
    "returns a string": (lambda arguments: "too long",
                         f"{YIELD}, not 'too long'")})
def test_a_check_that_breaks_is_a_problem_of_the_policy(check, problem):
    predicate("Picky", argument={"x": str}, check=check)(lambda pod, node: ())
    try:
        with pytest.raises(InputError, match=f"predicates.0.: {problem}"):
            built([{"name": "Picky", "argument": {"x": ""}}])
    finally:
        del PREDICATES["Picky"]
