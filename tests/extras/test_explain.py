"""--explain, --compare: what people see of a decision, and that it is what the decision was made of."""

import json
import os
import pty
import re
import subprocess
import threading

import pytest
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.configuration.reading import read_configuration
from scheduler_extras.deciding.decision import Vote
from scheduler_extras.deciding.rule import WHEN
from scheduler_extras.deciding.schedule import schedule
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.options import read_arguments
from scheduler_extras.policy.policy import CONFIGURATION_VERSION
from scheduler_extras.policy.reading import read_policy
from scheduler_extras.policy.reloading import PolicyFile, load_policies
from scheduler_extras.show.compare import compare
from scheduler_extras.show.explain import explain, in_words
from scheduler_extras.show.picture import picture, pods_without_node
from scheduler_extras.show.report import in_json
from scheduler_extras.show.text import BOLD, Screen, align, short_names, shorten
from helpers.control_plane import free_port
from helpers.extras import (
    MANDATORY_PREDICATES, ROOT, SCHEDULER, cluster_of, decide, node, pending_pods, pod, run_scheduler, table
)
from helpers.faulty import ApiServer, answering
from helpers.golden import DECISIONS, policy_of

DEMO = ROOT / "tests" / "demo.yaml"


def explained(*arguments, said="", **options):
    """Run --explain; return {pod: the lines about it}. `said`: how the one line on standard error begins, if any."""
    run = run_scheduler("--explain", *arguments, **options)
    assert run.returncode == 0 and run.stderr.startswith(said) and run.stderr.count("\n") == bool(said)
    tables = re.split(r"^(?=\S+/\S+ (?:->|stays))", run.stdout.partition("\n\nNODE ")[0], flags=re.M)[1:]
    return {table.split()[0]: table.rstrip().splitlines() for table in tables}


def manifest(folder, *objects):
    """Write objects into a file."""
    path = folder / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": objects}))
    return path


def policy(**fields):
    """{my-scheduler: a Policy}, which has the default rules unless told otherwise."""
    return {"my-scheduler": read_policy(
        {"kind": "Policy", "apiVersion": "v1", **fields})}


def shown(decision, width=80):
    """The lines about a decision on a screen of this width, without colours."""
    screen = Screen()
    screen.width, screen.colours = width, False
    return explain(decision, screen)


def read_scores(lines):
    """Read a table of scores: {what heads the column of a node: {row: cell}}."""
    ends = [i for i, line in enumerate(lines) if line.startswith("  Total ")]
    if not ends:
        return {}
    lines = [line.replace("raw→points×weight", " " * 17) for line in lines]  # which is said above the rows' names
    first = min(i for i, line in enumerate(lines) if line.startswith(" " * 9))
    heads, rows = lines[first], lines[first + 1:ends[0] + 1]
    starts = [match.start() for match in re.finditer(r"(?<=  )([*=] )?\S+", heads)]
    return {heads[start:end].strip(): {row[:starts[0]].strip(): row[start:end].strip() for row in rows}
            for start, end in zip(starts, [*starts[1:], None])}


def read_failing(lines):
    """Read what is said of the nodes that do not fit: [(which, the rest without its spaces)]."""
    groups = "\n".join(lines).split("\n  ✗ ")[1:]
    return [(who, squeeze(rest)) for who, rest in (re.split("  +", group, maxsplit=1) for group in groups)]


def squeeze(text):
    """A text without its spaces."""
    return "".join(text.split())


def test_a_table_has_a_row_per_priority_and_a_column_per_node():
    assert explained("--cluster", DEMO)["default/report"] == """\
default/report -> node-a  (2 of 5 nodes fit, score 419)
  raw→points×weight           * node-a  node-b
  LeastRequestedPriority      29×1      88×1
  BalancedResourceAllocation  90×1      92×1
  NodeAffinityPriority        1→100×2   0→0×2
  TaintTolerationPriority     0→100×1   0→100×1
  Total                       419       280
  node-a is 139 ahead of node-b: NodeAffinityPriority +200,
  BalancedResourceAllocation -2, LeastRequestedPriority -59
  ✗ control-plane  PodToleratesNodeTaints: node(s) had taint
                   {node-role.kubernetes.io/control-plane: }, that the pod
                   didn't tolerate
  ✗ node-gpu       PodToleratesNodeTaints: node(s) had taint {gpu: true}, that
                   the pod didn't tolerate
  ✗ node-old       CheckNodeUnschedulable: node(s) were unschedulable""".splitlines()


def test_a_single_node_is_scored_and_nodes_with_the_same_reasons_are_put_together():
    assert explained("--cluster", DEMO)["default/cache"] == """\
default/cache -> node-a  (1 of 5 nodes fit, score 227)
  raw→points×weight           * node-a
  LeastRequestedPriority      34×1
  BalancedResourceAllocation  93×1
  NodeAffinityPriority        0→0×2
  TaintTolerationPriority     0→100×1
  Total                       227
  ✗ 3 nodes   MatchNodeSelector: node(s) didn't match Pod's node affinity
              control-plane (disk In [ssd]: has no disk), node-b (disk In [ssd]:
              has disk=hdd), node-gpu (disk In [ssd]: has no disk)
  ✗ node-old  CheckNodeUnschedulable: node(s) were unschedulable""".splitlines()


def test_of_a_pod_that_fits_nowhere_the_reasons_are_shown():
    lines = explained("--cluster", DEMO)["default/warehouse"]
    assert lines[0].startswith("default/warehouse stays pending: 0/5 nodes are available: 1 Insufficient memory,")
    assert lines[3] == "  A node may have two reasons: these numbers add up to 6."
    assert lines[4:9] == ["  ✗ 2 nodes   PodFitsResources: Insufficient cpu",
                          "              node-b (requests cpu 12000m, free 7000m), control-plane (requests",
                          "              cpu 12000m, free 4000m)",
                          "  ✗ node-a    PodFitsResources: Insufficient cpu, Insufficient memory",
                          "              node-a (requests cpu 12000m, free 1000m; requests memory 4096Mi,"]


@table("resource, wants, free, said", {
    "cpu": ("cpu", "3", "2900m", "requests cpu 3000m, free 2900m"),
    "memory": ("memory", "2Gi", "1Gi", "requests memory 2048Mi, free 1024Mi"),
    "what is hardly missing is not rounded away": (
        "memory", "100.5Mi", "100.4Mi", "requests memory 101Mi, free 100Mi"),
    "a device": ("example.com/gpu", "2", "1", "requests example.com/gpu 2, free 1"),
    "a device that is not there": ("example.com/gpu", "2", None, "requests example.com/gpu 2, free 0"),
    "what others have is not free": ("cpu", "3", "5", "requests cpu 3000m, free 2500m"),
})
def test_what_is_short_is_said_in_numbers(resource, wants, free, said):
    allocatable = {"cpu": "9", "memory": "9Gi", "pods": "9"} | ({resource: free} if free else {})
    there = node("a", status={"allocatable": allocatable})
    others = [pod("o", {"cpu": "2500m"}, nodeName="a")] if free == "5" else []
    assert shown(decide(policy(), pod("p", {resource: wants}), there, *others))[-3:] == [
        f"  ✗ a  PodFitsResources: Insufficient {resource}", f"       a ({said})", ""]


