"""A profile of a KubeSchedulerConfiguration: a Policy that decides like kube-scheduler 1.36.

config_file.py makes one for each profile.
"""

from typing import Any

from scheduler_extras.configuration.overrides.nodes import NODES_NAMED
from scheduler_extras.deciding.decision import FullDecision
from scheduler_extras.deciding.rule import FullRule, Rejected
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.nominating import nominate
from scheduler_extras.rules.preemption import no_preemption_message


class Profile(FullPolicy):
    """A profile: a Policy that decides like kube-scheduler 1.36."""

    kind = "KubeSchedulerConfiguration"
    preempts_only_on_request = False  # DefaultPreemption runs, unless postFilter disables it
    reason_for_errors = "SchedulerError"
    unschedulable_seconds = 300  # upstream: DefaultPodMaxInUnschedulablePodsDuration
    retries_preemptors = False
    pops_from_backoff = True  # upstream: SchedulerPopFromBackoffQ, since 1.33
    deallocates = False  # whether DynamicResources runs at postFilter

    def predicates_to_ask(self) -> list[FullRule]:
        """Return the predicates in order. The first one confines the pod to the nodes that it names."""
        has_plugin = any(rule.name == "MatchNodeSelector" for rule in self.predicates)
        first = [NODES_NAMED] if has_plugin else []
        return first + super().predicates_to_ask()

    def after_predicates(self, pod: FullPod, feasible: dict[str, FullNode],
                         failed: Any) -> tuple[Any, Any]:
        """Call Filter of the extenders. Keep only the nominated node if the pod fits there.

        Upstream: evaluateNominatedNode.
        """
        feasible, failed = super().after_predicates(pod, feasible, failed)
        if pod.nominated_node in feasible:
            feasible = {pod.nominated_node: feasible[pod.nominated_node]}
        return feasible, failed

    def run_post_filter(self, decision: FullDecision, snapshot: FullSnapshot) -> None:
        """If no rule has a remedy, clear the pod's nomination. Upstream: schedule_one.go."""
        super().run_post_filter(decision, snapshot)
        is_nominated = decision.pod.uid in [other.uid for other in snapshot.nominated]
        has_remedy = decision.requests or decision.remedy or self.leaves_nomination(decision)
        if is_nominated and not has_remedy and not decision.server_error:
            decision.requests = [nominate(decision.pod, None, snapshot)]
        if decision.failed and decision.fits_nowhere and not decision.remedy:
            decision.message = " ".join(filter(None, [decision.message, self.why_no_remedy(decision)]))

    def why_no_remedy(self, decision: FullDecision) -> str:
        """Return the messages of the postFilter plugins that do not help. Upstream: PostFilterMsg."""
        device_message = "no new claims to deallocate" if self.deallocates else ""
        return ", ".join(filter(None, [device_message, no_preemption_message(decision)]))

    def leaves_nomination(self, decision: FullDecision) -> bool:
        """Return whether DefaultPreemption keeps the nomination because the pod may not preempt."""
        may_preempt = decision.pod.spec.get("preemptionPolicy") != "Never"
        preempts = any(rule.plugin == "DefaultPreemption" for rule in self.rules_with["post_filter"])
        return preempts and decision.fits_nowhere and not may_preempt

    def rejection(self, error: Rejected, failed: Any) -> str:
        """Return the message for a pod that fits no node. It gives the reason without a number of nodes."""
        return f"0/{len(failed)} nodes are available: {error}."

    def name_for(self, rule: FullRule) -> str:
        """Return the name of the plugin that a rule belongs to."""
        return rule.plugin
