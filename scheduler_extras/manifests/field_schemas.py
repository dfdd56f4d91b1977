"""The schemas of single fields in manifests, and the required fields: two tables.

validation.py checks manifests with them.
"""

from __future__ import annotations

import re
from typing import Any

from scheduler_extras.common.errors import Malformed
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.reading.label_selectors import LABEL_VALUE, OPERATORS
from scheduler_extras.reading.label_syntax import NAME
from scheduler_extras.reading.quantities import quantity
from scheduler_extras.reading.schemas import Form, Schema
from scheduler_extras.rules.resources import WEIGHT


# The key of a part of an object is the name of its field, or its kind; [] stands for any entry of a list.

CONTAINERS = ("initContainers", "containers")
SELECTING = ("Deployment spec", "ReplicaSet spec", "StatefulSet spec", "DaemonSet spec")
DOMAIN_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
EFFECTS = {"NoSchedule", "PreferNoSchedule", "NoExecute"}
POLICIES = {"Never", "PreemptLowerPriority"}
VALUE = Form("a label's value", lambda text: len(text) <= 63 and LABEL_VALUE.fullmatch(text), str)
OBJECT_NAME = Form(
    "a lowercase RFC 1123 subdomain, such as my-pod",
    lambda text: len(text) <= 253 and re.fullmatch(rf"{DOMAIN_PART}(\.{DOMAIN_PART})*", text), str)
LABEL_NAME = Form(
    "a lowercase RFC 1123 label, such as my-name",
    lambda text: len(text) <= 63 and re.fullmatch(DOMAIN_PART, text), str)


def is_quantity(value: object) -> bool:
    """Return whether a value is a valid quantity, written as a string or a number."""
    try:
        quantity(str(value))
    except Malformed:
        return False
    return not isinstance(value, bool)


def is_number_or_share(value: Any) -> bool:
    """Return whether a value is a number of pods, or a percentage."""
    is_share = isinstance(value, str) and re.fullmatch("[0-9]+%", value)
    return bool(is_share) or (type(value) is int and value >= 0)


