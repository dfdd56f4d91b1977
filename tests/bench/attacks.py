"""Attacks by tenants and broken transports, with this scheduler and kube-scheduler 1.20 in turn on a real control plane.

    KUBEBUILDER_ASSETS=... python tests/bench/attacks.py [--rounds 3] [--only ours] [ROW ...]

Each row sets up a cluster, starts a scheduler, and then causes trouble: slow or hanging DELETEs, victims that are
recreated, budgets, tenants that keep changing their pods, proxies that break HTTP. kube-scheduler uses JSON through the
same proxy. Both run under DefaultProvider. `deleted` counts the DELETEs of pods that were sent. `bound` and `others` are
the seconds until the pod in question, and pods of other tenants, are bound. The limits of a row depend on kube-scheduler
in the same round. Each limit that is exceeded is printed below the row, and makes the exit code 1.
"""

import argparse
import functools
import http.client
import json
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import requests
from throughput import BY_PROXY, Bench, cpu_seconds


sys.path.insert(0, str(Path(__file__).parent.parent))
from helpers.control_plane import wait_for
from helpers.extras import SCHEDULER, claim, node, pod, storage_class
from helpers.faulty import FaultProxy, failure


OURS, KUBE = "scheduler_extras", "kube-scheduler"
NOWHERE = {"no": "where"}
LEVELS = {"negative": -10, "low": 1, "middle": 5, "high": 100}
PATCH = {"Content-Type": "application/merge-patch+json"}
HOLD = '''from scheduler import predicate
def permit(pod, node, snapshot):
    return 600 if pod.name.startswith("low") else None
@predicate("Hold", plugin="Hold", permit=permit)
def hold(pod, node):
    return []
'''
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
HOLDING = CONFIGURATION | {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Hold"}]}}}]}
HTTP_KINDS = "list", "binding", "event", "status", "delete", "other"


class OddProxy(FaultProxy):
    """A proxy that sends extra bytes before each answer, or closes each connection after one answer."""

    before_each, closes = b"", False

    def handle(self, request):
        """Answer a request."""
        request.send(self.before_each)
        if not self.closes:
            super().handle(request)
            return
        handler, asked = request.handler, request.asked
        handler.close_connection = True
        upstream = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=120)
        try:
            upstream.request(asked.method, asked.path, asked.body or None, {
                "Content-Type": handler.headers.get("Content-Type", "application/json")})
            answer = upstream.getresponse()
            head = f"HTTP/1.1 {answer.status} {answer.reason}\r\nContent-Type: application/json\r\nConnection: close\r\n"
            if asked.kind == "watch":
                request.send(f"{head}\r\n".encode())
                while not self.closing.is_set() and (line := answer.readline()):
                    request.send(line)
            else:
                data = answer.read()
                request.send(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        finally:
            upstream.close()


class Attack:
    """A cluster and a scheduler, with helpers for a row that attacks them."""

    def __init__(self, bench, folder, who):
        self.bench, self.plane, self.folder, self.who = bench, bench.plane, folder, who
        self.proxy = OddProxy(self.plane.proxy_port)
        self.process, self.began = None, 0.0  # when it was started
        self.stop = threading.Event()
        self.threads = []

    def call(self, method, path, body=None, **options):
        """Send a request to the API server, past the proxy; return the answer, even an error."""
        return requests.request(method, f"{self.plane.server}{path}", json=body, timeout=120, **options)

    def patch(self, name, body, session=requests, part=""):
        """Change a pod, or a subresource of it such as `/status`."""
        session.patch(f"{self.plane.server}/api/v1/namespaces/default/pods/{name}{part}", json=body, headers=PATCH, timeout=120)

    def create(self, *things):
        """Create objects, several at a time."""
        self.bench.create(things)

    def pods(self):
        """Return the pods of the default namespace, {name: object}."""
        return {thing["metadata"]["name"]: thing for thing in self.plane.get("namespaces/default/pods")["items"]}

    def bound(self, *names):
        """Return true if all of these pods are bound."""
        pods = self.pods() if len(names) > 1 else {}
        things = [pods.get(name) or self.plane.get(f"namespaces/default/pods/{name}") for name in names]
        return all("nodeName" in thing["spec"] for thing in things)

    def seconds_until_bound(self, *names, since=None, limit=90):
        """Return the seconds until these pods are bound, or None if the time limit is exceeded."""
        since = since or time.monotonic()
        try:
            wait_for("the pods are bound", lambda: self.bound(*names), limit)
        except AssertionError:
            return None
        return round(time.monotonic() - since, 2)

    def start(self, policy=None, *arguments):
        """Start the scheduler."""
        server = self.proxy.url
        policy = policy or self.bench.policies["DefaultProvider"]
        command = [*SCHEDULER, "--server", server, "--policy", str(policy), *arguments]
        if self.who == KUBE:
            command = [f"--master={server}" if word.startswith("--master=") else word
                       for word in self.bench.command(BY_PROXY, "DefaultProvider")]
        with open(self.folder / f"{self.who}.log", "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.began = time.monotonic()

    def start_and_wait(self, *arguments):
        """Start the scheduler, and wait for its first attempt to place a pod."""
        self.start(*arguments)
        self.create(pod("warm", nodeSelector=NOWHERE, priorityClassName="negative"))
        wait_for("the scheduler has tried a pod", lambda: self.pods()["warm"]["status"].get("conditions"), 90)

    def deleted(self):
        """Return the paths of the pods that the scheduler has sent a DELETE for."""
        return [asked.path.partition("?")[0] for asked in self.proxy.sent("delete") if "/pods/" in asked.path]

    def meanwhile(self, function):
        """Call a function repeatedly in a thread, with a session and a number, until the end."""
        def work():
            session, number = requests.Session(), 0
            while not self.stop.is_set():
                function(session, number)
                number += 1

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.threads.append(thread)

    def end(self):
        """Stop everything; return the peak memory of the process, and if it is still alive."""
        self.stop.set()
        for thread in self.threads:
            thread.join(10)
        if not self.process:
            return {}
        is_there = self.process.poll() is None
        memory = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())[1] if is_there else 0
        self.process.kill()
        self.process.wait()
        self.proxy.stop()
        return {"MiB": int(memory) // 1024, "alive": is_there}


# --- preemption (each row returns its figures)


def recreated(attack):
    """20 victims that their controller recreates at once; each DELETE takes 0.3 s."""
    small = {"cpu": "1"}
    attack.create(node("n", cpu="20", labels={"of": "n"}), node("m", cpu="1", labels={"m": "1"}))
    attack.create(*(pod(f"v{i}", small, nodeName="n", priorityClassName="low", terminationGracePeriodSeconds=0) for i in range(20)))
    attack.start_and_wait(None, "--preempt")
    attack.proxy.delays["delete"] = 0.3
    known = {f"v{i}" for i in range(20)}

    def control(session, number):
        for name in known - attack.pods().keys():
            known.remove(name)
            known.add(f"r-{number}-{name}")
            attack.create(pod(f"r-{number}-{name}", small, priorityClassName="low", terminationGracePeriodSeconds=0, nodeSelector={"of": "n"}))
        time.sleep(0.05)

    attack.meanwhile(control)
    began = time.monotonic()
    attack.create(pod("p", {"cpu": "19"}, priorityClassName="high"))
    time.sleep(1)
    attack.create(pod("other", {"cpu": "500m"}, priorityClassName="high", nodeSelector={"m": "1"}))
    others = attack.seconds_until_bound("other")
    return {"bound": attack.seconds_until_bound("p", since=began), "others": others, "deleted": len(attack.deleted())}


def budget_of_one(attack):
    """A budget allows one disruption; 25 pods preempt in one pass, each on a node with a pod of that budget."""
    budgets = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
    attack.call("DELETE", budgets)
    attack.create(*(node(f"n{i}", cpu="2", labels={"n": str(i)}) for i in range(25)))
    attack.create(*(pod(f"a{i}", {"cpu": "1"}, nodeName=f"n{i}", labels={"app": "a"}, priorityClassName="low") for i in range(25)),
                  *(pod(f"b{i}", {"cpu": "1"}, nodeName=f"n{i}", priorityClassName="middle") for i in range(25)))
    for i in range(25):
        attack.patch(f"a{i}", {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}, part="/status")
    attack.call("POST", budgets, {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
                                  "spec": {"minAvailable": 24, "selector": {"matchLabels": {"app": "a"}}}})
    wait_for("one disruption is allowed", lambda: attack.call("GET", f"{budgets}/b").json().get("status", {}).get("disruptionsAllowed") == 1)
    attack.start_and_wait(None, "--preempt")
    attack.create(*(pod(f"p{i}", {"cpu": "1"}, priorityClassName="high", nodeSelector={"n": str(i)}) for i in range(25)))
    wait_for("all are nominated", lambda: sum("nominatedNodeName" in each["status"] for each in attack.pods().values()) == 25)
    time.sleep(2)
    going = [name for name, thing in attack.pods().items() if "deletionTimestamp" in thing["metadata"]]
    return {"of the budget": sum(name[0] == "a" for name in going), "others'": sum(name[0] == "b" for name in going),
            "deleted": len(attack.deleted())}


def hanging_delete(attack):
    """A DELETE hangs for 12 s and is answered 500; the preemptor is deleted at 10.8 s."""
    attack.create(node("n", cpu="1"))
    attack.create(pod("v", {"cpu": "1"}, nodeName="n", priorityClassName="low", terminationGracePeriodSeconds=0))
    attack.start_and_wait(None, "--preempt")
    first = []

    def hang_once(request):
        if first:
            request.answer(*request.carry_out())
            return
        first.append(time.monotonic())
        request.pause(12)
        request.answer(500, failure(500))

    attack.proxy.faults["delete"] = hang_once
    attack.create(pod("p", {"cpu": "1"}, priorityClassName="high", terminationGracePeriodSeconds=0))
    wait_for("the DELETE is sent", lambda: first)
    time.sleep(10.8)
    attack.call("DELETE", "/api/v1/namespaces/default/pods/p", params={"gracePeriodSeconds": 0})
    time.sleep(9)
    return {"deleted": len(attack.deleted()), "the victim lives": "v" in attack.pods()}


def held_victim(attack):
    """The victim is a pod that waits for `permit`, under a configuration. Only for this scheduler."""
    attack.create(node("n", cpu="1"))
    plugin, configuration = attack.folder / "hold.py", attack.folder / "hold.json"
    plugin.write_text(HOLD)
    configuration.write_text(json.dumps(HOLDING))
    attack.start_and_wait(configuration, "--plugins", str(plugin))
    attack.create(pod("low", {"cpu": "1"}, priorityClassName="low", terminationGracePeriodSeconds=0))
    wait_for("the pod is held", lambda: "does not permit" in json.dumps(attack.pods()["low"]["status"]))
    attack.create(pod("p", {"cpu": "1"}, priorityClassName="high"))
    bound = attack.seconds_until_bound("p")
    time.sleep(2)
    return {"bound": bound, "deleted": len(attack.deleted()), "the victim lives": "low" in attack.pods()}


def annotated_victims(attack):
    """20 pods of priority -10 whose annotations are patched in turn, 100 times a second in total."""
    attack.create(node("n", cpu="20"))
    attack.create(*(pod(f"v{i}", {"cpu": "1"}, nodeName="n", priorityClassName="negative", terminationGracePeriodSeconds=0) for i in range(20)))
    attack.start_and_wait(None, "--preempt")
    for k in range(4):
        def annotate(session, number, k=k):
            attack.patch(f"v{k + number % 5 * 4}", {"metadata": {"annotations": {"t": str(number)}}}, session)
            time.sleep(0.03)

        attack.meanwhile(annotate)
    time.sleep(1)
    attack.create(pod("p", {"cpu": "1"}, priorityClassName="high"))
    return {"bound": attack.seconds_until_bound("p"), "deleted": len(attack.deleted())}


def mirror_pod(attack, policy=None):
    """The victim is a mirror pod that its kubelet recreates before the DELETE is answered, for 40 s."""
    def mirror(number):
        metadata = {"annotations": {"kubernetes.io/config.mirror": "abc", "kubernetes.io/config.source": "file"},
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}]}
        return pod(f"v{number}", {"cpu": "2"}, nodeName="n", priorityClassName="low", terminationGracePeriodSeconds=0, metadata=metadata)

    attack.create(node("n", cpu="2"))
    attack.create(mirror(0))
    attack.start_and_wait(policy, "--preempt")
    deletions = []

    def recreate(request):
        deletions.append(request.asked.path)
        answer = request.carry_out()
        attack.create(mirror(len(deletions)))
        request.answer(*answer)

    attack.proxy.faults["delete"] = recreate
    attack.create(pod("p", {"cpu": "2"}, priorityClassName="high"))
    return {"bound": attack.seconds_until_bound("p", limit=40), "deleted": len(deletions)}


