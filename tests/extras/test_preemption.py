"""Preemption: who has to go, and where; how that is written; beside the real kube-scheduler."""

import contextlib
import json
import random
import re
import subprocess
import threading
from collections import Counter

import time
from helpers.everywhere import replace
from scheduler_extras.api.errors import error_of
from scheduler_extras.api.proxy import PooledProxy
from scheduler_extras.api.watch import Reflector
from scheduler_extras.common.errors import Malformed
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.rule import FullRule, PREDICATES
from scheduler_extras.deciding.schedule import schedule
from scheduler_extras.live.record import PodRecord, WaitsFor
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.policy.reloading import load_policies
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules import preemption
from scheduler_extras.rules.preemption import WHY, WHY_ONE
from scheduler_extras.show.explain import in_words
from helpers.control_plane import free_port, wait_for
from helpers.extras import (
    ROOT, a_cluster, a_live_cluster, a_pass, cluster_of, node, pending_pods, pod,
    run_scheduler, table, wait_until_told
)
from helpers.extras import MANIFESTS
from helpers.fake_api import Server
from helpers.preempting import A, BUDGETS, GOING, LEVELS, POLICY, PORT, apart, budget, built, configuration, configured, incoming, running

def victim(name, on, **options):
    """A pod that is on its way out, as it was preempted."""
    thing = running(name, on, metadata=GOING, **options)
    thing["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    return thing


OFF = {"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}


def decide(objects, policies=None, name="p"):
    """The decision about a pod, and the snapshot by which it was made."""
    policies = policies or built()
    cluster = cluster_of(*objects, budget(9, "nobody", name="idle"))
    [waiting] = [waiting for waiting in pending_pods(cluster, policies) if waiting.name == name]
    snapshot = cluster.look(policies)
    snapshot.nominated = nominated_among(objects)
    decision = schedule(waiting, snapshot, policies["my-scheduler"])
    policies["my-scheduler"].seek_remedy(decision, snapshot)
    return decision, snapshot


def nominated_among(objects):
    """The pending pods that have a nominated node."""
    pods = []
    for thing in objects:
        with contextlib.suppress(Malformed):
            pods += [FullPod(thing)] if thing["kind"] == "Pod" else []
    return [each for each in pods if each.nominated_node and not each.node_name]


def sent(decision, method, pattern):
    """What the matches of a pattern in the paths of requests say, and their bodies."""
    return {match.group(1): body for verb, path, body in decision.requests
            if verb == method and (match := re.search(pattern, path))}


HOST = {"kubernetes.io/hostname": "n"}
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
        [node("n", cpu="1"), node("m", cpu="1"), running("a", "n", metadata=GOING), running("b", "m", -5),
         incoming(nominated="n")], [], {}),
    "... but not for those as important as itself": (
        [node("n", cpu="2"), node("m", cpu="1"), running("a", "n", 10, metadata=GOING), running("b", "n", 5),
         running("c", "m", 6), incoming(nominated="n")], ["b"], {"p": "n"}),
    "... and not on a node that has become useless": (
        [node("n", cpu="1", unschedulable=True), node("m", cpu="1"), running("a", "n", metadata=GOING),
         running("b", "m", 5), incoming(nominated="n")], ["b"], {"p": "m"}),
    "... and not on a node that has gone": (
        [node("m", cpu="1"), running("b", "m", 5), incoming(nominated="n")], ["b"], {"p": "m"}),
    "who waits for nobody on the nominated node preempts again": (
        [node("n", cpu="1"), running("a", "n"), incoming(nominated="n")], ["a"], {"p": "n"}),
    "a victim that is on its way out already is not deleted again": (
        [node("n", cpu="2"), running("a", "n", 0, metadata=GOING), running("b", "n", 5), incoming()], [], {"p": "n"}),
    "... but it waits if there others have to go, too": (
        [node("n", cpu="2"), node("m", cpu="2"), running("a", "n", metadata=GOING), running("b", "n", 10),
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
    assert [said for said in caplog.messages if "is left out" not in said and "watches" not in said] == [], "no rule has failed"
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
        [node("n", cpu="1"), running("a", "n", metadata=GOING), incoming(nominated="n")],
        "It waits until the pods that are being deleted on n have gone."),
    "nothing helps": ([node("n", cpu="1"), running("a", "n", 10), incoming()], ""),
})
def test_it_says_who_has_to_go_and_why_there(objects, text):
    decision, _ = decide(objects)
    assert decision.remedy == text
    assert in_words(decision) == f"default/p stays pending: {decision.message} {text}".rstrip()


@table("kind", {"whose objects are told": [a_live_cluster], "whose objects are listed": [a_cluster]})
def test_a_victim_whose_deletion_was_refused_is_deleted_by_the_next_attempt_on_a_cluster(kind, monkeypatch):
    monkeypatch.setattr(Reflector, "work", lambda reflector: None)
    server = Server(node("n", cpu="1"), running("a", "n"), incoming())
    server.failures["a"] = [403]
    cluster = kind[0](server)
    for _ in range(2):
        make_pass(cluster, built())
        cluster.pending.end_backoff()
    assert len(server.sent("DELETE", "/pods/a")) == 2
    assert [body["status"]["nominatedNodeName"] for *_, body in server.sent("PATCH", "/pods/p/status")
            if "nominatedNodeName" in body["status"]] == ["n", None, "n"]


def test_a_victim_is_told_though_a_less_important_pod_that_was_to_go_there_has_gone():
    server = Server(node("n", cpu="1"), running("a", "n"), incoming(), incoming(name="low", priority=5, nominated="n"))
    plain = server.request

    def request(method, path, body=None, *more, **options):
        """Answer that the less important pod has gone."""
        if method == "PATCH" and "/low/" in path:
            raise error_of(404, "not found")
        return plain(method, path, body, *more, **options)

    server.request = request
    make_pass(a_live_cluster(server), built())
    assert [body["involvedObject"]["name"] for *_, body in server.sent("POST", "/events")
            if body["reason"] == "Preempted"] == ["a"]


def two_victims():
    """An API server with a node from which two pods have to go for a third one; a fourth one is nominated there."""
    return Server(node("n", cpu="2"), running("a", "n", labels=A), running("b", "n"), incoming("2"),
                  incoming(name="low", priority=5, nominated="n", preemptionPolicy="Never"))


