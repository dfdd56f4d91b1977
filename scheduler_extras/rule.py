"""How more is said of a rule, and how rules are asked: a Prepared rule has its metadata, and remembers.

The decorators of rules/ make a FullRule; policy/policy.py asks the Prepared ones for each pod.
"""

from __future__ import annotations

import collections
import functools
import itertools
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler import (
    CATALOGUES, ApiError, Decision, Failures, Malformed, Policy, Rule, Trouble, Unschedulable,
    disks_of, hostile_taints, log, pick
)
from scheduler_extras.memory import FullSnapshot, Seen, likeness, recall, signature
from scheduler_extras.trouble import (
    RULE_OF, TURN, OutOfTime, check_points, naming, strings_of, what_broke, wrong_answer
)


@dataclass(eq=False)
class FullRule(Rule):
    """A rule, and all that decorators and the Policy say of it."""

    # What its decorator says:
    where: str = "predicates"  # which list of a Policy names it; else "priorities"
    metadata: Callable | None = None  # works out, once per pod, what the function takes as `metadata`
    argument: dict | None = None  # the fields of an entry's `argument`, {field: type}; None: it takes none
    default: dict = field(default_factory=dict)  # the values of fields that an entry may leave out
    member: str | None = None  # an entry whose argument has this field means this rule, whatever its name
    check: Callable | None = None  # yields what is wrong with the arguments
    hooks: dict = field(default_factory=dict)  # its functions for the other extension points
    steady: bool = False  # it says the same whenever it looks at the same, and `metadata` are equal
    # What a pod may ask for -> function(pod, its node or None), whether it does: to warn that nobody looks.
    looks_at: dict = field(default_factory=dict)
    aliases: list = field(default_factory=list)  # other names of it in a Policy; several rules may have one
    always: bool = False  # it is active whatever a Policy names
    by_default: int = 0  # 1, or a priority's weight: it is active where a Policy leaves the list out
    plugin: str = ""  # the plugin that it is part of today; "": one of its own name

    # What the Policy says:
    title: str = ""  # what it calls the rule, by any of its names
    settings: dict = field(default_factory=dict)  # what functions take by these names; else their defaults

    # What was seen of it: the attributes of pods that the function has looked at so far, if it is steady; and
    # the likeness of pods for which a predicate has nothing against any node, as it looks at none.
    reads: tuple = field(default=(), init=False)
    idle: set = field(default_factory=set, init=False)


def full_rule(where, name, function, **options):
    """Return the rule that a decorator registers, with all that it says."""
    for each in (function, *options.values()):
        if hasattr(each, "__code__"):
            RULE_OF[each.__code__] = name
    given = {option: value for option, value in options.items() if value is not None}
    hooks = {option: given.pop(option) for option in given.keys() - FullRule.__dataclass_fields__.keys()}
    return FullRule(name, function, where=where, hooks=hooks, **({"plugin": name} | given))


def register(where, name, make=full_rule, **options):
    """Return a decorator that makes a function the rule of this name. Options: the fields of FullRule."""
    def decorate(function):
        """Register the function."""
        CATALOGUES[where][name] = make(where, name, function, **options)
        return function

    return decorate


predicate = functools.partial(register, "predicates")  # of the rules of this folder
priority = functools.partial(register, "priorities")
WHEN = "DuringSchedulingIgnoredDuringExecution"  # the end of two names of fields: required..., preferred...


def requires(side, pod, node):
    """Say whether the pod has required affinity of a kind, such as podAntiAffinity."""
    return pick(pod.spec, dict, "affinity", side).get(f"required{WHEN}")


# Name of a rule of the script -> its function. Who edits a rule there, or deletes it, is obeyed.
IN_THE_SCRIPT = {rule.name: rule.function for catalogue in CATALOGUES.values() for rule in catalogue.values()}
GENERAL = {"by_default": 1, "aliases": ["GeneralPredicates"]}


def pod_fits_other_resources(pod, node, excepted=()):
    """PodFitsResources, but for the resources that extenders see to."""
    reasons = IN_THE_SCRIPT["PodFitsResources"](pod, node)
    if not excepted:
        return reasons
    return [reason for reason in reasons if reason.removeprefix("Insufficient ") not in excepted]


# All of these are steady: each says the same whenever it looks at the same. Who edits one so that it goes by
# chance, the clock, a file, or what it has kept, adds "steady": False here, and it is asked each time.
# A rule of the script that is not here is not steady: nobody has said so.
SAID_OF_THE_SCRIPTS_RULES = {
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
        "function": pod_fits_other_resources, "plugin": "NodeResourcesFit", **GENERAL,
        "looks_at": {"resource requests": lambda pod, node: any(pod.requests.values())}},
    "NoDiskConflict": {
        "plugin": "VolumeRestrictions", "by_default": 1,
        "looks_at": {"a network disk": lambda pod, node: disks_of(pod)}},
    "PodToleratesNodeTaints": {
        "plugin": "TaintToleration", "always": True,
        "looks_at": {"no toleration for taints there": lambda pod, node: node and hostile_taints(pod, node)}},
    "LeastRequestedPriority": {"plugin": "NodeResourcesFit", "by_default": 1},
    "BalancedResourceAllocation": {"plugin": "NodeResourcesBalancedAllocation", "by_default": 1},
    "NodeAffinityPriority": {"plugin": "NodeAffinity", "by_default": 1},
    "TaintTolerationPriority": {"plugin": "TaintToleration", "by_default": 1}}


