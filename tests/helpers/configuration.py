"""Short constructors for KubeSchedulerConfigurations."""

from helpers.extras import ROOT
from scheduler_extras.configuration.config_file import read_configuration


RULES = ROOT / "scheduler_extras" / "examples" / "tutorial_rules.py"
FILTERS = ["CheckNodeUnschedulable", "HostName", "PodToleratesNodeTaints", "MatchNodeSelector", "PodFitsHostPorts", "PodFitsResources", "NoDiskConflict", "MaxCSIVolumeCountPred", "CheckVolumeBinding", "NoVolumeZoneConflict", "EvenPodsSpread", "MatchInterPodAffinity"]


def configuration(*profiles, version="v1", **more):
    """A KubeSchedulerConfiguration with these profiles."""
    return {"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": "KubeSchedulerConfiguration",
            "profiles": list(profiles), **more}


def plugins(*names, **weights):
    """Plugins as a profile enables or disables them."""
    return [{"name": name} for name in names] + [
        {"name": name, "weight": weight} for name, weight in weights.items()]


def load(*profiles, **options):
    """The Policies of a configuration."""
    return read_configuration(configuration(*profiles, **options), "my-scheduler")


def rules(policy):
    """The names of a Policy's predicates, and the weights of its priorities."""
    return [rule.name for rule in policy.predicates], {rule.name: rule.weight for rule in policy.priorities}


SCORES = {"BalancedResourceAllocation": 1, "ImageLocalityPriority": 1, "InterPodAffinityPriority": 2,
          "LeastRequestedPriority": 1, "NodeAffinityPriority": 2, "SelectorSpreadPriority": 2,
          "TaintTolerationPriority": 3}


def wrong(message, *profiles, **more):
    """A row: an invalid configuration, and the error message after the file's name."""
    return configuration(*profiles, **more), message