def preempted(server):
    """What was asked of a server: whom to delete, whose condition to say so, whom to tell, and where pods are nominated."""
    patches = [(path.split("/")[-2], body["status"]) for _, path, _, body in server.sent("PATCH", "/status")]
    return {"deleted": [path.rpartition("/")[2] for method, path, *_ in server.requests if method == "DELETE"],
            "marked": [name for name, status in patches if status.get("conditions", [{}])[0].get("type") == "DisruptionTarget"],
            "told": sorted({body["involvedObject"]["name"] for *_, body in server.sent("POST", "/events") if body["reason"] == "Preempted"}),
            "nominated": {name: status["nominatedNodeName"] for name, status in patches if "nominatedNodeName" in status}}


def preempts_once(server, **more):
    """Make a pass; return what was decided about the pod that needs room, and in memory the nominations after it."""
    cluster = a_cluster(server, **more)
    decisions = {decision.pod.name: decision for decision in make_pass(cluster, built())}
    return decisions["p"], {other.name: other.nominated_node for other in cluster.snapshot.nominated}


NOMINATED = {"p": "n"}
NOBODY_GOES = {"deleted": [], "marked": [], "told": [], "nominated": {"low": None, "p": "n"}}
ALL_GO = NOBODY_GOES | {"deleted": ["a", "b"], "marked": ["a", "b"], "told": ["a", "b"]}
A_HAS_GONE = NOBODY_GOES | {"deleted": ["a", "b"], "marked": ["a", "b"], "told": ["a"]}
WITHDRAWN = NOBODY_GOES | {"nominated": {"low": None, "p": None}}


