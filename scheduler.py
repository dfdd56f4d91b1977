#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["requests>=2.28", "pyyaml>=6.0"]
# ///
"""A Kubernetes scheduler to read, to run and to change.

It runs beside `kubectl proxy`. One loop lists the pods that name this scheduler and have no node yet, filters
the nodes with predicates, scores the feasible ones with priorities, and POSTs a Binding to the best. A legacy
Policy file names the predicates and priorities. (Today, they are called Filter and Score plugins.)

The decisions are those of kube-scheduler 1.20, one of the last versions that read such files. "Upstream"
refers to its source code. Read from the top: the loop comes first, then the rules, then the plumbing.
"""

from __future__ import annotations

import argparse
import collections
import decimal
import difflib
import functools
import inspect
import logging
import math
import os
import pathlib
import random
import re
import runpy
import shlex
import sys
import time
import traceback
from dataclasses import dataclass, field, replace

try:
    import requests
    import yaml
except ImportError as error:
    sys.exit(f"{error.name} is missing: pip install requests pyyaml")

log = logging.getLogger("scheduler")
log_once = functools.lru_cache(maxsize=1000)(log.warning)  # logs each message once


# ==== 1. The loop =======================================================================================

def run(cluster, load_policy, interval, once):
    """Make passes until Ctrl-C, or with `once` until no pod is due. Return whether a request has failed."""
    last_error = ""
    while True:
        error = ""
        try:
            schedule_pending_pods(cluster, load_policy())  # read in each pass: the file may be edited
        except ApiError as problem:
            error = str(problem)
        if error != last_error:
            log.warning("%s", error or "the API server answers again")
        last_error = error
        if cluster.due and not error:
            continue  # pods are left, as the pass ended early: LIST again at once
        if once:
            return bool(error) or cluster.has_failed
        time.sleep(interval)


def schedule_pending_pods(cluster, policy):
    """Make a pass: try each waiting pod that is due."""
    cluster.begin_pass()  # LISTs the waiting pods, the nodes, and the pods on them
    while pod := cluster.next_pod():  # highest priority first
        decision = schedule(pod, cluster.nodes, policy)
        if decision.node:
            cluster.bind(decision)  # POSTs the Binding; if that fails, puts the pod off
        else:
            cluster.put_off(decision)  # the pod is due again after its backoff
        cluster.report(decision)  # says where the pod goes, or why it stays pending


def schedule(pod, nodes, policy):
    """Choose a node for the pod: find the nodes that fit, prioritize them, select a host."""
    decision = Decision(pod, nodes)
    try:
        feasible, decision.failed = policy.nodes_that_fit(pod, nodes)
        if feasible:
            decision.total = policy.prioritize(pod, feasible)
            decision.node = select_host(decision.total)
        else:
            decision.message = sum_up(decision.failed)
    except Exception as error:  # a mistake in a rule: this pod stays pending, the others go on
        log_mistake(error)
        decision.message = f"{type(error).__name__}: {error}"
    return decision


@dataclass(eq=False)
class Policy:
    """The active rules, in the order in which they run."""

    predicates: list
    priorities: list
    always_check_all: bool = False  # ask every predicate about a node, even if one has ruled it out

    def nodes_that_fit(self, pod, nodes):
        """Return the feasible nodes, {name: Node}, and the reasons against the others, by name."""
        against = {name: self.reasons_against(pod, node) for name, node in nodes.items()}
        feasible = {name: node for name, node in nodes.items() if not against[name]}
        failed = {name: reasons for name, reasons in against.items() if reasons}
        return feasible, failed

    def reasons_against(self, pod, node):
        """Return the reasons against a node, {predicate: reasons}; stop at the first with reasons."""
        against = {}
        for rule in self.predicates:
            reasons = list(rule.function(pod, node))
            if reasons:
                against[rule.name] = reasons
            if not all(isinstance(reason, str) for reason in reasons):
                raise TypeError(f"{rule.name} must yield texts, not {reasons}")
            if reasons and not self.always_check_all:
                break
        return against

    def prioritize(self, pod, feasible):
        """Return each node's total: the sum, over all priorities, of weight times points."""
        total = dict.fromkeys(feasible, 0 if self.priorities else 1)  # without priorities, each node gets 1
        for rule in self.priorities:
            points = {name: rule.function(pod, node) for name, node in feasible.items()}
            if rule.reduce:
                points = rule.reduce(points)
            for name in feasible:
                if not isinstance(points[name], (int, float)) or not 0 <= points[name] <= 100:
                    raise ValueError(f"{rule.name} must return 0 to 100 points, not {points[name]!r}")
                total[name] += rule.weight * points[name]
        return total

    def lines(self):
        """Return the active rules as text, one line each."""
        lines = [rule.name for rule in self.predicates]
        lines += [f"{rule.name} ×{rule.weight}" for rule in self.priorities]
        if self.always_check_all:
            lines.append("alwaysCheckAllPredicates")
        return lines


def select_host(total):
    """Return the node with the highest total; break ties at random."""
    best = max(total.values())
    return random.choice([name for name, score in total.items() if score == best])


def log_mistake(error):
    """Log the traceback of a mistake. If it meets many pods, log it once."""
    place = type(error), traceback.extract_tb(error.__traceback__)[-1].lineno
    if place not in LOGGED_MISTAKES:
        LOGGED_MISTAKES.add(place)
        log.error("%s", traceback.format_exc())


LOGGED_MISTAKES = set()  # (type, line)


