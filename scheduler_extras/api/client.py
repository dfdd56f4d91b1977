"""The client of the API server, reached through kubectl proxy or with a service account.

live/ lists, watches and writes with it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from scheduler import log
from scheduler_extras.api.connection import HttpResponse
from scheduler_extras.api.pool import OPEN_SECONDS, ConnectionPool
from scheduler_extras.api.responses import JSON, TooLarge, Unreadable, error_of, read_json
from scheduler_extras.api.service_account import ServiceAccount, without_proxy
from scheduler_extras.common.clocks import STOP, within
from scheduler_extras.common.errors import ApiError, ServerUnavailable
from scheduler_extras.common.log_texts import one_line
from scheduler_extras.common.observer import Observer
from scheduler_extras.common.version import VERSION
from scheduler_extras.reading.fields import JsonObject, text_at


Params = Mapping[str, Any]  # of a URL
USER_AGENT = f"scheduler_extras/{VERSION}"
ANSWER_SECONDS = 60  # in which a response must be complete


# This HTTP client takes half as much CPU time as urllib3 for a request. In a stream of new pods, more than
# half of all CPU time is for requests.


class ApiClient:
    """A client of the API server, for requests of many threads, and for watches.

    It connects to kubectl proxy; with a ServiceAccount, to the API server itself, over TLS.
    """

    def __init__(self, server: str, account: ServiceAccount | None = None):
        self.server = server.rstrip("/")
        self.account = account
        self.url = urlsplit(self.server)
        self.path = quote(self.url.path, safe="/%~")  # where `kubectl proxy --api-prefix` serves
        self.pool = ConnectionPool(self.url, account)
        self.observer = Observer()  # serve/ has one that counts

    def request(self, method: str, path: str, body: JsonObject | None = None, params: Params | None = None,
                accept: str = JSON, check: Callable[[], None] = lambda: None) -> JsonObject:
        """Send a request, and return the JSON of the response. Raises ApiError, whose message has a hint.

        check: called immediately before the request is sent. It may raise ApiError, which prevents that.
        """
        response, data = self.exchange(method, path, body, params, accept, check)
        return self.content(response, data, method, path)

    def get(self, path: str, params: Params | None = None, accept: str = JSON) -> JsonObject:
        """Send a GET, and return the JSON of the response. Raises ApiError, at the latest after a minute."""
        return within(ANSWER_SECONDS, self.request, "GET", path, None, params, accept, server=self.server,
                      stop=STOP)

    def exchange(self, method: str, path: str, body: JsonObject | None, params: Params | None,
                 accept: str, check: Callable[[], None]) -> tuple[HttpResponse, bytes]:
        """Send a request. Return its HttpResponse and the body. Raises ApiError."""
        with self.as_unavailable():
            response = self.ask(ANSWER_SECONDS, method, path, body, params, accept, check)
            data = response.read()
            self.pool.keep(response)
            return response, data

    def watch(self, path: str, params: Params, silence: float) -> Iterator[JsonObject]:
        """Yield the events of a stream, one per line. Raises ApiError, also if the stream breaks off.

        The stream must begin within five seconds. silence: seconds without an event after which it ends.
        """
        with self.as_unavailable():
            response = self.ask(OPEN_SECONDS, "GET", path, None, params, JSON)
            data = response.read() if response.status != 200 else b""
        if response.status != 200:
            self.content(response, data, "GET", path)  # raises ApiError
        with contextlib.closing(response.lines(silence)) as lines:
            yield from objects_of(lines, path)

    def ask(self, seconds: float, method: str, path: str, body: JsonObject | None, params: Params | None,
            accept: str, check: Callable[[], None] = lambda: None) -> HttpResponse:
        """Send a request, and return its HttpResponse, whose body must be read within `seconds`."""
        head, data = self.message(method, path, body, params, accept)
        began = time.monotonic()
        response = None
        try:
            response = self.pool.ask(head, data, seconds, may_be_sent_again(method, path, body), check)
        finally:
            code = str(response.status) if response else "<error>"
            self.observer.request_ended(method, code, time.monotonic() - began)
        log.debug("%s %s %s: %d", method, path, params or "", response.status)
        return response

    def message(self, method: str, path: str, body: JsonObject | None, params: Params | None,
                accept: str) -> tuple[bytes, bytes]:
        """Return the head and the body of a request, as bytes."""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else JSON
        url = self.path + quote(path, safe="/?&=,:%", errors="replace")
        url += f"?{urlencode(params)}" if params else ""
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {url} HTTP/1.1", f"Host: {self.url.netloc}", f"User-Agent: {USER_AGENT}",
                 f"Accept: {accept}", f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
        if self.account:
            lines.append(self.account.authorization())
        return "\r\n".join([*lines, "", ""]).encode("ascii"), data

    @contextlib.contextmanager
    def as_unavailable(self) -> Iterator[None]:
        """Turn any error of a connection into ServerUnavailable, because a server may send anything."""
        try:
            yield
        except ApiError:
            raise
        except Exception as error:
            raise unreachable(self.server, error, self.account) from error

    def content(self, response: HttpResponse, data: bytes, method: str, path: str) -> JsonObject:
        """Return the JSON of a response. Raises ApiError if it reports a failure, or is not JSON."""
        status = response.status
        succeeded = 200 <= status < 300
        if status == 401:
            raise unauthorized(self.server, self.account)
        content: Any = None
        with contextlib.suppress(ValueError, RecursionError, MemoryError):
            content = read_json(data)
        is_json = isinstance(content, dict)
        if succeeded and is_json:
            return content
        message = message_in(content, status) if is_json else no_api_server(self.server, status, data)
        text = f"{method} {path}: {status} {response.reason}: {message}"
        if "etcdserver: request is too large" in message:  # it comes as 500, or as 409
            raise TooLarge(413, text)
        raise Unreadable(0, text) if succeeded else error_of(status, text, response.retry_after())


def message_in(content: dict, status: int) -> str:
    """Return the API server's message about a request that failed."""
    message = str(content.get("message"))
    is_of_rbac = status == 403 and re.search('User ".*" cannot ', message)  # RBAC's message
    return f"RBAC does not allow it: {message}" if is_of_rbac else message


