"""Extenders: HTTP services, named in a Policy or a configuration, that filter, prioritize, preempt and bind.

policy.py calls them after the rules; live/binding.py lets them bind.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import json
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import requests
from requests.adapters import HTTPAdapter

from scheduler_extras.common.clocks import within
from scheduler_extras.common.errors import ApiError, Malformed, Unschedulable
from scheduler_extras.common.log_texts import at_most, one_line, warn_once
from scheduler_extras.deciding.decision import Diagnosis, Vote
from scheduler_extras.deciding.rule import Unresolvable
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_syntax import is_extended_resource
from scheduler_extras.reading.pods_and_nodes import FullNode, FullPod
from scheduler_extras.reading.quantities import add_to
from scheduler_extras.reading.schemas import NANOSECONDS, decode, in_short
from scheduler_extras.rules.node_ranking import Victims


EXTENDER = {
    "urlPrefix": str, "filterVerb": str, "preemptVerb": str, "prioritizeVerb": str, "bindVerb": str,
    "weight": int, "enableHTTPS": bool, "httpTimeout": NANOSECONDS, "nodeCacheCapable": bool,
    "ignorable": bool,
    "managedResources": [{"name": str, "ignoredByScheduler": bool}],
    "tlsConfig": {"insecure": bool, "serverName": str, "caFile": str, "certFile": str, "keyFile": str,
                  "caData": str, "certData": str, "keyData": str}}


def left_to_extenders(configs: list[dict]) -> list[str]:
    """Return the names of the resources that extenders manage and the scheduler ignores."""
    resources = [resource for config in configs for resource in config.get("managedResources", [])]
    return [resource.get("name", "") for resource in resources if resource.get("ignoredByScheduler")]


def extenders_of(configs: list[dict], filtered: object) -> list[Extender]:
    """Return the extenders, ignorable ones last. filtered: the schema of their filters' responses."""
    extenders = [Extender(config, f"extenders[{i}]", filtered) for i, config in enumerate(configs)]
    return sorted(extenders, key=lambda extender: extender.ignorable)


def extender_problems(configs: list[dict]) -> Iterator[str]:
    """Yield the mistakes in extenders. Upstream: validateExtenders."""
    binders = [f"extenders[{i}]" for i, config in enumerate(configs) if config.get("bindVerb")]
    managed = set()
    for i, config in enumerate(configs):
        place = f"extenders[{i}]"
        if config.get("prioritizeVerb") and config.get("weight", 0) <= 0:
            yield f"{place}.weight: must be positive where there is a prioritizeVerb"
        for name in [resource.get("name", "") for resource in config.get("managedResources", [])]:
            where = f"{place}.managedResources: {in_short(name)}"
            if not is_extended_resource(name):
                yield f"{where} is not an extended resource, such as example.com/gpu"
            if name in managed:
                yield f"{where} appears twice"
            managed.add(name)
        yield from tls_problems(config.get("tlsConfig", {}), f"{place}.tlsConfig")
    for place in binders[1:]:
        yield f"{place}.bindVerb: only one extender may bind, and {binders[0]} does"


def tls_problems(tls: dict, place: str) -> Iterator[str]:
    """Yield the mistakes in an extender's tlsConfig. Upstream: TLSConfigFor."""
    if tls.get("insecure") and (tls.get("caFile") or tls.get("caData")):
        yield f"{place}: give either caFile, or caData, or insecure"
    for what in ("ca", "cert", "key"):
        file = tls.get(f"{what}File")
        data = tls.get(f"{what}Data", "")  # takes precedence
        if file and not data and not Path(file).is_file():
            yield f"{place}.{what}File: there is no file {file}"
        try:
            base64.b64decode("".join(data.splitlines()), validate=True)
        except ValueError:
            yield f"{place}.{what}Data: expected what is in the file, in base64"


# Schemas of the responses. The case of field names does not matter, as in Go; see `decode`.
# Upstream: kube-scheduler/extender/v1/types.go.
FILTERED = {"Nodes": {"items": [{"metadata": {"name": str}}]}, "NodeNames": [str], "FailedNodes": dict,
            "Error": str}
SCORED = [{"Host": str, "Score": int}]
BOUND = {"Error": str}
PREEMPTED = {"NodeNameToMetaVictims": dict}  # node -> VICTIMS
VICTIMS = {"Pods": [{"UID": str}], "NumPDBViolations": int}


