"""The cache: nodes and pods parsed from the API server's objects, and the node on which each pod counts.

The loop applies updates to it before each decision. Rules see its nodes as the snapshot.
"""

from __future__ import annotations

import difflib
import functools
from typing import Any

from scheduler_extras.common.clocks import heartbeat
from scheduler_extras.common.errors import Malformed
from scheduler_extras.common.log_texts import one_line, warn_once
from scheduler_extras.deciding.answers import AnswerCache
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.live.nominations import Nominations
from scheduler_extras.live.object_store import ObjectStore
from scheduler_extras.reading.fields import JsonObject, text_at
from scheduler_extras.reading.ignored_fields import is_unchanged
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod, key_in


LONGEST_NAME = 253  # of an object; comparing longer names would take long


class UnreadPod(FullPod):
    """A malformed pod: only its name and its node are known. Its node takes no more pods."""

    def __init__(self, raw: JsonObject):
        metadata = {name: text_at(raw, "metadata", name) for name in ("namespace", "name", "uid")}
        gates = [{"name": "it cannot be read"}]  # a scheduling gate keeps it from being tried
        spec = {"nodeName": text_at(raw, "spec", "nodeName"), "schedulingGates": gates}
        super().__init__({"metadata": metadata, "spec": spec})


def read_or_warn(kind: type, raw: JsonObject) -> Any:
    """Parse a FullPod or FullNode. If it is malformed, warn once, and return None."""
    try:
        obj = kind(raw)
        if not obj.name:
            raise Malformed("metadata.name: is missing")
        return obj
    except Exception as error:
        what = "node" if kind is FullNode else "pod"
        warn_once(f"{what} {key_in(raw)} is skipped: {one_line(error)}")
        return None


@functools.lru_cache(maxsize=1024)
def similar_name(name: str, names: tuple[str, ...]) -> str | None:
    """Return the one of these names that is most similar to a name, or None."""
    return next(iter(difflib.get_close_matches(name, names, 1, cutoff=0.9)), None)


def warn_of_typo(pod: FullPod, names: tuple[str, ...]) -> None:
    """Warn once if the scheduler that a pod names is similar to one of these names."""
    if len(pod.scheduler) <= LONGEST_NAME and (similar := similar_name(pod.scheduler, names)):
        warn_once(f"{pod.key} names {pod.scheduler}: did you mean {similar}?", about=f"not {pod.scheduler}")


class CachedNodes(dict):
    """{name: Node}, with nodes that do not exist but have pods. Each pod counts on one node at most."""

    def __init__(self, snapshot: FullSnapshot):
        super().__init__()
        self.snapshot = snapshot
        self.snapshot_is_old = False  # whether the set of nodes that can take pods may have changed

    def __missing__(self, name: str) -> FullNode:
        node = self[name] = FullNode({"metadata": {"name": name}})
        node.exists = False
        return node

    def apply_node(self, name: str, raw: dict | None) -> bool:
        """Apply a change of a node; None: it is gone. Its pods stay, because the node may come back.

        Return whether pods that did not fit the node before may fit it now.
        """
        node = self[name]
        if node.exists and raw and is_unchanged(node, raw):  # a heartbeat, for example
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
        """Count a pod on the node of this name, and on no other; "": on none."""
        self.snapshot_is_old |= isinstance(pod, UnreadPod)
        was_on = pod.counted_on
        pod.counted_on = name
        if was_on == name:
            return
        if was_on:
            node = self[was_on]
            self.snapshot.take_off(pod, node)
            if not (node.exists or node.pods):  # pods may name nodes that never existed
                del self[was_on]
        if name:
            self.snapshot.put(pod, self[name])

    def update_snapshot(self) -> bool:
        """Update the snapshot's nodes: those that can take pods, by name. Return whether they changed."""
        self.snapshot_is_old = False
        nodes = {name: node for name, node in sorted(self.items()) if can_take_pods(node)}
        gone = [name for name, node in self.items() if not (node.exists or node.pods)]
        for name in gone:
            del self[name]
        if nodes == self.snapshot.nodes:
            return False
        self.snapshot.nodes = nodes  # a name may mean another node now
        self.snapshot.answer_cache = AnswerCache()
        return True


def can_take_pods(node: FullNode) -> bool:
    """Return whether a node exists and has no malformed pod, with which its free room would be unknown."""
    return node.exists and not any(isinstance(pod, UnreadPod) for pod in node.pods.values())


