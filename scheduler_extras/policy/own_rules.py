"""Rules of one's own, in files of --plugins: loading them, and checking them as they are written.

policy/reloading.py loads such files; the decorators that they import register with `own_rule`.
"""

import collections
import contextlib
import functools
import runpy
import sys
import traceback
from importlib.machinery import PathFinder
from pathlib import Path

import scheduler
from scheduler import Rule
from scheduler_extras.common.blame import place_of, signature_of
from scheduler_extras.common.errors import InputError
from scheduler_extras.common.log_texts import one_line
from scheduler_extras.deciding.extension_points import EXTENSION_POINTS
from scheduler_extras.deciding.rule import (
    CATALOGUES, PREDICATES, PRIORITIES, full_rule, register
)
from scheduler_extras.reading.schemas import decode
from scheduler_extras.rules.of_the_script import IN_THE_SCRIPT


# A decorator makes a function a rule. What is wrong with the rule as it is written is said when its file is
# loaded.

PARAMETERS = {  # of a rule's functions, in this order; `metadata` and `arguments` come by their names
    "function": "pod node", "metadata": "pod nodes snapshot", "reduce": "scores", "check": "arguments",
    **{option: point.parameters for option, point in EXTENSION_POINTS.items()}}
OPTIONS = ["argument", "default", "member", "steady", "looks_at", "aliases", "always", "by_default", "plugin",
           *PARAMETERS.keys() - {"function"}]
NOUNS = {"predicates": "predicate", "priorities": "priority"}
# Where files of --plugins add their rules, and the modules that they import.
REGISTERS: list[dict] = [PREDICATES, PRIORITIES, sys.modules]
Added = collections.namedtuple("Added", "register name thing path")  # path: of the file of --plugins
PLUGGED_IN: list[Added] = []  # what they have added: a list of Added


def checked_rule(where, name, function, **options):
    """Return the rule that a decorator registers. Raises InputError if it cannot work as it is written."""
    for option in options.keys() - OPTIONS:
        known = ", ".join(sorted(OPTIONS))
        raise InputError(f'rule "{name}": there is no option "{option}"; there are {known}')
    if name in CATALOGUES[where]:
        raise InputError(f'there is a rule "{name}" already ({place_of(CATALOGUES[where][name])})')
    for option, each in ({"function": function} | options).items():
        if option in PARAMETERS and each is not None:
            check_function(name, option, each, options)
    argument = decode(options.get("argument"), dict, f'rule "{name}", argument')
    decode(options.get("default"), argument, f'rule "{name}", default')
    return full_rule(where, name, function, **options)


def own_rule(where, name=None, **options):
    """Return a decorator that makes a function one of the user's own rules. Options: OPTIONS."""
    if not isinstance(name, str):
        raise TypeError('a rule needs the name that a Policy has for it, as in @predicate("Name")')
    return register(where, name, make=checked_rule, **options)


predicate = functools.partial(own_rule, "predicates")
priority = functools.partial(own_rule, "priorities")


@contextlib.contextmanager
def as_in_the_script():
    """Have `from scheduler import predicate, priority` import the decorators above.

    Files of --plugins begin like that, as for a rule in scheduler.py. There, these take fewer options.
    """
    of_the_script = scheduler.predicate, scheduler.priority
    scheduler.predicate, scheduler.priority = predicate, priority
    try:
        yield
    finally:
        scheduler.predicate, scheduler.priority = of_the_script


def check_function(name, option, function, options):
    """Raise InputError if a function of a rule cannot be called with what it is to get."""
    place = f'rule "{name}"' + ("" if option == "function" else f", {option}")
    if not callable(function):
        raise InputError(f"{place}: expected a function, got {function!r:.60}")
    signature = signature_of(function)
    if not signature:
        return
    first = PARAMETERS[option].split()
    more = ["metadata"] if option == "function" and options.get("metadata") else []
    may_have = ["arguments"] if options.get("argument") is not None and option != "check" else []
    if may_have and "arguments" in signature.parameters:
        more += may_have
    try:
        bound = signature.bind(*first, **dict.fromkeys(more)).arguments
        fits = all(name == given for name, given in bound.items() if name in first)  # else they are swapped
    except TypeError:  # they are too many, or too few
        fits = False
    if not fits:
        expected = ", ".join(dict.fromkeys(first + more + may_have))
        raise InputError(f"{place}: expected the parameters ({expected}), got {signature}")


def check_rules_of_the_script():
    """Raise InputError if a rule of scheduler.py, as edited, cannot be called with what it is to get."""
    for name, function in IN_THE_SCRIPT.items():
        reduce = (PREDICATES | PRIORITIES)[name].reduce
        try:
            check_function(name, "function", function, {})
            if reduce is not None:
                check_function(name, "reduce", reduce, {})
        except InputError as error:
            raise InputError(f"{error} ({place_of(Rule(name, function))})") from None


def load_plugins(paths):
    """Run files that register rules, instead of those that were run before. Raises InputError."""
    unplug()
    sys.dont_write_bytecode = True  # it would be taken for that of an edit within the same second
    for path in paths:
        before = [{*register} for register in REGISTERS]
        folder = str(Path(path).resolve().parent)
        if folder not in sys.path:
            sys.path.append(folder)  # so that the file may import others beside it
        try:
            with as_in_the_script():
                runpy.run_path(path)
        except (Exception, SystemExit) as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [f", line {frame.lineno}" for frame in frames if frame.filename == str(path)]
            place = "".join([str(path), *lines[-1:]])
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            raise InputError(f"{place}: {kind}{one_line(error)}") from error
        finally:
            note_added(path, folder, before)


def note_added(path, folder, before):
    """Note which rules were not there before, and which modules of a folder: a file has added them."""
    for known, names in zip(REGISTERS, before, strict=True):
        for name in [name for name in [*known] if name not in names]:
            thing = known[name]
            if isinstance(thing, Rule) or PathFinder.find_spec(name.partition(".")[0], [folder]):
                PLUGGED_IN.append(Added(known, name, thing, path))


def rules_in(path):
    """Return the rules that a file of --plugins has added."""
    return [added.thing for added in PLUGGED_IN if added.path == path and isinstance(added.thing, Rule)]


def unplug(instead=()):
    """Have nothing any more that files of --plugins have added; instead, what they had added before."""
    while PLUGGED_IN:
        added = PLUGGED_IN.pop()
        added.register.pop(added.name, None)
    for each in instead:
        PLUGGED_IN.append(each)
        each.register[each.name] = each.thing


def idle_plugins(paths, policies):
    """Yield the inactive rules in the files of --plugins, and the files without rules."""
    active = {(rule.where, rule.name) for policy in policies.values() for rule in policy.rules()}
    for path in paths:
        rules = rules_in(path)
        if not rules:
            yield f"there is no rule in {path}"
        idle = sorted(rule.name for rule in rules if (rule.where, rule.name) not in active)
        if idle:
            yield f"{', '.join(idle)} of {path}: not named here, so not asked"
