"""What is remembered of rules' answers changes no decision: random sequences, decided with and without memory."""

import collections
import contextlib
import copy
import dataclasses
import gc
import gzip
import itertools
import json
import math
import random
import re
import tracemalloc
import types

import pytest
from helpers.extras import (
    DEFAULT_PREDICATES, ROOT, a_cluster, claim, cluster_of, node, pending_pods, pod, storage_class, table, volume
)
from helpers.everywhere import script
from scheduler_extras.rules.selectors import OWNERS as OWNING_RESOURCES
from helpers.everywhere import replace
from scheduler import Rule, Taint
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.common.errors import InvalidSelector, Unschedulable
from scheduler_extras.configuration.overrides.registry import OVERRIDES
from scheduler_extras.configuration.profile import Profile
from scheduler_extras.configuration.reading import read_configuration
from scheduler_extras.deciding import answers
from scheduler_extras.deciding.asking import prepare
from scheduler_extras.deciding.decision import Vote
from scheduler_extras.deciding.rule import CATALOGUES, FullRule, PREDICATES, PRIORITIES, SKIP, WHEN
from scheduler_extras.deciding.schedule import schedule
from scheduler_extras.deciding.seen import Seen, signature
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.live.record import PodRecord
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.policy.extenders import Extender
from scheduler_extras.policy.own_rules import predicate, priority
from scheduler_extras.policy.policy import CONFIGURATION_VERSION, FullPolicy
from scheduler_extras.policy.reading import read_policy
from scheduler_extras.policy.reloading import load_policies
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import NOTHING, Requirement, label_selector, labels_match
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.affinity_terms import TERMS, placed_terms, terms_on, with_terms
from scheduler_extras.rules.claims import SELECTED_NODE, bind_volumes
from scheduler_extras.rules.counting import count_pods
from scheduler_extras.rules.disks import disks_of
from scheduler_extras.rules.label_index import LabelIndex, labels_needed
from scheduler_extras.rules.selectors import selector_in, selectors_of
from scheduler_extras.rules.spreading import hard_spread

WITH_IMAGE = {"images": [{"names": ["nginx:latest"], "sizeBytes": 500 * 2**20}]}
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
EVERYTHING = [*DEFAULT_PREDICATES, "MatchInterPodAffinity", "EvenPodsSpread"]
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


GOLDEN = ROOT / "tests" / "golden"
VERSIONS = itertools.count(1)


class Memory(dict):
    """A dict that a test can see disappear."""


class Server(Manifests):
    """A cluster whose objects get a new resourceVersion whenever they change, like the API server's."""

    def put(self, thing):
        """Create or replace an object."""
        thing = copy.deepcopy(thing)
        thing["metadata"]["uid"] = thing["metadata"].get("uid") or f"uid-{thing['kind']}-{thing['metadata']['name']}"
        thing["metadata"]["resourceVersion"] = str(next(VERSIONS))
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
    monkeypatch.setattr(CHANCE, "seed", "1")
    mood = [0]

    @predicate("Moody")
    def moody(pod, node):
        """The mood does not forbid the node."""
        if (len(node.name) + ord(node.name[-1]) + mood[0]) % 3 == 0:
            yield "in no mood"

    @priority("MoodyPriority")
    def moody_priority(pod, node):
        """The mood for the node."""
        return (ord(node.name[-1]) * 7 + mood[0]) % 101

    yield mood
    del PREDICATES["Moody"], PRIORITIES["MoodyPriority"]


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


def by_the_plain_loops(pod, snapshot, policy):
    """What the script's two loops find by a Policy's rules: why nodes do not fit, and the totals of those that do."""
    def ready(rules, nodes, make=lambda each: Rule(each.rule.title, each.function)):
        """The rules, with what they have prepared, as those of the script."""
        return [make(each) for each in prepare(rules, pod, nodes, snapshot)]

    def scored(each):
        """A priority, whose scores are numbers as in the script: None is nan."""
        def function(pod, node):
            score = each.function(pod, node)
            return math.nan if score is None else score

        def reduce(scores):
            return each.rule.reduce({name: None if score != score else score for name, score in scores.items()})

        return Rule(each.rule.title, function, each.rule.reduce and reduce, each.rule.weight)

    feasible, failed = script.Policy(ready(policy.predicates_to_ask(), snapshot.nodes), []).nodes_that_fit(pod, snapshot.nodes)
    plain = script.Policy([], ready(policy.priorities, feasible, scored))
    return failed, plain.prioritize(pod, feasible) if len(feasible) > 1 else dict.fromkeys(feasible)


def says_what_the_plain_loops_find(decision, snapshot, policy):
    """Assert it, unless a rule has refused the pod as a whole: the loops do not know of that."""
    with contextlib.suppress(Unschedulable):
        failed, total = by_the_plain_loops(decision.pod, snapshot, policy)
        assert decision.failed == failed and decision.total.keys() == total.keys()
        assert len(total) < 2 or decision.total == total
        return True
    return False


STEPS = 60


@pytest.mark.parametrize("seed", range(24))
def test_a_sequence_is_decided_as_it_is_without_memory(seed, moody, monkeypatch):
    replace(monkeypatch, "within", lambda seconds, function, *arguments, **more: function(*arguments))  # in no thread
    dice, server = random.Random(seed), Server()
    for i in range(10):
        server.put(random_node(dice, i))
    server.put({"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"volumeName": "v"}})
    kinds = [random_kind(dice) for _ in range(6)]
    policies = {title: {"my-scheduler": read_policy(
        {"kind": "Policy", "apiVersion": "v1", **body})} for title, body in POLICIES.items()}
    policies |= {title: read_configuration({
        "kind": "KubeSchedulerConfiguration", "apiVersion": CONFIGURATION_VERSION, **body}, "my-scheduler")
        for title, body in CONFIGURATIONS.items()}
    cluster, title = a_cluster(server), dice.choice([*policies])
    cluster.cache.snapshot.is_live = True
    snapshot, remembered = cluster.look(policies[title]), 0
    for step in range(STEPS):
        if dice.random() < 0.25:
            change_something(dice, server, moody)
            if dice.random() < 0.2:
                title = dice.choice([*policies])
        policy, kind = policies[title]["my-scheduler"], dice.choice(kinds)
        incoming = pod(f"p{step}", **kind)
        server.put(incoming)
        waiting = server.objects["pods", kind["namespace"], f"p{step}"]
        snapshot = cluster.look(policies[title])
        without = a_cluster(server)
        plain = schedule(FullPod(waiting), without.look(policies[title]), policy)
        remembered += bool(snapshot.memory.findings)
        thing = cluster.cache.pods[f"{kind['namespace']}/p{step}"]
        vars(thing).update(record=PodRecord(thing))
        decision = schedule(thing, snapshot, policy)
        assert everything(decision) == everything(plain), f"seed {seed}, step {step}, {title}: {kind}"
        if not policy.always_check_all:
            says_what_the_plain_loops_find(decision, without.snapshot, policy)
        if decision.node:
            cluster.cycle.assume(decision)
            server.put({**waiting, "spec": {**waiting["spec"], "nodeName": decision.node}})
        else:
            server.delete(waiting)
    assert remembered > STEPS / 2


SELECTORS = [
    {"matchLabels": {"app": "x"}}, {"matchLabels": {"app": "y", "team": "a"}}, {"matchLabels": {"team": "b"}}, {}, None,
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]},
    {"matchExpressions": [{"key": "team", "operator": "Exists"}], "matchLabels": {"app": "z"}},
    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}]
