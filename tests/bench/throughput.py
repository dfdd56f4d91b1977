"""The speed of this scheduler and of kube-scheduler 1.20 under the same Policy, in turn on one machine.

    KUBEBUILDER_ASSETS=... python tests/bench/throughput.py [--rounds 3] [--only WORDS] [PART ...]

The parts (without arguments, all are run):

binding    pods/s for pods that are all pending when a scheduler starts, on a real etcd and kube-apiserver: `bound`, from
           the first to the last Binding; `events`, from the first Binding until each pod has its event, too. Streams
           are long, as short ones favour a scheduler that delays events. The schedulers are kube-scheduler with its
           default limit (50 requests a second), without that limit, the latter with JSON through kubectl proxy, the
           tutorials' Bash loop (which writes no events), and this script, which always uses kubectl proxy. The figures
           are medians of the rounds. --only WORDS selects rows by a part of their title.
coming     the time from the creation of a new pod each second to its Binding, among many running pods; and the CPU of
           the scheduler and the API server, in percent of a core, also while one pod is stuck.
beside     a second scheduler fills the same nodes: how many pods are bound beyond the capacity of their node, compared
           with two kube-schedulers.
deciding   decisions/s without HTTP by the number of nodes; and the time for 100 different pods that fit nowhere.
listening  the cost of --listen: decisions/s without HTTP, with and without it; then pods/s and CPU with a control plane,
           also while a page is open and receives 300 pods a second.

CPU seconds and MiB (peak) are the scheduler's own. The machine should have nothing else to do.
"""

import argparse
import contextlib
import functools
import gc
import itertools
import json
import math
import multiprocessing
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

import requests


sys.path.insert(0, str(Path(__file__).parent.parent))
from helpers.control_plane import ControlPlane, free_port
from helpers.extras import ROOT, SCHEDULER, claim, node, pod, storage_class
from helpers.policies import load_policies
from scheduler_extras.live.cluster import LiveCluster
from scheduler_extras.live.pod_record import PodRecord
from scheduler_extras.manifests.in_memory_writer import WriterOfManifests
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.runs import attach_journal
from scheduler_extras.serve.metrics import Observations
from scheduler_extras.show.journal import UNWATCHED, Journal


FULL = {  # a Policy with rules about other pods
    "kind": "Policy", "apiVersion": "v1",
    "predicates": [{"name": name} for name in (
        "GeneralPredicates", "PodToleratesNodeTaints", "NoDiskConflict", "MatchInterPodAffinity", "EvenPodsSpread")],
    "priorities": [{"name": name, "weight": 1} for name in (
        "LeastRequestedPriority", "BalancedResourceAllocation", "SelectorSpreadPriority", "TaintTolerationPriority",
        "NodeAffinityPriority", "InterPodAffinityPriority")]}
TURNS = 120  # in the part `listening`
LIFTED = "kube-scheduler, no limit"
BY_PROXY = "kube-scheduler, by proxy"  # the same with JSON through kubectl proxy, as this script uses it
OURS, LISTENING, WATCHED = "scheduler.py", "with --listen", "with a page open"
BASH = """while true; do
  for pod in $(KUBECTL -s SERVER get pods -o json | jq -r '.items[] |
      select(.spec.schedulerName == "my-scheduler" and .spec.nodeName == null) | .metadata.name'); do
    nodes=($(KUBECTL -s SERVER get nodes -o json | jq -r '.items[].metadata.name'))
    node=${nodes[$((RANDOM % ${#nodes[@]}))]}
    curl -s -o /dev/null -X POST -H Content-Type:application/json SERVER/api/v1/namespaces/default/pods/$pod/binding -d '
      {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "'$pod'"},
       "target": {"apiVersion": "v1", "kind": "Node", "name": "'$node'"}}'
  done
  sleep 1
done"""
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


