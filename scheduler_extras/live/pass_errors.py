"""The errors that end a pass, and how long the loop waits after them.

The loop and attempts.py record errors here.
"""

from __future__ import annotations

from scheduler import log
from scheduler_extras.api.http_retries import backoff
from scheduler_extras.common.clocks import STOP
from scheduler_extras.common.errors import FAILURE, ServerUnavailable
from scheduler_extras.live.retry import Retry


MAX_SERVER_ERRORS = 10  # pods that hit one, with no pod bound in between, before the pass ends


class PassErrors:
    """The errors that ended the last passes, and the server errors that pods hit in this pass."""

    def __init__(self) -> None:
        self.last: Exception | None = None  # the error that ended the last pass
        self.count = 0  # passes in a row that ended with an error
        self.server_errors: list[ServerUnavailable] = []  # since the pass began, or a pod was bound

    def begin_pass(self) -> None:
        """Forget the server errors of the last pass."""
        self.server_errors.clear()

    def note_success(self) -> None:
        """Record that a pod was bound, so the API server is available."""
        self.server_errors.clear()

    def note_error_of(self, retry: Retry, error: BaseException | None) -> None:
        """Record whether a pod's attempt hit a server error. error: None if there was none."""
        retry.has_met_server_error = isinstance(error, ServerUnavailable)
        if isinstance(error, ServerUnavailable):
            FAILURE.set()
            self.server_errors.append(error)

    def raise_server_error(self) -> None:
        """If ten pods have hit a server error, raise the last one, to end the pass."""
        if len(self.server_errors) >= MAX_SERVER_ERRORS:
            raise self.server_errors.pop()

    def end_pass(self, error: Exception | None = None) -> None:
        """Record the error that has ended a pass, or None. Log it if it is new, and log when it is over."""
        if STOP.is_set():
            error = None
        if error and str(error) != str(self.last):
            log.error("%s", error)
        if self.last and not error:
            log.warning("the API server answers again")
        self.last = error
        self.count = self.count + 1 if error else 0

    def pause(self) -> float:
        """Return the seconds to wait after the last error."""
        return backoff(self.count, error=self.last)
