#!/usr/bin/env python3
"""A Kubernetes scheduler to read, to run and to change.

It runs beside `kubectl proxy`: one loop lists the pods that name this scheduler and have no node yet, applies the
predicates and priorities that a legacy Policy file names, and POSTs a Binding for each. Under the same Policy it gives
the answers of kube-scheduler 1.20, among the last releases to read such files.

The chapters follow the questions of a newcomer: 1. The loop. 2. The Policy. 3. Pods, nodes, quantities. 4. Predicates.
5. Priorities. 6. From the decision to the binding: the other extension points. 7. KubeSchedulerConfiguration, what a
Policy is called today. 8. The cluster: what is read, remembered and written. 9. What people see. 10. The command line.
"""

import argparse
import collections
import contextlib
import copy
import difflib
import functools
import hashlib
import inspect
import json
import logging
import math
import os
import random
import re
import runpy
import shutil
import signal
import socket
import statistics
import sys
import textwrap
import threading
import time
import traceback
import uuid
import warnings
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, TimeoutError, wait
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from urllib.parse import urlsplit

import requests
import yaml
from urllib3.exceptions import HTTPError, InsecureRequestWarning

log = logging.getLogger("scheduler")


# =====================================================================================================================
# 1. The loop
# =====================================================================================================================


def run(cluster, policy_file, report, stop, interval, once):
    """Poll until `stop` is set, or once. Return the exit code."""
    while not stop.is_set():
        trouble = None
        try:
            schedule_pending_pods(cluster, policy_file.current(), report, stop)
        except ApiError as error:
            trouble = error
        pause = cluster.seconds_until_recovery(trouble)
        if once:
            return 1 if trouble else 0
        stop.wait(max(interval, pause))
    return 0


def schedule_pending_pods(cluster, policies, report, stop):
    """Make one pass: decide about the pending pods, one after another. Return how many were bound."""
    writer, bound = cluster.writer, 0
    try:
        for pod, snapshot in cluster.queue(policies):
            if stop.is_set():
                break
            decision = pod.record.take_held() or schedule(pod, snapshot, policies[pod.scheduler])
            assume(decision, snapshot)  # that it will be bound, so that the next pod sees this one on its node
            if pod.record.is_news(decision):
                report(decision)
            if decision.node is None:
                writer.leave_pending(decision, snapshot)
            elif decision.held:
                pod.record.kept = decision
            else:
                writer.bind(decision, snapshot)
                bound += 1
    finally:
        writer.settle()
    return bound


def schedule(pod, snapshot, policy):
    """Choose a node for the pod: find the nodes that fit, prioritize them, select a host."""
    decision = Decision(pod, policy)
    try:
        if not snapshot.nodes:
            raise Unschedulable("no nodes available to schedule pods")
        fitting, decision.failed = nodes_that_fit(pod, snapshot, policy)
        if not fitting:
            raise Unschedulable(fit_error(decision.failed))
        decision.raw, decision.scores, decision.total = prioritize(pod, fitting, snapshot, policy)
        decision.node = select_host(pod, decision.total)
    except Exception as error:
        give_up(decision, error)
    return decision


def nodes_that_fit(pod, snapshot, policy):
    """Ask the predicates about every node, in kube-scheduler's order; the first that fails ends a node."""
    nodes, predicates, failed = list(snapshot.nodes.values()), [], {}
    for rule in policy.predicates:
        try:
            predicates.append((rule.title, rule.prepare(pod, nodes, snapshot)))
        except Rejected as reason:  # by a rule that need not look at the nodes
            return [], {node.name: {f"{rule.title} (whatever the node)": [str(reason)]} for node in nodes}
    for node in nodes:
        for title, fits in predicates:
            reasons = list(map(str, fits(pod, node)))
            if reasons:
                failed.setdefault(node.name, {})[title] = reasons
                if not policy.always_check_all:
                    break
    fitting = [node for node in nodes if node.name not in failed]
    for extender in policy.extenders:
        fitting = extender.filter(pod, fitting, failed)
    return fitting, failed


def prioritize(pod, fitting, snapshot, policy):
    """Score the nodes that fit: each priority gives each node 0 to 100, times the priority's weight."""
    names, raw, scores = [node.name for node in fitting], {}, {}
    if not policy.priorities and not policy.extenders:
        return raw, scores, dict.fromkeys(names, 1)  # one node is as good as another
    for rule in policy.priorities:
        raw[rule.title], points = rule.score(pod, fitting, snapshot)
        scores[rule.title] = {name: points[name] * rule.weight for name in names}
    for extender in policy.extenders:
        scores |= extender.prioritize(pod, fitting)
    return raw, scores, {name: sum(points[name] for points in scores.values()) for name in names}


def select_host(pod, total):
    """Take the node with the highest total; of several, any."""
    best = max(total.values())
    return dice(pod.key).choice([name for name, score in total.items() if score == best])


# =====================================================================================================================
# 2. The Policy
# =====================================================================================================================


@dataclass
class Rule:
    """A predicate or a priority: a function of a pod and a node, and what the Policy says about it."""

    name: str
    function: callable
    metadata: callable = None  # works out, once per pod, what the function takes as `metadata` (upstream: PreFilter)
    reduce: callable = None  # turns the scores of all nodes into 0 to 100, where the function itself does not
    argument: dict = None  # what the Policy may say in an entry's `argument`: {field: type}
    member: str = None  # the member of `argument` that says this, under any name that the Policy gives the rule
    check: callable = lambda arguments: ()  # yields what is wrong with the arguments
    hooks: dict = field(default_factory=dict)  # its functions for other extension points: chapter 6
    title: str = ""  # what the Policy calls it
    arguments: list = field(default_factory=list)  # what the Policy gives, else these
    weight: int = 1

    def prepare(self, pod, nodes, snapshot):
        """Return the rule as a function of (pod, node) alone, its metadata worked out for this pod."""
        if not self.metadata:
            return self.function
        return functools.partial(self.function, metadata=self.metadata(pod, nodes, snapshot))

    def score(self, pod, nodes, snapshot):
        """Return {node: raw score} and {node: score from 0 to 100}. Raises Unschedulable."""
        try:
            priority = self.prepare(pod, nodes, snapshot)
            raw = {node.name: priority(pod, node) for node in nodes}
            return raw, in_range(self, self.reduce(raw) if self.reduce else raw)
        except Unschedulable:
            if len(nodes) > 1:
                raise
            return {nodes[0].name: None}, {nodes[0].name: 0}  # kube-scheduler takes a single candidate unscored

    def use(self, title, arguments, weight=1):
        """Return the rule as the Policy calls it; those of its functions that take `arguments` get them."""

        def fill_in(function):
            takes = function and "arguments" in inspect.signature(function).parameters
            return functools.partial(function, arguments=arguments) if takes else function

        return replace(self, title=title, arguments=arguments, weight=weight, function=fill_in(self.function),
                       metadata=fill_in(self.metadata), reduce=fill_in(self.reduce),
                       hooks={point: fill_in(hook) for point, hook in self.hooks.items()})


PREDICATES, PRIORITIES = {}, {}  # legacy name -> Rule, filled by the decorators
HOOKS = {  # option of a decorator -> what a KubeSchedulerConfiguration calls this extension point
    "pre_enqueue": "preEnqueue", "queue_sort": "queueSort", "post_filter": "postFilter", "reserve": "reserve",
    "unreserve": "reserve", "permit": "permit", "pre_bind": "preBind", "bind": "bind", "post_bind": "postBind",
}


def register(catalogue, name, **options):
    """Return a decorator that makes a function the rule of this name."""
    hooks = {point: options.pop(point) for point in HOOKS.keys() & options.keys()}

    def decorate(function):
        if name in catalogue:
            raise ValueError(f'there is a rule "{name}" already')
        catalogue[name] = Rule(name, function, hooks=hooks, **options)
        return function

    return decorate


# A predicate is a function of (pod, node) that yields the reasons why the pod does not fit; yielding none, it fits.
predicate = functools.partial(register, PREDICATES)
# A priority is a function of (pod, node) that returns a score, from 0 to 100 once `reduce` has seen all of them.
priority = functools.partial(register, PRIORITIES)


# Upstream: pkg/scheduler/framework/plugins/legacy_registry.go.
MANDATORY_PREDICATES = ["CheckNodeUnschedulable", "PodToleratesNodeTaints"]
DEFAULT_PREDICATES = """
    GeneralPredicates NoDiskConflict MaxEBSVolumeCount MaxGCEPDVolumeCount MaxCSIVolumeCountPred
    MaxAzureDiskVolumeCount CheckVolumeBinding NoVolumeZoneConflict EvenPodsSpread MatchInterPodAffinity""".split()
DEFAULT_PRIORITIES = {
    "SelectorSpreadPriority": 1, "InterPodAffinityPriority": 1, "LeastRequestedPriority": 1,
    "BalancedResourceAllocation": 1, "NodePreferAvoidPodsPriority": 10000, "NodeAffinityPriority": 1,
    "TaintTolerationPriority": 1, "ImageLocalityPriority": 1, "EvenPodsSpreadPriority": 2,
}
ALIASES = {  # names that stand for others
    "GeneralPredicates": ["PodFitsResources", "HostName", "PodFitsHostPorts", "MatchNodeSelector"],
    "PodFitsPorts": ["PodFitsHostPorts"],
    "ServiceSpreadingPriority": ["SelectorSpreadPriority"],
    "EqualPriority": [],  # a constant changes no ranking
}
SAID_BY_TAINTS = """
    CheckNodeCondition CheckNodeMemoryPressure CheckNodeDiskPressure CheckNodePIDPressure
    PodToleratesNodeNoExecuteTaints""".split()  # names of predicates up to 1.18
PROVIDERS = {  # what --policy may name instead of a file. Upstream: algorithmprovider/registry.go
    "DefaultProvider": {"kind": "Policy", "apiVersion": "v1"},
    "ClusterAutoscalerProvider": {"kind": "Policy", "apiVersion": "v1", "priorities": [
        {"name": name.replace("Least", "Most"), "weight": weight} for name, weight in DEFAULT_PRIORITIES.items()]},
}


@dataclass
class Policy:
    """The rules that are active, in the order in which they run."""

    predicates: list
    priorities: list
    extenders: list = field(default_factory=list)
    always_check_all: bool = False
    notices: list = field(default_factory=list)  # what the user should know of it, a line each
    others: list = field(default_factory=list)  # rules of which only other extension points are active
    election: dict = field(default_factory=dict)  # what a KubeSchedulerConfiguration says of leader election

    def rules(self):
        """Return all active rules."""
        return self.predicates + self.priorities + self.others

    def hooks(self, point):
        """Return the functions of the active rules for an extension point, such as "reserve"."""
        return [rule.hooks[point] for rule in self.rules() if point in rule.hooks]

    def summary(self):
        """Return what it consists of, for comparison: {title: (weight, details)}."""
        parts = {rule.title: (rule.weight, rule.arguments, sorted(rule.hooks)) for rule in self.rules()}
        if self.always_check_all:
            parts["alwaysCheckAllPredicates"] = 1, None
        return parts | {extender.title: (extender.weight, extender.config) for extender in self.extenders}


class PolicyError(Exception):
    """The Policy cannot be used. Each argument is a line: the entry, what is wrong with it, what would be right."""


def load_policies(path, scheduler_name):
    """Return {schedulerName: Policy} of a Policy, a KubeSchedulerConfiguration or a provider. Raises PolicyError."""
    try:  # like kube-scheduler, with a file's first document only
        document = PROVIDERS.get(path) or next(parse(Path(path).read_text("utf-8-sig")), None)
        if isinstance(document, dict) and document.get("kind") == "KubeSchedulerConfiguration":
            return read_configuration(document, scheduler_name)
        policy = build_policy(decode_policy(document))
        if path in PROVIDERS:  # their predicates run in the order of the plugins
            policy.predicates.sort(key=lambda rule: [predicate for predicate, _ in PLUGINS.values()].index(rule.name))
        return {scheduler_name: policy}
    except (OSError, ValueError) as error:
        raise PolicyError(f"{path}: {one_line(error)}") from error
    except PolicyError as error:
        raise PolicyError(*(f"{path}: {line[:500]}" for line in error.args)) from error


class PolicyFile:
    """A Policy file that may be edited at any time. Raises PolicyError if it is not good to begin with."""

    def __init__(self, path, scheduler_name):
        self.path, self.scheduler_name = path, scheduler_name
        self.policies, self.signature = None, "none yet"
        self.current()

    def current(self):
        """Return the Policies, read again if the file has changed. If it is broken, say so, and keep the last."""
        signature = None
        with contextlib.suppress(OSError):
            stat = Path(self.path).stat()
            signature = stat.st_mtime_ns, stat.st_size, stat.st_ino
        if signature == self.signature:
            return self.policies
        self.signature, before = signature, self.policies
        try:
            self.policies = load_policies(self.path, self.scheduler_name)
        except PolicyError as error:
            if not before:
                raise
            for line in error.args:
                log.error("%s; the last good Policy stays", line)
            return before
        lines = changes(before, self.policies) if before else []
        for line in lines + [notice for policy in self.policies.values() for notice in policy.notices]:
            log.warning("%s: %s", self.path, line)
        return self.policies


def changes(before, after):
    """Return a line for each profile on what is different ("+ HostName, - ...", ...), or one that nothing is."""
    lines = [f"+ profile {name}" for name in after if name not in before]
    lines += [f"- profile {name}" for name in before if name not in after]
    for name in [name for name in after if name in before]:
        old, new = before[name].summary(), after[name].summary()
        parts = [f"+ {title}" for title in new if title not in old]
        parts += [f"- {title}" for title in old if title not in new]
        for title in [title for title in new if title in old]:
            if new[title][0] != old[title][0]:
                parts.append(f"{title} weight {old[title][0]} → {new[title][0]}")
            elif new[title] != old[title]:
                parts.append(f"{title} changed")
        if parts:
            lines.append((f"{name}: " if len(after) > 1 else "") + ", ".join(parts))
    return lines or ["says the same as before"]


# What a Policy may say: a type; a range of numbers; a set of strings; [any of these] for a list; {field: any of these}.
# What an argument may say is said with each rule. Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types.go.
WEIGHT = range(1, 2**31)
POLICY = {
    "kind": str, "apiVersion": str,
    "predicates": [{"name": str, "argument": dict}],
    "priorities": [{"name": str, "weight": WEIGHT, "argument": dict}],
    "extenders": [dict], "hardPodAffinitySymmetricWeight": range(101), "alwaysCheckAllPredicates": bool,
}
EXTENDER = {
    "urlPrefix": str, "filterVerb": str, "preemptVerb": str, "prioritizeVerb": str, "bindVerb": str, "weight": int,
    "enableHttps": bool, "httpTimeout": int, "nodeCacheCapable": bool, "ignorable": bool,
    "managedResources": [{"name": str, "ignoredByScheduler": bool}],
    "tlsConfig": {"insecure": bool, "caFile": str, "certFile": str, "keyFile": str,
                  "serverName": str, "caData": str, "certData": str, "keyData": str},
}
TYPE_NAMES = {dict: "an object", list: "a list", str: "a string", int: "a whole number", bool: "true or false"}


def decode_policy(document):
    """Check a document as strictly as kube-scheduler does, and return it without its nulls. Raises PolicyError."""
    if not isinstance(document, dict) or not document.keys() & {"kind", "apiVersion"}:
        raise PolicyError("expected a Policy: an object with kind Policy, apiVersion v1, predicates and priorities")
    kind, version, problems = document.get("kind"), document.get("apiVersion"), []
    if kind != "Policy" or version not in ("v1", "kubescheduler.config.k8s.io/v1"):
        raise PolicyError(f'kind "{kind or ""}", apiVersion "{version or ""}": write kind Policy, apiVersion v1')
    policy = decode(document, POLICY, "", problems)
    # Upstream reads extenders by Go's own JSON package: names in any case, and unknown ones are ignored.
    policy["extenders"] = [decode(extender, EXTENDER, f"extenders[{i}]", problems, lenient=True)
                           for i, extender in enumerate(policy.get("extenders", []))]
    if problems:
        raise PolicyError(*problems)
    return policy


def decode(value, schema, where, problems, lenient=False):
    """Check a value against a schema, append what is wrong to `problems`, and return it without nulls."""
    expected = schema if isinstance(schema, type) else {range: int, set: str}.get(type(schema), type(schema))
    if value is None:
        return expected()
    wanted, fits = TYPE_NAMES[expected], type(value) is expected and not (expected is int and abs(value) >= 2**63)
    if isinstance(schema, (range, set)):
        wanted = f"from {schema[0]} to {schema[-1]}" if expected is int else f"one of {', '.join(sorted(schema))}"
        fits = fits and value in schema
    if not fits:
        problems.append(f"{where}: expected {wanted}, got {json.dumps(value, default=str)[:60]}")
        return expected()
    if isinstance(schema, list):
        return [decode(item, schema[0], f"{where}[{i}]", problems, lenient) for i, item in enumerate(value)]
    if not isinstance(schema, dict):
        return value
    names, decoded = {name.lower() if lenient else name: name for name in schema}, {}
    for key, item in value.items():
        name, place = names.get(key.lower() if lenient else key), f"{where}.{key}".lstrip(".")
        if name and item is not None:
            decoded[name] = decode(item, schema[name], place, problems, lenient)
        elif not name and not lenient:
            problems.append(f"{place}: unknown field{did_you_mean(key, names)}")
    return decoded


def did_you_mean(word, known):
    """Return a hint at the known word nearest to this one, if there is one near."""
    near = difflib.get_close_matches(str(word), known, 1)
    return f'; did you mean "{near[0]}"?' if near else ""


