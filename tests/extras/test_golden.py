"""The recorded decisions of kube-scheduler 1.20.2 (tests/golden/), and rare cases that are not among them."""

import contextlib
import copy
import json
import random
import re

import pytest

from helpers.extras import (
    claim,
    cluster_of,
    csi_node,
    decide,
    new_cluster,
    node,
    pending_pods,
    pod,
    run_pass,
    run_scheduler,
    storage_class,
    table,
    to_be_provisioned,
    volume,
)
from helpers.golden import DECISIONS, policy_of
from scheduler_extras.common.errors import Malformed
from scheduler_extras.deciding.rule import DURING_SCHEDULING, PREDICATES, PRIORITIES
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.show.explain import explain
from scheduler_extras.show.report import in_json
from scheduler_extras.show.text import Screen


PLUGIN = {rule.name: rule.plugin for rule in [*PREDICATES.values(), *PRIORITIES.values()]} | {
    "LeastRequestedPriority": "NodeResourcesLeastAllocated", "MostRequestedPriority": "NodeResourcesMostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
    "EvenPodsSpreadPriority": "PodTopologySpread", "CheckNodeLabelPresence": "NodeLabel",
    "CheckServiceAffinity": "ServiceAffinity"}


def by_plugin(policy, of):
    """Replace the names of rules with those of their plugins, as in kube-scheduler's answers."""
    names = {rule.title: PLUGIN.get(rule.name, rule.name) for rule in policy.predicates + policy.priorities}
    return {names[title]: value for title, value in of.items()}


CASES = {line["case"]["id"]: line for line in DECISIONS}


def without_rules_for_labels(message):
    """Remove kube-scheduler's explanation of valid label values from a message."""
    return message and re.sub(r'(invalid label value: "[^"]*"): at key.*', r"\1", message)


def differences(expected, decision):
    """Return the differences between kube-scheduler's decision about a pod and ours, in its JSON form."""
    if "error" in expected:
        ours, theirs = ({"message": without_rules_for_labels(message)}
                        for message in (decision["message"], expected["error"]))
    else:
        reasons = {node: failure["reasons"] for node, failure in expected["first_failed"].items()}
        if expected["prefilter"]:
            reasons = dict.fromkeys(decision["failed"], expected["prefilter"]["reasons"])
        theirs = {"feasible": sorted(expected["feasible"]), "total": expected["total"],
                  "message": expected.get("message"), "failed": {node: sorted(why) for node, why in reasons.items()}}
        ours = {"feasible": sorted(decision["feasible"]), "total": decision["total"], "message": decision["message"],
                "failed": {node: sorted(why) for node, why in decision["failed"].items()}}
        assert decision["node"] in (expected["best"] or [None]), f"{decision['node']} is not one of {expected['best']}"
    return {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}


@pytest.mark.parametrize("name", CASES)
def test_the_decision_matches_kube_scheduler(name):
    case, expected = CASES[name]["case"], {pod["pod"]: pod for pod in CASES[name]["expect"]["pods"]}
    policy, cluster = policy_of(case), cluster_of(*case["objects"])
    pods = {pod.key: pod for pod in pending_pods(cluster, {"my-scheduler": policy})}
    assert pods.keys() == {key for key, pod in expected.items() if not pod.get("skipped")}
    for key, waiting in pods.items():
        decision = schedule(waiting, cluster.refresh_snapshot({"my-scheduler": policy}), policy)
        assert not differences(expected[key], in_json(decision)), f"{key} (theirs, ours)"
        if "error" not in expected[key] and not expected[key]["prefilter"]:
            assert by_plugin(policy, decision.scores) == expected[key]["scores"], key
            for name, against in decision.failed.items():
                theirs = expected[key]["failed" if policy.always_check_all else "first_failed"][name]
                assert by_plugin(policy, against).keys() == (
                    theirs.keys() if policy.always_check_all else {theirs["plugin"]}), (key, name)


@pytest.mark.parametrize("name", list(CASES)[::12])
def test_the_decision_is_the_same_without_the_cache(name, without_cache):
    test_the_decision_matches_kube_scheduler(name)


