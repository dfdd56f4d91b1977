"""The picture of a cluster: how full its nodes are, the pods on them, and the pods without a node.

runs.py prints it after a run on manifests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from scheduler_extras.deciding.extension_points import run_pre_enqueue
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.hints import nearly
from scheduler_extras.reading.pods_and_nodes import CPU_AND_MEMORY, FullNode, FullPod
from scheduler_extras.show.text import GREEN, Screen, align, in_digits, short_names


MANY = 15  # nodes that the picture shows at most, and pods without a node


def picture(nodes: Collection[FullNode], pods: list[FullPod], screen: Screen,
            new: set[str]) -> Iterator[str]:
    """Yield lines with the utilization of nodes and their pods. new: uids of the pods that the run placed."""
    nodes, others = nodes_to_show(nodes, new)
    requested = {name for pod in pods for name, wanted in pod.requests.items() if wanted}
    resources = [*CPU_AND_MEMORY, *sorted(requested - {*CPU_AND_MEMORY})]
    rows = [["NODE", "PODS", *(resource.rpartition("/")[2].upper() for resource in resources)]]
    short = short_names(tuple(node.name for node in nodes))
    for node in nodes:
        bars = [bar(node, resource) for resource in resources]
        rows.append([short[node.name], f"{len(node.pods)}/{node.max_pods}", *bars])
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


def nodes_to_show(nodes: Collection[FullNode], new: set[str]) -> tuple[list[FullNode], int]:
    """Return the nodes to show, those with new pods and the fullest, and the number of the others."""
    shown = sorted(nodes, reverse=True, key=lambda node: (
        not new.isdisjoint(node.pods),
        max(share_in_use(node, resource) for resource in CPU_AND_MEMORY)))[:MANY]
    return [node for node in nodes if node in shown], len(nodes) - len(shown)


def share_in_use(node: FullNode, resource: str) -> float:
    """Return the share of a resource that the pods on a node request; 1 is all of it."""
    return node.requested.get(resource, 0) / max(node.allocatable.get(resource, 0), 1)


def bar(node: FullNode, resource: str, length: int = 12) -> str:
    """Return a node's utilization as a bar with numbers; "" if the node lacks the resource."""
    if not (node.requested.get(resource) or node.allocatable.get(resource)):
        return ""
    filled = min(round(length * share_in_use(node, resource)), length)
    return f"{'█' * filled}{'░' * (length - filled)} {used_of_all(node, resource)}"


def used_of_all(node: FullNode, resource: str) -> str:
    """Return the requested and the allocatable amount of a resource, such as 2.5/4 or 4/8Gi."""
    return amounts_of(resource, node.requested.get(resource, 0), node.allocatable.get(resource, 0))


def amounts_of(resource: str, *amounts: float) -> str:
    """Return amounts of a resource in the format of the picture, such as 2.5/4 or 8Gi."""
    units = {"cpu": (1000, ""), "memory": (2**30, "Gi"), "ephemeral-storage": (2**30, "Gi")}
    unit, suffix = units.get("memory" if resource.startswith("hugepages-") else resource, (1, ""))
    return "/".join(in_digits(round(each / unit, 3)) for each in amounts) + suffix


def pods_without_node(pods: list[FullPod], snapshot: FullSnapshot, screen: Screen,
                      reasons: dict[str, str]) -> Iterator[str]:
    """Yield lines about the pods that are on no node. reasons: {uid: why the pod stays pending}."""
    placed = {uid for node in snapshot.nodes.values() for uid in node.pods}
    others = [pod for pod in pods if pod.uid not in placed]
    if others:
        yield ""
    stands = {}
    for pod in others:
        reason = reasons.get(pod.uid)
        stands[pod.key] = f"stays pending: {reason}" if reason else where_it_stands(pod, snapshot)
    first = {words: key for key, words in reversed(stands.items())}  # shown first: one pod of each status
    shown = sorted(stands, key=lambda key: key != first[stands[key]])[:MANY]
    for key in sorted(shown, key=[*stands].index):
        yield from screen.fold(f"{key} {stands[key]}", rest="    ", max_lines=3)
    if others[MANY:]:
        yield f"and {len(others) - MANY} other pods without a node"
    missing = sorted({pod.node_name for pod in others} - snapshot.nodes.keys() - {""})
    if missing:
        why = "the manifests may hold only some of the nodes"
        how = "add the node, and --drain shows where they would go"
        yield from screen.fold(f"pods stay on {missing[0]}, as {why}; {how}", rest="    ")


def where_it_stands(pod: FullPod, snapshot: FullSnapshot) -> str:
    """Return in words the status of a pod: its node, its scheduler, what it waits for."""
    waits = "" if pod.node_name else why_it_waits(pod, snapshot)
    remark = "" if pod.node_name in snapshot.nodes else " (no such node)"
    phrases = {
        f"is on {pod.node_name}{remark}": pod.node_name,
        "is being deleted": pod.terminating,
        f"has scheduling gates ({', '.join(pod.gates)})": pod.gates,
        owner_in_words(pod, snapshot.policies): pod.scheduler not in snapshot.policies,
        f"waits: {waits}": waits}
    return " and ".join(phrase for phrase, is_so in phrases.items() if is_so) or "is pending"


def owner_in_words(pod: FullPod, policies: dict) -> str:
    """Return in words the other scheduler that a pod names, and which of ours it may mean."""
    meant = pod.scheduler != "default-scheduler" and nearly(pod.scheduler, tuple(policies))
    return f"names {pod.scheduler} (did you mean {meant}?)" if meant else f"belongs to {pod.scheduler}"


def why_it_waits(pod: FullPod, snapshot: FullSnapshot) -> str:
    """Return why a pod is not tried or bound yet, from its condition or a rule; or ""."""
    for condition in pick(pod.raw, list, "status", "conditions", of=dict):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Waiting":
            return text_at(condition, "message")
    policy = snapshot.policies.get(pod.scheduler)
    return run_pre_enqueue(pod, policy) if policy else ""
