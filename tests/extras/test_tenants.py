"""The objects of one tenant do not slow down or stop the pods of other tenants.

Time is measured in steps, which are executed bytecode instructions of the program, at two sizes: twice the size may take twice as
many steps.
"""

import gc
import sys
import tracemalloc
import weakref

from helpers.everywhere import MODULES, replace
from helpers.extras import (
    claim,
    cluster_of,
    node,
    pending_pods,
    pod,
    run_scheduler,
    storage_class,
    table,
    volume,
)
from helpers.fake_api import WatchedCluster
from helpers.faulty import ApiServer
from helpers.policies import load_policies
from helpers.preempting import budget, built, incoming, running
from scheduler_extras.api.responses import TooLarge
from scheduler_extras.common.clocks import HEARTBEAT
from scheduler_extras.common.errors import ApiError
from scheduler_extras.common.log_texts import at_most
from scheduler_extras.deciding import prepared_rules
from scheduler_extras.deciding.decision import combine_refusals
from scheduler_extras.deciding.rule import DURING_SCHEDULING, FullRule
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.show.explain import in_words


FILES = {module.__file__ for module in MODULES}
PROVIDER = load_policies("DefaultProvider", "my-scheduler")
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def steps(function, *arguments):
    """Return the number of the program's bytecode instructions that a function executes."""
    taken = 0

    def trace(frame, event, _):
        nonlocal taken
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes = True
        taken += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return taken


def decide_all(cluster):
    """Decide about the pending pods of a cluster."""
    snapshot = cluster.refresh_snapshot(PROVIDER)
    for each in pending_pods(cluster, PROVIDER):
        decision = schedule(each, snapshot, PROVIDER["my-scheduler"])
        if decision.node:
            cluster.attempts.assume(decision)


def container(**more):
    """A container."""
    return {"name": "main", "image": "nginx", **more}


def ports(size, first):
    """A pod with this many host ports."""
    given = [{"containerPort": 80, "hostPort": first + i} for i in range(size)]
    return pod(f"ports-{first}", containers=[container(ports=given)], **({"nodeName": "n"} if first < 20_000 else {}))


def ceph(size, name="p", **more):
    """A pod with a Ceph disk that has this many monitors."""
    monitors = [f"{name}-{i}" for i in range(size)]
    return pod(name, volumes=[{"name": "v", "rbd": {"image": "i", "pool": "p", "monitors": monitors}}], **more)


def affine(size, name="p", **more):
    """A pod with this many preferred affinity terms."""
    terms = [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}}]
    return pod(name, labels={"a": "b"}, affinity={"podAffinity": {PREFERRED: terms * size}}, **more)


def together(size):
    """A pod with this many required affinity terms, each with another topologyKey."""
    terms = [{"topologyKey": f"t-{i}", "labelSelector": {"matchLabels": {"a": "b"}}} for i in range(size)]
    return pod("p", labels={"a": "b"}, affinity={"podAffinity": {f"required{DURING_SCHEDULING}": terms}})


