"""PodFitsHostPorts, made fast for nodes with many pods. It replaces the rule in scheduler.py."""

from __future__ import annotations

import collections

from scheduler_extras.deciding.rule import predicate
from scheduler_extras.reading.pods_and_nodes import FullPod, kept_with_pod


PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"


@predicate("PodFitsHostPorts", plugin="NodePorts", by_default=1, steady=True,
           aliases=["PodFitsPorts", "GeneralPredicates"],
           pod_requirements={"host ports": lambda pod, node: pod.host_ports})
def pod_fits_host_ports(pod, node):
    """No pod on the node uses a host port of this pod."""
    if pod.host_ports and any(share_a_port(pod, other) for other in node.pods.values()):
        yield PORTS_TAKEN


def share_a_port(pod: FullPod, other: FullPod) -> bool:
    """Return whether two pods use the same host port, protocol and IP. 0.0.0.0 conflicts with any IP."""
    if not other.host_ports:  # as most pods
        return False
    ours, theirs = ips_by_port(pod), ips_by_port(other)
    for port in ours.keys() & theirs.keys():
        if "0.0.0.0" in ours[port] | theirs[port] or ours[port] & theirs[port]:
            return True
    return False


@kept_with_pod
def ips_by_port(pod: FullPod) -> dict[tuple, set]:
    """Return the host ports of a pod, {(protocol, number): its IPs}."""
    ips = collections.defaultdict(set)
    for protocol, number, ip in pod.host_ports:
        ips[protocol, number].add(ip)
    return dict(ips)
