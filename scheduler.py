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
import base64
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
import tempfile
import textwrap
import threading
import time
import traceback
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from urllib.parse import urlsplit

import requests
import yaml
from urllib3.exceptions import InsecureRequestWarning

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
    """Make one pass: list the pending pods, look at the cluster, place pod after pod. Return how many were bound."""
    pending = cluster.pending_pods(policies)
    if not pending:
        return 0
    snapshot = cluster.snapshot(policies)

    def decisions():
        """Decide about the pending pods one by one, then about those that a rule has held up (framework: Permit)."""
        for pod in with_progress(cluster.due(pending)):
            if stop.is_set():
                return
            decision = schedule(pod, snapshot, policies[pod.scheduler])
            # Assume that the Binding will succeed, so that the next pod of this pass sees this one on its node.
            yield assume(decision, snapshot)
        for decision in cluster.take_held(snapshot):
            yield permit(decision, snapshot)

    bound = 0
    try:
        for decision in decisions():
            if cluster.is_news(decision):
                report(decision)
            if decision.node is None:
                cluster.leave_pending(decision, snapshot)
            elif decision.held:
                cluster.hold(decision)
            else:
                cluster.bind(decision, snapshot)
                bound += 1
    finally:
        cluster.settle(snapshot, wait=True)
    return bound


def schedule(pod, snapshot, policy):
    """Choose a node for the pod: find the nodes that fit, prioritize them, select a host."""
    decision = Decision(pod, policy)
    try:
        RANDOM.throw_for(pod)
        if pod.beyond_us:
            raise Unschedulable(pod.beyond_us)
        if not snapshot.nodes:
            raise Unschedulable("no nodes available to schedule pods")
        fitting, decision.failed = nodes_that_fit(pod, snapshot, policy)
        if not fitting:
            raise Unschedulable(fit_error(decision.failed))
        decision.raw, decision.scores, decision.total = prioritize(pod, fitting, snapshot, policy)
        decision.node = select_host(decision.total)
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
        for title, predicate in predicates:
            reasons = list(predicate(pod, node))
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
    raw, scores = {}, {}
    for rule in policy.priorities:
        try:
            priority = rule.prepare(pod, fitting, snapshot)
            raw[rule.title] = {node.name: priority(pod, node) for node in fitting}
            points = in_range(rule, rule.reduce(raw[rule.title]))
        except Unschedulable:
            if len(fitting) > 1:
                raise
            continue  # kube-scheduler takes a single candidate unscored, and so meets no error either
        scores[rule.title] = {name: score * rule.weight for name, score in points.items()}
    for extender in policy.extenders:
        scores |= extender.prioritize(pod, fitting)
    start = 0 if policy.priorities or policy.extenders else 1  # with nothing to go by, every node is as good
    return raw, scores, {node.name: start + sum(points[node.name] for points in scores.values()) for node in fitting}


def select_host(total):
    """Take the node with the highest total; of several, any."""
    best = max(total.values())
    return RANDOM.choice([name for name, score in total.items() if score == best])


# =====================================================================================================================
# 2. The Policy
# =====================================================================================================================


@dataclass
class Rule:
    """A predicate or a priority: its function, and what the Policy says about it."""

    name: str
    function: callable
    metadata: callable = None  # computes, once per pod, what the function takes as `metadata`
    needs: tuple = ()  # the resources that it may look at in snapshot.objects
    reduce: callable = lambda points: points  # for a priority: turns the nodes' raw scores into 0 to 100
    pre_enqueue: callable = None  # these nine see to the other extension points of the framework: chapter 6
    queue_sort: callable = None
    post_filter: callable = None
    reserve: callable = None
    unreserve: callable = None
    permit: callable = None
    pre_bind: callable = None
    bind: callable = None
    post_bind: callable = None
    argument: object = None  # the member of an entry's `argument` that configures it; or {field: type} of all of this
    check: callable = lambda arguments: ()  # yields what is wrong with the arguments
    title: str = ""  # what the Policy calls it
    arguments: list = field(default_factory=list)  # what the Policy gives, else this; functions that want them get them
    weight: int = 1

    def prepare(self, pod, nodes, snapshot):
        """Return the rule as a function of (pod, node) alone, for this pod.

        Most rules are just that. One that looks further has a metadata function, which sees the pod, the nodes in
        question and the whole snapshot (legacy: predicate metadata; framework: PreFilter and PreScore).
        """
        if not self.metadata:
            return self.function
        return functools.partial(self.function, metadata=self.metadata(pod, nodes, snapshot))

    @property
    def summary(self):
        """Return what the rule says of itself: the first paragraph of its docstring."""
        function = self.metadata if self.function is score_among_all else self.function
        while isinstance(function, functools.partial):
            function = function.func
        return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


PREDICATES, PRIORITIES = {}, {}  # legacy name -> Rule, filled by the decorators


def register(catalogue, name, **options):
    """Return a decorator that makes a function the rule of this name."""

    def decorate(function):
        """Register the function, and return it as it is."""
        if name in catalogue:
            raise ValueError(f'there is a rule "{name}" already')
        catalogue[name] = Rule(name, function, **options)
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
}


@dataclass
class Policy:
    """The rules that are active, in the order in which they run."""

    predicates: list
    priorities: list
    extenders: list
    always_check_all: bool
    notices: list  # what the user should know of it, a line each
    others: list = field(default_factory=list)  # rules of which only other extension points are active

    @property
    def needs(self):
        """The resources that the active rules look at, beside nodes and pods."""
        return {resource for rule in self.predicates + self.priorities + self.others for resource in rule.needs}

    def hooks(self, point):
        """Return the functions of the active rules for an extension point, such as "reserve"."""
        return [hook for rule in self.predicates + self.priorities + self.others if (hook := getattr(rule, point))]


class PolicyError(Exception):
    """The Policy cannot be used. Each argument is a line: the entry, what is wrong with it, what would be right."""


def load_policies(path, scheduler_name):
    """Read a Policy file, JSON or YAML; like kube-scheduler, only its first document. Return {schedulerName: Policy}.

    It may be a KubeSchedulerConfiguration, too, or the name of an algorithm provider. Raises PolicyError.
    """
    try:
        document = PROVIDERS.get(path) or next(parse(Path(path).read_text("utf-8-sig")), None)
        if isinstance(document, dict) and document.get("kind") == "KubeSchedulerConfiguration":
            return read_configuration(document, scheduler_name)
        return Profiles({scheduler_name: build_policy(decode_policy(document))})
    except (OSError, ValueError) as error:
        raise PolicyError(f"{path}: {one_line(error)}") from error
    except PolicyError as error:
        raise PolicyError(*(f"{path}: {line}" for line in error.args)) from error


class PolicyFile:
    """A Policy file that may be edited at any time. Raises PolicyError if it is not good to begin with."""

    def __init__(self, path, scheduler_name):
        self.path, self.scheduler_name = path, scheduler_name
        self.policies, self.seen = None, "nothing yet"
        self.current()

    def signature(self):
        """Return what tells one state of the file from another."""
        with contextlib.suppress(OSError):
            stat = Path(self.path).stat()
            return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def current(self):
        """Return the Policies, read again if the file has changed. If it is broken, say so, and keep the last."""
        signature = self.signature()
        if signature != self.seen:
            self.seen = signature
            try:
                before, self.policies = self.policies, load_policies(self.path, self.scheduler_name)
                notices = [notice for policy in self.policies.values() for notice in policy.notices]
                for line in notices if before is None else changes(before, self.policies) + notices:
                    log.warning("%s: %s", self.path, line)
            except PolicyError as error:
                if self.policies is None:
                    raise
                for line in error.args:
                    log.error("%s; the last good Policy stays", line)
        return self.policies


def changes(before, after):
    """Return a line for each scheduler name on what is different, or one that nothing is."""
    lines = [f"+ profile {name}" for name in after if name not in before] + [
        f"- profile {name}" for name in before if name not in after]
    for name in [name for name in after if name in before]:
        line = ", ".join(policy_changes(before[name], after[name]))
        lines += [f"{name}: {line}" if len(after) > 1 else line] if line else []
    return lines or ["says the same as before"]


def policy_changes(before, after):
    """Yield what is different between two Policies: "+ HostName", "LeastRequestedPriority weight 1 → 5", ...."""
    for kind in ("predicates", "priorities", "others"):
        old, new = ({rule.title: rule for rule in getattr(policy, kind)} for policy in (before, after))
        yield from (f"+ {title}" for title in new if title not in old)
        yield from (f"- {title}" for title in old if title not in new)
        for title in old.keys() & new.keys():
            if old[title].weight != new[title].weight:
                yield f"{title} weight {old[title].weight} → {new[title].weight}"
            if old[title].arguments != new[title].arguments:
                yield f"{title} argument changed"
    if before.always_check_all != after.always_check_all:
        yield f"alwaysCheckAllPredicates {json.dumps(after.always_check_all)}"
    if [extender.config for extender in before.extenders] != [extender.config for extender in after.extenders]:
        yield "extenders changed"


# What a Policy may say: {field: type}, [type] for a list of it.
# Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types.go.
POLICY = {
    "predicates": [lambda entry: {"name": str, "argument": argument_fields(PREDICATES, entry, {
        "serviceAffinity": {"labels": [str]},
        "labelsPresence": {"labels": [str], "presence": bool}})}],
    "priorities": [lambda entry: {"name": str, "weight": int, "argument": argument_fields(PRIORITIES, entry, {
        "serviceAntiAffinity": {"label": str},
        "labelPreference": {"label": str, "presence": bool},
        "requestedToCapacityRatioArguments": {
            "shape": [{"utilization": int, "score": int}], "resources": [{"name": str, "weight": int}]}})}],
    "extenders": [dict],
    "hardPodAffinitySymmetricWeight": int,
    "alwaysCheckAllPredicates": bool,
}
EXTENDER = {
    "urlPrefix": str, "filterVerb": str, "preemptVerb": str, "prioritizeVerb": str, "bindVerb": str, "weight": int,
    "enableHttps": bool, "httpTimeout": int, "nodeCacheCapable": bool, "ignorable": bool,
    "managedResources": [{"name": str, "ignoredByScheduler": bool}],
    "tlsConfig": {"insecure": bool, "serverName": str, "certFile": str, "keyFile": str, "caFile": str,
                  "certData": bytes, "keyData": bytes, "caData": bytes},
}
EXTENDED_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
                               r"/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
TYPE_NAMES = {dict: "an object", list: "a list", str: "a string", int: "a whole number", bool: "true or false",
              bytes: "base64 text"}


def argument_fields(catalogue, entry, legacy):
    """Return what fields an entry's argument may have: those of the rule that it names, or one for each other rule."""
    rule = catalogue.get(str(entry.get("name"))) if isinstance(entry, dict) else None
    if rule and isinstance(rule.argument, dict):
        return rule.argument
    return {rule.argument: dict for rule in catalogue.values() if type(rule.argument) is str} | legacy


def decode_policy(document):
    """Check a document as strictly as kube-scheduler does, and return it without its nulls. Raises PolicyError."""
    document = {} if document is None else document
    if not isinstance(document, dict):
        raise PolicyError("expected a Policy: an object with kind, apiVersion, predicates and priorities")
    kind, version = ("" if document.get(key) is None else document[key] for key in ("kind", "apiVersion"))
    if kind not in ("", "Policy") or version not in ("", "v1", "kubescheduler.config.k8s.io/v1"):
        raise PolicyError(f'kind "{kind}", apiVersion "{version}": write kind Policy, apiVersion v1')
    body, problems = {k: v for k, v in document.items() if k not in ("kind", "apiVersion")}, []
    if not version and POLICY.keys() & body.keys():
        raise PolicyError("write kind Policy and apiVersion v1")
    # Without a version, kube-scheduler reads into its internal type, whose fields are spelled as in Go.
    policy = decode(body, POLICY, "", problems, str if version else lambda name: name[0].upper() + name[1:])
    policy["extenders"] = [decode(extender, EXTENDER, f"extenders[{i}]", problems, str.lower)
                           for i, extender in enumerate(policy.get("extenders", []))]
    if problems:
        raise PolicyError(*problems)
    return policy


def decode(value, schema, where, problems, spell=str):
    """Check a value against a schema, append what is wrong to `problems`, and return it without nulls.

    `spell` turns a field's name into the document's spelling. With str.lower the reading is lenient, as upstream reads
    extenders, by Go's own JSON package: names match in any case, and unknown fields are ignored.
    """
    expected, lenient = schema if isinstance(schema, type) else type(schema), spell is str.lower
    if value is None:
        return expected()
    if expected is bytes:
        try:
            return base64.b64decode(value, validate=True)
        except (TypeError, ValueError):
            value = str(value)
    if type(value) is not expected or (expected is int and not -(2**63) <= value < 2**63):
        problems.append(f"{where}: expected {TYPE_NAMES[expected]}, got {json.dumps(value, default=str)[:60]}")
        return expected()
    if isinstance(schema, list):
        return [decode(item, schema[0](item) if inspect.isfunction(schema[0]) else schema[0], f"{where}[{i}]", problems,
                       spell) for i, item in enumerate(value)]
    if not isinstance(schema, dict):
        return value
    fields, decoded = {spell(name): name for name in schema}, {}
    for key, item in value.items():
        name, place = fields.get(str(key).lower() if lenient else key), f"{where}.{key}".lstrip(".")
        if not name and not lenient:
            problems.append(f'{place}: unknown field{did_you_mean(key, fields)}')
        elif name and item is not None:
            decoded[name] = decode(item, schema[name], place, problems, spell)
    return decoded


def did_you_mean(word, known):
    """Return a hint at the known word nearest to this one, if there is one near."""
    near = difflib.get_close_matches(str(word), known, 1)
    return f'; did you mean "{near[0]}"?' if near else ""


def build_policy(document):
    """Find the rules that a decoded Policy names. Upstream: createFromConfig in pkg/scheduler/factory.go."""
    problems, notices, extenders = [], [], document["extenders"]
    entries = document.get("predicates", [{"name": name} for name in DEFAULT_PREDICATES])
    general = ALIASES["GeneralPredicates"] if any(e.get("name") == "GeneralPredicates" for e in entries) else []
    order = list(PREDICATES)
    order[2:2] = general  # GeneralPredicates comes right behind CheckNodeUnschedulable
    entries = entries + [{"name": name} for name in MANDATORY_PREDICATES]
    predicates = set_up(find("predicates", entries, PREDICATES, problems, notices), PREDICATES, problems, {
        "PodFitsResources": [resource.get("name") for extender in extenders for resource in extender.get(
            "managedResources", []) if resource.get("ignoredByScheduler")]})
    entries = document.get("priorities", [{"name": name, "weight": w} for name, w in DEFAULT_PRIORITIES.items()])
    priorities = set_up(find("priorities", entries, PRIORITIES, problems, notices), PRIORITIES, problems, {
        "InterPodAffinityPriority": [document.get("hardPodAffinitySymmetricWeight") or 1]})
    problems += [*weight_problems(entries), *extender_problems(extenders)]
    if not 0 <= document.get("hardPodAffinitySymmetricWeight", 0) <= 100:
        problems.append("hardPodAffinitySymmetricWeight: must be from 0 to 100")
    if problems:
        raise PolicyError(*problems)
    return Policy(sorted(predicates, key=lambda rule: order.index(rule.name)), merge_spreading(priorities),
                  extenders_of(extenders), document.get("alwaysCheckAllPredicates", False), notices)


