"""The scheduler with a real etcd and kube-apiserver, through a real kubectl proxy."""

import json
import signal
import subprocess
import threading
from collections import Counter

import pytest

from helpers.control_plane import free_port, wait_for
from helpers.extras import MANDATORY_PREDICATES, ROOT, new_cluster, node, pod, run_pass, run_scheduler
from helpers.policies import load_policies
from scheduler_extras.api.client import ApiClient
from scheduler_extras.api.responses import JSON
from scheduler_extras.api.watch import list_all


def policy_file(tmp_path, predicates, **priorities):
    """Write a Policy file with these predicates, and priorities with these weights; return its path."""
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "predicates": [{"name": name} for name in predicates],
        "priorities": [{"name": name, "weight": weight} for name, weight in priorities.items()]}))
    return path


def live_cluster(control_plane):
    """The scheduler's cluster for the control plane, in this process."""
    return new_cluster(ApiClient(control_plane.server))


def make_pass(cluster, report=lambda decision: None):
    """Run a pass with the shipped Policy."""
    policies = load_policies(ROOT / "policy.json", "my-scheduler")
    run_pass(cluster, policies, report)
    cluster.results.handle(patience=60)


def test_pods_of_all_namespaces_are_bound_according_to_the_policy(control_plane, tmp_path):
    for namespace in ("red", "blue"):
        if namespace not in [item["metadata"]["name"] for item in control_plane.get("namespaces")["items"]]:
            control_plane.request("POST", "namespaces", {"metadata": {"name": namespace}})
    control_plane.create(node("small", cpu="3"), node("large", cpu="16"),
                         node("ssd", cpu="800m", labels={"disk": "ssd"}),
                         node("cordoned", cpu="64", unschedulable=True),
                         node("tainted", cpu="64", taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}]))
    control_plane.create(pod("web", {"cpu": "1"}, namespace="red"), pod("web", {"cpu": "1"}, namespace="blue"),
                         pod("cache", {"cpu": "500m"}, nodeSelector={"disk": "ssd"}), pod("huge", {"cpu": "60"}))
    for priority, best in (("LeastRequestedPriority", "large"), ("MostRequestedPriority", "small")):
        policy = policy_file(tmp_path, ["GeneralPredicates"], **{priority: 1})
        decided = run_scheduler("--server", control_plane.server, "--once", "--dry-run", "--output=json",
                                "--policy", policy)
        decisions = {line["pod"]: line["node"] for line in map(json.loads, decided.stdout.splitlines())}
        assert decisions == {"red/web": best, "blue/web": best, "default/cache": "ssd", "default/huge": None}
    assert control_plane.placements() == {}, "a dry run binds nothing"

    policy = policy_file(tmp_path, ["GeneralPredicates", *MANDATORY_PREDICATES], LeastRequestedPriority=1)
    finished = run_scheduler("--server", control_plane.server, "--once", "--policy", policy)
    assert (finished.returncode, finished.stderr.count("\n")) == (0, 2), finished.stderr
    assert control_plane.placements() == {"red/web": "large", "blue/web": "large", "default/cache": "ssd"}
    assert sorted(control_plane.events("Scheduled")) == [
        (key, f"Successfully assigned {key} to {place}", "my-scheduler")
        for key, place in sorted(control_plane.placements().items())]


def test_a_pod_that_fits_nowhere_has_one_event_and_is_bound_when_a_node_is_added(control_plane, start_scheduler):
    control_plane.create(node("node-a", cpu="1"), node("node-b", cpu="2", unschedulable=True), pod("big", {"cpu": "2"}))
    start_scheduler("--server", control_plane.server, "--interval=0.2")
    why = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    wait_for("the event exists", lambda: control_plane.events("FailedScheduling"))

    def condition():
        conditions = control_plane.pods()["default/big"]["status"].get("conditions", [])
        return {c["type"]: c for c in conditions}.get("PodScheduled")

    assert wait_for("the condition exists", condition)["message"] == why
    assert (condition()["status"], condition()["reason"]) == ("False", "Unschedulable")
    assert condition()["lastTransitionTime"]
    version = control_plane.pods()["default/big"]["metadata"]["resourceVersion"]
    described = subprocess.run([control_plane.assets / "kubectl", "--server", control_plane.server, "describe", "pod",
                                "big"], capture_output=True, text=True).stdout
    assert "FailedScheduling" in described and "my-scheduler" in described and why in described

    control_plane.request("PATCH", "nodes/node-a", {"metadata": {"labels": {"a": "b"}}},
                          headers={"Content-Type": "application/merge-patch+json"})
    threading.Event().wait(3)  # the pod is tried again meanwhile, because a node has changed
    assert control_plane.events("FailedScheduling") == [("default/big", why, "my-scheduler")]
    assert control_plane.pods()["default/big"]["metadata"]["resourceVersion"] == version, "nothing was written again"
    control_plane.create(node("node-c", cpu="4"))
    wait_for("the pod is bound", lambda: control_plane.placements() == {"default/big": "node-c"})


