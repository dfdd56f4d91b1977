"""Text output: at a terminal and piped, with shortened names, and with escaped control characters."""

import os
import pty
import re
import subprocess

import pytest

from helpers.control_plane import free_port
from helpers.explain import DEMO, FORTY, policy, read_scores, shown
from helpers.extras import ROOT, SCHEDULER, cluster_of, decide, node, pod, run_scheduler, table
from helpers.policies import load_policies
from scheduler_extras.show.explain import explain
from scheduler_extras.show.picture import picture, pods_without_node
from scheduler_extras.show.text import BOLD, Screen, align, short_names


@table("of, message", {
    "insufficient cpu": (pod("p", {"cpu": "5"}), "(requests cpu 5000m, free 4000m)"),
    "a selector, and the labels of each node": (
        pod("p", nodeSelector={"pool": "a-value-that-is-as-long-as-such-values-are-in-earnest"}),
        "(pool In [a-value-that-is-as-long-as-such-values-are-in-earnest]: has no pool)"),
})
def test_a_reason_has_its_numbers_for_each_of_twelve_nodes(of, message):
    names = [f"gke-prod-pool-0-5fc70dbf-{i:04}" for i in range(12)]
    text = " ".join(" ".join(shown(decide(policy(), of, *map(node, names)))).split())
    assert text.count(message) == 12


@table("names, shown", {
    "of AWS, which differ in the middle": (
        [f"ip-192-168-142-{i}.us-west-2.compute.internal" for i in (118, 135, 171)],
        ["ip-192-168-142-118.u…", "ip-192-168-142-135.u…", "ip-192-168-142-171.u…"]),
    "which differ at both ends": (["a" * 30 + "x", "a" * 30 + "y"], ["a" * 16 + "…" + "aaax", "a" * 16 + "…" + "aaay"]),
    "which differ deep in the middle": (
        [f"{'a' * 20}{middle}{'b' * 20}" for middle in "xy"], ["a" * 20 + "x" + "b" * 20, "a" * 20 + "y" + "b" * 20]),
})
def test_names_that_are_shortened_still_differ(names, shown):
    assert [*short_names(tuple(names)).values()] == shown


@table("name, short", {
    "a short one stays whole": ("control-plane", "control-plane"),
    "21 characters are short": ("gke-default-pool-x7k9", "gke-default-pool-x7k9"),
    "an address keeps its digits": ("ip-172-31-45-117.eu-west-1.compute.internal", "ip-172-31-45-117…rnal"),
    "a generated ending stays": ("gke-prod-default-pool-1a2b3c4d-x7k9", "gke-prod-default…x7k9"),
})
def test_names_are_shortened_in_the_middle(name, short):
    assert [*read_scores(shown(decide(policy(), pod("p"), node(name))))] == [f"* {short}"]
    assert f"  ✗ {short}  " in shown(decide(policy(), pod("p"), node(name, unschedulable=True)))[-2]


def at_a_terminal(*arguments, columns=80, **environment):
    """Run the scheduler at a terminal; return its output."""
    ours, theirs = pty.openpty()
    # A new session's first open terminal becomes its controlling one. (pty.fork() would do it, but warns if there are threads.)
    opening = ["sh", "-c", 'exec "$@" <>"$0" >&0 2>&0', os.ttyname(theirs)]
    command = [*opening, *SCHEDULER, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=theirs, start_new_session=True, env={
        **os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "40", "NO_COLOR": "1", **environment})
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the process has ended
            break
    os.close(ours)
    assert process.wait() == 0
    return shown.decode().replace("\r", "")


