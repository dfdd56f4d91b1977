"""Remarks on valid manifests: misplaced or misspelt fields, and what this program does not apply.

objects.py logs the remarks on each object.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from scheduler_extras.common.errors import Malformed
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.manifests.controllers import WORKLOADS
from scheduler_extras.manifests.field_schemas import CONTAINERS, FIELDS
from scheduler_extras.manifests.kinds import Kind, is_kubernetes_kind, is_supported
from scheduler_extras.manifests.validation import CHECKED_KINDS, parts_of
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.hints import nearly
from scheduler_extras.reading.label_selectors import read_requirement


# The key of a part of an object is the name of its field; [] stands for any entry of a list.

OF_PODS = ["tolerations", "nodeSelector", "affinity", "topologySpreadConstraints", "hostNetwork"]
OF_CONTAINERS = dict.fromkeys(OF_PODS, "in spec, beside containers") | dict.fromkeys(
    ["requests", "limits"], "in resources")
MISPLACED = {  # part -> {field that is sometimes put there by mistake: where it belongs}
    **dict.fromkeys(["initContainers[]", "containers[]"], OF_CONTAINERS),
    f"preferred{DURING_SCHEDULING}[]": {
        **dict.fromkeys(["topologyKey", "labelSelector"], "in podAffinityTerm"),
        **dict.fromkeys(["matchExpressions", "matchFields"], "in preference, if it is of nodes")}}
SPELT = {  # part -> the fields that rules read; a field with a similar name gets a remark
    "Pod spec": (*OF_PODS, *CONTAINERS, "nodeName", "schedulerName", "priorityClassName", "overhead",
                 "schedulingGates", "volumes"),
    **dict.fromkeys(["initContainers[]", "containers[]"], ("resources", "ports")),
    "resources": ("requests", "limits", "claims"),
    "affinity": ("nodeAffinity", "podAffinity", "podAntiAffinity"),
    f"required{DURING_SCHEDULING}": ("nodeSelectorTerms",),
    f"preferred{DURING_SCHEDULING}[]": ("weight", "preference", "podAffinityTerm"),
    **dict.fromkeys(["nodeSelectorTerms[]", "preference"], ("matchExpressions", "matchFields")),
    **dict.fromkeys(["labelSelector", "namespaceSelector"], ("matchLabels", "matchExpressions")),
    **dict.fromkeys([f"required{DURING_SCHEDULING}[]", "podAffinityTerm"],
                    ("topologyKey", "labelSelector", "namespaces", "namespaceSelector")),
    "ports[]": ("hostPort", "protocol"),
    **{part: tuple(FIELDS[part]) for part in (
        "tolerations[]", "matchExpressions[]", "nodeAffinity", "podAffinity", "podAntiAffinity",
        "topologySpreadConstraints[]")}}
HOOKS = {  # annotation of an object that a tool creates only at a certain moment -> the remark
    "helm.sh/hook": "Helm creates it only at {}; helm template --no-hooks leaves it out",
    "argocd.argoproj.io/hook": "Argo CD creates it only at {}"}
SPEC_FIELDS = {kind: tuple(fields.split()) for kind, fields in {  # in the spec of workloads, as of 1.36
    "Deployment": "replicas selector template strategy minReadySeconds revisionHistoryLimit paused "
                  "progressDeadlineSeconds rollbackTo",
    **dict.fromkeys(["ReplicaSet", "ReplicationController"], "replicas minReadySeconds selector template"),
    "StatefulSet": "replicas selector template volumeClaimTemplates serviceName podManagementPolicy "
                   "updateStrategy revisionHistoryLimit minReadySeconds ordinals "
                   "persistentVolumeClaimRetentionPolicy",
    "DaemonSet": "selector template updateStrategy minReadySeconds revisionHistoryLimit",
    "Job": "parallelism completions activeDeadlineSeconds podFailurePolicy successPolicy backoffLimit "
           "backoffLimitPerIndex maxFailedIndexes selector manualSelector template ttlSecondsAfterFinished "
           "completionMode suspend podReplacementPolicy managedBy",
    "CronJob": "schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend jobTemplate "
               "successfulJobsHistoryLimit failedJobsHistoryLimit"}.items()}
NO_TEMPLATES = ("kyverno.io", "gatekeeper.sh", "apiextensions.k8s.io")  # groups with patterns and schemas
NO_PODS = "no pods are created from its template here; add the pods themselves"
NO_JOBS = "no Jobs are created on its schedule here"


def remarks_on(kind: Kind, obj: dict) -> Iterator[str]:
    """Yield the remarks on an object of this kind."""
    is_copied = "uid" in obj["metadata"]  # its cluster has then done all that this program does not do
    if kind.name in CHECKED_KINDS and is_supported(kind):  # in other kinds, fields may have other meanings
        yield from odd_in(pick(obj, dict, "spec"))
    elif (kind.name in WORKLOADS or kind.name == "CronJob") and is_supported(kind):
        yield from odd_in_workload(kind.name, obj)
    if not is_copied:
        yield from not_done_here(kind, obj)
    if kind.name == "Node" and is_supported(kind):
        yield from room_missing(pick(obj, dict, "status", "allocatable"))


def not_done_here(kind: Kind, obj: dict) -> Iterator[str]:
    """Yield a remark for each effect of an object that it has on a cluster, but not here."""
    for annotation, what in HOOKS.items() if kind.name in ("Pod", *WORKLOADS) else ():
        moment = text_at(obj, "metadata", "annotations", annotation)
        if moment:
            yield what.format(moment)
    if kind.name == "CronJob" and is_supported(kind) and not pick(obj, bool, "spec", "suspend"):
        yield NO_JOBS
    is_known = is_supported(kind) or is_kubernetes_kind(kind) or (kind.group or "").endswith(NO_TEMPLATES)
    if not is_known and has_template_of_pods(obj, kind.name):
        yield NO_PODS


def has_template_of_pods(obj: dict, kind: str) -> bool:
    """Return whether an object contains a pod template, or an empty template."""
    parts = [part for part in (obj, obj.get("spec")) if isinstance(part, dict)]
    is_empty = any(not part["template"] for part in parts if "template" in part)
    return is_empty or any(templates_in(obj, kind))


def templates_in(part: Any, name: str, is_in_one: bool = False) -> Iterator[dict]:
    """Yield the pod templates in a part: objects with spec.containers, below a field named *template*."""
    is_in_one = is_in_one or "template" in name.lower()
    if isinstance(part, list):
        for each in part:
            yield from templates_in(each, "", is_in_one)
    elif isinstance(part, dict):
        if is_in_one and isinstance(part.get("spec"), dict) and isinstance(
                part["spec"].get("containers"), list):
            yield part
        for field, each in part.items():
            yield from templates_in(each, field, is_in_one)


def room_missing(allocatable: dict) -> Iterator[str]:
    """Yield the resources that a node's status lacks, so that pods which request them do not fit."""
    missing = [name for name in ("cpu", "memory", "pods") if name not in allocatable]
    if len(missing) == 3:
        yield "it has neither status.allocatable nor status.capacity, so no pod fits"
    elif "pods" in missing:
        yield "status.allocatable has no pods, so no pod fits"
    elif missing:
        yield f"status.allocatable has no {missing[0]}, so no pod that requests it fits"


