"""Validation of combinations of fields and of free-form maps, where an API server would reject them.

validation.py checks manifests with the tables here; field_schemas.py has the rules for single fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scheduler import NO_REQUESTS
from scheduler_extras.common.errors import Malformed
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.manifests.field_schemas import AMOUNTS, CONTAINERS, QUANTITY, SELECTING
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.label_selectors import label_selector, labels_match
from scheduler_extras.reading.label_syntax import is_extended_resource, is_qualified
from scheduler_extras.reading.node_affinity import checked_field
from scheduler_extras.reading.quantities import quantity
from scheduler_extras.reading.schemas import in_short


def has_duplicates(things: Iterable) -> bool:
    """Return whether two of these are equal."""
    things = [*things]
    return len({*things}) < len(things)


def ports_in(spec: dict, kinds: Iterable[str]) -> list[dict]:
    """Return the ports of a pod's containers in these lists, such as initContainers."""
    return [port for kind in kinds for container in pick(spec, list, kind, of=dict)
            for port in pick(container, list, "ports", of=dict)]


def has_duplicate_host_ports(spec: dict) -> bool:
    """Return whether two containers of a pod use the same host port."""
    return has_duplicates((port.get("protocol") or "TCP", port.get("hostIP") or "", port["hostPort"])
                          for port in ports_in(spec, ["containers"]) if port.get("hostPort"))


def ports_differ(spec: dict):
    """Return whether a pod on the host network has a hostPort that differs from its containerPort."""
    return pick(spec, bool, "hostNetwork") and any(
        port.get("hostPort") not in (None, port.get("containerPort")) for port in ports_in(spec, CONTAINERS))


def names_of_containers(spec: dict) -> list[str]:
    """Return the names of a pod's containers, without missing ones."""
    containers = [each for kind in CONTAINERS for each in pick(spec, list, kind, of=dict)]
    return [each["name"] for each in containers if each.get("name")]


def lacks_cpu_and_memory(resources: dict) -> bool:
    """Return whether a container has huge pages, but neither cpu nor memory."""
    amounts = pick(resources, dict, "requests") | pick(resources, dict, "limits")
    has_huge_pages = any(name.startswith("hugepages-") for name in amounts)
    return has_huge_pages and not {"cpu", "memory"} & amounts.keys()


def exists(toleration: dict) -> bool:
    """Return whether a toleration accepts any value of a taint."""
    return toleration.get("operator") == "Exists"


def selects_others(spec: dict) -> bool:
    """Return whether a workload's selector does not select the pods of its template."""
    labels = pick(spec, dict, "template", "metadata", "labels", of=str)
    try:
        return not labels_match(labels, label_selector(spec.get("selector") or {}))
    except Malformed:  # reported for the selector itself
        return False


def restart_policy(spec: dict) -> str:
    """Return the restartPolicy of a workload's template."""
    return pick(spec, dict, "template", "spec").get("restartPolicy") or "Always"


def is_system_class(priority_class: dict) -> bool:
    """Return whether a PriorityClass is one that every cluster has."""
    return text_at(priority_class, "metadata", "name").startswith("system-")


def no_duplicates(field: str, *names: str) -> tuple[str, str, Callable[[dict], bool]]:
    """Return the rule that no two entries of a list have equal values in these fields."""
    def is_violated(part):
        """Return whether two entries of the list are equal in these fields."""
        entries = pick(part, list, field, of=dict)
        return has_duplicates(repr([entry.get(name) for name in names]) for entry in entries)

    return field, f"Duplicate value of {{{', '.join(names)}}}", is_violated


def lacks_selector(term: dict) -> bool:
    """Return whether a term has matchLabelKeys or mismatchLabelKeys, but no labelSelector."""
    has_keys = term.get("matchLabelKeys") or term.get("mismatchLabelKeys")
    return bool(has_keys) and term.get("labelSelector") is None


