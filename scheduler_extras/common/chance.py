"""The seed of random choices.

The command line sets it. The Policy and the rules that choose at random read it.
"""

from dataclasses import dataclass


@dataclass
class Chance:
    """Where random choices start from."""

    seed: str | None = None  # of --seed; None: choices differ each time


CHANCE = Chance()  # global, because a rule that chooses at random receives only a pod and a node
