"""The README's promises: all that it shows runs as it stands there, and does what the text says."""

import ast
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from importlib import metadata

import pytest
from helpers.everything import scheduler
import yaml
from helpers.control_plane import free_port, wait_for
from helpers.extras import ROOT, node, on_any_machine, pod, run_afresh, run_scheduler, table
from extras.test_policy import DIFFERENT_ON_PURPOSE

README = (ROOT / "README.md").read_text()
RULES = (ROOT / "scheduler_extras" / "README.md").read_text()
MANIFESTS = (ROOT / "scheduler_extras" / "examples" / "my-scheduler.yaml").read_text()
BLOCK = re.compile(r"^```\w+\n((?:.*\n)*?)```$|^(    .*\n(?:\n*    .*\n)*)", re.M)
PASTED = []  # the blocks that tests have asked for
NOTICES = "default/.* is placed, though it |kube-scheduler might delete less |.*: not named here, so not asked$"


def text_of(match):
    """The text of a block, as a reader copies it."""
    return match[1] or textwrap.dedent(match[2]).strip() + "\n"


def pastes(*before, page=README):
    """Hand to a test the blocks that come next after these texts."""
    blocks = [text_of(BLOCK.search(page, page.index(text))) for text in before]
    PASTED.extend(blocks)
    return pytest.mark.parametrize("blocks", [blocks], ids=["as it stands"])


def here(commands, **elsewhere):
    """Return commands as they run on this machine: with its Python, and with what is `elsewhere` than in the README."""
    for there, place in {**elsewhere, ".venv/bin/python": sys.executable}.items():
        commands = commands.replace(there, place)
    return ["bash", "-e", "-o", "pipefail", "-c", commands]


def paste(commands, said=NOTICES, **elsewhere):
    """Paste commands into a shell; return what they print. All lines beside that have to begin like `said`."""
    run = subprocess.run(here(commands, **elsewhere), capture_output=True, text=True, cwd=ROOT, timeout=600)
    lines = on_any_machine(run.stderr).splitlines()
    assert run.returncode == 0 and all(re.match(said, line) for line in lines), (commands, run)
    return run.stdout


EDIT = r"In\s`([^`]+)`,\schange\s`([^`]+)`\sto\s`([^`]+)`(?:\sin\sall\sfour\spods)?\.\sRun\sit\sagain"  # file, what is there, what is to be there


def run_exercise(number, command, folder):
    """Run an exercise's command, and again after each edit that the README asks for; return what was printed."""
    [text] = re.findall(rf"^\*\*{number}\. (?s:.*?)(?=^\*\*|^#)", README, re.M)
    lesson = folder / "lesson"
    paste(LESSON, **{" lesson": f" {lesson}"})
    printed = [paste(command, **{"lesson/": f"{lesson}/"})]
    for file, there, wanted in re.findall(EDIT, text):
        path = folder / file
        before = path.read_text()
        assert there in before, f"{file} has no {there}"
        path.write_text(before.replace(there, wanted))
        printed.append(paste(command, **{"lesson/": f"{lesson}/"}))
    return printed


def shows(text, output):
    """Say whether an output has a text in which lines with three dots stand for any."""
    return re.search(".*".join(map(re.escape, re.split(r"^ *\.\.\.\n", text, flags=re.M))), output, re.S)


def places(output):
    """Where the pods went, by the lines for people."""
    return dict(re.findall(r"^default/(\S+) -> (\S+) ", output, re.M))


LESSON = text_of(BLOCK.search(README, README.index("Make copies that you may edit")))
PASTED.append(LESSON)


@pastes("**1. ")
def test_exercise_1_taints(blocks, tmp_path):
    before, after = run_exercise(1, blocks[0], tmp_path)
    assert places(before) == places(after) == {"batch": "steady"}
    assert re.search(r"^  ✗ spot +PodToleratesNodeTaints", before, re.M)
    assert re.search(r"^ +\* steady +spot$", after, re.M)
    assert re.search(r"^  TaintTolerationPriority +0→100×1 +1→0×1$", after, re.M)
    [(steady, spot)] = re.findall(r"^  Total +(\d+) +(\d+)$", after, re.M)
    assert int(spot) < int(steady) < int(spot) + 100, "the taint decides it"
    assert f"`steady` wins by {steady} to {spot}" in README


@pastes("**2. ")
def test_exercise_2_resources(blocks, tmp_path):
    before, after = run_exercise(2, blocks[0], tmp_path)
    assert len(set(places(before).values())) == 3 and "default/whole stays pending" in before
    assert len(places(after)) == 4 and len(set(places(after).values())) == 2


