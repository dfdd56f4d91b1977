"""A rule and its options, and the catalogues of all rules.

The decorators of rules/ make a FullRule; prepared_rules.py calls it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scheduler import Rule
from scheduler_extras.common.blame import code_of, note_rule
from scheduler_extras.common.errors import InputError, Unschedulable


# List of a Policy -> {name: rule}, in kube-scheduler's order.
CATALOGUES: dict[str, dict[str, FullRule]] = {"predicates": {}, "priorities": {}}
PREDICATES, PRIORITIES = CATALOGUES.values()


@dataclass(eq=False)
class FullRule(Rule):
    """A rule with its options, from its decorator and from the Policy."""

    # From its decorator:
    where: str = "predicates"  # which list of a Policy names it; else "priorities"
    metadata: Callable | None = None  # called once per pod; the function gets the result as `metadata`
    argument: dict | None = None  # the schema of an entry's `argument`, {field: type}; None: it has none
    default: dict = field(default_factory=dict)  # the values of fields that an entry may leave out
    member: str | None = None  # an entry whose argument has this field selects this rule, whatever its name
    score_all: Callable | None = None  # of a priority: returns the scores of several nodes, which is faster
    check: Callable | None = None  # yields the mistakes in the arguments
    hooks: dict = field(default_factory=dict)  # its functions for the other extension points
    steady: bool = False  # its answers depend only on the attributes that it reads, and on `metadata`
    unresolvable: bool = False  # of a predicate: all of its reasons are Unresolvable
    # Function(pod) that returns whether another pod that is placed may make the pod fit; None: it never does.
    helped_by_pods: Callable | None = None
    # What a pod may require -> function(pod, its node or None) that returns whether it does. Used to warn if
    # no active rule checks it.
    pod_requirements: dict = field(default_factory=dict)
    aliases: list = field(default_factory=list)  # other names in a Policy; several rules may share one
    always: bool = False  # it is active under any Policy
    by_default: int = 0  # 1, or a priority's weight: it is active if a Policy leaves out the list
    plugin: str = ""  # its plugin in a KubeSchedulerConfiguration; by default, one of its own name

    # From the Policy:
    title: str = ""  # the name that the Policy uses for it
    settings: dict = field(default_factory=dict)  # {parameter: value} for its functions

    # If it is steady, what the function has read so far: attributes of the pod, and the pods on any node.
    reads: tuple = field(default=(), init=False)
    has_read_pods: bool = field(default=False, init=False)


def full_rule(where: str, name: str, function: Callable, **options: Any) -> FullRule:
    """Return the rule that a decorator registers, with its options. Raises InputError."""
    if not code_of(function):
        raise InputError(f'rule "{name}": expected a Python function, got {function!r:.60}')
    note_rule(name, [function, *options.values()])
    given = {option: value for option, value in options.items() if value is not None}
    hooks = {option: given.pop(option) for option in given.keys() - FullRule.__dataclass_fields__.keys()}
    return FullRule(name, function, where=where, hooks=hooks, **({"plugin": name} | given))


def register(where: str, name: str, make: Callable[..., FullRule] = full_rule, **options: Any) -> Callable:
    """Return a decorator that makes a function the rule of this name. Options: the fields of FullRule."""
    def decorate(function: Callable) -> Callable:
        """Register the function."""
        CATALOGUES[where][name] = make(where, name, function, **options)
        return function

    return decorate


predicate = functools.partial(register, "predicates")  # the decorators of the rules in rules/
priority = functools.partial(register, "priorities")
DURING_SCHEDULING = "DuringSchedulingIgnoredDuringExecution"  # the end of required... and preferred...


class Unresolvable(str):
    """A reason against a node that preemption cannot resolve. Upstream: UnschedulableAndUnresolvable."""


def is_unresolvable(against: dict) -> bool:
    """Return whether the pod would not fit a node even if that were empty. against: {predicate: its reasons}.

    Upstream: nodesWherePreemptionMightHelp.
    """
    return any(isinstance(reason, Unresolvable) for reasons in against.values() for reason in reasons)


def any_pod(pod: object) -> bool:
    """Return True: the value of `helped_by_pods` for rules that may read anything."""
    return True


SKIP = object()  # a `metadata` function returns it: the rule is skipped for the pod
WHATEVER_THE_NODE = " (whatever the node)"  # the end of the title of a rule that has rejected a pod


class Rejected(Unschedulable):
    """Raised by a `metadata` function, with the reason: the pod fits no node at all."""

    title = ""  # of the rule
