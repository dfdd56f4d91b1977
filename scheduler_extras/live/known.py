"""What the API server has said: all objects of a resource, brought up to date by news or by lists.

The cache is told of each change; rules read it as `snapshot.objects`.
"""

import gc
import math
import queue
import time

from scheduler_extras.api.errors import NotFound
from scheduler_extras.api.watch import RECONNECT_SECONDS, Reflector, is_older, list_all, selector_of
from scheduler_extras.common.clocks import come_round, in_background
from scheduler_extras.common.kinds import GROUPS
from scheduler_extras.common.log_texts import warn_once
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.pods_and_nodes import key_in


# Objects are what the API server has said; the cache, what follows of it for nodes and pods. On a cluster
# Reflectors bring the news; only the loop's thread takes these in: when a pass begins, before each decision,
# and while it rests. A cluster that is made of manifests is listed in each pass, and taken in likewise.


class Objects(dict):
    """{resource: {namespace/name, or name: the API's JSON}}. What a rule first looks at is listed then.

    changed: a function that is called for each change, with a resource, a key, and the object, or None if it
    has gone.
    """

    def __init__(self, api, changed):
        self.api = api
        self.changed = changed
        self.reflectors = {}  # resource -> Reflector, of what is watched
        self.news = queue.Queue()  # from these
        self.versions = {}  # resource -> the version of its last list
        self.overtaken = set()  # resources of which a Reflector has brought an older list than that
        self.silent_since = math.inf  # when it was first found that watches tell nothing

    def __missing__(self, resource):
        if "/" not in resource and resource not in GROUPS:
            expected = f"apis/GROUP/VERSION/RESOURCE or one of {', '.join(GROUPS)}"
            raise LookupError(f'snapshot.objects["{resource}"]: expected {expected}')
        self.list(resource)
        return self[resource]

    def refresh(self):
        """List nodes and pods, and all else when a rule looks at it, unless watches tell of it."""
        silent = self.silent()
        heard = self.reflectors.keys() - silent - self.overtaken
        for resource in self.keys() - heard - {"nodes", "pods"}:
            del self[resource]
        for resource in ("nodes", "pods"):
            if resource not in heard:
                self.list(resource)
        self.overtaken.clear()
        moment = time.monotonic()
        self.silent_since = min(self.silent_since, moment) if silent else math.inf
        for resource in silent if moment > self.silent_since + RECONNECT_SECONDS else ():
            why = self.reflectors[resource].trouble.partition("; is ")[0]
            hint = "does something between the script and the API server hold streams back?"
            what = f"watches, as that of {resource}, tell nothing ({why})"
            warn_once(f"{what}: nodes and pods are listed in each pass; {hint}", about="watches")

    def silent(self):
        """Return the resources of which watches tell nothing."""
        return sorted(name for name, reflector in self.reflectors.items() if not reflector.is_heard())

    def doubt(self, why):
        """Have all listed, until watches that begin with a list, too, tell something again.

        Versions mean nothing any more: if etcd was restored from a copy, they are given once more.
        """
        self.silent_since = -math.inf
        for reflector in self.reflectors.values():
            reflector.doubt(why)
        for resource in self.keys() & {"nodes", "pods"}:
            self.versions[resource] = ""
            for thing in self[resource].values():
                thing["metadata"].pop("resourceVersion", None)

    def is_behind(self, resource, version):
        """Say whether a version is earlier than what the watch of a resource has told.

        It is that of a list from the API server's cache, which knows the versions that streams tell. Lists
        from etcd are ahead of it, as their versions grow with each write of any resource.
        """
        return resource in self.reflectors and is_older(version, self.reflectors[resource].told)

    def list(self, resource):
        """List a resource, take it in, and have it watched. Raises ApiError."""
        try:
            things, version = list_all(self.api, resource, selector_of(resource))
        except NotFound:
            if resource != "csistoragecapacities":
                raise
            self[resource] = {}  # an API server that does not know it yet has none
            return
        self.take_list(resource, things, version)
        if resource not in self.reflectors:
            self.watch(resource, version)

    def watch(self, resource, version):
        """Have a thread tell what changes of a resource from this version on."""
        gc.freeze()  # or else each full collection looks at all of it, and all threads wait for seconds
        reflector = Reflector(self.api, resource, version, self.news)
        in_background(reflector.work)
        self.reflectors[resource] = reflector

    def take_list(self, resource, things, version):
        """Take in all objects of a resource, as they were at a version; what is missing has gone."""
        self.versions[resource] = version
        known = self.get(resource, {})
        listed = {key_in(thing): thing for thing in things}
        self[resource] = listed
        for key in known.keys() - listed.keys():
            self.changed(resource, key, None)
        for key, thing in listed.items():
            if not is_same(known.get(key), thing):
                self.changed(resource, key, thing)

    def take_news(self, patience):
        """Take in what Reflectors have told; if that is nothing, wait so many seconds for some."""
        copied = {"nodes", "pods"}  # what rests on the dict of another resource is not to change with it
        come_round()
        while patience > 0 or not self.news.empty():
            try:
                resource, what, content = self.news.get(timeout=patience)
            except queue.Empty:
                return
            patience = 0
            if resource not in self:
                continue  # it will be listed anew, later than this was told
            if what == "LISTED":
                self.take_news_of_all(resource, *content)
                continue
            if resource not in copied:
                self[resource] = dict(self[resource])
                copied.add(resource)
            self.take(resource, content, has_gone=what == "DELETED")

    def take_news_of_all(self, resource, things, version):
        """Take in what a Reflector has listed; if the loop seems to have listed later, have it list again."""
        if is_older(version, self.versions[resource]):
            self.overtaken.add(resource)
        else:
            self.take_list(resource, things, version)

    def take(self, resource, thing, has_gone):
        """Take in what an object is by now, or was when it went, unless a list was quicker to say so."""
        key = key_in(thing)
        known = self[resource]
        before = known.get(key)
        if has_gone:  # of its name there may be another one by now
            if text_at(before, "metadata", "uid") == text_at(thing, "metadata", "uid"):
                known.pop(key, None)
                self.changed(resource, key, None)
        elif not (is_older(version_of(thing), version_of(before)) or is_same(before, thing)):
            known[key] = thing
            self.changed(resource, key, thing)


class ListedObjects(Objects):
    """Those that are listed in each pass, as nobody tells what changes: of manifests."""

    def watch(self, resource, version):
        """Leave it at the list."""


def version_of(thing):
    """Return the resourceVersion of an object, or ""."""
    return text_at(thing, "metadata", "resourceVersion")


def is_same(thing, other):
    """Say whether the JSON of an object is what it was."""
    version = version_of(thing)
    return thing is other or (version != "" and version == version_of(other))
