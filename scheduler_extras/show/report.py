"""What is printed of each decision: a line, the table of --explain, or JSON.

The cluster calls it for each decision that differs from the last one about the pod.
"""

import itertools
import json
import re
import shlex
import time

from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.live.record import WaitsFor
from scheduler_extras.show.explain import explain, in_words
from scheduler_extras.show.text import GREEN, RED


class Reporter:
    """Shows decisions; of the pods of a pass that stay pending for one reason, the first and their number."""

    def __init__(self, options, screen):
        self.options = options
        self.screen = screen
        self.others = {}  # why pods stay pending -> how many others than the first of them

    def __call__(self, decision, stands=""):
        """Show a decision, or count it among the others; of a pod that is explained, say where it stands."""
        options = self.options
        why = f"{decision.message} {decision.remedy}".rstrip()
        if options.output == "json":
            about = {"stands": stands} if stands else {}
            dry_run = {"dryRun": True} if options.dry_run else {}
            self.screen.print(json.dumps(in_json(decision) | about | dry_run))
        elif options.explain:
            heading = self.screen.fold(f"{stands}:") if stands else []
            self.screen.print(*heading, *explain(decision, self.screen))
            return  # which has warned of what no active rule checks
        elif decision.node or why not in self.others:
            self.print(in_words(decision), GREEN if decision.node else RED)
            if not decision.node:
                self.others[why] = 0
        else:
            self.others[why] += 1
        warn_of_unchecked(decision)

    def print(self, text, colour):
        """Print a text on its line, with the time if the run goes on until a signal."""
        moment = time.strftime("%H:%M:%S  ") if self.options.goes_on else ""
        self.screen.print(*self.screen.folded(f"{moment}{text}", colour))

    def sum_up(self):
        """Say how many others there were; then none have been."""
        for why, count in self.others.items():
            if count:
                are = "pod stays" if count == 1 else "pods stay"
                because = " for the same mistake in a rule" if is_mistake(why) else f": {why}"
                self.print(f"{count} other {are} pending{because}", RED)
        self.others.clear()


def warn_of_unchecked(decision, under=""):
    """Warn, once for all pods, of what a pod that is placed requires though no active rule looks at that."""
    for what in decision.unchecked if decision.node else ():
        warn_once(f"{under}{decision.pod.key} is placed, though it {what}", about=f"{under}{what}")


def in_json(decision):
    """Return a decision as --output json prints it."""
    failed = decision.failed.items()
    record = decision.pod.record  # None of a pod that no queue has
    is_held = bool(record and decision.node) and record.waits_for is WaitsFor.PERMIT
    requests = {name: amount for name, amount in decision.pod.requests.items() if amount}
    free = {name: {each: node.allocatable.get(each, 0) - node.requested.get(each, 0) for each in requests}
            for name, node in decision.nodes.items() if name in decision.failed}
    return {"pod": decision.pod.key, "node": decision.node, "feasible": list(decision.total),
            "failed": {node: [*itertools.chain(*against.values())] for node, against in failed},
            "failedBy": {node: list(against) for node, against in failed}, "requests": requests, "free": free,
            "raw": decision.raw, "scores": decision.scores, "total": decision.total,
            "held": is_held, "waits": decision.waits, "message": decision.message, "remedy": decision.remedy}


def is_mistake(why):
    """Return whether a pod stays pending because of a mistake in a rule: a line of a file is named."""
    return bool(re.search(r"\.py, line \d+\)", why or ""))


def mistakes_once(reasons):
    """Return {uid: why a pod stays pending}, in which a mistake in a rule is spelled out for one pod only."""
    seen = set()
    shown = {}
    for uid, why in reasons.items():
        shown[uid] = "the same mistake in a rule" if why in seen and is_mistake(why) else why
        seen.add(why)
    return shown


def those_gone(placed, pods, screen):
    """Yield which pods that had a node have been deleted. placed: {uid: pod}."""
    there = {pod.uid for pod in pods}
    gone = [f"{pod.key} (was on {pod.node_name})" for uid, pod in placed.items() if uid not in there]
    if gone:
        yield from ["", *screen.fold(f"deleted to make room: {', '.join(gone)}", rest="    ")]


def how_to_place_others(pods, policies, options, screen):
    """Yield the command that places the pods of kube-scheduler, if any wait."""
    left = [pod for pod in pods if pod.scheduler == "default-scheduler" and not pod.node_name]
    if left and "default-scheduler" not in policies:
        paths = " ".join(map(shlex.quote, options.cluster))
        policy = f" --policy {shlex.quote(options.policy)}" if options.policy else ""
        who = "the pod" if len(left) == 1 else f"the {len(left)} pods"
        command = f"python scheduler_extras --cluster {paths}{policy} --scheduler-name default-scheduler"
        yield from ["", *screen.fold(f"to place {who} of default-scheduler: {command}", rest="    ")]
