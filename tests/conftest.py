"""A real control plane for the tests that need one, and the order in which the tests run."""

import gc
import os
from pathlib import Path

import pytest

from helpers.control_plane import ControlPlane


SECOND_PROGRAM = Path(__file__).parents[1] / "scheduler_extras"
collect_ignore = [] if SECOND_PROGRAM.is_dir() else ["extras"]  # the folder may be deleted


def pytest_configure(config):
    """Treat a DeprecationWarning from scheduler.py as an error; `forked.py` does the same."""
    config.addinivalue_line("filterwarnings", "error::DeprecationWarning:scheduler")


# Test files that use the second of the two control planes: they run kube-scheduler on it, too, or break it.
ON_THE_SECOND = ("test_side_by_side", "test_preemption_beside_kube_scheduler", "test_contests", "test_faults")


SLOWEST = ("test_page_tiles", "test_properties", "test_without_configuration")  # these start early, so that none is left running alone at the end


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items):
    """Run the tests that need a control plane first, on as few workers as possible, because each worker starts its own."""
    items.sort(key=lambda item: ("shared_control_plane" not in item.fixturenames, item.path.stem not in SLOWEST))
    for item in items:
        if "shared_control_plane" in item.fixturenames:
            which = "second" if item.path.stem in ON_THE_SECOND else "first"
            item.add_marker(pytest.mark.xdist_group(f"the {which} control plane"))
        if "chromium" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("a browser"))  # only one worker starts it


def pytest_collection_finish():
    """Exempt the collected tests from garbage collection, which saves a tenth of the time."""
    gc.freeze()


@pytest.fixture(scope="session")
def shared_control_plane(tmp_path_factory):
    """A control plane for all tests of this worker."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        assert not os.environ.get("CI"), "in CI the tests with a real control plane must run: set KUBEBUILDER_ASSETS"
        pytest.skip("needs a real control plane: set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, kubectl")
    control_plane = ControlPlane(assets, tmp_path_factory.mktemp("control-plane"))
    yield control_plane
    control_plane.stop()


@pytest.fixture
def control_plane(shared_control_plane):
    """An empty cluster on the shared control plane."""
    shared_control_plane.clear()
    return shared_control_plane
