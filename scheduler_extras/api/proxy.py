"""The API server behind kubectl proxy, for many threads at a time, and to watch.

live/ lists, watches and writes with it.
"""

import contextlib
import ctypes
import errno
import json
import re
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import quote, urlencode, urlsplit

from urllib3.util import wait_for_read

from scheduler import log
from scheduler_extras.api.errors import JSON, TooLarge, Unreadable, error_of, read_json
from scheduler_extras.common.clocks import STOP, within
from scheduler_extras.common.errors import Trouble
from scheduler_extras.common.log_texts import one_line


# Requests are sent by http.client. By urllib3 each takes twice as much of the script's time, and while pods
# come in a stream, more than half of that goes into requests.


class PooledProxy:
    """The API server behind kubectl proxy, for many threads, and to watch."""

    def __init__(self, server):
        self.server = server.rstrip("/")
        self.url = urlsplit(self.server)  # with a path, where `kubectl proxy --api-prefix` serves
        self.idle = []  # connections of which nobody waits for an answer

    def request(self, method, path, body=None, params=None, accept=JSON):
        """Send a request and return the answer's JSON. Raises ApiError; its text says what to do."""
        return self.content(*self.answer(method, path, body, params, accept), method, path)

    def get(self, path, params=None, accept=JSON):
        """Return what the API server answers within a minute. Raises ApiError."""
        return within(60, self.request, "GET", path, None, params, accept, whom=self.server, stop=STOP)

    def watch(self, path, params, silence):
        """Yield the objects of a stream of events, each of which has a line.

        It begins within five seconds, and may then be silent for so long. Raises ApiError; also if it breaks.
        """
        with contextlib.closing(self.free_connection()) as connection:
            try:
                self.open(connection, 5)
                answer = self.send(connection, "GET", path, None, params, JSON)
                if answer.status != 200:
                    self.content(answer.status, answer.reason, answer.read(), "GET", path)  # raises ApiError
            except (OSError, HTTPException) as error:
                raise self.trouble(error) from error
            if connection.sock:  # else the answer was short, and is here as a whole
                connection.sock.settimeout(silence)
            yield from self.objects_of(answer, path)

    def objects_of(self, stream, path):
        """Yield what the lines of a stream say. Raises ApiError if it breaks."""
        try:
            yield from map(read_json, filter(bytes.strip, stream))
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            raise Trouble(0, f"the watch of {path} has broken off: {one_line(error)}") from error

    def answer(self, method, path, body, params, accept):
        """Send a request; return the status, the reason and the bytes of its answer. Raises ApiError."""
        connection = self.free_connection()
        try:
            self.open(connection, 60)
            answer = self.send(connection, method, path, body, params, accept)
            data = answer.read()
        except (OSError, HTTPException) as error:
            connection.close()
            raise self.trouble(error) from error
        self.idle.append(connection)
        return answer.status, answer.reason, data

    def free_connection(self):
        """Return a connection of which nobody waits for an answer: an idle one, or a new one."""
        with contextlib.suppress(IndexError):
            return self.idle.pop()
        kind = HTTPSConnection if self.url.scheme == "https" else HTTPConnection
        return kind(self.url.hostname, self.url.port, timeout=5)

    def open(self, connection, seconds):
        """Open a connection, unless it is open. Its next answer may take so many seconds. Raises OSError."""
        if connection.sock and wait_for_read(connection.sock, 0):  # all that can be read there is its end
            connection.close()
        if not connection.sock:
            connection.connect()
        connection.sock.settimeout(seconds)

    def send(self, connection, method, path, body, params, accept):
        """Send a request, and return an answer that is to be read. Raises OSError, HTTPException."""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else JSON
        url = self.url.path + quote(path, safe="/?&=,:%", errors="replace")
        url += f"?{urlencode(params)}" if params else ""
        data = None if body is None else json.dumps(body)
        connection.request(method, url, data, {"Content-Type": kind, "Accept": accept})
        answer = connection.getresponse()
        log.debug("%s %s %s: %d", method, path, params or "", answer.status)
        return answer

    def trouble(self, error):
        """Return the Trouble that says why no answer has come, and what to do."""
        hint = "is `kubectl proxy` running there? Without it: --cluster FILE"
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            hint = "this machine gives the script no more; see `ulimit -a`"
        return Trouble(0, f"cannot reach {self.server}: {one_line(error)}; {hint}")

    def content(self, status, reason, data, method, path):
        """Return the JSON of an answer. Raises ApiError if it reports a failure, or is no JSON."""
        succeeded = 200 <= status < 300
        content = None
        with contextlib.suppress(ValueError, RecursionError):
            content = read_json(data)
        if not isinstance(content, dict):
            start = one_line(data[:200].decode(errors="replace"))
            message = f"{self.server} is no kubectl proxy, or that has no API server: {start}"
            if status == 403:
                message = f"not let through, as by kubectl proxy's --accept-hosts or --reject-paths: {start}"
        elif succeeded:
            return content
        else:
            message = str(content.get("message"))
            if status == 403 and re.search('User ".*" cannot ', message):  # RBAC's own words
                message = f"RBAC does not allow it: {message}"
        text = f"{method} {path}: {status} {reason}: {message}"
        if "etcdserver: request is too large" in message:  # it comes as 500, or as 409
            raise TooLarge(413, text)
        raise Unreadable(0, text) if succeeded else error_of(status, text)


def share_memory_among_threads():
    """Have threads take memory from two places. By default glibc gives each its own, and keeps most of it.

    The script then takes half as much. Other C libraries do not have this, nor need it.
    """
    arena_max = -8  # M_ARENA_MAX, see mallopt(3)
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(arena_max, 2)


def load_what_ends_threads():
    """Load libgcc. Else glibc loads it as Python ends, to end threads, and aborts if it can open no file."""
    with contextlib.suppress(OSError):  # other C libraries do not need it
        ctypes.CDLL("libgcc_s.so.1")
