"""Each extension point of custom rules, called in the loop."""

import json
import threading
from types import SimpleNamespace

import pytest

import helpers.tutorial  # noqa: F401 (registers the rules of the example)
from helpers.everywhere import replace
from helpers.extras import cluster_of, new_cluster, node, pending_pods, pod, run_pass, run_scheduler, table
from helpers.fake_api import Server
from helpers.spy import OOPS, built, live_cluster, make_pass, policy
from scheduler_extras.api.responses import error_of
from scheduler_extras.common.errors import FAILURE, Malformed, ServerUnavailable, Unschedulable
from scheduler_extras.configuration.profile import Profile
from scheduler_extras.deciding.rule import FullRule, Rejected
from scheduler_extras.live.passes import make_passes
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.serve.gauges import ClusterGauges
from scheduler_extras.show.explain import explain, in_words
from scheduler_extras.show.report import in_json
from scheduler_extras.show.text import Screen


def test_extension_points_are_called_in_the_order_of_the_framework(spy):
    server = Server(node("n"), node("m"), pod("p"))
    make_pass(server, spy)
    assert spy.seen == ["pre_enqueue", "pre_filter", "filter", "filter", "pre_score", "score", "score", "reduce",
                        "reserve", "permit", "pre_bind", "bind", "post_bind"]
    assert server.placements()["p"] in "nm"


def test_choosing_a_node_calls_no_hook_that_acts_on_it(spy):
    """--explain relies on this."""
    cluster = new_cluster(Server(node("n"), node("m"), pod("p")))
    for reasons in ([], ["node(s) were full"]):
        spy.answers["filter"] = reasons
        [waiting] = pending_pods(cluster, spy.policies)
        schedule(waiting, cluster.refresh_snapshot(spy.policies), spy.policies["my-scheduler"])
    assert set(spy.seen) == {"pre_enqueue", "pre_filter", "filter", "pre_score", "score", "reduce"}


def test_a_dry_run_calls_no_bind_hook(spy):
    server = Server(node("n"), pod("p"))
    make_pass(server, spy, new_cluster(server, dry_run=True))
    assert "pre_bind" in spy.seen and not {"bind", "post_bind"} & set(spy.seen)
    assert server.placements() == {}


@table("asked, is_bound", {
    "is sent once": (1, True), "is sent in each pass": (10**6, False)})
def test_with_manifests_pre_bind_is_called_again_at_once_after_a_request_that(spy, asked, is_bound):
    requests = ([("PATCH", "/api/v1/namespaces/default/pods/p", {})], "it is to be seen")
    spy.answers["pre_bind"] = lambda *_: requests if spy.seen.count("pre_bind") <= asked else None
    cluster = cluster_of(node("n"), pod("p"))
    decisions = []
    cluster.attempts.on_carried_out = decisions.append
    snapshot = make_passes(cluster, spy.policies, threading.Event(), once=False)
    assert (cluster.api.objects["pods", "default", "p"]["spec"].get("nodeName") == "n") == is_bound
    waits = "" if is_bound else "Spy prepares the binding to n: it is to be seen"
    assert [decision.why_delayed for decision in decisions] == [waits] and bool(snapshot.nodes["n"].pods) == is_bound


def test_a_pod_that_pre_enqueue_refuses_counts_as_gated(spy):
    spy.answers["pre_enqueue"] = lambda pod: "not yet" if pod.name == "early" else None
    cluster = new_cluster(Server(node("n"), pod("early"), pod("gated", schedulingGates=[{"name": "quota"}]), pod("late")))
    cluster.begin_pass(spy.policies)
    assert ClusterGauges(cluster, None).pending_pods() == {
        ("active",): 1, ("backoff",): 0, ("unschedulable",): 0, ("gated",): 2}


def test_pre_enqueue_keeps_a_pod_out_of_the_queue_and_logs_it(spy, caplog):
    spy.answers["pre_enqueue"] = lambda pod: "not yet" if pod.name == "early" else None
    server = Server(node("n"), pod("early"), pod("late"))
    make_pass(server, spy)
    assert list(server.placements()) == ["late"]
    assert caplog.messages == ["default/early is not tried yet: Spy: not yet"]


