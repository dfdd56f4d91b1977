"""The other views of the page: the matrix, the timeline, the pending pods, what if, the last line."""

import json
import re

import yaml
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from helpers.extras import ROOT, node, pod, table
from helpers.page import DEMO, SCREENS, paths, press, show_on, text_of, tiles


def test_the_matrix_has_nodes_by_rules(browse):
    page = browse("--cluster", DEMO, address="#pod=default/report")
    press(page, "m")
    rows = page.execute_script("return [...document.querySelectorAll('.matrix tr')].map(row => [...row.cells].map(cell => cell.textContent))")
    assert rows[0][-3:] == ["NodeAffinityPriority × 2", "TaintTolerationPriority × 1", "Total"]
    assert rows[1:] == [  # the best node comes first, those that do not fit last
        ["node-a", *"✓✓✓✓✓✓✓", "29", "90", "1 → 100 × 2", "0 → 100", "419"],
        ["node-b", *"✓✓✓✓✓✓✓", "88", "92", "0", "0 → 100", "280"],
        ["control-plane", *"✓✓✓✓✓✓✗", "taint control-plane"],
        ["node-old", "✗", *[""] * 6, "cordoned"],
        ["node-gpu", *"✓✓✓✓✓✓✗", "taint gpu=true"]]
    assert "TaintTolerationPriority: all nodes have the score 0, which becomes 100 points" in text_of(page, ".matrix")


def test_what_if_shows_the_pods_that_would_move_and_copies_the_policy(browse):
    page = browse("--cluster", DEMO, address="#pod=default/ingress-1")
    page.find_element(By.XPATH, "//li[contains(., 'PodTolerates')]").click()
    assert text_of(page, "h1") == "Where does ingress-1 go? It would go to control-plane"
    assert "What if: 5 of 8 pods would move web-1: node-b → node-gpu" in text_of(page, ".what-if")
    more = page.find_element(By.CSS_SELECTOR, "[aria-label='more LeastRequestedPriority']")
    webdriver.ActionChains(page).move_to_element(more.find_element(By.XPATH, "..")).click(more).perform()
    page.find_element(By.XPATH, "//button[.='copy Policy']").click()
    policy = json.loads(page.find_element(By.ID, "policy-text").text)
    shipped = json.loads((ROOT / "policy.json").read_text())
    assert [each["name"] for each in policy["predicates"]] == [each["name"] for each in shipped["predicates"][:-1]]
    assert policy["priorities"][0] == {"name": "LeastRequestedPriority", "weight": 2}
    page.find_element(By.XPATH, "//button[.='back']").click()
    assert text_of(page, "h1") == "Where does ingress-1 go? To node-b"


def test_a_policy_in_yaml_is_copied_as_yaml(browse, tmp_path):
    policy = yaml.safe_load((ROOT / "policy.json").read_text())
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    page = browse("--cluster", DEMO, "--policy", tmp_path / "policy.yaml", address="#pod=default/ingress-1")
    page.execute_script("switchOff('PodToleratesNodeTaints'); show('policy')")
    text = page.find_element(By.ID, "policy-text").text
    del policy["predicates"][-1]
    assert yaml.safe_load(text) == policy and not text.startswith("{")


def test_the_timeline_can_be_searched_and_its_lines_are_links(browse):
    page = browse("--cluster", DEMO)
    press(page, "/", *"gpu")
    lines = page.find_elements(By.CSS_SELECTOR, ".timeline li a")
    assert [" ".join(each.text.split()) for each in lines][1] == "training → node-gpu (1 of 5 fit)"
    lines[1].click()
    assert text_of(page, "h1") == "Where does training go? To node-gpu" and page.current_url.endswith("#pod=default%2Ftraining")
    page.refresh()
    assert text_of(page, "h1") == "Where does training go? To node-gpu"


@table("cluster, rows, opened", {
    "up to 30 nodes are all shown": ("marked-24.json", 24, 24), "of more, one stands for each reason, and the others open with a click": ("300.json", 5, 300)})
