"""The page of --output html and of --listen in a real browser. For the page's data, see test_journal.py."""

import base64
import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest
import yaml
from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from helpers.control_plane import free_port, wait_for
from helpers.extras import ROOT, UNCHECKED, node, pod, run_scheduler, table


DEMO = ROOT / "tests" / "demo.yaml"
EXAMPLES = ROOT / "scheduler_extras" / "examples"
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--window-size=1280,720"]
pytestmark = pytest.mark.xdist_group("a browser")  # only one worker starts it


SCREENS = {"a projector": (1280, 720, "light"), "in the dark": (1280, 720, "dark"), "a telephone": (390, 844, "light")}


def show_on(browser, width, height, colours):
    """Emulate a screen of this size and colour scheme."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 800})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
        {"name": "prefers-color-scheme", "value": colours}, {"name": "prefers-reduced-motion", "value": "reduce"}]})


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """A browser for all tests of this file. Without one, they are skipped, except in CI."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (browser and driver):
        assert not os.environ.get("CI"), "in CI the tests of the page must run: install chromium and chromium-driver"
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"]:
        options.add_argument(flag)
    chromium = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    show_on(chromium, *SCREENS["a projector"])
    yield chromium
    chromium.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A function that creates the page of a command line, once, and returns its URL."""
    made = {}

    def page(*arguments, **options):
        if arguments not in made:
            run = run_scheduler(*arguments, "--output=html", "--seed=1", **options)
            assert run.returncode == 0 and run.stdout.isascii(), run.stderr
            made[arguments] = tmp_path_factory.mktemp("page") / "page.html"
            made[arguments].write_text(run.stdout)
        return made[arguments].as_uri()

    return page


@pytest.fixture
def browse(chromium, pages):
    """A function that opens the page of a command line. The page must log no errors."""
    def browse(*arguments, address="", **options):
        chromium.get("about:blank")
        chromium.get(pages(*arguments, **options) + address)
        return chromium

    yield browse
    assert [entry for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"] == []


def press(browser, *keys):
    """Press keys, one after another."""
    for key in keys:
        browser.switch_to.active_element.send_keys(key)


def text_of(browser, selector):
    """The text of the only element that matches a selector, on one line."""
    [text] = browser.execute_script("return [...document.querySelectorAll(arguments[0])].map(each => each.innerText)", selector)
    return " ".join(text.split())


def with_motion(browser, script, *arguments, motion="no-preference"):
    """Run a script while the browser prefers motion, or reduced motion; return its result."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-reduced-motion", "value": motion}]})
    try:
        return browser.execute_script(script, *arguments)
    finally:
        show_on(browser, *SCREENS["a projector"])


def tiles(browser):
    """The tiles of the page in their order: {node: text}."""
    found = browser.execute_script(
        "return [...document.querySelectorAll('.tile')].map(tile => [tile.dataset.node, tile.className, tile.innerText])")
    return {name: " ".join(text.split()) for name, _, text in found}


def kinds(browser):
    """The states of the tiles: open, fits, best, out."""
    return browser.execute_script("return [...document.querySelectorAll('.tile')].map(tile => tile.classList[1])")


def test_the_arrow_key_steps_through_a_decision(browse):
    page = browse("--cluster", DEMO)
    steps = []
    for _ in range(6):
        steps.append((text_of(page, "h1"), text_of(page, ".because"), kinds(page)))
        press(page, Keys.ARROW_RIGHT)
    assert steps == [
        ("Where does web-1 go?", "5 nodes: which of them fit?", ["open"] * 5),
        ("Where does web-1 go?", "CheckNodeUnschedulable: 1 node out. node(s) were unschedulable", ["open", "open", "out", "open", "open"]),
        ("Where does web-1 go?", "PodToleratesNodeTaints: 2 nodes out. taint control-plane; taint gpu=true", ["out", "open", "out", "open", "out"]),
        ("Where does web-1 go?", "Points times weights: the highest total wins. … the same for all: fewer taints 100", ["out", "fits", "out", "fits", "out"]),
        ("Where does web-1 go? To node-b", "wins by 75 over node-a: more left free +60 · balance +15", ["out", "fits", "out", "best", "out"]),
        ("Where does web-2 go?", "5 nodes: which of them fit?", ["open"] * 5)]
    assert [*tiles(page)] == ["control-plane", "node-a", "node-old", "node-b", "node-gpu"], "always by zone, then by name"


@table("keys, where", {
    "the next decision": ([Keys.ARROW_DOWN], ("2 of 8", "To node-b")),
    "the next decision, and back": ([Keys.ARROW_DOWN, Keys.ARROW_UP], ("1 of 8", "To node-b")),
    "the newest": ([Keys.END], ("8 of 8", "Nowhere yet")),
    "the first decision, from its question on": ([Keys.END, Keys.HOME], ("1 of 8", "go?")),
    "a step back from a question leads to the previous decision": ([Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_LEFT], ("2 of 8", "To node-b")),
    "the key of a presenter": ([Keys.PAGE_DOWN] * 4, ("1 of 8", "To node-b")),
    "the space bar": ([Keys.SPACE] * 4, ("1 of 8", "To node-b"))})
def test_keys_navigate_through_the_decisions(keys, where, browse):
    page = browse("--cluster", DEMO)
    press(page, *keys)
    assert text_of(page, "#where") == where[0] and text_of(page, "h1").endswith(where[1])


def test_a_decision_shows_the_pod_the_nodes_the_rules_and_the_choice(browse):
    page = browse("--cluster", DEMO, address="#pod=default/ingress-1")
    assert text_of(page, "h1") == "Where does ingress-1 go? To node-b"
    assert "It asks for host port 80" in text_of(page, ".left") and "report → node-a" in text_of(page, ".left")
    assert "CheckNodeUnschedulable −1" in text_of(page, ".right") and "NodeAffinityPriority ×2" in text_of(page, ".right")
    shown = tiles(page)
    assert shown["node-a"] == "node-a 216 cpu 3/4 mem 5.25/8Gi … 26 90 report cache database disk=ssd zone=east"
    assert shown["node-b"] == "✓ node-b 282 cpu 1/8 mem 1/16Gi … 89 93 + ingress-1 web-2 web-1 disk=hdd zone=west"
    assert shown["node-gpu"].startswith("✗ node-gpu cpu 4/16 mem 8/64Gi gpu 1/2 taint gpu=true")
    blamed = [each.text for each in page.find_elements(By.CSS_SELECTOR, ".blamed")]
    assert blamed == ["taint control-plane:NoSchedule", "cordoned", "taint gpu=true:NoSchedule"]


def test_equal_scores_and_predicates_without_rejections_are_collapsed(browse):
    page = browse("--cluster", DEMO, "--policy=DefaultProvider", address="#pod=default/ingress-1")
    assert tiles(page)["node-b"].startswith("✓ node-b …")
    press(page, "m")
    heads = page.execute_script("return [...document.querySelectorAll('.matrix thead th')].map(each => each.textContent)")
    assert heads[:4] == ["Node", "CheckNodeUnschedulable", "PodToleratesNodeTaints", "LeastRequestedPriority × 1"]
    assert "13 other predicates that no node has failed" in text_of(page, ".matrix")


def test_missing_resources_are_red_and_the_smallest_change_that_helps_is_named(browse):
    page = browse("--cluster", DEMO, address="#pod=default/warehouse")
    help, message = page.find_element(By.CSS_SELECTOR, ".because").text.splitlines()
    assert help == "It would help to tolerate gpu=true." and message.startswith("0/5 nodes are available: 3 Insufficient cpu, 1 Insufficient memory,")
    assert "cpu 12 > 7 free" in tiles(page)["node-b"] and len(page.find_elements(By.CSS_SELECTOR, ".bar.blamed .over")) == 4
    press(page, "p")
    assert text_of(page, ".pending").startswith("warehouse pending It would help to tolerate gpu=true 0/5 nodes are available:")


def test_a_page_without_decisions(browse, tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps(node("a")))
    page = browse("--cluster", tmp_path / "cluster.json")
    assert (text_of(page, "h1"), [*tiles(page)]) == ("No decision was made", ["a"])
    press(page, "m")
    assert text_of(page, ".empty") == "No decision was made."


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
    assert "TaintTolerationPriority: 0 → 100, as all nodes have the same score" in text_of(page, ".matrix")


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


@table("keys", {"on a projector": [], "in large letters": ["b"]})
def test_an_edited_weight_leaves_room_for_its_name(keys, browse):
    page = browse("--cluster", DEMO, "--policy=DefaultProvider", address="#pod=default/web-1")
    press(page, *keys)
    page.execute_script("known.policy.by['my-scheduler'].priorities.forEach(([title, weight]) => weigh(title, weight + 1, weight))")
    assert page.execute_script("""return [...document.querySelectorAll('.weights .off')].map(row => {
        const [name, weight, button] = ['span', 'b', 'button'].map(each => row.querySelector(each).getBoundingClientRect());
        const isBelow = weight.top >= name.bottom - 1;
        return (isBelow || weight.left >= name.right) && weight.right <= button.left && name.height < 3 * weight.height;
    })""") == [True] * 8


def test_a_policy_in_yaml_is_copied_as_yaml(browse, tmp_path):
    policy = yaml.safe_load((ROOT / "policy.json").read_text())
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    page = browse("--cluster", DEMO, "--policy", tmp_path / "policy.yaml", address="#pod=default/ingress-1")
    page.execute_script("switchOff('PodToleratesNodeTaints'); show('policy')")
    text = page.find_element(By.ID, "policy-text").text
    del policy["predicates"][-1]
    assert yaml.safe_load(text) == policy and not text.startswith("{")


def test_without_javascript_the_page_is_a_table(pages):
    text = Path(pages("--cluster", DEMO).removeprefix("file://")).read_text()
    [table] = re.findall("<noscript>.*<table>(.*)</table></noscript>", text, re.S)
    rows = [re.split("<t[dh]>", row)[1:] for row in table.splitlines()]
    assert rows[0] == ["Pod", "Node", "Why"] and rows[1] == ["default/web-1", "node-b", "2 of 5 nodes fit"]
    assert rows[-1][:2] == ["default/warehouse", ""] and rows[-1][2].startswith("0/5 nodes are available:")


def test_guess_first_waits_for_a_click_and_counts_right_guesses(browse):
    page = browse("--cluster", DEMO)
    press(page, "g", Keys.ARROW_RIGHT)
    assert kinds(page) == ["open"] * 5, "it waits for the guess"
    assert not page.find_elements(By.CSS_SELECTOR, ".adds, .over"), "the bars reveal nothing before the guess"
    for name, score in {"node-a": "guessed right: 0 of 1", "node-b": "guessed right: 1 of 2"}.items():
        page.find_element(By.CSS_SELECTOR, f"[data-node={name}]").click()
        assert score not in text_of(page, ".about"), "the score does not give the answer away"
        wait_for("the animation is over", lambda: "To node" in text_of(page, "h1"))
        assert text_of(page, ".score") == score
        press(page, Keys.ARROW_RIGHT)


@table("pod, words", {
    "the pod stays pending": ("warehouse", ["guessed right: 1 of 1", "Your guess was nowhere: right"]),
    "the pod has a node": ("web-1", ["guessed right: 0 of 1", "Your guess was nowhere: wrong"])})
def test_a_guess_can_be_nowhere(pod, words, browse):
    page = browse("--cluster", DEMO, address=f"#pod=default/{pod}")
    press(page, "g")
    page.find_element(By.XPATH, "//button[.='nowhere']").click()
    wait_for("the animation is over", lambda: page.find_elements(By.CSS_SELECTOR, ".news"))
    assert [text_of(page, ".score"), text_of(page, ".news")] == words


