"""--compare: the decisions of several Policies about the same manifests.

command_line.py calls `compare` in place of the loop.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import statistics
import threading

from scheduler_extras.live.cluster import ListedCluster, LiveCluster
from scheduler_extras.live.passes import make_passes
from scheduler_extras.live.writer import DryRun
from scheduler_extras.manifests.in_memory_writer import WriterOfManifests
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.policy.policy_file import PolicyFile
from scheduler_extras.reading.pods_and_nodes import CPU_AND_MEMORY
from scheduler_extras.show.report import warn_of_unchecked
from scheduler_extras.show.text import Screen, align


def comparison(outcomes: dict[str, dict]) -> list[str]:
    """Return the outcomes under several Policies as lines: the pods whose node differs, and statistics."""
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


def compare(manifests: Manifests, files: list[PolicyFile], stop: threading.Event, options: argparse.Namespace,
            screen: Screen) -> bool:
    """Show the outcome of manifests under each of several Policies. Return whether something failed."""
    outcomes = {}
    has_failed = False
    for file in files:
        title = file.path
        while title in outcomes:
            title += ", again"
        report = functools.partial(warn_of_unchecked, under=f"{file.path}: ")
        kind_of_writer = DryRun if options.dry_run else WriterOfManifests
        cluster = ListedCluster(kind_of_writer(copy.deepcopy(manifests)), report)
        outcomes[title] = outcome_of(cluster, file, stop, options)
        has_failed |= cluster.has_failed()
    if stop.is_set():  # the comparison is incomplete
        return True
    screen.print(*([json.dumps(outcomes)] if options.output == "json" else comparison(outcomes)))
    return has_failed


def outcome_of(cluster: LiveCluster, policy_file: PolicyFile, stop: threading.Event,
               options: argparse.Namespace) -> dict:
    """Schedule manifests under a Policy. Return the node of each pending pod, and the nodes' utilization."""
    policies = policy_file.policies
    waiting = cluster.find_waiting(policies)
    pending = {pod.key for pod in cluster.update_queue(waiting, policies)}
    existing = {*cluster.cache.pods}
    snapshot = make_passes(cluster, policies, stop, options.once)
    nodes = snapshot.nodes.values()
    places = {pod.key: node.name for node in nodes for pod in node.pods.values()}
    utilization = {}
    for resource in CPU_AND_MEMORY if nodes else ():
        shares = [100 * node.requested[resource] / max(node.allocatable[resource], 1) for node in nodes]
        utilization[resource] = {"min": min(shares), "mean": statistics.mean(shares), "max": max(shares),
                                 "standard deviation": statistics.pstdev(shares)}
    pending |= cluster.cache.pods.keys() - existing  # a StatefulSet creates its pods one by one
    return {"pods": {key: places.get(key) for key in sorted(pending)}, "utilization": utilization}