@table("point, answer, expected", {
    "permit returns False": ("permit", False, "permit: return None or seconds, or (seconds, why), not False"),
    "permit returns a string": ("permit", "no", "permit: return None or seconds, or (seconds, why), not 'no'"),
    "pre_enqueue returns True": ("pre_enqueue", True, "pre_enqueue: return None or a string, not True"),
    "pre_enqueue returns False": ("pre_enqueue", False, "pre_enqueue: return None or a string, not False"),
    "post_filter returns a request without a body": (
        "post_filter", ([("DELETE", "/api/v1/nodes/a")], "it goes"),
        "post_filter: return None or a list of requests, or (requests, why), not ([('DELETE', '/api/v1/nodes/a')], 'it goes')"),
    "pre_bind returns a long string": (
        "pre_bind", "no" * 50,
        f"pre_bind: return None or a list of requests, or (requests, why), not '{'no' * 27}n ..."),
    "pre_bind returns a string": ("pre_bind", "no", "pre_bind: return None or a list of requests, or (requests, why), not 'no'"),
    "pre_bind returns a number": ("pre_bind", 5, "pre_bind: return None or a list of requests, or (requests, why), not 5")})
def test_an_invalid_answer_of_a_hook_fails_its_pod(spy, point, answer, expected, caplog):
    spy.answers |= {"filter": ["no"] if point == "post_filter" else [], point: answer}
    server = Server(node("n"), pod("p"))
    cluster, decisions = make_pass(server, spy)
    line = caplog.text + "".join(decision.message for decision in decisions)
    assert f"{expected} (" in line and cluster.has_failed() and not server.placements()


@table("change", {
    "the nodes": lambda failed: failed.clear(),
    "the reasons": lambda failed: [reasons.append("X") for reasons in failed["n"].values()] and None})
def test_post_filter_cannot_change_the_failures_of_other_pods(spy, change):
    spy.answers |= {"filter": ["no"], "post_filter": lambda pod, failed, snapshot: change(failed)}
    _, decisions = make_pass(Server(node("n"), pod("p"), pod("q")), spy)
    assert [{name: [*against.values()] for name, against in decision.failed.items()} for decision in decisions] == [
        {"n": [["no"]]}, {"n": [["no"]]}]


@table("point, calls", {
    "after reserve": ("permit", ["reserve", "permit", "permit", "pre_bind", "bind"]),
    "in the last step": ("pre_bind", ["reserve", "permit", "pre_bind", "permit", "pre_bind", "bind"])})
def test_reserve_is_called_once_if_the_api_server_fails(spy, point, calls):
    spy.answers[point] = error_of(500, "away")
    server = Server(node("n"), pod("p"))
    cluster = new_cluster(server)
    make_pass(server, spy, cluster)
    assert server.placements() == {} and cluster.has_failed()
    del spy.answers[point]
    make_pass(server, spy, cluster)
    assert [name for name in spy.seen if name in {"unreserve", *calls}] == calls and server.placements() == {"p": "n"}


@table("status, message", {
    "the API server rejects a request": (403, "no"), "the API server fails": (500, "oops"), "no answer comes": (0, "away")})
def test_a_failed_reserve_is_undone_once(spy, status, message):
    spy.answers["reserve"] = error_of(status, message)
    _, [decision] = make_pass(Server(node("n"), pod("p")), spy)
    assert decision.message == message and spy.seen[-2:] == ["reserve", "unreserve"]


@table("point, answer, refused, reason, message", {
    "no node fits": ("filter", ["no"], [], "Unschedulable", "0/1 nodes are available: 1 no."),
    "permit rejects the pod": ("permit", Unschedulable("no"), [], "Unschedulable",
                            'rejected pod "p" by permit plugin "Spy": no'),
    "permit raises an exception": ("permit", RuntimeError("oops"), [], "SchedulerError",
                                                f"{OOPS}, about node n"),
    "reserve raises an exception": ("reserve", RuntimeError("oops"), [], "SchedulerError",
                                                   f"{OOPS}, about node n"),
    "pre_bind rejects the pod": ("pre_bind", Unschedulable("no"), [], "SchedulerError",
                              'running PreBind plugin "Spy": no'),
    "a request of pre_bind is rejected": ("pre_bind", [("PATCH", "/api/v1/namespaces/default/pods/p", {})], [403],
                                    "SchedulerError", "status 403")})
