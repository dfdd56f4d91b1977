"""Which changes of a pod or a node can be ignored: heartbeats, for example.

The cache asks it whether JSON that comes says anything that counts.
"""

import contextlib

from scheduler_extras.common.errors import Malformed
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullPod


# What heartbeats, kubelets and Bindings change of a pod or a node, and no rule reads. All else is news,
# whoever looks at it: a rule, or an attribute that you add. If one looks at these, take them out.
OF_NO_ACCOUNT = {where: dict.fromkeys(names.split()) for where, names in {
    "metadata": "resourceVersion generation managedFields",
    "spec": "nodeName",  # where a pod is, the cache sees itself
    "status": "phase message reason startTime hostIP hostIPs podIP podIPs qosClass observedGeneration",
    "condition": "lastHeartbeatTime lastProbeTime observedGeneration",
    "container": "state lastState ready started restartCount image imageID containerID volumeMounts user",
}.items()}
OF_EVERY_POD = {"PodScheduled", "Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers"}
CONTAINER_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
READ_APART = dict.fromkeys(("conditions", *CONTAINER_STATUSES))


def what_counts(raw, usual_conditions):
    """Return the JSON of a pod or a node, with None for what is of no account. Raises Malformed."""
    status = pick(raw, dict, "status")
    conditions = [each | OF_NO_ACCOUNT["condition"] for each in pick(status, list, "conditions", of=dict)
                  if each.get("type") not in usual_conditions]
    containers = [each | OF_NO_ACCOUNT["container"]
                  for kind in CONTAINER_STATUSES for each in pick(status, list, kind, of=dict)
                  if not each.keys() <= OF_NO_ACCOUNT["container"].keys() | {"name"}]
    return [pick(raw, dict, "metadata") | OF_NO_ACCOUNT["metadata"],
            pick(raw, dict, "spec") | OF_NO_ACCOUNT["spec"],
            status | OF_NO_ACCOUNT["status"] | READ_APART, conditions, containers]


def is_as_in(thing, raw):
    """Return whether other JSON of a pod or a node says the same of it, but for what is of no account."""
    usual_conditions = OF_EVERY_POD if isinstance(thing, FullPod) else ()
    with contextlib.suppress(Malformed):
        return what_counts(thing.raw, usual_conditions) == what_counts(raw, usual_conditions)
    return False
