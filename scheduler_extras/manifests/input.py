"""Manifests as they come: files, folders, standard input; lists, several documents, what kubectl dumps."""

import re
from pathlib import Path

from scheduler_extras.common.errors import InputError
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.texts import parse, text_in


SUFFIXES = (".yaml", ".yml", ".json")  # of the files of a folder that are read
LOGS = re.compile(r"^==== START (logs for [^\n]*) ====$.*?==== END \1 ====", re.MULTILINE | re.DOTALL)
EXPORTED = {  # what an export of kube-scheduler-simulator has, today and at first -> the kind
    "namespaces": "Namespace", "priorityClasses": "PriorityClass", "storageClasses": "StorageClass",
    "pvs": "PersistentVolume", "pvcs": "PersistentVolumeClaim", "nodes": "Node", "pods": "Pod",
    "storageClassList": "StorageClass", "pvList": "PersistentVolume", "pvcList": "PersistentVolumeClaim",
    "nodeList": "Node", "podList": "Pod"}


def files_at(path):
    """Return the files that a path means: one, or all in a folder. Raises InputError, OSError.

    A dump has a folder for each namespace. Hidden folders have copies of files, as where a volume is mounted.
    """
    folder = Path(path)
    if str(path) == "-" or not folder.is_dir():
        return [path]
    files = [each for each in sorted(folder.rglob("*")) if each.suffix in SUFFIXES and is_to_be_read(each)
             and not any(name.startswith(".") for name in each.relative_to(folder).parent.parts)]
    if not files:
        raise InputError(f"there is no file {', '.join(SUFFIXES)} in this folder")
    return files


def is_to_be_read(path):
    """Return whether it is a file, and no folder or pipe; or a link to nowhere, of which that is said."""
    return path.is_file() or not path.exists()


def objects_in(path):
    """Yield the objects of a file, each with its kind if it does not say one. Raises OSError, ValueError."""
    text = LOGS.sub(lambda logs: "\n" * logs[0].count("\n"), text_in(path))  # of `kubectl cluster-info dump`
    for document in parse(text):
        yield from things_in(document)


def things_in(document, kind=""):
    """Yield the objects of a document, each with the kind of its list. Raises Malformed."""
    if document is None:
        return
    if isinstance(document, list):
        for each in document:
            yield from things_in(each, kind)
    elif isinstance(document, dict) and "items" in document:
        yield from things_in(pick(document, list, "items"), text_at(document, "kind").removesuffix("List"))
    elif isinstance(document, dict) and not document.get("kind") and EXPORTED.keys() & document.keys():
        for name, kind_of_all in EXPORTED.items():
            yield from things_in(pick(document, list, name), kind_of_all)
    else:
        yield document, kind
