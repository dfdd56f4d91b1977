"""The tables of --explain, and their agreement with the decision."""

import json
import re

import pytest

from helpers.explain import DEMO, FORTY, REQUIRED, explained, manifest, policy, read_scores, shown, squeeze
from helpers.extras import ROOT, cluster_of, decide, node, pending_pods, pod, run_scheduler, table
from helpers.golden import DECISIONS, policy_of
from helpers.policies import load_policies
from scheduler_extras.deciding.decision import Vote
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.show.explain import in_words
from scheduler_extras.show.text import shorten


def read_failing(lines):
    """Read the lines about nodes that do not fit: [(the nodes, the rest without spaces)]."""
    groups = "\n".join(lines).split("\n  ✗ ")[1:]
    return [(who, squeeze(rest)) for who, rest in (re.split("  +", group, maxsplit=1) for group in groups)]


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


def test_a_single_node_is_scored_and_nodes_with_the_same_reasons_are_grouped():
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


def test_the_reasons_for_a_pod_that_fits_nowhere():
    lines = explained("--cluster", DEMO)["default/warehouse"]
    assert lines[0].startswith("default/warehouse stays pending: 0/5 nodes are available: 1 Insufficient memory,")
    assert lines[3] == "  Some nodes have more than one reason, so the numbers add up to 6."
    assert lines[4:9] == ["  ✗ 2 nodes   PodFitsResources: Insufficient cpu",
                          "              node-b (requests cpu 12000m, free 7000m), control-plane (requests",
                          "              cpu 12000m, free 4000m)",
                          "  ✗ node-a    PodFitsResources: Insufficient cpu, Insufficient memory",
                          "              node-a (requests cpu 12000m, free 1000m; requests memory 4096Mi,"]


@table("resource, wants, free, message", {
    "cpu": ("cpu", "3", "2900m", "requests cpu 3000m, free 2900m"),
    "memory": ("memory", "2Gi", "1Gi", "requests memory 2048Mi, free 1024Mi"),
    "a tiny difference is not rounded away": (
        "memory", "100.5Mi", "100.4Mi", "requests memory 101Mi, free 100Mi"),
    "a device": ("example.com/gpu", "2", "1", "requests example.com/gpu 2, free 1"),
    "a device that the node does not have": ("example.com/gpu", "2", None, "requests example.com/gpu 2, free 0"),
    "requests of other pods are subtracted": ("cpu", "3", "5", "requests cpu 3000m, free 2500m"),
})
def test_missing_resources_are_shown_in_numbers(resource, wants, free, message):
    allocatable = {"cpu": "9", "memory": "9Gi", "pods": "9"} | ({resource: free} if free else {})
    there = node("a", status={"allocatable": allocatable})
    others = [pod("o", {"cpu": "2500m"}, nodeName="a")] if free == "5" else []
    assert shown(decide(policy(), pod("p", {resource: wants}), there, *others))[-3:] == [
        f"  ✗ a  PodFitsResources: Insufficient {resource}", f"       a ({message})", ""]


def test_the_nearest_miss_comes_first():
    nodes = [node(name, cpu) for name, cpu in {"a": "1", "b": "2900m", "c": "2", "d": "2"}.items()]
    decision = decide(policy(), pod("p", {"cpu": "3"}), *nodes, node("e", "9", unschedulable=True))
    assert shown(decision, 300)[1:3] == [
        "  ✗ 4 nodes  PodFitsResources: Insufficient cpu",
        "             " + ", ".join(f"{name} (requests cpu 3000m, free {free}m)"
                                   for name, free in [("b", 2900), ("c", 2000), ("d", 2000), ("a", 1000)])]
    assert decision.message == "0/5 nodes are available: 1 node(s) were unschedulable, 4 Insufficient cpu."


def test_the_output_starts_with_the_first_decision():
    assert run_scheduler("--explain", "--cluster", DEMO).stdout.startswith("default/web-1 -> node-b  (2 of 5 nodes ")


def test_without_nodes_only_the_message_is_shown():
    assert shown(decide(policy(), pod("p"))) == ["default/p stays pending: no nodes available to schedule pods", ""]


ONCE = pytest.mark.xdist_group("golden decisions")  # only one worker makes them


