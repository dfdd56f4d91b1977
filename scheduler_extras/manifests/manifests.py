"""A cluster made of manifests, for --cluster: it takes the place of an API server.

It answers LISTs and writes as an API server does, so that the loop of live/ runs on it unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scheduler_extras.api.responses import NotFound
from scheduler_extras.common.errors import InputError
from scheduler_extras.manifests.admission import admit
from scheduler_extras.manifests.controllers import make_next_pod, make_pods, scale
from scheduler_extras.manifests.disruption import with_status
from scheduler_extras.manifests.input import COMMAND
from scheduler_extras.manifests.kinds import Place, resource_at
from scheduler_extras.manifests.loading import load, no_object
from scheduler_extras.manifests.objects import ManifestObjects
from scheduler_extras.manifests.workload import active
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.rules.nominating import is_nomination


class Manifests(ManifestObjects):
    """A cluster made of manifests, which answers like an API server and keeps Bindings in memory."""

    COMMAND = COMMAND

    def __init__(self, paths: Sequence[str] = (), rescheduled: Iterable[str] = ()):
        """Read these files and folders. rescheduled: the schedulers whose placed pods are scheduled again."""
        super().__init__()
        self.changes = 0  # Bindings, deletions, nominations
        for path in paths:
            load(self, path, is_alone=len(paths) == 1)
        if paths and not self.by_name("nodes"):
            for file, obj in self.foreign:  # a single file without a Kubernetes object
                raise InputError(f"{file}: {no_object(obj)}")
            raise InputError(f"{path}: there is no Node; a copy of a cluster has all: {self.COMMAND}")
        prepare_pods(self, rescheduled)
        scale(self)
        make_pods(self)
        admit(self)

    def get(self, path: str, params: dict | None, accept: str | None = None) -> dict:
        """Answer a LIST. The media type that `accept` asks for is ignored."""
        return self.request("GET", path, None, params)

    def request(self, method: str, path: str, body: Any = None, params: dict | None = None,
                check: Callable[[], None] = lambda: None) -> dict:
        """Answer a GET, bind, nominate or delete a pod, and accept all other writes without effect.

        check: called first. It may raise ApiError, which prevents the request.
        """
        check()
        if method == "GET":
            if not params:
                return self.one(path)
            return {"items": self.list(resource_at(path), params["fieldSelector"])}
        if path.endswith("/binding"):
            place = "pods", body["metadata"]["namespace"], body["metadata"]["name"]
            pod = self.objects[place]
            self.objects[place] = pod | {"spec": pod["spec"] | {"nodeName": body["target"]["name"]}}
            self.changes += 1
            self.make_next_pod(self.objects[place])
        if is_nomination((method, path, body)):
            *_, namespace, resource, name, _ = path.split("/")
            self.nominate((resource, namespace, name), body["status"]["nominatedNodeName"])
        if method == "DELETE":
            *_, namespace, resource, name = path.split("/")
            gone = self.objects.pop((resource, namespace, name), None)
            self.changes += gone is not None
        return {"kind": "Status"}

    def make_next_pod(self, pod: dict) -> None:
        """Create and admit the next pod of the StatefulSet that owns a pod which has just been bound."""
        count = len(self.objects)
        make_next_pod(self, pod)
        if len(self.objects) > count:
            admit(self, [*self.objects][count:])

    def nominate(self, place: Place, node_name: str | None) -> None:
        """Set the nominated node of a pod, if the pod exists."""
        pod = self.objects.get(place)
        if pod:
            status = pick(pod, dict, "status") | {"nominatedNodeName": node_name}
            self.objects[place] = pod | {"status": status}
            self.changes += 1

    def one(self, path: str) -> dict:
        """Return the object at a path of the API. Raises NotFound."""
        *_, namespace, resource, name = path.split("/")
        if (resource, namespace, name) not in self.objects:
            raise NotFound(404, f"{path}: not found")
        return self.objects[resource, namespace, name]

    def list(self, resource: str, selector: str) -> list[dict]:
        """Return the objects that a field selector selects, such as spec.nodeName!=,status.phase!=Failed."""
        wanted = re.findall("([^,]*?)(!?)=([^,]*)", selector)  # field, "!" or "", value
        things = [*self.objects.items()]  # a copy, because threads may delete some meanwhile
        listed = [obj for (kind, *_), obj in things if kind == resource and all(
            (text_at(obj, *path.split(".")) == value) != bool(differs) for path, differs, value in wanted)]
        if resource == "poddisruptionbudgets":
            listed = [with_status(budget, dict(things)) for budget in listed]
        return listed


def prepare_pods(manifests: Any, rescheduled: Iterable[str]) -> None:
    """Put mirror pods on the nodes of their static pods. Unbind the pods of schedulers in `rescheduled`."""
    for place, pod in [*manifests.objects.items()]:
        if place[0] != "pods":
            continue
        node = node_of_mirror(pod)
        if node == "":
            manifests.leave_out(place, "nothing says on which node it is", "as the mirror of a static pod")
        elif node:
            pod["spec"]["nodeName"] = node
        elif pod["spec"]["schedulerName"] in rescheduled and active([pod]):
            pod["spec"]["nodeName"] = ""
            pod["status"] = {}


def node_of_mirror(pod: dict) -> str | None:
    """Return the name of the node of a mirror pod's static pod, "" if unknown; None for other pods."""
    owners = pick(pod, list, "metadata", "ownerReferences", of=dict)
    of_node = next((text_at(owner, "name") for owner in owners if owner.get("kind") == "Node"), None)
    if of_node is None and "kubernetes.io/config.mirror" not in pick(pod, dict, "metadata", "annotations"):
        return None
    return text_at(pod, "spec", "nodeName") or of_node or ""
