"""Reloading of --plugins files after an edit: a rule keeps its state until its own code changes."""

import json
import os
import sys
import threading
import time

import pytest

from helpers.command_line import DEMO, RULE
from helpers.extras import run_scheduler, table
from scheduler_extras.deciding.rule import PREDICATES
from scheduler_extras.policy.own_rules import rules_in, unplug
from scheduler_extras.policy.policy_file import PolicyFile


COUNTING_RULE = """from scheduler import predicate
try:
    import {imports}
except ImportError:
    pass
calls = []

@predicate('{name}')
def rule(pod, node):
    calls.append(pod)
    yield str(len(calls))
"""
FILES = {"a.py": COUNTING_RULE.format(name="A", imports="shared_helper"), "b.py": COUNTING_RULE.format(name="B", imports="shared_helper"),
         "c.py": COUNTING_RULE.format(name="C", imports="helper_of_c"), "d.py": COUNTING_RULE.format(name="D", imports="not_there_yet"),
         "shared_helper.py": "import below_shared\n", "below_shared.py": "", "helper_of_c.py": "",
         "policy.json": json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": name} for name in "ABCD"]})}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # the folder is added to it
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    yield tmp_path
    unplug()


def test_a_yaml_file_takes_effect_once_it_has_not_changed_for_a_second(folder, caplog, clock):
    """Half of it is valid, too, and might preempt pods, or bind them to wrong nodes."""
    path = folder / "policy.yaml"
    text = "kind: Policy\napiVersion: v1\npredicates:\n- name: HostName\n- name: MatchNodeSelector\n"
    path.write_text(text)
    file = PolicyFile(path, "my-scheduler")
    path.write_text(text.partition("- name: Match")[0])
    for _ in range(3):
        file.reload_if_changed()
        clock.now += 0.4
    path.write_text(text.replace("HostName", "PodFitsHostPorts"))
    file.reload_if_changed()
    clock.now += 0.9
    file.reload_if_changed()
    assert caplog.messages == []
    clock.now += 0.2
    file.reload_if_changed()
    assert [message.partition(": ")[2] for message in caplog.messages] == ["- HostName", "+ PodFitsHostPorts"]


def test_a_file_that_an_editor_has_half_written_gives_no_error(folder, caplog, monkeypatch):
    path = folder / "policy.json"
    file = PolicyFile(path, "my-scheduler", [folder / f"{name}.py" for name in "abcd"])
    path.write_text(FILES["policy.json"][:20])
    monkeypatch.setattr(time, "sleep", lambda seconds: path.write_text(FILES["policy.json"].replace('"D"}', '"HostName"}')))
    file.reload_if_changed()
    assert caplog.messages == []
    file.reload_if_changed()
    assert "+ HostName" in caplog.text


@table("edits, reloaded", {
    "white space in the Policy": ({"policy.json": FILES["policy.json"] + "\n"}, ""),
    "another rule in the Policy": ({"policy.json": FILES["policy.json"].replace(
        '"D"}', '"D"}, {"name": "HostName"}')}, ""),
    "all files rewritten without changes, as after an update of a ConfigMap": (FILES, ""),
    "a file that imports nothing else": ({"d.py": FILES["d.py"] + "\n"}, "D"),
    "a module that one file imports": ({"helper_of_c.py": "changed = 1\n"}, "C"),
    "a module that two files import": ({"shared_helper.py": "import below_shared\nchanged = 1\n"}, "AB"),
    "a module that is imported by a module of two files": ({"below_shared.py": "changed = 1\n"}, "AB"),
    "one of two files that import the same module, because that is reloaded": ({"a.py": FILES["a.py"] + "\n"}, "AB"),
    "a missing module that a file tries to import is created": ({"not_there_yet.py": ""}, "D"),
    "a module that no file imports": ({"other.py": ""}, ""),
    "an exception in a file: none is reloaded": ({"c.py": "1 / 0"}, ""),
})
def test_only_the_affected_rules_are_reloaded(edits, reloaded, folder):
    file = PolicyFile(folder / "policy.json", "my-scheduler", [folder / f"{name}.py" for name in "abcd"])

    def counts():
        """Return how often each rule has been called since its file was loaded."""
        return {rule.name: next(rule.function(None, None)) for rule in file.reload_if_changed()["my-scheduler"].predicates
                if rule.name in "ABCD"}

    assert counts() == dict.fromkeys("ABCD", "1")
    for name, text in edits.items():
        (folder / name).write_text(text)
    assert counts() == {name: "1" if name in reloaded else "2" for name in "ABCD"}


def test_a_broken_file_is_reloaded_when_it_is_fixed_even_if_the_policy_was_edited_meanwhile(folder):
    file = PolicyFile(folder / "policy.json", "my-scheduler", [folder / f"{name}.py" for name in "abcd"])
    (folder / "c.py").write_text("1 / 0")
    file.reload_if_changed()
    (folder / "policy.json").write_text(FILES["policy.json"] + "\n")
    file.reload_if_changed()
    (folder / "c.py").write_text(FILES["c.py"].replace("str(len(calls))", "'fixed'"))
    [rule] = [rule for rule in file.reload_if_changed()["my-scheduler"].predicates if rule.name == "C"]
    assert [*rule.function(None, None)] == ["fixed"]


def test_an_edited_plugins_file_is_reloaded_and_a_broken_one_changes_nothing(tmp_path, caplog):
    rules, path = tmp_path / "rules.py", tmp_path / "policy.json"
    path.write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Mine"}, '
                    '{"name": "CheckNodeUnschedulable"}, {"name": "PodToleratesNodeTaints"}], "priorities": []}')
    rules.write_text(RULE.format("Mine", "yield 'first'"))
    file = PolicyFile(str(path), "my-scheduler", [str(rules)])

    def reasons():
        """Return the current reasons of the rule."""
        [rule] = [rule for rule in file.reload_if_changed()["my-scheduler"].predicates if rule.name == "Mine"]
        return list(rule.function(None, None))

    try:
        assert reasons() == ["first"] and caplog.messages == []
        rules.write_text(RULE.format("Mine", "yield 'the second'"))
        assert reasons() == ["the second"]
        assert caplog.messages == [f"{path}: {rules} has changed"]
        caplog.clear()
        path.write_text(path.read_text() + "\n")
        assert reasons() == ["the second"]
        assert caplog.messages == [f"{path}: reloaded without changes"], "unchanged rules are not logged"
        caplog.clear()
        os.utime(rules, (1, 1))
        assert reasons() == ["the second"] and caplog.messages == [f"{path}: reloaded without changes"]
        for text, message in (("1 / 0", "line 1: ZeroDivisionError: division by zero"),
                           (RULE.format("Other", "return []"), 'unknown predicate "Mine"')):
            caplog.clear()
            rules.write_text(text)
            assert reasons() == reasons() == ["the second"]
            assert len(caplog.messages) == 1 and message in caplog.text and "still using the last good Policy" in caplog.text
        rules.write_text(RULE.format("Mine", "yield 'the third time'"))
        assert reasons() == ["the third time"]
    finally:
        unplug()


