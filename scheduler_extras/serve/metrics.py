"""The counters and histograms of kube-scheduler, with its names, labels and buckets.

The loop and the connections call an Observations. gauges.py adds the gauges, and answers /metrics.
"""

from __future__ import annotations

import collections
import operator
import random
import threading
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from scheduler_extras.common.observer import Observer
from scheduler_extras.deciding.rule import WHATEVER_THE_NODE, FullRule
from scheduler_extras.live.cluster import LiveCluster
from scheduler_extras.live.pod_record import PodRecord, WaitsFor
from scheduler_extras.live.retry import RetryOn
from scheduler_extras.rules.preemption_requests import count_deletions
from scheduler_extras.serve.prometheus_text import Counter, Histogram, Metric, exponential


# Names, labels and buckets are those of kube-scheduler 1.36. Where 1.20 has another name for a metric, it is
# exported under both, because public dashboards use either. Upstream: pkg/scheduler/metrics, and client-go.

SAMPLED = 0.1  # the share of attempts in which rules are timed, as upstream
BATCH_SIZE = 500  # attempts that are counted together
MAX_ATTEMPTS = 15  # from which on the label `attempts` is 15+
SECONDS = exponential(0.001, 2, 15)
REQUEST_SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]
STEPS = {"predicates": ("Filter", "PreFilter"), "priorities": ("Score", "PreScore")}  # of a rule


class Attempts(NamedTuple):
    """Attempts to schedule pods, as columns: item i of each belongs to attempt i. Times are in seconds."""

    profile: tuple[str, ...]
    result: tuple[str, ...]
    seconds: tuple[float, ...]  # the whole attempt
    filtering: tuple[float, ...]
    scoring: tuple[float, ...]
    binding: tuple[float, ...]
    number: tuple[int, ...]  # how many attempts the pod has had, this one included
    waited: tuple[float, ...]  # since the pod entered the queue


class RecordedMetrics:
    """The metrics that are recorded while the program runs."""

    def __init__(self) -> None:
        self.attempts = Counter(
            "scheduler_schedule_attempts_total", "Attempts to schedule a pod, by their result.",
            "result", "profile")
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds from the start of an attempt to its end, the binding included.", SECONDS,
            "result", "profile")
        self.algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Seconds to choose a node for a pod that was then bound.", SECONDS)
        self.binding_seconds = Histogram(
            "scheduler_binding_duration_seconds", "Seconds from sending a Binding to its answer. (1.20)",
            SECONDS)
        self.point_seconds = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Seconds that all plugins took at an extension point, for all nodes.",
            exponential(0.0001, 2, 12), "extension_point", "status", "profile")
        self.rule_seconds = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Seconds that a plugin took for all nodes, in a tenth of the attempts.",
            exponential(0.00001, 1.5, 20), "plugin", "extension_point", "status")
        self.pod_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from a pod's entering the queue to its binding.", exponential(0.01, 2, 20), "attempts")
        self.pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts", "Attempts that a pod needed until it was bound.",
            exponential(1, 2, 5))
        self.incoming = Counter(
            "scheduler_queue_incoming_pods_total", "Pods that entered a queue, by queue and event.",
            "queue", "event")
        self.preemptions = Counter("scheduler_preemption_attempts_total", "Attempts to preempt pods.")
        self.victims = Histogram(
            "scheduler_preemption_victims", "Victims of a preemption.", exponential(1, 2, 7))
        self.requests = Counter(
            "rest_client_requests_total",
            "Requests to the API server, by status code; <error>: no response.",
            "code", "method", "host")
        self.request_seconds = Histogram(
            "rest_client_request_duration_seconds", "Seconds until the API server's answer begins.",
            REQUEST_SECONDS, "verb", "host")

    def metrics(self) -> list[Metric]:
        """Return all metrics, with those that have another name in 1.20 under both names."""
        metrics: list[Metric] = [each for each in vars(self).values() if isinstance(each, Metric)]
        return [*metrics, self.attempt_seconds.named("scheduler_e2e_scheduling_duration_seconds"),
                self.pod_seconds.named("scheduler_pod_scheduling_duration_seconds")]


