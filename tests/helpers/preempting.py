"""Helpers for the tests of preemption: Policies, pods, budgets, priority classes."""

import contextlib
import re

import pytest

from helpers.extras import DEFAULT_PREDICATES, MANDATORY_PREDICATES, cluster_of, pending_pods, pod, run_pass
from scheduler_extras.api.client import ApiClient
from scheduler_extras.common.errors import ApiError, Malformed
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.reading.pods_and_nodes import FullPod


POLICY = {"kind": "Policy", "apiVersion": "v1", "priorities": [],
          "predicates": [{"name": name} for name in [*DEFAULT_PREDICATES, *MANDATORY_PREDICATES, "Preemption"]]}


def built(document=POLICY):
    """A Policy in the form that the loop takes."""
    return {"my-scheduler": read_policy(document)}


def running(name, on, priority=0, cpu="1", start=10, **options):
    """A pod that has run on a node since the given second."""
    status = {"phase": "Running", **({"startTime": f"2020-01-01T00:00:{start}Z"} if start else {})}
    return pod(name, {"cpu": cpu}, nodeName=on, priority=priority, status=status, **options)


def incoming(cpu="1", priority=10, nominated=None, name="p", **options):
    """A pending pod that needs room."""
    return pod(name, {"cpu": cpu}, priority=priority, status={"nominatedNodeName": nominated}, **options)


def budget(allowed, app="a", namespace="default", name="budget", **status):
    """A PodDisruptionBudget that allows this many disruptions. app: the label of its pods, or a selector."""
    return {"kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": app}} if isinstance(app, str) else app},
            "status": {"disruptionsAllowed": allowed, **status}}


def anti_affinity(app, **more):
    """Required anti-affinity to the pods of an app, by host."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app, **more}}}]}}


def configured(**profile):
    """A KubeSchedulerConfiguration with one profile, in the form that the loop takes."""
    from helpers.configuration import read_configuration  # the folder may be deleted
    return read_configuration(configuration(**profile), "my-scheduler")


def configuration(**profile):
    """A KubeSchedulerConfiguration with one profile."""
    return {"apiVersion": CONFIGURATION_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


TERMINATING = {"deletionTimestamp": "2020-01-01T00:01:00Z"}


A, PORT = {"app": "a"}, [{"name": "main", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 80}]}]


LEVELS = {"abyss": -2**31, "low": 0, "middle": 5, "high": 20, "p10": 110, "p30": 130, "p50": 150, "never": 140}


@pytest.fixture
def contested(control_plane):
    """A control plane with priority classes; the budgets are deleted after the test."""
    api = ApiClient(control_plane.server)
    for name, value in LEVELS.items():
        try:
            api.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {
                "metadata": {"name": name}, "value": value,
                "preemptionPolicy": "Never" if name == "never" else "PreemptLowerPriority"})
        except ApiError as error:
            assert error.status == 409
    yield control_plane
    api.request("DELETE", BUDGETS)


BUDGETS = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"


def victim(name, on, **options):
    """A terminating pod that was preempted."""
    thing = running(name, on, metadata=TERMINATING, **options)
    thing["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    return thing


OFF = {"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}


def decide(objects, policies=None, name="p"):
    """Return the decision about a pod, after postFilter, and its snapshot."""
    policies = policies or built()
    cluster = cluster_of(*objects, budget(9, "nobody", name="idle"))
    [waiting] = [waiting for waiting in pending_pods(cluster, policies) if waiting.name == name]
    snapshot = cluster.refresh_snapshot(policies)
    snapshot.nominated = nominated_among(objects)
    decision = schedule(waiting, snapshot, policies["my-scheduler"])
    policies["my-scheduler"].run_post_filter(decision, snapshot)
    return decision, snapshot


def nominated_among(objects):
    """The pending pods that have a nominated node."""
    pods = []
    for thing in objects:
        with contextlib.suppress(Malformed):
            pods += [FullPod(thing)] if thing["kind"] == "Pod" else []
    return [each for each in pods if each.nominated_node and not each.node_name]


def sent(decision, method, pattern):
    """Return {the first group of a pattern in the path: body} for the requests of a decision."""
    return {match.group(1): body for verb, path, body in decision.requests
            if verb == method and (match := re.search(pattern, path))}


HOST = {"kubernetes.io/hostname": "n"}


def make_pass(cluster, policies):
    """Run a pass; return the decisions once all requests are answered."""
    decisions = {}
    run_pass(cluster, policies, lambda decision: decisions.update({id(decision): decision}))
    cluster.results.finish(60)
    return [*decisions.values()]