for where, catalogue in CATALOGUES.items():
    for rule in [*catalogue.values()]:
        said = SAID_OF_THE_SCRIPTS_RULES.get(rule.name, {"steady": False})
        options = {"function": rule.function, "reduce": rule.reduce, "steady": True} | said
        catalogue[rule.name] = full_rule(where, rule.name, **options)
        RULE_OF[rule.function.__code__] = rule.name


WHATEVER_THE_NODE = " (whatever the node)"  # ends the title of a rule that has Rejected a pod
SKIP = object()  # what a `metadata` function returns to have its rule left out for the pod


class Prepared:
    """A rule that is ready to be asked about nodes: its metadata for a pod, or pods alike, is worked out."""

    def __init__(self, rule, pod, metadata):
        self.rule = rule
        self.pod = pod
        self.metadata = metadata
        self.function = rule.function
        if rule.metadata:
            self.function = functools.partial(rule.function, metadata=metadata)
        self.like = likeness(pod, rule, metadata)
        self.seen = pod if self.like is None else Seen(pod, rule.reads)  # what the rule is given
        self.is_idle = False  # whether it was seen to have nothing against any node, as it looks at none
        self.known = {}  # the text of reasons -> these; so equal ones take up the room of one

    def reasons(self, node):
        """Return the reasons that a predicate has against a node."""
        reasons = self.function(self.seen, node)
        if isinstance(reasons, types.GeneratorType):
            reasons = list(reasons)
        if reasons == []:  # the usual answer, so that this is to be fast
            return reasons
        reasons = strings_of(self.rule, reasons)
        return self.known.setdefault(repr(reasons), reasons)

    def score(self, node):
        """Return the score that a priority gives a node."""
        score = self.function(self.seen, node)
        if not self.rule.reduce and not (type(score) is int and 0 <= score <= 100):
            check_points(self.rule, {node.name: score})
        return score

    def split(self, nodes, snapshot):
        """Return those of these nodes that a predicate lets pass; and its reasons against the others."""
        return self.ask(nodes, snapshot, self.reasons, split_nodes)

    def vote(self, nodes, snapshot):
        """Return what a priority gives to these nodes, {name: Node}: a Vote."""
        return self.ask(nodes, snapshot, self.score, self.make_vote)

    def ask(self, nodes, snapshot, question, then):
        """Return then(nodes, the answers about them), as `recall` does. Note what the rule has looked at."""
        memory = snapshot.memory
        is_known = self.like is None or (self.rule, self.like) in memory.findings
        if not (is_known or self.metadata):  # which may be one of the nodes: to ask `is` leaves no note
            question = self.for_all_if_no_node_is_looked_at(nodes, question)
        so_far = self.pod.so_far if self.like is None else None
        try:
            with naming(self.rule):
                result = recall(
                    self.rule, self.like, snapshot, nodes, question, self.metadata, then, so_far=so_far)
        except OutOfTime:  # what was found by now is kept for the pod's next turn
            self.note_reads(memory)
            raise
        self.note_reads(memory)
        return result

    def for_all_if_no_node_is_looked_at(self, nodes, question):
        """Ask about the first node. Return what to ask of all: an answer found without it is that of all."""
        first = next(iter(nodes.values()), None)
        if first is None:
            return question
        seen = Seen(first)
        answer = question(seen)
        looks_at_nodes = bool(seen._names)
        self.is_idle = answer == [] and self.metadata is None and not looks_at_nodes
        return lambda node: question(node) if looks_at_nodes and node is not first else answer

    def note_reads(self, memory):
        """Have the rule's answers kept by all that it has looked at, if that is more than it ever was.

        What was found until now is right for this pod, and so for all that are like it in more.
        """
        rule = self.rule
        before = self.like
        if before is None:
            return
        if self.seen._names:
            rule.reads = tuple(dict.fromkeys(rule.reads) | self.seen._names)
            self.like = likeness(self.pod, rule, self.metadata)
            memory.rename(rule, before, self.like)
        if self.is_idle and self.like is not None and len(rule.idle) < 1000:
            rule.idle.add(self.like)

    def make_vote(self, nodes, raw):
        """Make a Vote of raw scores. They may be of any size: `reduce` makes points from 0 to 100 of them."""
        rule = self.rule
        points = raw
        if rule.reduce:
            points = rule.reduce(dict(raw))
            if not isinstance(points, dict) or points.keys() != raw.keys():
                raise wrong_answer(rule, "reduce: return {name: score} of all nodes", points, rule.reduce)
            check_points(rule, points)
        return Vote(rule.title, rule.weight, raw, points)