def test_the_matrix_has_all_nodes(cluster, rows, opened, browse, files):
    page = browse("--cluster", files / cluster, address="#pod=default/p")
    press(page, "m")
    assert len(page.find_elements(By.CSS_SELECTOR, ".matrix tbody tr")) == rows
    for button in page.find_elements(By.CSS_SELECTOR, ".matrix button"):
        assert button.text == "show all 300 nodes"
        button.click()
    assert len(page.find_elements(By.CSS_SELECTOR, ".matrix tbody tr")) == opened


def test_the_matrix_leaves_out_priorities_that_give_no_points(browse):
    page = browse("--cluster", DEMO, "--policy=DefaultProvider", address="#pod=default/web-1")
    press(page, "m")
    heads = page.execute_script("return [...document.querySelectorAll('.matrix thead th')].map(each => each.textContent)")
    assert "TaintTolerationPriority × 1" in heads and "ImageLocalityPriority × 1" not in heads
    assert "no points from NodeAffinityPriority, ImageLocalityPriority, InterPodAffinityPriority" in text_of(page, ".matrix")
    totals = page.execute_script("return [...document.querySelectorAll('.matrix .sum')].map(each => [each.innerText, each.title])")
    assert all(re.fullmatch("…[0-9]{3}", shown) and whole.startswith("1000") for shown, whole in totals)


def test_the_timeline_counts_what_it_has_found(browse):
    page = browse("--cluster", DEMO)
    press(page, "/", *"node-gpu")
    assert text_of(page, ".timeline p") == "1 entry and 1 node"


@table("words, found", {
    "a taint": ("gpu=true", ["node-gpu"]), "a label": ("disk=ssd", ["node-a", "node-old"]), "a cordoned node": ("cordoned", ["node-old"])})
def test_nodes_can_be_searched_for_what_their_tiles_say(words, found, browse):
    page = browse("--cluster", DEMO)
    press(page, "/", *words)
    lines = page.find_elements(By.CSS_SELECTOR, ".timeline .node-line span")
    assert [each.text.split(":")[0] for each in lines] == found
    lines[0].click()
    assert [*tiles(page)] == ["control-plane", "node-a", "node-old", "node-b", "node-gpu"]


@table("operator, words", {
    "beside a cluster": ({"refused": 0}, r"0.2 pods/s · 1 pending · oldest \d+ s"),
    "in a sandbox": ({}, "1 pending")})
def test_the_rate_and_the_age_of_the_oldest_pod_are_shown_beside_a_cluster(operator, words, browse):
    page = browse("--cluster", DEMO)
    shown = page.execute_script("""
        const [first, second] = decisions();
        first.at = second.at;
        known.entries.splice(known.entries.indexOf(second) + 1);
        known.queue = {count: 1, oldest: 1, pods: [{pod: 'default/p', attempts: 1, for: 'node', again: 0}]};
        Object.assign(connection, {is: 'live', operator: arguments[0]});
        Object.assign(view, {live: true, at: second, step: Infinity});
        render();
        return document.querySelector('.operator').innerText;""", operator)
    assert re.fullmatch(words, shown)


def test_what_if_counts_each_pod_as_the_page_shows_it(browse):
    """Once files have changed, only the pods of the last run count."""
    page = browse("--cluster", DEMO)
    found = page.execute_script("""
        const first = decisions()[0];
        take({kind: 'run', n: known.last + 1, at: 1, text: 'demo.yaml has changed'});
        take({...first, n: known.last + 1});
        whatIf.weights = {LeastRequestedPriority: 0};
        return [decisions().length, whoMoves().of];""")
    assert found == [9, 1]


@table("change, count", {
    "all of them exist": ("", 8),
    "one was deleted from its node": ("const node = latest('node-b'); nodesAre({'node-b': {...node, pods: node.pods.slice(1), used: {...node.used, pods: node.used.pods - 1}}})", 7),
    "a node was deleted with its pod": ("nodesAre({'node-gpu': null})", 7),
    "a pending one was deleted": ("queueIs([])", 7),
    "a node has more pods than it names": ("const node = latest('node-b'); nodesAre({'node-b': {...node, pods: []}})", 8)})