def using(*claims, name="p", **more):
    """A pod with these claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, volumes=volumes, **more)


def waiting_for(wanted, times=1):
    """A pod with a claim in this many volumes, and the claim."""
    source = {"persistentVolumeClaim": {"claimName": wanted["metadata"]["name"]}}
    return pod("p", volumes=[{"name": f"v-{i}", **source} for i in range(times)]), wanted


def on_node(name):
    """A volume that is local to one node."""
    terms = [{"matchExpressions": [{"key": "own", "operator": "In", "values": [name]}]}]
    return volume(f"on-{name}", nodeAffinity={"required": {"nodeSelectorTerms": terms}})


def nodes(count, key="zone"):
    """This many nodes of one zone, each with a pod that has its own label."""
    names = [f"n-{i}" for i in range(count)]
    return [node(name, labels={key: "z", "own": name}) for name in names] + [
        pod(f"on-{name}", labels={"a": "b", "own": name}, nodeName=name) for name in names]


@table("scene", {  # a function of a size, which returns objects
    "host ports": (lambda size: [ports(size, 20_001), ports(size, 1), node("n")],),
    "host ports, and pods with host ports": (lambda size: [
        ports(size, 20_001), node("n"), *(ports(1, 1 + i) for i in range(size))],),
    "monitors of a disk, and pods with such disks": (lambda size: [
        ceph(size), node("n"), *(ceph(1, f"there-{i}", nodeName="n") for i in range(size))],),
    "affinity terms, and nodes": (lambda size: [affine(size), *nodes(size // 5)],),
    "affinity terms of an assigned pod, and kinds of pods": (lambda size: [
        *(pod(f"p-{i}", labels={"a": "b", "own": str(i)}) for i in range(size // 5)),
        node("n", labels={"zone": "z"}), affine(size, "there", nodeName="n")],),
    "free volumes that no claim selects, and nodes": (lambda size: [
        *waiting_for(claim(selector={"matchLabels": {"a": "b"}})), storage_class("local"), *nodes(size // 5),
        *(volume(f"v-{i}") for i in range(size))],),
    "local volumes, and nodes": (lambda size: [
        *waiting_for(claim()), storage_class("local"), *nodes(size // 5), *(on_node(f"n-{i}") for i in range(size))],),
    "storage capacities, and nodes": (lambda size: [
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
    "tolerations, and nodes with a taint": (lambda size: [
        pod("p", tolerations=[{"key": str(i), "operator": "Exists"} for i in range(size)]),
        *(node(f"n-{i}", taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}]) for i in range(size // 5))],),
    "topologyKeys, and nodes": (lambda size: [
        together(10 * size), node("n", labels={"t-0": "x"}), pod("there", labels={"a": "b"}, nodeName="n"),
        *(node(f"n-{i}") for i in range(size // 2))],),
    "images, and nodes": (lambda size: [
        pod("p", containers=[container(image=f"image-{i}") for i in range(10 * size)]),
        *nodes(size // 5)],),
    "claims, and volumes of deleted nodes": (lambda size: [
        using(*(f"c-{i}" for i in range(size))), *(claim(f"c-{i}") for i in range(size)), storage_class("local"),
        *(on_node(f"gone-{i}") for i in range(size)), node("n")],),
    "volumes of an assigned pod, and pods with a claim": (lambda size: [
        *(using("data", name=f"p-{i}") for i in range(size // 5)), claim(volumeName="v"), volume("v", csi={
            "driver": "csi", "volumeHandle": "v"}), node("n"),
        pod("there", volumes=[{"name": str(i), "emptyDir": {}} for i in range(size)], nodeName="n")],),
})
def test_the_time_is_linear_in_the_number_of(scene):
    steps(decide_all, cluster_of(*scene[0](5)))  # Python 3.12 does not count the steps of a function's first call
    taken = [steps(decide_all, cluster_of(*scene[0](size))) for size in (60, 120)]
    assert 0 < taken[1] < 2.5 * taken[0], f"{taken} steps"


def test_reasons_that_many_nodes_share_are_read_once():
    """A pod with 30,000 resources would have them for each of 1,000 nodes."""
    reasons = [f"Insufficient example.com/{i}" for i in range(1000)]

    def sum_up(count):
        """Combine the reasons of this many nodes."""
        names = [f"n-{i}" for i in range(count)]
        _, failed = combine_refusals(dict.fromkeys(names), [("Fit", dict.fromkeys(names, reasons))])
        assert failed.message.startswith(f"0/{count} nodes are available: {count} Insufficient example.com/0, ")

    sum_up(1)
    assert steps(sum_up, 20) < 1.5 * steps(sum_up, 10)


def test_the_room_of_nominated_pods_is_computed_without_preparing_rules_for_each_node(monkeypatch):
    """Rules prepare metadata from all nodes, so doing this for each nominated node would take quadratic time."""
    held = [{"name": "held"}]
    cluster = cluster_of(pod("p"), *nodes(9), *(pod(
        f"q-{i}", priority=1, status={"nominatedNodeName": f"n-{i}"}, schedulingGates=held) for i in range(9)))
    [waiting] = pending_pods(cluster, PROVIDER)
    snapshot, prepare, prepared = cluster.refresh_snapshot(PROVIDER), prepared_rules.prepare, []
    assert len(snapshot.nominated) == 9
    replace(monkeypatch, "prepare", lambda *things: prepared.append(things) or prepare(*things))
    decision = schedule(waiting, snapshot, PROVIDER["my-scheduler"])
    assert decision.node and len(prepared) == 3, "predicates, predicates with nominated pods, priorities"


def preempt(*objects):
    """Let the first pod of these objects preempt."""
    cluster = cluster_of(*objects)
    [policy] = built().values()
    [waiting] = pending_pods(cluster, {"my-scheduler": policy})
    decision = schedule(waiting, cluster.refresh_snapshot({"my-scheduler": policy}), policy)
    policy.run_post_filter(decision, cluster.snapshot)
    assert decision.remedy.startswith("It preempts default/v-")


def with_victims(size, *more):
    """A pod that preempts one of this many pods on a node, each with its own label."""
    return [incoming("1"), node("n", cpu=str(size)), *more,
            *(running(f"v-{i}", "n", labels={"own": str(i)}, start=59 - i) for i in range(size))]


def test_victims_are_chosen_without_preparing_rules_for_each_candidate(monkeypatch):
    """Otherwise, preemption among 50 nodes with 50 pods each would delay all other pods by a second."""
    prepare, prepared = prepared_rules.prepare, []
    replace(monkeypatch, "prepare", lambda *things: prepared.append(things) or prepare(*things))
    counts = []
    for size in (4, 40):
        prepared.clear()
        preempt(*with_victims(size))
        counts.append(len(prepared))
    assert counts[0] == counts[1]


def test_budgets_of_other_pods_hardly_slow_down_preemption():
    def take(count):
        """Preempt with this many other budgets."""
        others = [budget(0, f"app-{i}", name=f"budget-{i}") for i in range(count)]
        preempt(*with_victims(60, *others))

    take(1)
    assert steps(take, 200) < 2 * steps(take, 1)


def test_deleted_pods_are_garbage_collected():
    disk = {"gcePersistentDisk": {"pdName": "d"}}
    target = node("n", labels={"zone": "z"})
    target["metadata"] |= {"uid": "n", "resourceVersion": "1"}
    pods = [affine(1, "a", volumes=[disk], nodeSelector={"zone": "x"}), affine(1, "b", volumes=[disk])]
    cluster = cluster_of(target, *pods)
    snapshot = cluster.refresh_snapshot(PROVIDER)
    seen = []
    for waiting in pending_pods(cluster, PROVIDER):
        seen.append(weakref.ref(waiting))
        decision = schedule(waiting, snapshot, PROVIDER["my-scheduler"])
        if decision.node:
            cluster.attempts.assume(decision)
    assert [pod().key for pod in seen] == ["default/a", "default/b"] and decision.node == "n"
    cluster.api.objects = {key: thing for key, thing in cluster.api.objects.items() if key[0] == "nodes"}
    cluster.refresh_snapshot(PROVIDER)
    assert pending_pods(cluster, PROVIDER) == []
    del waiting, decision
    gc.collect()
    assert [pod() for pod in seen] == [None, None]


def test_events_and_lines_are_cut():
    """As in kube-scheduler, events are cut and conditions are not."""
    wants = {f"example.com/resource-{i}": "1" for i in range(500)}
    cluster = cluster_of(node("n"), pod("p", wants))
    [waiting] = pending_pods(cluster, PROVIDER)
    decision = schedule(waiting, cluster.refresh_snapshot(PROVIDER), PROVIDER["my-scheduler"])
    assert decision.message.count("example.com") == 500 and len(in_words(decision)) < 1100
    server = ApiServer(node("n"), pod("p", wants))
    try:
        run_scheduler("--policy", "DefaultProvider", "--server", server.url, "--once")
        assert [sent.json["message"] for sent in server.sent("event")] == [decision.message[:1020] + " ..."]
    finally:
        server.stop()
    long = at_most(1024, "\ud800" + 600 * "ü")
    assert len(long) < 600 and long.endswith("ü ...")


def test_an_exceeded_quota_for_events_is_logged_once(monkeypatch, caplog):
    """The API server's message has the name of the event, which is always different."""
    cluster = WatchedCluster(monkeypatch, node("n"))
    plain = cluster.server.request

    def request(method, path, body=None, params=None, accept=None, check=None):
        if path.endswith("/events"):
            raise ApiError(403, f'POST {path}: 403 Forbidden: events "{body["metadata"]["name"]}" is forbidden: exceeded quota: q')
        return plain(method, path, body, params, accept)

    cluster.server.request = request
    cluster.create(*(pod(f"p{i}", nodeSelector={"disk": "ssd"}) for i in range(9)), *(pod(f"q{i}") for i in range(9)))
    assert sum(place == "n" for _, place in cluster.make_pass()) == 9
    assert sum("exceeded quota" in each for each in caplog.messages) == 1


