"""Errors: requests that fail, files that cannot be used, objects that cannot be read, pods that do not fit.

All packages raise and catch them.
"""


class InputError(ValueError):
    """A file or a rule cannot be used. The message is one line: where, what is wrong, what would be right."""


class ApiError(Exception):
    """A failed request. status: the HTTP status, or 0 if no API server answered."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class Trouble(ApiError):
    """No API server answered, or it answered 429 or 5xx: other requests may fail, too."""

    retry_after: float = 0  # the seconds of the header Retry-After, if there was one


class Unschedulable(Exception):
    """Ends the attempt to schedule a pod, for this reason."""


class Malformed(ValueError):
    """An API object that cannot be read; the message names the field and the reason."""


class InvalidSelector(Malformed):
    """A selector that kube-scheduler cannot parse; the message starts like kube-scheduler's."""
