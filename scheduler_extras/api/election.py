"""Leader election: one of several replicas holds a Lease, and only that one schedules pods.

live/session.py runs the loop only while this replica leads.
"""

from __future__ import annotations

import math
import socket
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from datetime import datetime, timezone
from typing import Any

from scheduler import log
from scheduler_extras.api.responses import Conflict, NotFound
from scheduler_extras.common.clocks import STOP, in_background, within
from scheduler_extras.common.election_defaults import ELECTION
from scheduler_extras.common.errors import ServerUnavailable
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.reading.fields import JsonObject, pick, text_at


class LeaderElection:
    """Acquires the Lease and renews it in time. Upstream: client-go's leaderelection.

    Durations are in seconds. The replicas' clocks need not agree: each measures how long the Lease has stayed
    unchanged.
    """

    def __init__(self, api: Any, name: str, settings: dict):
        self.api = api
        self.identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        settings = ELECTION | settings
        self.lease_duration = settings["leaseDuration"]
        self.renew_deadline = settings["renewDeadline"]
        self.retry_period = settings["retryPeriod"]
        self.metadata = {"name": settings.get("resourceName") or name,
                         "namespace": settings.get("resourceNamespace") or "kube-system"}
        self.written: JsonObject | None = None  # the Lease as this replica has just written it
        self.observed: dict | None = None  # its spec as last read
        self.observed_at = 0.0  # when this spec was first read
        self.renewed_at = -math.inf
        self.lost = False  # whether this replica has lost the leadership
        self.keeper: Future | None = None  # of the thread that renews the Lease

    def lead(self, stop: threading.Event, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """Wait until this replica leads, and then renew the Lease in a thread. False if `stop` was set first.

        The thread sets `stop` and `lost` if it cannot renew the Lease. While another replica leads,
        `meanwhile` is called again and again.
        """
        leader = None  # the last leader that was logged
        while not self.acquire():
            holder = text_at(self.observed, "holderIdentity")
            if holder and holder != leader:
                log.info("%s waits: %s leads", self.identity, holder)
                leader = holder
            meanwhile()
            if stop.wait(self.retry_period):
                return False
        log.info("%s became leader", self.identity)
        self.keeper = in_background(self.keep, stop)
        return True

    def leads(self) -> bool:
        """Return whether the Lease was renewed in time. If it was not, another replica may lead."""
        return time.monotonic() - self.renewed_at < self.renew_deadline

    def keep(self, stop: threading.Event) -> None:
        """Renew the Lease until `stop` is set, or until renewing has failed for too long."""
        while not stop.wait(self.retry_period):
            if not self.acquire() and not self.leads():
                log.error("leader election lost")
                self.lost = True
                stop.set()

    def release(self) -> None:
        """Release the Lease, so that another replica can lead at once. `stop` must be set before."""
        if self.keeper:
            wait([self.keeper], self.retry_period)
        if self.leads():
            self.acquire(to_release=True)

    def acquire(self, to_release: bool = False) -> bool:
        """Try to acquire, renew or release the Lease. Return whether this succeeded."""
        try:
            return self.write_lease("" if to_release else self.identity)
        except Exception as error:
            if not isinstance(error, Conflict):
                warn_once(f"leader election: {error}", about="leader election")
            return False

    def ask(self, *request: Any) -> JsonObject:
        """Send a request, and return the response in time to stay the leader. Raises ApiError."""
        if self.renewed_at == -math.inf:  # this replica does not lead
            return within(self.renew_deadline, self.api.request, *request, stop=STOP)
        left = self.renewed_at + self.renew_deadline - time.monotonic()
        return within(max(left, self.retry_period), self.api.request, *request)

    def read_lease(self) -> tuple[str, str, JsonObject]:
        """Return the method and the path for writing the Lease, and its current state."""
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.metadata['namespace']}/leases"
        path = f"{leases}/{self.metadata['name']}"
        lease = self.written
        self.written = None
        try:
            return "PUT", path, lease or self.ask("GET", path)
        except NotFound:
            new = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": self.metadata}
            return "POST", leases, new

    def write_lease(self, holder: str) -> bool:
        """Write the Lease with this holder, unless another replica holds it. Return whether it succeeded."""
        asked = time.monotonic()
        method, path, lease = self.read_lease()
        spec = pick(lease, dict, "spec")
        if spec != self.observed:
            self.observed = spec
            self.observed_at = time.monotonic()  # after the response, because it may be as new as that
        is_ours = spec.get("holderIdentity") == self.identity
        lasts = max(spec.get("leaseDurationSeconds") or 0, self.lease_duration)  # the holder's may be longer
        is_old = asked - self.observed_at >= lasts
        if spec.get("holderIdentity") and not is_ours and not is_old:
            self.renewed_at = -math.inf  # this replica does not lead, even if it did
            return False
        spec = {**spec, "holderIdentity": holder, "leaseDurationSeconds": math.ceil(self.lease_duration),
                "renewTime": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        if not is_ours:
            spec["acquireTime"] = spec["renewTime"]
            spec["leaseTransitions"] = min(spec.get("leaseTransitions", -1) + 1, 2**31 - 1)
        renewed_at = time.monotonic()  # before the write: the other replicas measure from a later moment
        written = self.ask(method, path, lease | {"spec": spec})
        if text_at(written, "spec", "holderIdentity") != holder:
            raise ServerUnavailable(0, "the response about the Lease did not come from an API server")
        self.written = written
        self.renewed_at = renewed_at if holder else -math.inf
        return True
