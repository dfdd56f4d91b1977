"""What would be decided about a pod without one of the predicates: "what if", and the change that would help.

journal.py asks it about each decision that it records in full.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.policy.policy import FullPolicy


MOST_NODES = 500  # of a cluster in which this is worked out
Answers = tuple[dict, dict, list]  # why nodes do not fit, the totals of those that do, and the votes on them


class WhatIf:
    """Policies without one predicate. They keep what their rules have answered, as the one in force does."""

    def __init__(self) -> None:
        self.variants: dict[tuple[FullPolicy, str], FullPolicy] = {}  # a Policy, a title -> one without it

    def without_each(self, decision: FullDecision) -> dict[str, Answers]:
        """Return what would be decided without each predicate that has refused nodes, {title: answers}.

        Nothing is asked of extenders a second time.
        """
        pod, policy, snapshot = decision.pod, decision.policy, decision.snapshot
        is_whole = decision.node or decision.fits_nowhere  # no rule has broken, for example
        if policy.extenders or not is_whole or len(decision.nodes) > MOST_NODES:
            return {}
        refusing = {title for against in decision.failed.values() for title in against}
        found = {}
        for title in [rule.title for rule in policy.predicates if rule.title in refusing]:
            variant = self.variants.setdefault((policy, title), without(policy, title))
            other = variant.new_decision(pod, snapshot)
            with contextlib.suppress(Exception, SystemExit):  # it would stay pending for another reason
                feasible, failed = variant.nodes_that_fit(pod, snapshot)
                total = variant.prioritize(other, feasible) if feasible else {}
                found[title] = failed, total, other.votes
        return found


def without(policy: FullPolicy, title: str) -> FullPolicy:
    """Return a Policy that asks all predicates except one."""
    variant: Any = copy.copy(policy)
    variant.predicates_to_ask = lambda: [rule for rule in policy.predicates_to_ask() if rule.title != title]
    return variant
