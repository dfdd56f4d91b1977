"""The commands and the code in README.md work as printed there, and have the effects that the text describes."""

import ast
import re
import shutil

import pytest
import requests
import yaml

from helpers.control_plane import free_port
from helpers.documents import CHANGE, Document, edit, paste, placements, terminal, wait_for_lines
from helpers.script import ROOT, node, run, wait_for


README = Document("README.md")
SCRIPT = (ROOT / "scheduler.py").read_text()
EXTRAS = ROOT / "scheduler_extras"


@README.gives("## See it work", "## Tests")
def test_each_setup_command_works(blocks):
    """The installation is skipped here; CI runs the whole second command."""
    for command in blocks:
        install, start = re.fullmatch(r"python3 -m venv .venv && .venv/bin/pip install -q (.*) && (.*\n)", command).groups()
        assert all((ROOT / file).is_file() for file in install.replace("-r ", "").split())
        paste(re.sub("-m pytest .*", "-m pytest --version", start))
    assert "tests/requirements.txt" in install and re.search("-m pytest -q .* tests$", start)


def test_uv_finds_the_packages_of_requirements_txt_in_the_script():
    block = re.search(r"^# /// script\n(.*?)^# ///$", SCRIPT, re.M | re.S)[1]
    assert re.findall('"([^">=]+>=[^"]+)"', block.partition("dependencies")[2]) == (ROOT / "requirements.txt").read_text().split()
    assert "`uv run scheduler.py --cluster tests/demo.yaml`" in README.text


@README.gives("## See it work", "The script prints its")
def test_the_demo_prints_the_decisions(blocks):
    command, decisions = blocks
    assert paste(command.rpartition(" && ")[2]) == decisions


@README.gives("**Now in a browser.**")
def test_the_page_is_served(blocks, tmp_path):
    if not EXTRAS.is_dir():
        pytest.skip("needs the second program")
    port = free_port()
    url = re.search(r"http://127.0.0.1:8080/", README.text)[0].replace("8080", str(port))
    with terminal(blocks[0], tmp_path / "output", ROOT, **{"8080": port}):
        wait_for("the URL is printed", lambda: f"serving {url}" in (tmp_path / "output").read_text())
        assert requests.get(url, timeout=10).text.startswith("<!DOCTYPE html>")


@README.gives("## The loop")
def test_the_code_is_a_copy_from_the_script(blocks):
    copies = {name: source for source in blocks[0].split("\n\n\n") for name in re.findall(r"^def (\w+)", source)}
    assert list(copies) == ["schedule_pending_pods", "schedule"]
    for source in copies.values():
        assert f"\n\n\n{source.strip()}\n\n\n" in SCRIPT, "a function has changed: copy it again"


@pytest.fixture
def copy(tmp_path):
    """A folder with copies of the script, its Policy and the demo."""
    (tmp_path / "tests").mkdir()
    for path in ("scheduler.py", "policy.json", "tests/demo.yaml"):
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


DEMO = re.search(r"`(\.venv/bin/python scheduler.py --cluster tests/demo.yaml)`", README.section("## Change it"))[1]


@README.gives("1. **A predicate of your own.**")
def test_an_appended_predicate_keeps_a_pod_pending(blocks, copy):
    (copy / "scheduler.py").write_text(f"{SCRIPT}\n\n{blocks[0]}")
    assert "training" in placements(paste(DEMO, copy))
    edit(copy / "policy.json", *CHANGE.search(README.section("## Change it")).groups())
    assert "default/training stays pending: " in paste(DEMO, copy)


def in_function(path, name, old, new):
    """Replace a text that occurs once in a function of the script."""
    [function] = [each for each in ast.walk(ast.parse(SCRIPT)) if isinstance(each, ast.FunctionDef) and each.name == name]
    source = ast.get_source_segment(SCRIPT, function)
    assert source.count(old) == 1
    path.write_text(SCRIPT.replace(source, source.replace(old, new)))


@pytest.fixture
def points(copy):
    """The points that the script prints after the edit "A look inside": {pod: {priority: {node: points}}}."""
    name, inserted, line = re.search(r"In `(\w+)`, insert `(.*?)` before the line `(.*?)`", README.words).groups()
    in_function(copy / "scheduler.py", name, line, f"{inserted}\n            {line}")
    points, of_pod = {}, {}
    for printed in paste(DEMO, copy).splitlines():
        if printed.startswith("default/"):
            points[re.match(r"default/(\S+)", printed)[1]] = of_pod
            of_pod = {}
        elif " {" in printed:
            priority, _, text = printed.partition(" ")
            of_pod[priority] = ast.literal_eval(text)
    return points


def test_a_print_shows_the_points_of_each_priority(points):
    assert len(points) == 8 and points["warehouse"] == {}
    assert points["web-1"]["LeastRequestedPriority"] == {"node-a": 34, "node-b": 94}


