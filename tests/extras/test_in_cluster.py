"""Replicas in the cluster: the service account, leader election, and the permissions in my-scheduler.yaml."""

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests
import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from packaging.requirements import Requirement

from helpers.control_plane import free_port, wait_for
from helpers.extras import MANIFESTS, ROOT, node, pod, run_scheduler, table
from scheduler_extras.api.client import ApiClient
from scheduler_extras.common.errors import ApiError


LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


# ---- the service account -------------------------------------------------------------------------------

IN_A_POD = """import os, pathlib, sys
sys.path.append("tests")
from helpers.everywhere import replace_for_good
from scheduler_extras.command_line import main
replace_for_good("FOLDER", pathlib.Path(os.environ["POD_FOLDER"]))
replace_for_good("TOKEN_SECONDS", 0)
sys.exit(main())"""


class SchedulerPod:
    """The files and environment variables of a pod with the ServiceAccount my-scheduler."""

    def __init__(self, control_plane, folder):
        self.control_plane, self.folder = control_plane, folder
        self.kubectl("apply", "-f", "-", input=MANIFESTS)
        self.token = control_plane.request("POST", "namespaces/kube-system/serviceaccounts/my-scheduler/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
        (folder / "ca.crt").write_bytes((control_plane.folder / "certificates" / "apiserver.crt").read_bytes())
        self.mount(self.token)
        self.options = {"program": IN_A_POD, "env": os.environ | {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(control_plane.port), "POD_FOLDER": str(folder)}}

    def kubectl(self, *arguments, input=""):
        """Run kubectl as an administrator."""
        subprocess.run([self.control_plane.assets / "kubectl", "--kubeconfig", self.control_plane.kubeconfig(), *arguments],
                       input=input, text=True, check=True, capture_output=True)

    def mount(self, token):
        """Replace the token, as a kubelet does."""
        (self.folder / "token").write_text(token)

    def expired(self):
        """Return the token as if it had expired an hour ago, with the API server's own signature."""
        header, claims, _ = self.token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(claims + "=="))
        old = {name: claims[name] - 7200 for name in ("iat", "nbf")} | {"exp": int(time.time()) - 3600}
        signed = f"{header}.{encoded(json.dumps(claims | old).encode())}"
        key = serialization.load_pem_private_key((self.control_plane.folder / "key.pem").read_bytes(), None)
        return f"{signed}.{encoded(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def encoded(data):
    """Return bytes as a part of a token."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.fixture
def scheduler_pod(no_lease, tmp_path):
    """A SchedulerPod, with the objects of my-scheduler.yaml, which are deleted after the test."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    scheduler_pod = SchedulerPod(no_lease, folder)
    yield scheduler_pod
    scheduler_pod.kubectl("delete", "--wait=false", "-f", "-", input=MANIFESTS)


def test_in_a_pod_the_program_needs_no_proxy_and_logs_an_expired_token_once(scheduler_pod, start_scheduler):
    control_plane = scheduler_pod.control_plane
    control_plane.create(node("n"), pod("a"))
    running = start_scheduler("--interval=0.1", **scheduler_pod.options)
    wait_for("a is bound", lambda: control_plane.placements() == {"default/a": "n"})
    assert f"my-scheduler: watching https://127.0.0.1:{control_plane.port} with " in running.err
    scheduler_pod.mount(scheduler_pod.expired())
    control_plane.create(pod("b"), pod("c"))
    wait_for("the error is logged", lambda: "has expired" in running.err)
    time.sleep(2)  # it retries meanwhile
    assert set(control_plane.placements()) == {"default/a"}
    [line] = [line for line in running.err.splitlines() if "401" in line]
    assert line.endswith(f"https://127.0.0.1:{control_plane.port}: 401 Unauthorized: the token in {scheduler_pod.folder}/token has "
                         "expired, or is for another cluster; trying again")
    scheduler_pod.mount(scheduler_pod.token)
    wait_for("all pods are bound", lambda: set(control_plane.placements()) == {"default/a", "default/b", "default/c"})


