"""Comparison with a real kube-scheduler on a real control plane, with the same pods and the same Policy."""

import json
import random

from helpers.control_plane import wait_for
from helpers.extender import Service
from helpers.extras import (
    DEFAULT_PREDICATES,
    DEFAULT_PRIORITIES,
    new_cluster,
    node,
    pod,
    run_scheduler,
    table,
)
from helpers.policies import load_policies
from scheduler_extras.api.client import ApiClient
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.pods_and_nodes import FullPod


ZONE = "topology.kubernetes.io/zone"
DEFAULTS = {"kind": "Policy", "apiVersion": "v1"}
ALL = DEFAULTS | {
    "alwaysCheckAllPredicates": True, "hardPodAffinitySymmetricWeight": 7,
    "predicates": [{"name": name} for name in [*DEFAULT_PREDICATES, "PodFitsHostPorts"]] + [
        {"name": "Labelled", "argument": {"labelsPresence": {"labels": ["retiring"], "presence": False}}}],
    "priorities": [{"name": name, "weight": i + 1} for i, name in enumerate(DEFAULT_PRIORITIES)] + [
        {"name": "MostRequestedPriority", "weight": 2},
        {"name": "Fast", "weight": 3, "argument": {"labelPreference": {"label": "fast", "presence": True}}},
        {"name": "Racks", "weight": 2, "argument": {"serviceAntiAffinity": {"label": "rack"}}},
        {"name": "Pack", "weight": 2, "argument": {"requestedToCapacityRatioArguments": {
            "shape": [{"utilization": 0, "score": 2}, {"utilization": 70, "score": 9}, {"utilization": 100}],
            "resources": [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 1}]}}}]}


def random_nodes(chance):
    """Twelve different nodes in three zones."""
    for i in range(12):
        labels = {"kubernetes.io/hostname": f"n{i:02}", ZONE: f"z{i % 3}", "rack": f"r{i % 4}", "disk": "ssd"}
        for name in ("fast", "retiring", "disk", ZONE):
            if chance.random() < 0.2:
                labels.pop(name) if name in labels else labels.update({name: "yes"})
        taints = [{"key": "dedicated", "value": "db", "effect": chance.choice(["NoSchedule", "PreferNoSchedule"])}]
        yield node(f"n{i:02}", cpu=f"{4 + i * 0.37:.2f}", memory=f"{9000 + 777 * i}Mi", pods=str(25 + i), labels=labels,
                   taints=taints if chance.random() < 0.3 else [], unschedulable=chance.random() < 0.1)


def random_pod(chance, name):
    """A pod with random requests and constraints."""
    app = chance.choice(["web", "db", "cache"])
    term = {"topologyKey": chance.choice([ZONE, "kubernetes.io/hostname", "rack"]),
            "labelSelector": {"matchLabels": {"app": chance.choice(["web", "db", "cache"])}}}
    wanted = {"matchExpressions": [{"key": "disk", "operator": chance.choice(["Exists", "DoesNotExist"])}]}
    affinity = {}
    for side in ("podAffinity", "podAntiAffinity"):
        draw = chance.random()
        if draw < 0.1:
            affinity[side] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        elif draw < 0.3:
            affinity[side] = {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": chance.randint(1, 100), "podAffinityTerm": term}]}
    if chance.random() < 0.3:
        affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": chance.randint(1, 100), "preference": wanted}]}
    spread = [{"maxSkew": chance.randint(1, 3), "topologyKey": chance.choice([ZONE, "kubernetes.io/hostname"]),
               "whenUnsatisfiable": chance.choice(["DoNotSchedule", "ScheduleAnyway"]),
               "labelSelector": {"matchLabels": {"app": app}}}] if chance.random() < 0.3 else []
    requests = {"cpu": f"{chance.randint(10, 400)}m", "memory": f"{chance.randint(10, 900)}Mi"}
    if chance.random() < 0.03:
        requests["cpu"] = "20"
    spec = {"affinity": affinity, "topologySpreadConstraints": spread, "schedulerName": "kube"}
    if chance.random() < 0.3:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if chance.random() < 0.1:
        spec["nodeSelector"] = {"disk": "ssd"}
    thing = pod(name, requests if chance.random() < 0.9 else {}, labels={"app": app}, **spec)
    if chance.random() < 0.1:
        thing["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": chance.choice([80, 81])}]
    return thing


def random_policy(chance):
    """A Policy with random rules, weights and arguments."""
    def some(things):
        return chance.sample(things, chance.randint(0, len(things)))

    utilizations = sorted(chance.sample(range(101), 3))
    return DEFAULTS | {
        "alwaysCheckAllPredicates": chance.random() < 0.5, "hardPodAffinitySymmetricWeight": chance.randint(0, 100),
        "predicates": [{"name": name} for name in some([*DEFAULT_PREDICATES, "HostName", "PodFitsPorts"])] + [
            {"name": f"with {label}", "argument": {"labelsPresence": {
                "labels": [label], "presence": chance.random() < 0.5}}} for label in some(["retiring", "disk"])],
        "priorities": [{"name": name, "weight": chance.randint(1, 100)} for name in some(
            [*DEFAULT_PRIORITIES, "MostRequestedPriority", "ServiceSpreadingPriority"])] + [
            {"name": f"prefer {label}", "weight": 2, "argument": {"labelPreference": {
                "label": label, "presence": chance.random() < 0.5}}} for label in some(["fast", "disk"])] + [
            {"name": f"spread over {label}", "weight": 3, "argument": {"serviceAntiAffinity": {"label": label}}}
            for label in some(["rack", ZONE])] + [
            {"name": name, "weight": 5, "argument": {"requestedToCapacityRatioArguments": {
                "shape": [{"utilization": each, "score": chance.randint(0, 10)} for each in utilizations],
                "resources": [{"name": name, "weight": chance.randint(1, 5)} for name in (
                    "cpu", "memory", *some(["ephemeral-storage"]))]}}} for name in some(["by its use"])]}


