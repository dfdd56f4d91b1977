"""The counters and histograms of kube-scheduler, with its names, labels and buckets.

The loop and the connections call an Observations. gauges.py adds the gauges, and answers /metrics.
"""

from __future__ import annotations

import collections
import random
import threading
import time
from operator import sub
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

SAMPLED = 0.02  # the share of attempts in which rules are timed; upstream: 0.1
BATCH_SIZE = 500  # attempts that are counted together
MAX_ATTEMPTS = 15  # from which on the label `attempts` is 15+
SECONDS = exponential(0.001, 2, 15)
REQUEST_SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]
STEPS = {"predicates": ("Filter", "PreFilter"), "priorities": ("Score", "PreScore")}  # of a rule


class Attempts(NamedTuple):
    """Attempts to schedule pods, as columns: item i of each belongs to attempt i.

    Moments are in monotonic seconds.
    """

    added_at: tuple[float, ...]  # when the pod entered the queue
    began_at: tuple[float, ...]
    filtered_at: tuple[float, ...]  # 0: a predicate has failed
    decided_at: tuple[float, ...]
    ended_at: tuple[float, ...]
    binding_seconds: tuple[float, ...]
    failures: tuple[int, ...]  # earlier attempts of the pod


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
            "Seconds that a plugin took for all nodes, in 2 % of the attempts.",
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
        self.new_pods = 0  # since the start
        # Not yet counted: attempts by profile and result, each with the fields of Attempts; calls of rules.
        self.ended: dict[tuple[str, str], collections.deque] = collections.defaultdict(collections.deque)
        self.timed: collections.deque[tuple] = collections.deque()
        self.host = urlsplit(cluster.api.server).netloc

    def queued(self) -> None:
        """Count a new pod."""
        self.new_pods += 1

    def attempted(self, decision: Any, result: str) -> None:
        """Record an attempt, and decide at random whether rules are timed in the next one.

        This is called for each pod: what can wait is left to `count_attempts`.
        """
        record = decision.pod.record
        ended = self.ended[decision.pod.scheduler, result]
        ended.append((record.added_at, decision.began_at, decision.filtered_at, decision.decided_at,
                      time.monotonic(), decision.binding_seconds, record.retry.failures))
        if result != "scheduled":
            self.note_failure(decision, record)
        if len(ended) >= BATCH_SIZE:
            self.count_attempts()
        self.snapshot.time_rule = self.time_rule if random.random() < SAMPLED else None

    def count_attempts(self) -> None:
        """Count the recorded attempts together, which is several times faster than one by one."""
        with self.counting:
            for (profile, result), ended in list(self.ended.items()):
                rows = [ended.popleft() for _ in range(len(ended))]
                if rows:
                    self.count_those(profile, result, Attempts(*zip(*rows, strict=True)))
            self.count_rules()
            if self.new_pods:  # counted since the start, so this sets the number
                self.incoming.numbers["active", "PodAdd"] = self.new_pods

    def count_those(self, profile: str, result: str, attempts: Attempts) -> None:
        """Count attempts of a profile with the same result."""
        self.attempts.add(result, profile, amount=len(attempts.ended_at))
        self.attempt_seconds.observe_all(map(sub, attempts.ended_at, attempts.began_at), result, profile)
        filtering = map(sub, attempts.filtered_at, attempts.began_at)
        successful = [seconds for seconds in filtering if seconds >= 0]
        self.point_seconds.observe_all(successful, "Filter", "Success", profile)
        if result == "scheduled":
            self.count_bindings(profile, attempts)

    def count_bindings(self, profile: str, attempts: Attempts) -> None:
        """Count attempts of a profile whose pods were bound."""
        numbers = [each + 1 for each in attempts.failures]
        self.pod_attempts.observe_all(numbers)
        waited = [*map(sub, attempts.ended_at, attempts.added_at)]
        for number in set(numbers):
            label = str(number) if number < MAX_ATTEMPTS else f"{MAX_ATTEMPTS}+"
            those = [seconds for seconds, of in zip(waited, numbers, strict=True) if of == number]
            self.pod_seconds.observe_all(those, label)
        self.algorithm_seconds.observe_all(map(sub, attempts.decided_at, attempts.began_at))
        scoring = map(sub, attempts.decided_at, attempts.filtered_at)
        self.point_seconds.observe_all(scoring, "Score", "Success", profile)
        binding = sorted(attempts.binding_seconds)
        self.binding_seconds.observe_all(binding)
        self.point_seconds.observe_all(binding, "Bind", "Success", profile)

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
