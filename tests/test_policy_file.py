"""The Policy files that scheduler.py accepts, the rules that they select, and reloading after an edit."""

import gzip
import json
import logging
import re

import pytest

from helpers.script import ROOT, TESTS, policy, scheduler, table


SHIPPED = (ROOT / "policy.json").read_text()
GENERAL = ["PodFitsResources", "HostName", "PodFitsHostPorts", "MatchNodeSelector"]
TAINTS = "PodToleratesNodeTaints"


def lines(*predicates, priorities=()):
    """Return the lines of a Policy with these rules, including the two predicates that are always active."""
    return ["CheckNodeUnschedulable", *predicates, TAINTS, *priorities]


@table("text, expected", {
    "two predicates are always active": (policy(), lines()),
    "predicates run in the order of kube-scheduler, not of the file":
        (policy(["PodFitsResources", "HostName"]), lines("HostName", "PodFitsResources")),
    "a predicate that is named twice runs once": (policy(["HostName", "HostName"]), lines("HostName")),
    "GeneralPredicates stands for four predicates, with PodFitsResources first":
        (policy(["NoDiskConflict", "GeneralPredicates"]), lines(*GENERAL, "NoDiskConflict")),
    "GeneralPredicates and one of the four": (policy(["HostName", "GeneralPredicates"]), lines(*GENERAL)),
    "PodFitsPorts is PodFitsHostPorts": (policy(["PodFitsPorts"]), lines("PodFitsHostPorts")),
    "the five predicates that taints have replaced": (policy([
        "CheckNodeCondition", "CheckNodeMemoryPressure", "CheckNodeDiskPressure", "CheckNodePIDPressure",
        "PodToleratesNodeNoExecuteTaints"]), lines()),
    "priorities keep the order of the file": (
        policy(priorities=["NodeAffinityPriority", "LeastRequestedPriority"]),
        lines(priorities=["NodeAffinityPriority ×1", "LeastRequestedPriority ×1"])),
    "EqualPriority ranks nothing": (policy(priorities=["EqualPriority"]), lines()),
    "a priority that is named twice has the last weight": (
        policy() | {"priorities": [{"name": "RandomPriority", "weight": 2}, {"name": "RandomPriority", "weight": 3}]},
        lines(priorities=["RandomPriority ×3"])),
    "MostRequestedPriority": (
        policy(priorities=["MostRequestedPriority"]), lines(priorities=["MostRequestedPriority ×1"])),
    "alwaysCheckAllPredicates": (policy(alwaysCheckAllPredicates=True), [*lines(), "alwaysCheckAllPredicates"]),
    "the longer apiVersion": (policy() | {"apiVersion": "kubescheduler.config.k8s.io/v1"}, lines()),
    "no extenders": (policy(extenders=[]), lines()),
    "YAML, and JSON with tabs": ('kind: Policy\napiVersion: v1\npredicates: [\n\t{name: HostName}]\npriorities: []', lines("HostName")),
})
def test_a_policy_selects_the_rules(tmp_path, text, expected):
    path = tmp_path / "policy.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    assert scheduler.read_policy(str(path)).lines() == expected


def entry(where, **fields):
    """Return a Policy with one entry in a list."""
    return policy() | {where: [fields]}


NOT_HERE = r"scheduler.py has no {0}; python \S*scheduler_extras has: python \S*scheduler_extras.*"


