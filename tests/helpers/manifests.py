"""Helpers for the tests of manifests."""

import json

import yaml

from helpers.extras import ROOT, node, pod, run_scheduler


LEFT_OUT = " is skipped because an API server would reject it"
MODES = ["ReadWriteOnce"]


def kind(kind, name, namespace=None, **more):
    """An object of a kind; claims and volumes have access modes."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    if kind in ("PersistentVolumeClaim", "PersistentVolume"):
        more["spec"] = {"accessModes": MODES} | more.get("spec", {})
    return {"kind": kind, "metadata": metadata | more.pop("metadata", {}), **more}


def limited(limits, requests=None, kind="containers", **spec):
    """A pod with a container that has limits, and possibly requests."""
    resources = {"limits": limits} | ({"requests": requests} if requests else {})
    return pod("p", **{"containers": [{"name": "main"}], kind: [{"name": "c", "resources": resources}]}, **spec)


def placed(*things, text=None, arguments=()):
    """Schedule manifests on a node of 4 cpu; return the decisions by pod, and the standard error.

    The exit code must be 1 if an object is skipped.
    """
    text = text or yaml.safe_dump_all([node("n"), *things])
    run = run_scheduler("--cluster", "-", "--output=json", *arguments, input=text, cwd=ROOT)
    assert run.returncode == (" is skipped " in run.stderr), run
    return {line["pod"]: line for line in map(json.loads, run.stdout.splitlines())}, run.stderr


def priority_class(name, value, **more):
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            **more}
