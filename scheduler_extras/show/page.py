"""The page of --output html: one file with all decisions, to be walked through.

It takes the place of the report; its style and its script are page.css and page.js.
"""

import base64
import hashlib
import html
import json
import math
import re
from pathlib import Path

import yaml

from scheduler import pick, text_at
from scheduler_extras.cluster.refusals import CONTAINERS
from scheduler_extras.objects import CPU_AND_MEMORY, with_pods
from scheduler_extras.policy.reloading import lines_of
from scheduler_extras.rules.spreading import HOSTNAME
from scheduler_extras.show.explain import groups_of_failing, in_words, marks_of, ranked, sentences_about
from scheduler_extras.show.picture import MANY, nodes_to_show, share_in_use, used_of_all
from scheduler_extras.show.text import ESCAPES, in_digits, in_units, shorten


# `--output html` prints a page to be shown to a class, kept and sent. It needs no network and no other file.
# Each decision is a scene of three steps: the cluster and the question, the answer, the pod on its node.
# Before the first one of a scheduler comes a step with its rules. The script shows one step at a time;
# without it, and on paper, they stand below each other. Each is to fit a screen of 1280x720: so of many nodes
# it shows some. HTML is made of f-strings, in which all text goes through `escaped`; what they join is HTML.

STYLE, SCRIPT = [Path(__file__).with_suffix(suffix).read_text("utf-8") for suffix in (".css", ".js")]


def escaped(text):
    """Return a text as HTML that shows it, with its lines: names and messages may come from anybody."""
    plain = html.escape("\n".join(line.translate(ESCAPES) for line in text.split("\n")))
    return BREAKS.sub("<wbr>", plain)


BREAKS = re.compile(r"(?<=[/.=:,_])(?=[^\W\d])")  # where a long word may be broken


def name_of(pod):
    """Return a pod's name, and its namespace unless that is the default one."""
    return pod.key.removeprefix("default/")


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
        steps = ""
        if pod.scheduler not in self.introduced:
            self.introduced.add(pod.scheduler)
            steps = step(f"By which rules does {marked(pod.scheduler)} decide?", rules_of(decision.policy))
        manifest = f"<pre>{escaped(manifest_of(pod))}</pre>"
        leaving = leaving_by(decision)
        left = [name for name, each in decision.nodes.items() if not leaving.isdisjoint(each.pods)]
        first = {node, *left, *ranked(decision)[:BEST]}
        shown, others = nodes_to_show(decision.nodes.values(), self.new, first, MOST_BOXES)
        nodes = {}  # without the pod, which may count on its node already
        for each in shown:
            there = [other for other in each.pods.values() if other.uid != pod.uid]
            before = [other for other in there if not self.comes_later(other)]
            nodes[each.name] = with_pods(each, before)
        question = f"Where does {marked(name_of(pod))} go?"
        answered = f"<em>To {escaped(node)}</em>" if node else '<em class="no">Nowhere yet</em>'
        steps += step(question, self.beside(manifest, nodes.values(), others, pod))
        steps += step(f"{question} {answered}", self.answer(decision, nodes, remarks))
        if leaving:
            going = f"These make room for {marked(name_of(pod))}"
            steps += step(going, self.beside(manifest, nodes.values(), others, leaving=leaving))
        if node:
            nodes[node].add(pod)
            now = f"{marked(name_of(pod))} is <em>on {escaped(node)}</em> now"
            steps += step(now, self.beside(manifest, nodes.values(), others, pod))
        return steps

    def comes_later(self, pod):
        """Say whether a pod is being bound: then the decision about it comes later on the page."""
        is_under_way = pod.record and pod.record.may_be_bound()
        return is_under_way and pod.uid not in self.new

    def answer(self, decision, nodes, remarks):
        """Return what was decided, and from what: all nodes; beside them scores by rules, and sentences.

        nodes: {name: Node}, without the pod, of the best ones at least.
        """
        best = ranked(decision)[:BEST]
        number = f"decision {len(self.scenes) + 1}: {in_words(decision)}"
        said = [number, *remarks, *sentences_about(decision, len(best))]
        table = scores_by_rules(decision, best) if best else ""
        sentences = "".join(f"<p>{escaped(each)}" for each in said)
        kind = "small" if len(decision.votes) > MANY_RULES else ""
        beside = f'<div class="nodes {kind}"><p>{escaped(wishes_of(decision.pod))}{table}{sentences}</div>'
        return f'<div class="sides answer">{strip(decision, nodes, best)}{beside}</div>'

    def beside(self, left, nodes, others, pod=None, leaving=frozenset()):
        """Return what stands at the left, and nodes as boxes beside it.

        pod: about which it is. leaving: the uids of pods that go.
        """
        boxes = [self.box(node, pod, leaving) for node in nodes]
        if others:
            boxes.append(f"<p>and {others} other nodes")
        is_much = len(boxes) > 6 or any(len(node.name) > LONG for node in nodes)
        kind = "many" if is_much else ""
        return f'<div class="sides">{left}<div class="nodes boxes {kind}">{"".join(boxes)}</div></div>'

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
        items = [self.item_of(each, "no" if each.uid in leaving else "") for each in others[:MANY]]
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

    def item_of(self, pod, kind=""):
        """Return a pod on its node: its name, those labels that pods ask for, its ports and its priority."""
        is_new = kind in ("new", "absent") or pod.uid in self.new
        mark = "goes: " if kind == "no" else "+" if is_new else ""
        words = [mark + shorten(name_of(pod), LONG)]
        words += [f"{key}={pod.labels[key]}" for key in sorted(self.keys & pod.labels.keys())]
        words += [f"port {number}" for _, number in pod.host_ports]
        words += [f"priority {pod.priority}"] if pod.priority else []
        return item(" ".join(words), kind or ("new" if is_new else ""))

    def document(self, nodes):
        """Return the page. nodes: as they are in the end, to be summed up; () leaves the summary out."""
        steps = [*self.scenes]
        if nodes:
            caption = "The last decision about each pod"
            if len(steps) == self.MOST:
                caption += f" (the first {self.MOST} decisions have scenes)"
            rows = [(pod.removeprefix("default/"), outcome) for pod, outcome in self.outcomes.items()]
            table = table_in_html(caption, ["Pod", "Node"], rows)
            boxes = self.beside(table, *nodes_to_show(nodes, self.new, most=MOST_BOXES))
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


