"""A cluster made of manifests: an API server that there is not, for --cluster.

It answers lists and writes as an API server does, so that the same loop runs.
"""

import contextlib
import json
import re
from types import MappingProxyType as read_only

from scheduler import InputError, Malformed, log, pick, text_at
from scheduler_extras.cluster.api import NotFound
from scheduler_extras.cluster.input import files_at, objects_in
from scheduler_extras.cluster.refusals import CONTAINERS, refusals
from scheduler_extras.cluster.remarks import CLUSTER_WIDE, remarks_on
from scheduler_extras.cluster.workloads import active, generated, make_pods
from scheduler_extras.cluster.writer import WriterOfManifests, is_rehearsal
from scheduler_extras.objects import FullNode, FullPod, container_requests, pod_amounts
from scheduler_extras.policy.files import did_you_mean
from scheduler_extras.rules.disks import class_name_of
from scheduler_extras.rules.selectors import OWNERS, SELECT_BY_LABELS
from scheduler_extras.trouble import one_line, warn_once


SYSTEM_CLASSES = {  # the PriorityClasses that every cluster has
    "system-node-critical": {"value": 2000001000}, "system-cluster-critical": {"value": 2000000000}}


def completed(spec):
    """Return a pod's spec as the API server completes it. Upstream: pkg/apis/core/v1/defaults.go."""
    spec = spec | {"schedulerName": pick(spec, str, "schedulerName") or "default-scheduler"}
    on_host_network = pick(spec, bool, "hostNetwork")
    for kind in CONTAINERS:
        containers = [dict(container) for container in pick(spec, list, kind, of=dict)]
        if containers:
            spec[kind] = containers
        for container in containers:
            container["resources"] = with_requests(pick(container, dict, "resources"))
            for port in pick(container, list, "ports", of=dict) if on_host_network else ():
                port["hostPort"] = port.get("hostPort") or port.get("containerPort")
    if pick(spec, dict, "resources", "limits"):  # of the pod as a whole
        wanted = pod_amounts(container_requests({"spec": spec}), {}, {}, {})  # by its containers together
        units = {"cpu": "m", "memory": ""}  # besides huge pages, all that a pod as a whole requests
        requests = {name: f"{wanted[name]}{unit}" for name, unit in units.items() if name in wanted}
        spec["resources"] = with_requests(spec["resources"], requests)
    return spec


def with_requests(resources, unless_said=read_only({})):
    """Return resources with requests: what is said, else these, else the limits."""
    requests = pick(resources, dict, "limits") | unless_said | pick(resources, dict, "requests")
    return resources | {"requests": requests}


def give_class(name, claim, classes):
    """Give a claim the default StorageClass; say if nobody binds it here."""
    spec = pick(claim, dict, "spec")
    of_old = "volume.beta.kubernetes.io/storage-class" in pick(claim, dict, "metadata", "annotations")
    has_class = spec.get("storageClassName") is not None or of_old
    if not has_class and "uid" not in claim["metadata"]:  # else it is a live cluster's
        marks = ("storageclass.kubernetes.io/is-default-class",
                 "storageclass.beta.kubernetes.io/is-default-class")
        defaults = [name for name, each in sorted(classes.items())
                    if "true" in map(pick(each, dict, "metadata", "annotations").get, marks)]
        if defaults:  # the youngest one counts
            youngest = max(defaults, key=lambda name: text_at(classes[name], "metadata", "creationTimestamp"))
            claim["spec"] = spec | {"storageClassName": youngest}
    mode = text_at(classes.get(class_name_of(claim)), "volumeBindingMode")
    if not spec.get("volumeName") and mode != "WaitForFirstConsumer":
        warn_once(f"PersistentVolumeClaim {name}: nobody binds it here: add volumeName to its spec, "
                  "and the annotation pv.kubernetes.io/bind-completed")


def remark_on_volume(name, volume):
    """Say if a volume that no claim has is of no use, as nobody makes it available here."""
    is_copied = "uid" in volume["metadata"]
    has_owner = pick(volume, dict, "spec").get("claimRef")
    has_phase = pick(volume, dict, "status").get("phase")
    if not (is_copied or has_owner or has_phase):
        warn_once(f"PersistentVolume {name}: nobody makes it available here: add a status with the phase "
                  "Available")


