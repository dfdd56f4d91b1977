"""An API server in memory, and a fake clock, for tests of the loop in one process."""

import contextlib
import itertools
import time

import pytest

from helpers.everywhere import replace
from helpers.extras import ROOT, new_cluster, new_live_cluster, run_pass, wait_for_writes
from helpers.policies import load_policies
from scheduler_extras.api.responses import error_of
from scheduler_extras.api.watch import Reflector
from scheduler_extras.common.errors import ApiError, Malformed
from scheduler_extras.live.object_store import version_of
from scheduler_extras.live.session import keep_up, run_to_the_end  # noqa: F401 (for the tests)
from scheduler_extras.manifests.kinds import kind_of
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.manifests.objects import place_of
from scheduler_extras.policy.schedule import schedule


[POLICY] = load_policies(ROOT / "policy.json", "my-scheduler").values()


class Server(Manifests):
    """An API server in memory that records its requests, pages its lists, and fails if a test configures that."""

    server = "http://127.0.0.1:8001"

    def __init__(self, *objects):
        super().__init__()
        self.requests, self.failures, self.page = [], {}, 10**9
        self.put(*objects)

    def put(self, *objects):
        for thing in objects:
            thing["metadata"].setdefault("uid", f"uid-{thing['metadata']['name']}")
            try:
                self.add(thing)
            except Malformed:  # as if an API server had accepted it
                self.objects[place_of(thing, kind_of(thing))] = thing

    def request(self, method, path, body=None, params=None, accept=None, check=lambda: None):
        check()
        self.requests.append((method, path, params or {}, body))
        failure = self.failures.get(path.rpartition("/")[2])
        failure = failure.pop(0) if failure else None
        if isinstance(failure, dict):  # an answer that no API server sends
            return failure
        if isinstance(failure, tuple):  # a status, and whether the request is carried out anyway
            failure, carried_out = failure
            if carried_out:
                super().request(method, path, body, params)
        if failure == 404 and path.endswith("/binding"):  # the pod does not exist any more
            self.objects.pop(("pods", *path.split("/")[4:7:2]), None)
        if failure is not None:
            raise error_of(failure, f"status {failure}")
        *_, namespace, resource, name = ["", "", *path.split("/")]
        if method == "GET" and resource == "pods":  # a single pod
            if ("pods", namespace, name) not in self.objects:
                raise error_of(404, "it has gone")
            return self.objects["pods", namespace, name]
        answer = super().request(method, path, body, params)
        if method != "GET":
            return {"kind": "Status", "status": "Success"}
        start = int(params.get("continue", 0))
        page = answer["items"][start:start + self.page]
        more = {"continue": str(start + self.page)} if start + self.page < len(answer["items"]) else {}
        versions = [version_of(thing) for thing in [*self.objects.values()]]  # a copy: threads may write at the same time
        latest = str(max(map(int, filter(None, versions)), default=0))
        return {"items": page, "metadata": {"resourceVersion": latest, **more}}

    def go_on_behind(self, pod):
        """Create no pods after a Binding, unlike controllers."""

    def sent(self, method, last):
        return [request for request in self.requests if request[0] == method and request[1].endswith(last)]

    def placements(self):
        return {name: thing["spec"]["nodeName"] for (kind, _, name), thing in self.objects.items()
                if kind == "pods" and "nodeName" in thing["spec"]}