INVALID = {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}  # which no API server lets pass
OWNERS = {"Service": "v1", "ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}


def random_owner(dice, namespaces="nm", invalid=0.05):
    """A Service, a ReplicaSet, ... in one of some namespaces."""
    kind = dice.choice([*OWNERS])
    selector = INVALID if dice.random() < invalid else dice.choice(SELECTORS)
    if kind in ("Service", "ReplicationController"):
        selector = (selector or {}).get("matchLabels")
    return {"apiVersion": OWNERS[kind], "kind": kind, "metadata": {"name": dice.choice("abcde"), "namespace": dice.choice(namespaces)},
            "spec": {"selector": selector}, "status": {"replicas": dice.randrange(9)}}


def change_owners(dice, server):
    """Have an owner come, change or go; or all of a namespace, which comes again bit by bit."""
    there = [thing for resource in OWNING_RESOURCES for thing in server.all(resource)]
    if there and dice.random() < 0.3:
        server.delete(dice.choice(there))
    elif there and dice.random() < 0.1:
        for thing in there:
            if thing["metadata"]["namespace"] == "n":
                server.delete(thing)
    else:
        server.put(random_owner(dice))


@pytest.mark.parametrize("seed", range(16))
def test_a_sequence_with_owners_is_decided_as_it_is_without_memory(seed):
    """Pods of two namespaces spread by what selects them, and by their controllers, which come, change and go."""
    dice, server = random.Random(seed), Server()
    for i in range(9):
        server.put(node(f"n{i}", labels={ZONE: "abc"[i % 3], HOSTNAME: f"n{i}"}))
    bodies = [{}, {"predicates": [{"name": "services", "argument": {"serviceAffinity": {"labels": [ZONE]}}}], "priorities": [
        {"name": "apart", "weight": 2, "argument": {"serviceAntiAffinity": {"label": ZONE}}}]}]
    policies = [{"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", **body})} for body in bodies]
    policies += [read_configuration({
        "kind": "KubeSchedulerConfiguration", "apiVersion": CONFIGURATION_VERSION, **body}, "my-scheduler")
        for body in CONFIGURATIONS.values()]
    cluster, scores = a_cluster(server), set()
    for step in range(60):
        for _ in range(dice.choice([0, 1, 1, 2])):
            change_owners(dice, server)
        kind = dice.choice([*OWNERS])
        owner = {"apiVersion": OWNERS[kind], "kind": kind, "name": dice.choice("abcde"), "uid": "u", "controller": True}
        labels = dice.choice([{"app": dice.choice("xyz")}, {"app": dice.choice("xyz"), "team": dice.choice("ab")}, {}])
        namespace, policy = dice.choice("nm"), dice.choice(policies)
        server.put(pod(f"p{step}", namespace=namespace, labels=labels, metadata={"ownerReferences": [owner]}))
        waiting = server.objects["pods", namespace, f"p{step}"]
        plain = schedule(
            FullPod(waiting), a_cluster(server).look(policy), policy["my-scheduler"])
        snapshot = cluster.look(policy)
        thing = cluster.cache.pods[f"{namespace}/p{step}"]
        thing.record = PodRecord(thing)
        decision = schedule(thing, snapshot, policy["my-scheduler"])
        assert everything(decision) == everything(plain), f"seed {seed}, step {step}"
        scores.add(json.dumps(decision.raw))
        if decision.node:
            cluster.cycle.assume(decision)
            server.put({**waiting, "spec": {**waiting["spec"], "nodeName": decision.node}})
    assert len(scores) > 20


def selectors_one_by_one(waiting, resource, objects):
    """What `selectors_of` is said to return: of all objects of the namespace, those that select the pod."""
    selectors = []
    for key in sorted(objects):
        if key.startswith(f"{waiting.namespace}/"):
            try:
                selectors.append(label_selector(selector_in(objects[key], resource)))
            except InvalidSelector:
                return []
    return [selector for selector in selectors if labels_match(waiting.labels, selector)]


@pytest.mark.parametrize("seed", range(10))
def test_selectors_are_those_of_the_objects_as_they_are_by_now(seed):
    """Objects come, change and go, one by one as they are told of, or all at once as they are listed."""
    dice, snapshot = random.Random(seed), FullSnapshot({}, {resource: {} for resource in OWNING_RESOURCES})
    found = collections.Counter()
    for _ in range(200):
        objects = {resource: dict(known) for resource, known in snapshot.objects.items()}
        for _ in range(dice.choice([0, 1, 3])):
            owner = random_owner(dice, namespaces=["n", "m", "nn"], invalid=0.1)
            of_kind = objects[f"{owner['kind'].lower()}s"]
            of_kind[f"{owner['metadata']['namespace']}/{owner['metadata']['name']}"] = owner
            if dice.random() < 0.6:
                del of_kind[dice.choice([*of_kind])]
        if dice.random() < 0.05:
            objects = {resource: copy.deepcopy(dict(sorted(known.items()))) for resource, known in objects.items()}
        snapshot.objects = objects
        labels = {key: dice.choice("xyzab") for key in ("app", "team") if dice.random() < 0.7}
        waiting = FullPod(pod("p", namespace=dice.choice(["n", "m", "nn"]), labels=labels))
        for resource in OWNING_RESOURCES:
            selectors = selectors_of(waiting, snapshot, resource)
            assert selectors == selectors_one_by_one(waiting, resource, objects[resource])
            found[len(selectors)] += 1
    assert found[1] > 50 and found[2]


def test_a_selector_is_read_once_and_pods_are_asked_for_in_their_namespace_only(monkeypatch):
    """Of a ReplicaSet that is scaled, too; 40 namespaces with a Service, a ReplicaSet and a pod each."""
    server, read, asked = Server(), [], []
    plain_read, plain_meets = label_selector, labels_match
    replace(monkeypatch, "label_selector", lambda selector: read.append(selector) or plain_read(selector))
    replace(monkeypatch, "labels_match", lambda labels, wanted: asked.append(labels) or plain_meets(labels, wanted))
    of_pods = {"app": "x"}
    for i in range(40):
        server.put(node(f"n{i}", labels={HOSTNAME: f"n{i}", ZONE: "abc"[i % 3]}))
        server.put(pod("there", namespace=f"team-{i}", labels=of_pods, nodeName=f"n{i}"))
        for kind in ("Service", "ReplicaSet"):
            selector = of_pods if kind == "Service" else {"matchLabels": of_pods}
            server.put({"apiVersion": OWNERS[kind], "kind": kind, "metadata": {"name": "x", "namespace": f"team-{i}"},
                        "spec": {"selector": selector}})
    policy = read_policy({"kind": "Policy", "apiVersion": "v1"})
    cluster = a_cluster(server)
    for i in range(40):
        waiting = FullPod(pod(f"p{i}", namespace=f"team-{i}", labels=of_pods))
        asked.clear()
        assert schedule(waiting, cluster.look({"my-scheduler": policy}), policy).node
        assert len(asked) < 20, "not the pods, nor the selectors, of 40 namespaces"
    assert len(read) == 80
    server.put({**server.all("replicasets")[0], "status": {"replicas": 7}})
    assert schedule(waiting, cluster.look({"my-scheduler": policy}), policy).node
    assert len(read) == 81


