"""What is remembered from pod to pod: a rule is not asked again about a node that has not changed.

Rules are asked through `recall`, by rule.py and by those that count pods. Without it answers are the same.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import marshal
import random
import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType as read_only

from scheduler import add_to, text_at
from scheduler_extras.trouble import OutOfTime, has_time


def count_pods(node, is_meant, namespace=None):
    """Return how many pods on a node are meant; of those that are alike to selectors, one is asked about.

    namespace: the one whose pods may be meant; None: any.
    """
    by_namespace = pods_by_namespace(node)
    if namespace is not None and namespace not in by_namespace:  # as on most nodes
        return 0
    groups = by_namespace.values() if namespace is None else [by_namespace[namespace]]
    return sum([len(pods) for alike in groups for pods in alike.values() if is_meant(pods[0])])


def nodes_by_namespace(snapshot):
    """Return {namespace: the names of the nodes on which it has pods}."""
    return recall("namespaces", "", snapshot, snapshot.nodes, lambda node: frozenset(pods_by_namespace(node)),
                  then=lambda nodes, on_nodes: regroup({}, {}, on_nodes), change=regroup)


def regroup(names, before, now):
    """Return {namespace: names of nodes}, as some nodes have pods of other namespaces now than before."""
    names = dict(names)
    for name, namespaces in now.items():
        for namespace in namespaces ^ before.get(name, frozenset()):
            names[namespace] = names.get(namespace, frozenset()) ^ {name}
    return names


def pods_by_namespace(node):
    """Return the pods on a node, {namespace: {what they share: those that are alike to selectors}}."""
    if pods_by_namespace not in node.derived:
        found = node.derived[pods_by_namespace] = {}
        for pod in node.pods.values():
            alike = found.setdefault(pod.namespace, collections.defaultdict(list))
            alike[signature(pod, ("labels", "terminating")) or pod.uid].append(pod)
    return node.derived[pods_by_namespace]


@dataclass(eq=False)
class FullSnapshot:
    """The cluster as all rules see it. It is as the cache is: up to date."""

    nodes: dict  # name -> Node, of those that can take pods
    objects: dict  # resource -> {namespace/name or name: the API's JSON}
    is_live: bool = False  # whether controllers act on what we write: no dry run, and no manifests
    memory: Memory = field(default_factory=lambda: Memory())  # what was found out of the nodes
    policies: dict = field(default_factory=dict)  # schedulerName -> Policy
    nominated: list = field(default_factory=list)  # pending pods, of any scheduler, with a nominated node
    selectors: dict = field(default_factory=dict)  # resource -> its Selectors; see rules/selectors.py
    going: set = field(default_factory=set)  # uids of pods that are to be deleted, as this pass has decided

    def put(self, pod, node):
        """Put a pod on a node."""
        node.add(pod)
        self.note_change(node)

    def take_off(self, pod, node):
        """Take a pod off a node again, if it is there."""
        pod = node._pods.pop(pod.uid, None)
        if pod:
            add_to(node._requested, {name: -amount for name, amount in pod.requests.items()})
            add_to(node._nonzero, {name: -amount for name, amount in pod.nonzero.items()})
            self.note_change(node)

    def note_change(self, node):
        """Have what was known of the node found out anew."""
        node.derived.clear()
        self.memory.note(node.name)


def digest(text):
    """Return 16 bytes that stand for a text of any length."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def signature(pod, names):
    """Return bytes that pods share in which these attributes are equal.

    None: no other pod is like it, as it says too much, or it has what is not of JSON's types.
    """
    if not names:  # to a rule that looks at nothing of a pod, all are alike
        return b""
    if names in pod.signatures:
        return pod.signatures[names]
    if pod.is_large:
        return None
    try:
        values = [getattr(pod, name, ...) for name in names]
        values = [dict(value) if type(value) is read_only else value for value in values]
        data = marshal.dumps(values, 2)  # in this version, equal values give equal bytes
        if b"kube-api-access-" in data:
            data = without_token(pod, data)
        if len(data) >= 200:
            data = hashlib.blake2b(data, digest_size=16).digest()
    except Exception:  # some value is not of JSON's types, or a property raises
        data = None
    pod.signatures[names] = data
    return data