def odd_in_workload(kind: str, obj: dict) -> Iterator[str]:
    """Yield the remarks on a workload: unknown fields, and the remarks on its template."""
    spec = pick(obj, dict, "spec")
    for field in obj.keys() - {"apiVersion", "kind", "metadata", "spec", "status"}:
        yield f"{field}: " + ("belongs in spec" if field in SPEC_FIELDS[kind] else "unknown field")
    for field in spec.keys() - SPEC_FIELDS[kind]:
        meant = spelt(field, SPEC_FIELDS[kind])
        yield f"spec.{field}: unknown field" + (f'; did you mean "{meant}"?' if meant else "")
    yield from odd_in(spec)


def odd_in(spec: dict) -> Iterator[str]:
    """Yield the remarks on a spec: misplaced or misspelt fields, and values that no label can have."""
    for place, name, part in parts_of(spec, "spec"):
        is_of_pod = name == "spec" and "containers" in part  # or of a pod's template
        for field, why in odd_fields("Pod spec" if is_of_pod else name, part):
            yield f"{place}.{field}: {why}"
        if name == "matchExpressions[]":
            try:
                read_requirement(part)
            except Malformed as error:
                if "label value" in str(error) or "must be an integer" in str(error):
                    yield f"{place}: {error}"


def odd_fields(name: str, part: Any) -> Iterator[tuple[str, str]]:
    """Yield the misplaced or misspelt fields of a part: (field, remark)."""
    belong = MISPLACED.get(name, {})
    yield from ((field, f"belongs {where}") for field, where in belong.items() if field in part)
    known = SPELT.get(name, ())
    for field in [field for field in part if field not in belong and field not in known]:
        meant = spelt(field, known)
        if meant:
            yield field, f'did you mean "{meant}"?'
        elif name == "resources":
            yield field, "belongs in requests or limits"


spelt = functools.lru_cache(nearly)  # cached, because most pods have the same fields
