"""The script on a control plane of its own, which is broken in the short form of `bench/faults.py`."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import faults


@pytest.fixture(scope="module")
def broken_control_plane(tmp_path_factory):
    """A control plane to break."""
    if not os.environ.get("KUBEBUILDER_ASSETS"):
        assert not os.environ.get("CI"), "in CI the tests with a real control plane must run: set KUBEBUILDER_ASSETS"
        pytest.skip("needs a real control plane: set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, kubectl")
    control_plane = faults.new_control_plane(tmp_path_factory.mktemp("broken"))
    yield control_plane
    control_plane.stop()


@pytest.mark.parametrize("name", [name for name, (_, short) in faults.SCENARIOS.items() if short])
def test_on_a_control_plane_nothing_is_lost_bound_twice_or_overcommitted(name, broken_control_plane):
    """Most rows take over 10 s: programs are killed and start again, and Leases run out, in their own time."""
    seed = int(os.environ.get("FAULTS_SEED", 1))
    row, broken, remarks = faults.play(broken_control_plane, name, seed, short=True)
    assert faults.all_zero(row), "\n".join([
        f"seed {seed}", faults.line(faults.COLUMNS), faults.line(row.values()), *broken, *remarks])
