"""Text for a terminal: wrapped to its width, in color, and without control characters.

All modules of show/ print with it.
"""

from __future__ import annotations

import functools
import io
import itertools
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import TextIO

from scheduler_extras.reading.label_selectors import Requirement


class Screen:
    """The output: a terminal with colors, unless NO_COLOR is set; or 80 columns without colors."""

    def __init__(self, output: TextIO | None = None):
        self.output = output or sys.stdout
        if isinstance(self.output, io.TextIOWrapper):  # a notebook's standard output is not one
            self.output.reconfigure(errors="replace")
        self.is_terminal = self.output.isatty()
        self.width = max(60, shutil.get_terminal_size().columns) if self.is_terminal else 80
        is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self.colours = self.is_terminal and not is_plain

    def print(self, *lines: str) -> None:
        """Print lines that belong together."""
        print(*lines, sep="\n", file=self.output, flush=True)

    def paint(self, text: str, colour: str) -> str:
        """Return the text without control characters, in a color if the screen has colors."""
        text = text.translate(ESCAPES)
        return f"\033[{colour}m{text}\033[0m" if self.colours and colour else text

    def fold(self, text: str, head: str = "", colour: str = "", rest: str = "",
             max_lines: int | None = None) -> list[str]:
        """Wrap a text into lines. `head` begins the first line, `rest` or as many spaces the others."""
        lines = textwrap.wrap(text, self.width, initial_indent=head, placeholder=" …", max_lines=max_lines,
                              subsequent_indent=rest or " " * len(head), break_on_hyphens=False)
        return [self.paint(line, colour) for line in lines]

    def folded(self, text: str, colour: str = "") -> list[str]:
        """Wrap a text on a terminal. Elsewhere, return it as one line."""
        return self.fold(text, colour=colour, rest="    ") if self.is_terminal else [text.translate(ESCAPES)]


CONTROL = [  # control characters, and characters that are invisible or change the direction of text
    *range(0x20), *range(0x7f, 0xa0), 0xad, 0x61c, *range(0x200b, 0x2010), *range(0x2028, 0x202f),
    *range(0x2060, 0x2070), 0xfeff, *range(0xfff9, 0xfffc), *range(0xe0000, 0xe0080)]
ESCAPES = {code: ascii(chr(code))[1:-1] for code in CONTROL}  # names and messages are not trusted
BOLD, DIM, RED, GREEN = "1", "2", "91", "1;32"


def in_digits(score: float | None) -> str:
    """Return a score in digits; "-" for None."""
    if score is None:
        return "-"
    return f"{score:.10g}" if isinstance(score, float) else str(score)


def in_units(resource: str, number: float, rounded: Callable[[float], int] = math.floor) -> str:
    """Return an amount of a resource with its unit, such as 500m or 128Mi."""
    units = {"cpu": (1, "m"), "memory": (2**20, "Mi"), "ephemeral-storage": (2**20, "Mi")}
    unit, suffix = units.get(resource, (1, ""))
    return f"{rounded(number / unit)}{suffix}"


def shorten(name: str, width: int = 21, last: int = 4) -> str:
    """Replace the middle of a long name with "…". Its last characters stay: generated names differ there."""
    return name if len(name) <= width else f"{name[:width - 1 - last]}…{name[len(name) - last:]}"


@functools.lru_cache(maxsize=100)  # decisions of a run have the same nodes
def short_names(names: tuple[str, ...]) -> dict[str, str]:
    """Return {name: short name} for a tuple of names. They stay long if the short ones would not differ."""
    for last in (4, 0, *range(5, 21)):  # the number of last characters to keep
        short = {name: shorten(name, last=last) for name in names}
        if len({*short.values()}) == len(short):
            return short
    return {name: name for name in names}


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines with aligned columns. Rows may differ in length."""
    rows = [[cell.translate(ESCAPES) for cell in row] for row in rows]
    columns = itertools.zip_longest(*rows, fillvalue="")
    widths = [max(map(len, column)) for column in columns]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=False)] for row in rows]
    return ["  ".join(row).rstrip() for row in padded]


def requirement_in_words(requirement: Requirement) -> str:
    """Return a label requirement in words."""
    if requirement.operator in ("Exists", "DoesNotExist"):
        return f"{requirement.key} {requirement.operator}"
    if requirement.operator == "In" and len(requirement.values) == 1:
        return f"{short(requirement.key)}={requirement.values[0]}"
    return f"{short(requirement.key)} {requirement.operator} [{', '.join(requirement.values)}]"


def short(key: str) -> str:
    """Return a label key without its prefix, such as zone for topology.kubernetes.io/zone."""
    return key.rpartition("/")[2]
