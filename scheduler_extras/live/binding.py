"""Binding a pod, in a thread of the writer: by an extender, by a rule, or with a Binding.

attempts.py starts such a thread. results.py handles its result.
"""

from __future__ import annotations

import functools
import time

from scheduler import binding
from scheduler_extras.api.http_retries import patiently
from scheduler_extras.api.responses import NotFound, TooLarge
from scheduler_extras.common.blame import warn_if_broken
from scheduler_extras.common.clocks import within
from scheduler_extras.common.errors import ApiError, InputError, ServerUnavailable, Unschedulable
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.common.return_checks import request_by
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.extension_points import call_hook
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.writer import Result, Step, Writer
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.pods_and_nodes import FullPod


HOOK_SECONDS = 60  # the time limit of a rule's bind and post_bind


def bind_and_report(decision: FullDecision, writer: Writer) -> None:
    """Bind the pod, and report the result to the loop. On success, record an event, and call PostBind."""
    pod = decision.pod
    try:
        with pod.record.published.writing:  # the PodScheduled condition is written before, or not at all
            began = time.monotonic()
            bind(decision, writer)
            decision.binding_seconds = time.monotonic() - began
    except BaseException as error:  # a rule may even raise SystemExit
        node_name = writer.fetch_node_name(pod)
        if node_name == "" and isinstance(error, NotFound):  # the path of the Binding may be wrong
            error = Unschedulable(f"{error}, though the pod is there")
        if node_name != decision.node or is_certain(error, decision):
            if writer.may_write():
                warn_of_foreign_binding(pod, node_name)
            writer.results.put(Result(Step.BIND, decision, error))
            return
    writer.results.put(Result(Step.BIND, decision))
    message = f"Successfully assigned {pod.key} to {decision.node}"
    writer.recorder.record_scheduled(pod, ", though it ".join([message, *decision.unchecked]))
    for rule in decision.policy.rules_with["post_bind"]:
        with warn_if_broken(pod.key):
            call_in_time(rule, "post_bind", pod, decision.node)


def is_certain(error: BaseException, decision: FullDecision) -> bool:
    """Return whether our Binding had no effect, even if the pod is on its node now: it was refused at once.

    After a first try without an answer, a second one may get 409 because of the first.
    """
    is_refusal = isinstance(error, ApiError) and not isinstance(error, ServerUnavailable)
    return is_refusal and decision.binding_tries <= 1


def warn_of_foreign_binding(pod: FullPod, node_name: str | None) -> None:
    """Warn once for all pods that another client has bound a pod. node_name: of its node, if it has one."""
    if node_name:
        what = f"{pod.key} is on {node_name}, but this scheduler did not bind it"
        question = f"is a second {pod.scheduler} running? Start both with --leader-elect"
        warn_once(f"{what}; {question}", about="somebody else binds")


def bind(decision: FullDecision, writer: Writer) -> None:
    """Let an extender or a rule bind the pod, or else POST a Binding. Raises any exception."""
    pod = decision.pod
    node_name = decision.node
    bound_by = run_binders(decision, writer)
    if bound_by and writer.is_live:  # with manifests, a Binding follows in any case
        if writer.fetch_node_name(pod) != node_name:
            raise Unschedulable(f"{bound_by} says that the pod is bound to {node_name}, and it is not")
        return

    def check() -> None:
        """Count a try, immediately before it is sent. Raises Conflict if this replica no longer leads."""
        writer.check_that_it_leads()
        decision.binding_tries += 1

    send = functools.partial(writer.api.request, check=check)
    try:
        response = patiently(send, *request_by(binding, pod, node_name))
    except TooLarge as error:
        raise Unschedulable(f"with its node, the pod is larger than etcd takes: {error}") from error
    if not text_at(response, "kind"):  # all responses of an API server have a kind
        raise ServerUnavailable(0, "the response to its Binding did not come from an API server")


def run_binders(decision: FullDecision, writer: Writer) -> str | None:
    """Call Bind of the extenders, then of the rules. Return which one has bound the pod, or None.

    Upstream: Scheduler.bind.
    """
    pod = decision.pod
    extenders = decision.policy.extenders if writer.is_live else []
    binders = [(f"extender {extender.url}", extender.bind)
               for extender in extenders if extender.is_interested("bindVerb", pod)]
    binders += [(f"rule {rule.title or rule.name}", functools.partial(call_in_time, rule, "bind"))
                for rule in decision.policy.rules_with["bind"]]
    return next((name for name, bind in binders if writer.may_write() and bind(pod, decision.node)), None)


def call_in_time(rule: FullRule, point: str, *things) -> object:
    """Call a rule's hook, and return its result. Raises InputError if that takes more than a minute."""
    late = InputError(f"{rule.title or rule.name}: {point} has not returned for {HOOK_SECONDS} s")
    return within(HOOK_SECONDS, call_hook, rule, point, *things, late=late)
