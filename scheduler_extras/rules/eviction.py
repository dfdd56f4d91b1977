"""What is sent so that pods make room for another one: requests, as a rule's post_filter returns them.

preemption.py says who has to go. Upstream: PrepareCandidate.
"""

from scheduler import event
from scheduler_extras.common.clocks import now
from scheduler_extras.rules.always import nominate
from scheduler_extras.rules.budgets import Victim, budgets_of
from scheduler_extras.rules.supposed import is_leaving


def make_room(pod, node, victims, snapshot, manner):
    """Return the requests: the pod is nominated to the node, less important pods no longer; then victims go.

    So the room is kept before anybody makes it. Nominations end first, as those pods may soon be nominated to
    other nodes. A victim that waits for `permit` may be rejected instead.
    """
    leaving = [victim for victim in victims if not is_leaving(victim, snapshot)]
    for victim in leaving:
        snapshot.victims[victim.uid] = Victim(victim, budgets_of(victim, snapshot))
    requests = []
    if manner.ends_nominations(victims):
        requests += [nominate(other, None, snapshot) for other in nominated_below(pod, node, snapshot)]
    requests.append(nominate(pod, node.name, snapshot))
    for victim in leaving:
        if not manner.rejects(victim):
            requests += [disruption(victim, pod), deletion(victim)]
        requests.append(notice(victim, pod, manner.words(pod, node)))
    return requests


def nominated_below(pod, node, snapshot):
    """Return the less important pods that are nominated to the node. (getLowerPriorityNominatedPods)"""
    return [other for other in snapshot.nominated if other.scheduler in snapshot.policies
            and other.nominated_node == node.name and other.priority < pod.priority]


def path_of(pod):
    """Return the path of a pod in the API."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def deletion(victim):
    """Return the request that deletes a pod, unless another pod has its name by now."""
    return "DELETE", path_of(victim), {"preconditions": {"uid": victim.uid}}


def disruption(victim, pod):
    """Return the request for the condition that tells a Job that its pod has not failed by itself."""
    return "PATCH", f"{path_of(victim)}/status", {"metadata": {"uid": victim.uid}, "status": {"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": f"{pod.scheduler}: preempting to accommodate a higher priority pod",
        "lastTransitionTime": now()}]}}


def notice(victim, pod, words):
    """Return the request for the event that says why a pod is preempted."""
    method, path, body = event(victim, "Normal", "Preempted", words)
    teller = {"source": {"component": pod.scheduler}, "reportingComponent": pod.scheduler}
    return method, path, body | teller
