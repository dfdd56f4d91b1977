"""Random histories of preemption, in memory: requests fail, victims terminate slowly, budgets change, another replica takes over.

The victims are compared with kube-scheduler's choice for the same snapshot: see `kube_schedulers_choice`.
"""

import itertools
import os
import random
import time

import pytest

from helpers.extras import new_cluster, node, run_pass, wait_for_writes
from helpers.fake_api import Server
from helpers.preempting import TERMINATING, A, budget, built, configured, incoming, running
from scheduler_extras.api.responses import error_of
from scheduler_extras.common.errors import ApiError
from scheduler_extras.live.writer import Writer
from scheduler_extras.reading.pods_and_nodes import FullPod


LEVELS = [-5, 0, 3, 7, 20]


class Cluster(Server):
    """An API server whose pods terminate slowly, and which fails at random. `wrongs`: the requests that should not have been sent."""

    def __init__(self, chance):
        self.chance, self.faults, self.wrongs, self.numbers = chance, 0.0, [], itertools.count(1)
        self.slow = []  # keys of pods whose deletion is accepted but takes effect later, as with a slow webhook
        self.accepted = set()  # uids of pods whose deletion was confirmed to the leader
        self.unanswered = set()  # uids of pods whose deletion was carried out, but answered with a failure
        self.is_budget_observed = chance.random() < 0.5  # by a controller that counts disruptions
        self.allowed = 1
        nodes = [node(f"n{i}", cpu=str(chance.randint(2, 5))) for i in range(3)]
        super().__init__(*nodes, budget(1))
        for each in nodes:
            for _ in range(int(each["status"]["allocatable"]["cpu"])):
                self.put(running(self.new_name(), each["metadata"]["name"], chance.choice(LEVELS[:4]), start=self.second(),
                                 labels=A if chance.random() < 0.5 else None))

    def new_name(self):
        return f"x{next(self.numbers)}"

    def second(self):
        """The second of a start time. It is unique, so that no two pods have started at the same time."""
        return f"{next(self.numbers):04}"

    def put(self, *objects):
        super().put(*objects)
        for place in [place for place in self.objects if place[0] == "pods" and "resourceVersion" not in self.objects[place]["metadata"]]:
            self.change(place)

    def change(self, place, **parts):
        """Change parts of an object, and its version."""
        thing = self.objects[place]
        version = {"resourceVersion": str(next(self.numbers))}
        self.objects[place] = thing | parts | {"metadata": thing["metadata"] | version | parts.get("metadata", {})}

    def pods(self):
        """The current pods."""
        return [FullPod(thing) for (kind, *_), thing in [*self.objects.items()] if kind == "pods"]

    def free(self):
        """The free cpu of each node, in millicores."""
        free = {name: int(thing["status"]["allocatable"]["cpu"]) * 1000 for name, thing in self.by_name("nodes").items()}
        for pod in self.pods():
            if pod.node_name:
                free[pod.node_name] -= pod.requests["cpu"]
        return free

    def open_nodes(self):
        """The names of the nodes that are not cordoned."""
        return {name for name, thing in self.by_name("nodes").items() if not thing["spec"].get("unschedulable")}

    def request(self, method, path, body=None, params=None, accept=None, check=lambda: None):
        check()
        is_fault = method != "GET" and self.chance.random() < self.faults
        status, is_carried_out = self.chance.choice([(500, True), (500, False), (0, True), (0, False), (403, False), (409, False), (429, False)])
        if is_fault and not is_carried_out:
            raise error_of(status, "injected")
        answer = self.carry_out(method, path, body, params, accept)
        if is_fault:
            if method == "DELETE":
                self.unanswered.add(body["preconditions"]["uid"])
            raise error_of(status, "injected")
        return answer

    def carry_out(self, method, path, body, params, accept):
        """Carry out a request like an API server, and then act like a kubelet."""
        if method == "DELETE":
            return self.delete(path, body)
        place = "pods", *path.split("/")[-4:-1:2]
        if "nominatedNodeName" in (body or {}).get("status", {}) and self.chance.random() < 0.03:
            self.objects.pop(place, None)  # a user deletes it at this moment
            raise error_of(404, "not found")
        if place not in self.objects and path.endswith(("/status", "/binding")):
            raise error_of(404, "not found")
        if place not in self.objects:  # the request is not about a pod
            return super().request(method, path, body, params, accept)
        thing = self.objects[place]
        if path.endswith("/binding") and thing["spec"].get("nodeName"):
            raise error_of(409, "it is bound")
        status = (body or {}).get("status", {})
        if "conditions" in status:
            others = [each for each in thing["status"].get("conditions", []) if each["type"] != status["conditions"][0]["type"]]
            self.change(place, status=thing["status"] | {"conditions": others + status["conditions"]})
        else:
            super().request(method, path, body, params, accept)
            started = {"startTime": f"2020-01-01T00:00:{self.second()}Z"} if path.endswith("/binding") else {}
            self.change(place, status=self.objects[place]["status"] | started)
        return {"kind": "Pod"}

    def delete(self, path, body):
        """Start the termination of a pod."""
        place = "pods", *path.split("/")[-3::2]
        victim = self.objects.get(place)
        if victim is None:
            raise error_of(404, "not found")
        if any(victim["metadata"][name] != value for name, value in body["preconditions"].items()):
            raise error_of(409, "another uid, or version")
        is_known = victim["metadata"]["uid"] not in self.unanswered  # otherwise kube-scheduler may send it again, too
        if is_known and ("deletionTimestamp" in victim["metadata"] or victim["metadata"]["uid"] in self.accepted):
            self.wrongs.append(f"{place[2]} is deleted twice")
        if not any(pod.nominated_node == victim["spec"]["nodeName"] and pod.priority > victim["spec"]["priority"]
                   for pod in self.pods() if not (pod.node_name or pod.terminating)):
            self.wrongs.append(f"{place[2]} is deleted without a preemptor")
        if self.chance.random() < 0.2:
            self.slow.append(place)
        else:
            self.change(place, metadata=TERMINATING)
        return {"kind": "Pod"}

    def apply_deletions(self):
        """Let slow deletions take effect, and let the budget's controller, if there is one, count the disruptions."""
        for place in self.slow:
            if place in self.objects:
                self.change(place, metadata=TERMINATING)
        self.slow = []
        going = sum(pod.terminating and pod.labels.get("app") == "a" for pod in self.pods())
        observed = {"observedGeneration": 1} if self.is_budget_observed else {}
        left = max(self.allowed - going, 0) if observed else self.allowed
        self.objects["poddisruptionbudgets", "default", "budget"] = budget(left, **observed)

    def go_on(self):
        """Let time pass: victims terminate and are replaced, pods are created and deleted, budgets change, nodes are cordoned."""
        if self.chance.random() < 0.7:
            self.apply_deletions()
        for pod in self.pods():
            if pod.terminating and self.chance.random() < 0.4:
                del self.objects["pods", pod.namespace, pod.name]
                if self.chance.random() < 0.5:  # it has a controller
                    self.put(incoming("1", pod.priority, name=self.new_name(), labels=dict(pod.labels)))
            elif pod.node_name and self.chance.random() < 0.03:
                self.change(("pods", pod.namespace, pod.name), metadata=TERMINATING)
        if self.chance.random() < 0.5:
            policy = {"preemptionPolicy": "Never"} if self.chance.random() < 0.1 else {}
            self.put(incoming(str(self.chance.randint(1, 4)), self.chance.choice(LEVELS), name=self.new_name(),
                              labels=A if self.chance.random() < 0.5 else None, **policy))
        if self.chance.random() < 0.2:
            self.allowed = self.chance.randint(0, 2)
        if self.chance.random() < 0.1:
            self.cordon(self.chance.choice([*self.by_name("nodes")]), self.chance.random() < 0.5)

    def cordon(self, name, is_cordoned):
        """Cordon or uncordon a node."""
        self.change(("nodes", None, name), spec={"unschedulable": is_cordoned})


