"""Overrides of the rules about volumes and claims."""

import collections
import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from scheduler_extras.configuration.overrides.registry import OVERRIDES, override
from scheduler_extras.deciding.answers import memo
from scheduler_extras.deciding.rule import SKIP, Rejected
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import JsonObject, pick
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.claims import (
    OUT_OF_REACH_136,
    bind_volumes,
    check_volume_binding,
    claims_to_bind,
    why_unusable,
)
from scheduler_extras.rules.disks import (
    attached_by,
    claims_of,
    csi_limit,
    exclusive_claims,
    storage_class_of,
    to_attach,
    volumes_of,
)
from scheduler_extras.rules.volume_zones import no_volume_zone_conflict, zones_of_volumes


@override("NoDiskConflict", "metadata")
def exclusive_claims_136(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> Any:
    """A missing claim rejects the pod."""
    for name, claim, _ in claims_of(pod, snapshot, pod.named_claims):
        if not claim:
            raise Rejected(f'persistentvolumeclaim "{name}" not found')
    return exclusive_claims(pod, nodes, snapshot)


class Migrated(NamedTuple):
    """Disks of a kind that a CSI driver has taken over from Kubernetes."""

    provisioner: str
    source: str  # of a volume
    identity: str  # the field of the source that identifies the disk


MIGRATED = {  # CSI driver -> the disks that it has taken over
    "ebs.csi.aws.com": Migrated("kubernetes.io/aws-ebs", "awsElasticBlockStore", "volumeID"),
    "pd.csi.storage.gke.io": Migrated("kubernetes.io/gce-pd", "gcePersistentDisk", "pdName"),
    "disk.csi.azure.com": Migrated("kubernetes.io/azure-disk", "azureDisk", "diskURI"),
    "cinder.csi.openstack.org": Migrated("kubernetes.io/cinder", "cinder", "volumeID"),
    "pxd.portworx.com": Migrated("kubernetes.io/portworx-volume", "portworxVolume", "volumeID")}
DRIVERS = {disks.provisioner: driver for driver, disks in MIGRATED.items()}


def attachments_136(pod: FullPod, snapshot: FullSnapshot) -> set[Any]:
    """Return the (CSI driver, handle) of the pod's volumes, inline or claimed."""
    sources, unbound = volumes_of(pod, snapshot)
    attached = attached_by(sources, MIGRATED)
    for name, claim in unbound.items():
        provisioner = pick(storage_class_of(claim, snapshot), str, "provisioner")
        attached.add((DRIVERS.get(provisioner, provisioner), (pod.namespace, name)))
    return attached


@override("MaxCSIVolumeCountPred", "metadata")
def volume_attachments_136(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> Any:
    """Return the volumes to attach for the pod, and {node: the volumes of its VolumeAttachments}; or SKIP."""
    wanted = attachments_136(pod, snapshot)
    if not wanted:
        return SKIP
    attachments = snapshot.objects["volumeattachments"]
    volumes = snapshot.objects["persistentvolumes"]

    def attached_volumes() -> dict[str, set[Any]]:
        """Return {node: the (CSI driver, handle) of the volumes that are attached to it}."""
        by_node = collections.defaultdict(set)
        for attachment in attachments.values():
            spec = pick(attachment, dict, "spec")
            name = pick(spec, str, "source", "persistentVolumeName")
            csi = pick(volumes.get(name, {}), dict, "spec", "csi")
            if csi:
                volume = pick(spec, str, "attacher"), pick(csi, str, "volumeHandle")
                by_node[pick(spec, str, "nodeName")].add(volume)
        return by_node

    by_node = memo("volumeattachments", snapshot, [attachments, volumes], attached_volumes)
    elsewhere = frozenset().union(*by_node.values())
    return to_attach(wanted, snapshot, attachments_136, elsewhere), by_node


@override("MaxCSIVolumeCountPred")
def node_volume_limits(pod: FullPod, node: FullNode, metadata: Any) -> Iterator[str]:
    """The limits of the CSINode hold. Volumes that are attached without a pod count, too."""
    wanted, by_node = metadata
    numbers, with_more = wanted.on(node)
    of_no_pod = by_node.get(node.name, set()) - wanted.attached[node.name]
    numbers.update([driver for driver, _ in of_no_pod])  # as upstream, counts wanted ones twice
    for driver in with_more:
        if numbers[driver] > csi_limit(driver, node, wanted.snapshot, otherwise=math.inf):
            yield "node(s) exceed max volume count"
            return


def why_unusable_136(name: str, claim: JsonObject, pod: FullPod) -> str | None:
    """Return why the pod cannot use a claim on any node, or None."""
    key = f"{pod.namespace}/{name}"
    is_ephemeral = key not in pod.named_claims
    if is_ephemeral and not claim:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if pick(claim, str, "status", "phase") == "Lost":
        volume_name = pick(claim, str, "spec", "volumeName")
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume_name}"'
    problem = why_unusable(name, claim, pod)
    owners = pick(claim, list, "metadata", "ownerReferences", of=dict)
    is_owner = pod.uid in [owner.get("uid") for owner in owners if owner.get("controller")]
    if problem or is_owner or not is_ephemeral:
        return problem
    return f"PVC {key} was not created for pod {pod.key} (pod is not owner)"


override("CheckVolumeBinding", "metadata")(functools.partial(claims_to_bind, why_unusable=why_unusable_136))
override("CheckVolumeBinding")(functools.partial(
    check_volume_binding,
    gone="node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    out_of_reach=OUT_OF_REACH_136))
OVERRIDES["CheckVolumeBinding"]["hooks"] = {
    "pre_bind": functools.partial(bind_volumes, late="context deadline exceeded")}


@override("NoVolumeZoneConflict", "metadata")
def zones_of_volumes_136(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> Any:
    """A claim without a volume rejects the pod."""
    zones = zones_of_volumes(pod, nodes, snapshot)
    if zones is not SKIP and zones.problem:
        raise Rejected(zones.problem)
    return zones


override("NoVolumeZoneConflict")(functools.partial(no_volume_zone_conflict, new_names={
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region"}))
