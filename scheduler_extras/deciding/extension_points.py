"""The other extension points of the scheduling framework, at which a rule may have functions: hooks.

live/ calls them after the decision; the rules about claims and preemption have some.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scheduler_extras.common.blame import FAILURE, warn_if_broken, what_broke, wrong_answer
from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.pods_and_nodes import FullPod


# A rule may have functions for the other extension points of the scheduling framework, too: hooks, which are
# options of its decorator. What stands at preFilter, filter, preScore, score and normalizeScore is its own
# function, with `metadata` and `reduce`.
#
# The loop's thread calls all but bind and post_bind, one after another. They need no locks, and may look at
# all of the snapshot. But all pods wait for them: they should be quick, and return requests, not send these.
# A thread sends the requests of a pod one after another, until one fails. What `post_filter` or `pre_bind`
# wants is not sent any more once the pod has gone.
# bind and post_bind are called in other threads, for several pods at once. They may send requests, must not
# change the pod or look at nodes and snapshots, and need locks for what they share. bind has a minute.
# A hook that breaks, or calls sys.exit, does harm to its pod only (queue_sort: has no effect).


def are_requests(answer: object) -> bool:
    """Return whether an answer is a list of requests that write something, (method, path, body)."""
    return isinstance(answer, (list, tuple)) and all(
        isinstance(each, (list, tuple)) and len(each) == 3
        and each[0] in ("POST", "PUT", "PATCH", "DELETE") for each in answer)


def with_reason(answer: Any) -> tuple[Any, str]:
    """Return a rule's answer as a pair: the answer, and its reason or ""."""
    is_pair = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], str)
    return answer if is_pair else (answer, "")


ANSWERS = {  # what a hook may return beside None -> a function that returns whether an answer is that
    "anything": lambda answer: True,
    "a string": lambda answer: isinstance(answer, str),
    "True or False": lambda answer: isinstance(answer, bool),
    "seconds, or (seconds, why)": lambda answer: type(with_reason(answer)[0]) in (int, float),
    "a list of requests": are_requests,
    "a list of requests, or (requests, why)": lambda answer: are_requests(with_reason(answer)[0])}


@dataclass
class ExtensionPoint:
    """A point at which a rule may have a function: what that takes, and may return."""

    parameters: str
    in_configuration: str  # what a KubeSchedulerConfiguration calls it
    answer: str = "anything"  # one of ANSWERS
    refusal: str = ""  # the start of the message when a plugin refuses a pod there


EXTENSION_POINTS = {  # by the option of the decorator
    # Why the pod is not ready to be tried; or None.
    "pre_enqueue": ExtensionPoint("pod", "preEnqueue", "a string"),
    # A key: pods with lower ones are tried first.
    "queue_sort": ExtensionPoint("pod", "queueSort"),
    # No node fits: requests that may help, and what they do; or None.
    "post_filter": ExtensionPoint(
        "pod failed snapshot", "postFilter", "a list of requests, or (requests, why)"),
    # Takes note that the pod goes to the node; may raise Unschedulable.
    "reserve": ExtensionPoint(
        "pod node snapshot", "reserve", refusal='running Reserve plugin "{rule}"'),
    # Forgets that, even if another rule's `reserve` failed. Requests; or None.
    "unreserve": ExtensionPoint("pod snapshot", "reserve", "a list of requests"),
    # None approves, Unschedulable denies. Seconds, or these and why: it is asked again, for so long.
    "permit": ExtensionPoint(
        "pod node snapshot", "permit", "seconds, or (seconds, why)",
        refusal='rejected pod "{pod}" by permit plugin "{rule}"'),
    # None: go on. Requests, maybe [], or these and why: they are sent, and it is asked again in each pass.
    "pre_bind": ExtensionPoint(
        "pod node snapshot", "preBind", "a list of requests, or (requests, why)",
        refusal='running PreBind plugin "{rule}"'),
    # Binds the pod, and returns True; else the next one is asked, at last the script.
    "bind": ExtensionPoint("pod node_name", "bind", "True or False"),
    # The pod is bound.
    "post_bind": ExtensionPoint("pod node_name", "postBind")}


def call_hook(rule: FullRule, point: str, *things: Any) -> Any:
    """Call a rule's hook, and return its answer. Raises InputError if the answer is not allowed there."""
    there = EXTENSION_POINTS[point]
    try:
        answer = rule.hooks[point](*things)
    except Unschedulable as error:
        if not there.refusal:
            raise
        refusal = there.refusal.format(rule=rule.plugin or rule.title, pod=things[0].name)
        raise Unschedulable(f"{refusal}: {error}") from error
    if answer is not None and not ANSWERS[there.answer](answer):
        raise wrong_answer(rule, f"{point}: return None or {there.answer}", answer, rule.hooks[point])
    return answer


def ready(pod: FullPod, policy: Any) -> bool:
    """Return whether the pod may be scheduled at all. Upstream: PreEnqueue."""
    if pod.terminating or pod.gates or pod.phase in ("Succeeded", "Failed"):
        return False
    reason = why_not_yet(pod, policy)
    if reason:
        warn_once(f"{pod.key} is not tried yet: {reason}")
    return not reason


def why_not_yet(pod: FullPod, policy: Any) -> str:
    """Return the reason of the first rule whose pre_enqueue rejects the pod, with the rule's name; or ""."""
    for rule in policy.rules_with["pre_enqueue"]:
        try:
            reason = call_hook(rule, "pre_enqueue", pod)
        except (Exception, SystemExit) as error:
            FAILURE.set()
            reason = what_broke(error)
        if reason:
            return f"{rule.title}: {reason}"
    return ""


def unreserve(decision: FullDecision, snapshot: FullSnapshot) -> list[tuple]:
    """Call Unreserve of the rules. Return the requests to send."""
    requests: list[tuple] = []
    for rule in decision.policy.rules_with["unreserve"]:
        with warn_if_broken(decision.pod.key):
            requests += call_hook(rule, "unreserve", decision.pod, snapshot) or []
    return requests