def is_pod(**more):
    """What an API server may answer to the nomination: the pod as it is by now."""
    return {"kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "uid-p", **more.pop("metadata", {})}, "spec": more}


@table("failures, done, nominated", {
    "nothing fails": ({}, ALL_GO, NOMINATED),
    "the pod has gone": ({"p": [404]}, NOBODY_GOES, {}),
    "another pod has its name": ({"p": [409]}, NOBODY_GOES, {}),
    "the pod is bound by now": ({"p": [is_pod(nodeName="m")]}, NOBODY_GOES, {}),
    "the pod is being deleted": ({"p": [is_pod(metadata=GOING)]}, NOBODY_GOES, {}),
    "the pod still waits": ({"p": [is_pod()]}, ALL_GO, NOMINATED),
    "nobody answers about it": ({"p": [0]}, NOBODY_GOES, {}),
    "where it is nominated cannot be written": ({"p": [500] * 3}, NOBODY_GOES, {}),
    "the API server fails twice to write that": ({"p": [500, 500]}, ALL_GO, NOMINATED),
    "the last victim has gone": ({"b": [404]}, ALL_GO, NOMINATED),
    "another pod has the name of a victim by now": ({"b": [409]}, ALL_GO, NOMINATED),
    "the condition of the first cannot be written": ({"a/status": [422]}, WITHDRAWN | {"marked": ["a"]}, {}),
    "the first has gone when its condition is written": ({"a/status": [404]}, ALL_GO, NOMINATED),
    "the first may not be deleted": ({"a": [403]}, WITHDRAWN | {"deleted": ["a"], "marked": ["a"]}, {}),
    "a webhook fails for the first, which is asked for once": ({"a": [500]}, WITHDRAWN | {"deleted": ["a"], "marked": ["a"]}, {}),
    "a webhook fails for the last, which is asked for once": ({"b": [500]}, A_HAS_GONE, NOMINATED),
    "no answer comes to the first deletion": ({"a": [0]}, NOBODY_GOES | {"deleted": ["a"], "marked": ["a"]}, NOMINATED),
    "no answer comes to the last deletion": ({"b": [0]}, A_HAS_GONE, NOMINATED),
    "the last is deleted, and that is answered with a failure": ({"b": [(500, True)]}, A_HAS_GONE, NOMINATED),
    "an event cannot be written at first": ({"events": [500] * 3}, ALL_GO, NOMINATED),
    "the less important pod has gone": ({"low": [404]}, ALL_GO, NOMINATED),
    "its nomination cannot be ended": ({"low": [500] * 3}, NOBODY_GOES | {"nominated": {"low": None}}, {"low": "n"}),
})
def test_what_is_deleted_and_what_is_kept_in_mind_when_a_request_fails(failures, done, nominated, monkeypatch):
    """Each victim is deleted once, after the pod that needs its room is nominated, and while that pod still waits."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    server = two_victims()
    server.failures |= {name: [*answers] for name, answers in failures.items()}
    plain = server.request

    def request(method, path, body=None, *more, **options):
        """Fail by the name of the pod: writes of its nomination, of another condition (NAME/status), or its deletion."""
        name = path.split("/")[6] if path.count("/") > 5 else ""
        what = f"{name}/status" if name in ("a", "b") and method == "PATCH" else name
        is_of_script = method == "PATCH" and "PodScheduled" in json.dumps(body)
        answers = server.failures.get(what) if path.count("/") > 6 and not is_of_script else None
        if method == "PATCH" and answers:
            failure = answers.pop(0)
            server.requests.append((method, path, {}, body))
            if isinstance(failure, dict):
                return failure
            raise error_of(failure, f"status {failure}")
        return plain(method, path, body, *more, **options)

    server.request = request
    decision, kept = preempts_once(server)
    assert (preempted(server), kept) == (done, nominated)
    assert bool(decision.remedy) == (done == ALL_GO)


def test_that_nobody_may_be_deleted_is_one_line(monkeypatch, caplog):
    replace(monkeypatch, "WARNED", {})
    server = Server(node("n", cpu="2"), running("a", "n"), running("b", "n"), incoming(), incoming(name="q"))
    carry_out = server.request

    def request(method, path, *more, **options):
        """Answer as an API server whose RBAC does not allow it."""
        if method == "DELETE":
            raise error_of(403, f"DELETE {path}: 403 Forbidden: RBAC does not allow it")
        return carry_out(method, path, *more, **options)

    server.request = request
    cluster = a_cluster(server)
    for _ in range(3):
        decisions = make_pass(cluster, built())
        cluster.pending.end_backoff()
    assert caplog.messages == ["DELETE /api/v1/namespaces/default/pods/a: 403 Forbidden: RBAC does not allow it"] or caplog.messages == [
        "DELETE /api/v1/namespaces/default/pods/b: 403 Forbidden: RBAC does not allow it"]
    assert not any(decision.remedy for decision in decisions)
    assert cluster.snapshot.nominated == [] and cluster.has_failed(), "so that others have the room that there is"


@table("asked, deleted", {
    "before all": (0, []), "after the nominations": (2, []), "after the condition of the first": (3, []), "after its deletion": (4, ["a"]),
    "after the condition of the last": (5, ["a"]), "after its deletion, too": (6, ["a", "b"])})
def test_a_replica_that_does_not_lead_any_more_deletes_nobody_else(asked, deleted):
    server = two_victims()
    cluster, sent = a_cluster(server), []
    plain = cluster.writer.attempt

    def attempt(method, path, body=None):
        """Lead for so many requests of the preemption."""
        is_counted = not path.endswith("/events") and "PodScheduled" not in json.dumps(body)
        cluster.writer.may_write = lambda: len(sent) < asked or not is_counted
        answer = plain(method, path, body)
        if is_counted:
            sent.append(path)
        return answer

    cluster.writer.attempt = attempt
    make_pass(cluster, built())
    assert preempted(server)["deleted"] == deleted


def test_a_budget_forbids_nothing():
    """As upstream: it says who is missed most."""
    server = two_victims()
    server.put(budget(0))
    decision, _ = preempts_once(server)
    assert preempted(server) == ALL_GO and decision.remedy


@table("policies, nominated, at_once", {
    "under a Policy at once, like 1.20": (built, None, True),
    "under a Policy after its backoff, if its victim was recreated on its nominated node": (built, "n", False),
    "under a Policy at once, if it is nominated to another node now": (built, "gone", True),
    "under a configuration after its backoff": (configured, None, False)})
def test_when_a_pod_is_tried_again_that_has_preempted(policies, nominated, at_once):
    server = Server(node("n", cpu="1"), running("a", "n"), incoming(nominated=nominated))
    cluster = a_cluster(server)
    make_pass(cluster, policies())
    assert preempted(server)["deleted"] == ["a"]
    [record] = cluster.pending.values()
    assert (record.waits_for, record.is_due()) == (WaitsFor.NODE, at_once)


def test_a_pod_whose_victims_are_being_asked_to_go_is_not_tried_meanwhile():
    server, asked, go_on = Server(node("n", cpu="2"), running("a", "n"), running("b", "n"), incoming("2")), threading.Event(), threading.Event()
    plain = server.request

    def request(method, path, *more, **options):
        """Be slow to delete the first."""
        if method == "DELETE" and not asked.is_set():
            asked.set()
            go_on.wait(60)
        return plain(method, path, *more, **options)

    server.request = request
    cluster = a_cluster(server)
    cluster.results.handle = lambda patience=0: None
    a_pass(cluster, built())
    assert asked.wait(60)
    for _ in range(3):
        cluster.pending.end_backoff()
        a_pass(cluster, built())
    [record] = cluster.pending.values()
    assert (record.waits_for, record.retry.attempts) == (WaitsFor.REMEDY, 1)
    go_on.set()
    del cluster.results.handle
    make_pass(cluster, built())
    assert preempted(server)["deleted"] == ["a", "b"]


def test_where_pods_may_not_be_deleted_the_next_best_node_is_tried():
    server = Server(node("m", cpu="1"), node("n", cpu="1"), running("a", "m", 1), running("b", "n", 2), incoming())
    server.failures["a"] = [403]
    cluster, said = a_cluster(server), []
    for _ in range(2):
        said += [decision.remedy for decision in make_pass(cluster, built())]
        cluster.pending.end_backoff()
    assert said == ["", "It preempts default/b on n, where that helps, as pods on m could not be deleted."]
    assert preempted(server)["deleted"] == ["a", "b"]


@table("change", {
    "its annotations": lambda thing: thing["metadata"].update(annotations={"tick": "1"}, resourceVersion="8"),
    "its labels": lambda thing: thing["metadata"].update(labels={"tick": "1"}, resourceVersion="8")})
def test_a_victim_that_changes_all_the_time_is_still_a_victim(change):
    server = Server(node("n", cpu="1"), running("a", "n", -10, metadata={"resourceVersion": "7"}), incoming())
    plain = server.request

    def request(method, path, *more, **options):
        """Change it just before it is deleted."""
        if method == "DELETE":
            change(server.objects["pods", "default", "a"])
        return plain(method, path, *more, **options)

    server.request = request
    preempts_once(server)
    assert preempted(server)["deleted"] == ["a"]


@table("policies, deleted, said", {
    "under a Policy it is deleted, as by 1.20": (built, ["low"], []),
    "under a configuration it is rejected from waiting": (configured, [], ["preempted"])})
def test_a_victim_that_waits_for_permit(policies, deleted, said, monkeypatch):
    held = FullRule("Hold", lambda pod, node: (), plugin="Hold", hooks={
        "permit": lambda pod, node, snapshot: 600 if pod.name == "low" else None})
    server = Server(node("n", cpu="1"), incoming(name="low", priority=0))
    cluster, [policy] = a_cluster(server), policies().values()
    policy.others.append(held)
    make_pass(cluster, {"my-scheduler": policy})
    server.put(incoming())
    for _ in range(3):
        make_pass(cluster, {"my-scheduler": policy})
        cluster.pending.end_backoff()
    wait_until_told(cluster)
    assert preempted(server)["deleted"] == deleted and preempted(server)["told"] == ["low"]
    assert server.places() == {"p": "n"}
    assert [body["message"] for *_, body in server.sent("POST", "/events")
            if body["reason"] == "FailedScheduling" and body["message"] == "preempted"] == said


@table("status, victims", {
    "which its controller has not counted yet": ({"observedGeneration": 1}, ["a1", "b2", "b3"]),
    "which nobody counts": ({}, ["a1", "a2", "a3"])})
@table("version", {"of policy/v1": "v1", "of policy/v1beta1": "v1beta1"})
def test_what_a_budget_allows_is_counted_down_as_pods_of_one_pass_preempt(version, status, victims):
    """On each of three nodes a pod of the budget is the better choice, as long as that does not violate it."""
    objects = [budget(1, **status)]
    for i in (1, 2, 3):
        objects += [node(f"n{i}", cpu="2", labels={"n": str(i)}), running(f"a{i}", f"n{i}", 1, labels=A), running(f"b{i}", f"n{i}", 2),
                    incoming(name=f"p{i}", nodeSelector={"n": str(i)})]
    server = Server(*objects)
    plain = server.request

    def request(method, path, *more, **options):
        """Answer as an API server that has this version only."""
        if "/policy/" in path and f"/{version}/" not in path:
            raise error_of(404, "not found")
        return plain(method, path, *more, **options)

    server.request = request
    make_pass(a_cluster(server), built())
    assert sorted(preempted(server)["deleted"]) == victims


def test_a_waiting_pod_that_is_being_deleted_is_skipped_with_an_event():
    server = Server(node("n"), pod("p", metadata=GOING))
    cluster = a_cluster(server)
    for _ in range(2):
        make_pass(cluster, built())
    assert [(body["reason"], body["message"]) for *_, body in server.sent("POST", "/events")] == [
        ("FailedScheduling", "skip schedule deleting pod: default/p")]
    assert not server.sent("PATCH", "/status") and server.places() == {}


OWN_RULE = {"multiPoint": {"enabled": [{"name": "Mine"}]}}
OWN_POINT = {"postFilter": {"enabled": [{"name": "Mine"}]}}


@table("policies", {
    "under a Policy": [lambda: built(POLICY | {"predicates": [*POLICY["predicates"], {"name": "Mine"}]})],
    "under a configuration": [lambda: configured(plugins=OWN_RULE)],
    "under one that enables it at this point only": [lambda: configured(plugins=OWN_POINT)]})
@table("answer, victims, said", {
    "a remedy of its own is what is done": (([], "Mine."), [], "Mine."),
    "without one, somebody has to go": (None, ["a"], "It preempts default/a on n, where that helps.")})
def test_a_post_filter_of_ones_own_is_asked_first(policies, answer, victims, said, monkeypatch):
    def mine(pod, node):
        """It has nothing against any node."""
        return ()

    rule = FullRule("Mine", mine, hooks={"post_filter": lambda *_: answer}, plugin="Mine")
    monkeypatch.setitem(PREDICATES, "Mine", rule)
    decision, _ = decide([node("n", cpu="1"), running("a", "n"), incoming()], policies[0]())
    assert (list(sent(decision, "DELETE", "/pods/(.*)")), decision.remedy) == (victims, said)


def test_in_a_dry_run_nobody_goes():
    server = two_victims()
    decision, kept = preempts_once(server, dry_run=True)
    assert {method for method, *_ in server.requests} == {"GET"}
    assert decision.remedy and kept == {"p": "n"}


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


@table("policies, condition, waits", {
    "in 1.20 for all that go": (built(), None, True),
    "today not for those that go anyway": (configured(), None, False),
    "... nor that are evicted": (configured(), {"status": "True", "reason": "EvictionByEvictionAPI"}, False),
    "... nor whose condition is no longer true": (configured(), {"status": "False", "reason": "PreemptionByScheduler"}, False),
    "... but for those that go by a preemption": (configured(), {"status": "True", "reason": "PreemptionByScheduler"}, True)})
def test_for_whom_a_nominated_pod_waits(policies, condition, waits):
    leaving = running("a", "n", metadata=GOING)
    leaving["status"]["conditions"] = [{"type": "DisruptionTarget"} | condition] if condition else []
    decision, _ = decide([node("n", cpu="2"), leaving, running("b", "n", 5), incoming("2", nominated="n")], policies)
    assert decision.remedy.startswith("It waits") == waits
    assert list(sent(decision, "DELETE", "/pods/(.*)")) == ([] if waits else ["b"])


@table("policies, text", {"in 1.20": (built(), "Preempted by default/p on node n"),
                          "today": (configured(), "Preempted by pod default/p on node n")})
def test_what_a_victim_is_told(policies, text):
    decision, _ = decide([node("n", cpu="1"), running("a", "n"), incoming()], policies)
    assert [body["message"] for _, path, body in decision.requests if path.endswith("/events")] == [text]


@table("arguments, victims, said", {
    "a provider": (["--policy", "DefaultProvider", "--preempt"], 1, ""),
    "a Policy": (["--policy", "{policy}", "--preempt"], 1, ""),
    "a Policy without it": (["--policy", "{policy}"], 0, "to do so, too: --preempt, or Preemption among the predicates"),
    "a configuration": (["--policy", "{config}"], 1, ""),
    "a configuration that disables it": (["--policy", "{off}"], 0, ""),
    "... which the option does not overrule": (["--policy", "{off}", "--preempt"], 0, "--preempt changes nothing")})
def test_who_preempts_by_which_options(tmp_path, arguments, victims, said):
    files = {"policy": {"kind": "Policy", "apiVersion": "v1"}, "config": configuration(), "off": configuration(**OFF)}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "cluster").write_text(json.dumps({"kind": "List", "items": [
        node("n", cpu="1"), running("a", "n", metadata={"uid": "a"}), incoming(metadata={"uid": "p"})]}))
    paths = {name: tmp_path / name for name in files}
    run = run_scheduler(*(argument.format(**paths) for argument in arguments), "--cluster", tmp_path / "cluster")
    assert run.stdout.count("It preempts default/a on n") == victims and ("default/p -> n" in run.stdout) == bool(victims)
    assert said in run.stderr and bool(said) == bool(run.stderr)


def test_in_which_order_the_requests_are_sent():
    """The room is kept before anybody makes it."""
    decision, _ = decide([node("n", cpu="2"), running("a", "n", metadata={"resourceVersion": "7"}), running("b", "n", namespace="red"), incoming("2"),
                          incoming(name="low", priority=5, nominated="n")])
    steps = [(method, path.removeprefix("/api/v1/namespaces/")) for method, path, _ in decision.requests]
    assert steps == [
        ("PATCH", "default/pods/low/status"), ("PATCH", "default/pods/p/status"),
        ("PATCH", "default/pods/a/status"), ("DELETE", "default/pods/a"), ("POST", "default/events"),
        ("PATCH", "red/pods/b/status"), ("DELETE", "red/pods/b"), ("POST", "red/events")]
    _, _, disruption, deletion, event, *_ = [body for _, _, body in decision.requests]
    [condition] = disruption["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
        "DisruptionTarget", "True", "PreemptionByScheduler",
        "my-scheduler: preempting to accommodate a higher priority pod"), "so that a Job does not count it as failed"
    assert disruption["metadata"] == {"uid": "default/a"}
    assert deletion == {"preconditions": {"uid": "default/a"}}, "whatever else has changed, with the pod's own grace period"
    assert (event["reason"], event["message"], event["involvedObject"]["name"], event["source"]["component"]) == (
        "Preempted", "Preempted by default/p on node n", "a", "my-scheduler")


def test_budgets_are_looked_up_once(monkeypatch):
    asked, plain = [], Manifests.request

    def request(api, method, path, *more):
        """Answer as an API server that has no policy/v1."""
        asked.append(path)
        if path.startswith("/apis/policy/v1/"):
            raise error_of(404, "not found")
        return plain(api, method, path, *more)

    monkeypatch.setattr(Manifests, "request", request)
    decision, _ = decide([node("n", cpu="2"), running("a", "n"), running("b", "n", labels=A), budget(0), incoming()])
    assert sorted(sent(decision, "DELETE", "/pods/(.*)")) == ["a"]
    assert [path for path in asked if "policy" in path] == [
        f"/apis/policy/{version}/poddisruptionbudgets" for version in ("v1", "v1beta1")]


@table("nominated, message", {
    "a more important pod's is left to it": (incoming(name="q", priority=20, nominated="n"), "1 Insufficient cpu"),
    "an equally important pod's, too": (incoming(name="q", nominated="n"), "1 Insufficient cpu"),
    "a less important pod's is taken": (incoming(name="q", priority=9, nominated="n"), None),
    "the pod's own is taken": (None, None),
    "another node's is no matter": (incoming(name="q", priority=20, nominated="m"), None),
    "what else is against it counts as well": (
        incoming(name="q", cpu="0", priority=20, nominated="n", labels=A), "1 node(s) didn't match pod affinity"),
    "a bound pod's is there, not nominated": (
        running("q", "n", 20, "0", metadata={"uid": "q"}) | {"status": {"nominatedNodeName": "n"}}, None),
    "a pod's that has had its time there is free": (
        pod("q", {"cpu": "1"}, nodeName="n", priority=20, status={
            "phase": "Succeeded", "nominatedNodeName": "n"}), None),
    "a pod's that has failed without a node is free": (
        pod("q", {"cpu": "1"}, priority=20, status={"phase": "Failed", "nominatedNodeName": "n"}), None),
    "another scheduler's pod's is no matter": (
        incoming(name="q", priority=20, nominated="n", schedulerName="other"), None),
})
def test_the_room_that_a_node_has_for_a_nominated_pod(nominated, message):
    decision, snapshot = decide([node("n", cpu="1", labels=HOST), *([nominated] if nominated else []),
                                 incoming(nominated="n" if nominated is None else None, affinity=apart("a"))])
    assert (decision.message or "").startswith(f"0/1 nodes are available: {message}" if message else "")
    assert (decision.node is None) == (message is not None)
    assert snapshot.nodes["n"].requested["cpu"] == 0


def make_pass(cluster, policies):
    """Make a pass; return the decisions, once all is written."""
    decisions = {}
    a_pass(cluster, policies, lambda decision: decisions.update({id(decision): decision}))
    cluster.results.finish(60)
    return [*decisions.values()]


def test_pods_that_are_nominated_to_one_room_do_not_keep_each_other_from_it():
    """A more important pod, which needed nobody's going, has taken one of the two rooms that were made for them."""
    objects = [node("n", cpu="2"), running("a", "n", 20), incoming(name="p", nominated="n"),
               incoming(name="q", nominated="n")]
    first, second = make_pass(cluster_of(*objects), built())
    assert sent(first, "PATCH", "/pods/(.*)/status") == {
        "p": {"metadata": {"uid": first.pod.uid}, "status": {"nominatedNodeName": None}}}
    assert (second.pod.name, second.node) == ("q", "n")


def test_two_pods_of_one_pass_do_not_count_on_the_same_room():
    objects = [node("m", cpu="1"), node("n", cpu="1"), running("a", "m", 1), running("b", "n", 2),
               incoming(name="p"), incoming(name="q"), incoming(name="r")]
    first, second, third = make_pass(cluster_of(*objects), built())
    assert [list(sent(each, "DELETE", "/pods/(.*)")) for each in (first, second, third)] == [["a"], ["b"], []]


def test_who_needs_the_same_victim_to_go_does_not_delete_it_again():
    objects = [node("n", cpu="2"), running("a", "n", 1), running("b", "n", 2), incoming(name="p"), incoming(name="q")]
    first, second = make_pass(cluster_of(*objects), built())
    assert [list(sent(each, "DELETE", "/pods/(.*)")) for each in (first, second)] == [["a"], ["b"]]
    assert second.remedy == "It preempts default/b, default/a on n, where that helps."


def test_a_decision_is_printed_again_when_it_begins_to_cost_others_something():
    record = PodRecord(None)
    decision, preempting = (FullDecision(None, {}, message="no") for _ in "ab")
    preempting.remedy = "It preempts."
    reported = []
    for each in (decision, decision, preempting, preempting):
        if record.published.show(each):
            reported.append(each)
    assert reported == [decision, preempting]


def command_line(folder, *arguments):
    """Run the command line on manifests: two pods of two schedulers want the room of a third pod."""
    (folder / "policy.json").write_text(json.dumps(POLICY))
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": [
        node("n", cpu="1"), running("a", "n", metadata={"uid": "a"}), incoming(metadata={"uid": "p"}),
        incoming(name="q", schedulerName="other", metadata={"uid": "q"})]}))
    run = run_scheduler("--policy", folder / "policy.json", "--cluster", folder / "cluster.json",
                        *arguments)
    said = [line for line in run.stderr.splitlines() if not line.endswith(": not named here, so not asked")]
    assert (run.returncode, said) == (0, ["dry run: nothing is written"] if "--dry-run" in arguments else [])
    return run.stdout