def test_what_if_counts_the_pods_that_exist(change, count, browse):
    page = browse("--cluster", DEMO)
    assert page.execute_script("""
        Object.assign(connection, {is: 'live', operator: {refused: 0}});
        const nodesAre = nodes => take({kind: 'nodes', n: known.last + 1, at: 1, nodes});
        const queueIs = pods => take({kind: 'queue', n: known.last + 1, count: pods.length, oldest: 0, pods});
        queueIs([{pod: 'default/warehouse', attempts: 1, for: 'node', again: 0}]);
        whatIf.weights = {LeastRequestedPriority: 0};""" + change + "; return whoMoves().of;") == count


def test_what_if_compares_with_the_decision_that_is_shown(browse):
    page = browse("--cluster", DEMO)
    lines = page.execute_script("""
        const first = view.at = decisions()[0];
        take({...first, n: known.last + 1, node: 'node-gpu'});
        switchOff('PodToleratesNodeTaints');
        return whoMoves().moved.map(({pod, from, to}) => `${pod}: ${from} → ${to}`);""")
    assert lines[0] == "default/web-1: node-b → node-gpu"


MOVING = """
    whoMoves = () => ({count: 9, of: 9, unknown: 0, moved: Array(9).fill({pod: 'default/frontend-1', from: 'worker-01.example.com', to: 'worker-02.example.com'})});
    switchOff('PodToleratesNodeTaints');
    const box = document.querySelector('.what-if'), inside = box.getBoundingClientRect();
    const isWhole = each => each.scrollWidth <= each.clientWidth && each.getBoundingClientRect().bottom <= inside.bottom;
    return [[...box.querySelectorAll('.move')].map(each => each.innerText), document.querySelector('.more-moves').innerText,
            [...box.querySelectorAll('p, button')].every(isWhole),
            document.querySelector('.lists').getBoundingClientRect().bottom <= inside.top && inside.bottom <= innerHeight,
            document.querySelector('.lists').scrollHeight <= document.querySelector('.lists').clientHeight];"""


@table("options, keys, move, whole", {
    "on a projector": (["--policy=DefaultProvider"], [], "frontend-1: …01 → …02", True),
    "in large letters": (["--policy=DefaultProvider"], ["b"], "frontend-1 → …02", True),
    "with 40 rules, which scroll": (["--plugins", "rules.py", "--policy", "rules.json"], ["b"], "frontend-1 → …02", False)})
def test_a_what_if_names_pods_that_would_move_in_whole_lines_below_the_rules(options, keys, move, whole, browse, files):
    page = browse("--cluster", *paths(["workers-12.json", *options], files), address="#pod=default/p")
    press(page, *keys)
    moves, more, *about = page.execute_script(MOVING)
    assert about == [True, True, whole] and {" ".join(each.split()) for each in moves} == {move}
    assert len(moves) > 1 and f"and {9 - len(moves)} more" == more.strip()


def test_the_last_decisions_have_whole_lines_only(browse):
    page = browse("--cluster", DEMO, address="#pod=default/ingress-1")
    inside = page.execute_script("""
        const list = document.querySelector('.lasts');
        list.style.height = '100px';
        const outer = list.getBoundingClientRect();
        return [...list.children].map(each => each.getBoundingClientRect()).filter(each => each.left < outer.right).map(each => each.bottom <= outer.bottom);""")
    assert inside and all(inside) and len(inside) < 4


SCROLL = """
    const [selector, scrolled, done] = arguments, list = document.querySelector(selector);
    list.scrollTop = scrolled;
    requestAnimationFrame(() => requestAnimationFrame(() => {
      const end = list.getBoundingClientRect().top + list.clientHeight;
      const rows = [...list.querySelectorAll('tr, li, pre > div')].map(each => each.getBoundingClientRect());
      const cut = rows.filter(each => each.top < end - 1 && each.bottom > end + 1);
      const covered = end - parseFloat(getComputedStyle(list, '::after').height);
      done([cut.length, cut.every(each => covered < each.top + 2), rows.some(each => each.bottom <= covered + 1 && each.bottom > covered - 5)]);
    }));"""


@table("mode, selector", {"the matrix": ("m", ".matrix"), "the timeline": ("t", ".timeline"), "the rules": ("n", ".lists"),
                         "the Policy": ("e", ".text"), "a manifest": ("y", ".text")})
