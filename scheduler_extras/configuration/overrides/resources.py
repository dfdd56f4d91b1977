"""Overrides of rules about resources."""

import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from scheduler import NO_REQUESTS
from scheduler_extras.configuration.overrides.registry import override
from scheduler_extras.reading.pods_and_nodes import CPU_AND_MEMORY, FullNode, FullPod
from scheduler_extras.rules.resources import requested_to_capacity_ratio
from scheduler_extras.rules.script_rules import TOO_MANY_PODS, insufficient


@override("PodFitsResources")
def node_resources_fit(pod: FullPod, node: FullNode, excepted: Collection[str] = ()) -> Iterator[str]:
    """The node has room for the pod. What the pod does not request may be overcommitted.

    excepted: resources that are not checked; "example.com/" means all resources of a group.
    """
    if len(node.pods) + 1 > node.max_pods:
        yield TOO_MANY_PODS
    for name, amount in pod.requests.items():
        if amount <= 0 or node.requested.get(name, 0) + amount <= node.allocatable.get(name, 0):
            continue
        group = f"{name.partition('/')[0]}/"
        if name not in excepted and group not in excepted:
            yield insufficient(name)


def usage_136(pod: FullPod, node: FullNode, resources: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return {resource: (used with the pod, capacity)}. The pod's overhead counts in full.

    Resources that the node does not have, and extended resources that the pod does not request, are left out.
    """
    incoming: Mapping[str, int] = pod.nonzero_incoming
    if pod.uncounted_cpu:
        incoming = {**incoming, "cpu": incoming["cpu"] + pod.uncounted_cpu}
    counted = [name for name in resources
               if node.allocatable.get(name) and (name in NO_REQUESTS or incoming.get(name))]
    return {name: (node.nonzero.get(name, 0) + incoming.get(name, 0), node.allocatable[name])
            for name in counted}


def mean_score(
    pod: FullPod, node: FullNode, weights: Mapping[str, int], score: Callable[[int, int], int]
) -> int:
    """Return the weighted mean of score(used, capacity) over the resources; 0 if none counts."""
    total = divisor = 0
    for name, (used, there) in usage_136(pod, node, weights).items():
        total += weights[name] * score(used, there)
        divisor += weights[name]
    return total // (divisor or 1)


override("LeastRequestedPriority")(
    functools.partial(mean_score, score=lambda used, there: 100 * max(there - used, 0) // there))
override("MostRequestedPriority")(
    functools.partial(mean_score, score=lambda used, there: 100 * min(there, used) // there))


@override("BalancedResourceAllocation")
def improved_balance(pod: FullPod, node: FullNode, resources: Collection[str] = CPU_AND_MEMORY) -> int:
    """75 if the pod leaves the balance of the node's resources as it is, more if it improves it."""
    requested = [name for name in resources if pod.requests.get(name)]
    if not requested:
        return 0
    before = {name: node.requested.get(name, 0) for name in resources
              if node.allocatable.get(name) and (name in NO_REQUESTS or name in requested)}
    then = {name: amount + pod.requests.get(name, 0) for name, amount in before.items()}
    return 50 + (50 + evenness(then, node) - evenness(before, node)) // 2


def evenness(requested: Mapping[str, int], node: FullNode) -> int:
    """Return 100 minus the standard deviation, in percent, of the shares of the resources in use."""
    shares = [min(amount / node.allocatable[name], 1) for name, amount in requested.items()]
    if len(shares) == 2:
        return int((1 - abs(shares[0] - shares[1]) / 2) * 100)
    count = max(len(shares), 1)
    add_up = functools.partial(functools.reduce, float.__add__)  # one by one, like Go; sum() is more exact
    mean = add_up(shares, 0.0) / count
    squares = [(share - mean) ** 2 for share in shares]
    return int((1 - math.sqrt(add_up(squares, 0.0) / count)) * 100)


def utilization_136(pod: FullPod, node: FullNode, resources: Iterable[str]) -> dict[str, int]:
    """Return {resource: the percentage in use with the pod, rounded down}."""
    return {name: 100 * used // there for name, (used, there) in usage_136(pod, node, resources).items()}


override("RequestedToCapacityRatio")(
    functools.partial(requested_to_capacity_ratio, utilization=utilization_136))
