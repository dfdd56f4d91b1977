"""Lists of an API server with impossible objects, with deep nesting, or that are not JSON."""

import json
import time
from collections import Counter

from helpers.control_plane import wait_for
from helpers.extras import node, pod, table
from helpers.faulty import ApiServer
from scheduler_extras.api.responses import read_json


IN_HASTE = """import sys
from helpers.everywhere import replace_for_good
from scheduler_extras.api.http_retries import backoff
from scheduler_extras.command_line import main
replace_for_good("backoff", lambda *arguments, **more: backoff(*arguments, **more) / 10)
sys.exit(main())"""


def listed(*objects, resource="pods"):
    """Return a function that adds objects to the list of pods or of another resource."""
    return lambda asked, selector: list(objects) if asked == resource else []


def bare(**parts):
    """A pod with these parts replaced."""
    thing = pod("bare", metadata={"uid": "uid-bare"})
    for part, value in parts.items():
        thing[part] = value
    return thing


@table("extra, named, never", {  # additional objects in the list, a name in the log, a pod that must not be bound
    "a pod whose nodeName is a number": (
        listed(bare(spec={"nodeName": 7, "containers": []})), "bare", "bare"),
    "a malformed pod without a node": (
        listed(bare(spec={"containers": 7})), "bare", "bare"),
    "a pod with a node in the list of pending pods": (
        listed(pod("has", nodeName="n", metadata={"uid": "uid-has"})), "", "has"),
    "another scheduler's pod in the list of pending pods": (
        listed(pod("other", schedulerName="other", metadata={"uid": "uid-o"})), "", "other"),
    "a pod without a name": (listed(bare(metadata={"namespace": "default", "uid": "u"})), "", ""),
    "a pod without metadata": (listed(bare(metadata=None)), "", ""),
    "a pod whose spec is a string": (listed(bare(spec="none")), "bare", "bare"),
    "a node without a name": (listed({"kind": "Node", "metadata": {}}, resource="nodes"), "", ""),
    "a node whose status is a list": (
        listed({"kind": "Node", "metadata": {"name": "odd"}, "status": []}, resource="nodes"), "odd", "odd"),
    "a pod 500 levels deep": (
        listed(bare(spec={"containers": json.loads("[" * 500 + "]" * 500)})), "bare", "bare"),
})
def test_an_impossible_object_is_skipped(extra, named, never, serve, start):
    server = serve(ApiServer(node("n"), pod("fine")))
    server.extra.append(extra)
    running = start(server, "--interval=0.2")
    wait_for("the valid pod is bound", lambda: server.placements() == {"default/fine": "n"})
    server.create(pod("fine-too"))
    wait_for("another pod is bound", lambda: "default/fine-too" in server.placements())
    assert running.poll() is None and "Traceback" not in running.err, running.err
    assert len(running.err) < 2000, running.err
    bound = {asked.pod.rpartition("/")[2] for asked in server.sent("binding")}
    assert bound == {"fine", "fine-too"}, f"Bindings were sent for {bound}"
    assert named in running.err, running.err


def test_a_pod_that_is_listed_twice_is_bound_once(serve, start):
    server = serve(ApiServer(node("n"), pod("a"), pod("fine")))
    server.extra.append(lambda resource, selector: [
        thing for thing in server.pods.values() if resource == "pods" and "nodeName" not in thing["spec"]])
    running = start(server, "--interval=0.2")
    wait_for("the pods are bound", lambda: server.placements() == {"default/a": "n", "default/fine": "n"})
    time.sleep(0.5)
    assert Counter(asked.pod for asked in server.sent("binding")) == {"default/a": 1, "default/fine": 1}
    assert "Traceback" not in running.err, running.err


def test_an_assigned_pod_that_is_listed_twice_takes_room_once(serve, start):
    there = pod("there", {"cpu": "1"}, nodeName="n")
    server = serve(ApiServer(node("n", cpu="2"), there, pod("fits", {"cpu": "1"})))
    server.extra.append(listed(there))
    running = start(server, "--interval=0.2")
    wait_for("the pod is bound", lambda: "default/fits" in server.placements())
    server.create(pod("large", {"cpu": "1"}))
    wait_for("the decision is printed", lambda: "default/large stays pending" in running.out)
    assert "default/large" not in server.placements(), "the node is full"


# Nested objects; API servers reject nested lists in them.
DEEP = b'[{"fieldsV1": {"f:]\\"": {}, "managedFields": ' + b'{"f:a": ' * 9000 + b"{}" + b"}" * 9000 + b"}}]"


def deep_managed_fields(request):
    """The managedFields of all listed objects are nested as deeply as the API server allows."""
    code, content, headers = request.carry_out()
    things = [thing | {"metadata": thing["metadata"] | {"managedFields": "DEEP"}} for thing in content["items"]]
    request.answer(code, json.dumps(content | {"items": things}).encode().replace(b'"DEEP"', DEEP), headers)