def test_a_list_that_scrolls_shows_whole_rows_only(mode, selector, browse, files):
    page = browse(*paths(["--cluster", "marked-24.json", "--plugins", "rules.py", "--policy", "rules.json"], files))
    page.execute_script("for (let i = 0; i < 30; i++) take({...decisions()[0], n: 1000 + i}); view.at.yaml = 'a: b\\n\\n'.repeat(30)")
    for key in ("b", "b"):
        press(page, mode, key)
        found = [page.execute_async_script(SCROLL, selector, scrolled) for scrolled in range(0, 30, 5)]
        assert any(cut for cut, _, _ in found) and all(is_covered for _, is_covered, _ in found)
        assert any(is_whole for _, _, is_whole in found)
        if mode != "n":
            press(page, mode)


@table("keys, shown", {"on a projector": ([], "LeastRequestedPriority × 1"), "in large letters": (["b"], "LeastRequested × 1")})
def test_the_headers_of_the_matrix_are_whole(keys, shown, browse):
    page = browse("--cluster", DEMO, "--policy=DefaultProvider", address="#pod=default/ingress-1")
    press(page, *keys, "m")
    heads = page.execute_script("return [...document.querySelectorAll('th.rule > span')].map(each => [each.innerText, each.scrollHeight > each.clientHeight])")
    assert shown in [re.sub(r"\s+", " ", text) for text, _ in heads] and not any(is_cut for _, is_cut in heads)


def test_one_line_stands_for_an_edit_of_several_rules(browse):
    page = browse("--cluster", DEMO)
    page.execute_script("""
        ['- NodeAffinityPriority ×2', '+ NodeAffinityPriority ×20', '+ ImageLocalityPriority ×1'].forEach((rule, i) =>
            take({kind: 'note', n: known.last + 1, at: 1e9 + i / 100, problem: false, text: `policy.json: ${rule}`}));
        take({kind: 'note', n: known.last + 1, at: 2e9, problem: false, text: 'policy.json: + NoDiskConflict'});
        show('timeline');""")
    lines = [each.text for each in page.find_elements(By.CSS_SELECTOR, ".timeline .note span")]
    assert lines == ["policy.json: NoDiskConflict added", "policy.json: ImageLocality ×1 added, NodeAffinity ×2 → ×20"]


PREEMPTION = " preemption: 0/9 nodes are available: 2 No preemption victims found for incoming pod, 7 Preemption is not helpful for scheduling"
NONE = "0/9 nodes are available: "


@table("message, shown, main", {
    "a message of one reason": (f"{NONE}9 Insufficient cpu.", f"{NONE}9 Insufficient cpu.", "Insufficient cpu"),
    "the most frequent one comes first": (
        f"{NONE}1 node(s) were unschedulable, 3 Insufficient cpu, 5 Insufficient memory.",
        f"{NONE}5 Insufficient memory, 3 Insufficient cpu, 1 node(s) were unschedulable.", "Insufficient memory"),
    "reasons of preemption come last": (
        f"{NONE}2 Insufficient cpu, 7 node(s) had a, b.{PREEMPTION}.", f"{NONE}7 node(s) had a, b, 2 Insufficient cpu.{PREEMPTION}.", "had a, b"),
    "a message without numbers stays as it is": ("it has no volumes, 2 of them lost.", "it has no volumes, 2 of them lost.", "it has no volumes")})
def test_the_most_frequent_reason_comes_first(message, shown, main, browse):
    page = browse("--cluster", DEMO)
    assert page.execute_script("return [byFrequency(arguments[0]), mainReason(arguments[0])]", message) == [shown, main]


def test_of_many_nodes_the_matrix_counts_those_that_it_leaves_out(browse, files):
    page = browse("--cluster", files / "300.json", address="#pod=default/p")
    press(page, "m")
    counts = page.execute_script("return [...document.querySelectorAll('.matrix tbody th')].map(each => Number(/ \\+(\\d+) alike/.exec(each.innerText)?.[1] || 0))")
    assert len(counts) == 5 and sum(counts[:3]) + 3 == 96, "those that fit"
    assert [each.text for each in page.find_elements(By.CSS_SELECTOR, ".matrix .cause")] == [
        "cpu 6 > 2 free, and 171 nodes like it", "taint gpu, and 31 nodes like it"]


