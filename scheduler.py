#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["requests>=2.28", "pyyaml>=6.0"]
# ///
"""A Kubernetes scheduler to read, to run and to change.

It runs beside `kubectl proxy`: one loop lists the pods that name this scheduler and have no node yet, applies
the predicates and priorities that a legacy Policy file names, and has a thread POST a Binding for each. A
predicate says whether a pod fits a node, a priority how good the node is for it. Under the same Policy this
script gives the answers of kube-scheduler 1.20, among the last releases to read such files; under a
KubeSchedulerConfiguration it gives those of 1.36.

A *pass* lists the pods that wait, and makes a *decision* about each that is due, by a *snapshot* of the
cluster. That is kept up to date: nodes, pods and all else are listed once, and then watched.

It has seven parts. A reader may stop after any of them, and knows a whole:

    policy.json ----------------> the rules     (part IV reads the file; the rules are in I and III)
                                      |
    kubectl proxy -> news ------> cache ---> decision -> room on the node -> Binding -> kubectl proxy
    functions:       Reflector    take_news  schedule    assume, carry_out   bind
    part:            V            V          I           V                   V
    thread:          one for      the loop's, for all pods,                  one of 64,
                     a resource   one after another                          for each pod

I. A scheduler: The loop. A rule. The first predicates. The first priorities. How rules are asked. The
    decision.
II. What rules look at: Fields and quantities. Selectors of labels and fields. Pods and nodes.
III. Rules that look further: Labels, images, shapes. Node affinity. Services and spreading. Affinity between
    pods. Disks, and how many a node can attach. Claims and their volumes. The other extension points. What is
    asked whatever the Policy.
IV. What people write: Files. Rules of one's own. The Policy.
V. The cluster: Requests and threads. What is written. The life of a pending pod. List and watch. The cache.
    What is remembered. Extenders. Several replicas, of which one leads.
VI. People: A cluster made of manifests. What people see. The picture of a cluster. The command line.
VII. Today: What 1.36 says otherwise. KubeSchedulerConfiguration. (The script works without this part.)
"""

from __future__ import annotations

import argparse
import ast
import base64
import collections
import contextlib
import copy
import ctypes
import decimal
import difflib
import enum
import functools
import gc
import hashlib
import inspect
import itertools
import json
import logging
import math
import os
import queue
import random
import re
import runpy
import select
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import textwrap
import threading
import time
import traceback
import types
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from fractions import Fraction
from numbers import Real
from pathlib import Path
from urllib.parse import urlencode, urlsplit

try:
    import requests
    import urllib3
    import yaml
    from urllib3.exceptions import HTTPError, InsecureRequestWarning
except ImportError as error:
    sys.exit(f"{error.name} is missing: pip install -r requirements.txt")

log = logging.getLogger("scheduler")


##########################################################################################################
# PART I. A SCHEDULER                                                                                    #
# It is whole, and runs alone: sed '/^# PART II/,$d' scheduler.py. Nothing here is of a later part.      #
##########################################################################################################


# ==== 1. The loop =======================================================================================

# A pass lists the pods that wait, and makes a decision about each that is due. One that was tried in vain
# is due again after its backoff: 1, 2, 4, ... 10 seconds. `policies` is {schedulerName: Policy}.


def run(cluster, read_policies, report, stop, interval, once):
    """Make passes until `stop` is set; if `once`, until no pod is due. Return what went wrong last, or None.

    `read_policies` is called in each pass, so that a Policy may be edited at any time.
    """
    trouble = None
    while not stop.is_set():
        trouble = None
        try:
            schedule_pending_pods(cluster, read_policies(), report, stop)
        except (ApiError, InputError) as error:
            trouble = error
        pause = cluster.end_pass(trouble)  # seconds to wait after trouble, else 0
        if cluster.due and not trouble:
            continue  # the pass took long: by now one of the pods that have come may be more important
        if once:
            break
        cluster.rest(max(interval, pause), stop)
    return trouble


def schedule_pending_pods(cluster, policies, report, stop):
    """Make a pass: decide about each pod that waits and is due, one after another."""
    for pod in cluster.pods_to_try(policies, stop):  # LISTs them, nodes and placed pods: the snapshot
        decision = cluster.decide(pod, policies[pod.scheduler])  # schedule(), by the snapshot
        if cluster.is_news(decision):
            report(decision)
        cluster.carry_out(decision)  # POSTs its `binding`, or else says why it stays pending


def schedule(pod, snapshot, policy):
    """Choose a node for the pod: find the nodes that fit, prioritize them, select a host."""
    decision = Decision(pod, policy, snapshot.nodes)
    try:
        feasible, decision.failed = policy.nodes_that_fit(pod, snapshot)
        if not feasible:
            raise Unschedulable(decision.failed.message)
        decision.total = policy.prioritize(decision, feasible, snapshot)
        decision.node = select_host(pod, decision.total)
    except (Exception, SystemExit) as error:  # no node fits, or a rule failed, even by sys.exit()
        policy.give_up(decision, error, snapshot)  # this is why there is no node
    return decision


@dataclass(eq=False)
class Policy:
    """The rules that are active, in the order in which they run, and how they are asked."""

    predicates: list
    priorities: list

    def nodes_that_fit(self, pod, snapshot):
        """Ask the predicates about each node: the first that has reasons against it rules the node out."""
        feasible = {}
        failed = Failures()
        for name, node in snapshot.nodes.items():
            for rule in self.predicates:
                reasons = rule.reasons(pod, node)
                if reasons:
                    failed[name] = {rule.title: reasons}
                    break
            else:
                feasible[name] = node
        return feasible, failed

    def prioritize(self, decision, feasible, snapshot):
        """Return each node's total: the sum, over all priorities, of weight times points."""
        total = dict.fromkeys(feasible, 0 if self.priorities else 1)
        for rule in self.priorities:
            points = rule.points(decision.pod, feasible)  # from 0 to 100
            for name in feasible:
                total[name] += rule.weight * points[name]
        return total

    def give_up(self, decision, error, snapshot):
        """Have the decision be to leave the pod pending. A rule that breaks fails this pod only."""
        decision.node = None
        decision.message = str(error)
        if not isinstance(error, (Unschedulable, Malformed)):
            decision.message = f"{type(error).__name__} in a rule: {error}"


def select_host(pod, total):
    """Take the node with the highest total; if several have it, any of these, by lot."""
    best = max(total.values())
    return dice(pod.key).choice([name for name, score in total.items() if score == best])


def binding(pod, node_name):
    """Return the request that binds the pod to the node."""
    return "POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", {
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name}}


# ==== 2. A rule =========================================================================================

# A rule is a function of a pod and a node. This is a whole predicate; if it yields no reason, the node fits:
#
#     from scheduler import predicate
#
#     @predicate("OnlyOpenNodes")
#     def only_open_nodes(pod, node):
#         """No pod goes to a node that is closed."""
#         if node.labels.get("closed") == "yes":
#             yield "node(s) were closed"
#
# A priority returns a score from 0 to 100 instead; or any, if it has a `reduce`, which makes points of the
# scores of all nodes. Options of the decorators that are not used here say more of a rule to later parts.


PREDICATES, PRIORITIES = {}, {}  # legacy name -> Rule, in kube-scheduler's order
CATALOGUES = {"predicates": PREDICATES, "priorities": PRIORITIES}
CHECKS = []  # functions of (where, name, options): what else is to be done with a rule that is registered


class Rule:
    """A predicate or a priority: a function of a pod and a node, its name, and what else is said of it."""

    reduce = None
    weight = 1

    def __init__(self, name, function, **said):
        self.name = name
        self.title = name  # what the Policy calls it
        self.function = function
        vars(self).update(said)

    def but(self, **changes):
        """Return a rule like this one of which something else is said."""
        other = copy.copy(self)
        vars(other).update(changes)
        return other

    def reasons(self, pod, node):
        """Return the reasons that a predicate has against a node."""
        return list(self.function(pod, node))

    def points(self, pod, nodes):
        """Return what a priority gives to these nodes, {name: Node}: {name: 0 to 100}."""
        scores = {name: self.function(pod, node) for name, node in nodes.items()}
        return self.reduce(scores) if self.reduce else scores


def register(where, name=None, **options):
    """Return a decorator that makes a function the rule of this name."""
    if not isinstance(name, str) or not name:
        function = getattr(name, "__name__", "the rule")
        noun = "predicate" if where == "predicates" else "priority"
        raise InputError(f'expected the name that a Policy has for {function}, as in @{noun}("Name")')

    def decorate(function):
        """Make the function a rule; return it as it is."""
        said = {"function": function} | options
        for check in CHECKS:
            said = check(where, name, said)
        CATALOGUES[where][name] = Rule(name, **said)
        return function

    return decorate


# A predicate is a function of (pod, node) that yields the reasons why the pod does not fit; none, if it fits.
predicate = functools.partial(register, "predicates")
# A priority is a function of (pod, node) that returns a score.
priority = functools.partial(register, "priorities")


# ==== 3. Predicates =====================================================================================


