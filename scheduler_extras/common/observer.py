"""What the program lets others observe: each method is an event.

This Observer ignores all of them. With --listen, serve/metrics.py has one that counts.
"""

from typing import Any


class Observer:
    """Receives what happens, and does nothing about it. The loop's thread calls it, except for `answered`."""

    def queued(self) -> None:
        """A new pod has entered the queue."""

    def attempted(self, decision: Any, result: str) -> None:
        """An attempt to schedule a pod has ended: scheduled, unschedulable or error."""

    def answered(self, method: str, code: str, seconds: float) -> None:
        """A request to the API server was answered, or was not: then the code is <error>."""