@pytest.fixture(scope="module")
def golden_decisions():
    """The decisions about the pods of every sixth golden case."""
    decisions = []
    for case in (line["case"] for line in DECISIONS[::6]):
        policies, cluster = {"my-scheduler": policy_of(case)}, cluster_of(*case["objects"])
        decisions += [schedule(waiting, cluster.refresh_snapshot(policies), policies["my-scheduler"])
                      for waiting in pending_pods(cluster, policies)]
    assert len(decisions) > 150
    return decisions


@ONCE
@pytest.mark.parametrize("width", [60, 80, 200, 2000])
def test_the_best_nodes_are_shown_with_all_their_scores(golden_decisions, width):
    """All nodes that fit are shown if the screen is wide enough; otherwise the remaining ones are counted."""
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
    assert cells > 750


NORMALISED = ("NodeAffinityPriority", "TaintTolerationPriority", "InterPodAffinityPriority", "EvenPodsSpreadPriority",
              "SelectorSpreadPriority")


def expected_column(decision, name, width):
    """Yield the expected rows of a node's column: (title, cell)."""
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
def test_all_failing_nodes_are_shown_with_all_their_reasons(golden_decisions, width):
    """They are named or counted; all names are shown if the screen is wide enough."""
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
            if "(" not in rest:  # no details about the nodes
                assert ",".join(wanted).startswith(",".join(listed).removesuffix("…"))
            assert width < 2000 or sorted(listed) == sorted(wanted)
            sizes.append(len(names))
    assert max(sizes) > 5 and sizes.count(1) > 150 and several > 3


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


@table("nodes, message", {
    "one node is ahead of the next": ({"a": "4", "b": "2"}, ["  a is 26 ahead of b: LeastRequestedPriority +26"]),
    "several nodes are ahead of the next": (
        {"a": "4", "b": "4", "c": "2"}, ["  * is 26 ahead of c: LeastRequestedPriority +26"]),
    "all nodes tie": ({"a": "4", "b": "4"}, []),
    "there is only one node": ({"a": "4"}, []),
})
def test_the_line_about_the_deciding_priorities(nodes, message):
    rules = policy(predicates=[], priorities=[{"name": "LeastRequestedPriority", "weight": 2},
                                              {"name": "TaintTolerationPriority", "weight": 3}])
    decision = decide(rules, pod("p", {"cpu": "1"}), *(node(name, cpu) for name, cpu in nodes.items()))
    lines = [line for line in shown(decision) if " ahead of " in line]
    assert lines == [line.replace("*", decision.node) for line in message]


def test_without_ties_there_is_no_line_about_ties():
    lines = shown(decide(policy(), pod("p", {"cpu": "1"}), node("a"), node("b", cpu="2")))
    assert [*read_scores(lines)] == ["* a", "b"]
    assert not [line for line in lines if "tie" in line or "more nodes" in line]


@table("rules, width, columns", {
    "the shipped Policy, 80 columns": ("policy.json", 80, 2),
    "the shipped Policy, 60 columns": ("policy.json", 60, 1),
    "the shipped Policy, 200 columns": ("policy.json", 200, 6),
    "kube-scheduler's default rules, 80 columns": (None, 80, 2),
    "kube-scheduler's default rules, 50 columns": (None, 50, 1),
})
def test_as_many_of_many_nodes_with_long_names_are_shown_as_fit_on_the_screen(rules, width, columns):
    policies = policy() if rules is None else load_policies(ROOT / rules, "my-scheduler")
    decision = decide(policies, pod("p", {"cpu": "1"}), *FORTY)
    lines = shown(decision, width)
    assert max(map(len, lines)) <= width
    assert len(read_scores(lines)) == columns
    assert len({head.strip("*= ") for head in read_scores(shown(decision, 9999))}) == 25, "shortened names are distinct"
    text = " ".join(" ".join(lines).split())
    assert f"more nodes that fit: {25 - columns}, down to a total of {min(decision.total.values())} " in text
    assert " ✗ 10 nodes CheckNodeUnschedulable: node(s) were unschedulable ip-172-31-100-11…rnal, " in text
    assert " ✗ 5 nodes PodFitsResources: Insufficient cpu ip-172-31-105-11…rnal (requests cpu 1000m, free 100m), " in text


