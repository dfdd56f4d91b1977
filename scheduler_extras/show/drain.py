"""--drain NODE: whether a node can be drained, and where its pods would go.

command_line.py calls `show_drain` in place of the loop. Nothing is written. Upstream: kubectl/pkg/drain.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
from collections.abc import Iterator
from typing import Any

from scheduler_extras.common.errors import ApiError, Malformed
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.live.cluster import LiveCluster
from scheduler_extras.policy.policy_file import PolicyFile
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.hints import did_you_mean
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.budgets import budgets_of
from scheduler_extras.show.explain import explain, in_words
from scheduler_extras.show.one_pod import decided_by, policies_for
from scheduler_extras.show.report import in_json
from scheduler_extras.show.text import Screen


class Cordoned:
    """An API server, except that one node is cordoned."""

    def __init__(self, api: Any, node_name: str):
        self.api = api
        self.node_name = node_name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.api, name)

    def get(self, path: str, *more: Any, **options: Any) -> dict:
        """Answer as the API server does, with the node marked as unschedulable."""
        answer = self.api.get(path, *more, **options)
        if path.endswith("/nodes"):
            answer["items"] = [
                node | {"spec": pick(node, dict, "spec") | {"unschedulable": True}}
                if text_at(node, "metadata", "name") == self.node_name else node for node in answer["items"]]
        return answer


def show_drain(cluster: LiveCluster, policy_file: PolicyFile, options: argparse.Namespace,
               screen: Screen) -> bool:
    """Show where the pods of a node would go. Return whether a pod cannot move, or a rule failed.

    Raises ApiError if there is no such node.
    """
    snapshot = cluster.refresh_snapshot(policy_file.policies)
    node = snapshot.nodes.get(options.drain)
    if not node or not node.exists:
        hint = did_you_mean(options.drain, [*snapshot.nodes], "")
        raise ApiError(404, f'node "{options.drain}" not found{hint}')
    drain = Drain(cluster, node, policy_file, options)
    for decision in drain.evict_all():
        show(decision, options, screen)
    if options.output == "json":
        screen.print(json.dumps({"node": node.name, **drain.outcome()}))
    else:
        screen.print("", *(line for text in drain.in_words() for line in screen.fold(text, rest="    ")))
    return cluster.has_failed() or bool(drain.pending or drain.kept)


def show(decision: FullDecision, options: argparse.Namespace, screen: Screen) -> None:
    """Show the decision about an evicted pod."""
    if options.output == "json":
        screen.print(json.dumps(in_json(decision)))
    elif options.explain:
        screen.print(*explain(decision, screen))
    else:
        screen.print(*screen.folded(in_words(decision)))


class Drain:
    """A simulated drain of a node: which of its pods move, stay pending, or are not evicted."""

    def __init__(self, cluster: LiveCluster, node: FullNode, policy_file: PolicyFile,
                 options: argparse.Namespace):
        self.cluster = cluster
        self.node = node
        self.policy_file = policy_file
        self.options = options
        self.pods = [*node.pods.values()]
        # Pods are namespace/name here.
        self.stays: dict[str, list[str]] = collections.defaultdict(list)  # why pods are not evicted -> them
        self.kept: dict[str, str] = {}  # pod that a budget protects -> the budget
        self.moved: dict[str, str] = {}  # pod -> its new node
        self.pending: dict[str, str] = {}  # pod -> why it fits no other node
        self.paths: dict[str, None] = {}  # the Policies that have decided
        self.taken: collections.Counter[str] = collections.Counter()  # budget -> evicted pods still pending

    def evict_all(self) -> Iterator[FullDecision]:
        """Evict the pods one by one, unless a budget forbids it. Yield the decision about each of them."""
        for pod in self.pods:
            why = why_not_evicted(pod)
            budget = None if why else self.budget_against(pod)
            if why:
                self.stays[why].append(pod.key)
            elif budget:
                self.kept[pod.key] = budget
            else:
                yield self.evict(pod)

    def evict(self, pod: FullPod) -> FullDecision:
        """Remove a pod from the node, and return the decision about its replacement."""
        nodes, snapshot = self.cluster.cache.nodes, self.cluster.snapshot
        policies, path = policies_for(pod, self.policy_file, self.options)
        self.paths[path] = None
        policy = snapshot.policies.setdefault(pod.scheduler, next(iter(policies.values())))
        budgets = self.budgets_of(pod)
        nodes.place(pod, "")
        replacement = FullPod(pod.raw | {"spec": pod.spec | {"nodeName": ""}, "status": {}})
        decision = schedule(replacement, snapshot, policy)
        if decision.node:
            nodes.place(replacement, decision.node)
            self.moved[pod.key] = decision.node
        else:
            self.pending[pod.key] = decision.message or ""
            self.taken.update(budgets.keys())
        return decision

    def budgets_of(self, pod: FullPod) -> dict[str, dict]:
        """Return the budgets that protect a pod; none if they cannot be listed."""
        with contextlib.suppress(Malformed, ApiError):
            return budgets_of(pod, self.cluster.snapshot)
        return {}

    def budget_against(self, pod: FullPod) -> str | None:
        """Return the name of a budget that forbids the pod's eviction now; None if none does."""
        for name, budget in self.budgets_of(pod).items():
            if pick(budget, int, "status", "disruptionsAllowed") - self.taken[name] <= 0:
                return name
        return None

    def outcome(self) -> dict:
        """Return the outcome for --output json."""
        return {"moved": self.moved, "pending": self.pending, "keptByBudgets": self.kept,
                "stays": dict(self.stays)}

    def in_words(self) -> Iterator[str]:
        """Yield the outcome in lines, and the kubectl drain command with the options that it needs."""
        stuck = [f"{len(self.pending)} of its pods fit{'s' * (len(self.pending) == 1)} nowhere else"
                 ] if self.pending else []
        stuck += [f"{key} is kept by the PodDisruptionBudget {budget}" for key, budget in self.kept.items()]
        went = {0: "no pod is moved", 1: "1 pod fits elsewhere"}.get(
            len(self.moved), f"{len(self.moved)} pods fit elsewhere")
        if stuck:
            yield f"{self.node.name} cannot be drained: {'; '.join(stuck)}; {went}"
        else:
            yield f"{self.node.name} can be drained: {went}"
        for path in self.paths.keys() - {self.policy_file.path}:
            yield decided_by(path)
        for why, keys in self.stays.items():
            yield f"not evicted: {', '.join(keys)}: {why}"
        for key in self.alone():
            yield f"{key} has no controller: kubectl drain needs --force, and nothing recreates the pod"
        yield f"kubectl drain {self.node.name}{''.join(f' {each}' for each in self.flags())}"

    def alone(self) -> list[str]:
        """Return the evicted pods that have no controller."""
        evicted = self.moved.keys() | self.pending.keys()
        return [pod.key for pod in self.pods if pod.key in evicted and not pod.controller]

    def flags(self) -> Iterator[str]:
        """Yield the options without which kubectl drain refuses."""
        gone = [pod for pod in self.pods if why_not_evicted(pod) in ("", IN_DELETION)]
        if BY_DAEMON_SET in self.stays:
            yield "--ignore-daemonsets"
        if any(volume.get("emptyDir") is not None for pod in gone for volume in pod.volumes):
            yield "--delete-emptydir-data"
        if not all(pod.controller for pod in gone):
            yield "--force"


BY_DAEMON_SET = "a DaemonSet's pods stay"
IN_DELETION = "it is being deleted already"


def why_not_evicted(pod: FullPod) -> str:
    """Return why kubectl drain does not evict a pod; "" if it does."""
    if "kubernetes.io/config.mirror" in pod.annotations or text_at(pod.controller, "kind") == "Node":
        return "static pods stay"
    if text_at(pod.controller, "kind") == "DaemonSet":
        return BY_DAEMON_SET
    return IN_DELETION if pod.terminating else ""
