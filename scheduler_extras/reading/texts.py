"""How texts of JSON and YAML are read: any mistake is one line with its place.

The Policy, a configuration and manifests are read by it.
"""

import collections
import contextlib
import json
import math
import re
import sys

import yaml

from scheduler_extras.common.log_texts import one_line


YAML = "tag:yaml.org,2002"  # how the tags of its own types begin


class YamlLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Reads YAML as Kubernetes does, but refuses a key that comes twice."""

    def construct_mapping(self, node, deep=False):
        """Build a mapping whose keys are all different; none is null."""
        seen = set()
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            problem = "a key that is null" if key.tag == f"{YAML}:null" else None
            if key.value in seen and key.tag != f"{YAML}:merge":
                problem = f'duplicate key "{key.value}"'
            if problem:
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_number(loader, node):
    """Read a number. Those that are whole are ints, even 1.0, or Helm's 1e+06.

    One to the base of sixty, such as 1:30, is a text, as in YAML 1.2; so is what is too large for a float.
    """
    if ":" in node.value:
        return node.value
    number = yaml.SafeLoader.yaml_constructors[node.tag](loader, node)
    if isinstance(number, int):
        return number
    if not math.isfinite(number):
        return node.value
    return int(number) if number.is_integer() else number


def read_binary(loader, node):
    """Read base64 as the text that it stands for. Raises ValueError."""
    return loader.construct_yaml_binary(node).decode()


YamlLoader.add_constructor(f"{YAML}:int", read_number)
YamlLoader.add_constructor(f"{YAML}:float", read_number)
YamlLoader.add_constructor(f"{YAML}:binary", read_binary)
YamlLoader.add_constructor(f"{YAML}:timestamp", YamlLoader.construct_yaml_str)
YamlLoader.add_constructor(f"{YAML}:value", YamlLoader.construct_yaml_str)  # of the sign =
EXPONENT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$")
YamlLoader.add_implicit_resolver(f"{YAML}:float", EXPONENT, [*"-+.0123456789"])


def check_yaml(text):
    """Raise ValueError if YAML is nested too deep to be built, or its aliases stand for too much.

    Else old versions of PyYAML crash, and merges of merges (<<) take for ever.
    """
    size = 0  # characters, with what aliases stand for
    sizes = {}  # anchor -> the size of what its aliases stand for
    around = []  # of the collections that an event is in: (anchor, the size before it)
    for event in yaml.parse(text, YamlLoader):
        line = event.start_mark.line + 1
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
                raise ValueError(f"line {line}: *{event.anchor} is a part of what it stands for")
            size += sizes.get(event.anchor, 0)
        if len(around) > 100:
            raise ValueError(f"line {line}: it is nested deeper than 100 levels")
        if size > 10 * len(text) + 10_000_000:
            raise ValueError(f"line {line}: its aliases stand for too much")


def unique_keys(pairs):
    """Make a dict of pairs. Raises ValueError if a key comes twice."""
    keys = collections.Counter(key for key, _ in pairs)
    if len(keys) < len(pairs):
        raise ValueError(f'duplicate key "{keys.most_common(1)[0][0]}"')
    return dict(pairs)


def text_in(path, most=None):
    """Return the text of a file, or of standard input for -. PowerShell writes UTF-16.

    Raises ValueError if it has more than so many bytes; a device may have no end.
    """
    with contextlib.nullcontext(sys.stdin.buffer) if str(path) == "-" else open(path, "rb") as file:
        data = file.read(-1 if most is None else most + 1)
    if most is not None and len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    return data.decode(json.detect_encoding(data))


def parse(text):
    """Yield the documents of a JSON or YAML text, made of JSON's types only. Raises ValueError."""
    try:
        if text.lstrip().startswith(("{", "[")):
            yield from [*json_documents(text)]  # so that none is taken before what is wrong
        else:
            yield from yaml_documents(text)
    except json.JSONDecodeError as error:
        read = text[:error.pos].rstrip().removesuffix(",")
        lines = read.split("\n")
        is_comma = error.msg.startswith(("Expecting", "Illegal")) and re.match(r",\s*[]}]", text[len(read):])
        what = "a comma too many" if is_comma else error.msg
        raise mistake(text, len(lines) - 1, len(lines[-1]), what) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = "".join(text.split("\n")[mark.line:mark.line + 1]).lstrip(" ")
        what = "a tab; YAML is indented by spaces" if line.startswith("\t") else error.problem
        if what == "second occurrence":
            what = "an anchor that comes twice"
        if mark.column == 0 and what.startswith("duplicate") and "\nmetadata:" in text:
            what += ", as of a second object; is the line --- missing above it?"
        raise mistake(text, mark.line, mark.column, what) from None
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"it cannot be read: {one_line(error)}") from None


def yaml_documents(text):
    """Yield YAML documents. Raises ValueError, yaml.YAMLError and others."""
    check_yaml(text)
    for document in yaml.load_all(text, YamlLoader):  # JSON makes strings of keys, copies of aliases
        yield json.loads(json.dumps(document))


# What may be between JSON documents: spaces, comments, the end of a YAML document, and where one begins.
BETWEEN = re.compile(r"(?:\s|#.*|\.{3}(?!\S)|(---)(?!\S))*")


def json_documents(text):
    """Yield JSON documents that stand one after another; from a line --- on, it may be YAML.

    So does kubectl, from 1.33 on. Raises ValueError, yaml.YAMLError and others.
    """
    between = BETWEEN.match(text)
    while (at := between.end()) < len(text):
        try:
            document, at = json_document(text, at)
        except ValueError:
            dashes_at = between.start(1)
            if dashes_at < 0:
                raise
            above = "\n" * text[:dashes_at].count("\n")  # so that a mistake is said with its line
            yield from yaml_documents(above + text[dashes_at:])
            return
        yield document
        between = BETWEEN.match(text, at)


def json_document(text, at):
    """Return the JSON document that begins at a place in a text, and where it ends. Raises ValueError."""
    if text[at] not in "{[":
        raise mistake_at(text, at, "expected { or [, as in what comes before it")
    return json.JSONDecoder(object_pairs_hook=unique_keys).raw_decode(text, at)


def check_end_of_json(text):
    """Raise ValueError if anything is behind a JSON document: kube-scheduler refuses that (not in YAML)."""
    if text.lstrip().startswith("{"):
        _, end = json_document(text, text.index("{"))
        rest = text[end:].lstrip()
        if rest:
            raise mistake_at(text, len(text) - len(rest), "expected nothing behind the JSON document")


def mistake_at(text, at, what):
    """Return the ValueError that says what is wrong at a place in a text, as `mistake` does."""
    lines = text[:at].split("\n")
    return mistake(text, len(lines) - 1, len(lines[-1]), what)


def mistake(text, line, column, what):
    """Return the ValueError that says what is wrong at a place in a text, and quotes what is around it."""
    quoted = "".join(text.split("\n")[line:line + 1])
    before, marks, _ = text.partition("{{")
    marked = before.count("\n") + 1
    hint = f"; line {marked} has {marks}: render the template first" if marks else ""
    near = quoted[max(column - 150, 0):column + 150].strip()
    return ValueError(": ".join(filter(None, [f"line {line + 1}", what, near])) + hint)
