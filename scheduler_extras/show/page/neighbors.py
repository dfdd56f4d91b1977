"""The pods to which a pod's affinity and its spread constraints refer, and how they are spread.

records.py adds both to the record of a decision in a small cluster.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

from scheduler_extras.common.errors import Malformed, Unschedulable
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.reading.label_selectors import labels_match
from scheduler_extras.rules.affinity_terms import affinity_terms
from scheduler_extras.rules.spreading import STAGES, spread_constraints
from scheduler_extras.show.obstacles import Obstacles
from scheduler_extras.show.page.causes import shared_prefix


MOST = 100  # pods that are named
MAX_DOMAINS = 6  # of a constraint, for its numbers to be shown


def neighbors_of(decision: FullDecision) -> list[str]:
    """Return the names of placed pods that the pod's affinity terms and spread constraints select."""
    pod, snapshot = decision.pod, decision.snapshot
    if snapshot is None:
        return []
    terms = [*itertools.chain(*affinity_terms(pod)[0].values())]
    constraints = []
    with contextlib.suppress(Malformed, Unschedulable):  # the rule reports it
        constraints = [each for when in STAGES for each in spread_constraints(pod, when, snapshot)]
    if not (terms or constraints):
        return []

    def is_selected(other):
        """Return whether a term or a constraint selects another pod."""
        is_counted = other.namespace == pod.namespace and any(
            labels_match(other.labels, each.requirements) for each in constraints)
        return is_counted or any(term.selects(other, snapshot) for term in terms)

    others = [other for node in decision.nodes.values() for other in node.pods.values()]
    found = (other.key for other in others if other.uid != pod.uid and is_selected(other))
    return [*itertools.islice(found, MOST)]


def spread_in_words(decision: FullDecision) -> Iterator[tuple[str, str]]:
    """Yield what a pod's constraints with DoNotSchedule count: (by which label, matching pods by domain)."""
    if decision.snapshot is None:
        return
    with contextlib.suppress(Malformed, Unschedulable):
        for constraint, counts in Obstacles(decision).spread:
            domains = sorted(domain for domain in counts if domain)
            prefix = shared_prefix(domains)
            if 1 < len(domains) <= MAX_DOMAINS:
                numbers = (f"{domain.removeprefix(prefix)}\u00a0{counts[domain]}" for domain in domains)
                yield f"matching pods by {constraint.key.rpartition('/')[2]}", ", ".join(numbers)
