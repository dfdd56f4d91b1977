"""The loop: passes, in each of which pods are decided about, one after another.

The command line runs it on a live cluster; manifests are scheduled by the same passes.
"""

from scheduler_extras.common.errors import ApiError, Malformed
from scheduler_extras.deciding.schedule import schedule


def run(cluster, read_policies, stop, interval, once):
    """Make passes until `stop` is set. With `once`, end when no pod is due, or a pass fails."""
    while not stop.is_set():
        try:
            schedule_pending_pods(cluster, read_policies(), stop)  # read in each pass: the file may be edited
            cluster.end_pass()
        except (ApiError, Malformed) as error:  # a request has failed, or its answer is no list
            cluster.end_pass(error)
        if cluster.due and not cluster.last_error:
            continue  # pods are left, as the pass ended early: go on at once
        if once:
            break
        cluster.rest(interval, stop)


def schedule_pending_pods(cluster, policies, stop):
    """Make a pass: try each waiting pod that is due. `policies` is {schedulerName: Policy}."""
    cluster.begin_pass(policies)  # applies updates from the watch, and finds out which pods are due
    while pod := cluster.next_pod(stop):  # highest priority first
        decision = schedule(pod, cluster.snapshot, policies[pod.scheduler])
        if decision.node:
            cluster.bind(decision)  # POSTs the Binding; if that is refused, puts the pod off
        else:
            cluster.put_off(decision)  # the pod is due again after its backoff
        cluster.report(decision)  # says where the pod goes, or why it stays pending
