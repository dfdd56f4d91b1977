"""The index of the affinity terms of placed pods, while pods come and go."""

import copy
import gc
import itertools
import random
import types

import pytest

from helpers.everywhere import replace
from helpers.extras import cluster_of, new_cluster, node, pending_pods, pod
from helpers.policies import load_policies
from helpers.random_objects import DEFAULTS, HOSTNAME, ZONE, Server
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules import affinity_terms
from scheduler_extras.rules.affinity_terms import TERMS, AffinityTerm, placed_terms, terms_on, with_terms
from scheduler_extras.rules.counting import count_pods


pytestmark = pytest.mark.usefixtures("seeded")
PROVIDER = load_policies("DefaultProvider", "my-scheduler")


def test_affinity_terms_of_deleted_pods_are_not_kept():
    server, policy = Server(), read_policy(DEFAULTS)
    server.put(node("n", labels={ZONE: "z"}))
    snapshot = new_cluster(server).refresh_snapshot({"my-scheduler": policy})
    gc.collect()
    known = len(TERMS)
    for i in range(20):
        term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"job": str(i)}}}
        job = FullPod(pod(f"job-{i}", affinity={"podAntiAffinity": {f"required{DURING_SCHEDULING}": [term]}}))
        snapshot.put(job, snapshot.nodes["n"])
        assert schedule(FullPod(pod("p")), snapshot, policy).node == "n"
        assert len(placed_terms(snapshot).numbers) == 1
        snapshot.take_off(job, snapshot.nodes["n"])
    assert schedule(FullPod(pod("p")), snapshot, policy).node == "n"
    placed = placed_terms(snapshot)
    del job
    gc.collect()
    assert (placed.numbers, placed.index.filed, len(TERMS)) == ({}, {}, known)


def test_an_updated_index_of_terms_equals_a_new_one():
    """The index before the update does not change."""
    chance = random.Random(5)
    nodes = {name: types.SimpleNamespace(name=name, labels={ZONE: name}, pods={}) for name in "abc"}
    number = itertools.count()

    def seeking(labels):
        """Return a pod with anti-affinity to pods with any of these labels."""
        terms = [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {label: "v"}}} for label in labels]
        return FullPod(pod("p", affinity={"podAntiAffinity": {f"required{DURING_SCHEDULING}": terms}}))

    def there():
        return {name: terms_on(each) for name, each in nodes.items()}

    placed, before = with_terms(None, {}, there()), there()
    for _ in range(200):
        for name in chance.sample("abc", chance.randint(1, 3)):
            if nodes[name].pods and chance.random() < 0.5:
                del nodes[name].pods[chance.choice([*nodes[name].pods])]
            else:
                nodes[name].pods[next(number)] = seeking(chance.sample("klmnopq", chance.randint(1, 5)))
        was = copy.deepcopy([*placed.numbers.values()]), {label: {*found} for label, found in placed.index.filed.get("", {}).items()}
        now = there()
        latest, afresh = with_terms(placed, before, now), with_terms(None, {}, now)
        assert (latest.numbers, latest.index.filed) == (afresh.numbers, afresh.index.filed)
        assert was == ([*placed.numbers.values()], placed.index.filed.get("", {}))
        placed, before = latest, now


def test_counts_of_matching_pods_are_cached_even_with_many_kinds_of_pods(monkeypatch):
    """Among pods of 1,100 kinds, each node is counted once, and again only if it changes."""
    server, asked = Server(), []
    apart = {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"x": "y"}}}}]}}}
    for i in range(11):
        server.put(node(f"n{i}", labels={HOSTNAME: f"n{i}"}, pods="200"))
    for i in range(1100):
        server.put(pod(f"p{i}", labels={"kind": str(i)}, nodeName=f"n{i % 11}"))
    policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [
        {"name": "InterPodAffinityPriority", "weight": 1}]})
    snapshot = new_cluster(server).refresh_snapshot({"my-scheduler": policy})
    replace(monkeypatch, "count_pods", lambda node, is_meant: asked.append(node.name) or count_pods(node, is_meant))
    for _ in range(3):
        assert schedule(FullPod(pod("new", **apart)), snapshot, policy).node
    assert len(asked) == 11


def test_terms_of_placed_pods_are_matched_only_against_pods_with_their_labels(monkeypatch):
    """A pod with many terms is indexed once, and not again with each pod that comes to its node."""
    terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": f"v-{i}"}}} for i in range(50)]
    large = pod("large", nodeName="n", affinity={"podAntiAffinity": {f"required{DURING_SCHEDULING}": terms}})
    few = {"podAntiAffinity": {f"required{DURING_SCHEDULING}": terms[:1]}}
    cluster = cluster_of(node("n", labels={"zone": "z"}), node("m", labels={"zone": "y"}), large, *(
        pod(name, labels={"a": "v-7" if name == "x" else "b"}, affinity=few) for name in "pqx"))
    plain, asked = AffinityTerm.selects, []
    needed, filed = affinity_terms.labels_needed, []
    monkeypatch.setattr(AffinityTerm, "selects", lambda *what: asked.append(what) or plain(*what))
    monkeypatch.setattr(affinity_terms, "labels_needed", lambda wanted: filed.append(wanted) or needed(wanted))
    snapshot = cluster.refresh_snapshot(PROVIDER)
    for each in pending_pods(cluster, PROVIDER):
        cluster.attempts.assume(schedule(each, snapshot, PROVIDER["my-scheduler"]))
    placed = {each.name: each.record.decision.node for each in pending_pods(cluster, PROVIDER)}
    assert placed.keys() == {*"pqx"} and placed["x"] == "m"
    assert len(asked) < 40, "only one of the large pod's 50 terms is matched against a pod"
    assert len(filed) < 60, "the large pod's terms once, and one term of each other pod"
