"""The commands and the code in the documents of the second program work as printed there, and have the described effects."""

import ast
import json
import re
import shutil
from importlib import metadata
from types import SimpleNamespace

import pytest
import requests
import yaml

from helpers.control_plane import free_port
from helpers.documents import CHANGE, Document, edit, paste, placements, terminal
from helpers.extras import run_scheduler
from helpers.policies import REPLACED_BY_TAINTS, names_in_policies
from helpers.script import ROOT, node, pod, run, scheduler, wait_for
from scheduler_extras.common.api_groups import CORE, GROUPS
from scheduler_extras.deciding.extension_points import EXTENSION_POINTS
from scheduler_extras.deciding.rule import PREDICATES, PRIORITIES
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.options import read_arguments
from scheduler_extras.serve.gauges import ClusterGauges
from scheduler_extras.serve.health import health_routes
from scheduler_extras.serve.metrics import Observations
from scheduler_extras.serve.process_metrics import process_metrics


EXTRAS = ROOT / "scheduler_extras"
MANUAL = Document("scheduler_extras/README.md")
PAGE = Document("scheduler_extras/docs/page.md")
LESSON = Document("scheduler_extras/docs/lesson.md")
RULES = Document("scheduler_extras/docs/rules.md")
OWN_RULES = Document("scheduler_extras/docs/own-rules.md")
IN_THE_CLUSTER = Document("scheduler_extras/docs/in-the-cluster.md")
METRICS = Document("scheduler_extras/docs/metrics.md")
PERFORMANCE = Document("scheduler_extras/docs/performance.md")
DESIGN = Document("scheduler_extras/docs/design.md")
TESTS = Document("tests/README.md")
ALL = {document.path.stem if document.path.stem != "README" else document.path.parent.name: document
       for document in (MANUAL, PAGE, LESSON, RULES, OWN_RULES, IN_THE_CLUSTER, METRICS, PERFORMANCE, DESIGN, TESTS)}
DEMO = "tests/demo.yaml"


def json_placements(done):
    """Return {pod: node} from the decisions of --output json."""
    decisions = [json.loads(line) for line in done.stdout.splitlines()]
    return {decision["pod"]: decision["node"] for decision in decisions}


def second_program(*arguments, cwd=ROOT):
    """Run the second program to its end."""
    return run_scheduler(*arguments, cwd=cwd)


# ---- the manual ----------------------------------------------------------------------------------------

@MANUAL.gives("Without a cluster, give it manifests", "that were placed in this run")
def test_the_table_of_nodes_matches_the_output(blocks):
    command, picture = blocks
    assert picture in paste(command)


@MANUAL.gives("Beside a cluster, start it", "It prints what it is about to do")
def test_the_first_lines_match_the_manual(blocks, control_plane):
    start, greeting = blocks
    done = second_program("--server", control_plane.server, "--once")
    assert done.stderr.replace(control_plane.server, "http://127.0.0.1:8001") == greeting
    assert start.endswith(".venv/bin/python scheduler_extras\n")


def test_the_manual_has_the_options_of_help():
    described = set(re.findall("`[^`]*`", MANUAL.section("## Options")))
    options = set(re.findall("--[a-z][a-z-]+", second_program("--help").stdout.partition("examples:")[0]))
    assert set(re.findall("--[a-z][a-z-]+", "".join(described))) == options


def test_the_rules_of_the_shipped_policy_and_the_defaults_of_a_policy_without_lists(tmp_path):
    shipped = json.loads((ROOT / "policy.json").read_text())
    assert "names seven predicates and four priorities" in MANUAL.words
    assert [len(shipped[where]) for where in ("predicates", "priorities")] == [7, 4]
    (tmp_path / "empty.json").write_text(re.search(r"A Policy that leaves out both lists, `(.*?)`, names the same rules", MANUAL.words)[1])
    runs = [re.findall("^.* -> .*$", second_program("--cluster", DEMO, "--seed", "1", "--policy", each).stdout, re.M)
            for each in ("DefaultProvider", tmp_path / "empty.json")]
    assert runs[0] == runs[1] and len(runs[0]) == 7