class Endpoint:
    """The URL of an extender, its timeout, and its certificates."""

    def __init__(self, config: dict):
        self.url = config.get("urlPrefix", "").rstrip("/")
        self.timeout = config.get("httpTimeout", 0) / 10**9 or 5  # the Policy has nanoseconds
        self.session = requests.Session()
        self.session.trust_env = False  # REQUESTS_CA_BUNDLE would override the Policy
        self.session.headers["Accept-Encoding"] = "identity"  # a small body could unpack to gigabytes
        tls = config.get("tlsConfig", {})
        self.made_files: list = []  # temporary files exist as long as they are referenced
        is_unchecked = tls.get("insecure") or config.get("enableHTTPS")
        ca, *client = [self.file_of(tls, what) for what in ("ca", "cert", "key")]
        self.session.verify = ca or not is_unchecked
        self.session.cert = (str(client[0]), str(client[1])) if all(client) else None
        if tls.get("serverName"):  # the certificate is for this name, not for the URL's host
            adapter = cast(HTTPAdapter, self.session.adapters["https://"])
            secure = adapter.poolmanager.connection_pool_kw
            secure["server_hostname"] = secure["assert_hostname"] = tls["serverName"]
        # The Policy has decided that certificates are not verified.
        warnings.filterwarnings("ignore", message="Unverified HTTPS request")

    def file_of(self, tls: dict, what: str) -> str | None:
        """Return the file that tlsConfig names, or a temporary file with its data; or None. Data wins."""
        if not tls.get(f"{what}Data"):
            return tls.get(f"{what}File")
        made = tempfile.NamedTemporaryFile()  # noqa: SIM115 (it exists as long as the extender)
        made.write(base64.b64decode(tls[f"{what}Data"]))
        made.flush()
        self.made_files.append(made)
        return made.name

    def ask(self, verb: str, body: dict, schema: object) -> object:
        """POST to a verb within the timeout. Raises ApiError, OSError, ValueError, RecursionError."""
        return within(self.timeout, self.post, verb, body, schema)

    def post(self, verb: str, body: dict, schema: object) -> object:
        """POST to a verb, and return the decoded response. Raises OSError, ValueError, RecursionError."""
        most = 2**26  # bytes
        url = f"{self.url}/{verb}"
        with self.session.post(url, json=body, stream=True, allow_redirects=False,
                               timeout=self.timeout + 1) as response:  # `ask` gives up before that
            if response.status_code != 200:
                raise ValueError(f"it returned {response.status_code} {response.reason}")
            encoding = response.headers.get("Content-Encoding", "identity")
            if encoding != "identity":
                raise ValueError(f"its response is compressed: Content-Encoding {encoding}")
            text = bytearray()
            for piece in response.iter_content(2**16):
                text += piece
                if len(text) > most:
                    raise ValueError(f"its answer has more than {most} bytes")
        answer = decode(json.loads(text), schema, "the answer", skipped=[])
        if isinstance(answer, dict) and answer.get("Error"):
            raise ValueError(answer["Error"])
        return answer