def test_the_condition_has_the_reason_of_kube_scheduler(spy, point, answer, refused, reason, message):
    """Cluster autoscalers add nodes only for Unschedulable."""
    spy.answers[point] = answer
    server = Server(node("n"), pod("p"))
    server.failures["p"] = refused
    make_pass(server, spy, live_cluster(server))
    conditions = [body["status"]["conditions"][0] for *_, body in server.sent("PATCH", "p/status")]
    assert [(condition["reason"], condition["message"]) for condition in conditions] == [(reason, message)]


def test_the_reason_is_that_of_the_last_attempt(spy):
    spy.answers["pre_bind"] = error_of(503, "trouble")
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    make_pass(server, spy, cluster)
    spy.answers["permit"] = Unschedulable("no")
    make_pass(server, spy, cluster)
    *_, body = server.sent("PATCH", "p/status")[-1]
    assert body["status"]["conditions"][0]["reason"] == "Unschedulable"


def test_deleting_a_missing_object_does_not_count_as_a_change_of_manifests(spy):
    """Otherwise passes would go on forever."""
    spy.answers |= {"permit": Unschedulable("no"), "unreserve": [("DELETE", "/api/v1/namespaces/a/configmaps/b", {})]}
    cluster = cluster_of(node("n"), pod("p"))
    make_passes(cluster, spy.policies, threading.Event(), once=False)
    assert spy.seen.count("permit") == 1


@table("error", {"pre_bind rejects the pod": Unschedulable("no"), "pre_bind raises an exception": RuntimeError("oops")})
def test_requests_of_pre_bind_are_not_sent_again_if_the_binding_is_given_up(spy, error):
    spy.answers["pre_bind"] = [("PATCH", "/api/v1/namespaces/default/pods/p", {})]
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    make_pass(server, spy, cluster)
    spy.answers["pre_bind"] = error
    make_pass(server, spy, cluster)
    assert len(server.sent("PATCH", "/pods/p")) == 1 and spy.seen.count("unreserve") == 1


@table("lists", {"at once": [], "once lists succeed again": [500] * 3})
def test_unreserve_is_sent_once_if_the_policy_of_a_prepared_pod_changes(lists, spy):
    undo = "PATCH", "/api/v1/nodes/n", {}
    spy.answers |= {"pre_bind": [("PATCH", "/api/v1/namespaces/default/pods/p", {})], "unreserve": [undo]}
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    make_pass(server, spy, cluster)
    spy.policies = {"my-scheduler": FullPolicy([], [])}
    if lists:
        server.failures["pods"] = lists
        asked = len(server.requests)
        with pytest.raises(ServerUnavailable):
            make_pass(server, spy, cluster)
        assert {method for method, *_ in server.requests[asked:]} == {"GET"}
    make_pass(server, spy, cluster)
    calls = [(method, path) for method, path, *_ in server.requests]
    assert server.placements() == {"p": "n"} and calls.count(undo[:2]) == 1


def test_a_rule_that_records_its_reservations_does_not_reject_the_same_pod(spy):
    """CheckVolumeBinding runs all predicates again, but only for a pod that has waited."""
    taken = set()
    rule = FullRule("Device", lambda pod, node: ["taken"] if taken else [], title="Device", hooks={
        "reserve": lambda pod, node, snapshot: taken.add(pod.uid)})
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "annotations": {
        "pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv"}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    server = Server(node("n"), pod("p", volumes=volumes), claim, {
        "kind": "PersistentVolume", "metadata": {"name": "pv"}})
    spy.policies = {"my-scheduler": FullPolicy([rule, *built(["CheckVolumeBinding"])["my-scheduler"].predicates], [])}
    make_pass(server, spy, live_cluster(server))
    assert server.placements() == {"p": "n"}


def test_a_prepared_pod_is_reserved_once(spy):
    wanted = [[("PATCH", "/api/v1/namespaces/default/pods/p", {})], [], None]
    spy.answers["pre_bind"] = lambda *_: wanted.pop(0)
    server = Server(node("n"), pod("p"))
    cluster = new_cluster(server)
    cluster.cache.snapshot.is_live = True
    for _ in range(3):
        make_pass(server, spy, cluster)
    assert server.placements() == {"p": "n"} and spy.seen.count("reserve") == 1