class Clock:
    """A clock that only the test advances."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def scheduler_of(server):
    return new_cluster(server)


def make_pass(cluster, decisions=None, policy=POLICY, patience=60):
    """Run a pass, and wait for the answers to its Bindings; return the number of pods that it tried to bind."""
    report = (lambda decision: None) if decisions is None else decisions.append
    plain, started = cluster.attempts.start_binding, []
    cluster.attempts.start_binding = lambda decision: started.append(decision) or plain(decision)
    try:
        run_pass(cluster, {"my-scheduler": policy}, report)
        cluster.results.handle(patience)
    finally:
        cluster.attempts.start_binding = plain
    wait_for_writes(cluster)
    return len(started)


def times_tried(cluster, clock, seconds, step=0.1, meanwhile=lambda: None, policy=POLICY):
    """Run passes for this time; return the seconds between the tries of a pod."""
    tried = []
    with pytest.MonkeyPatch.context() as patch:
        replace(patch, "schedule", lambda *args: tried.append(clock.now) or schedule(*args))
        for _ in range(round(seconds / step)):
            meanwhile()
            make_pass(cluster, policy=policy)
            clock.now += step
    return [round(later - earlier) for earlier, later in itertools.pairwise(tried)]


def without_streams(monkeypatch):
    """Keep Reflectors from listing and watching: only the test sends updates."""
    monkeypatch.setattr(Reflector, "work", lambda reflector: None)


class WatchedCluster:
    """A watched cluster, to which the test sends the updates."""

    def __init__(self, monkeypatch, *objects, policy=POLICY):
        without_streams(monkeypatch)
        self.version = itertools.count(1)
        self.server = Server()
        self.cluster = new_live_cluster(self.server)
        self.cluster.cache.snapshot.is_live = True
        self.policies, self.decided = {"my-scheduler": policy}, []
        for thing in objects:
            self.put(thing)
        self.cluster.refresh_snapshot(self.policies)

    @property
    def cache(self):
        return self.cluster.cache

    def stamp(self, thing, **metadata):
        """Return an object with a uid, a version and a timestamp, as the API server returns it."""
        uid = {"uid": f"uid-{thing['metadata']['name']}"}
        version = {"resourceVersion": str(next(self.version)), "creationTimestamp": "2026-01-01T00:00:00Z"}
        return thing | {"metadata": thing["metadata"] | uid | version | metadata}

    def put(self, thing, **metadata):
        """Store an object in the API server without an update; return it."""
        stamped = self.stamp(thing, **metadata)
        self.server.put(stamped)
        return stamped

    def send(self, what, *things, resource="pods"):
        """Send an update for each object; for LISTED, one with all objects; for FAILED, a status and a text."""
        for content in [list(things)] if what == "LISTED" else things:
            self.cache.objects.updates.put((resource, what, content))

    def create(self, *things, **metadata):
        """Create pods, and send their ADDED events."""
        self.send("ADDED", *(self.put(thing, **metadata) for thing in things))

    def stand_by(self):
        """Apply updates like a replica that is not the leader."""
        keep_up(self.cache)

    def make_pass(self, report=None, patience=60):
        """Run a pass, and wait for the answers to its Bindings; return [(pod, its node)] for its decisions."""
        self.decided.clear()
        run_pass(self.cluster, self.policies, lambda decision: (
            self.decided.append((decision.pod.name, decision.node)), report and report(decision)))
        wait_for_writes(self.cluster)
        with contextlib.suppress(ApiError):
            self.cluster.results.handle(patience)
        return self.decided

    def on(self, name):
        """Apply the updates; return the names of the pods that count on a node."""
        self.cache.apply_updates()
        for each in self.cache.nodes.values():  # requested is always the sum over the pods
            assert each.requested["cpu"] == sum(there.requests["cpu"] for there in each.pods.values())
        return sorted(there.name for there in self.cache.nodes[name].pods.values())

    def counted(self):
        """The pods that count on any node."""
        return [there for there in self.cache.pods.values() if there.counted_on]

    def under_way(self):
        """The names of the pods that may be bound, but are not yet shown on a node."""
        return {record.pod.name for record in self.cluster.queue.values()
                if record.may_be_bound()}

    def bound(self):
        """The names of the pods for which Bindings were sent."""
        return [path.split("/")[-2] for _, path, *_ in self.server.sent("POST", "/binding")]


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def events_and_conditions(server):
    """Return the events and the conditions that were sent: [(type or status, reason, message)] each."""
    events = [(body["type"], body["reason"], body["message"]) for *_, body in server.sent("POST", "/events")]
    conditions = [body["status"]["conditions"][0] for *_, body in server.sent("PATCH", "p/status")]
    return events, [(condition["status"], condition["reason"], condition["message"]) for condition in conditions]


@pytest.fixture
def watched(monkeypatch):
    """A function that returns a WatchedCluster of some objects."""
    return lambda *objects, **more: WatchedCluster(monkeypatch, *objects, **more)
