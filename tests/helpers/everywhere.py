"""The modules of both programs, and a way to replace a function in every module that imports it."""

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
    """Replace an object in every module of the second program that has it, for one test. patch: a pytest.MonkeyPatch.

    An object of the same name in the script stays, unless the second program imports it.
    """
    having = [module for module in MODULES if name in vars(module) and vars(module)[name] not in MODULES]
    before = vars(having[0])[name]
    for module in having:
        if vars(module)[name] is before:
            patch.setattr(module, name, value)


def replace_for_good(name, value):
    """Replace an object without restoring it, in a process that a test has started."""
    replace(pytest.MonkeyPatch(), name, value)