def test_queue_sort_sorts_the_queue(spy):
    server = Server(node("n"), pod("a"), pod("b"), pod("c"))
    _, decisions = make_pass(server, spy)
    assert [decision.pod.name for decision in decisions] == ["c", "b", "a"]


@table("key", {"fails": lambda pod: pod.nonsense, "returns None": lambda pod: None,
               "returns values that cannot be compared": lambda pod: 1 if pod.name == "a" else "1"})
def test_a_failing_queue_sort_leaves_the_default_order(spy, key, caplog):
    spy.policies["my-scheduler"].predicates[0].hooks["queue_sort"] = key
    server = Server(node("n"), pod("a"), pod("b"))
    _, decisions = make_pass(server, spy)
    assert [decision.pod.name for decision in decisions] == ["a", "b"]
    line = key.__code__.co_firstlineno
    assert ("the queue is sorted by priority and age, not by Spy (Spy: test_extension_points.py, "
            f"line {line}): " in caplog.text)


def test_the_requests_of_post_filter_are_sent_and_its_remedy_is_shown(spy):
    wanted = [("PATCH", "/api/v1/nodes/n", {"spec": {"unschedulable": False}}), ("DELETE", "/api/v1/nodes/m", None)]
    spy.answers |= {"filter": ["node(s) were full"], "post_filter": (wanted, "It tidies up.")}
    server = Server(node("n"), pod("p"))
    _, [decision] = make_pass(server, spy)
    assert spy.seen[-1] == "post_filter", "nothing was reserved, so nothing is unreserved"
    assert [(method, path, body) for method, path, _, body in server.requests if "/nodes/" in path] == wanted
    assert in_words(decision) == (
        "default/p stays pending: 0/1 nodes are available: 1 node(s) were full. It tidies up.")


def test_post_filter_is_not_called_without_nodes(spy):
    _, [decision] = make_pass(Server(pod("p")), spy)
    assert decision.message == "no nodes available to schedule pods" and "post_filter" not in spy.seen


@table("point, before", {
    "Reserve": ("reserve", ["reserve", "unreserve"]),
    "Permit": ("permit", ["reserve", "permit", "unreserve"]),
    "PreBind": ("pre_bind", ["reserve", "permit", "pre_bind", "unreserve"]),
})
@table("error, message", {
    "rejects the pod": (Unschedulable("no"), None),
    "raises an exception": (RuntimeError("oops"), f"{OOPS}, about node n"),
})
def test_a_failing_hook_leaves_its_pod_pending(spy, point, before, error, message):
    spy.answers[point] = error
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "1"}), pod("a", {"cpu": "1"}))
    cluster, decisions = make_pass(server, spy)
    refused = {"reserve": 'running Reserve plugin "Spy": no', "permit": 'rejected pod "{}" by permit plugin "Spy": no',
               "pre_bind": 'running PreBind plugin "Spy": no'}[point]
    assert [decision.message for decision in decisions] == [message or refused.format(name) for name in "pa"]
    text = [body["message"] for *_, body in server.sent("POST", "/events")]
    assert [in_json(decision)["message"] for decision in decisions] == text[:2]
    assert [name for name in spy.seen if name in before] == before * 2
    assert server.placements() == {}
    del spy.answers[point]
    cluster.queue.clear()
    make_pass(server, spy, cluster)
    assert len(server.placements()) == 2, "the rejected pods left nothing behind; this rule does not check resources"


def test_a_pod_that_is_rejected_after_it_had_a_node_can_be_explained(spy):
    spy.answers["reserve"] = Unschedulable("no")
    _, [decision] = make_pass(Server(node("n"), node("m"), pod("p")), spy)
    assert [line.split() for line in explain(decision, Screen())[1:]] == [
        ["raw→points×weight", "m", "n"], ["Spy", "7→7×1", "7→7×1"], ["Total", "7", "7"], []]


def test_pre_bind_sends_its_requests_and_is_called_again_before_the_binding(spy):
    requests = [[("PATCH", "/api/v1/namespaces/default/pods/p", {"metadata": {"labels": {"prepared": "yes"}}})], None]
    spy.answers["pre_bind"] = lambda *_: requests.pop(0)
    server = Server(node("n"), pod("p"))
    cluster = new_cluster(server)
    cluster.cache.snapshot.is_live = True
    make_pass(server, spy, cluster)
    assert server.placements() == {} and "bind" not in spy.seen
    make_pass(server, spy, cluster)
    assert server.placements() == {"p": "n"} and spy.seen.count("bind") == 1