def test_the_nearest_miss_comes_first():
    nodes = [node(name, cpu) for name, cpu in {"a": "1", "b": "2900m", "c": "2", "d": "2"}.items()]
    decision = decide(policy(), pod("p", {"cpu": "3"}), *nodes, node("e", "9", unschedulable=True))
    assert shown(decision, 300)[1:3] == [
        "  ✗ 4 nodes  PodFitsResources: Insufficient cpu",
        "             " + ", ".join(f"{name} (requests cpu 3000m, free {free}m)"
                                   for name, free in [("b", 2900), ("c", 2000), ("d", 2000), ("a", 1000)])]
    assert decision.message == "0/5 nodes are available: 1 node(s) were unschedulable, 4 Insufficient cpu."


def test_nothing_comes_before_the_first_decision():
    assert run_scheduler("--explain", "--cluster", DEMO).stdout.startswith("default/web-1 -> node-b  (2 of 5 nodes ")


def test_a_pod_for_which_there_is_no_node_has_just_its_message():
    assert shown(decide(policy(), pod("p"))) == ["default/p stays pending: no nodes available to schedule pods", ""]


ONCE = pytest.mark.xdist_group("golden decisions")  # which are made by one worker


@pytest.fixture(scope="module")
def golden_decisions():
    """The decisions about the pods of each third golden case."""
    decisions = []
    for case in (line["case"] for line in DECISIONS[::3]):
        policies, cluster = {"my-scheduler": policy_of(case)}, cluster_of(*case["objects"])
        decisions += [schedule(waiting, cluster.look(policies), policies["my-scheduler"])
                      for waiting in pending_pods(cluster, policies)]
    assert len(decisions) > 300
    return decisions


@ONCE
@pytest.mark.parametrize("width", [60, 80, 200, 2000])
def test_the_best_nodes_are_there_with_all_their_scores(golden_decisions, width):
    """Where there is room, all nodes that fit; else the others are counted."""
    cells = 0
    for decision in golden_decisions:
        lines = shown(decision, width)
        assert max(map(len, lines)) <= width
        best = sorted(decision.total, key=lambda name: (-decision.total[name], name != decision.node, name))
        columns = read_scores(lines)
        assert min(len(best), 1 if width < 2000 else len(best)) <= len(columns) <= len(best)
        more = f"  more nodes that fit: {len(best) - len(columns)}, down to a total of "
        assert any(line.startswith(more) for line in lines) == (len(columns) < len(best))
        for name, (head, column) in zip(best, columns.items()):
            tie = decision.node and decision.total[name] == decision.total[decision.node]
            assert head == ("* " if name == decision.node else "= " * bool(tie)) + shorten(name)
            assert column == dict(expected_column(decision, name, width // 2 - 2))
            cells += len(column)
    assert cells > 1500


NORMALISED = ("NodeAffinityPriority", "TaintTolerationPriority", "InterPodAffinityPriority", "EvenPodsSpreadPriority",
              "SelectorSpreadPriority")


def expected_column(decision, name, width):
    """Yield what the rows of a table have on a node."""
    rules = {rule.title: rule for rule in decision.policy.priorities}
    for title, scores in decision.scores.items():
        first, *rest = title.split("+")
        raw, weight = decision.raw[title][name], rules[title].weight
        cell = f"{scores[name] // weight}×{weight}"
        if rules[title].name in NORMALISED:
            cell = ("-→" if raw is None else f"{raw}→") + cell
        yield shorten(first, width), cell
        yield from ((f"+{name}", "") for name in rest)
    yield "Total", str(decision.total[name])


@ONCE
@pytest.mark.parametrize("width", [60, 80, 200, 2000])
def test_all_failing_nodes_are_there_with_all_that_is_against_them(golden_decisions, width):
    """One by one, or counted; where there is room, with all their names."""
    sizes, several = [], 0
    for decision in golden_decisions:
        groups = {}
        for name, against in decision.failed.items():
            groups.setdefault(json.dumps(against), []).append(name)
            several += len(against) > 1
        expected = sorted(groups.items(), key=lambda group: -len(group[1]))
        for (against, names), (who, text) in zip(expected, read_failing(shown(decision, width)), strict=True):
            why = squeeze("".join(f"{title}: {', '.join(why)}" for title, why in json.loads(against).items()))
            short = [shorten(name) for name in names]
            assert who == (short[0] if len(names) == 1 else f"{len(names)} nodes")
            assert text.startswith(why)
            rest = text.removeprefix(why)
            listed = re.sub(r"\(.*?\)", "", rest).split(",")
            wanted = short if len(names) > 1 or rest else [""]
            if "(" not in rest:  # what the nodes lack
                assert ",".join(wanted).startswith(",".join(listed).removesuffix("…"))
            assert width < 2000 or sorted(listed) == sorted(wanted)
            sizes.append(len(names))
    assert max(sizes) > 5 and sizes.count(1) > 300 and several > 3


def test_the_tables_have_the_numbers_of_the_json_records():
    tables = explained("--cluster", DEMO, "--seed=1")
    run = run_scheduler("--cluster", DEMO, "--seed=1", "--output=json")
    for record in map(json.loads, run.stdout.splitlines()):
        columns = read_scores(tables[record["pod"]])
        assert {head.strip("*= ") for head in columns} == set(record["feasible"])
        for head, cells in columns.items():
            assert head.startswith("*") == (head.strip("*= ") == record["node"])
            assert cells.pop("Total") == str(record["total"][head.strip("*= ")])
            assert {title: eval(cell.split("→")[-1].replace("×", "*")) for title, cell in cells.items()} == {
                title: scores[head.strip("*= ")] for title, scores in record["scores"].items()}


def test_ties_are_shown_as_ties(tmp_path):
    path = manifest(tmp_path, node("a"), node("b"), node("c", cpu="2"), pod("p", {"cpu": "1"}))
    lines = explained("--cluster", path, "--seed=1")["default/p"]
    chosen = lines[0].split()[2]
    assert [*read_scores(lines)] == [f"* {chosen}", f"= {'b' if chosen == 'a' else 'a'}", "c"]
    assert lines[-1] == "  2 nodes (* and =) tie: any of them is taken, at random"


@table("nodes, said", {
    "one is ahead of the next": ({"a": "4", "b": "2"}, ["  a is 26 ahead of b: LeastRequestedPriority +26"]),
    "several are ahead of the next": (
        {"a": "4", "b": "4", "c": "2"}, ["  * is 26 ahead of c: LeastRequestedPriority +26"]),
    "all tie": ({"a": "4", "b": "4"}, []),
    "there is just one": ({"a": "4"}, []),
})
def test_what_decided_is_said(nodes, said):
    rules = policy(predicates=[], priorities=[{"name": "LeastRequestedPriority", "weight": 2},
                                              {"name": "TaintTolerationPriority", "weight": 3}])
    decision = decide(rules, pod("p", {"cpu": "1"}), *(node(name, cpu) for name, cpu in nodes.items()))
    lines = [line for line in shown(decision) if " ahead of " in line]
    assert lines == [line.replace("*", decision.node) for line in said]


def test_where_none_tie_nothing_is_said_of_ties():
    lines = shown(decide(policy(), pod("p", {"cpu": "1"}), node("a"), node("b", cpu="2")))
    assert [*read_scores(lines)] == ["* a", "b"]
    assert not [line for line in lines if "tie" in line or "more nodes" in line]


FORTY = [node(f"ip-172-31-{i}-117.eu-west-1.compute.internal", unschedulable=i % 4 == 0,
              cpu="100m" if i % 8 == 1 else str(i - 96)) for i in range(100, 140)]


@table("rules, width, columns", {
    "the shipped Policy, 80 columns": ("policy.json", 80, 2),
    "the shipped Policy, 60 columns": ("policy.json", 60, 1),
    "the shipped Policy, 200 columns": ("policy.json", 200, 6),
    "kube-scheduler's default rules, 80 columns": (None, 80, 2),
    "kube-scheduler's default rules, 50 columns: a dry run's on a narrow terminal": (None, 50, 1),
})
def test_of_many_nodes_with_long_names_as_many_are_shown_as_fit(rules, width, columns):
    policies = policy() if rules is None else load_policies(ROOT / rules, "my-scheduler")
    decision = decide(policies, pod("p", {"cpu": "1"}), *FORTY)
    lines = shown(decision, width)
    assert max(map(len, lines)) <= width
    assert len(read_scores(lines)) == columns
    assert len({head.strip("*= ") for head in read_scores(shown(decision, 9999))}) == 25, "each can be told from others"
    text = " ".join(" ".join(lines).split())
    assert f"more nodes that fit: {25 - columns}, down to a total of {min(decision.total.values())} " in text
    assert " ✗ 10 nodes CheckNodeUnschedulable: node(s) were unschedulable ip-172-31-100-11…rnal, " in text
    assert " ✗ 5 nodes PodFitsResources: Insufficient cpu ip-172-31-105-11…rnal (requests cpu 1000m, free 100m), " in text


def test_no_further_node_would_fit():
    decision = decide(policy(priorities=[]), pod("p"), *(node(f"node-{i:02}") for i in range(50)))
    for width in range(60, 120):
        lines = shown(decision, width)
        [total] = [line for line in lines if line.startswith("  Total")]
        head = lines[lines.index(total) - 1]
        assert len(head) <= width < len(head) + len("  = node-00"), "all of them tie"


def test_a_score_that_is_too_wide_is_shown_all_the_same():
    rules = policy(priorities=[{"name": "NodeAffinityPriority", "weight": 1}])
    decision = decide(rules, pod("p"), node("a"), node("b"))
    [vote] = decision.votes
    vote.raw = {"a": 10**99, "b": 10**99}
    [(head, column)] = read_scores(shown(decision)).items()
    assert (head[0], column["NodeAffinityPriority"]) == ("*", f"{10**99}→0×1")


@table("count, end", {
    "all where they fit": (30, "node-4, node-5, node-6, node-7, node-8, node-9"),
    "of very many, the first ones": (300, "node-109, node-11, node-110, and 285 more"),
})
def test_the_names_of_failing_nodes_are_all_there_or_counted(count, end):
    lines = shown(decide(policy(), pod("p"), *(node(f"node-{i}", unschedulable=True) for i in range(count))))
    assert lines[2] == f"  ✗ {count} nodes  CheckNodeUnschedulable: node(s) were unschedulable"
    assert " ".join(" ".join(lines[3:]).split()).endswith(end)
    assert set(re.findall(r"node-\d+", " ".join(lines[3:]))) == set(sorted(f"node-{i}" for i in range(count))[:15 if count > 30 else 30])


@table("of, said", {
    "cpu that lacks on each of twelve": (pod("p", {"cpu": "5"}), "(requests cpu 5000m, free 4000m)"),
    "what a selector asks, and what each node has": (
        pod("p", nodeSelector={"pool": "a-value-that-is-as-long-as-such-values-are-in-earnest"}),
        "(pool In [a-value-that-is-as-long-as-such-values-are-in-earnest]: has no pool)"),
})
def test_all_nodes_behind_a_reason_have_their_numbers(of, said):
    names = [f"gke-prod-pool-0-5fc70dbf-{i:04}" for i in range(12)]
    text = " ".join(" ".join(shown(decide(policy(), of, *map(node, names)))).split())
    assert text.count(said) == 12


@table("nodes, of, said", {
    "pods in a domain, and in the emptiest": (
        [node("a", labels={"zone": "west"}), node("b", labels={"zone": "east"}, cpu="0")],
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                                        "labelSelector": {"matchLabels": {"app": "web"}}}]}, "a (2 in zone west, 0 in east, maxSkew 1)"),
    "pods on a node, and how many it takes": ([node("a", pods="2")], {}, "a (2 pods of 2)"),
})
def test_pods_are_counted_as_cpu_is(nodes, of, said):
    there = [pod(name, labels={"app": "web"}, nodeName="a") for name in "xy"]
    lines = shown(decide(policy(), pod("p", {"cpu": "1"}, labels={"app": "web"}, **of), *nodes, *there))
    assert said in " ".join(" ".join(lines).split())