class Bench:
    """A control plane with a cluster, and helpers that run schedulers on it."""

    def __init__(self, folder):
        self.plane = ControlPlane(os.environ["KUBEBUILDER_ASSETS"], folder)
        (folder / "full.json").write_text(json.dumps(FULL))
        self.policies = {"policy.json": ROOT / "policy.json", "full": folder / "full.json"}
        (folder / "default.json").write_text(json.dumps({"kind": "Policy", "apiVersion": "v1"}))
        self.policies["DefaultProvider"] = folder / "default.json"
        self.page = free_port()  # for --listen
        self.session = threading.local()
        self.metrics = requests.Session()  # uncompressed and on one connection, so that measuring costs little
        self.metrics.headers.update({"Authorization": "Bearer admin", "Accept-Encoding": "identity"})

    def create(self, things):
        """Create objects, several at a time."""
        def post(thing):
            if not hasattr(self.session, "of"):
                self.session.of = requests.Session()
            namespace = thing["metadata"].get("namespace", "default")
            kinds = f"{thing['kind'].lower()}s"
            where = kinds if thing["kind"] in ("Node", "Namespace") else f"namespaces/{namespace}/{kinds}"
            root = "api/v1" if thing["apiVersion"] == "v1" else f"apis/{thing['apiVersion']}"
            for _ in range(5):
                answer = self.session.of.post(f"{self.plane.server}/{root}/{where}", json=thing, timeout=60)
                if answer.status_code < 500:
                    break
                time.sleep(1)  # etcd was too slow; the object may exist all the same
            assert answer.ok or answer.status_code == 409, answer.text

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(post, things))

    def delete_pods(self, pods, **params):
        """Delete the pods in the namespaces of these pods; a label selector may be given."""
        for namespace in {thing["metadata"]["namespace"] for thing in pods}:
            self.plane.request("DELETE", f"namespaces/{namespace}/pods", params={"gracePeriodSeconds": 0, **params})

    def command(self, name, policy):
        """Return the command of a scheduler."""
        if name == "Bash loop":
            text = BASH.replace("KUBECTL", str(self.plane.assets / "kubectl")).replace("SERVER", self.plane.server)
            return ["bash", "-c", text]
        if name in (OURS, LISTENING, WATCHED):
            more = ["--listen", str(self.page)] if name != OURS else []
            return [*SCHEDULER, "--server", self.plane.server, "--policy", str(self.policies[policy]), *more]
        limit = ["--kube-api-qps=5000", "--kube-api-burst=5000"] if name != "kube-scheduler" else []
        if name == BY_PROXY:
            limit += [f"--master={self.plane.server}", "--kube-api-content-type=application/json"]
        return [str(self.plane.assets / "kube-scheduler"), "--kubeconfig", str(self.plane.kubeconfig()), "--port=0",
                "--secure-port=0", "--leader-elect=false", "--scheduler-name=my-scheduler",
                "--policy-config-file", str(self.policies[policy]), *limit]

    def bindings(self):
        """Return how many Bindings the API server has accepted since its start."""
        metrics = self.metrics.get(f"https://127.0.0.1:{self.plane.port}/metrics", verify=False, timeout=60)
        return sum(int(float(line.split()[-1])) for line in metrics.content.splitlines()
                   if line.startswith(b'apiserver_request_total{code="201"') and b'subresource="binding"' in line)

    def events(self):
        """Return the number of events without listing all of them, which would disturb the measurement."""
        answer = self.metrics.get(f"https://127.0.0.1:{self.plane.port}/api/v1/events", verify=False,
                                  params={"limit": 1}, timeout=60).json()
        return len(answer["items"]) + answer["metadata"].get("remainingItemCount", 0)

    def start(self, name, policy, scheduler_name="my-scheduler"):
        """Start a scheduler."""
        command = [word.replace("my-scheduler", scheduler_name) for word in self.command(name, policy)]
        keep_compiled = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}  # modules, as is Python's default
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                env=keep_compiled)

    def end(self, process):
        """End a scheduler; return its CPU seconds and its peak MiB."""
        memory = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text()).group(1)
        cpu = cpu_seconds(process)
        os.killpg(process.pid, 15)
        process.wait(30)
        return cpu, int(memory) // 1024

    def measure(self, process, function):
        """Call a function; return its result, and the CPU of a scheduler and the API server meanwhile, in percent."""
        measured = (process, self.plane.processes[1])
        began, before = time.monotonic(), [cpu_seconds(each) for each in measured]
        answer = function()
        took = time.monotonic() - began
        return answer, [100 * (cpu_seconds(each) - was) / took for each, was in zip(measured, before)]

    def latencies(self, make_pod, count):
        """Create make_pod(i) about once a second; return the milliseconds from the creation of each to its Binding.

        The intervals vary, so as not to be in step with a scheduler's own intervals.
        """
        times = {}  # (name, True if it has a node) -> the time of the first such event
        path = f"{self.plane.server}/api/v1/pods"
        query = {"watch": "1", "labelSelector": "alone=yes", "timeoutSeconds": count + 20}
        answer = requests.get(path, params=query, stream=True)

        def watch():
            for line in answer.iter_lines():
                thing = json.loads(line)["object"]
                times.setdefault((thing["metadata"]["name"], "nodeName" in thing["spec"]), time.monotonic())

        watching = threading.Thread(target=watch)
        watching.start()
        made = []
        for i in range(count):
            made.append(make_pod(i))
            made[-1]["metadata"] |= generated(f"alone-{time.time_ns():x}", i)
            made[-1]["metadata"]["labels"] |= {"alone": "yes"}
            self.create(made[-1:])
            time.sleep(random.uniform(0.5, 1.5))
        watching.join()
        waits = [1000 * (times[name, True] - times[name, False]) for name, bound in times if bound]
        assert len(waits) == count, f"{len(waits)} of {count} pods are bound"
        self.delete_pods(made, labelSelector="alone=yes")
        return waits

    def run(self, name, policy, pods):
        """Create pods, and let a scheduler bind them; return a Result."""
        self.delete_pods(pods, labelSelector="assigned!=before")
        for namespace in {thing["metadata"]["namespace"] for thing in pods}:
            self.plane.request("DELETE", f"namespaces/{namespace}/events")
        self.create(pods)
        time.sleep(2)
        before = self.bindings()
        began = time.monotonic()
        first = last = None  # (time, number of Bindings)
        process = self.start(name, policy)
        while not last or last[1] < len(pods):
            assert process.poll() is None and time.monotonic() < began + 600, f"{name}: {last} of {len(pods)}"
            time.sleep(0.1)
            count = self.bindings() - before
            if count:
                last = time.monotonic(), count
                first = first or last
        events = 0 if name != "Bash loop" else math.inf
        while events < len(pods):
            assert process.poll() is None and time.monotonic() < last[0] + 60, f"{name}: {events} of {len(pods)} events"
            time.sleep(0.05)
            events = self.events()
        reported = time.monotonic()
        cpu, memory = self.end(process)
        count = last[1] - first[1]
        return Result(count / max(last[0] - first[0], 0.1), count / max(reported - first[0], 0.1),
                      cpu, memory)