def test_the_table_has_as_many_columns_as_possible():
    decision = decide(policy(priorities=[]), pod("p"), *(node(f"node-{i:02}") for i in range(50)))
    for width in range(60, 120):
        lines = shown(decision, width)
        [total] = [line for line in lines if line.startswith("  Total")]
        head = lines[lines.index(total) - 1]
        assert len(head) <= width < len(head) + len("  = node-00"), "all of them tie"


def test_a_score_that_is_too_wide_is_shown_anyway():
    rules = policy(priorities=[{"name": "NodeAffinityPriority", "weight": 1}])
    decision = decide(rules, pod("p"), node("a"), node("b"))
    [vote] = decision.votes
    vote.raw = {"a": 10**99, "b": 10**99}
    [(head, column)] = read_scores(shown(decision)).items()
    assert (head[0], column["NodeAffinityPriority"]) == ("*", f"{10**99}→0×1")


@table("count, end", {
    "all names": (30, "node-4, node-5, node-6, node-7, node-8, node-9"),
    "the first names, and the number of the others": (300, "node-109, node-11, node-110, and 285 more"),
})
def test_the_names_of_failing_nodes_are_shown_or_counted(count, end):
    lines = shown(decide(policy(), pod("p"), *(node(f"node-{i}", unschedulable=True) for i in range(count))))
    assert lines[2] == f"  ✗ {count} nodes  CheckNodeUnschedulable: node(s) were unschedulable"
    assert " ".join(" ".join(lines[3:]).split()).endswith(end)
    assert set(re.findall(r"node-\d+", " ".join(lines[3:]))) == set(sorted(f"node-{i}" for i in range(count))[:15 if count > 30 else 30])


@table("nodes, of, message", {
    "pods in a domain, and in the emptiest domain": (
        [node("a", labels={"zone": "west"}), node("b", labels={"zone": "east"}, cpu="0")],
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                                        "labelSelector": {"matchLabels": {"app": "web"}}}]}, "a (2 in zone west, 0 in east, maxSkew 1)"),
    "pods on a node, and its limit": ([node("a", pods="2")], {}, "a (2 of 2 pods)"),
})
def test_numbers_of_pods_are_shown(nodes, of, message):
    there = [pod(name, labels={"app": "web"}, nodeName="a") for name in "xy"]
    lines = shown(decide(policy(), pod("p", {"cpu": "1"}, labels={"app": "web"}, **of), *nodes, *there))
    assert message in " ".join(" ".join(lines).split())


def test_an_invalid_node_affinity_term_is_named():
    term = {"matchExpressions": [{"key": f"example.com/{each}", "operator": "Exists"} for each in ("a-long-name", "another-one")]
            + [{"key": "size", "operator": "Gt", "values": ["150.1"]}]}
    affinity = {"nodeAffinity": {f"required{DURING_SCHEDULING}": {"nodeSelectorTerms": [term]}}}
    text = " ".join(" ".join(shown(decide(policy(), pod("p", affinity=affinity), node("a", labels={"size": "200"})))).split())
    assert ("! default/p has node affinity of which nodeSelectorTerms[0] is invalid, and matches no node: for 'Gt', 'Lt' operators, "
            "the value must be an integer: ") in text and '"values": ["150.1"]' in text


def test_a_rule_of_several_entries_has_a_line_for_each():
    lines = shown(decide(policy(predicates=[]), pod("p"), node("a")))
    first = lines.index("  SelectorSpreadPriority       0→100×2")
    assert lines[first + 1:first + 3] == ["  +EvenPodsSpreadPriority", "  InterPodAffinityPriority     0→0×1"]
    message = "SelectorSpreadPriority+EvenPodsSpreadPriority: these entries of the Policy make one rule with one weight"
    assert message in " ".join(" ".join(lines).split())


def test_a_title_takes_at_most_half_of_the_screen():
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