def test_a_term_of_node_affinity_that_is_invalid_is_named():
    term = {"matchExpressions": [{"key": f"example.com/{each}", "operator": "Exists"} for each in ("a-long-name", "another-one")]
            + [{"key": "size", "operator": "Gt", "values": ["150.1"]}]}
    affinity = {"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": [term]}}}
    text = " ".join(" ".join(shown(decide(policy(), pod("p", affinity=affinity), node("a", labels={"size": "200"})))).split())
    assert ("! default/p has node affinity of which nodeSelectorTerms[0] is invalid, and matches no node: for 'Gt', 'Lt' operators, "
            "the value must be an integer: ") in text and '"values": ["150.1"]' in text


@table("names, shown", {
    "of AWS, which differ in the middle": (
        [f"ip-192-168-142-{i}.us-west-2.compute.internal" for i in (118, 135, 171)],
        ["ip-192-168-142-118.u…", "ip-192-168-142-135.u…", "ip-192-168-142-171.u…"]),
    "... at both ends": (["a" * 30 + "x", "a" * 30 + "y"], ["a" * 16 + "…" + "aaax", "a" * 16 + "…" + "aaay"]),
    "... deep in the middle": (
        [f"{'a' * 20}{middle}{'b' * 20}" for middle in "xy"], ["a" * 20 + "x" + "b" * 20, "a" * 20 + "y" + "b" * 20]),
})
def test_names_that_are_shortened_still_differ(names, shown):
    assert [*short_names(tuple(names)).values()] == shown


@table("name, short", {
    "one that is short stays whole": ("control-plane", "control-plane"),
    "21 characters are short": ("gke-default-pool-x7k9", "gke-default-pool-x7k9"),
    "an address stays whole": ("ip-172-31-45-117.eu-west-1.compute.internal", "ip-172-31-45-117…rnal"),
    "so does a generated ending": ("gke-prod-default-pool-1a2b3c4d-x7k9", "gke-prod-default…x7k9"),
})
def test_names_are_shortened_in_the_middle(name, short):
    assert [*read_scores(shown(decide(policy(), pod("p"), node(name))))] == [f"* {short}"]
    assert f"  ✗ {short}  " in shown(decide(policy(), pod("p"), node(name, unschedulable=True)))[-2]


def test_a_rule_of_several_entries_has_a_line_for_each():
    lines = shown(decide(policy(predicates=[]), pod("p"), node("a")))
    first = lines.index("  SelectorSpreadPriority       0→100×2")
    assert lines[first + 1:first + 3] == ["  +EvenPodsSpreadPriority", "  InterPodAffinityPriority     0→0×1"]
    said = "SelectorSpreadPriority+EvenPodsSpreadPriority: these entries of the Policy make one rule with one weight"
    assert said in " ".join(" ".join(lines).split())


def test_a_title_takes_half_the_screen_at_most():
    name = "prefer-the-nodes-that-have-a-label-of-which-we-think-highly"
    lines = shown(decide(policy(predicates=[], priorities=[
        {"name": name, "weight": 3, "argument": {"labelPreference": {"label": "x", "presence": False}}}]),
        pod("p"), node("a")))
    assert lines[2] == f"  {name[:33]}…ghly  100×3"


