"""Runs on manifests: copies of live clusters, --anew, --explain POD, --fits, and the output."""

import json
import re
import subprocess

import pytest
import yaml

from helpers.control_plane import free_port, wait_for
from helpers.extras import node, pod, run_scheduler, storage_class, table
from helpers.workloads import HOSTNAME, SPREAD, workload
from scheduler_extras.manifests.manifests import Manifests


MIRROR = {"annotations": {"kubernetes.io/config.mirror": "0123"}, "namespace": "kube-system"}


OF_NODE = {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "cp-1", "uid": "1", "controller": True}]}


CONTROL_PLANE = {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}


def kubeadm():
    """Return nodes and pods like those of a kubeadm cluster, with pods for the default scheduler."""
    static = [pod(f"{name}-cp-1", {"cpu": "100m"}, namespace="kube-system", nodeName="cp-1", metadata={
        **MIRROR, **OF_NODE, "name": f"{name}-cp-1"}, hostNetwork=True, schedulerName="default-scheduler",
        priorityClassName="system-node-critical") for name in ("etcd", "kube-apiserver", "kube-scheduler")]
    dns = [pod(f"coredns-{i}", {"cpu": "100m"}, namespace="kube-system", schedulerName="default-scheduler",
               priorityClassName="system-cluster-critical",
               tolerations=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule", "operator": "Exists"}]) for i in range(2)]
    jobs = [pod(f"job-{i}", {"cpu": f"{300 + 100 * i}m"}, schedulerName="default-scheduler") for i in range(6)]
    too_large = pod("large", {"cpu": "3500m"}, schedulerName="default-scheduler")
    return [node("cp-1", cpu="2", **CONTROL_PLANE), node("w-1", cpu="3"), node("w-2", cpu="3")], [*static, *dns, *jobs, too_large]


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_copy_made_as_the_readme_says_gives_the_same_placements_as_the_live_cluster(form, controllers, tmp_path):
    nodes, pods = kubeadm()
    controllers.create(*nodes, *pods)
    ours = {"schedulerName": "default-scheduler"}
    for thing in (workload("Deployment", "web", replicas=3, template=ours), workload("DaemonSet", "proxy", template=ours)):
        controllers.request("POST", f"../../apis/apps/v1/namespaces/default/{thing['kind'].lower()}s", thing)
    wait_for("all pods are created", lambda: len(controllers.pods()) == len(pods) + 3 + 2)
    common = ["--scheduler-name", "default-scheduler", "--policy", "DefaultProvider", "--seed=1"]
    run_scheduler("--server", controllers.server, "--once", *common)
    live = {key: place for key, place in controllers.placements().items() if "cp-1" not in key}
    words = Manifests.COMMAND.replace("csistoragecapacities,", "").replace("yaml", form).split()[1:]
    copy = subprocess.run([controllers.assets / "kubectl", "--kubeconfig", controllers.kubeconfig(), *words], capture_output=True, text=True)
    assert copy.returncode == 0, copy.stderr
    run = run_scheduler("--cluster", "-", "--anew", *common, input=copy.stdout)
    assert dict(re.findall(r"^(\S+) -> (\S+)  ", run.stdout, re.M)) == live and len(live) == 2 + 6 + 3 + 2, run.stderr
    assert "default/large stays pending: 0/3 nodes are available: " in run.stdout and run.stderr == ""


@table("metadata, where, message", {
    "its owner is a node": (MIRROR | OF_NODE, "cp-1", ""),
    "with an owner, but no mirror annotation": ({"namespace": "kube-system"} | OF_NODE, "cp-1", ""),
    "without an owner": (MIRROR, None, "-: Pod etcd is skipped as the mirror of a static pod: nothing says on which node it is\n"),
})
def test_a_static_pod_without_spec_nodename_is_on_the_node_that_owns_it(metadata, where, message):
    things = [node("cp-1", **CONTROL_PLANE), node("w-1"), pod("etcd", metadata=metadata | {"uid": "1"})]
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all(things))
    assert "->" not in run.stdout and run.stderr.startswith(message)
    assert ("kube-system/etcd" in run.stdout) == (where is not None)


@table("of, shown", {
    "one of this scheduler's": (pod("p", nodeName="a", status={"phase": "Running"}), ["1/110", "+p"]),
    "... with its requests as in the spec, not in the status": (
        pod("p", nodeName="a", status={"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "9"}}}]}), ["1/110", "+p"]),
    "another scheduler's": (pod("p", nodeName="a", schedulerName="other"), ["1/110", "p"]),
    "a finished one": (pod("p", nodeName="a", status={"phase": "Succeeded"}), ["0/110"]),
    "one that is being deleted": (pod("p", nodeName="a", metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"}), ["1/110", "p"]),
    "a static one": (pod("p", nodeName="a", metadata=OF_NODE), ["1/110", "p"]),
})
def test_anew_places_running_pods_of_this_scheduler_again(of, shown):
    run = run_scheduler("--cluster", "-", "--anew", input=yaml.safe_dump_all([node("a"), of]))
    assert re.findall(r"\d/110|(?<=    )\+?p$", run.stdout, re.M) == shown


def test_anew_is_for_manifests_only():
    run = run_scheduler("--anew", "--once")
    assert run.returncode == 2 and "--anew needs --cluster: pods of a live cluster stay where they are" in run.stderr


FULL = [node("full", cpu="1", labels={HOSTNAME: "full"}), *(node(name, labels={HOSTNAME: name}) for name in "ab"), pod("hog", {"cpu": "1"}, nodeName="full"),
        *(pod(f"w-{i}", {"cpu": "500m"}, labels={"app": "web"}, topologySpreadConstraints=[SPREAD]) for i in range(3))]


def test_explain_decides_after_the_pods_that_come_before_it():
    run = run_scheduler("--cluster", "-", "--policy", "DefaultProvider", "--explain", "w-2", input=yaml.safe_dump_all(FULL))
    text = " ".join(run.stdout.split())
    assert text.startswith("default/w-2 is pending. After 2 other pods, with DefaultProvider: default/w-2 stays pending: ")
    assert run.returncode == 0 and re.search(r"[ab] \(1 in hostname [ab], 0 in full, maxSkew 1\)", text)


@table("asked, message", {
    "a misspelled name": ("w1", '; did you mean "default/w-1"?'),
    "the name of a workload": ("of-workload", '; did you mean "default/of-workload-'),
    "a name unlike any other": ("zzz", "default/ may be omitted)\n"),
})
@pytest.mark.parametrize("option", ["--explain", "--fits"])
def test_an_unknown_pod_name_gets_a_suggestion(asked, message, option):
    run = run_scheduler("--cluster", "-", option, asked, input=yaml.safe_dump_all([*FULL, workload("Deployment", "of-workload")]))
    assert run.returncode == 1 and message in run.stderr


@table("of, message", {
    "limited by resources": ("hog", "default/hog: 8 copies fit: 4 on {}, 4 on {} the next one stays pending: 0/3 nodes are available: 3 Insufficient cpu."),
    "limited by a spread constraint": ("w-0", "default/w-0: 2 copies fit: 1 on {}, 1 on {} the next one stays pending: 0/3 nodes are available: "
                                            "1 Insufficient cpu, 2 node(s) didn't match pod topology spread constraints."),
})
def test_how_many_copies_of_a_pod_fit(of, message):
    run = run_scheduler("--cluster", "-", "--policy", "DefaultProvider", "--fits", of, input=yaml.safe_dump_all(FULL))
    text = " ".join(run.stdout.split())
    text = re.sub(" [23] other waiting pods are not placed first$", "", text)
    assert text in (message.format("a", "b"), message.format("b", "a")) and run.returncode == 0
    run = run_scheduler("--cluster", "-", "--policy", "DefaultProvider", "--fits", of, "--output=json", input=yaml.safe_dump_all(FULL))
    answer = json.loads(run.stdout)
    assert answer["fits"] == sum(answer["nodes"].values()) == int(message.split()[1]) and message.endswith(answer["message"])


def test_no_copy_of_a_pod_fits():
    run = run_scheduler("--cluster", "-", "--fits", "p", input=yaml.safe_dump_all([node("a"), pod("p", {"cpu": "9"})]))
    assert run.stdout == "default/p: no copy fits: 0/1 nodes are available: 1 Insufficient cpu.\n"


def test_a_broken_rule_gives_exit_code_1_with_fits(tmp_path):
    (tmp_path / "broken.py").write_text(
        "from scheduler import predicate\n@predicate('Broken')\ndef broken(pod, node):\n    return 1 / 0\n")
    (tmp_path / "policy.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "Broken"}], "priorities": []}))
    run = run_scheduler("--cluster", "-", "--fits", "p", "--plugins", tmp_path / "broken.py", "--policy", tmp_path / "policy.json",
                        input=yaml.safe_dump_all([node("a"), pod("p")]))
    assert run.returncode == 1 and "no copy fits: ZeroDivisionError in broken" in " ".join(run.stdout.split()), run


def test_each_copy_has_claims_of_its_own_for_its_ephemeral_volumes():
    """Each one takes a volume, so that two copies fit on three volumes, beside the pod itself."""
    template = {"spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"],
                         "resources": {"requests": {"storage": "1Gi"}}}}
    volumes = [{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"volume-{i}"}, "status": {"phase": "Available"},
                "spec": {"storageClassName": "local", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}} for i in range(3)]
    things = [node("a"), storage_class("local"), *volumes,
              pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])]
    run = run_scheduler("--cluster", "-", "--fits", "p", "--policy", "DefaultProvider", input=yaml.safe_dump_all(things))
    assert " ".join(run.stdout.split()).startswith("default/p: 3 copies fit: 3 on a the next one stays pending: 0/1 nodes are available: "
                                                   "1 node(s) didn't find available persistent volumes to bind."), run


def test_one_pod_of_each_other_scheduler_is_shown():
    things = [node("a"), *(pod(f"a-{i:02}", schedulerName="first") for i in range(20)), pod("b", schedulerName="second")]
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all(things))
    assert "default/a-00 belongs to first" in run.stdout and "default/b belongs to second" in run.stdout
    assert "and 6 other pods without a node" in run.stdout


def test_each_misspelled_scheduler_name_is_reported_once():
    things = [node("a"), *(pod(f"p-{i}", schedulerName=name) for i, name in enumerate(["my-sheduler", "my-schedulr"] * 2))]
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all(things))
    assert [line for line in run.stderr.splitlines() if "did you mean" in line] == [
        f"default/p-{i} names {name}: did you mean my-scheduler?" for i, name in enumerate(["my-sheduler", "my-schedulr"])]


def test_the_api_prefix_of_kubectl_proxy_works(control_plane):
    port = free_port()
    control_plane.create(node("a"), pod("p"))
    proxy = control_plane.start("kubectl", "--kubeconfig", control_plane.kubeconfig(), "proxy", f"--port={port}", "--api-prefix=/k8s-api")
    url = f"http://127.0.0.1:{port}/k8s-api"
    try:
        wait_for("the proxy answers", lambda: run_scheduler("--server", url, "--explain", "p").returncode == 0)
        run = run_scheduler("--server", url, "--once")
        assert run.returncode == 0 and control_plane.placements() == {"default/p": "a"}, run.stderr
    finally:
        proxy.kill()
        proxy.wait()
