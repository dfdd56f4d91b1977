"""What scheduler.py has beside it: more rules, a watched cluster, manifests, a configuration of today.

Rules of one's own import from here what __all__ names, and all else from `scheduler`.
"""

import importlib
from pathlib import Path

from scheduler_extras.command_line import main
from scheduler_extras.deciding.rule import SKIP, Rejected
from scheduler_extras.reading.label_selectors import label_selector
from scheduler_extras.rules.always import nominate, reasons_supposing

if Path(__file__).with_name("configuration").joinpath("__init__.py").exists():  # it can be deleted
    importlib.import_module("scheduler_extras.configuration")

__all__ = [
    "SKIP",  # a `metadata` function returns it: the rule has nothing to say about the pod
    "Rejected",  # a `metadata` function raises it, with the reason: the pod fits no node
    "label_selector",  # reads a LabelSelector, for `scheduler.satisfies`
    "main",  # the command line
    "nominate",  # nominates a pod to a node
    "reasons_supposing"]  # why a pod would not fit a node if some pods were gone, and others there
