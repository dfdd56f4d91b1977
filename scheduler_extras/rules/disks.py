"""Rules about network disks: conflicts over a disk, and how many volumes a node can attach.

NoDiskConflict replaces the rule in scheduler.py. The predicates of the clouds share one function and a table.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler_extras.deciding.answers import answers_about, compute_each
from scheduler_extras.deciding.rule import SKIP, predicate
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod, kept_with_pod


def claims_of(pod: FullPod, snapshot: FullSnapshot,
              keys: Iterable[str] | None = None) -> Iterator[tuple[str, dict, dict]]:
    """Yield (name, claim, volume) for each claim of the pod. A missing claim or volume is {}.

    keys: only the claims with these keys, namespace/name.
    """
    for key in pod.claims if keys is None else keys:
        claim = snapshot.objects["persistentvolumeclaims"].get(key, {})
        volume_name = pick(claim, str, "spec", "volumeName")
        volume = snapshot.objects["persistentvolumes"].get(volume_name, {}) if claim else {}
        yield key.partition("/")[2], claim, volume


BETA_CLASS = "volume.beta.kubernetes.io/storage-class"  # an annotation


def claims_in_brief(snapshot: FullSnapshot) -> dict[str, tuple]:
    """Return {key of a claim: its spec and its class}: a new dict only if one of these has changed.

    A claim changes several times until it is bound, and all nodes would be asked again each time.
    """
    claims = snapshot.objects["persistentvolumeclaims"]
    before, brief = snapshot.derived.get("claims in brief", ({}, {}))
    if claims is not before:
        changed = {key: (claim.get("spec"), text_at(claim, "metadata", "annotations", BETA_CLASS))
                   for key, claim in claims.items() if before.get(key) is not claim}
        if before.keys() - claims.keys() or any(brief.get(key) != each for key, each in changed.items()):
            brief = {key: changed.get(key) or brief[key] for key in claims}
        snapshot.derived["claims in brief"] = claims, brief
    return brief


def class_name_of(obj: dict) -> str:
    """Return the name of the storage class of a claim or a volume."""
    annotations = pick(obj, dict, "metadata", "annotations", of=str)
    beta = annotations.get(BETA_CLASS)
    return pick(obj, str, "spec", "storageClassName") if beta is None else beta


def storage_class_of(claim: dict, snapshot: FullSnapshot) -> dict:
    """Return the storage class of a claim; {} if it is missing."""
    return snapshot.objects["storageclasses"].get(class_name_of(claim), {})


def exclusive_claims(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> bool | None:
    """Return True if another pod uses a ReadWriteOncePod claim of this pod; else None."""
    if not pod.named_claims:
        return None
    exclusive = set()
    for name, claim, _ in claims_of(pod, snapshot, pod.named_claims):
        if "ReadWriteOncePod" in pick(claim, list, "spec", "accessModes"):
            exclusive.add(f"{pod.namespace}/{name}")
    in_use = (claim for node in nodes for other in node.pods.values() for claim in other.named_claims)
    return (exclusive and not exclusive.isdisjoint(in_use)) or None


# Source of a volume -> the fields that identify the disk. An rbd is identified by each of its monitors, too.
DISK_IDENTITIES = {"gcePersistentDisk": ["pdName"], "awsElasticBlockStore": ["volumeID"], "iscsi": ["iqn"],
                   "rbd": ["image", "pool"]}


@kept_with_pod
def disks_of(pod: FullPod) -> dict[tuple, bool]:
    """Return the pod's network disks, {identity: whether it can be shared}; an rbd once for each monitor."""
    disks: dict[tuple, bool] = {}
    for volume in pod.volumes:
        for source in [each for each in DISK_IDENTITIES if volume.get(each)]:
            disk = pick(volume, dict, source)
            shared = pick(disk, bool, "readOnly") and source != "awsElasticBlockStore"
            for monitor in pick(disk, list, "monitors", of=str) if source == "rbd" else [""]:
                identity = source, monitor, *(pick(disk, str, name) for name in DISK_IDENTITIES[source])
                disks[identity] = shared and disks.get(identity, True)
    return disks


def disks_conflict(pod: FullPod, other: FullPod) -> bool:
    """Return whether two pods mount a network disk that they cannot share."""
    ours, theirs = disks_of(pod), disks_of(other)
    return any(not (ours[disk] and theirs[disk]) for disk in ours.keys() & theirs.keys())


@predicate("NoDiskConflict", metadata=exclusive_claims, plugin="VolumeRestrictions", by_default=1,
           steady=True,
           pod_requirements={"a network disk": lambda pod, node: disks_of(pod)})