@pytest.mark.parametrize("rule, takes_effect", [("match_node_selector", True), ("pod_fits_host_ports", False), ("no_disk_conflict", False)])
def test_the_manual_names_the_rules_whose_edits_have_no_effect(tmp_path, rule, takes_effect):
    text = (ROOT / "scheduler.py").read_text()
    name = re.search(rf'@predicate\("(\w+)"\)\ndef {rule}', text)[1]
    assert takes_effect != (f"`{name}`" in re.search(r"faster versions of (.*?)\. It", MANUAL.words)[1])
    (tmp_path / "scheduler.py").write_text(re.sub(rf"(def {rule}\(.*\n.*\n)", r'\1    yield "edited"\n', text))
    shutil.copy(ROOT / "policy.json", tmp_path)
    shutil.copytree(EXTRAS, tmp_path / "scheduler_extras")
    done = run("--cluster", ROOT / DEMO, script=tmp_path / "scheduler_extras")
    assert ("edited" in done.stdout) == takes_effect, done


@MANUAL.gives("2. `--explain POD`", "can read a copy of a live cluster")
def test_the_commands_work_with_a_cluster(blocks, control_plane, monkeypatch):
    explain, copy = blocks
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig()))
    control_plane.create(node("n", labels={"disk": "hdd"}), node("small", pods="0", labels={"disk": "ssd"}),
                         pod("picky", nodeSelector={"disk": "ssd"}))
    table = paste(explain, scheduler_extras=f"scheduler_extras --server {control_plane.server}")
    assert re.search(r"^  ✗ n +MatchNodeSelector: .*\n +n \(disk In \[ssd\]: has disk=hdd\)$", table, re.M), table
    assert "NODE" in paste(copy, **{"csistoragecapacities,": ""}), "this API server is older than 1.24"


@MANUAL.gives("**How many fit?**")
def test_fits_prints_the_number_in_the_manual(blocks):
    assert re.search(r"It prints `(.*?)`", MANUAL.words)[1] in paste(blocks[0]).splitlines()


@MANUAL.gives("**Can I drain this node?**")
def test_drain_shows_where_pods_fit(blocks):
    assert "node-a can be drained: 1 pod fits elsewhere" in paste(blocks[0]).splitlines()


@MANUAL.gives("**What would change?**")
def test_compare_lists_the_changes(blocks, tmp_path):
    assert "4 of 8 pods land elsewhere." in paste(blocks[0], **{"most.json": tmp_path / "most.json"}).splitlines()


# ---- the page ------------------------------------------------------------------------------------------

@PAGE.gives("**3. As a file.**")
def test_the_page_is_one_file(blocks, tmp_path):
    paste(blocks[0], **{" demo.html": f" {tmp_path}/demo.html"})
    assert (tmp_path / "demo.html").read_text().startswith("<!DOCTYPE html>")


@PAGE.gives("**1. Without a cluster.**")
def test_editing_the_demo_moves_a_pod(blocks, tmp_path):
    (tmp_path / "tests").mkdir()
    for path in (DEMO, "policy.json"):
        shutil.copy(ROOT / path, tmp_path / path)
    output = tmp_path / "output"
    pod, node = re.search("`([^`]*)` now goes to `([^`]*)`", PAGE.words).groups()
    here = {"scheduler_extras": EXTRAS, "--listen 8080": f"--policy policy.json --listen {free_port()}"}
    with terminal(blocks[0], output, tmp_path, **here):
        wait_for("the first run", lambda: "default/warehouse" in output.read_text())
        edit(tmp_path / DEMO, *CHANGE.search(PAGE.words).groups())
        wait_for("the next run", lambda: placements(output.read_text())[pod] == node)


