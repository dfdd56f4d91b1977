"""Leader election with a faulty API server: a replica binds only while it holds the Lease."""

import json
import signal
import threading
import time

from helpers.control_plane import wait_for
from helpers.extras import ROOT, new_cluster, node, pod, table
from helpers.fake_api import Server
from helpers.faults import DEADLINE, FEW, LEASE, election_file, leading, many, take_lease
from helpers.faulty import ApiServer
from scheduler_extras.api.election import LeaderElection
from scheduler_extras.api.responses import error_of
from scheduler_extras.live.session import run_session
from scheduler_extras.options import read_arguments
from scheduler_extras.policy.policy_file import PolicyFile
from scheduler_extras.runs import election_for


PROGRAM = str(ROOT / "scheduler_extras")


def suspend(server, leader):
    """Suspend the leader for longer than its Lease lasts."""
    leader.send_signal(signal.SIGSTOP)
    time.sleep(LEASE + 1)
    leader.send_signal(signal.SIGCONT)


def suspend_and_take_lease(server, leader):
    """Suspend the leader, and give its Lease to another holder."""
    leader.send_signal(signal.SIGSTOP)
    time.sleep(LEASE + 1)
    take_lease(server, leader)
    leader.send_signal(signal.SIGCONT)


def without_lease(server):
    """Return the Bindings that were sent after the deadline for renewing the Lease."""
    renewed = [asked.done for asked in server.sent("lease") if asked.method != "GET" and asked.status in (200, 201)]
    return [asked for asked in server.sent("binding")
            if asked.at - max([at for at in renewed if at <= asked.at], default=0) > DEADLINE]


@table("happens", {
    "its requests about the Lease fail": (lambda server, leader: server.faults.update(lease="500 before"),),
    "these requests break": (lambda server, leader: server.faults.update(lease="reset before"),),
    "these requests hang": (lambda server, leader: server.faults.update(lease="hang"),),
    "these requests are answered at one byte a second": (lambda server, leader: server.faults.update(lease="trickle"),),
    "another replica takes the Lease": (take_lease,),
    "it is suspended, and another replica takes the Lease": (suspend_and_take_lease,),
})
def test_a_leader_that_cannot_renew_its_lease_in_time_stops_binding_and_ends(happens, serve, start, tmp_path):
    server = serve(ApiServer(node("n", pods="1000"), *many(500)))
    leader = leading(server, start, tmp_path)
    happens[0](server, leader)
    since = time.monotonic()
    code = leader.wait(60)
    taken, late = time.monotonic() - since, without_lease(server)
    assert (code, len(late) <= FEW) == (1, True), f"exit code {code}; {len(late)} Bindings after the deadline"
    assert "leader election lost" in leader.err and "Traceback" not in leader.err, leader.err
    assert taken < DEADLINE + 50, f"it ended after {taken:.1f} s"


def test_a_leader_that_was_suspended_renews_its_lease_before_its_next_binding(serve, start, tmp_path):
    server = serve(ApiServer(node("n", pods="1000"), *many(500)))
    leader = leading(server, start, tmp_path)
    server.delays |= {"lease": 0.4, "binding": 0.05}  # time for several Bindings per thread during a renewal
    suspend(server, leader)
    time.sleep(2)
    late = without_lease(server)
    assert len(late) <= FEW, f"{len(late)} Bindings were sent after the deadline for renewing the Lease"


def test_one_of_two_replicas_leads_even_if_requests_about_the_lease_are_slow(serve, start, tmp_path):
    """Reading and writing it takes longer than the retry period, and less than the deadline."""
    for _attempt in range(5):  # a busy machine may keep the leader from renewing its Lease in time
        server = serve(ApiServer(node("n"), *many(3)))
        server.delays["lease"] = 0.4
        path = election_file(tmp_path, lease=5, deadline=4)
        replicas = [start(server, "--policy", path) for _ in range(2)]
        wait_for("the pods are bound", lambda server=server: len(server.placements()) == 3)
        time.sleep(6)  # longer than a Lease
        server.create(pod("late"))
        wait_for("a later pod is bound, too", lambda server=server: len(server.placements()) == 4)
        ended = [replica.poll() for replica in replicas]
        led = sorted("became leader" in replica.err for replica in replicas)
        if (ended, led) == ([None, None], [False, True]):
            return
        for replica in replicas:
            replica.kill()
    raise AssertionError([replica.err for replica in replicas])


def test_a_standby_writes_no_event_about_a_pod_that_is_deleted_meanwhile(serve, start, tmp_path):
    """That event is up to the leader."""
    leaving = {"finalizers": ["example.com/wait"], "deletionTimestamp": "2020-01-01T00:00:00Z"}
    server = serve(ApiServer(node("n"), pod("at-first", metadata=leaving)))
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": LEASE, "renewTime": "2030-01-01T00:00:00.000000Z"}
    server.lease = {"metadata": {"name": "my-scheduler", "namespace": "kube-system", "resourceVersion": "0"}, "spec": spec}
    standby = start(server, "--policy", election_file(tmp_path))
    wait_for("the standby waits", lambda: "waits: somebody leads" in standby.err)
    server.create(pod("later", metadata=leaving))
    wait_for("the standby leads", lambda: "became leader" in standby.err)
    server.create(pod("new"))
    wait_for("the new pod is bound", lambda: server.placements() == {"default/new": "n"})
    assert "skip schedule deleting pod" not in json.dumps([asked.json for asked in server.sent("event")])