class Replica:
    """The API server for a replica that leads until it has sent this many deletions."""

    def __init__(self, server, deletions):
        self.server_itself, self.deletions_left = server, deletions

    def __getattr__(self, name):
        return getattr(self.server_itself, name)

    def kind_of_writer(self, _):
        """A Writer that finds out the result of a write whose answer was lost, as on a live cluster."""
        writer = Writer(self)
        writer.may_write = self.leads
        return writer

    def leads(self):
        return self.deletions_left > 0

    def request(self, method, path, *more, check=lambda: None, **options):
        check()  # before this deletion counts
        if method == "DELETE" and not self.leads():
            self.wrongs.append(f"{path} is deleted by a replica that was deposed")
        self.deletions_left -= method == "DELETE"
        answer = self.server_itself.request(method, path, *more, **options)
        if method == "DELETE":
            self.accepted.add(more[0]["preconditions"]["uid"])
        return answer


def kube_schedulers_choice(pod, snapshot, is_1_36):
    """Return the nodes that kube-scheduler may choose for a preemptor, with the uids of their victims. Derived from its source.

    It is simple, because pods request only cpu, nodes can only be cordoned, and there are too few nodes for sampling.
    Upstream: default_preemption.go.
    """
    if pod.spec.get("preemptionPolicy") == "Never":
        return {}
    nodes = [each for each in snapshot.nodes.values() if not each.unschedulable]
    assumed = set().union(*(each.pods for each in snapshot.nodes.values()))  # an assumed pod is no longer nominated
    nominated = [other for other in snapshot.nominated if other.uid not in assumed]
    for place in nodes:
        is_home = any(other.uid == pod.uid and other.nominated_node == place.name for other in nominated)
        lower = [other for other in place.pods.values() if other.priority < pod.priority]
        if is_home and any(waits_for(other, snapshot, is_1_36) for other in lower):
            return {}
    found = {}
    for place in nodes:
        promised = sum(other.requests["cpu"] for other in nominated
                       if other.nominated_node == place.name and other.uid != pod.uid and other.priority >= pod.priority)
        victims, violations = victims_on(place, pod, promised, snapshot, is_1_36)
        if victims:
            first = max(victims, key=lambda other: other.priority) if is_1_36 else victims[0]
            highest = max(other.priority for other in victims)
            since = min(start_of(other) for other in victims if other.priority == highest)
            found[place.name] = victims, [violations, first.priority, sum(other.priority + 2**31 for other in victims), len(victims), -since]
    # Unlike upstream, if victims on a node could not be deleted, other nodes are tried first.
    found = {name: choice for name, choice in found.items() if name not in pod.record.retry.refused_nodes} or found
    least = min((cost for _, cost in found.values()), default=None)
    return {name: {other.uid for other in victims} for name, (victims, cost) in found.items() if cost == least}