def test_cached_answers_are_not_used_for_a_different_pod():
    name = "kube-api-access-%s"
    pods = [pod(f"p-{end}", nodeSelector={"name": name % end}) for end in ("aaaaa", "bbbbb")]
    cluster = cluster_of(*pods, *(node(f"n-{end}", labels={"name": name % end}) for end in ("aaaaa", "bbbbb", "c", "d")))
    decide_all(cluster)
    assert {pod.name: pod.record.decision.node for pod in pending_pods(cluster, PROVIDER)} == {
        "p-aaaaa": "n-aaaaa", "p-bbbbb": "n-bbbbb"}


def counting(often):
    """A topology spread constraint with this many values of a label."""
    expression = {"key": "a", "operator": "In", "values": [f"value-{i}" for i in range(often)]}
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchExpressions": [expression]}}


@table("make", {  # a function of a number, which returns a pod
    "many resources": lambda i: pod("p", {f"example.com/{i}-{j}": "1" for j in range(2000)}),
    "many values of a label": lambda i: pod("p", {"cpu": f"{i}"}, topologySpreadConstraints=[counting(5000 + i)]),
    "another scheduler with a long name": lambda i: pod("p", schedulerName=f"{i}" * 50_000),
    "a node that does not exist": lambda i: pod("p", nodeName=f"n-{i}"),
})
def test_no_memory_is_kept_for_deleted_pods_with(make, monkeypatch):
    cluster = WatchedCluster(monkeypatch, node("n", cpu="0", labels={"zone": "z"}), policy=PROVIDER["my-scheduler"])

    def come_and_go(numbers):
        """Create, schedule and delete pods one by one; return the number of bytes in use."""
        for number in numbers:
            cluster.create(make(number))
            cluster.make_pass()
            cluster.send("DELETED", cluster.server.objects.pop(("pods", "default", "p")))
            cluster.make_pass()
            cluster.server.requests.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        kept = come_and_go(range(10, 12))
        assert come_and_go(range(12, 22)) < kept + 10 * 20_000, "each of ten pods leaves at most 20 KB"
        assert [*cluster.cache.nodes] == ["n"]
    finally:
        tracemalloc.stop()