@predicate("CheckNodeUnschedulable")
def check_node_unschedulable(pod, node):
    """The node is not cordoned, or the pod tolerates that."""
    if node.unschedulable and not tolerates(pod, Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")):
        yield "node(s) were unschedulable"


@predicate("HostName")
def host_name(pod, node):
    """The pod asks for this node, or for none. (A pod that waits has none, so that it always passes.)"""
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
    """The node has room for one more pod, and enough free of all resources but those that are excepted."""
    if len(node.pods) + 1 > node.max_pods:
        yield "Too many pods"
    if pod.requests == NO_REQUESTS:  # then nothing else matters
        return
    for name, amount in pod.requests.items():
        is_short = node.requested.get(name, 0) + amount > node.allocatable.get(name, 0)
        if is_short and name not in excepted:
            yield f"Insufficient {name}"


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
    known = pod.derived.setdefault("taints", {})  # as many nodes have the same ones
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


def kept_with_pod(function):
    """Have what a function returns of a pod kept as long as the pod is."""
    return functools.wraps(function)(lambda pod: pod.kept(function))


DISK_IDENTITIES = {  # source of a volume -> the fields that identify the disk
    "gcePersistentDisk": ["pdName"], "awsElasticBlockStore": ["volumeID"], "iscsi": ["iqn"],
    "rbd": ["image", "pool"]}


@kept_with_pod
def disks_of(pod):
    """The pod's network disks: {identity: whether it may be shared}. A Ceph image is one for each monitor."""
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


# ==== 4. Priorities =====================================================================================


DEFAULT_REQUESTS = {"cpu": 100, "memory": 200 * 2**20}  # of a container that does not say, in scores
CPU_AND_MEMORY = ["cpu", "memory"]


def usage(incoming, node, resources):
    """Return {resource: (what would be requested with a pod's amounts on the node, what there is)}."""
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
    """Stretch scores so that the highest becomes 100; if few are best, 0. Upstream: DefaultNormalizeScore."""
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


SEED = None  # what --seed says; it is global, so that rules need no parameter for it


def dice(*names):
    """Return what decides by chance; with --seed, always the same way for the same pod and node."""
    return random if SEED is None else random.Random(f"{SEED} {' '.join(names)}")


@priority("RandomPriority")
def random_priority(pod, node):
    """Any score. With this priority alone, this is the random scheduler of the Bash tutorials."""
    return dice(pod.key, node.name).randint(0, 100)


# ==== 5. Node affinity ==================================================================================


WHEN = "DuringSchedulingIgnoredDuringExecution"  # affinity is required, or preferred
Requirement = collections.namedtuple("Requirement", "key operator values")  # of labels or fields
LABEL_VALUE = re.compile("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
OPERATORS = {  # of label and node selectors; the value is None where the label is missing
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: int64(value) is not None and int64(value) > int64(values[0]),
    "Lt": lambda value, values: int64(value) is not None and int64(value) < int64(values[0]),
}


def int64(text):
    """Read a base-10 integer as Go's ParseInt does; None if it is none of 64 bits."""
    number = int(text) if text and re.fullmatch("[+-]?[0-9]{1,63}", text) else 2**63
    return number if -(2**63) <= number < 2**63 else None


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


def satisfies(labels, requirements):
    """Say whether labels meet all the requirements; None stands for those that nothing meets."""
    for key, operator, values in requirements or ():
        if not OPERATORS[operator](labels.get(key), values):
            return False
    return requirements is not None


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


def valid_terms(raws):
    """Read the terms of a node selector, without those that are empty or invalid: these match nothing."""
    terms = []
    for raw in raws:
        with contextlib.suppress(InvalidSelector):
            terms.append(node_selector_term(raw))
    return [term for term in terms if term]


@kept_with_pod
def required_terms(pod):
    """The terms of the pod's required node affinity, of which one must match; None without such affinity."""
    required = pod.node_affinity.get(f"required{WHEN}")
    return None if required is None else valid_terms(pick(required, list, "nodeSelectorTerms", of=dict))


def wants_node(pod, node):
    """Say whether a node meets the pod's nodeSelector and required node affinity."""
    terms = required_terms(pod)
    return pod.node_selector.items() <= node.labels.items() and (
        terms is None or any(term_matches(term, node) for term in terms))


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
            term = weight and node_selector_term(pick(preferred, dict, "preference"))
        except InvalidSelector as error:
            problems[str(error)] = None  # once, as upstream's Aggregate does
        else:
            pairs += [(weight, term)] if term else []
    if problems:
        problem = f"[{', '.join(problems)}]" if len(problems) > 1 else ", ".join(problems)
        raise Unschedulable(f'running Score plugins: plugin "NodeAffinity" failed with: {problem}')
    return pairs


# ==== 6. Fields and quantities ==========================================================================


TYPE_NAMES = {dict: "an object", list: "a list", str: "a string", int: "a whole number", float: "a number",
              bool: "true or false"}


def pick(thing, kind, *path, of=None):
    """Follow a path into an API object; missing or null is an empty `kind`. `of`: the type of its members."""
    for depth, key in enumerate(path):
        if type(thing) is not dict:
            place = ".".join(path[:depth]) or "it"
            raise Malformed(f"{place}: expected an object, got {json.dumps(thing)[:40]}")
        thing = thing.get(key)
        if thing is None:
            return kind()
    if type(thing) is not kind:
        raise Malformed(f"{'.'.join(path)}: expected {TYPE_NAMES[kind]}, got {json.dumps(thing)[:40]}")
    if of:
        for key, member in thing.items() if kind is dict else enumerate(thing):
            if type(member) is not of:
                place = f"{'.'.join(path)}[{key}]"
                raise Malformed(f"{place}: expected {TYPE_NAMES[of]}, got {json.dumps(member)[:40]}")
    return thing


def name_in(thing, *path):
    """Return the string at a path into an object that may be malformed, or ""."""
    for key in path:
        thing = thing.get(key) if isinstance(thing, dict) else None
    return thing if isinstance(thing, str) else ""


# Upstream: ParseQuantity in k8s.io/apimachinery/pkg/api/resource.
NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
QUANTITY = re.compile(rf"({NUMBER})(?:[eE]([+-]?[0-9]{{1,9}})|([numkMGTPE]|[KMGTPE]i)?)")
SUFFIXES = {suffix: Fraction(1000) ** i for i, suffix in enumerate(["n", "u", "m", None, *"kMGTPE"], -3)}
SUFFIXES |= {f"{suffix}i": 1024 ** power for power, suffix in enumerate("KMGTPE", 1)}
# Reads a number of any length in no time: it keeps 100 digits, and rounds up what it cuts off.
DIGITS = decimal.Context(prec=100, rounding=decimal.ROUND_UP, Emin=-999, Emax=999, traps=[])


def quantity(text, unit=1):
    """Return a quantity in 1/units, rounded up: quantity("1.5Ki") is 1536, quantity("100m", 1000) is 100."""
    is_usual = len(text) < 100  # a longer one would take up too much room
    return remembered_quantity(text, unit) if is_usual else read_quantity(text, unit)


def read_quantity(text, unit):
    """Read a quantity in 1/units. Raises Malformed."""
    match = QUANTITY.fullmatch(text)
    if not match:
        raise Malformed(f'"{text:.60}" is not a quantity, such as 100m, 0.5 or 1.5Gi')
    number, exponent, suffix = match.groups()
    value = DIGITS.create_decimal(f"{number}e{exponent or 0}")
    if value < 0:  # no API server takes it, but a file of manifests may say so
        raise Malformed(f'"{text:.60}" is a negative quantity: it must be greater than or equal to 0')
    most = 2**63 - 1  # what exceeds 64 bits is their maximum
    if value.is_infinite():
        return most
    return min(math.ceil(Fraction(value) * SUFFIXES[suffix] * unit), most)


remembered_quantity = functools.lru_cache(maxsize=65536)(read_quantity)
NO_REQUESTS = {"cpu": 0, "memory": 0, "ephemeral-storage": 0}


def amounts(thing, *path):
    """Read a resource list: cpu in millicores, all else in units; without names that do not count.

    Upstream: Resource.Add in pkg/scheduler/framework/types.go, which calls all others scalars.
    """
    counted = {}
    for name, text in pick(thing, dict, *path).items():
        if name in NO_REQUESTS or "/" in name or name.startswith(("hugepages-", "attachable-volumes-")):
            counted[name] = quantity(str(text), 1000 if name == "cpu" else 1)
    return counted


def add(total, more, sign=1):
    """Add resource amounts to others, in place; or take them away."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + sign * amount


def raise_to(total, others):
    """Raise resource amounts, in place, to those of others that are higher."""
    for name, amount in others.items():
        if amount > total.get(name, 0):
            total[name] = amount


def amounts_of_pod(spec, default):
    """Return what a pod requests: max(its containers together, each init container alone) + overhead.

    `default`: for what a container does not name. Upstream: PodRequests.
    """
    total = {}
    for container in pick(spec, list, "containers", of=dict):
        add(total, default | amounts(container, "resources", "requests"))
    for container in pick(spec, list, "initContainers", of=dict):
        raise_to(total, default | amounts(container, "resources", "requests"))
    add(total, amounts(spec, "overhead"))
    return total


# ==== 7. Pods and nodes =================================================================================


READ_OF_PODS, READ_OF_NODES = [], []  # functions that read more of a pod, or of a node, for later parts


class Pod:
    """What the scheduler knows of a pod, read once from the API's JSON. Raises Malformed."""

    def __init__(self, raw):
        self.raw = raw
        self.spec = spec = pick(raw, dict, "spec")
        self.name = pick(raw, str, "metadata", "name")
        self.namespace = pick(raw, str, "metadata", "namespace") or "default"
        self.key = f"{self.namespace}/{self.name}"
        self.uid = pick(raw, str, "metadata", "uid") or self.key
        self.created = pick(raw, str, "metadata", "creationTimestamp")
        self.terminating = bool(pick(raw, str, "metadata", "deletionTimestamp"))
        self.pending_message = pending_message(raw)
        self.priority = pick(spec, int, "priority")
        self.scheduler = pick(spec, str, "schedulerName") or "default-scheduler"
        self.node_name = pick(spec, str, "nodeName")
        self.labels = pick(raw, dict, "metadata", "labels", of=str)
        self.node_selector = pick(spec, dict, "nodeSelector", of=str)
        self.tolerations = pick(spec, list, "tolerations", of=dict)
        self.volumes = pick(spec, list, "volumes", of=dict)
        self.containers = pick(spec, list, "containers", of=dict)
        self.host_ports = host_ports_of(self.containers)
        self.requests = NO_REQUESTS | amounts_of_pod(spec, {})
        # In scores it counts for `nonzero` on its node, and for `nonzero_incoming` while it has none.
        self.nonzero = amounts_of_pod(spec, DEFAULT_REQUESTS)
        overhead = amounts(spec, "overhead").get("cpu", 0)  # whose cores, rounded up, count as millicores
        cpu = self.nonzero.get("cpu", 0) - overhead + math.ceil(overhead / 1000)
        self.nonzero_incoming = self.nonzero | {"cpu": cpu}  # upstream: calculatePodResourceRequest
        self.derived = {}  # what rules have worked out of it: see kept_with_pod
        for read in READ_OF_PODS:
            read(self)

    @property
    def node_affinity(self):
        """Its affinity to nodes, in the API's JSON."""
        return pick(self.spec, dict, "affinity", "nodeAffinity")

    def kept(self, function):
        """Return what a function returns of the pod. It is called once only."""
        if function not in self.derived:
            self.derived[function] = function(self)
        return self.derived[function]


def host_ports_of(containers):
    """Return the host ports of containers, {(protocol, number): IPs}."""
    ports = collections.defaultdict(set)
    for port in itertools.chain(*(pick(container, list, "ports", of=dict) for container in containers)):
        number = pick(port, int, "hostPort")
        if number > 0:
            key = pick(port, str, "protocol") or "TCP", number
            ports[key].add(pick(port, str, "hostIP") or "0.0.0.0")
    return dict(ports)


def pending_message(raw):
    """Return the message of a pod's condition PodScheduled, if that is False, or None. Raises Malformed."""
    for condition in pick(raw, list, "status", "conditions", of=dict):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return name_in(condition, "message")
    return None


class Node:
    """A node and the pods on it (kube-scheduler's NodeInfo), read from the API's JSON. Raises Malformed."""

    def __init__(self, raw):
        self.raw = raw
        self.name = pick(raw, str, "metadata", "name")
        self.labels = pick(raw, dict, "metadata", "labels", of=str)
        self.unschedulable = pick(raw, bool, "spec", "unschedulable")
        self.taints = [Taint(*(pick(taint, str, part) for part in Taint._fields))
                       for taint in pick(raw, list, "spec", "taints", of=dict)]
        room = "allocatable" if pick(raw, dict, "status").get("allocatable") is not None else "capacity"
        self.allocatable = NO_REQUESTS | amounts(raw, "status", room)
        self.max_pods = quantity(str(pick(raw, dict, "status", room).get("pods") or 0))
        self.pods = {}  # uid -> Pod, of those on it
        self.requested = dict(NO_REQUESTS)  # by all of these
        self.nonzero = dict.fromkeys(DEFAULT_REQUESTS, 0)  # likewise, as it counts in scores
        for read in READ_OF_NODES:
            read(self)

    def add(self, pod):
        """Put a pod on the node."""
        self.pods[pod.uid] = pod
        add(self.requested, pod.requests)
        add(self.nonzero, pod.nonzero)


@dataclass(eq=False)
class Snapshot:
    """The cluster as rules see it, with what was placed so far."""

    nodes: dict  # name -> Node


# ==== 8. The decision ===================================================================================


class Unschedulable(Exception):
    """The attempt to place a pod ends here, for this reason."""


class Malformed(ValueError):
    """An API object that cannot be understood; the text says which field, and why."""


class InvalidSelector(Malformed):
    """A selector that kube-scheduler cannot parse; the text is kube-scheduler's."""


@dataclass(eq=False)
class Decision:
    """What was decided about one pod, and all that it was decided from."""

    pod: Pod
    policy: Policy
    nodes: dict  # name -> Node, of all nodes
    node: str | None = None  # the name of the chosen node
    failed: Failures = field(default_factory=lambda: Failures())  # why the other nodes do not fit
    total: dict = field(default_factory=dict)  # node that fits -> the sum of its scores
    message: str | None = None  # without a node: why, in kube-scheduler's words
    reason: str = "Unschedulable"  # without a node: that of the pod's condition


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


# ==== 9. The API server =================================================================================


class ApiError(Exception):
    """A request that did not succeed. status: the HTTP status, or 0 where no answer came."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status
        if "etcdserver: request is too large" in message:  # answered with 500, or a Binding with 409
            self.status = status = 413  # so that nobody takes it for trouble, or tries it again at once
        self.is_trouble = status in (0, 429) or status >= 500  # whether other requests may well fail, too


class Proxy:
    """The API server behind kubectl proxy."""

    def __init__(self, server):
        self.server = server.rstrip("/")
        self.session = requests.Session()

    def request(self, method, path, body=None, params=None):
        """Send a request and return the answer's JSON. Raises ApiError."""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        try:
            answer = self.session.request(method, self.server + path, params=params, json=body, timeout=30,
                                          headers={"Content-Type": kind}, allow_redirects=False)
            content = answer.json()
        except (requests.RequestException, ValueError) as error:
            raise ApiError(0, f"{self.server}: is `kubectl proxy` running there? {error}") from error
        if not answer.ok:
            raise ApiError(answer.status_code, f"{method} {path}: {name_in(content, 'message')}")
        return content

    def list(self, resource, selector=""):
        """Return all objects of a resource, listed page by page. Raises ApiError."""
        page = params = {"fieldSelector": selector, "limit": 500}
        things = []
        while params:
            answer = self.request("GET", f"/api/v1/{resource}", params=params)
            things += pick(answer, list, "items", of=dict)
            token = pick(answer, str, "metadata", "continue")
            params = token and page | {"continue": token}
        return things


def event(pod, kind, reason, message, by=None):
    """Return the request that records an event about the pod, as `kubectl describe pod` shows it.

    Its message has at most 1,024 bytes. Upstream: truncateMessage.
    """
    source = by or pod.scheduler
    name = f"{pod.name[:200].rstrip('-.')}.{time.time_ns():x}"
    message = at_most(1024, message)
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return "POST", f"/api/v1/namespaces/{pod.namespace}/events", {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": pod.namespace},
        "involvedObject": about, "type": kind, "reason": reason, "message": message, "count": 1,
        "firstTimestamp": now(), "lastTimestamp": now(), "source": {"component": source},
        "reportingComponent": source}


def pod_condition(pod, reason, message):
    """Return the request that says in the pod's condition PodScheduled why it is not bound."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    if pod.pending_message is None:  # else the condition was False before
        condition["lastTransitionTime"] = now()
    return "PATCH", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status", {
        "metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def now(microseconds=False):
    """Return the time as the API writes it."""
    return datetime.now(timezone.utc).strftime(f"%Y-%m-%dT%H:%M:%S{'.%f' if microseconds else ''}Z")


def at_most(size, text):
    """Return a text of no more than so many bytes; one that is longer ends with dots."""
    data = text.encode(errors="surrogatepass")
    return f"{data[:size - 4].decode(errors='ignore')} ..." if len(data) > size else text


# ==== 10. The cluster ===================================================================================


def backoff(attempts, most, initial=1):
    """Return the seconds to wait after so many failed attempts, as in kube-scheduler: 1, 2, 4, ... `most`."""
    return min(initial * 2 ** min(attempts - 1, 30), most)


@dataclass
class Attempts:
    """What is remembered of a pod that was tried in vain."""

    number: int = 0
    retry_at: float = 0  # in monotonic seconds
    told: str | None = None  # why, as last reported and written


class Cluster:
    """What the loop works with: what is read, which pods are due, what is written."""

    LONG = 5  # seconds after which a pass ends, as what it has listed is too old to decide by

    def __init__(self, api):
        self.api = api
        self.snapshot = Snapshot({})
        self.due = []  # the pods to try in this pass; after it, those that are left as it broke off
        self.attempts = {}  # uid of a pod that waits -> Attempts
        self.trouble = None  # the error that ended the last pass
        self.failures = 0  # how many passes in a row ended so

    def pods_to_try(self, policies, stop):
        """LIST what there is; yield the pods that are due, the most important first. Raises ApiError."""
        waiting = self.waiting_pods(policies)
        self.snapshot = Snapshot({node.name: node for node in self.read(Node, "nodes")})
        for pod in self.read(Pod, "pods", "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"):
            if pod.node_name in self.snapshot.nodes:
                self.snapshot.nodes[pod.node_name].add(pod)
        self.attempts = {pod.uid: self.attempts.get(pod.uid, Attempts(told=pod.pending_message))
                         for pod in waiting}
        began = time.monotonic()
        self.due = [pod for pod in waiting
                    if self.attempts[pod.uid].retry_at <= began and not pod.terminating]
        self.due.sort(key=lambda pod: (-pod.priority, pod.created, pod.key))
        while self.due and not stop.is_set() and time.monotonic() < began + self.LONG:
            yield self.due.pop(0)

    def waiting_pods(self, policies):
        """LIST the pods that name one of these schedulers, and have no node yet."""
        waiting = {}
        for name in policies:
            for pod in self.list_waiting(name, f"spec.schedulerName={name},spec.nodeName="):
                if pod.scheduler == name and not pod.node_name:
                    waiting[pod.uid] = pod
        return list(waiting.values())

    def list_waiting(self, scheduler, selector):
        """LIST the pods of a scheduler that a field selector selects."""
        return self.read(Pod, "pods", selector)

    def read(self, kind, resource, selector=""):
        """Yield what is listed as Pods, or Nodes; what cannot be read is named, and left out."""
        for raw in self.api.list(resource, selector):
            try:
                yield kind(raw)
            except Malformed as error:
                log.warning("%s %s is left out: %s", resource, name_in(raw, "metadata", "name"), error)

    def decide(self, pod, policy):
        """Decide about a pod by what was listed, and placed since."""
        return schedule(pod, self.snapshot, policy)

    def is_news(self, decision):
        """Say whether a decision says something else than the last one about the pod."""
        return bool(decision.node) or self.attempts[decision.pod.uid].told != decision.message

    def carry_out(self, decision):
        """Bind the pod; or put it off, and say why it stays pending. Raises ApiError if there is trouble."""
        if decision.node:
            self.bind(decision)
        else:
            self.put_off(decision)

    def bind(self, decision):
        """POST the Binding; from then on the pod counts on its node."""
        pod = decision.pod
        try:
            self.api.request(*binding(pod, decision.node))
        except ApiError as error:
            if error.is_trouble:  # the next pass lists where the pod is, then
                raise
            decision.message = f"binding rejected: {error}"
            self.put_off(decision)
            return
        self.snapshot.nodes[decision.node].add(pod)
        self.write(event(pod, "Normal", "Scheduled", f"Successfully assigned {pod.key} to {decision.node}"))

    def put_off(self, decision):
        """Have the pod back off; say why in an event and in its condition PodScheduled, if that is new."""
        pod = decision.pod
        attempts = self.attempts[pod.uid]
        attempts.number += 1
        attempts.retry_at = time.monotonic() + backoff(attempts.number, most=10)
        if attempts.told != decision.message:
            attempts.told = decision.message
            self.write(event(pod, "Warning", "FailedScheduling", decision.message))
            self.write(pod_condition(pod, decision.reason, decision.message))

    def write(self, request):
        """Send what only informs people: that it fails, changes nothing."""
        try:
            self.api.request(*request)
        except ApiError as error:
            log.warning("%s", error)

    def end_pass(self, trouble):
        """Say once what is wrong with the API server, and once that it is over; return how long to wait."""
        if trouble and str(trouble) != str(self.trouble):
            log.error("%s", trouble)
        if isinstance(self.trouble, ApiError) and not trouble:
            log.warning("the API server answers again")
        self.trouble = trouble
        self.failures = self.failures + 1 if trouble else 0
        return backoff(self.failures, most=10) if trouble else 0

    def rest(self, seconds, stop):
        """Wait so long, or until `stop` is set."""
        stop.wait(seconds)


# ==== 11. The Policy file, and a command line ===========================================================


class InputError(ValueError):
    """A file cannot be used. The text is a line: the entry, what is wrong with it, what would be right."""


MANDATORY = ["CheckNodeUnschedulable", "PodToleratesNodeTaints"]  # they are asked whatever a Policy names


def plain_policies(path, scheduler_name):
    """Return {schedulerName: Policy} of a Policy file that names rules and weights. Raises InputError."""
    try:
        document = yaml.safe_load(Path(path).read_text("utf-8"))
        rules = {where: [CATALOGUES[where][entry["name"]].but(weight=entry.get("weight", 1))
                         for entry in document.get(where) or []] for where in CATALOGUES}
    except KeyError as error:
        raise InputError(f"{path}: there is no rule {error}; there are {[*PREDICATES, *PRIORITIES]}") from None
    except (OSError, ValueError, yaml.YAMLError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error
    named = {rule.name: rule for rule in [*map(PREDICATES.get, MANDATORY), *rules["predicates"]]}
    rules["predicates"] = [named[name] for name in PREDICATES if name in named]
    return {scheduler_name: Policy(**rules)}


def say(decision):
    """Print a decision as a line."""
    where = f"stays pending: {decision.message}"
    if decision.node:
        fit = f"{len(decision.total)} of {len(decision.nodes)} nodes fit"
        where = f"-> {decision.node}  ({fit}, score {decision.total[decision.node]})"
    print(f"{decision.pod.key} {where}", flush=True)


def main():
    """Run what this part is, until Ctrl-C; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="http://127.0.0.1:8001", help="of kubectl proxy (%(default)s)")
    parser.add_argument("--policy", default="policy.json", help="a Policy file (%(default)s)")
    parser.add_argument("--scheduler-name", default="my-scheduler", help="schedule its pods (%(default)s)")
    parser.add_argument("--interval", type=float, default=1, help="seconds between passes (%(default)s)")
    parser.add_argument("--once", action="store_true", help="make passes until no pod is due, then stop")
    options = parser.parse_args()
    read_policies = functools.partial(plain_policies, options.policy, options.scheduler_name)
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    logging.basicConfig(format="%(message)s")
    trouble = run(Cluster(Proxy(options.server)), read_policies, say, stop, options.interval, options.once)
    return 1 if options.once and trouble else 0


##########################################################################################################
# PART II. WHAT RULES LOOK AT                                                                            #
# Fields and quantities, labels and selectors, pods and nodes.                                           #
##########################################################################################################


# ==== 7. Fields and quantities ==========================================================================


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


# ==== 8. Selectors of labels and fields =================================================================


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


# ==== 9. Pods and nodes =================================================================================


def read_more_of_pod(pod):
    """Read what the rules of later parts look at, and what today's fields say otherwise."""
    raw, spec = pod.raw, pod.spec
    owners = pick(raw, list, "metadata", "ownerReferences", of=dict)
    controllers = [(owner.get("kind"), owner.get("uid")) for owner in owners if owner.get("controller")]
    pod.controller = controllers[0] if controllers else (None, None)  # its kind and uid
    pod.phase = pick(raw, str, "status", "phase")
    pod.gates = [pick(gate, str, "name") for gate in pick(spec, list, "schedulingGates", of=dict)]
    pod.nominated_node = pick(raw, str, "status", "nominatedNodeName")  # where room is being made for it
    pod.annotations = pick(raw, dict, "metadata", "annotations", of=str)
    affinity = pick(spec, dict, "affinity")
    pod.is_affine = any(pick(affinity, dict, side) for side in ("podAffinity", "podAntiAffinity"))
    pod.claims = []
    pod.named_claims = []  # without those that are made for its ephemeral volumes
    for volume in pod.volumes:
        if volume.get("ephemeral"):  # its claim is named after the pod and the volume
            pod.claims.append(f"{pod.namespace}/{pod.name}-{pick(volume, str, 'name')}")
        elif volume.get("persistentVolumeClaim"):
            name = pick(volume, str, "persistentVolumeClaim", "claimName")
            pod.claims.append(f"{pod.namespace}/{name}")
            pod.named_claims.append(f"{pod.namespace}/{name}")
    pod.init_containers = pick(spec, list, "initContainers", of=dict)
    for container in [*pod.containers, *pod.init_containers]:
        pick(container, str, "name")
    sidecars = [*filter(is_sidecar, pod.init_containers)]
    if sidecars:
        pod.host_ports = host_ports_of([*pod.containers, *sidecars])
    pod.uncounted_cpu = pod.nonzero.get("cpu", 0) - pod.nonzero_incoming["cpu"]
    is_resized = any(status.get("resources") is not None for status in (
        pick(raw, dict, "status"), *pick(raw, list, "status", "initContainerStatuses", of=dict),
        *pick(raw, list, "status", "containerStatuses", of=dict)))
    if sidecars or is_resized or spec.get("resources"):
        read_requests_of_today(pod)
    pod.record = None  # of a pending pod: its PodRecord


def read_requests_of_today(self):
    """Read what a pod requests that has sidecars, is resized in place, or requests something as a whole."""
    overhead = amounts(self.spec, "overhead")
    wanted = amounts(self.spec, "resources", "requests")
    status = pick(self.raw, dict, "status")
    if wanted and status.get("resources") is not None:
        resized = while_resized(wanted, status, self.raw)
        wanted = {name: resized.get(name, 0) for name in wanted}
    as_a_whole = {name: amount for name, amount in wanted.items()
                  if name in DEFAULT_REQUESTS or name.startswith("hugepages-")}
    containers = container_requests(self.raw)
    said = pod_amounts(containers, as_a_whole, overhead, {})
    self.requests = NO_REQUESTS | said
    unsaid = DEFAULT_REQUESTS
    if as_a_whole:
        unsaid = {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in said}
    # In scores it counts for `nonzero` on its node, and for `nonzero_incoming` while it has none.
    self.nonzero = pod_amounts(containers, as_a_whole, overhead, unsaid)
    self.nonzero_incoming = self.nonzero
    if as_a_whole:
        self.nonzero_incoming = pod_amounts(containers, {}, overhead, DEFAULT_REQUESTS)
    self.uncounted_cpu = 0
    if "cpu" in overhead:  # whose cores, rounded up, count as millicores (calculatePodResourceRequest)
        self.uncounted_cpu = overhead["cpu"] - math.ceil(overhead["cpu"] / 1000)
        cpu = self.nonzero_incoming["cpu"] - self.uncounted_cpu
        self.nonzero_incoming = self.nonzero_incoming | {"cpu": cpu}


READ_OF_PODS.append(read_more_of_pod)


def read_more_of_node(node):
    """Read what the rules of later parts look at."""
    raw = node.raw
    node.annotations = pick(raw, dict, "metadata", "annotations", of=str)
    node.images = {}  # name -> bytes
    for image in pick(raw, list, "status", "images", of=dict):
        node.images |= dict.fromkeys(pick(image, list, "names", of=str), pick(image, int, "sizeBytes"))
    conditions = pick(raw, list, "status", "conditions", of=dict)
    node.conditions = {str(each.get("type")): str(each.get("status")) for each in conditions}
    node.changes = []  # takes the name of each node that changes; all nodes of a snapshot have one list
    node.exists = True  # False: the API server shows no node of this name, only pods that are on it


READ_OF_NODES.append(read_more_of_node)


def put(pod, node):
    """Put a pod on a node, and note that the node has changed."""
    node.add(pod)
    note_change(node)


def take_off(pod, node):
    """Take a pod off a node again, if it is there."""
    pod = node.pods.pop(pod.uid, None)
    if pod:
        add(node.requested, pod.requests, -1)
        add(node.nonzero, pod.nonzero, -1)
        note_change(node)


def hold(node, pods):
    """Have these pods on a node, {uid: Pod}, and no others."""
    node.pods = {}
    node.requested = dict(NO_REQUESTS)
    node.nonzero = dict.fromkeys(DEFAULT_REQUESTS, 0)
    for pod in pods.values():
        node.add(pod)
    note_change(node)


def note_change(node):
    """Have what was known of a node found out anew."""
    vars(node).pop("by_kind", None)
    node.changes.append(node.name)


def pods_by_kind(node):
    """Return the pods on a node by their kinds, {kind: [Pod]}."""
    if "by_kind" not in vars(node):
        node.by_kind = collections.defaultdict(list)
        for pod in node.pods.values():
            node.by_kind[kind_of(pod)].append(pod)
    return node.by_kind


@dataclass(eq=False)
class FullSnapshot(Snapshot):
    """The cluster as all rules see it. It is as the cache is: up to date."""

    objects: Objects  # resource -> {namespace/name or name: the API's JSON}
    is_live: bool = False  # whether controllers act on what we write: no dry run, and no manifests
    changes: list = field(default_factory=list)  # the names of nodes that have changed, one after another
    memory: dict = field(default_factory=dict)  # what was found out of the nodes: `recall`
    bonds: dict = field(default_factory=dict)  # kind of pods -> kind of others -> what is between them
    policies: dict = field(default_factory=dict)  # schedulerName -> Policy
    nominated: list = field(default_factory=list)  # pending pods, of any scheduler, with a nominated node


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
    disks = [volume for volume in pod.volumes if not DISK_IDENTITIES.keys().isdisjoint(volume)]
    return digest(repr([disks, *(getattr(pod, name) for name in SIGNED)]))


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


# ==== 9a. How more is said of a rule =====================================================================

# What a rule may have beside its function, by options of its decorator. It stands where a rule does not say.
# `metadata` is a function of (pod, nodes, snapshot), which works out, once per pod, what the function then
# takes as `metadata`. `steady`: for pods alike (`likeness`), its answer rests on the node and on that alone.


SAID = {
    "metadata": None, "argument": None,  # the fields of an entry's `argument`, {field: type}
    "default": {},  # the values of fields that an entry may leave out
    "member": None,  # an entry whose argument has this field means this rule, whatever its name
    "check": None,  # yields what is wrong with the arguments
    "hooks": {},  # its functions for the other extension points
    "steady": False, "is_own": False,  # it is one of --plugins, not a built-in one
    "looks_at": {},  # what a pod may ask for -> function(pod, its node or None), whether it does
    "aliases": [],  # other names of it in a Policy; several rules may have one
    "always": False,  # it is active whatever a Policy names
    "by_default": 0,  # 1, or a priority's weight: it is active where a Policy leaves the list out
    "plugin": "",  # the plugin that it is part of today; "": one of its own name
    "settings": {}}  # what functions take by these names; else their defaults
for option, value in SAID.items():
    setattr(Rule, option, value)
RULE_OF = {}  # the code of a rule's function -> the rule's name; if several rules share it, the last one's


def look_over(where, name, said):
    """Check a rule of the user's own. Return all that is said of a rule. Raises InputError."""
    function = said["function"]
    plain = getattr(function, "func", function)  # some built-in rules are made by functools.partial
    is_built_in = plain.__module__ == __name__
    for each in said.values():
        if hasattr(each, "__code__"):
            RULE_OF[each.__code__] = name
    if not is_built_in:
        options = {option: value for option, value in said.items() if option != "function"}
        check_rule(where, name, function, options)
        said = Watch(name).over(said)
    said = {option: value for option, value in said.items() if value is not None}
    hooks = {option: said.pop(option) for option in said.keys() - SAID.keys() - {"function", "reduce"}}
    return {"hooks": hooks, "steady": is_built_in, "is_own": not is_built_in, "plugin": name} | said


CHECKS.append(look_over)


def requires(side, pod, node):
    """Say whether the pod has required affinity of a kind, such as podAntiAffinity."""
    return pick(pod.spec, dict, "affinity", side).get(f"required{WHEN}")


GENERAL = {"by_default": 1, "aliases": ["GeneralPredicates"]}
SAID_OF_PART_I = {
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
        "NoDiskConflict": {"plugin": "VolumeRestrictions", "by_default": 1,
                           "looks_at": {"a network disk": lambda pod, node: disks_of(pod)}},
        "PodToleratesNodeTaints": {
            "plugin": "TaintToleration", "always": True,
            "looks_at": {"no toleration for taints there":
                         lambda pod, node: node and hostile_taints(pod, node)}},
        "LeastRequestedPriority": {"plugin": "NodeResourcesFit", "by_default": 1},
        "MostRequestedPriority": {"plugin": "NodeResourcesFit"},
        "BalancedResourceAllocation": {"plugin": "NodeResourcesBalancedAllocation", "by_default": 1},
        "NodeAffinityPriority": {"plugin": "NodeAffinity", "by_default": 1},
        "TaintTolerationPriority": {"plugin": "TaintToleration", "by_default": 1},
        "RandomPriority": {"steady": False}}
for rule in [*PREDICATES.values(), *PRIORITIES.values()]:
    vars(rule).update({"steady": True, "plugin": rule.name} | SAID_OF_PART_I.get(rule.name, {}))
    RULE_OF[rule.function.__code__] = rule.name


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
        self.weight = rule.weight

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

    def points(self, pod, nodes):
        """Return {name: 0 to 100}, as a Rule does: the memory is held to these."""
        return self.make_vote(nodes, {name: self.score(pod, node) for name, node in nodes.items()}).points

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


# What more there is of a decision, for the other extension points.
Decision.votes = ()  # of each priority and each extender, on the nodes that fit
Decision.remedy = ""  # without a node: what a rule does about that
Decision.trouble = None  # without a node: what was the matter with the API server, an ApiError
Decision.waits = ""  # with a node: why the pod is not bound to it yet
Decision.requests = []  # never changed in place: to be sent, as a remedy or to prepare the binding
Decision.raw = property(  # the scores as the priorities gave them, {priority: {node: score}}
    lambda decision: {vote.title: vote.raw for vote in decision.votes if vote.raw is not None})
Decision.scores = property(  # the points times the weights, {priority or extender: {node: score}}
    lambda decision: {vote.title: {name: vote.weight * points for name, points in vote.points.items()}
                      for vote in decision.votes})
Decision.fits_nowhere = property(  # whether each node has been ruled out, or there is none
    lambda decision: decision.node is None and len(decision.failed) == len(decision.nodes))


def give_up(decision, error):
    """Have the decision be to leave the pod pending, and say which rule has broken."""
    if isinstance(error, ApiError) and error.is_trouble:
        FAILURE.set()
        decision.trouble = error
    if decision.node and not isinstance(error, Unschedulable):
        decision.reason = "SchedulerError"  # as in kube-scheduler, of what breaks once a node is chosen
    decision.node = None
    decision.waits = ""
    decision.message = text_of(error)
    if isinstance(error, Rejected):
        why = {f"{error.title} (whatever the node)": [str(error)]}
        decision.failed = Failures(dict.fromkeys(decision.nodes, why))
        decision.message = decision.policy.rejection(error, decision.failed)
    if not isinstance(error, (Unschedulable, Malformed, ApiError)):
        FAILURE.set()
        decision.message = what_broke(error)
        log.debug("%s", decision.pod.key, exc_info=error)


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


# ==== 10. Labels, images, shapes ========================================================================


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
    if annotation and pod.controller[0] in ("ReplicationController", "ReplicaSet"):
        with contextlib.suppress(ValueError, RecursionError):  # one that cannot be read avoids nobody
            for avoid in pick(json.loads(annotation), list, "preferAvoidPods", of=dict):
                owner = pick(avoid, dict, "podSignature", "podController")
                if pod.controller == (owner.get("kind"), owner.get("uid")):
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


# ==== 11. Node affinity =================================================================================


# ==== 12. Services and spreading ========================================================================


HOSTNAME = "kubernetes.io/hostname"
DEFAULT_SPREAD = [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway"}
                  for key, skew in ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))]
