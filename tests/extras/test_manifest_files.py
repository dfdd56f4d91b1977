"""Formats of manifests: folders, Lists, dumps, YAML and JSON."""

import json
import os
import re
import stat
import subprocess
import textwrap

import yaml

from helpers.extras import node, pod, run_scheduler, table
from helpers.manifests import placed
from scheduler_extras.reading.json_and_yaml import parse


NODE, POD = node("n1"), pod("p1")


NODES, PODS = {"kind": "NodeList", "apiVersion": "v1", "items": [NODE]}, {"kind": "PodList", "apiVersion": "v1", "items": [POD]}


LOG = '==== START logs for container c of pod default/p1 ====\n{"level": "info"}\nlistening: [\n==== END logs for container c of pod default/p1 ====\n'


BARE = [{name: thing[name] for name in ("metadata", "spec", "status") if name in thing} for thing in (NODE, POD)]


@table("text", {
    "JSON documents one after another": (json.dumps(NODES, indent=1) + "\n" + json.dumps(PODS, indent=1),),
    "... one per line": (json.dumps(NODE) + "\n" + json.dumps(POD) + "\n",),
    "... with --- between them": (json.dumps(NODE) + "\n---\n" + json.dumps(POD) + "\n",),
    "JSON, and YAML after it": (json.dumps(NODE, indent=1) + "\n---\n" + yaml.safe_dump(POD),),
    "JSON, and indented YAML after it": (json.dumps(NODE) + "\n---\n" + textwrap.indent(yaml.safe_dump(POD), "  "),),
    "JSON, and YAML on the line of --- after it": (json.dumps(NODE) + "\n--- " + yaml.safe_dump(POD, default_flow_style=True),),
    "JSON, and YAML in flow style after it": (json.dumps(NODE) + "\n---\n" + yaml.safe_dump(POD, default_flow_style=True),),
    "JSON twice, and YAML in flow style after it": (f"{json.dumps(NODE)}\n---\n{json.dumps(POD)}\n---\n{{kind: List, items: []}}\n",),
    "JSON, YAML in flow style, and JSON": (f"{json.dumps(NODE)}\n---\n{{kind: List, items: []}}\n---\n{json.dumps(POD)}",),
    "a comment between JSON documents": (f"{json.dumps(NODE)}\n# of today\n{json.dumps(POD)}\n# that is all",),
    "YAML's end of a document between JSON documents": (f"{json.dumps(NODE)}\n...\n{json.dumps(POD)}\n...",),
    "--- at the end, without a newline": (json.dumps([NODE, POD]) + "\n---",),
    "an array": (json.dumps([NODE, POD]),),
    "a list whose items are null": (json.dumps([NODE, POD, {"kind": "EventList", "items": None}]),),
    "lists whose items have no kind": (json.dumps(NODES | {"items": BARE[:1]}) + json.dumps(PODS | {"items": BARE[1:]}),),
    "lists in an array": (json.dumps([NODES, PODS]),),
    "a list in YAML": (yaml.safe_dump([NODE, POD]),),
    "kubectl cluster-info dump": (json.dumps(NODES) + "\n" + json.dumps({"kind": "EventList", "items": []}) + "\n" + json.dumps(PODS) + "\n" + LOG,),
    "... with logs that end without a newline": (json.dumps(NODES) + json.dumps(PODS) + "\n" + LOG.replace("[\n", "==== END logs for ") + LOG,),
    "a List in a List": (json.dumps({"kind": "List", "items": [{"kind": "List", "items": [NODE]}, POD]}),),
    "Windows line endings, and a byte order mark": ("\ufeff" + json.dumps(NODE) + "\r\n" + json.dumps(POD) + "\r\n",),
    "UTF-16, as PowerShell writes": ((json.dumps(NODE) + "\r\n" + json.dumps(POD)).encode("utf-16"),),
    "an export of kube-scheduler-simulator": (yaml.safe_dump({
        "pods": BARE[1:], "nodes": BARE[:1], "pvs": [], "pvcs": None, "schedulerConfig": {"kind": "KubeSchedulerConfiguration"}}),),
    "an export of its first versions": (json.dumps({"podList": BARE[1:], "nodeList": BARE[:1], "pvList": [], "schedulerConfig": None}),),
})
def test_formats_of_kubectl_and_other_tools_are_read(text):
    run = run_scheduler("--cluster", "-", input=text[0])
    assert (run.returncode, run.stderr) == (0, "") and run.stdout.startswith("default/p1 -> n1 ")


def test_the_manifests_in_a_folder_are_read(tmp_path):
    """Subfolders are read, too, as from `kubectl cluster-info dump`. Hidden copies, as in a ConfigMap's volume, are not."""
    for name, content in {"a.json": json.dumps(NODES), "b.yaml": yaml.safe_dump(POD), "default/c.yml": yaml.safe_dump(pod("p2")),
                          "README.md": "nothing: [", "default/web/logs.txt": "nothing: [", "..2024/b.yaml": yaml.safe_dump(POD)}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(content)
    run = run_scheduler("--cluster", tmp_path)
    assert run.stderr == "" and re.findall(r"^default/(\w+) -> n1 ", run.stdout, re.M) == ["p1", "p2"]
    (tmp_path / "e.yaml").write_text("a: b: c")
    assert run_scheduler("--cluster", tmp_path).stderr.startswith(f"{tmp_path}/e.yaml: line 1: ")
    (tmp_path / "empty").mkdir()
    assert run_scheduler("--cluster", tmp_path / "empty").stderr == (
        f"{tmp_path}/empty: there is no file .yaml, .yml, .json in this folder\n")


