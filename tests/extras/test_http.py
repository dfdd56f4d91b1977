"""What a server, or a proxy in between, makes of HTTP: each answer is sent by a socket, byte for byte."""

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
from scheduler_extras.api.responses import Conflict, error_of
from scheduler_extras.api.retries import LASTING, patiently, rest
from scheduler_extras.common.errors import ApiError, ServerUnavailable
from scheduler_extras.options import read_arguments


EMPTY = b'{"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}'


def answer(body=EMPTY, *headers, status="200 OK"):
    """An answer with the length of its body."""
    return head(f"Content-Length: {len(body)}", *headers, status=status) + body


def head(*headers, status="200 OK"):
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode()


def chunks(*sizes_and_texts):
    """An answer in chunks, each of which may say another size than it has."""
    return head("Transfer-Encoding: chunked") + b"".join(size.encode() + b"\r\n" + text + b"\r\n" for size, text in sizes_and_texts)


class RawServer:
    """Accepts connections; what it does on each is up to a list of steps: bytes are sent once a request has come."""

    CLOSE, RESET = "close", "reset"

    def __init__(self, *connections, host="127.0.0.1"):
        """connections: of each, its steps, one after another. The last one has all that come behind."""
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
        with contextlib.suppress(OSError):  # the client has gone, as it may
            self.take(connection, steps)
        connection.close()

    def take(self, connection, steps):
        file = connection.makefile("rb")
        for step in steps:
            if step == self.RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            if step in (self.CLOSE, self.RESET):
                break
            if isinstance(step, tuple):  # (seconds, bytes) of an answer that has begun
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
            if step is None:  # the connection ends just as it is used
                break
            connection.sendall(step)
        file.close()

    def stop(self):
        for each in [self.listener, *self.there]:
            each.close()


@pytest.fixture
def raw():
    """A function that starts such a server."""
    servers = []
    yield lambda *connections, **more: servers.append(RawServer(*connections, **more)) or servers[-1]
    for server in servers:
        server.stop()


NODES = "/api/v1/nodes"
MORE = answer(b'{"kind": "Other"}')


@table("first", {
    "103 Early Hints": head("Link: </style.css>", status="103 Early Hints") + answer(),
    "100 Continue": head(status="100 Continue") + answer(),
    "several of them": head(status="102 Processing") + head(status="103 Early Hints") + head(status="103 Early Hints") + answer(),
})
def test_provisional_answers_are_skipped(first, raw):
    server = raw([first, MORE])
    api = ApiClient(server.url)
    assert [api.request("GET", NODES)["kind"] for _ in range(2)] == ["List", "Other"], "each request has its own answer"
    assert server.opened == 1


@table("first, opened", {
    "one that was read to its end": (answer(), 1),
    "one in chunks": (chunks(("1f", EMPTY[:31]), (f"{len(EMPTY) - 31:X};name=value", EMPTY[31:]), ("0", b"")), 1),
    "one with bytes behind it, which are no answer to anything": (answer() + MORE, 2),
    "one that says Connection: close": (answer(EMPTY, "Connection: close"), 2),
    "one of HTTP/1.0": (answer().replace(b"HTTP/1.1", b"HTTP/1.0"), 2),
})
def test_a_connection_is_used_again_only_after(first, opened, raw):
    server = raw([first, MORE], [MORE])
    api = ApiClient(server.url)
    assert [api.request("GET", NODES)["kind"] for _ in range(2)] == ["List", "Other"]
    assert server.opened == opened


def test_bytes_that_come_late_behind_an_answer_go_to_no_other_request(raw):
    server = raw([answer(), (0.05, MORE)], [answer()])
    api = ApiClient(server.url)
    api.request("GET", NODES)
    time.sleep(0.3)
    assert api.request("GET", NODES)["kind"] == "List" and server.opened == 2


def test_an_answer_may_last_as_long_as_its_connection(raw):
    server = raw([head("Connection: close") + EMPTY, RawServer.CLOSE])
    assert ApiClient(server.url).request("GET", NODES)["items"] == []


