"""Nodes as boxes: how full they are, their taints, and the pods on them. page.py puts them beside texts."""

import json
import re

from scheduler_extras.reading.pods_and_nodes import CPU_AND_MEMORY
from scheduler_extras.rules.spreading import HOSTNAME
from scheduler_extras.show.page.markup import LONG, escaped, item, name_of
from scheduler_extras.show.picture import MANY, share_in_use, used_of_all
from scheduler_extras.show.text import shorten


class Boxes:
    """Nodes as boxes. Of labels they show those that pods ask for."""

    def __init__(self):
        self.keys = set()  # of the labels that pods ask for
        self.new = set()  # uids of the pods that this run has placed

    def beside(self, left, nodes, others, pod=None, leaving=frozenset()):
        """Return what stands at the left, and nodes as boxes beside it.

        others: how many more nodes there are. pod: about which it is. leaving: the uids of pods that go.
        """
        boxes = [self.box(node, pod, leaving) for node in nodes]
        if others:
            boxes.append(f"<p>and {others} other nodes")
        return f'<div class="sides">{left}<div class="boxes">{"".join(boxes)}</div></div>'

    def box(self, node, pod, leaving):
        """Return a node as a box: how full it is, its cordon, taints and labels, its pods.

        Each box keeps room for the pod which it is about: so all stays in its place when it comes.
        """
        marks = [item("cordoned", "no")] if node.unschedulable else []
        for taint in node.taints:
            marks.append(item(f"taint {'='.join(filter(None, taint[:2]))}:{taint.effect}", "no"))
        marks += [item(f"{key}={node.labels[key]}") for key in sorted(self.keys & node.labels.keys())]
        pods = sorted(node.pods.values(), key=lambda each: each.uid not in self.new | leaving)
        others = [each for each in pods if each is not pod]
        items = [self.item_of(each, "goes" if each.uid in leaving else "") for each in others[:MANY]]
        if len(others) > MANY:
            items.append(item(f"and {len(others) - MANY} others"))
        is_there = pod in pods
        if pod:
            items.append(self.item_of(pod, "new" if is_there else "absent"))
        devices = sorted(name for name in node.allocatable.keys() | node.requested.keys() if "/" in name)
        full = bars(node, ["pods", *CPU_AND_MEMORY, *devices])
        kind = "best" if is_there else ""
        return f"""<article class="{kind}"><h3>{escaped(shorten(node.name, LONG))}</h3>{full}
<ul>{"".join(marks)}</ul><ul>{"".join(items)}</ul></article>"""

    def item_of(self, pod, kind):
        """Return a pod on its node: its name, those labels that pods ask for, its ports and its priority."""
        is_new = kind in ("new", "absent") or pod.uid in self.new
        mark = "goes: " if kind == "goes" else "+" if is_new else ""
        words = [mark + shorten(name_of(pod), LONG)]
        words += [f"{key}={pod.labels[key]}" for key in sorted(self.keys & pod.labels.keys())]
        words += [f"port {number}" for _, number in dict.fromkeys(port[:2] for port in pod.host_ports)]
        words += [f"priority {pod.priority}"] if pod.priority else []
        return item(" ".join(words), kind or ("new" if is_new else ""))


def keys_asked_for(pod):
    """Return all words of what a pod asks of labels: the keys of labels are among them."""
    asked = [pod.spec.get(part) for part in ("nodeSelector", "affinity", "topologySpreadConstraints")]
    return set(re.findall(r"[\w./-]+", json.dumps(asked))) - {HOSTNAME}


def bars(node, resources):
    """Return how full a node is, a bar for each of these resources and for "pods"."""
    rows = []
    for name in resources:
        share, numbers = share_in_use(node, name), used_of_all(node, name)
        if name == "pods":
            share, numbers = len(node.pods) / max(node.max_pods, 1), f"{len(node.pods)}/{node.max_pods}"
        full = f'<svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">' \
               f'<rect width="{100 * min(share, 1):.1f}" height="1"/></svg>'
        title = escaped(name.rpartition("/")[2])
        rows.append(f"<li>{full}<span>{title}</span> <span>{escaped(numbers)}</span>")
    return f'<ul class="bars">{"".join(rows)}</ul>'
