"""Rules and quantities in cases that are not among the golden ones."""

import time

import pytest

from helpers import extras
from helpers.everywhere import replace
from helpers.extras import node, pod, table
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.common.errors import Malformed
from scheduler_extras.deciding.rule import PREDICATES, PRIORITIES
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.reading.quantities import quantity


@table("text, unit, amount", {
    "a plain number": ("2", 1, 2),
    "millicores": ("100m", 1000, 100),
    "half a core": ("0.5", 1000, 500),
    "a fraction of a millicore is rounded up": ("0.0001", 1000, 1),
    "nanocores are rounded up": ("1500001n", 1000, 2),
    "microcores": ("250000u", 1000, 250),
    "millibytes are rounded up": ("128974848500m", 1, 128974849),
    "a binary suffix": ("1.5Gi", 1, 1610612736),
    "a decimal suffix": ("1k", 1, 1000),
    "an exponent": ("129e6", 1, 129000000),
    "a capital exponent": ("1E3", 1, 1000),
    "E is exa": ("2E", 1, 2 * 10**18),
    "exbibytes": ("1Ei", 1, 2**60),
    "a negative exponent": ("5e-1", 1000, 500),
    "a point at the end": ("3.", 1, 3),
    "a point at the start": (".5", 1000, 500),
    "a plus sign": ("+7", 1, 7),
    "exact where a float is not": ("9007199254740993", 1, 9007199254740993),
    "a number beyond 64 bits": ("100E", 1, 2**63 - 1),
    "a number far beyond 64 bits": ("1e999999999", 1, 2**63 - 1),
    "digits beyond 64 bits with a small suffix": ("9223372036854775808n", 1, 9223372037),
    "a number far below one unit": ("1e-999999999", 1, 1),
    "zero with a large exponent": ("0e999999999", 1, 0),
    "many decimals, just above a whole number": (f"3.{'0' * 300}1", 1, 4),
    "many decimals, exactly a whole number": (f"3.{'0' * 300}", 1, 3),
    "many decimals, just below a whole number": (f"3.{'9' * 300}", 1, 4),
    "zero": ("0", 1000, 0),
})
def test_quantities(text, unit, amount):
    assert quantity(text, unit) == amount


@pytest.mark.parametrize("text", ["abc", "1 Gi", "1gi", "1K", "--1", "1e", "1.2.3", "0x10", "½", "1_000", "NaN", "1e9999999999", ""])
def test_invalid_quantities(text):
    with pytest.raises(Malformed, match="is not a quantity"):
        quantity(text)


def test_the_time_is_linear_in_the_number_of_digits():
    began = time.process_time()
    for text in ("9" * 50_000 + "x", "." + "9" * 50_000 + "x"):
        with pytest.raises(Malformed, match="is not a quantity"):
            quantity(text)
    assert quantity("9" * 1_000_000 + "." + "9" * 1_000_000) == 2**63 - 1
    assert quantity(f".{'0' * 1_000_000}1") == 1
    assert time.process_time() < began + 1, "the time is quadratic"


def test_a_long_invalid_quantity_is_shortened_in_the_error():
    with pytest.raises(Malformed) as raised:
        quantity("a" * 1000)
    assert str(raised.value).startswith(f'"{"a" * 60}" is not') and len(str(raised.value)) < 150


def container(name="main", ports=None, image="nginx", **requests):
    return {"name": name, "image": image, "resources": {"requests": requests}, "ports": ports or []}


def sidecar(**requests):
    return container(**requests) | {"restartPolicy": "Always"}


