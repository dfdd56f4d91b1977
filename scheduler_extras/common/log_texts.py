"""Log texts: an error on one short line, and warnings that are not repeated.

All packages use it for logging.
"""

import contextlib
import math
import re
import time

from scheduler import log


def one_line(error: object) -> str:
    """Return an error's text on one short line; of a failed connection, the cause that requests wraps."""
    text = ""
    with contextlib.suppress(Exception):  # a rule may raise an exception whose __str__ fails
        text = str(getattr(error, "strerror", None) or error)
    of_system = re.search(r"\[(Errno|SSL)[^][]*][^'\"()]*", text)  # anywhere in urllib3's text
    cause = of_system or re.search(r"(?<=')[^']+(?='\)\)$)", text)
    text = cause.group() if cause else text
    return at_most(1000, " ".join(text.split()))


def at_most(size: int, text: str) -> str:
    """Return a text, cut to `size` bytes with dots at the end if it is longer. Upstream: truncateMessage."""
    data = text.encode(errors="surrogatepass")
    return f"{data[:size - 4].decode(errors='ignore')} ..." if len(data) > size else text


# Subject of a warning -> when it was last logged, in monotonic seconds. Global, like the log itself.
WARNED: dict[object, float] = {}


def warn_once(text: str, about: object = None) -> None:
    """Log a warning, unless one with this text, or about this subject, was logged in the last ten minutes."""
    subject = about or text
    moment = time.monotonic()
    if moment - WARNED.get(subject, -math.inf) > 600:
        if len(WARNED) > 10_000:
            WARNED.clear()
        WARNED[subject] = moment
        log.warning("%s", text)