def test_the_requests_of_unreserve_are_sent(spy):
    request = "PATCH", "/api/v1/namespaces/default/pods/p", {"metadata": {"labels": {"prepared": None}}}
    spy.answers |= {"permit": Unschedulable("no"), "unreserve": [request]}
    server = Server(node("n"), pod("p"))
    make_pass(server, spy)
    assert [(method, path, body) for method, path, _, body in server.requests if path == request[1]] == [request]


def test_an_exception_in_unreserve_changes_nothing(spy, caplog):
    spy.answers |= {"permit": Unschedulable("no"), "unreserve": RuntimeError("oops")}
    server = Server(node("n"), pod("p"))
    _, [decision] = make_pass(server, spy)
    assert decision.message == 'rejected pod "p" by permit plugin "Spy": no' and "oops" in caplog.text


@table("point, answer", {
    "no node fits": ("filter", ["no"]), "pre_filter rejects the pod": ("pre_filter", Rejected("no")),
    "pre_score rejects the pod": ("pre_score", Unschedulable("no"))})
def test_without_reserve_there_is_no_unreserve(spy, point, answer):
    spy.answers[point] = answer
    server = Server(node("n"), node("m"), pod("p"))
    cluster, _ = make_pass(server, spy)
    make_pass(server, spy, cluster)
    assert point in spy.seen and "unreserve" not in spy.seen


@table("is_bound, after_it, message", {
    "and it is bound": (True, "post_bind", []),
    "and it is not bound": (False, "unreserve", ["default/p: rule Spy says that the pod is bound to n, and it is not"])})
def test_a_bind_hook_may_return_that_it_has_bound_the_pod(spy, caplog, is_bound, after_it, message):
    server = Server(node("n"), pod("p"))

    def bind(pod, node_name):
        server.objects["pods", "default", "p"]["spec"] |= {"nodeName": node_name} if is_bound else {}
        return True

    spy.answers["bind"] = bind
    cluster, _ = make_pass(server, spy, live_cluster(server))
    assert not [request for request in server.requests if request[1].endswith("/binding")]
    assert spy.seen[-1] == after_it and caplog.messages == message
    assert [node.pods.keys() for node in cluster.cache.snapshot.nodes.values()] == [{"uid-p"} if is_bound else set()]


def test_with_manifests_a_pod_counts_as_bound_if_a_bind_hook_returns_that(spy):
    """Otherwise passes would go on forever."""
    spy.answers["bind"] = True
    cluster, _ = make_pass(None, spy, cluster_of(node("n"), pod("p")))
    assert cluster.api.objects["pods", "default", "p"]["spec"]["nodeName"] == "n"


@table("point, answer, message", {
    "bind raises an exception": ("bind", RuntimeError("oops"), OOPS),
    "bind returns a string": (
        "bind", "done", "bind: return None or True or False, not 'done' ("),
    "pre_bind returns an invalid request": ("pre_bind", ["x"], None)})
def test_an_event_has_the_reason_why_a_rule_could_not_bind(spy, point, answer, message):
    spy.answers[point] = answer
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    make_pass(server, spy, cluster)
    message = f"binding rejected: {message}" if message else (
        "pre_bind: return None or a list of requests, or (requests, why), not ['x'] (")
    events = [body for *_, body in server.sent("POST", "/events")]
    assert [body["reason"] for body in events] == ["FailedScheduling"] and events[0]["message"].startswith(message)
    assert server.placements() == {} and cluster.has_failed()


def test_bind_hooks_that_hang_are_named_and_not_counted_as_failures_of_the_api_server(spy, monkeypatch, caplog):
    replace(monkeypatch, "HOOK_SECONDS", 0.2)
    spy.answers["bind"] = lambda pod, node_name: threading.Event().wait(3600)
    server = Server(node("n"), *(pod(f"p-{i:02}") for i in range(12)))
    cluster, _ = make_pass(server, spy, live_cluster(server))
    assert {record.retry.failures for record in cluster.queue.values()} == {1} and len(caplog.messages) == 12
    message = "Spy: bind has not returned for 0.2 s"
    assert caplog.messages[0].endswith(message)
    assert cluster.queue["uid-p-00"].published.messages["event"] == f"binding rejected: {message}"


