"""The journal of a run: its records of decisions, and its limits. For the page that shows it, see test_page.py."""

import itertools
import json
import math
import random
import re
import types

import pytest
import requests

from helpers.control_plane import free_port, wait_for
from helpers.everywhere import replace
from helpers.extras import ROOT, decide, node, pod, run_scheduler, table
from helpers.faulty import ApiServer
from helpers.policies import load_policies
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.rules.spreading import HOSTNAME
from scheduler_extras.serve.pages import events_of
from scheduler_extras.show import journal as journals
from scheduler_extras.show.journal import Journal


DEMO = ROOT / "tests" / "demo.yaml"
ALL = load_policies("DefaultProvider", "my-scheduler")
SHIPPED = load_policies(ROOT / "policy.json", "my-scheduler")


def data_of(page):
    """The journal in a page."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def frames_of(*arguments, kind="decision", **options):
    """The frames of one kind that a run produces."""
    run = run_scheduler(*arguments, "--output=html", **options)
    assert run.returncode == 0 and run.stdout.isascii(), run.stderr
    return [frame for frame in data_of(run.stdout)["frames"] if frame["kind"] == kind]


def record(journal, decision):
    """Record a decision in a cluster without pending pods."""
    journal.decided(types.SimpleNamespace(snapshot=decision.snapshot, queue={}, pass_queue=[]), decision)


def journal_of(*decisions, budget=journals.ALL):
    """A journal of decisions."""
    journal = Journal("policy.json", budget, budget)
    for decision in decisions:
        record(journal, decision)
    return journal


def frames(journal, kind="decision"):
    """The frames of one kind that a page receives."""
    return [frame for frame in json.loads(journal.frames.state()[1])["frames"] if frame["kind"] == kind]


def test_a_decision_has_the_answers_of_each_rule():
    [report] = [each for each in frames_of("--cluster", DEMO, "--seed=1") if each["pod"] == "default/report"]
    assert report["node"] == "node-a" and report["fit"] == ["node-a", "node-b"] and report["nodes"] == 5
    assert [(vote["title"], vote["weight"], vote["raw"], vote["points"]) for vote in report["votes"]] == [
        ("LeastRequestedPriority", 1, [29, 88], [29, 88]), ("BalancedResourceAllocation", 1, [90, 92], [90, 92]),
        ("NodeAffinityPriority", 2, [1, 0], [100, 0]), ("TaintTolerationPriority", 1, 0, 100)]
    assert {name: report["against"][place]["by"] for name, place in report["out"].items()}["node-old"] == {
        "CheckNodeUnschedulable": ["node(s) were unschedulable"]}
    assert report["requests"] == {"cpu": 250, "memory": 2**28}
    assert report["asks"] == [["affinity", "nodeAffinity: preferred: weight: 1, preference: zone In east"]]


def test_well_known_labels_are_shown_without_their_domain():
    affinity = json.loads(json.dumps(APART).replace('"zone"', '"kubernetes.io/hostname"'))
    [decision] = frames(journal_of(decide(SHIPPED, pod("p", **affinity), node("a"))))
    assert decision["asks"] == [["affinity", "podAntiAffinity: required: topologyKey: hostname, app: db"]]


@table("priority, reserved", {
    "a more important pod": (9, {"a": {"for": "vip", "amounts": {"cpu": 1000}}}), "a less important pod": (-9, {})})
def test_a_decision_has_what_is_reserved_for_nominated_pods(priority, reserved):
    vip = pod("vip", {"cpu": "1"}, priority=priority, status={"nominatedNodeName": "a"})
    [decision] = frames(journal_of(decide(SHIPPED, pod("p"), node("a"), vip)))
    assert decision["reserved"] == reserved


LABELLED = {"labels": {"app": "db"}}
APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]}}}
TOGETHER = json.loads(json.dumps(APART).replace("Anti", ""))
SPREAD = {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                                         "labelSelector": {"matchLabels": {"app": "db"}}}], "metadata": LABELLED}
PORT = {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}
ZONED = [node("a", labels={"zone": "east"}), node("b", labels={"zone": "west"}, unschedulable=True),
         pod("db", nodeName="a", metadata=LABELLED)]


def about(decision, name):
    """The reason against a node in words, and the blamed parts."""
    against = decision["against"][decision["out"][name]]
    return against["words"], against["blame"]


@table("incoming, objects, words, blame, help", {
    "too little cpu": (
        pod("p", {"cpu": "9"}), [node("a"), pod("q", {"cpu": "1"}, nodeName="a")], "cpu 9 > 3 free", ["room:cpu"], "6 more cpu on a"),
    "too little memory": (
        pod("p", {"memory": "9Gi"}), [node("a")], "mem 9 > 8 free", ["room:memory"], "1Gi more memory on a"),
    "too little of several resources": (
        pod("p", {"cpu": "9", "memory": "9Gi"}), [node("a")], "cpu 9 > 4, mem 9 > 8 free", ["room:cpu", "room:memory"],
        "5 more cpu on a and 1Gi more memory on a"),
    "the room is reserved for a nominated pod": (
        pod("p", {"cpu": "1"}), [node("a"), pod("vip", {"cpu": "4"}, priority=9, status={"nominatedNodeName": "a"})],
        "reserved for vip", ["room:cpu"], ""),
    "the node is full": (pod("p"), [node("a", pods="0")], "has 0 of 0 pods", ["room:pods"], "one pod fewer on a"),
    "a taint": (
        pod("p"), [node("a", taints=[{"key": "x/gpu", "value": "true", "effect": "NoSchedule"}])],
        "taint gpu=true", ["taint:x/gpu=true:NoSchedule"], "tolerate x/gpu=true"),
    "a label is missing": (pod("p", nodeSelector={"disk": "ssd"}), [node("a")], "no disk", ["label:disk"], "label a disk=ssd"),
    "a label has another value": (
        pod("p", nodeSelector={"disk": "ssd"}), [node("a", labels={"disk": "hdd"})], "disk=hdd, not ssd", ["label:disk"], "label a disk=ssd"),
    "the pod is pinned to another node": (
        pod("p", nodeSelector={HOSTNAME: "b"}), [node("a", labels={HOSTNAME: "a"})], f"{HOSTNAME}=a, not b", [f"label:{HOSTNAME}"],
        f"do without {HOSTNAME}=b in the pod"),
    "the node is cordoned": (pod("p"), [node("a", unschedulable=True)], "cordoned", ["cordon"], "uncordon a"),
    "another pod has the host port": (
        pod("p", **PORT), [node("a"), pod("q", nodeName="a", **PORT)], "q has port 80", ["pod:default/q"], "free port 80 on a"),
    "the pod's anti-affinity": (pod("p", **APART), ZONED, "not with db", ["pod:default/db"], "move db away from a"),
    "the anti-affinity of another pod": (
        pod("p", metadata=LABELLED), [ZONED[0], pod("q", nodeName="a", **APART)], "not with q", ["pod:default/q"], "move q away from a"),
    "affinity that matches no pod": (
        pod("p", **TOGETHER), ZONED[:2], "no pod that it wants in zone east", ["label:zone"], "a pod that it wants near a"),
    "more than maxSkew": (
        pod("p", **SPREAD), [*ZONED[:1], node("b", labels={"zone": "west"}, cpu="0", unschedulable=True), ZONED[2]],
        "1 in zone east, 0 in west, maxSkew 1", ["label:zone"], "uncordon b"),
    "more than maxSkew, in zones whose names share a prefix": (
        pod("p", **SPREAD), [node("a", labels={"zone": "eu-1a"}), node("b", labels={"zone": "eu-1b"}, unschedulable=True),
                             pod("q", metadata=LABELLED, nodeName="a")],
        "1 in zone …1a, 0 in …1b, maxSkew 1", ["label:zone"], "uncordon b")})
def test_the_cause_and_the_smallest_change_that_helps_for_a_node_that_does_not_fit(incoming, objects, words, blame, help):
    [decision] = frames(journal_of(decide(ALL, incoming, *objects)))
    assert about(decision, "a") == (words, blame) and decision["help"] == help


def test_a_pod_pinned_to_a_cordoned_node_is_helped_by_uncordoning_it():
    nodes = [node("new", labels={HOSTNAME: "new"}), node("old", labels={HOSTNAME: "old"}, unschedulable=True)]
    [decision] = frames(journal_of(decide(ALL, pod("p", nodeSelector={HOSTNAME: "old"}), *nodes)))
    assert decision["help"] == "uncordon old"


def test_the_smallest_of_several_changes_is_named():
    nodes = [node("small", cpu="1"), node("large", cpu="8"), node("old", cpu="7")]
    [decision] = frames(journal_of(decide(SHIPPED, pod("p", {"cpu": "10"}), *nodes)))
    assert decision["help"] == "2 more cpu on large"
    [hopeless] = frames(journal_of(decide(SHIPPED, pod("p", {"cpu": "10"}, nodeSelector={"x": "y"}), *nodes)))
    assert hopeless["help"] == "", "each node would need more than one change"


def random_cluster(seed):
    """A pod and nodes, some of which each rule of the shipped Policy may reject."""
    dice = random.Random(seed)
    nodes = [node(f"n{i}", cpu=str(dice.randint(1, 8)), labels={"disk": dice.choice("ab")}, unschedulable=dice.random() < .2,
                  taints=[{"key": "t", "effect": "NoSchedule"}] if dice.random() < .3 else []) for i in range(6)]
    there = [pod(f"q{i}", {"cpu": "1"}, nodeName=f"n{i}", **(PORT if dice.random() < .5 else {})) for i in range(3)]
    return pod("p", {"cpu": str(dice.randint(1, 4))}, nodeSelector={"disk": "a"} if dice.random() < .5 else {}, **PORT), *nodes, *there


@table("seed", {f"cluster {seed}": (seed,) for seed in range(12)})
def test_the_result_without_a_predicate_matches_a_policy_without_it(seed):
    incoming, *objects = random_cluster(*seed) if isinstance(seed, tuple) else random_cluster(seed)
    [decision] = frames(journal_of(decide(SHIPPED, incoming, *objects)))
    optional = [rule.title for rule in SHIPPED["my-scheduler"].predicates if not rule.always]
    refusing = {*itertools.chain(*(group["by"] for group in decision["against"]))}
    assert decision["without"].keys() == refusing, "without another one, nothing would change"
    for title in refusing & {*optional}:
        policy = {"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": name} for name in optional if name != title],
                  "priorities": [{"name": rule.name, "weight": rule.weight} for rule in SHIPPED["my-scheduler"].priorities]}
        other = decide({"my-scheduler": read_policy(policy)}, incoming, *objects)
        there = decision["without"][title]
        assert there["fit"] == [*other.total] and there["out"].keys() == other.failed.keys()
        assert [vote["title"] for vote in there["votes"]] == [vote.title for vote in other.votes]


def test_old_decisions_are_dropped_and_merged_into_the_base_state(monkeypatch):
    replace(monkeypatch, "MAX_DECISIONS", 3)
    decisions = [decide(SHIPPED, pod(f"p{i}"), node("a", cpu=str(i + 1))) for i in range(8)]
    journal = journal_of(*decisions)
    state = json.loads(journal.frames.state()[1])
    assert [frame["pod"] for frame in state["frames"] if frame["kind"] == "decision"] == [f"default/p{i}" for i in (5, 6, 7)]
    assert state["policy"]["kind"] == "policy" and state["nodes"]["a"]["room"]["cpu"] == 5000, "the state before p5"
    assert journal.frames.since(2, 0) is None and len(journal.frames.since(journal.frames.number - 1, 0)) == 1
    assert [frame["pod"] for frame in json.loads(journal.frames.state(most=2000)[1])["frames"] if "pod" in frame] == ["default/p7"]


def test_decisions_are_recorded_in_brief_while_there_is_no_time():
    journal = journal_of()
    journal.unwatched.free_at = math.inf
    record(journal, decide(SHIPPED, pod("p"), node("a")))
    journal.unwatched.free_at = -math.inf
    record(journal, decide(SHIPPED, pod("q"), node("a")))
    [skipped] = frames(journal, "skipped")
    assert [(name, place) for _, name, place, _ in skipped["rows"]] == [("default/p", "a")]
    assert [frame["pod"] for frame in frames(journal)] == ["default/q"]


def test_with_an_open_page_the_first_decision_of_an_idle_loop_is_always_recorded(monkeypatch):
    monkeypatch.setattr(journals, "IDLE", 1e6)
    journal = journal_of()
    journal.watched.free_at = math.inf
    with journal.frames.being_read():
        for name in "pq":
            record(journal, decide(SHIPPED, pod(name), node("a")))
    assert [frame["pod"] for frame in frames(journal)] == ["default/p"] and len(journal.skipped) == 1


def test_an_exception_in_the_journal_does_not_stop_the_scheduler(caplog):
    decision = decide(SHIPPED, pod("p"), node("a"))
    decision.votes = None
    assert frames(journal_of(decision)) == [] and "the page: TypeError" in caplog.text


def test_a_retry_with_the_same_result_is_not_recorded():
    decision = decide(SHIPPED, pod("p", {"cpu": "9"}), node("a"))
    assert len(frames(journal_of(decision, decision))) == 1


def test_victims_are_recorded():
    [outcome, *_] = frames_of("--cluster", ROOT / "scheduler_extras/examples/preemption.yaml", "--preempt", kind="outcome")
    assert outcome["victims"] == ["default/backup", "default/cleanup"] and "preempts" in outcome["remedy"]


def test_unchecked_fields_are_noted():
    decision, *_ = frames_of("--cluster", ROOT / "scheduler_extras/examples/affinity.yaml")
    assert any("MatchInterPodAffinity, which looks at that, is not active" in note for note in decision["notes"])


def test_a_decision_about_5000_nodes_is_small():
    nodes = [node(f"node-{i}", cpu=str(4 + i % 3)) for i in range(5000)]
    [decision] = frames(journal_of(decide(SHIPPED, pod("p", {"cpu": "5"}), *nodes)))
    assert len(json.dumps(decision)) < 200_000 and decision["against"][0]["blame"] == ["room:cpu"] and decision["without"] == {}


def test_a_run_on_a_cluster_ends_with_its_page():
    server = ApiServer(node("a"), pod("p", {"cpu": "1"}), pod("big", {"cpu": "9"}))
    try:
        found = frames_of("--server", server.url, "--once")
        assert server.placements() == {"default/p": "a"} and {each["pod"] for each in found} == {"default/p", "default/big"}
    finally:
        server.stop()


def test_explain_gives_a_page_with_only_that_pod():
    [decision] = frames_of("--cluster", DEMO, "--explain", "report")
    assert decision["pod"] == "default/report"


def test_a_comparison_cannot_be_a_page():
    run = run_scheduler("--cluster", DEMO, "--compare", "policy.json", "--output=html")
    assert run.returncode == 2 and "--compare needs --cluster, and excludes --explain, --fits and --output html" in run.stderr


class Listener:
    """An open page, which receives server-sent events."""

    def __init__(self, port):
        url = f"http://127.0.0.1:{port}/events"
        wait_for("the server listens", lambda: self.answers(url))
        self.lines = requests.get(url, stream=True, timeout=20).iter_lines(chunk_size=1)
        self.frames = self.all_frames()

    def answers(self, url):
        """Return whether the server answers."""
        try:
            return requests.get(url.removesuffix("events"), timeout=5).ok
        except requests.ConnectionError:
            return False

    def all_frames(self):
        """Yield the frames as they arrive."""
        while True:
            lines = [*itertools.takewhile(bool, map(bytes.decode, self.lines))]
            data = json.loads("".join(line.removeprefix("data: ") for line in lines[1:]) if lines[0] != "event: version" else "[]")
            yield from {"event: state": lambda: data["frames"], "event: frames": lambda: data}.get(lines[0], list)()

    def until(self, is_wanted):
        """Return the next frame for which this is true."""
        return next(filter(is_wanted, self.frames))


@pytest.fixture
def sandbox(tmp_path, start_scheduler):
    """A sandbox with a copy of the demo: its folder, and an open page."""
    for path in (DEMO, ROOT / "policy.json"):
        (tmp_path / path.name).write_text(path.read_text())
    port = free_port()
    start_scheduler("--cluster", tmp_path / "demo.yaml", "--policy", tmp_path / "policy.json", "--listen", port)
    return tmp_path, Listener(port)


def edit(path, before, after):
    """Edit a file by replacing it with a new one, as some editors do."""
    text = path.read_text()
    assert before in text
    (path.parent / "new").write_text(text.replace(before, after, 1))
    (path.parent / "new").rename(path)


def test_a_sandbox_decides_again_when_a_file_or_the_policy_changes(sandbox):
    folder, page = sandbox
    assert page.until(lambda frame: frame["kind"] == "decision" and frame["pod"] == "default/web-1")["node"] == "node-b"
    edit(folder / "demo.yaml", 'cpu: "8"', 'cpu: "0"')
    assert page.until(lambda frame: frame["kind"] == "run")["text"] == "demo.yaml: changed, so all is decided again"
    assert page.until(lambda frame: frame["kind"] == "decision" and frame["pod"] == "default/web-1")["node"] == "node-a"
    edit(folder / "policy.json", '{"name": "MatchNodeSelector"},', "")
    assert "policy.json: - MatchNodeSelector" in page.until(lambda frame: frame["kind"] == "note")["text"]
    assert page.until(lambda frame: frame["kind"] == "decision" and frame["pod"] == "default/web-1")["node"] == "node-a"


@table("seconds, notes", {
    "for the time that admission sets": (300, ["default/p tolerates node.kubernetes.io/unreachable:NoExecute for 300 s by default"]),
    "for another time, as the pod says": (60, [])})
def test_a_taint_that_a_pod_tolerates_by_default_is_noted(seconds, notes, tmp_path):
    key = "node.kubernetes.io/unreachable"
    toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    objects = [node("a", taints=[{"key": key, "effect": "NoExecute"}]), pod("p", tolerations=[toleration])]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": objects}))
    [decision] = frames_of("--cluster", tmp_path / "cluster.json", kind="decision")
    assert decision["notes"] == notes


def test_a_tie_in_a_sandbox_stays_where_it_was(tmp_path, start_scheduler):
    objects = {"kind": "List", "items": [*(node(f"n{i}") for i in range(50)), pod("p")]}
    (tmp_path / "cluster.json").write_text(json.dumps(objects))
    port = free_port()
    start_scheduler("--cluster", tmp_path / "cluster.json", "--listen", port)
    page = Listener(port)
    places = [page.until(lambda frame: frame["kind"] == "decision")["node"]]
    for spaces in range(1, 4):
        (tmp_path / "cluster.json").write_text(json.dumps(objects) + " " * spaces)
        places.append(page.until(lambda frame: frame["kind"] == "decision")["node"])
    assert len({*places}) == 1


@table("file, before, after, message", {
    "invalid manifests": ("demo.yaml", "kind: Node", "kind: [", "still showing the last good files"),
    "an invalid Policy": ("policy.json", "PodFitsResources", "PodFits", "still using the last good Policy")})
def test_an_invalid_file_gives_a_line_and_the_last_good_one_stays(file, before, after, message, sandbox):
    folder, page = sandbox
    good = (folder / file).read_text()
    page.until(lambda frame: frame["kind"] == "queue")
    edit(folder / file, before, after)
    problem = page.until(lambda frame: frame["kind"] == "note" and frame["problem"])
    assert file in problem["text"] and problem["text"].endswith(message)
    (folder / file).write_text(good.replace("web-2", "web-3").replace('"NodeAffinityPriority", "weight": 2', '"NodeAffinityPriority", "weight": 3'))
    assert page.until(lambda frame: frame["kind"] == "run")


def test_a_page_that_missed_frames_receives_the_state_again(monkeypatch):
    replace(monkeypatch, "MAX_DECISIONS", 2)
    journal = journal_of()
    sent = events_of(journal.frames)
    assert next(sent).startswith(b"event: version") and next(sent).startswith(b"event: state")
    assert next(sent) == b"event: alive\ndata: {}\n\n"
    for i in range(5):
        record(journal, decide(SHIPPED, pod(f"p{i}"), node("a")))
    assert next(sent).startswith(b"event: state")
    journal.note("a line")
    assert json.loads(next(sent).partition(b"data: ")[2])[0]["text"] == "a line"
    sent.close()


def test_the_message_has_what_post_filter_appends_to_it(tmp_path):
    configuration = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [{"schedulerName": "my-scheduler"}]}
    (tmp_path / "config.json").write_text(json.dumps(configuration))
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [node("a"), pod("p", {"cpu": "9"})]}))
    [outcome] = frames_of("--cluster", tmp_path / "cluster.json", "--policy", tmp_path / "config.json", kind="outcome")
    assert "preemption: 0/1 nodes are available" in outcome["message"]
