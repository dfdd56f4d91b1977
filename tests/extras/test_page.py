"""--output html: the page of a run's decisions, as a real browser shows it."""

import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest
from scheduler_extras.deciding.decision import Vote
from scheduler_extras.policy.reloading import load_policies
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.show.page.answer import points_in_words
from scheduler_extras.show.page.manifest import manifest_of, wishes_of
from scheduler_extras.show.page.markup import escaped
from scheduler_extras.show.page.page import Page
from helpers.extras import ROOT, UNCHECKED, decide, node, pod, run_scheduler, table
from helpers.faulty import ApiServer
from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

DEMO = ROOT / "tests" / "demo.yaml"
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--window-size=1280,720"]
STEP = "section:not([hidden])"  # that is shown
pytestmark = pytest.mark.xdist_group("a browser")  # which one worker starts


def start_chromium(folder, with_scripts=True):
    """Start Chromium; skip the test where there is none, except in CI."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        assert not os.environ.get("CI"), "in CI the page has to be opened: install chromium and chromium-driver"
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in [*FLAGS, f"--user-data-dir={folder}"]:
        options.add_argument(flag)
    if not with_scripts:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """A browser for all tests of this file."""
    browser = start_chromium(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.quit()


@pytest.fixture
def browse(chromium, tmp_path):
    """A function that makes a page by a command line, and opens it; it is to be free of errors."""
    def browse(*arguments, browser=chromium, **options):
        run = run_scheduler(*arguments, "--output=html", **options)
        assert run.returncode == 0 and run.stdout.isascii(), run.stderr
        path = tmp_path / "page.html"
        path.write_text(run.stdout)
        browser.get(path.as_uri())
        browser.said = run.stderr
        return browser

    yield browse
    assert [entry for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"] == []


def manifest(folder, *objects):
    """Write objects into a file."""
    path = folder / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": objects}))
    return path


def press(browser, *keys):
    """Press keys, one after another."""
    for key in keys:
        browser.switch_to.active_element.send_keys(key)


def shown(browser):
    """The text of the steps that are shown."""
    return "\n".join(step.text for step in browser.find_elements(By.CSS_SELECTOR, STEP))


def heading(browser):
    """The title of the step that is shown."""
    [title] = browser.find_elements(By.CSS_SELECTOR, f"{STEP} > h2")
    return title.text


def place(browser):
    """Which step is shown, of how many."""
    return browser.find_element(By.ID, "where").text


def box(browser, name):
    """The words in a node's box, where it is shown."""
    texts = [each.text for each in browser.find_elements(By.CSS_SELECTOR, f"{STEP} article")]
    [words] = [text.split() for text in texts if text.startswith(f"{name}\n")]
    return " ".join(words)


def test_the_demo_is_walked_through_by_keys(browse):
    page = browse("--cluster", DEMO, "--seed=1")
    assert heading(page) == "By which rules does my-scheduler decide?" and place(page) == "1 of 25"
    press(page, Keys.ARROW_RIGHT)
    assert heading(page) == "Where does web-1 go?" and place(page) == "2 of 25"
    assert "requests:\n        cpu: 500m\n        memory: 512Mi" in shown(page) and "cordoned" in box(page, "node-old")
    assert box(page, "node-a") == "node-a pods 1/110 cpu 2.5/4 memory 4/8Gi disk=ssd zone=east database"
    headings = [heading(page)]
    while place(page) != "25 of 25":
        press(page, Keys.ARROW_RIGHT)
        headings.append(heading(page))
    assert headings[9:13] == ["Where does report go?", "Where does report go? To node-a", "report is on node-a now",
                              "Where does training go?"]
    assert headings[-3:] == ["Where does warehouse go?", "Where does warehouse go? Nowhere yet", "Where the pods are now"]
    press(page, Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.SPACE)
    assert heading(page) == "Where does warehouse go? Nowhere yet"
    press(page, Keys.HOME, Keys.ARROW_LEFT)
    assert place(page) == "1 of 25"
    press(page, Keys.END, Keys.PAGE_DOWN, Keys.PAGE_UP)
    assert place(page) == "24 of 25"


