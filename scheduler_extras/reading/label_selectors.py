"""How selectors of labels, and terms of node affinity, are read.

Rules and the checks of manifests read selectors by it.
"""

from scheduler import InvalidSelector, Requirement, pick, read_requirement


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
    """Say whether a term of node affinity, which no API server has seen, can be read."""
    try:
        for expression in pick(term, list, "matchExpressions", of=dict):
            checked_requirement(expression)
        for expression in pick(term, list, "matchFields", of=dict):
            checked_field(expression)
    except InvalidSelector:
        return False
    return True


def pod_selector(thing, pod):
    """Read a labelSelector, with matchLabelKeys and mismatchLabelKeys: the pod's own values, or not."""
    requirements = [*label_selector(thing.get("labelSelector"))]
    for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        own = [key for key in pick(thing, list, keys, of=str) if key in pod.labels]
        requirements += [Requirement(key, operator, [pod.labels[key]]) for key in own]
    return requirements
