"""Quantities, such as 1.5Gi, and resource lists.

Pods, nodes, claims and the checks of manifests read amounts with it.
"""

import decimal
import functools
import math
import re

from scheduler import NO_REQUESTS
from scheduler_extras.common.errors import Malformed
from scheduler_extras.reading.fields import pick


# A number, and its exponent or suffix, if any; 1000 ** -1 of "m", 1 of None, 1000 of "k", and so on.
QUANTITY = re.compile(r"(\+?(?=\.?\d)\d*(?:\.\d*)?)(?:[eE]([+-]?\d{1,9})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
SUFFIXES = {s: decimal.Decimal(1000) ** i for i, s in enumerate(["n", "u", "m", None, *"kMGTPE"], -3)}
SUFFIXES |= {f"{s}i": decimal.Decimal(1024) ** i for i, s in enumerate("KMGTPE", 1)}
# Keeps 100 digits, and rounds up the rest, to be fast; what is too large becomes Infinity (no trap).
DIGITS = decimal.Context(prec=100, rounding=decimal.ROUND_UP, Emin=-999, Emax=999, traps=[])


@functools.lru_cache(maxsize=65536)
def quantity(text, unit=1):
    """Read a quantity, times unit, rounded up: "1.5Ki" is 1536. Raises Malformed. (ParseQuantity)"""
    match = QUANTITY.fullmatch(text)
    if not match:
        raise Malformed(f'"{text:.60}" is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi')
    number, exponent, suffix = match.groups()
    value = DIGITS.create_decimal(f"{number}e{exponent or 0}")
    return math.ceil(min(DIGITS.multiply(value, SUFFIXES[suffix] * unit), 2**63 - 1))  # of 64 bits


def amounts(thing, *path):
    """Read a resource list: cpu in millicores, all else in units. Only the names below count."""
    texts = pick(thing, dict, *path)  # upstream: Resource.Add in pkg/scheduler/framework/types.go
    return {name: quantity(str(text), 1000 if name == "cpu" else 1) for name, text in texts.items()
            if name in NO_REQUESTS or "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))}


def add_to(total, more):
    """Add resource amounts to others, in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