DRIVERS = ["csi.example.com", "kubernetes.io/gce-pd"]


def change_claims(dice, server):
    """Have something come, change or go that claims to volumes rest on."""
    name, driver, zone = dice.choice("abcdef"), dice.choice(DRIVERS), dice.choice("abc")
    reach = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": [zone]}]}]}}
    disk = {"csi": {"driver": driver, "volumeHandle": f"h-{name}"}} if driver == DRIVERS[0] else {"gcePersistentDisk": {"pdName": name}}
    owner = {"claimRef": {"namespace": "default", "name": name}} if dice.random() < 0.3 else {}
    selected = {"annotations": {SELECTED_NODE: f"n{dice.randrange(8)}"}} if dice.random() < 0.1 else {}
    things = [
        claim(name, of=dice.choice(["late", "later"]), metadata=selected), claim(name, of="late", volumeName=f"v-{dice.choice('abcdef')}"),
        volume(f"v-{name}", of="late", nodeAffinity=reach, phase=dice.choice(["Available", "Available", "Bound"]), **disk, **owner),
        volume(f"v-{name}", of="late", metadata={"labels": {ZONE: zone}}, **disk), storage_class("late", driver), storage_class("later", driver),
        {"kind": "CSINode", "metadata": {"name": f"n{dice.randrange(8)}"}, "spec": {"drivers": [
            {"name": of, "allocatable": {"count": dice.choice([1, 2])}} for of in (DRIVERS[0], "pd.csi.storage.gke.io")]}},
        {"kind": "CSIDriver", "metadata": {"name": driver}, "spec": {"storageCapacity": dice.random() < 0.5}},
        {"kind": "CSIStorageCapacity", "metadata": {"name": "c", "namespace": "default"}, "storageClassName": "late",
         "capacity": dice.choice(["1Mi", "9Gi"]), "nodeTopology": {"matchLabels": {ZONE: zone}}},
        {"kind": "VolumeAttachment", "metadata": {"name": name}, "spec": {
            "attacher": DRIVERS[0], "nodeName": f"n{dice.randrange(8)}", "source": {"persistentVolumeName": f"v-{name}"}}}]
    gone = server.all("persistentvolumeclaims") + server.all("persistentvolumes") + server.all("volumeattachments")
    if gone and dice.random() < 0.15:
        server.delete(dice.choice(gone))
    else:
        server.put(dice.choice(things))


@pytest.mark.parametrize("seed", range(16))
def test_a_sequence_with_claims_is_decided_as_it_is_without_memory(seed, monkeypatch):
    """One cluster remembers, the other one is new for each decision."""
    dice, server = random.Random(seed), Server()
    policies = load_policies("DefaultProvider", "my-scheduler") if seed % 2 else read_configuration(
        {"kind": "KubeSchedulerConfiguration", "apiVersion": CONFIGURATION_VERSION}, "my-scheduler")
    policy = policies["my-scheduler"]
    for i in range(8):
        server.put(node(f"n{i}", labels={ZONE: "abc"[i % 3], HOSTNAME: f"n{i}"}, status={"allocatable": {
            "cpu": "9", "memory": "9Gi", "pods": "20", "attachable-volumes-gce-pd": str(dice.choice([1, 2, 3]))}}))
    for name in "abcdef":
        server.put(claim(name, of="late"))
    for driver in DRIVERS:
        server.put(storage_class({DRIVERS[0]: "late"}.get(driver, "later"), driver))
    for _ in range(10):
        change_claims(dice, server)
    cluster = a_cluster(server)
    cluster.cache.snapshot.is_live = True
    placed, messages = [], collections.Counter()
    for step in range(80):
        if dice.random() < 0.5:
            change_claims(dice, server)
        if placed and dice.random() < 0.1:
            server.delete(server.objects["pods", "default", placed.pop(dice.randrange(len(placed)))])
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dice.sample("abcdef", dice.choice([1, 1, 2]))]
        volumes += [{"name": "disk", "gcePersistentDisk": {"pdName": dice.choice("abcdef")}}] * (dice.random() < 0.2)
        server.put(pod(f"p{step}", labels={"step": str(step)}, volumes=volumes, metadata={"namespace": "default"}))
        snapshot = cluster.look(policies)
        waiting = server.objects["pods", "default", f"p{step}"]
        plain = schedule(FullPod(waiting), a_cluster(server).look(policies), policy)
        thing = cluster.cache.pods[f"default/p{step}"]
        thing.record = PodRecord(thing)
        decision = schedule(thing, snapshot, policy)
        assert everything(decision) == everything(plain), f"seed {seed}, step {step}"
        messages[decision.message and re.sub("[0-9]+|[^ ]*$", "", decision.message)] += 1
        server.delete(waiting)
        if decision.node:
            with contextlib.suppress(Unschedulable):
                bind_volumes(thing, snapshot.nodes[decision.node], snapshot)  # sets volumes aside
            if dice.random() < 0.3:
                thing.record.put_back()
            cluster.cycle.assume(decision)
            server.put({**waiting, "spec": {**waiting["spec"], "nodeName": decision.node}})
            placed.append(f"p{step}")
    assert messages[None] > 1 and len(messages) > 2, messages


class NotingPod(FullPod):
    """A pod that notes which of its attributes are looked at, while there is a set to note them in."""

    noted = None

    def __getattribute__(self, name):
        noted = NotingPod.noted
        if noted is None or name.startswith("__"):
            return super().__getattribute__(name)
        noted.add(name)
        NotingPod.noted = None  # what an attribute itself looks at is its own affair
        try:
            return super().__getattribute__(name)
        finally:
            NotingPod.noted = noted


def golden_cases():
    """Yield (Policies, the cluster's objects, pods in their JSON) of kube-scheduler's own decisions."""
    for line in itertools.islice(gzip.open(GOLDEN / "decisions.jsonl.gz", "rt"), 0, None, 3):
        case = json.loads(line)["case"]
        waiting = [thing for thing in case["objects"] if thing["kind"] == "Pod" and not thing["spec"].get("nodeName")]
        yield {"my-scheduler": read_policy(case["policy"])}, case["objects"], waiting
    for line in gzip.open(GOLDEN / "modern.jsonl.gz", "rt"):
        sequence = json.loads(line)
        policies = read_configuration(sequence["config"], "my-scheduler")
        yield policies, sequence["objects"], [step["pod"] for step in sequence["steps"]]
    configuration = {"apiVersion": CONFIGURATION_VERSION, "kind": "KubeSchedulerConfiguration"}
    for line in itertools.islice(gzip.open(GOLDEN / "clusters.jsonl.gz", "rt"), 0, None, 3):
        case = json.loads(line)
        waiting = [thing for thing in case["cluster"] if thing["kind"] == "Pod" and not thing["spec"].get("nodeName")]
        yield read_configuration(configuration, "kube"), case["cluster"], waiting


