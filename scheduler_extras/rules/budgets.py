"""PodDisruptionBudgets: preemption prefers victims whose deletion violates none, but may choose others.

preemption.py and preemption_requests.py call it.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from scheduler_extras.common.errors import ApiError, InvalidSelector
from scheduler_extras.deciding.answers import memo
from scheduler_extras.deciding.snapshot import FullSnapshot, Victim
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import label_selector, labels_match
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.label_index import labels_needed, labels_to_look_up


# Stands for the budgets of policy/v1 where the API server does not serve these, up to Kubernetes 1.20.
NOT_SERVED: dict[str, dict] = {}


class DisruptionBudget(NamedTuple):
    """A PodDisruptionBudget and its status, without its selector."""

    key: str
    raw: dict  # the API's JSON
    allowed: int  # how many more disruptions it allows
    counted: dict  # status.disruptedPods: its keys name pods whose disruption is counted already
    is_observed: bool  # whether its controller has ever updated the status


@dataclass(eq=False)
class BudgetSelectors:
    """The selectors of all budgets, without empty ones. It stays the same while only their status changes."""

    filed: dict  # {namespace: {a label that a match needs, or None: [(key of a budget, selector)]}}

    def keys_for(self, pod: FullPod) -> list[str]:
        """Return the keys of the budgets that select a pod. The pod keeps them until a selector changes."""
        kept_for, keys = pod.derived.get(BudgetSelectors, (None, []))
        if kept_for is not self:
            by_label = self.filed.get(pod.namespace, {})
            labels = labels_to_look_up(pod) if pod.labels else []  # no budget protects a pod without labels
            keys = [key for label in labels for key, selector in by_label.get(label, ())
                    if labels_match(pod.labels, selector)]
            pod.derived[BudgetSelectors] = self, keys
        return keys


def violating_budgets(pods: Sequence[FullPod], snapshot: FullSnapshot) -> list[FullPod]:
    """Return the pods whose deletion would violate a budget if all pods before them were deleted, too.

    Victims of other preemptors count as well, until the budget's controller has counted them.
    Upstream: filterPodsWithPDBViolation.
    """
    taken: collections.Counter = collections.Counter()
    uids = {pod.uid for pod in pods}
    for uid, victim in snapshot.victims.items():
        if uid not in uids:
            taken.update(budgets_to_change(victim, snapshot))
    violating = []
    for pod in pods:
        violates = False
        for budget in budgets_that_protect(pod, snapshot):
            taken[budget.key] += 1
            violates |= taken[budget.key] > budget.allowed
        if violates:
            violating.append(pod)
    return violating


def budgets_of(pod: FullPod, snapshot: FullSnapshot) -> dict[str, dict]:
    """Return the budgets that protect the pod, {namespace/name: the API's JSON}."""
    return {budget.key: budget.raw for budget in budgets_that_protect(pod, snapshot)}


def budgets_that_protect(pod: FullPod, snapshot: FullSnapshot) -> list[DisruptionBudget]:
    """Return the budgets that protect the pod: deleting it would count as a disruption."""
    selectors, budgets = read_budgets(snapshot)
    found = [budgets[key] for key in selectors.keys_for(pod)]
    return [budget for budget in found if pod.name not in budget.counted]


def budgets_to_change(victim: Victim, snapshot: FullSnapshot) -> list[str]:
    """Return the keys of the budgets whose controller has not yet counted the deletion of a victim.

    Budgets that no controller has ever observed are left out, because their status never changes.
    """
    return [budget.key for budget in budgets_that_protect(victim.pod, snapshot) if budget.is_observed
            and (not victim.pod.terminating or budget.raw == victim.budgets.get(budget.key))]


def read_budgets(snapshot: FullSnapshot) -> tuple[BudgetSelectors, dict[str, DisruptionBudget]]:
    """Return the selectors of all budgets, and {namespace/name: DisruptionBudget}."""
    budgets = all_budgets(snapshot)

    def read() -> tuple[BudgetSelectors, dict[str, DisruptionBudget]]:
        """Parse the selectors, if one has changed, and the status of each budget."""
        raw_selectors = {key: pick(raw, dict, "spec").get("selector") for key, raw in budgets.items()}
        selectors = memo("selectors of budgets", snapshot, raw_selectors,
                         lambda: BudgetSelectors(filed_by_label(raw_selectors)))
        return selectors, {key: with_status(key, raw) for key, raw in budgets.items()}

    return memo("budgets", snapshot, [budgets], read)


def filed_by_label(selectors: dict[str, Any]) -> dict:
    """Return the selectors, {namespace/name: JSON}, parsed and filed under the labels that a match may need.

    With this index, a pod is compared only with budgets that may select it.
    """
    filed: dict = collections.defaultdict(lambda: collections.defaultdict(list))
    for key, raw in selectors.items():
        with contextlib.suppress(InvalidSelector):
            selector = label_selector(raw)
            for label in labels_needed(selector) if selector else ():
                filed[key.partition("/")[0]][label].append((key, selector))
    return filed


def with_status(key: str, raw: dict) -> DisruptionBudget:
    """Return a PodDisruptionBudget with its status parsed."""
    status = pick(raw, dict, "status")
    return DisruptionBudget(
        key, raw, pick(status, int, "disruptionsAllowed"), pick(status, dict, "disruptedPods"),
        is_observed=bool(pick(status, int, "observedGeneration")))


def all_budgets(snapshot: FullSnapshot) -> dict[str, dict]:
    """Return all PodDisruptionBudgets, {namespace/name: the API's JSON}. Raises ApiError."""
    current, beta = [f"apis/policy/{version}/poddisruptionbudgets" for version in ("v1", "v1beta1")]
    try:
        budgets = snapshot.objects[current]
    except ApiError as error:
        if error.status != 404:
            raise
        budgets = snapshot.objects[current] = NOT_SERVED
    return snapshot.objects[beta] if budgets is NOT_SERVED else budgets