OWNERS = ("services", "replicationcontrollers", "replicasets", "statefulsets")  # upstream: DefaultSelector


def selectors_of(pod, snapshot, *resources):
    """Return the selectors of the services, ReplicaSets, ... that select the pod."""
    selectors = []
    for resource in resources:
        raws = [pick(owner, dict, "spec").get("selector") for key, owner in snapshot.objects[resource].items()
                if key.startswith(f"{pod.namespace}/")]
        if resource in ("services", "replicationcontrollers"):
            raws = [raw and {"matchLabels": raw} for raw in raws]
        with contextlib.suppress(InvalidSelector):  # then the whole kind is passed over, as upstream does
            selectors += [wanted for wanted in map(label_selector, raws) if satisfies(pod.labels, wanted)]
    return selectors


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


def spread_constraints(pod, when, snapshot, defaults=()):
    """Yield the pod's constraints with this whenUnsatisfiable, or default ones. Raises Unschedulable."""
    raws = pick(pod.spec, list, "topologySpreadConstraints", of=dict)
    chosen = [raw for raw in raws or defaults if raw.get("whenUnsatisfiable") == when]
    owned = list(itertools.chain(*selectors_of(pod, snapshot, *OWNERS))) if chosen and not raws else []
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


# ==== 13. Affinity between pods =========================================================================

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
        "affinity", kind_of(pod), snapshot, nodes, lambda node: affinity_at(pod, node, snapshot, bonds_by_kind),
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


