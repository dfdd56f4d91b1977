"""Repositories and copies of clusters: the messages about objects other than plain workloads."""

import gzip
import io
import tarfile

import pytest
import yaml

from helpers.control_plane import wait_for
from helpers.extras import node, pod, run_scheduler, table
from helpers.manifests import LEFT_OUT, kind, placed, priority_class
from helpers.workloads import owned, workload


COPIED = {"uid": "1", "resourceVersion": "1"}


def in_files(folder, **texts):
    """Write each text, or list of objects, to a file; return the folder."""
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text if isinstance(text, str) else yaml.safe_dump_all(text))
    return folder


def hook(thing, tool, moment):
    """Return an object that a tool creates only at that moment."""
    return thing | {"metadata": thing["metadata"] | {"annotations": {tool: moment}}}


def of_namespace(name, **annotations):
    """Return a namespace copied from a live cluster, with these annotations."""
    return kind("Namespace", name, metadata=COPIED | {"annotations": annotations})


SELECTED = {"openshift.io/node-selector": "zone=a"}
NOT_SELECTED = "the node selector in its annotation openshift.io/node-selector is not applied here; add it to the pods themselves"
CLASS = kind("RuntimeClass", "gvisor", apiVersion="node.k8s.io/v1", handler="runsc")


# ---- what other tools and admission do

@table("things, message", {
    "a test hook of a Helm chart": (
        [hook(pod("p"), "helm.sh/hook", "test")], ["-: Pod p: Helm creates it only at test; helm template --no-hooks leaves it out"]),
    "a hook of Argo CD": ([hook(workload("Job"), "argocd.argoproj.io/hook", "PreSync")], ["-: Job w: Argo CD creates it only at PreSync"]),
    "a hook that is a ConfigMap, which creates no pods": ([hook(kind("ConfigMap", "c", apiVersion="v1"), "helm.sh/hook", "pre-install"), pod("p")], []),
    "a namespace with a node selector, and a pod that its ReplicaSet has yet to create": (
        [of_namespace("default", **SELECTED), workload("ReplicaSet")], [f"-: Namespace default: {NOT_SELECTED}"]),
    "... where all pods have been admitted": (
        [of_namespace("default", **SELECTED), workload("ReplicaSet"), owned("x", "ReplicaSet", nodeName="n") | {
            "metadata": owned("x", "ReplicaSet")["metadata"] | COPIED}, pod("p", namespace="other")], []),
    "... where the pods are in another namespace": ([of_namespace("other", **SELECTED), pod("p")], []),
    "a LimitRange in a namespace without new pods": ([kind("LimitRange", "l", "other", apiVersion="v1"), pod("p")], []),
    "a RuntimeClass that a pod uses": (
        [CLASS, pod("p", runtimeClassName="gvisor")],
        ["-: RuntimeClass gvisor: its overhead, nodeSelector and tolerations are not applied here; add them to the pods themselves"]),
    "... that no pod uses": ([CLASS, pod("p")], []),
    "the same kind in another API group": ([kind("LimitRange", "l", "default", apiVersion="example.com/v1"), pod("p")], []),
})
def test_a_message_names_what_the_script_does_not_apply(things, message):
    run = run_scheduler("--cluster", "-", input=yaml.safe_dump_all([node("n"), *things]))
    assert [line for line in run.stderr.splitlines() if not line.startswith("no pod waits")] == message and run.returncode == 0


@table("things, expected", {
    "a less important pod is on the node": ([pod("there", {"cpu": "1"}, nodeName="n")], True),
    "the node is empty": ([], False),
    "the other pod has the same priority": ([pod("there", nodeName="n", priorityClassName="high")], False),
    "the pod selects another node": ([pod("there", nodeName="n")], None),
})
def test_a_hint_at_preemption_comes_only_where_it_might_help(things, expected):
    fields = {"nodeSelector": {"disk": "ssd"}} if expected is None else {}
    _, message = placed(priority_class("high", 5), *things, pod("p", {"cpu": "9"}, priorityClassName="high", **fields))
    assert ("kube-scheduler might delete less important pods" in message) == bool(expected)


# ---- folders

def test_a_folder_without_nodes_is_an_error(tmp_path):
    in_files(tmp_path, kustomization="kind: Kustomization\nresources: [a.yaml]\n", a=[kind("Namespace", "n", apiVersion="v1")])
    run = run_scheduler("--cluster", tmp_path)
    assert run.returncode == 2 and f"{tmp_path}: there is no Node; " in run.stderr
    assert f"{tmp_path}: skipped, not Kubernetes objects: kustomization.yaml" in run.stderr and "expected a" not in run.stderr


