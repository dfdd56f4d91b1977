"""A Policy in force: its active rules, and how their answers make a decision.

`schedule` in deciding/ calls it.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import random
from dataclasses import dataclass, field

from scheduler_extras.common.blame import warn_if_broken
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.deciding.answers import answers_about, memo
from scheduler_extras.deciding.asking import prepare
from scheduler_extras.deciding.decision import FullDecision, Vote, put_together
from scheduler_extras.deciding.extension_points import EXTENSION_POINTS, call_hook, with_reason
from scheduler_extras.deciding.rule import PREDICATES
from scheduler_extras.deciding.seen import shared_key
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.always import ALWAYS_ASKED
from scheduler_extras.rules.preemption import NoPreemption, is_hopeless


# Imaginary pods: the pod of a Deployment, and one that has a constraint itself.
AN_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "none", "controller": True}
IMAGINARY = [{}, {"topologySpreadConstraints": [{
    "maxSkew": 1, "topologyKey": "none", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]}]


@dataclass(eq=False)
class FullPolicy:
    """The active rules, in the order in which they run, and the extenders."""

    predicates: list
    priorities: list
    extenders: list = field(default_factory=list)
    always_check_all: bool = False
    notices: list = field(default_factory=list)  # of the file: settings without effect here, a line each
    others: list = field(default_factory=list)  # rules of which only other extension points are active
    election: dict = field(default_factory=dict)  # settings of a KubeSchedulerConfiguration
    initial_backoff: int = 1  # seconds that a pod waits after the first attempt; then twice that, and so on
    max_backoff: int = 10  # seconds
    kind = "Policy"  # of the file
    has_to_ask_for_preemption = True  # kube-scheduler preempts by default
    unschedulable_seconds = 60  # after which a pod that fits nowhere is tried again without a change
    retries_preemptors = True  # at once: in 1.20, their new status moves them to activeQ
    pops_from_backoff = False  # whether a change ends its backoff, if there is nothing else to do

    def new_decision(self, pod, snapshot):
        """Return an empty decision about a pod."""
        pod.signatures.clear()  # since it was tried last, it may have changed
        return FullDecision(pod, snapshot.nodes, policy=self, snapshot=snapshot)

    def nodes_that_fit(self, pod, snapshot):
        """Run PreFilter, Filter and the extenders. Return {name: Node}, and the Failures of other nodes."""
        passing = snapshot.nodes
        refusals = []  # (title of a predicate, its reasons against nodes)
        prepared = prepare(self.predicates_to_ask(), pod, snapshot.nodes, snapshot)
        for rule in prepared:
            asked = snapshot.nodes if self.always_check_all else passing
            passing, refused = rule.split(asked, snapshot)
            if refused:
                refusals.append((rule.rule.title, refused))
        feasible, failed = memo(
            shared_key("failed", prepared), snapshot, [snapshot.nodes, refusals],
            lambda: put_together(snapshot.nodes, refusals))
        return self.ask_extenders(pod, feasible, failed)

    def prioritize(self, decision, feasible):
        """Run PreScore, Score and the extenders. Return {name: total score}. Raises Unschedulable."""
        pod = decision.pod
        snapshot = decision.snapshot
        prepared = []
        try:
            prepared = prepare(self.priorities, pod, feasible, snapshot)
            for rule in prepared:
                decision.votes.append(rule.vote(feasible, snapshot))  # points from 0 to 100
        except Unschedulable as error:  # a priority has given a score that is not from 0 to 100, for example
            if len(feasible) > 1:  # a single node is taken, whatever its points
                raise
            warn_once(str(error))
        for extender in self.extenders:
            decision.votes += extender.prioritize(pod, feasible)
        total = add_up(decision, prepared, feasible)
        if CHANCE.seed is not None:  # among equal nodes, select_host is to take the same one each time
            random.seed(f"{CHANCE.seed} {pod.key}")
        return total

    def look_ahead(self, snapshot):
        """Prepare rules for imaginary pods, so that the first real one does not wait for lists."""
        steady = [rule for rule in self.predicates_to_ask() + self.priorities if rule.steady]
        for spec in IMAGINARY:
            with contextlib.suppress(Exception, SystemExit):  # real pods have it reported
                pod = FullPod({"metadata": {"name": "none", "ownerReferences": [AN_OWNER]}, "spec": spec})
                prepare(steady, pod, snapshot.nodes, snapshot)

    def seek_remedy(self, decision, snapshot):
        """Run PostFilter for a pod that fits nowhere: the first rule with a remedy gives it."""
        if not (decision.failed and decision.fits_nowhere):
            return  # there are no nodes, or another rule has failed
        is_silent = self.has_to_ask_for_preemption and not self.rules_with["post_filter"]
        if is_silent and may_have_victims(decision):
            how = "to do so, too: --preempt, or Preemption among the predicates"
            warn_once(f"kube-scheduler might delete less important pods to place {decision.pod.key}; {how}",
                      about="preemption")
        with warn_if_broken(decision.pod.key):
            for rule in self.rules_with["post_filter"]:
                failed = copy.deepcopy(dict(decision.failed))  # the rule may change it
                remedy = call_hook(rule, "post_filter", decision.pod, failed, snapshot)
                if isinstance(remedy, NoPreemption):
                    decision.why_not_preempted = remedy.why
                if remedy:
                    decision.requests, decision.remedy = with_reason(remedy)
                    return

    def predicates_to_ask(self):
        """Return the predicates in their order: those of the Policy, then those that are always active."""
        return self.predicates + ALWAYS_ASKED

    def ask_extenders(self, pod, feasible, failed):
        """Call Filter of the extenders. Return the nodes that still fit, and the Failures of the others."""
        for extender in self.extenders:
            feasible, failed = extender.filter(pod, feasible, failed)
        return feasible, failed

    def rejection(self, error, failed):
        """Return the message for a pod that fits no node at all, for this reason."""
        return failed.message

    def rules(self):
        """Return all active rules."""
        return self.predicates + self.priorities + self.others

    @functools.cached_property
    def rules_with(self):
        """The active rules that have a function for an extension point, {point: [Rule]}."""
        found = {point: [rule for rule in self.rules() if point in rule.hooks] for point in EXTENSION_POINTS}
        found["post_filter"].sort(key=lambda rule: rule.plugin == "DefaultPreemption")  # last, as it deletes
        return found

    def name_for(self, rule):
        """Return the name of a rule in files of this kind."""
        return rule.name

    @functools.cached_property
    def unchecked(self):
        """{what a pod may require: (the inactive rule that checks it, whether a pod does)}."""
        active = {rule.name for rule in self.rules()}
        idle = [rule for rule in [*PREDICATES.values()] if rule.name not in active]  # they may change
        return {what: (rule, is_asked) for rule in idle for what, is_asked in rule.looks_at.items()}


def may_have_victims(decision):
    """Return whether there are less important pods where it may help a pod that they go."""
    return any(other.priority < decision.pod.priority for name, against in decision.failed.items()
               if not is_hopeless(against) for other in decision.nodes[name].pods.values())


def add_up(decision: FullDecision, prepared: list, nodes: dict[str, FullNode]) -> dict[str, float]:
    """Return {name: the sum of its points times their weights}; 1 if there is no priority."""
    policy = decision.policy
    votes = decision.votes
    if not policy.priorities and not policy.extenders:
        votes = [Vote("", 1, None, dict.fromkeys(nodes, 1))]

    def total(name):
        """Add up what one node gets in all votes."""
        return sum([vote.weight * vote.points[name] for vote in votes])

    def totals(nodes):
        """Add up what each node gets: vote by vote, which is quicker; first, where all get the same."""
        of_each = sum([vote.weight * vote.of_each for vote in votes if vote.of_each is not None])
        sums = dict.fromkeys(nodes, of_each)
        for weight, points in [(vote.weight, vote.points) for vote in votes if vote.of_each is None]:
            sums = {name: so_far + weight * points[name] for name, so_far in sums.items()}
        return sums

    # Points that `reduce` has made depend on all nodes: totals are valid only while these are equal.
    reduced = [None if vote.points is vote.raw else vote.points for vote in votes]
    basis = [(each.rule, each.metadata) for each in prepared], reduced
    return answers_about(
        nodes, shared_key(("total", policy), prepared), decision.snapshot,
        lambda asked: totals(asked) if asked is nodes else {name: total(name) for name in asked}, basis)


CONFIGURATION_VERSION = "kubescheduler.config.k8s.io/v1"  # a Policy may have it, too


ELECTION = {"leaseDuration": 15, "renewDeadline": 10, "retryPeriod": 2}  # seconds, as kube-scheduler's
