"""Lines of the log: folded to the terminal's width, warnings in red, tracebacks that look like no other line.

The command line gives them to `logging`.
"""

import logging
import sys
import traceback

from scheduler_extras.show.text import ESCAPES, RED, Screen


class LogLines(logging.Formatter):
    """Formats what is logged for standard error."""

    def __init__(self, form: str, time_form: str | None):
        super().__init__(form, time_form)
        self.screen = Screen(sys.stderr)

    def formatMessage(self, record):
        """Return the message in lines, in red from warnings on."""
        color = RED if record.levelno >= logging.WARNING else ""
        return "\n".join(self.screen.folded(super().formatMessage(record), color))

    def formatException(self, exc_info):
        """Return a traceback, indented."""
        lines = "".join(traceback.format_exception(*exc_info)).split("\n")
        return "\n".join(f"    {line.translate(ESCAPES)}" for line in lines)
