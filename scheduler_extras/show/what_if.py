"""Hypothetical decisions, each without one of the predicates.

journal.py calls it for each decision that it records in full.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.policy.policy import FullPolicy


MAX_NODES = 500  # in larger clusters, this is not computed
Answers = tuple[dict, dict, list]  # the Diagnosis, the totals of the feasible nodes, the Votes on these


class WhatIf:
    """Policies without one predicate. Their rules' answers are cached like those of the Policy in force."""

    def __init__(self) -> None:
        self.variants: dict[tuple[FullPolicy, str], FullPolicy] = {}  # (Policy, title) -> without that rule

    def without_each(self, decision: FullDecision) -> dict[str, Answers]:
        """Return {title: Answers without it} for each predicate that has refused nodes.

        Policies with extenders are left out, because these would be called again.
        """
        pod, policy = decision.pod, decision.policy
        snapshot: Any = decision.snapshot
        is_complete = decision.node or decision.fits_nowhere  # not so if a rule has failed
        if policy.extenders or not is_complete or len(decision.nodes) > MAX_NODES:
            return {}
        refusing = {title for against in decision.failed.values() for title in against}
        found: dict[str, Answers] = {}
        for title in [rule.title for rule in policy.predicates if rule.title in refusing]:
            variant = self.variants.setdefault((policy, title), without(policy, title))
            other = variant.begin_decision(pod, snapshot)
            with contextlib.suppress(Exception, SystemExit):  # another rule fails on the pod
                feasible, failed = variant.nodes_that_fit(pod, snapshot)
                total = variant.prioritize(other, feasible) if feasible else {}
                found[title] = failed, total, other.votes
        return found


def without(policy: FullPolicy, title: str) -> FullPolicy:
    """Return a Policy with all predicates except one."""
    variant: Any = copy.copy(policy)
    variant.predicates_to_ask = lambda: [rule for rule in policy.predicates_to_ask() if rule.title != title]
    return variant
