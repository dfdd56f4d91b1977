"""The cache of answers: a rule is called again only for nodes that have changed.

prepared_rules.py and the rules use it. It saves time, and never changes an answer. `memo` caches one result,
`answers_about` one answer for each node, and `index_of_nodes` an index that is made of such answers.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scheduler_extras.common.clocks import HEARTBEAT


# Everything that a result depends on besides the nodes is its `basis`. If the basis changes, the result is
# computed again. Each change of a node, or of the pods on it, gives the node a new version, and answers about
# it are computed again.


class Answers(NamedTuple):
    """Answers of one rule about nodes."""

    by_node: dict  # name -> answer
    reads_pods: bool = True  # whether the rule has read the pods there; if not, these may come and go


@dataclass(slots=True)
class Entry:
    """An entry of the cache. It is never changed: a new one replaces it."""

    basis: object
    result: object = None
    version: int = 0  # of the Changes that matter to it, when it was made
    nodes: dict = field(default_factory=dict)  # name -> Node, of the nodes that the result is about
    answers: dict = field(default_factory=dict)  # about these nodes, in their order; then about others
    reads_pods: bool = True  # as in Answers


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

    def changes_for(self, reads_pods: bool) -> Changes:
        """Return the changes after which answers may differ."""
        return self.changes if reads_pods else self.changes_of_nodes

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
    cache = snapshot.answer_cache
    entry = cache.entry(key, basis)
    if entry is None:
        entry = Entry(basis, compute())
        cache.keep(key, entry, len(snapshot.nodes))
    return entry.result


def answers_about(nodes: dict, key: Hashable | None, snapshot: Any, compute: Callable, basis: object = None,
                  then: Callable = lambda nodes, answers: answers) -> Any:
    """Return then(nodes, {name: answer}). Answers are computed only for nodes that have changed.

    nodes: {name: Node}. compute: a function that returns the Answers about some nodes; see `compute_each`.
    """
    def make(before: Entry, answers: dict, differ: dict) -> Any:
        """Drop answers about other nodes, then call `then`."""
        if len(answers) > len(nodes):
            answers = {name: answers[name] for name in nodes}
        return then(nodes, answers)

    return result_about(nodes, key, snapshot, compute, basis, make)


def index_of_nodes(key: Hashable, snapshot: Any, compute: Callable, update: Callable,
                   basis: object = None) -> Any:
    """Return an index of the snapshot's nodes. It is updated only for the nodes that have changed.

    compute: as for `answers_about`. update: returns the index, made from the last one or None, the previous
    answers {name: answer}, and those that differ from them.
    """
    def make(before: Entry, answers: dict, differ: dict) -> Any:
        """Update the index."""
        return update(before.result, before.answers, differ)

    return result_about(snapshot.nodes, key, snapshot, compute, basis, make)


def result_about(nodes: dict, key: Hashable | None, snapshot: Any, compute: Callable, basis: object,
                 make: Callable) -> Any:
    """Return the cached result while it is valid, else make(last entry, answers, those that differ)."""
    cache = snapshot.answer_cache
    entry = cache.entry(key, basis)
    if entry is None:
        answers, reads_pods = compute(nodes)
        result = make(Entry(basis), answers, answers)
    else:
        changes = cache.changes_for(entry.reads_pods)
        are_same_nodes = nodes is entry.nodes or nodes == entry.nodes  # `is` takes no time
        if are_same_nodes and entry.version == changes.version:
            return entry.result
        changed = changes.since(entry.version)
        answers, reads_pods, differ = current_answers(entry, nodes, compute, changed, are_same_nodes)
        is_valid = are_same_nodes and not differ
        result = entry.result if is_valid else make(entry, answers, differ)
    version = cache.changes_for(reads_pods).version
    cache.keep(key, Entry(basis, result, version, nodes, answers, reads_pods), len(snapshot.nodes))
    return result


def current_answers(entry: Entry, nodes: dict, compute: Callable, changed: frozenset,
                    are_same_nodes: bool) -> tuple[dict, bool, dict]:
    """Return the current answers, whether they depend on pods, and those that differ from the entry's.

    This computes answers about changed and new nodes. It drops answers about changed nodes outside `nodes`.
    """
    answers = entry.answers
    reads_pods = entry.reads_pods
    to_compute = changed & nodes.keys()
    if not are_same_nodes:
        to_compute |= nodes.keys() - answers.keys()
    differ = {}
    if to_compute:
        computed, has_read_pods = compute({name: nodes[name] for name in sorted(to_compute)})
        reads_pods = reads_pods or has_read_pods
        differ = {name: answer for name, answer in computed.items()
                  if name not in answers or answers[name] != answer}
    to_drop = changed - to_compute
    if differ or to_drop:
        answers = answers | differ
        for name in to_drop:
            answers.pop(name, None)
    if not are_same_nodes:
        answers = {name: answers[name] for name in nodes} | answers  # in the order of the nodes
    return answers, reads_pods, differ


def answer_each(function: Callable, nodes: dict) -> dict:
    """Return {name: function(node)} of nodes."""
    answers = {}
    for name, node in nodes.items():
        HEARTBEAT.at = time.monotonic()  # `heartbeat`, inlined: an expensive rule may take long for all nodes
        answers[name] = function(node)
    return answers


def compute_each(function: Callable) -> Callable:
    """Return a `compute` for `answers_about` that calls a function for each node."""
    return lambda nodes: Answers(answer_each(function, nodes))
