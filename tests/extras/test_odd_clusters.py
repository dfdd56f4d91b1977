"""Clusters with unusual changes: each pod is bound once, no node is overcommitted, and no pod waits for long.

In each test, 20 small pods are bound first; then something happens, and 20 more pods are created.
"""

import json
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

from helpers.control_plane import wait_for
from helpers.extras import ROOT, limits, node, pod, table
from helpers.faulty import ApiServer, Choice, failure


SMALL = {"cpu": "100m"}
FIRST, NEXT = range(20), range(20, 40)


def pods(numbers, name="p", **more):
    """Small pods with these numbers."""
    return [pod(f"{name}-{i}", SMALL, **more) for i in numbers]


def nodes(count=5):
    """Nodes with room for twenty small pods each."""
    return [node(f"n-{i}", cpu="2") for i in range(count)]


class Trial:
    """An API server, and the program running against it."""

    def __init__(self, server, start, *more_limits):
        self.server = server
        server.create(*nodes(), *pods(FIRST))
        self.running = start("--server", server.url, "--interval=0.2", limits=[*limits(600), *more_limits])
        self.over = threading.Event()
        self.bound(FIRST)

    def bound(self, numbers, name="p"):
        """Wait until the small pods with these numbers are bound."""
        wanted = {f"default/{name}-{i}" for i in numbers}
        wait_for(f"{name}-{numbers} are bound", lambda: wanted <= self.server.placements().keys(), 40)

    def change(self, thing, **spec):
        """Change the spec of a pod or a node."""
        with self.server.lock:
            self.server.version += 1
            thing["spec"] |= spec
            thing["metadata"]["resourceVersion"] = str(self.server.version)

    def often(self, change):
        """Call change(True) and change(False) alternately, every 0.05 s, until the trial is over."""
        def go_on():
            while not self.over.wait(0.05):
                change(True)
                self.over.wait(0.05)
                change(False)

        threading.Thread(target=go_on, daemon=True).start()

    def refuse(self, kinds, message, of=""):
        """Answer requests of these kinds with 403, if their path contains this text."""
        def refused(request):
            request.answer(403, failure(403, "Forbidden", message))

        for kind in kinds:
            self.server.faults[kind] = Choice(lambda asked: refused if of in asked.path else None)

    def check(self):
        """Check that each pod was bound once, no node is overcommitted, and the program ends after a signal."""
        self.over.set()
        time.sleep(0.3)
        bound = Counter(asked.json["metadata"]["uid"] for asked in self.server.sent("binding") if asked.status == 201)
        assert set(bound.values()) == {1}, bound
        used = Counter(self.server.placements().values())
        assert max(used.values()) <= 20, f"a node is overcommitted: {used}"
        assert self.running.poll() is None, self.running.err
        assert "Traceback" not in self.running.err, self.running.err
        self.running.send_signal(signal.SIGTERM)
        assert self.running.wait(10) == 0, self.running.err


OLD_BOOKMARK = b'{"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "1"}}}\n'


