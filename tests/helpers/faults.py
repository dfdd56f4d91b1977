"""What tests share that run the program beside servers that misbehave."""

import json

import pytest

from helpers.control_plane import wait_for
from helpers.extras import ROOT, limits, pod, run_scheduler


LEASE, DEADLINE = 3, 2  # seconds of a Lease, and to renew it
FEW = 64  # writes that may be on their way at once: as many as there are threads


@pytest.fixture
def start(start_scheduler):
    """A function that starts the script beside a server."""
    return lambda server, *arguments, program=None, **options: start_scheduler(
        "--server", server.url, *arguments, limits=limits(600), program=program, **options)


def run_limited(*arguments, timeout=300, **options):
    """Run the script to its end; return its exit code, output, error output, and the seconds of CPU that it took."""
    run = run_scheduler(*arguments, timeout=timeout, limits=limits(10), **options)
    return run.returncode, run.stdout, run.stderr, run.cpu_seconds


def many(count, **more):
    """Pods that need little."""
    return [pod(f"pod-{i:03}", {"cpu": "10m"}, **more) for i in range(count)]


def policy_file(folder, extenders=(), **more):
    """A Policy file, of the shipped rules and these extenders."""
    path = folder / "policy.json"
    path.write_text(json.dumps(json.loads((ROOT / "policy.json").read_text()) | {"extenders": list(extenders)} | more))
    return path


def election_file(folder, lease=LEASE, deadline=DEADLINE):
    """A configuration with leader election in little time."""
    path = folder / "config.json"
    path.write_text(json.dumps({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "leaderElection": {
            "leaderElect": True, "leaseDuration": f"{lease}s", "renewDeadline": f"{deadline}s",
            "retryPeriod": "500ms"}}))
    return path


def taken_over(server, leader):
    """Somebody else takes the Lease."""
    with server.lock:
        server.version += 1
        server.lease["metadata"]["resourceVersion"] = str(server.version)
        server.lease["spec"] |= {"holderIdentity": "somebody", "renewTime": "2030-01-01T00:00:00.000000Z"}


def leading(server, start, folder, **options):
    """Return a leader that has far more to bind than it can send at once.

    On a busy machine one may fail to renew its Lease in so little time, and end: then another one is started.
    """
    server.delays["binding"] = 0.5  # the decisions are made long before they are sent, for 4 s
    while True:
        leader = start(server, "--policy", election_file(folder), **options)
        wait_for("some pods are bound", lambda process=leader: len(server.places()) >= 8 or process.poll() is not None)
        if leader.poll() is None:
            return leader
