"""A real control plane: etcd, kube-apiserver and kubectl proxy."""

import contextlib
import json
import os
import random
import socket
import subprocess
import time
from pathlib import Path
from time import monotonic  # imported by name, so that a test that replaces time.monotonic does not affect it

import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


LESS_GARBAGE_COLLECTION = os.environ | {"GOGC": "400"}  # by the Go programs: it saves a tenth of their CPU time


def wait_for(what, condition, seconds=60):
    """Poll until condition() is true; return its value.

    Each pause is four times as long as the check took, to leave the CPU to the program under test.
    """
    deadline = monotonic() + seconds
    pause = 0.001
    while True:
        before = monotonic()
        value = condition()
        if value:
            return value
        assert monotonic() < deadline, f"timed out after {seconds} s, waiting until {what}"
        time.sleep(max(pause, min(4 * (monotonic() - before), 0.2)))
        pause = min(2 * pause, 0.05)


def free_port():
    """A free TCP port, below the range that the system assigns to outgoing connections."""
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
                   # no controller runs here that would create service accounts, untaint new nodes, or remove
                   # the finalizers of volumes
                   "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection")
        self.start_proxy()
        wait_for("kube-apiserver is ready", self.ready, 180)

    def start(self, program, *arguments):
        """Start a program of the control plane, with its output in a log file."""
        with open(self.folder / f"{program}.log", "ab") as log:
            process = subprocess.Popen([self.assets / program, *arguments], stdout=log, stderr=log, env=LESS_GARBAGE_COLLECTION)
        self.processes.append(process)
        return process

    def kubeconfig(self, user="admin", token=None):
        """Write a kubeconfig file for a user of the token file, or with the given token; return its path."""
        path = self.folder / f"{user}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": f"https://127.0.0.1:{self.port}", "insecure-skip-tls-verify": True}}],
            "users": [{"name": user, "user": {"token": token or user}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}]}))
        return path

    def start_proxy(self, user="admin", port=None):
        """Start kubectl proxy, by default on the same port as before."""
        self.proxy = self.start("kubectl", "--kubeconfig", self.kubeconfig(user), "proxy",
                                f"--port={port or self.proxy_port}")
        return self.proxy

    def ready(self):
        """Return whether the API server answers through the proxy, and the namespace default exists."""
        try:
            return requests.get(f"{self.server}/readyz", timeout=5).ok and self.get("namespaces/default")
        except (requests.RequestException, AssertionError):
            return False

    def request(self, method, path, body=None, **options):
        """Send a request without using the scheduler's code; return the JSON of the answer."""
        answer = self.session.request(method, f"{self.server}/api/v1/{path}", json=body, timeout=60, **options)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def get(self, path, **options):
        """Read an object or a list."""
        return self.request("GET", path, **options)

    def create(self, *objects):
        """Create nodes, with their status, and pods."""
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

    def placements(self):
        """The assigned pods: namespace/name -> node."""
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
            time.sleep(0.1)  # requests of a scheduler that was killed may still arrive
            for namespace in {thing["metadata"]["namespace"] for thing in self.get(kind)["items"]}:
                url = f"{self.server}/api/v1/namespaces/{namespace}/{kind}"
                while self.session.delete(url, params={"gracePeriodSeconds": 0}, timeout=60).status_code == 504:
                    pass  # with 20,000 pods, the request times out before all are deleted

    def stop(self):
        """Stop all programs."""
        for process in reversed(self.processes):
            process.kill()
            process.wait()
