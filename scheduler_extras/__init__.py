"""A second program beside scheduler.py: all rules, watches, manifests, KubeSchedulerConfiguration.

Rules of your own can import the names in __all__ from here, and rules and small functions from `scheduler`.
"""

import importlib
import sys
from pathlib import Path


try:
    import scheduler  # noqa: F401  (first, because every module needs it)
except SyntaxError as error:  # it may have been edited
    print(error, file=sys.stderr)
    sys.exit(2)

from scheduler_extras.command_line import main
from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.deciding.rule import SKIP, Rejected
from scheduler_extras.policy.own_rules import predicate, priority
from scheduler_extras.reading.label_selectors import label_selector, labels_match
from scheduler_extras.rules.nominating import nominate
from scheduler_extras.rules.simulation import reasons_supposing


if Path(__file__).with_name("configuration").joinpath("__init__.py").exists():  # it can be deleted
    importlib.import_module("scheduler_extras.configuration")

__all__ = [
    "SKIP",  # returned by a `metadata` function: the rule is skipped for this pod
    "Rejected",  # raised by a `metadata` function with a reason: the pod fits no node
    "Unschedulable",  # raised with a reason: ends the attempt to schedule the pod
    "label_selector",  # parses a LabelSelector
    "labels_match",  # returns whether labels match a selector from `label_selector`
    "main",  # the command line
    "nominate",  # nominates a pod to a node
    "predicate",  # the decorator of a predicate; files of --plugins may also import it from `scheduler`
    "priority",  # the decorator of a priority; the same
    "reasons_supposing"]  # the reasons against a node without some of its pods, or with others added
