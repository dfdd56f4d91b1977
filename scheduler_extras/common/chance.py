"""The seed of random choices.

The command line sets it. The Policy and the rules that choose at random read it.
"""

from dataclasses import dataclass


@dataclass
class Chance:
    """The seed of random choices."""

    seed: str | None = None  # the value of --seed; None: choices differ in each run


CHANCE = Chance()  # global, because a rule that chooses at random only receives a pod and a node
