"""Calling the rules for a pod and the nodes.

policy/policy.py calls PreparedRules: rules with their metadata for the pod.
"""

from __future__ import annotations

import functools
import time
import types
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from scheduler_extras.common.return_checks import (
    STRINGS,
    check_number,
    check_points,
    strings_of,
    wrong_answer,
)
from scheduler_extras.deciding.answers import AnswerCache, Answers, answer_each, answers_about
from scheduler_extras.deciding.decision import Vote
from scheduler_extras.deciding.recorded_reads import RecordingView, cache_key_of, recorded_reads
from scheduler_extras.deciding.rule import SKIP, FullRule, Rejected, Unresolvable
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.pods_and_nodes import POD_INDEPENDENT, FullNode, FullPod


class PreparedRule:
    """A rule with its metadata for a pod, ready to be called for nodes."""

    def __init__(self, rule: FullRule, pod: FullPod, metadata: Any):
        self.rule = rule
        self.pod = pod
        self.metadata = metadata
        function: Any = rule.function
        self.function = functools.partial(function, metadata=metadata) if rule.metadata else function
        self.key = cache_key_of(pod, rule, metadata)  # None: its answers are not kept
        self.pod_view = pod if self.key is None else RecordingView(pod, rule.reads)  # what the rule receives
        self.shared: dict[str, list] = {}  # repr of reasons -> reasons, to store equal ones once

    def reasons(self, node: FullNode) -> list[str]:
        """Return the reasons that a predicate has against a node."""
        reasons = self.function(self.pod_view, node)
        if isinstance(reasons, types.GeneratorType):
            reasons = [*self.yielded_by(reasons)]
        if reasons == []:  # the usual answer, returned fast
            return reasons
        reasons = strings_of(self.rule, reasons)
        text = repr(reasons)
        if text not in self.shared:
            self.shared[text] = [*map(Unresolvable, reasons)] if self.rule.unresolvable else reasons
        return self.shared[text]

    def yielded_by(self, answer: Generator[str, None, Any]) -> Iterator[str]:
        """Yield the reasons that a predicate yields. Raises InputError if it also returns a value."""
        returned = yield from answer
        if returned:
            raise wrong_answer(self.rule, STRINGS, returned)

    def score(self, node: FullNode) -> int | None:
        """Return the score that a priority gives a node."""
        score = self.function(self.pod_view, node)
        if self.rule.reduce and not isinstance(score, (int, types.NoneType)):  # it handles None itself
            check_number(self.rule, score)
        if not self.rule.reduce and not (type(score) is int and 0 <= score <= 100):
            check_points(self.rule, {node.name: score})
        return score

    def filter(self, nodes: dict, snapshot: FullSnapshot) -> tuple[dict, dict]:
        """Return the nodes that a predicate accepts, and its reasons against the others."""
        return self.call_for(nodes, snapshot, self.reasons, split_nodes)

    def vote(self, nodes: dict, snapshot: FullSnapshot) -> Vote:
        """Return the Vote of a priority on these nodes, {name: Node}."""
        return self.call_for(nodes, snapshot, self.score, self.make_vote)

    def call_for(self, nodes: dict[str, FullNode], snapshot: FullSnapshot, function: Callable,
                 then: Callable) -> Any:
        """Return then(nodes, {name: function(node)}), from the cache where possible. Record the reads."""
        time_rule = snapshot.time_rule
        began = time.monotonic() if time_rule else 0
        compute = functools.partial(self.compute, function)
        result = answers_about(nodes, self.key, snapshot, compute, self.metadata, then)
        if self.key and recorded_reads(self.pod_view):
            self.note_reads(snapshot.answer_cache)
        if time_rule:
            time_rule(self.rule, False, time.monotonic() - began)
        return result

    def compute(self, function: Callable, nodes: dict[str, FullNode]) -> Answers:
        """Return the Answers about nodes that have changed, or about all."""
        if self.rule.score_all:
            return Answers(self.rule.score_all(nodes, metadata=self.metadata))
        if self.metadata or not self.rule.steady or not nodes:  # the rule may compare nodes with metadata
            return Answers(answer_each(function, nodes))
        if len(nodes) == 1 and self.rule.has_read_pods:  # to record reads takes longer
            return Answers(answer_each(function, nodes))
        answers = once_for_equal_nodes(function, nodes)
        self.rule.has_read_pods |= answers.reads_pods
        return answers

    def note_reads(self, cache: AnswerCache) -> None:
        """Extend the cache key with the attributes that the rule has read for the first time.

        Earlier answers stay valid for this pod, and so for all pods that share the longer key.
        """
        before = self.key
        self.rule.reads = tuple(dict.fromkeys(self.rule.reads) | recorded_reads(self.pod_view))
        self.key = cache_key_of(self.pod, self.rule, self.metadata)
        cache.rename(before, self.key)

    def make_vote(self, nodes: dict[str, FullNode], raw: dict[str, Any]) -> Vote:
        """Return a Vote made from raw scores of any size: `reduce` turns them into points from 0 to 100."""
        rule = self.rule
        points = raw
        if rule.reduce:
            try:
                points = rule.reduce(dict(raw))
            except TypeError:
                if None in raw.values():  # the rule has no `return`
                    check_number(rule, None)
                raise
            if not isinstance(points, dict) or points.keys() != raw.keys():
                raise wrong_answer(rule, "reduce: return {name: score} of all nodes", points, rule.reduce)
            check_points(rule, points, rule.reduce)
        return Vote(rule.title, rule.weight, raw, points)


