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
