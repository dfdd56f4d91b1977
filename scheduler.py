#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["requests>=2.28", "pyyaml>=6.0"]
# ///
"""A Kubernetes scheduler to read, to run and to change.

It runs beside `kubectl proxy`: one loop lists the pods that name this scheduler and have no node yet,
applies the predicates and priorities of a legacy Policy file, and POSTs a Binding if a node fits. A
predicate says whether a pod fits a node, a priority how good the node is for it (today: Filter and Score
plugins). The answers are those of kube-scheduler 1.20, one of the last that read such files; "upstream"
means its code. Part I is a script of its own. Read it from the top: the loop comes first, then what it
calls. Cut it out, and it runs, with a policy.json beside it:

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
    sys.exit(f"{error.name} is missing: pip install requests pyyaml")

log = logging.getLogger("scheduler")
say_once = functools.lru_cache(maxsize=1000)(log.warning)  # does not repeat its last 1,000 lines


##########################################################################################################
# PART I. THE SCRIPT                                                                                     #
# How a pod gets its node. Sidecars, claims, affinity of pods, spreading, preemption are in later parts. #
##########################################################################################################

# ==== 1. The loop =======================================================================================

def run(cluster, read_policies, stop, interval, once):
    """Make passes until `stop` is set. With `once`, end when no pod is due, or a pass fails."""
    while not stop.is_set():
        try:
            schedule_pending_pods(cluster, read_policies(), stop)  # read in each pass: the file may be edited
            cluster.end_pass()
        except (ApiError, InputError, Malformed) as error:  # a request failed; Policy or list unusable
            cluster.end_pass(error)
        if cluster.due and not cluster.last_error:
            continue  # pods are left, as the pass ended early: LIST again, then go on
        if once:
            break
        cluster.rest(interval, stop)


def schedule_pending_pods(cluster, policies, stop):
    """Make a pass: decide about each pod that waits and is due. `policies` is {schedulerName: Policy}."""
    cluster.begin_pass(policies)  # LISTs the pods that wait, the nodes, and the pods on these
    while pod := cluster.next_pod(stop):  # of those that are due, the most important one first
        decision = schedule(pod, cluster.snapshot, policies[pod.scheduler])
        if decision.node:
            cluster.bind(decision)  # POSTs the Binding; if that is refused, puts the pod off
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
        decision.total = policy.prioritize(decision, feasible)
        decision.node = select_host(decision.total)
    except (Exception, SystemExit) as error:  # no node fits, or a rule has failed
        decision.give_up(error)
    return decision


@dataclass(eq=False)  # each equals itself only
class Policy:
    """The active rules, in the order in which they run, and how they are asked."""

    predicates: list
    priorities: list
    asked = None  # the rule that is being asked: if it breaks, it is named

    def new_decision(self, pod, snapshot):
        """Return an empty decision about the pod. (A later part has one that holds more.)"""
        return Decision(pod, snapshot.nodes, self)

    def nodes_that_fit(self, pod, snapshot):
        """Ask the predicates about each node: the first that has reasons against it rules the node out."""
        feasible = {}
        failed = Failures()
        for name, node in snapshot.nodes.items():
            for rule in self.predicates:
                self.asked = rule
                reasons = [str(reason) for reason in rule.function(pod, node)]
                if reasons:
                    failed[name] = {rule.name: reasons}
                    break
            else:  # no predicate is against it
                feasible[name] = node
        return feasible, failed

    def prioritize(self, decision, feasible):
        """Return each node's total: the sum, over all priorities, of weight times points."""
        total = dict.fromkeys(feasible, 0 if self.priorities else 1)  # with none, each gets 1
        to_ask = self.priorities if len(feasible) > 1 else []  # a single node is taken in any case
        for rule in to_ask:
            self.asked = rule
            scores = {name: rule.function(decision.pod, node) for name, node in feasible.items()}
            points = rule.reduce(scores) if rule.reduce else scores  # `reduce`: see chapter 3
            if not all(0 <= each <= 100 for each in points.values()):
                raise ValueError("points are to be from 0 to 100")
            for name in feasible:
                total[name] += rule.weight * points[name]
        return total


def select_host(total):
    """Take the node with the highest total; if several have it, one of them by chance."""
    best = max(total.values())
    return random.choice([name for name, score in total.items() if score == best])


def binding(pod, node_name):
    """Return the request (method, path, body) that binds the pod to the node."""
    return "POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", {
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name}}


# ==== 2. The cluster ====================================================================================

# pick(raw, list, "spec", "volumes") returns the list at that path, text_at a text: see chapter 9.


class Cluster:
    """The cluster as the loop sees it: lists it, knows which pods are due, and writes what is decided."""

    UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"  # a field selector: pods that have not ended

    def __init__(self, api, show):
        self.api = api
        self.show = show  # prints a decision
        self.snapshot = Snapshot({})
        self.due = []  # pods not yet tried in this pass; some are left if it ended early
        self.attempts = {}  # uid of a pod that waits -> Attempts
        self.last_error = None  # the error that cut the last pass short, if any

    def begin_pass(self, policies):
        """LIST what there is; find out which pods are due. Raises ApiError, Malformed."""
        selectors = [f"spec.schedulerName={name},spec.nodeName=,{self.UNFINISHED}" for name in policies]
        waiting = {pod.uid: pod for selector in selectors for pod in self.read(Pod, "pods", selector)
                   if not (pod.terminating or pod.spec.get("schedulingGates"))}
        self.snapshot = Snapshot({node.name: node for node in self.read(Node, "nodes")})
        for pod in self.read(Pod, "pods", f"spec.nodeName!=,{self.UNFINISHED}"):  # those on nodes
            if pod.node_name in self.snapshot.nodes:
                self.snapshot.nodes[pod.node_name].add(pod)
            waiting.pop(pod.uid, None)  # it was bound since it was listed as waiting
        moment = time.monotonic()
        self.attempts = {uid: self.attempts.get(uid, Attempts(retry_at=moment)) for uid in waiting}
        self.ends_at = moment + 5  # then the pass ends early: what is listed is too old to decide by
        self.due = [pod for pod in waiting.values() if self.attempts[pod.uid].retry_at <= moment]
        # Those that met trouble last; else the highest priority first, then who is due the longest.
        self.due.sort(key=lambda pod: (self.attempts[pod.uid].met_trouble, -pod.priority,
                                       self.attempts[pod.uid].retry_at, pod.created, pod.key))

    def next_pod(self, stop):
        """Return the next pod to decide about; None ends the pass."""
        is_over = stop.is_set() or time.monotonic() >= self.ends_at
        return self.due.pop(0) if self.due and not is_over else None

    def read(self, kind, resource, selector=""):
        """Yield what is listed, as Pods or Nodes; what cannot be read is named, and left out.

        A node that has such a pod is left out, too: nobody knows how much room is free there.
        """
        for raw in self.api.list(resource, selector):
            try:
                yield kind(raw)
            except Malformed as error:
                node = self.snapshot.nodes.pop(text_at(raw, "spec", "nodeName"), None)
                also = f", and its node {node.name}" if node else ""
                say_once(f"{resource} {text_at(raw, 'metadata', 'name')} is left out{also}: {error}")

    def bind(self, decision):
        """Assume the pod: until the next LIST, it takes up room on its node. Then POST the Binding."""
        self.snapshot.nodes[decision.node].add(decision.pod)
        self.attempts[decision.pod.uid].met_trouble = False  # what an earlier attempt met is forgotten
        try:
            self.api.request(*binding(decision.pod, decision.node))
        except ApiError as error:
            # After a 5xx the pod may be bound all the same: so no condition is written that says it is not.
            decision.condition_reason = "SchedulerError" if error.status < 500 else ""
            decision.give_up(Unschedulable(f"binding rejected: {error}"))
            self.put_off(decision)
            attempts = self.attempts[decision.pod.uid]
            attempts.met_trouble = error.status not in (404, 409)
            if error.status in (0, 429):  # the next Binding would fail, too: this ends the pass
                raise Trouble(error.status, f"{decision.pod.key}: {error}") from error
            if error.status in (404, 409):  # the pod has gone, or somebody else has bound it
                attempts.told = decision.message  # so that `report` is silent
                self.ends_at = 0  # the pass ends: LIST again, to see where the pod is

    def put_off(self, decision):
        """Have the pod back off: it waits 1, 2, 4, 8, then always 10 seconds before it is tried again."""
        before = self.attempts[decision.pod.uid]
        seconds = min(2 ** before.number, 10)
        self.attempts[decision.pod.uid] = Attempts(before.number + 1, time.monotonic() + seconds, before.told)

    def report(self, decision):
        """Write an event, and show the decision. What was last told of a pending pod is not told again."""
        pod = decision.pod
        if decision.node:
            message = f"Successfully assigned {pod.key} to {decision.node}"
            self.write(event(pod, "Normal", "Scheduled", message))
            self.show(decision)
        elif self.attempts[pod.uid].told != decision.message:
            written = self.write(event(pod, "Warning", "FailedScheduling", decision.message))
            if decision.condition_reason:
                written &= self.write(pod_condition(pod, decision.condition_reason, decision.message))
            self.attempts[pod.uid].told = decision.message if written else None
            self.attempts[pod.uid].met_trouble |= not written
            self.show(decision)

    def write(self, request):
        """Send an event or a condition, if possible. Return False if it is to be sent again."""
        try:
            self.api.request(*request)
        except ApiError as error:
            log.warning("%s", error)
            return not isinstance(error, Trouble)
        return True

    def end_pass(self, error=None):
        """Say what has cut a pass short, but not twice in a row; after Trouble, that a pass succeeds."""
        if error and str(error) != str(self.last_error):
            log.error("%s", error)
        if isinstance(self.last_error, Trouble) and not error:
            log.warning("the API server answers again")
        self.last_error = error

    def rest(self, seconds, stop):
        """Wait for so many seconds, or until `stop` is set."""
        stop.wait(min(max(0.01, seconds), threading.TIMEOUT_MAX))


@dataclass
class Attempts:
    """What is remembered of a pod that waits."""

    number: int = 0  # of attempts that have failed
    retry_at: float = 0  # in monotonic seconds; of a new pod, when it was first seen
    told: str | None = None  # the message that was last told
    met_trouble: bool = False  # its Binding (not with 404, 409), event or condition failed: others come first


class Proxy:
    """The API server behind kubectl proxy."""

    def __init__(self, server):
        self.server = server.rstrip("/")
        self.session = requests.Session()
        self.session.trust_env = False  # kubectl proxy is asked, not a proxy that the environment names

    def request(self, method, path, body=None, params=None):
        """Send a request and return the answer's JSON. Raises ApiError."""
        content_type = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        try:
            answer = self.session.request(method, self.server + path, params=params, json=body, timeout=30,
                                          headers={"Content-Type": content_type}, allow_redirects=False)
        except (requests.RequestException, ValueError) as error:  # ValueError: of a malformed URL
            problem = f"cannot reach {self.server}: {type(error).__name__}"  # such as ReadTimeout
            raise Trouble(0, f"{problem}; is `kubectl proxy` running there?") from error
        answer.encoding = "utf-8"
        content = None
        with contextlib.suppress(ValueError, RecursionError):  # it is no JSON, or nested too deep
            content = json.loads(answer.text)
        if not text_at(content, "kind"):  # an API server's JSON has one; kubectl proxy's errors are text
            raise Trouble(0, f"{self.server}: {answer.status_code} {answer.text.strip()!r:.200}")
        if answer.status_code >= 300:
            message = " ".join(text_at(content, "message").split()) or answer.status_code
            kind = Trouble if answer.status_code == 429 or answer.status_code >= 500 else ApiError
            raise kind(answer.status_code, f"{method} {path}: {message}")
        return content

    def list(self, resource, selector=""):
        """Return all objects of a resource, page by page. Raises ApiError, Malformed."""
        first = params = {"fieldSelector": selector, "limit": 500}
        things = []
        while params:
            answer = self.request("GET", f"/api/v1/{resource}", params=params)
            # Without `items`, a string stands there, so that `pick` raises: an empty list would overcommit.
            things += pick({"items": "missing"} | answer, list, "items", of=dict)
            token = pick(answer, str, "metadata", "continue")
            params = first | {"continue": token} if token else None
        return things


class ApiError(Exception):
    """A request that did not succeed. status: the HTTP status, or 0 where no API server answered."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Trouble(ApiError):
    """No API server answered, or it said 429 or 5xx: other requests may well fail, too."""


def event(pod, event_type, reason, message):
    """Return the request that records an event about the pod, as `kubectl describe pod` shows it."""
    name = f"{pod.name[:200].rstrip('-.')}.{time.time_ns():x}"
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return "POST", f"/api/v1/namespaces/{pod.namespace}/events", {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": pod.namespace},
        "involvedObject": about, "type": event_type, "reason": reason, "message": message[:1024],
        "count": 1, "firstTimestamp": now(), "lastTimestamp": now(),
        "source": {"component": pod.scheduler}, "reportingComponent": pod.scheduler}


def pod_condition(pod, reason, message):
    """Return the request that says in the pod's condition PodScheduled why it is not bound."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    before = pick(pod.raw, list, "status", "conditions", of=dict)
    if ("PodScheduled", "False") not in [(each.get("type"), each.get("status")) for each in before]:
        condition["lastTransitionTime"] = now()  # else the old time stays, as the patch does not name it
    return "PATCH", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status", {
        "metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def now():
    """Return the time as the API writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


# ==== 3. A rule =========================================================================================

# A predicate is a function of (pod, node) that yields the reasons why the pod does not fit, each a string. A
# priority is one that returns a score from 0 to 100. With a `reduce`, it may return any number: `reduce` is
# given the scores of all nodes that fit, {name: score}, and returns points from 0 to 100, {name: points}.


class InputError(ValueError):
    """A file, or a rule, cannot be used. The text, a line, says where, what is wrong, what would be right."""


@dataclass(eq=False)
class Rule:
    """A predicate or a priority: a function of a pod and a node, under the name that a Policy has for it."""

    name: str
    function: Callable
    reduce: Callable | None = None
    weight: int = 1  # of a priority: what the Policy multiplies its points by


PREDICATES, PRIORITIES = {}, {}  # name -> Rule, filled by the decorators, in kube-scheduler's order
CATALOGUES = {"predicates": PREDICATES, "priorities": PRIORITIES}
RULE_MAKERS = dict.fromkeys(CATALOGUES, Rule)  # what makes the rules of each; later parts put theirs here


def register(where, name=None, **options):
    """Return a decorator that makes a function the rule of this name. Options: `reduce`."""
    if not name or not isinstance(name, str):
        raise InputError('a rule needs the name that a Policy has for it, as in @predicate("Name")')
    def decorate(function):
        CATALOGUES[where][name] = RULE_MAKERS[where](name, function, **options)
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
    if pod.node_name and pod.node_name != node.name:
        yield "node(s) didn't match the requested hostname"


@predicate("PodFitsHostPorts")
def pod_fits_host_ports(pod, node):
    """No pod there uses a host port of this pod: same protocol, number and IP; 0.0.0.0 is any IP."""
    for port, wanted in pod.host_ports.items():
        for other in node.pods.values():
            taken = other.host_ports.get(port)
            if taken and (wanted & taken or "0.0.0.0" in wanted | taken):
                yield "node(s) didn't have free ports for the requested pod ports"
                return


@predicate("MatchNodeSelector")
def match_node_selector(pod, node):
    """The node has the labels of the pod's nodeSelector, and meets its required node affinity, if any."""
    if not wants_node(pod, node):
        yield "node(s) didn't match Pod's node affinity"


NO_REQUESTS = {"cpu": 0, "memory": 0, "ephemeral-storage": 0}  # each pod and node has these keys


@predicate("PodFitsResources")
def pod_fits_resources(pod, node):
    """There is room on the node for one more pod, and enough of each resource, if the pod requests any."""
    if len(node.pods) + 1 > node.max_pods:
        yield "Too many pods"
    if pod.requests == NO_REQUESTS:  # it fits even on a node that is overcommitted
        return
    for name, amount in pod.requests.items():
        if node.requested.get(name, 0) + amount > node.allocatable.get(name, 0):
            yield f"Insufficient {name}"


def kept_with_pod(function):
    """Make a function of a pod, and maybe of more, remember its answers, in the pod."""

    @functools.wraps(function)
    def kept(pod, *more):
        """Return the answer for this pod; work it out only once."""
        if (function, *more) not in pod.derived:
            pod.derived[(function, *more)] = function(pod, *more)
        return pod.derived[(function, *more)]

    return kept


DISK_IDENTITIES = {  # source of a volume -> the fields that identify the disk
    "gcePersistentDisk": ["pdName"], "awsElasticBlockStore": ["volumeID"], "iscsi": ["iqn"],
    "rbd": ["image", "pool"]}


@kept_with_pod
def disks_of(pod):
    """The pod's network disks, {identity: whether it may be shared}. Rbd: one identity for each monitor."""
    disks = {}
    for volume in pod.volumes:
        for source in [each for each in DISK_IDENTITIES if volume.get(each)]:
            disk = pick(volume, dict, source)
            shared = pick(disk, bool, "readOnly") and source != "awsElasticBlockStore"
            monitors = pick(disk, list, "monitors", of=str) if source == "rbd" else [""]
            for monitor in monitors:
                identity = source, monitor, *(pick(disk, str, name) for name in DISK_IDENTITIES[source])
                disks[identity] = shared and disks.get(identity, True)
    return disks


@predicate("NoDiskConflict")
def no_disk_conflict(pod, node):
    """No pod there has a network disk that this pod mounts, unless both only read it (EBS: not even then)."""
    for disk, is_shared in disks_of(pod).items():
        for other in node.pods.values():
            theirs = disks_of(other)
            if disk in theirs and not (is_shared and theirs[disk]):
                yield "node(s) had no available disk"
                return


@predicate("PodToleratesNodeTaints")
def pod_tolerates_node_taints(pod, node):
    """The pod tolerates the node's NoSchedule and NoExecute taints. If not, the first such taint is named."""
    for taint in hostile_taints(pod, node)[:1]:
        yield f"node(s) had taint {{{taint.key}: {taint.value}}}, that the pod didn't tolerate"


Taint = collections.namedtuple("Taint", "key value effect")


def hostile_taints(pod, node, effects=("NoSchedule", "NoExecute")):
    """Return the node's taints of these effects that the pod does not tolerate."""
    return [taint for taint in node.taints if taint.effect in effects and not tolerates(pod, taint)]


@kept_with_pod  # many nodes have the same taints
def tolerates(pod, taint):
    """Say whether one of the pod's tolerations covers the taint."""
    return any(covers(toleration, taint) for toleration in pod.tolerations)


def covers(toleration, taint):
    """Say whether a toleration covers a taint."""
    operator = toleration.get("operator") or "Equal"
    same_value = (toleration.get("value") or "") == taint.value
    covers_value = operator == "Exists" or (operator == "Equal" and same_value)
    covers_key = toleration.get("key") in (None, "", taint.key)
    return covers_value and covers_key and toleration.get("effect") in (None, "", taint.effect)


# ==== 5. Priorities =====================================================================================

# For scores, a container that requests no cpu, or no memory, counts as if it requested this much. Such sums
# are called `nonzero`, as upstream. For the pod that is being scheduled, see `nonzero_incoming` in chapter 7.
DEFAULT_REQUESTS = {"cpu": 100, "memory": 200 * 2**20}


def usage(incoming, node, resources=("cpu", "memory")):
    """Return {resource: (used, capacity)} of the node; `used` counts the incoming pod, too."""
    return {name: (node.nonzero.get(name, 0) + incoming.get(name, 0), node.allocatable.get(name, 0))
            for name in resources}


