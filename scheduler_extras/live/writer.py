"""What is written, by threads: a Binding is sent here (`bind`), and what rules want sent.

The binding cycle hands decisions to it; a dry run, and manifests, have another Writer.
"""

import collections
import functools
import itertools
import queue
import time

from scheduler import binding
from scheduler_extras.api.errors import Conflict, NotFound, TooLarge, backoff, patiently
from scheduler_extras.common.blame import request_by, warn_if_broken
from scheduler_extras.common.clocks import heartbeat, start_thread, within
from scheduler_extras.common.errors import ApiError, InputError, Trouble, Unschedulable
from scheduler_extras.deciding.extension_points import call_hook
from scheduler_extras.live.events import record
from scheduler_extras.live.queue import WaitsFor, warn_of_another
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.pods_and_nodes import FullPod


THREADS = 64  # that write at a time


# Threads write all that is written; the loop takes in how that ends (`answered`). In a dry run nothing is
# written. Nor does a replica write that does not lead (`attempt`), except that it records events of the pods
# that it has bound (`announce`). A request that fails with 5xx is sent up to three times (patiently), but a
# DELETE once, as an attempt of which no answer came may still delete.


HOOK_SECONDS = 60  # for which a rule's bind may keep a thread, and its post_bind, too

# How requests have ended that were sent for a decision.
# step: what the pod waited for when they were handed over; NODE: what `unreserve` wanted sent
# error: what went wrong, or None
# left: the request that has failed, and those behind it
Answer = collections.namedtuple("Answer", "step decision error left", defaults=[None, ()])


