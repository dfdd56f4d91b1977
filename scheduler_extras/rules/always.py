"""What is asked whatever the Policy: claims of devices, and the room that is kept for nominated pods.

policy/policy.py asks it after the predicates; rules that preempt call `nominate`.
"""

import collections
import functools

from scheduler_extras.deciding.rule import SKIP, FullRule, Rejected
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullPod, with_pods
from scheduler_extras.rules.supposed import Supposed, first_reasons, prepared_for_nodes


def claims_of_devices(pod, nodes, snapshot):
    """Reject a pod that claims devices, unless it runs, so that it has them."""
    if pod.spec.get("resourceClaims") and not pod.spec.get("nodeName"):
        raise Rejected("pod claims devices (spec.resourceClaims), which this scheduler does not allocate")
    return SKIP


Rivals = collections.namedtuple("Rivals", "on_nodes snapshot predicates prepared")


def nominated_elsewhere(pod, nodes, snapshot):
    """Return for which other pods, no less important, room is being made where; and whom to ask about them.

    They are pods of our schedulers, as kube-scheduler's nominator has those of its own queue.
    """
    rivals = [other for other in snapshot.nominated
              if other.uid != pod.uid and other.priority >= pod.priority and is_ours(other, snapshot)]
    if not rivals:
        return SKIP
    on_nodes = collections.defaultdict(list)
    uids = {other.uid for other in rivals}
    placed = {uid for node in nodes for uid in uids & node.pods.keys()}
    for other in rivals:
        if other.uid not in placed:
            on_nodes[other.nominated_node].append(other)
    predicates = snapshot.policies[pod.scheduler].predicates
    prepared = functools.cache(functools.partial(prepared_for_nodes, predicates, pod, snapshot))
    return Rivals(on_nodes, snapshot, predicates, prepared)


def is_ours(pod, snapshot):
    """Return whether one of our schedulers still has to place a pod."""
    return pod.scheduler in snapshot.policies and pod.phase not in ("Succeeded", "Failed")


def room_for_nominated(pod, node, metadata):
    """The pod still fits once those are there that are nominated to the node. Upstream: addNominatedPods.

    Where none of the pods concerns more than its node, no cluster with them is made up, to be quick.
    """
    there = metadata.on_nodes.get(node.name)
    if not there:
        return []
    prepared = metadata.prepared()
    if prepared is None or any(other.is_affine or other.named_claims for other in there):
        return Supposed(metadata.predicates, pod, node, metadata.snapshot, there=there).reasons()
    if with_pods not in node.derived or node.derived[with_pods][0] != there:
        node.derived[with_pods] = there, with_pods(node, [*node.pods.values(), *there])
    return first_reasons(prepared, node.derived[with_pods][1])


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
