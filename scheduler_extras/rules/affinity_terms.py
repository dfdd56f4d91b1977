"""Affinity terms: those of a pod, and those of all placed pods.

affinity.py sums up their effects on a pod.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import marshal
import weakref
from typing import Any

from scheduler_extras.common.errors import Malformed
from scheduler_extras.deciding.answers import compute_each, index_of_nodes
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import label_selector, labels_match, pod_selector
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod, kept_with_pod
from scheduler_extras.rules.counting import count_pods, with_numbers, without_zeros
from scheduler_extras.rules.label_index import LabelIndex, labels_needed


class AffinityTerm:
    """A term of inter-pod affinity or anti-affinity of a pod. Raises InvalidSelector."""

    __slots__ = "__weakref__", "key", "meaning", "namespace_selector", "namespaces", "requirements", "weight"

    def __init__(self, pod: FullPod, term: dict, weight: int, meaning: bytes):
        self.meaning = meaning  # equal for terms with the same effect
        self.weight = weight
        self.key = pick(term, str, "topologyKey")
        self.requirements = pod_selector(term, pod)
        selector = term.get("namespaceSelector")
        self.namespace_selector = None if selector is None else label_selector(selector)
        by_default = [pod.namespace] if selector is None else []
        self.namespaces = pick(term, list, "namespaces", of=str) or by_default

    def selects(self, pod: FullPod, snapshot: FullSnapshot) -> bool:
        """Return whether the term selects this pod."""
        if not labels_match(pod.labels, self.requirements):
            return False
        if pod.namespace in self.namespaces:
            return True
        if not self.namespace_selector:  # {} selects all namespaces, null no further one
            return self.namespace_selector is not None
        namespace = snapshot.objects["namespaces"].get(pod.namespace, {})
        return labels_match(pick(namespace, dict, "metadata", "labels"), self.namespace_selector)


# Meaning -> the AffinityTerm with it, which all pods share.
TERMS: weakref.WeakValueDictionary[bytes, AffinityTerm] = weakref.WeakValueDictionary()


def affinity_term(pod: FullPod, term: dict, weight: int) -> AffinityTerm:
    """Return the AffinityTerm of a pod's term, shared with equal terms."""
    own_labels = dict(pod.labels) if "matchLabelKeys" in term or "mismatchLabelKeys" in term else None
    data = marshal.dumps([term, weight, pod.namespace, own_labels], 2)
    meaning = hashlib.blake2b(data, digest_size=16).digest()
    known = TERMS.get(meaning)
    return known or TERMS.setdefault(meaning, AffinityTerm(pod, term, weight, meaning))


# Name of a list of terms -> the two parts of its path in a pod's spec: podAffinity and podAntiAffinity have
# two lists each.
LISTS = {when + side: (when, side)
         for when, side in itertools.product(("required", "preferred"), ("Affinity", "AntiAffinity"))}


@kept_with_pod
def affinity_terms(pod: FullPod) -> tuple[dict, str | None]:
    """Return {name of a list: the pod's terms} and an error or None. A list with an invalid term is empty."""
    lists: dict[str, list] = {list_name: [] for list_name in LISTS}
    if not pod.is_affine:  # as most pods
        return lists, None
    problem = None
    for list_name, (when, side) in LISTS.items():
        alike: dict[bytes, list] = {}  # serialized term -> [one such term, the sum of the weights of all]
        try:
            for raw in pick(pod.spec, list, "affinity", f"pod{side}", f"{when}{DURING_SCHEDULING}", of=dict):
                term = pick(raw, dict, "podAffinityTerm") or raw
                same = alike.setdefault(marshal.dumps(term, 2), [term, 0])
                same[1] += pick(raw, int, "weight") or 1
            lists[list_name] = [affinity_term(pod, term, weight) for term, weight in alike.values()]
        except Malformed as error:
            problem = f"parsing pod: {list_name}Terms: {error}"  # of several, the last one, as upstream
    return lists, problem


def selected_by(terms: list[AffinityTerm], snapshot: FullSnapshot) -> dict:
    """Return {node: how many of its pods match all of these terms}, without nodes that have none."""
    key = "selected", b"".join(term.meaning for term in terms)
    namespaces = [snapshot.objects["namespaces"] for term in terms if term.namespace_selector]

    def are_selected(pod):
        """Return whether all the terms select a pod."""
        return all(term.selects(pod, snapshot) for term in terms)

    return index_of_nodes(
        key, snapshot, compute_each(lambda node: count_pods(node, are_selected)), with_numbers, namespaces)


def terms_on(node: FullNode) -> dict:
    """Return the terms of the pods on a node, {(name of a list, term): how many of its pods have it}."""
    return dict(collections.Counter(  # a dict, because these are compared faster than Counters
        (list_name, term) for pod in node.pods.values() if pod.is_affine
        for list_name, terms in affinity_terms(pod)[0].items() for term in terms))


# numbers: {(name of a list, term): {node: how many pods have it}}. index: the LabelIndex of such pairs.
PlacedTerms = collections.namedtuple("PlacedTerms", "numbers index")


def with_terms(placed: PlacedTerms | None, before: dict, now: dict) -> PlacedTerms:
    """Return PlacedTerms after the terms on some nodes have changed. before, now: {node: its terms_on}."""
    placed = placed or PlacedTerms({}, LabelIndex())
    changed: dict[Any, dict] = collections.defaultdict(dict)
    for name, terms in now.items():
        for term, _ in terms.items() ^ before.get(name, {}).items():
            changed[term][name] = terms.get(term, 0)
    numbers = dict(placed.numbers)
    for term, by_node in changed.items():
        numbers[term] = without_zeros(numbers.get(term, {}) | by_node)
        if not numbers[term]:
            del numbers[term]
    new_or_gone = [term for term in changed if (term in numbers) != (term in placed.numbers)]
    filings = [("", label, term) for term in new_or_gone for label in labels_needed(term[1].requirements)]
    return PlacedTerms(numbers, placed.index.updated(filings))


def placed_terms(snapshot: FullSnapshot) -> PlacedTerms:
    """Return the terms of all placed pods."""
    return index_of_nodes("terms", snapshot, compute_each(terms_on), with_terms)


def has_required_affinity(side: str, pod: FullPod, node: object = None) -> bool:
    """Return whether the pod has required affinity of a kind, such as podAntiAffinity."""
    return bool(pick(pod.spec, dict, "affinity", side).get(f"required{DURING_SCHEDULING}"))
