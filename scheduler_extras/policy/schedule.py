"""Scheduling one pod: filter, score, select a host.

The loop, --explain and --fits call it. Unlike `schedule` in scheduler.py, it keeps the votes, shares the
messages of similar pods, and reports a broken rule in one line.
"""

import random
import time

from scheduler import select_host
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.reading.pods_and_nodes import FullPod


def schedule(pod: FullPod, snapshot: FullSnapshot, policy: FullPolicy) -> FullDecision:
    """Choose a node for the pod: find the nodes that fit, prioritize them, select a host."""
    decision = policy.begin_decision(pod, snapshot)
    try:
        feasible, decision.failed = policy.nodes_that_fit(pod, snapshot)
        decision.filtered_at = time.monotonic()
        if feasible:
            decision.total = policy.prioritize(decision, feasible)
            if CHANCE.seed is not None:  # then ties are broken in the same way each time
                random.seed(f"{CHANCE.seed} {pod.key}")
            decision.node = feasible[select_host(decision.total)].name
        else:
            decision.message = decision.failed.message
    except (Exception, SystemExit) as error:  # such as a mistake in a rule
        decision.give_up(error)
    decision.decided_at = time.monotonic()
    return decision