def test_what_golden_cases_come_to_is_what_the_plain_loops_find():
    """Of all rules, whoever keeps their answers; only extenders and alwaysCheckAllPredicates are not the script's."""
    compared = 0
    for policies, objects, raws in golden_cases():
        [policy] = policies.values()
        if policy.extenders or policy.always_check_all:
            continue
        snapshot = cluster_of(*objects).look(policies)
        for waiting in map(FullPod, raws):
            compared += says_what_the_plain_loops_find(schedule(waiting, snapshot, policy), snapshot, policy)
    assert compared > 1000


def test_all_that_a_built_in_rule_looks_at_is_noted():
    """Each is asked about pods of golden cases, as it is when it decides, and by a pod that notes more simply."""
    asked = collections.defaultdict(collections.Counter)  # Policy or Profile -> rule -> about how many pods it was asked
    for policies, objects, raws in golden_cases():
        [policy] = policies.values()
        snapshot = cluster_of(*objects).look(policies)
        questions = [(rule, "reasons") for rule in policy.predicates_to_ask()]
        questions += [(rule, "score") for rule in policy.priorities]
        for raw, (rule, question) in itertools.product(raws, questions):
            if asked[type(policy)][rule.name] == 50:  # more take long, and differ little
                continue
            with contextlib.suppress(Unschedulable):
                for prepared in prepare([rule] if rule.steady else [], FullPod(raw), snapshot.nodes, snapshot):
                    asked[type(policy)][rule.name] += 1
                    for each in snapshot.nodes.values():
                        noted, seen_node = set(), Seen(each)
                        seen_pod = prepared.seen = Seen(FullPod(raw))
                        answer = getattr(prepared, question)(each)
                        prepared.seen = NotingPod(raw)
                        NotingPod.noted = noted
                        try:
                            assert getattr(prepared, question)(each) == answer
                        finally:
                            NotingPod.noted = None
                        assert noted - {"derived"} == seen_pod._names.keys()
                        assert getattr(prepared, question)(seen_node) == answer
                        if not seen_node._names:
                            assert {repr(getattr(prepared, question)(other)) for other in snapshot.nodes.values()} == {repr(answer)}
    built_in = [rule for catalogue in CATALOGUES.values() for rule in catalogue.values()
                if getattr(rule.function, "func", rule.function).__module__.startswith("scheduler")]
    steady = {rule.name for rule in built_in if rule.steady}
    assert {rule.name for rule in built_in} - steady == {"RandomPriority"}
    assert asked[FullPolicy].keys() >= steady - {"Preemption"}  # which no golden case names
    assert asked[Profile].keys() >= steady & OVERRIDES.keys() - {"Preemption"}


CHOSEN = set()  # some pods and nodes
ATTRIBUTES = ["labels", "node_name", "tolerations", "name", "requests", "is_late", "spec", "volumes", "priority", "annotations"]


def random_rule(dice, depth=4):
    """A function of (pod, node) that looks at this and that, and at other things depending on what it finds."""
    if depth == 0 or dice.random() < 0.15:
        answer = dice.choice(["", "", "a reason", "another"])
        return lambda pod, node: answer
    yes, no = random_rule(dice, depth - 1), random_rule(dice, depth - 1)
    what, salt = dice.choice(ATTRIBUTES), str(dice.random())
    tests = [
        lambda pod, node: len(repr(getattr(pod, what, None)) + salt) % 2,
        lambda pod, node: hasattr(pod, what) and bool(getattr(pod, what)),
        lambda pod, node: len(node.labels.get("zone", "") + salt) % 2,
        lambda pod, node: len(node.pods) % 2,
        lambda pod, node: script.tolerates(pod, Taint("k", salt[-1], "NoSchedule")),
        lambda pod, node: bool(disks_of(pod)),
        lambda pod, node: bool(pick(pod.raw, dict, "metadata", "labels").get("app")),
        lambda pod, node: vars(pod)["priority"] > 3,
        lambda pod, node: isinstance(pod, FullPod) and copy.copy(pod).priority > 2,
        lambda pod, node: pod in CHOSEN,
        lambda pod, node: node in CHOSEN]
    test = dice.choice(tests[:6] * 2 + tests[6:])
    return lambda pod, node: (yes if test(pod, node) else no)(pod, node)


def random_pod(dice, i):
    """A pod that is like others in much, and in much not."""
    more = {"tolerations": [{"key": "k", "operator": "Equal", "value": dice.choice("0123456789")}]} if dice.random() < 0.5 else {}
    if dice.random() < 0.3:
        more["volumes"] = [{"name": "disk", "gcePersistentDisk": {"pdName": dice.choice("ab")}}]
    labels = {"app": dice.choice("xyz")} if dice.random() < 0.7 else {}
    return pod(f"p{i}", {"cpu": dice.choice(["100m", "200m"])}, labels=labels, priority=dice.randrange(5),
               metadata={"annotations": dice.choice([{}, {"late": "yes"}])}, **more)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_a_steady_rule_looks_at_it_is_asked_as_if_nothing_were_remembered(seed, monkeypatch):
    """Rules that nobody has said anything of; some pods have an attribute that others lack."""
    plain = FullPod.__init__

    def late(pod, raw):
        """Read an annotation, where it is there."""
        plain(pod, raw)
        if "late" in pod.annotations:
            pod.is_late = True

    dice, rules = random.Random(seed), []
    monkeypatch.setattr(FullPod, "__init__", late)
    try:
        for i in range(6):
            decide = random_rule(dice)
            predicate(f"Any{i}", steady=True)(lambda pod, node, decide=decide: [decide(pod, node)] if decide(pod, node) else [])
            priority(f"Any{i}", steady=True)(lambda pod, node, decide=decide: len(decide(pod, node)) * 10)
            rules.append({"name": f"Any{i}", "weight": i + 1})
        policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [
            {"name": rule["name"]} for rule in rules[:2]], "priorities": rules[2:]})
        nodes = [node(f"n{i}", labels={"zone": "abc"[:dice.randrange(4)]}) for i in range(8)]
        cluster = cluster_of(*nodes)
        snapshot = cluster.look({"my-scheduler": policy})
        CHOSEN.update(dice.sample([*snapshot.nodes.values()], 4))
        for i in range(60):
            waiting = FullPod(random_pod(dice, i))
            waiting.record = PodRecord(waiting)
            CHOSEN.update([waiting] * dice.randrange(2))
            decision = schedule(waiting, snapshot, policy)
            assert says_what_the_plain_loops_find(decision, snapshot, policy) or not decision.node
            for rule in policy.rules():
                for each in snapshot.nodes.values():
                    said = decision.failed.get(each.name, {}).get(rule.title)
                    assert said is None or said == rule.function(waiting, each)
            if decision.node and dice.random() < 0.7:
                cluster.cycle.assume(decision)
    finally:
        CHOSEN.clear()
        for i in range(6):
            PREDICATES.pop(f"Any{i}", None)
            PRIORITIES.pop(f"Any{i}", None)


