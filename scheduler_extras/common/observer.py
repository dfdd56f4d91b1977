"""The interface for metrics: the loop calls a method for each event.

This Observer ignores all events. With --listen, serve/metrics.py has one that counts them.
"""

from typing import Any


class Observer:
    """Ignores all events.

    The loop's thread calls its methods, except `request_ended`, which any thread may call.
    """

    def queued(self) -> None:
        """A new pod has entered the queue."""

    def attempted(self, decision: Any, result: str) -> None:
        """An attempt to schedule a pod has ended: scheduled, unschedulable or error."""

    def request_ended(self, method: str, code: str, seconds: float) -> None:
        """A request to the API server was answered, or failed (code <error>)."""
