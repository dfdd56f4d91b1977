"""What stands between a pod and a node, in words: the pod that is in the way, the term, the numbers.

explain.py puts these words behind a node's name. What is about claims is in obstacles_of_claims.py.
"""

import contextlib
import functools
import itertools

from scheduler import satisfies, term_matches
from scheduler_extras.common.errors import Malformed
from scheduler_extras.reading.fields import pick
from scheduler_extras.rules.affinity import ANTI_AFFINITY_OF_OTHERS, NO_AFFINITY, OWN_ANTI_AFFINITY
from scheduler_extras.rules.affinity_terms import affinity_terms
from scheduler_extras.rules.claims import (
    NO_VOLUME_TO_BIND, OUT_OF_REACH, OUT_OF_REACH_136, UNBOUND_IMMEDIATE
)
from scheduler_extras.rules.of_the_script import OTHER_LABELS, OTHER_LABELS_136
from scheduler_extras.rules.service_affinity import NO_SERVICE_AFFINITY
from scheduler_extras.rules.spreading import TOO_SKEWED, by_domain, shared_domains, spread_constraints
from scheduler_extras.rules.volume_zones import NO_ZONE
from scheduler_extras.show.obstacles_of_claims import claims_to_bind, volumes_elsewhere, zones_of_volumes
from scheduler_extras.show.text import requirement_in_words, short


class Obstacles:
    """What is in a pod's way on the nodes that a decision has ruled out; worked out once for all nodes."""

    def __init__(self, decision):
        self.decision = decision
        self.pod = decision.pod
        self.nodes = decision.nodes
        self.snapshot = decision.snapshot
        self.selected = {}  # meanings of terms -> see selected_by

    def words(self, name):
        """Return in words what is in the way on a node, by the reasons against it."""
        reasons = {*itertools.chain(*self.decision.failed[name].values())}
        asked = [function for reason, function in WORDS.items() if reason in reasons]
        found: list[str] = []
        for function in dict.fromkeys(asked):
            with contextlib.suppress(Malformed):  # any object may be malformed; then the reason has to do
                found += function(self, self.nodes[name])
        return found

    @functools.cached_property
    def own_terms(self):
        """The terms of the pod's own affinity."""
        return affinity_terms(self.pod)[0]

    @functools.cached_property
    def others(self):
        """All pods that are on nodes, without this one."""
        return [(other, node) for node in self.nodes.values() for uid, other in node.pods.items()
                if uid != self.pod.uid]

    def selected_by(self, *terms):
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
    def repelling(self):
        """{(topology key, value): (a pod there whose anti-affinity this pod breaks, the term)}."""
        found: dict[tuple, tuple] = {}
        for other, node in self.others:
            for term in affinity_terms(other)[0]["requiredAntiAffinity"] if other.is_affine else ():
                if term.key in node.labels and term.selects(self.pod, self.snapshot):
                    found.setdefault((term.key, node.labels[term.key]), (other, term))
        return found

    @functools.cached_property
    def spread(self):
        """The pod's DoNotSchedule constraints: [(constraint, {domain: how many of its pods are there})]."""
        found = []
        for constraint in spread_constraints(self.pod, "DoNotSchedule", self.snapshot):
            counts = by_domain(constraint.numbers, shared_domains(constraint))
            chosen = self.nodes.get(self.decision.node)
            if chosen and constraint.itself and self.pod.uid in chosen.pods:  # it is assumed there already
                counts[chosen.labels.get(constraint.key)] -= 1
            found.append((constraint, counts))
        return found


def skews(obstacles, node):
    """Yield in words which constraints are against a node, with the numbers of pods."""
    for constraint, counts in obstacles.spread:
        domain = node.labels.get(constraint.key)
        least = min(counts, key=counts.get, default=None)
        if counts[domain] + constraint.itself - counts[least] > constraint.max_skew:
            here = f"{counts[domain]} in {short(constraint.key)} {domain}"
            yield f"{here}, {counts[least]} in {least}, maxSkew {constraint.max_skew}"


def labels_amiss(obstacles, node):
    """Yield what the pod's nodeSelector and node affinity require, and what the node has instead."""
    for key, operator, values, label in unmet_requirements(obstacles.pod, node):
        listed = f" [{', '.join(values)}]" if values else ""
        yield f"{key} {operator}{listed}: has {label}"


