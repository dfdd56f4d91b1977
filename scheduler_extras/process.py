"""The process: signals, the watchdog of the loop, and how it ends.

The command line starts these.
"""

import os
import signal
import sys
import threading
import time
from concurrent.futures import wait
from pathlib import Path

from scheduler import log
from scheduler_extras.common.blame import RULE_OF
from scheduler_extras.common.clocks import HEARTBEAT, STOP, in_background
from scheduler_extras.common.log_texts import one_line, warn_once


def watch_the_loop(thread, ended, seconds=5):
    """Warn of a rule that takes long; end the process if the loop does not come round within its limit.

    A loop that hangs schedules no pod while another thread renews the Lease, so another replica has to lead.
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
        where = frame or innermost
        place = f"{Path(where.f_code.co_filename).name}, line {where.f_lineno}"
        seen = frame and (frame.f_code, frame.f_locals.get("pod"))
        if seen and seen == seen_before:
            what = f"{RULE_OF[frame.f_code]} takes long: more than {pause:g} s for one pod"
            in_background(warn_once, f"{what} ({place})", frame.f_code)  # the log itself may be stuck
        seen_before = seen
        if moment > HEARTBEAT.at + HEARTBEAT.limit and not STOP.is_set():
            message = f"the loop has not come round for {HEARTBEAT.limit:g} s ({place}): this process ends"
            wait([in_background(log.error, message)], 1)
            os._exit(1)


def stop_on_signals():
    """Have SIGINT and SIGTERM set STOP; return it. If it still runs after 4 seconds, the process is ended."""
    def end(number, _):
        """Have the loop end after this pod; after a second signal, or four seconds, end the process."""
        signal.signal(number, signal.SIG_DFL)
        force = threading.Timer(4, os._exit, [1])
        force.daemon = True  # it does not hold up an end in time
        force.start()
        STOP.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return STOP


def give_up_output(error):
    """Print no more: who reads it has ended, as `head` does; or say why, such as that the disk is full."""
    if not isinstance(error, BrokenPipeError):
        log.error("cannot write what is printed: %s", one_line(error))
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