def find(where, entries, catalogue, problems, notices):
    """Yield (rule name, what to call it, place, arguments, weight) for the rules that a Policy's entries mean.

    An entry under a rule's own name takes it as it is. One under a name of the user's own says by its argument which
    rule it means.
    """
    for i, entry in enumerate(entries):
        place, title, argument = f"{where}[{i}]", entry.get("name", ""), entry.get("argument")
        if title == "EqualPriority":
            continue  # a constant changes no ranking
        names, arguments = [name for name in ALIASES.get(title, [title]) if name in catalogue], []
        if title in catalogue and isinstance(catalogue[title].argument, dict):
            arguments = [] if argument is None else [argument]
        elif argument is not None and len(argument) != 1:
            problems.append(f"{place}: the argument must have exactly one member")
        elif names and argument:
            notices.append(f'{place}: "{title}" ignores its argument, as in kube-scheduler; use a name of your own')
        elif argument:
            [(member, value)] = argument.items()
            names, arguments = [rule.name for rule in catalogue.values() if rule.argument == member], [value]
        elif not names:
            noun = "predicate" if catalogue is PREDICATES else "priority"
            problems.append(f'{place}: unknown {noun} "{title}"'
                            f'{did_you_mean(title, [*catalogue, *ALIASES]) or "; is a file missing in --plugins?"}')
        for name in names:
            yield name, title if len(names) == 1 else name, place, arguments, entry.get("weight", 1)


def set_up(uses, catalogue, problems, settings=None):
    """Return the rules that are used, with their arguments; what is used several times makes one rule.

    `settings`: {rule: arguments} for those whose uses give none.
    """
    named, rules = {}, []
    for name, *use in uses:
        named.setdefault(name, []).append(use)
    for name, uses in named.items():
        rule, (titles, places, given, weights) = catalogue[name], zip(*uses)
        arguments = sum(given, []) or (settings or {}).get(name) or rule.arguments
        problems += [f"{places[-1]}: {problem}" for problem in rule.check(arguments)]
        parts = {part: functools.partial(function, arguments=arguments) for part, function in vars(rule).items()
                 if callable(function) and "arguments" in inspect.signature(function).parameters}
        # As upstream: the last weight counts, n uses with arguments weigh n times as much, of which 32 bits are left.
        times = max(1, sum(map(bool, given)))
        weight = weights[-1] * times % 2**32 or 1
        if weight >= 2**31 and weights[-1] > 0:
            problems.append(f"{places[-1]}.weight: must be from 1 to {2**31 - 1}, got {weights[-1]}"
                            + f" × {times}" * (times > 1))
        title = "+".join(dict.fromkeys(titles))
        rules.append(replace(rule, **parts, title=title, arguments=arguments, weight=weight))
    return rules


def merge_spreading(priorities):
    """Make one rule of SelectorSpreadPriority and EvenPodsSpreadPriority, as kube-scheduler has one plugin for both.

    It has the default constraints of the one and the weight of the other.
    """
    rules = {rule.name: rule for rule in priorities}
    if rules.keys() >= {"SelectorSpreadPriority", "EvenPodsSpreadPriority"}:
        both, even = rules["SelectorSpreadPriority"], rules.pop("EvenPodsSpreadPriority")
        rules[both.name] = replace(both, title=f"{both.title}+{even.title}", weight=even.weight)
    return list(rules.values())


def weight_problems(priorities):
    """Yield what is wrong with the weights. Upstream: ValidatePolicy in pkg/scheduler/apis/config/validation."""
    first = {}  # argument member -> (place, weight) of its first entry
    for i, entry in enumerate(priorities):
        place, weight = f"priorities[{i}]", entry.get("weight", 0)
        if not 0 < weight < (2**63 - 1) // 10:
            yield f"{place}.weight: must be from 1 to {2**31 - 1}, got {weight}"
        for member in entry.get("argument", {}):
            before, its_weight = first.setdefault(member, (place, weight))
            if member == "requestedToCapacityRatioArguments" and before != place:
                yield f"{place}: only one entry may have {member}, and {before} has"
            elif weight != its_weight:
                yield f"{place}.weight: must be {its_weight} as in {before}; all with {member} weigh the same"


def extenders_of(configs):
    """Return the extenders in the order in which they are asked: ignorable ones last."""
    extenders = [Extender(config, f"extenders[{i}]") for i, config in enumerate(configs)]
    return sorted(extenders, key=lambda extender: extender.ignorable)


def extender_problems(extenders):
    """Yield what is wrong with the extenders. Upstream: validateExtenders, and makeTransport in core/extender.go."""
    resources, binders = {}, [i for i, extender in enumerate(extenders) if extender.get("bindVerb")]
    if len(binders) > 1:
        yield f"extenders[{binders[1]}].bindVerb: only one extender may bind, and extenders[{binders[0]}] does"
    for i, extender in enumerate(extenders):
        if extender.get("prioritizeVerb") and extender.get("weight", 0) <= 0:
            yield f"extenders[{i}].weight: must be positive where there is a prioritizeVerb"
        for j, resource in enumerate(extender.get("managedResources", [])):
            name, place = resource.get("name", ""), f"extenders[{i}].managedResources[{j}].name"
            if not EXTENDED_RESOURCE.fullmatch(name) or "kubernetes.io/" in name or name.startswith("requests."):
                yield f'{place}: "{name}" is not the name of an extended resource, such as example.com/gpu'
            if resources.setdefault(name, place) != place:
                yield f'{place}: "{name}" is managed by {resources[name]} already'
        tls = extender.get("tlsConfig", {})
        if tls.get("insecure") and (tls.get("caFile") or tls.get("caData")):
            yield f"extenders[{i}].tlsConfig: give either a CA or insecure"
        has_certificate = (tls.get("certFile") or tls.get("certData")) and (tls.get("keyFile") or tls.get("keyData"))
        for file in ["ca"] + ["cert", "key"] * bool(has_certificate):
            path = tls.get(file + "File")
            if path and not tls.get(file + "Data") and not Path(path).is_file():
                yield f"extenders[{i}].tlsConfig.{file}File: there is no file {path}"


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


QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)")
SUFFIXES = {
    None: 1, "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}


@functools.lru_cache(maxsize=65536)
def quantity(text, unit=1):
    """Read a quantity such as 100m, 0.5, 1.5Gi, 129e6 or 2E, exactly, in 1/unit, rounded up.

    quantity("100m", 1000) is 100 (millicores), quantity("1.5Ki") is 1536. What exceeds 64 bits becomes their maximum.
    Upstream: ParseQuantity in k8s.io/apimachinery/pkg/api/resource.
    """
    match = QUANTITY.fullmatch(text)
    if not match:
        raise Malformed(f'"{text}" is not a quantity, such as 100m, 0.5 or 1.5Gi')
    number, exponent, suffix = match.groups()
    scale = Fraction(10) ** int(exponent) if exponent else SUFFIXES[suffix]
    return min(math.ceil(Fraction(number) * scale * unit), 2**63 - 1)


NOTHING = {"cpu": 0, "memory": 0, "ephemeral-storage": 0}
LITTLE = {"cpu": 100, "memory": 200 * 2**20}  # what a container counts for in scores if it does not say (non_zero.go)


def amounts(thing, *path):
    """Read a resource list: cpu in millicores, all else in units (bytes, devices), without the names that do not count.

    Beside cpu, memory and ephemeral-storage, "scalars" count: hugepages, attachable volumes and what has a domain in
    its name (extended resources). Upstream: Resource.Add in pkg/scheduler/framework/types.go.
    """
    counted = {}
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


def raise_to(total, least):
    """Raise resource amounts to at least these, in place."""
    total.update({name: amount for name, amount in least.items() if amount > total.get(name, 0)})


def pod_amounts(spec, overhead, default):
    """Return what a pod requests: max(its containers together, each init container alone) + overhead.

    A sidecar (an init container that restarts Always) runs on beside all that start after it. A container that does not
    name a resource counts for `default`. Upstream: PodRequests in k8s.io/component-helpers/resource.
    """
    total, peak, sidecars = {}, {}, {}
    for container in pick(spec, list, "containers", of=dict):
        add(total, default | amounts(container, "resources", "requests"))
    for container in pick(spec, list, "initContainers", of=dict):
        request = default | amounts(container, "resources", "requests")
        if container.get("restartPolicy") == "Always":
            add(sidecars, request)
            add(total, request)
            request = sidecars
        else:
            add(request, sidecars)
        raise_to(peak, request)
    raise_to(total, peak)
    total |= {name: amount for name, amount in amounts(spec, "resources", "requests").items()  # of the pod as a whole
              if name in ("cpu", "memory") or name.startswith("hugepages-")}
    add(total, overhead)
    return total


WHEN = "DuringSchedulingIgnoredDuringExecution"  # is required, or preferred


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
        self.told = next((pick(condition, str, "message")  # why it is said to be pending
                          for condition in pick(raw, list, "status", "conditions", of=dict)
                          if condition.get("type") == "PodScheduled" and condition.get("status") == "False"), None)
        self.priority = pick(spec, int, "priority")
        self.scheduler = pick(spec, str, "schedulerName") or "default-scheduler"
        self.gated = bool(pick(spec, list, "schedulingGates"))
        self.beyond_us = ("the pod has resourceClaims, which this scheduler cannot allocate"
                          if pick(spec, list, "resourceClaims") else None)
        self.node_name = pick(spec, str, "nodeName")
        self.labels = pick(raw, dict, "metadata", "labels", of=str)
        self.annotations = pick(raw, dict, "metadata", "annotations", of=str)
        self.node_selector = pick(spec, dict, "nodeSelector", of=str)
        self.tolerations = pick(spec, list, "tolerations", of=dict)
        self.is_affine = bool(pick(spec, dict, "affinity", "podAffinity") or pick(
            spec, dict, "affinity", "podAntiAffinity"))
        self.volumes = pick(spec, list, "volumes", of=dict)
        self.disks = [disk for volume in self.volumes for disk in disks_of(volume)]
        self.claims = [f"{self.namespace}/" + (  # an ephemeral volume's claim is named after the pod and the volume
            f"{self.name}-{volume['name']}" if "ephemeral" in volume else pick(
                volume, str, "persistentVolumeClaim", "claimName"))
            for volume in self.volumes if volume.get("persistentVolumeClaim") or volume.get("ephemeral")]
        containers = pick(spec, list, "containers", of=dict)
        self.images = [image_name(pick(container, str, "image")) for container in containers]
        ports = [port for container in containers for port in pick(container, list, "ports", of=dict)]
        self.host_ports = [  # (IP, protocol, port)
            (pick(port, str, "hostIP") or "0.0.0.0", pick(port, str, "protocol") or "TCP", pick(port, int, "hostPort"))
            for port in ports if pick(port, int, "hostPort") > 0]

        resources = [pick(container, dict, "resources") for container in containers]
        self.best_effort = not any(part.get("requests") or part.get("limits") for part in resources)
        overhead = amounts(spec, "overhead")
        self.requests = NOTHING | pod_amounts(spec, overhead, {})
        self.nonzero = pod_amounts(spec, overhead, LITTLE)  # for scores, once the pod is on a node
        if "cpu" in overhead:  # before that, upstream counts the overhead's cores, rounded up, as millicores
            overhead["cpu"] = quantity(str(spec["overhead"]["cpu"]))  # (calculatePodResourceRequest)
        self.nonzero_incoming = pod_amounts(spec, overhead, LITTLE)

    @functools.cached_property
    def required_terms(self):
        """The terms of required node affinity, of which one must match; None without such affinity."""
        required = pick(self.spec, dict, "affinity", "nodeAffinity").get(f"required{WHEN}")
        return None if required is None else valid_terms(pick(required, list, "nodeSelectorTerms", of=dict))

    @functools.cached_property
    def preferred_terms(self):
        """The (weight, term) pairs of preferred node affinity. Raises Unschedulable, with all that is wrong."""
        terms, problems = [], {}
        for preferred in pick(self.spec, list, "affinity", "nodeAffinity", f"preferred{WHEN}", of=dict):
            weight = pick(preferred, int, "weight")
            try:
                terms.append((weight, weight and node_selector_term(pick(preferred, dict, "preference"))))
            except InvalidSelector as error:
                problems[str(error)] = None  # once, as upstream's Aggregate does
        if problems:
            problem = ", ".join(problems)
            raise Unschedulable('running Score plugins: plugin "NodeAffinity" failed with: '
                                + (f"[{problem}]" if len(problems) > 1 else problem))
        return [(weight, term) for weight, term in terms if term]

    @functools.cached_property
    def affinity_terms(self):
        """The pod's inter-pod affinity and anti-affinity: {upstream's name of a list: its terms}, and what is invalid.

        A list with an invalid term counts as empty.
        """
        lists, problem = {}, None
        for side in ("Affinity", "AntiAffinity"):
            for when in ("required", "preferred"):
                name = f"{when}{side}Terms"
                try:
                    lists[name] = [AffinityTerm(self, term) for term in pick(
                        self.spec, list, "affinity", f"pod{side}", f"{when}{WHEN}", of=dict)]
                except InvalidSelector as error:
                    lists[name], problem = [], f"parsing pod: {name}: {error}"
        return lists, problem


DISK_IDENTITIES = {
    "gcePersistentDisk": ["pdName"], "awsElasticBlockStore": ["volumeID"], "iscsi": ["iqn"], "rbd": ["image", "pool"]}


def disks_of(volume):
    """Yield (identity, whether it may be shared, Ceph monitors) for a volume that is a network disk."""
    for source, fields in DISK_IDENTITIES.items():
        disk = pick(volume, dict, source)
        if disk:
            shared = pick(disk, bool, "readOnly") and source != "awsElasticBlockStore"
            monitors = set(pick(disk, list, "monitors", of=str)) if source == "rbd" else {None}
            yield (source, *(pick(disk, str, name) for name in fields)), shared, monitors


def image_name(name):
    """Return an image's name as nodes report it: with a tag. Upstream: normalizedImageName in imagelocality."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


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
        self.conditions = {pick(condition, str, "type"): pick(condition, str, "status")
                           for condition in pick(raw, list, "status", "conditions", of=dict)}
        self.facts = dict(vars(self))  # by which a change of the node is noticed
        self.raw = raw
        self.pods = {}  # uid -> Pod
        self.requested = dict(NOTHING)
        self.nonzero = {"cpu": 0, "memory": 0}

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

    def affine_pods(self):
        """Return the pods on the node that have inter-pod affinity or anti-affinity."""
        return [pod for pod in self.pods.values() if pod.is_affine]


@dataclass
class Snapshot:
    """The cluster as one pass sees it, with what the pass has placed so far."""

    nodes: dict  # name -> Node
    objects: "Objects"  # resource -> {namespace/name or name: the API's JSON}
    live: bool = False  # whether others will act on what is written: not in a dry run, nor among manifests


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
    """Read an entry of matchExpressions as (key, operator, values). Raises InvalidSelector.

    Upstream: NewRequirement in k8s.io/apimachinery/pkg/labels.
    """
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
            raise InvalidSelector(f'invalid label value: "{value}": at key: "{key}": ' + "; ".join(
                ["must be no more than 63 characters"] * (len(value) > 63) + [
                    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "
                    "must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
                    f"regex used for validation is '{LABEL_VALUE.pattern}')"] * (not LABEL_VALUE.fullmatch(value))))
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


@predicate("CheckNodeCondition")
def check_node_condition(pod, node):
    """The node is ready, has a network, and is not cordoned. (Up to 1.18; taints say so since.)"""
    if node.conditions.get("Ready", "True") != "True":
        yield "node(s) were not ready"
    if node.conditions.get("NetworkUnavailable", "False") != "False":
        yield "node(s) had unavailable network"
    if node.unschedulable:
        yield "node(s) were unschedulable"


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
    terms = pod.required_terms
    return pod.node_selector.items() <= node.labels.items() and (
        terms is None or any(term_matches(term, node) for term in terms))


@predicate("PodFitsResources")
def pod_fits_resources(pod, node, arguments):
    """The node has room for one more pod, and free of each resource what the pod requests.

    cpu, memory and ephemeral-storage count even where the pod requests none of them, other resources if the pod names
    them; a pod that requests nothing at all fits a full node. `arguments`: resources that others look after, or their
    groups: example.com/gpu, example.com/.
    """
    if len(node.pods) + 1 > node.max_pods:
        yield "Too many pods"
    if pod.requests != NOTHING:
        for name, amount in pod.requests.items():
            if node.allocatable.get(name, 0) < node.requested.get(name, 0) + amount and (
                    name not in arguments and name.partition("/")[0] + "/" not in arguments):
                yield f"Insufficient {name}"


def exclusive_claim_in_use(pod, nodes, snapshot):
    """Whether a claim of the pod is for one pod at a time (ReadWriteOncePod), and another one has it."""
    exclusive = {key for key in pod.claims if "ReadWriteOncePod" in pick(
        snapshot.objects["persistentvolumeclaims"].get(key, {}), list, "spec", "accessModes")}
    return bool(exclusive) and any(not exclusive.isdisjoint(other.claims) for node in nodes
                                   for other in node.pods.values())


@predicate("NoDiskConflict", metadata=exclusive_claim_in_use, needs=("persistentvolumeclaims",))
def no_disk_conflict(pod, node, metadata):
    """No pod there has a network disk that this pod mounts too, unless both mount it read-only (EBS: not even then)."""
    if metadata:
        yield "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
    for identity, shared, monitors in pod.disks:
        for other in node.pods.values():
            for other_identity, other_shared, other_monitors in other.disks:
                if identity == other_identity and monitors & other_monitors and not (shared and other_shared):
                    yield "node(s) had no available disk"
                    return


@predicate("PodToleratesNodeTaints")
def pod_tolerates_node_taints(pod, node):
    """The pod tolerates the node's NoSchedule and NoExecute taints; the first that it does not is the reason."""
    for key, value, _ in hostile_taints(pod, node):
        yield f"node(s) had taint {{{key}: {value}}}, that the pod didn't tolerate"
        return


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


@predicate("PodToleratesNodeNoExecuteTaints")
def pod_tolerates_node_no_execute_taints(pod, node):
    """The pod tolerates the node's NoExecute taints. (Up to 1.18.)"""
    if hostile_taints(pod, node, ["NoExecute"]):
        yield "node(s) had taints that the pod didn't tolerate"


def label_conflicts(arguments):
    """Yield what is wrong with labelsPresence arguments: a label wanted both there and not there."""
    wanted = {}
    for argument in arguments:
        for label in argument.get("labels", []):
            if wanted.setdefault(label, argument.get("presence", False)) != argument.get("presence", False):
                yield f'label "{label}" cannot be wanted both present and absent'


@predicate("CheckNodeLabelPresence", argument="labelsPresence", check=label_conflicts)
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
    selectors = [pick(service, dict, "spec", "selector", of=str) for service in in_namespace(pod, snapshot, "services")
                 if pick(service, dict, "spec").get("selector") is not None]
    return [selector for selector in selectors if selector.items() <= pod.labels.items()]


def in_namespace(pod, snapshot, resource):
    """Return the objects of a resource in the pod's namespace."""
    return [thing for key, thing in snapshot.objects[resource].items() if key.startswith(f"{pod.namespace}/")]


@predicate("CheckServiceAffinity", argument="serviceAffinity", metadata=service_pairs, needs=("services",))
def check_service_affinity(pod, node, metadata):
    """For the labels in the Policy, the node has the values that bind the pod's service."""
    if not metadata.items() <= node.labels.items():
        yield "node(s) didn't match service affinity"


VOLUMES = ("persistentvolumeclaims", "persistentvolumes", "storageclasses")
TOO_MANY_VOLUMES = "node(s) exceed max volume count"


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


def cloud_disks(pod, snapshot, kind, source, field):
    """Return what identifies the cloud disks of a kind that the pod has, inline or by claims.

    A disk that is yet to be provisioned is known by its claim. Upstream: nodevolumelimits/non_csi.go.
    """
    disks = {pick(volume, str, source, field) for volume in pod.volumes if volume.get(source)}
    for key, claim, volume in claims_of(pod, snapshot):
        storage_class = snapshot.objects["storageclasses"].get(pick(claim or {}, str, "spec", "storageClassName"), {})
        if volume and pick(volume, dict, "spec", source):
            disks.add(pick(volume, str, "spec", source, field))
        elif not volume and storage_class.get("provisioner") == f"kubernetes.io/{kind}":
            disks.add((key,))
    return disks


def max_volume_count(pod, node, metadata, kind, source, field, limit):
    """The node can attach the cloud disks of this kind that its pods and this one have; each counts once.

    The limit is the node's attachable-volumes resource, else KUBE_MAX_PD_VOLS, else `limit` (on AWS Nitro: 25).
    """
    disks = cloud_disks(pod, metadata, kind, source, field)
    if disks:
        instance_type = node.labels.get("beta.kubernetes.io/instance-type") or node.labels.get(
            "node.kubernetes.io/instance-type", "")
        if kind == "aws-ebs" and re.search("^[cmr]5.*|t3|z1d", instance_type):
            limit = 25
        limit = node.allocatable.get(f"attachable-volumes-{kind}", KUBE_MAX_PD_VOLS or limit)
        disks = disks.union(*(cloud_disks(other, metadata, kind, source, field) for other in node.pods.values()))
        if len(disks) > limit:
            yield TOO_MANY_VOLUMES


KUBE_MAX_PD_VOLS = int(os.environ["KUBE_MAX_PD_VOLS"]) if os.environ.get("KUBE_MAX_PD_VOLS", "").isdigit() else 0


def csi_volumes(pod, snapshot):
    """Return (driver, handle) of the CSI volumes that the pod claims; one to be provisioned is known by its claim."""
    volumes = set()
    for key, claim, volume in claims_of(pod, snapshot):
        provisioner = snapshot.objects["storageclasses"].get(class_of(claim or {}), {}).get("provisioner")
        if volume and pick(volume, dict, "spec", "csi"):
            volumes.add(tuple(pick(volume, str, "spec", "csi", part) for part in ("driver", "volumeHandle")))
        elif not volume and provisioner and provisioner not in MIGRATABLE:
            volumes.add((provisioner, (key,)))
    return volumes


MIGRATABLE = [f"kubernetes.io/{kind}"  # provisioners that once were built in, of which CSI knows otherwise
              for kind in ("aws-ebs", "gce-pd", "cinder", "azure-disk", "azure-file", "vsphere-volume")]


def max_csi_volume_count(pod, node, metadata):
    """For each CSI driver that gets new volumes, the node can attach all that its pods and this one have.

    A driver's limit is in the CSINode object, else in the node's allocatable. Upstream: nodevolumelimits/csi.go.
    """
    volumes = csi_volumes(pod, metadata)
    if not volumes:
        return
    attached = set().union(*(csi_volumes(other, metadata) for other in node.pods.values()))
    drivers = pick(metadata.objects["csinodes"].get(node.name, {}), list, "spec", "drivers", of=dict)
    limits = {driver.get("name"): pick(driver, dict, "allocatable").get("count") for driver in drivers}
    for driver in {driver for driver, _ in volumes - attached}:
        resource = f"attachable-volumes-csi-{driver}"
        if len(resource) >= 63:
            resource = f"attachable-volumes-csi-{driver[:23]}{hashlib.sha1(driver.encode()).hexdigest()[:16]}"
        limit = node.allocatable.get(resource) if limits.get(driver) is None else limits[driver]
        if limit is not None and sum(of == driver for of, _ in volumes | attached) > limit:
            yield TOO_MANY_VOLUMES
            return


for name, rule in {
        "MaxEBSVolumeCount": functools.partial(
            max_volume_count, kind="aws-ebs", source="awsElasticBlockStore", field="volumeID", limit=39),
        "MaxGCEPDVolumeCount": functools.partial(
            max_volume_count, kind="gce-pd", source="gcePersistentDisk", field="pdName", limit=16),
        "MaxCSIVolumeCountPred": max_csi_volume_count,
        "MaxAzureDiskVolumeCount": functools.partial(
            max_volume_count, kind="azure-disk", source="azureDisk", field="diskName", limit=16),
        "MaxCinderVolumeCount": functools.partial(
            max_volume_count, kind="cinder", source="cinder", field="volumeID", limit=256)}.items():
    predicate(name, metadata=whole_snapshot, needs=(*VOLUMES, "csinodes"))(rule)


def claims_to_bind(pod, nodes, snapshot):
    """Sort the pod's claims into bound ones and those that wait for the first consumer, smallest first.

    Rejects the pod if a claim is missing or going, or is to be bound by others first.
    """
    bound, delayed = [], []
    for key, claim, _ in claims_of(pod, snapshot):
        name = key.partition("/")[2]
        if not claim:
            raise Rejected(f'persistentvolumeclaim "{name}" not found')
        if pick(claim, str, "metadata", "deletionTimestamp"):
            raise Rejected(f'persistentvolumeclaim "{name}" is being deleted')
        has_volume = pick(claim, str, "spec", "volumeName")
        if has_volume and "pv.kubernetes.io/bind-completed" in pick(claim, dict, "metadata", "annotations"):
            bound.append(claim)
        else:
            delayed.append((claim, {} if has_volume else snapshot.objects["storageclasses"].get(class_of(claim), {})))
    if any(storage_class.get("volumeBindingMode") != "WaitForFirstConsumer" for _, storage_class in delayed):
        raise Rejected("pod has unbound immediate PersistentVolumeClaims")
    return bound, sorted(delayed, key=lambda pair: storage(pair[0], "resources", "requests")), snapshot


def volume_mode(thing):
    """Return the mode of a claim or a volume."""
    return pick(thing, str, "spec", "volumeMode") or "Filesystem"


def storage(thing, *path):
    """Return the bytes that a claim requests or a volume has."""
    return quantity(str(pick(thing, dict, "spec", *path).get("storage") or 0))


SELECTED_NODE = "volume.kubernetes.io/selected-node"


def bind_volumes(pod, node, snapshot):
    """Set volumes aside for the pod's claims, or ask for their provisioning; the PV controller and provisioners follow.

    The claims themselves thereby remember the node: later polls find the pod fit for no other until they are bound.
    """
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


@predicate("CheckVolumeBinding", metadata=claims_to_bind, needs=VOLUMES, pre_bind=bind_volumes,
           unreserve=release_volumes)
def check_volume_binding(pod, node, metadata):
    """The volumes of the pod's bound claims can be reached from the node, and for the others it has or gets volumes."""
    bound, delayed, snapshot = metadata
    for claim in bound:
        volume = snapshot.objects["persistentvolumes"].get(pick(claim, str, "spec", "volumeName"))
        if volume is None:
            yield "pvc(s) bound to non-existent pv(s)"
            break
        if not reaches(volume, node):
            yield "node(s) had volume node affinity conflict"
            break
    if find_volumes(delayed, node, snapshot) is None:
        yield "node(s) didn't find available persistent volumes to bind"


def find_volumes(delayed, node, snapshot):
    """Find a volume for each claim that waits for its first consumer; None for one to be provisioned.

    Returns (claim, volume) pairs, or None if the node cannot serve some claim. Upstream: volumebinding/binder.go.
    """
    found, taken = [], set()
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
    selector = label_selector(pick(claim, dict, "spec").get("selector") or {})
    for name, volume in snapshot.objects["persistentvolumes"].items():
        owner = pick(volume, dict, "spec", "claimRef")
        if owner and (any(owner.get(part) != mine.get(part) for part in ("name", "namespace"))
                      or owner.get("uid") not in (None, "", mine.get("uid"))):
            continue
        if (name in taken or storage(volume, "capacity") < wanted or pick(volume, str, "metadata", "deletionTimestamp")
                or volume_mode(volume) != volume_mode(claim) or class_of(volume) != class_of(claim)):
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
    if not pick(volume, dict, "spec", "nodeAffinity", "required"):
        return True
    terms = valid_terms(pick(volume, list, "spec", "nodeAffinity", "required", "nodeSelectorTerms", of=dict))
    return any(satisfies(node.labels, on_labels) for on_labels, _ in terms)


ZONE_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region",
               "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region")


@predicate("NoVolumeZoneConflict", metadata=whole_snapshot, needs=VOLUMES)
def no_volume_zone_conflict(pod, node, metadata):
    """The zone and region labels of the pod's volumes allow the node's. A claim that leads nowhere is an error."""
    if not any(label in node.labels for label in ZONE_LABELS):
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


@predicate("CheckNodeMemoryPressure")
def check_node_memory_pressure(pod, node):
    """The node is not under memory pressure, or the pod is not best-effort: it requests something. (Up to 1.18.)"""
    if node.conditions.get("MemoryPressure") == "True" and pod.best_effort:
        yield "node(s) had memory pressure"


