"""Calls of the rules' hooks from Reserve to PreBind, and of Unreserve.

attempts.py calls these functions, in the loop's thread.
"""

from __future__ import annotations

import time

from scheduler_extras.common.blame import warn_if_broken
from scheduler_extras.common.errors import ServerUnavailable, Unschedulable
from scheduler_extras.common.log_texts import one_line
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.extension_points import call_hook, with_reason
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.live.pod_record import WaitsFor
from scheduler_extras.reading.pods_and_nodes import FullNode


def run_reserve(decision: FullDecision, node: FullNode, snapshot: FullSnapshot) -> None:
    """Call Reserve of the rules. If one refuses the node, the decision then has none."""
    try:
        for rule in decision.policy.rules_with["reserve"]:
            call_hook(rule, "reserve", decision.pod, node, snapshot)
    except (Exception, SystemExit) as error:
        decision.give_up(error)


def run_unreserve(decision: FullDecision, snapshot: FullSnapshot) -> list[tuple]:
    """Call Unreserve of the rules, the last one first. Return the requests to send."""
    requests: list[tuple] = []
    for rule in reversed(decision.policy.rules_with["unreserve"]):
        with warn_if_broken(decision.pod.key):
            requests += call_hook(rule, "unreserve", decision.pod, snapshot) or []
    return requests


def run_permit_and_pre_bind(decision: FullDecision, snapshot: FullSnapshot) -> list[tuple]:
    """Call Permit and PreBind of the rules. Return the requests to send before the Binding.

    If a rule refuses the node, the decision then has none. If one holds the pod, `why_delayed` says why.
    """
    if not decision.node:  # the pod was a victim, and the preemptor has rejected it at Permit
        return []
    requests: list[tuple] = []
    decision.server_error = None
    is_permitted = False
    record = decision.pod.record
    node = snapshot.nodes.get(decision.node)
    try:
        if node is None:
            raise Unschedulable(f"node {decision.node} has gone")
        if record.waits_for is WaitsFor.PERMIT:
            decision.why_delayed = run_permit(decision, node, snapshot)
            if decision.why_delayed:
                return []
        is_permitted = True
        requests, decision.why_delayed = run_pre_bind(decision, node, snapshot)
        if decision.why_delayed:
            record.hold(WaitsFor.PRE_BIND, decision)
    except (Exception, SystemExit) as error:
        record.restore_assumed()  # if the changes were written all the same, the watch shows them
        if isinstance(error, ServerUnavailable):  # the pod keeps its node, and waits
            decision.server_error = error
            decision.why_delayed = decision.why_delayed or one_line(error)
        else:
            decision.give_up(error, is_failure=is_permitted)  # as in kube-scheduler, if PreBind refuses
    return requests


def run_permit(decision: FullDecision, node: FullNode, snapshot: FullSnapshot) -> str:
    """Call Permit of the rules. Return in words why the pod must wait, or "".

    Raises Unschedulable if a rule rejects the pod, or has held it for too long.
    """
    held = []  # (timeout of a rule in seconds, its name, its reason)
    for rule in decision.policy.rules_with["permit"]:
        seconds, reason = with_reason(call_hook(rule, "permit", decision.pod, node, snapshot))
        if seconds:
            held.append((seconds, rule.title or rule.name, reason))
    if not held:
        return ""
    seconds, name, reason = min(held)
    if not time.monotonic() - decision.pod.record.since < seconds:  # `not <`, because it may be NaN
        late = f"rejected due to timeout after waiting {seconds:g}s at plugin {name}"
        rejected = f'pod "{decision.pod.name}" rejected while waiting on permit: {late}'
        raise Unschedulable(with_why(rejected, reason))
    return with_why(f"{name} does not permit the binding to {node.name} yet", reason)


def run_pre_bind(decision: FullDecision, node: FullNode,
                 snapshot: FullSnapshot) -> tuple[list[tuple], str]:
    """Call PreBind of the rules. Return the requests to send, and what the pod then waits for, or ""."""
    requests = []
    waits = ""
    for rule in decision.policy.rules_with["pre_bind"]:
        wanted, reason = with_reason(call_hook(rule, "pre_bind", decision.pod, node, snapshot))
        if wanted is not None and not snapshot.is_live:  # no controller acts on requests: call it again now
            wanted, reason = with_reason(call_hook(rule, "pre_bind", decision.pod, node, snapshot))
        if wanted is not None:
            requests += wanted
            waits = with_why(f"{rule.title or rule.name} prepares the binding to {node.name}", reason)
    return requests, waits


def with_why(text: str, reason: str) -> str:
    """Return a text, followed by the reason that a rule gave, if any."""
    return f"{text}: {reason}" if reason else text