@PAGE.gives("**2. Beside a cluster.**")
def test_the_page_follows_a_cluster(blocks, control_plane, tmp_path):
    port = free_port()
    with terminal(blocks[0], tmp_path / "output", ROOT, **{"8080": f"{port} --server {control_plane.server}"}):
        wait_for("the page is served", lambda: f"http://127.0.0.1:{port}/" in (tmp_path / "output").read_text())
        assert requests.get(f"http://127.0.0.1:{port}/", timeout=10).ok


def test_the_document_has_all_keys_of_the_page():
    actions = (EXTRAS / "show/page/main.js").read_text().partition("const DOES")[2].partition("};")[0]
    letters = set(re.findall(r"\W([a-z/?])'?: ", actions)) - {"n"}  # n leads back from the other views
    assert set(re.findall("`(.)`", PAGE.section("## Keys"))) == letters


def test_the_picture_of_the_readme_is_a_small_png():
    picture = (EXTRAS / "docs" / "demo.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) < 200_000


# ---- the lesson ----------------------------------------------------------------------------------------

PREPARE = LESSON.block_after("make fresh copies")
COMMANDS = {number: LESSON.block_after(f"## {number}. ") for number in range(1, 7)}
RULE = LESSON.block_after("Append this predicate")


def runs_of(number, folder):
    """Run an exercise before its edits and after each "Run it again"; return the outputs."""
    [heading] = re.findall(rf"^## {number}\. .*$", LESSON.text, re.M)
    lesson = f"{folder}/lesson"
    paste(PREPARE, **{" lesson": f" {lesson}"})
    printed = [paste(COMMANDS[number], **{"lesson/": f"{lesson}/"})]
    for paragraph in re.split(r"Run\s+it\s+again\.", LESSON.section(heading))[:-1]:
        if "Append this predicate to `lesson/scheduler.py`" in paragraph:
            with (folder / "lesson" / "scheduler.py").open("a") as file:
                file.write(f"\n\n{RULE}")
        file, old, new = re.search(r"In\s`([^`]+)`,\s" + CHANGE.pattern, paragraph).groups()
        edit(folder / file, old, new)
        printed.append(paste(COMMANDS[number], **{"lesson/": f"{lesson}/"}))
    return printed


def test_exercise_1_taints(tmp_path):
    runs = runs_of(1, tmp_path)
    assert [placements(printed)["batch"] for printed in runs] == ["steady", "steady", "spot"]
    scores = [re.search(r"(\d) of 2 nodes fit, score (\d+)", printed).groups() for printed in runs]
    assert scores == [("1", "212"), ("2", "212"), ("2", "187")] and "wins by 212 to 187" in LESSON.words


def test_exercise_2_resources(tmp_path):
    before, after = runs_of(2, tmp_path)
    assert len(set(placements(before).values())) == 3 and "default/whole stays pending" in before
    small = {node for pod, node in placements(after).items() if pod != "whole"}
    assert len(small) == 1 and len(placements(after)) == 4


def test_exercise_3_affinity(tmp_path):
    before, after = runs_of(3, tmp_path)
    assert placements(before) == {"web-1": "big", "web-2": "big"}
    assert placements(after) == {"web-1": "big", "web-2": "little"}


def test_exercise_4_spreading(tmp_path):
    before, after = runs_of(4, tmp_path)
    assert placements(before).keys() == {"web-1", "web-2", "web-3"} and placements(after)["web-4"] == "east-1"
    assert "default/web-4 stays pending: 0/2 nodes are available: 1 Too many pods, 1 node(s) didn't match pod topology spread" in before
    assert all(1_000_000 <= int(score) < 1_001_000 for score in re.findall(r"score (\d+)", before + after))


def test_exercise_5_a_rule_in_the_script(tmp_path):
    before, after = runs_of(5, tmp_path)
    assert placements(before) == {"shop": "cloud", "telescope": "cloud"}
    assert placements(after) == {"shop": "cloud", "telescope": "edge"}


def test_exercise_6_preemption(tmp_path):
    before, free, protected = runs_of(6, tmp_path)
    assert placements(before) == {} and placements(free) == placements(protected) == {"payment": "right"}
    assert "It preempts default/backup, default/cleanup on right" in " ".join(free.split())
    assert "It preempts default/report on right" in " ".join(protected.split())


def test_the_lesson_takes_45_minutes():
    assert sum(map(int, re.findall(r"^\| (\d+) \|", LESSON.text, re.M))) == 45


# ---- rules ---------------------------------------------------------------------------------------------

@RULES.gives("## The Policy file")
def test_the_policy_is_valid_and_a_typo_is_reported(blocks, tmp_path):
    [policy] = blocks
    [problem] = re.findall(r"reported with its place:\s+`(.*)`$", RULES.text, re.M)
    (tmp_path / "policy.json").write_text(policy)
    assert second_program("--cluster", ROOT / DEMO, "--policy", "policy.json", cwd=tmp_path).returncode == 0
    edit(tmp_path / "policy.json", '"PodFitsResources"', '"PodFitsResource"')
    assert second_program("--cluster", ROOT / DEMO, "--policy", "policy.json", cwd=tmp_path).stderr == f"{problem}\n"


ENTRIES = re.findall(r"^\| `(\{\"name\": .*\})` \|", RULES.text, re.M)


@pytest.mark.parametrize("entry", ENTRIES, ids=[json.loads(entry)["name"] for entry in ENTRIES])
def test_each_entry_with_an_argument_is_valid(entry, tmp_path):
    document = {"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": []}
    document["priorities" if "weight" in entry else "predicates"].append(json.loads(entry))
    (tmp_path / "policy.json").write_text(json.dumps(document))
    assert second_program("--cluster", DEMO, "--policy", tmp_path / "policy.json").returncode == 0


def test_the_random_policy_spreads_pods_at_random(tmp_path):
    [members] = re.findall(r"With `([^`]*)` you get the random scheduler", RULES.words)
    (tmp_path / "policy.json").write_text(f'{{"kind": "Policy", "apiVersion": "v1", {members}}}')
    runs = {second_program("--cluster", DEMO, "--policy", tmp_path / "policy.json", "--seed", seed).stdout for seed in range(5)}
    assert len(runs) == 5


def test_the_tables_mark_the_rules_of_the_script():
    tables = RULES.section("## Predicates") + RULES.section("## Priorities")
    rows = [row.split(" | ") for row in tables.splitlines() if row.startswith("| `")]
    marked = {name for row in rows if row[2].startswith("•") for name in re.findall(r"`(\w+)`", row[0])}
    assert marked == {*scheduler.PREDICATES, *scheduler.PREDICATE_ALIASES, *scheduler.PRIORITIES, "EqualPriority"}


def test_the_last_row_has_the_names_that_only_this_program_accepts():
    [*_, last] = [row for row in RULES.section("## Predicates").splitlines() if row.startswith("| `")]
    assert "except for the five names in the last row" in RULES.words
    assert re.findall("`(.*?)`", last.partition(" | ")[0]) == REPLACED_BY_TAINTS and len(REPLACED_BY_TAINTS) == 5


@RULES.gives("The field `leaderElection`")
def test_the_configuration_is_valid_and_its_second_profile_packs_pods(blocks, tmp_path):
    (tmp_path / "config.yaml").write_text(blocks[0])
    done = second_program("--cluster", DEMO, "--policy", tmp_path / "config.yaml", "--output", "json")
    assert json_placements(done)["default/web-1"] == "node-b"
    pods = [{**each, "spec": {**each["spec"], "schedulerName": "packing-scheduler"}} if each["kind"] == "Pod" else each
            for each in yaml.safe_load_all((ROOT / DEMO).read_text())]
    (tmp_path / "demo.yaml").write_text(yaml.safe_dump_all(pods))
    done = second_program("--cluster", tmp_path / "demo.yaml", "--policy", tmp_path / "config.yaml", "--output", "json")
    assert json_placements(done)["default/web-1"] == "node-a"
    scores = json.loads(done.stdout.splitlines()[0])["scores"]
    assert scores["NodeResourcesFit"]["node-a"] > scores["NodeResourcesFit"]["node-b"], "node-a is fuller"
    assert not any(name.startswith("ImageLocality") for name in scores)


# ---- rules of your own ---------------------------------------------------------------------------------

MY_RULES = OWN_RULES.block_after("This is a complete")
MINE = OWN_RULES.block_after("A list in a Policy **replaces**")
PROFILE = OWN_RULES.block_after("A profile of a KubeSchedulerConfiguration **adds**")


@pytest.fixture
def own_rules(tmp_path):
    """A folder with the files of the document."""
    for name, text in {"my_rules.py": MY_RULES, "mine.yaml": MINE, "config.yaml": PROFILE}.items():
        (tmp_path / name).write_text(text)
    things = [node("a", labels={"closed": "yes"}), node("b"), node("c", labels={"zone": "east"}), pod("p")]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": things}))
    return tmp_path


DEFAULT_CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.parametrize("policy, default", [("mine.yaml", "DefaultProvider"), ("config.yaml", "default.yaml")])
def test_own_rules_work_together_with_all_defaults(own_rules, policy, default):
    (own_rules / "default.yaml").write_text(DEFAULT_CONFIGURATION)
    arguments = "--cluster", "cluster.json", "--output", "json"
    ours, plain = [json.loads(second_program(*arguments, *more, cwd=own_rules).stdout) for more in (
        ["--plugins", "my_rules.py", "--policy", policy], ["--policy", default])]
    assert ours["failed"] == {"a": ["node(s) were closed"]}
    assert ours["scores"].pop("PreferZone") == {"b": 0, "c": 200}
    assert ours["scores"] == {rule: {name: scores[name] for name in "bc"} for rule, scores in plain["scores"].items()}


@OWN_RULES.gives("Now schedule the demo")
def test_own_rules_change_the_demo(blocks, own_rules):
    printed = paste(blocks[0], **{"my_rules.py": own_rules / "my_rules.py", "mine.yaml": own_rules / "mine.yaml"})
    assert placements(printed)["web-1"] == "node-a" and re.search("default/training stays pending: .*1 node.s. were closed", printed)
    assert placements(second_program("--cluster", DEMO, "--policy", "DefaultProvider").stdout)["web-1"] == "node-b"


def test_a_saved_rules_file_is_reloaded(own_rules, control_plane):
    control_plane.create(node("a", labels={"closed": "yes"}), pod("p"))
    output = own_rules / "output"
    command = f".venv/bin/python {EXTRAS} --server {control_plane.server} --plugins my_rules.py --policy mine.yaml"
    with terminal(command, output, own_rules):
        wait_for("p stays pending", lambda: "1 node(s) were closed" in output.read_text())
        edit(own_rules / "my_rules.py", '"yes"', '"no"')
        wait_for("p is placed", lambda: placements(output.read_text()) == {"p": "a"})


def test_a_script_of_your_own_can_call_the_program(own_rules):
    [call] = re.findall(r"and calls `([^`]*)`", OWN_RULES.words)
    rules = MY_RULES.replace("from scheduler import", "from scheduler_extras import")
    (own_rules / "mine.py").write_text(f"import sys\nsys.path[:0] = [{str(ROOT)!r}]\nimport scheduler_extras\n{rules}{call}\n")
    done = run("--cluster", "cluster.json", "--policy", "mine.yaml", script="mine.py", cwd=own_rules)
    assert placements(done.stdout) == {"p": "c"}, done


@pytest.mark.parametrize("kind", ["pod", "node"])
def test_pods_and_nodes_have_the_documented_attributes(kind, tmp_path):
    [text] = re.findall(rf"^- (`{kind}\.[^.]*?`raw`)", OWN_RULES.text, re.M | re.S)
    names = re.findall("`([a-z_]+)`", text.replace(f"{kind}.", ""))
    amounts = re.search(r"millicores and bytes, such as `(.*?)`", OWN_RULES.words)[1]
    (tmp_path / "rules.py").write_text(
        "from scheduler import predicate\n\n@predicate('Reads')\ndef reads(pod, node):\n"
        f"    missing = [name for name in {names} if not hasattr({kind}, name)]\n"
        f"    amounts = {{name: pod.requests[name] for name in ('cpu', 'memory')}}\n"
        f"    if missing or amounts != {amounts}:\n        yield f'{{missing}} {{amounts}}'\n")
    policy = {"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Reads"}], "priorities": []}
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    things = [node("n"), pod("p", {"cpu": "500m", "memory": "1Gi"})]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": things}))
    done = second_program("--cluster", "cluster.json", "--plugins", "rules.py", "--policy", "policy.json", cwd=tmp_path)
    assert len(names) > 8 and placements(done.stdout) == {"p": "n"}, done