@table("broken", {
    "a Content-Length of 10 to the 20th": head("Content-Length: 100000000000000000000") + EMPTY,
    "one of 10 to the 15th": head("Content-Length: 1000000000000000") + EMPTY,
    "one that is negative": head("Content-Length: -5") + EMPTY,
    "one that is no number": head("Content-Length: many") + EMPTY,
    "two that differ": head("Content-Length: 5", f"Content-Length: {len(EMPTY)}") + EMPTY,
    "a chunk of -5": chunks(("-5", EMPTY), ("0", b"")),
    "a chunk without a size": chunks(("", EMPTY), ("0", b"")),
    "a chunk that is longer than it says": chunks(("5", EMPTY), ("0", b"")),
    "a chunk of 10 to the 15th": chunks(("38D7EA4C68000", EMPTY), ("0", b"")),
    "an unknown Transfer-Encoding": head("Transfer-Encoding: zip") + EMPTY,
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "a status of 7": head(status="7 OK") + EMPTY,
    "a thousand headers": head(*[f"X-{i}: y" for i in range(1000)]) + EMPTY,
    "bytes of any kind": bytes(range(256)) * 100 + b"\n",
    "nothing": b"",
})
@pytest.mark.parametrize("watches", [False, True])
def test_an_answer_that_is_none_is_trouble(broken, watches, raw):
    server = raw([broken, RawServer.CLOSE])
    api = ApiClient(server.url)
    with pytest.raises(ServerUnavailable, match=r"cannot reach http://127\.0\.0\.1:|has broken off"):
        list(api.watch(NODES, {}, 5)) if watches else api.request("GET", NODES)
    assert api.pool.idle == []


@table("error", {"MemoryError": MemoryError(), "OverflowError": OverflowError("too large"), "ValueError": ValueError("odd")})
def test_whatever_a_connection_raises_is_trouble(error, raw, monkeypatch):
    def break_down(*arguments):
        raise error
    monkeypatch.setattr(Connection, "receive", break_down)
    api = ApiClient(raw([answer()]).url)
    for ask in (lambda: api.request("GET", NODES), lambda: list(api.watch(NODES, {}, 5))):
        with pytest.raises(ServerUnavailable):
            ask()


PODS = "/api/v1/namespaces/default/pods"
OF_UID = {"preconditions": {"uid": "u"}}


@table("what, is_sent_again", {
    "GET": (("GET", NODES), True),
    "PUT": (("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l", {}), True),
    "PATCH": (("PATCH", f"{PODS}/p/status", {}), True),
    "DELETE of a uid": (("DELETE", f"{PODS}/p", OF_UID), True),
    "DELETE of whatever has that name": (("DELETE", f"{PODS}/p"), False),
    "POST of a Binding": (("POST", f"{PODS}/p/binding", {}), True),
    "POST of an event": (("POST", "/api/v1/namespaces/default/events", {}), True),
    "another POST": (("POST", f"{PODS}", {}), False),
})
@pytest.mark.parametrize("ending", [None, RawServer.RESET])
def test_a_request_on_an_idle_connection_that_ends_just_then_is_sent_once_more_if_that_does_no_harm(what, is_sent_again, ending, raw, monkeypatch):
    server = raw([answer(), ending], [MORE])
    api = ApiClient(server.url)
    api.request("GET", NODES)
    monkeypatch.setattr(Connection, "is_idle", lambda connection: True)  # as it was a moment ago
    if is_sent_again:
        assert api.request(*what)["kind"] == "Other" and server.opened == 2
    else:
        with pytest.raises(ServerUnavailable):
            api.request(*what)
        assert server.opened == 1


@table("ends, opened", {
    "a new one ends before its answer": ([[None]], 1),
    "the second one does, too": ([[answer(), None], [None]], 2),
    "its answer has begun": ([[answer(), b"HTTP/1.1 200 OK\r\n", RawServer.CLOSE]], 1),
})
def test_it_is_not_sent_again_if(ends, opened, raw, monkeypatch):
    server = raw(*ends)
    api = ApiClient(server.url)
    if len(ends[0]) > 1:
        api.request("GET", NODES)
    monkeypatch.setattr(Connection, "is_idle", lambda connection: True)
    with pytest.raises(ServerUnavailable):
        api.request("GET", NODES)
    assert server.opened == opened


def test_a_request_is_checked_each_time_immediately_before_it_is_sent(raw, monkeypatch):
    """A replica may have stopped leading while the request was prepared, or before it is sent once more."""
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
    assert len(server.asked) == 2 and not api.pool.idle, "a GET, and the first DELETE"


EVENT = b'{"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "5"}}}\n'


@table("first", {"in chunks": chunks((f"{len(EVENT):x}", EVENT)), "as long as the connection": head("Connection: close") + EVENT})
def test_a_stream_may_be_silent_for_as_long_as_was_said(first, raw):
    """However its end is to be told: it is not that of an answer, which has five seconds to begin."""
    server = raw([first, (0.4, b"%x\r\n%b\r\n0\r\n\r\n" % (len(EVENT), EVENT) if b"chunked" in first else EVENT), RawServer.CLOSE])
    api = ApiClient(server.url)
    began = time.monotonic()
    assert len(list(api.watch(NODES, {}, silence=1))) == 2
    assert time.monotonic() - began < 1
    with pytest.raises(ServerUnavailable, match="has broken off: timed out"):
        list(ApiClient(raw([first, (5, b"")]).url).watch(NODES, {}, silence=0.1))


