"""Hostile texts in manifests, policies and answers of servers: control characters are escaped, and errors are short."""

import json
import re
import time

import pytest

from helpers.control_plane import wait_for
from helpers.extras import ROOT, UNCHECKED, node, pod, table
from helpers.faults import policy_file, run_limited
from helpers.faulty import ApiServer, ExtenderServer, failure
from scheduler_extras.common.log_texts import one_line


HOSTILE = "\x1b]0;owned\x07\r\x00\x9b31m\x85\u200f\u061c\u202e\nFORGED -> n"


def check_escaped(text):
    """Check that this output has no control characters and no forged line."""
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e]", text), repr(text)
    assert not re.search("^FORGED", text, re.M), repr(text)


@table("arguments", {
    "lines": ([],),
    "tables": (["--explain"],),
    "JSON": (["--output=json"],),
    "a comparison": (["--compare", ROOT / "policy.json"],),
    "with all plugins": (["--policy", "DefaultProvider"],),
})
def test_control_characters_in_manifests_are_escaped(arguments, tmp_path):
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": HOSTILE}}]
    (tmp_path / "m.json").write_text(json.dumps({"kind": "List", "items": [
        node(f"node-{HOSTILE}"), node("tainted", taints=[{"key": HOSTILE, "value": HOSTILE, "effect": "NoSchedule"}]),
        pod(f"placed-{HOSTILE}"), pod("elsewhere", namespace=HOSTILE), pod("wants", {f"example.com/{HOSTILE}": "1"}),
        pod("claims", volumes=claim), pod("runs", nodeName=f"node-{HOSTILE}"), pod("left", schedulerName=HOSTILE),
        pod("gated", schedulingGates=[{"name": HOSTILE}]), pod("phase", status={"phase": HOSTILE})]}))
    code, out, err, _ = run_limited("--cluster", tmp_path / "m.json", *arguments[0], program=UNCHECKED)
    assert code == 0 and ("owned" in out + err or "--compare" in arguments[0]), err
    check_escaped(out)
    check_escaped(err)
    _, _, err, _ = run_limited("--cluster", tmp_path / "m.json", *arguments[0])
    assert "owned" in err
    check_escaped(err)


def test_control_characters_in_the_traceback_of_a_rule_are_escaped(tmp_path):
    (tmp_path / "rule.py").write_text(
        "from scheduler import predicate\n\n\n@predicate('Broken')\ndef broken(pod, node):\n    raise OSError(pod.name)\n")
    (tmp_path / "m.json").write_text(json.dumps({"kind": "List", "items": [node("n"), pod(HOSTILE)]}))
    policy = policy_file(tmp_path, predicates=[{"name": "Broken"}])
    _, out, err, _ = run_limited(
        "--cluster", tmp_path / "m.json", "--policy", policy, "--plugins", tmp_path / "rule.py", "-v", program=UNCHECKED)
    assert "Traceback" in err and "owned" in err
    check_escaped(out)
    check_escaped(err)


@table("thing", {
    "a label's name": (node("odd", labels={HOSTILE: 7}),),
    "a quantity": (pod("odd", {"cpu": HOSTILE}),),
    "a kind": ({"kind": HOSTILE, "metadata": {}},),
    "a text": (HOSTILE,),
})
def test_control_characters_in_invalid_objects_are_escaped(thing, tmp_path):
    (tmp_path / "m.json").write_text(json.dumps({"kind": "List", "items": [node("n"), *thing]}))
    code, out, err, _ = run_limited("--cluster", tmp_path / "m.json")
    assert code in (0, 1) and "owned" in err, "the object is skipped, and the run goes on"
    check_escaped(out)
    check_escaped(err)


@table("policy", {
    "a predicate": ({"predicates": [{"name": HOSTILE}]},),
    "a field": ({HOSTILE: 7},),
    "a value": ({"priorities": [{"name": "EqualPriority", "weight": HOSTILE}]},),
    "the kind": ({"kind": HOSTILE},),
    "an extender's URL": ({"extenders": [{"urlPrefix": HOSTILE, "filterVerb": "f"}]},),
})
def test_control_characters_in_a_policy_are_escaped(policy, tmp_path):
    (tmp_path / "m.json").write_text(json.dumps({"kind": "List", "items": [node("n"), pod("p")]}))
    path = policy_file(tmp_path, **policy[0])
    _, out, err, _ = run_limited("--policy", path, "--cluster", tmp_path / "m.json")
    assert "owned" in out + err or "got {\"kind\": ..." in err  # a long word is left out as a whole
    check_escaped(out)
    check_escaped(err)


def refusing(code):
    """Return a fault that answers with this status, and hostile text in the body and the status line."""
    def refused(request):
        body = json.dumps(failure(code, HOSTILE, HOSTILE)).encode()
        head = f"HTTP/1.1 {code} \x1b]0;owned\x07\x9b31m\r\nContent-Length: {len(body)}\r\n\r\n"
        request.send(head.encode("latin-1") + body)
    return refused


@table("kinds, fault, arguments", {
    "for a list that is refused": (["list"], refusing(403), ["--once"]),
    "for a list that fails": (["list"], refusing(500), ["--once"]),
    "for a Binding that is refused": (["binding"], refusing(422), ["--once"]),
    "for an event that is refused": (["event", "status"], refusing(403), ["--once"]),
    "with pods and nodes": ([], None, ["--once", "-v"]),
    "with pods and nodes, in tables": ([], None, ["--once", "--explain"]),
    "for a Lease that is refused": (["lease"], refusing(403), ["--leader-elect"]),
})
def test_control_characters_in_answers_of_the_api_server_are_escaped(kinds, fault, arguments, serve, start):
    names = [] if fault else [node(f"node-{HOSTILE}"), pod(f"pod-{HOSTILE}"), pod("odd", {"cpu": HOSTILE})]
    server = serve(ApiServer(*names, node("n"), pod("p"), pod("large", {"cpu": "99"})))
    server.faults.update(dict.fromkeys(kinds, fault))
    running = start(server, *arguments)
    wait_for("the text is shown", lambda: "owned" in running.err + running.out)
    time.sleep(0.5)
    check_escaped(running.out)
    check_escaped(running.err)


@pytest.mark.parametrize("arguments", [[], ["--explain"], ["--output=json"]])
def test_control_characters_in_answers_of_an_extender_are_escaped(arguments, serve, start, tmp_path):
    for answer in ({"Error": HOSTILE}, {"Nodes": {"items": []}, "FailedNodes": {"n": HOSTILE}}, HOSTILE.encode()):
        extender = serve(ExtenderServer(filter=(200, answer)))
        policy = policy_file(tmp_path, [{"urlPrefix": extender.url, "filterVerb": "filter"}])
        (tmp_path / "m.json").write_text(json.dumps({"kind": "List", "items": [node("n"), pod("p")]}))
        code, out, err, _ = run_limited("--policy", policy, "--cluster", tmp_path / "m.json", *arguments)
        assert code == 0
        check_escaped(out)
        check_escaped(err)


@table("text, message", {
    "it begins like a cause that never ends": ("[Errno" * 50_000, "[Errno"),
    "it is long": ("x" * 5000, "xxx ..."),
    "its cause comes late": ("x" * 5000 + " (Caused by [Errno 111] Connection refused')", "[Errno 111] Connection refused"),
})
def test_a_long_error_is_shortened(text, message):
    began = time.process_time()
    line = one_line(ValueError(text))
    assert message in line and len(line) <= 1000
    assert time.process_time() < began + 0.5, "the time grows with the square of the length"