def test_the_timeline_can_be_searched_and_its_lines_are_links(browse):
    page = browse("--cluster", DEMO)
    press(page, "/", *"gpu")
    lines = page.find_elements(By.CSS_SELECTOR, ".timeline li a")
    assert [" ".join(each.text.split()) for each in lines][1] == "training → node-gpu (1 of 5 fit, 268)"
    lines[1].click()
    assert text_of(page, "h1") == "Where does training go? To node-gpu" and page.current_url.endswith("#pod=default%2Ftraining")
    page.refresh()
    assert text_of(page, "h1") == "Where does training go? To node-gpu"


def test_victims_are_framed(browse):
    page = browse("--cluster", EXAMPLES / "preemption.yaml", "--preempt")
    page.execute_script("go(decisions()[0], 0)")
    assert "victim" not in text_of(page, ".tiles"), "the question does not give the answer away"
    page.execute_script("go(decisions()[0])")
    assert text_of(page, "h1") == "Where does payment go? It waits for room" and "preempts" in text_of(page, ".because")
    assert "victim: cleanup victim: backup" in tiles(page)["right"] and "victim" not in tiles(page)["left"]


LONG = "x" * 56
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


def nodes(count):
    """Nodes in three zones, some of which are tainted."""
    return [node(f"n{i}", cpu=str(2 + i % 7), labels={"zone": f"z{i % 3}"},
                 taints=[{"key": "gpu", "effect": "NoSchedule"}] if i % 4 == 0 else []) for i in range(count)]


def workers(count):
    """Nodes with usual names, amounts and taints."""
    return [node(f"worker-{i:02}.example.com", cpu=str(4 + i % 3), memory=["8Gi", "16Gi", "7.75Gi"][i % 3], labels={"disk": "ssd" if i % 3 else "hdd"},
                 taints=[{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}] if i % 5 == 1 else [])
            for i in range(count)]


def zones(count):
    """Nodes in three zones, and pods that spread over them, prefer one of them, or fit nowhere."""
    sizes = [("4", "16Gi"), ("8", "32Gi"), ("15", "64Gi")]
    taints = {3: {"key": "spot", "value": "true", "effect": "PreferNoSchedule"}, 5: {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
              10: {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}}
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}
    preference = {"weight": 50, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["eu-west-1c"]}]}}
    return [
        *(node(f"worker-{i:03}", cpu=sizes[i // 3 % 3][0], memory=sizes[i // 3 % 3][1], labels={"zone": f"eu-west-1{'abc'[i % 3]}", "disk": "hdd"},
               taints=[taints[i % 12]] if i % 12 in taints else []) for i in range(count)),
        *(pod(f"base-{i}", {"cpu": "250m"}, nodeName=f"worker-{i:03}") for i in range(count) if i % 12 != 5),
        *(pod(f"web-{i}", {"cpu": "500m", "memory": "1Gi"}, metadata={"labels": {"app": "web"}}, topologySpreadConstraints=[constraint]) for i in (1, 2)),
        pod("prefers-west-1c", {"cpu": "1"}, affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}),
        pod("batch-job", {"cpu": "1"}, tolerations=[{"key": "dedicated", "operator": "Exists"}]),
        pod("huge", {"cpu": "15.5", "memory": "20Gi"})]


def busy(count):
    """Nodes, the first of which has 21 pods and three labels."""
    labels = {"zone": "eu-west-1a", "disk": "ssd", "node-pool": "general"}
    return [*(node(f"busy-{i}", cpu="16", labels=labels) for i in range(count)), *(pod(f"nginx-0-{i}", nodeName="busy-0") for i in range(21))]


SSD = {"disk": "ssd"}
OBSTACLES = [{"labels": SSD}, {"labels": {"disk": "hdd"}}, {"labels": SSD, "cpu": "2"}, {"labels": SSD, "unschedulable": True},
             *({"labels": SSD, "taints": [{"key": key, "effect": "NoSchedule"}]} for key in ("gpu", "batch"))]
MARKED = [{}, {"unschedulable": True}, {"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]},
          {"taints": [{"key": "spot", "value": "true", "effect": "PreferNoSchedule"}]}]
CLUSTERS = {
    **{f"{count}.json": [*nodes(count), pod("p", {"cpu": "6"}), pod("q", {"cpu": "9"})] for count in (9, 14, 30, 300, 1000)},
    "uneven.json": [*(node(f"n{i}", labels={"zone": f"zone-{max(i - 97, 0)}"}) for i in range(100)), pod("p")],
    **{f"workers-{count}.json": [*workers(count), pod("p", {"cpu": "1", "memory": "1Gi"}, nodeSelector={"disk": "ssd"}),
                                 pod("q", {"cpu": "3", "memory": "4Gi"})] for count in (5, 12, 16, 24)},
    **{f"marked-{count}.json": [*(node(f"worker-{i:02}", cpu="4", labels={"disk": "ssd" if i % 4 else "hdd", "zone": f"eu-west-1{'abc'[i // 8]}"}, **MARKED[i % 4])
                         for i in range(count)), *(pod(f"base-{i}", nodeName=f"worker-{i:02}") for i in range(count)),
                       pod("p", {"cpu": "1"}, nodeSelector={"disk": "ssd"}), pod("q", {"cpu": "1"}, nodeSelector={"disk": "ssd"})] for count in (12, 24)},
    **{f"busy-{count}.json": busy(count) for count in (3, 5, 9, 12)},
    "draining-12.json": [*(node(f"worker-{i:03}", labels={"zone": f"eu-west-1{'abc'[i % 3]}"},
                                taints=[{"key": "drain-soon", "value": "today", "effect": "PreferNoSchedule"}]) for i in range(12)),
                         *(pod(f"base-{i}", nodeName=f"worker-{i:03}") for i in range(12)),
                         pod("p", {"cpu": "1"}), pod("large", {"cpu": "40", "memory": "200Gi"})],
    "tied.json": [*(node(name) for name in "abc"), pod("p")],
    "reserved.json": [node("a"), node("b", cpu="1"), pod("p", {"cpu": "1"}),
                      pod("vip", {"cpu": "4"}, status={"nominatedNodeName": "a"}, schedulingGates=[{"name": "later"}])],
    "mixed.json": [*(node(f"n{i}", **OBSTACLES[i % 6]) for i in range(60)), pod("p", {"cpu": "3"}, nodeSelector={"disk": "ssd"}),
                   pod("q", {"cpu": "3"}, tolerations=[{"key": "gpu", "operator": "Exists"}])],
    **{f"zones-{count}.json": zones(count) for count in (3, 9, 12, 24)},
    "long.json": [*(node(f"{LONG}-{i}", labels={f"{LONG}/{LONG}": LONG}) for i in "abc"),
                  *(pod(f"{LONG}-{i}", {"cpu": "3"}, nodeSelector={f"{LONG}/{LONG}": LONG}) for i in "abcd")]}
SHOWN = {
    "the demo with all rules": ["--cluster", DEMO, "--policy=DefaultProvider"],
    **{f"the example {name}": ["--cluster", EXAMPLES / f"{name}.yaml"] for name in ("taints", "affinity", "spreading", "preemption")},
    **{f"{name.removesuffix('.json')} nodes": ["--cluster", name] for name in CLUSTERS},
    "40 rules": ["--cluster", "9.json", "--plugins", "rules.py", "--policy", "rules.json"]}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with large clusters, many rules, and long names."""
    folder = tmp_path_factory.mktemp("files")
    for name, objects in CLUSTERS.items():
        (folder / name).write_text(json.dumps({"kind": "List", "items": objects}))
    (folder / "rules.py").write_text(RULES)
    (folder / "rules.json").write_text(json.dumps(NAMED, indent=1))
    return folder


def paths(options, folder):
    """Options, with the paths of the files of a folder for their names."""
    return [folder / each if (folder / str(each)).exists() else each for each in options]


MEASURE = """return decisions().flatMap(decision => ['nodes', 'matrix'].map(mode => {
    view.mode = mode;
    go(decision);
    const sizes = [...document.querySelectorAll('body *')].filter(each => each.innerText?.trim()).map(each => parseFloat(getComputedStyle(each).fontSize));
    const page = document.documentElement, main = document.querySelector('main').getBoundingClientRect();
    const body = getComputedStyle(page);
    return [decision.pod, mode, page.scrollWidth, page.scrollHeight, Math.min(...sizes), main.height, body.color, body.backgroundColor];
}))"""


CONTRASTS = """
    const lightness = ([r, g, b]) => [r, g, b].map(each => each <= 10 ? each / 3295 : ((each / 255 + .055) / 1.055) ** 2.4).reduce((sum, each, i) => sum + each * [.2126, .7152, .0722][i], 0);
    const channels = colour => colour.match(/[\\d.]+/g).map(Number);
    const above = each => each ? [each, ...above(each.parentElement)] : [];
    return [...document.querySelectorAll('main *, aside *, header *')].filter(each => [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()) && each.offsetHeight).map(each => {
      const behind = above(each).map(one => channels(getComputedStyle(one).backgroundColor)).find(one => one.length === 3);
      const opacity = above(each).reduce((product, one) => product * getComputedStyle(one).opacity, 1);
      const ink = channels(getComputedStyle(each).color).map((one, i) => opacity * one + (1 - opacity) * behind[i]);
      const [dark, light] = [lightness(ink), lightness(behind)].sort((a, b) => a - b);
      return [(light + .05) / (dark + .05), each.innerText];
    }).filter(([contrast]) => contrast < 4.5);"""


@table("colours", {"in daylight": "light", "in the dark": "dark"})
def test_each_text_stands_out_from_its_background(colours, browse):
    page = browse("--cluster", DEMO)
    show_on(page, 1280, 720, colours)
    try:
        for _ in range(8):
            press(page, Keys.ARROW_DOWN)
            assert page.execute_script(CONTRASTS) == []
    finally:
        show_on(page, *SCREENS["a projector"])


def test_on_a_telephone_the_answer_stays_on_top_with_the_winner_below(browse, files):
    page = browse("--cluster", files / "workers-24.json", address="#pod=default/p")
    show_on(page, *SCREENS["a telephone"])
    try:
        page.execute_script("render()")
        found = []
        for scrolled in (0, 2000):
            page.execute_script("scrollTo(0, arguments[0])", scrolled)
            found.append(page.execute_script("return ['h1 .yes', '.tile.best .race'].map(each => document.querySelector(each).getBoundingClientRect().bottom)"))
        assert found[0][0] == found[1][0] < 100 and found[0][1] < 844
    finally:
        show_on(page, *SCREENS["a projector"])


@table("options", SHOWN)
def test_each_decision_fits_the_screen_in_large_letters(options, browse, files):
    page = browse(*paths(options, files))
    try:
        for width, height, colours in SCREENS.values():
            show_on(page, width, height, colours)
            for name, mode, wide, high, size, main, ink, paper in page.execute_script(MEASURE):
                assert wide <= width, (name, mode)
                assert size >= (18 if width > 800 else 16), (name, mode)
                assert width < 800 or (high <= height and main > 500), (name, mode)
                lightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, paper)]
                assert (lightness[0] > lightness[1]) == (colours == "dark")
    finally:
        show_on(page, *SCREENS["a projector"])


def test_with_many_nodes_each_is_a_square_and_the_best_two_are_tiles(browse, files):
    page = browse("--cluster", files / "300.json", address="#pod=default/p")
    squares = page.execute_script("return [...document.querySelectorAll('.map .square')].map(each => each.className.split(' ')[1])")
    assert len(squares) == 300 and squares.count("best") == 1 and squares.count("out") == 300 - int(text_of(page, ".legend").split()[0])
    assert "32: taint gpu" in text_of(page, ".legend") and kinds(page) == ["best", "fits"]
    page.find_element(By.CSS_SELECTOR, ".map .square.out").click()
    assert kinds(page) == ["best", "out"]


def test_the_legend_names_all_groups_and_keeps_its_height(browse, files):
    page = browse("--cluster", files / "mixed.json")
    press(page, "b")
    seen = []
    colours = "return ['.legend', '.map'].map(each => getComputedStyle(document.querySelector(`${each} .square`)).backgroundColor)"
    assert len({*page.execute_script(colours)}) == 1, "the first square is left"
    for _ in range(6):
        groups = page.find_elements(By.CSS_SELECTOR, ".legend > span")
        seen.append((page.find_element(By.CSS_SELECTOR, ".map").rect["y"], [each.text for each in groups if each.is_displayed()]))
        assert len(groups) == 6 and page.execute_script("const legend = document.querySelector('.legend'); return legend.scrollHeight <= legend.clientHeight")
        press(page, Keys.ARROW_RIGHT)
    assert len({top for top, _ in seen}) == 1 and seen[0][1] == ["60 left"]
    assert sorted(seen[-1][1]) == ["10 fit: 188 points", "10: cordoned", "10: disk is not ssd", "10: needs cpu 3", "10: taint batch", "10: taint gpu"]


def test_squares_of_nodes_that_tie_are_framed(browse, files):
    page = browse("--cluster", files / "uneven.json", address="#pod=default/p")
    assert len(page.find_elements(By.CSS_SELECTOR, ".map .square.tied")) == 99


def test_with_a_thousand_nodes_the_legend_names_the_reason(browse, files):
    page = browse("--cluster", files / "1000.json", address="#pod=default/q")
    assert text_of(page, ".legend") == "0 left 1000: Insufficient cpu"
    assert len(page.find_elements(By.CSS_SELECTOR, ".bar.blamed .over")) == 2
    page.execute_script("go(decisions()[0])")
    assert text_of(page, ".legend").endswith("taint gpu")


def test_a_print_has_the_tiles_and_the_matrix(browse):
    page = browse("--cluster", DEMO, address="#pod=default/report")
    page.execute_script("onbeforeprint()")
    assert "1 → 100 × 2" in text_of(page, ".paper") and len(tiles(page)) == 5
    page.execute_script("onafterprint()")
    assert page.execute_script("return document.querySelectorAll('.on-paper, .paper').length") == 0


@table("cluster, keys, count", {
    "24 nodes": ("marked-24.json", "", 2), "in large letters": ("marked-24.json", "b", 2), "many nodes": ("300.json", "", 2),
    "the timeline": ("marked-24.json", "t", 1)})
def test_a_print_has_landscape_pages(cluster, keys, count, browse, files):
    page = browse("--cluster", files / cluster, "--policy=DefaultProvider", address="#pod=default/p")
    press(page, *keys)
    text = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
    sizes = re.findall(rb"/MediaBox ?\[0 0 ([0-9.]+) ([0-9.]+)\]", text)
    assert [float(width) > float(height) for width, height in sizes] == [True] * count


def test_a_print_has_colours_and_all_columns_and_no_scroll_bars(browse, files):
    page = browse("--cluster", files / "marked-24.json", "--policy=DefaultProvider", address="#pod=default/p")
    try:
        show_on(page, 1060, 730, "light")  # A4 without its margins
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        found = page.execute_script("""
            onbeforeprint();
            const styles = [...document.querySelectorAll('main, main *')].map(each => getComputedStyle(each));
            return [document.querySelector('.matrix table').getBoundingClientRect().right < 1060,
                    [...document.querySelectorAll('button')].filter(each => each.offsetHeight).length,
                    styles.filter(each => [each.overflowX, each.overflowY].some(one => ['auto', 'scroll'].includes(one))).length,
                    styles.filter(each => each.printColorAdjust !== 'exact').length];""")
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        show_on(page, *SCREENS["a projector"])
    assert found == [True, 0, 0, 0]


@table("cluster, rows, opened", {
    "up to 30 nodes are all shown": ("marked-24.json", 24, 24), "of more, one stands for each reason, and the others open with a click": ("300.json", 31, 300)})
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


HANDLERS = ["onload", "onerror", "onfocus autofocus", "onmouseover", "ontoggle open", "onanimationstart", "onbegin", "onpageshow"]
PAYLOADS = [
    *(f"<img src=x {handler}=owned=1>" for handler in HANDLERS), *(f'"{handler}="owned=1"' for handler in HANDLERS),
    *(f"<svg/{handler}=owned=1>" for handler in HANDLERS), *(f"'><details {handler}=owned=1>" for handler in HANDLERS),
    "<script>owned=1</script>", "</script><script>owned=1</script>", "<!--<script>owned=1</script>", "</style><script>owned=1</script>",
    "]]><script>owned=1</script>", "javascript:owned=1", "${owned=1}", "<iframe srcdoc='<script>top.owned=1</script>'>",
    "<math><mi//xlink:href='data:x,<script>owned=1</script>'>", "\u2028owned=1", "\\u003cscript>owned=1</script>\u202e"]
HOSTILE_RULE = f"""from scheduler import predicate, priority
PAYLOADS = {PAYLOADS!r}
@predicate(PAYLOADS[32])
def hostile(pod, node):
    if pod.name[-1] == "!": yield "<img src=x onerror=owned=1> " + " ".join(PAYLOADS)
@priority(PAYLOADS[33])
def points(pod, node):
    return 7
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A cluster and rules with a script in each field."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "rules.py").write_text(HOSTILE_RULE)
    (folder / "policy.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "predicates": [{"name": PAYLOADS[32]}, {"name": "MatchNodeSelector"}],
        "priorities": [{"name": PAYLOADS[33], "weight": 1}]}))
    objects = []
    for i, payload in enumerate(PAYLOADS):
        labels = {payload: payload}
        objects.append(node(f"n{payload}", labels={**labels, "zone": payload}, taints=[{"key": payload, "value": payload, "effect": "PreferNoSchedule"}]))
        for name, more in ((payload, {}), (f"{payload}!", {"nodeSelector": labels}), (f"{payload}?", {"nodeName": f"n{payload}"})):
            objects.append(pod(f"p{i}{name}", metadata={"labels": labels, "annotations": labels}, **more))
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": objects}))
    return ["--cluster", folder / "cluster.json", "--plugins", folder / "rules.py", "--policy", folder / "policy.json"]


