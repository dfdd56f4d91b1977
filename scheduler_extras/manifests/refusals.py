"""What an API server would refuse of a manifest, where that decides about scheduling.

Manifests are checked by it. For all else there is `kubectl apply --dry-run=server`.
"""

import re

from scheduler_extras.common.errors import Malformed
from scheduler_extras.manifests.completion import with_defaults
from scheduler_extras.manifests.facts import CHECKS, FACTS, READ_AS_RULES_DO
from scheduler_extras.manifests.fields import FIELDS, NEEDED
from scheduler_extras.manifests.workloads import WORKLOADS
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.reading.schemas import decode_part


CHECKED_KINDS = ("Pod", "Node", "PersistentVolume")  # all of whose spec is looked at
SELECT_BY_SELECTORS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "PodDisruptionBudget",
                       "PersistentVolumeClaim")


def refusals(kind, thing, prefix=""):
    """Yield why an API server would refuse an object of this kind. prefix: of places in a template.

    Raises Malformed.
    """
    metadata = pick(thing, dict, "metadata")
    spec = pick(thing, dict, "spec")
    yield from problems_with(kind, thing, "")
    if not prefix:
        yield from problems_with("metadata", metadata, "metadata")
    for name in ("labels", "annotations"):
        if isinstance(metadata.get(name), dict):
            yield from problems_with(name, metadata[name], f"{prefix}metadata.{name}")
    if kind in CHECKED_KINDS:
        yield from refused_in(spec, f"{prefix}spec", f"{kind} spec")
    else:
        yield from problems_with(f"{kind} spec", spec, "spec")
    if kind == "Node":
        yield from refused_in(pick(thing, dict, "status"), "status", "Node status")
    if kind in SELECT_BY_SELECTORS and isinstance(spec.get("selector"), dict):
        yield from refused_in(spec["selector"], "spec.selector", "labelSelector")
    if kind in WORKLOADS:
        yield from refused_in_template(pick(spec, dict, "template"))
        for i, claim in enumerate(pick(spec, list, "volumeClaimTemplates", of=dict)):
            yield from refusals("PersistentVolumeClaim", claim, f"spec.volumeClaimTemplates[{i}].")


def refused_in_template(template):
    """Yield why an API server would refuse a template of pods, or why it cannot be read."""
    problems = [*refusals("Pod", template, "spec.template.")]
    yield from problems
    if not problems:
        try:
            FullPod(template | {"spec": with_defaults(pick(template, dict, "spec"))})
        except Malformed as error:
            yield f"spec.template: {error}"


def refused_in(part, place, name):
    """Yield what an API server refuses in a part of an object, but not within what it refuses as a whole."""
    refused = ()  # places
    for where, name_of_each, each in parts_of(part, place, name):
        if not where.startswith(refused):
            problems = problems_with(name_of_each, each, where)
            yield from problems
            refused += tuple(problem.partition(": ")[0] for problem in problems)


def parts_of(part, place, name=None):
    """Yield an object at a place, and those in it: (place, name of the part, object)."""
    if isinstance(part, list):
        for i, each in enumerate(part):
            yield from parts_of(each, f"{place}[{i}]")
    elif isinstance(part, dict):
        name = name or re.sub("[0-9]+", "", place.rpartition(".")[2])
        yield place, name, part
        for field, each in part.items():
            if name != "volumes[]" or field in NEEDED:  # of a volume, its claim is looked at
                yield from parts_of(each, f"{place}.{field}")


def problems_with(part, thing, place):
    """Return what is wrong with a part of an object at a place. Upstream: pkg/apis/core/validation."""
    nothing: tuple = (None, "", [], {})
    found = [f"{name}: Required value" for name in NEEDED.get(part, ()) if thing.get(name) in nothing]
    for name, schema in FIELDS.get(part, {}).items():
        if thing.get(name) not in nothing:
            decode_part(thing[name], schema, name, found)
    try:
        found += CHECKS[part](thing) if part in CHECKS else ()
        found += [f"{field}: {why}" if field else why
                  for field, why, is_so in FACTS.get(part, ()) if is_so(thing)]
        if part in READ_AS_RULES_DO and not found:
            READ_AS_RULES_DO[part](thing)
    except Malformed as error:
        found = found or [f": {error}"]
    except TypeError:  # of a part that is not of its type, which is said of that part
        pass
    return [join(place, each) for each in found]


def join(place, problem):
    """Return a problem with the place before it; one that begins with a colon is that of the part itself."""
    if not place or problem.startswith(": "):
        return f"{place}{problem}".removeprefix(": ")
    return f"{place}.{problem}"
