"""The pods that controllers would make of Deployments, Jobs and so on. Upstream: pkg/controller.

Manifests have them made once all are read; pods that are there already count.
"""

import collections
import itertools

from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.manifests.daemon_sets import pods_of_daemon_set
from scheduler_extras.manifests.jobs import pods_of_job
from scheduler_extras.manifests.kinds import counts, kind_of, resource_of
from scheduler_extras.manifests.stateful_sets import pods_of_stateful_set
from scheduler_extras.manifests.workload import LOST, Workload, active, number_in, pods_of_replicas
from scheduler_extras.reading.fields import controlling_owner, pick, text_at


MOST = 10_000  # pods that are made of one workload


MAKERS = {"ReplicaSet": pods_of_replicas, "ReplicationController": pods_of_replicas,
          "StatefulSet": pods_of_stateful_set, "DaemonSet": pods_of_daemon_set, "Job": pods_of_job}
WORKLOADS = [*MAKERS, "Deployment"]  # which has a ReplicaSet make its pods
KIND_OF = {f"{kind.lower()}s": kind for kind in WORKLOADS}


def replica_set_of(deployment, manifests, owned):
    """Return the ReplicaSet that makes a Deployment's pods, and have it count those of the others.

    None: it is paused, and has no ReplicaSet.
    """
    workload = Workload("Deployment", deployment, manifests, owned)
    sets = owned["Deployment", workload.namespace, workload.name]
    theirs = [Workload("ReplicaSet", each, manifests, owned) for each in sets]
    same = [each for each, of_each in zip(sets, theirs, strict=True)
            if of_each.template_without_hash() == workload.template_without_hash()]
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
        for each, of_each in zip(sets, theirs, strict=True):
            if each is not chosen:
                each["spec"]["replicas"] = len(active(of_each.pods))
                missing -= each["spec"]["replicas"]
        chosen["spec"]["replicas"] = max(missing, 0)
    return chosen


def newest_first(things):
    """Return objects, the one that was created last first."""
    return sorted(things, key=lambda thing: text_at(thing, "metadata", "creationTimestamp"), reverse=True)


def new_replica_set(workload):
    """Make a Deployment's ReplicaSet for its template, and return it."""
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


def scale(manifests):
    """Give workloads the number of pods that their HorizontalPodAutoscalers keep to, from min to max."""
    for (resource, namespace, _), scaler in manifests.objects.items():
        if resource != "horizontalpodautoscalers":
            continue
        target = pick(scaler, dict, "spec", "scaleTargetRef")
        kind = kind_of(target) if target.get("kind") else None
        workload = kind and counts(kind) and manifests.objects.get(
            (resource_of(kind), namespace, text_at(target, "name")))
        if workload and number_in(workload["spec"], "replicas"):  # else it is off
            least = number_in(scaler["spec"], "minReplicas")
            most = pick(scaler, int, "spec", "maxReplicas") or least
            count = number_in(workload["spec"], "replicas")
            workload["spec"]["replicas"] = min(max(count, least), max(most, least))


def owned_by_controllers(manifests):
    """Return which pods and ReplicaSets controllers have: {(kind, namespace, name): objects}."""
    owned = collections.defaultdict(list)
    for (resource, namespace, _), thing in manifests.objects.items():
        if resource not in ("pods", "replicasets"):
            continue
        owner = controlling_owner(thing)
        kind, name = text_at(owner, "kind"), text_at(owner, "name")
        if kind == "ReplicaSet" and ("replicasets", namespace, name) not in manifests.objects:
            kind, name = LOST, ""
        if resource == "pods" or owner:
            owned[kind, namespace, name].append(thing)
    return owned


def make_pods(manifests):
    """Make the pods of all workloads, in the order in which these come."""
    owned = owned_by_controllers(manifests)
    things = {place: thing for place, thing in manifests.objects.items()
              if place[0] in KIND_OF and not text_at(thing, "metadata", "deletionTimestamp")}
    makers = {place: (KIND_OF[place[0]], thing) for place, thing in things.items()
              if place[0] != "deployments"}
    for place in [place for place in things if place[0] == "deployments"]:
        with manifests.or_left_out(place):
            chosen = replica_set_of(things[place], manifests, owned)
            if chosen:
                makers[place] = "ReplicaSet", chosen
            else:
                warn_once(f"Deployment {place[-1]} is paused, so it gets no pods")
    for place in [place for place in things if place in makers]:
        with manifests.or_left_out(place):
            make_pods_of(Workload(*makers[place], manifests, owned), owned)


def make_next_pod(manifests, pod):
    """Make the pod that comes once this one has a node: the next one of its StatefulSet, if it has any."""
    owner = controlling_owner(pod)
    place = "statefulsets", text_at(pod, "metadata", "namespace"), text_at(owner, "name")
    if owner.get("kind") == "StatefulSet" and place in manifests.objects:
        owned: dict[tuple, list] = collections.defaultdict(list)  # pods have the names that it gives them
        make_pods_of(Workload("StatefulSet", manifests.objects[place], manifests, owned), owned)


def make_pods_of(workload, owned):
    """Make the pods of a workload that lack. Raises Malformed."""
    kind = workload.reference["kind"]
    lacking = [*itertools.islice(MAKERS[kind](workload), MOST + 1)]
    if len(lacking) > MOST:
        warn_once(f"{kind} {workload.name}: only {MOST} of its pods are made here")
    for name, labels, spec in lacking[:MOST]:
        pod = workload.pod(name, labels, spec)
        workload.manifests.add(pod)
        owned[kind, workload.namespace, workload.name].append(pod)
