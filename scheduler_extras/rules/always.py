"""Predicates that are active under any Policy: claims of devices, and room for nominated pods.

policy/policy.py calls them after the Policy's own.
"""

from __future__ import annotations

import collections
import functools
from typing import Any

from scheduler_extras.deciding.rule import SKIP, FullRule, Rejected
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod, with_pods
from scheduler_extras.rules.simulation import Simulation, first_reasons, prepared_for_nodes


def claims_of_devices(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> object:
    """Reject a pod that claims devices, unless it is bound, and so has them already."""
    if pod.spec.get("resourceClaims") and not pod.spec.get("nodeName"):
        raise Rejected("pod claims devices (spec.resourceClaims), which this scheduler does not allocate")
    return SKIP


# on_nodes: {node: the other pods nominated to it}. prepared: returns the pod's PreparedRules, or None.
Rivals = collections.namedtuple("Rivals", "on_nodes snapshot predicates prepared")


def rivals_of(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> Any:
    """Return the Rivals of a pod: other nominated pods of equal or higher priority; or SKIP.

    Only pods of our own schedulers count, as upstream's nominator only has pods of its own queue.
    """
    rivals = [other for other in snapshot.nominated
              if other.uid != pod.uid and other.priority >= pod.priority and is_rival(other, snapshot)]
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


def is_rival(pod: FullPod, snapshot: FullSnapshot) -> bool:
    """Return whether a pod names one of our schedulers, and has not finished."""
    return pod.scheduler in snapshot.policies and pod.phase not in ("Succeeded", "Failed")


def room_for_nominated(pod: FullPod, node: FullNode, metadata: Rivals) -> list[str]:
    """The pod fits even with the pods that are nominated to the node. Upstream: addNominatedPods.

    Unless a rule needs other nodes, this adds them to a copy of the node alone, which is fast.
    """
    there = metadata.on_nodes.get(node.name)
    if not there:
        return []
    prepared = metadata.prepared()
    if prepared is None or any(other.is_affine or other.named_claims for other in there):
        return Simulation(metadata.predicates, pod, node, metadata.snapshot, there=there).reasons()
    if with_pods not in node.derived or node.derived[with_pods][0] != there:
        node.derived[with_pods] = there, with_pods(node, [*node.pods.values(), *there])
    return first_reasons(prepared, node.derived[with_pods][1])


ROOM_FOR_NOMINATED = "room for nominated pods"  # the title of the rule
ALWAYS_ASKED = [
    FullRule("Devices", lambda pod, node: (), metadata=claims_of_devices, title="devices", steady=True),
    FullRule("NominatedPods", room_for_nominated, metadata=rivals_of,
             title=ROOM_FOR_NOMINATED)]
