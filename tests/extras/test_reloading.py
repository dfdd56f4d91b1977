"""Which files of --plugins are run again after an edit: a rule keeps what it remembers until its own code changes."""

import json
import sys

import pytest
from scheduler_extras.policy.own_rules import unplug
from scheduler_extras.policy.reloading import PolicyFile
from helpers.extras import table

RULE = """from scheduler import predicate
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
FILES = {"a.py": RULE.format(name="A", imports="shared_helper"), "b.py": RULE.format(name="B", imports="shared_helper"),
         "c.py": RULE.format(name="C", imports="helper_of_c"), "d.py": RULE.format(name="D", imports="not_there_yet"),
         "shared_helper.py": "import below_shared\n", "below_shared.py": "", "helper_of_c.py": "",
         "policy.json": json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": name} for name in "ABCD"]})}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which the folder is added
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    yield tmp_path
    unplug()


@table("edits, run_again", {
    "white space in the Policy": ({"policy.json": FILES["policy.json"] + "\n"}, ""),
    "the Policy has another rule": ({"policy.json": FILES["policy.json"].replace(
        '"D"}', '"D"}, {"name": "HostName"}')}, ""),
    "all files are written again as they were, as when a ConfigMap changes": (FILES, ""),
    "a file that imports nothing else": ({"d.py": FILES["d.py"] + "\n"}, "D"),
    "what a file imports": ({"helper_of_c.py": "changed = 1\n"}, "C"),
    "what two files import": ({"shared_helper.py": "import below_shared\nchanged = 1\n"}, "AB"),
    "what is imported by what two files import": ({"below_shared.py": "changed = 1\n"}, "AB"),
    "one of two files that share an import, as that is imported again": ({"a.py": FILES["a.py"] + "\n"}, "AB"),
    "what a file has imported if it is there, and now it is": ({"not_there_yet.py": ""}, "D"),
    "what no file imports": ({"other.py": ""}, ""),
    "a file that is broken: all stay as they were": ({"c.py": "1 / 0"}, ""),
})
def test_after_an_edit_only_the_rules_concerned_begin_anew(edits, run_again, folder):
    file = PolicyFile(folder / "policy.json", "my-scheduler", [folder / f"{name}.py" for name in "abcd"])

    def counts():
        """How often each rule has been called since its file ran."""
        return {rule.name: next(rule.function(None, None)) for rule in file.current()["my-scheduler"].predicates
                if rule.name in "ABCD"}

    assert counts() == dict.fromkeys("ABCD", "1")
    for name, text in edits.items():
        (folder / name).write_text(text)
    assert counts() == {name: "1" if name in run_again else "2" for name in "ABCD"}


def test_a_file_that_was_broken_is_run_once_it_is_mended_though_the_policy_was_edited_meanwhile(folder):
    file = PolicyFile(folder / "policy.json", "my-scheduler", [folder / f"{name}.py" for name in "abcd"])
    (folder / "c.py").write_text("1 / 0")
    file.current()
    (folder / "policy.json").write_text(FILES["policy.json"] + "\n")
    file.current()
    (folder / "c.py").write_text(FILES["c.py"].replace("str(len(calls))", "'mended'"))
    [rule] = [rule for rule in file.current()["my-scheduler"].predicates if rule.name == "C"]
    assert [*rule.function(None, None)] == ["mended"]
