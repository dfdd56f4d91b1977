"""HTTP/1.1 over one connection, with limits on time and size: one request at a time, and its response.

pool.py reuses the connections.
"""

from __future__ import annotations

import contextlib
import math
import re
import socket
import ssl
import time
from collections.abc import Callable, Generator, Iterator


MAX_BYTES = 2**30  # of a response: a page of 500 objects, each of the largest size that etcd accepts
LONGEST_LINE = 2**26  # bytes of a header line, or of a line of a stream
MAX_HEADERS = 100
LENGTH = re.compile("([0-9]{1,20})")  # of a body
CHUNK = re.compile("([0-9a-fA-F]{1,15})[ \t]*(;.*)?")  # the line before a chunk, with its size


class BadResponse(ValueError):
    """The server's data is not an HTTP response, or is too large."""


class NoResponse(ConnectionError):
    """The connection ended before the first byte of a response."""


class Connection:
    """A connection to an HTTP server, with the bytes of the response that were received."""

    def __init__(self, host: str, port: int, seconds: float, tls: ssl.SSLContext | None = None):
        """Connect within so many seconds; with an SSLContext, over TLS. Raises OSError."""
        self.socket = socket.create_connection((host, port), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = encrypted(self.socket, tls, host)
        self.received = bytearray()  # received, but not yet read
        self.ends_at = math.inf  # when waiting ends, in monotonic seconds
        self.silence: float | None = None  # seconds without data after which waiting ends; overrides ends_at

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def is_idle(self) -> bool:
        """Return whether the server has neither closed the connection nor sent anything unasked."""
        self.socket.settimeout(0)
        with contextlib.suppress(OSError):
            try:
                socket.socket.recv(self.socket, 1, socket.MSG_PEEK)  # below TLS, which cannot peek
            except BlockingIOError:
                return True
        return False

    def ask(self, head: bytes, body: bytes, seconds: float,
            check: Callable[[], None] = lambda: None) -> HttpResponse:
        """Send a request, and return its HttpResponse, whose body must also be read within `seconds`.

        check: called immediately before the request is sent. If it raises, nothing is sent.
        Raises OSError, BadResponse; NoResponse if the connection ends before the first byte.
        """
        self.silence = None
        self.ends_at = time.monotonic() + seconds
        try:
            message = head + body
            check()
            self.send(message, seconds)
            return HttpResponse(self)
        except BaseException:
            self.close()
            raise

    def send(self, message: bytes, seconds: float) -> None:
        """Send a request, and wait until the response begins."""
        try:
            self.socket.settimeout(seconds)
            self.socket.sendall(message)
            has_begun = self.receive()
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise NoResponse(*error.args) from error
        if not has_begun:
            raise NoResponse("the connection was closed without a response")

    def receive(self) -> bool:
        """Wait for more bytes. Return False if the server has closed the connection."""
        if self.silence is not None:
            self.ends_at = time.monotonic() + self.silence
        left = self.ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self.socket.settimeout(left)
        data = self.socket.recv(2**18)
        self.received += data
        return bool(data)

    def receive_more(self) -> None:
        """Receive more bytes of an incomplete response. Raises BadResponse if there are none."""
        if not self.receive():
            raise BadResponse("the response was cut off")

    def line(self) -> str:
        """Read a line, without its end."""
        searched = 0
        while (end := self.received.find(b"\n", searched)) < 0:
            searched = len(self.received)
            if searched > LONGEST_LINE:
                raise BadResponse("a line of the response is too long")
            self.receive_more()
        line = self.take(end + 1)
        return line.decode("latin-1").rstrip("\r\n")

    def take(self, size: int) -> bytes:
        """Remove up to `size` bytes from those received, and return them."""
        data = bytes(self.received[:size])
        del self.received[:size]
        return data

    def pieces_of(self, size: int) -> Iterator[bytes]:
        """Yield `size` bytes, in pieces as they arrive."""
        while size > 0:
            if not self.received:
                self.receive_more()
            piece = self.take(size)
            size -= len(piece)
            yield piece


def encrypted(plain: socket.socket, tls: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    """Return a socket over TLS, after the handshake. If this raises OSError, the plain socket is closed."""
    try:
        return tls.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


class HttpResponse:
    """A response whose head has been read. Interim responses (1xx, such as 103 Early Hints) are skipped."""

    def __init__(self, connection: Connection):
        self.connection = connection
        self.is_complete = False  # whether its body was read to the end, so that the connection can be reused
        self.status = 100
        while 100 <= self.status < 200:
            self.version, self.status, self.reason = self.status_line()
            self.headers = self.read_headers()

    def status_line(self) -> tuple[int, int, str]:
        """Read the first line: HTTP's minor version, the status, the reason."""
        line = self.connection.line()
        match = re.fullmatch(r"HTTP/1\.([01]) +([1-9][0-9]{2})(?: +(.*))?", line)
        if not match:
            raise BadResponse(f"not an HTTP response: {line:.80}")
        version, status, reason = match.groups()
        return int(version), int(status), reason or ""

    def read_headers(self) -> dict[str, str]:
        """Read the headers, {name in lower case: value}."""
        headers: dict[str, str] = {}
        for _ in range(MAX_HEADERS):
            line = self.connection.line()
            if not line:
                return headers
            name, _, value = line.partition(":")
            name = name.lower()
            value = value.strip()
            if name == "content-length" and headers.get(name, value) != value:
                raise BadResponse("conflicting Content-Length headers")
            headers[name] = value
        raise BadResponse(f"more than {MAX_HEADERS} headers")

    def retry_after(self) -> int:
        """Return the seconds of the Retry-After header, or 0."""
        seconds = self.headers.get("retry-after", "")
        return int(seconds) if LENGTH.fullmatch(seconds) else 0

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in pieces, as they arrive. Then close the connection, unless it can be reused.

        Raises OSError, BadResponse.
        """
        has_end = "content-length" in self.headers or "transfer-encoding" in self.headers
        is_kept = self.version == 1 and self.headers.get("connection", "").lower() != "close"
        try:
            if self.status in (204, 304):
                has_end = True
            elif "transfer-encoding" in self.headers:
                yield from self.chunks()
            elif has_end:
                yield from self.connection.pieces_of(self.size(LENGTH, self.headers["content-length"], 10))
            else:
                yield from self.rest_of_connection()
            self.is_complete = has_end and is_kept and not self.connection.received
        finally:
            if not self.is_complete:
                self.connection.close()

    def size(self, form: re.Pattern, text: str, base: int) -> int:
        """Return the size at the beginning of a text. Raises BadResponse if it is invalid or too large."""
        match = form.fullmatch(text)
        size = int(match[1], base) if match else MAX_BYTES + 1
        if size > MAX_BYTES:
            raise BadResponse(f"invalid size: {text:.80}")
        return size

    def chunks(self) -> Iterator[bytes]:
        """Yield the pieces of a chunked body."""
        coding = self.headers["transfer-encoding"]
        if coding.lower() != "chunked":
            raise BadResponse(f"Transfer-Encoding: {coding:.80}")
        while size := self.size(CHUNK, self.connection.line(), 16):
            yield from self.connection.pieces_of(size)
            if self.connection.line():
                raise BadResponse("a chunk is longer than its size")
        self.read_headers()  # the trailers

    def rest_of_connection(self) -> Iterator[bytes]:
        """Yield all data until the server closes the connection."""
        while self.connection.received or self.connection.receive():
            yield self.connection.take(len(self.connection.received))

    def read(self) -> bytes:
        """Read the whole body. Raises OSError, BadResponse."""
        data = bytearray()
        for piece in self.pieces():
            data += piece
            if len(data) > MAX_BYTES:
                raise BadResponse(f"more than {MAX_BYTES} bytes")
        return bytes(data)

    def lines(self, silence: float) -> Generator[bytes, None, None]:
        """Yield the lines of the body as they arrive. Raises OSError after `silence` seconds without data."""
        self.connection.silence = silence
        rest = bytearray()
        for piece in self.pieces():
            searched = len(rest)
            rest += piece
            while (end := rest.find(b"\n", searched)) >= 0:
                yield bytes(rest[:end])
                del rest[:end + 1]
                searched = 0
            if len(rest) > LONGEST_LINE:
                raise BadResponse("a line of the stream is too long")
        if rest:
            yield bytes(rest)
