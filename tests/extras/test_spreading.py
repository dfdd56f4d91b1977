"""Spread constraints: for which nodes the rule runs again."""

from helpers.extras import cluster_of, node, pod
from helpers.random_objects import ZONE
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.spreading import hard_spread


def test_spreading_does_not_run_again_if_another_pod_leaves_room_in_each_domain():
    spread = [{"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}}]
    policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1"})}
    nodes = [node(f"n{i}", labels={ZONE: "abc"[i % 3]}) for i in range(9)]
    found = []
    for there in ([], [pod("there", labels={"a": "b"}, nodeName="n0")]):
        snapshot = cluster_of(*nodes, *there).refresh_snapshot(policies)
        waiting = FullPod(pod("p", labels={"a": "b"}, topologySpreadConstraints=spread))
        found.append(hard_spread(waiting, [*snapshot.nodes.values()], snapshot))
    assert [one == other for one, other in zip(*found, strict=True)] == [True], "the cached answers are still valid"
