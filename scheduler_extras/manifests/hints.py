"""What a text may be that is no manifest: a table that kubectl printed, an error, a compressed file.

input.py asks it before a text is read.
"""

import re
import zlib


COMPRESSED = {  # how a file begins -> what unpacks it
    b"\x1f\x8b": "gunzip -c", b"BZh": "bunzip2 -c", b"\xfd7zXZ": "xz -dc", b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"PK\x03\x04": "unzip -p"}
KUBECTL_ERROR = re.compile(
    r"(error|Error from server[^:\n]*|Unable to connect to the server): *\S"
    r"|The connection to the server |[EF]\d{4} [\d:.]+ ")
NOT_MANIFESTS = [  # how a text begins -> what it is, and what to do about it
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


def is_archive(data):
    """Return whether data begins as what tar writes."""
    return data[257:262] == b"ustar"


def first_of_gzip(data):
    """Return the first bytes of what gzip has packed; b"" if it has not."""
    try:
        return zlib.decompressobj(wbits=31).decompress(data[:4096], 512)
    except zlib.error:
        return b""


def what_packs(data):
    """Return what is to be done about a compressed file, by its first bytes; else ""."""
    if is_archive(data) or is_archive(first_of_gzip(data)):
        return "this is an archive; unpack it with `tar -xf`, and give the folder to --cluster"
    for magic, unpack in COMPRESSED.items():
        if data.startswith(magic):
            return f"this file is compressed; pipe the output of `{unpack}` to --cluster -"
    return ""


UNKNOWN_RESOURCE = re.compile(r'error: the server doesn\'t have a resource type "(\w+)"')


def what_it_is_instead(text, command):
    """Return what a text is that is no manifest, with what it says; else "". command: copies a cluster.

    An error that kubectl has met on its way stands at the end.
    """
    lines = text.strip().splitlines() or [""]
    last = lines[-1] if KUBECTL_ERROR.match(lines[-1]) else ""
    of_last = what_a_line_is(last, command).replace("this is", "it ends with", 1)
    return what_a_line_is(lines[0], command) or of_last


def what_a_line_is(first, command):
    """Return what a line is that no manifest begins with, with what it says; else ""."""
    lacking = UNKNOWN_RESOURCE.match(first)
    if lacking:
        names = command.split("get ")[1].split(" ")[0]
        left = ",".join(name for name in names.split(",") if name != lacking[1])
        return f"this cluster has no {lacking[1]}; copy it without: {command.replace(names, left)}"
    for pattern, what in NOT_MANIFESTS:
        if pattern.match(first):
            return f"{what}: {' '.join(first.split())[:150]}"
    return ""


RENDERED_BY = [  # names of files, or kinds, of other tools -> what makes manifests of them, or takes them
    (re.compile(r"kustomization\.ya?ml$|Kustomization$"), "kubectl kustomize {folder} renders manifests"),
    (re.compile(r"(Chart|values[^/]*)\.ya?ml$"), "helm template renders a chart's manifests"),
    (re.compile(r"KubeSchedulerConfiguration$|Policy$"), "--policy takes {path}")]
MANY = 5  # files: of more of them, as many are named


def first_of(names):
    """Return the first of many names, and how many others there are, in words."""
    return ", ".join(names[:MANY]) + (f", and {len(names) - MANY} more" if names[MANY:] else "")


def inside(folder, path):
    """Return the path of a file inside of a folder; "" if it is no folder."""
    return str(path).removeprefix(str(folder)).lstrip("/")


def templates_left_out(folder, paths):
    """Return the line that names the files of a folder that are templates of Helm."""
    names = first_of([inside(folder, path) for path in paths])
    return f"{folder}: skipped templates: {names}; render a chart with helm template"


def skipped_files(folder, kinds_by_path):
    """Return the line that names the files of a folder, or the one, that hold something else than manifests.

    kinds_by_path: {path: the kind that it says, or ""}.
    """
    listed = first_of([inside(folder, path) or kind or str(path) for path, kind in kinds_by_path.items()])
    hints = {}
    for path, kind in kinds_by_path.items():
        for pattern, hint in RENDERED_BY:
            if pattern.search(str(path)) or pattern.search(kind):
                hints[hint] = hint.format(path=path, folder=str(path).rpartition("/")[0] or ".")
    return "; ".join([f"{folder}: skipped, not Kubernetes objects: {listed}", *hints.values()])