@table("spoil, message", {
    "another CA": (lambda folder, ca: (folder / "ca.crt").write_bytes(ca), "certificate verify failed: .*; its certificate is checked with the CA in {}/ca.crt"),
    "a CA that is not a certificate": (lambda folder, ca: (folder / "ca.crt").write_text("none"), "cannot read the CA in {}/ca.crt: .*"),
    "an empty token": (lambda folder, ca: (folder / "token").write_text(""), "there is no token in {}/token"),
    "a token of two lines": (lambda folder, ca: (folder / "token").write_text("a\nb"), "there is no token in {}/token"),
    "another token": (lambda folder, ca: (folder / "token").write_text("a"), ".*: 401 Unauthorized: the token in {}/token has expired, or .*")})
def test_an_invalid_service_account_gives_an_error(scheduler_pod, tmp_path, spoil, message):
    certificate = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other", "-keyout", "/dev/null"],
                                 capture_output=True, check=True).stdout
    spoil(scheduler_pod.folder, certificate)
    run = run_scheduler("--once", **scheduler_pod.options)
    assert run.returncode == 1 and re.search(message.format(scheduler_pod.folder), run.stderr.splitlines()[-1]), run.stderr


def test_both_replicas_are_ready_one_leads_and_only_a_stopped_one_fails_its_probe(scheduler_pod, start_scheduler):
    ports = [free_port(), free_port()]
    replicas = [start_scheduler("--leader-elect", "--listen", port, **scheduler_pod.options) for port in ports]

    def leads(port):
        """Return whether the metrics of a replica show that it leads."""
        return "leader_election_master_status{name=\"my-scheduler\"} 1\n" in answer(port, "metrics").text

    wait_for("both are ready", lambda: all(answer(port, "readyz") for port in ports))
    wait_for("one leads", lambda: sum(map(leads, ports)) == 1)
    [leader] = [number for number, port in enumerate(ports) if leads(port)]
    replicas[leader].send_signal(signal.SIGSTOP)
    assert not answer(ports[leader], "livez") and answer(ports[1 - leader], "livez") and answer(ports[1 - leader], "readyz")
    replicas[leader].send_signal(signal.SIGCONT)
    assert "orbidden" not in replicas[0].err + replicas[1].err


def answer(port, path):
    """Return a replica's answer to a probe, or None."""
    with contextlib.suppress(requests.RequestException):
        return requests.get(f"http://127.0.0.1:{port}/{path}", timeout=5)


# ---- leader election -----------------------------------------------------------------------------------


def election(folder, **times):
    """Write a KubeSchedulerConfiguration with leader election and short times; return its path."""
    path = folder / "config.json"
    path.write_text(json.dumps({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True, "leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms",
                           **times}}))
    return path


def lease(control_plane, method="GET", body=None):
    """Read or replace the Lease; return it, or None if it does not exist."""
    try:
        return ApiClient(control_plane.server).request(method, f"{LEASES}/my-scheduler", body)
    except ApiError as error:
        assert error.status == 404
        return None


@pytest.fixture
def no_lease(control_plane):
    """A control plane without the Lease of an earlier test."""
    subprocess.run([control_plane.assets / "kubectl", "--kubeconfig", control_plane.kubeconfig(), "-n", "kube-system",
                    "delete", "lease", "my-scheduler", "--ignore-not-found"], check=True, capture_output=True)
    return control_plane


