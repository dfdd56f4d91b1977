"""The memory and the cache of the script over some minutes, with churn and some faults.

    KUBEBUILDER_ASSETS=... python tests/bench/soak.py [--minutes 10] [--faults 0.01] [--seed N]

On a real etcd and kube-apiserver, pods are created and deleted, including some that fit nowhere, nodes are deleted and
recreated, and a share of the answers is wrong, truncated, late or lost. The exit code is 1 if the script uses more
memory in the last quarter than in the second one, or more threads or sockets (and more than its writing threads need),
or if its cache differs from a fresh list at the end. Ten minutes are some thousands of passes.
"""

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

import requests


sys.path.insert(0, str(Path(__file__).parent.parent))
from helpers.control_plane import ControlPlane
from helpers.extras import ROOT, node, pod
from helpers.faulty import FaultProxy
from scheduler_extras.live.thread_pool import THREADS


COLUMNS = ("seconds", "pods created", "faults", "MiB", "threads", "sockets")
SLACK = {"MiB": 4, "threads": 1, "sockets": 2}  # the growth that is allowed
# Up to this number is no leak: threads that write start on demand, and stay, with a socket each.
ENOUGH = {"threads": THREADS + 16, "sockets": THREADS + 16}
# The program with a comparison of its cache with a fresh list at its end.
COMPARING = """
import sys

from scheduler_extras import command_line, runs
from scheduler_extras.api.client import PooledProxy
from scheduler_extras.common.clocks import STOP
from scheduler_extras.live.cluster import LiveCluster

def known(cluster):
    return cluster.cache.pods.keys(), {
        name: (sorted((pod.uid, *pod.requests.items()) for pod in node.pods.values()), node.requested, node.nonzero)
        for name, node in cluster.cache.snapshot.nodes.items()}

clusters = []
runs.LiveCluster = lambda *settings, **more: clusters.append(LiveCluster(*settings, **more)) or clusters[0]
command_line.main()
STOP.clear()
fresh = LiveCluster(Writer(PooledProxy(sys.argv[-1])))
fresh.updated_snapshot()
if known(clusters[0]) != known(fresh):
    sys.exit("the cache differs from a fresh list")
"""
NODES = 12
SETTLED = 15  # seconds after the last fault for the remaining events and writes


def measure(pid):
    """Return a process's memory in MiB, its threads, and its sockets."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    sockets = 0
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            sockets += os.readlink(file).startswith("socket:")
    return int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"]), sockets


def churn(server, dice, done, made):
    """Create pods, delete old ones, and recreate nodes, until `done`."""
    session, there, number = requests.Session(), deque(), 0
    while not done.wait(dice.uniform(0.05, 0.25)):
        number += 1
        odd = {} if dice.random() < 0.9 else {"nodeSelector": {"disk": f"none-{number}"}}
        session.post(f"{server}/api/v1/namespaces/default/pods", json=pod(f"pod-{number}", {"cpu": "100m"}, **odd))
        there.append(f"pod-{number}")
        if len(there) > 100:
            session.delete(f"{server}/api/v1/namespaces/default/pods/{there.popleft()}",
                           params={"gracePeriodSeconds": 0})
        if number % 10 == 0:
            name = f"node-{dice.randrange(NODES):02}"
            session.delete(f"{server}/api/v1/nodes/{name}")
            session.post(f"{server}/api/v1/nodes", json=node(name, cpu=f"{dice.randint(2, 8)}", pods="50"))
        made[0] = number


def grown(samples):
    """Yield (name, before, after) for each figure that has grown."""
    quarter = len(samples) // 4
    for i, name in enumerate(COLUMNS):
        if name in SLACK:
            before = max(sample[i] for sample in samples[quarter:2 * quarter])
            after = max(sample[i] for sample in samples[-quarter:])
            if after > max(before * 1.03 + SLACK[name], ENOUGH.get(name, 0)):
                yield name, before, after


def main():
    """Run the script, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--faults", type=float, default=0.01, help="the share of answers that are wrong")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}", "  ".join(COLUMNS), sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        control_plane = ControlPlane(os.environ["KUBEBUILDER_ASSETS"], Path(folder))
        proxy = FaultProxy(control_plane.proxy_port, options.seed)
        done, made, samples = threading.Event(), [0], []
        with open(Path(folder) / "errors", "wb") as errors:
            process = subprocess.Popen([sys.executable, "-c", COMPARING, "--interval=0.02", "--server", proxy.url],
                                       cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors)
        worker = threading.Thread(
            target=churn, args=[control_plane.server, random.Random(options.seed), done, made], daemon=True)
        try:
            control_plane.create(*(node(f"node-{i:02}", pods="50") for i in range(NODES)))
            proxy.rates[""] = options.faults
            worker.start()
            started = time.monotonic()
            while time.monotonic() < started + 60 * options.minutes and process.poll() is None:
                time.sleep(2)
                proxy.asked.clear()
                samples.append((time.monotonic() - started, made[0], sum(proxy.injected.values()),
                                *measure(process.pid)))
                if len(samples) % 5 == 0:
                    print("  ".join(f"{value:{len(name)}.0f}" for name, value in zip(COLUMNS, samples[-1])), flush=True)
            ended = process.poll()
            done.set()
            worker.join(10)
            proxy.rates.clear()
            time.sleep(SETTLED)
        finally:
            done.set()
            process.terminate()
            process.wait()
            proxy.stop()
            control_plane.stop()
        message = (Path(folder) / "errors").read_text(errors="replace")
    problems = [f"{name} have grown from {before:.0f} to {after:.0f}" for name, before, after in grown(samples)]
    problems += ["the script ended by itself"] * (ended is not None) + ["there was a traceback"] * ("Traceback" in message)
    problems += [message.splitlines()[-1]] * (ended is None and process.returncode != 0)
    print(*problems or ["no growth, and the cache equals a fresh list"], sep="\n")
    print(f"it printed {len(message.splitlines())} lines; the last one: {message.splitlines()[-1][:150]}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
