"""Texts as HTML: names, items of lists, tables.

The page and its parts write by it. HTML is made of f-strings, in which all text goes through `escaped`, or
`in_parts`; what they join is HTML.
"""

import html
import re

from scheduler_extras.show.text import ESCAPES, shorten


LONG = 40  # characters of a name in a box; in the answer, names stand in full
BREAKS = re.compile(r"(?<=[/.=:,_])(?=[^\W\d])")  # where a long word may be broken
HUMPS = re.compile("(?<=[a-z])(?=[+]|[A-Z][a-z])")  # where a long name of a rule or a field may be


def escaped(text):
    """Return a text as HTML that shows it, with its lines: names and messages may come from anybody."""
    plain = html.escape("\n".join(line.translate(ESCAPES) for line in text.split("\n")))
    return BREAKS.sub("<wbr>", plain)


def in_parts(text):
    """Return a text with names such as LeastRequestedPriority as HTML, in which these may be broken, too."""
    return HUMPS.sub("<wbr>", escaped(text))


def in_lines(text):
    """Return a text with indented lines as HTML: where a line is broken, it goes on below its indent."""
    lines = []
    for line in text.splitlines():
        said = line.lstrip(" ")
        indent = " " * (len(line) - len(said))
        lines.append(f"<code><span>{indent}</span><span>{in_parts(said)}</span></code>")
    return f"<pre>{''.join(lines)}</pre>"


def name_of(pod):
    """Return a pod's name, and its namespace unless that is the default one."""
    return pod.key.removeprefix("default/")


def item(text, kind=""):
    """Return an item of a list."""
    return f'<li class="{kind}">{escaped(shorten(text, 2 * LONG))}'


def table_in_html(caption, heads, rows):
    """Return a table. rows: of HTML."""
    columns = "".join(f'<th scope="col">{escaped(head)}' for head in heads)
    lines = []
    for first, *cells in rows:
        row = "".join(f"<td>{cell}" for cell in cells)
        lines.append(f'<tr><th scope="row">{first}{row}')
    named = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return f'<table>{named}<thead><tr>{columns}<tbody>{"".join(lines)}</table>'