# ==== 14. Disks, and how many a node can attach =========================================================


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


def claim_in_use(pod, nodes, snapshot):
    """Whether a claim of the pod that is for one pod (ReadWriteOncePod) is in use."""
    exclusive = set()
    for name, claim, _ in claims_of(pod, snapshot, pod.named_claims):
        if "ReadWriteOncePod" in pick(claim, list, "spec", "accessModes"):
            exclusive.add(f"{pod.namespace}/{name}")
    in_use = (claim for node in nodes for other in node.pods.values() for claim in other.named_claims)
    return True if exclusive and not exclusive.isdisjoint(in_use) else SKIP


def claims_for_one_pod(pod, node, metadata):
    """No pod has a claim of this pod that is for one pod only."""
    yield ("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
           "already in-use by another pod")


CLAIMS_FOR_ONE_POD = Rule("ClaimsForOnePod", claims_for_one_pod, metadata=claim_in_use, steady=True,
                          title="NoDiskConflict")


# The field `identity` of a volume's `source` identifies a disk, and a node can have `limit` of them.
CloudDisks = collections.namedtuple("CloudDisks", "source identity limit")
CLOUD_DISKS = {  # provisioner -> its disks
    "kubernetes.io/aws-ebs": CloudDisks("awsElasticBlockStore", "volumeID", 39),  # on AWS Nitro: 25
    "kubernetes.io/gce-pd": CloudDisks("gcePersistentDisk", "pdName", 16),
    "kubernetes.io/azure-disk": CloudDisks("azureDisk", "diskName", 16),
    "kubernetes.io/cinder": CloudDisks("cinder", "volumeID", 256)}
KUBE_MAX_PD_VOLS = os.environ.get("KUBE_MAX_PD_VOLS", "")
KUBE_MAX_PD_VOLS = int(KUBE_MAX_PD_VOLS) if KUBE_MAX_PD_VOLS.isdigit() else 0  # 0: the limits above


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


# ==== 15. Claims and their volumes ======================================================================


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


# ==== 16. The other extension points ====================================================================

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


def seek_remedy(decision, snapshot):
    """Have the rules do something about a pod that fits nowhere: the first that has a remedy."""
    if not (decision.failed and decision.fits_nowhere):
        return  # there are no nodes; or some fit, and what failed was another rule
    with warn_if_broken(decision.pod.key):
        for rule in decision.policy.rules_with["post_filter"]:
            failed = copy.deepcopy(dict(decision.failed))  # the rule may change it
            remedy = call_hook(rule, "post_filter", decision.pod, failed, snapshot)
            if remedy:
                decision.requests, decision.remedy = remedy
                return


# ==== 17. What is asked whatever the Policy =============================================================


def reasons_supposing(pod, node, snapshot, gone=(), there=()):
    """Return why the predicates refuse the node to the pod if some pods were gone and others there."""
    changes = list(snapshot.changes)
    changed = copy.copy(node)
    changed.changes = changes
    hold(changed, {each.uid: each for each in [*node.pods.values(), *there] if each not in gone})
    supposed = replace(snapshot, nodes=snapshot.nodes | {node.name: changed}, changes=changes,
                       memory=dict(snapshot.memory))
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
    for other in snapshot.nominated:
        is_done = other.phase in ("Succeeded", "Failed") or any(other.uid in node.pods for node in nodes)
        if other.uid != pod.uid and other.priority >= pod.priority and not is_done:
            others[other.nominated_node].append(other)
    return (others, snapshot) if others else SKIP


def room_for_nominated(pod, node, metadata):
    """The pod still fits once those are there that are nominated to the node. Upstream: addNominatedPods."""
    others, snapshot = metadata
    return reasons_supposing(pod, node, snapshot, there=others[node.name]) if node.name in others else []


ALWAYS_ASKED = [  # whatever the Policy
    Rule("Devices", lambda pod, node: (), metadata=claims_of_devices, title="devices", steady=True),
    Rule("NominatedPods", room_for_nominated, metadata=nominated_elsewhere, title="room for nominated pods"),
]


##########################################################################################################
# PART IV. WHAT PEOPLE WRITE                                                                             #
# Files, rules of one's own, and the Policy.                                                             #
##########################################################################################################


# ==== 18. Files =========================================================================================


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


# ==== 19. Rules of one's own ============================================================================

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
PLUGGED_IN = {}  # the name of a rule of --plugins -> its file


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


def shown(thing):
    """Return a copy of a pod's or a node's attributes, to be compared later, but of those no rule looks at."""
    same = [vars(thing).get(name) for name in ("record", "changes", "derived", "by_kind")]
    same += getattr(thing, "pods", {}).values()
    return copy.deepcopy(vars(thing), {id(value): value for value in same})


class Watch:
    """What a rule of the user's own does beside its answers, which is to be nothing, and to take no time.

    A rule that changes what it looks at is not asked any more. That is looked for as it is first asked.
    """

    PODS, CALLS = 20, 5  # for which each of its functions is looked after

    def __init__(self, name):
        self.name = name
        self.refusal = ""
        self.pods = collections.Counter()  # function -> pods about which it was asked
        self.pod = None  # the last one of these
        self.calls = collections.Counter()  # function -> calls about this one
        self.seconds = 0  # that these took

    def over(self, options):
        """Return a decorator's options with the functions watched that the loop asks about a pod."""
        asked = PARAMETERS.keys() - {"reduce", "check", "bind", "post_bind"}
        return {option: self.watched(value) if value and option in asked else value
                for option, value in options.items()}

    def watched(self, function):
        """Return a function that does the same as this one, under watch."""

        @functools.wraps(function)
        def ask(pod, *things, **more):
            """Raise TypeError if the rule has changed something, now or before."""
            if self.refusal:
                raise TypeError(self.refusal)
            before = [(thing, shown(thing)) for thing in self.to_compare(function, pod, things)]
            began = time.monotonic()
            answer = function(pod, *things, **more)
            if isinstance(answer, types.GeneratorType):
                answer = list(answer)
            self.seconds += time.monotonic() - began
            if self.seconds > 1:
                calls = "call" if self.calls.total() == 1 else "calls"
                took = f"{self.seconds:.1f} s for {self.calls.total()} {calls} about {pod.key} so far"
                place = place_of(self, function)
                warn_once(f"{self.name} takes long: {took} ({place})", about=f"{self.name} takes long")
            for thing, attributes in before:
                self.compare(thing, attributes, function)
            return answer

        return ask

    def to_compare(self, function, pod, things):
        """Return the pods and nodes to compare before and after a call; none after the first calls."""
        if pod is not self.pod:
            self.pod = pod
            self.calls.clear()
            self.seconds = 0
        self.calls[function] += 1
        self.pods[function] += self.calls[function] == 1
        if self.pods[function] > self.PODS or self.calls[function] > self.CALLS:
            return []
        lists = [thing[:self.CALLS] for thing in things if isinstance(thing, list)]
        return [thing for thing in [pod, *things, *itertools.chain(*lists)] if isinstance(thing, (Pod, Node))]

    def compare(self, thing, before, function):
        """Raise TypeError if a pod or a node is not as it was before, and make it so again."""
        changed = [name for name, value in before.items() if vars(thing).get(name) != value]
        if changed:
            vars(thing).update(before)
            [name, *_] = [name for name in changed if name not in ("raw", "spec")] or changed
            what = f"{type(thing).__name__.lower()}.{name} ({place_of(self, function)})"
            self.refusal = f"rules must not change what they look at: {what}"
            raise TypeError(self.refusal)


def load_plugins(paths):
    """Run files that register rules, maybe again. Return {path: its text}. Raises InputError."""
    sys.modules["scheduler"] = sys.modules[__name__]  # also where this file is the main program
    for catalogue in CATALOGUES.values():
        for name in PLUGGED_IN.keys() & catalogue.keys():
            del catalogue[name]
    PLUGGED_IN.clear()
    code = {}
    for path in paths:
        others = PREDICATES.keys() | PRIORITIES.keys()
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
            PLUGGED_IN.update(dict.fromkeys((PREDICATES.keys() | PRIORITIES.keys()) - others, path))
        if path not in PLUGGED_IN.values():
            warn_once(f"there is no rule in {path}")
    return code


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
    active = {rule.name for policy in policies.values() for rule in policy.rules()}
    for path in paths:
        names = [name for name, file in PLUGGED_IN.items() if file == path]
        idle = sorted(set(names) - active)
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
            warn_once(f"{rule.title} gives {name} the score {score}: expected 0 to 100, {expected} ({place})")
            FAILURE.set()
            raise Unschedulable(
                f'applying score defaultWeights on Score plugins: plugin "{rule.title}" returns an invalid '
                f"score {score}, it should in the range of [0, 100] after normalizing")


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


# ==== 20. The Policy ====================================================================================

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
    would_preempt = True  # kube-scheduler would, for its pods; of a configuration that is said as it is read
    asked_behind = {"NoDiskConflict": [CLAIMS_FOR_ONE_POD]}  # rule -> those that are asked with it

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
        decision.votes = []
        try:
            for rule in prepare(self.priorities, pod, feasible, snapshot):
                decision.votes.append(rule.vote(pod, feasible, snapshot))  # points from 0 to 100
        except Unschedulable:  # a priority has given a score that is not from 0 to 100, for example
            if len(feasible) > 1:  # a single node is taken, whatever its points
                raise
        for extender in self.extenders:
            decision.votes += extender.prioritize(pod, feasible)
        return self.add_up(decision, feasible, snapshot)

    def add_up(self, decision, nodes, snapshot):
        """Return the sum of each node's points times their weights; 1 if nobody is to give points."""
        is_unscored = not self.priorities and not self.extenders

        def total(node):
            """Add up what one node gets in all votes."""
            return 1 if is_unscored else sum([vote.weight * vote.points[node.name] for vote in decision.votes])

        # Points that `reduce` has made rest on all nodes: totals hold only while these points are the same.
        basis = [(vote.rule, None if vote.points is vote.raw else vote.points) for vote in decision.votes]
        like = likeness(decision.pod, self.priorities)
        return recall(("total", self), like, snapshot, nodes, total, basis)

    def give_up(self, decision, error, snapshot):
        """Say why there is no node; a rule may know a remedy, such as preemption."""
        give_up(decision, error)
        seek_remedy(decision, snapshot)
        is_important = decision.pod.priority > 0 and decision.fits_nowhere
        if is_important and self.would_preempt and not self.rules_with["post_filter"]:
            warn_once(f"nobody is preempted for {decision.pod.key}, as kube-scheduler 1.20 may do; the rule "
                      "Preemption of tests/tutorial_rules.py does it", about="preemption")

    def predicates_to_ask(self):
        """Return the predicates as they are asked: those that it names, and those that are always asked."""
        rules = self.predicates + ALWAYS_ASKED
        return [each for rule in rules for each in (rule, *self.asked_behind.get(rule.name, ()))]

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
        self.code = {}  # plugin -> its text when these were made
        self.notices = []  # what was noticed in them, or in files that said the same since
        self.seen = {}  # when the files were changed, at the last look
        self.current()

    def current(self):
        """Return the Policies, read again if a file has changed. If one is broken, say so, and keep the last.

        If they say the same as before, those in force stay, so that no held pod is decided about anew.
        """
        seen = {}
        for path in (self.path, *self.plugins):
            with contextlib.suppress(OSError):
                stat = Path(path).stat()
                seen[path] = stat.st_mtime_ns, stat.st_size, stat.st_ino
        if seen != self.seen or not self.policies:
            self.seen = seen
            try:
                self.load()
            except InputError as error:
                if not self.policies:
                    raise
                log.error("%s; the last good Policy stays", error)
        return self.policies

    def load(self):
        """Read the files, and say what is different. Raises InputError."""
        code = load_plugins(self.plugins)
        policies = load_policies(self.path, self.scheduler_name)
        lines = differences(self.policies, policies) if self.policies else []
        lines += [f"{path} is loaded again" for path in self.code if code[path] != self.code[path]]
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
            log.warning("%s: %s", self.path, line)


def differences(before, after):
    """Return the lines in which Policies differ from those before, such as "- HostName"."""
    texts = []
    for policies in (before, after):
        heads = {name: f"{name}: " if len(policies) > 1 else "" for name in policies}
        texts.append([heads[name] + line for name, policy in policies.items() for line in policy.lines()])
    return [line for line in difflib.ndiff(*texts) if line.startswith(("- ", "+ "))]


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
        notices.append(f"always on, though not among the predicates: {', '.join(unnamed)}")
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
    return rule.but(title=title, weight=weight, settings=settings, hooks=hooks, **functions)


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
# PART V. THE CLUSTER                                                                                    #
# What is read, what waits, what is written, and by which thread.                                        #
##########################################################################################################


# ==== 21. Requests and threads ==========================================================================


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
        """Ask for a stream of events, and return it. It may be silent for so many seconds.

        Raises ApiError, also when it breaks.
        """
        timeout = urllib3.Timeout(connect=5, read=silence)
        answer = self.send("GET", path, None, params, timeout=timeout, preload_content=False)
        if answer.status != 200:
            self.content(answer, "GET", path)  # raises ApiError
        return self.lines(answer, path)

    def lines(self, answer, path):
        """Yield the objects of a stream, each of which has a line. Raises ApiError if it breaks."""
        rest = b""
        try:
            for part in answer.stream():
                *lines, rest = (rest + part).split(b"\n")
                yield from map(read_json, lines)
        except (HTTPError, ValueError, RecursionError) as error:
            raise ApiError(0, f"the watch of {path} has broken off: {one_line(error)}") from error
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
            raise ApiError(0, f"cannot reach {self.server}: {one_line(error)}; {hint}") from error
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
        raise ApiError(0 if succeeded else status, f"{method} {path}: {status} {answer.reason}: {message}")


def read_json(data):
    """Return what bytes of the API server say, without managedFields. Raises ValueError, RecursionError.

    No rule looks at these, and anybody can nest those of an object deeper than `json` reads. Anybody can also
    have an object hold bytes that are no UTF-8, which would hide all others of its list: these are replaced.
    """
    try:
        content = json.loads(data.decode(errors="replace"))
    except RecursionError:
        content = json.loads(without_managed_fields(data).decode(errors="replace"))
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

    threading.Thread(target=call, daemon=True).start()
    return future


def share_memory_among_threads():
    """Have threads take memory from two places. By default glibc gives each its own, and keeps most of it.

    The script then takes half as much. Other C libraries do not have this, nor need it.
    """
    arena_max = -8  # M_ARENA_MAX, see mallopt(3)
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(arena_max, 2)


SLOW_SECONDS = 5  # after which it is said who does not answer


STOP = threading.Event()  # set by a signal; it is global, as rules list objects, too


def within(seconds, function, *arguments, late=None, whom="", stop=None):
    """Return what a function returns. Raises `late`, or else ApiError, if that takes longer.

    whom: who is named if no answer comes for a while. stop: an event that ends the wait with an ApiError.
    """
    future = in_background(function, *arguments)
    waited = 0
    while not future.done():
        if waited >= seconds:
            raise late or ApiError(0, f"no answer within {seconds:.3g} s")
        if stop and stop.is_set():
            raise ApiError(0, "a signal ended the script")
        if whom and waited >= SLOW_SECONDS:
            warn_once(f"{whom} has not answered for {SLOW_SECONDS} s; it may take up to {seconds} s")
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


# ==== 22. What is written ===============================================================================

# Threads write Bindings, and tell people. What rules want sent, the loop has sent, and waits for that. In a
# dry run nothing is written. Nor does a replica write that does not lead (`attempt`), except that it says
# which pods it has bound (`announce`). A request that fails with 5xx is sent up to three times (patiently).


HOOK_SECONDS = 60  # for which a rule's bind may keep a thread, and its post_bind, too


