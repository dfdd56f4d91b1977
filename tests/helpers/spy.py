"""A rule with every extension point."""

from pathlib import Path

import pytest

from helpers.extras import ROOT, new_cluster, run_pass, wait_for_writes
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.writer import Writer
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.policy_reader import read_policy


RULES = ROOT / "scheduler_extras" / "examples" / "tutorial_rules.py"
SAMPLE = {"favorite_color": "#326CE5", "favorite_number": 7, "thanks_to": "thockin"}


def policy(predicates=(), priorities=(), **more):
    """A Policy with these rules, given as names or as whole entries."""
    return {"kind": "Policy", "apiVersion": "v1", **more,
            "predicates": [{"name": entry} if isinstance(entry, str) else entry for entry in predicates],
            "priorities": [{"name": entry, "weight": 1} if isinstance(entry, str) else entry for entry in priorities]}


def built(*arguments, **options):
    """A Policy in the form that the loop takes, as the only profile."""
    return {"my-scheduler": read_policy(policy(*arguments, **options))}


class Spy:
    """A rule with every extension point, which records its calls, and returns the answers that the test has set."""

    def __init__(self):
        self.seen, self.answers = [], {}

        def hook(name):
            def record(first, *rest):
                self.seen.append(name)
                answer = self.answers.get(name)
                if isinstance(answer, Exception):
                    raise answer
                return answer(first, *rest) if callable(answer) else answer
            return record

        points = ["pre_enqueue", "post_filter", "reserve", "unreserve", "permit", "pre_bind", "bind", "post_bind"]

        def function(pod, node, metadata):
            self.seen.append("filter")
            return self.answers.get("filter", [])

        def score(pod, node, metadata):
            self.seen.append("score")
            return 7

        def reduce(points):
            self.seen.append("reduce")
            return points

        rules = [FullRule("Spy", function, metadata=hook("pre_filter"), title="Spy",
                                hooks={"queue_sort": self.sort} | {point: hook(point) for point in points}),
                 FullRule("Spy", score, metadata=hook("pre_score"), reduce=reduce, title="Spy")]
        self.policies = {"my-scheduler": FullPolicy(rules[:1], rules[1:])}

    def sort(self, pod):
        """Sort by name, in descending order."""
        return -ord(pod.name[0])


LINE = Path(__file__).read_text().partition("raise answer\n")[0].count("\n") + 1  # the line where a Spy raises
OOPS = f"RuntimeError in record: oops (spy.py, line {LINE})"


@pytest.fixture
def spy():
    return Spy()


def make_pass(server, spy, cluster=None):
    """Run a pass; return the cluster and the decisions."""
    cluster, decisions = cluster or new_cluster(server), []
    run_pass(cluster, spy.policies, decisions.append)
    cluster.results.handle(patience=60)
    wait_for_writes(cluster)
    return cluster, decisions


def live_cluster(server):
    """A cluster with the Writer of live clusters, whose objects other programs may change."""
    server.kind_of_writer = Writer
    return new_cluster(server)