def victims_on(node, pod, promised, snapshot, is_1_36):
    """Return the victims on a node, those that a budget protects first, and the number of protected ones."""
    free = node.allocatable["cpu"] - promised - sum(other.requests["cpu"] for other in node.pods.values() if other.priority >= pod.priority)
    lower = [other for other in node.pods.values() if other.priority < pod.priority]
    if is_1_36:  # of the pods that have not started, the last one comes first
        lower.reverse()
    lower.sort(key=lambda other: (-other.priority, start_of(other)) if is_1_36
               else (-other.priority, start_of(other), other.key))  # the order of equal ones is random in 1.20
    budget_by_now = snapshot.objects["apis/policy/v1/poddisruptionbudgets"]["default/budget"]
    taken = 0
    if budget_by_now["status"].get("observedGeneration"):  # by victims of other pods that the controller has not counted yet
        taken = sum(victim.pod.labels.get("app") == "a" and uid not in {other.uid for other in lower}
                    and (not victim.pod.terminating or victim.budgets == {"default/budget": budget_by_now})
                    for uid, victim in snapshot.victims.items())
    allowed = max(budget_by_now["status"]["disruptionsAllowed"] - taken, 0)
    protected = [other for other in lower if other.labels.get("app") == "a"][allowed:]
    victims = []
    for other in protected + [other for other in lower if other not in protected]:
        if free - other.requests["cpu"] >= pod.requests["cpu"]:
            free -= other.requests["cpu"]
        else:
            victims.append(other)
    return (victims if free >= pod.requests["cpu"] else []), sum(other in protected for other in victims)


