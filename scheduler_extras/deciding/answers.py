"""The cache of answers: a rule is called again only for nodes that have changed.

prepared_rules.py and the rules use it. It saves time, and never changes an answer. `memo` caches one result,
`answers_about` one answer for each node, and `index_of_nodes` an index that is made of such answers.
"""

from __future__ import annotations

import functools
import itertools
import random
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from scheduler_extras.common.clocks import HEARTBEAT


# Everything that a result depends on besides the nodes is its `basis`. If the basis changes, the result is
# computed again. Each change of a node, or of the pods on it, gives the node a new version, and answers about
# it are computed again.


class PodIndependent(dict):
    """{name: answer}, found without reading the pods on the nodes. It stays valid when pods come and go."""


@dataclass(slots=True)
class Entry:
    """An entry of the cache. It is never changed: a new one replaces it."""

    basis: object
    result: object
    version: int = 0  # of the Changes that matter to it, when it was made
    nodes: dict = field(default_factory=dict)  # name -> Node, of the nodes that the result is about
    answers: dict = field(default_factory=dict)  # about these nodes, in their order; then about others


@dataclass(eq=False)
class Changes:
    """The versions of nodes: each change gives its node a new version."""

    version: int = 0  # the newest one
    versions: dict = field(default_factory=dict)  # name of a node -> its version; the newest is last
    changed_since: dict = field(default_factory=dict)  # version -> the nodes that have changed since

    def note(self, name: str) -> None:
        """Give a node that has changed a new version."""
        self.version += 1
        self.versions.pop(name, None)
        self.versions[name] = self.version
        self.changed_since = {}

    def since(self, version: int) -> frozenset:
        """Return the names of the nodes that have changed since a version."""
        if len(self.changed_since) > 10:  # few versions are in use at a time, and the sets may be large
            self.changed_since = {}
        if version not in self.changed_since:
            changed = itertools.takewhile(lambda name: self.versions[name] > version, reversed(self.versions))
            self.changed_since[version] = frozenset(changed)
        return self.changed_since[version]

    def copy(self) -> Changes:
        """Return a copy that continues from the same version."""
        return Changes(self.version, dict(self.versions))


@dataclass(eq=False)
class AnswerCache:
    """The entries, and the changes of nodes that make them outdated."""

    MAX_ANSWERS = 2_000_000  # answers about nodes, of about 50 bytes each: 100 MiB
    entries: dict = field(default_factory=dict)  # key -> Entry
    changes: Changes = field(default_factory=Changes)  # of nodes, or of the pods on them
    changes_of_nodes: Changes = field(default_factory=Changes)  # of nodes themselves

    def note_change(self, name: str, is_by_pod: bool = False) -> None:
        """Record that a node has changed, or only the pods on it (is_by_pod)."""
        self.changes.note(name)
        if not is_by_pod:
            self.changes_of_nodes.note(name)

    def entry(self, key: Hashable | None, basis: object) -> Entry | None:
        """Return the entry under a key; None if there is none, or if it has another basis."""
        entry = self.entries.get(key)
        return entry if entry is not None and entry.basis == basis else None

    def changes_for(self, answers: dict) -> Changes:
        """Return the changes after which these answers may differ."""
        return self.changes_of_nodes if type(answers) is PodIndependent else self.changes

    def is_pod_independent(self, key: Hashable | None) -> bool:
        """Return whether the cached answers under a key were found without reading the pods on the nodes."""
        entry = self.entries.get(key)
        return entry is not None and type(entry.answers) is PodIndependent

    def copy(self) -> AnswerCache:
        """Return a copy with the same entries."""
        return AnswerCache(dict(self.entries), self.changes.copy(), self.changes_of_nodes.copy())

    def rename(self, before: Hashable, now: Hashable | None) -> None:
        """Move an entry from one key to another; None: drop it."""
        entry = self.entries.pop(before, None)
        if entry and now is not None:
            self.entries[now] = entry

    def keep(self, key: Hashable | None, entry: Entry, size: int) -> None:
        """Keep an entry about `size` nodes, unless its key is None. If the cache is full, evict random ones.

        They are random because pods often come in a cycle: the oldest entry would be the next one needed.
        """
        if key is None:
            return
        self.entries[key] = entry
        while len(self.entries) * (size + 500) > self.MAX_ANSWERS:  # 500: of the entry itself
            del self.entries[random.choice([*self.entries])]


