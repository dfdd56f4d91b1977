"""CheckVolumeBinding: the nodes on which a pod's claims have or can get volumes, and binding these.

`bind_volumes` runs before the Binding (PreBind). Upstream: plugins/volumebinding.
"""

from __future__ import annotations

import collections
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.deciding.answers import memo
from scheduler_extras.deciding.prepared_rules import prepare
from scheduler_extras.deciding.rule import SKIP, Rejected, predicate
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import Requirement, label_selector, labels_match
from scheduler_extras.reading.node_affinity import valid_terms
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod, PendingState
from scheduler_extras.reading.quantities import quantity
from scheduler_extras.rules.disks import claims_of, class_name_of, storage_class_of


OUT_OF_REACH = "node(s) had volume node affinity conflict"
OUT_OF_REACH_136 = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME_TO_BIND = "node(s) didn't find available persistent volumes to bind"
UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
ClaimsToBind = collections.namedtuple("ClaimsToBind", "bound delayed")
Volume = collections.namedtuple("Volume", "raw reach")  # reach: lists of Requirements; a node must meet one
EVERYWHERE: list[list] = [[]]


class DelayedClaim:
    """A claim that gets a volume once a node is chosen (WaitForFirstConsumer), and suitable volumes."""

    def __init__(self, claim: dict, snapshot: FullSnapshot):
        self.claim = claim
        self.snapshot = snapshot
        self.size = storage(claim, "resources", "requests")  # bytes
        # The name of the node for which a provisioner has been asked to create a volume, or None.
        self.selected_node = pick(claim, dict, "metadata", "annotations").get(SELECTED_NODE)
        self.storage_class = storage_class_of(claim, snapshot)

    def __eq__(self, other: object) -> bool:
        """Return whether another claim is equal in everything that the predicate reads."""
        names = "selected_node", "storage_class", "room", "volumes"
        return all(getattr(self, name) == getattr(other, name) for name in names)

    @functools.cached_property
    def volumes(self) -> list[Volume]:
        """The free Volumes that suit the claim, smallest first; or only the one reserved for the claim."""
        free = []
        claim = self.claim
        selector = label_selector(pick(claim, dict, "spec").get("selector") or {})
        metadata = claim["metadata"]
        known = volumes_to_claim(self.snapshot)
        own = known.get((metadata.get("namespace"), metadata.get("name")), [])
        for volume in own + known.get(class_name_of(claim), []):
            owner = pick(volume, dict, "spec", "claimRef")
            if not could_serve(volume, claim):
                continue
            if owner and names_claim(owner, claim):
                return [with_reach(volume)]
            is_free = not owner and pick(volume, str, "status", "phase") == "Available"
            is_selected = labels_match(pick(volume, dict, "metadata", "labels"), selector)
            modes = set(pick(volume, list, "spec", "accessModes", of=str))
            if is_free and is_selected and modes.issuperset(pick(claim, list, "spec", "accessModes", of=str)):
                free.append(volume)
        return [with_reach(volume) for volume in free]

    def volume_for(self, node: FullNode, taken: set[str]) -> dict | None:
        """Return the first volume that is not taken and can be used on the node, or None."""
        for volume in self.volumes:
            if volume.raw["metadata"]["name"] not in taken and satisfies_one(node.labels, volume.reach):
                return volume.raw
        return None

    @functools.cached_property
    def room(self) -> list:
        """The nodes where a new volume has room: lists of Requirements, one of which a node must meet."""
        driver = self.snapshot.objects["csidrivers"].get(pick(self.storage_class, str, "provisioner"), {})
        if not pick(driver, bool, "spec", "storageCapacity"):
            return EVERYWHERE
        room = []
        for capacity in self.snapshot.objects["csistoragecapacities"].values():
            largest = capacity.get("maximumVolumeSize") or capacity.get("capacity") or 0
            has_same_class = capacity.get("storageClassName") == class_name_of(self.claim)
            if has_same_class and quantity(str(largest)) >= self.size:
                room.append(label_selector(capacity.get("nodeTopology")))
        return room


def volumes_to_claim(snapshot: FullSnapshot) -> dict[Any, list[dict]]:
    """Return {(namespace, name) of a claim, or the name of a class: its volumes, smallest first}.

    A volume that is Available is listed under its class, even if it is reserved for a claim.
    """
    volumes = snapshot.objects["persistentvolumes"]

    def index():
        """Return the volumes by claim or class."""
        found = collections.defaultdict(list)
        for volume in sorted(volumes.values(), key=lambda volume: storage(volume, "capacity")):
            owner = pick(volume, dict, "spec", "claimRef")
            has_claim = owner and pick(volume, str, "status", "phase") != "Available"
            key = (owner.get("namespace"), owner.get("name")) if has_claim else class_name_of(volume)
            found[key].append(volume)
        return found

    return memo("volumes", snapshot, [volumes], index)


