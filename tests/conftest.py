"""A real control plane for all tests that want one, and in which order tests run."""

import gc
import os
from pathlib import Path

import pytest

from helpers.control_plane import ControlPlane


SECOND_PROGRAM = Path(__file__).parents[1] / "scheduler_extras"
collect_ignore = [] if SECOND_PROGRAM.is_dir() else ["extras"]  # the folder may be deleted


def pytest_configure(config):
    """What Python is about to drop is an error, where scheduler.py does it; in `forked.py`, too."""
    config.addinivalue_line("filterwarnings", "error::DeprecationWarning:scheduler")


# Files whose tests share the second one of two control planes, on which kube-scheduler runs, too, or which is broken.
ON_THE_SECOND = ("test_side_by_side", "test_preemption_beside_kube_scheduler", "test_contests", "test_faults")


SLOWEST = ("test_page", "test_properties", "test_without_configuration")  # which begin early, or else all wait for one of them


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items):
    """Have the tests on a control plane run by few workers, each of which needs one of its own; these begin first."""
    items.sort(key=lambda item: ("shared_control_plane" not in item.fixturenames, item.path.stem not in SLOWEST))
    for item in items:
        if "shared_control_plane" in item.fixturenames:
            which = "second" if item.path.stem in ON_THE_SECOND else "first"
            item.add_marker(pytest.mark.xdist_group(f"the {which} control plane"))


def pytest_collection_finish():
    """Have Python not look for garbage among what was collected, again and again: it saves a tenth of the time."""
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