@priority("LeastRequestedPriority")
def least_requested(pod, node):
    """The percentages of cpu and memory that stay free, averaged: spreads the load."""
    pairs = usage(pod.nonzero_incoming, node).values()
    cpu, memory = [100 * (capacity - used) // capacity if capacity > used else 0 for used, capacity in pairs]
    return (cpu + memory) // 2


@priority("MostRequestedPriority")
def most_requested(pod, node):
    """The percentages of cpu and memory that are then requested, averaged: fills node after node."""
    pairs = usage(pod.nonzero_incoming, node).values()
    cpu, memory = [100 * used // capacity if capacity and used <= capacity else 0 for used, capacity in pairs]
    return (cpu + memory) // 2


@priority("BalancedResourceAllocation")
def balanced_resource_allocation(pod, node):
    """100 where the shares of cpu and memory in use are equal, else less; 0 where one is then full."""
    pairs = usage(pod.nonzero_incoming, node).values()
    cpu, memory = [used / capacity if capacity else 1.0 for used, capacity in pairs]
    return 0 if cpu >= 1 or memory >= 1 else int((1 - abs(cpu - memory)) * 100)


def normalize(scores, few_are_best=False):
    """Scale scores: 0 gets 0, the highest gets 100; few_are_best turns that round. (DefaultNormalizeScore)"""
    highest = max(scores.values())
    points = {name: 100 * score // highest if highest else 0 for name, score in scores.items()}
    return {name: 100 - score for name, score in points.items()} if few_are_best else points


@priority("NodeAffinityPriority", reduce=normalize)
def node_affinity(pod, node):
    """The summed weights of the preferred node affinity terms that the node meets."""
    return sum([weight for weight, term in preferred_terms(pod) if term_matches(term, node)])


@priority("TaintTolerationPriority", reduce=functools.partial(normalize, few_are_best=True))
def taint_toleration(pod, node):
    """The number of PreferNoSchedule taints that the pod does not tolerate; the fewer, the better."""
    return len(hostile_taints(pod, node, ["PreferNoSchedule"]))


@priority("RandomPriority")
def random_priority(pod, node):
    """A score by chance (not upstream). Alone, it gives all nodes that fit equal chances, as tutorials do."""
    return random.randint(0, 100)


# ==== 6. The decision ===================================================================================

class Unschedulable(Exception):
    """The attempt to place a pod ends here, for this reason."""


class Malformed(ValueError):
    """An API object that cannot be understood; the text says which field, and why."""


class InvalidSelector(Malformed):
    """A selector that kube-scheduler cannot parse; the text begins like kube-scheduler's message."""


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


@dataclass(eq=False)
class Decision:
    """What was decided about one pod, and what it was decided from."""

    pod: Pod
    nodes: dict  # name -> Node, of all nodes
    policy: Policy | None = None  # whose rules are asked
    node: str | None = None  # the name of the chosen node
    failed: Failures = field(default_factory=Failures)  # why the other nodes do not fit
    total: dict = field(default_factory=dict)  # node that fits -> the sum of its weighted points
    message: str | None = None  # why it has no node; if none fits, in kube-scheduler's words
    condition_reason: str = "Unschedulable"  # if it has no node; "": no condition is written

    def give_up(self, error):
        """Decide to leave the pod pending, with this error. A rule that breaks affects this pod only."""
        self.node = None
        self.message = str(error)
        if not isinstance(error, (Unschedulable, Malformed)):
            self.message = f"{type(error).__name__} in {self.policy.asked.name}: {error}"


# ==== 7. Pods and nodes =================================================================================

# Rules only look: if one writes into a `read_only` field, or appends to a tuple, that line raises.

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
        self.node_selector = read_only(pick(spec, dict, "nodeSelector", of=str))
        self.node_affinity = pick(spec, dict, "affinity", "nodeAffinity")
        self.tolerations = tuple(pick(spec, list, "tolerations", of=dict))
        self.volumes = tuple(pick(spec, list, "volumes", of=dict))
        self.containers = tuple(pick(spec, list, "containers", of=dict))
        self.host_ports = read_only(host_ports_of(self.containers))
        self.requests = read_only(NO_REQUESTS | amounts_of_pod(spec, {}))
        # As scores count it: a container that requests no cpu, or no memory, has that of DEFAULT_REQUESTS.
        self.nonzero = read_only(amounts_of_pod(spec, DEFAULT_REQUESTS))
        # A bug of upstream, kept: while the pod waits, a core of its overhead counts as a millicore.
        overhead = amounts(spec, "overhead").get("cpu", 0)
        cpu = self.nonzero.get("cpu", 0) - overhead + math.ceil(overhead / 1000)
        self.nonzero_incoming = read_only(self.nonzero | {"cpu": cpu})  # by calculatePodResourceRequest
        pick(raw, list, "status", "conditions", of=dict)  # if they are malformed, this says it
        self.derived = {}  # what rules have worked out of it: see kept_with_pod
        for read in READ_OF_PODS:
            read(self)


def host_ports_of(containers):
    """Return the host ports of containers, {(protocol, number): IPs}."""
    ports = collections.defaultdict(set)
    for container in containers:
        for port in pick(container, list, "ports", of=dict):
            if (number := pick(port, int, "hostPort")) > 0:
                key = pick(port, str, "protocol") or "TCP", number
                ports[key].add(pick(port, str, "hostIP") or "0.0.0.0")
    return dict(ports)


def amounts_of_pod(spec, default):
    """Return what a pod requests: max(its containers together, each init container alone) + overhead."""
    total = {}  # upstream: computePodResourceRequest; `default` is for what a container does not request
    for container in pick(spec, list, "containers", of=dict):
        add_to(total, default | amounts(container, "resources", "requests"))
    for container in pick(spec, list, "initContainers", of=dict):
        raise_to(total, default | amounts(container, "resources", "requests"))
    add_to(total, amounts(spec, "overhead"))
    return total


class Node:
    """A node and the pods on it (kube-scheduler's NodeInfo). Raises Malformed."""

    def __init__(self, raw):
        self.name = pick(raw, str, "metadata", "name")
        self.labels = read_only(pick(raw, dict, "metadata", "labels", of=str))
        self.unschedulable = pick(raw, bool, "spec", "unschedulable")
        self.taints = tuple(Taint(*(pick(taint, str, part) for part in Taint._fields))
                            for taint in pick(raw, list, "spec", "taints", of=dict))
        source = "allocatable" if pick(raw, dict, "status", "allocatable") else "capacity"
        self.allocatable = read_only(NO_REQUESTS | amounts(raw, "status", source))
        self.max_pods = quantity(str(pick(raw, dict, "status", source).get("pods") or 0))
        self._pods = {}
        self._requested = dict(NO_REQUESTS)
        self._nonzero = dict.fromkeys(DEFAULT_REQUESTS, 0)
        self.pods = read_only(self._pods)  # uid -> Pod, of those on it
        self.requested = read_only(self._requested)  # by all of these
        self.nonzero = read_only(self._nonzero)  # the same, as scores count it
        for read in READ_OF_NODES:
            read(self, raw)

    def add(self, pod):
        """Put a pod on the node."""
        self._pods[pod.uid] = pod
        add_to(self._requested, pod.requests)
        add_to(self._nonzero, pod.nonzero)


# The nodes as they were listed, {name: Node}, with the pods that were on them then, and those assumed since.
Snapshot = collections.namedtuple("Snapshot", "nodes")


# ==== 8. Node affinity ==================================================================================

def wants_node(pod, node):
    """Say whether a node meets the pod's nodeSelector and required node affinity."""
    terms = required_terms(pod)
    return all([node.labels.get(key) == value for key, value in pod.node_selector.items()]) and (
        terms is None or any(term_matches(term, node) for term in terms))


@kept_with_pod
def required_terms(pod):
    """The terms of the pod's required node affinity, of which one must match; None without such affinity."""
    required = pod.node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else valid_terms(pick(required, list, "nodeSelectorTerms", of=dict))


@kept_with_pod
def preferred_terms(pod):
    """The (weight, term) pairs of the pod's preferred node affinity. Raises Unschedulable."""
    pairs = []
    problems = {}
    for each in pick(pod.node_affinity, list, "preferredDuringSchedulingIgnoredDuringExecution", of=dict):
        weight = pick(each, int, "weight")
        try:
            if weight:
                pairs.append((weight, node_selector_term(pick(each, dict, "preference"))))
        except InvalidSelector as error:
            problems[str(error)] = None  # a dict: as in upstream's list, each is named once
    if problems:
        problem = f"[{', '.join(problems)}]" if len(problems) > 1 else ", ".join(problems)
        raise Unschedulable(f'running Score plugins: plugin "NodeAffinity" failed with: {problem}')
    return pairs


def valid_terms(raws):
    """Read the terms of a node selector, without those that are invalid: these match nothing."""
    terms = []
    for raw in raws:
        with contextlib.suppress(InvalidSelector):
            terms.append(node_selector_term(raw))
    return terms


def node_selector_term(raw):
    """Read a term as requirements of labels, and of fields. Raises InvalidSelector."""
    on_labels = [read_requirement(each) for each in pick(raw, list, "matchExpressions", of=dict)]
    on_fields = []
    for expression in pick(raw, list, "matchFields", of=dict):
        key = pick(expression, str, "key")
        operator = pick(expression, str, "operator")
        values = pick(expression, list, "values", of=str)
        if operator not in ("In", "NotIn"):
            raise InvalidSelector(f'"{operator}" is not a valid node field selector operator')
        if len(values) != 1:
            count = f"unexpected number of value ({len(values)})"
            raise InvalidSelector(f'{count} for node field selector operator "{operator}"')
        on_fields.append(Requirement(key, operator, values))
    return on_labels, on_fields


def term_matches(term, node):
    """Say whether a node meets the whole term. An empty term matches none. Fields: metadata.name only."""
    on_labels, on_fields = term
    return any(term) and satisfies(node.labels, on_labels) and satisfies(
        {"metadata.name": node.name}, on_fields)


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
    """Say whether labels meet all the requirements."""
    for key, operator, values in requirements:  # all() takes twice as long
        if not OPERATORS[operator](labels.get(key), values):
            return False
    return True


def read_requirement(expression):
    """Read an entry of matchExpressions as NewRequirement, its key unchecked. Raises InvalidSelector."""
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
            raise InvalidSelector(f'invalid label value: "{repr(value)[1:-1]}": at key: "{key}"')
    return Requirement(key, operator, values)


def int64(text):
    """Read a base-10 integer of 64 bits; else return None. (A label's value has at most 63 characters.)"""
    is_number = re.fullmatch("[+-]?[0-9]{1,63}", text or "")
    return int(text) if is_number and -(2**63) <= int(text) < 2**63 else None


# ==== 9. Fields and quantities ==========================================================================

TYPE_NAME = {dict: "an object", list: "a list", str: "a string", int: "a whole number", bool: "true or false"}


def pick(thing, wanted, *path, of=None):
    """Follow a path into an API object. Missing or null gives wanted(), such as {}. `of`: type of members."""
    for key in path:
        if type(thing) is not dict:
            raise wrong_type(".".join(path[:path.index(key)]) or "it", dict, thing)
        thing = thing.get(key)
        if thing is None:
            return wanted()
    if type(thing) is not wanted:
        raise wrong_type(".".join(path), wanted, thing)
    if of:
        for key, member in thing.items() if wanted is dict else enumerate(thing):
            if type(member) is not of:
                raise wrong_type(f"{'.'.join(path)}[{key}]", of, member)
    return thing


def wrong_type(where, wanted, thing):
    """Return the error that names the field, and the type that is expected there."""
    return Malformed(f"{where}: expected {TYPE_NAME[wanted]}, got {json.dumps(thing, default=str)[:40]}")


def text_at(thing, *path):
    """Return the string at a path into an object that may be malformed; "" if there is none."""
    for key in path:
        thing = thing.get(key) if isinstance(thing, dict) else None
    return thing if isinstance(thing, str) else ""


QUANTITY = re.compile(  # a number, and its exponent or suffix, if any
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE]([+-]?[0-9]{1,9})|([numkMGTPE]|[KMGTPE]i)?)")
# {"n": 1000 ** -3, "u": 1000 ** -2, "m": 1000 ** -1, None: 1, "k": 1000, ...}
SUFFIXES = {s: decimal.Decimal(1000) ** i for i, s in enumerate(["n", "u", "m", None, *"kMGTPE"], -3)}
SUFFIXES |= {f"{s}i": decimal.Decimal(1024) ** i for i, s in enumerate("KMGTPE", 1)}
# Keeps 100 digits, and rounds up the rest, to be fast; what is too large becomes Infinity (no trap).
DIGITS = decimal.Context(prec=100, rounding=decimal.ROUND_UP, Emin=-999, Emax=999, traps=[])


@functools.lru_cache(maxsize=65536)
def quantity(text, unit=1):
    """Read a quantity, times unit, rounded up. Raises Malformed. Upstream: ParseQuantity (apimachinery).

    quantity("1.5Ki") is 1536, quantity("100m", 1000) is 100. What is too large for 64 bits is 2**63 - 1.
    """
    match = QUANTITY.fullmatch(text)
    if not match:
        raise Malformed(f'"{text:.60}" is not a quantity, such as 100m, 0.5 or 1.5Gi')
    number, exponent, suffix = match.groups()
    value = DIGITS.create_decimal(f"{number}e{exponent or 0}")
    if value < 0:  # no API server takes it
        raise Malformed(f'"{text:.60}" is a negative quantity: it must be greater than or equal to 0')
    in_units = DIGITS.multiply(value, SUFFIXES[suffix] * unit)
    return math.ceil(min(in_units, 2**63 - 1))


def amounts(thing, *path):
    """Read a resource list: cpu in millicores, all else in units. Only the names below count."""
    counted = {}  # upstream: Resource.Add in pkg/scheduler/framework/types.go
    for name, text in pick(thing, dict, *path).items():
        if name in NO_REQUESTS or "/" in name or name.startswith(("hugepages-", "attachable-volumes-")):
            counted[name] = quantity(str(text), 1000 if name == "cpu" else 1)
    return counted


def add_to(total, more):
    """Add resource amounts to others, in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def raise_to(total, others):
    """Raise each resource amount, in place, to that of others, if theirs is higher."""
    for name, amount in others.items():
        if amount > total.get(name, 0):
            total[name] = amount


# ==== 10. The Policy file, and a command line ===========================================================

# E.g. {"predicates": [{"name": "HostName"}], "priorities": [{"name": "RandomPriority", "weight": 1}]}
def policies_in_file(path, scheduler_name):
    """Return {schedulerName: Policy} of a Policy file with these two lists only. Raises InputError."""
    always = ["CheckNodeUnschedulable", "PodToleratesNodeTaints"]  # even where the Policy does not name them
    rules = {"predicates": {name: PREDICATES[name] for name in always}, "priorities": {}}
    try:
        with open(path, encoding="utf-8") as file:
            document = yaml.safe_load(file.read().replace("\t", " "))  # JSON may be indented with tabs
        for where, catalogue in CATALOGUES.items():
            for entry in pick(document, list, where, of=dict):
                name = pick(entry, str, "name")
                if name not in catalogue:
                    raise InputError(f'{where}: no "{name}" in this script; it has {", ".join(catalogue)}')
                if entry.keys() - {"name", "weight"}:
                    raise InputError(f"{where}: {name}: this script reads a name and a weight, and no more")
                rules[where][name] = replace(catalogue[name], weight=pick(entry, int, "weight"))
                if where == "priorities" and rules[where][name].weight <= 0:
                    raise InputError(f"priorities: {name}: expected a weight above 0, such as 1")
        given = [key for key, value in document.items() if value is not None]
        if set(given) - {"kind", "apiVersion"} != set(CATALOGUES):
            raise InputError(f"expected the lists predicates and priorities, and no more, got {given}")
    except Exception as error:  # a YAML tag may raise any exception
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error
    in_order = [rules["predicates"][name] for name in PREDICATES if name in rules["predicates"]]
    return {scheduler_name: Policy(in_order, list(rules["priorities"].values()))}


def print_decision(decision):
    """Print a decision as a line."""
    fit = f"({len(decision.total)} of {len(decision.nodes)} nodes fit)"
    where = f"-> {decision.node}  {fit}" if decision.node else f"stays pending: {decision.message}"
    with contextlib.suppress(OSError, ValueError):  # stdout is closed, or cannot encode it
        print(f"{decision.pod.key} {where}", flush=True)


def run_script(argv=None):
    """Run this part, until Ctrl-C. Return the exit code: 1 if --once fails or is ended; 2 is wrong usage."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="http://127.0.0.1:8001", help="kubectl proxy's URL (%(default)s)")
    parser.add_argument("--policy", default="policy.json", help="a Policy file (%(default)s)")
    parser.add_argument("--scheduler-name", default="my-scheduler", help="schedule its pods (%(default)s)")
    parser.add_argument("--interval", type=float, default=1, help="seconds between passes (%(default)s)")
    parser.add_argument("--once", action="store_true", help="end when no pod is due, or a pass fails")
    options = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s")
    read_policies = functools.partial(policies_in_file, options.policy, options.scheduler_name)
    try:
        read_policies()
    except InputError as error:
        parser.exit(2, f"{error}\n")
    stop = threading.Event()

    def end_the_loop(*_):
        """End the loop after the pod that it is at. A second Ctrl-C ends the script at once."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        threading.Thread(target=stop.set).start()  # the code that is interrupted may hold the lock of `stop`

    signal.signal(signal.SIGINT, end_the_loop)
    cluster = Cluster(Proxy(options.server), print_decision)
    run(cluster, read_policies, stop, options.interval, options.once)
    has_failed = any(each.met_trouble for each in cluster.attempts.values())
    return 1 if options.once and (cluster.last_error or has_failed or stop.is_set()) else 0


COMMAND_LINES = [run_script]  # the last one is run: a later part has one that can do more


def main(argv=None):
    """Run the command line; return the exit code."""
    return COMMAND_LINES[-1](argv)


##########################################################################################################
# PART II. WHAT ELSE RULES LOOK AT                                                                       #
# How the parts go together; sidecars and resizing; labels, claims, images; what is remembered.          #
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
# A banner says what is in a part, and `grep '^# ====' scheduler.py` lists all chapters.
#
# What a part imports stands at its head, so that the script begins with what it needs itself.

import hashlib
import itertools
import marshal


# ==== 11. Sidecars and resizing =========================================================================

def key_in(thing):
    """Return an object's namespace/name, or name, even if it is malformed."""
    parts = [text_at(thing, "metadata", "namespace"), text_at(thing, "metadata", "name")]
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


# ==== 12. Selectors of labels ===========================================================================

NOTHING = (Requirement("", "In", ()),)  # what no labels meet


def label_selector(selector):
    """Read a LabelSelector as requirements: {} has none, null is NOTHING. Raises InvalidSelector."""
    if selector is None:
        return NOTHING
    labels = [{"key": key, "operator": "In", "values": [value]}
              for key, value in pick(selector, dict, "matchLabels", of=str).items()]
    return [read_requirement(entry) for entry in labels + pick(selector, list, "matchExpressions", of=dict)]


def pod_selector(thing, pod):
    """Read a labelSelector, with matchLabelKeys and mismatchLabelKeys: the pod's own values, or not."""
    requirements = [*label_selector(thing.get("labelSelector"))]
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
    pod.controller = next((owner for owner in owners if owner.get("controller")), {})  # the reference to it
    pod.phase = pick(raw, str, "status", "phase")
    pod.gates = tuple(pick(gate, str, "name") for gate in pick(spec, list, "schedulingGates", of=dict))
    pod.nominated_node = pick(raw, str, "status", "nominatedNodeName")  # where room is being made for it
    pod.labels = read_only(pick(raw, dict, "metadata", "labels", of=str))
    pod.annotations = read_only(pick(raw, dict, "metadata", "annotations", of=str))
    affinity = pick(spec, dict, "affinity")
    pod.is_affine = any(pick(affinity, dict, side) for side in ("podAffinity", "podAntiAffinity"))
    pod.init_containers = tuple(pick(spec, list, "initContainers", of=dict))
    for container in [*pod.containers, *pod.init_containers]:
        pick(container, str, "name")
    read_claims(pod)
    pod.uncounted_cpu = pod.nonzero.get("cpu", 0) - pod.nonzero_incoming["cpu"]
    sidecars = [container for container in pod.init_containers if is_sidecar(container)]
    if sidecars:
        pod.host_ports = read_only(host_ports_of([*pod.containers, *sidecars]))
    statuses = pick(raw, list, "status", "containerStatuses", of=dict)
    if sidecars or statuses or spec.get("resources"):  # one that runs may be resized
        read_requests_of_today(pod)
    pod.signatures = {}  # names of attributes -> see `signature`
    pod.record = None  # of a pending pod: its PodRecord
    pod.counts_on = ""  # the node on which the cache counts it: where it is, or is assumed to be


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


READ_OF_PODS.append(read_more_of_pod)


def read_more_of_node(node, raw):
    """Read what the rules of later parts look at."""
    node.raw = raw
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


def with_pods(node, pods):
    """Return a node like this one with other pods on it."""
    other = Node(node.raw)
    for pod in pods:
        other.add(pod)
    return other


def scheduling_properties(node):
    """Return what decides which pods fit; not heartbeats. Upstream: nodeSchedulingPropertiesChange."""
    names = ("labels", "annotations", "unschedulable", "taints", "allocatable", "max_pods", "images",
             "conditions")
    return {name: getattr(node, name) for name in names}


def count_pods(node, is_meant):
    """Return how many pods on a node are meant; of those that are alike to selectors, one is asked."""
    if count_pods not in node.derived:
        alike = node.derived[count_pods] = collections.defaultdict(list)
        for pod in node.pods.values():
            alike[signature(pod, ("namespace", "labels", "terminating"))].append(pod)
    return sum([len(pods) for pods in node.derived[count_pods].values() if is_meant(pods[0])])


@dataclass(eq=False)
class FullSnapshot:
    """The cluster as all rules see it. It is as the cache is: up to date."""

    nodes: dict  # name -> Node, of those that can take pods
    objects: dict  # resource -> {namespace/name or name: the API's JSON}
    is_live: bool = False  # whether controllers act on what we write: no dry run, and no manifests
    memory: Memory = field(default_factory=lambda: Memory())  # what was found out of the nodes
    policies: dict = field(default_factory=dict)  # schedulerName -> Policy
    nominated: list = field(default_factory=list)  # pending pods, of any scheduler, with a nominated node

    def put(self, pod, node):
        """Put a pod on a node."""
        node.add(pod)
        self.note_change(node)

    def take_off(self, pod, node):
        """Take a pod off a node again, if it is there."""
        pod = node._pods.pop(pod.uid, None)
        if pod:
            add_to(node._requested, {name: -amount for name, amount in pod.requests.items()})
            add_to(node._nonzero, {name: -amount for name, amount in pod.nonzero.items()})
            self.note_change(node)

    def note_change(self, node):
        """Have what was known of the node found out anew."""
        node.derived.clear()
        self.memory.note(node.name)


def digest(text):
    """Return 16 bytes that stand for a text of any length."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


@kept_with_pod
def is_large(pod):
    """Whether the pod says more than some thirty others do together."""
    return len(repr(pod.spec)) > 30_000


def signature(pod, names):
    """Return bytes that pods share in which these attributes are equal; None if no other pod is like it."""
    if names in pod.signatures:
        return pod.signatures[names]
    values = [dict(value) if type(value := getattr(pod, name, ...)) is read_only else value for name in names]
    try:
        data = marshal.dumps(values, 2)  # in this version, equal values give equal bytes
        if b"kube-api-access-" in data:
            data = without_token(pod, data)
        if len(data) >= 200:
            data = hashlib.blake2b(data, digest_size=16).digest()
    except ValueError:  # some value is not of JSON's types
        data = None
    pod.signatures[names] = data
    return data


def without_token(pod, data):
    """Return bytes without the random name of the volume with the pod's token."""
    for volume in pod.volumes:
        name = text_at(volume, "name")
        if "projected" in volume and re.fullmatch("kube-api-access-[a-z0-9]{5}", name):
            named = marshal.dumps("name", 2) + marshal.dumps(name, 2)  # in the mounts of it, too
            data = data.replace(named, named[:-5] + b"*****")
    return data


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


# ==== 14. What is remembered ============================================================================

# It only saves time. What a function says of a node is remembered until the node changes, or a pod on it:
# with each change the node gets a new version. What answers rest on beside the node and the pod, such as a
# rule's metadata, is their `basis`: on another one, all are asked for anew.
#
# Nobody has to say what of a pod a rule looks at. A rule is given a view of the pod (`Seen`), which notes the
# attributes that are looked at; all that a rule has ever looked at are its `reads`. Its answers are kept for
# pods in which these are equal: what it has looked at first is the same then, so it has gone on in the same
# way, and so forth. So pods of many kinds share what the taints, the selectors, the ports say of a node.
# An answer that was found without a look at the node is the same for all nodes.
#
# That holds for a rule that says the same whenever it looks at the same. One that goes by chance, by the
# clock, or by what it has kept itself, is not `steady`: it gets the pod itself, and is asked each time.


class Seen:
    """A view of a pod or of a node: a copy that gets each attribute when it is looked at, and notes that.

    What a rule writes into it is seen by nobody else. If it takes the thing as a whole (as a key, in a
    comparison, to copy it), that is noted as `__dict__`, in which no two are equal. `known`: attributes that
    it has from the start, as it is known already that they are looked at.
    """

    def __init__(self, thing, known=()):
        self._thing = thing
        self._names = {}  # {attribute: None}, of the others that were looked at, be they there or not
        self.derived = {}  # its own, so that kept_with_pod looks at the pod, even if the answer was known
        values = vars(thing)
        for name in known:
            if name in values:
                setattr(self, name, values[name])

    def __getattr__(self, name):  # is called where the copy has no such attribute yet
        self._names[name] = None
        value = getattr(self._thing, name)
        setattr(self, name, value)
        return value

    def itself(self):
        """Return the thing as a whole."""
        self._names["__dict__"] = None
        return self._thing

    __class__ = property(lambda self: type(self._thing))  # so that isinstance(pod, Pod) holds
    __dict__ = property(lambda self: vars(self.itself()))

    def __hash__(self):
        """As the thing itself."""
        return hash(self.itself())

    def __eq__(self, other):
        """As the thing itself."""
        return self.itself() == other

    def __reduce_ex__(self, protocol):
        """Have `copy` copy the thing itself."""
        return self.itself().__reduce_ex__(protocol)


@dataclass
class Finding:
    """What was found out about nodes. It is never changed: another one takes its place."""

    basis: object  # what it rests on, beside the nodes
    version: int  # of the memory, by then
    nodes: dict = None  # name -> Node, of those that the result is about
    answers: dict = field(default_factory=dict)  # of these nodes, in their order; then of others
    result: object = None  # what `then` has made of the answers about these nodes


@dataclass(eq=False)
class Memory:
    """What was found out about nodes, and the version of each that has changed."""

    MOST = 2_000_000  # answers about nodes, of some 50 bytes each: 100 MiB
    version: int = 0  # grows with each change of a node, and is then this node's version
    versions: dict = field(default_factory=dict)  # name of a node -> its version; the newest is last
    findings: dict = field(default_factory=dict)  # (subject, what pods share) -> Finding
    changes: dict = field(default_factory=dict)  # version -> the nodes that have changed since, if asked for

    def note(self, name):
        """Note that a node has changed."""
        self.version += 1
        self.versions.pop(name, None)
        self.versions[name] = self.version
        self.changes = {}

    def changed_since(self, version):
        """Return the names of the nodes that have changed since a version."""
        if len(self.changes) > 10:  # a pod's rules were last asked at few versions, and sets may be large
            self.changes = {}
        if version not in self.changes:
            changed = itertools.takewhile(lambda name: self.versions[name] > version, reversed(self.versions))
            self.changes[version] = frozenset(changed)
        return self.changes[version]

    def copy(self):
        """Return another memory that knows the same."""
        return replace(self, versions=dict(self.versions), findings=dict(self.findings))

    def knows(self, subject, like):
        """Say whether something was found out on the subject, for pods that share `like`."""
        return (subject, like) in self.findings

    def rename(self, subject, before, now):
        """Have what was found out for pods that share `before` be that for those that share `now`."""
        found = self.findings.pop((subject, before), None)
        if found and now is not None:
            self.findings[subject, now] = found

    def keep(self, key, finding, size):
        """Keep a finding. If so many, about so many nodes, are too much, forget any others.

        Any: if more kinds of pods take turns than there is room for, the oldest is asked for next.
        """
        self.findings[key] = finding
        while len(self.findings) * (size + 500) > self.MOST:  # 500 for what is not of a node
            del self.findings[random.choice([*self.findings])]


def likeness(pod, rule, metadata):
    """Return what a pod shares with those that are alike to a rule, as far as its metadata are equal.

    None: nothing is to be remembered, as the rule is not steady, the pod says too much, or is like no other.
    """
    if not rule.steady or is_large(pod):
        return None
    names = rule.reads
    if rule.metadata and metadata:  # to save time: these are likely to be equal for pods of one family
        names += ("controller",) if pod.controller else ("labels",)
    return signature(pod, names)


def likeness_to_all(prepared):
    """Return what a pod shares with those that are alike to each of these Prepared rules, or None."""
    likes = [rule.like for rule in prepared]
    return None if None in likes else tuple(likes)


def recall(subject, like, snapshot, nodes, function, basis=None, then=lambda nodes, answers: answers,
           change=None):
    """Return then(nodes, {name: function(node)}) of these nodes, {name: Node}.

    What is known on the subject, for pods that share `like`, and on this basis, is not asked for again.
    change: a function of (result, answers before, answers now) that returns the result if some are others.
    """
    memory = snapshot.memory
    last = memory.findings.get((subject, like))
    if last is None or last.basis != basis:
        last = Finding(basis, memory.version)  # nothing is known
    are_same_nodes = nodes is last.nodes or nodes == last.nodes  # `is` takes no time
    changed = memory.changed_since(last.version)
    answers, news = answers_by_now(last, nodes, function, changed, are_same_nodes)
    result = last.result
    if news and are_same_nodes and change:
        result = change(result, {name: last.answers[name] for name in news}, news)
    elif news or not are_same_nodes:  # else it is what it was
        about_these = answers
        if len(answers) > len(nodes):
            about_these = {name: answers[name] for name in nodes}
        result = then(nodes, about_these)
    if like is not None:
        finding = Finding(basis, memory.version, nodes, answers, result)
        memory.keep((subject, like), finding, len(snapshot.nodes))
    return result


def answers_by_now(last, nodes, function, changed, are_same_nodes):
    """Return the answers of a Finding, brought up to date for these nodes; and which of them are others.

    Asked are the nodes that have changed, and those that were not asked before. What was said of others that
    have changed is forgotten.
    """
    answers = last.answers
    to_ask = changed & nodes.keys()
    if not are_same_nodes:
        to_ask |= nodes.keys() - answers.keys()
    news = {}
    for name in sorted(to_ask):
        answer = function(nodes[name])
        if name not in answers or answers[name] != answer:
            news[name] = answer
    outdated = changed - to_ask
    if news or outdated:
        answers = answers | news
        for name in outdated:
            answers.pop(name, None)
    if not are_same_nodes:
        answers = {name: answers[name] for name in nodes} | answers  # in the order of the nodes
    return answers, news


##########################################################################################################
# PART III. RULES THAT LOOK FURTHER                                                                      #
# At labels, images, other pods, services, volumes; and at what comes after the decision.                #
##########################################################################################################

import inspect
import os
import traceback
import types
import weakref
from concurrent.futures import Future, wait
from numbers import Real
from pathlib import Path


# ==== 15. How more is said of a rule ====================================================================

@dataclass(eq=False)
class FullRule(Rule):
    """A rule, and all that decorators and the Policy say of it."""

    # What its decorator says:
    where: str = "predicates"  # which list of a Policy names it; else "priorities"
    metadata: Callable | None = None  # works out, once per pod, what the function takes as `metadata`
    argument: dict | None = None  # the fields of an entry's `argument`, {field: type}; None: it takes none
    default: dict = field(default_factory=dict)  # the values of fields that an entry may leave out
    member: str | None = None  # an entry whose argument has this field means this rule, whatever its name
    check: Callable | None = None  # yields what is wrong with the arguments
    hooks: dict = field(default_factory=dict)  # its functions for the other extension points
    steady: bool = False  # it says the same whenever it looks at the same, and `metadata` are equal
    # What a pod may ask for -> function(pod, its node or None), whether it does: to warn that nobody looks.
    looks_at: dict = field(default_factory=dict)
    aliases: list = field(default_factory=list)  # other names of it in a Policy; several rules may have one
    always: bool = False  # it is active whatever a Policy names
    by_default: int = 0  # 1, or a priority's weight: it is active where a Policy leaves the list out
    plugin: str = ""  # the plugin that it is part of today; "": one of its own name

    # What the Policy says:
    title: str = ""  # what it calls the rule, by any of its names
    settings: dict = field(default_factory=dict)  # what functions take by these names; else their defaults

    # What was seen of it: the attributes of pods that the function has looked at so far, if it is steady; and
    # the likeness of pods for which a predicate has nothing against any node, as it looks at none.
    reads: tuple = field(default=(), init=False)
    idle: set = field(default_factory=set, init=False)


RULE_OF = {}  # the code of a rule's function -> the rule's name; if several rules share it, the last one's


def full_rule(where, name, function, **options):
    """Return the rule that a decorator registers, with all that it says."""
    for each in (function, *options.values()):
        if hasattr(each, "__code__"):
            RULE_OF[each.__code__] = name
    given = {option: value for option, value in options.items() if value is not None}
    hooks = {option: given.pop(option) for option in given.keys() - FullRule.__dataclass_fields__.keys()}
    return FullRule(name, function, where=where, hooks=hooks, **({"plugin": name} | given))


RULE_MAKERS.update({where: functools.partial(full_rule, where) for where in CATALOGUES})
WHEN = "DuringSchedulingIgnoredDuringExecution"  # the end of two names of fields: required..., preferred...


def requires(side, pod, node):
    """Say whether the pod has required affinity of a kind, such as podAntiAffinity."""
    return pick(pod.spec, dict, "affinity", side).get(f"required{WHEN}")


GENERAL = {"by_default": 1, "aliases": ["GeneralPredicates"]}


def pod_fits_other_resources(pod, node, excepted=()):
    """PodFitsResources, but for the resources that extenders see to."""
    reasons = pod_fits_resources(pod, node)
    if not excepted:
        return reasons
    return [reason for reason in reasons if reason.removeprefix("Insufficient ") not in excepted]


SEED = None  # of chance, if --seed gives one


def random_score(pod, node):
    """RandomPriority; with a SEED, a pod and a node have the same score each time."""
    if SEED is not None:
        random.seed(f"{SEED} {pod.key} {node.name}")
    return random_priority(pod, node)


# All of these are steady, unless they say otherwise. A rule that is not here is not: nobody has said so.
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
        "function": pod_fits_other_resources, "plugin": "NodeResourcesFit", **GENERAL,
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
    "RandomPriority": {"function": random_score, "steady": False}}


for where, catalogue in CATALOGUES.items():
    for rule in [*catalogue.values()]:
        said = SAID_OF_THE_SCRIPTS_RULES.get(rule.name, {"steady": False})
        options = {"function": rule.function, "reduce": rule.reduce, "steady": True} | said
        catalogue[rule.name] = full_rule(where, rule.name, **options)
        RULE_OF[rule.function.__code__] = rule.name


SKIP = object()  # what a `metadata` function returns to have its rule left out for the pod


class Prepared:
    """A rule that is ready to be asked about nodes: its metadata for a pod, or pods alike, is worked out."""

    def __init__(self, rule, pod, metadata):
        self.rule = rule
        self.pod = pod
        self.metadata = metadata
        self.function = rule.function
        if rule.metadata:
            self.function = functools.partial(rule.function, metadata=metadata)
        self.like = likeness(pod, rule, metadata)
        self.seen = pod if self.like is None else Seen(pod, rule.reads)  # what the rule is given
        self.is_idle = False  # whether it was seen to have nothing against any node, as it looks at none
        self.known = {}  # the text of reasons -> these; so equal ones take up the room of one

    def reasons(self, node):
        """Return the reasons that a predicate has against a node."""
        reasons = self.function(self.seen, node)
        if isinstance(reasons, types.GeneratorType):
            reasons = list(reasons)
        if reasons == []:  # the usual answer, so that this is to be fast
            return reasons
        reasons = strings_of(self.rule, reasons)
        return self.known.setdefault(repr(reasons), reasons)

    def score(self, node):
        """Return the score that a priority gives a node."""
        score = self.function(self.seen, node)
        if not self.rule.reduce and not (type(score) is int and 0 <= score <= 100):
            check_points(self.rule, {node.name: score})
        return score

    def split(self, nodes, snapshot):
        """Return those of these nodes that a predicate lets pass; and its reasons against the others."""
        return self.ask(nodes, snapshot, self.reasons, split_nodes)

    def vote(self, nodes, snapshot):
        """Return what a priority gives to these nodes, {name: Node}: a Vote."""
        return self.ask(nodes, snapshot, self.score, self.make_vote)

    def ask(self, nodes, snapshot, question, then):
        """Return then(nodes, the answers about them), as `recall` does. Note what the rule has looked at."""
        memory = snapshot.memory
        if self.like is not None and not memory.knows(self.rule, self.like):
            question = self.for_all_if_no_node_is_looked_at(nodes, question)
        result = recall(self.rule, self.like, snapshot, nodes, question, self.metadata, then)
        if self.like is not None:
            self.note_reads(memory)
        return result

    def for_all_if_no_node_is_looked_at(self, nodes, question):
        """Ask about the first node. Return what to ask of all: an answer found without it is that of all."""
        for node in itertools.islice(nodes.values(), 1):
            seen = Seen(node)
            answer = question(seen)
            if not seen._names:
                self.is_idle = answer == [] and not self.rule.metadata
                return lambda node: answer
        return question

    def note_reads(self, memory):
        """Have the rule's answers kept by all that it has looked at, if that is more than it ever was.

        What was found until now is right for this pod, and so for all that are like it in more.
        """
        rule = self.rule
        before = self.like
        if self.seen._names:
            rule.reads = tuple(dict.fromkeys(rule.reads) | self.seen._names)
            self.like = likeness(self.pod, rule, self.metadata)
            memory.rename(rule, before, self.like)
        if self.is_idle and self.like is not None and len(rule.idle) < 1000:
            rule.idle.add(self.like)

    def make_vote(self, nodes, raw):
        """Make a Vote of raw scores. They may be of any size: `reduce` makes points from 0 to 100 of them."""
        rule = self.rule
        points = raw
        if rule.reduce:
            points = rule.reduce(dict(raw))
            if not isinstance(points, dict) or points.keys() != raw.keys():
                raise wrong_answer(rule, "reduce: return {name: score} of all nodes", points, rule.reduce)
            check_points(rule, points)
        return Vote(rule.title, rule.weight, raw, points)


def split_nodes(nodes, reasons):
    """Return the nodes that a predicate has no reasons against, {name: Node}; and the reasons that it has."""
    refused = {name: against for name, against in reasons.items() if against}
    passing = {name: node for name, node in nodes.items() if name not in refused} if refused else nodes
    return passing, refused


def put_together(nodes, refusals):
    """Return the nodes that no predicate refuses, and the Failures of the others, in the nodes' order.

    refusals: [(title of a predicate, {node: its reasons})].
    """
    if not refusals:
        return nodes, Failures()
    against = collections.defaultdict(dict)
    for title, refused in refusals:
        for name, reasons in refused.items():
            against[name][title] = reasons
    shared = {}  # the text of what is against a node -> that; so equal ones take up the room of one
    failed = Failures({name: shared.setdefault(repr(against[name]), against[name])
                       for name in nodes if name in against})
    return {name: node for name, node in nodes.items() if name not in failed}, failed


def prepare(rules, pod, nodes, snapshot):
    """Return the rules as Prepared ones, without those that have nothing to say. Raises Unschedulable."""
    prepared = []
    node_list = list(nodes.values()) if any(rule.metadata for rule in rules) else []
    for rule in rules:
        if rule.idle and signature(pod, rule.reads) in rule.idle:
            continue  # it has nothing against any node
        try:
            metadata = rule.metadata(pod, node_list, snapshot) if rule.metadata else None
        except Rejected as error:
            error.title = rule.title
            raise
        if metadata is not SKIP:
            prepared.append(Prepared(rule, pod, metadata))
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


@dataclass(eq=False)
class FullDecision(Decision):
    """A decision, with what the other extension points and the extenders add."""

    snapshot: FullSnapshot | None = None  # what they look at
    votes: list = field(default_factory=list)  # of each priority and each extender, on the nodes that fit
    remedy: str = ""  # without a node: what a rule does about that
    trouble: Trouble | None = None  # what was the matter with the API server
    rule_has_broken: bool = False
    waits: str = ""  # with a node: why the pod is not bound to it yet
    requests: list = field(default_factory=list)  # without a node: to be sent, as a remedy

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
            self.trouble = error
        if self.node and not isinstance(error, Unschedulable):
            self.condition_reason = "SchedulerError"  # as kube-scheduler's, once a node is chosen
        self.node = None
        self.waits = ""
        is_known = isinstance(error, (Unschedulable, Malformed, ApiError))
        self.message = str(error) if is_known else what_broke(error)
        if isinstance(error, Rejected):
            why = {f"{error.title} (whatever the node)": [str(error)]}
            self.failed = Failures(dict.fromkeys(self.nodes, why))
            self.message = self.policy.rejection(error, self.failed)
        if not is_known:
            self.rule_has_broken = True
            log.debug("%s", self.pod.key, exc_info=error)


# ==== 16. What breaks, and what takes long ==============================================================

# Rules and extenders are other people's code: they may break, answer nonsense, or take long.


# Set once a rule breaks where nobody can return that, as in threads: see LiveCluster.has_failed. Then the
# exit code is 1, except that of a loop which runs until a signal.
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


def one_line(error):
    """Return an error's text on a short line; of a connection's, the cause that requests has wrapped up."""
    text = ""
    with contextlib.suppress(Exception):  # a rule may raise what cannot say its text
        text = str(error)
    cause = re.search(r"\[(Errno|SSL)[^][]*][^'\"()]*|(?<=')[^']+(?='\)\)$)", text)
    text = cause.group() if cause else text
    known = error.strerror if isinstance(error, OSError) else None
    return known or at_most(1000, " ".join(text.split()))


def at_most(size, text):
    """Return a text of at most so many bytes; a longer one ends with dots. Upstream: truncateMessage."""
    data = text.encode(errors="surrogatepass")
    return f"{data[:size - 4].decode(errors='ignore')} ..." if len(data) > size else text


def check_points(rule, points):
    """Raise TypeError if a score is no number, Unschedulable if it is not from 0 to 100.

    The rule is at fault then, even if its score makes no difference, as only one node fits.
    """
    scores = points.values()
    if {*map(type, scores)} == {int} and min(scores) >= 0 and max(scores) <= 100:
        return  # the usual case, in no time
    for name, score in points.items():
        is_number = isinstance(score, Real) and not isinstance(score, bool)
        if not is_number:
            raise wrong_answer(rule, "return a number from 0 to 100", score)
        if not 0 <= score <= 100:
            FAILURE.set()
            expected = f"expected 0 to 100, at least by a `reduce` ({place_of(rule, rule.reduce)})"
            raise Unschedulable(f"{rule.title} gives {name} the score {score}: {expected}")


def strings_of(rule, answer, function=None):
    """Return the strings that a function of a rule yields. Raises TypeError if it gives something else."""
    strings = list(answer) if isinstance(answer, (list, tuple, types.GeneratorType)) else [None]
    if not all(isinstance(each, str) and each for each in strings):
        raise wrong_answer(rule, "yield strings, or return a list of them", answer, function)
    return strings


def wrong_answer(rule, expected, answer, function=None):
    """Return the error that says what a rule has to answer, what it did answer, and where it is."""
    return TypeError(f"{expected}, not {at_most(60, repr(answer))} ({place_of(rule, function)})")


def place_of(rule, function=None):
    """Return which rule it is, and where in its file: of its function, or of another one that it has."""
    function = function or rule.function
    code = getattr(inspect.unwrap(getattr(function, "func", function)), "__code__", None)
    return f"{rule.name}: {Path(code.co_filename).name}, line {code.co_firstlineno}" if code else rule.name


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


SLOW_SECONDS = 5  # after which it is said who does not answer
STOP = threading.Event()  # set by a signal; it is global, as rules list objects, too
# When the loop was last seen to go on, in monotonic seconds; for how long it may not come round.
CAME_ROUND = types.SimpleNamespace(at=0, limit=math.inf)


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


# ==== 17. Labels, images, shapes ========================================================================

def label_conflicts(arguments):
    """Yield what is wrong with labelsPresence and labelPreference: a label wanted both present and absent."""
    wanted = {}
    for argument in arguments:
        presence = argument.get("presence", False)
        labels = argument.get("labels", []) + ([argument["label"]] if "label" in argument else [])
        for label in labels:
            if wanted.setdefault(label, presence) != presence:
                yield f'label "{label}" cannot be wanted both present and absent'


@predicate("CheckNodeLabelPresence", member="labelsPresence", check=label_conflicts, steady=True,
           argument={"labels": [str], "presence": bool})
def check_node_label_presence(pod, node, arguments):
    """The node has the labels that the Policy wants present, with any value; not those it wants absent."""
    for argument in arguments:
        presence = argument.get("presence", False)
        if any((label in node.labels) != presence for label in argument.get("labels", [])):
            yield "node(s) didn't have the requested labels"
            return


@priority("NodeLabel", member="labelPreference", check=label_conflicts, steady=True,
          argument={"label": str, "presence": bool})
def node_label(pod, node, arguments):
    """The percentage of the labelPreference entries that the node meets: a label is there, or is not."""
    met = sum((argument.get("label", "") in node.labels) == argument.get("presence", False)
              for argument in arguments)
    return 100 * met // len(arguments)


@priority("NodePreferAvoidPodsPriority", plugin="NodePreferAvoidPods", by_default=10000, steady=True)
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


@priority("RequestedToCapacityRatio", plugin="NodeResourcesFit", check=shape_problems, steady=True,
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
    shares = shares_of([pick(container, str, "image") for container in pod.containers], snapshot)
    return shares and ImageShares(shares, len(pod.containers))


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


@priority("ImageLocalityPriority", metadata=image_shares, plugin="ImageLocality", by_default=1,
          steady=True)
def image_locality(pod, node, metadata):
    """How many bytes of the pod's images are there already, from 23 MiB (0) to 1000 MiB a container (100)."""
    if not metadata:
        return 0
    lowest = 23 * 2**20
    highest = 1000 * 2**20 * metadata.containers
    there = sum([share for image, share in metadata.shares if image in node.images])
    return 100 * (min(max(there, lowest), highest) - lowest) // (highest - lowest)


# ==== 18. Services and spreading ========================================================================

HOSTNAME = "kubernetes.io/hostname"
DEFAULT_SPREAD = [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway"}
                  for key, skew in ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))]