@table("csp", {"with its Content-Security-Policy": True, "without": False})
def test_43_scripts_in_every_field_do_nothing(csp, chromium, pages, hostile, tmp_path):
    assert len(PAYLOADS) == 43
    url = pages(*hostile, program=UNCHECKED)
    if not csp:
        text = (tmp_path.parent / url.removeprefix("file://")).read_text()
        (tmp_path / "page.html").write_text(re.sub("<meta http-equiv=.*?>", "", text, flags=re.S))
        url = (tmp_path / "page.html").as_uri()
    chromium.get("about:blank")
    chromium.get(url)
    found = chromium.execute_script("""
        const before = document.querySelectorAll('script').length;
        for (const mode of ['nodes', 'matrix', 'timeline', 'pending', 'manifest', 'policy']) {
          view.mode = mode;
          decisions().filter((_, i) => i % 5 === 0).forEach(each => go(each));
        }
        onbeforeprint();
        known.policy.by['my-scheduler'].predicates.forEach(switchOff);
        const handlers = [...document.querySelectorAll('*')].filter(each => [...each.attributes].some(({name}) => name.startsWith('on')));
        return [before, document.querySelectorAll('img, svg, iframe, math, details').length, handlers.length, typeof owned, document.body.innerText];""")
    assert found[:4] == [2, 0, 0, "undefined"] or found[:4] == [0, 0, 0, "undefined"]
    assert "<script>owned=1</script>" in found[4] and "\u202e" not in found[4] and "\\u202e" in found[4], "the script is shown as text"
    with pytest.raises(NoAlertPresentException):
        chromium.switch_to.alert.accept()


def test_the_content_security_policy_stops_a_script_that_is_not_escaped(browse, chromium):
    page = browse("--cluster", DEMO)
    page.execute_script("document.body.insertAdjacentHTML('beforeend', '<img src=data:, onerror=\"window.owned = 1\">')")
    time.sleep(0.2)
    assert page.execute_script("return window.owned") is None
    assert [entry["message"] for entry in chromium.get_log("browser") if "Content Security Policy" in entry["message"]]


LIVE = """
    connection.is = 'live';
    guess.on = arguments[2] === 'guess';
    Object.assign(view, {live: true, at: decisions()[0], step: Infinity, byHand: arguments[2] === 'by hand'});
    render();
    if (guess.on) guess.choice = 'node-a';
    const warehouse = decisions().find(each => each.node === null), before = known.entries.length;
    take({...warehouse, n: known.last + 1, message: warehouse.message.replace(arguments[0], arguments[1])});
    arrived(known.entries.slice(before));
    const found = [view.at.pod, document.querySelector('.news')?.innerText || ''];
    guess.on = guess.choice = null;
    view.byHand = false;
    return found;"""


@table("before, after, mode, shown, news", {
    "for the same reasons: the page does not change": ("", "", "", "default/web-1", ""),
    "for the same reasons with other numbers of nodes": ("3 Insufficient cpu", "12 Insufficient cpu", "", "default/web-1", ""),
    "for another reason": ("Insufficient memory", "Too many pods", "", "default/warehouse", ""),
    "for another reason, while the answer to a guess is shown":
        ("Insufficient memory", "Too many pods", "guess", "default/web-1", "→ next: Where does web-2 go?"),
    "for another reason, while the user navigates":
        ("Insufficient memory", "Too many pods", "by hand", "default/web-1", "→ next: Where does web-2 go?"),
})
def test_a_pod_that_is_tried_again_stays_pending(before, after, mode, shown, news, browse):
    page = browse("--cluster", DEMO)
    assert page.execute_script(LIVE, before, after, mode) == [shown, news]


CHANGED = """
    connection.is = 'live';
    goTo(known.changes.length);
    const pending = decisions().at(-1), node = nodes.get('node-b');
    Object.assign(view, {live: true, at: pending, step: arguments[1]});
    const nodeIs = more => take({kind: 'nodes', n: known.last + 1, at: Date.now() / 1000, nodes: {
      'node-b': {...node, ...more}, 'node-a': {...nodes.get('node-a'), used: {pods: 40}}}});  // the usage of another node changes, too
    const queueIs = pods => take({kind: 'queue', n: known.last + 1, count: pods.length, oldest: 0, pods});
    const noteIs = text => take({kind: 'note', n: known.last + 1, at: 1, problem: false, text: `policy.json: ${text}`});
    queueIs([{pod: pending.pod, attempts: 1, for: 'node', again: 0}]);
    const keys = node.pods.slice(1), used = {...node.used, pods: keys.length};
    ({taint: () => nodeIs({taints: ['today:NoSchedule']}),
      label: () => nodeIs({labels: {disk: 'ssd'}}),
      pod: () => nodeIs({pods: keys, used}),
      pending: () => queueIs([]),
      retry: () => {
        nodeIs({cordoned: true});
        known.entries.at(-1).at = pending.at;
        take({...pending, n: known.last + 1, message: '1 node(s) were unschedulable'});
        enter(known.entries.at(-1));
      },
      weights: () => ['- APriority ×1', '- B', '+ APriority ×5'].map(noteIs)})[arguments[0]]();
    render();
    return ['h1', '.news', '.tile.changed .name', '.chip.changed'].map(each => [...document.querySelectorAll(each)].map(found => found.innerText.replace('\\n', ' ')).join(', '));"""
ASKED = "Where does warehouse go?"


@table("change, step, shown", {
    "a taint": ("taint", 99, [f"{ASKED} Nowhere yet", "Since then: node-b: + taint today:NoSchedule", "node-b", "today:NoSchedule"]),
    "a taint during the animation of the decision":
        ("taint", 1, [ASKED, "Since then: node-b: + taint today:NoSchedule", "node-b", "today:NoSchedule"]),
    "labels": ("label", 99, [f"{ASKED} Nowhere yet", "Since then: node-b: disk hdd → ssd, - label zone=west", "node-b", "disk=ssd"]),
    "a pod is deleted": ("pod", 99, [f"{ASKED} Nowhere yet", "Since then: node-b: - pod web-1", "node-b", ""]),
    "the pending pod is deleted": ("pending", 99, [f"{ASKED} It is gone", "", "", ""]),
    "the reason for a retry": (
        "retry", 99, [f"{ASKED} Nowhere yet", "Decided again after: node-b: cordoned", "node-b", "cordoned"]),
    "other weights": ("weights", 99, [f"{ASKED} Nowhere yet", "Since then: Policy: A ×1 → ×5, - B", "", ""])})
