"""PodDisruptionBudgets: preemption prefers victims that no budget protects, but may choose others.

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
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import Requirement, label_selector, labels_match
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.label_index import labels_needed, labels_to_look_up


# Stands for the budgets of policy/v1 where the API server does not serve these, up to Kubernetes 1.20.
NOT_SERVED: dict[str, dict] = {}


class DisruptionBudget(NamedTuple):
    """A PodDisruptionBudget, parsed."""

    key: str
    raw: dict  # the API's JSON
    selector: Sequence[Requirement]
    allowed: int  # how many more disruptions it allows
    counted: dict  # status.disruptedPods: its keys name pods whose disruption is counted already

    def protects(self, pod: FullPod) -> bool:
        """Return whether deleting a pod would count as a disruption."""
        return pod.name not in self.counted and labels_match(pod.labels, self.selector)


def protected_by_budgets(pods: Sequence[FullPod], snapshot: FullSnapshot) -> list[FullPod]:
    """Return the pods whose deletion would violate a budget if all pods before them were deleted, too.

    Victims of other preemptors count as well, until the budget's controller has counted them.
    Upstream: filterPodsWithPDBViolation.
    """
    taken: collections.Counter = collections.Counter()
    uids = {pod.uid for pod in pods}
    for uid, victim in snapshot.victims.items():
        if uid not in uids:
            taken.update(budgets_to_change(victim, snapshot))
    protected = []
    for pod in pods:
        is_protected = False
        for budget in budgets_that_protect(pod, snapshot):
            taken[budget.key] += 1
            is_protected |= taken[budget.key] > budget.allowed
        if is_protected:
            protected.append(pod)
    return protected


def budgets_of(pod: FullPod, snapshot: FullSnapshot) -> dict[str, dict]:
    """Return the budgets that protect the pod, {namespace/name: the API's JSON}."""
    return {budget.key: budget.raw for budget in budgets_that_protect(pod, snapshot)}


def budgets_that_protect(pod: FullPod, snapshot: FullSnapshot) -> list[DisruptionBudget]:
    """Return the DisruptionBudgets that protect the pod."""
    by_label = budgets_by_label(snapshot)[pod.namespace]
    labels = labels_to_look_up(pod) if pod.labels else []  # no budget protects a pod without labels
    return [budget for label in labels if label in by_label
            for budget in by_label[label] if budget.protects(pod)]


@dataclass
class Victim:
    """A pod that is deleted for another one, and the budgets that protected it when it was chosen."""

    pod: FullPod  # its current version
    budgets: dict[str, dict]


def budgets_to_change(victim: Victim, snapshot: FullSnapshot) -> list[str]:
    """Return the keys of the budgets whose controller has not yet counted the deletion of a victim.

    Budgets that no controller has ever observed are left out, because their status never changes.
    """
    return [key for key, budget in budgets_of(victim.pod, snapshot).items()
            if pick(budget, int, "status", "observedGeneration")
            and (not victim.pod.terminating or budget == victim.budgets.get(key))]


def budgets_by_label(snapshot: FullSnapshot) -> dict:
    """Return {namespace: {label: the budgets filed under it}}, without those whose selector is empty.

    With this index, a pod is compared only with budgets that may select it.
    """
    budgets = all_budgets(snapshot)

    def index() -> Any:
        """Return the budgets by namespace and label."""
        found: dict = collections.defaultdict(lambda: collections.defaultdict(list))
        for key, raw in budgets.items():
            with contextlib.suppress(InvalidSelector):
                selector = label_selector(pick(raw, dict, "spec").get("selector"))
                allowed = pick(raw, int, "status", "disruptionsAllowed")
                counted = pick(raw, dict, "status", "disruptedPods")
                budget = DisruptionBudget(key, raw, selector, allowed, counted)
                for label in labels_needed(selector) if selector else ():
                    found[key.partition("/")[0]][label].append(budget)
        return found

    return memo("budgets", snapshot, [budgets], index)


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
