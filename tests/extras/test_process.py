"""The end of the process: after a signal, and if a rule hangs."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from unittest.mock import Mock

import pytest

from helpers.command_line import DEMO, RULE
from helpers.control_plane import wait_for
from helpers.extras import PATIENT, ROOT, SCHEDULER, TIME, node, pod, run_scheduler, table
from helpers.faults import election_file, policy_file
from helpers.faulty import ApiServer, Choice, ExtenderServer, answering, hang, trickle
from scheduler_extras.process import stop_on_signals


def test_a_signal_while_reading_manifests_gives_no_traceback():
    waiting = subprocess.Popen(  # background jobs of a shell ignore the signal
        [*SCHEDULER, "--cluster", "-", "-v"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    waiting.stdin.write("kind: Pod\n")
    waiting.stdin.flush()
    wait_for("the program reads", lambda: fcntl.ioctl(waiting.stdin, termios.FIONREAD, bytes(4)) == bytes(4))
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, err) == (130, "", "")


def own_rule(folder, body):
    """Write a custom rule with this body; return the arguments that use it."""
    (folder / "rules.py").write_text("import sys, time\n" + RULE.format("Mine", body))
    (folder / "policy.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Mine"}]}')
    return ["--cluster", str(DEMO), "--plugins", str(folder / "rules.py"), "--policy", str(folder / "policy.json")]


def test_the_prints_of_a_rule_do_not_go_to_the_json_output(tmp_path):
    run = run_scheduler(*own_rule(tmp_path, "print('looking at', node.name); return []"), "-o", "json")
    assert len([json.loads(line) for line in run.stdout.splitlines()]) == 8
    assert "looking at node-a\n" in run.stderr and "looking at" not in run.stdout
    assert "looking at node-a\n" in run_scheduler(*own_rule(tmp_path, "print('looking at', node.name); return []")).stdout


@table("bind, code, message", {
    "binds": ("return False", 0, "default/web-1 -> "),
    "raises an exception": ("raise ValueError('no')", 1, "default/web-1: ValueError in ")})
def test_a_run_with_manifests_waits_for_a_slow_bind_hook_that(bind, code, message, tmp_path):
    arguments = own_rule(tmp_path, "return []")
    (tmp_path / "rules.py").write_text(
        "import time\nfrom scheduler import predicate\n\n"
        f"def bind(pod, node_name):\n    time.sleep(0.8)\n    {bind}\n"
        "@predicate('Mine', bind=bind)\ndef mine(pod, node): return []\n")
    run = run_scheduler(*arguments)
    assert run.returncode == code and message in run.stdout + run.stderr
    assert ("+web-1" in run.stdout) == (code == 0), "a pod that is not bound is on no node"


def test_a_signal_ends_the_wait_for_a_post_bind_hook(tmp_path):
    arguments = own_rule(tmp_path, "return []")
    (tmp_path / "rules.py").write_text(
        "import time\nfrom scheduler import predicate\n"
        "@predicate('Mine', post_bind=lambda pod, node_name: time.sleep(30))\ndef mine(pod, node): return []\n")
    running = subprocess.Popen([SCHEDULER[0], "-c", PATIENT, *arguments], cwd=ROOT, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(8):  # the decisions about all pods
        running.stdout.readline()
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 1 and "+web-1" in out, "the table of nodes is printed, and not all is done"


def test_the_process_is_ended_by_force_after_four_seconds(monkeypatch):
    timer, handle = Mock(), Mock()
    monkeypatch.setattr(threading, "Timer", timer)
    monkeypatch.setattr(signal, "signal", handle)
    stop_on_signals()
    _, end = handle.call_args.args
    end(signal.SIGTERM, None)
    timer.assert_called_once_with(4, os._exit, [1])
    timer.return_value.start.assert_called_once_with()


IMPATIENT = """import sys
sys.path.append("tests")
from scheduler_extras.command_line import main
from scheduler_extras.process import watch_the_loop
watch_the_loop.__defaults__ = (0.5,)
sys.exit(main())"""


def test_a_rule_that_hangs_is_named_and_an_end_by_force_gives_exit_code_1(tmp_path):
    """It is named after ten seconds, which are half a second here. The process ends four seconds after a signal."""
    stuck = subprocess.Popen([SCHEDULER[0], "-c", IMPATIENT, *own_rule(tmp_path, "time.sleep(60)")], cwd=ROOT, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    message = next(line for line in stuck.stderr if not line.startswith("scheduling "))  # logged on a busy machine
    assert message == "Mine is slow: it has taken more than 0.5 s for one pod (rules.py, line 6)\n"
    stuck.send_signal(signal.SIGTERM)
    assert stuck.wait(60) == 1
    stuck.communicate()


def endless(request):
    """Each page of the list has a next page."""
    request.pause(0.05)
    request.answer(200, {"items": [], "metadata": {"continue": "more"}})


UNDER_WAY = {  # a sentence: (the kind of request, its fault, arguments)
    "a list hangs": ("list", hang, []),
    "a list trickles": ("list", trickle, []),
    "a list is endless": ("list", endless, []),
    "a Binding hangs": ("binding", hang, []),
    "a Binding trickles": ("binding", trickle, []),
    "an event hangs": ("event", hang, []),
    "a condition trickles": ("status", trickle, []),
    "the Lease hangs": ("lease", hang, ["--leader-elect"]),
    "the Lease trickles": ("lease", trickle, ["--leader-elect"]),
    "the Lease of a leader hangs": ("lease", Choice(lambda asked: hang if asked.method == "PUT" else None),
                                    ["--leader-elect"]),
    "the API server answers 429": ("list", answering(429), []),
    "an extender hangs": ("extender", hang, []),
    "an extender trickles": ("extender", trickle, []),
}


CALLER = "import sys, scheduler; scheduler.main(); sys.exit(7)"


def test_a_script_that_calls_main_ends_while_a_request_hangs(serve, start):
    """A Binding hangs, or an event. This takes more than 10 s, because a single pass waits this long for an answer."""
    callers = []
    for kind in ("binding", "event"):
        server = serve(ApiServer(node("n"), pod("p")))
        server.faults[kind] = hang
        callers.append(start(server, "--once", program=CALLER))
    assert [caller.wait(60) for caller in callers] == [7, 7]


STUCK = """import time
from scheduler import predicate

