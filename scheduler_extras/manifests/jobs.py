"""The pods of a Job. Upstream: pkg/controller/job.

The progress of a Job is read from its status, because pods that have finished may be gone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from scheduler_extras.manifests.workload import Workload, active, number_in
from scheduler_extras.reading.fields import pick, text_at


INDEX = "batch.kubernetes.io/job-completion-index"  # a label and an annotation of pods of Indexed Jobs
ENDS = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")  # conditions that end a Job


def pods_of_job(workload: Workload) -> Iterator[tuple[str, dict, dict]]:
    """Yield the pods that the Job starts now. Those of an Indexed Job have a completion index."""
    labels = {"job-name": workload.name, "controller-uid": workload.reference["uid"]}
    labels |= {f"batch.kubernetes.io/{key}": value for key, value in labels.items()}
    existing = active(workload.pods) + awaited_terminations(workload)
    succeeded = [pod for pod in workload.pods if text_at(pod, "status", "phase") == "Succeeded"]
    if text_at(workload.spec, "completionMode") != "Indexed":
        uncounted = pick(workload.status, list, "uncountedTerminatedPods", "succeeded")
        count = max(len(succeeded), pick(workload.status, int, "succeeded") + len(uncounted))
        missing = wanted_active(workload, count) - len(existing)
        yield from itertools.repeat((f"{workload.name}-", labels, {}), max(missing, 0))
        return
    done = numbers_in(text_at(workload.status, "completedIndexes")) | {*map(index_of, succeeded)}
    failed = numbers_in(text_at(workload.status, "failedIndexes"))
    taken = done | failed | {*map(index_of, existing)}
    numbers = range(pick(workload.spec, int, "completions"))
    missing = max(wanted_active(workload, len(done)) - len(existing), 0)
    for number in itertools.islice((each for each in numbers if each not in taken), missing):
        yield f"{workload.name}-{number}-", labels | {INDEX: str(number)}, {}


def awaited_terminations(job: Workload) -> list[dict]:
    """Return the terminating pods that are replaced only once they have ended. (podReplacementPolicy)"""
    waits = text_at(job.spec, "podReplacementPolicy") == "Failed" or (
        "podFailurePolicy" in job.spec and "podReplacementPolicy" not in job.spec)
    return [pod for pod in job.pods if waits and text_at(pod, "metadata", "deletionTimestamp")
            and text_at(pod, "status", "phase") not in ("Succeeded", "Failed")]


def index_of(pod: dict) -> int:
    """Return the completion index of a pod; -1 if it has none."""
    text = text_at(pod, "metadata", "annotations", INDEX)
    return int(text) if text.isdecimal() else -1


def numbers_in(text: str) -> set[int]:
    """Return the numbers in a text such as "1,3-5,7"."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def wanted_active(job: Workload, succeeded: int) -> int:
    """Return how many pods of a Job should be active after this number has succeeded. (manageJob)"""
    has_ended = any(each.get("type") in ENDS and each.get("status") == "True"
                    for each in pick(job.status, list, "conditions", of=dict))
    is_others = text_at(job.spec, "managedBy") not in ("", "kubernetes.io/job-controller")
    if has_ended or is_others or pick(job.spec, bool, "suspend"):
        return 0
    wanted = number_in(job.spec, "parallelism")
    if job.spec.get("completions") is not None:
        return min(wanted, pick(job.spec, int, "completions") - succeeded)
    return 0 if succeeded else wanted
