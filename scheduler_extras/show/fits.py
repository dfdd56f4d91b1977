"""How many copies of a pod the cluster would take: --fits."""

import collections
import json

from scheduler import schedule
from scheduler_extras.objects import FullPod


MOST = 10_000  # copies that are tried


def copies_that_fit(pod, cluster, policy):
    """Place copies of a pod in memory, one by one. Return {node: how many}, and why the next one stays."""
    counts = collections.Counter()
    for number in range(MOST):
        metadata = pod.raw["metadata"] | {"name": f"{pod.name}-copy-{number}", "uid": f"{pod.uid} {number}"}
        copy = FullPod(pod.raw | {"metadata": metadata, "spec": pod.spec | {"nodeName": ""}, "status": {}})
        decision = schedule(copy, cluster.snapshot, policy)
        if not decision.node:
            return counts, decision.message
        cluster.cache.nodes.place(copy, decision.node)
        counts[decision.node] += 1
    return counts, f"after {MOST} copies nobody counts"


def show_fits(pod, cluster, policy, options, screen):
    """Show how many copies of a pod fit, node by node, and what stops the next one."""
    counts, message = copies_that_fit(pod, cluster, policy)
    count = sum(counts.values())
    nodes = dict(counts.most_common())
    if options.output == "json":
        screen.print(json.dumps({"pod": pod.key, "fits": count, "nodes": nodes, "message": message}))
        return
    places = ", ".join(f"{number} on {name}" for name, number in nodes.items())
    screen.print(*screen.folded(f"{pod.key}: {count} {'copy fits' if count == 1 else 'copies fit'}"
                                + (f": {places}" if places else "")),
                 *screen.folded(f"the next one stays pending: {message}"))