def many_budgets(attack, nodes=50, each=50, budgets=300):
    """Ten pods preempt on 50 nodes with 50 pods each, all selected by each of 300 budgets."""
    path = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
    attack.call("DELETE", path)
    attack.create(*(node(f"n{i:02}", cpu=str(each), pods="500") for i in range(nodes)), node("spare", cpu="1", labels={"is": "spare"}))
    attack.create(*(pod(f"v{i}-{j}", {"cpu": "1"}, nodeName=f"n{i:02}", priorityClassName="low", labels={"x": f"{i}-{j}"},
                        terminationGracePeriodSeconds=0) for i in range(nodes) for j in range(each)))
    for i in range(budgets):
        attack.call("POST", path, {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": f"b{i}"}, "spec": {
            "minAvailable": 0, "selector": {"matchExpressions": [{"key": "x", "operator": "NotIn", "values": [f"z{i}"]}]}}})
    attack.start_and_wait(None, "--preempt")
    time.sleep(2)
    began = time.monotonic()
    names = [f"p{i}" for i in range(10)]
    attack.create(*(pod(name, {"cpu": "3"}, priorityClassName="high", namespace="rest") for name in names))
    attack.create(pod("other", {"cpu": "500m"}, nodeSelector={"is": "spare"}))
    others = attack.seconds_until_bound("other", since=began)
    wait_for("all are bound", lambda: sum(key.startswith("rest/p") for key in attack.plane.placements()) == len(names), 120)
    return {"bound": round(time.monotonic() - began, 2), "others": others, "deleted": len(attack.deleted())}


