"""The table of nodes with their pods after a run on manifests, and the pods without a node."""

import json
import re

from helpers.command_line import pictured
from helpers.extras import ROOT, node, pod, run_scheduler, table
from helpers.manifests import limited


def test_pods_are_listed_below_their_node_and_new_ones_are_marked():
    nodes, below = pictured(node("n"), node("no-room", pods="0"), pod("old", {"cpu": "1"}, nodeName="n"),
                            pod("new", {"cpu": "2900m"}), pod("far", namespace="kube-system", nodeName="n"))
    assert nodes["n"][1] == ["+new", "kube-system/far", "old"] and nodes["no-room"][1] == below == []
    assert nodes["n"][0][0] == "3/110" and nodes["n"][0][1].endswith("█ 3.9/4") and nodes["no-room"][0][0] == "0/0"


@table("things, where, cell", {
    "a device that a pod requests": ([limited({"example.com/gpu": "1"})], "n", "█+░+ 1/2"),
    "no bar for a node without that device": ([limited({"example.com/gpu": "1"})], "other", ""),
    "a device that no pod requests": ([pod("p")], "n", ""),
    "local storage": ([pod("p", {"ephemeral-storage": "1Gi"})], "n", "█+░+ 1/2Gi"),
    "large pages": ([limited({"hugepages-1Gi": "16Gi", "cpu": "1"})], "n", "█+░+ 16/32Gi"),
    "more requested than allocatable": ([limited({"example.com/gpu": "3"}, nodeName="n")], "n", "█+ 3/2"),
})
def test_a_resource_has_bars_if_a_pod_requests_it(things, where, cell):
    room = {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "2", "ephemeral-storage": "2Gi",
            "hugepages-1Gi": "32Gi"}
    nodes, _ = pictured(node("n", status={"allocatable": room}), node("other"), *things)
    assert re.fullmatch(cell, "".join(nodes[where][0][3:]))


def test_with_many_nodes_only_the_fullest_and_those_with_new_pods_are_shown():
    nodes, _ = pictured(*(node(f"n{i:03}", labels={"i": str(i)}) for i in range(500)),
                        *(pod(f"old-{i}", {"cpu": "3"}, nodeName=f"n{i:03}") for i in range(100, 150)),
                        *(pod(f"new-{i}", nodeSelector={"i": str(400 + i)}) for i in range(5)))
    assert [*nodes][-6:] == ["n400", "n401", "n402", "n403", "n404", "and 485 other nodes"]
    assert len(nodes) == 16 and [*nodes][:10] == [f"n{i}" for i in range(100, 110)]


def test_pods_that_are_pending_for_the_same_reason_are_counted_after_the_first():
    things = [node("n"), *(pod(f"p{i:03}", {"cpu": "9"}) for i in range(257)), *(pod(f"q{i}", {"memory": "1Ti"}) for i in range(2)),
              pod("alone", nodeSelector={"a": "b"}), pod("fits")]
    run = run_scheduler("--cluster", "-", input=json.dumps({"items": things}))
    why = "stays pending: 0/1 nodes are available: 1"
    assert run.stdout.partition("\n\nNODE ")[0].splitlines() == [
        f"default/p000 {why} Insufficient cpu.", f"default/q0 {why} Insufficient memory.",
        f"default/alone {why} node(s) didn't match Pod's node affinity.", "default/fits -> n  (1 of 1 nodes fit, score 296)",
        "256 other pods stay pending: 0/1 nodes are available: 1 Insufficient cpu.",
        "1 other pod stays pending: 0/1 nodes are available: 1 Insufficient memory."]
    for arguments, count in (["--output=json"], 261), (["--explain"], 261):
        run = run_scheduler("--cluster", "-", *arguments, input=json.dumps({"items": things}))
        assert len(re.findall(r'default/(?:p|q|alone|fits)\d* (?:stays|->)|"node": ', run.stdout.partition("\n\nNODE ")[0])) == count


def test_with_many_pods_without_a_node_some_are_shown_and_the_others_counted():
    _, below = pictured(node("n"), *(pod(f"p{i:03}", {"cpu": "9"}) for i in range(100)))
    assert len(below) == 16 and below[-1] == "and 85 other pods without a node"
    assert below[0] == "default/p000 stays pending: 0/1 nodes are available: 1 Insufficient cpu."


AS_TO_GONE = ["pods stay on gone, as the manifests may hold only some of the nodes; add the", "    node, and --drain shows where they would go"]


@table("thing, message", {
    "one that fits nowhere": (pod("p", {"cpu": "9"}), "stays pending: 0/1 nodes are available: 1 Insufficient cpu."),
    "one with a misspelled scheduler name": (
        pod("p", schedulerName="my-sheduler"), "names my-sheduler (did you mean my-scheduler?)"),
    "another scheduler's": (pod("p", schedulerName="volcano"), "belongs to volcano"),
    "one without a scheduler name": (pod("p", schedulerName=None), "belongs to default-scheduler"),
    "one with scheduling gates": (pod("p", schedulingGates=[{"name": "quota"}]), "has scheduling gates (quota)"),
    "one that is being deleted": (
        pod("p", metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"}), "is being deleted"),
    "one on an unknown node": (pod("p", nodeName="gone"), "is on gone (no such node)"),
    "a finished one": (pod("p", status={"phase": "Succeeded"}), None),
    "a placed one": (pod("p"), None),
})
def test_the_list_of_pods_without_a_node_says_why(thing, message):
    _, below = pictured(node("n"), thing)
    assert below[:1] == ([f"default/p {message}"] if message else [])
    assert below[1:] == (["", "to place the pod of default-scheduler: python scheduler_extras --cluster -", "    --scheduler-name default-scheduler"]
                         if thing["spec"]["schedulerName"] is None else AS_TO_GONE if "nodeName" in thing["spec"] else [])


@table("size, place, below, placed", {
    "an incomplete gang is held, and on no node": (3, [], "stays pending: Coscheduling does not permit the binding to n yet: 2 of 3 pods of group crew have a node", 1),
    "a complete gang is placed": (2, ["+one", "+two"], None, 3),
})
def test_a_gang_in_the_picture_and_in_a_comparison(size, place, below, placed, tmp_path):
    labels = {"group": "crew", "group-size": str(size)}
    things = [node("n"), *(pod(name, labels=labels) for name in ("one", "two")), pod("alone")]
    (tmp_path / "policy.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": ['
                                          '{"name": "PodFitsResources"}, {"name": "Coscheduling"}]}')
    arguments = ["--plugins", ROOT / "scheduler_extras" / "examples" / "tutorial_rules.py", "--policy", "policy.json"]
    nodes, homeless = pictured(*things, arguments=arguments, cwd=tmp_path)
    assert nodes["n"][1] == ["+alone", *place] and nodes["n"][0][0] == f"{placed}/110"
    message = " ".join(" ".join(homeless).split())
    assert message == (" ".join(f"default/{name} {below}" for name in ("one", "two")) if below else "")
    run = run_scheduler("--cluster", "-", *arguments, "--compare", ROOT / "policy.json", cwd=tmp_path,
                        input=json.dumps({"items": things}))
    assert re.search(r"^pods that fit +(\d) of 3 +3 of 3$", run.stdout, re.M)[1] == str(placed)
