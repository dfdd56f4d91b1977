"""Selectors of the Services and controllers of a pod."""

import collections
import copy
import random

import pytest

from helpers.everywhere import replace
from helpers.extras import new_cluster, node, pod
from helpers.random_objects import HOSTNAME, OWNERS, ZONE, Server, random_owner
from scheduler_extras.common.errors import InvalidSelector
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.label_selectors import label_selector, labels_match
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.selectors import OWNERS as OWNING_RESOURCES
from scheduler_extras.rules.selectors import selector_in, selectors_of


def selectors_one_by_one(waiting, resource, objects):
    """Return the selectors in the pod's namespace that match it, without the cache of `selectors_of`."""
    selectors = []
    for key in sorted(objects):
        if key.startswith(f"{waiting.namespace}/"):
            try:
                selectors.append(label_selector(selector_in(objects[key], resource)))
            except InvalidSelector:
                return []
    return [selector for selector in selectors if labels_match(waiting.labels, selector)]


@pytest.mark.parametrize("seed", range(10))
def test_cached_selectors_follow_the_changes_of_objects(seed):
    """Objects are added, changed and deleted, one by one as in a watch, or all at once as in a list."""
    dice, snapshot = random.Random(seed), FullSnapshot({}, {resource: {} for resource in OWNING_RESOURCES})
    found = collections.Counter()
    for _ in range(200):
        objects = {resource: dict(known) for resource, known in snapshot.objects.items()}
        for _ in range(dice.choice([0, 1, 3])):
            owner = random_owner(dice, namespaces=["n", "m", "nn"], invalid=0.1)
            of_kind = objects[f"{owner['kind'].lower()}s"]
            of_kind[f"{owner['metadata']['namespace']}/{owner['metadata']['name']}"] = owner
            if dice.random() < 0.6:
                del of_kind[dice.choice([*of_kind])]
        if dice.random() < 0.05:
            objects = {resource: copy.deepcopy(dict(sorted(known.items()))) for resource, known in objects.items()}
        snapshot.objects = objects
        labels = {key: dice.choice("xyzab") for key in ("app", "team") if dice.random() < 0.7}
        waiting = FullPod(pod("p", namespace=dice.choice(["n", "m", "nn"]), labels=labels))
        for resource in OWNING_RESOURCES:
            selectors = selectors_of(waiting, snapshot, resource)
            assert selectors == selectors_one_by_one(waiting, resource, objects[resource])
            found[len(selectors)] += 1
    assert found[1] > 50 and found[2]


def test_a_selector_is_read_once_and_only_matched_in_its_namespace(monkeypatch):
    """There are 40 namespaces with a Service, a ReplicaSet and a pod each. One ReplicaSet is scaled."""
    server, read, asked = Server(), [], []
    plain_read, plain_meets = label_selector, labels_match
    replace(monkeypatch, "label_selector", lambda selector: read.append(selector) or plain_read(selector))
    replace(monkeypatch, "labels_match", lambda labels, wanted: asked.append(labels) or plain_meets(labels, wanted))
    of_pods = {"app": "x"}
    for i in range(40):
        server.put(node(f"n{i}", labels={HOSTNAME: f"n{i}", ZONE: "abc"[i % 3]}))
        server.put(pod("there", namespace=f"team-{i}", labels=of_pods, nodeName=f"n{i}"))
        for kind in ("Service", "ReplicaSet"):
            selector = of_pods if kind == "Service" else {"matchLabels": of_pods}
            server.put({"apiVersion": OWNERS[kind], "kind": kind, "metadata": {"name": "x", "namespace": f"team-{i}"},
                        "spec": {"selector": selector}})
    policy = read_policy({"kind": "Policy", "apiVersion": "v1"})
    cluster = new_cluster(server)
    for i in range(40):
        waiting = FullPod(pod(f"p{i}", namespace=f"team-{i}", labels=of_pods))
        asked.clear()
        assert schedule(waiting, cluster.refresh_snapshot({"my-scheduler": policy}), policy).node
        assert len(asked) < 20, "not the pods, nor the selectors, of 40 namespaces"
    assert len(read) == 80
    server.put({**server.all("replicasets")[0], "status": {"replicas": 7}})
    assert schedule(waiting, cluster.refresh_snapshot({"my-scheduler": policy}), policy).node
    assert len(read) == 81
