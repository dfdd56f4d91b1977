"""Who is to blame for an exception: rules and extenders are other people's code.

Callers of rules use it to name a rule that breaks or returns a wrong answer, and the line in its file.
"""

import contextlib
import functools
import inspect
import re
import threading
import traceback
import types
from numbers import Real
from pathlib import Path

from scheduler_extras.common.errors import InputError, Unschedulable
from scheduler_extras.common.log_texts import at_most, one_line, warn_once


RULE_OF = {}  # the code of a rule's function -> the rule's name; if several rules share it, the last one's


def code_of(function):
    """Return the code of a function, of what it wraps, or of an object's __call__; None if that is in C."""
    while isinstance(function, functools.partial) or hasattr(function, "__wrapped__"):
        function = function.func if isinstance(function, functools.partial) else function.__wrapped__
    if callable(function) and not hasattr(function, "__code__"):
        function = type(function).__call__
    return getattr(function, "__code__", None)


def signature_of(function):
    """Return the signature of a function; None if it is in C, and does not say what it takes."""
    with contextlib.suppress(ValueError):
        return inspect.signature(function)


def note_rule(name, functions):
    """Note that these are functions of a rule, so that it is named if one breaks, or takes long."""
    codes = filter(None, map(code_of, functions))
    RULE_OF.update(dict.fromkeys(codes, name))


# Rules and extenders are other people's code: they may break, answer nonsense, or take long.


# Set when a rule breaks where no caller sees it, as in threads: see LiveCluster.has_failed. Then the
# exit code is 1, except that of a loop which runs until a signal.
FAILURE = threading.Event()


@contextlib.contextmanager
def warn_if_broken(text):
    """If a rule breaks in this block, or calls sys.exit, leave the block with this warning."""
    try:
        yield
    except (Exception, SystemExit) as error:
        FAILURE.set()
        warn_once(f"{text}: {what_broke(error)}")


def what_broke(error):
    """Describe an unexpected exception in a line: its type, its text, the function, and the line in its file.

    If it was in a rule, that is named, too, and the last line is meant that is in the rule's own file; else
    the last line that is in no library. An InputError says all this itself.
    """
    place = about = ""
    function = "a rule"
    rule = file = None
    if isinstance(error.__cause__, StopIteration):  # a generator has made a RuntimeError of it
        error = error.__cause__
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if hasattr(frame.f_locals.get("node"), "allocatable"):
            about = f", about node {frame.f_locals['node'].name}"
        if code in RULE_OF:
            rule = RULE_OF[code]
            file = code.co_filename
        if file == code.co_filename:
            function = code.co_name
            place = f" ({rule}: {Path(file).name}, line {line})"
        elif not rule and "lib/python3" not in code.co_filename:
            function = code.co_name
            place = f" ({Path(code.co_filename).name}, line {line})"
    if isinstance(error, InputError):
        return f"{error}{about}"
    return f"{type(error).__name__} in {function}: {one_line(error)}{place}{about}"


def check_points(rule, points, function=None):
    """Raise InputError if points are no numbers, Unschedulable if they are not from 0 to 100.

    The rule is at fault then, even if its score makes no difference, as only one node fits.
    """
    scores = points.values()
    if {*map(type, scores)} == {int} and min(scores) >= 0 and max(scores) <= 100:
        return  # the usual case, in no time
    for name, score in points.items():
        check_number(rule, score, function)
        if not 0 <= score <= 100:
            FAILURE.set()
            expected = "a score is from 0 to 100, if need be as its `reduce` makes it"
            place = place_of(rule, function)
            raise Unschedulable(f"{rule.title} gives {name} the score {score}: {expected} ({place})")


def check_number(rule, score, function=None):
    """Raise InputError if a score is no number."""
    if isinstance(score, bool) or not isinstance(score, Real):
        raise wrong_answer(rule, "return a number from 0 to 100, or any with a `reduce`", score, function)


STRINGS = "yield strings, or return a list of them"  # what a predicate is to do


def strings_of(rule, answer, function=None):
    """Return the strings that a function of a rule yields. Raises InputError if it gives something else."""
    strings = list(answer) if isinstance(answer, (list, tuple, types.GeneratorType)) else [None]
    if not all(isinstance(each, str) and each for each in strings):
        raise wrong_answer(rule, STRINGS, answer, function)
    return strings


def wrong_answer(rule, expected, answer, function=None):
    """Return the error that names the expected answer, the given one, and the rule's place."""
    shown = re.sub(" at 0x[0-9a-f]+", "", repr(answer))  # where it is in memory differs from time to time
    return InputError(f"{expected}, not {at_most(60, shown)} ({place_of(rule, function)})")


def place_of(rule, function=None):
    """Return which rule it is, and where in its file: of its function, or of another one that it has."""
    code = code_of(function or rule.function)
    return f"{rule.name}: {line_of(code)}" if code else rule.name


def line_of(code):
    """Return where the code of a function begins: its file, and the line."""
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}"


def request_by(function, *things):
    """Return the request that a function of the script makes. Raises InputError if, as edited, it is none."""
    request = function(*things)
    fits = isinstance(request, tuple) and len(request) == 3 and str(request[1]).startswith("/")
    if not fits:
        shown = at_most(60, repr(request))
        code = code_of(function)
        raise InputError(f"{code.co_name}: return (method, /path, body), not {shown} ({line_of(code)})")
    return request
