"""Faults on a real etcd and kube-apiserver: the script must lose no pod, bind none twice, and overcommit no node.

    KUBEBUILDER_ASSETS=... python tests/bench/faults.py [--seed N] [--short] [--scenario NAME ...]

Each scenario has nodes with room for hardly more than the pods, and a proxy in front of kubectl proxy that injects faults
(reproducible with the seed). The result is read from the API server, past that proxy. Columns: `lost` pods have no node in
the end although there is room; `double` ones have been bound twice or moved; `overcommitted` nodes have pods beyond their
capacity; `broken` counts other failures, which are listed below the row; `recovery` is the time in seconds from the end
of the fault until the last pod was bound. The long form takes a quarter of an hour. The short form takes a minute and a
half, and leaves out what tests/extras covers: signals, Leases, and kills of the script and of kubectl proxy. The exit
code is 1 if a column is not 0 that should be.
"""

import argparse
import functools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests


sys.path.insert(0, str(Path(__file__).parent.parent))
from helpers.control_plane import ControlPlane, wait_for
from helpers.extras import Command, claim, node, pod, storage_class, volume
from helpers.faults import DEADLINE, FEW, LEASE
from helpers.faulty import Choice, FaultProxy


ETCD, API_SERVER = 0, 1  # their indexes among the processes of a control plane
CURSED = "a-cursed"  # a namespace whose pods are not bound; it is first in alphabetical order
LATE = 60  # seconds of tolerance for a busy machine
COLUMNS = ("fault", "injected", "pods", "lost", "double", "overcommitted", "broken", "recovery")


