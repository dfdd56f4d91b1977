"""A second program beside scheduler.py: all rules, a watched cluster, manifests, KubeSchedulerConfiguration.

Rules of your own import from here what __all__ names, and rules and small functions from `scheduler`.
"""

import importlib
import sys
from pathlib import Path

try:
    import scheduler  # noqa: F401  (first of all, as each module needs it)
except SyntaxError as error:  # people edit it
    print(error, file=sys.stderr)
    sys.exit(2)

from scheduler_extras.command_line import main
from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.deciding.rule import SKIP, Rejected
from scheduler_extras.policy.own_rules import predicate, priority
from scheduler_extras.reading.label_selectors import label_selector, labels_match
from scheduler_extras.rules.always import nominate
from scheduler_extras.rules.supposed import reasons_supposing

if Path(__file__).with_name("configuration").joinpath("__init__.py").exists():  # it can be deleted
    importlib.import_module("scheduler_extras.configuration")

__all__ = [
    "SKIP",  # a `metadata` function returns it: the rule has nothing to say about the pod
    "Rejected",  # a `metadata` function raises it, with the reason: the pod fits no node
    "Unschedulable",  # ends the attempt to place a pod, for this reason
    "label_selector",  # reads a LabelSelector
    "labels_match",  # whether labels match a selector that `label_selector` has read
    "main",  # the command line
    "nominate",  # nominates a pod to a node
    "predicate",  # the decorator of a predicate; files of --plugins may import it from `scheduler`, too
    "priority",  # the decorator of a priority; likewise
    "reasons_supposing"]  # why a pod would not fit a node if some pods were gone, and others there
