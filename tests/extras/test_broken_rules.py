"""Custom rules that are invalid, raise exceptions, or return invalid values: the error messages."""

import json
import re
import sys

import pytest

import helpers.tutorial  # noqa: F401 (registers the rules of the example)
from helpers.extras import ROOT, decide, node, pod, run_scheduler, table
from helpers.policies import names_in_policies
from helpers.spy import RULES, SAMPLE, built, policy
from scheduler_extras.common.errors import InputError
from scheduler_extras.deciding.rule import PRIORITIES
from scheduler_extras.policy import own_rules
from scheduler_extras.policy.own_rules import load_plugins, priority, unplug


def test_a_score_out_of_range_leaves_the_pod_pending(caplog):
    priority("TooMuch")(lambda pod, node: 101)
    try:
        policies = built((), ["TooMuch"])
    finally:
        del PRIORITIES["TooMuch"]
    expected = "TooMuch gives a the score 101: a score must be from 0 to 100, after `reduce` if there is one (TooMuch: "
    assert decide(policies, pod("p"), node("a"), node("b")).message.startswith(expected) and caplog.messages == []
    assert decide(policies, pod("p"), node("a")).node == "a", "a single node is not scored, as in kube-scheduler"
    assert caplog.text.count(expected) == 1, "the error is logged even so"


@table("entry, message", {
    "a valid argument": ({"name": "sample-plugin", "argument": SAMPLE}, None),
    "an argument that the rule's check rejects": (
        {"name": "sample-plugin", "argument": {"favorite_number": -1}},
        "predicates[0]: favorite_number must not be negative"),
    "an argument of another type": ({"name": "sample-plugin", "argument": {"favorite_number": "many"}},
                        'predicates[0].argument.favorite_number: expected a whole number, got "many"'),
    "an argument with a typo": ({"name": "sample-plugin", "argument": {"favourite_color": "red"}},
                      'predicates[0].argument.favourite_color: unknown field; did you mean "favorite_color"?'),
    "an unknown rule": (
        {"name": "sample-plugins"}, 'predicates[0]: unknown predicate "sample-plugins"; did you mean "sample-plugin"?'),
})
def test_arguments_of_custom_rules(entry, message, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(policy([entry])))
    run = run_scheduler("--plugins", RULES, "--policy", path, "--cluster", ROOT / "tests/demo.yaml", "--once")
    if message:
        assert (run.returncode, run.stderr) == (2, f"{path}: {message}\n")
    else:
        assert run.returncode == 0
        assert f"PreFilter default/web-1: 5 nodes, arguments [{SAMPLE}]" in run.stderr


NO_FUNCTION = "expected a Python function, got"


OPTIONS = f"there are {', '.join(sorted(own_rules.OPTIONS))}"


