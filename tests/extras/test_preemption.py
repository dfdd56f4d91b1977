"""Preemption: the choice of the node and the victims, and the requests for it."""

import json

from helpers.everywhere import replace
from helpers.extras import node, run_scheduler, table
from helpers.preempting import (
    HOST,
    OFF,
    PORT,
    TERMINATING,
    A,
    anti_affinity,
    budget,
    configuration,
    configured,
    decide,
    incoming,
    running,
    sent,
)
from scheduler_extras.rules import preemption
from scheduler_extras.show.explain import in_words


@table("objects, victims, nominated", {
    "a pod of lower priority is preempted": (
        [node("n", cpu="1"), running("a", "n"), incoming()], ["a"], {"p": "n"}),
    "a pod of equal priority is not preempted": (
        [node("n", cpu="1"), running("a", "n", 10), incoming()], [], {}),
    "no preemption with preemptionPolicy Never": (
        [node("n", cpu="1"), running("a", "n"), incoming(preemptionPolicy="Never")], [], {}),
    "no preemption if another node has room": (
        [node("n", cpu="1"), node("free"), running("a", "n"), incoming()], [], {}),
    "no preemption on a node that is too small even when empty": (
        [node("n", cpu="1"), running("a", "n"), incoming("2")], [], {}),
    "no preemption if the remaining pods take too much room": (
        [node("n", cpu="2"), running("a", "n"), running("b", "n", 10), incoming("2")], [], {}),
    "no preemption on a node that the pod's nodeSelector excludes": (
        [node("n", cpu="1"), running("a", "n"), incoming(nodeSelector={"disk": "ssd"})], [], {}),
    "no preemption on a cordoned node": (
        [node("n", cpu="1", unschedulable=True), running("a", "n"), incoming()], [], {}),
    "no preemption on a node with a taint that the pod does not tolerate": (
        [node("n", cpu="1", taints=[{"key": "k", "value": "", "effect": "NoSchedule"}]), running("a", "n"),
         incoming()], [], {}),
    "no preemption for a pod whose claim does not exist": (
        [node("n", cpu="1"), running("a", "n"),
         {"kind": "PersistentVolumeClaim", "metadata": {"name": "another"}, "spec": {}},
         incoming(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}])], [], {}),
    "no preemption of a pod to which the pod has required affinity": (
        [node("n", cpu="1", labels=HOST), running("a", "n", labels=A), incoming(affinity={"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": A}}]}})], [], {}),
    "only as many pods as needed are preempted, those of the lowest priority": (
        [node("n", cpu="4"), *(running(name, "n", priority) for name, priority in zip("abcd", (3, 9, 1, 5))),
         incoming("2")], ["a", "c"], {"p": "n"}),
    "a pod of lower priority stays if its preemption does not help": (
        [node("n", cpu="3"), running("little", "n", 0), running("big", "n", 5, "2"), incoming("2")],
        ["big"], {"p": "n"}),
    "of pods of equal priority the youngest is preempted": (
        [node("n", cpu="3"), *(running(name, "n", 0, start=start) for name, start in zip("abc", (20, 40, 30))),
         incoming()], ["b"], {"p": "n"}),
    "a pod that has not started is the youngest": (
        [node("n", cpu="2"), running("a", "n", start=59), running("b", "n", start=None), incoming()],
        ["b"], {"p": "n"}),
    "a pod with the same host port is preempted": (
        [node("n"), running("a", "n"), running("web", "n", 5, containers=PORT), incoming(containers=PORT)],
        ["web"], {"p": "n"}),
    "a pod to which the pod has anti-affinity is preempted": (
        [node("n", labels=HOST), running("a", "n", 5, labels=A), running("b", "n"), incoming(affinity=anti_affinity("a"))],
        ["a"], {"p": "n"}),
    "a pod that has anti-affinity to the pod is preempted": (
        [node("n", labels=HOST), running("a", "n", 5, affinity=anti_affinity("p")), running("b", "n"),
         incoming(labels={"app": "p"})], ["a"], {"p": "n"}),
    "a pod on another node of the domain cannot be preempted": (
        [node("n", labels={"zone": "z"}), node("m", labels={"zone": "z"}, unschedulable=True),
         running("a", "m", labels=A), running("b", "n"), incoming(affinity=json.loads(
             json.dumps(anti_affinity("a")).replace("kubernetes.io/hostname", "zone")))], [], {}),
    "a pod that makes the spread uneven is preempted": (
        [node("n", labels=HOST), node("m", labels={"kubernetes.io/hostname": "m"}, unschedulable=True),
         running("a", "n", 5, labels=A), running("b", "n"), incoming(labels=A, topologySpreadConstraints=[
             {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
              "labelSelector": {"matchLabels": A}}])], ["a"], {"p": "n"}),
    "pods of all schedulers and namespaces can be preempted": (
        [node("n", cpu="1"), running("a", "n", namespace="red", schedulerName="other"), incoming()],
        ["a"], {"p": "n"}),

    "a budget without disruptions left protects a pod of lower priority": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), budget(0), incoming()],
        ["b"], {"p": "n"}),
    "... but not if there is no other pod": (
        [node("n", cpu="1"), running("a", "n", labels=A), budget(0), incoming()], ["a"], {"p": "n"}),
    "a budget with one disruption left protects all pods but one": (
        [node("n", cpu="3"), running("a", "n", 1, labels=A, start=10), running("b", "n", 1, labels=A, start=20),
         running("c", "n", 5), budget(1), incoming("2")], ["a", "c"], {"p": "n"}),
    "the tighter of two budgets counts": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), budget(9), budget(0, name="tight"),
         incoming()], ["b"], {"p": "n"}),
    "a budget of another namespace protects no pod": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), budget(0, namespace="red"),
         incoming()], ["a"], {"p": "n"}),
    "a budget protects the pods that it selects in its namespace": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A, namespace="red"), running("b", "n", 5), budget(0, namespace="red"),
         incoming()], ["b"], {"p": "n"}),
    "a budget with an empty selector protects no pod": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), budget(0, {}), incoming()],
        ["a"], {"p": "n"}),
    "a budget without a selector protects no pod": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), budget(0, None), incoming()],
        ["a"], {"p": "n"}),
    "a budget with an invalid selector protects no pod": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), incoming(), budget(0, {
            "matchExpressions": [{"key": "app", "operator": "In", "values": ["not a label!"]}]})], ["a"], {"p": "n"}),
    "a budget protects no pod without labels": (
        [node("n", cpu="2"), running("a", "n", 0), running("b", "n", 5, labels=A), incoming(), budget(0, {
            "matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})], ["a"], {"p": "n"}),
    "a budget does not protect a pod that it counts as disrupted": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), incoming(),
         budget(0, disruptedPods={"a": "2020-01-01T00:00:00Z"})], ["a"], {"p": "n"}),

    "first, the node with the fewest violated budgets": (
        [node("m", cpu="1"), node("n", cpu="1"), running("a", "m", 0, labels=A), running("b", "n", 9), budget(0),
         incoming()], ["b"], {"p": "n"}),
    "then the node with the lowest highest priority of victims": (
        [node("m", cpu="1"), node("n", cpu="3"), running("a", "m", 5),
         *(running(name, "n", 4) for name in "bcd"), incoming()], ["d"], {"p": "n"}),
    "... or, as in 1.20, with the lowest priority of the first violating victim": (
        [node("m", cpu="2"), node("n", cpu="2"), running("a", "m", 1, labels=A), running("b", "m", 9), budget(0),
         running("c", "n", 5, labels=A), running("d", "n", 5), incoming("2")], ["a", "b"], {"p": "m"}),
    "then the node with the lowest sum of priorities": (
        [node("m", cpu="2"), node("n", cpu="2"), running("a", "m", 5), running("b", "m", 4), running("c", "n", 5),
         running("d", "n", 3), incoming("2")], ["c", "d"], {"p": "n"}),
    "... in which even negative priorities add up": (
        [node("m", cpu="2"), node("n", cpu="2"), running("a", "m", -5), running("b", "m", -9),
         running("c", "n", -5, "2"), incoming("2")], ["c"], {"p": "n"}),
    "then the node with the fewest victims": (
        [node("m", cpu="2"), node("n", cpu="2"), running("a", "m", 5), running("b", "m", -2**31),
         running("c", "n", 5, "2"), incoming("2")], ["c"], {"p": "n"}),
    "then the node whose victims of the highest priority started last": (
        [node("m", cpu="3"), node("n", cpu="3"), running("a", "m", 5, start=20), running("b", "m", 5, start=50),
         running("c", "m", 1, start=50), running("d", "n", 5, start=30), running("e", "n", 5, start=40),
         running("f", "n", 1, start=10), incoming("3")], ["d", "e", "f"], {"p": "n"}),
    "then any node": (
        [node("m", cpu="1"), node("n", cpu="1"), running("a", "m"), running("b", "n"), incoming()],
        ["a"], {"p": "m"}),

    "a nominated pod waits while victims are terminating on its node": (
        [node("n", cpu="1"), node("m", cpu="1"), running("a", "n", metadata=TERMINATING), running("b", "m", -5),
         incoming(nominated="n")], [], {}),
    "... but not for terminating pods of equal priority": (
        [node("n", cpu="2"), node("m", cpu="1"), running("a", "n", 10, metadata=TERMINATING), running("b", "n", 5),
         running("c", "m", 6), incoming(nominated="n")], ["b"], {"p": "n"}),
    "... and not on a node that became unsuitable": (
        [node("n", cpu="1", unschedulable=True), node("m", cpu="1"), running("a", "n", metadata=TERMINATING),
         running("b", "m", 5), incoming(nominated="n")], ["b"], {"p": "m"}),
    "... and not on a node that was deleted": (
        [node("m", cpu="1"), running("b", "m", 5), incoming(nominated="n")], ["b"], {"p": "m"}),
    "a nominated pod without terminating victims preempts again": (
        [node("n", cpu="1"), running("a", "n"), incoming(nominated="n")], ["a"], {"p": "n"}),
    "a terminating victim is not deleted again": (
        [node("n", cpu="2"), running("a", "n", 0, metadata=TERMINATING), running("b", "n", 5), incoming()], [], {"p": "n"}),
    "... and the pod waits for it if more victims are needed there": (
        [node("n", cpu="2"), node("m", cpu="2"), running("a", "n", metadata=TERMINATING), running("b", "n", 10),
         running("c", "m"), incoming("2", nominated="n")], [], {}),
    "a nomination stays if the pods there have equal priority": (
        [node("n", cpu="1"), running("a", "n", 10), incoming(nominated="n")], [], {}),
    "... but not if another pod of equal priority is nominated there": (
        [node("n", cpu="1"), running("a", "n", 10), incoming(nominated="n"), incoming(name="q", nominated="n")], [], {"p": None}),
    "... but if a pod of higher priority is nominated there": (
        [node("n", cpu="1"), running("a", "n", 10), incoming(nominated="n"), incoming(name="q", priority=20, nominated="n")], [], {}),
    "... and if another node is unsuitable": (
        [node("n", cpu="1"), node("m", unschedulable=True), running("a", "n", 10), incoming(nominated="n")], [], {}),
    "... but not if no node is suitable": (
        [node("n", cpu="1", unschedulable=True), running("a", "n"), incoming(nominated="n")], [], {"p": None}),
    "... and not if the node does not exist": (
        [node("n", cpu="1", unschedulable=True), incoming(nominated="gone")], [], {"p": None}),
    "the only one of many nodes without a violated budget is found": (
        [*(node(f"n{i:03}", cpu="1") for i in range(102)),
         *(running(f"a{i:03}", f"n{i:03}", labels=A if i < 101 else None) for i in range(102)), budget(0), incoming()],
        ["a101"], {"p": "n101"}),
    "a malformed nominated pod is skipped": (
        [node("n", cpu="1"), running("a", "n"), incoming(),
         incoming("oops", name="q", nominated="n", schedulerName="other")], ["a"], {"p": "n"}),
    "the nomination of a pod of lower priority is cleared": (
        [node("n", cpu="1"), running("a", "n"), incoming(), incoming(name="low", priority=5, nominated="n"),
         incoming(name="elsewhere", priority=5, nominated="m"), incoming(name="equal", nominated="m")],
        ["a"], {"p": "n", "low": None}),
    "... but not that of a pod of another scheduler": (
        [node("n", cpu="1"), running("a", "n"), incoming(), incoming(name="theirs", priority=5, nominated="n", schedulerName="other")],
        ["a"], {"p": "n"}),
    "the room of a nominated pod counts as taken": (
        [node("n", cpu="2"), running("a", "n"), running("b", "n", 5), incoming(),
         incoming(name="high", priority=20, nominated="n")], ["a", "b"], {"p": "n"}),
    "a nominated pod cannot be preempted": (
        [node("n", cpu="1"), incoming(), incoming(name="high", priority=20, nominated="n")], [], {}),
})
def test_the_node_and_its_victims(objects, victims, nominated, caplog):
    decision, snapshot = decide(objects)
    assert sorted(sent(decision, "DELETE", "/pods/(.*)")) == victims
    patches = {name: body["status"] for name, body in sent(decision, "PATCH", "/pods/(.*)/status").items()}
    assert {name: status["nominatedNodeName"] for name, status in patches.items()
            if "nominatedNodeName" in status} == nominated
    assert sorted(name for name, status in patches.items() if "conditions" in status) == victims
    assert [message for message in caplog.messages if "is skipped" not in message and "watches" not in message] == [], "no rule has failed"
    for place in snapshot.nodes.values():  # the snapshot is unchanged
        there = {thing["metadata"]["name"] for thing in objects if thing["spec"].get("nodeName") == place.name}
        assert {other.name for other in place.pods.values()} - {"p"} == there
        assert place.requested["cpu"] == sum(other.requests["cpu"] for other in place.pods.values())


