"""Details of why a node does not fit, in words: the pod, the label or the term that rules it out.

explain.py appends them to a node's name. The details about claims are in obstacles_of_claims.py.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator
from typing import Any

from scheduler import satisfies, term_matches
from scheduler_extras.common.errors import Malformed
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.affinity import ANTI_AFFINITY_OF_OTHERS, NO_AFFINITY, OWN_ANTI_AFFINITY
from scheduler_extras.rules.affinity_terms import AffinityTerm, affinity_terms
from scheduler_extras.rules.claims import NO_VOLUME_TO_BIND, OUT_OF_REACH, OUT_OF_REACH_136, UNBOUND_IMMEDIATE
from scheduler_extras.rules.script_rules import OTHER_LABELS, OTHER_LABELS_136
from scheduler_extras.rules.service_affinity import NO_SERVICE_AFFINITY
from scheduler_extras.rules.spreading import TOO_SKEWED, by_domain, shared_domains, spread_constraints
from scheduler_extras.rules.volume_zones import NO_ZONE
from scheduler_extras.show.obstacles_of_claims import claims_to_bind, volumes_elsewhere, zones_of_volumes
from scheduler_extras.show.text import requirement_in_words, short


class Obstacles:
    """Finds the details for the nodes that a decision has ruled out. It computes shared parts only once."""

    def __init__(self, decision: FullDecision):
        self.decision = decision
        self.pod = decision.pod
        self.nodes = decision.nodes
        self.snapshot: Any = decision.snapshot
        self.selected: dict[tuple, dict[str | None, FullPod]] = {}  # meanings of terms -> see selected_by

    def words(self, name: str) -> list[str]:
        """Return the details of the reasons against a node."""
        reasons = {*itertools.chain(*self.decision.failed[name].values())}
        functions = [function for reason, function in DETAILS.items() if reason in reasons]
        found: list[str] = []
        for function in dict.fromkeys(functions):
            with contextlib.suppress(Malformed):  # without details if an object is malformed
                found += function(self, self.nodes[name])
        return found

    @functools.cached_property
    def own_terms(self) -> dict:
        """The terms of the pod's own affinity."""
        return affinity_terms(self.pod)[0]

    @functools.cached_property
    def others(self) -> list[tuple[FullPod, FullNode]]:
        """All other pods that are on nodes, [(pod, node)]."""
        return [(other, node) for node in self.nodes.values() for uid, other in node.pods.items()
                if uid != self.pod.uid]

    def selected_by(self, *terms: AffinityTerm) -> dict[str | None, FullPod]:
        """Return {value of the first term's key: the first pod in this domain that all terms select}."""
        meanings = tuple(term.meaning for term in terms)
        if meanings not in self.selected:
            found = self.selected[meanings] = {}
            for other, node in self.others:
                value = node.labels.get(terms[0].key)
                if value is not None and value not in found and all(
                        term.selects(other, self.snapshot) for term in terms):
                    found[value] = other
        return self.selected[meanings]

    @functools.cached_property
    def repelling(self) -> dict:
        """The domains with a pod whose anti-affinity excludes this one, {(key, value): (that pod, term)}."""
        found: dict[tuple, tuple] = {}
        for other, node in self.others:
            for term in affinity_terms(other)[0]["requiredAntiAffinity"] if other.is_affine else ():
                if term.key in node.labels and term.selects(self.pod, self.snapshot):
                    found.setdefault((term.key, node.labels[term.key]), (other, term))
        return found

    @functools.cached_property
    def spread(self) -> list:
        """The pod's DoNotSchedule constraints with their counts, [(constraint, {domain: matching pods})]."""
        found = []
        for constraint in spread_constraints(self.pod, "DoNotSchedule", self.snapshot):
            counts = by_domain(constraint.numbers, shared_domains(constraint))
            chosen = self.nodes.get(self.decision.node or "")
            if chosen and constraint.itself and self.pod.uid in chosen.pods:  # the pod is assumed already
                counts[chosen.labels.get(constraint.key)] -= 1
            found.append((constraint, counts))
        return found


def skews(obstacles: Obstacles, node: FullNode) -> Iterator[str]:
    """Yield the spread constraints that a node would violate, with the numbers of pods."""
    for constraint, counts in obstacles.spread:
        domain = node.labels.get(constraint.key)
        least = min(counts, key=counts.get, default=None)
        if counts[domain] + constraint.itself - counts[least] > constraint.max_skew:
            here = f"{counts[domain]} in {short(constraint.key)} {domain}"
            yield f"{here}, {counts[least]} in {least}, maxSkew {constraint.max_skew}"