def test_pods_that_wait_for_volumes_come_after_new_ones_and_take_turns():
    cluster = cluster_of(node("n"), storage_class("csi", "csi.example.com"), claim("c", of="csi"),
                         *(using("c", name=name) for name in ("a", "b")))
    cluster.cache.snapshot.is_live = True
    decide_all(cluster)
    for place, waiting in enumerate(pending_pods(cluster, PROVIDER)):
        assert waiting.record.decision
        waiting.record.retry.began_at = 2 - place
    cluster.api.add(pod("new"))
    assert [waiting.name for waiting in pending_pods(cluster, PROVIDER)] == ["new", "b", "a"]


def test_claims_that_are_too_large_to_be_changed_do_not_count_as_failures_of_the_api_server(monkeypatch):
    """Otherwise the write would be tried three times, and after ten pods scheduling would pause."""
    names = [f"c-{i}" for i in range(12)]
    cluster = WatchedCluster(monkeypatch, node("n"), storage_class("csi", "csi.example.com"),
                   *(claim(name, of="csi") for name in names), policy=PROVIDER["my-scheduler"])
    plain, asked = cluster.server.request, []

    def request(method, path, body=None, params=None, check=None):
        if method == "PATCH" and "claims" in path:
            asked.append(path)
            raise TooLarge(413, "PATCH: 500: etcdserver: request is too large")
        return plain(method, path, body, params)

    cluster.server.request = request
    cluster.create(*(using(name, name=name, priority=1) for name in names), pod("victim"))
    cluster.make_pass()
    assert len(asked) == len(names) and cluster.bound() == ["victim"]


def test_a_rule_that_is_slow_for_each_node_does_not_trigger_the_watchdog(monkeypatch):
    """The loop makes progress with each node, so the watchdog ends the process only if a single call hangs."""
    beats = []

    def slow(pod, node):
        """Record whether there was a heartbeat since the last call."""
        beats.append(HEARTBEAT.at)
        HEARTBEAT.at = 0
        return []

    policy = FullPolicy([FullRule("Slow", slow, title="Slow")], [])
    cluster = cluster_of(*(node(f"n-{i}") for i in range(9)), pod("p"))
    [waiting] = pending_pods(cluster, {"my-scheduler": policy})
    assert schedule(waiting, cluster.refresh_snapshot({"my-scheduler": policy}), policy).node
    assert len(beats) == 9 and all(beats)