BEST = 3  # nodes whose scores are shown
LONG = 40  # characters of a name in a box; in the answer, names stand in full
MANY_RULES = 12  # that are shown in smaller letters
MOST_BOXES = 12  # nodes that are shown with all that is on them


def leaving_by(decision):
    """Return the uids of the pods that a remedy deletes."""
    return {text_at(body, "preconditions", "uid") for method, _, body in decision.requests
            if method == "DELETE" and decision.remedy}


def step(title, content):
    """Return a step of a scene. title: HTML."""
    kind = "long" if len(re.sub("<.*?>", "", title)) > 70 else ""
    return f'<section><h2 class="{kind}" tabindex="-1">{title}</h2>{content}</section>'


def marked(name):
    """Return the name of what a step is about."""
    return f"<b>{escaped(name)}</b>"


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
            rows = "".join(f"<li>{escaped(rule.replace(' ×', ', times '))}" for rule in rules)
            lists.append(f"<div><h3>{heading}</h3><ol>{rows}</ol></div>")
    merged = [rule.title for rule in policy.rules() if "+" in rule.title]
    what = "these entries of the Policy make one rule with one weight, as in kube-scheduler."
    note = f"{', '.join(merged)}: {what}"
    return f'<div class="sides">{"".join(lists)}</div>' + (f"<p>{escaped(note)}" if merged else "")


def wishes_of(pod):
    """Say in a line what a pod asks for."""
    wanted = {name: amount for name, amount in pod.requests.items() if amount}
    amounts = [f"{name} {in_units(name, amount, math.ceil)}" for name, amount in wanted.items()]
    parts = [f"requests {', '.join(amounts) or 'nothing'}"]
    parts += [f"port {number} of its node" for _, number in pod.host_ports]
    wishes = shown_of(as_written(pod))
    parts += [f"has {field}" for field in wishes if field in WISHES]
    return f"It {'; '.join(parts)}."


WISHES = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")


