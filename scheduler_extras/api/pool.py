"""The connections to one server, of which idle ones are used again.

proxy.py sends its requests through a pool.
"""

from __future__ import annotations

import contextlib
from urllib.parse import SplitResult

from scheduler_extras.api.connection import Answer, Connection, NoAnswer
from scheduler_extras.api.service_account import ServiceAccount


OPEN_SECONDS = 5  # in which a connection has to be there, or a stream to begin


class ConnectionPool:
    """The connections to one server, for many threads. Each is used by one request at a time."""

    def __init__(self, url: SplitResult, account: ServiceAccount | None):
        self.url = url
        self.account = account
        self.idle: list[Connection] = []  # those whose last answer was read to its end

    def ask(self, head: bytes, data: bytes, seconds: float, may_be_sent_again: bool) -> Answer:
        """Send a request; return its Answer. Raises OSError, Trouble, BadAnswer.

        A server may close an idle connection just as it is used again. Then the request is sent once more on
        a new one, unless that could carry it out twice.
        """
        connection = self.idle_connection()
        if connection:
            try:
                return connection.ask(head, data, seconds)
            except NoAnswer:
                if not may_be_sent_again:
                    raise
        return self.new_connection().ask(head, data, seconds)

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
        """Return a new connection. Raises OSError, Trouble."""
        tls = self.account.tls() if self.account else None
        return Connection(self.url.hostname or "", self.url.port or 80, OPEN_SECONDS, tls)

    def keep(self, answer: Answer) -> None:
        """Use the connection of an answer again, if the answer was read to its end."""
        if answer.is_complete:
            self.idle.append(answer.connection)