@dataclass(eq=False)
class Decision:
    """The decision about one pod, and the reasons for it."""

    pod: Pod
    nodes: dict  # all nodes, {name: Node}
    node: str | None = None  # the name of the chosen node
    failed: dict = field(default_factory=dict)  # {name of a node that does not fit: {predicate: its reasons}}
    total: dict = field(default_factory=dict)  # {name of a feasible node: the sum of its weighted points}
    message: str | None = None  # why the pod stays pending; if no node fits, in kube-scheduler's words


def sum_up(failed):
    """Return why no node fits, such as "0/3 nodes are available: 3 Too many pods."."""
    if not failed:
        return "no nodes available to schedule pods"
    counts = collections.Counter()
    for against in failed.values():
        for reasons in against.values():
            counts.update(reasons)
    parts = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{len(failed)} nodes are available: {', '.join(parts)}."


def binding(pod, node_name):
    """Return the request (method, path, body) that binds the pod to the node."""
    return "POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", {
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name}}


# ==== 2. Rules ==========================================================================================

# A predicate is a function of (pod, node) that yields the reasons why the pod does not fit the node. If it
# yields none, the pod fits.
#
# A priority is a function of (pod, node) that returns a score. The scores of the feasible nodes become points
# from 0 to 100: a score is either in that range, or the priority has a `reduce` that turns all scores,
# {name: score}, into points. (Upstream: NormalizeScore.) Points times weight add up to a node's total.
#
# A rule runs only if the Policy file names it.

PREDICATES = {}  # name -> Rule, in the order in which kube-scheduler runs them
PRIORITIES = {}


@dataclass(eq=False)
class Rule:
    """A predicate or a priority, under the name that a Policy uses for it."""

    name: str
    function: callable
    reduce: callable | None = None
    weight: int = 1  # of a priority: the Policy multiplies its points by this


def predicate(name):
    """Return a decorator that makes a function the predicate of this name."""
    def register(function):
        """Add the predicate. Raises TypeError if it does not yield."""
        if not inspect.isgeneratorfunction(function):
            raise TypeError(f'the predicate {name} must yield reasons: yield "node(s) were closed"')
        PREDICATES[name] = Rule(name, function)
        return function
    return register


def priority(name, reduce=None):
    """Return a decorator that makes a function the priority of this name."""
    def register(function):
        """Add the priority."""
        PRIORITIES[name] = Rule(name, function, reduce)
        return function
    return register


# ==== 3. Predicates =====================================================================================

@predicate("CheckNodeUnschedulable")
def check_node_unschedulable(pod, node):
    """The node is not cordoned, or the pod tolerates that."""
    cordon = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    if node.unschedulable and not tolerates(pod, cordon):
        yield "node(s) were unschedulable"


@predicate("HostName")
def host_name(pod, node):
    """The pod does not name another node. (A pending pod names none; old Policies list this rule.)"""
    if pod.node_name and pod.node_name != node.name:
        yield "node(s) didn't match the requested hostname"


@predicate("PodFitsHostPorts")
def pod_fits_host_ports(pod, node):
    """The host ports of the pod are free on the node."""
    taken = [port for other in node.pods.values() for port in other.host_ports]
    if any(ports_conflict(wanted, port) for wanted in pod.host_ports for port in taken):
        yield "node(s) didn't have free ports for the requested pod ports"


@predicate("MatchNodeSelector")
def match_node_selector(pod, node):
    """The node matches the pod's nodeSelector and its required node affinity."""
    if not matches_node(pod, node):
        yield "node(s) didn't match Pod's node affinity"


@predicate("PodFitsResources")
def pod_fits_resources(pod, node):
    """The node has room for one more pod, and enough of each resource, if the pod requests any."""
    if len(node.pods) + 1 > node.max_pods:
        yield "Too many pods"
    if pod.requests == NO_REQUESTS:  # then the pod fits even an overcommitted node
        return
    for name, amount in pod.requests.items():
        if node.requested.get(name, 0) + amount > node.allocatable.get(name, 0):
            yield f"Insufficient {name}"


@predicate("NoDiskConflict")
def no_disk_conflict(pod, node):
    """No pod on the node mounts a network disk that this pod mounts, too, unless the two can share it."""
    if any(disks_conflict(pod, other) for other in node.pods.values()):
        yield "node(s) had no available disk"


@predicate("PodToleratesNodeTaints")
def pod_tolerates_node_taints(pod, node):
    """The pod tolerates the node's NoSchedule and NoExecute taints. If not, the first such taint is named."""
    for taint in untolerated_taints(pod, node)[:1]:
        text = f"{taint.key}: {taint.value}"
        yield "node(s) had taint {" + text + "}, that the pod didn't tolerate"


# ==== 4. Priorities =====================================================================================

def usage(pod, node):
    """Return (used, capacity) of the node's cpu, and of its memory; `used` counts the incoming pod, too."""
    return [(node.nonzero[name] + pod.nonzero_incoming[name], node.allocatable[name])
            for name in ("cpu", "memory")]


def percentage(part, whole):
    """Return part / whole in percent, rounded down; 0 if the part is not between 0 and the whole."""
    return 100 * part // whole if whole and 0 <= part <= whole else 0


@priority("LeastRequestedPriority")
def least_requested(pod, node):
    """The average percentage of cpu and memory left free. Spreads the load."""
    return sum(percentage(capacity - used, capacity) for used, capacity in usage(pod, node)) // 2


@priority("MostRequestedPriority")
def most_requested(pod, node):
    """The average percentage of cpu and memory in use. Fills one node after another."""
    return sum(percentage(used, capacity) for used, capacity in usage(pod, node)) // 2


