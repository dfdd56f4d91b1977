"""The page: one HTML file that shows a journal, live with --listen, or with its data inside (--output html).

Its style and scripts are the files beside this one; it loads nothing from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from pathlib import Path

from scheduler_extras.show.frames import Frames


# The scripts share one scope, in this order. They show everything through `h` in dom.js, as text.
FOLDER = Path(__file__).parent
SCRIPTS = ("dom", "state", "what_if", "tiles", "bars", "chips", "fit", "fit_tile", "heat", "matrix", "answer",
           "queue", "rules", "words", "views", "live", "main")
STYLES = ("page", "tiles", "views", "screens")  # in this order: later rules override earlier ones
STYLE = "".join((FOLDER / f"{name}.css").read_text("utf-8") for name in STYLES)
TEXTS = [(FOLDER / f"{name}.js").read_text("utf-8") for name in SCRIPTS]
SCRIPT = "\n".join(TEXTS).encode("ascii", "backslashreplace").decode()  # safe in any encoding


def hash_of(text: str) -> str:
    """Return the hash of a style or script for the Content-Security-Policy."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


VERSION = hash_of(STYLE + SCRIPT)  # of the page: an open page of another version reloads itself
POLICY = ("default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
          f"style-src {hash_of(STYLE)}; script-src {hash_of(SCRIPT)}; connect-src 'self'")


def page(data: str = "null", table: str = "") -> str:
    """Return the page. data: the state of a journal as JSON; without it, the page gets it from its server.

    table: the decisions as HTML, for a browser without JavaScript.
    """
    data = data.replace("<", "\\u003c")  # JSON may have it in strings only
    return f"""<!DOCTYPE html>
<html lang="en" data-version="{VERSION}"><head><meta charset="utf-8"><title>Where do pods go?</title>
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<style>{STYLE}</style></head>
<body><noscript><p>To be interactive, this page needs JavaScript. It loads nothing from elsewhere.</p>
{table}</noscript>
<script type="application/json" id="data">{data}</script><script>{SCRIPT}</script></body></html>
"""


def document(frames: Frames) -> str:
    """Return the page with a journal inside."""
    _, state = frames.state()
    return page(state, table_of(state))


def table_of(state: str) -> str:
    """Return the decisions of a journal as an HTML table."""
    rows = [(frame["pod"], frame["node"] or "", outcome_of(frame))
            for frame in json.loads(state)["frames"] if frame["kind"] == "decision"]
    cells = "".join(f"<tr>{''.join(f'<td>{escaped(text)}' for text in row)}\n" for row in rows)
    return f"<table><tr><th>Pod<th>Node<th>Why\n{cells}</table>"


def outcome_of(decision: dict) -> str:
    """Return in words how many nodes fit, or why the pod stays pending."""
    if decision["node"] is None:
        return decision["message"]
    return f"{len(decision['fit'])} of {decision['nodes']} nodes fit"


def escaped(text: str) -> str:
    """Return a text as HTML in ASCII. Unprintable characters are shown as escapes."""
    printable = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return html.escape(printable).encode("ascii", "xmlcharrefreplace").decode()
