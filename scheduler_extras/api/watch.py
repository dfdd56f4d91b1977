"""List and watch: a Reflector for each resource brings the news of what changes.

live/known.py starts one for each resource, and takes in what it tells.
"""

import math
import time

from scheduler_extras.api.errors import JSON, NotFound, Unreadable, backoff, is_answer, patiently
from scheduler_extras.common.errors import ApiError, Malformed, Trouble
from scheduler_extras.common.kinds import GROUPS
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.pods_and_nodes import key_in


# A resource is listed once. Then the API server is asked to tell what changes: it answers with a stream of
# events, an object in each (watch). All of Kubernetes reads like this, by a Reflector for each resource.


UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"  # a field selector: pods that have not ended


def path_of(resource):
    """Return the path of a resource, such as nodes or apis/policy/v1/poddisruptionbudgets."""
    return f"/{resource}" if "/" in resource else f"/{GROUPS[resource]}/{resource}"


def selector_of(resource):
    """Return the field selector by which a resource is listed, and watched."""
    return UNFINISHED if resource == "pods" else ""


METADATA = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def list_all(api, resource, selector="", names_only=False):
    """Return all objects of a resource, listed page by page, and the version of the list. Raises ApiError.

    names_only: without more than their metadata, and as the API server has them cached: that may lag.
    """
    page = {"fieldSelector": selector, "limit": 500}
    params = page | {"resourceVersion": "0"} if names_only else page
    things = []
    while params:
        try:
            try:
                answer = patiently(api.get, path_of(resource), params, METADATA if names_only else JSON)
            except Unreadable:
                answer = readable_page(api, resource, params)
            if "items" not in answer:  # no API server says this, and to believe it would overcommit nodes
                raise Malformed("items: is missing")
            things += pick(answer, list, "items", of=dict)
            version = pick(answer, str, "metadata", "resourceVersion")
            token = pick(answer, str, "metadata", "continue")
        except Malformed as error:
            raise Trouble(0, f"the list of {resource} is not as expected: {error}") from error
        params = token and page | {"continue": token}
    return things, version


def readable_page(api, resource, params):
    """Return a page of a list without the objects that cannot be read, which hide all others of a page.

    They are found by their names, one by one. Raises ApiError.
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
            warn_once(f"{resource} {key_in(named)} is left out: {error}")
    return page | {"items": things}


STREAM_SECONDS = 20  # for which a stream is asked for; shortly before its end, a bookmark says the version
RECONNECT_SECONDS = 15  # in which watches go on after an outage; if they do not, that is said
SILENCE_SECONDS = 30  # after which what is known of a resource is too old to decide by: it is listed


def is_older(version, other):
    """Say whether a resourceVersion is earlier than another one, as far as both are numbers."""
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)


class Reflector:
    """Lists a resource, then has the API server tell what changes. Upstream: client-go's Reflector.

    Its thread puts news into a queue, (resource, what, content): LISTED, and all objects with the version of
    that list; or ADDED, MODIFIED or DELETED, and the object.
    """

    def __init__(self, api, resource, version, news):
        self.api = api
        self.resource = resource
        self.version = version  # of the last list, or of what was told since; "": it has to be listed
        self.told = ""  # the version that streams have told last, since that list; see `Objects.is_behind`
        self.news = news
        self.heard_at = time.monotonic()  # when the API server last said what there is
        self.failures = 0  # in a row
        self.trouble = "they end at once"  # or what the last of them was

    def hear(self):
        """Note that the API server has told something, or has had nothing to tell."""
        self.heard_at = time.monotonic()
        self.failures = 0

    def doubt(self, why):
        """Have it list again, and count as silent until it has."""
        self.trouble = why
        self.version = ""
        self.told = ""
        self.heard_at = -math.inf

    def is_heard(self):
        """Say whether what has changed is told: else it is listed in each pass."""
        return time.monotonic() < self.heard_at + SILENCE_SECONDS

    def list(self):
        """Tell of all objects; what is watched then begins where this list ends. Raises ApiError."""
        things, self.version = list_all(self.api, self.resource, selector_of(self.resource))
        self.told = ""
        self.heard_at = time.monotonic()
        self.news.put((self.resource, "LISTED", (things, self.version)))

    def work(self):
        """Watch, for ever. Where the versions since are gone, or it cannot be watched, list again."""
        while True:
            began = time.monotonic()
            self.failures += 1  # unless this stream tells something, or lasts
            try:
                if not self.version:
                    self.list()
                self.watch()
                if self.version and time.monotonic() > began + STREAM_SECONDS / 2:
                    self.hear()
            except Exception as error:
                if not isinstance(error, Trouble):
                    self.version = ""
                if is_answer(error, 403):
                    warn_once(f"{error}; until that is allowed, {self.resource} are listed every 10 s")
                self.trouble = str(error)  # an error keeps what its frames hold: half a list, a stream
            pause = backoff(max(self.failures, 1))
            time.sleep(max(0, began + pause - time.monotonic()))

    def watch(self):
        """Pass on what changes until the stream ends. Raises ApiError, Malformed."""
        params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": STREAM_SECONDS,
                  "fieldSelector": selector_of(self.resource), "resourceVersion": self.version}
        stream = self.api.watch(path_of(self.resource), params, silence=STREAM_SECONDS + 5)
        for event in stream:
            if not self.version:  # it was doubted meanwhile
                return
            what = pick(event, str, "type")
            thing = pick(event, dict, "object")
            if what not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"):
                raise Malformed(f"the watch of {self.resource} is answered with something else than events")
            if what == "ERROR":  # in most cases, 410: the versions since the last one are gone
                raise ApiError(410, f"the watch of {self.resource} ends: {text_at(thing, 'message')}")
            version = pick(thing, str, "metadata", "resourceVersion")
            if is_older(version, self.version):
                raise ApiError(410, f"the watch of {self.resource} ends: versions have gone back")
            self.hear()
            if what != "BOOKMARK":
                self.news.put((self.resource, what, thing))
            self.version = self.told = version