def test_a_predicate_that_looks_at_no_node_is_asked_once_for_all_of_them_and_all_pods_that_are_alike():
    """As the one about host ports is, if the pod has none."""
    asked = []

    @predicate("Quiet", steady=True)
    def quiet(pod, node):
        """Only pods that say so need a node of their team."""
        asked.append(pod.name if pod.labels.get("team") else "")
        if pod.labels.get("team", node.labels.get("team") if "team" in pod.labels else None):
            yield "no" if node.labels.get("team") != pod.labels["team"] else "yes"

    try:
        policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Quiet"}], "priorities": []})
        snapshot = cluster_of(*(node(f"n{i}") for i in range(9))).look({"my-scheduler": policy})
        for i in range(5):
            assert schedule(FullPod(pod(f"p{i}")), snapshot, policy).node
        assert asked == [""]
        assert not schedule(FullPod(pod("q", labels={"team": "a"})), snapshot, policy).node
        assert len(asked) == 10  # each node once
    finally:
        PREDICATES.pop("Quiet")


@table("reads, asked", {
    "a value that many nodes share": (lambda node: node.unschedulable, 2),
    "more of some nodes than of others": (lambda node: not node.unschedulable or node.name == "n7", 1 + 4),
    "what cannot be looked up": (lambda node: node.unschedulable or "a" in node.labels, 9),
})
def test_a_rule_is_asked_once_for_nodes_that_are_equal_in_all_that_it_reads(reads, asked):
    calls = []

    def function(pod, node):
        """Count the calls."""
        calls.append(None)
        return ["no"] if reads(node) else []

    policy = FullPolicy([FullRule("Reads", function, title="Reads", steady=True)], [])
    snapshot = cluster_of(*(node(f"n{i}", unschedulable=bool(i % 2)) for i in range(9))).look({"my-scheduler": policy})
    decision = schedule(FullPod(pod("p")), snapshot, policy)
    assert len(calls) == asked
    assert [*decision.failed] == [name for name, each in snapshot.nodes.items() if reads(each)]


def test_the_totals_of_other_rules_are_others_even_if_these_look_at_nothing(monkeypatch):
    """Two priorities, of which each has something to say to one pod; to both of them all pods are alike."""
    def wants(what):
        return lambda pod, nodes, snapshot: what if pod.annotations.get("wants") == what else SKIP

    for what in ("ssd", "gpu"):
        monkeypatch.setitem(PRIORITIES, what, None)
        del PRIORITIES[what]
        priority(what, metadata=wants(what), steady=True)(lambda pod, node, metadata: 100 if metadata in node.labels else 0)
    policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [
        {"name": "ssd", "weight": 1}, {"name": "gpu", "weight": 1}]})
    snapshot = cluster_of(node("a", labels={"ssd": ""}), node("b", labels={"gpu": ""})).look({"my-scheduler": policy})
    for what, total in (("ssd", {"a": 100, "b": 0}), ("gpu", {"a": 0, "b": 100})) * 2:
        waiting = FullPod(pod("p", metadata={"annotations": {"wants": what}}))
        assert schedule(waiting, snapshot, policy).total == total


def test_a_property_that_raises_for_a_pod_that_no_rule_asks_for_it_stops_nobody(monkeypatch):
    monkeypatch.setattr(FullPod, "team", property(lambda pod: pod.raw["metadata"]["labels"]["team"]), raising=False)
    monkeypatch.setitem(PREDICATES, "HostName", dataclasses.replace(
        PREDICATES["HostName"], function=lambda pod, node: [pod.team] if pod.namespace == "teams" else []))
    policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "HostName"}], "priorities": []})
    snapshot = cluster_of(node("a")).look({"my-scheduler": policy})
    decisions = [schedule(FullPod(each), snapshot, policy) for each in (
        pod("p", namespace="teams", labels={"team": "red"}), pod("p"), pod("p", namespace="teams", labels={"team": "blue"}))]
    assert [decision.failed.message if decision.failed else decision.node for decision in decisions] == [
        "0/1 nodes are available: 1 red.", "a", "0/1 nodes are available: 1 blue."]


def test_a_node_that_metadata_has_chosen_is_told_from_the_others(monkeypatch):
    monkeypatch.setitem(PRIORITIES, "Chosen", None)
    del PRIORITIES["Chosen"]
    priority("Chosen", metadata=lambda pod, nodes, snapshot: nodes[0], steady=True)(
        lambda pod, node, metadata: 100 * (node is metadata))
    policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [{"name": "Chosen", "weight": 1}]})
    snapshot = cluster_of(node("a"), node("b")).look({"my-scheduler": policy})
    assert schedule(FullPod(pod("p")), snapshot, policy).total == {"a": 100, "b": 0}


def test_what_a_rule_looks_at_when_it_fails_does_not_count():
    """Here, the pod's name, for the message: pods go on sharing what the rule says to them."""
    asked = []

    @predicate("Fails", steady=True)
    def fails(pod, node):
        """It raises an error about pods that ask for nothing."""
        asked.append(node.name)
        if pod.requests["cpu"] == 0:
            raise Unschedulable(f"{pod.name} asks for nothing")
        return []

    try:
        policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Fails"}], "priorities": []})
        snapshot = cluster_of(node("a"), node("b")).look({"my-scheduler": policy})
        messages = [schedule(FullPod(pod(name, requests)), snapshot, policy).message
                    for name, requests in (("p", {}), ("q", {"cpu": "1"}), ("r", {"cpu": "1"}), ("s", {}), ("t", {"cpu": "1"}))]
        assert messages == ["p asks for nothing", None, None, "s asks for nothing", None]
        [rule] = [rule for rule in policy.predicates if rule.name == "Fails"]
        assert [*rule.reads] == ["requests"] and len(asked) == 4  # nobody for `r` and `t`
    finally:
        PREDICATES.pop("Fails")


def test_what_a_steady_rule_writes_into_a_pod_is_its_own_affair():
    written = []

    @predicate("Writes", steady=True)
    def writes(pod, node):
        """It keeps in the pod what it has worked out."""
        if not hasattr(pod, "kept"):
            pod.kept = pod.labels.get("app")
        return [] if pod.kept == node.labels.get("app") else ["no"]

    try:
        policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Writes"}], "priorities": []})
        snapshot = cluster_of(node("a", labels={"app": "a"}), node("b", labels={"app": "b"})).look({"my-scheduler": policy})
        for app in "abab":
            waiting = FullPod(pod("p", labels={"app": app}))
            written.append(schedule(waiting, snapshot, policy).node)
            assert not hasattr(waiting, "kept")
        assert written == ["a", "b", "a", "b"]
    finally:
        PREDICATES.pop("Writes")


def one_name_for_two(dice):
    """A predicate and a priority of one name, of which only one has something to say."""
    predicate("Odd", steady=True)(lambda pod, node: [])
    priority("Odd", steady=True, metadata=lambda pod, nodes, snapshot: None)(lambda pod, node, metadata: 7)


