"""The watch: a Reflector for each resource receives its changes, and lists it again if need be.

live/object_store.py starts the Reflectors and applies their updates. Upstream: client-go's reflector.
"""

from __future__ import annotations

import time
from typing import Any

from scheduler_extras.api.http_retries import backoff, patiently
from scheduler_extras.api.responses import JSON, NotFound, Unreadable, has_status
from scheduler_extras.common.api_groups import GROUPS
from scheduler_extras.common.errors import ApiError, Malformed, ServerUnavailable
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.reading.fields import JsonObject, pick, text_at
from scheduler_extras.reading.pods_and_nodes import key_in


# A resource is listed once. Then a watch receives its changes: a stream of events, each with an object. All
# components of Kubernetes read the API like this.


UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"  # a field selector: pods that have not finished


def path_of(resource: str) -> str:
    """Return the path of a resource, such as nodes or apis/policy/v1/poddisruptionbudgets."""
    return f"/{resource}" if "/" in resource else f"/{GROUPS[resource]}/{resource}"


def selector_of(resource: str) -> str:
    """Return the field selector for LISTs and watches of a resource."""
    return UNFINISHED if resource == "pods" else ""


METADATA = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def list_all(api: Any, resource: str, selector: str = "") -> tuple[list[JsonObject], str]:
    """Return all objects of a resource, listed page by page, and the version of the list. Raises ApiError."""
    params = page = {"fieldSelector": selector, "limit": 500}
    things = []
    while params:
        try:
            try:
                response = patiently(api.get, path_of(resource), params)
            except Unreadable:
                response = readable_page(api, resource, params)
            except NotFound:
                if resource != "csistoragecapacities":
                    raise
                return [], ""  # an old API server does not have them
            if "items" not in response:  # no API server sends this; an empty list would overcommit nodes
                raise Malformed("items: is missing")
            things += pick(response, list, "items", of=dict)
            version = pick(response, str, "metadata", "resourceVersion")
            token = pick(response, str, "metadata", "continue")
        except Malformed as error:
            raise ServerUnavailable(0, f"the list of {resource} is not as expected: {error}") from error
        params = page | {"continue": token} if token else {}
    return things, version


def readable_page(api: Any, resource: str, params: dict) -> JsonObject:
    """Return a page of a list without its unreadable objects, each of which makes the whole page unreadable.

    This GETs the objects one by one. Raises ApiError.
    """
    path = path_of(resource)
    page = api.get(path, params, METADATA)
    group, _, kind = path.rpartition("/")
    things = []
    for named in pick(page, list, "items", of=dict):
        namespace = text_at(named, "metadata", "namespace")
        place = f"namespaces/{namespace}/{kind}" if namespace else kind
        try:
            things.append(api.get(f"{group}/{place}/{text_at(named, 'metadata', 'name')}"))
        except ApiError as error:
            if not isinstance(error, (Unreadable, NotFound)):
                raise
            warn_once(f"{resource} {key_in(named)} is skipped: {error}")
    return page | {"items": things}


STREAM_SECONDS = 20  # the duration of a stream; shortly before its end, a bookmark has the latest version
SILENCE_SECONDS = STREAM_SECONDS + 5  # without an event, after which a stream is given up
SEVERAL = 3  # watches that fail in a row before a warning


class Reflector:
    """Watches a resource, and lists it again if the watch cannot be continued.

    The loop makes the first LIST, and passes its version; client-go's Reflector makes it itself. Its thread
    puts updates into the buffer `updates`, (resource, what, content): LISTED with all objects; ADDED,
    MODIFIED or DELETED with the object; or, if a LIST fails, FAILED with the status and message of the error.
    """

    def __init__(self, api: Any, resource: str, version: str, updates: Any):
        self.api = api
        self.resource = resource
        self.version = version  # of the last LIST or event; "": the resource must be listed
        self.updates = updates
        self.failures = 0  # in a row
        self.error: Exception | None = None  # of the last request, if it failed

    def work(self) -> None:
        """Watch, and list again where that is needed, forever."""
        while True:
            began = time.monotonic()
            self.error = None
            if not self.version:
                self.list()
            if self.version:
                self.watch()
            self.failures = 0 if self.version else self.failures + 1
            pause = backoff(max(self.failures, 1), error=self.error)
            time.sleep(max(0, began + pause - time.monotonic()))

    def list(self) -> None:
        """List all objects, and pass them on. The next watch begins at the version of this LIST."""
        try:
            things, self.version = list_all(self.api, self.resource, selector_of(self.resource))
        except Exception as error:
            self.error = error
            status = getattr(error, "status", 0)
            text = str(error) or type(error).__name__
            self.updates.put((self.resource, "FAILED", (status, text)))
        else:
            self.updates.put((self.resource, "LISTED", things))

    def watch(self) -> None:
        """Pass on changes until the stream ends. The next stream begins where this one has ended.

        The resource is listed again if the API server refuses the watch or ends it with an error, or if a
        stream without events ends too early or too late.
        """
        began = time.monotonic()
        before = self.version
        try:
            self.pass_on_events()
            why = "they end at once"
        except ServerUnavailable as error:
            self.error = error
            why = str(error)
        except Exception as error:
            self.version = ""
            if has_status(error, 403):
                warn_once(f"{error}; until that is allowed, {self.resource} are listed every 10 s")
            return
        lasted = time.monotonic() - began
        if self.version == before and not STREAM_SECONDS / 2 < lasted < SILENCE_SECONDS:
            self.version = ""
            if self.failures >= SEVERAL:
                self.warn_of_silence(why)

    def warn_of_silence(self, why: str) -> None:
        """Warn that watches do not work, although LISTs do."""
        what = f"watches deliver no events, for example that of {self.resource} ({why.partition('; is ')[0]})"
        hint = "does something between this program and the API server buffer streams?"
        warn_once(f"{what}, so it is listed every 10 s; {hint}", about="watches")

    def pass_on_events(self) -> None:
        """Pass on changes until the stream ends. Raises ApiError, Malformed."""
        params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": STREAM_SECONDS,
                  "fieldSelector": selector_of(self.resource), "resourceVersion": self.version}
        for event in self.api.watch(path_of(self.resource), params, silence=SILENCE_SECONDS):
            what = pick(event, str, "type")
            obj = pick(event, dict, "object")
            if what not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"):
                raise Malformed(f"the watch of {self.resource} returned something other than events")
            if what == "ERROR":  # in most cases, 410: the versions since the last one are gone
                raise ApiError(410, f"the watch of {self.resource} ends: {text_at(obj, 'message')}")
            version = pick(obj, str, "metadata", "resourceVersion")
            if what != "BOOKMARK":
                self.updates.put((self.resource, what, obj))
            self.version = version