@table("spec, cpu", {
    "containers add up": ({"containers": [container(cpu="1"), container(cpu="500m")]}, 1500),
    "init containers run alone": (
        {"containers": [container(cpu="1")], "initContainers": [container(cpu="2"), container(cpu="3")]}, 3000),
    "a sidecar runs alongside the containers": (
        {"containers": [container(cpu="1")], "initContainers": [sidecar(cpu="200m")]}, 1200),
    "a sidecar runs alongside the init containers after it": (
        {"containers": [container(cpu="1")], "initContainers": [sidecar(cpu="200m"), container(cpu="2")]}, 2200),
    "a sidecar does not run alongside the init containers before it": (
        {"containers": [container(cpu="1")], "initContainers": [container(cpu="2"), sidecar(cpu="200m")]}, 2000),
    "overhead is added": (
        {"containers": [container(cpu="1")], "initContainers": [container(cpu="2")], "overhead": {"cpu": "9m"}}, 2009),
    "pod-level requests replace those of the containers": (
        {"containers": [container(cpu="1"), container(cpu="2")], "resources": {"requests": {"cpu": "1500m"}}}, 1500),
    "overhead is added to pod-level requests": (
        {"containers": [container()], "resources": {"requests": {"cpu": "1"}}, "overhead": {"cpu": "1m"}}, 1001),
    "limits are not requests (the API server sets the default requests)": (
        {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]}, 0),
})
def test_the_requests_of_a_pod(spec, cpu):
    assert FullPod(pod("p", **spec)).requests["cpu"] == cpu


def test_a_request_of_0_of_a_pod_with_a_sidecar_is_kept():
    gpu = container(**{"example.com/gpu": "0"})
    assert FullPod(pod("p", containers=[gpu], initContainers=[sidecar(cpu="1")])).requests["example.com/gpu"] == 0


def verdict(rule, incoming, target, *others, **options):
    """Return a predicate's reasons for a pod and a node with other pods."""
    target = FullNode(target)
    for other in others:
        target.add(FullPod(other))
    return list(PREDICATES[rule].function(FullPod(incoming), target, **options))


def port(number, **more):
    return pod("port", containers=[container(ports=[{"containerPort": 80, "hostPort": number, **more}])],
               metadata={"uid": str(more)})


@table("wanted, used, fits", {
    "the same port": (port(80), port(80), False),
    "another port": (port(80), port(81), True),
    "another protocol": (port(80), port(80, protocol="UDP"), True),
    "the default protocol is TCP": (port(80), port(80, protocol="TCP"), False),
    "another address": (port(80, hostIP="10.0.0.1"), port(80, hostIP="10.0.0.2"), True),
    "the same address": (port(80, hostIP="10.0.0.1"), port(80, hostIP="10.0.0.1"), False),
    "0.0.0.0 includes all addresses": (port(80, hostIP="10.0.0.1"), port(80, hostIP="0.0.0.0"), False),
    "the default is all addresses": (port(80), port(80, hostIP="10.0.0.1"), False),
    ":: does not include IPv4 addresses": (port(80, hostIP="::"), port(80, hostIP="10.0.0.1"), True),
})
def test_host_ports(wanted, used, fits):
    assert verdict("PodFitsHostPorts", wanted, node("n"), used) == (
        [] if fits else ["node(s) didn't have free ports for the requested pod ports"])


@table("requests, target, others, reasons", {
    "the pod fits exactly": ({"cpu": "1"}, node("n", cpu="3"), [{"cpu": "2"}], []),
    "one millicore too much": ({"cpu": "1001m"}, node("n", cpu="3"), [{"cpu": "2"}], ["Insufficient cpu"]),
    "two resources, two reasons": (
        {"cpu": "5", "memory": "9Gi"}, node("n"), [], ["Insufficient cpu", "Insufficient memory"]),
    "a resource that the node does not have": (
        {"nvidia.com/gpu": "1"}, node("n"), [], ["Insufficient nvidia.com/gpu"]),
    "huge pages": ({"hugepages-2Mi": "4Mi"}, node("n"), [], ["Insufficient hugepages-2Mi"]),
    "a resource that is not checked": ({"storage": "1Ti"}, node("n"), [], []),
    "a pod without requests fits on a full node": ({}, node("n", cpu="1"), [{"cpu": "2"}], []),
    "a pod with any request does not fit on a full node": (
        {"memory": "1"}, node("n", cpu="1"), [{"cpu": "2"}], ["Insufficient cpu"]),
    "no room for one more pod": ({}, node("n", pods="1"), [{}], ["Too many pods"]),
    "a resource that an extender manages": ({"example.com/fpga": "1"}, node("n"), [], []),
})
def test_resources(requests, target, others, reasons):
    others = [pod(f"other-{i}", other) for i, other in enumerate(others)]
    assert verdict("PodFitsResources", pod("p", requests), target, *others, excepted=["example.com/fpga"]) == reasons