def answers_to_none(dice):
    """A predicate to which metadata that is None says something."""
    @predicate("Odd", steady=True, metadata=lambda pod, nodes, snapshot: None)
    def odd(pod, node, metadata):
        """There is a quota."""
        if metadata is None:
            yield "no quota has been set"


def asked_every_time(dice):
    """A predicate that is not steady."""
    @predicate("Odd")
    def odd(pod, node):
        """The dice allow it."""
        return ["no luck"] if dice[0] == node.name else []


def reduces_in_place(dice):
    """A priority whose `reduce` changes what it is given, as NormalizeScore does in Go."""
    def normalize(points):
        """Stretch the scores so that the highest is 100."""
        highest = max(points.values())
        for name in points:
            points[name] = 100 * points[name] // highest
        return points

    priority("Odd", steady=True, reduce=normalize)(lambda pod, node: len(node.pods) + 1)


def reduces_by_chance(dice):
    """A priority that is not steady, of which only `reduce` changes its mind."""
    def reduce(points):
        """Score the nodes by the dice."""
        return {name: 100 * (name == dice[0]) for name in points}

    priority("Odd", reduce=reduce)(lambda pod, node: 1)


@pytest.mark.parametrize("register", [
    one_name_for_two, answers_to_none, asked_every_time, reduces_in_place, reduces_by_chance], ids=lambda f: f.__doc__)
def test_an_odd_rule_of_ones_own_is_asked_as_if_nothing_were_remembered(register):
    server, dice = Server(), ["n0"]
    server.put(node("n0"))
    server.put(node("n1"))
    register(dice)
    try:
        policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", **{
            part: [{"name": "Odd", "weight": 1} if part == "priorities" else {"name": "Odd"}] * ("Odd" in catalogue)
            for part, catalogue in CATALOGUES.items()}})}
        cluster, decisions = a_cluster(server), []
        cluster.cache.snapshot.is_live = True
        for name in ("n0", "n1", "n0"):
            dice[0] = name
            with_memory, without = (schedule(FullPod(pod("p")), of.look(policies), policies[
                "my-scheduler"]) for of in (cluster, a_cluster(server)))
            assert everything(with_memory) == everything(without), f"{name}: {with_memory.message}"
            decisions.append(with_memory)
            server.put(pod(f"new-{name}", nodeName="n0"))
        assert not any("TypeError" in str(decision.message) for decision in decisions)
        assert register is not answers_to_none or decisions[0].node is None
    finally:
        PREDICATES.pop("Odd", None)
        PRIORITIES.pop("Odd", None)


def test_a_rule_is_not_asked_again_before_those_ahead_of_it_whatever_it_has_said():
    """It may rely on them: here, on a label that the node has lost."""
    server, full = Server(), {"a": 0, "b": 1}

    @predicate("ZoneQuota", steady=True, metadata=lambda pod, nodes, snapshot: dict(full))
    def zone_quota(pod, node, metadata):
        """The zone has room."""
        return [] if metadata[node.labels["zone"]] else ["the zone is full"]

    try:
        policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [
            {"name": "zoned", "argument": {"labelsPresence": {"labels": ["zone"], "presence": True}}},
            {"name": "ZoneQuota"}]})}
        cluster = a_cluster(server)
        cluster.cache.snapshot.is_live = True
        for labels in ({"zone": "a"}, {}, {}):
            server.put(node("n0", labels=labels))
            server.put(node("n1", labels={"zone": "b"}))
            full["c"] = full.get("c", 0) + 1  # so that the rule's metadata is another one
            decision = schedule(FullPod(pod("p")), cluster.look(policies), policies["my-scheduler"])
            assert decision.node == "n1", decision.message
    finally:
        PREDICATES.pop("ZoneQuota", None)


TOKEN = "kube-api-access-%s"


@table("spec, alike", {  # of pods that differ in the random part of what is called as the volumes of tokens are
    "a token's volume, and where it is mounted": ({
        "volumes": [{"name": TOKEN, "projected": {}}],
        "containers": [{"name": "c", "volumeMounts": [{"name": TOKEN, "mountPath": "/var"}]}],
        "initContainers": [{"name": "i", "volumeMounts": [{"name": TOKEN, "mountPath": "/var"}]}]}, True),
    "a disk's volume": ({"volumes": [{"name": TOKEN, "gcePersistentDisk": {"pdName": "d"}}]}, False),
    "a node selector": ({"nodeSelector": {"name": TOKEN}}, False),
    "a container": ({"containers": [{"name": TOKEN}]}, False),
    "a resource": ({"volumes": [{"name": TOKEN, "projected": {}}], "overhead": {TOKEN: "1"}}, False),
})
def test_pods_are_alike_whatever_their_tokens_volumes_are_called(spec, alike):
    kinds = {signature(FullPod(json.loads(json.dumps(pod("p", **spec)).replace("%s", end))), ("spec",))
             for end in ("aaaaa", "bbbbb")}
    assert (len(kinds) == 1) == alike


@pytest.fixture
def own_rules():
    """A predicate and a priority of one's own, of which both say that they are steady."""
    predicate("Own", steady=True)(lambda pod, node: [])
    priority("OwnPriority", steady=True)(lambda pod, node: 1)
    yield
    del PREDICATES["Own"], PRIORITIES["OwnPriority"]


