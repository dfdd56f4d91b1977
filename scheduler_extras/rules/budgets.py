"""Which pods a PodDisruptionBudget protects: they are the last to be preempted, and still may be.

preemption.py asks it.
"""

import collections
import contextlib

from scheduler_extras.common.errors import ApiError, InvalidSelector
from scheduler_extras.deciding.answers import recall
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import label_selector, labels_match


def protected_by_budgets(pods, snapshot):
    """Return those whose going, after those before them, violates a budget. (filterPodsWithPDBViolation)"""
    taken = collections.Counter()
    protected = []
    for pod in pods:
        allowed = budgets_of(pod, snapshot)
        taken.update(allowed.keys())
        if any(taken[key] > allowed[key] for key in allowed):
            protected.append(pod)
    return protected


def budgets_of(pod, snapshot):
    """Return {budget that counts the pod: how many of its pods may go}."""
    allowed = {}
    for key, budget, selector in budgets_in_namespaces(snapshot)[pod.namespace]:
        counts_already = pod.name in pick(budget, dict, "status", "disruptedPods")
        if pod.labels and labels_match(pod.labels, selector) and not counts_already:
            allowed[key] = pick(budget, int, "status", "disruptionsAllowed")
    return allowed


def budgets_in_namespaces(snapshot):
    """Return {namespace: [(its name, the API's JSON, its selector)]} of the budgets that select any pods."""
    budgets = all_budgets(snapshot)

    def sort(*_):
        """Return them, sorted."""
        found = collections.defaultdict(list)
        for key, budget in budgets.items():
            with contextlib.suppress(InvalidSelector):
                selector = label_selector(pick(budget, dict, "spec").get("selector"))
                if selector:  # an empty one selects nobody
                    found[key.partition("/")[0]].append((key, budget, selector))
        return found

    return recall("budgets", "", snapshot, {}, None, [budgets], then=sort)


def all_budgets(snapshot):
    """Return all PodDisruptionBudgets, {namespace/name: the API's JSON}. Raises ApiError."""
    today, of_old = [f"apis/policy/{version}/poddisruptionbudgets" for version in ("v1", "v1beta1")]
    try:
        return snapshot.objects[today]
    except ApiError as error:
        if error.status != 404:
            raise
    snapshot.objects[today] = snapshot.objects[of_old]  # up to Kubernetes 1.20; it holds for this pass
    return snapshot.objects[today]
