"""The journal of a run: decisions, changes of nodes and Policies, the queue, and warnings.

The loop calls its methods. The live page and the page of --output html show it.
"""

from __future__ import annotations

import collections
import contextlib
import json
import logging
import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from scheduler_extras.common.blame import warn_if_broken
from scheduler_extras.common.log_texts import at_most
from scheduler_extras.deciding.answers import AnswerCache
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.live.cluster import LiveCluster
from scheduler_extras.live.pod_record import PodRecord, WaitsFor
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.policy_file import MAX_BYTES as MAX_POLICY_BYTES
from scheduler_extras.reading.json_and_yaml import parse, text_in
from scheduler_extras.show.explain import in_words
from scheduler_extras.show.frames import MAX_DECISIONS, Frames, with_changes
from scheduler_extras.show.page.records import decision_record, node_record, policy_record
from scheduler_extras.show.what_if import WhatIf


# Recording a decision may take longer than the decision itself. The loop spends at most a share of its time
# on it; of decisions beyond that, only the outcome is recorded. While a page is open, an idle loop records
# them all.

UNWATCHED = 0.001, 0.1  # a share of the loop's time; the seconds that may be saved up for a burst of pods
WATCHED = 0.03, 0.1  # the same while a page is open
ALL = math.inf, 0  # no limit
IDLE = 0.5  # seconds without a decision, or between records of changes, after which the loop is idle
MAX_WITH_LABELS = 500  # nodes of a cluster in which their labels are recorded
MAX_WAITING = 200  # pods of the queue that are named


class Budget:
    """A time budget: a share of the time that passes. Unspent time is saved, up to `most` seconds."""

    def __init__(self, share: float, most: float):
        self.share = share
        self.window = most / share  # the seconds in which `most` is saved up
        self.free_at = -math.inf  # when more may be spent, in monotonic seconds

    @contextlib.contextmanager
    def spending(self) -> Iterator[None]:
        """Count the time of this block. If the block raises an exception, log it, and go on."""
        began = time.monotonic()
        with warn_if_broken("the page"):
            yield
        moment = time.monotonic()
        self.free_at = max(self.free_at, moment - self.window) + (moment - began) / self.share


class QueueFrames:
    """Adds frames of the waiting pods."""

    def __init__(self, frames: Frames):
        self.frames = frames
        self.waiting: tuple | None = None  # as in the last frame of the queue
        self.noted_at = 0.0  # in monotonic seconds

    def note(self, cluster: LiveCluster) -> None:
        """Add a frame, unless it would repeat the last one."""
        if len(cluster.queue) > 10 * MAX_WAITING and time.monotonic() < self.noted_at + 1:
            return  # a large queue takes long to read
        self.noted_at = time.monotonic()
        waiting = records_of_waiting(cluster)
        pods = [waiting_pod(record) for record in waiting[:MAX_WAITING]]
        oldest = min((record.added_at for record in waiting), default=0)
        same = len(waiting), oldest, [pod | {"again": round(pod["again"])} for pod in pods]
        if same != self.waiting:
            self.waiting = same
            self.frames.add("queue", {"count": len(waiting), "oldest": on_the_clock(oldest), "pods": pods})