@priority("BalancedResourceAllocation")
def balanced_resource_allocation(pod, node):
    """100 if the shares of cpu and memory in use are equal, less if they differ, 0 if one is used up."""
    cpu, memory = [used / capacity if capacity else 1 for used, capacity in usage(pod, node)]
    if cpu >= 1 or memory >= 1:
        return 0
    return int((1 - abs(cpu - memory)) * 100)


def most_is_best(scores):
    """Scale scores: 0 becomes 0 points, the highest score 100. Upstream: DefaultNormalizeScore."""
    highest = max(scores.values())
    return {name: 100 * score // highest if highest else 0 for name, score in scores.items()}


def least_is_best(scores):
    """Scale scores: 0 becomes 100 points, the highest score 0."""
    return {name: 100 - points for name, points in most_is_best(scores).items()}


@priority("NodeAffinityPriority", reduce=most_is_best)
def node_affinity(pod, node):
    """The weights of the preferred node affinity terms that match the node, added up."""
    return sum(each["weight"] for each in pod.preferred_terms if term_matches(each["preference"], node))


@priority("TaintTolerationPriority", reduce=least_is_best)
def taint_toleration(pod, node):
    """The number of PreferNoSchedule taints that the pod does not tolerate: the fewer, the better."""
    return len(untolerated_taints(pod, node, ["PreferNoSchedule"]))


@priority("RandomPriority")
def random_priority(pod, node):
    """A random score. Alone, it chooses among the feasible nodes as the Bash tutorials do."""
    return random.randint(0, 100)


# ==== 5. Pods and nodes =================================================================================

NO_REQUESTS = {"cpu": 0, "memory": 0, "ephemeral-storage": 0}  # every pod and node has these keys
# For scoring, a container without a request counts as if it requested this. Upstream: NonZeroRequested.
DEFAULT_REQUESTS = {"cpu": 100, "memory": 200 * 2**20}


class Pod:
    """What the scheduler knows about a pod: cpu in millicores, all other resources in units (bytes)."""

    def __init__(self, raw):
        metadata = raw["metadata"]
        spec = self.spec = raw["spec"]
        self.name = metadata["name"]
        self.namespace = metadata.get("namespace") or "default"
        self.key = f"{self.namespace}/{self.name}"
        self.uid = metadata.get("uid") or self.key
        self.labels = metadata.get("labels") or {}
        self.annotations = metadata.get("annotations") or {}
        self.created = str(metadata.get("creationTimestamp") or "")
        self.can_be_tried = not (metadata.get("deletionTimestamp") or spec.get("schedulingGates"))
        self.priority = spec.get("priority") or 0
        self.scheduler = spec.get("schedulerName") or "default-scheduler"
        self.node_name = spec.get("nodeName")
        self.node_selector = spec.get("nodeSelector") or {}
        node_affinity = get(spec, "affinity", "nodeAffinity")
        self.required_terms = get(  # None: the pod requires nothing
            node_affinity, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
        self.preferred_terms = get(node_affinity, "preferredDuringSchedulingIgnoredDuringExecution") or []
        self.tolerations = spec.get("tolerations") or []
        self.volumes = spec.get("volumes") or []
        self.containers = spec["containers"]
        self.host_ports = host_ports_of(self.containers)
        self.requests = NO_REQUESTS | amounts_of_pod(spec, {})
        self.nonzero = NO_REQUESTS | amounts_of_pod(spec, DEFAULT_REQUESTS)  # as counted for scoring
        self.nonzero_incoming = self.nonzero | {"cpu": cpu_of_incoming(spec, self.nonzero["cpu"])}


def cpu_of_incoming(spec, cpu):
    """Return the cpu that scores count while a pod waits: of its overhead, a whole core as one millicore.

    That is a bug in upstream's calculatePodResourceRequest; without it, scores would differ.
    """
    overhead = amounts(spec.get("overhead")).get("cpu", 0)
    return cpu - overhead + math.ceil(overhead / 1000)


class Node:
    """A node, and the pods on it. Upstream: NodeInfo."""

    def __init__(self, raw):
        self.name = raw["metadata"]["name"]
        self.labels = raw["metadata"].get("labels") or {}
        self.unschedulable = get(raw, "spec", "unschedulable")
        self.taints = [Taint(taint["key"], taint.get("value") or "", taint["effect"])
                       for taint in get(raw, "spec", "taints") or []]
        allocatable = get(raw, "status", "allocatable") or {}
        self.allocatable = NO_REQUESTS | amounts(allocatable)
        self.max_pods = quantity(allocatable.get("pods") or 0)
        self.pods = {}  # uid -> Pod
        self.requested = {}  # what these pods request
        self.nonzero = {"cpu": 0, "memory": 0}  # the same, as counted for scoring

    def add(self, pod):
        """Put a pod on the node."""
        self.pods[pod.uid] = pod
        add_to(self.requested, pod.requests)
        add_to(self.nonzero, pod.nonzero)


def amounts_of_pod(spec, default):
    """Return what a pod requests: max(its containers together, each init container alone) + overhead.

    `default` stands in for what a container does not request. Upstream: computePodResourceRequest.
    """
    total = {}
    for container in spec["containers"]:
        add_to(total, default | amounts(get(container, "resources", "requests")))
    for container in spec.get("initContainers") or []:
        for name, amount in (default | amounts(get(container, "resources", "requests"))).items():
            if amount > total.get(name, 0):
                total[name] = amount
    add_to(total, amounts(spec.get("overhead")))
    return total


def add_to(total, more):
    """Add resource amounts to others, in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def host_ports_of(containers):
    """Return the host ports of containers, [(protocol, number, IP)]."""
    ports = [port for container in containers for port in container.get("ports") or []]
    return [(port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or "0.0.0.0")
            for port in ports if port.get("hostPort")]


def ports_conflict(port, other):
    """Return whether two host ports conflict on a node; the IP 0.0.0.0 means every IP."""
    (protocol, number, ip), (other_protocol, other_number, other_ip) = port, other
    if (protocol, number) != (other_protocol, other_number):
        return False
    return ip == other_ip or "0.0.0.0" in (ip, other_ip)


Taint = collections.namedtuple("Taint", "key value effect")


def untolerated_taints(pod, node, effects=("NoSchedule", "NoExecute")):
    """Return the node's taints with these effects that the pod does not tolerate."""
    return [taint for taint in node.taints if taint.effect in effects and not tolerates(pod, taint)]


def tolerates(pod, taint):
    """Return whether one of the pod's tolerations matches the taint."""
    return any(toleration_matches(toleration, taint) for toleration in pod.tolerations)


def toleration_matches(toleration, taint):
    """Return whether a toleration matches a taint. An empty key or effect matches any."""
    if toleration.get("key") not in (None, "", taint.key):
        return False
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    operator = toleration.get("operator") or "Equal"
    has_value = (toleration.get("value") or "") == taint.value
    return operator == "Exists" or (operator == "Equal" and has_value)


# Source of a volume -> the fields that identify its disk. An rbd image counts once for each monitor.
DISK_IDENTITIES = {"gcePersistentDisk": ["pdName"], "awsElasticBlockStore": ["volumeID"], "iscsi": ["iqn"],
                   "rbd": ["image", "pool"]}


def disks_of(pod):
    """Return the pod's network disks, {identity: whether read-only pods can share it}."""
    disks = {}
    for volume in pod.volumes:
        for source in DISK_IDENTITIES.keys() & volume.keys():
            disk = volume[source]
            shared = disk.get("readOnly", False) and source != "awsElasticBlockStore"
            for monitor in disk.get("monitors") or [""]:
                identity = source, monitor, *(disk.get(name) for name in DISK_IDENTITIES[source])
                disks[identity] = shared and disks.get(identity, True)
    return disks


def disks_conflict(pod, other):
    """Return whether two pods mount a network disk that they cannot share."""
    ours, theirs = disks_of(pod), disks_of(other)
    return any(not (ours[disk] and theirs[disk]) for disk in ours.keys() & theirs.keys())


def get(thing, *path):
    """Follow a path into an API object. Return None if a part of it is missing."""
    for key in path:
        thing = thing.get(key) if thing else None
    return thing


# ==== 6. Node affinity ==================================================================================

OPERATORS = {  # of node selectors; the value is None if the node lacks the label
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: integer(value) > integer(values[0]),
    "Lt": lambda value, values: integer(value) < integer(values[0])}


def matches_node(pod, node):
    """Return whether the pod's nodeSelector and required node affinity match the node."""
    if not pod.node_selector.items() <= node.labels.items():
        return False
    return pod.required_terms is None or any(term_matches(term, node) for term in pod.required_terms)


def term_matches(term, node):
    """Return whether a term matches the node. An empty term matches none. The only field is metadata.name."""
    on_labels = term.get("matchExpressions") or []
    on_fields = term.get("matchFields") or []
    if not on_labels and not on_fields:
        return False
    return satisfies(node.labels, on_labels) and satisfies({"metadata.name": node.name}, on_fields)


def satisfies(labels, requirements):
    """Return whether labels satisfy all requirements."""
    return all(OPERATORS[each["operator"]](labels.get(each["key"]), each.get("values") or [])
               for each in requirements)


def integer(text):
    """Return the 64-bit integer in a text; without one, NaN, which is never greater or less."""
    value = int(text) if re.fullmatch("[+-]?[0-9]{1,63}", text or "") else math.nan
    return value if -2**63 <= value < 2**63 else math.nan


# ==== 7. Quantities =====================================================================================

NUMBER = "[+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)"
QUANTITY = re.compile(f"({NUMBER})(?:[eE]([+-]?[0-9]{{1,9}})|([numkMGTPE]|[KMGTPE]i)?)")
SUFFIXES = {suffix: decimal.Decimal(1000) ** power for power, suffix in enumerate("num", -3)}
SUFFIXES |= {suffix: decimal.Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)}
SUFFIXES |= {f"{suffix}i": decimal.Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)}


