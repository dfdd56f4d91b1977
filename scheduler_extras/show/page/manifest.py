"""A pod's manifest as people write it, and what it asks for in short.

records.py puts both into a decision.
"""

import re

import yaml

from scheduler_extras.deciding.rule import WHEN
from scheduler_extras.manifests.fields import CONTAINERS
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.show.text import shorten


SHOWN_OF_PODS = [  # fields; others come from the API server, or no rule looks at them
    "name", "namespace", "labels", "annotations", "schedulerName", "priority", "nodeSelector", "affinity",
    "tolerations", "topologySpreadConstraints", "schedulingGates", "overhead", "image", "resources", "ports",
    "volumes", *CONTAINERS]
WISHES = ("annotations", "priority", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")
OMITTED = re.compile(r"(, )?\b(key|operator|values|matchExpressions|matchLabels|labelSelector): ")  # in short
DOMAIN = re.compile(r"\b[\w.-]+\.(kubernetes|k8s)\.io/")  # of labels that everybody knows
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # many times as fast, where there is libyaml
MOST = 200  # characters of a wish, or of an annotation


def manifest_of(pod: FullPod) -> str:
    """Return what rules look at of a pod's manifest, as people write it."""
    spec = as_written(pod)
    for kind in CONTAINERS:
        spec[kind] = [*map(shown_of, pick(pod.spec, list, kind, of=dict))]
    thing = {"kind": "Pod", "metadata": shown_of(metadata_of(pod)), "spec": shown_of(spec)}
    return yaml.dump(thing, Dumper=DUMPER, sort_keys=False, allow_unicode=True)


def as_written(pod):
    """Return a pod's spec without the tolerations and the volume that admission adds."""
    return pod.spec | {
        "tolerations": [each for each in pod.tolerations if each.get("tolerationSeconds") != 300],
        "volumes": [volume for volume in pod.volumes if "projected" not in volume]}


def metadata_of(pod):
    """Return a pod's metadata without long annotations, such as kubectl's of the last manifest."""
    short = {key: value for key, value in pod.annotations.items() if len(value) <= MOST}
    return pod.raw["metadata"] | {"annotations": short}


def shown_of(thing):
    """Return those fields of an object that are shown, and say something."""
    says_nothing: tuple = (None, "", 0, [], {}, "default", {"requests": {}})
    return {name: thing[name] for name in SHOWN_OF_PODS if thing.get(name) not in says_nothing}


def asks_of(pod: FullPod) -> list[tuple[str, str]]:
    """Return what a pod asks for beside amounts, as pairs of a field and its value in short."""
    ports = dict.fromkeys(port[:2] for port in pod.host_ports)
    asks = [("host port", str(number)) for _, number in ports]
    fields = shown_of(metadata_of(pod)) | shown_of(as_written(pod))
    return asks + [(field, in_short(field, fields[field])) for field in WISHES if field in fields]


def in_short(field, value):
    """Return the value of a field in a line, such as nodeAffinity: required: zone In east, of affinity."""
    said = yaml.dump({field: value}, Dumper=DUMPER, sort_keys=False, allow_unicode=True,
                     default_flow_style=True)
    said = re.sub(f"[][{{}}]|{WHEN}", "", said)
    return shorten(" ".join(DOMAIN.sub("", OMITTED.sub(" ", said)).split()).removeprefix(f"{field}: "), MOST)