@pytest.mark.parametrize("name", list(CASES)[::24])
def test_the_command_line_makes_the_same_decision(name, tmp_path):
    """Only one pending pod of the case is used, because in a run each pod sees the ones before it."""
    case, expected = CASES[name]["case"], {pod["pod"]: pod for pod in CASES[name]["expect"]["pods"]}
    (tmp_path / "policy.json").write_text(json.dumps(case["policy"]))

    def key(thing):
        return f"{thing['metadata'].get('namespace', 'default')}/{thing['metadata']['name']}"

    for waiting, theirs in list(expected.items())[:1]:
        objects = [thing for thing in case["objects"] if thing["kind"] != "Pod" or key(thing) not in expected
                   or key(thing) == waiting]
        (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": objects}))
        run = run_scheduler("--policy", tmp_path / "policy.json", "--cluster", tmp_path / "cluster.json",
                            "--once", "--output=json")
        assert run.returncode == 0, run.stderr
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        assert [line["pod"] for line in lines] == ([] if theirs.get("skipped") else [waiting])
        for line in lines:
            assert not differences(theirs, line), f"{waiting} (theirs, ours)"


def paths_in(thing, path=()):
    """Yield all paths into a JSON value."""
    yield path
    for key in thing if isinstance(thing, dict) else range(len(thing)) if isinstance(thing, list) else ():
        yield from paths_in(thing[key], (*path, key))


NONSENSE = [None, 0, -1, 1.5, "x", True, [], {}, "", [None], [1], ["a"], {"a": 1}, "99999999999999999999", "-5", [{}]]


@pytest.mark.parametrize("seed", range(10))
def test_random_values_in_the_objects_raise_no_exception(seed):
    """The clusters are golden cases in which three values are replaced."""
    chance = random.Random(seed)
    for _ in range(30):
        case = copy.deepcopy(chance.choice(DECISIONS)["case"])
        replaced = []
        for _ in range(3):
            thing = target = chance.choice(case["objects"])
            path = chance.choice(list(paths_in(thing))[1:])
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = copy.deepcopy(chance.choice(NONSENSE))
            replaced.append((case["id"], path, target[path[-1]]))
        manifests = Manifests()
        for thing in case["objects"]:
            with contextlib.suppress(Malformed):
                manifests.add(thing)
        decisions, cluster = [], new_cluster(manifests)
        try:
            run_pass(cluster, {"my-scheduler": policy_of(case)}, decisions.append)
        except Exception as error:
            raise AssertionError(f"{replaced}") from error
        assert all(decision.node or decision.message for decision in decisions)
        for decision in decisions:  # each can be shown in both forms
            assert json.dumps(in_json(decision)) and explain(decision, Screen())


# Cases that were not recorded. The answers are those of kube-scheduler 1.20.2's framework for the same objects.

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = {"a": "east", "b": "east", "c": "west"}
WEB = {"app": "web"}


def machine(name, **allocatable):
    """A node with the labels that cloud providers set."""
    thing = node(name, labels={ZONE: ZONES[name], HOST: name})
    thing["status"]["allocatable"] |= allocatable
    return thing


NODES = [machine(name) for name in ZONES]


def requirement(operator, *values, key="gen"):
    return {"key": key, "operator": operator, "values": list(values)}


def term(*requirements):
    return {"matchExpressions": list(requirements)}


def affinity(required=None, preferred=()):
    """A spec with node affinity: the required one, and preferred terms or (weight, term) pairs."""
    weighed = [one if isinstance(one, tuple) else (1, one) for one in preferred]
    return {"affinity": {"nodeAffinity": {
        **({} if required is None else {"requiredDuringSchedulingIgnoredDuringExecution": required}),
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "preference": preference} for weight, preference in weighed]}}}


def near(selector):
    """A spec with required affinity, by zone, to the pods of a selector."""
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": ZONE, "labelSelector": selector}]}}}


def service(selector):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": {
        "ports": [{"port": 80}], **({} if selector is None else {"selector": selector})}}


def mounting(*claims, disks=()):
    """A pod with these claims and EBS disks."""
    return pod("p", volumes=[
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims] + [
        {"name": name, "awsElasticBlockStore": {"volumeID": name}} for name in disks])


def on_nitro(count, label="beta.kubernetes.io/instance-type"):
    """A pod with this many disks, and an AWS Nitro node."""
    return mounting(disks=[f"disk-{i}" for i in range(count)]), [node("a", labels={label: "m5.large"})]


RESERVED = {"claimRef": {"namespace": "default", "name": "data"}}
LOCAL = storage_class("local")
LONG = "a-driver-whose-name-has-forty-characters"
NO_VOLUMES = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
EMPTY = "for 'in', 'notin' operators, values set can't be empty"
NO_NUMBER = "for 'Gt', 'Lt' operators, the value must be an integer"
INVALID = 'invalid label value: "-1": at key: "gen"'  # kube-scheduler adds an explanation of valid label values
ALL = ["a", "b", "c"]

