"""What is written, by threads: a Binding is sent here (`bind`), and what rules want sent.

The binding cycle hands decisions to it; a dry run, and manifests, have another Writer.
"""

from __future__ import annotations

import functools
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler import binding
from scheduler_extras.api.errors import Conflict, NotFound, TooLarge
from scheduler_extras.api.retries import forever, patiently
from scheduler_extras.common.blame import request_by, warn_if_broken
from scheduler_extras.common.clocks import within
from scheduler_extras.common.errors import ApiError, InputError, Trouble, Unschedulable
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.extension_points import call_hook
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.events import Recorder, record
from scheduler_extras.live.record import WaitsFor
from scheduler_extras.live.threads import Threads
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.pods_and_nodes import FullPod


# Threads write all that is written; results.py handles how that ends. In a dry run nothing is
# written. Nor does a replica write that does not lead (`attempt`), except that it records events of the pods
# that it has bound (`announce`). A request that fails with 5xx is sent up to three times (patiently), but a
# DELETE once, as an attempt of which no answer came may still delete.


HOOK_SECONDS = 60  # for which a rule's bind may keep a thread, and its post_bind, too


@dataclass
class Result:
    """How requests have ended that were sent for a decision."""

    step: WaitsFor  # what the pod waited for when they were handed over; NODE: what Unreserve wanted sent
    decision: FullDecision
    error: BaseException | None = None  # what went wrong
    left: list[tuple] = field(default_factory=list)  # the request that has failed, and those behind it


