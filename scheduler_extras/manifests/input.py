"""Finding the files of manifests, and the objects in them: Lists, several documents, the dumps of kubectl."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scheduler_extras.common.errors import InputError
from scheduler_extras.manifests.not_manifests import how_to_unpack, what_it_is_instead
from scheduler_extras.reading.fields import pick, text_at
from scheduler_extras.reading.json_and_yaml import decoded, parse, read_bytes


COMMAND = ("kubectl get nodes,pods,ns,svc,rc,rs,sts,pv,pvc,sc,csinodes,csidrivers,csistoragecapacities,"
           "volumeattachments,pdb,pc -A -o json")  # copies a live cluster
SUFFIXES = (".yaml", ".yml", ".json")  # of the files that are read in a folder
LOGS = re.compile(r"^==== START (logs for [^\n]*) ====$.*?==== END \1 ====", re.MULTILINE | re.DOTALL)
BYTE_ORDER_MARK = re.compile("^\ufeff", re.MULTILINE)
EXPORTED = {  # field of an export of kube-scheduler-simulator, of new and old versions -> the kind
    "namespaces": "Namespace", "priorityClasses": "PriorityClass", "storageClasses": "StorageClass",
    "pvs": "PersistentVolume", "pvcs": "PersistentVolumeClaim", "nodes": "Node", "pods": "Pod",
    "storageClassList": "StorageClass", "pvList": "PersistentVolume", "pvcList": "PersistentVolumeClaim",
    "nodeList": "Node", "podList": "Pod"}


def files_at(path: str) -> list:
    """Return the file at a path, or all files in that folder and below. Raises InputError, OSError.

    Hidden folders are skipped: where a ConfigMap is mounted, they hold copies of the files.
    """
    folder = Path(path)
    if str(path) == "-" or not folder.is_dir():
        return [path]
    files = [each for each in sorted(folder.rglob("*")) if each.suffix in SUFFIXES and is_readable(each)
             and not any(name.startswith(".") for name in each.relative_to(folder).parent.parts)]
    if not files:
        raise InputError(f"there is no file {', '.join(SUFFIXES)} in this folder")
    return files


def is_readable(path: Path) -> bool:
    """Return whether a path is a file, or a broken link, so that opening it reports the error."""
    return path.is_file() or not path.exists()


def objects_in(path: str) -> Iterator:
    """Yield the objects in a file, and all else that it holds. Raises OSError, ValueError."""
    text = text_of_manifests(path)
    if str(path) == "-" and not text.strip():
        raise InputError("standard input is empty; has the command before the pipe failed? "
                         "(Before Kubernetes 1.24, leave out csistoragecapacities.)")
    try:
        for document in parse(text):
            what = what_it_is_instead(text, COMMAND) if is_foreign(document) else ""
            if what:
                raise InputError(what)
            yield from things_in(document)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(what_it_is_instead(text, COMMAND) or str(error)) from error


def text_of_manifests(path: str) -> str:
    """Return the text of a file without the logs that a dump contains. Raises OSError, ValueError."""
    data = read_bytes(path)
    advice = how_to_unpack(data)
    if advice:
        raise InputError(advice)
    text = decoded(data)
    if "\ufeff" in text:
        text = BYTE_ORDER_MARK.sub("", text)
    return LOGS.sub(lambda logs: "\n" * logs[0].count("\n"), text)  # `kubectl cluster-info dump` has them


def is_foreign(document: Any) -> bool:
    """Return whether a document is neither a list nor an object with a kind."""
    return not isinstance(document, (list, dict, type(None))) or (
        isinstance(document, dict) and not {"kind", "apiVersion", "items", *EXPORTED} & document.keys())


def things_in(document: Any, list_fields: dict | None = None) -> Iterator:
    """Yield the objects of a document. Those in a typed List without a kind get the kind of that List."""
    if document is None:
        return
    if isinstance(document, list):
        for each in document:
            yield from things_in(each, list_fields)
    elif isinstance(document, dict) and isinstance(document.get("items"), (list, type(None))) and (
            "items" in document and is_list(document)):
        kind = text_at(document, "kind").removesuffix("List")
        of_items = {"apiVersion": text_at(document, "apiVersion"), "kind": kind} if kind else None
        yield from things_in(document["items"], of_items)
    elif isinstance(document, dict) and is_export(document):
        for name, kind in EXPORTED.items():
            yield from things_in(pick(document, list, name), {"kind": kind})
    elif isinstance(document, dict) and list_fields and not document.get("kind"):
        yield list_fields | document
    else:
        yield document


def is_export(document: Any) -> bool:
    """Return whether a document is an export of kube-scheduler-simulator."""
    lists = [document[name] for name in EXPORTED.keys() & document.keys()]
    are_lists = all(isinstance(each, (list, type(None))) for each in lists)
    return not document.get("kind") and any(lists) and are_lists


def is_list(document: Any) -> bool:
    """Return whether a document with items is a List, and not an object of some other tool."""
    kind = document.get("kind")
    return not kind or (isinstance(kind, str) and kind.endswith("List"))