def unmet_labels(obstacles: Obstacles, node: FullNode) -> Iterator[str]:
    """Yield the labels that the pod's nodeSelector and node affinity require, and the node's labels."""
    for key, operator, values, label in unmet_requirements(obstacles.pod, node):
        listed = f" [{', '.join(values)}]" if values else ""
        yield f"{key} {operator}{listed}: has {label}"


def unmet_requirements(pod: FullPod, node: FullNode) -> Iterator[tuple[str, str, list[str], str]]:
    """Yield the label requirements that a node does not meet: (key, operator, values, the node's label).

    They come from the nodeSelector, and from all node affinity terms if the node matches none of these.
    """
    required = [{"key": key, "operator": "In", "values": [value]} for key, value in pod.node_selector.items()]
    terms: list[dict] = []
    with contextlib.suppress(Malformed):  # the rule reports it
        terms = pod.required_terms or []
    if not any(term_matches(term, node) for term in terms):
        required += [each for term in terms for each in term["matchExpressions"]]
    for each in required:
        if not satisfies(node.labels, [each]):
            key, operator, values = each.values()
            yield key, operator, values, f"{key}={node.labels[key]}" if key in node.labels else f"no {key}"


def own_anti_affinity(obstacles: Obstacles, node: FullNode) -> Iterator[str]:
    """Yield the pods in the node's domains that the pod's anti-affinity excludes, with the term."""
    for term in obstacles.own_terms["requiredAntiAffinity"]:
        other = obstacles.selected_by(term).get(node.labels.get(term.key))
        if other:
            yield f"{name_with_node(other, node)}, by the pod's anti-affinity to {in_words(term)}"


def anti_affinity_of_others(obstacles: Obstacles, node: FullNode) -> Iterator[str]:
    """Yield the pods in the node's domains whose anti-affinity excludes the pod, with the term."""
    for key, value in node.labels.items():
        if (key, value) in obstacles.repelling:
            other, term = obstacles.repelling[key, value]
            yield f"{name_with_node(other, node)}, by its own anti-affinity to {in_words(term)}"


def affinity(obstacles: Obstacles, node: FullNode) -> Iterator[str]:
    """Yield the terms of the pod's affinity that no pod in the node's domains meets."""
    terms = obstacles.own_terms["requiredAffinity"]
    for i, term in enumerate(terms):
        key = short(term.key)
        if term.key not in node.labels:
            yield f"no label {term.key}"
        elif node.labels[term.key] not in obstacles.selected_by(term, *(terms[:i] + terms[i + 1:])):
            where = f"in {key} {node.labels[term.key]}" if obstacles.selected_by(term) else "on any node"
            yield f"no pod {in_words(term)} {where}"


def service_affinity(obstacles: Obstacles, node: FullNode) -> Iterator[str]:
    """Yield the labels that the pods of the Service share, and the node's labels."""
    pod = obstacles.pod
    rules = obstacles.snapshot.policies[pod.scheduler].predicates
    arguments = [argument for rule in rules if rule.name == "CheckServiceAffinity"
                 for argument in rule.settings.get("arguments", ())]
    labels = [label for argument in arguments for label in pick(argument, list, "labels")]
    of_service = ((other, place) for other, place in obstacles.others if other.namespace == pod.namespace
                  and pod.labels.items() <= other.labels.items())
    other, place = next(of_service, (None, None))
    for label in labels:
        wanted = pod.node_selector.get(label) or (place and place.labels.get(label))
        if wanted and node.labels.get(label) != wanted:
            why = "its nodeSelector"
            if other and label not in pod.node_selector:
                why = f"{other.key} of its Service"
            has = f"{label}={node.labels[label]}" if label in node.labels else f"no {label}"
            yield f"{label}={wanted}, as {why}: has {has}"


def name_with_node(other: FullPod, node: FullNode) -> str:
    """Return the name of a pod, with its node if that is another node."""
    return other.key if other.uid in node.pods else f"{other.key} on {other.counted_on or other.node_name}"


def in_words(term: AffinityTerm) -> str:
    """Return a term of pod affinity in words."""
    pods = " and ".join(map(requirement_in_words, term.requirements)) or "any pod"
    return f"{pods} by {short(term.key)}"


DETAILS = {  # reason against a node -> the function that yields its details
    TOO_SKEWED: skews,
    OTHER_LABELS: unmet_labels,
    OTHER_LABELS_136: unmet_labels,
    OWN_ANTI_AFFINITY: own_anti_affinity,
    ANTI_AFFINITY_OF_OTHERS: anti_affinity_of_others,
    NO_AFFINITY: affinity,
    NO_SERVICE_AFFINITY: service_affinity,
    OUT_OF_REACH: volumes_elsewhere,
    OUT_OF_REACH_136: volumes_elsewhere,
    NO_ZONE: zones_of_volumes,
    NO_VOLUME_TO_BIND: claims_to_bind,
    UNBOUND_IMMEDIATE: claims_to_bind}
