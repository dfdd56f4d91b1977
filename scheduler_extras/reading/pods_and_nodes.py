"""Pods and nodes, as rules and the cache see them.

The cache, and manifests, read pods and nodes with it.
"""

import functools
import marshal
import math
from types import MappingProxyType as read_only

from scheduler import DEFAULT_REQUESTS, NO_REQUESTS, Taint
from scheduler_extras.common.errors import InvalidSelector, Unschedulable
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.node_affinity import node_selector_term, valid_terms
from scheduler_extras.reading.quantities import add_to, amounts, quantity


def key_in(thing):
    """Return an object's namespace/name, or name, even if it is malformed."""
    parts = [text_at(thing, "metadata", "namespace"), text_at(thing, "metadata", "name")]
    return "/".join(filter(None, parts))


NOTHING_SCORED = dict.fromkeys(DEFAULT_REQUESTS, 0)  # what scores count of a pod without containers


def is_sidecar(init_container):
    """Return whether an init container runs on beside the containers that start after it."""
    return init_container.get("restartPolicy") == "Always"


def raise_to(total, others):
    """Raise each resource amount, in place, to that of others, if theirs is higher."""
    for name, amount in others.items():
        if amount > total.get(name, 0):
            total[name] = amount


def while_resized(wanted, status, raw):
    """Return what a container of a pod, or the pod as a whole, counts for while it is resized in place.

    That is the largest of what it asks for, what it is granted and what it has; what it asks for does not
    count if it can never have it. Upstream: determineContainerReqs.
    """
    conditions = pick(raw, list, "status", "conditions", of=dict)
    reasons = [each.get("reason") for each in conditions if each.get("type") == "PodResizePending"]
    largest = {} if "Infeasible" in reasons else dict(wanted)
    raise_to(largest, amounts(status, "resources", "requests"))
    raise_to(largest, amounts(status, "allocatedResources"))
    return largest


