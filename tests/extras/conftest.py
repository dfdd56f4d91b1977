"""Fixtures for the tests of the second program."""

import inspect

import pytest

from helpers.command_line import answering  # noqa: F401 (a fixture)
from helpers.everywhere import MODULES, replace
from helpers.extender import service  # noqa: F401 (a fixture)
from helpers.extras import PATIENT, Running, compute_each_time, compute_for_all, index_all, reset_process
from helpers.fake_api import clock, watched  # noqa: F401 (fixtures)
from helpers.faults import start  # noqa: F401 (a fixture)
from helpers.page import browse, chromium, files, pages  # noqa: F401 (fixtures)
from helpers.preempting import contested  # noqa: F401 (a fixture)
from helpers.random_objects import changing_rules  # noqa: F401 (a fixture)
from helpers.spy import spy  # noqa: F401 (a fixture)
from helpers.workloads import controllers  # noqa: F401 (a fixture)
from scheduler_extras.common.chance import CHANCE


@pytest.fixture
def without_cache(monkeypatch):
    """Disable the cache: every rule runs for every pod and every node."""
    replace(monkeypatch, "answers_about", compute_for_all)
    replace(monkeypatch, "index_of_nodes", index_all)
    replace(monkeypatch, "memo", compute_each_time)
    for module in MODULES:
        for name, function in [*vars(module).items()]:
            if hasattr(function, "__wrapped__") and [*inspect.signature(function).parameters][:1] == ["pod"]:
                monkeypatch.setattr(module, name, function.__wrapped__)


@pytest.fixture
def seeded(monkeypatch):
    """Seed the random choices, so that each run makes the same ones."""
    monkeypatch.setattr(CHANCE, "seed", "1")


@pytest.fixture
def serve():
    """A function that registers a server, to be stopped at the end of the test."""
    servers = []
    yield lambda server: servers.append(server) or server
    for server in servers:
        server.stop()


@pytest.fixture(params=["with the cache", "without the cache"])
def cache_mode(request):
    """Run the test twice, with the cache and without it."""
    if request.param == "without the cache":
        request.getfixturevalue("without_cache")


@pytest.fixture(autouse=True)
def fresh_state():
    """Begin each test as in a new process."""
    reset_process()


@pytest.fixture
def start_scheduler(tmp_path):
    """A function that starts the program in the background; it is killed at the end of the test."""
    started = []

    def run(*arguments, program=PATIENT, **options):
        folder = tmp_path / f"run-{len(started)}"
        folder.mkdir()
        started.append(Running(folder, arguments, program=program, **options))
        return started[-1]

    yield run
    for running in started:
        running.kill()
        running.wait()
