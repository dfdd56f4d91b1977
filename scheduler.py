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
means its code. Read it from the top: the loop comes first, then what it calls.

This file is a whole scheduler. A folder beside it has extras: sidecars, claims, affinity of pods, spreading,
preemption, a cluster that is watched, and more. `--alone` runs this file without them, so that all that you
edit here counts. Beside them, edits of the rules and of the loop still count. Those of Cluster, Proxy,
Policy and chapter 10 do not: the extras have their own.
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
import pathlib
import random
import re
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field, replace
from types import GeneratorType, MappingProxyType as read_only

try:
    import requests
    import yaml
except ImportError as error:
    sys.exit(f"{error.name} is missing: pip install requests pyyaml")

log = logging.getLogger("scheduler")
say_once = functools.lru_cache(maxsize=1000)(log.warning)  # does not repeat its last 1,000 lines


# ==== 1. The loop =======================================================================================

def run(cluster, read_policies, stop, interval, once):
    """Make passes until `stop` is set. With `once`, end when no pod is due, or a pass fails."""
    while not stop.is_set():
        try:
            schedule_pending_pods(cluster, read_policies(), stop)  # read in each pass: the file may be edited
            cluster.end_pass()
        except (ApiError, Malformed) as error:  # a request has failed, or its answer is no list
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
        if feasible:
            decision.total = policy.prioritize(decision, feasible)
            decision.node = feasible[select_host(decision.total)].name
        else:
            decision.message = decision.failed.message
    except (Exception, SystemExit) as error:  # such as a mistake in a rule
        decision.give_up(error)
    return decision


@dataclass(eq=False)  # each equals itself only
class Policy:
    """The active rules, in the order in which they run, and how they are asked."""

    predicates: list
    priorities: list

    def new_decision(self, pod, snapshot):
        """Return a decision about the pod, in which nothing is decided yet."""
        return Decision(pod, snapshot.nodes)

    def nodes_that_fit(self, pod, snapshot):
        """Return the nodes that no predicate is against, {name: Node}, and the Failures of the others."""
        against = {name: self.reasons_against(pod, node) for name, node in snapshot.nodes.items()}
        feasible = {name: node for name, node in snapshot.nodes.items() if not against[name]}
        return feasible, Failures({name: against[name] for name in against if name not in feasible})

    def reasons_against(self, pod, node):
        """Ask the predicates about a node. The first that has reasons rules it out: {its name: reasons}."""
        for rule in self.predicates:
            if reasons := [str(reason) for reason in rule.reasons(pod, node)]:
                return {rule.name: reasons}
        return {}

    def prioritize(self, decision, feasible):
        """Return each node's total: the sum, over all priorities, of weight times points."""
        total = dict.fromkeys(feasible, 0 if self.priorities else 1)  # with none, each gets 1
        try:
            for rule in self.priorities:
                points = rule.points(decision.pod, feasible)
                for name in feasible:
                    total[name] += rule.weight * points[name]
        except Unschedulable:
            if len(feasible) > 1:  # a single node is taken in any case
                raise
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
        waiting = {pod.uid: pod for name in policies for pod in self.read_waiting(name)}
        self.snapshot = Snapshot({node.name: node for node in self.read(Node, "nodes")})
        for pod in self.read(Pod, "pods", f"spec.nodeName!=,{self.UNFINISHED}"):  # those on nodes
            if pod.node_name in self.snapshot.nodes:
                self.snapshot.nodes[pod.node_name].add(pod)
            waiting.pop(pod.uid, None)  # it was bound since it was listed as waiting
        moment = time.monotonic()
        self.ends_at = moment + 5  # then the pass ends early: what is listed is too old to decide by
        self.attempts = {uid: self.attempts.get(uid, Attempts(retry_at=moment)) for uid in waiting}
        due = [pod for pod in waiting.values() if self.attempts[pod.uid].retry_at <= moment]
        self.due = sorted(due, key=self.turn)

    def read_waiting(self, name):
        """Yield the pods that name this scheduler, have no node yet, and are to be tried at all."""
        for pod in self.read(Pod, "pods", f"spec.schedulerName={name},spec.nodeName=,{self.UNFINISHED}"):
            if not (pod.terminating or pod.spec.get("schedulingGates")):
                yield pod

    def turn(self, pod):
        """Return what pods are sorted by: those whose writes fail come last, then by priority and wait."""
        attempts = self.attempts[pod.uid]
        return attempts.write_failed, -pod.priority, attempts.retry_at, pod.created, pod.key

    def next_pod(self, stop):
        """Return the next pod to decide about; None ends the pass."""
        is_over = stop.is_set() or time.monotonic() >= self.ends_at
        return self.due.pop(0) if self.due and not is_over else None

    def read(self, kind, resource, selector=""):
        """Yield what is listed, as Pods or Nodes, without what cannot be read, and the node of such a pod."""
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
        self.attempts[decision.pod.uid].write_failed = False  # what an earlier attempt met is forgotten
        try:
            self.api.request(*binding(decision.pod, decision.node))
        except ApiError as error:
            decision.give_up(Unschedulable(f"binding rejected: {error}"))
            self.put_off(decision)
            self.follow_up(decision, error)

    def follow_up(self, decision, error):
        """Do what follows from the failure of a Binding, by its status. The pod has been put off."""
        attempts = self.attempts[decision.pod.uid]
        attempts.write_failed = error.status not in (404, 409)
        if not attempts.write_failed:  # the pod has gone, or somebody else has bound it
            say_once(f"{decision.pod.key}: {decision.message}")
            attempts.told = decision.message  # as if it were told by now: so `report` says nothing of it
            self.ends_at = 0  # the pass ends: LIST again, to see where the pod is
        elif error.status in (0, 429):  # the next Binding would fail, too: this ends the pass
            raise Trouble(error.status, f"{decision.pod.key}: {error}") from error

    def put_off(self, decision):
        """Have the pod back off: it waits 1, 2, 4, 8, then always 10 seconds before it is tried again."""
        before = self.attempts[decision.pod.uid]
        seconds = min(2 ** before.number, 10)
        self.attempts[decision.pod.uid] = Attempts(before.number + 1, time.monotonic() + seconds, before.told)

    def report(self, decision):
        """Write an event, and show the decision. What was last told of a pending pod is not told again."""
        pod, where = decision.pod, decision.node
        if where:
            self.write(event(pod, "Normal", "Scheduled", f"Successfully assigned {pod.key} to {where}"))
            self.show(decision)
        elif self.attempts[pod.uid].told != decision.message:
            written = self.write(event(pod, "Warning", "FailedScheduling", decision.message))
            self.attempts[pod.uid].told = decision.message if written else None
            self.attempts[pod.uid].write_failed |= not written
            self.show(decision)

    def write(self, request):
        """Send an event. Return whether it is settled: sent, or refused for good."""
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
    told: str | None = None  # the message of its last event
    write_failed: bool = False  # its Binding (not with 404, 409) or event: others come first