class Extender:
    """An extender of the Policy, a web service. Upstream: scheduler/core/extender.go."""

    def __init__(self, config: dict, title: str, filtered: object = FILTERED):
        self.config = config
        self.filtered = filtered  # the schema of its filter's response
        self.title = title
        self.endpoint = Endpoint(config)
        self.url = self.endpoint.url
        self.weight = config.get("weight", 0)
        self.ignorable = config.get("ignorable", False)
        self.names_only = config.get("nodeCacheCapable", False)
        self.resources = {resource.get("name") for resource in config.get("managedResources", [])}

    def is_interested(self, verb: str, pod: FullPod) -> bool:
        """Return whether it has this verb, and the pod requests one of its resources, if it manages any."""
        containers = pick(pod.spec, list, "containers") + pick(pod.spec, list, "initContainers")
        named = {name for container in containers for part in ("requests", "limits")
                 for name in pick(container, dict, "resources", part)}
        manages_one = not self.resources or not self.resources.isdisjoint(named)
        return bool(self.config.get(verb)) and manages_one

    @contextlib.contextmanager
    def blamed(self, verb: str, otherwise: str = "") -> Iterator[None]:
        """Turn an error of the extender into Unschedulable, or into a warning that ends with `otherwise`."""
        try:
            yield
        except (ApiError, OSError, ValueError, RecursionError) as error:
            blame = f"extender {self.url}: {self.config[verb]}: {one_line(error)}"
            if not otherwise:
                raise Unschedulable(blame) from error
            warn_once(f"{blame}; {otherwise}")

    def ask(self, verb: str, body: dict, schema: object) -> Any:
        """POST to a verb, and return the decoded response."""
        return self.endpoint.ask(self.config[verb], body, schema)

    def ask_about(self, nodes: Iterable[FullNode], verb: str, pod: FullPod, schema: object) -> Any:
        """POST nodes to a verb, by name or in full, and return the decoded response."""
        names = [node.name for node in nodes] if self.names_only else None
        whole = None if self.names_only else {"metadata": {}, "items": [node.raw for node in nodes]}
        body = {"Pod": pod.raw, "NodeNames": names, "Nodes": whole}
        return self.ask(verb, body, schema)

    def filter(self, pod: FullPod, nodes: dict[str, FullNode],
               failed: Diagnosis) -> tuple[dict[str, FullNode], Diagnosis]:
        """Return the nodes that the extender accepts, and `failed` with the others added."""
        if not nodes or not self.is_interested("filterVerb", pod):
            return nodes, failed
        otherwise = "it is ignorable, so the pods go on without it" if self.ignorable else ""
        with self.blamed("filterVerb", otherwise):
            answer = self.ask_about(nodes.values(), "filterVerb", pod, self.filtered)
            passing = {pick(item, str, "metadata", "name") for item in pick(answer, list, "Nodes", "items")}
            if self.names_only and "NodeNames" in answer:
                passing = set(answer["NodeNames"])
            if not passing <= nodes.keys():
                raise Malformed("passes nodes it was not asked about")
            failures = pick(answer, dict, "FailedNodes", of=str)
            unresolvable = pick(answer, dict, "FailedAndUnresolvableNodes", of=str)
            reasons: dict[str, str] = {name: at_most(1000, reason) for name, reason in failures.items()}
            reasons |= {name: Unresolvable(at_most(1000, reason)) for name, reason in unresolvable.items()}
            refused = {name: {self.title: [reasons[name]] if name in reasons else []}
                       for name in nodes if name not in passing}
            feasible = {name: node for name, node in nodes.items() if name in passing}
            return feasible, Diagnosis(failed | refused)
        return nodes, failed

    def prioritize(self, pod: FullPod, nodes: dict[str, FullNode]) -> list[Vote]:
        """Return its Vote in a list: 0 to 10 x weight x 10 points for each node. [] if it has none."""
        if len(nodes) == 1 or not self.is_interested("prioritizeVerb", pod):
            return []
        with self.blamed("prioritizeVerb", "its scores are left out"):
            answer = self.ask_about(nodes.values(), "prioritizeVerb", pod, SCORED)
            scores: collections.Counter[str] = collections.Counter()  # adds up if it names a node twice
            for each in answer:
                add_to(scores, {each.get("Host", ""): each.get("Score", 0)})
            if not all(0 <= score <= 10 for score in scores.values()):
                raise Malformed("its scores are not all from 0 to 10")
            points = {name: scores[name] * self.weight * 10 for name in nodes}
            return [Vote(f"{self.title} {self.url}", 1, None, points)]
        return []

    def preempt(self, pod: FullPod, found: dict[FullNode, Victims]) -> dict[FullNode, Victims]:
        """Return the candidates that it accepts, {Node: Victims}, perhaps with other victims.

        If an ignorable extender fails, all candidates are accepted. Raises Unschedulable.
        Upstream: ProcessPreemption.
        """
        kind = "NodeNameToMetaVictims" if self.names_only else "NodeNameToVictims"
        candidates = {}
        for node, victims in found.items():
            pods = [{"UID": victim.uid} if self.names_only else victim.raw for victim in victims.pods]
            candidates[node.name] = {"Pods": pods, "NumPDBViolations": victims.violations}
        with self.blamed("preemptVerb", "it is ignorable, so it is passed over" if self.ignorable else ""):
            answer = self.ask("preemptVerb", {"Pod": pod.raw, kind: candidates}, PREEMPTED)
            nodes = {node.name: node for node in found}
            left = pick(answer, dict, "NodeNameToMetaVictims", of=dict)
            if not left.keys() <= nodes.keys():
                raise Malformed("names nodes it was not asked about")
            answered = {nodes[name]: self.victims_in(obj, nodes[name]) for name, obj in left.items()}
            return {node: victims for node, victims in answered.items() if victims.pods}
        return found

    def victims_in(self, obj: dict, node: FullNode) -> Victims:
        """Return the Victims on a node from a response. Raises Malformed, InputError."""
        victims = decode(obj, VICTIMS, f"the victims on {node.name}", skipped=[])
        uids = [pod.get("UID", "") for pod in victims.get("Pods", [])]
        if not node.pods.keys() >= set(uids):
            raise Malformed(f"names others than the pods on {node.name}")
        if not (uids or self.ignorable):  # for an ignorable extender, only this node is dropped
            raise Malformed(f"names no pod on {node.name}")
        return Victims([node.pods[uid] for uid in uids], victims.get("NumPDBViolations", 0))

    def bind(self, pod: FullPod, node_name: str) -> bool:
        """Have the extender bind the pod. Return True, like a rule that has bound it."""
        with self.blamed("bindVerb"):
            body = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name}
            self.ask("bindVerb", body, BOUND)
        return True
