"""The life of a pending pod: what it waits for, when its backoff ends, and which pod is next.

live.py asks for the pods that are due; binding.py starts backoffs (`PodRecord.back_off`).
"""

from __future__ import annotations

import enum
import functools
import random
import threading
import time
from dataclasses import dataclass, field

from scheduler import Decision
from scheduler_extras.api.errors import backoff
from scheduler_extras.common.blame import place_of, warn_if_broken
from scheduler_extras.common.errors import Trouble
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.deciding.extension_points import call_hook, ready
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.reading.pods_and_nodes import FullPod


# A pending pod waits for one of six things, one after another:
#
#   NODE       a node that fits. When there is one, the pod is assumed: it has room there (rules: reserve).
#   REMEDY     no node fits: that what rules want done about it is written (post_filter). Then a node again.
#   PERMIT     that all rules allow the binding (permit). They are asked in each pass.
#   PRE_BIND   that what rules want done first has been done, such as to a claim (pre_bind). Likewise.
#   BINDING    that its Binding is written, and answered.
#   CONFIRMATION  that the API server shows it on its node; in a dry run, forever.
#
# It falls back to the first if a rule refuses, its node or the pod goes, a write fails, or its Policy
# changes before BINDING. Then it gives up its room (rules: unreserve), and backs off for 1, 2, 4, ... 10
# seconds. After that it is tried again; if it fitted nowhere, only if something has changed, or after a
# minute. If ten pods meet 5xx, 429 or no answer, and none is bound meanwhile, the pass ends.


class WaitsFor(enum.Enum):
    """What a pending pod waits for."""

    NODE = "node"
    REMEDY = "remedy"
    PERMIT = "permit"
    PRE_BIND = "pre_bind"
    BINDING = "binding"
    CONFIRMATION = "confirmation"


