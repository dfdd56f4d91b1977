"""Clocks and threads: time limits, the heartbeat of the loop, and background threads.

Everything that waits for rules, extenders or the API server uses it.
"""

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from scheduler_extras.common.errors import ServerUnavailable
from scheduler_extras.common.log_texts import one_line, warn_once


SLOW_SECONDS = 5  # without an answer, before a warning names the server
STOP = threading.Event()  # set by a signal; global, because requests that rules cause end with it, too


@dataclass
class Heartbeat:
    """The progress of the loop, in monotonic seconds."""

    at: float = 0  # when the loop last made progress
    limit: float = math.inf  # seconds without progress after which the watchdog ends the process


HEARTBEAT = Heartbeat()  # global, because `within` records progress whoever calls it


def heartbeat() -> None:
    """Record progress of the loop, which runs in the main thread."""
    if threading.current_thread() is threading.main_thread():
        HEARTBEAT.at = time.monotonic()


def within(seconds: float, function: Callable[..., Any], *arguments: Any, late: Exception | None = None,
           server: str = "", stop: threading.Event | None = None) -> Any:
    """Return what a function returns. After `seconds`, raise `late`, by default ServerUnavailable.

    server: its name for a warning about a slow response. stop: an event that ends the wait with an ApiError.
    """
    future = in_background(function, *arguments)
    waited = 0.0
    while not future.done():
        if waited >= seconds:
            raise late or ServerUnavailable(0, f"no answer within {seconds:.3g} s")
        if stop and stop.is_set():
            raise ServerUnavailable(0, "stopped by a signal")
        if server and waited >= SLOW_SECONDS:
            warn_once(f"{server} has not answered for {SLOW_SECONDS} s; it may take up to {seconds} s")
        pause = min(0.1, seconds - waited)
        wait([future], pause)
        heartbeat()
        waited += pause
    return future.result()


def in_background(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Call a function in a daemon thread. Return its Future."""
    future: Future[Any] = Future()

    def call() -> None:
        """Put what the function returns or raises into the Future."""
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    start_thread(call)
    return future


def start_thread(function: Callable[[], None]) -> None:
    """Start a daemon thread. Raises ServerUnavailable if the system has no threads left."""
    try:
        threading.Thread(target=function, daemon=True).start()
    except (RuntimeError, MemoryError) as error:
        raise ServerUnavailable(0, f"this machine cannot start another thread: {one_line(error)}") from error


def now() -> str:
    """Return the current time in the API's format."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