def test_a_pod_that_leaves_no_domain_full_has_no_nodes_asked_again_about_spreading():
    spread = [{"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}}]
    policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1"})}
    nodes = [node(f"n{i}", labels={ZONE: "abc"[i % 3]}) for i in range(9)]
    found = []
    for there in ([], [pod("there", labels={"a": "b"}, nodeName="n0")]):
        snapshot = cluster_of(*nodes, *there).look(policies)
        waiting = FullPod(pod("p", labels={"a": "b"}, topologySpreadConstraints=spread))
        found.append(hard_spread(waiting, [*snapshot.nodes.values()], snapshot))
    assert [one == other for one, other in zip(*found, strict=True)] == [True], "what the answers rest on is the same"


CLAIMS = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-1"}}]


@table("policy, other, asked", {
    "a label of its own": ({}, {"labels": {"apps.kubernetes.io/pod-index": "1"}}, 1),
    "a host name of its own": ({}, {"hostname": "web-1"}, 1),
    "an annotation of its own": ({}, {"metadata": {"annotations": {"a": "1"}}}, 1),
    "a variable of its own": ({}, {"containers": [
        {"name": "main", "image": "nginx", "env": [{"name": "INDEX", "value": "1"}]}]}, 1),
    "another request": ({}, {"requests": {"cpu": "1"}}, 1),
    "a toleration": ({}, {"tolerations": [{"key": "k", "operator": "Exists"}]}, 8),
    "a name of its own, and a predicate of one's own": ({"predicates": [{"name": "Own"}]}, {}, 1),
    "a claim of its own": ({}, {"volumes": CLAIMS}, 1),
    "a claim of its own, and all predicates are asked": ({"alwaysCheckAllPredicates": True}, {"volumes": CLAIMS}, 1),
    "a label of its own, and predicates of one's own": (
        {"predicates": [{"name": "Own"}, {"name": "Moody"}]}, {"labels": {"a": "1"}}, 1),
    "a label of its own, and a priority of one's own, whose predicates are built in": (
        {"priorities": [{"name": "OwnPriority", "weight": 1}]}, {"labels": {"a": "1"}}, 1),
})
def test_nodes_are_asked_again_about_a_pod_that_differs_if_a_rule_may_look_at_that(
        policy, other, asked, monkeypatch, own_rules):
    """About taints; of eight nodes one has changed, as the first pod went there."""
    cluster = cluster_of(*(node(f"n{i}") for i in range(8)), storage_class("local", "example.com/disks"), claim("data-1"))
    nodes = set()
    tolerates = PREDICATES["PodToleratesNodeTaints"]
    monkeypatch.setitem(PREDICATES, "PodToleratesNodeTaints", dataclasses.replace(tolerates,
        function=lambda pod, node: nodes.add(node.name) or [*pod.tolerations][:0]))
    policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", **policy})}
    snapshot = cluster.look(policies)
    for each in (pod("first"), pod("second", **other)):
        nodes.clear()
        waiting = FullPod(each)
        vars(waiting).update(record=PodRecord(waiting))
        cluster.cycle.assume(schedule(waiting, snapshot, policies["my-scheduler"]))
    assert len(nodes) == asked


def test_pods_are_alike_by_the_names_of_their_tokens_volumes_only():
    kinds = {signature(FullPod(pod("p", **spec)), ("spec",)) for suffix in ("aaaaa", "bbbbb") for spec in (
        {"volumes": [{"name": f"kube-api-access-{suffix}", "projected": {}}]},
        {"nodeSelector": {"x": f"kube-api-access-{suffix}"}})}
    assert len(kinds) == 3


def test_a_scoring_extender_is_heard_each_time_beside_two_priorities_of_one_name(monkeypatch):
    scores, policy = {"n0": 0, "n1": 100}, read_policy(
        {"kind": "Policy", "apiVersion": "v1", **POLICIES["two priorities under one name"]})
    extender = Extender({"urlPrefix": "http://extender", "prioritizeVerb": "score"}, "extenders[0]")
    monkeypatch.setattr(extender, "prioritize", lambda pod, nodes: [Vote("extenders[0]", 1, None, dict(scores))])
    policy.extenders, server = [extender], Server()
    server.put(node("n0"))
    server.put(node("n1"))
    snapshot = a_cluster(server).look({"my-scheduler": policy})
    assert schedule(FullPod(pod("p")), snapshot, policy).node == "n1"
    scores.update(n0=100, n1=0)
    assert schedule(FullPod(pod("p")), snapshot, policy).node == "n0"


def test_what_was_remembered_of_a_cluster_of_other_nodes_is_forgotten():
    """Nodes come, as an autoscaler's do; each time it is another kind of pods that looks at all of them."""
    server = Server()
    cluster, policies = a_cluster(server), {"my-scheduler": read_policy(
        {"kind": "Policy", "apiVersion": "v1"})}
    for i in range(6):
        server.put(node(f"n{i}", labels={ZONE: "a"}))
        snapshot = cluster.look(policies)
        assert (snapshot.memory.findings, snapshot.memory.versions) == ({}, {})
        assert schedule(FullPod(pod("p", labels={"i": str(i)})), snapshot, policies["my-scheduler"]).node
        assert snapshot.memory.findings


@table("policy, more", {
    "pods that fit": ({}, {}),
    "pods that fit nowhere": ({}, {"nodeSelector": {"disk": "ssd"}}),
    "pods that fit nowhere, for several reasons": (
        {"alwaysCheckAllPredicates": True}, {"nodeSelector": {"disk": "ssd"}, "requests": {"cpu": "9"}}),
    "pods that spread": ({}, {"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]}),
    "pods that have to do with those on all nodes": ({}, {"affinity": {"podAntiAffinity": {
        f"preferred{WHEN}": [{"weight": i, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": {
            "matchExpressions": [{"key": f"k{i}", "operator": "DoesNotExist"}]}}} for i in range(1, 20)]}}}),
})
def test_what_is_remembered_takes_100_mib_at_most(policy, more):
    """Measured: what takes up a unit of its size, of pods of many kinds; so many may be remembered."""
    policies = {"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", **policy})}
    snapshot = cluster_of(*(node(f"n{i}", labels={ZONE: "abc"[i % 3], HOSTNAME: f"n{i}"}) for i in range(500)),
                          *(pod(f"on-{i}", nodeName=f"n{i}") for i in range(500))).look(policies)
    tracemalloc.start()
    try:
        for i in range(5):
            tolerations = [{"key": f"k{i}", "operator": "Exists"}]
            schedule(FullPod(pod(f"p{i}", tolerations=tolerations, **more)), snapshot, policies["my-scheduler"])
        size = len(snapshot.memory.findings) * (len(snapshot.nodes) + 500)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        snapshot.memory = answers.Memory()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (before - after) / size * answers.Memory.MOST < 100 * 2**20


def test_what_is_remembered_is_known_by_a_short_key_however_long_the_pod_is():
    long = FullPod(pod("p", metadata={"annotations": {"a": "x" * 20_000}}, nodeSelector={"a": "x" * 20_000}))
    assert len(signature(long, ("annotations", "spec"))) == len(signature(long, ("node_selector",))) == 16


def test_copies_of_one_object_in_manifests_are_all_there():
    """Whoever copies an object of a snapshot and renames it leaves its uid and resourceVersion as they were."""
    same = {"uid": "u", "resourceVersion": "7"}
    server = Server()
    for name in "ab":
        server.add({**node(name), "metadata": {"name": name, **same}})
        server.add(pod(name, metadata=dict(same)))
        server.add(pod(f"placed-{name}", nodeName="a", metadata={"uid": "placed"}))
    cluster = a_cluster(server)
    waiting = pending_pods(cluster, load_policies(ROOT / "policy.json", "my-scheduler"))
    assert [*cluster.look().nodes] == ["a", "b"] and [each.name for each in waiting] == ["a", "b"]
    assert sorted(each.name for each in cluster.cache.nodes["a"].pods.values()) == ["placed-a", "placed-b"]


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
        cluster = a_cluster(server)
        for mood in ("good", "bad", "good"):
            server.put(changes(mood))
            snapshot = cluster.look(policies)
            fits.append(schedule(FullPod(pod("new")), snapshot, policies["my-scheduler"]).node)
        assert fits == ["n", None, "n"]
    finally:
        PREDICATES.pop("Good", None)


def test_a_node_that_has_changed_keeps_its_pods_and_what_they_take():
    server = Server()
    server.put(node("n", labels={"zone": "a"}))
    for name in "ab":
        server.put(pod(name, {"cpu": "1"}, nodeName="n"))
    cluster = a_cluster(server)
    before = cluster.look().nodes["n"]
    server.put(node("n", cpu="8", labels={"zone": "b"}))
    after = cluster.look().nodes["n"]
    assert after is before and after.labels == {"zone": "b"} and after.allocatable["cpu"] == 8000
    assert sorted(each.name for each in after.pods.values()) == ["a", "b"] and after.requested["cpu"] == 2000


