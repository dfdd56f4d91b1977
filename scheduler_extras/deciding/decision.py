"""The decision about a pod, made up of votes and of the reasons against nodes.

policy/policy.py makes one for each attempt; live/ carries it out, and show/ explains it.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import time
from dataclasses import dataclass, field
from typing import Any

from scheduler import Decision, log, sum_up
from scheduler_extras.common.blame import describe_error
from scheduler_extras.common.errors import FAILURE, ApiError, Malformed, ServerUnavailable, Unschedulable
from scheduler_extras.deciding.rule import WHATEVER_THE_NODE, Rejected, Unresolvable
from scheduler_extras.deciding.snapshot import FullSnapshot


class Diagnosis(dict):
    """The reasons against the nodes that do not fit: {node: {predicate: its reasons}}.

    Nodes with equal reasons share one object, so that these are summed up fast.
    """

    @functools.cached_property
    def message(self) -> str:
        """Why no node fits, in the format of `sum_up`."""
        if not self:
            return sum_up(self)
        numbers = collections.Counter(map(id, self.values()))
        counts: collections.Counter[str] = collections.Counter()
        for key, against in self.different().items():
            for reason in itertools.chain.from_iterable(against.values()):
                counts[reason] += numbers[key]
        parts = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        return f"0/{len(self)} nodes are available: {parts}."

    @functools.cached_property
    def titles(self) -> set[str]:
        """The titles of the predicates that have refused a node."""
        return {title for against in self.different().values() for title in against}

    def different(self) -> dict[int, dict]:
        """Return the different values, {id: {predicate: its reasons}}."""
        return {id(against): against for against in self.values()}


def combine_refusals(nodes: dict, refusals: list[tuple[str, dict]]) -> tuple[dict, Diagnosis]:
    """Return the nodes that no predicate refuses, and the Diagnosis of the others, in the nodes' order.

    refusals: [(title of a predicate, {node: its reasons})].
    """
    if not refusals:
        return nodes, Diagnosis()
    against: dict[str, dict] = collections.defaultdict(dict)
    for title, refused in refusals:
        for name, reasons in refused.items():
            against[name][title] = reasons
    shared: dict[str, dict] = {}  # text of the reasons against a node -> these: equal ones are kept once
    by_lists = {}  # the same by the identity of the lists, as writing out the text takes long
    failed = Diagnosis()
    for name in [name for name in nodes if name in against]:
        lists = tuple((title, id(reasons)) for title, reasons in against[name].items())
        if lists not in by_lists:
            by_lists[lists] = shared.setdefault(repr(against[name]), against[name])
        failed[name] = by_lists[lists]
    return {name: node for name, node in nodes.items() if name not in failed}, failed


@dataclass
class Vote:
    """The scores of a priority or an extender for the feasible nodes."""

    title: str
    weight: int
    raw: dict | None  # node -> the score that the priority's function returned; None for an extender
    points: dict  # node -> 0 to 100, after `reduce`; an extender's points include its weight (weight: 1)

    @functools.cached_property
    def common_points(self) -> float | None:
        """The points of each node if they are equal, as for most priorities; else None."""
        different = {*self.points.values()}
        return different.pop() if len(different) == 1 else None


@dataclass(eq=False)
class FullDecision(Decision):
    """A decision, with the results of the other extension points and of the extenders."""

    pod: Any  # a FullPod
    failed: Diagnosis = field(default_factory=Diagnosis)  # why the other nodes do not fit
    policy: Any = None  # the FullPolicy whose rules decide
    snapshot: FullSnapshot | None = None  # what the rules see
    condition_reason: str = "Unschedulable"  # without a node: the reason of its PodScheduled condition
    is_error: bool = False  # without a node: whether a rule or a request failed; else it is unschedulable
    votes: list = field(default_factory=list)  # of each priority and each extender
    remedy: str = ""  # without a node: what PostFilter does, in words
    why_not_preempted: object = ""  # without a node: why preemption does not help, a text or {node: reasons}
    server_error: ServerUnavailable | None = None  # of the API server, if this attempt met any
    why_delayed: str = ""  # with a node: why the pod is not bound to it yet
    requests: list = field(default_factory=list)  # without a node: the requests of PostFilter

    # Times in monotonic seconds, then a duration, then a number:
    began_at: float = field(default_factory=lambda: time.monotonic())
    filtered_at: float = 0
    decided_at: float = 0
    binding_seconds: float = 0  # that its Binding took
    binding_tries: int = 0  # how often its Binding was sent

    @property
    def raw(self) -> dict[str, dict]:
        """The scores as the priorities gave them, {priority: {node: score}}."""
        return {vote.title: vote.raw for vote in self.votes if vote.raw is not None}

    @property
    def scores(self) -> dict[str, dict]:
        """The points times the weights, {priority or extender: {node: score}}."""
        return {vote.title: {name: vote.weight * points for name, points in vote.points.items()}
                for vote in self.votes}

    @property
    def fits_nowhere(self) -> bool:
        """Whether predicates have ruled out all nodes, or there are none."""
        return self.node is None and len(self.failed) == len(self.nodes)

    @functools.cached_property
    def unchecked(self) -> list[str]:
        """The pod's requirements that no active rule checks, with the rules that would, in words."""
        node = self.nodes.get(self.node)
        found = []
        for what, (rule, requires) in self.policy.unchecked.items():
            with contextlib.suppress(Exception):  # no active rule has validated these fields
                if requires(self.pod, node):
                    name = self.policy.name_for(rule)
                    found.append(f"has {what}, and {name}, which looks at that, is not active")
        return found

    def give_up(self, error: BaseException, is_failure: bool = False) -> None:
        """Leave the pod pending because of an error, and name the rule that raised it.

        is_failure: the attempt counts as failed even if the pod is Unschedulable.
        """
        if isinstance(error, ServerUnavailable):
            self.server_error = error
        is_malformed = isinstance(error, Malformed) and not self.node
        if is_failure or not (isinstance(error, Unschedulable) or is_malformed):
            self.is_error = True
            self.condition_reason = "SchedulerError" if self.node else self.policy.reason_for_errors
        self.node = None
        self.why_delayed = ""
        is_known = isinstance(error, (Unschedulable, Malformed, ApiError))
        self.message = str(error) if is_known else describe_error(error)
        if isinstance(error, Rejected):
            why = {f"{error.title}{WHATEVER_THE_NODE}": [Unresolvable(error)]}
            self.failed = Diagnosis(dict.fromkeys(self.nodes, why))
            self.message = self.policy.rejection(error, self.failed)
        if not is_known:
            FAILURE.set()
            log.debug("%s", self.pod.key, exc_info=error)
