"""The pods of a DaemonSet. Upstream: pkg/controller/daemon."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler import matches_node, untolerated_taints
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.manifests.workload import Workload, active
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod


DAEMON_TAINTS = {  # taint that the pods of a DaemonSet tolerate -> its effect
    "not-ready": "NoExecute", "unreachable": "NoExecute", "disk-pressure": "NoSchedule",
    "memory-pressure": "NoSchedule", "pid-pressure": "NoSchedule", "unschedulable": "NoSchedule"}


def pods_of_daemon_set(workload: Workload) -> Iterator[tuple[str, dict, dict]]:
    """Yield a pod for each node that should run one and has none. Upstream: nodeShouldRunDaemonPod."""
    spec = pick(workload.template, dict, "spec")
    names = [*DAEMON_TAINTS, *(["network-unavailable"] if pick(spec, bool, "hostNetwork") else [])]
    tolerations = [{"key": f"node.kubernetes.io/{name}", "operator": "Exists",
                    "effect": DAEMON_TAINTS.get(name, "NoSchedule")} for name in names]
    changes = {"tolerations": pick(spec, list, "tolerations", of=dict) + tolerations}
    pod = FullPod(workload.pod(workload.name, {}, changes))
    have_one = {text_at(each, "spec", "nodeName") or required_node(each) for each in active(workload.pods)}
    for node in map(FullNode, workload.manifests.by_name("nodes").values()):
        is_meant = pod.node_name in ("", node.name) and matches_node(pod, node)
        if is_meant and node.name not in have_one and not untolerated_taints(pod, node):
            term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.name]}]}
            affinity = pick(spec, dict, "affinity", "nodeAffinity") | {
                f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [term]}}
            whole = pick(spec, dict, "affinity") | {"nodeAffinity": affinity}
            labels = {"controller-revision-hash": workload.hash, "pod-template-generation": "1"}
            yield f"{workload.name}-", labels, changes | {"affinity": whole}


def required_node(pod: dict) -> str:
    """Return the name of the node that the affinity of a DaemonSet's pod requires, or ""."""
    affinity = pick(pod, dict, "spec", "affinity", "nodeAffinity", f"required{DURING_SCHEDULING}")
    fields = [field for term in pick(affinity, list, "nodeSelectorTerms", of=dict)
              for field in pick(term, list, "matchFields", of=dict)]
    return next((name for field in fields for name in pick(field, list, "values", of=str)), "")