@table("arguments, text", {
    "in memory, the victim goes, and the pod gets its room": ([], "default/p -> n"),
    "but not in a dry run": (["--dry-run"], "default/p stays pending: 0/1 nodes are available: 1 Insufficient cpu. default/q is left"),
    "nor within a single pass": (["--once"], "default/q is left to other default/p stays pending: 0/1 nodes are available: 1 Insufficient cpu."),
    "who would go is shown for one pod": (["--explain", "p"], "It preempts default/a on n"),
    "and for one of another scheduler's": (["--explain", "q"], "It preempts default/a on n"),
    "and to programs": (["--output=json"], '"remedy": "It preempts default/a on n, where that helps."'),
})
def test_on_the_command_line(tmp_path, arguments, text):
    assert text in " ".join(command_line(tmp_path, *arguments).split())


def test_nobody_preempts_without_the_rule():
    for path in (ROOT / "policy.json", "DefaultProvider"):
        decision, _ = decide([node("n", cpu="1"), running("a", "n"), incoming()],
                             load_policies(path, "my-scheduler"))
        assert (decision.node, decision.requests, decision.remedy) == (None, [], "")


@table("policies, victims", {
    "a Policy has those compared who come first, and first are those whose budgets are violated": (built(), ["a", "b"]),
    "a configuration has the most important ones compared": (configured(), ["c", "d"]),
})
def test_the_file_that_names_it_says_which_kube_scheduler_it_follows(policies, victims):
    """Two nodes with a violated budget each. Upstream: SelectVictimsOnNode, which sorts them at its end today."""
    decision, _ = decide([
        node("m", cpu="2"), node("n", cpu="2"), running("a", "m", 1, labels=A), running("b", "m", 9), budget(0),
        running("c", "n", 5, labels=A), running("d", "n", 5), incoming("2")], policies)
    assert sorted(sent(decision, "DELETE", "/pods/(.*)")) == victims


