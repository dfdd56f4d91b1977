"""The recorded decisions of real kube-schedulers in tests/golden/."""

import gzip
import json
from pathlib import Path

from scheduler_extras.policy.policy_reader import read_policy


FOLDER = Path(__file__).parents[1] / "golden"


def recorded(name):
    """Return the JSON objects of a file in tests/golden/."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


DECISIONS = recorded("decisions")  # kube-scheduler 1.20.2's, each about one cluster


def policy_of(case):
    """Return the case's Policy, ready to use."""
    return read_policy(dict(case["policy"]))
