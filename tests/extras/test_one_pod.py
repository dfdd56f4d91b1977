"""--explain for one pod: the Policy that is used, the steps after the decision, and the pod's state."""

import json
import re

import pytest

from helpers.configuration import read_configuration
from helpers.control_plane import free_port
from helpers.explain import DEMO, REQUIRED, TERM, explained, manifest, policy, read_scores, shown, squeeze
from helpers.extras import MANDATORY_PREDICATES, ROOT, decide, node, pod, run_scheduler, table
from helpers.faulty import ApiServer, answering
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.show.explain import in_words
from scheduler_extras.show.report import in_json


@table("key, first", {
    "a pending pod with other pods before it": (
        "default/report", "is pending. After 3 other pods, with policy.json:"),
    "a pod without its namespace, which is default": ("report", "is pending. After 3 other pods, with policy.json:"),
    "the first pod of a run": ("web-1", "is pending. If scheduled now with policy.json:"),
    "a pod with a node": (
        "default/database",
        "is on node-a and belongs to default-scheduler. If scheduled now with the default profile of "
        "kube-scheduler 1.36:"),
    "a pod of another scheduler": ("default/foreign", "belongs to other-scheduler. If scheduled now with policy.json:"),
    "a pod of the default scheduler, with its rules": (
        "default/plain",
        "belongs to default-scheduler. If scheduled now with the default profile of "
        "kube-scheduler 1.36:"),
    "a pod whose scheduler's name is a typo of ours": (
        "default/slip", "names my-sheduler (did you mean my-scheduler?). If scheduled now with policy.json:"),
    "a pod with scheduling gates": ("default/gated", "has scheduling gates (quota). If scheduled now with policy.json:"),
})
def test_the_first_line_has_the_pods_state_and_the_policy(key, first, tmp_path):
    run_one = explain_one(tmp_path, key)
    assert run_one.returncode == 0, run_one.stderr
    key = f"default/{key.removeprefix('default/')}"
    assert " ".join(run_one.stdout.split()).startswith(f"{key} {first} {key} ")


def test_a_given_policy_is_used_for_any_pod(tmp_path):
    run = explain_one(tmp_path, "default/plain", "--policy", "policy.json")
    assert run.stdout.startswith(
        "default/plain belongs to default-scheduler. If scheduled now with policy.json:\n")


