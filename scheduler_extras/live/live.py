"""The cluster that the loop works with, live or made of manifests.

The loop calls its methods; the command line makes one.
"""

import math
import threading
import time

from scheduler import log
from scheduler_extras.api.errors import backoff
from scheduler_extras.common.blame import FAILURE
from scheduler_extras.common.clocks import HEARTBEAT, STOP
from scheduler_extras.common.errors import Trouble
from scheduler_extras.deciding.schedule import schedule
from scheduler_extras.live.binding import BindingCycle
from scheduler_extras.live.cache import Cache
from scheduler_extras.live.events import Recorder
from scheduler_extras.live.known import ListedObjects, Objects
from scheduler_extras.live.loop import schedule_pending_pods
from scheduler_extras.live.queue import SchedulingQueue, WaitsFor


class LiveCluster:
    """What the loop works with: a cache that is kept up to date, a queue, threads that write."""

    OBJECTS = Objects  # how what there is becomes known

    def __init__(self, writer, show=lambda decision: None, at_rest=lambda: None):
        api = writer.api
        self.api = api
        self.writer = writer
        self.show = show  # prints a decision
        self.due = []  # pods not yet tried in this pass; some are left if it ended early
        self.last_error = None  # the error that cut the last pass short, if any
        self.failed_passes = 0  # in a row, until now
        self.cache = Cache(api, self.writer.is_live, self.OBJECTS)
        self.snapshot = self.cache.snapshot
        self.cycle = BindingCycle(self.cache, self.writer, Recorder(self.writer), self.show_if_new)
        self.pending = SchedulingQueue(self.cache, self.cycle)
        self.at_rest = at_rest  # is called when a pass is over
        self.began_at = 0  # when the last pass began, in monotonic seconds
        self.looked_ahead_by = {}  # the Policies whose rules have what they need for the first pod

    def begin_pass(self, policies):
        """Find out which pods are due. Raises ApiError."""
        pods = self.pending.renew(self.waiting_pods(policies), policies)
        if self.cache.has_changed:
            self.cache.has_changed = False
            for record in self.pending.values():
                record.retry_after_backoff()
        self.cycle.failing.clear()
        self.look_ahead()
        self.due = self.pending.due(pods)
        ready_at = time.monotonic()
        self.ends_at = ready_at + max(1, ready_at - self.began_at)

    def waiting_pods(self, policies):
        """Return the pods that name one of these schedulers, and have no node yet. Raises ApiError."""
        self.began_at = time.monotonic()
        self.cache.follow(policies)
        while self.cache.deleted:
            self.cycle.recorder.skip(self.cache.deleted.pop())
        return [*self.cache.waiting.values()]

    def next_pod(self, stop):
        """Apply updates, and return the next pod to schedule. Raises ApiError.

        About those that have a node and wait for rules, these are asked again. None ends the pass: before, it
        takes in how Bindings have ended. A pass that raises leaves that to the next one.
        """
        while pod := self.next_due(stop):
            decision = pod.record.decision
            if not decision:
                return pod
            self.go_on(decision)
            self.report(decision)
        self.pending.note_pass(self.began_at)
        self.cycle.handle_answers()  # which pods the API server has bound, and which not
        self.cycle.raise_trouble()
        return None

    def next_due(self, stop):
        """Apply updates, and return the next pod to schedule. None ends the pass. Raises ApiError.

        If pods have come meanwhile, the pass ends after a second, as one of them may be more important; after
        lists that took longer, it takes as long as these, so that at least half of the time is for decisions.
        """
        while self.due:
            is_late = time.monotonic() > self.ends_at
            if stop.is_set() or (is_late and self.has_come()):
                return None
            self.cycle.handle_answers(patience=0)
            self.cycle.raise_trouble()
            self.writer.wait_for_a_free_thread()
            self.cache.apply_updates()
            pod = self.due.pop(0)
            latest = self.cache.still_waiting(pod)
            if latest and not (latest.terminating or latest.gates):  # else it is bound, goes, or is unread
                pod.record.begin_time_slice(latest)
                return latest
        return None

    def has_come(self):
        """Return whether a pod is to be tried that has come, or changed, since these were listed."""
        return any(self.pending.is_to_be_tried(pod, self.began_at) for pod in self.cache.arrived.values())

    def bind(self, decision):
        """Give the pod its room, ask the rules; if none is against it, have a thread POST the Binding."""
        self.cycle.assume(decision)
        self.go_on(decision)

    def go_on(self, decision):
        """Ask rules whether a pod may be bound by now to the node that it has; bind it, or put it off."""
        requests = self.cycle.ask_rules(decision)
        if decision.node:  # else one of the rules has refused
            self.cycle.bind(decision, requests)
        else:
            self.cycle.put_off(decision)

    def put_off(self, decision):
        """Have rules do something about a pod that fits nowhere; it backs off."""
        decision.policy.seek_remedy(decision, self.snapshot)
        self.cycle.put_off(decision)

    def report(self, decision):
        """Show a decision. One that is to be carried out is shown only once it is: see `handle_answers`.

        Another client may bind or delete the pod first; then the decision is not shown.
        """
        is_under_way = decision.pod.record.waits_for in (WaitsFor.REMEDY, WaitsFor.BINDING)
        if not (is_under_way and self.writer.is_live):
            self.show_if_new(decision)

    def show_if_new(self, decision):
        """Show a decision, unless it repeats the last one shown for the pod."""
        if decision.pod.record.take_note(decision):
            self.show(decision)

    def end_pass(self, error=None):
        """Log what has cut a pass short, unless a signal has, but not twice in a row; and the end of it."""
        if STOP.is_set():
            error = None
        if error and str(error) != str(self.last_error):
            log.error("%s", error)
        if isinstance(self.last_error, Trouble) and not error:
            log.warning("the API server answers again")
        self.last_error = error
        self.failed_passes = self.failed_passes + 1 if self.last_error else 0

    def rest(self, seconds, stop):
        """Wait for so many seconds; after trouble, for longer. `stop` ends it; without trouble, work does."""
        self.at_rest()
        if self.last_error:
            HEARTBEAT.at = math.inf
            asks_nothing = self.cache.objects.failed  # then Reflectors list again, and see to the pauses
            pause = seconds if asks_nothing else max(seconds, backoff(self.failed_passes))
            stop.wait(min(pause, threading.TIMEOUT_MAX))
            self.cache.apply_updates()  # they would pile up while lists fail
            return
        until = time.monotonic() + seconds
        while not (self.has_come() or self.pending.could_pop() or stop.is_set()) and time.monotonic() < until:
            self.cache.apply_updates(patience=0.1)
            self.cycle.handle_answers(patience=0)

    def look_ahead(self):
        """Let the rules of new Policies list what they need, before a pod is tried."""
        policies = self.snapshot.policies
        if policies != self.looked_ahead_by:
            self.looked_ahead_by = policies
            for policy in policies.values():
                policy.look_ahead(self.snapshot)

    def has_failed(self):
        """Return whether a rule has broken, or there was trouble, or something is not written."""
        return bool(FAILURE.is_set() or self.cycle.has_failed or self.cycle.under_way or self.last_error)

    def look(self, policies=()):
        """Return the cluster as it is by now. Raises ApiError."""
        self.cache.follow(dict(policies))
        return self.snapshot


