"""--explain: the scores of the best nodes, and why the other nodes do not fit.

report.py prints it; the page uses some of its sentences.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator

from scheduler_extras.common.errors import InvalidSelector, Malformed
from scheduler_extras.common.log_texts import at_most
from scheduler_extras.deciding.decision import FullDecision, Vote
from scheduler_extras.deciding.rule import DURING_SCHEDULING, PREDICATES
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.node_affinity import node_selector_term
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.preemption import NO_VICTIMS, NOT_HELPFUL
from scheduler_extras.rules.script_rules import TOO_MANY_PODS, insufficient
from scheduler_extras.show.obstacles import Obstacles
from scheduler_extras.show.picture import MANY
from scheduler_extras.show.text import (
    BOLD,
    DIM,
    GREEN,
    RED,
    Screen,
    align,
    in_digits,
    in_units,
    short_names,
    shorten,
)


def in_words(decision: FullDecision) -> str:
    """Return a decision as one line of text."""
    pod = decision.pod.key
    node_name = decision.node
    if node_name is None:
        return f"{pod} stays pending: {at_most(1024, decision.message or '')} {decision.remedy}".rstrip()
    fit = f"{len(decision.total)} of {len(decision.nodes)} nodes fit"
    if node_name in decision.total:  # an edited `schedule` may not compute scores
        fit += f", score {in_digits(decision.total[node_name])}"
    waits = f" waits: {decision.why_delayed}" if decision.why_delayed else ""
    return f"{pod} -> {node_name}  ({fit}){waits}"


def explain(decision: FullDecision, screen: Screen) -> list[str]:
    """Return a decision as lines: the outcome, the scores of the best nodes, the reasons against others."""
    lines = screen.fold(in_words(decision), rest="    ", colour=BOLD)
    shown = 0
    if decision.total:
        table, shown = best_nodes(decision, screen)
        lines += table
    for sentence in merged_entries([vote.title for vote in decision.votes]):
        lines += screen.fold(sentence, "  ")
    for sentence in sentences_about(decision, shown):
        lines += screen.fold(sentence, "  ")
    return [*lines, *failing_nodes(decision, screen), ""]


def ranked(decision: FullDecision) -> list[str]:
    """Return the nodes that fit, the best first. Among nodes that tie, the chosen one comes first."""
    total = decision.total
    return sorted(total, key=lambda name: (-total[name], name != decision.node, name))


def marks_of(decision: FullDecision) -> dict[str | None, str]:
    """Return {node: mark}: a star for the chosen node, an equals sign for each that ties with it."""
    best = decision.total.get(decision.node)
    ties = [name for name, score in decision.total.items() if decision.node and score == best]
    return dict.fromkeys(ties, "= ") | {decision.node: "* "}


def scores_in_rows(decision: FullDecision, names: list[str]) -> list[list[str]]:
    """Return the scores of these nodes as a table: a row of titles, and a row for each node."""
    marks = marks_of(decision)
    short = short_names(tuple(decision.nodes))
    rows = [["", *(vote.title for vote in decision.votes), "Total"]]
    for name in names:
        cells = [score_cell(vote, name) for vote in decision.votes]
        rows.append([marks.get(name, "") + short[name], *cells, in_digits(decision.total[name])])
    return rows


def best_nodes(decision: FullDecision, screen: Screen) -> tuple[list[str], int]:
    """Return the scores of the best nodes as lines, a column for each node, and the number of columns.

    It has as many columns as fit the screen.
    """
    rows = []
    for title, *cells in zip(*scores_in_rows(decision, ranked(decision)[:screen.width]), strict=True):
        # Entries of the Policy that are merged into one rule, A+B, have a line each.
        first, *others = [shorten(f"  {part}", screen.width // 2) for part in re.split(r"(?=\+)", title)]
        rows += [[first, *cells], *([other] for other in others)]
    if any("→" in cell for row in rows for cell in row):
        rows[0][0] = "  raw→points×weight"
    lines = align(rows)
    shown = len(rows[0]) - 1
    while shown > 1 and max(map(len, lines)) > screen.width:
        shown -= 1
        lines = align([row[:shown + 1] for row in rows])
    if decision.node:
        lines[0] = lines[0].replace(rows[0][1], screen.paint(rows[0][1], GREEN))
    return lines, shown


def sentences_about(decision: FullDecision, shown: int) -> Iterator[str]:
    """Yield the sentences below the table of scores. shown: how many of the best nodes the table shows."""
    order = ranked(decision)
    ties = marks_of(decision) if decision.node else {}
    reasons = [*itertools.chain(*(against.values() for against in decision.failed.values()))]
    count = sum(map(len, reasons))
    if count > len(decision.failed) and not order:
        yield f"Some nodes have more than one reason, so the numbers add up to {count}."
    if order[shown:]:
        down_to = in_digits(decision.total[order[-1]])
        yield f"more nodes that fit: {len(order) - shown}, down to a total of {down_to}"
    if decision.node and len(ties) < len(order):
        yield what_decided(decision, decision.node, order[len(ties)])
    if order and not (decision.votes or decision.policy.priorities or decision.policy.extenders):
        yield "no priority is active: each node that fits has a total of 1"
    if len(ties) > 1:
        yield f"{len(ties)} nodes (* and =) tie: any of them is taken, at random"
    if decision.why_not_preempted and isinstance(decision.why_not_preempted, str):
        yield f"no preemption: {decision.why_not_preempted.removesuffix('.')}"
    for what in [*decision.unchecked, *invalid_terms(decision.pod)]:
        yield f"! {decision.pod.key} {what}"


def merged_entries(titles: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each title that stands for several entries of a Policy, as in kube-scheduler."""
    for title in titles:
        if "+" in title:
            yield f"{title}: these entries of the Policy make one rule with one weight"


