"""Pods and nodes, parsed from the API's JSON.

The cache and manifests create them; rules read them.
"""

from __future__ import annotations

import functools
import marshal
from collections.abc import Callable, Iterable
from types import MappingProxyType as read_only
from typing import Any, Protocol

from scheduler import DEFAULT_REQUESTS, NO_REQUESTS, Taint
from scheduler_extras.common.errors import InvalidSelector, Unschedulable
from scheduler_extras.reading.fields import JsonObject, pick, text_at
from scheduler_extras.reading.node_affinity import node_selector_term, valid_terms
from scheduler_extras.reading.pod_requests import is_sidecar, requests_of_pod, uncounted_cpu
from scheduler_extras.reading.quantities import Amounts, add_to, amounts, quantity


CPU_AND_MEMORY = ["cpu", "memory"]


def key_in(obj: Any) -> str:
    """Return an object's namespace/name, or its name, even if the object is malformed."""
    parts = [text_at(obj, "metadata", "namespace"), text_at(obj, "metadata", "name")]
    return "/".join(filter(None, parts))


class PendingState(Protocol):
    """What rules may ask of a pending pod's record, and change in it."""

    since: float  # when the current wait of the pod began, in monotonic seconds

    @property
    def refused_nodes(self) -> set[str]:
        """The names of the nodes on which the API server has refused to delete victims of the pod."""

    def waits_at_permit(self) -> bool:
        """Return whether the pod is assumed, but a rule does not permit its binding yet."""

    def waits_at_pre_bind(self) -> bool:
        """Return whether the pod waits for requests of PreBind to take effect."""

    def assume_change(self, part: dict, name: str, value: object) -> None:
        """Change a cached object in the same way as the write that follows."""

    def reject(self, reason: str) -> None:
        """Let the pod give up its node, for this reason."""


