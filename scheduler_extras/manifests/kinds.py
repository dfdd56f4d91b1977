"""The API kinds that this program reads: their groups, versions and resources.

objects.py, loading.py and remarks.py use it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from scheduler_extras.common.errors import Malformed
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.hints import nearly


KINDS = {  # API group -> its kinds that this program reads
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
CLUSTER_SCOPED = [  # kinds of objects that have no namespace
    "Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment",
    "PriorityClass", "RuntimeClass"]

Place = tuple[str, str | None, str]  # of an object: (resource, namespace or None, name)


class Kind(NamedTuple):
    """The kind of an object."""

    name: str
    group: str | None  # None if the object has no apiVersion
    version: str


def kind_of(obj: dict) -> Kind:
    """Return the Kind of an object. Raises Malformed if it has none."""
    name = text_at(obj, "kind")
    if not name:
        raise Malformed("kind: Required value")
    api_version = text_at(obj, "apiVersion")
    if not api_version:
        return Kind(name, None, "")
    group, _, version = api_version.rpartition("/")
    return Kind(name, group, version)


def is_supported(kind: Kind) -> bool:
    """Return whether this program reads objects of a kind. It does not if it does not know their group."""
    return kind.name in GROUP_OF and kind.group in (None, GROUP_OF[kind.name])


def is_kubernetes_kind(kind: Kind) -> bool:
    """Return whether a kind's group is one of Kubernetes' own, perhaps misspelt."""
    return kind.group is not None and (kind.group in KINDS or "." not in kind.group)


def why_not_served(kind: Kind) -> str:
    """Return why no API server serves an object's kind, with a suggestion; or ""."""
    if kind.group is not None and not is_kubernetes_kind(kind):
        return ""
    known = GROUP_OF if kind.group is None else KINDS.get(kind.group, GROUP_OF)
    meant = kind.name if kind.name in GROUP_OF else nearly(kind.name, known)
    is_served = is_supported(kind) and (kind.group is None or kind.version in versions_of(kind.name))
    if is_served or not meant:
        return ""
    given = "/".join(filter(None, [kind.group, kind.version]))
    current = "/".join(filter(None, [GROUP_OF[meant], versions_of(meant)[0]]))
    hint = f"today: {current}" if meant == kind.name else f'did you mean "{meant}"?'
    return f'no matches for kind "{kind.name}" in version "{given or current}"; {hint}'  # as kubectl says


def versions_of(name: str) -> list[str]:
    """Return the versions in which API servers from 1.20 on serve a kind."""
    return ["v1", *BETAS.get(name, ())]


def resource_of(kind: Kind) -> str:
    """Return the resource of a kind, such as "pods"; for an unknown group, with the group before it."""
    plural = re.sub("y$", "ie", kind.name.lower()) + ("es" if kind.name.endswith("s") else "s")
    is_plain = is_supported(kind) or not kind.group or is_kubernetes_kind(kind)
    return plural if is_plain else f"{kind.group}/{plural}"


def resource_at(path: str) -> str:
    """Return the resource at a path of the API, named as by `resource_of`."""
    parts = path.split("/")
    group = parts[2] if parts[1:2] == ["apis"] else ""
    return parts[-1] if group in KINDS or "." not in group else f"{group}/{parts[-1]}"