# What no rule looks at, and anybody may nest deeper than `json` reads it: objects and texts, but no lists.
MANAGED_FIELDS = re.compile(r'"managedFields":\s*\[[^]["]*("[^"\\]*(\\.[^"\\]*)*"[^]["]*)*]')


class Proxy:
    """The API server behind kubectl proxy."""

    def __init__(self, server):
        self.server = server.rstrip("/")
        self.session = requests.Session()
        self.session.trust_env = False  # kubectl proxy is asked, not a proxy that the environment names

    def request(self, method, path, body=None, params=None):
        """Send a request and return the answer's JSON. Raises ApiError."""
        try:
            answer = self.session.request(method, self.server + path, params=params, json=body,
                                          timeout=30, allow_redirects=False)
        except (requests.RequestException, ValueError) as error:  # ValueError: of a malformed URL
            problem = f"cannot reach {self.server}: {type(error).__name__}"  # such as ReadTimeout
            raise Trouble(0, f"{problem}; is `kubectl proxy` running there?") from error
        answer.encoding = "utf-8"
        content = None
        with contextlib.suppress(ValueError, RecursionError):  # it is no JSON, or nested too deep
            content = json.loads(MANAGED_FIELDS.sub('"managedFields":[]', answer.text))
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
            # No `items`: an error, never an empty list, which would overcommit. (Of pick: see chapter 9.)
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


