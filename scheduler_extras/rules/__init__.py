"""The rules of kube-scheduler that the script does not have, a file for each subject; and the order of all.

Whoever imports this package has all rules in PREDICATES and PRIORITIES.
"""

import importlib

from scheduler_extras.deciding.rule import PREDICATES, PRIORITIES

for module in ("of_the_script", "ports", "resources", "labels", "spreading", "service_affinity", "affinity",
               "disks", "claims", "volume_zones", "always", "preemption"):
    importlib.import_module(f"scheduler_extras.rules.{module}")

# The order in which plugins run; those of the user's own come last.
# Upstream: getDefaultPlugins in apis/config/v1, and before that algorithmprovider/registry.go.
PLUGIN_ORDER = [
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "EBSLimits", "GCEPDLimits", "NodeVolumeLimits", "AzureDiskLimits", "VolumeBinding",
    "VolumeZone", "PodTopologySpread", "InterPodAffinity", "DefaultPreemption",
    "NodeResourcesBalancedAllocation", "ImageLocality"]
# The order in which a Policy has them run; those of the user's own come last.
# Upstream: predicatesOrdering in pkg/scheduler/framework/plugins/legacy_registry.go.
PREDICATE_ORDER = [
    "CheckNodeUnschedulable", "HostName", "PodFitsHostPorts", "MatchNodeSelector", "PodFitsResources",
    "NoDiskConflict", "PodToleratesNodeTaints", "CheckNodeLabelPresence", "CheckServiceAffinity",
    "MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "MaxCSIVolumeCountPred", "MaxAzureDiskVolumeCount",
    "MaxCinderVolumeCount", "CheckVolumeBinding", "NoVolumeZoneConflict", "EvenPodsSpread",
    "MatchInterPodAffinity", "Preemption"]
# The order in which priorities are asked where a Policy leaves their list out.
PRIORITY_ORDER = [
    "LeastRequestedPriority", "MostRequestedPriority", "BalancedResourceAllocation", "NodeAffinityPriority",
    "TaintTolerationPriority", "RandomPriority", "NodeLabel", "NodePreferAvoidPodsPriority",
    "RequestedToCapacityRatio", "ImageLocalityPriority", "ServiceAffinity", "EvenPodsSpreadPriority",
    "SelectorSpreadPriority", "InterPodAffinityPriority"]

for catalogue, order in ((PREDICATES, PREDICATE_ORDER), (PRIORITIES, PRIORITY_ORDER)):
    own = [name for name in catalogue if name not in order]
    in_order = {name: catalogue[name] for name in [*order, *own] if name in catalogue}
    catalogue.clear()
    catalogue.update(in_order)
