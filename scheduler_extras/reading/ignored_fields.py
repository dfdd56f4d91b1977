"""Which fields of a pod or a node can change without an effect on scheduling: heartbeats, for example.

The cache skips updates that change nothing else.
"""

import contextlib
from collections.abc import Collection
from typing import Any

from scheduler_extras.common.errors import Malformed
from scheduler_extras.reading.fields import JsonObject, pick
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod


# Fields that heartbeats, kubelets and Bindings change, and that no rule reads. Any other change counts. If
# a rule, or an attribute that you add, reads one of these, remove it here.
IGNORED: dict[str, dict[str, None]] = {where: dict.fromkeys(names.split()) for where, names in {
    "metadata": "resourceVersion generation managedFields",
    "spec": "nodeName",  # the cache keeps track of that itself
    "status": "phase message reason startTime hostIP hostIPs podIP podIPs qosClass observedGeneration",
    "condition": "lastHeartbeatTime lastProbeTime observedGeneration",
    "container": "state lastState ready started restartCount image imageID containerID volumeMounts user",
}.items()}
USUAL_CONDITIONS = {  # of pods
    "PodScheduled", "Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers"}
CONTAINER_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
SEPARATE: dict[str, None] = dict.fromkeys(("conditions", *CONTAINER_STATUSES))  # compared entry by entry


def relevant_parts(raw: JsonObject, usual_conditions: Collection[str]) -> list[Any]:
    """Return the JSON of a pod or a node with None in place of the ignored fields. Raises Malformed."""
    status = pick(raw, dict, "status")
    conditions = [each | IGNORED["condition"] for each in pick(status, list, "conditions", of=dict)
                  if each.get("type") not in usual_conditions]
    containers = [each | IGNORED["container"]
                  for kind in CONTAINER_STATUSES for each in pick(status, list, kind, of=dict)
                  if not each.keys() <= IGNORED["container"].keys() | {"name"}]
    return [pick(raw, dict, "metadata") | IGNORED["metadata"],
            pick(raw, dict, "spec") | IGNORED["spec"],
            status | IGNORED["status"] | SEPARATE, conditions, containers]


def is_unchanged(obj: FullPod | FullNode, raw: JsonObject) -> bool:
    """Return whether new JSON of a pod or a node differs from the old only in ignored fields."""
    usual_conditions = USUAL_CONDITIONS if isinstance(obj, FullPod) else set()
    with contextlib.suppress(Malformed):
        return relevant_parts(obj.raw, usual_conditions) == relevant_parts(raw, usual_conditions)
    return False
