"""A cluster made of manifests: an API server that there is not, for --cluster.

It answers lists and writes as an API server does, so that the same loop runs.
"""

import re

from scheduler_extras.api.errors import NotFound
from scheduler_extras.common.errors import InputError
from scheduler_extras.manifests.admission import admit
from scheduler_extras.manifests.disruption import with_status
from scheduler_extras.manifests.input import COMMAND
from scheduler_extras.manifests.kinds import resource_at
from scheduler_extras.manifests.loading import load, no_object
from scheduler_extras.manifests.objects import ManifestObjects
from scheduler_extras.manifests.workload import active
from scheduler_extras.manifests.workloads import make_next_pod, make_pods, scale
from scheduler_extras.reading.fields import pick, text_at


class Manifests(ManifestObjects):
    """A cluster made of manifests, which answers like the API server; bindings are kept in memory."""

    COMMAND = COMMAND

    def __init__(self, paths=(), anew=()):
        """Read these files and folders. anew: schedulers whose placed pods are placed again."""
        super().__init__()
        self.changes = 0  # Bindings, deletions, nominations
        for path in paths:
            load(self, path, is_alone=len(paths) == 1)
        if paths and not self.by_name("nodes"):
            for file, thing in self.foreign:  # and nothing else
                raise InputError(f"{file}: {no_object(thing)}")
            raise InputError(f"{path}: there is no Node; a copy of a cluster has all: {self.COMMAND}")
        prepare_pods(self, anew)
        scale(self)
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
            return {"items": self.list(resource_at(path), params["fieldSelector"])}
        if path.endswith("/binding"):
            place = "pods", body["metadata"]["namespace"], body["metadata"]["name"]
            pod = self.objects[place]
            self.objects[place] = pod | {"spec": pod["spec"] | {"nodeName": body["target"]["name"]}}
            self.changes += 1
            self.go_on_behind(self.objects[place])
        if method == "PATCH" and "nominatedNodeName" in pick(body, dict, "status"):
            *_, namespace, resource, name, _ = path.split("/")
            self.nominate((resource, namespace, name), body["status"]["nominatedNodeName"])
        if method == "DELETE":
            *_, namespace, resource, name = path.split("/")
            gone = self.objects.pop((resource, namespace, name), None)
            self.changes += gone is not None
        return {"kind": "Status"}

    def go_on_behind(self, pod):
        """Have a pod's controller make what waits for the pod."""
        there = len(self.objects)
        make_next_pod(self, pod)
        if len(self.objects) > there:
            admit(self, [*self.objects][there:])

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
        listed = [thing for (kind, *_), thing in things if kind == resource and all(
            (text_at(thing, *path.split(".")) == value) != bool(differs) for path, differs, value in wanted)]
        if resource == "poddisruptionbudgets":
            listed = [with_status(budget, dict(things)) for budget in listed]
        return listed


def prepare_pods(manifests, anew):
    """Keep mirrors of static pods on their nodes; take pods of these schedulers off theirs."""
    for place, pod in [*manifests.objects.items()]:
        if place[0] != "pods":
            continue
        node = node_of_mirror(pod)
        if node == "":
            manifests.leave_out(place, "nothing says on which node it is", "as the mirror of a static pod")
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