def build_policy(document):
    """Find the rules that a decoded Policy names. Upstream: createFromConfig in pkg/scheduler/factory.go."""
    problems, notices = [], []
    ignored = [resource.get("name") for extender in document["extenders"]
               for resource in extender.get("managedResources", []) if resource.get("ignoredByScheduler")]
    settings = {"PodFitsResources": ignored,
                "InterPodAffinityPriority": [document.get("hardPodAffinitySymmetricWeight") or 1]}
    entries = document.get("predicates", [{"name": name} for name in DEFAULT_PREDICATES])
    order = list(PREDICATES)
    if any(entry.get("name") == "GeneralPredicates" for entry in entries):
        order[1:1] = ALIASES["GeneralPredicates"]  # right behind CheckNodeUnschedulable
    entries = entries + [{"name": name} for name in MANDATORY_PREDICATES]
    predicates = set_up(find("predicates", entries, PREDICATES, problems, notices), settings, problems)
    entries = document.get("priorities", [{"name": name, "weight": w} for name, w in DEFAULT_PRIORITIES.items()])
    priorities = set_up(find("priorities", entries, PRIORITIES, problems, notices), settings, problems)
    extenders = extenders_of(document["extenders"], problems)
    if problems:
        raise PolicyError(*problems)
    return Policy(sorted(predicates, key=lambda rule: order.index(rule.name)), merge_spreading(priorities),
                  extenders, document.get("alwaysCheckAllPredicates", False), notices)


# A rule as an entry of the Policy uses it: title is what the entry calls it. Several entries may use the same rule.
Use = collections.namedtuple("Use", "rule title place weight argument", defaults=[None])


def find(where, entries, catalogue, problems, notices):
    """Yield how the entries use rules: by name, or under names of the user's own, where the argument says which."""
    members = {rule.member: rule for rule in catalogue.values() if rule.member}
    for i, entry in enumerate(entries):
        place, title, weight = f"{where}[{i}]", entry.get("name", ""), entry.get("weight", 1)
        if where == "priorities" and "weight" not in entry:
            problems.append(f"{place}.weight: is missing; expected a number of {WEIGHT[0]} or more")
        rules = [catalogue[name] for name in ALIASES.get(title, [title]) if name in catalogue]
        takes_argument = any(rule.argument and not rule.member for rule in rules)
        schema = rules[0].argument if takes_argument else {name: rule.argument for name, rule in members.items()}
        argument = decode(entry["argument"], schema, f"{place}.argument", problems) if "argument" in entry else None
        if title in SAID_BY_TAINTS:
            notices.append(f"{place}: today taints say what {title} asked, and PodToleratesNodeTaints is always on")
        elif argument is not None and len(argument) != 1 and not takes_argument:
            problems.append(f"{place}: the argument must have exactly one member")
        elif rules:
            if argument and not takes_argument:
                argument = None
                notices.append(f'{place}: "{title}" ignores its argument, as in kube-scheduler; use a name of your own')
            for rule in rules:
                yield Use(rule, title if len(rules) == 1 else rule.name, place, weight, argument)
        elif argument:
            [(member, value)] = argument.items()
            yield Use(members[member], title, place, weight, value)
        elif title != "EqualPriority":  # a constant, which changes no ranking
            noun = "predicate" if catalogue is PREDICATES else "priority"
            hint = did_you_mean(title, [*catalogue, *ALIASES]) or "; is a file missing in --plugins?"
            problems.append(f'{place}: unknown {noun} "{title}"{hint}')


def set_up(uses, settings, problems):
    """Return the rules that are used, each once, with the arguments of its uses, or else those of the settings."""
    uses_of = collections.defaultdict(list)  # name of a rule -> its uses
    for use in uses:
        uses_of[use.rule.name].append(use)
    rules = []
    for name, same in uses_of.items():
        rule, first, last = same[0].rule, same[0], same[-1]
        given = [use.argument for use in same if use.argument is not None]
        arguments = given or settings.get(name) or rule.arguments
        try:
            problems += [f"{last.place}: {problem}" for problem in rule.check(arguments)]
        except Exception as error:
            problems.append(f"{last.place}: {broken(error)}")
        if given and last.weight != first.weight:
            problems.append(f"{last.place}.weight: must be {first.weight} as in {first.place}; they are one rule")
        title = "+".join(dict.fromkeys(use.title for use in same))
        # As upstream: the last weight counts, and n uses with arguments weigh n times as much.
        rules.append(rule.use(title, arguments, last.weight * max(1, len(given))))
    return rules


def merge_spreading(priorities):
    """Make one rule of the two for spreading, with the weight of the second: kube-scheduler has one plugin for both."""
    rules = {rule.name: rule for rule in priorities}
    if rules.keys() >= {"SelectorSpreadPriority", "EvenPodsSpreadPriority"}:
        both, even = rules["SelectorSpreadPriority"], rules.pop("EvenPodsSpreadPriority")
        rules[both.name] = replace(both, title=f"{both.title}+{even.title}", weight=even.weight)
    return list(rules.values())


def extenders_of(configs, problems):
    """Return the extenders, ignorable ones last; append what is wrong. Upstream: validateExtenders, makeTransport."""
    for i, config in enumerate(configs):
        if config.get("prioritizeVerb") and config.get("weight", 0) <= 0:
            problems.append(f"extenders[{i}].weight: must be positive where there is a prioritizeVerb")
        tls, place = config.get("tlsConfig", {}), f"extenders[{i}].tlsConfig"
        if tls.get("insecure") and tls.get("caFile"):
            problems.append(f"{place}: give either caFile or insecure")
        for name, value in tls.items():
            if value and name in ("serverName", "caData", "certData", "keyData"):
                problems.append(f"{place}.{name}: give files instead: caFile; certFile with keyFile")
            elif value and name != "insecure" and not Path(value).is_file():
                problems.append(f"{place}.{name}: there is no file {value}")
    extenders = [Extender(config, f"extenders[{i}]") for i, config in enumerate(configs)]
    binders = [extender.title for extender in extenders if extender.verbs["bind"]]
    if len(binders) > 1:
        problems.append(f"{binders[1]}.bindVerb: only one extender may bind, and {binders[0]} does")
    return sorted(extenders, key=lambda extender: extender.ignorable)


# =====================================================================================================================
# 3. Pods, nodes, quantities
# =====================================================================================================================


class Unschedulable(Exception):
    """The attempt to place a pod ends here, for this reason."""


class Rejected(Unschedulable):
    """The pod fits no node at all, for this reason."""


class Malformed(ValueError):
    """An API object that cannot be understood; the text says which field, and why."""


def pick(thing, kind, *path, of=None):
    """Follow a path into an API object; what is missing or null is an empty `kind`. `of`: the type of its members."""
    for depth, key in enumerate(path):
        if type(thing) is not dict:
            raise Malformed(f"{'.'.join(path[:depth]) or 'it'}: expected an object, got {json.dumps(thing)[:40]}")
        thing = thing.get(key)
        if thing is None:
            return kind()
    if type(thing) is not kind:
        raise Malformed(f"{'.'.join(path)}: expected {TYPE_NAMES[kind]}, got {json.dumps(thing)[:40]}")
    for key, member in (thing.items() if kind is dict else enumerate(thing)) if of else ():
        if type(member) is not of:
            raise Malformed(f"{'.'.join(path)}[{key}]: expected {TYPE_NAMES[of]}, got {json.dumps(member)[:40]}")
    return thing


# Upstream: ParseQuantity in k8s.io/apimachinery/pkg/api/resource.
QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)")
SUFFIXES = {
    None: 1, "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}


@functools.lru_cache(maxsize=65536)
def quantity(text, unit=1):
    """Read a quantity, rounded up to whole 1/units: quantity("100m", 1000) is 100, quantity("1.5Ki") is 1536."""
    match = QUANTITY.fullmatch(text)
    if not match:
        raise Malformed(f'"{text}" is not a quantity, such as 100m, 0.5 or 1.5Gi')
    number, exponent, suffix = match.groups()
    scale = Fraction(10) ** int(exponent) if exponent else SUFFIXES[suffix]
    return min(math.ceil(Fraction(number) * scale * unit), 2**63 - 1)  # what exceeds 64 bits is their maximum


NOTHING = {"cpu": 0, "memory": 0, "ephemeral-storage": 0}
LITTLE = {"cpu": 100, "memory": 200 * 2**20}  # what a container counts for in scores if it does not say (non_zero.go)
WHEN = "DuringSchedulingIgnoredDuringExecution"  # affinity is required, or preferred


def amounts(thing, *path):
    """Read a resource list: cpu in millicores, all else in units (bytes, devices), without names that do not count."""
    counted = {}  # Upstream: Resource.Add in pkg/scheduler/framework/types.go; it calls all but the first three scalars
    for name, text in pick(thing, dict, *path).items():
        if name in NOTHING or name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name or (
                "/" in name and not name.startswith("requests.")):
            try:
                counted[name] = quantity(str(text), 1000 if name == "cpu" else 1)
            except Malformed as error:
                raise Malformed(f"{'.'.join(path)}.{name}: {error}") from error
    return counted


def add(total, more, sign=1):
    """Add resource amounts to others, in place; or take them away."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + sign * amount


def pod_amounts(spec, overhead, default):
    """Return what a pod requests: max(its containers together, each init container alone) + overhead."""
    total, sidecars, alone = {}, {}, []  # Upstream: PodRequests in k8s.io/component-helpers/resource
    for container in pick(spec, list, "containers", of=dict):
        add(total, default | amounts(container, "resources", "requests"))  # default: for what it does not name
    for container in pick(spec, list, "initContainers", of=dict):
        request = default | amounts(container, "resources", "requests")
        if container.get("restartPolicy") == "Always":  # a sidecar runs on beside all that start after it
            add(total, request)
            add(sidecars, request)
            request = dict(sidecars)
        else:
            add(request, sidecars)
        alone.append(request)
    for request in alone:
        total |= {name: amount for name, amount in request.items() if amount > total.get(name, 0)}
    total |= {name: amount for name, amount in amounts(spec, "resources", "requests").items()  # of the pod as a whole
              if name in ("cpu", "memory") or name.startswith("hugepages-")}
    add(total, overhead)
    return total


class Pod:
    """What the scheduler knows of a pod, read once from the API's JSON. Raises Malformed."""

    def __init__(self, raw):
        self.raw = raw
        spec = self.spec = pick(raw, dict, "spec")
        self.name = pick(raw, str, "metadata", "name")
        self.namespace = pick(raw, str, "metadata", "namespace") or "default"
        self.key = f"{self.namespace}/{self.name}"
        self.uid = pick(raw, str, "metadata", "uid") or self.key
        self.created = pick(raw, str, "metadata", "creationTimestamp")
        self.terminating = bool(pick(raw, str, "metadata", "deletionTimestamp"))
        owners = pick(raw, list, "metadata", "ownerReferences", of=dict)
        self.controller = next(((o.get("kind"), o.get("uid")) for o in owners if o.get("controller")), (None, None))
        self.phase = pick(raw, str, "status", "phase")
        conditions = pick(raw, list, "status", "conditions", of=dict)
        self.pending_message = next((pick(condition, str, "message") for condition in conditions if (
            condition.get("type"), condition.get("status")) == ("PodScheduled", "False")), None)
        self.priority = pick(spec, int, "priority")
        self.scheduler = pick(spec, str, "schedulerName") or "default-scheduler"
        self.gated = bool(pick(spec, list, "schedulingGates"))
        self.node_name = pick(spec, str, "nodeName")
        self.labels = pick(raw, dict, "metadata", "labels", of=str)
        self.annotations = pick(raw, dict, "metadata", "annotations", of=str)
        self.node_selector = pick(spec, dict, "nodeSelector", of=str)
        self.tolerations = pick(spec, list, "tolerations", of=dict)
        self.is_affine = any(pick(spec, dict, "affinity", side) for side in ("podAffinity", "podAntiAffinity"))
        self.volumes = pick(spec, list, "volumes", of=dict)
        self.claims = [  # an ephemeral volume's claim is named after the pod and the volume
            f"{self.namespace}/{self.name}-{pick(volume, str, 'name')}" if "ephemeral" in volume else
            f"{self.namespace}/{pick(volume, str, 'persistentVolumeClaim', 'claimName')}"
            for volume in self.volumes if volume.get("persistentVolumeClaim") or volume.get("ephemeral")]
        self.containers = pick(spec, list, "containers", of=dict)
        self.host_ports = [  # (IP, protocol, port)
            (pick(port, str, "hostIP") or "0.0.0.0", pick(port, str, "protocol") or "TCP", pick(port, int, "hostPort"))
            for container in self.containers for port in pick(container, list, "ports", of=dict)
            if pick(port, int, "hostPort") > 0]
        overhead = amounts(spec, "overhead")
        self.requests = NOTHING | pod_amounts(spec, overhead, {})
        self.nonzero = pod_amounts(spec, overhead, LITTLE)  # for scores, once the pod is on a node
        if "cpu" in overhead:  # before that, upstream counts the overhead's cores, rounded up, as millicores
            overhead["cpu"] = quantity(str(spec["overhead"]["cpu"]))  # (calculatePodResourceRequest)
        self.nonzero_incoming = pod_amounts(spec, overhead, LITTLE)
        self.remembered = {}  # what functions of the pod have returned
        self.record = None  # of a pending pod: its PodRecord


def remembered(function):
    """Have a function of a pod work only once, and its answer stay with the pod."""
    @functools.wraps(function)
    def answer(pod):
        if function not in pod.remembered:
            pod.remembered[function] = function(pod)
        return pod.remembered[function]

    return answer


class Node:
    """A node and the pods on it (kube-scheduler's NodeInfo), read from the API's JSON. Raises Malformed."""

    def __init__(self, raw):
        self.name = pick(raw, str, "metadata", "name")
        self.labels = pick(raw, dict, "metadata", "labels", of=str)
        self.annotations = pick(raw, dict, "metadata", "annotations", of=str)
        self.unschedulable = pick(raw, bool, "spec", "unschedulable")
        self.taints = [tuple(pick(taint, str, part) for part in ("key", "value", "effect"))
                       for taint in pick(raw, list, "spec", "taints", of=dict)]
        self.allocatable = NOTHING | amounts(raw, "status", "allocatable")
        self.max_pods = quantity(str(pick(raw, dict, "status", "allocatable").get("pods") or 0))
        self.images = {name: pick(image, int, "sizeBytes") for image in pick(raw, list, "status", "images", of=dict)
                       for name in pick(image, list, "names", of=str)}
        self.signature = dict(vars(self))  # what tells one state of the node from another
        self.raw = raw
        self.pods = {}  # uid -> Pod
        self.requested, self.nonzero = dict(NOTHING), dict.fromkeys(LITTLE, 0)

    def add(self, pod):
        """Put a pod on the node."""
        self.pods[pod.uid] = pod
        add(self.requested, pod.requests)
        add(self.nonzero, pod.nonzero)

    def remove(self, pod):
        """Take a pod off the node again."""
        del self.pods[pod.uid]
        add(self.requested, pod.requests, -1)
        add(self.nonzero, pod.nonzero, -1)


@dataclass
class Snapshot:
    """The cluster as one pass sees it, with what the pass has placed so far."""

    nodes: dict  # name -> Node
    objects: "Objects"  # resource -> {namespace/name or name: the API's JSON}
    live: bool = False  # whether others will act on what is written: not in a dry run, nor among manifests
    assigned: set = frozenset()  # the uids of the pods that have a node
    changed: bool = True  # whether nodes, pods on them or the Policies differ from those of the last snapshot


class InvalidSelector(ValueError):
    """A selector that kube-scheduler cannot parse; the text is kube-scheduler's."""


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
    """Read an entry of matchExpressions as (key, operator, values), like NewRequirement in k8s.io/apimachinery."""
    key, operator = pick(expression, str, "key"), pick(expression, str, "operator")
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
    return key, operator, values


def satisfies(labels, requirements):
    """Say whether labels meet all the requirements; None stands for those that nothing meets."""
    return requirements is not None and all(
        OPERATORS[operator](labels.get(key), values) for key, operator, values in requirements)


def label_selector(selector):
    """Read a LabelSelector as requirements; {} has none, so all meet it, and null is None. Raises InvalidSelector."""
    if selector is None:
        return None
    labels = [{"key": key, "operator": "In", "values": [value]}
              for key, value in pick(selector, dict, "matchLabels", of=str).items()]
    return [requirement(entry) for entry in labels + pick(selector, list, "matchExpressions", of=dict)]


def with_label_keys(requirements, labels, thing):
    """Add what matchLabelKeys and mismatchLabelKeys stand for: to have the pod's own values, or not to."""
    return None if requirements is None else requirements + [
        (key, operator, [labels[key]])
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in pick(thing, list, field, of=str) if key in labels]


def node_selector_term(term):
    """Read a term as two lists of requirements, on labels and on fields; None if empty. Raises InvalidSelector."""
    on_labels = [requirement(expression) for expression in pick(term, list, "matchExpressions", of=dict)]
    on_fields = [(pick(field, str, "key"), pick(field, str, "operator"), pick(field, list, "values", of=str))
                 for field in pick(term, list, "matchFields", of=dict)]
    for _, operator, values in on_fields:
        if operator not in ("In", "NotIn"):
            raise InvalidSelector(f'"{operator}" is not a valid node field selector operator')
        if len(values) != 1:
            raise InvalidSelector(f"unexpected number of value ({len(values)}) for node field selector operator "
                                  f'"{operator}"')
    return (on_labels, on_fields) if on_labels or on_fields else None


def valid_terms(raws):
    """Read the terms of a node selector, without those that are empty or invalid: these match nothing."""
    terms = []
    for raw in raws:
        try:
            terms.append(node_selector_term(raw))
        except InvalidSelector:
            log.debug("a node selector term is invalid and matches nothing: %s", raw)
    return [term for term in terms if term]


def term_matches(term, node):
    """Say whether a node meets all of a term; the only field is metadata.name."""
    on_labels, on_fields = term
    return satisfies(node.labels, on_labels) and satisfies({"metadata.name": node.name}, on_fields)


# =====================================================================================================================
# 4. Predicates, in the order in which they run, whatever their order in the Policy
# =====================================================================================================================


@predicate("CheckNodeUnschedulable")
def check_node_unschedulable(pod, node):
    """The node is not cordoned, or the pod tolerates that."""
    if node.unschedulable and not tolerates(pod, ("node.kubernetes.io/unschedulable", "", "NoSchedule")):
        yield "node(s) were unschedulable"


@predicate("HostName")
def host_name(pod, node):
    """The pod names no node, or this one."""
    if pod.node_name not in ("", node.name):
        yield "node(s) didn't match the requested hostname"


@predicate("PodFitsHostPorts")
def pod_fits_host_ports(pod, node):
    """No pod there has a host port that this pod wants: number and protocol, on the same IP or where one has all."""
    for ip, *port in pod.host_ports:
        for other in node.pods.values():
            for other_ip, *other_port in other.host_ports:
                if port == other_port and (ip == other_ip or "0.0.0.0" in (ip, other_ip)):
                    yield "node(s) didn't have free ports for the requested pod ports"
                    return


@predicate("MatchNodeSelector")
def match_node_selector(pod, node):
    """The node has the labels of the pod's nodeSelector, and meets a term of its required node affinity."""
    if not wants_node(pod, node):
        yield "node(s) didn't match Pod's node affinity"


def wants_node(pod, node):
    """Say whether a node meets the pod's nodeSelector and required node affinity."""
    terms = required_terms(pod)
    return pod.node_selector.items() <= node.labels.items() and (
        terms is None or any(term_matches(term, node) for term in terms))


@remembered
def required_terms(pod):
    """The terms of the pod's required node affinity, of which one must match; None without such affinity."""
    required = pick(pod.spec, dict, "affinity", "nodeAffinity").get(f"required{WHEN}")
    return None if required is None else valid_terms(pick(required, list, "nodeSelectorTerms", of=dict))


@predicate("PodFitsResources")
def pod_fits_resources(pod, node, arguments):
    """The node has room for one more pod, and free what it requests, but for resources that `arguments` except."""
    if pick(pod.spec, list, "resourceClaims"):  # such devices are not to be had from this scheduler
        yield "cannot allocate all claims"
    if len(node.pods) + 1 > node.max_pods:
        yield "Too many pods"
    if pod.requests != NOTHING:  # else it fits a full node, too; cpu, memory and ephemeral-storage count even if 0
        for name, amount in pod.requests.items():
            if node.allocatable.get(name, 0) < node.requested.get(name, 0) + amount:
                if name not in arguments and name.partition("/")[0] + "/" not in arguments:  # or a group: example.com/
                    yield f"Insufficient {name}"


def exclusive_claim_in_use(pod, nodes, snapshot):
    """Whether a claim of the pod is for one pod at a time (ReadWriteOncePod), and another one has it."""
    exclusive = {key for key in pod.claims if "ReadWriteOncePod" in pick(
        snapshot.objects["persistentvolumeclaims"].get(key, {}), list, "spec", "accessModes")}
    return bool(exclusive) and any(not exclusive.isdisjoint(other.claims) for node in nodes
                                   for other in node.pods.values())


@predicate("NoDiskConflict", metadata=exclusive_claim_in_use)
def no_disk_conflict(pod, node, metadata):
    """No pod there has a network disk that this pod mounts too, unless both mount it read-only (EBS: not even then)."""
    if metadata:
        yield "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
    mine = disks_of(pod)
    for other in node.pods.values():
        theirs = disks_of(other)
        if any(not (mine[disk] and theirs[disk]) for disk in mine.keys() & theirs.keys()):
            yield "node(s) had no available disk"
            return


DISK_IDENTITIES = {
    "gcePersistentDisk": ["pdName"], "awsElasticBlockStore": ["volumeID"], "iscsi": ["iqn"], "rbd": ["image", "pool"]}


@remembered
def disks_of(pod):
    """The pod's network disks: {what identifies one: whether it may be shared}. A Ceph image is one by each monitor."""
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


@predicate("PodToleratesNodeTaints")
def pod_tolerates_node_taints(pod, node):
    """The pod tolerates the node's NoSchedule and NoExecute taints; the first that it does not is the reason."""
    for key, value, _ in hostile_taints(pod, node)[:1]:
        yield f"node(s) had taint {{{key}: {value}}}, that the pod didn't tolerate"


def hostile_taints(pod, node, effects=("NoSchedule", "NoExecute")):
    """Return the node's taints of these effects that the pod does not tolerate."""
    return [taint for taint in node.taints if taint[2] in effects and not tolerates(pod, taint)]


def tolerates(pod, taint):
    """Say whether one of the pod's tolerations covers the taint."""
    key, value, effect = taint
    return any(
        toleration.get("effect") in (None, "", effect)
        and toleration.get("key") in (None, "", key)
        and (toleration.get("operator") == "Exists"
             or toleration.get("operator") in (None, "", "Equal") and (toleration.get("value") or "") == value)
        for toleration in pod.tolerations)


def label_conflicts(arguments):
    """Yield what is wrong with labelsPresence arguments: a label wanted both there and not there."""
    wanted = {}
    for argument in arguments:
        for label in argument.get("labels", []):
            if wanted.setdefault(label, argument.get("presence", False)) != argument.get("presence", False):
                yield f'label "{label}" cannot be wanted both present and absent'


@predicate("CheckNodeLabelPresence", member="labelsPresence", check=label_conflicts,
           argument={"labels": [str], "presence": bool})
def check_node_label_presence(pod, node, arguments):
    """The node has the labels that the Policy wants present, with any value, and none that it wants absent."""
    for argument in arguments:
        if any((label in node.labels) != argument.get("presence", False) for label in argument.get("labels", [])):
            yield "node(s) didn't have the requested labels"
            return


def service_pairs(pod, nodes, snapshot, arguments):
    """The node labels that bind the pod's service: those in its nodeSelector, and the rest from a fellow pod's node."""
    labels = [label for argument in arguments for label in argument.get("labels", [])]
    pairs = {label: pod.node_selector[label] for label in labels if label in pod.node_selector}
    if len(pairs) < len(labels) and services_of(pod, snapshot):
        for node in nodes:
            if any(other.namespace == pod.namespace and pod.labels.items() <= other.labels.items()
                   for other in node.pods.values()):
                return {label: node.labels[label] for label in labels if label in node.labels} | pairs
    return pairs


def services_of(pod, snapshot):
    """Return the selectors of the services that select the pod."""
    selectors = [pick(service, dict, "spec").get("selector") for service in in_namespace(pod, snapshot, "services")]
    return [selector for selector in selectors if selector is not None and selector.items() <= pod.labels.items()]


def in_namespace(pod, snapshot, resource):
    """Return the objects of a resource in the pod's namespace."""
    return [thing for key, thing in snapshot.objects[resource].items() if key.startswith(f"{pod.namespace}/")]


@predicate("CheckServiceAffinity", metadata=service_pairs, member="serviceAffinity", argument={"labels": [str]})
def check_service_affinity(pod, node, metadata):
    """For the labels in the Policy, the node has the values that bind the pod's service."""
    if not metadata.items() <= node.labels.items():
        yield "node(s) didn't match service affinity"


def whole_snapshot(pod, nodes, snapshot):
    """The metadata of rules that follow claims to volumes and classes."""
    return snapshot


def claims_of(pod, snapshot):
    """Yield (namespace/name, claim, its volume) for the pod's claims; a claim or volume that is not there is None."""
    for key in pod.claims:
        claim = snapshot.objects["persistentvolumeclaims"].get(key)
        yield key, claim, claim and snapshot.objects["persistentvolumes"].get(pick(claim, str, "spec", "volumeName"))


def class_of(thing):
    """Return the name of the storage class of a claim or a volume."""
    return pick(thing, str, "metadata", "annotations", "volume.beta.kubernetes.io/storage-class") or pick(
        thing, str, "spec", "storageClassName")


CLOUD_DISKS = {  # provisioner -> (the volume's source, the field that identifies the disk, how many fit on a node)
    "kubernetes.io/aws-ebs": ("awsElasticBlockStore", "volumeID", 39),  # on AWS Nitro: 25
    "kubernetes.io/gce-pd": ("gcePersistentDisk", "pdName", 16),
    "kubernetes.io/azure-disk": ("azureDisk", "diskName", 16),
    "kubernetes.io/cinder": ("cinder", "volumeID", 256),
}
MIGRATABLE = [*CLOUD_DISKS, "kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"]  # of these CSI knows otherwise
SELECTED_NODE = "volume.kubernetes.io/selected-node"
ZONE_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region",
               "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region")
