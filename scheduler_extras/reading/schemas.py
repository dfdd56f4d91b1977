"""How values are checked against a schema: any mistake is one line with its field.

The Policy, a configuration, extenders' answers and manifests are checked by it.
"""

import collections
import contextlib
import json
import math

from scheduler_extras.common.errors import InputError
from scheduler_extras.reading.fields import TYPE_NAME
from scheduler_extras.reading.hints import did_you_mean


# A schema that says more than types: what is expected, a function that says whether a value is fine, and the
# schema of the value; None: the function takes a value of any type.
Form = collections.namedtuple("Form", "expected is_fine of")


def decode(value, schema, where, skipped=None):
    """Check a value against a schema, and return it without nulls. Raises InputError, with all that is wrong.

    passed_over: a list, if it is to be read as kube-scheduler reads extenders. Then the case of a field's
    name does not matter, and unknown fields are no error: their places are added to the list.
    """
    problems = []
    decoded = decode_part(value, schema, where, problems, skipped)
    refuse(problems)
    return decoded


def decode_part(value, schema, where, problems, skipped=None):
    """Return a value without nulls, and without what is wrong; add that to the problems."""
    if isinstance(schema, Form):
        return decode_form(value, schema, where, problems)
    kind = schema if isinstance(schema, type) else {range: int, set: str}.get(type(schema), type(schema))
    if value is None:
        return kind()
    expected = "a number" if kind is float else TYPE_NAME.get(kind, kind)
    fits = type(value) is kind or (kind is float and type(value) is int)
    if isinstance(schema, range) and fits:
        fits = value in schema
        expected = f"from {schema[0]} to {schema[-1]}"
    elif isinstance(schema, set):
        fits = fits and value in schema
        expected = f"one of {', '.join(sorted(schema))}"
    elif kind in (int, float):
        fits = fits and abs(value) < (2**63 if kind is int else math.inf)
    if not fits:
        problems.append(f"{where}: expected {expected}, got {in_short(value)}")
        return kind()
    if isinstance(schema, list):
        return [decode_part(item, schema[0], f"{where}[{i}]", problems, skipped)
                for i, item in enumerate(value)]
    if isinstance(schema, dict):
        return decode_fields(value, schema, where, problems, skipped)
    return value


def decode_form(value, form, where, problems):
    """Return a value that is as a Form expects it, else None; add what is wrong to the problems."""
    found = []
    if form.of:
        value = decode_part(value, form.of, where, found)
    if not found and not form.is_fine(value):
        got = "" if isinstance(value, (dict, list)) else f", got {in_short(value)}"
        found = [f"{where}: expected {form.expected}{got}"]
    problems += found
    return None if found else value


def decode_fields(value, schema, where, problems, skipped):
    """Return those fields of an object that are known and not null; add what is wrong to the problems."""
    as_spelt = str if skipped is None else str.lower
    names = {as_spelt(name): name for name in schema}
    decoded = {}
    for key, item in value.items():
        place = f"{where}.{key}".lstrip(".")
        name = names.get(as_spelt(key))
        if name and item is not None:
            read = decode_part(item, schema[name], place, problems, skipped)
            if read is not None:  # else it is wrong
                decoded[name] = read
        elif not name and skipped is None:
            problems.append(f"{place}: unknown field{did_you_mean(key, names, '')}")
        elif not name:
            skipped.append(place)
    return decoded


def refuse(problems):
    """Raise InputError with all that is wrong, each problem once, if there is any."""
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))


@contextlib.contextmanager
def noted(problems):
    """Add to the problems what InputError ends this block, and go on behind it: there may be others."""
    try:
        yield
    except InputError as error:
        problems.append(str(error))


def in_short(value):
    """Return a value as JSON, of which there is only the beginning, in whole words, if it is long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:60].rpartition(' ')[0] or text[:60]} ..."


NANOSECONDS = Form("a whole number of nanoseconds, such as 30000000000",
                   lambda value: type(value) is int and abs(value) < 2**63, None)
