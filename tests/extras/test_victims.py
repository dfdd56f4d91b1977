"""Victims: their deletion, condition and event, and the state of the cluster until they are gone."""

import json
import threading
import time

from helpers.control_plane import wait_for
from helpers.extras import (
    ROOT,
    new_cluster,
    new_live_cluster,
    node,
    pod,
    run_pass,
    run_scheduler,
    table,
    wait_for_writes,
)
from helpers.fake_api import Server, without_streams
from helpers.policies import load_policies
from helpers.preempting import (
    POLICY,
    TERMINATING,
    A,
    budget,
    built,
    configured,
    decide,
    incoming,
    make_pass,
    running,
    sent,
)
from scheduler_extras.api.responses import error_of
from scheduler_extras.deciding.rule import PREDICATES, FullRule
from scheduler_extras.live.pod_record import WaitsFor
from scheduler_extras.manifests.manifests import Manifests


@table("kind", {"that is watched": [new_live_cluster], "that is listed": [new_cluster]})
def test_a_rejected_deletion_is_retried_in_the_next_attempt_on_a_cluster(kind, monkeypatch):
    without_streams(monkeypatch)
    server = Server(node("n", cpu="1"), running("a", "n"), incoming())
    server.failures["a"] = [403]
    cluster = kind[0](server)
    for _ in range(2):
        make_pass(cluster, built())
        cluster.queue.end_backoff()
    assert len(server.sent("DELETE", "/pods/a")) == 2
    assert [body["status"]["nominatedNodeName"] for *_, body in server.sent("PATCH", "/pods/p/status")
            if "nominatedNodeName" in body["status"]] == ["n", None, "n"]


def test_a_rejected_deletion_is_retried_after_another_preemptor_has_ended_the_nomination():
    server = Server(node("n", cpu="1"), running("a", "n"), incoming())
    server.failures["a"] = [403]
    cluster = new_cluster(server)
    plain = server.request

    def request(method, *more, **options):
        """End the nomination before a deletion is answered."""
        if method == "DELETE":
            cluster.snapshot.nominated = []
        return plain(method, *more, **options)

    server.request = request
    for _ in range(2):
        make_pass(cluster, built())
        cluster.queue.end_backoff()
    assert len(server.sent("DELETE", "/pods/a")) == 2


def test_a_victim_gets_its_event_even_if_a_lower_nominated_pod_is_gone():
    server = Server(node("n", cpu="1"), running("a", "n"), incoming(), incoming(name="low", priority=5, nominated="n"))
    plain = server.request

    def request(method, path, body=None, *more, **options):
        """Answer that the pod of lower priority is gone."""
        if method == "PATCH" and "/low/" in path:
            raise error_of(404, "not found")
        return plain(method, path, body, *more, **options)

    server.request = request
    make_pass(new_live_cluster(server), built())
    assert [body["involvedObject"]["name"] for *_, body in server.sent("POST", "/events")
            if body["reason"] == "Preempted"] == ["a"]


def two_victims():
    """An API server with a node on which a pod preempts two others; a fourth pod is nominated there."""
    return Server(node("n", cpu="2"), running("a", "n", labels=A), running("b", "n"), incoming("2"),
                  incoming(name="low", priority=5, nominated="n", preemptionPolicy="Never"))


def preempted(server):
    """Return the pods that a server was asked to delete, to mark with a condition and to notify, and the nominations."""
    patches = [(path.split("/")[-2], body["status"]) for _, path, _, body in server.sent("PATCH", "/status")]
    return {"deleted": [path.rpartition("/")[2] for method, path, *_ in server.requests if method == "DELETE"],
            "marked": [name for name, status in patches if status.get("conditions", [{}])[0].get("type") == "DisruptionTarget"],
            "notified": sorted({body["involvedObject"]["name"] for *_, body in server.sent("POST", "/events") if body["reason"] == "Preempted"}),
            "nominated": {name: status["nominatedNodeName"] for name, status in patches if "nominatedNodeName" in status}}


