"""Retries: which failed requests are sent again, and after which pauses.

The writer, events, LISTs, watches, and the loop after a failed pass use it.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from scheduler_extras.common.clocks import STOP, heartbeat
from scheduler_extras.common.errors import ServerUnavailable


Returned = TypeVar("Returned")
IMMEDIATE = (0, 0)  # pauses in seconds: two retries at once, because 5xx is often over by then
LASTING = (*IMMEDIATE, 1, 2, 4)


def backoff(failures: int, initial: float = 1, most: float = 10, error: Exception | None = None) -> float:
    """Return the seconds to wait after so many failures: 1, 2, 4, 8 and so on, up to `most`.

    error: the last failure, which may ask for a longer pause (Retry-After).
    """
    return max(min(initial * 2 ** min(failures - 1, 30), most), getattr(error, "retry_after", 0))


def forever() -> Iterable[float]:
    """Yield pauses in seconds, without end."""
    return itertools.chain(IMMEDIATE, map(backoff, itertools.count(1)))


def patiently(function: Callable[..., Returned], *arguments, pauses: Iterable[float] = IMMEDIATE,
              unless: Callable[[], bool] = lambda: False) -> Returned:
    """Call a function that sends a request. After ServerUnavailable, call it again after these pauses.

    A pause lasts at least as long as the API server asks for (Retry-After). Only 5xx is retried without a
    pause. unless: returns whether to give up instead of waiting.
    """
    pauses = iter(pauses)
    while True:
        try:
            return function(*arguments)
        except ServerUnavailable as error:
            wanted = error.retry_after
            is_worth_it = wanted > 0 or error.status >= 500
            pause = next((max(pause, wanted) for pause in pauses if pause or is_worth_it), None)
            if pause is None or (pause and unless()):
                raise
        if pause:
            rest(pause)


def rest(seconds: float) -> None:
    """Sleep. In the main thread, a signal ends the sleep, and the heartbeat goes on."""
    if threading.current_thread() is not threading.main_thread():
        time.sleep(seconds)
        return
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not STOP.wait(min(left, 1)):
        heartbeat()