def test_extenders_are_shown_in_the_table():
    """Their scores are already multiplied by the weight, and a long URL is shortened."""
    decision = decide(policy(predicates=[], priorities=[]), pod("p"), *map(node, "abcde"))
    url = "https://scorer.scheduling.svc.cluster.local:8443/scheduler/v1"
    decision.node, decision.total = "a", {"a": 300, "b": 20}
    decision.votes = [Vote("extenders[0] http://10.0.0.1", 1, None, {"a": 200, "b": 0}),
                      Vote(f"extenders[1] {url}", 1, None, {"a": 100, "b": 20})]
    decision.failed = {"c": {"extenders[0]": ["c is haunted"]}, "d": {"extenders[0]": []}, "e": {"extenders[0]": []}}
    assert shown(decision) == [*"""default/p -> a  (2 of 5 nodes fit, score 300)\n                                          * a  b\n  extenders[0] http://10.0.0.1            200  0\n  extenders[1] https://scorer.sched…r/v1  100  20\n  Total                                   300  20\n  a is 280 ahead of b: extenders[0] http://10.0.0.1 +200, extenders[1]\n  https://scorer.scheduling.svc.cluster.local:8443/scheduler/v1 +80\n  ✗ 2 nodes  extenders[0]: no reason given\n             d, e\n  ✗ c        extenders[0]: c is haunted\n""".splitlines(), ""]


def test_fractions_are_not_rounded():
    decision = decide(policy(predicates=[], priorities=[{"name": "MostRequestedPriority", "weight": 2}]), pod("p"), node("a"))
    decision.votes[0].raw = decision.votes[0].points = {"a": 33.7}
    decision.total = {"a": 33.7 * 2}
    [column] = read_scores(shown(decision)).values()
    assert column == {"MostRequestedPriority": "33.7×2", "Total": "67.4"}
    assert "score 67.4)" in in_words(decision)


def terms(*terms):
    """Required node affinity with these terms, each a list of (key, operator, values)."""
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": key, "operator": operator, "values": values} for key, operator, values in term]} for term in terms]}}}}


@table("spec, message", {
    "a label has another value": ({"nodeSelector": {"zone": "est"}}, " (zone In [est]: has zone=east)"),
    "a label is missing": ({"nodeSelector": {"disk": "ssd", "zone": "east"}}, " (disk In [ssd]: has no disk)"),
    "one of several values is required": (
        terms([("zone", "In", ["west", "est"])]), " (zone In [west, est]: has zone=east)"),
    "the label must not exist": (terms([("zone", "DoesNotExist", [])]), " (zone DoesNotExist: has zone=east)"),
    "requirements that are met are not shown": (
        terms([("zone", "In", ["east"]), ("gpu", "Exists", [])]), " (gpu Exists: has no gpu)"),
    "one of two terms is enough": (
        terms([("zone", "In", ["west"])], [("gpu", "Exists", [])]),
        " (zone In [west]: has zone=east; gpu Exists: has no gpu)"),
    "a term is met, the selector is not": (
        {"nodeSelector": {"disk": "ssd"}, **terms([("zone", "In", ["east"])], [("zone", "In", ["west"])])},
        " (disk In [ssd]: has no disk)"),
    "a term is invalid, and the selector is not met": (
        {"nodeSelector": {"disk": "ssd"}, **terms([("zone", [None], ["east"])])}, " (disk In [ssd]: has no disk)"),
})
def test_the_labels_that_do_not_match_are_shown(spec, message):
    lines = shown(decide(policy(), pod("p", **spec), node("a", labels={"zone": "east"})), 200)
    assert lines[-3] == "  ✗ a  MatchNodeSelector: node(s) didn't match Pod's node affinity"
    assert lines[-2] == f"       a{message}"


@table("status, message", {
    "no allocatable": ({"allocatable": None}, "       a (does not say how many pods it takes)"),
    "no number of pods": ({"allocatable": {"cpu": "4", "memory": "4Gi"}}, "       a (does not say how many pods it takes)"),
    "a number of 0 pods": ({"allocatable": {"cpu": "4", "memory": "4Gi", "pods": "0"}}, "       a (0 of 0 pods)"),
})
def test_a_node_that_takes_no_pods(status, message):
    lines = shown(decide(policy(), pod("p"), node("a", status=status)))
    assert lines[0] == "default/p stays pending: 0/1 nodes are available: 1 Too many pods."
    assert lines[-2] == message