@pastes("**3. ")
def test_exercise_3_affinity(blocks, tmp_path):
    before, after = run_exercise(3, blocks[0], tmp_path)
    said = run_scheduler("--cluster", ROOT / "scheduler_extras/examples/affinity.yaml").stderr
    assert said.endswith("anti-affinity, and MatchInterPodAffinity, which looks at that, is not active\n")
    assert places(before) == {"web-1": "big", "web-2": "big"}
    assert places(after) == {"web-1": "big", "web-2": "little"}


@pastes("**4. ")
def test_exercise_4_spreading(blocks, tmp_path):
    before, after = run_exercise(4, blocks[0], tmp_path)
    assert places(before).keys() == {"web-1", "web-2", "web-3"}
    assert ("default/web-4 stays pending: 0/2 nodes are available: 1 Too many pods, 1 node(s) didn't match pod "
            "topology spread constraints.") in before
    assert places(after)["web-4"] == "east-1"
    [weight] = re.search(r"`NodePreferAvoidPodsPriority`.* (\d+)\.\)", README).groups()
    [rule] = [rule for rule in scheduler.read_policy(scheduler.providers()["DefaultProvider"]).priorities
              if rule.name == "NodePreferAvoidPodsPriority"]
    assert rule.weight == int(weight) and all(1_000_000 <= int(score) < 1_001_000 for score in re.findall(r"score (\d+)", before + after))


@pastes("**5. ")
def test_exercise_5_a_rule_of_ones_own(blocks, tmp_path):
    before, after = run_exercise(5, blocks[0], tmp_path)
    assert places(before) == {"shop": "cloud", "telescope": "cloud"}
    assert places(after) == {"shop": "cloud", "telescope": "edge"}


@pastes("**6. ")
def test_exercise_6_preemption(blocks, tmp_path):
    before, free, protected = run_exercise(6, blocks[0], tmp_path)
    assert places(before) == {}
    text = " ".join(free.split())
    assert "It preempts default/backup, default/cleanup on right, where the most important of these matters least." in text
    assert places(free) == places(protected) == {"payment": "right"}
    assert "It preempts default/report on right, where the most important of these matters least." in protected
    assert "\n    +payment, backup, cleanup\n" in protected and "cleanup" not in free.partition("NODE ")[2]


@pastes("## What a scheduler does", "And this is `schedule`")
def test_the_code_that_it_shows_is_the_scripts_own(blocks):
    """All of it: a function that has changed is to be copied anew."""
    for text in blocks:
        name = re.match(r"def (\w+)", text)[1]
        assert text.rstrip() == inspect.getsource(getattr(scheduler, name)).rstrip(), name


def test_the_decision_by_hand_is_the_one_that_the_first_command_prints():
    [part] = re.findall(r"\*\*One decision by hand\.(?s:.*?)\n## ", README)
    first, explained = (run_scheduler("--cluster", ROOT / "scheduler_extras/examples/demo.yaml", *more).stdout
                        for more in ([], ["--explain"]))
    assert re.search("`(default/ingress-1 -> .*?)`", part)[1] in first.splitlines()
    [table] = re.findall(r"^default/ingress-1 -> (?s:.*?)\n\n", explained, re.M)
    for line, node_b, node_a in re.findall(r"^\| `(\w+)`.*?\*\*(\d+)\*\*.*?\*\*(\d+)\*\*", part, re.M):
        assert re.search(rf"^  {line} +(\d→)?{node_b}×\d +(\d→)?{node_a}×\d$", table, re.M), line
    for terms, total in re.findall(r"([\d×+ ]+) = \*\*(\d+)\*\*", part):
        assert eval(terms.replace("×", "*")) == int(total)
        assert re.search(rf"^  Total .*\b{total}\b", table, re.M)
    assert len(re.findall(r"^\| `\w+`", part, re.M)) == 4


@pastes("## See it work", "## Tests")
def test_it_is_installed_by_one_command(blocks, tmp_path):
    """All but the download, which CI makes by the second."""
    for command in blocks:
        install, last = re.fullmatch(
            r"python3 -m venv .venv && .venv/bin/pip install -q (.*) && (.*\n)", command).groups()
        assert all((ROOT / file).is_file() for file in install.replace("-r ", "").split())
        paste(re.sub("-m pytest .*", "-m pytest --version", last))
    assert "tests/requirements.txt" in install and re.search("-m pytest -q .* tests$", last)