def split_nodes(nodes, reasons):
    """Return the nodes that a predicate has no reasons against, {name: Node}; and the reasons that it has."""
    refused = {name: against for name, against in reasons.items() if against}
    passing = {name: node for name, node in nodes.items() if name not in refused} if refused else nodes
    return passing, refused


class SharedFailures(Failures):
    """Failures of which many are the same object, as for a pod of thousands of resources: it is read once."""

    @functools.cached_property
    def message(self):
        """The reasons where no node fits, summed up; see the script."""
        numbers = collections.Counter(map(id, self.values()))
        counts = collections.Counter()
        for key, against in {id(against): against for against in self.values()}.items():
            for reason in itertools.chain.from_iterable(against.values()):
                counts[reason] += numbers[key]
        parts = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        return f"0/{len(self)} nodes are available: {parts}."


def put_together(nodes, refusals):
    """Return the nodes that no predicate refuses, and the Failures of the others, in the nodes' order.

    refusals: [(title of a predicate, {node: its reasons})].
    """
    if not refusals:
        return nodes, Failures()
    against = collections.defaultdict(dict)
    for title, refused in refusals:
        for name, reasons in refused.items():
            against[name][title] = reasons
    shared = {}  # the text of what is against a node -> that; so equal ones take up the room of one
    by_lists = {}  # the same by which lists these are: to say them as a text for each node takes long
    failed = SharedFailures()
    for name in [name for name in nodes if name in against]:
        lists = tuple((title, id(reasons)) for title, reasons in against[name].items())
        if lists not in by_lists:
            by_lists[lists] = shared.setdefault(repr(against[name]), against[name])
        failed[name] = by_lists[lists]
    return {name: node for name, node in nodes.items() if name not in failed}, failed


def prepare(rules, pod, nodes, snapshot):
    """Return the rules as Prepared ones, without those that have nothing to say. Raises Unschedulable."""
    prepared = []
    node_list = list(nodes.values()) if any(rule.metadata for rule in rules) else []
    for rule in rules:
        began = time.monotonic()
        try:
            with naming(rule):
                metadata = rule.metadata(pod, node_list, snapshot) if rule.metadata else None
        except Rejected as error:
            error.title = rule.title
            raise
        if rule.metadata:  # it has a turn of its own, as it cannot go on in the next one where it was
            TURN.ends_at += time.monotonic() - began
        is_idle = metadata is None and rule.idle and signature(pod, rule.reads) in rule.idle
        if metadata is not SKIP and not is_idle:
            prepared.append(Prepared(rule, pod, metadata))
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


@dataclass(eq=False)
class FullDecision(Decision):
    """A decision, with what the other extension points and the extenders add."""

    policy: Policy | None = None  # whose rules are asked
    snapshot: FullSnapshot | None = None  # what they look at
    condition_reason: str = "Unschedulable"  # without a node: in its condition PodScheduled
    votes: list = field(default_factory=list)  # of each priority and each extender, on the nodes that fit
    remedy: str = ""  # without a node: what a rule does about that
    trouble: Trouble | None = None  # what was the matter with the API server
    rule_has_broken: bool = False
    waits: str = ""  # with a node: why the pod is not bound to it yet
    requests: list = field(default_factory=list)  # without a node: to be sent, as a remedy

    @property
    def raw(self):
        """The scores as the priorities gave them, {priority: {node: score}}."""
        return {vote.title: vote.raw for vote in self.votes if vote.raw is not None}

    @property
    def scores(self):
        """The points times the weights, {priority or extender: {node: score}}."""
        return {vote.title: {name: vote.weight * points for name, points in vote.points.items()}
                for vote in self.votes}

    @property
    def fits_nowhere(self):
        """Whether each node has been ruled out, or there is none."""
        return self.node is None and len(self.failed) == len(self.nodes)

    def give_up(self, error):
        """Become a decision to leave the pod pending, and say which rule has broken."""
        if isinstance(error, Trouble):
            self.trouble = error
        self.pod.is_undecided = isinstance(error, OutOfTime)
        if self.pod.is_undecided or (self.node and not isinstance(error, Unschedulable)):
            self.condition_reason = "SchedulerError"  # as kube-scheduler's, if it is not that no node fits
        self.node = None
        self.waits = ""
        is_known = isinstance(error, (Unschedulable, Malformed, ApiError))
        self.message = str(error) if is_known else what_broke(error)
        if isinstance(error, Rejected):
            why = {f"{error.title}{WHATEVER_THE_NODE}": [str(error)]}
            self.failed = Failures(dict.fromkeys(self.nodes, why))
            self.message = self.policy.rejection(error, self.failed)
        if not is_known:
            self.rule_has_broken = True
            log.debug("%s", self.pod.key, exc_info=error)