KUBE_MAX_PD_VOLS = int(os.environ["KUBE_MAX_PD_VOLS"]) if os.environ.get("KUBE_MAX_PD_VOLS", "").isdigit() else 0


def attachments(pod, snapshot):
    """Return the (driver, identity) of the cloud disks that the pod has, inline or claimed, and of its CSI volumes."""
    sources, attached = list(pod.volumes), set()
    for key, claim, volume in claims_of(pod, snapshot):
        if volume:
            sources.append(pick(volume, dict, "spec"))
            if pick(volume, dict, "spec", "csi"):
                attached.add(tuple(pick(volume, str, "spec", "csi", part) for part in ("driver", "volumeHandle")))
        elif claim:  # what is yet to be provisioned is known by its claim
            classes = snapshot.objects["storageclasses"]
            provisioner = classes.get(pick(claim, str, "spec", "storageClassName"), {}).get("provisioner")
            if provisioner in CLOUD_DISKS:
                attached.add((provisioner, (key,)))
            provisioner = classes.get(class_of(claim), {}).get("provisioner")  # CSI heeds the annotation, too
            if provisioner and provisioner not in MIGRATABLE:
                attached.add((provisioner, (key,)))
    for driver, (source, name, _) in CLOUD_DISKS.items():
        attached |= {(driver, pick(volume, str, source, name)) for volume in sources if volume.get(source)}
    return attached


def volume_limit(driver, node, snapshot):
    """Return how many volumes of a driver the node can attach, which its CSINode object or its allocatable says."""
    if driver in CLOUD_DISKS:
        instance_type = node.labels.get("beta.kubernetes.io/instance-type") or node.labels.get(
            "node.kubernetes.io/instance-type", "")
        nitro = driver == "kubernetes.io/aws-ebs" and re.search("^[cmr]5.*|t3|z1d", instance_type)
        return node.allocatable.get(driver.replace("kubernetes.io/", "attachable-volumes-"),
                                    KUBE_MAX_PD_VOLS or (25 if nitro else CLOUD_DISKS[driver][-1]))
    for known in pick(snapshot.objects["csinodes"].get(node.name, {}), list, "spec", "drivers", of=dict):
        limit = pick(known, dict, "allocatable").get("count")
        if known.get("name") == driver and limit is not None:
            return limit
    resource = f"attachable-volumes-csi-{driver}"
    if len(resource) >= 63:
        resource = f"attachable-volumes-csi-{driver[:23]}{hashlib.sha1(driver.encode()).hexdigest()[:16]}"
    return node.allocatable.get(resource, math.inf)


def max_volume_count(pod, node, metadata, cloud=None):
    """The node can attach the volumes of its pods and this one, each counted once: a cloud's, or each CSI driver's."""
    if not pod.volumes:
        return
    wanted = {(driver, volume) for driver, volume in attachments(pod, metadata)
              if driver == cloud or not cloud and driver not in CLOUD_DISKS}
    there = set().union(*(attachments(other, metadata) for other in node.pods.values() if wanted and other.volumes))
    # As upstream, of CSI volumes only new ones are held against the node. (plugins/nodevolumelimits/non_csi.go, csi.go)
    for driver in {driver for driver, _ in (wanted if cloud else wanted - there)}:
        if sum(of == driver for of, _ in wanted | there) > volume_limit(driver, node, metadata):
            yield "node(s) exceed max volume count"
            return


for name, cloud in {"MaxEBSVolumeCount": "aws-ebs", "MaxGCEPDVolumeCount": "gce-pd", "MaxCSIVolumeCountPred": None,
                    "MaxAzureDiskVolumeCount": "azure-disk", "MaxCinderVolumeCount": "cinder"}.items():
    predicate(name, metadata=whole_snapshot)(
        functools.partial(max_volume_count, cloud=cloud and f"kubernetes.io/{cloud}"))


def claims_to_bind(pod, nodes, snapshot):
    """Return the volumes of the pod's bound claims; and its claims that wait for the first consumer, smallest first."""
    bound, delayed = [], []
    for key, claim, volume in claims_of(pod, snapshot):
        name = key.partition("/")[2]
        if not claim:
            raise Rejected(f'persistentvolumeclaim "{name}" not found')
        if pick(claim, str, "metadata", "deletionTimestamp"):
            raise Rejected(f'persistentvolumeclaim "{name}" is being deleted')
        has_volume = pick(claim, str, "spec", "volumeName")
        if has_volume and "pv.kubernetes.io/bind-completed" in pick(claim, dict, "metadata", "annotations"):
            bound.append(volume)
        else:
            delayed.append((claim, {} if has_volume else snapshot.objects["storageclasses"].get(class_of(claim), {})))
    if any(storage_class.get("volumeBindingMode") != "WaitForFirstConsumer" for _, storage_class in delayed):
        raise Rejected("pod has unbound immediate PersistentVolumeClaims")
    return bound, sorted(delayed, key=lambda pair: storage(pair[0], "resources", "requests")), snapshot


def storage(thing, *path):
    """Return the bytes that a claim requests or a volume has."""
    return quantity(str(pick(thing, dict, "spec", *path).get("storage") or 0))


def bind_volumes(pod, node, snapshot):
    """Set volumes aside for the pod's claims, or ask for their provisioning; controllers and provisioners follow."""
    _, delayed, _ = claims_to_bind(pod, [node], snapshot)
    if not delayed or not snapshot.live:
        return None
    patches = []
    for claim, volume in find_volumes(delayed, node, snapshot):
        metadata = claim["metadata"]
        if volume and not volume["spec"].get("claimRef"):
            volume["spec"]["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": metadata["uid"],
                                          "namespace": metadata["namespace"], "name": metadata["name"]}
            patches.append(patch(volume, "persistentvolumes", spec={"claimRef": volume["spec"]["claimRef"]},
                                 annotations={"pv.kubernetes.io/bound-by-controller": "yes"}))
        elif not volume and SELECTED_NODE not in pick(metadata, dict, "annotations"):
            # The claim thereby remembers the node: later polls find the pod fit for no other until it is bound.
            patches.append(patch(claim, "persistentvolumeclaims", annotations={SELECTED_NODE: node.name}))
    return patches


def release_volumes(pod, snapshot):
    """Give up the node that unbound claims of the pod remember, since it turned out wrong."""
    claims = [snapshot.objects["persistentvolumeclaims"].get(key) for key in pod.claims] if snapshot.live else []
    return [patch(claim, "persistentvolumeclaims", annotations={SELECTED_NODE: None}) for claim in claims
            if claim and not claim["spec"].get("volumeName")
            and SELECTED_NODE in pick(claim, dict, "metadata", "annotations")]


def patch(thing, resource, annotations, **more):
    """Return the request that changes an object, unless somebody else has changed it meanwhile."""
    metadata = thing["metadata"]
    place = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
    return "PATCH", f"/api/v1/{place}{resource}/{metadata['name']}", {
        "metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": annotations}, **more}


@predicate("CheckVolumeBinding", metadata=claims_to_bind, pre_bind=bind_volumes, unreserve=release_volumes)
def check_volume_binding(pod, node, metadata):
    """The volumes of the pod's bound claims can be reached from the node, and for the others it has or gets volumes."""
    bound, delayed, snapshot = metadata
    for volume in bound:
        if volume is None:
            yield "pvc(s) bound to non-existent pv(s)"
            break
        if not reaches(volume, node):
            yield "node(s) had volume node affinity conflict"
            break
    if find_volumes(delayed, node, snapshot) is None:
        yield "node(s) didn't find available persistent volumes to bind"


def find_volumes(delayed, node, snapshot):
    """Return (claim, volume, or None if one is to be provisioned) pairs; None if the node cannot serve some claim."""
    found, taken = [], set()  # Upstream: plugins/volumebinding, and volume/scheduling/scheduler_binder.go
    for claim, storage_class in delayed:
        selected = pick(claim, dict, "metadata", "annotations").get(SELECTED_NODE)
        volume = None if selected else smallest_volume(claim, node, snapshot, taken)
        if volume:
            taken.add(volume["metadata"]["name"])
        elif selected not in (None, node.name) or not can_provision(storage_class, node):
            return None
        found.append((claim, volume))
    return found


def can_provision(storage_class, node):
    """Say whether the class's provisioner makes volumes for this node."""
    topologies = [pick(term, list, "matchLabelExpressions", of=dict)
                  for term in pick(storage_class, list, "allowedTopologies", of=dict)]
    return pick(storage_class, str, "provisioner") not in ("", "kubernetes.io/no-provisioner") and (
        not topologies or any(term and all(
            node.labels.get(pick(expression, str, "key")) in pick(expression, list, "values", of=str)
            for expression in term) for term in topologies))


def smallest_volume(claim, node, snapshot, taken):
    """Return the smallest free volume that serves the claim on the node, or the one set aside for it, or None."""
    wanted, mine, free = storage(claim, "resources", "requests"), claim["metadata"], []
    mode = pick(claim, str, "spec", "volumeMode") or "Filesystem"
    selector = label_selector(pick(claim, dict, "spec").get("selector") or {})
    for name, volume in snapshot.objects["persistentvolumes"].items():
        owner = pick(volume, dict, "spec", "claimRef")
        if owner and (any(owner.get(part) != mine.get(part) for part in ("name", "namespace"))
                      or owner.get("uid") not in (None, "", mine.get("uid"))):
            continue
        if (name in taken or storage(volume, "capacity") < wanted or pick(volume, str, "metadata", "deletionTimestamp")
                or (pick(volume, str, "spec", "volumeMode") or "Filesystem") != mode
                or class_of(volume) != class_of(claim)):
            continue
        if owner:
            return volume if reaches(volume, node) else None
        if (pick(volume, str, "status", "phase") == "Available" and reaches(volume, node)
                and satisfies(pick(volume, dict, "metadata", "labels"), selector)
                and set(pick(claim, list, "spec", "accessModes")) <= set(pick(volume, list, "spec", "accessModes"))):
            free.append(volume)
    return min(free, key=lambda volume: storage(volume, "capacity"), default=None)


def reaches(volume, node):
    """Say whether a volume can be used on a node, by its nodeAffinity, of which only label expressions count."""
    terms = valid_terms(pick(volume, list, "spec", "nodeAffinity", "required", "nodeSelectorTerms", of=dict))
    return not pick(volume, dict, "spec", "nodeAffinity", "required") or any(
        satisfies(node.labels, on_labels) for on_labels, _ in terms)