@table("rule, message", {
    "swapped parameters": (
        "@predicate('Mine')\ndef mine(node, pod): return []", ': expected the parameters (pod, node), got (node, pod)'),
    "a missing parameter": (
        "@priority('Mine')\ndef mine(pod): return 1", ': expected the parameters (pod, node), got (pod)'),
    "keyword-only parameters": (
        "@predicate('Mine')\ndef mine(*, pod, node): return []", ': expected the parameters (pod, node), got (*, pod, node)'),
    "a metadata parameter without a metadata function": (
        "@predicate('Mine')\ndef mine(pod, node, metadata): return []",
        ': expected the parameters (pod, node), got (pod, node, metadata)'),
    "a metadata function without a metadata parameter": (
        "@predicate('Mine', metadata=lambda pod, nodes, snapshot: 1)\ndef mine(pod, node): return []",
        ': expected the parameters (pod, node, metadata), got (pod, node)'),
    "a metadata function with the parameters of a rule": (
        "@predicate('Mine', metadata=lambda pod, node: 1)\ndef mine(pod, node, metadata): return []",
        ', metadata: expected the parameters (pod, nodes, snapshot), got (pod, node)'),
    "a hook with swapped parameters": (
        "@predicate('Mine', reserve=lambda node, pod, snapshot: 1)\ndef mine(pod, node): return []",
        ', reserve: expected the parameters (pod, node, snapshot), got (node, pod, snapshot)'),
    "a hook whose arguments parameter is not the last": (
        "@predicate('Mine', argument={}, reserve=lambda pod, node, arguments, snapshot: 1)\ndef mine(pod, node): return []",
        ', reserve: expected the parameters (pod, node, snapshot, arguments), got (pod, node, arguments, snapshot)'),
    "a reduce with two parameters": (
        "@priority('Mine', reduce=lambda pod, scores: 1)\ndef mine(pod, node): return 1",
        ', reduce: expected the parameters (scores), got (pod, scores)'),
    "a check without parameters": (
        "@priority('Mine', check=lambda: [])\ndef mine(pod, node): return 1",
        ', check: expected the parameters (arguments), got ()'),
    "arguments instead of argument": (
        "@priority('Mine', arguments={'zone': str})\ndef mine(pod, node): return 1", f': there is no option "arguments"; {OPTIONS}'),
    "pre_filter instead of metadata": (
        "@priority('Mine', pre_filter=print)\ndef mine(pod, node): return 1", f': there is no option "pre_filter"; {OPTIONS}'),
    "a parameter argument instead of arguments": (
        "@priority('Mine', argument={'zone': str})\ndef mine(pod, node, argument): return 1",
        ': expected the parameters (pod, node, arguments), got (pod, node, argument)'),
    "a weight, which belongs into the Policy": (
        "@priority('Mine', weight=3)\ndef mine(pod, node): return 1", f': there is no option "weight"; {OPTIONS}'),
    "an argument that is a type": (
        "@priority('Mine', argument=str)\ndef mine(pod, node): return 1",
        """, argument: expected an object, got "<class 'str'>\""""),
    "an argument that is a list": (
        "@priority('Mine', argument=['zone'])\ndef mine(pod, node): return 1",
        ', argument: expected an object, got ["zone"]'),
    "a default that is a string": (
        "@priority('Mine', argument={'zone': str}, default='east')\ndef mine(pod, node): return 1",
        ', default: expected an object, got "east"'),
    "a default with a value of another type": (
        "@priority('Mine', argument={'zone': str}, default={'zone': 5})\ndef mine(pod, node, arguments): return 1",
        ', default.zone: expected a string, got 5'),
    "a default with an unknown field": (
        "@priority('Mine', argument={'zone': str}, default={'zones': 'east'})\ndef mine(pod, node, arguments): return 1",
        ', default.zones: unknown field; did you mean "zone"?'),
    "a parameter arguments without the option argument": (
        "@priority('Mine')\ndef mine(pod, node, arguments): return 1",
        ': expected the parameters (pod, node), got (pod, node, arguments)'),
    "a default without an argument": (
        "@priority('Mine', default={'zone': 'east'})\ndef mine(pod, node): return 1",
        ", default.zone: unknown field"),
    "a check that is not a function": (
        "@priority('Mine', check=False)\ndef mine(pod, node): return 1", ", check: expected a function, got False"),
    "metadata that is not a function": (
        "@priority('Mine', metadata={'a': 1})\ndef mine(pod, node, metadata): return 1",
        ", metadata: expected a function, got {'a': 1}"),
    "a function without a signature": ("predicate('Mine')(max)", f": {NO_FUNCTION} <built-in function max>"),
    "a function without source code": ("predicate('Mine')(isinstance)", f": {NO_FUNCTION} <built-in function isinstance>"),
    "None, as after a decorator that does not return the function": ("predicate('Mine')(None)", f": {NO_FUNCTION} None"),
    "a class": ("predicate('Mine')(dict)", f": {NO_FUNCTION} <class 'dict'>"),
})
def test_loading_an_invalid_rule_is_an_error(rule, message, tmp_path):
    (tmp_path / "my_rules.py").write_text(f"from scheduler import predicate, priority\n\n{rule}\n")
    with pytest.raises(InputError) as error:
        load_plugins([tmp_path / "my_rules.py"])
    line = 3 if sys.version_info > (3, 11) or "def" not in rule else 4  # 3.10 calls decorators in the line of `def`
    assert str(error.value) == f"""{tmp_path / 'my_rules.py'}, line {line}: rule "Mine"{message}"""


