"""Preemption scenarios to their end, compared with a real kube-scheduler 1.20 and with recorded ones.

They have budgets, priority classes, pods that terminate slowly, and nominations. In the live scenarios, extenders only reject
nodes without possible victims: kube-scheduler 1.20.2 panics (index out of range in pickOneNodeForPreemption) if an extender
rejects a node where the pod fits and where pods of lower priority run. It also does not call extenders during preemption.
Scenarios with these were recorded from a kube-scheduler 1.20.2 in which both bugs are fixed: see tests/README.md.
"""

import gzip
import json
import os
import random
import time
from pathlib import Path

import pytest

from helpers.control_plane import wait_for
from helpers.extras import new_cluster, node, pod, run_pass, wait_for_writes
from helpers.fake_api import Server
from helpers.preempting import BUDGETS, POLICY, PORT, TERMINATING, anti_affinity, budget, built, configured
from scheduler_extras.api.client import ApiClient


SCENARIOS = int(os.environ.get("SCENARIOS", 6))  # this many run at the same time, each on its own nodes
WITHOUT = POLICY | {
    "predicates": [entry for entry in POLICY["predicates"] if entry["name"] != "Preemption"],
    "priorities": [{"name": "NodeAffinityPriority", "weight": 1}]}


class Scenario:
    """Up to four full nodes with pods, some of them terminating, budgets, and up to four preemptors."""

    def __init__(self, seed):
        self.chance, self.seed, self.mine = random.Random(seed), seed, {"scenario": str(seed)}
        self.nodes, self.pods, self.leaving, self.nominated = [], [], [], {}
        for i in range(self.chance.randint(2, 4)):
            self.add_node(f"n{seed}-{i}", self.chance.randint(2, 5))
        seconds = self.chance.sample(range(10, 60), len(self.pods))
        self.starts = {thing["metadata"]["name"]: start for thing, start in zip(self.pods, seconds)}
        self.budgets = [budget(self.chance.randint(0, 2), {"matchLabels": self.mine | {"app": app}}, name=f"b{seed}-{app}")
                        for app in self.chance.sample("abc", self.chance.randint(1, 3))]
        levels = self.chance.sample(["middle", "p10", "p30", "p50", "never"], self.chance.randint(2, 4))
        self.waiting = [self.waiting_pod(f"p{seed}-{level}", level) for level in levels]

    def add_node(self, name, room):
        """Add a node, and pods that fill it."""
        self.nodes.append(node(name, cpu=str(room), labels=self.mine | {"kubernetes.io/hostname": name},
                               unschedulable=self.chance.random() < 0.1))
        while room:
            levels = ["abyss", "low", "low", "middle", "middle", "high", "p10", "p30"]
            thing = self.pod(f"{name}-{room}", self.chance.choice(levels), room, nodeName=name)
            if self.chance.random() < 0.1:
                self.leaving.append(thing["metadata"]["name"])
            room -= int(thing["spec"]["containers"][0]["resources"]["requests"]["cpu"])
            self.pods.append(thing)

    def waiting_pod(self, name, level):
        """A preemptor, which may be nominated already. It prefers each node with another weight."""
        prefers = [{"weight": 10 * i + 1, "preference": {"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [thing["metadata"]["name"]]}]}} for i, thing in enumerate(self.nodes)]
        if self.chance.random() < 0.25:
            self.nominated[name] = self.chance.choice(self.nodes)["metadata"]["name"]
        thing = self.pod(name, level, nodeSelector=self.mine)
        thing["spec"].setdefault("affinity", {})["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": prefers}
        return thing

    def pod(self, name, level, most=3, **spec):
        """A pod that may have an app label, a host port, or anti-affinity to an app."""
        app = self.chance.choice(["a", "b", "c", ""])
        if self.chance.random() < 0.2:
            spec["affinity"] = anti_affinity(self.chance.choice("abc"), **self.mine)
        thing = pod(name, {"cpu": str(min(most, self.chance.randint(1, 3)))}, labels=self.mine | ({"app": app} if app else {}),
                    priorityClassName=level, **spec)
        if self.chance.random() < 0.1:
            thing["spec"]["containers"][0]["ports"] = PORT[0]["ports"]
        return thing

    def set_up(self, api):
        """Create all objects."""
        pods = "/api/v1/namespaces/default/pods"
        for thing in [*self.nodes, *self.pods, *self.waiting]:
            api.request("POST", pods if thing["kind"] == "Pod" else "/api/v1/nodes", thing)
        for name, start in self.starts.items():
            api.request("PATCH", f"{pods}/{name}/status", {"status": {"phase": "Running", "startTime": f"2020-01-01T00:00:{start}Z"}})
        for name, node_name in self.nominated.items():
            api.request("PATCH", f"{pods}/{name}/status", {"status": {"nominatedNodeName": node_name}})
        for each in self.budgets:
            api.request("POST", BUDGETS, {"apiVersion": "policy/v1beta1"} | each)
            api.request("PATCH", f"{BUDGETS}/{each['metadata']['name']}/status", {"status": each["status"]})
        for name in self.leaving:
            api.request("DELETE", f"{pods}/{name}")


def state_of(control_plane):
    """Return {pod: (its node, its nominated node, whether it is terminating)}."""
    return {thing["metadata"]["name"]: (
        thing["spec"].get("nodeName", ""), thing["status"].get("nominatedNodeName", "") if "nodeName" not in thing["spec"] else "",
        "deletionTimestamp" in thing["metadata"]) for thing in control_plane.pods().values()}


def settled(control_plane, seconds):
    """Return the state once nothing has changed for this many seconds."""
    state, since = state_of(control_plane), time.monotonic()
    while time.monotonic() < since + seconds:
        time.sleep(0.2)
        now = state_of(control_plane)
        if now != state:
            state, since = now, time.monotonic()
    return state


def contest(control_plane, scenarios, start):
    """Set up the scenarios, and let them be scheduled; twice, the terminating pods are deleted and scheduling goes on.

    The scheduler does not run during deletions, so that the result does not depend on their order.
    """
    control_plane.clear()
    api = ApiClient(control_plane.server)
    api.request("DELETE", BUDGETS)
    for scenario in scenarios:
        scenario.set_up(api)
    states = []
    for _ in range(3):
        for name, (_, _, is_leaving) in states[-1].items() if states else ():
            if is_leaving:
                control_plane.request("DELETE", f"namespaces/default/pods/{name}", params={"gracePeriodSeconds": 0})
        process = start()
        control_plane.create(pod("last", priorityClassName="abyss", nodeSelector={"is": "nowhere"}))
        wait_for("all pods are decided", lambda: control_plane.get("namespaces/default/pods/last")["status"].get("conditions"), 240)
        control_plane.request("DELETE", "namespaces/default/pods/last")
        states.append(settled(control_plane, 1.5))
        process.kill()
        process.wait()
    return states


def by_scenario(state):
    """Split a state by scenario."""
    cut = {}
    for name, where in sorted(state.items()):
        cut.setdefault(int(name[1:].partition("-")[0]), {})[name] = where
    return cut


def run_both(contested, tmp_path, start_scheduler, scenarios, extenders=()):
    """Return the states of scenarios with this program and with kube-scheduler."""
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(WITHOUT | {"extenders": [*extenders]}))
    answer = contest(contested, scenarios, lambda: start_scheduler(
        "--server", contested.server, "--policy", file, "--preempt", "--interval=0.2"))
    expected = contest(contested, scenarios, lambda: contested.start(
        "kube-scheduler", f"--kubeconfig={contested.kubeconfig()}", "--leader-elect=false", "--port=0", "--secure-port=0",
        "--scheduler-name=my-scheduler", "--kube-api-qps=5000", "--kube-api-burst=5000", f"--policy-config-file={file}"))
    return answer, expected


def differences(answer, expected):
    """Return the scenarios with different states."""
    both = [(by_scenario(state), by_scenario(theirs)) for state, theirs in zip(answer, expected, strict=True)]
    return [{seed: (state[seed], theirs[seed]) for seed in theirs if state[seed] != theirs[seed]} for state, theirs in both]


def test_scenarios_end_as_with_kube_scheduler(contested, tmp_path, start_scheduler):
    answer, expected = run_both(contested, tmp_path, start_scheduler, [*map(Scenario, range(100, 100 + SCENARIOS))])
    victims, nominations = (sum(bool(where[part]) for where in expected[0].values()) for part in (2, 1))
    assert victims > SCENARIOS and nominations > SCENARIOS and any(where[2] for where in expected[1].values())
    assert differences(answer, expected) == [{}, {}, {}]


class ScenarioWithSpareNode(Scenario):
    """A scenario with an additional node that has room, but that the extender rejects."""

    def __init__(self, seed):
        super().__init__(seed)
        name = f"n{seed}-spare"
        self.nodes.append(node(name, cpu="9", labels=self.mine | {"kubernetes.io/hostname": name}))


def extenders_of(service, keeps=lambda name: True):
    """Let a service reject spare nodes and keep some candidates. Return its entry, and that of an ignorable extender, which fails."""
    def what_is_left(field, is_left):
        given = service.asked[-1][1][field]
        return {name: given[name] for name in given if is_left(name)} if isinstance(given, dict) else [*filter(is_left, given)]

    service.answers |= {
        "filter": lambda: (200, {"NodeNames": what_is_left("NodeNames", lambda name: not name.endswith("-spare"))}),
        "preempt": lambda: (200, {"NodeNameToMetaVictims": what_is_left("NodeNameToMetaVictims", keeps)}),
        "fail": (500, "")}
    return [{"urlPrefix": service.url, "filterVerb": "filter", "preemptVerb": "preempt", "nodeCacheCapable": True},
            {"urlPrefix": service.url, "filterVerb": "fail", "preemptVerb": "fail", "ignorable": True}]


def test_scenarios_with_extenders_end_as_with_kube_scheduler(contested, tmp_path, start_scheduler, service):
    scenarios = [*map(ScenarioWithSpareNode, range(200, 200 + SCENARIOS // 2))]
    answer, expected = run_both(contested, tmp_path, start_scheduler, scenarios, extenders_of(service))
    assert sum(where[2] for where in expected[0].values()) > SCENARIOS // 2
    assert {verb for verb, _ in service.asked} == {"filter", "preempt", "fail"}
    assert not any(where[0].endswith("-spare") for state in expected for where in state.values())
    assert differences(answer, expected) == [{}, {}, {}]


class SlowServer(Server):
    """An API server in memory whose pods stay terminating."""

    def request(self, method, path, body=None, params=None, accept=None, check=None):
        if method == "DELETE":
            place = "pods", *path.split("/")[-3::2]
            self.objects[place] = self.objects[place] | {"metadata": self.objects[place]["metadata"] | TERMINATING}
        return {"kind": "Pod"} if method == "DELETE" else super().request(method, path, body, params, accept)

    def state(self):
        """Return the same as `state_of`."""
        return {name: [thing["spec"].get("nodeName", ""),
                       (thing["status"].get("nominatedNodeName") or "") if "nodeName" not in thing["spec"] else "",
                       "deletionTimestamp" in thing["metadata"]]
                for (kind, _, name), thing in self.objects.items() if kind == "pods"}


def replay(record, policies):
    """Schedule a recorded scenario in memory, as in a contest; return the states."""
    server, states = SlowServer(*record["objects"]), []
    for _ in record["states"]:
        for name, (_, _, is_leaving) in states[-1].items() if states else ():
            if is_leaving:
                del server.objects["pods", "default", name]
        cluster, before = new_cluster(server), []
        while before[-2:] != [server.state()] * 2:
            before.append(server.state())
            run_pass(cluster, policies)
            cluster.results.handle(60)
            wait_for_writes(cluster)
            cluster.queue.end_backoff()
        states.append(server.state())
    return states


RECORDS = {f"{record['family']} {record['scenario']}": record for record in map(json.loads, gzip.open(
    Path(__file__).parents[1] / "golden" / "preemption.jsonl.gz", "rt"))}


@pytest.mark.parametrize("name", RECORDS)
def test_recorded_scenarios_end_as_with_kube_scheduler(name, request):
    record = RECORDS[name]
    refused = record["refused"]  # suffixes of nodes that an extender rejects during preemption; None: no extenders
    extenders = [] if refused is None else extenders_of(
        request.getfixturevalue("service"), lambda node_name: not node_name.endswith(tuple(refused)))
    states = replay(record, built(POLICY | {"priorities": WITHOUT["priorities"], "extenders": extenders}))
    assert states == record["states"]


# Scenarios with stages: pods are created, a status changes, terminating pods are deleted. The scheduler is restarted at each
# stage. They were recorded from kube-scheduler 1.20.2 and 1.36.2.
PRIORITIES = {"abyss": -2**31, "minus7": -7, "minus1": -1, "zero": 0, "one": 1, "ten": 10, "also-ten": 10, "never-ten": 10, "hundred": 100,
              "thousand": 1000, "never-thousand": 1000, "million": 10**6, "top": 10**9,
              "system-cluster-critical": 2 * 10**9, "system-node-critical": 2 * 10**9 + 1000}
STAGES = {f"{record['version']} {record['scenario']['seed']}": record for record in map(json.loads, gzip.open(
    Path(__file__).parents[1] / "golden" / "preemption-stages.jsonl.gz", "rt"))}


class StagedServer(SlowServer):
    """An API server in memory for scenarios with stages."""

    def request(self, method, path, body=None, params=None, accept=None, check=None):
        answer = super().request(method, path, body, params, accept)
        conditions = (body or {}).get("status", {}).get("conditions")
        if method == "PATCH" and conditions:
            self.change([["pods", *path.split("/")[-4:-1:2], {"conditions": conditions}]])
        return answer

    def create(self, things):
        """Create objects, as an API server with these priority classes does."""
        for thing in things:
            name = thing.get("spec", {}).get("priorityClassName")
            if thing["kind"] == "Pod":
                thing["metadata"]["uid"] = f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"
                thing["spec"]["priority"] = PRIORITIES[name] if name else 0
                if name and name.startswith("never-"):
                    thing["spec"]["preemptionPolicy"] = "Never"
        self.put(*things)

    def change(self, changes):
        """Change parts of the status of objects."""
        for resource, namespace, name, status in changes:
            place = resource, namespace or None, name
            thing = self.objects[place]
            self.objects[place] = thing | {"status": thing.get("status", {}) | status}

    def leave(self, keys):
        """Let pods terminate."""
        for namespace, name in keys:
            thing = self.objects["pods", namespace, name]
            self.objects["pods", namespace, name] = thing | {"metadata": thing["metadata"] | TERMINATING}

    def state(self):
        return {f"{namespace}/{name}": [thing["spec"].get("nodeName", ""), "" if thing["spec"].get("nodeName") else
                                        thing.get("status", {}).get("nominatedNodeName") or "", "deletionTimestamp" in thing["metadata"]]
                for (kind, namespace, name), thing in self.objects.items() if kind == "pods"}


def play(scenario, policies):
    """Schedule a scenario in memory, stage by stage; return the states."""
    server, states = StagedServer(), []
    server.create(scenario["objects"])
    server.change(scenario["status"])
    server.leave(scenario["leaving"])
    for stage in scenario["stages"]:
        if "leaving" in stage["remove"]:
            for place in [place for place, thing in server.objects.items() if "deletionTimestamp" in thing["metadata"]]:
                del server.objects[place]
        server.create(stage["create"])
        server.change(stage["status"])
        cluster, before = new_cluster(server), []
        while before[-3:] != [server.state()] * 3:
            before.append(server.state())
            run_pass(cluster, policies)
            cluster.results.finish(60)
            cluster.queue.end_backoff()
        states.append(server.state())
    return states


@pytest.mark.parametrize("name", STAGES)
def test_recorded_stages_end_as_with_kube_scheduler(name):
    record = STAGES[name]
    policies = built(WITHOUT | {"predicates": POLICY["predicates"]}) if record["version"] == "1.20" else configured()
    assert play(record["scenario"], policies) in record["expect"]