OWNERS = ("services", "replicationcontrollers", "replicasets", "statefulsets")  # upstream: DefaultSelector
SELECT_BY_LABELS = ("services", "replicationcontrollers")  # the oldest kinds: their selector has labels only


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
    """Return the selector of a service, a ReplicaSet, ... as a LabelSelector."""
    selector = pick(owner, dict, "spec").get("selector")
    return {"matchLabels": selector} if selector and resource in SELECT_BY_LABELS else selector


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
           argument={"labels": [str]}, steady=True)
def check_service_affinity(pod, node, metadata):
    """For the labels in the Policy, the node has the values that bind the pod's service."""
    if not metadata.items() <= node.labels.items():
        yield "node(s) didn't match service affinity"


def service_spread(pod, nodes, snapshot, arguments):
    """For each label in the Policy, how many pods the pod's service has, by their nodes' values."""
    # A Service whose selector is empty counts nobody, as one that is missing.
    selector = next(iter(selectors_of(pod, snapshot, "services")), ()) or NOTHING
    labels = [argument.get("label", "") for argument in arguments]
    numbers = matching_pods(pod, selector, snapshot)
    return [(label, by_domain(numbers, label, nodes)) for label in labels]


@priority("ServiceAffinity", metadata=service_spread, member="serviceAntiAffinity",
          argument={"label": str}, steady=True)
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
    requirements: list  # of the pods to count
    numbers: dict = field(compare=False)  # of these pods on each node
    itself: bool  # whether the pod meets its own constraint's selector
    complete: list = field(compare=False)  # the nodes that have all the constraints' keys
    eligible: list = field(compare=False)  # those of them where the pod may go, by the constraint's policies
    counts: dict | None = None  # of ScheduleAnyway: domain -> matching pods
    full: frozenset = frozenset()  # of DoNotSchedule: the domains that can take no more
    weight: float = 0  # of ScheduleAnyway: how much a pod matters
    needs_key: bool = True  # whether a node must have its key; else those that lack it are a domain

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


def spread_constraints(
        pod, when, snapshot, defaults=(), default_selector=default_selector, needs_key=True):
    """Yield the pod's constraints with this whenUnsatisfiable, or default ones. Raises Unschedulable."""
    raws = pick(pod.spec, list, "topologySpreadConstraints", of=dict)
    chosen = [raw for raw in raws or defaults if raw.get("whenUnsatisfiable") == when]
    owned = default_selector(pod, snapshot) if chosen and not raws else []
    if not raws and not owned:
        return
    keys = {pick(raw, str, "topologyKey") for raw in chosen if needs_key}
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
        yield SpreadConstraint(
            raw, requirements, numbers, itself, complete, eligible, needs_key=needs_key)


def matching_pods(pod, requirements, snapshot):
    """Return {node: how many pods in the pod's namespace meet the requirements, and are not leaving}."""

    def is_meant(other):
        """Say whether another pod counts."""
        is_fellow = other.namespace == pod.namespace and not other.terminating
        return is_fellow and satisfies(other.labels, requirements)

    like = digest(repr((pod.namespace, requirements)))
    return recall("matching pods", like, snapshot, snapshot.nodes, lambda node: count_pods(node, is_meant))


def by_domain(numbers, key, nodes):
    """Add up numbers, {node: number}, by the values that these nodes have for a label."""
    counts = collections.Counter()
    for node in nodes:
        counts[node.labels.get(key)] += numbers[node.name]
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
    counts = by_domain(constraint.numbers, constraint.key, nodes)
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
           steady=True, looks_at={"required spreading": must_spread})
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
    complete = set(constraint.complete)
    domains = {domain_of(constraint.key, node) for node in nodes if node in complete}
    counts = constraint.numbers
    if constraint.key != HOSTNAME:
        counts = by_domain(counts, constraint.key, constraint.eligible)
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
          reduce=normalize_spread, aliases=["ServiceSpreadingPriority"], steady=True)
@priority("EvenPodsSpreadPriority", metadata=soft_spread, reduce=normalize_spread, by_default=2, steady=True)
def even_pods_spread_priority(pod, node, metadata):
    """How many pods the ScheduleAnyway constraints count there, None where a key is missing; few are best."""
    score = 0.0
    for constraint in metadata:
        if constraint.key not in node.labels:
            return None
        score += constraint.score(node)
    return int(score)


# ==== 19. Affinity between pods =========================================================================

# Terms say where a pod is welcome: its own ones do, and those of all pods that are placed. `affinity_around`
# has all that they say, by domains; a domain is a (topology key, value). From that, `affine_domains` has
# where the pod must be and must not be, for the predicate; `affine_scores` where it is welcome, for the
# priority. How many pods a term selects, and on which nodes, is remembered by the term: pods of many kinds
# share it.


class AffinityTerm:
    """A term of inter-pod affinity or anti-affinity of a pod. Raises InvalidSelector."""

    def __init__(self, pod, term, weight):
        self.weight = weight
        self.key = pick(term, str, "topologyKey")
        self.requirements = pod_selector(term, pod)
        selector = term.get("namespaceSelector")
        self.namespace_selector = None if selector is None else label_selector(selector)
        by_default = [pod.namespace] if selector is None else []
        self.namespaces = pick(term, list, "namespaces", of=str) or by_default
        self.meaning = digest(repr(vars(self)))  # that of terms which say the same

    def selects(self, pod, snapshot):
        """Say whether the term means this pod."""
        if not satisfies(pod.labels, self.requirements):
            return False
        if pod.namespace in self.namespaces:
            return True
        if not self.namespace_selector:  # {} selects all namespaces; null, no other one
            return self.namespace_selector is not None
        namespace = snapshot.objects["namespaces"].get(pod.namespace, {})
        return satisfies(pick(namespace, dict, "metadata", "labels"), self.namespace_selector)


TERMS = weakref.WeakValueDictionary()  # meaning -> the one AffinityTerm that says it, of whatever pods


@kept_with_pod
def affinity_terms(pod):
    """The pod's {name of a list: its affinity terms, none if one is invalid}; and what is invalid."""
    lists = {list_name: [] for list_name in SAID_BY_TERMS}
    if not pod.is_affine:  # as most pods, so that this takes no time
        return lists, None
    problem = None
    for when, side in itertools.product(("required", "preferred"), ("Affinity", "AntiAffinity")):
        weights = collections.Counter()  # terms that are alike count as one that weighs as much as they
        try:
            for raw in pick(pod.spec, list, "affinity", f"pod{side}", f"{when}{WHEN}", of=dict):
                term = raw.get("podAffinityTerm") or raw
                weights[json.dumps(term)] += pick(raw, int, "weight") or 1
            terms = [AffinityTerm(pod, json.loads(term), weight) for term, weight in weights.items()]
            lists[when + side] = [TERMS.setdefault(term.meaning, term) for term in terms]
        except Malformed as error:
            problem = f"parsing pod: {when}{side}Terms: {error}"  # as upstream, the last one
    return lists, problem


def selected_by(terms, snapshot):
    """Return {node: how many pods there all of these terms select}."""
    like = b"".join(term.meaning for term in terms)
    namespaces = [snapshot.objects["namespaces"] for term in terms if term.namespace_selector]
    return recall(
        "selected", like, snapshot, snapshot.nodes,
        lambda node: count_pods(node, lambda pod: all(term.selects(pod, snapshot) for term in terms)),
        namespaces)


def terms_on(node):
    """Return [(name of a list, term, domain)] of all affinity terms that pods on a node have."""
    return [(list_name, term, (term.key, node.labels[term.key]))
            for pod in node.pods.values() if pod.is_affine
            for list_name, terms in affinity_terms(pod)[0].items()
            for term in terms if term.key in node.labels]


def gather_anew(gathered, before, now):
    """Return {(name of a list, term): {domain: how many pods there have the term}}.

    That is what was gathered, with the terms that are on some nodes now in place of those before.
    """
    changes = collections.defaultdict(collections.Counter)
    for sign, on_nodes in ((-1, before), (1, now)):
        for list_name, term, domain in itertools.chain.from_iterable(on_nodes.values()):
            changes[list_name, term][domain] += sign
    gathered = dict(gathered)
    for what, numbers in changes.items():
        numbers.update(gathered.pop(what, {}))
        there = {domain: number for domain, number in numbers.items() if number}
        if there:  # else no pod has the term any more
            gathered[what] = there
    return gathered


# List of terms -> what a pod's own make of the domains of pods that they select; what those of others that
# select the pod make of these others' domains; and how often.
SAID_BY_TERMS = {
    "requiredAffinity": ("together", "attached", 1), "requiredAntiAffinity": ("apart", "repelling", 1),
    "preferredAffinity": ("preferred", "preferred", 1),
    "preferredAntiAffinity": ("preferred", "preferred", -1)}


def affinity_around(pod, snapshot):
    """Return what the terms of a pod and of all others say, {what: {(topology key, value): weight}}."""
    own, _ = affinity_terms(pod)
    of_all = recall("terms", "", snapshot, snapshot.nodes, terms_on, change=gather_anew,
                    then=lambda nodes, on_nodes: gather_anew({}, {}, on_nodes))
    terms = itertools.chain(*own.values(), (term for _, term in of_all))
    namespaces = [snapshot.objects["namespaces"] for term in terms if term.namespace_selector]
    basis = weakref.ref(pod), snapshot.memory.version, namespaces  # the same for predicate and priority
    return recall("around", "", snapshot, {}, None, basis, lambda *_: sum_up(own, of_all, pod, snapshot))


def sum_up(own, of_all, pod, snapshot):
    """Sum up what a pod's own terms and those of all others say; see `affinity_around`."""
    around = collections.defaultdict(collections.Counter)
    for list_name, (what, _, sign) in SAID_BY_TERMS.items():
        terms = own[list_name]
        one_by_one = [[term] for term in terms]
        has_to_meet_all = what == "together" and terms  # of the others, one pod has to
        for group in [terms] if has_to_meet_all else one_by_one:
            weight = sign * group[0].weight
            keys = {term.key for term in group}
            selected = selected_by(group, snapshot)
            for name in [name for name, number in selected.items() if number]:
                labels = snapshot.nodes[name].labels
                for key in keys & labels.keys():
                    around[what][key, labels[key]] += weight * selected[name]
    for (list_name, term), numbers in of_all.items():
        _, what, sign = SAID_BY_TERMS[list_name]
        if term.selects(pod, snapshot):
            for domain, number in numbers.items():
                around[what][domain] += sign * term.weight * number
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
           steady=True,
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
          plugin="InterPodAffinity", by_default=1, steady=True)
def inter_pod_affinity(pod, node, metadata):
    """The summed weights of the preferences for and against the domains that the node is in."""
    return sum([metadata[pair] for pair in node.labels.items()]) if metadata else 0


# ==== 20. Disks, and how many a node can attach =========================================================

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


def disks_and_claims(pod, nodes, snapshot):
    """Its network disks; and whether a claim of it that is for one pod (ReadWriteOncePod) is in use."""
    exclusive = set()
    for name, claim, _ in claims_of(pod, snapshot, pod.named_claims):
        if "ReadWriteOncePod" in pick(claim, list, "spec", "accessModes"):
            exclusive.add(f"{pod.namespace}/{name}")
    in_use = (claim for node in nodes for other in node.pods.values() for claim in other.named_claims)
    claim_in_use = bool(exclusive) and not exclusive.isdisjoint(in_use)
    disks = disks_of(pod)
    return (disks, claim_in_use) if disks or claim_in_use else SKIP


def no_conflict_of_disks_or_claims(pod, node, metadata):
    """NoDiskConflict also says that no other pod has a claim that is for one pod only."""
    _, claim_in_use = metadata
    conflicts = list(no_disk_conflict(pod, node))
    yield from conflicts
    if claim_in_use and not conflicts:
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


SAID_LIMIT = os.environ.get("KUBE_MAX_PD_VOLS", "")
KUBE_MAX_PD_VOLS = int(SAID_LIMIT) if SAID_LIMIT.isdigit() else 0  # 0: the limits above
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


@dataclass
class ToAttach:
    """What is to be attached for a pod. It is equal for pods whose volumes are as many, and all new."""

    new: dict  # driver -> how many volumes, of those that are nowhere yet
    others: set  # (driver, identity) of those that are on some nodes
    rests_on: list  # the objects by which volumes and limits are known
    attached: dict = field(compare=False)  # name of a node -> what is attached to it
    snapshot: FullSnapshot = field(compare=False)

    def on(self, node):
        """Return {driver: how many volumes the node would have}, and which of these drivers gets more."""
        attached = self.attached[node.name]
        numbers = collections.Counter([driver for driver, _ in attached | self.others])
        numbers.update(self.new)
        return numbers, self.new.keys() | {driver for driver, _ in self.others - attached}


def to_attach(wanted, snapshot, attachments=attachments, elsewhere=frozenset()):
    """Return what is to be attached, ToAttach; SKIP if that is nothing. elsewhere: what else is on nodes."""
    if not wanted:
        return SKIP
    resources = "persistentvolumeclaims", "persistentvolumes", "storageclasses", "csinodes"
    rests_on = [snapshot.objects[resource] for resource in resources]

    def attached_to(node):
        """Return what is attached for the pods on a node."""
        return frozenset().union(*[attachments(pod, snapshot) for pod in node.pods.values() if pod.volumes])

    somewhere, attached = recall(
        "attached", attachments.__name__, snapshot, snapshot.nodes, attached_to, rests_on,
        then=lambda nodes, attached: (frozenset().union(*attached.values()), attached))
    others = wanted & (somewhere | elsewhere)
    new = collections.Counter([driver for driver, _ in wanted - others])
    return ToAttach(new, others, rests_on, attached, snapshot)


def volume_attachments(pod, nodes, snapshot, cloud=None):
    """What is to be attached for the pod: of a cloud, or by CSI."""
    wanted = {(driver, volume) for driver, volume in attachments(pod, snapshot)
              if cloud == (driver if driver in CLOUD_DISKS else None)}
    return to_attach(wanted, snapshot)


@predicate("MaxCSIVolumeCountPred", metadata=volume_attachments, plugin="NodeVolumeLimits", by_default=1,
           steady=True)
def max_volume_count(pod, node, metadata, cloud=None):
    """The node can attach the volumes of its pods and this one, each counted once: a cloud's, or CSI's."""
    numbers, with_more = metadata.on(node)
    # Of CSI volumes only new ones are held against the node. Upstream: plugins/nodevolumelimits
    for driver in [cloud] if cloud else with_more:
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


# ==== 21. Claims and their volumes ======================================================================

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

    def __eq__(self, other):
        """Say whether the same holds of a node for another claim, as far as answers have looked at that."""
        looked_at = "selected_node", "storage_class", "room", "volumes"
        return all(getattr(self, name) == getattr(other, name) for name in looked_at)

    @functools.cached_property
    def volumes(self):
        """The free Volumes that serve the claim, the smallest first; or its own one alone."""
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
            is_selected = satisfies(pick(volume, dict, "metadata", "labels"), selector)
            modes = set(pick(volume, list, "spec", "accessModes", of=str))
            if is_free and is_selected and modes.issuperset(pick(claim, list, "spec", "accessModes", of=str)):
                free.append(volume)
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


def volumes_to_claim(snapshot):
    """Return the volumes by the claim that has them, (namespace, name), or else by their class.

    Those without a claim may be set aside for one by now. The smallest are first.
    """
    volumes = snapshot.objects["persistentvolumes"]

    def sort(*_):
        """Sort them."""
        sorted_out = collections.defaultdict(list)
        for volume in sorted(volumes.values(), key=lambda volume: storage(volume, "capacity")):
            owner = pick(volume, dict, "spec", "claimRef")
            has_claim = owner and pick(volume, str, "status", "phase") != "Available"
            key = (owner.get("namespace"), owner.get("name")) if has_claim else class_name_of(volume)
            sorted_out[key].append(volume)
        return sorted_out

    return recall("volumes", "", snapshot, {}, None, [volumes], then=sort)


def why_unusable(name, claim, pod):
    """Return why the pod cannot use a claim, whatever the node, or None. Upstream: podHasPVCs."""
    if not claim:
        return f'persistentvolumeclaim "{name}" not found'
    if pick(claim, str, "metadata", "deletionTimestamp"):
        return f'persistentvolumeclaim "{name}" is being deleted'
    return None


def claims_to_bind(pod, nodes, snapshot, why_unusable=why_unusable):
    """Where its bound claims' volumes can be used; and the claims that wait for it, in upstream's order."""
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


def set_volumes_aside(claims, node, record):
    """Set volumes aside for claims; where there are none, ask for new ones. Return what is to be written."""
    patches = []
    for delayed, volume in find_volumes(claims, node):
        claim = delayed.claim
        metadata = claim["metadata"]
        if volume and not volume["spec"].get("claimRef"):
            owner = {name: metadata.get(name) for name in ("namespace", "name", "uid")}
            reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **owner}
            record.set_aside(volume["spec"], "claimRef", reference)
            patches.append(patch(volume, "persistentvolumes", spec={"claimRef": reference},
                                 annotations={"pv.kubernetes.io/bound-by-controller": "yes"}))
        elif not volume and delayed.selected_node is None:
            # The claim thereby remembers the node: its pods fit no other one until it is bound.
            annotations = pick(metadata, dict, "annotations") | {SELECTED_NODE: node.name}
            record.set_aside(metadata, "annotations", annotations)
            patches.append(patch(claim, "persistentvolumeclaims", annotations={SELECTED_NODE: node.name}))
    return patches


def bind_volumes(pod, node, snapshot, timeout=600, late="timed out waiting for the condition"):
    """Set volumes aside for the pod's claims, or ask for their provisioning. Controllers do the rest.

    timeout: the seconds that this may take; late: what is said then.
    """
    if not pod.claims:
        return None
    failing = "binding volumes:"
    has_waited = pod.record.is_being_prepared()
    active = snapshot.policies[pod.scheduler].predicates
    own = [rule for rule in active if rule.name == "CheckVolumeBinding"]
    [prepared] = prepare(own, pod, {node.name: node}, snapshot)
    claims = prepared.metadata
    reasons = prepared.reasons(node)  # a rule may have held the pod meanwhile
    if reasons:
        raise Unschedulable(f"{failing} {reasons[0]}")
    patches = set_volumes_aside(claims.delayed, node, pod.record)
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


@predicate("CheckVolumeBinding", metadata=claims_to_bind, pre_bind=bind_volumes,
           plugin="VolumeBinding", by_default=1, steady=True,
           looks_at={"claims": lambda pod, node: pod.claims})
def check_volume_binding(pod, node, metadata, gone="pvc(s) bound to non-existent pv(s)",
                         out_of_reach="node(s) had volume node affinity conflict"):
    """The node can reach the volumes of the pod's bound claims, and has or gets volumes for the others."""
    for reach in metadata.bound:
        if reach is None:
            yield gone
            break
        if not satisfies_one(node.labels, reach):
            yield out_of_reach
            break
    if any(delayed.selected_node not in (None, node.name) for delayed in metadata.delayed):
        yield "node(s) didn't find available persistent volumes to bind"
        return
    for delayed, volume in find_volumes(metadata.delayed, node):
        if not volume and not can_provision(delayed.storage_class, node):
            yield "node(s) didn't find available persistent volumes to bind"
            break
        if not volume and not satisfies_one(node.labels, delayed.room):
            yield "node(s) did not have enough free storage"
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
    return Volume(volume, [on_labels for on_labels, on_fields in terms if on_labels or on_fields]
                  if required else EVERYWHERE)


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


@predicate("NoVolumeZoneConflict", metadata=zones_of_volumes, plugin="VolumeZone", by_default=1, steady=True)
def no_volume_zone_conflict(pod, node, metadata, new_names=read_only({})):
    """The zone and region labels of the pod's volumes allow the node's. A claim to nowhere is an error.

    new_names: {a label of volumes: the name under which a node may have it instead}.
    """
    if node.labels.keys().isdisjoint(ZONE_LABELS):
        return
    for label, zones in metadata.labels:
        value = node.labels.get(label, node.labels.get(new_names.get(label)))
        if value not in zones:
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


# ==== 22. The other extension points ====================================================================

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
    """Say whether an answer is a list of requests, (method, path, body), each of which writes something."""
    return isinstance(answer, (list, tuple)) and all(
        isinstance(each, (list, tuple)) and len(each) == 3 and each[0] in ("POST", "PUT", "PATCH", "DELETE")
        for each in answer)


def with_reason(answer):
    """Return an answer of a rule as a pair: what it wants; and why, "" if it does not say."""
    is_pair = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], str)
    return answer if is_pair else (answer, "")


ANSWERS = {  # what a hook may return beside None -> a function that says whether an answer is that
    "anything": lambda answer: True,
    "a string": lambda answer: isinstance(answer, str),
    "True or False": lambda answer: isinstance(answer, bool),
    "seconds, or (seconds, why)": lambda answer: type(with_reason(answer)[0]) in (int, float),
    "a list of requests": are_requests,
    "a list of requests, or (requests, why)": lambda answer: are_requests(with_reason(answer)[0])}


@dataclass
class ExtensionPoint:
    """A point at which a rule may have a function: what that takes, and may return."""

    parameters: str
    in_configuration: str  # what a KubeSchedulerConfiguration calls it
    answer: str = "anything"  # one of ANSWERS
    refusal: str = ""  # how kube-scheduler says that a plugin refuses a pod there


EXTENSION_POINTS = {  # by the option of the decorator
    # Why the pod is not ready to be tried; or None.
    "pre_enqueue": ExtensionPoint("pod", "preEnqueue", "a string"),
    # A key: pods with lower ones are tried first.
    "queue_sort": ExtensionPoint("pod", "queueSort"),
    # No node fits: requests that may help, and what they do; or None.
    "post_filter": ExtensionPoint(
        "pod failed snapshot", "postFilter", "a list of requests, or (requests, why)"),
    # Takes note that the pod goes to the node; may raise Unschedulable.
    "reserve": ExtensionPoint(
        "pod node snapshot", "reserve", refusal='running Reserve plugin "{rule}"'),
    # Forgets that, even if another rule's `reserve` failed. Requests; or None.
    "unreserve": ExtensionPoint("pod snapshot", "reserve", "a list of requests"),
    # None approves, Unschedulable denies. Seconds, or these and why: it is asked again, for so long.
    "permit": ExtensionPoint(
        "pod node snapshot", "permit", "seconds, or (seconds, why)",
        refusal='rejected pod "{pod}" by permit plugin "{rule}"'),
    # None: go on. Requests, maybe [], or these and why: they are sent, and it is asked again in each pass.
    "pre_bind": ExtensionPoint(
        "pod node snapshot", "preBind", "a list of requests, or (requests, why)",
        refusal='running PreBind plugin "{rule}"'),
    # Binds the pod, and returns True; else the next one is asked, at last the script.
    "bind": ExtensionPoint("pod node_name", "bind", "True or False"),
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
    if answer is not None and not ANSWERS[there.answer](answer):
        raise wrong_answer(rule, f"{point}: return None or {there.answer}", answer, rule.hooks[point])
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


# ==== 23. What is asked whatever the Policy =============================================================

def reasons_supposing(pod, node, snapshot, gone=(), there=()):
    """Return why the predicates refuse the node to the pod if some pods were gone and others there."""
    changed = with_pods(node, [each for each in [*node.pods.values(), *there] if each not in gone])
    supposed = replace(snapshot, nodes=snapshot.nodes | {node.name: changed}, memory=snapshot.memory.copy())
    supposed.note_change(changed)
    try:
        predicates = snapshot.policies[pod.scheduler].predicates_to_ask()
        for rule in prepare(predicates, pod, supposed.nodes, supposed):
            reasons = rule.reasons(changed)
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
    FullRule("Devices", lambda pod, node: (), metadata=claims_of_devices, title="devices", steady=True),
    FullRule("NominatedPods", room_for_nominated, metadata=nominated_elsewhere,
             title="room for nominated pods")]


##########################################################################################################
# PART IV. WHAT PEOPLE WRITE                                                                             #
# Files, rules of one's own, extenders, and the Policy.                                                  #
##########################################################################################################