def test_one_replica_schedules_and_another_takes_over_when_it_dies(no_lease, tmp_path, start_scheduler):
    """This takes more than 10 s, because the Lease must be long enough to be renewed on a busy machine."""
    control_plane = no_lease
    control_plane.create(node("n"))
    times = election(tmp_path, leaseDuration="8s", renewDeadline="5s")
    arguments = ["--server", control_plane.server, "--interval=0.1", "--policy", times]
    first = start_scheduler(*arguments)
    holder = wait_for("there is a leader", lambda: lease(control_plane))["spec"]["holderIdentity"]
    second = start_scheduler(*arguments)
    control_plane.create(pod("early"))
    wait_for("the leader binds", lambda: control_plane.placements())
    assert second.poll() is None and lease(control_plane)["spec"]["holderIdentity"] == holder

    first.kill()
    died = time.monotonic()
    control_plane.create(pod("late"))
    wait_for("the other replica binds", lambda: len(control_plane.placements()) == 2)
    taken = time.monotonic() - died
    spec = lease(control_plane)["spec"]
    assert spec["holderIdentity"] != holder and spec["leaseTransitions"] == 1 and spec["leaseDurationSeconds"] == 8
    assert taken > 2, "only after the Lease of 8 s has expired"

    second.terminate()
    assert second.wait(60) == 0
    assert lease(control_plane)["spec"]["holderIdentity"] == "", "it releases the Lease"


def test_after_a_leader_stops_the_next_one_leads_at_once(no_lease, tmp_path, start_scheduler):
    control_plane = no_lease
    times = election(tmp_path, leaseDuration="100s", renewDeadline="90s")
    arguments = ["--server", control_plane.server, "--policy", times, "--interval=0.1"]
    first = start_scheduler(*arguments)
    wait_for("there is a leader", lambda: "became leader" in first.err)
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 0
    control_plane.create(node("n"), pod("p"))
    start_scheduler(*arguments)
    wait_for("the next one binds, before 100 s are over", lambda: control_plane.placements())


def test_a_single_pass_releases_the_lease(no_lease, tmp_path):
    for _attempt in range(5):  # on a busy machine it may fail to renew or to release the Lease
        run = run_scheduler("--server", no_lease.server, "--once", "--policy", election(tmp_path, retryPeriod="10ms"))
        if (run.returncode, lease(no_lease)["spec"]["holderIdentity"]) == (0, ""):
            return
    raise AssertionError(run)


def test_a_leader_that_cannot_renew_stops(no_lease, tmp_path, start_scheduler):
    control_plane = no_lease
    leader = start_scheduler("--server", control_plane.server, "--interval=0.1", "--policy", election(tmp_path))
    wait_for("the replica leads", lambda: "became leader" in leader.err)

    def message():
        """Return its log without warnings about late answers, which appear on a busy machine."""
        return [line for line in leader.err.splitlines() if "leader election: " not in line]

    for words, line in zip(("watching", "no pods to schedule", "became leader"), message()):
        assert words in line
    stolen = lease(control_plane)
    for _ in range(20):
        stolen["spec"] |= {"holderIdentity": "somebody", "renewTime": "2030-01-01T00:00:00.000000Z"}
        try:
            lease(control_plane, "PUT", stolen)
            break
        except AssertionError:  # the leader has renewed it meanwhile
            stolen = lease(control_plane)
    assert leader.wait(60) == 1
    assert message()[3:] == ["leader election lost", "bound 0, 0 pending"]
    assert lease(control_plane)["spec"]["holderIdentity"] == "somebody"


# ---- the permissions -----------------------------------------------------------------------------------