class Observations(RecordedMetrics, Observer):
    """Counters and histograms of a cluster's loop and its requests."""

    def __init__(self, cluster: LiveCluster):
        super().__init__()
        self.snapshot = cluster.snapshot
        self.lock = threading.Lock()  # held while a request is counted
        self.counting = threading.Lock()  # held while attempts are counted
        self.ended: collections.deque[tuple] = collections.deque()  # attempts that are not yet counted
        self.timed: collections.deque[tuple] = collections.deque()  # likewise, calls of rules
        self.host = urlsplit(cluster.api.server).netloc
        self.start_sampling()

    def queued(self) -> None:
        """Count a new pod."""
        self.incoming.add("active", "PodAdd")

    def attempted(self, decision: Any, result: str) -> None:
        """Record an attempt and the durations of its steps."""
        record = decision.pod.record
        moment = time.monotonic()
        self.ended.append((
            decision.pod.scheduler, result, moment - decision.began_at,
            decision.filtered_at - decision.began_at, decision.decided_at - decision.filtered_at,
            decision.binding_seconds, record.retry.failures + 1, moment - record.added_at))
        if result != "scheduled":
            self.note_failure(decision, record)
        if len(self.ended) >= BATCH_SIZE:
            self.count_attempts()
        self.start_sampling()

    def count_attempts(self) -> None:
        """Count the recorded attempts together, which is several times faster than one by one."""
        with self.counting:
            ended = [self.ended.popleft() for _ in range(len(self.ended))]
            for profile, result in {attempt[:2] for attempt in ended}:
                those = [attempt for attempt in ended if attempt[:2] == (profile, result)]
                attempts = Attempts(*zip(*those, strict=True))
                self.attempts.add(result, profile, amount=len(attempts.seconds))
                self.attempt_seconds.observe_all(attempts.seconds, result, profile)
                filtering = [each for each in attempts.filtering if each >= 0]  # < 0: a predicate has failed
                self.point_seconds.observe_all(filtering, "Filter", "Success", profile)
                if result == "scheduled":
                    self.count_bindings(profile, attempts)
            self.count_rules()

    def count_bindings(self, profile: str, attempts: Attempts) -> None:
        """Count the attempts of a profile whose pods were bound."""
        self.pod_attempts.observe_all(attempts.number)
        for number in set(attempts.number):
            waited = [each for each, of in zip(attempts.waited, attempts.number, strict=True) if of == number]
            label = str(number) if number < MAX_ATTEMPTS else f"{MAX_ATTEMPTS}+"
            self.pod_seconds.observe_all(waited, label)
        self.algorithm_seconds.observe_all(map(operator.add, attempts.filtering, attempts.scoring))
        self.point_seconds.observe_all(attempts.scoring, "Score", "Success", profile)
        self.binding_seconds.observe_all(attempts.binding)
        self.point_seconds.observe_all(attempts.binding, "Bind", "Success", profile)

    def note_failure(self, decision: Any, record: PodRecord) -> None:
        """Count a failed attempt: the pod's queue, the plugins that rejected it, and its victims."""
        self.incoming.add(queue_of(record), "ScheduleAttemptFailure")
        record.retry.rejected_by = plugins_against(decision)
        has_preemption = any(rule.plugin == "DefaultPreemption"
                             for rule in decision.policy.rules_with["post_filter"])
        if decision.failed and decision.fits_nowhere and has_preemption:
            self.preemptions.add()
            victims = count_deletions(decision.requests)
            if victims:
                self.victims.observe(victims)

    def start_sampling(self) -> None:
        """Decide at random whether rules are timed in the next attempt."""
        is_sampled = random.random() < SAMPLED
        self.snapshot.time_rule = self.time_rule if is_sampled else None

    def time_rule(self, rule: FullRule, is_metadata: bool, seconds: float) -> None:
        """Record how long a rule took for all nodes."""
        self.timed.append((rule, is_metadata, seconds))

    def count_rules(self) -> None:
        """Count the recorded calls of rules."""
        took = collections.defaultdict(list)
        for rule, is_metadata, seconds in [self.timed.popleft() for _ in range(len(self.timed))]:
            took[rule, is_metadata].append(seconds)
        for (rule, is_metadata), each in took.items():
            step = STEPS[rule.where][is_metadata]
            self.rule_seconds.observe_all(each, rule.plugin or rule.name, step, "Success")

    def request_ended(self, method: str, code: str, seconds: float) -> None:
        """Count a request, and the seconds until its response began."""
        with self.lock:  # many threads send requests
            self.requests.add(code, method, self.host)
            self.request_seconds.observe(seconds, method, self.host)

    def metrics(self) -> list[Metric]:
        """Count the attempts that have ended, and return all metrics."""
        self.count_attempts()
        return super().metrics()


def queue_of(record: PodRecord) -> str:
    """Return the name of the queue in which kube-scheduler would have a pending pod."""
    is_due = record.retry.is_due()
    if record.waits_for is WaitsFor.POST_FILTER or (record.retry.trigger is RetryOn.CHANGE and not is_due):
        return "unschedulable"
    return "active" if is_due else "backoff"


def plugins_against(decision: Any) -> frozenset[str]:
    """Return the plugins that have refused a node to a pod that fits none."""
    plugins = {rule.title: rule.plugin or rule.name for rule in decision.policy.rules()}
    titles = [title.removesuffix(WHATEVER_THE_NODE) for title in decision.failed.titles]
    return frozenset(plugins.get(title, title) for title in titles) if decision.fits_nowhere else frozenset()
