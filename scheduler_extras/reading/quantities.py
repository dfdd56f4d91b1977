"""Parsing quantities, such as 1.5Gi, and resource lists.

Pods, nodes, claims and the checks of manifests use it.
"""

import decimal
import functools
import math
import re
from collections.abc import Mapping
from typing import Any

from scheduler import NO_REQUESTS
from scheduler_extras.common.errors import Malformed
from scheduler_extras.reading.fields import pick


Amounts = dict[str, int]  # resource -> amount: cpu in millicores, everything else in units
# A number, and its exponent or suffix, if any. The factor of "m" is 1000 ** -1, of None 1, of "k" 1000, ...
QUANTITY = re.compile(r"(\+?(?=\.?\d)\d*(?:\.\d*)?)(?:[eE]([+-]?\d{1,9})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
SUFFIXES: dict[str | None, decimal.Decimal] = {
    s: decimal.Decimal(1000) ** i for i, s in enumerate(["n", "u", "m", None, *"kMGTPE"], -3)}
SUFFIXES |= {f"{s}i": decimal.Decimal(1024) ** i for i, s in enumerate("KMGTPE", 1)}
# 100 digits are kept, for speed, and the rest is rounded up. Too large a number becomes Infinity (no trap).
DIGITS = decimal.Context(prec=100, rounding=decimal.ROUND_UP, Emin=-999, Emax=999, traps=[])


@functools.lru_cache(maxsize=65536)
def quantity(text: str, unit: int = 1) -> int:
    """Parse a quantity, and return it times `unit`, rounded up: "1.5Ki" is 1536. Raises Malformed.

    Upstream: ParseQuantity.
    """
    match = QUANTITY.fullmatch(text)
    if not match:
        raise Malformed(f'"{text:.60}" is not a quantity of 0 or more, such as 100m, 0.5 or 1.5Gi')
    number, exponent, suffix = match.groups()
    value = DIGITS.create_decimal(f"{number}e{exponent or 0}")
    product = DIGITS.multiply(value, SUFFIXES[suffix] * unit)
    return math.ceil(min(product, decimal.Decimal(2**63 - 1)))  # an int64


def amounts(obj: Any, *path: str) -> Amounts:
    """Parse a resource list: cpu in millicores, others in units (bytes). Unknown native names are ignored."""
    texts = pick(obj, dict, *path)  # upstream: Resource.Add in pkg/scheduler/framework/types.go
    return {name: quantity(str(text), 1000 if name == "cpu" else 1) for name, text in texts.items()
            if name in NO_REQUESTS or "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))}


def add_to(total: Amounts, more: Mapping[str, int]) -> None:
    """Add resource amounts to others, in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
