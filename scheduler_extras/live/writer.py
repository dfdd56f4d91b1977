"""What is written, by threads: a Binding is sent here (`bind`), and what rules want sent.

The binding cycle hands decisions to it; a dry run, and manifests, have another Writer.
"""

import functools
import itertools
import queue
import time

from scheduler import binding
from scheduler_extras.api.errors import Conflict, NotFound, TooLarge, backoff, patiently, warn_of_failure
from scheduler_extras.common.blame import request_by, warn_if_broken, what_broke
from scheduler_extras.common.clocks import come_round, start_thread, within
from scheduler_extras.common.errors import ApiError, InputError, Trouble, Unschedulable
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.deciding.extension_points import call_hook
from scheduler_extras.live.events import record
from scheduler_extras.reading.fields import text_at


THREADS = 64  # that write at a time


# Threads write Bindings, and tell people. What rules want sent, the loop has sent, and waits for that. In a
# dry run nothing is written. Nor does a replica write that does not lead (`attempt`), except that it says
# which pods it has bound (`announce`). A request that fails with 5xx is sent up to three times (patiently).


HOOK_SECONDS = 60  # for which a rule's bind may keep a thread, and its post_bind, too


class Writer:
    """Sends requests, in threads of its own."""

    is_live = True  # controllers act on what is written
    patience = 5  # seconds to wait for a free thread

    def __init__(self, api):
        self.api = api
        self.may_write = lambda: True  # whether this replica leads
        self.threads = 0  # that have been started
        self.tasks = queue.Queue()  # what threads are to do: (function, arguments)
        # For the loop: (decision, why its Binding has failed, or None). Before Python 3.11 a SimpleQueue that
        # is to wait for hardly any time may wait for ever.
        self.answered = queue.Queue()

    def bind(self, decision, recorder):
        """Have a thread bind a pod, and let the loop know how that has ended. Raises Trouble."""
        self.start(bind_and_tell, decision, self, recorder)

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
        """Do one task after another, for ever."""
        while True:
            function, arguments = self.tasks.get()
            with warn_if_broken("what was to be written is not"):
                function(*arguments)
            self.tasks.task_done()
            del function, arguments  # while the thread waits, it keeps no decision and no nodes

    def is_busy(self):
        """Say whether all threads have something to do."""
        return self.tasks.unfinished_tasks >= THREADS

    def wait_for_a_free_thread(self):
        """Wait until a thread has nothing to do. Raises ApiError if that takes long."""
        until = time.monotonic() + self.patience
        while self.is_busy():
            if time.monotonic() > until:
                what = f"no answer to {THREADS} writes, or to what rules do after them"
                raise Trouble(0, f"{what}, for {self.patience} s")
            come_round()
            time.sleep(0.002)

    def attempt(self, *request):
        """Send a request once, unless another replica may lead by now. Return its answer."""
        if not self.may_write():
            raise Conflict(409, "this replica does not lead any more")
        return self.api.request(*request)

    def send(self, requests):
        """Send what rules want sent, one after another. Raises what the first raises that fails."""
        _, error = self.send_until_one_fails(requests)
        if error:
            raise error

    def try_to_send(self, requests):
        """Send what rules want sent. Return what is left if a request fails, and whether it should not."""
        left, error = self.send_until_one_fails(requests)
        if not error:
            return [], False
        text = str(error) if isinstance(error, ApiError) else what_broke(error)
        return left, warn_of_failure(error, text)

    def send_until_one_fails(self, requests):
        """Send what rules want sent. Return the first that fails, with those behind it; and its error.

        No pod is tried meanwhile, so it may not take long. Events are left to threads.
        """
        until = time.monotonic() + 10
        for number, request in enumerate(requests):
            try:
                left = until - time.monotonic()
                if left <= 0:
                    raise Trouble(0, "what was sent before it took too long")
                if request[1].endswith("/events"):
                    self.start(record, self, request)
                else:
                    within(left, self.carry_out, *request)
            except Exception as error:  # what a rule wants sent may be anything
                return requests[number:], error
        return [], None

    def carry_out(self, method, path, body):
        """Send a request that a rule wants sent. Raises ApiError."""
        if method == "GET":  # its body says what has to be so
            if not is_so(body, patiently(self.attempt, method, path)):
                raise Conflict(409, f"{path} is not any more what it was")
            return
        try:
            patiently(self.attempt, method, path, body)
        except (Conflict, NotFound):
            has_gone = method == "DELETE" and not is_rehearsal(body) and self.may_write()
            if not has_gone:  # as it was to, maybe by an attempt whose answer was lost
                raise

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

        "": it is on none; None: it has gone, or nobody may ask. As long as the API server does not tell, it
        is asked again, and the pod keeps its room.
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
        self.answered.put((decision, None))

    def start(self, function, *arguments):
        """Leave it."""

    def send_until_one_fails(self, requests):
        """Leave it."""
        return [], None


def is_rehearsal(body):
    """Say whether a request is only to be tried by the API server."""
    return bool(body and body.get("dryRun"))


def is_so(expected, thing):
    """Say whether an object has these fields, with these values; "": it lacks the field."""
    if not isinstance(expected, dict):
        return (thing or "") == expected
    return isinstance(thing, dict) and all(is_so(value, thing.get(key)) for key, value in expected.items())


def bind_and_tell(decision, writer, recorder):
    """Bind the pod, and let the loop know. If it is bound, tell people and rules so."""
    pod = decision.pod
    try:
        with pod.record.writing:  # what says that the pod waits is written before, or not at all
            bind(decision, writer)
    except BaseException as error:  # by a rule even SystemExit
        place = writer.place_of(pod)
        if place == "" and isinstance(error, NotFound):  # by a mistake in the path of the Binding, perhaps
            error = Unschedulable(f"{error}, though the pod is there")
        elif place not in (None, "", decision.node):
            why = f"is on {place}: somebody else bound it; does a second {pod.scheduler} run?"
            warn_once(f"{pod.key} {why}", about="somebody else binds")
        if place != decision.node:
            writer.answered.put((decision, error))
            return
    writer.answered.put((decision, None))
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
