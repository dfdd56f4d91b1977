"""Attempts to place a pod: from the decision to the thread that binds the pod, and back if that fails.

The loop calls `carry_out` with each decision, and `advance` while rules hold a pod. results.py handles the
outcome. hooks.py calls the rules.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler_extras.api.responses import has_status, warn_of_failure
from scheduler_extras.common.blame import describe_error
from scheduler_extras.common.errors import ApiError, Unschedulable
from scheduler_extras.common.log_texts import one_line
from scheduler_extras.common.observer import Observer
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.live.binding import bind_and_report
from scheduler_extras.live.cache import Cache
from scheduler_extras.live.hooks import run_permit_and_pre_bind, run_reserve, run_unreserve
from scheduler_extras.live.pass_errors import PassErrors
from scheduler_extras.live.pod_record import WaitsFor
from scheduler_extras.live.writer import Result, Step, Writer


class AttemptHandler:
    """Carries out decisions, in the loop's thread. Upstream: schedule_one.go.

    It runs what upstream runs after Filter and Score, up to the start of the Binding, and handles failures.
    """

    def __init__(self, cache: Cache, writer: Writer, errors: PassErrors,
                 on_carried_out: Callable[..., None]):
        self.cache = cache
        self.writer = writer
        self.recorder = writer.recorder
        self.errors = errors
        self.on_carried_out = on_carried_out  # called with each decision that has been carried out
        self.observer = Observer()  # serve/ has one that counts
        self.bound = 0  # how many pods have been bound

    def carry_out(self, decision: FullDecision) -> None:
        """Assume the pod, and begin to bind it. Without a node, run PostFilter, and requeue it."""
        if not decision.node:
            decision.policy.run_post_filter(decision, self.cache.snapshot)
            self.handle_failure(decision)
        elif self.assume(decision):
            self.advance(decision)
        else:
            self.handle_failure(decision)

    def assume(self, decision: FullDecision) -> bool:
        """Assume the pod on its node, and call Reserve of the rules. Return whether these accept the node."""
        node = self.cache.snapshot.nodes.get(decision.node)
        if node is None:  # an edited `select_host` may return any name
            decision.give_up(Unschedulable(f"there is no node {decision.node}"))
            return False
        self.cache.assume(decision.pod, node.name)
        decision.pod.record.hold(WaitsFor.PERMIT, decision)
        run_reserve(decision, node, self.cache.snapshot)
        return decision.node is not None

    def advance(self, decision: FullDecision) -> None:
        """Run Permit and PreBind for an assumed pod. Start its Binding, unless a rule refuses or holds it.

        A pod that Permit holds is reported. One that waits in PreBind is not, as in kube-scheduler.
        """
        requests = run_permit_and_pre_bind(decision, self.cache.snapshot)
        if not decision.node:  # a rule refuses it
            self.handle_failure(decision)
            return
        self.end_attempt(decision)
        record = decision.pod.record
        if not decision.why_delayed:
            self.start_binding(decision)
        elif requests:
            self.send(Step.PRE_BIND, decision, requests)
        elif record.waits_at_permit() and not decision.server_error:
            self.recorder.report(decision, "Normal", "Waiting", "Waiting", decision.why_delayed)
        self.show_if_new(decision)

    def start_binding(self, decision: FullDecision) -> None:
        """Let a thread bind the pod. `Results` handles the outcome."""
        decision.pod.record.wait_for(WaitsFor.BINDING)
        self.writer.submit(Result(Step.BIND, decision), bind_and_report, decision, self.writer)

    def handle_failure(self, decision: FullDecision) -> None:
        """After an attempt without a node: begin the backoff, send the requests of PostFilter, report why."""
        self.end_attempt(decision)
        self.requeue(decision)
        self.send(Step.POST_FILTER, decision, decision.requests)
        self.observer.attempted(decision, "error" if decision.is_error else "unschedulable")
        self.recorder.report(decision, "Warning", "FailedScheduling", decision.condition_reason,
                             decision.message or "")
        self.show_if_new(decision)

    def mark_bound(self, decision: FullDecision) -> None:
        """Let a bound pod wait until the watch shows it on its node."""
        decision.pod.record.wait_for(WaitsFor.CONFIRMATION)
        self.bound += 1
        self.errors.note_success()
        self.observer.attempted(decision, "scheduled")
        self.show_if_new(decision)

    def handle_failed_write(self, decision: FullDecision, error: BaseException, heading: str = "") -> None:
        """Let a pod fall back after a failed write, and report the error."""
        self.requeue(decision)
        self.observer.attempted(decision, "error")
        self.errors.note_error_of(decision.pod.record.retry, error)
        why = one_line(error) if isinstance(error, (ApiError, Unschedulable)) else describe_error(error)
        is_failure = warn_of_failure(error, f"{decision.pod.key}: {why}")
        if is_failure and not has_status(error, 0, 429):  # else the event would probably fail, too
            self.recorder.report(decision, "Warning", "FailedScheduling", "SchedulerError", f"{heading}{why}")

    def requeue(self, decision: FullDecision) -> None:
        """Let a pod back off and wait for a node. If it was assumed, free its room, and run Unreserve."""
        record = decision.pod.record
        had_room = record.waits_for is not WaitsFor.NODE
        if record.waits_at_permit():  # a victim at Permit is rejected instead of deleted
            self.cache.snapshot.victims.pop(decision.pod.uid, None)
        record.back_off(decision)
        if had_room:
            self.cache.forget(decision.pod)
            self.send(Step.CLEANUP, decision, run_unreserve(decision, self.cache.snapshot))

    def send(self, step: Step, decision: FullDecision, requests: list[tuple]) -> None:
        """Let a thread send the requests of rules, if there are any."""
        if requests:
            self.writer.send(step, decision, requests, self.cache.latest_if_unbound)

    def end_attempt(self, decision: FullDecision) -> None:
        """Record how long the attempt took, and whether it hit a server error."""
        decision.pod.record.retry.end()
        self.errors.note_error_of(decision.pod.record.retry, decision.server_error)

    def show_if_new(self, decision: FullDecision) -> None:
        """Show a decision once it has been carried out, unless it repeats the last one.

        While requests of PostFilter or the Binding are being sent, their result is awaited first.
        """
        record = decision.pod.record
        is_under_way = self.writer.is_live and record.waits_for in (WaitsFor.POST_FILTER, WaitsFor.BINDING)
        if not is_under_way and record.published.note_shown(decision):
            self.on_carried_out(decision)