@pastes("## See it work", "It prints each decision, then")
def test_the_picture_that_it_shows_is_what_its_command_prints(blocks):
    first, picture = blocks
    assert shows(picture, paste(first.split(" && ")[-1].strip()))


def test_the_lesson_takes_45_minutes_and_all_that_it_names_is_there():
    [lesson] = re.findall(r"^\*\*The lesson\.\*\* (.*\n(?:.+\n)+)", README, re.M)
    assert sum(int(minutes) for minutes in re.findall(r"\((\d+)\b", lesson)) == 45
    exercises = re.findall(r"exercise\s(\d)|does (\d) and (\d)", lesson)
    assert len(exercises) == 5 and "## A lesson of 45 minutes" in README
    assert all(f"**{number}. " in README for numbers in exercises for number in numbers if number)
    options = set(re.findall("--[a-z]+", lesson))
    assert options and options <= set(re.findall("--[a-z]+", run_scheduler("--help").stdout))


@pastes("**As a page.**")
def test_the_page_is_made_by_its_command(blocks, tmp_path):
    paste(blocks[0], **{" demo.html": f" {tmp_path}/demo.html"})
    assert (tmp_path / "demo.html").read_text().startswith("<!DOCTYPE html>")


def test_the_shipped_policy_is_for_teaching_and_what_stands_for_the_defaults_is_that():
    shipped = json.loads((ROOT / "policy.json").read_text())
    assert "it names seven predicates and four priorities" in README
    assert [len(shipped[where]) for where in ("predicates", "priorities")] == [7, 4]
    [policy] = re.findall(r"A Policy that leaves out both lists means the same:\s`(.*?)`", README)
    meant, default = (scheduler.read_policy(each) for each in (json.loads(policy), scheduler.providers()["DefaultProvider"]))
    assert scheduler.lines_of(meant) == scheduler.lines_of(default)


def test_it_is_read_in_a_few_minutes():
    assert len(README.split()) <= 2200


@pastes("## The Policy", page=RULES)
def test_the_policy_that_it_shows_loads_and_a_typo_is_pointed_out(blocks, tmp_path):
    [policy] = blocks
    [said] = re.findall(r"A line\s+says where:\s+`(.*)`$", RULES, re.M)
    (tmp_path / "policy.json").write_text(policy)
    arguments = ["--cluster", ROOT / "scheduler_extras/examples/demo.yaml", "--policy", "policy.json"]
    assert run_scheduler(*arguments, cwd=tmp_path).returncode == 0 and '"PodFitsResources"' in policy
    (tmp_path / "policy.json").write_text(policy.replace('"PodFitsResources"', '"PodFitsResource"'))
    assert run_scheduler(*arguments, cwd=tmp_path).stderr == f"{said}\n"


def test_it_says_which_names_are_accepted_though_kube_scheduler_rejects_them():
    kept = [name for name in DIFFERENT_ON_PURPOSE if name.startswith("removed-")]
    assert kept and {name.removeprefix("removed-") for name in kept} <= {*scheduler.SAID_BY_TAINTS}
    assert len(scheduler.SAID_BY_TAINTS) == 5 and "rejected, but for the five names in the next table's last row" in RULES
    *_, last = re.search(r"^\| predicate \|.*\n((?:\|.*\n)+)", RULES, re.M)[1].splitlines()
    assert re.findall("`(.*?)`", last) == scheduler.SAID_BY_TAINTS


def test_the_random_policy_spreads_pods_at_random(tmp_path):
    [members] = re.findall(r"With `(.*?)` you have the random scheduler", RULES)
    (tmp_path / "policy.json").write_text(f'{{"kind": "Policy", "apiVersion": "v1", {members}}}')
    places = {run_scheduler("--cluster", ROOT / "scheduler_extras/examples/demo.yaml", "--policy", tmp_path / "policy.json",
                            f"--seed={seed}").stdout for seed in range(5)}
    assert len(places) == 5


def own_rules(folder, rules):
    """Set up a folder as the chapter on rules of one's own says."""
    policy, profile = (text_of(BLOCK.search(README, README.index(text)))
                       for text in ("A list in a Policy **replaces**", "A profile of a KubeSchedulerConfiguration **adds**"))
    (folder / "my_rules.py").write_text(rules)
    (folder / "policy.json").write_text(policy)
    (folder / "config.yaml").write_text(profile)
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": [
        node("a", labels={"closed": "yes"}), node("b"), node("c", labels={"zone": "east"}), pod("p")]}))