def test_buttons_do_what_keys_do(browse):
    page = browse("--cluster", DEMO)
    back, following = (page.find_element(By.ID, name) for name in ("back", "next"))
    following.click()
    assert heading(page) == "Where does web-1 go?"
    back.send_keys(Keys.SPACE)
    assert place(page) == "1 of 25", "a button that has the focus gets the space"


def answers(browser):
    """The tiles of the nodes in the answer that is shown, each in a line."""
    tiles = browser.find_elements(By.CSS_SELECTOR, f"{STEP} .strip > li")
    return [" ".join(tile.text.split()) for tile in tiles]


def test_the_answer_shows_all_nodes_beside_a_table_of_rules_by_nodes(browse):
    page = browse("--cluster", DEMO)
    press(page, *[Keys.ARROW_RIGHT] * 11)
    [table] = [each for each in page.find_elements(By.TAG_NAME, "table") if each.is_displayed()]
    rows = [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")]
            for row in table.find_elements(By.TAG_NAME, "tr")]
    assert rows == [
        ["Points", "* node-a", "node-b"],
        ["LeastRequestedPriority", "29", "88"],
        ["BalancedResourceAllocation", "90", "92"],
        ["NodeAffinityPriority", "200 (1, as the best: 100, times 2)", "0"],
        ["TaintTolerationPriority", "100 (0, as the best)", "100 (0, as the best)"],
        ["Total", "419", "280"]]
    for column in (1, 2):
        *points, total = [int(row[column].split()[0]) for row in rows[1:]]
        assert sum(points) == total, "what is shown adds up"
    chosen, fits, *failing = answers(page)
    assert chosen == "node-a chosen, 419 points cpu 2.75/4 memory 5/8Gi", "as it was before"
    assert fits == "node-b fits, 280 points cpu 1/8 memory 1/16Gi"
    assert len(failing) == 3 and failing[2] == "✗ node-old CheckNodeUnschedulable: node(s) were unschedulable"
    assert "It requests cpu 0.25, memory 0.25Gi; affinity: nodeAffinity: preferred: weight: 1, preference: zone In east." in shown(page)
    assert "node-a is 139 ahead of node-b: NodeAffinityPriority +200," in shown(page)
    assert {head.get_attribute("scope") for head in table.find_elements(By.TAG_NAME, "th")} == {"row", "col"}


RAW = {"a": 0, "b": 1, "c": 0}


@table("weight, raw, points, said", {
    "as the best": (1, RAW, {"a": 100, "b": 0}, "<b>100</b> <small>(0, as the best)</small>"),
    "beside the best": (1, RAW, {"a": 40, "b": 100}, "<b>40</b> <small>(0, beside the best)</small>"),
    "as the best, with a weight": (2, RAW, {"a": 100}, "<b>200</b> <small>(0, as the best: 100, times 2)</small>"),
    "as it was, with a weight": (3, {"a": 7}, {"a": 7}, "<b>21</b> <small>(7, times 3)</small>"),
    "as it was": (1, {"a": 7}, {"a": 7}, "<b>7</b>"),
    "nothing, whatever the weight": (3, {"a": 0}, {"a": 0}, "<b>0</b>"),
    "by an extender": (1, None, {"a": 7}, "<b>7</b>")})
def test_points_are_shown_as_they_count_and_how_they_came_is_said_beside_them(weight, raw, points, said):
    assert points_in_words(Vote("Rule", weight, raw, points), "a") == said


def test_on_a_phone_why_a_node_does_not_fit_is_in_sight(browse):
    page = browse("--cluster", DEMO)
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True})
    press(page, *[Keys.ARROW_RIGHT] * 11)
    tiles = [each for each in page.find_elements(By.CSS_SELECTOR, ".strip .no") if each.is_displayed()]
    assert len(tiles) == 3 and all(each.rect["x"] + each.rect["width"] <= 390 for each in tiles)


