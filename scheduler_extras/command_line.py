"""The command line: what each of its options has done.

`python scheduler_extras` calls its `main`.
"""

import contextlib
import functools
import gc
import logging
import math
import os
import sys
import threading
from pathlib import Path

import scheduler
from scheduler import log
from scheduler_extras.api.election import LeaderElection
from scheduler_extras.api.proxy import PooledProxy
from scheduler_extras.api.retries import patiently
from scheduler_extras.api.service_account import service_account
from scheduler_extras.common.blame import FAILURE, what_broke
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.common.clocks import HEARTBEAT, STOP, in_background
from scheduler_extras.common.errors import ApiError, InputError
from scheduler_extras.live.live import ListedCluster, LiveCluster, make_passes
from scheduler_extras.live.session import poll
from scheduler_extras.live.writer import DryRun, Writer
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.manifests.stateful_sets import pods_to_come
from scheduler_extras.manifests.writer import WriterOfManifests
from scheduler_extras.options import PROXY, read_arguments
from scheduler_extras.policy.own_rules import check_rules_of_the_script
from scheduler_extras.policy.reloading import PolicyFile
from scheduler_extras.process import give_up_output, stop_on_signals, watch_the_loop
from scheduler_extras.serve.health import health_routes
from scheduler_extras.serve.metrics import State, metrics_route
from scheduler_extras.serve.observations import Observations
from scheduler_extras.serve.pages import page_routes
from scheduler_extras.serve.sandbox import run_again_on_changes, versions_of
from scheduler_extras.serve.server import Server
from scheduler_extras.show.compare import compare
from scheduler_extras.show.drain import Cordoned, show_drain
from scheduler_extras.show.journal import ALL, SHARE, Journal, LogOfJournal
from scheduler_extras.show.log_lines import LogLines
from scheduler_extras.show.one_pod import show_one_pod
from scheduler_extras.show.page.page import document
from scheduler_extras.show.picture import picture, pods_without_node
from scheduler_extras.show.report import Reporter, how_to_place_others, mistakes_once, those_gone
from scheduler_extras.show.text import Screen


def command_line(argv=None):
    """Run the command line; return the exit code."""
    FAILURE.clear()
    STOP.clear()
    gc.set_threshold(50000)  # of the many objects of a big cluster, few are ever garbage
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if not getattr(sys, name):  # it is closed, as by >&-
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    options = read_arguments(argv)
    CHANCE.seed = options.seed
    if options.compare and CHANCE.seed is None:
        CHANCE.seed = ""  # chance decides alike for all that is compared
    is_timed = options.verbose or options.goes_on
    handler = logging.StreamHandler()
    handler.setFormatter(LogLines(
        "%(asctime)s  %(message)s" if is_timed else "%(message)s", None if options.verbose else "%H:%M:%S"))
    logging.basicConfig(handlers=[handler])
    log.setLevel(logging.DEBUG if options.verbose else logging.INFO)
    screen = Screen()
    rules_print_to = sys.stdout if options.output == "text" else sys.stderr
    ended = threading.Event()
    try:
        HEARTBEAT.limit = math.inf
        in_background(watch_the_loop, threading.get_ident(), ended)
        check_rules_of_the_script()
        with contextlib.redirect_stdout(rules_print_to):
            return int(run_command(options, screen))
    except (ApiError, InputError) as error:
        log.error("%s", error)
        return 1 if isinstance(error, ApiError) else 2
    finally:
        ended.set()


def run_command(options, screen):
    """Do what the command line asks for; return whether something failed. Raises ApiError, InputError."""
    shipped = str(Path(scheduler.__file__).with_name("policy.json")).removeprefix(os.getcwd() + os.sep)
    files = [PolicyFile(path, options.scheduler_name, options.plugins, options.preempt)
             for path in (options.policy or shipped, *options.compare)]
    policies = files[0].policies
    anew = policies if options.anew else ()
    seen = versions_of(options.cluster)  # before they are read: what is edited from here on counts
    api = Manifests(options.cluster, anew) if options.cluster else api_server(options.server)
    stop = stop_on_signals()
    if options.compare:
        return compare(api, files, stop, options, screen)
    is_a_page = options.output == "html"
    journal = None
    if is_a_page or options.listen:
        journal = Journal(str(files[0].path), ALL if is_a_page or options.cluster else SHARE)
        log.addHandler(LogOfJournal(journal))
    report = (lambda *decision: None) if is_a_page else Reporter(options, screen)
    writer = writer_for(Cordoned(api, options.drain) if options.drain else api, options)
    if options.drain:
        return show_drain(cluster_for(writer, options, report, journal), files[0], options, screen)
    if isinstance(options.explain, str) or options.fits:
        cluster = cluster_for(writer, options, report, journal)
        has_failed = show_one_pod(cluster, files[0], stop, options, screen)
    elif options.cluster:
        has_failed = run_manifests(writer, seen, files[0], stop, options, screen, report, journal)
    else:
        has_failed = run_live(writer, files[0], stop, options, report, journal)
    if is_a_page and journal:
        screen.print(document(journal.frames))
    return has_failed