STALE = [node("n", cpu="1"), incoming("2", 20, nominated="n"), incoming(name="q")]


@table("objects, policies, nominated, places", {
    "under a configuration its room is free at once": (STALE, configured(**OFF), {"p": None}, {"q": "n"}),
    "under a Policy it is kept, as by kube-scheduler 1.20": (
        STALE, built({"kind": "Policy", "apiVersion": "v1"}), {}, {}),
    "room on a node that has gone is no longer kept": (
        [node("n", cpu="1"), incoming("2", 20, nominated="gone")], configured(**OFF), {"p": None}, {}),
    "who is nominated to no node has nothing to give": (
        [node("n", cpu="1"), incoming("2", 20), incoming(name="q")], configured(**OFF), {}, {"q": "n"}),
    "who fits keeps it until it is bound": (
        [node("n", cpu="1"), incoming("1", 20, nominated="n"), incoming(name="q")], configured(**OFF), {}, {"p": "n"}),
    "who waits for victims to go keeps it": (
        [node("n", cpu="1"), victim("a", "n"), incoming("1", 20, nominated="n")], configured(), {}, {}),
    "who makes room elsewhere moves it": (
        [node("m", cpu="2"), running("a", "m"), node("n", cpu="1"), incoming("2", 20, nominated="n")],
        configured(), {"p": "m"}, {}),
    "who finds nobody does not keep it": (STALE, configured(), {"p": None}, {"q": "n"}),
})
def test_the_nomination_of_a_pod_that_fits_nowhere(objects, policies, nominated, places):
    cluster = cluster_of(*objects)
    decisions = make_pass(cluster, policies)
    patches = [sent(decision, "PATCH", "/pods/(.*)/status") for decision in decisions]
    assert {name: body["status"]["nominatedNodeName"] for patch in patches for name, body in patch.items()
            if "nominatedNodeName" in body["status"]} == nominated
    assert {decision.pod.name: decision.node for decision in decisions if decision.node} == places


