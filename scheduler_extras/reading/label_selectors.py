"""How selectors of labels are read, and matched.

Rules and the checks of manifests read selectors with it.
"""

import collections
import re

from scheduler_extras.common.errors import InvalidSelector
from scheduler_extras.reading.fields import pick


Requirement = collections.namedtuple("Requirement", "key operator values")  # of labels or fields
LABEL_VALUE = re.compile("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
OPERATORS = {  # of selectors; the value is None where the label is missing
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: int64(value) is not None and int64(value) > int64(values[0]),
    "Lt": lambda value, values: int64(value) is not None and int64(value) < int64(values[0])}


def labels_match(labels, requirements):
    """Return whether labels meet all requirements of a selector."""
    return all([OPERATORS[operator](labels.get(key), values) for key, operator, values in requirements])


def requirement(expression):
    """Read an entry of matchExpressions, or of matchFields."""
    values = pick(expression, list, "values", of=str)
    return Requirement(pick(expression, str, "key"), pick(expression, str, "operator"), values)


def read_requirement(expression):
    """Read an entry of matchExpressions. Raises InvalidSelector, if no API server looks at that."""
    read = requirement(expression)
    if read.operator not in OPERATORS:
        raise InvalidSelector(f'"{read.operator}" is not a valid node selector operator')
    if read.operator in ("Gt", "Lt") and int64(",".join(read.values)) is None:
        raise InvalidSelector("for 'Gt', 'Lt' operators, the value must be an integer")
    for value in read.values:
        if len(value) > 63 or not LABEL_VALUE.fullmatch(value):
            raise InvalidSelector(f'invalid label value: "{repr(value)[1:-1]}": at key: "{read.key}"')
    return read


def int64(text):
    """Read a base-10 integer of 64 bits; else return None. (A label's value has at most 63 characters.)"""
    is_number = re.fullmatch("[+-]?[0-9]{1,63}", text or "")
    return int(text) if is_number and -(2**63) <= int(text) < 2**63 else None


NOTHING = (Requirement("", "In", ()),)  # what no labels meet


def label_selector(selector):
    """Read a LabelSelector as requirements: {} has none, null is NOTHING. Raises InvalidSelector."""
    if selector is None:
        return NOTHING
    labels = [read_requirement({"key": key, "operator": "In", "values": [value]})
              for key, value in pick(selector, dict, "matchLabels", of=str).items()]
    expressions = pick(selector, list, "matchExpressions", of=dict)
    return labels + [checked_requirement(entry) for entry in expressions]


def checked_requirement(expression):
    """Read an entry of matchExpressions. Raises InvalidSelector, also for what an API server would refuse.

    There may be such selectors in manifests, of budgets for example. Upstream: NewRequirement.
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


def pod_selector(thing, pod):
    """Read a labelSelector, with matchLabelKeys and mismatchLabelKeys: the pod's own values, or not."""
    requirements = [*label_selector(thing.get("labelSelector"))]
    for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        own = [key for key in pick(thing, list, keys, of=str) if key in pod.labels]
        requirements += [Requirement(key, operator, [pod.labels[key]]) for key in own]
    return requirements