class Writer:
    """Sends requests, in threads of its own."""

    def __init__(self, api, dry_run):
        self.api = api
        self.dry_run = dry_run
        self.may_write = lambda: True
        # Seconds to wait for a free thread. Where manifests are written, nobody but rules takes long.
        self.patience = 5 if isinstance(api, Proxy) else 2 * HOOK_SECONDS
        self.threads = 0  # that have been started
        self.tasks = queue.Queue()  # what threads are to do: (function, arguments)
        # For the loop: (decision, why its Binding has failed, or None). Before Python 3.11 a SimpleQueue that
        # is to wait for hardly any time may wait for ever.
        self.answered = queue.Queue()

    def write_while(self, leads):
        """Write only while this replica leads, as a function says."""
        self.may_write = leads

    def start(self, function, *arguments):
        """Have a thread call a function, as soon as one is free; in a dry run, none."""
        if self.dry_run:
            return
        self.tasks.put((function, arguments))
        if self.threads < min(self.tasks.unfinished_tasks, THREADS):
            self.threads += 1
            threading.Thread(target=self.work, daemon=True).start()

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
                raise ApiError(0, f"{what}, for {self.patience} s")
            time.sleep(0.002)

    def bind_and_tell(self, decision, is_live):
        """Bind the pod, and let the loop know. If it is bound, tell people and rules so."""
        pod = decision.pod
        try:
            self.bind(decision, is_live)
        except BaseException as error:  # by a rule even SystemExit
            if not (is_live and self.is_bound(pod, decision.node)):
                self.answered.put((decision, error))
                return
        self.answered.put((decision, None))
        message = f"Successfully assigned {pod.key} to {decision.node}"
        self.announce(event(pod, "Normal", "Scheduled", message))
        for rule in decision.policy.rules_with["post_bind"]:
            with warn_if_broken(pod.key):
                call_in_time(rule, "post_bind", pod, decision.node)

    def bind(self, decision, is_live):
        """Bind the pod: by a rule, an extender, or else a Binding. Raises ApiError, or what a rule raises."""
        pod = decision.pod
        node_name = decision.node
        policy = decision.policy
        binders = [(f"rule {rule.title or rule.name}", functools.partial(call_in_time, rule, "bind"))
                   for rule in policy.rules_with["bind"]]
        if is_live:
            binders += [(f"extender {extender.url}", extender.bind)
                        for extender in policy.extenders if extender.cares("bindVerb", pod)]
        bound_by = next((who for who, binder in binders if self.may_write() and binder(pod, node_name)), None)
        # Among manifests nobody else can bind it, so that a Binding follows in any case.
        if bound_by and is_live:
            if not self.is_bound(pod, node_name):
                raise Unschedulable(f"{bound_by} says that the pod is bound to {node_name}, and it is not")
            return
        try:
            answer = patiently(self.attempt, *binding(pod, node_name))
        except ApiError as error:
            if error.status == 413:
                raise Unschedulable(f"with its node, the pod is larger than etcd takes: {error}") from error
            raise
        if is_live and not name_in(answer, "kind"):  # which all has that an API server says
            raise ApiError(0, "its Binding was answered, but by no API server")

    def is_bound(self, pod, node_name):
        """Say whether a pod is bound to a node, whatever was answered: the answer may have been lost.

        As long as the API server does not tell, it is asked again, and the pod keeps its room.
        """
        for attempt in itertools.count(1):
            try:
                raw = self.api.request("GET", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")
                uid = name_in(raw, "metadata", "uid")
                if uid:  # else it is no pod, so that no API server says it
                    return uid == pod.uid and name_in(raw, "spec", "nodeName") == node_name
            except ApiError as error:
                if error.status in (403, 404):  # nobody may ask, or it has gone
                    return False
            time.sleep(backoff(attempt, most=10))

    def announce(self, request):
        """Say that a pod is bound, even if this replica does not lead any more.

        If the API server is in trouble, say it again after 1, 2 and 4 seconds, unless all threads are needed.
        """
        for pause in (0, 1, 2, 4):
            time.sleep(pause)
            if self.write_note(self.api.request, request) or self.is_busy():
                return

    def tell(self, record, message, requests):
        """Say why a pod is not bound. What the API server fails to write, the next attempt says again."""
        for request in requests:
            if record.written != message:
                return  # there is news by now
            if record.waits_for is WaitsFor.BINDING:
                record.written = None  # by now it may be bound; if it is not, that is told anew
                return
            if not self.write_note(self.attempt, request):
                record.written = None

    def write_note(self, send, request):
        """Send an event or a condition. Return False if it is to be sent again: trouble of the API server."""
        try:
            patiently(send, *request)
        except ApiError as error:
            if error.is_trouble:
                return False
            if error.status != 409:  # it was written after all; or we do not lead any more
                warn_once(str(error))
        return True

    def send(self, requests, until=math.inf):
        """Send requests, one after another, until one fails; in a dry run, none. Raises ApiError.

        until: the time, in monotonic seconds, after which nobody waits for them any more.
        """
        for request in requests if not self.dry_run else ():
            if time.monotonic() > until:
                raise ApiError(0, "what was sent before it took too long")
            patiently(self.attempt, *request)

    def attempt(self, *request):
        """Send a request once, unless another replica may lead by now. Return its answer."""
        if not self.may_write():
            raise ApiError(409, "this replica does not lead any more")
        return self.api.request(*request)


def call_in_time(rule, point, *things):
    """Return what a rule says at an extension point. Raises TimeoutError if that takes too long."""
    late = TimeoutError(f"{rule.title or rule.name}: {point} has not returned for {HOOK_SECONDS} s")
    return within(HOOK_SECONDS, call_hook, rule, point, *things, late=late)


# ==== 23. The life of a pending pod =====================================================================

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


UNSCHEDULABLE_SECONDS = 60  # after which a pod that fits nowhere is tried again all the same


@dataclass
class PodRecord:
    """What is remembered of a pending pod from pass to pass. Times are in monotonic seconds."""

    pod: Pod  # as it was when last listed
    written: str | None = None  # the message of its last event, and of its condition PodScheduled
    reported: tuple | None = None  # what was last reported of it
    attempts: int = 0  # that have failed
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

    def wait_for(self, what, decision=None):
        """Have the pod wait for something; nothing else changes that. A decision is kept for rules only."""
        if what is not self.waits_for:
            self.since = time.monotonic()
        self.waits_for = what
        self.decision = decision

    def fall_back(self, seconds, fits_nowhere):
        """Have the pod wait for a node, and back off: longer if it fits nowhere, unless something changes."""
        self.wait_for(WaitsFor.NODE)
        self.put_back()
        self.attempts += 1
        self.since = time.monotonic()
        self.backoff_ends = self.since + seconds
        self.retry_at = self.backoff_ends
        if fits_nowhere:
            self.retry_at = max(self.since + UNSCHEDULABLE_SECONDS, self.backoff_ends)

    def hasten(self, moment):
        """Have the pod tried again at a time, unless it will be before."""
        self.retry_at = min(self.retry_at, moment)

    def is_due(self):
        """Say whether this pass has to do with the pod."""
        if self.waits_for is WaitsFor.NODE:
            return time.monotonic() >= self.retry_at
        return self.waits_for is not WaitsFor.BINDING

    def is_news(self, decision):
        """Say whether a decision says something else than what was last reported of the pod."""
        news = (decision.node or decision.message, decision.remedy, decision.waits)
        is_other = self.reported != news
        self.reported = news
        return is_other


def assume(decision, cache):
    """Put the pod on its node, if it has one, and have the rules take note of that (reserve)."""
    if decision.node is None:
        return
    node = cache.snapshot.nodes[decision.node]
    cache.place(decision.pod, node.name)
    decision.pod.record.wait_for(WaitsFor.PERMIT, decision)
    try:
        for rule in decision.policy.rules_with["reserve"]:
            call_hook(rule, "reserve", decision.pod, node, cache.snapshot)
    except (Exception, SystemExit) as error:
        give_up(decision, error)


def ask_before_binding(decision, cache):
    """Ask the rules whether an assumed pod may be bound by now (permit, pre_bind)."""
    if decision.node is None:
        return
    decision.requests = []  # those of an earlier pass have been sent
    decision.trouble = None
    decision.reason = "Unschedulable"
    record = decision.pod.record
    node = cache.snapshot.nodes.get(decision.node)
    try:
        if node is None:
            raise Unschedulable(f"node {decision.node} has gone")
        if record.waits_for is WaitsFor.PERMIT:
            decision.waits = why_held(decision, node, cache.snapshot)
            if decision.waits:
                return
        decision.reason = "SchedulerError"  # whatever is wrong from now on; as kube-scheduler's PreBind
        prepare_binding(decision, node, cache)
        if decision.waits:
            record.wait_for(WaitsFor.PRE_BIND, decision)
        else:
            record.wait_for(WaitsFor.BINDING)
    except (Exception, SystemExit) as error:
        record.put_back()  # what rules have set aside in memory is not written
        if getattr(error, "is_trouble", False):  # of the API server: then it waits, as it stands
            FAILURE.set()
            decision.trouble = error
            decision.waits = decision.waits or one_line(error)
        else:
            give_up(decision, error)


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


def with_why(text, reason):
    """Return a text with the reason that a rule has given, if any."""
    return f"{text}: {reason}" if reason else text


def prepare_binding(decision, node, cache):
    """Ask the rules what has to take effect before the binding: what is to be sent, and what it waits for."""
    requests = []
    waits = ""
    snapshot = cache.snapshot
    for rule in decision.policy.rules_with["pre_bind"]:
        wanted, reason = with_reason(call_hook(rule, "pre_bind", decision.pod, node, snapshot))
        if wanted is not None and not snapshot.is_live:  # nothing will change: so it is asked again now
            wanted, reason = with_reason(call_hook(rule, "pre_bind", decision.pod, node, snapshot))
        if wanted is not None:
            requests += wanted
            waits = with_why(f"{rule.title or rule.name} prepares the binding to {node.name}", reason)
    decision.requests = requests  # only now: if a rule breaks, none are sent
    decision.waits = waits


def seconds_to_wait(decision):
    """Return for how long a pod backs off: at least ten times what its turn took, for the others' sake.

    How long it took is not up to the pod if the API server was in trouble.
    """
    record = decision.pod.record
    policy = decision.policy
    usual = backoff(record.attempts + 1, policy.max_backoff, policy.initial_backoff)
    if decision.trouble:
        return usual
    seconds = max(usual, 10 * record.took)
    if record.took > 1:
        pause = f"it is tried again after {seconds:.0f} s at the earliest, so that others have turns"
        warn_once(f"{decision.pod.key} takes {record.took:.1f} s to decide about: {pause}", about="brake")
    return seconds


class PendingPods(dict):
    """{uid: PodRecord} of the pending pods, and what becomes of them. It runs in the loop's thread."""

    SEVERAL = 10  # pods in a pass that meet trouble of the API server: then it is not up to them

    def __init__(self, cache, writer):
        super().__init__()
        self.cache = cache
        self.writer = writer
        self.due = []  # Pods to try in this pass; after it, those that are left as it broke off
        self.under_way = set()  # the uids of pods whose Bindings are being written
        self.failing = set()  # the uids of pods that have met trouble since one was bound
        self.failing_now = set()  # likewise, in this pass

    def renew_records(self, pods, policies):
        """Give these pods their records. Forget all others, unless one only lacks in this list.

        Those that wait for rules fall back if the pod has gone, or its Policy is another one by now.
        """
        listed = {pod.uid for pod in pods}
        moment = time.monotonic()
        for pod in pods:
            record = self.get(pod.uid) or PodRecord(pod, pod.pending_message, since=moment)
            self[pod.uid] = record
            record.renew(pod)
        for uid, record in [*self.items()]:
            latest = self.cache.waiting(record.pod)
            policy = policies.get(record.pod.scheduler)
            is_to_be_tried = uid in listed or (latest and policy and ready(latest, policy))
            is_being_bound = latest and record.waits_for is WaitsFor.BINDING
            has_gone = not (is_to_be_tried or is_being_bound)
            decision = record.decision
            if decision and (has_gone or decision.policy not in policies.values()):
                self.fall_back(decision)
            if has_gone and uid not in self.under_way:
                del self[uid]
                record.pod.record = None  # else they keep each other

    def end_backoff(self):
        """Have all pods tried again."""
        for record in self.values():
            record.hasten(0)

    def hasten(self):
        """Have pods that fit nowhere tried again once their backoff is over, since something has changed."""
        for record in self.values():
            record.hasten(record.backoff_ends)

    def choose_due(self, pods):
        """Choose those of the pods that are due, for this pass."""
        self.failing_now.clear()
        self.due[:] = [pod for pod in pods if pod.record.is_due()]

    def carry_out(self, decision):
        """Begin to do what was decided. Raises ApiError if several pods have met trouble."""
        record = decision.pod.record
        record.took = time.monotonic() - record.began_at
        if decision.node is None:
            self.fall_back(decision, was_met=record.since < record.began_at)  # its room is not of this turn
            self.try_to_send(decision.requests)
            self.say(decision, "Warning", "FailedScheduling", decision.reason, decision.message)
        elif record.waits_for is WaitsFor.BINDING:
            if not self.writer.dry_run:
                self.under_way.add(decision.pod.uid)
                self.writer.start(self.writer.bind_and_tell, decision, self.cache.snapshot.is_live)
        else:
            try:
                self.send(decision.requests)
                self.say(decision, "Normal", "Waiting", "Waiting", decision.waits)
            except Exception as error:
                self.take_failure(decision, error)
        self.note_trouble(decision, decision.trouble)

    def fall_back(self, decision, was_met=True):
        """Have a pod wait for a node again: give up its room, have the rules forget it, have it back off.

        was_met: whether others have met it in its room, which may fit now.
        """
        record = decision.pod.record
        had_room = record.waits_for is not WaitsFor.NODE
        record.fall_back(seconds_to_wait(decision), decision.fits_nowhere)
        if had_room:
            self.cache.forget(decision.pod, was_met)
            self.try_to_send(unreserve(decision, self.cache.snapshot))

    def give_up_held(self):
        """Have the pods that wait for rules give up their rooms."""
        for record in self.values():
            if record.decision:
                self.fall_back(record.decision)

    def note_trouble(self, decision, error):
        """Note whether a pod has met trouble of the API server. Raises it if several have in this pass."""
        if getattr(error, "is_trouble", False):
            self.failing.add(decision.pod.uid)
            self.failing_now.add(decision.pod.uid)
        if len(self.failing_now) >= self.SEVERAL:
            self.failing_now.clear()
            raise error

    def send(self, requests):
        """Send what rules want sent; no pod is tried meanwhile, so it may not take long. Raises ApiError."""
        if requests:
            within(10, self.writer.send, requests, time.monotonic() + 10)

    def try_to_send(self, requests):
        """Send what rules want sent, though nothing depends on it."""
        try:
            self.send(requests)
        except Exception as error:  # what a rule wants sent may be anything
            warn_of_failure(error, str(error) if isinstance(error, ApiError) else what_broke(error))

    def say(self, decision, kind, event_reason, condition_reason, message):
        """Say why the pod is not bound, in an event and in its condition PodScheduled, if that is new.

        For pods whose condition has the reason Unschedulable, cluster autoscalers make nodes.
        """
        pod = decision.pod
        if message != pod.record.written:
            pod.record.written = message
            requests = [event(pod, kind, event_reason, message),
                        pod_condition(pod, condition_reason, message)]
            self.writer.start(self.writer.tell, pod.record, message, requests)

    def take_answers(self, patience=0.5):
        """Take in how Bindings have ended; for those under way wait so many seconds. Raises ApiError."""
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
                self.failing_now.clear()

    def take_failure(self, decision, error, heading=""):
        """Have a pod fall back for which something could not be written. Raises ApiError if many do."""
        pod = decision.pod
        self.fall_back(decision)
        is_known = isinstance(error, (ApiError, Unschedulable))
        why = one_line(error) if is_known else what_broke(error)
        is_failure = warn_of_failure(error, f"{pod.key}: {why}")
        is_answered = getattr(error, "status", None) not in (0, 429)
        if is_failure and is_answered:  # else it might well not be told either
            self.say(decision, "Warning", "FailedScheduling", "SchedulerError", f"{heading}{why}")
        self.note_trouble(decision, error)

    def finish(self, seconds, stop=None):
        """Wait until all is written, but no longer than this, or until `stop` is set."""
        until = time.monotonic() + seconds
        while self.under_way or self.writer.tasks.unfinished_tasks:
            if time.monotonic() > until or (stop and stop.is_set()):
                break
            with contextlib.suppress(ApiError):
                self.take_answers(patience=0.02)
            time.sleep(0.002)


def warn_of_failure(error, text):
    """Say that a write has failed, and return True, unless it came too late.

    That no answer came, is said once for all pods.
    """
    status = getattr(error, "status", None)  # None: a rule's or an extender's error
    if status in (404, 409):
        return False
    FAILURE.set()
    warn_once(text, about="no answer to a write" if status == 0 else None)
    return True


# ==== 24. List and watch ================================================================================

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
    if isinstance(api, Proxy):
        request = functools.partial(api.request, accept=METADATA if names_only else JSON)
        ask = functools.partial(within, 60, request, whom=api.server, stop=STOP)
    things = []
    while params:
        try:
            answer = patiently(ask, "GET", path_of(resource), None, params)
            things += pick(answer, list, "items", of=dict)
            version = pick(answer, str, "metadata", "resourceVersion")
            token = pick(answer, str, "metadata", "continue")
        except Malformed as error:
            raise ApiError(0, f"the list of {resource} is not as expected: {error}") from error
        params = token and page | {"continue": token}
    return things, version


SELECTORS = {"pods": "status.phase!=Succeeded,status.phase!=Failed"}  # of other resources, all is looked at
STREAM_SECONDS = 20  # for which a stream is asked for; shortly before its end, a bookmark says the version
SILENCE_SECONDS = 45  # after which what is known of a resource is too old to decide by


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
        self.heard_at = time.monotonic()  # when the API server last said anything of it
        self.failures = 0  # in a row
        self.trouble = None  # the last of them

    def list(self):
        """Return all objects; what is watched then begins where this list ends. Raises ApiError."""
        things, self.version = list_all(self.api, self.resource, self.selector)
        self.heard_at = time.monotonic()
        return things

    def work(self):
        """Watch, for ever. Where the versions since are gone, or it cannot be watched, list again."""
        while True:
            began = time.monotonic()
            try:
                if not self.version:
                    self.news.put((self.resource, "LISTED", self.list()))
                self.watch()
            except Exception as error:
                if not getattr(error, "is_trouble", False):
                    self.version = ""
                if getattr(error, "status", None) == 403:
                    warn_once(f"{error}; until that is allowed, {self.resource} are listed every 10 s")
                self.failures += 1
                self.trouble = error
            pause = backoff(max(self.failures, 1), most=10)
            time.sleep(max(0, began + pause - time.monotonic()))

    def watch(self):
        """Pass on what changes until the stream ends. Raises ApiError, Malformed."""
        params = {"fieldSelector": self.selector, "watch": "true", "resourceVersion": self.version,
                  "allowWatchBookmarks": "true", "timeoutSeconds": STREAM_SECONDS}
        stream = self.api.watch(path_of(self.resource), params, silence=STREAM_SECONDS + 5)
        self.failures = 0
        self.heard_at = time.monotonic()
        for event in stream:
            self.heard_at = time.monotonic()
            what = pick(event, str, "type")
            thing = pick(event, dict, "object")
            if what == "ERROR":  # in most cases, 410: the versions since the last one are gone
                raise ApiError(410, f"the watch of {self.resource} ends: {name_in(thing, 'message')}")
            if what != "BOOKMARK":
                self.news.put((self.resource, what, thing))
            self.version = pick(thing, str, "metadata", "resourceVersion")


# ==== 25. The cache =====================================================================================

# Objects are what the API server has said; the cache, what follows of it for nodes and pods. On a cluster
# Reflectors bring the news; only the loop's thread takes these in: when a pass begins, before each decision,
# and while it rests. A cluster that is made of manifests is listed in each pass, and taken in likewise.


class Objects(dict):
    """{resource: {namespace/name, or name: the API's JSON}}. What a rule first looks at is listed then.

    changed: a function that is called for each change, with a resource, a key, and the object, or None if it
    has gone.
    """

    def __init__(self, api, is_watched, changed):
        self.api = api
        self.is_watched = is_watched
        self.changed = changed
        self.reflectors = {}  # resource -> Reflector, of what is watched
        self.news = queue.SimpleQueue()  # from these

    def __missing__(self, resource):
        if "/" not in resource and resource not in GROUPS:
            expected = f"apis/GROUP/VERSION/RESOURCE or one of {', '.join(GROUPS)}"
            raise LookupError(f'snapshot.objects["{resource}"]: expected {expected}')
        self.list(resource)
        return self[resource]

    def list_what_is_not_watched(self):
        """List nodes and pods, and have all else listed when a rule looks at it. Raises ApiError."""
        for resource in self.keys() - {"nodes", "pods"} - self.reflectors.keys():
            del self[resource]
        for resource in ("nodes", "pods"):
            if resource not in self.reflectors:
                self.list(resource)

    def list(self, resource):
        """List a resource and take it in; on a cluster, watch it from then on. Raises ApiError."""
        reflector = Reflector(self.api, resource, self.news)
        try:
            things = reflector.list()
        except ApiError as error:
            if error.status != 404 or resource != "csistoragecapacities":
                raise
            self[resource] = {}  # an API server that does not know it yet has none
            return
        self.take_list(resource, things)
        if self.is_watched and resource not in self.reflectors:
            gc.freeze()  # or else each full collection looks at all of it, and all threads wait for seconds
            self.reflectors[resource] = reflector
            in_background(reflector.work)

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

    def take_news(self):
        """Take in what Reflectors have put into the queue.

        If one hears nothing for long, its resource is listed when a rule looks at it next. Raises ApiError if
        that is nodes or pods.
        """
        copied = {"nodes", "pods"}  # what rests on the dict of another resource is not to change with it
        while not self.news.empty():
            resource, what, content = self.news.get()
            if resource not in self:
                continue  # it will be listed anew, later than this was told
            if what == "LISTED":
                self.take_list(resource, content)
                continue
            if resource not in copied:
                self[resource] = dict(self[resource])
                copied.add(resource)
            self.take(resource, content, has_gone=what == "DELETED")
        for resource, reflector in self.reflectors.items():
            if time.monotonic() < reflector.heard_at + SILENCE_SECONDS:
                continue
            if resource in ("nodes", "pods"):
                why = reflector.trouble or "no answer"
                raise ApiError(0, f"nothing was heard of {resource} for {SILENCE_SECONDS} s: {why}")
            self.pop(resource, None)

    def take(self, resource, thing, has_gone):
        """Take in what an object is by now, or what it was when it went."""
        key = key_in(thing)
        known = self[resource]
        before = known.get(key)
        if not has_gone and not is_same(before, thing):
            known[key] = thing
            self.changed(resource, key, thing)
        # There may be another one of that name by now.
        if has_gone and name_in(before, "metadata", "uid") == name_in(thing, "metadata", "uid"):
            known.pop(key, None)
            self.changed(resource, key, None)


def is_same(thing, other):
    """Say whether the JSON of an object is what it was."""
    version = name_in(thing, "metadata", "resourceVersion")
    return thing is other or (version != "" and version == name_in(other, "metadata", "resourceVersion"))


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


def become(node, other):
    """Have a node be what another reading of it says; the pods on it stay."""
    kept = {name: vars(node)[name] for name in ("changes", "exists", "pods", "requested", "nonzero")}
    vars(node).update(vars(other) | kept)
    note_change(node)


def scheduling_properties(node):
    """Return what decides which pods fit; not heartbeats. Upstream: nodeSchedulingPropertiesChange."""
    return (node.labels, node.annotations, node.unschedulable, node.taints, node.allocatable,
            node.max_pods, node.images, node.conditions)


class Cache:
    """What follows for nodes and pods from what is known of them; and where pods are assumed to be.

    A pod counts where it is assumed to be until the API server shows it on a node, or that it has gone; or
    until it is forgotten, as its binding has failed. Upstream: internal/cache.
    """

    def __init__(self, api, is_watched, is_live):
        self.objects = Objects(api, is_watched, self.take)
        self.snapshot = FullSnapshot({}, self.objects, is_live)
        self.nodes = {}  # name -> Node; also of nodes that do not exist, but have pods
        self.pods = {}  # namespace/name -> Pod, of those that have not ended
        self.unread = {}  # namespace/name of pods that cannot be read -> name of the node
        self.places = {}  # uid of a pod -> name of the node on which it counts
        self.arrived = set()  # the scheduler names of pods that have come, or changed, while they wait
        self.has_changed = False  # so that pods that fitted nowhere may fit now
        self.are_nodes_others = False  # than in the snapshot

    def refresh(self):
        """Take in what there is by now: the news, or else lists. Raises ApiError."""
        self.snapshot.bonds.clear()
        if len(self.snapshot.changes) > 4 * len(self.snapshot.nodes) + 1000:
            self.forget_findings()
        self.objects.list_what_is_not_watched()
        self.take_news()

    def take_news(self):
        """Take in what Reflectors have told. Raises ApiError."""
        self.objects.take_news()
        if self.are_nodes_others:
            self.renew_snapshot_nodes()

    def take(self, resource, key, thing):
        """Take in an object that has come or changed; None: it has gone."""
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
            self.has_changed = True
        if node.exists != bool(read):
            node.exists = bool(read)
            self.are_nodes_others = True

    def node_named(self, name):
        """Return the Node of this name; if there is none, one that does not exist, but may have pods."""
        if name not in self.nodes:
            node = self.nodes[name] = Node({"metadata": {"name": name}})
            node.exists = False
            node.changes = self.snapshot.changes
        return self.nodes[name]

    def renew_snapshot_nodes(self):
        """Give the snapshot the nodes that can take pods, in the order of their names.

        What a pod that cannot be read takes up is unknown: nothing may be added to its node.
        """
        self.are_nodes_others = False
        closed = {*self.unread.values()}
        nodes = {name: node for name, node in sorted(self.nodes.items())
                 if node.exists and name not in closed}
        if nodes != self.snapshot.nodes:  # a node of a name may be another one by now
            self.snapshot.nodes = nodes
            self.forget_findings()
            self.has_changed = True
        self.nodes = {name: node for name, node in self.nodes.items() if node.exists or node.pods}

    def forget_findings(self):
        """Forget what was found out about nodes, and which have changed since."""
        self.snapshot.changes.clear()
        self.snapshot.memory.clear()

    def take_pod(self, key, raw):
        """Take in a pod; None: it has gone."""
        before = self.pods.pop(key, None)
        was_on = before.node_name if before else ""
        pod = self.read_pod(key, raw, before)
        if pod is not before:
            self.exchange(before, pod)
        elif pod and pod.node_name != was_on:
            self.place(pod, pod.node_name)
            self.has_changed = True
        if pod:
            self.pods[key] = pod
        if self.is_news_of_nominated(before, pod):
            self.snapshot.nominated = [
                each for each in self.pods.values()
                if each.nominated_node and not each.node_name and not each.terminating]

    def is_news_of_nominated(self, before, pod):
        """Say whether a pod as it is now, or was before, is one of those that are nominated to a node.

        What a rule has noted of a pod, and the API server does not show, lasts as long as the pod waits.
        """
        if pod and pod.nominated_node and not pod.node_name:
            return True
        if before in self.snapshot.nominated:
            return True
        still_waits = pod and before and pod.uid == before.uid and not pod.node_name
        has_left = before and not still_waits
        return bool(has_left) and before.uid in [each.uid for each in self.snapshot.nominated]

    def exchange(self, before, pod):
        """Have a pod count instead of the one of its name that was there before; None: there is none.

        If it is the same one, which says something else now, it keeps the place where it is assumed.
        """
        assumed_on = self.places.get(pod.uid) if pod else None
        if before:
            self.place(before, None)
            self.has_changed = True
        if pod:
            self.place(pod, pod.node_name or assumed_on)
        if pod and pod.node_name:
            self.has_changed = True
        elif pod:
            self.arrived.add(pod.scheduler)

    def read_pod(self, key, raw, before):
        """Return a pod as it is by now; it is not parsed again if nothing that counts has changed."""
        was_unread_on = self.unread.pop(key, None)
        if was_unread_on is not None:
            self.are_nodes_others = True
        if before and raw and is_as_in(before, raw):
            before.raw = raw
            before.spec = pick(raw, dict, "spec")
            before.node_name = name_in(raw, "spec", "nodeName")
            before.phase = name_in(raw, "status", "phase")
            before.pending_message = pending_message(raw)
            return before
        pod = read_or_warn(Pod, raw) if raw else None
        if raw and not pod:
            assumed_on = self.places.get(before.uid) if before else was_unread_on
            self.unread[key] = name_in(raw, "spec", "nodeName") or assumed_on or ""
            self.are_nodes_others = True
        return pod

    def place(self, pod, name):
        """Have a pod count on the node of this name, and on no other one; None: on none."""
        was_on = self.places.pop(pod.uid, None)
        if name:
            self.places[pod.uid] = name
        if was_on == name:
            return
        if was_on:
            node = self.nodes[was_on]
            take_off(pod, node)
            if not (node.exists or node.pods):  # pods may name nodes that there never were
                del self.nodes[was_on]
        if name:
            put(pod, self.node_named(name))

    def forget(self, pod, is_change=False):
        """Take a pod off the node on which it is assumed, unless the API server shows it on one by now.

        is_change: whether other pods may fit now, which have met it there.
        """
        self.has_changed |= is_change
        if self.waiting(pod):
            self.place(pod, None)

    def waiting(self, pod):
        """Return a pod as it is by now; or None, if the API server shows that it has gone, or is bound."""
        latest = self.pods.get(pod.key)
        is_waiting = latest and latest.uid == pod.uid and not latest.node_name
        return latest if is_waiting else None

    def collect_changes(self):
        """Say whether anything has changed since this was last asked."""
        has_changed = self.has_changed
        self.has_changed = False
        return has_changed


class LiveCluster(Cluster):
    """What the loop works with: a cache that is kept up to date, a queue, threads that write."""

    def __init__(self, api, options=None, is_watched=False, at_rest=lambda: None):
        super().__init__(api)
        self.at_rest = at_rest  # is called when a pass is over
        self.options = options or read_arguments([])  # of the command line
        is_live = isinstance(api, Proxy) and not self.options.dry_run
        self.cache = Cache(api, is_watched, is_live)
        self.snapshot = self.cache.snapshot
        self.writer = Writer(api, self.options.dry_run)
        self.pending = PendingPods(self.cache, self.writer)
        self.due = self.pending.due
        self.listed_at = 0  # when the pods that wait were last listed, in monotonic seconds
        self.breaks_off_at = 0  # when the pass ends if pods have come

    def pods_to_try(self, policies, stop):
        """Yield the pods that are due; before each, take in what has changed. Raises ApiError."""
        try:
            self.begin_pass(self.waiting_pods(policies), policies)
            while pod := self.next_due(stop):
                yield pod
        except ApiError:
            self.pending.take_answers()
            raise
        self.pending.take_answers()  # which pods the API server has bound, and which not

    def decide(self, pod, policy):
        """Decide, unless a rule still delays the binding; then ask rules whether they are against it."""
        decision = pod.record.decision  # from an earlier pass
        if not decision:
            decision = schedule(pod, self.snapshot, policy)
            assume(decision, self.cache)  # from now on the pod counts on its node, if it has one
        ask_before_binding(decision, self.cache)
        return decision

    def is_news(self, decision):
        """Say whether a decision says something else than the last one about the pod."""
        return decision.pod.record.is_news(decision)

    def carry_out(self, decision):
        """Have a thread bind the pod, or say why it stays pending. Raises ApiError if several meet trouble."""
        self.pending.carry_out(decision)

    def end_pass(self, trouble):
        """Take in which pods are bound where the pass has ended too early to do so; see Cluster."""
        with contextlib.suppress(ApiError):
            if trouble:
                self.pending.take_answers()
        return super().end_pass(None if STOP.is_set() else trouble)

    def list_waiting(self, scheduler, selector):
        """List the pods of a scheduler, by its name and a field selector.

        That list tells names only, and may lag: the pods themselves are as the cache has them, and those are
        left out that are known to have gone, or of which no news came yet.
        """
        self.cache.arrived.discard(scheduler)
        self.listed_at = time.monotonic()
        raws, _ = list_all(self.api, "pods", selector, names_only=True)
        self.cache.refresh()
        pods = [self.cache.pods.get(key_in(raw)) for raw in raws]
        return [pod for pod in pods if pod]

    def begin_pass(self, waiting, policies):
        """Find out which of these pods are due, and return the snapshot to decide by. Raises ApiError."""
        are_policies_others = self.cache.snapshot.policies != policies
        snapshot = self.look(policies)
        self.cache.arrived &= policies.keys()  # pods may name as many other schedulers as they like
        pods = self.pending_pods(waiting, policies)
        if self.cache.collect_changes():
            self.pending.hasten()
        if are_policies_others:
            self.pending.end_backoff()
        self.pending.choose_due(pods)
        ready_at = time.monotonic()
        self.breaks_off_at = ready_at + max(1, ready_at - self.listed_at)
        return snapshot

    def look(self, policies=()):
        """Return the cluster as it is by now. Raises ApiError."""
        self.cache.refresh()
        self.cache.snapshot.policies = dict(policies)
        return self.cache.snapshot

    def pending_pods(self, waiting, policies):
        """Return those of the waiting pods that are to be tried, in the order in which to try them."""
        latest = [self.cache.waiting(pod) for pod in waiting]
        pods = [pod for pod in latest if pod and ready(pod, policies[pod.scheduler])]
        self.pending.renew_records(pods, policies)
        pods.sort(key=lambda pod: (-pod.priority, pod.record.since, pod.created, pod.key))
        pods.sort(key=lambda pod: pod.uid in self.pending.failing)  # behind those that may have no trouble
        for rule in [rule for policy in policies.values() for rule in policy.rules_with["queue_sort"]]:
            place = place_of(rule, rule.hooks["queue_sort"])
            with warn_if_broken(f"the queue is sorted by priority and age, not by {rule.title} ({place})"):
                pods = sorted(pods, key=functools.partial(call_hook, rule, "queue_sort"))
        # Last come those that have a node and wait, maybe for the others; first of them who was asked first.
        pods.sort(key=lambda pod: pod.record.began_at if pod.record.decision else 0)
        return pods

    def next_due(self, stop):
        """Take in the news, and return the next pod to decide about. None ends the pass. Raises ApiError.

        If pods have come meanwhile, the pass ends after a second, as one of them may be more important; after
        lists that took longer, it takes as long as these, so that at least half of the time is for decisions.
        """
        due = self.pending.due
        while due and not (self.has_come() and time.monotonic() > self.breaks_off_at):
            if self.options.step:
                wait_for_enter(due, self.cache.snapshot, stop)
            if stop.is_set():
                return None
            self.pending.take_answers(patience=0)
            self.writer.wait_for_a_free_thread()
            pod = due.pop(0)
            self.cache.take_news()
            latest = self.cache.waiting(pod)
            if latest and not latest.terminating:  # else it is bound, or goes
                pod.record.begin_turn(latest)
                return latest
        return None

    def has_come(self):
        """Say whether a pod has come, or changed, that waits for us, since these were listed."""
        is_for_us = not self.cache.arrived.isdisjoint(self.cache.snapshot.policies)
        return self.cache.objects.is_watched and is_for_us

    def rest(self, seconds, stop):
        """Wait so long, or until `stop` is set; unless there is trouble, only until a pod has come."""
        self.at_rest()
        if self.trouble or not self.cache.objects.is_watched:
            stop.wait(seconds)
            return
        until = time.monotonic() + seconds
        with contextlib.suppress(ApiError):  # which the next pass meets, too
            while not self.has_come() and time.monotonic() < until and not stop.wait(0.02):
                self.cache.take_news()

    def keep_up(self):
        """Take in the news while another replica leads, so that this one may lead at once."""
        with contextlib.suppress(ApiError):  # which the loop meets, once it runs
            self.cache.refresh()


# ==== 26. What is remembered ============================================================================

# It only saves time. A steady rule is asked about a node again if the node, or a pod on it, has changed since
# the last pod like this one, and about all nodes if what it rests on has changed: its `basis`. Predicates
# that stand beside each other have one basis together, as one is asked only where those before it have
# nothing against the node. Rules that follow claims to volumes, which may change at any time, are not steady.


MOST_REMEMBERED = 2_000_000  # answers about nodes, of some 50 bytes each: 100 MiB


@dataclass
class Finding:
    """What was found out about nodes, and what it rests on."""

    basis: object
    nodes: dict  # name -> Node
    answers: dict  # name -> what was found out about the node
    result: object  # what `then` has made of the answers
    heeded: int  # how many of the snapshot's changes were known by then


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
    changes = snapshot.changes
    key = subject, like
    last = memory.pop(key, None) or Finding(None, {}, {}, None, len(changes))
    changed = set(changes[last.heeded:])
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
        memory[key] = Finding(basis, nodes, answers, result, len(changes))
    while len(memory) * (len(snapshot.nodes) + 500) > MOST_REMEMBERED:  # 500 for all that is not of a node
        # Any one: if more kinds of pods take turns than there is room for, the oldest is asked for next.
        del memory[random.choice([*memory])]
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
        feasible, refused = recall((policy, place), like, snapshot, feasible, functools.partial(ask, pod, group),
                                   basis=group, then=split_nodes)
        if not failed:
            failed = refused  # the very object, whose message is summed up once
        elif refused:
            failed = Failures(failed | refused)
    return feasible, failed


# ==== 27. Extenders =====================================================================================


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


class Interruptible:
    """A connection that can be broken by another thread than the one that waits for its answer."""

    used = threading.local()  # .connections: a list of those that the thread has sent something on

    def putrequest(self, *arguments, **options):
        """Begin a request."""
        self.used.connections.append(self)
        super().putrequest(*arguments, **options)


def interruptible(pool):
    """Return a kind of urllib3's connection pools, with connections that are Interruptible."""
    connection = type("Connection", (Interruptible, pool.ConnectionCls), {})
    return type("Pool", (pool,), {"ConnectionCls": connection})


class Extender:
    """An HTTP extender of the Policy: a web service that has a say. Upstream: scheduler/core/extender.go."""

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
        for adapter in self.session.adapters.values():
            adapter.poolmanager.pool_classes_by_scheme = {
                "http": interruptible(urllib3.HTTPConnectionPool),
                "https": interruptible(urllib3.HTTPSConnectionPool)}
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
        made = tempfile.NamedTemporaryFile()
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

    def ask_in_time(self, verb, body, schema):
        """Return what a verb answers. If that takes too long, break the connection, and raise ApiError."""
        connections = []
        try:
            return within(self.timeout, self.ask, connections, verb, body, schema)
        except ApiError:
            for connection in connections:
                with contextlib.suppress(OSError, AttributeError):  # it has no socket any more
                    connection.sock.shutdown(socket.SHUT_RDWR)
            raise

    def ask(self, connections, verb, body, schema):
        """POST to a verb; return the answer. Raises HTTPError, OSError, ValueError, RecursionError."""
        Interruptible.used.connections = connections
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
        return self.ask_in_time(verb, body, schema)

    def filter(self, pod, nodes, failed):
        """Return those of the nodes that the extender lets pass, and `failed` with the others added."""
        if not nodes or not self.cares("filterVerb", pod):
            return nodes, failed
        otherwise = "it is ignorable, so the pods go on without it" if self.ignorable else ""
        with self.blamed("filterVerb", otherwise):
            answer = self.ask_about(nodes.values(), "filterVerb", pod, FILTERED)
            passing = {pick(item, str, "metadata", "name") for item in pick(answer, list, "Nodes", "items")}
            if self.names_only and "NodeNames" in answer:
                passing = set(answer["NodeNames"])
            if not passing <= nodes.keys():
                raise Malformed("passes nodes it was not asked about")
            reasons = pick(answer, dict, "FailedNodes", of=str)
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
            self.ask_in_time("bindVerb", body, BOUND)
        return True


# ==== 28. Several replicas, of which one leads ==========================================================


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
        self.tries = 0  # how often it was tried to write the Lease
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
        holder = "" if to_release else self.identity
        left = self.renewed_at + self.renew_deadline - time.monotonic()
        self.tries += 1
        try:
            if self.renewed_at == -math.inf:  # it does not lead
                return within(self.renew_deadline, self.write_lease, holder, self.tries, stop=STOP)
            return within(max(left, self.retry_period), self.write_lease, holder, self.tries)
        except Exception as error:
            if getattr(error, "status", None) != 409:  # another one was faster
                warn_once(f"leader election: {error}")
            return False

    def write_lease(self, holder, number):
        """Write the Lease with this holder, unless another one holds it; return whether that was done.

        number: which try it is. One for which nobody waits any more, as the next has begun, ends.
        """
        asked = time.monotonic()
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.metadata['namespace']}/leases"
        path = f"{leases}/{self.metadata['name']}"
        method = "PUT"
        lease = self.written
        self.written = None
        try:
            lease = lease or self.api.request("GET", path)
        except ApiError as error:
            if error.status != 404:
                raise
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": self.metadata}
            path = leases
            method = "POST"
        if number < self.tries:
            return False
        spec = pick(lease, dict, "spec")
        if spec != self.observed:
            self.observed = spec
            self.observed_at = asked
        is_ours = spec.get("holderIdentity") == self.identity
        is_old = asked - self.observed_at >= self.lease_duration
        if spec.get("holderIdentity") and not is_ours and not is_old:
            return False
        spec = {**spec, "holderIdentity": holder, "renewTime": now(microseconds=True),
                "leaseDurationSeconds": math.ceil(self.lease_duration)}
        if not is_ours:
            spec["acquireTime"] = spec["renewTime"]
            spec["leaseTransitions"] = spec.get("leaseTransitions", -1) + 1
        renewed_at = time.monotonic()  # others count from when they have seen that, which is later
        self.written = self.api.request(method, path, lease | {"spec": spec})
        self.renewed_at = renewed_at if holder else -math.inf
        return True


