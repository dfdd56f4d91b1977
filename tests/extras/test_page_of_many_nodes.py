"""The nodes of the page as squares, if there are more than 30."""


from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from helpers.extras import table
from helpers.page import DEMO, SCREENS, kinds, press, show_on, text_of


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
    assert page.find_elements(By.CSS_SELECTOR, ".legend > :first-child .use"), "from empty to full"
    for _ in range(6):
        groups = page.find_elements(By.CSS_SELECTOR, ".legend > span")
        seen.append((page.find_element(By.CSS_SELECTOR, ".map").rect["y"], [each.text for each in groups]))
        assert page.execute_script("const legend = document.querySelector('.legend'); return legend.scrollHeight <= legend.clientHeight")
        press(page, Keys.ARROW_RIGHT)
    assert len({top for top, _ in seen}) == 1 and seen[0][1] == ["60 left"]
    assert sorted(seen[-1][1]) == ["10 fit: 188 points", "10: cordoned", "10: disk is not ssd", "10: needs cpu 3", "10: taint batch", "10: taint gpu"]


def test_squares_of_nodes_that_tie_are_framed(browse, files):
    page = browse("--cluster", files / "uneven.json", address="#pod=default/p")
    assert len(page.find_elements(By.CSS_SELECTOR, ".map .square.tied")) == 99


def test_with_a_thousand_nodes_the_legend_names_the_reason(browse, files):
    page = browse("--cluster", files / "1000.json", address="#pod=default/q")
    assert text_of(page, ".legend") == "1000: Insufficient cpu"
    assert len(page.find_elements(By.CSS_SELECTOR, ".bar.blamed .over")) == 2
    page.execute_script("go(decisions()[0])")
    assert text_of(page, ".legend").endswith("taint gpu")


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


def test_small_zones_are_side_by_side(browse, files):
    page = browse("--cluster", files / "uneven.json", address="#pod=default/p")
    tops = page.execute_script("return [...document.querySelectorAll('.zone')].map(each => each.offsetTop)")
    assert tops[0] <= tops[1] == tops[2]
    assert page.execute_script("const map = document.querySelector('.map'); return map.scrollHeight <= map.clientHeight")


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


def test_the_square_of_the_winner_has_a_frame_of_the_colour_of_its_tile(browse, files):
    page = browse("--cluster", files / "300.json", address="#pod=default/p")
    square, tile = page.execute_script("""
        return [getComputedStyle(document.querySelector('.map .best')).outlineColor, getComputedStyle(document.querySelector('.tile.best')).borderTopColor];""")
    assert square == tile


@table("address", {"at the first decision": "", "at a later one": "#pod=default/q"})
def test_colours_do_not_depend_on_where_somebody_opens_the_page(address, browse, files):
    page = browse("--cluster", files / "mixed.json", address=address)
    places = page.execute_script("return decisions().map(each => Object.fromEntries(each.against.map((_, group) => [kindOf(each, group), coloursOf(each).get(group)])))")
    assert all(places[0][kind] == place for kind, place in places[1].items()) and len({*places[0].values()}) == 5
    assert page.execute_script("return [...colourOfKind.keys()]")[:2] == ["cordoned", "disk is not ssd"]


def test_squares_stay_where_they_are_in_large_letters(browse, files):
    page = browse("--cluster", files / "300.json", address="#pod=default/p")
    places = "return [...document.querySelectorAll('.map .square, .heat .tile')].map(each => [each.offsetLeft, each.offsetTop, each.offsetWidth])"
    before = page.execute_script(places)
    press(page, "b")
    assert page.execute_script(places) == before


def test_open_squares_show_how_full_their_nodes_are_and_which_have_taints(browse, files):
    page = browse("--cluster", files / "300.json")
    assert "Darker: fuller. ◤: a taint or a cordon." in text_of(page, ".because")
    marked = page.execute_script("return [...document.querySelectorAll('.map .marked')].length")
    page.execute_script("nodes.get('n1').used.cpu = 2 * nodes.get('n1').room.cpu / 2; render()")
    shares = page.execute_script("return ['n1', 'n2'].map(name => document.querySelector(`.map [data-node=${name}]`).style.getPropertyValue('--share'))")
    assert marked == 75 and shares == ["70%", "0%"]


def test_in_a_guess_the_first_click_on_a_square_shows_its_tile(browse, files):
    page = browse("--cluster", files / "300.json")
    press(page, "g")
    seen = []
    for _ in range(2):
        page.find_element(By.CSS_SELECTOR, ".map [data-node=n5]").click()
        seen.append((page.execute_script("return guess.choice"), page.execute_script("return [...document.querySelectorAll('.heat .tile')].map(each => each.dataset.node)")))
    assert [choice for choice, _ in seen] == [None, "n5"] and all("n5" in shown for _, shown in seen)


def test_squares_differ_by_the_rank_of_their_points(browse, files):
    page = browse("--cluster", files / "300.json")
    shares = page.execute_script("return [100, 99, 98, 1].map((_, rank) => shareOf(rank, [100, 99, 98, 1]))")
    assert shares == ["100%", "72%", "43%", "15%"]


@table("words, kind", {
    "amounts": ("cpu 6 > 2 free", "needs cpu 6"), "a label": ("disk=hdd, not ssd", "disk is not ssd"),
    "pods, of which each node has others": ("not with web-3 in zone a", "anti-affinity"), "a taint": ("taint gpu=true", "taint gpu=true")})
def test_reasons_that_differ_by_node_are_of_one_kind(words, kind, browse):
    page = browse("--cluster", DEMO)
    assert page.execute_script("return kindOf({against: [{words: arguments[0]}]}, 0)", words) == kind


def test_in_a_what_if_the_second_tile_is_of_the_node_that_the_pod_has_got(browse, files):
    page = browse("--cluster", files / "300.json", address="#pod=default/p")
    actual = page.execute_script("const {node} = decisions()[0]; decisions()[0].without.PodToleratesNodeTaints.votes.forEach(vote => { vote.points = decisions()[0].without.PodToleratesNodeTaints.fit.map((_, i) => i) }); switchOff('PodToleratesNodeTaints'); return node")
    assert page.execute_script("return [...document.querySelectorAll('.heat .tile')].map(each => each.dataset.node)")[1] == actual
    assert page.find_elements(By.CSS_SELECTOR, ".heat .tile .chip.changed")[0].text == "actual"
