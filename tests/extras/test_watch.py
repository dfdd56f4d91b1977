"""Reflectors beside API servers whose LISTs and streams fail."""

import queue
import threading
import time

import pytest

from helpers.control_plane import wait_for
from helpers.everywhere import replace
from helpers.extras import table
from helpers.fake_api import Clock
from scheduler_extras.api.responses import JSON, Unreadable, error_of
from scheduler_extras.api.watch import Reflector, list_all
from scheduler_extras.common.errors import ServerUnavailable
from scheduler_extras.manifests.manifests import Manifests


class Streams(Manifests):
    """An API whose watches deliver the given streams one after another. It counts its lists."""

    def __init__(self, *streams):
        self.streams, self.lists, self.asked = list(streams), 0, []

    def request(self, method, path, body=None, params=None, check=None):
        self.lists += 1
        return {"items": [], "metadata": {"resourceVersion": str(1000 * self.lists)}}

    def watch(self, path, params, silence):
        self.asked.append(params["resourceVersion"])
        stream = self.streams.pop(0) if self.streams else None
        if isinstance(stream, Exception):
            raise stream
        return self.events(stream)

    def events(self, stream):
        if stream is None:
            threading.Event().wait()  # not time.sleep, which a test may replace
        for event in stream:
            if isinstance(event, Exception):
                raise event
            yield event


def watch_event(name, version, what="ADDED"):
    return {"type": what, "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}


GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}


BREAKS = error_of(0, "broken")


@table("streams, lists, versions, names", {
    "a stream that ends: the next one starts at its last version": ([[watch_event("a", 1005)], [watch_event("b", 1006)]], 1, ["1000", "1005", "1006"], "ab"),
    "a bookmark: the next one starts at its version": ([[watch_event("", 1009, "BOOKMARK")], [watch_event("a", 1012)]], 1, ["1000", "1009", "1012"], "a"),
    "a stream that breaks: the same": ([[watch_event("a", 1005), BREAKS], [watch_event("b", 1006)]], 1, ["1000", "1005", "1006"], "ab"),
    "a stream that breaks before its first event: a new list": ([[BREAKS], [watch_event("a", 2005)]], 2, ["1000", "2000", "2005"], "a"),
    "a stream that ends at once: a new list": ([[]], 2, ["1000", "2000"], ""),
    "a stream that does not begin: a new list, as etcd may have been restored from a backup": ([BREAKS, [watch_event("a", 5)]], 2, ["1000", "2000", "5"], "a"),
    "410 in an event: a new list": ([[watch_event("a", 1005), GONE]], 2, ["1000", "2000"], "a"),
    "410 as the answer to the watch": ([error_of(410, "gone")], 2, ["1000", "2000"], ""),
    "404, as the resource has gone": ([error_of(404, "no")], 2, ["1000", "2000"], ""),
    "405, as the resource can only be listed": ([error_of(405, "no")], 2, ["1000", "2000"], ""),
    "an object that is a number": ([[{"type": "ADDED", "object": 7}]], 2, ["1000", "2000"], ""),
    "an answer that is a list": ([[{"kind": "PodList", "items": []}]], 2, ["1000", "2000"], ""),
    "an event of an unknown type": ([[{"type": "LISTED", "object": {}}]], 2, ["1000", "2000"], ""),
    "403, without the right to watch": ([error_of(403, "no")], 2, ["1000", "2000"], ""),
})
def test_a_reflector(streams, lists, versions, names, monkeypatch, caplog):
    replace(monkeypatch, "backoff", lambda *failures, **error: 0)
    api, news = Streams(*streams), queue.SimpleQueue()
    threading.Thread(target=Reflector(api, "nodes", "", news).work, daemon=True).start()
    wait_for("the last watch is open", lambda: len(api.asked) == len(versions))
    events = [news.get() for _ in range(news.qsize())]
    assert (api.lists, api.asked) == (lists, versions)
    assert "".join(content["metadata"]["name"] for _, what, content in events if what != "LISTED") == names
    assert [what for _, what, _ in events].count("LISTED") == lists
    has_no_right = any(getattr(stream, "status", None) == 403 for stream in streams)
    assert ("until that is allowed, nodes are listed every 10 s" in caplog.text) == has_no_right


@table("seconds, lists", {"ends in time keeps its version": (20, 0), "ends late, as if held back, leads to a new list": (25, 1)})
def test_a_stream_without_events_that(seconds, lists, monkeypatch):
    clock, api = Clock(monkeypatch), Streams()
    def stream():
        clock.now += seconds
        raise BREAKS
        yield
    api.events = lambda _: stream()
    reflector = Reflector(api, "nodes", "7", queue.Queue())
    reflector.watch()
    assert reflector.version == ("" if lists else "7")


def test_one_warning_says_that_watches_deliver_no_events(monkeypatch, caplog):
    replace(monkeypatch, "backoff", lambda *failures, **error: 0)
    api = Streams(*[[]] * 6)
    threading.Thread(target=Reflector(api, "nodes", "", queue.Queue()).work, daemon=True).start()
    wait_for("the last watch is open", lambda: len(api.asked) == 7)
    [message] = caplog.messages
    assert message.startswith("watches deliver no events, for example that of nodes (they end at once), so it is listed every 10 s")


@table("fault", {"it breaks": BREAKS, "its only event is 410": [GONE]})
def test_a_stream_that_fails_is_reopened_after_1_2_4_to_10_seconds(monkeypatch, fault):
    clock, pauses, here, plain = Clock(monkeypatch), [], threading.get_ident(), time.sleep

    def sleep(seconds):
        if threading.get_ident() != here:  # a thread of an earlier test
            plain(0.01)
            return
        pauses.append(round(seconds))
        clock.now += seconds
        if len(pauses) == 7:
            raise SystemExit

    monkeypatch.setattr(time, "sleep", sleep)
    reflector = Reflector(Streams(*[fault] * 9), "nodes", "", queue.SimpleQueue())
    with pytest.raises(SystemExit):
        reflector.work()
    assert pauses == [1, 2, 4, 8, 10, 10, 10]


def test_a_stream_is_closed_after_a_410_event(monkeypatch):
    replace(monkeypatch, "backoff", lambda *failures, **error: 0)
    closed = []

    def stream():
        try:
            yield GONE
            yield watch_event("a", 5)
        finally:
            closed.append(True)

    api = Streams(stream())
    api.events = lambda stream: stream or time.sleep(3600)
    reflector = Reflector(api, "nodes", "", queue.SimpleQueue())
    threading.Thread(target=reflector.work, daemon=True).start()
    wait_for("the stream is closed", lambda: closed)


@table("answer", {"nothing": {}, "something else": {"kind": "Status"}, "items that are a number": {"items": 7}})
def test_a_list_without_items_is_an_error_and_not_an_empty_cluster(answer):
    api = Streams()
    api.request = lambda *request, **more: answer
    with pytest.raises(ServerUnavailable, match="the list of pods is not as expected: items: "):
        list_all(api, "pods")

    def unreadable(path, params, accept=JSON):
        if accept == JSON:
            raise Unreadable(0, "no JSON")
        return {"items": 7}

    api.get = unreadable
    with pytest.raises(ServerUnavailable):
        list_all(api, "pods")