def no_disk_conflict(pod, node, metadata):
    """No pod on the node mounts a disk of this pod, unless both only read it, or uses its exclusive claim."""
    if disks_of(pod) and any(disks_conflict(pod, other) for other in node.pods.values()):
        yield "node(s) had no available disk"
    elif metadata:
        yield ("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
               "already in-use by another pod")


# A disk is identified by the field `identity` of a volume's `source`. A node can attach `limit` of them.
CloudDisks = collections.namedtuple("CloudDisks", "source identity limit")
CLOUD_DISKS = {  # provisioner -> its disks
    "kubernetes.io/aws-ebs": CloudDisks("awsElasticBlockStore", "volumeID", 39),  # on AWS Nitro: 25
    "kubernetes.io/gce-pd": CloudDisks("gcePersistentDisk", "pdName", 16),
    "kubernetes.io/azure-disk": CloudDisks("azureDisk", "diskName", 16),
    "kubernetes.io/cinder": CloudDisks("cinder", "volumeID", 256)}


MAX_PD_VOLS = os.environ.get("KUBE_MAX_PD_VOLS", "")
KUBE_MAX_PD_VOLS = int(MAX_PD_VOLS) if MAX_PD_VOLS.isdigit() else 0  # 0: the limits above apply
LOCAL = {"configMap", "downwardAPI", "emptyDir", "hostPath", "persistentVolumeClaim", "projected", "secret"}


@kept_with_pod
def inline_disks(pod: FullPod) -> list[dict]:
    """Return the pod's inline volumes that may be network disks."""
    return [volume for volume in pod.volumes if LOCAL.isdisjoint(volume)]


def volumes_of(pod: FullPod, snapshot: FullSnapshot) -> tuple[list[dict], dict[str, dict]]:
    """Return the sources of the pod's volumes, inline or claimed, and {name: claim} of unbound claims."""
    sources = [*inline_disks(pod)]
    unbound = {}
    for name, claim, volume in claims_of(pod, snapshot):
        if volume:
            sources.append(pick(volume, dict, "spec"))
        elif claim:
            unbound[name] = claim
    return sources, unbound


def attachments(pod: FullPod, snapshot: FullSnapshot) -> set:
    """Return the (driver, identity) of the pod's cloud disks, inline or claimed, and of its CSI volumes.

    The result is kept with the pod until its own claims, their volumes or the classes change, because this is
    called for all pods with volumes whenever one of their claims is bound.
    """
    if not pod.claims:
        return attached_by([*inline_disks(pod)], CLOUD_DISKS)
    basis = [*claims_of(pod, snapshot)], dict(snapshot.objects["storageclasses"])
    known = pod.derived.get("attachments")
    if not known or known[0] != basis:
        known = pod.derived["attachments"] = basis, claimed_attachments(pod, snapshot)
    return known[1]


def claimed_attachments(pod: FullPod, snapshot: FullSnapshot) -> set:
    """Return the attachments of a pod with claims."""
    sources, unbound = volumes_of(pod, snapshot)
    attached = attached_by(sources, CLOUD_DISKS)
    for name, claim in unbound.items():  # a volume that has yet to be provisioned is identified by its claim
        class_name = pick(claim, str, "spec", "storageClassName")
        named = snapshot.objects["storageclasses"].get(class_name, {})
        built_in = pick(named, str, "provisioner")
        if built_in in CLOUD_DISKS:
            attached.add((built_in, (pod.namespace, name)))
        csi_class = storage_class_of(claim, snapshot)  # reads the beta annotation, too
        provisioner = pick(csi_class, str, "provisioner")
        if provisioner not in CLOUD_DISKS:
            attached.add((provisioner, (pod.namespace, name)))
    return attached


def attached_by(sources: list[dict], drivers: Mapping[str, Any]) -> set:
    """Return the (driver, identity) of disks and CSI volumes, without inline ones, which have no handle."""
    attached = {(pick(source, str, "csi", "driver"), pick(source, str, "csi", "volumeHandle"))
                for source in sources if pick(source, dict, "csi").get("volumeHandle")}
    for driver, disks in drivers.items():
        attached |= {(driver, pick(source, str, disks.source, disks.identity))
                     for source in sources if source.get(disks.source)}
    return attached


