"""A pool of connections to one server, which are reused.

client.py sends its requests through it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from urllib.parse import SplitResult

from scheduler_extras.api.connection import Connection, HttpResponse, NoResponse
from scheduler_extras.api.service_account import ServiceAccount


OPEN_SECONDS = 5  # in which a connection must open, or a stream must begin


class ConnectionPool:
    """Connections to one server, shared by many threads. Each carries one request at a time."""

    def __init__(self, url: SplitResult, account: ServiceAccount | None):
        self.url = url
        self.account = account
        self.idle: list[Connection] = []  # connections whose last response was read to its end

    def ask(self, head: bytes, data: bytes, seconds: float, may_be_sent_again: bool,
            check: Callable[[], None]) -> HttpResponse:
        """Send a request, and return its HttpResponse. Raises OSError, ServerUnavailable, BadResponse.

        A server may close an idle connection just as it is reused. The request is then sent once more on a
        new connection, unless this could carry it out twice. check: as in `Connection.ask`.
        """
        connection = self.idle_connection()
        if connection:
            try:
                return connection.ask(head, data, seconds, check)
            except NoResponse:
                if not may_be_sent_again:
                    raise
        return self.new_connection().ask(head, data, seconds, check)

    def idle_connection(self) -> Connection | None:
        """Return an idle connection, or None."""
        with contextlib.suppress(IndexError):
            while True:
                connection = self.idle.pop()
                if connection.is_idle():
                    return connection
                connection.close()
        return None

    def new_connection(self) -> Connection:
        """Return a new connection. Raises OSError, ServerUnavailable."""
        tls = self.account.tls() if self.account else None
        return Connection(self.url.hostname or "", self.url.port or 80, OPEN_SECONDS, tls)

    def keep(self, response: HttpResponse) -> None:
        """Keep the connection of an HttpResponse for reuse, if it was read to its end."""
        if response.is_complete:
            self.idle.append(response.connection)
