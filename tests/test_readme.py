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
import scheduler
from conftest import ROOT, free_port, node, on_any_machine, pod, run_afresh, run_scheduler, table, wait_for
from test_policy import DIFFERENT_ON_PURPOSE

README = (ROOT / "README.md").read_text()
MANIFESTS = (ROOT / "tests" / "my-scheduler.yaml").read_text()
BLOCK = re.compile(r"^```\w+\n((?:.*\n)*?)```$|^(    .*\n(?:\n*    .*\n)*)", re.M)
PASTED = []  # the blocks that tests have asked for
NOTICES = "default/.* is placed, though it |.*: always on, though not among the predicates: |.*: not named here, so not asked$"


def text_of(match):
    """The text of a block, as a reader copies it."""
    return match[1] or textwrap.dedent(match[2]).strip() + "\n"


def pastes(*before):
    """Hand to a test the blocks that come next after these texts."""
    blocks = [text_of(BLOCK.search(README, README.index(text))) for text in before]
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


def run_exercise(commands, folder):
    """Run an exercise's commands; return what each of them printed."""
    return [paste(command, **{"/tmp/": f"{folder}/"}) for command in commands.splitlines()]


def shows(text, output):
    """Say whether an output has a text in which lines with three dots stand for any."""
    return re.search(".*".join(map(re.escape, re.split(r"^ *\.\.\.\n", text, flags=re.M))), output, re.S)


def places(output):
    """Where the pods went, by the lines for people."""
    return dict(re.findall(r"^default/(\S+) -> (\S+) ", output, re.M))


@pastes("**1. ")
def test_exercise_1_taints(blocks, tmp_path):
    before, after = run_exercise(blocks[0], tmp_path)
    assert places(before) == places(after) == {"batch": "steady"}
    assert re.search(r"^  ✗ spot +PodToleratesNodeTaints", before, re.M)
    assert re.search(r"^ +\* steady +spot$", after, re.M)
    assert re.search(r"^  TaintTolerationPriority +0→100×1 +1→0×1$", after, re.M)
    [(steady, spot)] = re.findall(r"^  Total +(\d+) +(\d+)$", after, re.M)
    assert int(spot) < int(steady) < int(spot) + 100, "the taint decides it"


@pastes("**2. ")
def test_exercise_2_resources(blocks, tmp_path):
    [comparison] = run_exercise(blocks[0], tmp_path)
    assert re.search(r"^default/whole +<none> +node-\d$", comparison, re.M)
    assert re.search(r"^pods that fit +3 of 4 +4 of 4$", comparison, re.M)


@pastes("**3. ")
def test_exercise_3_affinity(blocks, tmp_path):
    before, after = run_exercise(blocks[0], tmp_path)
    said = run_scheduler("--cluster", ROOT / "tests/clusters/affinity.yaml").stderr
    assert said.endswith("anti-affinity, and MatchInterPodAffinity, which looks at that, is not active\n")
    assert places(before) == {"web-1": "big", "web-2": "big"}
    assert places(after) == {"web-1": "big", "web-2": "little"}
    assert re.search(r"^  ✗ big +MatchInterPodAffinity", after, re.M)


@pastes("**4. ")
def test_exercise_4_spreading(blocks, tmp_path):
    before, after = run_exercise(blocks[0], tmp_path)
    assert places(before).keys() == {"web-1", "web-2", "web-3"}
    assert ("default/web-4 stays pending: 0/2 nodes are available: 1 Too many pods, 1 node(s) didn't match pod "
            "topology spread constraints.") in before
    assert places(after)["web-4"] == "east-1"
    [weight] = re.search(r"A score is about a million here, as `NodePreferAvoidPodsPriority`.* (\d+)\.\)", README).groups()
    [rule] = [rule for rule in scheduler.read_policy(scheduler.providers()["DefaultProvider"]).priorities
              if rule.name == "NodePreferAvoidPodsPriority"]
    assert rule.weight == int(weight) and all(1_000_000 <= int(score) < 1_001_000 for score in re.findall(r"score (\d+)", before + after))


@pastes("**5. ")
def test_exercise_5_a_rule_of_ones_own(blocks, tmp_path):
    before, _, after = run_exercise(blocks[0], tmp_path)
    assert places(before) == {"shop": "cloud", "telescope": "cloud"}
    assert places(after) == {"shop": "cloud", "telescope": "edge"}
    assert re.search(r"^  ✗ cloud +SpaceCloud: node\(s\) were not at the edge$", after, re.M)


