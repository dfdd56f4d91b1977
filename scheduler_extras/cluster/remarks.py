"""What is wrong, misplaced or misspelt in a manifest, as an API server would say it, or would not.

manifests.py asks it about each object.
"""

import re

from scheduler import (
    LABEL_VALUE, NO_REQUESTS, OPERATORS, Malformed, node_selector_term, pick, quantity, read_requirement
)
from scheduler_extras.objects import label_selector
from scheduler_extras.policy.extenders import NAME, is_extended_resource, is_qualified
from scheduler_extras.policy.files import Form, decode_part, nearly
from scheduler_extras.rule import WHEN
from scheduler_extras.rules.resources import WEIGHT


# What an API server would refuse is named, where rules look at it; what it would fill in is filled in.
# A part of an object goes by the name of its field, or by the object's kind; [] is any entry of a list.

EFFECTS = {"NoSchedule", "PreferNoSchedule", "NoExecute"}
VALUE = Form("a label's value", lambda text: len(text) <= 63 and LABEL_VALUE.fullmatch(text), str)
FIELDS = {  # part -> what its fields may say: schemas, as those of files
    "taints[]": {"key": NAME, "value": VALUE, "effect": EFFECTS},
    "tolerations[]": {"key": NAME, "value": VALUE, "effect": EFFECTS, "tolerationSeconds": int,
                      "operator": {"Equal", "Exists", "Gt", "Lt"}},
    "ports[]": {"hostPort": range(65536), "protocol": {"TCP", "UDP", "SCTP"}},
    "matchExpressions[]": {"operator": {*OPERATORS}, "key": NAME},
    "matchFields[]": {"operator": {*OPERATORS}, "key": {"metadata.name"}},
    "nodeAffinity": {f"required{WHEN}": dict, f"preferred{WHEN}": list},
    "podAffinity": {f"required{WHEN}": list, f"preferred{WHEN}": list},
    "podAntiAffinity": {f"required{WHEN}": list, f"preferred{WHEN}": list},
    "podAffinityTerm": {"labelSelector": dict, "topologyKey": NAME},
    f"required{WHEN}[]": {"labelSelector": dict, "topologyKey": NAME},
    f"preferred{WHEN}[]": {"weight": range(1, 101)},
    "topologySpreadConstraints[]": {
        "maxSkew": WEIGHT, "minDomains": WEIGHT, "topologyKey": NAME, "labelSelector": dict,
        "whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"},
        "nodeAffinityPolicy": {"Honor", "Ignore"}, "nodeTaintsPolicy": {"Honor", "Ignore"}},
    "PriorityClass": {"preemptionPolicy": {"Never", "PreemptLowerPriority"}},
    "StorageClass": {"volumeBindingMode": {"Immediate", "WaitForFirstConsumer"}}}
NEEDED = {  # part -> the fields without which it is refused
    "taints[]": ["key", "effect"],
    "matchExpressions[]": ["key"],
    f"required{WHEN}": ["nodeSelectorTerms"],
    f"required{WHEN}[]": ["topologyKey"],
    f"preferred{WHEN}[]": ["weight"],
    "podAffinityTerm": ["topologyKey"],
    "persistentVolumeClaim": ["claimName"],
    "topologySpreadConstraints[]": ["maxSkew", "topologyKey", "whenUnsatisfiable"]}
CONTAINERS = ("initContainers", "containers")
OF_PODS = ["tolerations", "nodeSelector", "affinity", "topologySpreadConstraints", "hostNetwork"]
OF_CONTAINERS = dict.fromkeys(OF_PODS, "in spec, beside containers") | dict.fromkeys(
    ["requests", "limits"], "in resources")
MISPLACED = {  # part -> fields that people put there, and where each belongs
    **dict.fromkeys(["initContainers[]", "containers[]"], OF_CONTAINERS),
    f"preferred{WHEN}[]": {
        **dict.fromkeys(["topologyKey", "labelSelector"], "in podAffinityTerm"),
        **dict.fromkeys(["matchExpressions", "matchFields"], "in preference, if it is of nodes")}}
CLUSTER_WIDE = [  # kinds of objects that have no namespace
    "Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment",
    "PriorityClass"]
KINDS = [*CLUSTER_WIDE, "Pod", "Service", "ReplicationController", "ReplicaSet", "StatefulSet",
         "PersistentVolumeClaim", "CSIStorageCapacity", "PodDisruptionBudget"]
NOT_OBEYED = {  # kind of an object that admission obeys -> what is said of it
    "LimitRange": "pods do not get its requests and limits here: add these to the pods themselves",
    "RuntimeClass": "pods do not get its overhead, nodeSelector and tolerations here: add these to the pods "
                    "themselves",
    "ResourceQuota": "pods are not refused because of it here"}


