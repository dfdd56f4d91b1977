"""When a pending pod is tried again: after its backoff, after a change in the cluster, or at once.

pod_record.py keeps a Retry for each pod. queue.py asks which pods are due.
"""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass, field

from scheduler_extras.api.http_retries import backoff
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.deciding.decision import FullDecision


class RetryOn(enum.Enum):
    """The reason why a pod without a node is tried again."""

    NOW = "it is new, or to be tried at once"
    BACKOFF = "the end of its backoff"  # after an error; or something has changed
    CHANGE = "a change in the cluster, or the end of a long time"  # no node fits
    BACKOFF_OR_IDLE = "the end of its backoff, or an idle queue"  # the same after a change, in 1.36


BACKOFF_PER_SECOND = 10  # a pod backs off for at least 10 times as long as its attempt took


@dataclass
class Retry:
    """When a pod is tried again, and why. Times are in monotonic seconds."""

    trigger: RetryOn = RetryOn.NOW
    failures: int = 0  # failed attempts
    rejected_by: frozenset[str] = frozenset()  # plugins that rejected it in the last attempt, for metrics
    has_met_server_error: bool = False  # in the last attempt
    backoff_ends: float = 0
    retry_at_latest: float = 0  # when it is tried again even without a change
    is_helped_by_pods: bool = True  # whether another pod that is placed may make it fit
    refused_nodes: set[str] = field(default_factory=set)  # nodes from which victims could not be deleted
    began_at: float = 0  # when the last attempt began
    took: float = 0  # seconds of the loop's time that the slowest part of this attempt took

    def begin(self) -> None:
        """Record the beginning of an attempt, or of a later part of it, for an assumed pod."""
        self.began_at = time.monotonic()

    def end(self) -> None:
        """Record the end of the attempt, or of this part of it."""
        self.took = max(self.took, time.monotonic() - self.began_at)

    def back_off(self, decision: FullDecision) -> None:
        """Begin the backoff after an attempt; if no node fits, wait for a change as well."""
        policy = decision.policy
        self.failures += 1
        moment = time.monotonic()
        self.backoff_ends = moment + self.seconds_after(decision)
        self.took = 0
        self.retry_at_latest = max(self.backoff_ends, moment + policy.unschedulable_seconds)
        self.is_helped_by_pods = policy.is_helped_by_pods(decision.pod)
        waits_for_change = decision.fits_nowhere and not decision.server_error
        self.trigger = RetryOn.CHANGE if waits_for_change else RetryOn.BACKOFF

    def seconds_after(self, decision: FullDecision) -> float:
        """Return the seconds of backoff. A slow attempt makes it longer."""
        policy = decision.policy
        usual = backoff(self.failures, policy.initial_backoff, policy.max_backoff)
        if decision.server_error:
            return usual
        seconds = max(usual, BACKOFF_PER_SECOND * self.took)
        if self.took > 1:
            pause = f"it is tried again after {seconds:.0f} s at the earliest, so that others have turns"
            warn_once(f"scheduling {decision.pod.key} took {self.took:.1f} s: {pause}", about="brake")
        return seconds

    def make_due(self) -> None:
        """Make the pod due at once, even if its backoff is not over."""
        self.trigger = RetryOn.NOW

    def is_due(self) -> bool:
        """Return whether it is time to try the pod."""
        return time.monotonic() >= self.due_at()

    def due_at(self) -> float:
        """Return when the pod is due if nothing changes."""
        return {RetryOn.NOW: 0.0, RetryOn.CHANGE: self.retry_at_latest}.get(self.trigger, self.backoff_ends)
