"""What is remembered of rules' answers changes no decision: random sequences, decided with and without memory."""

import copy
import random

import pytest
from conftest import node, pod, scheduler

WITH_IMAGE = {"images": [{"names": ["nginx:latest"], "sizeBytes": 500 * 2**20}]}
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
EVERYTHING = [*scheduler.DEFAULT_PREDICATES, "MatchInterPodAffinity", "EvenPodsSpread"]
POLICIES = {  # several, between which the sequences change
    "the default Policy": {},
    "rules that look at other pods": {
        "predicates": [{"name": name} for name in EVERYTHING],
        "priorities": [{"name": name, "weight": 1 + i % 3} for i, name in enumerate((
            "SelectorSpreadPriority", "InterPodAffinityPriority", "EvenPodsSpreadPriority", "ImageLocalityPriority"))]},
    "all predicates are asked": {"alwaysCheckAllPredicates": True, "hardPodAffinitySymmetricWeight": 7},
    "rules with arguments, and chance": {
        "predicates": [{"name": "GeneralPredicates"},
                       {"name": "labels", "argument": {"labelsPresence": {"labels": ["disk"], "presence": True}}},
                       {"name": "services", "argument": {"serviceAffinity": {"labels": [ZONE]}}}],
        "priorities": [{"name": "RandomPriority", "weight": 1}, {"name": "LeastRequestedPriority", "weight": 1},
                       {"name": "apart", "weight": 2, "argument": {"serviceAntiAffinity": {"label": ZONE}}}]},
    "rules of one's own that do not say that they are steady": {
        "predicates": [{"name": "Moody"}], "priorities": [{"name": "MoodyPriority", "weight": 1}]},
    "no rules": {"predicates": [], "priorities": []},
    "two priorities under one name": {"predicates": [], "priorities": [
        {"name": "x", "weight": 2, "argument": {"labelPreference": {"label": "disk", "presence": True}}},
        {"name": "x", "weight": 3, "argument": {"serviceAntiAffinity": {"label": ZONE}}}]},
}
CONFIGURATIONS = {
    "a configuration with the default plugins": {},
    "default constraints, and no score of affinity": {"profiles": [{
        "plugins": {"score": {"disabled": [{"name": "InterPodAffinity"}]}},
        "pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": [
            {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"},
            {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}]}}]}]},
}


class Server(scheduler.Manifests):
    """A cluster whose objects get a new resourceVersion whenever they change, like the API server's."""

    def put(self, thing):
        """Create or replace an object."""
        thing = copy.deepcopy(thing)
        thing["metadata"]["uid"] = thing["metadata"].get("uid") or f"uid-{thing['kind']}-{thing['metadata']['name']}"
        thing["metadata"]["resourceVersion"] = str(next(scheduler.VERSIONS))
        self.add(thing)

    def all(self, resource):
        """Return the objects of a resource."""
        return [thing for key, thing in self.objects.items() if key[0] == resource]

    def delete(self, thing):
        """Delete an object."""
        self.objects = {key: other for key, other in self.objects.items() if other is not thing}


@pytest.fixture(autouse=True)
def moody(monkeypatch):
    """Rules that answer by a mood, which changes; and chance that is the same for the same pod and node."""
    monkeypatch.setattr(scheduler, "SEED", "1")
    mood = [0]

    @scheduler.predicate("Moody")
    def moody(pod, node):
        """The mood does not forbid the node."""
        if (len(node.name) + ord(node.name[-1]) + mood[0]) % 3 == 0:
            yield "in no mood"

    @scheduler.priority("MoodyPriority")
    def moody_priority(pod, node):
        """The mood for the node."""
        return (ord(node.name[-1]) * 7 + mood[0]) % 101

    yield mood
    del scheduler.PREDICATES["Moody"], scheduler.PRIORITIES["MoodyPriority"]


def random_node(dice, i):
    """A node like many, or with taints, labels, images."""
    labels = {HOSTNAME: f"n{i}", ZONE: dice.choice("abc")} if dice.random() < 0.9 else {}
    if dice.random() < 0.3:
        labels["disk"] = "ssd"
    effect = dice.choice(["NoSchedule", "PreferNoSchedule"])
    taints = [{"key": "dedicated", "value": "batch", "effect": effect}] if dice.random() < 0.2 else []
    return node(f"n{i}", cpu=f"{dice.choice([1, 2, 4])}", pods=str(dice.choice([3, 110])), labels=labels, taints=taints,
                unschedulable=dice.random() < 0.05,
                status=WITH_IMAGE if dice.random() < 0.3 else {})


