"""The nodes of the page as tiles: what they show, and what they leave out where there is no room."""

import json
import re

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from helpers.extras import node, pod, table
from helpers.page import DEMO, EXAMPLES, SCREENS, press, show_on, text_of, tiles


def test_missing_resources_are_red_and_the_smallest_change_that_helps_is_named(browse):
    page = browse("--cluster", DEMO, address="#pod=default/warehouse")
    help, message = page.find_element(By.CSS_SELECTOR, ".because").text.splitlines()
    assert help == "It would help to tolerate gpu=true." and message.startswith("0/5 nodes are available: 3 Insufficient cpu, 1 Insufficient memory,")
    assert "cpu 12 > 7 free" in tiles(page)["node-b"] and len(page.find_elements(By.CSS_SELECTOR, ".bar.blamed .over")) == 4
    press(page, "p")
    assert text_of(page, ".pending").startswith("warehouse pending It would help to tolerate gpu=true 0/5 nodes are available:")


def test_victims_are_framed(browse):
    page = browse("--cluster", EXAMPLES / "preemption.yaml", "--preempt")
    page.execute_script("go(decisions()[0], 0)")
    assert "victim" not in text_of(page, ".tiles"), "the question does not give the answer away"
    page.execute_script("go(decisions()[0])")
    assert text_of(page, "h1") == "Where does payment go? It waits for room" and "preempts" in text_of(page, ".because")
    assert "victim: cleanup victim: backup" in tiles(page)["right"] and "victim" not in tiles(page)["left"]


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


@table("keys, taint", {"on a projector": ([], "dedicated=batch"), "in large letters": (["b"], "dedicated:No…")})
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
    parts = "return [...document.querySelectorAll('.race')].map(each => each.innerText.split('\\n').length)"
    assert page.execute_script(parts) == [2, 2]
    press(page, Keys.ARROW_RIGHT)
    assert page.execute_script(parts) == [3, 3], "a priority more, and … for those that are left out"


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


COUNT_IS_INSIDE = """
    const tile = document.querySelector(`[data-node=${arguments[0]}]`), count = tile.querySelector('.rest');
    const [outer, inner] = [tile, count].map(each => each.getBoundingClientRect());
    return inner.height > 0 && inner.bottom <= outer.bottom && inner.right <= outer.right;"""


@table("count, keys", {f"{count} nodes{', in large letters' if keys else ''}": (count, keys) for count in (3, 5, 9, 12) for keys in ([], ["b"])})
def test_pods_and_labels_without_room_are_counted(count, keys, browse, files):
    page = browse("--cluster", files / f"busy-{count}.json")
    press(page, *keys)
    assert page.execute_script(COUNT_IS_INSIDE, "busy-0")
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


@table("count", {"12 nodes": 12, "24 nodes": 24})
def test_each_node_that_fits_names_a_pod_or_counts_its_pods(count, browse, files):
    page = browse("--cluster", files / f"zones-{count}.json", "--policy=DefaultProvider", address="#pod=default/prefers-west-1c")
    press(page, "b")
    missing = page.execute_script("""
        return [...document.querySelectorAll('.tile.fits:not(:has(.mark))')].filter(tile =>
            nodes.get(tile.dataset.node).pods.length && !/pod/.test(tile.querySelector('.rest')?.innerText) && !tile.querySelector('.chip.pod')).length;""")
    assert missing == 0


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
    is_inside = page.execute_script(COUNT_IS_INSIDE, "node-b")
    show_on(page, *SCREENS["a projector"])
    assert [text for text, kind in chips if "changed" in kind] == ["today:NoSchedule"]
    assert is_inside


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


def test_nodes_that_tie_with_the_winner_have_a_frame(browse, files):
    page = browse("--cluster", files / "tied.json", address="#pod=default/p")
    assert page.execute_script("return document.querySelectorAll('.tile.tied').length") == 2
    press(page, Keys.ARROW_LEFT)
    assert page.execute_script("return document.querySelectorAll('.tile.tied').length") == 0, "not before the answer"


@table("node, shown", {
    "the node that keeps room": ("a", ["cpu: 0 in use, 4 reserved for vip, 4 in all", True, ["reserved", "over"]]),
    "another node": ("b", ["cpu: 0 in use, 1 in all", False, []])})
def test_room_for_nominated_pods_is_hatched(node, shown, browse, files):
    page = browse("--cluster", files / "reserved.json", address="#pod=default/p")
    assert page.execute_script("""
        const bar = document.querySelector(`[data-node=${arguments[0]}] .bar`);
        return [bar.title, bar.matches('.blamed'), [...bar.querySelectorAll('.reserved, .over')].filter(each => each.offsetWidth > 9).map(each => each.className)];""", node) == shown


def test_the_bars_below_a_name_of_two_lines_have_the_same_width(browse):
    page = browse("--cluster", DEMO, address="#pod=default/ingress-1")
    page.execute_script("switchOff('PodToleratesNodeTaints')")
    press(page, "b")
    widths = page.execute_script("return [...document.querySelectorAll('.tile.best .wraps ~ .bars .track')].map(each => each.offsetWidth)")
    assert len(widths) == 2 and len({*widths}) == 1


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