def without_token(pod, data):
    """Return bytes without the random name of the volume with the pod's token."""
    for volume in pod.volumes:
        name = text_at(volume, "name")
        if "projected" in volume and re.fullmatch("kube-api-access-[a-z0-9]{5}", name):
            named = marshal.dumps("name", 2) + marshal.dumps(name, 2)  # in the mounts of it, too
            data = data.replace(named, named[:-5] + b"*****")
    return data


# It only saves time. What a function says of a node is remembered until the node changes, or a pod on it:
# with each change the node gets a new version. What answers rest on beside the node and the pod, such as a
# rule's metadata, is their `basis`: on another one, all are asked for anew.
#
# Nobody has to say what of a pod a rule looks at. A rule is given a view of the pod (`Seen`), which notes the
# attributes that are looked at; all that a rule has ever looked at are its `reads`. Its answers are kept for
# pods in which these are equal: what it has looked at first is the same then, so it has gone on in the same
# way, and so forth. So pods of many kinds share what the taints, the selectors, the ports say of a node.
# An answer that was found without a look at the node is the same for all nodes.
#
# That holds for a rule that says the same whenever it looks at the same. One that goes by chance, by the
# clock, or by what it has kept itself, is not `steady`: it gets the pod itself, and is asked each time.


class Seen:
    """A view of a pod or of a node: a copy that gets each attribute when it is looked at, and notes that.

    What a rule writes into it is seen by nobody else. If it takes the thing as a whole (as a key, in a
    comparison, to copy it), that is noted as `__dict__`, in which no two are equal. `known`: attributes that
    it has from the start, as it is known already that they are looked at.
    """

    def __init__(self, thing, known=()):
        self._thing = thing
        self._names = {}  # {attribute: None}, of the others that were looked at, be they there or not
        self.derived = {}  # its own, so that kept_with_pod looks at the pod, even if the answer was known
        values = vars(thing)
        for name in known:
            if name in values:
                setattr(self, name, values[name])

    def __getattr__(self, name):  # is called where the copy has no such attribute yet
        self._names[name] = None
        value = getattr(self._thing, name)
        setattr(self, name, value)
        return value

    def itself(self):
        """Return the thing as a whole."""
        self._names["__dict__"] = None
        return self._thing

    __class__ = property(lambda self: type(self._thing))  # so that isinstance(pod, Pod) holds
    __dict__ = property(lambda self: vars(self.itself()))

    def __hash__(self):
        """As the thing itself."""
        return hash(self.itself())

    def __eq__(self, other):
        """As the thing itself."""
        return self.itself() == other

    def __str__(self):
        """As the thing itself."""
        return str(self.itself())

    def __reduce_ex__(self, protocol):
        """Have `copy` copy the thing itself."""
        return self.itself().__reduce_ex__(protocol)


@dataclass
class Finding:
    """What was found out about nodes. It is never changed: another one takes its place."""

    basis: object  # what it rests on, beside the nodes
    version: int  # of the memory, by then
    nodes: dict = None  # name -> Node, of those that the result is about
    answers: dict = field(default_factory=dict)  # of these nodes, in their order; then of others
    result: object = None  # what `then` has made of the answers about these nodes


@dataclass(eq=False)
class Memory:
    """What was found out about nodes, and the version of each that has changed."""

    MOST = 2_000_000  # answers about nodes, of some 50 bytes each: 100 MiB
    version: int = 0  # grows with each change of a node, and is then this node's version
    versions: dict = field(default_factory=dict)  # name of a node -> its version; the newest is last
    findings: dict = field(default_factory=dict)  # (subject, what pods share) -> Finding
    changes: dict = field(default_factory=dict)  # version -> the nodes that have changed since, if asked for

    def note(self, name):
        """Note that a node has changed."""
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
        """Return another memory that knows the same."""
        return replace(self, versions=dict(self.versions), findings=dict(self.findings))

    def rename(self, subject, before, now):
        """Have what was found out for pods that share `before` be that for those that share `now`."""
        found = self.findings.pop((subject, before), None)
        if found and now is not None:
            self.findings[subject, now] = found

    def keep(self, key, finding, size):
        """Keep a finding. If so many, about so many nodes, are too much, forget any others.

        Any: if more kinds of pods take turns than there is room for, the oldest is asked for next.
        """
        self.findings[key] = finding
        while len(self.findings) * (size + 500) > self.MOST:  # 500 for what is not of a node
            del self.findings[random.choice([*self.findings])]


