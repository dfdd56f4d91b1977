"""A profile of a KubeSchedulerConfiguration: a Policy that decides as kube-scheduler 1.36.

reading.py makes one for each profile.
"""

from scheduler_extras.configuration.plugins import NODES_NAMED
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.rules.always import nominate


class Profile(FullPolicy):
    """What a profile of a KubeSchedulerConfiguration says: a Policy that decides as 1.36 does."""

    kind = "KubeSchedulerConfiguration"
    has_to_ask_for_preemption = False  # DefaultPreemption runs, unless postFilter disables it
    unschedulable_seconds = 300  # upstream: DefaultPodMaxInUnschedulablePodsDuration
    retries_preemptors = False
    pops_from_backoff = True  # upstream: SchedulerPopFromBackoffQ, since 1.33

    def predicates_to_ask(self):
        """Return the predicates as they are asked: first of all, which nodes the pod names."""
        of_plugin = any(rule.name == "MatchNodeSelector" for rule in self.predicates)
        first = [NODES_NAMED] if of_plugin else []
        return first + super().predicates_to_ask()

    def ask_extenders(self, pod, feasible, failed):
        """Leave only the node where room was made for the pod, if it fits (evaluateNominatedNode)."""
        feasible, failed = super().ask_extenders(pod, feasible, failed)
        if pod.nominated_node in feasible:
            feasible = {pod.nominated_node: feasible[pod.nominated_node]}
        return feasible, failed

    def seek_remedy(self, decision, snapshot):
        """If no rule has a remedy, free the room that is kept for the pod. Upstream: schedule_one.go."""
        super().seek_remedy(decision, snapshot)
        is_nominated = decision.pod.uid in [other.uid for other in snapshot.nominated]
        has_remedy = decision.requests or decision.remedy or self.leaves_nomination(decision)
        if is_nominated and not has_remedy and not decision.trouble:
            decision.requests = [nominate(decision.pod, None, snapshot)]

    def leaves_nomination(self, decision):
        """Return whether DefaultPreemption leaves the nomination as it is, since the pod may not preempt."""
        may_preempt = decision.pod.spec.get("preemptionPolicy") != "Never"
        preempts = any(rule.plugin == "DefaultPreemption" for rule in self.rules_with["post_filter"])
        return preempts and decision.fits_nowhere and not may_preempt

    def rejection(self, error, failed):
        """Return the reason as it is, without the number of nodes for which it holds."""
        return f"0/{len(failed)} nodes are available: {error}."

    def name_for(self, rule):
        """Return the name of the plugin that a rule is part of."""
        return rule.plugin
