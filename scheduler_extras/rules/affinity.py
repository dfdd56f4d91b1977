"""Rules of inter-pod affinity and anti-affinity: the predicate MatchInterPodAffinity, and its priority.

`affinity_around` evaluates the terms once per pod, for both rules.
"""

import collections
import functools
import hashlib
import itertools
import marshal
import weakref

from scheduler_extras.common.errors import Malformed, Unschedulable
from scheduler_extras.deciding.answers import recall
from scheduler_extras.deciding.rule import SKIP, WHEN, Rejected, predicate, priority, requires
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import label_selector, labels_match, pod_selector
from scheduler_extras.reading.pods_and_nodes import kept_with_pod
from scheduler_extras.rules.counting import count_pods


# Terms say where a pod is welcome: its own ones do, and those of all pods that are placed. `affinity_around`
# has all that they say, by domains; a domain is a (topology key, value). From that, `affine_domains` has
# where the pod must be and must not be, for the predicate; `affine_scores` where it is welcome, for the
# priority. How many pods a term selects, and on which nodes, is remembered by the term: pods of many kinds
# share it.


class AffinityTerm:
    """A term of inter-pod affinity or anti-affinity of a pod. Raises InvalidSelector."""

    __slots__ = "__weakref__", "key", "meaning", "namespace_selector", "namespaces", "requirements", "weight"

    def __init__(self, pod, term, weight, meaning):
        self.meaning = meaning  # that of terms which say the same
        self.weight = weight
        self.key = pick(term, str, "topologyKey")
        self.requirements = pod_selector(term, pod)
        selector = term.get("namespaceSelector")
        self.namespace_selector = None if selector is None else label_selector(selector)
        by_default = [pod.namespace] if selector is None else []
        self.namespaces = pick(term, list, "namespaces", of=str) or by_default

    def labels(self):
        """Return labels, (key, value), of which each pod that the term selects has one; else [None]."""
        for key, operator, values in self.requirements:
            if operator == "In":
                return [(key, value) for value in dict.fromkeys(values)]
        return [None]

    def selects(self, pod, snapshot):
        """Return whether the term selects this pod."""
        if not labels_match(pod.labels, self.requirements):
            return False
        if pod.namespace in self.namespaces:
            return True
        if not self.namespace_selector:  # {} selects all namespaces; null, no other one
            return self.namespace_selector is not None
        namespace = snapshot.objects["namespaces"].get(pod.namespace, {})
        return labels_match(pick(namespace, dict, "metadata", "labels"), self.namespace_selector)


# Meaning -> the one AffinityTerm that says it, of whatever pods.
TERMS: weakref.WeakValueDictionary[bytes, AffinityTerm] = weakref.WeakValueDictionary()


def affinity_term(pod, term, weight):
    """Return the one AffinityTerm that says what a term of a pod says."""
    own_labels = dict(pod.labels) if "matchLabelKeys" in term or "mismatchLabelKeys" in term else None
    data = marshal.dumps([term, weight, pod.namespace, own_labels], 2)
    meaning = hashlib.blake2b(data, digest_size=16).digest()
    known = TERMS.get(meaning)
    return known or TERMS.setdefault(meaning, AffinityTerm(pod, term, weight, meaning))


# Name of a list of terms -> how it is named in a pod's spec: podAffinity and podAntiAffinity have two each.
LISTS = {when + side: (when, side)
         for when, side in itertools.product(("required", "preferred"), ("Affinity", "AntiAffinity"))}


def raw_terms(pod, when, side):
    """Return a list of terms of a pod, as the API has it. Raises Malformed."""
    return pick(pod.spec, list, "affinity", f"pod{side}", f"{when}{WHEN}", of=dict)


