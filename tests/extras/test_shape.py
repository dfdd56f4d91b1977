"""The structure of the project: the allowed imports, the size of modules, and how the program can be started."""

import ast
import functools
import importlib
import shutil
import subprocess
import sys

import pytest

from helpers.everywhere import script
from helpers.extras import ROOT, run_afresh, table
from scheduler_extras.deciding.rule import PREDICATES


EXTRAS = ROOT / "scheduler_extras"
# Imports go one way: a module imports only from its own package and from earlier ones in this list.
ARROWS = ["scheduler", "common", "reading", "deciding", "rules", "policy", ("configuration", "api"), "live", "manifests", "show",
          "serve", "options", "process", "runs", "command_line"]
PLACES = {name: place for place, names in enumerate(ARROWS) for name in ([names] if isinstance(names, str) else names)}


@functools.cache
def modules():
    """Return {name, such as rules.spreading: syntax tree} for all modules."""
    paths = [ROOT / "scheduler.py", *EXTRAS.rglob("*.py")]
    paths = [path for path in paths if "examples" not in path.parts and path.parent / path.stem not in (EXTRAS / "__init__", EXTRAS / "__main__")]
    names = [".".join(path.relative_to(EXTRAS if path.is_relative_to(EXTRAS) else ROOT).with_suffix("").parts) for path in paths]
    return {name.removesuffix(".__init__"): ast.parse(path.read_text()) for name, path in zip(names, paths)}


def imported_by(tree):
    """Yield the modules of the project that a module imports, anywhere in its code."""
    for place in ast.walk(tree):
        if isinstance(place, ast.ImportFrom) and place.module.partition(".")[0] == "scheduler_extras":
            names = [f"{place.module}.{each.name}".partition(".")[2] for each in place.names]
            yield from {next((name for name in (each, each.rpartition(".")[0]) if name in modules()), "__init__") for each in names}
        elif isinstance(place, ast.ImportFrom) and place.module == "scheduler":
            yield "scheduler"
        elif isinstance(place, ast.Import):
            yield from [each.name.partition(".")[2] or "__init__" for each in place.names if each.name.startswith("scheduler_extras")]


def may_import(name, other):
    """Return whether a module may import another one, according to ARROWS."""
    package, others = name.partition(".")[0], other.partition(".")[0]
    return others in PLACES and (package == others or PLACES[others] < PLACES[package])


def test_imports_go_one_way():
    graph = {name: {*imported_by(tree)} - {name} for name, tree in modules().items()}
    assert [(name, other) for name, others in graph.items() for other in others if not may_import(name, other)] == []
    done = set()
    while rest := {name for name in graph if name not in done and graph[name] <= done}:
        done |= rest
    assert graph.keys() == done, "the remaining modules import each other"


def test_no_module_is_long_and_each_has_a_docstring():
    too_long = {name: tree.body[-1].end_lineno for name, tree in modules().items() if name != "scheduler" and tree.body[1:]}
    assert {name: lines for name, lines in too_long.items() if lines > 400} == {}
    assert [name for name, tree in modules().items() if not ast.get_docstring(tree)] == []


