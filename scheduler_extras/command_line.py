"""The command line: chooses what to do from the options, and returns the exit code.

`python scheduler_extras` calls its `main`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import logging
import math
import os
import random
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import scheduler
from scheduler import log
from scheduler_extras.api.client import ApiClient
from scheduler_extras.api.service_account import service_account
from scheduler_extras.common.blame import describe_error
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.common.clocks import HEARTBEAT, STOP, in_background
from scheduler_extras.common.errors import FAILURE, ApiError, InputError
from scheduler_extras.live.writer import DryRun, Writer
from scheduler_extras.manifests.in_memory_writer import WriterOfManifests
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.options import PROXY, read_arguments
from scheduler_extras.policy.own_rules import check_rules_of_the_script
from scheduler_extras.policy.policy_file import PolicyFile
from scheduler_extras.process import give_up_output, stop_on_signals, watch_the_loop
from scheduler_extras.runs import Run, run_live, run_manifests
from scheduler_extras.serve.sandbox import versions_of
from scheduler_extras.show.compare import compare
from scheduler_extras.show.drain import Cordoned, show_drain
from scheduler_extras.show.journal import ALL, Journal, LogOfJournal
from scheduler_extras.show.log_lines import LogLines
from scheduler_extras.show.one_pod import show_one_pod
from scheduler_extras.show.page.page import document
from scheduler_extras.show.report import Reporter
from scheduler_extras.show.text import Screen


def command_line(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit code."""
    FAILURE.clear()
    STOP.clear()
    gc.set_threshold(50000)  # a big cluster has many objects, but little garbage
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if not getattr(sys, name):  # closed with >&-
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    options = read_arguments(argv)
    CHANCE.seed = options.seed
    if options.compare and CHANCE.seed is None:
        CHANCE.seed = ""  # random choices are the same for all Policies
    if options.cluster and options.listen and CHANCE.seed is None:
        CHANCE.seed = str(random.random())  # when a file changes, choices between equal nodes stay the same
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


def run_command(options: argparse.Namespace, screen: Screen) -> bool:
    """Run what the options ask for. Return whether something failed. Raises ApiError, InputError."""
    shipped = str(Path(scheduler.__file__).with_name("policy.json")).removeprefix(os.getcwd() + os.sep)
    files = [PolicyFile(path, options.scheduler_name, options.plugins, options.preempt)
             for path in (options.policy or shipped, *options.compare)]
    versions = versions_of(options.cluster)  # before they are read, so that no edit is missed
    rescheduled = files[0].policies if options.anew else ()
    api: Any = Manifests(options.cluster, rescheduled) if options.cluster else api_server(options.server)
    stop = stop_on_signals()
    if options.compare:
        return compare(api, files, stop, options, screen)
    is_a_page = options.output == "html"
    report = (lambda *decision: None) if is_a_page else Reporter(options, screen)
    run = Run(options, screen, files[0], stop, report, journal_for(options, files[0].path))
    writer = writer_for(Cordoned(api, options.drain) if options.drain else api, options)
    if options.drain:
        return show_drain(run.cluster_for(writer), files[0], options, screen)
    if isinstance(options.explain, str) or options.fits:
        has_failed = show_one_pod(run.cluster_for(writer), files[0], stop, options, screen)
    elif options.cluster:
        has_failed = run_manifests(writer, run, versions)
    else:
        has_failed = bool(run_live(writer, run))
    if is_a_page and run.journal:
        screen.print(document(run.journal.frames))
    return has_failed


def journal_for(options: argparse.Namespace, path: str) -> Journal | None:
    """Return the Journal for a page, which also receives the log; None if no page is wanted."""
    is_a_page = options.output == "html"
    if not (is_a_page or options.listen):
        return None
    journal = Journal(path, *[ALL, ALL] if is_a_page or options.cluster else [])
    log.addHandler(LogOfJournal(journal))
    return journal


def api_server(url: str | None) -> ApiClient:
    """Return a client of the API server: through kubectl proxy, or directly in a pod without --server."""
    account = None if url else service_account()
    return ApiClient(account.server, account) if account else ApiClient(url or PROXY)


def writer_for(api: Any, options: argparse.Namespace) -> Writer:
    """Return the Writer for the options."""
    if options.dry_run:
        return DryRun(api)
    return WriterOfManifests(api) if options.cluster else Writer(api)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and handle errors of the output. Return the exit code."""
    try:
        return command_line(argv)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if isinstance(error, OSError) and not error.filename:
            give_up_output(error)
        else:  # a mistake in the loop, for example
            log.error("%s", describe_error(error))
            log.debug("traceback:", exc_info=error)
        return 1
