"""Policies and manifests that cannot be read: one clear line is logged, and the last good Policy stays in force."""

import json
import os
import re

import pytest

from helpers.control_plane import wait_for
from helpers.extras import ROOT, node, pod, table
from helpers.faults import policy_file, run_limited
from helpers.faulty import ApiServer


def nested(levels, opening, core, closing):
    """A document with this many levels."""
    return opening * levels + core + closing * levels


CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
DIGITS = "9" * 400
UNREADABLE = {  # a sentence: a file that is neither a Policy nor a manifest
    "a list that contains itself": "kind: Policy\napiVersion: v1\npredicates: &a [*a]\n",
    "an object that contains itself": "kind: Policy\napiVersion: v1\npredicates: [&a {name: *a}]\n",
    "a document that contains itself": "&a\nkind: Policy\napiVersion: v1\npredicates: *a\n",
    "an object that is its own key": "&a {*a : b}\n",
    "lists within lists, 950 deep, in YAML": "a: " + nested(950, "[", "", "]"),
    "objects within objects, 950 deep, in JSON": '{"a": ' + nested(950, '{"a": ', "1", "}") + "}",
    "objects within objects, 100,000 deep, in JSON": nested(100000, '{"a": ', "1", "}"),
    "lists within lists, 100,000 deep, in JSON": '{"a": ' + nested(100000, "[", "", "]") + "}",
    "an empty whole number": 'a: !!int ""\n',
    "a whole number that is a word": 'a: !!int "two"\n',
    "an empty time": "a: !!timestamp\n",
    "an empty number": 'a: !!float ""\n',
    "an invalid boolean": 'a: !!bool "perhaps"\n',
    "an invalid date": 'a: !!timestamp "2024-13-41"\n',
    "bytes": "kind: !!binary aGVsbG8=\n",
    "bytes as a key": "!!binary aGVsbG8=: b\n",
    "a set": "a: !!set {b, c}\n",
    "pairs": "a: !!pairs [b: c, b: d]\n",
    "a Python object": "a: !!python/object/apply:os.system [echo ha]\n",
    "a list as a key": "? [a, b]\n: c\n",
    "a duplicate key": "a: b\na: c\n",
    "a number of a million digits": "a: " + "9" * 1000000 + "\n",
    "a hexadecimal number of a million digits": "a: 0x" + "f" * 1000000 + "\n",
    "a number of a million digits, in JSON": '{"a": ' + "9" * 1000000 + "}",
    "lists within lists, 200,000 deep, in YAML": "a: " + "[" * 200000,
    "lists within lists, 200,000 deep, in blocks": "- " * 200000 + "a\n",
    "aliases of aliases": "\n".join(["a0: &a0 [b]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]"
                                                     for i in range(1, 12))]),
    "many aliases of a long text": f"a: &a {'b' * 1000000}\nc: [{', '.join(['*a'] * 1000)}]\n",
    "many keys with a duplicate at the end, in JSON": "{" + "".join(f'"{i}": 1, ' for i in range(100000)) + '"99999": 1}',
    "lists within lists, 50,000 deep and closed, in YAML": "a: " + nested(50000, "[", "", "]"),
    "merges of merges": "a0: &a0 {b: c}\n" + "".join(
        f"a{i}: &a{i}\n  <<: [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)),
    "a number in base 60": "a: 1" + ":59" * 100000 + "\n",
    "bytes that are not UTF-8": b"\xff\xfe\x00\xd8kind\x00",
    "NULs": b"\x00" * 1000,
    "control characters": "kind: \x1b]0;owned\x07\n",
    "a file that is cut off": '{"kind": "Policy", "apiVersion": "v1", "predicates": [{"na',
    "only a string": "Policy",
    "only a number": "7",
}
BAD_POLICIES = UNREADABLE | {
    "a weight of 400 digits": json.dumps({"kind": "Policy", "apiVersion": "v1", "priorities": [
        {"name": "EqualPriority", "weight": int(DIGITS)}]}),
    "an infinite weight": '{"kind": "Policy", "apiVersion": "v1", "priorities": '
                                 '[{"name": "EqualPriority", "weight": 1e999}]}',
    "an extender's timeout of 400 digits": json.dumps({"kind": "Policy", "apiVersion": "v1", "extenders": [
        {"urlPrefix": "http://127.0.0.1", "filterVerb": "f", "httpTimeout": int(DIGITS)}]}),
    "an extender's duration of 400 digits": CONFIG + "extenders: [{urlPrefix: 'http://127.0.0.1', filterVerb: f, "
                                                     f"httpTimeout: {DIGITS}s}}]\n",
    "a Lease of 400 digits": CONFIG + f"leaderElection: {{leaderElect: true, leaseDuration: {DIGITS}h}}\n",
    "a Lease of 200 digits": CONFIG + f"leaderElection: {{leaderElect: true, leaseDuration: {'9' * 200}h}}\n",
    "an apiVersion that is an object": "kind: KubeSchedulerConfiguration\napiVersion: {a: b}\n",
    "a profile whose name is a list": CONFIG + "profiles: [{schedulerName: [a]}]\n",
}