def test_changes_are_highlighted_at_once(change, step, shown, browse):
    page = browse("--cluster", DEMO)
    assert page.execute_script(CHANGED, change, step) == shown


EDITED = """
    const first = decisions()[0], policy = structuredClone(known.policy), rules = policy.by['my-scheduler'];
    rules.priorities[2][1] = 20;
    rules.predicates.splice(1, 1);
    Object.assign(view, {live: true, at: decisions().at(-1), step: Infinity});
    take({...policy, n: known.last + 1});
    if (arguments[0]) {
      take({...first, n: known.last + 1});
      view.at = known.entries.at(-1);
    }
    render();
    return [...document.querySelectorAll('.rules .edited')].map(each => each.innerText.replace(/\\s+/g, ' '));"""


@table("is_after", {"it was made before the edit": False, "the pod was decided again after the edit": True})
def test_an_edited_rule_is_marked_beside_a_decision(is_after, browse):
    page = browse("--cluster", DEMO)
    assert page.execute_script(EDITED, is_after) == ["HostName gone", "NodeAffinity ×2 → ×20"]


@table("id, count", {"the scheduler has restarted": ("1764000000.5", 1), "the page has reconnected": (None, 0)})
def test_the_timeline_says_that_decisions_before_a_restart_are_gone(id, count, browse):
    page = browse("--cluster", DEMO)
    page.execute_script("begin({...data, id: arguments[0] || data.id}); view.mode = 'timeline'; render()", id)
    lines = [each.text for each in page.find_elements(By.CSS_SELECTOR, ".timeline li")]
    assert len(lines) >= 8 and len(re.findall(r"the scheduler restarted at \d\d:\d\d: decisions before that are gone", lines[-1])) == count


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


@table("text, status", {
    "the API server is unreachable": ("cannot reach http://127.0.0.1:8001: Connection refused", ["no-api", "NO API"]),
    "kubectl proxy cannot reach it": (
        "GET /api/v1/nodes: 502 Bad Gateway: http://127.0.0.1:8001 is not a kubectl proxy, or has no API server behind it: ", ["no-api", "NO API"]),
    "the Policy is broken": ("policy.json: unknown predicate", ["live", "● LIVE"])})
def test_the_badge_says_that_there_is_no_api_server(text, status, browse):
    page = browse("--cluster", DEMO)
    assert page.execute_script("""
        connection.is = 'live';
        Object.assign(view, {live: true, at: decisions().at(-1), step: Infinity});
        take({kind: 'note', n: known.last + 1, at: 1, problem: true, text: arguments[0]});
        return statusNow();""", text) == status


def test_the_rules_do_not_tell_at_the_question_which_of_them_refuse_nodes(browse):
    page = browse("--cluster", DEMO, "--policy=DefaultProvider")
    shown = []
    for _ in range(3):
        shown.append(page.execute_script("return [...document.querySelectorAll('.rules:not(.weights) li span')].map(each => each.textContent)"))
        press(page, Keys.ARROW_RIGHT)
    assert shown == [[], ["CheckNodeUnschedulable"], ["CheckNodeUnschedulable", "PodToleratesNodeTaints"]]


def test_a_saved_page_opens_at_the_decision_that_is_shown(browse, pages, tmp_path):
    page = browse("--cluster", DEMO)
    text = page.execute_script("""
        connection.is = 'live';
        go(decisions()[2]);
        fetch = async () => ({text: async () => arguments[0]});
        let saved;
        URL.createObjectURL = blob => { saved = blob; return '#saved'; };
        HTMLAnchorElement.prototype.click = () => {};
        return save().then(() => saved.text());""", Path(pages("--cluster", DEMO).removeprefix("file://")).read_text())
    (tmp_path / "saved.html").write_text(text)
    page.get((tmp_path / "saved.html").as_uri())
    assert text_of(page, "#where") == "3 of 8" and "To " in text_of(page, "h1")


def test_a_reason_has_the_same_colour_beside_each_decision(browse, files):
    page = browse("--cluster", files / "mixed.json")
    colours = page.execute_script("""
        const [decision] = decisions(), other = structuredClone({...decision, places: 0});
        const colours = each => Object.fromEntries(each.against.map((_, group) => [kindOf(each, group), coloursOf(each).get(group)]));
        const before = colours(decision);
        other.out = Object.fromEntries(Object.entries(other.out).filter(([name, group]) => kindOf(other, group).startsWith('taint') || name.endsWith('9')));
        return [before, colours(other), coloursOf(decision).get(decision.against.findIndex((_, group) => kindOf(decision, group) === 'cordoned'))];""")
    assert {kind: colours[0][kind] for kind in colours[1] if colours[1][kind] != 5} == {kind: place for kind, place in colours[1].items() if place != 5}
    assert colours[2] == 0 and len(set(colours[0].values())) == 5


@table("keys", {"on a projector": [], "in large letters": ["b"]})
def test_squares_stay_where_they_are_when_the_cluster_changes(keys, browse, files):
    page = browse("--cluster", files / "300.json", address="#pod=default/p")
    press(page, *keys)
    places = page.execute_script("""
        connection.is = 'live';
        Object.assign(view, {live: true, at: decisions().at(-1), step: Infinity});
        const places = () => [...document.querySelectorAll('.map .square')].map(each => [each.offsetLeft, each.offsetTop, each.offsetWidth].join()).join(' ');
        render();
        const before = places();
        const taints = [...Array(9)].map((_, i) => `a-rather-long-key-${i}=today:NoSchedule`);
        take({kind: 'nodes', n: known.last + 1, at: 1, nodes: {n1: {...nodes.get('n1'), taints}}});
        render();
        return [before, places(), document.querySelector('.news').innerText.startsWith('Since then')];""")
    assert places[0] == places[1] and places[2]


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


PROBLEM = 'policy.json: unknown predicate "Fit"'


def test_live_the_page_says_how_many_decisions_follow_and_lists_none_of_them(browse):
    page = browse("--cluster", DEMO)
    found = page.execute_script("""
        connection.is = 'live';
        Object.assign(view, {live: true, at: decisions()[1], step: Infinity, next: []});
        render();
        return [document.getElementById('status').textContent, [...document.querySelectorAll('.lasts li > span:first-child')].map(each => each.innerText)];""")
    assert found == ["● LIVE · 6 more: →", ["web-2", "web-1"]]
    press(page, Keys.ARROW_LEFT)
    assert text_of(page, "#status") == "❚❚ PAUSED · 6 newer"


@table("live, shown", {"on top while LIVE": (True, [PROBLEM, None]), "below while PAUSED": (False, [None, PROBLEM])})
def test_a_broken_policy_is_named_once(live, shown, browse):
    page = browse("--cluster", DEMO)
    found = page.execute_script("""
        connection.is = 'live';
        Object.assign(view, {live: arguments[0], at: decisions()[1], step: Infinity, next: []});
        take({kind: 'note', n: known.last + 1, at: 1, problem: true, text: arguments[1]});
        render();
        return ['.because', 'footer'].map(each => document.querySelector(each).innerText.includes(arguments[1]));""", live, PROBLEM)
    assert [PROBLEM if each else None for each in found] == shown


@table("keys", {"on a projector": [], "in large letters": ["b"]})
def test_a_remark_about_the_answer_is_shown_in_full(keys, browse):
    page = browse("--cluster", EXAMPLES / "affinity.yaml")
    press(page, *keys, Keys.END)
    assert text_of(page, ".news").endswith("and MatchInterPodAffinity is not active")
    assert page.execute_script("return [...document.querySelectorAll('.news, .because')].every(each => each.scrollHeight <= each.clientHeight)")


@table("keys", {"on a projector": [], "in large letters": ["b"]})
def test_a_long_line_about_a_broken_policy_does_not_move_the_tiles(keys, browse):
    page = browse("--cluster", DEMO)
    press(page, Keys.END, *keys)
    top, text, (before, after) = page.execute_script("""
        const top = () => document.querySelector('.tiles').offsetTop, before = top();
        connection.is = 'live';
        view.live = true;
        take({kind: 'note', n: known.last + 1, at: 1, problem: true, text: 'policy.json: ' + 'unknown predicate "Fits"; '.repeat(9)});
        render();
        const problem = document.querySelector('.problem');
        return [problem.getBoundingClientRect().height / parseFloat(getComputedStyle(problem).lineHeight), problem.title, [before, top()]];""")
    assert round(top) == 2 and text.count("unknown") == 9 and before == after


def test_more_than_two_nodes_tie(browse, tmp_path):
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "items": [node(name) for name in "abc"] + [pod("p")]}))
    page = browse("--cluster", cluster)
    press(page, Keys.END)
    assert re.fullmatch(r"3 nodes tie at \d+: [abc] is picked at random\.", text_of(page, ".because p"))


def test_each_reason_of_a_predicate_is_named(browse, tmp_path):
    taints = [[{"key": key, "effect": "NoSchedule"}] for key in ("gpu", "batch")]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "items": [
        *(node(name, taints=each) for name, each in zip("ab", taints)), node("c"), pod("p")]}))
    page = browse("--cluster", cluster)
    press(page, Keys.RIGHT)
    assert text_of(page, ".because p").startswith("PodToleratesNodeTaints: 2 nodes out.")
    assert all(key in text_of(page, ".because q") for key in ("gpu", "batch"))


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


def test_a_predicate_that_did_not_run_has_no_check_mark(browse, tmp_path):
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "items": [node("a", cpu="1"), pod("p", {"cpu": "9"})]}))
    page = browse("--cluster", cluster, "--preempt")
    press(page, Keys.END)
    marks = page.execute_script("return [...document.querySelectorAll('.rules:not(.weights) li')].map(each => each.innerText.split('\\n'))")
    assert marks == [["CheckNodeUnschedulable", "✓"], ["HostName", "✓"], ["PodFitsHostPorts", "✓"], ["MatchNodeSelector", "✓"],
                     ["PodFitsResources", "−1"], ["NoDiskConflict"], ["PodToleratesNodeTaints"], ["Preemption"]]


@table("keys, names", {
    "on a projector": ([], ["BalancedResourceAllocation", "NodePreferAvoidPodsPriority", "SelectorSpreadPriority+EvenPodsSpreadPriority"]),
    "in large letters": (["b"], ["BalancedResourceAllocation", "NodePreferAvoidPods", "SelectorSpread+EvenPodsSpread"])})
def test_the_name_of_each_rule_is_shown_in_full(keys, names, browse):
    page = browse("--cluster", DEMO, "--policy=DefaultProvider")
    press(page, *keys)
    assert [name for name in names if name in text_of(page, ".right").replace(" ", "")] == names
    assert page.execute_script("""return [...document.querySelectorAll('.right, .right li, .right span')].filter(
        each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth || each.scrollHeight > each.clientHeight + 3 && each.clientHeight
    ).map(each => each.innerText)""") == []


@table("cluster, keys", {f"{count} nodes{', in large letters' if keys else ''}": (f"{count}.json", keys)
                         for count in (9, 14, 30) for keys in ([], ["b"])})
def test_a_tile_of_any_size_shows_its_points_or_the_reason_against_it(cluster, keys, browse, files):
    page = browse("--cluster", files / cluster, address="#pod=default/p")
    press(page, *keys)
    shown = page.execute_script("""return [...document.querySelectorAll('.tile')].map(tile => {
        const parts = [...tile.querySelectorAll(tile.matches('.out') ? '.why' : '.total, .race')];
        const bottom = tile.getBoundingClientRect().bottom;
        return [tile.matches('.out') ? 1 : 2, parts.filter(each => each.offsetHeight && each.getBoundingClientRect().bottom < bottom).length,
                tile.scrollHeight <= tile.clientHeight + 1, tile.scrollWidth <= tile.clientWidth];
    })""")
    assert {tuple(tile) for tile in shown} == {(1, 1, True, True), (2, 2, True, True)}


