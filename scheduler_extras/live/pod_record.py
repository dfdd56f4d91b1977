"""The record of a pending pod: what it waits for, and what was published about it.

queue.py keeps the records. attempts.py, hooks.py and results.py move them from state to state.
retry.py says when a pod is tried again.
"""

from __future__ import annotations

import enum
import random
import threading
import time
from dataclasses import dataclass, field

from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.live.retry import Retry, RetryOn
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.reading.pods_and_nodes import FullPod


class WaitsFor(enum.Enum):
    """What a pending pod waits for. docs/design.md describes the transitions."""

    NODE = "node"  # a node that fits
    POST_FILTER = "post_filter"  # no node fits: the requests of PostFilter are being sent; then a node again
    PERMIT = "permit"  # it is assumed; a rule does not permit the binding yet
    PRE_BIND = "pre_bind"  # it is assumed; requests of PreBind have not taken effect yet
    BINDING = "binding"  # its Binding is being sent
    CONFIRMATION = "confirmation"  # it is bound, but the watch has not shown this yet; in a dry run, forever


REPEAT_SECONDS = 300  # at least, before the count of a repeated event is increased


@dataclass
class Published:
    """What was published about a pending pod: on the screen, in an event, in its PodScheduled condition."""

    shown: tuple | None = None  # see `note_shown`
    messages: dict[str, str | None] = field(default_factory=lambda: {"event": None, "condition": None})
    event: tuple | None = None  # the request that recorded the event
    count_at: float = 0  # when the count of the event may be increased, in monotonic seconds
    writing: threading.Lock = field(default_factory=threading.Lock, repr=False)  # held during writes

    def note(self, message: str, parts: dict[str, tuple]) -> None:
        """Record that a message is being written to these parts."""
        self.messages.update(dict.fromkeys(parts, message))
        if "event" in parts:
            self.count_at = time.monotonic() + random.uniform(1, 2) * REPEAT_SECONDS

    def forget(self, message: str, parts: list[str]) -> None:
        """Make the next attempt write these parts again, unless a newer message has replaced this one."""
        for part in parts:
            if self.messages[part] == message:
                self.messages[part] = None

    def note_shown(self, decision: FullDecision) -> bool:
        """Record what is about to be shown of a decision. Return False if that was shown last time, too."""
        last = self.shown
        self.shown = (decision.node or decision.message, decision.remedy, decision.why_delayed)
        return self.shown != last


@dataclass
class PodRecord:
    """The state of a pending pod, from pass to pass. Upstream: QueuedPodInfo."""

    pod: FullPod  # its current version
    added_at: float = field(default_factory=lambda: time.monotonic())  # to the queue
    policy: FullPolicy | None = None  # the Policy that schedules it
    waits_for: WaitsFor = WaitsFor.NODE
    since: float = 0  # when that wait began; for NODE, when it entered the queue or its last attempt failed
    decision: FullDecision | None = None  # about an assumed pod, until its Binding is sent
    assumed_changes: list[tuple] = field(default_factory=list)  # (part of an object, name, value before)
    retry: Retry = field(default_factory=Retry)
    published: Published = field(default_factory=Published)

    def use_version(self, pod: FullPod) -> None:
        """Replace the pod with its current version."""
        self.pod = pod
        pod.record = self
        if self.decision:
            self.decision.pod = pod

    def use_policy(self, policy: FullPolicy) -> None:
        """Let another Policy schedule the pod, at once."""
        self.policy = policy
        self.retry.make_due()

    def wait_for(self, what: WaitsFor) -> None:
        """Move the pod to another state, and drop the decision about it."""
        if what is not self.waits_for:
            self.since = time.monotonic()
        self.waits_for = what
        self.decision = None

    def hold(self, what: WaitsFor, decision: FullDecision) -> None:
        """Let the assumed pod wait for rules. Keep the decision about it until its Binding is sent."""
        self.wait_for(what)
        self.decision = decision

    def back_off(self, decision: FullDecision) -> None:
        """Let the pod back off and wait for a node again, or first for the requests of PostFilter."""
        self.restore_assumed()
        self.waits_for = WaitsFor.POST_FILTER if decision.requests else WaitsFor.NODE
        self.since = time.monotonic()
        self.decision = None
        self.retry.back_off(decision)

    def wake(self) -> None:
        """Record that the cluster has changed since the last attempt."""
        if self.retry.trigger is RetryOn.CHANGE:
            self.retry.trigger = RetryOn.BACKOFF_OR_IDLE if self.pops_from_backoff() else RetryOn.BACKOFF

    def pops_from_backoff(self) -> bool:
        """Return whether an idle queue pops the pod from backoff after a change."""
        return self.policy is not None and self.policy.pops_from_backoff

    def end_post_filter(self) -> None:
        """Let the pod wait for a node again. It keeps its place in the queue."""
        self.waits_for = WaitsFor.NODE

    def assume_change(self, part: dict, name: str, value: object) -> None:
        """Change a cached object in the same way as the write that follows."""
        self.assumed_changes.append((part, name, part.get(name)))
        part[name] = value

    def restore_assumed(self) -> None:
        """Undo these changes. If they were written, the watch shows them."""
        while self.assumed_changes:
            part, name, before = self.assumed_changes.pop()
            part[name] = before

    @property
    def refused_nodes(self) -> set[str]:
        """The names of the nodes on which the API server has refused to delete victims of the pod."""
        return self.retry.refused_nodes

    def reject(self, reason: str) -> None:
        """Let an assumed pod give up its node, for this reason."""
        if self.decision:
            self.decision.give_up(Unschedulable(reason))

    def waits_at_permit(self) -> bool:
        """Return whether the pod is assumed, but a rule does not permit its binding yet."""
        return self.waits_for is WaitsFor.PERMIT

    def waits_at_pre_bind(self) -> bool:
        """Return whether the pod waits for requests of PreBind to take effect."""
        return self.waits_for is WaitsFor.PRE_BIND

    def may_be_bound(self) -> bool:
        """Return whether its Binding was sent, or is about to be."""
        return self.waits_for in (WaitsFor.BINDING, WaitsFor.CONFIRMATION)

    def can_be_popped(self) -> bool:
        """Return whether an idle queue may pop the pod from backoff, because the cluster has changed."""
        return self.waits_for is WaitsFor.NODE and self.retry.trigger is RetryOn.BACKOFF_OR_IDLE

    def is_due(self) -> bool:
        """Return whether this pass handles the pod: it is time to try it, or rules hold it."""
        return self.retry.is_due() if self.waits_for is WaitsFor.NODE else self.decision is not None
