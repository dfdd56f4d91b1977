"""Finding the rule to blame for an exception or a wrong answer, and the line in its file.

Rules may be edited or written by users: they may fail, return nonsense, or be slow. Callers of rules use it.
"""

import contextlib
import difflib
import functools
import inspect
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from scheduler import Rule
from scheduler_extras.common.errors import FAILURE, InputError
from scheduler_extras.common.log_texts import one_line, warn_once


# The code of a rule's function -> the rule's name; if rules share it, the name of the last one. It is global,
# because tracebacks and the frames of a thread only have the code.
RULE_OF: dict[types.CodeType, str] = {}


def code_of(function: Any) -> types.CodeType | None:
    """Return the code of a function, of what it wraps, or of an object's __call__; None if that is in C."""
    while isinstance(function, functools.partial) or hasattr(function, "__wrapped__"):
        function = function.func if isinstance(function, functools.partial) else function.__wrapped__
    if callable(function) and not hasattr(function, "__code__"):
        function = type(function).__call__
    return getattr(function, "__code__", None)


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature of a function; None if it is written in C without one."""
    with contextlib.suppress(ValueError):
        return inspect.signature(function)
    return None


def note_rule(name: str, functions: Iterable[Any]) -> None:
    """Register functions of a rule, so that messages name the rule if one of them fails or is slow."""
    codes = filter(None, map(code_of, functions))
    RULE_OF.update(dict.fromkeys(codes, name))


@contextlib.contextmanager
def warn_if_broken(text: str) -> Iterator[None]:
    """End the block with a warning if a rule raises an exception in it, or calls sys.exit."""
    try:
        yield
    except (Exception, SystemExit) as error:
        FAILURE.set()
        warn_once(f"{text}: {describe_error(error)}")


def describe_error(error: BaseException) -> str:
    """Return one line about an unexpected exception: its type, message, function, file and line.

    If a rule is to blame, this names the rule, and the line in the rule's own file. Otherwise, it is the last
    line outside of libraries. The message of an InputError is complete as it is.
    """
    place = about = ""
    function = "a rule"
    rule: str | None = None
    file: str | None = None
    if isinstance(error.__cause__, StopIteration):  # a generator has turned it into a RuntimeError
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
            place = f" ({rule}: {Path(code.co_filename).name}, line {line})"
        elif not rule and "lib/python3" not in code.co_filename:
            function = code.co_name
            place = f" ({Path(code.co_filename).name}, line {line})"
    if isinstance(error, InputError):
        return f"{error}{about}"
    return f"{type(error).__name__} in {function}: {one_line(error)}{attribute_meant(error)}{place}{about}"


def attribute_meant(error: BaseException) -> str:
    """Return a suggestion for a missing attribute with a similar name; else ""."""
    if not isinstance(error, AttributeError):
        return ""
    known = [name for name in dir(error.obj) if not name.startswith("_")]
    near = difflib.get_close_matches(str(error.name), known, 1, cutoff=0.75)
    return f'; did you mean "{near[0]}"?' if near else ""


def place_of(rule: Rule, function: Callable[..., Any] | None = None) -> str:
    """Return the name of a rule, and the line of one of its functions, by default the main one."""
    code = code_of(function or rule.function)
    return f"{rule.name}: {line_of(code)}" if code else rule.name


def line_of(code: types.CodeType) -> str:
    """Return the file and line where the code of a function begins."""
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}"
