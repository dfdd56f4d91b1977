"""Rules of your own, in files for --plugins: loading and checking them.

policy_file.py loads these files. The decorators that they import register rules with `own_rule`.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import runpy
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

import scheduler
from scheduler import Rule
from scheduler_extras.common.blame import place_of, signature_of
from scheduler_extras.common.errors import InputError
from scheduler_extras.common.log_texts import one_line
from scheduler_extras.deciding.extension_points import EXTENSION_POINTS
from scheduler_extras.deciding.rule import (
    CATALOGUES,
    PREDICATES,
    PRIORITIES,
    FullRule,
    any_pod,
    full_rule,
    register,
)
from scheduler_extras.reading.schemas import decode
from scheduler_extras.rules.script_rules import IN_THE_SCRIPT


# A decorator makes a function a rule. Mistakes in its signature and options are reported when its file is
# loaded.

PARAMETERS = {  # option -> the positional parameters; `metadata` and `arguments` are passed by name
    "function": "pod node", "metadata": "pod nodes snapshot", "reduce": "scores", "check": "arguments",
    "helped_by_pods": "pod",
    **{option: point.parameters for option, point in EXTENSION_POINTS.items()}}
OPTIONS = ["argument", "default", "member", "steady", "pod_requirements", "aliases", "always", "by_default",
           "plugin", *PARAMETERS.keys() - {"function"}]
NOUNS = {"predicates": "predicate", "priorities": "priority"}
# The dicts to which files of --plugins add their rules, and the modules that they import.
REGISTERS: list[dict] = [PREDICATES, PRIORITIES, sys.modules]
Added = collections.namedtuple("Added", "register name obj")


def text_of(file: Path) -> bytes | None:
    """Return the content of a file, or None. (A ConfigMap changes the times of all its files at once.)"""
    with contextlib.suppress(OSError):
        return file.read_bytes() if file.is_file() else None
    return None


@dataclass
class PluginFile:
    """A file of --plugins that has run."""

    texts: dict[Path, bytes | None]  # the content of the file, and of the files beside it that it imports
    added: list[Added] = field(default_factory=list)

    def changed(self) -> list[Path]:
        """Return those of these files that have changed."""
        return [file for file, text in self.texts.items() if text != text_of(file)]


PLUGGED_IN: dict[str | Path, PluginFile] = {}  # path -> PluginFile, of the files in force


def checked_rule(where: str, name: str, function: Callable, **options: Any) -> FullRule:
    """Return the rule that a decorator registers. Raises InputError if its functions or options are wrong."""
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
    return full_rule(where, name, function, **({"helped_by_pods": any_pod} | options))


def own_rule(where: str, name: str | None = None, **options: Any) -> Callable:
    """Return a decorator that makes a function one of the user's own rules. Options: OPTIONS."""
    if not isinstance(name, str):
        raise TypeError('a rule needs the name that a Policy has for it, as in @predicate("Name")')
    return register(where, name, make=checked_rule, **options)


predicate = functools.partial(own_rule, "predicates")
priority = functools.partial(own_rule, "priorities")


@contextlib.contextmanager
def as_in_the_script() -> Iterator[None]:
    """Make `from scheduler import predicate, priority` import the decorators above, which have more options.

    So a file of --plugins can begin like a rule that is written for scheduler.py.
    """
    of_the_script = scheduler.predicate, scheduler.priority
    scheduler.predicate, scheduler.priority = predicate, priority
    try:
        yield
    finally:
        scheduler.predicate, scheduler.priority = of_the_script


def check_function(name: str, option: str, function: Any, options: dict[str, Any]) -> None:
    """Raise InputError if a function of a rule does not accept the parameters that it will get."""
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
        fits = all(name == given for name, given in bound.items() if name in first)  # they are not swapped
    except TypeError:  # too many or too few parameters
        fits = False
    if not fits:
        expected = ", ".join(dict.fromkeys(first + more + may_have))
        raise InputError(f"{place}: expected the parameters ({expected}), got {signature}")


def check_rules_of_the_script() -> None:
    """Raise InputError if an edited rule of scheduler.py does not accept the parameters that it will get."""
    for name, function in IN_THE_SCRIPT.items():
        reduce = (PREDICATES | PRIORITIES)[name].reduce
        try:
            check_function(name, "function", function, {})
            if reduce is not None:
                check_function(name, "reduce", reduce, {})
        except InputError as error:
            raise InputError(f"{error} ({place_of(Rule(name, function))})") from None


