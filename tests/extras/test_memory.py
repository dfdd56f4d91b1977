"""The cache of rules' answers changes no decision: random sequences are decided with the cache and without it."""

import collections
import contextlib
import copy
import gzip
import itertools
import json
import math
import os
import random
import re

import pytest

from helpers.configuration import read_configuration
from helpers.everywhere import replace, script
from helpers.extras import ROOT, claim, cluster_of, new_cluster, node, pod, storage_class, volume
from helpers.policies import load_policies
from helpers.random_objects import HOSTNAME, OWNERS, POLICIES, ZONE, Server, everything, random_owner
from scheduler import Rule, Taint
from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.configuration.overrides.registry import OVERRIDES
from scheduler_extras.configuration.profile import Profile
from scheduler_extras.deciding.prepared_rules import prepare
from scheduler_extras.deciding.recorded_reads import RecordingView
from scheduler_extras.deciding.rule import CATALOGUES, PREDICATES, PRIORITIES
from scheduler_extras.live.pod_record import PodRecord
from scheduler_extras.policy.own_rules import predicate, priority
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.claims import SELECTED_NODE, bind_volumes
from scheduler_extras.rules.disks import disks_of
from scheduler_extras.rules.selectors import OWNERS as OWNING_RESOURCES


pytestmark = pytest.mark.usefixtures("changing_rules")

WITH_IMAGE = {"images": [{"names": ["nginx:latest"], "sizeBytes": 500 * 2**20}]}


CONFIGURATIONS = {
    "a configuration with the default plugins": {},
    "default constraints, and no score of affinity": {"profiles": [{
        "plugins": {"score": {"disabled": [{"name": "InterPodAffinity"}]}},
        "pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": [
            {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"},
            {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}]}}]}]},
}


GOLDEN = ROOT / "tests" / "golden"


def random_node(dice, i):
    """A random node, which may have taints, labels and images."""
    labels = {HOSTNAME: f"n{i}", ZONE: dice.choice("abc")} if dice.random() < 0.9 else {}
    if dice.random() < 0.3:
        labels["disk"] = "ssd"
    effect = dice.choice(["NoSchedule", "PreferNoSchedule"])
    taints = [{"key": "dedicated", "value": "batch", "effect": effect}] if dice.random() < 0.2 else []
    return node(f"n{i}", cpu=f"{dice.choice([1, 2, 4])}", pods=str(dice.choice([3, 110])), labels=labels, taints=taints,
                unschedulable=dice.random() < 0.05,
                status=WITH_IMAGE if dice.random() < 0.3 else {})


def random_kind(dice):
    """Random arguments of `pod`, for several pods of the same kind."""
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