COUNT = range(2**31)
QUANTITY = Form("a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi", is_quantity, None)
PODS = Form('a number of pods, or a share such as "50%"', is_number_or_share, None)
SELECTOR = {"matchLabels": dict, "matchExpressions": list}
SCALED = {"replicas": COUNT, "selector": dict, "template": dict}
CONTAINER = {"name": LABEL_NAME, "image": str, "resources": dict, "ports": list}
ACCESS_MODES = {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"}
FIELDS: dict[str, Schema] = {  # part -> {field: its schema}; see reading/schemas.py
    "metadata": {"name": OBJECT_NAME, "namespace": LABEL_NAME, "generateName": str, "labels": dict,
                 "annotations": dict, "ownerReferences": list},
    "containers[]": CONTAINER,
    "initContainers[]": CONTAINER | {"restartPolicy": str},
    "resources": {"requests": dict, "limits": dict},
    "taints[]": {"key": NAME, "value": VALUE, "effect": EFFECTS},
    "tolerations[]": {"key": NAME, "value": VALUE, "effect": EFFECTS, "tolerationSeconds": int,
                      "operator": {"Equal", "Exists", "Gt", "Lt"}},
    "ports[]": {"containerPort": range(65536), "hostPort": range(65536), "protocol": {"TCP", "UDP", "SCTP"},
                "hostIP": str},
    "matchExpressions[]": {"operator": {*OPERATORS}, "key": NAME, "values": [str]},
    "matchFields[]": {"operator": {*OPERATORS}, "key": {"metadata.name"}},
    "nodeAffinity": {f"required{DURING_SCHEDULING}": dict, f"preferred{DURING_SCHEDULING}": list},
    "podAffinity": {f"required{DURING_SCHEDULING}": list, f"preferred{DURING_SCHEDULING}": list},
    "podAntiAffinity": {f"required{DURING_SCHEDULING}": list, f"preferred{DURING_SCHEDULING}": list},
    "podAffinityTerm": {"labelSelector": dict, "topologyKey": NAME},
    f"required{DURING_SCHEDULING}[]": {"labelSelector": dict, "topologyKey": NAME},
    f"preferred{DURING_SCHEDULING}[]": {"weight": range(1, 101)},
    "topologySpreadConstraints[]": {
        "maxSkew": WEIGHT, "minDomains": WEIGHT, "topologyKey": NAME, "labelSelector": dict,
        "whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"},
        "nodeAffinityPolicy": {"Honor", "Ignore"}, "nodeTaintsPolicy": {"Honor", "Ignore"}},
    "nodeSelectorTerms[]": {"matchExpressions": list, "matchFields": list},
    "labelSelector": SELECTOR, "namespaceSelector": SELECTOR,
    "affinity": dict.fromkeys(["nodeAffinity", "podAffinity", "podAntiAffinity"], dict),
    "Pod spec": {
        "preemptionPolicy": POLICIES, "priority": int, "hostNetwork": bool,
        "restartPolicy": {"Always", "OnFailure", "Never"},
        **dict.fromkeys(["nodeName", "schedulerName", "priorityClassName", "runtimeClassName"], str),
        **dict.fromkeys(["affinity", "nodeSelector", "overhead", "resources"], dict),
        **dict.fromkeys(["containers", "initContainers", "schedulingGates", "tolerations",
                         "topologySpreadConstraints", "volumes"], list)},
    "Node spec": {"taints": list, "unschedulable": bool},
    "Node status": {"allocatable": dict, "capacity": dict},
    "Service spec": {"selector": dict},
    **{part: SCALED for part in (*SELECTING, "ReplicationController spec")},
    "StatefulSet spec": SCALED | {"podManagementPolicy": {"OrderedReady", "Parallel"}},
    "Job spec": {"parallelism": COUNT, "completions": COUNT, "suspend": bool, "template": dict,
                 "completionMode": {"NonIndexed", "Indexed"},
                 "podReplacementPolicy": {"TerminatingOrFailed", "Failed"}},
    "HorizontalPodAutoscaler spec": {"minReplicas": COUNT, "maxReplicas": COUNT, "scaleTargetRef": dict},
    "PodDisruptionBudget spec": {"minAvailable": PODS, "maxUnavailable": PODS, "selector": dict},
    "PersistentVolume spec": {
        "accessModes": [ACCESS_MODES], "capacity": dict, "claimRef": dict, "nodeAffinity": dict,
        "storageClassName": str},
    "PersistentVolumeClaim spec": {
        "accessModes": [ACCESS_MODES], "resources": dict, "selector": dict,
        "storageClassName": str, "volumeName": str},
    "PriorityClass": {"preemptionPolicy": POLICIES, "value": int, "globalDefault": bool},
    "StorageClass": {"volumeBindingMode": {"Immediate", "WaitForFirstConsumer"}, "provisioner": str,
                     "allowedTopologies": list},
    "CSINode spec": {"drivers": list}, "CSIStorageCapacity": {"nodeTopology": dict}}
AMOUNTS = ("requests", "limits", "capacity", "allocatable", "overhead")  # parts that hold quantities only
NEEDED = {  # part -> its required fields
    "taints[]": ["key", "effect"],
    "matchExpressions[]": ["key"],
    f"required{DURING_SCHEDULING}": ["nodeSelectorTerms"],
    f"required{DURING_SCHEDULING}[]": ["topologyKey"],
    f"preferred{DURING_SCHEDULING}[]": ["weight"],
    "podAffinityTerm": ["topologyKey"],
    "persistentVolumeClaim": ["claimName"],
    "topologySpreadConstraints[]": ["maxSkew", "topologyKey", "whenUnsatisfiable"],
    "Pod spec": ["containers"],
    "PersistentVolume spec": ["accessModes"],
    "PersistentVolumeClaim spec": ["accessModes"],
    "HorizontalPodAutoscaler spec": ["maxReplicas", "scaleTargetRef"],
    **{part: ["selector"] for part in SELECTING}}
