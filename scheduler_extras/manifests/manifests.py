"""A cluster made of manifests: an API server that there is not, for --cluster.

It answers lists and writes as an API server does, so that the same loop runs.
"""

import contextlib
import json
import re

from scheduler import log
from scheduler_extras.api.errors import NotFound
from scheduler_extras.common.errors import InputError, Malformed
from scheduler_extras.common.log_texts import one_line, warn_once
from scheduler_extras.manifests.admission import admit, complete
from scheduler_extras.manifests.input import files_at, objects_in
from scheduler_extras.manifests.refusals import refusals
from scheduler_extras.manifests.remarks import CLUSTER_WIDE, remarks_on
from scheduler_extras.manifests.workloads import active, generated, make_pods
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.pods_and_nodes import FullPod


class ManifestObjects:
    """The objects of manifests, and what is said of those that are odd, or left out."""

    def __init__(self):
        self.objects = {}  # (resource, namespace, name), its place -> object
        self.read_from = {}  # place of what is read from a file -> (the file, the kind)
        self.uids = {}  # uid of a pod -> its namespace/name

    def load(self, path):
        """Read a file, or standard input for -; say what is odd in it. Raises OSError, ValueError."""
        for thing, kind in objects_in(path):
            for remark in self.add(thing, kind, path):
                log.warning("%s: %s", path, remark)

    def add(self, thing, kind="", path=None):
        """Take in an object, of this kind if it does not say. Return what is odd in it. Raises Malformed."""
        kind = pick(thing, str, "kind") or kind
        name = pick(thing, str, "metadata", "name")
        prefix = pick(thing, str, "metadata", "generateName")
        if not kind or not (name or prefix):
            got = json.dumps(thing)[:60]
            raise Malformed(f"expected a Kubernetes object with kind and metadata.name, got {got}")
        resource = re.sub("y$", "ie", kind.lower()) + ("es" if kind.endswith("s") else "s")
        metadata = thing["metadata"]
        try:
            if kind.lower() not in map(str.lower, CLUSTER_WIDE):
                metadata["namespace"] = pick(metadata, str, "namespace") or "default"
            namespace = metadata.get("namespace")
            name = metadata["name"] = name or generated(prefix, resource, namespace, self.objects)
            place = resource, namespace, name
            is_second = place in self.objects
            self.objects[place] = thing
            complete(resource, thing, len(self.objects))
            if resource == "pods":
                self.read_pod(thing)
            remarks = [*remarks_on(kind, thing)]
        except (TypeError, ValueError) as error:
            raise Malformed(f"{kind} {name}: {error}") from error
        if path:
            self.read_from[place] = path, kind
        if is_second:
            remarks.append("there is one of this name already, which this one replaces")
        return [f"{kind} {name}: {remark}" for remark in remarks]

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

    def leave_out(self, place, why, reason="as it would be refused"):
        """Leave out an object, and say why, unless that is "". A copied pod with a node takes room there."""
        if not why:
            return
        thing = self.objects[place]
        path, kind = self.read_from.get(place, ("of a template", "Pod"))
        is_there = "uid" in thing["metadata"] and text_at(thing, "spec", "nodeName")
        if not is_there:
            del self.objects[place]
        what = "" if is_there else f" is left out, {reason}"
        owners = thing["metadata"].get("ownerReferences")  # of many pods of a template, one is named
        warn_once(f"{path}: {kind} {place[-1]}{what}: {why}", about=f"{why} {owners}" if owners else None)

    def by_name(self, resource):
        """Return {name: object} of a resource that has no namespace."""
        return {name: thing for (kind, _, name), thing in self.objects.items() if kind == resource}


