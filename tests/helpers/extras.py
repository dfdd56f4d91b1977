"""Helpers for the tests of the second program: the program as a command, short constructors for objects, clusters of objects."""

import contextlib
import logging
import math
import os
import re
import resource
import subprocess
import sys
import threading
import time

import pytest

from helpers.control_plane import wait_for
from helpers.everywhere import ROOT
from helpers.forked import Command, run_to_end
from scheduler import log
from scheduler_extras.common.chance import CHANCE
from scheduler_extras.common.clocks import HEARTBEAT, STOP
from scheduler_extras.common.errors import FAILURE, Malformed
from scheduler_extras.common.log_texts import WARNED
from scheduler_extras.deciding.rule import PREDICATES
from scheduler_extras.live.cluster import ListedCluster, LiveCluster
from scheduler_extras.live.loop import schedule_pending_pods
from scheduler_extras.live.writer import DryRun, Writer
from scheduler_extras.manifests.in_memory_writer import WriterOfManifests
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.policy.policy_reader import default_entries
from scheduler_extras.policy.schedule import schedule


DEFAULT_PREDICATES = ["GeneralPredicates", *(entry["name"] for entry in default_entries("predicates"))]


MANDATORY_PREDICATES = [rule.name for rule in PREDICATES.values() if rule.always]


DEFAULT_PRIORITIES = [entry["name"] for entry in default_entries("priorities")]


SCHEDULER = [sys.executable, str(ROOT / "scheduler_extras")]


SLOWNESS = re.compile(r"^.*(scheduling .* took [0-9.]+ s: | is slow: it has taken more than| has not answered for 5 s).*\n", re.M)


# The program with longer timeouts, for busy machines. By default, at its end it waits 10 s for answers (3 s after a
# signal, which ends it after 4 s at the latest), and 5 s for a free writer thread.
PATIENT = """import sys, threading
sys.path.append("tests")
from scheduler_extras.command_line import main
from scheduler_extras.live.results import Results
from scheduler_extras.live.writer import Writer
finish, timer = Results.finish, threading.Timer
plain_wait = Writer.wait_for_a_free_thread
Results.finish = lambda pending, seconds, *more: finish(pending, 10 * seconds, *more)
threading.Timer = lambda seconds, *more: timer(10 * seconds, *more)
def wait_for_a_free_thread(writer):
    writer.patience = 60
    plain_wait(writer)
Writer.wait_for_a_free_thread = wait_for_a_free_thread
sys.exit(main())"""


UNCHECKED = """import sys
sys.path.append("tests")
from helpers.everywhere import replace_for_good
from scheduler_extras.command_line import main
replace_for_good("refusals", lambda kind, thing: [])
sys.exit(main())"""  # as if an API server accepted all manifests


TIME = re.compile(r"^\d\d:\d\d:\d\d  ", re.M)  # each line starts with the time if the program runs until a signal


def without_timing(text):
    """Remove the times, and the warnings that appear only on a busy machine."""
    return SLOWNESS.sub("", TIME.sub("", text))


def reset_process():
    """Reset the state of the process, which a command that ran in it may have left: see the modules of common/."""
    log.setLevel(logging.NOTSET)
    CHANCE.seed = None
    WARNED.clear()
    HEARTBEAT.at, HEARTBEAT.limit = time.monotonic(), math.inf
    STOP.clear()
    FAILURE.clear()


def run_scheduler(*arguments, **options):
    """Run the program to its end; return its exit code, its output without timing, and its seconds of CPU."""
    if "--once" in arguments and "--server" in arguments:
        options.setdefault("program", PATIENT)
    run = run_to_end(arguments, **options)
    run.stderr = without_timing(run.stderr)
    return run


class Running(Command):
    """The program in the background, with its output in files."""

    def __init__(self, folder, arguments, **options):
        self.files = folder / "stdout", folder / "stderr"
        with open(os.devnull) as nothing, open(self.files[0], "wb") as out, open(self.files[1], "wb") as err:
            super().__init__(arguments, nothing, out, err, **options)

    @property
    def out(self):
        """Its output so far, without times."""
        return TIME.sub("", self.files[0].read_text(errors="replace"))

    @property
    def err(self):
        """Its log so far, without timing."""
        return without_timing(self.files[1].read_text(errors="replace"))


