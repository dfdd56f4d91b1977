"""The objects of manifests: they are validated, completed and stored, and the user is warned about mistakes.

loading.py reads them from files; manifests.py makes a cluster of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from scheduler import log
from scheduler_extras.common.errors import Malformed
from scheduler_extras.common.log_texts import one_line, warn_once
from scheduler_extras.manifests.completion import complete, fill_nulls
from scheduler_extras.manifests.kinds import (
    CLUSTER_SCOPED,
    Kind,
    Place,
    is_supported,
    kind_of,
    resource_of,
    why_not_served,
)
from scheduler_extras.manifests.remarks import remarks_on
from scheduler_extras.manifests.validation import refusals
from scheduler_extras.manifests.workload import generated
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.pods_and_nodes import FullPod


AS_REFUSED = "because an API server would reject it"


class ManifestObjects:
    """The objects of manifests. Those that an API server would reject are left out, with a warning."""

    def __init__(self) -> None:
        self.objects: dict[Place, dict] = {}
        self.read_from: dict[Place, tuple[str, str]] = {}  # of objects from files: (the file, the kind)
        self.uids: dict[str, str] = {}  # uid of a pod -> its namespace/name
        self.foreign: list[tuple[str, Any]] = []  # (file, thing): things that are not Kubernetes objects
        self.lacks_some = False  # whether something was left out

    def add_from_file(self, obj: dict, path: str) -> None:
        """Add an object of a file, unless an API server would reject it. Log what is odd about it."""
        kind = kind_of(obj)
        if is_supported(kind):
            fill_nulls(obj)
        name = text_at(obj, "metadata", "name")
        what = f"{path}: {kind.name} {name}".rstrip()
        why = why_not_served(kind)
        is_there = False
        try:
            why = why or "; ".join(dict.fromkeys(refusals(kind.name, obj) if is_supported(kind) else ()))
            is_there = not why or (kind.name == "Pod" and is_placed_copy(obj))
            remarks = self.add(obj, path) if is_there else []
        except (TypeError, ValueError) as error:
            is_there = False
            why = why or one_line(error).removeprefix(f"{kind.name} {name}: ")
        if is_there:
            for remark in [why, *remarks] if why else remarks:
                log.warning("%s: %s", what, remark)
        else:
            self.lacks_some = True
            log.warning("%s is skipped %s: %s%s", what, AS_REFUSED, why, self.what_stays(obj, kind))

    def what_stays(self, obj: dict, kind: Kind) -> str:
        """Return the note that an earlier object with the name of a rejected one stays, or ""."""
        place = place_of(obj, kind)
        if place not in self.read_from:
            return ""
        return (f"; the one in {self.read_from[place][0]} stays; if this is a patch, render it: "
                "kubectl kustomize")

    def add(self, obj: dict, path: str | None = None) -> list[str]:
        """Complete an object and add it, or raise Malformed. Return remarks about it."""
        kind = kind_of(obj)
        try:
            place = self.give_name(obj, kind)
            before = self.objects.get(place)
            self.complete(obj, kind, before)
            remarks = [*remarks_on(kind, obj)]
        except (TypeError, ValueError) as error:
            raise Malformed(f"{kind.name} {text_at(obj, 'metadata', 'name')}: {error}") from error
        if before and are_copies(obj, before):
            if not is_newer(obj, before):
                return remarks
        elif before and path and not are_equal(obj, before):
            remarks.append("there is one of this name already, which this one replaces")
        self.objects[place] = obj
        if path:
            self.read_from[place] = path, kind.name
        return remarks

    def give_name(self, obj: dict, kind: Kind) -> Place:
        """Set the namespace and the name of an object, as an API server does. Return its place."""
        metadata = pick(obj, dict, "metadata")
        resource, namespace, name = place_of(obj, kind)
        if namespace:
            metadata["namespace"] = namespace
        else:
            metadata.pop("namespace", None)
        metadata["name"] = name or generated(
            pick(metadata, str, "generateName"), resource, namespace, self.objects)
        return resource, namespace, metadata["name"]

    def complete(self, obj: dict, kind: Kind, before: dict | None) -> None:
        """Set the fields that an API server sets. before: the object that this one replaces, or None."""
        if before and "status" in before:  # an update with kubectl apply keeps it
            obj.setdefault("status", before["status"])
        if is_supported(kind):
            complete(resource_of(kind), obj)
        if resource_of(kind) == "pods":
            self.drop_copied_uid(obj)
        metadata = pick(obj, dict, "metadata")
        age = metadata.get("creationTimestamp") or (before and before["metadata"].get("creationTimestamp"))
        metadata["creationTimestamp"] = age or f"{len(self.objects) + 1:09}"  # sorts in the order of files

    def drop_copied_uid(self, obj: dict) -> None:
        """Remove the uid of a pod that is an edited copy of another pod. Raises TypeError, ValueError."""
        pod = FullPod(obj)
        if self.uids.setdefault(pod.uid, pod.key) != pod.key:
            obj["metadata"].pop("uid", None)

    @contextlib.contextmanager
    def leaving_out_malformed(self, place: Place) -> Iterator[None]:
        """Leave an object out if the block finds it malformed."""
        try:
            yield
        except (TypeError, ValueError) as error:
            self.leave_out(place, one_line(error))

    def leave_out(self, place: Place, why: str | None, reason: str = AS_REFUSED) -> None:
        """Log why an object is invalid, and remove it unless it is a placed copy. "": it is valid."""
        if not why:
            return
        obj = self.objects[place]
        path, kind = self.read_from.get(place, ("of a template", "Pod"))
        what = ""
        if not is_placed_copy(obj):
            del self.objects[place]
            self.lacks_some = True
            what = f" is skipped {reason}"
        owners = obj["metadata"].get("ownerReferences")  # logs this once for the pods of an owner
        warn_once(f"{path}: {kind} {place[-1]}{what}: {why}", about=f"{why} {owners}" if owners else None)

    def by_name(self, resource: str) -> dict[str, dict]:
        """Return the objects of a cluster-scoped resource, {name: object}."""
        return {name: obj for (kind, _, name), obj in self.objects.items() if kind == resource}


def is_placed_copy(pod: dict) -> bool:
    """Return whether a pod was copied from a cluster where it has a node, and so uses room there."""
    return bool(text_at(pod, "metadata", "uid") and text_at(pod, "spec", "nodeName"))


def place_of(obj: dict, kind: Kind) -> Place:
    """Return the place of an object: (resource, namespace or None, name or "")."""
    name = text_at(obj, "metadata", "name")
    if is_supported(kind) and kind.name in CLUSTER_SCOPED:
        return resource_of(kind), None, name
    return resource_of(kind), text_at(obj, "metadata", "namespace") or "default", name


def are_copies(obj: dict, other: dict) -> bool:
    """Return whether two objects are copies of the same object of a cluster."""
    uid = text_at(obj, "metadata", "uid")
    return bool(uid) and uid == text_at(other, "metadata", "uid")


def is_newer(obj: dict, other: dict) -> bool:
    """Return whether a copy of an object is at least as new as another copy."""
    versions = [text_at(each, "metadata", "resourceVersion") for each in (obj, other)]
    return not all(map(str.isdigit, versions)) or int(versions[0]) >= int(versions[1])


VERSION_FIELDS = dict.fromkeys(["resourceVersion", "generation", "managedFields"])


def are_equal(obj: dict, other: dict) -> bool:
    """Return whether two objects are equal except for the fields that differ in each version."""
    ours, theirs = ({**each, "metadata": each["metadata"] | VERSION_FIELDS} for each in (obj, other))
    return ours == theirs
