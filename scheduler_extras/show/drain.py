"""Whether a node can be drained: --drain NODE. Its pods are placed elsewhere, as far as that goes.

The command line calls it in place of the loop. Nothing is written. Upstream: kubectl/pkg/drain.
"""

import collections
import contextlib
import json

from scheduler_extras.common.errors import ApiError, Malformed
from scheduler_extras.deciding.schedule import schedule
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.hints import did_you_mean
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.budgets import budgets_of
from scheduler_extras.show.explain import explain, in_words
from scheduler_extras.show.one_pod import decided_by, policies_for
from scheduler_extras.show.report import in_json


class Cordoned:
    """An API server that shows a node as cordoned."""

    def __init__(self, api, node_name):
        self.api = api
        self.node_name = node_name

    def __getattr__(self, name):
        return getattr(self.api, name)

    def get(self, path, *more, **options):
        """Answer as the API server does, besides that the node is unschedulable."""
        answer = self.api.get(path, *more, **options)
        if path.endswith("/nodes"):
            answer["items"] = [
                node | {"spec": pick(node, dict, "spec") | {"unschedulable": True}}
                if text_at(node, "metadata", "name") == self.node_name else node for node in answer["items"]]
        return answer


def show_drain(cluster, policy_file, options, screen):
    """Show where the pods of a node would go. Return whether one cannot go, or a rule failed.

    Raises ApiError if there is no such node.
    """
    snapshot = cluster.look(policy_file.policies)
    node = snapshot.nodes.get(options.drain)
    if not node or not node.exists:
        hint = did_you_mean(options.drain, [*snapshot.nodes], "")
        raise ApiError(404, f'node "{options.drain}" not found{hint}')
    drain = Drain(cluster, node, policy_file, options)
    for decision in drain.evict_all():
        show(decision, options, screen)
    if options.output == "json":
        screen.print(json.dumps({"node": node.name, **drain.outcome()}))
    else:
        screen.print("", *(line for text in drain.in_words() for line in screen.fold(text, rest="    ")))
    return cluster.has_failed() or bool(drain.pending or drain.kept)


def show(decision, options, screen):
    """Show the decision about a pod that is evicted."""
    if options.output == "json":
        screen.print(json.dumps(in_json(decision)))
    elif options.explain:
        screen.print(*explain(decision, screen))
    else:
        screen.print(*screen.folded(in_words(decision)))


class Drain:
    """The pods of a node, and what becomes of them when it is drained."""

    def __init__(self, cluster, node, policy_file, options):
        self.cluster = cluster
        self.node = node
        self.policy_file = policy_file
        self.options = options
        self.pods = [*node.pods.values()]
        self.stays = collections.defaultdict(list)  # why pods are not evicted -> the pods
        self.kept = {}  # pod that a budget keeps -> the budget
        self.moved = {}  # pod -> its new node
        self.pending = {}  # pod -> why it fits nowhere else
        self.paths = {}  # where the rules are from that decide -> None
        # name of a budget -> how many evicted pods are not back
        self.taken: collections.Counter[str] = collections.Counter()

    def evict_all(self):
        """Evict the pods one by one, as soon as budgets allow it. Yield a decision about each."""
        for pod in self.pods:
            why = why_not_evicted(pod)
            budget = None if why else self.budget_against(pod)
            if why:
                self.stays[why].append(pod.key)
            elif budget:
                self.kept[pod.key] = budget
            else:
                yield self.evict(pod)

    def evict(self, pod):
        """Take a pod off the node, and return the decision about where it goes."""
        nodes, snapshot = self.cluster.cache.nodes, self.cluster.snapshot
        policies, path = policies_for(pod, self.policy_file, self.options)
        self.paths[path] = None
        policy = snapshot.policies.setdefault(pod.scheduler, next(iter(policies.values())))
        budgets = self.budgets_of(pod)
        nodes.place(pod, "")
        again = FullPod(pod.raw | {"spec": pod.spec | {"nodeName": ""}, "status": {}})
        decision = schedule(again, snapshot, policy)
        if decision.node:
            nodes.place(again, decision.node)
            self.moved[pod.key] = decision.node
        else:
            self.pending[pod.key] = decision.message
            self.taken.update(budgets.keys())
        return decision

    def budgets_of(self, pod):
        """Return the budgets that count a pod."""
        with contextlib.suppress(Malformed, ApiError):  # such as where budgets may not be listed
            return budgets_of(pod, self.cluster.snapshot)
        return {}

    def budget_against(self, pod):
        """Return the name of a budget that does not allow a pod's eviction by now; None if all do."""
        for name, budget in self.budgets_of(pod).items():
            if pick(budget, int, "status", "disruptionsAllowed") - self.taken[name] <= 0:
                return name
        return None

    def outcome(self):
        """Return what becomes of the pods, for --output json."""
        return {"moved": self.moved, "pending": self.pending, "keptByBudgets": self.kept,
                "stays": dict(self.stays)}

    def in_words(self):
        """Yield what becomes of the node, and which options kubectl drain needs for it."""
        stuck = [f"{len(self.pending)} of its pods fit{'s' * (len(self.pending) == 1)} nowhere else"
                 ] if self.pending else []
        stuck += [f"{key} is kept by the PodDisruptionBudget {budget}" for key, budget in self.kept.items()]
        went = {0: "no pod is moved", 1: "1 pod fits elsewhere"}.get(
            len(self.moved), f"{len(self.moved)} pods fit elsewhere")
        if stuck:
            yield f"{self.node.name} cannot be drained: {'; '.join(stuck)}; {went}"
        else:
            yield f"{self.node.name} can be drained: {went}"
        for path in self.paths.keys() - {self.policy_file.path}:
            yield decided_by(path)
        for why, keys in self.stays.items():
            yield f"not evicted: {', '.join(keys)}: {why}"
        for key in self.alone():
            yield f"{key} has no controller: kubectl drain needs --force, and nothing recreates the pod"
        yield f"kubectl drain {self.node.name}{''.join(f' {each}' for each in self.flags())}"

    def alone(self):
        """Return the pods without a controller that are evicted."""
        evicted = self.moved.keys() | self.pending.keys()
        return [pod.key for pod in self.pods if pod.key in evicted and not pod.controller]

    def flags(self):
        """Yield the options without which kubectl drain refuses."""
        gone = [pod for pod in self.pods if why_not_evicted(pod) in ("", IN_DELETION)]  # in the end
        if BY_DAEMON_SET in self.stays:
            yield "--ignore-daemonsets"
        if any(volume.get("emptyDir") is not None for pod in gone for volume in pod.volumes):
            yield "--delete-emptydir-data"
        if not all(pod.controller for pod in gone):
            yield "--force"


BY_DAEMON_SET = "a DaemonSet's pods stay"
IN_DELETION = "it is being deleted already"


def why_not_evicted(pod):
    """Return why kubectl drain leaves a pod where it is; "" if it does not."""
    if "kubernetes.io/config.mirror" in pod.annotations or text_at(pod.controller, "kind") == "Node":
        return "static pods stay"
    if text_at(pod.controller, "kind") == "DaemonSet":
        return BY_DAEMON_SET
    return IN_DELETION if pod.terminating else ""
