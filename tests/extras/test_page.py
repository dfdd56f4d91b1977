"""The page of --output html and of --listen in a real browser: its steps, its text, its safety. For its data, see test_journal.py."""

import base64
import json
import re
import time
from pathlib import Path

import pytest
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from helpers.control_plane import wait_for
from helpers.extras import UNCHECKED, node, pod, table
from helpers.page import (
    CLUSTERS,
    DEMO,
    EXAMPLES,
    SCREENS,
    kinds,
    paths,
    press,
    show_on,
    text_of,
    tiles,
    with_motion,
)


def test_the_arrow_key_steps_through_a_decision(browse):
    page = browse("--cluster", DEMO)
    steps = []
    for _ in range(7):
        steps.append((text_of(page, "h1"), text_of(page, ".because"), kinds(page)))
        press(page, Keys.ARROW_RIGHT)
    assert steps == [
        ("Where does web-1 go?", "5 nodes: which of them fit?", ["open"] * 5),
        ("Where does web-1 go?", "CheckNodeUnschedulable: 1 node out. cordoned", ["open", "open", "out", "open", "open"]),
        ("Where does web-1 go?", "PodToleratesNodeTaints: 2 nodes out. taint control-plane; taint gpu=true", ["out", "open", "out", "open", "out"]),
        ("Where does web-1 go?", "LeastRequestedPriority × 1: more left free … the same for all: fewer taints 100", ["out", "fits", "out", "fits", "out"]),
        ("Where does web-1 go?", "BalancedResourceAllocation × 1: balance. The highest total wins. … the same for all: fewer taints 100", ["out", "fits", "out", "fits", "out"]),
        ("Where does web-1 go? To node-b", "wins by 75 over node-a: more left free +60 · balance +15", ["out", "fits", "out", "best", "out"]),
        ("Where does web-2 go?", "5 nodes: which of them fit?", ["open"] * 5)]
    assert [*tiles(page)] == ["control-plane", "node-a", "node-old", "node-b", "node-gpu"], "always by zone, then by name"


@table("keys, where", {
    "the next decision": ([Keys.ARROW_DOWN], ("2 of 8", "To node-b")),
    "the next decision, and back": ([Keys.ARROW_DOWN, Keys.ARROW_UP], ("1 of 8", "To node-b")),
    "the newest": ([Keys.END], ("8 of 8", "Nowhere yet")),
    "the first decision, from its question on": ([Keys.END, Keys.HOME], ("1 of 8", "go?")),
    "a step back from a question leads to the previous decision": ([Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_LEFT], ("2 of 8", "To node-b")),
    "the key of a presenter": ([Keys.PAGE_DOWN] * 5, ("1 of 8", "To node-b")),
    "the space bar": ([Keys.SPACE] * 5, ("1 of 8", "To node-b"))})
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


def test_a_page_without_decisions(browse, tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps(node("a")))
    page = browse("--cluster", tmp_path / "cluster.json")
    assert (text_of(page, "h1"), [*tiles(page)]) == ("No decision was made", ["a"])
    press(page, "m")
    assert text_of(page, ".empty") == "No decision was made."


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


SHOWN = {
    "the demo with all rules": ["--cluster", DEMO, "--policy=DefaultProvider"],
    **{f"the example {name}": ["--cluster", EXAMPLES / f"{name}.yaml"] for name in ("taints", "affinity", "spreading", "preemption")},
    **{f"{name.removesuffix('.json')} nodes": ["--cluster", name] for name in CLUSTERS},
    "40 rules": ["--cluster", "9.json", "--plugins", "rules.py", "--policy", "rules.json"]}
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


@table("keys", {"on a projector": [], "in large letters": ["b"]})
def test_a_remark_about_the_answer_is_shown_in_full(keys, browse):
    page = browse("--cluster", EXAMPLES / "affinity.yaml")
    press(page, *keys, Keys.END)
    assert text_of(page, ".news").endswith("and MatchInterPodAffinity is not active")
    assert page.execute_script("return [...document.querySelectorAll('.news, .because')].every(each => each.scrollHeight <= each.clientHeight)")


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