def flags(policy, folder):
    """Return kube-scheduler's flags for a Policy or a provider, and the value of our --policy."""
    if isinstance(policy, str):
        return [f"--algorithm-provider={policy}"], policy
    path = folder / "policy.json"
    path.write_text(json.dumps(policy))
    return [f"--policy-config-file={path}"], path


@table("policy, count", {
    "the default rules": (DEFAULTS, 30),
    "everything at once": (ALL, 60),
    "a provider": ("ClusterAutoscalerProvider", 30),
    **{f"random rules, {seed}": (random_policy(random.Random(seed)), 20) for seed in range(4)},
})
def test_kube_scheduler_chooses_one_of_our_best_nodes(control_plane, tmp_path, policy, count):
    """Pods are created one at a time, so that both schedulers decide about the same cluster."""
    chance = random.Random(9)  # with this seed, several pods fit nowhere
    theirs, ours = flags(policy, tmp_path)
    control_plane.create(*random_nodes(chance))
    for app in ("web", "db"):
        control_plane.request("POST", "namespaces/default/services", {
            "metadata": {"name": app}, "spec": {"selector": {"app": app}, "ports": [{"port": 80}]}})
    kube_scheduler = control_plane.start(
        "kube-scheduler", f"--kubeconfig={control_plane.kubeconfig()}", "--leader-elect=false", "--port=0",
        "--secure-port=0", "--scheduler-name=kube", "--kube-api-qps=5000", "--kube-api-burst=5000", *theirs)
    policies = load_policies(ours, "kube")
    cluster = new_cluster(ApiClient(control_plane.server))
    unique = pending = 0
    for i in range(count):
        snapshot = cluster.refresh_snapshot(policies)
        place = "namespaces/default/pods"
        created = control_plane.request("POST", place, random_pod(chance, f"pod-{i:03}"))
        decision = schedule(FullPod(created), snapshot, policies["kube"])

        def answer(path=f"{place}/pod-{i:03}"):
            thing = control_plane.get(path)
            message = next((c["message"] for c in thing["status"].get("conditions", []) if c.get("message")), None)
            return (thing["spec"].get("nodeName"), message) if thing["spec"].get("nodeName") or message else None

        theirs, message = wait_for(f"kube-scheduler has decided about pod-{i:03}", answer)
        best = [name for name, score in decision.total.items() if score == max(decision.total.values())]
        if theirs is None:
            pending += 1
            assert message == decision.message, created
            control_plane.request("DELETE", f"{place}/pod-{i:03}", params={"gracePeriodSeconds": 0})
        else:
            unique += len(best) == 1
            assert theirs in best, (theirs, decision.total, decision.scores, decision.failed, created["spec"])
    kube_scheduler.kill()
    kube_scheduler.wait()
    for app in ("web", "db"):
        control_plane.request("DELETE", f"namespaces/default/services/{app}")
    if count > 20:
        assert unique > count / 3 and pending > 2, "the pods are varied enough"


@table("verb, answer, place, text", {
    "no node passes its filter": (
        "filter", {"nodenames": [], "failednodes": {"a": "a is haunted", "b": "a is haunted"}}, None,
        "0/2 nodes are available: 2 a is haunted."),
    "it prefers a node": ("prioritize", [{"host": "a", "score": 1}, {"host": "b", "score": 9}], "b", None),
    "its bind fails": ("bind", {"error": "disk quota exceeded"}, None, "binding rejected: ... disk quota exceeded"),
})
def test_an_extender_that_answers_in_lower_case(control_plane, tmp_path, verb, answer, place, text):
    """Go's decoder accepts field names in any case, so both schedulers must read the same answer."""
    service = Service()
    service.answers[verb] = 200, answer
    policy = DEFAULTS | {"predicates": [], "priorities": [], "extenders": [
        {"urlPrefix": service.url, f"{verb}Verb": verb, "weight": 1, "nodeCacheCapable": True}]}
    theirs, ours = flags(policy, tmp_path)
    control_plane.create(node("a"), node("b"), pod("theirs", schedulerName="kube"), pod("ours"))
    kube_scheduler = control_plane.start(
        "kube-scheduler", f"--kubeconfig={control_plane.kubeconfig()}", "--leader-elect=false", "--port=0",
        "--secure-port=0", "--scheduler-name=kube", *theirs)
    run_scheduler("--server", control_plane.server, "--policy", ours, "--once")

    def outcome(name):
        """Return the pod's node and message, or None while it has neither."""
        thing = control_plane.get(f"namespaces/default/pods/{name}")
        message = next((each.get("message") for each in thing["status"].get("conditions", [])), None)
        return [thing["spec"].get("nodeName"), message] if thing["spec"].get("nodeName") or message else None

    outcomes = [wait_for(f"{name} is decided", lambda name=name: outcome(name)) for name in ("theirs", "ours")]
    kube_scheduler.kill()
    kube_scheduler.wait()
    service.stop()
    for node_name, message in outcomes:
        head, _, tail = (text or "").partition("... ")
        assert node_name == place and (message or "").startswith(head) and (message or "").endswith(tail), outcomes
    assert {verb for verb, _ in service.asked} == {verb}