# --- tenants


def large_name(attack, size=1_000_000, rate=10, **spec):
    """A pending pod of another scheduler with a name of 1 MB, patched 10 times a second."""
    attack.create(*(node(f"n{i}") for i in range(10)))
    attack.create(pod("foreign", schedulerName="x" * size, **spec))
    attack.start_and_wait()

    def annotate(session, number):
        attack.patch("foreign", {"metadata": {"annotations": {"t": str(number)}}}, session)
        time.sleep(1 / rate)

    attack.meanwhile(annotate)
    time.sleep(3)
    attack.create(*(pod(f"o{i}") for i in range(10)))
    return {"others": attack.seconds_until_bound(*(f"o{i}" for i in range(10)))}


def versions(attack):
    """2,000 pods are pending, 8,000 others are running, and one of another scheduler is patched 20 times a second."""
    attack.create(*(node(f"n{i:02}", cpu="64", pods="500") for i in range(100)))
    attack.create(*(pod(f"there-{i}", {"cpu": "10m"}, nodeName=f"n{i % 100:02}", namespace="rest") for i in range(8000)))
    attack.create(pod("foreign", schedulerName="another"), *(pod(f"stuck-{i}", nodeSelector=NOWHERE) for i in range(2000)))

    def annotate(session, number):
        attack.patch("foreign", {"metadata": {"annotations": {"t": str(number)}}}, session)
        time.sleep(0.05)

    attack.meanwhile(annotate)
    attack.start_and_wait()
    attack.create(pod("first"))
    attack.seconds_until_bound("first")
    time.sleep(10)
    attack.proxy.asked.clear()
    began, waits = time.monotonic(), []
    for i in range(10):
        attack.create(pod(f"o{i}"))
        waits.append(attack.seconds_until_bound(f"o{i}"))
        time.sleep(1)
    time.sleep(max(0, began + 30 - time.monotonic()))
    return {"others": max(waits, key=lambda wait: wait or 999), "lists": len(attack.proxy.sent("list"))}


