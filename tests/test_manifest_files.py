"""scheduler.py --cluster FILE: the manifests, the output, and the errors for files that cannot be read."""

import json
import re

import yaml

from helpers.script import ROOT, TESTS, node, pod, policy, run, scheduler, table


DEMO = """\
default/web-1 -> node-b  (2 of 5 nodes fit, score 290)
default/web-2 -> node-b  (2 of 5 nodes fit, score 283)
default/cache -> node-a  (1 of 5 nodes fit, score 227)
default/report -> node-a  (2 of 5 nodes fit, score 419)
default/training -> node-gpu  (1 of 5 nodes fit, score 268)
default/ingress-1 -> node-b  (2 of 5 nodes fit, score 282)
default/ingress-2 -> node-a  (1 of 5 nodes fit, score 216)
default/warehouse stays pending: 0/5 nodes are available: 1 Insufficient memory, 1 node(s) had taint {gpu: true}, that the \
pod didn't tolerate, 1 node(s) were unschedulable, 3 Insufficient cpu.
7 placed, 1 pending
"""


def test_the_demo_prints_its_decisions_and_a_summary():
    demo = run("--cluster", TESTS / "demo.yaml")
    assert (demo.stdout, demo.stderr, demo.returncode) == (DEMO, "", 0)


def text_of(*objects):
    """Return objects as the documents of a YAML file."""
    return yaml.safe_dump_all(objects)


def schedule(folder, *texts, policy_text=None):
    """Run the script on files with these texts."""
    paths = [folder / f"{number}.yaml" for number in range(len(texts))]
    for path, text in zip(paths, texts):
        path.write_text(text)
    (folder / "policy.json").write_text(json.dumps(policy_text or policy(["PodFitsResources", "PodFitsHostPorts", "MatchNodeSelector"])))
    return run("--policy", folder / "policy.json", "--cluster", *paths)


def placements(run):
    """Return the placements that a run printed: {namespace/name: node}."""
    return dict(re.findall(r"^(\S+) -> (\S+) ", run.stdout, re.M))


WEB_ON_A = {"default/web": "a"}


@table("texts, expected", {
    "several documents in a file": ([text_of(node("a"), pod("web"))], WEB_ON_A),
    "several files": ([text_of(node("a")), text_of(pod("web"))], WEB_ON_A),
    "a List, as kubectl get -o json prints": ([json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("a"), pod("web")]})], WEB_ON_A),
    "an empty document": (["---\n---\n" + text_of(node("a"), pod("web"))], WEB_ON_A),
    "no namespace means default": ([text_of(node("a"), {**pod("web"), "metadata": {"name": "web"}})], WEB_ON_A),
    "a pod that has ended takes no room": (
        [text_of(node("a", cpu="1"), pod("old", {"cpu": "1"}, nodeName="a") | {"status": {"phase": "Succeeded"}}, pod("web", {"cpu": "1"}))], WEB_ON_A),
    "a pod on a node takes room": ([text_of(node("a", cpu="1"), node("b"), pod("old", {"cpu": "1"}, nodeName="a"), pod("web", {"cpu": "1"}))], {"default/web": "b"}),
    "pods are tried in the order of the files": ([text_of(node("a", cpu="1"), pod("web", {"cpu": "1"}), pod("before", {"cpu": "1"}))], WEB_ON_A),
    "pods with a creationTimestamp of null keep that order": (
        [text_of(node("a", cpu="1"), *(pod(name, {"cpu": "1"}, metadata={"creationTimestamp": None}) for name in ("web", "before")))], WEB_ON_A),
    "Lists in a List, and an empty one": ([json.dumps({"kind": "List", "items": [{"kind": "List", "items": [node("a")]}, {"kind": "List"}, pod("web")]})], WEB_ON_A),
    "a byte order mark and Windows line endings": (["\ufeff" + text_of(node("a"), pod("web")).replace("\n", "\r\n")], WEB_ON_A),
    "the pod of the highest priority goes first": ([text_of(node("a", cpu="1"), pod("before", {"cpu": "1"}), pod("web", {"cpu": "1"}, priority=1))], WEB_ON_A),
    "a node without allocatable uses its capacity": (
        [text_of({**node("a"), "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}, pod("web", {"cpu": "4"}))], WEB_ON_A),
    "limits are the default for requests": ([text_of(
        node("a", cpu="1"), node("b", cpu="2"), pod("web", containers=[{"name": "main", "resources": {"limits": {"cpu": "2"}}}]))], {"default/web": "b"}),
    "the containerPorts of a host network pod are host ports": ([text_of(
        node("a"), *(pod(name, hostNetwork=True, containers=[{"name": "main", "ports": [{"containerPort": 80}]}]) for name in ("web", "other")))], WEB_ON_A),
})
def test_manifests_are_read(tmp_path, texts, expected):
    done = schedule(tmp_path, *texts)
    assert (placements(done), done.stderr, done.returncode) == (expected, "", 0)


@table("thing", {
    "another scheduler": pod("web", schedulerName="another"),
    "no scheduler": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "main"}]}}})
