"""The records of nodes, decisions and Policies that the page receives. journal.py adds them to frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scheduler_extras.deciding.decision import FullDecision, Vote
from scheduler_extras.policy.policy_file import lines_of
from scheduler_extras.reading.pods_and_nodes import FullNode
from scheduler_extras.rules.script_rules import TAINT, insufficient
from scheduler_extras.rules.spreading import HOSTNAME
from scheduler_extras.show.explain import invalid_terms, merged_entries
from scheduler_extras.show.page.causes import Cause, cause_of, names_of, pods_with_reserved_room, requests_of
from scheduler_extras.show.page.manifest import asks_of, manifest_of
from scheduler_extras.show.page.neighbors import neighbors_of, spread_in_words
from scheduler_extras.show.text import shorten


MAX_IN_FULL = 300  # nodes of a cluster in which the cause is recorded for each node, not only the reason
DEFAULT_SECONDS = 300  # of the tolerations that admission adds. Upstream: DefaultTolerationSeconds
MAX_PODS = 40  # pods that are named on a node
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", "zone")
NOISE = {HOSTNAME, *(f"{beta}kubernetes.io/{name}" for beta in ("", "beta.") for name in ("arch", "os"))}


def node_record(node: FullNode, is_one_of_few: bool) -> dict:
    """Return the record of a node: its capacity, usage, taints and pods; in small clusters, its labels."""
    zone = next((node.labels[key] for key in ZONES if node.labels.get(key)), "")
    labels = {}
    if is_one_of_few:
        labels = {key: value for key, value in sorted(node.labels.items()) if key not in NOISE}
    pods = [(pod.key, pod.priority, [number for _, number, _ in pod.host_ports])
            for pod in list(node.pods.values())[-MAX_PODS:]]
    return {
        "zone": zone, "cordoned": node.unschedulable, "labels": labels,
        "taints": ["=".join(filter(None, taint[:2])) + f":{taint.effect}" for taint in node.taints],
        "room": {**nonzero(node.allocatable), "pods": node.max_pods},
        "used": {**nonzero(node.requested), "pods": len(node.pods)}, "pods": pods}


def nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return the amounts that are not 0."""
    return {name: amount for name, amount in amounts.items() if amount}


def decision_record(decision: FullDecision, without: dict) -> dict:
    """Return the record of a decision. without: {title of a predicate: the Answers without it}."""
    pod, policy = decision.pod, decision.policy
    notes = [*merged_entries([vote.title for vote in decision.votes]),
             *(f"{pod.key} {what}" for what in [
                 *decision.unchecked, *invalid_terms(pod), *tolerated_by_default(decision)])]
    predicates = [rule.title for rule in policy.predicates_to_ask()]
    node_answers = answers_record(decision, decision.failed, decision.total, decision.votes)
    has_details = len(decision.nodes) <= MAX_IN_FULL
    asks = [*(spread_in_words(decision) if has_details else []), *asks_of(pod)]
    return {
        "pod": pod.key, "uid": pod.uid, "by": pod.scheduler, "priority": pod.priority,
        "requests": nonzero(pod.requests), "asks": asks, "yaml": manifest_of(pod),
        "neighbors": neighbors_of(decision) if has_details else [],
        "node": decision.node, "message": decision.message or "", "nodes": len(decision.nodes),
        "rules": list(dict.fromkeys(predicates)), "all": policy.always_check_all,
        **node_answers, "notes": notes, "reserved": reserved_record(decision),
        "without": {title: answers_record(decision, *answers) for title, answers in without.items()},
        "help": helps(decision, without)}


def tolerated_by_default(decision: FullDecision) -> Iterator[str]:
    """Yield the taints of the pod's node that it tolerates for a time only, as admission adds to all pods."""
    node = decision.nodes.get(decision.node or "")
    for taint in node.taints if node else ():
        for each in decision.pod.tolerations:
            if each.get("key") == taint.key and each.get("tolerationSeconds") == DEFAULT_SECONDS:
                yield f"tolerates {taint.key}:{taint.effect} for {DEFAULT_SECONDS} s by default"


