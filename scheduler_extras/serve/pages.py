"""The routes of the live page: the page, its frames as server-sent events, and the page with its data inside.

runs.py adds them to the server.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Generator

from scheduler_extras.serve.server import Request, Response, Routes
from scheduler_extras.show.frames import Frames
from scheduler_extras.show.page.page import POLICY, VERSION, document, page


PAUSE = 0.1  # seconds between events at least; frames that are added meanwhile are sent together
ALIVE = 2  # seconds between "alive" events; after 5 without one, the page shows that the connection is lost
HEADERS = {"Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'"}


def page_routes(frames: Frames, operator: Callable[[], dict] = dict) -> Routes:
    """Return the routes of a journal's page. operator: returns the values for the operator's line."""
    def index(request: Request) -> Response:
        """Answer with the page, which then asks for the frames."""
        return Response(page().encode(), "text/html; charset=utf-8", headers=HEADERS)

    def events(request: Request) -> Response:
        """Answer with a stream of frames."""
        return Response(events_of(frames, operator), "text/event-stream")

    def saved(request: Request) -> Response:
        """Answer with the page of --output html."""
        name = {"Content-Disposition": 'attachment; filename="decisions.html"'}
        return Response(document(frames).encode(), "text/html; charset=utf-8", headers=HEADERS | name)

    return {"/": index, "/events": events, "/page.html": saved}


def events_of(frames: Frames, operator: Callable[[], dict] = dict) -> Generator[bytes, None, None]:
    """Yield the state of a journal, then its new frames, as server-sent events.

    If frames were dropped before they could be sent, yield the state again.
    """
    yield server_sent("version", VERSION)
    with frames.being_read():
        number, state = frames.state()
        yield server_sent("state", state)
        alive_at = -math.inf
        while True:
            if time.monotonic() >= alive_at + ALIVE:
                alive_at = time.monotonic()
                yield server_sent("alive", json.dumps(operator()))
            texts = frames.since(number, ALIVE)
            if texts is None:
                number, state = frames.state()
                yield server_sent("state", state)
            elif texts:
                number += len(texts)
                yield server_sent("frames", f"[{', '.join(texts)}]")
                time.sleep(PAUSE)


def server_sent(kind: str, text: str) -> bytes:
    """Return a server-sent event."""
    data = text.replace("\n", "\ndata: ")
    return f"event: {kind}\ndata: {data}\n\n".encode()
