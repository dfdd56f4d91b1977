"""Preemption: who has to go, and where, and how that is written."""

import json

from helpers.everywhere import replace
from helpers.extras import node, run_scheduler, table
from helpers.preempting import (
    HOST,
    OFF,
    PORT,
    TERMINATING,
    A,
    apart,
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
    "who is less important goes": (
        [node("n", cpu="1"), running("a", "n"), incoming()], ["a"], {"p": "n"}),
    "who is as important stays": (
        [node("n", cpu="1"), running("a", "n", 10), incoming()], [], {}),
    "with preemptionPolicy Never nobody goes": (
        [node("n", cpu="1"), running("a", "n"), incoming(preemptionPolicy="Never")], [], {}),
    "nobody goes where there is room": (
        [node("n", cpu="1"), node("free"), running("a", "n"), incoming()], [], {}),
    "nobody goes from a node that is too small even when empty": (
        [node("n", cpu="1"), running("a", "n"), incoming("2")], [], {}),
    "nobody goes if those who must stay take up too much": (
        [node("n", cpu="2"), running("a", "n"), running("b", "n", 10), incoming("2")], [], {}),
    "nobody goes from a node that the pod does not want": (
        [node("n", cpu="1"), running("a", "n"), incoming(nodeSelector={"disk": "ssd"})], [], {}),
    "nobody goes from a cordoned node": (
        [node("n", cpu="1", unschedulable=True), running("a", "n"), incoming()], [], {}),
    "nobody goes from a node with a taint that the pod does not tolerate": (
        [node("n", cpu="1", taints=[{"key": "k", "value": "", "effect": "NoSchedule"}]), running("a", "n"),
         incoming()], [], {}),
    "nobody goes for a pod whose claim does not exist": (
        [node("n", cpu="1"), running("a", "n"),
         {"kind": "PersistentVolumeClaim", "metadata": {"name": "another"}, "spec": {}},
         incoming(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}])], [], {}),
    "nobody goes whom the pod must be with": (
        [node("n", cpu="1", labels=HOST), running("a", "n", labels=A), incoming(affinity={"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": A}}]}})], [], {}),
    "only as many go as are needed, the least important ones": (
        [node("n", cpu="4"), *(running(name, "n", priority) for name, priority in zip("abcd", (3, 9, 1, 5))),
         incoming("2")], ["a", "c"], {"p": "n"}),
    "a less important pod stays if its going does not help": (
        [node("n", cpu="3"), running("little", "n", 0), running("big", "n", 5, "2"), incoming("2")],
        ["big"], {"p": "n"}),
    "of equally important pods the youngest goes": (
        [node("n", cpu="3"), *(running(name, "n", 0, start=start) for name, start in zip("abc", (20, 40, 30))),
         incoming()], ["b"], {"p": "n"}),
    "who has not started yet is the youngest": (
        [node("n", cpu="2"), running("a", "n", start=59), running("b", "n", start=None), incoming()],
        ["b"], {"p": "n"}),
    "who has the host port goes": (
        [node("n"), running("a", "n"), running("web", "n", 5, containers=PORT), incoming(containers=PORT)],
        ["web"], {"p": "n"}),
    "who must not be with the pod goes": (
        [node("n", labels=HOST), running("a", "n", 5, labels=A), running("b", "n"), incoming(affinity=apart("a"))],
        ["a"], {"p": "n"}),
    "who wants the pod away goes": (
        [node("n", labels=HOST), running("a", "n", 5, affinity=apart("p")), running("b", "n"),
         incoming(labels={"app": "p"})], ["a"], {"p": "n"}),
    "who is on another node of the domain cannot be made to go": (
        [node("n", labels={"zone": "z"}), node("m", labels={"zone": "z"}, unschedulable=True),
         running("a", "m", labels=A), running("b", "n"), incoming(affinity=json.loads(
             json.dumps(apart("a")).replace("kubernetes.io/hostname", "zone")))], [], {}),
    "who makes the spread uneven goes": (
        [node("n", labels=HOST), node("m", labels={"kubernetes.io/hostname": "m"}, unschedulable=True),
         running("a", "n", 5, labels=A), running("b", "n"), incoming(labels=A, topologySpreadConstraints=[
             {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
              "labelSelector": {"matchLabels": A}}])], ["a"], {"p": "n"}),
    "pods of all schedulers and namespaces may go": (
        [node("n", cpu="1"), running("a", "n", namespace="red", schedulerName="other"), incoming()],
        ["a"], {"p": "n"}),

    "a budget without disruptions left protects the less important": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), budget(0), incoming()],
        ["b"], {"p": "n"}),
    "... but not if nobody else is there": (
        [node("n", cpu="1"), running("a", "n", labels=A), budget(0), incoming()], ["a"], {"p": "n"}),
    "a budget with disruptions left protects those beyond them": (
        [node("n", cpu="3"), running("a", "n", 1, labels=A, start=10), running("b", "n", 1, labels=A, start=20),
         running("c", "n", 5), budget(1), incoming("2")], ["a", "c"], {"p": "n"}),
    "the tighter of two budgets counts": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), budget(9), budget(0, name="tight"),
         incoming()], ["b"], {"p": "n"}),
    "a budget of another namespace protects nobody": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), budget(0, namespace="red"),
         incoming()], ["a"], {"p": "n"}),
    "a budget protects whom it selects in its namespace": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A, namespace="red"), running("b", "n", 5), budget(0, namespace="red"),
         incoming()], ["b"], {"p": "n"}),
    "a budget with an empty selector protects nobody": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), budget(0, {}), incoming()],
        ["a"], {"p": "n"}),
    "a budget without a selector protects nobody": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), budget(0, None), incoming()],
        ["a"], {"p": "n"}),
    "a budget with an invalid selector protects nobody": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), incoming(), budget(0, {
            "matchExpressions": [{"key": "app", "operator": "In", "values": ["not a label!"]}]})], ["a"], {"p": "n"}),
    "a budget protects nobody without labels": (
        [node("n", cpu="2"), running("a", "n", 0), running("b", "n", 5, labels=A), incoming(), budget(0, {
            "matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})], ["a"], {"p": "n"}),
    "a budget does not protect whom it counts as disrupted": (
        [node("n", cpu="2"), running("a", "n", 0, labels=A), running("b", "n", 5), incoming(),
         budget(0, disruptedPods={"a": "2020-01-01T00:00:00Z"})], ["a"], {"p": "n"}),

    "first, the node where the fewest budgets are violated": (
        [node("m", cpu="1"), node("n", cpu="1"), running("a", "m", 0, labels=A), running("b", "n", 9), budget(0),
         incoming()], ["b"], {"p": "n"}),
    "then the one where the most important victim matters least": (
        [node("m", cpu="1"), node("n", cpu="3"), running("a", "m", 5),
         *(running(name, "n", 4) for name in "bcd"), incoming()], ["d"], {"p": "n"}),
    "... or, as in 1.20, the first of those whose budgets are violated": (
        [node("m", cpu="2"), node("n", cpu="2"), running("a", "m", 1, labels=A), running("b", "m", 9), budget(0),
         running("c", "n", 5, labels=A), running("d", "n", 5), incoming("2")], ["a", "b"], {"p": "m"}),
    "then the one with the lowest sum of priorities": (
        [node("m", cpu="2"), node("n", cpu="2"), running("a", "m", 5), running("b", "m", 4), running("c", "n", 5),
         running("d", "n", 3), incoming("2")], ["c", "d"], {"p": "n"}),
    "... in which each pod counts, however low": (
        [node("m", cpu="2"), node("n", cpu="2"), running("a", "m", -5), running("b", "m", -9),
         running("c", "n", -5, "2"), incoming("2")], ["c"], {"p": "n"}),
    "then the one with the fewest victims": (
        [node("m", cpu="2"), node("n", cpu="2"), running("a", "m", 5), running("b", "m", -2**31),
         running("c", "n", 5, "2"), incoming("2")], ["c"], {"p": "n"}),
    "then the one whose most important victims started last": (
        [node("m", cpu="3"), node("n", cpu="3"), running("a", "m", 5, start=20), running("b", "m", 5, start=50),
         running("c", "m", 1, start=50), running("d", "n", 5, start=30), running("e", "n", 5, start=40),
         running("f", "n", 1, start=10), incoming("3")], ["d", "e", "f"], {"p": "n"}),
    "then any": (
        [node("m", cpu="1"), node("n", cpu="1"), running("a", "m"), running("b", "n"), incoming()],
        ["a"], {"p": "m"}),

    "who has nominated a node waits while victims end there": (
        [node("n", cpu="1"), node("m", cpu="1"), running("a", "n", metadata=TERMINATING), running("b", "m", -5),
         incoming(nominated="n")], [], {}),
    "... but not for those as important as itself": (
        [node("n", cpu="2"), node("m", cpu="1"), running("a", "n", 10, metadata=TERMINATING), running("b", "n", 5),
         running("c", "m", 6), incoming(nominated="n")], ["b"], {"p": "n"}),
    "... and not on a node that has become useless": (
        [node("n", cpu="1", unschedulable=True), node("m", cpu="1"), running("a", "n", metadata=TERMINATING),
         running("b", "m", 5), incoming(nominated="n")], ["b"], {"p": "m"}),
    "... and not on a node that has gone": (
        [node("m", cpu="1"), running("b", "m", 5), incoming(nominated="n")], ["b"], {"p": "m"}),
    "who waits for nobody on the nominated node preempts again": (
        [node("n", cpu="1"), running("a", "n"), incoming(nominated="n")], ["a"], {"p": "n"}),
    "a victim that is on its way out already is not deleted again": (
        [node("n", cpu="2"), running("a", "n", 0, metadata=TERMINATING), running("b", "n", 5), incoming()], [], {"p": "n"}),
    "... but it waits if there others have to go, too": (
        [node("n", cpu="2"), node("m", cpu="2"), running("a", "n", metadata=TERMINATING), running("b", "n", 10),
         running("c", "m"), incoming("2", nominated="n")], [], {}),
    "a nomination lasts while those there are as important": (
        [node("n", cpu="1"), running("a", "n", 10), incoming(nominated="n")], [], {}),
    "... but not beside that of an equal": (
        [node("n", cpu="1"), running("a", "n", 10), incoming(nominated="n"), incoming(name="q", nominated="n")], [], {"p": None}),
    "... though beside that of a more important pod": (
        [node("n", cpu="1"), running("a", "n", 10), incoming(nominated="n"), incoming(name="q", priority=20, nominated="n")], [], {}),
    "... and while another node is of no use": (
        [node("n", cpu="1"), node("m", unschedulable=True), running("a", "n", 10), incoming(nominated="n")], [], {}),
    "... nor when no node is any good": (
        [node("n", cpu="1", unschedulable=True), running("a", "n"), incoming(nominated="n")], [], {"p": None}),
    "... nor when there is no such node": (
        [node("n", cpu="1", unschedulable=True), incoming(nominated="gone")], [], {"p": None}),
    "of many nodes the only one where no budget is violated is found": (
        [*(node(f"n{i:03}", cpu="1") for i in range(102)),
         *(running(f"a{i:03}", f"n{i:03}", labels=A if i < 101 else None) for i in range(102)), budget(0), incoming()],
        ["a101"], {"p": "n101"}),
    "a nominated pod that cannot be read is passed over": (
        [node("n", cpu="1"), running("a", "n"), incoming(),
         incoming("oops", name="q", nominated="n", schedulerName="other")], ["a"], {"p": "n"}),
    "the nomination of a less important pod ends": (
        [node("n", cpu="1"), running("a", "n"), incoming(), incoming(name="low", priority=5, nominated="n"),
         incoming(name="elsewhere", priority=5, nominated="m"), incoming(name="equal", nominated="m")],
        ["a"], {"p": "n", "low": None}),
    "... but not of one that another scheduler sees to": (
        [node("n", cpu="1"), running("a", "n"), incoming(), incoming(name="theirs", priority=5, nominated="n", schedulerName="other")],
        ["a"], {"p": "n"}),
    "room of a nominated pod counts as taken": (
        [node("n", cpu="2"), running("a", "n"), running("b", "n", 5), incoming(),
         incoming(name="high", priority=20, nominated="n")], ["a", "b"], {"p": "n"}),
    "who is nominated is not among those who may go": (
        [node("n", cpu="1"), incoming(), incoming(name="high", priority=20, nominated="n")], [], {}),
})
def test_who_has_to_go_and_where(objects, victims, nominated, caplog):
    decision, snapshot = decide(objects)
    assert sorted(sent(decision, "DELETE", "/pods/(.*)")) == victims
    patches = {name: body["status"] for name, body in sent(decision, "PATCH", "/pods/(.*)/status").items()}
    assert {name: status["nominatedNodeName"] for name, status in patches.items()
            if "nominatedNodeName" in status} == nominated
    assert sorted(name for name, status in patches.items() if "conditions" in status) == victims
    assert [message for message in caplog.messages if "is skipped" not in message and "watches" not in message] == [], "no rule has failed"
    for place in snapshot.nodes.values():  # all is as it was
        there = {thing["metadata"]["name"] for thing in objects if thing["spec"].get("nodeName") == place.name}
        assert {other.name for other in place.pods.values()} - {"p"} == there
        assert place.requested["cpu"] == sum(other.requests["cpu"] for other in place.pods.values())


@table("objects, text", {
    "the only node": (
        [node("n", cpu="1"), running("a", "n"), incoming()], "It preempts default/a on n, where that helps."),
    "several victims": (
        [node("n", cpu="2"), running("a", "n"), running("b", "n", 5), incoming("2")],
        "It preempts default/b, default/a on n, where that helps."),
    "budgets decide": (
        [node("m", cpu="1"), node("n", cpu="1"), running("a", "m", 0, labels=A), running("b", "n", 9), budget(0),
         incoming()], "It preempts default/b on n, where the fewest budgets are violated."),
    "the highest priority decides": (
        [node("m", cpu="1"), node("n", cpu="1"), running("a", "m", 5), running("b", "n", 4), incoming()],
        "It preempts default/b on n, where the victim matters least."),
    "the sum decides": (
        [node("m", cpu="2"), node("n", cpu="2"), running("a", "m", 5), running("b", "m", 4), running("c", "n", 5, "2"),
         incoming("2")], "It preempts default/c on n, where their priorities add up to the least."),
    "the start decides": (
        [node("m", cpu="1"), node("n", cpu="1"), running("a", "m"), running("b", "n", start=20), incoming()],
        "It preempts default/b on n, where they started last."),
    "victims are going": (
        [node("n", cpu="1"), running("a", "n", metadata=TERMINATING), incoming(nominated="n")],
        "It waits until the pods that are being deleted on n have gone."),
    "nothing helps": ([node("n", cpu="1"), running("a", "n", 10), incoming()], ""),
})
def test_it_says_who_has_to_go_and_why_there(objects, text):
    decision, _ = decide(objects)
    assert decision.remedy == text
    assert in_words(decision) == f"default/p stays pending: {decision.message} {text}".rstrip()


@table("arguments, compared", {
    "by default a tenth of the nodes, but a hundred at least": ({}, 12),
    "a number": ({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 3}, 3),
    "a share": ({"minCandidateNodesPercentage": 50, "minCandidateNodesAbsolute": 1}, 6),
    "what is more of the two": ({"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 5}, 5),
    "all of them": ({"minCandidateNodesPercentage": 100}, 12),
    "more than there are": ({"minCandidateNodesAbsolute": 1000}, 12)})
def test_how_many_candidates_are_compared(arguments, compared, monkeypatch):
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


def test_among_few_candidates_one_violates_no_budget():
    """It is looked for beyond their number; at which node it begins is up to chance."""
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
    "a Policy without it": (["--policy", "{policy}"], 0, "to do so, too: --preempt, or Preemption among the predicates"),
    "a configuration": (["--policy", "{config}"], 1, ""),
    "a configuration that disables it": (["--policy", "{off}"], 0, ""),
    "... which the option does not overrule": (["--policy", "{off}", "--preempt"], 0, "--preempt changes nothing")})
def test_who_preempts_by_which_options(tmp_path, arguments, victims, message):
    files = {"policy": {"kind": "Policy", "apiVersion": "v1"}, "config": configuration(), "off": configuration(**OFF)}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "cluster").write_text(json.dumps({"kind": "List", "items": [
        node("n", cpu="1"), running("a", "n", metadata={"uid": "a"}), incoming(metadata={"uid": "p"})]}))
    paths = {name: tmp_path / name for name in files}
    run = run_scheduler(*(argument.format(**paths) for argument in arguments), "--cluster", tmp_path / "cluster")
    assert run.stdout.count("It preempts default/a on n") == victims and ("default/p -> n" in run.stdout) == bool(victims)
    assert message in run.stderr and bool(message) == bool(run.stderr)