def strip(decision, nodes, best):
    """Return all nodes: the chosen one, others that fit, and the others by what is against them."""
    tiles = []
    for name in best:
        kind = "best" if name == decision.node else ""
        fits = "chosen" if kind else "fits"
        head = f"<h3>{escaped(name)} <small>{fits}, {in_digits(decision.total[name])} points</small></h3>"
        tiles.append(f'<li class="{kind}">{head}{bars(nodes[name], CPU_AND_MEMORY)}')
    others = ranked(decision)[len(best):]
    if others:
        names = ", ".join(f"{name} {in_digits(decision.total[name])}" for name in others[:6])
        more = f", and {len(others) - 6} more" if others[6:] else ""
        fit = "1 other fits" if len(others) == 1 else f"{len(others)} others fit"
        tiles.append(f"<li><h3>{fit}</h3><small>{escaped(names)}{more}</small>")
    for label, reasons, names in groups_of_failing(decision):
        first = ", ".join(names[:2])
        more = f", and {len(names) - 2} more" if names[2:] else ""
        why = "\n".join(filter(None, [*reasons, first + more]))
        tiles.append(f'<li class="no"><h3>✗ {escaped(label)}</h3><small>{escaped(why)}</small>')
    return f'<ul class="strip">{"".join(tiles)}</ul>'


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


def scores_by_rules(decision, best):
    """Return a table with a row for each rule, and a column for each of the best nodes."""
    marks = marks_of(decision)
    heads = ["Points", "", *(marks.get(name, "") + name for name in best)]
    rows = [["Total", "", *(in_digits(decision.total[name]) for name in best)]]
    for vote in decision.votes:
        rows.append([vote.title, f"times {vote.weight}", *(points_in_words(vote, name) for name in best)])
    return table_in_html("", heads, rows)


def points_in_words(vote, name):
    """Return what a node gets in a vote, and what its score was before `reduce` compared the nodes."""
    points = vote.points[name]
    if vote.raw is None or vote.raw[name] == points:
        return in_digits(points)
    place = "as the best" if points == max(vote.points.values()) else "beside the best"
    return f"{in_digits(vote.raw[name])}, {place}: {in_digits(points)}"


def table_in_html(caption, heads, rows):
    """Return a table of texts."""
    columns = "".join(f'<th scope="col">{escaped(head)}' for head in heads)
    lines = []
    for first, *cells in rows:
        row = "".join(f"<td>{escaped(cell)}" for cell in cells)
        title = re.sub("(?<=[a-z])(?=[+]|[A-Z][a-z])", "<wbr>", escaped(first))  # a rule's may be long
        lines.append(f'<tr><th scope="row">{title}{row}')
    named = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return (f'<div class="wide"><table>{named}<thead><tr>{columns}'
            f'<tbody>{"".join(lines)}</table></div>')


def item(text, kind=""):
    """Return an item of a list."""
    return f'<li class="{kind}">{escaped(shorten(text, 2 * LONG))}'


def keys_asked_for(pod):
    """Return all words of what a pod asks of labels: the keys of labels are among them."""
    asked = [pod.spec.get(part) for part in ("nodeSelector", "affinity", "topologySpreadConstraints")]
    return set(re.findall(r"[\w./-]+", json.dumps(asked))) - {HOSTNAME}


SHOWN_OF_PODS = [  # fields; others come from the API server, or no rule looks at them
    "name", "namespace", "labels", "schedulerName", "priority", "nodeSelector", "affinity", "tolerations",
    "topologySpreadConstraints", "schedulingGates", "overhead", "image", "resources", "ports", "volumes",
    *CONTAINERS]


def as_written(pod):
    """Return a pod's spec without the tolerations and the volume that admission adds."""
    return pod.spec | {
        "tolerations": [each for each in pod.tolerations if each.get("tolerationSeconds") != 300],
        "volumes": [volume for volume in pod.volumes if "projected" not in volume]}


def manifest_of(pod):
    """Return what rules look at of a pod's manifest, as people write it."""
    spec = as_written(pod)
    for kind in CONTAINERS:
        spec[kind] = [*map(shown_of, pick(pod.spec, list, kind, of=dict))]
    thing = {"kind": "Pod", "metadata": shown_of(pod.raw["metadata"]), "spec": shown_of(spec)}
    return yaml.safe_dump(thing, sort_keys=False, default_flow_style=None, allow_unicode=True, width=24)


def shown_of(thing):
    """Return those fields of an object that are shown, and say something."""
    says_nothing = (None, "", 0, [], {}, "default", {"requests": {}})
    return {name: thing[name] for name in SHOWN_OF_PODS if thing.get(name) not in says_nothing}
