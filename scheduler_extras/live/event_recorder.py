"""The events of a pod, and its PodScheduled condition.

attempts.py and the threads that bind use it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from scheduler import event
from scheduler_extras.api.http_retries import LASTING, patiently
from scheduler_extras.api.responses import Conflict, NotFound
from scheduler_extras.common.blame import warn_if_broken
from scheduler_extras.common.clocks import now
from scheduler_extras.common.errors import ApiError, ServerUnavailable
from scheduler_extras.common.log_texts import at_most, warn_once
from scheduler_extras.common.return_checks import request_by
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.live.pod_record import PodRecord
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullPod


class Recorder:
    """Publishes events and conditions of pods. Upstream: client-go's EventRecorder."""

    def __init__(self, writer: Any):
        self.writer = writer

    def report(self, decision: FullDecision, kind: str, event_reason: str, condition_reason: str,
               message: str) -> None:
        """Report why the pod is not bound, in an event and in its PodScheduled condition, if this is new.

        Because events expire after an hour, the count of a repeated warning is increased after some minutes,
        at a different moment for each pod. Cluster autoscalers add nodes for pods whose condition has the
        reason Unschedulable.
        """
        pod = decision.pod
        published = pod.record.published
        requests = {}  # part of what is published -> the request that writes it
        if published.messages["event"] != message:
            new_event = event_about(pod, kind, event_reason, at_most(1024, message))
            if new_event:
                requests["event"] = published.event = new_event
        elif kind == "Warning" and time.monotonic() >= published.count_at:
            requests["event"] = counted_up(published.event)
        if published.messages["condition"] != message:
            requests["condition"] = pod_condition(pod, condition_reason, message)
        if requests:
            published.note(message, requests)
            try:
                self.writer.start(self.publish, pod.record, message, requests)
            except ServerUnavailable:  # no thread can be started
                published.forget(message, list(requests))
                raise

    def publish(self, record: PodRecord, message: str, requests: dict[str, tuple]) -> None:
        """Write why a pod is not bound. After a failure, the next attempt writes this part and the rest."""
        parts = list(requests)
        for place, part in enumerate(parts):
            # The lock keeps a bound pod from getting the condition while its Binding is sent.
            with record.published.writing if part == "condition" else contextlib.nullcontext():
                if record.published.messages[part] != message:
                    continue  # a newer message has replaced this one
                if record.may_be_bound() or not send_report(self.writer.request_if_leading, requests[part]):
                    record.published.forget(message, parts[place:])
                    return

    def record_scheduled(self, pod: FullPod, message: str) -> None:
        """Record the Scheduled event of a pod."""
        scheduled = event_about(pod, "Normal", "Scheduled", message)
        if scheduled:
            record_event(self.writer, scheduled)

    def record_skipped(self, pod: FullPod) -> None:
        """Record the event that a waiting pod is skipped because it is terminating."""
        message = f"skip schedule deleting pod: {pod.key}"
        skipped = event_about(pod, "Warning", "FailedScheduling", message)
        if skipped:
            self.writer.start(send_report, self.writer.request_if_leading, skipped)


def event_about(pod: FullPod, kind: str, reason: str, message: str) -> tuple | None:
    """Return the request that records an event; None if an edit has broken `event` of the script."""
    with warn_if_broken(pod.key):
        return request_by(event, pod, kind, reason, message)
    return None


def pod_condition(pod: FullPod, reason: str, message: str) -> tuple:
    """Return the request that sets the pod's PodScheduled condition to False, with this message."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    before = pick(pod.raw, list, "status", "conditions", of=dict)
    if ("PodScheduled", "False") not in [(each.get("type"), each.get("status")) for each in before]:
        condition["lastTransitionTime"] = now()  # otherwise the patch leaves the old time
    return "PATCH", f"{pod.path}/status", {
        "metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def record_event(writer: Any, request: tuple) -> None:
    """Send an event, even if this replica no longer leads.

    While the API server is unavailable, retry for some seconds, unless all threads are busy.
    """
    send_report(writer.api.request, request, pauses=LASTING, unless=writer.is_busy)


def send_report(send: Callable, request: tuple, **options) -> bool:
    """Send an event or a condition. Return False if it must be sent again. options: those of `patiently`."""
    try:
        patiently(send, *request, **options)
    except ApiError as error:
        is_gone = isinstance(error, NotFound)
        if isinstance(error, ServerUnavailable) or (is_gone and "/events/" in request[1]):
            return False
        # A patch gets 422 if another pod has taken the name.
        if not (isinstance(error, (Conflict, NotFound)) or error.status == 422):
            # If a quota is used up, each message names a different event.
            warn_once(str(error), about=f"an event or a condition: {error.status}")
    return True


def counted_up(request: tuple) -> tuple:
    """Return the request that increases the count of an event. request: the one that created the event.

    Upstream: EventCorrelator.
    """
    _, path, body = request
    body["count"] += 1
    body["lastTimestamp"] = now()
    return "PATCH", f"{path}/{body['metadata']['name']}", {
        "count": body["count"], "lastTimestamp": body["lastTimestamp"]}