def why_unusable(name: str, claim: dict, pod: FullPod) -> str | None:
    """Return why the pod cannot use a claim on any node, or None. Upstream: podHasPVCs."""
    if not claim:
        return f'persistentvolumeclaim "{name}" not found'
    if pick(claim, str, "metadata", "deletionTimestamp"):
        return f'persistentvolumeclaim "{name}" is being deleted'
    return None


def claims_to_bind(pod: FullPod, nodes: Any, snapshot: FullSnapshot,
                   why_unusable: Callable = why_unusable) -> Any:
    """Return the ClaimsToBind: the reach of bound claims, and DelayedClaims in upstream's order; or SKIP."""
    bound = {}
    delayed = []
    is_any_immediate = False
    for name, claim, volume in claims_of(pod, snapshot):
        problem = why_unusable(name, claim, pod)
        if problem:
            raise Rejected(problem)
        has_volume = pick(claim, str, "spec", "volumeName")
        if has_volume and "pv.kubernetes.io/bind-completed" in pick(claim, dict, "metadata", "annotations"):
            bound[name] = with_reach(volume).reach if volume else None
        elif has_volume or not waits_for_consumer(claim, snapshot):
            is_any_immediate = True
        else:
            delayed.append(DelayedClaim(claim, snapshot))
    if is_any_immediate:
        raise Rejected(UNBOUND_IMMEDIATE)
    selected = [each for each in delayed if each.selected_node is not None]
    others = [each for each in delayed if each.selected_node is None]
    delayed = selected + sorted(others, key=lambda each: each.size)
    return ClaimsToBind([*bound.values()], delayed) if pod.claims else SKIP


def waits_for_consumer(claim: dict, snapshot: FullSnapshot) -> bool:
    """Return whether a claim gets its volume only when a pod uses it."""
    return storage_class_of(claim, snapshot).get("volumeBindingMode") == "WaitForFirstConsumer"


def storage(obj: dict, *path: str) -> int:
    """Return the size in bytes that a claim requests or a volume has."""
    return quantity(str(pick(obj, dict, "spec", *path).get("storage") or 0))


def assume_volumes(claims: list[DelayedClaim], node: FullNode, state: PendingState) -> list[tuple]:
    """Reserve volumes for claims, or request new ones, in the cache. Return the requests that write this."""
    patches = []
    for delayed, volume in find_volumes(claims, node):
        claim = delayed.claim
        metadata = claim["metadata"]
        if volume and not volume["spec"].get("claimRef"):
            owner = {name: metadata.get(name) for name in ("namespace", "name", "uid")}
            reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **owner}
            state.assume_change(volume["spec"], "claimRef", reference)
            patches.append(patch(volume, "persistentvolumes", spec={"claimRef": reference},
                                 annotations={"pv.kubernetes.io/bound-by-controller": "yes"}))
        elif not volume and delayed.selected_node is None:
            # Until the claim is bound, its pods fit no other node.
            annotations = pick(metadata, dict, "annotations") | {SELECTED_NODE: node.name}
            state.assume_change(metadata, "annotations", annotations)
            patches.append(patch(claim, "persistentvolumeclaims", annotations={SELECTED_NODE: node.name}))
    return patches


def bind_volumes(pod: FullPod, node: FullNode, snapshot: FullSnapshot, timeout: float = 600,
                 late: str = "timed out waiting for the condition") -> tuple[list[tuple], str] | None:
    """Reserve volumes for the pod's claims, or request their provisioning. Controllers do the rest.

    timeout: seconds after which the pod gives up its node, with the message `late`.
    """
    state = pod.pending_state
    if not pod.claims or state is None:
        return None
    failing = "binding volumes:"
    has_waited = state.waits_at_pre_bind()
    active = snapshot.policies[pod.scheduler].predicates
    own = [rule for rule in active if rule.name == "CheckVolumeBinding"]
    [prepared] = prepare(own, pod, {node.name: node}, snapshot)
    claims = prepared.metadata
    reasons = prepared.reasons(node)  # rules may have held the pod for long
    if reasons:
        raise Unschedulable(f"{failing} {reasons[0]}")
    patches = assume_volumes(claims.delayed, node, state)
    if patches and has_waited:
        raise Unschedulable(f"{failing} the volume or the node that was chosen has been given up")
    if claims.delayed and has_waited and time.monotonic() - state.since > timeout:
        raise Unschedulable(f"{failing} {late}")
    is_awaited = claims.delayed and snapshot.is_live  # on manifests, no controller would bind them
    return (patches, "volumes are being bound or provisioned") if is_awaited else None


