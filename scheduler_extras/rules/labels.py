"""Rules about a node's labels, annotations and images.

A Policy's entry with the argument labelsPresence means CheckNodeLabelPresence, and one with labelPreference
means NodeLabel, whatever its name.
"""

from __future__ import annotations

import collections
import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from scheduler_extras.deciding.answers import answers_about, compute_each
from scheduler_extras.deciding.rule import predicate, priority
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod


def label_conflicts(arguments: list[dict]) -> Iterator[str]:
    """Yield the mistakes in labelsPresence and labelPreference: labels wanted both present and absent."""
    wanted: dict[str, bool] = {}
    for argument in arguments:
        presence = argument.get("presence", False)
        labels = argument.get("labels", []) + ([argument["label"]] if "label" in argument else [])
        for label in labels:
            if wanted.setdefault(label, presence) != presence:
                yield f'label "{label}" cannot be wanted both present and absent'


@predicate("CheckNodeLabelPresence", member="labelsPresence", check=label_conflicts, steady=True,
           unresolvable=True, argument={"labels": [str], "presence": bool})
def check_node_label_presence(pod, node, arguments):
    """The node has all labels that the Policy wants present, with any value, and none it wants absent."""
    for argument in arguments:
        presence = argument.get("presence", False)
        if any((label in node.labels) != presence for label in argument.get("labels", [])):
            yield "node(s) didn't have the requested labels"
            return


@priority("NodeLabel", member="labelPreference", check=label_conflicts, steady=True,
          argument={"label": str, "presence": bool})
def node_label(pod, node, arguments):
    """The percentage of the labelPreference entries that the node meets."""
    met = sum((argument.get("label", "") in node.labels) == argument.get("presence", False)
              for argument in arguments)
    return 100 * met // len(arguments)


def avoiding_nodes(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> dict[str, str]:
    """Return the annotation preferAvoidPods of the nodes that have it, {node: JSON}."""
    return answers_about(
        snapshot.nodes, "avoiding", snapshot,
        compute_each(lambda node: node.annotations.get("scheduler.alpha.kubernetes.io/preferAvoidPods")),
        then=lambda nodes, texts: {name: text for name, text in texts.items() if text})


@priority("NodePreferAvoidPodsPriority", metadata=avoiding_nodes, plugin="NodePreferAvoidPods",
          by_default=10000, steady=True)
def node_prefer_avoid_pods(pod, node, metadata):
    """0 if the node's annotation says to avoid the pod's ReplicationController or ReplicaSet; else 100."""
    if not (metadata and node.name in metadata):  # if it is empty, the rule reads no node
        return 100
    kind, uid = pod.controller.get("kind"), pod.controller.get("uid")
    if kind in ("ReplicationController", "ReplicaSet"):
        with contextlib.suppress(ValueError, RecursionError):  # an invalid annotation has no effect
            for avoid in pick(json.loads(metadata[node.name]), list, "preferAvoidPods", of=dict):
                owner = pick(avoid, dict, "podSignature", "podController")
                if (kind, uid) == (owner.get("kind"), owner.get("uid")):
                    return 0
    return 100


ImageShares = collections.namedtuple("ImageShares", "shares containers")


def image_shares(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> Any:
    """Return the ImageShares of the pod: its images with their shares, and the number of its containers."""
    shares = shares_of([pick(container, str, "image") for container in pod.containers], snapshot)
    return shares and ImageShares(shares, len(pod.containers))


def shares_of(images: list[str], snapshot: FullSnapshot) -> list[tuple[str, int]]:
    """Return [(image, its size in bytes times the share of nodes that have it)]. Upstream: scaledImageScore.

    Images that no node has are left out.
    """
    sizes = answers_about(
        snapshot.nodes, "images", snapshot, compute_each(lambda node: node.images), then=sizes_of)
    shares = []
    for image in images:
        if image.rfind(":") <= image.rfind("/"):  # nodes name images with a tag (normalizedImageName)
            image += ":latest"
        if image in sizes:
            first, *_ = sizes[image]
            shares.append((image, int(first * (len(sizes[image]) / len(snapshot.nodes)))))
    return shares


def sizes_of(nodes: Iterable[str], images: dict[str, dict[str, int]]) -> dict[str, list[int]]:
    """Return {image: its size in bytes on each node that has it}."""
    sizes = collections.defaultdict(list)
    for name in nodes:
        for image, size in images[name].items():
            sizes[image].append(size)
    return dict(sizes)


@priority("ImageLocalityPriority", metadata=image_shares, plugin="ImageLocality", by_default=1,
          steady=True)
def image_locality(pod, node, metadata):
    """The size of the pod's images on the node, scaled: 23 MiB is 0, 1000 MiB per container is 100."""
    if not metadata:
        return 0
    lowest = 23 * 2**20
    highest = 1000 * 2**20 * metadata.containers
    there = sum([share for image, share in metadata.shares if image in node.images])
    return 100 * (min(max(there, lowest), highest) - lowest) // (highest - lowest)
