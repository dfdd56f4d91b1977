"""Runs of the loop, on a live cluster or on manifests: how a run begins, and what it shows in the end.

command_line.py creates a Run, and calls run_live or run_manifests.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scheduler import log
from scheduler_extras.api.election import LeaderElection
from scheduler_extras.api.http_retries import patiently
from scheduler_extras.common.errors import ApiError
from scheduler_extras.live.cluster import ListedCluster, LiveCluster
from scheduler_extras.live.passes import make_passes
from scheduler_extras.live.session import run_session
from scheduler_extras.live.writer import Writer
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.manifests.stateful_sets import pods_to_come
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.policy_file import PolicyFile
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.serve.gauges import ClusterGauges, metrics_route, operator_values
from scheduler_extras.serve.health import health_routes
from scheduler_extras.serve.metrics import Observations
from scheduler_extras.serve.pages import page_routes
from scheduler_extras.serve.sandbox import run_again_on_changes
from scheduler_extras.serve.server import Routes, Server
from scheduler_extras.show.journal import Journal
from scheduler_extras.show.picture import picture, pods_without_node
from scheduler_extras.show.report import how_to_place_others, lines_about_gone_pods, mistakes_once
from scheduler_extras.show.text import Screen


@dataclass
class Run:
    """The options of a run, and what it works with."""

    options: argparse.Namespace
    screen: Screen
    policy_file: PolicyFile
    stop: threading.Event
    report: Callable  # prints a decision
    journal: Journal | None  # for a page

    def cluster_for(self, writer: Writer) -> LiveCluster:
        """Return the cluster for a Writer. It reports its decisions."""
        options = self.options
        is_listed = options.cluster or isinstance(options.explain, str) or options.fits or options.drain
        kind_of_cluster = ListedCluster if is_listed else LiveCluster
        print_counts = getattr(self.report, "print_counts", lambda: None)
        cluster = kind_of_cluster(writer, self.report, on_rest=print_counts)
        if self.journal:
            attach_journal(cluster, self.journal)
        return cluster


def attach_journal(cluster: LiveCluster, journal: Journal) -> None:
    """Make a journal record the decisions and changes of a cluster."""
    cluster.attempts.on_carried_out = both(cluster.attempts.on_carried_out, journal.carried_out)
    cluster.on_rest = both(cluster.on_rest, functools.partial(journal.note_changes, cluster))
    cluster.on_decided = functools.partial(journal.decided, cluster)


def both(first: Callable, second: Callable) -> Callable[..., None]:
    """Return a function that calls both of these with its arguments."""
    def call(*arguments: Any) -> None:
        """Call one after the other."""
        first(*arguments)
        second(*arguments)
    return call


def run_live(writer: Writer, run: Run) -> int:
    """Schedule a live cluster's pods. Return the exit code."""
    options = run.options
    cluster = run.cluster_for(writer)
    log_start(writer.api, run)
    election = election_for(writer.api, run.policy_file.policies, options)
    if election:
        writer.may_write = election.leads
    if options.listen and run.journal:
        observations = Observations(cluster)
        metrics = {"/metrics": metrics_route(observations, ClusterGauges(cluster, election))}
        cluster.api.observer = cluster.attempts.observer = cluster.queue.observer = observations
        listen(options.listen, metrics | health_routes(cluster, election)
               | page_routes(run.journal.frames, functools.partial(operator_values, observations, election)))
    begin(cluster, run)
    return run_session(cluster, run.policy_file, run.stop, options, election)


def run_manifests(writer: Writer, run: Run, versions: dict[str, tuple]) -> bool:
    """Schedule the pods of manifests, with --listen again after each edit. Return whether something failed.

    versions: of the files that were read.
    """
    options = run.options

    def run_once(manifests: Manifests) -> bool:
        """Schedule the pods of manifests. Return whether something failed."""
        writer.api = manifests
        cluster = run.cluster_for(writer)
        begin(cluster, run)
        return schedule_manifests(cluster, run)

    log_start(writer.api, run)
    if options.listen and run.journal:
        listen(options.listen, page_routes(run.journal.frames))
    has_failed = run_once(writer.api)
    if options.listen and run.journal:
        has_failed = False
        run_again_on_changes(
            options.cluster, versions, run.policy_file, run_once, run.journal, run.stop, options.anew)
    return has_failed