@predicate("Stuck")
def stuck(pod, node):
    time.sleep(3600)
"""
ENDS_SOON = """import math, sys, types
sys.path.append("tests")
from helpers.everywhere import replace_for_good
from scheduler_extras.command_line import main
from scheduler_extras.process import watch_the_loop
class Soon(types.SimpleNamespace):
    def __setattr__(self, name, value):
        super().__setattr__(name, value / 30 if name == "limit" else value)
replace_for_good("HEARTBEAT", Soon(at=0, limit=math.inf))
watch_the_loop.__defaults__ = (0.05,)
sys.exit(main())"""


@table("arguments, limit", {"for the renew deadline, with leader election": (["--leader-elect"], 10 / 30),
                            "for a minute, without leader election": ([], 60 / 30)})
def test_a_rule_that_hangs_ends_the_process_and_is_named(arguments, limit, serve, tmp_path):
    """All times are divided by 30 here."""
    server = serve(ApiServer(node("n"), pod("p")))
    (tmp_path / "rules.py").write_text(STUCK)
    policy = policy_file(tmp_path, predicates=[{"name": "Stuck"}])
    run = run_scheduler("--server", server.url, "--policy", policy, *arguments, "--plugins", tmp_path / "rules.py",
                        program=ENDS_SOON)
    message = f"the loop has made no progress for {limit:g} s (rules.py, line 6): the process ends"
    assert (run.returncode, run.stderr.splitlines()[-1]) == (1, message)


def test_a_blocked_output_ends_the_process(serve, tmp_path):
    """For example with `| less`, or a log shipper that hangs. The minute is divided by 30 here."""
    server = serve(ApiServer(node("n"), pod("p")))
    (tmp_path / "rules.py").write_text(STUCK.replace("time.sleep(3600)", "print('x' * 10**6)").replace("import time\n", "\n"))
    policy = policy_file(tmp_path, predicates=[{"name": "Stuck"}])
    stuck = subprocess.Popen([sys.executable, "-c", ENDS_SOON, "--server", server.url, "--policy", policy, "--plugins",
                              tmp_path / "rules.py"], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lines = TIME.sub("", stuck.stderr.read()).splitlines()
    assert (stuck.wait(60), lines[-1]) == (1, "the loop has made no progress for 2 s (rules.py, line 6): the process ends")
    stuck.communicate()


def test_a_leader_that_is_stopped_during_a_long_list_releases_its_lease(serve, start, tmp_path):
    server = serve(ApiServer(node("n"), pod("p")))
    server.faults["list"] = Choice(lambda asked: hang if "/services" in asked.path else None)
    leader = start(server, "--policy", election_file(tmp_path), program=PATIENT)
    wait_for("services are listed", lambda: server.injected)
    leader.send_signal(signal.SIGTERM)
    assert (leader.wait(60), server.lease["spec"]["holderIdentity"]) == (0, "")
    assert "signal" not in leader.err, leader.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_while_requests_hang(number, serve, start, tmp_path):
    """It ends long before the requests time out, after a minute."""
    started, wrong = {}, []
    for name, (kind, fault, arguments) in UNDER_WAY.items():
        server = asked = serve(ApiServer(node("n"), pod("p"), pod("large", {"cpu": "99"})))
        if kind == "extender":
            asked = serve(ExtenderServer(filter=(200, {})))
            folder = tmp_path / name.replace(" ", "-")
            folder.mkdir()
            arguments = ["--policy", policy_file(folder, [
                {"urlPrefix": asked.url, "filterVerb": "filter", "httpTimeout": 60 * 10**9}])]
        asked.faults["other" if kind == "extender" else kind] = fault
        program = PATIENT if kind == "list" else None  # otherwise it may be ended by force, with 1
        started[name] = start(server, *arguments, program=program), asked
    for name, (_, asked) in started.items():
        wait_for(f"{name}", lambda asked=asked: asked.injected)
    time.sleep(1)
    sent = time.monotonic()
    for running, _ in started.values():
        running.send_signal(number)
    for name, (running, _) in started.items():
        try:
            running.wait(max(sent + 45 - time.monotonic(), 0.01))
            ends_by_itself = "list" in started[name][1].faults
            if running.returncode not in ([0] if ends_by_itself else [0, 1]) or "Traceback" in running.err:
                wrong.append(f"{name}: exit code {running.returncode}: {running.err[-200:]}")
        except subprocess.TimeoutExpired:
            wrong.append(f"{name}: it is still running")
    assert not wrong, "\n".join(wrong)


def test_a_signal_ends_the_process_within_5_seconds(serve, start):
    taken = []
    for _attempt in range(5):  # it may take longer on a busy machine
        server = serve(ApiServer(node("n"), pod("p")))
        server.faults["binding"] = hang
        running = start(server)
        wait_for("a Binding hangs", lambda server=server: server.injected)
        sent = time.monotonic()
        running.send_signal(signal.SIGTERM)
        running.wait(60)
        taken.append(time.monotonic() - sent)
        if taken[-1] < 5:
            return
    raise AssertionError(f"it took {taken} s")