@table("fields, what, rule", {
    "resources": ({"requests": {"cpu": "1"}}, "resource requests", "PodFitsResources"),
    "host ports": ({"containers": [{"ports": [{"hostPort": 80}]}]}, "host ports", "PodFitsHostPorts"),
    "a node selector": ({"nodeSelector": {"disk": "ssd"}}, "a node selector", "MatchNodeSelector"),
    "node affinity": (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}}, "required node affinity",
        "MatchNodeSelector"),
    "a disk": ({"volumes": [{"name": "v", "iscsi": {"iqn": "x"}}]}, "a network disk", "NoDiskConflict"),
    "a claim": ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]}, "claims",
                "CheckVolumeBinding"),
    "a spread constraint": ({"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}, "required spreading",
                     "EvenPodsSpread"),
    "pod affinity": ({"affinity": {"podAffinity": {REQUIRED: [TERM]}}}, "required pod affinity", "MatchInterPodAffinity"),
    "pod anti-affinity": ({"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}}, "required pod anti-affinity",
                    "MatchInterPodAffinity"),
})
def test_unchecked_fields_are_explained_for_each_pod_and_logged_once(fields, what, rule, tmp_path):
    path = manifest(tmp_path, node("a"), pod("p", **fields), pod("q", **fields))
    always = [{"name": name} for name in MANDATORY_PREDICATES]
    (tmp_path / "none.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "predicates": always, "priorities": []}))
    run = run_scheduler("--cluster", path, "--policy", tmp_path / "none.json")
    message = f"has {what}, and {rule}, which looks at that, is not active"
    assert run.stderr == f"default/p is placed, though it {message}\n"
    lines = explained("--cluster", path, "--policy", tmp_path / "none.json")
    assert [f"!{key}{squeeze(message)}" in squeeze("".join(lines[key])) for key in ("default/p", "default/q")] == [True] * 2
    (tmp_path / "one.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "predicates": [{"name": rule}], "priorities": []}))
    assert "! " not in run_scheduler("--cluster", path, "--policy", tmp_path / "one.json", "--explain").stdout


@table("spec", {
    "a label value that equals a keyword of constraints": ({"topologySpreadConstraints": [{
        "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"rule": "DoNotSchedule"}}}]},),
    "preferred affinity": ({"affinity": {"podAffinity": {f"preferred{DURING_SCHEDULING}": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": REQUIRED}}]}}},),
    "no required terms": ({"affinity": {"podAffinity": {REQUIRED: []}}},),
    "an invalid constraint": ({"topologySpreadConstraints": [7]},),
})
def test_optional_fields_are_not_reported_as_unchecked(spec):
    assert decide(policy(predicates=[], priorities=[]), pod("p", **spec[0]), node("a")).unchecked == []


def test_unchecked_taints_are_reported():
    [configured] = read_configuration({
        "kind": "KubeSchedulerConfiguration", "apiVersion": CONFIGURATION_VERSION, "profiles": [
            {"plugins": {"filter": {"disabled": [{"name": "TaintToleration"}]}}}]}, "my-scheduler").values()
    tainted = node("a", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    for tolerations, message in ([{"operator": "Exists"}], []), ([], [
            "has no toleration for taints there, and TaintToleration, which looks at that, is not active"]):
        decision = decide({"my-scheduler": configured}, pod("p", tolerations=tolerations), tainted)
        assert decision.unchecked == message


def test_the_rules_of_a_configuration_have_the_names_of_its_plugins(tmp_path):
    (tmp_path / "config.yaml").write_text(
        f"kind: KubeSchedulerConfiguration\napiVersion: {CONFIGURATION_VERSION}\n"
        "profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}]")
    lines = explained("--cluster", DEMO, "--policy", tmp_path / "config.yaml")
    assert {"NodeResourcesFit", "TaintToleration", "PodTopologySpread"} <= {
        row for cells in read_scores(lines["default/report"]).values() for row in cells}
    text = "\n".join(map("\n".join, lines.values()))
    assert "✗ node-old       NodeUnschedulable: node(s) were unschedulable" in text
    assert not re.search("[A-Z][A-Za-z]+Priority|PodFits|PodTolerates", text)


def explain_one(folder, key, *arguments):
    """Run --explain for one pod of the demo, which has a few more pods here."""
    manifest(folder, pod("foreign", schedulerName="other-scheduler"), pod("plain", schedulerName=""),
             pod("slip", schedulerName="my-sheduler"),
             pod("gated", schedulingGates=[{"name": "quota"}]))
    return run_scheduler("--cluster", DEMO, folder / "cluster.json", "--explain", key, *arguments,
                         cwd=ROOT)


def test_an_assigned_pod_is_explained_without_its_own_requests_and_ports(tmp_path):
    there = pod("there", {"cpu": "3"}, nodeName="a", containers=[
        {"name": "c", "image": "i", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "3"}}}])
    run = run_scheduler("--cluster", manifest(tmp_path, node("a"), there), "--explain", "there", "--output=json")
    assert json.loads(run.stdout)["node"] == "a"
    assert run_scheduler("--cluster", manifest(tmp_path, node("a"), there)).stderr.startswith("no pods to schedule")


def test_the_json_output_has_only_the_record_of_the_pod(tmp_path):
    run = explain_one(tmp_path, "default/training", "--output=json")
    assert json.loads(run.stdout)["pod"] == "default/training"
    assert json.loads(run.stdout)["node"] == "node-gpu"


def test_explain_a_pod_that_does_not_exist(tmp_path):
    run = explain_one(tmp_path, "kube-system/nobody")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.splitlines()[-1] == (
        'pod "kube-system/nobody" not found (expected NAMESPACE/NAME of a pod that has not ended; default/ may be omitted)')


def test_explain_a_pod_without_a_proxy():
    run = run_scheduler("--server", f"http://127.0.0.1:{free_port()}", "--explain", "web")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("cannot reach http://127.0.0.1:") and run.stderr.count("\n") == 1


def test_explain_on_the_control_plane_binds_and_writes_nothing(control_plane):
    control_plane.create(node("a"), node("b", unschedulable=True), pod("mine"), pod("theirs", schedulerName="other"),
                         pod("bound"))
    control_plane.bind("bound", "a")
    before = control_plane.pods()
    for name, message in {"mine": "default/mine is pending. If", "bound": "default/bound is on a. If",
                       "theirs": "default/theirs belongs to other. If"}.items():
        run = run_scheduler("--server", control_plane.server, "--explain", f"default/{name}")
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.startswith(message)
        assert re.search("^  ✗ b +CheckNodeUnschedulable: ", run.stdout, re.M)
    run = run_scheduler("--server", control_plane.server, "--explain", "default/mine", "--output=json")
    assert json.loads(run.stdout)["node"] == "a"
    assert control_plane.pods() == before
    assert control_plane.get("events")["items"] == []


def test_a_rejection_for_all_nodes_is_marked():
    claims = pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}])
    assert shown(decide(policy(), claims, node("a", unschedulable=True)))[2:] == [
        '  ✗ a  CheckVolumeBinding (whatever the node): persistentvolumeclaim "none" not',
        "       found", ""]


def test_without_nodes_with_several_reasons_there_is_no_line_about_them():
    lines = shown(decide(policy(), pod("p", {"cpu": "2"}), node("a", cpu="1", unschedulable=True), node("b", cpu="1")))
    assert lines[0].endswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s)") and lines[2].startswith("  ✗ ")


def test_all_failing_predicates_are_shown_with_always_check_all_predicates():
    lines = shown(decide(policy(alwaysCheckAllPredicates=True), pod("p", {"cpu": "2"}),
                         node("a", cpu="1", unschedulable=True), node("b", cpu="1"), node("c", cpu="1")))
    assert lines[2] == "  Some nodes have more than one reason, so the numbers add up to 4."
    assert lines[3:] == ["  ✗ 2 nodes  PodFitsResources: Insufficient cpu",
                         "             b (requests cpu 2000m, free 1000m), c (requests cpu 2000m, free",
                         "             1000m)",
                         "  ✗ a        CheckNodeUnschedulable: node(s) were unschedulable",
                         "             PodFitsResources: Insufficient cpu",
                         "             a (requests cpu 2000m, free 1000m)", ""]


def waiting_pod(**more):
    """A pod with a condition of another process, which has placed it but not bound it yet."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Waiting", "message": "Gang does not permit the binding to a yet"}
    return pod("p", status={"conditions": [condition | more]})


@table("objects, message", {
    "its condition has the reason Waiting": ([waiting_pod()], "waits: Gang does not permit the binding to a yet"),
    "its condition has the reason Unschedulable": ([waiting_pod(reason="Unschedulable")], "is pending"),
})
def test_a_pod_that_another_process_has_placed_is_shown_as_waiting(objects, message, tmp_path):
    path = manifest(tmp_path, node("a"), node("b"), *objects)
    run = run_scheduler("--cluster", path, "--explain", "p")
    assert " ".join(run.stdout.split()).startswith(f"default/p {message}. If scheduled now with policy.json: ")


def test_a_waiting_pod_is_shown_as_waiting():
    decision = decide(policy(), pod("p"), node("a"))
    assert in_words(decision).endswith(")") and in_json(decision)["waits"] == ""
    decision.why_delayed = "volumes are being bound or provisioned on a"
    assert in_words(decision).endswith(") waits: volumes are being bound or provisioned on a")
    assert in_json(decision)["waits"] == "volumes are being bound or provisioned on a"


def test_a_pod_that_a_rule_holds_waits_for_that_rule(tmp_path):
    path = manifest(tmp_path, node("a"), pod("p", labels={"group": "crew", "group-size": "2"}))
    (tmp_path / "policy.json").write_text(
        '{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Coscheduling"}], "priorities": []}')
    arguments = ["--cluster", path, "--plugins", ROOT / "scheduler_extras" / "examples" / "tutorial_rules.py", "--policy", tmp_path / "policy.json"]
    waits = "Coscheduling does not permit the binding to a yet: 1 of 2 pods of group crew have a node"
    assert f" waits: {waits}\n" in run_scheduler(*arguments).stdout
    assert f"waits: {waits}" in " ".join(run_scheduler(*arguments, "--explain").stdout.split())
    run = run_scheduler(*arguments, "--output=json")
    assert json.loads(run.stdout)["waits"] == waits


WHAT_FOLLOWS = """
from scheduler import predicate
from scheduler_extras import Unschedulable

def reserve(pod, node, snapshot):
    print("reserve", pod.name, "on", node.name)

def unreserve(pod, snapshot):
    print("unreserve", pod.name)
    return [("PATCH", "/api/v1/namespaces/default/pods/p", {})]

def permit(pod, node, snapshot):
    if "denied" in pod.labels:
        raise Unschedulable("not on a Monday")
    return (30, "1 of 2 pods") if "held" in pod.labels else None

def pre_bind(pod, node, snapshot):
    if "broken" in pod.labels:
        return 1 / 0
    if "awaited" in pod.labels:
        return [], "it comes"
    return ([("PATCH", "/api/v1/namespaces/default/pods/p", {})], "it is to be seen") if "prepared" in pod.labels else None

@predicate("Mine", reserve=reserve, unreserve=unreserve, permit=permit, pre_bind=pre_bind)
def mine(pod, node):
    return []
"""


@table("label, decided", {
    "all hooks agree": ("x", "-> a (1 of 1 nodes fit, score 1)"),
    "permit rejects the pod": ("denied", 'stays pending: rejected pod "p" by permit plugin "Mine": not on a Monday'),
    "permit holds the pod": (
        "held", "-> a (1 of 1 nodes fit, score 1) waits: Mine does not permit the binding to a yet: 1 of 2 pods"),
    "pre_bind sends a request": (
        "prepared", "-> a (1 of 1 nodes fit, score 1) waits: Mine prepares the binding to a: it is to be seen"),
    "pre_bind waits": (
        "awaited", "-> a (1 of 1 nodes fit, score 1) waits: Mine prepares the binding to a: it comes"),
    "pre_bind raises an exception": ("broken", "stays pending: ZeroDivisionError in pre_bind: division by zero (Mine: rules.py, line 19), about node a"),
})
@pytest.mark.parametrize("source", ["manifests", "a cluster"])
def test_explain_runs_the_hooks_before_the_binding(label, decided, source, tmp_path):
    (tmp_path / "rules.py").write_text(WHAT_FOLLOWS)
    (tmp_path / "policy.json").write_text(json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": [
        {"name": "Mine"}], "priorities": []}))
    things = node("a"), pod("p", labels={label: "yes"})
    server = ApiServer(*things)
    try:
        place = ["--server", server.url] if source == "a cluster" else ["--cluster", manifest(tmp_path, *things)]
        run = run_scheduler(*place, "--plugins", tmp_path / "rules.py", "--policy", tmp_path / "policy.json", "--explain", "p")
        assert {asked.method for asked in server.asked} <= {"GET"} and server.placements() == {}, "nothing is sent"
    finally:
        server.stop()
    assert run.stdout.startswith("reserve p on a\n") and max(map(len, run.stdout.splitlines())) <= 80
    assert f"default/p {decided} " in " ".join(run.stdout.split()) + " "


@table("of", {"a pending pod": pod("p"), "a pod on its best node": pod("p", nodeName="a")})
def test_an_explained_pod_counts_once_on_its_node(of, tmp_path):
    (tmp_path / "rules.py").write_text(
        "from scheduler import predicate\n\n"
        "def permit(pod, node, snapshot):\n"
        "    return 30, f'{len(node.pods)} of {node.requested[\"cpu\"]}m'\n\n"
        "@predicate('Mine', permit=permit)\n"
        "def mine(pod, node):\n"
        "    return [] if not node.pods else ['it is there already']\n")
    (tmp_path / "policy.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Mine"}], "priorities": []}))
    of["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "300m"}}}]
    run = run_scheduler("--cluster", manifest(tmp_path, node("a"), of), "--plugins", tmp_path / "rules.py",
                        "--policy", tmp_path / "policy.json", "--explain", "p")
    assert "does not permit the binding to a yet: 1 of 300m" in " ".join(run.stdout.split()), run


@table("label, held", {"permit rejects the pod": ("denied", False), "permit holds the pod": ("held", True), "all hooks agree": ("x", False)})
def test_the_json_output_has_whether_a_pod_is_held(label, held, tmp_path):
    (tmp_path / "rules.py").write_text(WHAT_FOLLOWS)
    (tmp_path / "policy.json").write_text(json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": [
        {"name": "Mine"}], "priorities": []}))
    path = manifest(tmp_path, node("a"), pod("p", labels={label: "yes"}))
    run = run_scheduler("--cluster", path, "--plugins", tmp_path / "rules.py", "--policy", tmp_path / "policy.json",
                        "--output=json")
    assert json.loads(run.stdout.splitlines()[0])["held"] == held, run


@table("of, message", {
    "a pending pod": (pod("p"), "is pending"),
    "a pod with a node": (pod("p", nodeName="a"), "is on a"),
    "a pod of another scheduler": (pod("p", schedulerName="other"), "belongs to other"),
    "a pod with scheduling gates": (pod("p", schedulingGates=[{"name": "quota"}]), "has scheduling gates (quota)"),
    "a pod on a node that does not exist": (pod("p", nodeName="gone"), "is on gone (no such node)"),
    "a pod of another scheduler with a node": (pod("p", schedulerName="other", nodeName="a"), "is on a and belongs to other"),
    "a terminating pod": (
        pod("p", nodeName="a", metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"}),
        "is on a and is being deleted"),
    "a pod of another scheduler with scheduling gates": (
        pod("p", schedulerName="other", schedulingGates=[{"name": "quota"}]),
        "has scheduling gates (quota) and belongs to other"),
})
def test_the_heading_and_the_json_output_have_the_state_of_the_pod(of, message, tmp_path):
    path, sentence = manifest(tmp_path, node("a"), of), f"default/p {message}. If scheduled now with policy.json"
    run = run_scheduler("--cluster", path, "--explain", "p")
    assert " ".join(run.stdout.split()).startswith(f"{sentence}: "), run
    run = run_scheduler("--cluster", path, "--explain", "p", "--output=json")
    assert json.loads(run.stdout)["stands"] == sentence


def test_the_waiting_condition_of_another_process_is_shown(control_plane):
    control_plane.create(node("a"), pod("p"))
    [waiting] = waiting_pod()["status"]["conditions"]
    control_plane.request("PATCH", "namespaces/default/pods/p/status", {"status": {"conditions": [waiting]}},
                          headers={"Content-Type": "application/strategic-merge-patch+json"})
    run = run_scheduler("--server", control_plane.server, "--explain", "p")
    assert "default/p waits: Gang does not permit the binding to a yet. If scheduled now" in run.stdout


OWN_RULE = "from scheduler import predicate\n\n@predicate('Mine')\ndef mine(pod, node):\n    return {}\n"


@table("rule, arguments, code", {
    "a rule that fails": ("1 / 0", [], 1),
    "a rule that returns None": ("None", [], 1),
    "one pod is explained": ("1 / 0", ["--explain", "p"], 1),
    "Policies are compared": ("1 / 0", ["--compare", ROOT / "policy.json"], 1),
    "a rule that finds no node": ("['closed']", [], 0),
    "a rule that accepts the node": ("[]", ["--explain", "p"], 0),
})
def test_a_failing_rule_gives_exit_code_1(rule, arguments, code, tmp_path):
    (tmp_path / "rules.py").write_text(OWN_RULE.format(rule))
    (tmp_path / "policy.json").write_text(
        '{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Mine"}], "priorities": []}')
    own = ["--plugins", tmp_path / "rules.py", "--policy", tmp_path / "policy.json"]
    run = run_scheduler("--cluster", manifest(tmp_path, node("a"), pod("p")), *own, *arguments)
    assert run.returncode == code and "Traceback" not in run.stderr, run
    server = ApiServer(node("a"), pod("p"))
    try:
        run = run_scheduler("--server", server.url, "--once", *own)
    finally:
        server.stop()
    assert run.returncode == code, run


def test_a_rejected_write_gives_exit_code_1():
    server = ApiServer(node("a"), pod("p"))
    server.faults["binding"] = answering(403)
    try:
        assert run_scheduler("--server", server.url, "--once").returncode == 1
    finally:
        server.stop()