POINTS = ["PreEnqueue", "QueueSort", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore", "Reserve",
          "Unreserve", "Permit", "PreBind", "Bind", "PostBind", "EnqueueExtensions"]


def test_each_extension_point_has_its_row():
    rows = re.findall(r"^\| ([^|]*) \|", OWN_RULES.section("## Extension points"), re.M)
    assert sorted(point for row in rows[2:] for point in row.split(", ")) == sorted(POINTS)


def test_the_table_has_the_parameters_and_answers_of_each_extension_point():
    for option, point in EXTENSION_POINTS.items():
        call = f"`{option}({', '.join(point.parameters.split())})`"
        [(names, answers)] = re.findall(rf"^\| ([^|]*) \| [^|]*{re.escape(call)}[^|]* \| (.*) \|$", OWN_RULES.text, re.M)
        assert point.in_configuration.lower() in names.lower().split(", ")
        assert point.returns == "anything" or point.returns in answers


def test_the_document_has_all_fields_of_the_json_output():
    fields = set(re.findall(r"^\| (`.*?`) \|", OWN_RULES.section("## The fields of --output json"), re.M))
    named = {name for cell in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", OWN_RULES.section("## The fields of --output json"), re.M)
             for name in re.findall(r"`(\w+)`", cell)}
    printed = json.loads(second_program("--cluster", DEMO, "--output", "json").stdout.splitlines()[0])
    explained = json.loads(second_program("--cluster", DEMO, "--output", "json", "--explain", "web-1", "--dry-run").stdout)
    assert fields and named == printed.keys() | explained.keys()


