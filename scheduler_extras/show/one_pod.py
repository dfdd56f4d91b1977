"""--explain POD and --fits POD: where one pod would go, and how many copies of it would fit.

command_line.py calls `show_one_pod` in place of the loop.
"""

from __future__ import annotations

import argparse
import collections
import json
import threading

from scheduler_extras.common.version import CONFIGURATION_VERSION, LATEST
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.live.cluster import LiveCluster
from scheduler_extras.live.hooks import run_permit_and_pre_bind
from scheduler_extras.live.passes import decide_pods_before
from scheduler_extras.live.pod_record import PodRecord
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.policy_file import READERS, PolicyFile
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.show.picture import where_it_stands
from scheduler_extras.show.pod_names import find_pod
from scheduler_extras.show.text import Screen


MOST = 10_000  # copies that --fits tries


def show_one_pod(cluster: LiveCluster, policy_file: PolicyFile, stop: threading.Event,
                 options: argparse.Namespace, screen: Screen) -> bool:
    """Show the decision about a pod, or how many copies fit. Return whether a rule failed.

    Raises ApiError if there is no such pod.
    """
    snapshot = cluster.refresh_snapshot(policy_file.policies)
    pod = find_pod(options.fits or options.explain, cluster.cache.pods, options.namespace)
    stands = where_it_stands(pod, snapshot)
    policies, path = policies_for(pod, policy_file, options)
    policy = snapshot.policies.setdefault(pod.scheduler, next(iter(policies.values())))
    if options.fits:
        show_fits(pod, cluster, policy, options, screen)
        if path != policy_file.path and options.output != "json":
            screen.print(*screen.folded(decided_by(path)))
        return cluster.has_failed()
    is_in_a_run = options.cluster and pod.scheduler in policies
    others = decide_pods_before(pod, cluster, policies, stop) if is_in_a_run else 0
    when = "If scheduled now" if not others else f"After {others} other pod{'s' * (others > 1)},"
    decision = decide_now(pod, cluster, snapshot, policy)
    cluster.attempts.on_carried_out(decision, f"{pod.key} {stands}. {when} with {path}")
    return cluster.has_failed()


def policies_for(pod: FullPod, policy_file: PolicyFile,
                 options: argparse.Namespace) -> tuple[dict[str, FullPolicy], str]:
    """Return the Policies for a pod, and where they come from.

    Unless the user names a Policy, pods of default-scheduler get the default profile of kube-scheduler 1.36.
    """
    policies = policy_file.policies
    read = READERS.get("KubeSchedulerConfiguration")
    if read and pod.scheduler == "default-scheduler" and pod.scheduler not in policies and not options.policy:
        policies = read({"apiVersion": CONFIGURATION_VERSION}, pod.scheduler)
        return policies, f"the default profile of kube-scheduler {LATEST}"
    return policies, policy_file.path


def decided_by(path: str) -> str:
    """Return the line that names the Policy if it is not the one in force."""
    return f"decided with {path}"


def decide_now(pod: FullPod, cluster: LiveCluster, snapshot: FullSnapshot,
               policy: FullPolicy) -> FullDecision:
    """Decide about a pod as if it had no node, and were due. Nothing is sent."""
    cluster.cache.nodes.place(pod, "")
    pod.node_name = ""
    pod.record = PodRecord(pod)
    decision = schedule(pod, snapshot, policy)
    cluster.on_decided(decision)
    policy.run_post_filter(decision, snapshot)
    place(decision, cluster)
    cluster.attempts.end_attempt(decision)  # records errors for the exit code
    return decision


def place(decision: FullDecision, cluster: LiveCluster) -> None:
    """Assume the pod, if it has a node, and call the rules up to PreBind, which may refuse the node."""
    if decision.node and cluster.attempts.assume(decision):
        run_permit_and_pre_bind(decision, cluster.snapshot)


def show_fits(pod: FullPod, cluster: LiveCluster, policy: FullPolicy, options: argparse.Namespace,
              screen: Screen) -> None:
    """Show how many copies of a pod fit on each node, and why the next one does not fit."""
    counts, message = copies_that_fit(pod, cluster, policy)
    count = sum(counts.values())
    nodes = dict(counts.most_common())
    if options.output == "json":
        screen.print(json.dumps({"pod": pod.key, "fits": count, "nodes": nodes, "message": message}))
        return
    if not count:
        screen.print(*screen.folded(f"{pod.key}: no copy fits: {message}"))
    else:
        places = ", ".join(f"{number} on {name}" for name, number in nodes.items())
        copies = "1 copy fits" if count == 1 else f"{count} copies fit"
        screen.print(*screen.folded(f"{pod.key}: {copies}: {places}"),
                     *screen.folded(f"the next one stays pending: {message}"))
    others = [other for other in cluster.cache.pods.values() if not other.node_name and other is not pod]
    if others:
        who = "1 other waiting pod is" if len(others) == 1 else f"{len(others)} other waiting pods are"
        screen.print(f"{who} not placed first")


def copies_that_fit(pod: FullPod, cluster: LiveCluster,
                    policy: FullPolicy) -> tuple[collections.Counter[str], str]:
    """Schedule copies of a pod in memory. Return {node: copies}, and why the next copy stays pending."""
    counts: collections.Counter[str] = collections.Counter()
    for number in range(MOST):
        metadata = pod.raw["metadata"] | {"name": f"{pod.name}-copy-{number}", "uid": f"{pod.uid} {number}"}
        copy = FullPod(pod.raw | {"metadata": metadata, "spec": pod.spec | {"nodeName": ""}, "status": {}})
        copy.record = PodRecord(copy)
        create_claims(copy, cluster.snapshot)
        decision = schedule(copy, cluster.snapshot, policy)
        place(decision, cluster)
        if not decision.node:
            return counts, decision.message or ""
        counts[decision.node] += 1
    return counts, f"counting stops after {MOST} copies"


def create_claims(pod: FullPod, snapshot: FullSnapshot) -> None:
    """Create the claims of a pod's ephemeral volumes in memory. Upstream: the ephemeral volume controller."""
    owner = {"kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    for volume in pod.volumes:
        template = pick(volume, dict, "ephemeral", "volumeClaimTemplate")
        if template:
            name = f"{pod.name}-{pick(volume, str, 'name')}"
            metadata = pick(template, dict, "metadata") | {
                "name": name, "namespace": pod.namespace, "ownerReferences": [owner]}
            claim = template | {"metadata": metadata}
            snapshot.objects["persistentvolumeclaims"] |= {f"{pod.namespace}/{name}": claim}