def test_a_warning_is_logged_if_no_pod_names_this_scheduler(tmp_path, thing):
    done = schedule(tmp_path, text_of(node("a"), thing))
    assert done.stdout == "0 placed, 0 pending\n" and done.returncode == 0
    assert done.stderr == "no pods to schedule for my-scheduler; check the pods' spec.schedulerName\n"


def test_slow_rules_do_not_end_a_pass_early_with_manifests(tmp_path):
    text = (ROOT / "scheduler.py").read_text().replace("monotonic()", "monotonic() * 1e6")
    (tmp_path / "scheduler.py").write_text(text)
    (tmp_path / "policy.json").write_text((ROOT / "policy.json").read_text())
    assert run("--cluster", TESTS / "demo.yaml", script=tmp_path / "scheduler.py").stdout == DEMO


@table("text, line", {
    "an object without a kind": (text_of({"apiVersion": "v1"}), "ignored: an object without a kind; "),
    "a Node of another API group": (text_of({**node("a"), "apiVersion": "longhorn.io/v1beta2"}), "ignored: Node; "),
    "other kinds, each named once": (text_of(*({"apiVersion": "apps/v1", "kind": kind} for kind in ("Deployment", "Service", "Deployment"))),
                               "ignored: Deployment, Service; "),
})
def test_other_kinds_are_logged_as_ignored(tmp_path, text, line):
    done = schedule(tmp_path, text, text_of(node("a"), pod("web")))
    assert placements(done) == WEB_ON_A and done.returncode == 0
    [logged] = done.stderr.splitlines()
    assert logged.startswith(f"{line}scheduler.py reads v1 Nodes and Pods")


@table("text, problem", {
    "a quantity with a typo": (text_of(pod("web", {"memory": "512MB"})),
                               'Pod web cannot be read: "512MB" is not a quantity such as 100m, 0.5 or 1.5Gi'),
    "a quantity with two decimal points": (text_of(pod("web", {"cpu": "1.2.3"})), 'Pod web cannot be read: "1.2.3" is not a quantity .*'),
    "a name that YAML reads as a number": (text_of({**pod("web"), "metadata": {"name": 1}}),
                                           "Pod 1 cannot be read: name: expected a string, got 1; put it in quotes"),
    "a string in a List": (json.dumps({"kind": "List", "items": ["web"]}), "expected API objects, got web"),
    "a pod without containers": (text_of({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {}}),
                                 "Pod web cannot be read: 'containers' is missing"),
    "a pod without a name": (text_of({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": []}}),
                             "Pod None cannot be read: 'name' is missing"),
    "a label that YAML reads as a boolean": (text_of({**node("a"), "metadata": {"name": "a", "labels": {"gpu": True}}}),
                                             "Node a cannot be read: gpu: expected a string, got True; put it in quotes"),
    "a nodeSelector that YAML reads as a number": (text_of(pod("web", nodeSelector={"size": 1})),
                                                   "Pod web cannot be read: size: expected a string, got 1; put it in quotes"),
    "a taint without an effect": (text_of(node("a", taints=[{"key": "gpu"}])), "Node a cannot be read: 'effect' is missing"),
    "a document that is not an object": ("just a text", "expected API objects, got just a text"),
    "broken YAML": ("kind: [\n", "while parsing a flow node expected the node content, but found '<stream end>' in line 2, column 1.*"),
    "a YAML template": ("kind: {{ .Values.kind }}", "while constructing a mapping .*"),
})
def test_an_unreadable_file_gives_one_line_and_exit_code_2(tmp_path, text, problem):
    done = schedule(tmp_path, text_of(node("b")), text)
    assert (done.stdout, done.returncode) == ("", 2)
    [line] = done.stderr.splitlines()
    assert re.fullmatch(f"{re.escape(str(tmp_path / '1.yaml'))}: {problem}", line) or line == f"{tmp_path / '1.yaml'}: {problem}"


def test_a_missing_file_gives_one_line_and_exit_code_2():
    done = run("--cluster", "nowhere.yaml")
    assert (done.stderr, done.returncode) == ("nowhere.yaml: No such file or directory\n", 2)


@table("selector, expected", {
    "an empty selector": ("", True), "= with the value of the field": ("spec.nodeName=a", True), "= with another value": ("spec.nodeName=b", False),
    "!= with another value": ("spec.nodeName!=b", True), "a missing field is empty": ("status.phase=,spec.nodeName!=", True),
    "two requirements, of which one does not match": ("spec.nodeName=a,status.phase!=", False)})
def test_field_selectors(selector, expected):
    assert scheduler.is_selected(pod("web", nodeName="a"), selector) == expected


def test_the_shipped_policy_can_be_read():
    assert len(scheduler.read_policy(str(ROOT / "policy.json")).lines()) == 11
