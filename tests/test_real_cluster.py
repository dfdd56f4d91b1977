"""A copy of scheduler.py and policy.json in an empty folder, with kubectl proxy and a real API server."""

import collections
import json
import re
import shutil
import signal

from helpers.script import ROOT, node, pod, running, wait_for


def copy_of_the_script(folder):
    """Copy the script and its Policy into an empty folder."""
    shutil.copy(ROOT / "policy.json", folder)
    return shutil.copy(ROOT / "scheduler.py", folder)


def test_a_hundred_pods_are_bound_once_each_and_no_node_is_overcommitted(control_plane, tmp_path):
    control_plane.create(*(node(f"node-{i}", cpu="4", memory="16Gi") for i in range(5)))
    control_plane.create(*(pod(f"web-{i}", {"cpu": "200m", "memory": "512Mi"}) for i in range(100)))
    script = copy_of_the_script(tmp_path)
    with running(tmp_path, "--server", control_plane.server, "--interval", "0.2", script=script) as started:
        wait_for("all pods are bound", lambda: len(control_plane.placements()) == 100, 120)
        wait_for("all decisions are printed and have events", lambda: started.out.count(" -> ") == len(control_plane.events("Scheduled")) == 100)
        started.process.send_signal(signal.SIGINT)
        started.process.wait(30)
        placed = re.findall(r"^default/(\S+) -> ", started.out, re.M)
    assert sorted(placed) == sorted(f"web-{i}" for i in range(100)), started.err
    assert max(collections.Counter(control_plane.placements().values()).values()) <= 20  # 4000m / 200m
    scheduled = [key for key, message, component in control_plane.events("Scheduled")]
    assert sorted(scheduled) == sorted(control_plane.placements())


def test_the_policy_can_be_edited_while_a_pod_is_pending(control_plane, tmp_path):
    control_plane.create(node("a", labels={"disk": "hdd"}), pod("picky", nodeSelector={"disk": "ssd"}))
    script = copy_of_the_script(tmp_path)
    path = tmp_path / "policy.json"
    with running(tmp_path, "--server", control_plane.server, "--interval", "0.2", script=script) as started:
        reason = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity."
        wait_for("the event", lambda: control_plane.events("FailedScheduling") == [("default/picky", reason, "my-scheduler")])
        path.write_text(path.read_text().replace("HostName", "HostNme"))
        wait_for("the mistake", lambda: 'unknown predicate "HostNme"; did you mean "HostName"?; still using the last good Policy' in started.err)
        document = json.loads((ROOT / "policy.json").read_text())
        document["predicates"].remove({"name": "MatchNodeSelector"})
        path.write_text(json.dumps(document))
        wait_for("picky is bound", lambda: control_plane.placements() == {"default/picky": "a"})