class Disordered(ApiServer):
    """An API server that sends each event twice, old events again, and old bookmarks."""

    def handle(self, request):
        """Answer a request."""
        send_chunk = request.send_chunk
        sent = []

        def send_out_of_order(content=b""):
            send_chunk(content)
            if content:
                sent.append(content)
                send_chunk(content)
                send_chunk(sent[len(sent) // 2])
                send_chunk(OLD_BOOKMARK)

        request.send_chunk = send_out_of_order
        super().handle(request)


def some_go(trial):
    """Some pods are deleted."""
    for number in FIRST[::2]:
        trial.server.delete(f"p-{number}")


def another_cluster(trial):
    """The server now serves another cluster, with nodes and pods of the same names, and lower versions."""
    server = trial.server
    with server.lock:
        server.pods.clear()
        server.nodes.clear()
        server.version = 0
        server.create(*nodes(3), *pods(FIRST))
        for thing in server.pods.values():
            thing["metadata"]["uid"] += "-of-another"
    trial.bound(FIRST)


def empty_lists(trial):
    """All lists are empty for a moment, and streams break."""
    def empty(request):
        request.answer(200, {"kind": "List", "metadata": {"resourceVersion": str(trial.server.version)}, "items": []})

    trial.server.faults["list"] = empty
    time.sleep(2)
    trial.server.faults.clear()


def too_many_requests(trial):
    """The API server answers 429 for two seconds."""
    trial.server.faults[""] = "429"
    time.sleep(2)
    trial.server.faults.clear()


def cordoned(trial):
    """Three of five nodes are cordoned and uncordoned again and again."""
    some = [*trial.server.nodes.values()][:3]
    trial.often(lambda is_so: [trial.change(each, unschedulable=is_so) for each in some])


def recreated(trial):
    """Three of five nodes are deleted and recreated again and again."""
    def change(is_so):
        for thing in nodes(3):
            if is_so:
                trial.server.nodes.pop(thing["metadata"]["name"])
            else:
                trial.server.create(thing)

    trial.often(change)


def gates(trial):
    """Other pods get and lose a scheduling gate again and again."""
    others = pods(range(5), name="gated", schedulingGates=[{"name": "a"}])
    trial.server.create(*others)

    def change(is_so):
        for each in others:
            if "nodeName" not in each["spec"]:
                trial.change(each, schedulingGates=[{"name": "a"}] if is_so else [])

    trial.often(change)
    trial.bound(range(5), name="gated")


def moved(trial):
    """A webhook changes the Bindings of some pods to the first node."""
    bind = trial.server.answer_binding

    def bind_there(asked):
        body = asked.json
        body["target"]["name"] = "n-0"
        asked.body = json.dumps(body).encode()
        return bind(asked)

    trial.server.answer_binding = bind_there
    trial.server.create(*pods(range(10), name="moved"))
    trial.bound(range(10), name="moved")
    wait_for("the last one is printed", lambda: "moved-9" in trial.running.out)
    trial.server.answer_binding = bind


def denied(trial):
    """A webhook denies the Bindings of other pods."""
    trial.refuse(["binding"], "admission webhook denied the request", of="/denied-")
    trial.server.create(*pods(range(30), name="denied"))


def terminating(trial):
    """A namespace is being deleted: nothing can be written in it, neither for pods that fit nor for others."""
    trial.refuse(["binding", "event", "status"], "because it is being terminated", of="/namespaces/gone/")
    large = [pod(f"large-{i}", {"cpu": "9"}, namespace="gone") for i in range(30)]
    trial.server.create(*pods(range(30), name="a", namespace="gone"), *large)


def no_events(trial):
    """A quota prevents all events."""
    trial.refuse(["event"], "exceeded quota: events")
    trial.server.create(pod("large", {"cpu": "9"}))


def few_files(trial):
    """There are 64 file descriptors at most, from the start, and more pods than that."""
    trial.server.create(*nodes(10), *pods(range(150), name="more"))
    trial.bound(range(150), name="more")


@table("happens, kind, more_limits", {
    "events are repeated and out of order, and bookmarks are old": (some_go, Disordered, []),
    "the API server serves another cluster": (another_cluster, ApiServer, []),
    "all lists are empty for a moment": (empty_lists, ApiServer, []),
    "the API server answers 429": (too_many_requests, ApiServer, []),
    "nodes are cordoned and uncordoned": (cordoned, ApiServer, []),
    "nodes are deleted and recreated": (recreated, ApiServer, []),
    "pods get and lose gates": (gates, ApiServer, []),
    "a webhook changes Bindings": (moved, ApiServer, []),
    "a webhook denies Bindings": (denied, ApiServer, []),
    "a namespace is being deleted": (terminating, ApiServer, []),
    "there is a quota on events": (no_events, ApiServer, []),
    "there are few file descriptors": (few_files, ApiServer, [(resource.RLIMIT_NOFILE, 64)]),
})
def test_the_next_pods_are_bound_when(happens, kind, more_limits, start_scheduler, serve):
    trial = Trial(serve(kind()), start_scheduler, *more_limits)
    happens(trial)
    trial.server.create(*pods(NEXT))
    trial.bound(NEXT)
    trial.check()


def test_a_process_without_free_file_descriptors_ends_normally():
    """Without load_libgcc, glibc would load a library to end the threads, and abort."""
    text = """
import os, resource, sys, threading, time
from scheduler_extras.common.libc import load_libgcc

def work():
    while True:
        time.sleep(0.0001)

load_libgcc()
for _ in range(20):
    threading.Thread(target=work, daemon=True).start()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True:
        os.open(os.devnull, os.O_RDONLY)
except OSError:
    pass
"""
    run = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")
