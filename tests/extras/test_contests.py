"""Preemption to its end, beside the real kube-scheduler 1.20, and as recorded: budgets, classes, pods that end slowly, nominations.

Extenders refuse nodes only from which nobody could go: kube-scheduler 1.20.2 ends with a panic (index out of range in
pickOneNodeForPreemption) once one of them refuses nodes where the pod fits, and less important pods are, who need not go.
It asks no extender who may go, though its Policy has a preemptVerb. So these scenarios are among those that were recorded
of a kube-scheduler 1.20.2 in which both are mended, each by a line: see tests/README.md.
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
from helpers.preempting import BUDGETS, POLICY, PORT, TERMINATING, apart, budget, built, configured
from scheduler_extras.api.client import ApiClient


SCENARIOS = int(os.environ.get("SCENARIOS", 6))  # so many begin at the same moment, on nodes of their own
WITHOUT = POLICY | {
    "predicates": [entry for entry in POLICY["predicates"] if entry["name"] != "Preemption"],
    "priorities": [{"name": "NodeAffinityPriority", "weight": 1}]}


class Scenario:
    """Up to four full nodes, who is on them, who is leaving already, budgets, and up to four pods that need room there."""

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
        """A node, and pods that fill it."""
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
        """A pod that needs room, of which there may be some that is made already; it prefers each node to another degree."""
        prefers = [{"weight": 10 * i + 1, "preference": {"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [thing["metadata"]["name"]]}]}} for i, thing in enumerate(self.nodes)]
        if self.chance.random() < 0.25:
            self.nominated[name] = self.chance.choice(self.nodes)["metadata"]["name"]
        thing = self.pod(name, level, nodeSelector=self.mine)
        thing["spec"].setdefault("affinity", {})["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": prefers}
        return thing

    def pod(self, name, level, most=3, **spec):
        """A pod that may have an app, a host port, or an app that it does not want to be with."""
        app = self.chance.choice(["a", "b", "c", ""])
        if self.chance.random() < 0.2:
            spec["affinity"] = apart(self.chance.choice("abc"), **self.mine)
        thing = pod(name, {"cpu": str(min(most, self.chance.randint(1, 3)))}, labels=self.mine | ({"app": app} if app else {}),
                    priorityClassName=level, **spec)
        if self.chance.random() < 0.1:
            thing["spec"]["containers"][0]["ports"] = PORT[0]["ports"]
        return thing

    def set_up(self, api):
        """Make all that there is."""
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
    """Where each pod is, or is to be; and who is leaving."""
    return {thing["metadata"]["name"]: (
        thing["spec"].get("nodeName", ""), thing["status"].get("nominatedNodeName", "") if "nodeName" not in thing["spec"] else "",
        "deletionTimestamp" in thing["metadata"]) for thing in control_plane.pods().values()}


def settled(control_plane, seconds):
    """What there is when nothing has changed for some seconds."""
    state, since = state_of(control_plane), time.monotonic()
    while time.monotonic() < since + seconds:
        time.sleep(0.2)
        now = state_of(control_plane)
        if now != state:
            state, since = now, time.monotonic()
    return state


def contest(control_plane, scenarios, start):
    """Set scenarios up, side by side, and have them decided to their end: twice all who are leaving have left.

    Nobody schedules meanwhile, so that no chance decides which room is free first.
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
        wait_for("all have been decided about", lambda: control_plane.get("namespaces/default/pods/last")["status"].get("conditions"), 240)
        control_plane.request("DELETE", "namespaces/default/pods/last")
        states.append(settled(control_plane, 1.5))
        process.kill()
        process.wait()
    return states


def by_scenario(state):
    """A state, cut into those of the scenarios."""
    cut = {}
    for name, where in sorted(state.items()):
        cut.setdefault(int(name[1:].partition("-")[0]), {})[name] = where
    return cut


def run_both(contested, tmp_path, start_scheduler, scenarios, extenders=()):
    """What becomes of scenarios by this script, and by kube-scheduler."""
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(WITHOUT | {"extenders": [*extenders]}))
    answer = contest(contested, scenarios, lambda: start_scheduler(
        "--server", contested.server, "--policy", file, "--preempt", "--interval=0.2"))
    expected = contest(contested, scenarios, lambda: contested.start(
        "kube-scheduler", f"--kubeconfig={contested.kubeconfig()}", "--leader-elect=false", "--port=0", "--secure-port=0",
        "--scheduler-name=my-scheduler", "--kube-api-qps=5000", "--kube-api-burst=5000", f"--policy-config-file={file}"))
    return answer, expected


def differences(answer, expected):
    """The scenarios in which something differs, and what."""
    both = [(by_scenario(state), by_scenario(theirs)) for state, theirs in zip(answer, expected, strict=True)]
    return [{seed: (state[seed], theirs[seed]) for seed in theirs if state[seed] != theirs[seed]} for state, theirs in both]


