"""The page of --output html: one file with all decisions, to be walked through.

It takes the place of the report; its style and its script are page.css and page.js.
"""

import base64
import functools
import hashlib
from pathlib import Path

from scheduler_extras.policy.reloading import lines_of
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.pods_and_nodes import with_pods
from scheduler_extras.show.explain import in_words, made_one, ranked
from scheduler_extras.show.page.answer import BEST, answer
from scheduler_extras.show.page.boxes import Boxes, keys_asked_for
from scheduler_extras.show.page.manifest import manifest_of
from scheduler_extras.show.page.markup import escaped, in_lines, in_parts, name_of, table_in_html
from scheduler_extras.show.picture import nodes_to_show
from scheduler_extras.show.text import shorten


# `--output html` prints a page to be shown to a class, kept and sent. It needs no network and no other file.
# Each decision is a scene of three steps: the cluster and the question, the answer, the pod on its node.
# Before the first one of a scheduler comes a step with its rules. The script shows one step at a time, in the
# largest letters with which it fits the screen; without it, and on paper, they stand below each other.
# A projector has 1280x720: so of many nodes it shows some.

STYLE, SCRIPT = [Path(__file__).with_suffix(suffix).read_text("utf-8") for suffix in (".css", ".js")]
MOST_BOXES = 9  # nodes that are shown with all that is on them


class Page:
    """Takes the decisions of a run, and makes a page of them."""

    MOST = 100  # decisions have scenes; of further ones only the summary speaks

    def __init__(self, path):
        self.path = path  # of the Policy
        self.boxes = Boxes()
        self.introduced = set()  # schedulers of which it is said what rules they ask
        self.scenes = []  # as HTML
        self.outcomes = {}  # pod -> the last decision about it, in words

    def expect(self, pods):
        """Show from the first step on the labels that these pods ask for."""
        self.boxes.keys.update(*map(keys_asked_for, pods))

    def __call__(self, decision, *remarks):
        """Take in a decision, with remarks about it."""
        pod, node = decision.pod, decision.node
        self.expect([pod])
        if node:
            self.boxes.new.add(pod.uid)
        self.outcomes[pod.key] = f"→ {node} {decision.waits}" if node else f"✗ {decision.message}"
        if len(self.scenes) < self.MOST:
            self.scenes.append(self.scene_of(decision, remarks))

    def sum_up(self):
        """Say nothing between passes, where a Reporter counts pods that stay pending for one reason."""

    def scene_of(self, decision, remarks):
        """Return a decision in its steps: the question, the answer, who makes room, the pod on its node."""
        pod, node = decision.pod, decision.node
        leaving = leaving_by(decision)
        nodes, others = self.nodes_before(decision, leaving)
        manifest = in_lines(manifest_of(pod))
        name = f"<b>{escaped(name_of(pod))}</b>"
        question = f"Where does {name} go?"
        answered = f"<em>To {escaped(node)}</em>" if node else '<em class="no">Nowhere yet</em>'
        said = [f"decision {len(self.scenes) + 1}: {in_words(decision)}", *remarks]
        boxes = functools.partial(self.boxes.beside, manifest, nodes.values(), others, pod)
        steps = self.introduction(decision)
        steps += step(question, boxes())
        steps += step(f"{question} {answered}", answer(decision, nodes, said))
        if leaving:
            pods = [each for place in nodes.values() for each in place.pods.values()]
            names = [name_of(each) for each in pods if each.uid in leaving]
            going = f'<em class="no">{escaped(shorten(", ".join(names), 60))}</em>'
            steps += step(f"Who makes room for {name}? {going}", boxes(leaving))
        if node:
            nodes[node].add(pod)
            there = f"<em>on {escaped(node)}</em>"
            title = f"{name} waits to be {there}" if decision.waits else f"{name} is {there} now"
            steps += step(title, boxes())
        return steps

    def introduction(self, decision):
        """Return a step with the rules of a scheduler, before its first decision."""
        scheduler = decision.pod.scheduler
        if scheduler in self.introduced:
            return ""
        self.introduced.add(scheduler)
        return step(f"By which rules does <b>{escaped(scheduler)}</b> decide?", rules_of(decision.policy))

    def nodes_before(self, decision, leaving):
        """Return nodes as they were before a decision, {name: Node}, and how many others are not shown.

        The pod may count on its node already, and so may pods about which the page decides later.
        """
        left = [name for name, node in decision.nodes.items() if not leaving.isdisjoint(node.pods)]
        first = {decision.node, *left, *ranked(decision)[:BEST]}
        shown, others = nodes_to_show(decision.nodes.values(), self.boxes.new, first, MOST_BOXES)
        nodes = {}
        for node in shown:
            there = [pod for pod in node.pods.values() if pod.uid != decision.pod.uid]
            before = [pod for pod in there if not self.comes_later(pod)]
            before.sort(key=lambda pod: pod.uid not in leaving)
            nodes[node.name] = with_pods(node, before)
        return nodes, others

    def comes_later(self, pod):
        """Return whether a pod is being bound: then the decision about it comes later on the page."""
        is_under_way = pod.record and pod.record.may_be_bound()
        return is_under_way and pod.uid not in self.boxes.new

    def document(self, nodes):
        """Return the page. nodes: as they are in the end, to be summed up; () leaves the summary out."""
        steps = [*self.scenes]
        if nodes:
            caption = "The last decision about each pod"
            if len(steps) == self.MOST:
                caption += f" (the first {self.MOST} decisions have scenes)"
            rows = []
            for pod, outcome in self.outcomes.items():
                rows.append([escaped(pod.removeprefix("default/")), escaped(outcome)])
            table = table_in_html(caption, ["Pod", "Node"], rows)
            boxes = self.boxes.beside(table, *nodes_to_show(nodes, self.boxes.new, most=MOST_BOXES))
            steps.append(step("Where the pods are now", boxes))
        title = escaped(f"Where do pods go? Decisions by {self.path}")
        # By these a browser knows that the style and the script are the page's own.
        style, script = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
                         for text in (STYLE, SCRIPT)]
        page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title.replace("<wbr>", "")}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none';
 style-src 'sha256-{style}'; script-src 'sha256-{script}'">
