"""Random objects and rules, and what the plain loops say of them."""

import copy
import itertools

import pytest

from helpers.extras import DEFAULT_PREDICATES
from scheduler_extras.deciding.rule import PREDICATES, PRIORITIES
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.policy.own_rules import predicate, priority


ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
EVERYTHING = [*DEFAULT_PREDICATES, "MatchInterPodAffinity", "EvenPodsSpread"]
POLICIES = {  # several, between which the sequences change
    "the default Policy": {},
    "rules that look at other pods": {
        "predicates": [{"name": name} for name in EVERYTHING],
        "priorities": [{"name": name, "weight": 1 + i % 3} for i, name in enumerate((
            "SelectorSpreadPriority", "InterPodAffinityPriority", "EvenPodsSpreadPriority", "ImageLocalityPriority"))]},
    "all predicates are asked": {"alwaysCheckAllPredicates": True, "hardPodAffinitySymmetricWeight": 7},
    "rules with arguments, and chance": {
        "predicates": [{"name": "GeneralPredicates"},
                       {"name": "labels", "argument": {"labelsPresence": {"labels": ["disk"], "presence": True}}},
                       {"name": "services", "argument": {"serviceAffinity": {"labels": [ZONE]}}}],
        "priorities": [{"name": "RandomPriority", "weight": 1}, {"name": "LeastRequestedPriority", "weight": 1},
                       {"name": "apart", "weight": 2, "argument": {"serviceAntiAffinity": {"label": ZONE}}}]},
    "rules of one's own that do not say that they are steady": {
        "predicates": [{"name": "Moody"}], "priorities": [{"name": "MoodyPriority", "weight": 1}]},
    "no rules": {"predicates": [], "priorities": []},
    "two priorities under one name": {"predicates": [], "priorities": [
        {"name": "x", "weight": 2, "argument": {"labelPreference": {"label": "disk", "presence": True}}},
        {"name": "x", "weight": 3, "argument": {"serviceAntiAffinity": {"label": ZONE}}}]},
}


VERSIONS = itertools.count(1)


class Server(Manifests):
    """A cluster whose objects get a new resourceVersion whenever they change, like the API server's."""

    def put(self, thing):
        """Create or replace an object."""
        thing = copy.deepcopy(thing)
        thing["metadata"]["uid"] = thing["metadata"].get("uid") or f"uid-{thing['kind']}-{thing['metadata']['name']}"
        thing["metadata"]["resourceVersion"] = str(next(VERSIONS))
        self.add(thing)

    def all(self, resource):
        """Return the objects of a resource."""
        return [thing for key, thing in self.objects.items() if key[0] == resource]

    def delete(self, thing):
        """Delete an object."""
        self.objects = {key: other for key, other in self.objects.items() if other is not thing}


def everything(decision):
    """All that there is to a decision, in its order."""
    return (decision.node, decision.message, list(decision.failed.items()), list(decision.total.items()),
            [(title, list(scores.items())) for title, scores in decision.raw.items()],
            [(title, list(scores.items())) for title, scores in decision.scores.items()])


SELECTORS = [
    {"matchLabels": {"app": "x"}}, {"matchLabels": {"app": "y", "team": "a"}}, {"matchLabels": {"team": "b"}}, {}, None,
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]},
    {"matchExpressions": [{"key": "team", "operator": "Exists"}], "matchLabels": {"app": "z"}},
    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}]
INVALID = {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}  # which no API server lets pass
OWNERS = {"Service": "v1", "ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}


def random_owner(dice, namespaces="nm", invalid=0.05):
    """A Service, a ReplicaSet, ... in one of some namespaces."""
    kind = dice.choice([*OWNERS])
    selector = INVALID if dice.random() < invalid else dice.choice(SELECTORS)
    if kind in ("Service", "ReplicationController"):
        selector = (selector or {}).get("matchLabels")
    return {"apiVersion": OWNERS[kind], "kind": kind, "metadata": {"name": dice.choice("abcde"), "namespace": dice.choice(namespaces)},
            "spec": {"selector": selector}, "status": {"replicas": dice.randrange(9)}}


DEFAULTS = {"kind": "Policy", "apiVersion": "v1"}


@pytest.fixture
def moody(seeded):
    """Rules that answer by a mood, which changes."""
    mood = [0]

    @predicate("Moody")
    def moody(pod, node):
        """The mood does not forbid the node."""
        if (len(node.name) + ord(node.name[-1]) + mood[0]) % 3 == 0:
            yield "in no mood"

    @priority("MoodyPriority")
    def moody_priority(pod, node):
        """The mood for the node."""
        return (ord(node.name[-1]) * 7 + mood[0]) % 101

    yield mood
    del PREDICATES["Moody"], PRIORITIES["MoodyPriority"]
