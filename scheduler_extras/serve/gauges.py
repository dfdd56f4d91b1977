"""/metrics, and the gauges on it, for which each scrape reads the queue and the cache.

runs.py adds the route. metrics.py has the counters and histograms.
"""

from __future__ import annotations

import collections
import platform
from collections.abc import Callable
from typing import Any

from scheduler_extras.api.election import LeaderElection
from scheduler_extras.common.version import UPSTREAM, VERSION
from scheduler_extras.live.cluster import LiveCluster
from scheduler_extras.live.pod_record import WaitsFor
from scheduler_extras.reading.fields import text_at
from scheduler_extras.serve.metrics import Observations, queue_of
from scheduler_extras.serve.process_metrics import process_metrics
from scheduler_extras.serve.prometheus_text import Gauge, Metric, exposition
from scheduler_extras.serve.server import Request, Response


ASSUMED = (WaitsFor.PERMIT, WaitsFor.PRE_BIND, WaitsFor.BINDING, WaitsFor.CONFIRMATION)


class ClusterGauges:
    """Reads the queue and the cache of a cluster while the loop changes them."""

    def __init__(self, cluster: LiveCluster, election: LeaderElection | None):
        self.cluster = cluster
        self.election = election

    def pending_pods(self) -> dict[tuple[str], int]:
        """Return {(queue,): pods}, with the queues of kube-scheduler."""
        gated = self.cluster.queue.gated
        queues = collections.Counter({"active": 0, "backoff": 0, "unschedulable": 0, "gated": len(gated)})
        for uid, record in list(self.cluster.queue.items()):
            if record.waits_for not in ASSUMED and uid not in gated:
                queues[queue_of(record)] += 1
        return {(queue,): count for queue, count in queues.items()}

    def unschedulable_pods(self) -> dict[tuple[str, str], int]:
        """Return {(plugin, profile): pending pods that the plugin rejected at their last attempt}."""
        records = list(self.cluster.queue.values())
        return collections.Counter((plugin, record.pod.scheduler) for record in records
                                   if record.waits_for not in ASSUMED for plugin in record.retry.rejected_by)

    def cache_size(self) -> dict[tuple[str], int]:
        """Return the numbers of nodes, of pods on nodes, and of assumed pods."""
        nodes = [node for node in list(self.cluster.cache.nodes.values()) if node.exists]
        assumed = [record for record in list(self.cluster.queue.values()) if record.waits_for in ASSUMED]
        pods = sum(len(node.pods) for node in nodes)
        return {("nodes",): len(nodes), ("pods",): pods, ("assumed_pods",): len(assumed)}

    def leader_status(self) -> dict[tuple[str], int]:
        """Return {(name of the Lease,): whether this replica leads}; {} without leader election."""
        return {(self.election.metadata["name"],): int(self.election.leads())} if self.election else {}

    def build(self) -> dict[tuple[str, str, str], int]:
        """Return 1, with the versions of this program, of kube-scheduler and of Python."""
        return {(VERSION, UPSTREAM, platform.python_version()): 1}

    def metrics(self) -> list[Metric]:
        """Return all gauges, with those that have another name in 1.20 under both names."""
        cache = "Nodes, pods on nodes, and pods assumed on nodes in the cache."
        return [
            Gauge("scheduler_pending_pods", "Pending pods, by their queue.", self.pending_pods, "queue"),
            Gauge("scheduler_unschedulable_pods",
                  "Pending pods that a plugin has rejected at their last attempt.", self.unschedulable_pods,
                  "plugin", "profile"),
            Gauge("scheduler_cache_size", cache, self.cache_size, "type"),
            Gauge("scheduler_scheduler_cache_size", f"{cache} (1.20)", self.cache_size, "type"),
            Gauge("leader_election_master_status", "Whether this replica leads: 1 or 0.", self.leader_status,
                  "name"),
            Gauge("scheduler_extras_build_info",
                  "The version of this program, and of the kube-scheduler that it decides like.", self.build,
                  "version", "kube_scheduler", "python")]


def operator_values(observations: Observations, election: LeaderElection | None) -> dict[str, Any]:
    """Return the values for the operator's line of the page: which replica leads, and failed writes."""
    refused = [count for (code, method, _), count in list(observations.requests.numbers.items())
               if method != "GET" and code[0] in "45"]
    if not election:
        return {"refused": sum(refused)}
    leads = election.leads()
    holder = text_at(election.observed, "holderIdentity") or "no replica"
    return {"refused": sum(refused), "standby": not leads,
            "leader": "this replica leads" if leads else f"{holder} leads"}


def metrics_route(observations: Observations, state: ClusterGauges) -> Callable[[Request], Response]:
    """Return a handler that answers a scrape."""
    def handler(request: Request) -> Response:
        """Export all metrics that have numbers."""
        metrics = observations.metrics() + state.metrics() + process_metrics()
        return Response(exposition(metrics), "text/plain; version=0.0.4; charset=utf-8")

    return handler
