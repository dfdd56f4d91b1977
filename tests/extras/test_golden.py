"""The decisions of kube-scheduler 1.20.2 itself (tests/golden/), one by one."""

import contextlib
import copy
import gzip
import json
import random
import re
from pathlib import Path

import pytest
from helpers.everything import scheduler
from helpers.extras import a_cluster, a_pass, cluster_of, pending_pods, run_scheduler

GOLDEN = [json.loads(line) for line in gzip.open(Path(__file__).parents[1] / "golden" / "decisions.jsonl.gz", "rt")]


def policy_of(case):
    """The case's Policy, built."""
    return scheduler.read_policy(dict(case["policy"]))


PLUGIN = {rule.name: rule.plugin for rule in [*scheduler.PREDICATES.values(), *scheduler.PRIORITIES.values()]} | {
    "LeastRequestedPriority": "NodeResourcesLeastAllocated", "MostRequestedPriority": "NodeResourcesMostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
    "EvenPodsSpreadPriority": "PodTopologySpread", "CheckNodeLabelPresence": "NodeLabel",
    "CheckServiceAffinity": "ServiceAffinity"}


def by_plugin(policy, of):
    """Rename what is sorted by rule after the plugins, as kube-scheduler's answers are."""
    names = {rule.title: PLUGIN.get(rule.name, rule.name) for rule in policy.predicates + policy.priorities}
    return {names[title]: value for title, value in of.items()}


CASES = {line["case"]["id"]: line for line in GOLDEN}


def without_rules_for_labels(message):
    """A message without what kube-scheduler adds about the form of label values."""
    return message and re.sub(r'(invalid label value: "[^"]*"): at key.*', r"\1", message)


def differences(expected, decision):
    """What is different between kube-scheduler's decision about a pod and ours, in its JSON form."""
    if "error" in expected:
        ours, theirs = ({"message": without_rules_for_labels(message)}
                        for message in (decision["message"], expected["error"]))
    else:
        reasons = {node: failure["reasons"] for node, failure in expected["first_failed"].items()}
        if expected["prefilter"]:
            reasons = dict.fromkeys(decision["failed"], expected["prefilter"]["reasons"])
        theirs = {"feasible": sorted(expected["feasible"]), "total": expected["total"],
                  "message": expected.get("message"), "failed": {node: sorted(why) for node, why in reasons.items()}}
        ours = {"feasible": sorted(decision["feasible"]), "total": decision["total"], "message": decision["message"],
                "failed": {node: sorted(why) for node, why in decision["failed"].items()}}
        assert decision["node"] in (expected["best"] or [None]), f"{decision['node']} is not one of {expected['best']}"
    return {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}


@pytest.mark.parametrize("name", CASES)
def test_the_decision_is_kube_schedulers(name):
    case, expected = CASES[name]["case"], {pod["pod"]: pod for pod in CASES[name]["expect"]["pods"]}
    policy, cluster = policy_of(case), cluster_of(*case["objects"])
    pods = {pod.key: pod for pod in pending_pods(cluster, {"my-scheduler": policy})}
    assert pods.keys() == {key for key, pod in expected.items() if not pod.get("skipped")}
    for key, pod in pods.items():
        decision = scheduler.schedule(pod, cluster.look({"my-scheduler": policy}), policy)
        assert max(map(len, scheduler.explain(decision, scheduler.Screen()))) <= 80
        assert not differences(expected[key], scheduler.in_json(decision)), f"{key} (theirs, ours)"
        if "error" not in expected[key] and not expected[key]["prefilter"]:
            assert by_plugin(policy, decision.scores) == expected[key]["scores"], key
            for name, against in decision.failed.items():
                theirs = expected[key]["failed" if policy.always_check_all else "first_failed"][name]
                assert by_plugin(policy, against).keys() == (
                    theirs.keys() if policy.always_check_all else {theirs["plugin"]}), (key, name)


@pytest.mark.parametrize("name", list(CASES)[::4])
def test_nothing_changes_where_nothing_is_remembered(name, without_memory):
    test_the_decision_is_kube_schedulers(name)


@pytest.mark.parametrize("name", list(CASES)[::24])
def test_the_command_line_decides_alike(name, tmp_path):
    """A pending pod of the case by itself, since in one run each sees those before it."""
    case, expected = CASES[name]["case"], {pod["pod"]: pod for pod in CASES[name]["expect"]["pods"]}
    (tmp_path / "policy.json").write_text(json.dumps(case["policy"]))

    def key(thing):
        return f"{thing['metadata'].get('namespace', 'default')}/{thing['metadata']['name']}"

    for pod, theirs in list(expected.items())[:1]:
        objects = [thing for thing in case["objects"] if thing["kind"] != "Pod" or key(thing) not in expected
                   or key(thing) == pod]
        (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": objects}))
        run = run_scheduler("--policy", tmp_path / "policy.json", "--cluster", tmp_path / "cluster.json",
                            "--once", "--output=json")
        assert run.returncode == 0, run.stderr
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        assert [line["pod"] for line in lines] == ([] if theirs.get("skipped") else [pod])
        for line in lines:
            assert not differences(theirs, line), f"{pod} (theirs, ours)"


def places_in(thing, path=()):
    """All paths into a JSON value."""
    yield path
    for key in thing if isinstance(thing, dict) else range(len(thing)) if isinstance(thing, list) else ():
        yield from places_in(thing[key], (*path, key))


NONSENSE = [None, 0, -1, 1.5, "x", True, [], {}, "", [None], [1], ["a"], {"a": 1}, "99999999999999999999", "-5", [{}]]


@pytest.mark.parametrize("seed", range(10))
def test_nonsense_in_the_objects_raises_nothing(seed):
    """Clusters of the golden cases in which three values were replaced by something that nobody expects."""
    chance = random.Random(seed)
    for _ in range(30):
        case = copy.deepcopy(chance.choice(GOLDEN)["case"])
        replaced = []
        for _ in range(3):
            thing = target = chance.choice(case["objects"])
            path = chance.choice(list(places_in(thing))[1:])
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = copy.deepcopy(chance.choice(NONSENSE))
            replaced.append((case["id"], path, target[path[-1]]))
        manifests = scheduler.Manifests()
        for thing in case["objects"]:
            with contextlib.suppress(scheduler.Malformed):
                manifests.add(thing)
        decisions, cluster = [], a_cluster(manifests)
        try:
            a_pass(cluster, {"my-scheduler": policy_of(case)}, decisions.append)
        except Exception as error:
            raise AssertionError(f"{replaced}") from error
        assert all(decision.node or decision.message for decision in decisions)
        for decision in decisions:  # each can be shown in every form
            assert json.dumps(scheduler.in_json(decision)) and scheduler.explain(decision, scheduler.Screen())
