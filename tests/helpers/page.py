"""A browser for the tests of the page, what they ask of it, and the clusters that it shows."""

import json
import os
import shutil

import pytest
from selenium import webdriver

from helpers.extras import ROOT, node, pod, run_scheduler


DEMO = ROOT / "tests" / "demo.yaml"
EXAMPLES = ROOT / "scheduler_extras" / "examples"
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--window-size=1280,720"]
SCREENS = {"a projector": (1280, 720, "light"), "in the dark": (1280, 720, "dark"), "a telephone": (390, 844, "light")}


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """A browser for all tests of the page. Without one, they are skipped, except in CI."""
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


@pytest.fixture(scope="session")
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
    errors = [entry["message"] for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"]
    assert errors == []


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A folder with large clusters, many rules, and long names."""
    folder = tmp_path_factory.mktemp("files")
    for name, objects in CLUSTERS.items():
        (folder / name).write_text(json.dumps({"kind": "List", "items": objects}))
    (folder / "rules.py").write_text(RULES)
    (folder / "rules.json").write_text(json.dumps(NAMED, indent=1))
    return folder


def show_on(browser, width, height, colours):
    """Emulate a screen of this size and colour scheme."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 800})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
        {"name": "prefers-color-scheme", "value": colours}, {"name": "prefers-reduced-motion", "value": "reduce"}]})


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


def paths(options, folder):
    """Options, with the paths of the files of a folder for their names."""
    return [folder / each if (folder / str(each)).exists() else each for each in options]


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


def neighbors():
    """Two zones, pods in one of them, and pods that want to be near them, away from them, or spread."""
    def term(name, key="zone"):
        return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": name}}}

    def affinity(kind, *terms):
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [*terms]}}

    constraint = {**term("web"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    rather_not = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term("db")}]}}
    labels = {name: {"labels": {"app": name}} for name in ("web", "db")}
    return [
        *(node(f"n{i}", cpu="64", labels={"zone": f"eu-west-1{'ab'[i // 3]}", "kubernetes.io/hostname": f"n{i}"}) for i in range(6)),
        pod("web-1", metadata=labels["web"], nodeName="n0"), pod("db", metadata=labels["db"], nodeName="n1"),
        *(pod(f"idle-{i}", nodeName=f"n{i % 2}") for i in range(4)),
        pod("web-2", metadata=labels["web"], topologySpreadConstraints=[constraint]), pod("other"),
        pod("near", affinity=affinity("podAffinity", term("db"))), pod("rather-away", affinity=rather_not),
        pod("away", affinity=affinity("podAntiAffinity", term("web", "kubernetes.io/hostname"))),
        pod("apart", affinity=affinity("podAntiAffinity", term("web")))]


def gpus(count, **train):
    """Nodes with GPUs, one of which a pod with another priority uses, and a pod that needs two of them."""
    def needs(number):
        amounts = {"cpu": "1", "memory": "1Gi", "example.com/gpu": number}
        return [{"name": "main", "image": "nginx", "resources": {"requests": amounts, "limits": amounts}}]

    has_gpus = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "99", "example.com/gpu": "2"}}
    classes = [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
               for name, value in (("low", 10), ("middle", 1000), ("high", 5000))]
    return [*classes, *(node(f"gpu-{i}", status=has_gpus) for i in range(count)),
            *(pod(f"notebook-of-somebody{i or ''}", nodeName=f"gpu-{i}", containers=needs("1"), priorityClassName="high" if i else "low")
              for i in range(count)),
            pod("train", containers=needs("2"), **train)]


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
    "neighbors.json": neighbors(),
    "gpus-12.json": gpus(12), "victims-12.json": gpus(12, priorityClassName="middle"),
    "pools-12.json": [*(node(f"{pool}-{i}", cpu="64", memory="64Gi") for pool in ("general", "spot-pool") for i in range(6)), pod("p", {"cpu": "1"})],
    "tied.json": [*(node(name) for name in "abc"), pod("p")],
    "reserved.json": [node("a"), node("b", cpu="1"), pod("p", {"cpu": "1"}),
                      pod("vip", {"cpu": "4"}, status={"nominatedNodeName": "a"}, schedulingGates=[{"name": "later"}])],
    "mixed.json": [*(node(f"n{i}", **OBSTACLES[i % 6]) for i in range(60)), pod("p", {"cpu": "3"}, nodeSelector={"disk": "ssd"}),
                   pod("q", {"cpu": "3"}, tolerations=[{"key": "gpu", "operator": "Exists"}])],
    **{f"zones-{count}.json": zones(count) for count in (3, 9, 12, 24)},
    "long.json": [*(node(f"{LONG}-{i}", labels={f"{LONG}/{LONG}": LONG}) for i in "abc"),
                  *(pod(f"{LONG}-{i}", {"cpu": "3"}, nodeSelector={f"{LONG}/{LONG}": LONG}) for i in "abcd")]}
