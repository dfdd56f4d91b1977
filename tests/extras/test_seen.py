"""What a rule looks at is noted, and a change of it is news."""

import pytest

from helpers.extras import new_cluster, node, pod, table
from helpers.random_objects import Server
from scheduler_extras.deciding.rule import PREDICATES
from scheduler_extras.policy.own_rules import predicate
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod


pytestmark = pytest.mark.usefixtures("seeded")


def late_attribute(kind, monkeypatch):
    """Have pods, or nodes, read an attribute that somebody has added."""
    plain = kind.__init__

    def read_more(thing, raw):
        """Read a field of the status, too."""
        plain(thing, raw)
        thing.mood = raw.get("status", {}).get("mood")

    monkeypatch.setattr(kind, "__init__", read_more)


@table("changes, is_good", {  # what changes on the cluster, JSON of a node or of a pod on it; and what a rule looks at
    "a condition of a node": (
        lambda mood: node("n", status={"conditions": [{"type": "TooHot", "status": mood}]}),
        lambda node: node.raw["status"]["conditions"] == [{"type": "TooHot", "status": "good"}]),
    "what runs on a node": (
        lambda mood: node("n", status={"nodeInfo": {"kernelVersion": mood}}),
        lambda node: node.raw["status"]["nodeInfo"]["kernelVersion"] == "good"),
    "what an attribute of a node reads": (
        lambda mood: node("n", status={"mood": mood}), lambda node: node.mood == "good"),
    "who has to agree before a pod goes": (
        lambda mood: pod("p", nodeName="n", metadata={"finalizers": [mood]}),
        lambda node: any(each.raw["metadata"]["finalizers"] == ["good"] for each in node.pods.values())),
    "a condition of a pod that is not of every pod": (
        lambda mood: pod("p", nodeName="n", status={"conditions": [{"type": "Mood", "status": mood}]}),
        lambda node: any(each.raw["status"]["conditions"][0]["status"] == "good" for each in node.pods.values())),
    "what an attribute of a pod reads": (
        lambda mood: pod("p", nodeName="n", status={"mood": mood}),
        lambda node: any(each.mood == "good" for each in node.pods.values())),
})
def test_whatever_a_rule_looks_at_a_change_of_it_is_news(changes, is_good, monkeypatch):
    """Rules of one's own, and attributes: of none of these fields has anybody said that it is looked at."""
    late_attribute(FullNode, monkeypatch)
    late_attribute(FullPod, monkeypatch)

    @predicate("Good", steady=True)
    def good(pod, node):
        """All is good there."""
        if not is_good(node):
            yield "not good"

    try:
        policies = {"my-scheduler": read_policy(
            {"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Good"}]})}
        server, fits = Server(), []
        server.put(node("n"))
        cluster = new_cluster(server)
        for mood in ("good", "bad", "good"):
            server.put(changes(mood))
            snapshot = cluster.refresh_snapshot(policies)
            fits.append(schedule(FullPod(pod("new")), snapshot, policies["my-scheduler"]).node)
        assert fits == ["n", None, "n"]
    finally:
        PREDICATES.pop("Good", None)