@dataclass
class PodRecord:
    """What is remembered of a pending pod from pass to pass. Times are in monotonic seconds."""

    pod: FullPod  # as it is by now
    added_at: float = field(default_factory=lambda: time.monotonic())  # to the queue

    # What it waits for:
    waits_for: WaitsFor = WaitsFor.NODE
    since: float = 0  # when it began to wait for that; for a node: it came, or the last attempt failed
    decision: Decision | None = None  # by which it has its node, as long as rules are asked
    changed: list = field(default_factory=list)  # of objects in memory, for it: (part, name, value before)

    # When it is tried again:
    policy: FullPolicy | None = None  # by which it is tried
    attempts: int = 0  # that have failed
    rejected_by: frozenset = frozenset()  # plugins that were against it at the last of them, for the metrics
    has_met_trouble: bool = False  # of the API server, at the last of them
    backoff_ends: float = 0
    retry_at: float = 0
    pops_from_backoff: bool = False  # a change ends its backoff, if there is nothing else to do
    may_pop: bool = False  # there was such a change
    refused: set = field(default_factory=set)  # names of nodes whose pods could not be deleted for it
    began_at: float = 0  # when its time slice in this pass began
    took: float = 0  # seconds that the loop has spent on it then

    # What was reported:
    reported: tuple | None = None  # in the terminal, or the page
    written: str | None = None  # the message of its last event, and of its condition PodScheduled
    event: tuple | None = None  # the request that recorded that event
    repeat_at: float = 0  # when the event may be counted up
    writing: threading.Lock = field(default_factory=threading.Lock, repr=False)  # held while of it is written

    def set_aside(self, part, name, value):
        """Change a part of an object in memory, as it will be once that is written."""
        self.changed.append((part, name, part.get(name)))
        part[name] = value

    def put_back(self):
        """Undo these changes. If one of them was written, the watch brings the object again."""
        while self.changed:
            part, name, before = self.changed.pop()
            part[name] = before

    def renew(self, pod):
        """Replace the pod with its current version."""
        self.pod = pod
        pod.record = self
        if self.decision:
            self.decision.pod = pod

    def begin_time_slice(self, pod):
        """Start the time slice of a pod, with its current version."""
        self.renew(pod)
        self.began_at = time.monotonic()
        self.pops_from_backoff = False
        self.may_pop = False

    def end_time_slice(self):
        """Note how long the loop has spent on the pod."""
        self.took = time.monotonic() - self.began_at

    def meet(self, error):
        """Note what the pod has met; return whether that is trouble of the API server."""
        self.has_met_trouble = isinstance(error, Trouble)
        return self.has_met_trouble

    def wait_for(self, what, decision=None):
        """Have the pod wait for something; nothing else changes that. A decision is kept for rules only."""
        keeps_its_place = WaitsFor.REMEDY in (what, self.waits_for)  # in the queue, as of its attempt
        if what is not self.waits_for and not keeps_its_place:
            self.since = time.monotonic()
        self.waits_for = what
        self.decision = decision

    def back_off(self, decision):
        """Have the pod wait for a node again: for a while; if none fitted, for longer, or until a change."""
        seconds = seconds_to_wait(decision)
        unless_changed = decision.policy.unschedulable_seconds if decision.fits_nowhere else 0
        self.pops_from_backoff = decision.fits_nowhere and decision.policy.pops_from_backoff
        self.wait_for(WaitsFor.NODE)
        self.put_back()
        self.attempts += 1
        self.since = time.monotonic()
        self.backoff_ends = self.since + seconds
        self.retry_at = self.since + max(seconds, unless_changed)

    def retry_after_backoff(self):
        """Have the pod tried once its backoff is over, or in it: something has changed since its attempt."""
        self.retry_at = min(self.retry_at, self.backoff_ends)
        self.may_pop = self.pops_from_backoff

    def is_held(self):
        """Return whether the pod has a node, and a rule does not permit the binding yet."""
        return self.waits_for is WaitsFor.PERMIT

    def is_being_prepared(self):
        """Return whether what rules have had written before the binding is to take effect."""
        return self.waits_for is WaitsFor.PRE_BIND

    def is_due(self):
        """Return whether this pass has to do with the pod."""
        if self.waits_for is WaitsFor.NODE:
            return time.monotonic() >= self.retry_at
        return self.decision is not None

    def may_be_bound(self):
        """Return whether its Binding was sent, or is about to be."""
        return self.waits_for in (WaitsFor.BINDING, WaitsFor.CONFIRMATION)

    def obey(self, policy):
        """Have the pod tried again, by another Policy."""
        self.policy = policy
        self.retry_now()

    def retry_now(self):
        """Have the pod tried again, whether or not its backoff is over."""
        self.retry_at = 0

    def note_event(self, message, request):
        """Record the message that was published, and its event, which may be counted up after a while."""
        self.written = message
        self.event = request
        self.repeat_at = time.monotonic() + random.uniform(1, 2) * REPEAT_SECONDS

    def report_again(self, message):
        """Publish this message again at the next attempt, unless a newer one has replaced it."""
        if self.written == message:
            self.written = None

    def take_note(self, decision):
        """Record what is reported about the pod. Return whether it differs from the last report."""
        last = self.reported
        self.reported = (decision.node or decision.message, decision.remedy, decision.waits)
        return self.reported != last


BRAKE = 10  # a pod backs off for at least this many times the time that its attempt took


def seconds_to_wait(decision):
    """Return for how long a pod backs off.

    How long it took is not up to the pod if the API server was in trouble.
    """
    record = decision.pod.record
    policy = decision.policy
    usual = backoff(record.attempts + 1, policy.initial_backoff, policy.max_backoff)
    if decision.trouble:
        return usual
    seconds = max(usual, BRAKE * record.took)
    if record.took > 1:
        pause = f"it is tried again after {seconds:.0f} s at the earliest, so that others have turns"
        warn_once(f"{decision.pod.key} takes {record.took:.1f} s to decide about: {pause}", about="brake")
    return seconds


