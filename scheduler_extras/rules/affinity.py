"""Rules of inter-pod affinity and anti-affinity: the predicate MatchInterPodAffinity, and its priority.

`affinity_around` evaluates the terms once per pod, for both rules.
"""

import collections
import functools
import itertools
import weakref

from scheduler_extras.common.errors import Unschedulable
from scheduler_extras.deciding.answers import memo
from scheduler_extras.deciding.rule import SKIP, Rejected, Unresolvable, predicate, priority, requires
from scheduler_extras.deciding.snapshot import FullSnapshot
from scheduler_extras.reading.pods_and_nodes import FullPod
from scheduler_extras.rules.affinity_terms import affinity_terms, placed_terms, selected_by
from scheduler_extras.rules.label_index import labels_to_look_up


# Terms say where a pod is welcome: its own ones do, and those of all pods that are placed. `affinity_around`
# has all that they say, by domains; a domain is a (topology key, value). From that, `affine_domains` has
# where the pod must be and must not be, for the predicate; `affine_scores` where it is welcome, for the
# priority.


# List of terms -> what a pod's own make of the domains of pods that they select; what those of others that
# select the pod make of these others' domains; and how often.
EFFECTS_OF_TERMS = {
    "requiredAffinity": ("together", "attached", 1), "requiredAntiAffinity": ("apart", "repelling", 1),
    "preferredAffinity": ("preferred", "preferred", 1),
    "preferredAntiAffinity": ("preferred", "preferred", -1)}


def affinity_around(pod: FullPod, snapshot: FullSnapshot) -> dict:
    """Return what the terms of a pod and of all others say, {what: {(topology key, value): weight}}."""
    placed = placed_terms(snapshot)
    if not (placed.numbers or pod.is_affine):  # as in most clusters, so that this takes no time
        return collections.defaultdict(collections.Counter)
    near = placed.index.find("", labels_to_look_up(pod))
    own, _ = affinity_terms(pod)
    terms = itertools.chain(*own.values(), (term for _, term in near))
    namespaces = [snapshot.objects["namespaces"] for term in terms if term.namespace_selector]
    basis = weakref.ref(pod), snapshot.memory.version, namespaces  # the same for predicate and priority
    return memo("around", snapshot, basis, lambda: sum_up(own, near, placed.numbers, pod, snapshot))


def sum_up(own, near, numbers, pod, snapshot):
    """Sum up what a pod's own terms say, and those of others that may select it; see `affinity_around`.

    near: of others, (name of a list, term). numbers: {such a pair: {node: how many pods there have it}}.
    """
    around: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)

    def add(what, keys, weight, numbers):
        """Add what a term says of the domains of nodes with so many pods."""
        for name, number in numbers.items():
            labels = snapshot.nodes[name].labels
            for key in keys & labels.keys():
                around[what][key, labels[key]] += weight * number

    for list_name, (what, _, sign) in EFFECTS_OF_TERMS.items():
        terms = own[list_name]
        one_by_one = [[term] for term in terms]
        has_to_meet_all = what == "together" and terms  # of the others, one pod has to
        for group in [terms] if has_to_meet_all else one_by_one:
            add(what, {term.key for term in group}, sign * group[0].weight, selected_by(group, snapshot))
    for list_name, term in near:
        _, what, sign = EFFECTS_OF_TERMS[list_name]
        if term.selects(pod, snapshot):
            add(what, {term.key}, sign * term.weight, numbers[list_name, term])
    return around


IN_GENERAL = "node(s) didn't match pod affinity/anti-affinity"  # which of the two follows
NO_AFFINITY = Unresolvable("node(s) didn't match pod affinity rules")
OWN_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
ANTI_AFFINITY_OF_OTHERS = "node(s) didn't satisfy existing pods anti-affinity rules"
AffineDomains = collections.namedtuple("AffineDomains", "keys may_begin together apart repelling")


def affine_domains(pod, nodes, snapshot):
    """Where the pod must be, and must not be, by the inter-pod affinity of all pods. Domains are labels.

    By each of the `keys` it must be in a domain with pods that meet all its terms (`together`). If there are
    none yet, and it meets them itself, any will do (`may_begin`).
    `apart` are the domains with pods that it must not be with; `repelling` those with pods that refuse it.
    """
    terms, problem = affinity_terms(pod)
    if problem:
        raise Rejected(problem)
    around = affinity_around(pod, snapshot)
    wanted = terms["requiredAffinity"]
    if not (wanted or around["apart"] or around["repelling"]):
        return SKIP
    may_begin = not around["together"] and all(term.selects(pod, snapshot) for term in wanted)
    domains = [set(around[what]) for what in ("together", "apart", "repelling")]
    return AffineDomains({term.key for term in wanted}, may_begin, *domains)


@predicate("MatchInterPodAffinity", metadata=affine_domains, plugin="InterPodAffinity", by_default=1,
           steady=True,
           looks_at={"required pod affinity": functools.partial(requires, "podAffinity"),
                     "required pod anti-affinity": functools.partial(requires, "podAntiAffinity")})
def match_inter_pod_affinity(pod, node, metadata):
    """In the node's domains are the pods that it must be with, none that it must not, none that repel it."""
    here = node.labels.items()
    if metadata.may_begin:
        has_company = metadata.keys <= node.labels.keys()
    else:
        has_company = all((key, node.labels.get(key)) in metadata.together for key in metadata.keys)
    reason: str
    if not has_company:
        reason = NO_AFFINITY
    elif not metadata.apart.isdisjoint(here):
        reason = OWN_ANTI_AFFINITY
    elif not metadata.repelling.isdisjoint(here):
        reason = ANTI_AFFINITY_OF_OTHERS
    else:
        return
    yield IN_GENERAL
    yield reason


def affine_scores(pod, nodes, snapshot, hard_weight=1):
    """For each (topology key, value) domain, the weights of the terms for and against the pod's going there.

    hard_weight: of other pods' required terms.
    """
    _, problem = affinity_terms(pod)
    if problem:
        raise Unschedulable(f'running PreScore plugin "InterPodAffinity": {problem}')
    around = affinity_around(pod, snapshot)
    if not around:
        return {}
    scores = collections.Counter(around["preferred"])
    for domain, count in around["attached"].items():  # to pods that must be where this one is
        scores[domain] += count * hard_weight
    return scores


def normalize_affinity(points, among=(0,)):
    """Stretch scores from the lowest to the highest, with a 0 among them, to 0 to 100."""
    scores = [*points.values(), *among]
    low = min(scores)
    high = max(scores)
    span = high - low
    return {name: int(100 * ((score - low) / span)) if span else 0 for name, score in points.items()}


@priority("InterPodAffinityPriority", metadata=affine_scores, reduce=normalize_affinity,
          plugin="InterPodAffinity", by_default=1, steady=True)
def inter_pod_affinity(pod, node, metadata):
    """The summed weights of the preferences for and against the domains that the node is in."""
    return sum([metadata[pair] for pair in node.labels.items()]) if metadata else 0
