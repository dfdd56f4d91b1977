"""Copies of live clusters of Kubernetes 1.36.2 (tests/golden/), each with a pod about which kube-scheduler decided there:
volumes by hand and by chance, pods of controllers and Services, pods and nodes of today."""

import gzip
import json
import re
from pathlib import Path

import pytest
from helpers.everything import scheduler
from helpers.extras import cluster_of, pending_pods

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = {f"{name} {number}, {case['group']}: {case['name']}": case for name in ("clusters", "owners")
         for number, case in enumerate(map(json.loads, gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt")), 1)}
CONFIGURATION = {"apiVersion": scheduler.CONFIGURATION_VERSION, "kind": "KubeSchedulerConfiguration",
                 "profiles": [{"schedulerName": "kube"}]}


def parts(message):
    """What a message says, whatever the order of its reasons."""
    return message and sorted(re.split(r"nodes are available: |, |\.$", message))


@pytest.mark.parametrize("name", CASES)
def test_the_pod_goes_where_kube_scheduler_sent_it_or_is_told_the_same(name):
    case = CASES[name]
    policies = scheduler.read_configuration(CONFIGURATION, "my-scheduler")
    cluster = cluster_of(*case["cluster"])
    [pod] = [pod for pod in pending_pods(cluster, policies) if pod.key == case["key"]]
    decision = scheduler.schedule(pod, cluster.look(policies), policies["kube"])
    highest = max(decision.total.values(), default=None)
    best = [node for node, total in decision.total.items() if total == highest]
    assert case["node"] in (best or [None]), (best, decision.message)
    assert parts(decision.message) == parts(case["message"])