WITHOUT_SELECTOR = ("matchLabelKeys", "must not be specified when labelSelector is not set", lacks_selector)
# Part -> rules: (field, message, function that returns whether the part violates the rule).
COMBINATIONS: dict[str, list[tuple[str, str, Callable[[dict], Any]]]] = {
    "tolerations[]": [
        ("value", "must be empty when `operator` is 'Exists'", lambda it: exists(it) and it.get("value")),
        ("operator", "must be Exists when `key` is empty", lambda it: not (exists(it) or it.get("key"))),
        ("effect", "must be 'NoExecute' when `tolerationSeconds` is set",
         lambda it: it.get("tolerationSeconds") is not None and it.get("effect") != "NoExecute")],
    "matchExpressions[]": [  # API servers do not validate the values themselves; see remarks.py
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
    f"required{DURING_SCHEDULING}[]": [WITHOUT_SELECTOR],
    "HorizontalPodAutoscaler spec": [
        ("maxReplicas", "must be greater than or equal to `minReplicas`",
         lambda it: it.get("maxReplicas") and it["maxReplicas"] < (it.get("minReplicas") or 1))],
    "PodDisruptionBudget spec": [
        ("", ": minAvailable and maxUnavailable cannot be both set",
         lambda it: None not in (it.get("minAvailable"), it.get("maxUnavailable")))],
    "PriorityClass": [
        ("value", "maximum allowed value of a user defined priority is 1000000000",
         lambda it: (it.get("value") or 0) > 10**9 and not is_system_class(it))],
    "metadata": [("name", "Required value", lambda it: not (it.get("name") or it.get("generateName")))],
    "resources": [("", ": HugePages require cpu or memory", lacks_cpu_and_memory)],
    "Pod spec": [
        ("containers", "Duplicate value: two have one name",
         lambda it: has_duplicates(names_of_containers(it))),
        ("containers", "Duplicate value: a hostPort comes twice", has_duplicate_host_ports),
        ("containers", "containerPort must match `hostPort` when `hostNetwork` is true", ports_differ),
        no_duplicates("topologySpreadConstraints", "topologyKey", "whenUnsatisfiable"),
        no_duplicates("volumes", "name")],
    "Node spec": [no_duplicates("taints", "key", "effect")],
    **{part: [
        ("template.metadata.labels", "`selector` does not match template `labels`", selects_others),
        ("template.spec.restartPolicy", 'Unsupported value, expected "Always"',
         lambda it: restart_policy(it) != "Always")]
       for part in SELECTING},
    "Job spec": [("template.spec.restartPolicy", 'Required value, "OnFailure" or "Never"',
                  lambda it: restart_policy(it) == "Always")],
    "PersistentVolume spec": [
        ("nodeAffinity", "Local volume requires node affinity",
         lambda it: it.get("local") and not pick(it, dict, "nodeAffinity").get("required"))]}


def problems_of_resources(resources: dict) -> Iterator[str]:
    """Yield the mistakes in requests and limits together. Upstream: ValidateResourceRequirements."""
    limits = pick(resources, dict, "limits")
    for name, text in (limits | pick(resources, dict, "requests")).items():
        texts = [text, limits.get(name, 0)]
        if not all(map(QUANTITY.is_fine, texts)):
            continue  # reported for the amount itself
        wanted, most = [quantity(str(each), 1000) for each in texts]
        is_exclusive = is_extended_resource(name) or name.startswith("hugepages-")  # cannot be overcommitted
        if is_exclusive and name not in limits:
            yield f"limits.{name}: Limit must be set for non overcommitable resources"
        elif is_exclusive and wanted != most:
            yield f"requests.{name}: must be equal to {name} limit"
        elif is_exclusive and wanted % 1000:
            yield f"requests.{name}: must be an integer"
        elif name in limits and wanted > most:
            yield f"requests.{name}: must be less than or equal to {name} limit"


def problems_of_amounts(amounts: dict) -> Iterator[str]:
    """Yield the amounts that are not valid quantities."""
    for name, amount in amounts.items():
        if not QUANTITY.is_fine(amount):
            hint = unit_hint(amount)
            yield f"{name}: {in_short(amount)} is not {QUANTITY.expected}{hint}"


UNITS = {"b": "", "kb": "k", "mb": "M", "gb": "G", "tb": "T", "kib": "Ki", "mib": "Mi", "gib": "Gi",
         "tib": "Ti", "ki": "Ki", "mi": "Mi", "gi": "Gi", "ti": "Ti", "g": "G", "t": "T", "K": "k"}


def unit_hint(amount: object) -> str:
    """Return the suggestion for an amount with an invalid unit, such as 512M for 512MB, or ""."""
    match = re.fullmatch(r"([0-9.]+) *([A-Za-z]+)", str(amount))
    if not match:
        return ""
    number, unit = match.groups()
    meant = UNITS.get(unit, UNITS.get(unit.lower()))
    return f'; did you mean "{number}{meant}"?' if meant is not None else ""


def problems_of_requests(amounts: dict) -> Iterator[str]:
    """Yield the amounts that are not valid quantities, and the resources with invalid names."""
    yield from problems_of_amounts(amounts)
    for name in amounts.keys() - NO_REQUESTS.keys():
        if "/" not in name and not name.startswith("hugepages-"):
            yield f"{name}: no such resource; expected {', '.join(NO_REQUESTS)}, or example.com/{name}"
        elif not is_qualified(name):
            yield f"{name}: expected a name, such as example.com/gpu"


def problems_of_claim(spec: dict) -> Iterator[str]:
    """Yield the mistakes in the storage that a claim requests."""
    requests = pick(spec, dict, "resources").get("requests") or {}
    if not isinstance(requests, dict):
        yield f"resources.requests: expected an object, got {in_short(requests)}"
    for each in problems_of_amounts(requests) if isinstance(requests, dict) else ():
        yield f"resources.requests.{each}"


def problems_of_texts(texts: dict) -> Iterator[str]:
    """Yield the values of a map of strings that are not strings."""
    for key, value in texts.items():
        if not isinstance(value, str):
            yield f"{key}: expected a string, got {in_short(value)}; put it in quotes"


def problems_of_selector(selector: dict) -> Iterator[str]:
    """Yield the operators that a selector of pods or namespaces does not support."""
    for i, expression in enumerate(pick(selector, list, "matchExpressions", of=dict)):
        if expression.get("operator") in ("Gt", "Lt"):
            yield f"matchExpressions[{i}].operator: {expression['operator']} is for nodes only"


# Part -> a function that yields further mistakes in its fields.
CHECKS: dict[str, Callable[[dict], Iterable[str]]] = {
    "resources": problems_of_resources, "PersistentVolumeClaim spec": problems_of_claim,
    **dict.fromkeys(AMOUNTS, problems_of_amounts),
    **dict.fromkeys(["requests", "limits"], problems_of_requests),
    **dict.fromkeys(["labels", "annotations", "nodeSelector", "matchLabels"], problems_of_texts),
    **dict.fromkeys(["labelSelector", "namespaceSelector"], problems_of_selector)}


def read_labels(labels: dict) -> None:
    """Parse labels, or a selector made of labels. Raises Malformed."""
    for key in labels:
        if not is_qualified(key):
            raise Malformed(f'invalid label key: "{key}"')
    label_selector({"matchLabels": labels})


# Part -> a function that parses it as rules do, and raises Malformed.
PARSERS: dict[str, Callable[[dict], Any]] = {
    "matchFields[]": checked_field,
    **dict.fromkeys(["labels", "nodeSelector", "matchLabels"], read_labels)}