def once_for_equal_nodes(function: Callable, nodes: dict[str, FullNode]) -> Answers:
    """Call a function for each node, but only once for nodes that are equal in all that the rule reads."""
    (name, first), *others = nodes.items()
    view = RecordingView(first)
    answers = answer_each(function, {name: view})
    reads = recorded_reads(view)
    if not reads:
        return Answers(dict.fromkeys(nodes, answers[name]), reads_pods=False)
    reads_pods = not reads.keys() <= POD_INDEPENDENT
    known = {values_of(first, reads): answers[name]}
    if None in known and reads_pods:
        return Answers(answers | answer_each(function, dict(others)))
    for name, node in others:
        values = values_of(node, reads)
        if values is not None and values in known:
            answers[name] = known[values]
            continue
        view = RecordingView(node)
        answers |= answer_each(function, {name: view})
        reads_pods = reads_pods or not recorded_reads(view).keys() <= POD_INDEPENDENT
        if values is not None and recorded_reads(view).keys() <= reads.keys():
            known[values] = answers[name]
    return Answers(answers, reads_pods)


def values_of(node: FullNode, attributes: Iterable[str]) -> tuple | None:
    """Return the values of attributes of a node; None if they are not hashable, such as its labels."""
    values = tuple([getattr(node, name, ...) for name in attributes])
    try:
        hash(values)
    except TypeError:
        return None
    return values


def split_nodes(nodes: dict[str, FullNode], reasons: dict[str, list]) -> tuple[dict, dict]:
    """Return the nodes without reasons against them, {name: Node}, and the reasons against the others."""
    refused = {name: against for name, against in reasons.items() if against}
    passing = {name: node for name, node in nodes.items() if name not in refused} if refused else nodes
    return passing, refused


def prepare(rules: list[FullRule], pod: FullPod, nodes: dict, snapshot: FullSnapshot) -> list[PreparedRule]:
    """Compute the metadata of rules. Return PreparedRules, without those that skip the pod.

    Raises Unschedulable.
    """
    prepared = []
    node_list = list(nodes.values())
    for rule in rules:
        metadata = metadata_of(rule, pod, node_list, snapshot) if rule.metadata else None
        if metadata is not SKIP:
            prepared.append(PreparedRule(rule, pod, metadata))
    return prepared


def metadata_of(rule: FullRule, pod: FullPod, node_list: list[FullNode], snapshot: FullSnapshot) -> Any:
    """Return the metadata that a rule computes for the pod, or SKIP. Raises Unschedulable."""
    time_rule = snapshot.time_rule
    began = time.monotonic() if time_rule else 0
    compute: Any = rule.metadata
    try:
        metadata = compute(pod, node_list, snapshot)
    except Rejected as error:
        error.title = rule.title
        raise
    if time_rule:
        time_rule(rule, True, time.monotonic() - began)
    return metadata