def test_an_edit_of_the_policy_takes_effect_in_the_next_pass(control_plane, start_scheduler, tmp_path):
    policy = policy_file(tmp_path, ["MatchNodeSelector"])
    control_plane.create(node("node-a"), pod("picky", nodeSelector={"disk": "ssd"}))
    running = start_scheduler("--server", control_plane.server, "--policy", policy, "--interval=0.2")
    wait_for("the pod has an event", lambda: control_plane.events("FailedScheduling"))
    policy.write_text(policy.read_text()[:20])
    wait_for("the error is logged", lambda: "still using the last good Policy" in running.err)
    threading.Event().wait(0.6)
    assert control_plane.placements() == {}, "a half-written Policy changes nothing"
    policy_file(tmp_path, [])
    wait_for("the pod is bound", lambda: control_plane.placements() == {"default/picky": "node-a"})
    running.send_signal(signal.SIGTERM)
    running.wait(60)
    err = running.err
    assert (err.count("Unterminated string"), err.count(f"{policy}: - MatchNodeSelector")) == (1, 1), err


def test_schedulers_leave_each_others_pods_alone(control_plane, start_scheduler):
    control_plane.create(node("node-a"))
    start_scheduler("--server", control_plane.server, "--scheduler-name=other", "--interval=0.1")
    control_plane.create(pod("mine"), pod("others", schedulerName="other"))
    wait_for("the other scheduler binds its pod", lambda: control_plane.placements() == {"default/others": "node-a"})
    run_scheduler("--server", control_plane.server, "--once")
    assert control_plane.placements() == {"default/mine": "node-a", "default/others": "node-a"}
    assert {(key, by) for key, _, by in control_plane.events("Scheduled")} == {
        ("default/mine", "my-scheduler"), ("default/others", "other")}


def test_a_pod_that_is_bound_or_deleted_by_others_during_the_pass_is_no_error(control_plane, caplog):
    control_plane.create(node("node-a"), node("node-b"), pod("a-mine"), pod("b-taken"), pod("c-gone"), pod("d-mine"))

    def meddle(decision):
        if decision.pod.name == "a-mine":
            control_plane.bind("b-taken", "node-b")
            control_plane.request("DELETE", "namespaces/default/pods/c-gone", params={"gracePeriodSeconds": 0})
        bind(decision)

    cluster = live_cluster(control_plane)
    bind, cluster.attempts.carry_out = cluster.attempts.carry_out, meddle
    shown = []
    make_pass(cluster, shown.append)
    cluster.attempts.carry_out = bind
    reported = {decision.pod.key: decision.node for decision in shown}
    assert reported.keys() >= {"default/a-mine", "default/d-mine"} and reported.items() <= control_plane.placements().items()
    assert control_plane.placements().keys() == {"default/a-mine", "default/b-taken", "default/d-mine"}
    assert control_plane.placements()["default/b-taken"] == "node-b"
    assert caplog.messages in ([], [
        "default/b-taken is on node-b, but this scheduler did not bind it; is a second my-scheduler running? Start both with --leader-elect"]), "logged if this scheduler chose another node"
    control_plane.create(pod("e-next"))
    make_pass(cluster)
    assert {assumed.name for there in cluster.snapshot.nodes.values() for assumed in there.pods.values()} == {
        "a-mine", "b-taken", "d-mine", "e-next"}, "a pod that was not bound is not assumed in the next snapshot"
    assert "default/e-next" in control_plane.placements()


def test_all_pods_are_bound_after_a_restart_of_the_proxy(control_plane, start_scheduler):
    control_plane.create(*(node(f"node-{i}", pods="100") for i in range(3)))
    running = start_scheduler("--server", control_plane.server, "--interval=0.2")
    control_plane.create(*(pod(f"early-{i}") for i in range(60)))
    wait_for("some pods are bound", lambda: len(control_plane.placements()) > 5)
    control_plane.proxy.kill()
    control_plane.proxy.wait()
    wait_for("the error is logged", lambda: "is `kubectl proxy` running" in running.err)
    control_plane.start_proxy()
    wait_for("the proxy is back", control_plane.ready)
    control_plane.create(*(pod(f"late-{i}") for i in range(20)))
    wait_for("all pods are bound", lambda: len(control_plane.placements()) == 80)
    running.send_signal(signal.SIGTERM)
    assert running.wait(60) == 0
    err = running.err
    # Possibly more than once, because Bindings and lists that were cut off fail late; but not once for each pod.
    assert 1 <= err.count("answers again") <= 10, err
    assert 1 <= err.count("is `kubectl proxy` running") <= 10, err
    events = Counter(key for key, *_ in control_plane.events("Scheduled"))
    assert max(events.values()) == 1, "no pod was bound twice"


