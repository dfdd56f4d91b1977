"""The controllers of workloads: they create the pods of Deployments, Jobs and so on that are missing.

manifests.py calls `make_pods` once all files are read. Upstream: pkg/controller.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable
from typing import Any

from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.manifests.daemon_sets import pods_of_daemon_set
from scheduler_extras.manifests.jobs import pods_of_job
from scheduler_extras.manifests.kinds import is_supported, kind_of, resource_of
from scheduler_extras.manifests.stateful_sets import pods_of_stateful_set
from scheduler_extras.manifests.workload import LOST, Workload, active, number_in, pods_of_replicas
from scheduler_extras.reading.fields import controlling_owner, pick, text_at


MOST = 10_000  # pods that are created for one workload


MAKERS = {"ReplicaSet": pods_of_replicas, "ReplicationController": pods_of_replicas,
          "StatefulSet": pods_of_stateful_set, "DaemonSet": pods_of_daemon_set, "Job": pods_of_job}
WORKLOADS = [*MAKERS, "Deployment"]  # whose pods are those of its ReplicaSet
KIND_OF = {f"{kind.lower()}s": kind for kind in WORKLOADS}


def replica_set_of(deployment: dict, manifests: Any, owned: dict) -> dict | None:
    """Return the ReplicaSet that creates a Deployment's pods; None if it is paused and has none.

    Its replicas are those of the Deployment, minus the pods of the Deployment's other ReplicaSets.
    """
    workload = Workload("Deployment", deployment, manifests, owned)
    sets = owned["Deployment", workload.namespace, workload.name]
    theirs = [Workload("ReplicaSet", each, manifests, owned) for each in sets]
    same = [each for each, common_points in zip(sets, theirs, strict=True)
            if common_points.template_without_hash() == workload.template_without_hash()]
    is_paused = pick(workload.spec, bool, "paused")
    in_use = [each for each in sets if number_in(each["spec"], "replicas")]
    if is_paused and len(in_use) > 1:  # the Deployment controller might scale them in proportion
        warn_once(f"Deployment {workload.name} is paused in a rollout: its ReplicaSets keep their sizes here")
        return in_use[0]
    if is_paused:
        chosen = next(iter(in_use + same + newest_first(sets)), None)
    else:
        chosen = next(iter(same), None) or new_replica_set(workload)
    if chosen:
        missing = number_in(workload.spec, "replicas") - len(active(workload.adopted))
        for each, common_points in zip(sets, theirs, strict=True):
            if each is not chosen:
                each["spec"]["replicas"] = len(active(common_points.pods))
                missing -= each["spec"]["replicas"]
        chosen["spec"]["replicas"] = max(missing, 0)
    return chosen


def newest_first(things: Iterable) -> list[dict]:
    """Return objects sorted by age, the newest first."""
    return sorted(things, key=lambda obj: text_at(obj, "metadata", "creationTimestamp"), reverse=True)


def new_replica_set(workload: Workload) -> dict:
    """Create the ReplicaSet for a Deployment's template, and return it."""
    label = {"pod-template-hash": workload.hash}
    labels = workload.labels | label
    selector = pick(workload.spec, dict, "selector")
    made = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": f"{workload.name}-{workload.hash}", "namespace": workload.namespace,
                     "labels": labels, "ownerReferences": [workload.reference]},
        "spec": {"selector": selector | {"matchLabels": pick(selector, dict, "matchLabels") | label},
                 "template": workload.template | {
                     "metadata": pick(workload.template, dict, "metadata") | {"labels": labels}}}}
    workload.manifests.add(made)
    return made


def scale(manifests: Any) -> None:
    """Keep the replicas of workloads within minReplicas and maxReplicas of their HorizontalPodAutoscalers."""
    for (resource, namespace, _), scaler in manifests.objects.items():
        if resource != "horizontalpodautoscalers":
            continue
        target = pick(scaler, dict, "spec", "scaleTargetRef")
        kind = kind_of(target) if target.get("kind") else None
        workload = kind and is_supported(kind) and manifests.objects.get(
            (resource_of(kind), namespace, text_at(target, "name")))
        if workload and number_in(workload["spec"], "replicas"):  # 0 turns autoscaling off
            least = number_in(scaler["spec"], "minReplicas")
            most = pick(scaler, int, "spec", "maxReplicas") or least
            count = number_in(workload["spec"], "replicas")
            workload["spec"]["replicas"] = min(max(count, least), max(most, least))


def owned_by_controllers(manifests: Any) -> dict:
    """Return the pods and ReplicaSets of each controller, {(kind, namespace, name): objects}."""
    owned = collections.defaultdict(list)
    for (resource, namespace, _), obj in manifests.objects.items():
        if resource not in ("pods", "replicasets"):
            continue
        owner = controlling_owner(obj)
        kind, name = text_at(owner, "kind"), text_at(owner, "name")
        if kind == "ReplicaSet" and ("replicasets", namespace, name) not in manifests.objects:
            kind, name = LOST, ""
        if resource == "pods" or owner:
            owned[kind, namespace, name].append(obj)
    return owned


def make_pods(manifests: Any) -> None:
    """Create the missing pods of all workloads, in the order of the manifests."""
    owned = owned_by_controllers(manifests)
    things = {place: obj for place, obj in manifests.objects.items()
              if place[0] in KIND_OF and not text_at(obj, "metadata", "deletionTimestamp")}
    makers = {place: (KIND_OF[place[0]], obj) for place, obj in things.items()
              if place[0] != "deployments"}
    for place in [place for place in things if place[0] == "deployments"]:
        with manifests.leaving_out_malformed(place):
            chosen = replica_set_of(things[place], manifests, owned)
            if chosen:
                makers[place] = "ReplicaSet", chosen
            else:
                warn_once(f"Deployment {place[-1]} is paused, so it gets no pods")
    for place in [place for place in things if place in makers]:
        with manifests.leaving_out_malformed(place):
            make_pods_of(Workload(*makers[place], manifests, owned), owned)


def make_next_pod(manifests: Any, pod: dict) -> None:
    """Create the next pod of the StatefulSet that owns a pod which has just got a node."""
    owner = controlling_owner(pod)
    place = "statefulsets", text_at(pod, "metadata", "namespace"), text_at(owner, "name")
    if owner.get("kind") == "StatefulSet" and place in manifests.objects:
        owned: dict[tuple, list] = collections.defaultdict(list)  # empty: a StatefulSet finds pods by name
        make_pods_of(Workload("StatefulSet", manifests.objects[place], manifests, owned), owned)


def make_pods_of(workload: Workload, owned: dict) -> None:
    """Create the missing pods of a workload. Raises Malformed."""
    kind = workload.kind
    missing = [*itertools.islice(MAKERS[kind](workload), MOST + 1)]
    if len(missing) > MOST:
        warn_once(f"{kind} {workload.name}: only {MOST} of its pods are made here")
    for name, labels, spec in missing[:MOST]:
        pod = workload.pod(name, labels, spec)
        workload.manifests.add(pod)
        owned[kind, workload.namespace, workload.name].append(pod)
