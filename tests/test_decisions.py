"""scheduler.py makes the decisions of kube-scheduler 1.20.2, as recorded in golden/decisions.jsonl.gz."""

import gzip
import json

import pytest

from helpers.script import TESTS, scheduler


# kube-scheduler ignores a node affinity term with a value that is not a valid label value, or fails the pod. API servers do not
# check these values, and neither does scheduler.py.
INVALID_LABEL_VALUES = {
    ("nodeaffinitypriority-1-002", "prod/pending-4"), ("nodeaffinitypriority-1-002", "prod/pending-5")}


def recorded_cases():
    """Yield the recorded cases whose Policy names only rules that scheduler.py has."""
    with gzip.open(TESTS / "golden" / "decisions.jsonl.gz", "rt") as lines:
        for line in lines:
            recorded = json.loads(line)
            try:
                recorded["policy"] = scheduler.policy_of(recorded["case"]["policy"])
            except ValueError as error:
                assert "scheduler.py has no" in str(error), recorded["case"]["id"]
            else:
                yield recorded["case"]["id"], recorded


CASES = dict(recorded_cases())


def key_of(thing):
    """Return namespace/name of a pod."""
    return f"{thing['metadata'].get('namespace', 'default')}/{thing['metadata']['name']}"


def nodes_of(objects):
    """Return the nodes of a case, with the pods that run on them."""
    nodes = {thing["metadata"]["name"]: scheduler.Node(thing) for thing in objects if thing["kind"] == "Node"}
    for thing in objects:
        node = nodes.get(thing["spec"].get("nodeName")) if thing["kind"] == "Pod" else None
        if node and thing.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            node.add(scheduler.Pod(thing))
    return nodes


def differences(expected, decision):
    """Return the differences between a recorded decision and ours: {part: (recorded, ours)}."""
    if "error" in expected:
        return {} if decision.message == expected["error"] else {"error": (expected["error"], decision.message)}
    recorded_reasons = {name: sorted(each["reasons"]) for name, each in expected["first_failed"].items()}
    reasons = {name: sorted(sum(against.values(), [])) for name, against in decision.failed.items()}
    pairs = {
        "feasible": (sorted(expected["feasible"]), sorted(decision.total)),
        "total": (expected["total"], decision.total),
        "message": (expected.get("message"), decision.message),
        "reasons": (recorded_reasons, reasons),
        "best": (True, decision.node in (expected["best"] or [None]))}
    return {what: pair for what, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("name", CASES)
def test_the_decision_is_kube_schedulers(name):
    case, policy = CASES[name]["case"], CASES[name]["policy"]
    pods = {key_of(thing): thing for thing in case["objects"] if thing["kind"] == "Pod"}
    nodes = nodes_of(case["objects"])
    for expected in CASES[name]["expect"]["pods"]:
        pod = scheduler.Pod(pods[expected["pod"]])
        assert pod.can_be_tried == (not expected.get("skipped")), pod.key
        if pod.can_be_tried:
            different = differences(expected, scheduler.schedule(pod, nodes, policy))
            assert bool(different) == ((name, pod.key) in INVALID_LABEL_VALUES), (pod.key, different)


def test_at_most_one_decision_in_a_hundred_differs():
    decisions = sum(len(recorded["expect"]["pods"]) for recorded in CASES.values())
    assert decisions > 600 and len(INVALID_LABEL_VALUES) <= decisions / 100