def remarks_on(kind, thing):
    """Yield what is odd in an object of this kind that no API server has checked."""
    meant = "" if kind in KINDS else nearly(kind, KINDS)
    if meant:
        yield f'kind: did you mean "{meant}"?'
    spec = pick(thing, dict, "spec")
    yield from problems_with(kind, thing, "")
    if kind in ("Pod", "Node", "PersistentVolume"):
        yield from refused_in(spec, "spec")
        yield from refused_in(pick(thing, dict, "metadata", "labels"), "metadata.labels")
    if kind in NOT_OBEYED:
        yield NOT_OBEYED[kind]
    if not {"template", "jobTemplate"}.isdisjoint(spec):
        yield "no pods are made of its template here: add the pods themselves"


def refused_in(part, place):
    """Yield what an API server refuses or drops in a part of a spec that rules look at."""
    name = re.sub("[0-9]+", "", place.rpartition(".")[2])
    inner = []
    if isinstance(part, list):
        inner = [(f"{place}[{i}]", each) for i, each in enumerate(part)]
    elif isinstance(part, dict):
        problems = problems_with(name, part, place)
        yield from problems
        inner = [(f"{place}.{field}", each) for field, each in part.items()
                 if (name != "volumes[]" or field in NEEDED)  # of a volume, its claim is looked at
                 and not any(problem.startswith(f"{place}.{field}: ") for problem in problems)]
    for where, each in inner:
        yield from refused_in(each, where)


def problems_with(part, thing, place):
    """Return what is wrong with a part of an object at a place. Upstream: pkg/apis/core/validation."""
    nothing = None, "", [], {}
    said = [f"{name}: is missing" for name in NEEDED.get(part, ()) if thing.get(name) in nothing]
    said += [f"{name}: belongs {where}" for name, where in MISPLACED.get(part, {}).items() if name in thing]
    for name, schema in FIELDS.get(part, {}).items():
        if thing.get(name) not in nothing:
            decode_part(thing[name], schema, name, said)
    if part in CHECKS:
        said += CHECKS[part](thing)
    problems = [f"{place}.{each}".lstrip(".") for each in said]
    try:
        if part in READ_BY and not problems:
            READ_BY[part](thing)
    except Malformed as error:
        problems.append(f"{place}: {error}")
    return problems


def problems_of_resources(resources):
    """Yield what is wrong with requests beside limits; what cannot be overcommitted has to have both."""
    places = ["requests", "limits", "claims"]
    yield from (f"{name}: belongs in requests or limits" for name in resources if name not in places)
    limits = pick(resources, dict, "limits")
    for name, text in pick(resources, dict, "requests").items():
        wanted = quantity(str(text), 1000)
        most = quantity(str(limits.get(name, 0)), 1000)
        is_scarce = is_extended_resource(name) or name.startswith("hugepages-")
        if is_scarce and wanted != most:
            yield f"requests.{name}: must be equal to its limit"
        elif is_scarce and wanted % 1000:
            yield f"requests.{name}: must be a whole number"
        elif name in limits and wanted > most:
            yield f"requests.{name}: must be at most its limit"


def problems_of_amounts(amounts):
    """Yield which resources there are not."""
    for name in amounts.keys() - NO_REQUESTS.keys():
        if "/" not in name and not name.startswith("hugepages-"):
            yield f"{name}: no such resource; expected {', '.join(NO_REQUESTS)}, or example.com/{name}"


def problems_of_toleration(toleration):
    """Yield what is wrong with the fields of a toleration beside each other."""
    exists = toleration.get("operator") == "Exists"
    if exists and toleration.get("value"):
        yield "value: must be left out where the operator is Exists"
    if not exists and not toleration.get("key"):
        yield "operator: must be Exists where there is no key"
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        yield "effect: must be NoExecute where there are tolerationSeconds"


def problems_of_selector(selector):
    """Yield which operators a selector of pods or namespaces does not have."""
    for i, expression in enumerate(pick(selector, list, "matchExpressions", of=dict)):
        if expression.get("operator") in ("Gt", "Lt"):
            yield f"matchExpressions[{i}].operator: {expression['operator']} is for nodes only"


def problems_of_constraint(constraint):
    """Yield what is wrong with the fields of a spread constraint beside each other."""
    if constraint.get("minDomains") is not None and constraint.get("whenUnsatisfiable") == "ScheduleAnyway":
        yield "minDomains: must be left out where whenUnsatisfiable is ScheduleAnyway"


CHECKS = {  # part -> a function that yields what else is wrong with its fields
    "resources": problems_of_resources, **dict.fromkeys(["requests", "limits"], problems_of_amounts),
    "tolerations[]": problems_of_toleration, "topologySpreadConstraints[]": problems_of_constraint,
    **dict.fromkeys(["labelSelector", "namespaceSelector"], problems_of_selector)}
def read_labels(labels):
    """Read labels, or a selector of them, by key. Raises Malformed."""
    for key in labels:
        if not is_qualified(key):
            raise Malformed(f'invalid label key: "{key}"')
    label_selector({"matchLabels": labels})


READ_BY = {  # part -> a function that reads it as rules do, and raises Malformed
    "matchExpressions[]": read_requirement,
    "matchFields[]": lambda expression: node_selector_term({"matchFields": [expression]}),
    **dict.fromkeys(["labels", "nodeSelector", "matchLabels"], read_labels)}