@table("make", {
    "a named pipe": os.mkfifo,
    "a socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "a folder": os.mkdir,
    "a link to a folder": lambda path: path.symlink_to("/"),
})
def test_an_entry_of_a_folder_that_is_not_a_regular_file_is_skipped(make, tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([NODE, POD]))
    make(tmp_path / "b.yaml")
    run = run_scheduler("--cluster", tmp_path, timeout=20)
    assert (run.returncode, run.stderr) == (0, "") and run.stdout.startswith("default/p1 -> n1 ")


def test_a_broken_link_in_a_folder_is_an_error(tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([NODE, POD]))
    (tmp_path / "b.yaml").symlink_to("nowhere.yaml")
    run = run_scheduler("--cluster", tmp_path)
    assert (run.returncode, run.stderr) == (1, f"{tmp_path}/b.yaml: No such file or directory; this file is skipped\n")


@table("options, names_a_folder", {"to standard output": ([], False), "to a folder": (["--output-directory"], True), "as YAML": (["--output=yaml"], False)})
def test_a_dump_of_kubectl_is_read(options, names_a_folder, control_plane, tmp_path):
    control_plane.create(node("a"), pod("there", nodeName="a"), pod("p"))
    options = [*options, *[tmp_path / "dump"] * names_a_folder]
    dump = subprocess.run([control_plane.assets / "kubectl", "--kubeconfig", control_plane.kubeconfig(), "cluster-info", "dump", "-A", *options],
                          capture_output=True, text=True)
    assert dump.returncode == 0, dump.stderr
    run = run_scheduler("--cluster", tmp_path / "dump" if names_a_folder else "-", input=dump.stdout)
    assert (run.returncode, run.stderr) == (0, "") and "default/p -> a " in run.stdout and "+p, there" in run.stdout


def test_pods_with_generate_name_get_different_names():
    prefixed = [pod("x", metadata={"name": None, "generateName": "job-"}) for _ in range(3)]
    decisions, message = placed(*prefixed)
    names = [key.removeprefix("default/") for key in decisions]
    assert message == "" and len(set(names)) == 3 and all(re.fullmatch("job-[a-z0-9]{5}", name) for name in names)


@table("text, message", {
    "words after a document": ('{"kind": "Node"}\nwords\n', "line 2: expected { or [, like the document before it: words"),
    "a mistake in the second document": (
        json.dumps(NODE) + '\n{"kind": "Pod",\n "metadata": {"name" "p"}}\n', """line 3: Expecting ':' delimiter: "metadata": {"name" "p"}}"""),
    "a mistake in YAML after JSON": ('{"kind": "Node"}\n---\na: b: c\n', "line 3: mapping values are not allowed in this context: a: b: c"),
    "a mistake in JSON after JSON": (
        '{"kind": "Node"}\n---\n{"kind": "Pod"\n "metadata": {}}', """line 4: did not find expected ',' or '}': "metadata": {}}"""),
    "YAML after JSON, without ---": ('{"kind": "Node"}\n...\na: 1\n', "line 3: expected { or [, like the document before it: a: 1"),
    "a duplicate key after JSON": ('{"kind": "Node"}\n---\n{"a": 1, "a": 2}', 'line 3: duplicate key "a": {"a": 1, "a": 2}'),
    "bytes that are not UTF-8": (b"\x80\x8b", "'utf-8' codec can't decode byte 0x80 in position 0: invalid start byte"),
    "a missing ---": (
        "apiVersion: v1\nmetadata: {name: a}\napiVersion: v1\n",
        'line 3: duplicate key "apiVersion"; if a second object begins here, the line --- is missing above it: apiVersion: v1'),
})
def test_an_error_quotes_the_line(text, message):
    run = run_scheduler("--cluster", "-", input=text)
    assert (run.returncode, run.stderr) == (2, f"-: {message}\n")


@table("text, value", {
    "a whole number with a point": ("1.0", 1),
    "a whole number with an exponent, as from Helm": ("1e+06", 1_000_000),
    "... with a point and an exponent": ("1.5e6", 1_500_000),
    "a small number with an exponent": ("25e-2", 0.25),
    "a number that is too large": ("5e12345", "5e12345"),
    "a uid that begins like a number": ("13e97971-3ad5-45cb", "13e97971-3ad5-45cb"),
    "a date": ("2024-01-02", "2024-01-02"),
    "a time": ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
    "a version that looks like a date": ("2024-99-99", "2024-99-99"),
    "a date as a key": ("{2024-01-02: x}", {"2024-01-02": "x"}),
    "base64": ("!!binary d2Vi", "web"),
    "an equals sign": ("=", "="),
    "two merges": ("[&a {x: 1}, &b {y: 2}, {<<: *a, <<: *b}]", [{"x": 1}, {"y": 2}, {"x": 1, "y": 2}]),
})
def test_yaml_values_are_read_as_by_kubectl(text, value):
    assert [*parse(f"a: {text}")] == [{"a": value}]


@table("document, is_shown", {
    "values of Helm": ({"scheduler": {"replicas": 2}}, True),
    "a Policy without its kind": ({"predicates": [], "rules": 1}, False),
    "a configuration without its kind": ({"profiles": []}, False),
    "an object without its kind": ({"apiVersion": "v1", "spec": {}}, False),
})
def test_the_hint_about_helm_values(document, is_shown, tmp_path):
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(document))
    run = run_scheduler("--policy", tmp_path / "policy.yaml", "--cluster", "/dev/null")
    assert run.returncode == 2 and ("Helm" in run.stderr) == is_shown
