"""Manifests that an API server would reject."""

import re

import yaml

from helpers.extras import node, pod, run_scheduler, table
from helpers.manifests import LEFT_OUT, kind, placed
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.manifests.manifests import Manifests


def tolerating(sign):
    """A pod with a toleration that has this operator."""
    return pod("p", tolerations=[{"key": "gpu", "operator": sign}])


def choosing(sign, values=("ssd",)):
    """A pod with required node affinity that has this operator and these values."""
    return pod("p", affinity={"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": sign, "values": [*values]}]}]}}})


CHOICE = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"


@table("thing, message", {
    "an unknown effect": (
        pod("p", tolerations=[{"key": "a", "effect": "Noschedule"}]), 'spec.tolerations[0].effect: expected one of '
        'NoExecute, NoSchedule, PreferNoSchedule, got "Noschedule"'),
    "a toleration in a container": (
        pod("p", containers=[{"name": "c", "tolerations": []}]),
        "spec.containers[0].tolerations: belongs in spec, beside containers"),
    "... in an init container": (
        pod("p", initContainers=[{"name": "b"}, {"name": "c", "affinity": {}}]),
        "spec.initContainers[1].affinity: belongs in spec, beside containers"),
    "a quantity outside of requests and limits": (
        pod("p", containers=[{"name": "c", "resources": {"cpu": 1}}]),
        "spec.containers[0].resources.cpu: belongs in requests or limits"),
    "an unknown resource": (
        pod("p", {"CPU": 1}), "spec.containers[0].resources.requests.CPU: no such resource; expected cpu, memory, "
        "ephemeral-storage, or example.com/CPU"),
    "valid resources": (
        pod("p", containers=[{"name": "c", "resources": {
            "requests": {"cpu": "500m"}, "limits": {"cpu": 1, "hugepages-2Mi": "2Mi", "example.com/gpu": 1}}}],
            resources={"limits": {"cpu": 1}}), None),
    "a request above the limit": (
        pod("p", containers=[{"name": "c", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1999m"}}}]),
        "spec.containers[0].resources.requests.cpu: must be less than or equal to cpu limit"),
    "a device without a limit": (
        pod("p", {"example.com/gpu": 1}),
        "spec.containers[0].resources.limits.example.com/gpu: Limit must be set for non overcommitable resources"),
    "a device with a different limit": (
        pod("p", containers=[{"name": "c", "resources": {"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}}}]),
        "spec.containers[0].resources.requests.example.com/gpu: must be equal to example.com/gpu limit"),
    "half a device": (
        pod("p", containers=[{"name": "c", "resources": {"limits": {"example.com/gpu": "0.5"}}}]),
        "spec.containers[0].resources.requests.example.com/gpu: must be an integer"),
    "a resource of kubernetes.io, which may be overcommitted": (pod("p", {"kubernetes.io/batch": 1}), None),
    "a port with an unknown protocol": (
        pod("p", containers=[{"name": "c", "ports": [{"hostPort": 80, "protocol": "tcp"}]}]),
        'spec.containers[0].ports[0].protocol: expected one of SCTP, TCP, UDP, got "tcp"'),
    "a port that is too large": (
        pod("p", containers=[{"name": "c", "ports": [{"hostPort": 65536}]}]),
        "spec.containers[0].ports[0].hostPort: expected from 0 to 65535, got 65536"),
    "tolerationSeconds with NoSchedule": (
        pod("p", tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]),
        "spec.tolerations[0].effect: must be 'NoExecute' when `tolerationSeconds` is set"),
    "a toleration's value without quotes": (
        pod("p", tolerations=[{"key": "a", "value": True}]),
        "spec.tolerations[0].value: expected a string, got true"),
    "a preferred term outside of podAffinityTerm": (
        pod("p", affinity={"podAntiAffinity": {f"preferred{DURING_SCHEDULING}": [
            {"weight": 1, "topologyKey": "zone", "labelSelector": {}}]}}),
        f"spec.affinity.podAntiAffinity.preferred{DURING_SCHEDULING}[0].topologyKey: belongs in podAffinityTerm"),
    "a preferred term outside of preference": (
        pod("p", affinity={"nodeAffinity": {f"preferred{DURING_SCHEDULING}": [{"weight": 1, "matchExpressions": []}]}}),
        f"spec.affinity.nodeAffinity.preferred{DURING_SCHEDULING}[0].matchExpressions: belongs in preference, if it is of nodes"),
    "required node affinity as a list": (
        pod("p", affinity={"nodeAffinity": {f"required{DURING_SCHEDULING}": [{}]}}),
        f"spec.affinity.nodeAffinity.required{DURING_SCHEDULING}: expected an object, got [{{}}]"),
    "required pod affinity as an object": (
        pod("p", affinity={"podAffinity": {f"required{DURING_SCHEDULING}": {"topologyKey": "z"}}}),
        f'spec.affinity.podAffinity.required{DURING_SCHEDULING}: expected a list, got {{"topologyKey": "z"}}'),
    "requests outside of resources": (
        pod("p", containers=[{"name": "c", "requests": {"cpu": 1}}]), "spec.containers[0].requests: belongs in resources"),
    "an unknown nodeTaintsPolicy": (
        pod("p", topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway",
                                             "nodeTaintsPolicy": "honor"}]),
        'spec.topologySpreadConstraints[0].nodeTaintsPolicy: expected one of Honor, Ignore, got "honor"'),
    "minDomains with ScheduleAnyway": (
        pod("p", topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway",
                                             "minDomains": 2}]),
        "spec.topologySpreadConstraints[0].minDomains: must be left out where whenUnsatisfiable is ScheduleAnyway"),
    "an operator that exists only for nodes": (
        pod("p", topologySpreadConstraints=[{
            "maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}]),
        "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator: Gt is for nodes only"),
    "a preference without a weight": (
        pod("p", affinity={"nodeAffinity": {f"preferred{DURING_SCHEDULING}": [{"preference": {}}]}}),
        f"spec.affinity.nodeAffinity.preferred{DURING_SCHEDULING}[0].weight: Required value"),
    "a preference with a weight above 100": (
        pod("p", affinity={"nodeAffinity": {f"preferred{DURING_SCHEDULING}": [{"weight": 101, "preference": {}}]}}),
        f"spec.affinity.nodeAffinity.preferred{DURING_SCHEDULING}[0].weight: expected from 1 to 100, got 101"),
    "node affinity without terms": (
        pod("p", affinity={"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": []}}}),
        f"spec.affinity.nodeAffinity.required{DURING_SCHEDULING}.nodeSelectorTerms: Required value"),
    "In without values": (
        choosing("In", []), f"{CHOICE}.matchExpressions[0].values: must be specified when `operator` is 'In' or 'NotIn'"),
    "Gt without a number": (
        choosing("Gt", ["x"]),
        f"{CHOICE}.matchExpressions[0]: for 'Gt', 'Lt' operators, the value must be an integer"),
    "an unknown field in matchFields": (
        pod("p", affinity={"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]}]}}}),
        f'{CHOICE}.matchFields[0].key: expected one of metadata.name, got "spec.x"'),
    "an invalid label value": (
        pod("p", nodeSelector={"disk": "very fast"}),
        'spec.nodeSelector: invalid label value: "very fast": at key: "disk"'),
    "an invalid label key": (
        pod("p", nodeSelector={"very fast": "yes"}), 'spec.nodeSelector: invalid label key: "very fast"'),
    "an invalid key of a toleration": (
        pod("p", tolerations=[{"key": "a b", "operator": "Exists"}]),
        'spec.tolerations[0].key: expected a name, such as example.com/gpu, got "a b"'),
    "an invalid topologyKey": (
        pod("p", topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone ", "whenUnsatisfiable": "ScheduleAnyway"}]),
        'spec.topologySpreadConstraints[0].topologyKey: expected a name, such as example.com/gpu, got "zone "'),
    "an invalid value of a toleration": (
        pod("p", tolerations=[{"key": "a", "value": "b c"}]),
        'spec.tolerations[0].value: expected a label\'s value, got "b c"'),
    "an expression without a key": (
        pod("p", affinity={"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
            {"matchExpressions": [{"operator": "Exists"}]}]}}}),
        f"{CHOICE}.matchExpressions[0].key: Required value"),
    "an invalid label of the pod": (
        pod("p", labels={"app": "web/1"}), 'metadata.labels: invalid label value: "web/1": at key: "app"'),
    "a claim without a name": (
        pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"readOnly": True}}]),
        "spec.volumes[0].persistentVolumeClaim.claimName: Required value"),
    "fields of volumes that are not validated": (
        pod("p", volumes=[{"name": "v", "projected": {"sources": [{"labels": {"a": "b c"}}]}}]), None),
    "a value with Exists": (
        pod("p", tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        "spec.tolerations[0].value: must be empty when `operator` is 'Exists'"),
    "a toleration with a value and without a key": (
        pod("p", tolerations=[{"value": "b"}]), "spec.tolerations[0].operator: must be Exists when `key` is empty"),
    "a required term without a topologyKey": (
        pod("p", affinity={"podAntiAffinity": {f"required{DURING_SCHEDULING}": [{"labelSelector": {}}]}}),
        f"spec.affinity.podAntiAffinity.required{DURING_SCHEDULING}[0].topologyKey: Required value"),
    "a preferred term without a topologyKey": (
        pod("p", affinity={"podAffinity": {f"preferred{DURING_SCHEDULING}": [{"weight": 1, "podAffinityTerm": {}}]}}),
        f"spec.affinity.podAffinity.preferred{DURING_SCHEDULING}[0].podAffinityTerm.topologyKey: Required value"),
    "a maxSkew of 0": (
        pod("p", topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]),
        "spec.topologySpreadConstraints[0].maxSkew: expected from 1 to 2147483647, got 0"),
    "a constraint without a maxSkew": (
        pod("p", topologySpreadConstraints=[{"topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]),
        "spec.topologySpreadConstraints[0].maxSkew: Required value"),
    "a selector that is a string": (
        pod("p", topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway",
                                             "labelSelector": "app=web"}]),
        'spec.topologySpreadConstraints[0].labelSelector: expected an object, got "app=web"'),
    "labels with any name": (pod("p", labels={"tolerationz": "x"}, nodeSelector={"request": "y"}), None),
    "an unknown operator of a toleration": (
        tolerating("Exist"), 'spec.tolerations[0].operator: expected one of Equal, Exists, Gt, Lt, got "Exist"'),
    "an operator of a toleration, in the plural": (
        tolerating("Equals"), 'spec.tolerations[0].operator: expected one of Equal, Exists, Gt, Lt, got "Equals"'),
    "an unknown operator of a selector": (
        choosing("Equals"), f"{CHOICE}.matchExpressions[0].operator: expected one of "
        'DoesNotExist, Exists, Gt, In, Lt, NotIn, got "Equals"'),
    "a valid operator of a toleration": (tolerating("Exists"), None),
    "a valid operator of a selector": (choosing("NotIn"), None),
    "an operator that is a list": (
        tolerating(["Exists"]), 'spec.tolerations[0].operator: expected one of Equal, Exists, Gt, Lt, got ["Exists"]'),
    "valid names that resemble others": (pod(
        "p", volumes=[{"name": "v", "image": {"reference": "x"}}], status={"containerStatuses": [{"imageID": "x"}]},
        topologySpreadConstraints=[{
            "mismatchLabelKeys": [], "nodeTaintsPolicy": "Honor", "topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]), None),
    "unknown names that resemble none": (pod("p", zzz=1, hostname="x", serviceAccountName="y", containers=[
        {"name": "c", "volumeMounts": [], "restartPolicyRules": []}]), None),
    "an edited copy of a live pod": (
        pod("p", metadata={"uid": "1"}, tolerations=[{"key": "a", "effect": "x"}]),
        'spec.tolerations[0].effect: expected one of NoExecute, NoSchedule, PreferNoSchedule, got "x"'),
    "empty objects": (pod("p", nodeSelector={}, containers=[{"name": "c", "resources": {}}]), None),
})
def test_pods_that_an_api_server_rejects(thing, message):
    decisions, err = placed(thing)
    is_refused = message is not None and not re.search(": belongs |the value must be an integer", message)
    assert err.splitlines()[:1] == ([f"-: Pod p{LEFT_OUT if is_refused else ''}: {message}"] if message else [])
    assert ("default/p" in decisions) != is_refused


@table("thing, text", {
    "a taint without an effect": (node("m", taints=[{"key": "a"}]), f"Node m{LEFT_OUT}: spec.taints[0].effect: Required value"),
    "a StorageClass with an unknown mode": (
        kind("StorageClass", "s", provisioner="x", volumeBindingMode="waitForFirstConsumer"),
        f'StorageClass s{LEFT_OUT}: volumeBindingMode: expected one of Immediate, WaitForFirstConsumer, got "waitForFirstConsumer"'),
    "a PriorityClass with an unknown policy": (
        kind("PriorityClass", "c", value=1, preemptionPolicy="never"),
        f'PriorityClass c{LEFT_OUT}: preemptionPolicy: expected one of Never, PreemptLowerPriority, got "never"'),
    "a volume with an unknown operator": (
        kind("PersistentVolume", "v", status={"phase": "Available"}, spec={"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}]}}}),
        f"PersistentVolume v{LEFT_OUT}: spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator: "
        'expected one of DoesNotExist, Exists, Gt, In, Lt, NotIn, got "in"'),
})
def test_other_objects_that_an_api_server_rejects(thing, text, tmp_path, caplog):
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node("n"), thing]))
    Manifests([tmp_path / "cluster.yaml"])
    assert [message.partition("cluster.yaml: ")[2] for message in caplog.messages] == ([text] if text else [])


def test_a_rejected_node_and_a_duplicate_node_are_logged():
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([
        node("n"), node("m", taints=[{"key": "a", "effect": "Noschedule"}]), node("n"), node("n", cpu="1")]))
    assert sorted(run.stderr.splitlines()[:2], reverse=True) == [
        "-: Node n: there is one of this name already, which this one replaces",
        f'-: Node m{LEFT_OUT}: spec.taints[0].effect: expected one of NoExecute, NoSchedule, PreferNoSchedule, got "Noschedule"']