def test_the_head_of_the_matrix_keeps_its_borders_when_rows_scroll_below_it(browse, files):
    page = browse("--cluster", files / "300.json", address="#pod=default/p")
    press(page, "m")
    assert page.execute_script("return getComputedStyle(document.querySelector('.matrix table')).borderCollapse") == "separate"


def test_the_matrix_says_once_what_points_all_totals_leave_out(browse, files):
    page = browse("--cluster", files / "zones-9.json", "--policy=DefaultProvider", address="#pod=default/web-2")
    press(page, "m")
    assert "NodePreferAvoidPods" not in text_of(page, ".matrix table")
    assert page.find_elements(By.CSS_SELECTOR, ".matrix .sum")[0].text.startswith("…")
    assert "… = 1000000: NodePreferAvoidPodsPriority 100 × 10000, for all" in text_of(page, ".matrix")


@table("count, is_small", {"three rules leave room for the box": (3, False), "eleven do not": (11, True)})
def test_beside_the_box_of_a_what_if_rules_have_smaller_letters_only_if_need_be(count, is_small, browse, tmp_path):
    policy = json.loads((ROOT / "policy.json").read_text())
    policy["predicates"] = [each for each in policy["predicates"] if count > 3 or each["name"] == "PodFitsResources"]
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    page = browse("--cluster", DEMO, "--policy", tmp_path / "policy.json", address="#pod=default/web-1")
    press(page, "b")
    page.execute_script("switchOff('PodFitsResources')")
    assert (page.execute_script("return parseFloat(getComputedStyle(document.querySelector('.rules')).fontSize)") < 22) == is_small


def test_a_what_if_marks_the_node_that_the_pod_has_got(browse):
    page = browse("--cluster", DEMO, address="#pod=default/ingress-1")
    page.execute_script("weigh('BalancedResourceAllocation', 99, 1)")
    moved = page.execute_script("const moved = decisions().find(each => each.node && supposed(each).node !== each.node); go(moved); return moved.node")
    assert [each.find_element(By.XPATH, "ancestor::article").get_attribute("data-node") for each in page.find_elements(By.CSS_SELECTOR, ".chip.pod.changed")] == [moved]


def test_the_footer_tells_nothing_about_later_decisions(browse, tmp_path):
    later = pod("q", {"cpu": "99"}), pod("r", {"cpu": "99"}), pod("s", nodeSelector={"disk": "ssd"})
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("n"), pod("p"), *later]}))
    page = browse("--cluster", tmp_path / "cluster.json", address="#pod=default/p")
    assert "most often" not in text_of(page, "footer")
    press(page, Keys.END)
    assert "most often: Insufficient cpu" in text_of(page, "footer")


@table("keys", {"on a projector": [], "in large letters": ["b"]})
def test_the_timeline_opens_at_the_decision_that_is_shown(keys, browse):
    page = browse("--cluster", DEMO, address="#pod=default/web-1")
    press(page, *keys)
    is_visible, lines = page.execute_script("""
        const last = decisions().at(-1);
        for (let i = 0; i < 30; i++) take({...last, pod: `default/p${i}`, n: known.last + 1, message: last.message.repeat(9)});
        show('timeline');
        const [list, current] = ['.timeline', '.current'].map(each => document.querySelector(each).getBoundingClientRect());
        const height = each => each.getBoundingClientRect().height / parseFloat(getComputedStyle(each).lineHeight);
        return [current.top >= list.top && current.bottom <= list.bottom + 1, Math.max(...[...document.querySelectorAll('.timeline a')].map(height))];""")
    assert is_visible and round(lines) == 2


def test_the_pending_pods_are_those_of_the_queue_with_the_one_that_is_shown_first(browse):
    page = browse("--cluster", DEMO, address="#pod=default/web-1")
    press(page, "p")
    assert text_of(page, ".left").startswith("Queue: 7 pending") and len(page.find_elements(By.CSS_SELECTOR, ".pending article")) == 7
    page.execute_script("known.queue = {count: 2, oldest: 0, pods: ['default/other', 'default/warehouse'].map(pod => ({pod, attempts: 1, for: 'node', again: 0}))};"
                        "Object.assign(view, {live: true, at: decisions().at(-1)}); render()")
    assert [each.text.split()[0] for each in page.find_elements(By.CSS_SELECTOR, ".pending h3")] == ["warehouse", "other"]