@table("text, problem", {
    "no file": (None, "No such file or directory"),
    "an empty file": ("", "the file is empty"),
    "a list": ([], r"expected a Policy, got \[\]"),
    "broken YAML": ("{", "while parsing .*"),
    "nesting that is too deep": ("[" * 5000, ".*"),
    "bytes that are not UTF-8": (b"\xff\xfe\x00", "'utf-8' codec can't decode .*"),
    "no kind": ({"predicates": [], "priorities": []}, "expected kind Policy with apiVersion v1"),
    "another version": (policy() | {"apiVersion": "v2"}, "expected kind Policy with apiVersion v1"),
    "a field with a typo": (policy(predicats=[]), 'unknown field "predicats"; did you mean "predicates"?'),
    "a field in the wrong case": (policy(Predicates=[]), 'unknown field "Predicates"; did you mean "predicates"?'),
    "predicates that are not a list": (policy() | {"predicates": "HostName"}, "predicates: expected a list, got 'HostName'"),
    "alwaysCheckAllPredicates in quotes":
        (policy(alwaysCheckAllPredicates="no"), "alwaysCheckAllPredicates: expected true or false, got 'no'"),
    "an entry that is a string": (policy() | {"predicates": ["HostName"]},
                                r"predicates\[0\]: expected an entry with a name, such as {\"name\": \"CheckNodeUnschedulable\"}, got 'HostName'"),
    "an entry without a name": (entry("priorities", weight=1), r"priorities\[0\]: expected an entry with a name.*"),
    "a field of an entry with a typo":
        (entry("priorities", name="EqualPriority", wieght=1), r'priorities\[0\]: unknown field "wieght"; did you mean "weight"?'),
    "a predicate with a weight":
        (entry("predicates", name="HostName", weight=1), r'predicates\[0\]: unknown field "weight"; expected one of name'),
    "a predicate with a typo": (entry("predicates", name="PodFitsResource"),
                                r'predicates\[0\]: unknown predicate "PodFitsResource"; did you mean "PodFitsResources"?'),
    "a priority with a typo": (entry("priorities", name="LeastRequestPriority", weight=1),
                               r'priorities\[0\]: unknown priority "LeastRequestPriority"; did you mean "LeastRequestedPriority"?'),
    "a name that resembles no predicate": (entry("predicates", name="X"), r'predicates\[0\]: unknown predicate "X"; expected one of CheckNodeUnschedulable, .*'),
    **{f"a weight of {weight!r}": (
        entry("priorities", name="EqualPriority", weight=weight),
        r"priorities\[0\]: EqualPriority needs a weight, a whole number from 1 to 2147483647")
       for weight in (0, -1, 1.5, "1", True, None, 2**31)},
    "a priority without a weight": (entry("priorities", name="EqualPriority"), r"priorities\[0\]: EqualPriority needs a weight, .*"),
    "a rule of the second program": (entry("predicates", name="MatchInterPodAffinity"),
                                     r"predicates\[0\]: " + NOT_HERE.format("MatchInterPodAffinity")),
    "an argument": (entry("predicates", name="Mine", argument={"labelsPresence": {"labels": ["x"], "presence": True}}),
                    r"predicates\[0\]: " + NOT_HERE.format("argument")),
    "extenders": (policy(extenders=[{"urlPrefix": "http://127.0.0.1"}]), NOT_HERE.format("extenders")),
    "a missing list": ({"kind": "Policy", "apiVersion": "v1", "predicates": []},
                                r"priorities: expected a list, \[\] for none; " + NOT_HERE.format("defaults")),
    "a predicate among the priorities": (entry("priorities", name="GeneralPredicates", weight=1),
                                         r'priorities\[0\]: unknown priority "GeneralPredicates"; expected one of .*'),
    "a priority among the predicates": (entry("predicates", name="EqualPriority"),
                                        r'predicates\[0\]: unknown predicate "EqualPriority"; (did you mean|expected one of) .*'),
    "a KubeSchedulerConfiguration": ({"kind": "KubeSchedulerConfiguration", "apiVersion": "kubescheduler.config.k8s.io/v1"},
                                     NOT_HERE.format("KubeSchedulerConfiguration")),
})
def test_an_invalid_policy_gives_one_line(tmp_path, monkeypatch, text, problem):
    monkeypatch.setattr(scheduler.os.path, "isdir", lambda path: True)  # as if the folder of the second program existed
    path = tmp_path / "policy.json"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else (text if isinstance(text, str) else json.dumps(text)).encode())
    with pytest.raises(scheduler.InputError) as raised:
        scheduler.read_policy(str(path))
    assert re.fullmatch(f"{re.escape(str(path))}: {problem.replace('?', '[?]')}", str(raised.value)), raised.value


