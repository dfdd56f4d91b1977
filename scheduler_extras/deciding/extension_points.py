"""Hooks: a rule's functions at the extension points besides Filter and Score.

live/ and policy/ call them before and after the decision; docs/design.md has a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scheduler_extras.common.blame import describe_error
from scheduler_extras.common.errors import FAILURE, Unschedulable
from scheduler_extras.common.return_checks import wrong_answer
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.reading.pods_and_nodes import FullPod


# A rule may also have functions for the other extension points of the scheduling framework. These hooks are
# options of its decorator. (At preFilter, filter, preScore, score and normalizeScore, a rule has its own
# function, `metadata` and `reduce`.)
#
# The loop's thread calls all hooks except bind and post_bind, one after another. They need no locks, and may
# read the whole snapshot. But all pods wait for them, so they should be fast, and return requests instead of
# sending them. A thread sends the requests of a pod one after another until one fails. Requests of
# post_filter and pre_bind are dropped once the pod is gone.
# bind and post_bind are called in other threads, for several pods at once. They may send requests, but must
# not change the pod, or read nodes and snapshots, and they need locks for shared state. Each has a minute.
# If a hook fails or calls sys.exit, only its pod is affected. (A queue_sort that fails is ignored.)


Request = tuple[str, str, dict]  # one that writes something: method, path, body


def are_requests(answer: object) -> bool:
    """Return whether an answer is a list of Requests."""
    return isinstance(answer, (list, tuple)) and all(
        isinstance(each, (list, tuple)) and len(each) == 3
        and each[0] in ("POST", "PUT", "PATCH", "DELETE") for each in answer)


def with_reason(answer: Any) -> tuple[Any, str]:
    """Return a rule's answer as a pair: the answer, and its reason or ""."""
    is_pair = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], str)
    return answer if is_pair else (answer, "")


RETURN_TYPES = {  # what a hook may return beside None -> a function that returns whether an answer is that
    "anything": lambda answer: True,
    "a string": lambda answer: isinstance(answer, str),
    "True or False": lambda answer: isinstance(answer, bool),
    "seconds, or (seconds, why)": lambda answer: type(with_reason(answer)[0]) in (int, float),
    "a list of requests": are_requests,
    "a list of requests, or (requests, why)": lambda answer: are_requests(with_reason(answer)[0])}


@dataclass
class ExtensionPoint:
    """An extension point: the parameters of its hooks, and what they may return."""

    parameters: str
    in_configuration: str  # its name in a KubeSchedulerConfiguration
    returns: str = "anything"  # one of RETURN_TYPES
    refusal: str = ""  # the start of the message when a plugin refuses a pod there


EXTENSION_POINTS = {  # by the option of the decorator
    # Returns why the pod is not ready to be tried, or None.
    "pre_enqueue": ExtensionPoint("pod", "preEnqueue", "a string"),
    # Returns a sort key: pods with lower keys are tried first.
    "queue_sort": ExtensionPoint("pod", "queueSort"),
    # Called if no node fits. Returns requests that may help, and what they do, or None.
    "post_filter": ExtensionPoint(
        "pod failed snapshot", "postFilter", "a list of requests, or (requests, why)"),
    # Called once the pod is assumed on the node. May raise Unschedulable.
    "reserve": ExtensionPoint(
        "pod node snapshot", "reserve", refusal='running Reserve plugin "{rule}"'),
    # Undoes `reserve`, even if another rule's `reserve` failed. Returns requests, or None.
    "unreserve": ExtensionPoint("pod snapshot", "reserve", "a list of requests"),
    # Returns None to approve, or raises Unschedulable to deny. Returns seconds, or (seconds, why), to be
    # called again in each pass, for so long.
    "permit": ExtensionPoint(
        "pod node snapshot", "permit", "seconds, or (seconds, why)",
        refusal='rejected pod "{pod}" by permit plugin "{rule}"'),
    # Returns None to continue. Returns requests, perhaps [], or (requests, why), to have these sent, and to
    # be called again in each pass.
    "pre_bind": ExtensionPoint(
        "pod node snapshot", "preBind", "a list of requests, or (requests, why)",
        refusal='running PreBind plugin "{rule}"'),
    # Binds the pod and returns True. Otherwise, the next rule is called, and finally a Binding is sent.
    "bind": ExtensionPoint("pod node_name", "bind", "True or False"),
    # Called once the pod is bound.
    "post_bind": ExtensionPoint("pod node_name", "postBind")}


def call_hook(rule: FullRule, point: str, *things: Any) -> Any:
    """Call a rule's hook, and return its result. Raises InputError if the result is not allowed there."""
    there = EXTENSION_POINTS[point]
    try:
        answer = rule.hooks[point](*things)
    except Unschedulable as error:
        if not there.refusal:
            raise
        refusal = there.refusal.format(rule=rule.plugin or rule.title, pod=things[0].name)
        raise Unschedulable(f"{refusal}: {error}") from error
    if answer is not None and not RETURN_TYPES[there.returns](answer):
        raise wrong_answer(rule, f"{point}: return None or {there.returns}", answer, rule.hooks[point])
    return answer


def run_pre_enqueue(pod: FullPod, policy: Any) -> str:
    """Call PreEnqueue of the rules. Return the first reason not to try the pod yet, with its rule; or ""."""
    for rule in policy.rules_with["pre_enqueue"]:
        try:
            reason = call_hook(rule, "pre_enqueue", pod)
        except (Exception, SystemExit) as error:
            FAILURE.set()
            reason = describe_error(error)
        if reason:
            return f"{rule.title}: {reason}"
    return ""