@table("count, keys", {f"{count} nodes{', in large letters' if keys else ''}": (count, keys)
                       for count in (5, 12, 16, 24) for keys in ([], ["b"])})
def test_a_tile_shows_whole_names_lines_and_bars(count, keys, browse, files):
    page = browse("--cluster", files / f"workers-{count}.json", address="#pod=default/p")
    press(page, *keys)
    for name in "pq":
        cut = page.execute_script("""return [...document.querySelectorAll('.tile')].flatMap(tile => {
            const parts = [...tile.querySelectorAll('bdi, .why span, .bar > span, .chip')].filter(each => each.offsetHeight);
            const isCut = each => {
                const inner = each.getBoundingClientRect(), outer = (each.closest('.name') || tile).getBoundingClientRect();
                return inner.width > outer.width + .1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1 || each.scrollWidth > each.clientWidth + 1;
            };
            return parts.filter(isCut).map(each => each.innerText);
        })""")
        names = [re.search(r"(worker-|…)\d\d", text)[0] for text in tiles(page).values()]
        assert cut == [] and names == [f"{'worker-' if count < 10 else '…'}{i:02}" for i in range(count)]
        size, *rest = page.execute_script("""
            const best = document.querySelector('.tile.best'), {fontSize, fontWeight} = getComputedStyle(best.querySelector('.name'));
            return [Math.round(parseFloat(fontSize)), fontWeight, best.querySelector('.chip.new')?.innerText];""")
        assert size >= (22 if keys else 18) and rest == ["700", f"+ {name}"]
        press(page, Keys.ARROW_DOWN)


@table("names, shown", {
    "a prefix that all of them share": ([f"worker-{i:03}" for i in range(12)], ["…000", "…001"]),
    "a prefix without a separator": ([f"n{i}" for i in range(12)], ["n0", "n1"]),
    "a prefix and a domain": ([f"ip-10-0-1-{i}.eu-west-1.compute.internal" for i in range(12)], ["…0", "…1"]),
    "no prefix that all of them share": (["a-0", *(f"b-{i}" for i in range(11))], ["a-0", "b-0"]),
    "a node whose name is the prefix": (["worker", *(f"worker-{i}" for i in range(11))], ["worker", "worker-0"]),
    "few nodes": (["worker-000", "worker-001"], ["worker-000", "worker-001"])})
def test_a_prefix_that_many_nodes_share_is_left_out(names, shown, browse, tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [*map(node, names), pod("p")]}))
    page = browse("--cluster", tmp_path / "cluster.json")
    assert page.execute_script("return [...document.querySelectorAll('.tile .name')].map(each => each.innerText)")[:2] == shown
    assert page.find_element(By.CSS_SELECTOR, ".tile").get_attribute("title") == names[0]


@table("script, selector, shown, title", {
    "a row of the matrix": ("view.mode = 'matrix'; render()", ".matrix tbody tr:first-child th", "ip-1", "ip-1.eu-central-1.compute.internal"),
    "what would help": ("", ".because .no", "It would help to label ip-1 disk=ssd.", "It would help to label ip-1.eu-central-1.compute.internal disk=ssd."),
    "what has happened since": ("say()", ".because .news", "Since then: ip-2: cordoned", "Since then: ip-2.eu-central-1.compute.internal: cordoned"),
    "the line at the bottom": ("say()", "footer p:first-child", "ip-2: cordoned", "ip-2.eu-central-1.compute.internal: cordoned"),
    "a change in the timeline": ("view.mode = 'timeline'; say()", ".timeline .change span", "ip-2: cordoned", "ip-2.eu-central-1.compute.internal: cordoned"),
    "a decision in the timeline": ("view.mode = 'timeline'; render()", ".timeline .decision:nth-child(2) a", "p → ip-1 (2 of 2 fit, 263)", "p → ip-1.eu-central-1.compute.internal (2 of 2 fit, 263)"),
    "a node that is found": ("view.mode = 'timeline'; sought = 'ip-1.eu-central'; render()", ".node-line span", "ip-1:", "ip-1.eu-central-1.compute.internal"),
    "a pending pod": ("view.mode = 'pending'; render()", ".pending .help", "It would help to label ip-1 disk=ssd", "label ip-1.eu-central-1.compute.internal disk=ssd"),
    "a pod that would move": ("whatIf.weights = {LeastRequestedPriority: 0}; decisions()[0].node = 'ip-2.eu-central-1.compute.internal'; decisions()[0].votes[0].points = [0, 0]; decisions()[0].votes[1].points = [9, 0]; render()",
                              ".moves p", "p: ip-2 → ip-1", "p: ip-2.eu-central-1.compute.internal → ip-1.eu-central-1.compute.internal")})
def test_the_domain_that_all_nodes_share_is_left_out(script, selector, shown, title, browse, tmp_path):
    names = [f"ip-{i}.eu-central-1.compute.internal" for i in (1, 2)]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [
        *map(node, names), pod("p", {"cpu": "1"}), pod("q", nodeSelector={"disk": "ssd"})]}))
    page = browse("--cluster", tmp_path / "cluster.json")
    page.execute_script("""
        const say = () => {
          connection.is = 'live';
          view.live = true;
          const name = 'ip-2.eu-central-1.compute.internal';
          take({kind: 'nodes', n: known.last + 1, at: 1e10, nodes: {[name]: {...nodes.get(name), cordoned: true}}});
          render();
        };
        go(decisions().at(-1));""" + script)
    found = page.execute_script("const found = document.querySelector(arguments[0]); return [found.innerText, found.title]", selector)
    assert shown in " ".join(found[0].split()) and "compute.internal" not in found[0] and title in found[1].splitlines()


@table("text, shown", {
    "names before punctuation": ("a.x.org, b.x.org: c.x.org.", "a, b: c."),
    "an image": ("registry.x.org/shop:1 b.x.org:5000/shop", "registry.x.org/shop:1 b.x.org:5000/shop"),
    "a label": ("kubernetes.io/hostname=a.x.org", "kubernetes.io/hostname=a.x.org"),
    "a longer domain": ("a.x.org.uk", "a.x.org.uk")})
def test_only_names_of_nodes_lose_the_domain(text, shown, browse):
    page = browse("--cluster", DEMO)
    assert page.execute_script("places.domain = '.x.org'; return withoutDomain(arguments[0])", text) == shown


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


@table("keys, taint", {"on a projector": ([], "dedicated=batch"), "in large letters": (["b"], "dedicated")})
def test_each_tile_shows_what_decides_while_somebody_guesses(keys, taint, browse, files):
    page = browse("--cluster", files / "marked-24.json", address="#pod=default/p")
    press(page, *keys)
    page.execute_script("guess.on = true; view.step = 0; render()")
    marks = page.execute_script("return [...document.querySelectorAll('.tile')].map(tile => [...tile.querySelectorAll('.mark')].map(each => each.innerText).join())")
    assert marks == ["", "cordoned", taint, "spot:Prefer…"] * 6
    page.execute_script("go(decisions()[0])")
    shown = page.execute_script("return [...document.querySelectorAll('.tile.fits .mark:not(h3 *)')].map(each => each.innerText)")
    assert len(shown) == 5 and all(re.match("spot(=true)?:Prefer", each) for each in shown), "beside the points, too"


def test_points_that_all_nodes_get_are_cut_from_the_bars(browse):
    page = browse("--cluster", DEMO, "--policy=DefaultProvider", address="#pod=default/web-1")
    page.execute_script("view.step = 3; render()")
    words = text_of(page, ".because .message").replace("\u00a0", " ")
    assert words == "… the same for all: fewer taints 100 · not avoided 1000000 · fewer of its kind 200"
    assert page.execute_script("return [...document.querySelectorAll('.race')].map(each => each.innerText.split('\\n').length)") == [3, 3]


@table("keys", {"on a projector": [], "in large letters": ["b"]})
def test_the_winner_shows_the_label_that_the_pod_asks_for(keys, browse, files):
    page = browse("--cluster", files / "marked-24.json", address="#pod=default/q")
    press(page, *keys)
    assert text_of(page, ".tile.best .asked") in ("disk=ssd", "ssd")


@table("keys", {"on a projector": [], "in large letters": ["b"]})
def test_the_result_of_a_guess_fits_into_a_small_tile(keys, browse, files):
    page = browse("--cluster", files / "workers-24.json")
    press(page, *keys)
    assert page.execute_script("""
        const decision = decisions()[0], guesses = [...decision.fit.filter(name => name !== decision.node).slice(0, 1), Object.keys(decision.out)[0]];
        return guesses.filter(name => {
          guess.choice = name;
          view.step = Infinity;
          render();
          const tile = document.querySelector('.tile:has(.guessed)');
          return tile.scrollHeight > tile.clientHeight;
        });""") == []


def test_small_zones_are_side_by_side(browse, files):
    page = browse("--cluster", files / "uneven.json", address="#pod=default/p")
    tops = page.execute_script("return [...document.querySelectorAll('.zone')].map(each => each.offsetTop)")
    assert tops[0] <= tops[1] == tops[2]
    assert page.execute_script("const map = document.querySelector('.map'); return map.scrollHeight <= map.clientHeight")


@table("cluster, whole", {"a usual name": ("14.json", True), "a name of 58 characters": ("long.json", False)})
def test_the_answer_on_top_has_room_before_the_question(cluster, whole, browse, files):
    page = browse("--cluster", files / cluster)
    press(page, "b", "g", *[Keys.ARROW_DOWN] * 2)
    page.execute_script("decisions()[0].pod = 'default/' + 'x'.repeat(90); go(decisions()[0])")
    found = page.execute_script("""
        const [answer, about] = ['h1 .yes', '.about'].map(each => document.querySelector(each));
        return [answer.scrollWidth <= answer.clientWidth, answer.getBoundingClientRect().right <= about.getBoundingClientRect().left];""")
    assert found == [whole, True]


SHOW = """
    connection.is = 'live';
    Object.assign(view, {live: true, at: decisions().at(-1), step: Infinity});
    const [first] = decisions(), node = nodes.get('node-b'), seen = [];
    const frames = {
      pods: names => [...names].map(name => ({...first, pod: name, uid: name})),
      taint: () => [{kind: 'nodes', nodes: {'node-b': {...node, taints: ['today:NoSchedule']}}}],
      policy: () => [{...known.policy}],
      run: () => [{kind: 'run', text: 'demo.yaml has changed'}]};
    const look = () => { if (seen.at(-1) !== view.at.pod) seen.push(view.at.pod); };
    for (const [what, names] of arguments[0]) {
      const before = known.entries.length;
      frames[what](names).forEach(frame => take({...frame, n: known.last + 1, at: 1e10}));
      arrived(known.entries.slice(before));
      look();
    }
    const chips = [...document.querySelectorAll('.chip.changed')].map(each => each.innerText);
    for (; view.timer; look()) {
      clearTimeout(view.timer);
      goOn();
    }
    return [seen.join(' '), ...chips];"""


@table("arrives, shown", {
    "pods that are created at once are played one after another": ([("pods", "abcde")], ["a b c d e"]),
    "a pod that is created while another one is played comes after it": ([("pods", "a"), ("pods", "b")], ["a b"]),
    "only the newest of many pods are played": ([("pods", "abcdefghijklmnopqrstuvwxyz")], [" ".join("ghijklmnopqrstuvwxyz")]),
    "a change of the cluster is shown at once, with the newest pod": ([("pods", "abcde"), ("taint", "")], ["a e", "today:NoSchedule"]),
    "a new Policy is shown at once": ([("pods", "abcde"), ("policy", "")], ["a e"]),
    "pods that are added to a file are played, too": ([("run", ""), ("pods", "ab")], ["default/warehouse a b"]),
    "pods after a change are played again": ([("pods", "abc"), ("taint", ""), ("pods", "de")], ["a c d e"])})