class FullPod:
    """A pod, with everything that rules and the cache read. Raises Malformed.

    It has the attributes of a pod in scheduler.py, and more: cpu is in millicores, other resources in units
    (memory in bytes). The types of all fields are checked, because manifests may have any. The attributes are
    read-only: a rule that writes into one raises an exception.
    """

    def __init__(self, raw: JsonObject):
        self.raw = raw
        self.spec = pick(raw, dict, "spec")
        self.read_metadata(raw)
        self.read_spec(self.spec)
        self.read_requests(raw)
        self.phase = pick(raw, str, "status", "phase")
        self.nominated_node = pick(raw, str, "status", "nominatedNodeName")
        pick(raw, list, "status", "conditions", of=dict)  # raises if they are malformed
        self.derived: dict[Any, Any] = {}  # what rules have computed from the pod; see kept_with_pod
        self.signatures: dict[Any, Any] = {}  # names of attributes -> see `signature`
        self.record: Any = None  # of a pending pod: the PodRecord that live/ keeps
        self.counted_on = ""  # the node on which the cache counts it: where it runs, or is assumed to run

    def use_raw(self, raw: JsonObject) -> None:
        """Take new JSON in which only the pod's node, its phase, or ignored fields differ."""
        self.raw = raw
        self.spec = pick(raw, dict, "spec")
        self.node_name = text_at(raw, "spec", "nodeName")
        self.phase = text_at(raw, "status", "phase")

    def read_metadata(self, raw: JsonObject) -> None:
        """Set the attributes that come from the metadata."""
        self.name = pick(raw, str, "metadata", "name")
        self.labels = read_only(pick(raw, dict, "metadata", "labels", of=str))
        self.annotations = read_only(pick(raw, dict, "metadata", "annotations", of=str))
        self.namespace = pick(raw, str, "metadata", "namespace") or "default"
        self.key = f"{self.namespace}/{self.name}"
        self.uid = pick(raw, str, "metadata", "uid") or self.key
        self.created = pick(raw, str, "metadata", "creationTimestamp")
        self.terminating = bool(pick(raw, str, "metadata", "deletionTimestamp"))
        owners = pick(raw, list, "metadata", "ownerReferences", of=dict)
        controllers = [owner for owner in owners if owner.get("controller")]
        self.controller: JsonObject = controllers[0] if controllers else {}

    def read_spec(self, spec: JsonObject) -> None:
        """Set the attributes that come from the spec, without the requests."""
        self.priority = pick(spec, int, "priority")
        self.scheduler = pick(spec, str, "schedulerName") or "default-scheduler"
        self.node_name = pick(spec, str, "nodeName")
        self.node_selector = read_only(pick(spec, dict, "nodeSelector", of=str))
        self.node_affinity = pick(spec, dict, "affinity", "nodeAffinity")
        affinity = pick(spec, dict, "affinity")
        self.is_affine = any(pick(affinity, dict, side) for side in ("podAffinity", "podAntiAffinity"))
        self.tolerations = tuple(pick(spec, list, "tolerations", of=dict))
        self.volumes = tuple(pick(spec, list, "volumes", of=dict))
        self.claims, self.named_claims = claim_keys_of(self)
        self.gates = tuple(pick(gate, str, "name") for gate in pick(spec, list, "schedulingGates", of=dict))
        self.containers = tuple(pick(spec, list, "containers", of=dict))
        self.init_containers = tuple(pick(spec, list, "initContainers", of=dict))
        for container in [*self.containers, *self.init_containers]:
            pick(container, str, "name")
        self.host_ports = host_ports_of([*self.containers, *filter(is_sidecar, self.init_containers)])

    def read_requests(self, raw: JsonObject) -> None:
        """Set the requests, and the requests that scores count: on a node, and for the incoming pod."""
        requested, scored, incoming = requests_of_pod(raw)
        self.requests = read_only(requested)
        self.nonzero = read_only(scored)
        self.uncounted_cpu = uncounted_cpu(self.spec)
        self.nonzero_incoming = read_only(incoming | {"cpu": incoming["cpu"] - self.uncounted_cpu})

    @property
    def pending_state(self) -> PendingState | None:
        """The state of scheduling a pending pod; None for other pods."""
        return self.record

    @property
    def path(self) -> str:
        """The path of the pod in the API."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @functools.cached_property
    def required_terms(self) -> list[JsonObject] | None:
        """The valid terms of the required node affinity, which are the only ones that can match; or None."""
        required = self.node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        return None if required is None else valid_terms(pick(required, list, "nodeSelectorTerms", of=dict))

    @functools.cached_property
    def preferred_terms(self) -> list[JsonObject]:
        """The preferred node affinity, [{"weight": ..., "preference": term}]. Raises Unschedulable."""
        preferred = []
        problems: dict[str, None] = {}  # in order, each once, as upstream lists them
        raws = pick(self.node_affinity, list, "preferredDuringSchedulingIgnoredDuringExecution", of=dict)
        for raw in raws:
            try:
                term = node_selector_term(pick(raw, dict, "preference"))
                preferred.append({"weight": pick(raw, int, "weight"), "preference": term})
            except InvalidSelector as error:
                problems[str(error)] = None
        if problems:
            problem = f"[{', '.join(problems)}]" if len(problems) > 1 else ", ".join(problems)
            raise Unschedulable(f'running Score plugins: plugin "NodeAffinity" failed with: {problem}')
        return preferred

    @functools.cached_property
    def is_large(self) -> bool:
        """Whether the pod's spec takes more than 30 kB, about thirty times the usual size."""
        return len(marshal.dumps(self.spec, 2)) > 30_000


