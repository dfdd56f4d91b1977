"""Which pods a PodDisruptionBudget protects: they are the last to be preempted, and still may be.

preemption.py asks it.
"""

import collections
import contextlib
from dataclasses import dataclass

from scheduler_extras.common.errors import ApiError, InvalidSelector
from scheduler_extras.deciding.answers import memo
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import label_selector, labels_match
from scheduler_extras.reading.pods_and_nodes import FullPod


# Stands for the budgets of policy/v1 where the API server has none, up to Kubernetes 1.20.
NOT_SERVED: dict[str, dict] = {}


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
        budgets = budgets_of(pod, snapshot)
        taken.update(budgets.keys())
        allowed = {key: pick(budget, int, "status", "disruptionsAllowed") for key, budget in budgets.items()}
        if any(taken[key] > allowed[key] for key in allowed):
            protected.append(pod)
    return protected


def budgets_of(pod, snapshot):
    """Return the budgets that count the pod, {its name: the API's JSON}."""
    found = {}
    for key, budget, selector in budgets_in_namespaces(snapshot)[pod.namespace]:
        counts_already = pod.name in pick(budget, dict, "status", "disruptedPods")
        if pod.labels and labels_match(pod.labels, selector) and not counts_already:
            found[key] = budget
    return found


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


def budgets_in_namespaces(snapshot):
    """Return {namespace: [(its name, the API's JSON, its selector)]} of the budgets that select any pods."""
    budgets = all_budgets(snapshot)

    def sort():
        """Return them, sorted."""
        found = collections.defaultdict(list)
        for key, budget in budgets.items():
            with contextlib.suppress(InvalidSelector):
                selector = label_selector(pick(budget, dict, "spec").get("selector"))
                if selector:  # an empty one selects no pod
                    found[key.partition("/")[0]].append((key, budget, selector))
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
