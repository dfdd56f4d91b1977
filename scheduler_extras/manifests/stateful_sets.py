"""The pods and claims of a StatefulSet. Upstream: pkg/controller/statefulset."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler_extras.manifests.workload import Workload, number_in
from scheduler_extras.reading.fields import pick, text_at


def pods_of_stateful_set(workload: Workload) -> Iterator[tuple[str, dict, dict]]:
    """Yield the missing pods, and create their claims.

    With OrderedReady, the default, a pod is created once the one before it is ready; here, that is bound.
    """
    is_one_by_one = text_at(workload.spec, "podManagementPolicy") != "Parallel"
    start = pick(workload.spec, int, "ordinals", "start")
    for ordinal in range(start, start + number_in(workload.spec, "replicas")):
        name = f"{workload.name}-{ordinal}"
        pod = workload.manifests.objects.get(("pods", workload.namespace, name))
        if not pod:
            yield name, labels_of(workload, name, ordinal), {"volumes": volumes_with_claims(workload, name)}
        if is_one_by_one and not (pod and has_started(pod)):
            return


def pods_to_come(objects: dict) -> Iterator[str]:
    """Yield a line for each StatefulSet that will create more pods once a pod of it has a node.

    objects: {place: object}.
    """
    for (resource, namespace, name), obj in objects.items():
        if resource != "statefulsets" or text_at(obj, "spec", "podManagementPolicy") == "Parallel":
            continue
        start = pick(obj, int, "spec", "ordinals", "start")
        numbers = range(start, start + number_in(pick(obj, dict, "spec"), "replicas"))
        missing = [number for number in numbers if ("pods", namespace, f"{name}-{number}") not in objects]
        waiting = next((number for number in numbers if number not in missing
                        and not has_started(objects["pods", namespace, f"{name}-{number}"])), None)
        if missing and waiting is not None:
            pods = "1 more pod" if len(missing) == 1 else f"{len(missing)} more pods"
            yield f"StatefulSet {namespace}/{name} makes {pods} once {name}-{waiting} has a node"


def has_started(pod: dict) -> bool:
    """Return whether a pod has a node, and is not terminating."""
    return bool(text_at(pod, "spec", "nodeName")) and not text_at(pod, "metadata", "deletionTimestamp")


def labels_of(workload: Workload, name: str, ordinal: int) -> dict[str, str]:
    """Return the labels that the controller adds to a pod."""
    return {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal),
            "controller-revision-hash": f"{workload.name}-{workload.hash}"}


def volumes_with_claims(workload: Workload, name: str) -> list[dict]:
    """Return the volumes of a pod, and create its missing claims."""
    volumes = {text_at(each, "name"): each
               for each in pick(workload.template, list, "spec", "volumes", of=dict)}
    for template in pick(workload.spec, list, "volumeClaimTemplates", of=dict):
        volume = text_at(template, "metadata", "name")
        claim = f"{volume}-{name}"
        volumes[volume] = {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
        if ("persistentvolumeclaims", workload.namespace, claim) not in workload.manifests.objects:
            metadata = pick(template, dict, "metadata") | {"name": claim, "namespace": workload.namespace}
            whole = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **template, "metadata": metadata}
            workload.manifests.add(whole)
    return [*volumes.values()]
