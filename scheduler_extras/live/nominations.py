"""Nominations of preemptors to nodes, and the victims that are being deleted.

The cache records what the API server shows; results.py reverts what could not be written.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.nominating import is_nomination, nomination_of


class Nominations:
    """Keeps the snapshot's nominated pods and victims up to date. Upstream: the nominator."""

    def __init__(self, snapshot: FullSnapshot, pods: dict[str, FullPod],
                 latest_if_unbound: Callable[[FullPod], FullPod | None]):
        self.snapshot = snapshot
        self.pods = pods  # those of the cache
        self.latest_if_unbound = latest_if_unbound  # of the cache

    def note(self, before: FullPod | None, pod: FullPod | None) -> None:
        """Record whether a pod is nominated to a node. before: its previous version, or None.

        A nomination that was made or ended here, but is not yet visible in the API, is kept while it waits.
        """
        if before and pod and before.uid == pod.uid and self.is_newer_here(before, pod):
            return
        nominated = self.snapshot.nominated
        for each in filter(None, (before, pod)):
            if each.nominated_node or not self.latest_if_unbound(each):
                nominated = [other for other in nominated if other.uid != each.uid]
        if pod and pod.nominated_node and not (pod.node_name or pod.terminating):
            nominated = [*nominated, pod]
        self.snapshot.nominated = nominated

    def is_newer_here(self, before: FullPod, pod: FullPod) -> bool:
        """Return whether the snapshot has a newer nomination of a waiting pod than the API server shows."""
        if pod.terminating or not self.latest_if_unbound(pod):
            return False
        is_same_as_before = pod.nominated_node == before.nominated_node
        return is_same_as_before and pod.nominated_node != (nomination_of(pod, self.snapshot) or "")

    def update_victim(self, before: FullPod, pod: FullPod | None) -> None:
        """Update a pod if it is a victim. pod: its current version; None if it is gone."""
        if pod and pod.uid in self.snapshot.victims:
            self.snapshot.victims[pod.uid].pod = pod
        elif not pod:
            self.snapshot.victims.pop(before.uid, None)

    def revert(self, requests: list[tuple]) -> None:
        """Revert the effects of requests that have failed: the API server's version counts again."""
        for request in requests:
            method, path, body = request
            if method == "DELETE":
                self.snapshot.victims.pop(text_at(body, "preconditions", "uid"), None)
            if is_nomination(request):
                *_, namespace, _, name, _ = path.split("/")
                uid = text_at(body, "metadata", "uid")
                others = [other for other in self.snapshot.nominated if other.uid != uid]
                self.snapshot.nominated = others
                self.note(None, self.pods.get(f"{namespace}/{name}"))
