"""Overrides of rules about a node's name, taints, labels and images."""

from collections.abc import Iterator
from typing import Any

from scheduler import matches_node, term_matches, untolerated_taints
from scheduler_extras.configuration.overrides.registry import override
from scheduler_extras.deciding.rule import DURING_SCHEDULING, SKIP, FullRule, Rejected
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.fields import JsonObject, pick
from scheduler_extras.reading.node_affinity import node_selector_term, valid_terms
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.rules.labels import ImageShares, shares_of
from scheduler_extras.rules.script_rules import IN_THE_SCRIPT, OTHER_LABELS_136, TAINTS_136


@override("HostName")
def node_name(pod: FullPod, node: FullNode) -> Iterator[str]:
    """The pod does not name another node. The reason has a new text."""
    if any(IN_THE_SCRIPT["HostName"](pod, node)):
        yield "node(s) didn't match the requested node name"


@override("PodToleratesNodeTaints")
def taints_and_tolerations(pod: FullPod, node: FullNode) -> Iterator[str]:
    """The pod tolerates the node's taints. The reason no longer names the taint."""
    if untolerated_taints(pod, node):
        yield TAINTS_136


@override("MatchNodeSelector")
def required_node_affinity(
    pod: FullPod, node: FullNode, added_terms: list[JsonObject] | tuple[()] = ()
) -> Iterator[str]:
    """The node matches the pod's required node affinity, and a term of addedAffinity in the configuration."""
    if added_terms and not any(term_matches(term, node) for term in valid_terms(added_terms)):
        yield "node(s) didn't match scheduler-enforced node affinity"
    elif not matches_node(pod, node):
        yield OTHER_LABELS_136


def nodes_named(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> Any:
    """Return the names of the nodes to which matchFields of the pod's node affinity confine it, or SKIP."""
    required = pick(pod.node_affinity, dict, f"required{DURING_SCHEDULING}")
    terms = pick(required, list, "nodeSelectorTerms", of=dict)
    named: set[str] = set()
    for term in terms:
        fields = pick(term, list, "matchFields", of=dict)
        lists = [set(pick(each, list, "values", of=str)) for each in fields
                 if each.get("key") == "metadata.name" and each.get("operator") == "In"]
        if not lists:
            return SKIP
        named |= set.intersection(*lists)
    if terms and not named:
        raise Rejected("pod affinity terms conflict")
    return named or SKIP


def is_named(pod: FullPod, node: FullNode, metadata: set[str]) -> Iterator[str]:
    """The node is one of those that the pod's node affinity names. No other predicate checks the rest."""
    if node.name not in metadata:
        yield "node(s) didn't satisfy plugin(s) [NodeAffinity]"


NODES_NAMED = FullRule("NodesNamed", is_named, metadata=nodes_named, title="NodeAffinity", steady=True,
                       unresolvable=True)


@override("NodeAffinityPriority")
def preferred_node_affinity(
    pod: FullPod, node: FullNode, added_terms: list[JsonObject] | tuple[()] = ()
) -> int:
    """The weights of the matching preferred terms, including those of addedAffinity in the configuration."""
    points = IN_THE_SCRIPT["NodeAffinityPriority"](pod, node)
    for added in added_terms:
        term = node_selector_term(added.get("preference", {}))
        if term_matches(term, node):
            points += added.get("weight", 0)
    return points


@override("ImageLocalityPriority", "metadata")
def image_shares_136(pod: FullPod, nodes: list[FullNode], snapshot: FullSnapshot) -> Any:
    """Images of init containers and of image volumes count, too."""
    containers = pod.containers + pod.init_containers
    images = [pick(container, str, "image") for container in containers]
    images += [pick(volume, str, "image", "reference") for volume in pod.volumes if volume.get("image")]
    shares = shares_of(images, snapshot)
    return shares and ImageShares(shares, len(containers))
