"""Overrides of the rules about pod affinity and anti-affinity."""

import functools
from typing import Any

from scheduler_extras.configuration.overrides.registry import override
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.affinity import affine_scores, match_inter_pod_affinity, normalize_affinity
from scheduler_extras.rules.affinity_terms import affinity_terms


@override("MatchInterPodAffinity")
def required_pod_affinity(pod: FullPod, node: FullNode, metadata: Any) -> list[str]:
    """Required affinity holds. Only the second of the two reasons is reported."""
    return list(match_inter_pod_affinity(pod, node, metadata))[1:]


@override("InterPodAffinityPriority", "metadata")
def affine_scores_136(
    pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot, hard_weight: int = 1,
    ignores_others: bool = False
) -> Any:
    """Return the scores. ignores_others: preferences of other pods count only if the pod has some itself."""
    scores = affine_scores(pod, nodes, snapshot, hard_weight)
    terms, _ = affinity_terms(pod)
    has_preferences = terms["preferredAffinity"] or terms["preferredAntiAffinity"]
    return scores if has_preferences or not ignores_others else {}


# Unlike in 1.20, 0 is not among the scores from which the highest and the lowest are taken.
override("InterPodAffinityPriority", "reduce")(functools.partial(normalize_affinity, among=()))
