"""Recognizing input that is not a manifest: a table printed by kubectl, an error message, a compressed file.

input.py and loading.py use it for error messages that help.
"""

from __future__ import annotations

import re
import zlib


COMPRESSED = {  # first bytes of a file -> the command that unpacks it
    b"\x1f\x8b": "gunzip -c", b"BZh": "bunzip2 -c", b"\xfd7zXZ": "xz -dc", b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"PK\x03\x04": "unzip -p"}
KUBECTL_ERROR = re.compile(
    r"(error|Error from server[^:\n]*|Unable to connect to the server): *\S"
    r"|The connection to the server |[EF]\d{4} [\d:.]+ ")
NOT_MANIFESTS = [  # beginning of a text -> what it is, and what to do about it
    (re.compile(r"(NAMESPACE +)?NAME +[A-Z]|(NAMESPACE +)?NAME *$"),
     "this is a table that kubectl printed; add -o json to kubectl get"),
    (re.compile(r"Name: +\S"),
     "this is the output of kubectl describe; use kubectl get -o json"),
    (KUBECTL_ERROR, "this is an error message of kubectl, not a manifest"),
    (re.compile(r"Error: \S"), "this is an error message of helm, not a manifest"),
    (re.compile(r"No resources found"), "this is a message of kubectl: it found nothing"),
    (re.compile(r"[a-z0-9.]+/[a-z0-9.-]+$"), "this is a list of names; write -o json instead of -o name"),
    (re.compile(r"<(!DOCTYPE|html)", re.IGNORECASE), "this is a web page, maybe the login of a proxy"),
    (re.compile(r"Warning: |W\d{4} [\d:.]+ "),
     "this begins with a warning of kubectl; to keep it out, write 2>/dev/null instead of 2>&1")]


def is_archive(data: bytes) -> bool:
    """Return whether data is the beginning of a tar archive."""
    return data[257:262] == b"ustar"


def first_of_gzip(data: bytes) -> bytes:
    """Return the first bytes of gzip data, unpacked; b"" if it is not gzip data."""
    try:
        return zlib.decompressobj(wbits=31).decompress(data[:4096], 512)
    except zlib.error:
        return b""


def how_to_unpack(data: bytes) -> str:
    """Return the advice for a compressed file, or "" if it is not compressed. data: its first bytes."""
    if is_archive(data) or is_archive(first_of_gzip(data)):
        return "this is an archive; unpack it with `tar -xf`, and give the folder to --cluster"
    for magic, unpack in COMPRESSED.items():
        if data.startswith(magic):
            return f"this file is compressed; pipe the output of `{unpack}` to --cluster -"
    return ""


UNKNOWN_RESOURCE = re.compile(r'error: the server doesn\'t have a resource type "(\w+)"')


def what_it_is_instead(text: str, command: str) -> str:
    """Return a description of a text that is not a manifest, with its first line, or "".

    If kubectl fails midway, its error message is the last line. command: the one that copies a cluster.
    """
    lines = text.strip().splitlines() or [""]
    last = lines[-1] if KUBECTL_ERROR.match(lines[-1]) else ""
    about_last_line = what_a_line_is(last, command).replace("this is", "it ends with", 1)
    return what_a_line_is(lines[0], command) or about_last_line


def what_a_line_is(first: str, command: str) -> str:
    """Return a description of a line that cannot begin a manifest, followed by the line, or ""."""
    lacking = UNKNOWN_RESOURCE.match(first)
    if lacking:
        names = command.split("get ")[1].split(" ")[0]
        left = ",".join(name for name in names.split(",") if name != lacking[1])
        return f"this cluster has no {lacking[1]}; copy it without: {command.replace(names, left)}"
    for pattern, what in NOT_MANIFESTS:
        if pattern.match(first):
            return f"{what}: {' '.join(first.split())[:150]}"
    return ""


RENDERED_BY = [  # file name or kind that belongs to another tool -> the command that renders or accepts it
    (re.compile(r"kustomization\.ya?ml$|Kustomization$"), "kubectl kustomize {folder} renders manifests"),
    (re.compile(r"(Chart|values[^/]*)\.ya?ml$"), "helm template renders a chart's manifests"),
    (re.compile(r"KubeSchedulerConfiguration$|Policy$"), "--policy takes {path}")]
MANY = 5  # files that a message names at most


def first_of(names: list[str]) -> str:
    """Return the first names, and the number of others, such as "a, b, and 3 more"."""
    return ", ".join(names[:MANY]) + (f", and {len(names) - MANY} more" if names[MANY:] else "")


def inside(folder: str, path: str) -> str:
    """Return the path of a file relative to a folder; "" if they are the same."""
    return str(path).removeprefix(str(folder)).lstrip("/")


def templates_left_out(folder: str, paths: list[str]) -> str:
    """Return the message that names the Helm templates in a folder."""
    names = first_of([inside(folder, path) for path in paths])
    return f"{folder}: skipped templates: {names}; render a chart with helm template"


def skipped_files(folder: str, kinds_by_path: dict[str, str]) -> str:
    """Return the message that names the files, of a folder or one alone, which are not manifests.

    kinds_by_path: {path: the kind of the first object in it, or ""}.
    """
    listed = first_of([inside(folder, path) or kind or str(path) for path, kind in kinds_by_path.items()])
    hints = {}
    for path, kind in kinds_by_path.items():
        for pattern, hint in RENDERED_BY:
            if pattern.search(str(path)) or pattern.search(kind):
                hints[hint] = hint.format(path=path, folder=str(path).rpartition("/")[0] or ".")
    return "; ".join([f"{folder}: skipped, not Kubernetes objects: {listed}", *hints.values()])