@pastes("**6. ")
def test_exercise_6_preemption(blocks, tmp_path):
    _, free, protected = run_exercise(blocks[0], tmp_path)
    text = " ".join(free.split())
    assert "It preempts default/backup, default/cleanup on right, where they matter least." in text
    assert places(free) == places(protected) == {"payment": "right"}
    assert "It preempts default/report on right, where they matter least." in protected
    assert "\n    +payment, backup, cleanup\n" in protected and "cleanup" not in free.partition("NODE ")[2]


@pastes("## What a scheduler does")
def test_the_code_that_it_shows_is_the_scripts_own(blocks):
    """Lines with three dots stand for any; a function that has changed is to be copied anew."""
    for text in re.split(r"\n\n(?=def )", blocks[0].strip()):
        name = re.match(r"def (\w+)", text)[1]
        source = inspect.getsource(getattr(scheduler, name))
        assert shows(f"{text}\n", source), f"{name}, as the script has it:\n{source}"


def test_the_decision_by_hand_is_the_one_that_the_first_command_prints():
    [part] = re.findall(r"\*\*One decision by hand\.(?s:.*?)\n## ", README)
    first, explained = (run_scheduler("--cluster", ROOT / "tests/clusters/demo.yaml", *more).stdout
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


@pastes("## See it work", "This is what it prints")
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


@pastes("## The Policy")
def test_the_policy_that_it_shows_loads_and_a_typo_is_pointed_out(blocks, tmp_path):
    [policy] = blocks
    [said] = re.findall(r"A line\s+says where: `(.*)`$", README, re.M)
    (tmp_path / "policy.json").write_text(policy)
    arguments = ["--cluster", ROOT / "tests/clusters/demo.yaml", "--policy", "policy.json"]
    assert run_scheduler(*arguments, cwd=tmp_path).returncode == 0 and '"PodFitsResources"' in policy
    (tmp_path / "policy.json").write_text(policy.replace('"PodFitsResources"', '"PodFitsResource"'))
    assert run_scheduler(*arguments, cwd=tmp_path).stderr == f"{said}\n"


def test_it_says_which_names_are_accepted_though_kube_scheduler_rejects_them():
    kept = [name for name in DIFFERENT_ON_PURPOSE if name.startswith("removed-")]
    assert kept and {name.removeprefix("removed-") for name in kept} <= {*scheduler.SAID_BY_TAINTS}
    assert len(scheduler.SAID_BY_TAINTS) == 5 and "rejected, but for the five names in the next table's last row" in README
    *_, last = re.search(r"^\| predicate \|.*\n((?:\|.*\n)+)", README, re.M)[1].splitlines()
    assert re.findall("`(.*?)`", last) == scheduler.SAID_BY_TAINTS


def test_the_random_policy_spreads_pods_at_random(tmp_path):
    [members] = re.findall(r"With `(.*?)` you have the random scheduler", README)
    (tmp_path / "policy.json").write_text(f'{{"kind": "Policy", "apiVersion": "v1", {members}}}')
    places = {run_scheduler("--cluster", ROOT / "tests/clusters/demo.yaml", "--policy", tmp_path / "policy.json",
                            f"--seed={seed}").stdout for seed in range(5)}
    assert len(places) == 5


def own_rules(folder, rules):
    """Set up a folder as the chapter on rules of one's own says."""
    closed, east = (re.search(r"Name them in the Policy, as `(.*?)` and\s`(.*?)`", README)).groups()
    (folder / "my_rules.py").write_text(rules)
    (folder / "policy.json").write_text(
        f'{{"kind": "Policy", "apiVersion": "v1", "predicates": [{closed}], "priorities": [{east}]}}')
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": [
        node("a", labels={"closed": "yes"}), node("b"), node("c", labels={"zone": "east"}), pod("p")]}))


@pastes("This is all of")
def test_the_shortest_rules_work_as_they_stand(blocks, tmp_path):
    assert len(blocks[0].splitlines()) < 15 and ast.parse(blocks[0])
    own_rules(tmp_path, blocks[0])
    run = run_scheduler("--plugins", "my_rules.py", "--policy", "policy.json", "--cluster", "cluster.json",
                        "--output=json", cwd=tmp_path)
    decision = json.loads(run.stdout)
    assert run.stderr == ("policy.json: always on, though not among the predicates: CheckNodeUnschedulable, "
                          "PodToleratesNodeTaints\n")
    assert decision["failed"] == {"a": ["node(s) were closed"]}
    assert decision["scores"] == {"PreferZone": {"b": 0, "c": 200}}


@pastes("This is all of")
def test_a_script_beside_the_schedulers_may_call_it(blocks, tmp_path):
    own_rules(tmp_path, f"import scheduler\n{blocks[0]}scheduler.command_line()\n")
    shutil.copy(ROOT / "scheduler.py", tmp_path)
    run = run_afresh("--cluster", "cluster.json", script="my_rules.py", cwd=tmp_path)
    assert run.stdout.startswith("default/p -> c "), run.stderr