class Cache:
    """The nodes and pods of the cluster, parsed, and the waiting pods. Upstream: internal/cache.

    An assumed pod counts on its node until the API server shows it on a node or gone, or until it is
    forgotten because its binding has failed.
    """

    def __init__(self, api: Any, is_live: bool, kind_of_objects: type[ObjectStore]):
        self.objects = kind_of_objects(api, self.on_change)
        self.snapshot = FullSnapshot({}, self.objects, is_live)
        self.nodes = CachedNodes(self.snapshot)
        self.pods: dict[str, FullPod] = {}  # namespace/name -> Pod, without finished pods
        self.nominations = Nominations(self.snapshot, self.pods, self.latest_if_unbound)
        self.waiting: dict[str, FullPod] = {}  # namespace/name -> Pod without a node that names our scheduler
        self.arrived: dict[str, FullPod] = {}  # uid -> waiting pod, new or changed since a pass began
        self.terminating: list[FullPod] = []  # waiting pods that have begun to terminate, to be reported
        self.has_changed = False  # whether pods that fitted no node may fit one now
        self.has_placed_pod = False  # whether a pod was placed: pods that need affinity or spreading may fit

    def update_for(self, policies: dict) -> None:
        """Apply all updates, and find the pods that wait for one of these schedulers. Raises ApiError."""
        is_new = policies.keys() != self.snapshot.policies.keys()
        self.snapshot.policies = dict(policies)
        if is_new:
            self.waiting.clear()
            for key, pod in self.pods.items():
                self.note_waiting(key, pod)
        self.apply_updates()
        self.objects.list_for_pass()  # unless they are watched already
        self.apply_updates()
        self.arrived.clear()

    def apply_updates(self, patience: float = 0) -> None:
        """Apply the updates of Reflectors. If there are none, wait up to `patience` seconds."""
        self.objects.apply_updates(patience)
        if self.nodes.snapshot_is_old:
            self.has_changed |= self.nodes.update_snapshot()

    def on_change(self, resource: str, key: str, obj: dict | None) -> None:
        """Apply a change of an object; None: it is gone."""
        heartbeat()  # there may be very many changes
        if resource == "nodes":
            self.has_changed |= self.nodes.apply_node(key, obj)
        elif resource == "pods":
            self.apply_pod(key, obj)
        else:
            self.has_changed = True

    def apply_pod(self, key: str, raw: dict | None) -> None:
        """Apply a change of a pod; None: it is gone."""
        before = self.pods.get(key)
        if before and raw and is_unchanged(before, raw):
            self.apply_unparsed(before, raw)
        else:
            pod = (read_or_warn(FullPod, raw) or UnreadPod(raw)) if raw else None
            self.replace_pod(key, before, pod)
        self.nominations.note(before, self.pods.get(key))

    def apply_unparsed(self, pod: FullPod, raw: dict) -> None:
        """Apply a change of a pod's node, or of fields that no rule reads, without parsing the pod again."""
        was_on = pod.node_name
        pod.use_raw(raw)
        if pod.node_name != was_on:
            is_nominated = any(each.uid == pod.uid for each in self.snapshot.nominated)
            leaves_room = pod.counted_on not in ("", pod.node_name) or is_nominated
            self.has_changed |= leaves_room
            self.has_placed_pod |= pod.counted_on != pod.node_name
            self.nodes.place(pod, pod.node_name)
            self.note_waiting(pod.key, pod)

    def replace_pod(self, key: str, before: FullPod | None, pod: FullPod | None) -> None:
        """Replace a pod with its new version, which stays assumed, or with another one. None: no pod."""
        is_same_pod = before and pod and before.uid == pod.uid
        assumed_on = before.counted_on if before and is_same_pod else ""
        if before:
            del self.pods[key]
            self.nodes.place(before, "")
            self.nominations.update_victim(before, pod if is_same_pod else None)
            if pod and is_same_pod:
                pod.record = before.record
        if pod:
            self.pods[key] = pod
            self.nodes.place(pod, pod.node_name or assumed_on)
        self.has_changed |= bool(before)
        self.has_placed_pod |= bool(pod and pod.node_name)
        self.note_waiting(key, pod)

    def note_waiting(self, key: str, pod: FullPod | None) -> None:
        """Record whether a pod waits for one of our schedulers. Warn if it names one with a typo."""
        self.waiting.pop(key, None)
        if not pod or pod.node_name:
            return
        names = tuple(self.snapshot.policies)
        if pod.scheduler in names:
            self.waiting[key] = self.arrived[pod.uid] = pod
            if pod.terminating:
                self.terminating.append(pod)
        else:
            warn_of_typo(pod, names)

    def assume(self, pod: FullPod, node_name: str) -> None:
        """Count a pod on a node before the API server shows it there."""
        self.has_placed_pod = True
        self.nodes.place(pod, node_name)

    def forget(self, pod: FullPod) -> None:
        """Remove a pod from the node on which it is assumed, unless the API server shows it on one."""
        self.has_changed = True  # its room is free again
        if latest := self.latest_if_unbound(pod):
            self.nodes.place(latest, "")

    def revert(self, requests: list[tuple]) -> None:
        """Revert the effects of PostFilter's requests that have failed."""
        self.nominations.revert(requests)
        self.has_changed = True  # the room for a nominated pod may be free again

    def latest_if_unbound(self, pod: FullPod) -> FullPod | None:
        """Return the current version of a pod; None if the API server shows that it is gone or bound."""
        latest = self.pods.get(pod.key)
        return latest if latest and latest.uid == pod.uid and not latest.node_name else None