def test_the_error_for_a_provider_names_the_command_of_the_second_program(monkeypatch):
    monkeypatch.setattr(scheduler.os.path, "isdir", lambda path: True)
    with pytest.raises(scheduler.InputError, match=NOT_HERE.format("DefaultProvider")):
        scheduler.read_policy("DefaultProvider")


def test_without_the_second_program_the_error_names_no_command(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "EXTRAS", str(tmp_path / "scheduler_extras"))
    with pytest.raises(ValueError) as raised:
        scheduler.policy_of(policy(["MatchInterPodAffinity"]))
    assert str(raised.value) == "predicates[0]: scheduler.py has no MatchInterPodAffinity"


# Deliberate differences from kube-scheduler.
DIFFERENT = {
    "no-apiversion-gofieldname": "a file without apiVersion may be truncated",
    "removed-CheckNodeDiskPressure": "old Policies have this name of older versions",
    "removed-PodToleratesNodeNoExecuteTaints": "old Policies have this name of older versions"}
PLUGINS = {
    "CheckNodeUnschedulable": "NodeUnschedulable", "HostName": "NodeName", "PodFitsHostPorts": "NodePorts",
    "MatchNodeSelector": "NodeAffinity", "PodFitsResources": "NodeResourcesFit", "NoDiskConflict": "VolumeRestrictions",
    "PodToleratesNodeTaints": "TaintToleration"}
with gzip.open(TESTS / "golden" / "policy-cases.jsonl.gz", "rt") as recorded:
    CASES = {case["id"]: case for case in map(json.loads, recorded)}


@pytest.mark.parametrize("name", CASES)
def test_kube_scheduler_reads_the_policy_in_the_same_way(tmp_path, name):
    case = CASES[name]
    path = tmp_path / "policy.json"
    path.write_text(case["policy"])
    try:
        ours = scheduler.read_policy(str(path))
    except scheduler.InputError as error:
        if case["expect"]["accepted"] and name not in DIFFERENT:
            assert "scheduler.py has no" in str(error)
    else:
        assert case["expect"]["accepted"] == (name not in DIFFERENT)
        if name not in DIFFERENT:
            assert [PLUGINS[rule.name] for rule in ours.predicates] == case["expect"]["filters"]


@table("text, message", {
    "a predicate removed": (SHIPPED.replace('{"name": "MatchNodeSelector"},', ""), ["- MatchNodeSelector"]),
    "another weight": (SHIPPED.replace('"NodeAffinityPriority", "weight": 2', '"NodeAffinityPriority", "weight": 5'),
                       ["- NodeAffinityPriority ×2", "+ NodeAffinityPriority ×5"]),
    "another priority": (SHIPPED.replace("LeastRequested", "MostRequested"),
                         ["- LeastRequestedPriority ×1", "+ MostRequestedPriority ×1"]),
    "other white space": (SHIPPED.replace("\n", "\n\n"), []),
})
def test_each_edit_is_logged_and_takes_effect(tmp_path, caplog, text, message):
    path = tmp_path / "policy.json"
    path.write_text(SHIPPED)
    file = scheduler.PolicyFile(str(path))
    before = file.load().lines()
    caplog.set_level(logging.INFO)
    path.write_text(text)
    after = file.load().lines()
    file.load()
    assert caplog.messages == [f"{path}: {line}" for line in message]
    assert {f"- {line}" for line in before} - {f"- {line}" for line in after} == {line for line in message if line[0] == "-"}


def test_while_the_file_is_invalid_the_last_good_policy_stays(tmp_path, caplog):
    path = tmp_path / "policy.json"
    path.write_text(SHIPPED)
    file = scheduler.PolicyFile(str(path))
    good = file.load().lines()
    for text in (SHIPPED[:100], ""):
        path.write_text(text)
        assert file.load().lines() == file.load().lines() == good
    path.unlink()
    assert file.load().lines() == good
    assert len(caplog.messages) == 3 and all(line.endswith("; still using the last good Policy") for line in caplog.messages)
    path.write_text(SHIPPED)
    assert file.load().lines() == good
    assert caplog.messages[3:] == [f"{path}: the file is valid again"]