class Trial:
    """A cluster on which a scenario is played, and the results."""

    def __init__(self, control_plane, folder, name, seed, short):
        self.plane, self.folder, self.name, self.short = control_plane, folder, name, short
        self.random, self.seed = random.Random(f"{seed} {name}"), seed
        self.proxies, self.schedulers, self.counted = [], [], 0
        self.proxy = self.new_proxy()
        self.nodes, self.expected = {}, 0
        self.place, self.moved, self.full, self.broken, self.remarks = {}, set(), set(), [], []
        self.excused = set()  # nodes that a former leader has bound pods to
        self.injected, self.recovery, self.finished = 0, 0, False
        self.replace = lambda: None  # starts another replica

    # --- the cluster

    def new_proxy(self):
        """Return a proxy that injects faults."""
        self.proxies.append(FaultProxy(self.plane.proxy_port, f"{self.seed} {self.name} {len(self.proxies)}"))
        return self.proxies[-1]

    def size(self, long, short):
        """Return the size for the long or the short form."""
        return short if self.short else long

    def make(self, objects):
        """Create objects."""
        sessions = [requests.Session() for _ in range(8)]

        def work(session, things):
            for thing in things:
                space = thing["metadata"].get("namespace")
                where = f"{self.plane.server}/api/v1/" + (f"namespaces/{space}/pods" if space else "nodes")
                answer = session.post(where, json=thing)
                assert answer.ok, answer.text

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, sessions, (objects[i::8] for i in range(8))))

    def fill(self, nodes=None, pods=None, each=None, cpu=100, before=()):
        """Create empty nodes with room for `each` pods, and pods that barely fit.

        Pods in `before` are created first, and not counted.
        """
        nodes, pods = nodes or self.size(48, 8), pods or self.size(900, 100)
        each = each or -(-pods // nodes)
        self.plane.clear()
        self.nodes = {f"node-{i:02}": each * cpu for i in range(nodes)}
        self.make([node(name, cpu=f"{amount}m") for name, amount in self.nodes.items()])
        if before:
            self.make(before)
            time.sleep(1.1)  # they are older by a second
        self.make([pod(f"pod-{i:03}", {"cpu": f"{cpu}m"}) for i in range(pods)])
        self.expected = pods

    def start(self, *arguments, proxy=None):
        """Start the scheduler with its output in files."""
        number = len(self.schedulers)
        out, err = (open(self.folder / f"{number}.{end}", "wb") for end in ("out", "err"))
        with open(os.devnull) as nothing, out, err:
            process = Command(["--server", (proxy or self.proxy).url, *arguments], nothing, out, err)
        process.number, process.started, process.killed = number, time.monotonic(), False
        self.schedulers.append(process)
        return process

    def message(self, process):
        """Return the standard error of a scheduler so far."""
        return (self.folder / f"{process.number}.err").read_text(errors="replace")

    def kill(self, process):
        """Kill a scheduler."""
        process.killed = True
        process.kill()
        process.wait()

    def restart(self, index, program):
        """Kill a program of the control plane, and restart it after two seconds; return the time of the restart."""
        process = self.plane.processes[index]
        process.kill()
        process.wait()
        self.injected += 1
        time.sleep(2)
        ended = time.monotonic()
        self.plane.start(program, *process.args[1:])
        self.plane.processes[index] = self.plane.processes.pop()
        wait_for(f"{program} is back", self.plane.ready)
        return ended

    def restart_proxy(self):
        """Kill kubectl proxy, and restart it after two seconds; return the time of the restart."""
        self.plane.proxy.kill()
        self.plane.proxy.wait()
        self.injected += 1
        time.sleep(2)
        ended = time.monotonic()
        self.plane.start_proxy()
        wait_for("the proxy is back", self.plane.ready)
        return ended

    def bindings(self, *proxies):
        """Return the Bindings that were carried out."""
        return [asked for proxy in proxies or self.proxies for asked in proxy.sent("binding")
                if asked.status in (200, 201)]

    def wait_for_bindings(self, count, *proxies):
        """Wait until this number of Bindings was carried out."""
        wait_for(f"{count} pods are bound", lambda: (
            self.keep_one_running() or len(self.bindings(*proxies)) >= count))

    def keep_one_running(self):
        """Start another replica if all have lost their Lease, as on a busy machine."""
        if all(process.poll() == 1 for process in self.schedulers):
            self.replace()

    # --- results

    def look(self):
        """Read the pods from the API server; record moved pods and overcommitted nodes. Return the pods."""
        items, used = self.plane.get("pods")["items"], Counter()
        for item in items:
            uid, place = item["metadata"]["uid"], item["spec"].get("nodeName")
            if self.place.setdefault(uid, place) not in (None, place):
                self.moved.add(uid)
            self.place[uid] = place
            if place:
                requests_made = item["spec"]["containers"][0].get("resources", {}).get("requests", {})
                used[place] += int(requests_made.get("cpu", "0m").removesuffix("m"))
        self.full |= {name for name, amount in used.items() if amount > self.nodes[name]}
        return items

    def bound(self):
        """Return how many pods have a node, or 0 while the API server does not answer."""
        try:
            return sum("nodeName" in item["spec"] for item in self.look() if item["metadata"]["namespace"] == "default")
        except (requests.RequestException, AssertionError):
            return 0

    def wait_until_bound(self, seconds):
        """Wait until all pods are bound, but at most this long; return true if they are."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.bound() >= self.expected:
                return True
            self.keep_one_running()
            time.sleep(0.5)
        return False

    def settle(self, ended=None, seconds=90):
        """Wait until all pods are bound. The time from `ended` until then is the recovery."""
        ended = ended or time.monotonic()
        self.finished = self.wait_until_bound(seconds)
        last = max((asked.done for asked in self.bindings()), default=ended) if self.finished else time.monotonic()
        self.recovery = max(last - ended, 0)

    def check(self, is_fulfilled, message):
        """Record a failure if a condition is false."""
        if not is_fulfilled:
            self.broken.append(message)

    def end(self):
        """Stop everything; return the row of the table."""
        for process in self.schedulers:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.schedulers:
            try:
                process.wait(5 + LATE)
            except subprocess.TimeoutExpired:
                self.check(False, "the scheduler did not end within 5 s of SIGTERM")
                process.kill()
                process.wait()
        for proxy in self.proxies:
            proxy.stop()
        wait_for("the control plane is back", self.plane.ready)
        bound = self.bound()
        for process in self.schedulers:
            text = self.message(process) + (self.folder / f"{process.number}.out").read_text(errors="replace")
            self.check("Traceback" not in text, f"there was a traceback: {text[text.find('Traceback'):][-300:]}")
        double = Counter((asked.pod, asked.json["metadata"].get("uid")) for asked in self.bindings())
        return dict(zip(COLUMNS, (
            self.name, self.injected + sum(sum(proxy.injected.values()) for proxy in self.proxies), self.expected,
            max(self.expected - bound, 0), len(self.moved) + sum(times > 1 for times in double.values()),
            len(self.full - self.excused), len(self.broken), f"{self.recovery:.1f}")))

    def cancel(self):
        """Kill the schedulers, and stop the proxies."""
        for process in self.schedulers:
            process.kill()
            process.wait()
        for proxy in self.proxies:
            proxy.stop()


# --- the scenarios, each as a function of the trial


def random_answers(trial, rate):
    """Answers are wrong, truncated, late or lost at random."""
    trial.fill()
    trial.proxy.rates[""] = rate
    trial.start()
    trial.wait_until_bound(trial.size(40, 10))
    trial.proxy.rates.clear()
    trial.settle()


def proxy_killed(trial):
    """kubectl proxy is killed in the middle of a pass, and restarted."""
    trial.fill()
    trial.start()
    trial.wait_for_bindings(20)
    for _ in range(trial.size(3, 1)):
        ended = trial.restart_proxy()
        time.sleep(trial.size(1, 0))
    trial.settle(ended)


def program_killed(trial, index, program):
    """A program of the control plane is killed in the middle of a pass, and restarted."""
    trial.fill()
    trial.start()
    trial.wait_for_bindings(20)
    trial.settle(trial.restart(index, program))


def program_stopped(trial, index):
    """A program of the control plane is suspended for a while in the middle of a pass."""
    trial.fill()
    trial.start()
    trial.wait_for_bindings(20)
    process = trial.plane.processes[index]
    process.send_signal(signal.SIGSTOP)
    trial.injected += 1
    try:
        time.sleep(trial.size(12, 5))
    finally:
        process.send_signal(signal.SIGCONT)
    ended = time.monotonic()
    wait_for("the control plane is back", trial.plane.ready)
    trial.settle(ended)


def scheduler_killed(trial):
    """The script is killed in the middle of a pass, and restarted."""
    trial.fill()
    kill_after(trial, 0.1, 0.3, 0.6)
    trial.start()
    trial.settle()


def kill_after(trial, *shares):
    """For each share, start the script, and kill it when that share of the pods is bound."""
    for share in shares:
        process = trial.start()
        trial.wait_for_bindings(int(share * trial.expected))
        trial.kill(process)
        trial.injected += 1


def configuration_of_replicas(trial):
    """Write a configuration with leader election; return its path."""
    config = trial.folder / "config.json"
    config.write_text(json.dumps({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "leaderElection": {
            "leaderElect": True, "resourceName": f"trial-{time.time_ns()}", "leaseDuration": f"{LEASE}s",
            "renewDeadline": f"{DEADLINE}s", "retryPeriod": "500ms"}}))
    return config


def replicas(trial):
    """Start two replicas; the first one leads, and its Bindings are slow. Return both replicas and their proxies."""
    config = configuration_of_replicas(trial)
    trial.fill(pods=trial.size(900, 200))  # three times the number of threads, so that some Bindings are still queued
    proxies = trial.proxy, trial.new_proxy()
    proxies[0].delays["binding"] = 0.5  # leaves some pods for the other replica
    first = trial.start("--policy", config, proxy=proxies[0])
    trial.wait_for_bindings(1)
    second = trial.start("--policy", config, proxy=proxies[1])
    trial.replace = lambda: trial.start("--policy", config, proxy=proxies[1])
    trial.wait_for_bindings(20)
    return first, second, *proxies


def judge_deposed(trial, proxy, since):
    """Check that the old leader sends few Bindings from this time on.

    A Binding in flight cannot be stopped. The new leader may give its room to another pod, as with kube-scheduler.
    """
    late = [asked for asked in proxy.sent("binding") if asked.at > since]
    trial.excused |= {asked.json["target"]["name"] for asked in late if asked.status == 201}
    trial.check(len(late) <= FEW, f"{len(late)} Bindings were sent by a former leader")
    trial.remarks.append(f"{len(late)} Bindings of the old leader were in flight")


def leader_stopped(trial):
    """The leader is suspended until another replica leads, and then continues."""
    first, _, old, new = replicas(trial)
    first.send_signal(signal.SIGSTOP)
    trial.injected += 1
    stopped = time.monotonic()
    try:
        trial.wait_for_bindings(5, new)
    finally:
        first.send_signal(signal.SIGCONT)
    continued = time.monotonic()
    trial.settle(stopped)
    try:
        trial.check(first.wait(15 + LATE) == 1, f"the old leader ended with exit code {first.returncode}, not 1")
    except subprocess.TimeoutExpired:
        trial.check(False, f"the old leader still ran {15 + LATE} s after it continued")
    judge_deposed(trial, old, continued)


def lease_fails(trial, fault):
    """Only the leader's requests about its Lease fail."""
    first, _, old, _ = replicas(trial)
    old.faults["lease"] = fault
    since = time.monotonic()
    try:
        code = first.wait(30 + LATE)
        trial.check(code == 1, f"the old leader ended with exit code {code}, not 1")
        taken = time.monotonic() - since
        trial.check(taken < DEADLINE + 3 + LATE, f"the old leader ended {taken:.1f} s after its last Lease, not {DEADLINE}")
    except subprocess.TimeoutExpired:
        trial.check(False, f"the old leader still ran {30 + LATE} s after its last Lease")
    trial.settle(since)
    judge_deposed(trial, old, since + DEADLINE)


def seconds_to_bind(trial, rates, faults, limit):
    """Bind pods with these faults, for at most `limit` seconds; return how long it took."""
    trial.proxy.rates, trial.proxy.faults = {}, {"": Choice(trial.proxy.throw)}
    trial.fill(nodes=trial.size(48, 12), pods=trial.size(600, 60), before=[pod(f"cursed-{i}", namespace=CURSED) for i in range(3)])
    trial.proxy.rates, trial.proxy.faults = rates, {"": Choice(trial.proxy.throw)} | faults
    lists = len(trial.proxy.sent("list"))
    process = trial.start()
    wait_for("pods are listed", lambda: len(trial.proxy.sent("list")) > lists)
    trial.settle(trial.proxy.sent("list")[lists].at, limit)  # without the start of Python
    process.terminate()
    process.wait()
    return trial.recovery


def held_up(trial, rates=None, faults=None):
    """Check that 600 pods without faults take less than 1.5 times as long beside pods with faults.

    In the short form, they may take ten seconds longer.
    """
    trial.proxy.delays |= {"binding": 0.2, "event": 0.02}  # as with a distant API server
    without = seconds_to_bind(trial, {}, {}, 90)
    limit = trial.size(1.5 * without, without + 10)
    for _attempt in range(2):  # a pod may be hit several times by chance, or the machine may be busy
        taken = seconds_to_bind(trial, rates or {}, faults or {}, 2 * limit)
        trial.remarks.append(f"{trial.expected} pods: {without:.1f} s without faults, {taken:.1f} s with them")
        if taken < limit:
            return
    trial.check(False, f"with the faults the pods took {taken / without:.1f} times as long")
    trial.proxy.rates, trial.proxy.faults = {}, {}
    trial.start()
    trial.wait_until_bound(90)  # no pod is lost


def namespace_fails(trial):
    """All writes about the pods of one namespace fail, as with an admission webhook that does not answer."""
    fault = Choice(lambda asked: "500 before" if f"/namespaces/{CURSED}/" in asked.path else None)
    held_up(trial, faults=dict.fromkeys(("binding", "event", "status"), fault))


def some_500s(trial):
    """One answer in twenty is a 500."""
    trial.proxy.at_random = ["500 before", "500 after"]
    held_up(trial, rates={"": 0.05})


def nodes_recreated(trial):
    """Nodes are deleted in the middle of a pass, and recreated."""
    trial.fill()
    trial.proxy.delays["binding"] = 0.02
    trial.start()
    trial.wait_for_bindings(20)
    names = trial.random.sample(sorted(trial.nodes), len(trial.nodes) // 4)
    for name in names:
        trial.plane.request("DELETE", f"nodes/{name}")
    trial.injected += len(names)
    time.sleep(2)
    trial.make([node(name, cpu=f"{trial.nodes[name]}m") for name in names])
    trial.settle()


def conditions_fail(trial):
    """Conditions of pending pods are written late, or not at all; in the end, no bound pod has the condition of a pending one."""
    trial.fill()
    trial.proxy.rates["status"] = 0.3
    trial.proxy.delays["status"] = 1
    names = sorted(trial.nodes)[::4]
    for name in names:
        trial.plane.request("DELETE", f"nodes/{name}")
    trial.start()
    wait_for("a pod fits nowhere", lambda: trial.proxy.sent("status"), 60)
    time.sleep(3)
    trial.make([node(name, cpu=f"{trial.nodes[name]}m") for name in names])
    trial.settle()
    time.sleep(10)  # for late writes
    wrong = [key for key, each in trial.plane.pods().items() if "nodeName" in each["spec"] and any(
        (condition["type"], condition["status"]) == ("PodScheduled", "False")
        for condition in each["status"].get("conditions", []))]
    trial.check(not wrong, f"{len(wrong)} bound pods have the condition of a pending one: {', '.join(wrong[:3])}")


BUDGETS = f"apis/policy/v1beta1/namespaces/{CURSED}/poddisruptionbudgets"
VICTIMS_EACH = 2  # victims per important pod
FAULTS_OF_DELETIONS = ["500 before", "500 after", "reset before", "reset after", "cut", "lost"]


def crowd(trial):
    """Fill nodes with unimportant pods, some protected by a budget. Important pods need the room of three in four of them."""
    trial.plane.clear()
    url = trial.plane.server
    requests.post(f"{url}/apis/scheduling.k8s.io/v1/priorityclasses", json={"metadata": {"name": "important"}, "value": 100})
    requests.delete(f"{url}/{BUDGETS}")
    answer = requests.post(f"{url}/{BUDGETS}", json={
        "metadata": {"name": "budget"}, "spec": {"selector": {"matchLabels": {"app": "a"}}}})
    assert answer.ok, answer.text
    trial.nodes = {f"node-{i:02}": 400 for i in range(trial.size(24, 6))}
    trial.make([node(name, cpu="400m") for name in trial.nodes])
    trial.make([pod(f"victim-{i}-{name}", {"cpu": "100m"}, namespace=CURSED, labels={"app": "ab"[i % 2]}, nodeName=name)
                for name in trial.nodes for i in range(4)])
    trial.expected = 3 * len(trial.nodes) // 2
    trial.make([pod(f"pod-{i:03}", {"cpu": "200m"}, priorityClassName="important") for i in range(trial.expected)])


def change_budget(trial):
    """Change the number of disruptions that the budget allows."""
    requests.patch(f"{trial.plane.server}/{BUDGETS}/budget/status", json={"status": {"disruptionsAllowed": trial.random.randint(0, 9)}},
                   headers={"Content-Type": "application/merge-patch+json"})


def end_victims(trial, is_over):
    """End terminating pods, as kubelets do, after a second; every eighth one takes 30 seconds, or five in the short form."""
    since = {}
    while not is_over.wait(0.2):
        for item in trial.plane.get(f"namespaces/{CURSED}/pods")["items"]:
            name = item["metadata"]["name"]
            needed = trial.size(30, 5) if name.startswith("victim-0") and name.endswith(("0", "5")) else 1
            if "deletionTimestamp" in item["metadata"] and time.monotonic() > since.setdefault(name, time.monotonic()) + needed:
                trial.plane.request("DELETE", f"namespaces/{CURSED}/pods/{name}", params={"gracePeriodSeconds": 0})


def settle_while_victims_end(trial):
    """Wait until all important pods are bound, while victims end; check which pods have been deleted."""
    is_over = threading.Event()
    kubelets = threading.Thread(target=end_victims, args=(trial, is_over))
    kubelets.start()
    try:
        trial.settle(seconds=trial.size(240, 150))
    finally:
        is_over.set()
        kubelets.join()
    asked = [each for proxy in trial.proxies for each in proxy.sent("delete")]
    answered, again = set(), []
    for each in sorted(asked, key=lambda each: each.at):
        if each.path in answered:
            again.append(each.path)
        if each.status == 200 and not each.fault:
            answered.add(each.path)
    trial.check(not again, f"{len(again)} pods were deleted again after a successful answer: {again[:3]}")
    gone = 4 * len(trial.nodes) - len([each for each in trial.look() if each["metadata"]["namespace"] == CURSED
                                       and "deletionTimestamp" not in each["metadata"]])
    needed, failed = VICTIMS_EACH * trial.expected, sum(each.fault is not None for each in asked)
    trial.remarks.append(f"{gone} pods were deleted for {trial.expected}, which needed {needed}; {failed} deletions had faults")
    most = needed + VICTIMS_EACH * failed  # after a fault, another node may be the best candidate
    trial.check(needed <= gone <= most, f"{gone} pods were deleted, where {needed} were needed, and {failed} deletions had faults")


def deletions_fail(trial):
    """Deletions of victims fail, or get no answer; some victims take 30 s; a budget changes before the deletions."""
    crowd(trial)
    trial.proxy.at_random = FAULTS_OF_DELETIONS
    trial.proxy.rates["delete"] = 0.3
    trial.proxy.faults["delete"] = Choice(lambda asked: change_budget(trial) or trial.proxy.throw(asked))
    trial.start("--preempt")
    settle_while_victims_end(trial)


def deposed_before_deletions(trial):
    """The leader is suspended between its deletions until another replica leads, and then continues."""
    crowd(trial)
    config, old, new = configuration_of_replicas(trial), trial.proxy, trial.new_proxy()
    stopped, stop_at = threading.Event(), trial.random.randint(1, trial.size(20, 6))

    def stop_leader(asked):
        """Suspend the leader at one of its deletions."""
        if len(old.sent("delete")) >= stop_at and not stopped.is_set():
            stopped.set()
            first.send_signal(signal.SIGSTOP)

    old.faults["delete"] = Choice(stop_leader)
    first = trial.start("--policy", config, proxy=old)
    wait_for("the leader is suspended", stopped.is_set)
    trial.injected += 1
    trial.start("--policy", config, proxy=new)
    trial.replace = lambda: trial.start("--policy", config, proxy=new)
    try:
        wait_for("the other replica deletes", lambda: new.sent("delete"), 60 + LATE)
    finally:
        continued = time.monotonic()
        first.send_signal(signal.SIGCONT)
    settle_while_victims_end(trial)
    late = [asked for asked in old.sent("delete") if asked.at > continued]
    trial.check(not late, f"{len(late)} pods were deleted by a former leader")
    try:
        trial.check(first.wait(15 + LATE) == 1, f"the old leader ended with exit code {first.returncode}, not 1")
    except subprocess.TimeoutExpired:
        trial.check(False, f"the old leader still ran {15 + LATE} s after it continued")


def signals(trial):
    """SIGTERM or SIGINT arrives while an answer is overdue."""
    trial.fill()
    cases = [("list", "hang", signal.SIGTERM), ("binding", "hang", signal.SIGINT), ("list", "trickle", signal.SIGINT),
             ("binding", "trickle", signal.SIGTERM), ("event", "hang", signal.SIGTERM)]
    for kind, fault, number in cases[:trial.size(5, 2)]:
        trial.proxy.faults[kind] = fault
        before = trial.proxy.injected[fault]
        process = trial.start()
        wait_for(f"a {kind} is answered with {fault}", lambda: trial.proxy.injected[fault] > before)
        time.sleep(0.5)
        process.send_signal(number)
        try:
            process.wait(5 + LATE)
        except subprocess.TimeoutExpired:
            trial.check(False, f"{number.name} did not end the script within 5 s while a {kind} was answered with {fault}")
            trial.kill(process)
        del trial.proxy.faults[kind]
    trial.start()
    trial.settle()


def everything(trial):
    """One answer in twenty is wrong, and the script, kubectl proxy and the API server are killed, too."""
    trial.fill()
    trial.proxy.rates[""] = 0.05
    kill_after(trial, 0.2, 0.4)
    trial.start()
    trial.restart_proxy()
    time.sleep(3)
    trial.restart(API_SERVER, "kube-apiserver")
    time.sleep(3)
    trial.proxy.rates.clear()
    trial.settle()


def hostile_objects(trial):
    """Return costly objects of a tenant: pods, a claim, and many volumes that do not match it."""
    often, nodes = trial.size(20_000, 2_000), len(trial.nodes)
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}}
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term] * often}}

    def listening(first):
        """Return a container with many host ports."""
        return {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": first + i} for i in range(often)]}

    def large(number):
        """Return a large pod that fits nowhere."""
        container = {"name": "c", "image": "i", "env": [{"name": "E", "value": "x" * trial.size(1_200_000, 100_000)}],
                     "resources": {"requests": {"cpu": "99"}}}
        return pod(f"large-{number}", namespace=CURSED, containers=[container])

    pods = [pod("affine", namespace=CURSED, affinity=affinity),
            *(pod(f"listening-{first}", namespace=CURSED, containers=[listening(first)]) for first in (1, 20_001)),
            pod("claiming", namespace=CURSED, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
            *(large(number) for number in range(trial.size(40, 10)))]
    wanted = claim(metadata={"namespace": CURSED, "annotations": {}}, selector={"matchLabels": {"own": "none"}})
    terms = [[{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [f"node-{i:02}"]}]}]
             for i in range(nodes)]
    volumes = [volume(f"disk-{i}", nodeAffinity={"required": {"nodeSelectorTerms": term}},
                      local={"path": "/disk"}) for i, term in enumerate(terms)]
    return pods, wanted, volumes