class ListedCluster(LiveCluster):
    """One that is listed in each pass, and not watched: manifests, or what is looked at once."""

    OBJECTS = ListedObjects

    def has_come(self):
        """Return False: no pod appears between lists."""
        return False


def come_to(pod, cluster, policies, stop):
    """Decide about the pods that a run tries before this one. Return how many; 0 if it does not try this."""
    cluster.begin_pass(policies)
    if pod.key not in [each.key for each in cluster.due]:
        return 0
    count = 0
    show = cluster.show
    cluster.show = lambda decision: None
    while (other := cluster.next_pod(stop)) and other.key != pod.key:
        decision = schedule(other, cluster.snapshot, policies[other.scheduler])
        (cluster.bind if decision.node else cluster.put_off)(decision)
        count += 1
    cluster.cycle.finish(cluster.writer.patience, stop)
    cluster.show = show
    return count


def make_passes(cluster, policies, stop, once):
    """Make passes until one changes nothing. Return a snapshot without the pods that are still held."""
    while not stop.is_set():
        before = cluster.api.changes
        schedule_pending_pods(cluster, policies, stop)
        cluster.cycle.finish(cluster.writer.patience, stop)
        if once or cluster.api.changes == before:
            break
        cluster.pending.end_backoff()  # there is nothing to wait for: only this program changes manifests
    for record in cluster.pending.values():
        if record.decision:  # it waits for rules
            cluster.cycle.fall_back(record.decision)
    return cluster.look(policies)