def check_node_pressure(pod, node, kind):
    """The node is not under this kind of pressure. (Up to 1.18.)"""
    if node.conditions.get(f"{kind}Pressure") == "True":
        yield f"node(s) had {kind.lower()} pressure"


for kind in ("PID", "Disk"):
    predicate(f"CheckNode{kind}Pressure")(functools.partial(check_node_pressure, kind=kind))


@dataclass
class Spread:
    """A topology spread constraint of a pod."""

    key: str
    max_skew: int
    requirements: list  # on the pods that it counts
    min_domains: int  # with fewer, one is taken to be empty
    node_affinity: str  # unless "Ignore", nodes that the pod does not want are no domains
    node_taints: str  # if "Honor", nodes whose taints it does not tolerate are none

    def counts(self, pod, node):
        """Count the pods on a node that matter to this constraint of the pod."""
        return sum(not other.terminating and other.namespace == pod.namespace
                   and satisfies(other.labels, self.requirements) for other in node.pods.values())

    def includes(self, pod, node):
        """Say whether the constraint takes the node into account."""
        return (self.node_affinity == "Ignore" or wants_node(pod, node)) and (
            self.node_taints != "Honor" or not hostile_taints(pod, node))


OWNERS = ("services", "replicationcontrollers", "replicasets", "statefulsets")


def spread_constraints(pod, when, stage, snapshot, arguments):
    """Return the pod's constraints with this whenUnsatisfiable; an invalid one fails the attempt, at this stage.

    A pod that has none of any kind gets those in `arguments`, for the pods that the same Services,
    ReplicationControllers, ReplicaSets and StatefulSets select. Upstream: buildDefaultConstraints in podtopologyspread.
    """
    raws, owned = pick(pod.spec, list, "topologySpreadConstraints", of=dict), []
    try:
        if not raws and any(constraint["whenUnsatisfiable"] == when for constraint in sum(arguments, [])):
            for resource in OWNERS:
                selectors = [pick(owner, dict, "spec", "selector") for owner in in_namespace(pod, snapshot, resource)]
                with contextlib.suppress(InvalidSelector):  # upstream, too, goes on without the whole kind
                    selectors = [label_selector({"matchLabels": selector} if resource in OWNERS[:2] else selector)
                                 for selector in selectors]
                    owned += sum((selector for selector in selectors if satisfies(pod.labels, selector)), [])
            raws = sum(arguments, []) if owned else []
        return [Spread(
            pick(raw, str, "topologyKey"), pick(raw, int, "maxSkew"),
            owned or with_label_keys(label_selector(raw.get("labelSelector")), pod.labels, raw),
            pick(raw, int, "minDomains"), pick(raw, str, "nodeAffinityPolicy"), pick(raw, str, "nodeTaintsPolicy"))
            for raw in raws if raw.get("whenUnsatisfiable") == when]
    except InvalidSelector as error:
        raise Unschedulable(f"running {stage} topology spread constraints: {error}") from error


def hard_spread(pod, nodes, snapshot, arguments):
    """The pod's DoNotSchedule constraints, each with its domains {value: matching pods there} and the least number."""
    constraints = spread_constraints(
        pod, "DoNotSchedule", 'PreFilter plugin "PodTopologySpread": obtaining pod\'s hard', snapshot, arguments)
    spread = []
    for constraint in constraints:
        eligible = [node for node in nodes if constraint.includes(pod, node)
                    and all(other.key in node.labels for other in constraints)]
        domains = {node.labels[constraint.key]: 0 for node in eligible}
        # In a domain, 1.20 counts the pods on all nodes, later versions, which have these policies, on eligible ones.
        for node in eligible if constraint.node_affinity or constraint.node_taints else nodes:
            if node.labels.get(constraint.key) in domains:
                domains[node.labels[constraint.key]] += constraint.counts(pod, node)
        least = min(domains.values(), default=0) if len(domains) >= constraint.min_domains else 0
        spread.append((constraint, domains, least))
    return spread


@predicate("EvenPodsSpread", metadata=hard_spread, needs=OWNERS)
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


def affine_domains(pod, nodes, snapshot):
    """The (topology key, value) domains with pods that the pod must be with, must not be with, and that repel it.

    With the terms of what it must be with, and whether it may go anywhere as the first pod of its group.
    """
    own, problem = pod.affinity_terms
    if problem:
        raise Rejected(problem)
    wanted, unwanted = own["requiredAffinityTerms"], own["requiredAntiAffinityTerms"]
    together, apart, repelling = set(), set(), set()
    for node in nodes:
        for other in node.pods.values() if wanted or unwanted else node.affine_pods():
            hostile = other.affinity_terms[0]["requiredAntiAffinityTerms"]
            for domains, terms in (
                    (together, wanted if all(term.selects(other, snapshot) for term in wanted) else []),
                    (apart, [term for term in unwanted if term.selects(other, snapshot)]),
                    (repelling, [term for term in hostile if term.selects(pod, snapshot)])):
                domains.update((term.key, node.labels[term.key]) for term in terms if term.key in node.labels)
    # The first pod of a group that wants to be together has nobody to join, and may go anywhere.
    first = not together and all(term.selects(pod, snapshot) for term in wanted)
    return wanted, together, first, apart, repelling


@predicate("MatchInterPodAffinity", metadata=affine_domains, needs=("namespaces",))
def match_inter_pod_affinity(pod, node, metadata):
    """In the node's domains are the pods that the pod must be with, none that it must not, and none that repel it."""
    wanted, together, first, apart, repelling = metadata
    here, reason = node.labels.items(), None
    if not all(term.key in node.labels and (first or (term.key, node.labels[term.key]) in together) for term in wanted):
        reason = "node(s) didn't match pod affinity rules"
    elif not apart.isdisjoint(here):
        reason = "node(s) didn't match pod anti-affinity rules"
    elif not repelling.isdisjoint(here):
        reason = "node(s) didn't satisfy existing pods anti-affinity rules"
    if reason:
        yield "node(s) didn't match pod affinity/anti-affinity"
        yield reason


# =====================================================================================================================
# 5. Priorities
# =====================================================================================================================


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


CPU_AND_MEMORY = {"cpu": 1, "memory": 1}


def usage(pod, node, weights=CPU_AND_MEMORY):
    """Yield for each resource what would be requested with the pod there, what there is, and the resource's weight."""
    for name, weight in weights.items():
        if name in LITTLE:
            used = node.nonzero[name] + pod.nonzero_incoming.get(name, 0)
        else:
            used = node.requested.get(name, 0) + pod.requests.get(name, 0)
        yield used, node.allocatable.get(name, 0), weight


def mean_share(pod, node, weights, part):
    """Return the weighted mean of part(used, there) in percent of what there is; what is short counts 0."""
    return sum(100 * part(used, there) // there * weight if there >= used and there else 0
               for used, there, weight in usage(pod, node, weights)) // sum(weights.values())


@priority("LeastRequestedPriority", arguments=[CPU_AND_MEMORY])
def least_requested(pod, node, arguments):
    """The share of cpu and memory that stays free, in percent, averaged: spreads the load.

    `arguments`: {resource: weight} for the mean, as a KubeSchedulerConfiguration may have it.
    """
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
    if not arguments or not arguments[0].get("shape"):
        yield "needs requestedToCapacityRatioArguments with at least one point in shape"
        return
    points = [(point.get("utilization", 0), point.get("score", 0)) for point in arguments[0]["shape"]]
    if any(left >= right for (left, _), (right, _) in zip(points, points[1:])):
        yield "the utilization values of shape must ascend"
    if not all(0 <= utilization <= 100 and 0 <= score <= 10 for utilization, score in points):
        yield "shape goes from utilization 0 to 100 and from score 0 to 10"
    for resource in arguments[0].get("resources", []):
        if resource.get("weight", 0) < 1:
            yield f'the weight of resource "{resource.get("name", "")}" must be at least 1'


@priority("RequestedToCapacityRatio", argument="requestedToCapacityRatioArguments", check=shape_problems)
def requested_to_capacity_ratio(pod, node, arguments):
    """Weighted mean over the Policy's resources of a function of their utilization, drawn by the points of `shape`.

    A resource for which the function is 0 is left out of the mean.
    """
    shape = [(point.get("utilization", 0), 10 * point.get("score", 0)) for point in arguments[0]["shape"]]
    weights = {resource.get("name", ""): resource["weight"] for resource in arguments[0].get("resources", [])}
    score_sum = weight_sum = 0
    for used, there, weight in usage(pod, node, weights):
        score = along(shape, 100 - (there - used) * 100 // there if there else 100)
        if score > 0:
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
    return sum(weight for weight, term in pod.preferred_terms if term_matches(term, node))


@priority("TaintTolerationPriority", reduce=normalize_reversed)
def taint_toleration(pod, node):
    """The number of PreferNoSchedule taints that the pod does not tolerate; the fewer, the better."""
    return len(hostile_taints(pod, node, ["PreferNoSchedule"]))


def image_shares(pod, nodes, snapshot):
    """For each image of the pod: its size in bytes times the share of all nodes that have it."""
    shares = {}
    for image in pod.images:
        sizes = [node.images[image] for node in snapshot.nodes.values() if image in node.images]
        shares[image] = int(sizes[0] * (len(sizes) / len(snapshot.nodes))) if sizes else 0
    return shares


@priority("ImageLocalityPriority", metadata=image_shares)
def image_locality(pod, node, metadata):
    """How many bytes of the pod's images are there already, from 23 MiB (0) to 1000 MiB a container (100).

    An image that few nodes have counts for less, lest all its pods crowd there.
    """
    lowest, highest = 23 * 2**20, 1000 * 2**20 * len(pod.images)
    there = sum(metadata[image] for image in pod.images if image in node.images)
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


@priority("NodeLabel", argument="labelPreference", check=label_preference_problems)
def node_label(pod, node, arguments):
    """The share of the Policy's labelPreference entries that the node meets: the label is there, or is not."""
    met = sum((argument.get("label", "") in node.labels) == argument.get("presence", False) for argument in arguments)
    return 100 * met // len(arguments)


def soft_spread(pod, nodes, snapshot, arguments):
    """Score the nodes by the pod's ScheduleAnyway constraints, or default ones: {node: weighed number of pods around}.

    Domains of many values weigh more. A node without some topology key is out (None). Upstream: podtopologyspread.
    """
    constraints = spread_constraints(
        pod, "ScheduleAnyway", 'PreScore plugin "PodTopologySpread": calculating preScoreState: obtaining pod\'s soft',
        snapshot, arguments)

    def complete(node):
        return all(constraint.key in node.labels for constraint in constraints)

    scores = {node.name: 0.0 if complete(node) else None for node in nodes}
    candidates = [node for node in nodes if complete(node)]
    for constraint in constraints:
        if constraint.key == HOSTNAME:  # every candidate counts for itself
            counted, domain = candidates, lambda node: node.name
        else:
            counted = [node for node in snapshot.nodes.values() if complete(node) and constraint.includes(pod, node)]
            domain = lambda node, key=constraint.key: node.labels[key]
        counts = collections.Counter()
        for node in counted:
            counts[domain(node)] += constraint.counts(pod, node)
        weight = math.log(len({domain(node) for node in candidates}) + 2)
        for node in candidates:
            scores[node.name] += counts[domain(node)] * weight + (constraint.max_skew - 1)
    return {name: score if score is None else int(score) for name, score in scores.items()}


HOSTNAME = "kubernetes.io/hostname"
DEFAULT_SPREAD = [{"topologyKey": HOSTNAME, "maxSkew": 3, "whenUnsatisfiable": "ScheduleAnyway"},
                  {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 5, "whenUnsatisfiable": "ScheduleAnyway"}]


def normalize_spread(points):
    """Turn counts around, so that the fewest pods make 100; a node that is out gets 0."""
    counts = [count for count in points.values() if count is not None]
    least, most = min(counts, default=0), max(counts, default=0)
    return {name: 0 if count is None else 100 * (most + least - count) // most if most else 100
            for name, count in points.items()}


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


@priority("EvenPodsSpreadPriority", metadata=soft_spread, reduce=normalize_spread, needs=OWNERS)
@priority("SelectorSpreadPriority", metadata=soft_spread, reduce=normalize_spread, needs=OWNERS,
          arguments=[DEFAULT_SPREAD])
@priority("ServiceAffinity", metadata=service_spread, needs=("services",), argument="serviceAntiAffinity",
          check=needs_argument)
def score_among_all(pod, node, metadata):
    """What the metadata function has worked out for the node, by looking at all of them together."""
    return metadata[node.name]


def affine_scores(pod, nodes, snapshot, arguments):
    """For each (topology key, value) domain, the weights of preferred terms that draw the pod there, or push it away.

    Terms of the pod and of those there count, and required affinity of those there, at the weight in `arguments`.
    """
    own, problem = pod.affinity_terms
    if problem:
        raise Unschedulable(f'running PreScore plugin "InterPodAffinity": {problem}')
    scores, all_count = collections.Counter(), own["preferredAffinityTerms"] or own["preferredAntiAffinityTerms"]
    for node in snapshot.nodes.values():
        for other in node.pods.values() if all_count else node.affine_pods():
            theirs, _ = other.affinity_terms
            for terms, selected, weight in (
                    (own["preferredAffinityTerms"], other, 1), (own["preferredAntiAffinityTerms"], other, -1),
                    (theirs["preferredAffinityTerms"], pod, 1), (theirs["preferredAntiAffinityTerms"], pod, -1),
                    (theirs["requiredAffinityTerms"], pod, arguments[0])):
                for term in terms:
                    if term.key in node.labels and term.selects(selected, snapshot):
                        scores[term.key, node.labels[term.key]] += weight * (term.weight or 1)
    return scores


def normalize_affinity(points):
    """Stretch scores from the lowest (or 0) to the highest (or 0) to 0 to 100."""
    low, high = min(0, *points.values()), max(0, *points.values())
    return {name: int(100 * ((score - low) / (high - low))) if high > low else 0 for name, score in points.items()}


@priority("InterPodAffinityPriority", metadata=affine_scores, reduce=normalize_affinity, needs=("namespaces",))
def inter_pod_affinity(pod, node, metadata):
    """The summed weights of the preferences for and against the domains that the node is in."""
    return sum(metadata[pair] for pair in node.labels.items())


class Dice(random.Random):
    """What breaks ties. With a seed, each pod has throws of its own, so that its decision can be replayed alone."""

    base = None

    def throw_for(self, pod):
        """Begin with a pod."""
        if self.base is not None:
            self.seed(f"{self.base} {pod.key}")


RANDOM = Dice()


@priority("RandomPriority")
def random_priority(pod, node):
    """Any score: the tutorials' random scheduler as a priority of ours."""
    return RANDOM.randint(0, 100)


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
    node: str = None  # the chosen node
    failed: dict = field(default_factory=dict)  # node -> predicate -> the reasons why it does not fit
    raw: dict = field(default_factory=dict)  # priority -> node -> the score as the rule gave it
    scores: dict = field(default_factory=dict)  # priority -> node -> score, 0 to 100, x weight
    total: dict = field(default_factory=dict)  # node that fits -> the sum of its scores
    message: str = None  # without a node: why, in kube-scheduler's words
    nominated: str = None  # without a node: one on which a rule has made room
    held: bool = False  # whether a rule does not permit the binding yet
    requests: list = ()  # what rules want to be sent before the Binding: lists, or None
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
    if isinstance(error, ApiError):
        raise error
    decision.node, decision.message = None, str(error)
    if not isinstance(error, (Unschedulable, Malformed)):
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
    """Put the pod on its node, with the consent of the rules that reserve and permit. Return the decision."""
    pod, policy, node = decision.pod, decision.policy, snapshot.nodes.get(decision.node)
    try:
        if node:
            node.add(pod)
            for hook in policy.hooks("reserve"):
                hook(pod, node, snapshot)
        elif decision.failed and len(decision.failed) == len(snapshot.nodes):
            nominated = (hook(pod, decision.failed, snapshot) for hook in policy.hooks("post_filter"))
            decision.nominated = next(filter(None, nominated), None)
    except Exception as error:
        if node:
            node.remove(pod)
        give_up(decision, error)
    return permit(decision, snapshot) if decision.node else decision


def permit(decision, snapshot):
    """Make the decision one to be carried out or held, or take the pod off its node again. Return the decision."""
    pod, policy, node = decision.pod, decision.policy, snapshot.nodes.get(decision.node)
    try:
        if not node:
            raise Unschedulable(f"node {decision.node} has gone")
        waits = [seconds for hook in policy.hooks("permit") if (seconds := hook(pod, node, snapshot))]
        if waits and time.monotonic() - decision.since >= min(waits):
            raise Unschedulable(f'pod "{pod.name}" rejected while waiting on permit: rejected due to timeout after '
                                f"waiting {min(waits):g}s")
        decision.held = bool(waits)
        if not waits:
            decision.requests = [hook(pod, node, snapshot) for hook in policy.hooks("pre_bind")]
    except Exception as error:
        if node:
            node.remove(pod)
        give_up(decision, error)
    return decision


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
    "NodeResourcesLeastAllocated": (None, "LeastRequestedPriority"), "CinderLimits": ("MaxCinderVolumeCount", None),
    "NodeResourcesMostAllocated": (None, "MostRequestedPriority"), "SelectorSpread": (None, "SelectorSpreadPriority"),
    "NodeLabel": ("CheckNodeLabelPresence", "NodeLabel"),
    "ServiceAffinity": ("CheckServiceAffinity", "ServiceAffinity"),
    "RequestedToCapacityRatio": (None, "RequestedToCapacityRatio"),
    "PrioritySort": (None, None), "SchedulingGates": (None, None),  # the script does as these three do
    "DefaultBinder": (None, None), "DefaultPreemption": (None, None),  # ... and it preempts nobody
}
# Upstream: getDefaultConfig in pkg/scheduler/algorithmprovider (1.20), getDefaultPlugins in apis/config/v1* (later).
FILTERS = dict.fromkeys(name for name, (filter, _) in PLUGINS.items()
                        if filter and name not in ("CinderLimits", "NodeLabel", "ServiceAffinity"))
