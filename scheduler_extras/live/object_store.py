"""The objects of the API server, kept up to date with watches or LISTs.

The cache receives each change. Rules read the objects as `snapshot.objects`.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable
from typing import Any

from scheduler_extras.api.responses import error_of
from scheduler_extras.api.watch import Reflector, list_all, selector_of
from scheduler_extras.common.api_groups import GROUPS
from scheduler_extras.common.clocks import heartbeat, in_background
from scheduler_extras.reading.fields import JsonObject, text_at
from scheduler_extras.reading.pods_and_nodes import key_in


# An ObjectStore holds the JSON of the API server; the cache holds the nodes and pods parsed from it. On a
# cluster, Reflectors receive updates. Only the loop's thread applies them: when a pass begins, before each
# decision, and while it rests. A cluster made of manifests is listed in each pass instead.


class Updates:
    """Changes that Reflectors have received and the loop has not yet handled: the last one of each object.

    However often an object changes, the loop handles it once. Upstream: client-go's DeltaFIFO.
    """

    def __init__(self):
        self.last = {}  # (resource, key of an object or None) -> what, content
        self.arrival = threading.Condition()  # held while `last` changes

    def put(self, update: tuple[str, str, Any]) -> None:
        """Add a change: (resource, what, content). A LIST of a resource replaces all changes before it."""
        resource, what, content = update
        with self.arrival:
            if what in ("LISTED", "FAILED"):
                key = None
                self.last = {place: last for place, last in self.last.items() if place[0] != resource}
            else:
                key = key_in(content)
                self.last.pop((resource, key), None)  # the new change goes to the end
            self.last[resource, key] = what, content
            self.arrival.notify()

    def take(self, patience: float) -> dict[tuple, tuple]:
        """Return and remove all changes. If there are none, wait up to `patience` seconds for some."""
        with self.arrival:
            if not self.last and patience:
                self.arrival.wait(patience)
            updates = self.last
            self.last = {}
        return updates


class ObjectStore(dict):
    """{resource: {namespace/name, or name: the API's JSON}}. A resource is listed when a rule first reads it.

    on_change: called with each change: resource, key, and the object, or None if it is gone.
    """

    def __init__(self, api: Any, on_change: Callable[[str, str, JsonObject | None], None]):
        self.api = api
        self.on_change = on_change
        self.updates = Updates()  # from Reflectors
        self.failed: dict[str, tuple[int, str]] = {}  # resource -> status and text of its last LIST

    def __missing__(self, resource: str) -> dict[str, JsonObject]:
        if "/" not in resource and resource not in GROUPS:
            expected = f"apis/GROUP/VERSION/RESOURCE or one of {', '.join(GROUPS)}"
            raise LookupError(f'snapshot.objects["{resource}"]: expected {expected}')
        self.raise_failure(resource)
        self.list(resource)
        return self[resource]

    def list_for_pass(self) -> None:
        """List nodes and pods if this has not been done. Raises ApiError, also if a later LIST has failed."""
        for resource in ("pods", "nodes"):
            self.raise_failure(resource)
            if resource not in self:
                self.list(resource)

    def raise_failure(self, resource: str) -> None:
        """If the last LIST of a resource failed, raise its ApiError."""
        if resource in self.failed:
            raise error_of(*self.failed[resource])

    def list(self, resource: str) -> None:
        """List a resource, and start its watch. Raises ApiError."""
        things, version = list_all(self.api, resource, selector_of(resource))
        self.watch(resource, version)  # if this raises, the next call lists it again
        self.apply_list(resource, things)

    def watch(self, resource: str, version: str) -> None:
        """Start a Reflector that watches a resource from this version."""
        gc.freeze()  # otherwise, each full collection visits all objects, and all threads wait for seconds
        in_background(Reflector(self.api, resource, version, self.updates).work)

    def apply_list(self, resource: str, things: Iterable[JsonObject]) -> None:
        """Replace all objects of a resource. Objects that are not listed are gone."""
        known = self.get(resource, {})
        listed = {key_in(obj): obj for obj in things}
        self[resource] = listed
        for key in known.keys() - listed.keys():
            self.on_change(resource, key, None)
        for key, obj in listed.items():
            if not is_same(known.get(key), obj):
                self.on_change(resource, key, obj)

    def apply_updates(self, patience: float) -> None:
        """Apply the updates of Reflectors. If there are none, wait up to `patience` seconds for some."""
        copied = {"nodes", "pods"}  # other dicts are copied before a change: one may be the basis of a memo
        heartbeat()
        for (resource, _), (what, content) in self.updates.take(patience).items():
            if what == "LISTED":
                self.failed.pop(resource, None)
                self.apply_list(resource, content)
            elif what == "FAILED":
                self.handle_failure(resource, content)
            else:
                if resource not in copied:
                    self[resource] = dict(self[resource])
                    copied.add(resource)
                self.apply_change(resource, content, is_gone=what == "DELETED")

    def handle_failure(self, resource: str, why: tuple[int, str]) -> None:
        """Record why a LIST of a resource failed. A rule that reads the resource gets the error."""
        self.failed[resource] = why
        if resource not in ("nodes", "pods"):
            self.pop(resource, None)

    def apply_change(self, resource: str, obj: JsonObject, is_gone: bool) -> None:
        """Apply a change of an object, or its deletion."""
        key = key_in(obj)
        known = self[resource]
        before = known.get(key)
        if is_gone:
            if known.pop(key, None):
                self.on_change(resource, key, None)
        elif not is_same(before, obj):
            known[key] = obj
            self.on_change(resource, key, obj)


class ListedObjectStore(ObjectStore):
    """Objects without watches: they are listed in each pass."""

    def list_for_pass(self) -> None:
        """List nodes and pods. Other resources are listed when a rule reads them. Raises ApiError."""
        for resource in self.keys() - {"nodes", "pods"}:
            del self[resource]
        for resource in ("pods", "nodes"):
            self.list(resource)

    def watch(self, resource: str, version: str) -> None:
        """Do nothing: the next pass lists the resource again."""


def version_of(obj: JsonObject | None) -> str:
    """Return the resourceVersion of an object, or ""."""
    return text_at(obj, "metadata", "resourceVersion")


def uid_of(obj: JsonObject | None) -> str:
    """Return the uid of an object, or ""."""
    return text_at(obj, "metadata", "uid")


def is_same(obj: JsonObject | None, other: JsonObject) -> bool:
    """Return whether two versions of an object are the same. Those of another cluster differ in the uid."""
    version = version_of(obj)
    is_version = version != "" and version == version_of(other)
    return obj is other or (is_version and uid_of(obj) == uid_of(other))
