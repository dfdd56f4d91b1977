"""Random histories of preemption, in memory: requests fail, victims end slowly, budgets change, another replica takes over."""

import os
import random
from collections import Counter

import pytest
from everything import scheduler
from conftest import a_pass, node, wait_until_told
from test_loop import Server
from test_preemption import A, GOING, budget, built, configured, incoming, running

LEVELS = [-5, 0, 3, 7, 20]


class Cluster(Server):
    """An API server whose pods end slowly, which fails by chance, and checks each deletion by what is true by then."""

    def __init__(self, chance):
        self.chance, self.faults, self.deletions, self.leads, self.names = chance, 0.0, Counter(), True, 0
        nodes = [node(f"n{i}", cpu=str(chance.randint(2, 4))) for i in range(3)]
        super().__init__(*nodes, budget(1))
        for each in nodes:
            for _ in range(int(each["status"]["allocatable"]["cpu"])):
                self.put(running(self.new_name(), each["metadata"]["name"], chance.choice(LEVELS[:4]), start=chance.randint(10, 59),
                                 labels=A if chance.random() < 0.3 else None))

    def new_name(self):
        self.names += 1
        return f"x{self.names}"

    def pods(self):
        """The pods as they are."""
        return [scheduler.FullPod(thing) for (kind, *_), thing in self.objects.items() if kind == "pods"]

    def free(self):
        """The cpu that is free on each node."""
        free = {name: int(thing["status"]["allocatable"]["cpu"]) * 1000 for name, thing in self.by_name("nodes").items()}
        for pod in self.pods():
            if pod.node_name:
                free[pod.node_name] -= pod.requests["cpu"]
        return free

    def request(self, method, path, body=None, params=None, accept=None):
        is_fault = method != "GET" and self.chance.random() < self.faults
        status, is_carried_out = self.chance.choice([(500, True), (500, False), (0, True), (0, False), (403, False), (409, False), (429, False)])
        if is_fault and not is_carried_out:
            raise scheduler.error_of(status, "injected")
        if method == "DELETE":
            answer = self.delete(path, body)
        else:
            answer = super().request(method, path, body, params, accept)
        if is_fault:
            raise scheduler.error_of(status, "injected")
        return answer

    def delete(self, path, body):
        """Have a pod leave, if that is right."""
        place = "pods", *path.split("/")[-3::2]
        victim = self.objects.get(place)
        if victim is None:
            raise scheduler.error_of(404, "not found")
        if victim["metadata"]["uid"] != body["preconditions"]["uid"]:
            raise scheduler.error_of(409, "another uid")
        if not body.get("dryRun"):
            pod = scheduler.FullPod(victim)
            assert self.leads, "by a replica that was deposed"
            assert any(other.priority > pod.priority and self.fits_nowhere(other) for other in self.pods() if not other.node_name), (
                "a pod that nobody needs to go")
            self.deletions[pod.uid] += not pod.terminating
            self.objects[place] = victim | {"metadata": victim["metadata"] | GOING}
        return {"kind": "Pod"}

    def fits_nowhere(self, pod):
        """Whether no node has room for a pod, by what is true."""
        return pod.requests["cpu"] > max(self.free().values())

    def go_on(self):
        """Have time pass: some who leave have left, pods come, budgets change."""
        for pod in self.pods():
            if pod.terminating and self.chance.random() < 0.4:
                del self.objects["pods", pod.namespace, pod.name]
        if self.chance.random() < 0.5:
            self.put(incoming(str(self.chance.randint(1, 2)), self.chance.choice(LEVELS), name=self.new_name()))
        if self.chance.random() < 0.2:
            self.objects["poddisruptionbudgets", "default", "budget"] = budget(self.chance.randint(0, 2))


def settle(cluster, server, policies):
    """Make passes until nothing changes any more."""
    for _ in range(30):
        a_pass(cluster, policies())
        wait_until_told(cluster)
        cluster.cycle.take_answers(5)
        for pod in server.pods():
            if pod.terminating:
                del server.objects["pods", pod.namespace, pod.name]
        cluster.pending.end_backoff()


@pytest.mark.parametrize("policies", [built, configured], ids=["1.20", "1.36"])
@pytest.mark.parametrize("tens", range(int(os.environ.get("EXAMPLES", 40)) // 10))
def test_of_ten_histories_each_ends_well(tens, policies, monkeypatch):
    monkeypatch.setattr(scheduler.time, "sleep", lambda seconds: None)
    for seed in range(10 * tens, 10 * tens + 10):
        chance = random.Random(seed)
        server = Cluster(chance)
        cluster = scheduler.ListedCluster(server)
        server.faults = chance.choice([0.0, 0.1, 0.3])
        for _ in range(12):
            server.go_on()
            cluster.cycle.finish(60)  # or else two would bind at a time
            if chance.random() < 0.1:  # another replica takes over
                cluster = scheduler.ListedCluster(server)
            try:
                a_pass(cluster, policies())
            except scheduler.ApiError as error:
                cluster.end_pass(error)
            wait_until_told(cluster)
            cluster.pending.end_backoff()
        server.faults = 0.0
        settle(cluster, server, policies)
        assert max(server.deletions.values(), default=1) == 1, (seed, "twice")
        assert min(server.free().values()) >= 0, (seed, "overcommitted")
        pods = server.pods()
        for pod in pods:
            is_kept_away = policies is built and any(  # in 1.20 by a nomination that is of no use
                other.nominated_node and not other.node_name and other.priority >= pod.priority for other in pods if other is not pod)
            if not (pod.node_name or is_kept_away):
                assert server.fits_nowhere(pod), (seed, "forgotten")
                others = [other for other in pods if other.node_name and other.priority < pod.priority]
                room = server.free()
                for other in others:
                    room[other.node_name] += other.requests["cpu"]
                assert pod.requests["cpu"] > max(room.values()), (seed, "it could have made room", pod.name)
