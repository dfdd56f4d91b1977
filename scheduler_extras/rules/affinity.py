"""Inter-pod affinity and anti-affinity: the predicate MatchInterPodAffinity and InterPodAffinityPriority.

`affinity_around` evaluates the terms once per pod, for both rules.
"""

from __future__ import annotations

import collections
import functools
import itertools
import weakref
from collections.abc import Iterable
from typing import Any

from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.deciding.answers import memo
from scheduler_extras.deciding.rule import SKIP, Rejected, Unresolvable, predicate, priority
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.affinity_terms import (
    affinity_terms,
    has_required_affinity,
    placed_terms,
    selected_by,
)
from scheduler_extras.rules.label_index import labels_to_look_up


# The pod's own terms, and those of all placed pods, attract it to domains or repel it; a domain is a
# (topology key, value). `affinity_around` sums up all terms by domain. From that, `affine_domains` computes
# where the pod must be and must not be, for the predicate, and `affine_scores` the weights of domains, for
# the priority.


# List of terms -> the effect of the pod's own terms on the domains of pods that they select; the effect of
# other pods' terms that select the pod, on these pods' domains; and the sign of the weight.
EFFECTS_OF_TERMS = {
    "requiredAffinity": ("together", "attached", 1), "requiredAntiAffinity": ("apart", "repelling", 1),
    "preferredAffinity": ("preferred", "preferred", 1),
    "preferredAntiAffinity": ("preferred", "preferred", -1)}


def affinity_around(pod: FullPod, snapshot: FullSnapshot) -> dict:
    """Return the effects of the pod's terms and all others, {effect: {(topology key, value): weight}}."""
    placed = placed_terms(snapshot)
    if not (placed.numbers or pod.is_affine):  # no pod has terms, as in most clusters
        return collections.defaultdict(collections.Counter)
    near = placed.index.find("", labels_to_look_up(pod))
    own, _ = affinity_terms(pod)
    terms = itertools.chain(*own.values(), (term for _, term in near))
    namespaces = [snapshot.objects["namespaces"] for term in terms if term.namespace_selector]
    # The same for the predicate and the priority.
    basis = weakref.ref(pod), snapshot.answer_cache.changes.version, namespaces
    return memo("around", snapshot, basis, lambda: add_up_scores(own, near, placed.numbers, pod, snapshot))


def add_up_scores(own: dict, near: Iterable, numbers: dict, pod: FullPod,
           snapshot: FullSnapshot) -> dict[str, collections.Counter]:
    """Sum up the pod's own terms, and those of others that may select it; see `affinity_around`.

    near: terms of others, (name of a list, term). numbers: {such a pair: {node: the pods that have it}}.
    """
    around: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)

    def add(what, keys, weight, numbers):
        """Add the effect of a term on the domains of nodes. numbers: {node: how many of its pods count}."""
        for name, number in numbers.items():
            labels = snapshot.nodes[name].labels
            for key in keys & labels.keys():
                around[what][key, labels[key]] += weight * number

    for list_name, (what, _, sign) in EFFECTS_OF_TERMS.items():
        terms = own[list_name]
        one_by_one = [[term] for term in terms]
        must_meet_all = what == "together" and terms  # required affinity: one pod must meet all its terms
        for group in [terms] if must_meet_all else one_by_one:
            add(what, {term.key for term in group}, sign * group[0].weight, selected_by(group, snapshot))
    for list_name, term in near:
        _, what, sign = EFFECTS_OF_TERMS[list_name]
        if term.selects(pod, snapshot):
            add(what, {term.key}, sign * term.weight, numbers[list_name, term])
    return around


IN_GENERAL = "node(s) didn't match pod affinity/anti-affinity"  # one of the next three follows
NO_AFFINITY = Unresolvable("node(s) didn't match pod affinity rules")
OWN_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
ANTI_AFFINITY_OF_OTHERS = "node(s) didn't satisfy existing pods anti-affinity rules"
AffineDomains = collections.namedtuple("AffineDomains", "keys may_begin together apart repelling")


def affine_domains(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> Any:
    """Return the AffineDomains where the pod must be and must not be; or SKIP. Raises Rejected.

    keys: the topology keys of its required affinity. together: the domains with a pod that meets all its
    terms. may_begin: no pod meets them yet except the pod itself, so any domain with the keys will do.
    apart: the domains with pods that its anti-affinity excludes. repelling: the domains with pods whose
    anti-affinity excludes it.
    """
    terms, problem = affinity_terms(pod)
    if problem:
        raise Rejected(problem)
    around = affinity_around(pod, snapshot)
    wanted = terms["requiredAffinity"]
    if not (wanted or around["apart"] or around["repelling"]):
        return SKIP
    may_begin = not around["together"] and all(term.selects(pod, snapshot) for term in wanted)
    domains = [set(around[what]) for what in ("together", "apart", "repelling")]
    return AffineDomains({term.key for term in wanted}, may_begin, *domains)


@predicate("MatchInterPodAffinity", metadata=affine_domains, plugin="InterPodAffinity", by_default=1,
           steady=True, helped_by_pods=functools.partial(has_required_affinity, "podAffinity"),
           pod_requirements={
               "required pod affinity": functools.partial(has_required_affinity, "podAffinity"),
               "required pod anti-affinity": functools.partial(has_required_affinity, "podAntiAffinity")})
def match_inter_pod_affinity(pod, node, metadata):
    """The node's domains have the pods that affinity requires, and none that anti-affinity excludes."""
    here = node.labels.items()
    if metadata.may_begin:
        is_together = metadata.keys <= node.labels.keys()
    else:
        is_together = all((key, node.labels.get(key)) in metadata.together for key in metadata.keys)
    reason: str
    if not is_together:
        reason = NO_AFFINITY
    elif not metadata.apart.isdisjoint(here):
        reason = OWN_ANTI_AFFINITY
    elif not metadata.repelling.isdisjoint(here):
        reason = ANTI_AFFINITY_OF_OTHERS
    else:
        return
    yield IN_GENERAL
    yield reason


def affine_scores(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot, hard_weight: int = 1) -> dict:
    """Return {(topology key, value): the sum of the weights for this domain minus those against it}.

    hard_weight: the weight of other pods' required terms (hardPodAffinitySymmetricWeight).
    """
    _, problem = affinity_terms(pod)
    if problem:
        raise Unschedulable(f'running PreScore plugin "InterPodAffinity": {problem}')
    around = affinity_around(pod, snapshot)
    if not around:
        return {}
    scores = collections.Counter(around["preferred"])
    for domain, count in around["attached"].items():  # of pods that require this one near them
        scores[domain] += count * hard_weight
    return scores


def normalize_affinity(points: dict[str, float], among: Iterable[float] = (0,)) -> dict[str, int]:
    """Scale scores so that the lowest becomes 0 and the highest 100. among: values included in that range."""
    scores = [*points.values(), *among]
    low = min(scores)
    high = max(scores)
    span = high - low
    return {name: int(100 * ((score - low) / span)) if span else 0 for name, score in points.items()}


@priority("InterPodAffinityPriority", metadata=affine_scores, reduce=normalize_affinity,
          plugin="InterPodAffinity", by_default=1, steady=True)
def inter_pod_affinity(pod, node, metadata):
    """The sum of the weights for the node's domains, minus those against them."""
    return sum([metadata[pair] for pair in node.labels.items()]) if metadata else 0
