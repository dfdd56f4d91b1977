"""Parsing the terms of node affinity into the form that scheduler.py's rules match.

Pods, volumes and the checks of manifests parse node selectors with it.
"""

import contextlib
from collections.abc import Iterable

from scheduler_extras.common.errors import InvalidSelector
from scheduler_extras.reading.fields import JsonObject, pick
from scheduler_extras.reading.label_selectors import (
    Requirement,
    checked_requirement,
    read_requirement,
    requirement,
)


def valid_terms(raws: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the valid terms of a node selector. Invalid ones match nothing."""
    terms = []
    for raw in raws:
        with contextlib.suppress(InvalidSelector):
            terms.append(node_selector_term(raw))
    return terms


def node_selector_term(raw: JsonObject) -> JsonObject:
    """Return a NodeSelectorTerm with all fields, each checked for its type. Raises InvalidSelector."""
    on_labels = [read_requirement(each) for each in pick(raw, list, "matchExpressions", of=dict)]
    on_fields = [requirement(each) for each in pick(raw, list, "matchFields", of=dict)]
    return {"matchExpressions": [each._asdict() for each in on_labels],
            "matchFields": [each._asdict() for each in on_fields]}


def checked_field(expression: JsonObject) -> Requirement:
    """Parse an entry of matchFields. Raises InvalidSelector. Upstream: nodeaffinity.go."""
    operator = pick(expression, str, "operator")
    values = pick(expression, list, "values", of=str)
    if operator not in ("In", "NotIn"):
        raise InvalidSelector(f'"{operator}" is not a valid node field selector operator')
    if len(values) != 1:
        count = f"unexpected number of value ({len(values)})"
        raise InvalidSelector(f'{count} for node field selector operator "{operator}"')
    return Requirement(pick(expression, str, "key"), operator, values)


def is_valid_term(term: JsonObject) -> bool:
    """Return whether a term is valid, for terms that no API server has checked."""
    try:
        for expression in pick(term, list, "matchExpressions", of=dict):
            checked_requirement(expression)
        for expression in pick(term, list, "matchFields", of=dict):
            checked_field(expression)
    except InvalidSelector:
        return False
    return True
