"""Nodes and pods made from the API server's objects, and the node on which each pod counts.

The loop applies updates to it before each decision; rules see its nodes as the snapshot.
"""

from __future__ import annotations

import difflib
import functools

from scheduler_extras.common.clocks import heartbeat
from scheduler_extras.common.errors import Malformed
from scheduler_extras.common.log_texts import one_line, warn_once
from scheduler_extras.deciding.answers import Memory
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.live.nominations import Nominations, waiting_now
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.ignored_fields import is_unchanged
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod, key_in


LONGEST_NAME = 253  # of an object; to compare longer ones would take long


class UnreadPod(FullPod):
    """One that cannot be read, except who it is, and where. Nothing may be added to its node."""

    def __init__(self, raw):
        metadata = {name: text_at(raw, "metadata", name) for name in ("namespace", "name", "uid")}
        gates = [{"name": "it cannot be read"}]  # so that it is not tried
        spec = {"nodeName": text_at(raw, "spec", "nodeName"), "schedulingGates": gates}
        super().__init__({"metadata": metadata, "spec": spec})


def read_or_warn(kind, raw):
    """Return a FullPod or FullNode. If it cannot be read, name it once, and return None."""
    try:
        thing = kind(raw)
        if not thing.name:
            raise Malformed("metadata.name: is missing")
        return thing
    except Exception as error:
        what = "node" if kind is FullNode else "pod"
        warn_once(f"{what} {key_in(raw)} is skipped: {one_line(error)}")
        return None


@functools.lru_cache(maxsize=1024)
def similar_name(name, names):
    """Return the one of these names that is meant, perhaps, by a similar one; or None."""
    return next(iter(difflib.get_close_matches(name, names, 1, cutoff=0.9)), None)


class CachedNodes(dict):
    """{name: Node}, and on which of them pods count; also of nodes that do not exist, but have pods."""

    def __init__(self, snapshot):
        super().__init__()
        self.snapshot = snapshot
        self.snapshot_is_old = False  # whether by now other nodes can take pods

    def __missing__(self, name):
        node = self[name] = FullNode({"metadata": {"name": name}})
        node.exists = False
        return node

    def take(self, name: str, raw: dict | None) -> bool:
        """Apply a node; None: it is gone. The pods on it stay, because it may come back.

        Return whether pods may fit it that did not before.
        """
        node = self[name]
        if node.exists and raw and is_unchanged(node, raw):  # it is a heartbeat, for example
            node.raw = raw
            return False
        read = read_or_warn(FullNode, raw) if raw else None
        if node.exists != bool(read):
            node.exists = bool(read)
            self.snapshot_is_old = True
        if not read:
            return False
        for pod in node.pods.values():
            read.add(pod)
        vars(node).update(vars(read))
        self.snapshot.note_change(node)
        return True

    def place(self, pod: FullPod, name: str) -> None:
        """Have a pod count on the node of this name, and on no other one; "": on none."""
        self.snapshot_is_old |= isinstance(pod, UnreadPod)
        was_on = pod.counts_on
        pod.counts_on = name
        if was_on == name:
            return
        if was_on:
            node = self[was_on]
            self.snapshot.take_off(pod, node)
            if not (node.exists or node.pods):  # pods may name nodes that there never were
                del self[was_on]
        if name:
            self.snapshot.put(pod, self[name])

    def renew_snapshot(self) -> bool:
        """Give the snapshot the nodes that can take pods, by their names. Return whether it had others."""
        self.snapshot_is_old = False
        nodes = {name: node for name, node in sorted(self.items()) if can_take_pods(node)}
        gone = [name for name, node in self.items() if not (node.exists or node.pods)]
        for name in gone:
            del self[name]
        if nodes == self.snapshot.nodes:
            return False
        self.snapshot.nodes = nodes  # a node of a name may be another one by now
        self.snapshot.memory = Memory()
        return True


def can_take_pods(node):
    """Return whether a node exists and each pod on it can be read; else its free room is unknown."""
    return node.exists and not any(isinstance(pod, UnreadPod) for pod in node.pods.values())