@pastes("This is all of", "A list in a Policy **replaces**", "A profile of a KubeSchedulerConfiguration **adds**")
def test_the_shortest_rules_work_beside_all_defaults(blocks, tmp_path, monkeypatch):
    assert len(blocks[0].splitlines()) < 15 and ast.parse(blocks[0])
    own_rules(tmp_path, blocks[0])
    for file, provider in {"policy.json": "DefaultProvider", "config.yaml": None}.items():
        run = run_scheduler("--plugins", "my_rules.py", "--policy", file, "--cluster", "cluster.json",
                            "--output=json", cwd=tmp_path)
        decision = json.loads(run.stdout)
        assert decision["failed"] == {"a": ["node(s) were closed"]}
        scores = decision["scores"]
        assert scores.pop("PreferZone") == {"b": 0, "c": 200}
        (tmp_path / "default.yaml").write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
        run = run_scheduler("--policy", provider or "default.yaml", "--cluster", "cluster.json", "--output=json", cwd=tmp_path)
        plain = json.loads(run.stdout)["scores"]
        assert scores.keys() == plain.keys() and all(scores[rule] == {name: plain[rule][name] for name in "bc"} for rule in plain)


def test_ones_own_rules_beside_the_defaults_have_a_pod_of_the_demo_go_elsewhere(tmp_path):
    own_rules(tmp_path, text_of(BLOCK.search(README, README.index("This is all of"))))
    demo = ROOT / "scheduler_extras" / "examples" / "demo.yaml"
    by_defaults, with_ours = [run_scheduler("--cluster", demo, *arguments, cwd=tmp_path).stdout for arguments in (
        ["--policy", "DefaultProvider"], ["--plugins", "my_rules.py", "--policy", "policy.json"])]
    assert [places(said)["web-1"] for said in (by_defaults, with_ours)] == ["node-b", "node-a"]
    assert places(by_defaults)["training"] == "node-gpu" and "training" not in places(with_ours)
    assert re.search("default/training stays pending: .*1 node.s. were closed", with_ours)
    assert re.search(r"`web-1` of the demo goes to `node-a`. `training` stays pending: `node-gpu` is\s`closed`", README)


def test_the_policy_with_ones_own_rules_names_all_defaults(tmp_path):
    own_rules(tmp_path, "")
    said = yaml.safe_load((tmp_path / "policy.json").read_text())
    for where in ("predicates", "priorities"):
        said[where] = [entry for entry in said[where] if entry["name"] not in ("OnlyOpenNodes", "PreferZone")]
    ours, defaults = map(scheduler.read_policy, (said, {"kind": "Policy", "apiVersion": "v1"}))
    assert {rule.name for rule in ours.predicates} == {rule.name for rule in defaults.predicates}
    assert sorted((rule.title, rule.weight) for rule in ours.priorities) == sorted(
        (rule.title, rule.weight) for rule in defaults.priorities)


@pastes("This is all of")
def test_a_script_beside_the_schedulers_may_call_it(blocks, tmp_path):
    own_rules(tmp_path, "import scheduler_extras\n" + blocks[0].replace("from scheduler import", "from scheduler_extras import") + "scheduler_extras.main()\n")
    shutil.copy(ROOT / "scheduler.py", tmp_path)
    shutil.copytree(ROOT / "scheduler_extras", tmp_path / "scheduler_extras")
    run = run_afresh("--cluster", "cluster.json", script="my_rules.py", cwd=tmp_path)
    assert run.stdout.startswith("default/p -> c "), run.stderr


@table("thing", {"pod": scheduler.FullPod(pod("p")), "node": scheduler.FullNode(node("n"))})
def test_pods_and_nodes_have_the_attributes_that_it_names(thing, request):
    kind = request.node.callspec.id
    [text] = re.findall(rf"^- (`{kind}\.[^;]*?)[;.]$", RULES, re.M | re.S)
    names = re.findall("`([a-z_]+)`", text.replace(f"{kind}.", ""))
    assert len(names) > 8 and [name for name in names if not hasattr(thing, name)] == []
    amounts = json.loads(re.search(r"millicores and bytes, `(.*?)`", RULES)[1])
    asking = scheduler.FullPod(pod("p", {"cpu": "500m", "memory": "1Gi"}))
    assert amounts.items() <= asking.requests.items()


