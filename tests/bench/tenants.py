"""How long pods wait for costly objects of another tenant, with this scheduler and kube-scheduler 1.20 in turn.

    KUBEBUILDER_ASSETS=... python tests/bench/tenants.py [--rounds 3] [ROW ...]

Each row has nodes with pods on a real control plane. A scheduler starts and binds a pod (`first`: its wait in seconds).
Then the tenant creates costly objects, and ten pods of other tenants follow (`others`: how long the last one waits). Some
rows create the costly objects before the scheduler starts. The schedulers are kube-scheduler, kube-scheduler with JSON
through kubectl proxy as this script uses it, and this script, under DefaultProvider. MiB is the scheduler's peak memory.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import requests
from throughput import BY_PROXY, HOSTNAME, LIFTED, Bench, selecting


sys.path.insert(0, str(Path(__file__).parent.parent))
from helpers.control_plane import wait_for
from helpers.extras import node, pod


TENANT, OTHERS = "tenant", "others"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def of_tenant(name, **more):
    """Return a pod of the tenant."""
    return pod(name, namespace=TENANT, **more)


def container(**more):
    """Return a container."""
    return {"name": "main", "image": "nginx", **more}


def host_ports(bench, _):
    """Create a pod with 45,000 host ports."""
    ports = [{"containerPort": 1, "hostPort": 20_001 + i} for i in range(45_000)]
    bench.create([of_tenant("ports", containers=[container(ports=ports)])])


def monitors(bench, _):
    """Create a pod with a Ceph disk of 120,000 monitors."""
    disk = {"image": "i", "pool": "p", "monitors": [str(i) for i in range(120_000)]}
    bench.create([of_tenant("disk", volumes=[{"name": "v", "rbd": disk}])])


def nominated(bench, names, **more):
    """Create a pod for each node, and nominate it there."""
    bench.create([of_tenant(f"at-{name}", **more) for name in names])

    def nominate(name):
        """Write nominatedNodeName, as the owner of a pod may."""
        path = f"namespaces/{TENANT}/pods/at-{name}/status"
        answer = requests.patch(f"{bench.plane.server}/api/v1/{path}", json={"status": {"nominatedNodeName": name}},
                                headers={"Content-Type": "application/merge-patch+json"}, timeout=60)
        assert answer.ok, answer.text

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(nominate, names))


def forged(bench, names):
    """Nominate small pods that fit nowhere."""
    nominated(bench, names, nodeSelector={"no": "where"})


def of_another(bench, names):
    """Nominate pods of another scheduler that request most of a node."""
    nominated(bench, names, schedulerName="another", containers=[container(resources={"requests": {"cpu": "3"}})])


def terms(bench, names):
    """Create 25 placed pods with 8,000 anti-affinity terms each, all different."""
    bench.create([of_tenant(f"terms-{k}", nodeName=name, affinity={"podAntiAffinity": {REQUIRED: [
        {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {f"k-{k}-{i}": "v"}}} for i in range(8000)]}})
        for k, name in enumerate(names[:25])])


def deep_fields(bench, _):
    """Create three pods of 0.65 MB with managedFields 9,000 levels deep."""
    fields = '{"f:a":' * 9000 + "{}" + "}" * 9000
    entry = {"manager": "M", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "FIELDS"}
    for number in range(3):
        entries = [entry | {"manager": f"m-{i}"} for i in range(10)]
        thing = of_tenant(f"deep-{number}", nodeSelector={"no": "where"}, metadata={"managedFields": entries})
        text = json.dumps(thing).replace('"FIELDS"', fields)
        answer = requests.post(f"{bench.plane.server}/api/v1/namespaces/{TENANT}/pods", data=text, timeout=60,
                               headers={"Content-Type": "application/json"})
        assert answer.ok, answer.text[:500]


def replica_sets(bench, _):
    """Create 4,000 ReplicaSets."""
    things = [selecting("ReplicaSet", f"rs-{i}", {"app": f"app-{i}"}, "apps/v1") for i in range(4000)]
    for thing in things:
        thing["metadata"]["namespace"] = TENANT
        thing["spec"]["replicas"] = 0
    bench.create(things)


def tiny(bench, _):
    """Create 100 of their pods at once."""
    bench.create([of_tenant(f"tiny-{i}", labels={"app": f"app-{i}"}) for i in range(100)])


def nothing(bench, _):
    """Create nothing."""


@dataclass
class Row:
    """The size of a cluster, and what the tenant creates in it."""

    nodes: int
    pods: int  # on each node
    before: callable  # called before the scheduler starts
    then: callable  # called after the first pod is bound


ROWS = {
    "45,000 host ports": Row(300, 30, nothing, host_ports), "120,000 monitors": Row(300, 30, nothing, monitors),
    "500 forged nominations": Row(500, 0, nothing, forged),
    "300 pods of another scheduler, nominated": Row(300, 0, nothing, of_another),
    "200,000 terms, created later": Row(300, 30, nothing, terms),
    "200,000 terms, present at the start": Row(300, 30, terms, nothing),
    "managedFields 9,000 deep": Row(300, 0, nothing, deep_fields),
    "4,000 ReplicaSets, 100 pods": Row(300, 0, replica_sets, tiny)}


def make_base(bench, row):
    """Create the nodes, and the pods on them; return the names of the nodes."""
    for name in (TENANT, OTHERS):
        bench.plane.request("POST", "namespaces", {"metadata": {"name": name}})
    names = [f"node-{i:04}" for i in range(row.nodes)]
    bench.create([node(name, labels={HOSTNAME: name}) for name in names])
    bench.create([pod(f"there-{i}-{name}", {"cpu": "10m"}, nodeName=name) for name in names for i in range(row.pods)])
    return names


def clear(bench):
    """Delete the objects of the tenant and the others."""
    for namespace in (TENANT, OTHERS):
        for path in (f"api/v1/namespaces/{namespace}/pods", f"apis/apps/v1/namespaces/{namespace}/replicasets"):
            while requests.delete(f"{bench.plane.server}/{path}", params={"gracePeriodSeconds": 0}, timeout=120).status_code == 504:
                pass


def wait_of(bench, names):
    """Create pods of other tenants; return the seconds until the last one is bound, at most 150."""
    made = time.monotonic()
    bench.create([pod(name, {"cpu": "10m"}, namespace=OTHERS) for name in names])
    path = f"namespaces/{OTHERS}/pods"
    try:
        wait_for("all are bound", lambda: all("nodeName" in each["spec"] for each in bench.plane.get(path)["items"]), 150)
    except AssertionError:
        return 150
    return time.monotonic() - made


def play(bench, row, names, scheduler):
    """Measure a row with a scheduler; return the two waits, its MiB, and true if it is still running."""
    clear(bench)
    row.before(bench, names)
    process = bench.start(scheduler, "DefaultProvider")
    first = wait_of(bench, ["first"])
    time.sleep(1)
    row.then(bench, names)
    others = wait_of(bench, [f"other-{i}" for i in range(10)])
    time.sleep(1)
    is_there = process.poll() is None
    memory = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text()).group(1) if is_there else 0
    process.terminate()
    process.wait(30)
    return first, others, int(memory) // 1024, is_there


def main():
    """Measure the rows, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="part of the title of a row to measure; without any, all are measured")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{'':42} {'':24}   first  others   MiB", flush=True)
    for title in [each for each in ROWS if not options.rows or any(words in each for words in options.rows)]:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(folder))
            try:
                names = make_base(bench, ROWS[title])
                for _ in range(options.rounds):
                    for scheduler in (LIFTED, BY_PROXY, "scheduler.py"):
                        first, others, memory, is_there = play(bench, ROWS[title], names, scheduler)
                        end = "" if is_there else "  it has ended"
                        print(f"{title:42} {scheduler:24} {first:7.1f} {others:7.2f} {memory:5}{end}", flush=True)
            finally:
                bench.plane.stop()


if __name__ == "__main__":
    sys.exit(main())
