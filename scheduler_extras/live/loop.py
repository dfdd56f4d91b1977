"""The loop: it makes passes, and each pass schedules the pods that are due, one after another.

session.py runs it on a live cluster; manifests go through the same passes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from scheduler import log
from scheduler_extras.api.retries import backoff
from scheduler_extras.common.blame import FAILURE
from scheduler_extras.common.clocks import STOP
from scheduler_extras.common.errors import ApiError, Malformed, Trouble
from scheduler_extras.deciding.schedule import schedule


def run(cluster: Any, read_policies: Callable[[], Mapping], stop: threading.Event, interval: float,
        once: bool) -> None:
    """Make passes until `stop` is set. With `once`, end when no pod is due, or a pass fails."""
    while not stop.is_set():
        try:
            schedule_pending_pods(cluster, read_policies(), stop)  # read in each pass: the file may be edited
            cluster.errors.end_pass()
        except (ApiError, Malformed) as error:  # a request has failed, or its answer is no list
            cluster.errors.end_pass(error)
        if cluster.due and not cluster.errors.last:
            continue  # the pass has ended early: the next one has the other pods
        if once:
            break
        cluster.rest(interval, stop)


def schedule_pending_pods(cluster: Any, policies: Mapping, stop: threading.Event) -> None:
    """Make a pass: try each waiting pod that is due. `policies` is {schedulerName: Policy}."""
    cluster.begin_pass(policies)  # applies updates from the watch, and finds out which pods are due
    while pod := cluster.next_pod(stop):  # highest priority first
        decision = schedule(pod, cluster.snapshot, policies[pod.scheduler])
        cluster.observe(decision)
        cluster.cycle.carry_out(decision)  # has the pod bound, or reports why it stays pending


SEVERAL = 10  # pods that meet trouble before the pass ends


class PassErrors:
    """The errors that ended the last passes, and the trouble that pods have met in this pass."""

    def __init__(self) -> None:
        self.last: Exception | None = None  # the error that ended the last pass
        self.count = 0  # passes in a row that ended with an error
        self.troubles: list[Trouble] = []  # since the pass began, or a pod was bound

    def note_trouble(self, error: Trouble) -> None:
        """Record that a pod has met trouble of the API server."""
        FAILURE.set()
        self.troubles.append(error)

    def raise_trouble(self) -> None:
        """If several pods have met trouble, raise it, to end the pass."""
        if len(self.troubles) >= SEVERAL:
            raise self.troubles.pop()

    def end_pass(self, error: Exception | None = None) -> None:
        """Record the error that has ended a pass, or None. Log it if it is new, and log when it is over."""
        if STOP.is_set():
            error = None
        if error and str(error) != str(self.last):
            log.error("%s", error)
        if isinstance(self.last, Trouble) and not error:
            log.warning("the API server answers again")
        self.last = error
        self.count = self.count + 1 if error else 0

    def pause(self) -> float:
        """Return the seconds to wait after the last error."""
        return backoff(self.count, error=self.last)
