"""NoVolumeZoneConflict: the node is in the zone and region of the pod's volumes."""

from __future__ import annotations

import collections
from types import MappingProxyType as read_only
from typing import Any

from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.deciding.rule import SKIP, predicate
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.claims import waits_for_consumer
from scheduler_extras.rules.disks import claims_of, class_name_of, storage_class_of


NO_ZONE = "node(s) had no available volume zone"
ZONE_LABELS = {f"{prefix}.kubernetes.io/{what}"  # of volumes and nodes
               for prefix in ("topology", "failure-domain.beta") for what in ("zone", "region")}
VolumeZones = collections.namedtuple("VolumeZones", "labels problem")


def zones_of_volumes(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> Any:
    """Return the VolumeZones: the (zone or region label, its values), and the problem of a claim; or SKIP."""
    labels: dict[tuple, None] = {}
    for name, claim, volume in claims_of(pod, snapshot, pod.named_claims):
        problem = None if volume else problem_of_claim(name, claim, snapshot)
        if problem:
            return VolumeZones(labels, problem)
        for label, text in pick(volume, dict, "metadata", "labels").items():
            zones = tuple(zone.strip() for zone in text.split("__")) if label in ZONE_LABELS else [""]
            if all(zones):
                labels[label, zones] = None  # a dict keeps their order, and each once
    return VolumeZones(labels, None) if labels else SKIP


@predicate("NoVolumeZoneConflict", metadata=zones_of_volumes, plugin="VolumeZone", by_default=1, steady=True,
           unresolvable=True)
def no_volume_zone_conflict(pod, node, metadata, new_names=read_only({})):
    """The node has one of the values of each zone and region label of the pod's volumes.

    new_names: {label of a volume: the name that this label may have on a node instead}.
    """
    if node.labels.keys().isdisjoint(ZONE_LABELS):
        return
    for label, zones in metadata.labels:
        value = node.labels.get(label, node.labels.get(new_names.get(label)))
        if value not in zones:
            yield NO_ZONE
            return
    if metadata.problem:
        raise Unschedulable(
            f'running "VolumeZone" filter plugin for pod "{pod.name}": {metadata.problem}')


def problem_of_claim(name: str, claim: dict, snapshot: FullSnapshot) -> str | None:
    """Return why a claim has no volume; None if it only waits for its first consumer."""
    volume_name = pick(claim, str, "spec", "volumeName")
    class_name = class_name_of(claim)
    if not claim:
        return f'persistentvolumeclaim "{name}" not found'
    if volume_name:
        return f'persistentvolume "{volume_name}" not found'
    if not class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    if not storage_class_of(claim, snapshot):
        return f'StorageClass "{class_name}" claimed by PersistentVolumeClaim "{name}" not found'
    return None if waits_for_consumer(claim, snapshot) else "PersistentVolume had no name"
