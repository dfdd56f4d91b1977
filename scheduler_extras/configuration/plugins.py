"""What kube-scheduler 1.36 says otherwise than 1.20, rule by rule; volumes are in volumes.py.

fields.py (`plugins_of_136`) puts these in the place of the rules' own functions.
"""

import collections
import contextlib
import functools
import itertools
import math
from dataclasses import replace

from scheduler import NO_REQUESTS, matches_node, term_matches, untolerated_taints
from scheduler_extras.common.blame import note_rule
from scheduler_extras.common.errors import InvalidSelector, Unschedulable
from scheduler_extras.deciding.rule import SKIP, WHEN, FullRule, Rejected
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.label_selectors import label_selector
from scheduler_extras.reading.node_affinity import node_selector_term, valid_terms
from scheduler_extras.reading.pods_and_nodes import CPU_AND_MEMORY
from scheduler_extras.rules.affinity import affine_scores, match_inter_pod_affinity, normalize_affinity
from scheduler_extras.rules.affinity_terms import affinity_terms
from scheduler_extras.rules.eviction import is_terminating
from scheduler_extras.rules.labels import ImageShares, shares_of
from scheduler_extras.rules.of_the_script import IN_THE_SCRIPT
from scheduler_extras.rules.preemption import NOT_STARTED, Manner, importance, preempt, started
from scheduler_extras.rules.resources import requested_to_capacity_ratio
from scheduler_extras.rules.selectors import selector_in, selectors_of
from scheduler_extras.rules.spreading import (
    DEFAULT_SPREAD, eligible_domains, spread_constraints, sum_of_scores, with_counts, with_full_domains
)


# Under a KubeSchedulerConfiguration, functions of this module stand in for those of rules. All else is as it
# was.
#
# Two bugs that kube-scheduler has from 1.34 to 1.36 are not followed. Where an extender filters that has
# nodeCacheCapable false, all nodes are scored as if they were empty. And a pod with required anti-affinity
# stays pending if its namespaceSelector excludes (NotIn) the pod's own namespace.


OVERRIDES = collections.defaultdict(dict)  # name of a rule -> {field of the Rule: its value for 1.36}


def override(name, part="function"):
    """Return a decorator: the function overrides that of a rule for 1.36, or another part of the rule."""

    def decorate(function):
        """Take note of the function; return it as it is."""
        OVERRIDES[name][part] = function
        note_rule(name, [function])
        return function

    return decorate


@override("HostName")
def node_name(pod, node):
    """The same, in other words."""
    if any(IN_THE_SCRIPT["HostName"](pod, node)):
        yield "node(s) didn't match the requested node name"


@override("PodFitsResources")
def node_resources_fit(pod, node, excepted=()):
    """What the pod does not request may be overcommitted; and a group may be excepted, as "example.com/"."""
    if len(node.pods) + 1 > node.max_pods:
        yield "Too many pods"
    for name, amount in pod.requests.items():
        if amount <= 0 or node.requested.get(name, 0) + amount <= node.allocatable.get(name, 0):
            continue
        group = f"{name.partition('/')[0]}/"
        if name not in excepted and group not in excepted:
            yield f"Insufficient {name}"


@override("PodToleratesNodeTaints")
def taints_and_tolerations(pod, node):
    """The taint is not named."""
    if untolerated_taints(pod, node):
        yield "node(s) had untolerated taint(s)"


def usage_136(pod, node, resources):
    """Return `usage` with the pod's overhead in full.

    Left out are what the node does not have, and extended resources that the pod does not request.
    """
    incoming = pod.nonzero_incoming
    if pod.uncounted_cpu:
        incoming = incoming | {"cpu": incoming["cpu"] + pod.uncounted_cpu}
    counted = [name for name in resources
               if node.allocatable.get(name) and (name in NO_REQUESTS or incoming.get(name))]
    return {name: (node.nonzero.get(name, 0) + incoming.get(name, 0), node.allocatable[name])
            for name in counted}


def mean_score(pod, node, weights, score):
    """The mean of score(requested, there) of resources, by {resource: weight}; 0 if no resource counts."""
    total = divisor = 0
    for name, (used, there) in usage_136(pod, node, weights).items():
        total += weights[name] * score(used, there)
        divisor += weights[name]
    return total // (divisor or 1)