def reserved_record(decision: FullDecision) -> dict:
    """Return what is reserved for nominated pods, {node: {"for": their names, "amounts": their requests}}."""
    return {name: {"for": names_of(pods), "amounts": nonzero(requests_of(pods))}
            for name, pods in pods_with_reserved_room(decision, decision.nodes.values()).items()}


def answers_record(decision: FullDecision, failed: dict, total: dict, votes: Iterable[Vote]) -> dict:
    """Return the record of the rules' answers: the nodes that fit, their points, the causes at others."""
    fit = list(total)
    has_details = len(decision.nodes) <= MAX_IN_FULL
    places: dict[tuple, int] = {}  # what is against a node -> its index in `against`
    against: list[dict] = []
    out = {}
    for name, reasons in failed.items():
        cause = cause_of(decision, name, reasons) if has_details else None
        kind = (id(reasons), cause.words, *cause.blame) if cause else (id(reasons),)
        if kind not in places:
            places[kind] = len(against)
            against.append({"by": reasons, **in_short(cause or in_general(reasons))})
        out[name] = places[kind]
    return {"fit": fit, "votes": [vote_record(vote, fit) for vote in votes], "against": against, "out": out}


def in_short(cause: Cause) -> dict:
    """Return the part of a cause that a tile of the page shows."""
    return {"words": cause.words, "blame": cause.blame}


def in_general(against: dict[str, list[str]]) -> Cause:
    """Return the Cause for all nodes with these reasons, {predicate: its reasons}."""
    reasons = list(dict.fromkeys(reason for each in against.values() for reason in each))
    words = ", ".join(map(reason_in_short, reasons))
    beginning = insufficient("")
    blame = [f"room:{reason.removeprefix(beginning)}" for reason in reasons if reason.startswith(beginning)]
    return Cause(shorten(words, 80), blame)


def reason_in_short(reason: str) -> str:
    """Return a reason for the page, such as "taint gpu=true"."""
    if reason.startswith(TAINT):
        taint, _, _ = reason.removeprefix(TAINT).partition("}")
        return f"taint {taint.replace(': ', '=', 1).removesuffix('=')}"
    return reason.removeprefix("node(s) ")


def vote_record(vote: Vote, fit: list) -> dict:
    """Return the record of a Vote: a number for each node that fits, or one number if all are equal."""
    raw = None if vote.raw is None else short([vote.raw[name] for name in fit])
    return {"title": vote.title, "weight": vote.weight, "raw": raw,
            "points": short([vote.points[name] for name in fit]), "reduced": vote.points is not vote.raw}


def short(numbers: list) -> object:
    """Return the numbers, or one number if all are equal."""
    return numbers[0] if numbers and numbers.count(numbers[0]) == len(numbers) else numbers


def helps(decision: FullDecision, without: dict) -> str:
    """Return the least change that would help a pod that fits nowhere; "" if no single one is known."""
    if decision.node:
        return ""
    changes = []
    for title, (_, total, _) in without.items():
        for name in total:
            cause = cause_of(decision, name, {title: decision.failed[name][title]})
            changes.append((cause.size, cause.change.replace("{node}", name)))
    return min(changes)[1] if changes else ""


def policy_record(policies: dict) -> dict:
    """Return the record of the Policies in force, by schedulerName."""
    return {"by": {name: {
        "predicates": list(dict.fromkeys(
            rule.title for rule in [*policy.predicates, *policy.rules_with["post_filter"]])),
        "always": [rule.title for rule in policy.predicates if rule.always],
        "priorities": [[rule.title, rule.weight] for rule in policy.priorities],
        "lines": lines_of(policy)} for name, policy in policies.items()}}