def begin(cluster: LiveCluster, run: Run) -> None:
    """Find the waiting pods, and log if there are none."""
    policies = run.policy_file.policies
    waiting = waiting_at_start(cluster, policies, run.options)
    if waiting is not None and not cluster.update_queue(waiting, policies):
        log_no_pods(policies, waiting)


def listen(address: tuple[str, int], routes: Routes) -> None:
    """Serve these routes at an address and a port. Raises InputError."""
    host, port = address
    server = Server(host, port, routes)
    server.start()
    others = [path for path in server.routes if path.count("/") == 1 and path != "/"]  # not /livez/ping
    log.info("serving %s and %s", server.url, ", ".join(others))


def log_start(api: Any, run: Run) -> None:
    """Log what the run does, and which requirements of pods no active rule checks."""
    policies, path = run.policy_file.policies, run.policy_file.path
    if run.options.dry_run:
        log.info("dry run: nothing is written")
    if run.options.cluster:
        return
    log.info("%s: watching %s with %s", ", ".join(policies), api.server, path)
    for name, policy in policies.items():
        if policy.unchecked:
            what = ", ".join(policy.unchecked)
            log.info("%s: %s has no rule for %s; --policy DefaultProvider has", name, path, what)
    if run.options.output == "html":
        end = "you press Ctrl-C" if run.options.goes_on else "no pod is due"
        log.info("the page is written when %s", end)


def waiting_at_start(cluster: LiveCluster, policies: dict[str, FullPolicy],
                     options: argparse.Namespace) -> list[FullPod] | None:
    """Return the waiting pods; None if the API server is unavailable, which the loop will report.

    This retries for a second, because a kubectl proxy may have been started at the same time.
    """
    with contextlib.suppress(ApiError):
        return patiently(cluster.find_waiting, policies, pauses=() if options.once else (0.2, 0.3, 0.5))
    return None


def log_no_pods(policies: dict[str, FullPolicy], waiting: list[FullPod]) -> None:
    """Log why there is nothing to do. waiting: the pods without a node that name these schedulers."""
    why = "no pod without a node has this spec.schedulerName"
    if waiting:
        why = "those without a node have scheduling gates, are being deleted, or are held back by a rule"
    log.info("no pods to schedule for %s: %s", ", ".join(policies), why)


def election_for(api: Any, policies: dict[str, FullPolicy],
                 options: argparse.Namespace) -> LeaderElection | None:
    """Return the LeaderElection if the options or the configuration ask for it, else None."""
    settings = next(iter(policies.values())).election  # all profiles have the same
    is_wanted = options.leader_elect == "true" if options.leader_elect else settings.get("leaderElect")
    if options.dry_run or options.cluster or not is_wanted:
        return None
    return LeaderElection(api, options.scheduler_name, settings)


def schedule_manifests(cluster: LiveCluster, run: Run) -> bool:
    """Schedule the pods of manifests, and show the picture. Return whether something failed."""
    options, screen, policies = run.options, run.screen, run.policy_file.policies
    cluster.refresh_snapshot(policies)
    placed = {pod.uid: pod for pod in cluster.cache.pods.values() if pod.node_name}
    snapshot = make_passes(cluster, policies, run.stop, options.once)
    cluster.on_rest()
    if options.output == "text":
        pods = [*cluster.cache.pods.values()]
        new = {pod.uid for pod in pods} - placed.keys()
        reasons = mistakes_once({uid: record.published.messages["event"]
                                 for uid, record in cluster.queue.items()})
        screen.print(*picture(snapshot.nodes.values(), pods, screen, new),
                     *lines_about_gone_pods(placed, pods, screen),
                     *pods_without_node(pods, snapshot, screen, reasons),
                     *pods_to_come(cluster.api.objects),
                     *how_to_place_others(pods, policies, options, screen))
    return cluster.has_failed() or run.stop.is_set()
