"""The API server's answers: errors, and JSON.

Everything that sends requests uses it.
"""

from __future__ import annotations

import json
import re

from scheduler_extras.common.blame import FAILURE
from scheduler_extras.common.errors import ApiError, Trouble
from scheduler_extras.common.log_texts import warn_once


JSON = "application/json"
LONGEST_PAUSE = 10  # seconds for which a Retry-After is obeyed


class TooLarge(ApiError):
    """The object is larger than etcd allows."""


class Conflict(ApiError):
    """The object has changed meanwhile (409), or another replica leads."""


class NotFound(ApiError):
    """There is no such thing (404)."""


def error_of(status: int, message: str, retry_after: float = 0) -> ApiError:
    """Return the ApiError that a status means; 0: no API server answered.

    retry_after: the seconds after which the API server wants the request again, or 0.
    """
    if status in (0, 429) or status >= 500:
        error = Trouble(status, message)
        error.retry_after = min(retry_after, LONGEST_PAUSE)
        return error
    kind = {404: NotFound, 409: Conflict}.get(status, ApiError)
    return kind(status, message)


class Unreadable(Trouble):
    """An answer that cannot be read: an API server has not sent it, or something in it is odd."""


# Fields that no rule reads, and that may be nested too deep for `json`: objects and texts, but no lists.
MANAGED_FIELDS = re.compile(r'"managedFields":\s*\[[^]["]*("[^"\\]*(\\.[^"\\]*)*"[^]["]*)*]')


def read_json(data: bytes) -> object:
    """Parse JSON of the API server, without managedFields. Raises ValueError, RecursionError.

    Any client can nest managedFields too deep for `json`. Any client can also store bytes that are no UTF-8,
    which would make the whole list unreadable: these are replaced.
    """
    return json.loads(MANAGED_FIELDS.sub('"managedFields":[]', data.decode(errors="replace")), strict=False)


def warn_of_failure(error: BaseException, text: str) -> bool:
    """Log a failed write, and return True; return False if it only came too late.

    A missing answer, or a missing right to delete pods, is logged once for all pods.
    """
    if isinstance(error, (Conflict, NotFound)):
        return False
    about = None
    if is_answer(error, 0):
        about = "no answer to a write"
    elif is_answer(error, 403) and text.startswith("DELETE "):
        about = "the right to delete"
    FAILURE.set()
    warn_once(text, about)
    return True


def is_answer(error: BaseException, *statuses: int) -> bool:
    """Return whether an error is that of a request, and has one of these statuses; 0: no answer came."""
    return isinstance(error, ApiError) and error.status in statuses