def test_the_program_imports_each_module():
    """This is another process, because helpers/everywhere.py imports all modules in this one."""
    message = "import scheduler_extras, sys; print(*(name for name in sys.modules if name.startswith('scheduler_extras.')))"
    run = subprocess.run([sys.executable, "-c", message], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {f"scheduler_extras.{name}" for name in modules()} - {"scheduler_extras.scheduler"} <= {*run.stdout.split()}


def test_each_name_that_a_bench_or_a_helper_imports_exists():
    """No test runs the benches, so a renamed function would be noticed late."""
    paths = [*(ROOT / "tests" / "bench").glob("*.py"), *(ROOT / "tests" / "helpers").glob("*.py")]
    imports = [(path.name, place.module, each.name) for path in paths for place in ast.walk(ast.parse(path.read_text()))
               if isinstance(place, ast.ImportFrom) and place.module.startswith("scheduler") for each in place.names]
    assert [each for each in imports if not hasattr(importlib.import_module(each[1]), each[2])] == []


# The names that modules may import from scheduler.py.
FROM_THE_SCRIPT = {
    "log", "PREDICATES", "PRIORITIES", "Rule", "Decision", "select_host", "sum_up", "binding", "event", "usage", "disks_of", "disks_conflict",
    "Taint", "tolerates", "untolerated_taints", "covers", "matches_node", "term_matches", "satisfies", "OPERATORS", "DEFAULT_REQUESTS",
    "NO_REQUESTS"}


def test_few_names_are_imported_from_the_script():
    imported = {each.name for tree in modules().values() for place in ast.walk(tree)
                if isinstance(place, ast.ImportFrom) and place.module == "scheduler" for each in place.names}
    assert imported <= FROM_THE_SCRIPT


def bound_names(statement):
    """Return the names that a statement binds at the top level, except for imports."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    return [each.id for target in getattr(statement, "targets", [])
            for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]


def test_no_name_is_bound_twice_at_the_top_level():
    bound = [(name, each) for name, tree in modules().items() for statement in tree.body for each in bound_names(statement)]
    assert {each for each in bound if bound.count(each) > 1} == set()


def test_no_method_is_overridden_twice_along_a_line_of_inheritance():
    """A subclass does not override a method that its base class has overridden, except for constructors."""
    classes = [place for name, tree in modules().items() if name != "scheduler" for place in tree.body if isinstance(place, ast.ClassDef)]
    methods = {place.name: {each.name for each in place.body if isinstance(each, ast.FunctionDef)} - {"__init__"} for place in classes}
    bases = {place.name: [base.id for base in place.bases if isinstance(base, ast.Name) and base.id in methods] for place in classes}

    def line_above(name):
        """Return the base classes of a class, nearest first."""
        return [each for base in bases[name] for each in (base, *line_above(base))]

    assert len(methods) == len(classes), "two classes have the same name"
    assert {(name, method) for name in methods for method in methods[name]
            if sum(method in methods[above] for above in line_above(name)) > 1} == set()


@pytest.fixture
def project(tmp_path):
    """A copy of the script and the extras."""
    shutil.copy(ROOT / "scheduler.py", tmp_path)
    shutil.copy(ROOT / "policy.json", tmp_path)
    shutil.copytree(EXTRAS, tmp_path / "scheduler_extras")
    return tmp_path


@table("text, message", {
    "a parenthesis that is not closed": ("log = (", "'(' was never closed (scheduler.py, line 1)"),
    "a name with a space": ("def a rule(): pass", "expected '(' (scheduler.py, line 1)|invalid syntax (scheduler.py, line 1)")})
@pytest.mark.parametrize("command", [["scheduler_extras"], ["-m", "scheduler_extras"]])
def test_a_syntax_error_in_the_script_gives_one_line(project, text, message, command):
    (project / "scheduler.py").write_text(text)
    run = subprocess.run([sys.executable, *command, "--once"], cwd=project, capture_output=True, text=True, timeout=60)
    [line] = run.stderr.splitlines()
    assert run.returncode == 2 and line in message.split("|")


def test_wrong_parameters_of_a_rule_in_the_script_give_one_line(project):
    script = project / "scheduler.py"
    script.write_text(script.read_text().replace("def host_name(pod, node):", "def host_name(node, pod):"))
    run = run_afresh("--once", "--server", "http://127.0.0.1:1", script=project / "scheduler_extras", cwd=project)
    [line] = run.stderr.splitlines()
    assert run.returncode == 2 and line.startswith('rule "HostName": expected the parameters (pod, node), got (node, pod) (HostName: scheduler.py, line ')


DEMO = ["--cluster", str(ROOT / "tests" / "demo.yaml")]


@table("command, folder", {
    "in the folder of the project": (["scheduler_extras"], "."), "as a module": (["-m", "scheduler_extras"], "."),
    "in another folder, with its path": (["../scheduler_extras"], "elsewhere"),
    "in its own folder": (["."], "scheduler_extras"),
    "with the path of its file": (["scheduler_extras/__main__.py"], "."),
    "with a link": (["link"], "elsewhere"),
    "with the script's folder not on sys.path": (["-P", "scheduler_extras"], "."), "in isolated mode": (["-I", "scheduler_extras"], ".")})
def test_the_program_can_be_started(project, command, folder):
    if command[0] == "-P" and sys.version_info < (3, 11):
        pytest.skip("Python has -P since 3.11")
    (project / "elsewhere").mkdir()
    (project / "elsewhere" / "link").symlink_to(project / "scheduler_extras")
    (project / "elsewhere" / "rules.py").write_text("raise SystemExit('not this one')")  # a module in the current folder is not imported
    run = subprocess.run([sys.executable, *command, *DEMO], cwd=project / folder, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and "default/web-1 -> node-b" in run.stdout, run.stderr


def test_a_plugins_file_imports_modules_of_its_own_folder(project, tmp_path):
    (project / "mine").mkdir()
    (project / "mine" / "rules.py").write_text("TEXT = 'node(s) were not mine'")
    (project / "mine" / "plugin.py").write_text(
        "from rules import TEXT\nfrom scheduler import predicate\n@predicate('Mine')\ndef mine(pod, node): yield TEXT\n")
    (project / "policy.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Mine"}]}')
    run = run_afresh(*DEMO, "--plugins", project / "mine" / "plugin.py", script=project / "scheduler_extras")
    assert run.returncode == 0 and "node(s) were not mine" in run.stdout, run.stderr


def test_the_program_runs_without_the_folder_configuration(project):
    """For more tests without it, see test_without_configuration.py."""
    shutil.rmtree(project / "scheduler_extras" / "configuration")
    run = run_afresh(*DEMO, script=project / "scheduler_extras")
    assert run.returncode == 0 and "default/web-1 -> node-b" in run.stdout


def test_a_custom_program_may_add_rules(project):
    (project / "mine.py").write_text("""
import sys
from scheduler_extras import label_selector, labels_match, main, predicate
@predicate("Mine", steady=True)
def mine(pod, node):
    if not labels_match(node.labels, label_selector({"matchLabels": {"mine": "yes"}})):
        yield "node(s) were not mine"
sys.exit(main())
""")
    (project / "policy.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Mine"}]}')
    run = run_afresh("--cluster", "scheduler_extras/examples/taints.yaml", script="mine.py", cwd=project)
    assert run.returncode == 0 and "node(s) were not mine" in run.stdout, run.stderr


def test_the_second_program_has_its_own_catalogues():
    """Importing it does not change the rules of the script."""
    assert PREDICATES is not script.PREDICATES
    assert {type(rule) for rule in [*script.PREDICATES.values(), *script.PRIORITIES.values()]} == {script.Rule}
