"""Repeated log messages."""

import time

from helpers.extras import table
from scheduler_extras.common.log_texts import warn_once


@table("seconds, times", {"at once": (0, 1), "after five minutes": (300, 1), "after ten minutes": (601, 2)})
def test_a_warning_is_repeated_after_ten_minutes(seconds, times, monkeypatch, caplog):
    clock = iter([1000, 1000 + seconds])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    for name in ("first", "second"):
        warn_once(f"{name} pod", about="pods")
    assert caplog.messages == ["first pod", "second pod"][:times]
