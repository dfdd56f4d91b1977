"""The queue of pending pods: which pods are due, and in which order.

cluster.py keeps it up to date. retry.py says when a pod is due.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from scheduler_extras.common.blame import place_of, warn_if_broken
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.common.observer import Observer
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.extension_points import call_hook, run_pre_enqueue
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.binding import warn_of_foreign_binding
from scheduler_extras.live.cache import Cache
from scheduler_extras.live.pod_record import PodRecord, WaitsFor
from scheduler_extras.live.retry import RetryOn
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.reading.pods_and_nodes import FullPod


PAUSE_PER_SECOND = 20  # seconds without pops from backoff, for each second of a pass


class PassQueue(deque):
    """The pods that a pass has not tried yet, in order."""

    def __init__(self, pods: Iterable[FullPod] = (), began_at: float = 0.0, pops: bool = False):
        super().__init__(pods)
        self.began_at = began_at  # when the pass began, in monotonic seconds
        self.pops = pops  # whether it tries pods whose backoff is not over
        self.ready_at = time.monotonic()  # when it had found out which pods are due

    def is_late(self) -> bool:
        """Return whether the pass has lasted long enough to yield to an urgent pod.

        It lasts at least a second. If its beginning took longer, it lasts as long as that, so that half of
        the time is left for decisions. Assumed pods come last, and wait for others anyway: they get a fifth.
        """
        longest = max(1, self.ready_at - self.began_at)
        if self[0].record.decision:
            longest /= 5
        return time.monotonic() > self.ready_at + longest


class SchedulingQueue(dict):
    """{uid: PodRecord} of the pending pods. Upstream: internal/queue."""

    def __init__(self, cache: Cache):
        super().__init__()
        self.cache = cache
        self.observer = Observer()  # serve/ has one that counts
        self.gated: set[str] = set()  # uids of pods with scheduling gates, or refused by PreEnqueue
        self.next_pop_at = 0.0  # pops from backoff pause until then, and so take at most 1/20 of the time

    def outdated(self, pods: dict[str, FullPod], policies: dict[str, FullPolicy]) -> list[FullDecision]:
        """Return the decisions about assumed pods that are gone, or have another Policy now."""
        return [record.decision for uid, record in self.items() if record.decision and (
            uid not in pods or record.policy is not policies[pods[uid].scheduler])]

    def update_records(self, pods: dict[str, FullPod], policies: dict[str, FullPolicy]) -> None:
        """Keep a record of each of these pods, {uid: Pod}. A pod whose Policy has changed is due at once."""
        moment = time.monotonic()
        for uid, pod in pods.items():
            if uid not in self:
                self[uid] = PodRecord(pod, since=moment)
                self.observer.queued()
            record = self[uid]
            record.use_version(pod)
            policy = policies[pod.scheduler]
            if record.policy is not policy:
                record.use_policy(policy)

    def drop_others(self, pods: dict[str, FullPod]) -> None:
        """Drop the records of pods other than these, {uid: Pod}, except while a write is in flight."""
        for uid in self.keys() - pods.keys():
            record = self[uid]
            latest = self.cache.pods.get(record.pod.key)
            if latest and latest.uid == uid and record.retry.failures and not record.may_be_bound():
                warn_of_foreign_binding(record.pod, latest.node_name)
            is_unanswered = record.waits_for in (WaitsFor.BINDING, WaitsFor.POST_FILTER)
            is_unseen = record.waits_for is WaitsFor.CONFIRMATION and self.cache.latest_if_unbound(record.pod)
            if not (is_unanswered or is_unseen):
                del self[uid]
                record.pod.record = None  # breaks the reference cycle

    def in_order(self, pods: Iterable[FullPod], policies: dict[str, FullPolicy]) -> list[FullPod]:
        """Return pods in the order in which to try them: by priority, then by how long they have waited.

        A rule's queue_sort counts before these; of several, the last one counts most. Pods that have met a
        server error come after those that have not. Assumed pods come last, because they may wait for others:
        the one whose last attempt was first goes first.
        """
        pods = [*pods]
        rules = [rule for policy in policies.values() for rule in policy.rules_with["queue_sort"]]
        by_rule = [*zip(*(keys_of(rule, pods) for rule in reversed(rules)), strict=True)] or [()] * len(pods)

        def key(place: int) -> tuple:
            """Return the sort key of the pod at a place."""
            pod = pods[place]
            record = pod.record
            asked_at = record.retry.began_at if record.decision else 0
            return (asked_at, *by_rule[place], record.retry.has_met_server_error,
                    -pod.priority, record.since, pod.created, pod.key)

        return [pods[place] for place in sorted(range(len(pods)), key=key)]

    def due(self, pods: list[FullPod], began_at: float) -> PassQueue:
        """Return the pods that are due; if none of them needs a node, with those popped from backoff."""
        due = [pod for pod in pods if pod.record.is_due()]
        is_idle = not any(pod.record.waits_for is WaitsFor.NODE for pod in due)
        may_pop = is_idle and time.monotonic() >= self.next_pop_at
        popped = [pod for pod in pods if may_pop and pod.record.can_be_popped()]
        return PassQueue(popped + due, began_at, pops=bool(popped))

    def latest_if_to_try(self, pod: FullPod) -> FullPod | None:
        """Return the current version of a pod of the pass; None if it must not be tried any more.

        A pod that has fallen back during the pass waits for its backoff.
        """
        latest = self.cache.latest_if_unbound(pod)
        if not latest or latest.terminating or latest.gates:
            return None
        return latest if pod.record.is_due() or pod.record.can_be_popped() else None

    def wake(self) -> None:
        """If the cluster has changed, record that pods which fitted no node may fit one now."""
        for record in self.records_to_wake():
            record.wake()
        self.cache.has_changed = self.cache.has_placed_pod = False

    def records_to_wake(self) -> list[PodRecord]:
        """Return the records of the pods that may fit a node after the latest changes."""
        if self.cache.has_changed:
            return [*self.values()]
        if self.cache.has_placed_pod:  # upstream: AssignedPodAdded
            return [record for record in self.values() if record.retry.is_helped_by_pods]
        return []

    def note_end_of_pass(self, pass_queue: PassQueue) -> None:
        """After a pass with pods popped from backoff, begin the pause until the next one."""
        if pass_queue.pops:
            moment = time.monotonic()
            self.next_pop_at = moment + PAUSE_PER_SECOND * (moment - pass_queue.began_at)

    def has_pods_to_pop(self) -> bool:
        """Return whether an idle queue could pop pods from backoff, because the cluster has changed."""
        return time.monotonic() >= self.next_pop_at and any(
            record.waits_for is WaitsFor.NODE and record.pops_from_backoff()
            and record.retry.trigger in (RetryOn.CHANGE, RetryOn.BACKOFF_OR_IDLE)
            for record in self.records_to_wake())

    def is_urgent(self, pod: FullPod, began_at: float) -> bool:
        """Return whether to try a pod: it is new, or it is due and the pass began more than 0.1 s ago."""
        policies = self.cache.snapshot.policies
        if not (is_ours(pod, policies) and is_ready(pod, policies[pod.scheduler])):
            return False
        record = self.get(pod.uid)
        return not record or (record.is_due() and time.monotonic() > began_at + 0.1)

    def end_backoff(self) -> None:
        """Make all pods due."""
        for record in self.values():
            record.retry.make_due()


def is_ours(pod: FullPod, policies: dict[str, FullPolicy]) -> bool:
    """Return whether one of these Policies schedules the pod, and it is neither terminating nor finished."""
    return pod.scheduler in policies and not pod.terminating and pod.phase not in ("Succeeded", "Failed")


def is_ready(pod: FullPod, policy: FullPolicy) -> bool:
    """Return whether a pod has no scheduling gates, and passes PreEnqueue of the rules.

    For an assumed pod, PreEnqueue is not called again.
    """
    if pod.gates:
        return False
    if pod.record and pod.record.decision:
        return True
    reason = run_pre_enqueue(pod, policy)
    if reason:
        warn_once(f"{pod.key} is not tried yet: {reason}")
    return not reason


def keys_of(rule: FullRule, pods: list[FullPod]) -> list:
    """Return the sort keys that a rule gives to pods; equal keys if the rule fails."""
    with warn_if_broken(f"the queue is sorted by priority and age, not by {rule.title} "
                        f"({place_of(rule, rule.hooks['queue_sort'])})"):
        keys = [call_hook(rule, "queue_sort", pod) for pod in pods]
        sorted(keys)  # raises if they cannot be compared
        return keys
    return [0] * len(pods)
