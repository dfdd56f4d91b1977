"""A pod's manifest without generated fields, and its requirements in short.

records.py adds both to the record of a decision.
"""

import re

import yaml

from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.manifests.field_schemas import CONTAINERS
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.show.text import shorten


SHOWN_OF_PODS = [  # the fields to show; others are set by the API server, or no rule reads them
    "name", "namespace", "labels", "annotations", "schedulerName", "priority", "nodeSelector", "affinity",
    "tolerations", "topologySpreadConstraints", "schedulingGates", "overhead", "image", "resources", "ports",
    "volumes", *CONTAINERS]
WISHES = ("annotations", "priority", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")
NAMES = "nodeSelectorTerms|matchExpressions|matchLabels|labelSelector|podAffinityTerm|whenUnsatisfiable"
OMITTED = re.compile(rf"\b(key|{NAMES}): ")
REQUIREMENT = re.compile(r"\bkey: ([^,]*), operator: (\w+)(?:, values?:)?")
SKEW = re.compile(r"\bmaxSkew: (\d+), topologyKey: ([^,]*)")
DOMAIN = re.compile(r"\b([\w.-]+\.)?(kubernetes|k8s)\.io/")  # of well-known labels
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # much faster with libyaml
MOST = 200  # characters of a requirement or of an annotation


def manifest_of(pod: FullPod) -> str:
    """Return the part of a pod's manifest that rules read, as YAML."""
    spec = as_written(pod)
    for kind in CONTAINERS:
        spec[kind] = [*map(shown_of, pick(pod.spec, list, kind, of=dict))]
    obj = {"kind": "Pod", "metadata": shown_of(metadata_of(pod)), "spec": shown_of(spec)}
    return yaml.dump(obj, Dumper=DUMPER, sort_keys=False, allow_unicode=True)


def as_written(pod: FullPod) -> dict:
    """Return a pod's spec without the tolerations and the volume that admission adds."""
    return pod.spec | {
        "tolerations": [each for each in pod.tolerations if each.get("tolerationSeconds") != 300],
        "volumes": [volume for volume in pod.volumes if "projected" not in volume]}


def metadata_of(pod: FullPod) -> dict:
    """Return a pod's metadata without long annotations, such as kubectl's last-applied-configuration."""
    short = {key: value for key, value in pod.annotations.items() if len(value) <= MOST}
    return pod.raw["metadata"] | {"annotations": short}


def shown_of(obj: dict) -> dict:
    """Return the fields of an object to show, without those that are empty or have the default value."""
    defaults: tuple = (None, "", 0, [], {}, "default", {"requests": {}})
    return {name: obj[name] for name in SHOWN_OF_PODS if obj.get(name) not in defaults}


def asks_of(pod: FullPod) -> list[tuple[str, str]]:
    """Return a pod's requirements besides resources, as (field, its value in short)."""
    ports = dict.fromkeys(port[:2] for port in pod.host_ports)
    asks = [("host port", str(number)) for _, number in ports]
    fields = shown_of(metadata_of(pod)) | shown_of(as_written(pod))
    return asks + [(field, in_short(field, fields[field])) for field in WISHES if field in fields]


def in_short(field: str, value: object) -> str:
    """Return the value of a field on one line, such as "nodeAffinity: required: zone In east" of affinity."""
    text = yaml.dump({field: value}, Dumper=DUMPER, sort_keys=False, allow_unicode=True,
                     default_flow_style=True)
    text = re.sub(f"[][{{}}]|{DURING_SCHEDULING}", "", text)
    text = REQUIREMENT.sub(r"\1 \2", SKEW.sub(r"maxSkew \1 by \2", " ".join(text.split())))
    return shorten(DOMAIN.sub("", OMITTED.sub("", text)).strip().removeprefix(f"{field}: "), MOST)