<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>
<body><header><h1>{title}</h1><nav hidden><button id="back">← Back</button>
<span id="where" role="status"></span><button id="next">Next →</button></nav></header>
<main>{"".join(steps)}</main><script>{SCRIPT}</script></body></html>"""
        return page.encode("ascii", "xmlcharrefreplace").decode()  # which no terminal's encoding can spoil


def leaving_by(decision):
    """Return the uids of the pods that a remedy deletes."""
    return {text_at(body, "preconditions", "uid") for method, _, body in decision.requests
            if method == "DELETE" and decision.remedy}


def step(title, content):
    """Return a step of a scene. title: HTML."""
    return f'<section><h2 tabindex="-1">{title}</h2>{content}</section>'


def rules_of(policy):
    """Return what a Policy says: its predicates, its priorities with their weights, and what else."""
    lines = lines_of(policy)
    lists = []
    for heading, count in {
            "Predicates: each may rule a node out": len(policy.predicates),
            "Priorities: each gives points to the others": len(policy.priorities),
            "Besides": len(lines)}.items():
        rules, lines = lines[:count], lines[count:]
        if rules:
            rows = "".join(f"<li>{in_parts(rule)}" for rule in rules).replace(" ×", ", times&nbsp;")
            lists.append(f"<div><h3>{heading}</h3><ol>{rows}</ol></div>")
    notes = "".join(f"<p>{in_parts(note)}" for note in made_one([rule.title for rule in policy.rules()]))
    return f'<div class="lists">{"".join(lists)}</div>{notes}'
