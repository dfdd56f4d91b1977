"""What tests of preemption share: Policies, budgets, priority classes."""

import pytest
from scheduler_extras.api.proxy import PooledProxy
from scheduler_extras.common.errors import ApiError
from scheduler_extras.policy.policy import CONFIGURATION_VERSION
from scheduler_extras.policy.reading import read_policy
from helpers.extras import DEFAULT_PREDICATES, MANDATORY_PREDICATES, pod


POLICY = {"kind": "Policy", "apiVersion": "v1", "priorities": [],
          "predicates": [{"name": name} for name in [*DEFAULT_PREDICATES, *MANDATORY_PREDICATES, "Preemption"]]}


def built(document=POLICY):
    """A Policy as the loop takes it."""
    return {"my-scheduler": read_policy(document)}


def running(name, on, priority=0, cpu="1", start=10, **options):
    """A pod that has run on a node since some second."""
    status = {"phase": "Running", **({"startTime": f"2020-01-01T00:00:{start}Z"} if start else {})}
    return pod(name, {"cpu": cpu}, nodeName=on, priority=priority, status=status, **options)


def incoming(cpu="1", priority=10, nominated=None, name="p", **options):
    """A pod that needs room."""
    return pod(name, {"cpu": cpu}, priority=priority, status={"nominatedNodeName": nominated}, **options)


def budget(allowed, app="a", namespace="default", name="budget", **status):
    """A PodDisruptionBudget for the pods of an app, of which some may go; or of a selector."""
    return {"kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": app}} if isinstance(app, str) else app},
            "status": {"disruptionsAllowed": allowed, **status}}


def apart(app, **more):
    """An affinity that wants no node where pods of an app are."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app, **more}}}]}}


def configured(**profile):
    """A KubeSchedulerConfiguration with one profile, as the loop takes it."""
    from scheduler_extras.configuration.reading import read_configuration  # the folder may be deleted
    return read_configuration(configuration(**profile), "my-scheduler")


def configuration(**profile):
    """A KubeSchedulerConfiguration with one profile."""
    return {"apiVersion": CONFIGURATION_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


GOING = {"deletionTimestamp": "2020-01-01T00:01:00Z"}


A, PORT = {"app": "a"}, [{"name": "main", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 80}]}]


LEVELS = {"abyss": -2**31, "low": 0, "middle": 5, "high": 20, "p10": 110, "p30": 130, "p50": 150, "never": 140}


@pytest.fixture
def contested(control_plane):
    """A control plane with priority classes, and without the budgets of an earlier test."""
    api = PooledProxy(control_plane.server)
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