def test_on_a_telephone_the_rows_of_the_matrix_have_one_line(browse, files):
    page = browse("--cluster", files / "zones-24.json", "--policy=DefaultProvider", address="#pod=default/web-2")
    show_on(page, *SCREENS["a telephone"])
    try:
        press(page, "m")
        assert page.execute_script("return Math.max(...[...document.querySelectorAll('.matrix tbody tr')].map(each => each.offsetHeight))") < 30
    finally:
        show_on(page, *SCREENS["a projector"])


def test_equal_scores_and_predicates_without_rejections_are_collapsed(browse):
    page = browse("--cluster", DEMO, "--policy=DefaultProvider", address="#pod=default/ingress-1")
    assert tiles(page)["node-b"].startswith("✓ node-b …")
    press(page, "m")
    heads = page.execute_script("return [...document.querySelectorAll('.matrix thead th')].map(each => each.textContent)")
    assert heads[:5] == ["Node", "CheckNodeUnschedulable", "PodToleratesNodeTaints", "PodFitsHostPorts", "LeastRequestedPriority × 1"]
    assert "12 other predicates that no node has failed" in text_of(page, ".matrix")


MATRIX = "return [...document.querySelectorAll('.matrix tbody tr')].map(row => [...row.cells].map(cell => cell.textContent).join(' ').trim())"


@table("step, first, below", {
    "at the question it has only names": (0, "control-plane", "✓ passes"),
    "a predicate that has had its turn has its marks": (1, "control-plane ✓", "✓ passes"),
    "then the points of a priority, the best node first": (3, "node-b ✓ ✓ 94  0 → 100 0 → 100 × 2 …394", "no points from"),
    "then those of the next one": (4, "node-b ✓ ✓ 94 96 0 → 100 0 → 100 × 2 …490", "no points from")})
def test_the_matrix_fills_step_by_step(step, first, below, browse):
    page = browse("--cluster", DEMO, "--policy=DefaultProvider")
    page.execute_script("go(decisions()[0], arguments[0]); show('matrix')", step)
    assert page.execute_script(MATRIX)[0] == first and below in text_of(page, ".matrix")


@table("mode, text", {"the matrix": ("m", "290"), "the timeline": ("t", "node-b")})
def test_no_other_view_tells_the_answer_while_somebody_guesses(mode, text, browse):
    page = browse("--cluster", DEMO)
    press(page, "g", mode)
    assert text not in text_of(page, "main")


@table("vote, words", {
    "more is better": ("NodeAffinity", "NodeAffinity: scores from 0 to 50 become 0 to 100 points"),
    "less is better": ("TaintToleration", "TaintToleration: scores from 0 to 1 become 100 to 0 points")})
def test_the_matrix_says_what_becomes_of_scores(vote, words, browse):
    page = browse("--cluster", DEMO)
    raw = "[0, 50]" if vote == "NodeAffinity" else "[0, 1]"
    points = "[0, 100]" if vote == "NodeAffinity" else "[100, 0]"
    assert page.execute_script(f"""
        const decision = {{fit: ['a', 'b'], places: new Map([['a', 0], ['b', 1]])}};
        return normalized(decision, {{title: '{vote}', reduced: true, raw: {raw}, points: {points}}});""") == words


def test_the_timeline_says_what_would_help_a_pending_pod(browse):
    page = browse("--cluster", DEMO)
    press(page, "t")
    line = page.find_element(By.CSS_SELECTOR, ".timeline .stays")
    assert "warehouse ✗ it would help to tolerate gpu=true · 3 Insufficient cpu" in line.text
    assert line.value_of_css_property("color") == "rgba(168, 32, 26, 1)"


