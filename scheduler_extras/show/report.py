"""Printing decisions: a line, the table of --explain, or JSON.

The cluster calls a Reporter for each decision that differs from the last one about the pod.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shlex
import time
from collections.abc import Iterator

from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.live.pod_record import WaitsFor
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.show.explain import explain, in_words
from scheduler_extras.show.text import GREEN, RED, Screen


class Reporter:
    """Prints decisions. Of pods that stay pending for one reason in a pass, it prints one and a count."""

    def __init__(self, options: argparse.Namespace, screen: Screen):
        self.options = options
        self.screen = screen
        self.others: dict[str, int] = {}  # why pods stay pending -> how many more than the printed one

    def __call__(self, decision: FullDecision, stands: str = "") -> None:
        """Print a decision, or count it. stands: the status of the pod, if --explain POD names it."""
        options = self.options
        why = f"{decision.message} {decision.remedy}".rstrip()
        if options.output == "json":
            about = {"stands": stands} if stands else {}
            dry_run = {"dryRun": True} if options.dry_run else {}
            self.screen.print(json.dumps(in_json(decision) | about | dry_run))
        elif options.explain:
            heading = self.screen.fold(f"{stands}:") if stands else []
            self.screen.print(*heading, *explain(decision, self.screen))
            return  # the explanation has the warnings about unchecked requirements
        elif decision.node or why not in self.others:
            self.print(in_words(decision), GREEN if decision.node else RED)
            if not decision.node:
                self.others[why] = 0
        else:
            self.others[why] += 1
        warn_of_unchecked(decision)

    def print(self, text: str, colour: str) -> None:
        """Print a line, with the time if the run lasts until a signal."""
        moment = time.strftime("%H:%M:%S  ") if self.options.goes_on else ""
        self.screen.print(*self.screen.folded(f"{moment}{text}", colour))

    def print_counts(self) -> None:
        """Print how many more pods stay pending for each reason, and reset the counts."""
        for why, count in self.others.items():
            if count:
                are = "pod stays" if count == 1 else "pods stay"
                because = " for the same mistake in a rule" if is_mistake(why) else f": {why}"
                self.print(f"{count} other {are} pending{because}", RED)
        self.others.clear()


def warn_of_unchecked(decision: FullDecision, under: str = "") -> None:
    """Log the requirements of a placed pod that no active rule checks, once for all pods."""
    for what in decision.unchecked if decision.node else ():
        warn_once(f"{under}{decision.pod.key} is placed, though it {what}", about=f"{under}{what}")


def in_json(decision: FullDecision) -> dict:
    """Return a decision as --output json prints it."""
    failed = decision.failed.items()
    record = decision.pod.record  # None if the pod is in no queue
    is_held = bool(record and decision.node) and record.waits_for is WaitsFor.PERMIT
    requests = {name: amount for name, amount in decision.pod.requests.items() if amount}
    free = {name: {each: node.allocatable.get(each, 0) - node.requested.get(each, 0) for each in requests}
            for name, node in decision.nodes.items() if name in decision.failed}
    return {"pod": decision.pod.key, "node": decision.node, "feasible": list(decision.total),
            "failed": {node: [*itertools.chain(*against.values())] for node, against in failed},
            "failedBy": {node: list(against) for node, against in failed}, "requests": requests, "free": free,
            "raw": decision.raw, "scores": decision.scores, "total": decision.total,
            "held": is_held, "waits": decision.why_delayed, "message": decision.message,
            "remedy": decision.remedy}


def is_mistake(why: str | None) -> bool:
    """Return whether a message is about a mistake in a rule: it then names a line of a file."""
    return bool(re.search(r"\.py, line \d+\)", why or ""))


def mistakes_once(reasons: dict[str, str]) -> dict[str, str]:
    """Return {uid: why a pod stays pending}, with each mistake in a rule spelled out only once."""
    seen = set()
    shown = {}
    for uid, why in reasons.items():
        shown[uid] = "the same mistake in a rule" if why in seen and is_mistake(why) else why
        seen.add(why)
    return shown


def lines_about_gone_pods(placed: dict[str, FullPod], pods: list[FullPod], screen: Screen) -> Iterator[str]:
    """Yield a line with the placed pods, {uid: pod}, that have been deleted."""
    left = {pod.uid for pod in pods}
    gone = [f"{pod.key} (was on {pod.node_name})" for uid, pod in placed.items() if uid not in left]
    if gone:
        yield from ["", *screen.fold(f"deleted to make room: {', '.join(gone)}", rest="    ")]


def how_to_place_others(pods: list[FullPod], policies: dict, options: argparse.Namespace,
                        screen: Screen) -> Iterator[str]:
    """Yield the command that schedules the pods of default-scheduler, if any are pending."""
    left = [pod for pod in pods if pod.scheduler == "default-scheduler" and not pod.node_name]
    if left and "default-scheduler" not in policies:
        paths = " ".join(map(shlex.quote, options.cluster))
        policy = f" --policy {shlex.quote(options.policy)}" if options.policy else ""
        who = "the pod" if len(left) == 1 else f"the {len(left)} pods"
        command = f"python scheduler_extras --cluster {paths}{policy} --scheduler-name default-scheduler"
        yield from ["", *screen.fold(f"to place {who} of default-scheduler: {command}", rest="    ")]
