"""Replicas in the cluster: leader election, and the manifests of my-scheduler.yaml with RBAC on."""

import json
import re
import signal
import subprocess
import time

import pytest
from helpers.everything import scheduler
import yaml
from helpers.control_plane import free_port, wait_for
from helpers.extras import ROOT, node, pod, run_scheduler, table

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
MANIFESTS = (ROOT / "scheduler_extras" / "examples" / "my-scheduler.yaml").read_text()


def election(folder, **times):
    """A KubeSchedulerConfiguration with leader election in less time than usual."""
    path = folder / "config.json"
    path.write_text(json.dumps({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True, "leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms",
                           **times}}))
    return path


def lease(control_plane, method="GET", body=None):
    """Read or replace the Lease, or None."""
    try:
        return scheduler.PooledProxy(control_plane.server).request(method, f"{LEASES}/my-scheduler", body)
    except scheduler.ApiError as error:
        assert error.status == 404
        return None


@pytest.fixture
def no_lease(control_plane):
    """A control plane without the Lease of an earlier test."""
    subprocess.run([control_plane.assets / "kubectl", "--kubeconfig", control_plane.kubeconfig(), "-n", "kube-system",
                    "delete", "lease", "my-scheduler", "--ignore-not-found"], check=True, capture_output=True)
    return control_plane


def test_one_replica_schedules_and_another_takes_over_when_it_dies(no_lease, tmp_path, start_scheduler):
    """It takes over 10 s, as a Lease runs out that a busy machine has time to renew."""
    control_plane = no_lease
    control_plane.create(node("n"))
    times = election(tmp_path, leaseDuration="8s", renewDeadline="5s")
    arguments = ["--server", control_plane.server, "--interval=0.1", "--policy", times]
    first = start_scheduler(*arguments)
    holder = wait_for("there is a leader", lambda: lease(control_plane))["spec"]["holderIdentity"]
    second = start_scheduler(*arguments)
    control_plane.create(pod("early"))
    wait_for("the leader binds", lambda: control_plane.places())
    assert second.poll() is None and lease(control_plane)["spec"]["holderIdentity"] == holder

    first.kill()
    died = time.monotonic()
    control_plane.create(pod("late"))
    wait_for("the other replica binds", lambda: len(control_plane.places()) == 2)
    taken = time.monotonic() - died
    spec = lease(control_plane)["spec"]
    assert spec["holderIdentity"] != holder and spec["leaseTransitions"] == 1 and spec["leaseDurationSeconds"] == 8
    assert taken > 2, "when the Lease of 8 s has run out, and not before"

    second.terminate()
    assert second.wait(60) == 0
    assert lease(control_plane)["spec"]["holderIdentity"] == "", "it lets go of the Lease"


def test_a_leader_that_stops_lets_the_next_lead_at_once(no_lease, tmp_path, start_scheduler):
    control_plane = no_lease
    times = election(tmp_path, leaseDuration="100s", renewDeadline="90s")
    arguments = ["--server", control_plane.server, "--policy", times, "--interval=0.1"]
    first = start_scheduler(*arguments)
    wait_for("there is a leader", lambda: "became leader" in first.err)
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 0
    control_plane.create(node("n"), pod("p"))
    start_scheduler(*arguments)
    wait_for("the next one binds, without waiting for 100 s", lambda: control_plane.places())


def test_a_single_pass_lets_go_of_the_lease(no_lease, tmp_path):
    for _attempt in range(5):  # a busy machine may keep it from renewing the Lease in time, or while it ends
        run = run_scheduler("--server", no_lease.server, "--once", "--policy", election(tmp_path, retryPeriod="10ms"))
        if (run.returncode, lease(no_lease)["spec"]["holderIdentity"]) == (0, ""):
            return
    raise AssertionError(run)