def test_a_priority_that_falls_silent_has_no_say_any_more():
    """Its metadata returns `SKIP`, whatever it said to the pod before."""
    loud = [True]

    def when_loud(pod, nodes, snapshot):
        return "loud" if loud[0] else SKIP

    priority("Loud", steady=True, metadata=when_loud)(lambda pod, node, metadata: 60 * (node.name == "a"))
    priority("Quiet", steady=True)(lambda pod, node: 50 * (node.name == "b"))
    try:
        policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [
            {"name": "Loud", "weight": 1}, {"name": "Quiet", "weight": 1}]})
        server = Server()
        server.put(node("a"))
        server.put(node("b"))
        snapshot, chosen = a_cluster(server).look({"my-scheduler": policy}), []
        for loud[0] in (True, False, True):
            chosen.append(schedule(FullPod(pod("p")), snapshot, policy).node)
        assert chosen == ["a", "b", "a"]
    finally:
        PRIORITIES.pop("Loud")
        PRIORITIES.pop("Quiet")


def test_many_kinds_of_pods_with_affinity_are_not_forgotten_all_at_once(monkeypatch):
    """Which of 1,100 kinds of others a pod means is found out once, and then only of nodes that change."""
    server, asked = Server(), []
    apart = {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"x": "y"}}}}]}}}
    for i in range(11):
        server.put(node(f"n{i}", labels={HOSTNAME: f"n{i}"}, pods="200"))
    for i in range(1100):
        server.put(pod(f"p{i}", labels={"kind": str(i)}, nodeName=f"n{i % 11}"))
    policy = read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [
        {"name": "InterPodAffinityPriority", "weight": 1}]})
    snapshot = a_cluster(server).look({"my-scheduler": policy})
    replace(monkeypatch, "count_pods", lambda node, is_meant: asked.append(node.name) or count_pods(node, is_meant))
    for _ in range(3):
        assert schedule(FullPod(pod("new", **apart)), snapshot, policy).node
    assert len(asked) == 11


def test_pods_that_are_resized_are_not_alike_if_they_count_differently_in_scores():
    two = [{"name": name, "image": "i", "resources": {"requests": {"memory": "1Gi"}}} for name in "ab"]
    kinds = {signature(FullPod(pod("p", containers=two, status={"containerStatuses": [
        {"name": name, "resources": {"requests": {"cpu": cpu}}} for name, cpu in given.items()]})), ("nonzero",))
        for given in ({"a": "2"}, {"a": "1m", "b": "1999m"})}
    assert len(kinds) == 2


DEFAULTS = {"kind": "Policy", "apiVersion": "v1"}


def test_a_pod_that_is_tried_again_meets_the_labels_that_namespaces_have_by_now():
    server, policy = Server(), read_policy(DEFAULTS)
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    server.put(node("n", labels={ZONE: "z"}))
    server.put(pod("db", namespace="other", labels={"app": "db"}, nodeName="n"))
    server.put(pod("web", affinity={"podAffinity": {f"required{WHEN}": [term]}}))
    cluster = a_cluster(server)
    for labels, chosen in (({}, None), ({"team": "a"}, "n")):
        server.put({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "other", "labels": labels}})
        snapshot = cluster.look({"my-scheduler": policy})
        assert schedule(cluster.cache.pods["default/web"], snapshot, policy).node == chosen


def test_of_pods_that_have_gone_no_affinity_term_is_kept():
    server, policy = Server(), read_policy(DEFAULTS)
    server.put(node("n", labels={ZONE: "z"}))
    snapshot = a_cluster(server).look({"my-scheduler": policy})
    gc.collect()
    known = len(TERMS)
    for i in range(20):
        term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"job": str(i)}}}
        job = FullPod(pod(f"job-{i}", affinity={"podAntiAffinity": {f"required{WHEN}": [term]}}))
        snapshot.put(job, snapshot.nodes["n"])
        assert schedule(FullPod(pod("p")), snapshot, policy).node == "n"
        assert len(placed_terms(snapshot).numbers) == 1
        snapshot.take_off(job, snapshot.nodes["n"])
    assert schedule(FullPod(pod("p")), snapshot, policy).node == "n"
    placed = placed_terms(snapshot)
    del job
    gc.collect()
    assert (placed.numbers, placed.index.filed, len(TERMS)) == ({}, {}, known)


def test_terms_of_placed_pods_are_known_as_they_come_and_go():
    """They are what starting afresh would find; and what was found before is not changed."""
    chance = random.Random(5)
    nodes = {name: types.SimpleNamespace(name=name, labels={ZONE: name}, pods={}) for name in "abc"}
    number = itertools.count()

    def seeking(labels):
        """Make a pod that must not be with pods of these labels."""
        terms = [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {label: "v"}}} for label in labels]
        return FullPod(pod("p", affinity={"podAntiAffinity": {f"required{WHEN}": terms}}))

    def there():
        return {name: terms_on(each) for name, each in nodes.items()}

    placed, before = with_terms(None, {}, there()), there()
    for _ in range(200):
        for name in chance.sample("abc", chance.randint(1, 3)):
            if nodes[name].pods and chance.random() < 0.5:
                del nodes[name].pods[chance.choice([*nodes[name].pods])]
            else:
                nodes[name].pods[next(number)] = seeking(chance.sample("klmnopq", chance.randint(1, 5)))
        was = copy.deepcopy([*placed.numbers.values()]), {label: {*found} for label, found in placed.index.filed.get("", {}).items()}
        now = there()
        latest, afresh = with_terms(placed, before, now), with_terms(None, {}, now)
        assert (latest.numbers, latest.index.filed) == (afresh.numbers, afresh.index.filed)
        assert was == ([*placed.numbers.values()], placed.index.filed.get("", {}))
        placed, before = latest, now


def test_what_is_filed_in_an_index_of_labels_is_found_until_it_is_gone():
    """Labels and namespaces that nothing has any more are forgotten; an older index is not changed."""
    def filings(text):
        return [tuple(filing.split("/")) for filing in text.split()]

    first = LabelIndex().updated(filings("a/x/n b/x/n b/y/n b/x/m"))
    second = first.updated(filings("a/x/n b/x/n c/x/n"))
    assert first.filed == {"a": {"x": {"n"}}, "b": {"x": {"n", "m"}, "y": {"n"}}}
    assert second.filed == {"b": {"x": {"m"}, "y": {"n"}}, "c": {"x": {"n"}}}
    assert (first.find("b", "xyz"), second.find("b", "x"), second.find("a", "x")) == ({"n", "m"}, {"m"}, set())


@table("requirements, labels", {
    "none": ([], [None]),
    "a label that is not there": ([("a", "DoesNotExist", [])], [None]),
    "a label, and another one": ([("a", "Exists", []), ("b", "In", ["1", "2"]), ("c", "In", ["3"])], [("c", "3")]),
    "one of two labels": ([("b", "In", ["1", "2", "1"])], [("b", "1"), ("b", "2")]),
    "what nothing has": (NOTHING, []),
})
def test_of_what_a_selector_requires_the_fewest_labels_are_looked_up(requirements, labels):
    assert labels_needed([Requirement(*each) for each in requirements]) == labels