def test_a_nomination_is_cleared_by_a_request():
    server = Server(*STALE)
    make_pass(a_cluster(server), configured(**OFF))
    assert [body for *_, body in server.sent("PATCH", "/pods/p/status") if "nominatedNodeName" in body["status"]] == [
        {"metadata": {"uid": "uid-p"}, "status": {"nominatedNodeName": None}}]


def test_in_a_dry_run_a_nomination_is_cleared_in_memory():
    server = Server(*STALE)
    cluster = a_cluster(server, dry_run=True)
    assert [decision.node for decision in make_pass(cluster, configured())] == [None, "n"]
    assert {method for method, *_ in server.requests} == {"GET"}


def test_a_nomination_lasts_while_the_api_server_is_in_trouble():
    server = Server(node("n", cpu="1"), incoming(nominated="n", volumes=[
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))
    server.failures["persistentvolumeclaims"] = [503, 503, 503]
    [decision] = make_pass(cluster := a_cluster(server), configured())
    assert (decision.trouble.status, decision.requests) == (503, [])
    assert [each.name for each in cluster.snapshot.nominated] == ["p"]


def test_of_manifests_who_was_tried_before_gets_the_room_that_becomes_free(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(configuration()))
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [
        node("n", cpu="1"), incoming(name="q", metadata={"uid": "q"}), incoming("2", nominated="n", metadata={"uid": "p"})]}))
    run = run_scheduler("--config", tmp_path / "config.json", "--cluster", tmp_path / "cluster.json")
    message = "stays pending: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1"
    assert run.stdout.splitlines()[:3] == [
        f"default/q {message} No preemption victims found for incoming pod.", f"default/p {message} Preemption is not helpful for scheduling.",
        "default/q -> n  (1 of 1 nodes fit, score 398)"]


def random_scenario(seed):
    """Up to four full nodes, who is on them, their budgets, and up to three pods that need room there."""
    chance = random.Random(seed)
    mine = {"scenario": str(seed)}

    def random_pod(name, level, **spec):
        labels = mine | ({"app": app} if (app := chance.choice(["a", "b", ""])) else {})
        if chance.random() < 0.2:
            spec["affinity"] = apart(chance.choice("ab"), **mine)
        thing = pod(name, {"cpu": str(chance.randint(1, 2))}, labels=labels, priorityClassName=level, **spec)
        if chance.random() < 0.1:
            thing["spec"]["containers"][0]["ports"] = PORT[0]["ports"]
        return thing

    nodes, pods = [], []
    for i in range(chance.randint(2, 4)):
        name, room = f"n{seed}-{i}", chance.randint(2, 4)
        nodes.append(node(name, cpu=str(room), labels=mine | {"kubernetes.io/hostname": name},
                          unschedulable=chance.random() < 0.1))
        while room:
            thing = random_pod(f"{name}-{room}", chance.choice([
                "abyss", "low", "low", "low", "middle", "middle", "high", "p30"]), nodeName=name)
            requests = thing["spec"]["containers"][0]["resources"]["requests"]
            requests["cpu"] = str(min(room, int(requests["cpu"])))
            room -= int(requests["cpu"])
            pods.append(thing)
    starts = chance.sample(range(10, 60), len(pods))
    budgets = [budget(chance.randint(0, 2), {"matchLabels": mine | {"app": app}}, name=f"b{seed}-{app}")
               for app in chance.sample("ab", chance.randint(0, 2))]
    levels = chance.sample(["p10", "p30", "p50", "never"], chance.randint(1, 3))
    return nodes, dict(zip(map(lambda thing: thing["metadata"]["name"], pods), starts)), pods, budgets, [
        random_pod(f"p{seed}-{level}", level, nodeSelector=mine) for level in levels]


