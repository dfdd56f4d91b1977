"""Run the code blocks of documents as a reader would copy them."""

import os
import re
import signal
import subprocess
import sys
import textwrap
from contextlib import contextmanager

import pytest

from helpers.script import ROOT, wait_for


BLOCK = re.compile(r"^(    .*\n(?:\n*    .*\n)*)", re.M)
HEADING = re.compile(r"^#+ (.*)$", re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CHANGE = re.compile(r"[Cc]hange\s+`([^`]+)`\s+to\s+`([^`]+)`")


class Document:
    """A Markdown file of the project. Its code blocks are the lines indented by four columns."""

    def __init__(self, path):
        self.path = ROOT / path
        self.text = self.path.read_text()
        self.words = " ".join(self.text.split())  # the text on a single line
        self.tested = []  # the blocks that tests have used

    def blocks(self):
        """Return all code blocks."""
        return [textwrap.dedent(match[1]).strip() + "\n" for match in BLOCK.finditer(self.text)]

    def untested(self):
        """Return the code blocks that no test has used."""
        return [block for block in self.blocks() if block not in self.tested]

    def block_after(self, text):
        """Return the first code block after a text."""
        start = re.search(r"\s+".join(map(re.escape, text.split())), self.text).end()
        match = BLOCK.search(self.text, start)
        block = textwrap.dedent(match[1]).strip() + "\n"
        self.tested.append(block)
        return block

    def gives(self, *texts):
        """Pass the code blocks after these texts to a test, as its argument `blocks`."""
        blocks = [self.block_after(text) for text in texts]
        return pytest.mark.parametrize("blocks", [blocks], ids=["as printed"])

    def section(self, heading):
        """Return the text under a heading, up to the next heading of any level."""
        start = self.text.index(f"{heading}\n") + len(heading)
        following = HEADING.search(self.text, start)
        return self.text[start:following.start() if following else None]

    def broken_links(self):
        """Return the relative links that lead to no file, or to no heading of a document."""
        broken = []
        for link in LINK.findall(self.text):
            path, _, anchor = link.partition("#")
            target = (self.path.parent / path).resolve() if path else self.path
            if "://" in link:
                continue
            if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
                broken.append(link)
        return broken


def anchors(text):
    """Return the anchors that GitHub generates for the headings of a document."""
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text)]
    return [heading.replace(" ", "-") for heading in plain]


def on_this_machine(commands, **replaced):
    """Return shell commands with this Python in place of the virtual environment's, and other replacements."""
    for old, new in {**replaced, ".venv/bin/python": sys.executable}.items():
        commands = commands.replace(old, str(new))
    return ["bash", "-e", "-o", "pipefail", "-c", commands]


def paste(commands, cwd=ROOT, **replaced):
    """Run shell commands; return their output."""
    done = subprocess.run(on_this_machine(commands, **replaced), capture_output=True, text=True, cwd=cwd, timeout=600)
    assert done.returncode == 0, (commands, done)
    return done.stdout


def placements(output):
    """Return {pod: node} from the decisions that a program printed."""
    return dict(re.findall(r"^(?:[\d:]{8}  )?default/(\S+) -> (\S+) ", output, re.M))


def edit(path, old, new):
    """Replace a text in a file, which must contain it."""
    text = path.read_text()
    assert old in text, f"{path} does not contain {old}"
    path.write_text(text.replace(old, new))


@contextmanager
def terminal(commands, output, cwd, **replaced):
    """Run shell commands in the background, with their output in a file; kill them at the end."""
    with open(output, "wb") as file:
        process = subprocess.Popen(
            on_this_machine(commands, **replaced), cwd=cwd, stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for_lines(lines, output):
    """Wait until a terminal shows each of these lines."""
    for line in lines.splitlines():
        wait_for(f"the line {line}", lambda line=line: line in output.read_text().splitlines(), 60)