@table("decorator, body", {
    "arguments and metadata, in any order": (
        "priority('Mine', metadata=lambda pod, nodes, snapshot: 1, argument={'zone': str})",
        "lambda pod, node, arguments, metadata: 1"),
    "a whole number for a number": ("priority('Mine', argument={'share': float}, default={'share': 1})",
                                    "lambda pod, node, arguments: 1"),
    "a default of None": ("priority('Mine', argument={'zone': str}, default=None)", "lambda pod, node, arguments: 1"),
    "an argument without fields": ("priority('Mine', argument={})", "lambda pod, node, arguments: 1"),
    "parameters with other names": ("priority('Mine')", "lambda p, n: 1"),
    "an additional parameter with a default": ("predicate('Mine')", "lambda pod, node, most=5: []"),
    "a hook with *_": ("predicate('Mine', reserve=lambda *_: None)", "lambda pod, node: []"),
    "a reduce without a signature": ("priority('Mine', reduce=dict)", "lambda pod, node: 1"),
    "a reduce whose parameter has another name": ("priority('Mine', reduce=lambda points: points)", "lambda pod, node: 1"),
    "every type": ("priority('Mine', argument={'a': str, 'b': int, 'c': float, 'd': bool, 'e': [str], 'f': {'g': int}, "
                   "'h': range(5), 'i': {'x', 'y'}, 'j': dict})", "lambda pod, node: 1"),
})
def test_a_valid_rule_is_loaded(decorator, body, tmp_path):
    (tmp_path / "my_rules.py").write_text(f"from scheduler import predicate, priority\n{decorator}({body})\n")
    try:
        load_plugins([tmp_path / "my_rules.py"])
        assert "Mine" in names_in_policies()
    finally:
        unplug()


NUMBER = "return a number from 0 to 100, or any number with a `reduce`"


REDUCE = "reduce: return {name: score} of all nodes"


@table("reduce, message", {
    "returns nothing": ("lambda scores: None", f"{REDUCE}, not None (Mine: my_rules.py, line 2)"),
    "returns a list": ("lambda scores: [1]", f"{REDUCE}, not [1] (Mine: my_rules.py, line 2)"),
    "leaves a node out": ("lambda scores: {'a': 1}", f"{REDUCE}, not {{'a': 1}} (Mine: my_rules.py, line 2)"),
    "calls sys.exit": ("lambda scores: exit(3)", "SystemExit in <lambda>: 3 (Mine: my_rules.py, line 2)"),
    "returns None for all nodes": ("lambda scores: dict.fromkeys(scores)",
                           f"{NUMBER}, not None (Mine: my_rules.py, line 2)"),
})
def test_an_invalid_reduce_is_named_in_the_message(reduce, message, tmp_path):
    (tmp_path / "my_rules.py").write_text(
        f"from scheduler import priority\n@priority('Mine', reduce={reduce})\ndef mine(pod, node): return 1\n")
    assert run_mine(tmp_path, priorities=["Mine"])[0] == message


@table("reduce, expected", {
    "without a reduce": ("", "(Mine: my_rules.py, line 4)"),
    "with a reduce": (", reduce=reduce", "(Mine: my_rules.py, line 2)")})