def contest(control_plane, decide_all):
    """Set 20 scenarios up, side by side, and have them decided. Return who has to go for whom, and the nominations.

    These are such that each step of the choice decides somewhere.
    """
    control_plane.clear()
    api = PooledProxy(control_plane.server)
    api.request("DELETE", BUDGETS)
    incoming = []
    for nodes, starts, pods, budgets, waiting in map(random_scenario, range(12, 32)):
        for thing in [*nodes, *pods, *waiting]:
            api.request("POST", "/api/v1/nodes" if thing in nodes else "/api/v1/namespaces/default/pods", thing)
        incoming += [thing["metadata"]["name"] for thing in waiting]
        for name, start in starts.items():
            api.request("PATCH", f"/api/v1/namespaces/default/pods/{name}/status", {"status": {
                "phase": "Running", "startTime": f"2020-01-01T00:00:{start}Z"}})
        for each in budgets:
            api.request("POST", BUDGETS, {"apiVersion": "policy/v1beta1"} | each)
            api.request("PATCH", f"{BUDGETS}/{each['metadata']['name']}/status", {"status": each["status"]})
    process = decide_all()

    def messages():
        pods = control_plane.pods()
        said = {name: [condition.get("message") for condition in pods[f"default/{name}"]["status"].get(
            "conditions", [])] for name in incoming}
        return all(said.values()) and said

    def told():
        events = control_plane.get("events", params={"fieldSelector": "reason=Preempted"})["items"]
        return sorted((event["involvedObject"]["name"], event["message"]) for event in events)

    answer = {"messages": wait_for("all have been decided about", messages)}
    pods = control_plane.pods().values()
    answer["victims"] = sorted(thing["metadata"]["name"] for thing in pods if "deletionTimestamp" in thing["metadata"])
    wait_for("the victims are told", lambda: {name for name, _ in told()} == {*answer["victims"]})
    if process:
        process.kill()
        process.wait()
    return answer | {"events": told(), "nominated": {
        thing["metadata"]["name"]: thing["status"]["nominatedNodeName"] for thing in pods
        if "nominatedNodeName" in thing["status"]}}


def test_it_preempts_as_kube_scheduler_does(contested, tmp_path):
    """The same contested clusters for both, one after the other, in which no two answers are equally good.

    It takes over 10 s, as it makes hundreds of objects, twice.
    """
    theirs, ours, decisions = tmp_path / "theirs.json", tmp_path / "ours.json", []
    theirs.write_text(json.dumps({name: POLICY[name] for name in ("kind", "apiVersion")}))
    ours.write_text(json.dumps(POLICY))

    def by_kube_scheduler():
        return contested.start(
            "kube-scheduler", f"--kubeconfig={contested.kubeconfig()}", "--leader-elect=false", "--port=0",
            "--secure-port=0", "--scheduler-name=my-scheduler", "--kube-api-qps=5000", "--kube-api-burst=5000",
            f"--policy-config-file={theirs}")

    def by_us():
        run = run_scheduler("--server", contested.server, "--policy", ours, "--once",
                            "--output=json")
        said = [line for line in run.stderr.splitlines() if "is slow" not in line]  # as on a busy machine it may
        assert run.returncode == 0 and len(said) == 1 and said[0].startswith("my-scheduler: watching "), said
        decisions.extend(map(json.loads, run.stdout.splitlines()))

    answer, expected = contest(contested, by_us), contest(contested, by_kube_scheduler)
    assert {*answer.pop("events")} <= {*expected.pop("events")}, "which tells those again who are going already"
    assert answer == expected
    assert len(answer["victims"]) > 20 and len(answer["nominated"]) > 15
    words = [*zip(WHY, WHY_ONE)]
    reasons = Counter(why for decision in decisions for why, of_one in words if why in decision["remedy"] or of_one in decision["remedy"])
    assert reasons.keys() == set(WHY), "each step has decided somewhere"
    assert any(not decision["remedy"] for decision in decisions)


def test_in_the_end_the_most_important_pods_run(contested, tmp_path, start_scheduler):
    """180 pods of four priorities, in no order, onto room for 60; the unimportant ones come first more often.

    It takes over 10 s, as many are preempted, again and again.
    """
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    contested.create(*(node(f"n{i}", cpu="10") for i in range(6)))
    chance, api = random.Random(1), PooledProxy(contested.server)
    start_scheduler("--server", contested.server, "--policy", tmp_path / "policy.json",
                    "--interval=0.1")
    levels = sorted(["low", "middle", "high", "p10"] * 45, key=lambda level: LEVELS[level] + chance.randint(0, 150))
    for i, level in enumerate(levels):
        api.request("POST", "/api/v1/namespaces/default/pods", pod(
            f"{level}-{i}", {"cpu": "1"}, priorityClassName=level, terminationGracePeriodSeconds=0))
        if i % 30 == 29:
            threading.Event().wait(0.5)
    best = {"p10": 45, "high": 15}
    wait_for("the 60 most important run", lambda: Counter(
        key.partition("/")[2].partition("-")[0] for key in contested.places()) == best, 300)
    threading.Event().wait(2)  # in which nobody else goes
    pods = contested.pods().values()
    bound = [thing for thing in pods if thing["spec"].get("nodeName")]
    assert Counter(thing["spec"]["priorityClassName"] for thing in bound) == best
    assert Counter(thing["spec"]["nodeName"] for thing in bound) == {f"n{i}": 10 for i in range(6)}
    gone = {f"default/{level}-{i}" for i, level in enumerate(levels)} - contested.pods().keys()
    assert {key for key, *_ in contested.events("Preempted")} == gone, "nobody has gone without being told why"
    assert 0 < len(gone) <= 120
    for victim, text, _ in contested.events("Preempted"):
        lower, higher = re.findall("default/([a-z0-9]+)-", f"{victim} {text}")
        assert LEVELS[lower] < LEVELS[higher]
    wait_for("for each that has gone, another one runs", lambda: len(contested.events("Scheduled")) == 60 + len(gone))


