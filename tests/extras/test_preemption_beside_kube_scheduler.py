"""Preemption on a real control plane, and compared with a real kube-scheduler."""

import json
import random
import re
import subprocess
import threading
from collections import Counter

from helpers.control_plane import free_port, wait_for
from helpers.extras import MANIFESTS, node, pod, run_scheduler, table
from helpers.preempting import BUDGETS, LEVELS, POLICY, PORT, anti_affinity, budget, configuration
from scheduler_extras.api.client import ApiClient
from scheduler_extras.rules.node_ranking import WHY, WHY_ONE


def random_scenario(seed):
    """Up to four full nodes with pods, budgets, and up to three preemptors."""
    chance = random.Random(seed)
    mine = {"scenario": str(seed)}

    def random_pod(name, level, **spec):
        labels = mine | ({"app": app} if (app := chance.choice(["a", "b", ""])) else {})
        if chance.random() < 0.2:
            spec["affinity"] = anti_affinity(chance.choice("ab"), **mine)
        thing = pod(name, {"cpu": str(chance.randint(1, 2))}, labels=labels, priorityClassName=level, **spec)
        if chance.random() < 0.1:
            thing["spec"]["containers"][0]["ports"] = PORT[0]["ports"]
        return thing

    nodes, pods = [], []
    for i in range(chance.randint(2, 4)):
        name, room = f"n{seed}-{i}", chance.randint(2, 4)
        nodes.append(node(name, cpu=str(room), labels=mine | {"kubernetes.io/hostname": name},
                          unschedulable=chance.random() < 0.1))
        while room:
            thing = random_pod(f"{name}-{room}", chance.choice([
                "abyss", "low", "low", "low", "middle", "middle", "high", "p30"]), nodeName=name)
            requests = thing["spec"]["containers"][0]["resources"]["requests"]
            requests["cpu"] = str(min(room, int(requests["cpu"])))
            room -= int(requests["cpu"])
            pods.append(thing)
    starts = chance.sample(range(10, 60), len(pods))
    budgets = [budget(chance.randint(0, 2), {"matchLabels": mine | {"app": app}}, name=f"b{seed}-{app}")
               for app in chance.sample("ab", chance.randint(0, 2))]
    levels = chance.sample(["p10", "p30", "p50", "never"], chance.randint(1, 3))
    return nodes, dict(zip(map(lambda thing: thing["metadata"]["name"], pods), starts)), pods, budgets, [
        random_pod(f"p{seed}-{level}", level, nodeSelector=mine) for level in levels]


def contest(control_plane, decide_all):
    """Set up 20 scenarios side by side, and let them be scheduled. Return the victims, their preemptors, and the nominations.

    Each step of the choice decides in at least one of them.
    """
    control_plane.clear()
    api = ApiClient(control_plane.server)
    api.request("DELETE", BUDGETS)
    incoming = []
    for nodes, starts, pods, budgets, waiting in map(random_scenario, range(12, 32)):
        for thing in [*nodes, *pods, *waiting]:
            api.request("POST", "/api/v1/nodes" if thing in nodes else "/api/v1/namespaces/default/pods", thing)
        incoming += [thing["metadata"]["name"] for thing in waiting]
        for name, start in starts.items():
            api.request("PATCH", f"/api/v1/namespaces/default/pods/{name}/status", {"status": {
                "phase": "Running", "startTime": f"2020-01-01T00:00:{start}Z"}})
        for each in budgets:
            api.request("POST", BUDGETS, {"apiVersion": "policy/v1beta1"} | each)
            api.request("PATCH", f"{BUDGETS}/{each['metadata']['name']}/status", {"status": each["status"]})
    process = decide_all()

    def messages():
        pods = control_plane.pods()
        message = {name: [condition.get("message") for condition in pods[f"default/{name}"]["status"].get(
            "conditions", [])] for name in incoming}
        return all(message.values()) and message

    def preempted():
        events = control_plane.get("events", params={"fieldSelector": "reason=Preempted"})["items"]
        return sorted((event["involvedObject"]["name"], event["message"]) for event in events)

    answer = {"messages": wait_for("all pods are decided", messages)}
    pods = control_plane.pods().values()
    answer["victims"] = sorted(thing["metadata"]["name"] for thing in pods if "deletionTimestamp" in thing["metadata"])
    wait_for("the victims have their events", lambda: {name for name, _ in preempted()} == {*answer["victims"]})
    if process:
        process.kill()
        process.wait()
    return answer | {"events": preempted(), "nominated": {
        thing["metadata"]["name"]: thing["status"]["nominatedNodeName"] for thing in pods
        if "nominatedNodeName" in thing["status"]}}