def test_deeply_nested_managed_fields_do_not_stop_scheduling(serve, start):
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
    server = serve(ApiServer(node("n"), pod("there", nodeName="n"), pod("deep"), pod("others", schedulerName="x")))
    server.extra.append(listed(service, resource="services"))
    server.faults["list"] = deep_managed_fields
    running = start(server, "--interval=0.2", "--policy=DefaultProvider")
    wait_for("the pod is bound", lambda: server.placements() == dict.fromkeys(["default/there", "default/deep"], "n"))
    assert len(running.err.splitlines()) == 1, running.err


def odd_managed_fields(request):
    """The managedFields of all listed objects have a byte that is not UTF-8, which the API server accepts and returns."""
    code, content, headers = request.carry_out()
    things = [thing | {"metadata": thing["metadata"] | {"managedFields": "ODD"}} for thing in content["items"]]
    request.answer(code, json.dumps(content | {"items": things}).encode().replace(
        b'"ODD"', b'[{"fieldsV1": {"f:\xff": {}}}]'), headers)


def test_bytes_that_are_not_utf_8_do_not_stop_scheduling(serve, start):
    server = serve(ApiServer(node("n"), pod("there", nodeName="n"), pod("odd"), pod("others", schedulerName="x")))
    server.faults["list"] = odd_managed_fields
    running = start(server, "--interval=0.2")
    wait_for("the pod is bound", lambda: server.placements() == dict.fromkeys(["default/there", "default/odd"], "n"))
    assert "kubectl proxy" not in running.err


@table("text, left", {
    "brackets in a string": ('{"a": "[\\"{", "metadata": {"managedFields": DEEP, "b": "}]"}}', {
        "a": '[\"{', "metadata": {"managedFields": [], "b": "}]"}}),
    "a string field with that name": ('{"managedFields": "[", "b": {"managedFields":\nDEEP}}', {
        "managedFields": "[", "b": {"managedFields": []}}),
    "a string that contains them": (r'{"a": "\"managedFields\":[", "b": {"managedFields": DEEP}, "c": ["]"]}', {
        "a": '"managedFields":[', "b": {"managedFields": []}, "c": ["]"]}),
    "managedFields in a list": ('{"items": [{"managedFields": DEEP}, {"managedFields": [7]}]}', {
        "items": [{"managedFields": []}, {"managedFields": []}]}),
})
def test_only_deeply_nested_managed_fields_are_removed(text, left):
    assert read_json(text.encode().replace(b"DEEP", DEEP)) == left


@table("text, left", {
    "in a list": ('{"items": [{"metadata": {"managedFields": [7]}}, {"metadata": {"managedFields": DEEP}}, {}]}', {
        "items": [{"metadata": {"managedFields": []}}, {"metadata": {"managedFields": []}}, {}]}),
    "in a watch event": ('{"type": "ADDED", "object": {"metadata": {"managedFields": DEEP}}}', {
        "type": "ADDED", "object": {"metadata": {"managedFields": []}}}),
    "in an answer that is not an object": ("[7]", [7]),
})
def test_managed_fields_are_removed(text, left):
    assert read_json(text.encode().replace(b"DEEP", DEEP)) == left


def deep(request):
    """The answer is JSON, 100,000 levels deep."""
    request.answer(200, b'{"items": ' + b"[" * 100000 + b"]" * 100000 + b"}")


def deep_failure(request):
    """The failure is JSON, 100,000 levels deep."""
    request.answer(500, b'{"message": ' + b"[" * 100000 + b"]" * 100000 + b"}")


def answering_with(content, code=200):
    """Return a fault that answers with this content."""
    return lambda request: request.answer(code, content)


@table("fault", {
    "100,000 levels deep": (deep,),
    "a failure 100,000 levels deep": (deep_failure,),
    "null": (answering_with(b"null"),),
    "a string": (answering_with(b'"items"'),),
    "a page whose token is a number": (answering_with({"items": [], "metadata": {"continue": 7}}),),
    "items that are null or numbers": (answering_with({"items": [None, 7]}),),
    "an empty answer": (answering_with(b""),),
    "a message that is an object": (answering_with({"message": {"a": ["b"]}}, 500),),
    "an unknown status": (answering_with({"message": "?"}, 799),),
    "a redirect without a location": (answering_with({}, 302),),
})
def test_an_invalid_list_is_logged_once_until_the_next_valid_one(fault, serve, start):
    server = serve(ApiServer(node("n"), pod("p")))
    server.faults["list"] = fault[0]
    running = start(server, "--interval=0.2", program=IN_HASTE)
    wait_for("the error is logged, and the list is retried", lambda: (
        running.err.count("\n") > 2 and len(server.sent("list")) > 3))  # a 5xx is retried twice at once
    assert running.poll() is None and "Traceback" not in running.err, running.err[-500:]
    [*_, line] = running.err.splitlines()  # after the two lines of the start
    assert len(line) < 500, line
    server.faults.clear()
    wait_for("the pod is bound", lambda: server.placements())
