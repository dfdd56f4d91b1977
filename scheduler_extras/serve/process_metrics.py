"""The metrics of the process, from /proc, under the names of Prometheus's client libraries.

gauges.py exports them. On systems without /proc, most are left out.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

from scheduler_extras.serve.prometheus_text import Gauge, Metric


PROC = Path("/proc/self")
Numbers = dict[tuple[str, ...], float]


def cpu_seconds() -> Numbers:
    """Return the seconds of CPU that the process has used."""
    return {(): time.process_time()}


def memory(field: int) -> Callable[[], Numbers]:
    """Return a function that reads a field of /proc/self/statm, in bytes."""
    def read() -> Numbers:
        """Read the field."""
        return {(): int((PROC / "statm").read_text().split()[field]) * resource.getpagesize()}

    return read


def start_time() -> Numbers:
    """Return when the process started, in seconds since 1970."""
    started = int((PROC / "stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return {(): time.time() - uptime + started}


def open_files() -> Numbers:
    """Return the number of open files and connections."""
    return {(): len(os.listdir(PROC / "fd"))}


def most_files() -> Numbers:
    """Return the maximum number of open files and connections."""
    return {(): resource.getrlimit(resource.RLIMIT_NOFILE)[0]}


def if_readable(numbers: Callable[[], Numbers]) -> Callable[[], Numbers]:
    """Return a function that returns {} where the numbers cannot be read."""
    def read() -> Numbers:
        """Read the numbers."""
        with contextlib.suppress(OSError):
            return numbers()
        return {}

    return read


def process_metrics() -> list[Metric]:
    """Return the metrics of the process."""
    return [
        Gauge("process_cpu_seconds_total", "Seconds of CPU that the process has used.", cpu_seconds,
              kind="counter"),
        Gauge("process_virtual_memory_bytes", "Virtual memory in bytes.", if_readable(memory(0))),
        Gauge("process_resident_memory_bytes", "Resident memory in bytes.", if_readable(memory(1))),
        Gauge("process_start_time_seconds", "Start time, in seconds since 1970.", if_readable(start_time)),
        Gauge("process_open_fds", "Open files and connections.", if_readable(open_files)),
        Gauge("process_max_fds", "Files and connections that may be open.", if_readable(most_files))]
