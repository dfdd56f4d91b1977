"""When pods are retried."""

import itertools

import pytest

from helpers.everywhere import replace
from helpers.extras import node, pod, table
from helpers.fake_api import Server, make_pass, scheduler_of, times_tried
from scheduler_extras.api.responses import error_of
from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.retry import Retry, RetryOn
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.schedule import schedule


pytestmark = pytest.mark.usefixtures("cache_mode")


def test_without_any_change_an_unschedulable_pod_is_retried_after_a_minute(clock):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    assert times_tried(scheduler_of(server), clock, 200) == [60, 60, 60]


def test_if_the_cluster_keeps_changing_a_pod_backs_off_from_1_to_10_seconds(clock):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    change = itertools.count()
    assert times_tried(scheduler_of(server), clock, 40, meanwhile=lambda: server.put(
        node("n", cpu="1", labels={"change": str(next(change))}))) == [1, 2, 4, 8, 10, 10]


def test_after_an_error_a_pod_is_retried_when_its_backoff_ends(clock):
    def broken(pod, node):
        raise KeyError("surprise")

    server = Server(node("n"), pod("p"))
    policy, cluster, tried = FullPolicy([FullRule("Broken", broken)], []), scheduler_of(server), []
    for _ in range(40):
        make_pass(cluster, policy=policy)
        tried.append(cluster.queue["uid-p"].retry.failures)
        clock.now += 1
    assert [tried.count(attempts) for attempts in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_a_policy_sets_the_initial_and_the_maximum_backoff(clock):
    server = Server(node("n", cpu="1"), pod("p"))
    def broken(pod, node):
        raise KeyError("surprise")

    policy = FullPolicy([FullRule("Broken", broken)], [], initial_backoff=3, max_backoff=7)
    cluster, tried = scheduler_of(server), []
    for _ in range(23):
        make_pass(cluster, policy=policy)
        tried.append(cluster.queue["uid-p"].retry.failures)
        clock.now += 1
    assert [tried.count(attempts) for attempts in range(1, 5)] == [3, 6, 7, 7]


def test_a_pod_with_slow_decisions_gets_at_most_a_tenth_of_the_time(clock, caplog):
    def slow(pod, node):
        if pod.name == "odd":
            clock.now += 3
        return ["no"]

    server, change, tried = Server(node("n"), pod("odd", priority=9)), itertools.count(), []
    policy, cluster = FullPolicy([FullRule("Slow", slow)], []), scheduler_of(server)
    for _ in range(100):
        server.put(node("n", labels={"change": str(next(change))}))
        make_pass(cluster, policy=policy)
        tried.append(cluster.queue["uid-odd"].retry.failures)
        clock.now += 1
    assert tried[-1] == 4, "in 112 seconds, 12 of them for this pod"
    text = [message for message in caplog.messages if not message.startswith("kube-scheduler might delete")]
    assert text == ["scheduling default/odd took 3.0 s: it is tried again after 30 s at the earliest, "
                    "so that others have turns"]


def test_time_spent_waiting_for_the_api_server_does_not_lengthen_a_backoff(clock, caplog):
    def wait_for_server(pod, node):
        clock.now += 60
        raise error_of(0, "no answer")

    policy, cluster = FullPolicy([FullRule("Asks", wait_for_server)], []), scheduler_of(Server(node("n"), pod("p")))
    for _ in range(2):
        make_pass(cluster, policy=policy)
        clock.now += FullPolicy([], []).max_backoff
    assert cluster.queue["uid-p"].retry.failures == 2 and not [line for line in caplog.messages if "takes" in line]


def test_unschedulable_pods_do_not_delay_new_ones(clock, monkeypatch):
    server = Server(node("n", cpu="1"), *(pod(f"stuck-{i}", {"cpu": "9"}) for i in range(5)))
    cluster, order = scheduler_of(server), []
    make_pass(cluster)
    clock.now += 2
    server.put(pod("new"))
    make_pass(cluster)
    clock.now += 2
    server.put(pod("newer", {"cpu": "9"}), node("o", cpu="1"))
    replace(monkeypatch, "schedule", lambda pod, *rest: order.append(pod.name) or schedule(pod, *rest))
    make_pass(cluster)
    clock.now += 20
    server.put(pod("newest"), node("q", cpu="1"))
    make_pass(cluster)
    stuck = [f"stuck-{i}" for i in range(5)]
    assert order == [*stuck, "newer", *stuck, "newer", "newest"], "the pod with the oldest last attempt is first"


@table("change", {
    "a node gets labels": (lambda server: server.put(node("n", cpu="1", labels={"a": "b"})),),
    "a node is added": (lambda server: server.put(node("m", cpu="1")),),
    "a node becomes ready": (lambda server: server.put(node("n", cpu="1", status={"conditions": [
        {"type": "Ready", "status": "True"}]})),),
    "a pod ends": (lambda server: server.objects["pods", "default", "runs"]["status"].update(phase="Succeeded"),),
})
def test_after_a_change_of_nodes_or_assigned_pods_a_pod_is_retried_when_its_backoff_is_over(change, clock):
    server = Server(node("n", cpu="1"), pod("runs", nodeName="n"), pod("big", {"cpu": "2"}))
    cluster = scheduler_of(server)
    make_pass(cluster)
    clock.now += 5
    make_pass(cluster)
    assert cluster.queue["uid-big"].retry.failures == 1
    change[0](server)
    make_pass(cluster)
    assert cluster.queue["uid-big"].retry.failures == 2
    server.put(node("another", cpu="1"))
    make_pass(cluster)
    assert cluster.queue["uid-big"].retry.failures == 2, "a change does not end the backoff"
    clock.now += 2
    make_pass(cluster)
    assert cluster.queue["uid-big"].retry.failures == 3, "the change still leads to a retry"


@table("on, due_at", {
    "a new pod is due at once": (RetryOn.NOW, 0), "after an error, at the end of its backoff": (RetryOn.BACKOFF, 5),
    "where no node fits, after a long time": (RetryOn.CHANGE, 60), "after a change, at the end of its backoff": (RetryOn.BACKOFF_OR_IDLE, 5)})
def test_when_a_pod_is_due(on, due_at):
    assert Retry(trigger=on, backoff_ends=5, retry_at_latest=60).due_at() == due_at


def test_a_slow_decision_counts_even_if_permit_then_refuses_at_once(clock):
    def slow(pod, node):
        clock.now += 3
        return []

    answers = [60, Unschedulable("no")]

    def permit(pod, node, snapshot):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    cluster = scheduler_of(Server(node("n"), pod("p")))
    policy = FullPolicy([FullRule("Slow", slow, hooks={"permit": permit})], [])
    for _ in range(2):
        make_pass(cluster, policy=policy)
    assert cluster.queue["uid-p"].retry.backoff_ends == clock.now + 30
