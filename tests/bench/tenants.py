"""How long the pods of others wait for what one tenant writes, beside kube-scheduler 1.20 on a real control plane.

    KUBEBUILDER_ASSETS=... python tests/bench/tenants.py [--rounds 3] [ROW ...]

For each row: nodes, and pods on them; a scheduler starts, and binds a pod (`first`). Then the tenant makes what is
costly, and ten pods of others come (`others`: how long the last of them waits). What is there before the scheduler starts
counts for `first`. In turn with kube-scheduler, and with kube-scheduler in JSON through kubectl proxy, which is all that
this script has; under DefaultProvider. MiB: the scheduler's at its peak.
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
    """One pod wants 45,000 host ports."""
    ports = [{"containerPort": 1, "hostPort": 20_001 + i} for i in range(45_000)]
    bench.create([of_tenant("ports", containers=[container(ports=ports)])])


def monitors(bench, _):
    """One pod has a disk of 120,000 monitors."""
    disk = {"image": "i", "pool": "p", "monitors": [str(i) for i in range(120_000)]}
    bench.create([of_tenant("disk", volumes=[{"name": "v", "rbd": disk}])])


def nominated(bench, names, **more):
    """For each node, a pod says that it is nominated there."""
    bench.create([of_tenant(f"at-{name}", **more) for name in names])

    def nominate(name):
        """Write the status, as its owner may."""
        path = f"namespaces/{TENANT}/pods/at-{name}/status"
        answer = requests.patch(f"{bench.plane.server}/api/v1/{path}", json={"status": {"nominatedNodeName": name}},
                                headers={"Content-Type": "application/merge-patch+json"}, timeout=60)
        assert answer.ok, answer.text

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(nominate, names))


def forged(bench, names):
    """These pods are tiny, and fit nowhere."""
    nominated(bench, names, nodeSelector={"no": "where"})


def of_another(bench, names):
    """These pods want most of a node, and are another scheduler's."""
    nominated(bench, names, schedulerName="another", containers=[container(resources={"requests": {"cpu": "3"}})])


def terms(bench, names):
    """25 pods on nodes have 8,000 terms of anti-affinity each, all different."""
    bench.create([of_tenant(f"terms-{k}", nodeName=name, affinity={"podAntiAffinity": {REQUIRED: [
        {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {f"k-{k}-{i}": "v"}}} for i in range(8000)]}})
        for k, name in enumerate(names[:25])])


def deep_fields(bench, _):
    """Three pods of 0.65 MB have managedFields 9,000 levels deep."""
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
    """There are 4,000 ReplicaSets of the tenant's."""
    things = [selecting("ReplicaSet", f"rs-{i}", {"app": f"app-{i}"}, "apps/v1") for i in range(4000)]
    for thing in things:
        thing["metadata"]["namespace"] = TENANT
        thing["spec"]["replicas"] = 0
    bench.create(things)


def tiny(bench, _):
    """100 of their pods come at once."""
    bench.create([of_tenant(f"tiny-{i}", labels={"app": f"app-{i}"}) for i in range(100)])


def nothing(bench, _):
    """Nothing more comes."""


@dataclass
class Row:
    """What a cluster is like, and what the tenant makes."""

    nodes: int
    pods: int  # on each node
    before: callable  # what is there before the scheduler starts
    then: callable  # what the tenant makes after that


ROWS = {
    "45,000 host ports": Row(300, 30, nothing, host_ports), "120,000 monitors": Row(300, 30, nothing, monitors),
    "500 forged nominations": Row(500, 0, nothing, forged),
    "300 pods of another scheduler, nominated": Row(300, 0, nothing, of_another),
    "200,000 terms that come": Row(300, 30, nothing, terms),
    "200,000 terms that are there": Row(300, 30, terms, nothing),
    "managedFields 9,000 deep": Row(300, 0, nothing, deep_fields),
    "4,000 ReplicaSets, 100 pods": Row(300, 0, replica_sets, tiny)}


def make_base(bench, row):
    """Make the nodes, and the pods on them; return the nodes' names."""
    for name in (TENANT, OTHERS):
        bench.plane.request("POST", "namespaces", {"metadata": {"name": name}})
    names = [f"node-{i:04}" for i in range(row.nodes)]
    bench.create([node(name, labels={HOSTNAME: name}) for name in names])
    bench.create([pod(f"there-{i}-{name}", {"cpu": "10m"}, nodeName=name) for name in names for i in range(row.pods)])
    return names


def clear(bench):
    """Delete what the tenant and the others have."""
    for namespace in (TENANT, OTHERS):
        for path in (f"api/v1/namespaces/{namespace}/pods", f"apis/apps/v1/namespaces/{namespace}/replicasets"):
            while requests.delete(f"{bench.plane.server}/{path}", params={"gracePeriodSeconds": 0}, timeout=120).status_code == 504:
                pass


def wait_of(bench, names):
    """Make pods of others; return how long the last of them waits, in seconds, or 150."""
    made = time.monotonic()
    bench.create([pod(name, {"cpu": "10m"}, namespace=OTHERS) for name in names])
    path = f"namespaces/{OTHERS}/pods"
    try:
        wait_for("all are bound", lambda: all("nodeName" in each["spec"] for each in bench.plane.get(path)["items"]), 150)
    except AssertionError:
        return 150
    return time.monotonic() - made


def play(bench, row, names, scheduler):
    """Measure a row with a scheduler. Return seconds, seconds, MiB, and whether it still runs."""
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
    parser.add_argument("rows", nargs="*", metavar="ROW", help="words of those to measure; all if there are none")
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