def load_plugins(paths: Sequence[str | Path]) -> list[Path]:
    """Run files that register rules. Run a file again only if it, or a file that it imports, has changed.

    So rules keep their state while other files are edited. Return the files that have changed. Raises
    InputError.
    """
    stale = stale_plugins(paths)
    changed = {file: None for path in stale if path in PLUGGED_IN for file in PLUGGED_IN[path].changed()}
    unplug([path for path in PLUGGED_IN if path in stale or path not in paths])
    sys.dont_write_bytecode = True  # bytecode would hide a second edit within the same second
    for path in paths:
        folder = str(Path(path).resolve().parent)
        if folder not in sys.path:
            sys.path.append(folder)  # so that the file may import others beside it
        if path in stale:
            run_plugin(path, folder)
    return [*changed]


def stale_plugins(paths: Sequence[str | Path]) -> list[str | Path]:
    """Return the files to run: new and changed ones, and those that share an import with them."""
    stale = [path for path in paths if path not in PLUGGED_IN or PLUGGED_IN[path].changed()]

    def shares(path: str | Path) -> bool:
        """Return whether a file imports a module that will be imported again."""
        return any(PLUGGED_IN[path].texts.keys() & PLUGGED_IN[other].texts.keys()
                   for other in stale if other in PLUGGED_IN)

    while more := [path for path in paths if path not in stale and shares(path)]:
        stale += more
    return stale


def imports_of(path: str | Path, folder: str) -> set[Path]:
    """Return the file itself, and all files in its folder that it imports, even indirectly, or tries to."""
    finder = ModuleFinder([folder], excludes=["scheduler", "scheduler_extras"])
    with contextlib.suppress(SyntaxError, ValueError, OSError, RecursionError):  # running it raises the error
        finder.run_script(str(path))
    files = {name: getattr(module, "__file__", None) for name, module in finder.modules.items()}
    found = [Path(file).relative_to(folder) for name, file in files.items() if file and name != "__main__"]
    missing = [f"{name}.py" for name in finder.badmodules if name not in sys.modules and "." not in name]
    return {Path(path).absolute().parent / name for name in [Path(path).name, *map(str, found), *missing]}


def run_plugin(path: str | Path, folder: str) -> None:
    """Run a file that registers rules. Raises InputError."""
    plugin = PLUGGED_IN[path] = PluginFile({file: text_of(file) for file in imports_of(path, folder)})
    before = [{*register} for register in REGISTERS]
    try:
        with as_in_the_script():
            runpy.run_path(str(path))
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f", line {frame.lineno}" for frame in frames if frame.filename == str(path)]
        place = "".join([str(path), *lines[-1:]])
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        raise InputError(f"{place}: {kind}{one_line(error)}") from error
    finally:
        plugin.added = added_since(before, folder)


def added_since(before: list[set], folder: str) -> list[Added]:
    """Return what a file has added: rules, and modules of its folder. before: the names in each register."""
    new = [Added(place, name, place[name]) for place, names in zip(REGISTERS, before, strict=True)
           for name in place if name not in names]
    return [added for added in new if isinstance(added.obj, Rule)
            or PathFinder.find_spec(added.name.partition(".")[0], [folder])]


def rules_in(path: str | Path) -> list:
    """Return the rules that a file of --plugins has added."""
    added = PLUGGED_IN[path].added if path in PLUGGED_IN else []
    return [each.obj for each in added if isinstance(each.obj, Rule)]


def unplug(paths: Iterable[str | Path] | None = None) -> None:
    """Remove what these files of --plugins have added; None means all files."""
    for path in [*PLUGGED_IN] if paths is None else paths:
        for added in PLUGGED_IN.pop(path).added:
            added.register.pop(added.name, None)


def restore(plugins: dict[str | Path, PluginFile]) -> None:
    """Replace what files of --plugins have added with what these PluginFiles had added."""
    unplug()
    PLUGGED_IN.update(plugins)
    for plugin in plugins.values():
        for added in plugin.added:
            added.register[added.name] = added.obj


def idle_plugins(paths: Iterable[str | Path], policies: dict[str, Any]) -> Iterator[str]:
    """Yield a notice about each file of --plugins that has inactive rules, or none."""
    active = {(rule.where, rule.name) for policy in policies.values() for rule in policy.rules()}
    for path in paths:
        rules = rules_in(path)
        if not rules:
            yield f"there is no rule in {path}"
        idle = sorted(rule.name for rule in rules if (rule.where, rule.name) not in active)
        if idle:
            yield f"{', '.join(idle)} of {path}: not named in it, so not used"
