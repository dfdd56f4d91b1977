"""The loop: it makes passes, and each pass schedules the pods that are due, one after another.

session.py runs it on a live cluster; manifests go through the same passes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from scheduler_extras.common.errors import ApiError, Malformed
from scheduler_extras.live.cluster import LiveCluster
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.schedule import schedule


def run_loop(cluster: LiveCluster, read_policies: Callable[[], dict[str, FullPolicy]],
             stop: threading.Event, interval: float, once: bool) -> None:
    """Make passes until `stop` is set. With `once`, end when no pod is due, or a pass fails."""
    while not stop.is_set():
        try:
            schedule_pending_pods(cluster, read_policies(), stop)  # read in each pass: the file may be edited
            cluster.errors.end_pass()
        except (ApiError, Malformed) as error:  # a request has failed, or the response is not a list
            cluster.errors.end_pass(error)
        if cluster.pass_queue and not cluster.errors.last:
            continue  # the pass has ended early: the next one has the other pods
        if once:
            break
        cluster.rest(interval, stop)


def schedule_pending_pods(cluster: LiveCluster, policies: dict[str, FullPolicy],
                          stop: threading.Event) -> None:
    """Make a pass: try each waiting pod that is due. `policies` is {schedulerName: Policy}."""
    cluster.begin_pass(policies)  # applies updates from the watch, and finds out which pods are due
    while pod := cluster.next_pod(stop):  # highest priority first
        decision = schedule(pod, cluster.snapshot, policies[pod.scheduler])
        cluster.on_decided(decision)
        cluster.attempts.carry_out(decision)  # starts its Binding, or reports why it stays pending