def change_something(dice, server, state):
    """Change the cluster, as other programs would."""
    nodes, pods = server.all("nodes"), [item for item in server.all("pods") if item["spec"].get("nodeName")]
    what = dice.randrange(7)
    if what == 0 and len(nodes) > 2:
        server.delete(dice.choice(nodes))
    elif what in (1, 2):  # a new node, or another one with the same name
        server.put(random_node(dice, dice.randrange(14)))
    elif what == 3 and pods:
        server.delete(dice.choice(pods))
    elif what == 4 and pods:
        gone = dice.choice(pods)
        server.put({**gone, "metadata": {**gone["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    elif what == 5:
        server.put({"kind": "Namespace", "metadata": {"name": "other", "labels": {"team": dice.choice("ab")}}})
    else:
        state[0] += 1
    services = server.all("services")
    if services and dice.random() < 0.3:
        server.delete(dice.choice(services))
    if dice.random() < 0.2:
        server.put({"kind": "Service", "metadata": {"name": f"s{dice.randrange(3)}"},
                    "spec": {"selector": {"app": dice.choice("xyz")}}})


def by_the_plain_loops(pod, snapshot, policy):
    """Return the result of the script's two loops with a Policy's rules: the failed nodes, and the totals of the others."""
    def ready(rules, nodes, make=lambda each: Rule(each.rule.title, each.function)):
        """Return the prepared rules as rules of the script."""
        return [make(each) for each in prepare(rules, pod, nodes, snapshot)]

    def scored(each):
        """Return a priority whose scores are numbers, as in the script: nan for None."""
        def function(pod, node):
            score = each.function(pod, node)
            return math.nan if score is None else score

        def reduce(scores):
            return each.rule.reduce({name: None if score != score else score for name, score in scores.items()})

        return Rule(each.rule.title, function, each.rule.reduce and reduce, each.rule.weight)

    feasible, failed = script.Policy(ready(policy.predicates_to_ask(), snapshot.nodes), []).nodes_that_fit(pod, snapshot.nodes)
    plain = script.Policy([], ready(policy.priorities, feasible, scored))
    return failed, plain.prioritize(pod, feasible) if len(feasible) > 1 else dict.fromkeys(feasible)


def matches_the_plain_loops(decision, snapshot, policy):
    """Assert it, unless a rule has rejected the pod as a whole, which the loops cannot. Return whether it was compared."""
    with contextlib.suppress(Unschedulable):
        failed, total = by_the_plain_loops(decision.pod, snapshot, policy)
        assert decision.failed == failed and decision.total.keys() == total.keys()
        assert len(total) < 2 or decision.total == total
        return True
    return False


STEPS, SEEDS = 60, range(int(os.environ.get("EXAMPLES", 5)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_sequence_is_decided_as_without_the_cache(seed, changing_rules, monkeypatch):
    replace(monkeypatch, "within", lambda seconds, function, *arguments, **more: function(*arguments))  # not in a thread
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
    cluster, title = new_cluster(server), dice.choice([*policies])
    cluster.cache.snapshot.is_live = True
    snapshot, cached = cluster.refresh_snapshot(policies[title]), 0
    for step in range(STEPS):
        if dice.random() < 0.25:
            change_something(dice, server, changing_rules)
            if dice.random() < 0.2:
                title = dice.choice([*policies])
        policy, kind = policies[title]["my-scheduler"], dice.choice(kinds)
        incoming = pod(f"p{step}", **kind)
        server.put(incoming)
        waiting = server.objects["pods", kind["namespace"], f"p{step}"]
        snapshot = cluster.refresh_snapshot(policies[title])
        without = new_cluster(server)
        plain = schedule(FullPod(waiting), without.refresh_snapshot(policies[title]), policy)
        cached += bool(snapshot.answer_cache.entries)
        thing = cluster.cache.pods[f"{kind['namespace']}/p{step}"]
        vars(thing).update(record=PodRecord(thing))
        decision = schedule(thing, snapshot, policy)
        assert everything(decision) == everything(plain), f"seed {seed}, step {step}, {title}: {kind}"
        if not policy.always_check_all:
            matches_the_plain_loops(decision, without.snapshot, policy)
        if decision.node:
            cluster.attempts.assume(decision)
            server.put({**waiting, "spec": {**waiting["spec"], "nodeName": decision.node}})
        else:
            server.delete(waiting)
    assert cached > STEPS / 2


def change_owners(dice, server):
    """Create, change or delete an owner, or delete all owners of a namespace."""
    there = [thing for resource in OWNING_RESOURCES for thing in server.all(resource)]
    if there and dice.random() < 0.3:
        server.delete(dice.choice(there))
    elif there and dice.random() < 0.1:
        for thing in there:
            if thing["metadata"]["namespace"] == "n":
                server.delete(thing)
    else:
        server.put(random_owner(dice))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_sequence_with_owners_is_decided_as_without_the_cache(seed):
    """Pods of two namespaces are spread by their services and controllers, which are created, changed and deleted."""
    dice, server = random.Random(seed), Server()
    for i in range(9):
        server.put(node(f"n{i}", labels={ZONE: "abc"[i % 3], HOSTNAME: f"n{i}"}))
    bodies = [{}, {"predicates": [{"name": "services", "argument": {"serviceAffinity": {"labels": [ZONE]}}}], "priorities": [
        {"name": "apart", "weight": 2, "argument": {"serviceAntiAffinity": {"label": ZONE}}}]}]
    policies = [{"my-scheduler": read_policy({"kind": "Policy", "apiVersion": "v1", **body})} for body in bodies]
    policies += [read_configuration({
        "kind": "KubeSchedulerConfiguration", "apiVersion": CONFIGURATION_VERSION, **body}, "my-scheduler")
        for body in CONFIGURATIONS.values()]
    cluster, scores = new_cluster(server), set()
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
            FullPod(waiting), new_cluster(server).refresh_snapshot(policy), policy["my-scheduler"])
        snapshot = cluster.refresh_snapshot(policy)
        thing = cluster.cache.pods[f"{namespace}/p{step}"]
        thing.record = PodRecord(thing)
        decision = schedule(thing, snapshot, policy["my-scheduler"])
        assert everything(decision) == everything(plain), f"seed {seed}, step {step}"
        scores.add(json.dumps(decision.raw))
        if decision.node:
            cluster.attempts.assume(decision)
            server.put({**waiting, "spec": {**waiting["spec"], "nodeName": decision.node}})
    assert len(scores) > 20


DRIVERS = ["csi.example.com", "kubernetes.io/gce-pd"]


def change_claims(dice, server):
    """Create, change or delete an object on which the binding of claims depends."""
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


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_sequence_with_claims_is_decided_as_without_the_cache(seed, monkeypatch):
    """One cluster keeps its cache, the other one is new for each decision."""
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
    cluster = new_cluster(server)
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
        snapshot = cluster.refresh_snapshot(policies)
        waiting = server.objects["pods", "default", f"p{step}"]
        plain = schedule(FullPod(waiting), new_cluster(server).refresh_snapshot(policies), policy)
        thing = cluster.cache.pods[f"default/p{step}"]
        thing.record = PodRecord(thing)
        decision = schedule(thing, snapshot, policy)
        assert everything(decision) == everything(plain), f"seed {seed}, step {step}"
        messages[decision.message and re.sub("[0-9]+|[^ ]*$", "", decision.message)] += 1
        server.delete(waiting)
        if decision.node:
            with contextlib.suppress(Unschedulable):
                bind_volumes(thing, snapshot.nodes[decision.node], snapshot)  # reserves volumes
            if dice.random() < 0.3:
                thing.record.restore_assumed()
            cluster.attempts.assume(decision)
            server.put({**waiting, "spec": {**waiting["spec"], "nodeName": decision.node}})
            placed.append(f"p{step}")
    assert messages[None] > 1 and len(messages) > 2, messages


class NotingPod(FullPod):
    """A pod that records which of its attributes are read, if there is a set for them."""

    noted = None

    def __getattribute__(self, name):
        noted = NotingPod.noted
        if noted is None or name.startswith("__"):
            return super().__getattribute__(name)
        noted.add(name)
        NotingPod.noted = None  # attributes that this attribute reads do not count
        try:
            return super().__getattribute__(name)
        finally:
            NotingPod.noted = noted


def golden_cases():
    """Yield (Policies, the cluster's objects, pending pods as JSON) of kube-scheduler's recorded decisions."""
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


def test_golden_cases_match_the_plain_loops():
    """All rules are compared. The script has no extenders and no alwaysCheckAllPredicates."""
    compared = 0
    for policies, objects, raws in golden_cases():
        [policy] = policies.values()
        if policy.extenders or policy.always_check_all:
            continue
        snapshot = cluster_of(*objects).refresh_snapshot(policies)
        for waiting in map(FullPod, raws):
            compared += matches_the_plain_loops(schedule(waiting, snapshot, policy), snapshot, policy)
    assert compared > 1000


def test_all_attributes_that_a_built_in_rule_reads_are_recorded():
    """Each rule runs on pods of golden cases, once with the real recording, and once with the simpler one of NotingPod."""
    asked = collections.defaultdict(collections.Counter)  # Policy or Profile -> rule -> number of pods
    for policies, objects, raws in golden_cases():
        [policy] = policies.values()
        snapshot = cluster_of(*objects).refresh_snapshot(policies)
        questions = [(rule, "reasons") for rule in policy.predicates_to_ask()]
        questions += [(rule, "score") for rule in policy.priorities]
        for raw, (rule, question) in itertools.product(raws, questions):
            if asked[type(policy)][rule.name] == 20:  # more would take long, and add little
                continue
            with contextlib.suppress(Unschedulable):
                for prepared in prepare([rule] if rule.steady else [], FullPod(raw), snapshot.nodes, snapshot):
                    asked[type(policy)][rule.name] += 1
                    for each in snapshot.nodes.values():
                        noted, seen_node = set(), RecordingView(each)
                        seen_pod = prepared.seen = RecordingView(FullPod(raw))
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
    assert asked[FullPolicy].keys() >= steady - {"Preemption"}  # no golden case has it
    assert asked[Profile].keys() >= steady & OVERRIDES.keys() - {"Preemption"}


CHOSEN = set()  # some pods and nodes
ATTRIBUTES = ["labels", "node_name", "tolerations", "name", "requests", "is_late", "spec", "volumes", "priority", "annotations"]


def random_rule(dice, depth=4):
    """A function of (pod, node) that reads random attributes, depending on the values of others."""
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
    """A random pod that shares many attributes with others."""
    more = {"tolerations": [{"key": "k", "operator": "Equal", "value": dice.choice("0123456789")}]} if dice.random() < 0.5 else {}
    if dice.random() < 0.3:
        more["volumes"] = [{"name": "disk", "gcePersistentDisk": {"pdName": dice.choice("ab")}}]
    labels = {"app": dice.choice("xyz")} if dice.random() < 0.7 else {}
    return pod(f"p{i}", {"cpu": dice.choice(["100m", "200m"])}, labels=labels, priority=dice.randrange(5),
               metadata={"annotations": dice.choice([{}, {"late": "yes"}])}, **more)


@pytest.mark.parametrize("seed", range(40))
def test_the_answers_of_any_steady_rule_are_those_without_the_cache(seed, monkeypatch):
    """The rules declare nothing but steady, and some pods have an attribute that others lack."""
    plain = FullPod.__init__

    def late(pod, raw):
        """Set an attribute if the pod has an annotation."""
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
        snapshot = cluster.refresh_snapshot({"my-scheduler": policy})
        CHOSEN.update(dice.sample([*snapshot.nodes.values()], 4))
        for i in range(60):
            waiting = FullPod(random_pod(dice, i))
            waiting.record = PodRecord(waiting)
            CHOSEN.update([waiting] * dice.randrange(2))
            decision = schedule(waiting, snapshot, policy)
            assert matches_the_plain_loops(decision, snapshot, policy) or not decision.node
            for rule in policy.rules():
                for each in snapshot.nodes.values():
                    message = decision.failed.get(each.name, {}).get(rule.title)
                    assert message is None or message == rule.function(waiting, each)
            if decision.node and dice.random() < 0.7:
                cluster.attempts.assume(decision)
    finally:
        CHOSEN.clear()
        for i in range(6):
            PREDICATES.pop(f"Any{i}", None)
            PRIORITIES.pop(f"Any{i}", None)
