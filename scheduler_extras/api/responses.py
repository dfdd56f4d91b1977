"""The API server's responses: errors, and JSON.

Everything that sends requests uses it.
"""

from __future__ import annotations

import json
import re

from scheduler_extras.common.errors import FAILURE, ApiError, ServerUnavailable
from scheduler_extras.common.log_texts import warn_once


JSON = "application/json"
LONGEST_PAUSE = 10  # seconds; a longer Retry-After is cut to this


class TooLarge(ApiError):
    """The object is larger than etcd allows."""


class Conflict(ApiError):
    """The object has changed meanwhile (409), or another replica leads."""


class NotFound(ApiError):
    """The object or resource does not exist (404)."""


def error_of(status: int, message: str, retry_after: float = 0) -> ApiError:
    """Return the ApiError for an HTTP status, or for 0, if no API server answered.

    retry_after: the seconds of the Retry-After header, or 0.
    """
    if status in (0, 429) or status >= 500:
        error = ServerUnavailable(status, message)
        error.retry_after = min(retry_after, LONGEST_PAUSE)
        return error
    kind = {404: NotFound, 409: Conflict}.get(status, ApiError)
    return kind(status, message)


class Unreadable(ServerUnavailable):
    """A response that cannot be parsed: it is not from an API server, or contains something unexpected."""


# managedFields, which no rule reads. They may be nested too deep for `json`, but contain no lists.
MANAGED_FIELDS = re.compile(r'"managedFields":\s*\[[^]["]*("[^"\\]*(\\.[^"\\]*)*"[^]["]*)*]')


def read_json(data: bytes) -> object:
    """Parse JSON of the API server, without managedFields. Raises ValueError, RecursionError.

    Any client can nest managedFields too deep for `json`. Any client can also store bytes that are not UTF-8,
    which would make the whole list unreadable. These bytes are replaced.
    """
    return json.loads(MANAGED_FIELDS.sub('"managedFields":[]', data.decode(errors="replace")), strict=False)


def warn_of_failure(error: BaseException, text: str) -> bool:
    """Log a failed write, and return True. Return False for a write that only came too late (404, 409).

    A missing response, or a missing right to delete pods, is logged once for all pods.
    """
    if isinstance(error, (Conflict, NotFound)):
        return False
    about = None
    if has_status(error, 0):
        about = "no answer to a write"
    elif has_status(error, 403) and text.startswith("DELETE "):
        about = "the right to delete"
    FAILURE.set()
    warn_once(text, about)
    return True


def has_status(error: BaseException, *statuses: int) -> bool:
    """Return whether an error is an ApiError with one of these statuses; 0 stands for no response."""
    return isinstance(error, ApiError) and error.status in statuses