def test_victims_match_those_of_kube_scheduler(contested, tmp_path):
    """Both get the same scenarios, one after the other. Each scenario has a single best answer.

    This takes more than 10 s, because it creates hundreds of objects, twice.
    """
    theirs, ours, decisions = tmp_path / "theirs.json", tmp_path / "ours.json", []
    theirs.write_text(json.dumps({name: POLICY[name] for name in ("kind", "apiVersion")}))
    ours.write_text(json.dumps(POLICY))

    def by_kube_scheduler():
        return contested.start(
            "kube-scheduler", f"--kubeconfig={contested.kubeconfig()}", "--leader-elect=false", "--port=0",
            "--secure-port=0", "--scheduler-name=my-scheduler", "--kube-api-qps=5000", "--kube-api-burst=5000",
            f"--policy-config-file={theirs}")

    def by_us():
        run = run_scheduler("--server", contested.server, "--policy", ours, "--once",
                            "--output=json")
        message = [line for line in run.stderr.splitlines() if "is slow" not in line]  # on a busy machine
        assert run.returncode == 0 and len(message) == 1 and message[0].startswith("my-scheduler: watching "), message
        decisions.extend(map(json.loads, run.stdout.splitlines()))

    answer, expected = contest(contested, by_us), contest(contested, by_kube_scheduler)
    assert {*answer.pop("events")} <= {*expected.pop("events")}, "kube-scheduler also sends events to pods that are already terminating"
    assert answer == expected
    assert len(answer["victims"]) > 20 and len(answer["nominated"]) > 15
    words = [*zip(WHY, WHY_ONE)]
    reasons = Counter(why for decision in decisions for why, of_one in words if why in decision["remedy"] or of_one in decision["remedy"])
    assert reasons.keys() == set(WHY), "each step has decided at least once"
    assert any(not decision["remedy"] for decision in decisions)


def test_in_the_end_the_pods_of_the_highest_priorities_run(contested, tmp_path, start_scheduler):
    """96 pods of four priorities compete for room for 32. Those of low priority tend to be created first.

    This takes more than 10 s, because many pods are preempted.
    """
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    contested.create(*(node(f"n{i}", cpu="8") for i in range(4)))
    chance, api = random.Random(1), ApiClient(contested.server)
    start_scheduler("--server", contested.server, "--policy", tmp_path / "policy.json",
                    "--interval=0.1")
    levels = sorted(["low", "middle", "high", "p10"] * 24, key=lambda level: LEVELS[level] + chance.randint(0, 150))
    for i, level in enumerate(levels):
        api.request("POST", "/api/v1/namespaces/default/pods", pod(
            f"{level}-{i}", {"cpu": "1"}, priorityClassName=level, terminationGracePeriodSeconds=0))
        if i % 16 == 15:
            threading.Event().wait(0.5)
    best = {"p10": 24, "high": 8}
    wait_for("the 32 pods of the highest priorities run", lambda: Counter(
        key.partition("/")[2].partition("-")[0] for key in contested.placements()) == best, 300)
    threading.Event().wait(2)  # no other pod is preempted meanwhile
    pods = contested.pods().values()
    bound = [thing for thing in pods if thing["spec"].get("nodeName")]
    assert Counter(thing["spec"]["priorityClassName"] for thing in bound) == best
    assert Counter(thing["spec"]["nodeName"] for thing in bound) == {f"n{i}": 8 for i in range(4)}
    gone = {f"default/{level}-{i}" for i, level in enumerate(levels)} - contested.pods().keys()
    assert {key for key, *_ in contested.events("Preempted")} == gone, "each deleted pod has its event"
    assert 0 < len(gone) <= 64
    for victim, text, _ in contested.events("Preempted"):
        lower, higher = re.findall("default/([a-z0-9]+)-", f"{victim} {text}")
        assert LEVELS[lower] < LEVELS[higher]
    wait_for("a pod was bound in place of each deleted one", lambda: len(contested.events("Scheduled")) == 32 + len(gone))