BETA_SCORES = {"NodeResourcesBalancedAllocation": 1, "ImageLocality": 1, "InterPodAffinity": 1, "NodeResourcesFit": 1,
               "NodeAffinity": 1, "PodTopologySpread": 2, "TaintToleration": 1}
BETA_POINTS = {"filter": FILTERS, "score": BETA_SCORES, **dict.fromkeys(["reserve", "preBind"], {"VolumeBinding": 0})}
DEFAULT_PLUGINS = {  # version -> extension point -> {plugin: weight}
    "v1beta1": {**BETA_POINTS, "score": {
        "NodeResourcesLeastAllocated" if name == "NodeResourcesFit" else name: weight
        for name, weight in BETA_SCORES.items()} | {"NodePreferAvoidPods": 10000}},
    "v1beta2": BETA_POINTS,
    "v1": {"multiPoint": {**FILTERS, "TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2,
                          "InterPodAffinity": 2, "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1}},
}
DEFAULT_PLUGINS["v1beta3"] = DEFAULT_PLUGINS["v1"]
POINTS = {"preEnqueue": "pre_enqueue", "queueSort": "queue_sort", "postFilter": "post_filter", "reserve": "reserve",
          "permit": "permit", "preBind": "pre_bind", "bind": "bind", "postBind": "post_bind"}
GROUP = "kubescheduler.config.k8s.io/"
PROVIDERS = {  # what --policy may name instead of a file
    "DefaultProvider": {"kind": "KubeSchedulerConfiguration", "apiVersion": f"{GROUP}v1beta1"},
    "ClusterAutoscalerProvider": {"kind": "KubeSchedulerConfiguration", "apiVersion": f"{GROUP}v1beta1", "profiles": [
        {"plugins": {"score": {"disabled": [{"name": "NodeResourcesLeastAllocated"}],
                               "enabled": [{"name": "NodeResourcesMostAllocated", "weight": 1}]}}}]},
}

PLUGIN_SET = {"enabled": [{"name": str, "weight": int}], "disabled": [{"name": str, "weight": int}]}
RESOURCES = [{"name": str, "weight": int}]
CONFIGURATION = {
    "profiles": [{"schedulerName": str, "pluginConfig": [{"name": str, "args": dict}], "percentageOfNodesToScore": int,
                  "plugins": dict.fromkeys([*POINTS, "preFilter", "filter", "preScore", "score", "multiPoint"],
                                           PLUGIN_SET)}],
    "leaderElection": {"leaderElect": bool, "leaseDuration": str, "renewDeadline": str, "retryPeriod": str,
                       "resourceLock": str, "resourceName": str, "resourceNamespace": str},
    "extenders": [dict], "clientConnection": dict, "parallelism": int, "percentageOfNodesToScore": int,
    "podInitialBackoffSeconds": int, "podMaxBackoffSeconds": int, "healthzBindAddress": str,
    "metricsBindAddress": str, "enableProfiling": bool, "enableContentionProfiling": bool,
    "delayCacheUntilActive": bool,
}
PLUGIN_ARGUMENTS = {  # those that change what a plugin decides
    "NodeAffinity": {"addedAffinity": dict},
    "NodeResourcesFit": {"ignoredResources": [str], "ignoredResourceGroups": [str], "scoringStrategy": {
        "type": str, "resources": RESOURCES,
        "requestedToCapacityRatio": {"shape": [{"utilization": int, "score": int}]}}},
    "InterPodAffinity": {"hardPodAffinityWeight": int},
    "PodTopologySpread": {"defaultingType": str, "defaultConstraints": [
        {"maxSkew": int, "topologyKey": str, "whenUnsatisfiable": str}]},
    "NodeResourcesLeastAllocated": {"resources": RESOURCES}, "NodeResourcesMostAllocated": {"resources": RESOURCES},
    "NodeResourcesBalancedAllocation": {"resources": RESOURCES},
    "RequestedToCapacityRatio": {"shape": [{"utilization": int, "score": int}], "resources": RESOURCES},
    "NodeLabel": {"presentLabels": [str], "absentLabels": [str],
                  "presentLabelsPreference": [str], "absentLabelsPreference": [str]},
    "ServiceAffinity": {"affinityLabels": [str], "antiAffinityLabelsPreference": [str]},
    "VolumeBinding": {"bindTimeoutSeconds": int},  # nothing waits here but the pod
    "DefaultPreemption": {"minCandidateNodesPercentage": int, "minCandidateNodesAbsolute": int},
}
STRATEGIES = {"LeastAllocated": "LeastRequestedPriority", "MostAllocated": "MostRequestedPriority",
              "RequestedToCapacityRatio": "RequestedToCapacityRatio"}
RULE_ARGUMENTS = {  # rule -> what its arguments are by those of its plugin
    "PodFitsResources": lambda args: args.get("ignoredResources", []) + [
        f"{group}/" for group in args.get("ignoredResourceGroups", [])],
    "EvenPodsSpread": lambda args: [default_spread(args)],
    "SelectorSpreadPriority": lambda args: [default_spread(args)],
    "InterPodAffinityPriority": lambda args: [args.get("hardPodAffinityWeight", 1)],
    "LeastRequestedPriority": lambda args: [weights(args)],
    "MostRequestedPriority": lambda args: [weights(args)],
    "RequestedToCapacityRatio": lambda args: [{**args.get("requestedToCapacityRatio", args), "resources": [
        {"name": name, "weight": weight} for name, weight in weights(args).items()]}],
    "CheckNodeLabelPresence": lambda args: [
        {"labels": args.get("presentLabels", []), "presence": True}, {"labels": args.get("absentLabels", [])}],
    "NodeLabel": lambda args: [
        {"label": label, "presence": True} for label in args.get("presentLabelsPreference", [])] + [
        {"label": label} for label in args.get("absentLabelsPreference", [])],
    "CheckServiceAffinity": lambda args: [{"labels": args.get("affinityLabels", [])}],
    "ServiceAffinity": lambda args: [{"label": label} for label in args.get("antiAffinityLabelsPreference") or [""]],
}
ELECTION = {"leaseDuration": 15, "renewDeadline": 10, "retryPeriod": 2}  # seconds, as kube-scheduler's


class Profiles(dict):
    """{schedulerName: Policy}, with what a KubeSchedulerConfiguration says of leader election."""

    election = {}


def read_configuration(document, scheduler_name):
    """Return {schedulerName: Policy} of a KubeSchedulerConfiguration. Raises PolicyError.

    A single profile without a name gets `scheduler_name`.
    """
    version, problems = str(document.get("apiVersion")).removeprefix(GROUP), []
    if version not in DEFAULT_PLUGINS:
        raise PolicyError(f'apiVersion "{document.get("apiVersion")}": write one of '
                          + ", ".join(GROUP + known for known in sorted(DEFAULT_PLUGINS)))
    body = decode({key: value for key, value in document.items() if key not in ("kind", "apiVersion")},
                  CONFIGURATION, "", problems)
    extenders = []
    for i, extender in enumerate(body.get("extenders", [])):
        timeout = seconds_in(extender, "httpTimeout", f"extenders[{i}]", problems) or 0
        extenders.append(decode(extender | {"httpTimeout": int(timeout * 10**9)}, EXTENDER, f"extenders[{i}]", problems,
                                lambda name: name.replace("Https", "HTTPS")))
    problems += extender_problems(extenders)
    policies, profiles, election = Profiles(), body.get("profiles") or [{}], body.get("leaderElection", {})
    policies.election = election | {
        name: seconds_in(election, name, "leaderElection", problems) or default for name, default in ELECTION.items()}
    times = [policies.election[name] for name in ELECTION]
    if policies.election.get("leaderElect") and not times[0] > times[1] > times[2]:
        problems.append("leaderElection: expected leaseDuration > renewDeadline > retryPeriod")
    for i, profile in enumerate(profiles):
        name, place = profile.get("schedulerName") or (scheduler_name if len(profiles) == 1 else ""), f"profiles[{i}]"
        if not name or name in policies:
            problems.append(f"{place}.schedulerName: each profile needs one of its own")
        policies[name] = read_profile(profile, version, extenders, place, problems)
    if problems:
        raise PolicyError(*problems)
    return policies


def seconds_in(thing, name, place, problems):
    """Return a field with a duration such as 15s, 1m30s or 500ms in seconds, None if it is not there."""
    text = thing.get(name)
    parts = re.findall(r"([0-9]+(?:\.[0-9]*)?)(ms|s|m|h)", str(text))
    if "".join(map("".join, parts)) == text:
        return sum(float(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit] for number, unit in parts)
    if text is not None:
        problems.append(f'{place}.{name}: "{text}" is not a duration, such as 15s or 1m30s')


def read_profile(profile, version, extenders, place, problems):
    """Return a profile as a Policy; append what is wrong with it."""
    plugins, notices = profile.get("plugins", {}), []
    arguments = plugin_arguments(profile, place, problems, notices)

    def uses(point, catalogue, which):
        """Return the rules that are enabled at a point, each as `find` has it, once."""
        found = {}
        for plugin, weight in enabled(point, plugins, version).items():
            rule, args = PLUGINS.get(plugin, (plugin, plugin))[which], arguments.get(plugin, {})
            if plugin == "NodeResourcesFit" and catalogue is PRIORITIES:
                args = args.get("scoringStrategy", {})
                rule = STRATEGIES.get(args.get("type") or "LeastAllocated")
            if rule in catalogue:
                read = RULE_ARGUMENTS.get(rule, lambda args: [args] if args else [])
                found[rule] = rule, rule, f"{place}.plugins.{point}: {plugin}", read(args), weight or 1
        return found.values()

    policy = Policy(set_up(uses("filter", PREDICATES, 0), PREDICATES, problems),
                    set_up(uses("score", PRIORITIES, 1), PRIORITIES, problems), extenders_of(extenders), False, notices)
    points = {attribute: enabled(point, plugins, version) for point, attribute in POINTS.items()}
    points["unreserve"] = points["reserve"]
    # Rules that neither filter nor score may have other extension points; of all rules, only those that are enabled.
    catalogue, used = PRIORITIES | PREDICATES, {rule.name for rule in policy.predicates + policy.priorities}
    policy.others = set_up([
        (name, name, f"{place}.plugins", [arguments[name]] if name in arguments else [], 1)
        for name in dict.fromkeys(name for names in points.values() for name in names)
        if name in catalogue and name not in used], catalogue, problems)
    plugin_of = {rule: plugin for plugin, rules in reversed(PLUGINS.items()) for rule in rules}
    for rules in (policy.predicates, policy.priorities, policy.others):
        rules[:] = [replace(rule, **{attribute: None for attribute, names in points.items()
                                     if plugin_of.get(rule.name, rule.name) not in names}) for rule in rules]
    return policy


def weights(args):
    """Return {resource: weight} of arguments with `resources`; without a weight, 1."""
    return {resource.get("name", ""): resource.get("weight") or 1 for resource in args.get("resources", [])
            } or CPU_AND_MEMORY


def default_spread(args):
    """Return the spread constraints for pods that have none."""
    return args.get("defaultConstraints") or ([] if args.get("defaultingType") == "List" else DEFAULT_SPREAD)


def plugin_arguments(profile, place, problems, notices):
    """Return {plugin: its arguments}, and append what is wrong with these and with the plugins that are enabled."""
    arguments, known = {}, [*PLUGINS, *PREDICATES, *PRIORITIES]
    for point, plugins in profile.get("plugins", {}).items():
        for i, entry in enumerate(plugins.get("enabled", [])):
            name, where = entry.get("name", ""), f"{place}.plugins.{point}.enabled[{i}]"
            rules = dict(zip(("filter", "score"), PLUGINS.get(name, (name, name))))
            if name not in known:
                hint = did_you_mean(name, known) or "; is a file missing in --plugins?"
                problems.append(f'{where}: unknown plugin "{name}"{hint}')
            elif point in rules and rules[point] not in {"filter": PREDICATES, "score": PRIORITIES}[point]:
                problems.append(f'{where}: plugin "{name}" does not {point}')
            elif name == "SelectorSpread" and point == "score":
                notices.append(f"{where}: SelectorSpread scores as PodTopologySpread with its default constraints does")
            if not 0 <= entry.get("weight", 0) < 2**31:
                problems.append(f"{where}.weight: must be from 1 to {2**31 - 1}")
    for i, config in enumerate(profile.get("pluginConfig", [])):
        name, where = config.get("name", ""), f"{place}.pluginConfig[{i}]"
        rule = PREDICATES.get(name) or PRIORITIES.get(name)
        fields = rule.argument if rule and isinstance(rule.argument, dict) else PLUGIN_ARGUMENTS.get(name)
        args = {key: value for key, value in config.get("args", {}).items() if key not in ("kind", "apiVersion")}
        if name in arguments:
            problems.append(f'{where}: there are arguments for "{name}" already')
        elif fields is None and args:
            hint = "" if name in known else did_you_mean(name, PLUGIN_ARGUMENTS)
            notices.append(f'{where}: no arguments are known of plugin "{name}"{hint}')
        elif args:
            arguments[name] = decode(args, fields, f"{where}.args", problems)
            problems += [f"{where}.args.{problem}" for problem in argument_problems(name, arguments[name])]
    return arguments


def enabled(point, plugins, version):
    """Return {plugin: weight} of those that run at an extension point, in their order: the defaults, and the profile's.

    Upstream: mergePluginSet and expandMultiPointPlugins.
    """
    def merged(defaults, own):
        """Return what a profile enables, and what it leaves of the defaults."""
        off = {entry.get("name") for entry in own.get("disabled", [])}
        on = {entry.get("name"): entry.get("weight", 0) for entry in own.get("enabled", [])}
        return on, {name: weight for name, weight in defaults.items() if not off & {name, "*"}}

    defaults = DEFAULT_PLUGINS[version]
    on, kept = merged(defaults.get("multiPoint", {}), plugins.get("multiPoint", {}))
    everywhere = kept | on
    on, kept = merged(everywhere | defaults.get(point, {}), plugins.get(point, {}))
    return {name: weight for name, weight in on.items() if name in everywhere} | kept | on


def argument_problems(name, args):
    """Yield what is wrong with a plugin's arguments, or asks for something that this script does not do."""
    scoring = args.get("scoringStrategy", {})
    if scoring.get("type") not in (None, "", *STRATEGIES):
        yield f"scoringStrategy.type: expected one of {', '.join(STRATEGIES)}"
    for place, resources in (("", args.get("resources", [])),
                             ("scoringStrategy.", scoring.get("resources", []))):
        if any(not 0 <= resource.get("weight", 1) <= 100 for resource in resources):
            yield f"{place}resources: weights are from 1 to 100"
    if name == "NodeResourcesBalancedAllocation" and weights(args) != CPU_AND_MEMORY:
        yield "resources: only cpu and memory can be balanced here"
    if not 0 <= args.get("hardPodAffinityWeight", 1) <= 100:
        yield "hardPodAffinityWeight: must be from 0 to 100"
    if args.get("addedAffinity"):
        yield "addedAffinity: cannot be had here"
    constraints = args.get("defaultConstraints", [])
    if (args.get("defaultingType") or "List") not in ("List", *["System"] * (not constraints)):
        yield "defaultingType: expected List, or, without defaultConstraints, System"
    for i, constraint in enumerate(constraints):
        if constraint.get("maxSkew", 0) < 1 or not constraint.get("topologyKey") or constraint.get(
                "whenUnsatisfiable") not in ("DoNotSchedule", "ScheduleAnyway"):
            yield (f"defaultConstraints[{i}]: expected a positive maxSkew, a topologyKey, and DoNotSchedule or "
                   "ScheduleAnyway in whenUnsatisfiable")


# =====================================================================================================================
# 8. The cluster: what is read, remembered and written
# =====================================================================================================================


class ApiError(Exception):
    """A request that did not succeed. status: the HTTP status, or 0 where no answer came."""

    def __init__(self, status, message, retry_after=0, trouble=True):
        super().__init__(message)
        self.status, self.retry_after = status, retry_after
        self.unknown = status == 0 or status >= 500  # whether the request may have been carried out
        self.trouble = trouble and (self.unknown or status == 429)  # whether others would fare no better


def backoff(attempts):
    """Return the seconds to wait after so many failed attempts: 1, 2, 4, 8, 10, 10, ... as kube-scheduler does."""
    return min(2 ** (attempts - 1), 10)


@functools.lru_cache(maxsize=10000)
def warn_once(text):
    """Log a warning, unless it has been logged already."""
    log.warning("%s", text)


@dataclass
class Wait:
    """What is remembered of a pod that stays pending."""

    attempts: int = 0
    retry_at: float = 0  # monotonic seconds
    shown: str = None  # what was last printed of it
    told: str = None  # what its event and its PodScheduled condition say
    reserved: bool = False  # whether it has a node in mind, on which something is prepared for it


class Extender:
    """An HTTP extender of the Policy: a web service that has a say in it. Upstream: pkg/scheduler/core/extender.go."""

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
        tls = dict(config.get("tlsConfig", {}))
        self.folder = tempfile.TemporaryDirectory()  # requests wants files
        for name in ("ca", "cert", "key"):
            if tls.get(f"{name}Data"):
                tls[f"{name}File"] = f"{self.folder.name}/{name}"
                Path(tls[f"{name}File"]).write_bytes(tls[f"{name}Data"])
        insecure = tls.get("insecure") or config.get("enableHttps") and not tls.get("caFile")
        if insecure:
            warnings.simplefilter("ignore", InsecureRequestWarning)  # the Policy has decided that
        self.session.verify = not insecure and (tls.get("caFile") or True)
        if tls.get("certFile") and tls.get("keyFile"):
            self.session.cert = tls["certFile"], tls["keyFile"]
        if tls.get("serverName"):
            adapter = requests.adapters.HTTPAdapter()
            adapter.init_poolmanager(10, 10, server_hostname=tls["serverName"], assert_hostname=tls["serverName"])
            self.session.mount("https://", adapter)

    def cares(self, verb, pod):
        """Say whether it has this verb, and an interest in the pod: one of its resources, or any pod if it has none."""
        containers = pick(pod.spec, list, "containers") + pick(pod.spec, list, "initContainers")
        named = {name for container in containers for part in ("requests", "limits")
                 for name in pick(container, dict, "resources", part)}
        return bool(self.verbs[verb]) and not (self.resources and self.resources.isdisjoint(named))

    def call(self, verb, body, read):
        """POST to a verb and return what `read` makes of the answer. Raises Unschedulable."""
        try:
            answer = self.session.post(f"{self.url}/{self.verbs[verb]}", json=body, timeout=self.timeout)
            if answer.status_code != 200:
                raise ValueError(f"it answers {answer.status_code} {answer.reason}")
            answer = answer.json()
            if isinstance(answer, dict) and answer.get("Error"):
                raise ValueError(answer["Error"])
            return read(answer)
        except requests.Timeout:
            reason = f"no answer within {self.timeout:g} s"
        except (OSError, ValueError) as error:
            cause = re.search(r"\[(Errno|SSL)[^]]*][^'\"()]*", str(error))  # what requests has wrapped up
            reason = cause.group() if cause else one_line(error)
        raise Unschedulable(f"extender {self.url}: {self.verbs[verb]}: {reason}")

    def arguments(self, pod, nodes):
        """Return what filter and prioritize are asked about."""
        names = [node.name for node in nodes] if self.names_only else None
        return {"Pod": pod.raw, "NodeNames": names, "Nodes": None if self.names_only else {
            "metadata": {}, "items": [node.raw for node in nodes]}}

    def filter(self, pod, nodes, failed):
        """Return those of the nodes that the extender lets pass; the others go into `failed`."""
        if not nodes or not self.cares("filter", pod):
            return nodes
        names = {node.name for node in nodes}

        def read(answer):
            """Return the names of the nodes that pass, and the reasons of others."""
            passing = {pick(node, str, "metadata", "name") for node in pick(answer, list, "Nodes", "items", of=dict)}
            if self.names_only and answer.get("NodeNames") is not None:
                passing = set(pick(answer, list, "NodeNames", of=str))
            if not passing <= names:
                raise Malformed("passes nodes it was not asked about")
            return passing, pick(answer, dict, "FailedNodes", of=str)

        try:
            passing, reasons = self.call("filter", self.arguments(pod, nodes), read)
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

        def read(answer):
            """Return the nodes' scores."""
            scores = {pick(score, str, "Host"): pick(score, int, "Score") for score in pick(
                {"the answer": answer}, list, "the answer")}
            if any(not 0 <= score <= 10 for score in scores.values()):
                raise Malformed("its scores are not all from 0 to 10")
            return scores

        try:
            scores = self.call("prioritize", self.arguments(pod, nodes), read)
        except Unschedulable as error:
            warn_once(f"{error}; its scores are left out")
            return {}
        return {f"{self.title} {self.url}": {node.name: scores.get(node.name, 0) * self.weight * 10 for node in nodes}}

    def bind(self, pod, node_name):
        """Have the extender bind the pod. Return True."""
        self.call("bind", {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name},
                  lambda answer: answer)
        return True


class Objects(dict):
    """API objects of the resources that active rules need, listed once in a pass, when a rule first looks at them."""

    def __init__(self, cluster, needs):
        self.cluster, self.needs = cluster, needs

    def __missing__(self, resource):
        """List a resource."""
        if resource not in self.needs:
            raise KeyError(f"a rule looks at {resource} without saying that it needs them")
        self[resource] = {"/".join(filter(None, (
            pick(thing, str, "metadata", "namespace"), pick(thing, str, "metadata", "name")))): thing
            for thing in self.cluster.list(resource)[0]}
        return self[resource]


class Cluster:
    """The API server's nodes and pods, together with what this scheduler has bound and the API server may not show yet.

    Lists come from the API server's watch cache, which may lag. So each of our bindings stays assumed until such a list
    shows it. Only a consistent list, read where there is doubt, may take an assumption away.
    """

    TRUST = 10  # seconds after which a binding that no list shows is looked into
    GROUPS = {"replicasets": "apis/apps/v1", "statefulsets": "apis/apps/v1",  # others are in the core group, api/v1
              "storageclasses": "apis/storage.k8s.io/v1", "csinodes": "apis/storage.k8s.io/v1"}

    def __init__(self, api, dry_run=False):
        self.api, self.dry_run = api, dry_run
        self.live = isinstance(api, Proxy) and not dry_run  # whether others are to act on what we decide
        self.assumed = {}  # uid -> (pod, node name, since)
        self.held = {}  # uid -> Decision that a rule does not permit yet
        self.waiting = {}  # uid -> Wait
        self.assigned = set()  # the uids of the pods that have a node
        self.trouble, self.failures = None, 0  # what is wrong with the API server; how many polls failed in a row
        self.doubt = True  # whether the next snapshot must be consistent
        self.newest = 0  # the highest resource version of a cached list of assigned pods
        self.facts = None  # what the last snapshot was made of
        self.changed = False  # whether that differs from the one before
        self.pool = ThreadPoolExecutor(4)  # a few kept-alive connections, on which writes go while the loop goes on
        self.writes = collections.deque()  # (future, pod, the Decision that it carries out or None)

    # --- reading

    def list(self, resource, selector="", consistent=False):
        """Return all objects of a resource, and the list's resource version. 410 on a page starts again."""
        first = {"fieldSelector": selector, "limit": 500} | ({} if consistent else {"resourceVersion": "0"})
        for _ in range(5):
            params, items = first, []
            try:
                while True:
                    answer = self.api.request(
                        "GET", f"/{self.GROUPS.get(resource, 'api/v1')}/{resource}", params=params)
                    items += pick(answer, list, "items", of=dict)
                    token = pick(answer, str, "metadata", "continue")
                    if not token:
                        version = pick(answer, str, "metadata", "resourceVersion")
                        return items, int(version) if version.isdigit() else 0
                    params = {"fieldSelector": selector, "limit": 500, "continue": token}
            except ApiError as error:
                if error.status != 410:
                    raise
            except ValueError as error:
                raise ApiError(0, f"the list of {resource} is not as expected: {error}") from error
        raise ApiError(410, f"the list of {resource} expired again and again")

    def parse(self, kind, raws):
        """Parse API objects. Return those that could be, and the others' JSON; name each of these once."""
        parsed, broken = [], []
        for raw in raws:
            try:
                parsed.append(kind(raw))
            except (AttributeError, TypeError, ValueError) as error:
                metadata = raw.get("metadata") if isinstance(raw.get("metadata"), dict) else {}
                name = "/".join(str(metadata[part]) for part in ("namespace", "name") if part in metadata)
                warn_once(f"{kind.__name__.lower()} {name} is left out: {one_line(error)}")
                broken.append(raw)
        return parsed, broken

    def pending_pods(self, policies):
        """List the pods that wait for one of these schedulers, in the order in which they are to be tried."""
        pods = []
        for name, policy in policies.items():
            raws, _ = self.list("pods", f"spec.schedulerName={name},spec.nodeName=")
            pods += [pod for pod in self.parse(Pod, raws)[0] if ready(pod, policy)]
        self.waiting = {pod.uid: self.waiting.get(pod.uid) or Wait(told=pod.told) for pod in pods}
        pods.sort(key=lambda pod: (-pod.priority, pod.created, pod.key))
        for sort in {sort for policy in policies.values() for sort in policy.hooks("queue_sort")}:
            try:
                pods.sort(key=sort)
            except Exception as error:
                warn_once(f"the queue is sorted by priority and age, for {broken(error)}")
        return sorted(pods, key=lambda pod: not self.waiting[pod.uid].reserved)  # first, lest others take their room

    def snapshot(self, policies=()):
        """Read the nodes and the pods on them, and put what we have bound ourselves where it belongs."""
        nodes = self.parse(Node, self.list("nodes")[0])[0]
        nodes = {node.name: node for node in sorted(nodes, key=lambda node: node.name)}  # the cache has no order
        assigned = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        overdue = any(time.monotonic() - since > self.TRUST for *_, since in self.assumed.values())
        consistent = self.doubt or overdue and not self.dry_run  # whose bindings no list will ever show
        raws, version = self.list("pods", assigned, consistent)
        if not consistent and version < self.newest:  # another API server answers now, whose cache lags
            consistent = True
            raws, version = self.list("pods", assigned, consistent)
        self.newest = self.newest if consistent else version
        self.doubt = False

        pods, broken = self.parse(Pod, raws)
        for raw in broken:  # what it takes up is unknown, so nothing may be added to its node
            nodes.pop(str(raw["spec"]["nodeName"]), None)
        self.assigned = {pod.uid for pod in pods}
        for uid, (pod, node_name, _) in list(self.assumed.items()):
            if consistent != (uid in self.assigned):
                del self.assumed[uid]  # the cached list has caught up, or the consistent one knows nothing of it
            elif not consistent and node_name in nodes:
                nodes[node_name].add(pod)
        for uid, decision in self.held.items():
            if uid in self.waiting and uid not in self.assigned and decision.node in nodes:
                nodes[decision.node].add(decision.pod)
        for pod in pods:
            if pod.node_name in nodes:
                nodes[pod.node_name].add(pod)
        policies = list(dict(policies).values())
        facts = policies, [node.facts for node in nodes.values()], {pod.uid: pod.node_name for pod in pods}
        self.changed, self.facts = facts != self.facts, facts
        return Snapshot(nodes, Objects(self, {need for policy in policies for need in policy.needs}), self.live)

    def due(self, pods):
        """Yield the pods to try now: those whose backoff is over; all if nodes, assigned pods or the Policy changed."""
        for pod in pods:
            if pod.uid in self.assumed or pod.uid in self.assigned or pod.uid in self.held:
                log.debug("%s has its node already, which the list does not show yet", pod.key)
            elif (wait := self.waiting[pod.uid]).reserved or self.changed or wait.retry_at <= time.monotonic():
                yield pod

    def is_news(self, decision):
        """Say whether a decision differs from what was last printed of its pod."""
        wait = self.waiting[decision.pod.uid]
        before, wait.shown = wait.shown, (decision.node or decision.message, decision.held)
        return wait.shown != before

    def take_held(self, snapshot):
        """Yield the decisions that are held, once; those on pods that have gone are forgotten."""
        held, self.held = self.held, {}
        for uid, decision in held.items():
            if uid in self.waiting and uid not in self.assigned:
                yield decision
            else:
                self.unreserve(decision.pod, decision.policy, snapshot)

    # --- writing

    def hold(self, decision):
        """Keep a decision that is not permitted yet, and the pod's room with it."""
        self.held[decision.pod.uid] = decision

    def bind(self, decision, snapshot):
        """Bind the pod, while the loop goes on: by a rule, by an extender, or by a POST of a Binding."""
        pod, policy = decision.pod, decision.policy
        self.assumed[pod.uid] = pod, decision.node, time.monotonic()
        binders = policy.hooks("bind") + [
            extender.bind for extender in policy.extenders if self.live and extender.cares("bind", pod)]
        self.send(self.post_binding, pod, decision.node, decision.requests if self.live else [], binders,
                  policy.hooks("post_bind"), pod=pod, decision=decision)
        self.settle(snapshot)

    def leave_pending(self, decision, snapshot):
        """Back off; tell the user in an event and in the pod's condition why, if they do not say so already."""
        pod, wait = decision.pod, self.retry_later(decision.pod)
        wait.reserved = False
        self.unreserve(pod, decision.policy, snapshot)
        if decision.message != wait.told:
            wait.told = decision.message
            self.send(self.post_failure, decision, pod=pod)

    def unreserve(self, pod, policy, snapshot):
        """Have the rules forget that the pod was to go somewhere."""
        for hook in policy.hooks("unreserve"):
            try:
                for request in hook(pod, snapshot) or ():
                    self.send(self.api.request, *request, pod=pod)
            except Exception as error:
                warn_once(f"{pod.key}: {broken(error)}")

    def send(self, function, *arguments, pod, decision=None):
        """Write in a thread of its own, but nothing in a dry run. `decision`: what this carries out."""
        if not self.dry_run:
            self.writes.append((self.pool.submit(function, *arguments), pod, decision))

    def seconds_until_recovery(self, trouble):
        """Say once what is wrong with the API server, and once that it is over; return how long to leave it alone."""
        if trouble and str(trouble) != str(self.trouble):
            log.error("%s", trouble)
        if self.trouble and not trouble:
            log.warning("the API server answers again")
        self.trouble, self.failures = trouble, self.failures + 1 if trouble else 0
        return max(trouble.retry_after, backoff(self.failures)) if trouble else 0

    def retry_later(self, pod):
        """Back off from a pod; return what is remembered of it."""
        wait = self.waiting.setdefault(pod.uid, Wait())  # it may have gone meanwhile
        wait.attempts += 1
        wait.retry_at = time.monotonic() + backoff(wait.attempts)
        return wait

    def settle(self, snapshot, wait=False):
        """Take in the answers to our writes, all of them if `wait`. Raises ApiError if the API server is in trouble."""
        trouble = None
        while self.writes and (wait or self.writes[0][0].done()):
            future, pod, decision = self.writes.popleft()
            error = future.exception()
            if error is None and future.result() == "reserved":
                self.waiting[pod.uid].reserved = True
                del self.assumed[pod.uid]
            if error is None:
                continue
            if not isinstance(error, ApiError):  # of an extender or a rule, which may have bound the pod all the same
                error = ApiError(0, one_line(error), trouble=False)
            if error.trouble:
                trouble = error
            elif error.status not in (404, 409):  # the pod is gone, somebody bound it: both are everyday life
                warn_once(f"{pod.key}: {error}")
            self.doubt |= error.unknown or error.status == 409
            remembered = self.retry_later(pod)
            if decision is None:
                remembered.told = None if error.trouble else remembered.told
            elif not error.unknown:
                log.debug("%s is not bound to %s: %s", pod.key, decision.node, error)
                del self.assumed[pod.uid]
                snapshot.nodes[decision.node].remove(pod)
                self.unreserve(pod, decision.policy, snapshot)
        if trouble:
            raise trouble

    def post_binding(self, pod, node_name, prepare, binders, afterwards):
        """Bind the pod to the node, with the event Scheduled; or only prepare what it is to wait for ("reserved")."""
        for request in sum(filter(None, prepare), []):
            self.api.request(*request)
        if any(requests is not None for requests in prepare):
            return "reserved"
        if not any(binder(pod, node_name) for binder in binders):
            self.api.request("POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", body={
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node_name}})
        with contextlib.suppress(ApiError):
            self.post_event(pod, "Normal", "Scheduled", f"Successfully assigned {pod.key} to {node_name}")
        for hook in afterwards:
            try:
                hook(pod, node_name)
            except Exception as error:  # the pod is bound all the same
                warn_once(f"{pod.key}: {broken(error)}")
        return "bound"

    def post_failure(self, decision):
        """Say why the pod stays pending: in an event FailedScheduling, and in its condition PodScheduled."""
        pod, message = decision.pod, decision.message
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        if pod.told is None:
            condition["lastTransitionTime"] = now()
        nominated = {"nominatedNodeName": decision.nominated} if decision.nominated else {}
        self.note("PATCH", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status",
                  {"status": {"conditions": [condition], **nominated}})
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
            self.api.request(*request)
        except ApiError as error:
            if error.trouble:
                raise
            warn_once(str(error))


def now(microseconds=False):
    """Return the time as the API writes it."""
    return datetime.now(timezone.utc).strftime(f"%Y-%m-%dT%H:%M:%S{'.%f' if microseconds else ''}Z")


class Proxy:
    """The API server behind kubectl proxy."""

    VERBS = {"GET": "list", "POST": "create", "PATCH": "patch", "PUT": "update"}

    def __init__(self, server):
        self.server = server.rstrip("/")
        self.session = requests.Session()  # its connections are kept alive, and threads may share them
        self.session.trust_env = False  # kubectl proxy is near, whatever HTTP_PROXY says

    def request(self, method, path, body=None, params=None):
        """Send a request and return the answer's JSON. Raises ApiError; its text says what to do."""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        try:
            answer = self.session.request(method, self.server + path, params=params, timeout=(5, 60),
                                          data=body and json.dumps(body), headers={"Content-Type": kind})
        except requests.ConnectionError as error:
            port = urlsplit(self.server).port or 80
            raise ApiError(0, f"cannot reach {self.server}: start `kubectl proxy --port={port}`, or try it without a "
                              "cluster: python scheduler.py --cluster tests/clusters/demo.yaml") from error
        except requests.RequestException as error:
            raise ApiError(0, f"{method} {path}: {one_line(error)}") from error
        log.debug("%s %s %s: %d", method, path, params or "", answer.status_code)
        try:
            content = answer.json()
        except ValueError:
            content = None
        if answer.ok and isinstance(content, dict):
            return content
        resource = re.sub(r".*/v1/(namespaces/[^/]+/)?([^/]+)(/[^/]+)?", r"\2", path)
        verb = "get" if method == "GET" and not path.endswith(resource) else self.VERBS[method]
        if not isinstance(content, dict):
            content = {"message": f"{self.server} does not answer like kubectl proxy"}
        hint = f'RBAC lacks verb "{verb}" on "{resource}": ' if answer.status_code == 403 else ""
        seconds = answer.headers.get("Retry-After", "")
        raise ApiError(0 if answer.ok else answer.status_code,
                       f"{verb} {resource}: {answer.status_code} {answer.reason}: {hint}{content.get('message')}",
                       int(seconds) if seconds.isdigit() else 0)


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

    def keep(self, stop):
        """Renew the Lease until `stop`, or until that has not succeeded for too long."""
        while not stop.wait(self.retry_period):
            if not self.holds() and time.monotonic() - self.renewed_at >= self.renew_deadline:
                log.error("leader election lost")
                self.lost = True
                stop.set()

    def holds(self, holder=None):
        """Try to acquire or renew the Lease, or to let go of it for the holder ""; return whether that succeeded."""
        before = time.monotonic()
        try:
            lease = self.read()
            spec = pick(lease, dict, "spec")
            if spec != self.observed:
                self.observed, self.observed_at = spec, before
            if spec.get("holderIdentity") not in (None, "", self.identity) and (
                    before - self.observed_at < self.lease_duration):
                return False
            self.write(lease, self.identity if holder is None else holder)
        except (ApiError, TypeError, ValueError) as error:
            if not isinstance(error, ApiError) or error.status != 409:  # another one was faster
                warn_once(f"leader election: {error}")
            return False
        self.renewed_at = before
        return True

    def read(self):
        """Return the Lease; one that is still to be created has no resourceVersion. Raises ApiError."""
        try:
            return self.api.request("GET", f"{self.path}/{self.metadata['name']}")
        except ApiError as error:
            if error.status != 404:
                raise
            return {"metadata": self.metadata}

    def write(self, lease, holder):
        """Create or update the Lease with this holder. Raises ApiError, 409 if it has changed meanwhile."""
        spec, time_now = pick(lease, dict, "spec"), now(microseconds=True)
        taken = {} if spec.get("holderIdentity") == self.identity else {
            "acquireTime": time_now, "leaseTransitions": spec.get("leaseTransitions", -1) + 1}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": lease["metadata"], "spec": {
            **spec, **taken, "holderIdentity": holder, "renewTime": time_now,
            "leaseDurationSeconds": math.ceil(self.lease_duration)}}
        exists = "resourceVersion" in lease["metadata"]
        answer = self.api.request("PUT" if exists else "POST",
                                  f"{self.path}/{self.metadata['name']}" if exists else self.path, body)
        self.observed, self.observed_at = pick(answer, dict, "spec"), time.monotonic()

    def release(self):
        """Let another replica lead at once, when `stop` is set: else this one would renew again."""
        self.keeper.join(self.retry_period)
        self.holds("")