def test_first_of_all_it_says_by_which_rules(browse):
    page = browse("--cluster", DEMO, "--policy", "DefaultProvider")
    lists = [each.text.splitlines() for each in page.find_elements(By.CSS_SELECTOR, f"{STEP} .lists > div")]
    assert [(each[0], each[1]) for each in lists] == [
        ("Predicates: each may rule a node out", "CheckNodeUnschedulable"),
        ("Priorities: each gives points to the others", "LeastRequestedPriority, times 1")]
    assert "SelectorSpreadPriority+EvenPodsSpreadPriority: these entries of the Policy make one rule with one" in shown(page)
    assert "NodePreferAvoidPodsPriority, times 10000" in lists[1] and len(lists[0]) == 16
    press(page, *[Keys.ARROW_RIGHT] * 4)
    assert heading(page) == "Where does web-2 go?", "it is said once"


def test_a_step_has_an_address(browse):
    page = browse("--cluster", DEMO)
    press(page, *[Keys.ARROW_RIGHT] * 4)
    page.refresh()
    assert page.current_url.endswith("#5") and page.find_element(By.ID, "where").text == "5 of 25"
    for address, step in {"#17": 17, "#nowhere": 1, "#2.5": 2, "#-1": 1, "#99": 25}.items():
        page.get(page.current_url.partition("#")[0] + address)  # which loads nothing
        assert page.find_element(By.ID, "where").text == f"{step} of 25", address


def test_ports_and_priorities_of_placed_pods_are_said(browse, tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [
        node("n"), pod("waits"), pod("grand", nodeName="n", priority=7, metadata={"uid": "1"}, containers=[
            {"name": "c", "ports": [{"hostPort": 80}, {"hostPort": 53, "protocol": "UDP"}]}])]}))
    page = browse("--cluster", tmp_path / "cluster.json")
    press(page, Keys.ARROW_RIGHT)
    assert box(page, "n").endswith(" grand port 80 port 53 priority 7")


def test_a_pod_counts_on_its_node_from_its_third_step_on(browse):
    page = browse("--cluster", DEMO)
    press(page, *[Keys.ARROW_RIGHT] * 13)
    assert "gpu 0/2" in box(page, "node-gpu") and "training" not in box(page, "node-gpu")
    press(page, *[Keys.ARROW_RIGHT] * 2)
    assert box(page, "node-gpu").endswith("gpu 1/2 taint gpu=true:NoSchedule zone=west +training") and "cpu 4/16" in box(page, "node-gpu")
    press(page, Keys.ARROW_RIGHT)
    assert "gpu 1/2 taint gpu=true:NoSchedule zone=west +training" in box(page, "node-gpu")
    press(page, Keys.END)
    assert "warehouse ✗ 0/5 nodes are available" in shown(page) and "cache → node-a" in shown(page)
    assert box(page, "node-a").endswith(" +cache +report +ingress-2 port 80 database")


def test_a_pod_that_stays_pending_says_what_it_lacks(browse):
    page = browse("--cluster", DEMO)
    press(page, Keys.END, Keys.ARROW_LEFT)
    assert "✗ 2 nodes\nPodFitsResources: Insufficient cpu\nnode-b (requests cpu 12000m, free 7000m)" in shown(page)


