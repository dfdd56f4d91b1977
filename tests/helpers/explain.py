"""Helpers for the output of --explain."""

import json
import re

from helpers.extras import ROOT, node, run_scheduler
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.show.explain import explain
from scheduler_extras.show.text import Screen


DEMO = ROOT / "tests" / "demo.yaml"


def explained(*arguments, stderr="", **options):
    """Run --explain; return {pod: the lines about it}. `stderr`: the start of the only line on standard error, if any."""
    run = run_scheduler("--explain", *arguments, **options)
    assert run.returncode == 0 and run.stderr.startswith(stderr) and run.stderr.count("\n") == bool(stderr)
    tables = re.split(r"^(?=\S+/\S+ (?:->|stays))", run.stdout.partition("\n\nNODE ")[0], flags=re.M)[1:]
    return {table.split()[0]: table.rstrip().splitlines() for table in tables}


def manifest(folder, *objects):
    """Write objects into a file."""
    path = folder / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": objects}))
    return path


def policy(**fields):
    """{my-scheduler: a Policy}, with the default rules unless the fields name others."""
    return {"my-scheduler": read_policy(
        {"kind": "Policy", "apiVersion": "v1", **fields})}


def shown(decision, width=80):
    """The lines about a decision on a screen of this width, without colours."""
    screen = Screen()
    screen.width, screen.colours = width, False
    return explain(decision, screen)


def read_scores(lines):
    """Read a table of scores: {heading of a node's column: {row: cell}}."""
    ends = [i for i, line in enumerate(lines) if line.startswith("  Total ")]
    if not ends:
        return {}
    lines = [line.replace("raw→points×weight", " " * 17) for line in lines]  # this heading is above the names of the rows
    first = min(i for i, line in enumerate(lines) if line.startswith(" " * 9))
    heads, rows = lines[first], lines[first + 1:ends[0] + 1]
    starts = [match.start() for match in re.finditer(r"(?<=  )([*=] )?\S+", heads)]
    return {heads[start:end].strip(): {row[:starts[0]].strip(): row[start:end].strip() for row in rows}
            for start, end in zip(starts, [*starts[1:], None])}


def squeeze(text):
    """A text without its spaces."""
    return "".join(text.split())


FORTY = [node(f"ip-172-31-{i}-117.eu-west-1.compute.internal", unschedulable=i % 4 == 0,
              cpu="100m" if i % 8 == 1 else str(i - 96)) for i in range(100, 140)]


REQUIRED, TERM = f"required{DURING_SCHEDULING}", {"topologyKey": "zone", "labelSelector": {}}
