"""Reasons against nodes, which what explains them looks up by their texts."""

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
def test_a_rule_of_the_script_still_yields_the_reason(reason):
    assert f'"{reason}' in (ROOT / "scheduler.py").read_text()
