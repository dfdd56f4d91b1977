"""Helpers for the tests of workloads: short constructors, the pods created from workloads, and real controllers."""

import pytest
import yaml

from helpers.extras import pod
from helpers.manifests import kind
from scheduler_extras.manifests.manifests import Manifests


HOSTNAME = "kubernetes.io/hostname"
SPREAD = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}


def spec(**fields):
    """A pod with these fields in its spec."""
    return pod("p", **fields)


def workload(of, name="w", template=None, labels=True, **fields):
    """A workload with a labelled template."""
    group = {"Job": "batch/v1", "ReplicationController": "v1"}.get(of, "apps/v1")
    template = {"metadata": {"labels": {"app": name}}, "spec": {
        "schedulerName": "my-scheduler", "containers": [{"name": "c", "image": "x"}],
        **({"restartPolicy": "Never"} if of == "Job" else {}), **(template or {})}}
    selector = {"ReplicationController": {"app": name}, "Job": None}.get(of, {"matchLabels": {"app": name}})
    return kind(of, name, "default", apiVersion=group, spec={"template": template, **({"selector": selector} if selector else {}), **fields})


def pods_of(folder, *things):
    """Return the pods of these manifests, with those created from workloads."""
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(things))
    objects = Manifests([folder / "cluster.yaml"]).objects
    return [thing for (resource, *_), thing in objects.items() if resource == "pods"]


def owned(name, by, number=0, **more):
    """A pod owned by a controller."""
    reference = {"apiVersion": "v1", "kind": by, "name": number or "w", "uid": "1", "controller": True}
    return pod(name, labels={"app": "w"}, metadata={"ownerReferences": [reference]}, **more)


def terminating(thing):
    """The object with a deletionTimestamp."""
    return thing | {"metadata": thing["metadata"] | {"deletionTimestamp": "2024-01-01T00:00:00Z"}}


@pytest.fixture
def controllers(control_plane):
    """A control plane with kube-controller-manager, which runs the controllers of workloads."""
    names = "deployment,replicaset,replicationcontroller,statefulset,daemonset,job,cronjob"
    process = control_plane.start(
        "kube-controller-manager", f"--kubeconfig={control_plane.kubeconfig()}", "--leader-elect=false", "--port=0",
        "--secure-port=0", f"--controllers={names}")
    yield control_plane
    process.kill()
    process.wait()
    for of in ("deployments", "replicasets", "statefulsets", "daemonsets"):
        control_plane.request("DELETE", f"../../apis/apps/v1/namespaces/default/{of}")
    control_plane.request("DELETE", "../../apis/batch/v1/namespaces/default/jobs", params={"propagationPolicy": "Background"})
    for of in ("replicationcontrollers", "persistentvolumeclaims"):
        control_plane.request("DELETE", f"namespaces/default/{of}")
