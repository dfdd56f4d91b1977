"""/livez, /readyz and /healthz, as kube-scheduler answers them.

Probes of a kubelet ask for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from scheduler_extras.api.election import LeaderElection
from scheduler_extras.common.clocks import HEARTBEAT, STOP
from scheduler_extras.live.live import LiveCluster
from scheduler_extras.serve.server import Response, Request, Routes


Check = Callable[[], bool]


def loop_is_alive() -> bool:
    """Return whether the loop comes round within its limit, as the watchdog demands it."""
    return time.monotonic() <= HEARTBEAT.at + HEARTBEAT.limit


def health_routes(cluster: LiveCluster, election: LeaderElection | None) -> Routes:
    """Return the routes of health checks. A standby is alive, and ready once it has listed the cluster."""
    def has_listed() -> bool:
        """Return whether nodes and pods were listed, and are watched."""
        return {"nodes", "pods"} <= cluster.cache.objects.keys()

    alive = {"ping": lambda: True, "loop": loop_is_alive}
    if election:
        alive["leaderElection"] = lambda: not election.lost
    ready = {"ping": lambda: True, "informer-sync": has_listed, "shutdown": lambda: not STOP.is_set()}
    return {path: route(path, checks) for path, checks in
            {"/livez": alive, "/readyz": ready, "/healthz": alive}.items()}


def route(path: str, checks: dict[str, Check]) -> Callable[[Request], Response]:
    """Return a handler that makes checks. It lists them if one fails, or with ?verbose."""
    def handler(request: Request) -> Response:
        """Make the checks."""
        passed = {name: check() for name, check in checks.items()}
        is_healthy = all(passed.values())
        if is_healthy and "verbose" not in request.query:
            return Response(b"ok")
        lines = [f"[+]{name} ok" if is_ok else f"[-]{name} failed: reason withheld"
                 for name, is_ok in passed.items()]
        lines.append(f"{path[1:]} check {'passed' if is_healthy else 'failed'}")
        return Response("".join(f"{line}\n" for line in lines).encode(), status=200 if is_healthy else 500)

    return handler
