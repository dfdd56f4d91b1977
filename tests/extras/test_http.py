"""HTTP answers of odd servers and proxies, which are sent byte for byte through a socket."""

import contextlib
import re
import socket
import threading
import time
import types

import pytest

from helpers.control_plane import wait_for
from helpers.everywhere import replace
from helpers.extras import table
from scheduler_extras.api.client import ApiClient
from scheduler_extras.api.connection import Connection
from scheduler_extras.api.http_retries import LASTING, patiently, rest
from scheduler_extras.api.responses import Conflict, error_of
from scheduler_extras.common.errors import ApiError, ServerUnavailable
from scheduler_extras.options import read_arguments


EMPTY = b'{"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}'


def answer(body=EMPTY, *headers, status="200 OK"):
    """An answer with a Content-Length."""
    return head(f"Content-Length: {len(body)}", *headers, status=status) + body


def head(*headers, status="200 OK"):
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode()


def chunks(*sizes_and_texts):
    """A chunked answer, whose chunks may have a wrong size."""
    return head("Transfer-Encoding: chunked") + b"".join(size.encode() + b"\r\n" + text + b"\r\n" for size, text in sizes_and_texts)


class RawServer:
    """A server that performs a list of steps on each connection. A step of bytes is sent after a request was received."""

    CLOSE, RESET = "close", "reset"

    def __init__(self, *connections, host="127.0.0.1"):
        """connections: the steps of each connection. Further connections use the last ones."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, 0), family=family)
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.listener.getsockname()[1]}"
        self.connections, self.opened, self.asked, self.there = list(connections), 0, [], []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.there.append(connection)
            steps = self.connections[min(self.opened, len(self.connections) - 1)]
            self.opened += 1
            threading.Thread(target=self.serve, args=(connection, steps), daemon=True).start()

    def serve(self, connection, steps):
        with contextlib.suppress(OSError):  # the client may disconnect
            self.take(connection, steps)
        connection.close()

    def take(self, connection, steps):
        file = connection.makefile("rb")
        for step in steps:
            if step == self.RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            if step in (self.CLOSE, self.RESET):
                break
            if isinstance(step, tuple):  # (seconds, bytes): a further part of an answer
                time.sleep(step[0])
                connection.sendall(step[1])
                continue
            lines = []
            while (line := file.readline()) not in (b"\r\n", b""):
                lines.append(line.decode())
            if not lines:
                break
            length = re.search(r"(?i)content-length: (\d+)", "".join(lines))
            body = file.read(int(length[1]) if length else 0)
            self.asked.append("".join(lines) + "\r\n" + body.decode())
            if step is None:  # the connection is closed just when it is used again
                break
            connection.sendall(step)
        file.close()

    def stop(self):
        for each in [self.listener, *self.there]:
            each.close()


@pytest.fixture
def raw():
    """A function that starts a RawServer."""
    servers = []
    yield lambda *connections, **more: servers.append(RawServer(*connections, **more)) or servers[-1]
    for server in servers:
        server.stop()


NODES = "/api/v1/nodes"
MORE = answer(b'{"kind": "Other"}')


@table("first", {
    "103 Early Hints": head("Link: </style.css>", status="103 Early Hints") + answer(),
    "100 Continue": head(status="100 Continue") + answer(),
    "several provisional answers": head(status="102 Processing") + head(status="103 Early Hints") + head(status="103 Early Hints") + answer(),
})
def test_provisional_answers_are_skipped(first, raw):
    server = raw([first, MORE])
    api = ApiClient(server.url)
    assert [api.request("GET", NODES)["kind"] for _ in range(2)] == ["List", "Other"], "each request has its own answer"
    assert server.opened == 1


@table("first, opened", {
    "an answer with a Content-Length": (answer(), 1),
    "a chunked answer": (chunks(("1f", EMPTY[:31]), (f"{len(EMPTY) - 31:X};name=value", EMPTY[31:]), ("0", b"")), 1),
    "an answer with surplus bytes": (answer() + MORE, 2),
    "an answer with Connection: close": (answer(EMPTY, "Connection: close"), 2),
    "an answer of HTTP/1.0": (answer().replace(b"HTTP/1.1", b"HTTP/1.0"), 2),
})
def test_whether_a_connection_is_reused_after(first, opened, raw):
    server = raw([first, MORE], [MORE])
    api = ApiClient(server.url)
    assert [api.request("GET", NODES)["kind"] for _ in range(2)] == ["List", "Other"]
    assert server.opened == opened


def test_surplus_bytes_after_an_answer_are_not_used_for_the_next_request(raw):
    server = raw([answer(), (0.05, MORE)], [answer()])
    api = ApiClient(server.url)
    api.request("GET", NODES)
    time.sleep(0.3)
    assert api.request("GET", NODES)["kind"] == "List" and server.opened == 2


def test_an_answer_may_end_with_its_connection(raw):
    server = raw([head("Connection: close") + EMPTY, RawServer.CLOSE])
    assert ApiClient(server.url).request("GET", NODES)["items"] == []


@table("broken", {
    "a Content-Length of 10^20": head("Content-Length: 100000000000000000000") + EMPTY,
    "a Content-Length of 10^15": head("Content-Length: 1000000000000000") + EMPTY,
    "a negative Content-Length": head("Content-Length: -5") + EMPTY,
    "a Content-Length that is not a number": head("Content-Length: many") + EMPTY,
    "two different Content-Lengths": head("Content-Length: 5", f"Content-Length: {len(EMPTY)}") + EMPTY,
    "a chunk of -5": chunks(("-5", EMPTY), ("0", b"")),
    "a chunk without a size": chunks(("", EMPTY), ("0", b"")),
    "a chunk that is longer than its size": chunks(("5", EMPTY), ("0", b"")),
    "a chunk of 10^15": chunks(("38D7EA4C68000", EMPTY), ("0", b"")),
    "an unknown Transfer-Encoding": head("Transfer-Encoding: zip") + EMPTY,
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "a status of 7": head(status="7 OK") + EMPTY,
    "a thousand headers": head(*[f"X-{i}: y" for i in range(1000)]) + EMPTY,
    "arbitrary bytes": bytes(range(256)) * 100 + b"\n",
    "no answer": b"",
})
@pytest.mark.parametrize("watches", [False, True])
def test_an_invalid_answer_counts_as_a_failure_of_the_server(broken, watches, raw):
    server = raw([broken, RawServer.CLOSE])
    api = ApiClient(server.url)
    with pytest.raises(ServerUnavailable, match=r"cannot reach http://127\.0\.0\.1:|has broken off"):
        list(api.watch(NODES, {}, 5)) if watches else api.request("GET", NODES)
    assert api.pool.idle == []


@table("error", {"MemoryError": MemoryError(), "OverflowError": OverflowError("too large"), "ValueError": ValueError("odd")})
def test_any_exception_of_a_connection_counts_as_a_failure_of_the_server(error, raw, monkeypatch):
    def break_down(*arguments):
        raise error
    monkeypatch.setattr(Connection, "receive", break_down)
    api = ApiClient(raw([answer()]).url)
    for ask in (lambda: api.request("GET", NODES), lambda: list(api.watch(NODES, {}, 5))):
        with pytest.raises(ServerUnavailable):
            ask()


PODS = "/api/v1/namespaces/default/pods"
OF_UID = {"preconditions": {"uid": "u"}}


@table("what, is_retried", {
    "GET": (("GET", NODES), True),
    "PUT": (("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l", {}), True),
    "PATCH": (("PATCH", f"{PODS}/p/status", {}), True),
    "DELETE with a uid": (("DELETE", f"{PODS}/p", OF_UID), True),
    "DELETE without a uid": (("DELETE", f"{PODS}/p"), False),
    "POST of a Binding": (("POST", f"{PODS}/p/binding", {}), True),
    "POST of an event": (("POST", "/api/v1/namespaces/default/events", {}), True),
    "another POST": (("POST", f"{PODS}", {}), False),
})
@pytest.mark.parametrize("ending", [None, RawServer.RESET])
def test_a_request_is_retried_on_a_new_connection_if_that_is_safe(what, is_retried, ending, raw, monkeypatch):
    server = raw([answer(), ending], [MORE])
    api = ApiClient(server.url)
    api.request("GET", NODES)
    monkeypatch.setattr(Connection, "is_idle", lambda connection: True)  # as it was a moment ago
    if is_retried:
        assert api.request(*what)["kind"] == "Other" and server.opened == 2
    else:
        with pytest.raises(ServerUnavailable):
            api.request(*what)
        assert server.opened == 1


@table("ends, opened", {
    "a new connection is closed before the answer": ([[None]], 1),
    "the second connection is closed, too": ([[answer(), None], [None]], 2),
    "the answer has begun": ([[answer(), b"HTTP/1.1 200 OK\r\n", RawServer.CLOSE]], 1),
})
def test_a_request_is_not_retried_if(ends, opened, raw, monkeypatch):
    server = raw(*ends)
    api = ApiClient(server.url)
    if len(ends[0]) > 1:
        api.request("GET", NODES)
    monkeypatch.setattr(Connection, "is_idle", lambda connection: True)
    with pytest.raises(ServerUnavailable):
        api.request("GET", NODES)
    assert server.opened == opened


def test_check_is_called_immediately_before_each_send(raw, monkeypatch):
    """A replica may have lost the Lease while the request was prepared, or before it is retried."""
    server = raw([answer(), None], [MORE])
    api = ApiClient(server.url)
    api.request("GET", NODES)
    monkeypatch.setattr(Connection, "is_idle", lambda connection: True)
    checks = iter([None, error_of(409, "this replica is no longer the leader")])

    def check():
        error = next(checks)
        if error:
            raise error

    with pytest.raises(Conflict):
        api.request("DELETE", f"{PODS}/p", OF_UID, check=check)
    assert len(server.asked) == 2 and not api.pool.idle, "only the GET and the first DELETE were sent"


EVENT = b'{"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "5"}}}\n'


@table("first", {"in chunks": chunks((f"{len(EVENT):x}", EVENT)), "until the connection is closed": head("Connection: close") + EVENT})
def test_a_stream_may_be_silent_for_the_given_time(first, raw):
    """The five seconds for an answer do not apply."""
    server = raw([first, (0.4, b"%x\r\n%b\r\n0\r\n\r\n" % (len(EVENT), EVENT) if b"chunked" in first else EVENT), RawServer.CLOSE])
    api = ApiClient(server.url)
    began = time.monotonic()
    assert len(list(api.watch(NODES, {}, silence=1))) == 2
    assert time.monotonic() - began < 1
    with pytest.raises(ServerUnavailable, match="has broken off: timed out"):
        list(ApiClient(raw([first, (5, b"")]).url).watch(NODES, {}, silence=0.1))


def test_closing_a_watch_closes_its_connection(raw):
    server = raw([head("Connection: close") + EVENT * 2, (5, b"")])
    stream = ApiClient(server.url).watch(NODES, {}, silence=5)
    assert next(stream)["type"] == "ADDED"
    stream.close()
    wait_for("the server sees the end", lambda: server.there[0].fileno() < 0 or server.there[0].recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"")


@table("first", {
    "one byte at a time": [(0.1, answer()[i:i + 1]) for i in range(len(answer()))],
    "endless provisional answers": [(0.1, head(status="103 Early Hints"))] * 50,
})
def test_a_slow_answer_times_out(first, raw, monkeypatch):
    replace(monkeypatch, "ANSWER_SECONDS", 1)
    server = raw([b"", *first])
    with pytest.raises(ServerUnavailable, match="timed out"):
        ApiClient(server.url).request("GET", NODES)


def test_the_size_of_an_answer_is_limited(raw, monkeypatch):
    replace(monkeypatch, "MAX_BYTES", len(EMPTY))
    assert ApiClient(raw([answer()]).url).request("GET", NODES)
    for larger in (answer(EMPTY + b" "), chunks(("10", EMPTY[:16]), (f"{len(EMPTY):x}", EMPTY), ("0", b"")), head("Connection: close") + EMPTY * 9):
        with pytest.raises(ServerUnavailable):
            ApiClient(raw([larger, RawServer.CLOSE]).url).request("GET", NODES)


@table("retry_after, seconds", {"two seconds": ("2", 2), "no Retry-After": (None, None), "an hour, limited to ten seconds": ("3600", 10), "a date": ("Wed, 21 Oct 2026 07:28:00 GMT", None)})
@pytest.mark.parametrize("status", [429, 503])
def test_a_request_is_retried_after_the_seconds_of_retry_after(retry_after, seconds, status, raw, monkeypatch):
    headers = [f"Retry-After: {retry_after}"] if retry_after else []
    refusal = answer(b'{"kind": "Status", "message": "too many requests"}', *headers, status=f"{status} Busy")
    pauses = []
    replace(monkeypatch, "rest", pauses.append)
    server = raw([refusal, refusal, answer()])
    request = patiently, ApiClient(server.url).request, "GET", NODES
    if status == 429 and seconds is None:
        with pytest.raises(ServerUnavailable):
            request[0](*request[1:])
        assert pauses == [] and len(server.asked) == 1
    else:
        assert request[0](*request[1:])["items"] == [] and pauses == [seconds] * 2 * bool(seconds)


def test_a_request_has_a_user_agent_with_the_version(raw):
    server = raw([answer()])
    ApiClient(server.url).request("GET", NODES)
    assert re.search(r"\r\nUser-Agent: scheduler_extras/[\d.]+\r\n", server.asked[0])


@table("host, path, sent", {
    "an IPv6 address": ("::1", "", "/api/v1/nodes"),
    "a path": ("127.0.0.1", "/a-proxy", "/a-proxy/api/v1/nodes"),
    "a path with non-ASCII letters": ("127.0.0.1", "/büro", "/b%C3%BCro/api/v1/nodes"),
    "a path that is already quoted": ("127.0.0.1", "/b%C3%BCro", "/b%C3%BCro/api/v1/nodes"),
})
def test_urls_of_the_api_server(host, path, sent, raw):
    server = raw([answer()], host=host)
    options = read_arguments(["--server", f"{server.url}{path}/"])
    assert ApiClient(options.server).request("GET", NODES)["items"] == []
    assert server.asked[0].startswith(f"GET {sent} HTTP/1.1\r\nHost: {server.url.removeprefix('http://')}\r\n")


def test_an_https_url_is_an_error(capsys):
    with pytest.raises(SystemExit):
        read_arguments(["--server", "https://127.0.0.1:6443"])
    assert "--server: https needs a CA and a token, which kubectl proxy has: run it, and give its http:// URL" in capsys.readouterr().err


@table("errors, pauses, attempts", {
    "5xx: twice at once, then after increasing pauses": ([503] * 5, [1, 2, 4], 6),
    "no answer: only after pauses": ([0] * 3, [1, 2, 4], 4),
    "Retry-After: not earlier": ([(429, 3)] * 5, [3, 3, 3, 3, 4], 6),
    "403: no retry": ([403], [], 1),
    "endless 5xx: the last error is raised": ([503] * 9, [1, 2, 4], 6),
})
def test_an_important_request_is_retried_for_some_seconds(errors, pauses, attempts, monkeypatch):
    waited, asked, left = [], [], iter(errors)
    replace(monkeypatch, "rest", waited.append)

    def request():
        asked.append(1)
        for error in left:
            raise error_of(*(error[0], "busy", error[1]) if isinstance(error, tuple) else (error, "busy"))

    with contextlib.suppress(ApiError):
        patiently(request, pauses=LASTING)
    assert (waited, len(asked)) == (pauses, attempts)


def test_the_heartbeat_goes_on_during_a_long_retry_after(monkeypatch):
    beats, waited = [], iter([False, False, True])
    replace(monkeypatch, "heartbeat", lambda: beats.append(1))
    replace(monkeypatch, "STOP", types.SimpleNamespace(wait=lambda seconds: next(waited)))
    rest(3600)
    assert len(beats) == 2, "until the signal"
