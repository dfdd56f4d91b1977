"""Checking values against a schema: each mistake is one line that names the field.

The Policy, configurations, extenders' responses and manifests are checked with it.
"""

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from scheduler_extras.common.errors import InputError
from scheduler_extras.reading.fields import TYPE_NAME, JsonObject
from scheduler_extras.reading.hints import did_you_mean


# A schema is a type; a range of numbers; a set of strings; [schema of each entry] for a list; {field: schema}
# for an object; or a Form.
Schema = Any


class Form(NamedTuple):
    """A schema that checks more than types."""

    expected: str  # for the error
    is_fine: Callable[[Any], object]  # returns whether the value is valid
    of: Schema  # checked first; None: is_fine takes a value of any type


def decode(value: Any, schema: Schema, where: str, skipped: list[str] | None = None) -> Any:
    """Check a value against a schema, and return it without nulls. Raises InputError with all mistakes.

    skipped: a list, to read the value as kube-scheduler reads extenders. Then the case of a field's name does
    not matter, and unknown fields are no error: their places are added to the list.
    """
    problems: list[str] = []
    decoded = decode_part(value, schema, where, problems, skipped)
    refuse(problems)
    return decoded


def decode_part(
    value: Any, schema: Schema, where: str, problems: list[str], skipped: list[str] | None = None
) -> Any:
    """Return a value without nulls and mistakes; add the mistakes to the problems."""
    if isinstance(schema, Form):
        return decode_form(value, schema, where, problems)
    kind: Any = schema if isinstance(schema, type) else KIND_OF.get(type(schema), type(schema))
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


KIND_OF: dict[type, type] = {range: int, set: str}  # type of a schema -> type of its values, if it differs


def decode_form(value: Any, form: Form, where: str, problems: list[str]) -> Any:
    """Return a value that a Form accepts, else None; add the mistakes to the problems."""
    found: list[str] = []
    if form.of:
        value = decode_part(value, form.of, where, found)
    if not found and not form.is_fine(value):
        got = "" if isinstance(value, (dict, list)) else f", got {in_short(value)}"
        found = [f"{where}: expected {form.expected}{got}"]
    problems += found
    return None if found else value


def decode_fields(
    value: JsonObject, schema: Mapping[str, Schema], where: str, problems: list[str],
    skipped: list[str] | None
) -> JsonObject:
    """Return the fields of an object that are known and not null; add the mistakes to the problems."""
    as_spelt = str if skipped is None else str.lower
    names = {as_spelt(name): name for name in schema}
    decoded = {}
    for key, item in value.items():
        place = f"{where}.{key}".lstrip(".")
        name = names.get(as_spelt(key))
        if name and item is not None:
            read = decode_part(item, schema[name], place, problems, skipped)
            if read is not None:  # else a Form has rejected it
                decoded[name] = read
        elif not name and skipped is not None:
            skipped.append(place)
        elif not name:
            problems.append(f"{place}: unknown field{did_you_mean(key, names, '')}")
    return decoded


def refuse(problems: list[str]) -> None:
    """Raise InputError with all problems, each once, if there are any."""
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))


@contextlib.contextmanager
def noted(problems: list[str]) -> Iterator[None]:
    """If an InputError ends this block, add it to the problems, and continue after the block."""
    try:
        yield
    except InputError as error:
        problems.append(str(error))


def in_short(value: Any) -> str:
    """Return a value as JSON, cut off after a word if it is long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:60].rpartition(' ')[0] or text[:60]} ..."


NANOSECONDS = Form("a whole number of nanoseconds, such as 30000000000",
                   lambda value: type(value) is int and abs(value) < 2**63, None)