def test_a_pod_for_which_others_go_shows_them_where_they_are(browse):
    page = browse("--cluster", ROOT / "scheduler_extras" / "examples" / "preemption.yaml", "--preempt")
    press(page, Keys.ARROW_RIGHT)
    before = box(page, "right")
    press(page, Keys.ARROW_RIGHT)
    assert heading(page) == "Where does payment go? Nowhere yet"
    assert "It preempts default/backup, default/cleanup on right" in shown(page)
    press(page, Keys.ARROW_RIGHT)
    assert heading(page) == "Who makes room for payment? backup, cleanup"
    assert "goes: backup" in box(page, "right") and "goes: cleanup" in box(page, "right") and "goes" not in box(page, "left")
    assert box(page, "right").replace("goes: ", "") == before, "they are seen where they were"
    press(page, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert heading(page) == "payment is on right now" and "goes" not in box(page, "right")


def test_without_scripts_all_scenes_stand_below_each_other(browse, tmp_path_factory):
    browser = start_chromium(tmp_path_factory.mktemp("chromium"), with_scripts=False)
    try:
        page = browse("--cluster", DEMO, browser=browser)
        text = shown(page)
        assert text.count("go?") == 16 and len(re.findall("go[?] To node-", text)) == 7
        assert text.index("go? Nowhere yet") < text.index("Where the pods are now")
        assert not page.find_element(By.TAG_NAME, "nav").is_displayed()
    finally:
        browser.quit()


def test_on_paper_all_scenes_are_there(browse):
    page = browse("--cluster", DEMO)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        text = page.find_element(By.TAG_NAME, "main").text
        assert text.count("go?") == 16 and not page.find_element(By.TAG_NAME, "nav").is_displayed()
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


EXAMPLES = ROOT / "scheduler_extras/examples"
LONG = "x" * 56
NODES = [node(f"n{i}", cpu=str(2 + i % 7), taints=[{"key": "gpu", "effect": "NoSchedule"}] if i % 4 else []) for i in range(300)]
RULES = "from scheduler import predicate, priority\n" + "".join(f"""
@predicate("TeachingPredicateNumber{i}")
def fits_{i}(pod, node):
    if pod.name == "{i}": yield "node(s) were not for this one"
@priority("TeachingPriorityNumber{i}")
def points_{i}(pod, node):
    return len(pod.name + node.name) * {i} % 101
""" for i in range(20))
NAMED = {"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": f"TeachingPredicateNumber{i}"} for i in range(20)],
         "priorities": [{"name": f"TeachingPriorityNumber{i}", "weight": i + 1} for i in range(20)]}
BY_ALL = "--policy=DefaultProvider"
PAGES = {  # what is shown: the options; how large the smallest letters are on a projector's screen, in pixels
    "the demo": (["--cluster", DEMO], 18),
    "the demo, by all rules": (["--cluster", DEMO, BY_ALL], 17),
    **{f"{name}{', by all rules' if more else ''}": (["--cluster", EXAMPLES / f"{name}.yaml", *more], 17 if more else 19)
       for name in ("taints", "resources", "affinity", "spreading", "space", "preemption") for more in ((), (BY_ALL,))},
    "taints, edited": (["--cluster", "PreferNoSchedule.yaml"], 19),
    "resources, edited": (["--cluster", EXAMPLES / "resources.yaml", "--policy", "MostRequestedPriority.json"], 19),
    "affinity, edited": (["--cluster", EXAMPLES / "affinity.yaml", "--policy", "MatchInterPodAffinity.json"], 19),
    "spreading, edited": (["--cluster", "maxSkew.yaml", BY_ALL], 17),
    "space, edited": (["--cluster", EXAMPLES / "space.yaml", "--plugins", EXAMPLES / "tutorial_rules.py",
                       "--policy", "SpaceCloud.json"], 19),
    "preemption, edited": (["--cluster", EXAMPLES / "preemption.yaml", "--preempt"], 19),
    "preemption, with a budget": (["--cluster", "disruptionsAllowed.yaml", "--preempt"], 19),
    "300 nodes": (["--cluster", "300"], 17),
    "300 nodes, by all rules": (["--cluster", "300", BY_ALL], 16),
    "40 rules": (["--cluster", "40", "--plugins", "rules.py", "--policy", "rules.json"], 14),
    "names of 60 characters": (["--cluster", "long"], 13)}
