"""Counters, histograms and gauges, and Prometheus's text format.

The other modules of serve/ create them.
"""

from __future__ import annotations

import bisect
import copy
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


# Only one thread at a time may change a metric. Scrapes may read it meanwhile.

Labels = tuple[str, ...]  # the values of a metric's labels, in the order of their names
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exponential(start: float, factor: float, count: int) -> list[float]:
    """Return the upper bounds of buckets, each larger than the last by a factor."""
    return [*itertools.accumulate([start] + [factor] * (count - 1), operator.mul)]  # rounded as in Go


class Counter:
    """A number that only grows, for each combination of label values."""

    kind = "counter"

    def __init__(self, name: str, help_text: str, *labels: str):
        self.name = name
        self.help = help_text
        self.labels = labels
        self.numbers: dict[Labels, float] = {}

    def add(self, *values: str, amount: float = 1) -> None:
        """Add to the number with these label values."""
        self.numbers[values] = self.numbers.get(values, 0) + amount

    def samples(self) -> Iterator[str]:
        """Yield a line for each combination of label values."""
        for values, number in list(self.numbers.items()):
            yield sample(self.name, zip(self.labels, values, strict=True), number)


class Histogram:
    """The number of observations in each bucket, for each combination of label values."""

    kind = "histogram"

    def __init__(self, name: str, help_text: str, buckets: list[float], *labels: str):
        self.name = name
        self.help = help_text
        self.labels = labels
        self.buckets = buckets
        self.series: dict[Labels, list[float]] = {}  # the counts of the buckets, then the sum

    def observe(self, number: float, *values: str) -> None:
        """Add an observation with these label values."""
        series = self.series.setdefault(values, [0] * (len(self.buckets) + 2))
        series[bisect.bisect_left(self.buckets, number)] += 1
        series[-1] += number

    def observe_all(self, numbers: Iterable[float], *values: str) -> None:
        """Add observations with these label values, faster than one by one."""
        ordered = sorted(numbers)
        if not ordered:
            return
        series = self.series.setdefault(values, [0] * (len(self.buckets) + 2))
        below = 0
        for place, bound in enumerate([*self.buckets, math.inf]):
            up_to = bisect.bisect_right(ordered, bound)
            series[place] += up_to - below
            below = up_to
        series[-1] += sum(ordered)

    def named(self, name: str) -> Histogram:
        """Return the same observations under the name that 1.20 has for the metric."""
        other = copy.copy(self)
        other.name = name
        other.help += " (1.20)"
        return other

    def samples(self) -> Iterator[str]:
        """Yield the lines of each combination of label values: cumulative buckets, the sum, the count."""
        for values, (*counts, total) in list(self.series.items()):
            labels = list(zip(self.labels, values, strict=True))
            below = 0.0
            for bound, count in zip([*self.buckets, float("inf")], counts, strict=True):
                below += count
                yield sample(f"{self.name}_bucket", [*labels, ("le", in_text(bound))], below)
            yield sample(f"{self.name}_sum", labels, total)
            yield sample(f"{self.name}_count", labels, below)


class Gauge:
    """Numbers that a function computes at each scrape, {label values: number}."""

    def __init__(self, name: str, help_text: str, numbers: Callable[[], Mapping[Any, float]], *labels: str,
                 kind: str = "gauge"):
        self.name = name
        self.help = help_text
        self.labels = labels
        self.numbers = numbers
        self.kind = kind

    def samples(self) -> Iterator[str]:
        """Yield a line for each combination of label values."""
        for values, number in self.numbers().items():
            yield sample(self.name, zip(self.labels, values, strict=True), number)


def sample(name: str, labels: Iterable[tuple[str, str]], number: float) -> str:
    """Return the line of a metric with its labels and number."""
    pairs = ",".join(f'{label}="{value.translate(ESCAPES)}"' for label, value in labels)
    return f"{name}{{{pairs}}} {in_text(number)}" if pairs else f"{name} {in_text(number)}"


def in_text(number: float) -> str:
    """Return a number as Go prints it, so that the label `le` equals kube-scheduler's."""
    if number == float("inf"):
        return "+Inf"
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else f"{number!r}"


Metric = Counter | Histogram | Gauge


def exposition(metrics: Iterable[Metric]) -> bytes:
    """Return metrics in Prometheus's text format, without those that have no numbers."""
    lines = []
    for metric in metrics:
        samples = list(metric.samples())
        if samples:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}", *samples]
    return "".join(f"{line}\n" for line in lines).encode()