def test_scenarios_end_as_with_kube_scheduler(contested, tmp_path, start_scheduler):
    answer, expected = run_both(contested, tmp_path, start_scheduler, [*map(Scenario, range(100, 100 + SCENARIOS))])
    victims, nominations = (sum(bool(where[part]) for where in expected[0].values()) for part in (2, 1))
    assert victims > SCENARIOS and nominations > SCENARIOS and any(where[2] for where in expected[1].values())
    assert differences(answer, expected) == [{}, {}, {}]


class ScenarioWithSpareNode(Scenario):
    """There is room, on a node that the extender refuses."""

    def __init__(self, seed):
        super().__init__(seed)
        name = f"n{seed}-spare"
        self.nodes.append(node(name, cpu="9", labels=self.mine | {"kubernetes.io/hostname": name}))


def has_a_say(service, keeps=lambda name: True):
    """Have a service refuse spare nodes, and leave some candidates. Return its entry, and that of an ignorable one, which fails."""
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
    answer, expected = run_both(contested, tmp_path, start_scheduler, scenarios, has_a_say(service))
    assert sum(where[2] for where in expected[0].values()) > SCENARIOS // 2
    assert {verb for verb, _ in service.asked} == {"filter", "preempt", "fail"}
    assert not any(where[0].endswith("-spare") for state in expected for where in state.values())
    assert differences(answer, expected) == [{}, {}, {}]


class SlowServer(Server):
    """An API server in memory, whose pods do not end by themselves."""

    def request(self, method, path, body=None, params=None, accept=None, check=None):
        if method == "DELETE":
            place = "pods", *path.split("/")[-3::2]
            self.objects[place] = self.objects[place] | {"metadata": self.objects[place]["metadata"] | TERMINATING}
        return {"kind": "Pod"} if method == "DELETE" else super().request(method, path, body, params, accept)

    def state(self):
        """Where each pod is, or is to be; and who is leaving: as `state_of` says it."""
        return {name: [thing["spec"].get("nodeName", ""),
                       (thing["status"].get("nominatedNodeName") or "") if "nodeName" not in thing["spec"] else "",
                       "deletionTimestamp" in thing["metadata"]]
                for (kind, _, name), thing in self.objects.items() if kind == "pods"}


def replay(record, policies):
    """Have a recorded scenario decided to its end, in memory, as in a contest. Return the states."""
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
def test_recorded_scenarios_end_as_by_kube_scheduler(name, request):
    record = RECORDS[name]
    refused = record["refused"]  # how the names of nodes end from which an extender has nobody go; None: there are no extenders
    extenders = [] if refused is None else has_a_say(
        request.getfixturevalue("service"), lambda node_name: not node_name.endswith(tuple(refused)))
    states = replay(record, built(POLICY | {"priorities": WITHOUT["priorities"], "extenders": extenders}))
    assert states == record["states"]


# Scenarios that go on in stages: pods come, a status changes, those who are leaving have left. At each the scheduler is
# started again. They were recorded of kube-scheduler 1.20.2 and 1.36.2.
PRIORITIES = {"abyss": -2**31, "minus7": -7, "minus1": -1, "zero": 0, "one": 1, "ten": 10, "also-ten": 10, "never-ten": 10, "hundred": 100,
              "thousand": 1000, "never-thousand": 1000, "million": 10**6, "top": 10**9,
              "system-cluster-critical": 2 * 10**9, "system-node-critical": 2 * 10**9 + 1000}
STAGES = {f"{record['version']} {record['scenario']['seed']}": record for record in map(json.loads, gzip.open(
    Path(__file__).parents[1] / "golden" / "preemption-stages.jsonl.gz", "rt"))}


class StagedServer(SlowServer):
    """An API server in memory that goes on from stage to stage."""

    def request(self, method, path, body=None, params=None, accept=None, check=None):
        answer = super().request(method, path, body, params, accept)
        conditions = (body or {}).get("status", {}).get("conditions")
        if method == "PATCH" and conditions:
            self.change([["pods", *path.split("/")[-4:-1:2], {"conditions": conditions}]])
        return answer

    def create(self, things):
        """Take in objects as an API server does that has these priority classes."""
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
        """Have pods be deleted, which end slowly."""
        for namespace, name in keys:
            thing = self.objects["pods", namespace, name]
            self.objects["pods", namespace, name] = thing | {"metadata": thing["metadata"] | TERMINATING}

    def state(self):
        return {f"{namespace}/{name}": [thing["spec"].get("nodeName", ""), "" if thing["spec"].get("nodeName") else
                                        thing.get("status", {}).get("nominatedNodeName") or "", "deletionTimestamp" in thing["metadata"]]
                for (kind, namespace, name), thing in self.objects.items() if kind == "pods"}


def play(scenario, policies):
    """Have a scenario decided to its end, in memory, stage by stage. Return the states."""
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
def test_recorded_stages_end_as_by_kube_scheduler(name):
    record = STAGES[name]
    policies = built(WITHOUT | {"predicates": POLICY["predicates"]}) if record["version"] == "1.20" else configured()
    assert play(record["scenario"], policies) in record["expect"]
