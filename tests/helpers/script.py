"""Helpers for the tests of scheduler.py: the script as a module and as a command, short constructors for objects."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest


TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
sys.path[:0] = [str(ROOT)]

import scheduler  # noqa: F401  (the tests import it from here)
from helpers.control_plane import wait_for  # noqa: F401  (this, too)
from helpers.faulty import ApiServer
from helpers.forked import Command, run_to_end


def table(names, rows):
    """Parametrize a test with {a sentence: its values}."""
    return pytest.mark.parametrize(names, rows.values(), ids=rows.keys())


def node(name, cpu="4", memory="8Gi", pods="110", labels=None, **spec):
    """Return a Node object."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}, "spec": spec,
            "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}}}


def pod(name, requests=None, namespace="default", metadata=None, **spec):
    """Return a Pod object that names my-scheduler."""
    container = {"name": "main", "image": "nginx", "resources": {"requests": requests or {}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, **(metadata or {})},
            "spec": {"schedulerName": "my-scheduler", "containers": [container], **spec}, "status": {}}


def policy(predicates=(), priorities=(), **more):
    """Return a Policy that names these rules, each priority with weight 1."""
    return {"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": name} for name in predicates],
            "priorities": [{"name": name, "weight": 1} for name in priorities], **more}


def run(*arguments, script=ROOT / "scheduler.py", **options):
    """Run the script to its end."""
    return run_to_end(arguments, script=script, **options)


def run_afresh(*arguments, script=ROOT / "scheduler.py", **options):
    """Run the script to its end in a new Python interpreter."""
    return subprocess.run([sys.executable, str(script), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, **options)


class Running:
    """The script in the background, with its output in files."""

    def __init__(self, folder, arguments, script, options):
        self.files = folder / "stdout", folder / "stderr"
        with open(os.devnull) as nothing, open(self.files[0], "wb") as out, open(self.files[1], "wb") as err:
            self.process = Command(arguments, nothing, out, err, script=script, **options)

    @property
    def out(self):
        """Its output so far."""
        return self.files[0].read_text()

    @property
    def err(self):
        """Its log so far."""
        return self.files[1].read_text()


@contextmanager
def running(folder, *arguments, script=ROOT / "scheduler.py", **options):
    """Run the script in the background; kill it at the end."""
    started = Running(folder, arguments, script, options)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()


@contextmanager
def api_server(*objects):
    """Run an API server in memory."""
    server = ApiServer(*objects)
    try:
        yield server
    finally:
        server.stop()