def test_live_pods_are_played_one_after_another(arrives, shown, browse):
    page = browse("--cluster", DEMO)
    assert page.execute_script(SHOW, arrives) == shown


@table("mode", {"while LIVE": "", "while the page asks for guesses": "guess", "by hand": "by hand"})
def test_the_first_pod_on_an_empty_page_begins_with_its_question(mode, browse):
    page = browse("--cluster", DEMO)
    found = with_motion(page, """
        const [first] = decisions();
        begin({id: 'x', nodes: Object.fromEntries(nodes), policy: known.policy, frames: []});
        connection.is = 'live';
        guess.on = arguments[0] === 'guess';
        Object.assign(view, {live: true, at: null, step: Infinity, byHand: arguments[0] === 'by hand'});
        arrived([], true);
        take({...first, n: 1});
        arrived(known.entries);
        halt();
        return [view.at.pod, view.step, document.querySelectorAll('.tile.best').length];""", mode)
    assert found == ["default/web-1", 0, 0]


def test_a_page_opens_at_the_end_of_the_newest_decision(browse):
    page = browse("--cluster", DEMO)
    assert page.execute_script("""
        connection.is = 'live';
        Object.assign(view, {live: true, at: null, step: Infinity});
        arrived(known.entries.slice(-1), true);
        return [view.at.pod, view.done];""") == ["default/warehouse", True]


@table("motion, widths", {"with motion": ("no-preference", [0, 1]), "with reduced motion": ("reduce", [])})
def test_the_points_grow_when_they_come_up(motion, widths, browse):
    page = browse("--cluster", DEMO, address="#pod=default/web-1")
    seen = with_motion(page, """
        view.step = 2;
        move(1);
        const race = document.querySelector('.race');
        const whole = race.offsetWidth;
        return race.getAnimations().flatMap(each => [0, .999].map(part => {
          each.pause();
          each.currentTime = part * each.effect.getTiming().duration;
          return Math.round(race.getBoundingClientRect().width / whole);
        }));""", motion=motion)
    assert seen == widths


def test_the_numbers_fade_in_when_the_points_have_grown(browse):
    page = browse("--cluster", DEMO, address="#pod=default/web-1")
    seen = with_motion(page, """
        view.step = 2;
        move(1);
        return [0, .5, 1].map(part => {
          document.getAnimations().forEach(each => { each.pause(); each.currentTime = part * .999 * each.effect.getTiming().duration; });
          const [total, points] = ['.tile .total', '.race i:not(.cut)'].map(each => getComputedStyle(document.querySelector(each)));
          return [Math.round(total.opacity), points.color];
        });""")
    assert [total for total, _ in seen] == [0, 0, 1]
    assert [points for _, points in seen][:2] == ["rgba(0, 0, 0, 0)"] * 2 and seen[2][1] != "rgba(0, 0, 0, 0)"


COUNT_IS_BESIDE = """
    const tile = document.querySelector(`[data-node=${arguments[0]}]`), count = tile.querySelector('.rest');
    const [outer, inner, before] = [tile, count, count.previousSibling].map(each => each.getBoundingClientRect());
    return inner.height > 0 && inner.bottom <= outer.bottom && inner.right <= outer.right && before.bottom > inner.top;"""


@table("count, keys", {f"{count} nodes{', in large letters' if keys else ''}": (count, keys) for count in (3, 5, 9, 12) for keys in ([], ["b"])})
def test_pods_and_labels_without_room_are_counted(count, keys, browse, files):
    page = browse("--cluster", files / f"busy-{count}.json")
    press(page, *keys)
    assert page.execute_script(COUNT_IS_BESIDE, "busy-0")
    assert named_and_counted(page) == 21


def named_and_counted(page):
    """Return how many pods of the node busy-0 its tile names or counts."""
    named, count = page.execute_script("""
        const tile = document.querySelector('[data-node=busy-0]');
        return [tile.querySelectorAll('.chip.pod').length, tile.querySelector('.rest').innerText];""")
    assert re.fullmatch(r"\+?\d+( pods)?", count)
    return named + int(count.split()[0])


@table("count, keys, form", {
    "with their keys where there is room": (3, [], "zone=eu-west-1[abc]"),
    "without their keys and the prefix that they share": (24, [], "…1[abc]"),
    "so in large letters, too": (12, ["b"], "…1[abc]")})
def test_labels_that_a_pod_asks_for_read_alike_on_all_tiles(count, keys, form, browse, files):
    page = browse("--cluster", files / f"zones-{count}.json", "--policy=DefaultProvider", address="#pod=default/prefers-west-1c")
    press(page, *keys)
    texts = page.execute_script("return [...document.querySelectorAll('.chip.asked')].map(each => each.innerText)")
    assert len(texts) > 2 and all(re.fullmatch(form, each) for each in texts)


@table("keys", {"on a projector": [], "in large letters": ["b"]})
@pytest.mark.parametrize("pod", ["web-2", "huge"])
def test_equal_reasons_break_in_the_same_places(pod, keys, browse, files):
    page = browse("--cluster", files / "zones-24.json", "--policy=DefaultProvider", address=f"#pod=default/{pod}")
    press(page, *keys)
    shapes = page.execute_script("return [...document.querySelectorAll('.why')].map(each => [each.innerText, each.offsetHeight, [...each.children].map(word => word.offsetLeft)])")
    assert len({text for text, *_ in shapes}) == len({str(shape) for shape in shapes})


@table("name", {"a short name": "web", "a name of middle length": "prefers-west-1c", "a long name": "frontend-of-the-shop-for-customers-in-the-west"})
def test_the_headline_has_the_largest_letters_with_which_it_fits(name, browse, tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [node("worker-014"), pod(name)]}))
    page = browse("--cluster", tmp_path / "cluster.json", address=f"#pod=default/{name}")
    press(page, "b")
    size, is_cut, is_cut_if_larger = page.execute_script("""
        const heading = document.querySelector('h1'), isCutNow = () => [...heading.children].some(each => isCut(each));
        const size = inRem(parseFloat(getComputedStyle(heading).fontSize)), before = isCutNow();
        heading.style.setProperty('--size', `${size + .1}rem`);
        return [size, before, isCutNow()];""")
    assert size == 1.5 or (is_cut_if_larger and (not is_cut or size == 1.05))


def test_one_line_stands_for_an_edit_of_several_rules(browse):
    page = browse("--cluster", DEMO)
    page.execute_script("""
        ['- NodeAffinityPriority ×2', '+ NodeAffinityPriority ×20', '+ ImageLocalityPriority ×1'].forEach((rule, i) =>
            take({kind: 'note', n: known.last + 1, at: 1e9 + i / 100, problem: false, text: `policy.json: ${rule}`}));
        take({kind: 'note', n: known.last + 1, at: 2e9, problem: false, text: 'policy.json: + NoDiskConflict'});
        show('timeline');""")
    lines = [each.text for each in page.find_elements(By.CSS_SELECTOR, ".timeline .note span")]
    assert lines == ["policy.json: + NoDiskConflict", "policy.json: + ImageLocality ×1, NodeAffinity ×2 → ×20"]


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


@table("step, left", {"at the question": (0, 60), "after the first predicate": (1, 50), "after two": (2, 40)})
def test_while_predicates_filter_the_tiles_beside_squares_are_of_nodes_that_are_left(step, left, browse, files):
    page = browse("--cluster", files / "mixed.json", address="#pod=default/p")
    page.execute_script("go(decisions()[0], arguments[0])", step)
    assert text_of(page, ".legend").startswith(f"{left} left")
    assert page.execute_script("return [...document.querySelectorAll('.heat .tile')].map(each => each.className)") == ["tile open"] * 2


@table("cluster", {"three zones": "300.json", "1000 nodes": "1000.json"})
def test_squares_use_the_height_that_there_is(cluster, browse, files):
    page = browse("--cluster", files / cluster, address="#pod=default/p")
    left, line = page.execute_script("""
        const bottoms = [...document.querySelectorAll('.square[data-node]')].map(each => each.getBoundingClientRect().bottom);
        return [document.querySelector('.map').getBoundingClientRect().bottom - Math.max(...bottoms), document.querySelector('.square[data-node]').offsetHeight];""")
    assert 0 <= left < line


def test_on_a_telephone_zones_of_one_size_have_one_shape(browse, files):
    page = browse("--cluster", files / "300.json", address="#pod=default/p")
    show_on(page, *SCREENS["a telephone"])
    try:
        page.execute_script("render()")
        assert page.execute_script("return new Set([...document.querySelectorAll('.squares')].map(each => each.offsetHeight)).size") == 1
    finally:
        show_on(page, *SCREENS["a projector"])


def test_of_many_nodes_the_matrix_counts_those_that_it_leaves_out(browse, files):
    page = browse("--cluster", files / "300.json", address="#pod=default/p")
    press(page, "m")
    assert page.find_element(By.CSS_SELECTOR, ".matrix .gap").text == "⋮ 68 other nodes that fit"
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


@table("count", {"12 nodes": 12, "24 nodes": 24})
def test_each_node_that_fits_names_a_pod_or_counts_its_pods(count, browse, files):
    page = browse("--cluster", files / f"zones-{count}.json", "--policy=DefaultProvider", address="#pod=default/prefers-west-1c")
    press(page, "b")
    missing = page.execute_script("""
        return [...document.querySelectorAll('.tile.fits:not(:has(.mark))')].filter(tile =>
            nodes.get(tile.dataset.node).pods.length && !/pod/.test(tile.querySelector('.rest')?.innerText) && !tile.querySelector('.chip.pod')).length;""")
    assert missing == 0


def test_the_footer_tells_nothing_about_later_decisions(browse, tmp_path):
    later = pod("q", {"cpu": "99"}), pod("r", {"cpu": "99"}), pod("s", nodeSelector={"disk": "ssd"})
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("n"), pod("p"), *later]}))
    page = browse("--cluster", tmp_path / "cluster.json", address="#pod=default/p")
    assert "most often" not in text_of(page, "footer")
    press(page, Keys.END)
    assert "most often: Insufficient cpu" in text_of(page, "footer")


def test_pods_that_the_page_does_not_know_by_name_are_counted(browse, files):
    page = browse("--cluster", files / "busy-9.json")
    page.execute_script("nodes.get('busy-0').used.pods += 100; render()")
    assert named_and_counted(page) == 121


@table("height", {"on a projector": 720, "with very small tiles": 400})
def test_a_new_taint_is_highlighted_even_if_labels_do_not_fit(height, browse):
    page = browse("--cluster", DEMO)
    show_on(page, 1280, height, "light")
    page.execute_script("""
        connection.is = 'live';
        Object.assign(view, {live: true, at: decisions().at(-1), step: Infinity});
        render();
        const record = nodes.get('node-b'), labels = {...record.labels};
        for (let i = 0; i < 90; i++) labels[`number-${i}-of-many`] = 'x'.repeat(20);
        take({kind: 'nodes', n: known.last + 1, at: view.at.at - 9, nodes: {'node-b': {...record, labels}}});
        view.at = {...view.at, n: known.last};
        take({kind: 'nodes', n: known.last + 1, at: Date.now() / 1000, nodes: {'node-b': {...record, labels, taints: ['today:NoSchedule']}}});
        known.entries.push(view.at);
        render();""")
    chips = page.execute_script("return [...document.querySelectorAll('[data-node=node-b] .chip')].map(each => [each.innerText, each.className])")
    is_beside = page.execute_script(COUNT_IS_BESIDE, "node-b")
    show_on(page, *SCREENS["a projector"])
    assert [text for text, kind in chips if "changed" in kind] == ["today:NoSchedule"]
    assert is_beside


