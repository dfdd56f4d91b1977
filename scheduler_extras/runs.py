"""Runs of the loop, beside a live cluster or on manifests: how one begins, and what it shows in the end.

command_line.py makes a Run, and has it carried out.
"""

import argparse
import contextlib
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass

from scheduler import log
from scheduler_extras.api.election import LeaderElection
from scheduler_extras.api.retries import patiently
from scheduler_extras.common.errors import ApiError
from scheduler_extras.live.live import ListedCluster, LiveCluster, make_passes
from scheduler_extras.live.session import poll
from scheduler_extras.manifests.stateful_sets import pods_to_come
from scheduler_extras.policy.reloading import PolicyFile
from scheduler_extras.serve.health import health_routes
from scheduler_extras.serve.metrics import State, for_an_operator, metrics_route
from scheduler_extras.serve.observations import Observations
from scheduler_extras.serve.pages import page_routes
from scheduler_extras.serve.sandbox import run_again_on_changes
from scheduler_extras.serve.server import Server
from scheduler_extras.show.journal import Journal
from scheduler_extras.show.picture import picture, pods_without_node
from scheduler_extras.show.report import how_to_place_others, mistakes_once, those_gone
from scheduler_extras.show.text import Screen


@dataclass
class Run:
    """What a run is asked to do, and what it works with."""

    options: argparse.Namespace
    screen: Screen
    policy_file: PolicyFile
    stop: threading.Event
    report: Callable  # prints a decision
    journal: Journal | None  # for a page

    def cluster_for(self, writer):
        """Return the cluster that an API server, or manifests, show; its decisions are reported."""
        options = self.options
        is_listed = options.cluster or isinstance(options.explain, str) or options.fits or options.drain
        kind_of_cluster = ListedCluster if is_listed else LiveCluster
        sum_up = getattr(self.report, "sum_up", lambda: None)
        cluster = kind_of_cluster(writer, self.report, at_rest=sum_up)
        if self.journal:
            observe(cluster, self.journal)
        return cluster


def observe(cluster, journal):
    """Have a journal record what happens in a cluster."""
    cluster.show = both(cluster.show, journal.carried_out)
    cluster.at_rest = both(cluster.at_rest, functools.partial(journal.look, cluster))
    cluster.observe = functools.partial(journal.decided, cluster)


def both(*functions):
    """Return a function that calls these with its arguments."""
    def call(*arguments):
        """Call each."""
        for function in functions:
            function(*arguments)
    return call


def run_live(writer, run):
    """Schedule a live cluster's pods. Return the exit code."""
    options = run.options
    cluster = run.cluster_for(writer)
    say_at_start(writer.api, run)
    election = election_for(writer.api, run.policy_file.policies, options)
    if options.listen:
        observations = Observations(cluster)
        metrics = {"/metrics": metrics_route(observations, State(cluster, election))}
        cluster.api.observer = cluster.cycle.observer = cluster.pending.observer = observations
        listen(options.listen, metrics | health_routes(cluster, election)
               | page_routes(run.journal.frames, functools.partial(for_an_operator, observations, election)))
    begin(cluster, run)
    return poll(cluster, run.policy_file, run.stop, options, election)


def run_manifests(writer, run, seen):
    """Schedule the pods of manifests; with --listen, again after each edit. Return whether something failed.

    seen: the versions of the files that were read.
    """
    options = run.options

    def run_once(manifests):
        """Schedule the pods of manifests."""
        writer.api = manifests
        cluster = run.cluster_for(writer)
        begin(cluster, run)
        return schedule_manifests(cluster, run)

    say_at_start(writer.api, run)
    if options.listen:
        listen(options.listen, page_routes(run.journal.frames))
    has_failed = run_once(writer.api)
    if options.listen:
        has_failed = False
        run_again_on_changes(
            options.cluster, seen, run.policy_file, run_once, run.journal, run.stop, options.anew)
    return has_failed


def begin(cluster, run):
    """Find out which pods wait, and log if there are none."""
    policies = run.policy_file.policies
    waiting = waiting_at_start(cluster, policies, run.options)
    if waiting is not None and not cluster.pods_to_try(waiting, policies):
        say_that_none_waits(policies, waiting)


def listen(address, routes):
    """Serve these routes at an address and a port. Raises InputError."""
    host, port = address
    server = Server(host, port, routes)
    server.start()
    others = [path for path in server.routes if path.count("/") == 1 and path != "/"]  # not /livez/ping
    log.info("serving %s and %s", server.url, ", ".join(others))


def say_at_start(api, run):
    """Log what the run does, and what pods may require and no rule checks."""
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


def waiting_at_start(cluster, policies, options):
    """Return the pods that wait; None if the API server is in trouble, which the loop will meet, too.

    A kubectl proxy that was started at the same time may need a second.
    """
    with contextlib.suppress(ApiError):
        return patiently(cluster.waiting_pods, policies, pauses=() if options.once else (0.2, 0.3, 0.5))
    return None


def say_that_none_waits(policies, waiting):
    """Say why there is nothing to do. waiting: the pods without a node that name these schedulers."""
    why = "no pod without a node has this spec.schedulerName"
    if waiting:
        why = "those without a node have scheduling gates, are being deleted, or are held back by a rule"
    log.info("no pods to schedule for %s: %s", ", ".join(policies), why)


def election_for(api, policies, options):
    """Return the LeaderElection that the options or the Policy ask for, or None."""
    settings = next(iter(policies.values())).election  # all profiles have the same
    is_wanted = options.leader_elect == "true" if options.leader_elect else settings.get("leaderElect")
    if options.dry_run or options.cluster or not is_wanted:
        return None
    return LeaderElection(api, options.scheduler_name, settings)


def schedule_manifests(cluster, run):
    """Schedule the pods of manifests, and show where they are then. Return whether something failed."""
    options, screen, policies = run.options, run.screen, run.policy_file.policies
    cluster.look(policies)
    placed = {pod.uid: pod for pod in cluster.cache.pods.values() if pod.node_name}
    snapshot = make_passes(cluster, policies, run.stop, options.once)
    cluster.at_rest()
    if options.output == "text":
        pods = cluster.cache.pods.values()
        waiting = {pod.uid for pod in pods} - placed.keys()  # when the run began, or made since
        reasons = mistakes_once({uid: record.published.messages["event"]
                                 for uid, record in cluster.pending.items()})
        screen.print(*picture(snapshot.nodes.values(), pods, screen, waiting),
                     *those_gone(placed, pods, screen),
                     *pods_without_node(pods, snapshot, screen, reasons),
                     *pods_to_come(cluster.api.objects),
                     *how_to_place_others(pods, policies, options, screen))
    return cluster.has_failed() or run.stop.is_set()