@predicate("NoVolumeZoneConflict", metadata=whole_snapshot)
def no_volume_zone_conflict(pod, node, metadata):
    """The zone and region labels of the pod's volumes allow the node's. A claim that leads nowhere is an error."""
    if node.labels.keys().isdisjoint(ZONE_LABELS):
        return
    for key, claim, volume in claims_of(pod, metadata):
        problem = None if volume else dangling(key, claim, metadata)
        if problem:
            raise Unschedulable(f'running "VolumeZone" filter plugin for pod "{pod.name}": {problem}')
        for label in ZONE_LABELS:
            zones = [zone.strip() for zone in pick(volume or {}, dict, "metadata", "labels").get(label, "").split("__")]
            if all(zones) and node.labels.get(label) not in zones:
                yield "node(s) had no available volume zone"
                return


def dangling(key, claim, snapshot):
    """Return what is wrong with a claim that leads to no volume; nothing if it waits for its first consumer."""
    name, class_name = key.partition("/")[2], class_of(claim or {})
    if not claim:
        return f'persistentvolumeclaim "{name}" not found'
    if pick(claim, str, "spec", "volumeName"):
        return f'persistentvolume "{claim["spec"]["volumeName"]}" not found'
    if not class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    if class_name not in snapshot.objects["storageclasses"]:
        return f'StorageClass "{class_name}" claimed by PersistentVolumeClaim "{name}" not found'
    waits = snapshot.objects["storageclasses"][class_name].get("volumeBindingMode") == "WaitForFirstConsumer"
    return None if waits else "PersistentVolume had no name"


class Spread:
    """A topology spread constraint of a pod. Raises InvalidSelector."""

    def __init__(self, pod, raw, owned):
        self.key, self.max_skew = pick(raw, str, "topologyKey"), pick(raw, int, "maxSkew")
        self.requirements = owned or with_label_keys(label_selector(raw.get("labelSelector")), pod.labels, raw)
        self.min_domains = pick(raw, int, "minDomains")  # with fewer, one is taken to be empty
        self.node_affinity = pick(raw, str, "nodeAffinityPolicy")  # unless "Ignore", unwanted nodes do not count
        self.node_taints = pick(raw, str, "nodeTaintsPolicy")  # if "Honor", nodes of hostile taints do not count

    def counts(self, pod, node):
        """Count the pods on a node that matter to this constraint of the pod."""
        return sum(not other.terminating and other.namespace == pod.namespace
                   and satisfies(other.labels, self.requirements) for other in node.pods.values())

    def includes(self, pod, node):
        """Say whether the constraint takes the node into account."""
        return (self.node_affinity == "Ignore" or wants_node(pod, node)) and (
            self.node_taints != "Honor" or not hostile_taints(pod, node))


def spread_constraints(pod, when, stage, snapshot, defaults):
    """Return the pod's constraints with this whenUnsatisfiable, or default ones; an invalid one fails the attempt."""
    raws = pick(pod.spec, list, "topologySpreadConstraints", of=dict)
    chosen = [raw for raw in raws or sum(defaults, []) if raw.get("whenUnsatisfiable") == when]
    try:
        owned = owner_requirements(pod, snapshot) if chosen and not raws else []
        return [Spread(pod, raw, owned) for raw in chosen if raws or owned]
    except InvalidSelector as error:
        raise Unschedulable(f"running {stage} topology spread constraints: {error}") from error


def owner_requirements(pod, snapshot):
    """Return all that the Services and controllers that select the pod require of labels. Upstream: DefaultSelector."""
    requirements = []
    for resource in ("services", "replicationcontrollers", "replicasets", "statefulsets"):
        selectors = [pick(owner, dict, "spec", "selector") for owner in in_namespace(pod, snapshot, resource)]
        if resource in ("services", "replicationcontrollers"):
            selectors = [{"matchLabels": selector} for selector in selectors]
        with contextlib.suppress(InvalidSelector):  # upstream, too, goes on without the whole kind
            selectors = [label_selector(selector) for selector in selectors]
            requirements += sum((selector for selector in selectors if satisfies(pod.labels, selector)), [])
    return requirements


def hard_spread(pod, nodes, snapshot, arguments):
    """The pod's DoNotSchedule constraints, each with its domains {value: matching pods there} and the least number."""
    stage = 'PreFilter plugin "PodTopologySpread": obtaining pod\'s hard'
    constraints = spread_constraints(pod, "DoNotSchedule", stage, snapshot, arguments)
    keys, spread = {constraint.key for constraint in constraints}, []
    for constraint in constraints:
        key = constraint.key
        eligible = [node for node in nodes if keys <= node.labels.keys() and constraint.includes(pod, node)]
        domains = {node.labels[key]: 0 for node in eligible}
        # In a domain, 1.20 counts the pods on all nodes, later versions, which have these policies, on eligible ones.
        for node in eligible if constraint.node_affinity or constraint.node_taints else nodes:
            if node.labels.get(key) in domains:
                domains[node.labels[key]] += constraint.counts(pod, node)
        least = min(domains.values(), default=0) if len(domains) >= constraint.min_domains else 0
        spread.append((constraint, domains, least))
    return spread


@predicate("EvenPodsSpread", metadata=hard_spread)
def even_pods_spread(pod, node, metadata):
    """With the pod, no topology domain has more than maxSkew matching pods more than the emptiest one."""
    for constraint, domains, least in metadata:
        if constraint.key not in node.labels:
            yield "node(s) didn't match pod topology spread constraints (missing required label)"
            return
        here = domains.get(node.labels[constraint.key], 0) + satisfies(pod.labels, constraint.requirements)
        if here - least > constraint.max_skew:
            yield "node(s) didn't match pod topology spread constraints"
            return


class AffinityTerm:
    """A term of inter-pod affinity or anti-affinity of a pod. Raises InvalidSelector."""

    def __init__(self, pod, raw):
        self.weight = pick(raw, int, "weight")
        term = raw.get("podAffinityTerm") or raw
        self.key = pick(term, str, "topologyKey")
        self.requirements = with_label_keys(label_selector(term.get("labelSelector")), pod.labels, term)
        self.namespaces = pick(term, list, "namespaces", of=str)
        self.namespace_selector = label_selector(term.get("namespaceSelector"))
        if not self.namespaces and self.namespace_selector is None:
            self.namespaces = [pod.namespace]

    def selects(self, pod, snapshot):
        """Say whether the term means this pod."""
        if not satisfies(pod.labels, self.requirements):
            return False
        if pod.namespace in self.namespaces:
            return True
        namespace = snapshot.objects["namespaces"].get(pod.namespace, {}) if self.namespace_selector else {}
        return satisfies(pick(namespace, dict, "metadata", "labels"), self.namespace_selector)


@remembered
def affinity_terms(pod):
    """The pod's {upstream's name of a list: its affinity terms, none if one is invalid}; and what is invalid."""
    lists, problem = {}, None
    for side in ("Affinity", "AntiAffinity"):
        for when in ("required", "preferred"):
            name = f"{when}{side}Terms"
            try:
                lists[name] = [AffinityTerm(pod, term) for term in pick(
                    pod.spec, list, "affinity", f"pod{side}", f"{when}{WHEN}", of=dict)]
            except InvalidSelector as error:
                lists[name], problem = [], f"parsing pod: {name}: {error}"
    return lists, problem


def affine_domains(pod, nodes, snapshot):
    """The (topology key, value) domains with pods that the pod must be with, must not be with, and that repel it."""
    own, problem = affinity_terms(pod)
    if problem:
        raise Rejected(problem)
    wanted, unwanted = own["requiredAffinityTerms"], own["requiredAntiAffinityTerms"]
    together, apart, repelling = set(), set(), set()
    for node in nodes:
        for other in [other for other in node.pods.values() if wanted or unwanted or other.is_affine]:
            hostile = affinity_terms(other)[0]["requiredAntiAffinityTerms"]
            for domains, terms in (
                    (together, wanted if all(term.selects(other, snapshot) for term in wanted) else []),
                    (apart, [term for term in unwanted if term.selects(other, snapshot)]),
                    (repelling, [term for term in hostile if term.selects(pod, snapshot)])):
                domains.update((term.key, node.labels[term.key]) for term in terms if term.key in node.labels)
    # The first pod of a group that wants to be together has nobody to join, and may go anywhere.
    first = not together and all(term.selects(pod, snapshot) for term in wanted)
    return wanted, together, first, apart, repelling


@predicate("MatchInterPodAffinity", metadata=affine_domains)
def match_inter_pod_affinity(pod, node, metadata):
    """In the node's domains are the pods that the pod must be with, none that it must not, and none that repel it."""
    wanted, together, first, apart, repelling = metadata
    here = node.labels.items()
    if not all(term.key in node.labels and (first or (term.key, node.labels[term.key]) in together) for term in wanted):
        reason = "node(s) didn't match pod affinity rules"
    elif not apart.isdisjoint(here):
        reason = "node(s) didn't match pod anti-affinity rules"
    elif not repelling.isdisjoint(here):
        reason = "node(s) didn't satisfy existing pods anti-affinity rules"
    else:
        return
    yield from ("node(s) didn't match pod affinity/anti-affinity", reason)


# =====================================================================================================================
# 5. Priorities
# =====================================================================================================================


CPU_AND_MEMORY = {"cpu": 1, "memory": 1}  # resource -> weight
SHAPE = [{"utilization": range(101), "score": range(11)}]
HOSTNAME = "kubernetes.io/hostname"
DEFAULT_SPREAD = [{"topologyKey": HOSTNAME, "maxSkew": 3, "whenUnsatisfiable": "ScheduleAnyway"},
                  {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 5, "whenUnsatisfiable": "ScheduleAnyway"}]
SEED = None  # of what is left to chance


def in_range(rule, points):
    """Return the scores that a priority has given. Raises Unschedulable if one is not from 0 to 100."""
    for score in points.values():
        if not 0 <= score <= 100:
            raise Unschedulable(f'applying score defaultWeights on Score plugins: plugin "{rule.title}" returns an '
                                f"invalid score {score}, it should in the range of [0, 100] after normalizing")
    return points