def no_api_server(server: str, status: int, data: bytes) -> str:
    """Return the message about a response that is not from an API server."""
    start = one_line(data[:200].decode(errors="replace"))
    if status == 403:
        return f"not let through, as by kubectl proxy's --accept-hosts or --reject-paths: {start}"
    return f"{server} is not a kubectl proxy, or has no API server behind it: {start}"


def unauthorized(server: str, account: ServiceAccount | None) -> ServerUnavailable:
    """Return the ServerUnavailable for a 401, which all requests get until the credentials are replaced."""
    if not account:
        why = "the credentials of `kubectl proxy` have expired"
    else:
        account.forget_token()
        why = f"the token in {account.token_file} has expired, or is for another cluster"
    return ServerUnavailable(0, f"{server}: 401 Unauthorized: {why}; trying again")


def unreachable(server: str, error: Exception, account: ServiceAccount | None = None) -> ServerUnavailable:
    """Return the ServerUnavailable for a request without a response, with a hint at what to do."""
    hint = f"is `kubectl proxy` running there? {without_proxy()}"
    if isinstance(error, ssl.SSLError) and account:
        hint = f"its certificate is checked with the CA in {account.ca_file}"
    elif account:
        hint = "this is the API server's address in a pod"
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        hint = "the operating system refuses more files or memory; see `ulimit -a`"
    return ServerUnavailable(0, f"cannot reach {server}: {one_line(error)}; {hint}")


def objects_of(lines: Iterable[bytes], path: str) -> Iterator[Any]:
    """Yield the objects in the lines of a stream. Raises ApiError if it breaks."""
    try:
        yield from map(read_json, filter(bytes.strip, lines))
    except Exception as error:
        raise ServerUnavailable(0, f"the watch of {path} has broken off: {one_line(error)}") from error


def may_be_sent_again(method: str, path: str, body: JsonObject | None) -> bool:
    """Return whether a request is idempotent: a second one has no further effect.

    A second POST of a Binding or event gets 409, a second DELETE by uid 404 or 409.
    """
    if method == "POST":
        return path.endswith(("/binding", "/events"))
    if method == "DELETE":
        return bool(text_at(body, "preconditions", "uid"))
    return True