import base64
import copy
import difflib
import runpy
import tempfile
from importlib.machinery import PathFinder

import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning


# ==== 24. Files =========================================================================================


# A schema that says more than types: what is expected, a function that says whether a value is fine, and the
# schema of the value; None: the function takes a value of any type.
Form = collections.namedtuple("Form", "expected is_fine of")


def decode(value, schema, where, passed_over=None):
    """Check a value against a schema, and return it without nulls. Raises InputError, with all that is wrong.

    passed_over: a list, if it is to be read as kube-scheduler reads extenders. Then the case of a field's
    name does not matter, and unknown fields are no error: their places are added to the list.
    """
    problems = []
    decoded = decode_part(value, schema, where, problems, passed_over)
    refuse(problems)
    return decoded


def decode_part(value, schema, where, problems, passed_over=None):
    """Return a value without nulls, and without what is wrong; add that to the problems."""
    if isinstance(schema, Form):
        return decode_form(value, schema, where, problems)
    kind = schema if isinstance(schema, type) else {range: int, set: str}.get(type(schema), type(schema))
    if value is None:
        return kind()
    expected = "a number" if kind is float else TYPE_NAME.get(kind, kind)
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
        return [decode_part(item, schema[0], f"{where}[{i}]", problems, passed_over)
                for i, item in enumerate(value)]
    if isinstance(schema, dict):
        return decode_fields(value, schema, where, problems, passed_over)
    return value


def decode_form(value, form, where, problems):
    """Return a value that is as a Form expects it, else None; add what is wrong to the problems."""
    found = []
    if form.of:
        value = decode_part(value, form.of, where, found)
    if not found and not form.is_fine(value):
        got = "" if isinstance(value, (dict, list)) else f", got {in_short(value)}"
        found = [f"{where}: expected {form.expected}{got}"]
    problems += found
    return None if found else value


def decode_fields(value, schema, where, problems, passed_over):
    """Return those fields of an object that are known and not null; add what is wrong to the problems."""
    as_spelt = str if passed_over is None else str.lower
    names = {as_spelt(name): name for name in schema}
    decoded = {}
    for key, item in value.items():
        place = f"{where}.{key}".lstrip(".")
        name = names.get(as_spelt(key))
        if name and item is not None:
            read = decode_part(item, schema[name], place, problems, passed_over)
            if read is not None:  # else it is wrong
                decoded[name] = read
        elif not name and passed_over is None:
            problems.append(f"{place}: unknown field{did_you_mean(key, names, '')}")
        elif not name:
            passed_over.append(place)
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
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:60].rpartition(' ')[0] or text[:60]} ..."


# Name of a predicate, a priority, a field or a flag -> how that is said today. The last part adds those that
# only a configuration has, and leaves out of these what is said in a Policy.
NAMES_OF_OLD = {
    **dict.fromkeys(["NodeLabel", "labelsPresence"],
                    "node affinity (in a Policy: a predicate of any name, with the argument labelsPresence)"),
    **dict.fromkeys(["NodeLabelPriority", "labelPreference"],
                    "node affinity (in a Policy: a priority of any name, with the argument labelPreference)"),
    **dict.fromkeys(["ServiceAffinity", "serviceAffinity"],
                    "pod affinity (in a Policy: a predicate of any name, with the argument serviceAffinity)"),
    **dict.fromkeys(
        ["ServiceAffinityPriority", "ServiceAntiAffinityPriority", "serviceAntiAffinity"],
        "spread constraints (in a Policy: a priority of any name, with the argument serviceAntiAffinity)"),
    **dict.fromkeys(
        ["RequestedToCapacityRatio", "RequestedToCapacityRatioPriority", "requestedToCapacityRatioArguments"],
        "NodeResourcesFit with scoringStrategy.type RequestedToCapacityRatio (in a Policy: a priority of any "
        "name, with the argument requestedToCapacityRatioArguments)"),
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


def through_json(document, most):
    """Return what is read of YAML in JSON's types: dates as strings, and for each alias a copy.

    Raises ValueError if that takes more than so many characters of JSON.
    """
    text = ""
    for part in json.JSONEncoder(default=str).iterencode(document):
        text += part
        if len(text) > most:
            raise ValueError("its aliases stand for too much")
    return json.loads(text)


def unique_keys(pairs):
    """Make a dict of pairs. Raises ValueError if a key comes twice."""
    keys = collections.Counter(key for key, _ in pairs)
    if len(keys) < len(pairs):
        raise ValueError(f'duplicate key "{keys.most_common(1)[0][0]}"')
    return dict(pairs)


def text_in(path):
    """Return the text of a file, or of standard input for -. PowerShell writes UTF-16."""
    if str(path) == "-":
        return sys.stdin.read()
    data = Path(path).read_bytes()
    return data.decode(json.detect_encoding(data))


def parse(text):
    """Yield the documents of a JSON or YAML text, made of JSON's types only. Raises ValueError."""
    try:
        if text.lstrip().startswith("{"):
            yield json.loads(text, object_pairs_hook=unique_keys)
        else:
            for document in yaml.load_all(text, YamlLoader):
                yield through_json(document, most=10 * len(text) + 10_000_000)
    except json.JSONDecodeError as error:
        read = text[:error.pos].rstrip().removesuffix(",")
        lines = read.split("\n")
        is_comma = error.msg.startswith(("Expecting", "Illegal")) and re.match(r",\s*[]}]", text[len(read):])
        what = "a comma too many" if is_comma else error.msg
        raise mistake(text, len(lines) - 1, len(lines[-1]), what) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = "".join(text.split("\n")[mark.line:mark.line + 1]).lstrip(" ")
        what = "a tab; YAML is indented by spaces" if line.startswith("\t") else error.problem
        raise mistake(text, mark.line, mark.column, what) from None
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"it cannot be read: {one_line(error)}") from None


def mistake(text, line, column, what):
    """Return the ValueError that says what is wrong at a place in a text, and quotes what is around it."""
    quoted = "".join(text.split("\n")[line:line + 1])
    before, marks, _ = text.partition("{{")
    marked = before.count("\n") + 1
    hint = f"; line {marked} has {marks}: render the template first" if marks else ""
    near = quoted[max(column - 150, 0):column + 150].strip()
    return ValueError(": ".join(filter(None, [f"line {line + 1}", what, near])) + hint)


# ==== 25. Rules of one's own ============================================================================

# A decorator makes a function a rule (`register`): here, or in a file of --plugins. What is wrong with the
# rule as it is written is said when that file is loaded.


PARAMETERS = {  # of a rule's functions, in this order; `metadata` and `arguments` come by their names
    "function": "pod node", "metadata": "pod nodes snapshot", "reduce": "scores", "check": "arguments",
    **{option: point.parameters for option, point in EXTENSION_POINTS.items()}}
OPTIONS = ["argument", "default", "member", "steady", "looks_at", "aliases", "always", "by_default", "plugin",
           *PARAMETERS.keys() - {"function"}]
NOUNS = {"predicates": "predicate", "priorities": "priority"}
REGISTERS = [PREDICATES, PRIORITIES, sys.modules]  # where files of rules add what they have, and import
Added = collections.namedtuple("Added", "register name thing path")  # path: of the file of --plugins
PLUGGED_IN = []  # what they have added: a list of Added


def checked_rule(where, name, function, **options):
    """Return the rule that a decorator registers. Raises InputError if it cannot work as it is written."""
    for option in options.keys() - OPTIONS:
        known = ", ".join(sorted(OPTIONS))
        raise InputError(f'rule "{name}": there is no option "{option}"; there are {known}')
    if name in CATALOGUES[where]:
        raise InputError(f'there is a rule "{name}" already ({place_of(CATALOGUES[where][name])})')
    for option, each in ({"function": function} | options).items():
        if option in PARAMETERS and each is not None:
            check_function(name, option, each, options)
    argument = decode(options.get("argument"), dict, f'rule "{name}", argument')
    decode(options.get("default"), argument, f'rule "{name}", default')
    return full_rule(where, name, function, **options)


RULE_MAKERS.update({where: functools.partial(checked_rule, where) for where in CATALOGUES})


def check_function(name, option, function, options):
    """Raise InputError if a function of a rule cannot be called with what it is to get."""
    place = f'rule "{name}"' + ("" if option == "function" else f", {option}")
    signature = inspect.signature(function)
    first = PARAMETERS[option].split()
    more = ["metadata"] if option == "function" and options.get("metadata") else []
    may_have = ["arguments"] if options.get("argument") is not None and option != "check" else []
    if may_have and "arguments" in signature.parameters:
        more += may_have
    try:
        bound = signature.bind(*first, **dict.fromkeys(more)).arguments
        fits = all(name == given for name, given in bound.items() if name in first)  # else they are swapped
    except TypeError:  # they are too many, or too few
        fits = False
    if not fits:
        expected = ", ".join(dict.fromkeys(first + more + may_have))
        got = ", ".join(signature.parameters)
        raise InputError(f"{place}: expected the parameters ({expected}), got ({got})")


def load_plugins(paths):
    """Run files that register rules, instead of those that were run before. Raises InputError."""
    unplug()
    sys.modules["scheduler"] = sys.modules[__name__]  # also where this file is the main program
    sys.dont_write_bytecode = True  # it would be taken for that of an edit within the same second
    for path in paths:
        before = [{*register} for register in REGISTERS]
        folder = str(Path(path).resolve().parent)
        if folder not in sys.path:
            sys.path.append(folder)  # so that the file may import others beside it
        try:
            runpy.run_path(path)
        except (Exception, SystemExit) as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [f", line {frame.lineno}" for frame in frames if frame.filename == str(path)]
            place = "".join([str(path), *lines[-1:]])
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            raise InputError(f"{place}: {kind}{one_line(error)}") from error
        finally:
            note_added(path, folder, before)


def note_added(path, folder, before):
    """Note which rules were not there before, and which modules of a folder: a file has added them."""
    for register, names in zip(REGISTERS, before, strict=True):
        for name in [name for name in [*register] if name not in names]:
            thing = register[name]
            if isinstance(thing, Rule) or PathFinder.find_spec(name.partition(".")[0], [folder]):
                PLUGGED_IN.append(Added(register, name, thing, path))


def rules_in(path):
    """Return the rules that a file of --plugins has added."""
    return [added.thing for added in PLUGGED_IN if added.path == path and isinstance(added.thing, Rule)]


def unplug(instead=()):
    """Have nothing any more that files of --plugins have added; instead, what they had added before."""
    while PLUGGED_IN:
        added = PLUGGED_IN.pop()
        added.register.pop(added.name, None)
    for each in instead:
        PLUGGED_IN.append(each)
        each.register[each.name] = each.thing


def idle_plugins(paths, policies):
    """Yield the rules in the files of --plugins that nobody asks, and which files have none."""
    active = {(rule.where, rule.name) for policy in policies.values() for rule in policy.rules()}
    for path in paths:
        rules = rules_in(path)
        if not rules:
            yield f"there is no rule in {path}"
        idle = sorted(rule.name for rule in rules if (rule.where, rule.name) not in active)
        if idle:
            yield f"{', '.join(idle)} of {path}: not named here, so not asked"


# ==== 26. Extenders =====================================================================================

NANOSECONDS = Form("a whole number of nanoseconds, such as 30000000000",
                   lambda value: type(value) is int and abs(value) < 2**63, None)
EXTENDER = {
    "urlPrefix": str, "filterVerb": str, "preemptVerb": str, "prioritizeVerb": str, "bindVerb": str,
    "weight": int, "enableHTTPS": bool, "httpTimeout": NANOSECONDS, "nodeCacheCapable": bool,
    "ignorable": bool,
    "managedResources": [{"name": str, "ignoredByScheduler": bool}],
    "tlsConfig": {"insecure": bool, "serverName": str, "caFile": str, "certFile": str, "keyFile": str,
                  "caData": str, "certData": str, "keyData": str}}


def left_to_extenders(configs):
    """Return the names of the resources that extenders see to, so that the scheduler does not."""
    resources = [resource for config in configs for resource in config.get("managedResources", [])]
    return [resource.get("name") for resource in resources if resource.get("ignoredByScheduler")]


def extenders_of(configs, filtered):
    """Return the extenders, ignorable ones last. filtered: what their filters may answer."""
    extenders = [Extender(config, f"extenders[{i}]", filtered) for i, config in enumerate(configs)]
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


NAME = Form("a name, such as example.com/gpu", is_qualified, str)


def tls_problems(tls, place):
    """Yield what is wrong with an extender's tlsConfig. Upstream: TLSConfigFor."""
    if tls.get("insecure") and (tls.get("caFile") or tls.get("caData")):
        yield f"{place}: give either caFile, or caData, or insecure"
    for what in ("ca", "cert", "key"):
        file = tls.get(f"{what}File")
        data = tls.get(f"{what}Data", "")  # which takes precedence
        if file and not data and not Path(file).is_file():
            yield f"{place}.{what}File: there is no file {file}"
        try:
            base64.b64decode("".join(data.splitlines()), validate=True)
        except ValueError:
            yield f"{place}.{what}Data: expected what is in the file, in base64"


# What extenders answer. Whatever the case of the fields' names, as Go reads them: see `decode`.
# Upstream: kube-scheduler/extender/v1/types.go.
FILTERED = {"Nodes": {"items": [{"metadata": {"name": str}}]}, "NodeNames": [str], "FailedNodes": dict,
            "Error": str}
SCORED = [{"Host": str, "Score": int}]
BOUND = {"Error": str}


class Extender:
    """An HTTP extender of the Policy: a web service that has a say. Upstream: scheduler/core/extender.go."""

    def __init__(self, config, title, filtered=FILTERED):
        self.config = config
        self.filtered = filtered  # what its filter may answer
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
        self.made_files = []  # which last as long as they are referred to
        is_unchecked = tls.get("insecure") or config.get("enableHTTPS")
        ca, *client = [self.file_of(tls, what) for what in ("ca", "cert", "key")]
        self.session.verify = ca or not is_unchecked
        self.session.cert = tuple(client) if all(client) else None
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
        answer = decode(json.loads(text), schema, "the answer", passed_over=[])
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
                add_to(scores, {each.get("Host", ""): each.get("Score", 0)})
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


# ==== 27. The Policy ====================================================================================

# What becomes of a Policy: an entry names one rule, or several, or none (`meaning_of`). Entries that mean one
# rule are one: it gets all their arguments as `arguments` (`set_up`), and n of them weigh n times as much
# (`rules_named`).


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
    would_preempt: bool = True  # kube-scheduler would, for its pods
    kind = "Policy"  # of the file that says all this
    unschedulable_seconds = 60  # after which a pod that fits nowhere is tried again all the same
    pops_from_backoff = False  # whether a change ends its backoff, if there is nothing else to do

    def new_decision(self, pod, snapshot):
        """Return a decision about a pod, in which nothing is decided yet."""
        pod.signatures.clear()  # since it was tried last, it may have changed
        return FullDecision(pod, snapshot.nodes, policy=self, snapshot=snapshot)

    def nodes_that_fit(self, pod, snapshot):
        """Ask about each node, unless the answer is known from the last pod like this one; and extenders."""
        passing = snapshot.nodes
        refusals = []  # (title of a predicate, its reasons against nodes)
        prepared = prepare(self.predicates_to_ask(), pod, snapshot.nodes, snapshot)
        for rule in prepared:
            asked = snapshot.nodes if self.always_check_all else passing
            passing, refused = rule.split(asked, snapshot)
            if refused:
                refusals.append((rule.rule.title, refused))
        feasible, failed = recall(
            ("failed", self), likeness_to_all(prepared), snapshot, {}, None, [snapshot.nodes, refusals],
            then=lambda *_: put_together(snapshot.nodes, refusals))
        return self.ask_extenders(pod, feasible, failed)

    def prioritize(self, decision, feasible):
        """Return each node's total of what priorities and extenders give, unless it is known."""
        pod = decision.pod
        snapshot = decision.snapshot
        prepared = []
        try:
            prepared = prepare(self.priorities, pod, feasible, snapshot)
            for rule in prepared:
                decision.votes.append(rule.vote(feasible, snapshot))  # points from 0 to 100
        except Unschedulable as error:  # a priority has given a score that is not from 0 to 100, for example
            if len(feasible) > 1:  # a single node is taken, whatever its points
                raise
            warn_once(str(error))
        for extender in self.extenders:
            decision.votes += extender.prioritize(pod, feasible)
        total = self.add_up(decision, prepared, feasible)
        if SEED is not None:
            random.seed(f"{SEED} {pod.key}")  # among equal nodes, select_host takes the same one each time
        return total

    def add_up(self, decision, prepared, nodes):
        """Return the sum of each node's points times their weights; 1 if nobody is to give points."""
        weighted = [(vote.weight, vote.points) for vote in decision.votes]
        if not self.priorities and not self.extenders:
            weighted = [(1, dict.fromkeys(nodes, 1))]

        def total(node):
            """Add up what one node gets in all votes."""
            name = node.name
            return sum([weight * points[name] for weight, points in weighted])

        # Points that `reduce` has made rest on all nodes: totals hold only while these points are the same.
        reduced = [None if vote.points is vote.raw else vote.points for vote in decision.votes]
        basis = [rule.metadata for rule in prepared], reduced
        return recall(("total", self), likeness_to_all(prepared), decision.snapshot, nodes, total, basis)

    def seek_remedy(self, decision, snapshot):
        """Have the rules do something about a pod that fits nowhere: the first that has a remedy."""
        if not (decision.failed and decision.fits_nowhere):
            return  # there are no nodes; or some fit, and what failed was another rule
        if self.would_preempt and decision.pod.priority > 0 and not self.rules_with["post_filter"]:
            warn_once(f"nobody is preempted for {decision.pod.key}, as kube-scheduler may do; the rule "
                      "Preemption of tests/tutorial_rules.py does it", about="preemption")
        with warn_if_broken(decision.pod.key):
            for rule in self.rules_with["post_filter"]:
                failed = copy.deepcopy(dict(decision.failed))  # the rule may change it
                remedy = call_hook(rule, "post_filter", decision.pod, failed, snapshot)
                if remedy:
                    decision.requests, decision.remedy = with_reason(remedy)
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
        document = next(documents, None)
        reader = READERS.get(text_at(document, "kind"))
        policies = reader(document, scheduler_name) if reader else {scheduler_name: read_policy(document)}
    except InputError as error:
        raise InputError(f"{path}: {at_most(10_000, ' '.join(str(error).split()))}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {one_line(error)}{did_you_mean(path, providers(), '')}") from error
    policy, *_ = policies.values()
    with contextlib.suppress(ValueError):
        if any(documents):
            policy.notices.append("only the first document is read, as in kube-scheduler")
    if path in providers():  # their predicates run in the order of the plugins
        order = PLUGIN_ORDER + [rule.plugin for rule in policy.predicates]
        policy.predicates.sort(key=lambda rule: order.index(rule.plugin))
    return policies


EXPECTED = ["kind Policy with apiVersion v1"]  # what a file may be; the last part adds a configuration


def what_it_is(document):
    """Say what a document is that is neither a Policy nor a configuration, and where one may be in it."""
    kind = text_at(document, "kind")
    version = text_at(document, "apiVersion")
    if kind.endswith("List"):
        found = [item for item in pick(document, list, "items") if text_at(item, "kind") == "ConfigMap"]
        return f"a {kind}, in it {what_it_is(found[0])}" if found else in_short(document)
    if kind == "ConfigMap":
        data = pick(document, dict, "data")
        key = next((key for key in data if "kind" in str(data[key]) or key == "policy.cfg"), None)
        if key is None:
            return "a ConfigMap that has neither"
        name = f"{text_at(document, 'metadata', 'name')} -n {text_at(document, 'metadata', 'namespace')}"
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
        self.seen = {}  # when the files were changed, at the last look
        self.current()

    def current(self):
        """Return the Policies, read again if a file has changed. If one is broken, say so, and keep the last.

        If they say the same as before, those in force stay, so that no held pod is decided about anew.
        """
        seen = self.look()
        if seen != self.seen or not self.policies:
            changed = [file for file in seen if seen[file] != self.seen.get(file, seen[file])]
            self.seen = seen
            before = [*PLUGGED_IN]
            try:
                self.load(changed)
            except InputError as error:
                unplug(instead=before)
                if not self.policies:
                    raise
                log.error("%s; the last good Policy stays", error)
        return self.policies

    def look(self):
        """Return when the files, and those beside plugins, which these may import, were changed."""
        changes = {}
        files = {Path(path).absolute() for path in [self.path, *self.plugins]}
        for folder in {Path(plugin).absolute().parent for plugin in self.plugins}:
            files.update(folder.glob("*.py"))
        for file in files:
            with contextlib.suppress(OSError):
                stat = file.stat()
                changes[file] = stat.st_mtime_ns, stat.st_size, stat.st_ino
        return changes

    def load(self, changed):
        """Read the files, some of which have changed, and say what is different. Raises InputError."""
        load_plugins(self.plugins)
        policies = load_policies(self.path, self.scheduler_name)
        lines = differences(self.policies, policies) if self.policies else []
        lines += [f"{file} has changed" for file in changed if file != Path(self.path).absolute()]
        if lines or not self.policies:
            self.policies = policies
        else:
            lines = ["says the same as before"]
        for line in lines:
            log.warning("%s: %s", self.path, line)
        notices = [notice for policy in policies.values() for notice in policy.notices]
        for notice in [*notices, *idle_plugins(self.plugins, policies)]:
            warn_once(f"{self.path}: {notice}")


def lines_of(policy):
    """Return all that a Policy says, a line for each rule and setting."""
    lines = []
    for rule in policy.rules():
        words = [rule.title]
        if rule.name != rule.title:
            words.append(f"({rule.name})")
        if rule in policy.priorities:
            words.append(f"×{rule.weight}")
        words += [f"{name}={json.dumps(value)}" for name, value in rule.settings.items() if value != []]
        lines.append(" ".join([*words, *rule.hooks]))
    lines += [f"{extender.title} {json.dumps(extender.config)}" for extender in policy.extenders]
    if policy.always_check_all:
        lines.append("alwaysCheckAllPredicates")
    if (policy.initial_backoff, policy.max_backoff) != (FullPolicy.initial_backoff, FullPolicy.max_backoff):
        lines.append(f"backoff from {policy.initial_backoff} to {policy.max_backoff} s")
    if policy.election.get("leaderElect"):
        lines.append(f"leaderElection {json.dumps(policy.election)}")
    return lines


def differences(before, after):
    """Return the lines in which Policies differ from those before, such as "- HostName"."""
    head = "{}: " if len(before | after) > 1 else ""
    old, new = [[head.format(name) + line for name, policy in policies.items() for line in lines_of(policy)]
                for policies in (before, after)]
    lines = [line for line in difflib.ndiff(old, new) if line[:2] in ("- ", "+ ")]
    differing = {*old} ^ {*new}  # empty, if only the order is another one
    return [line for line in lines if line[2:] in differing] or lines


POLICY = {
    "kind": str, "apiVersion": str, "extenders": list,
    "predicates": [{"name": str, "argument": dict}],
    "priorities": [{"name": str, "weight": WEIGHT, "argument": dict}],
    "hardPodAffinitySymmetricWeight": range(101), "alwaysCheckAllPredicates": bool}


def read_policy(document):
    """Return the Policy of a document, checked as strictly as kube-scheduler does. Raises InputError.

    Upstream: createFromConfig in pkg/scheduler/factory.go.
    """
    is_others = text_at(document, "apiVersion") not in ("", "v1", CONFIGURATION_VERSION)
    is_policy = text_at(document, "kind") == "Policy" and not is_others
    problems = []
    passed_over = []
    said = decode_part(document, POLICY, "", problems) if is_policy else {}
    configs = decode_part(said.get("extenders", []), [EXTENDER], "extenders", problems, passed_over)
    refuse(problems)
    if not said.get("apiVersion"):  # or no kind, which kube-scheduler takes; but it may be half a file
        raise InputError(f"expected {', or '.join(EXPECTED)}, got {what_it_is(document)}")
    notices = [f"{place}: unknown field, passed over as in kube-scheduler" for place in passed_over]
    predicate_entries = said.get("predicates", default_entries("predicates"))
    named = {entry.get("name") for entry in predicate_entries}
    has_general = "predicates" not in said or "GeneralPredicates" in named
    predicate_entries += [{"name": rule.name} for rule in PREDICATES.values()
                          if rule.always and rule.name not in named]
    priority_entries = said.get("priorities", default_entries("priorities"))
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
    return FullPolicy(predicates, priorities, extenders_of(configs, FILTERED), check_all, notices)


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
        effect = "lets each node pass; it " if where == "predicates" else ""
        notices.append(f"{place}: {effect}needs another name, and the argument {rules[title].member}")
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
    if where == "priorities" and f"{title}Priority" in known_names(where):
        return f'unknown priority "{title}"; did you mean "{title}Priority"?'
    if title in known_names(elsewhere) and title not in NAMES_OF_OLD:
        return f'"{title}" is a {NOUNS[elsewhere]}; name it among the {elsewhere}'
    meant = next((rule.name for rule in CATALOGUES[where].values() if rule.plugin == title), title)
    return f'unknown {NOUNS[where]} "{title}"{did_you_mean(meant, known_names(where))}'


def set_up(rule, title, entry, weight, settings):
    """Return a rule with what a file says of it, filled in where its functions take that.

    settings: {parameter: value}; among them, as `arguments`, those of the entries that name the rule. Raises
    InputError; TypeError if no function takes a setting.
    """
    arguments = settings.get("arguments", [])
    if has_own_fields(rule):
        arguments = [rule.default | argument for argument in arguments or [{}]]
    check_arguments(rule, arguments, entry)
    if rule.argument is not None:
        settings = settings | {"arguments": arguments}
    filled = {}  # the rule's functions, which need no more of what is known already
    taken = {"arguments"}
    functions = {option: getattr(rule, option) for option in ("function", "metadata", "reduce")}
    for option, function in (rule.hooks | functions).items():
        parameters = inspect.signature(function).parameters if function else {}
        known = {name: value for name, value in settings.items() if name in parameters}
        taken |= known.keys()
        filled[option] = functools.partial(function, **known) if known else function
    if not settings.keys() <= taken:
        raise TypeError(f"{rule.name} has no setting {', '.join(settings.keys() - taken)}")
    hooks = {point: filled.pop(point) for point in rule.hooks}
    return replace(rule, title=title, weight=weight, settings=settings, hooks=hooks, **filled)


def check_arguments(rule, arguments, entry):
    """Raise InputError if a rule does not have the arguments that it needs, or says that they are wrong."""
    if rule.member and rule.name in PRIORITIES and not arguments:
        raise InputError(f"{entry}: needs another name, and the argument {rule.member}")
    if has_own_fields(rule):  # of the others all may be left out
        for name in rule.argument:
            if any(name not in argument for argument in arguments):
                raise InputError(f'{entry}: the argument lacks "{name}"; "{rule.name}" needs it')
    if rule.check:
        try:
            problems = strings_of(rule, rule.check(arguments), rule.check)
        except (Exception, SystemExit) as error:
            problems = [what_broke(error)]
        refuse([f"{entry}: {problem}" for problem in problems])


##########################################################################################################
# PART V. THE LIVE CLUSTER                                                                               #
# What is read, what waits, what is written, and by which thread.                                        #
##########################################################################################################

import ctypes
import enum
import errno
import gc
import queue
import socket
import uuid
from datetime import datetime, timezone
from urllib.parse import urlencode


# ==== 28. Requests and threads ==========================================================================


THREADS = 64  # that write at a time
JSON = "application/json"


class PooledProxy(Proxy):
    """The API server behind kubectl proxy, for many threads, and to watch."""

    def __init__(self, server):
        self.server = server.rstrip("/")
        timeout = urllib3.Timeout(connect=5, read=60)
        # One for each thread that writes, for each resource that is watched, for lists, and for the Lease.
        most = THREADS + len(GROUPS) + 2
        self.pool = urllib3.connection_from_url(server, maxsize=most, retries=False, timeout=timeout)

    def writer(self):
        """Return what writes to it."""
        return Writer(self)

    def request(self, method, path, body=None, params=None, accept=JSON):
        """Send a request and return the answer's JSON. Raises ApiError; its text says what to do."""
        return self.content(self.send(method, path, body, params, accept), method, path)

    def get(self, path, params=None, accept=JSON):
        """Return what the API server answers within a minute. Raises ApiError."""
        return within(60, self.request, "GET", path, None, params, accept, whom=self.server, stop=STOP)

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
        try:
            yield from map(read_json, filter(bytes.strip, answer))
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
            if status == 403:
                message = f"not let through, as by kubectl proxy's --accept-hosts or --reject-paths: {start}"
        elif succeeded:
            return content
        else:
            message = str(content.get("message"))
            if status == 403 and re.search('User ".*" cannot ', message):  # RBAC's own words
                message = f"RBAC does not allow it: {message}"
        text = f"{method} {path}: {status} {answer.reason}: {message}"
        if "etcdserver: request is too large" in message:  # it comes as 500, or as 409
            raise TooLarge(413, text)
        raise Unreadable(0, text) if succeeded else error_of(status, text)


class TooLarge(ApiError):
    """What was to be written is larger than etcd takes."""


class Conflict(ApiError):
    """Somebody else was faster (409): it was written meanwhile, or another replica leads."""


class NotFound(ApiError):
    """There is no such thing (404)."""


def error_of(status, message):
    """Return the ApiError that a status means; 0: no API server answered."""
    if status in (0, 429) or status >= 500:
        return Trouble(status, message)
    kind = {404: NotFound, 409: Conflict}.get(status, ApiError)
    return kind(status, message)


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


def share_memory_among_threads():
    """Have threads take memory from two places. By default glibc gives each its own, and keeps most of it.

    The script then takes half as much. Other C libraries do not have this, nor need it.
    """
    arena_max = -8  # M_ARENA_MAX, see mallopt(3)
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(arena_max, 2)


def backoff(attempts, initial=1, most=10):
    """Return the seconds to wait after so many failures: 1, 2, 4, 8 and so on, up to `most`."""
    return min(initial * 2 ** min(attempts - 1, 30), most)


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


# ==== 29. List and watch ================================================================================

# A resource is listed once. Then the API server is asked to tell what changes: it answers with a stream of
# events, an object in each (watch). All of Kubernetes reads like this, by a Reflector for each resource.


