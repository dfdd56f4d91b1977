"""Parsing JSON and YAML: each mistake is one line that names its place.

The Policy, configurations and manifests are parsed with it.
"""

import collections
import contextlib
import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from scheduler_extras.common.log_texts import one_line


YAML = "tag:yaml.org,2002"  # the prefix of the tags of YAML's own types
if TYPE_CHECKING:
    from yaml import SafeLoader as FastestLoader
else:
    FastestLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML may come without the C library


class YamlLoader(FastestLoader):
    """Reads YAML as Kubernetes does, but rejects duplicate keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping. Raises MarkedYAMLError for a duplicate key, or one that is null."""
        seen = set()
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            problem = "a key that is null" if key.tag == f"{YAML}:null" else None
            if key.value in seen and key.tag != f"{YAML}:merge":
                problem = f'duplicate key "{key.value}"'
            if problem:
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_number(loader: Any, node: yaml.ScalarNode) -> int | float | str:
    """Read a number. A whole number becomes an int, even 1.0, or Helm's 1e+06.

    A number in base 60, such as 1:30, stays a string, as in YAML 1.2. So does one too large for a float.
    """
    if ":" in node.value:
        return node.value
    number = yaml.SafeLoader.yaml_constructors[node.tag](loader, node)
    if isinstance(number, int):
        return number
    if not math.isfinite(number):
        return node.value
    return int(number) if number.is_integer() else number


def read_binary(loader: Any, node: yaml.ScalarNode) -> str:
    """Decode base64 to a string. Raises ValueError."""
    return loader.construct_yaml_binary(node).decode()


def read_string(loader: Any, node: yaml.ScalarNode) -> str:
    """Read a scalar as a string."""
    return loader.construct_yaml_str(node)


YamlLoader.add_constructor(f"{YAML}:int", read_number)
YamlLoader.add_constructor(f"{YAML}:float", read_number)
YamlLoader.add_constructor(f"{YAML}:binary", read_binary)
YamlLoader.add_constructor(f"{YAML}:timestamp", read_string)
YamlLoader.add_constructor(f"{YAML}:value", read_string)  # the value =
EXPONENT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$")
YamlLoader.add_implicit_resolver(f"{YAML}:float", EXPONENT, [*"-+.0123456789"])


def check_yaml(text: str) -> None:
    """Raise ValueError if YAML is nested too deeply, or its aliases expand to too much.

    Otherwise old versions of PyYAML crash, and nested merges (<<) take forever.
    """
    size = 0  # in characters, with the aliases expanded
    sizes: dict[str | None, int] = {}  # anchor -> the size of its value
    around: list[tuple[str | None, int]] = []  # the collections around an event: (anchor, the size before it)
    for event in yaml.parse(text, YamlLoader):
        line = event.start_mark.line + 1  # type: ignore[union-attr]  # PyYAML always sets it
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = around.pop()
            sizes[anchor] = size - before
        elif isinstance(event, yaml.CollectionStartEvent):
            around.append((event.anchor, size))
            size += 1
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = len(event.value) + 1
            size += sizes[event.anchor]
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor in [anchor for anchor, _ in around]:
                raise ValueError(f"line {line}: *{event.anchor} contains itself")
            size += sizes.get(event.anchor, 0)
        if len(around) > 100:
            raise ValueError(f"line {line}: it is nested more than 100 levels deep")
        if size > 10 * len(text) + 10_000_000:
            raise ValueError(f"line {line}: its aliases expand to too much")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of pairs. Raises ValueError for a duplicate key."""
    keys = collections.Counter(key for key, _ in pairs)
    if len(keys) < len(pairs):
        raise ValueError(f'duplicate key "{keys.most_common(1)[0][0]}"')
    return dict(pairs)


def text_in(path: str | Path, most: int | None = None) -> str:
    """Return the text of a file, or of standard input for "-". Raises OSError, ValueError."""
    return decoded(read_bytes(path, most))


def read_bytes(path: str | Path, most: int | None = None) -> bytes:
    """Return the content of a file, or of standard input for "-".

    Raises ValueError if it has more than `most` bytes; a device may be endless.
    """
    with contextlib.nullcontext(sys.stdin.buffer) if str(path) == "-" else open(path, "rb") as file:
        data = file.read(-1 if most is None else most + 1)
    if most is not None and len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    return data


def decoded(data: bytes) -> str:
    """Return bytes as text. It may be UTF-16, which PowerShell writes. Raises ValueError."""
    return data.decode(json.detect_encoding(data))


def parse(text: str) -> Iterator[Any]:
    """Yield the documents of a JSON or YAML text, all in JSON's types. Raises ValueError."""
    try:
        if text.lstrip().startswith(("{", "[")):
            yield from [*json_documents(text)]  # all, so that a mistake comes first
        else:
            yield from yaml_documents(text)
    except json.JSONDecodeError as error:
        read = text[:error.pos].rstrip().removesuffix(",")
        lines = read.split("\n")
        is_comma = error.msg.startswith(("Expecting", "Illegal")) and re.match(r",\s*[]}]", text[len(read):])
        what = "an extra comma" if is_comma else error.msg
        raise mistake(text, len(lines) - 1, len(lines[-1]), what) from None
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark
        line = "".join(text.split("\n")[mark.line:mark.line + 1]).lstrip(" ")
        what = "a tab; YAML is indented with spaces" if line.startswith("\t") else str(error.problem)
        if what == "second occurrence":
            what = "a duplicate anchor"
        if mark.column == 0 and what.startswith("duplicate") and "\nmetadata:" in text:
            what += "; if a second object begins here, the line --- is missing above it"
        raise mistake(text, mark.line, mark.column, what) from None
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"it cannot be read: {one_line(error)}") from None


