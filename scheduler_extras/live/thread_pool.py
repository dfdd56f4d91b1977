"""A thread pool, so that the loop does not wait for requests.

The Writer extends `ThreadPool`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from scheduler_extras.common.blame import warn_if_broken
from scheduler_extras.common.clocks import heartbeat, start_thread
from scheduler_extras.common.errors import ServerUnavailable


THREADS = 64  # at most


class ThreadPool:
    """A pool of up to 64 threads, which are started as they are needed."""

    patience = 5  # seconds to wait for a free thread

    def __init__(self):
        self.threads = 0  # started so far
        self.starting = threading.Lock()  # tasks start other tasks
        self.tasks: queue.Queue = queue.Queue()  # (function, arguments)

    def start(self, function: Callable, *arguments) -> None:
        """Let a thread call a function once one is free. Raises ServerUnavailable if none can be started."""
        self.tasks.put((function, arguments))
        with self.starting:
            self.start_thread_if_needed()

    def start_thread_if_needed(self) -> None:
        """Start a thread if there are fewer than tasks. Raises ServerUnavailable if there is none at all."""
        if self.threads < min(self.tasks.unfinished_tasks, THREADS):
            try:
                start_thread(self.work)
                self.threads += 1
            except ServerUnavailable:  # other threads, if there are any, do the task
                if not self.threads:
                    self.tasks.get()
                    self.tasks.task_done()
                    raise

    def work(self) -> None:
        """Do one task after another, forever."""
        while True:
            function, arguments = self.tasks.get()
            with warn_if_broken("a write has failed"):
                function(*arguments)
            self.tasks.task_done()
            del function, arguments  # so that an idle thread does not keep a decision and its nodes alive

    def is_busy(self) -> bool:
        """Return whether all threads are busy."""
        return self.tasks.unfinished_tasks >= THREADS

    def wait_for_a_free_thread(self) -> None:
        """Wait until a thread is free. Raises ServerUnavailable after `patience` seconds."""
        until = time.monotonic() + self.patience
        while self.is_busy():
            if time.monotonic() > until:
                what = f"no answer to {THREADS} writes, or to what rules do after them"
                raise ServerUnavailable(0, f"{what}, for {self.patience} s")
            heartbeat()
            time.sleep(0.002)
