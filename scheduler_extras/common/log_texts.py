"""Texts for the log: an error on one short line, and warnings that are not repeated.

All modules of the extras use it for logging.
"""

import contextlib
import math
import re
import time

from scheduler import log


def one_line(error):
    """Return an error's text on a short line; of a connection's, the cause that requests has wrapped up."""
    text = ""
    with contextlib.suppress(Exception):  # a rule may raise what cannot say its text
        text = str(getattr(error, "strerror", None) or error)
    of_system = re.search(r"\[(Errno|SSL)[^][]*][^'\"()]*", text)  # wherever urllib3 puts it
    cause = of_system or re.search(r"(?<=')[^']+(?='\)\)$)", text)
    text = cause.group() if cause else text
    return at_most(1000, " ".join(text.split()))


def at_most(size, text):
    """Return a text of at most so many bytes; a longer one ends with dots. Upstream: truncateMessage."""
    data = text.encode(errors="surrogatepass")
    return f"{data[:size - 4].decode(errors='ignore')} ..." if len(data) > size else text


WARNED = {}  # what warnings were about -> when they were logged, in monotonic seconds


def warn_once(text, about=None):
    """Log a warning, unless it, or another one `about` the same, was logged in the last ten minutes."""
    subject = about or text
    moment = time.monotonic()
    if moment - WARNED.get(subject, -math.inf) > 600:
        if len(WARNED) > 10_000:
            WARNED.clear()
        WARNED[subject] = moment
        log.warning("%s", text)