def yaml_documents(text: str) -> Iterator[Any]:
    """Yield YAML documents. Raises ValueError, yaml.YAMLError and others."""
    check_yaml(text)
    for document in yaml.load_all(text, YamlLoader):  # turns keys into strings, aliases into copies
        yield json.loads(json.dumps(document))


# What may separate JSON documents: white space, comments, the end of a YAML document, and the start of one.
BETWEEN = re.compile(r"(?:\s|#.*|\.{3}(?!\S)|(---)(?!\S))*")


def json_documents(text: str) -> Iterator[Any]:
    """Yield JSON documents that follow one another; after a line ---, they may be YAML.

    kubectl does the same since 1.33. Raises ValueError, yaml.YAMLError and others.
    """
    between: Any = BETWEEN.match(text)
    while (at := between.end()) < len(text):
        try:
            document, at = json_document(text, at)
        except ValueError:
            dashes_at = between.start(1)
            if dashes_at < 0:
                raise
            above = "\n" * text[:dashes_at].count("\n")  # so that mistakes name the right line
            yield from yaml_documents(above + text[dashes_at:])
            return
        yield document
        between = BETWEEN.match(text, at)


def json_document(text: str, at: int) -> tuple[Any, int]:
    """Return the JSON document that begins at an index of a text, and where it ends. Raises ValueError."""
    if text[at] not in "{[":
        raise mistake_at(text, at, "expected { or [, like the document before it")
    return json.JSONDecoder(object_pairs_hook=unique_keys).raw_decode(text, at)


def check_end_of_json(text: str) -> None:
    """Raise ValueError if anything follows a JSON document. kube-scheduler rejects that, but not in YAML."""
    if text.lstrip().startswith("{"):
        _, end = json_document(text, text.index("{"))
        rest = text[end:].lstrip()
        if rest:
            raise mistake_at(text, len(text) - len(rest), "expected nothing after the JSON document")


def mistake_at(text: str, at: int, what: str) -> ValueError:
    """Return the ValueError that describes a mistake at an index of a text; see `mistake`."""
    lines = text[:at].split("\n")
    return mistake(text, len(lines) - 1, len(lines[-1]), what)


RENDER_FIRST = ": render the template first"


def mistake(text: str, line: int, column: int, what: str) -> ValueError:
    """Return the ValueError that describes a mistake at a line and column, and quotes the text there."""
    quoted = "".join(text.split("\n")[line:line + 1])
    before, marks, _ = text.partition("{{")
    marked = before.count("\n") + 1
    hint = f"; line {marked} has {marks}{RENDER_FIRST}" if marks else ""
    near = quoted[max(column - 150, 0):column + 150].strip()
    return ValueError(": ".join(filter(None, [f"line {line + 1}", what, near])) + hint)
