"""Loading files and folders of manifests, with one warning for all that is not a Kubernetes object.

manifests.py calls `load` for each path.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from scheduler import log
from scheduler_extras.common.errors import InputError
from scheduler_extras.common.log_texts import one_line
from scheduler_extras.manifests.input import files_at, objects_in
from scheduler_extras.manifests.kinds import is_supported, kind_of
from scheduler_extras.manifests.not_manifests import skipped_files, templates_left_out
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.json_and_yaml import RENDER_FIRST


def load(manifests: Any, path: str, is_alone: bool) -> None:
    """Load a file, a folder, or standard input for -. Raises InputError.

    is_alone: it is the only path. As in `kubectl apply`, a broken file among several is skipped.
    """
    foreign = {}  # file -> the things in it that are not Kubernetes objects
    templates: list[str] = []  # files that must be rendered first
    try:
        files = files_at(path)
        for file in files:
            with one_of_many(manifests, file, templates, tolerated(files, path, is_alone)):
                foreign[file] = load_file(manifests, file)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {one_line(error)}") from error
    kinds = {file: text_at(things[0], "kind") for file, things in foreign.items() if things}
    if templates:
        log.error("%s", templates_left_out(path, templates))
    if is_alone and files == [path] and not manifests.objects:  # the caller ends the run with an error
        manifests.foreign += [(file, obj) for file, things in foreign.items() for obj in things]
    elif kinds:
        log.warning("%s", skipped_files(path, kinds))


def tolerated(files: list[str], path: str, is_alone: bool) -> tuple[type[Exception], ...]:
    """Return the exceptions that skip a file instead of ending the run."""
    if files != [path]:
        return OSError, ValueError
    return () if is_alone else (ValueError,)


@contextlib.contextmanager
def one_of_many(manifests: Any, file: str, templates: list[str],
                errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Log an error of these types, so that the other files are still read. Add a template to `templates`."""
    try:
        yield
    except errors as error:
        manifests.lacks_some = True
        if str(error).endswith(RENDER_FIRST):
            templates.append(file)
        else:
            log.error("%s: %s; this file is skipped", file, one_line(error))


def load_file(manifests: Any, file: str) -> list:
    """Load a file. Return the things in it that are not Kubernetes objects. Raises OSError, ValueError."""
    foreign = []
    has_objects = False
    for obj in objects_in(file):
        if is_object(obj):
            manifests.add_from_file(obj, file)
            has_objects = True
        else:
            foreign.append(obj)
    strays = [obj for obj in foreign if has_objects and not text_at(obj, "kind")]
    for obj in strays:
        manifests.lacks_some = True
        log.warning("%s: skipped: %s", file, no_object(obj))
    return [obj for obj in foreign if obj not in strays]


def no_object(obj: object) -> str:
    """Return the message about a thing that is not a Kubernetes object."""
    return f"expected a Kubernetes object with kind and metadata.name, got {json.dumps(obj)[:60]}"


def is_object(obj: Any) -> bool:
    """Return whether a thing is a Kubernetes object, perhaps one that an API server would reject."""
    if not text_at(obj, "kind") or "$patch" in obj:  # a patch of kustomize
        return False
    has_name = text_at(obj, "metadata", "name") or text_at(obj, "metadata", "generateName")
    return bool(has_name) or is_supported(kind_of(obj))
