"""What the tests share: the scheduler as a command, objects in short, and a real control plane."""

import contextlib
import gc
import inspect
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from time import monotonic  # which stays, where a test moves the script's clock

import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from everything import MODULES, ROOT, scheduler
from forked import Command

DEFAULT_PREDICATES = ["GeneralPredicates", *(entry["name"] for entry in scheduler.default_entries("predicates"))]
MANDATORY_PREDICATES = [rule.name for rule in scheduler.PREDICATES.values() if rule.always]
DEFAULT_PRIORITIES = [entry["name"] for entry in scheduler.default_entries("priorities")]
SCHEDULER = [sys.executable, str(ROOT / "scheduler.py")]


SLOWNESS = re.compile(r"^.* (takes [0-9.]+ s to decide about|takes long: more than|has not answered for 5 s).*\n", re.M)
# Before it ends, the script waits for answers for 10 s, after a signal for 3 s, and is ended after 4 s; for a thread that
# writes it waits for 5 s. On a machine that is busy with something else they may come later.
PATIENT = """import sys, threading
sys.path.append("tests")
from everything import scheduler
finish, timer = scheduler.BindingCycle.finish, threading.Timer
plain_wait = scheduler.Writer.wait_for_a_free_thread
scheduler.BindingCycle.finish = lambda pending, seconds, *more: finish(pending, 10 * seconds, *more)
threading.Timer = lambda seconds, *more: timer(10 * seconds, *more)
def wait_for_a_free_thread(writer):
    writer.patience = 60
    plain_wait(writer)
scheduler.Writer.wait_for_a_free_thread = wait_for_a_free_thread
sys.exit(scheduler.main())"""


UNCHECKED = """import sys
sys.path.append("tests")
from everything import scheduler
scheduler.refusals = lambda kind, thing: []
sys.exit(scheduler.main())"""  # as if an API server took whatever manifests say


def on_any_machine(text):
    """What was said, without the lines that a machine adds that is busy with something else."""
    return SLOWNESS.sub("", text)


def run_scheduler(*arguments, input="", timeout=120, **options):
    """Run scheduler.py to its end; return its exit code, what it said on any machine, and its seconds of CPU."""
    if "--once" in arguments and "--server" in arguments:
        options.setdefault("program", PATIENT)
    with contextlib.ExitStack() as files:
        stdin, stdout, stderr = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        stdin.write(input if isinstance(input, bytes) else input.encode())
        stdin.seek(0)
        command = Command(arguments, stdin, stdout, stderr, **options)
        try:
            command.wait(timeout)
        finally:
            command.kill()
        for printed in (stdout, stderr):
            printed.seek(0)
        out, err = (printed.read().decode(errors="replace") for printed in (stdout, stderr))
        run = subprocess.CompletedProcess(command.args, command.returncode, out, on_any_machine(err))
        run.cpu_seconds = command.cpu_seconds
        return run


class Running(Command):
    """scheduler.py as it runs, its output in files."""

    def __init__(self, folder, arguments, **options):
        self.files = folder / "stdout", folder / "stderr"
        with open(os.devnull) as nothing, open(self.files[0], "wb") as out, open(self.files[1], "wb") as err:
            super().__init__(arguments, nothing, out, err, **options)

    @property
    def out(self):
        """What it has printed so far."""
        return self.files[0].read_text(errors="replace")

    @property
    def err(self):
        """What it has logged so far, on any machine."""
        return on_any_machine(self.files[1].read_text(errors="replace"))


