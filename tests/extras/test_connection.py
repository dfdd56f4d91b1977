"""Connections and requests: timeouts, bodies and retries."""

import socket
import time

import pytest

from helpers.everywhere import replace
from helpers.extras import node, table
from helpers.faulty import ApiServer
from scheduler_extras.api.client import ApiClient
from scheduler_extras.api.http_retries import patiently
from scheduler_extras.api.responses import error_of
from scheduler_extras.api.watch import list_all
from scheduler_extras.common.errors import ApiError


def test_connecting_times_out_after_five_seconds_and_an_answer_after_a_minute():
    server = ApiServer()
    api = ApiClient(server.url)
    try:
        assert api.pool.new_connection().socket.gettimeout() == 5
        api.request("GET", "/api/v1/nodes")
        [connection] = api.pool.idle
        assert 59 < connection.ends_at - time.monotonic() <= 60
    finally:
        server.stop()


def test_an_idle_connection_that_the_server_has_closed_is_replaced():
    server = ApiServer(node("n"))
    api = ApiClient(server.url)
    try:
        for _ in range(3):
            assert len(api.request("GET", "/api/v1/nodes")["items"]) == 1
            [connection] = api.pool.idle
            connection.socket.shutdown(socket.SHUT_RD)  # from now on, reading gives the end of the stream
    finally:
        server.stop()


@table("body, sent", {"none": (None, b""), "empty": ({}, b"{}"), "non-ASCII text": ({"a": "\u00e4"}, b'{"a": "\\u00e4"}')})
def test_the_body_of_a_request(body, sent):
    server = ApiServer(node("n"))
    try:
        ApiClient(server.url).request("GET", "/api/v1/nodes", body)
        assert [asked.body for asked in server.asked] == [sent]
    finally:
        server.stop()


def test_a_request_that_ends_in_a_server_error_is_sent_three_times():
    sent = []

    def fail():
        sent.append(len(sent))
        raise error_of(500, "oops")

    with pytest.raises(ApiError):
        patiently(fail)
    assert len(sent) == 3


def test_one_warning_names_a_proxy_that_is_slow_to_answer(monkeypatch, caplog):
    class Slow(ApiClient):
        def request(self, *_):
            time.sleep(0.3)
            return {"items": []}

    replace(monkeypatch, "SLOW_SECONDS", 0.05)
    assert [list_all(Slow("http://127.0.0.1:8001"), resource) for resource in ("pods", "nodes", "pods")] == [([], "")] * 3
    assert caplog.messages == ["http://127.0.0.1:8001 has not answered for 0.05 s; it may take up to 60 s"]