def unmet_requirements(pod, node):
    """Yield the requirements of labels that a node does not meet: key, operator, values, what it has.

    They are those of the pod's nodeSelector, and, if it matches no term of the node affinity, of all terms.
    """
    required = [{"key": key, "operator": "In", "values": [value]} for key, value in pod.node_selector.items()]
    terms: list[dict] = []
    with contextlib.suppress(Malformed):  # which the rule reports
        terms = pod.required_terms or []
    if not any(term_matches(term, node) for term in terms):
        required += [each for term in terms for each in term["matchExpressions"]]
    for each in required:
        if not satisfies(node.labels, [each]):
            key, operator, values = each.values()
            yield key, operator, values, f"{key}={node.labels[key]}" if key in node.labels else f"no {key}"


def own_anti_affinity(obstacles, node):
    """Yield which pods in the node's domains the pod must not be with, and by which term."""
    for term in obstacles.own_terms["requiredAntiAffinity"]:
        other = obstacles.selected_by(term).get(node.labels.get(term.key))
        if other:
            yield f"{name_with_node(other, node)}, by the pod's anti-affinity to {in_words(term)}"


def anti_affinity_of_others(obstacles, node):
    """Yield which pods in the node's domains must not be with the pod, and by which term."""
    for key, value in node.labels.items():
        if (key, value) in obstacles.repelling:
            other, term = obstacles.repelling[key, value]
            yield f"{name_with_node(other, node)}, by its own anti-affinity to {in_words(term)}"


def affinity(obstacles, node):
    """Yield which terms of the pod's affinity find no pod in the node's domains."""
    terms = obstacles.own_terms["requiredAffinity"]
    for i, term in enumerate(terms):
        key = short(term.key)
        if term.key not in node.labels:
            yield f"no label {term.key}"
        elif node.labels[term.key] not in obstacles.selected_by(term, *(terms[:i] + terms[i + 1:])):
            where = f"in {key} {node.labels[term.key]}" if obstacles.selected_by(term) else "on any node"
            yield f"no pod {in_words(term)} {where}"


def service_affinity(obstacles, node):
    """Yield with which pod's node the node is to agree in labels, and what it has instead."""
    pod = obstacles.pod
    rules = obstacles.snapshot.policies[pod.scheduler].predicates
    arguments = [argument for rule in rules if rule.name == "CheckServiceAffinity"
                 for argument in rule.settings.get("arguments", ())]
    labels = [label for argument in arguments for label in pick(argument, list, "labels")]
    fellows = [(other, place) for other, place in obstacles.others if other.namespace == pod.namespace
               and pod.labels.items() <= other.labels.items()]
    fellow, place = fellows[0] if fellows else (None, None)
    for label in labels:
        wanted = pod.node_selector.get(label) or (place and place.labels.get(label))
        if wanted and node.labels.get(label) != wanted:
            why = "its nodeSelector"
            if fellow and label not in pod.node_selector:
                why = f"{fellow.key} of its Service"
            has = f"{label}={node.labels[label]}" if label in node.labels else f"no {label}"
            yield f"{label}={wanted}, as {why}: has {has}"


def name_with_node(other, node):
    """Return a pod's name, and its node if that is another one."""
    return other.key if other.uid in node.pods else f"{other.key} on {other.counts_on or other.node_name}"


def in_words(term):
    """Return a term of pod affinity in words."""
    pods = " and ".join(map(requirement_in_words, term.requirements)) or "any pod"
    return f"{pods} by {short(term.key)}"


WORDS = {  # a reason against a node -> the function that has the words
    TOO_SKEWED: skews,
    OTHER_LABELS: labels_amiss,
    OTHER_LABELS_136: labels_amiss,
    OWN_ANTI_AFFINITY: own_anti_affinity,
    ANTI_AFFINITY_OF_OTHERS: anti_affinity_of_others,
    NO_AFFINITY: affinity,
    NO_SERVICE_AFFINITY: service_affinity,
    OUT_OF_REACH: volumes_elsewhere,
    OUT_OF_REACH_136: volumes_elsewhere,
    NO_ZONE: zones_of_volumes,
    NO_VOLUME_TO_BIND: claims_to_bind,
    UNBOUND_IMMEDIATE: claims_to_bind}
