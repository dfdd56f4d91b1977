"""The HTTP server of --listen: read-only, with few connections, and a table of routes.

runs.py starts it. health.py, gauges.py and pages.py have the routes.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from scheduler import log
from scheduler_extras.common.errors import InputError
from scheduler_extras.common.log_texts import one_line


MAX_CONNECTIONS = 32
MAX_THREADS = 128  # more than connections: a thread may take a while to notice that its connection is closed
SECONDS = 10  # in which a client must send its request, or receive a part of the response
HEADERS = {  # of each response; its own headers take precedence
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
                               "frame-ancestors 'none'; "
                               "style-src 'self'; script-src 'self'; connect-src 'self'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff"}


@dataclass
class Request:
    """A GET request."""

    path: str
    query: dict[str, list[str]]


@dataclass
class Response:
    """A response. If its body is a generator, each item is sent as soon as it is yielded.

    The generator runs in the client's thread. It is closed at the first item after the client is gone.
    """

    body: bytes | Generator[bytes, None, None]
    kind: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Routes = dict[str, Callable[[Request], Response]]  # path -> handler, called in the client's thread


class Server(ThreadingHTTPServer):
    """Serves routes, which may be added while it runs.

    Each connection has a thread and carries one request. If there are too many connections, the oldest is
    closed, so that slow clients and streams never block a probe. (Streams reconnect.)
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: str, port: int, routes: Routes):
        self.routes = routes
        self.host = address.lower()
        self.connections: dict[socket.socket, bool] = {}  # connection of a thread -> whether it is open
        self.lock = threading.Lock()  # held while `connections` changes
        if ":" in address:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((address, port), Handler)
        except OSError as error:
            where = f"{address}, port {port}"
            raise InputError(f"--listen: cannot listen on {where}: {one_line(error)}") from error

    @property
    def url(self) -> str:
        """The URL of the server."""
        address, port = self.socket.getsockname()[:2]
        return f"http://[{address}]:{port}/" if ":" in address else f"http://{address}:{port}/"

    def server_bind(self) -> None:
        """Bind the socket, without HTTPServer's DNS lookup, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def start(self) -> None:
        """Serve in the background, as long as the process lives."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a new connection in its own thread; if there are too many, close the oldest."""
        with self.lock:
            if len(self.connections) >= MAX_THREADS:
                super().shutdown_request(request)
                return
            self.connections[request] = True
            opened = [connection for connection, is_open in self.connections.items() if is_open]
            if len(opened) > MAX_CONNECTIONS:
                self.connections[opened[0]] = False
                with contextlib.suppress(OSError):
                    opened[0].shutdown(socket.SHUT_RDWR)  # its thread ends
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and remove it from `connections`."""
        with self.lock:
            self.connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a failed connection with --verbose only, because clients come and go."""
        log.debug("a connection from %s has failed", client_address[0], exc_info=True)

    def may_ask(self, host: str) -> bool:
        """Return whether a Host header names this server.

        A foreign web page can make its own host name resolve to this machine (DNS rebinding). The browser
        then sends that public name. So only addresses and names that cannot be public are accepted.
        """
        name = re.sub(r":\d*$", "", host.lower())
        is_address = re.fullmatch(r"\[[\da-f:.]+]|[\d.]+", name)
        is_local = re.fullmatch(r"[\w-]+|[\w.-]+\.(localhost|local|svc)", name)
        return bool(is_address or is_local or name == self.host)


class Handler(BaseHTTPRequestHandler):
    """Reads a request, and sends the response of its route."""

    server: Server
    timeout = SECONDS

    def do_GET(self) -> None:
        """Answer a GET request."""
        self.send(self.answer())

    do_HEAD = do_GET

    def answer(self) -> Response:
        """Return the response of the route, or an error."""
        if not self.server.may_ask(self.headers.get("Host", "")):
            return Response(b"the Host header names another server\n", status=421)
        try:
            url = urlsplit(self.path)
        except ValueError as error:
            return Response(f"{one_line(error)}\n".encode(errors="replace"), status=400)
        handler = self.server.routes.get(url.path)
        if not handler:
            return Response(f"not found; there is {', '.join(self.server.routes)}\n".encode(), status=404)
        query = parse_qs(url.query, keep_blank_values=True)
        try:
            return handler(Request(url.path, query))
        except Exception as error:
            log.debug("GET %s", url.path, exc_info=error)
            return Response(f"{one_line(error)}\n".encode(errors="replace"), status=500)

    def send(self, answer: Response) -> None:
        """Send a response. Send the parts of a stream as soon as they are yielded."""
        body = answer.body
        self.log_request(answer.status)
        self.send_response_only(answer.status)
        length = {"Content-Length": str(len(body))} if isinstance(body, bytes) else {}
        for name, value in (HEADERS | length | {"Content-Type": answer.kind} | answer.headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if isinstance(body, bytes):
            self.wfile.write(body)
            return
        with contextlib.closing(body) as parts:
            for part in parts:
                self.wfile.write(part)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log requests with --verbose only."""
        log.debug(f"%s {format}", self.address_string(), *arguments)