EDITS = {  # as in the exercises of docs/lesson.md. The new file: the file, what is there, what comes in its place
    "PreferNoSchedule.yaml": (EXAMPLES / "taints.yaml", "NoSchedule", "PreferNoSchedule"),
    "MostRequestedPriority.json": (ROOT / "policy.json", "Least", "Most"),
    "MatchInterPodAffinity.json": (ROOT / "policy.json", '"HostName"}', '"HostName"}, {"name": "MatchInterPodAffinity"}'),
    "maxSkew.yaml": (EXAMPLES / "spreading.yaml", "maxSkew: 1", "maxSkew: 2"),
    "SpaceCloud.json": (ROOT / "policy.json", '"HostName"}', '"HostName"}, {"name": "SpaceCloud"}'),
    "disruptionsAllowed.yaml": (EXAMPLES / "preemption.yaml", "disruptionsAllowed: 1", "disruptionsAllowed: 0")}


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    """A folder with what is too many, or too long, for a screen."""
    folder = tmp_path_factory.mktemp("lesson")
    of_few = [node(f"n{i}") for i in range(5)]
    clusters = {"300": [*NODES, pod("p", {"cpu": "6"}), pod("q", {"cpu": "9"})], "40": [*of_few, pod("p"), pod("web")],
                "long": [*(node(f"{LONG}-{i}", labels={f"{LONG}/{LONG}": LONG}) for i in "abc"),
                         *(pod(f"{LONG}-{i}", {"cpu": "3"}, nodeSelector={f"{LONG}/{LONG}": LONG}) for i in "abcd")]}
    for name, objects in clusters.items():
        (folder / name).write_text(json.dumps({"kind": "List", "items": objects}))
    for name, (file, before, after) in EDITS.items():
        assert before in file.read_text()
        (folder / name).write_text(file.read_text().replace(before, after))
    (folder / "rules.py").write_text(RULES)
    (folder / "rules.json").write_text(json.dumps(NAMED))
    return folder


SCREENS = {"a projector": (1280, 720), "a telephone": (390, 844)}
MEASURE = """return [...document.querySelectorAll("section")].map((step, i) => {
    show(i);
    const page = document.documentElement;
    const all = [...step.querySelectorAll("*")];
    const sizes = all.filter(each => each.innerText).map(each => parseFloat(getComputedStyle(each).fontSize));
    const cut = all.filter(each => each.matches("pre, table, article, .bars span") && each.scrollWidth > each.clientWidth + 1);
    return [step.querySelector("h2").innerText, page.scrollWidth, page.scrollHeight, Math.min(...sizes),
            cut.map(each => each.innerText)];
})"""


@table("options, least", PAGES)
def test_each_step_fits_the_screen_and_can_be_told_from_its_background(options, least, browse, lesson):
    page = browse(*[lesson / each if (lesson / str(each)).exists() else each for each in options], "--seed=1")
    try:
        for width, height in SCREENS.values():
            page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 800})
            for title, wide, high, size, cut in page.execute_script(MEASURE):
                assert wide <= width and cut == [], title
                assert size >= (least if width > 1000 else 12.9), title
                assert high <= height or width < 800, title
        for colours in ("light", "dark"):
            page.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                "features": [{"name": "prefers-color-scheme", "value": colours}]})
            ink, paper = page.execute_script(
                "const style = getComputedStyle(document.documentElement); return [style.color, style.backgroundColor]")
            assert (sum(map(int, ink[4:-1].split(", "))) > sum(map(int, paper[4:-1].split(", ")))) == (colours == "dark")
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def rects(browser, selector):
    """Where things of the step that is shown are, and how wide: (x, y, width), rounded."""
    return [tuple(round(each.rect[part]) for part in ("x", "y", "width"))
            for each in browser.find_elements(By.CSS_SELECTOR, f"{STEP} {selector}")]


