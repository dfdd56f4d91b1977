"""A Policy in force: its active rules and extenders, and how they decide together.

`schedule` in schedule.py calls it.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scheduler_extras.common.blame import warn_if_broken
from scheduler_extras.common.errors import ServerUnavailable, Unschedulable
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.deciding.answers import Answers, answers_about, memo
from scheduler_extras.deciding.decision import Diagnosis, FullDecision, Vote, combine_refusals
from scheduler_extras.deciding.extension_points import EXTENSION_POINTS, call_hook, with_reason
from scheduler_extras.deciding.prepared_rules import PreparedRule, prepare
from scheduler_extras.deciding.recorded_reads import shared_key
from scheduler_extras.deciding.rule import PREDICATES, FullRule, Rejected, is_unresolvable
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.always import ALWAYS_ASKED
from scheduler_extras.rules.preemption import NoPreemption


# Sample pods for `warm_up`: the pod of a Deployment, and one with a spread constraint.
AN_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "none", "controller": True}
SAMPLES: list[dict] = [{}, {"topologySpreadConstraints": [{
    "maxSkew": 1, "topologyKey": "none", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]}]


@dataclass(eq=False)
class FullPolicy:
    """The active rules, in the order in which they run, and the extenders."""

    predicates: list[FullRule]
    priorities: list[FullRule]
    extenders: list = field(default_factory=list)
    always_check_all: bool = False
    notices: list[str] = field(default_factory=list)  # settings of the file that have no effect here
    others: list[FullRule] = field(default_factory=list)  # rules that neither filter nor score here
    election: dict = field(default_factory=dict)  # leader election, from a KubeSchedulerConfiguration
    initial_backoff: int = 1  # seconds of backoff after the first attempt; it doubles with each failure
    max_backoff: int = 10  # seconds
    kind = "Policy"  # of the file
    preempts_only_on_request = True  # kube-scheduler preempts by default, this program with --preempt
    reason_for_errors = "Unschedulable"  # of the PodScheduled condition, if a predicate or priority fails
    unschedulable_seconds = 60  # after which a pod that fits no node is tried again without any change
    retries_preemptors = True  # at once: in 1.20, their new status moves them to activeQ
    pops_from_backoff = False  # whether an idle queue pops pods from backoff after a change

    def begin_decision(self, pod: FullPod, snapshot: FullSnapshot) -> FullDecision:
        """Drop the cached signatures of a pod, and return an empty decision about it."""
        pod.signatures.clear()  # the pod may have changed since its last attempt
        return FullDecision(pod, snapshot.nodes, policy=self, snapshot=snapshot)

    def nodes_that_fit(self, pod: FullPod, snapshot: FullSnapshot) -> tuple[dict[str, FullNode], Diagnosis]:
        """Run PreFilter, Filter and the extenders. Return the feasible nodes, and the Diagnosis of others."""
        passing = snapshot.nodes
        refusals = []  # (title of a predicate, {node: its reasons})
        prepared = prepare(self.predicates_to_ask(), pod, snapshot.nodes, snapshot)
        for each in prepared:
            asked = snapshot.nodes if self.always_check_all else passing
            passing, refused = each.filter(asked, snapshot)
            if refused:
                refusals.append((each.rule.title, refused))
        feasible, failed = memo(
            shared_key("failed", prepared), snapshot, [snapshot.nodes, refusals],
            lambda: combine_refusals(snapshot.nodes, refusals))
        return self.after_predicates(pod, feasible, failed)

    def prioritize(self, decision: FullDecision, feasible: dict[str, FullNode]) -> dict[str, float]:
        """Run PreScore, Score and the extenders. Return {name: total score}. Raises Unschedulable."""
        pod = decision.pod
        snapshot: Any = decision.snapshot
        prepared: list[PreparedRule] = []
        try:
            prepared = prepare(self.priorities, pod, feasible, snapshot)
            for rule in prepared:
                decision.votes.append(rule.vote(feasible, snapshot))
        except Unschedulable as error:  # a score is not from 0 to 100, for example
            if len(feasible) > 1:  # a single node is selected, whatever its points
                raise
            warn_once(str(error))
        for extender in self.extenders:
            decision.votes += extender.prioritize(pod, feasible)
        return add_up(decision, prepared, feasible)

    def run_post_filter(self, decision: FullDecision, snapshot: FullSnapshot) -> None:
        """Run PostFilter for a pod that fits no node, until a rule has a remedy."""
        if not (decision.failed and decision.fits_nowhere):
            return  # there are no nodes, or a rule has failed
        is_silent = self.preempts_only_on_request and not self.rules_with["post_filter"]
        if is_silent and may_have_victims(decision):
            how = "to do so, too: --preempt, or Preemption among the predicates"
            warn_once(f"kube-scheduler might delete less important pods to place {decision.pod.key}; {how}",
                      about="preemption")
        with warn_if_broken(decision.pod.key):
            for rule in self.rules_with["post_filter"]:
                remedy = call_post_filter(rule, decision, snapshot)
                if isinstance(remedy, NoPreemption):
                    decision.why_not_preempted = remedy.why
                if remedy:
                    decision.requests, decision.remedy = with_reason(remedy)
                    return

    def predicates_to_ask(self) -> list[FullRule]:
        """Return the predicates in their order: those of the Policy, then those that are always active."""
        return self.predicates + ALWAYS_ASKED

    def after_predicates(self, pod: FullPod, feasible: dict[str, FullNode],
                         failed: Diagnosis) -> tuple[dict[str, FullNode], Diagnosis]:
        """Call Filter of the extenders. Return the nodes that still fit, and the Diagnosis of the others."""
        for extender in self.extenders:
            feasible, failed = extender.filter(pod, feasible, failed)
        return feasible, failed

    def is_helped_by_pods(self, pod: FullPod) -> bool:
        """Return whether another pod that is placed may make a pod fit that fits no node."""
        rules = self.predicates + self.rules_with["post_filter"]
        with warn_if_broken(pod.key):
            return bool(self.extenders) or any(
                rule.helped_by_pods and rule.helped_by_pods(pod) for rule in rules)
        return True

    def rejection(self, error: Rejected, failed: Diagnosis) -> str:
        """Return the message about a pod that a rule has rejected."""
        return failed.message

    def rules(self) -> list[FullRule]:
        """Return all active rules."""
        return self.predicates + self.priorities + self.others

    @functools.cached_property
    def rules_with(self) -> dict[str, list[FullRule]]:
        """The active rules that have a hook for an extension point, {point: [Rule]}."""
        found = {point: [rule for rule in self.rules() if point in rule.hooks] for point in EXTENSION_POINTS}
        found["post_filter"].sort(key=lambda rule: rule.plugin == "DefaultPreemption")  # last, as it deletes
        return found

    def name_for(self, rule: FullRule) -> str:
        """Return the name of a rule in files of this kind."""
        return rule.name

    @functools.cached_property
    def unchecked(self) -> dict[str, tuple[FullRule, Callable]]:
        """The requirements that no active rule checks, {name: (the rule that would, does a pod have it?)}."""
        active = {rule.name for rule in self.rules()}
        idle = [rule for rule in [*PREDICATES.values()] if rule.name not in active]  # a copy: it may change
        return {what: (rule, requires) for rule in idle for what, requires in rule.pod_requirements.items()}


def warm_up(policy: FullPolicy, snapshot: FullSnapshot) -> None:
    """Prepare rules for sample pods, so that the first real pod does not wait for LISTs."""
    steady = [rule for rule in policy.predicates_to_ask() + policy.priorities if rule.steady]
    for spec in SAMPLES:
        with contextlib.suppress(Exception, SystemExit):  # errors are reported for real pods
            pod = FullPod({"metadata": {"name": "none", "ownerReferences": [AN_OWNER]}, "spec": spec})
            prepare(steady, pod, snapshot.nodes, snapshot)


def call_post_filter(rule: FullRule, decision: FullDecision, snapshot: FullSnapshot) -> Any:
    """Call PostFilter of a rule, and return its result. The decision remembers a server error."""
    failed = copy.deepcopy(dict(decision.failed))  # the rule may change it
    try:
        return call_hook(rule, "post_filter", decision.pod, failed, snapshot)
    except ServerUnavailable as error:
        decision.server_error = error
        raise


def may_have_victims(decision: FullDecision) -> bool:
    """Return whether pods of lower priority are on nodes that might fit without them."""
    return any(other.priority < decision.pod.priority for name, against in decision.failed.items()
               if not is_unresolvable(against) for other in decision.nodes[name].pods.values())


def add_up(decision: FullDecision, prepared: list, nodes: dict[str, FullNode]) -> dict[str, float]:
    """Return {name: the sum of points times weight}; 1 for each node if there is no priority."""
    policy = decision.policy
    votes = decision.votes
    if not policy.priorities and not policy.extenders:
        votes = [Vote("", 1, None, dict.fromkeys(nodes, 1))]

    def total(name):
        """Return the sum of one node's points in all votes."""
        return sum([vote.weight * vote.points[name] for vote in votes])

    def totals(nodes):
        """Add up the votes for all nodes, vote by vote, which is faster; votes equal for all come first."""
        common = [vote.weight * vote.common_points for vote in votes if vote.common_points is not None]
        sums = dict.fromkeys(nodes, sum(common))
        for weight, points in [(vote.weight, vote.points) for vote in votes if vote.common_points is None]:
            sums = {name: so_far + weight * points[name] for name, so_far in sums.items()}
        return sums

    # The points after `reduce` depend on all nodes, so totals are valid only while these points are equal.
    reduced = [None if vote.points is vote.raw else vote.points for vote in votes]
    basis = [(each.rule, each.metadata) for each in prepared], reduced
    return answers_about(
        nodes, shared_key(("total", policy), prepared), decision.snapshot,
        lambda some: Answers(totals(nodes) if some is nodes else {name: total(name) for name in some}), basis)