def now():
    """Return the time as the API writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


# ==== 3. A rule =========================================================================================

# A predicate is a function of (pod, node) that yields the reasons why the pod does not fit, each a string. A
# priority is one that returns a score from 0 to 100. With a `reduce`, it may return any number: `reduce` is
# given the scores of all nodes that fit, {name: score}, and returns points from 0 to 100, {name: points}.

CATALOGUES = {"predicates": {}, "priorities": {}}  # name -> Rule, in kube-scheduler's order
PREDICATES, PRIORITIES = CATALOGUES.values()


class InputError(ValueError):
    """A file, or a rule, cannot be used. The text, a line, says where, what is wrong, what would be right."""


@dataclass(eq=False)
class Rule:
    """A predicate or a priority: a function of a pod and a node, under the name that a Policy has for it."""

    name: str
    function: callable
    reduce: callable | None = None
    weight: int = 1  # of a priority: what the Policy multiplies its points by

    def reasons(self, pod, node):
        """Yield the reasons that a predicate has against a node. Raises InputError."""
        answer = self.function(pod, node)
        if isinstance(answer, (GeneratorType, list, tuple)):
            answer = (yield from answer) or []  # who yields may not return a string besides: it would be lost
        if answer != []:
            raise wrong_answer(self.function, "yield strings, or return a list of them", answer)

    def points(self, pod, nodes):
        """Return the points that a priority gives to nodes, {name: points}. Raises InputError."""
        scores = {name: self.function(pod, node) for name, node in nodes.items()}
        if odd := [score for score in scores.values() if not isinstance(score, (int, float))]:
            raise wrong_answer(self.function, "return a number from 0 to 100, or any with a `reduce`", odd[0])
        points = dict.fromkeys(scores) | (self.reduce(scores) or {}) if self.reduce else scores
        if odd := {name: n for name, n in points.items() if type(n) not in (int, float) or not 0 <= n <= 100}:
            raise wrong_answer(self.function, "give each node a number from 0 to 100", odd)
        return points


def register(where, name, reduce=None):
    """Return a decorator that makes a function the rule of this name. Raises TypeError."""
    if not isinstance(name, str):
        raise TypeError('a rule needs the name that a Policy has for it, as in @predicate("Name")')

    def decorate(function):
        CATALOGUES[where][name] = Rule(name, function, reduce)
        return function
    return decorate


predicate = functools.partial(register, "predicates")
priority = functools.partial(register, "priorities")


def kept_with_pod(function):
    """Make a function of a pod, and maybe of more, remember its answers, in the pod."""
    @functools.wraps(function)
    def kept(pod, *more):
        if (function, more) not in pod.derived:
            pod.derived[function, more] = function(pod, *more)
        return pod.derived[function, more]
    return kept


def wrong_answer(function, expected, answer):
    """Return the error that says where a function of a rule is, what it is to answer, and what it did."""
    code = function.__code__
    place = f"{pathlib.Path(code.co_filename).name}, line {code.co_firstlineno}"
    said = re.sub(" at 0x[0-9a-f]+", "", repr(answer))  # where it is in memory differs from time to time
    return InputError(f"{code.co_name} is to {expected}, not {said:.60} ({place})")


def what_broke(error):
    """Describe a mistake in a line, with the last function, and line, that is in no library."""
    error = error.__cause__ if isinstance(error.__cause__, StopIteration) else error  # of a rule's next()
    frames = traceback.extract_tb(error.__traceback__)
    *_, last = frames[:1] + [each for each in frames
                             if "lib/python3" not in each.filename and each.name != "register"]
    place = f"{pathlib.Path(last.filename).name}, line {last.lineno}"
    words = traceback.format_exception_only(error)[-1].partition(":")[2].split()  # str(error) might raise
    return f"{type(error).__name__} in {last.name}: {' '.join(words)} ({place})"


def end_the_script(_, error, __):
    """Say in a line why the script cannot go on, and end it. Exit code: 130 after Ctrl-C, else 2."""
    log.error(error if isinstance(error, (InputError, SyntaxError)) else what_broke(error))
    sys.exit(130 if isinstance(error, KeyboardInterrupt) else 2)


sys.excepthook = end_the_script if __name__ == "__main__" else sys.excepthook


# ==== 4. Predicates =====================================================================================

@predicate("CheckNodeUnschedulable")
def check_node_unschedulable(pod, node):
    """The node is not cordoned, or the pod tolerates that."""
    if node.unschedulable and not tolerates(pod, Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")):
        yield "node(s) were unschedulable"


@predicate("HostName")
def host_name(pod, node):
    """The pod names no other node. (One that waits names none; the rule is here as Policies name it.)"""
    if pod.node_name and pod.node_name != node.name:
        yield "node(s) didn't match the requested hostname"


@predicate("PodFitsHostPorts")
def pod_fits_host_ports(pod, node):
    """No pod there uses a host port of this pod."""
    if pod.host_ports and any(share_a_port(pod, other) for other in node.pods.values()):
        yield "node(s) didn't have free ports for the requested pod ports"


def share_a_port(pod, other):
    """Say whether two pods use a host port of one protocol, number and IP; 0.0.0.0 is any IP."""
    for port in pod.host_ports.keys() & other.host_ports.keys():  # in time: the fewer are looked up
        wanted, taken = pod.host_ports[port], other.host_ports[port]
        if "0.0.0.0" in wanted | taken or wanted & taken:
            return True
    return False


@predicate("MatchNodeSelector")
def match_node_selector(pod, node):
    """The node has the labels of the pod's nodeSelector, and meets its required node affinity, if any."""
    if not wants_node(pod, node):
        yield "node(s) didn't match Pod's node affinity"


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