def run_afresh(*arguments, script=ROOT / "scheduler.py", **options):
    """Run a script to its end in a Python of its own; return its exit code and what it printed."""
    return subprocess.run([sys.executable, str(script), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, **options)


def node(name, cpu="4", memory="8Gi", pods="110", labels=None, status=None, **spec):
    """A Node object, ready to be POSTed."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}, "spec": spec,
            "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}, **(status or {})}}


def pod(name, requests=None, namespace="default", labels=None, metadata=None, status=None, **spec):
    """A Pod object of my-scheduler's, ready to be POSTed."""
    container = {"name": "main", "image": "nginx", "resources": {"requests": requests or {}}}
    return {"apiVersion": "v1", "kind": "Pod", "status": status or {},
            "metadata": {"name": name, "namespace": namespace, "labels": labels or {}, **(metadata or {})},
            "spec": {"schedulerName": "my-scheduler", "containers": [container], **spec}}


def storage_class(name, provisioner="kubernetes.io/no-provisioner", **more):
    """A StorageClass whose claims wait for their first consumer."""
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer", **more}


def claim(name="data", of="local", metadata=None, status=None, **spec):
    """A PersistentVolumeClaim of a class; it is bound if it names a volume."""
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if "volumeName" in spec else {}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default", "annotations": bound, **(metadata or {})},
            "status": status or {}, "spec": {
                "storageClassName": of, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}, **spec}}


def remembering(node_name):
    """The metadata of a claim for which a volume is to be provisioned for a node."""
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


def wait_for(what, condition, seconds=60):
    """Poll until condition() is true; return its value."""
    deadline = monotonic() + seconds
    pause = 0.001
    while True:
        value = condition()
        if value:
            return value
        assert monotonic() < deadline, f"waited {seconds} s in vain until {what}"
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def pending_pods(cluster, policies):
    """The pods that are to be tried, each with its record."""
    return cluster.pending.renew(cluster.waiting_pods(policies), policies)


def a_pass(cluster, policies, show=lambda decision: None, stop=None):
    """Make a pass that shows its decisions so."""
    cluster.show = show
    scheduler.schedule_pending_pods(cluster, policies, stop or threading.Event())


def wait_until_told(cluster):
    """Wait until all is written, and rules have followed up all bindings, except Bindings that are under way."""
    wait_for("all is told", lambda: cluster.writer.tasks.unfinished_tasks <= cluster.cycle.under_way)


def writer_of(api, dry_run=False):
    """What writes to an API server, or to manifests; a test may say which kind."""
    usual = scheduler.WriterOfManifests if isinstance(api, scheduler.Manifests) else scheduler.Writer
    return scheduler.DryRun(api) if dry_run else getattr(api, "kind_of_writer", usual)(api)


def a_cluster(api, *more, dry_run=False):
    """A cluster that is listed in each pass."""
    return scheduler.ListedCluster(writer_of(api, dry_run), *more)


def a_live_cluster(api, *more):
    """A cluster that is watched."""
    return scheduler.LiveCluster(writer_of(api), *more)


def cluster_of(*objects):
    """A cluster that is made of these objects."""
    manifests = scheduler.Manifests()
    for thing in objects:
        with contextlib.suppress(scheduler.Malformed):  # of an API server that let it pass
            manifests.add(thing)
    return a_cluster(manifests)


def decide(policies, incoming, *objects):
    """The decision about a pod among these objects."""
    cluster = cluster_of(incoming, *objects)
    [waiting] = [waiting for waiting in pending_pods(cluster, policies) if waiting.raw is incoming]
    return scheduler.schedule(waiting, cluster.look(policies), policies[waiting.scheduler])


def table(names, rows):
    """Parametrize a test by a table: {a sentence: its values}."""
    return pytest.mark.parametrize(names, rows.values(), ids=rows.keys())


def ask_all(subject, like, snapshot, nodes, function, basis=None, then=lambda nodes, answers: answers, change=None,
            at_once=None, so_far=None):
    """What `recall` says that it is, without memory."""
    return then(nodes, {name: function(node) for name, node in nodes.items()})


@pytest.fixture
def without_memory(monkeypatch):
    """Every rule is asked about every node for every pod."""
    monkeypatch.setattr(scheduler, "recall", ask_all)
    for module in MODULES:
        for name, function in [*vars(module).items()]:
            if hasattr(function, "__wrapped__") and [*inspect.signature(function).parameters][:1] == ["pod"]:
                monkeypatch.setattr(module, name, function.__wrapped__)