def test_many_exceptions_in_bind_are_not_counted_as_failures_of_the_api_server(spy):
    spy.answers["bind"] = RuntimeError("oops")
    server = Server(node("n"), *(pod(f"p-{i:02}") for i in range(40)))
    cluster, decisions = make_pass(server, spy, live_cluster(server))
    assert [record.retry.failures for record in cluster.queue.values()] == [1] * 40
    assert not decisions, "a decision is shown only if it was carried out"


@table("point, answer", {
    "pre_enqueue": ("pre_enqueue", RuntimeError("oops")), "queue_sort": ("queue_sort", RuntimeError("oops")),
    "post_filter": ("post_filter", RuntimeError("oops")), "post_bind": ("post_bind", RuntimeError("oops")),
    "an unreserve that returns a string": ("unreserve", "no")})
def test_an_exception_in_a_hook_counts_as_a_failure(spy, point, answer):
    def breaks(pod):
        raise answer
    before = {"post_filter": {"filter": ["no"]}, "unreserve": {"permit": Unschedulable("no")}}
    spy.answers |= {point: answer} | before.get(point, {})
    if point == "queue_sort":
        spy.policies["my-scheduler"].predicates[0].hooks["queue_sort"] = breaks
    make_pass(Server(node("n"), pod("p")), spy)
    assert FAILURE.is_set()


def test_post_filter_may_return_an_empty_tuple(spy):
    spy.answers |= {"filter": ["no"], "post_filter": ()}
    _, [decision] = make_pass(Server(node("n"), pod("p")), spy)
    assert decision.remedy == "" and not FAILURE.is_set()


def test_a_permit_that_returns_nan_does_not_hold_a_pod_forever(spy):
    spy.answers["permit"] = float("nan")
    _, [decision] = make_pass(Server(node("n"), pod("p")), spy)
    assert "rejected due to timeout" in decision.message


def test_explain_names_the_rule_that_keeps_a_pod_out_of_the_queue(tmp_path):
    (tmp_path / "my_rules.py").write_text(
        "from scheduler import predicate\n@predicate('Mine', pre_enqueue=lambda pod: 'not before noon')\n"
        "def mine(pod, node): return []\n")
    (tmp_path / "policy.json").write_text(json.dumps(policy(["Mine"])))
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [node("a"), pod("p")]}))
    run = run_scheduler("--plugins", tmp_path / "my_rules.py", "--policy", tmp_path / "policy.json", "--cluster",
                        tmp_path / "cluster.json", "--explain", "p")
    assert run.stdout.startswith("default/p waits: Mine: not before noon. If scheduled now")


def test_an_exception_in_bind_is_logged_once_and_the_pod_backs_off(spy, caplog):
    spy.answers["bind"] = RuntimeError("oops")
    server = Server(node("n", cpu="1"), pod("p", {"cpu": "1"}))
    cluster, _ = make_pass(server, spy)
    assert caplog.messages == [f"default/p: {OOPS}"] and [record.retry.failures for record in cluster.queue.values()] == [1]


def test_an_exception_in_post_bind_changes_nothing(spy, caplog):
    spy.answers["post_bind"] = RuntimeError("oops")
    server = Server(node("n"), pod("p"))
    make_pass(server, spy)
    assert server.placements() == {"p": "n"} and "oops" in caplog.text


def test_an_exception_in_pre_enqueue_holds_only_its_pod(spy, caplog):
    spy.answers["pre_enqueue"] = lambda pod: 1 / 0 if pod.name == "bad" else None
    server = Server(node("n"), pod("bad"), pod("good"))
    make_pass(server, spy)
    assert list(server.placements()) == ["good"] and "default/bad is not tried yet: Spy: ZeroDivisionError" in caplog.text


@table("point, is_bound", {
    "pre_enqueue": ("pre_enqueue", False), "queue_sort": ("queue_sort", True), "post_filter": ("post_filter", False),
    "reserve": ("reserve", False), "unreserve": ("unreserve", False), "permit": ("permit", False),
    "pre_bind": ("pre_bind", False), "bind": ("bind", False), "post_bind": ("post_bind", True)})
