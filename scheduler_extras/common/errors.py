"""Exceptions: failed requests, unusable files, malformed objects, and pods that cannot be scheduled.

All packages raise and catch them.
"""

import threading


# Set when a rule or a write fails, or the API server is unavailable: with --once, the exit code is then 1. It
# is global, because rules are called in many places, and in threads.
FAILURE = threading.Event()


class InputError(ValueError):
    """A file or a rule is unusable. The message is one line: the place, the mistake, what is expected."""


class ApiError(Exception):
    """A failed request. status: the HTTP status, or 0 if no API server answered."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class ServerUnavailable(ApiError):
    """No API server answered, or it answered 429 or 5xx: other requests may fail, too."""

    retry_after: float = 0  # the seconds of the Retry-After header, if there was one


class Unschedulable(Exception):
    """The pod cannot be scheduled in this attempt. The message is the reason."""


class Malformed(ValueError):
    """An API object is malformed. The message names the field and the mistake."""


class InvalidSelector(Malformed):
    """A selector that kube-scheduler cannot parse. The message starts like kube-scheduler's."""
