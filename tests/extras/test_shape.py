"""What is where: the script and the folder beside it, and who may import whom."""

import ast
import re
import shutil
import subprocess
import sys

import pytest
from helpers.extras import ROOT, run_afresh, table

EXTRAS = ROOT / "scheduler_extras"
# Imports go one way: a module imports none of a place behind its own. Those in one package are in an order of their own.
ARROWS = ["scheduler", "common", "reading", "deciding", "rules", "policy", ("configuration", "api"), "live", "manifests", "show",
          "serve", "process", "command_line"]
PLACES = {name: place for place, names in enumerate(ARROWS) for name in ([names] if isinstance(names, str) else names)}


def modules():
    """All modules by their names, such as rules.spreading, with their trees."""
    paths = [ROOT / "scheduler.py", *EXTRAS.rglob("*.py")]
    paths = [path for path in paths if "examples" not in path.parts and path != EXTRAS / "__init__.py"]
    names = [".".join(path.relative_to(EXTRAS if path.is_relative_to(EXTRAS) else ROOT).with_suffix("").parts) for path in paths]
    return {name.removesuffix(".__init__"): ast.parse(path.read_text()) for name, path in zip(names, paths)}


MODULES = modules()


def imported_by(tree):
    """The modules of ours that one imports, wherever it does so."""
    for place in ast.walk(tree):
        if isinstance(place, ast.ImportFrom) and place.module.partition(".")[0] == "scheduler_extras":
            names = [f"{place.module}.{each.name}".partition(".")[2] for each in place.names]
            yield from {next((name for name in (each, each.rpartition(".")[0]) if name in MODULES), "__init__") for each in names}
        elif isinstance(place, ast.ImportFrom) and place.module == "scheduler":
            yield "scheduler"
        elif isinstance(place, ast.Import):
            yield from [each.name.partition(".")[2] or "__init__" for each in place.names if each.name.startswith("scheduler_extras")]


def may_import(name, other):
    """Whether a module may import another one, by the places that they have."""
    package, others = name.partition(".")[0], other.partition(".")[0]
    return others in PLACES and (package == others or PLACES[others] < PLACES[package])


def test_imports_go_one_way():
    graph = {name: {*imported_by(tree)} - {name} for name, tree in MODULES.items()}
    assert [(name, other) for name, others in graph.items() for other in others if not may_import(name, other)] == []
    done = set()
    while rest := {name for name in graph if name not in done and graph[name] <= done}:
        done |= rest
    assert graph.keys() == done, "these import one another"


def test_no_module_is_long_and_each_says_what_is_in_it():
    too_long = {name: tree.body[-1].end_lineno for name, tree in MODULES.items() if name != "scheduler" and tree.body[1:]}
    assert {name: lines for name, lines in too_long.items() if lines > 400} == {}
    assert [name for name, tree in MODULES.items() if not ast.get_docstring(tree)] == []


def test_the_program_imports_each_module():
    """What nobody imports, `everything` would: so this is another process."""
    said = "import scheduler_extras, sys; print(*(name for name in sys.modules if name.startswith('scheduler_extras.')))"
    run = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {f"scheduler_extras.{name}" for name in MODULES} - {"scheduler_extras.scheduler"} <= {*run.stdout.split()}


def test_the_script_names_the_folder_in_one_place():
    assert (ROOT / "scheduler.py").read_text().count("scheduler_extras") == 1