def path_of(resource):
    """Return the path of a resource, such as nodes or apis/policy/v1/poddisruptionbudgets."""
    return f"/{resource}" if "/" in resource else f"/{GROUPS[resource]}/{resource}"


def selector_of(resource):
    """Return the field selector by which a resource is listed, and watched."""
    return Cluster.UNFINISHED if resource == "pods" else ""


METADATA = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def list_all(api, resource, selector="", names_only=False):
    """Return all objects of a resource, listed page by page, and the version of the list. Raises ApiError.

    names_only: without more than their metadata, and as the API server has them cached: that may lag.
    """
    page = {"fieldSelector": selector, "limit": 500}
    params = page | {"resourceVersion": "0"} if names_only else page
    things = []
    while params:
        try:
            try:
                answer = patiently(api.get, path_of(resource), params, METADATA if names_only else JSON)
            except Unreadable:
                answer = readable_page(api, resource, params)
            if "items" not in answer:  # no API server says this, and to believe it would overcommit nodes
                raise Malformed("items: is missing")
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
    path = path_of(resource)
    page = api.get(path, params, METADATA)
    group, _, kind = path.rpartition("/")
    things = []
    for named in pick(page, list, "items", of=dict):
        namespace = text_at(named, "metadata", "namespace")
        place = f"namespaces/{namespace}/{kind}" if namespace else kind
        try:
            things.append(api.get(f"{group}/{place}/{text_at(named, 'metadata', 'name')}"))
        except ApiError as error:
            if not isinstance(error, (Unreadable, NotFound)):
                raise
            warn_once(f"{resource} {key_in(named)} is left out: {error}")
    return page | {"items": things}


STREAM_SECONDS = 20  # for which a stream is asked for; shortly before its end, a bookmark says the version
RECONNECT_SECONDS = 15  # in which watches go on after an outage; if they do not, that is said
SILENCE_SECONDS = 30  # after which what is known of a resource is too old to decide by: it is listed


class Reflector:
    """Lists a resource, then has the API server tell what changes. Upstream: client-go's Reflector.

    Its thread puts news into a queue, (resource, what, content): LISTED, and all objects with the version of
    that list; or ADDED, MODIFIED or DELETED, and the object.
    """

    def __init__(self, api, resource, version, news):
        self.api = api
        self.resource = resource
        self.version = version  # of what was told last; "": it has to be listed
        self.news = news
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
        """Tell of all objects; what is watched then begins where this list ends. Raises ApiError."""
        things, self.version = list_all(self.api, self.resource, selector_of(self.resource))
        self.heard_at = time.monotonic()
        self.news.put((self.resource, "LISTED", (things, self.version)))

    def work(self):
        """Watch, for ever. Where the versions since are gone, or it cannot be watched, list again."""
        while True:
            began = time.monotonic()
            self.failures += 1  # unless this stream tells something, or lasts
            try:
                if not self.version:
                    self.list()
                self.watch()
                if time.monotonic() > began + STREAM_SECONDS / 2:
                    self.hear()
            except Exception as error:
                if not isinstance(error, Trouble):
                    self.version = ""
                if is_answer(error, 403):
                    warn_once(f"{error}; until that is allowed, {self.resource} are listed every 10 s")
                self.trouble = str(error)  # an error keeps what its frames hold: half a list, a stream
            pause = backoff(max(self.failures, 1))
            time.sleep(max(0, began + pause - time.monotonic()))

    def watch(self):
        """Pass on what changes until the stream ends. Raises ApiError, Malformed."""
        params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": STREAM_SECONDS,
                  "fieldSelector": selector_of(self.resource), "resourceVersion": self.version}
        stream = self.api.watch(path_of(self.resource), params, silence=STREAM_SECONDS + 5)
        for event in stream:
            what = pick(event, str, "type")
            thing = pick(event, dict, "object")
            if what not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"):
                raise Malformed(f"the watch of {self.resource} is answered with something else than events")
            if what == "ERROR":  # in most cases, 410: the versions since the last one are gone
                raise ApiError(410, f"the watch of {self.resource} ends: {text_at(thing, 'message')}")
            self.hear()
            if what != "BOOKMARK":
                self.news.put((self.resource, what, thing))
            self.version = pick(thing, str, "metadata", "resourceVersion")


# ==== 30. The cache =====================================================================================

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
        self.versions = {}  # resource -> the version of its last list
        self.overtaken = set()  # resources of which a Reflector has brought an older list than that
        self.silent_since = math.inf  # when it was first found that watches tell nothing

    def __missing__(self, resource):
        if "/" not in resource and resource not in GROUPS:
            expected = f"apis/GROUP/VERSION/RESOURCE or one of {', '.join(GROUPS)}"
            raise LookupError(f'snapshot.objects["{resource}"]: expected {expected}')
        self.list(resource)
        return self[resource]

    def refresh(self):
        """List nodes and pods, and all else when a rule looks at it, unless watches tell of it."""
        silent = self.silent()
        heard = self.reflectors.keys() - silent - self.overtaken
        for resource in self.keys() - heard - {"nodes", "pods"}:
            del self[resource]
        for resource in ("nodes", "pods"):
            if resource not in heard:
                self.list(resource)
        self.overtaken.clear()
        moment = time.monotonic()
        self.silent_since = min(self.silent_since, moment) if silent else math.inf
        for resource in silent if moment > self.silent_since + RECONNECT_SECONDS else ():
            why = self.reflectors[resource].trouble.partition("; is ")[0]
            hint = "does something between the script and the API server hold streams back?"
            what = f"watches, as that of {resource}, tell nothing ({why})"
            warn_once(f"{what}: nodes and pods are listed in each pass; {hint}", about="watches")

    def silent(self):
        """Return the resources of which watches tell nothing."""
        return sorted(name for name, reflector in self.reflectors.items() if not reflector.is_heard())

    def doubt(self, why):
        """Have nodes and pods listed until their watches tell something again."""
        self.silent_since = -math.inf
        for resource in self.reflectors.keys() & {"nodes", "pods"}:
            self.reflectors[resource].trouble = why
            self.reflectors[resource].heard_at = -math.inf

    def list(self, resource):
        """List a resource, take it in, and have it watched. Raises ApiError."""
        try:
            things, version = list_all(self.api, resource, selector_of(resource))
        except NotFound:
            if resource != "csistoragecapacities":
                raise
            self[resource] = {}  # an API server that does not know it yet has none
            return
        self.take_list(resource, things, version)
        if resource not in self.reflectors:
            self.watch(resource, version)

    def watch(self, resource, version):
        """Have a thread tell what changes of a resource from this version on."""
        gc.freeze()  # or else each full collection looks at all of it, and all threads wait for seconds
        reflector = Reflector(self.api, resource, version, self.news)
        in_background(reflector.work)
        self.reflectors[resource] = reflector

    def take_list(self, resource, things, version):
        """Take in all objects of a resource, as they were at a version; what is missing has gone."""
        self.versions[resource] = version
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
                self.take_news_of_all(resource, *content)
                continue
            if resource not in copied:
                self[resource] = dict(self[resource])
                copied.add(resource)
            self.take(resource, content, has_gone=what == "DELETED")

    def take_news_of_all(self, resource, things, version):
        """Take in what a Reflector has listed; if the loop seems to have listed later, have it list again."""
        if is_older(version, self.versions[resource]):
            self.overtaken.add(resource)
        else:
            self.take_list(resource, things, version)

    def take(self, resource, thing, has_gone):
        """Take in what an object is by now, or was when it went, unless a list was quicker to say so."""
        key = key_in(thing)
        known = self[resource]
        before = known.get(key)
        if has_gone:  # of its name there may be another one by now
            if text_at(before, "metadata", "uid") == text_at(thing, "metadata", "uid"):
                known.pop(key, None)
                self.changed(resource, key, None)
        elif not (is_older(version_of(thing), version_of(before)) or is_same(before, thing)):
            known[key] = thing
            self.changed(resource, key, thing)


class ListedObjects(Objects):
    """Those that are listed in each pass, as nobody tells what changes: of manifests."""

    def watch(self, resource, version):
        """Leave it at the list."""


def version_of(thing):
    """Return the resourceVersion of an object, or ""."""
    return text_at(thing, "metadata", "resourceVersion")


def is_same(thing, other):
    """Say whether the JSON of an object is what it was."""
    version = version_of(thing)
    return thing is other or (version != "" and version == version_of(other))


def is_older(version, other):
    """Say whether a resourceVersion is earlier than another one, as far as both are numbers."""
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)


class UnreadPod(Pod):
    """One that cannot be read, except who it is, and where. Nothing may be added to its node."""

    def __init__(self, raw):
        metadata = {name: text_at(raw, "metadata", name) for name in ("namespace", "name", "uid")}
        gates = [{"name": "it cannot be read"}]  # so that it is not tried
        spec = {"nodeName": text_at(raw, "spec", "nodeName"), "schedulingGates": gates}
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


class CachedNodes(dict):
    """{name: Node}, and on which of them pods count; also of nodes that do not exist, but have pods."""

    def __init__(self, snapshot):
        super().__init__()
        self.snapshot = snapshot
        self.snapshot_is_old = False  # whether by now other nodes can take pods

    def __missing__(self, name):
        node = self[name] = Node({"metadata": {"name": name}})
        node.exists = False
        return node

    def take(self, name, raw):
        """Take in a node; None: it has gone. The pods on it stay, as it may come again.

        Return whether pods may fit it that did not before.
        """
        node = self[name]
        read = read_or_warn(Node, raw) if raw else None
        if node.exists != bool(read):
            node.exists = bool(read)
            self.snapshot_is_old = True
        if not read:
            return False
        node.raw = raw
        said = scheduling_properties(read)
        if said == scheduling_properties(node):  # it is a heartbeat, for example
            return False
        vars(node).update(said)
        self.snapshot.note_change(node)
        return True

    def place(self, pod, name):
        """Have a pod count on the node of this name, and on no other one; "": on none."""
        self.snapshot_is_old |= isinstance(pod, UnreadPod)
        was_on = pod.counts_on
        pod.counts_on = name
        if was_on == name:
            return
        if was_on:
            node = self[was_on]
            self.snapshot.take_off(pod, node)
            if not (node.exists or node.pods):  # pods may name nodes that there never were
                del self[was_on]
        if name:
            self.snapshot.put(pod, self[name])

    def renew_snapshot(self):
        """Give the snapshot the nodes that can take pods, by their names. Return whether it had others."""
        self.snapshot_is_old = False
        nodes = {name: node for name, node in sorted(self.items()) if can_take_pods(node)}
        gone = [name for name, node in self.items() if not (node.exists or node.pods)]
        for name in gone:
            del self[name]
        if nodes == self.snapshot.nodes:
            return False
        self.snapshot.nodes = nodes  # a node of a name may be another one by now
        self.snapshot.memory = Memory()
        return True


def can_take_pods(node):
    """Say whether a node exists, and each pod on it can be read: else nobody knows what is free there."""
    return node.exists and not any(isinstance(pod, UnreadPod) for pod in node.pods.values())


class Cache:
    """What follows for nodes and pods from what is known of them. Upstream: internal/cache.

    A pod counts where it is assumed to be until the API server shows it on a node, or that it has gone; or
    until it is forgotten, as its binding has failed.
    """

    def __init__(self, api, is_live, kind_of_objects):
        self.objects = kind_of_objects(api, self.take)
        self.snapshot = FullSnapshot({}, self.objects, is_live)
        self.nodes = CachedNodes(self.snapshot)
        self.pods = {}  # namespace/name -> Pod, of those that have not ended
        self.arrived = {}  # uid -> Pod, of those for a Policy that have come, or changed, while they wait
        self.has_changed = False  # so that pods that fitted nowhere may fit now

    def refresh(self):
        """Take in what there is by now: the news, or else lists, which are newer. Raises ApiError."""
        self.take_news()
        self.objects.refresh()
        self.take_news()

    def keep_up(self):
        """Take in the news while another replica leads, so that this one may lead at once."""
        with contextlib.suppress(ApiError):  # which the loop meets, once it runs
            self.refresh()
        self.arrived.clear()  # all that wait will be listed

    def take_news(self, patience=0):
        """Take in what Reflectors have told; if that is nothing, wait so many seconds for some."""
        self.objects.take_news(patience)
        if self.nodes.snapshot_is_old:
            self.has_changed |= self.nodes.renew_snapshot()

    def take(self, resource, key, thing):
        """Take in an object that has come or changed; None: it has gone."""
        come_round()  # there may be very many
        if resource == "nodes":
            self.has_changed |= self.nodes.take(key, thing)
        elif resource == "pods":
            self.take_pod(key, thing)
        else:
            self.has_changed = True

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
        pod.node_name = text_at(raw, "spec", "nodeName")
        pod.phase = text_at(raw, "status", "phase")
        if pod.node_name != was_on:
            self.nodes.place(pod, pod.node_name)
            self.has_changed = True

    def exchange(self, key, before, pod):
        """Have a pod count instead of the one that has had its name; None: there is none, or there was none.

        If it is the same one, which says something else now, it keeps the place where it is assumed.
        """
        assumed_on = before.counts_on if before and pod and before.uid == pod.uid else ""
        if before:
            del self.pods[key]
            self.nodes.place(before, "")
        if pod:
            self.pods[key] = pod
            self.nodes.place(pod, pod.node_name or assumed_on)
        self.has_changed |= bool(before or (pod and pod.node_name))
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
        for each in filter(None, (before, pod)):
            if each.nominated_node or not self.still_waiting(each):
                nominated = [other for other in nominated if other.uid != each.uid]
        if pod and pod.nominated_node and not (pod.node_name or pod.terminating):
            nominated = [*nominated, pod]
        self.snapshot.nominated = nominated

    def forget(self, pod):
        """Take a pod off the node on which it is assumed, unless the API server shows it on one by now."""
        self.has_changed = True  # others have met it there
        latest = self.still_waiting(pod)
        if latest:
            self.nodes.place(latest, "")

    def still_waiting(self, pod):
        """Return a pod as it is by now; or None, if the API server shows that it has gone, or is bound."""
        latest = self.pods.get(pod.key)
        is_waiting = latest and latest.uid == pod.uid and not latest.node_name
        return latest if is_waiting else None


# ==== 31. The life of a pending pod =====================================================================

# A pending pod waits for one of five things, one after another:
#
#   NODE       a node that fits. When there is one, the pod is assumed: it has room there (rules: reserve).
#   PERMIT     that all rules allow the binding (permit). They are asked in each pass.
#   PRE_BIND   that what rules want done first has been done, such as to a claim (pre_bind). Likewise.
#   BINDING    that its Binding is written, and answered.
#   NEWS       that the API server shows it on its node; in a dry run, for ever.
#
# It falls back to the first if a rule refuses, its node or the pod goes, a write fails, or its Policy
# changes before BINDING. Then it gives up its room (rules: unreserve), and backs off for 1, 2, 4, ... 10
# seconds. After that it is tried again; if it fitted nowhere, only if something has changed, or after a
# minute. If ten pods meet 5xx, 429 or no answer, and none is bound meanwhile, the pass ends.


class WaitsFor(enum.Enum):
    """What a pending pod waits for."""

    NODE = "node"
    PERMIT = "permit"
    PRE_BIND = "pre_bind"
    BINDING = "binding"
    NEWS = "news"


@dataclass
class PodRecord:
    """What is remembered of a pending pod from pass to pass. Times are in monotonic seconds."""

    pod: Pod  # as it is by now

    # What it waits for:
    waits_for: WaitsFor = WaitsFor.NODE
    since: float = 0  # when it began to wait for that; for a node: it came, or the last attempt failed
    decision: Decision | None = None  # by which it has its node, as long as rules are asked
    changed: list = field(default_factory=list)  # of objects in memory, for it: (part, name, value before)

    # When it is tried again:
    policy: FullPolicy | None = None  # by which it is tried
    attempts: int = 0  # that have failed
    has_met_trouble: bool = False  # of the API server, at the last of them
    backoff_ends: float = 0
    retry_at: float = 0
    pops_from_backoff: bool = False  # a change ends its backoff, if there is nothing else to do
    may_pop: bool = False  # there was such a change
    began_at: float = 0  # when its turn in this pass began
    took: float = 0  # seconds that the loop has spent on it then

    # What people were told:
    reported: tuple | None = None  # in the terminal, or the page
    written: str | None = None  # the message of its last event, and of its condition PodScheduled
    event: tuple | None = None  # the request that recorded that event
    say_again_at: float = 0  # when the event may be counted up
    writing: threading.Lock = field(default_factory=threading.Lock, repr=False)  # held while of it is written

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
        """Take the pod as it is by now, to decide about it: it may have changed since the pass began."""
        self.renew(pod)
        self.began_at = time.monotonic()
        self.pops_from_backoff = False
        self.may_pop = False

    def end_turn(self):
        """Note how long the loop has spent on the pod."""
        self.took = time.monotonic() - self.began_at

    def meet(self, error):
        """Note what the pod has met; return whether that is trouble of the API server."""
        self.has_met_trouble = isinstance(error, Trouble)
        return self.has_met_trouble

    def wait_for(self, what, decision=None):
        """Have the pod wait for something; nothing else changes that. A decision is kept for rules only."""
        if what is not self.waits_for:
            self.since = time.monotonic()
        self.waits_for = what
        self.decision = decision

    def back_off(self, decision):
        """Have the pod wait for a node again: for a while; if none fitted, for longer, or until a change."""
        seconds = seconds_to_wait(decision)
        unless_changed = decision.policy.unschedulable_seconds if decision.fits_nowhere else 0
        self.pops_from_backoff = decision.fits_nowhere and decision.policy.pops_from_backoff
        self.wait_for(WaitsFor.NODE)
        self.put_back()
        self.attempts += 1
        self.since = time.monotonic()
        self.backoff_ends = self.since + seconds
        self.retry_at = self.since + max(seconds, unless_changed)

    def retry_after_backoff(self):
        """Have the pod tried once its backoff is over, or in it: something has changed since its attempt."""
        self.retry_at = min(self.retry_at, self.backoff_ends)
        self.may_pop = self.pops_from_backoff

    def is_being_prepared(self):
        """Say whether what rules have had written before the binding is to take effect."""
        return self.waits_for is WaitsFor.PRE_BIND

    def is_due(self):
        """Say whether this pass has to do with the pod."""
        if self.waits_for is WaitsFor.NODE:
            return time.monotonic() >= self.retry_at
        return not self.may_be_bound()

    def may_be_bound(self):
        """Say whether its Binding was sent, or is about to be."""
        return self.waits_for in (WaitsFor.BINDING, WaitsFor.NEWS)

    def obey(self, policy):
        """Have the pod tried again, by another Policy."""
        self.policy = policy
        self.retry_now()

    def retry_now(self):
        """Have the pod tried again, whether or not its backoff is over."""
        self.retry_at = 0

    def note_event(self, message, request):
        """Note which message people are told, and by which event; it may be counted up after a while."""
        self.written = message
        self.event = request
        self.say_again_at = time.monotonic() + random.uniform(1, 2) * SAY_AGAIN_SECONDS

    def say_anew(self, message):
        """Have people told this again with the next attempt, unless it is not what they are told by now."""
        if self.written == message:
            self.written = None

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
    usual = backoff(record.attempts + 1, policy.initial_backoff, policy.max_backoff)
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
        self.pops_at = 0  # when pods may be tried in their backoff: passes take a twentieth of the time then

    def renew(self, listed, policies):
        """Return the pods that are to be tried, in this order: those listed, and others, as lists lag.

        Each has its record. All that have gone are forgotten. If there is another Policy for a pod by now, it
        is tried again; if it waits for rules of the old one, it falls back first.
        """
        known = [self.cache.still_waiting(record.pod) for record in self.values()]
        pods = {pod.uid: pod for pod in [*known, *listed] if pod and is_for(pod, policies)}
        moment = time.monotonic()
        for uid, pod in pods.items():
            if uid not in self:
                self[uid] = PodRecord(pod, since=moment)
            record = self[uid]
            record.renew(pod)
            if record.policy is not policies[pod.scheduler]:
                if record.decision:
                    self.cycle.fall_back(record.decision)
                record.obey(policies[pod.scheduler])
        for uid in [uid for uid in self if uid not in pods]:
            record = self[uid]
            if record.decision:
                self.cycle.fall_back(record.decision)
            is_unanswered = record.waits_for is WaitsFor.BINDING
            is_unseen = record.waits_for is WaitsFor.NEWS and self.cache.still_waiting(record.pod)
            if not (is_unanswered or is_unseen):
                del self[uid]
                record.pod.record = None  # else they keep each other
        return self.in_order(pods.values(), policies)

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

    def due(self, pods):
        """Return those of the pods that are due; if none is, those that may be tried in their backoff."""
        due = [pod for pod in pods if pod.record.is_due()]
        if not due and time.monotonic() >= self.pops_at:
            return [pod for pod in pods if pod.record.may_pop]
        return due

    def note_pass(self, began_at):
        """Note that a pass ends which began then."""
        moment = time.monotonic()
        self.pops_at = max(self.pops_at, moment + 2 * BRAKE * (moment - began_at))

    def could_pop(self):
        """Say whether something has changed, so that pods may be tried in their backoff."""
        is_waited_for = any(record.pops_from_backoff for record in self.values())
        return self.cache.has_changed and is_waited_for and time.monotonic() >= self.pops_at

    def is_to_be_tried(self, pod, began_at):
        """Say whether a pod is new; or else due, and this pass has lasted for a while."""
        if not is_for(pod, self.cache.snapshot.policies):
            return False
        record = self.get(pod.uid)
        return not record or (record.is_due() and time.monotonic() > began_at + 0.1)

    def end_backoff(self):
        """Have all pods tried again."""
        for record in self.values():
            record.retry_now()


def is_for(pod, policies):
    """Say whether the pod is to be tried by one of these Policies."""
    return pod.scheduler in policies and ready(pod, policies[pod.scheduler])


SEVERAL = 10  # if so many pods have met trouble of the API server, it is not up to these


class BindingCycle:
    """What becomes of a pod once there is a decision: each method is a step of that.

    It runs in the loop's thread. Upstream: schedule_one.go.
    """

    def __init__(self, cache, writer, recorder):
        self.cache = cache
        self.writer = writer
        self.recorder = recorder
        self.under_way = 0  # how many Bindings are being written
        self.failing = []  # the Trouble that pods have met in this pass, since one was bound
        self.has_failed = False  # whether a rule has broken, there was trouble, or a write has failed

    def assume(self, decision):
        """Put the pod on its node, and have the rules take note of that (reserve)."""
        node = self.cache.snapshot.nodes[decision.node]
        self.cache.nodes.place(decision.pod, node.name)
        decision.pod.record.wait_for(WaitsFor.PERMIT, decision)
        try:
            for rule in decision.policy.rules_with["reserve"]:
                call_hook(rule, "reserve", decision.pod, node, self.cache.snapshot)
        except (Exception, SystemExit) as error:
            decision.give_up(error)

    def ask_rules(self, decision):
        """Ask rules whether a pod may be bound by now (permit, pre_bind). Return what to send first."""
        if not decision.node:  # a rule has refused already to reserve it
            return []
        requests = []
        decision.trouble = None
        decision.condition_reason = "Unschedulable"
        record = decision.pod.record
        node = self.cache.snapshot.nodes.get(decision.node)
        try:
            if node is None:
                raise Unschedulable(f"node {decision.node} has gone")
            if record.waits_for is WaitsFor.PERMIT:
                decision.waits = why_held(decision, node, self.cache.snapshot)
                if decision.waits:
                    return []
            decision.condition_reason = "SchedulerError"  # of what is wrong now; as kube-scheduler's PreBind
            requests, decision.waits = what_comes_first(decision, node, self.cache.snapshot)
            if decision.waits:
                record.wait_for(WaitsFor.PRE_BIND, decision)
            else:
                record.wait_for(WaitsFor.BINDING)
        except (Exception, SystemExit) as error:
            record.put_back()  # what rules have set aside in memory; what is written comes again as news
            if isinstance(error, Trouble):  # of the API server: then it waits, as it stands
                decision.trouble = error
                decision.waits = decision.waits or one_line(error)
            else:
                decision.give_up(error)
        return requests

    def put_off(self, decision):
        """Have a pod that has no node back off, and say why it stays pending."""
        self.end_turn(decision)
        self.fall_back(decision)
        self.has_failed |= self.writer.try_to_send(decision.requests)
        reason = decision.condition_reason
        self.recorder.say(decision, "Warning", "FailedScheduling", reason, decision.message)

    def bind(self, decision, requests):
        """Have a thread bind a pod that has its node; or send first what rules want sent."""
        record = decision.pod.record
        self.end_turn(decision)
        try:
            if record.waits_for is not WaitsFor.BINDING:
                self.writer.send(requests)
                self.recorder.say(decision, "Normal", "Waiting", "Waiting", decision.waits)
            else:
                self.writer.bind(decision, self.recorder)
                self.under_way += 1
        except Exception as error:
            self.take_failure(decision, error)

    def end_turn(self, decision):
        """Note how long the loop has spent on the pod, and what went wrong."""
        decision.pod.record.end_turn()
        self.has_failed |= decision.rule_has_broken
        self.note_trouble(decision, decision.trouble)

    def note_trouble(self, decision, error):
        """Note whether what a pod has met is trouble of the API server."""
        if decision.pod.record.meet(error):
            self.failing.append(error)
            self.has_failed = True

    def raise_trouble(self):
        """If several pods have met trouble, raise it: the pass ends."""
        if len(self.failing) >= SEVERAL:
            raise self.failing.pop()

    def fall_back(self, decision):
        """Have a pod wait for a node again: give up its room, have the rules forget it, have it back off."""
        record = decision.pod.record
        had_room = record.waits_for is not WaitsFor.NODE
        record.back_off(decision)
        if had_room:
            self.cache.forget(decision.pod)
            self.has_failed |= self.writer.try_to_send(unreserve(decision, self.cache.snapshot))

    def take_answers(self, patience=0.5):
        """Take in how Bindings have ended; for those under way wait so many seconds."""
        until = time.monotonic() + patience
        while self.under_way:
            try:
                decision, error = self.writer.answered.get(timeout=max(until - time.monotonic(), 0))
            except queue.Empty:
                return
            self.under_way -= 1
            if error:
                self.take_failure(decision, error, heading="binding rejected: ")
            else:
                decision.pod.record.wait_for(WaitsFor.NEWS)
                self.failing.clear()

    def take_failure(self, decision, error, heading=""):
        """Have a pod fall back for which something could not be written."""
        pod = decision.pod
        self.fall_back(decision)
        self.note_trouble(decision, error)
        is_known = isinstance(error, (ApiError, Unschedulable))
        why = one_line(error) if is_known else what_broke(error)
        is_failure = warn_of_failure(error, f"{pod.key}: {why}")
        self.has_failed |= is_failure
        is_answered = not is_answer(error, 0, 429)
        if is_failure and is_answered:  # else it might well not be told either
            self.recorder.say(decision, "Warning", "FailedScheduling", "SchedulerError", f"{heading}{why}")

    def finish(self, seconds, stop=None):
        """Wait until all is written, but no longer than this, or until `stop` is set."""
        until = time.monotonic() + seconds
        while self.under_way or self.writer.tasks.unfinished_tasks:
            if time.monotonic() > until or (stop and stop.is_set()):
                break
            come_round()
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
    if isinstance(error, (Conflict, NotFound)):
        return False
    warn_once(text, about="no answer to a write" if is_answer(error, 0) else None)
    return True


def is_answer(error, *statuses):
    """Say whether an error is that of a request, and has one of these statuses; 0: no answer came."""
    return isinstance(error, ApiError) and error.status in statuses


# ==== 32. What is written ===============================================================================

# Threads write Bindings, and tell people. What rules want sent, the loop has sent, and waits for that. In a
# dry run nothing is written. Nor does a replica write that does not lead (`attempt`), except that it says
# which pods it has bound (`announce`). A request that fails with 5xx is sent up to three times (patiently).


HOOK_SECONDS = 60  # for which a rule's bind may keep a thread, and its post_bind, too