class Manifests:
    """A cluster made of manifests, which answers like the API server; bindings are kept in memory."""

    def __init__(self):
        self.objects = {}  # (resource, namespace, name) -> object

    def load(self, path):
        """Read a file, or standard input for -; name and leave out what is no object. Raises OSError, ValueError."""
        for document in parse(sys.stdin.read() if path == "-" else Path(path).read_text("utf-8-sig")):
            for thing in self.unpack(document):
                try:
                    self.add(thing)
                except Malformed as error:
                    log.warning("%s: left out: %s", path, error)

    def unpack(self, document):
        """Yield a document, or the items of a List, of any depth; nothing for an empty document."""
        if isinstance(document, dict) and type(document.get("items")) is list:
            kind = str(document.get("kind", "")).removesuffix("List")
            for item in document["items"]:
                yield from self.unpack({"kind": kind, **item} if isinstance(item, dict) else item)
        elif document is not None:
            yield document

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
            pod["spec"]["nodeName"] = body["target"]["name"]
        return {}

    def selected(self, selector, thing):
        """Say whether a field selector, such as spec.nodeName!=,status.phase!=Failed, selects an object."""
        for term in filter(None, selector.split(",")):
            path, differs, value = re.fullmatch("(.*?)(!?)=(.*)", term).groups()
            actual = thing
            for key in path.split("."):
                actual = actual.get(key) if isinstance(actual, dict) else None
            actual = str(actual or ("default-scheduler" if path == "spec.schedulerName" else ""))
            if (actual == value) == bool(differs):
                return False
        return True


class YamlLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML in which no key may come twice, and dates stay strings."""

    def construct_mapping(self, node, deep=False):
        """Build a mapping whose keys are all different."""
        unique_keys([(key.value, None) for key, _ in node.value if isinstance(key, yaml.ScalarNode)])
        return super().construct_mapping(node, deep)


YamlLoader.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)


def unique_keys(pairs):
    """Make a dict of pairs. Raises ValueError if a key comes twice."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f'duplicate key "{next(key for key in keys if keys.count(key) > 1)}"')
    return unique


def parse(text):
    """Yield the documents of a JSON or YAML text. Raises ValueError."""
    try:
        if text.lstrip().startswith("{"):
            yield json.loads(text, object_pairs_hook=unique_keys)
        else:
            yield from yaml.load_all(text, YamlLoader)
    except (yaml.YAMLError, RecursionError) as error:
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
            sys.stdout.reconfigure(errors="replace")  # where ✓ cannot be written, ? is
        terminal = sys.stdout.isatty()
        self.width = (max(60, shutil.get_terminal_size().columns) if terminal else 80) - len(suffix)
        self.colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def print(self, *lines):
        """Print lines."""
        for line in lines:
            print(line + self.suffix if line else "", flush=True)

    def paint(self, text, colour):
        """Return the text in a colour, if there are any."""
        return f"\033[{colour}m{text}\033[0m" if self.colours and colour else text

    def fold(self, text, first="", rest=""):
        """Break a text into lines that fit; give the first and the others their indents."""
        return textwrap.wrap(text, self.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


BOLD, DIM, RED, GREEN = "1", "2", "91", "1;32"


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


def legend(policy, screen):
    """Return what a Policy asks, each rule with the first words of its docstring."""
    lines = screen.fold("Predicates, asked in this order; " + (
        "all are asked:" if policy.always_check_all else "the first that fails ends a node:"))
    for i, rule in enumerate(policy.predicates, 1):
        lines += screen.fold(f"{rule.title}: {rule.summary}", f"{i:3} ", " " * 6)
    lines += ["Priorities, for the nodes that fit: raw score → normalised to 0..100 × weight:"]
    for rule in policy.priorities:
        lines += screen.fold(f"{rule.title} ×{rule.weight}: {rule.summary}", " " * 4, " " * 6)
    return [*(screen.paint(line, DIM) for line in lines), ""]


ROWS, BEST = 10, 5  # explain shows up to ROWS nodes that fit, and that do not; of more, the BEST or their number


def explain(decision, screen):
    """Return a decision as a table: a row per node, a column per predicate and per priority, folded to fit the screen.

    Of many nodes that fit it has the best; many that do not are put together by what is against them.
    """
    asked = [rule.title for rule in decision.policy.predicates] + [
        extender.title for extender in decision.policy.extenders if extender.verbs["filter"]]
    ranked = sorted(decision.feasible, key=lambda name: (-decision.total[name], name != decision.node, name))
    best = ranked if len(ranked) <= ROWS else ranked[:BEST]
    failing = {}
    for name, against in decision.failed.items():
        failing.setdefault(json.dumps(against) if len(decision.failed) > ROWS else name, (against, []))[1].append(name)
    margin = max([len(row_label(decision, [name])) for name in best]
                 + [len(row_label(decision, names)) for _, names in failing.values()], default=0)

    columns = [([" " * margin], [row_label(decision, [name]) for name in best]),
               (numbers_downward(len(asked)), ["✓" * len(asked) for name in best])]
    columns += [(in_humps(title), [score_cell(decision, title, name) for name in best]) for title in decision.scores]
    columns += [(["Total"], [str(decision.total[name]) for name in best])] * bool(best)
    height = max(len(head) for head, _ in columns)
    columns = [[""] * (height - len(head)) + head + cells for head, cells in columns]

    lines = [screen.paint(line, BOLD) for line in screen.fold(in_words(decision), rest="    ")]
    for i, block in enumerate(fold_columns(columns, screen.width) if decision.failed or best else []):
        table = align(zip(*block))
        lines += [""] * (i > 0)
        lines += [screen.paint(line, DIM) for line in table[:height] if line]
        lines += [screen.paint(line, GREEN if line.startswith("*") else "") for line in table[height:]]
    ties = list(decision.total.values()).count(max(decision.total.values(), default=0))
    if len(ranked) > len(best):
        lines.append(f"  and {len(ranked) - len(best)} more that fit, down to a total of {decision.total[ranked[-1]]}")
    if ties > 1 and decision.node:
        lines.append(f"  {ties} nodes (* and =) have the highest total: any of them is taken, at random")
    for against, names in sorted(failing.values(), key=lambda group: -len(group[1])):
        why = "; ".join(f"{title}: {', '.join(reasons)}" for title, reasons in against.items())
        first = f"{row_label(decision, names):{margin}}  {verdicts(asked, against, decision.policy)} "
        lines += [line[:margin] + screen.paint(line[margin:], RED)
                  for line in screen.fold(why, first, " " * (margin + len(asked) + 3))]
        if len(names) > 1:
            lines.append("    " + textwrap.shorten(", ".join(map(shorten, names)), screen.width - 4, placeholder=" …"))
    return [*lines, ""]


def row_label(decision, names):
    """Return how a row of explain begins: * marks the chosen node, = others that have the same total."""
    if len(names) > 1:
        return f"  {len(names)} nodes"
    [name] = names
    ties = decision.node and decision.total.get(name) == decision.total[decision.node]
    return f"{'*' if name == decision.node else '=' if ties else ' '} {shorten(name)}"


def shorten(name):
    """Leave out the middle of a long name."""
    return name if len(name) <= 27 else f"{name[:13]}…{name[-13:]}"


def verdicts(asked, against, policy):
    """Return what each predicate said of a node: ✓ it passed, ✗ it did not, · it was not asked."""
    marks = ["✗" if title in against else "✓" for title in asked]
    first = marks.index("✗") if "✗" in marks else -1
    return "".join("·" if first < 0 or i > first and not policy.always_check_all else mark
                   for i, mark in enumerate(marks))


def numbers_downward(count):
    """Return the numbers from 1 to count as columns of one character, line by line."""
    width = len(str(count))
    return ["".join(digits) for digits in zip(*(f"{i:{width}}" for i in range(1, count + 1)))]


def in_humps(title):
    """Break a name such as LeastRequestedPriority into lines that make a narrow column."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z+])", " ", title.partition(" ")[0])
    return [line.replace(" ", "") for line in textwrap.wrap(words, 10)]


def score_cell(decision, title, name):
    """Return a score as "raw→normalised×weight", the first part only if the rule normalises."""
    rule = next((rule for rule in decision.policy.priorities if rule.title == title), None)
    if not rule:  # an extender's, which come weighed
        return str(decision.scores[title][name])
    raw = decision.raw[title][name]
    before = "" if rule.reduce is Rule.reduce else f"{'-' if raw is None else raw}→"
    return f"{before}{decision.scores[title][name] // rule.weight}×{rule.weight}"


def fold_columns(columns, width):
    """Put as many columns side by side as fit, and the rest into further blocks with the first column again."""
    blocks = [columns[:2]]
    for column in columns[2:]:
        if sum(max(map(len, cells)) + 2 for cells in [*blocks[-1], column]) - 2 > width:
            blocks.append(columns[:1])
        blocks[-1] = [*blocks[-1], column]
    return blocks


def align(rows):
    """Return rows of cells as lines in which the columns stand below each other."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def comparison(outcomes):
    """Return what compare has found as tables for people."""
    titles, places = list(outcomes), [outcome["pods"] for outcome in outcomes.values()]
    pods = sorted({key for of in places for key in of})  # profiles may be for other schedulers
    moved = [key for key in pods if len({of.get(key) for of in places}) > 1]
    text = align([["POD", *titles]] + [[key, *(of.get(key) or "<none>" for of in places)] for key in moved]) + [""]
    rows = [["", *titles], ["pods that fit", *(f"{sum(map(bool, of.values()))} of {len(of)}" for of in places)]]
    for resource, shares in outcomes[titles[0]]["utilization"].items():
        rows += [[f"{resource} utilization of a node, {part}", *(
            f"{outcome['utilization'][resource][part]:.1f}%" for outcome in outcomes.values())] for part in shares]
    return [*(text if moved else []), f"{len(moved)} of {len(pods)} pods land elsewhere.", "", *align(rows)]


def overview(cluster):
    """Return all pods with their nodes, as `kubectl get pods -o wide` does, and how full the nodes are."""
    nodes = cluster.snapshot().nodes.values()
    place = {uid: node.name for node in nodes for uid in node.pods}
    pods = [["NAMESPACE", "NAME", "STATUS", "CPU", "MEMORY", "NODE"]]
    for pod in cluster.parse(Pod, cluster.list("pods")[0])[0]:
        pods.append([pod.namespace, pod.name, pod.phase or "Pending", f"{pod.requests['cpu']}m",
                     f"{pod.requests['memory'] // 2**20}Mi", place.get(pod.uid, "<none>")])
    fill = [["NODE", "PODS", "CPU", "MEMORY"]]
    for node in nodes:
        fill.append([node.name, f"{len(node.pods)}/{node.max_pods}"])
        for resource, unit, suffix in ("cpu", 1, "m"), ("memory", 2**20, "Mi"):
            used, there = node.requested[resource], node.allocatable[resource]
            fill[-1].append(f"{used // unit}{suffix}/{there // unit}{suffix} ({100 * used // max(there, 1)}%)")
    return ["", *align(pods), "", *align(fill)]


def with_progress(pods):
    """Yield the pods; where a pass takes long, show on a terminal how far it is."""
    pods, shown = list(pods), time.monotonic()
    for i, pod in enumerate(pods):
        if sys.stderr.isatty() and time.monotonic() - shown > 0.5:
            shown = time.monotonic()
            print(f"\033[K{i} of {len(pods)} pods\r", end="", file=sys.stderr, flush=True)
        yield pod


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
    parser.add_argument("--server", default="http://127.0.0.1:8001", metavar="URL",
                        help="where kubectl proxy listens (default %(default)s)")
    parser.add_argument("--scheduler-name", default="my-scheduler", metavar="NAME",
                        help="schedule the pods with this spec.schedulerName (default %(default)s)")
    parser.add_argument("--policy", default=str(Path(__file__).with_name("policy.json")), metavar="FILE",
                        help="the Policy, JSON or YAML; also a KubeSchedulerConfiguration, DefaultProvider or "
                             "ClusterAutoscalerProvider (default: policy.json beside this script)")
    parser.add_argument("--plugins", nargs="+", metavar="FILE",
                        help="Python files with predicates and priorities of your own, for the Policy to name")
    parser.add_argument("--interval", type=seconds, default=1, metavar="SECONDS",
                        help="time between polls (default %(default)s)")
    parser.add_argument("--once", action="store_true", help="make one pass, then stop")
    parser.add_argument("--leader-elect", action="store_true",
                        help="of several replicas, schedule only while this one holds the Lease kube-system/NAME")
    parser.add_argument("--dry-run", action="store_true", help="do everything except writing to the cluster")
    parser.add_argument("--cluster", nargs="+", metavar="FILE",
                        help="schedule these manifests (YAML, JSON, kubectl get -o yaml; - for standard input) instead "
                             "of a live cluster, and print where everything ended up")
    parser.add_argument("--explain", nargs="?", const=True, metavar="POD",
                        help="show each decision as a table: nodes, predicates, priorities; or only where this pod "
                             "(namespace/name) would go now, whatever its scheduler, without binding anything")
    parser.add_argument("--compare", metavar="FILE",
                        help="with --cluster: schedule under this Policy, too, and show what differs")
    parser.add_argument("--seed", help="make the choice among equally good nodes repeatable")
    parser.add_argument("--output", choices=["text", "json"], default="text",
                        help="json: one object per decision on standard output, with all reasons and scores")
    parser.add_argument("-v", "--verbose", action="store_true", help="log every request to the API server")
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
    options = read_arguments(argv)
    dry = " (dry run)" if options.dry_run else ""
    logging.basicConfig(format=f"%(message)s{dry}", stream=sys.stderr)
    log.setLevel(logging.DEBUG if options.verbose else logging.INFO)
    RANDOM.base = options.seed or ("" if options.compare else None)  # what is compared has the same luck
    api = Manifests() if options.cluster else Proxy(options.server)
    try:
        for path in options.plugins or []:
            load_plugins(path)
        policy_file = PolicyFile(options.policy, options.scheduler_name)
        other = PolicyFile(options.compare, options.scheduler_name) if options.compare else None
    except PolicyError as error:
        for line in error.args:
            log.error("%s", line)
        return 2
    for path in options.cluster or []:
        try:
            api.load(path)
        except (OSError, ValueError) as error:
            log.error("%s: %s", path, one_line(error))
            return 2
    cluster = Cluster(api, options.dry_run)
    screen, stop = Screen(dry), threading.Event()
    report = reporter(options, screen)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: (stop.set(), signal.signal(number, signal.SIG_DFL)))
    if isinstance(options.explain, str):
        return explain_pod(cluster, policy_file.policies, options.explain, report)
    if other:
        outcomes = {file.path.removeprefix(os.getcwd() + os.sep): outcome(api, file.policies, options, stop)
                    for file in (policy_file, other)}
        if options.output == "json":
            print(json.dumps(outcomes))
        else:
            screen.print(*comparison(outcomes))
        return 0
    names = ", ".join(policy_file.policies)
    if not options.cluster:
        log.info("%s: polling %s by %s", names, options.server, options.policy)
        return poll(cluster, policy_file, report, stop, options)
    if not cluster.pending_pods(policy_file.policies):
        log.info("no pod waits for %s: none without a node has this spec.schedulerName", names)
    schedule_manifests(cluster, policy_file.policies, report, stop, options.once)
    if options.output == "text":
        screen.print(*overview(cluster))
    return 0