NEW_TAINT = """
    connection.is = 'live';
    Object.assign(view, {live: true, at: decisions().at(-1), step: Infinity});
    render();
    const winner = view.at.node;
    const record = {...nodes.get(winner), taints: ['today:NoSchedule']};
    take({kind: 'nodes', n: known.last + 1, at: Date.now() / 1000, nodes: {[winner]: record}});
    render();
    const tile = document.querySelector(`[data-node="${winner}"]`), bottom = tile.getBoundingClientRect().bottom;
    return [...tile.querySelectorAll('.chip.mark, .chip.new')].map(each => {
      const box = each.getBoundingClientRect();
      return [each.innerText, box.height > 0 && box.bottom <= bottom];
    });"""


@table("file, keys, shown", {
    "12 nodes, beside its pod": ("workers-12.json", [], ["+ q", "today"]),
    "12 nodes in large letters, beside its pod": ("workers-12.json", ["b"], ["+ q", "today"]),
    "24 nodes": ("workers-24.json", [], ["+ q", "today"]), "24 nodes in large letters": ("workers-24.json", ["b"], ["+ q", "today"])})
def test_the_winner_shows_a_new_taint(file, keys, shown, browse, files):
    page = browse("--cluster", files / file)
    press(page, *keys)
    chips = page.execute_script(NEW_TAINT)
    assert [text.partition(":")[0] for text, _ in chips] == shown and all(is_visible for _, is_visible in chips)


@table("count, keys", {f"{count} nodes{', in large letters' if keys else ''}": (count, keys) for count in (5, 12, 24) for keys in ([], ["b"])})
def test_the_winner_keeps_its_bars(count, keys, browse, files):
    """Its pod is named on top, too."""
    page = browse("--cluster", files / f"workers-{count}.json", address="#pod=default/p")
    press(page, *keys)
    for _ in "pq":
        assert page.execute_script("return [...document.querySelectorAll('.tile.best .bar')].filter(each => each.offsetHeight).length") == 2
        press(page, Keys.ARROW_DOWN)


@table("keys", {"on a projector": [], "in large letters": ["b"]})
def test_a_tile_with_room_shows_each_resource_that_a_pod_lacks(keys, browse, files):
    page = browse("--cluster", files / "draining-12.json", address="#pod=default/large")
    press(page, *keys)
    assert page.execute_script("return [...document.querySelectorAll('.bar.blamed')].filter(each => each.offsetHeight).length") == 24


def test_a_winner_with_room_shows_a_taint_in_two_lines(browse, files):
    page = browse("--cluster", files / "draining-12.json", address="#pod=default/p")
    assert text_of(page, ".tile.best .mark:not(h3 *)") == "drain-soon:Prefer…"
    assert page.execute_script("const chip = document.querySelector('.tile.best .chip.mark'); return chip.scrollWidth <= chip.clientWidth")


@table("pod, keys", {"on a projector": ("p", []), "in large letters": ("p", ["b"]), "of a node that falls": ("large", [])})
def test_other_chips_are_only_counted_beside_one(pod, keys, browse, files):
    page = browse("--cluster", files / "draining-12.json", address=f"#pod=default/{pod}")
    press(page, *keys)
    rows = page.execute_script("return [...document.querySelectorAll('.tile .rest')].map(each => each.previousSibling.offsetTop + each.previousSibling.offsetHeight > each.offsetTop)")
    assert all(rows)


def test_nodes_that_tie_with_the_winner_have_a_frame(browse, files):
    page = browse("--cluster", files / "tied.json", address="#pod=default/p")
    assert page.execute_script("return document.querySelectorAll('.tile.tied').length") == 2
    press(page, Keys.ARROW_LEFT)
    assert page.execute_script("return document.querySelectorAll('.tile.tied').length") == 0, "not before the answer"


def test_at_the_question_no_predicate_has_passed(browse):
    page = browse("--cluster", DEMO, address="#pod=default/web-1")
    count = "return document.querySelectorAll('.rules .passes').length"
    assert page.execute_script(count) > 0
    page.execute_script("view.step = 0; render()")
    assert page.execute_script(count) == 0


def test_a_rule_that_the_policy_does_not_name_is_listed_once_it_refuses_a_node(browse, files):
    page = browse("--cluster", files / "reserved.json", address="#pod=default/p")
    page.execute_script("view.step = 1; render()")
    assert text_of(page, ".rules .now") == "room for nominated pods −1"


@table("node, shown", {
    "the node that keeps room": ("a", ["cpu: 0 in use, 4 reserved for vip, 4 in all", True, ["reserved", "over"]]),
    "another node": ("b", ["cpu: 0 in use, 1 in all", False, []])})
def test_room_for_nominated_pods_is_hatched(node, shown, browse, files):
    page = browse("--cluster", files / "reserved.json", address="#pod=default/p")
    assert page.execute_script("""
        const bar = document.querySelector(`[data-node=${arguments[0]}] .bar`);
        return [bar.title, bar.matches('.blamed'), [...bar.querySelectorAll('.reserved, .over')].filter(each => each.offsetWidth > 9).map(each => each.className)];""", node) == shown


def test_the_square_of_the_winner_has_a_frame_of_the_colour_of_its_tile(browse, files):
    page = browse("--cluster", files / "300.json", address="#pod=default/p")
    square, tile = page.execute_script("""
        return [getComputedStyle(document.querySelector('.map .best')).outlineColor, getComputedStyle(document.querySelector('.tile.best')).borderTopColor];""")
    assert square == tile


def test_the_bars_below_a_name_of_two_lines_have_the_same_width(browse):
    page = browse("--cluster", DEMO, address="#pod=default/ingress-1")
    page.execute_script("switchOff('PodToleratesNodeTaints')")
    press(page, "b")
    widths = page.execute_script("return [...document.querySelectorAll('.tile.best .wraps ~ .bars .track')].map(each => each.offsetWidth)")
    assert len(widths) == 2 and len({*widths}) == 1


@table("keys", {"on a projector": [], "in large letters": ["b"]})
@pytest.mark.parametrize("has_changed", [False, True])
def test_the_line_on_top_adds_up(has_changed, keys, browse):
    """What has no room is added up; below a line about a change, there is one line."""
    page = browse("--cluster", DEMO, address="#pod=default/web-1")
    press(page, *keys)
    words, is_whole = page.execute_script("""
        const [decision] = decisions(), lead = (title, points) => ({title, weight: 1, raw: null, reduced: false, points});
        decision.votes.push(lead('NodeAffinityPriority', [0, 60]), lead('SelectorSpreadPriority', [0, 50]), lead('InterPodAffinityPriority', [40, 0]),
                            lead('ImageLocalityPriority', [30, 0]));
        known.entries.splice(known.entries.indexOf(decision) + 1);
        Object.assign(view, {live: true, at: decision});
        if (arguments[0]) take({kind: 'nodes', n: known.last + 1, at: 1, nodes: {'node-b': {...nodes.get('node-b'), taints: ['today:NoSchedule']}}});
        render();
        const line = document.querySelector('.leads');
        return [line.innerText, line.scrollHeight <= line.clientHeight + 1];""", has_changed)
    ahead, *leads = [int(each.replace("−", "-")) for each in re.findall(r"(?:by |[+])(\d+)|(−\d+)", words) for each in each if each]
    assert is_whole and ahead == sum(leads) and len(leads) > 1 and ("more: " in words or not has_changed)


def test_small_bars_show_each_resource_that_a_pod_lacks(browse):
    page = browse("--cluster", DEMO, address="#pod=default/training")
    assert page.execute_script("""
        const bars = document.querySelector('[data-node=node-a] .bars');
        bars.classList.add('half');
        return [...bars.children].filter(each => each.offsetHeight).map(each => each.innerText);""") == ["cpu", "mem", "gpu"]


@table("pod", {"that one node fits": "training", "that no node fits": "warehouse"})
def test_a_node_that_lacks_several_resources_keeps_amounts_rather_than_labels(pod, browse):
    page = browse("--cluster", DEMO, address=f"#pod=default/{pod}")
    assert page.execute_script("return [...document.querySelectorAll('[data-node=node-a] .amounts')].every(each => each.offsetHeight)")


@table("keys", {"on a projector": [], "in large letters": ["b"]})
def test_a_taint_to_blame_has_its_whole_words(keys, browse, files):
    page = browse("--cluster", files / "zones-12.json", "--policy=DefaultProvider", address="#pod=default/web-2")
    press(page, *keys)
    assert page.execute_script("""return [...document.querySelectorAll('.why.blamed')].map(
        each => [each.innerText, each.scrollWidth <= each.clientWidth]).filter(([text]) => text.includes('memory'));""") == [
            ["taint memory-pressure", True]]


def test_a_winner_gives_up_labels_before_amounts(browse, files):
    page = browse("--cluster", files / "zones-12.json", "--policy=DefaultProvider", address="#pod=default/web-1")
    press(page, "b")
    assert page.execute_script("return document.querySelector('.tile.best .amounts').offsetHeight") > 0


def test_points_are_shown_if_they_have_room(browse, files):
    page = browse("--cluster", files / "workers-24.json", address="#pod=default/p")
    press(page, "b")
    margins = page.execute_script("""
        const [decision] = decisions(), margins = [];
        for (let points = 100; points < 400; points += 3) {
          decision.votes = [100, 10 + points].map((each, i) => ({title: `P${i}`, weight: 1, raw: null, reduced: false, points: decision.fit.map((_, j) => each - (j % 2))}));
          render();
          for (const part of document.querySelectorAll('.race i')) {
            const text = new Range();
            text.selectNodeContents(part);
            if (part.textContent) margins.push(part.getBoundingClientRect().width - text.getBoundingClientRect().width);
          }
        }
        return margins;""")
    assert len(margins) > 100 and min(margins) >= 1


@table("address", {"at the first decision": "", "at a later one": "#pod=default/q"})
def test_colours_do_not_depend_on_where_somebody_opens_the_page(address, browse, files):
    page = browse("--cluster", files / "mixed.json", address=address)
    places = page.execute_script("return decisions().map(each => Object.fromEntries(each.against.map((_, group) => [kindOf(each, group), coloursOf(each).get(group)])))")
    assert all(places[0][kind] == place for kind, place in places[1].items()) and len({*places[0].values()}) == 5
    assert page.execute_script("return [...colourOfKind.keys()]")[:2] == ["cordoned", "disk is not ssd"]


@table("keys", {"on a projector": [], "in large letters": ["b"]})
@pytest.mark.parametrize("pod", ["web-2", "huge"])
def test_each_of_24_nodes_shows_its_whole_reason(pod, keys, browse, files):
    page = browse("--cluster", files / "zones-24.json", "--policy=DefaultProvider", address=f"#pod=default/{pod}")
    press(page, *keys)
    words, bars = page.execute_script("""return [[...document.querySelectorAll('.tile.out .why')].map(each => each.innerText.replaceAll('\\u00a0', ' ')),
        [...document.querySelectorAll('.bar.blamed')].filter(each => each.offsetHeight).length];""")
    start, end = {"web-2": ("1 in zone …1", ", maxSkew 1"), "huge": ("cpu 15.5 > ", " free")}[pod]
    about = [each for each in words if not each.startswith("taint")]
    assert len(about) > 5 and all(each.startswith(start) and each.endswith(end) for each in about)
    assert bars == (sum(each.count(">") for each in about) if pod == "huge" else 0)


@table("file, pod, keys, other", {
    "beside the label that its pod asks for": ("zones-24", "web-1", [], None),
    "in large letters, beside the label that its pod asks for": ("zones-24", "web-1", ["b"], None),
    "beside the label that its pod prefers": ("zones-24", "prefers-west-1c", [], None),
    "in large letters, rather than the label that its pod prefers": ("zones-24", "prefers-west-1c", ["b"], ""),
    "of 12 nodes, beside the label that its pod prefers": ("zones-12", "prefers-west-1c", ["b"], None),
    "rather than a taint": ("zones-24", "batch-job", [], ""),
    "in large letters, rather than a taint": ("zones-24", "batch-job", ["b"], "")})