# ---- in the cluster ------------------------------------------------------------------------------------

MANIFESTS = (EXTRAS / "examples" / "my-scheduler.yaml").read_text()


@IN_THE_CLUSTER.gives("**1. Build an image**")
def test_the_image_has_the_files_and_pinned_packages(blocks):
    [command] = blocks
    image, path = re.fullmatch(r"docker build -t (\S+) -f (\S+) \.\n", command).groups()
    dockerfile = (ROOT / path).read_text()
    assert f"\n#   {command}" in dockerfile and f" image: {image}\n" in MANIFESTS
    assert dict(re.findall(r"^COPY (\S+) (/code/\S*)$", dockerfile, re.M)) == {"scheduler.py": "/code/", "scheduler_extras": "/code/scheduler_extras"}
    assert 'ENTRYPOINT ["python", "/code/scheduler_extras"]' in dockerfile
    [packages] = re.findall("RUN pip install --no-cache-dir (.*)", dockerfile)
    pinned = dict(package.split("==") for package in packages.split())
    needed = {re.match("[a-z0-9-]+", line)[0] for line in (ROOT / "requirements.txt").read_text().splitlines()}
    for name in [*needed]:
        texts = [text for text in metadata.requires(name) or () if "extra ==" not in text]
        needed |= {re.match("[a-z0-9-]+", text.lower().replace("_", "-"))[0] for text in texts}
    assert pinned.keys() == needed


