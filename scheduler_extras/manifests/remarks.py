"""What is odd in a manifest, though an API server may take it: fields that are misplaced or misspelt, kinds
that nobody obeys.

manifests.py asks it about each object.
"""

import functools

from scheduler_extras.common.errors import Malformed
from scheduler_extras.deciding.rule import WHEN
from scheduler_extras.manifests.refusals import CHECKED_KINDS, CONTAINERS, FIELDS, parts_of
from scheduler_extras.manifests.workloads import WORKLOADS
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.hints import nearly
from scheduler_extras.reading.label_selectors import read_requirement


# A part of an object goes by the name of its field; [] is any entry of a list.

OF_PODS = ["tolerations", "nodeSelector", "affinity", "topologySpreadConstraints", "hostNetwork"]
OF_CONTAINERS = dict.fromkeys(OF_PODS, "in spec, beside containers") | dict.fromkeys(
    ["requests", "limits"], "in resources")
MISPLACED = {  # part -> fields that people put there, and where each belongs
    **dict.fromkeys(["initContainers[]", "containers[]"], OF_CONTAINERS),
    f"preferred{WHEN}[]": {
        **dict.fromkeys(["topologyKey", "labelSelector"], "in podAffinityTerm"),
        **dict.fromkeys(["matchExpressions", "matchFields"], "in preference, if it is of nodes")}}
SPELT = {  # part -> fields that rules look at: of what is nearly one of these, it is said
    "Pod spec": (*OF_PODS, *CONTAINERS, "nodeName", "schedulerName", "priorityClassName", "overhead",
                 "schedulingGates", "volumes"),
    **dict.fromkeys(["initContainers[]", "containers[]"], ("resources", "ports")),
    "resources": ("requests", "limits", "claims"),
    "affinity": ("nodeAffinity", "podAffinity", "podAntiAffinity"),
    f"required{WHEN}": ("nodeSelectorTerms",),
    f"preferred{WHEN}[]": ("weight", "preference", "podAffinityTerm"),
    **dict.fromkeys(["nodeSelectorTerms[]", "preference"], ("matchExpressions", "matchFields")),
    **dict.fromkeys(["labelSelector", "namespaceSelector"], ("matchLabels", "matchExpressions")),
    **dict.fromkeys([f"required{WHEN}[]", "podAffinityTerm"],
                    ("topologyKey", "labelSelector", "namespaces", "namespaceSelector")),
    **{part: tuple(FIELDS[part]) for part in (
        "tolerations[]", "ports[]", "matchExpressions[]", "nodeAffinity", "podAffinity", "podAntiAffinity",
        "topologySpreadConstraints[]")}}
CLUSTER_WIDE = [  # kinds of objects that have no namespace
    "Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment",
    "PriorityClass"]
GROUPS = {  # API group of a kind that is looked at, "" for the oldest one -> the kinds
    "": ["Node", "Namespace", "PersistentVolume", "Pod", "Service", "ReplicationController",
         "PersistentVolumeClaim"],
    "apps": ["ReplicaSet", "StatefulSet", "Deployment", "DaemonSet"], "batch": ["Job"],
    "storage.k8s.io": ["StorageClass", "CSINode", "CSIDriver", "VolumeAttachment", "CSIStorageCapacity"],
    "scheduling.k8s.io": ["PriorityClass"], "policy": ["PodDisruptionBudget"]}
NOT_OBEYED = {  # kind of an object that admission obeys -> what is said of it
    "LimitRange": "pods do not get its requests and limits here: add these to the pods themselves",
    "RuntimeClass": "pods do not get its overhead, nodeSelector and tolerations here: add these to the pods "
                    "themselves",
    "ResourceQuota": "pods are not refused because of it here"}


def remarks_on(kind, thing):
    """Yield what is odd in an object of this kind."""
    version = text_at(thing, "apiVersion")
    known = [each for group, kinds in GROUPS.items() for each in kinds
             if not version or version.rpartition("/")[0] == group]
    meant = nearly(kind, known)
    if meant:
        yield f'kind: did you mean "{meant}"?'
    spec = pick(thing, dict, "spec")
    if kind in (*CHECKED_KINDS, *WORKLOADS, "CronJob"):  # elsewhere, a field of such a name may be anything
        yield from odd_in(spec)
    is_copied = "uid" in thing["metadata"]  # then what is to become of it has
    if kind in NOT_OBEYED and not is_copied:
        yield NOT_OBEYED[kind]
    has_template = "jobTemplate" in spec or any(
        is_of_pods(part["template"]) for part in (thing, spec) if "template" in part)
    if has_template and not is_copied and kind not in WORKLOADS:
        yield "no pods are made of its template here: add the pods themselves"


def is_of_pods(template):
    """Return whether a template is one of pods, or does not say what it is of."""
    spec = template.get("spec") if isinstance(template, dict) else None
    return not template or (isinstance(spec, dict) and "containers" in spec)


def odd_in(spec):
    """Yield what is odd in a spec: fields that are misplaced or misspelt, values that no label can have."""
    for place, name, part in parts_of(spec, "spec"):
        is_of_pod = name == "spec" and "containers" in part  # or of a pod's template
        for field, why in odd_fields("Pod spec" if is_of_pod else name, part):
            yield f"{place}.{field}: {why}"
        if name == "matchExpressions[]":
            try:
                read_requirement(part)
            except Malformed as error:
                if "label value" in str(error) or "must be an integer" in str(error):
                    yield f"{place}: {error}"


def odd_fields(name, part):
    """Yield which fields of a part are misplaced or misspelt: (field, what is said of it)."""
    belong = MISPLACED.get(name, {})
    yield from ((field, f"belongs {where}") for field, where in belong.items() if field in part)
    known = SPELT.get(name, ())
    for field in [field for field in part if field not in belong and field not in known]:
        meant = spelt(field, known)
        if meant:
            yield field, f'did you mean "{meant}"?'
        elif name == "resources":
            yield field, "belongs in requests or limits"


spelt = functools.lru_cache(nearly)  # most pods have the same fields
