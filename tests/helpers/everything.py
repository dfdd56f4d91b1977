"""The modules of the second program as one namespace: what its tests call `scheduler`.

A name is read from the modules that have it. To set one, as `monkeypatch` does, sets it in each module that looks it up,
so that no patch is without effect.
"""

import importlib
import pkgutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scheduler_extras" / "examples")]
import scheduler as script
import scheduler_extras

FOUND = pkgutil.walk_packages(scheduler_extras.__path__, "scheduler_extras.")
MODULES = [scheduler_extras, *(importlib.import_module(found.name) for found in FOUND), script]


class Everything:
    """All names of all modules; where two mean something else by a name, that of the first; of the script only what they lack."""

    def __getattr__(self, name):
        for module in MODULES:
            if name in vars(module) and vars(module)[name] not in MODULES:
                return vars(module)[name]
        raise AttributeError(f"neither the script nor its extras have {name}")

    def __setattr__(self, name, value):
        before = getattr(self, name)
        for module in MODULES:
            if vars(module).get(name) is before:
                setattr(module, name, value)


scheduler = Everything()