def volume_limit(driver: str, node: FullNode, snapshot: FullSnapshot) -> float:
    """Return the number of volumes of a driver that the node can attach."""
    if driver in CLOUD_DISKS:
        instance_type = node.labels.get("beta.kubernetes.io/instance-type") or node.labels.get(
            "node.kubernetes.io/instance-type", "")
        is_nitro = driver == "kubernetes.io/aws-ebs" and re.search("^[cmr]5.*|t3|z1d", instance_type)
        limit = KUBE_MAX_PD_VOLS or (25 if is_nitro else CLOUD_DISKS[driver].limit)
        return node.allocatable.get(driver.replace("kubernetes.io/", "attachable-volumes-"), limit)
    resource = f"attachable-volumes-csi-{driver}"
    if len(resource) >= 63:
        resource = f"attachable-volumes-csi-{driver[:23]}{hashlib.sha1(driver.encode()).hexdigest()[:16]}"
    return csi_limit(driver, node, snapshot, otherwise=node.allocatable.get(resource, math.inf))


def csi_limit(driver: str, node: FullNode, snapshot: FullSnapshot, otherwise: float) -> float:
    """Return the number of volumes of a CSI driver that the node's CSINode allows, or `otherwise`."""
    for known in pick(snapshot.objects["csinodes"].get(node.name, {}), list, "spec", "drivers", of=dict):
        room = pick(known, dict, "allocatable")
        if known.get("name") == driver and room.get("count") is not None:
            return pick(room, int, "count")
    return otherwise


@dataclass
class ToAttach:
    """The volumes that a node has to attach for a pod. Pods with the same number of new volumes are equal."""

    new: dict  # driver -> the number of volumes that no node has attached yet
    others: set  # (driver, identity) of volumes that some nodes have attached
    objects: list  # the API objects that volumes and limits depend on; compared if this is a cache's basis
    attached: dict = field(compare=False)  # name of a node -> the (driver, identity) attached to it
    snapshot: FullSnapshot = field(compare=False)

    def on(self, node: FullNode) -> tuple[collections.Counter, set]:
        """Return {driver: the number of volumes that the node would have}, and the drivers that get more."""
        attached = self.attached[node.name]
        numbers = collections.Counter([driver for driver, _ in attached | self.others])
        numbers.update(self.new)
        return numbers, self.new.keys() | {driver for driver, _ in self.others - attached}


def to_attach(wanted: set, snapshot: FullSnapshot, attachments: Callable = attachments,
              elsewhere: frozenset = frozenset()) -> Any:
    """Return the ToAttach of wanted volumes; SKIP if there are none. elsewhere: further attached volumes."""
    if not wanted:
        return SKIP
    resources = "persistentvolumes", "storageclasses", "csinodes"
    objects = [claims_in_brief(snapshot), *(snapshot.objects[resource] for resource in resources)]

    def attached_to(node):
        """Return the (driver, identity) of the volumes attached for the pods on a node."""
        return frozenset().union(*[attachments(pod, snapshot) for pod in node.pods.values() if pod.volumes])

    somewhere, attached = answers_about(
        snapshot.nodes, ("attached", attachments.__name__), snapshot, compute_each(attached_to), objects,
        then=lambda nodes, attached: (frozenset().union(*attached.values()), attached))
    others = wanted & (somewhere | elsewhere)
    new = collections.Counter([driver for driver, _ in wanted - others])
    return ToAttach(new, others, objects, attached, snapshot)


def volume_attachments(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot,
                       cloud: str | None = None) -> Any:
    """Return the ToAttach of the pod's volumes: the disks of a cloud, or all CSI volumes (None)."""
    wanted = {(driver, volume) for driver, volume in attachments(pod, snapshot)
              if cloud == (driver if driver in CLOUD_DISKS else None)}
    return to_attach(wanted, snapshot)


@predicate("MaxCSIVolumeCountPred", metadata=volume_attachments, plugin="NodeVolumeLimits", by_default=1,
           steady=True)
def max_volume_count(pod, node, metadata, cloud=None):
    """The node can attach the volumes of its pods and of this one, each counted once."""
    numbers, drivers_with_more = metadata.on(node)
    # A CSI driver over its limit matters only if the pod adds a volume. Upstream: plugins/nodevolumelimits
    for driver in [cloud] if cloud else drivers_with_more:
        if numbers[driver] > volume_limit(driver, node, metadata.snapshot):
            yield "node(s) exceed max volume count"
            return


for name, cloud, plugin in [("MaxEBSVolumeCount", "aws-ebs", "EBSLimits"),
                            ("MaxGCEPDVolumeCount", "gce-pd", "GCEPDLimits"),
                            ("MaxAzureDiskVolumeCount", "azure-disk", "AzureDiskLimits"),
                            ("MaxCinderVolumeCount", "cinder", "CinderLimits")]:
    predicate(name, metadata=functools.partial(volume_attachments, cloud=f"kubernetes.io/{cloud}"),
              plugin=plugin, by_default=int(cloud != "cinder"), steady=True)(
        functools.partial(max_volume_count, cloud=f"kubernetes.io/{cloud}"))
