"""Finding a pod by NAMESPACE/NAME, by its name alone, as pod/NAME, or by its workload, as deploy/NAME.

one_pod.py calls `find_pod`.
"""

from __future__ import annotations

from scheduler_extras.common.errors import ApiError
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.hints import did_you_mean
from scheduler_extras.reading.pods_and_nodes import FullPod


KINDS = {  # resource name or short name, as in kubectl -> the kind
    **dict.fromkeys(["pod", "pods", "po"], "Pod"),
    **dict.fromkeys(["deployment", "deployments", "deploy", "deployment.apps"], "Deployment"),
    **dict.fromkeys(["replicaset", "replicasets", "rs", "replicaset.apps"], "ReplicaSet"),
    **dict.fromkeys(["statefulset", "statefulsets", "sts", "statefulset.apps"], "StatefulSet"),
    **dict.fromkeys(["daemonset", "daemonsets", "ds", "daemonset.apps"], "DaemonSet"),
    **dict.fromkeys(["replicationcontroller", "replicationcontrollers", "rc"], "ReplicationController"),
    **dict.fromkeys(["job", "jobs", "job.batch"], "Job")}
HINT = "expected NAMESPACE/NAME of a pod that has not ended; default/ may be omitted"


def find_pod(asked: str, pods: dict[str, FullPod], namespace: str | None = None) -> FullPod:
    """Return the pod that `asked` names. Raises ApiError, with a suggestion.

    namespace: that of -n. Without it, the name is looked up in default, then in all namespaces.
    """
    before, _, name = asked.rpartition("/")
    if f"{before or namespace or 'default'}/{name}" in pods:
        return pods[f"{before or namespace or 'default'}/{name}"]
    kind = KINDS.get(before.rpartition("/")[2].lower())
    of_namespace = before.rpartition("/")[0] or namespace
    if before and not kind:
        raise not_found(asked, f"{before}/{name}", pods)
    found = [pod for pod in pods.values() if of_namespace in (None, "", pod.namespace)
             and (is_of(pod, kind, name) if kind not in (None, "Pod") else pod.name == name)]
    in_default = [pod for pod in found if pod.namespace == (of_namespace or "default")]
    found = in_default or found
    if len({pod.namespace for pod in found}) > 1:
        where = ", ".join(sorted({pod.namespace for pod in found}))
        raise ApiError(404, f'"{asked}" is in several namespaces: {where}; say which: -n NAMESPACE')
    if not found:
        raise not_found(asked, f"{of_namespace or 'default'}/{name}", pods)
    return next((pod for pod in found if not pod.node_name), found[0])


def is_of(pod: FullPod, kind: str | None, name: str) -> bool:
    """Return whether a pod belongs to a workload."""
    owner, of = text_at(pod.controller, "kind"), text_at(pod.controller, "name")
    if kind == "Deployment":
        return owner == "ReplicaSet" and of.rpartition("-")[0] == name
    return (owner, of) == (kind, name)


def not_found(asked: str, key: str, pods: dict[str, FullPod]) -> ApiError:
    """Return the error about a pod that does not exist, with a suggestion."""
    pod_of_workload = next((each for each in pods if each.startswith(f"{key}-")), None)
    meant = f'; did you mean "{pod_of_workload}"?' if pod_of_workload else did_you_mean(key, [*pods], "")
    prefix, _, number = key.rpartition("-")
    owners = [text_at(pod.controller, "kind") for each, pod in pods.items() if each.startswith(f"{prefix}-")]
    if number.isdecimal() and "StatefulSet" in owners:
        meant = "; a StatefulSet makes its next pod once the one before it has a node"
    shown_name = asked if asked.rpartition("/")[0].lower() in KINDS else key
    return ApiError(404, f'pod "{shown_name}" not found ({HINT}){meant}')