def test_the_room_is_reserved_until_the_victims_are_gone(contested, tmp_path, start_scheduler):
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    arguments = ["--server", contested.server, "--policy", tmp_path / "policy.json"]
    contested.create(node("n", cpu="2"), *(pod(name, {"cpu": "1"}, priorityClassName=name) for name in ("low", "high")))
    run_scheduler(*arguments, "--once")
    contested.create(pod("p30", {"cpu": "1"}, priorityClassName="p30"))
    run = run_scheduler(*arguments, "--once", "--dry-run")
    assert "It preempts default/low on n, the only node where that helps." in run.stdout
    assert run_scheduler(*arguments, "--explain", "default/p30").stdout.count("preempts") == 1
    assert not any("deletionTimestamp" in thing["metadata"] for thing in contested.pods().values())
    assert not contested.events("Preempted")

    start_scheduler(*arguments, "--interval=0.1")
    wait_for("the victim is terminating", lambda: "deletionTimestamp" in contested.pods()["default/low"]["metadata"])
    contested.create(pod("p10", {"cpu": "1"}, priorityClassName="p10"))
    wait_for("the next victim has its event, too", lambda: len(contested.events("Preempted")) == 2)
    [condition] = [each for each in contested.pods()["default/low"]["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler"), "so that a Job does not count it as failed"
    threading.Event().wait(1)
    assert contested.pods()["default/p30"]["status"]["nominatedNodeName"] == "n"
    assert sorted(contested.events("Preempted")) == [
        ("default/high", "Preempted by default/p10 on node n", "my-scheduler"),
        ("default/low", "Preempted by default/p30 on node n", "my-scheduler")]
    contested.create(pod("middle", {"cpu": "1"}, priorityClassName="middle"))
    for name in ("low", "high"):  # as kubelet does after the containers have ended
        contested.request("DELETE", f"namespaces/default/pods/{name}", params={"gracePeriodSeconds": 0})
    wait_for("the preemptors are bound", lambda: contested.placements() == {
        "default/p30": "n", "default/p10": "n"})


def test_the_room_of_a_stale_nomination_is_free_again(contested, tmp_path):
    """The nomination is older than this process, and there are no victims."""
    (tmp_path / "config.json").write_text(json.dumps(configuration()))
    contested.create(node("n", cpu="1"), pod("p30", {"cpu": "2"}, priorityClassName="p30"),
                     pod("p10", {"cpu": "1"}, priorityClassName="p10"))
    contested.request("PATCH", "namespaces/default/pods/p30/status", {"status": {"nominatedNodeName": "n"}},
                      headers={"Content-Type": "application/merge-patch+json"})
    run = run_scheduler("--server", contested.server, "--config", tmp_path / "config.json",
                        "--scheduler-name=my-scheduler", "--once")
    assert run.returncode == 0, run.stderr
    assert contested.placements() == {"default/p10": "n"}
    assert "nominatedNodeName" not in contested.pods()["default/p30"]["status"]


def test_a_new_replica_continues_the_preemption(contested, tmp_path):
    """The nominations and the terminating victims are in the cluster."""
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    arguments = ["--server", contested.server, "--policy", tmp_path / "policy.json", "--once"]
    contested.create(node("n", cpu="2"), pod("low", {"cpu": "1"}, priorityClassName="low"))
    contested.bind("low", "n")
    contested.create(pod("p30", {"cpu": "2"}, priorityClassName="p30"))
    run_scheduler(*arguments)
    contested.create(pod("p10", {"cpu": "1"}, priorityClassName="p10"))
    run = run_scheduler(*arguments)
    why = "stays pending: 0/1 nodes are available: 1 Insufficient cpu."
    assert run.stdout.splitlines() == [
        f"default/p30 {why} It waits until the pods that are being deleted on n have gone.", f"default/p10 {why}"]
    contested.request("DELETE", "namespaces/default/pods/low", params={"gracePeriodSeconds": 0})
    run_scheduler(*arguments)
    assert contested.placements() == {"default/p30": "n"}


@table("manifests, victims, message", {
    "without them an error is logged, and no pod is preempted": (MANIFESTS, [], "RBAC does not allow it: poddisruptionbudgets"),
    "with them a pod is preempted": (MANIFESTS.replace("# - {", "- {"), ["default/low"], ""),
})
def test_preemption_needs_the_two_permissions_in_the_readme(contested, tmp_path, manifests, victims, message):
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    kubectl = [contested.assets / "kubectl", "--kubeconfig", contested.kubeconfig()]
    subprocess.run([*kubectl, "apply", "-f", "-"], input=manifests, text=True, check=True, capture_output=True)
    token = contested.request("POST", "namespaces/kube-system/serviceaccounts/my-scheduler/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
    contested.create(node("n", cpu="1"), pod("low", {"cpu": "1"}, priorityClassName="low"))
    contested.bind("low", "n")
    contested.create(pod("p30", {"cpu": "1"}, priorityClassName="p30"))
    port = free_port()
    proxy = contested.start(
        "kubectl", "--kubeconfig", contested.kubeconfig("my-scheduler", token), "proxy", f"--port={port}")
    arguments = ["--server", f"http://127.0.0.1:{port}", "--policy", tmp_path / "policy.json"]
    try:
        wait_for("the proxy answers", lambda: "cannot reach" not in run_scheduler(
            *arguments, "--once", "--dry-run").stderr)
        run = run_scheduler(*arguments, "--once")
    finally:
        proxy.kill()
        proxy.wait()
    assert ("orbidden" in run.stderr) == bool(message) == run.returncode and message in run.stderr
    assert [key for key, thing in contested.pods().items() if "deletionTimestamp" in thing["metadata"]] == victims
    assert [key for key, *_ in contested.events("Preempted")] == victims
    subprocess.run([*kubectl, "delete", "--wait=false", "-f", "-"], input=MANIFESTS, text=True, check=True,
                   capture_output=True)
