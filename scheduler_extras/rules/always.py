"""What is asked whatever the Policy: claims of devices, and the room that is kept for nominated pods.

policy/policy.py asks it after the predicates; rules that preempt call `nominate`.
"""

import collections
from dataclasses import replace

from scheduler import pick
from scheduler_extras.objects import FullPod, with_pods
from scheduler_extras.rule import SKIP, FullRule, Rejected, prepare


def reasons_supposing(pod, node, snapshot, gone=(), there=()):
    """Return why the predicates refuse the node to the pod if some pods were gone and others there."""
    changed = with_pods(node, [each for each in [*node.pods.values(), *there] if each not in gone])
    supposed = replace(snapshot, nodes=snapshot.nodes | {node.name: changed}, memory=snapshot.memory.copy())
    supposed.note_change(changed)
    try:
        predicates = snapshot.policies[pod.scheduler].predicates_to_ask()
        for rule in prepare(predicates, pod, supposed.nodes, supposed):
            reasons = rule.reasons(changed)
            if reasons:
                return reasons
        return []
    except Rejected as error:
        return [str(error)]


def claims_of_devices(pod, nodes, snapshot):
    """Reject a pod that claims devices, unless it runs, so that it has them."""
    if pod.spec.get("resourceClaims") and not pod.spec.get("nodeName"):
        raise Rejected("pod claims devices (spec.resourceClaims), which this scheduler does not allocate")
    return SKIP


def nominated_elsewhere(pod, nodes, snapshot):
    """Return {node: the other pods, no less important, for which room is being made there}."""
    if not snapshot.nominated:
        return SKIP
    others = collections.defaultdict(list)
    placed = set().union(*(node.pods for node in nodes))
    for other in snapshot.nominated:
        is_done = other.phase in ("Succeeded", "Failed") or other.uid in placed
        if other.uid != pod.uid and other.priority >= pod.priority and not is_done:
            others[other.nominated_node].append(other)
    return (others, snapshot) if others else SKIP


def room_for_nominated(pod, node, metadata):
    """The pod still fits once those are there that are nominated to the node. Upstream: addNominatedPods."""
    others, snapshot = metadata
    return reasons_supposing(pod, node, snapshot, there=others[node.name]) if node.name in others else []


def nominate(pod, node_name, snapshot):
    """Nominate a pod to a node, or to none: for the pods that come next, and by the request returned."""
    snapshot.nominated = [other for other in snapshot.nominated if other.uid != pod.uid]
    if node_name:
        status = pick(pod.raw, dict, "status") | {"nominatedNodeName": node_name}
        snapshot.nominated.append(FullPod(pod.raw | {"status": status}))
    return "PATCH", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status", {
        "metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node_name}}


ALWAYS_ASKED = [  # whatever the Policy
    FullRule("Devices", lambda pod, node: (), metadata=claims_of_devices, title="devices", steady=True),
    FullRule("NominatedPods", room_for_nominated, metadata=nominated_elsewhere,
             title="room for nominated pods")]
