"""Topology spread constraints: those of the pod, and default ones for the pods of a ReplicaSet or Service.

`matching_pods` and `by_domain` count the pods that a constraint selects in each domain.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler import matches_node, untolerated_taints
from scheduler_extras.common.errors import InvalidSelector, Unschedulable
from scheduler_extras.deciding.answers import Answers, answers_about, compute_each, index_of_nodes
from scheduler_extras.deciding.recorded_reads import digest
from scheduler_extras.deciding.rule import SKIP, Unresolvable, predicate, priority
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import Requirement, labels_match, pod_selector
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.counting import count_pods, nodes_that_may_count, with_numbers
from scheduler_extras.rules.selectors import OWNERS, selectors_of


TOO_SKEWED = "node(s) didn't match pod topology spread constraints"
NO_TOPOLOGY_LABEL = Unresolvable(f"{TOO_SKEWED} (missing required label)")
HOSTNAME = "kubernetes.io/hostname"
DEFAULT_SPREAD = [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway"}
                  for key, skew in ((HOSTNAME, 3), ("topology.kubernetes.io/zone", 5))]


@dataclass
class SpreadConstraint:
    """A topology spread constraint of a pod, with the pods that it counts."""

    raw: dict  # the API's JSON
    requirements: list  # the selector of the pods to count
    numbers: dict = field(compare=False)  # name of a node -> the number of these pods there, if any
    itself: bool  # whether the selector selects the pod itself
    domains: dict = field(compare=False)  # name of a node that has the topology key -> the label's value
    complete: dict = field(compare=False)  # name -> Node, of nodes that have the keys of all constraints
    eligible: dict = field(compare=False)  # those of them that the constraint's node policies allow
    counts: dict = field(default_factory=dict)  # for ScheduleAnyway: domain -> the number of matching pods
    full: frozenset = frozenset()  # for DoNotSchedule: the domains that can take no more pods
    weight: float = 0  # for ScheduleAnyway: the score of each matching pod (topologyNormalizingWeight)
    needs_key: bool = True  # whether a node must have the key; else nodes without it form one domain

    def __post_init__(self) -> None:
        self.key = pick(self.raw, str, "topologyKey")
        self.max_skew = pick(self.raw, int, "maxSkew")

    def scores(self) -> dict[str, float]:
        """Return {domain: score of its nodes}. Domains with fewer pods have lower scores. (scoreForCount)"""
        score_without_pods = self.max_skew - 1
        scores = {domain: count * self.weight + score_without_pods for domain, count in self.counts.items()}
        return dict.fromkeys(self.domains.values(), score_without_pods) | scores


STAGES = {  # whenUnsatisfiable -> how kube-scheduler's message about an invalid constraint begins
    "DoNotSchedule": 'PreFilter plugin "PodTopologySpread": obtaining pod\'s hard',
    "ScheduleAnyway":
        'PreScore plugin "PodTopologySpread": calculating preScoreState: obtaining pod\'s soft'}


def default_selector(pod: FullPod, snapshot: FullSnapshot) -> list[Requirement]:
    """Return the Requirements of default constraints: the selectors of all owners and Services of the pod."""
    return list(itertools.chain(*selectors_of(pod, snapshot, *OWNERS)))


def spread_constraints(pod: FullPod, when: str, snapshot: FullSnapshot, defaults: Sequence[dict] = (),
                       default_selector: Callable = default_selector,
                       needs_key: bool = True) -> Iterator[SpreadConstraint]:
    """Yield the SpreadConstraints with this whenUnsatisfiable: the pod's, or `defaults` if it has none.

    Raises Unschedulable.
    """
    raws = pick(pod.spec, list, "topologySpreadConstraints", of=dict)
    chosen = [raw for raw in raws or defaults if raw.get("whenUnsatisfiable") == when]
    owned = default_selector(pod, snapshot) if chosen and not raws else []
    if not raws and not owned:
        return
    complete = nodes_with({pick(raw, str, "topologyKey") for raw in chosen if needs_key}, snapshot)
    for raw in chosen:
        try:
            requirements = owned or pod_selector(raw, pod)
        except InvalidSelector as error:
            raise Unschedulable(
                f"running {STAGES[when]} topology spread constraints: {error}") from error
        eligible = complete
        selects_nodes = pod.node_selector or pod.required_terms is not None
        if selects_nodes and raw.get("nodeAffinityPolicy") != "Ignore":
            eligible = {name: node for name, node in complete.items() if matches_node(pod, node)}
        if raw.get("nodeTaintsPolicy") == "Honor":
            eligible = {name: node for name, node in eligible.items() if not untolerated_taints(pod, node)}
        numbers = matching_pods(pod, requirements, snapshot)
        itself = labels_match(pod.labels, requirements)
        domains = domains_by(pick(raw, str, "topologyKey"), snapshot)
        yield SpreadConstraint(
            raw, requirements, numbers, itself, domains, complete, eligible, needs_key=needs_key)


def nodes_with(keys: set[str], snapshot: FullSnapshot) -> dict[str, FullNode]:
    """Return the nodes that have all these labels, {name: Node}."""
    return answers_about(
        snapshot.nodes, ("nodes with labels", digest(repr(sorted(keys)))), snapshot,
        compute_each(lambda node: keys <= node.labels.keys()),
        then=lambda nodes, have_all: {name: nodes[name] for name in nodes if have_all[name]})


def domains_by(key: str, snapshot: FullSnapshot) -> dict[str, str]:
    """Return {name of a node that has a label: the label's value}."""
    return answers_about(
        snapshot.nodes, ("domains", digest(key)), snapshot, compute_each(lambda node: node.labels.get(key)),
        then=lambda nodes, values: {name: value for name, value in values.items() if value is not None})


def matching_pods(pod: FullPod, requirements: Sequence, snapshot: FullSnapshot) -> dict:
    """Return {node: how many of its pods count}: they meet the requirements, and are in the pod's namespace.

    Terminating pods do not count. Nodes without any are left out. As upstream (updateWithPod), a pod that a
    simulation has removed is subtracted even if it was terminating, and so did not count.
    """

    def counts(other):
        """Return whether another pod counts."""
        return not other.terminating and labels_match(other.labels, requirements)

    def is_subtracted(other):
        """Return whether a pod that a simulation has removed is subtracted."""
        return other.namespace == namespace and labels_match(other.labels, requirements)

    def count(node):
        """Return how many pods count on a node."""
        return count_pods(node, counts, namespace) - sum(map(is_subtracted, node.taken_off))

    def count_each(nodes):
        """Count the pods on each node. For all nodes of the snapshot, use the label index."""
        may_have = nodes
        if nodes is snapshot.nodes:
            may_have = nodes_that_may_count(namespace, requirements, snapshot)
            may_have.update(name for name, node in nodes.items() if node.taken_off)
        return Answers(dict.fromkeys(nodes, 0) | {name: count(nodes[name]) for name in may_have})

    namespace = pod.namespace
    key = "matching pods", digest(repr((namespace, requirements)))
    return index_of_nodes(key, snapshot, count_each, with_numbers)


def by_domain(numbers: dict, domains: dict) -> collections.Counter:
    """Add up numbers, {node: number}, by domain. domains: {node: its domain}."""
    counts = collections.Counter(dict.fromkeys(domains.values(), 0))
    for name in numbers.keys() & domains.keys():
        counts[domains[name]] += numbers[name]
    return counts


def hard_spread(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> Any:
    """Return the pod's DoNotSchedule constraints with their full domains; or SKIP."""
    spread = []
    for constraint in spread_constraints(pod, "DoNotSchedule", snapshot):
        raw = constraint.raw
        has_policies = raw.get("nodeAffinityPolicy") or raw.get("nodeTaintsPolicy")
        counted = eligible_domains(constraint) if has_policies else shared_domains(constraint)
        spread.append(with_full_domains(constraint, counted))
    return spread or SKIP


def eligible_domains(constraint: SpreadConstraint) -> dict[str, str | None]:
    """Return {name of an eligible node: its domain, or None if it lacks the key}."""
    return {name: constraint.domains.get(name) for name in constraint.eligible}


def shared_domains(constraint: SpreadConstraint) -> dict[str, str]:
    """Return {name of a node whose domain has an eligible node: that domain}."""
    eligible = {*eligible_domains(constraint).values()}
    return {name: domain for name, domain in constraint.domains.items() if domain in eligible}


def with_full_domains(constraint: SpreadConstraint, domains: dict) -> SpreadConstraint:
    """Return the constraint with its full domains. domains: {name of a node that counts: its domain}."""
    counts = by_domain(constraint.numbers, domains)
    has_enough_domains = len(counts) >= pick(constraint.raw, int, "minDomains")  # else the minimum is 0
    least = min(counts.values(), default=0) if has_enough_domains else 0
    most = constraint.max_skew + least - constraint.itself
    full = frozenset(domain for domain, count in counts.items() if count > most)
    return replace(constraint, full=full)  # without the counts: each new pod would change the metadata


def must_spread(pod: FullPod, node: object = None) -> bool:
    """Return whether the pod has a DoNotSchedule constraint."""
    constraints = pick(pod.spec, list, "topologySpreadConstraints", of=dict)
    return any(constraint.get("whenUnsatisfiable") == "DoNotSchedule" for constraint in constraints)


@predicate("EvenPodsSpread", metadata=hard_spread, plugin="PodTopologySpread", by_default=1,
           steady=True, helped_by_pods=must_spread,
           pod_requirements={"required spreading": must_spread})
def even_pods_spread(pod, node, metadata):
    """With the pod, the node's domain has at most maxSkew more matching pods than the emptiest one."""
    for constraint in metadata:
        domain = node.labels.get(constraint.key)
        if domain is None:
            yield NO_TOPOLOGY_LABEL
            return
        if domain in constraint.full:
            yield TOO_SKEWED
            return


def soft_spread(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot,
                default_constraints: Sequence[dict] = ()) -> list[SpreadConstraint]:
    """Return the pod's ScheduleAnyway constraints, or default ones, with their counts."""
    return with_counts(spread_constraints(pod, "ScheduleAnyway", snapshot, default_constraints), nodes)


def with_counts(constraints: Iterable[SpreadConstraint], nodes: list[FullNode]) -> list[SpreadConstraint]:
    """Return constraints with the counts of pods in the domains of these nodes, and their weight."""
    constraints = [*constraints]
    complete = constraints[0].complete if constraints else {}  # the same for all constraints
    names = [node.name for node in nodes if node.name in complete]
    return [with_counts_on(constraint, names) for constraint in constraints]


def with_counts_on(constraint: SpreadConstraint, names: list[str]) -> SpreadConstraint:
    """Return the constraint with the counts in the domains of nodes of these names, and its weight.

    For host names, each node is its own domain, even if two nodes have the same host name.
    """
    domains = constraint.domains
    if constraint.key == HOSTNAME:
        each_its_own = {name: name for name in domains}
        weight = math.log(len(names) + 2)
        return replace(constraint, domains=each_its_own, counts=constraint.numbers, weight=weight)
    counts = by_domain(constraint.numbers, eligible_domains(constraint))
    return replace(constraint, counts=counts, weight=math.log(len({*map(domains.get, names)}) + 2))


def sum_of_scores(nodes: Iterable[str], constraints: Iterable[SpreadConstraint]) -> dict[str, float]:
    """Return {name: the sum of its scores for all constraints}, without nodes that lack a required key."""
    total = dict.fromkeys(nodes, 0.0)
    for constraint in constraints:
        scores: dict[Any, float] = constraint.scores()
        domains = constraint.domains
        if constraint.needs_key:
            total = {name: so_far for name, so_far in total.items() if name in domains}
        else:
            domains = dict.fromkeys(total) | domains  # None for nodes that lack the key
            scores[None] = 0
        total = {name: so_far + scores[domains[name]] for name, so_far in total.items()}
    return total


def spread_scores(nodes: dict[str, FullNode], metadata: Any) -> dict[str, int | None]:
    """Return {name: score} of nodes; None if a required key is missing."""
    total = sum_of_scores(nodes, metadata)
    return dict.fromkeys(nodes) | {name: int(score) for name, score in total.items()}


def normalize_spread(points: dict[str, int | None]) -> dict[str, int]:
    """Invert scores, so that nodes with the fewest pods get the most points; 0 for nodes without a score."""
    counts = {count for count in points.values() if count is not None}
    total = min(counts, default=0) + max(counts, default=0)
    most = max(counts, default=0)
    inverted = {count: 100 * (total - count) // most if most else 100 for count in counts} | {None: 0}
    return {name: inverted[count] for name, count in points.items()}


@priority("SelectorSpreadPriority", plugin="PodTopologySpread", by_default=1,
          metadata=functools.partial(soft_spread, default_constraints=DEFAULT_SPREAD),
          score_all=spread_scores, reduce=normalize_spread, aliases=["ServiceSpreadingPriority"], steady=True)
@priority("EvenPodsSpreadPriority", metadata=soft_spread, score_all=spread_scores, reduce=normalize_spread,
          by_default=2, steady=True)
def even_pods_spread_priority(pod, node, metadata):
    """The pods in the node's domains that the ScheduleAnyway constraints select: the fewer, the better.

    To change this rule, edit spread_scores, which is called for all nodes at once.
    """
    return spread_scores({node.name: node}, metadata)[node.name]
