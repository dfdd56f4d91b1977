"""Overrides of EvenPodsSpread and SelectorSpreadPriority, which are PodTopologySpread in 1.36."""

import collections
import contextlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from scheduler_extras.common.errors import InvalidSelector
from scheduler_extras.configuration.overrides.registry import override
from scheduler_extras.deciding.rule import SKIP
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.label_selectors import Requirement, label_selector
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.selectors import selector_in, selectors_of
from scheduler_extras.rules.spreading import (
    DEFAULT_SPREAD,
    eligible_domains,
    must_spread,
    spread_constraints,
    sum_of_scores,
    with_counts,
    with_full_domains,
)


CONTROLLERS = {  # (apiVersion, kind) of a controller whose selector default constraints use -> resource
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("apps/v1", "ReplicaSet"): "replicasets", ("apps/v1", "StatefulSet"): "statefulsets"}


def default_selector_136(pod: FullPod, snapshot: FullSnapshot) -> list[Requirement]:
    """Return the requirements of the Services that select the pod, and of its controller.

    The controller is looked up by name, and need not select the pod. Upstream: DefaultSelector, since 1.22.
    """
    required = list(itertools.chain(*selectors_of(pod, snapshot, "services")))
    kind = text_at(pod.controller, "apiVersion"), text_at(pod.controller, "kind")
    resource = CONTROLLERS.get(kind)
    known = snapshot.objects[resource] if resource else {}
    controller = known.get(f"{pod.namespace}/{text_at(pod.controller, 'name')}", {})
    of_controller: list[Requirement] = []
    with contextlib.suppress(InvalidSelector):
        of_controller = [*label_selector(selector_in(controller, resource) or {})]
    if resource == "replicationcontrollers":  # its labels override those of the Services
        labels = {each.key for each in of_controller}
        required = [each for each in required if each.key not in labels]
    return required + of_controller


def spread_constraints_136(
    pod: FullPod, when: str, snapshot: FullSnapshot, defaults: Any, needs_key: bool = True
) -> Iterator[Any]:
    """Yield spread constraints; an empty selector counts no pod."""
    for constraint in spread_constraints(pod, when, snapshot, defaults, default_selector_136, needs_key):
        yield constraint if constraint.requirements else replace(constraint, numbers=collections.Counter())


@override("EvenPodsSpread", "metadata")
def hard_spread_136(
    pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot, default_constraints: Any = ()
) -> Any:
    """Return the DoNotSchedule constraints, or SKIP. Only pods on eligible nodes count."""
    spread = [with_full_domains(constraint, eligible_domains(constraint))
              for constraint in spread_constraints_136(pod, "DoNotSchedule", snapshot, default_constraints)]
    return spread or SKIP


@override("EvenPodsSpread", "helped_by_pods")
def may_have_to_spread(pod: FullPod, default_constraints: Any = ()) -> bool:
    """Return whether the pod, or all pods, have a DoNotSchedule constraint."""
    return must_spread(pod) or any(
        constraint.get("whenUnsatisfiable") == "DoNotSchedule" for constraint in default_constraints)


@override("SelectorSpreadPriority", "metadata")
def soft_spread_136(
    pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot, default_constraints: Any = ()
) -> Any:
    """Return the ScheduleAnyway constraints. For the system defaults, nodes without the key form a domain."""
    is_systems = default_constraints is DEFAULT_SPREAD and not pod.spec.get("topologySpreadConstraints")
    constraints = spread_constraints_136(
        pod, "ScheduleAnyway", snapshot, default_constraints, needs_key=not is_systems)
    return with_counts(constraints, nodes)


@override("SelectorSpreadPriority", "score_all")
def spread_scores_136(nodes: dict[str, FullNode], metadata: Any) -> dict[str, int | None]:
    """Return the scores, rounded half up; None without constraints, so that nothing is scored."""
    total = sum_of_scores(nodes, metadata) if metadata else {}
    return {name: math.floor(total[name] + 0.5) if name in total else None for name in nodes}


@override("SelectorSpreadPriority")
def pod_topology_spread(pod: FullPod, node: FullNode, metadata: Any) -> int | None:
    """The pods in the node's domains that the ScheduleAnyway constraints select: the fewer, the better.

    None if the node lacks a key. If you edit this, edit spread_scores_136, which scores all nodes at once.
    """
    return spread_scores_136({node.name: node}, metadata)[node.name]
