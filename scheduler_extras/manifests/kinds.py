"""Kinds of objects: by group and kind, as in kubectl, and the versions in which API servers serve them.

objects.py asks it about each object, remarks.py about what a name may mean.
"""

import collections
import re

from scheduler_extras.common.errors import Malformed
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.hints import nearly


KINDS = {  # API group -> the kinds of it that count here
    "": ["Node", "Namespace", "PersistentVolume", "Pod", "Service", "ReplicationController",
         "PersistentVolumeClaim", "LimitRange", "ResourceQuota"],
    "apps": ["ReplicaSet", "StatefulSet", "Deployment", "DaemonSet"], "batch": ["Job", "CronJob"],
    "autoscaling": ["HorizontalPodAutoscaler"], "policy": ["PodDisruptionBudget"],
    "scheduling.k8s.io": ["PriorityClass"], "node.k8s.io": ["RuntimeClass"],
    "storage.k8s.io": ["StorageClass", "CSINode", "CSIDriver", "VolumeAttachment", "CSIStorageCapacity"]}
IN_V1BETA1 = ("CronJob", "PodDisruptionBudget", "PriorityClass", "RuntimeClass", *KINDS["storage.k8s.io"])
BETAS = {  # kind -> its versions besides v1 that API servers from 1.20 on serve
    "HorizontalPodAutoscaler": ("v2", "v2beta2", "v2beta1"), **{kind: ("v1beta1",) for kind in IN_V1BETA1}}
GROUP_OF = {kind: group for group, kinds in KINDS.items() for kind in kinds}
CLUSTER_WIDE = [  # kinds of objects that have no namespace
    "Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment",
    "PriorityClass", "RuntimeClass"]

# An object's kind. group: None if the object does not say its version.
Kind = collections.namedtuple("Kind", "name group version")


def kind_of(thing):
    """Return the Kind of an object. Raises Malformed if it does not say one."""
    name = text_at(thing, "kind")
    if not name:
        raise Malformed("kind: Required value")
    said = text_at(thing, "apiVersion")
    if not said:
        return Kind(name, None, "")
    group, _, version = said.rpartition("/")
    return Kind(name, group, version)


def counts(kind):
    """Return whether objects of a kind are looked at: of an unknown group, for example, they are not."""
    return kind.name in GROUP_OF and kind.group in (None, GROUP_OF[kind.name])


def is_of_kubernetes(kind):
    """Return whether a kind's group is one of Kubernetes itself, whose kinds are all known, or misspelt."""
    return kind.group is not None and (kind.group in KINDS or "." not in kind.group)


def why_not_served(kind):
    """Return why no API server knows an object's kind, with a hint at what it knows; else ""."""
    if kind.group is not None and not is_of_kubernetes(kind):
        return ""
    meant = kind.name if kind.name in GROUP_OF else nearly(kind.name, KINDS.get(kind.group, GROUP_OF))
    is_served = counts(kind) and (kind.group is None or kind.version in versions_of(kind.name))
    if is_served or not meant:
        return ""
    said = "/".join(filter(None, [kind.group, kind.version]))
    today = "/".join(filter(None, [GROUP_OF[meant], versions_of(meant)[0]]))
    hint = f"today: {today}" if meant == kind.name else f'did you mean "{meant}"?'
    return f'no matches for kind "{kind.name}" in version "{said or today}"; {hint}'  # kubectl's words


def versions_of(name):
    """Return the versions in which API servers from 1.20 on serve a kind."""
    return ["v1", *BETAS.get(name, ())]


def resource_of(kind):
    """Return the resource of a kind, such as "pods"; that of another group has the group before it."""
    plural = re.sub("y$", "ie", kind.name.lower()) + ("es" if kind.name.endswith("s") else "s")
    return plural if counts(kind) or not kind.group or is_of_kubernetes(kind) else f"{kind.group}/{plural}"


def resource_at(path):
    """Return the resource that is at a path of the API, as `resource_of` names it."""
    parts = path.split("/")
    group = parts[2] if parts[1:2] == ["apis"] else ""
    return parts[-1] if group in KINDS or "." not in group else f"{group}/{parts[-1]}"