def test_the_message_for_a_score_out_of_range_has_the_line_of_the_rule(reduce, expected, tmp_path):
    (tmp_path / "my_rules.py").write_text(
        "from scheduler import priority\ndef reduce(scores): return scores\n\n"
        f"@priority('Mine'{reduce})\ndef mine(pod, node): return 101\n")
    message, _ = run_mine(tmp_path, priorities=["Mine"])
    assert message == f"Mine gives a the score 101: a score must be from 0 to 100, after `reduce` if there is one {expected}"


def test_a_rule_that_calls_sys_exit_fails_only_its_pod(tmp_path):
    (tmp_path / "my_rules.py").write_text(
        "from scheduler import predicate\ndef permit(pod, node, snapshot):\n    exit(7)\n"
        "@predicate('Mine', permit=permit)\ndef mine(pod, node): return []\n")
    assert re.fullmatch(r"SystemExit in permit: 7 \(Mine: my_rules.py, line 3\), about node [ab]",
                        run_mine(tmp_path, predicates=["Mine"])[0])
    (tmp_path / "my_rules.py").write_text("exit(7)\n")
    with pytest.raises(InputError, match="line 1: SystemExit: 7"):
        load_plugins([tmp_path / "my_rules.py"])


GPU = "{'key': 'gpu', 'operator': 'Exists'}"


@table("body", {
    "the pod's tolerations": f"pod.tolerations.append({GPU})",
    "a label of the pod": "pod.labels['x'] = 'y'",
    "the pod's requests": "pod.requests['cpu'] = 0",
    "the pod's containers": "pod.containers.clear()",
    "a node's taints": "node.taints.append('gpu')",
    "a node's label": "node.labels['x'] = 'y'",
    "a node's allocatable": "node.allocatable['cpu'] -= 100",
    "a node's pods": "node.pods['x'] = pod",
    "a node's requested": "node.requested['cpu'] = 0"})
def test_a_rule_cannot_change(body, tmp_path):
    message = decision_under(tmp_path, "predicate", f"{body}\n    return []")
    assert message.startswith(("TypeError in mine: ", "AttributeError in mine: ")) and "(Mine: my_rules.py, line 7)" in message


def test_an_unknown_resource_is_an_error_that_lists_the_known_ones(tmp_path):
    message = decision_under(tmp_path, "predicate", "return []", metadata="snapshot.objects['service']")
    assert message.startswith('LookupError in <lambda>: snapshot.objects["service"]: expected '
                           "apis/GROUP/VERSION/RESOURCE or one of configmaps, ") and ", services, " in message and "my_rules.py, line 5)" in message
    for known in ("services", "pods", "apis/example.com/v1/widgets"):
        assert decision_under(tmp_path, "predicate", "return []", metadata=f"snapshot.objects['{known}']") is None


def test_a_rules_file_may_import_another_file_of_its_folder(tmp_path):
    (tmp_path / "helper_of_mine.py").write_text("REASON = 'closed'\n")
    assert decision_under(tmp_path, "predicate", "from helper_of_mine import REASON; return [REASON]") == (
        "0/2 nodes are available: 2 closed.")


BROKEN = "(Error|SystemExit|StopIteration) in |, about node |^reduce: |^return a number "


YIELD = "yield strings, or return a list of them"


