"""Which pods a PodDisruptionBudget protects: they are the last to be preempted, and still may be.

preemption.py asks it.
"""

import collections
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduler_extras.common.errors import ApiError, InvalidSelector
from scheduler_extras.deciding.answers import memo
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import Requirement, label_selector, labels_match
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.label_index import labels_needed, labels_to_look_up


# Stands for the budgets of policy/v1 where the API server has none, up to Kubernetes 1.20.
NOT_SERVED: dict[str, dict] = {}


class DisruptionBudget(NamedTuple):
    """A PodDisruptionBudget, as preemption looks at it for each pod."""

    key: str
    raw: dict  # the API's JSON
    selector: Sequence[Requirement]
    allowed: int  # how many more disruptions it allows
    counted: dict  # names of pods whose disruption it counts already

    def protects(self, pod):
        """Return whether the disruption of a pod counts."""
        return pod.name not in self.counted and labels_match(pod.labels, self.selector)


def protected_by_budgets(pods, snapshot):
    """Return those whose going, after those before them, violates a budget. (filterPodsWithPDBViolation)

    Victims that other pods have chosen count, too, until the budget's controller has counted them.
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


def budgets_of(pod, snapshot):
    """Return the budgets that count the pod, {its name: the API's JSON}."""
    return {budget.key: budget.raw for budget in budgets_that_protect(pod, snapshot)}


def budgets_that_protect(pod, snapshot):
    """Return the DisruptionBudgets that count the pod."""
    by_label = budgets_by_label(snapshot)[pod.namespace]
    labels = labels_to_look_up(pod) if pod.labels else []  # none protects a pod without labels
    return [budget for label in labels if label in by_label
            for budget in by_label[label] if budget.protects(pod)]


@dataclass
class Victim:
    """A pod that is deleted for another one, and the budgets that counted it when it was chosen."""

    pod: FullPod  # as it is by now
    budgets: dict


def budgets_to_change(victim, snapshot):
    """Return the names of the budgets whose controller has not counted yet that a victim goes.

    If no controller has ever observed a budget, what the budget allows stays as it is.
    """
    return [key for key, budget in budgets_of(victim.pod, snapshot).items()
            if pick(budget, int, "status", "observedGeneration")
            and (not victim.pod.terminating or budget == victim.budgets.get(key))]


def budgets_by_label(snapshot):
    """Return {namespace: {label: the budgets that are filed there}}. An empty selector selects no pod.

    There may be many budgets, and many pods: each is compared with those that may select one of its labels.
    """
    budgets = all_budgets(snapshot)

    def sort():
        """Return them, sorted."""
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

    return memo("budgets", snapshot, [budgets], sort)


def all_budgets(snapshot):
    """Return all PodDisruptionBudgets, {namespace/name: the API's JSON}. Raises ApiError."""
    current, of_old = [f"apis/policy/{version}/poddisruptionbudgets" for version in ("v1", "v1beta1")]
    try:
        budgets = snapshot.objects[current]
    except ApiError as error:
        if error.status != 404:
            raise
        budgets = snapshot.objects[current] = NOT_SERVED
    return snapshot.objects[of_old] if budgets is NOT_SERVED else budgets