def bound_by(statement):
    """The names that a statement binds at the top level, imports aside."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    return [each.id for target in getattr(statement, "targets", [])
            for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]


@pytest.mark.parametrize("name", MODULES)
def test_no_name_is_bound_twice_at_the_top_level(name):
    bound = [each for statement in MODULES[name].body for each in bound_by(statement)]
    assert sorted(bound) == sorted(set(bound))


def test_no_method_is_overridden_twice_in_a_line():
    """What a subclass says otherwise, no subclass of it says otherwise once more; constructors aside."""
    classes = [place for tree in MODULES.values() for place in tree.body if isinstance(place, ast.ClassDef)]
    methods = {place.name: {each.name for each in place.body if isinstance(each, ast.FunctionDef)} - {"__init__"} for place in classes}
    bases = {place.name: [base.id for base in place.bases if isinstance(base, ast.Name) and base.id in methods] for place in classes}

    def line_above(name):
        """The classes above one, nearest first."""
        return [each for base in bases[name] for each in (base, *line_above(base))]

    assert len(methods) == len(classes), "two classes have one name"
    assert {(name, method) for name in methods for method in methods[name]
            if sum(method in methods[above] for above in line_above(name)) > 1} == set()


@pytest.fixture
def project(tmp_path):
    """A copy of the script and its extras."""
    shutil.copy(ROOT / "scheduler.py", tmp_path)
    shutil.copy(ROOT / "policy.json", tmp_path)
    shutil.copytree(EXTRAS, tmp_path / "scheduler_extras", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@table("file, text, said", {
    "a mistake in it": ("rules/spreading.py", "def", r"invalid syntax(?= \(spreading.py, line 1\))"),
    "a name that it lacks": ("common/clocks.py", "", "ImportError in <module>: .*clocks"),
    "a file that has gone": ("deciding/rule.py", None, "ModuleNotFoundError in <module>: .*rule"),
    "an __init__.py that has gone": ("__init__.py", None, "AttributeError in main: .*'main'"),
})
def test_extras_that_cannot_be_used_are_one_line_and_no_half_of_a_scheduler(project, file, text, said):
    if text is None:
        (project / "scheduler_extras" / file).unlink()
    else:
        (project / "scheduler_extras" / file).write_text(text)
    run = run_afresh("--once", "--server", "http://127.0.0.1:1", script=project / "scheduler.py", cwd=project)
    [line] = run.stderr.splitlines()
    assert run.returncode == 2 and re.fullmatch(said + r".* \(\w+\.py, line \d+\)", line), line


def test_without_the_folder_of_an_extra_none_is_half_there(project):
    """The folder `configuration` can be deleted, see test_without_configuration.py; all of it can, see test_script.py."""
    shutil.rmtree(project / "scheduler_extras" / "configuration")
    run = run_afresh("--cluster", project / "scheduler_extras" / "examples" / "demo.yaml", script=project / "scheduler.py")
    assert run.returncode == 0 and "default/web-1 -> node-b" in run.stdout


@table("imports", {
    "the script first": "from scheduler import main, predicate\nfrom scheduler_extras import label_selector",
    "the extras first": "from scheduler_extras import label_selector\nfrom scheduler import main, predicate"})
def test_a_script_of_ones_own_may_import_them_in_any_order(project, imports):
    (project / "mine.py").write_text(f"""
import sys
{imports}
@predicate("Mine", steady=True)
def mine(pod, node):
    yield "node(s) were not mine"
sys.exit(main())
""")
    (project / "policy.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Mine"}]}')
    run = run_afresh("--cluster", "scheduler_extras/examples/taints.yaml", script="mine.py", cwd=project)
    assert run.returncode == 0 and "1 node(s) were not mine" in run.stdout, run.stderr


@table("arguments", {"run as a program": ["scheduler.py"], "called": ["-c", "import scheduler, sys; sys.exit(scheduler.main())"],
                     "by a link": ["link.py"]})
def test_there_is_one_module_of_the_script(project, arguments):
    """Its rules, its errors: a rule of one's own that imports `scheduler` has those that run."""
    (project / "link.py").symlink_to("scheduler.py")
    (project / "rules.py").write_text("""
import sys
from scheduler import ApiError, PREDICATES, predicate
main = sys.modules["__main__"]
assert getattr(main, "ApiError", ApiError) is ApiError and getattr(main, "PREDICATES", PREDICATES) is PREDICATES
import scheduler_extras.policy.policy as policy, scheduler
assert policy.Policy is scheduler.Policy and issubclass(policy.FullPolicy, scheduler.Policy)

@predicate("Mine")
def mine(pod, node):
    return []
""")
    command = [sys.executable, *arguments, "--plugins", "rules.py", "--cluster", "scheduler_extras/examples/demo.yaml"]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and "Mine of rules.py: not named here" in run.stderr, run.stderr
