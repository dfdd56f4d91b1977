"""What an API server rejects of a manifest, and what admission adds to pods."""

import yaml

from helpers.extras import claim, node, pod, table, volume
from helpers.manifests import LEFT_OUT, kind, limited, placed, priority_class
from helpers.workloads import HOSTNAME, SPREAD, spec, workload
from scheduler_extras.deciding.rule import DURING_SCHEDULING


def scaler_of(spec):
    """A HorizontalPodAutoscaler with this spec."""
    return kind("HorizontalPodAutoscaler", "h", "default", apiVersion="autoscaling/v1", spec=spec)


def with_ports(*ports, **fields):
    """A pod of a container with these ports."""
    return spec(containers=[{"name": "c", "image": "x", "ports": [*ports]}], **fields)


LOCAL = volume("v", local={"path": "/mnt"})


REFUSED = {
    "no containers": (spec(containers=[]), "spec.containers: Required value"),
    "two containers of one name": (
        spec(containers=[{"name": "c", "image": "x"}] * 2), "spec.containers: Duplicate value: two have one name"),
    "a host port twice": (
        with_ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}),
        "spec.containers: Duplicate value: a hostPort comes twice"),
    "another host port on the host's network": (
        with_ports({"containerPort": 80, "hostPort": 8080}, hostNetwork=True),
        "spec.containers: containerPort must match `hostPort` when `hostNetwork` is true"),
    "one spread constraint twice": (
        spec(topologySpreadConstraints=[SPREAD, SPREAD | {"maxSkew": 3}]),
        "spec.topologySpreadConstraints: Duplicate value of {topologyKey, whenUnsatisfiable}"),
    "a name in capital letters": (pod("MyPod"), 'metadata.name: expected a lowercase RFC 1123 subdomain, such as my-pod, got "MyPod"'),
    "a node's name with an underscore": (
        node("worker_3"), 'metadata.name: expected a lowercase RFC 1123 subdomain, such as my-pod, got "worker_3"'),
    "a container's name with a capital letter": (
        spec(containers=[{"name": "C", "image": "x"}]),
        'spec.containers[0].name: expected a lowercase RFC 1123 label, such as my-name, got "C"'),
    "a namespace that there cannot be": (
        kind("Namespace", "my_space"), 'metadata.name: expected a lowercase RFC 1123 subdomain, such as my-pod, got "my_space"'),
    "a priority without its class": (
        spec(priority=100), "spec.priority: must not be provided, or be that of its PriorityClass: 0"),
    "a policy of preemption without its class": (
        spec(preemptionPolicy="Never"),
        "spec.preemptionPolicy: must not be provided, or be that of its PriorityClass: PreemptLowerPriority"),
    "... that there is not": (
        spec(preemptionPolicy="never"), 'spec.preemptionPolicy: expected one of Never, PreemptLowerPriority, got "never"'),
    "huge pages without cpu or memory": (
        spec(containers=[{"name": "c", "image": "x", "resources": {"limits": {"hugepages-2Mi": "4Mi"}}}]),
        "spec.containers[0].resources: HugePages require cpu or memory"),
    "half a device": (
        spec(containers=[{"name": "c", "image": "x", "resources": {"limits": {"example.com/gpu": "500m"}}}]),
        "spec.containers[0].resources.requests.example.com/gpu: must be an integer"),
    "a local volume that is on no node": (LOCAL, "spec.nodeAffinity: Local volume requires node affinity"),
    "a volume without access modes": (volume("v", accessModes=[], hostPath={"path": "/mnt"}), "spec.accessModes: Required value"),
    "a claim without access modes": (claim("c", accessModes=[]), "spec.accessModes: Required value"),
    "an operator that needs values": (
        spec(affinity={"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}),
        f"spec.affinity.nodeAffinity.required{DURING_SCHEDULING}.nodeSelectorTerms[0].matchExpressions[0].values: must be specified "
        "when `operator` is 'In' or 'NotIn'"),
    "... that takes none": (
        spec(affinity={"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}]}}}),
        f"spec.affinity.nodeAffinity.required{DURING_SCHEDULING}.nodeSelectorTerms[0].matchExpressions[0].values: may not be specified "
        "when `operator` is 'Exists' or 'DoesNotExist'"),
    "a value without quotes": (
        spec(affinity={"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": [5]}]}]}}}),
        f"spec.affinity.nodeAffinity.required{DURING_SCHEDULING}.nodeSelectorTerms[0].matchExpressions[0].values[0]: expected a string, got 5"),
    "a resource of a name with two slashes": (
        spec(containers=[{"name": "c", "image": "x", "resources": {"limits": {"example.com/gpu/big": "1"}}}]),
        "spec.containers[0].resources.limits.example.com/gpu/big: expected a name, such as example.com/gpu"),
    "two volumes of one name": (
        spec(volumes=[{"name": "v", "emptyDir": {}}] * 2), "spec.volumes: Duplicate value of {name}"),
    "one taint twice": (
        node("m", taints=[{"key": "a", "value": value, "effect": "NoSchedule"} for value in "bc"]),
        "spec.taints: Duplicate value of {key, effect}"),
    "a Deployment that selects others' pods": (
        kind("Deployment", "d", "default", apiVersion="apps/v1", spec={
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}),
        "spec.template.metadata.labels: `selector` does not match template `labels`"),
    "a Deployment that selects nothing": (
        kind("Deployment", "d", "default", apiVersion="apps/v1", spec={
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}),
        "spec.selector: Required value"),
    "... or whose pods have no containers": (
        kind("Deployment", "d", "default", apiVersion="apps/v1", spec={
            "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}}),
        "spec.template.spec.containers: Required value"),
    "... or that does not restart them": (
        workload("Deployment", template={"restartPolicy": "Never"}), 'spec.template.spec.restartPolicy: Unsupported value, expected "Always"'),
    "a Job that restarts its pods": (
        workload("Job", template={"restartPolicy": None}), 'spec.template.spec.restartPolicy: Required value, "OnFailure" or "Never"'),
    "a policy of a StatefulSet in small letters": (
        workload("StatefulSet", podManagementPolicy="parallel"), 'spec.podManagementPolicy: expected one of OrderedReady, Parallel, got "parallel"'),
    "an autoscaler of nothing, as in a patch": (
        scaler_of({"minReplicas": 3}), "spec.maxReplicas: Required value; spec.scaleTargetRef: Required value"),
    "... with less at most than at least": (
        scaler_of({"minReplicas": 3, "maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}),
        "spec.maxReplicas: must be greater than or equal to `minReplicas`"),
    "a budget of two kinds": (
        kind("PodDisruptionBudget", "b", "default", apiVersion="policy/v1beta1", spec={"minAvailable": 1, "maxUnavailable": 1}),
        "spec: minAvailable and maxUnavailable cannot be both set"),
    "a PriorityClass as high as those of the system": (
        priority_class("c", 2_000_000_000), "value: maximum allowed value of a user defined priority is 1000000000"),
}


TODAY = {  # what an API server of 1.20 takes, as it drops the field, and one of today refuses
    "keys of labels without a selector": (
        spec(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"]}]),
        "spec.topologySpreadConstraints[0].matchLabelKeys: must not be specified when labelSelector is not set"),
}


PLACES = {"Node": "nodes", "Namespace": "namespaces", "PersistentVolume": "persistentvolumes", "Pod": "namespaces/default/pods",
          "PersistentVolumeClaim": "namespaces/default/persistentvolumeclaims",
          "PodDisruptionBudget": "../../apis/policy/v1beta1/namespaces/default/poddisruptionbudgets",
          "HorizontalPodAutoscaler": "../../apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
          "PriorityClass": "../../apis/scheduling.k8s.io/v1/priorityclasses",
          "Job": "../../apis/batch/v1/namespaces/default/jobs",
          **{kind: f"../../apis/apps/v1/namespaces/default/{kind.lower()}s" for kind in ("Deployment", "StatefulSet")}}


@table("thing, message", REFUSED | TODAY)
def test_what_an_api_server_refuses_is_named_and_left_out(thing, message):
    decisions, err = placed(thing, pod("other"))
    assert err.splitlines() == [f"-: {thing['kind']} {thing['metadata']['name']}{LEFT_OUT}: {message}"]
    assert [*decisions] == ["default/other"]


@table("thing, message", REFUSED)
def test_an_api_server_refuses_it(thing, message, control_plane):
    url = f"{control_plane.server}/api/v1/{PLACES[thing['kind']]}"
    answer = control_plane.session.post(url, json=thing, timeout=60)
    assert answer.status_code in (400, 403, 422), answer.text


@table("thing", {
    "as much memory as a thousandth of a byte": (pod("p", {"memory": "100m"}),),
    "a port on the host's network": (with_ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 81}, hostNetwork=True),),
    "a host port of two protocols": (with_ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 80, "protocol": "UDP"}),),
    "two constraints of one key": (spec(topologySpreadConstraints=[SPREAD, SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"}]),),
    "a number of node affinity that is none": (
        spec(affinity={"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["150.1"]}]}]}}}),),
    "the priority that it gets": (spec(priority=0, preemptionPolicy="PreemptLowerPriority"),),
})
def test_what_an_api_server_takes_is_not_left_out(thing, control_plane):
    thing = thing[0]
    assert "default/p" in placed(thing)[0]
    control_plane.create(thing)


def test_a_refused_pod_keeps_no_device_from_the_next_one():
    gpus = node("m", status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "1"}})
    bad = limited({"example.com/gpu": "1"}, nodeName="m", priority=5)
    good = limited({"example.com/gpu": "1"})
    good["metadata"]["name"] = "good"
    assert placed(gpus, bad, good)[0]["default/good"]["node"] == "m"


@table("metadata, spec, is_there", {
    "one that runs takes room, whatever was edited": ({"uid": "1"}, {"nodeName": "n"}, True),
    "one that waits is left out": ({"uid": "1"}, {}, False),
})
def test_a_copied_pod_with_a_mistake_is_told(metadata, spec, is_there):
    bad = pod("bad", {"cpu": "4"}, metadata=metadata, tolerations=[{"key": "a", "operator": "Exist"}], **spec)
    decisions, err = placed(bad, pod("p", {"cpu": "1"}))
    assert err.startswith(f"-: Pod bad{'' if is_there else LEFT_OUT}: spec.tolerations[0].operator: expected one of ")
    assert decisions["default/p"]["node"] == (None if is_there else "n")


@table("fields, message", {
    "a field in the wrong place": (
        {"containers": [{"name": "c", "nodeSelector": {"a": "b"}}]}, "-: Pod p: spec.containers[0].nodeSelector: belongs in spec, beside containers\n"),
    "a number that is none": (
        {"affinity": {"nodeAffinity": {f"preferred{DURING_SCHEDULING}": [{"weight": 1, "preference": {
            "matchExpressions": [{"key": "a", "operator": "Lt", "values": ["x"]}]}}]}}},
        f"-: Pod p: spec.affinity.nodeAffinity.preferred{DURING_SCHEDULING}[0].preference.matchExpressions[0]: for 'Gt', 'Lt' "
        "operators, the value must be an integer\n"),
    "a field that is misspelt": ({"nodeselector": {"a": "b"}}, '-: Pod p: spec.nodeselector: did you mean "nodeSelector"?\n'),
    "... of a container": (
        {"containers": [{"name": "c", "resource": {}}]}, '-: Pod p: spec.containers[0].resource: did you mean "resources"?\n'),
    "... of an affinity": (
        {"affinity": {"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
            {"matchExpression": [{"key": "a", "operator": "Exists"}]}]}}}},
        f"-: Pod p: spec.affinity.nodeAffinity.required{DURING_SCHEDULING}.nodeSelectorTerms[0].matchExpression: "
        'did you mean "matchExpressions"?\n'),
    "a priority that its class had once": ({"priority": 7}, ""),
})
def test_of_an_edited_copy_it_is_said_what_is_odd(fields, message):
    decisions, err = placed(pod("p", metadata={"uid": "1"}, **fields))
    assert (err.splitlines()[:1], [*decisions]) == (message.splitlines(), ["default/p"])


@table("tolerations, effect, place", {
    "a node that fails has five minutes": ([], "NoExecute", "n"),
    "... but no new pods while its taint says so": ([], "NoSchedule", None),
    "who says something else about it is obeyed": (
        [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "operator": "Equal", "value": "x"}], "NoExecute", None),
})
def test_pods_get_the_tolerations_of_admission(tolerations, effect, place):
    taint = {"key": "node.kubernetes.io/not-ready", "effect": effect}
    things = [node("n", taints=[taint]), pod("p", tolerations=tolerations)]
    assert placed(text=yaml.safe_dump_all(things))[0]["default/p"]["node"] == place
