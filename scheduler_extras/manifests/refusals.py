"""What an API server would refuse of a manifest, where that decides about scheduling: a table of facts.

Manifests are checked by it. For all else there is `kubectl apply --dry-run=server`.
"""

import re

from scheduler import NO_REQUESTS
from scheduler_extras.common.errors import Malformed
from scheduler_extras.deciding.rule import WHEN
from scheduler_extras.manifests.workloads import WORKLOADS
from scheduler_extras.policy.extenders import NAME, is_extended_resource, is_qualified
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import LABEL_VALUE, OPERATORS, label_selector, labels_match
from scheduler_extras.reading.node_affinity import checked_field
from scheduler_extras.reading.quantities import quantity
from scheduler_extras.reading.schemas import Form, Schema, decode_part
from scheduler_extras.rules.resources import WEIGHT


# A part of an object goes by the name of its field, or by the object's kind; [] is any entry of a list.

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
FIELDS: dict[str, Schema] = {  # part -> what its fields may say: schemas, as those of files
    "metadata": {"name": OBJECT_NAME, "namespace": LABEL_NAME},
    "containers[]": {"name": LABEL_NAME},
    "initContainers[]": {"name": LABEL_NAME},
    "taints[]": {"key": NAME, "value": VALUE, "effect": EFFECTS},
    "tolerations[]": {"key": NAME, "value": VALUE, "effect": EFFECTS, "tolerationSeconds": int,
                      "operator": {"Equal", "Exists", "Gt", "Lt"}},
    "ports[]": {"hostPort": range(65536), "protocol": {"TCP", "UDP", "SCTP"}},
    "matchExpressions[]": {"operator": {*OPERATORS}, "key": NAME, "values": [str]},
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
    "Pod spec": {"preemptionPolicy": POLICIES},
    "PriorityClass": {"preemptionPolicy": POLICIES},
    "StorageClass": {"volumeBindingMode": {"Immediate", "WaitForFirstConsumer"}}}
NEEDED = {  # part -> the fields without which it is refused
    "taints[]": ["key", "effect"],
    "matchExpressions[]": ["key"],
    f"required{WHEN}": ["nodeSelectorTerms"],
    f"required{WHEN}[]": ["topologyKey"],
    f"preferred{WHEN}[]": ["weight"],
    "podAffinityTerm": ["topologyKey"],
    "persistentVolumeClaim": ["claimName"],
    "topologySpreadConstraints[]": ["maxSkew", "topologyKey", "whenUnsatisfiable"],
    "Pod spec": ["containers"],
    "PersistentVolume spec": ["accessModes"],
    "PersistentVolumeClaim spec": ["accessModes"],
    **{part: ["selector"] for part in SELECTING}}


def comes_twice(things):
    """Return whether one of these comes twice."""
    things = [*things]
    return len({*things}) < len(things)


def ports_in(spec, kinds):
    """Return the ports of a pod's containers of these kinds."""
    return [port for kind in kinds for container in pick(spec, list, kind, of=dict)
            for port in pick(container, list, "ports", of=dict)]


def takes_a_port_twice(spec):
    """Return whether containers of a pod take one port of the host twice."""
    return comes_twice((port.get("protocol") or "TCP", port.get("hostIP") or "", port["hostPort"])
                       for port in ports_in(spec, ["containers"]) if port.get("hostPort"))


def ports_differ(spec):
    """Return whether a pod on the host's network names a host port that differs from the container's."""
    return pick(spec, bool, "hostNetwork") and any(
        port.get("hostPort") not in (None, port.get("containerPort")) for port in ports_in(spec, CONTAINERS))


def names_of_containers(spec):
    """Return the names of a pod's containers that have one."""
    containers = [each for kind in CONTAINERS for each in pick(spec, list, kind, of=dict)]
    return [each["name"] for each in containers if each.get("name")]


def lacks_cpu_and_memory(resources):
    """Return whether there are huge pages, and neither cpu nor memory."""
    amounts = pick(resources, dict, "requests") | pick(resources, dict, "limits")
    has_huge_pages = any(name.startswith("hugepages-") for name in amounts)
    return has_huge_pages and not {"cpu", "memory"} & amounts.keys()


def exists(toleration):
    """Return whether any value of a taint is tolerated."""
    return toleration.get("operator") == "Exists"