def test_a_policy_from_a_named_pipe_is_read_once(tmp_path):
    """Opening it again would wait for another writer."""
    path = tmp_path / "policy.json"
    os.mkfifo(path)
    threading.Thread(target=path.write_text, args=['{"kind": "Policy", "apiVersion": "v1"}'], daemon=True).start()
    file = PolicyFile(str(path), "my-scheduler")
    later = threading.Thread(target=file.reload_if_changed, daemon=True)
    later.start()
    later.join(5)
    assert file.policies and not later.is_alive()


HELPER = ("from scheduler import predicate, priority\n@predicate('Helper')\ndef helper(pod, node): yield '{}'\n"
          "@priority('HostName')\ndef named(pod, node): return 1\n")


def own(folder, reason="closed", **more):
    """Write rules into a module that a plugins file imports; return the paths of the Policy and the plugins file."""
    (folder / "helper_of_mine.py").write_text(HELPER.format(reason))
    (folder / "main_rules.py").write_text("import helper_of_mine\n")
    (folder / "policy.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Helper"}],
        "priorities": [{"name": "HostName", "weight": 1}], **more}))
    return folder / "policy.json", folder / "main_rules.py"


@table("file, text, message, reason", {
    "the Policy": (
        "policy.json", "{} ", "{policy}: reloaded without changes", "closed"),
    "the imported module": ("helper_of_mine.py", HELPER.format("locked"), "{folder}/helper_of_mine.py has changed", "locked"),
    "the imported module, with the same size": (
        "helper_of_mine.py", HELPER.format("CLOSED"), "{folder}/helper_of_mine.py has changed", "CLOSED"),
    "an exception in the imported module": ("helper_of_mine.py", "1 / 0", "line 1: ZeroDivisionError", "closed"),
    "the import is removed": ("main_rules.py", "", 'unknown predicate "Helper"', "closed"),
})
def test_edits_with_rules_in_an_imported_module(file, text, message, reason, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sys, "path", [*sys.path])  # the folder is added to it
    path, rules = own(tmp_path)
    policy_file = PolicyFile(path, "my-scheduler", [rules])

    def reasons():
        """Return the current reasons of the rule."""
        rule = next(rule for rule in policy_file.reload_if_changed()["my-scheduler"].predicates if rule.name == "Helper")
        return [*rule.function(None, None)]

    try:
        assert reasons() == reasons() == ["closed"]
        caplog.clear()
        before = (tmp_path / file).read_text()
        (tmp_path / file).write_text(text.format(before) if file == "policy.json" else text)
        assert reasons() == reasons() == [reason]
        *_, line = caplog.messages
        assert message.format(policy=path, folder=tmp_path) in line
        names = [rule.name for rule in rules_in(rules)]
        assert sorted(names) == ["Helper", "HostName"] and "Helper" in PREDICATES, "even if loading has failed"
        caplog.clear()
        (tmp_path / file).write_text(before + "\n")
        assert reasons() == ["closed"] and "stays" not in caplog.text, "the edit is reverted"
    finally:
        unplug()
    assert "helper_of_mine" not in sys.modules and "Helper" not in PREDICATES


def test_rules_in_an_imported_module_are_available_to_each_compared_policy(tmp_path):
    path, rules = own(tmp_path)
    run = run_scheduler("--cluster", DEMO, "--plugins", rules, "--policy", path, "--compare", path)
    assert run.returncode == 0 and "0 of 8 pods land elsewhere" in run.stdout, run