@kept_with_pod
def affinity_terms(pod):
    """The pod's {name of a list: its affinity terms, none if one is invalid}; and what is invalid."""
    lists = {list_name: [] for list_name in EFFECTS_OF_TERMS}
    if not pod.is_affine:  # as most pods, so that this takes no time
        return lists, None
    problem = None
    for list_name, (when, side) in LISTS.items():
        alike = {}  # serialized term -> [one such term, the sum of the weights of all]
        try:
            for raw in raw_terms(pod, when, side):
                term = pick(raw, dict, "podAffinityTerm") or raw
                same = alike.setdefault(marshal.dumps(term, 2), [term, 0])
                same[1] += pick(raw, int, "weight") or 1
            lists[list_name] = [affinity_term(pod, term, weight) for term, weight in alike.values()]
        except Malformed as error:
            problem = f"parsing pod: {list_name}Terms: {error}"  # as upstream, the last one
    return lists, problem


def selected_by(terms, snapshot):
    """Return {node: how many pods there all of these terms select}."""
    cache_key = b"".join(term.meaning for term in terms)
    namespaces = [snapshot.objects["namespaces"] for term in terms if term.namespace_selector]
    return recall(
        "selected", cache_key, snapshot, snapshot.nodes,
        lambda node: count_pods(node, lambda pod: all(term.selects(pod, snapshot) for term in terms)),
        namespaces)


def labels_of(term):
    """Return labels, (key, value), of which each pod has one that a term (JSON) selects; [None]: maybe not.

    Raises AttributeError, KeyError or TypeError if it is malformed.
    """
    selector = term.get("labelSelector") or {}
    labels = selector.get("matchLabels")
    if labels:
        return [next(iter(labels.items()))]
    expressions = selector.get("matchExpressions") or ()
    chosen = next((each for each in expressions if each["operator"] == "In"), None)
    return [(chosen["key"], value) for value in chosen["values"]] if chosen else [None]


@kept_with_pod
def labels_in_terms(pod):
    """Return labels such that a pod needs one of them to be selected by a term of this pod; None: unknown.

    A pod may have very many terms, most of which are never needed, so they are not parsed here.
    """
    labels = set()
    try:
        for when, side in LISTS.values():
            for raw in raw_terms(pod, when, side):
                labels.update(labels_of(raw.get("podAffinityTerm") or raw))
    except (AttributeError, KeyError, Malformed, TypeError):  # reported where the terms are parsed
        labels.add(None)
    return labels


@kept_with_pod
def terms_by_label(pod):
    """Return the terms of a pod, {label that a pod has which the term selects, or None: [(list, term)]}."""
    found = collections.defaultdict(list)
    for list_name, terms in affinity_terms(pod)[0].items():
        for term in terms:
            for label in term.labels():
                found[label].append((list_name, term))
    return found


@kept_with_pod
def terms_key(pod):
    """Return a key that is equal for pods with equal terms, such as those of one Deployment."""
    affinity = pod.spec["affinity"]  # if it is malformed, parsing the terms reports it
    data = marshal.dumps([affinity.get("podAffinity"), affinity.get("podAntiAffinity"), pod.namespace,
                          dict(pod.labels)], 2)
    return hashlib.blake2b(data, digest_size=16).digest()


# Pods with equal terms on a node: one of them, the node's labels, and their number.
AffinePods = collections.namedtuple("AffinePods", "pod node_labels number")


def affine_pods_on(node):
    """Return the pods with affinity on a node, {(name of the node, key of the terms): AffinePods}."""
    alike = collections.defaultdict(list)
    for pod in node.pods.values():
        if pod.is_affine:
            alike[node.name, terms_key(pod)].append(pod)
    return {key: AffinePods(pods[0], node.labels, len(pods)) for key, pods in alike.items()}


def updated_term_index(index, before, now):
    """Return the term index, {label: {key: AffinePods}}, updated for some nodes.

    before, now: {name of a node: its affine_pods_on}.
    """
    index = dict(index)
    copied = set()

    def pods_to_change(label):
        """Return the AffinePods of a label for changing, copied once from the old index."""
        if label not in copied:
            copied.add(label)
            index[label] = dict(index[label])
        return index[label]

    for name, there in now.items():
        were_there = before.get(name, {})
        for key in [key for key, affine_pod in were_there.items() if there.get(key) != affine_pod]:
            for label in labels_in_terms(were_there[key].pod):
                del pods_to_change(label)[key]
                if not index[label]:
                    del index[label]
                    copied.discard(label)
        for key in [key for key, affine_pod in there.items() if were_there.get(key) != affine_pod]:
            labels = labels_in_terms(there[key].pod)
            known = index.keys() & labels
            for label in known:
                pods_to_change(label)[key] = there[key]
            # New labels, of which there may be thousands, share a dict until one changes.
            alone = {key: there[key]}
            index.update(dict.fromkeys(labels - known, alone))
    return index