##########################################################################################################
# PART VI. PEOPLE                                                                                        #
# Manifests in place of a cluster, what people see, the command line.                                    #
##########################################################################################################


# ==== 29. A cluster made of manifests ===================================================================


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

    COMMAND = ("kubectl get nodes,pods,ns,svc,rc,rs,sts,pv,pvc,sc,csinodes,csidrivers,csistoragecapacities,"
               "volumeattachments,pdb,pc -A -o yaml")  # copies a live cluster

    def __init__(self, paths=()):
        self.objects = {}  # (resource, namespace, name) -> object
        self.uids = {}  # uid of a pod -> its namespace/name
        self.changes = 0  # Bindings and deletions
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


# ==== 30. What people see ===============================================================================


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
        if not (decision.node or self.options.explain or self.options.step or self.options.output == "json"):
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


def unheeded(decision):
    """Yield what the pod requires though no active rule looks at that, and the rule that would look."""
    pod = decision.pod
    node = decision.nodes.get(decision.node)
    active = {rule.name for rule in decision.policy.rules()}
    for rule in [rule for rule in PREDICATES.values() if rule.name not in active]:
        name = decision.policy.name_for(rule)
        for what, is_asked in rule.looks_at.items():
            with contextlib.suppress(Exception):  # what no active rule has read may be anything
                if is_asked(pod, node):
                    yield f"has {what}, and {name}, which looks at that, is not active"


