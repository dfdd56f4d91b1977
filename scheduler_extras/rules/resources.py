"""RequestedToCapacityRatio: a score from the utilization of any resources, along a line given by points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler_extras.deciding.rule import priority
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod


# Schemas, as reading/schemas.py reads them: a type, a range of numbers, a set of strings, a list, or
# {field: schema}. Upstream: kube-scheduler/config/v1/types.go.
WEIGHT = range(1, 2**31)
SHAPE = [{"utilization": range(101), "score": range(11)}]


def shape_problems(arguments: list[dict]) -> Iterator[str]:
    """Yield the mistakes in the arguments. Upstream: ValidateRequestedToCapacityRatioArgs."""
    points = [point.get("utilization", 0) for argument in arguments for point in argument.get("shape", [])]
    if arguments and (len(arguments) > 1 or not points):
        yield "needs requestedToCapacityRatioArguments with at least one point in shape, in this entry alone"
    elif points != sorted(set(points)):
        yield "the utilization values of shape must ascend"
    elif any("weight" not in each for argument in arguments for each in argument.get("resources", [])):
        yield "each of the resources needs a weight"


def utilization(pod: FullPod, node: FullNode, resources: Iterable[str]) -> dict[str, int]:
    """Return {resource: percentage requested with the pod, rounded up}; 100 if the node has none of it."""
    used = {name: node.nonzero.get(name, 0) + pod.nonzero_incoming.get(name, 0) for name in resources}
    return {name: -(-100 * used[name] // node.allocatable[name]) if node.allocatable.get(name) else 100
            for name in resources}


@priority("RequestedToCapacityRatio", plugin="NodeResourcesFit", check=shape_problems, steady=True,
          member="requestedToCapacityRatioArguments",
          argument={"shape": SHAPE, "resources": [{"name": str, "weight": WEIGHT}]})
def requested_to_capacity_ratio(pod, node, arguments, utilization=utilization):
    """The weighted mean of the scores that `shape` gives to the utilization of the Policy's resources."""
    shape = [(point.get("utilization", 0), 10 * point.get("score", 0)) for point in arguments[0]["shape"]]
    weights = {resource.get("name", ""): resource["weight"] for resource in arguments[0].get("resources", [])}
    score_sum = weight_sum = 0
    for name, percentage in utilization(pod, node, weights).items():
        score = broken_linear(shape, percentage)
        if score > 0:  # a resource that scores 0 is left out of the mean, as upstream
            score_sum += score * weights[name]
            weight_sum += weights[name]
    return (2 * score_sum + weight_sum) // (2 * weight_sum) if weight_sum else 0  # rounded, halves up


def broken_linear(shape: list[tuple[int, int]], x: int) -> int:
    """Return the value at x of the line through the points of shape, truncated towards zero.

    Upstream: BuildBrokenLinearFunction.
    """
    left, left_score = shape[0]
    for right, score in shape:
        if x <= right:
            width = max(right - left, 1)  # at the first point, left is right
            return left_score + int((score - left_score) * (x - left) / width)
        left, left_score = right, score
    return left_score