def container_requests(raw):
    """Return a pair for each container: what it requests, and whether it runs on beside the next ones."""
    statuses = {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        statuses |= {pick(status, str, "name"): status for status in pick(raw, list, "status", kind, of=dict)}
    pairs = []
    for kind in ("initContainers", "containers"):
        for container in pick(raw, list, "spec", kind, of=dict):
            wanted = amounts(container, "resources", "requests")
            runs_on = kind == "containers" or is_sidecar(container)
            status = statuses.get(pick(container, str, "name"), {}) if runs_on else {}
            if status.get("resources") is not None:
                wanted = while_resized(wanted, status, raw)
            pairs.append((wanted, runs_on))
    return pairs


def pod_amounts(containers, as_a_whole, overhead, default):
    """Return what a pod requests: max(its containers together, each init container alone) + overhead.

    `as_a_whole`: what it says instead. `default`: for what a container does not name. Upstream: PodRequests.
    """
    total = {}  # of what runs on
    most = {}  # at any time
    for wanted, runs_on in containers:
        together = default | wanted
        add_to(together, total)
        raise_to(most, together)
        if runs_on:
            total = together
    total |= most | as_a_whole
    add_to(total, overhead)
    return total


class FullPod:
    """A pod, with all that rules and the cache look at. Raises Malformed.

    It has the attributes that the rules of scheduler.py read of a pod, and more. All fields are checked, as
    manifests are not typed. If a rule writes into one, that line raises.
    """

    def __init__(self, raw):
        self.raw = raw
        self.spec = spec = pick(raw, dict, "spec")
        self.name = pick(raw, str, "metadata", "name")
        self.labels = read_only(pick(raw, dict, "metadata", "labels", of=str))
        self.annotations = read_only(pick(raw, dict, "metadata", "annotations", of=str))
        self.namespace = pick(raw, str, "metadata", "namespace") or "default"
        self.key = f"{self.namespace}/{self.name}"
        self.uid = pick(raw, str, "metadata", "uid") or self.key
        self.created = pick(raw, str, "metadata", "creationTimestamp")
        self.terminating = bool(pick(raw, str, "metadata", "deletionTimestamp"))
        self.priority = pick(spec, int, "priority")
        self.scheduler = pick(spec, str, "schedulerName") or "default-scheduler"
        self.node_name = pick(spec, str, "nodeName")
        self.node_selector = read_only(pick(spec, dict, "nodeSelector", of=str))
        self.node_affinity = pick(spec, dict, "affinity", "nodeAffinity")
        self.tolerations = tuple(pick(spec, list, "tolerations", of=dict))
        self.volumes = tuple(pick(spec, list, "volumes", of=dict))
        self.containers = tuple(pick(spec, list, "containers", of=dict))
        self.host_ports = host_ports_of(self.containers)
        self.requests = read_only(NO_REQUESTS | amounts_of_pod(spec, {}))
        self.nonzero = read_only(NOTHING_SCORED | amounts_of_pod(spec, DEFAULT_REQUESTS))  # for scores
        # A bug of upstream, kept: while the pod waits, a core of its overhead counts as a millicore.
        overhead = amounts(spec, "overhead").get("cpu", 0)
        cpu = self.nonzero["cpu"] - overhead + math.ceil(overhead / 1000)
        self.nonzero_incoming = read_only(self.nonzero | {"cpu": cpu})  # by calculatePodResourceRequest
        self.derived = {}  # what rules have worked out of it: see kept_with_pod
        pick(raw, list, "status", "conditions", of=dict)  # if they are malformed, this says it
        owners = pick(raw, list, "metadata", "ownerReferences", of=dict)
        self.controller = next((owner for owner in owners if owner.get("controller")), {})
        self.phase = pick(raw, str, "status", "phase")
        self.gates = tuple(pick(gate, str, "name") for gate in pick(spec, list, "schedulingGates", of=dict))
        self.nominated_node = pick(raw, str, "status", "nominatedNodeName")  # where room is being made for it
        affinity = pick(spec, dict, "affinity")
        self.is_affine = any(pick(affinity, dict, side) for side in ("podAffinity", "podAntiAffinity"))
        self.init_containers = tuple(pick(spec, list, "initContainers", of=dict))
        for container in [*self.containers, *self.init_containers]:
            pick(container, str, "name")
        read_claims(self)
        self.uncounted_cpu = self.nonzero["cpu"] - self.nonzero_incoming["cpu"]
        sidecars = [container for container in self.init_containers if is_sidecar(container)]
        if sidecars:
            self.host_ports = host_ports_of([*self.containers, *sidecars])
        if sidecars or spec.get("resources") or is_resized(self):
            read_requests_136(self)
        self.signatures = {}  # names of attributes -> see `signature`
        self.record = None  # of a pending pod: its PodRecord
        self.counts_on = ""  # the node on which the cache counts it: where it is, or is assumed to be

    @functools.cached_property
    def required_terms(self):
        """The terms of its required node affinity, without those that are invalid; None without affinity."""
        required = self.node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        return None if required is None else valid_terms(pick(required, list, "nodeSelectorTerms", of=dict))

    @functools.cached_property
    def preferred_terms(self):
        """Its preferred node affinity, [{"weight": ..., "preference": term}]. Raises Unschedulable."""
        preferred = []
        problems = {}
        raws = pick(self.node_affinity, list, "preferredDuringSchedulingIgnoredDuringExecution", of=dict)
        for raw in raws:
            try:
                term = node_selector_term(pick(raw, dict, "preference"))
                preferred.append({"weight": pick(raw, int, "weight"), "preference": term})
            except InvalidSelector as error:
                problems[str(error)] = None  # a dict: as in upstream's list, each is named once
        if problems:
            problem = f"[{', '.join(problems)}]" if len(problems) > 1 else ", ".join(problems)
            raise Unschedulable(f'running Score plugins: plugin "NodeAffinity" failed with: {problem}')
        return preferred

    @functools.cached_property
    def is_large(self):
        """Whether the pod says more than some thirty others do together."""
        return len(marshal.dumps(self.spec, 2)) > 30_000


def kept_with_pod(function):
    """Make a function of a pod, and maybe of more, remember its answers, in the pod."""
    @functools.wraps(function)
    def kept(pod, *more):
        if (function, more) not in pod.derived:
            pod.derived[function, more] = function(pod, *more)
        return pod.derived[function, more]
    return kept


def host_ports_of(containers):
    """Return the host ports of containers, [(protocol, number, IP)]."""
    ports = []
    for container in containers:
        for port in pick(container, list, "ports", of=dict):
            number = pick(port, int, "hostPort")
            if number > 0:
                protocol = pick(port, str, "protocol") or "TCP"
                ports.append((protocol, number, pick(port, str, "hostIP") or "0.0.0.0"))
    return tuple(ports)


def amounts_of_pod(spec, default):
    """Return what a pod requests: max(its containers together, each init container alone) + overhead."""
    total = {}  # upstream: computePodResourceRequest; `default` is for what a container does not request
    for container in pick(spec, list, "containers", of=dict):
        add_to(total, default | amounts(container, "resources", "requests"))
    for container in pick(spec, list, "initContainers", of=dict):
        raise_to(total, default | amounts(container, "resources", "requests"))
    add_to(total, amounts(spec, "overhead"))
    return total


def read_claims(pod):
    """Read which claims a pod has, by their namespace/name."""
    claims = []
    named_claims = []  # without those that are made for its ephemeral volumes
    for volume in pod.volumes:
        if volume.get("ephemeral"):  # its claim is named after the pod and the volume
            claims.append(f"{pod.namespace}/{pod.name}-{pick(volume, str, 'name')}")
        elif volume.get("persistentVolumeClaim"):
            name = pick(volume, str, "persistentVolumeClaim", "claimName")
            claims.append(f"{pod.namespace}/{name}")
            named_claims.append(f"{pod.namespace}/{name}")
    pod.claims = tuple(claims)
    pod.named_claims = tuple(named_claims)


def is_resized(pod):
    """Return whether a container of the pod counts for something else than it asks for."""
    if not pick(pod.raw, list, "status", "containerStatuses", of=dict):  # as before it runs
        return False
    asked_for = [amounts(container, "resources", "requests")
                 for container in [*pod.init_containers, *pod.containers]]
    return [wanted for wanted, _ in container_requests(pod.raw)] != asked_for


def read_requests_136(pod):
    """Read what a pod requests if it has sidecars, may be resized, or requests something as a whole."""
    overhead = amounts(pod.spec, "overhead")
    wanted = amounts(pod.spec, "resources", "requests")
    status = pick(pod.raw, dict, "status")
    if wanted and status.get("resources") is not None:
        resized = while_resized(wanted, status, pod.raw)
        wanted = {name: resized.get(name, 0) for name in wanted}
    as_a_whole = {name: amount for name, amount in wanted.items()
                  if name in DEFAULT_REQUESTS or name.startswith("hugepages-")}
    containers = container_requests(pod.raw)
    requested = pod_amounts(containers, as_a_whole, overhead, {})
    defaults = DEFAULT_REQUESTS
    incoming = pod_amounts(containers, {}, overhead, DEFAULT_REQUESTS)
    if as_a_whole:
        defaults = {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in requested}
    incoming = NOTHING_SCORED | incoming
    incoming["cpu"] -= pod.uncounted_cpu
    pod.requests = read_only(NO_REQUESTS | requested)
    pod.nonzero = read_only(NOTHING_SCORED | pod_amounts(containers, as_a_whole, overhead, defaults))
    pod.nonzero_incoming = read_only(incoming)


class FullNode:
    """A node and the pods on it, with all that rules and the cache look at. Raises Malformed.

    It has the attributes that the rules of scheduler.py read of a node, and more.
    """

    def __init__(self, raw):
        self.raw = raw
        self.name = pick(raw, str, "metadata", "name")
        self.labels = read_only(pick(raw, dict, "metadata", "labels", of=str))
        self.unschedulable = pick(raw, bool, "spec", "unschedulable")
        self.taints = tuple(Taint(*(pick(taint, str, part) for part in Taint._fields))
                            for taint in pick(raw, list, "spec", "taints", of=dict))
        self.allocatable = read_only(NO_REQUESTS | amounts(raw, "status", "allocatable"))
        self.max_pods = quantity(str(pick(raw, dict, "status", "allocatable").get("pods") or 0))
        self._pods = {}
        self._requested = dict(NO_REQUESTS)
        self._nonzero = dict.fromkeys(DEFAULT_REQUESTS, 0)
        # What rules see: the pods on it, {uid: Pod}; what these request, and the same as scores count it.
        self.pods, self.requested, self.nonzero = map(read_only, (self._pods, self._requested, self._nonzero))
        self.annotations = read_only(pick(raw, dict, "metadata", "annotations", of=str))
        images = {}
        for image in pick(raw, list, "status", "images", of=dict):
            images |= dict.fromkeys(pick(image, list, "names", of=str), pick(image, int, "sizeBytes"))
        self.images = read_only(images)  # name -> bytes
        conditions = pick(raw, list, "status", "conditions", of=dict)
        self.conditions = read_only({str(each.get("type")): str(each.get("status")) for each in conditions})
        self.exists = True  # False: the API server shows no node of this name, only pods that are on it
        self.derived = {}  # what was worked out of the pods on it
        self.taken_off = ()  # pods that are supposed to have gone though they were terminating already

    def add(self, pod):
        """Put a pod on the node."""
        self._pods[pod.uid] = pod
        add_to(self._requested, pod.requests)
        add_to(self._nonzero, pod.nonzero)


def with_pods(node, pods):
    """Return a node like this one with other pods on it."""
    other = FullNode(node.raw)
    for pod in pods:
        other.add(pod)
    return other


CPU_AND_MEMORY = ["cpu", "memory"]