class Cache:
    """What follows for nodes and pods from what is known of them. Upstream: internal/cache.

    A pod counts where it is assumed to be until the API server shows it on a node, or that it has gone; or
    until it is forgotten, as its binding has failed.
    """

    def __init__(self, api, is_live, kind_of_objects):
        self.objects = kind_of_objects(api, self.take)
        self.snapshot = FullSnapshot({}, self.objects, is_live)
        self.nodes = CachedNodes(self.snapshot)
        self.pods: dict[str, FullPod] = {}  # namespace/name -> Pod, of those that have not ended
        self.nominations = Nominations(self.snapshot, self.pods)
        self.waiting = {}  # namespace/name -> Pod, of those that name a scheduler of ours and have no node
        self.arrived = {}  # uid -> Pod, of these, those that have come, or changed, since the pass began
        self.deleted = []  # waiting pods that have begun to be deleted, or changed since
        self.has_changed = False  # so that pods that fitted nowhere may fit now

    def follow(self, policies: dict) -> None:
        """Apply all updates, and find the pods that wait for one of these Policies. Raises ApiError."""
        is_new = policies.keys() != self.snapshot.policies.keys()
        self.snapshot.policies = dict(policies)
        if is_new:
            self.waiting.clear()
            for key, pod in self.pods.items():
                self.note_waiting(key, pod)
        self.refresh()
        self.arrived.clear()

    def refresh(self) -> None:
        """Apply all updates, and list what was never listed. Raises ApiError."""
        self.apply_updates()
        self.objects.refresh()
        self.apply_updates()

    def apply_updates(self, patience: float = 0) -> None:
        """Apply the updates of Reflectors. If there are none, wait up to `patience` seconds for some."""
        self.objects.apply_updates(patience)
        if self.nodes.snapshot_is_old:
            self.has_changed |= self.nodes.renew_snapshot()

    def take(self, resource: str, key: str, thing: dict | None) -> None:
        """Apply a new or changed object; None: it is gone."""
        heartbeat()  # there may be very many
        if resource == "nodes":
            self.has_changed |= self.nodes.take(key, thing)
        elif resource == "pods":
            self.take_pod(key, thing)
        else:
            self.has_changed = True

    def take_pod(self, key: str, raw: dict | None) -> None:
        """Apply a pod; None: it is gone."""
        before = self.pods.get(key)
        if before and raw and is_unchanged(before, raw):
            self.take_report(before, raw)
        else:
            pod = (read_or_warn(FullPod, raw) or UnreadPod(raw)) if raw else None
            self.exchange(key, before, pod)
        self.nominations.note(before, self.pods.get(key))

    def take_report(self, pod: FullPod, raw: dict) -> None:
        """Apply JSON that differs from the known pod at most in its node. The pod is not parsed again."""
        was_on = pod.node_name
        pod.raw = raw
        pod.spec = pick(raw, dict, "spec")
        pod.node_name = text_at(raw, "spec", "nodeName")
        pod.phase = text_at(raw, "status", "phase")
        if pod.node_name != was_on:
            self.nodes.place(pod, pod.node_name)
            self.note_waiting(pod.key, pod)
            self.has_changed = True

    def exchange(self, key: str, before: FullPod | None, pod: FullPod | None) -> None:
        """Have a pod count instead of the one that has had its name; None: there is none, or there was none.

        A changed pod with the same uid stays on the node on which it is assumed.
        """
        is_same_pod = before and pod and before.uid == pod.uid
        assumed_on = before.counts_on if before and is_same_pod else ""
        if before:
            del self.pods[key]
            self.nodes.place(before, "")
            self.nominations.renew_victim(before, pod if is_same_pod else None)
            if pod and is_same_pod:
                pod.record = before.record
        if pod:
            self.pods[key] = pod
            self.nodes.place(pod, pod.node_name or assumed_on)
        self.has_changed |= bool(before or (pod and pod.node_name))
        self.note_waiting(key, pod)

    def note_waiting(self, key: str, pod: FullPod | None) -> None:
        """Note whether a pod waits for a scheduler of ours; if it nearly names one, say that."""
        self.waiting.pop(key, None)
        if not pod or pod.node_name:
            return
        names = tuple(self.snapshot.policies)
        if pod.scheduler in names:
            self.waiting[key] = self.arrived[pod.uid] = pod
            if pod.terminating:
                self.deleted.append(pod)
        elif len(pod.scheduler) <= LONGEST_NAME and (similar := similar_name(pod.scheduler, names)):
            warn_once(f"{key} names {pod.scheduler}: did you mean {similar}?", about=f"not {pod.scheduler}")

    def forget(self, pod: FullPod) -> None:
        """Take a pod off the node on which it is assumed, unless the API server shows it on one by now."""
        self.has_changed = True  # others have met it there
        self.snapshot.victims.pop(pod.uid, None)  # it was a victim, perhaps, that waited for `permit`
        latest = self.still_waiting(pod)
        if latest:
            self.nodes.place(latest, "")

    def still_waiting(self, pod: FullPod) -> FullPod | None:
        """Return a pod as it is by now; or None, if the API server shows that it has gone, or is bound."""
        return waiting_now(pod, self.pods)