@table("body, message", {
    "raises an exception at once": ("return node.labels['x']", "KeyError in mine: 'x' (Mine: my_rules.py, line 7)"),
    "raises an exception in a generator": ("yield from node.pods['x']", "KeyError in mine: 'x' (Mine: my_rules.py, line 7)"),
    "raises an exception in another function of the file": ("return far_away(node)", "ZeroDivisionError in far_away: division by zero "
                                                                "(Mine: my_rules.py, line 3)"),
    "raises an exception in a library": ("return __import__('json').loads('')", "JSONDecodeError in mine: "
                                             "Expecting value: line 1 column 1 (char 0) (Mine: my_rules.py, line 7)"),
    "returns True": ("return True", f"{YIELD}, not True (Mine: my_rules.py, line 5)"),
    "returns False": ("return False", f"{YIELD}, not False (Mine: my_rules.py, line 5)"),
    "returns a string": ("return 'closed'", f"{YIELD}, not 'closed' (Mine: my_rules.py, line 5)"),
    "returns nothing": ("return", f"{YIELD}, not None (Mine: my_rules.py, line 5)"),
    "returns a list of numbers": ("return [7]", f"{YIELD}, not [7] (Mine: my_rules.py, line 5)"),
    "returns a tuple": (
        "return False, 'closed'", f"{YIELD}, not (False, 'closed') (Mine: my_rules.py, line 5)"),
    "yields an empty string": ("yield ''", f"{YIELD}, not [''] (Mine: my_rules.py, line 5)"),
    "raises StopIteration": ("yield next(iter([]))", "StopIteration in mine:  (Mine: my_rules.py, line 7)"),
    "yields a number": ("yield 5", f"{YIELD}, not [5] (Mine: my_rules.py, line 5)"),
    "returns a number": ("return 5", f"{YIELD}, not 5 (Mine: my_rules.py, line 5)"),
    "calls sys.exit": ("raise SystemExit(3)",
                       "SystemExit in mine: 3 (Mine: my_rules.py, line 7)"),
    "calls sys.exit in a generator": ("yield from exit()",
                                     "SystemExit in mine: None (Mine: my_rules.py, line 7)"),
})
def test_an_invalid_predicate_is_named_in_the_message(body, message, tmp_path):
    assert decision_under(tmp_path, "predicate", body) == message


@table("body, message", {
    "raises an exception": ("return node.labels['x']", "KeyError in mine: 'x' (Mine: my_rules.py, line 7)"),
    "returns True": ("return True", f"{NUMBER}, not True (Mine: my_rules.py, line 5)"),
    "returns a string": ("return '7'", f"{NUMBER}, not '7' (Mine: my_rules.py, line 5)"),
    "returns nothing": ("return", f"{NUMBER}, not None (Mine: my_rules.py, line 5)"),
    "returns a list": ("return [7]", f"{NUMBER}, not [7] (Mine: my_rules.py, line 5)"),
    "returns a fraction": ("return 0.5", None),
    "calls sys.exit": ("raise SystemExit(3)", "SystemExit in mine: 3 (Mine: my_rules.py, line 7)"),
})
def test_an_invalid_priority_is_named_in_the_message(body, message, tmp_path):
    assert decision_under(tmp_path, "priority", body) == message


def decision_under(folder, kind, body, metadata=None):
    """Return the message of a pod with a custom rule as the only one; the body is line 7 of its file."""
    options, parameter = ("", "") if metadata is None else (
        f", metadata=lambda pod, nodes, snapshot: {metadata}", ", metadata")
    (folder / "my_rules.py").write_text(
        "from scheduler import predicate, priority\n"
        "def far_away(node):\n    return 1 / 0\n\n"
        f"@{kind}('Mine'{options})\ndef mine(pod, node{parameter}):\n    {body}\n")
    message, _ = run_mine(folder, **{"predicates" if kind == "predicate" else "priorities": ["Mine"]})
    if message and re.search(BROKEN, message) and metadata is None:
        assert message.endswith(", about node a"), "the first node for which it ran"
    return message and message.removesuffix(", about node a")


def run_mine(folder, **rules):
    """Schedule a pod with the rules in my_rules.py; return its message and the standard error."""
    (folder / "policy.json").write_text(json.dumps(policy(**rules)))
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": [node("a"), node("b"), pod("p")]}))
    run = run_scheduler("--plugins", folder / "my_rules.py", "--policy", folder / "policy.json", "--cluster",
                        folder / "cluster.json", "--once", "--output=json")
    failed = bool(re.search(BROKEN, json.loads(run.stdout)["message"] or "")) or "the score 101" in run.stdout
    assert "Traceback" not in run.stderr and run.returncode == failed
    return json.loads(run.stdout)["message"], run.stderr