def likeness(pod, rule, metadata):
    """Return what a pod shares with those that are alike to a rule, as far as its metadata are equal.

    None: nothing is to be remembered, as the rule is not steady, or the pod is like no other.
    """
    if not rule.steady:
        return None
    names = rule.reads
    if rule.metadata and metadata:  # to save time: these are likely to be equal for pods of one family
        names += ("controller",) if pod.controller else ("labels",)
    return signature(pod, names)


def likeness_to_all(prepared):
    """Return what a pod shares with those that are alike to each of these Prepared rules, or None."""
    likes = [rule.like for rule in prepared]
    return None if None in likes else tuple(likes)


def recall(subject, like, snapshot, nodes, function, basis=None, then=lambda nodes, answers: answers,
           change=None, at_once=None, so_far=None):
    """Return then(nodes, {name: function(node)}) of these nodes, {name: Node}.

    What is known on the subject, for pods that share `like`, and on this basis, is not asked for again.
    at_once: a function that returns the answers about all nodes, where that is quicker than one by one.
    change: a function of (result, answers before, answers now) that returns the result if some are others.
    so_far: of a decision, where to keep what no pods share: it may be broken off. Raises OutOfTime.
    """
    memory = snapshot.memory
    last = memory.findings.get((subject, like)) if so_far is None else so_far.get((subject, memory))
    if last is None or last.basis != basis:
        last = Finding(basis, memory.version)  # nothing is known
        if at_once:
            answers = at_once(nodes)
            last = Finding(basis, memory.version, nodes, answers, then(nodes, answers))
    are_same_nodes = nodes is last.nodes or nodes == last.nodes  # `is` takes no time
    changed = memory.changed_since(last.version)
    answers, news, is_over = answers_by_now(last, nodes, function, changed, are_same_nodes)
    result = last.result
    if is_over:
        nodes = None  # the answers are about some of these
    elif news and are_same_nodes and change:
        result = change(result, {name: last.answers[name] for name in news}, news)
    elif news or not are_same_nodes:  # else it is what it was
        about_these = answers
        if len(answers) > len(nodes):
            about_these = {name: answers[name] for name in nodes}
        result = then(nodes, about_these)
    finding = Finding(basis, memory.version, nodes, answers, result)
    if so_far is not None:
        so_far[subject, memory] = finding
    elif like is not None:
        memory.keep((subject, like), finding, len(snapshot.nodes))
    if is_over:
        raise OutOfTime
    return result


def answers_by_now(last, nodes, function, changed, are_same_nodes):
    """Return the answers of a Finding, brought up to date for these nodes; and which of them are others.

    Asked are the nodes that have changed, and those that were not asked before. What was said of others that
    have changed is forgotten. The third that is returned: whether the turn is over, and nodes are left.
    """
    answers = last.answers
    to_ask = changed & nodes.keys()
    if not are_same_nodes:
        to_ask |= nodes.keys() - answers.keys()
    news = {}
    left = sorted(to_ask, reverse=True)
    while left and has_time():
        name = left.pop()
        answer = function(nodes[name])
        if name not in answers or answers[name] != answer:
            news[name] = answer
    outdated = (changed - to_ask).union(left)
    if news or outdated:
        answers = answers | news
        for name in outdated:
            answers.pop(name, None)
    if not (are_same_nodes or left):
        answers = {name: answers[name] for name in nodes} | answers  # in the order of the nodes
    return answers, news, bool(left)
