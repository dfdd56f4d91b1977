"""HTTP/1.1 over one connection, with bounds in time and size: a request at a time, and its answer.

proxy.py keeps idle connections and decides when to use one again.
"""

from __future__ import annotations

import contextlib
import math
import re
import socket
import ssl
import time
from collections.abc import Generator, Iterator


MOST_BYTES = 2**30  # of an answer: a page of 500 objects, each as large as etcd takes
LONGEST_LINE = 2**26  # of an answer's head, or of a stream
MOST_HEADERS = 100
LENGTH = re.compile("([0-9]{1,20})")  # of a body
CHUNK = re.compile("([0-9a-fA-F]{1,15})[ \t]*(;.*)?")  # the line before a chunk, with its size


class BadAnswer(ValueError):
    """What came is no HTTP answer, or too large."""


class NoAnswer(ConnectionError):
    """The connection ended before any byte of an answer."""


class Connection:
    """A connection to an HTTP server, and what it has received of the answer."""

    def __init__(self, host: str, port: int, seconds: float, tls: ssl.SSLContext | None = None):
        """Connect within so many seconds; with an SSLContext, over TLS. Raises OSError."""
        self.socket = socket.create_connection((host, port), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = encrypted(self.socket, tls, host)
        self.received = bytearray()  # and not read yet
        self.ends_at = math.inf  # when waiting ends, in monotonic seconds
        self.silence: float | None = None  # seconds: waiting ends only after a silence that long

    def close(self) -> None:
        """Close it."""
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

    def ask(self, head: bytes, body: bytes, seconds: float) -> Answer:
        """Send a request, and return its Answer, whose body has to be read within the same time.

        Raises OSError, BadAnswer; NoAnswer if the connection ends before the first byte.
        """
        self.silence = None
        self.ends_at = time.monotonic() + seconds
        try:
            self.send(head + body, seconds)
            return Answer(self)
        except BaseException:
            self.close()
            raise

    def send(self, message: bytes, seconds: float) -> None:
        """Send a request, and wait until its answer begins."""
        try:
            self.socket.settimeout(seconds)
            self.socket.sendall(message)
            has_begun = self.receive()
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise NoAnswer(*error.args) from error
        if not has_begun:
            raise NoAnswer("the connection was closed without an answer")

    def receive(self) -> bool:
        """Wait for more bytes. Return whether there are any; if not, the server has closed the connection."""
        if self.silence is not None:
            self.ends_at = time.monotonic() + self.silence
        left = self.ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self.socket.settimeout(left)
        data = self.socket.recv(2**18)
        self.received += data
        return bool(data)

    def receive_all_of(self) -> None:
        """Receive more bytes of something that is not complete yet. Raises BadAnswer if there are none."""
        if not self.receive():
            raise BadAnswer("the answer was cut off")

    def line(self) -> str:
        """Read a line, without its end."""
        searched = 0
        while (end := self.received.find(b"\n", searched)) < 0:
            searched = len(self.received)
            if searched > LONGEST_LINE:
                raise BadAnswer("a line of the answer is too long")
            self.receive_all_of()
        line = self.take(end + 1)
        return line.decode("latin-1").rstrip("\r\n")

    def take(self, size: int) -> bytes:
        """Take so many of the bytes that were received."""
        data = bytes(self.received[:size])
        del self.received[:size]
        return data

    def pieces_of(self, size: int) -> Iterator[bytes]:
        """Yield so many bytes, in pieces as they come."""
        while size > 0:
            if not self.received:
                self.receive_all_of()
            piece = self.take(size)
            size -= len(piece)
            yield piece


def encrypted(plain: socket.socket, tls: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    """Return a socket over TLS, after the handshake. Raises OSError; then the plain one is closed."""
    try:
        return tls.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


class Answer:
    """An answer whose head is read. Provisional ones before it (1xx, such as 103 Early Hints) are skipped."""

    def __init__(self, connection: Connection):
        self.connection = connection
        self.is_complete = False  # whether its body was read to the end, so that another one may follow
        self.status = 100
        while 100 <= self.status < 200:
            self.version, self.status, self.reason = self.status_line()
            self.headers = self.read_headers()

    def status_line(self) -> tuple[int, int, str]:
        """Read the first line."""
        line = self.connection.line()
        match = re.fullmatch(r"HTTP/1\.([01]) +([1-9][0-9]{2})(?: +(.*))?", line)
        if not match:
            raise BadAnswer(f"not an HTTP answer: {line:.80}")
        version, status, reason = match.groups()
        return int(version), int(status), reason or ""

    def read_headers(self) -> dict[str, str]:
        """Read the headers, {name in lower case: value}."""
        headers: dict[str, str] = {}
        for _ in range(MOST_HEADERS):
            line = self.connection.line()
            if not line:
                return headers
            name, _, value = line.partition(":")
            name = name.lower()
            value = value.strip()
            if name == "content-length" and headers.get(name, value) != value:
                raise BadAnswer("Content-Length comes twice")
            headers[name] = value
        raise BadAnswer(f"more than {MOST_HEADERS} headers")

    def retry_after(self) -> int:
        """Return after how many seconds the server wants the request to be sent again, or 0."""
        seconds = self.headers.get("retry-after", "")
        return int(seconds) if LENGTH.fullmatch(seconds) else 0

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in pieces, as they come; then close the connection, unless it can be used again.

        Raises OSError, BadAnswer.
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
        """Return the number at the beginning of a text. Raises BadAnswer if it is none, or too large."""
        match = form.fullmatch(text)
        size = int(match[1], base) if match else MOST_BYTES + 1
        if size > MOST_BYTES:
            raise BadAnswer(f"not a size that can be: {text:.80}")
        return size

    def chunks(self) -> Iterator[bytes]:
        """Yield the pieces of a chunked body."""
        coding = self.headers["transfer-encoding"]
        if coding.lower() != "chunked":
            raise BadAnswer(f"Transfer-Encoding: {coding:.80}")
        while size := self.size(CHUNK, self.connection.line(), 16):
            yield from self.connection.pieces_of(size)
            if self.connection.line():
                raise BadAnswer("a chunk is longer than its size")
        self.read_headers()  # the trailers

    def rest_of_connection(self) -> Iterator[bytes]:
        """Yield what comes until the server closes the connection."""
        while self.connection.received or self.connection.receive():
            yield self.connection.take(len(self.connection.received))

    def read(self) -> bytes:
        """Read the whole body. Raises OSError, BadAnswer."""
        data = bytearray()
        for piece in self.pieces():
            data += piece
            if len(data) > MOST_BYTES:
                raise BadAnswer(f"more than {MOST_BYTES} bytes")
        return bytes(data)

    def lines(self, silence: float) -> Generator[bytes, None, None]:
        """Yield the lines of the body, as they come. Raises OSError if nothing comes for so many seconds."""
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
                raise BadAnswer("a line of the stream is too long")
        if rest:
            yield bytes(rest)
