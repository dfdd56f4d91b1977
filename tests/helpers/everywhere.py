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
    """Replace what has this name in the second program, for one test. patch: a pytest.MonkeyPatch."""
    modules = [module for module in MODULES if name in vars(module)]
    before = {id(vars(module)[name]) for module in modules}
    assert len(before) == 1, f"{name} has one meaning in {', '.join(module.__name__ for module in modules)}"
    for module in modules:
        patch.setattr(module, name, value)


def replace_for_good(name, value):
    """Replace what has this name, in a process that a test has started."""
    replace(pytest.MonkeyPatch(), name, value)
