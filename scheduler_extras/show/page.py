"""The page of --output html: one file with all decisions, to be walked through.

It takes the place of the report; its style and its script are page.css and page.js.
"""

import base64
import hashlib
import html
import json
import re
from pathlib import Path

import yaml

from scheduler import pick, text_at
from scheduler_extras.cluster.refusals import CONTAINERS
from scheduler_extras.objects import CPU_AND_MEMORY, with_pods
from scheduler_extras.policy.reloading import lines_of
from scheduler_extras.rules.spreading import HOSTNAME
from scheduler_extras.show.explain import (
    first_of, groups_of_failing, in_words, ranked, scores_in_rows, sentences_about
)
from scheduler_extras.show.picture import MANY, nodes_to_show, share_in_use, used_of_all
from scheduler_extras.show.text import ESCAPES


# `--output html` prints a page to be shown to a class, kept and sent. It needs no network and no other file.
# Each decision is a scene of three steps: the cluster and the question, the answer, the pod on its node. The
# script shows one step at a time; without it, and on paper, they stand below each other.
# HTML is made of f-strings, in which all text goes through `escaped`; what they join is HTML already.

STYLE, SCRIPT = [Path(__file__).with_suffix(suffix).read_text("utf-8") for suffix in (".css", ".js")]


def escaped(text):
    """Return a text as HTML that shows it, with its lines: names and messages may come from anybody."""
    return html.escape("\n".join(line.translate(ESCAPES) for line in text.split("\n")))


class Page:
    """Takes the decisions of a run, and makes a page of them."""

    MOST = 100  # decisions have scenes; of further ones only the summary speaks

    def __init__(self, path):
        self.path = path  # of the Policy
        self.keys = set()  # of the labels that pods ask for
        self.new = set()  # uids of the pods that this run has placed
        self.introduced = set()  # schedulers of which it is said what rules they ask
        self.scenes = []  # as HTML
        self.outcomes = {}  # pod -> the last decision about it, in words

    def __call__(self, decision, *remarks):
        """Take in a decision, with remarks about it."""
        pod, node = decision.pod, decision.node
        self.keys |= keys_asked_for(pod)
        if node:
            self.new.add(pod.uid)
        self.outcomes[pod.key] = f"→ {node} {decision.waits}" if node else f"✗ {decision.message}"
        if len(self.scenes) < self.MOST:
            self.scenes.append(self.scene_of(decision, remarks))

    def sum_up(self):
        """Say nothing between passes, where a Reporter counts pods that stay pending for one reason."""

    def scene_of(self, decision, remarks):
        """Return a decision in its steps: the question, the answer, the pod on its node."""
        pod, node = decision.pod, decision.node
        heading = f"{pod.key} (decision {len(self.scenes) + 1})"
        manifest = f"<pre>{escaped(manifest_of(pod))}</pre>"
        leaving = leaving_by(decision)
        left = [name for name, each in decision.nodes.items() if not leaving.isdisjoint(each.pods)]
        shown, others = nodes_to_show(decision.nodes.values(), self.new, {node, *left, *ranked(decision)[:4]})
        nodes = []  # without the pod, which may count on its node already
        for each in shown:
            nodes.append(with_pods(each, [other for other in each.pods.values() if other.uid != pod.uid]))
        question = self.beside(manifest, nodes, others)
        if pod.scheduler not in self.introduced:
            self.introduced.add(pod.scheduler)
            rules = "; ".join(lines_of(decision.policy))
            question += f"<p><small>{escaped(f'{pod.scheduler} asks {rules}')}</small>"
        title = f"It goes to {node}" if node else "It stays pending"
        steps = step(heading, "Where will it go?", question) + step(heading, title, answer(decision, remarks))
        if leaving:
            boxes = self.beside(manifest, nodes, others, leaving=leaving)
            steps += step(heading, "These make room for it", boxes)
        if node:
            chosen = next(each for each in nodes if each.name == node)
            chosen.add(pod)
            steps += step(heading, f"Now it is on {node}", self.beside(manifest, nodes, others, best=node))
        return steps

    def beside(self, left, nodes, others, best=None, leaving=frozenset()):
        """Return what stands at the left, and nodes as boxes beside it.

        best: the name of the chosen one. leaving: the uids of pods that go.
        """
        boxes = [self.box(node, "best" if node.name == best else "", leaving) for node in nodes]
        if others:
            boxes.append(f"<p>and {others} other nodes")
        return f'<div class="sides">{left}<div class="nodes">{"".join(boxes)}</div></div>'

    def box(self, node, kind, leaving):
        """Return a node as a box: its cordon, taints and labels, how full it is, its pods."""
        marks = [item("cordoned", "no")] if node.unschedulable else []
        for taint in node.taints:
            marks.append(item(f"taint {'='.join(filter(None, taint[:2]))}:{taint.effect}", "no"))
        marks += [item(f"{key}={node.labels[key]}") for key in sorted(self.keys & node.labels.keys())]
        shares = [("pods", len(node.pods) / max(node.max_pods, 1), f"{len(node.pods)}/{node.max_pods}")]
        devices = sorted(name for name in node.allocatable.keys() | node.requested.keys() if "/" in name)
        for name in [*CPU_AND_MEMORY, *devices]:
            shares.append((name.rpartition("/")[2], share_in_use(node, name), used_of_all(node, name)))
        bars = []
        for name, share, numbers in shares:
            meter = f'<meter value="{share:.3f}" aria-hidden="true"></meter>'
            bars.append(f'<tr><th scope="row">{escaped(name)}<td>{meter}<td>{escaped(numbers)}')
        pods = []
        for pod in sorted(node.pods.values(), key=lambda pod: pod.uid not in self.new | leaving)[:MANY]:
            is_new = pod.uid in self.new
            words = ["goes:"] if pod.uid in leaving else []
            words += [("+" if is_new else "") + pod.key.removeprefix("default/")]
            words += [f"{key}={pod.labels[key]}" for key in sorted(self.keys & pod.labels.keys())]
            words += [f"port {number}" for _, number in pod.host_ports]
            words += [f"priority {pod.priority}"] if pod.priority else []
            kind_of_pod = "no" if pod.uid in leaving else "new" if is_new else ""
            pods.append(item(" ".join(words), kind_of_pod))
        if len(node.pods) > MANY:
            pods.append(item(f"and {len(node.pods) - MANY} others"))
        return f"""<article class="{kind}"><h4>{escaped(node.name)}</h4>
<ul>{"".join(marks)}</ul><table>{"".join(bars)}</table><ul>{"".join(pods)}</ul></article>"""

    def document(self, nodes):
        """Return the page. nodes: as they are in the end, to be summed up; () leaves the summary out."""
        steps = [*self.scenes]
        if nodes:
            caption = "The last decision about each pod"
            if len(steps) == self.MOST:
                caption += f" (the first {self.MOST} decisions have scenes)"
            rows = [(pod.removeprefix("default/"), outcome) for pod, outcome in self.outcomes.items()]
            table = table_in_html(caption, ["Pod", "Node"], rows)
            boxes = self.beside(table, *nodes_to_show(nodes, self.new))
            steps.append(step("Summary", "Where the pods are now", boxes))
        title = escaped(f"Where do pods go? Decisions by {self.path}")
        # By these a browser knows that the style and the script are the page's own.
        style, script = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
                         for text in (STYLE, SCRIPT)]
        page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none';
 style-src 'sha256-{style}'; script-src 'sha256-{script}'">
