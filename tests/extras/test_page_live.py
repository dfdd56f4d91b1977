"""The page beside a scheduler that runs: what changes, and what is played."""

import re

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from helpers.control_plane import free_port, wait_for
from helpers.extras import ROOT, table
from helpers.page import DEMO, EXAMPLES, press, text_of, with_motion


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
    "a pod is deleted": ("pod", 99, [f"{ASKED} Nowhere yet", "Since then: node-b: pod web-1 is gone", "node-b", ""]),
    "the pending pod is deleted": ("pending", 99, [f"{ASKED} It is gone", "", "", ""]),
    "the reason for a retry": (
        "retry", 99, [f"{ASKED} Nowhere yet", "Run again after: node-b: cordoned", "node-b", "cordoned"]),
    "other weights": ("weights", 99, [f"{ASKED} Nowhere yet", "Since then: Policy: A ×1 → ×5, B removed", "", ""])})
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


def test_a_pod_that_moves_when_a_file_changes_tells_where_it_was(browse):
    page = browse("--cluster", DEMO)
    page.execute_script("""
        connection.is = 'live';
        const [first] = decisions();
        take({kind: 'run', n: known.last + 1, at: first.at, text: 'demo.yaml: changed'});
        take({...first, n: known.last + 1, node: 'node-a'});
        go(decisions().at(-1));""")
    assert text_of(page, "h1") == "Where does web-1 go? To node-a (was node-b)"


def test_the_last_line_and_the_queue_are_of_one_moment(browse):
    page = browse("--cluster", DEMO)
    page.execute_script("""
        connection.is = 'live';
        Object.assign(view, {live: true, at: decisions()[0], step: Infinity});
        render();""")
    assert "most often" not in text_of(page, "footer") and "web-1 → node-b" in text_of(page, "footer")


def test_a_warning_does_not_hide_the_change_that_made_a_pod_be_tried_again(browse):
    page = browse("--cluster", DEMO)
    page.execute_script("""
        const again = structuredClone(decisions()[0]), at = again.at;
        take({kind: 'nodes', n: known.last + 1, at, nodes: {'node-b': {...nodes.get('node-b'), cordoned: true}}});
        take({kind: 'note', n: known.last + 1, at, problem: false, text: 'default/other is placed, though it has host ports'});
        take({...again, n: known.last + 1});
        go(decisions().at(-1));""")
    assert "node-b: cordoned" in text_of(page, ".because .news")


def test_a_run_jumps_to_the_pod_that_has_ended_elsewhere(browse):
    page = browse("--cluster", DEMO)
    assert page.execute_script("""
        const [first, second] = decisions(), again = (each, more) => take({...each, n: known.last + 1, ...more});
        again(first, {node: null, message: 'waits for its victims'});
        again(first, {});
        take({kind: 'run', n: known.last + 1, at: first.at, text: 'x: changed'});
        again(first, {node: null, message: 'waits for its victims'});
        again(first, {});
        again(second, {node: 'node-a'});
        return ofRun(decisions().slice(-3)).map(each => each.pod);""") == ["default/web-2"]


def test_a_pod_waits_for_room_until_it_has_a_node(browse):
    page = browse("--cluster", EXAMPLES / "preemption.yaml", "--preempt")
    states = page.execute_script("""
        const [first] = decisions(), states = [];
        const note = () => states.push(waitsForRoom(first.pod));
        view.at = null;
        known.entries.splice(known.entries.indexOf(first) + 1);
        note();
        take({...first, n: known.last + 1, outcome: undefined});
        note();
        take({...first, n: known.last + 1, outcome: undefined, node: 'right', fit: ['right'], votes: []});
        note();
        return states;""")
    assert states == [True, True, False]


@table("moves, words", {
    "none": (0, "Run again (no pod moved) after: node-b: cordoned"), "one pod": (1, "Run again (1 pod moved) after: node-b: cordoned"),
    "several pods": (2, "Run again (2 pods moved) after: node-b: cordoned")})
def test_a_run_tells_how_many_pods_it_has_moved(moves, words, browse):
    page = browse("--cluster", DEMO)
    page.execute_script("""
        const [first, second] = decisions(), at = first.at;
        take({kind: 'nodes', n: known.last + 1, at, nodes: {'node-b': {...nodes.get('node-b'), cordoned: true}}});
        take({kind: 'run', n: known.last + 1, at, text: 'demo.yaml: changed'});
        take({...first, n: known.last + 1, at, node: arguments[0] > 0 ? 'node-a' : first.node});
        const shown = decisions().at(-1);
        take({...second, n: known.last + 1, at, node: arguments[0] > 1 ? 'node-a' : second.node});
        take({kind: 'run', n: known.last + 1, at: at + 9, text: 'demo.yaml: changed once more'});
        take({...second, n: known.last + 1, at: at + 9, node: 'node-gpu'});
        go(shown);""", moves)
    assert text_of(page, ".because .news").startswith(words)
