"""Reasons why a node does not fit: --explain and the page look them up by their text."""

import pytest

from helpers.extras import ROOT
from scheduler_extras.rules.ports import PORTS_TAKEN
from scheduler_extras.rules.script_rules import (
    OTHER_LABELS,
    TAINT,
    TOO_MANY_PODS,
    UNSCHEDULABLE,
    insufficient,
)


@pytest.mark.parametrize("reason", [UNSCHEDULABLE, TOO_MANY_PODS, OTHER_LABELS, TAINT, PORTS_TAKEN, insufficient("{name}")])
def test_the_script_still_contains_each_reason(reason):
    assert f'"{reason}' in (ROOT / "scheduler.py").read_text()