@IN_THE_CLUSTER.gives("**2. Create the Policy.**", "**3. Deploy.**")
def test_an_api_server_accepts_the_manifests_and_the_policy_can_be_updated(blocks, control_plane, monkeypatch, tmp_path):
    policy, apply = blocks
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig()))
    own = re.sub("--from-literal=policy.json='.*?'", "--from-file=policy.json", policy)
    for command, expected in (policy, '{"kind": "Policy", "apiVersion": "v1"}'), (own, (ROOT / "policy.json").read_text()):
        paste(command)
        data = json.loads(paste("kubectl -n kube-system get configmap my-scheduler -o json"))["data"]
        assert data == {"policy.json": expected}, "no code, because anyone who may edit the ConfigMap could run it"
    old = tmp_path / "my-scheduler.yaml"  # for this API server of version 1.20
    old.write_text(MANIFESTS.replace("policy/v1\n", "policy/v1beta1\n"))
    apply = apply.replace("scheduler_extras/examples/my-scheduler.yaml", str(old))
    assert paste(apply).count(" created\n") == 8
    paste("kubectl -n kube-system delete configmap my-scheduler")
    paste(apply.replace("apply", "delete --wait=false"))
    assert set(re.findall(r"/policy/([\w.]+)", MANIFESTS)) == data.keys()