def test_a_node_without_a_raw_score_has_a_dash():
    constraint = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    lines = shown(decide(policy(priorities=[{"name": "EvenPodsSpreadPriority", "weight": 5}]),
                         pod("p", topologySpreadConstraints=[constraint]), node("a", labels={"rack": "1"}), node("b")))
    assert {head: cells["EvenPodsSpreadPriority"] for head, cells in read_scores(lines).items()} == {
        "* a": "0→100×5", "b": "-→0×5"}


def test_a_policy_without_priorities_has_a_total():
    lines = shown(decide(policy(priorities=[]), pod("p"), node("a"), node("b")))
    assert lines[1] in ("         * a  = b", "         * b  = a")
    assert lines[2] == "  Total  1    1"


def test_extenders_have_a_say_in_the_table():
    """Their scores come weighed; the address of one does not break the width."""
    decision = decide(policy(predicates=[], priorities=[]), pod("p"), *map(node, "abcde"))
    url = "https://scorer.scheduling.svc.cluster.local:8443/scheduler/v1"
    decision.node, decision.total = "a", {"a": 300, "b": 20}
    decision.votes = [Vote("extenders[0] http://10.0.0.1", 1, None, {"a": 200, "b": 0}),
                      Vote(f"extenders[1] {url}", 1, None, {"a": 100, "b": 20})]
    decision.failed = {"c": {"extenders[0]": ["c is haunted"]}, "d": {"extenders[0]": []}, "e": {"extenders[0]": []}}
    assert shown(decision) == [*"""default/p -> a  (2 of 5 nodes fit, score 300)\n                                          * a  b\n  extenders[0] http://10.0.0.1            200  0\n  extenders[1] https://scorer.sched…r/v1  100  20\n  Total                                   300  20\n  a is 280 ahead of b: extenders[0] http://10.0.0.1 +200, extenders[1]\n  https://scorer.scheduling.svc.cluster.local:8443/scheduler/v1 +80\n  ✗ 2 nodes  extenders[0]: no reason given\n             d, e\n  ✗ c        extenders[0]: c is haunted\n""".splitlines(), ""]


def at_a_terminal(*arguments, columns=80, **environment):
    """Run the scheduler at a terminal; return what it shows."""
    ours, theirs = pty.openpty()
    # The first terminal that a session opens is its own. (pty.fork() does so, too, but warns if there are threads.)
    opening = ["sh", "-c", 'exec "$@" <>"$0" >&0 2>&0', os.ttyname(theirs)]
    command = [*opening, *SCHEDULER, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=theirs, start_new_session=True, env={
        **os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "40", "NO_COLOR": "1", **environment})
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # it has ended
            break
    os.close(ours)
    assert process.wait() == 0
    return shown.decode().replace("\r", "")


@table("environment, coloured", {
    "a terminal has colours": ({"NO_COLOR": ""}, True),
    "NO_COLOR is honoured": ({"NO_COLOR": "1"}, False),
    "a terminal without colours": ({"NO_COLOR": "", "TERM": "dumb"}, False),
})
def test_colours(environment, coloured):
    shown = at_a_terminal("--explain", "default/report", "--cluster", DEMO, columns=130, **environment)
    assert ("\033[1;32m* node-a" in shown) == coloured
    assert ("\033" in shown) == coloured
    wide = [line for line in shown.splitlines() if "control-plane" in line]
    assert len(wide) == 1 and "that the pod" in wide[0], "it uses the width of the terminal"


def test_decisions_are_folded_at_a_terminal_only():
    text = "default/warehouse stays pending: 0/5 nodes are available: 1 Insufficient memory,"
    shown = at_a_terminal("--cluster", DEMO, columns=80)
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80 and f"\n{text}\n    1 node(s) had taint " in shown
    assert f"\n{text} 1 node(s) had taint " in run_scheduler("--cluster", DEMO).stdout


@pytest.mark.parametrize("width", [80, 120, 300])
def test_a_picture_fits_the_screen(width):
    nodes = [node(f"ip-172-31-{i}-117.eu-west-1.compute.internal", status={"allocatable": {
        "cpu": "64", "memory": "256Gi", "pods": "250"}}) for i in range(100, 130)]
    pods = [pod(f"web-7b9f5d6c4-{i:05}", {"cpu": "1", "memory": "7Gi"}, nodeName=nodes[i % 30]["metadata"]["name"])
            for i in range(300)]
    cluster = cluster_of(*nodes, *pods, *(pod(f"waits-for-ever-{i}") for i in range(99)))
    screen = Screen()
    screen.width = width
    pods, snapshot = cluster.waiting_pods({"my-scheduler": None}), cluster.look()
    lines = [*picture(snapshot.nodes.values(), pods, screen, set()),
             *pods_without_node(pods, snapshot, screen, {})]
    assert max(map(len, lines)) <= width and len(lines) < 70


def test_what_matters_is_coloured(capsys):
    decision = decide(load_policies(ROOT / "policy.json", "my-scheduler"), pod("p"), *FORTY)
    plain, screen = shown(decision), Screen()
    screen.width, screen.colours = 80, True

    def coloured():
        screen.print(*explain(decision, screen))
        return capsys.readouterr().out.removesuffix("\n").split("\n")

    lines = coloured()
    assert [re.sub("\033.*?m", "", line) for line in lines] == plain
    bold, dim, red, green = "1", "2", "91", "1;32"
    colours = [re.findall("\033.([1-9;]+)m", line) for line in lines]
    assert colours == [[bold], [bold], [green], [], [], [], [], [], [], [], [], [], [red], *[[dim]] * (len(lines) - 14), []]
    assert "\033[1;32m* ip-172-" in lines[2]
    decision.node, decision.message = None, "refused"
    assert "\033[1;32m" not in "".join(coloured()), "no node was chosen"


def test_control_characters_are_shown_escaped(capsys):
    screen = Screen()
    screen.colours = True
    screen.print(screen.paint("\033[31mred\a\r\n\x9b\0 \x7f", ""), screen.paint("\033", BOLD))
    assert capsys.readouterr().out == "\\x1b[31mred\\x07\\r\\n\\x9b\\x00 \\x7f\n\033[1m\\x1b\033[0m\n"
    assert align([["\033", "a"]]) == ["\\x1b  a"]


def test_with_verbose_each_line_of_the_log_has_its_time():
    run = run_scheduler("--server", f"http://127.0.0.1:{free_port()}", "--once", "--verbose")
    lines = run.stderr.splitlines()
    assert lines and all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}  ", line) for line in lines), run.stderr


def test_piped_output_is_plain_and_does_not_depend_on_the_terminal():
    runs = {run_scheduler("--explain", "--cluster", DEMO, "--seed=1", env={**os.environ, "COLUMNS": columns}).stdout
            for columns in ("40", "200")}
    assert len(runs) == 1 and "\033" not in runs.pop()


@table("key, first", {
    "a pending pod, for which the run places others first": (
        "default/report", "is pending. When the run comes to it, behind 3 others, by policy.json:"),
    "the namespace default needs no naming": ("report", "is pending. When the run comes to it, behind 3 others, by policy.json:"),
    "the first one of a run": ("web-1", "is pending. If scheduled now, by policy.json:"),
    "one that has a node, as if it had none": (
        "default/database",
        "is on node-a and is left to default-scheduler, as it names no other. If scheduled now, by the default profile of "
        "today's kube-scheduler:"),
    "another scheduler's": ("default/foreign", "is left to other-scheduler. If scheduled now, by policy.json:"),
    "the cluster's own scheduler's, by that one's rules": (
        "default/plain",
        "is left to default-scheduler, as it names no other. If scheduled now, by the default profile of today's "
        "kube-scheduler:"),
    "one whose scheduler's name is nearly ours": (
        "default/slip", "names my-sheduler (did you mean my-scheduler?). If scheduled now, by policy.json:"),
    "one with scheduling gates": ("default/gated", "has scheduling gates (quota). If scheduled now, by policy.json:"),
})
def test_explain_a_pod_and_who_decides(key, first, tmp_path):
    run_one = explain_one(tmp_path, key)
    assert run_one.returncode == 0, run_one.stderr
    key = f"default/{key.removeprefix('default/')}"
    assert " ".join(run_one.stdout.split()).startswith(f"{key} {first} {key} ")


