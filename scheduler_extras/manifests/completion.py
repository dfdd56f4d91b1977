"""What an API server makes of an object as it is written: nulls, and the defaults of fields.

objects.py has each object completed as it is read.
"""

from types import MappingProxyType as read_only
from typing import Any

from scheduler_extras.manifests.fields import CONTAINERS
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pod_requests import container_requests, pod_amounts
from scheduler_extras.reading.pods_and_nodes import FullNode
from scheduler_extras.rules.selectors import OWNERS, SELECT_BY_LABELS


MAPS: dict[str, Any] = {  # field that holds a map, or a list of texts -> what null means as a value in it
    **dict.fromkeys(["labels", "annotations", "nodeSelector", "matchLabels", "values"], ""),
    **dict.fromkeys(["requests", "limits", "capacity", "allocatable", "overhead"], "0")}


def fill_nulls(part, name=""):
    """Put what nulls among texts and amounts mean in their places, in a part of an object; see MAPS.

    A null in a list of objects is an object without fields.
    """
    if isinstance(part, dict):
        members: list[tuple] = [*part.items()]
        otherwise = MAPS.get(name)
    else:
        members = [*enumerate(part)]
        otherwise = MAPS.get(name, {})
    for key, member in members:
        if isinstance(member, (dict, list)):
            if key != "managedFields":
                fill_nulls(member, key)
        elif member is None and otherwise is not None:
            part[key] = otherwise


def complete(resource, thing):
    """Complete an object as the API server does by itself. Raises Malformed."""
    spec = pick(thing, dict, "spec")
    if resource == "pods":
        thing["spec"] = with_defaults(spec)
    elif resource in READ_BY:
        READ_BY[resource](thing)


def read_node(node):
    """Read a node; what is allocatable is its capacity, unless it says so. Raises Malformed."""
    if not pick(node, dict, "status", "allocatable"):
        capacity = pick(node, dict, "status", "capacity")
        node["status"] = pick(node, dict, "status") | {"allocatable": capacity}
    FullNode(node)


def read_priority_class(thing):
    """Read what is looked at of a PriorityClass. Raises Malformed."""
    pick(thing, int, "value")
    pick(thing, bool, "globalDefault")


READ_BY = {  # resource -> a function that raises Malformed if the object cannot be read
    "nodes": read_node,
    "priorityclasses": read_priority_class,
    "storageclasses": lambda thing: pick(thing, dict, "metadata", "annotations", of=str),
    **dict.fromkeys(OWNERS, lambda thing: pick(thing, dict, "spec", "selector")),
    **dict.fromkeys(SELECT_BY_LABELS, lambda thing: pick(thing, dict, "spec", "selector", of=str))}


def with_defaults(spec):
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
    for volume in pick(spec, list, "volumes", of=dict):
        if rbd := pick(volume, dict, "rbd"):
            rbd["pool"] = rbd.get("pool") or "rbd"
    if pick(spec, dict, "resources", "limits"):  # of the pod as a whole
        wanted = pod_amounts(container_requests({"spec": spec}), {}, {}, {})  # by its containers together
        units = {"cpu": "m", "memory": ""}  # besides huge pages, all that a pod as a whole requests
        requests = {name: f"{wanted[name]}{unit}" for name, unit in units.items() if name in wanted}
        spec["resources"] = with_requests(spec["resources"], requests)
    return spec


def with_requests(resources, default_requests=read_only({})):
    """Return resources with requests: what is said, else these, else the limits."""
    requests = pick(resources, dict, "limits") | default_requests | pick(resources, dict, "requests")
    return resources | {"requests": requests}
