"""scheduler.py does not depend on the folder scheduler_extras."""

import ast
import json
import shutil
import subprocess
import sys

import pytest

from helpers.script import ROOT, TESTS, api_server, node, pod, policy, run, table


SCRIPT = ROOT / "scheduler.py"


def modules_of(text):
    """Return the modules that a Python source imports."""
    modules = set()
    for statement in ast.walk(ast.parse(text)):
        if isinstance(statement, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in statement.names}
        if isinstance(statement, ast.ImportFrom):
            modules.add(statement.module.partition(".")[0])
    return modules


def test_it_imports_the_standard_library_requests_and_yaml():
    assert modules_of(SCRIPT.read_text()) - sys.stdlib_module_names == {"requests", "yaml"}


@pytest.fixture
def folders(tmp_path):
    """Two folders with the script: one has a folder scheduler_extras whose modules raise on import, the other one has none."""
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
        shutil.copy(SCRIPT, tmp_path / name)
        shutil.copy(ROOT / "policy.json", tmp_path / name)
        shutil.copy(TESTS / "demo.yaml", tmp_path / name)
    (tmp_path / "with" / "scheduler_extras").mkdir()
    for name in ("__init__.py", "__main__.py", "command_line.py"):
        (tmp_path / "with" / "scheduler_extras" / name).write_text("1 / 0")
    return tmp_path / "with", tmp_path / "without"


@table("arguments", {
    "the demo": ["--cluster", "demo.yaml"], "help": ["--help"], "a missing file": ["--cluster", "x.yaml"],
    "a bad option": ["--bad"], "a proxy that is down": ["--server", "http://127.0.0.1:1", "--once"]})
def test_the_output_is_the_same_without_the_folder(folders, arguments):
    one, other = [run(*arguments, script="scheduler.py", cwd=folder) for folder in folders]
    assert (one.stdout, one.stderr, one.returncode) == (other.stdout, other.stderr, other.returncode)
    assert one.stdout or one.stderr


def test_the_same_pods_are_bound_without_the_folder(folders):
    runs = []
    for folder in folders:
        with api_server(node("a"), node("b", cpu="2"), *(pod(f"p{i}", {"cpu": "1"}) for i in range(8))) as server:
            done = run("--server", server.url, "--once", script="scheduler.py", cwd=folder)
            runs.append((done.stdout, done.stderr, done.returncode, len(server.placements())))
    assert runs[0] == runs[1] and runs[0][3] == 6


def test_without_the_folder_an_error_omits_the_command_of_the_second_program(folders):
    lines = []
    for folder in folders:
        (folder / "policy.json").write_text(json.dumps(policy(["MatchInterPodAffinity"])))
        done = run("--cluster", "demo.yaml", "--policy", "policy.json", script="scheduler.py", cwd=folder)
        assert done.returncode == 2
        lines.append(done.stderr)
    problem = "policy.json: predicates[0]: scheduler.py has no MatchInterPodAffinity"
    command = "python scheduler_extras --cluster demo.yaml --policy policy.json"
    assert lines == [f"{problem}; python scheduler_extras has: {command}\n", f"{problem}\n"]


@table("options, cwd", {
    "from another folder": ([], "/"), "with the script's folder not on sys.path": (["-P"] if sys.version_info >= (3, 11) else [], "."),
    "in isolated mode": (["-I"], "/")})
def test_it_finds_its_policy_from_any_folder(folders, options, cwd):
    done = subprocess.run([sys.executable, *options, folders[1] / "scheduler.py", "--cluster", folders[1] / "demo.yaml"],
                          capture_output=True, text=True, cwd=cwd, timeout=60)
    assert done.stdout.endswith("7 placed, 1 pending\n") and done.stderr == ""


def test_a_copy_under_another_name_runs_its_own_code(folders):
    copy = folders[1] / "my_scheduler.py"
    copy.write_text(SCRIPT.read_text().replace('f"{pod.key} -> ', 'f"{pod.key} goes to '))
    assert "default/web-1 goes to node-b" in run("--cluster", folders[1] / "demo.yaml", script=copy).stdout
