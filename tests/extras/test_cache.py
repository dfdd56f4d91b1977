"""The cache of the cluster, between passes."""

import difflib

import pytest

from helpers.extras import new_cluster, node, pod, table
from helpers.fake_api import WatchedCluster
from helpers.random_objects import DEFAULTS, ZONE, Server
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.live.cache import similar_name
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.policy.schedule import schedule


pytestmark = pytest.mark.usefixtures("seeded")


def test_a_node_that_has_changed_keeps_its_pods_and_their_requests():
    server = Server()
    server.put(node("n", labels={"zone": "a"}))
    for name in "ab":
        server.put(pod(name, {"cpu": "1"}, nodeName="n"))
    cluster = new_cluster(server)
    before = cluster.refresh_snapshot().nodes["n"]
    server.put(node("n", cpu="8", labels={"zone": "b"}))
    after = cluster.refresh_snapshot().nodes["n"]
    assert after is before and after.labels == {"zone": "b"} and after.allocatable["cpu"] == 8000
    assert sorted(each.name for each in after.pods.values()) == ["a", "b"] and after.requested["cpu"] == 2000


def test_a_retry_uses_the_current_labels_of_namespaces():
    server, policy = Server(), read_policy(DEFAULTS)
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    server.put(node("n", labels={ZONE: "z"}))
    server.put(pod("db", namespace="other", labels={"app": "db"}, nodeName="n"))
    server.put(pod("web", affinity={"podAffinity": {f"required{DURING_SCHEDULING}": [term]}}))
    cluster = new_cluster(server)
    for labels, chosen in (({}, None), ({"team": "a"}, "n")):
        server.put({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "other", "labels": labels}})
        snapshot = cluster.refresh_snapshot({"my-scheduler": policy})
        assert schedule(cluster.cache.pods["default/web"], snapshot, policy).node == chosen


@table("name, compared", {"a misspelled name, once": ("my-schedular", 1), "a name too long for an object, never": ("my-scheduler" * 90_000, 0)})
def test_a_scheduler_name_is_not_compared_again_when_its_pod_changes(name, compared, monkeypatch, caplog):
    plain, asked = difflib.get_close_matches, []
    monkeypatch.setattr(difflib, "get_close_matches", lambda *what, **more: asked.append(what) or plain(*what, **more))
    similar_name.cache_clear()
    cluster = WatchedCluster(monkeypatch, node("n"))
    cluster.make_pass()
    for i in range(20):
        cluster.create(pod("p", schedulerName=name, labels={"i": str(i)}))
        cluster.make_pass()
    assert sum(name in what for what in asked) == compared == len(caplog.messages)
