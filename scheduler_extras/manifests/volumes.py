"""The volume controller: binds claims to volumes, and provisions volumes.

admission.py calls it for objects that were not copied from a cluster.
Upstream: pkg/controller/volume/persistentvolume.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.manifests.workload import letters_of
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.label_selectors import label_selector, labels_match
from scheduler_extras.rules.claims import could_serve, names_claim, storage
from scheduler_extras.rules.disks import class_name_of


BOUND = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")


def bind_claim(claim: dict, classes: dict, manifests: Any) -> None:
    """Bind a claim unless it waits for its consumer, or log why it stays unbound. Raises Malformed."""
    name = text_at(claim, "metadata", "name")
    if BOUND in pick(claim, dict, "metadata", "annotations"):
        return
    volumes = manifests.by_name("persistentvolumes")
    named = text_at(claim, "spec", "volumeName")
    storage_class = classes.get(class_name_of(claim), {})
    if text_at(storage_class, "volumeBindingMode") == "WaitForFirstConsumer" and not named:
        return
    volume = volumes.get(named) if named else smallest_for(claim, volumes.values())
    provisioner = text_at(storage_class, "provisioner")
    if "uid" in claim["metadata"]:
        warn_once(f"PersistentVolumeClaim {name}: it was unbound in the copy, and stays unbound here")
    elif named and not (volume and is_free_for(claim, volume)):
        what = "is not there" if not volume else "does not match, or belongs to another claim"
        warn_once(f"PersistentVolumeClaim {name}: it stays unbound: its volume {named} {what}")
    elif volume:
        bind(claim, volume)
    elif provisioner not in NO_PROVISIONER:
        bind(claim, provision(claim, storage_class, manifests))
    else:
        why = why_unbound(class_name_of(claim), classes)
        warn_once(f"PersistentVolumeClaim {name}: it stays unbound: no PersistentVolume matches, and {why}")


def why_unbound(class_name: str, classes: dict) -> str:
    """Return the reason why no volume is provisioned for a claim of a class."""
    if not class_name:
        return "it has no StorageClass"
    if class_name not in classes:
        return f'there is no StorageClass "{class_name:.60}"'
    return f'StorageClass "{class_name:.60}" has no provisioner'


def smallest_for(claim: dict, volumes: Iterable[dict]) -> dict | None:
    """Return the volume reserved for a claim, or else the smallest free one that suits it, or None."""
    selector = label_selector(pick(claim, dict, "spec").get("selector") or {})
    free = []
    for volume in volumes:
        if not is_free_for(claim, volume):
            continue
        if pick(volume, dict, "spec", "claimRef"):
            return volume
        modes = {*pick(volume, list, "spec", "accessModes", of=str)}
        has_modes = modes.issuperset(pick(claim, list, "spec", "accessModes", of=str))
        if has_modes and labels_match(pick(volume, dict, "metadata", "labels"), selector):
            free.append(volume)
    return min(free, key=lambda volume: storage(volume, "capacity"), default=None)


def is_free_for(claim: dict, volume: dict) -> bool:
    """Return whether a volume suits a claim, and belongs to no other claim."""
    owner = pick(volume, dict, "spec", "claimRef")
    is_free = names_claim(owner, claim) if owner else pick(volume, str, "status", "phase") in (
        "", "Available")
    return is_free and could_serve(volume, claim)


def provision(claim: dict, storage_class: dict, manifests: Any) -> dict:
    """Create a volume for a claim, within the allowedTopologies of the class. Return it."""
    metadata = claim["metadata"]
    spec = {
        "capacity": pick(claim, dict, "spec", "resources", "requests"),
        "accessModes": pick(claim, list, "spec", "accessModes"), "storageClassName": class_name_of(claim)}
    for field in ("volumeMode", "volumeAttributesClassName"):
        if field in claim["spec"]:
            spec[field] = claim["spec"][field]
    terms = [{"matchExpressions": [
        {"key": text_at(each, "key"), "operator": "In", "values": pick(each, list, "values", of=str)}
        for each in pick(topology, list, "matchLabelExpressions", of=dict)]}
        for topology in pick(storage_class, list, "allowedTopologies", of=dict)]
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    name = f"pvc-{letters_of(metadata['namespace'] + '/' + metadata['name'], 10)}"
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    manifests.add(volume)
    return volume


def bind(claim: dict, volume: dict) -> None:
    """Bind a claim and a volume to each other."""
    metadata = claim["metadata"]
    metadata["annotations"] = pick(metadata, dict, "annotations") | {BOUND: "yes"}
    claim["spec"] = pick(claim, dict, "spec") | {"volumeName": volume["metadata"]["name"]}
    claim["status"] = pick(claim, dict, "status") | {"phase": "Bound"}
    owner = {name: metadata[name] for name in ("namespace", "name", "uid") if name in metadata}
    volume["spec"] = volume["spec"] | {
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **owner}}
    volume["status"] = pick(volume, dict, "status") | {"phase": "Bound"}


def make_available(volume: dict, claimed: Container[str]) -> None:
    """Make a volume available if it belongs to no claim, and was not copied from a cluster."""
    is_copied = "uid" in volume["metadata"]
    has_owner = volume["metadata"]["name"] in claimed or pick(volume, dict, "spec").get("claimRef")
    if not (is_copied or has_owner or pick(volume, dict, "status").get("phase")):
        volume["status"] = pick(volume, dict, "status") | {"phase": "Available"}