class Writer:
    """Sends requests, in threads of its own."""

    is_live = True  # controllers act on what is written
    patience = 5  # seconds to wait for a free thread

    def __init__(self, api):
        self.api = api
        self.may_write = lambda: True  # whether this replica leads
        self.threads = 0  # that have been started
        self.tasks = queue.Queue()  # what threads are to do: (function, arguments)
        # For the loop: (decision, why its Binding has failed, or None). Before Python 3.11 a SimpleQueue that
        # is to wait for hardly any time may wait for ever.
        self.answered = queue.Queue()

    def bind(self, decision, recorder):
        """Have a thread bind a pod, and let the loop know how that has ended. Raises Trouble."""
        self.start(bind_and_tell, decision, self, recorder)

    def start(self, function, *arguments):
        """Have a thread call a function, as soon as one is free. Raises Trouble."""
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
            raise Conflict(409, "this replica does not lead any more")
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
        """Send what rules want sent, though nothing depends on it. Return whether that has failed."""
        try:
            self.send(requests)
            return False
        except Exception as error:  # what a rule wants sent may be anything
            return warn_of_failure(error, str(error) if isinstance(error, ApiError) else what_broke(error))

    def bound_by(self, decision):
        """Have a rule or an extender bind the pod. Return which one says that it has, or None."""
        return self.ask_binders(decision, decision.policy.extenders)

    def ask_binders(self, decision, extenders):
        """Ask the rules, then these extenders, to bind the pod, until one says that it has; return which."""
        pod = decision.pod
        binders = [(f"rule {rule.title or rule.name}", functools.partial(call_in_time, rule, "bind"))
                   for rule in decision.policy.rules_with["bind"]]
        binders += [(f"extender {extender.url}", extender.bind)
                    for extender in extenders if extender.cares("bindVerb", pod)]
        return next((who for who, bind in binders if self.may_write() and bind(pod, decision.node)), None)

    def place_of(self, pod):
        """Return the node on which a pod is, or "", whatever was answered: the answer may have been lost.

        As long as the API server does not tell, it is asked again, and the pod keeps its room.
        """
        for attempt in itertools.count(1):
            try:
                raw = self.api.request("GET", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")
                uid = text_at(raw, "metadata", "uid")
                if uid:  # else it is no pod, so that no API server says it
                    return text_at(raw, "spec", "nodeName") if uid == pod.uid else ""
            except NotFound:  # it has gone
                return ""
            except ApiError as error:
                if error.status == 403:  # nobody may ask
                    return ""
            time.sleep(backoff(attempt))


class WriterOfManifests(Writer):
    """Writes to manifests, among which nobody but the script binds pods."""

    is_live = False
    patience = 2 * HOOK_SECONDS  # as nobody but rules takes long

    def bound_by(self, decision):
        """Ask the rules only. Whatever they have done, a Binding is to follow."""
        self.ask_binders(decision, [])

    def place_of(self, pod):
        """Say that the pod is on none: what is carried out is always answered."""
        return ""


class DryRun(Writer):
    """Writes nothing."""

    is_live = False

    def bind(self, decision, recorder):
        """Let the loop know that it has ended well."""
        self.answered.put((decision, None))

    def start(self, function, *arguments):
        """Leave it."""

    def send(self, requests):
        """Leave it."""


def bind_and_tell(decision, writer, recorder):
    """Bind the pod, and let the loop know. If it is bound, tell people and rules so."""
    pod = decision.pod
    try:
        with pod.record.writing:  # what says that the pod waits is written before, or not at all
            bind(decision, writer)
    except BaseException as error:  # by a rule even SystemExit
        place = writer.place_of(pod)
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
    bound_by = writer.bound_by(decision)
    if bound_by:
        if writer.place_of(pod) != node_name:
            raise Unschedulable(f"{bound_by} says that the pod is bound to {node_name}, and it is not")
        return
    try:
        answer = patiently(writer.attempt, *binding(pod, node_name))
    except TooLarge as error:
        raise Unschedulable(f"with its node, the pod is larger than etcd takes: {error}") from error
    if not text_at(answer, "kind"):  # which all has that an API server says
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
        if message != record.written:
            recorded = event(pod, kind, event_reason, at_most(1024, message))
            requests = recorded, pod_condition(pod, condition_reason, message)
        elif kind == "Warning" and time.monotonic() >= record.say_again_at:
            recorded = record.event
            requests = (counted_up(recorded),)
        else:
            return
        record.note_event(message, recorded)
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
        if record.may_be_bound():
            record.say_anew(message)  # which happens only if it is not bound after all
        elif not write_note(self.writer.attempt, request):
            record.say_anew(message)

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
        has_gone = isinstance(error, NotFound)
        if isinstance(error, Trouble) or (has_gone and "/events/" in request[1]):
            return False
        # Where the pod has gone, another one of its name is told 422.
        if not (isinstance(error, (Conflict, NotFound)) or error.status == 422):
            warn_once(str(error))
    return True


def counted_up(request):
    """Return the request that counts up an event which a request has recorded. Upstream: EventCorrelator."""
    _, path, body = request
    body["count"] += 1
    body["lastTimestamp"] = now()
    return "PATCH", f"{path}/{body['metadata']['name']}", {
        "count": body["count"], "lastTimestamp": body["lastTimestamp"]}


# ==== 33. The live cluster ==============================================================================

class WaitingPods:
    """Which pods wait for a scheduler of ours: by lists; and between these, for those that come, by news.

    The lists tell names only, and may lag: the pods themselves are as the cache has them, and those are left
    out that are known to have gone, or of which no news came yet.
    """

    LAG = 5  # seconds by which news may be behind a list, at most

    def __init__(self, api, cache):
        self.api = api
        self.cache = cache
        self.is_to_list = True  # whether they are listed the next time
        self.listed_at = 0  # when they were last listed, in monotonic seconds
        self.unheard = {}  # namespace/name of pods that are listed, and not told -> since when

    def find(self, policies):
        """Return the pods that name one of these schedulers, and have no node yet. Raises ApiError."""
        arrived = self.cache.arrived
        is_to_list = self.is_to_list or policies.keys() != self.cache.snapshot.policies.keys()
        self.is_to_list = True
        self.cache.snapshot.policies = dict(policies)  # from here on, pods arrive that name one of these
        if is_to_list:
            arrived.clear()  # these are listed now; who arrives later is met again in the next pass
            keys = self.list(policies)
            self.cache.refresh()
            self.prove_the_watch(keys)
        else:
            self.cache.refresh()
            keys = [pod.key for pod in arrived.values()]
            arrived.clear()
        pods = [self.cache.pods.get(key) for key in keys]
        return [pod for pod in pods if pod and pod.scheduler in policies and not pod.node_name]

    def list(self, policies):
        """List the pods that wait; return a dict whose keys are namespace/name."""
        self.listed_at = time.monotonic()
        keys = {}
        for name in policies:
            selector = f"{Cluster.UNFINISHED},spec.schedulerName={name},spec.nodeName="
            raws, _ = list_all(self.api, "pods", selector, names_only=True)
            keys |= dict.fromkeys(map(key_in, raws))
        return keys

    def prove_the_watch(self, keys):
        """List all pods anew if one is listed of which no news has come for long: others may lack, too."""
        unknown = keys.keys() - self.cache.pods.keys()
        self.unheard = {key: self.unheard.get(key, self.listed_at) for key in unknown}
        for key, since in self.unheard.items():
            if self.listed_at > since + self.LAG:
                self.cache.objects.doubt(f"in {self.LAG} s not of pod {key}, which is listed")
                self.cache.refresh()
                return

    def do_without_a_list(self, interval):
        """Have the next pass take the pods that have come, unless none has listed them for long."""
        self.is_to_list = time.monotonic() >= self.listed_at + max(interval, self.LAG)


class LiveCluster(Cluster):
    """What the loop works with: a cache that is kept up to date, a queue, threads that write."""

    OBJECTS = Objects  # how what there is becomes known

    def __init__(self, api, show=lambda decision: None, dry_run=False, at_rest=lambda: None):
        super().__init__(api, show)
        self.failed_passes = 0  # in a row, until now
        self.writer = DryRun(api) if dry_run else api.writer()
        self.cache = Cache(api, self.writer.is_live, self.OBJECTS)
        self.snapshot = self.cache.snapshot
        self.cycle = BindingCycle(self.cache, self.writer, Recorder(self.writer))
        self.pending = SchedulingQueue(self.cache, self.cycle)
        self.at_rest = at_rest  # is called when a pass is over
        self.waiting = WaitingPods(api, self.cache)
        self.began_at = 0  # when the last pass began, in monotonic seconds

    def begin_pass(self, policies):
        """Find out which pods are due. Raises ApiError."""
        pods = self.pending.renew(self.waiting_pods(policies), policies)
        if self.cache.has_changed:
            self.cache.has_changed = False
            for record in self.pending.values():
                record.retry_after_backoff()
        self.cycle.failing.clear()
        self.due = self.pending.due(pods)
        ready_at = time.monotonic()
        self.ends_at = ready_at + max(1, ready_at - self.began_at)

    def waiting_pods(self, policies):
        """Return the pods that name one of these schedulers, and have no node yet. Raises ApiError."""
        self.began_at = time.monotonic()
        return self.waiting.find(policies)

    def next_pod(self, stop):
        """Return the next pod to decide about; before, take in what has changed. Raises ApiError.

        About those that have a node and wait for rules, these are asked again. None ends the pass: before, it
        takes in how Bindings have ended. A pass that raises leaves that to the next one.
        """
        while pod := self.next_due(stop):
            decision = pod.record.decision
            if not decision:
                return pod
            self.go_on(decision)
            self.report(decision)
        self.pending.note_pass(self.began_at)
        self.cycle.take_answers()  # which pods the API server has bound, and which not
        self.cycle.raise_trouble()
        return None

    def next_due(self, stop):
        """Take in the news, and return the next pod to decide about. None ends the pass. Raises ApiError.

        If pods have come meanwhile, the pass ends after a second, as one of them may be more important; after
        lists that took longer, it takes as long as these, so that at least half of the time is for decisions.
        So it does if no news come, which are listed then.
        """
        while self.due:
            is_late = time.monotonic() > self.ends_at
            if stop.is_set() or (is_late and (self.has_come() or self.cache.objects.silent())):
                return None
            self.cycle.take_answers(patience=0)
            self.cycle.raise_trouble()
            self.writer.wait_for_a_free_thread()
            self.cache.take_news()
            pod = self.due.pop(0)
            latest = self.cache.still_waiting(pod)
            if latest and not (latest.terminating or latest.gates):  # else it is bound, goes, or is unread
                pod.record.begin_turn(latest)
                return latest
        return None

    def has_come(self):
        """Say whether a pod is to be tried that has come, or changed, since these were listed."""
        return any(self.pending.is_to_be_tried(pod, self.began_at) for pod in self.cache.arrived.values())

    def bind(self, decision):
        """Give the pod its room, ask the rules; if none is against it, have a thread POST the Binding."""
        self.cycle.assume(decision)
        self.go_on(decision)

    def go_on(self, decision):
        """Ask rules whether a pod may be bound by now to the node that it has; bind it, or put it off."""
        requests = self.cycle.ask_rules(decision)
        if decision.node:  # else one of the rules has refused
            self.cycle.bind(decision, requests)
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

    def end_pass(self, error=None):
        """Say once what has cut a pass short, unless a signal has."""
        super().end_pass(None if STOP.is_set() else error)
        self.failed_passes = self.failed_passes + 1 if self.last_error else 0

    def rest(self, seconds, stop):
        """Wait for so many seconds; after trouble, for longer. `stop` ends it; without trouble, work does."""
        self.at_rest()
        if self.last_error:
            CAME_ROUND.at = math.inf
            super().rest(max(seconds, backoff(self.failed_passes)), stop)
            self.cache.take_news()  # they would pile up while lists fail
            return
        nobody_came_before = not self.cache.arrived  # of those, a list is to say that they wait
        until = time.monotonic() + seconds
        while not (self.has_come() or self.pending.could_pop() or stop.is_set()) and time.monotonic() < until:
            self.cache.take_news(patience=0.1)
        if nobody_came_before and self.has_come():
            self.waiting.do_without_a_list(seconds)

    def has_failed(self):
        """Say whether a rule has broken, or there was trouble, or something is not written."""
        return bool(FAILURE.is_set() or self.cycle.has_failed or self.cycle.under_way or self.last_error)

    def look(self, policies=()):
        """Return the cluster as it is by now. Raises ApiError."""
        self.snapshot.policies = dict(policies)
        self.cache.refresh()
        return self.snapshot


class ListedCluster(LiveCluster):
    """One that is listed in each pass, and not watched: manifests, or what is looked at once."""

    OBJECTS = ListedObjects

    def has_come(self):
        """Say that no pod comes between the lists."""
        return False


# ==== 34. Several replicas, of which one leads ==========================================================

ELECTION = {"leaseDuration": 15, "renewDeadline": 10, "retryPeriod": 2}  # seconds, as kube-scheduler's


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
            holder = text_at(self.observed, "holderIdentity")
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
            if not isinstance(error, Conflict):
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
        except NotFound:
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": self.metadata}
            path = leases
            method = "POST"
        spec = pick(lease, dict, "spec")
        if spec != self.observed:
            self.observed = spec
            self.observed_at = time.monotonic()  # it may have been renewed until it was answered
        is_ours = spec.get("holderIdentity") == self.identity
        is_old = asked - self.observed_at >= self.lease_duration
        if spec.get("holderIdentity") and not is_ours and not is_old:
            self.renewed_at = -math.inf  # whatever this one has thought
            return False
        spec = {**spec, "holderIdentity": holder, "leaseDurationSeconds": math.ceil(self.lease_duration),
                "renewTime": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        if not is_ours:
            spec["acquireTime"] = spec["renewTime"]
            spec["leaseTransitions"] = min(spec.get("leaseTransitions", -1) + 1, 2**31 - 1)
        renewed_at = time.monotonic()  # others count from when they have seen that, which is later
        written = self.ask(method, path, lease | {"spec": spec})
        if text_at(written, "spec", "holderIdentity") != holder:
            raise Trouble(0, "the Lease was answered, but by no API server")
        self.written = written
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


# ==== 35. A cluster made of manifests ===================================================================

# What an API server would refuse is named, where rules look at it; what it would fill in is filled in.
# A part of an object goes by the name of its field, or by the object's kind; [] is any entry of a list.

EFFECTS = {"NoSchedule", "PreferNoSchedule", "NoExecute"}
VALUE = Form("a label's value", lambda text: len(text) <= 63 and LABEL_VALUE.fullmatch(text), str)
FIELDS = {  # part -> what its fields may say: schemas, as those of files
    "taints[]": {"key": NAME, "value": VALUE, "effect": EFFECTS},
    "tolerations[]": {"key": NAME, "value": VALUE, "effect": EFFECTS, "tolerationSeconds": int,
                      "operator": {"Equal", "Exists", "Gt", "Lt"}},
    "ports[]": {"hostPort": range(65536), "protocol": {"TCP", "UDP", "SCTP"}},
    "matchExpressions[]": {"operator": {*OPERATORS}, "key": NAME},
    "matchFields[]": {"operator": {*OPERATORS}, "key": {"metadata.name"}},
    "nodeAffinity": {f"required{WHEN}": dict, f"preferred{WHEN}": list},
    "podAffinity": {f"required{WHEN}": list, f"preferred{WHEN}": list},
    "podAntiAffinity": {f"required{WHEN}": list, f"preferred{WHEN}": list},
    "podAffinityTerm": {"labelSelector": dict, "topologyKey": NAME},
    f"required{WHEN}[]": {"labelSelector": dict, "topologyKey": NAME},
    f"preferred{WHEN}[]": {"weight": range(1, 101)},
    "topologySpreadConstraints[]": {
        "maxSkew": WEIGHT, "minDomains": WEIGHT, "topologyKey": NAME, "labelSelector": dict,
        "whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"},
        "nodeAffinityPolicy": {"Honor", "Ignore"}, "nodeTaintsPolicy": {"Honor", "Ignore"}},
    "PriorityClass": {"preemptionPolicy": {"Never", "PreemptLowerPriority"}},
    "StorageClass": {"volumeBindingMode": {"Immediate", "WaitForFirstConsumer"}}}
NEEDED = {  # part -> the fields without which it is refused
    "taints[]": ["key", "effect"],
    "matchExpressions[]": ["key"],
    f"required{WHEN}": ["nodeSelectorTerms"],
    f"required{WHEN}[]": ["topologyKey"],
    f"preferred{WHEN}[]": ["weight"],
    "podAffinityTerm": ["topologyKey"],
    "persistentVolumeClaim": ["claimName"],
    "topologySpreadConstraints[]": ["maxSkew", "topologyKey", "whenUnsatisfiable"]}
CONTAINERS = ("initContainers", "containers")
OF_PODS = ["tolerations", "nodeSelector", "affinity", "topologySpreadConstraints", "hostNetwork"]
OF_CONTAINERS = dict.fromkeys(OF_PODS, "in spec, beside containers") | dict.fromkeys(
    ["requests", "limits"], "in resources")
MISPLACED = {  # part -> fields that people put there, and where each belongs
    **dict.fromkeys(["initContainers[]", "containers[]"], OF_CONTAINERS),
    f"preferred{WHEN}[]": {
        **dict.fromkeys(["topologyKey", "labelSelector"], "in podAffinityTerm"),
        **dict.fromkeys(["matchExpressions", "matchFields"], "in preference, if it is of nodes")}}
CLUSTER_WIDE = [  # kinds of objects that have no namespace
    "Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment",
    "PriorityClass"]
KINDS = [*CLUSTER_WIDE, "Pod", "Service", "ReplicationController", "ReplicaSet", "StatefulSet",
         "PersistentVolumeClaim", "CSIStorageCapacity", "PodDisruptionBudget"]
NOT_OBEYED = {  # kind of an object that admission obeys -> what is said of it
    "LimitRange": "pods do not get its requests and limits here: add these to the pods themselves",
    "RuntimeClass": "pods do not get its overhead, nodeSelector and tolerations here: add these to the pods "
                    "themselves",
    "ResourceQuota": "pods are not refused because of it here"}
SYSTEM_CLASSES = {  # the PriorityClasses that every cluster has
    "system-node-critical": {"value": 2000001000}, "system-cluster-critical": {"value": 2000000000}}


def remarks_on(kind, thing):
    """Yield what is odd in an object of this kind that no API server has checked."""
    meant = "" if kind in KINDS else nearly(kind, KINDS)
    if meant:
        yield f'kind: did you mean "{meant}"?'
    spec = pick(thing, dict, "spec")
    yield from problems_with(kind, thing, "")
    if kind in ("Pod", "Node", "PersistentVolume"):
        yield from refused_in(spec, "spec")
        yield from refused_in(pick(thing, dict, "metadata", "labels"), "metadata.labels")
    if kind in NOT_OBEYED:
        yield NOT_OBEYED[kind]
    if not {"template", "jobTemplate"}.isdisjoint(spec):
        yield "no pods are made of its template here: add the pods themselves"


def refused_in(part, place):
    """Yield what an API server refuses or drops in a part of a spec that rules look at."""
    name = re.sub("[0-9]+", "", place.rpartition(".")[2])
    inner = []
    if isinstance(part, list):
        inner = [(f"{place}[{i}]", each) for i, each in enumerate(part)]
    elif isinstance(part, dict):
        problems = problems_with(name, part, place)
        yield from problems
        inner = [(f"{place}.{field}", each) for field, each in part.items()
                 if (name != "volumes[]" or field in NEEDED)  # of a volume, its claim is looked at
                 and not any(problem.startswith(f"{place}.{field}: ") for problem in problems)]
    for where, each in inner:
        yield from refused_in(each, where)


def problems_with(part, thing, place):
    """Return what is wrong with a part of an object at a place. Upstream: pkg/apis/core/validation."""
    nothing = None, "", [], {}
    said = [f"{name}: is missing" for name in NEEDED.get(part, ()) if thing.get(name) in nothing]
    said += [f"{name}: belongs {where}" for name, where in MISPLACED.get(part, {}).items() if name in thing]
    for name, schema in FIELDS.get(part, {}).items():
        if thing.get(name) not in nothing:
            decode_part(thing[name], schema, name, said)
    if part in CHECKS:
        said += CHECKS[part](thing)
    problems = [f"{place}.{each}".lstrip(".") for each in said]
    try:
        if part in READ_BY and not problems:
            READ_BY[part](thing)
    except Malformed as error:
        problems.append(f"{place}: {error}")
    return problems


def problems_of_resources(resources):
    """Yield what is wrong with requests beside limits; what cannot be overcommitted has to have both."""
    places = ["requests", "limits", "claims"]
    yield from (f"{name}: belongs in requests or limits" for name in resources if name not in places)
    limits = pick(resources, dict, "limits")
    for name, text in pick(resources, dict, "requests").items():
        wanted = quantity(str(text), 1000)
        most = quantity(str(limits.get(name, 0)), 1000)
        is_scarce = is_extended_resource(name) or name.startswith("hugepages-")
        if is_scarce and wanted != most:
            yield f"requests.{name}: must be equal to its limit"
        elif is_scarce and wanted % 1000:
            yield f"requests.{name}: must be a whole number"
        elif name in limits and wanted > most:
            yield f"requests.{name}: must be at most its limit"


def problems_of_amounts(amounts):
    """Yield which resources there are not."""
    for name in amounts.keys() - NO_REQUESTS.keys():
        if "/" not in name and not name.startswith("hugepages-"):
            yield f"{name}: no such resource; expected {', '.join(NO_REQUESTS)}, or example.com/{name}"


def problems_of_toleration(toleration):
    """Yield what is wrong with the fields of a toleration beside each other."""
    exists = toleration.get("operator") == "Exists"
    if exists and toleration.get("value"):
        yield "value: must be left out where the operator is Exists"
    if not exists and not toleration.get("key"):
        yield "operator: must be Exists where there is no key"
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        yield "effect: must be NoExecute where there are tolerationSeconds"


def problems_of_selector(selector):
    """Yield which operators a selector of pods or namespaces does not have."""
    for i, expression in enumerate(pick(selector, list, "matchExpressions", of=dict)):
        if expression.get("operator") in ("Gt", "Lt"):
            yield f"matchExpressions[{i}].operator: {expression['operator']} is for nodes only"


def problems_of_constraint(constraint):
    """Yield what is wrong with the fields of a spread constraint beside each other."""
    if constraint.get("minDomains") is not None and constraint.get("whenUnsatisfiable") == "ScheduleAnyway":
        yield "minDomains: must be left out where whenUnsatisfiable is ScheduleAnyway"


CHECKS = {  # part -> a function that yields what else is wrong with its fields
    "resources": problems_of_resources, **dict.fromkeys(["requests", "limits"], problems_of_amounts),
    "tolerations[]": problems_of_toleration, "topologySpreadConstraints[]": problems_of_constraint,
    **dict.fromkeys(["labelSelector", "namespaceSelector"], problems_of_selector)}
def read_labels(labels):
    """Read labels, or a selector of them, by key. Raises Malformed."""
    for key in labels:
        if not is_qualified(key):
            raise Malformed(f'invalid label key: "{key}"')
    label_selector({"matchLabels": labels})


READ_BY = {  # part -> a function that reads it as rules do, and raises Malformed
    "matchExpressions[]": read_requirement,
    "matchFields[]": lambda expression: node_selector_term({"matchFields": [expression]}),
    **dict.fromkeys(["labels", "nodeSelector", "matchLabels"], read_labels)}


def completed(spec):
    """Return a pod's spec as the API server completes it. Upstream: pkg/apis/core/v1/defaults.go."""
    spec = spec | {"schedulerName": pick(spec, str, "schedulerName") or "default-scheduler"}
    on_host_network = pick(spec, bool, "hostNetwork")
    for kind in CONTAINERS:
        containers = [dict(container) for container in pick(spec, list, kind, of=dict)]
        if containers:
            spec[kind] = containers
        for container in containers:
            container["resources"] = with_requests(pick(container, dict, "resources"))
            for port in pick(container, list, "ports", of=dict) if on_host_network else ():
                port["hostPort"] = port.get("hostPort") or port.get("containerPort")
    if pick(spec, dict, "resources", "limits"):  # of the pod as a whole
        wanted = pod_amounts(container_requests({"spec": spec}), {}, {}, {})  # by its containers together
        units = {"cpu": "m", "memory": ""}  # besides huge pages, all that a pod as a whole requests
        requests = {name: f"{wanted[name]}{unit}" for name, unit in units.items() if name in wanted}
        spec["resources"] = with_requests(spec["resources"], requests)
    return spec


def with_requests(resources, unless_said=read_only({})):
    """Return resources with requests: what is said, else these, else the limits."""
    requests = pick(resources, dict, "limits") | unless_said | pick(resources, dict, "requests")
    return resources | {"requests": requests}


def give_class(name, claim, classes):
    """Give a claim the default StorageClass; say if nobody binds it here."""
    spec = pick(claim, dict, "spec")
    of_old = "volume.beta.kubernetes.io/storage-class" in pick(claim, dict, "metadata", "annotations")
    has_class = spec.get("storageClassName") is not None or of_old
    if not has_class and "uid" not in claim["metadata"]:  # else it is a live cluster's
        marks = ("storageclass.kubernetes.io/is-default-class",
                 "storageclass.beta.kubernetes.io/is-default-class")
        defaults = [name for name, each in sorted(classes.items())
                    if "true" in map(pick(each, dict, "metadata", "annotations").get, marks)]
        if defaults:  # the youngest one counts
            youngest = max(defaults, key=lambda name: text_at(classes[name], "metadata", "creationTimestamp"))
            claim["spec"] = spec | {"storageClassName": youngest}
    mode = text_at(classes.get(class_name_of(claim)), "volumeBindingMode")
    if not spec.get("volumeName") and mode != "WaitForFirstConsumer":
        warn_once(f"PersistentVolumeClaim {name}: nobody binds it here: add volumeName to its spec, "
                  "and the annotation pv.kubernetes.io/bind-completed")


def remark_on_volume(name, volume):
    """Say if a volume that no claim has is of no use, as nobody makes it available here."""
    is_copied = "uid" in volume["metadata"]
    has_owner = pick(volume, dict, "spec").get("claimRef")
    has_phase = pick(volume, dict, "status").get("phase")
    if not (is_copied or has_owner or has_phase):
        warn_once(f"PersistentVolume {name}: nobody makes it available here: add a status with the phase "
                  "Available")


def give_priority(pod, spec, classes):
    """Give a pod the priority of its PriorityClass."""
    if spec.get("priority") is not None:
        return
    default = next((each for each in classes.values() if each.get("globalDefault")), {})
    name = text_at(spec, "priorityClassName")
    if name and name not in classes:
        warn_once(f'Pod {pod}: spec.priorityClassName: there is no PriorityClass "{name:.60}"'
                  + did_you_mean(name, classes, ""))
    of_pod = classes.get(name, {}) if name else default
    spec["priority"] = pick(of_pod, int, "value")
    if of_pod.get("preemptionPolicy"):
        spec.setdefault("preemptionPolicy", of_pod["preemptionPolicy"])


def remark_on_runtime(pod, spec, classes):
    """Say if there is no RuntimeClass of the name that a pod has for it."""
    name = text_at(spec, "runtimeClassName")
    if name and name not in classes:
        warn_once(f'Pod {pod}: spec.runtimeClassName: there is no RuntimeClass "{name:.60}"')


class Manifests:
    """A cluster made of manifests, which answers like the API server; bindings are kept in memory."""

    COMMAND = ("kubectl get nodes,pods,ns,svc,rc,rs,sts,pv,pvc,sc,csinodes,csidrivers,csistoragecapacities,"
               "volumeattachments,pdb,pc -A -o yaml")  # copies a live cluster

    def __init__(self, paths=()):
        self.objects = {}  # (resource, namespace, name) -> object
        self.uids = {}  # uid of a pod -> its namespace/name
        self.changes = 0  # Bindings, deletions, nominations
        for path in paths:
            try:
                self.load(path)
            except (OSError, ValueError) as error:
                raise InputError(f"{path}: {one_line(error)}") from error
        if paths and not self.by_name("nodes"):
            raise InputError(f"{path}: there is no Node; a copy of a cluster has all: {self.COMMAND}")
        self.admit()

    def load(self, path):
        """Read a file, or standard input for -; say what is odd in it. Raises OSError, ValueError."""
        for document in parse(text_in(path)):
            if document is None:
                continue
            kind = text_at(document, "kind").removesuffix("List")  # the API server gives items none
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
        is_copied = "uid" in metadata  # it has passed an API server, maybe a newer one
        try:
            if kind.lower() not in map(str.lower, CLUSTER_WIDE):
                metadata["namespace"] = pick(metadata, str, "namespace") or "default"
            place = resource, metadata.get("namespace"), name
            is_second = place in self.objects
            self.objects[place] = thing
            self.complete(resource, thing)
            remarks = [] if is_copied else [*remarks_on(kind, thing)]
        except (TypeError, ValueError) as error:
            raise Malformed(f"{kind} {name}: {error}") from error
        if is_second:
            remarks.append("there is one of this name already, which this one replaces")
        return [f"{kind} {name}: {remark}" for remark in remarks]

    def complete(self, resource, thing):
        """Complete an object as the API server does by itself. Raises TypeError, ValueError."""
        metadata = thing["metadata"]
        if not metadata.get("creationTimestamp"):  # then what comes first in the file is older
            metadata["creationTimestamp"] = f"{len(self.objects):09}"
        spec = pick(thing, dict, "spec")
        if resource == "pods":
            thing["spec"] = completed(spec)
            pod = Pod(thing)
            if self.uids.setdefault(pod.uid, pod.key) != pod.key:  # it is a copy of that one
                metadata.pop("uid", None)
        elif resource == "nodes":
            Node(thing)
        elif resource == "priorityclasses":
            pick(thing, int, "value")
            pick(thing, bool, "globalDefault")
        elif resource == "storageclasses":
            pick(thing, dict, "metadata", "annotations", of=str)
        elif resource in OWNERS:
            pick(thing, dict, "spec", "selector", of=str if resource in SELECT_BY_LABELS else None)

    def by_name(self, resource):
        """Return {name: object} of a resource that has no namespace."""
        return {name: thing for (kind, _, name), thing in self.objects.items() if kind == resource}

    def admit(self):
        """Complete the objects as admission does, once all are there. Upstream: plugin/pkg/admission."""
        for namespace in {namespace for _, namespace, _ in self.objects if namespace}:
            self.objects.setdefault(("namespaces", None, namespace), {"metadata": {"name": namespace}})
        storage_classes = self.by_name("storageclasses")
        claimed = {text_at(thing, "spec", "volumeName") for (resource, *_), thing in self.objects.items()
                   if resource == "persistentvolumeclaims"}
        priority_classes = SYSTEM_CLASSES | self.by_name("priorityclasses")
        runtime_classes = self.by_name("runtimeclasses")
        for (resource, _, name), thing in self.objects.items():
            with contextlib.suppress(Malformed):  # which rules will say that look at it
                if resource == "namespaces":
                    labels = pick(thing, dict, "metadata", "labels")
                    thing["metadata"]["labels"] = labels | {"kubernetes.io/metadata.name": name}
                elif resource == "persistentvolumeclaims":
                    give_class(name, thing, storage_classes)
                elif resource == "persistentvolumes" and name not in claimed:
                    remark_on_volume(name, thing)
                elif resource == "pods":
                    give_priority(name, thing["spec"], priority_classes)
                    if "uid" not in thing["metadata"]:  # else it is a live cluster's, which has the class
                        remark_on_runtime(name, thing["spec"], runtime_classes)

    def writer(self):
        """Return what writes to it."""
        return WriterOfManifests(self)

    def get(self, path, params, accept=None):
        """Answer a list, whatever the form that is asked for."""
        return self.request("GET", path, None, params)

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
        return {"kind": "Status"}

    def list(self, resource, selector):
        """Return the objects that a field selector selects, such as spec.nodeName!=,status.phase!=Failed."""
        wanted = re.findall("([^,]*?)(!?)=([^,]*)", selector)  # a field, ! where it is to differ, a value
        return [thing for (kind, *_), thing in self.objects.items() if kind == resource and all(
            (text_at(thing, *path.split(".")) == value) != bool(differs) for path, differs, value in wanted)]


# ==== 36. What people see ===============================================================================

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

    def __call__(self, decision, stands=""):
        """Show a decision, or count it among the others; of a pod that is explained, say where it stands."""
        options = self.options
        why = f"{decision.message} {decision.remedy}".rstrip()
        if options.output == "json":
            about = {"stands": stands} if stands else {}
            dry_run = {"dryRun": True} if options.dry_run else {}
            self.screen.print(json.dumps(in_json(decision) | about | dry_run))
        elif options.explain:
            heading = self.screen.fold(f"{stands}:") if stands else []
            self.screen.print(*heading, *explain(decision, self.screen))
            return  # which has said of each pod what no rule looks at
        elif decision.node or why not in self.others:
            self.screen.print(*self.screen.folded(in_words(decision)))
            if not decision.node:
                self.others[why] = 0
        else:
            self.others[why] += 1
        warn_of_unheeded(decision)

    def sum_up(self):
        """Say how many others there were; then none have been."""
        for why, count in self.others.items():
            if count:
                are = "pod stays" if count == 1 else "pods stay"
                self.screen.print(*self.screen.folded(f"{count} other {are} pending: {why}"))
        self.others.clear()


def warn_of_unheeded(decision, under=""):
    """Warn, once for all pods, of what a pod that is placed requires though no active rule looks at that."""
    for what in unheeded(decision) if decision.node else ():
        warn_once(f"{under}{decision.pod.key} is placed, though it {what}", about=f"{under}{what}")


def in_json(decision):
    """Return a decision as --output json prints it."""
    failed = decision.failed.items()
    record = decision.pod.record  # None of a pod that no queue has
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
    shown = 0
    if decision.total:
        table, shown = best_nodes(decision, screen)
        lines += table
    for sentence in sentences_about(decision, shown):
        lines += screen.fold(sentence, "  ")
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


def scores_in_rows(decision, names):
    """Return what these nodes get, as a table: a row of titles, and one for each node."""
    marks = marks_of(decision)
    rows = [["", *(vote.title for vote in decision.votes), "Total"]]
    for name in names:
        cells = [score_cell(vote, name) for vote in decision.votes]
        rows.append([marks.get(name, "") + shorten(name), *cells, in_digits(decision.total[name])])
    return rows


def best_nodes(decision, screen):
    """Return as lines the scores of as many of the best nodes as fit, a column for each; and how many."""
    rows = []
    for title, *cells in zip(*scores_in_rows(decision, ranked(decision)[:screen.width]), strict=True):
        # Entries of the Policy that make one rule, A+B, have a line each.
        first, *others = [shorten(f"  {part}", screen.width // 2) for part in re.split(r"(?=\+)", title)]
        rows += [[first, *cells], *([other] for other in others)]
    lines = align(rows)
    shown = len(rows[0]) - 1
    while shown > 1 and max(map(len, lines)) > screen.width:
        shown -= 1
        lines = align([row[:shown + 1] for row in rows])
    if decision.node:
        lines[0] = lines[0].replace(rows[0][1], screen.paint(rows[0][1], GREEN))
    return lines, shown


def sentences_about(decision, shown):
    """Yield what is to be said beside the tables, of which one shows so many of the best nodes."""
    order = ranked(decision)
    ties = marks_of(decision) if decision.node else {}
    reasons = [*itertools.chain(*(against.values() for against in decision.failed.values()))]
    count = sum(map(len, reasons))
    if count > len(decision.failed) and not order:
        yield f"A node may have two reasons: these numbers add up to {count}."
    if order[shown:]:
        down_to = in_digits(decision.total[order[-1]])
        yield f"more nodes that fit: {len(order) - shown}, down to a total of {down_to}"
    if decision.node and len(ties) < len(order):
        yield what_decided(decision, decision.node, order[len(ties)])
    if order and not (decision.votes or decision.policy.priorities or decision.policy.extenders):
        yield "no priority is active: each node that fits has a total of 1"
    if len(ties) > 1:
        yield f"{len(ties)} nodes (* and =) tie: any of them is taken, at random"
    for what in unheeded(decision):
        yield f"! {decision.pod.key} {what}"


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
    groups = [*groups_of_failing(decision)]
    margin = max((len(label) for label, _, _ in groups), default=0)
    for label, sentences, nodes in groups:
        head = f"  ✗ {label:{margin}}  "
        for sentence in sentences:
            yield from screen.fold(sentence, head, RED)
            head = " " * len(head)
        yield from screen.fold(", ".join(nodes), head, DIM, max_lines=2)


def groups_of_failing(decision):
    """Yield the nodes that do not fit in groups, the largest first: (label, reasons, nodes).

    Of each node it is said what the pod lacks there. In a group, the one that nearly fits comes first.
    """
    names_by_reasons = collections.defaultdict(list)
    for name, against in decision.failed.items():
        said = [f"{title}: {', '.join(reasons) or 'no reason given'}" for title, reasons in against.items()]
        names_by_reasons[tuple(said)].append(name)
    for sentences, names in sorted(names_by_reasons.items(), key=lambda group: -len(group[1])):
        label = shorten(names[0]) if len(names) == 1 else f"{len(names)} nodes"
        misses = sorted([shortage(decision, name) for name in names], key=lambda miss: miss[0])
        yield label, sentences, [words for _, words in misses if words != label]


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
            words.append(f"{each.key} {each.operator}{values}: has {label}")
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
    columns = itertools.zip_longest(*rows, fillvalue="")
    widths = [max(map(len, column)) for column in columns]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=False)] for row in rows]
    return ["  ".join(row).rstrip() for row in padded]


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


