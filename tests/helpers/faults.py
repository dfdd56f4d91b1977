"""Helpers for tests that run the program against misbehaving servers."""

import json

import pytest

from helpers.control_plane import wait_for
from helpers.extras import ROOT, limits, pod, run_scheduler


LEASE, DEADLINE = 3, 2  # the lease duration and the renew deadline, in seconds
FEW = 64  # the most writes that may be in flight at once: the number of writer threads


@pytest.fixture
def start(start_scheduler):
    """A function that starts the program against a server."""
    return lambda server, *arguments, program=None, **options: start_scheduler(
        "--server", server.url, *arguments, limits=limits(600), program=program, **options)


def run_limited(*arguments, timeout=300, **options):
    """Run the program to its end; return its exit code, output, error output, and seconds of CPU."""
    run = run_scheduler(*arguments, timeout=timeout, limits=limits(10), **options)
    return run.returncode, run.stdout, run.stderr, run.cpu_seconds


def many(count, **more):
    """This many pods with small requests."""
    return [pod(f"pod-{i:03}", {"cpu": "10m"}, **more) for i in range(count)]


def policy_file(folder, extenders=(), **more):
    """Write a Policy file with the shipped rules and these extenders; return its path."""
    path = folder / "policy.json"
    path.write_text(json.dumps(json.loads((ROOT / "policy.json").read_text()) | {"extenders": list(extenders)} | more))
    return path


def election_file(folder, lease=LEASE, deadline=DEADLINE):
    """Write a configuration with leader election and short times; return its path."""
    path = folder / "config.json"
    path.write_text(json.dumps({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "leaderElection": {
            "leaderElect": True, "leaseDuration": f"{lease}s", "renewDeadline": f"{deadline}s",
            "retryPeriod": "500ms"}}))
    return path


def take_lease(server, leader):
    """Take the Lease away from the leader."""
    with server.lock:
        server.version += 1
        server.lease["metadata"]["resourceVersion"] = str(server.version)
        server.lease["spec"] |= {"holderIdentity": "somebody", "renewTime": "2030-01-01T00:00:00.000000Z"}


def leading(server, start, folder, **options):
    """Start a leader that has far more Bindings to send than it can send at once, and return it.

    On a busy machine it may fail to renew its Lease in time, and end: then another one is started.
    """
    server.delays["binding"] = 0.5  # sending all Bindings takes 4 s, much longer than the decisions
    while True:
        leader = start(server, "--policy", election_file(folder), **options)
        wait_for("some pods are bound", lambda process=leader: len(server.placements()) >= 8 or process.poll() is not None)
        if leader.poll() is None:
            return leader