def write(path, content):
    """Replace a file at once, as editors do."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content if isinstance(content, bytes) else content.encode())
    fresh.replace(path)


@table("content", {name: (content,) for name, content in BAD_POLICIES.items()})
def test_an_unreadable_policy_gives_one_line_and_exit_code_2(content, tmp_path):
    path = tmp_path / "policy.yaml"
    write(path, content[0])
    code, out, err, seconds = run_limited("--policy", path, "--cluster", "/dev/null")
    assert (code, out) == (2, ""), f"exit code {code}: {err[-300:]}"
    lines = err.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"{path}: "), err[-300:]
    assert len(lines[0]) < 500, f"a line of {len(lines[0])} characters"
    assert seconds < 10, f"{seconds:.1f} s of CPU"


@table("content", {name: (content,) for name, content in UNREADABLE.items()})
def test_an_unreadable_manifest_gives_one_line(content, tmp_path):
    path = tmp_path / "manifest.yaml"
    write(path, content[0])
    code, out, err, seconds = run_limited("--cluster", path, "--output=json")
    lines = [line for line in err.splitlines() if "there is no Node" not in line]
    assert len(lines) == 1 and lines[0].startswith(f"{path}: "), err[-300:]
    assert code in (0, 2) and out == "", f"exit code {code}"
    assert len(lines[0]) < 500, f"a line of {len(lines[0])} characters"
    assert seconds < 10, f"{seconds:.1f} s of CPU"


@table("text, message", {
    "an ephemeral volume without a name": (
        pod("p", volumes=[{"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]), r"\bp\b"),
    "a quantity of 400 digits": (pod("p", {"cpu": DIGITS}), "Insufficient cpu"),
    "a name that cannot be encoded": (pod("p-\ud800"), "is skipped"),
})
def test_an_odd_pod_in_a_manifest_is_named_and_other_pods_are_placed(text, message, tmp_path):
    (tmp_path / "m.json").write_text(json.dumps({"kind": "List", "items": [node("n"), text, pod("fine")]}))
    for policy in (ROOT / "policy.json", "DefaultProvider"):
        code, out, err, seconds = run_limited("--cluster", tmp_path / "m.json", "--policy", policy)
        assert code == ("is skipped" in err) and "default/fine -> n" in out, err[-300:]
        assert "Traceback" not in err and " in a rule" not in out + err, (out, err)
        assert re.search(message, err + out) and seconds < 2


def test_the_last_good_policy_stays_if_the_file_is_replaced_by_an_unreadable_one(serve, start, tmp_path):
    server = serve(ApiServer(node("n", pods="1000")))
    path = policy_file(tmp_path)
    running, wrong = start(server, "--policy", path, "--interval=0.1"), []
    server.create(pod("first"))
    wait_for("a pod is bound", lambda: server.placements())
    for number, (name, content) in enumerate(BAD_POLICIES.items()):
        before = len(running.err)
        write(path, content)
        try:
            wait_for("the error is logged", lambda before=before: "still using the last good Policy" in running.err[before:])
            server.create(pod(f"pod-{number}"))
            wait_for("another pod is bound", lambda number=number: f"default/pod-{number}" in server.placements())
            assert len(running.err[before:].splitlines()) == 1, "there is more than one line"
        except AssertionError as error:
            wrong.append(f"{name}: {str(error).splitlines()[0]}: {running.err[before:][-200:]}")
            running.kill()
            path = policy_file(tmp_path)
            running = start(server, "--policy", path, "--interval=0.1")
            wait_for("the program is running", lambda running=running: "watching" in running.err)
    assert not wrong, "\n".join(wrong)


HALF = "apiVersion: v1\nkind: Policy\npredicates:\n- name: MatchNodeSelector\n- name: HostName\npriorities: []\n"


@table("half", {
    "an empty file": ("",),
    "only white space": (" \n\n",),
    "a comment": ("# soon\n",),
    "null": ("null\n",),
    "three dashes": ("---\n",),
    "the first line": ("apiVersion: v1\n",),
    "a file that is cut off in a word": (HALF[:HALF.index("NodeSelector")],),
    "JSON that is cut off": ('{"kind": "Policy", "apiVersion": "v1", "predicates": [',),
    "a missing file": (None,),
})
def test_an_empty_or_incomplete_policy_changes_nothing(half, serve, start, tmp_path):
    server = serve(ApiServer(node("n")))
    path = tmp_path / "policy.yaml"
    path.write_text(HALF)
    running = start(server, "--policy", path, "--interval=0.1")
    server.create(pod("picky", nodeSelector={"disk": "ssd"}), pod("first"))
    wait_for("a pod is bound", lambda: server.placements())
    path.write_text(half[0]) if half[0] is not None else path.unlink()
    wait_for("the error is logged", lambda: "still using the last good Policy" in running.err)
    server.create(pod("large", {"cpu": "99"}), pod("last"))  # it fits, because the Policy does not check resources
    wait_for("the other pods are bound", lambda: server.placements().keys() == {"default/first", "default/last", "default/large"})
    assert not re.search(r": [-+] \w|without changes", running.err), f"the Policy has changed: {running.err}"


def becomes_a_pipe(path):
    """Replace the file by a named pipe without a writer."""
    path.unlink()
    os.mkfifo(path)


def becomes_a_device(path):
    """Replace the file by an endless device."""
    path.unlink()
    path.symlink_to("/dev/zero")


def becomes_huge(path):
    """Make the file a sparse one of 100 GB."""
    os.truncate(path, 100 * 10**9)


@table("becomes, message", {"a pipe": (becomes_a_pipe, "it is no longer a regular file"), "a device": (becomes_a_device, "it is no longer a regular file"),
                         "huge": (becomes_huge, "it has more than 1048576 bytes")})
@pytest.mark.parametrize("name", ["policy.json", "rules.py"])
def test_the_last_good_policy_stays_if_a_file_becomes(becomes, message, name, serve, start, tmp_path):
    server = serve(ApiServer(node("n", pods="1000")))
    (tmp_path / "rules.py").write_text("from scheduler import predicate\n\n@predicate('Mine')\ndef mine(pod, node):\n    return []\n")
    rules = json.loads((ROOT / "policy.json").read_text())
    policy_file(tmp_path, predicates=[*rules["predicates"], {"name": "Mine"}])
    running = start(server, "--policy", tmp_path / "policy.json", "--plugins", tmp_path / "rules.py", "--interval=0.1")
    server.create(pod("first"))
    wait_for("a pod is bound", lambda: server.placements())
    before, text = len(running.err), (tmp_path / name).read_text()
    becomes(tmp_path / name)
    wait_for("the error is logged", lambda: "still using the last good Policy" in running.err[before:])
    server.create(pod("second"))
    wait_for("another pod is bound", lambda: len(server.placements()) == 2)
    [line] = running.err[before:].splitlines()
    assert message in line
    (tmp_path / name).unlink()
    (tmp_path / name).write_text(text + "\n")
    wait_for("the file is reloaded", lambda: re.search("without changes|has changed", running.err[before:]))


@table("path", {"an endless device": "/dev/zero", "an empty device": "/dev/null"})
def test_at_the_start_an_unreadable_policy_gives_exit_code_2(path):
    code, _, err, _ = run_limited("--policy", path)
    assert code == 2 and len(err.splitlines()) == 1, err
