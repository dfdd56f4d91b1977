"""The command line: its options, and what each of them has done.

`python scheduler_extras` calls its `main`.
"""

import argparse
import contextlib
import gc
import logging
import math
import os
import re
import sys
import threading
import time
from pathlib import Path

import scheduler
from scheduler import log
from scheduler_extras.api.election import LeaderElection
from scheduler_extras.api.proxy import PooledProxy, load_what_ends_threads, share_memory_among_threads
from scheduler_extras.api.retries import patiently
from scheduler_extras.common.blame import FAILURE, what_broke
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.common.clocks import HEARTBEAT, STOP, in_background
from scheduler_extras.common.errors import ApiError, InputError
from scheduler_extras.live.live import ListedCluster, LiveCluster, make_passes
from scheduler_extras.live.loop import run
from scheduler_extras.live.writer import DryRun, Writer
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.manifests.writer import WriterOfManifests
from scheduler_extras.policy.own_rules import check_rules_of_the_script
from scheduler_extras.policy.reloading import PolicyFile
from scheduler_extras.process import give_up_output, stop_on_signals, watch_the_loop
from scheduler_extras.reading.hints import did_you_mean
from scheduler_extras.show.compare import compare
from scheduler_extras.show.one_pod import show_one_pod
from scheduler_extras.show.page.page import Page
from scheduler_extras.show.picture import picture, pods_without_node
from scheduler_extras.show.report import Reporter
from scheduler_extras.show.text import Screen, traceback_in_lines


def not_empty(text):
    """Return what an option is given. Raises ArgumentTypeError if it is empty."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; is a variable of the shell not set?")
    return text


def option_parser():
    """Return what reads the options."""
    parser = argparse.ArgumentParser(
        prog="python scheduler_extras", usage="%(prog)s [options]", allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Schedule the pods that name this scheduler, by the rules that a Policy file names.",
        epilog=f"""examples:
  kubectl proxy & python scheduler_extras         schedule a cluster's pods until Ctrl-C
  python scheduler_extras --cluster tests/demo.yaml    schedule manifests, without a cluster
  python scheduler_extras --explain default/web-1 show why that pod goes, or would go, where it does
  {Manifests.COMMAND} | \\
    python scheduler_extras --cluster -           schedule a copy of a live cluster