def start_of(pod):
    """The start of a pod, as a number. A pod that has not started is the youngest."""
    return int(pod.raw["status"].get("startTime", "9999").removeprefix("2020-01-01T00:00:").removesuffix("Z"))


def waits_for(pod, snapshot, is_1_36):
    """Return whether a nominated pod waits for the termination of this pod: in 1.36 only if it was preempted."""
    if pod.uid in snapshot.victims:
        return True
    return pod.terminating and (not is_1_36 or any(
        condition.get("reason") == "PreemptionByScheduler" for condition in pod.raw["status"].get("conditions", [])))


def compared(policies, server, is_1_36):
    """Compare each choice of a Policy with kube-scheduler's."""
    [policy] = policies.values()
    plain = policy.run_post_filter

    def run_post_filter(decision, snapshot):
        """Record a difference between the choices."""
        choice = kube_schedulers_choice(decision.pod, snapshot, is_1_36) if decision.fits_nowhere else {}
        going = {*snapshot.victims} | {pod.uid for node in snapshot.nodes.values() for pod in node.pods.values() if pod.terminating}
        plain(decision, snapshot)
        uids = {body["preconditions"]["uid"] for method, _, body in decision.requests if method == "DELETE"}
        on = [body["status"]["nominatedNodeName"] for _, path, body in decision.requests
              if path.endswith(f"/{decision.pod.name}/status") and decision.remedy.startswith("It preempts ")]
        expected = [([name], gone - going) for name, gone in choice.items()] or [([], set())]
        if (on, uids) not in expected:
            server.wrongs.append(f"{decision.pod.name}: {(on, uids)}, not {expected}")

    policy.run_post_filter = run_post_filter
    return policies


def settle(cluster, server, policies):
    """Run passes until nothing changes any more."""
    for _ in range(30):
        run_pass(cluster, policies)
        wait_for_writes(cluster)
        cluster.results.handle(5)
        server.apply_deletions()
        for pod in server.pods():
            if pod.terminating:
                del server.objects["pods", pod.namespace, pod.name]
        cluster.queue.end_backoff()


def history(seed, is_1_36):
    """Run a random history; return the API server in its final state."""
    chance = random.Random(seed)
    server = Cluster(chance)
    policies = compared((configured if is_1_36 else built)(), server, is_1_36)
    replica, cluster = None, None
    server.faults = chance.choice([0.0, 0.1, 0.3])
    for _ in range(12):
        server.go_on()
        if not (replica and replica.leads()):  # another one takes over, with an empty cache
            replica = Replica(server, chance.choice([1, 2, 3, 5, 8, 13]))
            server.accepted.clear()
            cluster = new_cluster(replica)
        try:
            run_pass(cluster, policies)
        except ApiError as error:
            cluster.errors.end_pass(error)
        cluster.results.finish(60)  # otherwise two replicas would bind at the same time
        wait_for_writes(cluster)
        cluster.queue.end_backoff()
    server.faults = 0.0
    server.apply_deletions()
    server.accepted.clear()
    for name in server.by_name("nodes"):
        server.cordon(name, False)
    settle(new_cluster(Replica(server, 10**9)), server, policies)
    return server


@pytest.mark.parametrize("is_1_36", [False, True], ids=["1.20", "1.36"])
@pytest.mark.parametrize("tens", range(int(os.environ.get("EXAMPLES", 20)) // 10))
def test_ten_random_histories(tens, is_1_36, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    for seed in range(10 * tens, 10 * tens + 10):
        server = history(seed, is_1_36)
        assert server.wrongs == [], seed
        assert min(server.free().values()) >= 0, (seed, "overcommitted")
        pods = server.pods()
        for pod in pods:
            is_kept_away = not is_1_36 and any(  # in 1.20, by another pod's useless nomination
                other.nominated_node and not other.node_name and other.priority >= pod.priority for other in pods if other is not pod)
            if not (pod.node_name or is_kept_away or pod.spec.get("preemptionPolicy")):
                room = server.free()
                for other in pods:
                    if other.node_name and other.priority < pod.priority:
                        room[other.node_name] += other.requests["cpu"]
                assert pod.requests["cpu"] > max(room.values()), (seed, "the pod fits, or could preempt", pod.name)