def selects_others(spec):
    """Return whether a workload's selector does not select the pods of its template."""
    labels = pick(spec, dict, "template", "metadata", "labels", of=str)
    return not labels_match(labels, label_selector(spec.get("selector") or {}))


def twice(field, *names):
    """Return the fact that two entries of a list are alike in what is said by these names."""
    def is_so(part):
        entries = pick(part, list, field, of=dict)
        return comes_twice(repr([entry.get(name) for name in names]) for entry in entries)

    return field, f"Duplicate value of {{{', '.join(names)}}}", is_so


def lacks_selector(term):
    """Return whether a term names keys of labels, and no selector."""
    has_keys = term.get("matchLabelKeys") or term.get("mismatchLabelKeys")
    return has_keys and term.get("labelSelector") is None


WITHOUT_SELECTOR = ("matchLabelKeys", "must not be specified when labelSelector is not set", lacks_selector)
FACTS = {  # part -> what is refused of its fields beside each other: (field, why, whether it is so)
    "tolerations[]": [
        ("value", "must be empty when `operator` is 'Exists'", lambda it: exists(it) and it.get("value")),
        ("operator", "must be Exists when `key` is empty", lambda it: not (exists(it) or it.get("key"))),
        ("effect", "must be 'NoExecute' when `tolerationSeconds` is set",
         lambda it: it.get("tolerationSeconds") is not None and it.get("effect") != "NoExecute")],
    "matchExpressions[]": [  # whether a value is right, no API server looks: see remarks
        ("values", "must be specified when `operator` is 'In' or 'NotIn'",
         lambda it: it.get("operator") in ("In", "NotIn") and not it.get("values")),
        ("values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
         lambda it: it.get("operator") in ("Exists", "DoesNotExist") and it.get("values")),
        ("values", "must be specified single value when `operator` is 'Lt' or 'Gt'",
         lambda it: it.get("operator") in ("Lt", "Gt") and len(pick(it, list, "values")) != 1)],
    "topologySpreadConstraints[]": [
        WITHOUT_SELECTOR,
        ("minDomains", "must be left out where whenUnsatisfiable is ScheduleAnyway",
         lambda it: it.get("minDomains") is not None and it.get("whenUnsatisfiable") == "ScheduleAnyway")],
    "podAffinityTerm": [WITHOUT_SELECTOR],
    f"required{WHEN}[]": [WITHOUT_SELECTOR],
    "resources": [("", "HugePages require cpu or memory", lacks_cpu_and_memory)],
    "Pod spec": [
        ("containers", "Duplicate value: two have one name",
         lambda it: comes_twice(names_of_containers(it))),
        ("containers", "Duplicate value: a hostPort comes twice", takes_a_port_twice),
        ("containers", "containerPort must match `hostPort` when `hostNetwork` is true", ports_differ),
        twice("topologySpreadConstraints", "topologyKey", "whenUnsatisfiable"), twice("volumes", "name")],
    "Node spec": [twice("taints", "key", "effect")],
    **{part: [("template.metadata.labels", "`selector` does not match template `labels`", selects_others)]
       for part in SELECTING},
    "PersistentVolume spec": [
        ("nodeAffinity", "Local volume requires node affinity",
         lambda it: it.get("local") and not pick(it, dict, "nodeAffinity").get("required"))]}
CHECKED_KINDS = ("Pod", "Node", "PersistentVolume")  # all of whose spec is looked at
NAMED_KINDS = (*CHECKED_KINDS, *WORKLOADS, "PersistentVolumeClaim", "PriorityClass", "StorageClass",
               "Namespace", "Service")


def refusals(kind, thing, prefix=""):
    """Yield why an API server would refuse an object of this kind. prefix: of places in a template."""
    metadata = pick(thing, dict, "metadata")
    spec = pick(thing, dict, "spec")
    yield from problems_with(kind, thing, "")
    if kind in NAMED_KINDS and not prefix:
        yield from problems_with("metadata", metadata, "metadata")
    if kind in CHECKED_KINDS:
        yield from refused_in(spec, f"{prefix}spec", f"{kind} spec")
        yield from problems_with("labels", pick(metadata, dict, "labels"), f"{prefix}metadata.labels")
    else:
        yield from problems_with(f"{kind} spec", spec, "spec")
    if kind in WORKLOADS:
        yield from refusals("Pod", pick(spec, dict, "template"), "spec.template.")