def test_the_policy_that_is_given_explains_any_pod(tmp_path):
    run = explain_one(tmp_path, "default/plain", "--policy", "policy.json")
    assert run.stdout.startswith(
        "default/plain is left to default-scheduler, as it names no other. If scheduled\nnow, by policy.json:\n")


REQUIRED, TERM = f"required{WHEN}", {"topologyKey": "zone", "labelSelector": {}}


@table("asks, what, rule", {
    "resources": ({"requests": {"cpu": "1"}}, "resource requests", "PodFitsResources"),
    "host ports": ({"containers": [{"ports": [{"hostPort": 80}]}]}, "host ports", "PodFitsHostPorts"),
    "labels of the node": ({"nodeSelector": {"disk": "ssd"}}, "a node selector", "MatchNodeSelector"),
    "more elaborately": (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}}, "required node affinity",
        "MatchNodeSelector"),
    "a disk": ({"volumes": [{"name": "v", "iscsi": {"iqn": "x"}}]}, "a network disk", "NoDiskConflict"),
    "a claim": ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]}, "claims",
                "CheckVolumeBinding"),
    "to be spread": ({"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}, "required spreading",
                     "EvenPodsSpread"),
    "company": ({"affinity": {"podAffinity": {REQUIRED: [TERM]}}}, "required pod affinity", "MatchInterPodAffinity"),
    "to be alone": ({"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}}, "required pod anti-affinity",
                    "MatchInterPodAffinity"),
})
def test_what_no_rule_looks_at_is_said_of_each_pod_and_once_where_pods_are_placed(asks, what, rule, tmp_path):
    path = manifest(tmp_path, node("a"), pod("p", **asks), pod("q", **asks))
    always = [{"name": name} for name in MANDATORY_PREDICATES]
    (tmp_path / "none.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "predicates": always, "priorities": []}))
    run = run_scheduler("--cluster", path, "--policy", tmp_path / "none.json")
    said = f"has {what}, and {rule}, which looks at that, is not active"
    assert run.stderr == f"default/p is placed, though it {said}\n"
    lines = explained("--cluster", path, "--policy", tmp_path / "none.json")
    assert [f"!{key}{squeeze(said)}" in squeeze("".join(lines[key])) for key in ("default/p", "default/q")] == [True] * 2
    (tmp_path / "one.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "predicates": [{"name": rule}], "priorities": []}))
    assert "! " not in run_scheduler("--cluster", path, "--policy", tmp_path / "one.json", "--explain").stdout


@table("spec", {
    "a label value that is a word of constraints": ({"topologySpreadConstraints": [{
        "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"rule": "DoNotSchedule"}}}]},),
    "preferred affinity": ({"affinity": {"podAffinity": {f"preferred{WHEN}": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": REQUIRED}}]}}},),
    "no required terms": ({"affinity": {"podAffinity": {REQUIRED: []}}},),
    "what nobody can read": ({"topologySpreadConstraints": [7]},),
})
def test_what_is_not_required_is_not_missed(spec):
    assert decide(policy(predicates=[], priorities=[]), pod("p", **spec[0]), node("a")).unheeded == []


def test_where_taints_are_not_looked_at_that_is_said_too():
    [configured] = read_configuration({
        "kind": "KubeSchedulerConfiguration", "apiVersion": CONFIGURATION_VERSION, "profiles": [
            {"plugins": {"filter": {"disabled": [{"name": "TaintToleration"}]}}}]}, "my-scheduler").values()
    tainted = node("a", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    for tolerations, said in ([{"operator": "Exists"}], []), ([], [
            "has no toleration for taints there, and TaintToleration, which looks at that, is not active"]):
        decision = decide({"my-scheduler": configured}, pod("p", tolerations=tolerations), tainted)
        assert decision.unheeded == said


def test_the_rules_of_a_configuration_have_the_names_of_its_plugins(tmp_path):
    (tmp_path / "config.yaml").write_text(
        f"kind: KubeSchedulerConfiguration\napiVersion: {CONFIGURATION_VERSION}\n"
        "profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}]")
    lines = explained("--cluster", DEMO, "--policy", tmp_path / "config.yaml")
    assert {"NodeResourcesFit", "TaintToleration", "PodTopologySpread"} <= {
        row for cells in read_scores(lines["default/report"]).values() for row in cells}
    text = "\n".join(map("\n".join, lines.values()))
    assert "✗ node-old       NodeUnschedulable: node(s) were unschedulable" in text
    assert not re.search("[A-Z][A-Za-z]+Priority|PodFits|PodTolerates", text)


def explain_one(folder, key, *arguments):
    """Run --explain for one pod of the demo, to which a few have been added."""
    manifest(folder, pod("foreign", schedulerName="other-scheduler"), pod("plain", schedulerName=""),
             pod("slip", schedulerName="my-sheduler"),
             pod("gated", schedulingGates=[{"name": "quota"}]))
    return run_scheduler("--cluster", DEMO, folder / "cluster.json", "--explain", key, *arguments,
                         cwd=ROOT)


def test_a_pod_on_a_node_does_not_stand_in_its_own_way(tmp_path):
    there = pod("there", {"cpu": "3"}, nodeName="a", containers=[
        {"name": "c", "image": "i", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "3"}}}])
    run = run_scheduler("--cluster", manifest(tmp_path, node("a"), there), "--explain", "there", "--output=json")
    assert json.loads(run.stdout)["node"] == "a"
    assert run_scheduler("--cluster", manifest(tmp_path, node("a"), there)).stderr.startswith("no pod waits")


def test_json_of_one_pod_is_its_record_and_nothing_else(tmp_path):
    run = explain_one(tmp_path, "default/training", "--output=json")
    assert json.loads(run.stdout)["pod"] == "default/training"
    assert json.loads(run.stdout)["node"] == "node-gpu"


def test_explain_a_pod_that_is_not_there(tmp_path):
    run = explain_one(tmp_path, "kube-system/nobody")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.splitlines()[-1] == (
        'pod "kube-system/nobody" not found (NAMESPACE/NAME of one that has not ended; default/ may be left out)')


def test_explain_a_pod_without_a_proxy():
    run = run_scheduler("--server", f"http://127.0.0.1:{free_port()}", "--explain", "web")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("cannot reach http://127.0.0.1:") and run.stderr.count("\n") == 1


def test_explain_on_the_control_plane_binds_and_writes_nothing(control_plane):
    control_plane.create(node("a"), node("b", unschedulable=True), pod("mine"), pod("theirs", schedulerName="other"),
                         pod("bound"))
    control_plane.bind("bound", "a")
    before = control_plane.pods()
    for name, said in {"mine": "default/mine is pending. If", "bound": "default/bound is on a. If",
                       "theirs": "default/theirs is left to other. If"}.items():
        run = run_scheduler("--server", control_plane.server, "--explain", f"default/{name}")
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.startswith(said)
        assert re.search("^  ✗ b +CheckNodeUnschedulable: ", run.stdout, re.M)
    run = run_scheduler("--server", control_plane.server, "--explain", "default/mine", "--output=json")
    assert json.loads(run.stdout)["node"] == "a"
    assert control_plane.pods() == before
    assert control_plane.get("events")["items"] == []


def test_a_rejection_whatever_the_node_says_so():
    claims = pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}])
    assert shown(decide(policy(), claims, node("a", unschedulable=True)))[2:] == [
        '  ✗ a  CheckVolumeBinding (whatever the node): persistentvolumeclaim "none" not',
        "       found", ""]


def test_where_each_node_has_one_reason_nothing_is_said_of_two():
    lines = shown(decide(policy(), pod("p", {"cpu": "2"}), node("a", cpu="1", unschedulable=True), node("b", cpu="1")))
    assert lines[0].endswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s)") and lines[2].startswith("  ✗ ")


def test_all_failing_predicates_are_shown_where_the_policy_has_all_asked():
    lines = shown(decide(policy(alwaysCheckAllPredicates=True), pod("p", {"cpu": "2"}),
                         node("a", cpu="1", unschedulable=True), node("b", cpu="1"), node("c", cpu="1")))
    assert lines[2] == "  A node may have two reasons: these numbers add up to 4."
    assert lines[3:] == ["  ✗ 2 nodes  PodFitsResources: Insufficient cpu",
                         "             b (requests cpu 2000m, free 1000m), c (requests cpu 2000m, free",
                         "             1000m)",
                         "  ✗ a        CheckNodeUnschedulable: node(s) were unschedulable",
                         "             PodFitsResources: Insufficient cpu",
                         "             a (requests cpu 2000m, free 1000m)", ""]


def most_requested(folder):
    """policy.json with MostRequestedPriority instead of the priorities that spread."""
    policy = json.loads((ROOT / "policy.json").read_text())
    policy["priorities"] = [{"name": "MostRequestedPriority", "weight": 1}]
    path = folder / "most.json"
    path.write_text(json.dumps(policy))
    return path


def packing_cluster(folder):
    """Three nodes, three small pods, and one that wants a whole node."""
    return manifest(folder, *(node(name) for name in "abc"), *(pod(f"small-{i}", {"cpu": "1"}) for i in range(3)),
                    pod("whole", {"cpu": "4"}))


def test_compare_shows_what_another_policy_would_do(tmp_path):
    path = packing_cluster(tmp_path)
    before = path.read_text()
    run = run_scheduler("--cluster", path, "--compare", most_requested(tmp_path), cwd=ROOT)
    assert (run.returncode, run.stderr) == (0, "")
    moved, summary, numbers = run.stdout.split("\n\n")
    assert moved.splitlines()[0].split() == ["POD", "policy.json", str(tmp_path / "most.json")]
    rows = {line.split()[0]: line.split()[1:] for line in moved.splitlines()[1:]}
    assert rows["default/whole"][0] == "<none>" and rows["default/whole"][1] in "abc"
    assert summary == f"{len(rows)} of 4 pods land elsewhere."
    cells = {line.split("  ")[0]: re.findall(r"[\d.]+%|\d of \d", line) for line in numbers.splitlines()[1:]}
    assert cells["pods that fit"] == ["3 of 4", "4 of 4"]
    assert cells["cpu utilization of a node, min"] == ["25.0%", "0.0%"]
    assert cells["cpu utilization of a node, mean"] == ["25.0%", "58.3%"]
    assert cells["cpu utilization of a node, max"] == ["25.0%", "100.0%"]
    assert cells["cpu utilization of a node, standard deviation"] == ["0.0%", "42.5%"]
    assert path.read_text() == before


@table("repeated", {"one after the other": ["DefaultProvider"], "each with its flag": ["--compare", "DefaultProvider"]})
def test_compare_takes_several(repeated, tmp_path):
    run = run_scheduler("--cluster", packing_cluster(tmp_path), "--compare", most_requested(tmp_path), *repeated, cwd=ROOT)
    assert run.stdout.splitlines()[0].split() == ["POD", "policy.json", str(tmp_path / "most.json"), "DefaultProvider"]


def test_files_may_be_given_one_by_one(tmp_path):
    for name, thing in (("nodes", node("a")), ("pods", pod("p"))):
        (tmp_path / f"{name}.json").write_text(json.dumps({"kind": "List", "items": [thing]}))
    run = run_scheduler("--cluster", tmp_path / "nodes.json", "--cluster", tmp_path / "pods.json")
    assert run.stdout.startswith("default/p -> a ")


def test_without_priorities_it_says_where_the_total_comes_from(tmp_path):
    (tmp_path / "policy.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": []}')
    run = run_scheduler("--cluster", manifest(tmp_path, node("a"), node("b"), pod("p")), "--explain", "--policy",
                        tmp_path / "policy.json")
    assert "\n  no priority is active: each node that fits has a total of 1\n" in run.stdout


def test_compare_says_under_which_policy_nobody_looks_at_what_a_pod_requires(tmp_path):
    (tmp_path / "blind.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": []}')
    path = manifest(tmp_path, node("a"), pod("p", {"cpu": "1"}))
    run = run_scheduler("--cluster", path, "--compare", tmp_path / "blind.json")
    assert run.stderr.splitlines()[-1] == (
        f"{tmp_path / 'blind.json'}: default/p is placed, though it has resource requests, and PodFitsResources, which looks "
        "at that, is not active")
    assert "policy.json: default/p" not in run.stderr


def test_compare_gives_the_same_as_json(tmp_path):
    run = run_scheduler("--cluster", packing_cluster(tmp_path), "--compare", most_requested(tmp_path),
                        "--output=json", cwd=ROOT)
    spread, packed = json.loads(run.stdout).values()
    assert (spread["pods"]["default/whole"], packed["pods"]["default/whole"] is None) == (None, False)
    assert packed["utilization"]["cpu"]["max"] == 100


def test_what_is_compared_may_be_for_other_schedulers(tmp_path):
    path = manifest(tmp_path, node("a"), pod("mine"), pod("theirs", schedulerName="theirs"))
    (tmp_path / "theirs.json").write_text(json.dumps({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "theirs", "plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}]}))
    run = run_scheduler("--cluster", path, "--compare", tmp_path / "theirs.json", cwd=ROOT)
    assert (run.returncode, run.stderr) == (0, "")
    assert [line.split() for line in run.stdout.splitlines()[1:3]] == [
        ["default/mine", "a", "<none>"], ["default/theirs", "<none>", "a"]]


def test_a_rule_without_a_name_can_be_explained(tmp_path):
    (tmp_path / "policy.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "priorities": [
            {"name": "", "weight": 1, "argument": {"labelPreference": {"label": "x"}}}]}))
    lines = explained("--cluster", manifest(tmp_path, node("a"), node("b"), pod("p")),
                      "--policy", tmp_path / "policy.json")["default/p"]
    assert {tuple(cells.items()) for cells in read_scores(lines).values()} == {(("", "100×1"), ("Total", "100"))}


def test_compared_with_itself_no_pod_lands_elsewhere_though_nodes_tie(tmp_path):
    path = manifest(tmp_path, *(node(name) for name in "abcdefgh"), *(pod(f"p{i}") for i in range(8)))
    (tmp_path / "same.json").write_text((ROOT / "policy.json").read_text())
    run = run_scheduler("--cluster", path, "--compare", tmp_path / "same.json")
    assert run.stdout.startswith("0 of 8 pods land elsewhere.\n")


def test_the_policy_in_force_compared_with_itself_gives_the_same_each_time(tmp_path):
    path = manifest(tmp_path, node("a"), pod("p", {"cpu": "1"}))
    run = run_scheduler("--cluster", path, "--policy", "policy.json", "--compare", "policy.json", "policy.json", cwd=ROOT)
    head, fit, *_ = [re.split("  +", line.strip()) for line in run.stdout.splitlines()[2:]]
    assert head == ["policy.json", "policy.json, again", "policy.json, again, again"]
    assert fit == ["pods that fit", *["1 of 1"] * 3]


def test_a_comparison_that_a_signal_ends_has_failed_and_shows_no_table(tmp_path, capsys):
    stop = threading.Event()
    stop.set()
    manifests = Manifests([packing_cluster(tmp_path)])
    files = [PolicyFile(str(ROOT / "policy.json"), "my-scheduler")]
    options = read_arguments(["--cluster", "-"])
    assert compare(manifests, files, stop, options, Screen()) and capsys.readouterr().out == ""


@table("arguments, said", {
    "without manifests": ([], "--compare needs --cluster"),
    "another Policy that is broken": (["--cluster", DEMO], "broken.json: predicates: expected a list, got 7"),
})
def test_compare_with_wrong_usage(arguments, said, tmp_path):
    (tmp_path / "broken.json").write_text('{"kind": "Policy", "apiVersion": "v1", "predicates": 7}')
    run = run_scheduler(*arguments, "--compare", tmp_path / "broken.json")
    assert run.returncode == 2 and said in run.stderr


def test_a_seed_gives_each_pod_the_same_node_whoever_came_before_it(monkeypatch):
    cluster = cluster_of(*(node(f"n{i}") for i in range(9)), *(pod(f"p{i}") for i in range(9)))
    policies = load_policies(ROOT / "policy.json", "my-scheduler")
    monkeypatch.setattr(CHANCE, "seed", "1")
    pods = pending_pods(cluster, policies)
    places = [{pod.key: schedule(pod, cluster.look(policies), policies["my-scheduler"]).node
               for pod in order} for order in (pods, pods[::-1])]
    assert places[0] == places[1] and len(set(places[0].values())) > 2


def waiting_pod(**more):
    """A pod that another process has placed, but not bound yet, as its condition says."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Waiting", "message": "Gang does not permit the binding to a yet"}
    return pod("p", status={"conditions": [condition | more]})


@table("objects, said", {
    "its condition says so": ([waiting_pod()], "waits: Gang does not permit the binding to a yet"),
    "its condition says that it fits nowhere": ([waiting_pod(reason="Unschedulable")], "is pending"),
})
def test_a_pod_that_another_process_has_placed_is_explained_as_one_that_waits(objects, said, tmp_path):
    path = manifest(tmp_path, node("a"), node("b"), *objects)
    run = run_scheduler("--cluster", path, "--explain", "p")
    assert " ".join(run.stdout.split()).startswith(f"default/p {said}. If scheduled now, by policy.json: ")


def test_a_pod_that_waits_is_said_to_wait():
    decision = decide(policy(), pod("p"), node("a"))
    assert in_words(decision).endswith(")") and in_json(decision)["waits"] == ""
    decision.waits = "volumes are being bound or provisioned on a"
    assert in_words(decision).endswith(") waits: volumes are being bound or provisioned on a")
    assert in_json(decision)["waits"] == "volumes are being bound or provisioned on a"


def test_a_pod_that_a_rule_holds_waits_for_that_rule(tmp_path):
    path = manifest(tmp_path, node("a"), pod("p", labels={"group": "crew", "group-size": "2"}))
    (tmp_path / "policy.json").write_text(
        '{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Coscheduling"}], "priorities": []}')
    arguments = ["--cluster", path, "--plugins", ROOT / "scheduler_extras" / "examples" / "tutorial_rules.py", "--policy", tmp_path / "policy.json"]
    waits = "Coscheduling does not permit the binding to a yet: 1 of 2 pods of group crew have a node"
    assert f" waits: {waits}\n" in run_scheduler(*arguments).stdout
    assert f"waits: {waits}" in " ".join(run_scheduler(*arguments, "--explain").stdout.split())
    run = run_scheduler(*arguments, "--output=json")
    assert json.loads(run.stdout)["waits"] == waits


WHAT_FOLLOWS = """
from scheduler import predicate
from scheduler_extras import Unschedulable

def reserve(pod, node, snapshot):
    print("reserve", pod.name, "on", node.name)

def unreserve(pod, snapshot):
    print("unreserve", pod.name)
    return [("PATCH", "/api/v1/namespaces/default/pods/p", {})]

def permit(pod, node, snapshot):
    if "denied" in pod.labels:
        raise Unschedulable("not on a Monday")
    return (30, "1 of 2 pods") if "held" in pod.labels else None

def pre_bind(pod, node, snapshot):
    if "broken" in pod.labels:
        return 1 / 0
    if "awaited" in pod.labels:
        return [], "it comes"
    return ([("PATCH", "/api/v1/namespaces/default/pods/p", {})], "it is to be seen") if "prepared" in pod.labels else None

@predicate("Mine", reserve=reserve, unreserve=unreserve, permit=permit, pre_bind=pre_bind)
def mine(pod, node):
    return []
"""


@table("label, decided", {
    "all agree": ("x", "-> a (1 of 1 nodes fit, score 1)"),
    "permit denies": ("denied", 'stays pending: rejected pod "p" by permit plugin "Mine": not on a Monday'),
    "permit waits": (
        "held", "-> a (1 of 1 nodes fit, score 1) waits: Mine does not permit the binding to a yet: 1 of 2 pods"),
    "something has to take effect": (
        "prepared", "-> a (1 of 1 nodes fit, score 1) waits: Mine prepares the binding to a: it is to be seen"),
    "something is to come by itself": (
        "awaited", "-> a (1 of 1 nodes fit, score 1) waits: Mine prepares the binding to a: it comes"),
    "one breaks": ("broken", "stays pending: ZeroDivisionError in pre_bind: division by zero (Mine: rules.py, line 19), about node a"),
})
@pytest.mark.parametrize("on", ["manifests", "a cluster"])
def test_explain_goes_on_with_what_rules_say_before_the_binding(label, decided, on, tmp_path):
    (tmp_path / "rules.py").write_text(WHAT_FOLLOWS)
    (tmp_path / "policy.json").write_text(json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": [
        {"name": "Mine"}], "priorities": []}))
    things = node("a"), pod("p", labels={label: "yes"})
    server = ApiServer(*things)
    try:
        place = ["--server", server.url] if on == "a cluster" else ["--cluster", manifest(tmp_path, *things)]
        run = run_scheduler(*place, "--plugins", tmp_path / "rules.py", "--policy", tmp_path / "policy.json", "--explain", "p")
        assert {asked.method for asked in server.asked} <= {"GET"} and server.places() == {}, "nothing is sent"
    finally:
        server.stop()
    assert run.stdout.startswith("reserve p on a\n") and max(map(len, run.stdout.splitlines())) <= 80
    assert f"default/p {decided} " in " ".join(run.stdout.split()) + " "


@table("of", {"a pending pod": pod("p"), "one that is on its best node": pod("p", nodeName="a")})
def test_rules_see_an_explained_pod_on_its_node_once(of, tmp_path):
    (tmp_path / "rules.py").write_text(
        "from scheduler import predicate\n\n"
        "def permit(pod, node, snapshot):\n"
        "    return 30, f'{len(node.pods)} of {node.requested[\"cpu\"]}m'\n\n"
        "@predicate('Mine', permit=permit)\n"
        "def mine(pod, node):\n"
        "    return [] if not node.pods else ['it is there already']\n")
    (tmp_path / "policy.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Mine"}], "priorities": []}))
    of["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "300m"}}}]
    run = run_scheduler("--cluster", manifest(tmp_path, node("a"), of), "--plugins", tmp_path / "rules.py",
                        "--policy", tmp_path / "policy.json", "--explain", "p")
    assert "does not permit the binding to a yet: 1 of 300m" in " ".join(run.stdout.split()), run


@table("label, held", {"permit denies": ("denied", False), "permit waits": ("held", True), "all agree": ("x", False)})
def test_json_says_whether_a_pod_is_held(label, held, tmp_path):
    (tmp_path / "rules.py").write_text(WHAT_FOLLOWS)
    (tmp_path / "policy.json").write_text(json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": [
        {"name": "Mine"}], "priorities": []}))
    path = manifest(tmp_path, node("a"), pod("p", labels={label: "yes"}))
    run = run_scheduler("--cluster", path, "--plugins", tmp_path / "rules.py", "--policy", tmp_path / "policy.json",
                        "--output=json")
    assert json.loads(run.stdout.splitlines()[0])["held"] == held, run


@table("of, said", {
    "a pending pod": (pod("p"), "is pending"),
    "one that has a node": (pod("p", nodeName="a"), "is on a"),
    "another scheduler's": (pod("p", schedulerName="other"), "is left to other"),
    "one with scheduling gates": (pod("p", schedulingGates=[{"name": "quota"}]), "has scheduling gates (quota)"),
    "one whose node is not there": (pod("p", nodeName="gone"), "is on gone, a node that does not exist"),
    "another scheduler's that has a node": (pod("p", schedulerName="other", nodeName="a"), "is on a and is left to other"),
    "one on a node, being deleted": (
        pod("p", nodeName="a", metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"}),
        "is on a and is being deleted"),
    "another scheduler's, with gates": (
        pod("p", schedulerName="other", schedulingGates=[{"name": "quota"}]),
        "has scheduling gates (quota) and is left to other"),
})
def test_heading_and_json_say_in_a_sentence_where_a_pod_stands(of, said, tmp_path):
    path, sentence = manifest(tmp_path, node("a"), of), f"default/p {said}. If scheduled now, by policy.json"
    run = run_scheduler("--cluster", path, "--explain", "p")
    assert " ".join(run.stdout.split()).startswith(f"{sentence}: "), run
    run = run_scheduler("--cluster", path, "--explain", "p", "--output=json")
    assert json.loads(run.stdout)["stands"] == sentence


def test_what_another_process_says_of_a_pod_is_shown_on_the_control_plane(control_plane):
    control_plane.create(node("a"), pod("p"))
    [waiting] = waiting_pod()["status"]["conditions"]
    control_plane.request("PATCH", "namespaces/default/pods/p/status", {"status": {"conditions": [waiting]}},
                          headers={"Content-Type": "application/strategic-merge-patch+json"})
    run = run_scheduler("--server", control_plane.server, "--explain", "p")
    assert "default/p waits: Gang does not permit the binding to a yet. If scheduled now" in run.stdout


def test_fractions_are_shown_as_they_are():
    decision = decide(policy(predicates=[], priorities=[{"name": "MostRequestedPriority", "weight": 2}]), pod("p"), node("a"))
    decision.votes[0].raw = decision.votes[0].points = {"a": 33.7}
    decision.total = {"a": 33.7 * 2}
    [column] = read_scores(shown(decision)).values()
    assert column == {"MostRequestedPriority": "33.7×2", "Total": "67.4"}
    assert "score 67.4)" in in_words(decision)


def terms(*terms):
    """A required node affinity of these terms, each of (key, operator, values)."""
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": key, "operator": operator, "values": values} for key, operator, values in term]} for term in terms]}}}}


@table("spec, said", {
    "a label has another value": ({"nodeSelector": {"zone": "est"}}, " (zone In [est]: has zone=east)"),
    "a label is not there": ({"nodeSelector": {"disk": "ssd", "zone": "east"}}, " (disk In [ssd]: has no disk)"),
    "one of several values is asked for": (
        terms([("zone", "In", ["west", "est"])]), " (zone In [west, est]: has zone=east)"),
    "no label is to be there": (terms([("zone", "DoesNotExist", [])]), " (zone DoesNotExist: has zone=east)"),
    "of a term, what is met is not said": (
        terms([("zone", "In", ["east"]), ("gpu", "Exists", [])]), " (gpu Exists: has no gpu)"),
    "one of two terms is enough": (
        terms([("zone", "In", ["west"])], [("gpu", "Exists", [])]),
        " (zone In [west]: has zone=east; gpu Exists: has no gpu)"),
    "a term is met, the selector is not": (
        {"nodeSelector": {"disk": "ssd"}, **terms([("zone", "In", ["east"])], [("zone", "In", ["west"])])},
        " (disk In [ssd]: has no disk)"),
    "a term cannot be read, and the selector is not met": (
        {"nodeSelector": {"disk": "ssd"}, **terms([("zone", [None], ["east"])])}, " (disk In [ssd]: has no disk)"),
})
def test_the_labels_that_differ_are_said(spec, said):
    lines = shown(decide(policy(), pod("p", **spec), node("a", labels={"zone": "east"})), 200)
    assert lines[-3] == "  ✗ a  MatchNodeSelector: node(s) didn't match Pod's node affinity"
    assert lines[-2] == f"       a{said}"


@table("status, said", {
    "none at all": ({"allocatable": None}, "       a (does not say how many pods it takes)"),
    "all but pods": ({"allocatable": {"cpu": "4", "memory": "4Gi"}}, "       a (does not say how many pods it takes)"),
    "no room for pods": ({"allocatable": {"cpu": "4", "memory": "4Gi", "pods": "0"}}, "       a (0 pods of 0)"),
})
def test_of_a_node_that_does_not_say_how_many_pods_it_takes_that_is_said(status, said):
    lines = shown(decide(policy(), pod("p"), node("a", status=status)))
    assert lines[0] == "default/p stays pending: 0/1 nodes are available: 1 Too many pods."
    assert lines[-2] == said


OWN_RULE = "from scheduler import predicate\n\n@predicate('Mine')\ndef mine(pod, node):\n    return {}\n"


@table("rule, arguments, code", {
    "a rule that fails": ("1 / 0", [], 1),
    "a rule with an answer of the wrong kind": ("None", [], 1),
    "one pod is explained": ("1 / 0", ["--explain", "p"], 1),
    "Policies are compared": ("1 / 0", ["--compare", ROOT / "policy.json"], 1),
    "a rule that finds no node": ("['closed']", [], 0),
    "a rule that is content": ("[]", ["--explain", "p"], 0),
})
def test_a_rule_that_failed_is_exit_code_1(rule, arguments, code, tmp_path):
    (tmp_path / "rules.py").write_text(OWN_RULE.format(rule))
    (tmp_path / "policy.json").write_text(
        '{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Mine"}], "priorities": []}')
    own = ["--plugins", tmp_path / "rules.py", "--policy", tmp_path / "policy.json"]
    run = run_scheduler("--cluster", manifest(tmp_path, node("a"), pod("p")), *own, *arguments)
    assert run.returncode == code and "Traceback" not in run.stderr, run
    server = ApiServer(node("a"), pod("p"))
    try:
        run = run_scheduler("--server", server.url, "--once", *own)
    finally:
        server.stop()
    assert run.returncode == code, run


def test_a_write_that_is_refused_is_exit_code_1():
    server = ApiServer(node("a"), pod("p"))
    server.faults["binding"] = answering(403)
    try:
        assert run_scheduler("--server", server.url, "--once").returncode == 1
    finally:
        server.stop()
