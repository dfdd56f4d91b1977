"""What stands between a pod and a node: the pod that is in the way and the term, the volume and its zone.

explain.py asks it for the words behind a node's name.
"""

import contextlib
import functools

from scheduler_extras.common.errors import Malformed
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.rules.affinity_terms import affinity_terms
from scheduler_extras.rules.claims import satisfies_one, waits_for_consumer, with_reach
from scheduler_extras.rules.disks import claims_of, class_name_of, storage_class_of
from scheduler_extras.rules.volume_zones import ZONE_LABELS


class Obstacles:
    """What is in a pod's way on the nodes that a decision has ruled out."""

    def __init__(self, decision):
        self.pod = decision.pod
        self.nodes = decision.nodes
        self.failed = decision.failed
        self.snapshot = decision.snapshot
        self.selected = {}  # meanings of terms -> see selected_by

    def words(self, name):
        """Return in words what is in the way on a node, by the reasons against it."""
        reasons = [reason for reasons in self.failed[name].values() for reason in reasons]
        asked = [ask for beginning, ask in ASKED.items() if any(beginning in reason for reason in reasons)]
        found: list[str] = []
        for ask in dict.fromkeys(asked):
            with contextlib.suppress(Malformed):  # objects may be anything; the reason itself says enough
                found += ask(self, self.nodes[name])
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

    def own_anti_affinity(self, node):
        """Yield which pods in the node's domains the pod must not be with, and by which term."""
        for term in self.own_terms["requiredAntiAffinity"]:
            other = self.selected_by(term).get(node.labels.get(term.key))
            if other:
                yield f"{said_of(other, node)}, by the pod's anti-affinity to {in_words(term)}"

    def anti_affinity_of_others(self, node):
        """Yield which pods in the node's domains must not be with the pod, and by which term."""
        for key, value in node.labels.items():
            if (key, value) in self.repelling:
                other, term = self.repelling[key, value]
                yield f"{said_of(other, node)}, by its own anti-affinity to {in_words(term)}"

    def affinity(self, node):
        """Yield which terms of the pod's affinity find no pod in the node's domains."""
        terms = self.own_terms["requiredAffinity"]
        for i, term in enumerate(terms):
            key = short(term.key)
            if term.key not in node.labels:
                yield f"no label {term.key}"
            elif node.labels[term.key] not in self.selected_by(term, *(terms[:i] + terms[i + 1:])):
                where = f"in {key} {node.labels[term.key]}" if self.selected_by(term) else "on any node"
                yield f"no pod {in_words(term)} {where}"

    def service_affinity(self, node):
        """Yield with which pod's node the node is to agree in labels, and what it has instead."""
        pod = self.pod
        rules = self.snapshot.policies[pod.scheduler].predicates
        arguments = [argument for rule in rules if rule.name == "CheckServiceAffinity"
                     for argument in rule.settings.get("arguments", ())]
        labels = [label for argument in arguments for label in pick(argument, list, "labels")]
        fellows = [(other, place) for other, place in self.others if other.namespace == pod.namespace
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

    def volumes_elsewhere(self, node):
        """Yield which of the pod's volumes the node cannot reach, and where they are."""
        for name, _, volume in claims_of(self.pod, self.snapshot):
            reach = with_reach(volume).reach if volume else [[]]
            if not satisfies_one(node.labels, reach):
                places = " or ".join(" and ".join(map(requirement_in_words, each)) for each in reach)
                yield f"volume {text_at(volume, 'metadata', 'name')} of claim {name} is where {places}"

    def zones_of_volumes(self, node):
        """Yield which of the pod's volumes are in another zone."""
        for name, _, volume in claims_of(self.pod, self.snapshot, self.pod.named_claims):
            for label, text in pick(volume, dict, "metadata", "labels").items():
                if label in ZONE_LABELS and node.labels.get(label) not in text.split("__"):
                    there = node.labels.get(label)
                    has = f"the node in {there}" if there else f"the node has no {label}"
                    where = f"volume {text_at(volume, 'metadata', 'name')} of claim {name}"
                    yield f"{where} is in {short(label)} {text}, {has}"

    def claims_to_bind(self, node):
        """Yield which of the pod's claims are not bound, and what they wait for."""
        for name, claim, volume in claims_of(self.pod, self.snapshot):
            metadata = pick(claim, dict, "metadata", "annotations")
            if volume and "pv.kubernetes.io/bind-completed" in metadata:
                continue
            yield f"claim {name} waits for {what_a_claim_waits_for(claim, node, self.snapshot)}"


ASKED = {  # part of a reason -> the method that has the words
    "didn't match pod anti-affinity rules": Obstacles.own_anti_affinity,
    "didn't satisfy existing pods anti-affinity": Obstacles.anti_affinity_of_others,
    "didn't match pod affinity rules": Obstacles.affinity,
    "didn't match service affinity": Obstacles.service_affinity,
    "volume node affinity conflict": Obstacles.volumes_elsewhere,
    "didn't match PersistentVolume's node affinity": Obstacles.volumes_elsewhere,
    "no available volume zone": Obstacles.zones_of_volumes,
    "didn't find available persistent volumes": Obstacles.claims_to_bind,
    "unbound immediate PersistentVolumeClaims": Obstacles.claims_to_bind}


def what_a_claim_waits_for(claim, node, snapshot):
    """Return in words what a claim that is not bound waits for, seen from a node."""
    class_name = class_name_of(claim)
    known = storage_class_of(claim, snapshot)
    selected = text_at(claim, "metadata", "annotations", "volume.kubernetes.io/selected-node")
    if not class_name:
        return "a volume without a class"
    if not known:
        return f"StorageClass {class_name}, which is not there"
    if selected and selected != node.name:
        return f"a volume on {selected}, which was chosen for it"
    if pick(known, str, "provisioner") == "kubernetes.io/no-provisioner":
        reach = " and the node can reach" if waits_for_consumer(claim, snapshot) else ""
        return f"a free volume of class {class_name} that suits it{reach}"
    if waits_for_consumer(claim, snapshot):
        return f"a volume of class {class_name}: its allowedTopologies exclude the node"
    return f"the provisioner of class {class_name}"


def said_of(other, node):
    """Return a pod's name, and its node if that is another one."""
    return other.key if other.uid in node.pods else f"{other.key} on {other.counts_on or other.node_name}"


def in_words(term):
    """Return a term of pod affinity in words."""
    pods = " and ".join(map(requirement_in_words, term.requirements)) or "any pod"
    return f"{pods} by {short(term.key)}"


def requirement_in_words(requirement):
    """Return a requirement of labels in words."""
    if requirement.operator in ("Exists", "DoesNotExist"):
        return f"{requirement.key} {requirement.operator}"
    if requirement.operator == "In" and len(requirement.values) == 1:
        return f"{short(requirement.key)}={requirement.values[0]}"
    return f"{short(requirement.key)} {requirement.operator} [{', '.join(requirement.values)}]"


def short(key):
    """Return a label's key without what is before a slash."""
    return key.rpartition("/")[2]