override("LeastRequestedPriority")(
    functools.partial(mean_score, score=lambda used, there: 100 * max(there - used, 0) // there))
override("MostRequestedPriority")(
    functools.partial(mean_score, score=lambda used, there: 100 * min(there, used) // there))


@override("BalancedResourceAllocation")
def improved_balance(pod, node, resources=CPU_AND_MEMORY):
    """75 where the use of the resources stays as even as it is; more where the pod evens it. Since 1.36."""
    requested = [name for name in resources if pod.requests.get(name)]
    if not requested:
        return 0
    before = {name: node.requested.get(name, 0) for name in resources
              if node.allocatable.get(name) and (name in NO_REQUESTS or name in requested)}
    then = {name: amount + pod.requests.get(name, 0) for name, amount in before.items()}
    return 50 + (50 + evenness(then, node) - evenness(before, node)) // 2


def evenness(requested, node):
    """Return 100 less the standard deviation, in percent, of the requested shares of the node's resources."""
    shares = [min(amount / node.allocatable[name], 1) for name, amount in requested.items()]
    if len(shares) == 2:
        return int((1 - abs(shares[0] - shares[1]) / 2) * 100)
    count = max(len(shares), 1)
    add_up = functools.partial(functools.reduce, float.__add__)  # one by one, like Go; sum() is more exact
    mean = add_up(shares, 0.0) / count
    squares = [(share - mean) ** 2 for share in shares]
    return int((1 - math.sqrt(add_up(squares, 0.0) / count)) * 100)


def utilization_136(pod, node, resources):
    """Return {resource: the percentage that is then requested, rounded down}."""
    return {name: 100 * used // there for name, (used, there) in usage_136(pod, node, resources).items()}


override("RequestedToCapacityRatio")(
    functools.partial(requested_to_capacity_ratio, utilization=utilization_136))


@override("ImageLocalityPriority", "metadata")
def image_shares_136(pod, nodes, snapshot):
    """The images of init containers and of volumes count, too."""
    containers = pod.containers + pod.init_containers
    images = [pick(container, str, "image") for container in containers]
    images += [pick(volume, str, "image", "reference") for volume in pod.volumes if volume.get("image")]
    shares = shares_of(images, snapshot)
    return shares and ImageShares(shares, len(containers))


@override("MatchNodeSelector")
def required_node_affinity(pod, node, added_terms=()):
    """The node also meets one of the terms that the configuration adds for all pods (addedAffinity)."""
    if added_terms and not any(term_matches(term, node) for term in valid_terms(added_terms)):
        yield "node(s) didn't match scheduler-enforced node affinity"
    elif not matches_node(pod, node):
        yield "node(s) didn't match Pod's node affinity/selector"


def nodes_named(pod, nodes, snapshot):
    """The names of the nodes to which the pod's required node affinity confines it (by matchFields)."""
    required = pick(pod.node_affinity, dict, f"required{WHEN}")
    terms = pick(required, list, "nodeSelectorTerms", of=dict)
    named = set()
    for term in terms:
        fields = pick(term, list, "matchFields", of=dict)
        lists = [set(pick(each, list, "values", of=str)) for each in fields
                 if each.get("key") == "metadata.name" and each.get("operator") == "In"]
        if not lists:
            return SKIP
        named |= set.intersection(*lists)
    if terms and not named:
        raise Rejected("pod affinity terms conflict")
    return named or SKIP


def is_named(pod, node, metadata):
    """The node is among those that the pod's node affinity names; of others nothing else is said."""
    if node.name not in metadata:
        yield "node(s) didn't satisfy plugin(s) [NodeAffinity]"


NODES_NAMED = FullRule("NodesNamed", is_named, metadata=nodes_named, title="NodeAffinity", steady=True,
                       unresolvable=True)


@override("NodeAffinityPriority")
def preferred_node_affinity(pod, node, added_terms=()):
    """The preferences that the configuration adds for all pods count, too (addedAffinity)."""
    points = IN_THE_SCRIPT["NodeAffinityPriority"](pod, node)
    for added in added_terms:
        term = node_selector_term(added.get("preference", {}))
        if term_matches(term, node):
            points += added.get("weight", 0)
    return points


CONTROLLERS = {  # apiVersion and kind of those by which a pod's fellows are found -> resource
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("apps/v1", "ReplicaSet"): "replicasets", ("apps/v1", "StatefulSet"): "statefulsets"}


def default_selector_136(pod, snapshot):
    """Return what the Services that select the pod require of the pods to count, and its controller.

    That is found by its name alone, and need not select the pod. Upstream: DefaultSelector, since 1.22.
    """
    required = list(itertools.chain(*selectors_of(pod, snapshot, "services")))
    kind = text_at(pod.controller, "apiVersion"), text_at(pod.controller, "kind")
    resource = CONTROLLERS.get(kind)
    known = snapshot.objects[resource] if resource else {}
    controller = known.get(f"{pod.namespace}/{text_at(pod.controller, 'name')}", {})
    of_controller = []
    with contextlib.suppress(InvalidSelector):
        of_controller = label_selector(selector_in(controller, resource) or {})
    if resource == "replicationcontrollers":  # its labels take the place of the Services'
        labels = {each.key for each in of_controller}
        required = [each for each in required if each.key not in labels]
    return required + of_controller


def spread_constraints_136(pod, when, snapshot, defaults, needs_key=True):
    """Yield spread constraints; an empty selector counts no pod."""
    for constraint in spread_constraints(pod, when, snapshot, defaults, default_selector_136, needs_key):
        yield constraint if constraint.requirements else replace(constraint, numbers=collections.Counter())


@override("EvenPodsSpread", "metadata")
def hard_spread_136(pod, nodes, snapshot, default_constraints=()):
    """Pods count on eligible nodes only."""
    spread = [with_full_domains(constraint, eligible_domains(constraint))
              for constraint in spread_constraints_136(pod, "DoNotSchedule", snapshot, default_constraints)]
    return spread or SKIP


@override("SelectorSpreadPriority", "metadata")
def soft_spread_136(pod, nodes, snapshot, default_constraints=()):
    """The system's own constraints need no keys: nodes that lack one are a domain of their own."""
    is_systems = default_constraints is DEFAULT_SPREAD and not pod.spec.get("topologySpreadConstraints")
    constraints = spread_constraints_136(
        pod, "ScheduleAnyway", snapshot, default_constraints, needs_key=not is_systems)
    return with_counts(constraints, nodes)


@override("SelectorSpreadPriority", "at_once")
def spread_scores_136(nodes, metadata):
    """Rounded, halves up; None without constraints, so that nothing is scored."""
    total = sum_of_scores(nodes, metadata) if metadata else {}
    return {name: math.floor(total[name] + 0.5) if name in total else None for name in nodes}


@override("SelectorSpreadPriority")
def pod_topology_spread(pod, node, metadata):
    """How many pods the ScheduleAnyway constraints count there, None where a key is missing; few are best.

    Who edits this edits spread_scores_136, which is asked about all nodes at once.
    """
    return spread_scores_136({node.name: node}, metadata)[node.name]


@override("MatchInterPodAffinity")
def required_pod_affinity(pod, node, metadata):
    """Only the second of the two reasons is given."""
    return list(match_inter_pod_affinity(pod, node, metadata))[1:]


@override("InterPodAffinityPriority", "metadata")
def affine_scores_136(pod, nodes, snapshot, hard_weight=1, ignores_others=False):
    """ignores_others: what other pods prefer counts for those only that prefer something themselves."""
    scores = affine_scores(pod, nodes, snapshot, hard_weight)
    terms, _ = affinity_terms(pod)
    has_preferences = terms["preferredAffinity"] or terms["preferredAntiAffinity"]
    return scores if has_preferences or not ignores_others else {}


# Scores are normalized without a 0 among them.
override("InterPodAffinityPriority", "reduce")(functools.partial(normalize_affinity, among=()))


class Manner136(Manner):
    """How 1.36 preempts."""

    def in_order(self, victims):
        """The most important one stands for all."""
        return sorted(victims, key=importance)

    def is_waited_for(self, victim, snapshot):
        """Those only that go by a preemption."""
        conditions = pick(victim.raw, list, "status", "conditions", of=dict)
        reasons = [(each.get("status"), each.get("reason")) for each in conditions
                   if each.get("type") == "DisruptionTarget"]
        by_preemption = ("True", "PreemptionByScheduler") in reasons[:1]
        return is_terminating(victim, snapshot) and (by_preemption or victim.uid in snapshot.victims)

    def keeps_nomination(self, pod, node_name, failed, snapshot):
        """No pod keeps it."""
        return False

    def words(self, pod, node):
        """The pod is not named."""
        return f"Preempted by pod {pod.uid} on node {node.name}"

    def importance(self, number, pod):
        """Of pods that have not started, the last one on the node is the most important one.

        Upstream takes the time of the call for the start of each, and asks for that of the later one first.
        """
        has_started = started(pod) != NOT_STARTED
        return -pod.priority, started(pod), 0 if has_started else -number, pod.key

    def rejects(self, victim):
        """A pod that waits for `permit` is rejected."""
        is_held = victim.record is not None and victim.record.is_held()
        if is_held:
            victim.record.decision.give_up(Unschedulable("preempted"))
        return is_held

    def ends_nominations(self, victims):
        """Not if all of them are being deleted already."""
        return not all(victim.terminating for victim in victims)


OVERRIDES["Preemption"]["hooks"] = {"post_filter": functools.partial(preempt, manner=Manner136())}
