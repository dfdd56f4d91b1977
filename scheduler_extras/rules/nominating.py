"""Nominations: a preemptor is nominated to the node on which room is made for it.

Preemption nominates; live/ sends and reverts the requests. Room for nominated pods is kept in always.py.
"""

from __future__ import annotations

from scheduler_extras.deciding.extension_points import Request
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod


def nominate(pod: FullPod, node_name: str | None, snapshot: FullSnapshot) -> Request:
    """Nominate a pod to a node in the snapshot; None ends its nomination. Return the request to write it."""
    snapshot.nominated = [other for other in snapshot.nominated if other.uid != pod.uid]
    if node_name:
        status = pick(pod.raw, dict, "status") | {"nominatedNodeName": node_name}
        snapshot.nominated.append(FullPod(pod.raw | {"status": status}))
    return "PATCH", f"{pod.path}/status", {
        "metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node_name}}


def is_nomination(request: Request) -> bool:
    """Return whether a request nominates a pod to a node, or ends its nomination."""
    method, _, body = request
    return method == "PATCH" and "nominatedNodeName" in pick(body, dict, "status")


def nomination_of(pod: FullPod, snapshot: FullSnapshot) -> str | None:
    """Return the name of the node to which the pod is nominated, or None."""
    return next((other.nominated_node for other in snapshot.nominated if other.uid == pod.uid), None)


def nominated_below(pod: FullPod, node: FullNode, snapshot: FullSnapshot) -> list[FullPod]:
    """Return the pods of lower priority that are nominated to the node. (getLowerPriorityNominatedPods)"""
    return [other for other in snapshot.nominated if other.scheduler in snapshot.policies
            and other.nominated_node == node.name and other.priority < pod.priority]
