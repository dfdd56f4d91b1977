"""What is sent so that pods make room for another one: requests, as a rule's post_filter returns them.

preemption.py says who has to go. Upstream: PrepareCandidate.
"""

from scheduler import event
from scheduler_extras.common.clocks import now
from scheduler_extras.reading.fields import text_at
from scheduler_extras.rules.always import nominate


def is_going(pod, snapshot):
    """Say whether a pod is being deleted, or is to be by what has been decided in this pass."""
    return pod.terminating or pod.uid in snapshot.going


def make_room(pod, node, victims, snapshot, words):
    """Return the requests: victims go, the pod is nominated to the node, and less important ones no longer.

    Before anybody goes, the API server is asked whether the pod still waits, and whether each victim is as it
    was, and may be deleted. No room is promised that nobody leaves; what may fail comes last. Budgets are not
    asked again: as upstream, they say who is missed most, and forbid nothing.

    words: what each victim is told.
    """
    leaving = [victim for victim in victims if not is_going(victim, snapshot)]
    snapshot.going.update(victim.uid for victim in leaving)
    requests = [still_waits(pod)] if leaving else []
    requests += [deletion(victim, dryRun=["All"]) for victim in leaving]
    for victim in leaving:
        requests += [disruption(victim, pod), deletion(victim), notice(victim, pod, words)]
    requests.append(nominate(pod, node.name, snapshot))
    requests += [nominate(other, None, snapshot) for other in nominated_below(pod, node, snapshot)]
    return requests


def nominated_below(pod, node, snapshot):
    """Return the less important pods that are nominated to the node. (getLowerPriorityNominatedPods)"""
    return [other for other in snapshot.nominated if other.scheduler in snapshot.policies
            and other.nominated_node == node.name and other.priority < pod.priority]


def path_of(pod):
    """Return the path of a pod in the API."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def still_waits(pod):
    """Return the request whose answer has to be that the pod is there, and has no node."""
    uid = text_at(pod.raw, "metadata", "uid")
    return "GET", path_of(pod), {
        "metadata": {"uid": uid, "deletionTimestamp": ""}, "spec": {"nodeName": ""}}


def deletion(victim, **options):
    """Return the request that deletes a pod; with dryRun, one that says whether that can be, as it is now."""
    preconditions = {"uid": victim.uid}
    version = text_at(victim.raw, "metadata", "resourceVersion")
    if options and version:  # else its condition, which is written before, is a change, too
        preconditions["resourceVersion"] = version
    return "DELETE", path_of(victim), {"preconditions": preconditions} | options


def disruption(victim, pod):
    """Return the request for the condition that tells a Job that its pod has not failed by itself."""
    return "PATCH", f"{path_of(victim)}/status", {"metadata": {"uid": victim.uid}, "status": {"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": f"{pod.scheduler}: preempting to accommodate a higher priority pod",
        "lastTransitionTime": now()}]}}


def notice(victim, pod, words):
    """Return the request for the event that tells people why a pod goes."""
    method, path, body = event(victim, "Normal", "Preempted", words)
    teller = {"source": {"component": pod.scheduler}, "reportingComponent": pod.scheduler}
    return method, path, body | teller
