"""The program on a faulty control plane: the short form of `bench/faults.py`."""

import os
import sys
from pathlib import Path

import pytest


sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import faults


@pytest.mark.parametrize("name", [name for name, (_, short) in faults.SCENARIOS.items() if short])
def test_on_a_control_plane_nothing_is_lost_bound_twice_or_overcommitted(name, shared_control_plane):
    """Most rows take over 10 s, because programs restart and Leases expire in real time."""
    seed = int(os.environ.get("FAULTS_SEED", 1))
    row, broken, remarks = faults.play(shared_control_plane, name, seed, short=True)
    assert faults.all_zero(row), "\n".join([
        f"seed {seed}", faults.line(faults.COLUMNS), faults.line(row.values()), *broken, *remarks])