# ==== 37. The picture of a cluster ======================================================================

CPU_AND_MEMORY = ["cpu", "memory"]
MANY = 15  # nodes, or pods without one: of more of them, the picture shows so many


def picture(nodes, pods, screen, new):
    """Yield as lines how full nodes are, and the pods on them. new: uids of those that this run placed."""
    nodes, others = nodes_to_show(nodes, new)
    requested = {name for pod in pods for name, wanted in pod.requests.items() if wanted}
    resources = [*CPU_AND_MEMORY, *sorted(requested - {*CPU_AND_MEMORY})]
    rows = [["NODE", "PODS", *(resource.rpartition("/")[2].upper() for resource in resources)]]
    for node in nodes:
        bars = [fill(node, resource) for resource in resources]
        rows.append([shorten(node.name), f"{len(node.pods)}/{node.max_pods}", *bars])
    head, *lines = align(rows)
    yield from ["", head]
    for node, line in zip(nodes, lines, strict=True):
        yield line
        names = sorted(("+" if uid in new else "") + pod.key.removeprefix("default/")  # a plus sorts first
                       for uid, pod in node.pods.items())
        for part in screen.fold(", ".join(names), "    ", max_lines=1 if others else 2):
            yield re.sub(r"\+[^ ,]+", lambda name: screen.paint(name.group(), GREEN), part)
    if others:
        yield f"and {others} other nodes"


def nodes_to_show(nodes, new, first=()):
    """Return nodes, of many those named in `first`, with new pods, or full; and how many others there are."""
    shown = sorted(nodes, reverse=True, key=lambda node: (
        node.name in first,
        not new.isdisjoint(node.pods),
        max(share_in_use(node, resource) for resource in CPU_AND_MEMORY)))[:MANY]
    return [node for node in nodes if node in shown], len(nodes) - len(shown)


def share_in_use(node, resource):
    """Return what part of a resource the pods on a node request, from 0 to 1, or more."""
    return node.requested.get(resource, 0) / max(node.allocatable.get(resource, 0), 1)


def fill(node, resource, length=12):
    """Return how full a node is, as a bar and in numbers; "" if it has no such resource."""
    if not (node.requested.get(resource) or node.allocatable.get(resource)):
        return ""
    filled = min(round(length * share_in_use(node, resource)), length)
    return f"{'█' * filled}{'░' * (length - filled)} {used_of_all(node, resource)}"


def used_of_all(node, resource):
    """Return how much of a resource is requested on a node, and how much there is: 2.5/4, 4/8Gi."""
    units = {"cpu": (1000, ""), "memory": (2**30, "Gi"), "ephemeral-storage": (2**30, "Gi")}
    unit, suffix = units.get("memory" if resource.startswith("hugepages-") else resource, (1, ""))
    amounts = node.requested.get(resource, 0), node.allocatable.get(resource, 0)
    return "/".join(in_digits(round(each / unit, 3)) for each in amounts) + suffix


def pods_without_node(pods, snapshot, screen, reasons):
    """Yield, of each pod that is on no node, where it stands. reasons: {uid: why it has none}."""
    placed = {uid for node in snapshot.nodes.values() for uid in node.pods}
    others = [pod for pod in pods if pod.uid not in placed]
    if others:
        yield ""
    for pod in others[:MANY]:
        reason = reasons.get(pod.uid)
        stands = f"stays pending: {reason}" if reason else where_it_stands(pod, snapshot)
        yield from screen.fold(f"{pod.key} {stands}", rest="    ", max_lines=3)
    if others[MANY:]:
        yield f"and {len(others) - MANY} other pods without a node"


def where_it_stands(pod, snapshot):
    """Return in words what is to be known of a pod, except where it would go now."""
    waits = "" if pod.node_name else why_it_waits(pod, snapshot)
    remark = "" if pod.node_name in snapshot.nodes else ", a node that does not exist"
    phrases = {
        f"is on {pod.node_name}{remark}": pod.node_name,
        "is being deleted": pod.terminating,
        f"has scheduling gates ({', '.join(pod.gates)})": pod.gates,
        whose_it_is(pod, snapshot.policies): pod.scheduler not in snapshot.policies,
        f"waits: {waits}": waits}
    return " and ".join(phrase for phrase, is_so in phrases.items() if is_so) or "is pending"


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
            return text_at(condition, "message")
    policy = snapshot.policies.get(pod.scheduler)
    return why_not_yet(pod, policy) if policy else ""


# ==== 38. The page ======================================================================================

# `--output html` prints a page to be shown to a class, kept and sent. It needs no network and no other file.
# Each decision is a scene of three steps: the cluster and the question, the answer, the pod on its node. The
# script shows one step at a time; without it, and on paper, they stand below each other.
# HTML is made of f-strings, in which all text goes through `escaped`; what they join is HTML already.

STYLE = """
:root { --line: light-dark(#b9bfca, #4c5362); --yes: light-dark(#0b6b34, #7ddc9c) }
html { color-scheme: light dark; font: clamp(16px, 1.8vw, 36px)/1.35 system-ui; overflow-wrap: anywhere }
html, header { background: Canvas }
body { margin: 0 1.2rem }
header { position: sticky; top: 0; display: flex; flex-wrap: wrap; border-bottom: 1px solid var(--line) }
h1 { flex: 1 1 12rem }
h1, h2, caption { margin: .2rem 0 0; font-size: .85rem; font-weight: normal; color: light-dark(#555, #bbb) }
h3 { margin: 0 0 .4rem; font-size: 1.35rem; outline: none }
h4, p { margin: 0 0 .2rem }
button, nav span { margin: .2rem; font: inherit }
.sides { display: flex; flex-wrap: wrap; gap: .6rem }
.sides > * { flex: 1 1 17rem; box-sizing: border-box }
.nodes { flex: 2 1 34rem; display: grid; gap: .6rem; align-content: start }
.nodes { grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)) }
article, pre { padding: .3rem .6rem; border: .15rem solid var(--line); background: light-dark(#f3f5f9, #223) }
.best { border-color: var(--yes); background: light-dark(#e3f4e8, #183524) }
pre, ul, small, .sides table { font-size: .8rem }
pre { margin: 0; white-space: pre-wrap; word-break: break-all }
ul { display: flex; flex-wrap: wrap; gap: .2rem; margin: .1rem 0; padding: 0; list-style: none }
li { padding: 0 .3rem; border: 1px solid var(--line) }
.new { border-color: var(--yes); font-weight: bold }
.no { border-color: currentColor; color: light-dark(#a8201a, #ff9a8f) }
table { border-collapse: collapse }
caption, th, td { text-align: left; vertical-align: top; white-space: pre-line; overflow-wrap: normal }
tbody th { padding-right: .4rem; white-space: nowrap }
td:has(meter), meter { width: 100% }
.no td { overflow-wrap: anywhere }
.wide { overflow-x: auto }
.wide th, .wide td { padding: .25rem .5rem; border-bottom: 1px solid var(--line) }
@media print {
  nav { display: none }
  section { display: block !important; margin-bottom: 1rem }
  article, h2, h3, pre, thead, tr { break-inside: avoid; break-after: avoid }
}
"""

SCRIPT = """
const steps = document.querySelectorAll('section');
const moves = {ArrowRight: 1, PageDown: 1, ' ': 1, ArrowLeft: -1, PageUp: -1, Home: -Infinity, End: Infinity};
let at = 0;

function show(number) {
  at = Math.max(0, Math.min(number, steps.length - 1));
  steps.forEach((step, i) => step.hidden = i !== at);
  document.getElementById('where').textContent = `${at + 1} of ${steps.length}`;
  scrollTo(0, 0);
  steps[at].querySelector('article.best')?.scrollIntoView({block: 'nearest'});
  steps[at].querySelector('h3').focus({preventScroll: true});
  history.replaceState(null, '', `#${at + 1}`);
}

onkeydown = event => {
  const isForButton = event.key === ' ' && event.target.closest('button');
  if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey || isForButton) return;
  event.preventDefault();
  show(at + moves[event.key]);
};
document.getElementById('back').onclick = () => show(at - 1);
document.getElementById('next').onclick = () => show(at + 1);
document.querySelector('nav').hidden = false;
onhashchange = () => show(parseInt(location.hash.slice(1)) - 1 || 0);
onhashchange();
"""


def escaped(text):
    """Return a text as HTML that shows it, with its lines: names and messages may come from anybody."""
    return html.escape("\n".join(line.translate(ESCAPES) for line in text.split("\n")))


class Page:
    """Takes the decisions of a run, and makes a page of them."""

    MOST = 100  # decisions have scenes; of further ones only the summary speaks

    def __init__(self, path):
        self.path = path  # of the Policy
        self.keys = set()  # of the labels that pods ask for
        self.new = set()  # uids of the pods that this run has placed
        self.introduced = set()  # schedulers of which it is said what rules they ask
        self.scenes = []  # as HTML
        self.outcomes = {}  # pod -> the last decision about it, in words

    def __call__(self, decision, *remarks):
        """Take in a decision, with remarks about it."""
        pod, node = decision.pod, decision.node
        self.keys |= keys_asked_for(pod)
        if node:
            self.new.add(pod.uid)
        self.outcomes[pod.key] = f"→ {node} {decision.waits}" if node else f"✗ {decision.message}"
        if len(self.scenes) < self.MOST:
            self.scenes.append(self.scene_of(decision, remarks))

    def sum_up(self):
        """Say nothing between passes, where a Reporter counts pods that stay pending for one reason."""

    def scene_of(self, decision, remarks):
        """Return a decision in its steps: the question, the answer, the pod on its node."""
        pod, node = decision.pod, decision.node
        heading = f"{pod.key} (decision {len(self.scenes) + 1})"
        manifest = f"<pre>{escaped(manifest_of(pod))}</pre>"
        shown, others = nodes_to_show(decision.nodes.values(), self.new, {node, *ranked(decision)[:4]})
        nodes = []  # without the pod, which may count on its node already
        for each in shown:
            nodes.append(with_pods(each, [other for other in each.pods.values() if other.uid != pod.uid]))
        question = self.beside(manifest, nodes, others)
        if pod.scheduler not in self.introduced:
            self.introduced.add(pod.scheduler)
            rules = "; ".join(lines_of(decision.policy))
            question += f"<p><small>{escaped(f'{pod.scheduler} asks {rules}')}</small>"
        title = f"It goes to {node}" if node else "It stays pending"
        steps = step(heading, "Where will it go?", question) + step(heading, title, answer(decision, remarks))
        if node:
            chosen = next(each for each in nodes if each.name == node)
            chosen.add(pod)
            steps += step(heading, f"Now it is on {node}", self.beside(manifest, nodes, others, best=node))
        return steps

    def beside(self, left, nodes, others, best=None):
        """Return what stands at the left, and nodes as boxes beside it. best: the name of the chosen one."""
        boxes = [self.box(node, "best" if node.name == best else "") for node in nodes]
        if others:
            boxes.append(f"<p>and {others} other nodes")
        return f'<div class="sides">{left}<div class="nodes">{"".join(boxes)}</div></div>'

    def box(self, node, kind):
        """Return a node as a box: its cordon, taints and labels, how full it is, its pods."""
        marks = [item("cordoned", "no")] if node.unschedulable else []
        for taint in node.taints:
            marks.append(item(f"taint {'='.join(filter(None, taint[:2]))}:{taint.effect}", "no"))
        marks += [item(f"{key}={node.labels[key]}") for key in sorted(self.keys & node.labels.keys())]
        shares = [("pods", len(node.pods) / max(node.max_pods, 1), f"{len(node.pods)}/{node.max_pods}")]
        devices = sorted(name for name in node.allocatable.keys() | node.requested.keys() if "/" in name)
        for name in [*CPU_AND_MEMORY, *devices]:
            shares.append((name.rpartition("/")[2], share_in_use(node, name), used_of_all(node, name)))
        bars = []
        for name, share, numbers in shares:
            meter = f'<meter value="{share:.3f}" aria-hidden="true"></meter>'
            bars.append(f'<tr><th scope="row">{escaped(name)}<td>{meter}<td>{escaped(numbers)}')
        pods = []
        for pod in sorted(node.pods.values(), key=lambda pod: pod.uid not in self.new)[:MANY]:
            is_new = pod.uid in self.new
            words = [("+" if is_new else "") + pod.key.removeprefix("default/")]
            words += [f"{key}={pod.labels[key]}" for key in sorted(self.keys & pod.labels.keys())]
            words += [f"port {number}" for _, number in pod.host_ports]
            words += [f"priority {pod.priority}"] if pod.priority else []
            pods.append(item(" ".join(words), "new" if is_new else ""))
        if len(node.pods) > MANY:
            pods.append(item(f"and {len(node.pods) - MANY} others"))
        return f"""<article class="{kind}"><h4>{escaped(node.name)}</h4>
<ul>{"".join(marks)}</ul><table>{"".join(bars)}</table><ul>{"".join(pods)}</ul></article>"""

    def document(self, nodes):
        """Return the page. nodes: as they are in the end, to be summed up; () leaves the summary out."""
        steps = [*self.scenes]
        if nodes:
            caption = "The last decision about each pod"
            if len(steps) == self.MOST:
                caption += f" (the first {self.MOST} decisions have scenes)"
            rows = [(pod.removeprefix("default/"), outcome) for pod, outcome in self.outcomes.items()]
            table = table_in_html(caption, ["Pod", "Node"], rows)
            boxes = self.beside(table, *nodes_to_show(nodes, self.new))
            steps.append(step("Summary", "Where the pods are now", boxes))
        title = escaped(f"Where do pods go? Decisions by {self.path}")
        # By these a browser knows that the style and the script are the page's own.
        style, script = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
                         for text in (STYLE, SCRIPT)]
        page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none';
 style-src 'sha256-{style}'; script-src 'sha256-{script}'">
<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>
<body><header><h1>{title}</h1><nav hidden><button id="back">← Back</button>
<span id="where" role="status"></span><button id="next">Next →</button></nav></header>
<main>{"".join(steps)}</main><script>{SCRIPT}</script></body></html>"""
        return page.encode("ascii", "xmlcharrefreplace").decode()  # which no terminal's encoding can spoil


def step(heading, title, content):
    """Return a step of a scene."""
    return f'<section><h2>{escaped(heading)}</h2><h3 tabindex="-1">{escaped(title)}</h3>{content}</section>'


def answer(decision, remarks):
    """Return what was decided, and from what: sentences, and a table of nodes by rules."""
    best = ranked(decision)[:MANY]
    parts = [f"<p>{escaped(each)}"
             for each in (in_words(decision), *remarks, *sentences_about(decision, len(best)))]
    if best:
        # The total comes first: so it is in sight.
        heads, *rows = [[row[0], row[-1], *row[1:-1]] for row in scores_in_rows(decision, best)]
        heads[0] = "Node"
        parts.append(table_in_html("Nodes by rules: raw score → points × weight", heads, rows))
    failing = []
    for label, reasons, nodes in groups_of_failing(decision):
        names = ", ".join(nodes[:5])
        if nodes[5:]:
            names += f", and {len(nodes) - 5} more"
        failing.append([f"✗ {label}", "\n".join([*reasons, names])])
    if failing:
        parts.append(table_in_html("Nodes that do not fit", ["Node", "Why"], failing))
    return "".join(parts)


def table_in_html(caption, heads, rows):
    """Return a table of texts."""
    columns = ['<th scope="col">' + re.sub("(?<=[a-z+])(?=[A-Z])", "<wbr>", escaped(head)) for head in heads]
    lines = []
    for first, *cells in rows:
        kind = {"* ": "best", "✗ ": "no"}.get(first[:2], "")
        row = "".join(f"<td>{escaped(cell)}" for cell in cells)
        lines.append(f'<tr class="{kind}"><th scope="row">{escaped(first)}{row}')
    return (f'<div class="wide"><table><caption>{escaped(caption)}</caption>'
            f'<thead><tr>{"".join(columns)}<tbody>{"".join(lines)}</table></div>')


def item(text, kind=""):
    """Return an item of a list."""
    return f'<li class="{kind}">{escaped(text)}'


def keys_asked_for(pod):
    """Return all words of what a pod asks of labels: the keys of labels are among them."""
    asked = [pod.spec.get(part) for part in ("nodeSelector", "affinity", "topologySpreadConstraints")]
    return set(re.findall(r"[\w./-]+", json.dumps(asked))) - {HOSTNAME}


SHOWN_OF_PODS = [  # fields; others come from the API server, or no rule looks at them
    "name", "namespace", "labels", "schedulerName", "priority", "nodeSelector", "affinity", "tolerations",
    "topologySpreadConstraints", "schedulingGates", "overhead", "image", "resources", "ports", "volumes",
    *CONTAINERS]


def manifest_of(pod):
    """Return what rules look at of a pod's manifest, as people write it."""
    spec = pod.spec | {
        "tolerations": [each for each in pod.tolerations if each.get("tolerationSeconds") != 300],
        "volumes": [volume for volume in pod.volumes if "projected" not in volume]}
    for kind in CONTAINERS:
        spec[kind] = [*map(shown_of, pick(pod.spec, list, kind, of=dict))]
    thing = {"kind": "Pod", "metadata": shown_of(pod.raw["metadata"]), "spec": shown_of(spec)}
    return yaml.safe_dump(thing, sort_keys=False, default_flow_style=None, allow_unicode=True, width=24)


def shown_of(thing):
    """Return those fields of an object that are shown, and say something."""
    says_nothing = (None, "", 0, [], {}, "default", {"requests": {}})
    return {name: thing[name] for name in SHOWN_OF_PODS if thing.get(name) not in says_nothing}


# ==== 39. The command line ==============================================================================

def option_parser():
    """Return what reads the options."""
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
    return parser


def read_arguments(argv):
    """Read the command line; what is wrong in it ends the process."""
    parser = option_parser()
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        word = unknown[0].partition("=")[0]
        otherwise = "" if word.startswith("-") else "; manifests are given by --cluster"
        hint = did_you_mean(word, parser._option_string_actions, otherwise)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    server = re.fullmatch(r"https?://([\w.-]+|\[[\da-fA-F:.]+])(:(\d{1,5}))?/?", options.server)
    if not server or int(server[3] or 0) > 65535:
        parser.error("--server: expected a URL such as http://127.0.0.1:8001, without a user or a password")
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
        CAME_ROUND.limit = math.inf
        in_background(watch_the_loop, threading.get_ident(), ended)
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
    cluster = kind_of_cluster(api, report, options.dry_run, at_rest=report.sum_up)
    if is_explained:
        return explain_pod(cluster, files[0], options, screen)
    say_at_start(policies, files[0].path, options)
    with contextlib.suppress(ApiError):  # which the loop will meet, too
        waiting = cluster.waiting_pods(policies)
        if options.output == "html":
            report.keys.update(*map(keys_asked_for, waiting))
        if not cluster.pending.renew(waiting, policies):
            say_that_none_waits(policies, waiting)
    if options.cluster:
        has_failed = schedule_manifests(cluster, policies, stop, options, screen)
    else:
        has_failed = poll(cluster, files[0], stop, options)
    if options.output == "html":
        screen.print(report.document(cluster.snapshot.nodes.values()))
    return has_failed


def say_at_start(policies, path, options):
    """Say what is going to be done, and what no rule looks at."""
    if options.dry_run:
        log.info("dry run: nothing is written")
    if options.cluster:
        return
    log.info("%s: polling %s by %s", ", ".join(policies), options.server, path)
    for name, policy in policies.items():
        if policy.not_looked_at():
            what = ", ".join(policy.not_looked_at())
            log.info("%s: its rules do not ask about %s; those of --policy DefaultProvider do", name, what)


def say_that_none_waits(policies, waiting):
    """Say why there is nothing to do. waiting: the pods without a node that name these schedulers."""
    why = "none without a node has this spec.schedulerName"
    if waiting:
        why = "those without a node have scheduling gates, are being deleted, or a rule says no"
    log.info("no pod waits for %s: %s", ", ".join(policies), why)


def watch_the_loop(thread, ended, seconds=5):
    """Warn of a rule that takes long; end the process if the loop does not come round within its limit.

    A loop that hangs schedules nobody, while another thread renews the Lease: another replica is to lead.
    """
    seen_before = None
    last = time.monotonic()
    while not ended.wait(pause := min(seconds, CAME_ROUND.limit / 4)):
        moment = time.monotonic()
        if moment > last + CAME_ROUND.limit / 2:  # the process itself was paused
            CAME_ROUND.at = max(moment, CAME_ROUND.at)
        last = moment
        frame = innermost = sys._current_frames().get(thread)
        while frame and frame.f_code not in RULE_OF:
            frame = frame.f_back
        where = frame or innermost
        place = f"{Path(where.f_code.co_filename).name}, line {where.f_lineno}"
        seen = frame and (frame.f_code, frame.f_locals.get("pod"))
        if seen and seen == seen_before:
            what = f"{RULE_OF[frame.f_code]} takes long: more than {pause:g} s for one pod"
            in_background(warn_once, f"{what} ({place})", frame.f_code)  # the log itself may be stuck
        seen_before = seen
        if moment > CAME_ROUND.at + CAME_ROUND.limit and not STOP.is_set():
            said = f"the loop has not come round for {CAME_ROUND.limit:g} s ({place}): this process ends"
            wait([in_background(log.error, said)], 1)
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
        if not election.lead(stop, cluster.cache.keep_up):
            return int(options.once)
    CAME_ROUND.at = time.monotonic()
    CAME_ROUND.limit = election.renew_deadline if elected else 60
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
    return int(once and (cluster.has_failed() or stop.is_set()))


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
    return cluster.has_failed() or stop.is_set()


def make_passes(cluster, policies, stop, once):
    """Make passes until one changes nothing. Return a snapshot without the pods that are still held."""
    while not stop.is_set():
        before = cluster.api.changes
        schedule_pending_pods(cluster, policies, stop)
        cluster.cycle.finish(cluster.writer.patience, stop)
        if once or cluster.api.changes == before:
            break
        cluster.pending.end_backoff()  # there is nothing to wait for: nobody else changes manifests
    for record in cluster.pending.values():
        if record.decision:  # it waits for rules
            cluster.cycle.fall_back(record.decision)
    return cluster.look(policies)


def explain_pod(cluster, policy_file, options, screen):
    """Show where a pod would go now, whether or not anybody would try it. Return whether a rule failed."""
    path = policy_file.path
    policies = policy_file.policies
    snapshot = cluster.look(policies)
    namespace, _, name = options.explain.rpartition("/")
    key = f"{namespace or 'default'}/{name}"
    pod = cluster.cache.pods.get(key)
    if not pod:
        hint = "NAMESPACE/NAME of one that has not ended; default/ may be left out"
        raise ApiError(404, f'pod "{key}" not found ({hint})')
    stands = where_it_stands(pod, snapshot)
    read = READERS.get("KubeSchedulerConfiguration")
    if read and pod.scheduler == "default-scheduler" and pod.scheduler not in policies and not options.policy:
        path = "the default profile of today's kube-scheduler"
        policies = read({"apiVersion": CONFIGURATION_VERSION}, pod.scheduler)
    policy = snapshot.policies.setdefault(pod.scheduler, next(iter(policies.values())))
    cluster.cache.nodes.place(pod, "")
    pod.node_name = ""
    pod.record = PodRecord(pod)
    decision = schedule(pod, snapshot, policy)
    policy.seek_remedy(decision, snapshot)
    if decision.node:  # rules are asked what they say before the binding; nothing is sent
        cluster.cycle.assume(decision)
        cluster.cycle.ask_rules(decision)
    cluster.cycle.end_turn(decision)  # what has gone wrong makes the exit code 1
    heading = f"{pod.key} {stands}. If scheduled now, by {path}"
    cluster.show(decision, heading)
    if options.output == "html":
        cluster.show.path = path
        screen.print(cluster.show.document(nodes=()))
    return cluster.has_failed()


def compare(manifests, files, stop, options, screen):
    """Show what comes of manifests under each of several Policies. Return whether something failed."""
    outcomes = {}
    has_failed = False
    for file in files:
        title = file.path
        while title in outcomes:
            title += ", again"
        report = functools.partial(warn_of_unheeded, under=f"{file.path}: ")
        cluster = ListedCluster(copy.deepcopy(manifests), report, options.dry_run)
        outcomes[title] = outcome_of(cluster, file, stop, options)
        has_failed |= cluster.has_failed()
    if stop.is_set():  # what it has by now is no comparison
        return True
    screen.print(*([json.dumps(outcomes)] if options.output == "json" else comparison(outcomes)))
    return has_failed


def outcome_of(cluster, policy_file, stop, options):
    """Schedule manifests under a Policy. Return where the pods that waited are, and how full the nodes."""
    policies = policy_file.policies
    waiting = cluster.waiting_pods(policies)
    pending = sorted(pod.key for pod in cluster.pending.renew(waiting, policies))
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

# ==== 40. What 1.36 says otherwise ======================================================================

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


def mean_score(pod, node, weights, score):
    """The mean of score(requested, there) of resources, by {resource: weight}; 0 if no resource counts."""
    total = divisor = 0
    for name, (used, there) in usage_today(pod, node, weights).items():
        total += weights[name] * score(used, there)
        divisor += weights[name]
    return total // (divisor or 1)