def test_after_kills_and_restarts_all_pods_are_bound_and_no_node_is_overcommitted(
        control_plane, start_scheduler):
    control_plane.create(*(node(f"node-{i}", cpu="2500m") for i in range(4)))
    control_plane.create(*(pod(f"pod-{i:03}", {"cpu": "100m"}) for i in range(110)))
    for bound in (10, 30, 55):
        killed = start_scheduler("--server", control_plane.server)
        wait_for(f"{bound} pods are bound", lambda bound=bound: len(control_plane.placements()) >= bound)
        killed.kill()
        killed.wait()
    run_scheduler("--server", control_plane.server, "--once")
    assert Counter(control_plane.placements().values()) == dict.fromkeys((f"node-{i}" for i in range(4)), 25)


def test_two_pages_of_pods_are_all_bound_and_no_node_is_overcommitted(control_plane):
    control_plane.create(*(node(f"node-{i:02}", cpu="4", memory="8Gi", pods="25") for i in range(10)))
    control_plane.create(*(pod(f"pod-{i:03}", {"cpu": f"{150 + i % 5 * 10}m", "memory": "256Mi"}) for i in range(200)))
    finished = run_scheduler("--server", control_plane.server, "--once")
    assert finished.returncode == 0, finished.stderr
    placements, cpu, memory = control_plane.placements(), Counter(), Counter()
    for key, thing in control_plane.pods().items():
        requests = thing["spec"]["containers"][0]["resources"]["requests"]
        cpu[placements[key]] += int(requests["cpu"].removesuffix("m"))
        memory[placements[key]] += int(requests["memory"].removesuffix("Mi"))
    assert max(cpu.values()) <= 4000 and max(memory.values()) <= 8192 and max(Counter(placements.values()).values()) <= 25

    class SmallPages(ApiClient):
        def request(self, method, path, body=None, params=None, accept=JSON, check=None):
            return super().request(method, path, body, {**params, "limit": 150}, accept)

    items, _ = list_all(SmallPages(control_plane.server), "pods")
    assert {item["metadata"]["name"] for item in items} == {f"pod-{i:03}" for i in range(200)}, "two pages of 150"


def test_consecutive_passes_do_not_overcommit_a_node(control_plane):
    control_plane.create(node("node-a", cpu="1"), node("node-b", cpu="1"))
    cluster = live_cluster(control_plane)
    for i in range(6):
        control_plane.create(pod(f"pod-{i}", {"cpu": "400m"}))
        make_pass(cluster)  # at once, possibly before the watch cache has the last Binding
    assert Counter(control_plane.placements().values()) == {"node-a": 2, "node-b": 2}


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_exit_code_0(control_plane, start_scheduler, sent):
    control_plane.create(node("node-a"), pod("web"))
    running = start_scheduler("--server", control_plane.server)
    wait_for("the pod is bound", control_plane.placements)
    running.send_signal(sent)
    assert running.wait(60) == 0 and "Traceback" not in running.err, running.err
    assert running.out.startswith("default/web -> node-a")


def test_an_rbac_error_has_the_verb_and_the_resource(control_plane):
    port = free_port()
    proxy = control_plane.start_proxy("nobody", port)
    wait_for("the proxy listens", lambda: run_scheduler(
        "--server", f"http://127.0.0.1:{port}", "--once").stderr.count("cannot reach") == 0)
    finished = run_scheduler("--server", f"http://127.0.0.1:{port}", "--once")
    proxy.terminate()
    assert finished.returncode == 1
    assert 'RBAC does not allow it: pods is forbidden: User "nobody" cannot list resource "pods"' in finished.stderr


def test_gated_and_deleted_pods_and_pods_with_claims_are_not_bound(control_plane):
    """The API server of the tests drops gates and claims, so they are added to its answers."""
    control_plane.create(node("node-a"), pod("gated"), pod("claims"), pod("plain"),
                         pod("going", metadata={"finalizers": ["example.com/wait"]}))
    control_plane.request("DELETE", "namespaces/default/pods/going", params={"gracePeriodSeconds": 0})

    class NewerApiServer(ApiClient):
        def request(self, method, path, body=None, params=None, accept=JSON, check=None):
            answer = super().request(method, path, body, params, accept)
            for item in answer.get("items", []) if method == "GET" else ():
                if item["metadata"]["name"] == "gated":
                    item["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
                if item["metadata"]["name"] == "claims":
                    item["spec"]["resourceClaims"] = [{"name": "gpu"}]
            return answer

    cluster = new_cluster(NewerApiServer(control_plane.server))
    make_pass(cluster)
    make_pass(cluster)
    assert control_plane.placements() == {"default/plain": "node-a"}
    wait_for("the pods have their events", lambda: sorted(control_plane.events("FailedScheduling")) == [
        ("default/claims", "0/1 nodes are available: 1 pod claims devices (spec.resourceClaims), which this "
         "scheduler does not allocate.", "my-scheduler"),
        ("default/going", "skip schedule deleting pod: default/going", "my-scheduler")])
    control_plane.request("PATCH", "namespaces/default/pods/going", {"metadata": {"finalizers": None}},
                          headers={"Content-Type": "application/merge-patch+json"})
