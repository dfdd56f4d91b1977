"""The way of a pod from its decision to the thread that binds it, and the way back.

The loop calls `carry_out` with each decision, and `go_on` while rules hold a pod; results.py comes back.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from scheduler_extras.api.errors import is_answer, warn_of_failure
from scheduler_extras.common.blame import what_broke
from scheduler_extras.common.errors import ApiError, Trouble, Unschedulable
from scheduler_extras.common.log_texts import one_line
from scheduler_extras.common.observer import Observer
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.extension_points import call_hook, unreserve, with_reason
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.live.cache import Cache
from scheduler_extras.live.events import Recorder
from scheduler_extras.live.loop import PassErrors
from scheduler_extras.live.record import WaitsFor
from scheduler_extras.live.writer import Writer
from scheduler_extras.reading.pods_and_nodes import FullNode


class BindingCycle:
    """What becomes of a pod once there is a decision: each method is a step of that.

    It runs in the loop's thread. Upstream: schedule_one.go.
    """

    def __init__(self, cache: Cache, writer: Writer, show: Callable[[FullDecision], None],
                 errors: PassErrors):
        self.cache = cache
        self.writer = writer
        self.recorder = Recorder(writer)
        self.show = show  # prints a decision
        self.errors = errors
        self.observer = Observer()  # serve/ has one that counts
        self.bound = 0  # how many pods have been bound

    def carry_out(self, decision: FullDecision) -> None:
        """Have the pod bound to its node; if it has none, ask rules for a remedy, and put it off."""
        if decision.node:
            self.assume(decision)
            self.go_on(decision)
        else:
            decision.policy.seek_remedy(decision, self.cache.snapshot)
            self.put_off(decision)

    def assume(self, decision: FullDecision) -> None:
        """Assume the pod on its node, and call Reserve of the rules."""
        node = self.cache.snapshot.nodes.get(decision.node)
        if node is None:  # somebody has edited `select_host`
            decision.give_up(Unschedulable(f"there is no node {decision.node}"))
            return
        self.cache.nodes.place(decision.pod, node.name)
        decision.pod.record.wait_for(WaitsFor.PERMIT, decision)
        reserve(decision, node, self.cache.snapshot)

    def go_on(self, decision: FullDecision) -> None:
        """Ask the rules about an assumed pod; hand it over to a thread, or put it off if one refuses."""
        requests = ask_rules(decision, self.cache.snapshot)
        if decision.node:
            self.hand_over(decision, requests)
        else:
            self.put_off(decision)

    def hand_over(self, decision: FullDecision, requests: list[tuple]) -> None:
        """Have a thread bind the pod, or first send what rules want sent. `Results` gets the results."""
        self.end_attempt(decision)
        try:
            if decision.pod.record.waits_for is WaitsFor.BINDING:
                self.writer.start_binding(decision, self.recorder)
            elif requests:
                self.send(WaitsFor.PRE_BIND, decision, requests)
            else:
                self.report_waiting(decision)
        except Exception as error:
            self.fail(decision, error)
        self.show_if_new(decision)

    def put_off(self, decision: FullDecision) -> None:
        """Start the backoff of a pod without a node, send a remedy, and report why it stays pending."""
        self.end_attempt(decision)
        self.fall_back(decision)
        self.send(WaitsFor.REMEDY, decision, decision.requests)
        reason = decision.condition_reason
        self.observer.attempted(decision, "unschedulable" if reason == "Unschedulable" else "error")
        self.recorder.report(decision, "Warning", "FailedScheduling", reason, decision.message or "")
        self.show_if_new(decision)

    def fail(self, decision: FullDecision, error: BaseException, heading: str = "") -> None:
        """Let a pod fall back after a failed write."""
        self.fall_back(decision)
        self.observer.attempted(decision, "error")
        self.note_trouble(decision, error)
        is_known = isinstance(error, (ApiError, Unschedulable))
        why = one_line(error) if is_known else what_broke(error)
        is_failure = warn_of_failure(error, f"{decision.pod.key}: {why}")
        is_answered = not is_answer(error, 0, 429)
        if is_failure and is_answered:  # else the event would probably fail as well
            self.recorder.report(decision, "Warning", "FailedScheduling", "SchedulerError", f"{heading}{why}")

    def fall_back(self, decision: FullDecision) -> None:
        """Have a pod wait for a node again: give up its room, have the rules forget it, have it back off."""
        record = decision.pod.record
        had_room = record.waits_for is not WaitsFor.NODE
        record.back_off(decision)
        if had_room:
            self.cache.forget(decision.pod)
            self.send(WaitsFor.NODE, decision, unreserve(decision, self.cache.snapshot))

    def send(self, step: WaitsFor, decision: FullDecision, requests: list[tuple]) -> None:
        """Have a thread send what rules want sent."""
        if requests:
            self.writer.send(step, decision, requests, self.cache.still_waiting)

    def end_attempt(self, decision: FullDecision) -> None:
        """Note how long the loop has spent on the pod, and what went wrong."""
        decision.pod.record.retry.end()
        self.note_trouble(decision, decision.trouble)

    def note_trouble(self, decision: FullDecision, error: BaseException | None) -> None:
        """Note whether what a pod has met is trouble of the API server."""
        decision.pod.record.retry.has_met_trouble = isinstance(error, Trouble)
        if isinstance(error, Trouble):
            self.errors.note_trouble(error)

    def report_waiting(self, decision: FullDecision) -> None:
        """Report why a pod that has its node is not bound yet."""
        self.recorder.report(decision, "Normal", "Waiting", "Waiting", decision.waits)

    def show_if_new(self, decision: FullDecision) -> None:
        """Show a decision, unless it repeats the last one that was shown, or is still being carried out.

        Meanwhile another client may bind or delete the pod; then it is never shown.
        """
        record = decision.pod.record
        is_under_way = self.writer.is_live and record.waits_for in (WaitsFor.REMEDY, WaitsFor.BINDING)
        if not is_under_way and record.published.show(decision):
            self.show(decision)


def reserve(decision: FullDecision, node: FullNode, snapshot: FullSnapshot) -> None:
    """Call Reserve of the rules, of which one may refuse the node."""
    try:
        for rule in decision.policy.rules_with["reserve"]:
            call_hook(rule, "reserve", decision.pod, node, snapshot)
    except (Exception, SystemExit) as error:
        decision.give_up(error)


def ask_rules(decision: FullDecision, snapshot: FullSnapshot) -> list[tuple]:
    """Ask rules whether a pod may be bound by now (Permit, PreBind). Return what to send first."""
    if not decision.node:  # a rule has refused already to reserve it
        return []
    requests: list[tuple] = []
    decision.trouble = None
    decision.condition_reason = "Unschedulable"
    record = decision.pod.record
    node = snapshot.nodes.get(decision.node)
    try:
        if node is None:
            raise Unschedulable(f"node {decision.node} has gone")
        if record.waits_for is WaitsFor.PERMIT:
            decision.waits = why_held(decision, node, snapshot)
            if decision.waits:
                return []
        decision.condition_reason = "SchedulerError"  # of what is wrong now; as kube-scheduler's PreBind
        requests, decision.waits = what_comes_first(decision, node, snapshot)
        if decision.waits:
            record.wait_for(WaitsFor.PRE_BIND, decision)
        else:
            record.wait_for(WaitsFor.BINDING)
    except (Exception, SystemExit) as error:
        record.put_back()  # changes of rules in memory; the watch brings back what was written
        if isinstance(error, Trouble):  # of the API server: then it waits, as it stands
            decision.trouble = error
            decision.waits = decision.waits or one_line(error)
        else:
            decision.give_up(error)
    return requests


def why_held(decision: FullDecision, node: FullNode, snapshot: FullSnapshot) -> str:
    """Return which rule does not permit the binding yet, or "". Raises Unschedulable if time is up."""
    held = []  # (the seconds for which a rule lets the pod wait, its name, why)
    for rule in decision.policy.rules_with["permit"]:
        seconds, reason = with_reason(call_hook(rule, "permit", decision.pod, node, snapshot))
        if seconds:
            held.append((seconds, rule.title or rule.name, reason))
    if not held:
        return ""
    seconds, name, reason = min(held)
    if not time.monotonic() - decision.pod.record.since < seconds:  # which may be NaN
        late = f"rejected due to timeout after waiting {seconds:g}s at plugin {name}"
        rejected = f'pod "{decision.pod.name}" rejected while waiting on permit: {late}'
        raise Unschedulable(with_why(rejected, reason))
    return with_why(f"{name} does not permit the binding to {node.name} yet", reason)


def what_comes_first(decision: FullDecision, node: FullNode,
                     snapshot: FullSnapshot) -> tuple[list[tuple], str]:
    """Return what rules want sent before the binding (PreBind), and what has to take effect, or ""."""
    requests = []
    waits = ""
    for rule in decision.policy.rules_with["pre_bind"]:
        wanted, reason = with_reason(call_hook(rule, "pre_bind", decision.pod, node, snapshot))
        if wanted is not None and not snapshot.is_live:  # nothing will change: so it is asked again now
            wanted, reason = with_reason(call_hook(rule, "pre_bind", decision.pod, node, snapshot))
        if wanted is not None:
            requests += wanted
            waits = with_why(f"{rule.title or rule.name} prepares the binding to {node.name}", reason)
    return requests, waits


def with_why(text: str, reason: str) -> str:
    """Return a text with the reason that a rule has given, if any."""
    return f"{text}: {reason}" if reason else text
