"""Texts for a terminal: as wide as it is, in color if it has any, and without control characters.

All of show/ writes by it, and what is logged is folded by it.
"""

import functools
import io
import itertools
import math
import os
import shutil
import sys
import textwrap


class Screen:
    """What is printed on: a terminal, with colours unless NO_COLOR is set, or 80 columns without colours."""

    def __init__(self, output=None):
        self.output = output or sys.stdout
        if isinstance(self.output, io.TextIOWrapper):  # in a notebook, standard output is none
            self.output.reconfigure(errors="replace")
        self.is_terminal = self.output.isatty()
        self.width = max(60, shutil.get_terminal_size().columns) if self.is_terminal else 80
        is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self.colours = self.is_terminal and not is_plain

    def print(self, *lines):
        """Print lines that belong together."""
        print(*lines, sep="\n", file=self.output, flush=True)

    def paint(self, text, colour):
        """Return the text as it may be shown, in a colour, if there are any."""
        text = text.translate(ESCAPES)
        return f"\033[{colour}m{text}\033[0m" if self.colours and colour else text

    def fold(self, text, head="", colour="", rest="", max_lines=None):
        """Break a text into lines that fit: the first behind a head, the others below it or behind `rest`."""
        lines = textwrap.wrap(text, self.width, initial_indent=head, placeholder=" …", max_lines=max_lines,
                              subsequent_indent=rest or " " * len(head), break_on_hyphens=False)
        return [self.paint(line, colour) for line in lines]

    def folded(self, text, colour=""):
        """Break a text into lines at a terminal, which may have colours; elsewhere it stays one."""
        return self.fold(text, colour=colour, rest="    ") if self.is_terminal else [text.translate(ESCAPES)]


CONTROL = [  # what a terminal obeys, and what is invisible or changes the direction of writing
    *range(0x20), *range(0x7f, 0xa0), 0xad, 0x61c, *range(0x200b, 0x2010), *range(0x2028, 0x202f),
    *range(0x2060, 0x2070), 0xfeff, *range(0xfff9, 0xfffc), *range(0xe0000, 0xe0080)]
ESCAPES = {code: ascii(chr(code))[1:-1] for code in CONTROL}  # names and messages may come from anybody
BOLD, DIM, RED, GREEN = "1", "2", "91", "1;32"


def in_digits(score):
    """Return a score as people write it; None is a dash."""
    if score is None:
        return "-"
    return f"{score:.10g}" if isinstance(score, float) else str(score)


def in_units(resource, number, rounded=math.floor):
    """Return an amount of a resource as people write it."""
    units = {"cpu": (1, "m"), "memory": (2**20, "Mi"), "ephemeral-storage": (2**20, "Mi")}
    unit, suffix = units.get(resource, (1, ""))
    return f"{rounded(number / unit)}{suffix}"


def shorten(name, width=21, last=4):
    """Leave out the middle of a long name, not its last characters, in which generated names differ."""
    return name if len(name) <= width else f"{name[:width - 1 - last]}…{name[len(name) - last:]}"


@functools.lru_cache(maxsize=100)  # of the same nodes, each decision is shown
def short_names(names):
    """Return {name: what is shown of it}, for a tuple of names: long ones are shortened, if all still differ.
    """
    for last in (4, 0, *range(5, 21)):  # in the last characters, in the first ones, or in both
        short = {name: shorten(name, last=last) for name in names}
        if len({*short.values()}) == len(short):
            return short
    return {name: name for name in names}


def align(rows):
    """Return rows of cells, of which some may be shorter, as lines with the columns below each other."""
    rows = [[cell.translate(ESCAPES) for cell in row] for row in rows]
    columns = itertools.zip_longest(*rows, fillvalue="")
    widths = [max(map(len, column)) for column in columns]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=False)] for row in rows]
    return ["  ".join(row).rstrip() for row in padded]


def requirement_in_words(requirement):
    """Return a requirement of labels in words."""
    if requirement.operator in ("Exists", "DoesNotExist"):
        return f"{requirement.key} {requirement.operator}"
    if requirement.operator == "In" and len(requirement.values) == 1:
        return f"{short(requirement.key)}={requirement.values[0]}"
    return f"{short(requirement.key)} {requirement.operator} [{', '.join(requirement.values)}]"


def short(key):
    """Return a label's key without what is before a slash."""
    return key.rpartition("/")[2]