def test_a_configuration_has_filter_and_score_plugins(browse, tmp_path):
    configuration = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [{"schedulerName": "my-scheduler"}]}
    (tmp_path / "config.json").write_text(json.dumps(configuration))
    page = browse("--cluster", DEMO, "--policy", tmp_path / "config.json")
    heads = [each.text for each in page.find_elements(By.CSS_SELECTOR, ".right h2")]
    assert heads == ["Filter (click: what if?)", "Score × weight (hover: − +)"]
    assert page.execute_script("return rulesOf(known.policy).predicates.includes('DefaultPreemption')")


def test_a_what_if_says_whether_the_pod_would_stay(browse, files):
    page = browse("--cluster", files / "tied.json", address="#pod=default/p")
    node = page.execute_script("switchOff('PodFitsResources'); return decisions()[0].node")
    assert text_of(page, "h1").endswith(f"It would still go to {node}") and f"{node} keeps the pod." in text_of(page, ".because")


def test_messages_of_pending_pods_are_whole_if_they_have_room(browse):
    page = browse("--cluster", DEMO)
    press(page, Keys.END, "p")
    is_whole = "const [, message] = document.querySelectorAll('.pending p'); return message.scrollHeight <= message.clientHeight"
    assert page.execute_script(is_whole)
    page.execute_script("view.at.queue = {count: 60, pods: Array.from({length: 60}, (_, i) => ({pod: `default/p${i}`, again: 0, attempts: 1}))}; render()")
    assert not page.execute_script(is_whole), "two lines, where many pods are pending"


def test_on_a_telephone_what_a_pod_asks_for_comes_before_the_nodes(browse, files):
    page = browse("--cluster", files / "zones-24.json", "--policy=DefaultProvider", address="#pod=default/web-2")
    show_on(page, *SCREENS["a telephone"])
    try:
        page.execute_script("render()")
        tops = page.execute_script("return ['h1', '.asks', '.because', '.tiles', '.lasts'].map(each => document.querySelector(each).getBoundingClientRect().top)")
        assert tops == sorted(tops)
    finally:
        show_on(page, *SCREENS["a projector"])


@table("before, after, words", {
    "another weight": (" ×1", " ×10", "Fit ×1 → ×10"), "another weight, with arguments": (' ×1 weights={"cpu": 1, "memory": 1}', ' ×9 weights={"cpu": 1, "memory": 1}', "Fit ×1 → ×9"),
    "other arguments": (" ×1 least", " ×1 most", "Fit ×1 most"), "a rule that is new": (None, " ×2", "Fit ×2 added"), "a rule that is gone": ("", None, "Fit removed")})
def test_the_edit_of_a_rule_in_words(before, after, words, browse):
    page = browse("--cluster", DEMO)
    assert page.execute_script("const [before, after] = arguments; return ruleInWords('FitPriority', {'-': before ?? undefined, '+': after ?? undefined})", before, after) == words


def test_a_tie_says_by_how_much_it_is_ahead_of_the_rest(browse, files):
    page = browse("--cluster", files / "zones-24.json", "--policy=DefaultProvider", address="#pod=default/web-1")
    first, second = (page.execute_script(f"return document.querySelectorAll('.because p')[{i}].innerText").replace("\u00a0", " ") for i in (0, 1))
    assert re.match(r"\d nodes tie at …\d+: worker-\d+ is picked at random", first)
    assert re.fullmatch(r"[\d.]+ ahead of worker-\d+: more left free [+−].*", second)


def test_a_click_shows_all_rules(browse):
    page = browse("--cluster", DEMO, "--policy=DefaultProvider")
    page.find_element(By.CSS_SELECTOR, ".rules .rest").click()
    assert not page.find_elements(By.CSS_SELECTOR, ".rules .rest") and "NoVolumeZoneConflict" in text_of(page, ".lists")


def test_the_search_stays_on_top_of_the_timeline(browse):
    page = browse("--cluster", DEMO)
    page.execute_script("for (let i = 0; i < 60; i++) take({...decisions()[0], n: known.last + 1})")
    press(page, "t")
    above = page.execute_script("""
        document.querySelector('.timeline').scrollTop = 300;
        return document.querySelector('#find').getBoundingClientRect().top - document.querySelector('.timeline').getBoundingClientRect().top;""")
    assert 0 <= above < 5