class Journal:
    """Records a run in frames. The loop calls its methods."""

    def __init__(self, path: str, unwatched: tuple[float, float] = UNWATCHED,
                 watched: tuple[float, float] = WATCHED):
        self.path = path  # of the Policy
        self.unwatched, self.watched = Budget(*unwatched), Budget(*watched)
        self.frames = Frames()
        self.queue = QueueFrames(self.frames)
        self.known: dict[str, str] = {}  # name of a node -> its record as JSON, as in the last frame
        self.answers: AnswerCache | None = None  # of the snapshot that the last frames are about
        self.version = 0  # of that AnswerCache, at the last frame
        self.policies: dict[str, FullPolicy] = {}
        # uid of a pod -> its outcome, the number of the frame, the last message (PostFilter may append to it)
        self.last: dict[str, tuple[tuple, int, str | None]] = {}
        self.skipped: collections.deque[tuple] = collections.deque(maxlen=MAX_DECISIONS)  # outcomes only
        self.what_if = WhatIf()
        self.decided_at = self.changes_noted_at = -math.inf  # in monotonic seconds

    def decided(self, cluster: LiveCluster, decision: FullDecision) -> None:
        """Record a decision before it is carried out."""
        moment = time.monotonic()
        time_to_record = None
        if moment >= self.unwatched.free_at or self.frames.readers:  # usually neither: that must be cheap
            time_to_record = self.time_to_record(moment, self.decided_at)
        self.decided_at = moment
        if time_to_record:
            with time_to_record:
                self.record(cluster, decision)
        else:
            self.skipped.append((time.time(), decision.pod.key, decision.node, decision.message))

    def carried_out(self, decision: FullDecision, *remarks: str) -> None:
        """Record the outcome of a decision, if there is more to it than the node."""
        has_more = decision.why_delayed or decision.remedy or decision.requests or remarks
        if decision.node and not has_more:  # as usual: that must be cheap
            return
        outcome, number, message = self.last.get(decision.pod.uid, ((), 0, None))
        if not number or not (has_more or decision.message != message):
            return
        self.last[decision.pod.uid] = outcome, number, decision.message
        self.frames.add("outcome", {
            "of": number, "line": in_words(decision), "waits": decision.why_delayed,
            "remedy": decision.remedy, "victims": victims_of(decision), "notes": remarks,
            "message": decision.message or ""})

    def note_changes(self, cluster: LiveCluster) -> None:
        """Record changes of the cluster between decisions."""
        busy_at = max(self.decided_at, self.changes_noted_at)
        time_to_record = self.time_to_record(time.monotonic(), busy_at)
        if time_to_record:
            with time_to_record:
                self.note_skipped()
                self.update_for(cluster.snapshot)
                self.queue.note(cluster)
            self.changes_noted_at = time.monotonic()

    def note(self, text: str, is_problem: bool = False) -> None:
        """Record a line of the log."""
        self.frames.add("note", {"text": at_most(2000, text), "problem": is_problem})

    def begin_run(self, text: str) -> None:
        """Record that everything is decided again because files have changed."""
        self.frames.add("run", {"text": text})
        self.last.clear()

    def time_to_record(self, moment: float, busy_at: float) -> contextlib.AbstractContextManager | None:
        """Return the context in which to record, or None if there is no time for it.

        moment: now. busy_at: when the loop was last busy. Both are in monotonic seconds.
        """
        budget = self.watched if self.frames.readers else self.unwatched
        if moment >= budget.free_at:
            return budget.spending()
        is_idle = self.frames.readers > 0 and moment >= busy_at + IDLE
        return warn_if_broken("the page") if is_idle else None

    def record(self, cluster: LiveCluster, decision: FullDecision) -> None:
        """Add the frames of a decision, unless it repeats the last one about the pod."""
        pod = decision.pod
        outcome = decision.node, decision.message
        if not decision.node and outcome == self.last.get(pod.uid, ((), 0, None))[0]:
            return
        self.note_skipped()
        self.update_for(cluster.snapshot)
        self.queue.note(cluster)
        self.frames.add("decision", decision_record(decision, self.what_if.without_each(decision)))
        self.last[pod.uid] = outcome, self.frames.number, decision.message
        if len(self.last) > 10 * MAX_DECISIONS:
            del self.last[next(iter(self.last))]

    def note_skipped(self) -> None:
        """Add a frame with the decisions for which there was no time."""
        if self.skipped:
            rows = [[round(at, 3), pod, node, at_most(500, message or "")]
                    for at, pod, node, message in self.skipped]
            self.skipped.clear()
            self.frames.add("skipped", {"rows": rows})

    def update_for(self, snapshot: FullSnapshot) -> None:
        """Add frames for Policies and nodes that have changed."""
        if snapshot.policies != self.policies:
            self.note_policies(snapshot.policies)
        answers = snapshot.answer_cache
        is_another = answers is not self.answers
        names = snapshot.nodes if is_another else answers.changes.since(self.version) & snapshot.nodes.keys()
        self.answers, self.version = answers, answers.changes.version
        nodes = changed_records(snapshot, names, self.known)
        if is_another:
            nodes |= dict.fromkeys(self.known.keys() - snapshot.nodes.keys())
        if nodes:
            self.known = with_changes(self.known, nodes)
            self.frames.add("nodes", {}, nodes)

    def note_policies(self, policies: dict) -> None:
        """Add a frame with the Policies in force. The log says how they differ from the previous ones."""
        self.policies = dict(policies)
        self.what_if = WhatIf()
        self.frames.add("policy", {"path": self.path, **file_record(self.path), **policy_record(policies)})


def changed_records(snapshot: FullSnapshot, names: Iterable[str],
                    known: dict[str, str]) -> dict[str, str | None]:
    """Return {name: its record as JSON} of those nodes whose record differs from the known one."""
    is_small = len(snapshot.nodes) <= MAX_WITH_LABELS
    records = {name: json.dumps(node_record(snapshot.nodes[name], is_small)) for name in names}
    return {name: text for name, text in records.items() if known.get(name) != text}


def file_record(path: str) -> dict:
    """Return the text of a file and the object in it; both empty for a name such as DefaultProvider."""
    with contextlib.suppress(OSError, ValueError):
        if Path(path).is_file():
            text = text_in(path, MAX_POLICY_BYTES)
            return {"text": text, "object": next(parse(text), None)}
    return {"text": "", "object": None}


def victims_of(decision: FullDecision) -> list[str]:
    """Return the namespace/name of the pods that are to be deleted for a pod."""
    paths = [path.split("/")[-3:] for method, path, _ in decision.requests if method == "DELETE"]
    return [f"{namespace}/{name}" for namespace, resource, name in paths if resource == "pods"]


def records_of_waiting(cluster: LiveCluster) -> list[PodRecord]:
    """Return the records of the waiting pods; those that are due come first."""
    due = {pod.uid: pod.record for pod in cluster.pass_queue}
    records = (due | dict(cluster.queue)).values()
    return [record for record in records
            if record.waits_for not in (WaitsFor.BINDING, WaitsFor.CONFIRMATION)]


def waiting_pod(record: PodRecord) -> dict:
    """Return the record of a pod in the queue. Times are in seconds since 1970."""
    return {"pod": record.pod.key, "attempts": record.retry.failures, "for": record.waits_for.value,
            "again": on_the_clock(record.retry.due_at())}


def on_the_clock(moment: float) -> float:
    """Return monotonic seconds as seconds since 1970."""
    return round(moment + time.time() - time.monotonic(), 1)


class LogOfJournal(logging.Handler):
    """Records warnings and errors of the log in a journal."""

    def __init__(self, journal: Journal):
        super().__init__(logging.WARNING)
        self.journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        """Record a line."""
        self.journal.note(record.getMessage(), is_problem=record.levelno >= logging.ERROR)
