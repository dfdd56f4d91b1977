"""Clocks and threads: time limits, the heartbeat of the loop, and work in the background.

Everything that waits for rules, extenders or the API server uses it.
"""

import math
import threading
import time
import types
from concurrent.futures import Future, wait

from scheduler_extras.common.errors import Trouble
from scheduler_extras.common.log_texts import one_line, warn_once


SLOW_SECONDS = 5  # without an answer, before a warning names the server
STOP = threading.Event()  # set by a signal; it is global, as rules list objects, too
# The time of the loop's last progress, in monotonic seconds; how long it may take until the next.
HEARTBEAT = types.SimpleNamespace(at=0, limit=math.inf)


def heartbeat() -> None:
    """Record progress of the loop, which runs in the main thread."""
    if threading.current_thread() is threading.main_thread():
        HEARTBEAT.at = time.monotonic()


def within(seconds, function, *arguments, late=None, whom="", stop=None):
    """Return what a function returns. Raises `late`, or else ApiError, if that takes longer.

    whom: the name for a warning if the answer is slow. stop: an event that ends the wait with an ApiError.
    """
    future = in_background(function, *arguments)
    waited = 0
    while not future.done():
        if waited >= seconds:
            raise late or Trouble(0, f"no answer within {seconds:.3g} s")
        if stop and stop.is_set():
            raise Trouble(0, "a signal ended the script")
        if whom and waited >= SLOW_SECONDS:
            warn_once(f"{whom} has not answered for {SLOW_SECONDS} s; it may take up to {seconds} s")
        pause = min(0.1, seconds - waited)
        wait([future], pause)
        heartbeat()
        waited += pause
    return future.result()


def in_background(function, *arguments):
    """Call a function in a daemon thread. Return its Future."""
    future = Future()

    def call():
        """Pass on what the function returns or raises."""
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    start_thread(call)
    return future


def start_thread(function):
    """Start a daemon thread. Raises Trouble if the system has no threads left."""
    try:
        threading.Thread(target=function, daemon=True).start()
    except (RuntimeError, MemoryError) as error:
        raise Trouble(0, f"this machine gives the script no more threads: {one_line(error)}") from error


def now():
    """Return the time as the API writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