def test_a_file_of_another_tool_is_skipped_even_if_it_comes_first(tmp_path):
    in_files(tmp_path, kind="kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n", rest=[node("n"), pod("p")])
    run = run_scheduler("--cluster", tmp_path / "kind.yaml", tmp_path / "rest.yaml")
    assert (run.returncode, run.stderr) == (0, f"{tmp_path}/kind.yaml: skipped, not Kubernetes objects: Cluster\n")


def test_a_patch_changes_only_the_fields_that_it_has(tmp_path):
    scaler = kind("HorizontalPodAutoscaler", "w", "default", apiVersion="autoscaling/v2", spec={
        "minReplicas": 3, "maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}})
    in_files(tmp_path, base=[node("n"), workload("Deployment"), scaler], labels=[node("n", labels={"disk": "ssd"})], patch=[
        scaler | {"spec": {"minReplicas": 1}}])
    text = (tmp_path / "labels.yaml").read_text()
    thing = yaml.safe_load(text)
    in_files(tmp_path, labels=[{each: thing[each] for each in thing.keys() - {"status"}} | {"apiVersion": "v1"}])
    run = run_scheduler("--cluster", tmp_path)
    assert run.stdout.count("default/w-") >= 3 and run.stdout.count(" -> n ") == 3, "the node keeps its allocatable, and the autoscaler its minReplicas"
    assert run.returncode == 1 and f"HorizontalPodAutoscaler w{LEFT_OUT}: spec.maxReplicas: Required value" in run.stderr


# ---- input that is no manifest

def in_tar(text):
    """Return a tar archive with one file of this text."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("a.yaml")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    return archive.getvalue()


@table("data, message", {
    "an error of helm": (b"Error: cannot re-use a name that is still in use\n", "this is an error message of helm, not a manifest: Error: cannot"),
    "a list of names": (b"node/n1\npod/p\n", "this is a list of names; write -o json instead of -o name: node/n1"),
    "a login page of a proxy": (b"<!DOCTYPE html>\n<html></html>", "this is a web page, maybe the login of a proxy: <!DOCTYPE html>"),
    "an archive": (in_tar(b"kind: Pod"), "this is an archive; unpack it with `tar -xf`, and give the folder to --cluster"),
    "a compressed archive": (gzip.compress(in_tar(b"kind: Pod")), "this is an archive; unpack it with `tar -xf`"),
    "a compressed file": (gzip.compress(b"kind: Pod"), "this file is compressed; pipe the output of `gunzip -c` to --cluster -"),
    "an error after the objects": (
        b'{"kind": "List", "items": []}\nError from server (Forbidden): nodes is forbidden: User "x" cannot list it\n',
        "it ends with an error message of kubectl, not a manifest: Error from server (Forbidden): nodes is forbidden"),
})
def test_input_that_is_no_manifest_gets_a_hint(data, message):
    run = run_scheduler("--cluster", "-", input=data)
    assert run.returncode == 2 and run.stderr.startswith(f"-: {message}") and run.stderr.count("\n") == 1


# ---- options

def test_fits_counts_copies_before_other_waiting_pods_with_the_rules_for_this_pod():
    things = [node("n"), pod("p", {"cpu": "2"}, schedulerName="default-scheduler"), pod("q", {"cpu": "3"})]
    run = run_scheduler("--cluster", "-", "--fits", "p", input=yaml.safe_dump_all(things))
    assert run.stdout.splitlines() == [
        "default/p: 2 copies fit: 2 on n", "the next one stays pending: 0/1 nodes are available: 1 Insufficient cpu.",
        "1 other waiting pod is not placed first", "decided with the default profile of kube-scheduler 1.36"]


@pytest.mark.parametrize("arguments, message", [(["--once"], "the page is written when no pod is due\n"), ([], None)])
def test_a_page_of_a_live_cluster_is_announced(arguments, message, control_plane, start_scheduler):
    control_plane.create(node("n"))
    if message:
        run = run_scheduler("--server", control_plane.server, "--output", "html", *arguments)
        assert message in run.stderr and run.stdout.startswith("<!DOCTYPE html>")
    else:
        running = start_scheduler("--server", control_plane.server, "--output", "html")
        wait_for("the page is announced", lambda: "the page is written when you press Ctrl-C" in running.err)