def test_bars_have_one_length_and_stay_where_they_are_from_the_question_to_the_end(browse):
    page = browse("--cluster", DEMO, "--seed=1")
    for _ in range(7):
        press(page, Keys.ARROW_RIGHT)
        before = rects(page, ".bars li")
        assert len({width for _, _, width in before}) == 1 and len(before) == 16, heading(page)
        press(page, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        assert " now" in heading(page) and rects(page, ".bars li") == before


def test_long_words_are_broken_where_they_have_parts():
    assert escaped("node-role.kubernetes.io/control-plane: <b>") == (
        "node-role.<wbr>kubernetes.<wbr>io/<wbr>control-plane: &lt;b&gt;")


SCRIPT, HANDLER = "<script>alert(1)</script>", '"onload="alert(2)'
HOSTILE_RULE = """from scheduler import predicate
@predicate("<script>alert(3)</script>")
def hostile(pod, node):
    if pod.labels: yield "<img src=x onerror=alert(4)> " + pod.labels["evil"]
"""


def test_what_anybody_writes_is_text(browse, tmp_path):
    (tmp_path / "rules.py").write_text(HOSTILE_RULE)
    (tmp_path / "policy.json").write_text(json.dumps({"kind": "Policy", "apiVersion": "v1", "priorities": [], "predicates": [
        {"name": "<script>alert(3)</script>"}, {"name": "MatchNodeSelector"}]}))
    taints = [{"key": SCRIPT, "value": HANDLER, "effect": "PreferNoSchedule"}]
    path = manifest(tmp_path, node(f"n{HANDLER}", labels={"x": f"{SCRIPT}\u202e"}, taints=taints),
                    pod(f"p{SCRIPT}", nodeSelector={"x": f"{SCRIPT}\u202e"}), pod("q", labels={"evil": HANDLER}),
                    pod("r", labels={"app": "</pre></style></script>"}, nodeName=f"n{HANDLER}"))
    page = browse("--cluster", path, "--plugins", tmp_path / "rules.py", "--policy", tmp_path / "policy.json",
                  program=UNCHECKED)
    press(page, Keys.ARROW_RIGHT)
    assert SCRIPT in shown(page) and HANDLER in shown(page), "it is there, to be read"
    text = ""
    while place(page).split()[0] != place(page).split()[-1]:
        press(page, Keys.ARROW_RIGHT)
        text += shown(page)
    assert f"<script>alert(3)</script>: <img src=x onerror=alert(4)> {HANDLER}" in text
    assert "\\u202e" in text and "\u202e" not in text, "what changes the direction of writing is shown escaped"
    assert len(page.find_elements(By.TAG_NAME, "script")) == 1 and not page.find_elements(By.TAG_NAME, "img")
    assert not page.find_elements(By.CSS_SELECTOR, "[onload], [onerror]")
    with pytest.raises(NoAlertPresentException):
        page.switch_to.alert.accept()


def test_what_would_slip_through_is_stopped_by_the_policy_of_the_page(browse, monkeypatch, chromium):
    page = browse("--cluster", DEMO)
    page.execute_script("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.owned = 1\">')")
    time.sleep(0.2)
    assert page.execute_script("return window.owned") is None
    assert [entry["message"] for entry in chromium.get_log("browser") if "Content Security Policy" in entry["message"]]


def test_of_1000_nodes_those_that_matter_are_shown_so_that_the_page_stays_small(browse, tmp_path):
    nodes = [node(f"n{i}", cpu=str(8 if i == 777 else 4), labels={"zone": str(i % 3)}) for i in range(1000)]
    pods = [pod(f"p{i}", {"cpu": "100m" if i else "7"}) for i in range(120)]
    page = browse("--cluster", manifest(tmp_path, *nodes, *pods), "--seed=1")
    assert Path(page.current_url.removeprefix("file://").partition("#")[0]).stat().st_size < 5_000_000
    press(page, Keys.ARROW_RIGHT)
    assert "and 991 other nodes" in shown(page) and "cpu 0/8" in box(page, "n777"), "the node that it goes to is there"
    press(page, Keys.ARROW_RIGHT)
    assert "✗ 999 nodes\nPodFitsResources: Insufficient cpu\nn0 (requests cpu 7000m, free 4000m)," in shown(page)
    assert "and 997 more" in shown(page)
    press(page, Keys.END)
    assert "(the first 100 decisions have scenes)" in shown(page) and "p119 → n" in shown(page)


def test_a_pod_that_is_explained_has_a_page_of_its_own(browse):
    page = browse("--cluster", DEMO, "--explain", "report")
    assert place(page) == "1 of 4"
    press(page, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert "default/report is pending. When the run comes to it, behind 3 others, by policy.json" in shown(page)


def test_what_no_rule_looks_at_is_said_on_the_page(browse):
    page = browse("--cluster", ROOT / "scheduler_extras/examples/affinity.yaml")
    press(page, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert "! default/web-1 has required pod anti-affinity, and MatchInterPodAffinity, which looks at that, is not" in shown(page)


def test_a_run_on_a_cluster_ends_with_its_page(browse):
    server = ApiServer(node("a"), pod("p", {"cpu": "1"}), pod("big", {"cpu": "9"}))
    try:
        page = browse("--server", server.url, "--once")
        assert server.places() == {"default/p": "a"}
    finally:
        server.stop()
    press(page, Keys.ARROW_RIGHT)
    assert place(page) == "2 of 7" and "cpu 0/4" in box(page, "a")
    press(page, Keys.END)
    assert "p → a" in shown(page) and "cpu 1/4" in box(page, "a")


def test_a_page_without_a_decision_shows_the_cluster(browse, tmp_path):
    page = browse("--cluster", manifest(tmp_path, node("a")))
    assert heading(page) == "Where the pods are now" and "cpu 0/4" in box(page, "a")


def test_it_is_the_same_page_if_the_pod_counts_on_its_node_before_it_is_told():
    policies = load_policies(ROOT / "policy.json", "my-scheduler")
    decision = decide(policies, pod("p", {"cpu": "1"}), node("a"), pod("old", {"cpu": "2"}, nodeName="a"))
    before, after = Page("policy.json"), Page("policy.json")
    before(decision)
    decision.nodes["a"].add(decision.pod)
    after(decision)
    assert before.document(nodes=()) == after.document(nodes=()) and "2/4" in before.document(nodes=())


@table("waits, title", {"it is bound": ("", "<b>p</b> is <em>on a</em> now"),
                        "it waits": ("for a volume", "<b>p</b> waits to be <em>on a</em></h2>")})
def test_a_pod_that_waits_is_not_said_to_be_on_its_node(waits, title):
    policies = load_policies(ROOT / "policy.json", "my-scheduler")
    decision = decide(policies, pod("p"), node("a"))
    decision.waits = waits
    page = Page("policy.json")
    page(decision)
    assert title in page.document(nodes=())


def test_a_comparison_is_no_page():
    run = run_scheduler("--cluster", DEMO, "--compare", "policy.json", "--output=html")
    assert run.returncode == 2 and "--compare needs --cluster, and goes without --explain, --fits and --output html" in run.stderr


def test_the_manifest_is_shown_as_people_write_it():
    notes = {"type": "space", "kubectl.kubernetes.io/last-applied-configuration": "x" * 1000}
    thing = FullPod(pod("p", {"cpu": "1"}, metadata={"uid": "x", "annotations": notes}, tolerations=[{"key": "gpu"}], priority=0))
    assert manifest_of(thing) == """\
kind: Pod
metadata:
  name: p
  annotations:
    type: space
spec:
  schedulerName: my-scheduler
  tolerations:
  - key: gpu
  containers:
  - name: main
    image: nginx
    resources:
      requests:
        cpu: '1'
"""


ZONE = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}


@table("what, said", {
    "nothing": ({}, "requests nothing"),
    "amounts, as they stand beside the bars": ({"requests": {"cpu": "250m", "memory": "8Gi"}}, "requests cpu 0.25, memory 8Gi"),
    "a port": ({"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}, "requests nothing; port 80 of its node"),
    "labels of its node": ({"nodeSelector": {"disk": "ssd"}}, "requests nothing; nodeSelector: disk: ssd"),
    "to be alone": ({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [ZONE]}}},
                    "requests nothing; affinity: podAntiAffinity: required: labelSelector: app: web, topologyKey: zone"),
    "what an annotation says, and first of all": ({"metadata": {"annotations": {"type": "space"}}, "priority": 7},
                                                  "requests nothing; annotations: type: space; priority: 7"),
    "not what admission adds": ({"tolerations": [{"key": "x", "operator": "Exists", "tolerationSeconds": 300}]}, "requests nothing")})
def test_what_a_pod_asks_for_is_said_in_a_line(what, said):
    assert wishes_of(FullPod(pod("p", **what))) == f"It {said}."