@table("environment, coloured", {
    "a terminal has colours": ({"NO_COLOR": ""}, True),
    "NO_COLOR is honoured": ({"NO_COLOR": "1"}, False),
    "a terminal without colours": ({"NO_COLOR": "", "TERM": "dumb"}, False),
})
def test_colours(environment, coloured):
    shown = at_a_terminal("--explain", "default/report", "--cluster", DEMO, columns=130, **environment)
    assert ("\033[1;32m* node-a" in shown) == coloured
    assert ("\033" in shown) == coloured
    wide = [line for line in shown.splitlines() if "control-plane" in line]
    assert len(wide) == 1 and "that the pod" in wide[0], "a row is as wide as the terminal"


def test_decisions_are_folded_at_a_terminal_only():
    text = "default/warehouse stays pending: 0/5 nodes are available: 1 Insufficient memory,"
    shown = at_a_terminal("--cluster", DEMO, columns=80)
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80 and f"\n{text}\n    1 node(s) had taint " in shown
    assert f"\n{text} 1 node(s) had taint " in run_scheduler("--cluster", DEMO).stdout


@pytest.mark.parametrize("width", [80, 120, 300])
def test_a_picture_fits_the_screen(width):
    nodes = [node(f"ip-172-31-{i}-117.eu-west-1.compute.internal", status={"allocatable": {
        "cpu": "64", "memory": "256Gi", "pods": "250"}}) for i in range(100, 130)]
    pods = [pod(f"web-7b9f5d6c4-{i:05}", {"cpu": "1", "memory": "7Gi"}, nodeName=nodes[i % 30]["metadata"]["name"])
            for i in range(300)]
    cluster = cluster_of(*nodes, *pods, *(pod(f"waits-for-ever-{i}") for i in range(99)))
    screen = Screen()
    screen.width = width
    pods, snapshot = cluster.find_waiting({"my-scheduler": None}), cluster.refresh_snapshot()
    lines = [*picture(snapshot.nodes.values(), pods, screen, set()),
             *pods_without_node(pods, snapshot, screen, {})]
    assert max(map(len, lines)) <= width and len(lines) < 70


def test_the_important_lines_are_coloured(capsys):
    decision = decide(load_policies(ROOT / "policy.json", "my-scheduler"), pod("p"), *FORTY)
    plain, screen = shown(decision), Screen()
    screen.width, screen.colours = 80, True

    def coloured():
        screen.print(*explain(decision, screen))
        return capsys.readouterr().out.removesuffix("\n").split("\n")

    lines = coloured()
    assert [re.sub("\033.*?m", "", line) for line in lines] == plain
    bold, dim, red, green = "1", "2", "91", "1;32"
    colours = [re.findall("\033.([1-9;]+)m", line) for line in lines]
    assert colours == [[bold], [bold], [green], [], [], [], [], [], [], [], [], [], [red], *[[dim]] * (len(lines) - 14), []]
    assert "\033[1;32m* ip-172-" in lines[2]
    decision.node, decision.message = None, "refused"
    assert "\033[1;32m" not in "".join(coloured()), "no node was chosen"


def test_control_characters_are_shown_escaped(capsys):
    screen = Screen()
    screen.colours = True
    screen.print(screen.paint("\033[31mred\a\r\n\x9b\0 \x7f", ""), screen.paint("\033", BOLD))
    assert capsys.readouterr().out == "\\x1b[31mred\\x07\\r\\n\\x9b\\x00 \\x7f\n\033[1m\\x1b\033[0m\n"
    assert align([["\033", "a"]]) == ["\\x1b  a"]


def test_with_verbose_each_line_of_the_log_has_a_time():
    run = run_scheduler("--server", f"http://127.0.0.1:{free_port()}", "--once", "--verbose")
    lines = run.stderr.splitlines()
    assert lines and all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}  ", line) for line in lines), run.stderr


def test_piped_output_is_plain_and_does_not_depend_on_the_terminal():
    runs = {run_scheduler("--explain", "--cluster", DEMO, "--seed=1", env={**os.environ, "COLUMNS": columns}).stdout
            for columns in ("40", "200")}
    assert len(runs) == 1 and "\033" not in runs.pop()
