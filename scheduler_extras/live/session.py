"""A run on a live cluster, from the leader election to the last write.

runs.py calls `run_session`.
"""

from __future__ import annotations

import argparse
import contextlib
import threading
import time

from scheduler import log
from scheduler_extras.api.election import LeaderElection
from scheduler_extras.common.clocks import HEARTBEAT
from scheduler_extras.common.errors import ApiError
from scheduler_extras.common.libc import limit_unused_memory, load_libgcc
from scheduler_extras.live.cache import Cache
from scheduler_extras.live.cluster import LiveCluster
from scheduler_extras.live.loop import run_loop
from scheduler_extras.live.pod_record import WaitsFor
from scheduler_extras.policy.policy_file import PolicyFile


def run_session(cluster: LiveCluster, policy_file: PolicyFile, stop: threading.Event,
                options: argparse.Namespace, election: LeaderElection | None) -> int:
    """Schedule a live cluster's pods, with leader election only while leading. Return the exit code."""
    limit_unused_memory()
    load_libgcc()
    if election and not election.lead(stop, lambda: keep_up(cluster.cache)):
        return int(options.once)
    HEARTBEAT.at = time.monotonic()
    HEARTBEAT.limit = election.renew_deadline if election else 60
    interval = min(options.interval, 0.2) if options.listen else options.interval  # edits show at once
    code = run_to_the_end(cluster, policy_file, stop, interval, options.once)
    if options.goes_on:
        log_totals(cluster)
    stop.set()
    if election:
        election.release()
    return 1 if election and election.lost else code


def log_totals(cluster: LiveCluster) -> None:
    """Log how many pods this run has bound, and how many are pending."""
    pending = [record for record in cluster.queue.values() if record.waits_for is not WaitsFor.CONFIRMATION]
    log.info("bound %d, %d pending", cluster.attempts.bound, len(pending))


def keep_up(cache: Cache) -> None:
    """Apply updates while another replica leads, so that this one can take over at once."""
    with contextlib.suppress(ApiError):  # the loop reports it once it runs
        cache.update_for(cache.snapshot.policies)
    cache.arrived.clear()
    cache.terminating.clear()  # the leader reports them


def run_to_the_end(cluster: LiveCluster, policy_file: PolicyFile, stop: threading.Event, interval: float,
                   once: bool) -> int:
    """Run the loop, and wait until everything is written. Return the exit code."""
    run_loop(cluster, policy_file.reload_if_changed, stop, interval, once)
    cluster.on_rest()
    cluster.results.finish(seconds=3 if stop.is_set() else 10)
    return int(once and (cluster.has_failed() or stop.is_set()))
