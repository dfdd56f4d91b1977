"""Formatting of log lines: wrapped to the terminal's width, warnings in red, tracebacks indented.

command_line.py passes the formatter to `logging`.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Any

from scheduler_extras.show.text import ESCAPES, RED, Screen


class LogLines(logging.Formatter):
    """Formats log records for standard error."""

    def __init__(self, form: str, time_form: str | None):
        super().__init__(form, time_form)
        self.screen = Screen(sys.stderr)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message, wrapped; warnings and errors are red."""
        color = RED if record.levelno >= logging.WARNING else ""
        return "\n".join(self.screen.folded(super().formatMessage(record), color))

    def formatException(self, exc_info: Any) -> str:
        """Return a traceback, indented."""
        lines = "".join(traceback.format_exception(*exc_info)).split("\n")
        return "\n".join(f"    {line.translate(ESCAPES)}" for line in lines)