# {a sentence: the Policy's entry or its name, the pod, other objects, and the answer}
# The answer: the nodes that fit, each node's score, or the pod's message.
RARE_CASES = {
    "required node affinity without terms": (
        "MatchNodeSelector", pod("p", **affinity({})), [],
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity."),
    "a Gt requirement with two numbers": (
        "MatchNodeSelector", pod("p", **affinity({"nodeSelectorTerms": [term(requirement("Gt", "1", "2"))]})), [],
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity."),
    "two preferences, of which one is invalid": (
        "NodeAffinityPriority",
        pod("p", **affinity(preferred=[term(requirement("In", "-1")), term(requirement("Exists"))])), [],
        f'running Score plugins: plugin "NodeAffinity" failed with: {INVALID}'),
    "two preferences that are invalid in different ways": (
        "NodeAffinityPriority",
        pod("p", **affinity(preferred=[term(requirement("In", "-1")), term(requirement("Gt", "x"))])), [],
        f'running Score plugins: plugin "NodeAffinity" failed with: [{INVALID}, {NO_NUMBER}]'),
    "two preferences that are invalid in the same way": (
        "NodeAffinityPriority", pod("p", **affinity(preferred=[term(requirement("NotIn", "-1"))] * 2)), [],
        f'running Score plugins: plugin "NodeAffinity" failed with: {INVALID}'),
    "a preference for a label value of 64 characters": (
        "NodeAffinityPriority", pod("p", **affinity(preferred=[term(requirement("In", "x" * 64))])), [],
        f'running Score plugins: plugin "NodeAffinity" failed with: invalid label value: "{"x" * 64}": at key: "gen"'),
    "a preference for a label value with a line break and control characters": (
        "NodeAffinityPriority", pod("p", **affinity(preferred=[term(requirement("In", "x\nb -> n\x1b"))])), [],
        'running Score plugins: plugin "NodeAffinity" failed with: ' + INVALID.replace("-1", "x\\nb -> n\\x1b")),
    "a preference for a label value that is too long and has invalid characters": (
        "NodeAffinityPriority", pod("p", **affinity(preferred=[term(requirement("In", "-" * 64))])), [],
        'running Score plugins: plugin "NodeAffinity" failed with: '
        + INVALID.replace('"-1"', f'"{"-" * 64}"')),
    "preferences for less than no number, two numbers, and a word": (
        "NodeAffinityPriority",
        pod("p", **affinity(preferred=[term(requirement("Lt", *values)) for values in ((), ("1", "2"), ("x",))])), [],
        f'running Score plugins: plugin "NodeAffinity" failed with: {NO_NUMBER}'),
    "a preference with an unknown operator": (
        "NodeAffinityPriority", pod("p", **affinity(preferred=[term(requirement("Near", "x"))])), [],
        'running Score plugins: plugin "NodeAffinity" failed with: "Near" is not a valid node selector operator'),
    "invalid inter-pod affinity": (
        "MatchInterPodAffinity", pod("p", **near(term(requirement("In")))), [],
        f"0/3 nodes are available: 3 parsing pod: requiredAffinityTerms: {EMPTY}."),
    "invalid inter-pod affinity with the priority only": (
        "InterPodAffinityPriority", pod("p", **near(term(requirement("In")))), [],
        f'running PreScore plugin "InterPodAffinity": parsing pod: requiredAffinityTerms: {EMPTY}'),
    "inter-pod affinity with two invalid lists, of which kube-scheduler reports the last": (
        "MatchInterPodAffinity", pod("p", affinity={
            "podAntiAffinity": {f"required{DURING_SCHEDULING}": [
                {"topologyKey": ZONE, "labelSelector": term(requirement("In"))}]},
            "podAffinity": {f"preferred{DURING_SCHEDULING}": [{"weight": 1, "podAffinityTerm": {
                "topologyKey": ZONE, "labelSelector": term(requirement("In"))}}]}}), [],
        f"0/3 nodes are available: 3 parsing pod: preferredAffinityTerms: {EMPTY}."),
    "an existing pod with inter-pod affinity that no API server accepts": (
        "MatchInterPodAffinity", pod("p"), [pod("odd", nodeName="a", **near({"matchLabels": {"app": None}}))], ALL),
    "... whose terms are not a list": (
        "MatchInterPodAffinity", pod("p"), [pod("odd", nodeName="a", affinity={
            "podAntiAffinity": {f"required{DURING_SCHEDULING}": {"topologyKey": ZONE}}})], ALL),
    "... whose weight is a string": (
        "MatchInterPodAffinity", pod("p"), [pod("odd", nodeName="a", affinity={
            "podAffinity": {f"preferred{DURING_SCHEDULING}": [{"weight": "5"}]}})], ALL),
    "the first pod of a group with affinity to itself": (
        "MatchInterPodAffinity", pod("p", labels=WEB, **near({"matchLabels": WEB})), [], ALL),
    "the second pod of such a group": (
        "MatchInterPodAffinity", pod("p", labels=WEB, **near({"matchLabels": WEB})),
        [pod("first", labels=WEB, nodeName="a")], ["a", "b"]),
    "a pod with affinity to a group to which it does not belong": (
        "MatchInterPodAffinity", pod("p", **near({"matchLabels": WEB})), [],
        "0/3 nodes are available: 3 node(s) didn't match pod affinity rules, 3 node(s) didn't match pod "
        "affinity/anti-affinity."),
    "a ReplicaSet whose selector is invalid": (
        "SelectorSpreadPriority", pod("p", labels=WEB),
        [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r", "namespace": "default"}, "spec": {
            "selector": term(requirement("In", "-1"))}}], dict.fromkeys(ALL, 100)),
    "a service that selects the pod": (
        {"name": "Zonal", "argument": {"serviceAffinity": {"labels": [ZONE]}}}, pod("p", labels=WEB),
        [service(WEB), pod("first", labels=WEB, nodeName="c")], ["c"]),
    "a service without a selector": (
        {"name": "Zonal", "argument": {"serviceAffinity": {"labels": [ZONE]}}}, pod("p", labels=WEB),
        [service(None), pod("first", labels=WEB, nodeName="c")], ALL),
    "a service that selects all pods": (
        {"name": "Spread", "weight": 1, "argument": {"serviceAntiAffinity": {"label": ZONE}}}, pod("p", labels=WEB),
        [service({}), pod("first", labels=WEB, nodeName="c")], dict.fromkeys(ALL, 100)),
    "labelsPresence without presence": (
        {"name": "Absent", "argument": {"labelsPresence": {"labels": ["gen"]}}}, pod("p"), [], ALL),
    "labelsPresence without labels": ({"name": "Any", "argument": {"labelsPresence": {}}}, pod("p"), [], ALL),
    "serviceAffinity without labels": (
        {"name": "Any", "argument": {"serviceAffinity": {}}}, pod("p", labels=WEB),
        [service(WEB), pod("first", labels=WEB, nodeName="c")], ALL),
    "labelPreference without presence": (
        {"name": "Absent", "weight": 2, "argument": {"labelPreference": {"label": "gen"}}}, pod("p"), [],
        dict.fromkeys(ALL, 200)),
    "a node whose pods request more than it has": (
        {"name": "Fill", "weight": 1, "argument": {"requestedToCapacityRatioArguments": {
            "shape": [{}, {"utilization": 90, "score": 10}],
            "resources": [{"name": "cpu", "weight": 1}, {"name": "example.com/gpu", "weight": 1}]}}},
        pod("p", {"cpu": "3"}), [machine("a", cpu="2"), machine("b", **{"example.com/gpu": "2"})],
        {"a": 100, "b": 83, "c": 92}),
    "a pod without containers": (
        "LeastRequestedPriority", {**pod("p"), "spec": {"schedulerName": "my-scheduler"}}, [],
        dict.fromkeys(ALL, 100)),
    "a volume that is reserved for the claim": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, claim(), volume("v", **RESERVED)], ALL),
    "a volume of another class that is reserved for the claim": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, claim(), volume("v", "other", **RESERVED)], NO_VOLUMES),
    "a volume that is reserved for another claim": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, claim(), volume("v", claimRef={
            "namespace": "default", "name": "another"})], NO_VOLUMES),
    "a volume that is reserved for a claim of another namespace": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, claim(), volume("v", claimRef={
            "namespace": "other", "name": "data"})], NO_VOLUMES),
    "a volume with volumeMode Filesystem, which is the default of claims": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, claim(), volume("v", volumeMode="Filesystem")], ALL),
    "a terminating volume": (
        "CheckVolumeBinding", mounting("data"),
        [LOCAL, claim(), volume("v", metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"})], NO_VOLUMES),
    "a released volume": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, claim(), volume("v", phase="Released")], NO_VOLUMES),
    "two claims and one volume": (
        "CheckVolumeBinding", mounting("data", "more"), [LOCAL, claim(), claim("more"), volume("v")], NO_VOLUMES),
    "two claims and two volumes": (
        "CheckVolumeBinding", mounting("data", "more"),
        [LOCAL, claim(), claim("more"), volume("v"), volume("w")], ALL),
    "an empty class in the beta annotation": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, volume("v"), claim(metadata={"annotations": {
            "volume.beta.kubernetes.io/storage-class": ""}})],
        "0/3 nodes are available: 3 pod has unbound immediate PersistentVolumeClaims."),
    "a class in the beta annotation that is a list": (
        "CheckVolumeBinding", mounting("data"), [LOCAL, volume("v"), claim(metadata={"annotations": {
            "volume.beta.kubernetes.io/storage-class": ["local"]}})],
        'metadata.annotations[volume.beta.kubernetes.io/storage-class]: expected a string, got ["local"]'),
    "two claims with different selected nodes": (
        "CheckVolumeBinding", mounting("data", "more"), [
            storage_class("made", "example.com/made"), claim(of="made", metadata=to_be_provisioned("a")),
            claim("more", of="made", metadata=to_be_provisioned("b"))], NO_VOLUMES),
    "a provisioner for one zone": (
        "CheckVolumeBinding", mounting("data"),
        [claim(of="made"), storage_class("made", "example.com/made", allowedTopologies=[
            {"matchLabelExpressions": [{"key": ZONE, "values": ["west"]}]}])], ["c"]),
    "a provisioner with an empty topology term": (
        "CheckVolumeBinding", mounting("data"),
        [claim(of="made"), storage_class("made", "example.com/made", allowedTopologies=[{}])], NO_VOLUMES),
    "a claim without a class and a volume": (
        "NoVolumeZoneConflict", mounting("data"), [claim(of=None)],
        'running "VolumeZone" filter plugin for pod "p": PersistentVolumeClaim had no pv name and storageClass name'),
    "as many disks as the limit of a Nitro node": ("MaxEBSVolumeCount", *on_nitro(25), ALL),
    "one disk more than that": ("MaxEBSVolumeCount", *on_nitro(26), ["b", "c"]),
    "one disk more, with the newer label": ("MaxEBSVolumeCount", *on_nitro(26, "node.kubernetes.io/instance-type"), ["b", "c"]),
    "a claim that may become an EBS disk, and one disk more than the limit": (
        "MaxEBSVolumeCount", mounting("data", disks=["disk"]),
        [machine("a", **{"attachable-volumes-aws-ebs": "1"}), claim(of="ebs"),
         storage_class("ebs", "kubernetes.io/aws-ebs")], ["b", "c"]),
    "a claim that is bound to another kind of volume": (
        "MaxEBSVolumeCount", mounting("data", disks=["disk"]),
        [machine("a", **{"attachable-volumes-aws-ebs": "1"}), claim(of="ebs", volumeName="v"),
         volume("v", "ebs", "Bound", nfs={"server": "s", "path": "/"}),
         storage_class("ebs", "kubernetes.io/aws-ebs")], ALL),
    "a claim for a CSI driver with a limit of 0": (
        "MaxCSIVolumeCountPred", mounting("data"),
        [csi_node(driver=0), claim(of="made"), storage_class("made", "driver")], ["b", "c"]),
    "a claim for an in-tree provisioner that a CSI driver has replaced": (
        "MaxCSIVolumeCountPred", mounting("data"),
        [csi_node(**{"kubernetes.io/aws-ebs": 0}), claim(of="ebs"), storage_class("ebs", "kubernetes.io/aws-ebs")],
        ALL),
    "a claim for a driver whose resource name would have 63 characters": (
        "MaxCSIVolumeCountPred", mounting("data"),
        [machine("a", **{f"attachable-volumes-csi-{LONG}": "0"}),
         machine("b", **{"attachable-volumes-csi-a-driver-whose-name-has11a19e42e28acc2e": "0"}),
         claim(of="made"), storage_class("made", LONG)], ["a", "c"]),
    "a claim for a driver whose resource name has 62 characters": (
        "MaxCSIVolumeCountPred", mounting("data"),
        [machine("a", **{f"attachable-volumes-csi-{LONG[1:]}": "0"}), claim(of="made"),
         storage_class("made", LONG[1:])], ["b", "c"]),
}


@table("entry, incoming, objects, answer", RARE_CASES)
def test_rare_cases(entry, incoming, objects, answer):
    entry = {"name": entry, **({} if entry in PREDICATES else {"weight": 1})} if isinstance(
        entry, str) else entry
    kind = "priorities" if "weight" in entry else "predicates"
    policies = {"my-scheduler": read_policy({
        "kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [], kind: [entry]})}
    decision = decide(policies, incoming, *NODES, *objects)  # the last node with the same name counts
    if isinstance(answer, dict):
        assert decision.scores == {entry["name"]: answer}
    assert (decision.message or list(decision.total)) == (list(answer) if isinstance(answer, dict) else answer)
