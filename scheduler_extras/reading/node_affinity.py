"""How terms of node affinity are read: they become terms that the rules of scheduler.py can match.

Pods, volumes and the checks of manifests read node selectors with it.
"""

import contextlib

from scheduler_extras.common.errors import InvalidSelector
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import (
    Requirement, checked_requirement, read_requirement, requirement
)


def valid_terms(raws):
    """Read the terms of a node selector, without those that are invalid: these match nothing."""
    terms = []
    for raw in raws:
        with contextlib.suppress(InvalidSelector):
            terms.append(node_selector_term(raw))
    return terms


def node_selector_term(raw):
    """Return a NodeSelectorTerm with all its fields, each of its type. Raises InvalidSelector."""
    on_labels = [read_requirement(each) for each in pick(raw, list, "matchExpressions", of=dict)]
    on_fields = [requirement(each) for each in pick(raw, list, "matchFields", of=dict)]
    return {"matchExpressions": [each._asdict() for each in on_labels],
            "matchFields": [each._asdict() for each in on_fields]}


def checked_field(expression):
    """Read an entry of matchFields. Raises InvalidSelector. Upstream: nodeaffinity.go."""
    operator = pick(expression, str, "operator")
    values = pick(expression, list, "values", of=str)
    if operator not in ("In", "NotIn"):
        raise InvalidSelector(f'"{operator}" is not a valid node field selector operator')
    if len(values) != 1:
        count = f"unexpected number of value ({len(values)})"
        raise InvalidSelector(f'{count} for node field selector operator "{operator}"')
    return Requirement(pick(expression, str, "key"), operator, values)


def is_valid_term(term):
    """Return whether a term of node affinity, which no API server has seen, can be read."""
    try:
        for expression in pick(term, list, "matchExpressions", of=dict):
            checked_requirement(expression)
        for expression in pick(term, list, "matchFields", of=dict):
            checked_field(expression)
    except InvalidSelector:
        return False
    return True