<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>
<body><header><h1>{title}</h1><nav hidden><button id="back">← Back</button>
<span id="where" role="status"></span><button id="next">Next →</button></nav></header>
<main>{"".join(steps)}</main><script>{SCRIPT}</script></body></html>"""
        return page.encode("ascii", "xmlcharrefreplace").decode()  # which no terminal's encoding can spoil


def step(heading, title, content):
    """Return a step of a scene."""
    return f'<section><h2>{escaped(heading)}</h2><h3 tabindex="-1">{escaped(title)}</h3>{content}</section>'


def leaving_by(decision):
    """Return the uids of the pods that a remedy deletes."""
    return {text_at(body, "preconditions", "uid") for method, _, body in decision.requests
            if method == "DELETE" and decision.remedy}


def answer(decision, remarks):
    """Return what was decided, and from what: sentences, and a table of nodes by rules."""
    best = ranked(decision)[:MANY]
    parts = [f"<p>{escaped(each)}"
             for each in (in_words(decision), *remarks, *sentences_about(decision, len(best)))]
    if best:
        # The total comes first: so it is in sight.
        heads, *rows = [[row[0], row[-1], *row[1:-1]] for row in scores_in_rows(decision, best)]
        heads[0] = "Node"
        parts.append(table_in_html("Nodes by rules: raw score → points × weight", heads, rows))
    failing = []
    for label, reasons, nodes in groups_of_failing(decision):
        failing.append([f"✗ {label}", "\n".join([*reasons, first_of(nodes)])])
    if failing:
        parts.append(table_in_html("Nodes that do not fit", ["Node", "Why"], failing))
    return "".join(parts)


def table_in_html(caption, heads, rows):
    """Return a table of texts."""
    columns = ['<th scope="col">' + re.sub("(?<=[a-z+])(?=[A-Z])", "<wbr>", escaped(head)) for head in heads]
    lines = []
    for first, *cells in rows:
        kind = {"* ": "best", "✗ ": "no"}.get(first[:2], "")
        row = "".join(f"<td>{escaped(cell)}" for cell in cells)
        lines.append(f'<tr class="{kind}"><th scope="row">{escaped(first)}{row}')
    return (f'<div class="wide"><table><caption>{escaped(caption)}</caption>'
            f'<thead><tr>{"".join(columns)}<tbody>{"".join(lines)}</table></div>')


def item(text, kind=""):
    """Return an item of a list."""
    return f'<li class="{kind}">{escaped(text)}'


def keys_asked_for(pod):
    """Return all words of what a pod asks of labels: the keys of labels are among them."""
    asked = [pod.spec.get(part) for part in ("nodeSelector", "affinity", "topologySpreadConstraints")]
    return set(re.findall(r"[\w./-]+", json.dumps(asked))) - {HOSTNAME}


SHOWN_OF_PODS = [  # fields; others come from the API server, or no rule looks at them
    "name", "namespace", "labels", "schedulerName", "priority", "nodeSelector", "affinity", "tolerations",
    "topologySpreadConstraints", "schedulingGates", "overhead", "image", "resources", "ports", "volumes",
    *CONTAINERS]


def manifest_of(pod):
    """Return what rules look at of a pod's manifest, as people write it."""
    spec = pod.spec | {
        "tolerations": [each for each in pod.tolerations if each.get("tolerationSeconds") != 300],
        "volumes": [volume for volume in pod.volumes if "projected" not in volume]}
    for kind in CONTAINERS:
        spec[kind] = [*map(shown_of, pick(pod.spec, list, kind, of=dict))]
    thing = {"kind": "Pod", "metadata": shown_of(pod.raw["metadata"]), "spec": shown_of(spec)}
    return yaml.safe_dump(thing, sort_keys=False, default_flow_style=None, allow_unicode=True, width=24)


def shown_of(thing):
    """Return those fields of an object that are shown, and say something."""
    says_nothing = (None, "", 0, [], {}, "default", {"requests": {}})
    return {name: thing[name] for name in SHOWN_OF_PODS if thing.get(name) not in says_nothing}