def test_the_room_is_kept_until_the_victims_have_gone(contested, tmp_path, start_scheduler):
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    arguments = ["--server", contested.server, "--policy", tmp_path / "policy.json"]
    contested.create(node("n", cpu="2"), *(pod(name, {"cpu": "1"}, priorityClassName=name) for name in ("low", "high")))
    run_scheduler(*arguments, "--once")
    contested.create(pod("p30", {"cpu": "1"}, priorityClassName="p30"))
    run = run_scheduler(*arguments, "--once", "--dry-run")
    assert "It preempts default/low on n, where that helps." in run.stdout
    assert run_scheduler(*arguments, "--explain", "default/p30").stdout.count("preempts") == 1
    assert not any("deletionTimestamp" in thing["metadata"] for thing in contested.pods().values())
    assert not contested.events("Preempted")

    start_scheduler(*arguments, "--interval=0.1")
    wait_for("the victim goes", lambda: "deletionTimestamp" in contested.pods()["default/low"]["metadata"])
    contested.create(pod("p10", {"cpu": "1"}, priorityClassName="p10"))
    wait_for("the next one is told, too", lambda: len(contested.events("Preempted")) == 2)
    [condition] = [each for each in contested.pods()["default/low"]["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler"), "so that a Job does not count it as failed"
    threading.Event().wait(1)
    assert contested.pods()["default/p30"]["status"]["nominatedNodeName"] == "n"
    assert sorted(contested.events("Preempted")) == [
        ("default/high", "Preempted by default/p10 on node n", "my-scheduler"),
        ("default/low", "Preempted by default/p30 on node n", "my-scheduler")]
    contested.create(pod("middle", {"cpu": "1"}, priorityClassName="middle"))
    for name in ("low", "high"):  # as kubelet does when its containers have ended
        contested.request("DELETE", f"namespaces/default/pods/{name}", params={"gracePeriodSeconds": 0})
    wait_for("those have the room whom it was made for", lambda: contested.places() == {
        "default/p30": "n", "default/p10": "n"})


def test_the_room_of_a_stale_nomination_is_free_again(contested, tmp_path):
    """It was there before this script was started, and nobody makes room."""
    (tmp_path / "config.json").write_text(json.dumps(configuration()))
    contested.create(node("n", cpu="1"), pod("p30", {"cpu": "2"}, priorityClassName="p30"),
                     pod("p10", {"cpu": "1"}, priorityClassName="p10"))
    contested.request("PATCH", "namespaces/default/pods/p30/status", {"status": {"nominatedNodeName": "n"}},
                      headers={"Content-Type": "application/merge-patch+json"})
    run = run_scheduler("--server", contested.server, "--config", tmp_path / "config.json",
                        "--scheduler-name=my-scheduler", "--once")
    assert run.returncode == 0, run.stderr
    assert contested.places() == {"default/p10": "n"}
    assert "nominatedNodeName" not in contested.pods()["default/p30"]["status"]


def test_another_replica_goes_on_where_one_has_stopped(contested, tmp_path):
    """All is in the cluster: who is nominated, and who has still to go."""
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    arguments = ["--server", contested.server, "--policy", tmp_path / "policy.json", "--once"]
    contested.create(node("n", cpu="2"), pod("low", {"cpu": "1"}, priorityClassName="low"))
    contested.bind("low", "n")
    contested.create(pod("p30", {"cpu": "2"}, priorityClassName="p30"))
    run_scheduler(*arguments)
    contested.create(pod("p10", {"cpu": "1"}, priorityClassName="p10"))
    run = run_scheduler(*arguments)
    why = "stays pending: 0/1 nodes are available: 1 Insufficient cpu."
    assert run.stdout.splitlines() == [
        f"default/p30 {why} It waits until the pods that are being deleted on n have gone.", f"default/p10 {why}"]
    contested.request("DELETE", "namespaces/default/pods/low", params={"gracePeriodSeconds": 0})
    run_scheduler(*arguments)
    assert contested.places() == {"default/p30": "n"}


@table("manifests, victims, said", {
    "without them it says so, and nobody goes": (MANIFESTS, [], "RBAC does not allow it: poddisruptionbudgets"),
    "with them it works": (MANIFESTS.replace("# - {", "- {"), ["default/low"], ""),
})
def test_it_needs_the_two_rights_that_the_readme_names(contested, tmp_path, manifests, victims, said):
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    kubectl = [contested.assets / "kubectl", "--kubeconfig", contested.kubeconfig()]
    subprocess.run([*kubectl, "apply", "-f", "-"], input=manifests, text=True, check=True, capture_output=True)
    token = contested.request("POST", "namespaces/kube-system/serviceaccounts/my-scheduler/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
    contested.create(node("n", cpu="1"), pod("low", {"cpu": "1"}, priorityClassName="low"))
    contested.bind("low", "n")
    contested.create(pod("p30", {"cpu": "1"}, priorityClassName="p30"))
    port = free_port()
    proxy = contested.start(
        "kubectl", "--kubeconfig", contested.kubeconfig("my-scheduler", token), "proxy", f"--port={port}")
    arguments = ["--server", f"http://127.0.0.1:{port}", "--policy", tmp_path / "policy.json"]
    try:
        wait_for("the proxy answers", lambda: "cannot reach" not in run_scheduler(
            *arguments, "--once", "--dry-run").stderr)
        run = run_scheduler(*arguments, "--once")
    finally:
        proxy.kill()
        proxy.wait()
    assert ("orbidden" in run.stderr) == bool(said) == run.returncode and said in run.stderr
    assert [key for key, thing in contested.pods().items() if "deletionTimestamp" in thing["metadata"]] == victims
    assert [key for key, *_ in contested.events("Preempted")] == victims
    subprocess.run([*kubectl, "delete", "--wait=false", "-f", "-"], input=MANIFESTS, text=True, check=True,
                   capture_output=True)