def test_the_winner_names_its_pod(file, pod, keys, other, browse, files):
    page = browse("--cluster", files / f"{file}.json", "--policy=DefaultProvider", address=f"#pod=default/{pod}")
    press(page, *keys)
    shown = page.execute_script("""
        const tile = document.querySelector('.tile.best'), {bottom, right} = tile.getBoundingClientRect();
        return [...tile.querySelectorAll('.new, .asked, .chip.mark')].map(each => [each, each.getBoundingClientRect()]).filter(
            ([, box]) => box.width > 25 && box.bottom <= bottom && box.right <= right).map(([each]) => each.innerText);""")
    assert shown[0] == f"+ {pod}" and re.fullmatch("…1[abc]|zone=eu-west-1[abc]" if other is None else other, "".join(shown[1:]))


@table("pod, keys", {f"{pod}{', in large letters' if keys else ''}": (pod, keys)
                     for pod in ("web-1", "prefers-west-1c", "batch-job") for keys in ([], ["b"])})
def test_each_node_that_fits_has_bars_to_compare(pod, keys, browse, files):
    """A node with taints or labels, too."""
    page = browse("--cluster", files / "zones-24.json", "--policy=DefaultProvider", address=f"#pod=default/{pod}")
    press(page, *keys)
    bars = page.execute_script("return [...document.querySelectorAll('.tile:not(.out)')].map(tile => [...tile.querySelectorAll('.track')].map(each => each.getBoundingClientRect().height))")
    assert len(bars) > 9 and len({tuple(each) for each in bars}) == 1 and len(bars[0]) == 2 and min(bars[0]) >= 5


def test_a_node_with_a_taint_shows_the_label_that_a_pod_prefers_beside_it(browse, files):
    page = browse("--cluster", files / "zones-24.json", "--policy=DefaultProvider", address="#pod=default/prefers-west-1c")
    assert page.execute_script("return [...document.querySelectorAll('[data-node=worker-003] .chip')].map(each => each.innerText)")[:2] == ["spot:Prefer…", "…1a"]


@table("pod", {"of a pod that spreads": "web-2", "of a pod that is too large": "huge"})
def test_all_reasons_have_letters_of_the_same_size(pod, browse, files):
    page = browse("--cluster", files / "zones-24.json", "--policy=DefaultProvider", address=f"#pod=default/{pod}")
    press(page, "b")
    [size] = page.execute_script("return [...new Set([...document.querySelectorAll('.why')].map(each => parseFloat(getComputedStyle(each).fontSize)))]")
    assert size > 18.5, "larger than without large letters"


@table("cluster, keys", {
    "5 nodes": ("demo.yaml", []), "12 nodes": ("marked-12.json", []), "12 nodes in large letters": ("marked-12.json", ["b"]),
    "24 nodes": ("marked-24.json", []), "24 nodes in large letters": ("marked-24.json", ["b"])})
def test_a_reason_is_framed_instead_of_a_chip_that_says_the_same(cluster, keys, browse, files):
    page = browse("--cluster", DEMO if cluster == DEMO.name else files / cluster)
    page.execute_script("go(decisions()[0])")
    press(page, *keys)
    reasons = "return [...document.querySelectorAll('.why')].filter(each => /^taint|cordoned/.test(each.innerText)).map(each => each.matches('.blamed'))"
    assert {*page.execute_script(reasons)} == {True} and not page.find_elements(By.CSS_SELECTOR, ".chip.blamed.mark")


def test_a_taint_that_the_reason_does_not_name_keeps_its_chip(browse, tmp_path):
    taints = [{"key": key, "effect": "NoSchedule"} for key in ("gpu-old", "gpu")]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [*(node(f"n{i}", taints=taints) for i in range(12)), pod("p")]}))
    page = browse("--cluster", tmp_path / "cluster.json", address="#pod=default/p")
    assert tiles(page)["n0"].endswith("taint gpu-old gpu:NoSchedule")


@table("keys", {"on a projector": [], "in large letters": ["b"]})
def test_a_resource_and_its_amounts_share_a_line(keys, browse, files):
    page = browse("--cluster", files / "zones-12.json", "--policy=DefaultProvider", address="#pod=default/huge")
    press(page, *keys)
    words = page.execute_script("return [...document.querySelectorAll('.why span')].map(each => [each.innerText.replaceAll('\\u00a0', ' '), each.offsetHeight / parseFloat(getComputedStyle(each).lineHeight)])")
    lines = [height for text, height in words if text.startswith("cpu 15.5 > ")]
    assert len(lines) > 5 and max(lines) < 1.5


@table("keys", {"on a projector": [], "in large letters": ["b"]})
def test_each_of_24_nodes_shows_the_label_that_a_pod_prefers(keys, browse, files):
    page = browse("--cluster", files / "zones-24.json", "--policy=DefaultProvider", address="#pod=default/prefers-west-1c")
    press(page, *keys)
    shown = page.execute_script("return [...document.querySelectorAll('.tile.fits:not(:has(.chip.mark))')].map(each => each.querySelector('.asked')?.innerText)")
    assert len(shown) > 9 and all(re.search("1[abc]$", each) for each in shown)


def test_squares_stay_where_they_are_in_large_letters(browse, files):
    page = browse("--cluster", files / "300.json", address="#pod=default/p")
    places = "return [...document.querySelectorAll('.map .square, .heat .tile')].map(each => [each.offsetLeft, each.offsetTop, each.offsetWidth])"
    before = page.execute_script(places)
    press(page, "b")
    assert page.execute_script(places) == before


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


@table("selector, reason, chips", {
    "one that the tile leaves out": ({"kubernetes.io/arch": "arm64"}, [], []),
    "one that the node lacks, as the reason says": ({"disk": "ssd"}, ["no disk"], []),
    "one of two that the node lacks": ({"disk": "ssd", "cpu": "fast"}, [], ["no cpu", "no disk"])})
def test_a_label_is_said_to_be_absent_once_if_the_node_lacks_it(selector, reason, chips, browse, tmp_path):
    things = [node("a", labels={"kubernetes.io/arch": "amd64"}), pod("p", nodeSelector=selector)]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": things}))
    page = browse("--cluster", tmp_path / "cluster.json", address="#pod=default/p")
    assert [each.text for each in page.find_elements(By.CSS_SELECTOR, ".why.blamed")] == reason
    assert sorted(each.text for each in page.find_elements(By.CSS_SELECTOR, ".chip.label")) == chips


def test_victims_are_framed_while_the_pod_waits_for_them(browse):
    page = browse("--cluster", EXAMPLES / "preemption.yaml", "--preempt")
    page.execute_script("""
        const {n} = decisions()[0];
        take({kind: 'outcome', n: known.last + 1, of: n, line: '', waits: '', remedy: 'It waits until they have gone.', victims: [], notes: []});
        go(decisions()[0]);""")
    assert "It waits until" in text_of(page, ".because") and "victim: cleanup victim: backup" in tiles(page)["right"]


@table("name, shown", {
    "a pod of a Deployment, without the hash of its ReplicaSet": ("shop-vwv9rjjpbb-9t9xd", "shop…9t9xd"),
    "another pod": ("web-1-of-two", "web-1-of-two")})
def test_the_name_of_a_pod_is_shortened_on_its_tile(name, shown, browse, tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [node("a"), pod(name)]}))
    page = browse("--cluster", tmp_path / "cluster.json", address=f"#pod=default/{name}")
    assert text_of(page, ".chip.new") == f"+ {shown}" and text_of(page, ".asked-about") == f"{shown} placed"
    assert text_of(page, "h1") == f"Where does {name} go? To a"


def test_a_pod_flies_to_its_tile(browse):
    page = browse("--cluster", DEMO, address="#pod=default/web-1")
    seen = with_motion(page, """
        view.step = 3;
        move(1);
        document.getAnimations().forEach(each => { each.pause(); each.currentTime = 0; });
        const {x, y, width, height} = document.querySelector('.flying').getBoundingClientRect();
        const queue = document.querySelector('.asked-about').getBoundingClientRect();
        const found = [document.elementFromPoint(x + width / 2, y + height / 2).className, x < queue.right];
        const asks = document.querySelector('.asks').getBoundingClientRect();
        for (let part = 0; part < 1; part += .05) {
          document.getAnimations().forEach(each => { each.currentTime = part * each.effect.getTiming().duration; });
          const copy = document.querySelector('.flying').getBoundingClientRect();
          found[2] ||= copy.left < asks.right && copy.bottom > asks.top;
        }
        document.getAnimations().forEach(each => each.finish());
        return found;""")
    assert seen == ["chip pod new flying", True, False]
    wait_for("the pod has arrived", lambda: not page.find_elements(By.CSS_SELECTOR, ".flying"))


def edit(path, before, after):
    """Edit a file."""
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


def test_the_page_is_live(chromium, tmp_path, start_scheduler):
    """Edits of the files show up, and the status is LIVE, PAUSED, LOST, and LIVE again."""
    for path in (DEMO, ROOT / "policy.json"):
        (tmp_path / path.name).write_text(path.read_text())
    port = free_port()
    options = ["--cluster", tmp_path / "demo.yaml", "--policy", tmp_path / "policy.json", "--listen", port]
    running = start_scheduler(*options)
    wait_for("the page is served", lambda: f"serving http://127.0.0.1:{port}/" in running.err)
    chromium.get(f"http://127.0.0.1:{port}/#")

    def becomes(selector, text):
        """Wait until the page shows this."""
        wait_for(text, lambda: text in chromium.execute_script("return document.querySelector(arguments[0])?.innerText.replace('\\n', ' ') || ''", selector))

    becomes("h1", "Where does warehouse go? Nowhere yet")
    edit(tmp_path / "demo.yaml", "metadata: {name: node-b,", "spec: {unschedulable: true}\nmetadata: {name: node-b,")
    becomes("h1", "Where does web-1 go? To node-a")
    becomes("footer", "node-b: cordoned")
    edit(tmp_path / "policy.json", "PodFitsResources", "PodFits")
    becomes(".problem", 'unknown predicate "PodFits"')
    becomes("#status", "● LIVE")
    chromium.execute_script("""
        known.policy = structuredClone(known.policy);
        known.policy.by['my-scheduler'].predicates.push('Added');
        view.at = decisions().at(-1);
        render();""")
    becomes(".rules .edited b", "new")
    press(chromium, Keys.ARROW_UP)
    becomes("#status", "PAUSED")
    press(chromium, Keys.END)
    becomes("#status", "● LIVE")
    edit(tmp_path / "policy.json", '"PodFits"', '"PodFitsResources"')
    wait_for("the problem is over", lambda: not chromium.find_elements(By.CSS_SELECTOR, ".problem"))
    running.kill()
    running.wait()
    becomes("#status", "LOST")
    start_scheduler(*options)
    becomes("#status", "● LIVE")
    press(chromium, "t")
    becomes(".timeline ol", "the scheduler restarted at ")
    chromium.get("about:blank")


def test_a_link_to_a_live_page_opens_its_decision(chromium, start_scheduler):
    port = free_port()
    running = start_scheduler("--cluster", DEMO, "--listen", port)
    wait_for("the page is served", lambda: f"serving http://127.0.0.1:{port}/" in running.err)
    wait_for("the last pod is decided about", lambda: "default/warehouse stays pending" in running.out)
    chromium.get("about:blank")
    chromium.get(f"http://127.0.0.1:{port}/#pod=default/ingress-1")
    for _ in range(2):
        wait_for("a decision", lambda: "ingress-1" in chromium.execute_script("return document.querySelector('h1')?.innerText || ''"))
        assert "PAUSED" in text_of(chromium, "#status")
        chromium.refresh()
    chromium.get(f"http://127.0.0.1:{port}/#pod=default/nowhere")
    chromium.refresh()
    wait_for("the newest decision", lambda: "warehouse" in chromium.execute_script("return document.querySelector('h1')?.innerText || ''"))
    assert text_of(chromium, "#status") == "● LIVE"
    chromium.get("about:blank")
