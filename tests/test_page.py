"""--output html: the page of a run's decisions, as a real browser shows it."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from everything import scheduler
from conftest import ROOT, UNCHECKED, decide, node, pod, run_scheduler, table
from faulty import ApiServer
from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

DEMO = ROOT / "scheduler_extras" / "examples" / "demo.yaml"
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
    """The pod of the step that is shown, and what is said of it."""
    [pod], [said] = (browser.find_elements(By.CSS_SELECTOR, f"{STEP} > {kind}") for kind in ("h2", "h3"))
    return f"{pod.text.partition(' ')[0]} {said.text}"


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
    assert heading(page) == "default/web-1 Where will it go?" and place(page) == "1 of 24"
    assert "requests: {cpu: 500m,\n        memory: 512Mi}" in shown(page) and "cordoned" in box(page, "node-old")
    assert box(page, "node-a") == "node-a disk=ssd zone=east pods 1/110 cpu 2.5/4 memory 4/8Gi database"
    headings = [heading(page)]
    while place(page) != "24 of 24":
        press(page, Keys.ARROW_RIGHT)
        headings.append(heading(page))
    assert headings[9:13] == ["default/report Where will it go?", "default/report It goes to node-a",
                              "default/report Now it is on node-a", "default/training Where will it go?"]
    assert headings[-3:] == ["default/warehouse Where will it go?", "default/warehouse It stays pending",
                             "Summary Where the pods are now"]
    press(page, Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.SPACE)
    assert heading(page) == "default/warehouse It stays pending"
    press(page, Keys.HOME, Keys.ARROW_LEFT)
    assert place(page) == "1 of 24"
    press(page, Keys.END, Keys.PAGE_DOWN, Keys.PAGE_UP)
    assert place(page) == "23 of 24"


def test_buttons_do_what_keys_do(browse):
    page = browse("--cluster", DEMO)
    back, following = (page.find_element(By.ID, name) for name in ("back", "next"))
    following.click()
    assert heading(page) == "default/web-1 It goes to node-b"
    back.send_keys(Keys.SPACE)
    assert place(page) == "1 of 24", "a button that has the focus gets the space"


def test_the_answer_is_a_table_of_nodes_by_rules(browse):
    page = browse("--cluster", DEMO)
    press(page, *[Keys.ARROW_RIGHT] * 10)
    tables = [each for each in page.find_elements(By.CSS_SELECTOR, ".wide table") if each.is_displayed()]
    rows, failing = [[[cell.text.replace("\n", " ") for cell in row.find_elements(By.CSS_SELECTOR, "th, td")]
                      for row in each.find_elements(By.TAG_NAME, "tr")] for each in tables]
    assert [cell.replace(" ", "") for cell in rows[0]] == [
        "Node", "Total", "LeastRequestedPriority", "BalancedResourceAllocation", "NodeAffinityPriority",
        "TaintTolerationPriority"]
    assert rows[1:3] == [["* node-a", "419", "29×1", "90×1", "1→100×2", "0→100×1"],
                         ["node-b", "280", "88×1", "92×1", "0→0×2", "0→100×1"]]
    assert (len(rows), len(failing)) == (3, 4)
    assert failing[3] == ["✗ node-old", "CheckNodeUnschedulable: node(s) were unschedulable"]
    assert "node-a is 139 ahead of node-b: NodeAffinityPriority +200," in shown(page)
    assert [each.find_element(By.TAG_NAME, "caption").text for each in tables] == [
        "Nodes by rules: raw score → points × weight", "Nodes that do not fit"]
    for each in tables:
        assert {head.get_attribute("scope") for head in each.find_elements(By.TAG_NAME, "th")} == {"row", "col"}


def test_on_a_phone_why_a_node_does_not_fit_is_in_sight(browse):
    page = browse("--cluster", DEMO)
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True})
    press(page, *[Keys.ARROW_RIGHT] * 10)
    cells = [each for each in page.find_elements(By.CSS_SELECTOR, ".no td") if each.is_displayed()]
    assert len(cells) == 3 and all(each.rect["x"] + each.rect["width"] <= 390 for each in cells)


def test_the_first_question_says_by_which_rules(browse):
    page = browse("--cluster", DEMO)
    asked = [shown(page)]
    press(page, *[Keys.ARROW_RIGHT] * 3)
    asked.append(shown(page))
    assert ["my-scheduler asks CheckNodeUnschedulable; " in each and "; NodeAffinityPriority ×2" in each for each in asked] == [True, False]


@table("options, step", {"of few rules": ((), 1), "of all default ones": (("--policy", "DefaultProvider"), 1)})
def test_the_total_is_in_sight(options, step, browse):
    page = browse("--cluster", DEMO, *options)
    press(page, *[Keys.ARROW_RIGHT] * step)
    [total] = [each for each in page.find_elements(By.TAG_NAME, "th") if each.text == "Total" and each.is_displayed()]
    assert total.rect["x"] + total.rect["width"] < page.execute_script("return innerWidth")


def test_a_step_has_an_address(browse):
    page = browse("--cluster", DEMO)
    press(page, *[Keys.ARROW_RIGHT] * 4)
    page.refresh()
    assert page.current_url.endswith("#5") and page.find_element(By.ID, "where").text == "5 of 24"
    for address, step in {"#17": 17, "#nowhere": 1, "#2.5": 2, "#-1": 1, "#99": 24}.items():
        page.get(page.current_url.partition("#")[0] + address)  # which loads nothing
        assert page.find_element(By.ID, "where").text == f"{step} of 24", address


def test_ports_and_priorities_of_placed_pods_are_said(browse, tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [
        node("n"), pod("waits"), pod("grand", nodeName="n", priority=7, metadata={"uid": "1"}, containers=[
            {"name": "c", "ports": [{"hostPort": 80}, {"hostPort": 53, "protocol": "UDP"}]}])]}))
    page = browse("--cluster", tmp_path / "cluster.json")
    assert box(page, "n").endswith(" grand port 80 port 53 priority 7")


def test_a_pod_counts_on_its_node_from_its_third_step_on(browse):
    page = browse("--cluster", DEMO)
    press(page, *[Keys.ARROW_RIGHT] * 12)
    assert "gpu 0/2" in box(page, "node-gpu") and "training" not in box(page, "node-gpu")
    press(page, *[Keys.ARROW_RIGHT] * 2)
    assert "gpu 1/2 +training" in box(page, "node-gpu") and "cpu 4/16" in box(page, "node-gpu")
    press(page, Keys.ARROW_RIGHT)
    assert "gpu 1/2 +training" in box(page, "node-gpu")
    press(page, Keys.END)
    assert "warehouse ✗ 0/5 nodes are available" in shown(page) and "cache → node-a" in shown(page)
    assert box(page, "node-a").endswith(" +cache +report +ingress-2 port 80 database")


def test_a_pod_that_stays_pending_says_what_it_lacks(browse):
    page = browse("--cluster", DEMO)
    press(page, Keys.END, Keys.ARROW_LEFT)
    assert "✗ 2 nodes PodFitsResources: Insufficient cpu\nnode-b (requests cpu 12000m, free 7000m)" in shown(page)


def test_a_pod_for_which_others_go_shows_them_where_they_are(browse):
    page = browse("--cluster", DEMO.with_name("preemption.yaml"), "--preempt")
    press(page, Keys.ARROW_RIGHT)
    assert heading(page) == "default/payment It stays pending" and "It preempts default/backup, default/cleanup on right" in shown(page)
    press(page, Keys.ARROW_RIGHT)
    assert heading(page) == "default/payment These make room for it"
    assert box(page, "right").endswith("goes: backup priority 10 goes: cleanup report priority 100") and "goes" not in box(page, "left")
    press(page, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert heading(page) == "default/payment Now it is on right" and "goes" not in box(page, "right")


def test_without_scripts_all_scenes_stand_below_each_other(browse, tmp_path_factory):
    browser = start_chromium(tmp_path_factory.mktemp("chromium"), with_scripts=False)
    try:
        page = browse("--cluster", DEMO, browser=browser)
        text = shown(page)
        assert text.count("Where will it go?") == 8 and text.count("It goes to ") == 7
        assert text.index("It stays pending") < text.index("Where the pods are now")
        assert not page.find_element(By.TAG_NAME, "nav").is_displayed()
    finally:
        browser.quit()


def test_on_paper_all_scenes_are_there(browse):
    page = browse("--cluster", DEMO)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        text = page.find_element(By.TAG_NAME, "main").text
        assert text.count("Where will it go?") == 8 and not page.find_element(By.TAG_NAME, "nav").is_displayed()
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@table("width, height", {"a projector": (1280, 720), "a telephone": (390, 844)})
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_each_step_fits_the_width_of_the_screen_and_can_be_told_from_its_background(width, height, colours, browse):
    page = browse("--cluster", DEMO)
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 800})
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": colours}]})
    try:
        for _ in range(24):
            wide, high, size = page.execute_script(
                "return [document.documentElement.scrollWidth, document.documentElement.scrollHeight,"
                " parseFloat(getComputedStyle(document.documentElement).fontSize)]")
            assert wide <= width and size >= (20 if width > 1000 else 16)
            assert high <= height or width < 800, heading(page)
            press(page, Keys.ARROW_RIGHT)
        ink, paper = page.execute_script(
            "const style = getComputedStyle(document.documentElement); return [style.color, style.backgroundColor]")
        assert (sum(map(int, ink[4:-1].split(", "))) > sum(map(int, paper[4:-1].split(", ")))) == (colours == "dark")
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


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
    assert "and 985 other nodes" in shown(page) and "cpu 0/8" in box(page, "n777"), "the node that it goes to is there"
    press(page, Keys.ARROW_RIGHT)
    assert "✗ 999 nodes PodFitsResources: Insufficient cpu\nn0 (requests cpu 7000m, free 4000m)," in shown(page)
    assert "and 984 more" in shown(page)
    press(page, Keys.END)
    assert "(the first 100 decisions have scenes)" in shown(page) and "p119 → n" in shown(page)


def test_a_pod_that_is_explained_has_a_page_of_its_own(browse):
    page = browse("--cluster", DEMO, "--explain", "report")
    assert place(page) == "1 of 3"
    press(page, Keys.ARROW_RIGHT)
    assert "default/report is pending. When the run comes to it, behind 3 others, by policy.json" in shown(page)


def test_what_no_rule_looks_at_is_said_on_the_page(browse):
    page = browse("--cluster", ROOT / "scheduler_extras/examples/affinity.yaml")
    press(page, Keys.ARROW_RIGHT)
    assert "! default/web-1 has required pod anti-affinity, and MatchInterPodAffinity, which looks at that, is not" in shown(page)


def test_a_run_on_a_cluster_ends_with_its_page(browse):
    server = ApiServer(node("a"), pod("p", {"cpu": "1"}), pod("big", {"cpu": "9"}))
    try:
        page = browse("--server", server.url, "--once")
        assert server.places() == {"default/p": "a"}
    finally:
        server.stop()
    assert place(page) == "1 of 6" and "cpu 0/4" in box(page, "a")
    press(page, Keys.END)
    assert "p → a" in shown(page) and "cpu 1/4" in box(page, "a")


def test_a_page_without_a_decision_shows_the_cluster(browse, tmp_path):
    page = browse("--cluster", manifest(tmp_path, node("a")))
    assert heading(page) == "Summary Where the pods are now" and "cpu 0/4" in box(page, "a")


def test_it_is_the_same_page_if_the_pod_counts_on_its_node_before_it_is_told():
    policies = scheduler.load_policies(ROOT / "policy.json", "my-scheduler")
    decision = decide(policies, pod("p", {"cpu": "1"}), node("a"), pod("old", {"cpu": "2"}, nodeName="a"))
    before, after = scheduler.Page("policy.json"), scheduler.Page("policy.json")
    before(decision)
    decision.nodes["a"].add(decision.pod)
    after(decision)
    assert before.document(nodes=()) == after.document(nodes=()) and "2/4" in before.document(nodes=())


def test_a_comparison_is_no_page():
    run = run_scheduler("--cluster", DEMO, "--compare", "policy.json", "--output=html")
    assert run.returncode == 2 and "--compare needs --cluster, and goes without --explain, --fits and --output html" in run.stderr


def test_the_manifest_is_shown_as_people_write_it():
    thing = scheduler.FullPod(pod("p", {"cpu": "1"}, metadata={"uid": "x"}, tolerations=[{"key": "gpu"}], priority=0))
    assert scheduler.manifest_of(thing) == """\
kind: Pod
metadata: {name: p}
spec:
  schedulerName: my-scheduler
  tolerations:
  - {key: gpu}
  containers:
  - name: main
    image: nginx
    resources:
      requests: {cpu: '1'}
"""