def claims(attack, count=1500):
    """1,500 pods with claims that wait for their first consumer, until a node is selected for each."""
    path = "namespaces/default/persistentvolumeclaims"
    attack.call("DELETE", f"/api/v1/{path}")
    attack.call("POST", "/apis/storage.k8s.io/v1/storageclasses", storage_class("wait", "example.com/csi"))
    attack.create(*(node(f"n{i}", cpu="100", pods="500") for i in range(20)))
    attack.create(*(claim(f"c{i}", of="wait") for i in range(count)))
    attack.start_and_wait()
    api_server = attack.plane.processes[1]
    began, before = time.monotonic(), [cpu_seconds(each) for each in (attack.process, api_server)]
    attack.create(*(pod(f"p{i}", {"cpu": "10m"}, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": f"c{i}"}}])
                    for i in range(count)))
    created = time.monotonic() - began
    attack.create(pod("other"))
    others = attack.seconds_until_bound("other")

    def selected():
        items = attack.plane.get(path)["items"]
        return sum("volume.kubernetes.io/selected-node" in each["metadata"].get("annotations", {}) for each in items)

    while selected() < count and time.monotonic() < began + 150:
        time.sleep(0.3)
    took = [cpu_seconds(each) - was for each, was in zip((attack.process, api_server), before)]
    return {"bound": round(time.monotonic() - began, 1), "others": others, "created in": round(created, 1),
            "CPU": round(took[0], 1), "its API server's": round(took[1], 1)}


# --- HTTP


def http_row(attack, count, prepare):
    """Bind this number of pods while HTTP is broken, and count their events."""
    attack.create(*(node(f"n{i:02}", cpu="64", pods="500") for i in range(20)))
    attack.create(*(pod(f"o{i}") for i in range(count)))
    prepare(attack.proxy)
    attack.start()
    bound = attack.seconds_until_bound(*(f"o{i}" for i in range(count)), since=attack.began)
    limit = time.monotonic() + 20

    def events():
        items = attack.plane.get("events", params={"fieldSelector": "reason=Scheduled"})["items"]
        return sum(each["involvedObject"]["name"].startswith("o") for each in items)

    while events() < count and time.monotonic() < limit:
        time.sleep(0.1)
    attack.proxy.asked.clear()
    return {"bound": bound, "events": events(), "injected": sum(attack.proxy.injected.values())}


def nonsense(proxy):
    """Answer the first three lists and Bindings with a Content-Length of 10^20, or a chunk of size -5."""
    def odd(request):
        asked, handler = request.asked, request.handler
        proxy.injected[asked.kind] += 1
        number = proxy.injected[asked.kind]
        if number > 3:
            proxy.injected[asked.kind] -= 1
            request.answer(*request.carry_out())
        elif number % 2:
            request.carry_out()
            request.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000000000000000000\r\n\r\n{}")
            handler.close_connection = True
        else:
            request.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n0\r\n\r\n")
            handler.close_connection = True

    proxy.faults |= {"list": odd, "binding": odd}


def idle_closed(proxy):
    """Close a reused connection instead of answering, for three of ten requests."""
    def close(request):
        handler = request.handler
        handler.times = getattr(handler, "times", 0) + 1
        if handler.times > 1 and proxy.dice.random() < 0.3:
            handler.close_connection = True
        else:
            request.answer(*request.carry_out())

    proxy.dice = random.Random(1)
    proxy.faults |= dict.fromkeys(HTTP_KINDS, close)


def always_closed(proxy):
    """Send Connection: close with each answer; streams end with the connection."""
    proxy.closes = True


def early_hints(proxy):
    """Send 103 Early Hints before each answer."""
    proxy.before_each = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"


def lists_of_closed(attack):
    """Each answer has Connection: close; streams end with the connection. Lists are counted for 20 s."""
    figures = http_row(attack, 20, always_closed)
    time.sleep(20)
    return figures | {"lists": len(attack.proxy.sent("list"))}


@dataclass
class Row:
    """An attack, and the figures that are expected regardless of kube-scheduler."""

    play: callable
    exactly: dict = field(default_factory=dict)
    is_ours_only: bool = False  # for a feature that kube-scheduler 1.20 lacks


ROWS = {
    "20 victims recreated": Row(recreated),
    "a budget of one, 25 preemptors": Row(budget_of_one, {"of the budget": 1, "others'": 24}),
    "a DELETE hangs for 12 s": Row(hanging_delete, {"deleted": 1, "the victim lives": True}),
    "the victim waits for permit": Row(held_victim, {"deleted": 0, "the victim lives": True}, is_ours_only=True),
    "victims annotated 100 times a second": Row(annotated_victims, {"deleted": 1}),
    "a mirror pod recreated": Row(mirror_pod),
    "2,500 victims, 300 budgets": Row(many_budgets),
    "schedulerName of 1 MB": Row(large_name),
    "2,000 stuck, a foreign pod changes": Row(versions, {"lists": 0}),
    "1,500 claims": Row(claims),
    "Content-Length 10^20": Row(functools.partial(http_row, count=20, prepare=nonsense), {"events": 20}),
    "idle connections closed": Row(functools.partial(http_row, count=300, prepare=idle_closed), {"events": 300}),
    "Connection: close": Row(lists_of_closed, {"events": 20, "lists": 0}),
    "103 Early Hints": Row(functools.partial(http_row, count=100, prepare=early_hints), {"events": 100}),
}


def exceeded_limits(row, ours, theirs):
    """Yield a message for each figure that is not as it should be."""
    if not ours["alive"]:
        yield "the process has ended"
    for name, value in row.exactly.items():
        if ours[name] != value:
            yield f"{name} is {ours[name]}, not {value}"
    for name, times in (("bound", 2), ("others", 1)):
        if name in ours and theirs.get(name) is not None and not (ours[name] or 999) <= times * theirs[name] + 1:
            yield f"{name}: more than {times} times {theirs[name]} s and a second"
        if name in ours and ours[name] is None and not theirs:
            yield f"{name}: never"
    if ours.get("deleted", 0) > theirs.get("deleted", ours.get("deleted", 0)):
        yield "more DELETEs than kube-scheduler"


def play(bench, folder, row, who):
    """Play a row with a scheduler; return its figures."""
    bench.plane.clear()
    attack = Attack(bench, folder, who)
    figures = {}
    try:
        figures = row.play(attack)
    finally:
        figures |= attack.end()
    return figures


def new_bench(folder):
    """Start a control plane with priority classes, a namespace for other pods, and the disruption controller."""
    bench = Bench(folder)
    bench.plane.request("POST", "namespaces", {"metadata": {"name": "rest"}})
    for name, value in LEVELS.items():
        requests.post(f"{bench.plane.server}/apis/scheduling.k8s.io/v1/priorityclasses", timeout=60,
                      json={"metadata": {"name": name}, "value": value})
    bench.plane.start("kube-controller-manager", f"--kubeconfig={bench.plane.kubeconfig()}", "--controllers=disruption",
                      "--leader-elect=false", "--port=0", "--secure-port=0", "--use-service-account-credentials=false")
    return bench


def main():
    """Play the rows and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="part of the title of a row to play; without any, all are played")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=[OURS, KUBE], help="play with this scheduler only, without a comparison")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = new_bench(Path(folder))
        try:
            for title in [each for each in ROWS if not options.rows or any(words in each for words in options.rows)]:
                row = ROWS[title]
                for _ in range(options.rounds):
                    found = {}
                    for who in [options.only] if options.only else [OURS] if row.is_ours_only else [KUBE, OURS]:
                        found[who] = play(bench, Path(folder), row, who)
                        figures = ", ".join(f"{name} {value}" for name, value in found[who].items())
                        print(f"{title:38} {who:17} {figures}", flush=True)
                    if OURS in found:
                        broken = [*exceeded_limits(row, found[OURS], found.get(KUBE, {}))]
                        wrong += bool(broken)
                        print(*(f"    broken: {text}" for text in broken), sep="\n", end="\n" if broken else "", flush=True)
        finally:
            bench.plane.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
