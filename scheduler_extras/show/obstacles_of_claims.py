"""Details of why a node does not fit because of the pod's claims and volumes, in words.

obstacles.py calls these functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.pods_and_nodes import FullNode
from scheduler_extras.rules.claims import satisfies_one, waits_for_consumer, with_reach
from scheduler_extras.rules.disks import claims_of, class_name_of, storage_class_of
from scheduler_extras.rules.volume_zones import ZONE_LABELS
from scheduler_extras.show.text import requirement_in_words, short


def volumes_elsewhere(obstacles: Any, node: FullNode) -> Iterator[str]:
    """Yield the pod's volumes that cannot be used on the node, and where they can."""
    for name, _, volume in claims_of(obstacles.pod, obstacles.snapshot):
        reach = with_reach(volume).reach if volume else [[]]
        if not satisfies_one(node.labels, reach):
            places = " or ".join(" and ".join(map(requirement_in_words, each)) for each in reach)
            yield f"volume {text_at(volume, 'metadata', 'name')} of claim {name} is where {places}"


def zones_of_volumes(obstacles: Any, node: FullNode) -> Iterator[str]:
    """Yield the pod's volumes that are in another zone."""
    for name, _, volume in claims_of(obstacles.pod, obstacles.snapshot, obstacles.pod.named_claims):
        for label, text in pick(volume, dict, "metadata", "labels").items():
            if label in ZONE_LABELS and node.labels.get(label) not in text.split("__"):
                there = node.labels.get(label)
                has = f"the node in {there}" if there else f"the node has no {label}"
                where = f"volume {text_at(volume, 'metadata', 'name')} of claim {name}"
                yield f"{where} is in {short(label)} {text}, {has}"


def claims_to_bind(obstacles: Any, node: FullNode) -> Iterator[str]:
    """Yield the pod's unbound claims, and what they wait for."""
    for name, claim, volume in claims_of(obstacles.pod, obstacles.snapshot):
        metadata = pick(claim, dict, "metadata", "annotations")
        if volume and "pv.kubernetes.io/bind-completed" in metadata:
            continue
        yield f"claim {name} waits for {awaited_volume(claim, node, obstacles.snapshot)}"


def awaited_volume(claim: dict, node: FullNode, snapshot: FullSnapshot) -> str:
    """Return in words what an unbound claim waits for on a node."""
    class_name = class_name_of(claim)
    known = storage_class_of(claim, snapshot)
    selected = text_at(claim, "metadata", "annotations", "volume.kubernetes.io/selected-node")
    if not class_name:
        return "a volume without a class"
    if not known:
        return f"StorageClass {class_name}, which is not there"
    if selected and selected != node.name:
        return f"a volume on {selected}, which was chosen for it"
    if pick(known, str, "provisioner") == "kubernetes.io/no-provisioner":
        reach = " and the node can reach" if waits_for_consumer(claim, snapshot) else ""
        return f"a free volume of class {class_name} that suits it{reach}"
    if waits_for_consumer(claim, snapshot):
        return f"a volume of class {class_name}: its allowedTopologies exclude the node"
    return f"the provisioner of class {class_name}"
