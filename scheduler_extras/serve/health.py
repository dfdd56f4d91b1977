"""/livez, /readyz and /healthz, as kube-scheduler answers them.

Probes of a kubelet ask for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from scheduler_extras.api.election import LeaderElection
from scheduler_extras.common.clocks import HEARTBEAT, STOP
from scheduler_extras.live.cluster import LiveCluster
from scheduler_extras.serve.server import Request, Response, Routes


Check = Callable[[], bool]


def loop_is_alive() -> bool:
    """Return whether the loop has made progress within its limit. The watchdog applies the same limit."""
    return time.monotonic() <= HEARTBEAT.at + HEARTBEAT.limit


def health_routes(cluster: LiveCluster, election: LeaderElection | None) -> Routes:
    """Return the routes of health checks. A standby is alive, and ready once it has listed the cluster."""
    def has_listed() -> bool:
        """Return whether nodes and pods have been listed."""
        return {"nodes", "pods"} <= cluster.cache.objects.keys()

    alive = {"ping": lambda: True, "loop": loop_is_alive}
    if election:
        alive["leaderElection"] = lambda: not election.lost
    ready = {"ping": lambda: True, "informer-sync": has_listed, "shutdown": lambda: not STOP.is_set()}
    routes: Routes = {}
    for path, checks in {"/livez": alive, "/readyz": ready, "/healthz": alive}.items():
        routes[path] = route(path, checks)
        routes |= {f"{path}/{name}": route_of_one(name, check) for name, check in checks.items()}
    return routes


def route(path: str, checks: dict[str, Check]) -> Callable[[Request], Response]:
    """Return a handler that runs the checks, without those that ?exclude= names.

    Its answer lists them if one fails, or with ?verbose.
    """
    def handler(request: Request) -> Response:
        """Run the checks."""
        excluded = request.query.get("exclude", [])
        passed = {name: check() for name, check in checks.items() if name not in excluded}
        is_healthy = all(passed.values())
        if is_healthy and "verbose" not in request.query:
            return Response(b"ok")
        lines = [line_about(name, passed.get(name)) for name in checks]
        unknown = [f'"{name}"' for name in dict.fromkeys(excluded) if name not in checks]
        if unknown:
            lines.append(f"warn: some health checks cannot be excluded: no matches for {','.join(unknown)}")
        lines.append(f"{path[1:]} check {'passed' if is_healthy else 'failed'}")
        text = "".join(f"{line}\n" for line in lines)
        return Response(text.encode(errors="replace"), status=200 if is_healthy else 500)

    return handler


def line_about(name: str, has_passed: bool | None) -> str:
    """Return the line about a check. has_passed: None if the check was excluded."""
    if has_passed is None:
        return f"[+]{name} excluded: ok"
    return f"[+]{name} ok" if has_passed else f"[-]{name} failed: reason withheld"


def route_of_one(name: str, check: Check) -> Callable[[Request], Response]:
    """Return a handler that runs one check."""
    def handler(request: Request) -> Response:
        """Run the check."""
        if check():
            return Response(b"ok")
        return Response(f"internal server error: {name} has failed\n".encode(), status=500)

    return handler
