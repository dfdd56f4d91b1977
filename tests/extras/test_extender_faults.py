"""Faulty extenders: the timeout covers the whole call, and the size of an answer is limited."""

import gzip
import json
import re
import time

import pytest

from helpers.extras import node, pod, run_scheduler, table
from helpers.faults import policy_file, run_limited
from helpers.faulty import ExtenderServer, answering, hang, trickle


def body_trickles(request):
    """Send the headers at once, and the body at one byte a second."""
    head, body = request.message(*request.carry_out())
    request.send(head)
    for byte in body:
        request.send(bytes([byte]))
        request.pause(1)


def chunks_trickle(request):
    """Send chunks of one byte without end."""
    request.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        request.send(b"1\r\n \r\n")
        request.pause(0.5)


def headers_trickle(request):
    """Send headers without end."""
    request.send(b"HTTP/1.1 200 OK\r\n")
    for number in range(90):
        request.send(f"X-{number}: a\r\n".encode())
        request.pause(1.5)  # all 90 take longer than the time limit of the run


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@table("fault", {
    "that hangs": (hang,),
    "that trickles": (trickle,),
    "whose body trickles": (body_trickles,),
    "whose chunks trickle": (chunks_trickle,),
    "whose headers trickle": (headers_trickle,),
})
def test_the_timeout_covers_the_whole_call_of_an_extender(fault, verb, serve, tmp_path):
    extender = serve(ExtenderServer(filter=(200, {"Nodes": {"items": [node("a"), node("b")]}}),
                                    prioritize=(200, [{"Host": "a", "Score": 10}])))
    extender.faults[""] = fault[0]
    policy = policy_file(tmp_path, [
        {"urlPrefix": extender.url, f"{verb}Verb": verb, "weight": 1, "httpTimeout": 10**9}])
    (tmp_path / "m.json").write_text(json.dumps({"kind": "List", "items": [node("a"), node("b"), pod("p")]}))
    run = run_scheduler("--policy", policy, "--cluster", tmp_path / "m.json", "--once")
    assert time.monotonic() - extender.asked[0].at < 120 and run.returncode == 0, run
    assert re.search("no answer|timed out|timeout|within 1 s", run.stdout + run.stderr), run


def packs(request):
    """Answer with gzip encoding although the request does not accept it."""
    request.server.packing = request.handler.headers["Accept-Encoding"]
    answer = {"Nodes": {"items": [node("n")]}}
    request.answer(200, gzip.compress(json.dumps(answer).encode()), {"Content-Encoding": "gzip"})


def floods(request):
    """Send a very long answer, fast."""
    request.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    request.server.flooded = 0
    while request.server.flooded < 600:
        request.send(chunk)
        request.server.flooded += 1
    request.send(b"0\r\n\r\n")


def inflates(request):
    """Send a short answer that decompresses to a very long one."""
    request.answer(200, INFLATES, {"Content-Encoding": "gzip"})


INFLATES = gzip.compress(bytes(1 << 20)) * 3000  # members of a megabyte each


@table("fault", {"long": (floods,), "long when decompressed": (inflates,), "compressed": (packs,)})
def test_an_answer_of_an_extender_is_refused_if_it_is(fault, serve, tmp_path):
    extender = serve(ExtenderServer())
    extender.flooded, extender.packing, extender.faults[""] = 0, "identity", fault[0]
    policy = policy_file(tmp_path, [{"urlPrefix": extender.url, "filterVerb": "filter", "httpTimeout": 30 * 10**9}])
    (tmp_path / "m.json").write_text(json.dumps({"kind": "List", "items": [node("n"), pod("p")]}))
    code, out, err, _ = run_limited("--policy", policy, "--cluster", tmp_path / "m.json")
    assert code == 0 and "default/p stays pending: extender" in out, (code, out[-300:], err[-300:])
    assert "Error" not in out and "Traceback" not in err, (out, err)
    assert extender.flooded < 500, f"{extender.flooded} MB were read"
    assert extender.packing == "identity"


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_of_an_extender_to_another_host_is_not_followed(code, serve, tmp_path):
    other = serve(ExtenderServer("127.0.0.2", filter=(200, {"Nodes": {"items": [node("n")]}})))
    extender = serve(ExtenderServer())
    extender.faults[""] = answering(code, Location=f"{other.url}/filter")
    policy = policy_file(tmp_path, [{"urlPrefix": extender.url, "filterVerb": "filter"}])
    (tmp_path / "m.json").write_text(json.dumps({"kind": "List", "items": [node("n"), pod("p")]}))
    _, out, err, _ = run_limited("--policy", policy, "--cluster", tmp_path / "m.json")
    assert other.asked == [] and "stays pending: extender" in out, (other.asked, out, err)