@table("thing", {"pod": scheduler.Pod(pod("p")), "node": scheduler.Node(node("n"))})
def test_pods_and_nodes_have_the_attributes_that_it_names(thing, request):
    kind = request.node.callspec.id
    [text] = re.findall(rf"^- (`{kind}\.[^;]*?)[;.]$", README, re.M | re.S)
    names = re.findall("`([a-z_]+)`", text.replace(f"{kind}.", ""))
    assert len(names) > 8 and [name for name in names if not hasattr(thing, name)] == []
    amounts = json.loads(re.search(r"millicores and bytes, `(.*?)`", README)[1])
    asking = scheduler.Pod(pod("p", {"cpu": "500m", "memory": "1Gi"}))
    assert amounts.items() <= asking.requests.items()


@pastes("## KubeSchedulerConfiguration")
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
                 "scheduler.py ": f"scheduler.py --server http://127.0.0.1:{port} ",
                 "scheduler.py\n": f"scheduler.py --server http://127.0.0.1:{port}\n"}

    def run(commands, background=False, said=NOTICES):
        if not background:
            return paste(commands, said, **elsewhere)
        started.append(subprocess.Popen(here(commands, **elsewhere), cwd=ROOT, text=True, start_new_session=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield run
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pastes("**Your own manifests", "## Run it beside", "In a second terminal")
def test_its_commands_schedule_the_pods_of_a_cluster(blocks, shell, control_plane):
    copy, start, sample = blocks
    control_plane.create(node("n"), node("small", pods="0"))
    assert "NODE" in shell(copy, said="no pod waits for my-scheduler")
    running = shell(start, background=True)
    shown = shell(sample)
    assert re.search(r"^pod/hello condition met\n(?s:.*)default/hello is on n\. If scheduled now, by policy\.json:\n"
                     r"default/hello -> n (?s:.*)\n  ✗ small +PodFitsResources: Too many pods$", shown, re.M), shown
    serving, decided = running.stdout.readline(), running.stdout.readline()
    assert serving.startswith("Starting to serve on ") and decided.startswith("default/hello -> n ")
    wait_for("the event is there", lambda: control_plane.events("Scheduled") == [
        ("default/hello", "Successfully assigned default/hello to n", "my-scheduler")])


@pastes("## In the cluster", "Then the Policy", "Then two replicas")
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
    packed = set(re.findall(r"^COPY (\S+) /code/$", image, re.M))
    assert set(re.findall(r"/code/([\w.]+)", MANIFESTS)) == packed and all((ROOT / name).is_file() for name in packed)


def test_its_image_has_every_package_at_one_version():
    """As pip installs them: those that the script needs, and those that they need."""
    [packages] = re.findall("RUN pip install --no-cache-dir (.*)", README)
    pinned = dict(package.split("==") for package in packages.split())
    needed = {re.match("[a-z0-9-]+", line)[0] for line in (ROOT / "requirements.txt").read_text().splitlines()}
    for name in [*needed]:
        texts = [text for text in metadata.requires(name) or () if "extra ==" not in text]
        needed |= {re.match("[a-z0-9-]+", text.lower().replace("_", "-"))[0] for text in texts}
    assert pinned.keys() == needed


def test_the_demo_can_be_made_on_a_cluster(shell, control_plane):
    assert shell("kubectl apply -f tests/clusters/demo.yaml").count(" created\n") == 14
    run_scheduler("--server", control_plane.server, "--once")
    assert len(control_plane.places()) == 8 and "default/warehouse" not in control_plane.places()


def test_no_block_is_left_out():
    assert [text for text in map(text_of, BLOCK.finditer(README)) if text not in PASTED] == []
    assert len(set(PASTED)) == len(BLOCK.findall(README)) > 15


@pytest.mark.parametrize("point", [
    "PreEnqueue", "QueueSort", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore", "Reserve",
    "Unreserve", "Permit", "PreBind", "Bind", "PostBind", "EnqueueExtensions"])
def test_every_extension_point_has_its_row(point):
    assert re.search(rf"^\| ([A-Za-z]+, )*{point}(, [A-Za-z]+)* \|", README, re.M)


@pytest.mark.parametrize("option", scheduler.EXTENSION_POINTS)
def test_its_table_says_of_an_extension_point_what_the_scripts_own_says(option):
    point = scheduler.EXTENSION_POINTS[option]
    call = f"`{option}({', '.join(point.parameters.split())})`"
    [(names, answers)] = re.findall(rf"^\| ([^|]*) \| [^|]*{re.escape(call)}[^|]* \| (.*) \|$", README, re.M)
    assert point.in_configuration.lower() in names.lower().split(", ")
    assert point.expected in answers