def patch(obj: dict, resource: str, annotations: dict, **more: Any) -> tuple[str, str, dict]:
    """Return the request that changes an object, which fails if another client has changed it meanwhile."""
    metadata = obj["metadata"]
    place = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
    return "PATCH", f"/api/v1/{place}{resource}/{metadata['name']}", {
        "metadata": {"resourceVersion": metadata.get("resourceVersion"), "annotations": annotations}, **more}


@predicate("CheckVolumeBinding", metadata=claims_to_bind, pre_bind=bind_volumes,
           plugin="VolumeBinding", by_default=1, steady=True, unresolvable=True,
           pod_requirements={"claims": lambda pod, node: pod.claims})
def check_volume_binding(pod, node, metadata, gone="pvc(s) bound to non-existent pv(s)",
                         out_of_reach=OUT_OF_REACH):
    """The node can use the volumes of the pod's bound claims, and there are volumes for the others."""
    for reach in metadata.bound:
        if reach is None:
            yield gone
            break
        if not satisfies_one(node.labels, reach):
            yield out_of_reach
            break
    if any(delayed.selected_node not in (None, node.name) for delayed in metadata.delayed):
        yield NO_VOLUME_TO_BIND
        return
    for delayed, volume in find_volumes(metadata.delayed, node):
        if not volume and not can_provision(delayed.storage_class, node):
            yield NO_VOLUME_TO_BIND
            break
        if not volume and not satisfies_one(node.labels, delayed.room):
            yield "node(s) did not have enough free storage"
            break


def find_volumes(delayed: list[DelayedClaim], node: FullNode) -> Iterator[tuple[DelayedClaim, dict | None]]:
    """Yield (DelayedClaim, its volume on this node, or None if one must be provisioned).

    Upstream: volume/scheduling/scheduler_binder.go.
    """
    taken: set[str] = set()
    for each in delayed:
        volume = None
        if each.selected_node is None:
            volume = each.volume_for(node, taken)
        if volume:
            taken.add(volume["metadata"]["name"])
        yield each, volume


def can_provision(storage_class: dict, node: FullNode) -> bool:
    """Return whether the storage class can provision volumes for this node."""
    if pick(storage_class, str, "provisioner") in ("", "kubernetes.io/no-provisioner"):
        return False
    topologies = pick(storage_class, list, "allowedTopologies", of=dict)
    for topology in topologies:
        wanted = [Requirement(pick(each, str, "key"), "In", pick(each, list, "values", of=str))
                  for each in pick(topology, list, "matchLabelExpressions", of=dict)]
        if wanted and labels_match(node.labels, wanted):
            return True
    return not topologies


def could_serve(volume: dict, claim: dict) -> bool:
    """Return whether a volume has the claim's size, classes and mode, and is not terminating."""
    modes = {pick(obj, str, "spec", "volumeMode") or "Filesystem" for obj in (volume, claim)}
    attributes = {pick(obj, str, "spec", "volumeAttributesClassName") for obj in (volume, claim)}
    is_alike = class_name_of(volume) == class_name_of(claim) and len(modes) == len(attributes) == 1
    is_large_enough = storage(volume, "capacity") >= storage(claim, "resources", "requests")
    stays = not pick(volume, str, "metadata", "deletionTimestamp")
    return is_large_enough and is_alike and stays


def names_claim(owner: dict, claim: dict) -> bool:
    """Return whether a volume's claimRef names this claim. It may leave out the uid."""
    metadata = claim["metadata"]
    same_name = all(owner.get(name) == metadata.get(name) for name in ("namespace", "name"))
    return same_name and (owner.get("uid") or metadata.get("uid")) == metadata.get("uid")


def with_reach(volume: dict) -> Volume:
    """Return the Volume with its reach, which follows from its nodeAffinity."""
    required = pick(volume, dict, "spec", "nodeAffinity", "required")
    terms = valid_terms(pick(required, list, "nodeSelectorTerms", of=dict))
    return Volume(volume, [
        [Requirement(**each) for each in term["matchExpressions"]] for term in terms if any(term.values())]
                  if required else EVERYWHERE)


def satisfies_one(labels: Mapping[str, str], terms: Iterable) -> bool:
    """Return whether labels meet all Requirements of one of these lists."""
    return any(labels_match(labels, requirements) for requirements in terms)