def test_the_decision_by_hand_matches_the_demo(points):
    part = README.text.partition("**One decision by hand.**")[2].partition("\n## ")[0]
    assert re.search("`(default/ingress-1 -> .*?)`", part)[1] in README.block_after("The script prints its").splitlines()
    rows = re.findall(r"^\| `(\w+)` × (\d).*?\*\*(\d+)\*\*.*?\*\*(\d+)\*\*", part, re.M)
    assert {name: {"node-b": int(b), "node-a": int(a)} for name, weight, b, a in rows} == points["ingress-1"]
    weights = {rule["name"]: rule["weight"] for rule in yaml.safe_load((ROOT / "policy.json").read_text())["priorities"]}
    assert {name: int(weight) for name, weight, b, a in rows} == weights
    for column, total in enumerate(re.findall(r"[\d×+ ]+ = \*\*(\d+)\*\*", part.splitlines()[-2]), 2):
        assert sum(int(row[1]) * int(row[column]) for row in rows) == int(total)


def test_an_edited_select_host_chooses_the_worst_node(copy):
    name, old, new = re.search(r"In `(\w+)`, change `(\w+)` to `(\w+)`", README.words).groups()
    in_function(copy / "scheduler.py", name, old, new)
    assert "Now `web-1` goes to `node-a`" in README.words and placements(paste(DEMO, copy))["web-1"] == "node-a"


def test_two_predicates_are_always_active(tmp_path):
    names = re.search(r"always active, even if the Policy does not name them: `(\w+)` and `(\w+)`", README.words).groups()
    document = yaml.safe_load((ROOT / "policy.json").read_text())
    document["predicates"] = [each for each in document["predicates"] if each["name"] not in names]
    (tmp_path / "policy.json").write_text(yaml.safe_dump(document))
    assert run("--policy", tmp_path / "policy.json", "--cluster", "tests/demo.yaml", cwd=ROOT).stdout == run(
        "--cluster", "tests/demo.yaml", cwd=ROOT).stdout


@README.gives("## Ten minutes beside", "**1. Create two pods.**", "The first terminal shows where", "**2. Edit the Policy.**",
              "**3. Break it and fix it.**", "**4. Ask for more.**", "**5. Run that command.**")
def test_ten_minutes_beside_kubectl_proxy(blocks, copy, control_plane, monkeypatch):
    start, make_pods, decisions, edited, broken, refused, make_loner = blocks
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig()))
    monkeypatch.setenv("PATH", str(control_plane.assets), prepend=":")
    control_plane.create(node("kind-control-plane", cpu="8", memory="16Gi", labels={"kubernetes.io/hostname": "kind-control-plane"}))
    policy, output = copy / "policy.json", copy / "output"
    shipped = policy.read_text()
    deleted, name, typo = (re.search(pattern, README.words)[1] for pattern in (
        r"Delete the line `(.*?)`", r"fix it.\*\* Change `(.*?)`", r"fix it.\*\* Change `.*?` to `(.*?)`"))
    server = f" --server {control_plane.server}"
    elsewhere = {"kubectl proxy &": "", "scheduler.py": f"scheduler.py{server}"}
    if EXTRAS.is_dir():
        shutil.copytree(EXTRAS, copy / "scheduler_extras")

    with terminal(start, output, copy, **elsewhere):
        greeting = re.search("begins with `(.*?)`", README.words)[1].replace("http://127.0.0.1:8001", control_plane.server)
        wait_for("the greeting", lambda: output.read_text().startswith(greeting))
        paste(make_pods)
        wait_for_lines(decisions, output)
        policy.write_text(shipped.replace(deleted, ""))
        wait_for_lines(edited, output)
        policy.write_text(shipped.replace(deleted, "").replace(name, typo))
        wait_for_lines(broken, output)
        policy.write_text(shipped)
        wait_for_lines(re.search(r"The script confirms:\s`(.*?)`", README.words)[1], output)
        edit(policy, *CHANGE.search(README.words, README.words.index("**4. Ask")).groups())
        if EXTRAS.is_dir():
            wait_for("the error names the command", lambda: refused.strip() in output.read_text().replace(server, ""))
    if EXTRAS.is_dir():
        command = re.search(r"start `(.*?)`", README.words)[1]
        with terminal(f"{command}{server}", output, copy):
            paste(make_loner)
            wait_for("loner stays pending", lambda: "default/loner stays pending: 0/1 nodes are available: "
                     "1 node(s) didn't match pod affinity/anti-affinity" in output.read_text())
    assert control_plane.placements() == {"default/hello": "kind-control-plane", "default/picky": "kind-control-plane"}


def test_the_links_are_not_broken():
    broken = README.broken_links()
    assert [link for link in broken if EXTRAS.is_dir() or not link.startswith("scheduler_extras/")] == []


def test_every_block_is_tested():
    assert README.untested() == [] and len(README.tested) > 10
