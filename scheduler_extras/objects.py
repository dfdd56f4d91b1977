"""What more is read of pods and nodes than the script reads, and how selectors of labels are read.

The cache reads pods and nodes by this; rules read selectors by it.
"""

import contextlib
import functools
import marshal
from types import MappingProxyType as read_only

from scheduler import (
    DEFAULT_REQUESTS, NO_REQUESTS, InvalidSelector, Malformed, Node, Pod, Requirement, add_to,
    amounts, host_ports_of, pick, read_requirement, text_at
)


def key_in(thing):
    """Return an object's namespace/name, or name, even if it is malformed."""
    parts = [text_at(thing, "metadata", "namespace"), text_at(thing, "metadata", "name")]
    return "/".join(filter(None, parts))


def is_sidecar(init_container):
    """Say whether an init container runs on beside the containers that start after it."""
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


NOTHING = (Requirement("", "In", ()),)  # what no labels meet


def label_selector(selector):
    """Read a LabelSelector as requirements: {} has none, null is NOTHING. Raises InvalidSelector."""
    if selector is None:
        return NOTHING
    labels = [read_requirement({"key": key, "operator": "In", "values": [value]})
              for key, value in pick(selector, dict, "matchLabels", of=str).items()]
    expressions = pick(selector, list, "matchExpressions", of=dict)
    return labels + [checked_requirement(entry) for entry in expressions]


def checked_requirement(expression):
    """Read an entry of matchExpressions. Raises InvalidSelector, also for what an API server would refuse.

    There may be such selectors in manifests, of budgets for example. Upstream: NewRequirement.
    """
    operator = pick(expression, str, "operator")
    values = pick(expression, list, "values", of=str)
    if operator in ("In", "NotIn") and not values:
        raise InvalidSelector("for 'in', 'notin' operators, values set can't be empty")
    if operator in ("Exists", "DoesNotExist") and values:
        raise InvalidSelector("values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt") and len(values) != 1:
        raise InvalidSelector("for 'Gt', 'Lt' operators, exactly one value is required")
    return read_requirement(expression)


def checked_field(expression):
    """Read an entry of matchFields. Raises InvalidSelector. Upstream: nodeaffinity.go."""
    operator = pick(expression, str, "operator")
    values = pick(expression, list, "values", of=str)
    if operator not in ("In", "NotIn"):
        raise InvalidSelector(f'"{operator}" is not a valid node field selector operator')
    if len(values) != 1:
        count = f"unexpected number of value ({len(values)})"
        raise InvalidSelector(f'{count} for node field selector operator "{operator}"')
    return Requirement(pick(expression, str, "key"), operator, values)


def is_valid_term(term):
    """Say whether a term of node affinity, which no API server has seen, can be read."""
    try:
        for expression in pick(term, list, "matchExpressions", of=dict):
            checked_requirement(expression)
        for expression in pick(term, list, "matchFields", of=dict):
            checked_field(expression)
    except InvalidSelector:
        return False
    return True


def pod_selector(thing, pod):
    """Read a labelSelector, with matchLabelKeys and mismatchLabelKeys: the pod's own values, or not."""
    requirements = [*label_selector(thing.get("labelSelector"))]
    for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        own = [key for key in pick(thing, list, keys, of=str) if key in pod.labels]
        requirements += [Requirement(key, operator, [pod.labels[key]]) for key in own]
    return requirements