@table("objects, text", {
    "the only node": (
        [node("n", cpu="1"), running("a", "n"), incoming()], "It preempts default/a on n, the only node where that helps."),
    "several victims": (
        [node("n", cpu="2"), running("a", "n"), running("b", "n", 5), incoming("2")],
        "It preempts default/b, default/a on n, the only node where that helps."),
    "the budgets decide": (
        [node("m", cpu="1"), node("n", cpu="1"), running("a", "m", 0, labels=A), running("b", "n", 9), budget(0),
         incoming()], "It preempts default/b on n, where the fewest budgets are violated."),
    "the highest priority decides": (
        [node("m", cpu="1"), node("n", cpu="1"), running("a", "m", 5), running("b", "n", 4), incoming()],
        "It preempts default/b on n, where the victim matters least."),
    "the sum of priorities decides": (
        [node("m", cpu="2"), node("n", cpu="2"), running("a", "m", 5), running("b", "m", 4), running("c", "n", 5, "2"),
         incoming("2")], "It preempts default/c on n, where their priorities add up to the least."),
    "the start time decides": (
        [node("m", cpu="1"), node("n", cpu="1"), running("a", "m"), running("b", "n", start=20), incoming()],
        "It preempts default/b on n, where they started last."),
    "victims are terminating": (
        [node("n", cpu="1"), running("a", "n", metadata=TERMINATING), incoming(nominated="n")],
        "It waits until the pods that are being deleted on n have gone."),
    "preemption does not help": ([node("n", cpu="1"), running("a", "n", 10), incoming()], ""),
})
def test_the_remedy_names_the_victims_and_the_reason_for_the_node(objects, text):
    decision, _ = decide(objects)
    assert decision.remedy == text
    assert in_words(decision) == f"default/p stays pending: {decision.message} {text}".rstrip()


