"""Without the folder `configuration`, the second program still works with a Policy."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from helpers.extras import ROOT, node, pod
from helpers.golden import DECISIONS
from helpers.script import run


PLAIN = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--assert=plain"]  # this halves the startup time
SAMPLE = [f"tests/extras/test_golden.py::test_the_decision_matches_kube_scheduler[{name}]"
          for name in [line["case"]["id"] for line in DECISIONS][::10]]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of this project without the folder."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__", "bench"))
    shutil.copytree(ROOT / "scheduler_extras", folder / "scheduler_extras", ignore=shutil.ignore_patterns("configuration"))
    for name in ("README.md", "policy.json", "scheduler.py"):
        shutil.copy(ROOT / name, folder)
    return folder


LOOP = ("loop", "binding", "backoff", "events", "connection")
LEFT = {  # what must still work: the files with its tests, and the expression that selects the tests
    "decisions of kube-scheduler 1.20": (SAMPLE, "test_golden"),
    "rare cases": (["tests/extras/test_golden.py::test_rare_cases", "tests/extras/test_rules.py"], "test_rules"),
    "accepted Policies": (["tests/extras/test_policy.py"], "test_policy and kube_scheduler"),
    "the loop": ([f"tests/extras/test_{name}.py" for name in LOOP], f"({' or '.join(f'test_{name}' for name in LOOP)}) and not without"),
    "an exercise of the lesson": (["tests/extras/test_docs.py"], "test_docs and exercise_1")}


def test_the_other_tests_pass_without_the_folder(project):
    """This takes more than 10 s, because it runs another pytest."""
    tests = [test for files, _ in LEFT.values() for test in files]
    which = " or ".join(f"({words})" for _, words in LEFT.values())
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", *PLAIN, *tests, "-k", which],
                         cwd=project, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr


def test_the_other_folders_do_not_mention_its_subject(project):
    modules = [path for folder in ("deciding", "rules", "policy") for path in (project / "scheduler_extras" / folder).rglob("*.py")]
    message = [path.name for path in modules if re.search("modern|1_20|1[.]36", path.read_text())]
    assert sorted(message) == ["preemption.py", "script_rules.py"], "these two have texts about a configuration"


@pytest.mark.parametrize("option", ["--policy", "--config"])
def test_a_configuration_gives_an_error(option, project, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    done = run(option, path, "--cluster", "/dev/null", script=project / "scheduler_extras")
    assert done.returncode == 2
    assert done.stderr.startswith(f'{path}: expected kind Policy with apiVersion v1, got {{"apiVersion": "kubescheduler')


def test_a_pod_of_another_scheduler_is_explained_with_the_policy(project, tmp_path):
    cluster = [pod("p", schedulerName="default-scheduler"), node("n")]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": cluster}))
    done = run("--cluster", tmp_path / "cluster.json", "--explain=p", script=project / "scheduler_extras", cwd=project)
    assert done.returncode == 0 and "If scheduled now with policy.json" in " ".join(done.stdout.split()), done