def test_a_leader_that_cannot_renew_stops(no_lease, tmp_path, start_scheduler):
    control_plane = no_lease
    leader = start_scheduler("--server", control_plane.server, "--interval=0.1", "--policy", election(tmp_path))
    wait_for("it leads", lambda: "became leader" in leader.err)

    def said():
        """Return what it has said, but for what it says of an answer about the Lease that a busy machine delays."""
        return [line for line in leader.err.splitlines() if "leader election: " not in line]

    for words, line in zip(("watching", "no pod waits", "became leader"), said()):
        assert words in line
    stolen = lease(control_plane)
    for _ in range(20):
        stolen["spec"] |= {"holderIdentity": "somebody", "renewTime": "2030-01-01T00:00:00.000000Z"}
        try:
            lease(control_plane, "PUT", stolen)
            break
        except AssertionError:  # it was renewed in between
            stolen = lease(control_plane)
    assert leader.wait(60) == 1
    assert said()[3:] == ["leader election lost", "bound 0, 0 pending"]
    assert lease(control_plane)["spec"]["holderIdentity"] == "somebody"


class Leases:
    """An API server with a Lease, or that answers with a status."""

    def __init__(self, lease):
        self.lease = lease

    def request(self, method, path, body=None):
        if method != "GET":
            self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": "2"}}
        if not isinstance(self.lease, dict):
            raise scheduler.error_of(self.lease, f"status {self.lease}")
        return self.lease


def held_by(identity, **more):
    """A Lease."""
    return {"metadata": {"name": "my-scheduler", "resourceVersion": "1"}, "spec": {
        "holderIdentity": identity, "leaseTransitions": 4, **more}}


@table("lease, after, held, said", {
    "there is none yet": (404, 0, True, []),
    "nobody holds it": (held_by(""), 0, True, []),
    "another one holds it": (held_by("another"), 0, False, []),
    "and has not renewed it, but may still": (held_by("another"), 14.9, False, []),
    "and has not renewed it in time": (held_by("another"), 15, True, []),
    "it cannot be read": (403, 0, False, ["leader election: status 403"]),
    "it is no Lease": ({"metadata": {}, "spec": []}, 0, False, [
        "leader election: spec: expected an object, got []"]),
    "it counts in words": (held_by("", leaseTransitions="four"), 0, False, [
        'leader election: can only concatenate str (not "int") to str']),
})
def test_who_holds_the_lease(lease, after, held, said, monkeypatch, caplog):
    now = [1000.0]
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: now[0])
    leases = Leases(lease)
    election = scheduler.LeaderElection(leases, "my-scheduler", {})
    holds = [election.acquire()]
    now[0] += after
    holds.append(election.acquire())
    assert (holds[-1], caplog.messages) == (held, said)
    if held:
        spec = leases.lease["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (election.identity, 15)
        assert spec["leaseTransitions"] == (0 if lease == 404 else 5)


def test_a_lease_is_as_old_as_its_answer_not_as_the_question(monkeypatch):
    """It may have been renewed just before that, and its holder leads on for some seconds."""
    now = [1000.0]
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: now[0])
    leases = Leases(held_by("another"))
    plain = leases.request

    def slow(method, path, body=None):
        now[0] += 9 if method == "GET" else 0
        return plain(method, path, body)

    leases.request = slow
    election = scheduler.LeaderElection(leases, "my-scheduler", {})
    assert not election.acquire()
    leases.request = plain
    now[0] += 14.9
    assert not election.acquire()
    now[0] += 0.1
    assert election.acquire()


def test_a_replica_that_waits_says_so_once_and_who_leads(caplog):
    caplog.set_level("INFO", "scheduler")
    leases, waits = Leases(held_by("another")), []

    class Stop:
        """An event that is set at the fourth time; before the third, somebody else leads."""

        def wait(self, seconds):
            waits.append(seconds)
            leases.lease = held_by("a third one" if len(waits) > 1 else "another")
            return len(waits) == 4

    election = scheduler.LeaderElection(leases, "my-scheduler", {})
    assert not election.lead(Stop())
    assert caplog.messages == [f"{election.identity} waits: {leader} leads" for leader in ("another", "a third one")]


def test_the_lease_may_have_another_name_and_place():
    leases = Leases(404)
    asked = []
    plain = leases.request
    leases.request = lambda method, path, body=None: asked.append((method, path)) or plain(method, path, body)
    scheduler.LeaderElection(leases, "my-scheduler", {"resourceName": "ours", "resourceNamespace": "team"}).acquire()
    place = "/apis/coordination.k8s.io/v1/namespaces/team/leases"
    assert asked == [("GET", f"{place}/ours"), ("POST", place)]
    assert leases.lease["metadata"] == {"namespace": "team", "name": "ours", "resourceVersion": "2"}


