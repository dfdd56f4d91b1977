"""The pods of a Job. Upstream: pkg/controller/job.

What a Job has done is in its status, as pods that have ended may be gone.
"""

import itertools

from scheduler_extras.manifests.workload import active, number_in
from scheduler_extras.reading.fields import pick, text_at


INDEX = "batch.kubernetes.io/job-completion-index"  # of a pod of an Indexed Job: a label, and an annotation
ENDS = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")  # conditions after which none is made


def pods_of_job(workload):
    """Yield the pods that run at first; an Indexed Job's have numbers."""
    labels = {"job-name": workload.name, "controller-uid": workload.reference["uid"]}
    labels |= {f"batch.kubernetes.io/{key}": value for key, value in labels.items()}
    there = active(workload.pods) + kept_places(workload)
    succeeded = [pod for pod in workload.pods if text_at(pod, "status", "phase") == "Succeeded"]
    if text_at(workload.spec, "completionMode") != "Indexed":
        uncounted = pick(workload.status, list, "uncountedTerminatedPods", "succeeded")
        count = max(len(succeeded), pick(workload.status, int, "succeeded") + len(uncounted))
        missing = pods_at_a_time(workload, count) - len(there)
        yield from itertools.repeat((f"{workload.name}-", labels, {}), max(missing, 0))
        return
    done = numbers_in(text_at(workload.status, "completedIndexes")) | {*map(index_of, succeeded)}
    failed = numbers_in(text_at(workload.status, "failedIndexes"))
    taken = done | failed | {*map(index_of, there)}
    numbers = range(pick(workload.spec, int, "completions"))
    missing = max(pods_at_a_time(workload, len(done)) - len(there), 0)
    for number in itertools.islice((each for each in numbers if each not in taken), missing):
        yield f"{workload.name}-{number}-", labels | {INDEX: str(number)}, {}


def kept_places(job):
    """Return the pods that are being deleted, where others are made only once these have ended."""
    waits = text_at(job.spec, "podReplacementPolicy") == "Failed" or (
        "podFailurePolicy" in job.spec and "podReplacementPolicy" not in job.spec)
    return [pod for pod in job.pods if waits and text_at(pod, "metadata", "deletionTimestamp")
            and text_at(pod, "status", "phase") not in ("Succeeded", "Failed")]


def index_of(pod):
    """Return the number of a pod of an Indexed Job; -1 if it has none."""
    text = text_at(pod, "metadata", "annotations", INDEX)
    return int(text) if text.isdecimal() else -1


def numbers_in(text):
    """Return the numbers in a text such as 1,3-5,7."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def pods_at_a_time(job, succeeded):
    """Return how many pods of a Job are to run beside each other, after so many have succeeded."""
    has_ended = any(each.get("type") in ENDS and each.get("status") == "True"
                    for each in pick(job.status, list, "conditions", of=dict))
    is_others = text_at(job.spec, "managedBy") not in ("", "kubernetes.io/job-controller")
    if has_ended or is_others or pick(job.spec, bool, "suspend"):
        return 0
    wanted = number_in(job.spec, "parallelism")
    if job.spec.get("completions") is not None:
        return min(wanted, pick(job.spec, int, "completions") - succeeded)
    return 0 if succeeded else wanted
