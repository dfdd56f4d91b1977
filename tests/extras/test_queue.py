"""The scheduling queue of kube-scheduler 1.36, which is that of a KubeSchedulerConfiguration."""

import itertools

import pytest

from helpers.extras import node, pod
from helpers.fake_api import Clock, Server, make_pass, scheduler_of, times_tried
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.configuration.config_file import read_configuration
from scheduler_extras.configuration.profile import Profile
from scheduler_extras.deciding.rule import FullRule


[PROFILE] = read_configuration({"apiVersion": CONFIGURATION_VERSION}, "my-scheduler").values()


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def changing(server, **more):
    """A function that changes a node of the server in a way that helps nobody."""
    change = itertools.count()
    return lambda: server.put(node("n", cpu="1", labels={"change": str(next(change))}, **more))


def test_without_any_change_a_pod_that_fits_nowhere_is_tried_again_after_five_minutes(clock):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    assert times_tried(scheduler_of(server), clock, 700, step=1, policy=PROFILE) == [300, 300]


def test_with_nothing_else_to_do_a_change_ends_a_backoff(clock):
    """Seen of kube-scheduler 1.36.2: changes twice a second for 20 s, help at 21.0, and it is bound at 21.05."""
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


def test_under_a_policy_a_change_ends_no_backoff(clock):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    assert times_tried(scheduler_of(server), clock, 40, meanwhile=changing(server)) == [1, 2, 4, 8, 10, 10]


def test_without_any_change_a_backoff_lasts_however_long_it_is(clock):
    policy = Profile(PROFILE.predicates, [], initial_backoff=400, max_backoff=400)
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    assert times_tried(scheduler_of(server), clock, 900, step=1, policy=policy) == [400, 400]


def test_a_backoff_after_an_error_is_not_ended(clock):
    def broken(pod, node):
        raise KeyError("surprise")

    policy = Profile([FullRule("Broken", broken)], [])
    server = Server(node("n", cpu="1"), pod("p"))
    assert times_tried(scheduler_of(server), clock, 40, meanwhile=changing(server), policy=policy) == [1, 2, 4, 8, 10, 10]


def test_pods_in_backoff_are_tried_for_a_twentieth_of_the_time_at_most(clock):
    """So that 300 of them that fit nowhere take from the others no more than before."""
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
