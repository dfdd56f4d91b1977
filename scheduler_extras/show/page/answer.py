"""The answer on the page: what was decided about a pod, and from what. page.py asks for it."""

from scheduler_extras.reading.pods_and_nodes import CPU_AND_MEMORY
from scheduler_extras.show.explain import groups_of_failing, marks_of, ranked, sentences_about
from scheduler_extras.show.page.boxes import bars
from scheduler_extras.show.page.manifest import wishes_of
from scheduler_extras.show.page.markup import escaped, in_parts, table_in_html
from scheduler_extras.show.text import in_digits


BEST = 3  # nodes whose scores are shown


def answer(decision, nodes, remarks):
    """Return what was decided, and from what: all nodes; beside them scores by rules, and sentences.

    nodes: {name: Node}, without the pod, of the best ones at least. remarks: what is to be said first.
    """
    best = ranked(decision)[:BEST]
    table = scores_by_rules(decision, best) if best else ""
    said = [*remarks, *sentences_about(decision, len(decision.total))]
    sentences = "".join(f"<p>{escaped(each)}" for each in said)
    return f"""<p>{in_parts(wishes_of(decision.pod))}
<div class="sides answer">{strip(decision, nodes, best)}<div>{table}{sentences}</div></div>"""


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
        tiles.append(f"<li><h3>{fit}</h3>{escaped(names)}{more}")
    for label, reasons, names in groups_of_failing(decision):
        first = ", ".join(names[:2])
        more = f", and {len(names) - 2} more" if names[2:] else ""
        why = "\n".join(filter(None, [*reasons, first + more]))
        tiles.append(f'<li class="no"><h3>✗ {escaped(label)}</h3>{in_parts(why)}')
    return f'<ul class="strip">{"".join(tiles)}</ul>'


def scores_by_rules(decision, best):
    """Return a table with a row for each rule, and a column for each of the best nodes: its points."""
    marks = marks_of(decision)
    heads = ["Points", *(marks.get(name, "") + name for name in best)]
    rows = []
    for vote in decision.votes:
        rows.append([in_parts(vote.title), *(points_in_words(vote, name) for name in best)])
    rows.append(["Total", *(in_digits(decision.total[name]) for name in best)])
    return table_in_html("", heads, rows)


def points_in_words(vote, name):
    """Return as HTML what a vote adds to a node's total, and how that came, by `reduce` and the weight."""
    points = vote.points[name]
    words = ""
    if vote.raw is not None and vote.raw[name] != points:
        place = "as the best" if points == max(vote.points.values()) else "beside the best"
        words = f"{in_digits(vote.raw[name])}, {place}"
    if points and vote.weight != 1:
        words = f"{words + ': ' if words else ''}{in_digits(points)}, times {vote.weight}"
    came = f" <small>({words})</small>" if words else ""
    return f"<b>{in_digits(vote.weight * points)}</b>{came}"