class FullPod(Pod):
    """A pod, with all that rules and the cache look at. Raises Malformed."""

    def __init__(self, raw):
        super().__init__(raw)
        spec = self.spec
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
        self.uncounted_cpu = self.nonzero.get("cpu", 0) - self.nonzero_incoming["cpu"]
        sidecars = [container for container in self.init_containers if is_sidecar(container)]
        if sidecars:
            self.host_ports = read_only(host_ports_of([*self.containers, *sidecars]))
        if sidecars or spec.get("resources") or is_resized(self):
            read_requests_of_today(self)
        self.signatures = {}  # names of attributes -> see `signature`
        self.so_far = {}  # what was found out in its decision, and is for no other pod: see `recall`
        self.is_undecided = False  # whether that decision was broken off
        self.record = None  # of a pending pod: its PodRecord
        self.counts_on = ""  # the node on which the cache counts it: where it is, or is assumed to be

    @functools.cached_property
    def is_large(self):
        """Whether the pod says more than some thirty others do together."""
        return len(marshal.dumps(self.spec, 2)) > 30_000


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
    """Say whether a container of the pod counts for something else than it asks for."""
    if not pick(pod.raw, list, "status", "containerStatuses", of=dict):  # as before it runs
        return False
    asked_for = [amounts(container, "resources", "requests")
                 for container in [*pod.init_containers, *pod.containers]]
    return [wanted for wanted, _ in container_requests(pod.raw)] != asked_for


def read_requests_of_today(pod):
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
    said = pod_amounts(containers, as_a_whole, overhead, {})
    unsaid = DEFAULT_REQUESTS
    incoming = pod_amounts(containers, {}, overhead, DEFAULT_REQUESTS)
    if as_a_whole:
        unsaid = {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in said}
    if "cpu" in incoming:
        incoming["cpu"] -= pod.uncounted_cpu
    pod.requests = read_only(NO_REQUESTS | said)
    pod.nonzero = read_only(pod_amounts(containers, as_a_whole, overhead, unsaid))
    pod.nonzero_incoming = read_only(incoming)


class FullNode(Node):
    """A node, with all that rules and the cache look at. Raises Malformed."""

    def __init__(self, raw):
        super().__init__(raw)
        self.raw = raw
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


def with_pods(node, pods):
    """Return a node like this one with other pods on it."""
    other = FullNode(node.raw)
    for pod in pods:
        other.add(pod)
    return other


# What heartbeats, kubelets and Bindings change of a pod or a node, and nobody looks at. All else is news,
# whoever looks at it: a rule, or an attribute that you add. If one looks at these, take them out.
OF_NO_ACCOUNT = {where: dict.fromkeys(names.split()) for where, names in {
    "metadata": "resourceVersion generation managedFields",
    "spec": "nodeName",  # where a pod is, the cache sees itself
    "status": "phase message reason startTime hostIP hostIPs podIP podIPs qosClass observedGeneration",
    "condition": "lastHeartbeatTime lastProbeTime observedGeneration",
    "container": "state lastState ready started restartCount image imageID containerID volumeMounts user",
}.items()}
OF_EVERY_POD = {"PodScheduled", "Initialized", "Ready", "ContainersReady", "PodReadyToStartContainers"}
CONTAINER_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
READ_APART = dict.fromkeys(("conditions", *CONTAINER_STATUSES))


def what_counts(raw, usual_conditions):
    """Return the JSON of a pod or a node, with None for what is of no account. Raises Malformed."""
    status = pick(raw, dict, "status")
    conditions = [each | OF_NO_ACCOUNT["condition"] for each in pick(status, list, "conditions", of=dict)
                  if each.get("type") not in usual_conditions]
    containers = [each | OF_NO_ACCOUNT["container"]
                  for kind in CONTAINER_STATUSES for each in pick(status, list, kind, of=dict)
                  if not each.keys() <= OF_NO_ACCOUNT["container"].keys() | {"name"}]
    return [pick(raw, dict, "metadata") | OF_NO_ACCOUNT["metadata"],
            pick(raw, dict, "spec") | OF_NO_ACCOUNT["spec"],
            status | OF_NO_ACCOUNT["status"] | READ_APART, conditions, containers]


def is_as_in(thing, raw):
    """Say whether other JSON of a pod or a node says the same of it, but for what is of no account."""
    usual_conditions = OF_EVERY_POD if isinstance(thing, Pod) else ()
    with contextlib.suppress(Malformed):
        return what_counts(thing.raw, usual_conditions) == what_counts(raw, usual_conditions)
    return False


CPU_AND_MEMORY = ["cpu", "memory"]
