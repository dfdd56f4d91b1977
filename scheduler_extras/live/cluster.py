"""All that the loop works with: the cache, the queue, the handler of attempts, and the writer.

The loop calls its methods. runs.py and show/compare.py create one, for a live cluster or for manifests.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from scheduler_extras.common.clocks import HEARTBEAT
from scheduler_extras.common.errors import FAILURE
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.live.attempts import AttemptHandler
from scheduler_extras.live.cache import Cache
from scheduler_extras.live.object_store import ListedObjectStore, ObjectStore
from scheduler_extras.live.pass_errors import PassErrors
from scheduler_extras.live.queue import PassQueue, SchedulingQueue, is_ours, is_ready
from scheduler_extras.live.results import Results
from scheduler_extras.live.writer import Writer
from scheduler_extras.policy.policy import FullPolicy, warm_up
from scheduler_extras.reading.pods_and_nodes import FullPod


class LiveCluster:
    """The cache, the queue, the handler of attempts and the writer, for the loop. Upstream: Scheduler."""

    OBJECT_STORE = ObjectStore  # where the API server's objects come from

    def __init__(self, writer: Writer, on_carried_out: Callable[..., None] = lambda decision: None,
                 on_rest: Callable[[], None] = lambda: None):
        self.api = writer.api
        self.writer = writer
        self.on_decided: Callable[[FullDecision], None] = lambda decision: None  # called before that
        self.pass_queue = PassQueue()  # not yet tried in this pass, which may end before this is empty
        self.errors = PassErrors()
        self.cache = Cache(writer.api, writer.is_live, self.OBJECT_STORE)
        self.snapshot = self.cache.snapshot
        self.attempts = AttemptHandler(self.cache, writer, self.errors, on_carried_out)
        self.results = Results(self.attempts)
        self.queue = SchedulingQueue(self.cache)
        self.on_rest = on_rest  # called when a pass is over, and while the loop waits
        self.warmed_up_for: dict[str, FullPolicy] = {}  # the Policies for which warm_up has run

    def begin_pass(self, policies: dict[str, FullPolicy]) -> None:
        """Find out which pods are due. Raises ApiError."""
        began_at = time.monotonic()
        pods = self.update_queue(self.find_waiting(policies), policies)
        self.queue.wake()
        self.errors.begin_pass()
        self.warm_up()
        self.pass_queue = self.queue.due(pods, began_at)

    def find_waiting(self, policies: dict[str, FullPolicy]) -> list[FullPod]:
        """Apply all updates, and post events for waiting pods that have begun to terminate. Raises ApiError.

        Return the pods that name one of these schedulers, and have no node yet.
        """
        self.cache.update_for(policies)
        while self.cache.terminating:
            self.attempts.recorder.record_skipped(self.cache.terminating.pop())
        return [*self.cache.waiting.values()]

    def update_queue(self, waiting: list[FullPod], policies: dict[str, FullPolicy]) -> list[FullPod]:
        """Let outdated assumed pods fall back, and renew the records. Return the pods to try, in order."""
        ours = {pod.uid: pod for pod in waiting if is_ours(pod, policies)}
        ready = {uid: pod for uid, pod in ours.items() if is_ready(pod, policies[pod.scheduler])}
        self.queue.gated = ours.keys() - ready.keys()
        for decision in self.queue.outdated(ready, policies):
            self.attempts.requeue(decision)
        self.queue.update_records(ready, policies)
        self.queue.drop_others(ours)
        return self.queue.in_order(ready.values(), policies)

    def next_pod(self, stop: threading.Event) -> FullPod | None:
        """Advance assumed pods, and return the next pod to schedule; None ends the pass. Raises ApiError."""
        while pod := self.pop_due(stop):
            decision = pod.record.decision
            if not decision:
                return pod
            self.attempts.advance(decision)
        self.queue.note_end_of_pass(self.pass_queue)
        self.results.wait(unless=lambda: stop.is_set() or self.has_urgent_pod())
        self.errors.raise_server_error()  # many Bindings of the pass may have failed
        return None

    def pop_due(self, stop: threading.Event) -> FullPod | None:
        """Apply updates, and take the next due pod from the pass; None ends it. Raises ApiError."""
        while self.pass_queue:
            if stop.is_set() or (self.pass_queue.is_late() and self.has_urgent_pod()):
                return None
            self.results.handle()
            self.errors.raise_server_error()
            self.writer.wait_for_a_free_thread()
            self.cache.apply_updates()
            pod = self.pass_queue.popleft()
            latest = self.queue.latest_if_to_try(pod)
            if latest:
                pod.record.use_version(latest)
                pod.record.retry.begin()
                return latest
        return None

    def has_urgent_pod(self) -> bool:
        """Return whether a new or changed pod should be tried before the next pass is due."""
        return any(self.queue.is_urgent(pod, self.pass_queue.began_at) for pod in self.cache.arrived.values())

    def rest(self, seconds: float, stop: threading.Event) -> None:
        """Wait for the next pass, `stop`, or a pod to try; after a failed pass, for longer."""
        self.on_rest()
        if self.errors.last:
            HEARTBEAT.at = math.inf  # the watchdog does not end the process during this pause
            # LISTs that have failed pause by themselves before the next try.
            pause = seconds if self.cache.objects.failed else max(seconds, self.errors.pause())
            stop.wait(min(pause, threading.TIMEOUT_MAX))
            self.cache.apply_updates()  # otherwise, they pile up while LISTs fail
            return
        until = time.monotonic() + seconds
        while time.monotonic() < until and not stop.is_set():
            if self.has_urgent_pod() or self.queue.has_pods_to_pop():
                return
            self.cache.apply_updates(patience=0.1)
            self.results.handle()
            self.on_rest()

    def warm_up(self) -> None:
        """Make the rules of new Policies list the objects that they read, before a pod needs them."""
        policies = self.snapshot.policies
        if policies != self.warmed_up_for:
            self.warmed_up_for = policies
            for policy in policies.values():
                warm_up(policy, self.snapshot)

    def has_failed(self) -> bool:
        """Return whether a rule or a request failed, a write is unanswered, or an object was left out."""
        return bool(FAILURE.is_set() or self.writer.awaited or self.errors.last
                    or getattr(self.api, "lacks_some", False))

    def refresh_snapshot(self, policies: dict[str, FullPolicy] | tuple = ()) -> FullSnapshot:
        """Apply all updates, and return the snapshot. Raises ApiError."""
        self.cache.update_for(dict(policies))
        return self.snapshot


class ListedCluster(LiveCluster):
    """A cluster that is listed in each pass, not watched: manifests, or a live one that is read once."""

    OBJECT_STORE = ListedObjectStore