def run_afresh(*arguments, script=ROOT / "scheduler_extras", **options):
    """Run a script to its end in a new Python interpreter; return its exit code and output."""
    return subprocess.run([sys.executable, str(script), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, **options)


def node(name, cpu="4", memory="8Gi", pods="110", labels=None, status=None, **spec):
    """A Node object, ready to be POSTed."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}, "spec": spec,
            "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}, **(status or {})}}


def pod(name, requests=None, namespace="default", labels=None, metadata=None, status=None, **spec):
    """A Pod object for my-scheduler, ready to be POSTed."""
    container = {"name": "main", "image": "nginx", "resources": {"requests": requests or {}}}
    return {"apiVersion": "v1", "kind": "Pod", "status": status or {},
            "metadata": {"name": name, "namespace": namespace, "labels": labels or {}, **(metadata or {})},
            "spec": {"schedulerName": "my-scheduler", "containers": [container], **spec}}


def storage_class(name, provisioner="kubernetes.io/no-provisioner", **more):
    """A StorageClass with the binding mode WaitForFirstConsumer."""
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer", **more}


def claim(name="data", of="local", metadata=None, status=None, **spec):
    """A PersistentVolumeClaim of a class, bound if it names a volume."""
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if "volumeName" in spec else {}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default", "annotations": bound, **(metadata or {})},
            "status": status or {}, "spec": {
                "storageClassName": of, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}, **spec}}


def to_be_provisioned(node_name):
    """The metadata of a claim that waits for a volume to be provisioned for a node."""
    return {"annotations": {"volume.kubernetes.io/selected-node": node_name}}


def volume(name, of="local", phase="Available", metadata=None, **spec):
    """A PersistentVolume of a class."""
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, **(metadata or {})}, "spec": {
        "storageClassName": of, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec},
        "status": {"phase": phase}}


def csi_node(**limits):
    """The CSINode of node a: how many volumes of each driver it can attach."""
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": [
        {"name": name, "nodeID": "a", "allocatable": {"count": count}} for name, count in limits.items()]}}


def pending_pods(cluster, policies):
    """The pods to be tried, each with its record."""
    return cluster.update_queue(cluster.find_waiting(policies), policies)


def run_pass(cluster, policies, show=lambda decision: None, stop=None):
    """Run a pass. `show` receives its decisions."""
    cluster.attempts.on_carried_out = show
    schedule_pending_pods(cluster, policies, stop or threading.Event())


def wait_for_writes(cluster):
    """Wait until all requests are sent and all postBind hooks have run, except for Bindings without an answer."""
    wait_for("all is written", lambda: cluster.writer.tasks.unfinished_tasks <= cluster.writer.awaited)


def writer_of(api, dry_run=False):
    """A writer for an API server or for manifests; a test may choose its class."""
    usual = WriterOfManifests if isinstance(api, Manifests) else Writer
    return DryRun(api) if dry_run else getattr(api, "kind_of_writer", usual)(api)


def new_cluster(api, *more, dry_run=False):
    """A cluster that lists its objects in each pass."""
    return ListedCluster(writer_of(api, dry_run), *more)


def new_live_cluster(api, *more):
    """A cluster that watches its objects."""
    return LiveCluster(writer_of(api), *more)


def cluster_of(*objects):
    """A cluster of these objects."""
    manifests = Manifests()
    for thing in objects:
        with contextlib.suppress(Malformed):  # as if an API server had accepted it
            manifests.add(thing)
    return new_cluster(manifests)


def decide(policies, incoming, *objects):
    """The decision about a pod among these objects."""
    cluster = cluster_of(incoming, *objects)
    [waiting] = [waiting for waiting in pending_pods(cluster, policies) if waiting.raw is incoming]
    return schedule(waiting, cluster.refresh_snapshot(policies), policies[waiting.scheduler])


def table(names, rows):
    """Parametrize a test with a table: {a sentence: its values}."""
    return pytest.mark.parametrize(names, rows.values(), ids=rows.keys())


def compute_for_all(nodes, key, snapshot, compute, basis=None, then=lambda nodes, answers: answers):
    """Return what `answers_about` returns, without the cache."""
    return then(nodes, compute(nodes).by_node)


def index_all(key, snapshot, compute, update, basis=None):
    """Return what `index_of_nodes` returns, without the cache."""
    return update(None, {}, compute(snapshot.nodes).by_node)


def compute_each_time(key, snapshot, basis, compute):
    """Return what `memo` returns, without the cache."""
    return compute()


def limits(seconds):
    """Limits for a process that might not end: its memory, and its seconds of CPU."""
    return [(resource.RLIMIT_AS, 2 << 30), (resource.RLIMIT_CPU, seconds)]


# The example that runs the program in a cluster. The API server of 1.20 serves budgets as v1beta1 only.
MANIFESTS = (ROOT / "scheduler_extras" / "examples" / "my-scheduler.yaml").read_text().replace(
    "apiVersion: policy/v1\n", "apiVersion: policy/v1beta1\n")
