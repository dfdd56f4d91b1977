"""Errors: requests that fail, files that cannot be used, objects that cannot be read, pods that do not fit.

All packages raise and catch them.
"""


class InputError(ValueError):
    """A file, or a rule, cannot be used. The text, a line, says where, what is wrong, what would be right."""


class ApiError(Exception):
    """A request that did not succeed. status: the HTTP status, or 0 where no API server answered."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Trouble(ApiError):
    """No API server answered, or it said 429 or 5xx: other requests may well fail, too."""


class Unschedulable(Exception):
    """The attempt to place a pod ends here, for this reason."""


class Malformed(ValueError):
    """An API object that cannot be understood; the text says which field, and why."""


class InvalidSelector(Malformed):
    """A selector that kube-scheduler cannot parse; the text begins like kube-scheduler's message."""