class Writer:
    """Sends requests, in threads of its own."""

    is_live = True  # controllers act on what is written
    patience = 5  # seconds to wait for a free thread

    def __init__(self, api):
        self.api = api
        self.may_write = lambda: True  # whether this replica leads
        self.threads = 0  # that have been started
        self.tasks = queue.Queue()  # what threads are to do: (function, arguments)
        # Answers for the loop. Before Python 3.11 a SimpleQueue that is to wait for hardly any time may wait
        # forever.
        self.answered = queue.Queue()

    def bind(self, decision, recorder):
        """Have a thread bind a pod, and let the loop know how that has ended. Raises Trouble."""
        self.start(bind_and_report, decision, self, recorder)

    def start(self, function, *arguments):
        """Have a thread call a function, as soon as one is free. Raises Trouble."""
        self.tasks.put((function, arguments))
        if self.threads < min(self.tasks.unfinished_tasks, THREADS):
            try:
                start_thread(self.work)
                self.threads += 1
            except Trouble:  # then those that there are do it
                if not self.threads:
                    self.tasks.get()
                    self.tasks.task_done()
                    raise

    def work(self):
        """Do one task after another, forever."""
        while True:
            function, arguments = self.tasks.get()
            with warn_if_broken("what was to be written is not"):
                function(*arguments)
            self.tasks.task_done()
            del function, arguments  # while the thread waits, it keeps no decision and no nodes

    def is_busy(self):
        """Return whether all threads have something to do."""
        return self.tasks.unfinished_tasks >= THREADS

    def wait_for_a_free_thread(self):
        """Wait until a thread has nothing to do. Raises ApiError if that takes long."""
        until = time.monotonic() + self.patience
        while self.is_busy():
            if time.monotonic() > until:
                what = f"no answer to {THREADS} writes, or to what rules do after them"
                raise Trouble(0, f"{what}, for {self.patience} s")
            heartbeat()
            time.sleep(0.002)

    def attempt(self, *request):
        """Send a request once, unless another replica may lead by now. Return its answer."""
        if not self.may_write():
            raise Conflict(409, "this replica does not lead any more")
        return self.api.request(*request)

    def send(self, step, decision, requests, still_waiting):
        """Have a thread send what rules want sent for a pod, and let the loop know how that has ended.

        still_waiting: a function that returns a pod as it is by now, or None if it does not wait any more.
        """
        try:
            self.start(self.send_in_order, step, decision, requests, still_waiting)
        except Trouble as error:
            self.answered.put(Answer(step, decision, error, requests))

    def send_in_order(self, step, decision, requests, still_waiting):
        """Send requests one after another, until one fails; then let the loop know.

        What is not wanted any more, as the pod has gone, is not sent, unless it undoes something.
        """
        pod = decision.pod
        for number, request in enumerate(requests):
            try:
                if step is not WaitsFor.NODE:
                    check_that_it_waits(pod, still_waiting(pod))
                answer = self.carry_out(step, pod, *request)
                if step is not WaitsFor.NODE and text_at(answer, "metadata", "uid") == pod.uid:
                    check_that_it_waits(pod, FullPod(answer))
            except Exception as error:  # what a rule wants sent may be anything
                self.answered.put(Answer(step, decision, error, requests[number:]))
                return
        self.answered.put(Answer(step, decision))

    def carry_out(self, step, pod, method, path, body):
        """Send a request that a rule wants sent for a pod. Return its answer. Raises ApiError."""
        if path.endswith("/events"):
            self.start(record, self, (method, path, body))
            return None
        try:
            if method == "DELETE":
                return self.attempt(method, path, body)
            return patiently(self.attempt, method, path, body)
        except (Conflict, NotFound):
            is_its_own = f"{path}/".startswith(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/")
            may_have_gone = method == "DELETE" or step is WaitsFor.REMEDY
            if is_its_own or not (may_have_gone and self.may_write()):
                raise
            return None  # a victim has gone, for example, and that is all right

    def bound_by(self, decision):
        """Have a rule or an extender bind the pod. Return which one says that it has, or None."""
        return self.ask_binders(decision, decision.policy.extenders)

    def ask_binders(self, decision, extenders):
        """Ask the rules, then these extenders, to bind the pod, until one says that it has; return which."""
        pod = decision.pod
        binders = [(f"rule {rule.title or rule.name}", functools.partial(call_in_time, rule, "bind"))
                   for rule in decision.policy.rules_with["bind"]]
        binders += [(f"extender {extender.url}", extender.bind)
                    for extender in extenders if extender.cares("bindVerb", pod)]
        return next((who for who, bind in binders if self.may_write() and bind(pod, decision.node)), None)

    def place_of(self, pod):
        """Return the node on which a pod is, whatever was answered, as the answer may have been lost.

        "": it is on none; None: it has gone, or RBAC forbids the question. As long as no answer comes, the
        question is sent again, and the pod keeps its room.
        """
        for attempt in itertools.count(1):
            try:
                raw = self.api.request("GET", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")
                uid = text_at(raw, "metadata", "uid")
                if uid:  # else it is no pod, so that no API server says it
                    return text_at(raw, "spec", "nodeName") if uid == pod.uid else None
            except NotFound:
                return None
            except ApiError as error:
                if error.status == 403:
                    return None
            time.sleep(backoff(attempt))


class DryRun(Writer):
    """Writes nothing."""

    is_live = False

    def bind(self, decision, recorder):
        """Let the loop know that it has ended well."""
        self.answered.put(Answer(WaitsFor.BINDING, decision))

    def start(self, function, *arguments):
        """Do nothing."""

    def send(self, step, decision, requests, still_waiting):
        """Let the loop know that all is sent."""
        self.answered.put(Answer(step, decision))


def check_that_it_waits(pod, latest):
    """Raise Conflict if a pod has gone, is being deleted, or has a node, by what is known by now."""
    if not latest or latest.terminating or latest.node_name:
        raise Conflict(409, f"{pod.key} does not wait any more")


def bind_and_report(decision, writer, recorder):
    """Bind the pod, and report the result to the loop. If it is bound, record an event and call PostBind."""
    pod = decision.pod
    try:
        with pod.record.writing:  # what says that the pod waits is written before, or not at all
            began = time.monotonic()
            bind(decision, writer)
            decision.binding_seconds = time.monotonic() - began
    except BaseException as error:  # by a rule even SystemExit
        place = writer.place_of(pod)
        if place == "" and isinstance(error, NotFound):  # by a mistake in the path of the Binding, perhaps
            error = Unschedulable(f"{error}, though the pod is there")
        elif place not in (None, "", decision.node):
            warn_of_another(pod, place)
        if place != decision.node:
            writer.answered.put(Answer(WaitsFor.BINDING, decision, error))
            return
    writer.answered.put(Answer(WaitsFor.BINDING, decision))
    message = f"Successfully assigned {pod.key} to {decision.node}"
    recorder.announce(pod, ", though it ".join([message, *decision.unheeded]))
    for rule in decision.policy.rules_with["post_bind"]:
        with warn_if_broken(pod.key):
            call_in_time(rule, "post_bind", pod, decision.node)


def bind(decision, writer):
    """Bind the pod: by a rule, an extender, or else a Binding. Raises ApiError, or what a rule raises."""
    pod = decision.pod
    node_name = decision.node
    bound_by = writer.bound_by(decision)
    if bound_by:
        if writer.place_of(pod) != node_name:
            raise Unschedulable(f"{bound_by} says that the pod is bound to {node_name}, and it is not")
        return
    try:
        answer = patiently(writer.attempt, *request_by(binding, pod, node_name))
    except TooLarge as error:
        raise Unschedulable(f"with its node, the pod is larger than etcd takes: {error}") from error
    if not text_at(answer, "kind"):  # which all has that an API server says
        raise Trouble(0, "its Binding was answered, but by no API server")


def call_in_time(rule, point, *things):
    """Return what a rule says at an extension point. Raises InputError if that takes too long."""
    late = InputError(f"{rule.title or rule.name}: {point} has not returned for {HOOK_SECONDS} s")
    return within(HOOK_SECONDS, call_hook, rule, point, *things, late=late)
