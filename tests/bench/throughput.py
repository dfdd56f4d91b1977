"""How many pods a second this scheduler binds, beside kube-scheduler 1.20 under the same Policy on the same machine.

    KUBEBUILDER_ASSETS=... python tests/bench/throughput.py [--nodes 500] [--pods 500] [--qps 50]

Both find all pods pending at their start, on a real etcd and kube-apiserver; the time runs from the start of the
program until the last pod has its node. kube-scheduler sends at most --qps requests a second; 50 is how it is shipped.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from conftest import ROOT, SCHEDULER, ControlPlane, node, pod  # noqa: E402


def seconds_to_bind(control_plane, count, *command):
    """Run a scheduler until all pods have a node; return the seconds that it took."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    selector = {"fieldSelector": "spec.nodeName=", "resourceVersion": "0"}
    while left := len(control_plane.get("pods", params=selector)["items"]):
        assert time.monotonic() - start < 600, f"{left} of {count} pods still have no node"
        time.sleep(0.2)
    taken = time.monotonic() - start
    process.terminate()
    process.wait()
    return taken


def main():
    """Measure both and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--qps", type=int, default=50, help="kube-scheduler's limit of requests a second")
    parser.add_argument("--policy", default=ROOT / "policy.json")
    options = parser.parse_args()
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        control_plane = ControlPlane(os.environ["KUBEBUILDER_ASSETS"], Path(folder))
        commands = {
            "scheduler.py": [*SCHEDULER, "--server", control_plane.server, "--policy", options.policy],
            "kube-scheduler": [
                control_plane.assets / "kube-scheduler", "--kubeconfig", control_plane.kubeconfig(), "--port=0",
                "--secure-port=0", "--leader-elect=false", "--scheduler-name=my-scheduler", "--policy-config-file",
                options.policy, f"--kube-api-qps={options.qps}", f"--kube-api-burst={2 * options.qps}"]}
        for name, command in commands.items():
            control_plane.clear()
            control_plane.create(*(node(f"node-{i:04}", cpu="32", memory="128Gi") for i in range(options.nodes)))
            control_plane.create(*(pod(f"pod-{i:05}", {"cpu": f"{100 + i % 4 * 50}m", "memory": "128Mi"})
                                   for i in range(options.pods)))
            time.sleep(1)
            rates[name] = options.pods / seconds_to_bind(control_plane, options.pods, *map(str, command))
            print(f"{name}: {rates[name]:.0f} pods/s", flush=True)
        control_plane.stop()
    print(f"ratio: {rates['scheduler.py'] / rates['kube-scheduler']:.2f}")


if __name__ == "__main__":
    main()