def invalid_terms(pod: FullPod) -> Iterator[str]:
    """Yield a remark on each invalid term of the pod's required node affinity."""
    with contextlib.suppress(Malformed):  # the rule that reads it reports it
        required = pick(pod.node_affinity, dict, f"required{DURING_SCHEDULING}")
        for i, term in enumerate(pick(required, list, "nodeSelectorTerms", of=dict)):
            try:
                node_selector_term(term)
            except InvalidSelector as error:
                invalid = f"nodeSelectorTerms[{i}] is invalid, and matches no node"
                yield f"has node affinity of which {invalid}: {error}: {at_most(1000, json.dumps(term))}"


def what_decided(decision: FullDecision, first: str, second: str) -> str:
    """Return in words the lead of one node over another, and what each priority contributes to it."""
    leads = {vote.title: vote.weight * (vote.points[first] - vote.points[second]) for vote in decision.votes}
    parts = []
    for title in sorted(leads, key=lambda title: leads[title], reverse=True):
        if leads[title]:
            sign = "+" if leads[title] > 0 else ""
            parts.append(f"{title} {sign}{in_digits(leads[title])}")
    ahead = in_digits(decision.total[first] - decision.total[second])
    short = short_names(tuple(decision.nodes))
    return f"{short[first]} is {ahead} ahead of {short[second]}: {', '.join(parts)}"


def score_cell(vote: Vote, name: str) -> str:
    """Return the cell for a node: the raw score if `reduce` changed it, the points, the weight."""
    if vote.raw is None:  # an extender, whose points include the weight
        return in_digits(vote.points[name])
    raw = "" if vote.points is vote.raw else f"{in_digits(vote.raw[name])}→"
    return f"{raw}{in_digits(vote.points[name])}×{vote.weight}"


def failing_nodes(decision: FullDecision, screen: Screen) -> Iterator[str]:
    """Yield lines with the nodes that do not fit and the reasons, grouped by reasons, largest group first."""
    groups = [*groups_of_failing(decision)]
    margin = max((len(label) for label, _, _ in groups), default=0)
    for label, sentences, nodes in groups:
        head = f"  ✗ {label:{margin}}  "
        for sentence in sentences:
            yield from screen.fold(sentence, head, RED)
            head = " " * len(head)
        text = ", ".join(nodes)
        if len(text) > MANY * (screen.width - len(head)):  # too many lines
            text = first_of(nodes)
        yield from screen.fold(text, head, DIM)


def first_of(nodes: list[str]) -> str:
    """Return the first nodes, and the number of others, in words."""
    others = f", and {len(nodes) - MANY} more" if nodes[MANY:] else ""
    return ", ".join(nodes[:MANY]) + others


def groups_of_failing(decision: FullDecision) -> Iterator[tuple[str, tuple[str, ...], list[str]]]:
    """Yield groups of nodes that do not fit, the largest first: (label, reasons, nodes).

    What the pod lacks on a node follows its name in brackets. The node that lacks least comes first.
    """
    short = short_names(tuple(decision.nodes))
    obstacles = Obstacles(decision)
    no_preemption = reasons_of_preemption(decision)
    names_by_reasons = collections.defaultdict(list)
    for name, against in decision.failed.items():
        against_it = [
            f"{title}: {', '.join(reasons) or 'no reason given'}" for title, reasons in against.items()]
        names_by_reasons[(*against_it, *no_preemption.get(name, ()))].append(name)
    for sentences, names in sorted(names_by_reasons.items(), key=lambda group: -len(group[1])):
        label = short[names[0]] if len(names) == 1 else f"{len(names)} nodes"
        misses = [(*shortage(decision, name, obstacles), short[name]) for name in names]
        misses.sort(key=lambda miss: miss[0])
        nodes = [node + (f" ({'; '.join(words)})" if words else "") for _, words, node in misses]
        yield label, sentences, [node for node in nodes if node != label]


def reasons_of_preemption(decision: FullDecision) -> dict[str, list[str]]:
    """Return {node: [why preemption does not help there]}; {} if it helps or was not tried."""
    if not isinstance(decision.why_not_preempted, dict):
        return {}
    title = decision.policy.name_for(PREDICATES["Preemption"])
    by_node = decision.why_not_preempted.items()
    return {name: [f"{title}: {preemption_in_words(why)}"] for name, why in by_node if why}


def preemption_in_words(why: tuple[str, ...]) -> str:
    """Return why preemption does not help on a node: kube-scheduler's message, or the remaining reasons."""
    reasons = ", ".join(why)
    if why in ((NO_VICTIMS,), (NOT_HELPFUL,)):
        return reasons
    return f"{reasons}, even without all less important pods"


def shortage(decision: FullDecision, name: str, obstacles: Obstacles) -> tuple[float, list[str]]:
    """Return the share of its requests that a pod lacks on a node, and in words all that it lacks."""
    node = decision.nodes[name]
    share = 0
    words = []
    reasons = {*itertools.chain(*decision.failed[name].values())}
    for resource, wanted in decision.pod.requests.items():
        if insufficient(resource) in reasons:
            free = node.allocatable.get(resource, 0) - node.requested.get(resource, 0)
            share = max(share, (wanted - free) / max(wanted, 1))
            wants = in_units(resource, wanted, math.ceil)
            words.append(f"requests {resource} {wants}, free {in_units(resource, free)}")
    if TOO_MANY_PODS in reasons and "pods" not in pick(node.raw, dict, "status", "allocatable"):
        words.append("does not say how many pods it takes")
    elif TOO_MANY_PODS in reasons:
        words.append(f"{len(node.pods)} of {node.max_pods} pods")
    words += obstacles.words(name)
    return share, words
