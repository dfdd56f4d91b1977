"""The frames of a journal: JSON texts, the newest of which are kept.

journal.py adds them, in the loop's thread; the server's threads read them.
"""

from __future__ import annotations

import collections
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field


# A page applies one frame after another. A frame "nodes" has the nodes that have changed, so that the page
# can show the cluster at each decision. `base` has the nodes as they were before the oldest frame.

MAX_DECISIONS = 1000
MAX_BYTES = 64 * 2**20
MAX_AT_ONCE = 16 * 2**20  # bytes that a page receives when it opens


@dataclass
class Frame:
    """A part of the journal."""

    number: int
    kind: str
    text: str  # JSON
    nodes: dict = field(default_factory=dict)  # name -> its record as JSON, or None; of a frame "nodes"

    def __len__(self) -> int:
        return len(self.text) + 200


class Frames:
    """The newest frames, with the nodes and the Policy as they were before the first of them."""

    def __init__(self) -> None:
        self.id = f"{time.time():.6f}"  # differs after a restart
        self.frames: collections.deque[Frame] = collections.deque()
        self.number = 0  # of the last frame
        self.size = 0  # of all frames, in bytes
        self.decisions = 0  # how many of the frames are decisions
        self.base: dict[str, str] = {}  # name of a node -> its record before the first frame
        self.base_policy = "null"
        self.readers = 0  # pages that are open
        self.grown = threading.Condition()  # held while frames change

    @contextlib.contextmanager
    def being_read(self) -> Iterator[None]:
        """Count a page as open during this block."""
        with self.grown:
            self.readers += 1
        try:
            yield
        finally:
            with self.grown:
                self.readers -= 1

    def add(self, kind: str, content: dict, nodes: dict | None = None) -> None:
        """Add a frame, and drop the oldest ones if there are too many."""
        nodes = nodes or {}
        with self.grown:
            self.number += 1
            head = {"n": self.number, "kind": kind, "at": round(time.time(), 3)}
            text = json.dumps(head | content)
            if nodes:
                text = f'{text[:-1]}, "nodes": {in_braces(nodes)}}}'
            frame = Frame(self.number, kind, text, nodes)
            self.frames.append(frame)
            self.size += len(frame)
            self.decisions += kind == "decision"
            while self.decisions > MAX_DECISIONS or self.size > MAX_BYTES:
                self.drop_oldest()
            self.grown.notify_all()

    def drop_oldest(self) -> None:
        """Move the nodes and the Policy of the first frame into the base, and drop it."""
        frame = self.frames.popleft()
        self.size -= len(frame)
        self.decisions -= frame.kind == "decision"
        self.base, self.base_policy = with_frame(self.base, self.base_policy, frame)

    def state(self, most: int = MAX_AT_ONCE) -> tuple[int, str]:
        """Return the number of the last frame, and the journal as JSON: the newest frames, and their base."""
        with self.grown:
            frames, number = [*self.frames], self.number
            base, policy = dict(self.base), self.base_policy
        size = 0
        first = len(frames)
        while first and size + len(frames[first - 1]) <= most:
            first -= 1
            size += len(frames[first])
        for frame in frames[:first]:
            base, policy = with_frame(base, policy, frame)
        texts = ",\n".join(frame.text for frame in frames[first:])
        head = f'"id": "{self.id}", "nodes": {in_braces(base)}, "policy": {policy}'
        return number, f'{{{head},\n"frames": [{texts}]}}'

    def since(self, number: int, patience: float) -> list[str] | None:
        """Return the frames after this one as JSON, and wait if there are none. None: they were dropped."""
        with self.grown:
            self.grown.wait_for(lambda: self.number > number, patience)
            if number > self.number or (self.frames and self.frames[0].number > number + 1):
                return None
            count = self.number - number
            return [self.frames[i].text for i in range(len(self.frames) - count, len(self.frames))]


def with_frame(base: dict, policy: str, frame: Frame) -> tuple[dict, str]:
    """Return the records of the nodes and of the Policy after a frame."""
    return with_changes(base, frame.nodes), frame.text if frame.kind == "policy" else policy


def with_changes(nodes: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    """Apply changes to the records of nodes, in place. None removes a node."""
    for name, text in changes.items():
        if text is None:
            nodes.pop(name, None)
        else:
            nodes[name] = text
    return nodes


def in_braces(nodes: dict) -> str:
    """Return {name: JSON or None} as JSON."""
    parts = [f"{json.dumps(name)}: {text or 'null'}" for name, text in nodes.items()]
    return f"{{{', '.join(parts)}}}"
