"""A pupil's mistakes in scheduler.py: each gets one line with its place, alone and with the extras."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT, node, pod, run_afresh, table, wait_for
from faulty import ApiServer

TEXT = (ROOT / "scheduler.py").read_text()
POLICY = {"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "HostName"}],
          "priorities": [{"name": "LeastRequestedPriority", "weight": 1}]}
HOST_NAME = '    if pod.node_name and pod.node_name != node.name:\n        yield "node(s) didn\'t match the requested hostname"\n'
LEAST = "    return (cpu + memory) // 2\n"
TAINTS = '    return len(hostile_taints(pod, node, ["PreferNoSchedule"]))\n'
LEAST_IS_BEST = "    return {name: 100 - points for name, points in most_is_best(scores).items()}\n"
DECORATOR = '@predicate("HostName")\n'
NEXT = '@predicate("PodFitsHostPorts")\n'  # what follows on the rule HostName
STRINGS = "yield strings, or return a list of them, not"

# A sentence: what is there, what the pupil writes, which of these lines is at fault; what is said alone, and with extras.
# Each ends with " (scheduler.py, line N)" alone, and has that with the rule's name with the extras.
IN_A_RULE = {
    "an attribute that a pod does not have": (
        HOST_NAME, '    if pod.nodename:\n        yield "no"\n', "pod.nodename", "AttributeError in host_name: .*'nodename'.*"),
    "a name that is nowhere": (HOST_NAME, '    if limit > 3:\n        yield "no"\n', "if limit > 3", "NameError in host_name: name 'limit' is not defined"),
    "a module that is not imported": (
        HOST_NAME, '    if datetime.now():\n        yield "no"\n', "datetime", "NameError in host_name: name 'datetime' is not defined.*"),
    "a label that the node does not have": (
        HOST_NAME, '    if node.labels["zone"]:\n        yield "no"\n', '["zone"]', "KeyError in host_name: 'zone'"),
    "the next of nothing": (HOST_NAME, "    yield next(iter([]))\n", "iter", "StopIteration in host_name: "),
    "a mistake in what a rule calls": (
        "    operator = toleration.get", "    operator = toleration.gett", ".gett", "AttributeError in covers: 'dict' object has no attribute 'gett'.*"),
    "a mistake in a library that a rule calls": (HOST_NAME, '    yield json.loads("{")\n', 'yield json.loads("{")', "JSONDecodeError in host_name: .*"),
    "an exception that cannot say its text": (
        HOST_NAME, "    class Odd(Exception):\n        __str__ = None\n    raise Odd\n    yield\n", "    raise Odd", "Odd in host_name: .*"),
    "sys.exit": (HOST_NAME, "    sys.exit(3)\n    yield\n", "sys.exit(3)", "SystemExit in host_name: 3"),
    "a pod that is changed": (HOST_NAME, '    pod.labels["seen"] = "yes"\n    yield "no"\n', '"seen"', "TypeError in host_name: .*assignment"),
    "an attribute in a priority": (
        TAINTS, "    return pod.score\n", "pod.score", "AttributeError in taint_toleration: .*'score'"),
}
WRONG_ANSWERS = {
    "no yield": (HOST_NAME, '    if pod.node_name:\n        "node(s) were closed"\n', DECORATOR, f"{STRINGS} None"),
    "True": (HOST_NAME, "    return True\n", DECORATOR, f"{STRINGS} True"),
    "a text": (HOST_NAME, '    return "no"\n', DECORATOR, f"{STRINGS} 'no'"),
    "a text that is returned, where others are yielded": (HOST_NAME, '    if pod.node_name:\n        yield "no"\n    return "no"\n', DECORATOR, f"{STRINGS} 'no'"),
    "no return": (LEAST, "    (cpu + memory) // 2\n", '@priority("LeastRequestedPriority")', "a number from 0 to 100.*, not None"),
    "a text of a priority that has a reduce": (
        TAINTS, '    return "many"\n', '@priority("TaintTolerationPriority"', "return a number from 0 to 100.*, not 'many'"),
    "no return of a priority that has a reduce": (
        TAINTS, "    len(hostile_taints(pod, node))\n", '@priority("TaintTolerationPriority"', "return a number from 0 to 100.*, not None"),
    "a reduce without a return": (
        LEAST_IS_BEST, '    len(scores)\n', '@priority("TaintTolerationPriority"', "(give each node a number from 0 to 100|return {name: score} of all nodes), not .*None"),
    "a reduce that leaves a node out": (
        LEAST_IS_BEST, '    return {"a": 1}\n', '@priority("TaintTolerationPriority"', "(give each node a number from 0 to 100|return {name: score} of all nodes), not {"),
    "a priority that yields": (LEAST, "    yield (cpu + memory) // 2\n", '@priority("LeastRequestedPriority")', "a number from 0 to 100.*, not <generator object least_requested>"),
    "a score above 100": (LEAST, "    return cpu + memory + 1000\n", '@priority("LeastRequestedPriority")', ".*0 to 100.*"),
}
IN_THE_LOOP = {
    "a name in schedule": ("        if feasible:\n", "        if feasable:\n", "feasable", "NameError in schedule: name 'feasable' is not defined.*"),
    "a select_host that returns nothing": ("    return random.choice(", "    random.choice(", "feasible[select_host", "KeyError in schedule: None"),
    "a select_host that returns what is no node": ("    return random.choice(", '    return "nowhere", random.choice(', "feasible[select_host", r"KeyError in schedule: \('nowhere', '[abc]'\)"),
    "a name in select_host": ("    best = max(total.values())\n", "    best = max(totals.values())\n", "totals", "NameError in select_host: .*"),
}
ENDS_THE_LOOP = {
    "a name in schedule_pending_pods": ("        if decision.node:\n            cluster.bind", "        if decison.node:\n            cluster.bind", "decison", "NameError in schedule_pending_pods: name 'decison' is not defined.*"),
    "a file that is not there": (
        "        if once:\n", '        open("nowhere/notes.txt")\n        if once:\n', 'open("nowhere', "FileNotFoundError in run: .*'nowhere/notes.txt'"),
    "a name in run": ("        if once:\n", "        if onse:\n", "onse", "NameError in run: name 'onse' is not defined.*"),
}
ENDS_IT_AT_ONCE = {
    "a decorator that is mistyped": (DECORATOR, '@predicat("HostName")\n', "@predicat(", "NameError in <module>: name 'predicat' is not defined.*"),
    "a decorator without a name": (DECORATOR, "@predicate\n", "@predicate\n", r'TypeError in <module>: a rule needs the name that a Policy has for it, as in @predicate\("Name"\)'),
    "a decorator with an option that there is not": (
        DECORATOR, '@predicate("HostName", steady=True)\n', "steady", r"TypeError in <module>: .*unexpected keyword argument 'steady'"),
}


def with_mistake(there, written, place):
    """The script with a mistake, and the number of its line."""
    assert TEXT.count(there) == 1, there
    text = TEXT.replace(there, written)
    before, *_ = text.partition(place)
    assert place in text
    return text, before.count("\n") + 1


@pytest.fixture(params=["alone", "with the extras"])
def run(request, tmp_path):
    """A function that runs an edited script on two nodes and a pod; it returns how that ended, and what was bound."""
    server = ApiServer(node("a"), node("b", taints=[{"key": "k", "effect": "NoSchedule"}]), node("c"),
                       pod("p", tolerations=[{"key": "other", "operator": "Exists"}]))
    if request.param != "alone":
        (tmp_path / "scheduler_extras").symlink_to(ROOT / "scheduler_extras")

    def run(text):
        (tmp_path / "scheduler.py").write_text(text)
        (tmp_path / "policy.json").write_text(json.dumps(POLICY | {"priorities": [
            *POLICY["priorities"], {"name": "TaintTolerationPriority", "weight": 1}]}))
        return run_afresh("--server", server.url, "--once", script=tmp_path / "scheduler.py", cwd=tmp_path), server.places()

    yield run
    server.stop()


@pytest.fixture(params=["alone", "with the extras"])
def run_on(request, tmp_path):
    """A function that starts an edited script beside a server; what it says is in the file `said`."""
    if request.param != "alone":
        (tmp_path / "scheduler_extras").symlink_to(ROOT / "scheduler_extras")

    def run_on(server, text, *options):
        (tmp_path / "scheduler.py").write_text(text)
        (tmp_path / "policy.json").write_text(json.dumps(POLICY))
        with open(tmp_path / "said", "w") as said:
            return subprocess.Popen([sys.executable, "scheduler.py", "--server", server.url, *options], cwd=tmp_path, stdout=said, stderr=said)

    return run_on


@table("there, written, place, said", IN_A_RULE | IN_THE_LOOP)
def test_a_mistake_in_a_rule_or_in_schedule_leaves_the_pod_pending_and_is_named(run, there, written, place, said):
    text, line = with_mistake(there, written, place)
    ended, places = run(text)
    [pending] = ended.stdout.splitlines()
    assert re.fullmatch(rf"default/p stays pending: {said} \((\w+: )?scheduler.py, line {line}\)(, about node [abc])?", pending), pending
    assert places == {} and "Traceback" not in ended.stderr


@table("rule", {
    "a partial function": "functools.partial(lambda x, pod, node: [x], 'no')",
    "an object": "type('Refusal', (), {'__call__': lambda self, pod, node: ['no']})()",
    "a method": "type('Refusal', (), {'refuse': lambda self, pod, node: ['no']})().refuse",
    "a function that keeps its answers": "functools.lru_cache(lambda pod, node: ['no'])",
})
def test_the_function_of_a_rule_in_the_script_may_be_whatever_can_be_called(run, rule):
    ended, places = run(TEXT.replace(NEXT, f'predicate("HostName")({rule})\n\n\n{NEXT}'))
    assert (ended.returncode, ended.stdout, places) == (0, "default/p stays pending: 0/3 nodes are available: 3 no.\n", {})


@table("rule, got", {
    "a function in C": ("max", "<built-in function max>"),
    "nothing, as of a decorator that returns nothing": ("None", "None"),
    "a class": ("dict", "<class 'dict'>"),
})
def test_a_rule_in_the_script_that_is_no_function_ends_it_with_one_line(rule, got, tmp_path):
    """With the extras: alone, pods stay pending."""
    (tmp_path / "scheduler.py").write_text(TEXT.replace(NEXT, f'predicate("HostName")({rule})\n\n\n{NEXT}'))
    (tmp_path / "scheduler_extras").symlink_to(ROOT / "scheduler_extras")
    ended = run_afresh("--once", script=tmp_path / "scheduler.py", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (2, f'rule "HostName": expected a Python function, got {got}\n')


@table("there, written, place, said", WRONG_ANSWERS)
def test_a_wrong_answer_of_a_rule_is_named(run, there, written, place, said):
    text, line = with_mistake(there, written, place)
    ended, places = run(text)
    [pending] = ended.stdout.splitlines()
    assert re.match("default/p stays pending: ", pending) and re.search(said, pending), pending
    reduce = text.partition("def least_is_best")[0].count("\n") + 1  # where there are extras, it is named itself
    assert re.search(rf"\((\w+: )?scheduler.py, line ({line}|{reduce})\)", pending), pending
    assert places == {} and "Traceback" not in ended.stderr


@table("there, written, place, said", ENDS_THE_LOOP | ENDS_IT_AT_ONCE)
def test_a_mistake_elsewhere_ends_the_script_with_one_line(run, tmp_path, there, written, place, said):
    text, line = with_mistake(there, written, place)
    has_begun = (there, written, place, said) in ENDS_THE_LOOP.values() and (tmp_path / "scheduler_extras").exists()
    ended, _ = run(text)
    *_, last = ended.stderr.splitlines()
    lines = f"({line}|{line + 1})"  # Python 3.10 says of a decorator where its function is
    assert ended.returncode == (1 if has_begun else 2) and re.fullmatch(rf"{said} \(scheduler.py, line {lines}\)", last), ended.stderr
    assert "Traceback" not in ended.stderr


@table("there, written, place, said", ENDS_THE_LOOP)
def test_verbose_shows_all_that_led_to_a_mistake_in_the_loop(there, written, place, said, tmp_path):
    text, line = with_mistake(there, written, place)
    (tmp_path / "scheduler_extras").symlink_to(ROOT / "scheduler_extras")
    (tmp_path / "scheduler.py").write_text(text)
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    server = ApiServer(node("a"), pod("p"))
    ended = run_afresh("--server", server.url, "--once", "-v", script=tmp_path / "scheduler.py", cwd=tmp_path)
    server.stop()
    _, _, traceback = ended.stderr.partition("Traceback ")
    assert re.search(rf"{said} \(scheduler.py, line {line}\)\n", ended.stderr) and f'scheduler.py", line {line}, in ' in traceback


def test_a_rule_that_never_ends_is_named_after_a_second_ctrl_c(tmp_path):
    """With the extras it is named after five seconds, see test_command_line.py."""
    text, line = with_mistake(HOST_NAME, "    while True:\n        pass\n    yield\n", "    while True:")
    (tmp_path / "scheduler.py").write_text(text)
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    server = ApiServer(node("a"), pod("p"))
    running = subprocess.Popen([sys.executable, "scheduler.py", "--server", server.url], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        wait_for("it has listed the pods on nodes", lambda: len(server.sent("list")) >= 2)
        first = running.stderr.readline()
        running.stderr.readline()  # its rules
        for _ in range(2):
            time.sleep(0.5)
            running.send_signal(signal.SIGINT)
        said = running.stderr.read()
        assert "polling" in first and re.fullmatch(rf"KeyboardInterrupt in host_name: +\(scheduler.py, line ({line}|{line + 1})\)\n", said), said
        assert running.wait(timeout=60) == 130
    finally:
        running.kill()
        server.stop()


def test_a_mistake_in_the_path_of_the_binding_is_said(run_on, tmp_path):
    """Alone when it happens again: the first time, the pod may have gone."""
    text, _ = with_mistake('/pods/{pod.name}/binding"', '/pods/{pod.name}s/binding"', "/pods/{pod.name}s")
    server = ApiServer(node("a"), pod("p"))
    running = run_on(server, text, "--interval", "0.1")
    try:
        wait_for("it is said", lambda: "default/p" in (tmp_path / "said").read_text())
        assert re.search(r"default/p( stays pending)?: (binding rejected: )?POST .*/pods/ps/binding", (tmp_path / "said").read_text())
        assert not server.places()
    finally:
        running.kill()
        running.wait()
        server.stop()


PARAMETERS = r'rule "\w+": expected the parameters \(pod, node\), got'


@table("there, written, said, alone", {
    "no node": ("def host_name(pod, node):", "def host_name(pod):", rf"{PARAMETERS} \(pod\)", r"host_name\(\)"),
    "more than a pod and a node": (
        "def least_requested(pod, node):", "def least_requested(pod, node, weight):", rf"{PARAMETERS} \(pod, node, weight\)", r"least_requested\(\)"),
    "a reduce that is a text": (
        "reduce=least_is_best", 'reduce="least_is_best"', 'rule "TaintTolerationPriority", reduce: expected a function, got .*', "'str' object is not callable"),
})
def test_functions_that_cannot_be_called_end_the_script_where_extras_are(run, tmp_path, there, written, said, alone):
    """Alone, the pod is left pending, as of any mistake in a rule."""
    text, line = with_mistake(there, written, written)
    ended, places = run(text)
    if (tmp_path / "scheduler_extras").exists():
        assert re.fullmatch(rf"{said} \(\w+: scheduler.py, line ({line}|{line - 1})\)\n", ended.stderr), ended.stderr
        assert ended.returncode == 2 and not ended.stdout
    else:
        assert re.fullmatch(rf"default/p stays pending: TypeError in [<\w>]+: .*{alone}.* \(scheduler.py, line \d+\)\n", ended.stdout), ended.stdout
    assert places == {}


@table("there, written, said", {
    "the return of binding is forgotten": (
        '    return "POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", {', '    "POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", {',
        "binding: return (method, /path, body), not None"),
    "its path has no slash before it": (
        'f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding"', 'f"api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding"',
        "binding: return (method, /path, body), not ('POST', 'api/v1/"),
    "the return of event is forgotten": (
        '    return "POST", f"/api/v1/namespaces/{pod.namespace}/events", {', '    "POST", f"/api/v1/namespaces/{pod.namespace}/events", {',
        "event: return (method, /path, body), not None"),
})
def test_what_makes_no_request_is_named_where_extras_are(tmp_path, there, written, said):
    """Alone, it ends the script, or the pass, with the line that sends it."""
    text, _ = with_mistake(there, written, written)
    (tmp_path / "scheduler_extras").symlink_to(ROOT / "scheduler_extras")
    (tmp_path / "scheduler.py").write_text(text)
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    server = ApiServer(node("a"), pod("p"))
    try:
        ended = run_afresh("--server", server.url, "--once", script=tmp_path / "scheduler.py", cwd=tmp_path)
    finally:
        server.stop()
    [line] = [line for line in ended.stderr.splitlines() if said in line]
    place = re.search(r"\(scheduler.py, line (\d+)\)", line)
    assert text.splitlines()[int(place[1]) - 1].startswith(f"def {said.partition(':')[0]}("), line
    assert "Traceback" not in ended.stderr and ended.returncode == 1