def test_a_hook_that_calls_sys_exit_fails_only_its_pod(spy, point, is_bound):
    def leave(pod, *_):
        if pod.name == "bad":
            raise SystemExit(3)
        return {"queue_sort": 0}.get(point)

    def refuse_bad(pod, *_):
        if pod.name == "bad":
            raise Unschedulable("it is bad")

    spy.policies["my-scheduler"].predicates[0].hooks[point] = leave
    if point == "unreserve":
        spy.answers["permit"] = refuse_bad
    if point == "post_filter":
        spy.policies["my-scheduler"].predicates.append(FullRule("Picky", lambda pod, node: ["it is bad"] if pod.name == "bad" else []))
    server = Server(node("n"), node("m"), pod("bad"), pod("good"))
    cluster, _ = make_pass(server, spy)
    make_pass(server, spy, cluster)
    assert server.placements().keys() == ({"bad", "good"} if is_bound else {"good"})


@table("answer, in_1_36, counted", {
    "no node fits": (["no"], "Unschedulable", "unschedulable"), "the rule raises an exception": (RuntimeError("oops"), "SchedulerError", "error"),
    "the API server fails": (error_of(503, "away"), "SchedulerError", "error"),
    "the pod is malformed": (Malformed("spec.affinity: expected an object"), "Unschedulable", "unschedulable")})
@pytest.mark.parametrize("is_1_36", [False, True], ids=["1.20", "1.36"])
def test_the_condition_and_the_metric_for_a_failure_in_a_predicate(spy, is_1_36, answer, in_1_36, counted):
    """In 1.20 the condition is always Unschedulable. The metrics distinguish errors in both versions."""
    asked = []
    observer = SimpleNamespace(attempted=lambda decision, result: asked.append((decision.condition_reason, result)))
    spy.answers["pre_filter"] = answer if isinstance(answer, Exception) else None
    spy.answers["filter"] = answer
    if is_1_36:
        [policy] = spy.policies.values()
        spy.policies = {"my-scheduler": Profile(policy.predicates, policy.priorities)}
    server = Server(node("n"), pod("p"))
    cluster = new_cluster(server)
    cluster.attempts.observer = observer
    make_pass(server, spy, cluster)
    assert asked == [(in_1_36 if is_1_36 else "Unschedulable", counted)]


def test_pre_enqueue_is_not_called_for_an_assumed_pod(spy):
    """The pod would lose its node while it is being bound."""
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    spy.answers["permit"] = 60
    make_pass(server, spy, cluster)
    spy.answers |= {"pre_enqueue": "not now", "permit": None}
    make_pass(server, spy, cluster)
    assert server.placements() == {"p": "n"} and spy.seen.count("pre_enqueue") == 1


def test_a_failure_of_the_api_server_before_the_binding_gives_no_event(spy):
    spy.answers["pre_bind"] = error_of(503, "away")
    server = Server(node("n"), pod("p"))
    make_pass(server, spy, live_cluster(server))
    assert server.sent("POST", "/events") == []


def test_unreserve_runs_in_reverse_order():
    order = []
    rules = [FullRule(name, lambda pod, node: (), hooks={
        "reserve": lambda *_, name=name: order.append(f"reserve {name}"), "permit": refuse,
        "unreserve": lambda *_, name=name: order.append(f"unreserve {name}")}) for name in "ab"]
    cluster = new_cluster(Server(node("n"), pod("p")))
    run_pass(cluster, {"my-scheduler": FullPolicy(rules, [])})
    assert order == ["reserve a", "reserve b", "unreserve b", "unreserve a"]


def refuse(*_):
    raise Unschedulable("no")


def test_a_pod_that_pre_enqueue_rejects_between_attempts_keeps_its_backoff_and_event(spy, clock):
    server = Server(node("n"), pod("p"))
    cluster = live_cluster(server)
    spy.answers["filter"] = ["no"]
    make_pass(server, spy, cluster)
    for answer in ("not now", None):
        spy.answers["pre_enqueue"] = answer
        clock.now += 20
        server.put(node("n", labels={"changed": str(answer).replace(" ", "-")}))
        make_pass(server, spy, cluster)
    assert cluster.queue["uid-p"].retry.failures == 2
    assert len(server.sent("POST", "/events")) == 1