exit codes: 0 fine, 1 failed, 2 wrong usage, Policy or manifest""")
    add = parser.add_argument
    add("--server", default="http://127.0.0.1:8001", metavar="URL", help="of kubectl proxy (%(default)s)")
    add("--scheduler-name", type=not_empty, default="my-scheduler", metavar="NAME",
        help="schedule its pods (%(default)s)")
    add("--policy", "--config", "--policy-config-file", "--algorithm-provider",
        type=not_empty, metavar="FILE",
        help="Policy, KubeSchedulerConfiguration, DefaultProvider or ClusterAutoscalerProvider (policy.json)")
    add("--plugins", type=not_empty, nargs="+", action="extend", default=[], metavar="FILE",
        help="Python files with rules of your own")
    add("--preempt", action="store_true",
        help="delete less important pods for one that fits nowhere, as a configuration does by itself")
    add("--interval", type=float, default=1, metavar="SECONDS", help="between polls (%(default)s)")
    add("--once", action="store_true", help="make passes until no pod is due, then stop")
    add("--leader-elect", nargs="?", const="true", choices=["true", "false"], help="lead by a Lease")
    add("--dry-run", action="store_true", help="do everything except writing to the cluster")
    add("--cluster", type=not_empty, nargs="+", action="extend", default=[], metavar="FILE",
        help="schedule manifests (a folder: those in it; -: standard input)")
    add("--anew", action="store_true", help="with --cluster: place our schedulers' pods anew")
    add("--explain", type=not_empty, nargs="?", const=True, metavar="POD",
        help="show decisions, or where POD would go")
    add("--fits", type=not_empty, metavar="POD", help="show how many copies of POD the cluster would take")
    add("--compare", type=not_empty, nargs="+", action="extend", default=[], metavar="FILE",
        help="with --cluster: schedule by these, too; show what differs")
    add("--seed", help="make the choice among equally good nodes repeatable")
    add("-o", "--output", choices=["text", "json", "html"], default="text",
        help="json: an object for each decision; html: a page of all of them")
    add("-v", "--verbose", action="store_true", help="log every request to the API server")
    return parser


def read_arguments(argv):
    """Read the command line; what is wrong in it ends the process."""
    parser = option_parser()
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        word = unknown[0].partition("=")[0]
        otherwise = "" if word.startswith("-") else "; manifests are given by --cluster"
        hint = did_you_mean(word, parser._option_string_actions, otherwise)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    server = re.fullmatch(r"http://([\w.-]+|\[[\da-fA-F:.]+])(:(\d{1,5}))?(/[\w./~%-]*)?", options.server)
    if options.server.startswith("https://"):
        parser.error("--server: https needs a CA and a token, which kubectl proxy has: run it, and give its "
                     "http:// URL")
    if "://" not in options.server:
        parser.error("--server: expected a URL such as http://127.0.0.1:8001, with http:// before the host")
    if not server or int(server[3] or 0) > 65535:
        parser.error("--server: expected a URL such as http://127.0.0.1:8001, without a user or a password")
    if options.anew and not options.cluster:
        parser.error("--anew needs --cluster: pods of a live cluster stay where they are")
    if not 0 < options.interval < 1e6:
        parser.error(f"--interval {options.interval}: expected a number of seconds above 0")
    is_about_one = options.explain or options.fits
    if options.compare and (is_about_one or options.output == "html" or not options.cluster):
        parser.error("--compare needs --cluster, and goes without --explain, --fits and --output html")
    return options


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
    formatter = logging.Formatter("%(asctime)s  %(message)s" if options.verbose else "%(message)s")
    errors = Screen(sys.stderr)
    plain = formatter.formatMessage
    formatter.formatMessage = lambda record: "\n".join(errors.folded(plain(record)))
    formatter.formatException = traceback_in_lines
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
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
    api = Manifests(options.cluster, anew) if options.cluster else PooledProxy(options.server)
    stop = stop_on_signals()
    if options.compare:
        return compare(api, files, stop, options, screen)
    is_explained = isinstance(options.explain, str)
    report = Page(files[0].path) if options.output == "html" else Reporter(options, screen)
    kind_of_cluster = ListedCluster if options.cluster or is_explained or options.fits else LiveCluster
    cluster = kind_of_cluster(writer_for(api, options), report, at_rest=report.sum_up)
    if is_explained or options.fits:
        return show_one_pod(cluster, files[0], stop, options, screen)
    say_at_start(policies, files[0].path, options)
    waiting = waiting_at_start(cluster, policies, options)
    if waiting is not None:
        if options.output == "html":
            report.expect(waiting)
        if not cluster.pods_to_try(waiting, policies):
            say_that_none_waits(policies, waiting)
    if options.cluster:
        has_failed = schedule_manifests(cluster, policies, stop, options, screen)
    else:
        has_failed = poll(cluster, files[0], stop, options)
    if options.output == "html":
        screen.print(report.document(cluster.snapshot.nodes.values()))
    return has_failed


def writer_for(api, options):
    """Return what writes to a cluster as the options want it."""
    if options.dry_run:
        return DryRun(api)
    return WriterOfManifests(api) if options.cluster else Writer(api)


def say_at_start(policies, path, options):
    """Say what is going to be done, and what no rule looks at."""
    if options.dry_run:
        log.info("dry run: nothing is written")
    if options.cluster:
        return
    log.info("%s: polling %s by %s", ", ".join(policies), options.server, path)
    for name, policy in policies.items():
        if policy.unchecked:
            what = ", ".join(policy.unchecked)
            log.info("%s: no rule of %s looks at %s; those of --policy DefaultProvider do", name, path, what)


def waiting_at_start(cluster, policies, options):
    """Return the pods that wait; None if the API server does not tell, which the loop will meet, too.

    A kubectl proxy that was started at the same time may need a second.
    """
    with contextlib.suppress(ApiError):
        return patiently(cluster.waiting_pods, policies, pauses=() if options.once else (0.2, 0.3, 0.5))
    return None


def say_that_none_waits(policies, waiting):
    """Say why there is nothing to do. waiting: the pods without a node that name these schedulers."""
    why = "there is none that has this spec.schedulerName and no node yet"
    if waiting:
        why = "those without a node have scheduling gates, are being deleted, or a rule says no"
    log.info("no pod waits for %s: %s", ", ".join(policies), why)


def poll(cluster, policy_file, stop, options):
    """Schedule a live cluster's pods; where a leader is elected, only while leading. Return the exit code."""
    share_memory_among_threads()
    load_what_ends_threads()
    settings = next(iter(policy_file.policies.values())).election  # all profiles have the same
    election = LeaderElection(cluster.api, options.scheduler_name, settings)
    is_wanted = options.leader_elect == "true" if options.leader_elect else settings.get("leaderElect")
    elected = is_wanted and not options.dry_run
    if elected:
        cluster.writer.may_write = election.leads
        if not election.lead(stop, lambda: keep_up(cluster.cache)):
            return int(options.once)
    HEARTBEAT.at = time.monotonic()
    HEARTBEAT.limit = election.renew_deadline if elected else 60
    code = run_to_the_end(cluster, policy_file, stop, options.interval, options.once)
    stop.set()
    if elected:
        election.release()
    return 1 if election.lost else code


def keep_up(cache):
    """Apply updates while another replica leads, so that this one can take over at once."""
    with contextlib.suppress(ApiError):  # which the loop meets, once it runs
        cache.refresh()
    cache.arrived.clear()


def run_to_the_end(cluster, policy_file, stop, interval, once):
    """Run the loop, and wait until all is written. Return the exit code."""
    run(cluster, policy_file.current, stop, interval, once)
    cluster.at_rest()
    cluster.results.finish(seconds=3 if stop.is_set() else 10)
    return int(once and (cluster.has_failed() or stop.is_set()))


def schedule_manifests(cluster, policies, stop, options, screen):
    """Schedule the pods of manifests, and show where they are then. Return whether something failed."""
    waiting = {pod.uid for pod in cluster.waiting_pods(policies)}
    snapshot = make_passes(cluster, policies, stop, options.once)
    cluster.at_rest()
    if options.output == "text":
        pods = cluster.cache.pods.values()
        reasons = {uid: record.published.messages["event"] for uid, record in cluster.pending.items()}
        screen.print(*picture(snapshot.nodes.values(), pods, screen, waiting),
                     *pods_without_node(pods, snapshot, screen, reasons))
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