def reporter(options, screen):
    """Return a function that prints a decision, and before it, if there is one, a remark."""
    introduced = None

    def report(decision, remark=""):
        """Print a decision."""
        nonlocal introduced
        if options.output == "json":
            print(json.dumps(record(decision) | {"dryRun": True} if options.dry_run else record(decision)), flush=True)
        elif not options.explain:
            screen.print(in_words(decision))
        else:
            if decision.policy is not introduced:
                introduced = decision.policy
                screen.print(*legend(introduced, screen))
            screen.print(*screen.fold(remark), *explain(decision, screen))

    return report


def poll(cluster, policy_file, report, stop, options):
    """Schedule a live cluster's pods; where a leader is elected, only while leading. Return the exit code."""
    settings = policy_file.policies.election
    if options.dry_run or not (options.leader_elect or settings.get("leaderElect")):
        return run(cluster, policy_file, report, stop, options.interval, options.once)
    election = LeaderElection(cluster.api, options.scheduler_name, settings)
    if not election.lead(stop):
        return 0
    code = run(cluster, policy_file, report, stop, options.interval, options.once)
    stop.set()
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
    try:
        raws, _ = cluster.list("pods", f"metadata.namespace={namespace or 'default'},metadata.name={name}")
        pods, _ = cluster.parse(Pod, raws)
        if not pods:
            log.error('pod "%s/%s" not found; write --explain NAMESPACE/NAME', namespace or "default", name)
            return 1
        snapshot, pod, place = cluster.snapshot(policies), pods[0], pods[0].node_name
        if place in snapshot.nodes and pod.uid in snapshot.nodes[place].pods:
            snapshot.nodes[place].remove(pod)
        pod.node_name = ""
        state = (f"is on {place}" if place else "is being deleted" if pod.terminating else
                 "has scheduling gates" if pod.gated else
                 f"is left to {pod.scheduler}" if pod.scheduler not in policies else "")
        decision = schedule(pod, snapshot, policies.get(pod.scheduler) or next(iter(policies.values())))
    except ApiError as error:
        log.error("%s", error)
        return 1
    report(decision, state and f"{pod.key} {state}. If it were to be scheduled now:")
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