def term_index(snapshot):
    """Return the placed pods with affinity, by the labels that their terms need, {label: {key: AffinePods}}.

    The cache updates it outside the time slices of pods.
    """
    return recall("term index", "", snapshot, snapshot.nodes, affine_pods_on, change=updated_term_index,
                  then=lambda nodes, on_nodes: updated_term_index({}, {}, on_nodes))


def terms_about(pod, snapshot):
    """Return terms of placed pods that may select this pod: [(name of a list, term, domain, how often)]."""
    of_all = term_index(snapshot)
    labels = None, *pod.labels.items()
    near = {key: found for label in labels for key, found in of_all.get(label, {}).items()}
    terms = {}  # what terms say -> those that may select the pod
    about = []
    for (_, meaning), (affine_pod, node_labels, number) in near.items():
        if meaning not in terms:
            by_label = terms_by_label(affine_pod)
            terms[meaning] = [each for label in labels for each in by_label.get(label, ())]
        about += [(list_name, term, (term.key, node_labels[term.key]), number)
                  for list_name, term in terms[meaning] if term.key in node_labels]
    return about


# List of terms -> what a pod's own make of the domains of pods that they select; what those of others that
# select the pod make of these others' domains; and how often.
EFFECTS_OF_TERMS = {
    "requiredAffinity": ("together", "attached", 1), "requiredAntiAffinity": ("apart", "repelling", 1),
    "preferredAffinity": ("preferred", "preferred", 1),
    "preferredAntiAffinity": ("preferred", "preferred", -1)}


def affinity_around(pod, snapshot):
    """Return what the terms of a pod and of all others say, {what: {(topology key, value): weight}}."""
    own, _ = affinity_terms(pod)
    if not (term_index(snapshot) or pod.is_affine):  # as in most clusters, so that this takes no time
        return collections.defaultdict(collections.Counter)
    now = weakref.ref(pod), snapshot.memory.version  # the same for predicate and priority
    near = recall("near", "", snapshot, {}, None, now, lambda *_: terms_about(pod, snapshot))
    terms = itertools.chain(*own.values(), (term for _, term, _, _ in near))
    namespaces = [snapshot.objects["namespaces"] for term in terms if term.namespace_selector]
    basis = now, namespaces
    return recall("around", "", snapshot, {}, None, basis, lambda *_: sum_up(own, near, pod, snapshot))


def sum_up(own, near, pod, snapshot):
    """Sum up what a pod's own terms say, and those of others that may select it; see `affinity_around`."""
    around = collections.defaultdict(collections.Counter)
    for list_name, (what, _, sign) in EFFECTS_OF_TERMS.items():
        terms = own[list_name]
        one_by_one = [[term] for term in terms]
        has_to_meet_all = what == "together" and terms  # of the others, one pod has to
        for group in [terms] if has_to_meet_all else one_by_one:
            weight = sign * group[0].weight
            keys = {term.key for term in group}
            selected = selected_by(group, snapshot)
            for name in [name for name, number in selected.items() if number]:
                labels = snapshot.nodes[name].labels
                for key in keys & labels.keys():
                    around[what][key, labels[key]] += weight * selected[name]
    selects = functools.cache(lambda term: term.selects(pod, snapshot))
    for list_name, term, domain, number in near:
        _, what, sign = EFFECTS_OF_TERMS[list_name]
        if selects(term):
            around[what][domain] += sign * term.weight * number
    return around


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
    if not has_company:
        reason = "node(s) didn't match pod affinity rules"
    elif not metadata.apart.isdisjoint(here):
        reason = "node(s) didn't match pod anti-affinity rules"
    elif not metadata.repelling.isdisjoint(here):
        reason = "node(s) didn't satisfy existing pods anti-affinity rules"
    else:
        return
    yield "node(s) didn't match pod affinity/anti-affinity"
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
