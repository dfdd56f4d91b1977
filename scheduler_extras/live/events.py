"""The events of a pod, and its condition PodScheduled.

The binding cycle and the threads that bind publish with it.
"""

import time

from scheduler import event
from scheduler_extras.api.errors import Conflict, NotFound, patiently
from scheduler_extras.common.blame import request_by
from scheduler_extras.common.clocks import now
from scheduler_extras.common.errors import ApiError, Trouble
from scheduler_extras.common.log_texts import at_most, warn_once
from scheduler_extras.reading.fields import pick


class Recorder:
    """Publishes the outcome for pods in events and conditions. Upstream: client-go's EventRecorder."""

    def __init__(self, writer):
        self.writer = writer

    def report(self, decision, kind, event_reason, condition_reason, message):
        """Report why the pod is not bound, in an event and in its condition PodScheduled, if that is new.

        A warning that is not new is counted up, as events last for an hour; not those of many pods at once.
        For pods whose condition has the reason Unschedulable, cluster autoscalers make nodes.
        """
        pod = decision.pod
        record = pod.record
        if message != record.written:
            recorded = request_by(event, pod, kind, event_reason, at_most(1024, message))
            requests = recorded, pod_condition(pod, condition_reason, message)
        elif kind == "Warning" and time.monotonic() >= record.repeat_at:
            recorded = record.event
            requests = (counted_up(recorded),)
        else:
            return
        record.note_event(message, recorded)
        self.writer.start(self.publish, record, message, *requests)

    def publish(self, record, message, event, condition=None):
        """Write why a pod is not bound. If a write fails, the next attempt writes it again."""
        self.write_if_current(record, message, event)
        if condition:
            with record.writing:  # never at the same time as the Binding: a bound pod must not get it
                self.write_if_current(record, message, condition)

    def write_if_current(self, record, message, request):
        """Write a message about a waiting pod, unless a newer one has replaced it."""
        if record.written != message:
            return
        if record.may_be_bound():
            record.report_again(message)  # which happens only if it is not bound after all
        elif not write_note(self.writer.attempt, request):
            record.report_again(message)

    def announce(self, pod, message):
        """Record that a pod is bound."""
        record(self.writer, request_by(event, pod, "Normal", "Scheduled", message))

    def skip(self, pod):
        """Record that a pod is not tried, as it is being deleted."""
        message = f"skip schedule deleting pod: {pod.key}"
        skipped = request_by(event, pod, "Warning", "FailedScheduling", message)
        self.writer.start(write_note, self.writer.attempt, skipped)


def pod_condition(pod, reason, message):
    """Return the request that says in the pod's condition PodScheduled why it is not bound."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    before = pick(pod.raw, list, "status", "conditions", of=dict)
    if ("PodScheduled", "False") not in [(each.get("type"), each.get("status")) for each in before]:
        condition["lastTransitionTime"] = now()  # else the old time stays, as the patch does not name it
    return "PATCH", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status", {
        "metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def record(writer, request):
    """Send an event of what has happened, even if this replica does not lead any more.

    If the API server is in trouble, send it again after 1, 2 and 4 seconds, unless all threads are needed.
    """
    for pause in (1, 2, 4):
        if write_note(writer.api.request, request) or writer.is_busy():
            return
        time.sleep(pause)
    write_note(writer.api.request, request)


def write_note(send, request):
    """Send an event or a condition. Return False if it has to be sent again."""
    try:
        patiently(send, *request)
    except ApiError as error:
        has_gone = isinstance(error, NotFound)
        if isinstance(error, Trouble) or (has_gone and "/events/" in request[1]):
            return False
        # Where the pod has gone, another one of its name is told 422.
        if not (isinstance(error, (Conflict, NotFound)) or error.status == 422):
            # When a quota is used up, each refusal names another event.
            warn_once(str(error), about=f"an event or a condition: {error.status}")
    return True


def counted_up(request):
    """Return the request that counts up an event which a request has recorded. Upstream: EventCorrelator."""
    _, path, body = request
    body["count"] += 1
    body["lastTimestamp"] = now()
    return "PATCH", f"{path}/{body['metadata']['name']}", {
        "count": body["count"], "lastTimestamp": body["lastTimestamp"]}