def affinity(*terms):
    return {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}}


def expression(operator, *values, key="gen"):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@table("term, fits", {
    "In": (expression("In", "6", "7"), True),
    "NotIn": (expression("NotIn", "7"), False),
    "NotIn matches a node without the label": (expression("NotIn", "7", key="none"), True),
    "Exists": (expression("Exists"), True),
    "DoesNotExist": (expression("DoesNotExist"), False),
    "Gt": (expression("Gt", "6"), True),
    "Gt is strict": (expression("Gt", "7"), False),
    "Lt reads leading zeros": (expression("Lt", "008"), True),
    "Lt with a value that is not a number": (expression("Lt", "x"), False),
    "Lt with a label that is not a number": (expression("Lt", "8", key="disk"), False),
    "Lt with a number beyond 64 bits": (expression("Lt", "9223372036854775808"), False),
    "an invalid value matches nothing": (expression("NotIn", "not a label!"), False),
    "an empty term matches nothing": ({}, False),
    "the node's name": ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}, True),
    "not this node's name": ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}, False),
})
def test_required_node_affinity(term, fits):
    target = node("n", labels={"gen": "7", "disk": "ssd"})
    assert verdict("MatchNodeSelector", pod("p", **affinity(term)), target) == (
        [] if fits else ["node(s) didn't match Pod's node affinity"])


def test_one_of_the_terms_and_the_node_selector_must_match():
    target = node("n", labels={"gen": "7"})
    terms = affinity(expression("In", "6"), expression("In", "7"))
    assert verdict("MatchNodeSelector", pod("p", **terms), target) == []
    assert verdict("MatchNodeSelector", pod("p", **terms, nodeSelector={"disk": "ssd"}), target)
    assert verdict("MatchNodeSelector", pod("p", **affinity()), target), "no terms match nothing"


@table("toleration, fits", {
    "the taint itself": ({"key": "gpu", "value": "a100", "effect": "NoSchedule"}, True),
    "any value": ({"key": "gpu", "operator": "Exists"}, True),
    "any taint": ({"operator": "Exists"}, True),
    "another value": ({"key": "gpu", "value": "h100"}, False),
    "another effect": ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
    "another key": ({"key": "cpu", "operator": "Exists"}, False),
    "no operator means Equal": ({"key": "gpu"}, False),
    "an unknown operator": ({"key": "gpu", "operator": "Lt", "value": "a100"}, False),
})
def test_taints(toleration, fits):
    target = node("n", taints=[{"key": "gpu", "value": "a100", "effect": "NoSchedule"}])
    assert verdict("PodToleratesNodeTaints", pod("p", tolerations=[toleration]), target) == (
        [] if fits else ["node(s) had taint {gpu: a100}, that the pod didn't tolerate"])


def mounts(**disk):
    return pod("disk", volumes=[{"name": "v", **disk}], metadata={"uid": str(disk)})


