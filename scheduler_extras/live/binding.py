"""From a decision to a Binding: each method of BindingCycle is a step on this way, or the way back.

live.py calls it in the loop's thread, for each decision.
"""

import queue
import time

from scheduler_extras.api.errors import Conflict, is_answer, warn_of_failure
from scheduler_extras.common.blame import what_broke
from scheduler_extras.common.clocks import heartbeat
from scheduler_extras.common.errors import ApiError, Trouble, Unschedulable
from scheduler_extras.common.log_texts import one_line
from scheduler_extras.deciding.extension_points import call_hook, unreserve, with_reason
from scheduler_extras.live.queue import WaitsFor
from scheduler_extras.rules.always import nominate
from scheduler_extras.rules.preemption import nomination_of


SEVERAL = 10  # if so many pods have met trouble of the API server, it is not up to these


class BindingCycle:
    """What becomes of a pod once there is a decision: each method is a step of that.

    It runs in the loop's thread. Upstream: schedule_one.go.
    """

    def __init__(self, cache, writer, recorder, show_decision):
        self.cache = cache
        self.writer = writer
        self.recorder = recorder
        self.show_decision = show_decision  # is called with each decision that has been carried out
        self.under_way = 0  # how many Bindings are being written
        self.failing = []  # the Trouble that pods have met in this pass, since one was bound
        self.has_failed = False  # whether a rule has broken, there was trouble, or a write has failed

    def assume(self, decision):
        """Assume the pod on its node, and call Reserve of the rules."""
        node = self.cache.snapshot.nodes.get(decision.node)
        if node is None:  # somebody has edited `select_host`
            decision.give_up(Unschedulable(f"there is no node {decision.node}"))
            return
        self.cache.nodes.place(decision.pod, node.name)
        decision.pod.record.wait_for(WaitsFor.PERMIT, decision)
        try:
            for rule in decision.policy.rules_with["reserve"]:
                call_hook(rule, "reserve", decision.pod, node, self.cache.snapshot)
        except (Exception, SystemExit) as error:
            decision.give_up(error)

    def ask_rules(self, decision):
        """Ask rules whether a pod may be bound by now (permit, pre_bind). Return what to send first."""
        if not decision.node:  # a rule has refused already to reserve it
            return []
        requests = []
        decision.trouble = None
        decision.condition_reason = "Unschedulable"
        record = decision.pod.record
        node = self.cache.snapshot.nodes.get(decision.node)
        try:
            if node is None:
                raise Unschedulable(f"node {decision.node} has gone")
            if record.waits_for is WaitsFor.PERMIT:
                decision.waits = why_held(decision, node, self.cache.snapshot)
                if decision.waits:
                    return []
            decision.condition_reason = "SchedulerError"  # of what is wrong now; as kube-scheduler's PreBind
            requests, decision.waits = what_comes_first(decision, node, self.cache.snapshot)
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

    def put_off(self, decision):
        """Start the backoff of a pod without a node, report why it stays pending, and send a remedy."""
        self.end_time_slice(decision)
        self.fall_back(decision)
        reason = decision.condition_reason
        self.recorder.report(decision, "Warning", "FailedScheduling", reason, decision.message)
        if decision.requests:
            decision.pod.record.wait_for(WaitsFor.REMEDY)
            self.send(WaitsFor.REMEDY, decision, decision.requests)

    def send(self, step, decision, requests):
        """Have a thread send what rules want sent; `handle_answers` receives the results."""
        if requests:
            self.under_way += 1
            self.writer.send(step, decision, requests, self.cache.still_waiting)

    def bind(self, decision, requests):
        """Have a thread bind a pod that has its node; or send first what rules want sent."""
        record = decision.pod.record
        self.end_time_slice(decision)
        try:
            if record.waits_for is not WaitsFor.BINDING:
                self.send(WaitsFor.PRE_BIND, decision, requests)
                if not requests:
                    self.report_waiting(decision)
            else:
                self.writer.bind(decision, self.recorder)
                self.under_way += 1
        except Exception as error:
            self.handle_failure(decision, error)

    def end_time_slice(self, decision):
        """Note how long the loop has spent on the pod, and what went wrong."""
        decision.pod.record.end_time_slice()
        self.has_failed |= decision.rule_has_broken
        self.note_trouble(decision, decision.trouble)

    def note_trouble(self, decision, error):
        """Note whether what a pod has met is trouble of the API server."""
        if decision.pod.record.meet(error):
            self.failing.append(error)
            self.has_failed = True

    def raise_trouble(self):
        """If several pods have met trouble, raise it: the pass ends."""
        if len(self.failing) >= SEVERAL:
            raise self.failing.pop()

    def fall_back(self, decision):
        """Have a pod wait for a node again: give up its room, have the rules forget it, have it back off."""
        record = decision.pod.record
        had_room = record.waits_for is not WaitsFor.NODE
        record.back_off(decision)
        if had_room:
            self.cache.forget(decision.pod)
            self.send(WaitsFor.NODE, decision, unreserve(decision, self.cache.snapshot))

    def handle_answers(self, patience=0.5):
        """Handle the results of writes; wait up to `patience` seconds for those under way."""
        until = time.monotonic() + patience
        while self.under_way:
            try:
                answer = self.writer.answered.get(timeout=max(until - time.monotonic(), 0))
            except queue.Empty:
                return
            self.under_way -= 1
            self.handle_answer(answer)

    def handle_answer(self, answer):
        """Handle the result of a decision's writes at one step."""
        if answer.step is WaitsFor.BINDING:
            self.handle_binding(answer)
        elif answer.step is WaitsFor.REMEDY:
            self.handle_remedy(answer)
        elif answer.error and answer.step is WaitsFor.NODE:
            self.note_failure(answer.error)
        elif answer.step is WaitsFor.PRE_BIND and answer.decision.pod.record.decision is answer.decision:
            self.handle_preparation(answer)

    def handle_preparation(self, answer):
        """Report what a pod waits for after its writes; if one failed, let the pod fall back."""
        if answer.error:
            self.handle_failure(answer.decision, answer.error)
        else:
            self.report_waiting(answer.decision)

    def report_waiting(self, decision):
        """Report why a pod that has its node is not bound yet."""
        self.recorder.report(decision, "Normal", "Waiting", "Waiting", decision.waits)

    def handle_binding(self, answer):
        """Have a pod that is bound wait until it is shown on its node; if its Binding failed, fall back."""
        if answer.error:
            self.handle_failure(answer.decision, answer.error, heading="binding rejected: ")
        else:
            answer.decision.pod.record.wait_for(WaitsFor.CONFIRMATION)
            self.failing.clear()
            self.show_decision(answer.decision)

    def handle_remedy(self, answer):
        """Have a pod wait for a node again, now that what may help it is written.

        What a request that failed was to change stays as it was. If victims may not be deleted, the pod tries
        another node first. If none was, it gives up its nomination.
        """
        decision, left = answer.decision, answer.left
        pod, record = decision.pod, decision.pod.record
        snapshot = self.cache.snapshot
        record.wait_for(WaitsFor.NODE)
        if answer.error:
            decision.remedy = ""
            record.retry_after_backoff()
            self.cache.take_back(left)
            self.note_failure(answer.error)
            is_refused = not (isinstance(answer.error, Conflict) or is_answer(answer.error, 0, 429))
            if is_refused and deletions(left) and not nominations(left):
                record.refused.add(nomination_of(pod, snapshot))
                if deletions(left) == deletions(decision.requests):
                    self.send(WaitsFor.NODE, decision, [nominate(pod, None, snapshot)])
        elif decision.policy.retries_preemptors and deletions(decision.requests):
            record.retry_now()
        self.show_decision(decision)

    def note_failure(self, error):
        """Log and record a failed write, unless it merely came too late."""
        text = str(error) if isinstance(error, ApiError) else what_broke(error)
        self.has_failed |= warn_of_failure(error, text)

    def handle_failure(self, decision, error, heading=""):
        """Let a pod fall back after a failed write."""
        pod = decision.pod
        self.fall_back(decision)
        self.note_trouble(decision, error)
        is_known = isinstance(error, (ApiError, Unschedulable))
        why = one_line(error) if is_known else what_broke(error)
        is_failure = warn_of_failure(error, f"{pod.key}: {why}")
        self.has_failed |= is_failure
        is_answered = not is_answer(error, 0, 429)
        if is_failure and is_answered:  # else the event would probably fail as well
            self.recorder.report(decision, "Warning", "FailedScheduling", "SchedulerError", f"{heading}{why}")

    def finish(self, seconds, stop=None):
        """Wait until all is written, but no longer than this, or until `stop` is set."""
        until = time.monotonic() + seconds
        while self.under_way or self.writer.tasks.unfinished_tasks:
            if time.monotonic() > until or (stop and stop.is_set()):
                break
            heartbeat()
            self.handle_answers(patience=0.02)
            time.sleep(0.002)


def why_held(decision, node, snapshot):
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


def what_comes_first(decision, node, snapshot):
    """Return what rules want sent before the binding (pre_bind), and what has to take effect, or ""."""
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


def with_why(text, reason):
    """Return a text with the reason that a rule has given, if any."""
    return f"{text}: {reason}" if reason else text


def nominations(requests):
    """Return the requests that nominate a pod to a node, or to none."""
    return [(method, path, body) for method, path, body in requests
            if method == "PATCH" and "nominatedNodeName" in (body.get("status") or {})]


def deletions(requests):
    """Return how many requests delete something."""
    return [method for method, *_ in requests].count("DELETE")