def kept_with_pod(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of a pod, and perhaps of more arguments, keep its results in the pod."""
    @functools.wraps(function)
    def kept(pod: FullPod, *more: Any) -> Any:
        """Return the kept result. The first call computes it."""
        if (function, more) not in pod.derived:
            pod.derived[function, more] = function(pod, *more)
        return pod.derived[function, more]
    return kept


def host_ports_of(containers: Iterable[JsonObject]) -> tuple[tuple[str, int, str], ...]:
    """Return the host ports of containers, [(protocol, number, IP)]."""
    ports = []
    for container in containers:
        for port in pick(container, list, "ports", of=dict):
            number = pick(port, int, "hostPort")
            if number > 0:
                protocol = pick(port, str, "protocol") or "TCP"
                ports.append((protocol, number, pick(port, str, "hostIP") or "0.0.0.0"))
    return tuple(ports)


def claim_keys_of(pod: FullPod) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the namespace/name of all claims of a pod, and of those that it names itself."""
    claims = []
    named_claims = []  # without the claims that controllers create for ephemeral volumes
    for volume in pod.volumes:
        if volume.get("ephemeral"):  # its claim is named after the pod and the volume
            claims.append(f"{pod.namespace}/{pod.name}-{pick(volume, str, 'name')}")
        elif volume.get("persistentVolumeClaim"):
            name = pick(volume, str, "persistentVolumeClaim", "claimName")
            claims.append(f"{pod.namespace}/{name}")
            named_claims.append(f"{pod.namespace}/{name}")
    return tuple(claims), tuple(named_claims)


class FullNode:
    """A node and the pods on it, with everything that rules and the cache read. Raises Malformed.

    It has the attributes of a node in scheduler.py, and more; the units are those of FullPod.
    """

    def __init__(self, raw: JsonObject):
        self.raw = raw
        self.name = pick(raw, str, "metadata", "name")
        self.labels = read_only(pick(raw, dict, "metadata", "labels", of=str))
        self.unschedulable = pick(raw, bool, "spec", "unschedulable")
        self.taints = tuple(Taint(*(pick(taint, str, part) for part in Taint._fields))
                            for taint in pick(raw, list, "spec", "taints", of=dict))
        self.allocatable = read_only(NO_REQUESTS | amounts(raw, "status", "allocatable"))
        self.max_pods = quantity(str(pick(raw, dict, "status", "allocatable").get("pods") or 0))
        self._pods: dict[str, FullPod] = {}
        self._requested = dict(NO_REQUESTS)
        self._nonzero: Amounts = dict.fromkeys(DEFAULT_REQUESTS, 0)
        # Read-only views for rules: the pods, {uid: Pod}; their requests; the requests that scores count.
        self.pods = read_only(self._pods)
        self.requested = read_only(self._requested)
        self.nonzero = read_only(self._nonzero)
        self.annotations = read_only(pick(raw, dict, "metadata", "annotations", of=str))
        images: Amounts = {}
        for image in pick(raw, list, "status", "images", of=dict):
            images |= dict.fromkeys(pick(image, list, "names", of=str), pick(image, int, "sizeBytes"))
        self.images = read_only(images)  # name -> bytes
        conditions = pick(raw, list, "status", "conditions", of=dict)
        self.conditions = read_only({str(each.get("type")): str(each.get("status")) for each in conditions})
        self.exists = True  # False: pods are bound to this name, but the API server has no such node
        self.derived: dict[Any, Any] = {}  # what rules have computed from the pods on it
        self.taken_off: Iterable[FullPod] = ()  # terminating pods that a simulation has removed

    def add(self, pod: FullPod) -> None:
        """Put a pod on the node."""
        self._pods[pod.uid] = pod
        add_to(self._requested, pod.requests)
        add_to(self._nonzero, pod.nonzero)

    def remove(self, pod: FullPod) -> bool:
        """Take a pod off the node. Return whether it was there."""
        removed = self._pods.pop(pod.uid, None)
        if removed:
            add_to(self._requested, {name: -amount for name, amount in removed.requests.items()})
            add_to(self._nonzero, {name: -amount for name, amount in removed.nonzero.items()})
        return removed is not None


# The attributes of a FullNode that do not depend on the pods on it.
POD_INDEPENDENT = frozenset((
    "raw", "name", "labels", "annotations", "unschedulable", "taints", "allocatable", "max_pods", "images",
    "conditions"))


def with_pods(node: FullNode, pods: Iterable[FullPod]) -> FullNode:
    """Return a copy of a node with these pods on it instead."""
    other = FullNode(node.raw)
    for pod in pods:
        other.add(pod)
    return other
