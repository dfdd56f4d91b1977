"""The defaults that an API server sets when an object is created, and what it makes of nulls.

objects.py completes each object when it is read.
"""

from __future__ import annotations

from types import MappingProxyType as read_only
from typing import Any

from scheduler_extras.manifests.field_schemas import CONTAINERS
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pod_requests import container_requests, pod_amounts
from scheduler_extras.reading.pods_and_nodes import FullNode
from scheduler_extras.rules.selectors import OWNERS, SELECT_BY_LABELS


MAPS: dict[str, Any] = {  # field with a map, or with a list of strings -> what a null in it means
    **dict.fromkeys(["labels", "annotations", "nodeSelector", "matchLabels", "values"], ""),
    **dict.fromkeys(["requests", "limits", "capacity", "allocatable", "overhead"], "0")}


def fill_nulls(part: Any, name: str = "") -> None:
    """Replace the nulls in a part of an object as MAPS says; in a list of objects, with an empty object."""
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


def complete(resource: str, obj: dict) -> None:
    """Set the default values in an object, and parse what rules read of it. Raises Malformed."""
    spec = pick(obj, dict, "spec")
    if resource == "pods":
        obj["spec"] = with_defaults(spec)
    elif resource in READ_BY:
        READ_BY[resource](obj)


def read_node(node: dict) -> None:
    """Parse a node. Without allocatable, its capacity is allocatable. Raises Malformed."""
    if not pick(node, dict, "status", "allocatable"):
        capacity = pick(node, dict, "status", "capacity")
        node["status"] = pick(node, dict, "status") | {"allocatable": capacity}
    FullNode(node)


def read_priority_class(obj: dict) -> None:
    """Parse the fields of a PriorityClass that admission reads. Raises Malformed."""
    pick(obj, int, "value")
    pick(obj, bool, "globalDefault")


READ_BY = {  # resource -> a function that raises Malformed if the object cannot be parsed
    "nodes": read_node,
    "priorityclasses": read_priority_class,
    "storageclasses": lambda obj: pick(obj, dict, "metadata", "annotations", of=str),
    **dict.fromkeys(OWNERS, lambda obj: pick(obj, dict, "spec", "selector")),
    **dict.fromkeys(SELECT_BY_LABELS, lambda obj: pick(obj, dict, "spec", "selector", of=str))}


def with_defaults(spec: dict) -> dict:
    """Return a pod's spec with the API server's defaults. Upstream: pkg/apis/core/v1/defaults.go."""
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
    if pick(spec, dict, "resources", "limits"):  # pod-level resources
        wanted = pod_amounts(container_requests({"spec": spec}), {}, {}, {})  # the sum over its containers
        units = {"cpu": "m", "memory": ""}  # with huge pages, all that pod-level resources may have
        requests = {name: f"{wanted[name]}{unit}" for name, unit in units.items() if name in wanted}
        spec["resources"] = with_requests(spec["resources"], requests)
    return spec


def with_requests(resources: dict, default_requests: Any = read_only({})) -> dict:
    """Return resources with requests. A missing request comes from default_requests, or else from limits."""
    requests = pick(resources, dict, "limits") | default_requests | pick(resources, dict, "requests")
    return resources | {"requests": requests}