def give_priority(pod, thing, classes):
    """Give a pod the priority of its PriorityClass. Return why admission refuses it, or ""."""
    spec = thing["spec"]
    default = next((each for each in classes.values() if each.get("globalDefault")), {})
    name = text_at(spec, "priorityClassName")
    is_copied = "uid" in thing["metadata"]  # admission has seen it, when the classes may have been others
    if is_copied and spec.get("priority") is not None:
        return ""
    if name and name not in classes:
        warn_once(f'Pod {pod}: spec.priorityClassName: there is no PriorityClass "{name:.60}"'
                  + did_you_mean(name, classes, ""))
    of_pod = classes.get(name, {}) if name else default
    given = {"priority": pick(of_pod, int, "value"),
             "preemptionPolicy": of_pod.get("preemptionPolicy") or "PreemptLowerPriority"}
    for field, value in given.items():
        if spec.get(field) not in (None, value) and (name in classes or not name):
            return f"spec.{field}: must not be provided, or be that of its PriorityClass: {value}"
    spec["priority"] = spec.get("priority") or given["priority"]
    if of_pod.get("preemptionPolicy"):
        spec.setdefault("preemptionPolicy", of_pod["preemptionPolicy"])
    return ""


def give_tolerations(spec):
    """Have a pod stay for five minutes on a node that fails. Upstream: DefaultTolerationSeconds."""
    given = pick(spec, list, "tolerations", of=dict)
    spec["tolerations"] = [*given]
    for name in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{name}"
        if not any(each.get("key") in (None, "", key) and each.get("effect") in (None, "", "NoExecute")
                   for each in given):
            spec["tolerations"].append({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def node_of_mirror(pod):
    """Return the node whose kubelet runs a static pod, of which this one is the mirror; None: it is none.

    "": nobody can tell.
    """
    owners = pick(pod, list, "metadata", "ownerReferences", of=dict)
    of_node = next((text_at(owner, "name") for owner in owners if owner.get("kind") == "Node"), None)
    if of_node is None and "kubernetes.io/config.mirror" not in pick(pod, dict, "metadata", "annotations"):
        return None
    return text_at(pod, "spec", "nodeName") or of_node or ""


def remark_on_runtime(pod, spec, classes):
    """Say if there is no RuntimeClass of the name that a pod has for it."""
    name = text_at(spec, "runtimeClassName")
    if name and name not in classes:
        warn_once(f'Pod {pod}: spec.runtimeClassName: there is no RuntimeClass "{name:.60}"')


class Manifests:
    """A cluster made of manifests, which answers like the API server; bindings are kept in memory."""

    COMMAND = ("kubectl get nodes,pods,ns,svc,rc,rs,sts,pv,pvc,sc,csinodes,csidrivers,csistoragecapacities,"
               "volumeattachments,pdb,pc -A -o yaml")  # copies a live cluster

    def __init__(self, paths=(), anew=()):
        """Read these files and folders. anew: schedulers of which pods that have a node wait anew."""
        self.objects = {}  # (resource, namespace, name) -> object
        self.read_from = {}  # the same of what is read from a file -> (the file, the kind)
        self.uids = {}  # uid of a pod -> its namespace/name
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
        self.prepare_pods(anew)
        make_pods(self)
        self.admit()

    def load(self, path):
        """Read a file, or standard input for -; say what is odd in it. Raises OSError, ValueError."""
        for thing, kind in objects_in(path):
            for remark in self.add(thing, kind, path):
                log.warning("%s: %s", path, remark)

    def add(self, thing, kind="", path=None):
        """Take in an object, of this kind if it does not say. Return what is odd in it. Raises Malformed."""
        kind = pick(thing, str, "kind") or kind
        metadata = pick(thing, dict, "metadata")
        name = pick(metadata, str, "name")
        prefix = pick(metadata, str, "generateName")
        if not kind or not (name or prefix):
            got = json.dumps(thing)[:60]
            raise Malformed(f"expected a Kubernetes object with kind and metadata.name, got {got}")
        resource = re.sub("y$", "ie", kind.lower()) + ("es" if kind.endswith("s") else "s")
        try:
            if kind.lower() not in map(str.lower, CLUSTER_WIDE):
                metadata["namespace"] = pick(metadata, str, "namespace") or "default"
            namespace = metadata.get("namespace")
            name = metadata["name"] = name or generated(prefix, resource, namespace, self.objects)
            place = resource, namespace, name
            is_second = place in self.objects
            self.objects[place] = thing
            self.complete(resource, thing)
            remarks = [*remarks_on(kind, thing)]
        except (TypeError, ValueError) as error:
            raise Malformed(f"{kind} {name}: {error}") from error
        if path:
            self.read_from[place] = path, kind
        if is_second:
            remarks.append("there is one of this name already, which this one replaces")
        return [f"{kind} {name}: {remark}" for remark in remarks]

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

    def prepare_pods(self, anew):
        """Have mirrors of static pods stay on their nodes, and pods of these schedulers wait anew."""
        for place, pod in [*self.objects.items()]:
            if place[0] != "pods":
                continue
            node = node_of_mirror(pod)
            if node == "":
                self.leave_out(place, "nothing says on which node it is", "a static pod's mirror")
            elif node:
                pod["spec"]["nodeName"] = node
            elif pod["spec"]["schedulerName"] in anew and active([pod]):
                pod["spec"]["nodeName"] = ""
                pod["status"] = {}

    def complete(self, resource, thing):
        """Complete an object as the API server does by itself. Raises TypeError, ValueError."""
        metadata = thing["metadata"]
        if not metadata.get("creationTimestamp"):  # then what comes first in the file is older
            metadata["creationTimestamp"] = f"{len(self.objects):09}"
        spec = pick(thing, dict, "spec")
        if resource == "pods":
            thing["spec"] = completed(spec)
            pod = FullPod(thing)
            if self.uids.setdefault(pod.uid, pod.key) != pod.key:  # it is a copy of that one
                metadata.pop("uid", None)
        elif resource == "nodes":
            FullNode(thing)
        elif resource == "priorityclasses":
            pick(thing, int, "value")
            pick(thing, bool, "globalDefault")
        elif resource == "storageclasses":
            pick(thing, dict, "metadata", "annotations", of=str)
        elif resource in OWNERS:
            pick(thing, dict, "spec", "selector", of=str if resource in SELECT_BY_LABELS else None)

    def by_name(self, resource):
        """Return {name: object} of a resource that has no namespace."""
        return {name: thing for (kind, _, name), thing in self.objects.items() if kind == resource}

    def admit(self):
        """Complete the objects as admission does, once all are there. Upstream: plugin/pkg/admission."""
        for namespace in {namespace for _, namespace, _ in self.objects if namespace}:
            self.objects.setdefault(("namespaces", None, namespace), {"metadata": {"name": namespace}})
        storage_classes = self.by_name("storageclasses")
        claimed = {text_at(thing, "spec", "volumeName") for (resource, *_), thing in self.objects.items()
                   if resource == "persistentvolumeclaims"}
        priority_classes = SYSTEM_CLASSES | self.by_name("priorityclasses")
        runtime_classes = self.by_name("runtimeclasses")
        for place, thing in [*self.objects.items()]:
            resource, _, name = place
            with contextlib.suppress(Malformed):  # which rules will say that look at it
                if resource == "namespaces":
                    labels = pick(thing, dict, "metadata", "labels")
                    thing["metadata"]["labels"] = labels | {"kubernetes.io/metadata.name": name}
                elif resource == "persistentvolumeclaims":
                    give_class(name, thing, storage_classes)
                elif resource == "persistentvolumes" and name not in claimed:
                    remark_on_volume(name, thing)
                elif resource == "pods":
                    self.leave_out(place, give_priority(name, thing, priority_classes))
                    if "uid" not in thing["metadata"]:  # else it is a live cluster's, which has done this
                        give_tolerations(thing["spec"])
                        remark_on_runtime(name, thing["spec"], runtime_classes)

    def writer(self):
        """Return what writes to it."""
        return WriterOfManifests(self)

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
        if method == "DELETE" and not is_rehearsal(body):
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
        return [thing for (kind, *_), thing in self.objects.items() if kind == resource and all(
            (text_at(thing, *path.split(".")) == value) != bool(differs) for path, differs, value in wanted)]