def random_kind(dice):
    """What a kind of pods asks for."""
    app, spec = dice.choice("xyz"), {}
    selector = {"matchLabels": {"app": dice.choice("xyz")}}
    term = {"topologyKey": dice.choice([ZONE, HOSTNAME]), "labelSelector": selector}
    if dice.random() < 0.15:
        term["namespaceSelector"] = {"matchLabels": {"team": "a"}}
    if dice.random() < 0.3:
        spec["topologySpreadConstraints"] = [{
            "maxSkew": dice.choice([1, 2]), "topologyKey": dice.choice([ZONE, HOSTNAME]), "labelSelector": selector,
            "whenUnsatisfiable": dice.choice(["DoNotSchedule", "ScheduleAnyway"])} for _ in range(dice.choice([1, 2]))]
    if dice.random() < 0.4:
        side = dice.choice(["podAffinity", "podAntiAffinity"])
        spec["affinity"] = {side: dice.choice([
            {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": dice.randrange(1, 100), "podAffinityTerm": term}]}])}
    if dice.random() < 0.2:
        spec["nodeSelector"] = {"disk": "ssd"}
    if dice.random() < 0.3:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if dice.random() < 0.2:
        spec["volumes"] = [dice.choice([
            {"name": "disk", "gcePersistentDisk": {"pdName": "d"}}, {"name": "token", "secret": {"secretName": "t"}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}}])]
    if dice.random() < 0.1:
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "not valid!"}}}]}}
    if dice.random() < 0.1:
        spec["containers"] = [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]
    requests = {"cpu": dice.choice(["100m", "500m", "3"]), "memory": "64Mi"}
    return {"requests": requests, "namespace": dice.choice(["default", "other"]), "labels": {"app": app}, **spec}


def change_something(dice, server, mood):
    """Have somebody else change the cluster."""
    nodes, pods = server.all("nodes"), [item for item in server.all("pods") if item["spec"].get("nodeName")]
    what = dice.randrange(7)
    if what == 0 and len(nodes) > 2:
        server.delete(dice.choice(nodes))
    elif what in (1, 2):  # a new one, or another one under its name
        server.put(random_node(dice, dice.randrange(14)))
    elif what == 3 and pods:
        server.delete(dice.choice(pods))
    elif what == 4 and pods:
        gone = dice.choice(pods)
        server.put({**gone, "metadata": {**gone["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    elif what == 5:
        server.put({"kind": "Namespace", "metadata": {"name": "other", "labels": {"team": dice.choice("ab")}}})
    else:
        mood[0] += 1
    services = server.all("services")
    if services and dice.random() < 0.3:
        server.delete(dice.choice(services))
    if dice.random() < 0.2:
        server.put({"kind": "Service", "metadata": {"name": f"s{dice.randrange(3)}"},
                    "spec": {"selector": {"app": dice.choice("xyz")}}})


def everything(decision):
    """All that there is to a decision, in its order."""
    return (decision.node, decision.message, list(decision.failed.items()), list(decision.total.items()),
            [(title, list(scores.items())) for title, scores in decision.raw.items()],
            [(title, list(scores.items())) for title, scores in decision.scores.items()])


@pytest.mark.parametrize("seed", range(40))
def test_a_sequence_is_decided_as_it_is_without_memory(seed, moody):
    dice, server = random.Random(seed), Server()
    for i in range(10):
        server.put(random_node(dice, i))
    server.put({"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"volumeName": "v"}})
    kinds = [random_kind(dice) for _ in range(6)]
    policies = {title: {"my-scheduler": scheduler.read_policy(
        {"kind": "Policy", "apiVersion": "v1", **body})} for title, body in POLICIES.items()}
    policies |= {title: scheduler.read_configuration({
        "kind": "KubeSchedulerConfiguration", "apiVersion": scheduler.CONFIGURATION_VERSION, **body}, "my-scheduler")
        for title, body in CONFIGURATIONS.items()}
    cluster, title = scheduler.Cluster(server), dice.choice([*policies])
    cluster.live = True
    snapshot, remembered = cluster.snapshot(policies[title]), 0
    for step in range(120):
        if dice.random() < 0.25:
            change_something(dice, server, moody)
            if dice.random() < 0.2:
                title = dice.choice([*policies])
            snapshot = cluster.snapshot(policies[title])
        policy, kind = policies[title]["my-scheduler"], dice.choice(kinds)
        incoming = pod(f"p{step}", **kind)
        server.put(incoming)
        waiting = server.objects["pods", kind["namespace"], f"p{step}"]
        without = scheduler.Cluster(server)
        plain = scheduler.schedule(scheduler.Pod(waiting), without.snapshot(policies[title]), policy)
        remembered += bool(snapshot.memory.answers)
        decision = scheduler.schedule(scheduler.Pod(waiting), snapshot, policy)
        assert everything(decision) == everything(plain), f"seed {seed}, step {step}, {title}: {kind}"
        scheduler.assume(decision, snapshot)
        if decision.node:
            server.put({**waiting, "spec": {**waiting["spec"], "nodeName": decision.node}})
        else:
            server.delete(waiting)
    assert remembered > 100


def test_copies_of_one_object_in_manifests_are_all_there():
    """Whoever copies a node of a snapshot and renames it leaves its uid and resourceVersion as they were."""
    same = {"uid": "u", "resourceVersion": "7"}
    server = Server()
    for name in "ab":
        server.add({**node(name), "metadata": {"name": name, **same}})
    snapshot = scheduler.Cluster(server).snapshot()
    assert list(snapshot.nodes) == ["a", "b"]