@table("pod, shown", {
    "those that affinity selects": ("near", ["db"]), "those that anti-affinity selects": ("rather-away", ["db"]),
    "those that a constraint counts": ("web-2", ["web-1"]), "none without either": ("other", [])})
def test_the_pods_to_which_a_pod_refers_come_first_in_a_green_frame(pod, shown, browse, files):
    page = browse("--cluster", files / "neighbors.json", "--policy=DefaultProvider", address=f"#pod=default/{pod}")
    assert [each.text for each in page.find_elements(By.CSS_SELECTOR, ".chip.neighbor")] == shown
    first = page.execute_script("return [...document.querySelectorAll('.tile')].map(tile => tile.querySelector('.chip.pod:not(.new)')?.innerText)")
    assert {*shown} <= {*first}


def test_a_pod_that_spreads_shows_the_numbers_that_its_constraint_counts(browse, files):
    page = browse("--cluster", files / "neighbors.json", "--policy=DefaultProvider", address="#pod=default/web-2")
    assert "matching pods by zone 1a 1, 1b 0" in text_of(page, ".asks")


@table("pod, rules", {
    "affinity": ("near", ["MatchInterPodAffinity"]), "spreading": ("web-2", ["EvenPodsSpread"]), "nothing": ("other", [])})
def test_of_many_predicates_those_that_a_pod_asks_for_keep_their_names(pod, rules, browse, files):
    page = browse("--cluster", files / "neighbors.json", "--policy=DefaultProvider", address=f"#pod=default/{pod}")
    shown = page.execute_script("return [...document.querySelector('.rules').children].map(each => each.innerText.split('\\n')[0])")
    assert shown[:-1] == rules and re.fullmatch(r"\d+ (others|predicates)", shown[-1])


@table("pod, words, blamed", {
    "on the same node": ("away", "not with web-1", ["web-1"]), "in the same zone": ("apart", "not with web-1 in zone …1a", ["web-1", "zone=eu-west-1a"])})
def test_anti_affinity_names_the_pod_and_where_it_is(pod, words, blamed, browse, files):
    page = browse("--cluster", files / "neighbors.json", "--policy=DefaultProvider", address=f"#pod=default/{pod}")
    found = page.execute_script("return [...document.querySelectorAll('.tile.out .why')].map(each => each.innerText)")
    assert words in [" ".join(each.split()) for each in found]
    assert {*blamed} <= {each.text for each in page.find_elements(By.CSS_SELECTOR, ".chip.blamed")}


def test_a_tile_shows_each_resource_that_a_pod_asks_for(browse, files):
    page = browse("--cluster", files / "gpus-12.json", address="#pod=default/train")
    press(page, "b")
    widths = page.execute_script("""
        return [...document.querySelectorAll('.tile')].map(tile => [[...tile.querySelectorAll('.bar')].filter(each => each.offsetHeight).map(each => each.textContent.slice(0, 3)),
            Math.max(...[...tile.querySelectorAll('.bar')].map(each => each.getBoundingClientRect().right)) <= tile.getBoundingClientRect().right]);""")
    assert {(*names,) for names, _ in widths} == {("gpu",)} and all(fits for _, fits in widths)


@table("taints, keys", {
    "on a projector": ([], []), "in large letters": ([], ["b"]),
    "in large letters, beside a taint": (["a=b:NoSchedule", "spot=true:PreferNoSchedule"], ["b"])})
def test_the_name_of_a_victim_is_whole(taints, keys, browse, files):
    page = browse("--cluster", files / "victims-12.json", "--preempt")
    page.execute_script("go(decisions()[0]); nodes.get('gpu-0').taints = arguments[0]; render()", taints)
    press(page, *keys)
    chip = page.find_element(By.CSS_SELECTOR, ".chip.goes")
    assert " ".join(chip.text.split()) == "victim: notebook-of-somebody prio 10"
    assert page.execute_script("return arguments[0].scrollWidth <= arguments[0].clientWidth", chip)


def test_a_taint_without_its_value_is_no_label(browse, files):
    page = browse("--cluster", files / "zones-24.json", "--policy=DefaultProvider", address="#pod=default/p")
    page.execute_script("const chip = h('span.chip.mark', {}, 'dedicated=batch'); document.body.append(chip); withoutValue(chip)")
    assert text_of(page, "body > .mark") == "dedicated:No…"


def test_a_name_and_a_total_that_share_no_line_have_one_each(browse, files):
    page = browse("--cluster", files / "pools-12.json", "--policy=DefaultProvider", address="#pod=default/p")
    press(page, "b")
    names = page.execute_script("return [...document.querySelectorAll('.wraps .name')].map(each => each.getClientRects().length === 1 && each.offsetHeight < 35)")
    assert names and all(names)


