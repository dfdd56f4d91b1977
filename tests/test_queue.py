"""The scheduling queue of kube-scheduler 1.36, which is that of a KubeSchedulerConfiguration."""

import itertools

import pytest
import scheduler
from conftest import node, pod
from test_loop import Clock, Server, scheduler_of, times_tried

[PROFILE] = scheduler.read_configuration({"apiVersion": scheduler.CONFIGURATION_VERSION}, "my-scheduler").values()


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


def test_a_change_ends_no_backoff(clock):
    server = Server(node("n", cpu="1"), pod("big", {"cpu": "2"}))
    assert times_tried(scheduler_of(server), clock, 40, meanwhile=changing(server), policy=PROFILE) == [1, 2, 4, 8, 10, 10]
