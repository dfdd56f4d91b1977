"""Loading of files and folders: objects are taken, and what is something else is named once.

manifests.py has its files loaded with it.
"""

import contextlib
import json

from scheduler import log
from scheduler_extras.common.errors import InputError
from scheduler_extras.common.log_texts import one_line
from scheduler_extras.manifests.hints import skipped_files, templates_left_out
from scheduler_extras.manifests.input import files_at, objects_in
from scheduler_extras.manifests.kinds import counts, kind_of
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.texts import RENDER_FIRST


def load(manifests, path, is_alone):
    """Read a file, a folder, or standard input for -. Raises InputError.

    As in `kubectl apply`, what cannot be read of several files costs only the file that it is in.
    """
    foreign = {}  # file -> what it has that is no object of Kubernetes
    templates: list[str] = []  # files that are to be rendered first
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
    if is_alone and files == [path] and not manifests.objects:  # then the run ends with this error
        manifests.foreign += [(file, thing) for file, things in foreign.items() for thing in things]
    elif kinds:
        log.warning("%s", skipped_files(path, kinds))


def tolerated(files, path, is_alone):
    """Return which errors of a file do not end the run."""
    if files != [path]:
        return OSError, ValueError
    return () if is_alone else (ValueError,)


@contextlib.contextmanager
def one_of_many(manifests, file, templates, errors):
    """Log why a file cannot be read, if it is one of these errors, and go on with the other files.

    A template is only noted as one.
    """
    try:
        yield
    except errors as error:
        manifests.lacks_some = True
        if str(error).endswith(RENDER_FIRST):
            templates.append(file)
        else:
            log.error("%s: %s; this file is skipped", file, one_line(error))


def load_file(manifests, file):
    """Read a file, and return what is no object of Kubernetes. Raises OSError, ValueError."""
    foreign = []
    has_objects = False
    for thing in objects_in(file):
        if is_object(thing):
            manifests.take(thing, file)
            has_objects = True
        else:
            foreign.append(thing)
    strays = [thing for thing in foreign if has_objects and not text_at(thing, "kind")]
    for thing in strays:
        manifests.lacks_some = True
        log.warning("%s: skipped: %s", file, no_object(thing))
    return [thing for thing in foreign if thing not in strays]


def no_object(thing):
    """Return the words for something that is no object."""
    return f"expected a Kubernetes object with kind and metadata.name, got {json.dumps(thing)[:60]}"


def is_object(thing):
    """Return whether something is an object of Kubernetes, though maybe one that is to be refused."""
    if not text_at(thing, "kind") or "$patch" in thing:  # kustomize's patches say so
        return False
    has_name = text_at(thing, "metadata", "name") or text_at(thing, "metadata", "generateName")
    return bool(has_name) or counts(kind_of(thing))