def test_a_dry_run_needs_no_lease():
    """Otherwise it would wait for as long as a replica leads."""
    server = Server(node("n"), pod("p"))
    options = read_arguments(["--dry-run", "--leader-elect", "--once"])
    policies, decisions = PolicyFile(ROOT / "policy.json", options.scheduler_name), []
    cluster = new_cluster(server, decisions.append, dry_run=True)
    election = election_for(cluster.api, policies.policies, options)
    code = run_session(cluster, policies, threading.Event(), options, election)
    assert (code, [decision.node for decision in decisions]) == (0, ["n"])
    assert not any("leases" in path for _, path, _, _ in server.requests)


@table("of_the_lease, seconds", {
    "the holder's duration, if that is longer": (60, 60),
    "its own duration, if the holder's is shorter": (1, 15),
    "its own duration, if the Lease has none": (None, 15),
})
def test_a_lease_that_is_not_renewed_is_taken_after(of_the_lease, seconds, clock):
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": of_the_lease}
    lease = {"spec": {field: value for field, value in spec.items() if value is not None}}

    class Api:
        def request(self, method, path, body=None):
            return body or lease

    election = LeaderElection(Api(), "my-scheduler", {})
    assert not election.acquire()
    clock.now += seconds - 1
    assert not election.acquire()
    clock.now += 2
    assert election.acquire()


class Leases:
    """An API server with a Lease, or one that answers with a status."""

    def __init__(self, lease):
        self.lease = lease

    def request(self, method, path, body=None):
        if method != "GET":
            self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": "2"}}
        if not isinstance(self.lease, dict):
            raise error_of(self.lease, f"status {self.lease}")
        return self.lease


def held_by(identity, **more):
    """A Lease with this holder."""
    return {"metadata": {"name": "my-scheduler", "resourceVersion": "1"}, "spec": {
        "holderIdentity": identity, "leaseTransitions": 4, **more}}


@table("lease, after, held, message", {
    "it does not exist": (404, 0, True, []),
    "it has no holder": (held_by(""), 0, True, []),
    "another replica holds it": (held_by("another"), 0, False, []),
    "another replica has not renewed it, but it has not expired": (held_by("another"), 14.9, False, []),
    "another replica has not renewed it, and it has expired": (held_by("another"), 15, True, []),
    "it cannot be read": (403, 0, False, ["leader election: status 403"]),
    "it is malformed": ({"metadata": {}, "spec": []}, 0, False, [
        "leader election: spec: expected an object, got []"]),
    "its number of transitions is a string": (held_by("", leaseTransitions="four"), 0, False, [
        'leader election: can only concatenate str (not "int") to str']),
})
def test_the_lease_is_acquired_or_not(lease, after, held, message, monkeypatch, caplog):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    leases = Leases(lease)
    election = LeaderElection(leases, "my-scheduler", {})
    holds = [election.acquire()]
    now[0] += after
    holds.append(election.acquire())
    assert (holds[-1], caplog.messages) == (held, message)
    if held:
        spec = leases.lease["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (election.identity, 15)
        assert spec["leaseTransitions"] == (0 if lease == 404 else 5)


def test_the_age_of_a_lease_counts_from_the_answer_not_from_the_request(monkeypatch):
    """It may have been renewed just before the answer, and then its holder still leads."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    leases = Leases(held_by("another"))
    plain = leases.request

    def slow(method, path, body=None):
        now[0] += 9 if method == "GET" else 0
        return plain(method, path, body)

    leases.request = slow
    election = LeaderElection(leases, "my-scheduler", {})
    assert not election.acquire()
    leases.request = plain
    now[0] += 14.9
    assert not election.acquire()
    now[0] += 0.1
    assert election.acquire()


def test_a_waiting_replica_logs_each_leader_once(caplog):
    caplog.set_level("INFO", "scheduler")
    leases, waits = Leases(held_by("another")), []

    class Stop:
        """An event that is set at the fourth wait. Before the third, another replica becomes the leader."""

        def wait(self, seconds):
            waits.append(seconds)
            leases.lease = held_by("a third one" if len(waits) > 1 else "another")
            return len(waits) == 4

    election = LeaderElection(leases, "my-scheduler", {})
    assert not election.lead(Stop())
    assert caplog.messages == [f"{election.identity} waits: {leader} leads" for leader in ("another", "a third one")]


def test_the_lease_may_have_another_name_and_namespace():
    leases = Leases(404)
    asked = []
    plain = leases.request
    leases.request = lambda method, path, body=None: asked.append((method, path)) or plain(method, path, body)
    LeaderElection(leases, "my-scheduler", {"resourceName": "ours", "resourceNamespace": "team"}).acquire()
    place = "/apis/coordination.k8s.io/v1/namespaces/team/leases"
    assert asked == [("GET", f"{place}/ours"), ("POST", place)]
    assert leases.lease["metadata"] == {"namespace": "team", "name": "ours", "resourceVersion": "2"}


def test_a_conflict_on_the_lease_means_that_another_replica_leads(caplog):
    leases = Leases(held_by(""))
    election = LeaderElection(leases, "my-scheduler", {})

    def conflict(method, path, body=None):
        if method == "GET":
            return leases.lease
        raise error_of(409, "conflict")

    leases.request = conflict
    assert not election.acquire() and caplog.messages == []


def test_an_answer_that_is_not_a_lease_does_not_make_a_leader(caplog):
    leases = Leases(404)
    plain = leases.request
    leases.request = lambda method, path, body=None: {"items": 7} if method == "POST" else plain(method, path, body)
    election = LeaderElection(leases, "my-scheduler", {})
    assert not election.acquire() and not election.leads()
    assert caplog.messages == ["leader election: the response about the Lease did not come from an API server"]
