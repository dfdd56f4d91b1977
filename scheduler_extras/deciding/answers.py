"""The cache of answers: a rule is called again only for nodes that have changed.

asking.py and the rules use it. It saves time and changes no answer. `memo` keeps one result, `answers_about`
one answer about each node.
"""

from __future__ import annotations

import functools
import itertools
import random
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler_extras.common.clocks import HEARTBEAT


# Whatever results depend on, besides the nodes, is their `basis`. If that changes, they are computed again.
# Each change of a node, or of a pod on it, gives the node a new version; answers about it are then
# computed again.


class SameForAnyNode(dict):
    """{name: answer}, found without reading a node: a change of a node does not change it."""


@dataclass(slots=True)
class Finding:
    """What is cached under a key. A finding is immutable: a new one replaces it."""

    basis: object
    result: object
    version: int  # of the memory, at that time
    nodes: dict  # name -> Node, of those that the result is about
    answers: dict  # of these nodes, in their order; then of others


@dataclass(eq=False)
class Memory:
    """The findings, and the version of each node that has changed."""

    MOST = 2_000_000  # answers about nodes, of about 50 bytes each: 100 MiB
    version: int = 0  # grows with each change of a node, and is then this node's version
    versions: dict = field(default_factory=dict)  # name of a node -> its version; the newest is last
    findings: dict = field(default_factory=dict)  # key -> Finding
    changes: dict = field(default_factory=dict)  # version -> the nodes that have changed since

    def note(self, name: str) -> None:
        """Give a node that has changed a new version."""
        self.version += 1
        self.versions.pop(name, None)
        self.versions[name] = self.version
        self.changes = {}

    def changed_since(self, version: int) -> frozenset:
        """Return the names of the nodes that have changed since a version."""
        if len(self.changes) > 10:  # a pod's rules were last asked at few versions, and sets may be large
            self.changes = {}
        if version not in self.changes:
            changed = itertools.takewhile(lambda name: self.versions[name] > version, reversed(self.versions))
            self.changes[version] = frozenset(changed)
        return self.changes[version]

    def copy(self) -> Memory:
        """Return a copy with the same findings."""
        return replace(self, versions=dict(self.versions), findings=dict(self.findings))

    def rename(self, before: Hashable, now: Hashable | None) -> None:
        """Move a finding from one key to another; None: drop it."""
        found = self.findings.pop(before, None)
        if found and now is not None:
            self.findings[now] = found

    def keep(self, key: Hashable | None, finding: Finding, size: int) -> None:
        """Keep a finding about `size` nodes, unless its key is None. If there is no room, evict random ones.

        Random, because pods often come in a cycle: the oldest finding would be the next one needed.
        """
        if key is None:
            return
        self.findings[key] = finding
        while len(self.findings) * (size + 500) > self.MOST:  # 500 for what does not depend on nodes
            del self.findings[random.choice([*self.findings])]


def memo(key: Hashable | None, snapshot: Any, basis: object, compute: Callable) -> Any:
    """Return compute(), or what that returned before under this key, if the basis was equal."""
    memory = snapshot.memory
    last = memory.findings.get(key)
    if last is None or last.basis != basis:
        last = Finding(basis, compute(), memory.version, {}, {})
        memory.keep(key, last, len(snapshot.nodes))
    return last.result


def answers_about(nodes: dict, key: Hashable | None, snapshot: Any, ask: Callable, basis: object = None,
                  then: Callable = lambda nodes, answers: answers, update: Callable | None = None) -> Any:
    """Return then(nodes, {name: answer}). Only nodes that have changed since the last call are asked about.

    nodes: {name: Node}. ask: returns {name: answer} of some nodes, such as `for_each(function of a node)`.
    update: replaces `then` where the nodes are all nodes of the snapshot. It is a function of the last result
    or None, the answers before, and the answers that have changed.
    """
    memory = snapshot.memory
    last = memory.findings.get(key)
    if last is None or last.basis != basis:
        answers = ask(nodes)
        result = update(None, {}, answers) if update else then(nodes, answers)
    elif nodes is last.nodes and type(last.answers) is SameForAnyNode:
        return last.result
    else:
        are_same_nodes = nodes is last.nodes or nodes == last.nodes  # `is` takes no time
        changed = memory.changed_since(last.version)
        answers, updated = answers_by_now(last, nodes, ask, changed, are_same_nodes)
        result = last.result
        if update:
            result = update(result, last.answers, updated) if updated else result
        elif updated or not are_same_nodes:  # else it is what it was
            about_these = answers
            if len(answers) > len(nodes):
                about_these = {name: answers[name] for name in nodes}
            result = then(nodes, about_these)
    memory.keep(key, Finding(basis, result, memory.version, nodes, answers), len(snapshot.nodes))
    return result


def answers_by_now(last: Finding, nodes: dict, ask: Callable, changed: frozenset,
                   are_same_nodes: bool) -> tuple[dict, dict]:
    """Return the current answers about these nodes, and those that differ from before.

    Asks about changed and new nodes. Drops the answers about changed nodes that are not among these.
    """
    answers = last.answers
    to_ask = changed & nodes.keys()
    if not are_same_nodes:
        to_ask |= nodes.keys() - answers.keys()
    asked = ask({name: nodes[name] for name in sorted(to_ask)}) if to_ask else {}
    updated = {name: answer for name, answer in asked.items()
               if name not in answers or answers[name] != answer}
    outdated = changed - to_ask
    if updated or outdated:
        answers = answers | updated
        for name in outdated:
            answers.pop(name, None)
    if not are_same_nodes:
        answers = {name: answers[name] for name in nodes} | answers  # in the order of the nodes
    return answers, updated


def answer_each(function: Callable, nodes: dict) -> dict:
    """Return {name: function(node)} of nodes."""
    answers = {}
    for name, node in nodes.items():
        HEARTBEAT.at = time.monotonic()  # an expensive rule may take long about all nodes
        answers[name] = function(node)
    return answers


def for_each(function: Callable) -> Callable:
    """Return a function that returns {name: function(node)} of nodes, for `answers_about`."""
    return functools.partial(answer_each, function)