def test_of_two_that_try_at_once_one_leads(caplog):
    leases = Leases(held_by(""))
    election = scheduler.LeaderElection(leases, "my-scheduler", {})

    def conflict(method, path, body=None):
        if method == "GET":
            return leases.lease
        raise scheduler.error_of(409, "somebody was faster")

    leases.request = conflict
    assert not election.acquire() and caplog.messages == []


def test_who_is_answered_by_no_api_server_does_not_lead(caplog):
    leases = Leases(404)
    plain = leases.request
    leases.request = lambda method, path, body=None: {"items": 7} if method == "POST" else plain(method, path, body)
    election = scheduler.LeaderElection(leases, "my-scheduler", {})
    assert not election.acquire() and not election.leads()
    assert caplog.messages == ["leader election: the Lease was answered, but by no API server"]


def test_with_these_rights_nothing_is_forbidden_and_no_right_is_idle(no_lease, tmp_path):
    control_plane = no_lease
    kubectl = [control_plane.assets / "kubectl", "--kubeconfig", control_plane.kubeconfig()]
    subprocess.run([*kubectl, "apply", "-f", "-"], input=MANIFESTS, text=True, check=True, capture_output=True)
    token = control_plane.request("POST", "namespaces/kube-system/serviceaccounts/my-scheduler/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
    port = free_port()
    proxy = control_plane.start("kubectl", "--kubeconfig", control_plane.kubeconfig("my-scheduler", token), "proxy",
                                f"--port={port}")
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
    subprocess.run([*kubectl, "apply", "-f", "-"], input=yaml.safe_dump_all(volumes), text=True, check=True,
                   capture_output=True)
    control_plane.request("PATCH", "persistentvolumes/disk/status", {"status": {"phase": "Available"}},
                          headers={"Content-Type": "application/merge-patch+json"})
    claims = {name: [{"name": "v", "persistentVolumeClaim": {"claimName": name}}] for name in ("local", "made")}
    control_plane.create(node("n"), pod("web"), pod("big", {"cpu": "99"}),
                         *(pod(name, volumes=claims[name]) for name in claims))
    (tmp_path / "policy.json").write_text('{"kind": "Policy", "apiVersion": "v1"}')
    try:
        wait_for("the proxy answers", lambda: run_scheduler(
            "--server", f"http://127.0.0.1:{port}", "--once", "--dry-run").returncode == 0)
        log = ""
        for _ in range(2):  # the second time, the Lease is there to be updated
            run = run_scheduler("--server", f"http://127.0.0.1:{port}", "--once", "--leader-elect", "-v",
                                "--policy", tmp_path / "policy.json")
            assert run.returncode == 0, run.stderr
            log += run.stderr
    finally:
        proxy.kill()
        proxy.wait()
    assert "orbidden" not in log and "RBAC" not in log, log
    assert set(control_plane.places()) == {"default/web"}
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
    # These are listed for a namespaceSelector, and for a CSIDriver's storageCapacity, which this API server drops.
    # And only a KubeSchedulerConfiguration has VolumeAttachments looked at. A pod is read if its Binding fails. An event
    # is counted up after five minutes.
    unused = {("", "namespaces", "list"), ("storage.k8s.io", "csistoragecapacities", "list"),
              ("storage.k8s.io", "volumeattachments", "list"), ("", "pods", "get"), ("", "events", "patch")}
    watched, listed = ({right[:2] for right in granted if right[2] == verb} for verb in ("watch", "list"))
    assert watched == listed, "what is listed is watched from then on; of what was listed last, the run may not live to do so"
    assert {right for right in used if right[2] != "watch"} == {
        right for right in granted - unused if right[2] != "watch"}
    assert {("", "pods", "watch"), ("", "nodes", "watch")} <= used
    subprocess.run([*kubectl, "delete", "--wait=false", "-f", "-"], check=True, capture_output=True, text=True,
                   input=MANIFESTS + "---\n" + yaml.safe_dump_all(volumes))
