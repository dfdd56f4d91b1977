"""The writer: its threads send Bindings (`bind`) and the requests of rules.

The binding cycle hands decisions to it. A dry run and manifests have subclasses.
"""

from __future__ import annotations

import enum
import functools
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scheduler import binding
from scheduler_extras.api.responses import Conflict, NotFound, TooLarge
from scheduler_extras.api.retries import forever, patiently
from scheduler_extras.common.blame import warn_if_broken
from scheduler_extras.common.clocks import within
from scheduler_extras.common.errors import ApiError, InputError, ServerUnavailable, Unschedulable
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.common.rule_answers import request_by
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.extension_points import call_hook
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.events import Recorder, record_event
from scheduler_extras.live.thread_pool import ThreadPool
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.pods_and_nodes import FullPod


# All writes are made in threads. results.py handles the results of Bindings and of rules' requests; events
# and conditions report none. A dry run writes nothing. A replica that does not lead writes nothing either
# (`request_if_leading`), except events about pods that it has bound (`record_scheduled`). A request that
# fails with 5xx is sent up to three times (`patiently`), except a DELETE, which may have succeeded anyway.


HOOK_SECONDS = 60  # the time limit of a rule's bind and post_bind


class Step(enum.Enum):
    """What the requests of a decision are for."""

    POST_FILTER = "post_filter"  # to make room for the pod
    PRE_BIND = "pre_bind"  # to prepare its binding
    BIND = "bind"
    CLEANUP = "cleanup"  # Unreserve, or the end of a nomination: they are sent even if the pod is gone


@dataclass
class Result:
    """The result of the requests for a decision."""

    step: Step
    decision: FullDecision
    error: BaseException | None = None
    unsent: list[tuple] = field(default_factory=list)  # the request that failed, and those after it


class Writer(ThreadPool):
    """Sends requests, in threads of its own."""

    is_live = True  # controllers act on what is written

    def __init__(self, api: Any):
        super().__init__()
        self.api = api
        self.recorder = Recorder(self)
        self.may_write = lambda: True  # whether this replica leads
        # Results for the loop. (Before Python 3.11, a SimpleQueue with a tiny timeout may wait forever.)
        self.results: queue.Queue = queue.Queue()
        self.awaited = 0  # results that the loop has not yet received

    def start_binding(self, decision: FullDecision) -> None:
        """Let a thread bind a pod and report the result."""
        self.submit(Result(Step.BIND, decision), write_binding, decision, self)

    def send(self, step: Step, decision: FullDecision, requests: list[tuple],
             latest_if_waiting: Callable[[FullPod], FullPod | None]) -> None:
        """Let a thread send the requests of rules for a pod and report the result.

        latest_if_waiting: returns the current version of a pod, or None if it no longer waits.
        """
        result = Result(step, decision, unsent=requests)
        self.submit(result, self.send_in_order, result, latest_if_waiting)

    def submit(self, result: Result, function: Callable, *arguments) -> None:
        """Let a thread call a function that reports a result. If no thread can be started, report that."""
        self.awaited += 1
        try:
            self.start(function, *arguments)
        except ServerUnavailable as error:
            result.error = error
            self.results.put(result)

    def request_if_leading(self, *request) -> dict:
        """Send a request once, unless another replica may lead. Return the response. Raises ApiError."""
        return self.api.request(*request, check=self.check_that_it_leads)

    def check_that_it_leads(self) -> None:
        """Raise Conflict if another replica may lead.

        Checked as late as possible: a process may be stopped for minutes between any two lines.
        """
        if not self.may_write():
            raise Conflict(409, "this replica is no longer the leader")

    def send_in_order(self, result: Result, latest_if_waiting: Callable[[FullPod], FullPod | None]) -> None:
        """Send requests one after another until one fails, and report the result.

        If the pod no longer waits, the rest is not sent, unless they clean up.
        """
        pod = result.decision.pod
        is_wanted_for_pod = result.step is not Step.CLEANUP
        try:
            while result.unsent:
                request = result.unsent[0]
                if is_wanted_for_pod:
                    check_that_it_waits(pod, latest_if_waiting(pod))
                response = self.send_one(result.step, pod, *request)
                if response and is_wanted_for_pod and text_at(response, "metadata", "uid") == pod.uid:
                    check_that_it_waits(pod, FullPod(response))
                result.unsent = result.unsent[1:]
        except Exception as error:  # a rule may return any request
            result.error = error
        self.results.put(result)

    def send_one(self, step: Step, pod: FullPod, method: str, path: str, body: dict) -> dict | None:
        """Send a request of a rule for a pod. Return the response, or None. Raises ApiError."""
        if path.endswith("/events"):
            self.start(record_event, self, (method, path, body))
            return None
        try:
            if method == "DELETE":
                return self.request_if_leading(method, path, body)
            return patiently(self.request_if_leading, method, path, body)
        except (Conflict, NotFound):
            is_its_own = f"{path}/".startswith(f"{pod.path}/")
            may_have_gone = method == "DELETE" or step is Step.POST_FILTER
            if is_its_own or not (may_have_gone and self.may_write()):
                raise
            return None  # a victim is gone already, for example

    def run_bind_plugins(self, decision: FullDecision) -> str | None:
        """Call Bind of the rules and extenders until one says that it has bound the pod. Return its name."""
        return self.first_binder(decision, decision.policy.extenders)

    def first_binder(self, decision: FullDecision, extenders: list) -> str | None:
        """Call Bind of the rules, then of these extenders. Return which one has bound the pod, or None."""
        pod = decision.pod
        binders = [(f"rule {rule.title or rule.name}", functools.partial(call_in_time, rule, "bind"))
                   for rule in decision.policy.rules_with["bind"]]
        binders += [(f"extender {extender.url}", extender.bind)
                    for extender in extenders if extender.is_interested("bindVerb", pod)]
        return next((name for name, bind in binders if self.may_write() and bind(pod, decision.node)), None)

    def fetch_node_name(self, pod: FullPod) -> str | None:
        """Return the name of the node on which the API server has a pod, "" if none, None if the pod is gone.

        None is also returned if the pod may not be read. The request is repeated until there is a response;
        meanwhile, the pod keeps its room.
        """
        raw = patiently(self.fetch_pod, pod, pauses=forever())
        return text_at(raw, "spec", "nodeName") if text_at(raw, "metadata", "uid") == pod.uid else None

    def fetch_pod(self, pod: FullPod) -> dict:
        """Return the JSON of the pod of this name; {} if it is gone or hidden. Raises ServerUnavailable."""
        try:
            raw = self.api.request("GET", pod.path)
        except ServerUnavailable:
            raise
        except ApiError as error:
            if error.status in (403, 404):
                return {}
            raise ServerUnavailable(0, str(error)) from error
        if not text_at(raw, "metadata", "uid"):
            raise ServerUnavailable(0, "the response is not a pod, so it did not come from an API server")
        return raw


