"""The writer: its threads bind pods, and send the requests of rules.

attempts.py gives it tasks; binding.py has the one that binds a pod. A dry run and manifests have subclasses.
"""

from __future__ import annotations

import enum
import queue
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scheduler_extras.api.http_retries import forever, patiently
from scheduler_extras.api.responses import Conflict, NotFound
from scheduler_extras.common.errors import ApiError, ServerUnavailable
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.live.event_recorder import Recorder, record_event
from scheduler_extras.live.thread_pool import ThreadPool
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.pods_and_nodes import FullPod


# All writes are made in threads. results.py handles the results of Bindings and of rules' requests; events
# and conditions report none. A dry run writes nothing. A replica that does not lead writes nothing either
# (`request_if_leading`), except events about pods that it has bound (`record_scheduled`). A request that
# fails with 5xx is sent up to three times (`patiently`), except a DELETE, which may have succeeded anyway.


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
    unsent: list[tuple] = field(default_factory=list)  # the requests that have not succeeded yet


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

    def send(self, step: Step, decision: FullDecision, requests: list[tuple],
             latest_if_unbound: Callable[[FullPod], FullPod | None]) -> None:
        """Let a thread send the requests of rules for a pod and report the result.

        latest_if_unbound: returns the current version of a pod, or None if it no longer waits.
        """
        result = Result(step, decision, unsent=requests)
        self.submit(result, self.send_in_order, result, latest_if_unbound)

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

    def send_in_order(self, result: Result, latest_if_unbound: Callable[[FullPod], FullPod | None]) -> None:
        """Send requests one after another until one fails, and report the result.

        If the pod no longer waits, the rest is not sent, unless they clean up.
        """
        pod = result.decision.pod
        is_wanted_for_pod = result.step is not Step.CLEANUP
        try:
            while result.unsent:
                request = result.unsent[0]
                if is_wanted_for_pod:
                    check_that_it_waits(pod, latest_if_unbound(pod))
                if result.step is Step.PRE_BIND and not is_current(result.decision):
                    raise Conflict(409, f"{pod.key} has given up {result.decision.node}")
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


def is_current(decision: FullDecision) -> bool:
    """Return whether an assumed pod still has the node that this decision gave it."""
    record = decision.pod.record  # None if the pod is gone
    return record is not None and record.decision is decision


def check_that_it_waits(pod: FullPod, latest: FullPod | None) -> None:
    """Raise Conflict if a pod is terminating, bound, or gone. latest: its current version, or None."""
    if not latest or latest.terminating or latest.node_name:
        raise Conflict(409, f"{pod.key} is no longer waiting")