@predicate("NoDiskConflict")
def no_disk_conflict(pod, node):
    """No pod there has a network disk that this pod mounts, unless both only read it (EBS: not even then)."""
    if disks_of(pod) and any(want_one_disk(pod, other) for other in node.pods.values()):
        yield "node(s) had no available disk"


@predicate("PodToleratesNodeTaints")
def pod_tolerates_node_taints(pod, node):
    """The pod tolerates the node's NoSchedule and NoExecute taints. If not, the first such taint is named."""
    for taint in hostile_taints(pod, node)[:1]:
        yield f"node(s) had taint {{{taint.key}: {taint.value}}}, that the pod didn't tolerate"


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

# For scores, a container that requests no cpu, or no memory, counts as if it requested this much (`nonzero`).
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


@priority("BalancedResourceAllocation")
def balanced_resource_allocation(pod, node):
    """100 where the shares of cpu and memory in use are equal, else less; 0 where one is then full."""
    pairs = usage(pod.nonzero_incoming, node).values()
    cpu, memory = [used / capacity if capacity else 1.0 for used, capacity in pairs]
    return 0 if cpu >= 1 or memory >= 1 else int((1 - abs(cpu - memory)) * 100)


def most_is_best(scores):
    """Scale scores: 0 gets 0 points, the highest score gets 100. Upstream: DefaultNormalizeScore."""
    highest = max(scores.values())
    return {name: 100 * score // highest if highest else 0 for name, score in scores.items()}


def least_is_best(scores):
    """Scale scores: 0 gets 100 points, the highest score gets 0."""
    return {name: 100 - points for name, points in most_is_best(scores).items()}


@priority("NodeAffinityPriority", reduce=most_is_best)
def node_affinity(pod, node):
    """The summed weights of the preferred node affinity terms that the node meets."""
    return sum([weight for weight, term in preferred_terms(pod) if term_matches(term, node)])


@priority("TaintTolerationPriority", reduce=least_is_best)
def taint_toleration(pod, node):
    """The number of PreferNoSchedule taints that the pod does not tolerate; the fewer, the better."""
    return len(hostile_taints(pod, node, ["PreferNoSchedule"]))


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
    node: str | None = None  # the name of the chosen node
    failed: Failures = field(default_factory=Failures)  # why the other nodes do not fit
    total: dict = field(default_factory=dict)  # node that fits -> the sum of its weighted points
    message: str | None = None  # why it has no node; if none fits, in kube-scheduler's words

    def give_up(self, error):
        """Decide to leave the pod pending, with this error. A rule that breaks affects this pod only."""
        self.node = None
        is_known = isinstance(error, (Unschedulable, Malformed, InputError))
        self.message = str(error) if is_known else what_broke(error)


# ==== 7. Pods and nodes =================================================================================

# Rules only look: if one writes into a `read_only` field, or appends to a tuple, that line raises.

class Pod:
    """What the scheduler knows of a pod. Raises Malformed."""

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
        self.host_ports = read_only(host_ports_of(self.containers))
        self.requests = read_only(NO_REQUESTS | amounts_of_pod(spec, {}))
        self.nonzero = read_only(amounts_of_pod(spec, DEFAULT_REQUESTS))  # as scores count it
        # A bug of upstream, kept: while the pod waits, a core of its overhead counts as a millicore.
        overhead = amounts(spec, "overhead").get("cpu", 0)
        cpu = self.nonzero.get("cpu", 0) - overhead + math.ceil(overhead / 1000)
        self.nonzero_incoming = read_only(self.nonzero | {"cpu": cpu})  # by calculatePodResourceRequest
        self.derived = {}  # what rules have worked out of it: see kept_with_pod


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
        for name, amount in (default | amounts(container, "resources", "requests")).items():
            total[name] = max(amount, total.get(name, 0))
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
        self.allocatable = read_only(NO_REQUESTS | amounts(raw, "status", "allocatable"))
        self.max_pods = quantity(str(pick(raw, dict, "status", "allocatable").get("pods") or 0))
        self._pods = {}
        self._requested = dict(NO_REQUESTS)
        self._nonzero = dict.fromkeys(DEFAULT_REQUESTS, 0)
        # What rules see: the pods on it, {uid: Pod}; what these request, and the same as scores count it.
        self.pods, self.requested, self.nonzero = map(read_only, (self._pods, self._requested, self._nonzero))

    def add(self, pod):
        """Put a pod on the node."""
        self._pods[pod.uid] = pod
        add_to(self._requested, pod.requests)
        add_to(self._nonzero, pod.nonzero)


# The nodes as they were listed, {name: Node}, with the pods that were on them then, and those assumed since.
Snapshot = collections.namedtuple("Snapshot", "nodes")
Taint = collections.namedtuple("Taint", "key value effect")
NO_REQUESTS = {"cpu": 0, "memory": 0, "ephemeral-storage": 0}  # each pod and node has these keys

# Source of a volume -> the fields that identify the disk. Of an rbd, each of its monitors, too.
DISK_IDENTITIES = {"gcePersistentDisk": ["pdName"], "awsElasticBlockStore": ["volumeID"], "iscsi": ["iqn"],
                   "rbd": ["image", "pool"]}


@kept_with_pod
def disks_of(pod):
    """The pod's network disks, {identity: whether it may be shared}. Rbd: one identity for each monitor."""
    disks = {}
    for volume in pod.volumes:
        for source in [each for each in DISK_IDENTITIES if volume.get(each)]:
            disk = pick(volume, dict, source)
            shared = pick(disk, bool, "readOnly") and source != "awsElasticBlockStore"
            for monitor in pick(disk, list, "monitors", of=str) if source == "rbd" else [""]:
                identity = source, monitor, *(pick(disk, str, name) for name in DISK_IDENTITIES[source])
                disks[identity] = shared and disks.get(identity, True)
    return disks


def want_one_disk(pod, other):
    """Say whether two pods mount a network disk that they cannot share."""
    ours, theirs = disks_of(pod), disks_of(other)
    return any(not (ours[disk] and theirs[disk]) for disk in ours.keys() & theirs.keys())


# ==== 8. Node affinity ==================================================================================

Requirement = collections.namedtuple("Requirement", "key operator values")  # of labels or fields
LABEL_VALUE = re.compile("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
OPERATORS = {  # of label and node selectors; the value is None where the label is missing
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: int64(value) is not None and int64(value) > int64(values[0]),
    "Lt": lambda value, values: int64(value) is not None and int64(value) < int64(values[0])}


def wants_node(pod, node):
    """Say whether a node meets the pod's nodeSelector and required node affinity."""
    terms = required_terms(pod)
    return all([node.labels.get(key) == value for key, value in pod.node_selector.items()]) and (
        terms is None or any([term_matches(term, node) for term in terms]))


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
        try:
            pairs.append((pick(each, int, "weight"), node_selector_term(pick(each, dict, "preference"))))
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
    on_fields = [requirement(each) for each in pick(raw, list, "matchFields", of=dict)]
    return on_labels, on_fields


def term_matches(term, node):
    """Say whether a node meets the whole term. An empty term matches none. Fields: metadata.name only."""
    labels, fields = term
    return any(term) and satisfies(node.labels, labels) and satisfies({"metadata.name": node.name}, fields)


def satisfies(labels, requirements):
    """Say whether labels meet all the requirements."""
    return all([OPERATORS[operator](labels.get(key), values) for key, operator, values in requirements])


def requirement(expression):
    """Read an entry of matchExpressions, or of matchFields."""
    values = pick(expression, list, "values", of=str)
    return Requirement(pick(expression, str, "key"), pick(expression, str, "operator"), values)


def read_requirement(expression):
    """Read an entry of matchExpressions. Raises InvalidSelector, if no API server looks at that."""
    read = requirement(expression)
    if read.operator not in OPERATORS:
        raise InvalidSelector(f'"{read.operator}" is not a valid node selector operator')
    if read.operator in ("Gt", "Lt") and int64(",".join(read.values)) is None:
        raise InvalidSelector("for 'Gt', 'Lt' operators, the value must be an integer")
    for value in read.values:
        if len(value) > 63 or not LABEL_VALUE.fullmatch(value):
            raise InvalidSelector(f'invalid label value: "{repr(value)[1:-1]}": at key: "{read.key}"')
    return read


def int64(text):
    """Read a base-10 integer of 64 bits; else return None. (A label's value has at most 63 characters.)"""
    is_number = re.fullmatch("[+-]?[0-9]{1,63}", text or "")
    return int(text) if is_number and -(2**63) <= int(text) < 2**63 else None


# ==== 9. Fields and quantities ==========================================================================

TYPE_NAME = {dict: "an object", list: "a list", str: "a string", int: "a whole number", bool: "true or false"}
# A number, and its exponent or suffix, if any; 1000 ** -1 of "m", 1 of None, 1000 of "k", and so on.
QUANTITY = re.compile(r"(\+?(?=\.?\d)\d*(?:\.\d*)?)(?:[eE]([+-]?\d{1,9})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
SUFFIXES = {s: decimal.Decimal(1000) ** i for i, s in enumerate(["n", "u", "m", None, *"kMGTPE"], -3)}
SUFFIXES |= {f"{s}i": decimal.Decimal(1024) ** i for i, s in enumerate("KMGTPE", 1)}
# Keeps 100 digits, and rounds up the rest, to be fast; what is too large becomes Infinity (no trap).
DIGITS = decimal.Context(prec=100, rounding=decimal.ROUND_UP, Emin=-999, Emax=999, traps=[])


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


@functools.lru_cache(maxsize=65536)
def quantity(text, unit=1):
    """Read a quantity, times unit, rounded up: "1.5Ki" is 1536. Raises Malformed. (ParseQuantity)"""
    match = QUANTITY.fullmatch(text)
    if not match:
        raise Malformed(f'"{text:.60}" is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi')
    number, exponent, suffix = match.groups()
    value = DIGITS.create_decimal(f"{number}e{exponent or 0}")
    return math.ceil(min(DIGITS.multiply(value, SUFFIXES[suffix] * unit), 2**63 - 1))  # of 64 bits


def amounts(thing, *path):
    """Read a resource list: cpu in millicores, all else in units. Only the names below count."""
    texts = pick(thing, dict, *path)  # upstream: Resource.Add in pkg/scheduler/framework/types.go
    return {name: quantity(str(text), 1000 if name == "cpu" else 1) for name, text in texts.items()
            if name in NO_REQUESTS or "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))}


def add_to(total, more):
    """Add resource amounts to others, in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


# ==== 10. The Policy file, and a command line ===========================================================

# What no rule of this file looks at, in the JSON of a pod's spec.
IGNORED = re.compile(r'"(\w*[cC]laim\w*|podAffinity|podAntiAffinity|topologySpreadConstraints)": [{[][^]}]')

# E.g. {"predicates": [{"name": "HostName"}], "priorities": [{"name": "NodeAffinityPriority", "weight": 1}]}
def policy_in_file(path):
    """Read a Policy file with these two lists only. Raises InputError."""
    try:
        text = pathlib.Path(path).read_text("utf-8").replace("\t", " ")  # JSON may be indented with tabs
        document = yaml.safe_load(text)
        predicates, priorities = [rules_named(document, where) for where in CATALOGUES]
        given = {key for key, value in document.items() if value is not None} - {"kind", "apiVersion"}
        if given != CATALOGUES.keys():
            raise InputError(f"scheduler.py alone reads predicates and priorities, both; got {sorted(given)}")
    except Exception as error:  # a YAML tag may raise any exception
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error
    active = {"CheckNodeUnschedulable", "PodToleratesNodeTaints"} | predicates.keys()  # two always
    return Policy([rule for name, rule in PREDICATES.items() if name in active], [*priorities.values()])


def rules_named(document, where):
    """Return the rules that a list of a Policy names, {name: Rule}, with their weights. Raises InputError."""
    rules = {}
    for entry in pick(document, list, where, of=dict):
        name = pick(entry, str, "name")
        weight = pick(entry, int, "weight")
        if name not in CATALOGUES[where]:
            raise InputError(f'{where}: no "{name}" in scheduler.py; it has {", ".join(CATALOGUES[where])}')
        if entry.keys() - {"name", "weight"}:
            raise InputError(f"{where}: {name}: scheduler.py alone reads a name and a weight, and no more")
        if where == "priorities" and not 0 < weight < 2**63 // 100:  # upstream: MaxWeight
            raise InputError(f"{where}: {name}: expected a weight above 0, such as 1, and no huge one")
        rules[name] = replace(CATALOGUES[where][name], weight=weight)
    return rules


def policies_by_now(path, scheduler_name):
    """Yield {schedulerName: Policy} for each pass, as the file is edited. Raises InputError at first only."""
    policy = policy_in_file(path)
    said = None
    while True:
        try:
            policy = policy_in_file(path)
            weighted = [f"{rule.name} ×{rule.weight}" for rule in policy.priorities]
            line = f"{path}: {', '.join([rule.name for rule in policy.predicates] + weighted)}"
        except InputError as error:
            line = f"{error}; the last good Policy stays"
        if line != said:
            log.info("%s", line)
        said = line
        yield {scheduler_name: policy}


def print_decision(decision):
    """Print a decision as a line; of a pod that is placed, log what it asks for and nobody looks at."""
    where = f"stays pending: {decision.message}"
    if decision.node:
        fit = f"{len(decision.total)} of {len(decision.nodes)} nodes fit"
        where = f"-> {decision.node}  ({fit}, score {decision.total.get(decision.node, 0):.10g})"
    with contextlib.suppress(OSError, ValueError):  # stdout is closed, or cannot encode it
        print(f"{decision.pod.key} {where}", flush=True)
    if decision.node and (ignored := sorted({*IGNORED.findall(json.dumps(decision.pod.spec))})):
        say_once(f"{decision.pod.key} is placed, though scheduler.py alone ignores its {', '.join(ignored)}")


def run_script():
    """Run this file alone, until Ctrl-C. Return the exit code, 1 if --once fails or is ended."""
    parser = argparse.ArgumentParser(prog="scheduler.py alone", usage=argparse.SUPPRESS, allow_abbrev=False)
    parser.add_argument("--server", default="http://127.0.0.1:8001", help="kubectl proxy's URL (%(default)s)")
    parser.add_argument("--policy", default="policy.json", help="a Policy file (%(default)s)")
    parser.add_argument("--scheduler-name", default="my-scheduler", help="schedule its pods (%(default)s)")
    parser.add_argument("--interval", type=float, default=1, help="seconds between passes (%(default)s)")
    parser.add_argument("--once", action="store_true", help="end when no pod is due, or a pass fails")
    parser.add_argument("--alone", action="store_true", help="run this file alone, without its extras")
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s", level=logging.WARNING if options.once else logging.INFO)
    if "://" not in options.server:
        parser.error("--server: expected a URL such as http://127.0.0.1:8001, with http:// before the host")
    policies = policies_by_now(options.policy, options.scheduler_name)
    stop = threading.Event()
    def end_the_loop(*_):
        """End the loop after the pod that it is at. A second Ctrl-C ends the script at once."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=stop.set).start()  # the code that is interrupted may hold the lock of `stop`
    signal.signal(signal.SIGINT, end_the_loop)
    log.info(f"{options.scheduler_name}: scheduler.py alone, polling {options.server}; Ctrl-C ends it")
    cluster = Cluster(Proxy(options.server), print_decision)
    run(cluster, policies.__next__, stop, options.interval, options.once)
    has_failed = any(each.write_failed for each in cluster.attempts.values())
    return 1 if options.once and (cluster.last_error or has_failed or stop.is_set()) else 0


def main():
    """Run the command line, by the extras if they are there; return the exit code."""
    sys.modules["scheduler"] = sys.modules[__name__]  # else extras and rules of your own import a second one
    folder = pathlib.Path(__file__).resolve().with_name("scheduler_extras")
    sys.path.insert(0, str(folder.parent))  # where it is not, as by `python -P`
    if "--alone" in sys.argv or not any(folder.glob("*.py")):
        return run_script()
    return __import__(folder.name).main()


if __name__ == "__main__":
    sys.exit(main())
