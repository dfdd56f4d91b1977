"""Documents whose code blocks the tests run, as a reader copies them."""

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
    """A Markdown file of the project. A code block is what is indented by four columns."""

    def __init__(self, path):
        self.path = ROOT / path
        self.text = self.path.read_text()
        self.words = " ".join(self.text.split())  # the same on a single line
        self.tested = []  # the blocks that tests have asked for

    def blocks(self):
        """Return all code blocks."""
        return [textwrap.dedent(match[1]).strip() + "\n" for match in BLOCK.finditer(self.text)]

    def untested(self):
        """Return the code blocks that no test has asked for."""
        return [block for block in self.blocks() if block not in self.tested]

    def block_after(self, text):
        """Return the first code block after a text."""
        start = re.search(r"\s+".join(map(re.escape, text.split())), self.text).end()
        match = BLOCK.search(self.text, start)
        block = textwrap.dedent(match[1]).strip() + "\n"
        self.tested.append(block)
        return block

    def gives(self, *texts):
        """Give a test the code blocks after these texts, as its argument `blocks`."""
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
    """Return the anchors that GitHub makes of the headings of a document."""
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text)]
    return [heading.replace(" ", "-") for heading in plain]


def on_this_machine(commands, **replaced):
    """Return shell commands with this Python in place of the virtual environment's, and other replacements."""
    for old, new in {**replaced, ".venv/bin/python": sys.executable}.items():
        commands = commands.replace(old, str(new))
    return ["bash", "-e", "-o", "pipefail", "-c", commands]


def paste(commands, cwd=ROOT, **replaced):
    """Run shell commands to their end. Return what they print."""
    done = subprocess.run(on_this_machine(commands, **replaced), capture_output=True, text=True, cwd=cwd, timeout=600)
    assert done.returncode == 0, (commands, done)
    return done.stdout


def places(output):
    """Return where pods went, according to the lines that a program prints: {pod: node}."""
    return dict(re.findall(r"^(?:[\d:]{8}  )?default/(\S+) -> (\S+) ", output, re.M))


def edit(path, old, new):
    """Replace a text in a file that has it."""
    text = path.read_text()
    assert old in text, f"{path} does not contain {old}"
    path.write_text(text.replace(old, new))


@contextmanager
def terminal(commands, output, cwd, **replaced):
    """Run shell commands beside a test, with their output in a file; stop them with the test."""
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
