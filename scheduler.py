#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["requests>=2.28", "pyyaml>=6.0"]
# ///
"""A Kubernetes scheduler to read, to run and to change.

It runs beside `kubectl proxy`: one loop lists the pods that name this scheduler and have no node yet, applies
the predicates and priorities that a legacy Policy file names, and POSTs a Binding for each. A predicate says
whether a pod fits a node, a priority how good the node is for it. The answers are those of kube-scheduler
1.20, one of the last that read such files. Where upstream is named, its code is meant. Part I is a whole
script, to which the later parts only add. Cut it out, and it runs:

    (sed '/^# PART II[.]/,$d' scheduler.py; echo 'sys.exit(main())') > small.py && python small.py
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import decimal
import functools
import json
import logging
import math
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import MappingProxyType as read_only

try:
    import requests
    import yaml
except ImportError as error:
    sys.exit(f"{error.name} is missing: pip install -r requirements.txt")

log = logging.getLogger("scheduler")


##########################################################################################################
# PART I. THE SCRIPT                                                                                     #
# How a pod gets its node; then what that needs: pods, selectors, quantities, the Policy file.           #
##########################################################################################################

# ==== 1. The loop =======================================================================================

def run(cluster, read_policies, stop, interval, once):
    """Make passes until `stop` is set; if `once`, until no pod is left to try, or a pass fails."""
    while not stop.is_set():
        try:
            schedule_pending_pods(cluster, read_policies(), stop)  # in each pass: they may be edited
            cluster.tell_trouble(None)
        except (ApiError, InputError, Malformed) as error:
            cluster.tell_trouble(error)
        if cluster.due and not cluster.trouble:
            continue  # the pass ended early, as it took long: LIST again, then go on
        if once:
            break
        cluster.rest(interval, stop)


def schedule_pending_pods(cluster, policies, stop):
    """Make a pass: decide about each pod that waits and is due. `policies` is {schedulerName: Policy}."""
    for pod in cluster.pods_to_try(policies, stop):  # LISTs pods and nodes; the most important pod is first
        decision = schedule(pod, cluster.snapshot, policies[pod.scheduler])
        if decision.node:
            cluster.bind(decision)  # POSTs its `binding`; then the pod counts on its node
        else:
            cluster.put_off(decision)  # the pod is due again after its backoff
        cluster.report(decision)  # says where the pod goes, or why it stays pending


def schedule(pod, snapshot, policy):
    """Choose a node for the pod: find the nodes that fit, prioritize them, select a host."""
    decision = policy.new_decision(pod, snapshot)
    try:
        feasible, decision.failed = policy.nodes_that_fit(pod, snapshot)
        if not feasible:
            raise Unschedulable(decision.failed.message)
        decision.total = policy.prioritize(decision, feasible, snapshot)
        decision.node = select_host(pod, decision.total)
    except (Exception, SystemExit) as error:  # no node fits, or a rule has failed, even by sys.exit()
        decision.give_up(error)  # this is why there is no node
    return decision


@dataclass(eq=False)
class Policy:
    """The rules that are active, in the order in which they run, and how they are asked."""

    predicates: list
    priorities: list

    def new_decision(self, pod, snapshot):
        """Return a decision about a pod, in which nothing is decided yet."""
        return Decision(pod, self, snapshot.nodes)

    def nodes_that_fit(self, pod, snapshot):
        """Ask the predicates about each node: the first that has reasons against it rules the node out."""
        feasible = {}
        failed = Failures()
        for name, node in snapshot.nodes.items():
            for rule in self.predicates:
                reasons = list(rule.function(pod, node))
                if reasons:
                    failed[name] = {rule.name: reasons}
                    break
            else:
                feasible[name] = node
        return feasible, failed

    def prioritize(self, decision, feasible, snapshot):
        """Return each node's total: the sum, over all priorities, of weight times points."""
        total = dict.fromkeys(feasible, 0 if self.priorities else 1)  # as in kube-scheduler
        for rule in self.priorities if len(feasible) > 1 else ():  # a single node is taken in any case
            scores = {name: rule.function(decision.pod, node) for name, node in feasible.items()}
            points = rule.reduce(scores) if rule.reduce else scores  # from 0 to 100
            for name in feasible:
                total[name] += rule.weight * points[name]
        return total


def select_host(pod, total):
    """Take the node with the highest total; if several have it, one of them by chance."""
    best = max(total.values())
    return dice(pod.key).choice([name for name, score in total.items() if score == best])


def binding(pod, node_name):
    """Return the request (method, path, body) that binds the pod to the node."""
    return "POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", {
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name}}


# ==== 2. The cluster ====================================================================================

class Cluster:
    """What the loop works with: what is listed, which pods are due, what is written."""

    LONG = 5  # seconds after which a pass ends, as what it has listed is too old to decide by
    UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"  # of pods that run, or will

    def __init__(self, api, show):
        self.api = api
        self.show = show  # prints a decision
        self.snapshot = Snapshot({})
        self.due = []  # the pods that this pass has still to try; some are left if it took too long
        self.attempts = {}  # uid of a pod that waits -> Attempts
        self.trouble = None  # the error that ended the last pass
        self.failures = 0  # how many passes in a row ended so

    def pods_to_try(self, policies, stop):
        """LIST what there is; yield the pods that are due, the most important first. Raises ApiError."""
        waiting = self.waiting_pods(policies)
        self.snapshot = Snapshot({node.name: node for node in self.read(Node, "nodes")})
        for pod in self.read(Pod, "pods", f"spec.nodeName!=,{self.UNFINISHED}"):  # those on nodes
            if pod.node_name in self.snapshot.nodes:
                self.snapshot.nodes[pod.node_name].add(pod)
        self.attempts = {pod.uid: self.attempts.get(pod.uid, Attempts()) for pod in waiting}
        began = time.monotonic()
        self.due = [pod for pod in waiting if self.attempts[pod.uid].retry_at <= began]
        self.due.sort(key=lambda pod: (-pod.priority, pod.created, pod.key))
        while self.due and not stop.is_set() and time.monotonic() < began + self.LONG:
            yield self.due.pop(0)

    def waiting_pods(self, policies):
        """LIST the pods that name one of these schedulers, and have no node yet."""
        selectors = [f"spec.schedulerName={name},spec.nodeName=,{self.UNFINISHED}" for name in policies]
        pods = [pod for selector in selectors for pod in self.read(Pod, "pods", selector)]
        return [pod for pod in pods if not (pod.node_name or pod.terminating)]

    def read(self, kind, resource, selector=""):
        """Yield what is listed, as Pods or Nodes; what cannot be read is named, and left out."""
        for raw in self.api.list(resource, selector):
            try:
                yield kind(raw)
            except Malformed as error:
                log.warning("%s %s is left out: %s", resource, name_in(raw, "metadata", "name"), error)

    def bind(self, decision):
        """POST the Binding; from then on the pod counts on its node. Raises ApiError."""
        try:
            self.api.request(*binding(decision.pod, decision.node))
            self.snapshot.nodes[decision.node].add(decision.pod)
        except ApiError as error:
            decision.give_up(Unschedulable(f"binding rejected: {error}"))
            self.put_off(decision)
            if isinstance(error, Trouble) or error.status in (404, 409):  # it is gone, or has a node
                raise  # the pass ends here; the next one lists where the pod is

    def put_off(self, decision):
        """Have the pod back off."""
        attempts = self.attempts[decision.pod.uid]
        attempts.number += 1
        attempts.retry_at = time.monotonic() + backoff(attempts.number, most=10)

    def report(self, decision):
        """Show the decision, and write an event; of a pod that stays pending, only what is news."""
        pod = decision.pod
        attempts = self.attempts[pod.uid]
        if decision.node:
            self.show(decision)
            message = f"Successfully assigned {pod.key} to {decision.node}"
            self.write(event(pod, "Normal", "Scheduled", message))
        elif attempts.told != decision.message:
            attempts.told = decision.message
            self.show(decision)
            self.write(event(pod, "Warning", "FailedScheduling", decision.message))
            self.write(pod_condition(pod, decision.reason, decision.message))

    def write(self, request):
        """Send a request that only informs people: if it fails, go on."""
        try:
            self.api.request(*request)
        except ApiError as error:
            log.warning("%s", error)

    def tell_trouble(self, trouble):
        """Say once what has ended a pass, such as a broken Policy; and that the API server answers again."""
        if trouble and str(trouble) != str(self.trouble):
            log.error("%s", trouble)
        if isinstance(self.trouble, ApiError) and not trouble:
            log.warning("the API server answers again")
        self.trouble = trouble
        self.failures = self.failures + 1 if trouble else 0

    def rest(self, seconds, stop):
        """Wait for so many seconds, after trouble for longer; end early if `stop` is set."""
        pause = backoff(self.failures, most=10) if self.trouble else 0
        stop.wait(max(seconds, pause))


@dataclass
class Attempts:
    """What is remembered of a pod that was tried in vain."""

    number: int = 0
    retry_at: float = 0  # in monotonic seconds
    told: str | None = None  # why it stays pending, as was last told


def backoff(attempts, most, initial=1):
    """Return the seconds to wait after so many failures: 1, 2, 4, 8 and so on, up to `most`."""
    return min(initial * 2 ** min(attempts - 1, 30), most)


class Proxy:
    """The API server behind kubectl proxy."""

    def __init__(self, server):
        self.server = server.rstrip("/")
        self.session = requests.Session()
        self.session.trust_env = False  # kubectl proxy is asked, not a proxy that the environment names

    def request(self, method, path, body=None, params=None):
        """Send a request and return the answer's JSON. Raises ApiError."""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        try:
            answer = self.session.request(method, self.server + path, params=params, json=body, timeout=30,
                                          headers={"Content-Type": kind}, allow_redirects=False)
            content = json.loads(answer.content.decode(errors="replace"))
        except requests.RequestException as error:
            raise Trouble(0, f"cannot reach {self.server}; is `kubectl proxy` running there?") from error
        except ValueError as error:  # no JSON: kubectl proxy itself has answered, in plain text
            raise Trouble(0, f"{self.server}: {answer.status_code} {answer.text.strip():.200}") from error
        if not answer.ok:
            raise api_error(answer.status_code, f"{method} {path}: {name_in(content, 'message')}")
        return content

    def list(self, resource, selector=""):
        """Return all objects of a resource, listed page by page. Raises ApiError."""
        first = params = {"fieldSelector": selector, "limit": 500}
        things = []
        while params:
            answer = self.request("GET", f"/api/v1/{resource}", params=params)
            things += pick(answer, list, "items", of=dict)
            token = pick(answer, str, "metadata", "continue")
            params = first | {"continue": token} if token else None
        return things


class ApiError(Exception):
    """A request that did not succeed. status: the HTTP status, or 0 where no answer came."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Trouble(ApiError):
    """No answer came, or 429, or 5xx: other requests may well fail, too."""


def api_error(status, message):
    """Return the ApiError that an answer with this status means."""
    if "etcdserver: request is too large" in message:  # it comes as 500, or as 409
        return ApiError(413, message)
    return (Trouble if status in (0, 429) or status >= 500 else ApiError)(status, message)


def event(pod, kind, reason, message, by=None):
    """Return the request that records an event about the pod, as `kubectl describe pod` shows it."""
    name = f"{pod.name[:200].rstrip('-.')}.{time.time_ns():x}"
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return "POST", f"/api/v1/namespaces/{pod.namespace}/events", {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": pod.namespace},
        "involvedObject": about, "type": kind, "reason": reason, "message": at_most(1024, message),
        "count": 1, "firstTimestamp": now(), "lastTimestamp": now(),
        "source": {"component": by or pod.scheduler}, "reportingComponent": by or pod.scheduler}


def pod_condition(pod, reason, message):
    """Return the request that says in the pod's condition PodScheduled why it is not bound."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    before = pick(pod.raw, list, "status", "conditions", of=dict)
    if ("PodScheduled", "False") not in [(each.get("type"), each.get("status")) for each in before]:
        condition["lastTransitionTime"] = now()
    return "PATCH", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status", {
        "metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def now():
    """Return the time as the API writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def at_most(size, text):
    """Return a text of at most so many bytes; a longer one ends with dots. Upstream: truncateMessage."""
    data = text.encode(errors="surrogatepass")
    return f"{data[:size - 4].decode(errors='ignore')} ..." if len(data) > size else text


# ==== 3. A rule =========================================================================================

# A predicate is a function of (pod, node) that yields the reasons why the pod does not fit. A priority is one
# that returns a score from 0 to 100. With a `reduce` it may return any number: that gets the scores of all
# nodes, {name: score}, and returns points from 0 to 100, {name: points}.


@dataclass(eq=False)
class Rule:
    """A predicate or a priority: a function of a pod and a node, under the name that a Policy has for it."""

    where: str  # which list of a Policy names it: predicates or priorities
    name: str
    function: Callable
    reduce: Callable | None = None
    weight: int = 1  # of a priority, as the Policy says it


PREDICATES, PRIORITIES = {}, {}  # name -> Rule, filled by the decorators, in kube-scheduler's order
CATALOGUES = {"predicates": PREDICATES, "priorities": PRIORITIES}
RULE_MAKERS = [Rule]  # the last one makes the rules that decorators register; a later part adds its own


def register(where, name=None, **options):
    """Return a decorator that makes a function the rule of this name."""
    if not name or not isinstance(name, str):
        raise InputError('a rule needs the name that a Policy has for it, as in @predicate("Name")')
    def decorate(function):
        CATALOGUES[where][name] = RULE_MAKERS[-1](where, name, function, **options)
        return function

    return decorate


predicate = functools.partial(register, "predicates")
priority = functools.partial(register, "priorities")


# ==== 4. Predicates =====================================================================================

@predicate("CheckNodeUnschedulable")
def check_node_unschedulable(pod, node):
    """The node is not cordoned, or the pod tolerates that."""
    if node.unschedulable and not tolerates(pod, Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")):
        yield "node(s) were unschedulable"


@predicate("HostName")
def host_name(pod, node):
    """The pod asks for this node, or for none. (A pod that waits has none, so it always passes.)"""
    if pod.node_name not in ("", node.name):
        yield "node(s) didn't match the requested hostname"


@predicate("PodFitsHostPorts")
def pod_fits_host_ports(pod, node):
    """No pod there has a host port that this pod wants: protocol and number, on the same IP or on all."""
    for other in node.pods.values() if pod.host_ports else ():
        for port in pod.host_ports.keys() & other.host_ports.keys():
            wanted = pod.host_ports[port]
            taken = other.host_ports[port]
            if wanted & taken or "0.0.0.0" in wanted | taken:
                yield "node(s) didn't have free ports for the requested pod ports"
                return


@predicate("MatchNodeSelector")
def match_node_selector(pod, node):
    """The node has the labels of the pod's nodeSelector, and meets a term of its required node affinity."""
    if not wants_node(pod, node):
        yield "node(s) didn't match Pod's node affinity"


@predicate("PodFitsResources")
def pod_fits_resources(pod, node, excepted=()):
    """The node has room for one more pod, and enough of each resource is free, but for those excepted."""
    if len(node.pods) + 1 > node.max_pods:
        yield "Too many pods"
    if pod.requests == NO_REQUESTS:  # then it fits even where too much is requested
        return
    for name, amount in pod.requests.items():
        is_short = node.requested.get(name, 0) + amount > node.allocatable.get(name, 0)
        if is_short and name not in excepted:
            yield f"Insufficient {name}"


def kept_with_pod(function):
    """Make a function of a pod remember its answer, in the pod."""

    @functools.wraps(function)
    def kept(pod):
        """Return the answer for this pod; work it out only once."""
        if function not in pod.derived:
            pod.derived[function] = function(pod)
        return pod.derived[function]

    return kept


DISK_IDENTITIES = {  # source of a volume -> the fields that identify the disk
    "gcePersistentDisk": ["pdName"], "awsElasticBlockStore": ["volumeID"], "iscsi": ["iqn"],
    "rbd": ["image", "pool"]}


@kept_with_pod
def disks_of(pod):
    """The pod's network disks: {identity: whether it may be shared}. Ceph: one for each monitor."""
    disks = {}
    for volume in pod.volumes:
        for source, fields in DISK_IDENTITIES.items():
            disk = pick(volume, dict, source)
            shared = pick(disk, bool, "readOnly") and source != "awsElasticBlockStore"
            monitors = pick(disk, list, "monitors", of=str) if source == "rbd" else [""]
            for monitor in monitors if disk else []:
                identity = source, monitor, *(pick(disk, str, name) for name in fields)
                disks[identity] = shared and disks.get(identity, True)
    return disks


@predicate("NoDiskConflict")
def no_disk_conflict(pod, node):
    """No pod there has a network disk that this pod mounts, unless both only read it (EBS: not even then)."""
    mine = disks_of(pod)
    for other in node.pods.values() if mine else ():
        theirs = disks_of(other)
        if any(not (mine[disk] and theirs[disk]) for disk in mine.keys() & theirs.keys()):
            yield "node(s) had no available disk"
            return


@predicate("PodToleratesNodeTaints")
def pod_tolerates_node_taints(pod, node):
    """The pod tolerates the node's NoSchedule and NoExecute taints; the first that it does not, is named."""
    for taint in hostile_taints(pod, node)[:1]:
        yield f"node(s) had taint {{{taint.key}: {taint.value}}}, that the pod didn't tolerate"


Taint = collections.namedtuple("Taint", "key value effect")


def hostile_taints(pod, node, effects=("NoSchedule", "NoExecute")):
    """Return the node's taints of these effects that the pod does not tolerate."""
    return [taint for taint in node.taints if taint.effect in effects and not tolerates(pod, taint)]


def tolerates(pod, taint):
    """Say whether one of the pod's tolerations covers the taint."""
    known = pod.derived.setdefault(tolerates, {})  # as many nodes have the same ones
    if taint not in known:
        known[taint] = any(covers(toleration, taint) for toleration in pod.tolerations)
    return known[taint]


def covers(toleration, taint):
    """Say whether a toleration covers a taint."""
    operator = toleration.get("operator") or "Equal"
    same_value = operator == "Equal" and (toleration.get("value") or "") == taint.value
    covers_value = operator == "Exists" or same_value
    covers_key = toleration.get("key") in (None, "", taint.key)
    return covers_value and covers_key and toleration.get("effect") in (None, "", taint.effect)


# ==== 5. Priorities =====================================================================================

DEFAULT_REQUESTS = {"cpu": 100, "memory": 200 * 2**20}  # what scores assume of a container that requests none
CPU_AND_MEMORY = ["cpu", "memory"]


def usage(incoming, node, resources):
    """Return {resource: (what is requested of the node, with the incoming pod; what there is)}."""
    found = {}
    for name in resources:
        on_node = node.nonzero if name in DEFAULT_REQUESTS else node.requested
        used = on_node.get(name, 0) + incoming.get(name, 0)
        found[name] = (used, node.allocatable.get(name, 0))
    return found


@priority("LeastRequestedPriority")
def least_requested(pod, node):
    """The percentages of cpu and memory that stay free, averaged: spreads the load."""
    shares = usage(pod.nonzero_incoming, node, CPU_AND_MEMORY).values()
    cpu, memory = [100 * (there - used) // there if there > used else 0 for used, there in shares]
    return (cpu + memory) // 2


@priority("MostRequestedPriority")
def most_requested(pod, node):
    """The percentages of cpu and memory that are then requested, averaged: fills node after node."""
    shares = usage(pod.nonzero_incoming, node, CPU_AND_MEMORY).values()
    cpu, memory = [100 * used // there if there and used <= there else 0 for used, there in shares]
    return (cpu + memory) // 2


@priority("BalancedResourceAllocation")
def balanced_resource_allocation(pod, node):
    """100 where cpu and memory are used to the same degree, else less; 0 where one is used up."""
    shares = usage(pod.nonzero_incoming, node, CPU_AND_MEMORY).values()
    cpu, memory = [used / there if there else 1.0 for used, there in shares]
    return 0 if cpu >= 1 or memory >= 1 else int((1 - abs(cpu - memory)) * 100)


def normalize(raw, few_are_best=False):
    """Scale scores so that the highest becomes 100; if few are best, 0. Upstream: DefaultNormalizeScore."""
    highest = max(raw.values())
    points = {name: 100 * score // highest if highest else 0 for name, score in raw.items()}
    return {name: 100 - score for name, score in points.items()} if few_are_best else points


@priority("NodeAffinityPriority", reduce=normalize)
def node_affinity(pod, node):
    """The summed weights of the preferred node affinity terms that the node meets."""
    return sum([weight for weight, term in preferred_terms(pod) if term_matches(term, node)])


@priority("TaintTolerationPriority", reduce=functools.partial(normalize, few_are_best=True))
def taint_toleration(pod, node):
    """The number of PreferNoSchedule taints that the pod does not tolerate; the fewer, the better."""
    return len(hostile_taints(pod, node, ["PreferNoSchedule"]))


SEED = None  # of chance; a later part sets it (--seed)


def dice(*names):
    """Return a source of chance. With a SEED it is always the same for the same pod and node."""
    return random if SEED is None else random.Random(f"{SEED} {' '.join(names)}")


@priority("RandomPriority")
def random_priority(pod, node):
    """A score by chance. With this priority alone, pods go anywhere that they fit, as in Bash tutorials."""
    return dice(pod.key, node.name).randint(0, 100)


# ==== 6. The decision ===================================================================================

class Unschedulable(Exception):
    """The attempt to place a pod ends here, for this reason."""


class Malformed(ValueError):
    """An API object that cannot be understood; the text says which field, and why."""


class InvalidSelector(Malformed):
    """A selector that kube-scheduler cannot parse; the text is kube-scheduler's."""


@dataclass(eq=False)
class Decision:
    """What was decided about one pod, and what it was decided from."""

    pod: Pod
    policy: Policy
    nodes: dict  # name -> Node, of all nodes
    node: str | None = None  # the name of the chosen node
    failed: Failures = field(default_factory=lambda: Failures())  # why the other nodes do not fit
    total: dict = field(default_factory=dict)  # node that fits -> the sum of its scores
    message: str | None = None  # without a node: why, in kube-scheduler's words
    reason: str = "Unschedulable"  # without a node: that of the pod's condition

    def give_up(self, error):
        """Decide to leave the pod pending, for this reason. A rule that breaks affects this pod only."""
        self.node = None
        self.message = str(error)
        if not isinstance(error, (Unschedulable, Malformed)):
            self.message = f"{type(error).__name__} in a rule: {error}"


class Failures(dict):
    """What is against the nodes that do not fit: {node: {predicate: its reasons}}."""

    @functools.cached_property
    def message(self):
        """The reasons where no node fits, summed up: "0/3 nodes are available: 3 Too many pods."."""
        if not self:
            return "no nodes available to schedule pods"
        counts = collections.Counter(
            reason for against in self.values() for reasons in against.values() for reason in reasons)
        parts = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        return f"0/{len(self)} nodes are available: {parts}."


# ==== 7. Pods and nodes =================================================================================

# They are read from the API's JSON. Rules only look at them, and what a rule looks at cannot be changed.

READ_OF_PODS, READ_OF_NODES = [], []  # later parts put functions here that read more of a pod, of a node


class Pod:
    """What the scheduler knows of a pod. Raises Malformed."""

    def __init__(self, raw):
        self.raw = raw
        self.spec = spec = pick(raw, dict, "spec")
        self.name = pick(raw, str, "metadata", "name")
        self.namespace = pick(raw, str, "metadata", "namespace") or "default"
        self.key = f"{self.namespace}/{self.name}"
        self.uid = pick(raw, str, "metadata", "uid") or self.key
        self.created = pick(raw, str, "metadata", "creationTimestamp")
        self.terminating = bool(pick(raw, str, "metadata", "deletionTimestamp"))
        self.priority = pick(spec, int, "priority")
        self.scheduler = pick(spec, str, "schedulerName") or "default-scheduler"
        self.node_name = pick(spec, str, "nodeName")
        self.labels = read_only(pick(raw, dict, "metadata", "labels", of=str))
        self.node_selector = read_only(pick(spec, dict, "nodeSelector", of=str))
        self.node_affinity = pick(spec, dict, "affinity", "nodeAffinity")
        self.tolerations = tuple(pick(spec, list, "tolerations", of=dict))
        self.volumes = tuple(pick(spec, list, "volumes", of=dict))
        self.containers = tuple(pick(spec, list, "containers", of=dict))
        self.host_ports = read_only(host_ports_of(self.containers))
        self.requests = read_only(NO_REQUESTS | amounts_of_pod(spec, {}))
        # Scores use `nonzero` of the pods on a node, and `nonzero_incoming` of the pod that waits.
        self.nonzero = read_only(amounts_of_pod(spec, DEFAULT_REQUESTS))
        overhead = amounts(spec, "overhead").get("cpu", 0)  # upstream takes its cores for millicores here
        cpu = self.nonzero.get("cpu", 0) - overhead + math.ceil(overhead / 1000)
        self.nonzero_incoming = read_only(self.nonzero | {"cpu": cpu})  # calculatePodResourceRequest
        self.derived = {}  # what rules have worked out of it: see kept_with_pod
        for read in READ_OF_PODS:
            read(self)


def host_ports_of(containers):
    """Return the host ports of containers, {(protocol, number): IPs}."""
    ports = collections.defaultdict(set)
    for container in containers:
        for port in pick(container, list, "ports", of=dict):
            number = pick(port, int, "hostPort")
            if number > 0:
                key = pick(port, str, "protocol") or "TCP", number
                ports[key].add(pick(port, str, "hostIP") or "0.0.0.0")
    return dict(ports)


def amounts_of_pod(spec, default):
    """Return what a pod requests: max(its containers together, each init container alone) + overhead."""
    total = {}  # upstream: PodRequests; `default` is for what a container does not name
    for container in pick(spec, list, "containers", of=dict):
        add(total, default | amounts(container, "resources", "requests"))
    for container in pick(spec, list, "initContainers", of=dict):
        raise_to(total, default | amounts(container, "resources", "requests"))
    add(total, amounts(spec, "overhead"))
    return total


class Node:
    """A node and the pods on it (kube-scheduler's NodeInfo). Raises Malformed."""

    def __init__(self, raw):
        self.raw = raw
        self.name = pick(raw, str, "metadata", "name")
        self.labels = read_only(pick(raw, dict, "metadata", "labels", of=str))
        self.unschedulable = pick(raw, bool, "spec", "unschedulable")
        self.taints = tuple(Taint(*(pick(taint, str, part) for part in Taint._fields))
                            for taint in pick(raw, list, "spec", "taints", of=dict))
        room = "allocatable" if pick(raw, dict, "status").get("allocatable") is not None else "capacity"
        self.allocatable = read_only(NO_REQUESTS | amounts(raw, "status", room))
        self.max_pods = quantity(str(pick(raw, dict, "status", room).get("pods") or 0))
        self._pods = {}
        self._requested = dict(NO_REQUESTS)
        self._nonzero = dict.fromkeys(DEFAULT_REQUESTS, 0)
        self.pods = read_only(self._pods)  # uid -> Pod, of those on it
        self.requested = read_only(self._requested)  # by all of these
        self.nonzero = read_only(self._nonzero)  # likewise, as it counts in scores
        for read in READ_OF_NODES:
            read(self)

    def add(self, pod):
        """Put a pod on the node."""
        self._pods[pod.uid] = pod
        add(self._requested, pod.requests)
        add(self._nonzero, pod.nonzero)


@dataclass(eq=False)
class Snapshot:
    """The cluster as rules see it, with what was placed so far."""

    nodes: dict  # name -> Node


# ==== 8. Node affinity ==================================================================================

WHEN = "DuringSchedulingIgnoredDuringExecution"  # the end of two names of fields: required..., preferred...


def wants_node(pod, node):
    """Say whether a node meets the pod's nodeSelector and required node affinity."""
    terms = required_terms(pod)
    return pod.node_selector.items() <= node.labels.items() and (
        terms is None or any(term_matches(term, node) for term in terms))


@kept_with_pod
def required_terms(pod):
    """The terms of the pod's required node affinity, of which one must match; None without such affinity."""
    required = pod.node_affinity.get(f"required{WHEN}")
    return None if required is None else valid_terms(pick(required, list, "nodeSelectorTerms", of=dict))


@kept_with_pod
def preferred_terms(pod):
    """The (weight, term) pairs of the pod's preferred node affinity. Raises Unschedulable."""
    return weighted_terms(pick(pod.node_affinity, list, f"preferred{WHEN}", of=dict))


def weighted_terms(raws):
    """Return (weight, term) pairs of preferred terms that say something. Raises Unschedulable."""
    pairs = []
    problems = {}
    for preferred in raws:
        weight = pick(preferred, int, "weight")
        try:
            term = node_selector_term(pick(preferred, dict, "preference")) if weight else None
        except InvalidSelector as error:
            problems[str(error)] = None  # once, as upstream's Aggregate does
        else:
            pairs += [(weight, term)] if term else []
    if problems:
        problem = f"[{', '.join(problems)}]" if len(problems) > 1 else ", ".join(problems)
        raise Unschedulable(f'running Score plugins: plugin "NodeAffinity" failed with: {problem}')
    return pairs


def valid_terms(raws):
    """Read the terms of a node selector, without those that are empty or invalid: these match nothing."""
    terms = []
    for raw in raws:
        with contextlib.suppress(InvalidSelector):
            terms.append(node_selector_term(raw))
    return [term for term in terms if term]


def node_selector_term(term):
    """Read a term as requirements of labels, and of fields; None if empty. Raises InvalidSelector."""
    on_labels = [requirement(expression) for expression in pick(term, list, "matchExpressions", of=dict)]
    on_fields = []
    for expression in pick(term, list, "matchFields", of=dict):
        key = pick(expression, str, "key")
        operator = pick(expression, str, "operator")
        values = pick(expression, list, "values", of=str)
        if operator not in ("In", "NotIn"):
            raise InvalidSelector(f'"{operator}" is not a valid node field selector operator')
        if len(values) != 1:
            count = f"unexpected number of value ({len(values)})"
            raise InvalidSelector(f'{count} for node field selector operator "{operator}"')
        on_fields.append(Requirement(key, operator, values))
    return (on_labels, on_fields) if on_labels or on_fields else None


def term_matches(term, node):
    """Say whether a node meets all of a term; the only field is metadata.name."""
    on_labels, on_fields = term
    return satisfies(node.labels, on_labels) and satisfies({"metadata.name": node.name}, on_fields)


Requirement = collections.namedtuple("Requirement", "key operator values")  # of labels or fields
LABEL_VALUE = re.compile("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
OPERATORS = {  # of label and node selectors; the value is None where the label is missing
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: int64(value) is not None and int64(value) > int64(values[0]),
    "Lt": lambda value, values: int64(value) is not None and int64(value) < int64(values[0])}


def satisfies(labels, requirements):
    """Say whether labels meet all the requirements; None stands for those that nothing meets."""
    for key, operator, values in requirements or ():
        if not OPERATORS[operator](labels.get(key), values):
            return False
    return requirements is not None


def requirement(expression):
    """Read an entry of matchExpressions as NewRequirement (apimachinery) does. Raises InvalidSelector."""
    key = pick(expression, str, "key")
    operator = pick(expression, str, "operator")
    values = pick(expression, list, "values", of=str)
    if operator not in OPERATORS:
        raise InvalidSelector(f'"{operator}" is not a valid node selector operator')
    if operator in ("In", "NotIn") and not values:
        raise InvalidSelector("for 'in', 'notin' operators, values set can't be empty")
    if operator in ("Exists", "DoesNotExist") and values:
        raise InvalidSelector("values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt") and len(values) != 1:
        raise InvalidSelector("for 'Gt', 'Lt' operators, exactly one value is required")
    if operator in ("Gt", "Lt") and int64(values[0]) is None:
        raise InvalidSelector("for 'Gt', 'Lt' operators, the value must be an integer")
    for value in values:
        if len(value) > 63 or not LABEL_VALUE.fullmatch(value):
            raise InvalidSelector(f'invalid label value: "{value}": at key: "{key}"')
    return Requirement(key, operator, values)


def int64(text):
    """Read a base-10 integer as Go's ParseInt does; None if it is not one of 64 bits."""
    number = int(text) if text and re.fullmatch("[+-]?[0-9]{1,63}", text) else 2**63
    return number if -(2**63) <= number < 2**63 else None


# ==== 9. Fields and quantities ==========================================================================

TYPE_NAMES = {dict: "an object", list: "a list", str: "a string", int: "a whole number", float: "a number",
              bool: "true or false"}


def pick(thing, kind, *path, of=None):
    """Follow a path into an API object; missing or null is an empty `kind`. `of`: the type of its members."""
    for depth, key in enumerate(path):
        if type(thing) is not dict:
            got = json.dumps(thing)[:40]
            raise Malformed(f"{'.'.join(path[:depth]) or 'it'}: expected an object, got {got}")
        thing = thing.get(key)
        if thing is None:
            return kind()
    if type(thing) is not kind:
        raise Malformed(f"{'.'.join(path)}: expected {TYPE_NAMES[kind]}, got {json.dumps(thing)[:40]}")
    if of:
        for key, member in thing.items() if kind is dict else enumerate(thing):
            if type(member) is not of:
                raise Malformed(
                    f"{'.'.join(path)}[{key}]: expected {TYPE_NAMES[of]}, got {json.dumps(member)[:40]}")
    return thing


def name_in(thing, *path):
    """Return the string at a path into an object that may be malformed, or ""."""
    for key in path:
        thing = thing.get(key) if isinstance(thing, dict) else None
    return thing if isinstance(thing, str) else ""


# Upstream: ParseQuantity in k8s.io/apimachinery/pkg/api/resource.
NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
QUANTITY = re.compile(rf"({NUMBER})(?:[eE]([+-]?[0-9]{{1,9}})|([numkMGTPE]|[KMGTPE]i)?)")
SUFFIXES = {s: decimal.Decimal(1000) ** i for i, s in enumerate(["n", "u", "m", None, *"kMGTPE"], -3)}
SUFFIXES |= {f"{s}i": decimal.Decimal(1024) ** i for i, s in enumerate("KMGTPE", 1)}
# Reads a number of any length in no time: it keeps 100 digits, and rounds up what it cuts off.
DIGITS = decimal.Context(prec=100, rounding=decimal.ROUND_UP, Emin=-999, Emax=999, traps=[])


def quantity(text, unit=1):
    """Read a quantity, times unit, rounded up: quantity("1.5Ki") is 1536, quantity("100m", 1000) is 100."""
    read = remembered_quantity if len(text) < 100 else read_quantity  # a longer one would take much room
    return read(text, unit)


def read_quantity(text, unit):
    """Read a quantity, times unit. Raises Malformed."""
    match = QUANTITY.fullmatch(text)
    if not match:
        raise Malformed(f'"{text:.60}" is not a quantity, such as 100m, 0.5 or 1.5Gi')
    number, exponent, suffix = match.groups()
    value = DIGITS.create_decimal(f"{number}e{exponent or 0}")
    if value < 0:  # no API server takes it, but a file of manifests may say so
        raise Malformed(f'"{text:.60}" is a negative quantity: it must be greater than or equal to 0')
    most = 2**63 - 1  # what exceeds 64 bits is their maximum
    in_units = DIGITS.multiply(value, SUFFIXES[suffix] * unit)
    return most if in_units > most else math.ceil(in_units)


remembered_quantity = functools.lru_cache(maxsize=65536)(read_quantity)
NO_REQUESTS = {"cpu": 0, "memory": 0, "ephemeral-storage": 0}


def amounts(thing, *path):
    """Read a resource list: cpu in millicores, all else in units; without names that do not count."""
    counted = {}  # upstream: Resource.Add in pkg/scheduler/framework/types.go
    for name, text in pick(thing, dict, *path).items():
        if name in NO_REQUESTS or "/" in name or name.startswith(("hugepages-", "attachable-volumes-")):
            counted[name] = quantity(str(text), 1000 if name == "cpu" else 1)
    return counted


def add(total, more):
    """Add resource amounts to others, in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def raise_to(total, others):
    """Raise resource amounts, in place, to those of others that are higher."""
    for name, amount in others.items():
        if amount > total.get(name, 0):
            total[name] = amount


# ==== 10. The Policy file, and a command line ===========================================================

class InputError(ValueError):
    """A file cannot be used. The text is a line that says where, what is wrong, and what would be right."""


def plain_policies(path, scheduler_name):
    """Return {schedulerName: Policy} of a Policy's two lists; all else is passed over. Raises InputError."""
    always = ["CheckNodeUnschedulable", "PodToleratesNodeTaints"]  # whatever the Policy names
    rules = {"predicates": {name: PREDICATES[name] for name in always}, "priorities": {}}
    try:
        with open(path, encoding="utf-8") as file:
            document = yaml.safe_load(file)
        for where, catalogue in CATALOGUES.items():
            for entry in pick(document, list, where, of=dict):
                name = pick(entry, str, "name")
                if name not in catalogue:
                    raise InputError(f'{where}: unknown rule "{name}"; there are {", ".join(catalogue)}')
                rules[where][name] = replace(catalogue[name], weight=pick(entry, int, "weight") or 1)
    except (OSError, TypeError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error
    in_order = [rules["predicates"][name] for name in PREDICATES if name in rules["predicates"]]
    return {scheduler_name: Policy(in_order, list(rules["priorities"].values()))}


def print_decision(decision):
    """Print a decision as a line."""
    where = f"stays pending: {decision.message}"
    if decision.node:
        fit = f"{len(decision.total)} of {len(decision.nodes)} nodes fit"
        score = f", score {decision.total[decision.node]}" if len(decision.total) > 1 else ""
        where = f"-> {decision.node}  ({fit}{score})"
    print(f"{decision.pod.key} {where}", flush=True)


def run_script(argv=None):
    """Run this part, until Ctrl-C. Return the exit code: 0 fine, 1 failed, 2 wrong usage or Policy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="http://127.0.0.1:8001", help="of kubectl proxy (%(default)s)")
    parser.add_argument("--policy", default="policy.json", help="a Policy file (%(default)s)")
    parser.add_argument("--scheduler-name", default="my-scheduler", help="schedule its pods (%(default)s)")
    parser.add_argument("--interval", type=float, default=1, help="seconds between passes (%(default)s)")
    parser.add_argument("--once", action="store_true", help="make passes until no pod is due, then stop")
    options = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s")
    read_policies = functools.partial(plain_policies, options.policy, options.scheduler_name)
    try:
        read_policies()
    except InputError as error:
        parser.exit(2, f"{error}\n")
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stop.set() or signal.signal(signal.SIGINT, signal.SIG_DFL))
    cluster = Cluster(Proxy(options.server), print_decision)
    run(cluster, read_policies, stop, options.interval, options.once)
    return 1 if options.once and (cluster.trouble or stop.is_set()) else 0


COMMAND_LINES = [run_script]  # the last one is run: a later part has one that can do more


def main(argv=None):
    """Run the command line; return the exit code."""
    return COMMAND_LINES[-1](argv)


##########################################################################################################
# PART II. WHAT ELSE RULES LOOK AT                                                                       #
# The map of all parts; labels; sidecars and resizing; claims, images, and what pods have in common.     #
##########################################################################################################

# The script is a whole. What follows makes of it what people run in earnest: it adds, and takes nothing back.
# It is the same loop, the same `schedule`, the same rules. Under a KubeSchedulerConfiguration the answers are
# those of today's kube-scheduler.
#
#     policy.json ----------------> the rules     (Part IV reads the file; the rules are in I and III)
#                                       |
#     kubectl proxy -> news ------> cache ---> decision -> room on the node -> Binding -> kubectl proxy
#     functions:       Reflector    take_news  schedule    LiveCluster.bind    bind_and_tell
#     part:            V            V          I           V                   V
#     thread:          one for      the loop's, for all pods,                  one of 64,
#                      a resource   one after another                          for each pod
#
# II. What else rules look at: labels, sidecars and resizing, claims, images.
# III. Rules that look further: How more is said of a rule. Labels, images, shapes. Services and spreading.
#     Affinity between pods. Disks, and how many a node can attach. Claims and their volumes. The other
#     extension points. What is asked whatever the Policy.
# IV. What people write: Files. Rules of one's own. The Policy.
# V. The live cluster: Requests and threads. List and watch. The cache. The life of a pending pod. What is
#     written. The live cluster. What is remembered. Extenders. Several replicas, of which one leads.
# VI. People: A cluster made of manifests. What people see. The picture of a cluster. The page. The command
#     line.
# VII. Today: What today's kube-scheduler says otherwise. KubeSchedulerConfiguration, and what of it
#     kube-scheduler refuses. (All else works without this part.)
#
# What a part imports stands at its head, so that the script begins with what it needs itself.

import hashlib


# ==== 11. Sidecars and resizing =========================================================================

def key_in(thing):
    """Return an object's namespace/name, or name, even if it is malformed."""
    parts = [name_in(thing, "metadata", "namespace"), name_in(thing, "metadata", "name")]
    return "/".join(filter(None, parts))


def is_sidecar(init_container):
    """Say whether an init container runs on beside the containers that start after it."""
    return init_container.get("restartPolicy") == "Always"


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
    total = {}
    alone = []
    for wanted, runs_on in containers:
        together = default | wanted
        add(together, total)
        if runs_on:
            total = together
        else:
            alone.append(together)
    for together in alone:
        raise_to(total, together)
    total |= as_a_whole
    add(total, overhead)
    return total


# ==== 12. Selectors of labels ===========================================================================

def label_selector(selector):
    """Read a LabelSelector as requirements: {} has none, null is None. Raises InvalidSelector."""
    if selector is None:
        return None
    labels = [{"key": key, "operator": "In", "values": [value]}
              for key, value in pick(selector, dict, "matchLabels", of=str).items()]
    return [requirement(entry) for entry in labels + pick(selector, list, "matchExpressions", of=dict)]


def pod_selector(thing, pod):
    """Read a labelSelector, with matchLabelKeys and mismatchLabelKeys: the pod's own values, or not."""
    requirements = label_selector(thing.get("labelSelector"))
    if requirements is None:
        return None
    for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        own = [key for key in pick(thing, list, keys, of=str) if key in pod.labels]
        requirements += [Requirement(key, operator, [pod.labels[key]]) for key in own]
    return requirements


# ==== 13. What more is read of pods and nodes ===========================================================

def read_more_of_pod(pod):
    """Read what the rules of later parts look at, and what today's fields say otherwise."""
    raw = pod.raw
    spec = pod.spec
    owners = pick(raw, list, "metadata", "ownerReferences", of=dict)
    controllers = [owner for owner in owners if owner.get("controller")]
    pod.controller = controllers[0] if controllers else {}  # the reference to it
    pod.phase = pick(raw, str, "status", "phase")
    pod.gates = tuple(pick(gate, str, "name") for gate in pick(spec, list, "schedulingGates", of=dict))
    pod.nominated_node = pick(raw, str, "status", "nominatedNodeName")  # where room is being made for it
    pod.annotations = read_only(pick(raw, dict, "metadata", "annotations", of=str))
    affinity = pick(spec, dict, "affinity")
    pod.is_affine = any(pick(affinity, dict, side) for side in ("podAffinity", "podAntiAffinity"))
    pod.init_containers = tuple(pick(spec, list, "initContainers", of=dict))
    for container in [*pod.containers, *pod.init_containers]:
        pick(container, str, "name")
    pick(raw, list, "status", "conditions", of=dict)  # so that whoever looks at them later can
    read_claims(pod)
    pod.uncounted_cpu = pod.nonzero.get("cpu", 0) - pod.nonzero_incoming["cpu"]
    sidecars = [container for container in pod.init_containers if is_sidecar(container)]
    if sidecars:
        pod.host_ports = read_only(host_ports_of([*pod.containers, *sidecars]))
    if sidecars or spec.get("resources") or is_resized(raw):
        read_requests_of_today(pod)
    pod.record = None  # of a pending pod: its PodRecord


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


def is_resized(raw):
    """Say whether a kubelet has reported the resources of a pod, or of one of its containers."""
    statuses = [pick(raw, dict, "status")]
    for kind in ("initContainerStatuses", "containerStatuses"):
        statuses += pick(raw, list, "status", kind, of=dict)
    return any(status.get("resources") is not None for status in statuses)


def read_requests_of_today(pod):
    """Read what a pod requests that has sidecars, is resized in place, or requests something as a whole."""
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


READ_OF_PODS.append(read_more_of_pod)


def read_more_of_node(node):
    """Read what the rules of later parts look at."""
    raw = node.raw
    node.annotations = read_only(pick(raw, dict, "metadata", "annotations", of=str))
    images = {}
    for image in pick(raw, list, "status", "images", of=dict):
        images |= dict.fromkeys(pick(image, list, "names", of=str), pick(image, int, "sizeBytes"))
    node.images = read_only(images)  # name -> bytes
    conditions = pick(raw, list, "status", "conditions", of=dict)
    node.conditions = read_only({str(each.get("type")): str(each.get("status")) for each in conditions})
    node.exists = True  # False: the API server shows no node of this name, only pods that are on it
    node.derived = {}  # what was worked out of the pods on it


READ_OF_NODES.append(read_more_of_node)


def take_off(pod, node):
    """Take a pod off a node again; return whether it was there."""
    pod = node._pods.pop(pod.uid, None)
    if pod:
        add(node._requested, {name: -amount for name, amount in pod.requests.items()})
        add(node._nonzero, {name: -amount for name, amount in pod.nonzero.items()})
    return pod is not None


def with_pods(node, pods):
    """Return a node like this one with other pods on it."""
    other = Node(node.raw)
    for pod in pods:
        other.add(pod)
    return other


def become(node, other):
    """Have a node be what another reading of it says; the pods on it stay."""
    kept = {name: vars(node)[name] for name in (
        "exists", "derived", "pods", "requested", "nonzero", "_pods", "_requested", "_nonzero")}
    vars(node).update(vars(other) | kept)


def scheduling_properties(node):
    """Return what decides which pods fit; not heartbeats. Upstream: nodeSchedulingPropertiesChange."""
    return (node.labels, node.annotations, node.unschedulable, node.taints, node.allocatable,
            node.max_pods, node.images, node.conditions)


def pods_by_kind(node):
    """Return the pods on a node by their kinds, {kind: [Pod]}."""
    if pods_by_kind not in node.derived:
        kinds = node.derived[pods_by_kind] = collections.defaultdict(list)
        for pod in node.pods.values():
            kinds[kind_of(pod)].append(pod)
    return node.derived[pods_by_kind]


@dataclass(eq=False)
class FullSnapshot(Snapshot):
    """The cluster as all rules see it. It is as the cache is: up to date."""

    objects: Objects  # resource -> {namespace/name or name: the API's JSON}
    is_live: bool = False  # whether controllers act on what we write: no dry run, and no manifests
    memory: Memory = field(default_factory=lambda: Memory())  # what was found out of the nodes
    bonds: dict = field(default_factory=dict)  # kind of pods -> kind of others -> what is between them
    policies: dict = field(default_factory=dict)  # schedulerName -> Policy
    nominated: list = field(default_factory=list)  # pending pods, of any scheduler, with a nominated node

    def put(self, pod, node):
        """Put a pod on a node."""
        node.add(pod)
        self.note_change(node)

    def take_off(self, pod, node):
        """Take a pod off a node again, if it is there."""
        if take_off(pod, node):
            self.note_change(node)

    def note_change(self, node):
        """Have what was known of the node found out anew."""
        node.derived.clear()
        self.memory.note(node.name)


def digest(text):
    """Return 16 bytes that stand for a text of any length."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


# What built-in rules look at when they are asked about a node; a test holds them to that. All else, such
# as labels, they look at in their `metadata` only.
SIGNED = ("requests", "nonzero_incoming", "uncounted_cpu", "host_ports", "tolerations", "node_selector",
          "node_affinity", "controller")


@kept_with_pod
def is_large(pod):
    """Whether the pod says more than some thirty others do together."""
    return len(repr(pod.spec)) > 30_000


@kept_with_pod
def signature_of(pod):
    """What pods that are alike to the built-in rules have in common. Upstream: SignPod."""
    return digest(repr([getattr(pod, name) for name in SIGNED]))


@kept_with_pod
def kind_of(pod):
    """What pods that are alike have in common: what rules may look at, except name, status and node."""
    return digest(repr((
        plain_spec(pod), pod.namespace, pod.labels, pod.annotations, pod.controller,
        pod.terminating, pod.requests, pod.nonzero)))  # as they are while the pod is resized in place


def plain_spec(pod):
    """Return the spec without the node, and without the random name of the volume with the token."""
    projected = {name_in(volume, "name") for volume in pod.volumes if "projected" in volume}
    tokens = {name for name in projected if re.fullmatch("kube-api-access-[a-z0-9]{5}", name)}

    def renamed(things):
        """Return volumes, or mounts of them, with one name for a token's."""
        return [thing | {"name": "kube-api-access-*"} if name_in(thing, "name") in tokens else thing
                for thing in things]

    plain = pod.spec | {"nodeName": "", "volumes": renamed(pod.volumes)}
    for kind in ("containers", "initContainers"):
        containers = pick(pod.spec, list, kind, of=dict)
        plain[kind] = [each | {"volumeMounts": renamed(pick(each, list, "volumeMounts", of=dict))}
                       for each in containers]
    return plain


def is_as_in(pod, raw):
    """Say whether other JSON of the pod says the same of all that is looked at, except its node.

    That it is bound, and most of what its kubelet reports, changes nothing of what was read.
    """
    with contextlib.suppress(Malformed):
        return what_counts(pod.raw) == what_counts(raw)
    return False


def what_counts(raw):
    """Return what of a pod's JSON is looked at, except its node. Raises Malformed."""
    metadata = pick(raw, dict, "metadata")
    status = pick(raw, dict, "status")
    beside = pick(status, list, "initContainerStatuses", of=dict)
    containers = beside + pick(status, list, "containerStatuses", of=dict)
    return [
        pick(raw, dict, "spec") | {"nodeName": None},
        [metadata.get(name) for name in ("uid", "labels", "annotations", "ownerReferences")],
        bool(metadata.get("deletionTimestamp")),
        [status.get(name) for name in ("nominatedNodeName", "resources", "allocatedResources")],
        [[container.get(name) for name in ("name", "resources", "allocatedResources")]
         for container in containers if container.get("resources") is not None],
        [condition for condition in pick(status, list, "conditions", of=dict)
         if condition.get("type") == "PodResizePending"]]


##########################################################################################################
# PART III. RULES THAT LOOK FURTHER                                                                      #
# At labels, images, other pods, services, volumes; and at what comes after the decision.                #
##########################################################################################################

import copy
import itertools
import os
import traceback
import types
from pathlib import Path


# ==== 14. How more is said of a rule ====================================================================

@dataclass(eq=False)
class FullRule(Rule):
    """A rule, and all that decorators and the Policy say of it."""

    # What its decorator says:
    metadata: Callable | None = None  # works out, once per pod, what the function takes as `metadata`
    argument: dict | None = None  # the fields of an entry's `argument`, {field: type}; None: it takes none
    default: dict = field(default_factory=dict)  # the values of fields that an entry may leave out
    member: str | None = None  # an entry whose argument has this field means this rule, whatever its name
    check: Callable | None = None  # yields what is wrong with the arguments
    hooks: dict = field(default_factory=dict)  # its functions for the other extension points
    steady: bool = False  # for pods alike (`likeness`), its answer rests on the node and its metadata alone
    is_own: bool = False  # it is one of --plugins, not a built-in one
    # What a pod may ask for -> function(pod, its node or None), whether it does: to warn that nobody looks.
    looks_at: dict = field(default_factory=dict)
    aliases: list = field(default_factory=list)  # other names of it in a Policy; several rules may have one
    always: bool = False  # it is active whatever a Policy names
    by_default: int = 0  # 1, or a priority's weight: it is active where a Policy leaves the list out
    plugin: str = ""  # the plugin that it is part of today; "": one of its own name

    # What the Policy says:
    title: str = ""  # what it calls the rule, by any of its names
    settings: dict = field(default_factory=dict)  # what functions take by these names; else their defaults


RULE_OF = {}  # the code of a rule's function -> the rule's name; if several rules share it, the last one's


def full_rule(where, name, function, **options):
    """Return the rule that a decorator registers. Raises InputError if it is one's own, and cannot work."""
    plain = getattr(function, "func", function)  # some built-in rules are made by functools.partial
    is_own = plain.__module__ != __name__
    if is_own:
        check_rule(where, name, function, options)
    for each in (function, *options.values()):
        if hasattr(each, "__code__"):
            RULE_OF[each.__code__] = name
    given = {option: value for option, value in options.items() if value is not None}
    hooks = {option: given.pop(option) for option in given.keys() - FullRule.__dataclass_fields__.keys()}
    unless_given = {"steady": not is_own, "is_own": is_own, "plugin": name}
    return FullRule(where, name, function, hooks=hooks, **(unless_given | given))


RULE_MAKERS.append(full_rule)


def requires(side, pod, node):
    """Say whether the pod has required affinity of a kind, such as podAntiAffinity."""
    return pick(pod.spec, dict, "affinity", side).get(f"required{WHEN}")


GENERAL = {"by_default": 1, "aliases": ["GeneralPredicates"]}
SAID_OF_THE_SCRIPTS_RULES = {
    "CheckNodeUnschedulable": {"plugin": "NodeUnschedulable", "always": True},
    "HostName": {"plugin": "NodeName", **GENERAL},
    "PodFitsHostPorts": {
        "plugin": "NodePorts", "by_default": 1, "aliases": ["PodFitsPorts", "GeneralPredicates"],
        "looks_at": {"host ports": lambda pod, node: pod.host_ports}},
    "MatchNodeSelector": {
        "plugin": "NodeAffinity", **GENERAL,
        "looks_at": {"a node selector": lambda pod, node: pod.node_selector,
                     "required node affinity": functools.partial(requires, "nodeAffinity")}},
    "PodFitsResources": {
        "plugin": "NodeResourcesFit", **GENERAL,
        "looks_at": {"resource requests": lambda pod, node: any(pod.requests.values())}},
    "NoDiskConflict": {
        "plugin": "VolumeRestrictions", "by_default": 1,
        "looks_at": {"a network disk": lambda pod, node: disks_of(pod)}},
    "PodToleratesNodeTaints": {
        "plugin": "TaintToleration", "always": True,
        "looks_at": {"no toleration for taints there": lambda pod, node: node and hostile_taints(pod, node)}},
    "LeastRequestedPriority": {"plugin": "NodeResourcesFit", "by_default": 1},
    "MostRequestedPriority": {"plugin": "NodeResourcesFit"},
    "BalancedResourceAllocation": {"plugin": "NodeResourcesBalancedAllocation", "by_default": 1},
    "NodeAffinityPriority": {"plugin": "NodeAffinity", "by_default": 1},
    "TaintTolerationPriority": {"plugin": "TaintToleration", "by_default": 1},
    "RandomPriority": {"steady": False}}


for catalogue in CATALOGUES.values():
    for rule in [*catalogue.values()]:
        said = SAID_OF_THE_SCRIPTS_RULES.get(rule.name, {})
        register(rule.where, rule.name, reduce=rule.reduce, **said)(rule.function)


SKIP = object()  # what a `metadata` function returns to have its rule left out for the pod


class Prepared:
    """A rule that is ready to be asked about nodes: its metadata for a pod, or pods alike, is worked out."""

    def __init__(self, rule, metadata):
        self.rule = rule
        self.metadata = metadata
        self.function = rule.function
        if rule.metadata:
            self.function = functools.partial(rule.function, metadata=metadata)
        self.title = rule.title

    def __eq__(self, other):
        """Say whether the other one says the same of a node: to pods that are alike, a steady rule does."""
        same_rule = isinstance(other, Prepared) and self.rule is other.rule
        return same_rule and self.rule.steady and self.metadata == other.metadata

    def reasons(self, pod, node):
        """Return the reasons that a predicate has against a node."""
        reasons = self.function(pod, node)
        if isinstance(reasons, types.GeneratorType):
            reasons = list(reasons)
        if reasons == []:  # the usual answer, so that this is to be fast
            return reasons
        return strings_of(self.rule, reasons, "the reasons")

    def score(self, pod, node):
        """Return the score that a priority gives a node."""
        score = self.function(pod, node)
        if not self.rule.reduce:
            check_points(self.rule, {node.name: score})
        return score

    def vote(self, pod, nodes, snapshot):
        """Return what a priority gives to these nodes, {name: Node}: a Vote."""
        like = likeness(pod, [self.rule])
        score = functools.partial(self.score, pod)
        return recall(self.rule, like, snapshot, nodes, score, basis=self, then=self.make_vote)

    def make_vote(self, nodes, raw):
        """Make a Vote of raw scores. They may be of any size: `reduce` makes points from 0 to 100 of them."""
        points = raw
        if self.rule.reduce:
            points = self.rule.reduce(dict(raw))
            check_reduced(self.rule, raw, points)
        return Vote(self.title, self.rule.weight, raw, points, self)


def prepare(rules, pod, nodes, snapshot):
    """Return the rules as Prepared ones, without those that have nothing to say. Raises Unschedulable."""
    prepared = []
    node_list = list(nodes.values())
    for rule in rules:
        try:
            metadata = rule.metadata(pod, node_list, snapshot) if rule.metadata else None
        except Rejected as error:
            error.title = rule.title
            raise
        if metadata is not SKIP:
            prepared.append(Prepared(rule, metadata))
    return prepared


class Rejected(Unschedulable):
    """The pod fits no node at all, for this reason: said by a `metadata` function."""

    title = ""  # of the rule


@dataclass
class Vote:
    """What a priority, or an extender, gives to the nodes that fit."""

    title: str
    weight: int
    raw: dict  # node -> its score, as the function of the priority gave it; None for an extender
    points: dict  # node -> 0 to 100, after `reduce`; an extender's are weighted already (weight: 1)
    rule: Prepared | None = None  # whose vote it is; None for an extender


@dataclass(eq=False)
class FullDecision(Decision):
    """A decision, with what the other extension points and the extenders add."""

    votes: list = field(default_factory=list)  # of each priority and each extender, on the nodes that fit
    remedy: str = ""  # without a node: what a rule does about that
    trouble: Trouble | None = None  # without a node: what was the matter with the API server
    waits: str = ""  # with a node: why the pod is not bound to it yet
    requests: list = field(default_factory=list)  # to be sent, as a remedy or to prepare the binding

    @property
    def raw(self):
        """The scores as the priorities gave them, {priority: {node: score}}."""
        return {vote.title: vote.raw for vote in self.votes if vote.raw is not None}

    @property
    def scores(self):
        """The points times the weights, {priority or extender: {node: score}}."""
        return {vote.title: {name: vote.weight * points for name, points in vote.points.items()}
                for vote in self.votes}

    @property
    def fits_nowhere(self):
        """Whether each node has been ruled out, or there is none."""
        return self.node is None and len(self.failed) == len(self.nodes)

    def give_up(self, error):
        """Become a decision to leave the pod pending, and say which rule has broken."""
        if isinstance(error, Trouble):
            FAILURE.set()
            self.trouble = error
        if self.node and not isinstance(error, Unschedulable):
            self.reason = "SchedulerError"  # as in kube-scheduler, of what breaks once a node is chosen
        self.node = None
        self.waits = ""
        self.message = text_of(error)
        if isinstance(error, Rejected):
            why = {f"{error.title} (whatever the node)": [str(error)]}
            self.failed = Failures(dict.fromkeys(self.nodes, why))
            self.message = self.policy.rejection(error, self.failed)
        if not isinstance(error, (Unschedulable, Malformed, ApiError)):
            FAILURE.set()
            self.message = what_broke(error)
            log.debug("%s", self.pod.key, exc_info=error)


def split_nodes(nodes, against):
    """Return the nodes that fit, {name: Node}, and the Failures of the others."""
    feasible = {name: node for name, node in nodes.items() if not against[name]}
    return feasible, Failures({name: what for name, what in against.items() if what})


# Set once a rule breaks, or a write fails (unless somebody else was faster). Then the exit code is 1, except
# that of a loop which runs until a signal. It is global, as rules break in many places.
FAILURE = threading.Event()


@contextlib.contextmanager
def warn_if_broken(text):
    """If a rule breaks in this block, or calls sys.exit, end the block, warn in these words, and go on."""
    try:
        yield
    except (Exception, SystemExit) as error:
        FAILURE.set()
        warn_once(f"{text}: {what_broke(error)}")


def what_broke(error):
    """Describe an unexpected exception in a line: its type, its text, the rule, the line in its file."""
    place = about = ""
    rule = file = None
    if isinstance(error.__cause__, StopIteration):  # a generator has made a RuntimeError of it
        error = error.__cause__
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if isinstance(frame.f_locals.get("node"), Node):
            about = f", about node {frame.f_locals['node'].name}"
        if code in RULE_OF:
            rule = RULE_OF[code]
            file = code.co_filename
        if file == code.co_filename:  # the last line in the rule's own file
            place = f" ({rule}: {Path(file).name}, line {line})"
    return f"{type(error).__name__} in a rule: {one_line(error)}{place}{about}"


# ==== 15. Labels, images, shapes ========================================================================

def label_conflicts(arguments):
    """Yield what is wrong with labelsPresence and labelPreference: a label wanted both present and absent."""
    wanted = {}
    for argument in arguments:
        presence = argument.get("presence", False)
        labels = argument.get("labels", []) + ([argument["label"]] if "label" in argument else [])
        for label in labels:
            if wanted.setdefault(label, presence) != presence:
                yield f'label "{label}" cannot be wanted both present and absent'


@predicate("CheckNodeLabelPresence", member="labelsPresence", check=label_conflicts,
           argument={"labels": [str], "presence": bool})
def check_node_label_presence(pod, node, arguments):
    """The node has the labels that the Policy wants present, with any value; not those it wants absent."""
    for argument in arguments:
        presence = argument.get("presence", False)
        if any((label in node.labels) != presence for label in argument.get("labels", [])):
            yield "node(s) didn't have the requested labels"
            return


@priority("NodeLabel", member="labelPreference", check=label_conflicts,
          argument={"label": str, "presence": bool})
def node_label(pod, node, arguments):
    """The percentage of the labelPreference entries that the node meets: a label is there, or is not."""
    met = sum((argument.get("label", "") in node.labels) == argument.get("presence", False)
              for argument in arguments)
    return 100 * met // len(arguments)


@priority("NodePreferAvoidPodsPriority", plugin="NodePreferAvoidPods", by_default=10000)
def node_prefer_avoid_pods(pod, node):
    """0 where an annotation names the pod's ReplicationController or ReplicaSet as one to avoid; else 100."""
    annotation = node.annotations.get("scheduler.alpha.kubernetes.io/preferAvoidPods")
    kind, uid = pod.controller.get("kind"), pod.controller.get("uid")
    if annotation and kind in ("ReplicationController", "ReplicaSet"):
        with contextlib.suppress(ValueError, RecursionError):  # one that cannot be read avoids nobody
            for avoid in pick(json.loads(annotation), list, "preferAvoidPods", of=dict):
                owner = pick(avoid, dict, "podSignature", "podController")
                if (kind, uid) == (owner.get("kind"), owner.get("uid")):
                    return 0
    return 100


# What a Policy may say: a type; a range of numbers; a set of strings; [any of these] for a list; {field: any
# of these}. What an argument may say is said with each rule.
# Upstream: kube-scheduler/config/v1/types.go.
WEIGHT = range(1, 2**31)
SHAPE = [{"utilization": range(101), "score": range(11)}]


def shape_problems(arguments):
    """Yield what is wrong with the arguments. Upstream: ValidateRequestedToCapacityRatioArgs."""
    points = [point.get("utilization", 0) for argument in arguments for point in argument.get("shape", [])]
    if arguments and (len(arguments) > 1 or not points):
        yield "needs requestedToCapacityRatioArguments with at least one point in shape, in this entry alone"
    elif points != sorted(set(points)):
        yield "the utilization values of shape must ascend"
    elif any("weight" not in each for argument in arguments for each in argument.get("resources", [])):
        yield "each of the resources needs a weight"


def utilization(pod, node, resources):
    """Return {resource: the percentage that is then requested, rounded up}; of what is not there, 100."""
    return {name: -(-100 * used // there) if there else 100
            for name, (used, there) in usage(pod.nonzero_incoming, node, resources).items()}


@priority("RequestedToCapacityRatio", plugin="NodeResourcesFit", check=shape_problems,
          member="requestedToCapacityRatioArguments",
          argument={"shape": SHAPE, "resources": [{"name": str, "weight": WEIGHT}]})
def requested_to_capacity_ratio(pod, node, arguments, utilization=utilization):
    """The weighted mean, over the Policy's resources, of a function of their utilization: `shape`."""
    shape = [(point.get("utilization", 0), 10 * point.get("score", 0)) for point in arguments[0]["shape"]]
    weights = {resource.get("name", ""): resource["weight"] for resource in arguments[0].get("resources", [])}
    score_sum = weight_sum = 0
    for name, percentage in utilization(pod, node, weights).items():
        score = broken_linear(shape, percentage)
        if score > 0:  # else the resource is left out of the mean
            score_sum += score * weights[name]
            weight_sum += weights[name]
    return (2 * score_sum + weight_sum) // (2 * weight_sum) if weight_sum else 0  # rounded, halves up


def broken_linear(shape, x):
    """Return the value at x of the broken line through the points of shape, truncated toward zero."""
    left, left_score = shape[0]
    for right, score in shape:
        if x <= right:
            width = max(right - left, 1)  # at the first point, left is right
            return left_score + int((score - left_score) * (x - left) / width)
        left, left_score = right, score
    return left_score


ImageShares = collections.namedtuple("ImageShares", "shares containers")


def image_shares(pod, nodes, snapshot):
    """The images of the pod's containers, with their shares, and the number of the containers."""
    images = [pick(container, str, "image") for container in pod.containers]
    return ImageShares(shares_of(images, snapshot), len(pod.containers))


def shares_of(images, snapshot):
    """Return (image, its bytes times the share of the nodes that have it, so that pods spread) of each.

    Images that no node has are left out.
    """
    sizes = recall("images", "of all pods", snapshot, snapshot.nodes, lambda node: node.images, then=sizes_of)
    shares = []
    for image in images:
        if image.rfind(":") <= image.rfind("/"):  # nodes name images with a tag (normalizedImageName)
            image += ":latest"
        if image in sizes:
            first, *_ = sizes[image]
            shares.append((image, int(first * (len(sizes[image]) / len(snapshot.nodes)))))
    return shares


def sizes_of(nodes, images):
    """Return {image: its bytes, on each node that has it}."""
    sizes = collections.defaultdict(list)
    for name in nodes:
        for image, size in images[name].items():
            sizes[image].append(size)
    return dict(sizes)


@priority("ImageLocalityPriority", metadata=image_shares, plugin="ImageLocality", by_default=1)
def image_locality(pod, node, metadata):
    """How many bytes of the pod's images are there already, from 23 MiB (0) to 1000 MiB a container (100)."""
    lowest = 23 * 2**20
    highest = 1000 * 2**20 * metadata.containers
    there = sum([share for image, share in metadata.shares if image in node.images])
    return 100 * (min(max(there, lowest), highest) - lowest) // (highest - lowest)


# ==== 16. Services and spreading ========================================================================

HOSTNAME = "kubernetes.io/hostname"
DEFAULT_SPREAD = [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway"}
                  for key, skew in ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))]
OWNERS = ("services", "replicationcontrollers", "replicasets", "statefulsets")  # upstream: DefaultSelector


def selectors_of(pod, snapshot, *resources):
    """Return the selectors of the services, ReplicaSets, ... that select the pod."""
    selectors = []
    for resource in resources:
        raws = [selector_in(owner, resource) for key, owner in snapshot.objects[resource].items()
                if key.startswith(f"{pod.namespace}/")]
        with contextlib.suppress(InvalidSelector):  # then the whole kind is passed over, as upstream does
            selectors += [wanted for wanted in map(label_selector, raws) if satisfies(pod.labels, wanted)]
    return selectors


def selector_in(owner, resource):
    """Return the selector of a service, a ReplicaSet, ..., which has the oldest kinds write labels only."""
    selector = pick(owner, dict, "spec").get("selector")
    has_labels_only = resource in ("services", "replicationcontrollers")
    return {"matchLabels": selector} if selector and has_labels_only else selector


def service_pairs(pod, nodes, snapshot, arguments):
    """The node labels that bind the pod's service: of its nodeSelector, and else of a fellow pod's node."""
    labels = [label for argument in arguments for label in argument.get("labels", [])]
    pairs = {label: pod.node_selector[label] for label in labels if label in pod.node_selector}
    if len(pairs) < len(labels) and selectors_of(pod, snapshot, "services"):
        for node in nodes:
            if any(other.namespace == pod.namespace and pod.labels.items() <= other.labels.items()
                   for other in node.pods.values()):
                return {label: node.labels[label] for label in labels if label in node.labels} | pairs
    return pairs or SKIP


@predicate("CheckServiceAffinity", metadata=service_pairs, member="serviceAffinity",
           argument={"labels": [str]})
def check_service_affinity(pod, node, metadata):
    """For the labels in the Policy, the node has the values that bind the pod's service."""
    if not metadata.items() <= node.labels.items():
        yield "node(s) didn't match service affinity"


def service_spread(pod, nodes, snapshot, arguments):
    """For each label in the Policy, how many pods the pod's service has, by their nodes' values."""
    selector = next(iter(selectors_of(pod, snapshot, "services")), None) or None  # an empty one counts nobody
    labels = [argument.get("label", "") for argument in arguments]
    numbers = matching_pods(pod, selector, snapshot)
    return [(label, by_domain(numbers, lambda node, label=label: node.labels.get(label), nodes))
            for label in labels]


@priority("ServiceAffinity", metadata=service_spread, member="serviceAntiAffinity",
          argument={"label": str})
def service_affinity(pod, node, metadata):
    """The share of the service's pods that are elsewhere, by the values of the Policy's labels."""
    score = 0.0
    for label, counts in metadata:
        if label in node.labels:
            total = sum(counts.values())
            elsewhere = total - counts[node.labels[label]]
            score += (100 * (elsewhere / total) if total else 100.0) / len(metadata)
    return int(score)


@dataclass
class SpreadConstraint:
    """A topology spread constraint of a pod, and the pods that it counts."""

    raw: dict  # the API's JSON
    requirements: list  # of the pods to count; None counts nobody
    numbers: dict = field(compare=False)  # of these pods on each node
    itself: bool  # whether the pod meets its own constraint's selector
    complete: list = field(compare=False)  # the nodes that have all the constraints' keys
    eligible: list = field(compare=False)  # those of them where the pod may go, by the constraint's policies
    counts: dict | None = None  # of ScheduleAnyway: domain -> matching pods
    full: frozenset = frozenset()  # of DoNotSchedule: the domains that can take no more
    weight: float = 0  # of ScheduleAnyway: how much a pod matters

    def __post_init__(self):
        self.key = pick(self.raw, str, "topologyKey")
        self.max_skew = pick(self.raw, int, "maxSkew")

    def score(self, node):
        """Return what a node gets, as pods are in its domain: the fewer, the better."""
        count = self.counts.get(domain_of(self.key, node), 0)
        return count * self.weight + (self.max_skew - 1)


STAGES = {  # whenUnsatisfiable -> where kube-scheduler reads such constraints
    "DoNotSchedule": 'PreFilter plugin "PodTopologySpread": obtaining pod\'s hard',
    "ScheduleAnyway":
        'PreScore plugin "PodTopologySpread": calculating preScoreState: obtaining pod\'s soft'}


def default_selector(pod, snapshot):
    """Return what default constraints require of the pods to count: what all require that select the pod."""
    return list(itertools.chain(*selectors_of(pod, snapshot, *OWNERS)))


def spread_constraints(pod, when, snapshot, defaults=(), default_selector=default_selector):
    """Yield the pod's constraints with this whenUnsatisfiable, or default ones. Raises Unschedulable."""
    raws = pick(pod.spec, list, "topologySpreadConstraints", of=dict)
    chosen = [raw for raw in raws or defaults if raw.get("whenUnsatisfiable") == when]
    owned = default_selector(pod, snapshot) if chosen and not raws else []
    if not raws and not owned:
        return
    keys = {pick(raw, str, "topologyKey") for raw in chosen}
    complete = [node for node in snapshot.nodes.values() if keys <= node.labels.keys()]
    for raw in chosen:
        try:
            requirements = owned or pod_selector(raw, pod)
        except InvalidSelector as error:
            raise Unschedulable(
                f"running {STAGES[when]} topology spread constraints: {error}") from error
        eligible = complete
        is_choosy = pod.node_selector or required_terms(pod) is not None
        if is_choosy and raw.get("nodeAffinityPolicy") != "Ignore":
            eligible = [node for node in complete if wants_node(pod, node)]
        if raw.get("nodeTaintsPolicy") == "Honor":
            eligible = [node for node in eligible if not hostile_taints(pod, node)]
        numbers = matching_pods(pod, requirements, snapshot)
        itself = satisfies(pod.labels, requirements)
        yield SpreadConstraint(raw, requirements, numbers, itself, complete, eligible)


def matching_pods(pod, requirements, snapshot):
    """Return {node: how many pods in the pod's namespace meet the requirements, and are not leaving}."""

    def count(node):
        """Count those on a node."""
        return sum([other.namespace == pod.namespace and not other.terminating
                    and satisfies(other.labels, requirements) for other in node.pods.values()])

    matter = f"{pod.namespace} {requirements}"
    like = matter if len(matter) < 1000 else None  # else it would take up as much room as it saves time
    return recall("matching pods", like, snapshot, snapshot.nodes, count)


def by_domain(numbers, domain, nodes):
    """Add up numbers, {node: number}, by the domains of these nodes."""
    counts = collections.Counter()
    for node in nodes:
        counts[domain(node)] += numbers[node.name]
    return counts


def hard_spread(pod, nodes, snapshot):
    """The pod's DoNotSchedule constraints, by the pods that are in the domains of eligible nodes."""
    spread = []
    for constraint in spread_constraints(pod, "DoNotSchedule", snapshot):
        raw = constraint.raw
        key = constraint.key
        counted = constraint.eligible
        if not (raw.get("nodeAffinityPolicy") or raw.get("nodeTaintsPolicy")):
            domains = {node.labels[key] for node in counted}
            counted = [node for node in nodes if node.labels.get(key) in domains]
        spread.append(with_full_domains(constraint, counted))
    return spread or SKIP


def with_full_domains(constraint, nodes):
    """Return a constraint with the domains that can take no more, by the pods on these nodes."""
    counts = by_domain(constraint.numbers, lambda node: node.labels[constraint.key], nodes)
    has_enough_domains = len(counts) >= pick(constraint.raw, int, "minDomains")  # else one is taken as empty
    least = min(counts.values(), default=0) if has_enough_domains else 0
    most = constraint.max_skew + least - constraint.itself
    full = frozenset(domain for domain, count in counts.items() if count > most)
    return replace(constraint, full=full)  # without the counts, so that pods which change nothing are no news


def must_spread(pod, node):
    """Say whether the pod has a constraint with DoNotSchedule."""
    constraints = pick(pod.spec, list, "topologySpreadConstraints", of=dict)
    return any(constraint.get("whenUnsatisfiable") == "DoNotSchedule" for constraint in constraints)


@predicate("EvenPodsSpread", metadata=hard_spread, plugin="PodTopologySpread", by_default=1,
           looks_at={"required spreading": must_spread})
def even_pods_spread(pod, node, metadata):
    """With the pod, no topology domain has more than maxSkew matching pods more than the emptiest one."""
    for constraint in metadata:
        domain = node.labels.get(constraint.key)
        if domain is None:
            yield "node(s) didn't match pod topology spread constraints (missing required label)"
            return
        if domain in constraint.full:
            yield "node(s) didn't match pod topology spread constraints"
            return


def soft_spread(pod, nodes, snapshot, default_constraints=()):
    """The pod's ScheduleAnyway constraints, or default ones."""
    return [with_counts(constraint, nodes)
            for constraint in spread_constraints(pod, "ScheduleAnyway", snapshot, default_constraints)]


def with_counts(constraint, nodes):
    """Return a constraint with the numbers of pods in the domains of these nodes; many domains weigh more."""
    domain = functools.partial(domain_of, constraint.key)
    counted = constraint.complete if constraint.key == HOSTNAME else constraint.eligible
    complete = set(constraint.complete)
    domains = {domain(node) for node in nodes if node in complete}
    counts = by_domain(constraint.numbers, domain, counted)
    counts = {name: count for name, count in counts.items() if name in domains}
    return replace(constraint, counts=counts, weight=math.log(len(domains) + 2))


def domain_of(key, node):
    """Return the node's domain of a topology: each node is one by host name, even if two have the same."""
    return node.name if key == HOSTNAME else node.labels.get(key)


def normalize_spread(points):
    """Turn counts around, so that the fewest pods make 100; a node that is out gets 0."""
    counts = [count for count in points.values() if count is not None]
    total = min(counts, default=0) + max(counts, default=0)
    most = max(counts, default=0)
    turned = {count: 100 * (total - count) // most if most else 100 for count in set(counts)} | {None: 0}
    return {name: turned[count] for name, count in points.items()}


@priority("SelectorSpreadPriority", plugin="PodTopologySpread", by_default=1,
          metadata=functools.partial(soft_spread, default_constraints=DEFAULT_SPREAD),
          reduce=normalize_spread, aliases=["ServiceSpreadingPriority"])
@priority("EvenPodsSpreadPriority", metadata=soft_spread, reduce=normalize_spread, by_default=2)
def even_pods_spread_priority(pod, node, metadata):
    """How many pods the ScheduleAnyway constraints count there, None where a key is missing; few are best."""
    score = 0.0
    for constraint in metadata:
        if constraint.key not in node.labels:
            return None
        score += constraint.score(node)
    return int(score)


# ==== 17. Affinity between pods =========================================================================

# Two pods have `bonds` if a term of one means the other. `affinity_around` adds up the bonds of a pod with
# all that are placed, by the domains where these are. From that, `affine_domains` has where the pod must be
# and must not be, for the predicate; `affine_scores` where it is welcome, for the priority.


class AffinityTerm:
    """A term of inter-pod affinity or anti-affinity of a pod. Raises InvalidSelector."""

    def __init__(self, pod, term, weight):
        self.weight = weight
        self.key = pick(term, str, "topologyKey")
        self.requirements = pod_selector(term, pod)
        self.namespace_selector = label_selector(term.get("namespaceSelector"))
        by_default = [pod.namespace] if self.namespace_selector is None else []
        self.namespaces = pick(term, list, "namespaces", of=str) or by_default

    def selects(self, pod, snapshot):
        """Say whether the term means this pod."""
        if not satisfies(pod.labels, self.requirements):
            return False
        if pod.namespace in self.namespaces:
            return True
        namespace = snapshot.objects["namespaces"].get(pod.namespace, {}) if self.namespace_selector else {}
        return satisfies(pick(namespace, dict, "metadata", "labels"), self.namespace_selector)


@kept_with_pod
def affinity_terms(pod):
    """The pod's {name of a list: its affinity terms, none if one is invalid}; and what is invalid."""
    lists = {}
    problem = None
    for when, side in itertools.product(("required", "preferred"), ("Affinity", "AntiAffinity")):
        weights = collections.Counter()  # terms that are alike count as one that weighs as much as they
        lists[when + side] = []
        try:
            for raw in pick(pod.spec, list, "affinity", f"pod{side}", f"{when}{WHEN}", of=dict):
                term = raw.get("podAffinityTerm") or raw
                weights[json.dumps(term)] += pick(raw, int, "weight") or 1
            lists[when + side] = [
                AffinityTerm(pod, json.loads(term), weight) for term, weight in weights.items()]
        except Malformed as error:
            problem = f"parsing pod: {when}{side}Terms: {error}"  # as upstream, the last one
    return lists, problem


def bonds(pod, other, snapshot):
    """Return {topology key: {what: weight}} of the affinity terms of either pod that mean the other one."""
    own, _ = affinity_terms(pod)
    theirs, _ = affinity_terms(other)
    meets_all = all(term.selects(other, snapshot) for term in own["requiredAffinity"])
    found = collections.defaultdict(collections.Counter)
    for what, terms, selected, factor in (
        ("together", own["requiredAffinity"] if meets_all else [], other, 1),
        ("apart", own["requiredAntiAffinity"], other, 1),
        ("repelling", theirs["requiredAntiAffinity"], pod, 1),
        ("attached", theirs["requiredAffinity"], pod, 1),
        ("preferred", own["preferredAffinity"], other, 1),
        ("preferred", own["preferredAntiAffinity"], other, -1),
        ("preferred", theirs["preferredAffinity"], pod, 1),
        ("preferred", theirs["preferredAntiAffinity"], pod, -1),
    ):
        for term in terms:
            if term.selects(selected, snapshot):
                found[term.key][what] += factor * term.weight
    return found


def affinity_at(pod, node, snapshot, bonds_by_kind):
    """Return (what, (topology key, value), weight) of all that is between the pod and those on the node."""
    found = []
    for kind, others in pods_by_kind(node).items():
        if kind not in bonds_by_kind:
            bonds_by_kind[kind] = bonds(pod, others[0], snapshot)
        by_key = bonds_by_kind[kind]
        for domain in node.labels.items() if by_key else ():
            weights = by_key.get(domain[0], {})
            found += [(what, domain, weight * len(others)) for what, weight in weights.items()]
    return found


def affinity_around(pod, snapshot):
    """Sum up what is between the pod and those on all nodes, as {what: {(topology key, value): weight}}."""
    nodes = snapshot.nodes if pod.is_affine else affine_nodes(snapshot)
    if not nodes:
        return sum_up_affinity(nodes, {})
    bonds_by_kind = snapshot.bonds.setdefault(kind_of(pod), {})
    return recall(
        "affinity", kind_of(pod), snapshot, nodes,
        lambda node: affinity_at(pod, node, snapshot, bonds_by_kind),
        basis=snapshot.objects["namespaces"], then=sum_up_affinity)


def affine_nodes(snapshot):
    """Return the nodes, {name: Node}, on which there are pods with affinity or anti-affinity."""
    return recall(
        "affine nodes", "", snapshot, snapshot.nodes,
        lambda node: any(other.is_affine for other in node.pods.values()),
        then=lambda nodes, is_affine: {name: node for name, node in nodes.items() if is_affine[name]})


def sum_up_affinity(nodes, at_nodes):
    """Return {what: {(topology key, value): weight}} of what is at the nodes."""
    around = collections.defaultdict(collections.Counter)
    for parts in at_nodes.values():
        for what, domain, weight in parts:
            around[what][domain] += weight
    return around


AffineDomains = collections.namedtuple("AffineDomains", "keys may_begin together apart repelling")


def affine_domains(pod, nodes, snapshot):
    """Where the pod must be, and must not be, by the inter-pod affinity of all pods. Domains are labels.

    By each of the `keys` it must be in a domain with pods that meet all its terms (`together`). If there are
    none yet, and it meets them itself, any will do (`may_begin`).
    `apart` are the domains with pods that it must not be with; `repelling` those with pods that refuse it.
    """
    terms, problem = affinity_terms(pod)
    if problem:
        raise Rejected(problem)
    around = affinity_around(pod, snapshot)
    wanted = terms["requiredAffinity"]
    if not (wanted or around["apart"] or around["repelling"]):
        return SKIP
    may_begin = not around["together"] and all(term.selects(pod, snapshot) for term in wanted)
    domains = [set(around[what]) for what in ("together", "apart", "repelling")]
    return AffineDomains({term.key for term in wanted}, may_begin, *domains)


@predicate("MatchInterPodAffinity", metadata=affine_domains, plugin="InterPodAffinity", by_default=1,
           looks_at={"required pod affinity": functools.partial(requires, "podAffinity"),
                     "required pod anti-affinity": functools.partial(requires, "podAntiAffinity")})
def match_inter_pod_affinity(pod, node, metadata):
    """In the node's domains are the pods that it must be with, none that it must not, none that repel it."""
    here = node.labels.items()
    if metadata.may_begin:
        has_company = metadata.keys <= node.labels.keys()
    else:
        has_company = all((key, node.labels.get(key)) in metadata.together for key in metadata.keys)
    if not has_company:
        reason = "node(s) didn't match pod affinity rules"
    elif not metadata.apart.isdisjoint(here):
        reason = "node(s) didn't match pod anti-affinity rules"
    elif not metadata.repelling.isdisjoint(here):
        reason = "node(s) didn't satisfy existing pods anti-affinity rules"
    else:
        return
    yield "node(s) didn't match pod affinity/anti-affinity"
    yield reason


def affine_scores(pod, nodes, snapshot, hard_weight=1):
    """For each (topology key, value) domain, the weights of the terms for and against the pod's going there.

    hard_weight: of other pods' required terms.
    """
    _, problem = affinity_terms(pod)
    if problem:
        raise Unschedulable(f'running PreScore plugin "InterPodAffinity": {problem}')
    around = affinity_around(pod, snapshot)
    scores = collections.Counter(around["preferred"])
    for domain, count in around["attached"].items():  # to pods that must be where this one is
        scores[domain] += count * hard_weight
    return scores


def normalize_affinity(points, among=(0,)):
    """Stretch scores from the lowest to the highest, with a 0 among them, to 0 to 100."""
    scores = [*points.values(), *among]
    low = min(scores)
    high = max(scores)
    span = high - low
    return {name: int(100 * ((score - low) / span)) if span else 0 for name, score in points.items()}


@priority("InterPodAffinityPriority", metadata=affine_scores, reduce=normalize_affinity,
          plugin="InterPodAffinity", by_default=1)
def inter_pod_affinity(pod, node, metadata):
    """The summed weights of the preferences for and against the domains that the node is in."""
    return sum([metadata[pair] for pair in node.labels.items()]) if metadata else 0


# ==== 18. Disks, and how many a node can attach =========================================================

def claims_of(pod, snapshot, keys=None):
    """Yield (name, claim, volume) for each claim of the pod, or each of these; what is not there is empty."""
    for key in pod.claims if keys is None else keys:
        claim = snapshot.objects["persistentvolumeclaims"].get(key, {})
        volume_name = pick(claim, str, "spec", "volumeName")
        volume = snapshot.objects["persistentvolumes"].get(volume_name, {}) if claim else {}
        yield key.partition("/")[2], claim, volume


def class_name_of(thing):
    """Return the name of the storage class of a claim or a volume."""
    annotations = pick(thing, dict, "metadata", "annotations", of=str)
    of_old = annotations.get("volume.beta.kubernetes.io/storage-class")
    return pick(thing, str, "spec", "storageClassName") if of_old is None else of_old


def storage_class_of(claim, snapshot):
    """Return the storage class of a claim; empty if it is not there."""
    return snapshot.objects["storageclasses"].get(class_name_of(claim), {})


DisksAndClaims = collections.namedtuple("DisksAndClaims", "disks claim_in_use")


def disks_and_claims(pod, nodes, snapshot):
    """Its network disks; and whether a claim of it that is for one pod (ReadWriteOncePod) is in use."""
    exclusive = set()
    for name, claim, _ in claims_of(pod, snapshot, pod.named_claims):
        if "ReadWriteOncePod" in pick(claim, list, "spec", "accessModes"):
            exclusive.add(f"{pod.namespace}/{name}")
    in_use = (claim for node in nodes for other in node.pods.values() for claim in other.named_claims)
    claim_in_use = bool(exclusive) and not exclusive.isdisjoint(in_use)
    disks = disks_of(pod)
    return DisksAndClaims(disks, claim_in_use) if disks or claim_in_use else SKIP


def no_conflict_of_disks_or_claims(pod, node, metadata):
    """NoDiskConflict also says that no other pod has a claim that is for one pod only."""
    conflicts = list(no_disk_conflict(pod, node))
    yield from conflicts
    if metadata.claim_in_use and not conflicts:
        yield ("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
               "already in-use by another pod")


PREDICATES["NoDiskConflict"] = replace(
    PREDICATES["NoDiskConflict"], function=no_conflict_of_disks_or_claims, metadata=disks_and_claims)


# The field `identity` of a volume's `source` identifies a disk, and a node can have `limit` of them.
CloudDisks = collections.namedtuple("CloudDisks", "source identity limit")
CLOUD_DISKS = {  # provisioner -> its disks
    "kubernetes.io/aws-ebs": CloudDisks("awsElasticBlockStore", "volumeID", 39),  # on AWS Nitro: 25
    "kubernetes.io/gce-pd": CloudDisks("gcePersistentDisk", "pdName", 16),
    "kubernetes.io/azure-disk": CloudDisks("azureDisk", "diskName", 16),
    "kubernetes.io/cinder": CloudDisks("cinder", "volumeID", 256)}


def number_in_environment(name):
    """Return the number that a variable of the environment says; 0 if it says none."""
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else 0


KUBE_MAX_PD_VOLS = number_in_environment("KUBE_MAX_PD_VOLS")  # 0: the limits above


LOCAL = {"configMap", "downwardAPI", "emptyDir", "hostPath", "persistentVolumeClaim", "projected", "secret"}


@kept_with_pod
def inline_disks(pod):
    """Those of the pod's volumes that may be disks outside of its node, and are no claims."""
    return [volume for volume in pod.volumes if LOCAL.isdisjoint(volume)]


def volumes_of(pod, snapshot):
    """Return the sources of the pod's volumes, inline or claimed; and {name: claim} of claims without one."""
    sources = [*inline_disks(pod)]
    unbound = {}
    for name, claim, volume in claims_of(pod, snapshot):
        if volume:
            sources.append(pick(volume, dict, "spec"))
        elif claim:
            unbound[name] = claim
    return sources, unbound


def attachments(pod, snapshot):
    """Return the (driver, identity) of the pod's cloud disks, inline or claimed, and of its CSI volumes."""
    sources, unbound = volumes_of(pod, snapshot)
    attached = attached_by(sources, CLOUD_DISKS)
    for name, claim in unbound.items():  # what is yet to be provisioned is known by its claim
        class_name = pick(claim, str, "spec", "storageClassName")
        named = snapshot.objects["storageclasses"].get(class_name, {})
        built_in = pick(named, str, "provisioner")
        if built_in in CLOUD_DISKS:
            attached.add((built_in, (pod.namespace, name)))
        of_csi = storage_class_of(claim, snapshot)  # which reads annotations, too
        provisioner = pick(of_csi, str, "provisioner")
        if provisioner not in CLOUD_DISKS:
            attached.add((provisioner, (pod.namespace, name)))
    return attached


def attached_by(sources, drivers):
    """Return the (driver, identity) of disks and of CSI volumes; CSI's that are inline have no handle."""
    attached = {(pick(source, str, "csi", "driver"), pick(source, str, "csi", "volumeHandle"))
                for source in sources if pick(source, dict, "csi").get("volumeHandle")}
    for driver, disks in drivers.items():
        attached |= {(driver, pick(source, str, disks.source, disks.identity))
                     for source in sources if source.get(disks.source)}
    return attached


def attached_to(node, snapshot, attachments=attachments):
    """Return what is attached for the pods on a node."""
    return set().union(*(attachments(pod, snapshot) for pod in node.pods.values() if pod.volumes))


def volume_limit(driver, node, snapshot):
    """Return how many volumes of a driver the node can attach."""
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


def csi_limit(driver, node, snapshot, otherwise):
    """Return how many volumes of a CSI driver the node's CSINode allows, if it says so."""
    for known in pick(snapshot.objects["csinodes"].get(node.name, {}), list, "spec", "drivers", of=dict):
        room = pick(known, dict, "allocatable")
        if known.get("name") == driver and room.get("count") is not None:
            return pick(room, int, "count")
    return otherwise


def volume_attachments(pod, nodes, snapshot):
    """What is to be attached for the pod, {cloud or None: attachments}; and the snapshot."""
    wanted = collections.defaultdict(set)
    for driver, volume in attachments(pod, snapshot):
        wanted[driver if driver in CLOUD_DISKS else None].add((driver, volume))
    return (wanted, snapshot) if wanted else SKIP


@predicate("MaxCSIVolumeCountPred", metadata=volume_attachments, steady=False, plugin="NodeVolumeLimits",
           by_default=1)
def max_volume_count(pod, node, metadata, cloud=None):
    """The node can attach the volumes of its pods and this one, each counted once: a cloud's, or CSI's."""
    wanted_by_cloud, snapshot = metadata
    wanted = wanted_by_cloud.get(cloud, set())
    attached = attached_to(node, snapshot) if wanted else set()
    # Of CSI volumes only new ones are held against the node. Upstream: plugins/nodevolumelimits
    for driver in {driver for driver, _ in (wanted if cloud else wanted - attached)}:
        if sum(of == driver for of, _ in wanted | attached) > volume_limit(driver, node, snapshot):
            yield "node(s) exceed max volume count"
            return


for name, cloud, plugin in [("MaxEBSVolumeCount", "aws-ebs", "EBSLimits"),
                            ("MaxGCEPDVolumeCount", "gce-pd", "GCEPDLimits"),
                            ("MaxAzureDiskVolumeCount", "azure-disk", "AzureDiskLimits"),
                            ("MaxCinderVolumeCount", "cinder", "CinderLimits")]:
    predicate(name, metadata=volume_attachments, steady=False, plugin=plugin,
              by_default=int(cloud != "cinder"))(
        functools.partial(max_volume_count, cloud=f"kubernetes.io/{cloud}"))


# ==== 19. Claims and their volumes ======================================================================

SELECTED_NODE = "volume.kubernetes.io/selected-node"
ZONE_LABELS = {f"{prefix}.kubernetes.io/{what}"  # of volumes and nodes
               for prefix in ("topology", "failure-domain.beta") for what in ("zone", "region")}
ClaimsToBind = collections.namedtuple("ClaimsToBind", "bound delayed")
Volume = collections.namedtuple("Volume", "raw reach")  # reach: what a node's labels must meet one of
EVERYWHERE = [[]]


class DelayedClaim:
    """A claim that gets a volume once a node is chosen; what of that is the same for all nodes, is kept."""

    def __init__(self, claim, snapshot):
        self.claim = claim
        self.snapshot = snapshot
        self.size = storage(claim, "resources", "requests")
        # The name of the node for which a volume is to be provisioned, or None.
        self.selected_node = pick(claim, dict, "metadata", "annotations").get(SELECTED_NODE)
        self.storage_class = storage_class_of(claim, snapshot)

    @functools.cached_property
    def volumes(self):
        """The free Volumes that serve the claim, the smallest first; or its own one alone."""
        free = []
        claim = self.claim
        selector = label_selector(pick(claim, dict, "spec").get("selector") or {})
        for volume in self.snapshot.objects["persistentvolumes"].values():
            owner = pick(volume, dict, "spec", "claimRef")
            if not could_serve(volume, claim):
                continue
            if owner and names_claim(owner, claim):
                return [with_reach(volume)]
            is_free = not owner and pick(volume, str, "status", "phase") == "Available"
            is_selected = satisfies(pick(volume, dict, "metadata", "labels"), selector)
            modes = set(pick(volume, list, "spec", "accessModes", of=str))
            if is_free and is_selected and modes.issuperset(pick(claim, list, "spec", "accessModes", of=str)):
                free.append(volume)
        free.sort(key=lambda volume: storage(volume, "capacity"))
        return [with_reach(volume) for volume in free]

    def volume_for(self, node, taken):
        """Return the first of the volumes that is not taken, and can be used on the node, or None."""
        for volume in self.volumes:
            if volume.raw["metadata"]["name"] not in taken and satisfies_one(node.labels, volume.reach):
                return volume.raw
        return None

    @functools.cached_property
    def room(self):
        """Where there is storage for a new volume: requirements of a node's labels, one of which it meets."""
        driver = self.snapshot.objects["csidrivers"].get(pick(self.storage_class, str, "provisioner"), {})
        if not pick(driver, bool, "spec", "storageCapacity"):
            return EVERYWHERE
        room = []
        for capacity in self.snapshot.objects["csistoragecapacities"].values():
            largest = capacity.get("maximumVolumeSize") or capacity.get("capacity") or 0
            is_of_class = capacity.get("storageClassName") == class_name_of(self.claim)
            if is_of_class and quantity(str(largest)) >= self.size:
                room.append(label_selector(capacity.get("nodeTopology")))
        return room


def why_unusable(name, claim, pod):
    """Return why the pod cannot use a claim, whatever the node, or None. Upstream: podHasPVCs."""
    if not claim:
        return f'persistentvolumeclaim "{name}" not found'
    if pick(claim, str, "metadata", "deletionTimestamp"):
        return f'persistentvolumeclaim "{name}" is being deleted'
    return None


def claims_to_bind(pod, nodes, snapshot, why_unusable=why_unusable):
    """The volumes of the pod's bound claims; and those that wait for a consumer, in upstream's order."""
    bound = {}
    delayed = []
    is_any_immediate = False
    for name, claim, volume in claims_of(pod, snapshot):
        problem = why_unusable(name, claim, pod)
        if problem:
            raise Rejected(problem)
        has_volume = pick(claim, str, "spec", "volumeName")
        if has_volume and "pv.kubernetes.io/bind-completed" in pick(claim, dict, "metadata", "annotations"):
            bound[name] = volume and with_reach(volume)
        elif has_volume or not waits_for_consumer(claim, snapshot):
            is_any_immediate = True
        else:
            delayed.append(DelayedClaim(claim, snapshot))
    if is_any_immediate:
        raise Rejected("pod has unbound immediate PersistentVolumeClaims")
    selected = [each for each in delayed if each.selected_node is not None]
    others = [each for each in delayed if each.selected_node is None]
    delayed = selected + sorted(others, key=lambda each: each.size)
    return ClaimsToBind([*bound.values()], delayed) if pod.claims else SKIP


def waits_for_consumer(claim, snapshot):
    """Say whether a claim gets a volume once a pod wants it, and not at once."""
    return storage_class_of(claim, snapshot).get("volumeBindingMode") == "WaitForFirstConsumer"


def storage(thing, *path):
    """Return the bytes that a claim requests or a volume has."""
    return quantity(str(pick(thing, dict, "spec", *path).get("storage") or 0))


def bind_volumes(pod, node, snapshot, timeout=600, late="timed out waiting for the condition"):
    """Set volumes aside for the pod's claims, or ask for their provisioning. Controllers do the rest.

    timeout: the seconds that this may take; late: what is said then.
    """
    if not pod.claims:
        return None
    failing = "binding volumes:"
    has_waited = pod.record.waits_for is WaitsFor.PRE_BIND
    active = snapshot.policies[pod.scheduler].predicates
    own = [rule for rule in active if rule.name == "CheckVolumeBinding"]
    [prepared] = prepare(own, pod, {node.name: node}, snapshot)
    claims = prepared.metadata
    reasons = prepared.reasons(pod, node)  # a rule may have held the pod meanwhile
    if reasons:
        raise Unschedulable(f"{failing} {reasons[0]}")
    patches = []
    for delayed, volume in find_volumes(claims.delayed, node):
        claim = delayed.claim
        metadata = claim["metadata"]
        if volume and not volume["spec"].get("claimRef"):
            owner = {name: metadata.get(name) for name in ("namespace", "name", "uid")}
            reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **owner}
            pod.record.set_aside(volume["spec"], "claimRef", reference)
            patches.append(patch(volume, "persistentvolumes", spec={"claimRef": reference},
                                 annotations={"pv.kubernetes.io/bound-by-controller": "yes"}))
        elif not volume and delayed.selected_node is None:
            # The claim thereby remembers the node: its pods fit no other one until it is bound.
            annotations = pick(metadata, dict, "annotations") | {SELECTED_NODE: node.name}
            pod.record.set_aside(metadata, "annotations", annotations)
            patches.append(patch(claim, "persistentvolumeclaims", annotations={SELECTED_NODE: node.name}))
    if patches and has_waited:
        raise Unschedulable(f"{failing} the volume or the node that was chosen has been given up")
    if claims.delayed and has_waited and time.monotonic() - pod.record.since > timeout:
        raise Unschedulable(f"{failing} {late}")
    is_awaited = claims.delayed and snapshot.is_live  # else nobody would bind them
    return (patches, "volumes are being bound or provisioned") if is_awaited else None


def patch(thing, resource, annotations, **more):
    """Return the request that changes an object, unless somebody else has changed it meanwhile."""
    metadata = thing["metadata"]
    place = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
    return "PATCH", f"/api/v1/{place}{resource}/{metadata['name']}", {
        "metadata": {"resourceVersion": metadata.get("resourceVersion"), "annotations": annotations}, **more}


@predicate("CheckVolumeBinding", metadata=claims_to_bind, pre_bind=bind_volumes, steady=False,
           plugin="VolumeBinding", by_default=1, looks_at={"claims": lambda pod, node: pod.claims})
def check_volume_binding(pod, node, metadata, gone="pvc(s) bound to non-existent pv(s)",
                         out_of_reach="node(s) had volume node affinity conflict"):
    """The node can reach the volumes of the pod's bound claims, and has or gets volumes for the others."""
    for volume in metadata.bound:
        if not volume:
            yield gone
            break
        if not satisfies_one(node.labels, volume.reach):
            yield out_of_reach
            break
    if any(delayed.selected_node not in (None, node.name) for delayed in metadata.delayed):
        yield "node(s) didn't find available persistent volumes to bind"
        return
    for delayed, volume in find_volumes(metadata.delayed, node):
        reason = None if volume else why_not_provisioned(delayed, node)
        if reason:  # of the first claim that has one
            yield reason
            break


def find_volumes(delayed, node):
    """Yield (DelayedClaim, volume) pairs; where there is no volume, one is to be provisioned.

    Upstream: plugins/volumebinding, and volume/scheduling/scheduler_binder.go.
    """
    taken = set()
    for each in delayed:
        volume = None
        if each.selected_node is None:
            volume = each.volume_for(node, taken)
        if volume:
            taken.add(volume["metadata"]["name"])
        yield each, volume


def why_not_provisioned(delayed, node):
    """Return why no volume can be provisioned for a claim on a node, or None."""
    if not can_provision(delayed.storage_class, node):
        return "node(s) didn't find available persistent volumes to bind"
    if not satisfies_one(node.labels, delayed.room):
        return "node(s) did not have enough free storage"
    return None


def can_provision(storage_class, node):
    """Say whether the class's provisioner makes volumes for this node."""
    if pick(storage_class, str, "provisioner") in ("", "kubernetes.io/no-provisioner"):
        return False
    topologies = pick(storage_class, list, "allowedTopologies", of=dict)
    for topology in topologies:
        wanted = [Requirement(pick(each, str, "key"), "In", pick(each, list, "values", of=str))
                  for each in pick(topology, list, "matchLabelExpressions", of=dict)]
        if wanted and satisfies(node.labels, wanted):
            return True
    return not topologies


def could_serve(volume, claim):
    """Say whether a volume is of the size, classes and mode that a claim asks for, and is to stay."""
    modes = {pick(thing, str, "spec", "volumeMode") or "Filesystem" for thing in (volume, claim)}
    attributes = {pick(thing, str, "spec", "volumeAttributesClassName") for thing in (volume, claim)}
    is_alike = class_name_of(volume) == class_name_of(claim) and len(modes) == len(attributes) == 1
    is_large_enough = storage(volume, "capacity") >= storage(claim, "resources", "requests")
    stays = not pick(volume, str, "metadata", "deletionTimestamp")
    return is_large_enough and is_alike and stays


def names_claim(owner, claim):
    """Say whether a volume's claimRef names this claim; it may do so without a uid."""
    metadata = claim["metadata"]
    same_name = all(owner.get(name) == metadata.get(name) for name in ("namespace", "name"))
    return same_name and (owner.get("uid") or metadata.get("uid")) == metadata.get("uid")


def with_reach(volume):
    """Return a Volume: by the label expressions of its nodeAffinity, the nodes on which it can be used."""
    required = pick(volume, dict, "spec", "nodeAffinity", "required")
    terms = valid_terms(pick(required, list, "nodeSelectorTerms", of=dict))
    return Volume(volume, [on_labels for on_labels, _ in terms] if required else EVERYWHERE)


def satisfies_one(labels, terms):
    """Say whether labels meet all requirements of one of the terms."""
    return any(satisfies(labels, requirements) for requirements in terms)


VolumeZones = collections.namedtuple("VolumeZones", "labels problem")


def zones_of_volumes(pod, nodes, snapshot):
    """The (zone or region label, its values) of the pod's volumes; and what is wrong with a claim."""
    labels = {}
    for name, claim, volume in claims_of(pod, snapshot, pod.named_claims):
        problem = None if volume else dangling(name, claim, snapshot)
        if problem:
            return VolumeZones(labels, problem)
        for label, text in pick(volume, dict, "metadata", "labels").items():
            zones = tuple(zone.strip() for zone in text.split("__")) if label in ZONE_LABELS else [""]
            if all(zones):
                labels[label, zones] = None  # in this order, and each once
    return VolumeZones(labels, None) if labels else SKIP


@predicate("NoVolumeZoneConflict", metadata=zones_of_volumes, plugin="VolumeZone", by_default=1)
def no_volume_zone_conflict(pod, node, metadata):
    """The zone and region labels of the pod's volumes allow the node's. A claim to nowhere is an error."""
    if node.labels.keys().isdisjoint(ZONE_LABELS):
        return
    for label, zones in metadata.labels:
        if node.labels.get(label) not in zones:
            yield "node(s) had no available volume zone"
            return
    if metadata.problem:
        raise Unschedulable(
            f'running "VolumeZone" filter plugin for pod "{pod.name}": {metadata.problem}')


def dangling(name, claim, snapshot):
    """Return what is wrong with a claim that leads to no volume; None if it waits for its first consumer."""
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


# ==== 20. The other extension points ====================================================================

# A rule may have functions for the other extension points of the scheduling framework, too: hooks, which are
# options of its decorator. What stands at preFilter, filter, preScore, score and normalizeScore is its own
# function, with `metadata` and `reduce`.
#
# The loop's thread calls all but bind and post_bind, one after another. They need no locks, and may look at
# all of the snapshot. But all pods wait for them: they should be quick, and return requests, not send these.
# bind and post_bind are called in other threads, for several pods at once. They may send requests, must not
# change the pod or look at nodes and snapshots, and need locks for what they share. bind has a minute.
# A hook that breaks, or calls sys.exit, does harm to its pod only (queue_sort: has no effect).


def are_requests(answer):
    """Say whether an answer is a list of requests, each of which writes something."""
    return isinstance(answer, (list, tuple)) and all(
        isinstance(each, (list, tuple)) and len(each) == 3 and each[0] in ("POST", "PUT", "PATCH", "DELETE")
        for each in answer)


def is_remedy(answer):
    """Say whether an answer is a pair: a list of requests, and what they do; or empty."""
    return isinstance(answer, tuple) and (not answer or (len(answer) == 2 and are_requests(answer[0])))


def with_reason(answer):
    """Return an answer of a rule as a pair: what it wants; and why, "" if it does not say."""
    is_pair = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], str)
    return answer if is_pair else (answer, "")


@dataclass
class ExtensionPoint:
    """A point at which a rule may have a function: what that takes, and may return."""

    parameters: str
    in_configuration: str  # what a KubeSchedulerConfiguration calls it
    is_fine: Callable = lambda answer: True  # says whether an answer may be returned; None always may
    expected: str = ""  # what may be returned, in words
    refusal: str = ""  # how kube-scheduler says that a plugin refuses a pod there


# By the option of the decorator. A request is (method, path, body).
EXTENSION_POINTS = {
    # Why the pod is not ready to be tried; or None.
    "pre_enqueue": ExtensionPoint(
        "pod", "preEnqueue",
        lambda answer: isinstance(answer, str), "why the pod is not to be tried yet, a string"),
    # A key: pods with lower ones are tried first.
    "queue_sort": ExtensionPoint("pod", "queueSort"),
    # No node fits: requests that may help, and what they do; or None.
    "post_filter": ExtensionPoint(
        "pod failed snapshot", "postFilter", is_remedy, "(a list of requests, what they do)"),
    # Takes note that the pod goes to the node; may raise Unschedulable.
    "reserve": ExtensionPoint(
        "pod node snapshot", "reserve",
        lambda answer: answer is not False, "raise Unschedulable",
        refusal='running Reserve plugin "{rule}"'),
    # Forgets that, even if another rule's `reserve` failed. Requests; or None.
    "unreserve": ExtensionPoint(
        "pod snapshot", "reserve", are_requests, "a list of requests, (method, path, body)"),
    # None approves, Unschedulable denies. Seconds, or these and why: it is asked again, for so long.
    "permit": ExtensionPoint(
        "pod node snapshot", "permit",
        lambda answer: type(with_reason(answer)[0]) in (int, float), "seconds, or (seconds, why)",
        refusal='rejected pod "{pod}" by permit plugin "{rule}"'),
    # None: go on. Requests, maybe [], or these and why: they are sent, and it is asked again in each pass.
    "pre_bind": ExtensionPoint(
        "pod node snapshot", "preBind",
        lambda answer: are_requests(with_reason(answer)[0]),
        "a list of requests, (method, path, body), or (these, why)",
        refusal='running PreBind plugin "{rule}"'),
    # Binds the pod, and returns True; else the next one is asked, at last the script.
    "bind": ExtensionPoint(
        "pod node_name", "bind", lambda answer: isinstance(answer, bool), "True if it has bound the pod"),
    # The pod is bound.
    "post_bind": ExtensionPoint("pod node_name", "postBind")}


def call_hook(rule, point, *things):
    """Return what a rule answers at an extension point. Raises TypeError if it may not answer that."""
    there = EXTENSION_POINTS[point]
    try:
        answer = rule.hooks[point](*things)
    except Unschedulable as error:
        if not there.refusal:
            raise
        refusal = there.refusal.format(rule=rule.plugin or rule.title, pod=things[0].name)
        raise Unschedulable(f"{refusal}: {error}") from error
    if answer is not None and not there.is_fine(answer):
        raise wrong_answer(rule, f"{point}: return None or {there.expected}", answer, rule.hooks[point])
    return answer


def ready(pod, policy):
    """Say whether the pod is to be tried at all."""
    if pod.terminating or pod.gates or pod.phase in ("Succeeded", "Failed"):
        return False
    reason = why_not_yet(pod, policy)
    if reason:
        warn_once(f"{pod.key} is not tried yet: {reason}")
    return not reason


def why_not_yet(pod, policy):
    """Return why a rule (pre_enqueue) does not want the pod to be tried, with the rule's name; or ""."""
    for rule in policy.rules_with["pre_enqueue"]:
        try:
            reason = call_hook(rule, "pre_enqueue", pod)
        except (Exception, SystemExit) as error:
            FAILURE.set()
            reason = what_broke(error)
        if reason:
            return f"{rule.title}: {reason}"
    return ""


def unreserve(decision, snapshot):
    """Have the rules forget that the pod was to go to a node. Return the requests that they want sent."""
    requests = []
    for rule in decision.policy.rules_with["unreserve"]:
        with warn_if_broken(decision.pod.key):
            requests += call_hook(rule, "unreserve", decision.pod, snapshot) or []
    return requests


# ==== 21. What is asked whatever the Policy =============================================================

def reasons_supposing(pod, node, snapshot, gone=(), there=()):
    """Return why the predicates refuse the node to the pod if some pods were gone and others there."""
    changed = with_pods(node, [each for each in [*node.pods.values(), *there] if each not in gone])
    supposed = replace(snapshot, nodes=snapshot.nodes | {node.name: changed}, memory=snapshot.memory.copy())
    supposed.note_change(changed)
    try:
        predicates = snapshot.policies[pod.scheduler].predicates_to_ask()
        for rule in prepare(predicates, pod, supposed.nodes, supposed):
            reasons = rule.reasons(pod, changed)
            if reasons:
                return reasons
        return []
    except Rejected as error:
        return [str(error)]


def claims_of_devices(pod, nodes, snapshot):
    """Reject a pod that claims devices, unless it runs, so that it has them."""
    if pod.spec.get("resourceClaims") and not pod.spec.get("nodeName"):
        raise Rejected("pod claims devices (spec.resourceClaims), which this scheduler does not allocate")
    return SKIP


def nominated_elsewhere(pod, nodes, snapshot):
    """Return {node: the other pods, no less important, for which room is being made there}."""
    if not snapshot.nominated:
        return SKIP
    others = collections.defaultdict(list)
    placed = set().union(*(node.pods for node in nodes))
    for other in snapshot.nominated:
        is_done = other.phase in ("Succeeded", "Failed") or other.uid in placed
        if other.uid != pod.uid and other.priority >= pod.priority and not is_done:
            others[other.nominated_node].append(other)
    return (others, snapshot) if others else SKIP


def room_for_nominated(pod, node, metadata):
    """The pod still fits once those are there that are nominated to the node. Upstream: addNominatedPods."""
    others, snapshot = metadata
    return reasons_supposing(pod, node, snapshot, there=others[node.name]) if node.name in others else []


def nominate(pod, node_name, snapshot):
    """Nominate a pod to a node, or to none: for the pods that come next, and by the request returned."""
    snapshot.nominated = [other for other in snapshot.nominated if other.uid != pod.uid]
    if node_name:
        status = pick(pod.raw, dict, "status") | {"nominatedNodeName": node_name}
        snapshot.nominated.append(Pod(pod.raw | {"status": status}))
    return "PATCH", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status", {
        "metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node_name}}


ALWAYS_ASKED = [  # whatever the Policy
    FullRule("predicates", "Devices", lambda pod, node: (), metadata=claims_of_devices, title="devices",
             steady=True),
    FullRule("predicates", "NominatedPods", room_for_nominated, metadata=nominated_elsewhere,
             title="room for nominated pods")]


##########################################################################################################
# PART IV. WHAT PEOPLE WRITE                                                                             #
# Files, rules of one's own, and the Policy.                                                             #
##########################################################################################################

import ast
import difflib
import inspect
import runpy
from importlib.machinery import PathFinder
from numbers import Real


# ==== 22. Files =========================================================================================


# What an extender's httpTimeout is, in a Policy and in a configuration.
TIMEOUTS = {int: "a whole number of nanoseconds, such as 30000000000", str: 'a duration, such as "30s"'}


def decode(value, schema, where, lenient=False):
    """Check a value against a schema, and return it without nulls. Raises InputError, with all that is wrong.

    lenient: as kube-scheduler reads extenders, whatever the case of a field's name, and with unknown fields.
    """
    problems = []
    decoded = decode_part(value, schema, where, lenient, problems)
    refuse(problems)
    return decoded


def decode_part(value, schema, where, lenient, problems):
    """Return a value without nulls, and without what is wrong; add that to the problems."""
    kind = schema if isinstance(schema, type) else {range: int, set: str}.get(type(schema), type(schema))
    if value is None:
        return kind()
    expected = TIMEOUTS[kind] if where.endswith(".httpTimeout") else TYPE_NAMES[kind]
    fits = type(value) is kind or (kind is float and type(value) is int)
    if isinstance(schema, range) and fits:
        fits = value in schema
        expected = f"from {schema[0]} to {schema[-1]}"
    elif isinstance(schema, set):
        fits = fits and value in schema
        expected = f"one of {', '.join(sorted(schema))}"
    elif kind in (int, float):
        fits = fits and abs(value) < (2**63 if kind is int else math.inf)
    if not fits:
        problems.append(f"{where}: expected {expected}, got {in_short(value)}")
        return kind()
    if isinstance(schema, list):
        return [decode_part(item, schema[0], f"{where}[{i}]", lenient, problems)
                for i, item in enumerate(value)]
    if isinstance(schema, dict):
        return decode_fields(value, schema, where, lenient or schema is EXTENDER, problems)
    return value


def decode_fields(value, schema, where, lenient, problems):
    """Return those fields of an object that are known and not null; add what is wrong to the problems."""
    names = {name.lower() if lenient else name: name for name in schema}
    decoded = {}
    for key, item in value.items():
        place = f"{where}.{key}".lstrip(".")
        name = names.get(key.lower() if lenient else key)
        if name and item is not None:
            decoded[name] = decode_part(item, schema[name], place, lenient, problems)
        elif not name and not lenient:
            problems.append(f"{place}: unknown field{did_you_mean(key, names, '')}")
    return decoded


def refuse(problems):
    """Raise InputError with all that is wrong, each problem once, if there is any."""
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))


@contextlib.contextmanager
def noted(problems):
    """Add to the problems what InputError ends this block, and go on behind it: there may be others."""
    try:
        yield
    except InputError as error:
        problems.append(str(error))


def in_short(value):
    """Return a value as JSON, of which there is only the beginning, in whole words, if it is long."""
    return words_of(json.dumps(value, default=str), 60)


def words_of(text, size):
    """Return a text of about so many characters; one that is longer ends behind a word, with dots."""
    return text if len(text) <= size else f"{text[:size].rpartition(' ')[0] or text[:size]} ..."


def passed_over(value, schema, where):
    """Yield the fields that a schema lacks in a value which was decoded as leniently as extenders are."""
    if isinstance(schema, list):
        for i, item in enumerate(value or ()):
            yield from passed_over(item, schema[0], f"{where}[{i}]")
    elif isinstance(schema, dict):
        names = {name.lower(): name for name in schema}
        for key, item in (value or {}).items():
            place = f"{where}.{key}"
            if key.lower() in names:
                yield from passed_over(item, schema[names[key.lower()]], place)
            else:
                hint = did_you_mean(key, schema, "")
                yield f"{place}: unknown field, which is passed over, as in kube-scheduler{hint}"


ARGUMENTS = {  # member of a Policy's argument, which says what rule an entry of any name means -> an example
    "labelsPresence": {"labels": ["ssd"], "presence": True},
    "labelPreference": {"label": "ssd", "presence": True},
    "serviceAffinity": {"labels": ["zone"]},
    "serviceAntiAffinity": {"label": "zone"},
    "requestedToCapacityRatioArguments": {
        "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}


def by_argument(member):
    """Return how a Policy names a rule that is meant by this member of an entry's argument."""
    where = "predicates" if member in ("labelsPresence", "serviceAffinity") else "priorities"
    example = json.dumps({member: ARGUMENTS[member]})
    return f'in a Policy, among the {where}: a name of your own, with "argument": {example}'


# Name of a predicate, a priority, a field or a flag -> how that is said today. The last part adds those that
# only a configuration has, and leaves out of these what is said in a Policy.
NAMES_OF_OLD = {
    **dict.fromkeys(["NodeLabel", "labelsPresence"], f"node affinity ({by_argument('labelsPresence')})"),
    **dict.fromkeys(["NodeLabelPriority", "labelPreference"],
                    f"node affinity ({by_argument('labelPreference')})"),
    **dict.fromkeys(["ServiceAffinity", "serviceAffinity"],
                    f"pod affinity ({by_argument('serviceAffinity')})"),
    **dict.fromkeys(["ServiceAffinityPriority", "ServiceAntiAffinityPriority", "serviceAntiAffinity"],
                    f"spread constraints ({by_argument('serviceAntiAffinity')})"),
    **dict.fromkeys(["RequestedToCapacityRatio", "RequestedToCapacityRatioPriority",
                     "requestedToCapacityRatioArguments"],
                    "NodeResourcesFit with scoringStrategy.type RequestedToCapacityRatio "
                    f"({by_argument('requestedToCapacityRatioArguments')})"),
    "ResourceLimitsPriority": "nothing, leave it out",
    "NoVolumeNodeConflict": "VolumeBinding (in a Policy: CheckVolumeBinding)",
    "PodFitsHost": "NodeName (in a Policy: HostName)",  # what Go calls a rule
    "PodMatchNodeSelector": "NodeAffinity (in a Policy: MatchNodeSelector)",
    "version": "apiVersion", "predicateConfigs": "predicates", "priorityConfigs": "priorities",
    "--kubeconfig": "kubectl --kubeconfig FILE proxy", "--master": "--server", "--v": "--verbose",
    **dict.fromkeys(["--policy-configmap", "--policy-configmap-namespace"],
                    "--policy with the file that is in the ConfigMap"),
    "--hard-pod-affinity-symmetric-weight": "hardPodAffinitySymmetricWeight in the Policy"}


def did_you_mean(word, known, otherwise="; is a file missing in --plugins?"):
    """Return a hint: today's way to say it, or the known word nearest to it, or another hint."""
    word = str(word)
    if word in NAMES_OF_OLD and word not in known:
        return f"; today: {NAMES_OF_OLD[word]}"
    near = difflib.get_close_matches(word, known, 1, cutoff=0.75)
    if not near:
        return otherwise
    is_a_slip = difflib.get_close_matches(word, near, 1, cutoff=0.9)  # else it may be somebody else's
    return f'; did you mean "{near[0]}"?' + ("" if is_a_slip else otherwise)


@functools.lru_cache(maxsize=10_000)  # a manifest has few words, but each of them often
def nearly(word, known):
    """Return which of the known words this one nearly is, whatever its case, but not quite; else ""."""
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), names, 1, cutoff=0.82)
    return names[near[0]] if near and word not in known else ""


class YamlLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Reads YAML, but refuses a key that comes twice."""

    def construct_mapping(self, node, deep=False):
        """Build a mapping whose keys are all different."""
        seen = set()
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            if key.value in seen:
                problem = f'duplicate key "{key.value}"'
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_number(loader, node):
    """Read a number; one to the base of sixty, such as 1:30, is a text, as in YAML 1.2 and in Kubernetes."""
    if ":" in node.value:
        return node.value
    return yaml.SafeLoader.yaml_constructors[node.tag](loader, node)


for kind in ("int", "float"):
    YamlLoader.add_constructor(f"tag:yaml.org,2002:{kind}", read_number)


def check_yaml(text):
    """Raise ValueError if YAML is nested too deep to be built, or its aliases stand for too much."""
    size = copied = 0  # characters: all in all, and by aliases
    sizes = {}  # anchor -> what its aliases stand for
    around = []  # of the collections that an event is in: (anchor, the size before it)
    for event in yaml.parse(text, YamlLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = around.pop()
            sizes[anchor] = size - before
        elif isinstance(event, yaml.CollectionStartEvent):
            around.append((event.anchor, size))
            size += 1
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = len(event.value) + 1
            size += sizes[event.anchor]
        elif isinstance(event, yaml.AliasEvent):
            copied += sizes.get(event.anchor, 0)
            size += sizes.get(event.anchor, 0)
        if len(around) > 100:
            raise ValueError(f"line {event.start_mark.line + 1}: it is nested deeper than 100 levels")
        if copied > 10_000_000:
            raise ValueError(f"line {event.start_mark.line + 1}: its aliases stand for too much")


def unique_keys(pairs):
    """Make a dict of pairs. Raises ValueError if a key comes twice."""
    keys = collections.Counter(key for key, _ in pairs)
    if len(keys) < len(pairs):
        raise ValueError(f'duplicate key "{keys.most_common(1)[0][0]}"')
    return dict(pairs)


def text_in(path):
    """Return the text of a file, or of standard input for -."""
    return sys.stdin.read() if str(path) == "-" else Path(path).read_text("utf-8-sig")


def parse(text):
    """Yield the documents of a JSON or YAML text, made of JSON's types only. Raises ValueError."""
    try:
        yield from documents_in(text)
    except ValueError as error:
        before, marks, _ = text.partition("{{")
        line = before.count("\n") + 1
        hint = f"; line {line} has {marks}: render the template first" if marks else ""
        raise ValueError(f"{error}{hint}") from None


def documents_in(text):
    """Yield the documents as `parse` does, which knows templates, too."""
    try:
        if text.lstrip().startswith("{"):
            yield json.loads(text, object_pairs_hook=unique_keys)
        else:  # through JSON, so that dates are strings, and no two places share an object by an alias
            check_yaml(text)
            for document in yaml.load_all(text, YamlLoader):
                yield json.loads(json.dumps(document, default=str))
    except json.JSONDecodeError as error:
        commas = re.finditer(r",\s*[]},]", text)
        stray = next((comma for comma in commas if comma.start() <= error.pos < comma.end()), None)
        at, what = error.pos, error.msg
        if what.endswith("delimiter") or not text[at:].strip():  # what is before is not complete
            at = len(text[:at].rstrip())
        if stray:
            at, what = stray.start(), "stray comma"
        before = text[:at].split("\n")
        after, _, _ = text[at:].partition("\n")
        line = f"{before[-1][-200:]}{after[:200]}".strip()  # all of it, unless it is very long
        raise ValueError(f"line {len(before)}: {what}: {line}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = "".join(text.splitlines()[mark.line:mark.line + 1])
        what = "a tab; YAML is indented by spaces" if line.lstrip(" ").startswith("\t") else error.problem
        raise ValueError(f"line {mark.line + 1}: {what}: {line.strip():.200}".rstrip(": ")) from None
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"it cannot be read: {one_line(error)}") from None


def text_of(error):
    """Return an error's text, even if it cannot say it: a rule's errors may be anything."""
    try:
        return str(error)
    except Exception:
        return "no text"


def one_line(error):
    """Return an error's text on a short line; of a connection's, the cause that requests has wrapped up."""
    text = text_of(error)
    cause = re.search(r"\[(Errno|SSL)[^][]*][^'\"()]*|(?<=')[^']+(?='\)\)$)", text)
    text = cause.group() if cause else text
    return getattr(error, "strerror", None) or at_most(1000, " ".join(text.split()))


# ==== 23. Rules of one's own ============================================================================

# A decorator makes a function a rule (`register`): here, or in a file of --plugins. What is wrong with the
# rule as it is written is said when that file is loaded.


DESCRIPTION = {  # options that are not functions -> their types
    "member": str, "steady": bool, "looks_at": dict, "aliases": [str], "always": bool,
    "by_default": range(2**31), "plugin": str}
PARAMETERS = {  # of a rule's functions, in this order; `metadata` and `arguments` come by their names
    "function": "pod node", "metadata": "pod nodes snapshot", "reduce": "scores", "check": "arguments",
    **{option: point.parameters for option, point in EXTENSION_POINTS.items()}}
OPTIONS = {"argument", "default", *DESCRIPTION, *PARAMETERS} - {"function"}
NOUNS = {"predicates": "predicate", "priorities": "priority"}
OPTION_MEANT = {"pre_filter": "metadata", "pre_score": "metadata", "normalize": "reduce"}
REGISTERS = {**CATALOGUES, "modules": sys.modules}  # where files of rules add what they have, and import
Added = collections.namedtuple("Added", "where name thing path")  # path: of the file of --plugins
PLUGGED_IN = []  # what they have added: a list of Added


def check_rule(where, name, function, options):
    """Raise InputError if a rule of the user's own cannot work as it is written."""
    for option in sorted(options.keys() - OPTIONS):
        hint = did_you_mean(OPTION_MEANT.get(option, option), OPTIONS, "")
        hint = "; the Policy says it" if option == "weight" else hint
        raise InputError(f'rule "{name}": there is no option "{option}"{hint}')
    if name in CATALOGUES[where]:
        raise InputError(f'there is a rule "{name}" already ({place_of(CATALOGUES[where][name])})')
    given = {option: options[option] for option in PARAMETERS if options.get(option) is not None}
    for option, each in ({"function": function} | given).items():
        check_function(name, option, each, options)
    argument = options.get("argument") or {}
    if not isinstance(argument, dict):
        raise InputError(f'rule "{name}", argument: expected {{field: type}}, got {argument!r:.40}')
    check_schema(argument, f'rule "{name}", argument')
    if options.get("default"):
        decode(options["default"], argument, f'rule "{name}", default')
    described = {option: value for option, value in options.items() if option in DESCRIPTION}
    decode(described, DESCRIPTION, f'rule "{name}"')


def check_function(name, option, function, options):
    """Raise InputError if a function of a rule cannot be called with what it is to get."""
    place = f'rule "{name}"' + ("" if option == "function" else f", {option}")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise InputError(f"{place}: write def, not async def: nobody awaits the answer")
    signature = inspect.signature(function)
    first = PARAMETERS[option].split()
    more = ["metadata"] if option == "function" and options.get("metadata") else []
    takes_arguments = option != "check" and not {"arguments", "argument"}.isdisjoint(signature.parameters)
    has_arguments = options.get("argument") is not None
    if takes_arguments and has_arguments:
        more.append("arguments")
    try:
        bound = signature.bind(*first, **{name: name for name in more}).arguments
        fits = all(name == given for name, given in bound.items() if name in first)  # else they are swapped
    except TypeError:
        fits = False
    if not fits:
        expected = ", ".join(first + more)
        got = ", ".join(signature.parameters)
        needs_option = takes_arguments and not has_arguments
        hint = "; `arguments` needs the option argument={field: type}" if needs_option else ""
        raise InputError(f"{place}: expected the parameters ({expected}), got ({got}){hint}")


def check_schema(schema, place):
    """Raise InputError if a schema, or what is in it, is no type of a field."""
    if isinstance(schema, dict):
        for name, inner in schema.items():
            check_schema(inner, f"{place}.{name}")
    elif isinstance(schema, list) and len(schema) == 1:
        check_schema(schema[0], f"{place}[..]")
    elif not isinstance(schema, (set, range)) and schema not in [*TYPE_NAMES, list]:
        raise InputError(f"{place}: expected str, int, float, bool, [..] or {{..}}, got {schema!r:.40}")


def load_plugins(paths):
    """Run files that register rules, and what they import from their folders. Raises InputError.

    Return {path: text} of all these.
    """
    sys.modules["scheduler"] = sys.modules[__name__]  # also where this file is the main program
    sys.dont_write_bytecode = True  # it would be taken for that of an edit within the same second
    code = {}
    for path in paths:
        others = {where: {*things} for where, things in REGISTERS.items()}
        folder = str(Path(path).resolve().parent)
        if folder not in sys.path:
            sys.path.append(folder)  # so that the file may import others beside it
        try:
            code[path] = Path(path).read_bytes()
            runpy.run_path(path)
        except (Exception, SystemExit) as error:
            line = line_of(error, path, code.get(path))
            place = f"{path}, line {line}" if line else path
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            raise InputError(f"{place}: {kind}{one_line(error)}") from error
        finally:
            note_added(path, folder, others)
        if not rules_in(path):
            warn_once(f"there is no rule in {path}")
    files = [getattr(added.thing, "__file__", None) for added in PLUGGED_IN if added.where == "modules"]
    return code | {file: Path(file).read_bytes() for file in files if file and Path(file).is_file()}


def note_added(path, folder, others):
    """Note which rules there are beside others, and which modules of a folder: a file has added them."""
    for where, things in REGISTERS.items():
        for name in [name for name in [*things] if name not in others[where]]:
            if where in CATALOGUES or PathFinder.find_spec(name.partition(".")[0], [folder]):
                PLUGGED_IN.append(Added(where, name, things[name], path))


def rules_in(path):
    """Return the rules that a file of --plugins has added."""
    return [added.thing for added in PLUGGED_IN if added.path == path and added.where in CATALOGUES]


def unplug():
    """Have nothing any more that files of --plugins have added. Return what that was."""
    before = [*PLUGGED_IN]
    for added in before:
        REGISTERS[added.where].pop(added.name, None)
    PLUGGED_IN.clear()
    return before


@contextlib.contextmanager
def plugged_anew():
    """Load files of --plugins in this block; if that fails, have what they had added before."""
    before = unplug()
    try:
        yield
    except InputError:
        unplug()
        for added in before:
            REGISTERS[added.where][added.name] = added.thing
        PLUGGED_IN.extend(before)
        raise


def line_of(error, path, source):
    """Return the line of a file of rules in which an error arose, or None."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    if not lines:
        return None
    for statement in ast.walk(ast.parse(source)):
        decorators = getattr(statement, "decorator_list", [])
        if decorators and statement.lineno == lines[-1]:
            return decorators[0].lineno  # Python 3.10 says that decorators are called in the line of `def`
    return lines[-1]


def idle_plugins(paths, policies):
    """Yield the rules in the files of --plugins that nobody asks."""
    active = {(rule.where, rule.name) for policy in policies.values() for rule in policy.rules()}
    for path in paths:
        idle = sorted(rule.name for rule in rules_in(path) if (rule.where, rule.name) not in active)
        if idle:
            yield f"{', '.join(idle)} of {path}: not named here, so not asked"


def check_reduced(rule, scores, points):
    """Raise TypeError if a rule has not made points of all scores, each from 0 to 100."""
    if not isinstance(points, dict) or points.keys() != scores.keys():
        raise wrong_answer(rule, "reduce: return {name: score} of all nodes", points, rule.reduce)
    check_points(rule, points)


def check_points(rule, points):
    """Raise TypeError if a score is no number, Unschedulable if it is not from 0 to 100.

    The rule is at fault then, even if its score makes no difference, as only one node fits.
    """
    for name, score in points.items():
        is_number = isinstance(score, Real) and not isinstance(score, bool)
        if not is_number:
            raise wrong_answer(rule, "return a number from 0 to 100", score)
        if not 0 <= score <= 100:
            expected = "from its `reduce`" if rule.reduce else "or a `reduce` that makes it so"
            place = place_of(rule, rule.reduce)
            FAILURE.set()
            raise Unschedulable(
                f"{rule.title} gives {name} the score {score}: expected 0 to 100, {expected} ({place})")


def strings_of(rule, answer, what, function=None):
    """Return the strings that a function of a rule yields. Raises TypeError if it gives something else."""
    if isinstance(answer, str) or not hasattr(answer, "__iter__"):
        raise wrong_answer(rule, f"yield {what}, or return a list of them", answer, function)
    strings = list(answer)
    for each in strings:
        if not (isinstance(each, str) and each):
            raise wrong_answer(rule, f"yield {what} as strings", each, function)
    return strings


def wrong_answer(rule, expected, answer, function=None):
    """Return the error that says what a rule has to answer, what it did answer, and where it is."""
    return TypeError(f"{expected}, not {at_most(60, repr(answer))} ({place_of(rule, function)})")


def place_of(rule, function=None):
    """Return which rule it is, and where in its file: of its function, or of another one that it has."""
    function = function or rule.function
    code = getattr(inspect.unwrap(getattr(function, "func", function)), "__code__", None)
    return f"{rule.name}: {Path(code.co_filename).name}, line {code.co_firstlineno}" if code else rule.name


# ==== 24. The Policy ====================================================================================

# What becomes of a Policy: an entry names one rule, or several, or none (`meaning_of`). Entries that mean one
# rule are one: it gets all their arguments as `arguments` (`set_up`), and n of them weigh n times as much
# (`rules_named`).


EXTENDER = {
    "urlPrefix": str, "filterVerb": str, "preemptVerb": str, "prioritizeVerb": str, "bindVerb": str,
    "weight": int, "enableHttps": bool, "httpTimeout": int, "nodeCacheCapable": bool, "ignorable": bool,
    "managedResources": [{"name": str, "ignoredByScheduler": bool}],
    "tlsConfig": {"insecure": bool, "serverName": str, "caFile": str, "certFile": str, "keyFile": str,
                  "caData": str, "certData": str, "keyData": str}}


def left_to_extenders(configs):
    """Return the names of the resources that extenders see to, so that the scheduler does not."""
    resources = [resource for config in configs for resource in config.get("managedResources", [])]
    return [resource.get("name") for resource in resources if resource.get("ignoredByScheduler")]


# The order in which plugins run; those of the user's own come last.
# Upstream: getDefaultPlugins in apis/config/v1, and before that algorithmprovider/registry.go.
PLUGIN_ORDER = [
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "EBSLimits", "GCEPDLimits", "NodeVolumeLimits", "AzureDiskLimits", "VolumeBinding",
    "VolumeZone", "PodTopologySpread", "InterPodAffinity", "NodeResourcesBalancedAllocation", "ImageLocality"]
# The order in which a Policy has them run; those of the user's own come last.
# Upstream: predicatesOrdering in pkg/scheduler/framework/plugins/legacy_registry.go.
PREDICATE_ORDER = [
    "CheckNodeUnschedulable", "HostName", "PodFitsHostPorts", "MatchNodeSelector", "PodFitsResources",
    "NoDiskConflict", "PodToleratesNodeTaints", "CheckNodeLabelPresence", "CheckServiceAffinity",
    "MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "MaxCSIVolumeCountPred", "MaxAzureDiskVolumeCount",
    "MaxCinderVolumeCount", "CheckVolumeBinding", "NoVolumeZoneConflict", "EvenPodsSpread",
    "MatchInterPodAffinity"]
GENERAL_FIRST = ["CheckNodeUnschedulable", "PodFitsResources"]  # then the others; with GeneralPredicates
SAID_BY_TAINTS = [  # names of predicates up to 1.18
    "CheckNodeCondition", "CheckNodeMemoryPressure", "CheckNodeDiskPressure", "CheckNodePIDPressure",
    "PodToleratesNodeNoExecuteTaints"]
WITHOUT_RULE = {"predicates": SAID_BY_TAINTS, "priorities": ["EqualPriority"]}  # a constant ranks nothing


def providers():
    """Return what --policy may name instead of a file. Upstream: algorithmprovider/registry.go."""
    head = {"kind": "Policy", "apiVersion": "v1"}
    packing = [entry | {"name": entry["name"].replace("Least", "Most")}
               for entry in default_entries("priorities")]
    return {"DefaultProvider": head, "ClusterAutoscalerProvider": head | {"priorities": packing}}


def default_entries(where):
    """Return the entries that stand for a list that a Policy leaves out."""
    return [{"name": rule.name, "weight": rule.by_default}
            for rule in CATALOGUES[where].values() if rule.by_default]


@dataclass(eq=False)
class FullPolicy(Policy):
    """A Policy that remembers what rules have said, has extenders, and rules for all extension points."""

    extenders: list = field(default_factory=list)
    always_check_all: bool = False
    notices: list = field(default_factory=list)  # what the file says without effect here, a line each
    others: list = field(default_factory=list)  # rules of which only other extension points are active
    election: dict = field(default_factory=dict)  # what a KubeSchedulerConfiguration says of leader election
    initial_backoff: int = 1  # seconds that a pod waits after the first attempt; then twice that, and so on
    max_backoff: int = 10  # seconds
    kind = "Policy"  # of the file that says all this
    would_preempt = True  # kube-scheduler would, for its pods; of a configuration that is said as it is read
    unschedulable_seconds = 60  # after which a pod that fits nowhere is tried again all the same

    def new_decision(self, pod, snapshot):
        """Return a decision about a pod, in which nothing is decided yet."""
        return FullDecision(pod, self, snapshot.nodes)

    def nodes_that_fit(self, pod, snapshot):
        """Ask about each node, unless the answer is known from the last pod like this one; and extenders."""
        predicates = prepare(self.predicates_to_ask(), pod, snapshot.nodes, snapshot)
        feasible, failed = recall_fits(self.reasons_against, predicates, pod, snapshot, self)
        return self.ask_extenders(pod, feasible, failed)

    def reasons_against(self, pod, rules, node):
        """Return what is against the node: {predicate: its reasons}."""
        against = {}
        for rule in rules:
            reasons = rule.reasons(pod, node)
            if reasons:
                against[rule.title] = reasons
                if not self.always_check_all:
                    break
        return against

    def prioritize(self, decision, feasible, snapshot):
        """Return each node's total of what priorities and extenders give, unless it is known."""
        pod = decision.pod
        try:
            for rule in prepare(self.priorities, pod, feasible, snapshot):
                decision.votes.append(rule.vote(pod, feasible, snapshot))  # points from 0 to 100
        except Unschedulable as error:  # a priority has given a score that is not from 0 to 100, for example
            if len(feasible) > 1:  # a single node is taken, whatever its points
                raise
            warn_once(str(error))
        for extender in self.extenders:
            decision.votes += extender.prioritize(pod, feasible)
        return self.add_up(decision, feasible, snapshot)

    def add_up(self, decision, nodes, snapshot):
        """Return the sum of each node's points times their weights; 1 if nobody is to give points."""
        is_unscored = not self.priorities and not self.extenders

        def total(node):
            """Add up what one node gets in all votes."""
            if is_unscored:
                return 1
            return sum([vote.weight * vote.points[node.name] for vote in decision.votes])

        # Points that `reduce` has made rest on all nodes: totals hold only while these points are the same.
        basis = [(vote.rule, None if vote.points is vote.raw else vote.points) for vote in decision.votes]
        like = likeness(decision.pod, self.priorities)
        return recall(("total", self), like, snapshot, nodes, total, basis)

    def seek_remedy(self, decision, snapshot):
        """Have the rules do something about a pod that fits nowhere: the first that has a remedy."""
        if not (decision.failed and decision.fits_nowhere):
            return  # there are no nodes; or some fit, and what failed was another rule
        if self.would_preempt and decision.pod.priority > 0 and not self.rules_with["post_filter"]:
            warn_once(f"nobody is preempted for {decision.pod.key}, as kube-scheduler 1.20 may do; the rule "
                      "Preemption of tests/tutorial_rules.py does it", about="preemption")
        with warn_if_broken(decision.pod.key):
            for rule in self.rules_with["post_filter"]:
                failed = copy.deepcopy(dict(decision.failed))  # the rule may change it
                remedy = call_hook(rule, "post_filter", decision.pod, failed, snapshot)
                if remedy:
                    decision.requests, decision.remedy = remedy
                    return

    def predicates_to_ask(self):
        """Return the predicates as they are asked: those that it names, and those that are always asked."""
        return self.predicates + ALWAYS_ASKED

    def ask_extenders(self, pod, feasible, failed):
        """Have extenders refuse nodes. Return those that still fit, and the Failures of the others."""
        for extender in self.extenders:
            feasible, failed = extender.filter(pod, feasible, failed)
        return feasible, failed

    def rejection(self, error, failed):
        """Return what is said of a pod that fits no node at all, for this reason."""
        return failed.message

    def rules(self):
        """Return all active rules."""
        return self.predicates + self.priorities + self.others

    @functools.cached_property
    def rules_with(self):
        """The active rules that have a function for an extension point, {point: [Rule]}."""
        return {point: [rule for rule in self.rules() if point in rule.hooks] for point in EXTENSION_POINTS}

    def name_for(self, rule):
        """Return what the user's file calls, or would call, a rule."""
        return rule.name

    def not_looked_at(self):
        """Return {what a pod may ask for: (the rule that would look at it, whether a pod does)}."""
        active = {rule.name for rule in self.rules()}
        idle = [rule for rule in [*PREDICATES.values()] if rule.name not in active]  # also while these change
        return {what: (rule, is_asked) for rule in idle for what, is_asked in rule.looks_at.items()}

    def lines(self):
        """Return all that it says, a line for each rule and setting."""
        lines = []
        for rule in self.rules():
            words = [rule.title]
            if rule.name != rule.title:
                words.append(f"({rule.name})")
            if rule in self.priorities:
                words.append(f"×{rule.weight}")
            words += [f"{name}={json.dumps(value)}" for name, value in rule.settings.items() if value != []]
            lines.append(" ".join([*words, *rule.hooks]))
        lines += [f"{extender.title} {json.dumps(extender.config)}" for extender in self.extenders]
        if self.always_check_all:
            lines.append("alwaysCheckAllPredicates")
        if (self.initial_backoff, self.max_backoff) != (FullPolicy.initial_backoff, FullPolicy.max_backoff):
            lines.append(f"backoff from {self.initial_backoff} to {self.max_backoff} s")
        if self.election.get("leaderElect"):
            lines.append(f"leaderElection {json.dumps(self.election)}")
        return lines


def unheeded(decision):
    """Yield what the pod requires though no active rule looks at that, and the rule that would look."""
    node = decision.nodes.get(decision.node)
    for what, (rule, is_asked) in decision.policy.not_looked_at().items():
        with contextlib.suppress(Exception):  # what no active rule has read may be anything
            if is_asked(decision.pod, node):
                name = decision.policy.name_for(rule)
                yield f"has {what}, and {name}, which looks at that, is not active"


CONFIGURATION_VERSION = "kubescheduler.config.k8s.io/v1"  # a Policy may have it, too
READERS = {}  # kind of a file other than a Policy -> function(its document, a scheduler's name): its Policies


def load_policies(path, scheduler_name):
    """Return {schedulerName: Policy} of a Policy, a configuration or a provider. Raises InputError."""
    try:
        documents = iter([providers()[path]]) if path in providers() else parse(text_in(path))
        policies = policies_in(next(documents, None), scheduler_name)
    except InputError as error:
        raise InputError(f"{path}: {words_of(' '.join(str(error).split()), 10_000)}") from error
    except (OSError, ValueError) as error:
        hint = ""
        if isinstance(error, FileNotFoundError) and str(path).isalnum():
            hint = did_you_mean(path, providers(), f"; other than a file: {', '.join(providers())}")
        raise InputError(f"{path}: {one_line(error)}{hint}") from error
    policy, *_ = policies.values()
    with contextlib.suppress(ValueError):
        if any(documents):
            policy.notices.append("only the first document is read, as in kube-scheduler")
    if path in providers():  # their predicates run in the order of the plugins
        order = PLUGIN_ORDER + [rule.plugin for rule in policy.predicates]
        policy.predicates.sort(key=lambda rule: order.index(rule.plugin))
    return policies


def policies_in(document, scheduler_name):
    """Return the Policies of a file's document. Raises InputError."""
    kind = name_in(document, "kind")
    if kind in READERS:
        return READERS[kind](document, scheduler_name)
    if kind == "KubeSchedulerConfiguration":
        raise InputError(f"this copy of the script lacks the part that reads a {kind}: write a Policy")
    return {scheduler_name: read_policy(document)}


EXPECTED = (f"expected kind Policy with apiVersion v1, or kind KubeSchedulerConfiguration with apiVersion "
            f"{CONFIGURATION_VERSION}")


def what_it_is(document):
    """Say what a document is that is neither a Policy nor a configuration, and where one may be in it."""
    kind = name_in(document, "kind")
    version = name_in(document, "apiVersion")
    if kind.endswith("List"):
        found = [item for item in pick(document, list, "items") if name_in(item, "kind") == "ConfigMap"]
        return f"a {kind}, in it {what_it_is(found[0])}" if found else in_short(document)
    if kind == "ConfigMap":
        data = pick(document, dict, "data")
        key = next((key for key in data if "kind" in str(data[key])), "policy.cfg")
        name = f"{name_in(document, 'metadata', 'name')} -n {name_in(document, 'metadata', 'namespace')}"
        escaped = key.replace(".", "\\.")
        return (f'a ConfigMap; what --policy reads is in its data["{key}"]: kubectl get configmap '
                f"{name.removesuffix(' -n ')} -o jsonpath='{{.data.{escaped}}}' > policy.json")
    if kind in ("Pod", "Deployment") or version.startswith("kubeadm.k8s.io/"):
        return f"a {kind}; what --policy reads is the file that its config or policy-config-file names"
    if document and isinstance(document, dict) and POLICY.keys().isdisjoint(document):
        return f"{in_short(document)}; of Helm values: what belongs here is in a ConfigMap of `helm template`"
    return "nothing" if document is None else in_short(document)


class PolicyFile:
    """A Policy file, and plugins, which may be edited at any time. Raises InputError if bad at first."""

    def __init__(self, path, scheduler_name, plugins=()):
        self.path = path
        self.scheduler_name = scheduler_name
        self.plugins = plugins
        self.policies = {}  # those in force
        self.code = {}  # plugin, or what it imports -> its text when these were made
        self.notices = []  # what was noticed in them, or in files that said the same since
        self.seen = {}  # when the files were changed, at the last look
        self.has_failed = False  # whether they could not be loaded then
        self.current()

    def current(self):
        """Return the Policies, read again if a file has changed. If one is broken, say so, and keep the last.

        If they say the same as before, those in force stay, so that no held pod is decided about anew.
        """
        seen = self.look()
        if seen != self.seen or not self.policies:
            try:
                self.load()
                self.has_failed = False
            except InputError as error:
                self.has_failed = True
                if not self.policies:
                    raise
                log.error("%s; the last good Policy stays", error)
            # What is imported only now was not seen before; an edit of the others since then is one to come.
            self.seen = {path: seen.get(path, change) for path, change in self.look().items()}
        return self.policies

    def look(self):
        """Return when the files, and what they import, were changed."""
        changes = {}
        beside = []
        if self.has_failed:  # then what was to be imported is not known
            folders = {Path(plugin).resolve().parent for plugin in self.plugins}
            beside = [str(file) for folder in folders for file in folder.glob("*.py")]
        for path in {self.path, *self.plugins, *self.code, *beside}:
            with contextlib.suppress(OSError):
                stat = Path(path).stat()
                changes[path] = stat.st_mtime_ns, stat.st_size, stat.st_ino
        return changes

    def load(self):
        """Read the files, and say what is different. Raises InputError."""
        with plugged_anew():
            code = load_plugins(self.plugins)
            policies = load_policies(self.path, self.scheduler_name)
        lines = differences(self.policies, policies) if self.policies else []
        lines += [f"{path} is loaded again" for path in code if code[path] != self.code.get(path, code[path])]
        if lines or not self.policies:
            self.policies = policies
            self.code = code
        else:
            lines = ["says the same as before"]
        notices = [notice for policy in policies.values() for notice in policy.notices]
        notices += idle_plugins(self.plugins, policies)
        lines += [notice for notice in notices if notice not in self.notices]
        self.notices = notices
        for line in lines:
            is_usual = line.startswith(ALWAYS_ON)  # the same in each run: who asks for more hears it
            log.log(logging.DEBUG if is_usual else logging.WARNING, "%s: %s", self.path, line)


ALWAYS_ON = "always on, though not among the predicates"


def differences(before, after):
    """Return the lines in which Policies differ from those before, such as "- HostName"."""
    are_several = len(before | after) > 1
    heads = {name: f"{name}: " if are_several else "" for name in before | after}
    old, new = [[heads[name] + line for name, policy in policies.items() for line in policy.lines()]
                for policies in (before, after)]
    differing = {*old} ^ {*new}
    if old != new and not differing:
        return ["says the same, in another order"]
    return [line for line in difflib.ndiff(old, new) if line[:2] in ("- ", "+ ") and line[2:] in differing]


POLICY = {
    "kind": str, "apiVersion": str, "extenders": [EXTENDER],
    "predicates": [{"name": str, "argument": dict}],
    "priorities": [{"name": str, "weight": WEIGHT, "argument": dict}],
    "hardPodAffinitySymmetricWeight": range(101), "alwaysCheckAllPredicates": bool}


def read_policy(document):
    """Return the Policy of a document, checked as strictly as kube-scheduler does. Raises InputError.

    Upstream: createFromConfig in pkg/scheduler/factory.go.
    """
    is_others = name_in(document, "apiVersion") not in ("", "v1", CONFIGURATION_VERSION)
    is_policy = name_in(document, "kind") == "Policy" and not is_others
    said = decode(document, POLICY, "") if is_policy else {}
    if "apiVersion" not in said:
        raise InputError(f"{EXPECTED}, got {what_it_is(document)}")
    problems = []
    notices = []
    predicate_entries = said.get("predicates", default_entries("predicates"))
    has_general = "predicates" not in said or any(
        entry.get("name") == "GeneralPredicates" for entry in predicate_entries)
    named = {entry.get("name") for entry in predicate_entries}
    unnamed = sorted(rule.name for rule in PREDICATES.values() if rule.always and rule.name not in named)
    if unnamed and "predicates" in said:
        notices.append(f"{ALWAYS_ON}: {', '.join(unnamed)}")
    predicate_entries += [{"name": name} for name in unnamed]
    priority_entries = said.get("priorities", default_entries("priorities"))
    configs = said.get("extenders", [])
    notices += passed_over(document.get("extenders"), [EXTENDER], "extenders")
    said_elsewhere = {  # rule -> its settings
        "PodFitsResources": {"excepted": left_to_extenders(configs)},
        "InterPodAffinityPriority": {"hard_weight": said.get("hardPodAffinitySymmetricWeight") or 1}}
    predicates = rules_named("predicates", predicate_entries, said_elsewhere, notices, problems)
    priorities = rules_named("priorities", priority_entries, said_elsewhere, notices, problems)
    problems += extender_problems(configs)
    refuse(problems)
    notices += [f"extenders[{i}].preemptVerb: nobody is preempted here, so it is not asked"
                for i, config in enumerate(configs) if config.get("preemptVerb")]
    order = [*(GENERAL_FIRST if has_general else []), *PREDICATE_ORDER, *PREDICATES]
    predicates.sort(key=lambda rule: order.index(rule.name))
    check_all = said.get("alwaysCheckAllPredicates", False)
    return FullPolicy(predicates, priorities, extenders_of(configs), check_all, notices)


def rules_named(where, entries, said_elsewhere, notices, problems):
    """Return the rules that entries name, each once, with the arguments of all; add what is wrong."""
    uses_by_rule = uses_of(where, entries, notices, problems)
    if {"SelectorSpreadPriority", "EvenPodsSpreadPriority"} <= uses_by_rule.keys():  # one plugin
        uses_by_rule["SelectorSpreadPriority"] += uses_by_rule.pop("EvenPodsSpreadPriority")
    rules = []
    for name, uses in uses_by_rule.items():
        first = uses[0]
        last = uses[-1]
        arguments = [argument for use in uses for argument in use.arguments]
        for use in uses:
            if arguments and use.weight != first.weight:
                expected = f"{first.weight} as in {first.entry}"
                problems.append(f"{use.entry}.weight: must be {expected}; they are one rule")
        title = "+".join(dict.fromkeys(use.title for use in uses))
        while any(title == other.title for other in rules):  # so that the scores of the two can be told apart
            title = f"{title} ({name})"
        # As upstream, the last weight counts, and n entries with arguments weigh n times as much.
        weight = last.weight * max(1, len(arguments))
        settings = {"arguments": arguments} | said_elsewhere.get(name, {})
        with noted(problems):
            rules.append(set_up(CATALOGUES[where][name], title, last.entry, weight, settings))
    return rules


Use = collections.namedtuple("Use", "entry title weight arguments")  # what an entry says of a rule


def uses_of(where, entries, notices, problems):
    """Return {rule: its Uses} of the rules that entries mean; add what is wrong with entries."""
    uses = collections.defaultdict(list)
    for i, entry in enumerate(entries):
        place = f"{where}[{i}]"
        with noted(problems):
            names, arguments = meaning_of(where, entry, place, notices)
            if where == "priorities" and "weight" not in entry:
                raise InputError(f"{place}.weight: is missing; expected a number of {WEIGHT[0]} or more")
            for name in names:
                title = entry.get("name", "") if len(names) == 1 else name
                uses[name].append(Use(place, title, entry.get("weight", 1), arguments))
    return uses


def meaning_of(where, entry, place, notices):
    """Return the names of the rules that an entry means, and a list: its argument, if they are to have it.

    An argument of one of the user's own rules has the rule's fields. One of kube-scheduler's has a single
    member, which says what rule it is for: the entry may then have any name but one of a rule.
    """
    rules = CATALOGUES[where]
    title = entry.get("name", "")
    given = entry.get("argument", {})
    names = known_names(where).get(title)
    if names and has_own_fields(rules[names[0]]):
        return names, [decode(given, rules[names[0]].argument, f"{place}.argument")]
    rule_for = {rule.member: name for name, rule in rules.items() if rule.member}
    if names is None and not any(member in rule_for or nearly(member, tuple(rule_for)) for member in given):
        raise InputError(f"{place}: {unknown_rule(where, title)}")
    if names is not None and not given.keys() <= rule_for.keys():
        raise InputError(f'{place}.argument: "{title}" takes none')
    schema = {member: rules[name].argument for member, name in rule_for.items()}
    said = decode(given, schema, f"{place}.argument")
    if "argument" in entry and len(said) != 1:
        raise InputError(f"{place}: the argument must have exactly one member")
    if names is None or (said and title in SAID_BY_TAINTS):  # which to 1.20 is a name of the user's own
        [(member, argument)] = said.items()
        return [rule_for[member]], [argument]
    if names and said:
        notices.append(
            f'{place}: "{title}" ignores its argument, as in kube-scheduler; use a name of your own')
    if rules.get(title) and rules[title].member and not said:
        notices.append(f"{place}: {title} lets each node pass; {by_argument(rules[title].member)}")
    if title in SAID_BY_TAINTS:
        notices.append(
            f"{place}: today taints say what {title} asked, and PodToleratesNodeTaints is always on")
    return names, []


def has_own_fields(rule):
    """Say whether an entry's argument has the rule's fields, not a member that says which rule is meant."""
    return bool(rule.argument) and not rule.member


def known_names(where):
    """Return {name: the rules that it stands for} of all names that a list of the Policy may have."""
    names = {name: [] for name in WITHOUT_RULE[where]}
    for rule in CATALOGUES[where].values():
        for name in (rule.name, *rule.aliases):
            names.setdefault(name, []).append(rule.name)
    return names


def unknown_rule(where, title):
    """Say that a list can have no such name; it may be one of the other list's, a plugin's, or misspelt."""
    [elsewhere] = CATALOGUES.keys() - {where}
    if title in known_names(elsewhere) and title not in NAMES_OF_OLD:
        return f'"{title}" is a {NOUNS[elsewhere]}; name it among the {elsewhere}'
    meant = next((rule.name for rule in CATALOGUES[where].values() if rule.plugin == title), title)
    return f'unknown {NOUNS[where]} "{title}"{did_you_mean(meant, known_names(where))}'


def set_up(rule, title, entry, weight, settings):
    """Return a rule with what a file says of it, filled in where its functions take that.

    settings: {parameter: value}; among them, as `arguments`, those of the entries that name the rule.
    """
    arguments = settings.get("arguments", [])
    if has_own_fields(rule):
        arguments = [rule.default | argument for argument in arguments or [{}]]
    check_arguments(rule, arguments, entry)
    if rule.argument is not None:
        settings = settings | {"arguments": arguments}

    def fill_in(function):
        """Return a function that needs no more of what is known already."""
        parameters = inspect.signature(function).parameters if function else {}
        filled = {name: value for name, value in settings.items() if name in parameters}
        return functools.partial(function, **filled) if filled else function

    hooks = {point: fill_in(hook) for point, hook in rule.hooks.items()}
    functions = {option: fill_in(getattr(rule, option)) for option in ("function", "metadata", "reduce")}
    return replace(rule, title=title, weight=weight, settings=settings, hooks=hooks, **functions)


def check_arguments(rule, arguments, entry):
    """Raise InputError if a rule does not have the arguments that it needs, or says that they are wrong."""
    if rule.member and rule.name in PRIORITIES and not arguments:
        raise InputError(f"{entry}: needs an argument; {by_argument(rule.member)}")
    if has_own_fields(rule):  # of the others all may be left out
        for name in rule.argument:
            if any(name not in argument for argument in arguments):
                raise InputError(f'{entry}: the argument lacks "{name}"; "{rule.name}" needs it')
    if rule.check:
        try:
            problems = strings_of(rule, rule.check(arguments), "what is wrong", rule.check)
        except (Exception, SystemExit) as error:
            problems = [what_broke(error)]
        refuse([f"{entry}: {problem}" for problem in problems])


##########################################################################################################
# PART V. THE LIVE CLUSTER                                                                               #
# What is read, what waits, what is written, and by which thread.                                        #
##########################################################################################################

import base64
import ctypes
import enum
import errno
import gc
import queue
import socket
import tempfile
import uuid
from concurrent.futures import Future, wait
from datetime import datetime, timezone
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning


# ==== 25. Requests and threads ==========================================================================

WARNED = {}  # what warnings were about -> when they were logged, in monotonic seconds


def warn_once(text, about=None):
    """Log a warning, unless it, or another one `about` the same, was logged in the last ten minutes."""
    subject = about or text
    moment = time.monotonic()
    if moment - WARNED.get(subject, -math.inf) > 600:
        if len(WARNED) > 10_000:
            WARNED.clear()
        WARNED[subject] = moment
        log.warning("%s", text)


THREADS = 64  # that write at a time
JSON = "application/json"


class PooledProxy(Proxy):
    """The API server behind kubectl proxy, for many threads, and to watch."""

    is_live = True  # controllers act on what is written

    def __init__(self, server):
        self.server = server.rstrip("/")
        timeout = urllib3.Timeout(connect=5, read=60)
        # One for each thread that writes, for each resource that is watched, for lists, and for the Lease.
        most = THREADS + len(GROUPS) + 2
        self.pool = urllib3.connection_from_url(server, maxsize=most, retries=False, timeout=timeout)

    def request(self, method, path, body=None, params=None, accept=JSON):
        """Send a request and return the answer's JSON. Raises ApiError; its text says what to do."""
        return self.content(self.send(method, path, body, params, accept), method, path)

    def watch(self, path, params, silence):
        """Ask for a stream of events, and return it. It begins at once, and may then be silent for so long.

        Raises ApiError, also when it breaks.
        """
        timeout = urllib3.Timeout(connect=5, read=5)
        answer = self.send("GET", path, None, params, timeout=timeout, preload_content=False)
        if answer.status != 200:
            self.content(answer, "GET", path)  # raises ApiError
        with contextlib.suppress(AttributeError):  # a short answer has ended already
            answer.connection.sock.settimeout(silence)
        return self.lines(answer, path)

    def lines(self, answer, path):
        """Yield the objects of a stream, each of which has a line. Raises ApiError if it breaks."""
        rest = b""
        try:
            for part in answer.stream():
                *lines, rest = (rest + part).split(b"\n")
                yield from map(read_json, lines)
            if rest.strip():
                yield read_json(rest)
        except (HTTPError, ValueError, RecursionError) as error:
            raise Trouble(0, f"the watch of {path} has broken off: {one_line(error)}") from error
        finally:
            answer.close()

    def send(self, method, path, body, params, accept=JSON, **options):
        """Send a request and return the answer. Raises ApiError if none comes."""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else JSON
        headers = {"Content-Type": kind, "Accept": accept}
        url = f"{path}?{urlencode(params)}" if params else path
        data = body and json.dumps(body)
        try:
            answer = self.pool.urlopen(method, url, data, headers, redirect=False, **options)
        except HTTPError as error:
            hint = "is `kubectl proxy` running there? Without it: --cluster tests/clusters/demo.yaml"
            lacking = [os.strerror(number) for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)]
            if any(what in str(error) for what in lacking):
                hint = "this machine gives the script no more; see `ulimit -a`"
            raise Trouble(0, f"cannot reach {self.server}: {one_line(error)}; {hint}") from error
        log.debug("%s %s %s: %d", method, path, params or "", answer.status)
        return answer

    def content(self, answer, method, path):
        """Return the JSON of an answer. Raises ApiError if it reports a failure, or is no JSON."""
        status = answer.status
        succeeded = 200 <= status < 300
        content = None
        with contextlib.suppress(ValueError, RecursionError):
            content = read_json(answer.data)
        if not isinstance(content, dict):
            start = one_line(answer.data[:200].decode(errors="replace"))
            message = f"{self.server} is no kubectl proxy, or that has no API server: {start}"
        elif succeeded:
            return content
        else:
            hint = "RBAC does not allow it: " if status == 403 else ""
            message = f"{hint}{content.get('message')}"
        text = f"{method} {path}: {status} {answer.reason}: {message}"
        raise Unreadable(0, text) if succeeded else api_error(status, text)


class Unreadable(Trouble):
    """An answer that cannot be read: an API server has not sent it, or something in it is odd."""


def read_json(data):
    """Return what bytes of the API server say, without managedFields. Raises ValueError, RecursionError.

    No rule looks at these, and anybody can nest those of an object deeper than `json` reads. Anybody can also
    have an object hold bytes that are no UTF-8, which would hide all others of its list: these are replaced.
    """
    try:
        content = json.loads(data.decode(errors="replace"), strict=False)
    except RecursionError:
        data = without_managed_fields(data)
        content = json.loads(data.decode(errors="replace"), strict=False)
    with contextlib.suppress(Malformed):  # whoever asked for it says so
        for thing in [pick(content, dict, "object"), *pick(content, list, "items")]:  # of a watch, of a list
            pick(thing, dict, "metadata").pop("managedFields", None)
    return content


def without_managed_fields(data):
    """Return JSON with nothing in its lists of that name. It may be nested however deep."""
    parts = []
    at = 0
    while opening := re.compile(rb'"managedFields"\s*:\s*\[').search(data, at):
        parts.append(data[at:opening.end()])
        at = end_of_list(data, opening.end())
    return b"".join([*parts, data[at:]])


def end_of_list(data, at):
    """Return the place of the bracket that closes the list of JSON in which a place is."""
    depth = 1
    for token in re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]').finditer(data, at):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token.group(), 0)
        if depth == 0:
            return token.start()
    return len(data)


def in_background(function, *arguments):
    """Call a function in a thread, for whose end Python does not wait. Return its Future."""
    future = Future()

    def call():
        """Pass on what the function returns or raises."""
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    start_thread(call)
    return future


def start_thread(function):
    """Start a thread, for whose end Python does not wait. Raises Trouble if this machine has none left."""
    try:
        threading.Thread(target=function, daemon=True).start()
    except (RuntimeError, MemoryError) as error:
        raise Trouble(0, f"this machine gives the script no more threads: {one_line(error)}") from error


def share_memory_among_threads():
    """Have threads take memory from two places. By default glibc gives each its own, and keeps most of it.

    The script then takes half as much. Other C libraries do not have this, nor need it.
    """
    arena_max = -8  # M_ARENA_MAX, see mallopt(3)
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(arena_max, 2)


SLOW_SECONDS = 5  # after which it is said who does not answer


STOP = threading.Event()  # set by a signal; it is global, as rules list objects, too
CAME_ROUND = types.SimpleNamespace(at=0)  # when the loop was last seen to go on, in monotonic seconds


def come_round():
    """Note that the loop, which runs in the main thread, goes on, or waits on purpose."""
    if threading.current_thread() is threading.main_thread():
        CAME_ROUND.at = time.monotonic()


def within(seconds, function, *arguments, late=None, whom="", stop=None):
    """Return what a function returns. Raises `late`, or else ApiError, if that takes longer.

    whom: who is named if no answer comes for a while. stop: an event that ends the wait with an ApiError.
    """
    future = in_background(function, *arguments)
    waited = 0
    while not future.done():
        if waited >= seconds:
            raise late or Trouble(0, f"no answer within {seconds:.3g} s")
        if stop and stop.is_set():
            raise Trouble(0, "a signal ended the script")
        if whom and waited >= SLOW_SECONDS:
            warn_once(f"{whom} has not answered for {SLOW_SECONDS} s; it may take up to {seconds} s")
        come_round()
        pause = min(0.1, seconds - waited)
        wait([future], pause)
        waited += pause
    return future.result()


def patiently(function, *arguments):
    """Return what a request returns. If the API server fails (5xx), send it up to three times."""
    for _ in range(2):
        try:
            return function(*arguments)
        except ApiError as error:
            if error.status < 500:
                raise
    return function(*arguments)


CORE = [  # resources of api/v1
    "configmaps", "endpoints", "events", "limitranges", "namespaces", "nodes", "persistentvolumeclaims",
    "persistentvolumes", "pods", "podtemplates", "replicationcontrollers", "resourcequotas", "secrets",
    "serviceaccounts", "services"]
GROUPS = {  # resource -> its group and version
    **dict.fromkeys(CORE, "api/v1"), **dict.fromkeys(["replicasets", "statefulsets"], "apis/apps/v1"),
    **dict.fromkeys(["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"],
                    "apis/storage.k8s.io/v1")}


# ==== 26. List and watch ================================================================================

# A resource is listed once. Then the API server is asked to tell what changes: it answers with a stream of
# events, an object in each (watch). All of Kubernetes reads like this, by a Reflector for each resource.


def path_of(resource):
    """Return the path of a resource, such as nodes or apis/policy/v1/poddisruptionbudgets."""
    return f"/{resource}" if "/" in resource else f"/{GROUPS[resource]}/{resource}"


METADATA = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def list_all(api, resource, selector="", names_only=False):
    """Return all objects of a resource, listed page by page, and the version of the list. Raises ApiError.

    names_only: without more than their metadata, and as the API server has them cached: that may lag.
    """
    page = {"fieldSelector": selector, "limit": 500}
    params = page | {"resourceVersion": "0"} if names_only else page
    ask = api.request
    if api.is_live:
        request = functools.partial(api.request, accept=METADATA if names_only else JSON)
        ask = functools.partial(within, 60, request, whom=api.server, stop=STOP)
    things = []
    while params:
        try:
            answer = patiently(ask, "GET", path_of(resource), None, params)
        except Unreadable:
            answer = readable_page(api, resource, params)
        try:
            things += pick(answer, list, "items", of=dict)
            version = pick(answer, str, "metadata", "resourceVersion")
            token = pick(answer, str, "metadata", "continue")
        except Malformed as error:
            raise Trouble(0, f"the list of {resource} is not as expected: {error}") from error
        params = token and page | {"continue": token}
    return things, version


def readable_page(api, resource, params):
    """Return a page of a list without the objects that cannot be read, which hide all others of a page.

    They are found by their names, one by one. Raises ApiError.
    """
    ask = functools.partial(within, 60, api.request, whom=api.server, stop=STOP)
    path = path_of(resource)
    page = ask("GET", path, None, params, METADATA)
    group, _, kind = path.rpartition("/")
    things = []
    for named in pick(page, list, "items", of=dict):
        namespace = name_in(named, "metadata", "namespace")
        place = f"namespaces/{namespace}/{kind}" if namespace else kind
        try:
            things.append(ask("GET", f"{group}/{place}/{name_in(named, 'metadata', 'name')}"))
        except ApiError as error:
            if not (isinstance(error, Unreadable) or error.status == 404):
                raise
            warn_once(f"{resource} {key_in(named)} is left out: {error}")
    return page | {"items": things}


SELECTORS = {"pods": "status.phase!=Succeeded,status.phase!=Failed"}  # of other resources, all is looked at
STREAM_SECONDS = 20  # for which a stream is asked for; shortly before its end, a bookmark says the version
SILENCE_SECONDS = 30  # after which what is known of a resource is too old to decide by: it is listed


class Reflector:
    """Lists a resource, then has the API server tell what changes. Upstream: client-go's Reflector.

    Its thread puts news into a queue, (resource, what, content): LISTED and a list of all objects; or ADDED,
    MODIFIED or DELETED, and the object.
    """

    def __init__(self, api, resource, news):
        self.api = api
        self.resource = resource
        self.selector = SELECTORS.get(resource, "")
        self.news = news
        self.version = ""  # of what was told last; "": it has to be listed
        self.heard_at = time.monotonic()  # when the API server last said what there is
        self.failures = 0  # in a row
        self.trouble = "they end at once"  # or what the last of them was

    def hear(self):
        """Note that the API server has told something, or has had nothing to tell."""
        self.heard_at = time.monotonic()
        self.failures = 0

    def is_heard(self):
        """Say whether what has changed is told: else it is listed in each pass."""
        return time.monotonic() < self.heard_at + SILENCE_SECONDS

    def list(self):
        """Return all objects; what is watched then begins where this list ends. Raises ApiError."""
        things, self.version = list_all(self.api, self.resource, self.selector)
        self.heard_at = time.monotonic()
        return things

    def work(self):
        """Watch, for ever. Where the versions since are gone, or it cannot be watched, list again."""
        while True:
            began = time.monotonic()
            self.failures += 1  # unless this stream tells something, or lasts
            try:
                if not self.version:
                    self.news.put((self.resource, "LISTED", self.list()))
                self.watch()
                if time.monotonic() > began + STREAM_SECONDS / 2:
                    self.hear()
            except Exception as error:
                if not isinstance(error, Trouble):
                    self.version = ""
                if is_answer(error, 403):
                    warn_once(f"{error}; until that is allowed, {self.resource} are listed every 10 s")
                self.trouble = error
            pause = backoff(max(self.failures, 1), most=10)
            time.sleep(max(0, began + pause - time.monotonic()))

    def watch(self):
        """Pass on what changes until the stream ends. Raises ApiError, Malformed."""
        params = {"fieldSelector": self.selector, "watch": "true", "resourceVersion": self.version,
                  "allowWatchBookmarks": "true", "timeoutSeconds": STREAM_SECONDS}
        stream = self.api.watch(path_of(self.resource), params, silence=STREAM_SECONDS + 5)
        for event in stream:
            what = pick(event, str, "type")
            thing = pick(event, dict, "object")
            if what not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"):
                raise Malformed(f"the watch of {self.resource} is answered with something else than events")
            self.hear()
            if what == "ERROR":  # in most cases, 410: the versions since the last one are gone
                raise ApiError(410, f"the watch of {self.resource} ends: {name_in(thing, 'message')}")
            if what != "BOOKMARK":
                self.news.put((self.resource, what, thing))
            self.version = pick(thing, str, "metadata", "resourceVersion")


# ==== 27. The cache =====================================================================================

# Objects are what the API server has said; the cache, what follows of it for nodes and pods. On a cluster
# Reflectors bring the news; only the loop's thread takes these in: when a pass begins, before each decision,
# and while it rests. A cluster that is made of manifests is listed in each pass, and taken in likewise.


class Objects(dict):
    """{resource: {namespace/name, or name: the API's JSON}}. What a rule first looks at is listed then.

    changed: a function that is called for each change, with a resource, a key, and the object, or None if it
    has gone.
    """

    def __init__(self, api, changed):
        self.api = api
        self.changed = changed
        self.reflectors = {}  # resource -> Reflector, of what is watched
        self.news = queue.Queue()  # from these

    def __missing__(self, resource):
        if "/" not in resource and resource not in GROUPS:
            expected = f"apis/GROUP/VERSION/RESOURCE or one of {', '.join(GROUPS)}"
            raise LookupError(f'snapshot.objects["{resource}"]: expected {expected}')
        self.list(resource)
        return self[resource]

    def refresh(self):
        """List nodes and pods, and all else when a rule looks at it, unless watches tell of it."""
        silent = self.silent()
        heard = self.reflectors.keys() - silent
        for resource in self.keys() - heard - {"nodes", "pods"}:
            del self[resource]
        for resource in ("nodes", "pods"):
            if resource not in heard:
                self.list(resource)
        for resource in silent:
            why = str(self.reflectors[resource].trouble).partition("; is ")[0]
            hint = "does something between the script and the API server hold streams back?"
            what = f"watches, as that of {resource}, tell nothing ({why})"
            warn_once(f"{what}: nodes and pods are listed in each pass; {hint}", about="watches")

    def silent(self):
        """Return the resources of which watches tell nothing."""
        return sorted(name for name, reflector in self.reflectors.items() if not reflector.is_heard())

    def doubt(self, why):
        """Have nodes and pods listed until their watches tell something again."""
        for resource in self.reflectors.keys() & {"nodes", "pods"}:
            self.reflectors[resource].trouble = why
            self.reflectors[resource].heard_at = -math.inf

    def list(self, resource):
        """List a resource and take it in. Raises ApiError."""
        reflector = Reflector(self.api, resource, self.news)
        try:
            things = reflector.list()
        except ApiError as error:
            if error.status != 404 or resource != "csistoragecapacities":
                raise
            self[resource] = {}  # an API server that does not know it yet has none
            return
        self.take_list(resource, things)
        self.watch(reflector)

    def watch(self, reflector):
        """Have a thread tell what changes of a resource from now on, if there is none yet."""
        if reflector.resource not in self.reflectors:
            gc.freeze()  # or else each full collection looks at all of it, and all threads wait for seconds
            in_background(reflector.work)
            self.reflectors[reflector.resource] = reflector

    def take_list(self, resource, things):
        """Take in all objects of a resource; what is missing has gone."""
        known = self.get(resource, {})
        listed = {key_in(thing): thing for thing in things}
        self[resource] = listed
        for key in known.keys() - listed.keys():
            self.changed(resource, key, None)
        for key, thing in listed.items():
            if not is_same(known.get(key), thing):
                self.changed(resource, key, thing)

    def take_news(self, patience):
        """Take in what Reflectors have told; if that is nothing, wait so many seconds for some."""
        copied = {"nodes", "pods"}  # what rests on the dict of another resource is not to change with it
        come_round()
        while patience > 0 or not self.news.empty():
            try:
                resource, what, content = self.news.get(timeout=patience)
            except queue.Empty:
                return
            patience = 0
            if resource not in self:
                continue  # it will be listed anew, later than this was told
            if what == "LISTED":
                self.take_list(resource, content)
                continue
            if resource not in copied:
                self[resource] = dict(self[resource])
                copied.add(resource)
            self.take(resource, content, has_gone=what == "DELETED")

    def take(self, resource, thing, has_gone):
        """Take in what an object is by now, or what it was when it went."""
        key = key_in(thing)
        known = self[resource]
        before = known.get(key)
        if not has_gone and is_older(thing, before):
            return  # it was told twice, or a list was quicker
        if not has_gone and not is_same(before, thing):
            known[key] = thing
            self.changed(resource, key, thing)
        # There may be another one of that name by now.
        if has_gone and name_in(before, "metadata", "uid") == name_in(thing, "metadata", "uid"):
            known.pop(key, None)
            self.changed(resource, key, None)


class ListedObjects(Objects):
    """Those that are listed in each pass, as nobody tells what changes: of manifests."""

    def watch(self, reflector):
        """Leave it at the list."""


def is_same(thing, other):
    """Say whether the JSON of an object is what it was."""
    version = name_in(thing, "metadata", "resourceVersion")
    return thing is other or (version != "" and version == name_in(other, "metadata", "resourceVersion"))


def is_older(thing, other):
    """Say whether the JSON of an object is an earlier one of the same object."""
    if name_in(thing, "metadata", "uid") != name_in(other, "metadata", "uid"):
        return False
    versions = [name_in(each, "metadata", "resourceVersion") for each in (thing, other)]
    return all(map(str.isdecimal, versions)) and int(versions[0]) < int(versions[1])


class UnreadPod(Pod):
    """One that cannot be read, except who it is, and where. Nothing may be added to its node."""

    def __init__(self, raw):
        metadata = {name: name_in(raw, "metadata", name) for name in ("namespace", "name", "uid")}
        gates = [{"name": "it cannot be read"}]  # so that it is not tried
        spec = {"nodeName": name_in(raw, "spec", "nodeName"), "schedulingGates": gates}
        super().__init__({"metadata": metadata, "spec": spec})


def read_or_warn(kind, raw):
    """Return a Pod or Node. If it cannot be read, name it once, and return None."""
    try:
        thing = kind(raw)
        if not thing.name:
            raise Malformed("metadata.name: is missing")
        return thing
    except Exception as error:
        warn_once(f"{kind.__name__.lower()} {key_in(raw)} is left out: {one_line(error)}")
        return None


class Cache:
    """What follows for nodes and pods from what is known of them; and where pods are assumed to be.

    A pod counts where it is assumed to be until the API server shows it on a node, or that it has gone; or
    until it is forgotten, as its binding has failed. Upstream: internal/cache.
    """

    def __init__(self, api, is_live, kind_of_objects):
        self.objects = kind_of_objects(api, self.take)
        self.snapshot = FullSnapshot({}, self.objects, is_live)
        self.nodes = {}  # name -> Node; also of nodes that do not exist, but have pods
        self.pods = {}  # namespace/name -> Pod, of those that have not ended
        self.places = {}  # uid of a pod -> name of the node on which it counts
        self.arrived = {}  # uid -> Pod, of those for a Policy that have come, or changed, while they wait
        self.has_changed = False  # so that pods that fitted nowhere may fit now
        self.are_nodes_others = False  # than in the snapshot

    def refresh(self):
        """Take in what there is by now: the news, or else lists. Raises ApiError."""
        self.snapshot.bonds.clear()
        self.objects.refresh()
        self.take_news()

    def take_news(self, patience=0):
        """Take in what Reflectors have told; if that is nothing, wait so many seconds for some."""
        self.objects.take_news(patience)
        if self.are_nodes_others:
            self.renew_snapshot_nodes()

    def take(self, resource, key, thing):
        """Take in an object that has come or changed; None: it has gone."""
        come_round()  # there may be very many
        if resource == "nodes":
            self.take_node(key, thing)
        elif resource == "pods":
            self.take_pod(key, thing)
        else:
            self.has_changed = True
        if resource == "namespaces":  # which affinity may select by their labels
            self.snapshot.bonds.clear()

    def take_node(self, name, raw):
        """Take in a node; None: it has gone. The pods on it stay, as it may come again."""
        node = self.node_named(name)
        read = read_or_warn(Node, raw) if raw else None
        if read and scheduling_properties(read) == scheduling_properties(node):
            node.raw = raw  # a heartbeat, for example
        elif read:
            become(node, read)
            self.snapshot.note_change(node)
            self.has_changed = True
        if node.exists != bool(read):
            node.exists = bool(read)
            self.are_nodes_others = True

    def node_named(self, name):
        """Return the Node of this name; if there is none, one that does not exist, but may have pods."""
        if name not in self.nodes:
            node = self.nodes[name] = Node({"metadata": {"name": name}})
            node.exists = False
        return self.nodes[name]

    def renew_snapshot_nodes(self):
        """Give the snapshot the nodes that can take pods, in the order of their names."""
        self.are_nodes_others = False
        closed = {self.places.get(pod.uid) for pod in self.pods.values() if isinstance(pod, UnreadPod)}
        nodes = {name: node for name, node in sorted(self.nodes.items())
                 if node.exists and name not in closed}
        if nodes != self.snapshot.nodes:  # a node of a name may be another one by now
            self.snapshot.nodes = nodes
            self.snapshot.memory.forget()
            self.has_changed = True
        self.nodes = {name: node for name, node in self.nodes.items() if node.exists or node.pods}

    def take_pod(self, key, raw):
        """Take in a pod; None: it has gone."""
        before = self.pods.get(key)
        if before and raw and is_as_in(before, raw):
            self.take_report(before, raw)
        else:
            pod = raw and (read_or_warn(Pod, raw) or UnreadPod(raw))
            self.exchange(key, before, pod)
        self.note_nomination(before, self.pods.get(key))

    def take_report(self, pod, raw):
        """Take in JSON that says the same of a pod, except maybe where it is. It is not read anew."""
        was_on = pod.node_name
        pod.raw = raw
        pod.spec = pick(raw, dict, "spec")
        pod.node_name = name_in(raw, "spec", "nodeName")
        pod.phase = name_in(raw, "status", "phase")
        if pod.node_name != was_on:
            self.place(pod, pod.node_name)
            self.has_changed = True

    def exchange(self, key, before, pod):
        """Have a pod count instead of the one that has had its name; None: there is none, or there was none.

        If it is the same one, which says something else now, it keeps the place where it is assumed.
        """
        assumed_on = self.places.get(pod.uid) if pod else None
        if before:
            del self.pods[key]
            self.place(before, None)
        if pod:
            self.pods[key] = pod
            self.place(pod, pod.node_name or assumed_on)
        self.has_changed |= bool(before or (pod and pod.node_name))
        self.are_nodes_others |= isinstance(before, UnreadPod) or isinstance(pod, UnreadPod)
        if pod and not pod.node_name:
            self.note_arrival(pod)

    def note_arrival(self, pod):
        """Note that a pod waits which names a scheduler of ours; if nearly so, say that."""
        if pod.scheduler in self.snapshot.policies:
            self.arrived[pod.uid] = pod
            return
        for name in difflib.get_close_matches(pod.scheduler, self.snapshot.policies, 1, cutoff=0.9):
            warn_once(f"{pod.key} names {pod.scheduler}: did you mean {name}?", about=f"nearly {name}")

    def note_nomination(self, before, pod):
        """Note whether a pod is nominated to a node.

        What a rule has noted of it, and the API server does not show, lasts as long as the pod waits.
        """
        nominated = self.snapshot.nominated
        if before and (before.nominated_node or not self.waiting(before)):
            nominated = [other for other in nominated if other.uid != before.uid]
        if pod and pod.nominated_node and not (pod.node_name or pod.terminating):
            nominated = [*nominated, pod]
        self.snapshot.nominated = nominated

    def place(self, pod, name):
        """Have a pod count on the node of this name, and on no other one; None: on none."""
        was_on = self.places.pop(pod.uid, None)
        if name:
            self.places[pod.uid] = name
        if was_on == name:
            return
        if was_on:
            node = self.nodes[was_on]
            self.snapshot.take_off(pod, node)
            if not (node.exists or node.pods):  # pods may name nodes that there never were
                del self.nodes[was_on]
        if name:
            self.snapshot.put(pod, self.node_named(name))

    def forget(self, pod):
        """Take a pod off the node on which it is assumed, unless the API server shows it on one by now."""
        self.has_changed = True  # others have met it there
        if self.waiting(pod):
            self.place(pod, None)

    def waiting(self, pod):
        """Return a pod as it is by now; or None, if the API server shows that it has gone, or is bound."""
        latest = self.pods.get(pod.key)
        is_waiting = latest and latest.uid == pod.uid and not latest.node_name
        return latest if is_waiting else None


# ==== 28. The life of a pending pod =====================================================================

# A pending pod waits for one of four things:
#
#   NODE       that fits it. When it gets one, it has its room there, and rules take note (reserve).
#   PERMIT     of all rules. They are asked in each pass.
#   PRE_BIND   until what rules have had written before the binding has taken effect. So are these.
#   BINDING    to be written, and shown by the API server. Then it is forgotten; in a dry run, it stays so.
#
# While it waits for any but the first it is assumed: it has room on its node. It falls back to the first if a
# rule refuses, its node or the pod itself goes, a Policy changes, or a write fails (fall_back): it gives up
# its room, rules unreserve, and it backs off for 1, 2, 4, ... 10 seconds. If it fits nowhere, it is tried
# again after that only if something has changed since, or after a minute; else at once after that. If ten
# pods meet 5xx, 429 or no answer, and none is bound meanwhile, the pass ends, and the loop waits.


class WaitsFor(enum.Enum):
    """What a pending pod waits for."""

    NODE = "node"
    PERMIT = "permit"
    PRE_BIND = "pre_bind"
    BINDING = "binding"


@dataclass
class PodRecord:
    """What is remembered of a pending pod from pass to pass. Times are in monotonic seconds."""

    pod: Pod  # as it is by now
    written: str | None = None  # the message of its last event, and of its condition PodScheduled
    event: tuple | None = None  # the request that recorded that event
    say_again_at: float = 0  # when the event may be counted up
    writing: threading.Lock = field(default_factory=threading.Lock, repr=False)  # held while of it is written
    reported: tuple | None = None  # what was last reported of it
    attempts: int = 0  # that have failed
    has_met_trouble: bool = False  # of the API server, at the last of them
    backoff_ends: float = 0
    retry_at: float = 0
    began_at: float = 0  # when its turn in this pass began
    took: float = 0  # seconds that the loop has spent on it then
    waits_for: WaitsFor = WaitsFor.NODE
    since: float = 0  # when it began to wait for that; for a node: it came, or the last attempt failed
    decision: Decision | None = None  # by which it has its node, as long as rules are asked
    changed: list = field(default_factory=list)  # of objects in memory, for it: (part, name, value before)

    def set_aside(self, part, name, value):
        """Change a part of an object in memory, as it will be once that is written."""
        self.changed.append((part, name, part.get(name)))
        part[name] = value

    def put_back(self):
        """Undo these changes. If one of them was written, the object comes again as news."""
        while self.changed:
            part, name, before = self.changed.pop()
            part[name] = before

    def renew(self, pod):
        """Take the pod as it is by now."""
        self.pod = pod
        pod.record = self
        if self.decision:
            self.decision.pod = pod

    def begin_turn(self, pod):
        """Take the pod as it is by now, to decide about it."""
        self.renew(pod)
        self.began_at = time.monotonic()

    def end_turn(self):
        """Note how long the loop has spent on the pod."""
        self.took = time.monotonic() - self.began_at

    def wait_for(self, what, decision=None):
        """Have the pod wait for something; nothing else changes that. A decision is kept for rules only."""
        if what is not self.waits_for:
            self.since = time.monotonic()
        self.waits_for = what
        self.decision = decision

    def back_off(self, seconds, unless_changed=0):
        """Have the pod wait for a node: for so long in any case; for longer, unless something changes."""
        self.wait_for(WaitsFor.NODE)
        self.put_back()
        self.attempts += 1
        self.since = time.monotonic()
        self.backoff_ends = self.since + seconds
        self.retry_at = self.since + max(seconds, unless_changed)

    def retry_by(self, moment):
        """Have the pod tried again at a time, unless it will be before."""
        self.retry_at = min(self.retry_at, moment)

    def is_due(self):
        """Say whether this pass has to do with the pod."""
        if self.waits_for is WaitsFor.NODE:
            return time.monotonic() >= self.retry_at
        return self.waits_for is not WaitsFor.BINDING

    def take_note(self, decision):
        """Take note of what is reported of the pod; return whether that is news."""
        last = self.reported
        self.reported = (decision.node or decision.message, decision.remedy, decision.waits)
        return self.reported != last


BRAKE = 10  # a pod backs off for so many times as long as its turn took, for the others' sake


def seconds_to_wait(decision):
    """Return for how long a pod backs off.

    How long it took is not up to the pod if the API server was in trouble.
    """
    record = decision.pod.record
    policy = decision.policy
    usual = backoff(record.attempts + 1, policy.max_backoff, policy.initial_backoff)
    if decision.trouble:
        return usual
    seconds = max(usual, BRAKE * record.took)
    if record.took > 1:
        pause = f"it is tried again after {seconds:.0f} s at the earliest, so that others have turns"
        warn_once(f"{decision.pod.key} takes {record.took:.1f} s to decide about: {pause}", about="brake")
    return seconds


class SchedulingQueue(dict):
    """{uid: PodRecord} of the pending pods: who is to be tried, when, and in which order.

    Upstream: internal/queue.
    """

    def __init__(self, cache, cycle):
        super().__init__()
        self.cache = cache
        self.cycle = cycle  # the BindingCycle
        self.policies = {}  # by which pods were last tried

    def renew(self, listed, policies):
        """Give the pods that are to be tried their records: those that are listed, as lists lag; and others.

        Forget all that have gone. Those that wait for rules fall back if their Policy is another one by now.
        """
        known = [self.cache.waiting(record.pod) for record in self.values()]
        pods = {pod.uid: pod for pod in [*known, *listed] if pod and is_for(pod, policies)}
        moment = time.monotonic()
        for uid, pod in pods.items():
            if uid not in self:
                self[uid] = PodRecord(pod, since=moment)
            self[uid].renew(pod)
        for uid, record in [*self.items()]:
            decision = record.decision
            if decision and (uid not in pods or decision.policy not in policies.values()):
                self.cycle.fall_back(decision)
            is_being_bound = record.waits_for is WaitsFor.BINDING and self.cache.waiting(record.pod)
            if uid not in pods and not is_being_bound and uid not in self.cycle.under_way:
                del self[uid]
                record.pod.record = None  # else they keep each other
        if policies != self.policies:  # by which pods may fit
            self.policies = dict(policies)
            self.end_backoff()
        return [*pods.values()]

    def in_order(self, pods, policies):
        """Return pods in the order in which to try them."""
        pods = sorted(pods, key=lambda pod: (-pod.priority, pod.record.since, pod.created, pod.key))
        pods.sort(key=lambda pod: pod.record.has_met_trouble)  # behind those that may have none
        for rule in [rule for policy in policies.values() for rule in policy.rules_with["queue_sort"]]:
            place = place_of(rule, rule.hooks["queue_sort"])
            with warn_if_broken(f"the queue is sorted by priority and age, not by {rule.title} ({place})"):
                pods = sorted(pods, key=functools.partial(call_hook, rule, "queue_sort"))
        # Last come those that have a node and wait, maybe for the others; first of them who was asked first.
        pods.sort(key=lambda pod: pod.record.began_at if pod.record.decision else 0)
        return pods

    def end_backoff(self):
        """Have all pods tried again."""
        for record in self.values():
            record.retry_by(0)

    def retry_after_backoff(self):
        """Have pods that fit nowhere tried again once their backoff is over, since something has changed."""
        for record in self.values():
            record.retry_by(record.backoff_ends)

    def call_off_held(self):
        """Have the pods that wait for rules give up their rooms."""
        for record in self.values():
            if record.decision:
                self.cycle.fall_back(record.decision)


def is_for(pod, policies):
    """Say whether the pod is to be tried by one of these Policies."""
    return pod.scheduler in policies and ready(pod, policies[pod.scheduler])


class BindingCycle:
    """What becomes of a pod once there is a decision: each method is a step of that.

    It runs in the loop's thread. Upstream: schedule_one.go.
    """

    SEVERAL = 10  # pods in a pass that meet trouble of the API server: then it is not up to them

    def __init__(self, cache, writer, recorder):
        self.cache = cache
        self.writer = writer
        self.recorder = recorder
        self.under_way = set()  # the uids of pods whose Bindings are being written
        self.failing = {}  # uid -> the trouble that its pod has met in this pass, since one was bound

    def assume(self, decision):
        """Put the pod on its node, and have the rules take note of that (reserve)."""
        node = self.cache.snapshot.nodes[decision.node]
        self.cache.place(decision.pod, node.name)
        decision.pod.record.wait_for(WaitsFor.PERMIT, decision)
        try:
            for rule in decision.policy.rules_with["reserve"]:
                call_hook(rule, "reserve", decision.pod, node, self.cache.snapshot)
        except (Exception, SystemExit) as error:
            decision.give_up(error)

    def ask_rules(self, decision):
        """Ask the rules whether an assumed pod may be bound by now (permit, pre_bind)."""
        decision.requests = []  # those of an earlier pass have been sent
        decision.trouble = None
        decision.reason = "Unschedulable"
        record = decision.pod.record
        node = self.cache.snapshot.nodes.get(decision.node)
        try:
            if node is None:
                raise Unschedulable(f"node {decision.node} has gone")
            if record.waits_for is WaitsFor.PERMIT:
                decision.waits = why_held(decision, node, self.cache.snapshot)
                if decision.waits:
                    return
            decision.reason = "SchedulerError"  # whatever is wrong from now on; as kube-scheduler's PreBind
            decision.requests, decision.waits = what_comes_first(decision, node, self.cache.snapshot)
            if decision.waits:
                record.wait_for(WaitsFor.PRE_BIND, decision)
            else:
                record.wait_for(WaitsFor.BINDING)
        except (Exception, SystemExit) as error:
            record.put_back()  # what rules have set aside in memory is not written
            if isinstance(error, Trouble):  # of the API server: then it waits, as it stands
                FAILURE.set()
                decision.trouble = error
                decision.waits = decision.waits or one_line(error)
            else:
                decision.give_up(error)

    def put_off(self, decision):
        """Have a pod that has no node back off, and say why it stays pending."""
        decision.pod.record.end_turn()
        self.fall_back(decision)
        self.note_trouble(decision, decision.trouble)
        self.writer.try_to_send(decision.requests)
        self.recorder.say(decision, "Warning", "FailedScheduling", decision.reason, decision.message)

    def bind(self, decision):
        """Have a thread bind a pod that has its node; or send first what rules want sent."""
        record = decision.pod.record
        record.end_turn()
        self.note_trouble(decision, decision.trouble)
        try:
            if record.waits_for is not WaitsFor.BINDING:
                self.writer.send(decision.requests)
                self.recorder.say(decision, "Normal", "Waiting", "Waiting", decision.waits)
            elif self.writer.start(bind_and_tell, decision, record, self.writer, self.recorder):
                self.under_way.add(decision.pod.uid)
        except Exception as error:
            self.take_failure(decision, error)

    def fall_back(self, decision):
        """Have a pod wait for a node again: give up its room, have the rules forget it, have it back off."""
        record = decision.pod.record
        had_room = record.waits_for is not WaitsFor.NODE
        unless_changed = decision.policy.unschedulable_seconds if decision.fits_nowhere else 0
        record.back_off(seconds_to_wait(decision), unless_changed)
        if had_room:
            self.cache.forget(decision.pod)
            self.writer.try_to_send(unreserve(decision, self.cache.snapshot))

    def take_answers(self, patience=0.5):
        """Take in how Bindings have ended; for those under way wait so many seconds."""
        until = time.monotonic() + patience
        while self.under_way:
            try:
                decision, error = self.writer.answered.get(timeout=max(until - time.monotonic(), 0))
            except queue.Empty:
                return
            self.under_way.remove(decision.pod.uid)
            if error:
                self.take_failure(decision, error, heading="binding rejected: ")
            else:
                self.failing.clear()

    def take_failure(self, decision, error, heading=""):
        """Have a pod fall back for which something could not be written."""
        pod = decision.pod
        self.fall_back(decision)
        self.note_trouble(decision, error)
        is_known = isinstance(error, (ApiError, Unschedulable))
        why = one_line(error) if is_known else what_broke(error)
        is_failure = warn_of_failure(error, f"{pod.key}: {why}")
        is_answered = not is_answer(error, 0, 429)
        if is_failure and is_answered:  # else it might well not be told either
            self.recorder.say(decision, "Warning", "FailedScheduling", "SchedulerError", f"{heading}{why}")

    def note_trouble(self, decision, error):
        """Note whether what a pod has met is trouble of the API server."""
        decision.pod.record.has_met_trouble = isinstance(error, Trouble)
        if isinstance(error, Trouble):
            self.failing[decision.pod.uid] = error

    def raise_trouble(self):
        """Raise what several pods have met in this pass: then it is not up to them."""
        if len(self.failing) >= self.SEVERAL:
            raise self.failing.popitem()[1]

    def finish(self, seconds, stop=None):
        """Wait until all is written, but no longer than this, or until `stop` is set."""
        until = time.monotonic() + seconds
        while self.under_way or self.writer.tasks.unfinished_tasks:
            if time.monotonic() > until or (stop and stop.is_set()):
                break
            self.take_answers(patience=0.02)
            time.sleep(0.002)


def why_held(decision, node, snapshot):
    """Return which rule does not permit the binding yet, or "". Raises Unschedulable if time is up."""
    held = []  # (the seconds for which a rule lets the pod wait, its name, why)
    for rule in decision.policy.rules_with["permit"]:
        seconds, reason = with_reason(call_hook(rule, "permit", decision.pod, node, snapshot))
        if seconds:
            held.append((seconds, rule.title or rule.name, reason))
    if not held:
        return ""
    seconds, name, reason = min(held)
    if not time.monotonic() - decision.pod.record.since < seconds:  # which may be NaN
        late = f"rejected due to timeout after waiting {seconds:g}s at plugin {name}"
        rejected = f'pod "{decision.pod.name}" rejected while waiting on permit: {late}'
        raise Unschedulable(with_why(rejected, reason))
    return with_why(f"{name} does not permit the binding to {node.name} yet", reason)


def what_comes_first(decision, node, snapshot):
    """Return what rules want sent before the binding (pre_bind), and what has to take effect, or ""."""
    requests = []
    waits = ""
    for rule in decision.policy.rules_with["pre_bind"]:
        wanted, reason = with_reason(call_hook(rule, "pre_bind", decision.pod, node, snapshot))
        if wanted is not None and not snapshot.is_live:  # nothing will change: so it is asked again now
            wanted, reason = with_reason(call_hook(rule, "pre_bind", decision.pod, node, snapshot))
        if wanted is not None:
            requests += wanted
            waits = with_why(f"{rule.title or rule.name} prepares the binding to {node.name}", reason)
    return requests, waits


def with_why(text, reason):
    """Return a text with the reason that a rule has given, if any."""
    return f"{text}: {reason}" if reason else text


def warn_of_failure(error, text):
    """Say that a write has failed, and return True, unless it came too late.

    That no answer came, is said once for all pods.
    """
    if is_answer(error, 404, 409):
        return False
    FAILURE.set()
    warn_once(text, about="no answer to a write" if is_answer(error, 0) else None)
    return True


def is_answer(error, *statuses):
    """Say whether an error is that of a request, and has one of these statuses; 0: no answer came."""
    return isinstance(error, ApiError) and error.status in statuses


# ==== 29. What is written ===============================================================================

# Threads write Bindings, and tell people. What rules want sent, the loop has sent, and waits for that. In a
# dry run nothing is written. Nor does a replica write that does not lead (`attempt`), except that it says
# which pods it has bound (`announce`). A request that fails with 5xx is sent up to three times (patiently).


HOOK_SECONDS = 60  # for which a rule's bind may keep a thread, and its post_bind, too


class Writer:
    """Sends requests, in threads of its own."""

    def __init__(self, api):
        self.api = api
        self.may_write = lambda: True  # whether this replica leads
        # Seconds to wait for a free thread. Where manifests are written, nobody but rules takes long.
        self.patience = 5 if api.is_live else 2 * HOOK_SECONDS
        self.threads = 0  # that have been started
        self.tasks = queue.Queue()  # what threads are to do: (function, arguments)
        # For the loop: (decision, why its Binding has failed, or None). Before Python 3.11 a SimpleQueue that
        # is to wait for hardly any time may wait for ever.
        self.answered = queue.Queue()

    def start(self, function, *arguments):
        """Have a thread call a function, as soon as one is free. Return whether one will. Raises Trouble."""
        self.tasks.put((function, arguments))
        if self.threads < min(self.tasks.unfinished_tasks, THREADS):
            try:
                start_thread(self.work)
                self.threads += 1
            except Trouble:  # then those that there are do it
                if not self.threads:
                    self.tasks.get()
                    self.tasks.task_done()
                    raise
        return True

    def work(self):
        """Do one task after another, for ever."""
        while True:
            function, arguments = self.tasks.get()
            with warn_if_broken("what was to be written is not"):
                function(*arguments)
            self.tasks.task_done()
            del function, arguments  # while the thread waits, it keeps no decision and no nodes

    def is_busy(self):
        """Say whether all threads have something to do."""
        return self.tasks.unfinished_tasks >= THREADS

    def wait_for_a_free_thread(self):
        """Wait until a thread has nothing to do. Raises ApiError if that takes long."""
        until = time.monotonic() + self.patience
        while self.is_busy():
            if time.monotonic() > until:
                what = f"no answer to {THREADS} writes, or to what rules do after them"
                raise Trouble(0, f"{what}, for {self.patience} s")
            come_round()
            time.sleep(0.002)

    def attempt(self, *request):
        """Send a request once, unless another replica may lead by now. Return its answer."""
        if not self.may_write():
            raise ApiError(409, "this replica does not lead any more")
        return self.api.request(*request)

    def send(self, requests):
        """Send what rules want sent, one after another, until one fails. Raises ApiError.

        No pod is tried meanwhile, so it may not take long.
        """
        until = time.monotonic() + 10
        for request in requests:
            left = until - time.monotonic()
            if left <= 0:
                raise Trouble(0, "what was sent before it took too long")
            within(left, patiently, self.attempt, *request)

    def try_to_send(self, requests):
        """Send what rules want sent, though nothing depends on it."""
        try:
            self.send(requests)
        except Exception as error:  # what a rule wants sent may be anything
            warn_of_failure(error, str(error) if isinstance(error, ApiError) else what_broke(error))

    def place_of(self, pod):
        """Return the node on which a pod is, or "", whatever was answered: the answer may have been lost.

        As long as the API server does not tell, it is asked again, and the pod keeps its room.
        """
        for attempt in itertools.count(1):
            try:
                raw = self.api.request("GET", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")
                uid = name_in(raw, "metadata", "uid")
                if uid:  # else it is no pod, so that no API server says it
                    return name_in(raw, "spec", "nodeName") if uid == pod.uid else ""
            except ApiError as error:
                if error.status in (403, 404):  # nobody may ask, or it has gone
                    return ""
            time.sleep(backoff(attempt, most=10))


class DryRun(Writer):
    """Writes nothing."""

    def start(self, function, *arguments):
        """Leave it. Return that nobody calls the function."""
        return False

    def send(self, requests):
        """Leave it."""


def bind_and_tell(decision, record, writer, recorder):
    """Bind the pod, and let the loop know. If it is bound, tell people and rules so."""
    pod = decision.pod
    try:
        with record.writing:  # what says that the pod waits is written before, or not at all
            bind(decision, writer)
    except BaseException as error:  # by a rule even SystemExit
        place = writer.place_of(pod) if writer.api.is_live else ""
        if place not in ("", decision.node):
            why = f"is on {place}: somebody else bound it; does a second {pod.scheduler} run?"
            warn_once(f"{pod.key} {why}", about="somebody else binds")
        if place != decision.node:
            writer.answered.put((decision, error))
            return
    writer.answered.put((decision, None))
    message = f"Successfully assigned {pod.key} to {decision.node}"
    recorder.announce(pod, ", though it ".join([message, *unheeded(decision)]))
    for rule in decision.policy.rules_with["post_bind"]:
        with warn_if_broken(pod.key):
            call_in_time(rule, "post_bind", pod, decision.node)


def bind(decision, writer):
    """Bind the pod: by a rule, an extender, or else a Binding. Raises ApiError, or what a rule raises."""
    pod = decision.pod
    node_name = decision.node
    policy = decision.policy
    is_live = writer.api.is_live
    binders = [(f"rule {rule.title or rule.name}", functools.partial(call_in_time, rule, "bind"))
               for rule in policy.rules_with["bind"]]
    if is_live:
        binders += [(f"extender {extender.url}", extender.bind)
                    for extender in policy.extenders if extender.cares("bindVerb", pod)]
    bound_by = next((who for who, binder in binders if writer.may_write() and binder(pod, node_name)), None)
    # Among manifests nobody else can bind it, so that a Binding follows in any case.
    if bound_by and is_live:
        if writer.place_of(pod) != node_name:
            raise Unschedulable(f"{bound_by} says that the pod is bound to {node_name}, and it is not")
        return
    try:
        answer = patiently(writer.attempt, *binding(pod, node_name))
    except ApiError as error:
        if error.status == 413:
            raise Unschedulable(f"with its node, the pod is larger than etcd takes: {error}") from error
        raise
    if is_live and not name_in(answer, "kind"):  # which all has that an API server says
        raise Trouble(0, "its Binding was answered, but by no API server")


def call_in_time(rule, point, *things):
    """Return what a rule says at an extension point. Raises TimeoutError if that takes too long."""
    late = TimeoutError(f"{rule.title or rule.name}: {point} has not returned for {HOOK_SECONDS} s")
    return within(HOOK_SECONDS, call_hook, rule, point, *things, late=late)


SAY_AGAIN_SECONDS = 300  # for which an event is not counted up


class Recorder:
    """Tells people what becomes of pods, in events and conditions. Upstream: client-go's EventRecorder."""

    def __init__(self, writer):
        self.writer = writer

    def say(self, decision, kind, event_reason, condition_reason, message):
        """Say why the pod is not bound, in an event and in its condition PodScheduled, if that is new.

        A warning that is not new is counted up, as events last for an hour; not those of many pods at once.
        For pods whose condition has the reason Unschedulable, cluster autoscalers make nodes.
        """
        pod = decision.pod
        record = pod.record
        moment = time.monotonic()
        if message != record.written:
            record.written = message
            record.event = event(pod, kind, event_reason, message)
            requests = record.event, pod_condition(pod, condition_reason, message)
        elif kind == "Warning" and moment >= record.say_again_at:
            requests = (counted_up(record.event),)
        else:
            return
        record.say_again_at = moment + random.uniform(1, 2) * SAY_AGAIN_SECONDS
        self.writer.start(self.tell, record, message, *requests)

    def tell(self, record, message, event, condition=None):
        """Say why a pod is not bound. What the API server fails to write, the next attempt says again."""
        self.write_if_news(record, message, event)
        if condition:
            with record.writing:  # the Binding comes before it or after it, or else a bound pod would say it
                self.write_if_news(record, message, condition)

    def write_if_news(self, record, message, request):
        """Write a message about a pod that waits, unless there is another one by now."""
        if record.written != message:
            return
        if record.waits_for is WaitsFor.BINDING:
            record.written = None  # by now it may be bound; if it is not, that is told anew
        elif not write_note(self.writer.attempt, request):
            record.written = None

    def announce(self, pod, message):
        """Say that a pod is bound, even if this replica does not lead any more.

        If the API server is in trouble, say it again after 1, 2 and 4 seconds, unless all threads are needed.
        """
        request = event(pod, "Normal", "Scheduled", message)
        for pause in (0, 1, 2, 4):
            time.sleep(pause)
            if write_note(self.writer.api.request, request) or self.writer.is_busy():
                return


def write_note(send, request):
    """Send an event or a condition. Return False if it is to be said anew: in trouble, or it has gone."""
    try:
        patiently(send, *request)
    except ApiError as error:
        has_gone = error.status == 404
        if isinstance(error, Trouble) or (has_gone and "/events/" in request[1]):
            return False
        # Where the pod has gone, another one of its name is told 422. 409: it was written after all, or
        # this replica does not lead any more.
        if not has_gone and error.status not in (409, 422):
            warn_once(str(error))
    return True


def counted_up(request):
    """Return the request that counts up an event which a request has recorded. Upstream: EventCorrelator."""
    _, path, body = request
    body["count"] += 1
    body["lastTimestamp"] = now()
    return "PATCH", f"{path}/{body['metadata']['name']}", {
        "count": body["count"], "lastTimestamp": body["lastTimestamp"]}


# ==== 30. The live cluster ==============================================================================

class LiveCluster(Cluster):
    """What the loop works with: a cache that is kept up to date, a queue, threads that write."""

    OBJECTS = Objects  # how what there is becomes known

    def __init__(self, api, show=lambda decision: None, options=None, at_rest=lambda: None):
        super().__init__(api, show)
        self.options = options or read_arguments([])  # of the command line
        dry_run = self.options.dry_run
        self.cache = Cache(api, api.is_live and not dry_run, self.OBJECTS)
        self.snapshot = self.cache.snapshot
        self.writer = DryRun(api) if dry_run else Writer(api)
        self.cycle = BindingCycle(self.cache, self.writer, Recorder(self.writer))
        self.pending = SchedulingQueue(self.cache, self.cycle)
        self.at_rest = at_rest  # is called when a pass is over
        self.unheard = {}  # namespace/name of pods that are listed, and not told -> since when
        self.listed_at = -math.inf  # when the pods that wait were last listed, in monotonic seconds
        self.breaks_off_at = 0  # when the pass ends if pods have come

    def pods_to_try(self, policies, stop):
        """Yield the pods that are due; before each, take in what has changed. Raises ApiError.

        Of those that have a node and wait for rules, these are asked again.
        """
        try:
            self.begin_pass(policies)
            while pod := self.next_due(stop):
                decision = pod.record.decision
                if decision:
                    self.go_on(decision)
                    self.report(decision)
                else:
                    yield pod
        finally:
            self.cycle.take_answers()  # which pods the API server has bound, and which not
        self.cycle.raise_trouble()

    def bind(self, decision):
        """Give the pod its room, ask the rules; if none is against it, have a thread POST the Binding."""
        self.cycle.assume(decision)
        self.go_on(decision)

    def go_on(self, decision):
        """Ask rules whether a pod may be bound by now to the node that it has; bind it, or put it off."""
        if decision.node:
            self.cycle.ask_rules(decision)
        if decision.node:
            self.cycle.bind(decision)
        else:
            self.cycle.put_off(decision)

    def put_off(self, decision):
        """Have rules do something about a pod that fits nowhere; it backs off."""
        decision.policy.seek_remedy(decision, self.snapshot)
        self.cycle.put_off(decision)

    def report(self, decision):
        """Show a decision, unless it says what was last said of the pod."""
        if decision.pod.record.take_note(decision):
            self.show(decision)

    def tell_trouble(self, trouble):
        """Say once what has ended a pass, unless a signal has."""
        super().tell_trouble(None if STOP.is_set() else trouble)

    def begin_pass(self, policies):
        """Find out which pods are due. Raises ApiError."""
        pods = self.pending_pods(self.waiting_pods(policies), policies)
        if self.cache.has_changed:
            self.cache.has_changed = False
            self.pending.retry_after_backoff()
        self.cycle.failing.clear()
        self.due = [pod for pod in pods if pod.record.is_due()]
        ready_at = time.monotonic()
        self.breaks_off_at = ready_at + max(1, ready_at - self.listed_at)

    def waiting_pods(self, policies):
        """List the pods that name one of these schedulers, and have no node yet.

        The lists tell names only, and may lag: the pods themselves are as the cache has them, and those are
        left out that are known to have gone, or of which no news came yet.
        """
        self.snapshot.policies = dict(policies)
        self.cache.arrived.clear()  # these are listed now
        self.listed_at = time.monotonic()
        keys = {}
        for name in policies:
            selector = f"spec.schedulerName={name},spec.nodeName="
            raws, _ = list_all(self.api, "pods", selector, names_only=True)
            keys |= dict.fromkeys(map(key_in, raws))
        self.cache.refresh()
        self.prove_the_watch(keys)
        pods = [self.cache.pods.get(key) for key in keys]
        return [pod for pod in pods if pod and pod.scheduler in policies and not pod.node_name]

    def prove_the_watch(self, keys):
        """List all pods anew if one is listed of which no news has come for long: others may lack, too."""
        unknown = keys.keys() - self.cache.pods.keys()
        self.unheard = {key: self.unheard.get(key, self.listed_at) for key in unknown}
        for key, since in self.unheard.items():
            if self.listed_at > since + 5:
                self.cache.objects.doubt(f"in 5 s not of pod {key}, which is listed")
                self.cache.refresh()
                return

    def look(self, policies=()):
        """Return the cluster as it is by now. Raises ApiError."""
        self.snapshot.policies = dict(policies)
        self.cache.refresh()
        return self.snapshot

    def pending_pods(self, waiting, policies):
        """Return the pods that are to be tried, in the order in which to try them."""
        return self.pending.in_order(self.pending.renew(waiting, policies), policies)

    def next_due(self, stop):
        """Take in the news, and return the next pod to decide about. None ends the pass. Raises ApiError.

        If pods have come meanwhile, the pass ends after a second, as one of them may be more important; after
        lists that took longer, it takes as long as these, so that at least half of the time is for decisions.
        So it does if no news come, which are listed then.
        """
        while self.due:
            is_late = time.monotonic() > self.breaks_off_at
            if stop.is_set() or (is_late and (self.has_come() or self.cache.objects.silent())):
                return None
            self.cycle.take_answers(patience=0)
            self.cycle.raise_trouble()
            self.writer.wait_for_a_free_thread()
            self.cache.take_news()
            pod = self.due.pop(0)
            latest = self.cache.waiting(pod)
            if latest and not latest.terminating:  # else it is bound, or goes
                pod.record.begin_turn(latest)
                return latest
        return None

    def has_come(self):
        """Say whether a pod is to be tried that has come, or changed, since these were listed."""
        return any(map(self.is_to_be_tried, self.cache.arrived.values()))

    def is_to_be_tried(self, pod):
        """Say whether a pod is new; or if it has changed, whether it is due, and nobody was just tried."""
        if not is_for(pod, self.snapshot.policies):
            return False
        record = self.pending.get(pod.uid)
        return not record or (record.is_due() and time.monotonic() > self.listed_at + 0.1)

    def rest(self, seconds, stop):
        """Wait so long, or until `stop` is set; unless there is trouble, only until there is work."""
        self.at_rest()
        if self.trouble or not self.cache.objects.reflectors:
            CAME_ROUND.at = math.inf
            super().rest(seconds, stop)
            come_round()
            return
        until = time.monotonic() + seconds
        while not (self.has_come() or stop.is_set()) and time.monotonic() < until:
            self.cache.take_news(patience=0.1)

    def keep_up(self):
        """Take in the news while another replica leads, so that this one may lead at once."""
        with contextlib.suppress(ApiError):  # which the loop meets, once it runs
            self.cache.refresh()
        self.cache.arrived.clear()  # all that wait will be listed


class ListedCluster(LiveCluster):
    """One that is listed in each pass, and not watched: manifests, or what is looked at once."""

    OBJECTS = ListedObjects

    def has_come(self):
        """Say that no pod comes between the lists."""
        return False


# ==== 31. What is remembered ============================================================================

# It only saves time. A steady rule is asked about a node again if the node, or a pod on it, has changed since
# the last pod like this one, and about all nodes if what it rests on has changed: its `basis`. Predicates
# that stand beside each other have one basis together, as one is asked only where those before it have
# nothing against the node. Rules that follow claims to volumes, which may change at any time, are not steady.


@dataclass
class Finding:
    """What was found out about nodes, and what it rests on."""

    basis: object
    nodes: dict  # name -> Node
    answers: dict  # name -> what was found out about the node
    result: object  # what `then` has made of the answers
    version: int  # of the memory, by then


class Memory:
    """What was found out about nodes, and which of them have changed since."""

    MOST = 2_000_000  # answers about nodes, of some 50 bytes each: 100 MiB

    def __init__(self):
        self.version = 0  # grows with each change
        self.changed_at = {}  # name of a node -> the version that its last change made; the newest is last
        self.findings = {}  # (subject, what pods share) -> Finding

    def note(self, name):
        """Note that a node has changed."""
        self.version += 1
        self.changed_at.pop(name, None)
        self.changed_at[name] = self.version

    def changed_since(self, version):
        """Return the names of the nodes that have changed since a version."""
        names = set()
        for name, changed_at in reversed(self.changed_at.items()):
            if changed_at <= version:
                break
            names.add(name)
        return names

    def forget(self):
        """Forget all that was found out."""
        self.changed_at.clear()
        self.findings.clear()

    def copy(self):
        """Return another memory that knows the same."""
        other = Memory()
        other.version = self.version
        other.changed_at = dict(self.changed_at)
        other.findings = dict(self.findings)
        return other

    def keep(self, key, finding, size):
        """Keep a finding. If so many, about so many nodes, are too much, forget any others.

        Any: if more kinds of pods take turns than there is room for, the oldest is asked for next.
        """
        self.findings[key] = finding
        while len(self.findings) * (size + 500) > self.MOST:  # 500 for what is not of a node
            del self.findings[random.choice([*self.findings])]


def likeness(pod, rules):
    """Return what a pod shares with those that are alike to these rules, as far as they are steady.

    None: it says so much that what is found out would take up too much room.
    """
    if is_large(pod):
        return None
    like = kind_of(pod) if any(rule.is_own for rule in rules) else signature_of(pod)
    return like, pod.node_name


def recall(subject, like, snapshot, nodes, function, basis=None, then=lambda nodes, answers: answers):
    """Return then(nodes, {name: function(node)}) of these nodes, {name: Node}.

    On one subject, and for pods that share `like`, the function is called again for the nodes that have
    changed since the last time; on another basis, or if `like` is None, for all.
    """
    memory = snapshot.memory
    key = subject, like
    last = memory.findings.pop(key, None) or Finding(None, {}, {}, None, memory.version)
    changed = memory.changed_since(last.version)
    is_other_basis = last.basis != basis
    if is_other_basis:
        asked = list(nodes)
    elif nodes is last.nodes:
        asked = sorted(changed & nodes.keys())
    else:
        asked = [name for name in nodes if name in changed or name not in last.answers]
    news = {}
    shared = {}  # its text -> an answer; so equal ones take up the room of one
    for name in asked:
        answer = function(nodes[name])
        news[name] = shared.setdefault(repr(answer), answer)
    answers = last.answers
    result = last.result
    if is_other_basis or nodes is not last.nodes or any(answers[name] != news[name] for name in news):
        answers = answers | news
        if nodes is not last.nodes:
            answers = {name: answers[name] for name in nodes}
        result = then(nodes, answers)
    if like is not None:
        memory.keep(key, Finding(basis, nodes, answers, result, memory.version), len(snapshot.nodes))
    return result


def recall_fits(ask, predicates, pod, snapshot, policy):
    """Return the nodes that fit, {name: Node}, and the Failures of the others, by ask(pod, predicates, node).

    Predicates of which one is not steady are remembered apart, and so are those of one's own.
    """
    feasible = snapshot.nodes
    failed = Failures()
    groups = [predicates]
    if not policy.always_check_all:  # else each predicate is asked about all nodes
        by_steadiness = itertools.groupby(predicates, key=lambda each: (each.rule.steady, each.rule.is_own))
        groups = [list(group) for _, group in by_steadiness]
    for place, group in enumerate(groups):
        like = likeness(pod, [each.rule for each in group])
        reasons_against = functools.partial(ask, pod, group)
        feasible, refused = recall(
            (policy, place), like, snapshot, feasible, reasons_against, basis=group, then=split_nodes)
        if not failed:
            failed = refused  # the very object, whose message is summed up once
        elif refused:
            failed = Failures(failed | refused)
    return feasible, failed


# ==== 32. Extenders =====================================================================================

def extenders_of(configs):
    """Return the extenders, ignorable ones last."""
    extenders = [Extender(config, f"extenders[{i}]") for i, config in enumerate(configs)]
    return sorted(extenders, key=lambda extender: extender.ignorable)


def extender_problems(configs):
    """Yield what is wrong with extenders. Upstream: validateExtenders."""
    binders = [f"extenders[{i}]" for i, config in enumerate(configs) if config.get("bindVerb")]
    managed = set()
    for i, config in enumerate(configs):
        place = f"extenders[{i}]"
        if config.get("prioritizeVerb") and config.get("weight", 0) <= 0:
            yield f"{place}.weight: must be positive where there is a prioritizeVerb"
        for name in [resource.get("name", "") for resource in config.get("managedResources", [])]:
            where = f"{place}.managedResources: {in_short(name)}"
            if not is_extended_resource(name):
                yield f"{where} is no extended resource, such as example.com/gpu"
            if name in managed:
                yield f"{where} comes twice"
            managed.add(name)
        yield from tls_problems(config.get("tlsConfig", {}), f"{place}.tlsConfig")
    for place in binders[1:]:
        yield f"{place}.bindVerb: only one extender may bind, and {binders[0]} does"


def is_extended_resource(name):
    """Say whether this can be the name of an extended resource. Upstream: IsExtendedResourceName."""
    is_native = "/" not in name or "kubernetes.io/" in name or name.startswith("requests.")
    return not is_native and is_qualified(f"requests.{name}")


def is_qualified(name):
    """Say whether this can be the key of a label, or the name of a resource. Upstream: IsQualifiedName."""
    domain, slash, word = name.rpartition("/")
    part = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    is_domain = len(domain) <= 253 and re.fullmatch(rf"{part}(\.{part})*", domain)
    return bool(word and len(word) <= 63 and LABEL_VALUE.fullmatch(word) and (is_domain or not slash))


def tls_problems(tls, place):
    """Yield what is wrong with an extender's tlsConfig. Upstream: TLSConfigFor."""
    if tls.get("insecure") and (tls.get("caFile") or tls.get("caData")):
        yield f"{place}: give either caFile, or caData, or insecure"
    for name in ("caFile", "certFile", "keyFile"):
        if tls.get(name) and not Path(tls[name]).is_file():
            yield f"{place}.{name}: there is no file {tls[name]}"
    for name in ("caData", "certData", "keyData"):
        try:
            base64.b64decode(tls.get(name, ""), validate=True)
        except ValueError:
            yield f"{place}.{name}: expected what is in the file, in base64"


# What extenders answer. Whatever the case of the fields' names, as Go reads them: see `decode`.
# Upstream: kube-scheduler/extender/v1/types.go.
FILTERED = {"Nodes": {"items": [{"metadata": {"name": str}}]}, "NodeNames": [str], "FailedNodes": dict,
            "Error": str}
SCORED = [{"Host": str, "Score": int}]
BOUND = {"Error": str}


class Extender:
    """An HTTP extender of the Policy: a web service that has a say. Upstream: scheduler/core/extender.go."""

    filtered = FILTERED  # what its filter may answer

    def __init__(self, config, title):
        self.config = config
        self.title = title
        self.url = config.get("urlPrefix", "").rstrip("/")
        self.weight = config.get("weight", 0)
        self.ignorable = config.get("ignorable", False)
        self.names_only = config.get("nodeCacheCapable", False)
        self.resources = {resource.get("name") for resource in config.get("managedResources", [])}
        self.timeout = config.get("httpTimeout", 0) / 10**9 or 5  # the Policy has nanoseconds
        self.session = requests.Session()
        self.session.trust_env = False  # the Policy says all, and REQUESTS_CA_BUNDLE would overrule it
        self.session.headers["Accept-Encoding"] = "identity"  # some megabytes may unpack to some gigabytes
        tls = config.get("tlsConfig", {})
        is_unchecked = tls.get("insecure") or config.get("enableHttps")
        self.made_files = []  # which last as long as they are referred to
        self.session.verify = self.file_of(tls, "ca") or not is_unchecked
        client = self.file_of(tls, "cert"), self.file_of(tls, "key")
        if all(client):
            self.session.cert = client
        if tls.get("serverName"):  # that the certificate is for, if it is not the URL's
            secure = self.session.adapters["https://"].poolmanager.connection_pool_kw
            secure["server_hostname"] = secure["assert_hostname"] = tls["serverName"]
        urllib3.disable_warnings(InsecureRequestWarning)  # what is not checked, the Policy has decided

    def file_of(self, tls, what):
        """Return the file of what tlsConfig names, or has as data, which takes precedence; or None."""
        if not tls.get(f"{what}Data"):
            return tls.get(f"{what}File")
        made = tempfile.NamedTemporaryFile()  # noqa: SIM115 (it is there as long as the extender)
        made.write(base64.b64decode(tls[f"{what}Data"]))
        made.flush()
        self.made_files.append(made)
        return made.name

    def cares(self, verb, pod):
        """Say whether it has this verb, and the pod names one of its resources, if it has any."""
        containers = pick(pod.spec, list, "containers") + pick(pod.spec, list, "initContainers")
        named = {name for container in containers for part in ("requests", "limits")
                 for name in pick(container, dict, "resources", part)}
        has_a_say = not self.resources or not self.resources.isdisjoint(named)
        return bool(self.config.get(verb)) and has_a_say

    @contextlib.contextmanager
    def blamed(self, verb, otherwise=""):
        """Blame extender and verb for what goes wrong: raise Unschedulable, or say what is done instead."""
        try:
            yield
        except (ApiError, HTTPError, OSError, ValueError, RecursionError) as error:
            blame = f"extender {self.url}: {self.config[verb]}: {one_line(error)}"
            if not otherwise:
                raise Unschedulable(blame) from error
            warn_once(f"{blame}; {otherwise}")

    def ask(self, verb, body, schema):
        """POST to a verb; return the answer. Raises HTTPError, OSError, ValueError, RecursionError."""
        most = 2**26  # bytes
        url = f"{self.url}/{self.config[verb]}"
        with self.session.post(url, json=body, stream=True, allow_redirects=False,
                               timeout=self.timeout + 1) as response:  # by then nobody waits any more
            if response.status_code != 200:
                raise ValueError(f"it answers {response.status_code} {response.reason}")
            text = response.raw.read(most + 1, decode_content=False)
        if len(text) > most:
            raise ValueError(f"its answer has more than {most} bytes")
        answer = decode(json.loads(text), schema, "the answer", lenient=True)
        if isinstance(answer, dict) and answer.get("Error"):
            raise ValueError(answer["Error"])
        return answer

    def ask_about(self, nodes, verb, pod, schema):
        """Return what a verb answers in time about nodes: to their names, or to all that they are."""
        names = [node.name for node in nodes] if self.names_only else None
        whole = None if self.names_only else {"metadata": {}, "items": [node.raw for node in nodes]}
        body = {"Pod": pod.raw, "NodeNames": names, "Nodes": whole}
        return within(self.timeout, self.ask, verb, body, schema)

    def filter(self, pod, nodes, failed):
        """Return those of the nodes that the extender lets pass, and `failed` with the others added."""
        if not nodes or not self.cares("filterVerb", pod):
            return nodes, failed
        otherwise = "it is ignorable, so the pods go on without it" if self.ignorable else ""
        with self.blamed("filterVerb", otherwise):
            answer = self.ask_about(nodes.values(), "filterVerb", pod, self.filtered)
            passing = {pick(item, str, "metadata", "name") for item in pick(answer, list, "Nodes", "items")}
            if self.names_only and "NodeNames" in answer:
                passing = set(answer["NodeNames"])
            if not passing <= nodes.keys():
                raise Malformed("passes nodes it was not asked about")
            reasons = pick(answer, dict, "FailedNodes", of=str)
            reasons |= pick(answer, dict, "FailedAndUnresolvableNodes", of=str)
            refused = {name: {self.title: [at_most(1000, reasons[name])] if name in reasons else []}
                       for name in nodes if name not in passing}
            return {name: node for name, node in nodes.items() if name in passing}, Failures(failed | refused)
        return nodes, failed

    def prioritize(self, pod, nodes):
        """Return its Vote, 0 to 10 x weight x 10 for each node, in a list; [] if it has none."""
        if len(nodes) == 1 or not self.cares("prioritizeVerb", pod):
            return []
        with self.blamed("prioritizeVerb", "its scores are left out"):
            answer = self.ask_about(nodes.values(), "prioritizeVerb", pod, SCORED)
            scores = collections.Counter()  # of a node that it names twice, the sum
            for each in answer:
                add(scores, {each.get("Host", ""): each.get("Score", 0)})
            if not all(0 <= score <= 10 for score in scores.values()):
                raise Malformed("its scores are not all from 0 to 10")
            points = {name: scores[name] * self.weight * 10 for name in nodes}
            return [Vote(f"{self.title} {self.url}", 1, None, points)]
        return []

    def bind(self, pod, node_name):
        """Have the extender bind the pod. Return True, as a rule does that has bound it."""
        with self.blamed("bindVerb"):
            body = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name}
            within(self.timeout, self.ask, "bindVerb", body, BOUND)
        return True


# ==== 33. Several replicas, of which one leads ==========================================================

ELECTION = {"leaseDuration": 15, "renewDeadline": 10, "retryPeriod": 2}  # seconds, as kube-scheduler's


def now_in_microseconds():
    """Return the time as the API writes it in a Lease."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class LeaderElection:
    """Of several replicas the one leads that holds a Lease, and renews it in time. Upstream: client-go.

    Times are in seconds. Clocks need not agree: how long the Lease has not changed is measured here.
    """

    def __init__(self, api, name, settings):
        self.api = api
        self.identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        settings = ELECTION | settings
        self.lease_duration = settings["leaseDuration"]
        self.renew_deadline = settings["renewDeadline"]
        self.retry_period = settings["retryPeriod"]
        self.metadata = {"name": settings.get("resourceName") or name,
                         "namespace": settings.get("resourceNamespace") or "kube-system"}
        self.written = None  # the Lease, as this replica has just written it
        self.observed = None  # its spec, as last read
        self.observed_at = 0  # when it was first read like this
        self.renewed_at = -math.inf
        self.lost = False  # whether this replica has led, and does no more
        self.keeper = None  # the Future of the thread that renews

    def lead(self, stop, meanwhile=lambda: None):
        """Wait until this replica leads; return whether it does. Then it renews, or sets `stop`, `lost`.

        `meanwhile` is called while another one leads.
        """
        leader = None  # the one of whom was said that it leads
        while not self.acquire():
            holder = name_in(self.observed, "holderIdentity")
            if holder and holder != leader:
                log.info("%s waits: %s leads", self.identity, holder)
                leader = holder
            meanwhile()
            if stop.wait(self.retry_period):
                return False
        log.info("%s became leader", self.identity)
        self.keeper = in_background(self.keep, stop)
        return True

    def leads(self):
        """Say whether the Lease was renewed in time, by this process's clock: else another may lead."""
        return time.monotonic() - self.renewed_at < self.renew_deadline

    def keep(self, stop):
        """Renew the Lease until `stop`, or until that has not succeeded for too long."""
        while not stop.wait(self.retry_period):
            if not self.acquire() and not self.leads():
                log.error("leader election lost")
                self.lost = True
                stop.set()

    def release(self):
        """Let another replica lead at once, when `stop` is set: else this one would renew again."""
        wait([self.keeper], self.retry_period)
        if self.leads():
            self.acquire(to_release=True)

    def acquire(self, to_release=False):
        """Try to acquire or renew the Lease, or to release it; return whether that worked."""
        try:
            return self.write_lease("" if to_release else self.identity)
        except Exception as error:
            if not is_answer(error, 409):  # another one was faster
                warn_once(f"leader election: {error}", about="leader election")
            return False

    def ask(self, *request):
        """Return what a request is answered, in time to go on leading. Raises ApiError."""
        if self.renewed_at == -math.inf:  # it does not lead
            return within(self.renew_deadline, self.api.request, *request, stop=STOP)
        left = self.renewed_at + self.renew_deadline - time.monotonic()
        return within(max(left, self.retry_period), self.api.request, *request)

    def write_lease(self, holder):
        """Write the Lease with this holder, unless another one holds it; return whether that was done."""
        asked = time.monotonic()
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.metadata['namespace']}/leases"
        path = f"{leases}/{self.metadata['name']}"
        method = "PUT"
        lease = self.written
        self.written = None
        try:
            lease = lease or self.ask("GET", path)
        except ApiError as error:
            if error.status != 404:
                raise
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": self.metadata}
            path = leases
            method = "POST"
        spec = pick(lease, dict, "spec")
        if spec != self.observed:
            self.observed = spec
            self.observed_at = asked
        is_ours = spec.get("holderIdentity") == self.identity
        is_old = asked - self.observed_at >= self.lease_duration
        if spec.get("holderIdentity") and not is_ours and not is_old:
            self.renewed_at = -math.inf  # whatever this one has thought
            return False
        spec = {**spec, "holderIdentity": holder, "renewTime": now_in_microseconds(),
                "leaseDurationSeconds": math.ceil(self.lease_duration)}
        if not is_ours:
            spec["acquireTime"] = spec["renewTime"]
            spec["leaseTransitions"] = min(spec.get("leaseTransitions", -1) + 1, 2**31 - 1)
        renewed_at = time.monotonic()  # others count from when they have seen that, which is later
        self.written = self.ask(method, path, lease | {"spec": spec})
        self.renewed_at = renewed_at if holder else -math.inf
        return True


##########################################################################################################
# PART VI. PEOPLE                                                                                        #
# Manifests in place of a cluster, what people see, the command line.                                    #
##########################################################################################################

import html
import shutil
import statistics
import textwrap


# ==== 34. A cluster made of manifests ===================================================================


# What is in these may have any name, or no rule looks at it, or it is not written by people.
FREE = {"labels", "annotations", "nodeSelector", "matchLabels", "volumes", "status"}
VALUES = {  # what these fields may say
    "operator": [*OPERATORS], "effect": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
    "whenUnsatisfiable": ["DoNotSchedule", "ScheduleAnyway"]}
NEEDED = {  # part of a pod -> the fields without which it is refused; [] is any entry of a list
    "podAffinityTerm": ["topologyKey"], f"required{WHEN}[]": ["topologyKey"],
    "topologySpreadConstraints[]": ["maxSkew", "topologyKey", "whenUnsatisfiable"]}
CONTAINERS = {"initContainers", "containers"}
OF_PODS = ["tolerations", "nodeSelector", "affinity", "topologySpreadConstraints", "hostNetwork"]
CLUSTER_WIDE = [  # kinds of objects that have no namespace
    "Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment",
    "PriorityClass", "RuntimeClass"]
KINDS = [*CLUSTER_WIDE, "Pod", "Service", "ReplicationController", "ReplicaSet", "StatefulSet",
         "PersistentVolumeClaim", "CSIStorageCapacity", "PodDisruptionBudget"]
SYSTEM_CLASSES = {  # the PriorityClasses that every cluster has
    "system-node-critical": {"value": 2000001000}, "system-cluster-critical": {"value": 2000000000}}


def remarks_on(kind, thing):
    """Yield what is odd in an object of this kind that no API server has checked."""
    meant = nearly(kind, tuple(KINDS))
    if meant:
        yield f'kind: did you mean "{meant}"?'
    if kind in ("Pod", "Node"):
        yield from refused_in(thing, "")
    if not {"template", "jobTemplate"}.isdisjoint(pick(thing, dict, "spec")):
        yield "no pods are made of its template here: add the pods themselves"


def refused_in(thing, place):
    """Yield what an API server refuses or drops in a part of a pod or a node that rules look at."""
    if isinstance(thing, list):
        for i, value in enumerate(thing):
            yield from refused_in(value, f"{place}[{i}]")
    for name, value in thing.items() if isinstance(thing, dict) else ():
        where = f"{place}.{name}".removeprefix(".")
        known = VALUES.get(name, [value])  # of other fields, any value will do
        if name == "operator" and ".tolerations[" in where:
            known = ["Equal", "Exists", "Gt", "Lt"]
        if value and value not in known:
            yield f'{where}: unknown {name} "{value}"; expected one of {", ".join(known)}'
        if name == "labelSelector" and not isinstance(value, dict | None):
            yield f"{where}: expected an object, got {in_short(value)}"
        if name not in FREE:
            yield from refused_in(value, where)
    if isinstance(thing, dict):
        part = re.sub(r"\[[0-9]+]$", "[]", place).rpartition(".")[2]
        yield from (f"{place}.{problem}" for problem in problems_with(part, thing))


def problems_with(part, thing):
    """Yield what is wrong with the fields of a part of a pod. Upstream: pkg/apis/core/validation."""
    yield from (f"{name}: is missing" for name in NEEDED.get(part, ()) if not thing.get(name))
    if part.removesuffix("[]") in CONTAINERS:
        yield from (f"{name}: belongs in spec, beside containers" for name in OF_PODS if name in thing)
    elif part == "resources":
        places = ["requests", "limits", "claims"]
        yield from (f"{name}: belongs in requests or limits" for name in thing if name not in places)
    elif part in ("requests", "limits"):
        for name in thing.keys() - NO_REQUESTS.keys():
            if "/" not in name and not name.startswith("hugepages-"):
                yield f"{name}: no such resource; expected {', '.join(NO_REQUESTS)}, or example.com/{name}"
    elif part == "tolerations[]":
        exists = thing.get("operator") == "Exists"
        if exists and thing.get("value"):
            yield "value: must be left out where the operator is Exists"
        if not exists and not thing.get("key"):
            yield "operator: must be Exists where there is no key"


def completed(spec):
    """Return a pod's spec as the API server completes it. Upstream: pkg/apis/core/v1/defaults.go."""
    spec = spec | {"schedulerName": pick(spec, str, "schedulerName") or "default-scheduler"}
    on_host_network = pick(spec, bool, "hostNetwork")
    for kind in CONTAINERS & spec.keys():
        spec[kind] = [dict(container) for container in pick(spec, list, kind, of=dict)]
        for container in spec[kind]:
            resources = pick(container, dict, "resources")
            requests = pick(resources, dict, "limits") | pick(resources, dict, "requests")
            container["resources"] = resources | {"requests": requests}
            for port in pick(container, list, "ports", of=dict) if on_host_network else ():
                port["hostPort"] = port.get("hostPort") or port.get("containerPort")
    as_a_whole = pick(spec, dict, "resources")
    if as_a_whole.get("limits"):  # they are requests of what no container requests
        said = set().union(*(pick(container, dict, "resources", "requests") for kind in CONTAINERS
                             for container in pick(spec, list, kind, of=dict)))
        requests = {name: limit for name, limit in as_a_whole["limits"].items() if name not in said}
        requests |= pick(as_a_whole, dict, "requests")
        spec["resources"] = as_a_whole | {"requests": requests}
    return spec


def is_default_class(storage_class):
    """Say whether claims without a class get this one. Upstream: IsDefaultAnnotation in pkg/volume/util."""
    annotations = pick(storage_class, dict, "metadata", "annotations")
    return any(annotations.get(f"storageclass.{prefix}kubernetes.io/is-default-class") == "true"
               for prefix in ("", "beta."))


class Manifests:
    """A cluster made of manifests, which answers like the API server; bindings are kept in memory."""

    is_live = False  # no controllers act on what is written
    COMMAND = ("kubectl get nodes,pods,ns,svc,rc,rs,sts,pv,pvc,sc,csinodes,csidrivers,csistoragecapacities,"
               "volumeattachments,pdb,pc -A -o yaml")  # copies a live cluster

    def __init__(self, paths=()):
        self.objects = {}  # (resource, namespace, name) -> object
        self.uids = {}  # uid of a pod -> its namespace/name
        self.changes = 0  # Bindings, deletions, nominations
        self.cluster_wide = collections.defaultdict(dict)  # resource -> {name: object}
        self.limit_ranges = collections.defaultdict(list)  # namespace -> its LimitRanges
        for path in paths:
            try:
                self.load(path)
            except (OSError, ValueError) as error:
                raise InputError(f"{path}: {one_line(error)}") from error
        if paths and not any(resource == "nodes" for resource, *_ in self.objects):
            raise InputError(f"{path}: there is no Node; a copy of a cluster has all: {self.COMMAND}")
        self.admit()

    def load(self, path):
        """Read a file, or standard input for -; say what is odd in it. Raises OSError, ValueError."""
        for document in parse(text_in(path)):
            if document is None:
                continue
            kind = name_in(document, "kind").removesuffix("List")  # the API server gives items none
            is_list = isinstance(document, dict) and isinstance(document.get("items"), list)
            for thing in document["items"] if is_list else [document]:
                for remark in self.add(thing, kind):
                    log.warning("%s: %s", path, remark)

    def add(self, thing, kind=""):
        """Take in an object, of this kind if it does not say. Return what is odd in it. Raises Malformed."""
        kind = pick(thing, str, "kind") or kind
        name = pick(thing, str, "metadata", "name")
        if not kind or not name:
            got = json.dumps(thing)[:60]
            raise Malformed(f"expected a Kubernetes object with kind and metadata.name, got {got}")
        resource = re.sub("y$", "ie", kind.lower()) + ("es" if kind.endswith("s") else "s")
        metadata = thing["metadata"]
        try:
            if not metadata.get("creationTimestamp"):  # then what comes first in the file is older
                metadata["creationTimestamp"] = f"{len(self.objects):09}"
            if kind.lower() not in map(str.lower, CLUSTER_WIDE):
                metadata["namespace"] = pick(metadata, str, "namespace") or "default"
            spec = pick(thing, dict, "spec")
            is_second = (resource, metadata.get("namespace"), name) in self.objects
            self.objects[resource, metadata.get("namespace"), name] = thing
            if resource == "pods":
                thing["spec"] = completed(spec)
                pod = Pod(thing)
                if self.uids.setdefault(pod.uid, pod.key) != pod.key:  # it is a copy of that one
                    metadata.pop("uid", None)
            elif resource == "nodes":
                Node(thing)
            elif resource == "priorityclasses":
                pick(thing, int, "value")
            elif resource in OWNERS:
                pick(thing, dict, "spec", "selector")
        except (TypeError, ValueError) as error:
            raise Malformed(f"{kind} {name}: {error}") from error
        is_copied = "uid" in metadata  # it has passed an API server, maybe a newer one
        remarks = [] if is_copied else [*remarks_on(kind, thing)]
        if is_second:
            remarks.append("there is one of this name already, which this one replaces")
        return [f"{kind} {name}: {remark}" for remark in remarks]

    def admit(self):
        """Complete the objects as admission does, once all are there. Upstream: plugin/pkg/admission."""
        for namespace in {namespace for _, namespace, _ in self.objects if namespace}:
            self.objects.setdefault(("namespaces", None, namespace), {"metadata": {"name": namespace}})
        completions = {"namespaces": self.admit_namespace, "persistentvolumeclaims": self.admit_claim,
                       "pods": self.admit_pod}
        for (resource, namespace, name), thing in self.objects.items():
            if not namespace:
                self.cluster_wide[resource][name] = thing
            elif resource == "limitranges":
                self.limit_ranges[namespace].append(thing)
        for (resource, namespace, name), thing in self.objects.items():
            with contextlib.suppress(Malformed):  # which rules will say that look at it
                if resource in completions:
                    completions[resource](namespace, name, thing)

    def admit_namespace(self, _, name, thing):
        """Give a namespace the label with its name."""
        labels = pick(thing, dict, "metadata", "labels")
        thing["metadata"]["labels"] = labels | {"kubernetes.io/metadata.name": name}

    def admit_claim(self, _, name, claim):
        """Give a claim the default StorageClass; say what it waits for, if nobody does that here."""
        spec = pick(claim, dict, "spec")
        annotations = pick(claim, dict, "metadata", "annotations")
        classes = self.cluster_wide["storageclasses"]
        defaults = [name for name, each in classes.items() if is_default_class(each)]
        of_old = annotations.get("volume.beta.kubernetes.io/storage-class")
        has_class = spec.get("storageClassName") is not None or of_old is not None
        if defaults and not has_class and "uid" not in claim["metadata"]:  # else it is a live cluster's
            newest = max(defaults, key=lambda name: classes[name]["metadata"]["creationTimestamp"])
            claim["spec"] = spec = spec | {"storageClassName": newest}
        mode = name_in(classes.get(class_name_of(claim)), "volumeBindingMode")
        selected = annotations.get(SELECTED_NODE)
        if not spec.get("volumeName"):
            if mode != "WaitForFirstConsumer":
                warn_once(f"PersistentVolumeClaim {name}: nobody binds it here: add volumeName to its spec, "
                          "and the annotation pv.kubernetes.io/bind-completed")
            elif selected and selected not in self.cluster_wide["nodes"]:
                warn_once(f"PersistentVolumeClaim {name}: waits for a volume for {selected}, which is gone")

    def admit_pod(self, namespace, name, thing):
        """Give a pod what LimitRanges, its RuntimeClass and its PriorityClass say."""
        if "uid" not in thing["metadata"]:  # else it is a live cluster's
            self.give_requests(namespace, thing["spec"])
            thing["spec"] = self.with_runtime_class(name, thing["spec"])
        self.give_priority(name, thing["spec"])
        for volume in pick(thing, list, "spec", "volumes", of=dict):
            claim = f"{name}-{name_in(volume, 'name')}"
            is_there = ("persistentvolumeclaims", namespace, claim) in self.objects
            if volume.get("ephemeral") and not is_there and not thing["spec"].get("nodeName"):
                warn_once(f"Pod {name}: nobody makes the claim {claim} of its ephemeral volume here: add it")

    def give_requests(self, namespace, spec):
        """Give containers the requests that LimitRanges of their namespace have for those without."""
        given = {}
        for limit_range in self.limit_ranges[namespace]:
            for item in pick(limit_range, list, "spec", "limits", of=dict):
                for part in ("defaultRequest", "default", "max", "min"):  # the first one counts
                    said = pick(item, dict, part) if item.get("type") == "Container" else {}
                    given = said | given
        for container in itertools.chain(*(pick(spec, list, kind) for kind in CONTAINERS)):
            container["resources"]["requests"] = given | container["resources"]["requests"]

    def with_runtime_class(self, pod, spec):
        """Return a pod's spec with what its RuntimeClass adds: overhead, a node selector, tolerations."""
        name = name_in(spec, "runtimeClassName")
        if not name:
            return spec
        classes = self.cluster_wide["runtimeclasses"]
        if name not in classes:
            warn_once(f'Pod {pod}: spec.runtimeClassName: there is no RuntimeClass "{name:.60}"')
        runtime = classes.get(name, {})
        selector = pick(spec, dict, "nodeSelector") | pick(runtime, dict, "scheduling", "nodeSelector")
        tolerations = pick(spec, list, "tolerations") + pick(runtime, list, "scheduling", "tolerations")
        overhead = spec.get("overhead") or pick(runtime, dict, "overhead", "podFixed")
        return spec | {"nodeSelector": selector, "tolerations": tolerations, "overhead": overhead}

    def give_priority(self, pod, spec):
        """Give a pod the priority of its PriorityClass."""
        if spec.get("priority") is None:
            classes = SYSTEM_CLASSES | self.cluster_wide["priorityclasses"]
            default = next((thing for thing in classes.values() if thing.get("globalDefault")), {})
            name = name_in(spec, "priorityClassName")
            if name and name not in classes:
                warn_once(f'Pod {pod}: spec.priorityClassName: there is no PriorityClass "{name:.60}"'
                          + did_you_mean(name, classes, ""))
            spec["priority"] = pick(classes.get(name, {}) if name else default, int, "value")

    def request(self, method, path, body=None, params=None):
        """Answer a list; carry out a Binding, or a pod's deletion; accept other writes without effect."""
        if method == "GET":
            return {"items": self.list(path.rpartition("/")[2], params["fieldSelector"])}
        if path.endswith("/binding"):
            place = "pods", body["metadata"]["namespace"], body["metadata"]["name"]
            pod = self.objects[place]
            self.objects[place] = pod | {"spec": pod["spec"] | {"nodeName": body["target"]["name"]}}
            self.changes += 1
        if method == "PATCH" and "nominatedNodeName" in pick(body, dict, "status"):
            self.changes += 1  # in the snapshot it stands already: see nominate
        if method == "DELETE":
            *_, namespace, resource, name = path.split("/")
            gone = self.objects.pop((resource, namespace, name), None)
            self.changes += gone is not None
        return {}

    def list(self, resource, selector):
        """Return the objects that a field selector selects, such as spec.nodeName!=,status.phase!=Failed."""
        wanted = re.findall("([^,]*?)(!?)=([^,]*)", selector)  # a field, ! where it is to differ, a value
        return [thing for (kind, *_), thing in self.objects.items() if kind == resource and all(
            (name_in(thing, *path.split(".")) == value) != bool(differs) for path, differs, value in wanted)]


# ==== 35. What people see ===============================================================================

class Screen:
    """What is printed on: a terminal, with colours unless NO_COLOR is set, or 80 columns without colours."""

    def __init__(self, output=None):
        self.output = output or sys.stdout
        with contextlib.suppress(AttributeError):  # in a notebook, standard output has no such method
            self.output.reconfigure(errors="replace")
        self.is_terminal = self.output.isatty()
        self.width = max(60, shutil.get_terminal_size().columns) if self.is_terminal else 80
        self.colours = self.is_terminal and not os.environ.get("NO_COLOR")

    def print(self, *lines):
        """Print lines that belong together."""
        print(*lines, sep="\n", file=self.output, flush=True)

    def paint(self, text, colour):
        """Return the text as it may be shown, in a colour, if there are any."""
        text = text.translate(ESCAPES)
        return f"\033[{colour}m{text}\033[0m" if self.colours and colour else text

    def fold(self, text, head="", colour="", rest="", max_lines=None):
        """Break a text into lines that fit: the first behind a head, the others below it or behind `rest`."""
        lines = textwrap.wrap(text, self.width, initial_indent=head, placeholder=" …", max_lines=max_lines,
                              subsequent_indent=rest or " " * len(head), break_on_hyphens=False)
        return [self.paint(line, colour) for line in lines]

    def folded(self, text):
        """Break a text into lines at a terminal; elsewhere it stays one."""
        return self.fold(text, rest="    ") if self.is_terminal else [text.translate(ESCAPES)]


CONTROL = [  # what a terminal obeys, and what is invisible or changes the direction of writing
    *range(0x20), *range(0x7f, 0xa0), 0xad, 0x61c, *range(0x200b, 0x2010), *range(0x2028, 0x202f),
    *range(0x2060, 0x2070), 0xfeff, *range(0xfff9, 0xfffc), *range(0xe0000, 0xe0080)]
ESCAPES = {code: ascii(chr(code))[1:-1] for code in CONTROL}  # names and messages may come from anybody
BOLD, DIM, RED, GREEN = "1", "2", "91", "1;32"


def traceback_in_lines(exc_info):
    """Return a traceback as lines that cannot be taken for others."""
    lines = "".join(traceback.format_exception(*exc_info)).split("\n")
    return "\n".join(f"    {line.translate(ESCAPES)}" for line in lines)


class Reporter:
    """Shows decisions; of the pods of a pass that stay pending for one reason, the first and their number."""

    def __init__(self, options, screen):
        self.options = options
        self.screen = screen
        self.others = {}  # why pods stay pending -> how many others than the first of them

    def __call__(self, decision):
        """Show a decision, or count it among the others."""
        why = f"{decision.message} {decision.remedy}".rstrip()
        if why in self.others and not decision.node:
            self.others[why] += 1
        else:
            show(decision, self.options, self.screen)
        if not (decision.node or self.options.explain or self.options.output == "json"):
            self.others.setdefault(why, 0)

    def sum_up(self):
        """Say how many others there were; then none have been."""
        for why, count in self.others.items():
            if count:
                are = "pod stays" if count == 1 else "pods stay"
                self.screen.print(*self.screen.folded(f"{count} other {are} pending: {why}"))
        self.others.clear()


def show(decision, options, screen, stands=""):
    """Show a decision as the command line wants it; of a pod that is explained, also where it stands."""
    if options.output == "json":
        about = {"stands": stands} if stands else {}
        dry_run = {"dryRun": True} if options.dry_run else {}
        screen.print(json.dumps(in_json(decision) | about | dry_run))
    elif options.explain:
        heading = screen.fold(f"{stands}:") if stands else []
        screen.print(*heading, *explain(decision, screen))
        return  # which has said of each pod what no rule looks at
    else:
        screen.print(*screen.folded(in_words(decision)))
    warn_of_unheeded(decision)


def warn_of_unheeded(decision, under=""):
    """Warn, once for all pods, of what a pod that is placed requires though no active rule looks at that."""
    for what in unheeded(decision) if decision.node else ():
        warn_once(f"{under}{decision.pod.key} is placed, though it {what}", about=f"{under}{what}")


def in_json(decision):
    """Return a decision as --output json prints it."""
    failed = decision.failed.items()
    record = decision.pod.record  # None of a pod that is only explained
    is_held = bool(record and decision.node) and record.waits_for is WaitsFor.PERMIT
    return {"pod": decision.pod.key, "node": decision.node, "feasible": list(decision.total),
            "failed": {node: [*itertools.chain(*against.values())] for node, against in failed},
            "failedBy": {node: list(against) for node, against in failed},
            "raw": decision.raw, "scores": decision.scores, "total": decision.total,
            "held": is_held, "waits": decision.waits, "message": decision.message, "remedy": decision.remedy}


def in_words(decision):
    """Return a decision as a line for people."""
    pod = decision.pod.key
    node_name = decision.node
    if node_name is None:
        return f"{pod} stays pending: {at_most(1024, decision.message)} {decision.remedy}".rstrip()
    fit = f"{len(decision.total)} of {len(decision.nodes)} nodes fit"
    waits = f" waits: {decision.waits}" if decision.waits else ""
    return f"{pod} -> {node_name}  ({fit}, score {in_digits(decision.total[node_name])}){waits}"


def in_digits(score):
    """Return a score as people write it; None is a dash."""
    if score is None:
        return "-"
    return f"{score:.10g}" if isinstance(score, float) else str(score)


def explain(decision, screen):
    """Return a decision as lines: in words, the best nodes and their scores, what is against the others."""
    lines = screen.fold(in_words(decision), rest="    ", colour=BOLD)
    reasons = [*itertools.chain(*(against.values() for against in decision.failed.values()))]
    count = sum(map(len, reasons))
    if count > len(decision.failed) and not decision.total:
        lines += screen.fold(f"A node may have two reasons: these numbers add up to {count}.", "  ", DIM)
    if decision.total:
        lines += best_nodes(decision, screen)
    for what in unheeded(decision):
        lines += screen.fold(f"{decision.pod.key} {what}", "  ! ", RED)
    return [*lines, *failing_nodes(decision, screen), ""]


def ranked(decision):
    """Return the nodes that fit, the best first; of those that tie, the chosen one."""
    total = decision.total
    return sorted(total, key=lambda name: (-total[name], name != decision.node, name))


def marks_of(decision):
    """Return {node: mark}: a star for the chosen node, an equals sign for each that ties with it."""
    best = decision.total.get(decision.node)
    ties = [name for name, score in decision.total.items() if decision.node and score == best]
    return dict.fromkeys(ties, "= ") | {decision.node: "* "}


def best_nodes(decision, screen):
    """Return the scores as a table: a row for each priority, columns for as many of the best nodes as fit."""
    order = ranked(decision)
    shown = order[:screen.width]  # more would not fit, however short their columns
    marks = marks_of(decision)
    rows = [["", *(marks.get(name, "") + shorten(name) for name in shown)]]
    for vote in decision.votes:
        # Entries of the Policy that make one rule, A+B, have a line each.
        first, *others = [shorten(f"  {part}", screen.width // 2) for part in re.split(r"(?=\+)", vote.title)]
        rows += [[first, *(score_cell(vote, name) for name in shown)], *([other] for other in others)]
    rows.append(["  Total", *(in_digits(decision.total[name]) for name in shown)])
    columns = columns_that_fit(rows, screen.width)
    lines = align([row[:columns] for row in rows])
    if decision.node:
        lines[0] = lines[0].replace(rows[0][1], screen.paint(rows[0][1], GREEN))
    for sentence in said_of_totals(decision, columns - 1):
        lines += screen.fold(sentence, "  ")
    return lines


def said_of_totals(decision, shown):
    """Yield what is to be said of totals, of which so many are shown: how many others, what decided, ties."""
    order = ranked(decision)
    ties = marks_of(decision) if decision.node else {}
    if order[shown:]:
        down_to = in_digits(decision.total[order[-1]])
        yield f"more nodes that fit: {len(order) - shown}, down to a total of {down_to}"
    if decision.node and len(ties) < len(order):
        yield what_decided(decision, decision.node, order[len(ties)])
    if not (decision.votes or decision.policy.priorities or decision.policy.extenders):
        yield "no priority is active: each node that fits has a total of 1"
    if len(ties) > 1:
        yield f"{len(ties)} nodes (* and =) tie: any of them is taken, at random"


def what_decided(decision, first, second):
    """Say by how much one node is ahead of another, and what each priority adds to that."""
    leads = {vote.title: vote.weight * (vote.points[first] - vote.points[second]) for vote in decision.votes}
    parts = []
    for title in sorted(leads, key=leads.get, reverse=True):
        if leads[title]:
            sign = "+" if leads[title] > 0 else ""
            parts.append(f"{title} {sign}{in_digits(leads[title])}")
    ahead = in_digits(decision.total[first] - decision.total[second])
    return f"{shorten(first)} is {ahead} ahead of {shorten(second)}: {', '.join(parts)}"


def score_cell(vote, name):
    """Return what a node gets in a vote: the raw score, if `reduce` changed it, the points, the weight."""
    if vote.raw is None:  # an extender, whose scores come weighed
        return in_digits(vote.points[name])
    raw = "" if vote.points is vote.raw else f"{in_digits(vote.raw[name])}→"
    return f"{raw}{in_digits(vote.points[name])}×{vote.weight}"


def failing_nodes(decision, screen):
    """Yield the nodes that do not fit and why; those with the same reasons together, most nodes first."""
    groups = groups_of_failing(decision)
    margin = max((len(group.label) for group in groups), default=0)
    for group in groups:
        head = f"  ✗ {group.label:{margin}}  "
        for sentence in group.sentences:
            yield from screen.fold(sentence, head, RED)
            head = " " * len(head)
        if group.nodes != [group.label]:
            yield from screen.fold(", ".join(group.nodes), head, DIM, max_lines=2)


FailingGroup = collections.namedtuple("FailingGroup", "label sentences nodes")


def groups_of_failing(decision):
    """Return the nodes that do not fit, grouped by what is against them, most nodes first.

    Of each node it is said what the pod lacks there; the node that nearly fits comes first.
    """
    names_by_reasons = collections.defaultdict(list)
    for name, against in decision.failed.items():
        said = [f"{title}: {', '.join(reasons) or 'no reason given'}" for title, reasons in against.items()]
        names_by_reasons[tuple(said)].append(name)
    groups = []
    for sentences, names in sorted(names_by_reasons.items(), key=lambda group: -len(group[1])):
        label = shorten(names[0]) if len(names) == 1 else f"{len(names)} nodes"
        misses = sorted([shortage(decision, name) for name in names], key=lambda miss: miss[0])
        groups.append(FailingGroup(label, sentences, [words for _, words in misses]))
    return groups


def shortage(decision, name):
    """Return what share of its requests a pod lacks on a node, and the node with this in words."""
    node = decision.nodes[name]
    share = 0
    words = []
    reasons = {*itertools.chain(*decision.failed[name].values())}
    for resource, wanted in decision.pod.requests.items():
        if f"Insufficient {resource}" in reasons:
            free = node.allocatable.get(resource, 0) - node.requested.get(resource, 0)
            share = max(share, (wanted - free) / max(wanted, 1))
            wants = in_units(resource, wanted, math.ceil)
            words.append(f"requests {resource} {wants}, free {in_units(resource, free)}")
    status = pick(node.raw, dict, "status")
    room = status.get("allocatable") or status.get("capacity") or {}
    if "Too many pods" in reasons and "pods" not in room:
        words.append("does not say how many pods it takes")
    if any("didn't match Pod's node affinity" in reason for reason in reasons):
        words += labels_amiss(decision.pod, node)
    return share, shorten(name) + (f" ({'; '.join(words)})" if words else "")


def labels_amiss(pod, node):
    """Return in words what a node has other labels for than the pod's nodeSelector and node affinity ask."""
    asked = [Requirement(key, "In", [value]) for key, value in pod.node_selector.items()]
    terms = required_terms(pod) or []
    if not any(term_matches(term, node) for term in terms):
        asked += [each for on_labels, _ in terms for each in on_labels]
    words = []
    for each in asked:
        if not satisfies(node.labels, [each]):
            label = f"{each.key}={node.labels[each.key]}" if each.key in node.labels else f"no {each.key}"
            values = f" [{', '.join(each.values)}]" if each.values else ""
            words.append(f"asks for {each.key} {each.operator}{values}, has {label}")
    return words


def in_units(resource, number, rounded=math.floor):
    """Return an amount of a resource as people write it."""
    units = {"cpu": (1, "m"), "memory": (2**20, "Mi"), "ephemeral-storage": (2**20, "Mi")}
    unit, suffix = units.get(resource, (1, ""))
    return f"{rounded(number / unit)}{suffix}"


def shorten(name, width=21):
    """Leave out the middle of a long name, not its last 4 characters, in which generated names differ."""
    return name if len(name) <= width else f"{name[:width - 5]}…{name[-4:]}"


def align(rows):
    """Return rows of cells, of which some may be shorter, as lines with the columns below each other."""
    rows = [[cell.translate(ESCAPES) for cell in row] for row in rows]
    widths = widths_of(rows)
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=False)] for row in rows]
    return ["  ".join(row).rstrip() for row in padded]


def widths_of(rows):
    """Return how wide the columns of a table are; rows may be shorter than others."""
    columns = itertools.zip_longest(*rows, fillvalue="")
    return [max(len(cell.translate(ESCAPES)) for cell in column) for column in columns]


def columns_that_fit(rows, width):
    """Return how many columns of a table a screen of this width has room for; at least two."""
    ends = itertools.accumulate(each + 2 for each in widths_of(rows))
    return max(2, sum(end - 2 <= width for end in ends))


def comparison(outcomes):
    """Return the outcomes under several Policies as tables: the pods that land elsewhere, and numbers."""
    files = list(outcomes)
    places = [outcome["pods"] for outcome in outcomes.values()]
    pods = sorted(set().union(*places))
    rows = [[pod, *(nodes.get(pod) or "<none>" for nodes in places)] for pod in pods]
    moved = [row for row in rows if len(set(row[1:])) > 1]
    numbers = [
        ["", *files],
        ["pods that fit", *(f"{sum(map(bool, nodes.values()))} of {len(nodes)}" for nodes in places)]]
    for resource, shares in outcomes[files[0]]["utilization"].items():
        for part in shares:
            percent = [f"{outcome['utilization'][resource][part]:.1f}%" for outcome in outcomes.values()]
            numbers.append([f"{resource} utilization of a node, {part}", *percent])
    table = [*align([["POD", *files], *moved]), ""] if moved else []
    return [*table, f"{len(moved)} of {len(pods)} pods land elsewhere.", "", *align(numbers)]


# ==== 36. The picture of a cluster ======================================================================

MANY = 15  # nodes, or pods without one: of more of them, the picture shows so many


def picture(all_nodes, pods, screen, new):
    """Yield as lines how full nodes are, and the pods on them. new: uids of those that this run placed."""
    nodes = nodes_to_show(all_nodes, new)
    others = len(all_nodes) - len(nodes)
    head, *lines = fill_table(nodes, pods, screen)
    yield from ["", head]
    for node, line in zip(nodes, lines, strict=True):
        yield line
        names = {uid: pod.key.removeprefix("default/") for uid, pod in node.pods.items()}
        placed_now = sorted(f"+{name}" for uid, name in names.items() if uid in new)
        placed_before = sorted(name for uid, name in names.items() if uid not in new)
        names = ", ".join(placed_now + placed_before)
        for part in screen.fold(names, "    ", max_lines=1 if others else 2):
            yield re.sub(r"\+[^ ,]+", lambda name: screen.paint(name.group(), GREEN), part)
    if others:
        yield f"and {others} other nodes"


def taint_in_words(taint):
    """Return a taint, or what is tolerated of one, as kubectl writes it: gpu=true:NoSchedule."""
    return "=".join(filter(None, taint[:2])) + (f":{taint.effect}" if taint.effect else "")


def nodes_to_show(nodes, new, first=()):
    """Return the nodes; of many, those with the names in `first`, those that took new pods, the fullest."""

    def rank(node):
        """Return by how much the node is worth to be shown."""
        fullest = max(share_in_use(node, resource) for resource in CPU_AND_MEMORY)
        return node.name in first, not new.isdisjoint(node.pods), fullest

    shown = sorted(nodes, key=rank, reverse=True)[:MANY]
    return [node for node in nodes if node in shown]


def share_in_use(node, resource):
    """Return what part of a resource the pods on a node request, from 0 to 1, or more."""
    return node.requested.get(resource, 0) / max(node.allocatable.get(resource, 0), 1)


def fill_table(nodes, pods, screen):
    """Return as lines, under a head, how full each node is, with bars as long as the screen has room for."""
    requested = {name for pod in pods for name, wanted in pod.requests.items() if wanted}
    resources = [*CPU_AND_MEMORY, *sorted(requested - {*CPU_AND_MEMORY})]
    heads = ["NODE", "PODS", *(resource.rpartition("/")[2].upper() for resource in resources)]

    def rows(length):
        """Return the rows of the table, with bars of this length."""
        return [heads] + [
            [shorten(node.name), f"{len(node.pods)}/{node.max_pods}",
             *(fill(node, resource, length) for resource in resources)] for node in nodes]

    spare = screen.width - max(map(len, align(rows(0))))
    length = min(max(spare // len(resources), 3), 20)
    head, *lines = align(rows(length))
    for i, node in enumerate(nodes):
        for resource in resources:
            if share_in_use(node, resource) > 0.9:
                full = fill(node, resource, length)
                lines[i] = lines[i].replace(full, screen.paint(full, RED))
    return [head, *lines]


def fill(node, resource, length):
    """Return how full a node is, as a bar of this length and in numbers; "" if it has no such resource."""
    if not has_any(node, resource):
        return ""
    filled = min(round(length * share_in_use(node, resource)), length)
    return f"{'█' * filled}{'░' * (length - filled)} {used_of_all(node, resource)}"


def has_any(node, resource):
    """Say whether a node has any of a resource, or pods that request it."""
    return bool(node.requested.get(resource) or node.allocatable.get(resource))


def used_of_all(node, resource):
    """Return how much of a resource is requested on a node, and how much there is: 2.5/4, 4/8Gi."""
    units = {"cpu": (1000, ""), "memory": (2**30, "Gi"), "ephemeral-storage": (2**30, "Gi")}
    is_memory = resource.startswith("hugepages-")
    unit, suffix = units["memory"] if is_memory else units.get(resource, (1, ""))
    amounts = node.requested.get(resource, 0), node.allocatable.get(resource, 0)
    return "/".join(in_digits(round(each / unit, 3)) for each in amounts) + suffix


def pods_without_node(pods, snapshot, screen, reasons):
    """Yield, of each pod that is on no node, where it stands. reasons: {uid: why it has none}."""
    placed = {uid for node in snapshot.nodes.values() for uid in node.pods}
    lines = []
    for pod in pods:
        if pod.uid not in placed and pod.phase not in ("Succeeded", "Failed"):
            reason = reasons.get(pod.uid)
            stands = f"stays pending: {reason}" if reason else where_it_stands(pod, snapshot)
            lines.append(f"{pod.key} {stands}")
    if lines:
        yield ""
    for line in lines[:MANY]:
        yield from screen.fold(line, rest="    ", max_lines=3)
    if len(lines) > MANY:
        yield f"and {len(lines) - MANY} other pods without a node"


def where_it_stands(pod, snapshot):
    """Return in words what is to be known of a pod, except where it would go now."""
    waits = "" if pod.node_name else why_it_waits(pod, snapshot)
    phrases = []
    if pod.node_name:
        remark = "" if pod.node_name in snapshot.nodes else ", a node that does not exist"
        phrases.append(f"is on {pod.node_name}{remark}")
    if pod.phase in ("Succeeded", "Failed"):
        phrases.append(f"has ended ({pod.phase})")
    if pod.terminating:
        phrases.append("is being deleted")
    if pod.gates:
        phrases.append(f"has scheduling gates ({', '.join(pod.gates)})")
    if pod.scheduler not in snapshot.policies:
        phrases.append(whose_it_is(pod, snapshot.policies))
    if waits:
        phrases.append(f"waits: {waits}")
    return " and ".join(phrases) or "is pending"


def whose_it_is(pod, policies):
    """Return in words which other scheduler a pod is left to, or which of ours may be meant."""
    if pod.scheduler == "default-scheduler":
        return "is left to default-scheduler, as it names no other"
    meant = nearly(pod.scheduler, tuple(policies))
    return f"names {pod.scheduler} (did you mean {meant}?)" if meant else f"is left to {pod.scheduler}"


def why_it_waits(pod, snapshot):
    """Return why a pod is not tried or bound yet, by its condition or a rule; else ""."""
    for condition in pick(pod.raw, list, "status", "conditions", of=dict):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Waiting":
            return name_in(condition, "message")
    policy = snapshot.policies.get(pod.scheduler)
    return why_not_yet(pod, policy) if policy else ""


# ==== 37. The page ======================================================================================

# `--output html` prints a page to be shown to a class, kept and sent. It needs no network and no other file.
# Each decision is a scene in three steps: the cluster and the question, the answer, the pod on its node. The
# script shows one step at a time; without it, and on paper, they stand below each other.
# HTML is made of f-strings, in which all text goes through `escaped`; what they join is HTML already.


STYLE = """
:root { color-scheme: light; --paper: #fff; --ink: #16181d; --soft: #555b66; --line: #b9bfca; --box: #f3f5f9;
  --bar: #5b7fb5; --yes: #0b6b34; --no: #a8201a; --best: #e3f4e8 }
@media screen and (prefers-color-scheme: dark) { :root { color-scheme: dark; --paper: #14161a; --ink: #f2f3f5;
  --soft: #b4bac6; --line: #4c5362; --box: #20242c; --bar: #6f97d6; --yes: #7ddc9c; --no: #ff9a8f;
  --best: #183524 } }
html { font: clamp(16px, 1.8vw, 36px)/1.35 system-ui, sans-serif; overflow-wrap: break-word }
html, header { background: var(--paper); color: var(--ink) } body { margin: 0 1.2rem 1rem }
header { display: flex; flex-wrap: wrap; align-items: center; position: sticky; top: 0; padding: .4rem 0;
  margin-bottom: .4rem; border-bottom: 1px solid var(--line) }
h1, small, caption, .soft { font-size: .85rem; font-weight: normal; color: var(--soft) }
h1 { flex: 1 1 12rem; margin: 0 } h2, h3 { font-size: 1.35rem; margin: 0 1rem .4rem 0; outline: none }
h2 { float: left } h3 + * { clear: left } h4 { margin: 0 } p { margin: 0 0 .3rem } b { font-size: 1.1rem }
nav:not([hidden]) { display: flex; gap: .6rem; align-items: center }
button { font: inherit; color: inherit; background: var(--box); border: 1px solid var(--soft);
  border-radius: .4rem; padding: .1rem .8rem; cursor: pointer }
.sides { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 2fr); gap: 1rem; align-items: start }
.sides.even { grid-template-columns: minmax(0, 4fr) minmax(0, 5fr) }
pre { margin: 0; padding: .4rem .6rem; font-size: .8rem; line-height: 1.3; white-space: pre-wrap;
  overflow-wrap: anywhere; background: var(--box); border-left: .25rem solid var(--bar) }
.nodes { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .6rem }
.node { border: .15rem solid var(--line); border-radius: .4rem; padding: .3rem .6rem; background: var(--box);
  min-width: 0; overflow-wrap: anywhere }
.node.best { border-color: var(--yes); background: var(--best) }
.node table { width: 100%; font-size: .8rem } .node th { font-weight: normal }
.node th, .node td { border: 0; padding: 0 .4rem 0 0; white-space: nowrap; vertical-align: middle }
.node td { width: 90% } .node td + td { width: 1%; padding: 0; text-align: right }
ul { list-style: none; margin: .1rem 0; padding: 0; display: flex; flex-wrap: wrap; gap: .15rem .25rem }
li { font-size: .75rem; border: 1px solid var(--line); border-radius: .3rem; padding: 0 .35rem;
  background: var(--paper) }
li.new { border-color: var(--yes); font-weight: bold } li.veto { border-color: var(--no); color: var(--no) }
svg { display: block; width: 100%; height: .65rem; border: 1px solid var(--soft) }
rect { fill: var(--bar) } rect.new { fill: var(--yes) }
.wide { overflow-x: auto } table { border-collapse: collapse } caption { text-align: left }
th, td { text-align: left; vertical-align: top; padding: .25rem .7rem .25rem .3rem;
  border-bottom: 1px solid var(--line) }
thead th { font-size: .8rem; vertical-align: bottom } tbody th { white-space: nowrap }
tr.best { background: var(--best) } tr.best th { color: var(--yes) } tr.no th { color: var(--no) }
@media screen and (max-width: 50rem) { .sides { display: block } .nodes { margin-top: .6rem }
  h2 { float: none; margin: 0 } }
@media print { html { font-size: 10pt } header { position: static } nav { display: none !important }
  section, .step { display: block !important; clear: left } section { break-before: page }
  .node, tr { break-inside: avoid } svg, .best { print-color-adjust: exact } }
"""

SCRIPT = """
const steps = [...document.querySelectorAll('.step')];
const moves = {ArrowRight: 1, PageDown: 1, ' ': 1, ArrowLeft: -1, PageUp: -1, Home: -Infinity, End: Infinity};
let at = 0;

function move(by) {
  at = Math.max(0, Math.min(at + by, steps.length - 1));
  for (const step of steps) step.hidden = step !== steps[at];
  for (const scene of document.querySelectorAll('section')) scene.hidden = !scene.contains(steps[at]);
  document.getElementById('where').textContent = `${at + 1} of ${steps.length}`;
  scrollTo(0, 0);
  steps[at].querySelector('.node.best')?.scrollIntoView({block: 'nearest'});
  steps[at].querySelector('h3').focus({preventScroll: true});
}

addEventListener('keydown', event => {
  const isForButton = event.key === ' ' && event.target.closest('button');
  if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey || isForButton) return;
  event.preventDefault();
  move(moves[event.key]);
});
document.getElementById('back').addEventListener('click', () => move(-1));
document.getElementById('next').addEventListener('click', () => move(1));
document.querySelector('nav').hidden = false;
move(0);
"""


def escaped(text):
    """Return a text as HTML that shows it: names and messages may come from anybody."""
    return html.escape(str(text).translate(ESCAPES))


class Page:
    """Takes the decisions of a run, keeps what their scenes show, and makes a page of them."""

    MOST = 100  # scenes; of further decisions only the summary speaks

    def __init__(self, path):
        self.path = path  # of the Policy
        self.scenes = []
        self.outcomes = {}  # pod -> the last decision about it, in HTML
        self.new = set()  # uids of the pods that this run has placed
        self.nodes = ()  # as the last decision knew them

    def __call__(self, decision, *remarks):
        """Take in a decision: copy what changes later, as the nodes do."""
        node = decision.node
        self.nodes = decision.nodes.values()
        why = decision.waits if node else decision.message
        mark = f"→ {node}" if node else "✗"
        self.outcomes[decision.pod.key] = f'{escaped(mark)} <span class="soft">{escaped(why)}</span>'
        if len(self.scenes) < self.MOST:
            shown = nodes_to_show(self.nodes, self.new, {node, *ranked(decision)[:4]})
            before = [with_pods(each, others_on(each, decision.pod)) for each in shown]
            others = len(self.nodes) - len(shown)
            self.scenes.append(Scene(
                decision.pod, node, before, others, set(self.new), answer(decision, remarks)))
        if node:
            self.new.add(decision.pod.uid)

    def sum_up(self):
        """Say nothing between passes, where a Reporter counts pods that stay pending for one reason."""

    def document(self, nodes=None):
        """Return the page. nodes: as they are in the end, to be summed up; () leaves the summary out."""
        keys = set().union(*(keys_asked_for(scene.pod) for scene in self.scenes))
        scenes = [scene_in_html(scene, keys, f"decision {number} of {len(self.scenes)}")
                  for number, scene in enumerate(self.scenes, 1)]
        nodes = self.nodes if nodes is None else nodes
        if nodes:
            scenes.append(self.summary(nodes, keys))
        title = escaped(f"Where do pods go? Decisions by {self.path}")
        page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none';
 style-src {fingerprint(STYLE)}; script-src {fingerprint(SCRIPT)}">
<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>
<body><header><h1>{title}</h1><nav hidden><button id="back">← Back</button>
<span id="where" role="status"></span><button id="next">Next →</button></nav></header>
<main>{"".join(scenes)}</main><script>{SCRIPT}</script></body></html>"""
        return page.encode("ascii", "xmlcharrefreplace").decode()  # which no terminal's encoding can spoil

    def summary(self, nodes, keys):
        """Return the last scene: the last decision about each pod, and the nodes as they are then."""
        shown = nodes_to_show(nodes, self.new)
        rows = [f'<tr><th scope="row">{escaped(pod.removeprefix("default/"))}<td>{outcome}'
                for pod, outcome in self.outcomes.items()]
        few = f" (the first {self.MOST} decisions have scenes)" if len(self.scenes) == self.MOST else ""
        return f"""<section><h2>Summary</h2><div class="step"><h3 tabindex="-1">Where the pods are now</h3>
<div class="sides even"><table><caption>The last decision about each pod{few}</caption>
<thead><tr><th scope="col">Pod<th scope="col">Node<tbody>{"".join(rows)}</table>
{boxes(shown, len(nodes) - len(shown), keys, self.new)}</div></div></section>"""


def fingerprint(text):
    """Return by what a browser knows that a style or a script is the page's own."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# One decision, as the page shows it. before: copies of the nodes to be shown, without the pod. others: how
# many more there are. new: uids of the pods that the run had placed by then. answer: HTML.
Scene = collections.namedtuple("Scene", "pod node before others new answer")


def scene_in_html(scene, keys, number):
    """Return a scene: the question, the answer, the pod on its node. keys: of labels that pods ask for."""
    manifest = "\n".join(map(escaped, manifest_of(scene.pod).splitlines()))
    before = boxes(scene.before, scene.others, keys, scene.new)
    steps = {"Where will it go?": f'<div class="sides"><pre>{manifest}</pre>{before}</div>'}
    steps[f"It goes to {scene.node}" if scene.node else "It stays pending"] = scene.answer
    if scene.node:
        steps[f"Now it counts on {scene.node}"] = boxes(scene.before, scene.others, keys, scene.new, scene)
    divs = [f'<div class="step"><h3 tabindex="-1">{escaped(title)}</h3>{step}</div>'
            for title, step in steps.items()]
    return f"<section><h2>{escaped(scene.pod.key)} <small>{number}</small></h2>{''.join(divs)}</section>"


def answer(decision, remarks):
    """Return what was decided, and from what: sentences, and a table of nodes by rules."""
    best = ranked(decision)[:MANY]
    sentences = [*remarks, *(said_of_totals(decision, len(best)) if best else ()),
                 *(f"! It {what}" for what in unheeded(decision))]
    heads = [vote.title for vote in decision.votes] + (["Total"] if best else ["Why it does not fit"])
    columns = [re.sub("(?<=[a-z+])(?=[A-Z])", "<wbr>", escaped(head)) for head in ["Node", *heads]]
    rows = [*(row_of_fitting(decision, name) for name in best),
            *(row_of_failing(group, len(heads)) for group in groups_of_failing(decision))]
    return f"""<p><b>{escaped(in_words(decision))}</b></p>
{"".join(f"<p>{escaped(sentence)}</p>" for sentence in sentences)}<div class="wide"><table>
<caption>Nodes by rules: raw score → points × weight; ✗ where a rule is against the node</caption>
<thead><tr>{"".join(f'<th scope="col">{column}' for column in columns)}
<tbody>{"".join(rows)}</table></div>"""


def row_of_fitting(decision, name):
    """Return the row of a node that fits: what each priority gives it, and its total."""
    cells = [score_cell(vote, name).replace("→", " → ").replace("×", " × ") for vote in decision.votes]
    cells.append(in_digits(decision.total[name]))
    marked = marks_of(decision).get(name, "") + shorten(name, 32)
    return f"""<tr class="{'best' if name == decision.node else ''}"><th scope="row">{escaped(marked)}
{"".join(f"<td>{escaped(cell)}" for cell in cells)}"""


def row_of_failing(group, columns):
    """Return the row of nodes that do not fit, for reasons that are the same."""
    names = group.nodes[:5] if group.nodes != [group.label] else []
    more = f" and {len(group.nodes) - 5} more" if group.nodes[5:] else ""
    return f"""<tr class="no"><th scope="row">✗ {escaped(group.label)}<td colspan="{columns}">
{"<br>".join(map(escaped, group.sentences))}<div class="soft">{escaped(", ".join(names) + more)}</div>"""


def others_on(node, pod):
    """Return the pods on a node, except one."""
    return [other for other in node.pods.values() if other.uid != pod.uid]


def boxes(nodes, others, keys, new, scene=None):
    """Return nodes as boxes, and how many others there are. scene: whose pod is put on its node."""
    parts = [box(node, keys, new, scene.pod if scene and scene.node == node.name else None) for node in nodes]
    if others:
        parts.append(f'<p class="soft">and {others} other nodes</p>')
    return f'<div class="nodes">{"".join(parts)}</div>'


def box(node, keys, new, pod):
    """Return a node as a box: its cordon, taints and labels, how full it is, its pods, and one put on it."""
    pods = [*([pod] if pod else []), *node.pods.values()]
    after = types.SimpleNamespace(allocatable=node.allocatable, requested=dict(node.requested))
    add(after.requested, pod.requests if pod else {})
    devices = sorted(name for name in after.allocatable.keys() | after.requested.keys() if "/" in name)
    room = max(node.max_pods, 1)
    rows = [bar("pods", len(node.pods) / room, len(pods) / room, f"{len(pods)}/{node.max_pods}")]
    for name in [*CPU_AND_MEMORY, *devices]:
        rows.append(bar(name, share_in_use(node, name), share_in_use(after, name), used_of_all(after, name)))
    marks = [item("cordoned", "veto")] if node.unschedulable else []
    marks += [item(f"taint {taint_in_words(taint)}", "veto") for taint in node.taints]
    marks += [item(label) for label in labels_of(node, keys)]
    names = []
    for each in pods[:MANY]:
        is_new = each is pod or each.uid in new
        words = " ".join([each.key.removeprefix("default/"), *labels_of(each, keys)])
        names.append(item(f"+{words}", "new") if is_new else item(words))
    if len(pods) > MANY:
        names.append(item(f"and {len(pods) - MANY} others"))
    return f"""<article class="node {'best' if pod else ''}"><h4>{escaped(node.name)}</h4>
<ul>{"".join(marks)}</ul><table>{"".join(rows)}</table><ul>{"".join(names)}</ul></article>"""


def bar(name, before, after, numbers):
    """Return a row that says how full a node is, from 0 to 1, before and after a pod has come."""
    rects = [f'<rect class="{kind}" width="{min(share, 1):.1%}" height="100%"/>'
             for kind, share in (("new", after), ("old", before))]
    return f"""<tr><th scope="row">{escaped(name.rpartition("/")[2])}
<td><svg aria-hidden="true">{"".join(rects)}</svg><td>{escaped(numbers)}"""


def item(text, kind=""):
    """Return an item of a list."""
    return f'<li class="{kind}">{escaped(text)}'


def labels_of(thing, keys):
    """Return the labels of a pod or a node that have these keys."""
    return [f"{key}={value}" for key, value in sorted(thing.labels.items()) if key in keys]


def keys_asked_for(pod):
    """Return all words of what a pod asks of labels: the keys of labels are among them."""
    asked = [pod.spec.get(part) for part in ("nodeSelector", "affinity", "topologySpreadConstraints")]
    return set(re.findall(r"[\w./-]+", json.dumps(asked))) - {HOSTNAME}


def manifest_of(pod):
    """Return what rules look at of a pod's manifest, as people write it, without what the API server adds."""
    metadata = filled_in(pod.raw["metadata"], ["name", "namespace", "labels"])
    annotations = {name: text for name, text in pod.annotations.items() if not name.startswith("kubectl.")}
    spec = filled_in(pod.spec, ["schedulerName", "priority", "nodeSelector", "affinity",
                                "topologySpreadConstraints", "schedulingGates", "overhead", "resources"])
    spec["tolerations"] = [each for each in pod.tolerations if each.get("tolerationSeconds") != 300]
    spec["volumes"] = [volume for volume in pod.volumes if "projected" not in volume]
    for kind in ("initContainers", "containers"):
        spec[kind] = [filled_in(container, ["name", "image", "resources", "ports"])
                      for container in pick(pod.spec, list, kind, of=dict)]
    metadata = filled_in(metadata | {"annotations": annotations})
    thing = {"kind": "Pod", "metadata": metadata, "spec": filled_in(spec)}
    return yaml.safe_dump(thing, sort_keys=False, default_flow_style=None, allow_unicode=True)


def filled_in(thing, names=None):
    """Return the fields of an object that say something; of those with these names, if there are any."""
    return {name: thing[name] for name in names or thing
            if thing.get(name) not in (None, "", 0, [], {}, "default", {"requests": {}})}


# ==== 38. The command line ==============================================================================

def read_arguments(argv):
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scheduler.py", usage="%(prog)s [options]", allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Schedule the pods that name this scheduler, by the rules that a Policy file names.",
        epilog=f"""examples:
  kubectl proxy & python scheduler.py             schedule a cluster's pods until Ctrl-C
  python scheduler.py --cluster tests/clusters/demo.yaml           schedule manifests; no cluster is needed
  python scheduler.py --explain default/web-1     show why that pod goes, or would go, where it does
  {Manifests.COMMAND} | \\
    python scheduler.py --cluster -               schedule a copy of a live cluster

exit codes: 0 fine, 1 failed, 2 wrong usage, Policy or manifest""")
    add = parser.add_argument
    add("--server", default="http://127.0.0.1:8001", metavar="URL", help="of kubectl proxy (%(default)s)")
    add("--scheduler-name", default="my-scheduler", metavar="NAME", help="schedule its pods (%(default)s)")
    add("--policy", "--config", "--policy-config-file", "--algorithm-provider", metavar="FILE",
        help="Policy, KubeSchedulerConfiguration, DefaultProvider or ClusterAutoscalerProvider (policy.json)")
    add("--plugins", nargs="+", action="extend", default=[], metavar="FILE",
        help="Python files with rules of your own")
    add("--interval", type=float, default=1, metavar="SECONDS", help="between polls (%(default)s)")
    add("--once", action="store_true", help="make passes until no pod is due, then stop")
    add("--leader-elect", nargs="?", const="true", choices=["true", "false"], help="lead by a Lease")
    add("--dry-run", action="store_true", help="do everything except writing to the cluster")
    add("--cluster", nargs="+", action="extend", default=[], metavar="FILE",
        help="schedule manifests (-: standard input)")
    add("--explain", nargs="?", const=True, metavar="POD", help="show decisions, or where POD would go")
    add("--compare", nargs="+", action="extend", default=[], metavar="FILE",
        help="with --cluster: schedule by these, too; show what differs")
    add("--seed", help="make the choice among equally good nodes repeatable")
    add("-o", "--output", choices=["text", "json", "html"], default="text",
        help="json: an object for each decision; html: a page of all of them")
    add("-v", "--verbose", action="store_true", help="log every request to the API server")
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        word = unknown[0].partition("=")[0]
        otherwise = "" if word.startswith("-") else "; manifests are given by --cluster"
        hint = did_you_mean(word, parser._option_string_actions, otherwise)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    if "@" in options.server:
        parser.error("--server: expected a URL without a user or a password; kubectl proxy needs none")
    if not re.fullmatch("https?://[^/?#]+/?", options.server):
        parser.error(f"--server {options.server}: expected a URL such as http://127.0.0.1:8001")
    try:
        _ = urlsplit(options.server).port  # raises ValueError if that is none
    except ValueError as error:
        parser.error(f"--server {options.server}: {error}")
    if not 0 < options.interval < 1e6:
        parser.error(f"--interval {options.interval}: expected a number of seconds above 0")
    if options.compare and (options.explain or options.output == "html" or not options.cluster):
        parser.error("--compare needs --cluster, and goes without --explain and --output html")
    return options


def command_line(argv=None):
    """Run the command line; return the exit code."""
    global SEED
    FAILURE.clear()
    STOP.clear()
    gc.set_threshold(50000)  # of the many objects of a big cluster, few are ever garbage
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if not getattr(sys, name):  # it is closed, as by >&-
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    options = read_arguments(argv)
    SEED = options.seed
    if options.compare and SEED is None:
        SEED = ""  # chance decides alike for all that is compared
    formatter = logging.Formatter("%(asctime)s  %(message)s" if options.verbose else "%(message)s")
    errors = Screen(sys.stderr)
    plain = formatter.formatMessage
    formatter.formatMessage = lambda record: "\n".join(errors.folded(plain(record)))
    formatter.formatException = traceback_in_lines
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler])
    log.setLevel(logging.DEBUG if options.verbose else logging.INFO)
    screen = Screen()
    rules_print_to = sys.stdout if options.output == "text" else sys.stderr
    ended = threading.Event()
    try:
        in_background(watch_rules, threading.get_ident(), ended)
        with contextlib.redirect_stdout(rules_print_to):
            return int(run_command(options, screen))
    except (ApiError, InputError) as error:
        log.error("%s", error)
        return 1 if isinstance(error, ApiError) else 2
    finally:
        ended.set()


COMMAND_LINES.append(command_line)


def run_command(options, screen):
    """Do what the command line asks for; return whether something failed. Raises ApiError, InputError."""
    shipped = str(Path(__file__).with_name("policy.json")).removeprefix(os.getcwd() + os.sep)
    files = [PolicyFile(path, options.scheduler_name, options.plugins)
             for path in (options.policy or shipped, *options.compare) if path]
    policies = files[0].policies
    api = Manifests(options.cluster) if options.cluster else PooledProxy(options.server)
    stop = stop_on_signals()
    if options.compare:
        return compare(api, files, stop, options, screen)
    is_explained = isinstance(options.explain, str)
    report = Page(files[0].path) if options.output == "html" else Reporter(options, screen)
    kind_of_cluster = ListedCluster if options.cluster or is_explained else LiveCluster
    cluster = kind_of_cluster(api, report, options, at_rest=report.sum_up)
    if is_explained:
        return explain_pod(cluster, files[0], options, screen)
    if options.dry_run:
        log.info("dry run: nothing is written")
    if not options.cluster:
        log.info("%s: polling %s by %s", ", ".join(policies), options.server, files[0].path)
        for name, policy in policies.items():
            if policy.not_looked_at():
                what = ", ".join(policy.not_looked_at())
                log.info("%s: no rule looks at %s; --policy DefaultProvider looks at all", name, what)
    with contextlib.suppress(ApiError):  # which the loop will meet, too
        waiting = cluster.waiting_pods(policies)
        if not cluster.pending_pods(waiting, policies):
            why = "none without a node has this spec.schedulerName"
            if waiting:
                why = "those without a node have scheduling gates, are being deleted, or a rule says no"
            log.info("no pod waits for %s: %s", ", ".join(policies), why)
    if options.cluster:
        return schedule_manifests(cluster, policies, stop, options, screen)
    code = poll(cluster, files[0], stop, options)
    if options.output == "html":
        screen.print(report.document())
    return code


def watch_rules(thread, ended, seconds=5):
    """Until all has ended, warn of each rule that a thread, the loop's, has asked about a pod for so long."""
    last = None  # the rule in which the thread was at the last look, and the pod
    while not ended.wait(seconds):
        frame = sys._current_frames().get(thread)
        while frame and frame.f_code not in RULE_OF:
            frame = frame.f_back
        seen = frame and (frame.f_code, frame.f_locals.get("pod"))
        if seen and seen == last:
            place = f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"
            what = f"{RULE_OF[frame.f_code]} takes long: more than {seconds:g} s for one pod"
            warn_once(f"{what} ({place})", about=frame.f_code)
        last = seen


def watch_the_loop(thread, ended, limit):
    """Until all has ended, end the process if the loop does not come round for so many seconds.

    Nobody would be scheduled, while another thread renews the Lease: so another replica is to lead.
    """
    last = time.monotonic()
    while not ended.wait(limit / 10):
        moment = time.monotonic()
        if moment > last + limit / 2:  # the process itself was paused
            CAME_ROUND.at = max(moment, CAME_ROUND.at)
        last = moment
        if moment < CAME_ROUND.at + limit:
            continue
        frame = sys._current_frames().get(thread)
        places = [(each.filename, each.lineno) for each in traceback.extract_stack(frame)]
        in_rules = [place for place in places if place[0] in {str(added.path) for added in PLUGGED_IN}]
        file, line = (in_rules or places)[-1]
        place = f"{Path(file).name}, line {line}"
        said = f"the loop has not come round for {limit:g} s ({place}): this process ends"
        wait([in_background(log.error, said)], 1)  # whoever reads the log may be what is waited for
        os._exit(1)


def stop_on_signals():
    """Have SIGINT and SIGTERM set STOP; return it. If it still runs after 4 seconds, the process is ended."""
    def end(number, _):
        """Have the loop end after this pod; after a second signal, or four seconds, end the process."""
        signal.signal(number, signal.SIG_DFL)
        force = threading.Timer(4, os._exit, [1])
        force.daemon = True  # it does not hold up an end in time
        force.start()
        STOP.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return STOP


def poll(cluster, policy_file, stop, options):
    """Schedule a live cluster's pods; where a leader is elected, only while leading. Return the exit code."""
    share_memory_among_threads()
    settings = next(iter(policy_file.policies.values())).election  # all profiles have the same
    election = LeaderElection(cluster.api, options.scheduler_name, settings)
    is_wanted = options.leader_elect == "true" if options.leader_elect else settings.get("leaderElect")
    elected = is_wanted and not options.dry_run
    if elected:
        cluster.writer.may_write = election.leads
        if not election.lead(stop, cluster.keep_up):
            return int(options.once)
    limit = election.renew_deadline if elected else 60
    CAME_ROUND.at = time.monotonic()
    in_background(watch_the_loop, threading.get_ident(), stop, limit)
    code = run_to_the_end(cluster, policy_file, stop, options.interval, options.once)
    stop.set()
    if elected:
        election.release()
    return 1 if election.lost else code


def run_to_the_end(cluster, policy_file, stop, interval, once):
    """Run the loop, and wait until all is written. Return the exit code."""
    run(cluster, policy_file.current, stop, interval, once)
    cluster.at_rest()
    cluster.cycle.finish(seconds=3 if stop.is_set() else 10)
    has_failed = cluster.trouble or FAILURE.is_set() or cluster.cycle.under_way or stop.is_set()
    return 1 if once and has_failed else 0


def schedule_manifests(cluster, policies, stop, options, screen):
    """Schedule the pods of manifests, and show where they are then. Return whether something failed."""
    waiting = {pod.uid for pod in cluster.waiting_pods(policies)}
    snapshot = make_passes(cluster, policies, stop, options.once)
    cluster.at_rest()
    if options.output == "text":
        pods = cluster.cache.pods.values()
        reasons = {uid: record.written for uid, record in cluster.pending.items()}
        screen.print(*picture(snapshot.nodes.values(), pods, screen, waiting),
                     *pods_without_node(pods, snapshot, screen, reasons))
    if options.output == "html":
        screen.print(cluster.show.document(snapshot.nodes.values()))
    return FAILURE.is_set() or stop.is_set()


def make_passes(cluster, policies, stop, once):
    """Make passes until one changes nothing. Return a snapshot without the pods that are still held."""
    while not stop.is_set():
        before = cluster.api.changes
        schedule_pending_pods(cluster, policies, stop)
        cluster.cycle.finish(cluster.writer.patience, stop)
        if once or cluster.api.changes == before:
            break
        cluster.pending.end_backoff()  # there is nothing to wait for: nobody else changes manifests
    cluster.pending.call_off_held()
    return cluster.look(policies)


def explain_pod(cluster, policy_file, options, screen):
    """Show where a pod would go now, whether or not anybody would try it. Return whether a rule failed."""
    namespace, _, name = options.explain.rpartition("/")
    namespace = namespace or "default"
    things, _ = list_all(cluster.api, "pods", f"metadata.namespace={namespace},metadata.name={name}")
    pods = [pod for pod in [read_or_warn(Pod, thing) for thing in things] if pod]
    if not pods:
        raise ApiError(404, f'pod "{namespace}/{name}" not found (NAMESPACE/NAME; default/ may be left out)')
    pod = pods[0]
    path = policy_file.path
    policies = policy_file.policies
    snapshot = cluster.look(policies)
    stands = where_it_stands(pod, snapshot)
    read = READERS.get("KubeSchedulerConfiguration")
    if read and pod.scheduler == "default-scheduler" and pod.scheduler not in policies and not options.policy:
        path = "the default profile of today's kube-scheduler"
        policies = read({"apiVersion": CONFIGURATION_VERSION}, pod.scheduler)
    policy = snapshot.policies.setdefault(pod.scheduler, next(iter(policies.values())))
    if pod.node_name in snapshot.nodes:
        take_off(pod, snapshot.nodes[pod.node_name])
    pod.node_name = ""
    pod.record = PodRecord(pod)
    decision = schedule(pod, snapshot, policy)
    policy.seek_remedy(decision, snapshot)
    answers = [*say_what_follows(decision, cluster.cache)] if decision.node else []
    heading = f"{pod.key} {stands}. If scheduled now, by {path}"
    if options.output == "html":
        page = Page(path)
        page(decision, heading, *answers)
        screen.print(page.document(nodes=()))
        return FAILURE.is_set()
    show(decision, options, screen, heading)
    if answers and options.output == "text":
        screen.print("What rules say once it has a node (nothing is sent):")
        for answer in answers:
            screen.print(*screen.fold(answer, rest=" " * 12))
        screen.print()
    return FAILURE.is_set()


def say_what_follows(decision, cache):
    """Yield what each rule says before the binding, until one refuses or has the pod wait; then undo it."""
    pod = decision.pod
    snapshot = cache.snapshot
    node = snapshot.nodes[decision.node]
    cache.place(pod, node.name)
    try:
        for point in ("reserve", "permit", "pre_bind"):
            for rule in decision.policy.rules_with[point]:
                wanted, reason = with_reason(call_hook(rule, point, pod, node, snapshot))
                answer = "goes on"
                if point == "permit" and wanted:
                    answer = f"not yet, for at most {wanted:g} s"
                if point == "pre_bind" and wanted is not None:
                    answer = ", ".join(["not yet", *(f"{method} {path} first" for method, path, _ in wanted)])
                if answer != "goes on":
                    decision.waits = with_why(f"{rule.title} ({point}): {answer}", reason)
                yield f"  {point:8}  {rule.title}: {with_why(answer, reason)}"
            if decision.waits:
                return
    except (Exception, SystemExit) as error:
        decision.give_up(error)
        yield f"  {point:8}  {rule.title}: {decision.message}"
    finally:
        cache.forget(pod)
        unreserve(decision, snapshot)


def compare(manifests, files, stop, options, screen):
    """Show what comes of manifests under each of several Policies. Return whether something failed."""
    outcomes = {}
    for file in files:
        title = file.path
        while title in outcomes:
            title += ", again"
        report = functools.partial(warn_of_unheeded, under=f"{file.path}: ")
        cluster = ListedCluster(copy.deepcopy(manifests), report, options)
        outcomes[title] = outcome_of(cluster, file, stop, options)
    if stop.is_set():  # what it has by now is no comparison
        return True
    screen.print(*([json.dumps(outcomes)] if options.output == "json" else comparison(outcomes)))
    return FAILURE.is_set()


def outcome_of(cluster, policy_file, stop, options):
    """Schedule manifests under a Policy. Return where the pods that waited are, and how full the nodes."""
    policies = policy_file.policies
    waiting = cluster.waiting_pods(policies)
    pending = sorted(pod.key for pod in cluster.pending_pods(waiting, policies))
    snapshot = make_passes(cluster, policies, stop, options.once)
    nodes = snapshot.nodes.values()
    places = {pod.key: node.name for node in nodes for pod in node.pods.values()}
    utilization = {}
    for resource in CPU_AND_MEMORY if nodes else ():
        shares = [100 * node.requested[resource] / max(node.allocatable[resource], 1) for node in nodes]
        utilization[resource] = {"min": min(shares), "mean": statistics.mean(shares), "max": max(shares),
                                 "standard deviation": statistics.pstdev(shares)}
    return {"pods": {key: places.get(key) for key in pending}, "utilization": utilization}


##########################################################################################################
# PART VII. TODAY                                                                                        #
# What kube-scheduler 1.36 says otherwise. The script is whole without this part, and reads Policies.    #
##########################################################################################################

# ==== 39. What 1.36 says otherwise ======================================================================

# Under a KubeSchedulerConfiguration, functions of this chapter stand in for those of rules, which are in the
# order of the chapters above. What is not here is as it was.
#
# Two bugs that kube-scheduler has from 1.34 to 1.36 are not followed. Where an extender filters that has
# nodeCacheCapable false, all nodes are scored as if they were empty. And a pod with required anti-affinity
# stays pending if its namespaceSelector excludes (NotIn) the pod's own namespace.


TODAY = collections.defaultdict(dict)  # name of a rule -> {field of the Rule: what stands there today}


def today(name, part="function"):
    """Return a decorator of a function that stands in for a rule's own today, or for another part of it."""

    def decorate(function):
        """Take note of the function; return it as it is."""
        TODAY[name][part] = function
        RULE_OF[getattr(function, "func", function).__code__] = name
        return function

    return decorate


@today("HostName")
def node_name(pod, node):
    """The same, in other words."""
    if any(host_name(pod, node)):
        yield "node(s) didn't match the requested node name"


@today("PodFitsResources")
def node_resources_fit(pod, node, excepted=()):
    """What the pod does not request may be overcommitted; and a group may be excepted, as "example.com/"."""
    if len(node.pods) + 1 > node.max_pods:
        yield "Too many pods"
    for name, amount in pod.requests.items():
        if amount <= 0 or node.requested.get(name, 0) + amount <= node.allocatable.get(name, 0):
            continue
        group = f"{name.partition('/')[0]}/"
        if name not in excepted and group not in excepted:
            yield f"Insufficient {name}"


@today("PodToleratesNodeTaints")
def taints_and_tolerations(pod, node):
    """The taint is not named."""
    if hostile_taints(pod, node):
        yield "node(s) had untolerated taint(s)"


def usage_today(pod, node, resources):
    """Return `usage` with the pod's overhead in full.

    Left out are what the node does not have, and extended resources that the pod does not request.
    """
    incoming = pod.nonzero_incoming
    if pod.uncounted_cpu:
        incoming = incoming | {"cpu": incoming["cpu"] + pod.uncounted_cpu}
    counted = [name for name in resources
               if node.allocatable.get(name) and (name in NO_REQUESTS or incoming.get(name))]
    return usage(incoming, node, counted)


def mean_of(score):
    """Return a priority: the mean of score(requested, there) of resources, by {resource: weight}."""

    def mean(pod, node, weights):
        """Return the mean, rounded down; 0 if no resource counts."""
        total = divisor = 0
        for name, (used, there) in usage_today(pod, node, weights).items():
            total += weights[name] * score(used, there)
            divisor += weights[name]
        return total // (divisor or 1)

    return mean


today("LeastRequestedPriority")(mean_of(lambda used, there: 100 * max(there - used, 0) // there))
today("MostRequestedPriority")(mean_of(lambda used, there: 100 * min(there, used) // there))


@today("BalancedResourceAllocation")
def improved_balance(pod, node, resources=CPU_AND_MEMORY):
    """75 where the use of the resources stays as even as it is; more where the pod evens it. Since 1.36."""
    requested = [name for name in resources if pod.requests.get(name)]
    if not requested:
        return 0
    before = {name: node.requested.get(name, 0) for name in resources
              if node.allocatable.get(name) and (name in NO_REQUESTS or name in requested)}
    then = {name: amount + pod.requests.get(name, 0) for name, amount in before.items()}
    return 50 + (50 + evenness(then, node) - evenness(before, node)) // 2


def evenness(requested, node):
    """Return 100 less the standard deviation, in percent, of the requested shares of the node's resources."""

    def add_up(numbers):
        """Add floats up one by one, like Go; Python 3.12's sum() is more exact."""
        return functools.reduce(lambda total, each: total + each, numbers, 0.0)

    shares = [min(amount / node.allocatable[name], 1) for name, amount in requested.items()]
    if len(shares) == 2:
        return int((1 - abs(shares[0] - shares[1]) / 2) * 100)
    middle = add_up(shares) / max(len(shares), 1)
    squares = [(share - middle) ** 2 for share in shares]
    return int((1 - math.sqrt(add_up(squares) / max(len(shares), 1))) * 100)


def utilization_today(pod, node, resources):
    """Return {resource: the percentage that is then requested, rounded down}."""
    return {name: 100 * used // there for name, (used, there) in usage_today(pod, node, resources).items()}


today("RequestedToCapacityRatio")(
    functools.partial(requested_to_capacity_ratio, utilization=utilization_today))


@today("ImageLocalityPriority", "metadata")
def image_shares_today(pod, nodes, snapshot):
    """The images of init containers and of volumes count, too."""
    containers = pod.containers + pod.init_containers
    images = [pick(container, str, "image") for container in containers]
    images += [pick(volume, str, "image", "reference") for volume in pod.volumes if volume.get("image")]
    return ImageShares(shares_of(images, snapshot), len(containers))


@today("MatchNodeSelector")
def required_node_affinity(pod, node, added_terms=()):
    """The node also meets one of the terms that the configuration adds for all pods (addedAffinity)."""
    if added_terms and not any(term_matches(term, node) for term in valid_terms(added_terms)):
        yield "node(s) didn't match scheduler-enforced node affinity"
    elif not wants_node(pod, node):
        yield "node(s) didn't match Pod's node affinity/selector"


def nodes_named(pod, nodes, snapshot):
    """The names of the nodes to which the pod's required node affinity confines it (by matchFields)."""
    required = pick(pod.node_affinity, dict, f"required{WHEN}")
    terms = pick(required, list, "nodeSelectorTerms", of=dict)
    named = set()
    for term in terms:
        fields = pick(term, list, "matchFields", of=dict)
        lists = [set(pick(each, list, "values", of=str)) for each in fields
                 if each.get("key") == "metadata.name" and each.get("operator") == "In"]
        if not lists:
            return SKIP
        named |= set.intersection(*lists)
    if terms and not named:
        raise Rejected("pod affinity terms conflict")
    return named or SKIP


def is_named(pod, node, metadata):
    """The node is among those that the pod's node affinity names; of others nothing else is said."""
    if node.name not in metadata:
        yield "node(s) didn't satisfy plugin(s) [NodeAffinity]"


NODES_NAMED = FullRule(
    "predicates", "NodesNamed", is_named, metadata=nodes_named, title="NodeAffinity", steady=True)


@today("NodeAffinityPriority")
def preferred_node_affinity(pod, node, added_terms=()):
    """The preferences that the configuration adds for all pods count, too (addedAffinity)."""
    added = [weight for weight, term in weighted_terms(added_terms) if term_matches(term, node)]
    return node_affinity(pod, node) + sum(added)


CONTROLLERS = {  # apiVersion and kind of those by which a pod's fellows are found -> resource
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("apps/v1", "ReplicaSet"): "replicasets", ("apps/v1", "StatefulSet"): "statefulsets"}


def default_selector_today(pod, snapshot):
    """Return what the Services that select the pod require of the pods to count, and its controller.

    That is found by its name alone, and need not select the pod. Upstream: DefaultSelector, since 1.22.
    """
    required = list(itertools.chain(*selectors_of(pod, snapshot, "services")))
    kind = name_in(pod.controller, "apiVersion"), name_in(pod.controller, "kind")
    resource = CONTROLLERS.get(kind)
    known = snapshot.objects[resource] if resource else {}
    controller = known.get(f"{pod.namespace}/{name_in(pod.controller, 'name')}", {})
    of_controller = []
    with contextlib.suppress(InvalidSelector):
        of_controller = label_selector(selector_in(controller, resource)) or []
    if resource == "replicationcontrollers":  # its labels take the place of the Services'
        labels = {each.key for each in of_controller}
        required = [each for each in required if each.key not in labels]
    return required + of_controller


spread_constraints_today = functools.partial(spread_constraints, default_selector=default_selector_today)


@today("EvenPodsSpread", "metadata")
def hard_spread_today(pod, nodes, snapshot, default_constraints=()):
    """Pods count on eligible nodes only, and an empty selector counts nobody."""
    spread = [with_full_domains(unless_empty(constraint), constraint.eligible)
              for constraint in spread_constraints_today(pod, "DoNotSchedule", snapshot, default_constraints)]
    return spread or SKIP


def unless_empty(constraint):
    """Return a spread constraint that counts nobody if its selector is empty."""
    return constraint if constraint.requirements else replace(constraint, numbers=collections.Counter())


def on_all_nodes(constraint, pod, snapshot):
    """Return a spread constraint that counts on nodes without its key, too."""
    nodes = [*snapshot.nodes.values()]
    eligible = nodes
    if constraint.eligible is not constraint.complete:
        eligible = [node for node in nodes if wants_node(pod, node)]
    return replace(constraint, complete=nodes, eligible=eligible)


SoftSpread = collections.namedtuple("SoftSpread", "constraints keys_needed")


@today("SelectorSpreadPriority", "metadata")
def soft_spread_today(pod, nodes, snapshot, default_constraints=()):
    """The system's own constraints need no keys: nodes that lack one are a domain of their own."""
    is_systems = default_constraints is DEFAULT_SPREAD and not pod.spec.get("topologySpreadConstraints")
    constraints = spread_constraints_today(pod, "ScheduleAnyway", snapshot, default_constraints)
    if is_systems:
        constraints = [on_all_nodes(each, pod, snapshot) for each in constraints]
    return SoftSpread([with_counts(unless_empty(each), nodes) for each in constraints], not is_systems)


@today("SelectorSpreadPriority")
def pod_topology_spread(pod, node, metadata):
    """Rounded, halves up; None without constraints, so that nothing is scored."""
    if not metadata.constraints:
        return None
    score = 0.0
    for constraint in metadata.constraints:
        if constraint.key in node.labels:
            score += constraint.score(node)
        elif metadata.keys_needed:
            return None
    return math.floor(score + 0.5)


@today("MatchInterPodAffinity")
def required_pod_affinity(pod, node, metadata):
    """Only the second of the two reasons is given."""
    return list(match_inter_pod_affinity(pod, node, metadata))[1:]


@today("InterPodAffinityPriority", "metadata")
def affine_scores_today(pod, nodes, snapshot, hard_weight=1, ignores_others=False):
    """ignores_others: what other pods prefer counts for those only that prefer something themselves."""
    scores = affine_scores(pod, nodes, snapshot, hard_weight)
    terms, _ = affinity_terms(pod)
    has_preferences = terms["preferredAffinity"] or terms["preferredAntiAffinity"]
    return scores if has_preferences or not ignores_others else {}


# Scores are normalized without a 0 among them.
today("InterPodAffinityPriority", "reduce")(functools.partial(normalize_affinity, among=()))


@today("NoDiskConflict", "metadata")
def disks_and_claims_today(pod, nodes, snapshot):
    """A claim that is not there rejects the pod."""
    for name, claim, _ in claims_of(pod, snapshot, pod.named_claims):
        if not claim:
            raise Rejected(f'persistentvolumeclaim "{name}" not found')
    return disks_and_claims(pod, nodes, snapshot)


# The CSI driver that has taken a provisioner's place identifies the disk by the field `identity` of `source`.
Migrated = collections.namedtuple("Migrated", "provisioner source identity")
MIGRATED = {  # driver -> the disks that are its by now
    "ebs.csi.aws.com": Migrated("kubernetes.io/aws-ebs", "awsElasticBlockStore", "volumeID"),
    "pd.csi.storage.gke.io": Migrated("kubernetes.io/gce-pd", "gcePersistentDisk", "pdName"),
    "disk.csi.azure.com": Migrated("kubernetes.io/azure-disk", "azureDisk", "diskURI"),
    "cinder.csi.openstack.org": Migrated("kubernetes.io/cinder", "cinder", "volumeID"),
    "pxd.portworx.com": Migrated("kubernetes.io/portworx-volume", "portworxVolume", "volumeID")}
DRIVERS = {disks.provisioner: driver for driver, disks in MIGRATED.items()}


def attachments_today(pod, snapshot):
    """Return the (CSI driver, handle) of the pod's volumes, inline or claimed."""
    sources, unbound = volumes_of(pod, snapshot)
    attached = attached_by(sources, MIGRATED)
    for name, claim in unbound.items():
        provisioner = pick(storage_class_of(claim, snapshot), str, "provisioner")
        attached.add((DRIVERS.get(provisioner, provisioner), (pod.namespace, name)))
    return attached


@today("MaxCSIVolumeCountPred", "metadata")
def volume_attachments_today(pod, nodes, snapshot):
    """What is to be attached for the pod, what VolumeAttachments attach, {node: these}; and the snapshot."""
    wanted = attachments_today(pod, snapshot)
    if not wanted:
        return SKIP
    by_node = collections.defaultdict(set)
    for attachment in snapshot.objects["volumeattachments"].values():
        spec = pick(attachment, dict, "spec")
        name = pick(spec, str, "source", "persistentVolumeName")
        csi = pick(snapshot.objects["persistentvolumes"].get(name, {}), dict, "spec", "csi")
        if csi:
            volume = pick(spec, str, "attacher"), pick(csi, str, "volumeHandle")
            by_node[pick(spec, str, "nodeName")].add(volume)
    return wanted, by_node, snapshot


@today("MaxCSIVolumeCountPred")
def node_volume_limits(pod, node, metadata):
    """What only a VolumeAttachment attaches counts, too. Limits are those of the CSINode, and no others."""
    wanted, by_node, snapshot = metadata
    attached = attached_to(node, snapshot, attachments_today)
    of_no_pod = by_node.get(node.name, set()) - attached
    counted = [*(wanted | attached), *of_no_pod]  # as upstream, what is wanted and of no pod counts twice
    for driver in {driver for driver, _ in wanted - attached}:
        if sum(of == driver for of, _ in counted) > csi_limit(driver, node, snapshot, otherwise=math.inf):
            yield "node(s) exceed max volume count"
            return


def why_unusable_today(name, claim, pod):
    """Return why the pod cannot use a claim, whatever the node, or None."""
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


today("CheckVolumeBinding", "metadata")(functools.partial(claims_to_bind, why_unusable=why_unusable_today))
today("CheckVolumeBinding")(functools.partial(
    check_volume_binding,
    gone="node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    out_of_reach="node(s) didn't match PersistentVolume's node affinity"))
TODAY["CheckVolumeBinding"]["hooks"] = {
    "pre_bind": functools.partial(bind_volumes, late="context deadline exceeded")}


@today("NoVolumeZoneConflict", "metadata")
def zones_of_volumes_today(pod, nodes, snapshot):
    """A claim to nowhere rejects the pod."""
    zones = zones_of_volumes(pod, nodes, snapshot)
    if zones is not SKIP and zones.problem:
        raise Rejected(zones.problem)
    return zones


@today("NoVolumeZoneConflict")
def volume_zone(pod, node, metadata):
    """A label that a volume has under its name of old, the node may have under its new one."""
    if node.labels.keys().isdisjoint(ZONE_LABELS):
        return
    for label, zones in metadata.labels:
        new_name = label.replace("failure-domain.beta.", "topology.")
        if node.labels.get(label, node.labels.get(new_name)) not in zones:
            yield "node(s) had no available volume zone"
            return


class Profile(FullPolicy):
    """What a profile of a KubeSchedulerConfiguration says: a Policy that decides as 1.36 does."""

    kind = "KubeSchedulerConfiguration"
    unschedulable_seconds = 300  # upstream: DefaultPodMaxInUnschedulablePodsDuration
    would_preempt = False

    def predicates_to_ask(self):
        """Return the predicates as they are asked: first of all, which nodes the pod names."""
        of_plugin = any(rule.name == "MatchNodeSelector" for rule in self.predicates)
        first = [NODES_NAMED] if of_plugin else []
        return first + super().predicates_to_ask()

    def ask_extenders(self, pod, feasible, failed):
        """Leave only the node where room was made for the pod, if it fits (evaluateNominatedNode)."""
        feasible, failed = super().ask_extenders(pod, feasible, failed)
        if pod.nominated_node in feasible:
            feasible = {pod.nominated_node: feasible[pod.nominated_node]}
        return feasible, failed

    def seek_remedy(self, decision, snapshot):
        """If no rule has a remedy, free the room that is kept for the pod. Upstream: schedule_one.go."""
        super().seek_remedy(decision, snapshot)
        is_nominated = decision.pod.uid in [other.uid for other in snapshot.nominated]
        has_remedy = decision.requests or decision.remedy
        if is_nominated and not has_remedy and not decision.trouble:
            decision.requests = [nominate(decision.pod, None, snapshot)]

    def rejection(self, error, failed):
        """Return the reason as it is, without the number of nodes for which it holds."""
        return f"0/{len(failed)} nodes are available: {error}."

    def name_for(self, rule):
        """Return the name of the plugin that a rule is part of."""
        return rule.plugin


# ==== 40. KubeSchedulerConfiguration ====================================================================

NAMES_OF_OLD |= {
    "Coscheduling": "the rule Coscheduling of tests/tutorial_rules.py, a file for --plugins",
    "NodeResourcesLeastAllocated": "NodeResourcesFit (in a Policy: LeastRequestedPriority)",
    "NodeResourcesMostAllocated":
        "NodeResourcesFit with scoringStrategy.type MostAllocated (in a Policy: MostRequestedPriority)",
    **dict.fromkeys(["SelectorSpread", "DefaultPodTopologySpread"],
                    "PodTopologySpread with its default constraints (in a Policy: SelectorSpreadPriority)"),
    **dict.fromkeys(["EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"],
                    "leave it out, NodeVolumeLimits does it (in a Policy: MaxCSIVolumeCountPred)"),
    "NodePreferAvoidPods": "TaintToleration, and taints on the nodes",
    **dict.fromkeys(["NodeResourceLimits", "healthzBindAddress", "metricsBindAddress", "disablePreemption",
                     "failureDomains"], "nothing, leave it out"),
    "unreserve": "reserve", "enableHttps": "enableHTTPS",
    "algorithmSource": "nothing for DefaultProvider, leave it out, else --policy with the Policy's own file",
    "extenders": "extenders beside profiles, for all of them",
    "enabled": "multiPoint.enabled, or that of another extension point",
    "disabled": "multiPoint.disabled, or that of another extension point",
    "resources": "scoringStrategy.resources",
    "shape": "requestedToCapacityRatio.shape in scoringStrategy",
    "bindTimeoutSeconds": "bindTimeoutSeconds among the args of VolumeBinding",
    "lockObjectName": "resourceName", "lockObjectNamespace": "resourceNamespace",
    "schedulerName": "profiles[0].schedulerName, or --scheduler-name",
    "plugins": "profiles[0].plugins", "pluginConfig": "profiles[0].pluginConfig",
    "hardPodAffinitySymmetricWeight": "hardPodAffinityWeight among the args of InterPodAffinity",
    **{f"--leader-elect-{flag}": f"leaderElection.{name} in a KubeSchedulerConfiguration" for flag, name in {
        "lease-duration": "leaseDuration", "renew-deadline": "renewDeadline", "retry-period": "retryPeriod",
        "resource-name": "resourceName", "resource-namespace": "resourceNamespace"}.items()},
    "--lock-object-name": "leaderElection.resourceName in a KubeSchedulerConfiguration",
    "--lock-object-namespace": "leaderElection.resourceNamespace in a KubeSchedulerConfiguration"}
DONE_ANYWAY = ["PrioritySort", "SchedulingGates", "DefaultBinder"]  # what these do is done without them
# Plugins of today's kube-scheduler that do nothing here. Upstream: framework/plugins/names.
WITHOUT_EFFECT = ["DefaultPreemption", "DynamicResources", "GangScheduling", "NodeDeclaredFeatures",
                  "PodGroupPodsCount", "TopologyPlacementGenerator"]
EXTENDS = {  # kube-scheduler's own plugin -> its extension points
    "PrioritySort": "queueSort", "SchedulingGates": "preEnqueue", "DefaultBinder": "bind",
    **dict.fromkeys(["NodeUnschedulable", "NodeName"], "filter"),
    **dict.fromkeys(["NodePorts", "VolumeRestrictions", "NodeVolumeLimits", "VolumeZone",
                     "NodeDeclaredFeatures"], "preFilter filter"),
    **dict.fromkeys(["NodeAffinity", "PodTopologySpread", "InterPodAffinity"],
                    "preFilter filter preScore score"),
    "NodeResourcesFit": "preFilter filter preScore score placementScore",
    "VolumeBinding": "preFilter filter preScore score reserve preBind",
    "TaintToleration": "filter preScore score", "ImageLocality": "score",
    "NodeResourcesBalancedAllocation": "preScore score",
    "DefaultPreemption": "preEnqueue postFilter podGroupPostFilter",
    "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
    "GangScheduling": "preEnqueue reserve permit placementFeasible",
    "PodGroupPodsCount": "placementScore", "TopologyPlacementGenerator": "placementGenerate"}
# Rules of a Policy that no plugin has any more, and the default weights that have changed.
GONE = ["CheckNodeLabelPresence", "CheckServiceAffinity", "MaxEBSVolumeCount", "MaxGCEPDVolumeCount",
        "MaxAzureDiskVolumeCount", "MaxCinderVolumeCount",
        "NodeLabel", "NodePreferAvoidPodsPriority", "ServiceAffinity", "EvenPodsSpreadPriority"]
WEIGHTS_TODAY = {"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2}
STRATEGIES = {"LeastAllocated": "LeastRequestedPriority", "MostAllocated": "MostRequestedPriority",
              "RequestedToCapacityRatio": "RequestedToCapacityRatio"}  # of NodeResourcesFit: its priority
HOOK_POINTS = dict.fromkeys(point.in_configuration for point in EXTENSION_POINTS.values())
POINTS = ["multiPoint", "preFilter", "filter", "preScore", "score", *HOOK_POINTS,
          "placementGenerate", "placementScore", "placementFeasible", "podGroupPostFilter"]


def duration(text, place):
    """Return a duration such as 15s, 1m30s or 500ms in seconds; "" and "0" are 0. Raises InputError."""
    units = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 0.001, "s": 1, "m": 60, "h": 3600}
    parts = re.findall(r"([0-9]{1,9}(?:\.[0-9]{0,9})?)(ns|us|µs|ms|s|m|h)", text)
    if text != "0" and "".join(map("".join, parts)) != text:
        raise InputError(f"{place}: {in_short(text)} is not a duration, such as 15s or 1m30s")
    return sum(float(count) * units[unit] for count, unit in parts)


FILTERED_TODAY = FILTERED | {"FailedAndUnresolvableNodes": dict}  # whose reasons count before FailedNodes'
READ_OVER = {  # since nothing here depends on it
    "clientConnection": {"kubeconfig": str, "acceptContentTypes": str, "contentType": str, "qps": float,
                         "burst": range(2**31)},
    "parallelism": range(1, 2**31), "enableProfiling": bool, "enableContentionProfiling": bool,
    "delayCacheUntilActive": bool, "percentageOfNodesToScore": range(101),
    "percentageOfPlacementsToScore": range(101)}
CONFIGURATION = READ_OVER | {
    "kind": str, "apiVersion": str,
    "podInitialBackoffSeconds": range(1, 2**63), "podMaxBackoffSeconds": range(1, 2**63),
    "profiles": [{
        "schedulerName": str,
        "percentageOfNodesToScore": range(101), "percentageOfPlacementsToScore": range(101),
        "pluginConfig": [{"name": str, "args": dict}],
        "plugins": {point: {part: [{"name": str, "weight": range(2**31)}] for part in ("enabled", "disabled")}
                    for point in POINTS}}],
    "leaderElection": {"leaderElect": bool, "leaseDuration": str, "renewDeadline": str,
                       "retryPeriod": str, "resourceLock": str, "resourceName": str,
                       "resourceNamespace": str},
    "extenders": [
        {name: kind for name, kind in EXTENDER.items() if name != "enableHttps"}
        | {"httpTimeout": str, "enableHTTPS": bool}]}
EXPRESSIONS = [{"key": str, "operator": {*OPERATORS}, "values": [str]}]
NODE_SELECTOR_TERM = {"matchExpressions": EXPRESSIONS, "matchFields": EXPRESSIONS}
PLUGIN_ARGUMENTS = {  # what changes nothing here is read over
    "NodeAffinity": {"addedAffinity": {
        f"required{WHEN}": {"nodeSelectorTerms": [NODE_SELECTOR_TERM]},
        f"preferred{WHEN}": [{"weight": range(2**31), "preference": NODE_SELECTOR_TERM}]}},
    "NodeResourcesFit": {"ignoredResources": [str], "ignoredResourceGroups": [str], "scoringStrategy": {
        "type": {*STRATEGIES}, "resources": [{"name": str, "weight": range(101)}],
        "requestedToCapacityRatio": {"shape": SHAPE}}},
    "InterPodAffinity": {"hardPodAffinityWeight": range(101), "ignorePreferredTermsOfExistingPods": bool},
    "PodTopologySpread": {"defaultingType": {"List", "System"}, "defaultConstraints": [{
        "maxSkew": WEIGHT, "topologyKey": str, "whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"},
        "minDomains": WEIGHT, "matchLabelKeys": [str],
        "nodeAffinityPolicy": {"Honor", "Ignore"}, "nodeTaintsPolicy": {"Honor", "Ignore"}}]},
    "NodeResourcesBalancedAllocation": {"resources": [{"name": str, "weight": range(2)}]},
    "VolumeBinding": {"bindTimeoutSeconds": range(2**31), "shape": list},
    "DefaultPreemption": {"minCandidateNodesPercentage": range(101),
                          "minCandidateNodesAbsolute": range(2**31)},
    "DynamicResources": {"filterTimeout": str, "bindingTimeout": str}}


def plugins_of_today():
    """Return {plugin: its rules} in the order in which they run; the user's own rules are plugins, too."""
    found = {plugin: [] for plugin in PLUGIN_ORDER}
    for rule in [*PREDICATES.values(), *PRIORITIES.values()]:
        found.setdefault(rule.plugin, [])
        if rule.name not in GONE:
            found[rule.plugin].append(rule)
    return {plugin: rules for plugin, rules in found.items() if rules}


def default_plugins():
    """Return {plugin: weight} of those that run by default."""
    by_default = {plugin: WEIGHTS_TODAY.get(plugin) or max(1, *(rule.by_default for rule in rules))
                  for plugin, rules in plugins_of_today().items()
                  if any(rule.by_default or rule.always for rule in rules)}
    return dict.fromkeys(DONE_ANYWAY, 1) | by_default


def changes_since(document):
    """Yield all that has to be said otherwise in a configuration of an older version."""
    version = str(document.get("apiVersion"))
    yield f'apiVersion "{version}": write {CONFIGURATION_VERSION}'
    yield from said_of_old(document, CONFIGURATION)
    if version.endswith(("v1alpha1", "v1alpha2", "v1beta1", "v1beta2")):
        yield ("by default InterPodAffinity and NodeAffinity weigh 2 today, TaintToleration 3 (each was 1), "
               "and nobody heeds the annotation preferAvoidPods")


def said_of_old(thing, schema, place=""):
    """Yield the names of old in a part of a configuration, where they are, and what they are today."""
    if isinstance(thing, list) and isinstance(schema, list):
        for i, item in enumerate(thing):
            yield from said_of_old(item, schema[0], f"{place}[{i}]")
    elif isinstance(thing, dict) and isinstance(schema, dict):
        [profile] = CONFIGURATION["profiles"]  # whose fields v1alpha1 had at the top
        for name, value in thing.items():
            where = f"{place}.{name}".lstrip(".")
            if name in NAMES_OF_OLD and name not in schema:
                yield f"{where}: today {NAMES_OF_OLD[name]}"
            yield from said_of_old(value, schema.get(name) or profile.get(name), where)
    elif schema is str and isinstance(thing, str) and thing in NAMES_OF_OLD:
        yield f"{place}: {thing} is today {NAMES_OF_OLD[thing]}"


def read_configuration(document, scheduler_name):
    """Return {schedulerName: Policy}; a single profile without a name gets this one. Raises InputError."""
    try:
        if document.get("apiVersion") != CONFIGURATION_VERSION:
            raise InputError("; ".join(changes_since(document)))
        return profiles_of(decode(document, CONFIGURATION, ""), scheduler_name)
    except InputError as error:  # of what Policies say instead, no word here
        raise InputError(re.sub(r" \(in a Policy[^;]*\)(?=;|$)", "", str(error))) from None


JITTER = 1.2  # by which a leader's pauses may be longer. Upstream: JitterFactor in client-go


def profiles_of(body, scheduler_name):
    """Return {schedulerName: Policy} of what was decoded. Raises InputError with all that is wrong."""
    problems = []
    notices = []
    configs = body.get("extenders", [])
    for i, config in enumerate(configs):  # a Policy has nanoseconds, and writes enableHttps
        with noted(problems):
            timeout = duration(config.get("httpTimeout", ""), f"extenders[{i}].httpTimeout")
            config["httpTimeout"] = int(timeout * 10**9)
        config["enableHttps"] = config.get("enableHTTPS", False)
    problems += extender_problems(configs)
    election = body.get("leaderElection", {})
    for name, default in ELECTION.items():
        said = election.get(name, "")
        election[name] = default
        with noted(problems):
            election[name] = duration(said, f"leaderElection.{name}") or default
    if election.get("leaderElect", True):  # as upstream has it by default
        if not election["leaseDuration"] > election["renewDeadline"] > JITTER * election["retryPeriod"]:
            problems.append("leaderElection: expected leaseDuration > renewDeadline > 1.2 x retryPeriod")
        if election.get("resourceLock", "leases") != "leases":
            notices.append("leaderElection.resourceLock: today only leases lock, and they do here")
    initial = body.get("podInitialBackoffSeconds", 1)
    longest = body.get("podMaxBackoffSeconds", 10)
    if initial > longest:
        problems.append("expected 0 < podInitialBackoffSeconds <= podMaxBackoffSeconds")
    profiles = body.get("profiles") or [{}]
    problems += profile_problems(profiles)
    arguments = [plugin_arguments(profile, f"profiles[{i}].pluginConfig", notices, problems)
                 for i, profile in enumerate(profiles)]
    refuse(problems)  # then the rules can be made
    extenders = extenders_of(configs)
    for extender in extenders:
        extender.filtered = FILTERED_TODAY
    policies = {}
    for i, profile in enumerate(profiles):
        name = profile.get("schedulerName", scheduler_name)
        policy = read_profile(profile, arguments[i], f"profiles[{i}]", configs, notices, problems)
        policies[name] = replace(policy, extenders=extenders, election=election,
                                 initial_backoff=initial, max_backoff=longest)
    refuse(problems)
    read_over = [name for name in READ_OVER if name in body]
    read_over += [f"profiles[{i}].{name}" for i, profile in enumerate(profiles)
                  for name in READ_OVER if name in profile]
    if read_over:
        notices.append(f"nothing here depends on {', '.join(read_over)}")
    policies[name].notices += notices
    return policies


def read_profile(profile, arguments, place, configs, notices, problems):
    """Return a Profile with these arguments of plugins; add what is wrong with its rules."""
    plugins = profile.get("plugins", {})
    note_disabled(plugins, f"{place}.plugins", notices)
    running = running_plugins(plugins)
    left_out = left_to_extenders(configs)
    if left_out:  # upstream: buildExtenders
        arguments.setdefault("NodeResourcesFit", {})["ignoredResources"] = left_out

    def rules_at(point, catalogue):
        """Return {name: rule} of the plugins that run at a point, with the hooks at which they run, too."""
        rules = {}
        for plugin, weight in running[point].items():
            for name, given in rules_of(plugin, arguments.get(plugin, {})).items():
                if name in catalogue:
                    rule = replace(catalogue[name], **TODAY.get(name, {}))
                    hooks = {hook: function for hook, function in rule.hooks.items()
                             if plugin in running[EXTENSION_POINTS[hook].in_configuration]}
                    entry = f"{place}.plugins.{point}: {plugin}"
                    with noted(problems):
                        rules[name] = set_up(replace(rule, hooks=hooks), plugin, entry, weight or 1, given)
        return rules

    predicates = rules_at("filter", PREDICATES)
    priorities = rules_at("score", PRIORITIES)
    others = {}  # of the user's own rules, those that neither filter nor score here
    for point in HOOK_POINTS:
        known = predicates | priorities | others
        own = {name: rule for name, rule in (PRIORITIES | PREDICATES).items()
               if rule.plugin not in PLUGIN_ORDER and name not in known}
        others |= rules_at(point, own)
    policy = Profile([*predicates.values()], [*priorities.values()], others=[*others.values()])
    disabled = {entry.get("name") for point in ("multiPoint", "postFilter")
                for entry in plugins.get(point, {}).get("disabled", [])}
    if disabled.isdisjoint(["DefaultPreemption", "*"]) and not policy.rules_with["post_filter"]:
        notice = ("nobody is preempted, as DefaultPreemption does nothing here; the rule Preemption of "
                  "tests/tutorial_rules.py does it")
        if notice not in notices:  # it holds for all profiles
            notices.append(notice)
    return policy


def rules_of(plugin, args):
    """Return {rule: its settings} of a plugin: its predicate and priority, or a rule of the user's own.

    `args`: what the configuration says of the plugin.
    """
    if plugin == "NodeAffinity":
        added = args.get("addedAffinity", {})
        required = added.get(f"required{WHEN}", {})
        return {"MatchNodeSelector": {"added_terms": required.get("nodeSelectorTerms", [])},
                "NodeAffinityPriority": {"added_terms": added.get(f"preferred{WHEN}", [])}}
    if plugin == "NodeResourcesFit":
        groups = [f"{group}/" for group in args.get("ignoredResourceGroups", [])]
        strategy = args.get("scoringStrategy", {})
        scoring = STRATEGIES[strategy.get("type") or "LeastAllocated"]
        resources = strategy.get("resources") or [{"name": "cpu"}, {"name": "memory"}]
        settings = {"weights": {each.get("name", ""): each.get("weight") or 1 for each in resources}}
        if scoring == "RequestedToCapacityRatio":
            weighted = {"resources": [each | {"weight": each.get("weight") or 1} for each in resources]}
            settings = {"arguments": [strategy.get("requestedToCapacityRatio", {}) | weighted]}
        excepted = args.get("ignoredResources", []) + groups
        return {"PodFitsResources": {"excepted": excepted}, scoring: settings}
    if plugin == "PodTopologySpread":
        system = [] if args.get("defaultingType") == "List" else DEFAULT_SPREAD
        settings = {"default_constraints": args.get("defaultConstraints") or system}
    elif plugin == "InterPodAffinity":
        settings = {"hard_weight": args.get("hardPodAffinityWeight", 1),
                    "ignores_others": args.get("ignorePreferredTermsOfExistingPods", False)}
    elif plugin == "NodeResourcesBalancedAllocation":
        names = [resource.get("name", "") for resource in args.get("resources", [])]
        settings = {"resources": names} if names else {}
    elif plugin == "VolumeBinding":
        settings = {"timeout": args["bindTimeoutSeconds"]} if "bindTimeoutSeconds" in args else {}
    else:
        settings = {"arguments": [args]} if args else {}
    return {rule.name: settings for rule in plugins_of_today().get(plugin, [])}


def plugin_arguments(profile, place, notices, problems):
    """Return {plugin: its arguments}; add what is wrong with them."""
    rules = [*PREDICATES.values(), *PRIORITIES.values()]
    schemas = {rule.plugin: rule.argument for rule in rules if rule.argument} | PLUGIN_ARGUMENTS
    gone = {rule.plugin for rule in rules if rule.name in GONE} - plugins_of_today().keys()
    arguments = {}
    for i, config in enumerate(profile.get("pluginConfig", [])):
        where = f"{place}[{i}]"
        name = config.get("name", "")
        args = config.get("args", {})
        if not name:
            problems.append(f"{where}.name: is missing")
        if name and name in arguments:
            problems.append(f'{where}: there are arguments for "{name}" already')
        if name in gone:
            problems.append(f'{where}: unknown plugin "{name}"{hint_at_plugin(name, ())}')
        for part, expected in {"kind": f"{name}Args", "apiVersion": CONFIGURATION_VERSION}.items():
            said = args.pop(part, expected)
            if name in PLUGIN_ARGUMENTS and said != expected:
                problems.append(f"{where}.args.{part}: expected {expected}, got {in_short(said)}")
        if args and (name not in schemas or name in WITHOUT_EFFECT):
            hint = hint_at_plugin(name, schemas, "") if name not in EXTENDS else ""
            notices.append(f"{where}.args: nothing here depends on the arguments of {name}{hint}")
        arguments[name] = {}
        with noted(problems):
            arguments[name] = decode(args, schemas.get(name, dict), f"{where}.args")
            if name in PLUGIN_ARGUMENTS:
                refuse([f"{where}.args.{problem}" for problem in argument_problems(name, arguments[name])])
    return arguments


def hint_at_plugin(name, known, *otherwise):
    """Return a hint at what plugin is meant by a name that none has: see `did_you_mean`."""
    plugin_of = {rule.name: plugin for plugin, rules in plugins_of_today().items() for rule in rules}
    plugin_of["MostRequestedPriority"] = "NodeResourcesMostAllocated"  # else pods would be spread
    meant = name if name in NAMES_OF_OLD else plugin_of.get(name, name)
    return did_you_mean(meant, known, *otherwise)


def note_disabled(plugins, place, notices):
    """Note what is enabled without effect, or disabled though there is no such plugin."""
    known = {*plugins_of_today(), *EXTENDS}
    for point, chosen in plugins.items():
        for i, entry in enumerate(chosen.get("enabled", [])):
            if entry["name"] in WITHOUT_EFFECT:
                notices.append(f"{place}.{point}.enabled[{i}]: {entry['name']} does nothing here")
        for i, entry in enumerate(chosen.get("disabled", [])):
            name = entry.get("name", "")
            if name not in known and name != "*":
                hint, _, _ = hint_at_plugin(name, known, "").partition(" (in a Policy")
                notices.append(f'{place}.{point}.disabled[{i}]: there is no plugin "{name}"{hint}')


def running_plugins(plugins):
    """Return {point: {plugin: weight}} in running order. Upstream: expandMultiPointPlugins."""
    running = {}
    for point in POINTS:
        chosen = plugins.get(point, {})
        enabled = {entry.get("name", ""): entry.get("weight", 0) for entry in chosen.get("enabled", [])}
        disabled = {entry.get("name", "") for entry in chosen.get("disabled", [])}
        anyway = running.get("multiPoint", default_plugins())
        kept = {name: weight for name, weight in anyway.items() if disabled.isdisjoint([name, "*"])}
        # What runs anyway, and is enabled at the point itself, comes first.
        first = {name: weight for name, weight in enabled.items() if name in anyway and point != "multiPoint"}
        running[point] = first | kept | enabled
    return running


READERS["KubeSchedulerConfiguration"] = read_configuration


# ==== 41. What kube-scheduler refuses ===================================================================

# Each function yields what is wrong with a part of a configuration that is of the right types.
# Upstream: pkg/scheduler/apis/config/validation.


def profile_problems(profiles):
    """Yield what is wrong with profiles, except arguments. Upstream: validateKubeSchedulerProfile."""
    names = set()
    sorts = [queue_sort_of(profile) for profile in profiles]
    for i, profile in enumerate(profiles):
        place = f"profiles[{i}]"
        name = profile.get("schedulerName", "" if len(profiles) > 1 else "default-scheduler")
        if not name or name in names:
            yield f"{place}.schedulerName: each profile needs one of its own"
        names.add(name)
        plugins = profile.get("plugins", {})
        if sorts[i] != sorts[0]:
            yield f"{place}.plugins.queueSort: must be as in profiles[0], with its args"
        running = running_plugins(plugins)
        for point in ("queueSort", "bind"):
            left = [plugin for plugin in running[point] if point in points_of(plugin)]
            if not left or (len(left) > 1 and point == "queueSort"):
                yield f"{place}.plugins.{point}: expected one plugin, got {', '.join(left) or 'none'}"
    yield from plugin_problems(profiles)


def queue_sort_of(profile):
    """Return what a profile says of the order of the queue, which is one for all profiles."""
    chosen = profile.get("plugins", {}).get("queueSort", {})
    names = [entry.get("name") for entry in chosen.get("enabled", [])]
    return chosen, [config for config in profile.get("pluginConfig", []) if config.get("name") in names]


def plugin_problems(profiles):
    """Yield what is wrong with the plugins that profiles enable. Upstream: NewFramework in runtime.

    Plugins that nobody knows have a line together, as most often all are another project's.
    """
    known = {*plugins_of_today(), *EXTENDS}
    unknown = collections.defaultdict(dict)  # what may be meant -> {plugin: where it comes first}
    for i, profile in enumerate(profiles):
        for point, chosen in profile.get("plugins", {}).items():
            names = [entry.get("name", "") for entry in chosen.get("enabled", [])]
            for k, name in enumerate(names):
                where = f"profiles[{i}].plugins.{point}.enabled[{k}]"
                if not name:
                    yield f"{where}.name: is missing"
                elif name not in known:
                    fitting = [each for each in known if point in ("multiPoint", *points_of(each))]
                    unknown[hint_at_plugin(name, fitting)].setdefault(f'"{name}"', where)
                elif point not in ("multiPoint", *points_of(name)):
                    yield f'{where}: plugin "{name}" does not {point}, but {", ".join(points_of(name))}'
                elif name in names[:k]:
                    yield f'{where}: plugin "{name}" is enabled there already'
    for hint, places in unknown.items():
        where, *others = places.values()
        yield f"{where}: unknown plugin{'s' if others else ''} {', '.join(places)}{hint}"


def points_of(plugin):
    """Return the extension points at which a plugin can run."""
    if plugin in EXTENDS:
        return EXTENDS[plugin].split()
    rules = plugins_of_today().get(plugin, [])
    points = [EXTENSION_POINTS[hook].in_configuration for rule in rules for hook in rule.hooks]
    points += ["preFilter", "filter"] if any(rule.name in PREDICATES for rule in rules) else []
    points += ["preScore", "score"] if any(rule.name in PRIORITIES for rule in rules) else []
    return points


def argument_problems(plugin, args):
    """Yield what is wrong with arguments of the right types. Upstream: validation_pluginargs.go."""
    if plugin == "DefaultPreemption":
        percentage = args.get("minCandidateNodesPercentage", 10)
        if percentage == args.get("minCandidateNodesAbsolute", 100) == 0:
            yield "minCandidateNodesPercentage: cannot be 0 where minCandidateNodesAbsolute is"
    elif plugin == "DynamicResources":
        try:
            duration(args.get("filterTimeout", ""), "filterTimeout")
            if duration(args.get("bindingTimeout", "1s"), "bindingTimeout") < 1:
                yield "bindingTimeout: must be at least 1s"
        except InputError as error:
            yield str(error)
    elif plugin == "NodeAffinity":
        yield from added_affinity_problems(args.get("addedAffinity", {}))
    elif plugin == "NodeResourcesBalancedAllocation":
        names = [resource.get("name", "") for resource in args.get("resources", [])]
        yield from (f"resources: {name} comes twice" for name in repeated(names))
    elif plugin == "NodeResourcesFit":
        yield from fit_problems(args)
    elif plugin == "PodTopologySpread":
        yield from default_constraint_problems(args)
    elif plugin == "VolumeBinding" and "shape" in args:
        yield "shape: leave it out, as its feature gate StorageCapacityScoring is off by default"


def repeated(names):
    """Return what comes more than once."""
    return [name for name, count in collections.Counter(names).items() if count > 1]


def added_affinity_problems(added):
    """Yield what is wrong with terms of node affinity. Upstream: NewNodeSelector in component-helpers."""
    terms = added.get(f"required{WHEN}", {}).get("nodeSelectorTerms", [])
    for term in terms + [each.get("preference", {}) for each in added.get(f"preferred{WHEN}", [])]:
        try:
            node_selector_term(term)
        except InvalidSelector as error:
            yield f"addedAffinity: {error}"
        for key in [expression.get("key", "") for expression in term.get("matchExpressions", [])]:
            if not is_qualified(key):
                yield f"addedAffinity: {in_short(key)} cannot be the key of a label"


def fit_problems(args):
    """Yield what is wrong with the arguments of NodeResourcesFit. Upstream: ValidateNodeResourcesFitArgs."""
    groups = args.get("ignoredResourceGroups", [])
    for name in args.get("ignoredResources", []) + groups:
        if not is_qualified(name) or ("/" in name and name in groups):
            yield f"{in_short(name)} cannot be the name of an ignored resource, or of a group"
    strategy = args.get("scoringStrategy", {"type": "LeastAllocated"})
    shape = strategy.get("requestedToCapacityRatio", {}).get("shape", [])
    points = [point.get("utilization", 0) for point in shape]
    if not strategy.get("type"):
        yield f"scoringStrategy.type: is missing; expected one of {', '.join(STRATEGIES)}"
    elif strategy["type"] != "RequestedToCapacityRatio":
        if "requestedToCapacityRatio" in strategy:
            yield "scoringStrategy.requestedToCapacityRatio: needs the type RequestedToCapacityRatio"
    elif not points or points != sorted(set(points)):
        yield "scoringStrategy.requestedToCapacityRatio.shape: needs points whose utilization ascends"


def default_constraint_problems(args):
    """Yield what is wrong with default constraints. Upstream: ValidatePodTopologySpreadArgs."""
    constraints = args.get("defaultConstraints", [])
    if constraints and args.get("defaultingType") != "List":
        yield "defaultingType: must be List where there are defaultConstraints"
    needed = "maxSkew", "topologyKey", "whenUnsatisfiable"
    if not all(each.get(name) for each in constraints for name in needed):
        yield f"defaultConstraints: each needs {', '.join(needed)}"
    keys = [each.get("topologyKey", "") for each in constraints]
    yield from (f"defaultConstraints: {in_short(key)} cannot be the key of a label"
                for key in keys if key and not is_qualified(key))
    kinds = zip(keys, [each.get("whenUnsatisfiable") for each in constraints], strict=True)
    yield from (f"defaultConstraints: there are two of {key}, {what}" for key, what in repeated(kinds))


if __name__ == "__main__":
    try:
        sys.exit(command_line())
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:  # the reader of our output has ended, as head does, or the disk is full
        if not isinstance(error, BrokenPipeError):
            log.error("cannot write what is printed: %s", one_line(error))
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