class Writer(Threads):
    """Sends requests, in threads of its own."""

    is_live = True  # controllers act on what is written

    def __init__(self, api):
        super().__init__()
        self.api = api
        self.may_write = lambda: True  # whether this replica leads
        # Results for the loop. Before Python 3.11 a SimpleQueue that is to wait for hardly any time may wait
        # forever.
        self.results: queue.Queue = queue.Queue()
        self.awaited = 0  # how many results the loop has not had yet

    def start_binding(self, decision: FullDecision, recorder: Recorder) -> None:
        """Have a thread bind a pod, and let the loop know how that has ended."""
        self.submit(Result(WaitsFor.BINDING, decision), write_binding, decision, self, recorder)

    def send(self, step: WaitsFor, decision: FullDecision, requests: list[tuple],
             still_waiting: Callable[[FullPod], FullPod | None]) -> None:
        """Have a thread send what rules want sent for a pod, and let the loop know how that has ended.

        still_waiting: returns a pod as it is by now, or None if it does not wait any more.
        """
        result = Result(step, decision, left=requests)
        self.submit(result, self.send_in_order, result, still_waiting)

    def submit(self, result: Result, function: Callable, *arguments) -> None:
        """Have a thread call a function that reports a result; if there are no threads, report that."""
        self.awaited += 1
        try:
            self.start(function, *arguments)
        except Trouble as error:
            result.error = error
            self.results.put(result)

    def attempt(self, *request) -> dict:
        """Send a request once, unless another replica may lead by now. Return its answer."""
        if not self.may_write():
            raise Conflict(409, "this replica does not lead any more")
        return self.api.request(*request)

    def send_in_order(self, result: Result, still_waiting: Callable[[FullPod], FullPod | None]) -> None:
        """Send requests one after another, until one fails; then let the loop know.

        What is not wanted any more, as the pod has gone, is not sent, unless it undoes something.
        """
        pod = result.decision.pod
        is_wanted_for_pod = result.step is not WaitsFor.NODE
        try:
            while result.left:
                request = result.left[0]
                if is_wanted_for_pod:
                    check_that_it_waits(pod, still_waiting(pod))
                answer = self.send_one(result.step, pod, *request)
                if answer and is_wanted_for_pod and text_at(answer, "metadata", "uid") == pod.uid:
                    check_that_it_waits(pod, FullPod(answer))
                result.left = result.left[1:]
        except Exception as error:  # what a rule wants sent may be anything
            result.error = error
        self.results.put(result)

    def send_one(self, step: WaitsFor, pod: FullPod, method: str, path: str, body: dict) -> dict | None:
        """Send a request that a rule wants sent for a pod. Return its answer. Raises ApiError."""
        if path.endswith("/events"):
            self.start(record, self, (method, path, body))
            return None
        try:
            if method == "DELETE":
                return self.attempt(method, path, body)
            return patiently(self.attempt, method, path, body)
        except (Conflict, NotFound):
            is_its_own = f"{path}/".startswith(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/")
            may_have_gone = method == "DELETE" or step is WaitsFor.REMEDY
            if is_its_own or not (may_have_gone and self.may_write()):
                raise
            return None  # a victim has gone, for example, and that is all right

    def bound_by(self, decision: FullDecision) -> str | None:
        """Have a rule or an extender bind the pod. Return which one says that it has, or None."""
        return self.ask_binders(decision, decision.policy.extenders)

    def ask_binders(self, decision: FullDecision, extenders: list) -> str | None:
        """Ask the rules, then these extenders, to bind the pod, until one says that it has; return which."""
        pod = decision.pod
        binders = [(f"rule {rule.title or rule.name}", functools.partial(call_in_time, rule, "bind"))
                   for rule in decision.policy.rules_with["bind"]]
        binders += [(f"extender {extender.url}", extender.bind)
                    for extender in extenders if extender.cares("bindVerb", pod)]
        return next((who for who, bind in binders if self.may_write() and bind(pod, decision.node)), None)

    def place_of(self, pod: FullPod) -> str | None:
        """Return the node on which a pod is, whatever was answered, as the answer may have been lost.

        "": it is on none; None: it has gone, or the question is not allowed. As long as no answer comes, the
        question is sent again, and the pod keeps its room.
        """
        raw = patiently(self.read, pod, pauses=forever())
        return text_at(raw, "spec", "nodeName") if text_at(raw, "metadata", "uid") == pod.uid else None

    def read(self, pod: FullPod) -> dict:
        """Return the pod of this name as the API server has it, or {}. Raises Trouble."""
        try:
            raw = self.api.request("GET", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")
        except Trouble:
            raise
        except ApiError as error:
            if error.status in (403, 404):
                return {}
            raise Trouble(0, str(error)) from error
        if not text_at(raw, "metadata", "uid"):
            raise Trouble(0, "what was answered is no pod, so that no API server says it")
        return raw


class DryRun(Writer):
    """Writes nothing."""

    is_live = False

    def submit(self, result: Result, function: Callable, *arguments) -> None:
        """Let the loop know that it has ended well."""
        self.awaited += 1
        self.results.put(result)

    def start(self, function: Callable, *arguments) -> None:
        """Do nothing."""


def check_that_it_waits(pod: FullPod, latest: FullPod | None) -> None:
    """Raise Conflict if a pod has gone, is being deleted, or has a node, by what is known by now."""
    if not latest or latest.terminating or latest.node_name:
        raise Conflict(409, f"{pod.key} does not wait any more")


def write_binding(decision: FullDecision, writer: Writer, recorder: Recorder) -> None:
    """Bind the pod, and report the result to the loop. If it is bound, record an event and call PostBind."""
    pod = decision.pod
    try:
        with pod.record.published.writing:  # what says that the pod waits is written before, or not at all
            began = time.monotonic()
            bind(decision, writer)
            decision.binding_seconds = time.monotonic() - began
    except BaseException as error:  # by a rule even SystemExit
        place = writer.place_of(pod)
        if place == "" and isinstance(error, NotFound):  # by a mistake in the path of the Binding, perhaps
            error = Unschedulable(f"{error}, though the pod is there")
        elif place not in (None, "", decision.node):
            warn_of_another(pod, place)
        if place != decision.node:
            writer.results.put(Result(WaitsFor.BINDING, decision, error))
            return
    writer.results.put(Result(WaitsFor.BINDING, decision))
    message = f"Successfully assigned {pod.key} to {decision.node}"
    recorder.announce(pod, ", though it ".join([message, *decision.unheeded]))
    for rule in decision.policy.rules_with["post_bind"]:
        with warn_if_broken(pod.key):
            call_in_time(rule, "post_bind", pod, decision.node)


def warn_of_another(pod: FullPod, node_name: str) -> None:
    """Warn, once for all pods, that something else has bound a pod; node_name: "" if it has no node."""
    if node_name:
        what = f"{pod.key} is on {node_name}, but this scheduler did not bind it"
        question = f"is a second {pod.scheduler} running? Start both with --leader-elect"
        warn_once(f"{what}; {question}", about="somebody else binds")


def bind(decision: FullDecision, writer: Writer) -> None:
    """Bind the pod: by a rule, an extender, or else a Binding. Raises ApiError, or what a rule raises."""
    pod = decision.pod
    node_name = decision.node
    bound_by = writer.bound_by(decision)
    if bound_by:
        if writer.place_of(pod) != node_name:
            raise Unschedulable(f"{bound_by} says that the pod is bound to {node_name}, and it is not")
        return
    try:
        answer = patiently(writer.attempt, *request_by(binding, pod, node_name))
    except TooLarge as error:
        raise Unschedulable(f"with its node, the pod is larger than etcd takes: {error}") from error
    if not text_at(answer, "kind"):  # which all has that an API server says
        raise Trouble(0, "its Binding was answered, but by no API server")


def call_in_time(rule: FullRule, point: str, *things) -> object:
    """Return what a rule says at an extension point. Raises InputError if that takes too long."""
    late = InputError(f"{rule.title or rule.name}: {point} has not returned for {HOOK_SECONDS} s")
    return within(HOOK_SECONDS, call_hook, rule, point, *things, late=late)