def preempts_once(server, **more):
    """Run a pass; return the decision about the preemptor, and the nominations in the snapshot after it."""
    cluster = new_cluster(server, **more)
    decisions = {decision.pod.name: decision for decision in make_pass(cluster, built())}
    return decisions["p"], {other.name: other.nominated_node for other in cluster.snapshot.nominated}


NOMINATED = {"p": "n"}
NONE_DELETED = {"deleted": [], "marked": [], "notified": [], "nominated": {"low": None, "p": "n"}}
ALL_DELETED = NONE_DELETED | {"deleted": ["a", "b"], "marked": ["a", "b"], "notified": ["a", "b"]}
ONLY_A_IS_KNOWN = NONE_DELETED | {"deleted": ["a", "b"], "marked": ["a", "b"], "notified": ["a"]}
WITHDRAWN = NONE_DELETED | {"nominated": {"low": None, "p": None}}


def is_pod(**more):
    """A possible answer to the nomination: the current pod."""
    return {"kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "uid-p", **more.pop("metadata", {})}, "spec": more}


@table("failures, done, nominated", {
    "nothing fails": ({}, ALL_DELETED, NOMINATED),
    "the pod is gone": ({"p": [404]}, NONE_DELETED, {}),
    "another pod has its name": ({"p": [409]}, NONE_DELETED, {}),
    "the pod is already bound": ({"p": [is_pod(nodeName="m")]}, NONE_DELETED, {}),
    "the pod is being deleted": ({"p": [is_pod(metadata=TERMINATING)]}, NONE_DELETED, {}),
    "the pod is still pending": ({"p": [is_pod()]}, ALL_DELETED, NOMINATED),
    "no answer comes to the nomination": ({"p": [0]}, NONE_DELETED, {}),
    "the nomination cannot be written": ({"p": [500] * 3}, NONE_DELETED, {}),
    "the API server fails twice to write the nomination": ({"p": [500, 500]}, ALL_DELETED, NOMINATED),
    "the last victim is gone": ({"b": [404]}, ALL_DELETED, NOMINATED),
    "another pod has the name of a victim": ({"b": [409]}, ALL_DELETED, NOMINATED),
    "the condition of the first cannot be written": ({"a/status": [422]}, WITHDRAWN | {"marked": ["a"]}, {}),
    "the first is gone when its condition is written": ({"a/status": [404]}, ALL_DELETED, NOMINATED),
    "the deletion of the first is forbidden": ({"a": [403]}, WITHDRAWN | {"deleted": ["a"], "marked": ["a"]}, {}),
    "a webhook fails for the first, which is not retried": ({"a": [500]}, WITHDRAWN | {"deleted": ["a"], "marked": ["a"]}, {}),
    "a webhook fails for the last, which is not retried": ({"b": [500]}, ONLY_A_IS_KNOWN, NOMINATED),
    "no answer comes to the first deletion": ({"a": [0]}, NONE_DELETED | {"deleted": ["a"], "marked": ["a"]}, NOMINATED),
    "no answer comes to the last deletion": ({"b": [0]}, ONLY_A_IS_KNOWN, NOMINATED),
    "the last is deleted, but the answer is a failure": ({"b": [(500, True)]}, ONLY_A_IS_KNOWN, NOMINATED),
    "an event cannot be written": ({"events": [500] * 3}, ALL_DELETED, NOMINATED),
    "the pod of lower priority is gone": ({"low": [404]}, ALL_DELETED, NOMINATED),
    "the nomination of the pod of lower priority cannot be cleared": ({"low": [500] * 3}, NONE_DELETED | {"nominated": {"low": None}}, {"low": "n"}),
})
def test_deletions_and_nominations_when_a_request_fails(failures, done, nominated, monkeypatch):
    """Each victim is deleted once, after the preemptor is nominated and while it is still pending."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    server = two_victims()
    server.failures |= {name: [*answers] for name, answers in failures.items()}
    plain = server.request

    def request(method, path, body=None, *more, **options):
        """Fail writes of a pod's nomination (NAME), or of its other conditions (NAME/status), or its deletion (NAME)."""
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
    assert bool(decision.remedy) == (done == ALL_DELETED)


def test_missing_permission_to_delete_is_logged_once(caplog):
    server = Server(node("n", cpu="2"), running("a", "n"), running("b", "n"), incoming(), incoming(name="q"))
    carry_out = server.request

    def request(method, path, *more, **options):
        """Answer as an API server whose RBAC does not allow it."""
        if method == "DELETE":
            raise error_of(403, f"DELETE {path}: 403 Forbidden: RBAC does not allow it")
        return carry_out(method, path, *more, **options)

    server.request = request
    cluster = new_cluster(server)
    for _ in range(3):
        decisions = make_pass(cluster, built())
        cluster.queue.end_backoff()
    assert caplog.messages == ["DELETE /api/v1/namespaces/default/pods/a: 403 Forbidden: RBAC does not allow it"] or caplog.messages == [
        "DELETE /api/v1/namespaces/default/pods/b: 403 Forbidden: RBAC does not allow it"]
    assert not any(decision.remedy for decision in decisions)
    assert cluster.snapshot.nominated == [] and cluster.has_failed(), "so that other pods can use the free room"


@table("asked, deleted", {
    "at the start": (0, []), "after the nominations": (2, []), "after the condition of the first": (3, []), "after the deletion of the first": (4, ["a"]),
    "after the condition of the last": (5, ["a"]), "after the deletion of the last": (6, ["a", "b"])})
def test_a_replica_deletes_no_more_victims_if_it_loses_the_lease(asked, deleted):
    server = two_victims()
    cluster, sent = new_cluster(server), []
    plain = cluster.writer.request_if_leading

    def attempt(method, path, body=None):
        """Lead only for this many requests of the preemption."""
        is_counted = not path.endswith("/events") and "PodScheduled" not in json.dumps(body)
        cluster.writer.may_write = lambda: len(sent) < asked or not is_counted
        answer = plain(method, path, body)
        if is_counted:
            sent.append(path)
        return answer

    cluster.writer.request_if_leading = attempt
    make_pass(cluster, built())
    assert preempted(server)["deleted"] == deleted


def test_a_budget_does_not_prevent_preemption():
    """As upstream, it only affects the order of the victims."""
    server = two_victims()
    server.put(budget(0))
    decision, _ = preempts_once(server)
    assert preempted(server) == ALL_DELETED and decision.remedy


@table("policies, nominated, at_once", {
    "with a Policy at once, like 1.20": (built, None, True),
    "with a Policy after its backoff, if its victim was recreated on its nominated node": (built, "n", False),
    "with a Policy at once, if it is nominated to another node now": (built, "gone", True),
    "with a configuration after its backoff": (configured, None, False)})
def test_a_preemptor_is_tried_again(policies, nominated, at_once):
    server = Server(node("n", cpu="1"), running("a", "n"), incoming(nominated=nominated))
    cluster = new_cluster(server)
    make_pass(cluster, policies())
    assert preempted(server)["deleted"] == ["a"]
    [record] = cluster.queue.values()
    assert (record.waits_for, record.is_due()) == (WaitsFor.NODE, at_once)


def test_a_pod_is_not_tried_while_its_victims_are_being_deleted():
    server, asked, go_on = Server(node("n", cpu="2"), running("a", "n"), running("b", "n"), incoming("2")), threading.Event(), threading.Event()
    plain = server.request

    def request(method, path, *more, **options):
        """Be slow to delete the first."""
        if method == "DELETE" and not asked.is_set():
            asked.set()
            go_on.wait(60)
        return plain(method, path, *more, **options)

    server.request = request
    cluster = new_cluster(server)
    cluster.results.handle = lambda patience=0: None
    run_pass(cluster, built())
    assert asked.wait(60)
    for _ in range(3):
        cluster.queue.end_backoff()
        run_pass(cluster, built())
    [record] = cluster.queue.values()
    assert (record.waits_for, record.retry.failures) == (WaitsFor.POST_FILTER, 1)
    go_on.set()
    del cluster.results.handle
    make_pass(cluster, built())
    assert preempted(server)["deleted"] == ["a", "b"]


def test_a_victim_whose_binding_fails_stays_a_victim_until_it_is_gone():
    server, go_on = Server(node("n", cpu="1"), incoming(priority=0, name="low")), threading.Event()
    plain = server.request

    def request(method, path, *more, **options):
        """Reject the Binding late, and do not carry out deletions."""
        if path.endswith("/binding"):
            go_on.wait(60)
            raise error_of(403, "no")
        return {"kind": "Pod"} if method == "DELETE" else plain(method, path, *more, **options)

    server.request = request
    cluster = new_cluster(server)
    handle = cluster.results.handle
    cluster.results.handle = lambda patience=0: None
    run_pass(cluster, built())
    server.put(incoming())
    run_pass(cluster, built())
    assert [*cluster.snapshot.victims] == ["uid-low"]
    go_on.set()
    wait_for("the Binding is refused", lambda: handle(1) or cluster.queue["uid-low"].waits_for is WaitsFor.NODE)
    assert [*cluster.snapshot.victims] == ["uid-low"]


def test_if_victims_cannot_be_deleted_the_next_best_node_is_tried():
    server = Server(node("m", cpu="1"), node("n", cpu="1"), running("a", "m", 1), running("b", "n", 2), incoming())
    server.failures["a"] = [403]
    cluster, message = new_cluster(server), []
    for _ in range(2):
        message += [decision.remedy for decision in make_pass(cluster, built())]
        cluster.queue.end_backoff()
    assert message == ["", "It preempts default/b on n, the only node where that helps, as pods on m could not be deleted."]
    assert preempted(server)["deleted"] == ["a", "b"]


@table("change", {
    "its annotations": lambda thing: thing["metadata"].update(annotations={"tick": "1"}, resourceVersion="8"),
    "its labels": lambda thing: thing["metadata"].update(labels={"tick": "1"}, resourceVersion="8")})
def test_a_victim_that_keeps_changing_is_deleted(change):
    server = Server(node("n", cpu="1"), running("a", "n", -10, metadata={"resourceVersion": "7"}), incoming())
    plain = server.request

    def request(method, path, *more, **options):
        """Change the victim just before its deletion."""
        if method == "DELETE":
            change(server.objects["pods", "default", "a"])
        return plain(method, path, *more, **options)

    server.request = request
    preempts_once(server)
    assert preempted(server)["deleted"] == ["a"]


@table("policies, deleted, message", {
    "with a Policy it is deleted, as in 1.20": (built, ["low"], []),
    "with a configuration its wait is rejected": (configured, [], ["preempted"])})
def test_a_victim_that_waits_for_permit(policies, deleted, message, monkeypatch):
    held = FullRule("Hold", lambda pod, node: (), plugin="Hold", hooks={
        "permit": lambda pod, node, snapshot: 600 if pod.name == "low" else None})
    server = Server(node("n", cpu="1"), incoming(name="low", priority=0))
    cluster, [policy] = new_cluster(server), policies().values()
    policy.others.append(held)
    make_pass(cluster, {"my-scheduler": policy})
    server.put(incoming())
    for _ in range(3):
        make_pass(cluster, {"my-scheduler": policy})
        cluster.queue.end_backoff()
    wait_for_writes(cluster)
    assert preempted(server)["deleted"] == deleted and preempted(server)["notified"] == ["low"]
    assert server.placements() == {"p": "n"}
    assert [body["message"] for *_, body in server.sent("POST", "/events")
            if body["reason"] == "FailedScheduling" and body["message"] == "preempted"] == message


@table("status, victims", {
    "with a controller that has not counted them yet": ({"observedGeneration": 1}, ["a1", "b2", "b3"]),
    "without a controller": ({}, ["a1", "a2", "a3"])})
@table("version", {"policy/v1": "v1", "policy/v1beta1": "v1beta1"})
def test_the_allowed_disruptions_of_a_budget_are_counted_down_within_a_pass(version, status, victims):
    """On each of three nodes a pod of the budget is the better victim, unless that violates the budget."""
    objects = [budget(1, **status)]
    for i in (1, 2, 3):
        objects += [node(f"n{i}", cpu="2", labels={"n": str(i)}), running(f"a{i}", f"n{i}", 1, labels=A), running(f"b{i}", f"n{i}", 2),
                    incoming(name=f"p{i}", nodeSelector={"n": str(i)})]
    server = Server(*objects)
    plain = server.request

    def request(method, path, *more, **options):
        """Answer as an API server that serves only this version."""
        if "/policy/" in path and f"/{version}/" not in path:
            raise error_of(404, "not found")
        return plain(method, path, *more, **options)

    server.request = request
    make_pass(new_cluster(server), built())
    assert sorted(preempted(server)["deleted"]) == victims


def test_a_pending_pod_that_is_being_deleted_is_skipped_with_an_event():
    server = Server(node("n"), pod("p", metadata=TERMINATING))
    cluster = new_cluster(server)
    for _ in range(2):
        make_pass(cluster, built())
    assert [(body["reason"], body["message"]) for *_, body in server.sent("POST", "/events")] == [
        ("FailedScheduling", "skip schedule deleting pod: default/p")]
    assert not server.sent("PATCH", "/status") and server.placements() == {}


OWN_RULE = {"multiPoint": {"enabled": [{"name": "Mine"}]}}
OWN_POINT = {"postFilter": {"enabled": [{"name": "Mine"}]}}


@table("policies", {
    "with a Policy": [lambda: built(POLICY | {"predicates": [*POLICY["predicates"], {"name": "Mine"}]})],
    "with a configuration": [lambda: configured(plugins=OWN_RULE)],
    "with a configuration that enables it only at postFilter": [lambda: configured(plugins=OWN_POINT)]})
@table("answer, victims, message", {
    "its own remedy is used": (([], "Mine."), [], "Mine."),
    "without a remedy, a pod is preempted": (None, ["a"], "It preempts default/a on n, the only node where that helps.")})
def test_a_custom_post_filter_runs_first(policies, answer, victims, message, monkeypatch):
    def mine(pod, node):
        """Every node fits."""
        return ()

    rule = FullRule("Mine", mine, hooks={"post_filter": lambda *_: answer}, plugin="Mine")
    monkeypatch.setitem(PREDICATES, "Mine", rule)
    decision, _ = decide([node("n", cpu="1"), running("a", "n"), incoming()], policies[0]())
    assert (list(sent(decision, "DELETE", "/pods/(.*)")), decision.remedy) == (victims, message)


def test_a_dry_run_deletes_no_victim():
    server = two_victims()
    decision, kept = preempts_once(server, dry_run=True)
    assert {method for method, *_ in server.requests} == {"GET"}
    assert decision.remedy and kept == {"p": "n"}


@table("policies, text", {"as in 1.20": (built(), "Preempted by default/p on node n"),
                          "as in 1.36": (configured(), "Preempted by pod default/p on node n")})
def test_the_event_of_a_victim(policies, text):
    decision, _ = decide([node("n", cpu="1"), running("a", "n"), incoming()], policies)
    assert [body["message"] for _, path, body in decision.requests if path.endswith("/events")] == [text]


def test_the_order_of_the_requests():
    """The node is nominated before its pods are deleted."""
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
    assert deletion == {"preconditions": {"uid": "default/a"}}, "regardless of other changes, and with the pod's own grace period"
    assert (event["reason"], event["message"], event["involvedObject"]["name"], event["source"]["component"]) == (
        "Preempted", "Preempted by default/p on node n", "a", "my-scheduler")


def test_budgets_are_looked_up_once(monkeypatch):
    asked, plain = [], Manifests.request

    def request(api, method, path, *more, **options):
        """Answer as an API server without policy/v1."""
        asked.append(path)
        if path.startswith("/apis/policy/v1/"):
            raise error_of(404, "not found")
        return plain(api, method, path, *more)

    monkeypatch.setattr(Manifests, "request", request)
    decision, _ = decide([node("n", cpu="2"), running("a", "n"), running("b", "n", labels=A), budget(0), incoming()])
    assert sorted(sent(decision, "DELETE", "/pods/(.*)")) == ["a"]
    assert [path for path in asked if "policy" in path] == [
        f"/apis/policy/{version}/poddisruptionbudgets" for version in ("v1", "v1beta1")]


def command_line(folder, *arguments):
    """Run the command line on manifests: two pods of two schedulers need the room of a third pod."""
    (folder / "policy.json").write_text(json.dumps(POLICY))
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": [
        node("n", cpu="1"), running("a", "n", metadata={"uid": "a"}), incoming(metadata={"uid": "p"}),
        incoming(name="q", schedulerName="other", metadata={"uid": "q"})]}))
    run = run_scheduler("--policy", folder / "policy.json", "--cluster", folder / "cluster.json",
                        *arguments)
    message = [line for line in run.stderr.splitlines() if not line.endswith(": not named in it, so not used")]
    assert (run.returncode, message) == (0, ["dry run: nothing is written"] if "--dry-run" in arguments else [])
    return run.stdout