def test_a_new_taint_that_is_to_blame_is_shown_once(browse):
    page = browse("--cluster", DEMO)
    page.execute_script("""
        connection.is = 'live';
        const record = {...nodes.get('node-b'), taints: ['today=closed:NoSchedule']}, again = structuredClone(decisions()[0]);
        take({kind: 'nodes', n: known.last + 1, at: again.at, nodes: {'node-b': record}});
        again.against.push({by: {PodToleratesNodeTaints: ['x']}, words: 'taint today=closed', blame: ['taint:today=closed:NoSchedule']});
        again.out['node-b'] = again.against.length - 1;
        take({...again, n: known.last + 1, fit: ['node-a'], node: 'node-a'});
        Object.assign(view, {live: true, at: decisions().at(-1), step: Infinity});
        render();""")
    assert text_of(page, "[data-node=node-b]").count("today=closed") == 1
    assert page.find_elements(By.CSS_SELECTOR, "[data-node=node-b] .why.blamed.changed")


def test_on_a_telephone_names_are_whole(browse, files):
    page = browse("--cluster", files / "workers-12.json", address="#pod=default/p")
    show_on(page, *SCREENS["a telephone"])
    try:
        page.execute_script("render()")
        assert all("worker-" in text.split(" cpu ")[0] for text in tiles(page).values())
    finally:
        show_on(page, *SCREENS["a projector"])


def test_room_that_is_reserved_is_named(browse, files):
    page = browse("--cluster", files / "reserved.json", address="#pod=default/p")
    page.execute_script("go(decisions()[0], 0)")
    assert [each.text for each in page.find_elements(By.CSS_SELECTOR, ".chip.held")] == ["reserved for vip"]


@table("effect, mark", {"a taint that the pod tolerates": ("NoSchedule", '" ✓"'), "one that only gives fewer points": ("PreferNoSchedule", "none")})
def test_a_taint_that_the_pod_tolerates_has_a_mark(effect, mark, browse, tmp_path):
    things = [node("a", taints=[{"key": "gpu", "effect": effect}]), pod("p", tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}])]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": things}))
    page = browse("--cluster", tmp_path / "cluster.json", address="#pod=default/p")
    assert page.execute_script("return getComputedStyle(document.querySelector('.chip.mark'), '::after').content") == mark


@table("step, count", {"at the question": (0, 0), "after another predicate": (1, 0), "after the one about resources": (2, 6)})
def test_no_bar_is_red_before_the_predicate_about_resources(step, count, browse, files):
    page = browse("--cluster", files / "marked-12.json", address="#pod=default/p")
    page.execute_script("""
        const decision = decisions()[0];
        decision.requests = {cpu: 5000};
        decision.refused = ['CheckNodeUnschedulable', 'PodFitsResources', 'MatchNodeSelector'];
        go(decision, arguments[0]);""", step)
    assert (page.execute_script("return document.querySelectorAll('.over').length") > 0) == (count > 0)


def test_a_label_that_is_too_wide_loses_its_key(browse, tmp_path):
    labels = {"node.kubernetes.io/instance-type-of-this-machine": "m5.large"}
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [*(node(f"n{i}", labels=labels) for i in range(12)), pod("p")]}))
    page = browse("--cluster", tmp_path / "cluster.json", address="#pod=default/p")
    assert {each.text for each in page.find_elements(By.CSS_SELECTOR, ".chip.label")} == {"m5.large"}


def test_chips_return_when_bars_have_made_room_for_them(browse, files):
    page = browse("--cluster", files / "neighbors.json", "--policy=DefaultProvider", address="#pod=default/web-2")
    before, without, after = page.execute_script("""
        const tile = document.querySelector('[data-node=n0]'), counter = counterOf(tile, []), pod = tile.querySelector('.chip.pod');
        const texts = () => [...tile.querySelectorAll('.chip')].map(each => each.innerText), before = texts();
        counter.giveUp(pod)();
        const without = texts();
        counter.restore();
        return [before, without, texts()];""")
    assert before == after != without


@table("count", {"12 nodes": 12, "24 nodes": 24})
def test_the_winner_has_narrower_letters_for_a_name_of_middle_length(count, browse, files):
    page = browse("--cluster", files / f"zones-{count}.json", "--policy=DefaultProvider", address="#pod=default/prefers-west-1c")
    press(page, "b")
    assert page.execute_script("const pod = document.querySelector('.chip.new'); return pod.innerText + isWide(pod)") == "+ prefers-west-1cfalse"


def test_a_tile_shows_what_the_pod_adds_in_all_bars_or_in_none(browse):
    page = browse("--cluster", DEMO, address="#pod=default/report")
    press(page, "b")
    shown = page.execute_script("return [...document.querySelectorAll('.tile.fits, .tile.best')].map(tile => [...tile.querySelectorAll('.amounts')].filter(each => each.offsetHeight).map(each => each.innerText.includes('+')))")
    assert len(shown) == 2 and all(len({*each}) == 1 for each in shown)
