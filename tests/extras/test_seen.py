"""A field that a rule reads is recorded, and a change of it has the rule evaluated again."""

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
    """Make pods, or nodes, read an attribute that is added at run time."""
    plain = kind.__init__

    def read_more(thing, raw):
        """Read an extra field of the status, too."""
        plain(thing, raw)
        thing.mood = raw.get("status", {}).get("mood")

    monkeypatch.setattr(kind, "__init__", read_more)


@table("changes, is_good", {  # makes the changed node, or a pod on it; and the check by the rule
    "a condition of a node": (
        lambda mood: node("n", status={"conditions": [{"type": "TooHot", "status": mood}]}),
        lambda node: node.raw["status"]["conditions"] == [{"type": "TooHot", "status": "good"}]),
    "the kernel of a node": (
        lambda mood: node("n", status={"nodeInfo": {"kernelVersion": mood}}),
        lambda node: node.raw["status"]["nodeInfo"]["kernelVersion"] == "good"),
    "an added attribute of a node": (
        lambda mood: node("n", status={"mood": mood}), lambda node: node.mood == "good"),
    "a finalizer of a pod": (
        lambda mood: pod("p", nodeName="n", metadata={"finalizers": [mood]}),
        lambda node: any(each.raw["metadata"]["finalizers"] == ["good"] for each in node.pods.values())),
    "an extra condition of a pod": (
        lambda mood: pod("p", nodeName="n", status={"conditions": [{"type": "Mood", "status": mood}]}),
        lambda node: any(each.raw["status"]["conditions"][0]["status"] == "good" for each in node.pods.values())),
    "an added attribute of a pod": (
        lambda mood: pod("p", nodeName="n", status={"mood": mood}),
        lambda node: any(each.mood == "good" for each in node.pods.values())),
})
def test_a_rule_sees_a_change_of_any_field(changes, is_good, monkeypatch):
    """None of these fields is declared as one that a rule reads."""
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
