"""Handles the results that the writer's threads report, and moves the pods on.

cluster.py calls `handle` between decisions and at the end of a pass.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from scheduler_extras.api.responses import Conflict, has_status, warn_of_failure
from scheduler_extras.common.blame import describe_error
from scheduler_extras.common.clocks import heartbeat
from scheduler_extras.common.errors import ApiError
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.live.attempts import AttemptHandler
from scheduler_extras.live.writer import Result, Step
from scheduler_extras.rules.nominating import is_nomination, nominate, nomination_of
from scheduler_extras.rules.preemption_requests import count_deletions


class Results:
    """Handles the results of writes, in the loop's thread."""

    def __init__(self, attempts: AttemptHandler):
        self.attempts = attempts
        self.cache = attempts.cache
        self.writer = attempts.writer

    def handle(self, patience: float = 0) -> None:
        """Handle the results. Wait up to `patience` seconds for those that are still awaited."""
        until = time.monotonic() + patience
        while self.writer.awaited:
            try:
                result = self.writer.results.get(timeout=max(until - time.monotonic(), 0))
            except queue.Empty:
                return
            self.writer.awaited -= 1
            self.handle_one(result)

    def wait(self, unless: Callable[[], bool]) -> None:
        """Handle the results, and wait up to half a second for the rest. Raises ApiError.

        unless: returns whether to stop waiting, because a pod is to be tried, for example.
        """
        for _ in range(50):
            self.handle(patience=0.01)  # most Bindings take less
            if not self.writer.awaited or unless():
                return
            self.cache.apply_updates()

    def handle_one(self, result: Result) -> None:
        """Handle the result of a decision's writes at one step."""
        if result.step is Step.BIND:
            self.handle_binding(result)
        elif result.step is Step.POST_FILTER:
            self.handle_post_filter(result)
        elif result.step is Step.PRE_BIND:
            self.handle_pre_bind(result)
        elif result.error:  # of Step.CLEANUP
            warn_of_write(result.error)

    def handle_pre_bind(self, result: Result) -> None:
        """If a request of PreBind failed, let the pod fall back, unless it has done so already."""
        record = result.decision.pod.record  # None if the pod is gone
        if result.error and record and record.decision is result.decision:
            self.attempts.handle_failed_write(result.decision, result.error)

    def handle_binding(self, result: Result) -> None:
        """Let a bound pod wait until the watch shows it. If its Binding failed, let it fall back."""
        if result.error:
            self.attempts.handle_failed_write(result.decision, result.error, heading="binding rejected: ")
        else:
            self.attempts.mark_bound(result.decision)

    def handle_post_filter(self, result: Result) -> None:
        """After the requests of PostFilter, let the pod wait for a node again.

        Requests that have failed are undone in memory. If the API server refuses to delete a victim, the pod
        skips this node in its next attempt; if no victim was deleted, it also gives up its nomination.
        """
        decision, unsent = result.decision, result.unsent
        pod = decision.pod
        record = pod.record
        snapshot = self.cache.snapshot
        record.end_post_filter()
        if result.error:
            decision.remedy = ""
            self.cache.revert(unsent)
            self.attempts.errors.note_error_of(record.retry, result.error)
            warn_of_write(result.error)
            is_unknown = has_status(result.error, 0, 429, 502, 503, 504)  # a gateway's answer, or none
            is_refused = not (isinstance(result.error, Conflict) or is_unknown)
            if is_refused and count_deletions(unsent) and not any(map(is_nomination, unsent)):
                node = nomination_of(pod, snapshot)
                if node:  # else another preemptor has ended the nomination meanwhile
                    record.retry.refused_nodes.add(node)
                if count_deletions(unsent) == count_deletions(decision.requests):
                    self.attempts.send(Step.CLEANUP, decision, [nominate(pod, None, snapshot)])
        elif decision.policy.retries_preemptors and self.has_new_room(decision):
            record.retry.make_due()
        self.attempts.show_if_new(decision)

    def has_new_room(self, decision: FullDecision) -> bool:
        """Return whether a pod has preempted others on a node to which it was not nominated before.

        If it was, its victims have been recreated there, like mirror pods by a kubelet, and it backs off.
        """
        was_nominated = nomination_of(decision.pod, self.cache.snapshot) == decision.pod.nominated_node
        return count_deletions(decision.requests) > 0 and not was_nominated

    def finish(self, seconds: float, stop: threading.Event | None = None) -> None:
        """Wait until everything is written, at most this long, or until `stop` is set."""
        until = time.monotonic() + seconds
        while self.writer.awaited or self.writer.tasks.unfinished_tasks:
            if time.monotonic() > until or (stop and stop.is_set()):
                break
            heartbeat()
            self.handle(patience=0.02)
            time.sleep(0.002)


def warn_of_write(error: BaseException) -> None:
    """Log a failed write, unless it only came too late (404, 409)."""
    warn_of_failure(error, str(error) if isinstance(error, ApiError) else describe_error(error))
