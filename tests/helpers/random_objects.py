"""Random objects, and Policies and rules for them."""

import copy
import itertools

import pytest

from helpers.extras import DEFAULT_PREDICATES
from scheduler_extras.deciding.rule import PREDICATES, PRIORITIES
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.policy.own_rules import predicate, priority


ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
EVERYTHING = [*DEFAULT_PREDICATES, "MatchInterPodAffinity", "EvenPodsSpread"]
POLICIES = {  # the random sequences change between them
    "the default Policy": {},
    "rules that look at other pods": {
        "predicates": [{"name": name} for name in EVERYTHING],
        "priorities": [{"name": name, "weight": 1 + i % 3} for i, name in enumerate((
            "SelectorSpreadPriority", "InterPodAffinityPriority", "EvenPodsSpreadPriority", "ImageLocalityPriority"))]},
    "all predicates run": {"alwaysCheckAllPredicates": True, "hardPodAffinitySymmetricWeight": 7},
    "rules with arguments, and RandomPriority": {
        "predicates": [{"name": "GeneralPredicates"},
                       {"name": "labels", "argument": {"labelsPresence": {"labels": ["disk"], "presence": True}}},
                       {"name": "services", "argument": {"serviceAffinity": {"labels": [ZONE]}}}],
        "priorities": [{"name": "RandomPriority", "weight": 1}, {"name": "LeastRequestedPriority", "weight": 1},
                       {"name": "apart", "weight": 2, "argument": {"serviceAntiAffinity": {"label": ZONE}}}]},
    "custom rules that are not declared steady": {
        "predicates": [{"name": "Changing"}], "priorities": [{"name": "ChangingPriority", "weight": 1}]},
    "no rules": {"predicates": [], "priorities": []},
    "two priorities with the same name": {"predicates": [], "priorities": [
        {"name": "x", "weight": 2, "argument": {"labelPreference": {"label": "disk", "presence": True}}},
        {"name": "x", "weight": 3, "argument": {"serviceAntiAffinity": {"label": ZONE}}}]},
}


VERSIONS = itertools.count(1)


class Server(Manifests):
    """A cluster whose objects get a new resourceVersion with each change, as in the API server."""

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
    """All parts of a decision, in their order."""
    return (decision.node, decision.message, list(decision.failed.items()), list(decision.total.items()),
            [(title, list(scores.items())) for title, scores in decision.raw.items()],
            [(title, list(scores.items())) for title, scores in decision.scores.items()])


SELECTORS = [
    {"matchLabels": {"app": "x"}}, {"matchLabels": {"app": "y", "team": "a"}}, {"matchLabels": {"team": "b"}}, {}, None,
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]},
    {"matchExpressions": [{"key": "team", "operator": "Exists"}], "matchLabels": {"app": "z"}},
    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}]
INVALID = {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}  # no API server accepts it
OWNERS = {"Service": "v1", "ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}


def random_owner(dice, namespaces="nm", invalid=0.05):
    """A random Service, ReplicaSet, ... in one of these namespaces."""
    kind = dice.choice([*OWNERS])
    selector = INVALID if dice.random() < invalid else dice.choice(SELECTORS)
    if kind in ("Service", "ReplicationController"):
        selector = (selector or {}).get("matchLabels")
    return {"apiVersion": OWNERS[kind], "kind": kind, "metadata": {"name": dice.choice("abcde"), "namespace": dice.choice(namespaces)},
            "spec": {"selector": selector}, "status": {"replicas": dice.randrange(9)}}


DEFAULTS = {"kind": "Policy", "apiVersion": "v1"}


@pytest.fixture
def changing_rules(seeded):
    """Custom rules with answers that depend on a number, which the test changes."""
    state = [0]

    @predicate("Changing")
    def changing(pod, node):
        """The number does not exclude the node."""
        if (len(node.name) + ord(node.name[-1]) + state[0]) % 3 == 0:
            yield "excluded for now"

    @priority("ChangingPriority")
    def changing_priority(pod, node):
        """The points of the node for this number."""
        return (ord(node.name[-1]) * 7 + state[0]) % 101

    yield state
    del PREDICATES["Changing"], PRIORITIES["ChangingPriority"]
