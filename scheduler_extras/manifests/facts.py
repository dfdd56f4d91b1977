"""What an API server refuses of fields beside each other: a table of facts, and the functions that see them.

refusals.py checks manifests with it.
"""

import re

from scheduler import NO_REQUESTS
from scheduler_extras.common.errors import Malformed
from scheduler_extras.deciding.rule import WHEN
from scheduler_extras.manifests.fields import AMOUNTS, CONTAINERS, QUANTITY, SELECTING
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.label_selectors import label_selector, labels_match
from scheduler_extras.reading.names import is_extended_resource, is_qualified
from scheduler_extras.reading.node_affinity import checked_field
from scheduler_extras.reading.quantities import quantity
from scheduler_extras.reading.schemas import in_short


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
    try:
        return not labels_match(labels, label_selector(spec.get("selector") or {}))
    except Malformed:  # which is said of the selector
        return False


def restarts(spec):
    """Return the restartPolicy of a workload's template."""
    return pick(spec, dict, "template", "spec").get("restartPolicy") or "Always"


def is_of_the_system(priority_class):
    """Return whether a PriorityClass is one of those that every cluster has."""
    return text_at(priority_class, "metadata", "name").startswith("system-")


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
    "HorizontalPodAutoscaler spec": [
        ("maxReplicas", "must be greater than or equal to `minReplicas`",
         lambda it: it.get("maxReplicas") and it["maxReplicas"] < (it.get("minReplicas") or 1))],
    "PodDisruptionBudget spec": [
        ("", ": minAvailable and maxUnavailable cannot be both set",
         lambda it: None not in (it.get("minAvailable"), it.get("maxUnavailable")))],
    "PriorityClass": [
        ("value", "maximum allowed value of a user defined priority is 1000000000",
         lambda it: (it.get("value") or 0) > 10**9 and not is_of_the_system(it))],
    "metadata": [("name", "Required value", lambda it: not (it.get("name") or it.get("generateName")))],
    "resources": [("", ": HugePages require cpu or memory", lacks_cpu_and_memory)],
    "Pod spec": [
        ("containers", "Duplicate value: two have one name",
         lambda it: comes_twice(names_of_containers(it))),
        ("containers", "Duplicate value: a hostPort comes twice", takes_a_port_twice),
        ("containers", "containerPort must match `hostPort` when `hostNetwork` is true", ports_differ),
        twice("topologySpreadConstraints", "topologyKey", "whenUnsatisfiable"), twice("volumes", "name")],
    "Node spec": [twice("taints", "key", "effect")],
    **{part: [
        ("template.metadata.labels", "`selector` does not match template `labels`", selects_others),
        ("template.spec.restartPolicy", 'Unsupported value, expected "Always"',
         lambda it: restarts(it) != "Always")]
       for part in SELECTING},
    "Job spec": [("template.spec.restartPolicy", 'Required value, "OnFailure" or "Never"',
                  lambda it: restarts(it) == "Always")],
    "PersistentVolume spec": [
        ("nodeAffinity", "Local volume requires node affinity",
         lambda it: it.get("local") and not pick(it, dict, "nodeAffinity").get("required"))]}


def problems_of_resources(resources):
    """Yield what is wrong with requests beside limits; what cannot be overcommitted has to have both."""
    limits = pick(resources, dict, "limits")
    for name, text in (limits | pick(resources, dict, "requests")).items():
        texts = [text, limits.get(name, 0)]
        if not all(map(QUANTITY.is_fine, texts)):
            continue  # which is said of the amount itself
        wanted, most = [quantity(str(each), 1000) for each in texts]
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
    """Yield which amounts are none."""
    for name, amount in amounts.items():
        if not QUANTITY.is_fine(amount):
            hint = hint_at_unit(amount)
            yield f"{name}: {in_short(amount)} is not {QUANTITY.expected}{hint}"


UNITS = {"b": "", "kb": "k", "mb": "M", "gb": "G", "tb": "T", "kib": "Ki", "mib": "Mi", "gib": "Gi",
         "tib": "Ti", "ki": "Ki", "mi": "Mi", "gi": "Gi", "ti": "Ti", "g": "G", "t": "T", "K": "k"}


def hint_at_unit(amount):
    """Return a hint at the amount that may be meant by one with another unit, such as 512MB; else ""."""
    match = re.fullmatch(r"([0-9.]+) *([A-Za-z]+)", str(amount))
    if not match:
        return ""
    number, unit = match.groups()
    meant = UNITS.get(unit, UNITS.get(unit.lower()))
    return f'; did you mean "{number}{meant}"?' if meant is not None else ""


def problems_of_requests(amounts):
    """Yield which amounts are none, and which resources there are not."""
    yield from problems_of_amounts(amounts)
    for name in amounts.keys() - NO_REQUESTS.keys():
        if "/" not in name and not name.startswith("hugepages-"):
            yield f"{name}: no such resource; expected {', '.join(NO_REQUESTS)}, or example.com/{name}"
        elif not is_qualified(name):
            yield f"{name}: expected a name, such as example.com/gpu"


def problems_of_claim(spec):
    """Yield what is wrong with the storage that a claim requests."""
    requests = pick(spec, dict, "resources").get("requests") or {}
    if not isinstance(requests, dict):
        yield f"resources.requests: expected an object, got {in_short(requests)}"
    for each in problems_of_amounts(requests) if isinstance(requests, dict) else ():
        yield f"resources.requests.{each}"


def problems_of_texts(texts):
    """Yield which members of a map of texts are none."""
    for key, value in texts.items():
        if not isinstance(value, str):
            yield f"{key}: expected a string, got {in_short(value)}; put it in quotes"


def problems_of_selector(selector):
    """Yield which operators a selector of pods or namespaces does not have."""
    for i, expression in enumerate(pick(selector, list, "matchExpressions", of=dict)):
        if expression.get("operator") in ("Gt", "Lt"):
            yield f"matchExpressions[{i}].operator: {expression['operator']} is for nodes only"


CHECKS = {  # part -> a function that yields what else is wrong with its fields
    "resources": problems_of_resources, "PersistentVolumeClaim spec": problems_of_claim,
    **dict.fromkeys(AMOUNTS, problems_of_amounts),
    **dict.fromkeys(["requests", "limits"], problems_of_requests),
    **dict.fromkeys(["labels", "annotations", "nodeSelector", "matchLabels"], problems_of_texts),
    **dict.fromkeys(["labelSelector", "namespaceSelector"], problems_of_selector)}


def read_labels(labels):
    """Read labels, or a selector of them, by key. Raises Malformed."""
    for key in labels:
        if not is_qualified(key):
            raise Malformed(f'invalid label key: "{key}"')
    label_selector({"matchLabels": labels})


READ_AS_RULES_DO = {  # part -> a function that reads it as rules do, and raises Malformed
    "matchFields[]": checked_field,
    **dict.fromkeys(["labels", "nodeSelector", "matchLabels"], read_labels)}