def refused_in(part, place, name):
    """Yield what an API server refuses in a part of an object, but not within what it refuses as a whole."""
    refused = ()  # places
    for where, name_of_each, each in parts_of(part, place, name):
        if not where.startswith(refused):
            problems = problems_with(name_of_each, each, where)
            yield from problems
            refused += tuple(problem.partition(": ")[0] for problem in problems)


def parts_of(part, place, name=None):
    """Yield an object at a place, and those in it: (place, name of the part, object)."""
    if isinstance(part, list):
        for i, each in enumerate(part):
            yield from parts_of(each, f"{place}[{i}]")
    elif isinstance(part, dict):
        name = name or re.sub("[0-9]+", "", place.rpartition(".")[2])
        yield place, name, part
        for field, each in part.items():
            if name != "volumes[]" or field in NEEDED:  # of a volume, its claim is looked at
                yield from parts_of(each, f"{place}.{field}")


def problems_with(part, thing, place):
    """Return what is wrong with a part of an object at a place. Upstream: pkg/apis/core/validation."""
    nothing = None, "", [], {}
    found = [f"{name}: Required value" for name in NEEDED.get(part, ()) if thing.get(name) in nothing]
    for name, schema in FIELDS.get(part, {}).items():
        if thing.get(name) not in nothing:
            decode_part(thing[name], schema, name, found)
    if part in CHECKS:
        found += CHECKS[part](thing)
    problems = [f"{place}.{each}".lstrip(".") for each in found]
    problems += [f"{place}.{field}".strip(".") + f": {why}"
                 for field, why, is_so in FACTS.get(part, ()) if is_so(thing)]
    try:
        if part in READ_BY and not problems:
            READ_BY[part](thing)
    except Malformed as error:
        problems.append(f"{place}: {error}")
    return problems


def problems_of_resources(resources):
    """Yield what is wrong with requests beside limits; what cannot be overcommitted has to have both."""
    limits = pick(resources, dict, "limits")
    for name, text in pick(resources, dict, "requests").items():
        wanted = quantity(str(text), 1000)
        most = quantity(str(limits.get(name, 0)), 1000)
        is_scarce = is_extended_resource(name) or name.startswith("hugepages-")
        if is_scarce and name not in limits:
            yield f"limits.{name}: Limit must be set for non overcommitable resources"
        elif is_scarce and wanted != most:
            yield f"requests.{name}: must be equal to {name} limit"
        elif is_scarce and wanted % 1000:
            yield f"requests.{name}: must be an integer"
        elif name in limits and wanted > most:
            yield f"requests.{name}: must be less than or equal to {name} limit"


def problems_of_amounts(amounts):
    """Yield which resources there are not."""
    for name in amounts.keys() - NO_REQUESTS.keys():
        if "/" not in name and not name.startswith("hugepages-"):
            yield f"{name}: no such resource; expected {', '.join(NO_REQUESTS)}, or example.com/{name}"
        elif not is_qualified(name):
            yield f"{name}: expected a name, such as example.com/gpu"


def problems_of_selector(selector):
    """Yield which operators a selector of pods or namespaces does not have."""
    for i, expression in enumerate(pick(selector, list, "matchExpressions", of=dict)):
        if expression.get("operator") in ("Gt", "Lt"):
            yield f"matchExpressions[{i}].operator: {expression['operator']} is for nodes only"


CHECKS = {  # part -> a function that yields what else is wrong with its fields
    "resources": problems_of_resources, **dict.fromkeys(["requests", "limits"], problems_of_amounts),
    **dict.fromkeys(["labelSelector", "namespaceSelector"], problems_of_selector)}


def read_labels(labels):
    """Read labels, or a selector of them, by key. Raises Malformed."""
    for key in labels:
        if not is_qualified(key):
            raise Malformed(f'invalid label key: "{key}"')
    label_selector({"matchLabels": labels})


READ_BY = {  # part -> a function that reads it as rules do, and raises Malformed
    "matchFields[]": checked_field,
    **dict.fromkeys(["labels", "nodeSelector", "matchLabels"], read_labels)}