def normalize(points):
    """Stretch scores so that the highest becomes 100. Upstream: DefaultNormalizeScore in plugins/helper."""
    highest = max(points.values())
    return {name: 100 * score // highest if highest else 0 for name, score in points.items()}


def normalize_reversed(points):
    """Stretch scores so that 0 becomes 100, and the highest 0."""
    return {name: 100 - score for name, score in normalize(points).items()}


def usage(pod, node, weights=CPU_AND_MEMORY):
    """Yield for each resource what would be requested with the pod there, what there is, and the resource's weight."""
    for name, weight in weights.items():
        there, more = (node.nonzero, pod.nonzero_incoming) if name in LITTLE else (node.requested, pod.requests)
        yield there.get(name, 0) + more.get(name, 0), node.allocatable.get(name, 0), weight


def mean_share(pod, node, weights, part):
    """Return the weighted mean of part(used, there) in percent of what there is; what is short counts 0."""
    return sum(100 * part(used, there) // there * weight if there >= used and there else 0
               for used, there, weight in usage(pod, node, weights)) // sum(weights.values())


@priority("LeastRequestedPriority", arguments=[CPU_AND_MEMORY])
def least_requested(pod, node, arguments):
    """The share of cpu and memory that stays free, in percent, averaged by {resource: weight}: spreads the load."""
    return mean_share(pod, node, arguments[0], lambda used, there: there - used)


@priority("MostRequestedPriority", arguments=[CPU_AND_MEMORY])
def most_requested(pod, node, arguments):
    """The share of cpu and memory that is then requested, in percent, averaged: fills node after node."""
    return mean_share(pod, node, arguments[0], lambda used, there: used)


@priority("BalancedResourceAllocation")
def balanced_resource_allocation(pod, node):
    """100 where cpu and memory are used to the same degree, less the more they differ; 0 where one is used up."""
    cpu, memory = (used / there if there else 1.0 for used, there, _ in usage(pod, node))
    return 0 if cpu >= 1 or memory >= 1 else int((1 - abs(cpu - memory)) * 100)


def shape_problems(arguments):
    """Yield what is wrong with requestedToCapacityRatioArguments. Upstream: ValidateRequestedToCapacityRatioArgs."""
    points = [point.get("utilization", 0) for argument in arguments for point in argument.get("shape", [])]
    if len(arguments) != 1 or not points:
        yield "needs requestedToCapacityRatioArguments with at least one point in shape, in this entry alone"
    elif any(left >= right for left, right in zip(points, points[1:])):
        yield "the utilization values of shape must ascend"
    elif any("weight" not in resource for resource in arguments[0].get("resources", [])):
        yield "each of the resources needs a weight"


@priority("RequestedToCapacityRatio", member="requestedToCapacityRatioArguments", check=shape_problems,
          argument={"shape": SHAPE, "resources": [{"name": str, "weight": WEIGHT}]})
def requested_to_capacity_ratio(pod, node, arguments):
    """The weighted mean, over the Policy's resources, of a function of their utilization that `shape` draws."""
    shape = [(point.get("utilization", 0), 10 * point.get("score", 0)) for point in arguments[0]["shape"]]
    weights = {resource.get("name", ""): resource["weight"] for resource in arguments[0].get("resources", [])}
    score_sum = weight_sum = 0
    for used, there, weight in usage(pod, node, weights):
        score = along(shape, 100 - (there - used) * 100 // there if there else 100)
        if score > 0:  # else the resource is left out of the mean
            score_sum, weight_sum = score_sum + score * weight, weight_sum + weight
    return (2 * score_sum + weight_sum) // (2 * weight_sum) if weight_sum else 0  # rounded, halves up


def along(shape, x):
    """Return the value at x of the broken line through the points of shape, truncated toward zero."""
    for i, (right, score) in enumerate(shape):
        if x <= right:
            left, before = shape[i - 1] if i else (right - 1, score)
            return before + int((score - before) * (x - left) / (right - left))
    return shape[-1][1]


@priority("NodeAffinityPriority", reduce=normalize)
def node_affinity(pod, node):
    """The summed weights of the preferred node affinity terms that the node meets."""
    return sum(weight for weight, term in preferred_terms(pod) if term_matches(term, node))


@remembered
def preferred_terms(pod):
    """The (weight, term) pairs of the pod's preferred node affinity. Raises Unschedulable, with all that is wrong."""
    terms, problems = [], {}
    for preferred in pick(pod.spec, list, "affinity", "nodeAffinity", f"preferred{WHEN}", of=dict):
        weight = pick(preferred, int, "weight")
        try:
            terms.append((weight, weight and node_selector_term(pick(preferred, dict, "preference"))))
        except InvalidSelector as error:
            problems[str(error)] = None  # once, as upstream's Aggregate does
    if problems:
        problem = f"[{', '.join(problems)}]" if len(problems) > 1 else ", ".join(problems)
        raise Unschedulable(f'running Score plugins: plugin "NodeAffinity" failed with: {problem}')
    return [(weight, term) for weight, term in terms if term]


@priority("TaintTolerationPriority", reduce=normalize_reversed)
def taint_toleration(pod, node):
    """The number of PreferNoSchedule taints that the pod does not tolerate; the fewer, the better."""
    return len(hostile_taints(pod, node, ["PreferNoSchedule"]))


@remembered
def images_of(pod):
    """The images of the pod's containers as nodes name them: with a tag. Upstream: normalizedImageName."""
    images = [pick(container, str, "image") for container in pod.containers]
    return [image if image.rfind(":") > image.rfind("/") else f"{image}:latest" for image in images]


def image_shares(pod, nodes, snapshot):
    """For each image of the pod: its size in bytes times the share of all nodes that have it, lest pods crowd."""
    shares = {}
    for image in images_of(pod):
        sizes = [node.images[image] for node in snapshot.nodes.values() if image in node.images]
        shares[image] = int(sizes[0] * (len(sizes) / len(snapshot.nodes))) if sizes else 0
    return shares


@priority("ImageLocalityPriority", metadata=image_shares)
def image_locality(pod, node, metadata):
    """How many bytes of the pod's images are there already, from 23 MiB (0) to 1000 MiB a container (100)."""
    lowest, highest = 23 * 2**20, 1000 * 2**20 * len(pod.containers)
    there = sum(metadata[image] for image in images_of(pod) if image in node.images)
    return 100 * (min(max(there, lowest), highest) - lowest) // (highest - lowest)


@priority("NodePreferAvoidPodsPriority")
def node_prefer_avoid_pods(pod, node):
    """0 where the node's preferAvoidPods annotation names the pod's ReplicationController or ReplicaSet, else 100."""
    annotation = node.annotations.get("scheduler.alpha.kubernetes.io/preferAvoidPods")
    if not annotation or pod.controller[0] not in ("ReplicationController", "ReplicaSet"):
        return 100
    try:
        avoided = [pick(avoid, dict, "podSignature", "podController")
                   for avoid in pick(json.loads(annotation), list, "preferAvoidPods", of=dict)]
        return 0 if pod.controller in [(owner.get("kind"), owner.get("uid")) for owner in avoided] else 100
    except ValueError:  # an annotation that cannot be read avoids nobody
        return 100


def label_preference_problems(arguments):
    """Yield what is wrong with labelPreference arguments."""
    yield from needs_argument(arguments)
    yield from label_conflicts([{**argument, "labels": [argument.get("label", "")]} for argument in arguments])


@priority("NodeLabel", member="labelPreference", check=label_preference_problems,
          argument={"label": str, "presence": bool})
def node_label(pod, node, arguments):
    """The share of the Policy's labelPreference entries that the node meets: the label is there, or is not."""
    met = sum((argument.get("label", "") in node.labels) == argument.get("presence", False) for argument in arguments)
    return 100 * met // len(arguments)


def soft_spread(pod, nodes, snapshot, arguments):
    """For each node, how many pods the pod's ScheduleAnyway constraints count around it; None if it lacks a key."""
    stage = 'PreScore plugin "PodTopologySpread": calculating preScoreState: obtaining pod\'s soft'
    constraints = spread_constraints(pod, "ScheduleAnyway", stage, snapshot, arguments)
    keys = {constraint.key for constraint in constraints}
    complete = [node for node in snapshot.nodes.values() if keys <= node.labels.keys()]
    scores = {node.name: 0.0 for node in nodes if keys <= node.labels.keys()}
    for constraint in constraints:
        alone = constraint.key == HOSTNAME  # every node counts for itself, whatever the pod wants
        domains = {node.name: node.name if alone else node.labels[constraint.key] for node in complete}
        counts = collections.Counter()
        for node in complete:
            if alone or constraint.includes(pod, node):
                counts[domains[node.name]] += constraint.counts(pod, node)
        weight = math.log(len({domains[name] for name in scores}) + 2)  # many domains weigh more
        for name in scores:
            scores[name] += counts[domains[name]] * weight + (constraint.max_skew - 1)
    return {node.name: int(scores[node.name]) if node.name in scores else None for node in nodes}


def normalize_spread(points):
    """Turn counts around, so that the fewest pods make 100; a node that is out gets 0."""
    counts = [count for count in points.values() if count is not None]
    least, most = min(counts, default=0), max(counts, default=0)
    return {name: 0 if count is None else 100 * (most + least - count) // most if most else 100
            for name, count in points.items()}


@priority("SelectorSpreadPriority", metadata=soft_spread, reduce=normalize_spread, arguments=[DEFAULT_SPREAD])
@priority("EvenPodsSpreadPriority", metadata=soft_spread, reduce=normalize_spread)
def even_pods_spread_priority(pod, node, metadata):
    """How many pods are around that the ScheduleAnyway constraints count, the pod's or default ones; few are best."""
    return metadata[node.name]


def needs_argument(arguments):
    """Yield what is wrong if a rule that lives by its arguments has none."""
    if not arguments:
        yield "needs an argument; in a Policy, under a name of your own"


def service_spread(pod, nodes, snapshot, arguments):
    """Score the nodes by the share of the service's pods that are not on nodes with the same value of the label."""
    selector = next(iter(services_of(pod, snapshot)), {})
    counts = collections.Counter(
        node.name for node in nodes for other in node.pods.values()
        if selector and selector.items() <= other.labels.items() and other.namespace == pod.namespace
        and not other.terminating)
    total, scores = counts.total(), {node.name: 0.0 for node in nodes}
    for argument in arguments:
        groups, label = collections.Counter(), argument.get("label", "")
        for node in nodes:
            groups[node.labels.get(label)] += counts[node.name]
        for node in nodes:
            if label in node.labels:
                share = 100 * ((total - groups[node.labels[label]]) / total) if total else 100.0
                scores[node.name] += share / len(arguments)
    return {name: int(score) for name, score in scores.items()}


@priority("ServiceAffinity", metadata=service_spread, member="serviceAntiAffinity", argument={"label": str},
          check=needs_argument)
def service_affinity(pod, node, metadata):
    """The share of the service's pods that are elsewhere, by the values of the Policy's labels."""
    return metadata[node.name]


def affine_scores(pod, nodes, snapshot, arguments):
    """For each (topology key, value) domain, the weights of the terms that draw the pod there, or push it away."""
    own, problem = affinity_terms(pod)
    if problem:
        raise Unschedulable(f'running PreScore plugin "InterPodAffinity": {problem}')
    scores, all_count = collections.Counter(), own["preferredAffinityTerms"] or own["preferredAntiAffinityTerms"]
    for node in snapshot.nodes.values():
        for other in [other for other in node.pods.values() if all_count or other.is_affine]:
            theirs, _ = affinity_terms(other)
            for terms, selected, weight in (
                    (own["preferredAffinityTerms"], other, 1), (own["preferredAntiAffinityTerms"], other, -1),
                    (theirs["preferredAffinityTerms"], pod, 1), (theirs["preferredAntiAffinityTerms"], pod, -1),
                    (theirs["requiredAffinityTerms"], pod, arguments[0])):  # hardPodAffinitySymmetricWeight
                for term in terms:
                    if term.key in node.labels and term.selects(selected, snapshot):
                        scores[term.key, node.labels[term.key]] += weight * (term.weight or 1)
    return scores


def normalize_affinity(points):
    """Stretch scores from the lowest (or 0) to the highest (or 0) to 0 to 100."""
    low, high = min(0, *points.values()), max(0, *points.values())
    return {name: int(100 * ((score - low) / (high - low))) if high > low else 0 for name, score in points.items()}


@priority("InterPodAffinityPriority", metadata=affine_scores, reduce=normalize_affinity)
def inter_pod_affinity(pod, node, metadata):
    """The summed weights of the preferences for and against the domains that the node is in."""
    return sum(metadata[pair] for pair in node.labels.items())


def dice(*names):
    """Return what chance is left to: with --seed, the same for the same pod (and node), so that it can be replayed."""
    return random if SEED is None else random.Random(f"{SEED} {' '.join(names)}")


@priority("RandomPriority")
def random_priority(pod, node):
    """Any score: the tutorials' random scheduler as a priority of ours."""
    return dice(pod.key, node.name).randint(0, 100)


# =====================================================================================================================
# 6. From the decision to the binding: the other extension points of the scheduling framework
# =====================================================================================================================

#   pre_enqueue(pod)                    returns why the pod is not ready to be tried, or None
#   queue_sort(pod)                     returns a key: pods with lower ones are tried first
#   metadata, function, reduce          PreFilter and Filter; or PreScore, Score and NormalizeScore
#   post_filter(pod, failed, snapshot)  no node fits: returns the name of one that is to be nominated, or None
#   reserve(pod, node, snapshot)        takes note that the pod goes to the node; may raise Unschedulable
#   unreserve(pod, snapshot)            forgets that, even if there is nothing to forget; returns requests, or None
#   permit(pod, node, snapshot)         None approves, Unschedulable denies; seconds: ask again each poll, for so long
#   pre_bind(pod, node, snapshot)       returns None; or requests, and is asked again in the poll after these were sent
#   bind(pod, node_name)                binds the pod and returns True; else the next is asked, and at last the script
#   post_bind(pod, node_name)           the pod is bound
#
# They are options of the decorators. A request is (method, path, body). bind and post_bind run in threads of their own.


@dataclass
class Decision:
    """What was decided about one pod, and all that it was decided from."""

    pod: Pod
    policy: Policy
    node: str = None  # the name of the chosen node
    failed: dict = field(default_factory=dict)  # node -> predicate -> the reasons why it does not fit
    raw: dict = field(default_factory=dict)  # priority -> node -> the score as the rule gave it
    scores: dict = field(default_factory=dict)  # priority -> node -> score, 0 to 100, x weight
    total: dict = field(default_factory=dict)  # node that fits -> the sum of its scores
    message: str = None  # without a node: why, in kube-scheduler's words
    held: bool = False  # whether a rule does not permit the binding yet
    requests: list = None  # what has to be sent, and to take effect, before the pod can be bound
    since: float = field(default_factory=time.monotonic)

    @property
    def feasible(self):
        """The names of the nodes that fit."""
        return list(self.total)


def fit_error(failed):
    """Sum the reasons up like kube-scheduler's FitError: "0/3 nodes are available: 1 Insufficient cpu, 2 ...."."""
    counts = collections.Counter(reason for against in failed.values() for reasons in against.values()
                                 for reason in reasons)
    return f"0/{len(failed)} nodes are available: {', '.join(sorted(f'{n} {why}' for why, n in counts.items()))}."


def give_up(decision, error):
    """Turn the decision into one to leave the pod pending. What nobody expected of a rule fails this pod only."""
    if isinstance(error, ApiError) and error.trouble:
        raise error
    decision.node, decision.held, decision.message = None, False, str(error)
    if not isinstance(error, (Unschedulable, Malformed, ApiError)):
        decision.message = broken(error)
        log.debug("%s", decision.pod.key, exc_info=error)


def broken(error):
    """Say in a line what nobody expected of a rule."""
    return f"{type(error).__name__} in a rule: {one_line(error)}"


def ready(pod, policy):
    """Say whether the pod is to be tried at all."""
    if pod.terminating or pod.gated or pod.phase in ("Succeeded", "Failed"):
        return False
    try:
        return not any(hook(pod) for hook in policy.hooks("pre_enqueue"))
    except Exception as error:
        warn_once(f"{pod.key} is not tried: {broken(error)}")
        return False


def assume(decision, snapshot):
    """Put the pod on its node, with the consent of the rules; where one refuses, the pod is to stay pending after all.

    The rules that reserve are asked once. A pod that is held is asked about again, by those that permit, in each pass.
    """
    if decision.node is None:
        return
    pod, policy, node = decision.pod, decision.policy, snapshot.nodes.get(decision.node)
    try:
        if not node:
            raise Unschedulable(f"node {decision.node} has gone")
        if pod.uid not in node.pods:
            node.add(pod)
            for hook in policy.hooks("reserve"):
                hook(pod, node, snapshot)
        waits = [seconds for hook in policy.hooks("permit") if (seconds := hook(pod, node, snapshot))]
        if waits and time.monotonic() - decision.since >= min(waits):
            raise Unschedulable(f'pod "{pod.name}" rejected while waiting on permit: rejected due to timeout after '
                                f"waiting {min(waits):g}s")
        decision.held = bool(waits)
        if not waits:
            wanted = [requests for hook in policy.hooks("pre_bind")
                      if (requests := hook(pod, node, snapshot)) is not None]
            decision.requests = sum(wanted, []) if wanted else None
    except Exception as error:
        if node:
            node.remove(pod)
        give_up(decision, error)


def nominate(decision, snapshot):
    """Have the rules make room for a pod that fits nowhere. Return the node where one has, or None."""
    try:
        if decision.failed and len(decision.failed) == len(snapshot.nodes):
            made = (hook(decision.pod, decision.failed, snapshot) for hook in decision.policy.hooks("post_filter"))
            return next(filter(None, made), None)
    except Exception as error:
        warn_once(f"{decision.pod.key}: {broken(error)}")


# =====================================================================================================================
# 7. KubeSchedulerConfiguration: what a Policy is called today
# =====================================================================================================================


PLUGINS = {  # plugin -> its predicate and its priority
    "NodeUnschedulable": ("CheckNodeUnschedulable", None), "NodeName": ("HostName", None),
    "TaintToleration": ("PodToleratesNodeTaints", "TaintTolerationPriority"),
    "NodeAffinity": ("MatchNodeSelector", "NodeAffinityPriority"), "NodePorts": ("PodFitsHostPorts", None),
    "NodeResourcesFit": ("PodFitsResources", "LeastRequestedPriority"), "VolumeRestrictions": ("NoDiskConflict", None),
    "EBSLimits": ("MaxEBSVolumeCount", None), "GCEPDLimits": ("MaxGCEPDVolumeCount", None),
    "NodeVolumeLimits": ("MaxCSIVolumeCountPred", None), "AzureDiskLimits": ("MaxAzureDiskVolumeCount", None),
    "VolumeBinding": ("CheckVolumeBinding", None), "VolumeZone": ("NoVolumeZoneConflict", None),
    "PodTopologySpread": ("EvenPodsSpread", "SelectorSpreadPriority"),
    "InterPodAffinity": ("MatchInterPodAffinity", "InterPodAffinityPriority"),
    "NodeResourcesBalancedAllocation": (None, "BalancedResourceAllocation"),
    "ImageLocality": (None, "ImageLocalityPriority"), "NodePreferAvoidPods": (None, "NodePreferAvoidPodsPriority"),
    "CinderLimits": ("MaxCinderVolumeCount", None),
    "PrioritySort": (None, None), "SchedulingGates": (None, None),  # the script does as these three do
    "DefaultBinder": (None, None), "DefaultPreemption": (None, None),  # ... and it preempts nobody
}
# The plugins that run by default, with their weights. Upstream: getDefaultPlugins in apis/config/v1.
DEFAULT_PLUGINS = {plugin: 1 for plugin in PLUGINS if plugin not in ("NodePreferAvoidPods", "CinderLimits")} | {
    "TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2}
STRATEGIES = {"LeastAllocated": "LeastRequestedPriority", "MostAllocated": "MostRequestedPriority",
              "RequestedToCapacityRatio": "RequestedToCapacityRatio"}  # of NodeResourcesFit: its priority
CONFIGURATION_VERSION = "kubescheduler.config.k8s.io/v1"
CONFIGURATION = {
    "kind": str, "apiVersion": str,
    "profiles": [{"schedulerName": str, "pluginConfig": [{"name": str, "args": dict}], "percentageOfNodesToScore": int,
                  "plugins": dict.fromkeys(
                      [*HOOKS.values(), "preFilter", "filter", "preScore", "score", "multiPoint"],
                      dict.fromkeys(["enabled", "disabled"], [{"name": str, "weight": range(2**31)}]))}],
    "leaderElection": {"leaderElect": bool, "leaseDuration": str, "renewDeadline": str, "retryPeriod": str,
                       "resourceLock": str, "resourceName": str, "resourceNamespace": str},
    "extenders": [dict], "clientConnection": dict, "parallelism": int, "percentageOfNodesToScore": int,
    "podInitialBackoffSeconds": int, "podMaxBackoffSeconds": int, "enableProfiling": bool,
    "enableContentionProfiling": bool, "delayCacheUntilActive": bool,
}
PLUGIN_ARGUMENTS = {  # what changes nothing here is read over
    "NodeAffinity": {},  # addedAffinity cannot be had here
    "NodeResourcesFit": {"ignoredResources": [str], "ignoredResourceGroups": [str], "scoringStrategy": {
        "type": {*STRATEGIES}, "resources": [{"name": str, "weight": range(1, 101)}],
        "requestedToCapacityRatio": {"shape": SHAPE}}},
    "InterPodAffinity": {"hardPodAffinityWeight": range(101)},
    "PodTopologySpread": {"defaultingType": {"List", "System"}, "defaultConstraints": [{
        "maxSkew": WEIGHT, "topologyKey": str, "whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"}}]},
    "NodeResourcesBalancedAllocation": {"resources": [{"name": {"cpu", "memory"}, "weight": range(1, 2)}]},
}
ELECTION = {"leaseDuration": 15, "renewDeadline": 10, "retryPeriod": 2}  # seconds, as kube-scheduler's


def read_configuration(document, scheduler_name):
    """Return {schedulerName: Policy}; a single profile without a name gets `scheduler_name`. Raises PolicyError."""
    if document.get("apiVersion") != CONFIGURATION_VERSION:
        raise PolicyError(f'apiVersion "{document.get("apiVersion")}": write {CONFIGURATION_VERSION}')
    problems, configs, policies = [], [], {}
    body = decode(document, CONFIGURATION, "", problems)
    for i, config in enumerate(body.get("extenders", [])):  # a Policy has nanoseconds, and writes enableHttps
        config = {"enableHttps" if name == "enableHTTPS" else name: value for name, value in config.items()}
        config["httpTimeout"] = int(seconds_in(config, "httpTimeout", f"extenders[{i}]", problems) * 10**9)
        configs.append(decode(config, EXTENDER, f"extenders[{i}]", problems))
    extenders = extenders_of(configs, problems)
    election = body.get("leaderElection", {})
    for name, default in ELECTION.items():
        election[name] = seconds_in(election, name, "leaderElection", problems) or default
    if not election["leaseDuration"] > election["renewDeadline"] > election["retryPeriod"]:
        problems.append("leaderElection: expected leaseDuration > renewDeadline > retryPeriod")
    profiles = body.get("profiles") or [{}]
    for i, profile in enumerate(profiles):
        name = profile.get("schedulerName") or (scheduler_name if len(profiles) == 1 else "")
        if not name or name in policies:
            problems.append(f"profiles[{i}].schedulerName: each profile needs one of its own")
        policies[name] = read_profile(profile, f"profiles[{i}]", problems)
        policies[name].extenders, policies[name].election = extenders, election
    if problems:
        raise PolicyError(*problems)
    return policies


def seconds_in(thing, name, place, problems):
    """Return a field with a duration such as 15s, 1m30s or 500ms in seconds, 0 if it is not there."""
    text = thing.get(name, "")
    parts = re.findall(r"([0-9]{1,9}(?:\.[0-9]{0,9})?)(ms|s|m|h)", str(text))
    if "".join(map("".join, parts)) != text:
        problems.append(f'{place}.{name}: {json.dumps(text, default=str)[:60]} is not a duration, such as 15s or 1m30s')
    return sum(float(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit] for number, unit in parts)


def read_profile(profile, place, problems):
    """Return a profile as a Policy; append what is wrong with it."""
    plugins, arguments = profile.get("plugins", {}), plugin_arguments(profile, place, problems)
    problems += plugin_problems(plugins, f"{place}.plugins")

    def rules_at(points, catalogue, which):
        """Return the rules of the plugins that are enabled at some points, each with those hooks that are enabled."""
        uses, settings = [], {}
        for point in points:
            for plugin, weight in enabled(point, plugins).items():
                args = arguments.get(plugin, {})
                name = rules_of(plugin, args)[which]
                if name in catalogue:
                    rule = catalogue[name]
                    rule = replace(rule, hooks={hook: function for hook, function in rule.hooks.items()
                                                if plugin in enabled(HOOKS[hook], plugins)})
                    uses.append(Use(rule, name, f"{place}.plugins.{point}: {plugin}", weight or 1))
                    settings[name] = rule_arguments(name, args)
        return set_up(uses, settings, problems)

    predicates, priorities = rules_at(["filter"], PREDICATES, 0), rules_at(["score"], PRIORITIES, 1)
    # Of the user's own rules, some neither filter nor score here, but have other extension points.
    known = {name for names in PLUGINS.values() for name in names} | {rule.name for rule in predicates + priorities}
    others = {name: rule for name, rule in (PRIORITIES | PREDICATES).items() if name not in known}
    return Policy(predicates, priorities, others=rules_at(HOOKS.values(), others, 0))


def rules_of(plugin, args):
    """Return the names of a plugin's predicate and priority. A rule of the user's own is a plugin of that name."""
    filters, scores = PLUGINS.get(plugin, (plugin, plugin))
    if plugin == "NodeResourcesFit":
        scores = STRATEGIES[args.get("scoringStrategy", {}).get("type") or "LeastAllocated"]
    return filters, scores


def rule_arguments(rule, args):
    """Return the arguments of a rule by those of its plugin."""
    if rule == "PodFitsResources":
        return args.get("ignoredResources", []) + [f"{group}/" for group in args.get("ignoredResourceGroups", [])]
    if rule in ("EvenPodsSpread", "SelectorSpreadPriority"):
        system = [] if args.get("defaultingType") == "List" else DEFAULT_SPREAD
        return [args.get("defaultConstraints") or system]
    if rule == "InterPodAffinityPriority":
        return [args.get("hardPodAffinityWeight", 1)]
    if rule in STRATEGIES.values():
        strategy = args.get("scoringStrategy", {})
        resources = strategy.get("resources") or [{"name": "cpu"}, {"name": "memory"}]
        if rule == "RequestedToCapacityRatio":
            return [{**strategy.get("requestedToCapacityRatio", {}),
                     "resources": [{"weight": 1, **resource} for resource in resources]}]
        return [{resource.get("name", ""): resource.get("weight", 1) for resource in resources}]
    return [args] if args else []


def plugin_arguments(profile, place, problems):
    """Return {plugin: its arguments}; append what is wrong with them."""
    arguments = {}
    for i, config in enumerate(profile.get("pluginConfig", [])):
        name, where = config.get("name", ""), f"{place}.pluginConfig[{i}]"
        rule = PREDICATES.get(name) or PRIORITIES.get(name)
        fields = rule.argument if rule and rule.argument else PLUGIN_ARGUMENTS.get(name)
        args = {key: value for key, value in config.get("args", {}).items() if key not in ("kind", "apiVersion")}
        if name in arguments:
            problems.append(f'{where}: there are arguments for "{name}" already')
        elif fields is not None:
            arguments[name] = decode(args, fields, f"{where}.args", problems)
            if any(len(constraint) < 3 for constraint in arguments[name].get("defaultConstraints", [])):
                problems.append(f"{where}.args.defaultConstraints: needs maxSkew, topologyKey and whenUnsatisfiable")
    return arguments


def plugin_problems(plugins, place):
    """Yield what is wrong with the plugins that a profile enables."""
    known = [*PLUGINS, *PREDICATES, *PRIORITIES]
    for point, plugin_set in plugins.items():
        for i, entry in enumerate(plugin_set.get("enabled", [])):
            name, where = entry.get("name", ""), f"{place}.{point}.enabled[{i}]"
            filters, scores = rules_of(name, {})
            if name not in known:
                hint = did_you_mean(name, known) or "; is a file missing in --plugins?"
                yield f'{where}: unknown plugin "{name}"{hint}'
            elif point == "filter" and filters not in PREDICATES or point == "score" and scores not in PRIORITIES:
                yield f'{where}: plugin "{name}" does not {point}'


def enabled(point, plugins):
    """Return {plugin: weight} of those that run at a point, in their order. Upstream: expandMultiPointPlugins."""
    running = DEFAULT_PLUGINS
    for where in ("multiPoint", point):
        off = {entry.get("name") for entry in plugins.get(where, {}).get("disabled", [])}
        on = {entry.get("name"): entry.get("weight", 0) for entry in plugins.get(where, {}).get("enabled", [])}
        kept = {name: weight for name, weight in running.items() if not off & {name, "*"}}
        # What runs anyway, and is enabled at the point itself, comes first.
        first = {name: weight for name, weight in on.items() if name in running and where == point}
        running = first | kept | on
    return running


# =====================================================================================================================
# 8. The cluster: what is read, remembered and written
# =====================================================================================================================


class ApiError(Exception):
    """A request that did not succeed. status: the HTTP status, or 0 where no answer came."""

    def __init__(self, status, message, retry_after=0):
        super().__init__(message)
        self.status, self.retry_after = status, retry_after
        self.unknown = status == 0 or status >= 500  # whether the request may have been carried out
        self.trouble = self.unknown or status == 429  # whether others may fare no better


@functools.lru_cache(maxsize=10000)
def warn_once(text):
    """Log a warning, unless it has been logged already."""
    log.warning("%s", text)


def in_background(function, *arguments):
    """Call a function in a thread that nobody needs to wait for. Return the Future of what it returns."""
    future = Future()

    def call():
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return future


def within(seconds, function, *arguments):
    """Return what a function returns. Raises ApiError if that takes longer, be its peer silent or slow."""
    try:
        return in_background(function, *arguments).result(seconds)
    except TimeoutError:
        raise ApiError(0, f"no answer within {seconds:.2g} s") from None


def backoff(attempts):
    """Return the seconds to wait after so many failed attempts: 1, 2, 4, 8, 10, 10, ... as kube-scheduler does."""
    return min(2 ** (attempts - 1), 10)


@dataclass
class PodRecord:
    """The life of a pending pod from pass to pass: backing off, held, prepared for or assumed; then bound, or gone."""

    written: str = None  # what its event and its PodScheduled condition say
    printed: tuple = None  # what was last printed of it
    attempts: int = 0
    retry_at: float = 0  # monotonic seconds
    unschedulable: bool = False  # whether it waits for a change of the cluster, and so is tried again when one comes
    prepared: bool = False  # something has been prepared on a node for it, which it is to get before others do
    kept: Decision = None  # by which it keeps its room: it is held, or assumed until its Binding is answered

    def back_off(self, unschedulable):
        """Let the pod wait before it is tried again."""
        self.attempts, self.unschedulable, self.prepared, self.kept = self.attempts + 1, unschedulable, False, None
        self.retry_at = time.monotonic() + backoff(self.attempts) * (1 if unschedulable else 0.25)

    def is_held(self):
        """Say whether a rule has held the pod up that has a node in mind already."""
        return self.kept is not None and self.kept.held

    def take_held(self):
        """Return the decision that a rule has held up, if there is one, and no longer keep it."""
        held, self.kept = self.kept, None
        return held

    def is_news(self, decision):
        """Say whether a decision differs from what was last printed of the pod."""
        before, self.printed = self.printed, (decision.node or decision.message, decision.held)
        return self.printed != before


class Objects(dict):
    """API objects of other kinds than nodes and pods, listed once for a snapshot, when a rule first looks at them."""

    def __init__(self, cluster):
        self.cluster = cluster

    def __missing__(self, resource):
        """List a resource."""
        self[resource] = {"/".join(filter(None, (
            pick(thing, str, "metadata", "namespace"), pick(thing, str, "metadata", "name")))): thing
            for thing in self.cluster.list(resource)}
        return self[resource]


class Cluster:
    """What the API server says of nodes and pods, and what is remembered of the pending ones.

    The pending pods are listed from the API server's watch cache, which may lag; the nodes and what is on them is not.
    """

    GROUPS = {"replicasets": "apis/apps/v1", "statefulsets": "apis/apps/v1",  # others are in the core group, api/v1
              "storageclasses": "apis/storage.k8s.io/v1", "csinodes": "apis/storage.k8s.io/v1"}

    def __init__(self, api, dry_run=False):
        self.api = api
        self.live = isinstance(api, Proxy) and not dry_run  # whether others are to act on what we decide
        self.writer = Writer(api, dry_run, self.live)
        self.records = {}  # uid -> PodRecord
        self.lost = []  # decisions that were held, on pods that have gone or that somebody else has bound
        self.seen = None  # what the last snapshot was made of
        self.trouble, self.failures = None, 0  # what is wrong with the API server; how many requests in a row failed

    def queue(self, policies):
        """Yield the pods that are to be tried in this pass, each with a snapshot of the cluster to decide by.

        Meanwhile others delete pods and nodes, and make them again under their names: what was read is read again as
        soon as it is four times as old as the time that reading took, but not within a tenth of a second.
        """
        left, changed = None, False  # the uids of the pods that are to be tried yet, once that is known
        while True:
            began = time.monotonic()
            pending = [pod for pod in self.pending_pods(policies) if left is None or pod.uid in left]
            if not pending and not self.lost:
                return
            snapshot = self.snapshot(policies)
            snapshot.changed = changed = changed or snapshot.changed
            due, read = collections.deque(self.due(pending, snapshot)), time.monotonic()
            fresh_until = read + max(0.1, 4 * (read - began)) if self.live else math.inf
            while self.lost:
                self.writer.unreserve(self.lost.pop(), snapshot)
            while due and time.monotonic() < fresh_until:
                yield due.popleft(), snapshot
            self.writer.settle()
            left = {pod.uid for pod in due}
            if not left:
                return

    def pending_pods(self, policies):
        """List the pods that wait for one of these schedulers, in the order in which they are to be tried."""
        pods, before = {}, self.records
        for name, policy in policies.items():
            raws = self.list("pods", f"spec.schedulerName={name},spec.nodeName=", cached=True)
            pods |= {pod.uid: pod for pod in self.parse(Pod, raws)[0]
                     if pod.scheduler == name and not pod.node_name and ready(pod, policy)}
        for pod in pods.values():
            record = pod.record = before.get(pod.uid) or PodRecord(pod.pending_message)
            if record.is_held() and record.kept.policy is not policies[pod.scheduler]:
                self.lost.append(record.take_held())
        self.records = {decision.pod.uid: decision.pod.record for decision, *_ in self.writer.under_way.values()} | {
            pod.uid: pod.record for pod in pods.values()}
        self.lost += [record.kept for uid, record in before.items() if uid not in pods and record.is_held()]
        pods = sorted(pods.values(), key=lambda pod: (-pod.priority, pod.created, pod.key))
        for sort in {sort for policy in policies.values() for sort in policy.hooks("queue_sort")}:
            try:
                pods.sort(key=sort)
            except Exception as error:
                warn_once(f"the queue is sorted by priority and age, for {broken(error)}")
        return sorted(pods, key=lambda pod: not pod.record.prepared)  # first, lest others take their room

    def snapshot(self, policies=()):
        """Read the nodes and the pods on them, and keep the room of pods that have a node in mind."""
        nodes = self.parse(Node, self.list("nodes"))[0]
        nodes = {node.name: node for node in sorted(nodes, key=lambda node: node.name)}
        assigned = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        pods, unread = self.parse(Pod, self.list("pods", assigned))
        for raw in unread:  # what it takes up is unknown, so nothing may be added to its node
            nodes.pop(name_in(raw, "spec", "nodeName"), None)
        assigned = {pod.uid: pod for pod in pods}
        places = [(record.kept.pod, record.kept.node) for uid, record in self.records.items()
                  if record.kept and uid not in assigned]
        for pod, node_name in places + [(pod, pod.node_name) for pod in assigned.values()]:
            if node_name in nodes:
                nodes[node_name].add(pod)
            elif not node_name:
                warn_once(f"pod {pod.key} is left out: it is listed among those with a node, and names none")
        seen = (list(dict(policies).values()), [node.signature for node in nodes.values()],
                {pod.uid: pod.node_name for pod in pods})
        changed, self.seen = seen != self.seen, seen
        return Snapshot(nodes, Objects(self), self.live, assigned.keys(), changed)

    def due(self, pods, snapshot):
        """Return the pods to try now: whose backoff is over, or all if the cluster has changed; held ones come last."""
        due = []
        for pod in pods:
            record = pod.record
            if pod.uid in snapshot.assigned:
                log.debug("%s has its node already, which the list of pending pods does not show yet", pod.key)
                self.lost += [record.take_held()] if record.is_held() else []
            elif record.prepared and record.kept:  # now it is to be decided about, as if it had no place yet
                if record.kept.node in snapshot.nodes:
                    snapshot.nodes[record.kept.node].remove(record.kept.pod)
                record.kept = None
                due.append(pod)
            elif record.is_held() or not record.kept and (
                    record.prepared or record.retry_at <= time.monotonic()
                    or record.unschedulable and snapshot.changed):
                due.append(pod)
        return sorted(due, key=lambda pod: pod.record.is_held())

    def list(self, resource, selector="", cached=False):
        """Return all objects of a resource, page by page: as they are now, or as the API server's cache has them."""
        params, items = {"fieldSelector": selector, "limit": 500} | ({"resourceVersion": "0"} if cached else {}), []
        while True:
            path = f"/{self.GROUPS.get(resource, 'api/v1')}/{resource}"
            try:
                answer = self.page(path, params)
                items += pick(answer, list, "items", of=dict)
                token = pick(answer, str, "metadata", "continue")
            except Malformed as error:
                raise ApiError(0, f"the list of {resource} is not as expected: {error}") from error
            self.failures = 0
            if not token:
                return items
            params = {"fieldSelector": selector, "limit": 500, "continue": token}

    def page(self, path, params):
        """Return a page of a list. That the API server fails once is no trouble yet."""
        try:
            return within(60, self.api.request, "GET", path, None, params)
        except ApiError as error:
            if error.status < 500:
                raise
            return within(60, self.api.request, "GET", path, None, params)

    def parse(self, kind, raws):
        """Parse API objects. Return those that could be, and the others' JSON; name each of these once."""
        parsed, unread = [], []
        for raw in raws:
            try:
                thing = kind(raw)
                if not thing.name:
                    raise Malformed("metadata.name: is missing")
                parsed.append(thing)
            except Exception as error:
                name = "/".join(filter(None, (name_in(raw, "metadata", part) for part in ("namespace", "name"))))
                warn_once(f"{kind.__name__.lower()} {name} is left out: {one_line(error)}")
                unread.append(raw)
        return parsed, unread

    def seconds_until_recovery(self, trouble):
        """Say once what is wrong with the API server, and once that it is over; return how long to leave it alone."""
        if trouble and str(trouble) != str(self.trouble):
            log.error("%s", trouble)
        if self.trouble and not trouble:
            log.warning("the API server answers again")
        self.trouble, self.failures = trouble, self.failures + 1 if trouble else 0
        return max(trouble.retry_after, backoff(self.failures)) if trouble else 0


def name_in(thing, *path):
    """Return the string at a path into an object that may be malformed, or ""."""
    for key in path:
        thing = thing.get(key) if isinstance(thing, dict) else None
    return thing if isinstance(thing, str) else ""


class Writer:
    """What is written, a few requests at a time while the loop goes on; and whose trouble it is if one fails."""

    WINDOW = 8  # writes that may be under way
    SEVERAL = 10  # pods whose writes fail in a row: the API server is in trouble, not they
    PATIENCE, LIMIT = 0.5, 70  # seconds to wait for answers before going on without, and after which none will come

    def __init__(self, api, dry_run, live):
        self.api, self.dry_run, self.live = api, dry_run, live
        self.may_write = lambda: True  # of several replicas, only the one that leads
        self.under_way = {}  # Future -> (Decision, Snapshot, whether it carries the decision out, when it began)
        self.failing = set()  # the uids of pods whose writes have failed since one last succeeded

    def bind(self, decision, snapshot):
        """Have the pod bound; or what is needed first prepared, after which the pod is decided about again."""
        if decision.requests is None or not self.live:
            self.send(self.post_binding, decision, snapshot, carries_out=True)
        else:
            self.send(self.send_requests, decision, snapshot, decision.requests, carries_out=True)
        decision.pod.record.kept = decision

    def leave_pending(self, decision, snapshot):
        """Back off; tell the user in an event and in the pod's condition why, if they do not say so already."""
        record, nominated = decision.pod.record, nominate(decision, snapshot)
        record.back_off(unschedulable=True)
        self.unreserve(decision, snapshot)
        if decision.message != record.written:
            self.send(self.post_failure, decision, snapshot, nominated)
            record.written = decision.message

    def unreserve(self, decision, snapshot):
        """Have the rules forget that the pod was to go somewhere."""
        requests = []
        for hook in decision.policy.hooks("unreserve"):
            try:
                requests += hook(decision.pod, snapshot) or []
            except Exception as error:
                warn_once(f"{decision.pod.key}: {broken(error)}")
        if requests:
            self.send(self.send_requests, decision, snapshot, requests)

    def send(self, function, decision, snapshot, *arguments, carries_out=False):
        """Start a write about a decision, once there is room in the window; in a dry run, nothing."""
        if self.dry_run:
            return
        self.settle(self.WINDOW - 1, 5)
        if len(self.under_way) >= self.WINDOW:
            raise ApiError(0, f"no answer to {self.WINDOW} writes in a row")
        future = in_background(function, decision, *arguments)
        self.under_way[future] = decision, snapshot, carries_out, time.monotonic()

    def settle(self, leave=0, patience=PATIENCE):
        """Take in the answers to writes; wait a while if more than `leave` are due. Raises ApiError in trouble."""
        if len(self.under_way) > leave:
            wait(self.under_way, patience, FIRST_COMPLETED if leave else ALL_COMPLETED)
        for future, (decision, snapshot, carries_out, began) in list(self.under_way.items()):
            if not future.done() and time.monotonic() < began + self.LIMIT:
                continue
            del self.under_way[future]
            try:
                future.result(0)
                self.failing.clear()
                if carries_out:
                    decision.pod.record.prepared = decision.requests is not None
                    decision.pod.record.kept = decision if decision.pod.record.prepared else None
            except Exception as error:
                self.take_failure(error, decision, snapshot, carries_out)

    def take_failure(self, error, decision, snapshot, carries_out):
        """Have the pod of a failed write back off, alone. Raises the error once several pods in a row have failed."""
        pod, record = decision.pod, decision.pod.record
        if getattr(error, "status", 1) not in (0, 404, 409):  # no connection; the pod is gone; somebody bound it
            warn_once(f"{pod.key}: {one_line(error) or 'no answer'}")
        if not isinstance(error, ApiError):  # a rule's or an extender's, which may have bound the pod all the same
            late = isinstance(error, TimeoutError)
            error = ApiError(0, one_line(error))
            error.trouble = late
        if carries_out:
            record.back_off(unschedulable=False)
            if not error.unknown:
                log.debug("%s is not bound to %s: %s", pod.key, decision.node, error)
                snapshot.nodes[decision.node].remove(pod)
            self.unreserve(decision, snapshot)
        else:
            record.written = None  # to be written again
        if error.trouble:
            self.failing.add(pod.uid)
        if len(self.failing) >= self.SEVERAL:
            self.failing.clear()
            raise error

    def request(self, *request):
        """Send a request, unless another replica may lead by now: then what was decided here is forgotten."""
        if not self.may_write():
            raise ApiError(409, "this replica does not lead any more")
        self.api.request(*request)

    def send_requests(self, decision, requests):
        """Send requests of rules."""
        for request in requests:
            self.request(*request)

    def post_binding(self, decision):
        """Bind the pod, by a rule, by an extender, or by a Binding; with the event Scheduled."""
        pod, policy, node_name = decision.pod, decision.policy, decision.node
        binders = policy.hooks("bind") + [
            extender.bind for extender in policy.extenders if self.live and extender.cares("bind", pod)]
        if not (self.may_write() and any(binder(pod, node_name) for binder in binders)):
            self.request("POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", {
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node_name}})
        with contextlib.suppress(ApiError):
            self.post_event(pod, "Normal", "Scheduled", f"Successfully assigned {pod.key} to {node_name}")
        for hook in policy.hooks("post_bind"):
            try:
                hook(pod, node_name)
            except Exception as error:  # the pod is bound all the same
                warn_once(f"{pod.key}: {broken(error)}")

    def post_failure(self, decision, nominated):
        """Say why the pod stays pending: in its condition PodScheduled, and in an event FailedScheduling."""
        pod, message = decision.pod, decision.message
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        if pod.pending_message is None:
            condition["lastTransitionTime"] = now()
        self.note("PATCH", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status", {"status": {
            "conditions": [condition], **({"nominatedNodeName": nominated} if nominated else {})}})
        self.post_event(pod, "Warning", "FailedScheduling", message)

    def post_event(self, pod, kind, reason, message):
        """Record an event about the pod, as `kubectl describe pod` shows it."""
        self.note("POST", f"/api/v1/namespaces/{pod.namespace}/events", {
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": f"{pod.name[:200].rstrip('-.')}.{time.time_ns():x}", "namespace": pod.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name,
                               "uid": pod.uid},
            "type": kind, "reason": reason, "message": message, "count": 1, "firstTimestamp": now(),
            "lastTimestamp": now(), "source": {"component": pod.scheduler},
            "reportingComponent": pod.scheduler})

    def note(self, *request):
        """Write what is for people only: if it is refused, that is said once, and all goes on."""
        try:
            self.request(*request)
        except ApiError as error:
            if error.trouble:
                raise
            warn_once(str(error))