@table("wanted, used, fits", {
    "a GCE disk twice": (
        mounts(gcePersistentDisk={"pdName": "a"}), mounts(gcePersistentDisk={"pdName": "a", "readOnly": True}), False),
    "a GCE disk, read-only twice": (mounts(gcePersistentDisk={"pdName": "a", "readOnly": True}),
                                    mounts(gcePersistentDisk={"pdName": "a", "readOnly": True}), True),
    "an EBS volume, read-only twice": (mounts(awsElasticBlockStore={"volumeID": "a", "readOnly": True}),
                                       mounts(awsElasticBlockStore={"volumeID": "a", "readOnly": True}), False),
    "RBD images with different monitors": (mounts(rbd={"image": "a", "pool": "p", "monitors": ["x"]}),
                                     mounts(rbd={"image": "a", "pool": "p", "monitors": ["y"]}), True),
    "RBD images without monitors": (mounts(rbd={"image": "a", "pool": "p"}), mounts(rbd={"image": "a", "pool": "p"}), True),
    "RBD images with a monitor in common": (mounts(rbd={"image": "a", "pool": "p", "monitors": ["x", "y"]}),
                                            mounts(rbd={"image": "a", "pool": "p", "monitors": ["y"]}), False),
    "disks of different kinds": (mounts(gcePersistentDisk={"pdName": "a"}), mounts(iscsi={"iqn": "a"}), True),
})
def test_disks(wanted, used, fits):
    there = pod("there", nodeName="n", volumes=used["spec"]["volumes"])
    decision = decide(["NoDiskConflict"], wanted, [node("n")], [there])
    assert decision.message == (None if fits else "0/1 nodes are available: 1 node(s) had no available disk.")


@table("preferences, score", {
    "one of three preferences is met": ([("a", True), ("x", True), ("b", False)], 33),
    "all preferences are met": ([("a", True), ("x", False)], 100),
})
def test_the_score_of_label_preferences_is_their_average(preferences, score):
    arguments = [{"label": label, "presence": presence} for label, presence in preferences]
    target = FullNode(node("n", labels={"a": "", "b": ""}))
    assert PRIORITIES["NodeLabel"].function(FullPod(pod("p")), target, arguments) == score


def test_random_priority_is_from_0_to_100_and_repeatable_with_a_seed(monkeypatch):
    nodes, incoming = [FullNode(node(f"n-{i}")) for i in range(200)], FullPod(pod("p"))

    def draw():
        return [PRIORITIES["RandomPriority"].function(incoming, there) for there in nodes]

    assert draw() != draw() and 0 <= min(draw()) <= max(draw()) <= 100
    monkeypatch.setattr(CHANCE, "seed", "7")
    assert draw() == draw() and len(set(draw())) > 50


def decide(rules, incoming, nodes, others=(), objects=(), priorities=()):
    """Return the decision about a pod with these predicates and priorities, in a cluster of these objects."""
    policy = read_policy({
        "kind": "Policy", "apiVersion": "v1", "predicates": [{"name": name} for name in rules],
        "priorities": [{"name": name, "weight": 1} for name in priorities]})
    return extras.decide({"my-scheduler": policy}, incoming, *nodes, *others, *objects)


def zones(*names):
    """Nodes a, b, c, ..., one for each of these zones."""
    return [node(name, labels={"zone": zone}) for name, zone in zip("abcdef", names)]


