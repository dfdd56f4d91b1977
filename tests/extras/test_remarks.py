"""Messages about claims in manifests that stay unbound."""

import yaml

from helpers.extras import node, pod, table
from helpers.manifests import kind, placed, priority_class
from scheduler_extras.manifests.manifests import Manifests


LATE = kind("StorageClass", "late", volumeBindingMode="WaitForFirstConsumer", provisioner="x")


@table("things, message", {
    "an unbound claim of a class with a provisioner": (
        [kind("PersistentVolumeClaim", "c", spec={"storageClassName": "soon"}), kind("StorageClass", "soon", provisioner="x")], None),
    "... of a class without a provisioner": (
        [kind("PersistentVolumeClaim", "c", spec={"storageClassName": "by-hand"}),
         kind("StorageClass", "by-hand", provisioner="kubernetes.io/no-provisioner")],
        'PersistentVolumeClaim c: it stays unbound: no PersistentVolume matches, and StorageClass "by-hand" has no provisioner'),
    "... of a missing class": (
        [kind("PersistentVolumeClaim", "c", spec={"storageClassName": "gone"})],
        'PersistentVolumeClaim c: it stays unbound: no PersistentVolume matches, and there is no StorageClass "gone"'),
    "... without a class": (
        [kind("PersistentVolumeClaim", "c")],
        "PersistentVolumeClaim c: it stays unbound: no PersistentVolume matches, and it has no StorageClass"),
    "... that was unbound in the copied cluster": (
        [kind("PersistentVolumeClaim", "c", metadata={"uid": "1"}, spec={"storageClassName": "soon"}),
         kind("StorageClass", "soon", provisioner="x")],
        "PersistentVolumeClaim c: it was unbound in the copy, and stays unbound here"),
    "... of a missing volume": (
        [kind("PersistentVolumeClaim", "c", spec={"volumeName": "v"})],
        "PersistentVolumeClaim c: it stays unbound: its volume v is not there"),
    "... of a volume that belongs to another claim": (
        [kind("PersistentVolumeClaim", "c", spec={"volumeName": "v"}),
         kind("PersistentVolume", "v", spec={"claimRef": {"namespace": "default", "name": "d"}})],
        "PersistentVolumeClaim c: it stays unbound: its volume v does not match, or belongs to another claim"),
    "a volume without a claim": ([kind("PersistentVolume", "v", spec={"capacity": {"storage": "1Gi"}})], None),
    "a volume with a claim": ([kind("PersistentVolume", "v"), kind("PersistentVolumeClaim", "c", spec={"volumeName": "v"})], None),
    "a claim that waits for its pod": ([kind("PersistentVolumeClaim", "c", spec={"storageClassName": "late"}), LATE], None),
})
def test_a_message_says_why_a_claim_stays_unbound(things, message, tmp_path, caplog):
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([node("n"), *things]))
    Manifests([tmp_path / "cluster.yaml"])
    assert caplog.messages == ([message] if message else [])


def test_the_hint_at_preemption_names_the_first_pod_that_might_preempt():
    classes = [priority_class(f"p{value}", value) for value in (0, 7, 8)]
    things = [node("n"), pod("there", nodeName="n"), *classes, *(pod(name, {"cpu": "9"}, priorityClassName=of) for name, of in (("a", "p0"), ("b", "p7"), ("c", "p8")))]
    _, message = placed(text=yaml.safe_dump_all(things))
    assert message == ("kube-scheduler might delete less important pods to place default/c; to do so, too: --preempt, "
                    "or Preemption among the predicates\n")