@functools.lru_cache(maxsize=10000)
def quantity(text, unit=1):
    """Parse a quantity, multiply it by `unit`, and round up: "1.5Ki" is 1536. Raises ValueError."""
    match = QUANTITY.fullmatch(str(text))
    if not match:
        raise ValueError(f'"{text}" is not a quantity such as 100m, 0.5 or 1.5Gi')
    digits, exponent, suffix = match.groups()
    exponent = max(-40, min(int(exponent or 0), 40))  # API servers accept more, which is as good as infinite
    return math.ceil(decimal.Decimal(f"{digits}e{exponent}") * SUFFIXES.get(suffix, 1) * unit)


def amounts(texts):
    """Read a resource list: cpu in millicores, the rest in units. Other resource names are ignored."""
    return {name: quantity(text, 1000 if name == "cpu" else 1) for name, text in (texts or {}).items()
            if name in NO_REQUESTS or "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))}


# ==== 8. The cluster ====================================================================================

class Cluster:
    """Lists the cluster, remembers which pods are due, and writes what is decided."""

    UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"  # selects pods that have not finished

    def __init__(self, api, scheduler_name):
        self.api = api  # Proxy or Manifests
        self.scheduler_name = scheduler_name
        self.nodes = {}  # name -> Node, as of the last LIST, with the pods assumed since
        self.due = []  # pods not yet tried in this pass; some are left if it ends early
        self.ends_at = 0  # when the pass ends, even if pods are left; in monotonic seconds
        self.attempts = {}  # uid of a pod that waits -> Attempts
        self.has_failed = False  # whether the API server has failed to bind a pod

    def begin_pass(self):
        """LIST pods and nodes; find out which pods are due. Raises ApiError."""
        started = time.monotonic()
        selector = f"spec.schedulerName={self.scheduler_name},spec.nodeName=,{self.UNFINISHED}"
        waiting = {pod.uid: pod for pod in map(Pod, self.api.list("pods", selector)) if pod.can_be_tried}
        self.nodes = {node.name: node for node in map(Node, self.api.list("nodes"))}
        for pod in map(Pod, self.api.list("pods", f"spec.nodeName!=,{self.UNFINISHED}")):
            if pod.node_name in self.nodes:
                self.nodes[pod.node_name].add(pod)
            waiting.pop(pod.uid, None)  # it was bound after it was listed as waiting
        now = time.monotonic()
        if now > started + 2:
            log_once(or_extras("listing the cluster takes more than 2 seconds", "watches instead"))
        self.ends_at = now + self.api.FRESH_SECONDS
        self.attempts = {uid: self.attempts.get(uid) or Attempts(retry_at=now) for uid in waiting}
        due = [pod for pod in waiting.values() if self.attempts[pod.uid].retry_at <= now]
        self.due = sorted(due, key=self.sort_key)

    def sort_key(self, pod):
        """Sort pods by priority. Among equal priorities, the pod that has been due longest comes first."""
        return -pod.priority, self.attempts[pod.uid].retry_at, pod.created, pod.key

    def next_pod(self):
        """Return the next pod to decide about; None ends the pass."""
        if not self.due:
            return None
        if time.monotonic() < self.ends_at:
            return self.due.pop(0)
        log_once(or_extras("a pass has ended early, to LIST the cluster again", "watches instead"))
        return None

    def bind(self, decision):
        """Assume the pod: until the next LIST, it takes up room on its node. Then POST the Binding."""
        self.nodes[decision.node].add(decision.pod)
        try:
            self.api.request(*binding(decision.pod, decision.node))
        except ApiError as error:
            decision.node = None
            self.put_off(decision)
            if error.status not in (404, 409):  # the pod is gone, or bound already: the next LIST shows it
                decision.message = f"binding rejected: {error}"
                self.has_failed = True
            if not error.is_refusal:
                self.ends_at = 0  # LIST again, to see whether the pod is bound all the same

    def put_off(self, decision):
        """Make the pod back off for 1, 2, 4, 8, and then 10 seconds each time."""
        attempts = self.attempts[decision.pod.uid]
        attempts.retry_at = time.monotonic() + min(2 ** attempts.count, 10)
        attempts.count += 1

    def report(self, decision):
        """Write an event and print the decision. Do not repeat the last report about a pending pod."""
        pod = decision.pod
        attempts = self.attempts[pod.uid]
        if decision.node:
            message = f"Successfully assigned {pod.key} to {decision.node}"
            self.write(event(pod, "Normal", "Scheduled", message))
            print_decision(decision)
        elif decision.message not in (None, attempts.reported):
            attempts.reported = decision.message
            self.write(event(pod, "Warning", "FailedScheduling", decision.message))
            print_decision(decision)

    def write(self, request):
        """Send an event. If that fails, only the event is lost."""
        try:
            self.api.request(*request)
        except ApiError as error:
            log_once(f"no event: {error}")


@dataclass
class Attempts:
    """What the scheduler remembers about a waiting pod."""

    count: int = 0  # how many attempts have failed
    retry_at: float = 0  # when the pod is due, in monotonic seconds
    reported: str | None = None  # the message of its last event


def event(pod, event_type, reason, message):
    """Return the request that records an event about the pod, as `kubectl describe pod` shows it."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    name = f"{pod.name[:200].rstrip('-.')}.{time.time_ns():x}"
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return "POST", f"/api/v1/namespaces/{pod.namespace}/events", {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": pod.namespace},
        "involvedObject": about, "type": event_type, "reason": reason, "message": message[:1024],
        "count": 1, "firstTimestamp": now, "lastTimestamp": now,
        "source": {"component": pod.scheduler}, "reportingComponent": pod.scheduler}


def print_decision(decision):
    """Print a decision on one line. Warn if the pod asks for something that no rule of this file checks."""
    pod = decision.pod
    if not decision.node:
        print(f"{pod.key} stays pending: {decision.message}", flush=True)
        return
    fit = f"{len(decision.total)} of {len(decision.nodes)} nodes fit"
    print(f"{pod.key} -> {decision.node}  ({fit}, score {decision.total[decision.node]})", flush=True)
    fields = unchecked_fields(pod)
    if fields:
        text = f"{pod.key} is placed, but no rule of scheduler.py checks its {', '.join(fields)}"
        log_once(or_extras(text, "does"))


def unchecked_fields(pod):
    """Return the fields of a pod that kube-scheduler checks and this file does not."""
    affinity = pod.spec.get("affinity") or {}
    sources = {source for volume in pod.volumes for source in volume}
    fields = [name for name in ("podAffinity", "podAntiAffinity") if affinity.get(name)]
    fields += [name for name in ("topologySpreadConstraints", "resourceClaims") if pod.spec.get(name)]
    return fields + [name for name in ("persistentVolumeClaim", "ephemeral") if name in sources]


# ==== 9. Two API servers ================================================================================

class ApiError(Exception):
    """A failed request. `status` is the HTTP status, or 0 if no API server answered."""

    def __init__(self, status, message):
        super().__init__(one_line(message))
        self.status = status
        self.is_refusal = 400 <= status < 500 and status != 429  # else it may have been carried out


class Proxy:
    """The API server behind kubectl proxy."""

    FRESH_SECONDS = 5  # how long decisions may rest on a LIST

    def __init__(self, server):
        self.server = server.rstrip("/")
        self.session = requests.Session()
        self.session.trust_env = False  # HTTP_PROXY and the like are not meant for kubectl proxy

    def request(self, method, path, body=None, params=None):
        """Send a request and return the JSON of the answer. Raises ApiError."""
        try:
            answer = self.session.request(method, self.server + path, params=params, json=body, timeout=30)
        except (requests.RequestException, ValueError) as error:  # ValueError: of a malformed URL
            problem = f"cannot reach {self.server}: {type(error).__name__}"
            raise ApiError(0, f"{problem}; is `kubectl proxy` running there?") from error
        try:
            content = answer.json()
        except ValueError as error:  # kubectl proxy's own errors are plain text
            raise ApiError(0, f"{self.server}: {answer.status_code} {answer.text[:200]}") from error
        if not answer.ok:
            raise ApiError(answer.status_code, f"{method} {path}: {get(content, 'message')}")
        return content

    def list(self, resource, selector=""):
        """Return all objects of a resource, page by page. Raises ApiError."""
        params = {"fieldSelector": selector, "limit": 500}
        things = []
        while True:
            answer = self.request("GET", f"/api/v1/{resource}", params=params)
            if not isinstance(answer, dict) or not isinstance(answer.get("items"), list):
                raise ApiError(0, f"{self.server} is not an API server: its list of {resource} has no items")
            things += answer["items"]
            params["continue"] = get(answer, "metadata", "continue")
            if not params["continue"]:
                return things


class InputError(ValueError):
    """A file that cannot be used. The message, one line, gives the place, the mistake and the fix."""


class Manifests:
    """YAML files in place of an API server: their Nodes and Pods, in memory. Raises InputError."""

    FRESH_SECONDS = math.inf  # only this script changes them

    def __init__(self, paths):
        self.nodes = {}  # name -> object
        self.pods = {}  # namespace/name -> object
        self.placed = 0  # how many pods have been bound
        self.ignored = set()  # kinds
        for path in paths:
            for thing in objects_in(read_yaml(path), path):
                self.add(thing, path)
        if self.ignored:
            kinds = ", ".join(sorted(self.ignored))
            log.warning(or_extras(f"ignored: {kinds}; scheduler.py reads v1 Nodes and Pods", "reads more"))

    def add(self, thing, path):
        """Add a Node or a Pod. Raises InputError."""
        kind = thing.get("kind") or "an object without a kind"
        try:
            if (kind, thing.get("apiVersion")) == ("Node", "v1"):
                check_strings(thing)
                self.nodes[Node(with_defaults(thing)).name] = thing
            elif (kind, thing.get("apiVersion")) == ("Pod", "v1"):
                check_strings(thing)
                pod = Pod(with_defaults(thing))
                in_file_order = f"{len(self.pods):09}"
                thing["metadata"]["creationTimestamp"] = pod.created or in_file_order
                self.pods[pod.key] = thing
            else:
                self.ignored.add(str(kind))
        except Exception as error:
            problem = f"{error} is missing" if isinstance(error, KeyError) else error
            name = get(thing, "metadata", "name")
            raise InputError(f"{path}: {kind} {name} cannot be read: {problem}") from error

    def list(self, resource, selector=""):
        """Return the objects of a resource that a field selector selects."""
        things = self.nodes if resource == "nodes" else self.pods
        return [thing for thing in things.values() if is_selected(thing, selector)]

    def request(self, method, path, body):
        """Bind a pod. Events are dropped."""
        if body["kind"] == "Binding":
            key = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
            self.pods[key]["spec"]["nodeName"] = body["target"]["name"]
            self.placed += 1


def objects_in(things, path):
    """Yield API objects, including those inside a List. Raises InputError."""
    for thing in things:
        if not isinstance(thing, dict | None):
            raise InputError(f"{path}: expected API objects, got {one_line(thing)[:40]}")
        if thing and thing.get("kind") == "List":
            yield from objects_in(thing.get("items") or [], path)
        elif thing:
            yield thing


def check_strings(thing):
    """Raise ValueError if a name or a label is not a string, such as YAML's `true` and 1."""
    metadata = thing["metadata"]
    labels = (metadata.get("labels") or {}) | (get(thing, "spec", "nodeSelector") or {})
    for key, text in ({"name": metadata["name"]} | labels).items():
        if not isinstance(text, str):
            raise ValueError(f"{key}: expected a string, got {text}; put it in quotes")


def with_defaults(thing):
    """Set the defaults that an API server sets, where rules need them."""
    if thing["kind"] == "Node":
        status = thing.setdefault("status", {})
        status.setdefault("allocatable", status.get("capacity"))
        return thing
    spec = thing["spec"]
    spec.setdefault("schedulerName", "default-scheduler")
    for container in spec["containers"] + (spec.get("initContainers") or []):
        limits = get(container, "resources", "limits") or {}
        container["resources"] = {"requests": limits | (get(container, "resources", "requests") or {})}
        for port in container.get("ports") or []:
            if spec.get("hostNetwork"):
                port.setdefault("hostPort", port["containerPort"])
    return thing


def is_selected(thing, selector):
    """Return whether an object matches a field selector, such as "spec.nodeName=,status.phase!=Failed"."""
    for requirement in filter(None, selector.split(",")):
        path, operator, value = re.fullmatch("(.*?)(!?=)(.*)", requirement).groups()
        is_equal = (get(thing, *path.split(".")) or "") == value
        if is_equal != (operator == "="):
            return False
    return True


def read_yaml(path):
    """Return the documents of a YAML or JSON file. Raises InputError."""
    try:
        text = pathlib.Path(path).read_text("utf-8-sig").replace("\t", " ")  # JSON may be indented with tabs
        return list(yaml.safe_load_all(text))
    except Exception as error:  # a YAML tag may raise any
        problem = one_line(error).replace('in "<unicode string>", ', "in ")
        raise InputError(f"{path}: {problem}") from error


def one_line(thing):
    """Return a text or an error message on one line, without control characters."""
    text = " ".join(str(getattr(thing, "strerror", None) or thing).split())
    return "".join(each for each in text if each.isprintable())


# ==== 10. The Policy file ===============================================================================

# {"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "HostName"}],
#  "priorities": [{"name": "NodeAffinityPriority", "weight": 1}]}
POLICY_FIELDS = ["kind", "apiVersion", "predicates", "priorities", "alwaysCheckAllPredicates"]

ALWAYS_ACTIVE = {"CheckNodeUnschedulable", "PodToleratesNodeTaints"}  # whatever a Policy names

GENERAL_PREDICATES = ["PodFitsResources", "HostName", "PodFitsHostPorts", "MatchNodeSelector"]
PREDICATE_ALIASES = {  # other name -> the predicates that it stands for
    "GeneralPredicates": GENERAL_PREDICATES,
    "PodFitsPorts": ["PodFitsHostPorts"],
    # Since 1.19, PodToleratesNodeTaints does the work of these five.
    "CheckNodeCondition": [], "CheckNodeMemoryPressure": [], "CheckNodeDiskPressure": [],
    "CheckNodePIDPressure": [], "PodToleratesNodeNoExecuteTaints": []}

# What only the second program has.
OTHER_RULES = [
    "CheckNodeLabelPresence", "CheckServiceAffinity", "CheckVolumeBinding", "EvenPodsSpread",
    "MatchInterPodAffinity", "MaxAzureDiskVolumeCount", "MaxCinderVolumeCount", "MaxCSIVolumeCountPred",
    "MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "NoVolumeZoneConflict", "Preemption",
    "EvenPodsSpreadPriority", "ImageLocalityPriority", "InterPodAffinityPriority",
    "NodePreferAvoidPodsPriority", "SelectorSpreadPriority", "ServiceSpreadingPriority"]
OTHER_FIELDS = ["argument", "extenders", "hardPodAffinitySymmetricWeight"]
OTHER_POLICIES = ["KubeSchedulerConfiguration", "DefaultProvider", "ClusterAutoscalerProvider"]
OTHER_OPTIONS = [
    "--algorithm-provider", "--anew", "--compare", "--config", "--drain", "--dry-run", "--explain", "--fits",
    "--leader-elect", "--listen", "--namespace", "-n", "--output", "-o", "--plugins", "--policy-config-file",
    "--preempt", "--seed", "--verbose", "-v", "--version"]


class PolicyFile:
    """A Policy file that may be edited at any time. Raises InputError if it is invalid at the start."""

    def __init__(self, path):
        self.path = path
        self.policy = read_policy(path)
        self.problem = ""  # what is wrong with the file now

    def load(self):
        """Return the file's current Policy. While the file is invalid, return the last good one."""
        try:
            policy = read_policy(self.path)
        except InputError as error:
            if str(error) != self.problem:
                log.error("%s; still using the last good Policy", error)
            self.problem = str(error)
            return self.policy
        changes = [f"- {line}" for line in self.policy.lines() if line not in policy.lines()]
        changes += [f"+ {line}" for line in policy.lines() if line not in self.policy.lines()]
        if self.problem and not changes:
            changes = ["the file is valid again"]
        for change in changes:
            log.warning("%s: %s", self.path, change)
        self.policy = policy
        self.problem = ""
        return policy


def read_policy(path):
    """Read a Policy file. Raises InputError."""
    if path in OTHER_POLICIES:
        raise InputError(not_here(path))
    documents = read_yaml(path)
    if not documents:
        raise InputError(f"{path}: the file is empty")
    try:
        return policy_of(documents[0])
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def policy_of(document):
    """Return the Policy that a document describes. Raises ValueError."""
    if not isinstance(document, dict):
        raise ValueError(f"expected a Policy, got {document!r:.40}")
    kind = document.get("kind")
    if kind in OTHER_POLICIES:
        raise ValueError(not_here(kind))
    if kind != "Policy" or document.get("apiVersion") not in ("v1", "kubescheduler.config.k8s.io/v1"):
        raise ValueError("expected kind Policy with apiVersion v1")
    for name in document.keys() - POLICY_FIELDS:
        if name != "extenders" or document[name]:  # an empty list of extenders is fine
            raise ValueError(unknown("field", name, POLICY_FIELDS, OTHER_FIELDS))
    always_check_all = document.get("alwaysCheckAllPredicates", False)
    if not isinstance(always_check_all, bool):
        raise ValueError(f"alwaysCheckAllPredicates: expected true or false, got {always_check_all!r}")
    named = read_list(document, "predicate", "predicates", [*PREDICATES, *PREDICATE_ALIASES])
    weights = read_list(document, "priority", "priorities", [*PRIORITIES, "EqualPriority"])
    weights.pop("EqualPriority", None)  # it gives each node the same
    priorities = [replace(PRIORITIES[name], weight=weight) for name, weight in weights.items()]
    return Policy(active_predicates(named.keys()), priorities, always_check_all)


def active_predicates(named):
    """Return the predicates that these names stand for, in the order in which kube-scheduler runs them."""
    meant = named | ALWAYS_ACTIVE
    for name in named & PREDICATE_ALIASES.keys():
        meant = meant.union(PREDICATE_ALIASES[name])
    order = [name for name in PREDICATES if name in meant]
    if "GeneralPredicates" in named:  # its four then follow CheckNodeUnschedulable
        after = order.index("CheckNodeUnschedulable") + 1
        order[after:after] = GENERAL_PREDICATES
    return [PREDICATES[name] for name in dict.fromkeys(order)]


def read_list(document, noun, where, known):
    """Return {name: weight} of the entries in a list of the Policy. Raises ValueError."""
    entries = document.get(where)
    if entries is None:
        raise ValueError(f"{where}: expected a list, [] for none; {not_here('defaults')}")
    if not isinstance(entries, list):
        raise ValueError(f"{where}: expected a list, got {entries!r:.40}")
    for i, entry in enumerate(entries):
        problem = problem_of(entry, noun, known)
        if problem:
            raise ValueError(f"{where}[{i}]: {problem}")
    return {entry["name"]: entry.get("weight") for entry in entries}


def problem_of(entry, noun, known):
    """Return what is wrong with an entry of the Policy; None if nothing is."""
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return f'expected an entry with a name, such as {{"name": "{known[0]}"}}, got {entry!r:.40}'
    fields = ["name"] if noun == "predicate" else ["name", "weight"]
    for name in entry.keys() - fields:
        return unknown("field", name, fields, OTHER_FIELDS)
    if entry["name"] not in known:
        return unknown(noun, entry["name"], known, OTHER_RULES)
    weight = entry.get("weight")
    if "weight" in fields and (type(weight) is not int or not 0 < weight < 2**31):
        return f"{entry['name']} needs a weight, a whole number from 1 to {2**31 - 1}"
    return None


# ==== 11. The command line ==============================================================================

EXTRAS = os.path.relpath(pathlib.Path(__file__).resolve().with_name("scheduler_extras"))  # the second program


def or_extras(text, does):
    """Append to a text what the second program does, if its folder exists."""
    return f"{text}; python {EXTRAS} {does}" if os.path.isdir(EXTRAS) else text


def not_here(what):
    """Return the error about something that only the second program has, with the command that has it."""
    command = shlex.join(["python", EXTRAS, *sys.argv[1:]])
    return or_extras(f"scheduler.py has no {what}", f"has: {command}")


def unknown(what, name, known, others):
    """Return the error about an unknown name. If it is one of `others`, the second program knows it."""
    if name in others:
        return not_here(name)
    near = difflib.get_close_matches(str(name), known, 1)
    hint = f'did you mean "{near[0]}"?' if near else f"expected one of {', '.join(known)}"
    return f'unknown {what} "{name}"; {hint}'


def read_options():
    """Read the command line. If it is wrong, exit with code 2."""
    parser = argparse.ArgumentParser(
        prog="scheduler.py", allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Schedule the pods that name this scheduler, with the rules of a Policy file.",
        epilog="""examples:
  kubectl proxy & python scheduler.py             schedule the pods of a cluster
  python scheduler.py --cluster tests/demo.yaml   schedule the pods of manifests

exit codes:
  0 success, 1 a request failed, 2 wrong usage, Policy or manifest, 130 Ctrl-C""")
    policy = os.path.relpath(pathlib.Path(__file__).resolve().with_name("policy.json"))
    add = parser.add_argument
    add("--server", default="http://127.0.0.1:8001", metavar="URL", help="URL of kubectl proxy (%(default)s)")
    add("--cluster", nargs="+", metavar="FILE", help="read Nodes and Pods from YAML files instead")
    add("--policy", default=policy, metavar="FILE", help="the Policy file (%(default)s)")
    add("--scheduler-name", default="my-scheduler", metavar="NAME",
        help="schedule the pods with this spec.schedulerName (%(default)s)")
    add("--interval", type=float, default=1, metavar="SECONDS", help="pause between passes (%(default)s)")
    add("--once", action="store_true", help="stop when no pod is due, or a request fails")
    options, others = parser.parse_known_args()
    for other in others:
        known = [*parser._option_string_actions]
        parser.error(unknown("argument", other.partition("=")[0], known, OTHER_OPTIONS))
    if not re.match("https?://[^/]", options.server):
        parser.error("--server: expected a URL such as http://127.0.0.1:8001")
    if not 0 < options.interval < 1e6:
        parser.error("--interval: expected a number of seconds above 0")
    return options


def start(options):
    """Schedule the pods of manifests, or of a cluster. Return the exit code. Raises InputError."""
    policy_file = PolicyFile(options.policy)
    name = options.scheduler_name
    if options.cluster:
        manifests = Manifests(options.cluster)
        cluster = Cluster(manifests, name)
        run(cluster, policy_file.load, options.interval, once=True)
        if not cluster.attempts:
            log.warning("no pods to schedule for %s; check the pods' spec.schedulerName", name)
        print(f"{manifests.placed} placed, {len(cluster.attempts) - manifests.placed} pending")
        return 0
    log.info("%s: polling %s with %s; Ctrl-C ends it", name, options.server, options.policy)
    has_failed = run(Cluster(Proxy(options.server), name), policy_file.load, options.interval, options.once)
    return int(has_failed)


def main():
    """Run the command line. Return the exit code."""
    options = read_options()
    logging.basicConfig(format="%(message)s", level=logging.WARNING if options.once else logging.INFO)
    try:
        return start(options)
    except InputError as error:
        log.error("%s", error)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has closed the output, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":  # runs the file as a module: a rule that is appended below is then registered, too
    sys.exit(runpy.run_path(__file__)["main"]())
