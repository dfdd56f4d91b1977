"""Manifests that an API server rejects, and the tolerations that admission adds to pods."""

import yaml

from helpers.extras import claim, node, pod, table, volume
from helpers.manifests import LEFT_OUT, kind, limited, placed, priority_class
from helpers.workloads import HOSTNAME, SPREAD, spec, workload
from scheduler_extras.deciding.rule import DURING_SCHEDULING


def scaler_of(spec):
    """A HorizontalPodAutoscaler with this spec."""
    return kind("HorizontalPodAutoscaler", "h", "default", apiVersion="autoscaling/v1", spec=spec)


def with_ports(*ports, **fields):
    """A pod with a container that has these ports."""
    return spec(containers=[{"name": "c", "image": "x", "ports": [*ports]}], **fields)


LOCAL = volume("v", local={"path": "/mnt"})


REJECTED = {
    "no containers": (spec(containers=[]), "spec.containers: Required value"),
    "two containers with the same name": (
        spec(containers=[{"name": "c", "image": "x"}] * 2), "spec.containers: Duplicate value: two have one name"),
    "a duplicate host port": (
        with_ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}),
        "spec.containers: Duplicate value: a hostPort comes twice"),
    "a host port that differs from the containerPort, with hostNetwork": (
        with_ports({"containerPort": 80, "hostPort": 8080}, hostNetwork=True),
        "spec.containers: containerPort must match `hostPort` when `hostNetwork` is true"),
    "a duplicate spread constraint": (
        spec(topologySpreadConstraints=[SPREAD, SPREAD | {"maxSkew": 3}]),
        "spec.topologySpreadConstraints: Duplicate value of {topologyKey, whenUnsatisfiable}"),
    "a name with capital letters": (pod("MyPod"), 'metadata.name: expected a lowercase RFC 1123 subdomain, such as my-pod, got "MyPod"'),
    "a node's name with an underscore": (
        node("worker_3"), 'metadata.name: expected a lowercase RFC 1123 subdomain, such as my-pod, got "worker_3"'),
    "a container's name with a capital letter": (
        spec(containers=[{"name": "C", "image": "x"}]),
        'spec.containers[0].name: expected a lowercase RFC 1123 label, such as my-name, got "C"'),
    "an invalid name of a namespace": (
        kind("Namespace", "my_space"), 'metadata.name: expected a lowercase RFC 1123 subdomain, such as my-pod, got "my_space"'),
    "a priority without its class": (
        spec(priority=100), "spec.priority: must not be provided, or be that of its PriorityClass: 0"),
    "a preemptionPolicy without its class": (
        spec(preemptionPolicy="Never"),
        "spec.preemptionPolicy: must not be provided, or be that of its PriorityClass: PreemptLowerPriority"),
    "an unknown preemptionPolicy": (
        spec(preemptionPolicy="never"), 'spec.preemptionPolicy: expected one of Never, PreemptLowerPriority, got "never"'),
    "huge pages without cpu or memory": (
        spec(containers=[{"name": "c", "image": "x", "resources": {"limits": {"hugepages-2Mi": "4Mi"}}}]),
        "spec.containers[0].resources: HugePages require cpu or memory"),
    "half a device": (
        spec(containers=[{"name": "c", "image": "x", "resources": {"limits": {"example.com/gpu": "500m"}}}]),
        "spec.containers[0].resources.requests.example.com/gpu: must be an integer"),
    "a local volume without node affinity": (LOCAL, "spec.nodeAffinity: Local volume requires node affinity"),
    "a volume without access modes": (volume("v", accessModes=[], hostPath={"path": "/mnt"}), "spec.accessModes: Required value"),
    "a claim without access modes": (claim("c", accessModes=[]), "spec.accessModes: Required value"),
    "In without values": (
        spec(affinity={"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}),
        f"spec.affinity.nodeAffinity.required{DURING_SCHEDULING}.nodeSelectorTerms[0].matchExpressions[0].values: must be specified "
        "when `operator` is 'In' or 'NotIn'"),
    "Exists with values": (
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
    "two volumes with the same name": (
        spec(volumes=[{"name": "v", "emptyDir": {}}] * 2), "spec.volumes: Duplicate value of {name}"),
    "a duplicate taint": (
        node("m", taints=[{"key": "a", "value": value, "effect": "NoSchedule"} for value in "bc"]),
        "spec.taints: Duplicate value of {key, effect}"),
    "a Deployment whose selector does not match its template": (
        kind("Deployment", "d", "default", apiVersion="apps/v1", spec={
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}),
        "spec.template.metadata.labels: `selector` does not match template `labels`"),
    "a Deployment without a selector": (
        kind("Deployment", "d", "default", apiVersion="apps/v1", spec={
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}),
        "spec.selector: Required value"),
    "a Deployment without containers": (
        kind("Deployment", "d", "default", apiVersion="apps/v1", spec={
            "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}}),
        "spec.template.spec.containers: Required value"),
    "a Deployment with restartPolicy Never": (
        workload("Deployment", template={"restartPolicy": "Never"}), 'spec.template.spec.restartPolicy: Unsupported value, expected "Always"'),
    "a Job without a restartPolicy": (
        workload("Job", template={"restartPolicy": None}), 'spec.template.spec.restartPolicy: Required value, "OnFailure" or "Never"'),
    "a podManagementPolicy in lower case": (
        workload("StatefulSet", podManagementPolicy="parallel"), 'spec.podManagementPolicy: expected one of OrderedReady, Parallel, got "parallel"'),
    "an autoscaler without a target, as in a patch": (
        scaler_of({"minReplicas": 3}), "spec.maxReplicas: Required value; spec.scaleTargetRef: Required value"),
    "an autoscaler with maxReplicas below minReplicas": (
        scaler_of({"minReplicas": 3, "maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}),
        "spec.maxReplicas: must be greater than or equal to `minReplicas`"),
    "a budget with minAvailable and maxUnavailable": (
        kind("PodDisruptionBudget", "b", "default", apiVersion="policy/v1beta1", spec={"minAvailable": 1, "maxUnavailable": 1}),
        "spec: minAvailable and maxUnavailable cannot be both set"),
    "a PriorityClass with a value reserved for the system": (
        priority_class("c", 2_000_000_000), "value: maximum allowed value of a user defined priority is 1000000000"),
}


REJECTED_NOW = {  # accepted by an API server of 1.20, which drops the field, and rejected by newer ones
    "matchLabelKeys without a selector": (
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


@table("thing, message", REJECTED | REJECTED_NOW)
def test_an_object_that_an_api_server_rejects_is_skipped_with_a_message(thing, message):
    decisions, err = placed(thing, pod("other"))
    assert err.splitlines() == [f"-: {thing['kind']} {thing['metadata']['name']}{LEFT_OUT}: {message}"]
    assert [*decisions] == ["default/other"]


@table("thing, message", REJECTED)
def test_a_real_api_server_rejects_the_object(thing, message, control_plane):
    url = f"{control_plane.server}/api/v1/{PLACES[thing['kind']]}"
    answer = control_plane.session.post(url, json=thing, timeout=60)
    assert answer.status_code in (400, 403, 422), answer.text


@table("thing", {
    "a fraction of a byte": (pod("p", {"memory": "100m"}),),
    "ports with hostNetwork": (with_ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 81}, hostNetwork=True),),
    "a host port for two protocols": (with_ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 80, "protocol": "UDP"}),),
    "two constraints with the same topologyKey": (spec(topologySpreadConstraints=[SPREAD, SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"}]),),
    "Gt with a fraction": (
        spec(affinity={"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["150.1"]}]}]}}}),),
    "the default priority": (spec(priority=0, preemptionPolicy="PreemptLowerPriority"),),
})
def test_an_object_that_an_api_server_accepts_is_not_skipped(thing, control_plane):
    thing = thing[0]
    assert "default/p" in placed(thing)[0]
    control_plane.create(thing)


def test_a_rejected_pod_takes_no_device():
    gpus = node("m", status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "1"}})
    bad = limited({"example.com/gpu": "1"}, nodeName="m", priority=5)
    good = limited({"example.com/gpu": "1"})
    good["metadata"]["name"] = "good"
    assert placed(gpus, bad, good)[0]["default/good"]["node"] == "m"


@table("metadata, spec, is_there", {
    "a running pod takes room": ({"uid": "1"}, {"nodeName": "n"}, True),
    "a pending pod is skipped": ({"uid": "1"}, {}, False),
})
def test_a_copied_pod_with_a_mistake_gives_a_message(metadata, spec, is_there):
    bad = pod("bad", {"cpu": "4"}, metadata=metadata, tolerations=[{"key": "a", "operator": "Exist"}], **spec)
    decisions, err = placed(bad, pod("p", {"cpu": "1"}))
    assert err.startswith(f"-: Pod bad{'' if is_there else LEFT_OUT}: spec.tolerations[0].operator: expected one of ")
    assert decisions["default/p"]["node"] == (None if is_there else "n")


@table("fields, message", {
    "a field in the wrong place": (
        {"containers": [{"name": "c", "nodeSelector": {"a": "b"}}]}, "-: Pod p: spec.containers[0].nodeSelector: belongs in spec, beside containers\n"),
    "Lt without a number": (
        {"affinity": {"nodeAffinity": {f"preferred{DURING_SCHEDULING}": [{"weight": 1, "preference": {
            "matchExpressions": [{"key": "a", "operator": "Lt", "values": ["x"]}]}}]}}},
        f"-: Pod p: spec.affinity.nodeAffinity.preferred{DURING_SCHEDULING}[0].preference.matchExpressions[0]: for 'Gt', 'Lt' "
        "operators, the value must be an integer\n"),
    "a misspelt field": ({"nodeselector": {"a": "b"}}, '-: Pod p: spec.nodeselector: did you mean "nodeSelector"?\n'),
    "a misspelt field of a container": (
        {"containers": [{"name": "c", "resource": {}}]}, '-: Pod p: spec.containers[0].resource: did you mean "resources"?\n'),
    "a misspelt field of an affinity": (
        {"affinity": {"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [
            {"matchExpression": [{"key": "a", "operator": "Exists"}]}]}}}},
        f"-: Pod p: spec.affinity.nodeAffinity.required{DURING_SCHEDULING}.nodeSelectorTerms[0].matchExpression: "
        'did you mean "matchExpressions"?\n'),
    "an old priority of its class": ({"priority": 7}, ""),
})
def test_remarks_about_an_edited_copy(fields, message):
    decisions, err = placed(pod("p", metadata={"uid": "1"}, **fields))
    assert (err.splitlines()[:1], [*decisions]) == (message.splitlines(), ["default/p"])


@table("tolerations, effect, place", {
    "NoExecute is tolerated": ([], "NoExecute", "n"),
    "NoSchedule is not tolerated": ([], "NoSchedule", None),
    "another toleration for the taint replaces the default one": (
        [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "operator": "Equal", "value": "x"}], "NoExecute", None),
})
def test_pods_get_the_default_tolerations(tolerations, effect, place):
    taint = {"key": "node.kubernetes.io/not-ready", "effect": effect}
    things = [node("n", taints=[taint]), pod("p", tolerations=tolerations)]
    assert placed(text=yaml.safe_dump_all(things))[0]["default/p"]["node"] == place