def now(microseconds=False):
    """Return the time as the API writes it."""
    return datetime.now(timezone.utc).strftime(f"%Y-%m-%dT%H:%M:%S{'.%f' if microseconds else ''}Z")


class Extender:
    """An HTTP extender of the Policy: a web service that has a say in it. Upstream: pkg/scheduler/core/extender.go."""

    MOST = 2**26  # bytes of an answer

    def __init__(self, config, title):
        self.config, self.title = config, title
        self.url = config.get("urlPrefix", "").rstrip("/")
        self.verbs = {name: config.get(f"{name}Verb", "") for name in ("filter", "prioritize", "bind")}
        self.weight, self.ignorable = config.get("weight", 0), config.get("ignorable", False)
        self.names_only = config.get("nodeCacheCapable", False)
        self.resources = {resource.get("name") for resource in config.get("managedResources", [])}
        self.timeout = config.get("httpTimeout", 0) / 10**9 or 5  # the Policy has nanoseconds
        self.session = requests.Session()
        self.session.trust_env = False  # the Policy says all, and REQUESTS_CA_BUNDLE would overrule it
        tls = config.get("tlsConfig", {})
        insecure = tls.get("insecure") or config.get("enableHttps") and not tls.get("caFile")
        if insecure:
            warnings.simplefilter("ignore", InsecureRequestWarning)  # the Policy has decided that
        self.session.verify = not insecure and (tls.get("caFile") or True)
        if tls.get("certFile") and tls.get("keyFile"):
            self.session.cert = tls["certFile"], tls["keyFile"]

    def cares(self, verb, pod):
        """Say whether it has this verb, and an interest in the pod: one of its resources, or any pod if it has none."""
        containers = pick(pod.spec, list, "containers") + pick(pod.spec, list, "initContainers")
        named = {name for container in containers for part in ("requests", "limits")
                 for name in pick(container, dict, "resources", part)}
        return bool(self.verbs[verb]) and not (self.resources and self.resources.isdisjoint(named))

    @contextlib.contextmanager
    def blamed(self, verb):
        """Raise Unschedulable, which names the extender and the verb, for whatever goes wrong meanwhile."""
        try:
            yield
            return
        except requests.Timeout:
            reason = f"no answer within {self.timeout:g} s"
        except (ApiError, HTTPError, OSError, ValueError, RecursionError) as error:
            cause = re.search(r"\[(Errno|SSL)[^]]*][^'\"()]*", str(error))  # what requests has wrapped up
            reason = cause.group() if cause else one_line(error)
        raise Unschedulable(f"extender {self.url}: {self.verbs[verb]}: {reason}")

    def call(self, verb, body):
        """POST to a verb; return the answer's JSON. Raises ApiError, OSError, ValueError, RecursionError."""
        answer = json.loads(within(self.timeout, self.post, f"{self.url}/{self.verbs[verb]}", body))
        if isinstance(answer, dict) and answer.get("Error"):
            raise ValueError(answer["Error"])
        return answer

    def post(self, url, body):
        """Return the text of an answer, of which there is not too much. Raises OSError, ValueError."""
        with self.session.post(url, json=body, timeout=self.timeout, stream=True, allow_redirects=False) as answer:
            if answer.status_code != 200:
                raise ValueError(f"it answers {answer.status_code} {answer.reason}")
            text = answer.raw.read(self.MOST + 1, decode_content=True)
        if len(text) > self.MOST:
            raise ValueError(f"its answer has more than {self.MOST} bytes")
        return text

    def arguments(self, pod, nodes):
        """Return what filter and prioritize are asked about."""
        names = [node.name for node in nodes] if self.names_only else None
        return {"Pod": pod.raw, "NodeNames": names, "Nodes": None if self.names_only else {
            "metadata": {}, "items": [node.raw for node in nodes]}}

    def filter(self, pod, nodes, failed):
        """Return those of the nodes that the extender lets pass; the others go into `failed`."""
        if not nodes or not self.cares("filter", pod):
            return nodes
        try:
            with self.blamed("filter"):
                answer = self.call("filter", self.arguments(pod, nodes))
                items = pick(answer, list, "Nodes", "items", of=dict)
                passing = {pick(item, str, "metadata", "name") for item in items}
                if self.names_only and answer.get("NodeNames") is not None:
                    passing = set(pick(answer, list, "NodeNames", of=str))
                if not passing <= {node.name for node in nodes}:
                    raise Malformed("passes nodes it was not asked about")
                reasons = pick(answer, dict, "FailedNodes", of=str)
        except Unschedulable as error:
            if not self.ignorable:
                raise
            warn_once(f"{error}; it is ignorable, so the pods go on without it")
            return nodes
        failed.update({node.name: {self.title: [reasons[node.name]] if node.name in reasons else []}
                       for node in nodes if node.name not in passing})
        return [node for node in nodes if node.name in passing]

    def prioritize(self, pod, nodes):
        """Return {the extender: {node: its score, 0 to 10, x weight x 10}}; {} if it has none, or cannot be asked."""
        if len(nodes) == 1 or not self.cares("prioritize", pod):
            return {}
        try:
            with self.blamed("prioritize"):
                answer = {"the answer": self.call("prioritize", self.arguments(pod, nodes))}
                scores = {pick(score, str, "Host"): pick(score, int, "Score")
                          for score in pick(answer, list, "the answer")}
                if not all(0 <= score <= 10 for score in scores.values()):
                    raise Malformed("its scores are not all from 0 to 10")
        except Unschedulable as error:
            warn_once(f"{error}; its scores are left out")
            return {}
        return {f"{self.title} {self.url}": {node.name: scores.get(node.name, 0) * self.weight * 10 for node in nodes}}

    def bind(self, pod, node_name):
        """Have the extender bind the pod. Return True."""
        with self.blamed("bind"):
            self.call("bind", {
                "PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name})
        return True


class Proxy:
    """The API server behind kubectl proxy."""

    def __init__(self, server):
        self.server = server.rstrip("/")
        self.session = requests.Session()  # its connections are kept alive, and threads may share them
        self.session.trust_env = False  # kubectl proxy is near, whatever HTTP_PROXY says

    def request(self, method, path, body=None, params=None):
        """Send a request and return the answer's JSON. Raises ApiError; its text says what to do."""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        try:
            answer = self.session.request(method, self.server + path, params=params, timeout=(5, 60),
                                          data=body and json.dumps(body), headers={"Content-Type": kind},
                                          allow_redirects=False)
        except requests.ConnectionError as error:
            port = urlsplit(self.server).port or 80
            raise ApiError(0, f"cannot reach {self.server}: start `kubectl proxy --port={port}`, or try it without a "
                              "cluster: python scheduler.py --cluster tests/clusters/demo.yaml") from error
        except requests.RequestException as error:
            raise ApiError(0, f"{method} {path}: {one_line(error)}") from error
        log.debug("%s %s %s: %d", method, path, params or "", answer.status_code)
        try:
            content = answer.json()
        except (ValueError, RecursionError):
            content = None
        fine = 200 <= answer.status_code < 300
        if fine and isinstance(content, dict):
            return content
        message = content.get("message") if isinstance(content, dict) else f"{self.server} is not like kubectl proxy"
        hint = "RBAC does not allow it: " if answer.status_code == 403 else ""
        seconds = answer.headers.get("Retry-After", "")
        raise ApiError(0 if fine else answer.status_code,
                       f"{method} {path}: {answer.status_code} {answer.reason}: {hint}{message}",
                       min(int(seconds), 60) if seconds.isdigit() else 0)


class LeaderElection:
    """Of several replicas the one leads that holds a Lease, and renews it in time. Upstream: client-go/leaderelection.

    Times are in seconds. Clocks need not agree: how long the Lease has not changed is measured here.
    """

    def __init__(self, api, name, settings):
        self.api, self.identity = api, f"{socket.gethostname()}_{uuid.uuid4()}"
        self.lease_duration, self.renew_deadline, self.retry_period = (
            settings.get(name, default) for name, default in ELECTION.items())
        namespace, name = settings.get("resourceNamespace") or "kube-system", settings.get("resourceName") or name
        self.metadata = {"namespace": namespace, "name": name}
        self.path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.observed, self.observed_at, self.renewed_at = None, 0, 0
        self.lost, self.keeper = False, None

    def lead(self, stop):
        """Wait until this replica leads; return whether it does. From then on it renews, or sets `stop` and `lost`."""
        while not stop.is_set() and not self.holds():
            stop.wait(self.retry_period)
        if stop.is_set():
            return False
        log.info("%s became leader", self.identity)
        self.keeper = threading.Thread(target=self.keep, args=[stop], daemon=True)
        self.keeper.start()
        return True

    def leads(self):
        """Say whether the Lease has been renewed in time, by this process's own clock: else another one may lead."""
        return time.monotonic() - self.renewed_at < self.renew_deadline

    def keep(self, stop):
        """Renew the Lease until `stop`, or until that has not succeeded for too long."""
        try:
            while not stop.wait(self.retry_period):
                if not self.holds() and not self.leads():
                    log.error("leader election lost")
                    return
        finally:
            self.lost = not stop.is_set()
            stop.set()

    def holds(self, holder=None):
        """Try to acquire or renew the Lease, or to let go of it for the holder ""; return whether that succeeded."""
        left = self.renewed_at + self.renew_deadline - time.monotonic()
        try:
            return within(max(left, self.retry_period), self.take, self.identity if holder is None else holder)
        except (ApiError, TypeError, ValueError) as error:
            if not isinstance(error, ApiError) or error.status != 409:  # another one was faster
                warn_once(f"leader election: {error}")
            return False

    def take(self, holder):
        """Write the Lease with this holder, unless another one holds it; return whether it did. Raises ApiError."""
        asked, path = time.monotonic(), f"{self.path}/{self.metadata['name']}"
        try:
            lease = self.api.request("GET", path)
        except ApiError as error:
            if error.status != 404:
                raise
            lease = {"metadata": self.metadata}  # still to be created, as it has no resourceVersion
        metadata, spec = pick(lease, dict, "metadata"), pick(lease, dict, "spec")
        if spec != self.observed:
            self.observed, self.observed_at = spec, asked
        if spec.get("holderIdentity") not in (None, "", self.identity) and (
                asked - self.observed_at < self.lease_duration):
            return False
        taken = {} if spec.get("holderIdentity") == self.identity else {
            "acquireTime": now(microseconds=True), "leaseTransitions": spec.get("leaseTransitions", -1) + 1}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {
            **spec, **taken, "holderIdentity": holder, "renewTime": now(microseconds=True),
            "leaseDurationSeconds": math.ceil(self.lease_duration)}}
        exists = "resourceVersion" in metadata
        answer = self.api.request("PUT" if exists else "POST", path if exists else self.path, body)
        self.observed, self.observed_at = pick(answer, dict, "spec"), time.monotonic()
        self.renewed_at = asked if holder else -math.inf
        return True

    def release(self):
        """Let another replica lead at once, when `stop` is set: else this one would renew again."""
        self.keeper.join(self.retry_period)
        if self.leads():
            self.holds("")


class Manifests:
    """A cluster made of manifests, which answers like the API server; bindings are kept in memory."""

    def __init__(self):
        self.objects = {}  # (resource, namespace, name) -> object

    def load(self, path):
        """Read a file, or standard input for -; name and leave out what is no object. Raises OSError, ValueError."""
        things = collections.deque(parse(sys.stdin.read() if path == "-" else Path(path).read_text("utf-8-sig")))
        while things:
            thing = things.popleft()
            if isinstance(thing, dict) and type(thing.get("items")) is list:  # a List
                kind = {"kind": str(thing.get("kind", "")).removesuffix("List")}
                things.extendleft(kind | item if isinstance(item, dict) else item for item in thing["items"][::-1])
            elif thing is not None:
                try:
                    self.add(thing)
                except Malformed as error:
                    log.warning("%s: left out: %s", path, error)

    def add(self, document):
        """Take in an object. Raises Malformed."""
        kind = pick(document, str, "kind")
        name = pick(document, str, "metadata", "name")
        if not kind or not name:
            raise Malformed("expected a Kubernetes object with kind and metadata.name, got "
                            f"{json.dumps(document, default=str)[:60]}")
        try:
            self.try_out(kind, document)
        except Malformed as error:
            raise Malformed(f"{kind} {name}: {error}") from error
        resource = kind.lower() + ("es" if kind.endswith("s") else "s")
        metadata = document["metadata"]  # whose creation time is the place in the file, where it has none
        metadata["creationTimestamp"] = metadata.get("creationTimestamp") or f"{len(self.objects):09}"
        if resource not in ("nodes", "namespaces", "persistentvolumes", "storageclasses", "csinodes"):
            metadata["namespace"] = pick(metadata, str, "namespace") or "default"
        self.objects[resource, metadata.get("namespace"), name] = document

    def try_out(self, kind, thing):
        """Read what rules read of an object, since no API server has checked it. (Pods and nodes are read anyway.)"""
        if kind in ("Service", "ReplicationController"):
            pick(thing, dict, "spec", "selector", of=str)
        elif kind in ("ReplicaSet", "StatefulSet", "PersistentVolumeClaim"):
            with contextlib.suppress(InvalidSelector):  # which kube-scheduler meets, too
                label_selector(pick(thing, dict, "spec", "selector"))
        if kind in ("PersistentVolumeClaim", "PersistentVolume"):
            class_of(thing)
            storage(thing, *["resources", "requests"] if kind == "PersistentVolumeClaim" else ["capacity"])
            pick(thing, list, "spec", "accessModes", of=str)
            valid_terms(pick(thing, list, "spec", "nodeAffinity", "required", "nodeSelectorTerms", of=dict))
            for labels in ("labels", "annotations"):
                pick(thing, dict, "metadata", labels, of=str)
        if kind == "StorageClass":
            can_provision(thing, Node({}))
        for driver in pick(thing, list, "spec", "drivers", of=dict) if kind == "CSINode" else ():
            pick(driver, str, "name")
            pick(driver, int, "allocatable", "count")

    def request(self, method, path, body=None, params=None):
        """Answer a list, or a Binding; take in other writes unseen."""
        *_, name, last = path.split("/")
        if method == "GET":
            selected = functools.partial(self.selected, params["fieldSelector"])
            return {"items": [thing for key, thing in self.objects.items() if key[0] == last and selected(thing)]}
        if last == "binding":
            pod = self.objects["pods", body["metadata"]["namespace"], name]
            pod["spec"] = {**(pod.get("spec") or {}), "nodeName": body["target"]["name"]}
        return {}

    def selected(self, selector, thing):
        """Say whether a field selector, such as spec.nodeName!=,status.phase!=Failed, selects an object."""
        for term in filter(None, selector.split(",")):
            path, differs, value = re.fullmatch("(.*?)(!?)=(.*)", term).groups()
            actual = name_in(thing, *path.split(".")) or "default-scheduler" * (path == "spec.schedulerName")
            if (actual == value) == bool(differs):
                return False
        return True


class YamlLoader(yaml.composer.Composer, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML in which no key comes twice, dates and times stay strings, and aliases cannot grow beyond all memory."""

    def __init__(self, text):
        yaml.composer.Composer.__init__(self)
        super(yaml.composer.Composer, self).__init__(text)
        self.aliases, self.inside = 0, 0  # how many there were; how many anchored values this place is inside of

    def compose_node(self, parent, index):
        """Read a node. Raises ValueError if there are too many aliases, or one inside what another may stand for."""
        event = self.peek_event()
        is_alias = isinstance(event, yaml.AliasEvent)
        self.aliases += is_alias
        if self.aliases > 1000 or is_alias and self.inside:
            raise ValueError("expected fewer aliases, and none inside values that have an anchor themselves")
        self.inside += event.anchor is not None and not is_alias
        node = super().compose_node(parent, index)
        self.inside -= event.anchor is not None and not is_alias
        return node

    def construct_mapping(self, node, deep=False):
        """Build a mapping whose keys are strings, and all different."""
        for key, _ in node.value:
            key.tag = re.sub(":(int|float|bool|null)$", ":str", key.tag)
        unique_keys([(key.value, None) for key, _ in node.value if isinstance(key, yaml.ScalarNode)])
        return super().construct_mapping(node, deep)


for name in ("timestamp", "int", "float"):  # of numbers, those to the base of 60 are times, too
    read = getattr(yaml.SafeLoader, f"construct_yaml_{name}")
    YamlLoader.add_constructor(f"tag:yaml.org,2002:{name}", lambda loader, node, name=name, read=read: (
        node.value if name == "timestamp" or ":" in node.value else read(loader, node)))


def unique_keys(pairs):
    """Make a dict of pairs. Raises ValueError if a key comes twice."""
    keys = [key for key, _ in pairs]
    if len({*keys}) < len(keys):
        raise ValueError(f'duplicate key "{next(key for key in keys if keys.count(key) > 1)}"')
    return dict(pairs)


def depth(value):
    """Return how many objects and lists are inside one another."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, inner), default=0)


def parse(text):
    """Yield the documents of a JSON or YAML text, made of JSON's types only. Raises ValueError."""
    try:
        if text.lstrip().startswith("{"):
            documents = [json.loads(text, object_pairs_hook=unique_keys)]
        else:  # what an alias stands for is copied thereby
            documents = (json.loads(json.dumps(document)) for document in yaml.load_all(text, YamlLoader))
        for document in documents:
            if depth(document) > 100:
                raise RecursionError
            yield document
    except RecursionError:
        raise ValueError("its objects and lists are nested too deeply") from None
    except LookupError:
        raise ValueError("a value is not of the type that its tag says") from None
    except (yaml.YAMLError, OverflowError, TypeError) as error:
        raise ValueError(one_line(error)) from error


def one_line(error):
    """Return an error's text on one line."""
    return getattr(error, "strerror", None) or " ".join(str(error).split())


# =====================================================================================================================
# 9. What people see
# =====================================================================================================================


class Screen:
    """What is printed on: a terminal, with colours unless NO_COLOR is set, or anything else, 80 columns wide."""

    def __init__(self, suffix=""):
        self.suffix = suffix  # of every line
        with contextlib.suppress(AttributeError):  # not everything that stands in for a terminal has it
            sys.stdout.reconfigure(errors="replace")  # where ✗ cannot be written, ? is
        terminal = sys.stdout.isatty()
        self.width = (max(60, shutil.get_terminal_size().columns) if terminal else 80) - len(suffix)
        self.colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def print(self, *lines):
        """Print lines."""
        for line in lines:
            line = visible(line + self.suffix if line else "")
            print(re.sub(f"{PAINT}([0-9;]*)m", "\033[\\1m", line) if self.colours else line, flush=True)

    def paint(self, text, colour):
        """Return the text in a colour, if there are any."""
        return f"{PAINT}{colour}m{text}{PAINT}0m" if self.colours and colour else text

    def fold(self, text, first="", rest="", colour="", max_lines=None):
        """Break a text into lines that fit; give the first and the others their indents."""
        lines = textwrap.wrap(text, self.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False,
                              max_lines=max_lines, placeholder=" …")
        return [self.paint(line, colour) for line in lines]


def visible(text):
    """Return a line with its control characters escaped: names and messages may come from anybody."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", lambda match: ascii(match.group())[1:-1], text)


class LogLine(logging.Formatter):
    """The form of what is logged."""

    def formatMessage(self, record):
        """Return the line of a record."""
        return visible(super().formatMessage(record))


BOLD, DIM, RED, GREEN = "1", "2", "91", "1;32"
PAINT = f"\ufdd0{uuid.uuid4()}"  # stands for the escape character until others have been escaped; nobody can guess it


def record(decision):
    """Return a decision as --output json prints it."""
    return {"pod": decision.pod.key, "node": decision.node, "feasible": decision.feasible,
            "failed": {node: sum(against.values(), []) for node, against in decision.failed.items()},
            "failedBy": {node: list(against) for node, against in decision.failed.items()},
            "raw": decision.raw, "scores": decision.scores, "total": decision.total, "held": decision.held,
            "message": decision.message}


def in_words(decision):
    """Return a decision as a line for people."""
    if decision.node is None:
        return f"{decision.pod.key} stays pending: {decision.message}"
    fit, nodes = len(decision.feasible), len(decision.feasible) + len(decision.failed)
    return (f"{decision.pod.key} -> {decision.node}  ({fit} of {nodes} nodes fit, score "
            f"{decision.total[decision.node]})" + " is held: not permitted yet" * decision.held)


def explain(decision, screen):
    """Return a decision as lines: in words, the best nodes with their scores, the others with what is against them."""
    lines = screen.fold(in_words(decision), rest="    ", colour=BOLD)
    if decision.total:
        lines += best_nodes(decision, screen)
    return [*lines, *failing_nodes(decision, screen), ""]


def best_nodes(decision, screen):
    """Return the scores as a table: a row for each priority, a column for each of the best nodes, as many as fit."""
    total, chosen = decision.total, decision.node
    ranked = sorted(total, key=lambda name: (-total[name], name != chosen, name))
    ties = [name for name in ranked if chosen and total[name] == total[chosen]]
    marks = dict.fromkeys(ties, "= ") | {chosen: "* "}
    # The names of entries that make one rule, SelectorSpreadPriority+EvenPodsSpreadPriority, have a line each.
    parts = [part for title in decision.scores for part in re.split(r"(?=\+)", title)]
    columns = [["", *(shorten("  " + part, screen.width // 2) for part in parts), "  Total"]]
    for name in ranked:
        columns.append([marks.get(name, "") + shorten(name), *score_cells(decision, name), str(total[name])])
        if len(columns) > 2 and max(map(len, align(zip(*columns)))) > screen.width:
            columns.pop()
            break
    lines, more = align(zip(*columns)), ranked[len(columns) - 1:]
    if chosen:  # it comes first
        lines[0] = lines[0].replace(columns[1][0], screen.paint(columns[1][0], GREEN))
    if more:
        lines += screen.fold(f"more nodes that fit: {len(more)}, down to a total of {total[more[-1]]}", "  ", "  ", DIM)
    if len(ties) > 1:
        lines += screen.fold(f"{len(ties)} nodes (* and =) tie: any of them is taken, at random", "  ", "  ", DIM)
    return lines


def score_cells(decision, name):
    """Yield a node's scores as "raw→normalised×weight", the first part only if the rule normalises."""
    rules = {rule.title: rule for rule in decision.policy.priorities}
    for title, scores in decision.scores.items():
        if title in rules:
            raw, rule = decision.raw[title][name], rules[title]
            before = "" if not rule.reduce else "-→" if raw is None else f"{raw}→"
            yield f"{before}{scores[name] // rule.weight}×{rule.weight}"
        else:  # an extender's, which come weighed
            yield str(scores[name])
        yield from [""] * title.count("+")  # beside the further lines of the title


def failing_nodes(decision, screen):
    """Return the nodes that do not fit and why; those with the same reasons together, the biggest group first."""
    groups = collections.defaultdict(list)  # reasons, a sentence for each predicate -> names
    for name, against in decision.failed.items():
        why = tuple(f"{title}: {', '.join(reasons) or 'no reason given'}" for title, reasons in against.items())
        groups[why].append(shorten(name))
    who = {why: names[0] if len(names) == 1 else f"{len(names)} nodes" for why, names in groups.items()}
    margin, lines = max(map(len, who.values()), default=0), []
    for why, names in sorted(groups.items(), key=lambda group: -len(group[1])):
        first, indent = f"  ✗ {who[why]:{margin}}  ", " " * (margin + 6)
        for sentence in why:
            lines += screen.fold(sentence, first, indent, RED)
            first = indent
        if len(names) > 1:
            lines += screen.fold(", ".join(names), indent, indent, DIM, max_lines=2)
    return lines


def shorten(name, width=21):
    """Leave out the middle of a long name, but not its last 4 characters, in which generated names differ."""
    return name if len(name) <= width else f"{name[:width - 5]}…{name[-4:]}"


def align(rows):
    """Return rows of cells as lines in which the columns stand below each other."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def comparison(outcomes):
    """Return the outcomes under several Policies as tables: the pods that land elsewhere, and numbers."""
    files, places = list(outcomes), [outcome["pods"] for outcome in outcomes.values()]
    pods = sorted(set().union(*places))  # profiles may be for other schedulers
    rows = [[pod, *(of.get(pod) or "<none>" for of in places)] for pod in pods]
    moved = [row for row in rows if len(set(row[1:])) > 1]
    lines = [*align([["POD", *files], *moved]), ""] if moved else []
    numbers = [["", *files], ["pods that fit", *(f"{sum(map(bool, of.values()))} of {len(of)}" for of in places)]]
    for resource, shares in outcomes[files[0]]["utilization"].items():
        for part in shares:
            numbers.append([f"{resource} utilization of a node, {part}", *(
                f"{outcome['utilization'][resource][part]:.1f}%" for outcome in outcomes.values())])
    return [*lines, f"{len(moved)} of {len(pods)} pods land elsewhere.", "", *align(numbers)]


def overview(cluster):
    """Return all pods with their nodes, as `kubectl get pods -o wide` does, and how full the nodes are."""
    nodes = cluster.snapshot().nodes.values()
    place = {uid: node.name for node in nodes for uid in node.pods}
    pods, fill = [["NAMESPACE", "NAME", "STATUS", "CPU", "MEMORY", "NODE"]], [["NODE", "PODS", "CPU", "MEMORY"]]
    for pod in cluster.parse(Pod, cluster.list("pods"))[0]:
        pods.append([pod.namespace, pod.name, pod.phase or "Pending", f"{pod.requests['cpu']}m",
                     f"{pod.requests['memory'] // 2**20}Mi", place.get(pod.uid, "<none>")])
    for node in nodes:
        row = [node.name, f"{len(node.pods)}/{node.max_pods}"]
        for resource, unit, suffix in ("cpu", 1, "m"), ("memory", 2**20, "Mi"):
            used, there = node.requested[resource], node.allocatable[resource]
            row.append(f"{used // unit}{suffix}/{there // unit}{suffix} ({100 * used // max(there, 1)}%)")
        fill.append(row)
    return ["", *align(pods), "", *align(fill)]


# =====================================================================================================================
# 10. The command line
# =====================================================================================================================


def read_arguments(argv):
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scheduler.py", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="""Schedule the pods whose spec.schedulerName is --scheduler-name, through kubectl proxy, by the
predicates and priorities that a legacy Policy file names.""",
        epilog="""examples:
  kubectl proxy & python scheduler.py             schedule a cluster's pods until Ctrl-C
  python scheduler.py --once --dry-run -v         show what one pass would do, and what it asks the API server
  python scheduler.py --cluster tests/clusters/demo.yaml           schedule manifests; no cluster is needed
  kubectl get nodes,pods -A -o yaml | python scheduler.py --cluster -       schedule a copy of a live cluster
  python scheduler.py --explain default/web-1     show why that pod goes, or would go, where it does

exit codes: 0 fine, 1 failed, 2 wrong usage, Policy or manifest""")
    option = parser.add_argument
    option("--server", default="http://127.0.0.1:8001", metavar="URL",
           help="where kubectl proxy listens (default %(default)s)")
    option("--scheduler-name", default="my-scheduler", metavar="NAME",
           help="schedule the pods with this spec.schedulerName (default %(default)s)")
    option("--policy", default=str(Path(__file__).with_name("policy.json")), metavar="FILE",
           help="a Policy or KubeSchedulerConfiguration, DefaultProvider or ClusterAutoscalerProvider (policy.json)")
    option("--plugins", nargs="+", default=[], metavar="FILE", help="Python files with rules of your own")
    option("--interval", type=seconds, default=1, metavar="SECONDS", help="time between polls (default %(default)s)")
    option("--once", action="store_true", help="make one pass, then stop")
    option("--leader-elect", action="store_true", help="schedule only while holding the Lease kube-system/NAME")
    option("--dry-run", action="store_true", help="do everything except writing to the cluster")
    option("--cluster", nargs="+", default=[], metavar="FILE",
           help="schedule these manifests (YAML, JSON; - for standard input) instead of a live cluster")
    option("--explain", nargs="?", const=True, metavar="POD",
           help="show decisions as tables; or only where this pod (namespace/name) would go, without binding anything")
    option("--compare", metavar="FILE", help="with --cluster: schedule under this Policy, too, and show what differs")
    option("--seed", help="make the choice among equally good nodes repeatable")
    option("--output", choices=["text", "json"], default="text", help="json: an object per decision, with all scores")
    option("-v", "--verbose", action="store_true", help="log every request to the API server")
    options = parser.parse_args(argv)
    if not re.fullmatch("https?://[^/?#]+/?", options.server):
        parser.error(f"--server {options.server}: expected a URL such as http://127.0.0.1:8001")
    if options.compare and not options.cluster:
        parser.error("--compare needs --cluster: give it manifests, or pipe in a copy of a live cluster: "
                     "kubectl get nodes,pods -A -o yaml | scheduler.py --cluster - --compare FILE")
    return options


def seconds(text):
    """Read a positive number of seconds."""
    if not 0 < float(text) < 1e6:
        raise ValueError
    return float(text)


def main(argv=None):
    """Run the command line; return the exit code."""
    global SEED
    options = read_arguments(argv)
    SEED = options.seed or ("" if options.compare else None)  # what is compared has the same luck
    dry = " (dry run)" if options.dry_run else ""
    handler = logging.StreamHandler()
    handler.setFormatter(LogLine(f"%(message)s{dry}"))
    logging.basicConfig(handlers=[handler])
    log.setLevel(logging.DEBUG if options.verbose else logging.INFO)
    api = Manifests() if options.cluster else Proxy(options.server)
    try:
        for path in options.plugins:
            load_plugins(path)
        policy_file = PolicyFile(options.policy, options.scheduler_name)
        other = PolicyFile(options.compare, options.scheduler_name) if options.compare else None
        for path in options.cluster:
            api.load(path)
    except PolicyError as error:
        for line in error.args:
            log.error("%s", line)
        return 2
    except (OSError, ValueError) as error:  # of a manifest
        log.error("%s: %s", path, one_line(error))
        return 2
    cluster, policies = Cluster(api, options.dry_run), policy_file.policies
    screen, stop = Screen(dry), threading.Event()
    report = functools.partial(print_decision, options, screen)

    def end(number, _):
        """Finish the pod in hand; but end within a few seconds if that takes long, and at once on a second signal."""
        signal.signal(number, signal.SIG_DFL)
        limit = threading.Timer(4, os._exit, [0])
        limit.daemon = True
        limit.start()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    if isinstance(options.explain, str):
        return explain_pod(cluster, policies, options.explain, report)
    if other:
        outcomes = {file.path.removeprefix(os.getcwd() + os.sep): outcome(api, file.policies, options, stop)
                    for file in (policy_file, other)}
        if options.output == "json":
            print(json.dumps(outcomes))
        else:
            screen.print(*comparison(outcomes))
        return 0
    if not options.cluster:
        log.info("%s: polling %s by %s", ", ".join(policies), options.server, options.policy)
        return poll(cluster, policy_file, report, stop, options)
    if not cluster.pending_pods(policies):
        log.info("no pod waits for %s: none without a node has this spec.schedulerName", ", ".join(policies))
    schedule_manifests(cluster, policies, report, stop, options.once)
    if options.output == "text":
        screen.print(*overview(cluster))
    return 0


def print_decision(options, screen, decision, remark=""):
    """Print a decision, and before it, if there is one, a remark."""
    if options.output == "json":
        print(json.dumps(record(decision) | {"dryRun": True} if options.dry_run else record(decision)), flush=True)
    elif options.explain:
        screen.print(*screen.fold(remark), *explain(decision, screen))
    else:
        screen.print(in_words(decision))


def poll(cluster, policy_file, report, stop, options):
    """Schedule a live cluster's pods; where a leader is elected, only while leading. Return the exit code."""
    settings = next(iter(policy_file.policies.values())).election  # all profiles have the same
    election = LeaderElection(cluster.api, options.scheduler_name, settings)
    elected = not options.dry_run and (options.leader_elect or settings.get("leaderElect"))
    if elected:
        cluster.writer.may_write = election.leads
        if not election.lead(stop):
            return 0
    code = run(cluster, policy_file, report, stop, options.interval, options.once)
    with contextlib.suppress(ApiError):
        cluster.writer.settle(patience=3)
    stop.set()
    if elected:
        election.release()
    return 1 if election.lost else code


def schedule_manifests(cluster, policies, report, stop, once):
    """Make passes until one places nothing more; a pod may make room for others, as for one with affinity to it."""
    while schedule_pending_pods(cluster, policies, report, stop) and not once and not stop.is_set():
        pass


def load_plugins(path):
    """Run a Python file that registers rules by `from scheduler import predicate, priority`. Raises PolicyError."""
    sys.modules["scheduler"] = sys.modules[__name__]  # also where this file is the main program
    try:
        runpy.run_path(path)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        place = f"{path}, line {lines[-1]}" if lines else path
        raise PolicyError(f"{place}: {type(error).__name__}: {one_line(error)}") from error


def explain_pod(cluster, policies, key, report):
    """Show where a pod would go now, even one that has a node, or that nobody would try. Return the exit code."""
    namespace, _, name = key.rpartition("/")
    namespace = namespace or "default"
    try:
        pods, _ = cluster.parse(Pod, cluster.list("pods", f"metadata.namespace={namespace},metadata.name={name}"))
        if not pods:
            log.error('pod "%s/%s" not found; write --explain NAMESPACE/NAME', namespace, name)
            return 1
        snapshot, pod, place = cluster.snapshot(policies), pods[0], pods[0].node_name
        if place in snapshot.nodes and pod.uid in snapshot.nodes[place].pods:
            snapshot.nodes[place].remove(pod)
        pod.node_name = ""
        decision = schedule(pod, snapshot, policies.get(pod.scheduler) or next(iter(policies.values())))
    except ApiError as error:
        log.error("%s", error)
        return 1
    state = (f"is on {place}" if place else "is being deleted" if pod.terminating else
             "has scheduling gates" if pod.gated else
             f"is left to {pod.scheduler}" if pod.scheduler not in policies else None)
    report(decision, f"{pod.key} {state}. If it were to be scheduled now:" if state else "")
    return 0


def outcome(manifests, policies, options, stop):
    """Schedule the pending pods of manifests under a Policy; return where they are then, and how full the nodes."""
    cluster = Cluster(copy.deepcopy(manifests))
    pending = sorted(pod.key for pod in cluster.pending_pods(policies))
    schedule_manifests(cluster, policies, lambda decision: None, stop, options.once)
    nodes = cluster.snapshot().nodes.values()
    places, result = {pod.key: node.name for node in nodes for pod in node.pods.values()}, {}
    for resource in ("cpu", "memory") if nodes else ():
        shares = [100 * node.requested[resource] / max(node.allocatable[resource], 1) for node in nodes]
        result[resource] = {"min": min(shares), "mean": statistics.mean(shares), "max": max(shares),
                            "standard deviation": statistics.pstdev(shares)}
    return {"pods": {key: places.get(key) for key in pending}, "utilization": result}


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output has gone, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