@pastes("## KubeSchedulerConfiguration", page=RULES)
def test_the_configuration_that_it_shows_loads(blocks, tmp_path):
    (tmp_path / "config.yaml").write_text(blocks[0])
    spreading, packing = scheduler.load_policies(tmp_path / "config.yaml", "x").values()
    assert "MostRequestedPriority" in [rule.name for rule in packing.priorities]
    assert "ImageLocalityPriority" not in [rule.name for rule in packing.priorities]
    assert len(spreading.priorities) == 7


@pytest.fixture
def shell(control_plane, monkeypatch):
    """A shell with a kubectl for the control plane; what is started in the background there is stopped at the end."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig()))
    monkeypatch.setenv("PATH", str(control_plane.assets), prepend=os.pathsep)
    started, port = [], free_port()
    elsewhere = {"kubectl wait ": "kubectl wait --timeout=300s ", "kubectl proxy": f"kubectl proxy --port={port}",
                 "csistoragecapacities,": "",  # which this API server, 1.20, does not have
                 "python scheduler_extras ": f"python scheduler_extras --server http://127.0.0.1:{port} ",
                 "python scheduler_extras\n": f"python scheduler_extras --server http://127.0.0.1:{port}\n"}

    def run(commands, output=None, said=NOTICES, cwd=ROOT):
        """Run commands to their end; or start them, if there is a file that takes their output."""
        if not output:
            return paste(commands, said, **elsewhere)
        with open(output, "wb") as file:
            started.append(subprocess.Popen(here(commands, **elsewhere), cwd=cwd, start_new_session=True,
                                            stdout=file, stderr=subprocess.STDOUT, env=os.environ | {"PYTHONUNBUFFERED": "1"}))
        return None

    yield run
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pastes("**Your own manifests", "2. `--explain POD` says it")
def test_its_commands_tell_of_the_pods_of_a_cluster(blocks, shell, control_plane):
    copy, explain = blocks
    control_plane.create(node("n", labels={"disk": "hdd"}), node("small", pods="0", labels={"disk": "ssd"}), pod("picky", nodeSelector={"disk": "ssd"}))
    said = shell("kubectl proxy & trap 'kill $!' EXIT; sleep 1; " + explain)
    assert re.search(r"^  ✗ n +MatchNodeSelector: .*\n +n \(disk In \[ssd\]: has disk=hdd\)$", said, re.M), said
    assert "NODE" in shell(copy)


@pastes("## Ten minutes beside", "It says what it does", "make a pod that names", "says where it goes", "that no node has",
        "The first terminal says why", "**Edit policy.json while", "The last good rules stay, and", "Mend it, and put", "Have it made anew")
def test_ten_minutes_beside_kubectl_proxy(blocks, shell, control_plane, tmp_path):
    start, greeting, make_hello, hello, make_picky, picky, without, broken, mended, make_anew = blocks
    for name in ("scheduler.py", "policy.json"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "scheduler_extras", tmp_path / "scheduler_extras")
    policy, output = tmp_path / "policy.json", tmp_path / "output"
    shipped = policy.read_text()
    line, typo, name = re.search(r"Delete the\sline `(.*?)`(?s:.*?)write `(.*?)` for\s`(.*?)`", README).groups()
    assert shipped.count(line) == shipped.count(name) == 1
    control_plane.create(node("kind-control-plane", cpu="8", memory="16Gi"))

    def says(block):
        """Wait until the first terminal has each line of a block."""
        for each in block.splitlines():
            pattern = f"^{re.escape(each)}$".replace(":8001", r":\d+")
            wait_for(f"it says {each}", lambda: re.search(pattern, output.read_text(), re.M))

    shell(start, output, cwd=tmp_path)
    says(greeting)
    assert "pod/hello condition met" in shell(make_hello)
    says(hello)
    shell(make_picky)
    says(picky)
    policy.write_text(shipped.replace(line, ""))
    says(without)
    warning = "picky is placed, though it has a node selector, and MatchNodeSelector, which looks"
    wait_for("it warns", lambda: warning in output.read_text())
    policy.write_text(shipped.replace(line, "").replace(name, typo))
    says(broken)
    policy.write_text(shipped)
    says(mended)
    before = len(output.read_text())
    shell(make_anew.replace("delete pod picky", "delete pod picky --force 2> /dev/null"))  # no kubelet ends it
    wait_for("it is pending again", lambda: picky.strip() in output.read_text()[before:])
    assert control_plane.events("Scheduled")[0] == (
        "default/hello", "Successfully assigned default/hello to kind-control-plane", "my-scheduler")


@pastes("## In the cluster", "Then the Policy", "Then two replicas", page=RULES)
def test_its_manifests_are_accepted_and_the_policy_is_updated(blocks, shell):
    image, policy, apply = blocks
    own = re.sub("--from-literal=policy.json='.*?'", "--from-file=policy.json", policy)
    defaults, shipped = '{"kind": "Policy", "apiVersion": "v1"}', (ROOT / "policy.json").read_text()
    for command, expected in (policy, defaults), (own, shipped):
        shell(command)
        data = json.loads(shell("kubectl -n kube-system get configmap my-scheduler -o json"))["data"]
        assert data == {"policy.json": expected}, "and no code, which who may edit it could run"
    assert shell(apply).count(" created\n") == 6
    shell("kubectl -n kube-system delete configmap my-scheduler")
    shell(apply.replace("apply", "delete --wait=false"))
    assert set(re.findall(r"/policy/([\w.]+)", MANIFESTS)) == data.keys()
    packed = dict(re.findall(r"^COPY (\S+) (/code/\S*)$", image, re.M))
    assert packed == {"scheduler.py": "/code/", "scheduler_extras": "/code/scheduler_extras"}
    assert set(re.findall(r"/code/([\w.]+)", MANIFESTS)) == {"scheduler_extras"}


def test_its_image_has_every_package_at_one_version():
    """As pip installs them: those that the script needs, and those that they need."""
    [packages] = re.findall("RUN pip install --no-cache-dir (.*)", RULES)
    pinned = dict(package.split("==") for package in packages.split())
    needed = {re.match("[a-z0-9-]+", line)[0] for line in (ROOT / "requirements.txt").read_text().splitlines()}
    for name in [*needed]:
        texts = [text for text in metadata.requires(name) or () if "extra ==" not in text]
        needed |= {re.match("[a-z0-9-]+", text.lower().replace("_", "-"))[0] for text in texts}
    assert pinned.keys() == needed


def test_the_demo_can_be_made_on_a_cluster(shell, control_plane):
    assert shell("kubectl apply -f scheduler_extras/examples/demo.yaml").count(" created\n") == 14
    run_scheduler("--server", control_plane.server, "--once")
    assert len(control_plane.places()) == 8 and "default/warehouse" not in control_plane.places()


@pastes("## What is where", page=RULES)
def test_what_is_where_is_there(blocks):
    words = {line.split(":")[0]: line.split(":")[1] for line in blocks[0].splitlines() if ":" in line}
    modules = re.findall(r"\w+", words["modules"].partition("(")[0])
    for name in re.findall(r"\w+", words["functions"].replace("LiveCluster.bind", "LiveCluster")):
        paths = [ROOT / "scheduler.py", *((ROOT / "scheduler_extras" / folder / f"{module}.py") for folder in ("api", "live") for module in modules)]
        assert any(re.search(rf"^ *(def|class) {name}\b", path.read_text(), re.M) for path in paths if path.exists()), name
    folders = re.findall(r"^\| (`.*?`) \|", RULES.partition("## What is where")[2].partition("\n## ")[0], re.M)
    there = {path.stem for path in (ROOT / "scheduler_extras").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {name.strip("/") for names in folders for name in re.findall(r"`(.*?)`", names)} == there - {"__init__", "__main__"}


def test_no_block_is_left_out():
    blocks = [text_of(match) for page in (README, RULES) for match in BLOCK.finditer(page)]
    assert [text for text in blocks if text not in PASTED] == []
    assert len(set(PASTED)) == len(blocks) > 15


@pytest.mark.parametrize("point", [
    "PreEnqueue", "QueueSort", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore", "Reserve",
    "Unreserve", "Permit", "PreBind", "Bind", "PostBind", "EnqueueExtensions"])
def test_every_extension_point_has_its_row(point):
    assert re.search(rf"^\| ([A-Za-z]+, )*{point}(, [A-Za-z]+)* \|", RULES, re.M)


@pytest.mark.parametrize("option", scheduler.EXTENSION_POINTS)
def test_its_table_says_of_an_extension_point_what_the_scripts_own_says(option):
    point = scheduler.EXTENSION_POINTS[option]
    call = f"`{option}({', '.join(point.parameters.split())})`"
    [(names, answers)] = re.findall(rf"^\| ([^|]*) \| [^|]*{re.escape(call)}[^|]* \| (.*) \|$", RULES, re.M)
    assert point.in_configuration.lower() in names.lower().split(", ")
    assert point.answer == "anything" or point.answer in answers