def test_a_watch_that_nobody_reads_on_closes_its_connection(raw):
    server = raw([head("Connection: close") + EVENT * 2, (5, b"")])
    stream = ApiClient(server.url).watch(NODES, {}, silence=5)
    assert next(stream)["type"] == "ADDED"
    stream.close()
    wait_for("the server sees the end", lambda: server.there[0].fileno() < 0 or server.there[0].recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"")


@table("first", {
    "each byte after a while": [(0.1, answer()[i:i + 1]) for i in range(len(answer()))],
    "provisional answers without an end": [(0.1, head(status="103 Early Hints"))] * 50,
})
def test_an_answer_has_to_be_there_in_time(first, raw, monkeypatch):
    replace(monkeypatch, "ANSWER_SECONDS", 1)
    server = raw([b"", *first])
    with pytest.raises(ServerUnavailable, match="timed out"):
        ApiClient(server.url).request("GET", NODES)


def test_an_answer_may_be_so_large_and_no_larger(raw, monkeypatch):
    replace(monkeypatch, "MAX_BYTES", len(EMPTY))
    assert ApiClient(raw([answer()]).url).request("GET", NODES)
    for larger in (answer(EMPTY + b" "), chunks(("10", EMPTY[:16]), (f"{len(EMPTY):x}", EMPTY), ("0", b"")), head("Connection: close") + EMPTY * 9):
        with pytest.raises(ServerUnavailable):
            ApiClient(raw([larger, RawServer.CLOSE]).url).request("GET", NODES)


@table("retry_after, seconds", {"two seconds": ("2", 2), "none": (None, None), "an hour: ten seconds": ("3600", 10), "a date": ("Wed, 21 Oct 2026 07:28:00 GMT", None)})
@pytest.mark.parametrize("status", [429, 503])
def test_a_request_is_sent_again_after_the_seconds_that_the_api_server_says(retry_after, seconds, status, raw, monkeypatch):
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


def test_a_request_names_the_program_and_its_version(raw):
    server = raw([answer()])
    ApiClient(server.url).request("GET", NODES)
    assert re.search(r"\r\nUser-Agent: scheduler_extras/[\d.]+\r\n", server.asked[0])


@table("host, path, sent", {
    "an address of IPv6": ("::1", "", "/api/v1/nodes"),
    "a path": ("127.0.0.1", "/a-proxy", "/a-proxy/api/v1/nodes"),
    "a path with other letters": ("127.0.0.1", "/büro", "/b%C3%BCro/api/v1/nodes"),
    "one that is quoted already": ("127.0.0.1", "/b%C3%BCro", "/b%C3%BCro/api/v1/nodes"),
})
def test_where_the_api_server_may_be(host, path, sent, raw):
    server = raw([answer()], host=host)
    options = read_arguments(["--server", f"{server.url}{path}/"])
    assert ApiClient(options.server).request("GET", NODES)["items"] == []
    assert server.asked[0].startswith(f"GET {sent} HTTP/1.1\r\nHost: {server.url.removeprefix('http://')}\r\n")


def test_https_is_refused_with_a_reason(capsys):
    with pytest.raises(SystemExit):
        read_arguments(["--server", "https://127.0.0.1:6443"])
    assert "--server: https needs a CA and a token, which kubectl proxy has: run it, and give its http:// URL" in capsys.readouterr().err


@table("errors, pauses, attempts", {
    "5xx: twice at once, then after longer and longer pauses": ([503] * 5, [1, 2, 4], 6),
    "no answer: never at once": ([0] * 3, [1, 2, 4], 4),
    "the API server says when: no sooner": ([(429, 3)] * 5, [3, 3, 3, 3, 4], 6),
    "a refusal: never": ([403], [], 1),
    "5xx without end: then it is given up": ([503] * 9, [1, 2, 4], 6),
})
def test_a_request_that_matters_is_sent_again_for_some_seconds(errors, pauses, attempts, monkeypatch):
    waited, asked, left = [], [], iter(errors)
    replace(monkeypatch, "rest", waited.append)

    def request():
        asked.append(1)
        for error in left:
            raise error_of(*(error[0], "busy", error[1]) if isinstance(error, tuple) else (error, "busy"))

    with contextlib.suppress(ApiError):
        patiently(request, pauses=LASTING)
    assert (waited, len(asked)) == (pauses, attempts)


def test_the_heartbeat_goes_on_while_the_loop_waits_as_long_as_the_api_server_asks(monkeypatch):
    beats, waited = [], iter([False, False, True])
    replace(monkeypatch, "heartbeat", lambda: beats.append(1))
    replace(monkeypatch, "STOP", types.SimpleNamespace(wait=lambda seconds: next(waited)))
    rest(3600)
    assert len(beats) == 2, "then a signal came"