def cpu_seconds(process):
    """Return the CPU seconds of a process so far."""
    user, system = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@dataclass
class Result:
    """The figures of a run."""

    bound: float  # pods a second
    events: float  # likewise
    cpu: float  # seconds
    memory: int  # MiB


def nodes(count, mixed=False):
    """Return nodes in three zones, with taints and labels on some of them if `mixed`."""
    return [node(f"node-{i:04}", cpu="32", memory="128Gi", pods="250", labels={
        HOSTNAME: f"node-{i:04}", ZONE: f"zone-{i % 3}", **({"disk": "ssd"} if mixed and i % 4 == 0 else {})},
        **({"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]} if mixed and i % 10 == 0 else {}))
        for i in range(count)]


def generated(prefix, i):
    """Return the metadata of a pod with a generated name, as a ReplicaSet's pods have."""
    letters = "bcdfghjklmnpqrstvwxz2456789"  # as the API server uses them
    return {"generateName": f"{prefix}-", "name": f"{prefix}-" + "".join(
        letters[i // len(letters)**place % len(letters)] for place in range(5))}


def equal_pods(count, own_names=False):
    """Return pods that differ only in their names, which are generated or individual."""
    return [pod("", {"cpu": "100m", "memory": "128Mi"}, labels={"app": "web"},
                metadata={"name": f"pod-{i:05}"} if own_names else generated("pod", i)) for i in range(count)]


def mixed_pods(count, kinds=200, prefix="pod", **more):
    """Return pods of many kinds: with tolerations, node affinity, spread constraints, affinity, services."""
    things = []
    for i in range(count):
        kind, spec = i * 7919 % kinds, dict(more)
        app = f"app-{kind % 50}"
        selector = {"matchLabels": {"app": app}}
        if kind % 5 == 0:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if kind % 5 == 1:
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector},
                {"maxSkew": 2, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}]
        if kind % 5 == 2:
            spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": selector}}]}}
        if kind % 5 == 3:
            spec["affinity"] = {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}},
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": selector}}]}}
        labels = {"app": app, "kind": str(kind), **({"assigned": "before"} if more else {})}
        things.append(pod("", {"cpu": f"{50 + kind}m", "memory": "64Mi"}, labels=labels,
                          metadata=generated(prefix, i), **spec))
    return things


COMPANY = "300 nodes, 3,000 ReplicaSets in 20 namespaces, 500 Services"


def owned_pod(i, app, **spec):
    """Return a pod of the ReplicaSet of an app, with the labels and owner of a Deployment's pod."""
    labels = {"app": f"app-{app}", "pod-template-hash": f"{app:x}"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{app}", "uid": f"uid-{app}", "controller": True}
    return pod("", {"cpu": "10m", "memory": "64Mi"}, namespace=f"team-{app % 20}", labels=labels,
               metadata=generated(f"app-{app}-{app:x}", i) | {"ownerReferences": [owner]}, **spec)


def company():
    """Return the namespaces, the ReplicaSets with a pod each, and the Services of a company."""
    things = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{i}"}} for i in range(20)]
    for app in range(3000):
        placed = owned_pod(0, app, nodeName=f"node-{app % 300:04}")
        things.append(selecting("ReplicaSet", f"app-{app}", dict(placed["metadata"]["labels"]), "apps/v1"))
        if app < 500:
            things.append(selecting("Service", f"app-{app}", {"app": f"app-{app}"}))
        for thing in things[-2:] if app < 500 else things[-1:]:
            thing["metadata"]["namespace"] = f"team-{app % 20}"
        placed["metadata"]["labels"]["assigned"] = "before"
        things.append(placed)
    return things


def binding(bench, rounds, only):
    """Measure how fast pods are bound."""
    services = [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"app-{i}", "namespace": "default"},
                 "spec": {"selector": {"app": f"app-{i}"}, "ports": [{"port": 80}]}} for i in range(0, 50, 4)]
    ours = "scheduler.py"
    parts = [
        ("10 nodes, 200 equal pods", nodes(10), equal_pods(200), [("policy.json", ["Bash loop", ours])]),
        ("500 nodes, 1,000 equal pods", nodes(500), equal_pods(1000), [("policy.json", ["kube-scheduler", ours])]),
        ("500 nodes, 6,000 equal pods", nodes(500), equal_pods(6000), [("policy.json", [LIFTED, BY_PROXY, ours])]),
        ("500 nodes, 6,000 equal pods with individual names", nodes(500), equal_pods(6000, own_names=True), [
            ("policy.json", [LIFTED, BY_PROXY, ours])]),
        ("5,000 nodes, 4,000 equal pods", nodes(5000), equal_pods(4000), [("policy.json", [LIFTED, BY_PROXY, ours])]),
        ("1,000 nodes, 10,000 pods on them, 2,000 pods of 200 kinds", nodes(1000, mixed=True), mixed_pods(2000), [
            ("full", [LIFTED, BY_PROXY, ours])]),
        (f"{COMPANY}, a rollout of 600 pods", nodes(300), [owned_pod(1 + i // 30, i % 30) for i in range(600)], [
            ("DefaultProvider", [LIFTED, BY_PROXY, ours])]),
    ]
    for title, cluster, pods, contests in [part for part in parts if only in part[0]]:
        bench.plane.clear()
        bench.create(cluster)
        if "200 kinds" in title:
            assigned = mixed_pods(10000, prefix="assigned", nodeName="")
            for i, thing in enumerate(assigned):
                thing["spec"]["nodeName"] = cluster[i % len(cluster)]["metadata"]["name"]
            bench.create(assigned + services)
        if COMPANY in title:
            bench.create(company()[:20])
            bench.create(company()[20:])
        print(f"\n{title}\n{'Policy':12} {'':26}  bound events  CPU s   MiB", flush=True)
        for policy, names in contests:
            results = {name: [] for name in names}
            for _ in range(rounds):
                for name in names:
                    results[name].append(bench.run(name, policy, pods))
            medians = {}
            for name, runs in results.items():
                medians[name] = Result(**{part.name: statistics.median(getattr(run, part.name) for run in runs)
                                          for part in fields(Result)})
                every = ", ".join(f"{run.bound:.0f}/{run.events:.0f}" for run in runs)
                print(f"{policy:12} {name:26} {medians[name].bound:6.0f} {medians[name].events:6.0f} "
                      f"{medians[name].cpu:6.1f} {medians[name].memory:5.0f}  ({every})", flush=True)
            for name in names[:-1]:
                print(f"{policy:12} ratio to {name}: {medians[ours].bound / medians[name].bound:.2f} bound, "
                      f"{medians[ours].events / medians[name].events:.2f} with events", flush=True)


SCENES = {  # nodes, equal pods on them, the size of each pod in bytes; and the Policy
    "2,000 nodes, 20,000 pods": (2000, 20000, 3000, "policy.json"),
    "5,000 nodes, 50,000 small pods": (5000, 50000, 0, "policy.json"),
    "5,000 nodes, 150,000 small pods": (5000, 150000, 0, "DefaultProvider"),  # the most that Kubernetes supports
    COMPANY: (300, 0, 0, "DefaultProvider"),
}


def alone_pod(i):
    """Return a pod without an owner."""
    return pod("", {"cpu": "10m"}, labels={"app": "app-1"})


def selecting(kind, name, selector, version="v1"):
    """Return a Service or a ReplicaSet that selects pods by a label."""
    template = {"metadata": {"labels": selector}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    spec = {"selector": selector, "clusterIP": "None"} if kind == "Service" else {
        "selector": {"matchLabels": selector}, "template": template, "replicas": 0}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def coming(bench, rounds, only):
    """Measure the wait of single new pods, and the CPU while one pod is stuck."""
    for title, (node_count, pod_count, size, policy) in SCENES.items():
        if only not in title:
            continue
        bench.plane.clear()
        bench.create(nodes(node_count))
        there = equal_pods(pod_count)
        for i, thing in enumerate(there):
            thing["spec"]["nodeName"] = f"node-{i % node_count:04}"
            thing["metadata"] |= generated("assigned", i) | {"annotations": {"filler": "x" * size}}
        bench.create(there)
        make_pod = alone_pod
        if title == COMPANY:
            bench.create(company()[:20])
            bench.create(company()[20:])
            make_pod = functools.partial(owned_pod, 1)
        print(f"\n{title}\n{'':26} created to bound, ms: median, worst   CPU %: scheduler, API server;  one stuck   MiB",
              flush=True)
        for _ in range(rounds):
            for name in (LIFTED, BY_PROXY, "scheduler.py"):
                process = bench.start(name, policy)
                time.sleep(20 + pod_count // 3000)  # until it has listed everything
                waits, busy = bench.measure(process, lambda: bench.latencies(make_pod, 30))
                bench.create([pod("stuck", {"cpu": "64"})])
                time.sleep(15)
                _, waiting = bench.measure(process, lambda: time.sleep(30))
                memory = bench.end(process)[1]
                bench.plane.request("DELETE", "namespaces/default/pods/stuck", params={"gracePeriodSeconds": 0})
                print(f"{name:26} {statistics.median(waits):26.1f} {max(waits):7.1f} {busy[0]:21.1f} {busy[1]:6.1f} "
                      f"{waiting[0]:14.1f} {waiting[1]:5.1f} {memory:8}", flush=True)


def beside(bench, rounds, only):
    """Measure how many pods are bound beyond the capacity of nodes while another scheduler fills the same nodes."""
    for node_count, pod_count in ((200, 1600), (1000, 8000)):
        if only not in f"{pod_count} pods":
            continue
        print(f"\n{pod_count} pods for {node_count} nodes with room for {pod_count}, half of them another scheduler's", flush=True)
        for _ in range(rounds):
            for name in (LIFTED, "scheduler.py"):
                bench.plane.clear()
                bench.create([node(f"node-{i:04}", cpu="800m", pods="250") for i in range(node_count)])
                there = equal_pods(pod_count)
                for i, thing in enumerate(there):
                    thing["spec"]["schedulerName"] = ("my-scheduler", "other")[i % 2]
                processes = [bench.start(name, "policy.json"), bench.start(LIFTED, "policy.json", "other")]
                time.sleep(5)
                bench.create(there)
                time.sleep(20 + pod_count / 200)
                for process in processes:
                    bench.end(process)
                counts = Counter(bench.plane.placements().values())
                beyond = sum(max(count - 8, 0) for count in counts.values())
                print(f"{name:26} {beyond:4} pods too many, {counts.total()} of {pod_count} bound", flush=True)


def deciding(_, rounds, *more):
    """Measure decisions without HTTP, with the script's settings of the garbage collector."""
    gc.set_threshold(50000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "full.json"
        path.write_text(json.dumps(FULL))
        print(f"\n{'decisions/s':34} nodes      50     500   5,000", flush=True)
        for policy, pods in [*itertools.product((ROOT / "policy.json", "DefaultProvider"), PODS), (path, "equal pods"), (path, "of 200 kinds")]:
            rates = [max(alone(decisions_a_second, count, str(policy), pods) for _ in range(rounds)) for count in (50, 500, 5000)]
            print(f"{Path(policy).name}, {pods:{38 - len(Path(policy).name)}}", *(f"{rate:7.0f}" for rate in rates), flush=True)
    cluster, policies = in_memory(5000, str(ROOT / "policy.json"))
    snapshot, policy = cluster.refresh_snapshot(policies), policies["my-scheduler"]
    pods = [FullPod(pod(f"large-{i}", {"cpu": f"{64 + i}"})) for i in range(100)]
    took = [seconds(lambda: [schedule(large, snapshot, policy) for large in pods]) for _ in range(3)]
    print("100 pods of as many kinds that fit on none of 5,000 nodes: "
          + ", ".join(f"{second:.2f} s" for second in took), flush=True)


def listening(bench, rounds, only):
    """Measure the cost of --listen."""
    print(f"\n{'decisions/s with --listen, as a ratio to those without':54} nodes", flush=True)
    for kind, count in itertools.product(("equal pods", "a label of their own"), (50, 500)):
        ratios = [alone(ratio_of_listening, count, str(ROOT / "policy.json"), kind) for _ in range(rounds)]
        print(f"{kind:54} {count:5} {statistics.median(ratios):7.3f}  ({', '.join(f'{each:.3f}' for each in ratios)})", flush=True)
    bench.plane.clear()
    bench.create(nodes(300))
    print(f"\n{'3,000 equal pods, 300 nodes':26}  bound  CPU s", flush=True)
    for _ in range(rounds):
        for name in (OURS, LISTENING, WATCHED):
            with watching(bench.page) if name == WATCHED else contextlib.nullcontext():
                result = bench.run(name, "policy.json", equal_pods(3000))
            print(f"{name:26} {result.bound:6.0f} {result.cpu:6.1f}", flush=True)


@contextlib.contextmanager
def watching(port):
    """Read the events of a page during this block."""
    ended = threading.Event()

    def read():
        while not ended.is_set():
            with contextlib.suppress(requests.RequestException), requests.get(
                    f"http://127.0.0.1:{port}/events", stream=True, timeout=5) as answer:
                for _ in answer.iter_content(1 << 16):
                    if ended.is_set():
                        break
            time.sleep(0.05)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()


def labelled_pods(count):
    """Return pods with a label of their own, like those of StatefulSets and indexed Jobs."""
    things = equal_pods(count)
    for i, thing in enumerate(things):
        thing["metadata"]["labels"] = {"app": "web", "apps.kubernetes.io/pod-index": str(i)}
    return things


def claiming_pods(count):
    """Return pods like those of a StatefulSet: each with its own label, and its own claim of a provisioned volume."""
    things = labelled_pods(count)
    for i, thing in enumerate(things):
        thing["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{i}"}}]
    return things


PODS = {"equal pods": equal_pods, "a label of their own": labelled_pods, "a claim of their own": claiming_pods}
MORE_PODS = PODS | {"of 200 kinds": mixed_pods}


def in_memory(count, policy, claims=0):
    """Return a cluster of nodes and claims in manifests, and the Policies."""
    manifests = Manifests()
    things = [claim(f"data-{i}") for i in range(claims)] + [storage_class("local", "example.com/disks")]
    for thing in nodes(count) + things:
        manifests.add(thing)
    return LiveCluster(WriterOfManifests(manifests)), load_policies(policy, "my-scheduler")


def alone(function, *arguments):
    """Call a function in a separate process, so that threads that wait for volumes do not disturb later rows."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def decisions_a_second(count, path, pods):
    """Return the number of pods that are decided about and assumed per second of CPU time."""
    gc.set_threshold(50000)
    cluster, policies = in_memory(count, path, claims=5000 if MORE_PODS[pods] is claiming_pods else 0)
    cluster.refresh_snapshot(policies)
    began = time.process_time()
    done = 0
    for thing in MORE_PODS[pods](5000):
        decide_and_assume(cluster, thing)
        done += 1
        if time.process_time() > began + 3:
            break
    return done / (time.process_time() - began)


def decide_and_assume(cluster, thing):
    """Decide about a pod, assume it on its node, and call the hooks of --listen as the loop does."""
    policy = cluster.snapshot.policies["my-scheduler"]
    waiting = FullPod(thing)
    waiting.record = PodRecord(waiting, policy=policy)
    cluster.queue.observer.queued()
    decision = schedule(waiting, cluster.snapshot, policy)
    cluster.on_decided(decision)
    if decision.node:
        cluster.attempts.assume(decision)
        cluster.attempts.observer.attempted(decision, "scheduled")
    cluster.attempts.on_carried_out(decision)


def ratio_of_listening(count, path, pods):
    """Return the decisions per second with --listen divided by those without it.

    The two take turns in one process, 50 pods each, so that other work on the machine matters less. There is no
    garbage collection, whose time would count for the turn in which it happens to begin.
    """
    gc.disable()
    cluster, policies = in_memory(count, path)
    cluster.api.server = "http://127.0.0.1:1"
    cluster.refresh_snapshot(policies)
    quiet = cluster.on_decided, cluster.attempts.on_carried_out, cluster.attempts.observer
    share, most = UNWATCHED
    attach_journal(cluster, Journal(path, (share / 2, most / 2)))  # for half of the time
    listening = cluster.on_decided, cluster.attempts.on_carried_out, Observations(cluster)
    took = {quiet: [], listening: []}
    things = iter(MORE_PODS[pods](12000))
    for turn in itertools.chain(*([quiet, listening, listening, quiet] for _ in range(TURNS // 2))):
        cluster.on_decided, cluster.attempts.on_carried_out, cluster.attempts.observer = turn
        cluster.queue.observer = cluster.attempts.observer
        cluster.snapshot.time_rule = None
        began = time.thread_time()
        for thing in itertools.islice(things, 50):
            decide_and_assume(cluster, thing)
        took[turn].append(time.thread_time() - began)
    return sum(took[quiet][10:]) / sum(took[listening][10:])  # the first turns fill the caches


def seconds(function):
    """Return how long a call takes."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def main():
    """Measure the parts that are named."""
    parts = {"binding": binding, "coming": coming, "beside": beside, "deciding": deciding, "listening": listening}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[*parts, []], help=", ".join(parts))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", metavar="WORDS")
    options = parser.parse_args()
    requests.packages.urllib3.disable_warnings()
    for name, part in parts.items():
        if name in (options.parts or parts):
            with tempfile.TemporaryDirectory() as folder:
                bench = Bench(Path(folder)) if name != "deciding" else None
                try:
                    part(bench, options.rounds, options.only)
                finally:
                    if bench:
                        bench.plane.stop()


if __name__ == "__main__":
    main()
