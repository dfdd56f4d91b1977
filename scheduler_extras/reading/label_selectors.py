"""Parsing and matching label selectors.

Rules and the checks of manifests use it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from scheduler_extras.common.errors import InvalidSelector
from scheduler_extras.reading.fields import JsonObject, pick


class Requirement(NamedTuple):
    """A requirement of a selector for one label, or for one field."""

    key: str
    operator: str
    values: Sequence[str]


LABEL_VALUE = re.compile("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
# Operator of a selector -> whether a value meets it. The value is None if the label is missing.
OPERATORS: dict[str, Callable[[Any, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: is_less(values[0], value),
    "Lt": lambda value, values: is_less(value, values[0])}


def labels_match(labels: Mapping[str, str], requirements: Sequence[Requirement]) -> bool:
    """Return whether labels meet all requirements of a selector."""
    return all([OPERATORS[operator](labels.get(key), values) for key, operator, values in requirements])


def requirement(expression: JsonObject) -> Requirement:
    """Parse an entry of matchExpressions or matchFields, without checking the operator."""
    values = pick(expression, list, "values", of=str)
    return Requirement(pick(expression, str, "key"), pick(expression, str, "operator"), values)


def read_requirement(expression: JsonObject) -> Requirement:
    """Parse an entry of matchExpressions. Raises InvalidSelector."""
    read = requirement(expression)
    if read.operator not in OPERATORS:
        raise InvalidSelector(f'"{read.operator}" is not a valid node selector operator')
    if read.operator in ("Gt", "Lt") and int64(",".join(read.values)) is None:
        raise InvalidSelector("for 'Gt', 'Lt' operators, the value must be an integer")
    for value in read.values:
        if len(value) > 63 or not LABEL_VALUE.fullmatch(value):
            raise InvalidSelector(f'invalid label value: "{repr(value)[1:-1]}": at key: "{read.key}"')
    return read


def is_less(smaller: str | None, larger: str | None) -> bool:
    """Return whether both are integers, and the first is less."""
    low = int64(smaller)
    high = int64(larger)
    return low is not None and high is not None and low < high


def int64(text: str | None) -> int | None:
    """Return the 64-bit integer in a text, or None. (A label's value has at most 63 characters.)"""
    number = re.fullmatch("[+-]?[0-9]{1,63}", text or "")
    return int(number[0]) if number and -(2**63) <= int(number[0]) < 2**63 else None


NOTHING = (Requirement("", "In", ()),)  # no labels meet it


def label_selector(selector: JsonObject | None) -> Sequence[Requirement]:
    """Return the requirements of a LabelSelector: {} has none, null is NOTHING. Raises InvalidSelector."""
    if selector is None:
        return NOTHING
    labels = [read_requirement({"key": key, "operator": "In", "values": [value]})
              for key, value in pick(selector, dict, "matchLabels", of=str).items()]
    expressions = pick(selector, list, "matchExpressions", of=dict)
    return labels + [checked_requirement(entry) for entry in expressions]


def checked_requirement(expression: JsonObject) -> Requirement:
    """Parse an entry of matchExpressions, with the checks of an API server. Raises InvalidSelector.

    Manifests may have such mistakes, in budgets for example. Upstream: NewRequirement.
    """
    operator = pick(expression, str, "operator")
    values = pick(expression, list, "values", of=str)
    if operator in ("In", "NotIn") and not values:
        raise InvalidSelector("for 'in', 'notin' operators, values set can't be empty")
    if operator in ("Exists", "DoesNotExist") and values:
        raise InvalidSelector("values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt") and len(values) != 1:
        raise InvalidSelector("for 'Gt', 'Lt' operators, exactly one value is required")
    return read_requirement(expression)


def pod_selector(obj: JsonObject, pod: Any) -> list[Requirement]:
    """Return the requirements of labelSelector, matchLabelKeys and mismatchLabelKeys in a term of the pod."""
    requirements = [*label_selector(obj.get("labelSelector"))]
    for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        own = [key for key in pick(obj, list, keys, of=str) if key in pod.labels]
        requirements += [Requirement(key, operator, [pod.labels[key]]) for key in own]
    return requirements