def best_nodes(decision, screen):
    """Return the scores as a table: a row for each priority, columns for as many of the best nodes as fit."""
    total = decision.total
    chosen = decision.node
    ranked = sorted(total, key=lambda name: (-total[name], name != chosen, name))
    ties = [name for name in ranked if chosen and total[name] == total[chosen]]
    shown = ranked[:screen.width]  # more would not fit, however short their columns
    marks = dict.fromkeys(ties, "= ") | {chosen: "* "}
    rows = [["", *(marks.get(name, "") + shorten(name) for name in shown)]]
    for vote in decision.votes:
        # Entries of the Policy that make one rule, A+B, have a line each.
        first, *others = [shorten(f"  {part}", screen.width // 2) for part in re.split(r"(?=\+)", vote.title)]
        rows += [[first, *(score_cell(vote, name) for name in shown)], *([other] for other in others)]
    rows.append(["  Total", *(in_digits(total[name]) for name in shown)])
    columns = columns_that_fit(rows, screen.width)
    lines = align([row[:columns] for row in rows])
    if chosen:
        lines[0] = lines[0].replace(rows[0][1], screen.paint(rows[0][1], GREEN))
    more = ranked[columns - 1:]
    if more:
        down_to = in_digits(total[more[-1]])
        lines += screen.fold(f"more nodes that fit: {len(more)}, down to a total of {down_to}", "  ", DIM)
    if chosen and len(ties) < len(ranked):
        lines += screen.fold(what_decided(decision, chosen, ranked[len(ties)]), "  ")
    if not (decision.votes or decision.policy.priorities or decision.policy.extenders):
        lines += screen.fold("no priority is active: each node that fits has a total of 1", "  ", DIM)
    if len(ties) > 1:
        lines += screen.fold(f"{len(ties)} nodes (* and =) tie: any of them is taken, at random", "  ", DIM)
    return lines


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
    groups = collections.defaultdict(list)  # what is against nodes, by predicates -> their names
    for name, against in decision.failed.items():
        said = [f"{title}: {', '.join(reasons) or 'no reason given'}" for title, reasons in against.items()]
        groups[tuple(said)].append(name)
    labels = {sentences: shorten(names[0]) if len(names) == 1 else f"{len(names)} nodes"
              for sentences, names in groups.items()}
    margin = max(map(len, labels.values()), default=0)
    for sentences, names in sorted(groups.items(), key=lambda group: -len(group[1])):
        head = f"  ✗ {labels[sentences]:{margin}}  "
        for sentence in sentences:
            yield from screen.fold(sentence, head, RED)
            head = " " * len(head)
        misses = sorted([shortage(decision, name) for name in names], key=lambda miss: miss[0])
        described = [words for _, words in misses]  # the node that nearly fits comes first
        if described != [labels[sentences]]:
            yield from screen.fold(", ".join(described), head, DIM, max_lines=2)


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
    return share, shorten(name) + (f" ({'; '.join(words)})" if words else "")


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


# ==== 31. The picture of a cluster ======================================================================


MANY = 15  # nodes, or pods without one: of more of them, the picture shows so many


def picture(all_nodes, pods, screen, new, keys=None):
    """Yield as lines how full nodes are, and the pods on them. new: the uids of those that this run placed.

    keys: of the labels that one has to know, too.
    """
    nodes = nodes_to_show(all_nodes, new)
    others = len(all_nodes) - len(nodes)
    head, *lines = fill_table(nodes, pods, screen)
    yield from ["", head]
    for node, line in zip(nodes, lines, strict=True):
        yield line
        yield from screen.fold("" if keys is None else ", ".join(marks_of(node, keys)), "    ")
        names = {uid: " ".join([pod.key.removeprefix("default/"), *labels_of(pod, keys or ())])
                 for uid, pod in node.pods.items()}
        placed_now = sorted(f"+{name}" for uid, name in names.items() if uid in new)
        placed_before = sorted(name for uid, name in names.items() if uid not in new)
        names = ", ".join(placed_now + placed_before)
        for part in screen.fold(names, "    ", max_lines=1 if others else 2):
            yield re.sub(r"\+[^ ,]+", lambda name: screen.paint(name.group(), GREEN), part)
    if others:
        yield f"and {others} other nodes"


def marks_of(node, keys):
    """Return what one has to know of a node to guess: a cordon, its labels with these keys, its taints."""
    cordon = ["cordoned"] if node.unschedulable else []
    return cordon + labels_of(node, keys) + [f"taint {taint_in_words(taint)}" for taint in node.taints]


def labels_of(thing, keys):
    """Return the labels of a pod or a node that have these keys."""
    return [f"{key}={value}" for key, value in sorted(thing.labels.items()) if key in keys]


def taint_in_words(taint):
    """Return a taint, or what is tolerated of one, as kubectl writes it: gpu=true:NoSchedule."""
    return "=".join(filter(None, taint[:2])) + (f":{taint.effect}" if taint.effect else "")


SIGNS = {  # operator of a requirement -> how it is written
    "In": "{}={}", "NotIn": "{}!={}", "Exists": "{}", "DoesNotExist": "no {}", "Gt": "{}>{}", "Lt": "{}<{}"}


def labels_in_words(requirements):
    """Return requirements of labels in words: zone=east|west and no gpu."""
    return " and ".join(SIGNS[operator].format(key, "|".join(values))
                        for key, operator, values in requirements or ())


def others_in_words(term):
    """Return in words which pods a term of affinity or spreading means, and the domain: node, zone, ..."""
    key = pick(term, str, "topologyKey")
    domain = "node" if key == HOSTNAME else key.rpartition("/")[2]
    return labels_in_words(label_selector(term.get("labelSelector"))) or "any pod", domain


GIVEN_TO_ALL = {  # tolerations that the API server adds to each pod
    "node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/unreachable:NoExecute"}


def wishes(pod):
    """Yield in words what a pod asks of its node, and what it prefers."""
    requests = [f"{resource} {in_units(resource, wish, math.ceil)}"
                for resource, wish in pod.requests.items() if wish]
    ports = [f"host port {number}" for _, number in pod.host_ports]
    labels = [f"a node with {key}={value}" for key, value in pod.node_selector.items()]
    yield f"asks for {', '.join(requests + ports + labels) or 'nothing'}"
    affinity = pick(pod.spec, dict, "affinity")
    required = pick(affinity, dict, "nodeAffinity", f"required{WHEN}")
    terms = [("needs", term) for term in pick(required, list, "nodeSelectorTerms", of=dict)]
    terms += [("prefers", pick(each, dict, "preference"))
              for each in pick(affinity, list, "nodeAffinity", f"preferred{WHEN}", of=dict)]
    for verb, term in terms:
        on_labels, on_fields = node_selector_term(term)
        yield f"{verb} {labels_in_words(on_labels + on_fields)}"
    for toleration in pod.tolerations:
        taint = Taint(*(toleration.get(part) for part in Taint._fields))
        words = taint_in_words(taint) or "all taints"
        if words not in GIVEN_TO_ALL:
            yield f"tolerates {words}"
    for side, sign in (("podAffinity", ""), ("podAntiAffinity", "not ")):
        terms = [(f"{sign}with", term) for term in pick(affinity, list, side, f"required{WHEN}", of=dict)]
        terms += [(f"prefers {sign}to be with", pick(each, dict, "podAffinityTerm"))
                  for each in pick(affinity, list, side, f"preferred{WHEN}", of=dict)]
        for verb, term in terms:
            others, domain = others_in_words(term)
            yield f"{verb} {others} {'on' if domain == 'node' else 'in'} its {domain}"
    for constraint in pick(pod.spec, list, "topologySpreadConstraints", of=dict):
        verb = "prefers to be " if constraint.get("whenUnsatisfiable") == "ScheduleAnyway" else ""
        others, domain = others_in_words(constraint)
        yield f"{verb}spread over each {domain}: {others}, maxSkew {constraint.get('maxSkew')}"


def nodes_to_show(nodes, new):
    """Return the nodes; of many, those that took new pods, and the fullest."""

    def rank(node):
        """Return by how much the node is worth to be shown."""
        return not new.isdisjoint(node.pods), max(share_in_use(node, resource) for resource in CPU_AND_MEMORY)

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
    used = node.requested.get(resource, 0)
    room = node.allocatable.get(resource, 0)
    if not used and not room:
        return ""
    filled = min(round(length * share_in_use(node, resource)), length)
    units = {"cpu": (1000, ""), "memory": (2**30, "Gi"), "ephemeral-storage": (2**30, "Gi")}
    is_memory = resource.startswith("hugepages-")
    unit, suffix = units["memory"] if is_memory else units.get(resource, (1, ""))
    numbers = [in_digits(round(each / unit, 3)) for each in (used, room)]
    bar = "█" * filled + "░" * (length - filled)
    return f"{bar} {'/'.join(numbers)}{suffix}"


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
    if not pod.node_name and pod.scheduler not in snapshot.policies:
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


# ==== 32. The command line ==============================================================================


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
    add("--step", action="store_true", help="wait for Enter before each pod is decided about (q: end)")
    add("--seed", help="make the choice among equally good nodes repeatable")
    add("-o", "--output", choices=["text", "json"], default="text", help="json: an object for each decision")
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
    if options.compare and (options.explain or options.step or not options.cluster):
        parser.error("--compare needs --cluster, and goes without --explain and --step")
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
    formatter = logging.Formatter()
    errors = Screen(sys.stderr)
    formatter.formatMessage = lambda record: "\n".join(errors.folded(record.message))
    formatter.formatException = traceback_in_lines
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler])
    log.setLevel(logging.DEBUG if options.verbose else logging.INFO)
    screen = Screen()
    rules_print_to = sys.stderr if options.output == "json" else sys.stdout
    ended = threading.Event()
    in_background(watch_rules, threading.get_ident(), ended)
    try:
        with contextlib.redirect_stdout(rules_print_to):
            return int(run_command(options, screen))
    except (ApiError, InputError) as error:
        log.error("%s", error)
        return 1 if isinstance(error, ApiError) else 2
    finally:
        ended.set()