@pytest.fixture
def serve():
    """A function that takes in a server, which is stopped at the end of the test."""
    servers = []
    yield lambda server: servers.append(server) or server
    for server in servers:
        server.stop()


@pytest.fixture(params=["with memory", "without memory"])
def memory(request):
    """The test is carried out as it stands, and again without memory."""
    if request.param == "without memory":
        request.getfixturevalue("without_memory")


@pytest.fixture(autouse=True)
def nothing_said_yet():
    """What is said once is said once in each test, and none has failed or been told to end before it."""
    scheduler.WARNED.clear()
    scheduler.STOP.clear()
    scheduler.FAILURE.clear()


def free_port():
    """A TCP port on which nobody listens, and that no connection takes meanwhile: these have higher ones."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


class ControlPlane:
    """etcd and kube-apiserver on free loopback ports, and a kubectl proxy in front of them."""

    def __init__(self, assets, folder):
        self.assets, self.folder, self.processes = Path(assets), folder, []
        etcd, self.port, self.proxy_port = free_port(), free_port(), free_port()
        self.server = f"http://127.0.0.1:{self.proxy_port}"
        self.proxy, self.session = None, requests.Session()
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (folder / "key.pem").write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()))
        (folder / "tokens.csv").write_text("admin,admin,1,system:masters\nnobody,nobody,2,\n")
        self.start("etcd", f"--data-dir={folder}/etcd", f"--listen-client-urls=http://127.0.0.1:{etcd}",
                   f"--advertise-client-urls=http://127.0.0.1:{etcd}", "--listen-peer-urls=http://127.0.0.1:0",
                   "--unsafe-no-fsync")
        self.start("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd}", f"--secure-port={self.port}",
                   "--bind-address=127.0.0.1", f"--cert-dir={folder}/certificates",
                   "--service-account-issuer=https://kubernetes.default.svc",
                   f"--service-account-key-file={folder}/key.pem",
                   f"--service-account-signing-key-file={folder}/key.pem",
                   "--service-cluster-ip-range=10.0.0.0/24", f"--token-auth-file={folder}/tokens.csv",
                   "--authorization-mode=RBAC",
                   # nothing here makes service accounts, takes the taint off nodes that are made by hand, or lets
                   # go of volumes that are no longer in use
                   "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection")
        self.start_proxy()
        wait_for("kube-apiserver is ready", self.ready, 180)

    def start(self, program, *arguments):
        """Start a program of the control plane, its output in a log file."""
        with open(self.folder / f"{program}.log", "ab") as log:
            process = subprocess.Popen([self.assets / program, *arguments], stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def kubeconfig(self, user="admin", token=None):
        """A kubeconfig file for a user of the token file, or with a token of its own."""
        path = self.folder / f"{user}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": f"https://127.0.0.1:{self.port}", "insecure-skip-tls-verify": True}}],
            "users": [{"name": user, "user": {"token": token or user}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}]}))
        return path

    def start_proxy(self, user="admin", port=None):
        """Start kubectl proxy, where the last one was unless told otherwise."""
        self.proxy = self.start("kubectl", "--kubeconfig", self.kubeconfig(user), "proxy",
                                f"--port={port or self.proxy_port}")
        return self.proxy

    def ready(self):
        """Whether the API server answers through the proxy, and the default namespace is there."""
        try:
            return requests.get(f"{self.server}/readyz", timeout=5).ok and self.get("namespaces/default")
        except (requests.RequestException, AssertionError):
            return False

    def request(self, method, path, body=None, **options):
        """Send a request past the scheduler's code; return the answer's JSON."""
        answer = self.session.request(method, f"{self.server}/api/v1/{path}", json=body, timeout=60, **options)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def get(self, path, **options):
        """Read an object or a list."""
        return self.request("GET", path, **options)

    def create(self, *objects):
        """Create nodes and pods; status included, for nodes."""
        for thing in objects:
            where = f"namespaces/{thing['metadata']['namespace']}/pods" if thing["kind"] == "Pod" else "nodes"
            self.request("POST", where, thing)

    def bind(self, name, node_name, namespace="default"):
        """Bind a pod, as another scheduler would."""
        self.request("POST", f"namespaces/{namespace}/pods/{name}/binding", {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"kind": "Node", "name": node_name}})

    def pods(self):
        """All pods: namespace/name -> object."""
        return {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in self.get("pods")["items"]}

    def places(self):
        """The nodes of all pods that have one: namespace/name -> node."""
        return {key: pod["spec"]["nodeName"] for key, pod in self.pods().items() if "nodeName" in pod["spec"]}

    def events(self, reason):
        """The events with this reason: (namespace/name, message, component)."""
        events = self.get("events", params={"fieldSelector": f"reason={reason}"})["items"]
        return [(f"{event['involvedObject']['namespace']}/{event['involvedObject']['name']}", event["message"],
                 event["source"]["component"]) for event in events]

    def clear(self):
        """Delete all pods, nodes and events."""
        self.request("DELETE", "nodes")
        for kind in ("pods", "events"):
            time.sleep(0.1)  # for requests of a scheduler that was killed that are still on their way
            for namespace in self.get("namespaces")["items"]:
                url = f"{self.server}/api/v1/namespaces/{namespace['metadata']['name']}/{kind}"
                while self.session.delete(url, params={"gracePeriodSeconds": 0}, timeout=60).status_code == 504:
                    pass  # of 20,000 pods some are left when the request's time is up

    def stop(self):
        """Stop what was started here."""
        for process in reversed(self.processes):
            process.kill()
            process.wait()


def pytest_configure(config):
    """What Python is about to drop is an error, where scheduler.py does it; in `forked.py`, too."""
    config.addinivalue_line("filterwarnings", "error::DeprecationWarning:scheduler")


BESIDE_ANOTHER = ("test_side_by_side", "test_preemption", "test_contests")  # where the real kube-scheduler runs, too
SLOWEST = ("test_faults", "test_properties", "test_without_configuration")  # which begin first, or else all wait for one of them


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items):
    """Have the tests on a control plane run by few workers, each of which needs one of its own."""
    items.sort(key=lambda item: item.path.stem not in SLOWEST)
    for item in items:
        if "broken_control_plane" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("a control plane that is broken"))
        elif "shared_control_plane" in item.fixturenames and item.path.stem in BESIDE_ANOTHER:
            item.add_marker(pytest.mark.xdist_group("a control plane with kube-scheduler"))
        elif "shared_control_plane" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("a control plane"))


def pytest_collection_finish():
    """Have Python not look for garbage among what was collected, again and again: it saves a tenth of the time."""
    gc.freeze()


@pytest.fixture(scope="session")
def shared_control_plane(tmp_path_factory):
    """A control plane for all tests."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        assert not os.environ.get("CI"), "in CI the tests with a real control plane must run: set KUBEBUILDER_ASSETS"
        pytest.skip("needs a real control plane: set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, kubectl")
    control_plane = ControlPlane(assets, tmp_path_factory.mktemp("control-plane"))
    yield control_plane
    control_plane.stop()


@pytest.fixture
def control_plane(shared_control_plane):
    """An empty cluster on the shared control plane."""
    shared_control_plane.clear()
    return shared_control_plane


@pytest.fixture
def start_scheduler(tmp_path):
    """A function that starts scheduler.py beside the test; what runs at the end of the test is ended."""
    started = []

    def start(*arguments, program=PATIENT, **options):
        folder = tmp_path / f"run-{len(started)}"
        folder.mkdir()
        started.append(Running(folder, arguments, program=program, **options))
        return started[-1]

    yield start
    for running in started:
        running.kill()
        running.wait()