@table("arguments, compared", {
    "by default a tenth of the nodes, but at least a hundred": ({}, 12),
    "a number": ({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 3}, 3),
    "a percentage": ({"minCandidateNodesPercentage": 50, "minCandidateNodesAbsolute": 1}, 6),
    "the larger one of the two": ({"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 5}, 5),
    "all nodes": ({"minCandidateNodesPercentage": 100}, 12),
    "more than all nodes": ({"minCandidateNodesAbsolute": 1000}, 12)})
def test_the_number_of_candidates(arguments, compared, monkeypatch):
    policies = configured(pluginConfig=[{"name": "DefaultPreemption", "args": arguments}])
    found, plain = [], preemption.candidates
    replace(monkeypatch, "candidates", lambda *asked: found.append(plain(*asked)) or found[-1])
    names = [f"n{i:02}" for i in range(12)]
    objects = [*(node(name, cpu="1") for name in names), *(running(f"a{i}", name, i) for i, name in enumerate(names))]
    decision, _ = decide([*objects, node("no", unschedulable=True), incoming(priority=50)], policies)
    [(candidates, _)] = found
    assert len(candidates) == compared
    best = min(candidates, key=lambda node: names.index(node.name))
    assert list(sent(decision, "DELETE", "/pods/(.*)")) == [f"a{names.index(best.name)}"]


def test_the_search_goes_on_until_a_candidate_violates_no_budget():
    """It goes beyond the number of candidates, and starts at a random node."""
    policies = configured(pluginConfig=[{"name": "DefaultPreemption", "args": {
        "minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}}])
    objects = [budget(0), incoming()]
    for i in range(6):
        objects += [node(f"n{i}", cpu="1"), running(f"a{i}", f"n{i}", labels=A if i != 4 else None)]
    for _ in range(10):
        decision, _ = decide(objects, policies)
        assert list(sent(decision, "DELETE", "/pods/(.*)")) == ["a4"]


@table("arguments, victims, message", {
    "a provider": (["--policy", "DefaultProvider", "--preempt"], 1, ""),
    "a Policy": (["--policy", "{policy}", "--preempt"], 1, ""),
    "a Policy without preemption": (["--policy", "{policy}"], 0, "to do so, too: --preempt, or Preemption among the predicates"),
    "a configuration": (["--policy", "{config}"], 1, ""),
    "a configuration that disables it": (["--policy", "{off}"], 0, ""),
    "... which --preempt does not override": (["--policy", "{off}", "--preempt"], 0, "--preempt changes nothing")})
def test_the_options_that_enable_preemption(tmp_path, arguments, victims, message):
    files = {"policy": {"kind": "Policy", "apiVersion": "v1"}, "config": configuration(), "off": configuration(**OFF)}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "cluster").write_text(json.dumps({"kind": "List", "items": [
        node("n", cpu="1"), running("a", "n", metadata={"uid": "a"}), incoming(metadata={"uid": "p"})]}))
    paths = {name: tmp_path / name for name in files}
    run = run_scheduler(*(argument.format(**paths) for argument in arguments), "--cluster", tmp_path / "cluster")
    assert run.stdout.count("It preempts default/a on n") == victims and ("default/p -> n" in run.stdout) == bool(victims)
    assert message in run.stderr and bool(message) == bool(run.stderr)