class SchedulingQueue(dict):
    """{uid: PodRecord} of the pending pods: which are tried, when, and in which order.

    Upstream: internal/queue.
    """

    def __init__(self, cache, cycle):
        super().__init__()
        self.cache = cache
        self.cycle = cycle  # the BindingCycle
        self.pops_at = 0  # when pods may be tried in their backoff: passes take a twentieth of the time then

    def renew(self, waiting, policies):
        """Return which of the pods that wait are to be tried, in this order.

        Each has its record. All that have gone are forgotten. If there is another Policy for a pod by now, it
        is tried again; if it waits for rules of the old one, it falls back first.
        """
        pods = {pod.uid: pod for pod in waiting if is_for(pod, policies)}
        moment = time.monotonic()
        for uid, pod in pods.items():
            if uid not in self:
                self[uid] = PodRecord(pod, since=moment)
                self.cycle.observer.queued()
            record = self[uid]
            record.renew(pod)
            if record.policy is not policies[pod.scheduler]:
                if record.decision:
                    self.cycle.fall_back(record.decision)
                record.obey(policies[pod.scheduler])
        for uid in [uid for uid in self if uid not in pods]:
            record = self[uid]
            if record.decision:
                self.cycle.fall_back(record.decision)
            latest = self.cache.pods.get(record.pod.key)
            if latest and latest.uid == uid and record.attempts and not record.may_be_bound():
                warn_of_another(record.pod, latest.node_name)
            is_unanswered = record.waits_for in (WaitsFor.BINDING, WaitsFor.REMEDY)
            is_unseen = record.waits_for is WaitsFor.CONFIRMATION and self.cache.still_waiting(record.pod)
            if not (is_unanswered or is_unseen):
                del self[uid]
                record.pod.record = None  # else they keep each other
        return self.in_order(pods.values(), policies)

    def in_order(self, pods, policies):
        """Return pods in the order in which to try them."""
        pods = sorted(pods, key=lambda pod: (-pod.priority, pod.record.since, pod.created, pod.key))
        pods.sort(key=lambda pod: pod.record.has_met_trouble)  # behind those that may have none
        for rule in [rule for policy in policies.values() for rule in policy.rules_with["queue_sort"]]:
            place = place_of(rule, rule.hooks["queue_sort"])
            with warn_if_broken(f"the queue is sorted by priority and age, not by {rule.title} ({place})"):
                pods = sorted(pods, key=functools.partial(call_hook, rule, "queue_sort"))
        # Last come those that have a node and wait, maybe for the others; first of them who was asked first.
        pods.sort(key=lambda pod: pod.record.began_at if pod.record.decision else 0)
        return pods

    def due(self, pods):
        """Return those of the pods that are due; if none is, those that may be tried in their backoff."""
        due = [pod for pod in pods if pod.record.is_due()]
        if not due and time.monotonic() >= self.pops_at:
            return [pod for pod in pods if pod.record.may_pop and pod.record.waits_for is WaitsFor.NODE]
        return due

    def note_pass(self, began_at):
        """Note that a pass ends which began then."""
        moment = time.monotonic()
        self.pops_at = max(self.pops_at, moment + 2 * BRAKE * (moment - began_at))

    def could_pop(self):
        """Return whether something has changed, so that pods may be tried in their backoff."""
        is_waited_for = any(record.pops_from_backoff for record in self.values())
        return self.cache.has_changed and is_waited_for and time.monotonic() >= self.pops_at

    def is_to_be_tried(self, pod, began_at):
        """Return whether a pod is new; or else due, and this pass has lasted for a while."""
        if not is_for(pod, self.cache.snapshot.policies):
            return False
        record = self.get(pod.uid)
        return not record or (record.is_due() and time.monotonic() > began_at + 0.1)

    def end_backoff(self):
        """Have all pods tried again."""
        for record in self.values():
            record.retry_now()


def warn_of_another(pod, node_name):
    """Warn, once for all pods, that something else has bound a pod; node_name: "" if it has no node."""
    if node_name:
        what = f"{pod.key} is on {node_name}, but this scheduler did not bind it"
        question = f"is a second {pod.scheduler} running? Start both with --leader-elect"
        warn_once(f"{what}; {question}", about="somebody else binds")


def is_for(pod, policies):
    """Return whether the pod is to be tried by one of these Policies."""
    return pod.scheduler in policies and ready(pod, policies[pod.scheduler])


REPEAT_SECONDS = 300  # for which an event is not counted up
