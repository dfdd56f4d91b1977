"""The client of the API server: unreadable objects, and streams that break in the middle of a line."""

import io

import pytest

from helpers.extras import node, pod
from helpers.faulty import ApiServer
from scheduler_extras.api.client import ApiClient, objects_of
from scheduler_extras.api.watch import list_all
from scheduler_extras.common.errors import ServerUnavailable


def test_a_truncated_line_breaks_the_stream_and_loses_nothing():
    server = ApiServer(node("n"))
    text = b'{"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "5"}}}\n{"type": "ADD'
    try:
        names = []
        with pytest.raises(ServerUnavailable):
            for event in objects_of(io.BytesIO(text), "/api/v1/pods"):
                names.append(event["object"]["metadata"]["name"])
        assert names == ["a"], "the next stream delivers the rest"
    finally:
        server.stop()


def test_an_unreadable_object_does_not_hide_the_others_in_its_list(monkeypatch, caplog):
    """It is nested deeper than Python's JSON parser can read."""
    deep = "[" * 100_000 + "]" * 100_000
    server = ApiServer(*(pod(f"p{i}") for i in range(3)))
    plain = ApiClient.exchange

    def answer(api, method, path, body, params, accept, check):
        answer, data = plain(api, method, path, body, params, accept, check)
        is_whole = "PartialObjectMetadata" not in accept
        if path.endswith("/pods/p1") or (path.endswith("/pods") and is_whole):
            data = data.replace(b'"p1"', b'"p1", "x": ' + deep.encode())
        return answer, data

    monkeypatch.setattr(ApiClient, "exchange", answer)
    try:
        things, _ = list_all(ApiClient(server.url), "pods")
        assert [thing["metadata"]["name"] for thing in things] == ["p0", "p2"]
        [message] = caplog.messages
        assert message.startswith("pods default/p1 is skipped: GET /api/v1/namespaces/default/pods/p1: 200 OK: ")
    finally:
        server.stop()
