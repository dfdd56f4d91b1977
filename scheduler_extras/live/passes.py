"""Passes outside of the loop: for manifests, until nothing changes; for --explain, up to one pod.

runs.py and show/ call these functions.
"""

from __future__ import annotations

import threading

from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.live.cluster import LiveCluster
from scheduler_extras.live.loop import schedule_pending_pods
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.pods_and_nodes import FullPod


def decide_pods_before(pod: FullPod, cluster: LiveCluster, policies: dict[str, FullPolicy],
                       stop: threading.Event) -> int:
    """Schedule the pods that come before this one in a pass. Return their number; 0 if it is not due."""
    cluster.begin_pass(policies)
    if pod.key not in [each.key for each in cluster.pass_queue]:
        return 0
    count = 0
    on_carried_out = cluster.attempts.on_carried_out
    cluster.attempts.on_carried_out = lambda decision: None
    try:
        while (other := cluster.next_pod(stop)) and other.key != pod.key:
            decision = schedule(other, cluster.snapshot, policies[other.scheduler])
            cluster.attempts.carry_out(decision)
            count += 1
        cluster.results.finish(cluster.writer.patience, stop)
    finally:
        cluster.attempts.on_carried_out = on_carried_out
    return count


def make_passes(cluster: LiveCluster, policies: dict[str, FullPolicy], stop: threading.Event,
                once: bool) -> FullSnapshot:
    """Make passes until one changes nothing. Pods that rules hold then fall back. Return the snapshot."""
    while not stop.is_set():
        before = cluster.api.changes
        schedule_pending_pods(cluster, policies, stop)
        cluster.results.finish(cluster.writer.patience, stop)
        if once or cluster.api.changes == before:
            break
        cluster.queue.end_backoff()  # waiting is pointless: only this program changes manifests
    for record in cluster.queue.values():
        if record.decision:  # rules hold it
            cluster.attempts.requeue(record.decision)
    return cluster.refresh_snapshot(policies)
