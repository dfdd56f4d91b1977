"""Validation: why an API server would reject a manifest, as far as that matters for scheduling.

objects.py validates each object with it. `kubectl apply --dry-run=server` validates everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from scheduler_extras.common.errors import Malformed
from scheduler_extras.manifests.combinations import CHECKS, COMBINATIONS, PARSERS
from scheduler_extras.manifests.completion import with_defaults
from scheduler_extras.manifests.controllers import WORKLOADS
from scheduler_extras.manifests.field_schemas import FIELDS, NEEDED
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.reading.schemas import decode_part


CHECKED_KINDS = ("Pod", "Node", "PersistentVolume")  # their whole spec is validated
SELECT_BY_SELECTORS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "PodDisruptionBudget",
                       "PersistentVolumeClaim")


def refusals(kind: str, obj: dict, prefix: str = "") -> Iterator[str]:
    """Yield the reasons for which an API server would reject an object of this kind. Raises Malformed.

    prefix: the path of the template that the object is, such as "spec.template.".
    """
    metadata = pick(obj, dict, "metadata")
    spec = pick(obj, dict, "spec")
    yield from problems_with(kind, obj, "")
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
        yield from refused_in(pick(obj, dict, "status"), "status", "Node status")
    if kind in SELECT_BY_SELECTORS and isinstance(spec.get("selector"), dict):
        yield from refused_in(spec["selector"], "spec.selector", "labelSelector")
    if kind in WORKLOADS:
        yield from refused_in_template(pick(spec, dict, "template"))
        for i, claim in enumerate(pick(spec, list, "volumeClaimTemplates", of=dict)):
            yield from refusals("PersistentVolumeClaim", claim, f"spec.volumeClaimTemplates[{i}].")


def refused_in_template(template: dict) -> Iterator[str]:
    """Yield the reasons for which an API server would reject a pod template, or why it cannot be parsed."""
    problems = [*refusals("Pod", template, "spec.template.")]
    yield from problems
    if not problems:
        try:
            FullPod(template | {"spec": with_defaults(pick(template, dict, "spec"))})
        except Malformed as error:
            yield f"spec.template: {error}"


def refused_in(part: Any, place: str, name: str) -> Iterator[str]:
    """Yield the mistakes in a part of an object and in its parts; if it has any itself, not in its parts."""
    refused: tuple[str, ...] = ()  # the paths that have mistakes
    for where, name_of_each, each in parts_of(part, place, name):
        if not where.startswith(refused):
            problems = problems_with(name_of_each, each, where)
            yield from problems
            refused += tuple(problem.partition(": ")[0] for problem in problems)


def parts_of(part: Any, place: str, name: str | None = None) -> Iterator[tuple[str, str, dict]]:
    """Yield the object at a path, and all objects within it: (path, name of the part, object)."""
    if isinstance(part, list):
        for i, each in enumerate(part):
            yield from parts_of(each, f"{place}[{i}]")
    elif isinstance(part, dict):
        name = name or re.sub("[0-9]+", "", place.rpartition(".")[2])
        yield place, name, part
        for field, each in part.items():
            if name != "volumes[]" or field in NEEDED:  # of a volume, only its claim matters
                yield from parts_of(each, f"{place}.{field}")


def problems_with(part: Any, obj: dict, place: str) -> list[str]:
    """Return the mistakes in a part of an object at a path. Upstream: pkg/apis/core/validation."""
    nothing: tuple = (None, "", [], {})
    found = [f"{name}: Required value" for name in NEEDED.get(part, ()) if obj.get(name) in nothing]
    for name, schema in FIELDS.get(part, {}).items():
        if obj.get(name) not in nothing:
            decode_part(obj[name], schema, name, found)
    try:
        found += CHECKS[part](obj) if part in CHECKS else ()
        found += [f"{field}: {why}" if field else why
                  for field, why, is_violated in COMBINATIONS.get(part, ()) if is_violated(obj)]
        if part in PARSERS and not found:
            PARSERS[part](obj)
    except Malformed as error:
        found = found or [f": {error}"]
    except TypeError:  # a field has the wrong type, which is reported for that field
        pass
    return [join(place, each) for each in found]


def join(place: str, problem: str) -> str:
    """Return a problem with its path. A problem that begins with a colon concerns the part as a whole."""
    if not place or problem.startswith(": "):
        return f"{place}{problem}".removeprefix(": ")
    return f"{place}.{problem}"