def memo(key: Hashable | None, snapshot: Any, basis: object, compute: Callable) -> Any:
    """Return compute(), or its cached result under this key if the basis is equal."""
    cache = snapshot.answers
    entry = cache.entry(key, basis)
    if entry is None:
        entry = Entry(basis, compute())
        cache.keep(key, entry, len(snapshot.nodes))
    return entry.result


def answers_about(nodes: dict, key: Hashable | None, snapshot: Any, ask: Callable, basis: object = None,
                  then: Callable = lambda nodes, answers: answers) -> Any:
    """Return then(nodes, {name: answer}). This asks only about nodes that have changed since the last call.

    nodes: {name: Node}. ask: returns {name: answer} for some nodes, such as `for_each(function of a node)`.
    """
    return result_about(nodes, key, snapshot, ask, basis, functools.partial(from_all, then))


def from_all(then: Callable, nodes: dict, entry: Entry, answers: dict, differ: dict) -> Any:
    """Return then(nodes, the answers about these nodes alone)."""
    if len(answers) > len(nodes):
        answers = {name: answers[name] for name in nodes}
    return then(nodes, answers)


def index_of_nodes(key: Hashable, snapshot: Any, ask: Callable, update: Callable,
                   basis: object = None) -> Any:
    """Return an index of the snapshot's nodes. This updates it only for the nodes that have changed.

    ask: as for `answers_about`. update: returns the index, from the last one or None, the previous answers
    {name: answer}, and those that differ from them.
    """
    return result_about(snapshot.nodes, key, snapshot, ask, basis, functools.partial(from_last, update))


def from_last(update: Callable, nodes: dict, entry: Entry, answers: dict, differ: dict) -> Any:
    """Return update(the last index, the previous answers, those that differ)."""
    return update(entry.result, entry.answers, differ)


NO_ENTRY = Entry(None, None)  # for the first result under a key


def result_about(nodes: dict, key: Hashable | None, snapshot: Any, ask: Callable, basis: object,
                 make: Callable) -> Any:
    """Return the cached result while it is valid, else make(nodes, entry, answers, differ).

    entry: the last Entry. differ: the answers that differ from those in it.
    """
    cache = snapshot.answers
    entry = cache.entry(key, basis)
    if entry is None:
        answers = ask(nodes)
        result = make(nodes, NO_ENTRY, answers, answers)
    else:
        changes = cache.changes_for(entry.answers)
        are_same_nodes = nodes is entry.nodes or nodes == entry.nodes  # `is` takes no time
        if are_same_nodes and entry.version == changes.version:
            return entry.result
        answers, differ = current_answers(entry, nodes, ask, changes.since(entry.version), are_same_nodes)
        is_valid = are_same_nodes and not differ
        result = entry.result if is_valid else make(nodes, entry, answers, differ)
    version = cache.changes_for(answers).version
    cache.keep(key, Entry(basis, result, version, nodes, answers), len(snapshot.nodes))
    return result


def current_answers(entry: Entry, nodes: dict, ask: Callable, changed: frozenset,
                    are_same_nodes: bool) -> tuple[dict, dict]:
    """Return the current answers about these nodes, and those that differ from the answers of an entry.

    Asks about changed and new nodes. Drops the answers about changed nodes that are not among these.
    """
    answers = entry.answers
    kind = type(answers)
    to_ask = changed & nodes.keys()
    if not are_same_nodes:
        to_ask |= nodes.keys() - answers.keys()
    asked = ask({name: nodes[name] for name in sorted(to_ask)}) if to_ask else kind()
    differ = {name: answer for name, answer in asked.items()
              if name not in answers or answers[name] != answer}
    outdated = changed - to_ask
    if differ or outdated:
        answers = answers | differ
        for name in outdated:
            answers.pop(name, None)
    if not are_same_nodes:
        answers = {name: answers[name] for name in nodes} | answers  # in the order of the nodes
    if kind is not dict:
        answers = PodIndependent(answers) if type(asked) is kind else dict(answers)
    return answers, differ


def answer_each(function: Callable, nodes: dict) -> dict:
    """Return {name: function(node)} of nodes."""
    answers = {}
    for name, node in nodes.items():
        HEARTBEAT.at = time.monotonic()  # `heartbeat`, inlined: an expensive rule may take long for all nodes
        answers[name] = function(node)
    return answers


def for_each(function: Callable) -> Callable:
    """Return a function that returns {name: function(node)} of nodes, for `answers_about`."""
    return functools.partial(answer_each, function)
