"""The API server behind kubectl proxy, for many threads at a time, and to watch.

It takes the place of the script's Proxy; what is asked of both is the same.
"""

import contextlib
import ctypes
import errno
import json
import os
import re
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from scheduler import Proxy, Trouble, log
from scheduler_extras.cluster.api import GROUPS, JSON, THREADS, TooLarge, Unreadable, error_of, read_json
from scheduler_extras.cluster.writer import Writer
from scheduler_extras.trouble import STOP, one_line, within


class PooledProxy(Proxy):
    """The API server behind kubectl proxy, for many threads, and to watch."""

    def __init__(self, server):
        self.server = server.rstrip("/")
        self.prefix = urlsplit(self.server).path  # `kubectl proxy --api-prefix` serves there
        timeout = urllib3.Timeout(connect=5, read=60)
        # One for each thread that writes, for each resource that is watched, for lists, and for the Lease.
        most = THREADS + len(GROUPS) + 2
        self.pool = urllib3.connection_from_url(server, maxsize=most, retries=False, timeout=timeout)

    def writer(self):
        """Return what writes to it."""
        return Writer(self)

    def request(self, method, path, body=None, params=None, accept=JSON):
        """Send a request and return the answer's JSON. Raises ApiError; its text says what to do."""
        return self.content(self.send(method, path, body, params, accept), method, path)

    def get(self, path, params=None, accept=JSON):
        """Return what the API server answers within a minute. Raises ApiError."""
        return within(60, self.request, "GET", path, None, params, accept, whom=self.server, stop=STOP)

    def watch(self, path, params, silence):
        """Ask for a stream of events, and return it. It begins at once, and may then be silent for so long.

        Raises ApiError, also when it breaks.
        """
        timeout = urllib3.Timeout(connect=5, read=5)
        answer = self.send("GET", path, None, params, timeout=timeout, preload_content=False)
        if answer.status != 200:
            self.content(answer, "GET", path)  # raises ApiError
        with contextlib.suppress(AttributeError):  # a short answer has ended already
            answer.connection.sock.settimeout(silence)
        return self.lines(answer, path)

    def lines(self, answer, path):
        """Yield the objects of a stream, each of which has a line. Raises ApiError if it breaks."""
        try:
            yield from map(read_json, filter(bytes.strip, answer))
        except (HTTPError, ValueError, RecursionError) as error:
            raise Trouble(0, f"the watch of {path} has broken off: {one_line(error)}") from error
        finally:
            answer.close()

    def send(self, method, path, body, params, accept=JSON, **options):
        """Send a request and return the answer. Raises ApiError if none comes."""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else JSON
        headers = {"Content-Type": kind, "Accept": accept}
        url = self.prefix + (f"{path}?{urlencode(params)}" if params else path)
        data = body and json.dumps(body)
        try:
            answer = self.pool.urlopen(method, url, data, headers, redirect=False, **options)
        except HTTPError as error:
            hint = "is `kubectl proxy` running there? Without it: --cluster FILE"
            lacking = [os.strerror(number) for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)]
            if any(what in str(error) for what in lacking):
                hint = "this machine gives the script no more; see `ulimit -a`"
            raise Trouble(0, f"cannot reach {self.server}: {one_line(error)}; {hint}") from error
        log.debug("%s %s %s: %d", method, path, params or "", answer.status)
        return answer

    def content(self, answer, method, path):
        """Return the JSON of an answer. Raises ApiError if it reports a failure, or is no JSON."""
        status = answer.status
        succeeded = 200 <= status < 300
        content = None
        with contextlib.suppress(ValueError, RecursionError):
            content = read_json(answer.data)
        if not isinstance(content, dict):
            start = one_line(answer.data[:200].decode(errors="replace"))
            message = f"{self.server} is no kubectl proxy, or that has no API server: {start}"
            if status == 403:
                message = f"not let through, as by kubectl proxy's --accept-hosts or --reject-paths: {start}"
        elif succeeded:
            return content
        else:
            message = str(content.get("message"))
            if status == 403 and re.search('User ".*" cannot ', message):  # RBAC's own words
                message = f"RBAC does not allow it: {message}"
        text = f"{method} {path}: {status} {answer.reason}: {message}"
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