today("LeastRequestedPriority")(
    functools.partial(mean_score, score=lambda used, there: 100 * max(there - used, 0) // there))
today("MostRequestedPriority")(
    functools.partial(mean_score, score=lambda used, there: 100 * min(there, used) // there))


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
    shares = [min(amount / node.allocatable[name], 1) for name, amount in requested.items()]
    if len(shares) == 2:
        return int((1 - abs(shares[0] - shares[1]) / 2) * 100)
    count = max(len(shares), 1)
    add_up = functools.partial(functools.reduce, float.__add__)  # one by one, like Go; sum() is more exact
    mean = add_up(shares, 0.0) / count
    squares = [(share - mean) ** 2 for share in shares]
    return int((1 - math.sqrt(add_up(squares, 0.0) / count)) * 100)


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
    shares = shares_of(images, snapshot)
    return shares and ImageShares(shares, len(containers))


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


NODES_NAMED = FullRule("NodesNamed", is_named, metadata=nodes_named, title="NodeAffinity", steady=True)


@today("NodeAffinityPriority")
def preferred_node_affinity(pod, node, added_terms=()):
    """The preferences that the configuration adds for all pods count, too (addedAffinity)."""
    points = node_affinity(pod, node)
    for added in added_terms:
        term = node_selector_term(added.get("preference", {}))
        if term_matches(term, node):
            points += added.get("weight", 0)
    return points


CONTROLLERS = {  # apiVersion and kind of those by which a pod's fellows are found -> resource
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("apps/v1", "ReplicaSet"): "replicasets", ("apps/v1", "StatefulSet"): "statefulsets"}


def default_selector_today(pod, snapshot):
    """Return what the Services that select the pod require of the pods to count, and its controller.

    That is found by its name alone, and need not select the pod. Upstream: DefaultSelector, since 1.22.
    """
    required = list(itertools.chain(*selectors_of(pod, snapshot, "services")))
    kind = text_at(pod.controller, "apiVersion"), text_at(pod.controller, "kind")
    resource = CONTROLLERS.get(kind)
    known = snapshot.objects[resource] if resource else {}
    controller = known.get(f"{pod.namespace}/{text_at(pod.controller, 'name')}", {})
    of_controller = []
    with contextlib.suppress(InvalidSelector):
        of_controller = label_selector(selector_in(controller, resource) or {})
    if resource == "replicationcontrollers":  # its labels take the place of the Services'
        labels = {each.key for each in of_controller}
        required = [each for each in required if each.key not in labels]
    return required + of_controller


def spread_constraints_today(pod, when, snapshot, defaults, needs_key=True):
    """Yield spread constraints; an empty selector counts nobody."""
    for constraint in spread_constraints(pod, when, snapshot, defaults, default_selector_today, needs_key):
        yield constraint if constraint.requirements else replace(constraint, numbers=collections.Counter())


@today("EvenPodsSpread", "metadata")
def hard_spread_today(pod, nodes, snapshot, default_constraints=()):
    """Pods count on eligible nodes only."""
    spread = [with_full_domains(constraint, constraint.eligible)
              for constraint in spread_constraints_today(pod, "DoNotSchedule", snapshot, default_constraints)]
    return spread or SKIP


@today("SelectorSpreadPriority", "metadata")
def soft_spread_today(pod, nodes, snapshot, default_constraints=()):
    """The system's own constraints need no keys: nodes that lack one are a domain of their own."""
    is_systems = default_constraints is DEFAULT_SPREAD and not pod.spec.get("topologySpreadConstraints")
    constraints = spread_constraints_today(
        pod, "ScheduleAnyway", snapshot, default_constraints, needs_key=not is_systems)
    return [with_counts(each, nodes) for each in constraints]


@today("SelectorSpreadPriority")
def pod_topology_spread(pod, node, metadata):
    """Rounded, halves up; None without constraints, so that nothing is scored."""
    if not metadata:
        return None
    score = 0.0
    for constraint in metadata:
        if constraint.key in node.labels:
            score += constraint.score(node)
        elif constraint.needs_key:
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
    """What is to be attached for the pod; and what VolumeAttachments attach, {node: these}."""
    wanted = attachments_today(pod, snapshot)
    if not wanted:
        return SKIP
    attachments = snapshot.objects["volumeattachments"]
    volumes = snapshot.objects["persistentvolumes"]

    def sort(*_):
        """Return what they attach."""
        by_node = collections.defaultdict(set)
        for attachment in attachments.values():
            spec = pick(attachment, dict, "spec")
            name = pick(spec, str, "source", "persistentVolumeName")
            csi = pick(volumes.get(name, {}), dict, "spec", "csi")
            if csi:
                volume = pick(spec, str, "attacher"), pick(csi, str, "volumeHandle")
                by_node[pick(spec, str, "nodeName")].add(volume)
        return by_node

    by_node = recall("volumeattachments", "", snapshot, {}, None, [attachments, volumes], then=sort)
    elsewhere = frozenset().union(*by_node.values())
    return to_attach(wanted, snapshot, attachments_today, elsewhere), by_node


@today("MaxCSIVolumeCountPred")
def node_volume_limits(pod, node, metadata):
    """What only a VolumeAttachment attaches counts, too. Limits are those of the CSINode, and no others."""
    wanted, by_node = metadata
    numbers, with_more = wanted.on(node)
    of_no_pod = by_node.get(node.name, set()) - wanted.attached[node.name]
    numbers.update([driver for driver, _ in of_no_pod])  # as upstream, what is wanted, too, counts twice
    for driver in with_more:
        if numbers[driver] > csi_limit(driver, node, wanted.snapshot, otherwise=math.inf):
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


today("NoVolumeZoneConflict")(functools.partial(no_volume_zone_conflict, new_names={
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region"}))


class Profile(FullPolicy):
    """What a profile of a KubeSchedulerConfiguration says: a Policy that decides as 1.36 does."""

    kind = "KubeSchedulerConfiguration"
    unschedulable_seconds = 300  # upstream: DefaultPodMaxInUnschedulablePodsDuration
    pops_from_backoff = True  # upstream: SchedulerPopFromBackoffQ, since 1.33

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


# ==== 41. KubeSchedulerConfiguration ====================================================================

VOLUME_LIMITS = ["EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"]  # plugins that have gone
NAMES_OF_OLD |= {
    "Coscheduling": "the rule Coscheduling of tests/tutorial_rules.py, a file for --plugins",
    "NodeResourcesLeastAllocated": "NodeResourcesFit (in a Policy: LeastRequestedPriority)",
    "NodeResourcesMostAllocated":
        "NodeResourcesFit with scoringStrategy.type MostAllocated (in a Policy: MostRequestedPriority)",
    **dict.fromkeys(["SelectorSpread", "DefaultPodTopologySpread"],
                    "PodTopologySpread with its default constraints (in a Policy: SelectorSpreadPriority)"),
    **dict.fromkeys(VOLUME_LIMITS,
                    "leave it out, NodeVolumeLimits does it (in a Policy: MaxCSIVolumeCountPred)"),
    "NodePreferAvoidPods": "TaintToleration, and taints on the nodes",
    **dict.fromkeys(["NodeResourceLimits", "healthzBindAddress", "metricsBindAddress", "disablePreemption",
                     "failureDomains"], "nothing, leave it out"),
    "unreserve": "reserve", "enableHttps": "enableHTTPS",
    "algorithmSource": "nothing for DefaultProvider, leave it out, else --policy with the Policy's own file",
    "extenders": "extenders beside profiles, for all of them",
    **{part: f"multiPoint.{part}, or that of another extension point" for part in ("enabled", "disabled")},
    "resources": "scoringStrategy.resources (in a Policy: within requestedToCapacityRatioArguments)",
    "shape": "requestedToCapacityRatio.shape in scoringStrategy "
             "(in a Policy: within requestedToCapacityRatioArguments)",
    "bindTimeoutSeconds": "bindTimeoutSeconds among the args of VolumeBinding (in a Policy: leave it out)",
    "lockObjectName": "resourceName", "lockObjectNamespace": "resourceNamespace",
    "schedulerName": "profiles[0].schedulerName, or --scheduler-name (in a Policy: only --scheduler-name)",
    **{part: f"profiles[0].{part} (in a Policy: predicates and priorities)"
       for part in ("plugins", "pluginConfig")},
    "hardPodAffinitySymmetricWeight": "hardPodAffinityWeight among the args of InterPodAffinity"}
IN_A_POLICY = re.compile(r" \(in a Policy.*\)$")  # of these hints, what a configuration gets no word of
EXTENDS = {  # kube-scheduler's own plugin -> its extension points. Upstream: framework/plugins/names.
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
    "DefaultPreemption": "preEnqueue postFilter",
    "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
    "GangScheduling": "preEnqueue reserve permit",
    "PodGroupPodsCount": "placementScore", "TopologyPlacementGenerator": "placementGenerate"}
DONE_ANYWAY = ["PrioritySort", "SchedulingGates", "DefaultBinder"]  # what these do is done without them
WITHOUT_EFFECT = EXTENDS.keys() - {*PLUGIN_ORDER, *DONE_ANYWAY}  # those that do nothing here
GONE = [*VOLUME_LIMITS, "NodeLabel", "ServiceAffinity", "NodePreferAvoidPods", "EvenPodsSpreadPriority"]
REPLACED = ["SelectorSpread", "DefaultPodTopologySpread", "NodePreferAvoidPods"]  # by plugins that do more
# Default weights that are no longer 1.
WEIGHTS_TODAY = {"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2}
STRATEGIES = {"LeastAllocated": "LeastRequestedPriority", "MostAllocated": "MostRequestedPriority",
              "RequestedToCapacityRatio": "RequestedToCapacityRatio"}  # of NodeResourcesFit: its priority
RULE_POINTS = {"predicates": ["preFilter", "filter"], "priorities": ["preScore", "score"]}
HOOK_POINTS = {hook: point.in_configuration for hook, point in EXTENSION_POINTS.items()}
POINTS = ["multiPoint", "preFilter", "filter", "preScore", "score", *dict.fromkeys(HOOK_POINTS.values()),
          "placementGenerate", "placementScore"]


def duration(text):
    """Return a duration such as 15s, 1m30s or .5h in nanoseconds; None if it is none, or is negative."""
    units = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9,
             "h": 3600 * 10**9}
    number = r"([0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,20})"
    part = f"{number}({'|'.join(units)})"
    if not isinstance(text, str) or not re.fullmatch(rf"\+?(0|({part})+)", text):  # 0 alone needs no unit
        return None
    total = sum(int(decimal.Decimal(count) * units[unit]) for count, unit in re.findall(part, text))
    return total if total < 2**63 else None


def times_of(election):
    """Return the times of leader election in seconds."""
    return {name: duration(election.get(name, "0")) / 10**9 or default for name, default in ELECTION.items()}


def leaves_time(election):
    """Say whether a leader has time to renew its Lease, even if its pauses are longer by JitterFactor."""
    lease, renew, retry = [round(seconds * 10**9) for seconds in times_of(election).values()]
    is_elected = election.get("leaderElect", True)  # as upstream has it by default
    return lease > renew > int(1.2 * retry) or not is_elected


def is_strategy(strategy):
    """Say whether a scoringStrategy has what its type needs. Upstream: ValidateNodeResourcesFitArgs."""
    if strategy.get("type") != "RequestedToCapacityRatio":
        return "type" in strategy and "requestedToCapacityRatio" not in strategy
    return not any(shape_problems([strategy.get("requestedToCapacityRatio", {})]))


def differ(things, *fields):
    """Say whether of two things at least one of these fields differs."""
    kinds = [tuple(thing.get(name) for name in fields) for thing in things]
    return len(kinds) == len(set(kinds))


FILTERED_TODAY = FILTERED | {"FailedAndUnresolvableNodes": dict}  # whose reasons count before FailedNodes'
READ_OVER = {  # since nothing here depends on it
    "clientConnection": {"kubeconfig": str, "acceptContentTypes": str, "contentType": str, "qps": float,
                         "burst": range(2**31)},
    "parallelism": range(1, 2**31), "enableProfiling": bool, "enableContentionProfiling": bool,
    "delayCacheUntilActive": bool, "percentageOfNodesToScore": range(101)}
DURATION = Form('a duration, such as "30s"', lambda value: duration(value) is not None, None)
CONFIGURATION = READ_OVER | {
    "kind": str, "apiVersion": str,
    "podInitialBackoffSeconds": range(1, 2**63), "podMaxBackoffSeconds": range(1, 2**63),
    "profiles": [{
        "schedulerName": str, "percentageOfNodesToScore": range(101),
        "pluginConfig": [{"name": str, "args": dict}],
        "plugins": {point: {part: [{"name": str, "weight": range(2**31)}] for part in ("enabled", "disabled")}
                    for point in POINTS}}],
    "leaderElection": Form("leaseDuration > renewDeadline > 1.2 x retryPeriod", leaves_time, {
        "leaderElect": bool, **dict.fromkeys(ELECTION, DURATION),
        "resourceLock": str, "resourceName": str, "resourceNamespace": str}),
    "extenders": [EXTENDER | {"httpTimeout": DURATION}]}
EXPRESSION = {"operator": {*OPERATORS}, "values": [str]}
NODE_SELECTOR_TERM = Form(
    "a term of node affinity", lambda term: valid_terms([term]) or not any(term.values()),
    {"matchExpressions": [Form("a key", lambda expression: "key" in expression, EXPRESSION | {"key": NAME})],
     "matchFields": [EXPRESSION | {"key": str}]})
SPREAD_CONSTRAINT = {
    "maxSkew": WEIGHT, "topologyKey": NAME, "whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"},
    "minDomains": WEIGHT, "matchLabelKeys": [str],
    "nodeAffinityPolicy": {"Honor", "Ignore"}, "nodeTaintsPolicy": {"Honor", "Ignore"}}
PLUGIN_ARGUMENTS = {  # what changes nothing here is read over. Upstream: validation_pluginargs.go
    "NodeAffinity": {"addedAffinity": {
        f"required{WHEN}": {"nodeSelectorTerms": [NODE_SELECTOR_TERM]},
        f"preferred{WHEN}": [{"weight": range(2**31), "preference": NODE_SELECTOR_TERM}]}},
    "NodeResourcesFit": {
        "ignoredResources": [NAME],
        "ignoredResourceGroups": [
            Form("a group, such as example.com", lambda name: "/" not in name, NAME)],
        "scoringStrategy": Form(
            "a type, and for RequestedToCapacityRatio alone a shape whose utilization ascends", is_strategy, {
                "type": {*STRATEGIES}, "resources": [{"name": str, "weight": range(101)}],
                "requestedToCapacityRatio": {"shape": SHAPE}})},
    "InterPodAffinity": {"hardPodAffinityWeight": range(101), "ignorePreferredTermsOfExistingPods": bool},
    "PodTopologySpread": Form(
        "defaultingType List, as there are defaultConstraints",
        lambda args: args.get("defaultingType") == "List" or not args.get("defaultConstraints"), {
            "defaultingType": {"List", "System"},
            "defaultConstraints": Form(
                "each topologyKey with each whenUnsatisfiable once",
                lambda constraints: differ(constraints, "topologyKey", "whenUnsatisfiable"),
                [Form("maxSkew, topologyKey and whenUnsatisfiable",
                      {"maxSkew", "topologyKey", "whenUnsatisfiable"}.issubset, SPREAD_CONSTRAINT)])}),
    "NodeResourcesBalancedAllocation": {"resources": Form(
        "each resource once", lambda resources: differ(resources, "name"),
        [{"name": str, "weight": range(2)}])},
    "VolumeBinding": {
        "bindTimeoutSeconds": range(2**63),
        "shape": Form("nothing, as the feature gate StorageCapacityScoring is off by default",
                      lambda value: False, None)},
    "DefaultPreemption": Form(
        "minCandidateNodesPercentage or minCandidateNodesAbsolute above 0",
        lambda args: len(args) < 2 or any(args.values()),
        {"minCandidateNodesPercentage": range(101), "minCandidateNodesAbsolute": range(2**31)}),
    "DynamicResources": {"filterTimeout": DURATION, "bindingTimeout": Form(
        "a duration of at least 1s", lambda value: (duration(value) or 0) >= 10**9, None)}}


Plugin = collections.namedtuple("Plugin", "rules points weight")  # weight: 0 if it does not run by default


def plugins_of_today():
    """Return {name: Plugin} in the order in which they run; the user's own rules are plugins, too."""
    found = {name: [] for name in (*PLUGIN_ORDER, *EXTENDS)}
    for rule in [*PREDICATES.values(), *PRIORITIES.values()]:
        found.setdefault(rule.plugin, []).append(rule)
    plugins = {}
    for name, rules in found.items():
        if name not in GONE:
            of_rules = [RULE_POINTS[rule.where] + [*map(HOOK_POINTS.get, rule.hooks)] for rule in rules]
            points = EXTENDS.get(name, "").split() or [*itertools.chain(*of_rules)]
            weight = max([rule.by_default or rule.always for rule in rules], default=1)
            plugins[name] = Plugin(rules, points, WEIGHTS_TODAY.get(name, weight))
    return plugins


def running_plugins(profile):
    """Return {point: {plugin: weight}} in running order. Upstream: expandMultiPointPlugins."""
    by_default = {name: plugin.weight for name, plugin in plugins_of_today().items() if plugin.weight}
    running = {}
    for point in POINTS:
        chosen = profile.get("plugins", {}).get(point, {})
        enabled = {entry.get("name", ""): entry.get("weight", 0) for entry in chosen.get("enabled", [])}
        disabled = {entry.get("name", "") for entry in chosen.get("disabled", [])}
        anyway = running.get("multiPoint", by_default)
        kept = {name: weight for name, weight in anyway.items() if disabled.isdisjoint([name, "*"])}
        # What runs anyway, and is enabled at the point itself, comes first.
        first = {name: weight for name, weight in enabled.items() if name in kept and point != "multiPoint"}
        running[point] = first | kept | enabled
    return running


def read_configuration(document, scheduler_name):
    """Return {schedulerName: Policy}; a single profile without a name gets this one. Raises InputError."""
    problems = [*changes_since(document)]
    notices = []
    body = decode_part(document, CONFIGURATION, "", problems)
    body["profiles"] = body.get("profiles") or [{}]
    if len(body["profiles"]) == 1:
        body["profiles"][0].setdefault("schedulerName", scheduler_name)
    check_configuration(body, notices, problems)
    refuse([IN_A_POLICY.sub("", problem) for problem in problems])
    configs = body.get("extenders", [])
    for config in configs:  # a Policy has nanoseconds
        config["httpTimeout"] = duration(config.get("httpTimeout", "0"))
    election = body.get("leaderElection", {})
    of_all = {"extenders": extenders_of(configs, FILTERED_TODAY), "election": election | times_of(election),
              "initial_backoff": body.get("podInitialBackoffSeconds", 1),
              "max_backoff": body.get("podMaxBackoffSeconds", 10),
              "notices": [IN_A_POLICY.sub("", notice) for notice in notices]}
    left_out = left_to_extenders(configs)
    return {profile["schedulerName"]: read_profile(profile, f"profiles[{i}]", left_out, of_all)
            for i, profile in enumerate(body["profiles"])}


def read_profile(profile, place, left_out, of_all):
    """Return a Profile: what is said of all, and the rules of the plugins that run; all is checked before."""
    known = plugins_of_today()
    running = running_plugins(profile)
    arguments = {config["name"]: config["args"] for config in profile.get("pluginConfig", [])}
    if left_out:  # resources that extenders see to. Upstream: buildExtenders
        arguments.setdefault("NodeResourcesFit", {})["ignoredResources"] = left_out

    def rules_at(point, catalogue):
        """Return {name: rule} of the plugins that run at a point, with the hooks at which they run, too."""
        rules = {}
        for plugin, weight in running[point].items():
            args = arguments.get(plugin, {})
            for name, settings in settings_of(plugin, known[plugin].rules, args).items():
                if name in catalogue:
                    rule = replace(catalogue[name], **TODAY.get(name, {}))
                    hooks = {hook: function for hook, function in rule.hooks.items()
                             if plugin in running[HOOK_POINTS[hook]]}
                    entry = f"{place}.plugins.{point}: {plugin}"
                    rules[name] = set_up(replace(rule, hooks=hooks), plugin, entry, weight or 1, settings)
        return rules

    predicates = rules_at("filter", PREDICATES)
    priorities = rules_at("score", PRIORITIES)
    own = {name: rule for name, rule in (PRIORITIES | PREDICATES).items()
           if rule.plugin not in EXTENDS and name not in predicates | priorities}
    others = {}  # those that neither filter nor score here
    for point in HOOK_POINTS.values():
        others |= rules_at(point, own)
    return Profile([*predicates.values()], [*priorities.values()], others=[*others.values()],
                   would_preempt="DefaultPreemption" in running["postFilter"], **of_all)


def settings_of(plugin, rules, args):
    """Return {rule: its settings}, by a plugin's arguments, of those of its rules that take part."""
    if plugin == "NodeAffinity":
        added = args.get("addedAffinity", {})
        required = added.get(f"required{WHEN}")  # without a term, no node meets it
        terms = [] if required is None else required.get("nodeSelectorTerms") or [{}]
        return {"MatchNodeSelector": {"added_terms": terms},
                "NodeAffinityPriority": {"added_terms": added.get(f"preferred{WHEN}", [])}}
    if plugin == "NodeResourcesFit":
        groups = [f"{group}/" for group in args.get("ignoredResourceGroups", [])]
        strategy = args.get("scoringStrategy", {"type": "LeastAllocated"})
        resources = [each | {"weight": each.get("weight") or 1}
                     for each in strategy.get("resources") or [{"name": "cpu"}, {"name": "memory"}]]
        settings = {"weights": {each.get("name", ""): each["weight"] for each in resources}}
        if strategy["type"] == "RequestedToCapacityRatio":
            settings = {"arguments": [strategy["requestedToCapacityRatio"] | {"resources": resources}]}
        return {"PodFitsResources": {"excepted": args.get("ignoredResources", []) + groups},
                STRATEGIES[strategy["type"]]: settings}
    if plugin == "InterPodAffinity":
        return {"MatchInterPodAffinity": {}, "InterPodAffinityPriority": {
            "hard_weight": args.get("hardPodAffinityWeight", 1),
            "ignores_others": args.get("ignorePreferredTermsOfExistingPods", False)}}
    if plugin == "PodTopologySpread":
        system = [] if args.get("defaultingType") == "List" else DEFAULT_SPREAD
        settings = {"default_constraints": args.get("defaultConstraints") or system}
    elif plugin == "NodeResourcesBalancedAllocation":
        names = [resource.get("name", "") for resource in args.get("resources", [])]
        settings = {"resources": names} if names else {}
    elif plugin == "VolumeBinding":
        settings = {"timeout": args["bindTimeoutSeconds"]} if "bindTimeoutSeconds" in args else {}
    else:
        settings = {"arguments": [args]} if args else {}
    return {rule.name: settings for rule in rules}


READERS["KubeSchedulerConfiguration"] = read_configuration
EXPECTED.append(f"kind KubeSchedulerConfiguration with apiVersion {CONFIGURATION_VERSION}")


# ==== 42. What kube-scheduler refuses ===================================================================

# What it refuses, and the schemas do not, is added to `problems`; what is said without effect, to `notices`.
# Upstream: pkg/scheduler/apis/config/validation, and NewFramework in runtime.


LOCKS_OF_OLD = ["endpoints", "configmaps", "endpointsleases", "configmapsleases"]  # tutorials print them


def changes_since(document):
    """Yield what is different in a configuration of an older version, besides names unknown today."""
    version = document.get("apiVersion")
    if version != CONFIGURATION_VERSION:
        yield f'apiVersion "{version}": write {CONFIGURATION_VERSION}'
    if str(version).endswith(("v1alpha1", "v1alpha2", "v1beta1", "v1beta2")):
        yield ("by default InterPodAffinity and NodeAffinity weigh 2 today, TaintToleration 3 (each was 1), "
               "and nobody heeds the annotation preferAvoidPods")


def check_configuration(body, notices, problems):
    """Check all of a configuration that is of the right types; decode the arguments of plugins, in place."""
    problems += extender_problems(body.get("extenders", []))
    if body.get("podInitialBackoffSeconds", 1) > body.get("podMaxBackoffSeconds", 10):
        problems.append("expected 0 < podInitialBackoffSeconds <= podMaxBackoffSeconds")
    election = body.get("leaderElection", {})
    lock = election.get("resourceLock") or "leases"
    if lock in LOCKS_OF_OLD:
        notices.append("leaderElection.resourceLock: today only leases lock, and they do here")
    elif lock != "leases" and election.get("leaderElect", True):
        problems.append(f"leaderElection.resourceLock: expected leases, got {in_short(lock)}")
    profiles = body["profiles"]
    read_over = [name for said in (body, *profiles) for name in READ_OVER if name in said]
    if read_over:
        notices.append(f"nothing here depends on {', '.join(dict.fromkeys(read_over))}")
    for i, profile in enumerate(profiles):
        decode_arguments(profile.get("pluginConfig", []), f"profiles[{i}].pluginConfig", notices, problems)
    problems += profile_problems(profiles)
    check_plugins(profiles, notices, problems)


def profile_problems(profiles):
    """Yield what is wrong with profiles besides their single plugins."""
    names = [profile.get("schedulerName", "") for profile in profiles]
    for i, profile in enumerate(profiles):
        place = f"profiles[{i}]"
        if not names[i] or names[i] in names[:i]:
            yield f"{place}.schedulerName: each profile needs one of its own"
        if queue_sort_of(profile) != queue_sort_of(profiles[0]):
            yield f"{place}.plugins.queueSort: must be as in profiles[0], with its args"
        sorting = plugins_at("queueSort", profile)
        if len(sorting) != 1:
            yield f"{place}.plugins.queueSort: expected one plugin, got {', '.join(sorting) or 'none'}"
        if not plugins_at("bind", profile):
            yield f"{place}.plugins.bind: expected one plugin, got none"


def plugins_at(point, profile):
    """Return the names of the plugins that a profile runs at a point."""
    known = plugins_of_today()
    return [name for name in running_plugins(profile)[point] if name in known and point in known[name].points]


def queue_sort_of(profile):
    """Return what a profile says of the order of the queue, which is one for all profiles."""
    chosen = profile.get("plugins", {}).get("queueSort", {})
    disabled = [entry.get("name") for entry in chosen.get("disabled", [])]
    sorting = plugins_at("queueSort", profile)
    args = [config for config in profile.get("pluginConfig", []) if config.get("name") in sorting]
    return chosen.get("enabled", []), disabled, sorting, args


def check_plugins(profiles, notices, problems):
    """Check the names of plugins. Those that nobody knows share a line, as most often all are another's."""
    known = plugins_of_today()
    unknown = collections.defaultdict(dict)  # what may be meant -> {plugin: where it comes first}
    for where, point, name, before in entries_of(profiles, "enabled"):
        if not name:
            problems.append(f"{where}.name: is missing")
        elif name not in known:
            fitting = [each for each in known if point in ("multiPoint", *known[each].points)]
            unknown[hint_at_plugin(name, fitting)].setdefault(f'"{name}"', where)
        elif point not in ("multiPoint", *known[name].points):
            points = ", ".join(known[name].points)
            problems.append(f'{where}: plugin "{name}" does not {point}, but {points}')
        elif name in before:
            problems.append(f'{where}: plugin "{name}" is enabled there already')
        elif name in WITHOUT_EFFECT:
            notices.append(f"{where}: {name} does nothing here")
    for hint, places in unknown.items():
        where, *others = places.values()
        problems.append(f"{where}: unknown plugin{'s' if others else ''} {', '.join(places)}{hint}")
    for where, _, name, _ in entries_of(profiles, "disabled"):
        if name not in known and name != "*":
            hint = "; leave it out" if name in REPLACED else hint_at_plugin(name, known, "")
            notices.append(f'{where}: there is no plugin "{name}"{hint}')


def entries_of(profiles, part):
    """Yield (where it is, extension point, name, names before it) of what is enabled, or disabled."""
    for i, profile in enumerate(profiles):
        for point, chosen in profile.get("plugins", {}).items():
            names = [entry.get("name", "") for entry in chosen.get(part, [])]
            for k, name in enumerate(names):
                yield f"profiles[{i}].plugins.{point}.{part}[{k}]", point, name, names[:k]


def hint_at_plugin(name, choice, *otherwise):
    """Return a hint at what plugin is meant by a name that none has: see `did_you_mean`."""
    plugin_of = {rule.name: plugin for plugin, known in plugins_of_today().items() for rule in known.rules}
    plugin_of["MostRequestedPriority"] = "NodeResourcesMostAllocated"  # else pods would be spread
    meant = name if name in NAMES_OF_OLD else plugin_of.get(name, name)
    return did_you_mean(meant, choice, *otherwise)


def decode_arguments(configs, place, notices, problems):
    """Decode the arguments of a profile's plugins, in place."""
    schemas = {name: rule.argument for name, plugin in plugins_of_today().items()
               for rule in plugin.rules if rule.argument} | PLUGIN_ARGUMENTS
    names = [config.setdefault("name", "") for config in configs]
    for i, config in enumerate(configs):
        where = f"{place}[{i}]"
        name = names[i]
        args = config.get("args", {})
        if not name:
            problems.append(f"{where}.name: is missing")
        elif name in VOLUME_LIMITS:
            problems.append(f'{where}: unknown plugin "{name}"{hint_at_plugin(name, ())}')
        elif name in names[:i]:
            problems.append(f'{where}: there are arguments for "{name}" already')
        for part, expected in {"kind": f"{name}Args", "apiVersion": CONFIGURATION_VERSION}.items():
            said = args.pop(part, None) or expected
            if name in PLUGIN_ARGUMENTS and said != expected:
                problems.append(f"{where}.args.{part}: expected {expected}, got {in_short(said)}")
        if args and (name not in schemas or name in WITHOUT_EFFECT):
            hint = hint_at_plugin(name, schemas, "") if name not in EXTENDS else ""
            notices.append(f"{where}.args: nothing here depends on the arguments of {name}{hint}")
        config["args"] = decode_part(args, schemas.get(name, dict), f"{where}.args", problems)


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
