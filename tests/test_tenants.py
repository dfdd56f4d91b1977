"""Whatever one tenant writes into his own pods, claims and services, the others' pods go on.

What grows with what he writes is measured in steps, the lines of the script that are run, at two sizes: twice as much may
take twice as many.
"""

import gc
import sys
import weakref

import scheduler
from conftest import claim, cluster_of, node, pending_pods, pod, storage_class, table, volume

PROVIDER = scheduler.load_policies("DefaultProvider", "my-scheduler")
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def steps(function, *arguments):
    """Return how many lines of the script a function runs."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename != scheduler.__file__:
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return lines


def decide_all(cluster):
    """Decide about the pods of a cluster that wait."""
    snapshot = cluster.snapshot(PROVIDER)
    for each in pending_pods(cluster, PROVIDER):
        scheduler.assume(scheduler.schedule(each, snapshot, PROVIDER["my-scheduler"]), cluster.cache)


def container(**more):
    """A container."""
    return {"name": "main", "image": "nginx", **more}


def ports(size, first):
    """A pod with so many host ports."""
    given = [{"containerPort": 80, "hostPort": first + i} for i in range(size)]
    return pod(f"ports-{first}", containers=[container(ports=given)], **({"nodeName": "n"} if first == 1 else {}))


def affine(size, name="p", **more):
    """A pod with so many preferences for the pods of its node."""
    terms = [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}}]
    return pod(name, labels={"a": "b"}, affinity={"podAffinity": {PREFERRED: terms * size}}, **more)


def waiting_for(wanted, times=1):
    """A pod that has so many volumes of a claim, and the claim."""
    source = {"persistentVolumeClaim": {"claimName": wanted["metadata"]["name"]}}
    return pod("p", volumes=[{"name": f"v-{i}", **source} for i in range(times)]), wanted


def on_node(name):
    """A volume that is reached from one node."""
    terms = [{"matchExpressions": [{"key": "own", "operator": "In", "values": [name]}]}]
    return volume(f"on-{name}", nodeAffinity={"required": {"nodeSelectorTerms": terms}})


def nodes(count, key="zone"):
    """Nodes of a zone, each with a pod that has a label of its own."""
    names = [f"n-{i}" for i in range(count)]
    return [node(name, labels={key: "z", "own": name}) for name in names] + [
        pod(f"on-{name}", labels={"a": "b", "own": name}, nodeName=name) for name in names]


@table("scene", {  # a function of a size: the pod that waits, then all others
    "host ports": (lambda size: [ports(size, 20_001), ports(size, 1), node("n")],),
    "preferences, and nodes": (lambda size: [affine(size), *nodes(size // 5)],),
    "preferences of a pod that is there, and kinds of pods": (lambda size: [
        *(pod(f"p-{i}", labels={"a": "b", "own": str(i)}) for i in range(size // 5)),
        node("n", labels={"zone": "z"}), affine(size, "there", nodeName="n")],),
    "free volumes that no claim selects, and nodes": (lambda size: [
        *waiting_for(claim(selector={"matchLabels": {"a": "b"}})), storage_class("local"), *nodes(size // 5),
        *(volume(f"v-{i}") for i in range(size))],),
    "free volumes that are each on one of the nodes, and nodes": (lambda size: [
        *waiting_for(claim()), storage_class("local"), *nodes(size // 5), *(on_node(f"n-{i}") for i in range(size))],),
    "places where there is storage for new volumes, and nodes": (lambda size: [
        *waiting_for(claim()), storage_class("local", "csi"), *nodes(size // 5),
        {"kind": "CSIDriver", "metadata": {"name": "csi"}, "spec": {"storageCapacity": True}},
        *({"kind": "CSIStorageCapacity", "metadata": {"name": f"c-{i}"}, "storageClassName": "local", "capacity": "9Gi",
           "nodeTopology": {"matchLabels": {"own": f"n-{i}"}}} for i in range(size))],),
    "volumes of one claim, and nodes": (lambda size: [
        *waiting_for(claim(volumeName="v"), size), volume("v", metadata={"labels": {"topology.kubernetes.io/zone": "z"}}),
        *nodes(size // 5, "topology.kubernetes.io/zone")],),
    "cloud disks, and nodes": (lambda size: [
        pod("p", volumes=[{"name": str(i), "gcePersistentDisk": {"pdName": str(i)}} for i in range(size)]),
        *nodes(size // 5)],),
})
def test_twice_as_much_takes_twice_as_long(scene):
    taken = []
    for size in (100, 200):
        cluster = cluster_of(*scene[0](size))
        taken.append(steps(decide_all, cluster))
    assert taken[1] < 2.5 * taken[0], f"{taken} steps"


def test_nothing_is_kept_of_pods_that_are_gone():
    disk = {"gcePersistentDisk": {"pdName": "d"}}
    target = node("n", labels={"zone": "z"})
    target["metadata"] |= {"uid": "n", "resourceVersion": "1"}
    pods = [affine(1, "a", volumes=[disk], nodeSelector={"zone": "x"}), affine(1, "b", volumes=[disk])]
    cluster = cluster_of(target, *pods)
    snapshot = cluster.snapshot(PROVIDER)
    seen = []
    for waiting in pending_pods(cluster, PROVIDER):
        seen.append(weakref.ref(waiting))
        decision = scheduler.schedule(waiting, snapshot, PROVIDER["my-scheduler"])
        scheduler.assume(decision, cluster.cache)
    assert [pod().key for pod in seen] == ["default/a", "default/b"] and decision.node == "n"
    cluster.api.objects = {key: thing for key, thing in cluster.api.objects.items() if key[0] == "nodes"}
    cluster.snapshot(PROVIDER)
    assert pending_pods(cluster, PROVIDER) == []
    del waiting, decision
    gc.collect()
    assert [pod() for pod in seen] == [None, None]


def test_an_event_and_a_line_have_a_bound():
    """As kube-scheduler cuts its events; the condition says all, as kube-scheduler's does."""
    wants = {f"example.com/resource-{i}": "1" for i in range(500)}
    cluster = cluster_of(node("n"), pod("p", wants))
    [waiting] = pending_pods(cluster, PROVIDER)
    decision = scheduler.schedule(waiting, cluster.snapshot(PROVIDER), PROVIDER["my-scheduler"])
    *_, body = scheduler.event(waiting, "Warning", "FailedScheduling", decision.message)
    assert body["message"] == decision.message[:1020] + " ..."
    assert decision.message.count("example.com") == 500 and len(scheduler.in_words(decision)) < 1100
    *_, body = scheduler.event(waiting, "Warning", "FailedScheduling", "\ud800" + 600 * "ü")
    assert len(body["message"]) < 600 and body["message"].endswith("ü ...")


def test_no_pod_lands_by_another_ones_answers():
    name = "kube-api-access-%s"
    pods = [pod(f"p-{end}", nodeSelector={"name": name % end}) for end in ("aaaaa", "bbbbb")]
    cluster = cluster_of(*pods, *(node(f"n-{end}", labels={"name": name % end}) for end in ("aaaaa", "bbbbb", "c", "d")))
    decide_all(cluster)
    assert {pod.name: pod.record.decision.node for pod in pending_pods(cluster, PROVIDER)} == {
        "p-aaaaa": "n-aaaaa", "p-bbbbb": "n-bbbbb"}