def make_hostile(trial):
    """Create costly objects, pods with managedFields that are deeply nested or not UTF-8, and pods of many schedulers."""
    pods, wanted, volumes = hostile_objects(trial)
    classes = f"{trial.plane.server}/apis/storage.k8s.io/v1/storageclasses"
    requests.delete(classes)
    requests.post(classes, json=storage_class("local"))
    trial.plane.request("DELETE", "persistentvolumes")
    trial.plane.request("DELETE", f"namespaces/{CURSED}/persistentvolumeclaims")
    trial.plane.request("POST", f"namespaces/{CURSED}/persistentvolumeclaims", wanted)
    for each in volumes:
        made = trial.plane.request("POST", "persistentvolumes", each)
        trial.plane.request("PUT", f"persistentvolumes/{each['metadata']['name']}/status", made | {
            "status": {"phase": "Available"}})
    for name, fields in (("deep", b'{"f:a": ' * 1100 + b"{}" + b"}" * 1100), ("odd", b'{"f:\xff": {}}')):
        thing = pod(name, namespace=CURSED, metadata={"managedFields": [{
            "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "FIELDS"}]})
        answer = requests.post(f"{trial.plane.server}/api/v1/namespaces/{CURSED}/pods", headers={
            "Content-Type": "application/json"}, data=json.dumps(thing).encode().replace(b'"FIELDS"', fields))
        assert answer.ok, answer.text
    trial.make(pods)
    for number in range(trial.size(30, 3)):  # names of schedulers that must not be kept
        others = [pod(f"other-{i}", namespace=CURSED, schedulerName=f"{number}-{i}-{'x' * 200}") for i in range(50)]
        trial.make(others)
        for each in others:
            trial.plane.request("DELETE", f"namespaces/{CURSED}/pods/{each['metadata']['name']}",
                                params={"gracePeriodSeconds": 0})
    trial.injected += len(pods) + 2


def wait_as_victims(trial, process):
    """Create small pods of another tenant, one after another; return the longest wait in seconds, and peak MiB."""
    waits = []
    for number in range(trial.expected):
        trial.make([pod(f"victim-{number}", {"cpu": "100m"})])
        made = time.monotonic()
        path = f"namespaces/default/pods/victim-{number}"
        wait_for("the pod is bound", lambda path=path: trial.plane.get(path)["spec"].get("nodeName"), 120)
        waits.append(time.monotonic() - made)
        if number == 0:  # the scheduler has started
            make_hostile(trial)
    memory = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text()).group(1)
    return max(waits[1:]), int(memory) // 1024


def hostile_tenant(trial):
    """One tenant creates the costliest objects. Pods of others must wait hardly longer than with kube-scheduler."""
    trial.expected, seen = trial.size(40, 10), {}
    program = trial.plane.assets / "kube-scheduler"
    for name in ["kube-scheduler", "scheduler.py"] if program.exists() else ["scheduler.py"]:
        trial.plane.clear()
        trial.nodes = {f"node-{i:02}": 4000 for i in range(trial.size(1000, 100))}
        trial.make([node(each, labels={"kubernetes.io/hostname": each}) for each in trial.nodes])
        if name == "scheduler.py":
            # Without the proxy in this process, which is busy creating pods; kube-scheduler does not use it either.
            process = trial.start("--policy=DefaultProvider", f"--server={trial.plane.server}")
        else:
            process = subprocess.Popen([
                program, "--kubeconfig", trial.plane.kubeconfig(), "--port=0", "--secure-port=0", "--leader-elect=false",
                "--scheduler-name=my-scheduler"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen[name] = wait_as_victims(trial, process)
        trial.remarks.append(f"{name}: others wait for {seen[name][0]:.1f} s at most; {seen[name][1]} MiB")
        process.terminate()
        process.wait()
        requests.delete(f"{trial.plane.server}/api/v1/namespaces/{CURSED}/pods/deep", params={"gracePeriodSeconds": 0})
    trial.settle()
    seconds, memory = seen.get("kube-scheduler", (1, 100))
    trial.check(seen["scheduler.py"][0] < seconds + 1, "others wait a second longer than with kube-scheduler")
    trial.check(seen["scheduler.py"][1] < memory + 300, "the script uses 300 MiB more than kube-scheduler")


SCENARIOS = {  # name: (function, True if it belongs to the short form)
    "5 % of the answers wrong, truncated, late or lost": (functools.partial(random_answers, rate=0.05), False),
    "10 % of the answers wrong, truncated, late or lost": (functools.partial(random_answers, rate=0.1), True),
    "30 % of the answers wrong, truncated, late or lost": (functools.partial(random_answers, rate=0.3), False),
    "kubectl proxy killed": (proxy_killed, False),
    "API server killed": (functools.partial(program_killed, index=API_SERVER, program="kube-apiserver"), True),
    "API server stopped": (functools.partial(program_stopped, index=API_SERVER), False),
    "etcd killed": (functools.partial(program_killed, index=ETCD, program="etcd"), False),
    "etcd stopped": (functools.partial(program_stopped, index=ETCD), True),
    "the script killed": (scheduler_killed, False),
    "the leader stopped": (leader_stopped, True),
    "lease requests hang": (functools.partial(lease_fails, fault="hang"), False),
    "lease requests trickle": (functools.partial(lease_fails, fault="trickle"), False),
    "lease requests fail": (functools.partial(lease_fails, fault="500 before"), False),
    "one namespace fails": (namespace_fails, True),
    "5 % of the answers 500": (some_500s, False),
    "nodes recreated": (nodes_recreated, True),
    "conditions late or lost": (conditions_fail, False),
    "deletions of victims fail": (deletions_fail, True),
    "the leader deposed before it deletes victims": (deposed_before_deletions, False),
    "signals while answers hang": (signals, False),
    "a hostile tenant": (hostile_tenant, False),
    "kills and faults at once": (everything, False),
}


def play(control_plane, name, seed, short):
    """Play a scenario; return its row, its failures and remarks."""
    namespaces = f"{control_plane.server}/api/v1/namespaces"
    requests.post(namespaces, json={"metadata": {"name": CURSED}})  # unless it exists already
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(control_plane, Path(folder), name, seed, short)
        try:
            SCENARIOS[name][0](trial)
            return trial.end(), trial.broken, trial.remarks
        finally:
            trial.cancel()


def all_zero(row):
    """Return true if a row has no failures."""
    return not any(row[column] for column in ("lost", "double", "overcommitted", "broken"))


def line(values):
    """Return a line of the table."""
    return "  ".join(f"{value!s:{'<52' if i == 0 else f'>{len(COLUMNS[i])}'}}" for i, value in enumerate(values))


def main():
    """Play the scenarios and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--short", action="store_true", help="fewer scenarios, pods and nodes")
    parser.add_argument("--scenario", nargs="+", metavar="NAME", help="only scenarios with this in their name")
    options = parser.parse_args()
    names = [name for name, (_, short) in SCENARIOS.items() if (
        any(part in name for part in options.scenario) if options.scenario else short or not options.short)]
    started, wrong = time.monotonic(), 0
    print(f"seed {options.seed}", line(COLUMNS), sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        control_plane = ControlPlane(os.environ["KUBEBUILDER_ASSETS"], Path(folder))
        try:
            for name in names:
                row, broken, remarks = play(control_plane, name, options.seed, options.short)
                wrong += not all_zero(row)
                print(line(row.values()), *(f"    broken: {text}" for text in broken),
                      *(f"    {text}" for text in remarks), sep="\n", flush=True)
        finally:
            control_plane.stop()
    print(f"{len(names) - wrong} of {len(names)} scenarios all zeros, in {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