def test_the_permissions_are_sufficient_and_all_are_used(scheduler_pod, tmp_path):
    control_plane = scheduler_pod.control_plane
    storage_class = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                     "volumeBindingMode": "WaitForFirstConsumer"}
    volumes = [{**storage_class, "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"},
               {**storage_class, "metadata": {"name": "made"}, "provisioner": "example.com/made"},
               {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {
                   "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                   "hostPath": {"path": "/data"}}}]
    volumes += [{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                 "metadata": {"name": name, "namespace": "default"}, "spec": {
                     "storageClassName": name, "accessModes": ["ReadWriteOnce"],
                     "resources": {"requests": {"storage": "1Gi"}}}} for name in ("local", "made")]
    scheduler_pod.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(volumes))
    control_plane.request("PATCH", "persistentvolumes/disk/status", {"status": {"phase": "Available"}},
                          headers={"Content-Type": "application/merge-patch+json"})
    claims = {name: [{"name": "v", "persistentVolumeClaim": {"claimName": name}}] for name in ("local", "made")}
    control_plane.create(node("n"), pod("web"), pod("big", {"cpu": "99"}),
                         *(pod(name, volumes=claims[name]) for name in claims))
    (tmp_path / "policy.json").write_text('{"kind": "Policy", "apiVersion": "v1"}')
    log = ""
    for _ in range(2):  # the second run updates the Lease
        run = run_scheduler("--once", "--leader-elect", "-v", "--policy", tmp_path / "policy.json", **scheduler_pod.options)
        assert run.returncode == 0, run.stderr
        log += run.stderr
    assert "orbidden" not in log and "RBAC" not in log, log
    assert set(control_plane.placements()) == {"default/web"}
    annotations = control_plane.get("namespaces/default/persistentvolumeclaims/made")["metadata"]["annotations"]
    assert annotations["volume.kubernetes.io/selected-node"] == "n"
    assert control_plane.get("persistentvolumes/disk")["spec"]["claimRef"]["name"] == "local"

    used, verbs = set(), {"POST": "create", "PATCH": "patch", "PUT": "update"}
    for method, group, resource, name, part, rest in re.findall(
            r"^\S+ \S+  (\w+) /apis?/(?:([\w.]+)/)?v1/(?:namespaces/[^/ ]+/)?(\w+)(?:/([^/ ]+))?(?:/(\w+))? (.*)", log, re.M):
        reads = "get" if name else "watch" if "'watch'" in rest else "list"
        used.add((group, f"{resource}/{part}" if part else resource, verbs.get(method) or reads))
    roles = [thing for thing in yaml.safe_load(MANIFESTS)["items"] if thing["kind"] in ("ClusterRole", "Role")]
    granted = {(group, resource, verb) for role in roles for rule in role["rules"] for group in rule["apiGroups"]
               for resource in rule["resources"] for verb in rule["verbs"]}
    # Namespaces are listed for a namespaceSelector, and capacities for a CSIDriver's storageCapacity; this API server
    # drops both fields. VolumeAttachments are listed only with a KubeSchedulerConfiguration. A pod is read if its
    # Binding fails. The count of an event is patched after five minutes.
    unused = {("", "namespaces", "list"), ("storage.k8s.io", "csistoragecapacities", "list"),
              ("storage.k8s.io", "volumeattachments", "list"), ("", "pods", "get"), ("", "events", "patch")}
    watched, listed = ({right[:2] for right in granted if right[2] == verb} for verb in ("watch", "list"))
    assert watched == listed, "listed resources are watched, too; this run may end before it watches the last ones"
    assert {right for right in used if right[2] != "watch"} == {
        right for right in granted - unused if right[2] != "watch"}
    assert {("", "pods", "watch"), ("", "nodes", "watch")} <= used
    scheduler_pod.kubectl("delete", "--wait=false", "-f", "-", input=yaml.safe_dump_all(volumes))


# ---- the image -----------------------------------------------------------------------------------------

def test_each_instruction_of_the_dockerfile_works(tmp_path):
    """No image is built: the copied files exist, the command starts, and the packages are in the ranges of requirements.txt."""
    lines = [line.split() for line in (ROOT / "scheduler_extras" / "examples" / "Dockerfile").read_text().splitlines() if line[:1].isupper()]
    assert [line[0] for line in lines] == ["FROM", "RUN", "COPY", "COPY", "USER", "ENTRYPOINT"]
    for _, source, target in lines[2:4]:
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        copy(ROOT / source, tmp_path / Path(target).relative_to("/code") if copy is shutil.copytree else tmp_path)
    _, program = json.loads(" ".join(lines[5][1:]))
    answer = subprocess.run([sys.executable, tmp_path / Path(program).relative_to("/code"), "--version"],
                            cwd="/", capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0 and answer.stdout.startswith("scheduler_extras ")
    pinned = dict(word.split("==") for word in lines[1] if "==" in word)
    for wanted in map(Requirement, (ROOT / "requirements.txt").read_text().split()):
        assert wanted.specifier.contains(pinned[wanted.name.lower()]), wanted
