"""The objects of manifests: which of them are there, and what is said of those that are odd, or left out.

loading.py reads them from files, manifests.py makes a cluster of them.
"""

import contextlib

from scheduler import log
from scheduler_extras.common.errors import Malformed
from scheduler_extras.common.log_texts import one_line, warn_once
from scheduler_extras.manifests.completion import complete, fill_nulls
from scheduler_extras.manifests.kinds import CLUSTER_WIDE, counts, kind_of, resource_of, why_not_served
from scheduler_extras.manifests.refusals import refusals
from scheduler_extras.manifests.remarks import remarks_on
from scheduler_extras.manifests.workload import generated
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.pods_and_nodes import FullPod


AS_REFUSED = "because an API server would reject it"


class ManifestObjects:
    """The objects of manifests, and what is said of those that are odd, or left out."""

    def __init__(self):
        self.objects = {}  # (resource, namespace, name), its place -> object
        self.read_from = {}  # place of what is read from a file -> (the file, the kind)
        self.uids = {}  # uid of a pod -> its namespace/name
        self.foreign = []  # (file, thing) of what is no object of Kubernetes
        self.lacks_some = False  # whether something was left out

    def take(self, thing, path):
        """Take an object of a file, unless it would be refused; say what is odd in it."""
        kind = kind_of(thing)
        if counts(kind):
            fill_nulls(thing)
        name = text_at(thing, "metadata", "name")
        what = f"{path}: {kind.name} {name}".rstrip()
        why = why_not_served(kind)
        is_there = False
        try:
            why = why or "; ".join(dict.fromkeys(refusals(kind.name, thing) if counts(kind) else ()))
            is_there = not why or (kind.name == "Pod" and is_placed_copy(thing))
            remarks = self.add(thing, path) if is_there else []
        except (TypeError, ValueError) as error:
            is_there = False
            why = why or one_line(error).removeprefix(f"{kind.name} {name}: ")
        if is_there:
            for remark in [why, *remarks] if why else remarks:
                log.warning("%s: %s", what, remark)
        else:
            self.lacks_some = True
            log.warning("%s is skipped %s: %s%s", what, AS_REFUSED, why, self.what_stays(thing, kind))

    def what_stays(self, thing, kind):
        """Return in words that an earlier object of the name of a refused one stays, or ""."""
        place = place_of(thing, kind)
        if place not in self.read_from:
            return ""
        return (f"; the one in {self.read_from[place][0]} stays; if this is a patch, render it: "
                "kubectl kustomize")

    def add(self, thing, path=None):
        """Put an object in, completed. Return what is odd in it. Raises Malformed, and then it is not in."""
        kind = kind_of(thing)
        metadata = pick(thing, dict, "metadata")
        resource, namespace, name = place_of(thing, kind)
        metadata["namespace"] = namespace
        if not namespace:
            del metadata["namespace"]
        try:
            name = metadata["name"] = name or generated(
                pick(metadata, str, "generateName"), resource, namespace, self.objects)
            place = resource, namespace, name
            before = self.objects.get(place)
            if before and "status" in before:  # which stays, whatever is applied
                thing.setdefault("status", before["status"])
            has_age = bool(metadata.get("creationTimestamp"))
            if counts(kind):
                complete(resource, thing)
            if resource == "pods":
                self.read_pod(thing)
            remarks = [*remarks_on(kind, thing)]
        except (TypeError, ValueError) as error:
            raise Malformed(f"{kind.name} {name}: {error}") from error
        is_same = bool(before) and are_one(thing, before)
        if before and not has_age:
            metadata["creationTimestamp"] = before["metadata"].get("creationTimestamp")
        if is_same and not is_newer(thing, before):
            return remarks
        if before and path and not is_same and not says_the_same(thing, before):
            remarks.append("there is one of this name already, which this one replaces")
        if not metadata.get("creationTimestamp"):
            metadata["creationTimestamp"] = f"{len(self.objects) + 1:09}"  # less for older ones
        self.objects[place] = thing
        if path:
            self.read_from[place] = path, kind.name
        return remarks

    def read_pod(self, thing):
        """Take the uid from a pod that is somebody's copy of another one. Raises TypeError, ValueError."""
        pod = FullPod(thing)
        if self.uids.setdefault(pod.uid, pod.key) != pod.key:
            thing["metadata"].pop("uid", None)

    @contextlib.contextmanager
    def or_left_out(self, place):
        """If an object turns out to be malformed in this block, end the block, and leave the object out."""
        try:
            yield
        except (TypeError, ValueError) as error:
            self.leave_out(place, one_line(error))

    def leave_out(self, place, why, reason=AS_REFUSED):
        """Leave out an object that is in, and say why, unless that is "". A copied pod takes room there."""
        if not why:
            return
        thing = self.objects[place]
        path, kind = self.read_from.get(place, ("of a template", "Pod"))
        what = ""
        if not is_placed_copy(thing):
            del self.objects[place]
            self.lacks_some = True
            what = f" is skipped {reason}"
        owners = thing["metadata"].get("ownerReferences")  # of many pods of a template, one is named
        warn_once(f"{path}: {kind} {place[-1]}{what}: {why}", about=f"{why} {owners}" if owners else None)

    def by_name(self, resource):
        """Return {name: object} of a resource that has no namespace."""
        return {name: thing for (kind, _, name), thing in self.objects.items() if kind == resource}


def is_placed_copy(pod):
    """Return whether a pod is a copy of one with a node, which takes room there, whatever was edited."""
    return bool(text_at(pod, "metadata", "uid") and text_at(pod, "spec", "nodeName"))


def place_of(thing, kind):
    """Return the place of an object: its resource, its namespace or None, its name or ""."""
    name = text_at(thing, "metadata", "name")
    if counts(kind) and kind.name in CLUSTER_WIDE:
        return resource_of(kind), None, name
    return resource_of(kind), text_at(thing, "metadata", "namespace") or "default", name


def are_one(thing, other):
    """Return whether two objects are copies of one."""
    uid = text_at(thing, "metadata", "uid")
    return bool(uid) and uid == text_at(other, "metadata", "uid")


def is_newer(thing, other):
    """Return whether a copy of an object is not older than another one."""
    versions = [text_at(each, "metadata", "resourceVersion") for each in (thing, other)]
    return not all(map(str.isdigit, versions)) or int(versions[0]) >= int(versions[1])


IN_EACH_COPY = dict.fromkeys(["resourceVersion", "generation", "managedFields"])


def says_the_same(thing, other):
    """Return whether two objects of one name are equal, besides what each version of one has of its own."""
    ours, theirs = ({**each, "metadata": each["metadata"] | IN_EACH_COPY} for each in (thing, other))
    return ours == theirs
