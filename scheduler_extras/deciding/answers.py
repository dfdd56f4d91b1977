"""The cache of answers: a rule is called again only for nodes that have changed.

asking.py calls rules through `recall`, and rules use it to count pods. It saves time and changes no answer.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field, replace

from scheduler_extras.common.clocks import heartbeat


# The answer of a function about a node is kept until the node, or a pod on it, changes. Each change gives the
# node a new version. Whatever else answers depend on, such as a rule's metadata, is their `basis`. If the
# basis changes, all answers are computed again.


@dataclass
class Finding:
    """Cached answers about nodes. A finding is immutable: a new one replaces it."""

    basis: object  # what the answers depend on, besides the nodes
    version: int  # of the memory, at that time
    nodes: dict = None  # name -> Node, of those that the result is about
    answers: dict = field(default_factory=dict)  # of these nodes, in their order; then of others
    result: object = None  # what `then` has made of the answers about these nodes


@dataclass(eq=False)
class Memory:
    """The findings about nodes, and the version of each node that has changed."""

    MOST = 2_000_000  # answers about nodes, of some 50 bytes each: 100 MiB
    version: int = 0  # grows with each change of a node, and is then this node's version
    versions: dict = field(default_factory=dict)  # name of a node -> its version; the newest is last
    findings: dict = field(default_factory=dict)  # (subject, what pods share) -> Finding
    changes: dict = field(default_factory=dict)  # version -> the nodes that have changed since, if asked for

    def note(self, name):
        """Give a node that has changed a new version."""
        self.version += 1
        self.versions.pop(name, None)
        self.versions[name] = self.version
        self.changes = {}

    def changed_since(self, version):
        """Return the names of the nodes that have changed since a version."""
        if len(self.changes) > 10:  # a pod's rules were last asked at few versions, and sets may be large
            self.changes = {}
        if version not in self.changes:
            changed = itertools.takewhile(lambda name: self.versions[name] > version, reversed(self.versions))
            self.changes[version] = frozenset(changed)
        return self.changes[version]

    def copy(self):
        """Return a copy with the same findings."""
        return replace(self, versions=dict(self.versions), findings=dict(self.findings))

    def rename(self, subject, before, now):
        """Move a finding from one cache key to another; None: drop it."""
        found = self.findings.pop((subject, before), None)
        if found and now is not None:
            self.findings[subject, now] = found

    def keep(self, key, finding, size):
        """Keep a finding about `size` nodes. If there is no room, evict random ones.

        Random, because pods often come in a cycle: the oldest finding would be the next one needed.
        """
        self.findings[key] = finding
        while len(self.findings) * (size + 500) > self.MOST:  # 500 for what is not of a node
            del self.findings[random.choice([*self.findings])]


def recall(subject, cache_key, snapshot, nodes, function, basis=None, then=lambda nodes, answers: answers,
           change=None, at_once=None):
    """Return then(nodes, {name: function(node)}) of these nodes, {name: Node}.

    What is known on the subject, for pods that share `like`, and on this basis, is not asked for again.
    at_once: a function that returns the answers about all nodes, where that is quicker than one by one.
    change: a function of (result, answers before, answers now) that returns the result if some are others.
    """
    memory = snapshot.memory
    last = memory.findings.get((subject, cache_key))
    if last is None or last.basis != basis:
        last = Finding(basis, memory.version)  # nothing is known
        if at_once:
            answers = at_once(nodes)
            last = Finding(basis, memory.version, nodes, answers, then(nodes, answers))
    are_same_nodes = nodes is last.nodes or nodes == last.nodes  # `is` takes no time
    changed = memory.changed_since(last.version)
    answers, updated = answers_by_now(last, nodes, function, changed, are_same_nodes)
    result = last.result
    if updated and are_same_nodes and change:
        result = change(result, {name: last.answers[name] for name in updated}, updated)
    elif updated or not are_same_nodes:  # else it is what it was
        about_these = answers
        if len(answers) > len(nodes):
            about_these = {name: answers[name] for name in nodes}
        result = then(nodes, about_these)
    finding = Finding(basis, memory.version, nodes, answers, result)
    if cache_key is not None:
        memory.keep((subject, cache_key), finding, len(snapshot.nodes))
    return result


def answers_by_now(last, nodes, function, changed, are_same_nodes):
    """Return the current answers about these nodes, and those that differ from before.

    The function is called for nodes that have changed, and for new ones. Old answers about other nodes that
    have changed are dropped.
    """
    answers = last.answers
    to_ask = changed & nodes.keys()
    if not are_same_nodes:
        to_ask |= nodes.keys() - answers.keys()
    updated = {}
    for name in sorted(to_ask):
        heartbeat()  # an expensive rule may take long about all nodes
        answer = function(nodes[name])
        if name not in answers or answers[name] != answer:
            updated[name] = answer
    outdated = changed - to_ask
    if updated or outdated:
        answers = answers | updated
        for name in outdated:
            answers.pop(name, None)
    if not are_same_nodes:
        answers = {name: answers[name] for name in nodes} | answers  # in the order of the nodes
    return answers, updated