def cluster_for(writer, options, report, journal):
    """Return the cluster that an API server, or manifests, show; what is decided there is reported."""
    is_listed = options.cluster or isinstance(options.explain, str) or options.fits or options.drain
    kind_of_cluster = ListedCluster if is_listed else LiveCluster
    sum_up = getattr(report, "sum_up", lambda: None)
    if not journal:
        return kind_of_cluster(writer, report, at_rest=sum_up)
    cluster = kind_of_cluster(writer, both(report, journal.carried_out))
    cluster.at_rest = both(sum_up, functools.partial(journal.look, cluster))
    cluster.observe = functools.partial(journal.decided, cluster)
    return cluster


def both(*functions):
    """Return a function that calls these with its arguments."""
    def call(*arguments):
        """Call each."""
        for function in functions:
            function(*arguments)
    return call


def run_live(writer, policy_file, stop, options, report, journal):
    """Schedule a live cluster's pods. Return the exit code."""
    policies = policy_file.policies
    cluster = cluster_for(writer, options, report, journal)
    say_at_start(policies, policy_file.path, options, writer.api)
    election = election_for(writer.api, policies, options)
    if options.listen:
        observations = Observations(cluster)
        metrics = {"/metrics": metrics_route(observations, State(cluster, election))}
        cluster.api.observer = cluster.cycle.observer = cluster.pending.observer = observations
        listen(options.listen, metrics | health_routes(cluster, election) | page_routes(journal.frames))
    begin(cluster, policies, options)
    return poll(cluster, policy_file, stop, options, election)


def run_manifests(writer, seen, policy_file, stop, options, screen, report, journal):
    """Schedule the pods of manifests; with --listen, again after each edit. Return whether something failed.

    seen: the versions of the files that were read.
    """
    def run_once(manifests):
        """Schedule the pods of manifests."""
        writer.api = manifests
        cluster = cluster_for(writer, options, report, journal)
        begin(cluster, policy_file.policies, options)
        return schedule_manifests(cluster, policy_file.policies, stop, options, screen)

    say_at_start(policy_file.policies, policy_file.path, options, writer.api)
    if options.listen:
        listen(options.listen, page_routes(journal.frames))
    has_failed = run_once(writer.api)
    if options.listen:
        has_failed = False
        run_again_on_changes(options.cluster, seen, policy_file, run_once, journal, stop, options.anew)
    return has_failed


def begin(cluster, policies, options):
    """Find out which pods wait, and log if there are none."""
    waiting = waiting_at_start(cluster, policies, options)
    if waiting is not None and not cluster.pods_to_try(waiting, policies):
        say_that_none_waits(policies, waiting)


def api_server(url):
    """Return the API server: behind kubectl proxy, or, in a pod and without --server, itself."""
    account = None if url else service_account()
    return PooledProxy(account.server, account) if account else PooledProxy(url or PROXY)


def listen(address, routes):
    """Serve these routes at an address and a port. Raises InputError."""
    host, port = address
    server = Server(host, port, routes)
    server.start()
    log.info("serving %s at %s", ", ".join(server.routes), server.url)


def writer_for(api, options):
    """Return what writes to a cluster as the options want it."""
    if options.dry_run:
        return DryRun(api)
    return WriterOfManifests(api) if options.cluster else Writer(api)


def say_at_start(policies, path, options, api):
    """Log what is going to be done, and what no rule checks."""
    if options.dry_run:
        log.info("dry run: nothing is written")
    if options.cluster:
        return
    log.info("%s: watching %s with %s", ", ".join(policies), api.server, path)
    for name, policy in policies.items():
        if policy.unchecked:
            what = ", ".join(policy.unchecked)
            log.info("%s: %s has no rule for %s; --policy DefaultProvider has", name, path, what)


def waiting_at_start(cluster, policies, options):
    """Return the pods that wait; None if the API server does not tell, which the loop will meet, too.

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


def schedule_manifests(cluster, policies, stop, options, screen):
    """Schedule the pods of manifests, and show where they are then. Return whether something failed."""
    cluster.look(policies)
    placed = {pod.uid: pod for pod in cluster.cache.pods.values() if pod.node_name}
    snapshot = make_passes(cluster, policies, stop, options.once)
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
    return cluster.has_failed() or stop.is_set()


def main(argv=None):
    """Run the command line to its end, whatever becomes of its output; return the exit code."""
    try:
        return command_line(argv)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if isinstance(error, OSError) and not error.filename:
            give_up_output(error)
        else:  # a mistake in the loop, for example
            log.error("%s", what_broke(error))
            log.debug("how it came to that:", exc_info=error)
        return 1