@table("arguments, text", {
    "with manifests, the victim is deleted and the pod is placed": ([], "default/p -> n"),
    "not in a dry run": (["--dry-run"], "default/p stays pending: 0/1 nodes are available: 1 Insufficient cpu. default/q belongs"),
    "not within a single pass": (["--once"], "default/q belongs to other default/p stays pending: 0/1 nodes are available: 1 Insufficient cpu."),
    "--explain shows the victims": (["--explain", "p"], "It preempts default/a on n"),
    "--explain shows them for a pod of another scheduler": (["--explain", "q"], "It preempts default/a on n"),
    "the JSON output has them": (["--output=json"], '"remedy": "It preempts default/a on n, the only node where that helps."'),
})
def test_preemption_on_the_command_line(tmp_path, arguments, text):
    assert text in " ".join(command_line(tmp_path, *arguments).split())


def test_without_the_rule_no_pod_is_preempted():
    for path in (ROOT / "policy.json", "DefaultProvider"):
        decision, _ = decide([node("n", cpu="1"), running("a", "n"), incoming()],
                             load_policies(path, "my-scheduler"))
        assert (decision.node, decision.requests, decision.remedy) == (None, [], "")


@table("policies, victims", {
    "a Policy compares the first victims, those with violated budgets": (built(), ["a", "b"]),
    "a configuration compares the victims of the highest priority": (configured(), ["c", "d"]),
})
def test_victims_are_compared_as_in_1_20_with_a_policy_and_as_in_1_36_with_a_configuration(policies, victims):
    """Both nodes have a violated budget. Upstream: SelectVictimsOnNode, which now sorts the victims at its end."""
    decision, _ = decide([
        node("m", cpu="2"), node("n", cpu="2"), running("a", "m", 1, labels=A), running("b", "m", 9), budget(0),
        running("c", "n", 5, labels=A), running("d", "n", 5), incoming("2")], policies)
    assert sorted(sent(decision, "DELETE", "/pods/(.*)")) == victims


@table("status, is_refused", {"a webhook fails": (500, True), "it is forbidden": (403, True), "a gateway times out": (504, False),
                              "a gateway gets an invalid answer": (502, False), "no server is available": (503, False), "no answer comes": (0, False)})
def test_a_node_is_skipped_only_if_the_deletion_of_its_pods_was_rejected(status, is_refused):
    server = Server(node("n", cpu="1"), running("a", "n"), incoming())
    server.failures["a"] = [status]
    cluster = new_cluster(server)
    make_pass(cluster, built())
    [record] = cluster.queue.values()
    assert record.retry.refused_nodes == ({"n"} if is_refused else set())