class DryRun(Writer):
    """A Writer that writes nothing."""

    is_live = False

    def submit(self, result: Result, function: Callable, *arguments) -> None:
        """Report success."""
        self.awaited += 1
        self.results.put(result)

    def start(self, function: Callable, *arguments) -> None:
        """Do nothing."""


def check_that_it_waits(pod: FullPod, latest: FullPod | None) -> None:
    """Raise Conflict if a pod is terminating, bound, or gone. latest: its current version, or None."""
    if not latest or latest.terminating or latest.node_name:
        raise Conflict(409, f"{pod.key} is no longer waiting")


def write_binding(decision: FullDecision, writer: Writer) -> None:
    """Bind the pod, and report the result to the loop. On success, record an event, and call PostBind."""
    pod = decision.pod
    try:
        with pod.record.published.writing:  # the PodScheduled condition is written before, or not at all
            began = time.monotonic()
            bind(decision, writer)
            decision.binding_seconds = time.monotonic() - began
    except BaseException as error:  # a rule may even raise SystemExit
        place = writer.fetch_node_name(pod)
        if place == "" and isinstance(error, NotFound):  # the path of the Binding may be wrong
            error = Unschedulable(f"{error}, though the pod is there")
        elif place not in (None, "", decision.node):
            warn_of_foreign_binding(pod, place)
        if place != decision.node:
            writer.results.put(Result(Step.BIND, decision, error))
            return
    writer.results.put(Result(Step.BIND, decision))
    message = f"Successfully assigned {pod.key} to {decision.node}"
    writer.recorder.record_scheduled(pod, ", though it ".join([message, *decision.unchecked]))
    for rule in decision.policy.rules_with["post_bind"]:
        with warn_if_broken(pod.key):
            call_in_time(rule, "post_bind", pod, decision.node)


def warn_of_foreign_binding(pod: FullPod, node_name: str) -> None:
    """Warn once for all pods that another client has bound a pod. node_name: "" if the pod has no node."""
    if node_name:
        what = f"{pod.key} is on {node_name}, but this scheduler did not bind it"
        question = f"is a second {pod.scheduler} running? Start both with --leader-elect"
        warn_once(f"{what}; {question}", about="somebody else binds")


def bind(decision: FullDecision, writer: Writer) -> None:
    """Let a rule or an extender bind the pod, or else POST a Binding. Raises any exception."""
    pod = decision.pod
    node_name = decision.node
    bound_by = writer.run_bind_plugins(decision)
    if bound_by:
        if writer.fetch_node_name(pod) != node_name:
            raise Unschedulable(f"{bound_by} says that the pod is bound to {node_name}, and it is not")
        return
    try:
        response = patiently(writer.request_if_leading, *request_by(binding, pod, node_name))
    except TooLarge as error:
        raise Unschedulable(f"with its node, the pod is larger than etcd takes: {error}") from error
    if not text_at(response, "kind"):  # all responses of an API server have a kind
        raise ServerUnavailable(0, "the response to its Binding did not come from an API server")


def call_in_time(rule: FullRule, point: str, *things) -> object:
    """Call a rule's hook, and return its result. Raises InputError if that takes more than a minute."""
    late = InputError(f"{rule.title or rule.name}: {point} has not returned for {HOOK_SECONDS} s")
    return within(HOOK_SECONDS, call_hook, rule, point, *things, late=late)
