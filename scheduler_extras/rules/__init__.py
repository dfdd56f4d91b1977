"""The rules of kube-scheduler that the script lacks, one file per subject, and the order of all rules.

Importing this package fills PREDICATES and PRIORITIES.
"""

import importlib

from scheduler_extras.deciding.rule import PREDICATES, PRIORITIES


for module in ("script_rules", "ports", "resources", "labels", "spreading", "service_affinity", "affinity",
               "disks", "claims", "volume_zones", "always", "preemption"):
    importlib.import_module(f"scheduler_extras.rules.{module}")

# The order in which plugins run. Rules of the user's own come last, here and below.
# Upstream: getDefaultPlugins in apis/config/v1, and before that algorithmprovider/registry.go.
PLUGIN_ORDER = [
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "EBSLimits", "GCEPDLimits", "NodeVolumeLimits", "AzureDiskLimits", "VolumeBinding",
    "VolumeZone", "PodTopologySpread", "InterPodAffinity", "DefaultPreemption",
    "NodeResourcesBalancedAllocation", "ImageLocality"]
# The order in which predicates run under a Policy.
# Upstream: predicatesOrdering in pkg/scheduler/framework/plugins/legacy_registry.go.
PREDICATE_ORDER = [
    "CheckNodeUnschedulable", "HostName", "PodFitsHostPorts", "MatchNodeSelector", "PodFitsResources",
    "NoDiskConflict", "PodToleratesNodeTaints", "CheckNodeLabelPresence", "CheckServiceAffinity",
    "MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "MaxCSIVolumeCountPred", "MaxAzureDiskVolumeCount",
    "MaxCinderVolumeCount", "CheckVolumeBinding", "NoVolumeZoneConflict", "EvenPodsSpread",
    "MatchInterPodAffinity", "Preemption"]
# The order of the default priorities, which are active if a Policy leaves out the list.
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