class Manifests(ManifestObjects):
    """A cluster made of manifests, which answers like the API server; bindings are kept in memory."""

    COMMAND = ("kubectl get nodes,pods,ns,svc,rc,rs,sts,pv,pvc,sc,csinodes,csidrivers,csistoragecapacities,"
               "volumeattachments,pdb,pc -A -o yaml")  # copies a live cluster

    def __init__(self, paths=(), anew=()):
        """Read these files and folders. anew: schedulers whose placed pods are placed again."""
        super().__init__()
        self.changes = 0  # Bindings, deletions, nominations
        for path in paths:
            file = path
            try:
                for file in files_at(path):
                    self.load(file)
            except (OSError, ValueError) as error:
                raise InputError(f"{file}: {one_line(error)}") from error
        for place, (_, kind) in self.read_from.items():
            with self.or_left_out(place):
                self.leave_out(place, "; ".join(dict.fromkeys(refusals(kind, self.objects[place]))))
        if paths and not self.by_name("nodes"):
            raise InputError(f"{path}: there is no Node; a copy of a cluster has all: {self.COMMAND}")
        prepare_pods(self, anew)
        make_pods(self)
        admit(self)

    def get(self, path, params, accept=None):
        """Answer a list, whatever the form that is asked for."""
        return self.request("GET", path, None, params)

    def request(self, method, path, body=None, params=None):
        """Answer a GET; carry out a Binding, or a pod's deletion; accept other writes without effect."""
        if method == "GET" and not params:
            return self.one(path)
        if method == "GET":
            return {"items": self.list(path.rpartition("/")[2], params["fieldSelector"])}
        if path.endswith("/binding"):
            place = "pods", body["metadata"]["namespace"], body["metadata"]["name"]
            pod = self.objects[place]
            self.objects[place] = pod | {"spec": pod["spec"] | {"nodeName": body["target"]["name"]}}
            self.changes += 1
        if method == "PATCH" and "nominatedNodeName" in pick(body, dict, "status"):
            *_, namespace, resource, name, _ = path.split("/")
            self.nominate((resource, namespace, name), body["status"]["nominatedNodeName"])
        if method == "DELETE":
            *_, namespace, resource, name = path.split("/")
            gone = self.objects.pop((resource, namespace, name), None)
            self.changes += gone is not None
        return {"kind": "Status"}

    def nominate(self, place, node_name):
        """Have a pod that is there say where room is made for it."""
        pod = self.objects.get(place)
        if pod:
            status = pick(pod, dict, "status") | {"nominatedNodeName": node_name}
            self.objects[place] = pod | {"status": status}
            self.changes += 1

    def one(self, path):
        """Return an object. Raises NotFound."""
        *_, namespace, resource, name = path.split("/")
        if (resource, namespace, name) not in self.objects:
            raise NotFound(404, f"{path}: not found")
        return self.objects[resource, namespace, name]

    def list(self, resource, selector):
        """Return the objects that a field selector selects, such as spec.nodeName!=,status.phase!=Failed."""
        wanted = re.findall("([^,]*?)(!?)=([^,]*)", selector)  # a field, ! where it is to differ, a value
        things = [*self.objects.items()]  # threads may delete some meanwhile
        return [thing for (kind, *_), thing in things if kind == resource and all(
            (text_at(thing, *path.split(".")) == value) != bool(differs) for path, differs, value in wanted)]


def prepare_pods(manifests, anew):
    """Keep mirrors of static pods on their nodes; take pods of these schedulers off theirs."""
    for place, pod in [*manifests.objects.items()]:
        if place[0] != "pods":
            continue
        node = node_of_mirror(pod)
        if node == "":
            manifests.leave_out(place, "nothing says on which node it is", "a static pod's mirror")
        elif node:
            pod["spec"]["nodeName"] = node
        elif pod["spec"]["schedulerName"] in anew and active([pod]):
            pod["spec"]["nodeName"] = ""
            pod["status"] = {}


def node_of_mirror(pod):
    """Return the node whose kubelet runs a static pod, of which this one is the mirror; None: it is none.

    "": unknown.
    """
    owners = pick(pod, list, "metadata", "ownerReferences", of=dict)
    of_node = next((text_at(owner, "name") for owner in owners if owner.get("kind") == "Node"), None)
    if of_node is None and "kubernetes.io/config.mirror" not in pick(pod, dict, "metadata", "annotations"):
        return None
    return text_at(pod, "spec", "nodeName") or of_node or ""
