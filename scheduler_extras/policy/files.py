"""How files of JSON and YAML are read, and checked against a schema: any mistake is one line with its place.

The Policy, a configuration, extenders' answers and manifests are read by it.
"""

import collections
import contextlib
import difflib
import json
import math
import re
import sys

import yaml

from scheduler import TYPE_NAME, InputError
from scheduler_extras.trouble import one_line


# A schema that says more than types: what is expected, a function that says whether a value is fine, and the
# schema of the value; None: the function takes a value of any type.
Form = collections.namedtuple("Form", "expected is_fine of")


def decode(value, schema, where, passed_over=None):
    """Check a value against a schema, and return it without nulls. Raises InputError, with all that is wrong.

    passed_over: a list, if it is to be read as kube-scheduler reads extenders. Then the case of a field's
    name does not matter, and unknown fields are no error: their places are added to the list.
    """
    problems = []
    decoded = decode_part(value, schema, where, problems, passed_over)
    refuse(problems)
    return decoded


def decode_part(value, schema, where, problems, passed_over=None):
    """Return a value without nulls, and without what is wrong; add that to the problems."""
    if isinstance(schema, Form):
        return decode_form(value, schema, where, problems)
    kind = schema if isinstance(schema, type) else {range: int, set: str}.get(type(schema), type(schema))
    if value is None:
        return kind()
    expected = "a number" if kind is float else TYPE_NAME.get(kind, kind)
    fits = type(value) is kind or (kind is float and type(value) is int)
    if isinstance(schema, range) and fits:
        fits = value in schema
        expected = f"from {schema[0]} to {schema[-1]}"
    elif isinstance(schema, set):
        fits = fits and value in schema
        expected = f"one of {', '.join(sorted(schema))}"
    elif kind in (int, float):
        fits = fits and abs(value) < (2**63 if kind is int else math.inf)
    if not fits:
        problems.append(f"{where}: expected {expected}, got {in_short(value)}")
        return kind()
    if isinstance(schema, list):
        return [decode_part(item, schema[0], f"{where}[{i}]", problems, passed_over)
                for i, item in enumerate(value)]
    if isinstance(schema, dict):
        return decode_fields(value, schema, where, problems, passed_over)
    return value


def decode_form(value, form, where, problems):
    """Return a value that is as a Form expects it, else None; add what is wrong to the problems."""
    found = []
    if form.of:
        value = decode_part(value, form.of, where, found)
    if not found and not form.is_fine(value):
        got = "" if isinstance(value, (dict, list)) else f", got {in_short(value)}"
        found = [f"{where}: expected {form.expected}{got}"]
    problems += found
    return None if found else value


def decode_fields(value, schema, where, problems, passed_over):
    """Return those fields of an object that are known and not null; add what is wrong to the problems."""
    as_spelt = str if passed_over is None else str.lower
    names = {as_spelt(name): name for name in schema}
    decoded = {}
    for key, item in value.items():
        place = f"{where}.{key}".lstrip(".")
        name = names.get(as_spelt(key))
        if name and item is not None:
            read = decode_part(item, schema[name], place, problems, passed_over)
            if read is not None:  # else it is wrong
                decoded[name] = read
        elif not name and passed_over is None:
            problems.append(f"{place}: unknown field{did_you_mean(key, names, '')}")
        elif not name:
            passed_over.append(place)
    return decoded


def refuse(problems):
    """Raise InputError with all that is wrong, each problem once, if there is any."""
    if problems:
        raise InputError("; ".join(dict.fromkeys(problems)))


@contextlib.contextmanager
def noted(problems):
    """Add to the problems what InputError ends this block, and go on behind it: there may be others."""
    try:
        yield
    except InputError as error:
        problems.append(str(error))


def in_short(value):
    """Return a value as JSON, of which there is only the beginning, in whole words, if it is long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:60].rpartition(' ')[0] or text[:60]} ..."


# Name of a predicate, a priority, a field or a flag -> how that is said today. configuration/ adds those that
# only a configuration has, and leaves out of these what is said in a Policy.
NAMES_OF_OLD = {
    **dict.fromkeys(["NodeLabel", "labelsPresence"],
                    "node affinity (in a Policy: a predicate of any name, with the argument labelsPresence)"),
    **dict.fromkeys(["NodeLabelPriority", "labelPreference"],
                    "node affinity (in a Policy: a priority of any name, with the argument labelPreference)"),
    **dict.fromkeys(["ServiceAffinity", "serviceAffinity"],
                    "pod affinity (in a Policy: a predicate of any name, with the argument serviceAffinity)"),
    **dict.fromkeys(
        ["ServiceAffinityPriority", "ServiceAntiAffinityPriority", "serviceAntiAffinity"],
        "spread constraints (in a Policy: a priority of any name, with the argument serviceAntiAffinity)"),
    **dict.fromkeys(
        ["RequestedToCapacityRatio", "RequestedToCapacityRatioPriority", "requestedToCapacityRatioArguments"],
        "NodeResourcesFit with scoringStrategy.type RequestedToCapacityRatio (in a Policy: a priority of any "
        "name, with the argument requestedToCapacityRatioArguments)"),
    "ResourceLimitsPriority": "nothing, leave it out",
    "NoVolumeNodeConflict": "VolumeBinding (in a Policy: CheckVolumeBinding)",
    "PodFitsHost": "NodeName (in a Policy: HostName)",  # what Go calls a rule
    "PodMatchNodeSelector": "NodeAffinity (in a Policy: MatchNodeSelector)",
    "version": "apiVersion", "predicateConfigs": "predicates", "priorityConfigs": "priorities",
    "--kubeconfig": "kubectl --kubeconfig FILE proxy", "--master": "--server", "--v": "--verbose",
    **dict.fromkeys(["--policy-configmap", "--policy-configmap-namespace"],
                    "--policy with the file that is in the ConfigMap"),
    "--hard-pod-affinity-symmetric-weight": "hardPodAffinitySymmetricWeight in the Policy"}


def did_you_mean(word, known, otherwise="; is a file missing in --plugins?"):
    """Return a hint: today's way to say it, or the known word nearest to it, or another hint."""
    word = str(word)
    if word in NAMES_OF_OLD and word not in known:
        return f"; today: {NAMES_OF_OLD[word]}"
    near = difflib.get_close_matches(word, known, 1, cutoff=0.75)
    if not near:
        return otherwise
    is_a_slip = difflib.get_close_matches(word, near, 1, cutoff=0.9)  # else it may be somebody else's
    return f'; did you mean "{near[0]}"?' + ("" if is_a_slip else otherwise)


def nearly(word, known):
    """Return which of the known words this one nearly is, whatever its case, but not quite; else ""."""
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), names, 1, cutoff=0.82)
    return names[near[0]] if near and word not in known else ""


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


NANOSECONDS = Form("a whole number of nanoseconds, such as 30000000000",
                   lambda value: type(value) is int and abs(value) < 2**63, None)
