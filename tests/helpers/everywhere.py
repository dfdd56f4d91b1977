"""The modules of both programs, and how to replace a function in each of them that has imported it."""

import importlib
import pkgutil
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scheduler_extras" / "examples")]
import scheduler as script
import scheduler_extras


FOUND = pkgutil.walk_packages(scheduler_extras.__path__, "scheduler_extras.")
MODULES = [scheduler_extras, *(importlib.import_module(found.name) for found in FOUND), script]


def replace(patch, name, value):
    """Replace what has this name in the second program, for one test. patch: a pytest.MonkeyPatch.

    What the script has by the same name stays, unless the second program has imported it.
    """
    having = [module for module in MODULES if name in vars(module) and vars(module)[name] not in MODULES]
    before = vars(having[0])[name]
    for module in having:
        if vars(module)[name] is before:
            patch.setattr(module, name, value)


def replace_for_good(name, value):
    """Replace what has this name, in a process that a test has started."""
    replace(pytest.MonkeyPatch(), name, value)