main = command_line  # for scripts of one's own; part I has a smaller one


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
    report = Reporter(options, screen)
    cluster = LiveCluster(api, options, not (options.cluster or is_explained), report.sum_up)
    if is_explained:
        return explain_pod(cluster, files[0], options, screen)
    if options.dry_run:
        log.info("dry run: nothing is written")
    if not options.cluster:
        log.info("%s: polling %s by %s", ", ".join(policies), options.server, files[0].path)
    with contextlib.suppress(ApiError):  # which the loop will meet, too
        waiting = cluster.waiting_pods(policies)
        if not cluster.pending_pods(waiting, policies):
            why = "none without a node has this spec.schedulerName"
            if waiting:
                why = "those without a node have scheduling gates, are being deleted, or a rule says no"
            log.info("no pod waits for %s: %s", ", ".join(policies), why)
    if options.cluster:
        return schedule_manifests(cluster, policies, report, stop, options, screen)
    return poll(cluster, files[0], report, stop, options)


def wait_for_enter(due, snapshot, stop):
    """Wait, before the first of the due pods is first decided about, for Enter; after q, set `stop`."""
    pod = due[0]
    if pod.record.reported:  # it was decided about before
        return
    wanted = []
    with contextlib.suppress(Exception):  # what no rule has read yet may be anything
        for wish in wishes(pod):
            wanted.append(wish)
    question = f"{pod.key} {'; '.join(wanted)}. Where will it go? (Enter; q ends)"
    nodes = snapshot.nodes.values()
    pods = [*due, *itertools.chain(*(node.pods.values() for node in nodes))]
    parts = ("nodeSelector", "affinity", "topologySpreadConstraints")
    asking = json.dumps([each.spec.get(part) for each in due for part in parts])
    keys = set(re.findall(r"[\w./-]+", asking)) - {HOSTNAME}  # and other words, which are no keys of labels
    screen = Screen()
    try:
        with open("/dev/tty") as terminal:  # as manifests may come from standard input
            screen.print(*picture(nodes, pods, screen, set(), keys), "")
            print(*screen.fold(question, rest="    "), sep="\n", end=" ", file=sys.stderr, flush=True)
            while not (stop.is_set() or select.select([terminal], [], [], 0.2)[0]):
                pass
            if not stop.is_set() and (terminal.readline() or "q").strip() == "q":  # or Ctrl-D
                stop.set()
    except OSError as error:
        raise InputError("--step: there is no terminal at which to press Enter") from error


def watch_rules(thread, ended, seconds=5, limit=math.inf):
    """Until all has ended, warn of each rule for which a thread, the loop's, has waited so many seconds.

    After `limit` seconds end the process, as the loop cannot: nobody would be scheduled, while another thread
    renews the Lease.
    """
    call = None  # the frame of the rule's function that the thread is in
    since = time.monotonic()  # when it was first seen there
    while not ended.wait(seconds):
        frame = sys._current_frames().get(thread)
        while frame and frame.f_code not in RULE_OF:
            frame = frame.f_back
        if frame is not call:
            call = frame
            since = time.monotonic()
        elif call:
            name = RULE_OF[call.f_code]
            place = f"{Path(call.f_code.co_filename).name}, line {call.f_lineno}"
            warn_once(f"{name} has not returned for {seconds:g} s ({place})", about=call.f_code)
            if time.monotonic() - since >= limit:
                log.error("%s has not returned for %g s (%s): this process ends", name, limit, place)
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


def poll(cluster, policy_file, report, stop, options):
    """Schedule a live cluster's pods; where a leader is elected, only while leading. Return the exit code."""
    share_memory_among_threads()
    settings = next(iter(policy_file.policies.values())).election  # all profiles have the same
    election = LeaderElection(cluster.api, options.scheduler_name, settings)
    is_wanted = options.leader_elect == "true" if options.leader_elect else settings.get("leaderElect")
    elected = is_wanted and not options.dry_run
    if elected:
        cluster.writer.write_while(election.leads)
        if not election.lead(stop, cluster.keep_up):
            return int(options.once)
    limit = election.renew_deadline if elected else 60
    in_background(watch_rules, threading.get_ident(), stop, limit / 10, limit)
    code = run_to_the_end(cluster, policy_file, report, stop, options.interval, options.once)
    stop.set()
    if elected:
        election.release()
    return 1 if election.lost else code


def run_to_the_end(cluster, policy_file, report, stop, interval, once):
    """Run the loop, and wait until all is written. Return the exit code."""
    trouble = run(cluster, policy_file.current, report, stop, interval, once)
    report.sum_up()
    cluster.pending.finish(seconds=3 if stop.is_set() else 10)
    has_failed = trouble or FAILURE.is_set() or cluster.pending.under_way or stop.is_set()
    return 1 if once and has_failed else 0


def schedule_manifests(cluster, policies, report, stop, options, screen):
    """Schedule the pods of manifests, and show where they are then. Return whether something failed."""
    waiting = {pod.uid for pod in cluster.waiting_pods(policies)}
    if options.step:
        snapshot = cluster.look(policies)
        screen.print(*pods_without_node(cluster.cache.pods.values(), snapshot, screen, {}))
    snapshot = make_passes(cluster, policies, report, stop, options.once)
    report.sum_up()
    if options.output == "text":
        pods = cluster.cache.pods.values()
        reasons = {uid: record.written for uid, record in cluster.pending.items()}
        screen.print(*picture(snapshot.nodes.values(), pods, screen, waiting),
                     *pods_without_node(pods, snapshot, screen, reasons))
    is_interrupted = stop.is_set() and not options.step  # which q ends
    return FAILURE.is_set() or is_interrupted


def make_passes(cluster, policies, report, stop, once):
    """Make passes until one changes nothing. Return a snapshot without the pods that are still held."""
    while not stop.is_set():
        before = cluster.api.changes
        schedule_pending_pods(cluster, policies, report, stop)
        cluster.pending.finish(cluster.writer.patience, stop)
        if once or cluster.api.changes == before:
            break
        cluster.pending.end_backoff()  # there is nothing to wait for: nobody else changes manifests
    cluster.pending.give_up_held()
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
    answers = [*say_what_follows(decision, cluster.cache)] if decision.node else []
    show(decision, options, screen, f"{pod.key} {stands}. If scheduled now, by {path}")
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
        give_up(decision, error)
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
        outcomes[title] = outcome_of(LiveCluster(copy.deepcopy(manifests), options), file, stop, options)
    if stop.is_set():  # what it has by now is no comparison
        return True
    screen.print(*([json.dumps(outcomes)] if options.output == "json" else comparison(outcomes)))
    return FAILURE.is_set()


def outcome_of(cluster, policy_file, stop, options):
    """Schedule manifests under a Policy. Return where the pods that waited are, and how full the nodes."""
    policies = policy_file.policies
    report = functools.partial(warn_of_unheeded, under=f"{policy_file.path}: ")
    waiting = cluster.waiting_pods(policies)
    pending = sorted(pod.key for pod in cluster.pending_pods(waiting, policies))
    snapshot = make_passes(cluster, policies, report, stop, options.once)
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


# ==== 33. What 1.36 says otherwise ======================================================================

# Under a KubeSchedulerConfiguration, functions of this chapter stand in for those of rules, which are in the
# order of the chapters above. What is not here is as it was.


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


NODES_NAMED = Rule("NodesNamed", is_named, metadata=nodes_named, title="NodeAffinity", steady=True)


@today("NodeAffinityPriority")
def preferred_node_affinity(pod, node, added_terms=()):
    """The preferences that the configuration adds for all pods count, too (addedAffinity)."""
    added = [weight for weight, term in weighted_terms(added_terms) if term_matches(term, node)]
    return node_affinity(pod, node) + sum(added)


@today("EvenPodsSpread", "metadata")
def hard_spread_today(pod, nodes, snapshot, default_constraints=()):
    """Pods count on eligible nodes only, and an empty selector counts nobody."""
    spread = [with_full_domains(unless_empty(constraint), constraint.eligible)
              for constraint in spread_constraints(pod, "DoNotSchedule", snapshot, default_constraints)]
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
    constraints = spread_constraints(pod, "ScheduleAnyway", snapshot, default_constraints)
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


def claims_today(pod, nodes, snapshot):
    """A claim that is not there rejects the pod."""
    for name, claim, _ in claims_of(pod, snapshot, pod.named_claims):
        if not claim:
            raise Rejected(f'persistentvolumeclaim "{name}" not found')
    return claim_in_use(pod, nodes, snapshot)


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

    asked_behind = {"NoDiskConflict": [CLAIMS_FOR_ONE_POD.but(metadata=claims_today)]}
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

    def rejection(self, error, failed):
        """Return the reason as it is, without the number of nodes for which it holds."""
        return f"0/{len(failed)} nodes are available: {error}."

    def name_for(self, rule):
        """Return the name of the plugin that a rule is part of."""
        return rule.plugin


# ==== 34. KubeSchedulerConfiguration ====================================================================


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
    policies = {}
    for i, profile in enumerate(profiles):
        name = profile.get("schedulerName", scheduler_name)
        policy = read_profile(profile, arguments[i], f"profiles[{i}]", configs, notices, problems)
        policies[name] = replace(policy, extenders=extenders_of(configs), election=election,
                                 initial_backoff=initial, max_backoff=longest)
    refuse(problems)
    read_over = [name for name in READ_OVER if name in body]
    read_over += [f"profiles[{i}].{name}" for i, profile in enumerate(profiles)
                  for name in READ_OVER if name in profile]
    if read_over:
        notices.append(f"nothing here depends on {', '.join(read_over)}")
    policies[name].notices += notices
    return policies


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
                    rule = catalogue[name].but(**TODAY.get(name, {}))
                    hooks = {hook: function for hook, function in rule.hooks.items()
                             if plugin in running[EXTENSION_POINTS[hook].in_configuration]}
                    entry = f"{place}.plugins.{point}: {plugin}"
                    with noted(problems):
                        rules[name] = set_up(rule.but(hooks=hooks), plugin, entry, weight or 1, given)
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
        notices.append(f"{place}: nobody is preempted, as DefaultPreemption does nothing here; the rule "
                       "Preemption of tests/tutorial_rules.py does it")
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


def points_of(plugin):
    """Return the extension points at which a plugin can run."""
    if plugin in EXTENDS:
        return EXTENDS[plugin].split()
    rules = plugins_of_today().get(plugin, [])
    points = [EXTENSION_POINTS[hook].in_configuration for rule in rules for hook in rule.hooks]
    points += ["preFilter", "filter"] if any(rule.name in PREDICATES for rule in rules) else []
    points += ["preScore", "score"] if any(rule.name in PRIORITIES for rule in rules) else []
    return points


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