def test_the_deployment_has_valid_arguments_and_probes():
    [pod_spec] = [thing["spec"]["template"]["spec"] for thing in yaml.safe_load(MANIFESTS)["items"] if thing["kind"] == "Deployment"]
    [container] = pod_spec["containers"]
    options = read_arguments(container["args"])
    assert options.leader_elect == "true" and options.listen == ("0.0.0.0", container["ports"][0]["containerPort"])
    routes = health_routes(None, None)
    for probe in "livenessProbe", "readinessProbe":
        assert container[probe]["httpGet"]["path"] in routes and container[probe]["httpGet"]["port"] == container["ports"][0]["name"]


@IN_THE_CLUSTER.gives("its address is 127.0.0.1 by default", "For the Prometheus Operator, select the Service")
def test_the_server_answers_on_the_documented_paths(blocks, control_plane, tmp_path):
    start, monitor = blocks
    command = start.strip().replace(" scheduler_extras ", f" {EXTRAS} --server {control_plane.server} ")
    paths = re.findall(r"^\| (`/.*?) \|", IN_THE_CLUSTER.section("## Health and metrics"), re.M)
    with terminal(command, tmp_path / "output", tmp_path):
        wait_for("the server listens", lambda: "/ and /metrics" in (tmp_path / "output").read_text())
        wait_for("the scheduler is ready", lambda: requests.get("http://127.0.0.1:10251/readyz", timeout=20).ok)
        for path in re.findall(r"`(/\w+)`", " ".join(paths)):
            assert requests.get(f"http://127.0.0.1:10251{path}?verbose", timeout=20).ok, path
    [service] = [thing for thing in yaml.safe_load(MANIFESTS)["items"] if thing["kind"] == "Service"]
    spec = yaml.safe_load(monitor)["spec"]
    assert spec["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert [each["port"] for each in spec["endpoints"]] == [each["name"] for each in service["spec"]["ports"]]


# ---- metrics -------------------------------------------------------------------------------------------

def names_of_metrics(text):
    """Return the names of metrics in a text, without the suffixes of histograms."""
    return {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\b(?:[a-z]+_)+(?:[a-z]+)\b", text)}


@METRICS.gives("Three queries to start with")
def test_the_table_has_all_metrics_and_the_queries_use_them(blocks):
    cluster = SimpleNamespace(api=SimpleNamespace(server=""), snapshot=SimpleNamespace())
    metrics = Observations(cluster).metrics() + ClusterGauges(cluster, None).metrics() + process_metrics()
    exported = {metric.name for metric in metrics}
    rows = re.findall(r"^\| (`.*?) \|", METRICS.text, re.M)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == exported
    used = {name for name in names_of_metrics(blocks[0]) if name.startswith("scheduler_")}
    assert len(used) == 3 and used <= exported


# ---- the design ----------------------------------------------------------------------------------------

def test_the_tree_names_each_folder():
    named = re.findall(r"^\| `(\w+)/` \|", DESIGN.section("## The tree"), re.M)
    assert sorted(named) == sorted(path.parent.name for path in EXTRAS.glob("*/__init__.py"))


def names_in(path):
    """Yield the names that a module defines, and the first arguments of its calls, such as names of rules and options."""
    for place in ast.walk(ast.parse(path.read_text())):
        if isinstance(place, (ast.FunctionDef, ast.ClassDef)):
            yield place.name
        elif isinstance(place, (ast.Name, ast.Attribute)) and isinstance(place.ctx, ast.Store):
            yield place.id if isinstance(place, ast.Name) else place.attr
        elif isinstance(place, ast.Call):
            yield from [each.value for each in place.args[:1] if isinstance(each, ast.Constant)]


def test_each_name_in_the_design_exists_in_the_code():
    named = set(re.findall("`(.*?)`", DESIGN.words))
    paths = {name for name in named if re.search(r"/|\.py$", name)}
    known = {name for path in [ROOT / "scheduler.py", *EXTRAS.rglob("*.py")] for name in names_in(path)}
    assert paths and [path for path in paths if not ((EXTRAS / path).exists() or (ROOT / path).exists())] == []
    assert [name for name in sorted(named - paths) if not {*name.split(".")} <= known] == []


# ---- all documents -------------------------------------------------------------------------------------

@TESTS.gives("## Running some of them", "These commands generate more")
def test_the_test_files_in_the_commands_exist(blocks):
    for path in re.findall(r"tests/\S+", "".join(blocks)):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", ALL)
def test_the_links_are_not_broken(name):
    assert ALL[name].broken_links() == []


@pytest.mark.parametrize("name", ALL)
def test_each_block_is_tested(name):
    assert ALL[name].untested() == []


def test_the_command_that_copies_a_cluster_has_all_kinds_that_rules_use():
    source = "".join(path.read_text() for path in (ROOT / "scheduler_extras" / "rules").glob("*.py"))
    manual = (ROOT / "scheduler_extras" / "README.md").read_text()
    asked = set(re.findall(r'snapshot\.objects\["(\w+)"]|selectors_of\(pod, snapshot, "(\w+)"\)', source))
    short = {"ns": "namespaces", "svc": "services", "rc": "replicationcontrollers", "rs": "replicasets",
             "sts": "statefulsets", "pv": "persistentvolumes", "pvc": "persistentvolumeclaims", "sc": "storageclasses"}
    [copied] = re.findall("get (.*?) ", Manifests.COMMAND)
    copied = {short.get(name, name) for name in copied.split(",")}
    assert {one or other for one, other in asked} <= copied >= GROUPS.keys() - {*CORE}
    assert f"    {Manifests.COMMAND} | " in manual
    assert Manifests.COMMAND in run_scheduler("--help").stdout


def test_the_tables_of_the_documents_have_every_rule():
    rules = (ROOT / "scheduler_extras" / "docs" / "rules.md").read_text()
    tutorial = (ROOT / "scheduler_extras" / "examples" / "tutorial_rules.py").read_text()  # other tests may have registered these rules
    names = [name for name in names_in_policies()
             if f'("{name}"' not in tutorial]
    arguments = {rule.name: rule.member for rule in [*PREDICATES.values(), *PRIORITIES.values()]}
    assert [name for name in names if f"`{arguments.get(name) or name}`" not in rules] == []
