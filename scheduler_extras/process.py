"""The process: signals, the watchdog of the loop, and errors of the output.

command_line.py calls these functions.
"""

import os
import signal
import sys
import threading
import time
from concurrent.futures import wait
from pathlib import Path
from types import FrameType

from scheduler import log
from scheduler_extras.common.blame import RULE_OF
from scheduler_extras.common.clocks import HEARTBEAT, STOP, in_background
from scheduler_extras.common.log_texts import one_line, warn_once


def watch_the_loop(thread: int, ended: threading.Event, seconds: float = 5) -> None:
    """Warn about slow rules, and end the process if the loop makes no progress within its limit.

    Otherwise, a loop that hangs would stay the leader, because another thread renews the Lease.
    """
    seen_before = None
    last = time.monotonic()
    while not ended.wait(pause := min(seconds, HEARTBEAT.limit / 4)):
        moment = time.monotonic()
        if moment > last + HEARTBEAT.limit / 2:  # the process itself was paused
            HEARTBEAT.at = max(moment, HEARTBEAT.at)
        last = moment
        frame = innermost = sys._current_frames().get(thread)
        while frame and frame.f_code not in RULE_OF:
            frame = frame.f_back
        place = place_in(frame or innermost)
        seen = (frame.f_code, frame.f_locals.get("pod")) if frame else None
        if frame and seen == seen_before:
            what = f"{RULE_OF[frame.f_code]} is slow: it has taken more than {pause:g} s for one pod"
            in_background(warn_once, f"{what} ({place})", frame.f_code)  # the log itself may be stuck
        seen_before = seen
        if moment > HEARTBEAT.at + HEARTBEAT.limit and not STOP.is_set():
            message = f"the loop has made no progress for {HEARTBEAT.limit:g} s ({place}): the process ends"
            wait([in_background(log.error, message)], 1)
            os._exit(1)


def place_in(frame: FrameType | None) -> str:
    """Return the file and line that a frame has reached."""
    return f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}" if frame else "not running"


def stop_on_signals() -> threading.Event:
    """Make SIGINT and SIGTERM set STOP, and return it. A second signal, or four seconds, end the process."""
    def end(number: int, _: FrameType | None) -> None:
        """Make the loop end after the current pod."""
        signal.signal(number, signal.SIG_DFL)
        force = threading.Timer(4, os._exit, [1])
        force.daemon = True  # so that it does not delay the end
        force.start()
        STOP.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return STOP


def give_up_output(error: OSError) -> None:
    """Discard all further output. Log why, unless the reader has ended, as `head` does."""
    if not isinstance(error, BrokenPipeError):
        log.error("cannot write the output: %s", one_line(error))
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