def near(labels, side="podAffinity", **term):
    """A spec with required affinity or anti-affinity, by zone, to pods with these labels."""
    return {"affinity": {side: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": labels}, **term}]}}}


TEAMS = [{"kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}}
         for name, team in (("shop", "red"), ("bank", "blue"))]


@table("incoming, other, feasible", {
    "the pod's own namespace by default": (
        pod("p", **near({"app": "db"})), pod("o", namespace="shop", labels={"app": "db"}, nodeName="a"), []),
    "namespaces by name": (
        pod("p", **near({"app": "db"}, namespaces=["shop"])),
        pod("o", namespace="shop", labels={"app": "db"}, nodeName="a"), ["a"]),
    "namespaces by selector": (
        pod("p", **near({"app": "db"}, namespaceSelector={"matchLabels": {"team": "red"}})),
        pod("o", namespace="shop", labels={"app": "db"}, nodeName="a"), ["a"]),
    "a namespace that does not match the selector": (
        pod("p", **near({"app": "db"}, namespaceSelector={"matchLabels": {"team": "red"}})),
        pod("o", namespace="bank", labels={"app": "db"}, nodeName="a"), []),
    "an empty selector means all namespaces": (
        pod("p", **near({"app": "db"}, namespaceSelector={})),
        pod("o", namespace="bank", labels={"app": "db"}, nodeName="a"), ["a"]),
    "namespaces by name and by selector": (
        pod("p", **near({"app": "db"}, namespaces=["bank"], namespaceSelector={"matchLabels": {"team": "red"}})),
        pod("o", namespace="bank", labels={"app": "db"}, nodeName="a"), ["a"]),
    "with a selector, the pod's own namespace is not included": (
        pod("p", **near({"app": "db"}, namespaceSelector={"matchLabels": {"team": "red"}})),
        pod("o", labels={"app": "db"}, nodeName="a"), []),
    "matchLabelKeys: a pod of the same version": (
        pod("p", labels={"v": "2"}, **near({"app": "db"}, matchLabelKeys=["v"])),
        pod("o", labels={"app": "db", "v": "2"}, nodeName="a"), ["a"]),
    "matchLabelKeys: a pod of another version": (
        pod("p", labels={"v": "2"}, **near({"app": "db"}, matchLabelKeys=["v"])),
        pod("o", labels={"app": "db", "v": "1"}, nodeName="a"), []),
    "matchLabelKeys: a key that the pod does not have": (
        pod("p", **near({"app": "db"}, matchLabelKeys=["v"])),
        pod("o", labels={"app": "db", "v": "1"}, nodeName="a"), ["a"]),
    "mismatchLabelKeys: a pod of another tenant": (
        pod("p", labels={"t": "x"}, **near({"app": "db"}, "podAntiAffinity", mismatchLabelKeys=["t"])),
        pod("o", labels={"app": "db", "t": "y"}, nodeName="a"), ["b"]),
    "mismatchLabelKeys: a pod of the same tenant": (
        pod("p", labels={"t": "x"}, **near({"app": "db"}, "podAntiAffinity", mismatchLabelKeys=["t"])),
        pod("o", labels={"app": "db", "t": "x"}, nodeName="a"), ["a", "b"]),
})
def test_newer_fields_of_inter_pod_affinity(incoming, other, feasible):
    decision = decide(["MatchInterPodAffinity"], incoming, zones("east", "west"), [other], TEAMS)
    assert list(decision.total) == feasible


def spread(**more):
    return {"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}, **more}]}


WEB = [pod("o", labels={"app": "web", "v": "1"}, nodeName="a")]
TAINTS = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
TAINTED = [node("a", labels={"zone": "east"}), node("b", labels={"zone": "west"}, taints=TAINTS)]
CROWDED = [node("a", labels={"zone": "east"}, taints=TAINTS), node("b", labels={"zone": "west"}),
           node("c", labels={"zone": "east"})]


@table("spec, nodes, feasible", {
    "the emptier zone": (spread(), zones("east", "west"), ["b"]),
    "minDomains: with too few zones the minimum is 0": (spread(minDomains=3), zones("east", "west"), ["b"]),
    "minDomains: a single zone is too few": (spread(minDomains=2), zones("east"), []),
    "without minDomains a single zone is enough": (spread(), zones("east"), ["a"]),
    "nodeTaintsPolicy Ignore: a tainted zone counts": (spread(), TAINTED, []),
    "nodeTaintsPolicy Honor: a tainted zone does not count": (spread(nodeTaintsPolicy="Honor"), TAINTED, ["a"]),
    "nodeTaintsPolicy Ignore: pods on a tainted node count": (
        spread(), CROWDED, ["b"]),
    "nodeTaintsPolicy Honor: pods on a tainted node do not count": (spread(nodeTaintsPolicy="Honor"), CROWDED, ["b", "c"]),
    "nodeAffinityPolicy Honor: pods on an excluded node do not count": (
        spread(nodeAffinityPolicy="Honor") | {"nodeSelector": {"disk": "ssd"}},
        [*zones("east"), *(node(name, labels={"zone": zone, "disk": "ssd"})
                           for name, zone in (("b", "west"), ("c", "east")))], ["b", "c"]),
    "nodeTaintsPolicy Honor: an untainted zone counts": (
        spread(nodeTaintsPolicy="Honor"), zones("east", "west"), ["b"]),
    "nodeAffinityPolicy Honor: an excluded zone does not count": (
        spread() | {"nodeSelector": {"zone": "east"}}, zones("east", "west"), ["a"]),
    "nodeAffinityPolicy Ignore: an excluded zone counts": (
        spread(nodeAffinityPolicy="Ignore") | {"nodeSelector": {"zone": "east"}}, zones("east", "west"), []),
    "matchLabelKeys: pods of another version do not count": (
        spread(matchLabelKeys=["v"]), zones("east", "west"), ["a", "b"]),
})
def test_newer_fields_of_spread_constraints(spec, nodes, feasible):
    incoming = pod("p", labels={"app": "web", "v": "2"}, **spec)
    decision = decide(["EvenPodsSpread", "MatchNodeSelector"], incoming, nodes, WEB)
    assert list(decision.total) == feasible


@table("modes, used, fits", {
    "a ReadWriteOncePod claim in use": (["ReadWriteOncePod"], True, False),
    "a ReadWriteOncePod claim not in use": (["ReadWriteOncePod"], False, True),
    "a ReadWriteOnce claim in use": (["ReadWriteOnce"], True, True),
})
def test_read_write_once_pod(modes, used, fits):
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
             "spec": {"accessModes": modes}}
    other = pod("o", nodeName="a", volumes=volumes if used else [])
    decision = decide(["NoDiskConflict"], pod("p", volumes=volumes), [node("a"), node("b")], [other], [claim])
    assert list(decision.total) == (["a", "b"] if fits else [])
    assert fits or decision.message == (
        "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod.")


def test_an_ephemeral_volume_has_a_claim_named_after_its_pod():
    ephemeral = pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
    assert decide(["CheckVolumeBinding"], ephemeral, [node("a")]).message == (
        '0/1 nodes are available: 1 persistentvolumeclaim "p-scratch" not found.')


def test_a_pod_with_a_node_name_fits_no_other_node():
    named = pod("p", nodeName="m")
    assert verdict("HostName", named, node("m")) == []
    assert verdict("HostName", named, node("n")) == ["node(s) didn't match the requested hostname"]


@pytest.mark.parametrize("annotation", ["{", "[]", '{"preferAvoidPods": ["all"]}', "[" * 100_000])
def test_an_invalid_annotation_avoids_no_pods(annotation):
    target = node("n")
    target["metadata"]["annotations"] = {"scheduler.alpha.kubernetes.io/preferAvoidPods": annotation}
    owned = pod("p", metadata={"ownerReferences": [{"kind": "ReplicaSet", "uid": "u", "controller": True}]})
    decision = decide([], owned, [target, node("m")], priorities=["NodePreferAvoidPodsPriority"])
    assert decision.total == {"n": 100, "m": 100}


def test_kube_max_pd_vols_sets_the_limit_of_cloud_disks(monkeypatch):
    disks = pod("p", volumes=[{"name": str(i), "gcePersistentDisk": {"pdName": f"disk-{i}"}} for i in range(3)])
    assert decide(["MaxGCEPDVolumeCount"], disks, [node("a")]).node == "a"
    replace(monkeypatch, "KUBE_MAX_PD_VOLS", 2)
    assert decide(["MaxGCEPDVolumeCount"], disks, [node("a")]).message == (
        "0/1 nodes are available: 1 node(s) exceed max volume count.")


def test_nodes_with_the_same_hostname_are_separate_domains_in_spreading_scores():
    labels, web = {"kubernetes.io/hostname": "same"}, {"app": "web"}
    incoming = pod("p", labels=web, topologySpreadConstraints=[{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": web}}])
    decision = decide([], incoming, [node("a", labels=labels), node("b", labels=labels)],
                      [pod("there", labels=web, nodeName="a")], priorities=["EvenPodsSpreadPriority"])
    assert decision.scores == {"EvenPodsSpreadPriority": {"a": 0, "b": 100}}
