"""Checks of what rules return: they may be edited or written by users, and return nonsense.

deciding/ and policy/ check the answers of rules, live/ the requests from functions of the script.
"""

import re
import types
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

from scheduler import Rule
from scheduler_extras.common.blame import code_of, line_of, place_of
from scheduler_extras.common.errors import FAILURE, InputError, Unschedulable
from scheduler_extras.common.log_texts import at_most


def check_points(rule: Any, points: Mapping[str, Any], function: Callable[..., Any] | None = None) -> None:
    """Raise InputError if points are not numbers, Unschedulable if they are not from 0 to 100.

    Unschedulable sets FAILURE even if only one node fits, so that the score makes no difference.
    """
    scores = points.values()
    if {*map(type, scores)} == {int} and min(scores) >= 0 and max(scores) <= 100:
        return  # the usual case, checked fast
    for name, score in points.items():
        check_number(rule, score, function)
        if not 0 <= score <= 100:
            FAILURE.set()
            expected = "a score must be from 0 to 100, after `reduce` if there is one"
            place = place_of(rule, function)
            raise Unschedulable(f"{rule.title} gives {name} the score {score}: {expected} ({place})")


def check_number(rule: Rule, score: Any, function: Callable[..., Any] | None = None) -> None:
    """Raise InputError if a score is not a number."""
    if isinstance(score, bool) or not isinstance(score, Real):
        expected = "return a number from 0 to 100, or any number with a `reduce`"
        raise wrong_answer(rule, expected, score, function)


STRINGS = "yield strings, or return a list of them"  # what a predicate must do


def strings_of(rule: Rule, answer: Any, function: Callable[..., Any] | None = None) -> list[str]:
    """Return the strings that a function of a rule yields. Raises InputError for anything else."""
    strings: list[Any] = list(answer) if isinstance(answer, (list, tuple, types.GeneratorType)) else [None]
    if not all(isinstance(each, str) and each for each in strings):
        raise wrong_answer(rule, STRINGS, answer, function)
    return strings


def wrong_answer(
    rule: Rule, expected: str, answer: Any, function: Callable[..., Any] | None = None
) -> InputError:
    """Return the error that names the expected answer, the actual one, and the rule's place."""
    shown = re.sub(" at 0x[0-9a-f]+", "", repr(answer))  # addresses differ from run to run
    return InputError(f"{expected}, not {at_most(60, shown)} ({place_of(rule, function)})")


def request_by(function: Callable[..., Any], *things: Any) -> tuple[str, str, Any]:
    """Return the request from a function of the script. Raises InputError if an edit has broken it."""
    request = function(*things)
    fits = isinstance(request, tuple) and len(request) == 3 and str(request[1]).startswith("/")
    if not fits:
        shown = at_most(60, repr(request))
        code: Any = code_of(function)
        raise InputError(f"{code.co_name}: return (method, /path, body), not {shown} ({line_of(code)})")
    return request