@table("cluster, whole", {"a usual name": ("14.json", True), "a name of 58 characters": ("long.json", False)})
def test_the_answer_on_top_has_room_before_the_question(cluster, whole, browse, files):
    page = browse("--cluster", files / cluster)
    press(page, "b", "g", *[Keys.ARROW_DOWN] * 2)
    page.execute_script("decisions()[0].pod = 'default/' + 'x'.repeat(90); go(decisions()[0])")
    found = page.execute_script("""
        const [answer, about] = ['h1 .yes', '.about'].map(each => document.querySelector(each));
        return [answer.scrollWidth <= answer.clientWidth, answer.getBoundingClientRect().right <= about.getBoundingClientRect().left];""")
    assert found == [whole, True]


@table("motion, plays, widths", {
    "those of one priority at a step": ("no-preference", False, [0, 1]), "all when the page plays": ("no-preference", True, [0, 1]),
    "with reduced motion": ("reduce", False, [])})
def test_the_points_grow_when_they_come_up(motion, plays, widths, browse):
    page = browse("--cluster", DEMO, address="#pod=default/web-1")
    seen = with_motion(page, """
        view.step = 2;
        render();
        arguments[0] ? goOn() : move(1);
        const race = document.querySelector(arguments[0] ? '.race' : '.race i:last-child');
        const whole = race.offsetWidth;
        return race.getAnimations().flatMap(each => [0, .999].map(part => {
          each.pause();
          each.currentTime = part * each.effect.getTiming().duration;
          return Math.round(race.getBoundingClientRect().width / whole);
        })).slice(0, 2);""", plays, motion=motion)
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


def test_a_pod_flies_to_its_tile(browse):
    page = browse("--cluster", DEMO, address="#pod=default/web-1")
    seen = with_motion(page, """
        view.step = 4;
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


def test_a_print_has_the_tiles_and_the_matrix(browse):
    page = browse("--cluster", DEMO, address="#pod=default/report")
    page.execute_script("onbeforeprint()")
    assert "1 → 100 × 2" in text_of(page, ".paper") and len(tiles(page)) == 5
    page.execute_script("onafterprint()")
    assert page.execute_script("return document.querySelectorAll('.on-paper, .paper').length") == 0


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


@table("key", {"the next one": Keys.ARROW_DOWN, "the one before": Keys.ARROW_UP, "the newest one": Keys.END})
def test_in_a_guess_each_decision_begins_with_its_question(key, browse):
    page = browse("--cluster", DEMO, address="#pod=default/cache")
    press(page, "g", key)
    assert text_of(page, "h1").endswith("go?")


@table("letters, is_there", {"on a projector": ([], True), "in large letters": (["b"], True)})
def test_what_a_pod_asks_for_has_the_room_of_the_last_decisions(letters, is_there, browse, files):
    page = browse("--cluster", files / "zones-12.json", "--policy=DefaultProvider", address="#pod=default/web-2")
    press(page, *letters)
    is_whole = "return [document.querySelector('.asks'), ...document.querySelectorAll('.asks b')].every(each => !isHigh(each))"
    assert page.execute_script(is_whole) and bool(page.find_elements(By.CSS_SELECTOR, ".lasts")) == is_there


def test_each_step_of_the_race_adds_a_priority(browse):
    page = browse("--cluster", DEMO)
    seen = []
    for step in (3, 4, 5):
        page.execute_script("go(decisions()[0], arguments[0])", step)
        now = [each.text.split("\n")[0] for each in page.find_elements(By.CSS_SELECTOR, ".rules .comes")]
        seen.append((now, page.execute_script("return [...document.querySelectorAll('.total')].map(each => each.innerText)")))
    assert seen == [(["LeastRequestedPriority"], ["134", "194"]), (["BalancedResourceAllocation"], ["215", "290"]), ([], ["215", "290"])]


def test_a_single_node_that_fits_needs_no_points(browse):
    page = browse("--cluster", DEMO, address="#pod=default/training")
    assert text_of(page, ".because") == "node-gpu is the only node that fits: it needs no points."
    assert not page.find_elements(By.CSS_SELECTOR, ".race, .total")
    press(page, Keys.ARROW_LEFT)
    assert text_of(page, "h1") == "Where does training go?" and "PodFitsResources" in text_of(page, ".because")
