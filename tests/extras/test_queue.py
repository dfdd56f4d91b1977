"""The scheduling queue under a KubeSchedulerConfiguration, as in kube-scheduler 1.36."""

import itertools

import pytest

from helpers.configuration import read_configuration
from helpers.extras import node, pod
from helpers.fake_api import Clock, Server, make_pass, scheduler_of, times_tried
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.configuration.profile import Profile
from scheduler_extras.deciding.rule import FullRule


[PROFILE] = read_configuration({"apiVersion": CONFIGURATION_VERSION}, "my-scheduler").values()


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def changing(server, **more):
    """Return a function that changes a node of the server without making room for a pod."""
    change = itertools.count()
    return lambda: server.put(node("n", cpu="1", labels={"change": str(next(change))}, **more))


def test_without_any_change_an_unschedulable_pod_is_retried_after_five_minutes(clock):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    assert times_tried(scheduler_of(server), clock, 700, step=1, policy=PROFILE) == [300, 300]


def test_while_the_queue_is_idle_a_change_ends_a_backoff(clock):
    """With changes twice a second for 20 s, and room from 21.0 s on, kube-scheduler 1.36.2 binds at 21.05 s."""
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    cluster, change = scheduler_of(server), changing(server)
    for _ in range(40):
        change()
        make_pass(cluster, policy=PROFILE)
        clock.now += 0.5
    assert cluster.queue["uid-big"].retry.failures == 40
    clock.now += 1
    server.put(node("m"))
    make_pass(cluster, policy=PROFILE)
    assert server.placements() == {"big": "m"}


def test_under_a_policy_a_change_does_not_end_a_backoff(clock):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    assert times_tried(scheduler_of(server), clock, 40, meanwhile=changing(server)) == [1, 2, 4, 8, 10, 10]


def test_without_any_change_a_backoff_may_be_longer_than_five_minutes(clock):
    policy = Profile(PROFILE.predicates, [], initial_backoff=400, max_backoff=400)
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    assert times_tried(scheduler_of(server), clock, 900, step=1, policy=policy) == [400, 400]


def test_a_change_does_not_end_a_backoff_after_an_error(clock):
    def broken(pod, node):
        raise KeyError("surprise")

    policy = Profile([FullRule("Broken", broken)], [])
    server = Server(node("n", cpu="1"), pod("p"))
    assert times_tried(scheduler_of(server), clock, 40, meanwhile=changing(server), policy=policy) == [1, 2, 4, 8, 10, 10]


def test_retries_during_a_backoff_take_at_most_a_twentieth_of_the_time(clock):
    """Thus many unschedulable pods do not delay the others."""
    def slow(pod, node):
        clock.now += 0.01
        return ["node(s) were full"]

    policy = Profile([FullRule("Slow", slow)], [])
    server = Server(node("n"), *(pod(f"p{i}") for i in range(30)))
    cluster, change = scheduler_of(server), changing(server)
    began, turns = clock.now, 0
    while clock.now < began + 200:
        change()
        before = sum(record.retry.failures for record in cluster.queue.values())
        make_pass(cluster, policy=policy)
        turns += sum(record.retry.failures for record in cluster.queue.values()) - before
        clock.now += 0.1
    beside_backoff = 30 * (4 + 200 / 10)  # after 1, 2, 4, 8 and then every 10 seconds
    assert turns * 0.01 < 200 / 20 + beside_backoff * 0.01


def test_only_passes_with_pods_popped_from_backoff_delay_the_next_ones(clock):
    def slow(pod, node):
        clock.now += 1
        return ["node(s) were full"] if pod.name == "big" else []

    policy = Profile([FullRule("Slow", slow)], [])
    server = Server(node("n"), pod("big"))
    cluster, change = scheduler_of(server), changing(server)
    make_pass(cluster, policy=policy)
    server.put(pod("small"))
    make_pass(cluster, policy=policy)  # takes a second, but pops nothing
    change()
    make_pass(cluster, policy=policy)
    assert cluster.queue["uid-big"].retry.failures == 2, "it is popped from its backoff of 10 s"
    change()
    make_pass(cluster, policy=policy)
    assert cluster.queue["uid-big"].retry.failures == 2, "pops pause for 20 s after a pass of one second"
