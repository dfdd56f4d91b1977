"""Errors in a KubeSchedulerConfiguration, and hints about their fix."""

import pytest
import yaml

import helpers.tutorial  # noqa: F401 (registers the rules of the example)
from helpers.configuration import RULES, configuration, load, plugins, read_configuration, wrong
from helpers.extras import ROOT, run_scheduler, table
from scheduler_extras.common.errors import InputError
from scheduler_extras.deciding.rule import DURING_SCHEDULING


@table("document, message", {
    "an unknown plugin": (configuration({"plugins": {"filter": {"enabled": plugins("NodePort")}}}),
                          'profiles[0].plugins.filter.enabled[0]: unknown plugin "NodePort"; did you mean "NodePorts"'),
    "a typo in the name of a plugin for another point": (
        configuration({"plugins": {"filter": {"enabled": plugins("ImageLocalit")}}}),
        'unknown plugin "ImageLocalit"; is a file missing in --plugins?'),
    "a predicate's name that is not a plugin's": (
        configuration({"plugins": {"filter": {"enabled": plugins("PodFitsResources")}}}),
        'profiles[0].plugins.filter.enabled[0]: unknown plugin "PodFitsResources"'),
    "a predicate's name, whose plugin is suggested": (
        configuration({"plugins": {"filter": {"enabled": plugins("PodToleratesNodeTaints")}}}),
        'unknown plugin "PodToleratesNodeTaints"; did you mean "TaintToleration"?'),
    "a plugin of v1beta1": (
        configuration({"plugins": {"score": {"enabled": plugins("NodeResourcesMostAllocated")}}}),
        'enabled[0]: unknown plugin "NodeResourcesMostAllocated"; use NodeResourcesFit with scoringStrategy.type '
        "MostAllocated"),
    "a plugin of v1beta1 whose name resembles another one": (
        configuration({"plugins": {"score": {"enabled": plugins("NodeResourcesLeastAllocated")}}}),
        'unknown plugin "NodeResourcesLeastAllocated"; use NodeResourcesFit'),
    "a plugin of v1beta1 whose name has changed": (
        configuration({"plugins": {"score": {"enabled": plugins("SelectorSpread")}}}),
        'unknown plugin "SelectorSpread"; use PodTopologySpread with its default constraints'),
    "the algorithmSource of v1alpha1": (configuration(algorithmSource={"provider": "DefaultProvider"}),
                             "algorithmSource: unknown field; leave it out for DefaultProvider; for a Policy, use --policy with "
                             "its file"),
    "the schedulerName of v1alpha1": (
        configuration(schedulerName="x"), "schedulerName: unknown field; use profiles[0].schedulerName, or"),
    "the plugins of v1alpha1": (configuration(plugins={}), "plugins: unknown field; use profiles[0].plugins"),
    "a part of a priority's name": (
        configuration({"plugins": {"score": {"enabled": plugins("LeastRequested")}}}),
        'unknown plugin "LeastRequested"; is a file missing in --plugins?'),
    "an unknown extension point": (configuration({"plugins": {"filters": {}}}),
                                   'profiles[0].plugins.filters: unknown field; did you mean "filter"?'),
    "a removed version": (
        configuration(version="v1beta3"),
        'apiVersion "kubescheduler.config.k8s.io/v1beta3": write kubescheduler.config.k8s.io/v1'),
    "two profiles with the same name": (configuration({"schedulerName": "a"}, {"schedulerName": "a"}),
                                 "profiles[1].schedulerName: each profile needs its own"),
    "two profiles, one without a name": (configuration({"schedulerName": "a"}, {}),
                                         "profiles[1].schedulerName: each profile needs its own"),
    "an argument of the wrong type": (
        configuration({"pluginConfig": [{"name": "sample-plugin", "args": {"favorite_number": "7"}}]}),
        'profiles[0].pluginConfig[0].args.favorite_number: expected a whole number, got "7"'),
    "an argument that the plugin rejects": (
        configuration({"plugins": {"filter": {"enabled": plugins("sample-plugin")}},
                       "pluginConfig": [{"name": "sample-plugin", "args": {"favorite_number": -7}}]}),
        "profiles[0].plugins.filter: sample-plugin: favorite_number must not be negative"),
    "an invalid timeout of an extender": (configuration(extenders=[{"urlPrefix": "http://x", "httpTimeout": "never"}]),
                                       'extenders[0].httpTimeout: expected a duration, such as "30s", got "never"'),
    "a plugin at a point that it does not extend": (
        configuration({"plugins": {"filter": {"enabled": plugins("ImageLocality")}}}),
        'profiles[0].plugins.filter.enabled[0]: plugin "ImageLocality" does not implement filter'),
    "duplicate arguments": (
        configuration({"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 1}}] * 2}),
        'profiles[0].pluginConfig[1]: duplicate arguments for "InterPodAffinity"'),
    "a weight out of range": (
        configuration({"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}}]}),
        "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: expected from 0 to 100, got 101"),
    "an unknown kind of defaulting": (
        configuration({"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "All"}}]}),
        'profiles[0].pluginConfig[0].args.defaultingType: expected one of List, System, got "All"'),
    "incomplete default constraints": (
        configuration({"pluginConfig": [{"name": "PodTopologySpread", "args": {
            "defaultingType": "List", "defaultConstraints": [{"maxSkew": 1}]}}]}),
        "profiles[0].pluginConfig[0].args.defaultConstraints[0]: expected maxSkew, topologyKey and whenUnsatisfiable"),
    "an extender with a prioritizeVerb and no weight": (
        configuration(extenders=[{"urlPrefix": "http://x", "prioritizeVerb": "score"}]),
        "extenders[0].weight: must be positive where there is a prioritizeVerb"),
    "an extender's field with a typo": (
        configuration(extenders=[{"urlPrefx": "http://x"}]),
        'extenders[0].urlPrefx: unknown field; did you mean "urlPrefix"?'),
    "a weight of a balanced resource": (
        configuration({"pluginConfig": [{"name": "NodeResourcesBalancedAllocation", "args": {
            "resources": [{"name": "example.com/gpu", "weight": 2}]}}]}),
        'profiles[0].pluginConfig[0].args.resources[0].weight: expected from 0 to 1, got 2'),
    "an invalid addedAffinity": (
        configuration({"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": {"x": 1}}}]}),
        "profiles[0].pluginConfig[0].args.addedAffinity.x: unknown field"),
    "a negative weight of a plugin": (
        configuration({"plugins": {"score": {"enabled": plugins(NodeAffinity=-1)}}}),
        "profiles[0].plugins.score.enabled[0].weight: expected from 0 to 2147483647, got -1"),
    "a negative weight of a resource": (
        configuration({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
            "resources": [{"name": "cpu", "weight": -1}]}}}]}),
        "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight: expected from 0 to 100, got -1"),
    "an unknown scoring strategy": (
        configuration({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Best"}}}]}),
        "scoringStrategy.type: expected one of LeastAllocated, MostAllocated, RequestedToCapacityRatio, got"),
    "a leaseDuration with too many digits": (configuration(leaderElection={"leaseDuration": "9" * 400 + "h"}),
                                   'leaderElection.leaseDuration: expected a duration, such as "30s", got "99999'),
    "a maximum backoff that is shorter than the initial one": (
        configuration(podInitialBackoffSeconds=5, podMaxBackoffSeconds=4),
        "expected 0 < podInitialBackoffSeconds <= podMaxBackoffSeconds"),
    "a leaseDuration that is not a duration": (configuration(leaderElection={"leaseDuration": "15"}),
                                    'leaderElection.leaseDuration: expected a duration, such as "30s", got "15"'),
    "a leaseDuration that is shorter than the renewDeadline": (configuration(leaderElection={
        "leaderElect": True, "leaseDuration": "5s"}),
                                               "leaderElection: expected leaseDuration > renewDeadline > 1.2 x retryPeriod"),
})
def test_an_invalid_configuration_gives_one_line(document, message, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(document))
    run = run_scheduler("--plugins", RULES, "--policy", path, "--cluster", ROOT / "tests/demo.yaml")
    assert run.returncode == 2
    [line] = run.stderr.splitlines()
    assert line.startswith(f"{path}: ") and message in line


def argued(plugin, message, **args):
    """A row: a plugin's invalid arguments, and the error."""
    return wrong(f"profiles[0].pluginConfig[0].{message}", {"pluginConfig": [{"name": plugin, "args": args}]})


def enabling(message, **points):
    """A row: plugins that cannot be enabled, and the error."""
    return wrong(f"profiles[0].plugins.{message}", {"plugins": {
        point: {"enabled": plugins(*names)} for point, names in points.items()}})


def ratio(**more):
    """A RequestedToCapacityRatio strategy."""
    return {"scoringStrategy": {"type": "RequestedToCapacityRatio", **more}}


REQUIRED, PREFERRED = (f"{how}{DURING_SCHEDULING}" for how in ("required", "preferred"))
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
RATIO = "args.scoringStrategy.requestedToCapacityRatio"
SHAPELESS = "args.scoringStrategy: expected a type, and only for RequestedToCapacityRatio a shape, of ascending utilization"
LONGER = "leaderElection: expected leaseDuration > renewDeadline > 1.2 x retryPeriod"


@table("document, message", {
    # ValidateClientConnectionConfiguration, ValidateLeaderElectionConfiguration, NewLeaderElector
    "a negative burst": wrong("clientConnection.burst: expected from 0 to 2147483647, got -1", clientConnection={"burst": -1}),
    "an unknown resourceLock": wrong('leaderElection.resourceLock: expected leases, got "foo"',
                                         leaderElection={"resourceLock": "foo"}),
    "a renewDeadline of exactly 1.2 retryPeriods, to the nanosecond": wrong(LONGER, leaderElection={"renewDeadline": "3.6s", "retryPeriod": "3s"}),
    "a leaseDuration in a list": wrong('leaderElection.leaseDuration: expected a duration, such as "30s"',
                                leaderElection={"leaseDuration": ["15s"]}),
    "an empty leaseDuration": wrong('leaderElection.leaseDuration: expected a duration, such as "30s", got ""',
                                   leaderElection={"leaseDuration": ""}),
    "a leaseDuration that overflows in Go": wrong(
        'leaderElection.leaseDuration: expected a duration, such as "30s", got "999999999h"',
        leaderElection={"leaseDuration": "999999999h"}),
    "a negative leaseDuration": wrong('leaderElection.leaseDuration: expected a duration, such as "30s", got "-1s"',
                             leaderElection={"leaseDuration": "-1s"}),
    "a leaseDuration equal to the renewDeadline": wrong(LONGER, leaderElection={"leaseDuration": "10s"}),
    "a renewDeadline of 1.2 retryPeriods": wrong(LONGER, leaderElection={"renewDeadline": "2.4s"}),
    # ValidateKubeSchedulerConfiguration
    "a parallelism of 0": wrong("parallelism: expected from 1 to 2147483647, got 0", parallelism=0),
    "more than 100 percent of nodes": wrong("percentageOfNodesToScore: expected from 0 to 100, got 101", percentageOfNodesToScore=101),
    "a negative percentage of nodes": wrong("profiles[0].percentageOfNodesToScore: expected from 0 to 100, got -1",
                            {"percentageOfNodesToScore": -1}),
    "an empty schedulerName": wrong("profiles[0].schedulerName: each profile needs its own", {"schedulerName": ""}),
    "a duplicate schedulerName": wrong("profiles[1].schedulerName: each profile needs its own", *2 * [{"schedulerName": "a"}]),
    "an initial backoff of 0": wrong(f"podInitialBackoffSeconds: expected from 1 to {2**63 - 1}, got 0", podInitialBackoffSeconds=0),
    "a maximum backoff that is too short": wrong("expected 0 < podInitialBackoffSeconds <= podMaxBackoffSeconds",
                                               podInitialBackoffSeconds=11),
    # validateKubeSchedulerProfile, validatePluginConfig
    "a removed plugin": enabling(
        'filter.enabled[0]: unknown plugin "EBSLimits"; leave it out, NodeVolumeLimits replaces it', filter=["EBSLimits"]),
    "arguments of a removed plugin": wrong('profiles[0].pluginConfig[0]: unknown plugin "CinderLimits"; leave it out, NodeVolumeLimits '
                              "replaces it", {"pluginConfig": [{"name": "CinderLimits"}]}),
    "duplicate arguments": wrong('profiles[0].pluginConfig[1]: duplicate arguments for "NodePorts"',
                                       {"pluginConfig": 2 * [{"name": "NodePorts"}]}),
    "arguments without a plugin's name": wrong("profiles[0].pluginConfig[0].name: is missing", {"pluginConfig": [{"args": {}}]}),
    "arguments of another kind": argued("NodeAffinity", 'args.kind: expected NodeAffinityArgs, got "X"', kind="X"),
    "arguments of another version": argued(
        "NodeAffinity", 'args.apiVersion: expected kubescheduler.config.k8s.io/v1, got "kubescheduler.config.k8s.io/v1beta3"',
        apiVersion="kubescheduler.config.k8s.io/v1beta3"),
    # validateCommonQueueSort
    "profiles with different queueSort plugins": wrong(
        "profiles[1].plugins.queueSort: must be the same as in profiles[0], including args", {"schedulerName": "a"},
        {"schedulerName": "b", "plugins": {"queueSort": {"enabled": plugins("PrioritySort")}}}),
    "... with different arguments": wrong(
        "profiles[1].plugins.queueSort: must be the same as in profiles[0], including args", *(
            {"schedulerName": name, "plugins": {"queueSort": {"enabled": plugins("PrioritySort")}},
             "pluginConfig": [{"name": "PrioritySort", "args": {"by": name}}]} for name in "ab")),
    "... that are enabled at multiPoint": wrong(
        "profiles[1].plugins.queueSort: must be the same as in profiles[0], including args", {"schedulerName": "a"},
        {"schedulerName": "b", "plugins": {"multiPoint": {"enabled": plugins("Coscheduling"), "disabled": plugins("PrioritySort")}}}),
    # Since 1.37
    "a future extension point": enabling("podGroupPostFilter: unknown field", podGroupPostFilter=["DefaultPreemption"]),
    "a future field": wrong("percentageOfPlacementsToScore: unknown field; did you mean \"percentageOfNodesToScore\"?", percentageOfPlacementsToScore=50),
    "two queueSort plugins": enabling("queueSort: expected one plugin, got PrioritySort, Coscheduling",
                                      queueSort=["PrioritySort", "Coscheduling"]),
    # validateExtenders
    "an extender with a prioritizeVerb and no weight": wrong(
        "extenders[0].weight: must be positive where there is a prioritizeVerb", extenders=[{"prioritizeVerb": "x"}]),
    "two extenders that bind": wrong("extenders[1].bindVerb: only one extender may bind, and extenders[0] does",
                                     extenders=2 * [{"bindVerb": "x"}]),
    "a resource with an invalid name": wrong(
        'extenders[0].managedResources: "a b/c" is not an extended resource, such as example.com/gpu',
        extenders=[{"managedResources": [{"name": "a b/c"}]}]),
    "a resource of kubernetes.io": wrong(
        'extenders[0].managedResources: "x.kubernetes.io/y" is not an extended resource, such as example.com/gpu',
        extenders=[{"managedResources": [{"name": "x.kubernetes.io/y"}]}]),
    "a resource with the prefix of quotas": wrong(
        'extenders[0].managedResources: "requests.a.b/c" is not an extended resource, such as example.com/gpu',
        extenders=[{"managedResources": [{"name": "requests.a.b/c"}]}]),
    "a duplicate resource": wrong('extenders[1].managedResources: "a.b/c" appears twice',
                                         extenders=2 * [{"managedResources": [{"name": "a.b/c"}]}]),
    # validation_pluginargs.go
    "a percentage above 100": argued("DefaultPreemption", "args.minCandidateNodesPercentage: expected from 0 to 100, got 101",
                                      minCandidateNodesPercentage=101),
    "a negative number of candidates": argued("DefaultPreemption", "args.minCandidateNodesAbsolute: expected from 0 to 2147483647, got -1",
                              minCandidateNodesAbsolute=-1),
    "no candidates": argued(
        "DefaultPreemption", "args: expected minCandidateNodesPercentage or minCandidateNodesAbsolute above 0",
        minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
    "a hardPodAffinityWeight above 100": argued("InterPodAffinity", "args.hardPodAffinityWeight: expected from 0 to 100, got 101",
                                              hardPodAffinityWeight=101),
    "an unknown defaultingType": argued("PodTopologySpread", 'args.defaultingType: expected one of List, System, got "X"',
                                          defaultingType="X"),
    "default constraints together with those of the system": argued(
        "PodTopologySpread", "args: expected defaultingType List, because there are defaultConstraints", defaultConstraints=[SPREAD]),
    "a maxSkew of 0": argued("PodTopologySpread", "args.defaultConstraints[0].maxSkew: expected from 1 to 2147483647, got 0",
                      defaultingType="List", defaultConstraints=[SPREAD | {"maxSkew": 0}]),
    "no topologyKey": argued("PodTopologySpread", "args.defaultConstraints[0]: expected maxSkew, topologyKey and whenUnsatisfiable",
                             defaultingType="List", defaultConstraints=[{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]),
    "an invalid topologyKey": argued("PodTopologySpread", 'args.defaultConstraints[0].topologyKey: expected a name, such as example.com/gpu, got "a b"',
                                         defaultingType="List", defaultConstraints=[SPREAD | {"topologyKey": "a b"}]),
    "no whenUnsatisfiable": argued(
        "PodTopologySpread", "args.defaultConstraints[0]: expected maxSkew, topologyKey and whenUnsatisfiable",
        defaultingType="List", defaultConstraints=[{"maxSkew": 1, "topologyKey": "zone"}]),
    "an unknown whenUnsatisfiable": argued(
        "PodTopologySpread", "args.defaultConstraints[0].whenUnsatisfiable: expected one of DoNotSchedule, ScheduleAnyway, got "
        '"X"', defaultingType="List", defaultConstraints=[SPREAD | {"whenUnsatisfiable": "X"}]),
    "a labelSelector": argued("PodTopologySpread", "args.defaultConstraints[0].labelSelector: unknown field",
                                     defaultingType="List", defaultConstraints=[SPREAD | {"labelSelector": {}}]),
    "a duplicate constraint": argued("PodTopologySpread", "args.defaultConstraints: expected each pair of topologyKey and whenUnsatisfiable only once",
                                 defaultingType="List", defaultConstraints=[SPREAD, SPREAD | {"maxSkew": 2}]),
    "no shape": argued("NodeResourcesFit", SHAPELESS, **ratio()),
    "a shape without points": argued("NodeResourcesFit", SHAPELESS,
                                     **ratio(requestedToCapacityRatio={"shape": []})),
    "a shape with equal utilizations": argued(
        "NodeResourcesFit", SHAPELESS,
        **ratio(requestedToCapacityRatio={"shape": [{"utilization": 5}, {"utilization": 5}]})),
    "a utilization above 100": argued("NodeResourcesFit", f"{RATIO}.shape[0].utilization: expected from 0 to 100, got 101",
                                       **ratio(requestedToCapacityRatio={"shape": [{"utilization": 101}]})),
    "a score above 10": argued("NodeResourcesFit", f"{RATIO}.shape[0].score: expected from 0 to 10, got 11",
                                 **ratio(requestedToCapacityRatio={"shape": [{"score": 11}]})),
    "a shape with another type": argued(
        "NodeResourcesFit", SHAPELESS,
        scoringStrategy={"type": "MostAllocated", "requestedToCapacityRatio": {}}),
    "no type": argued("NodeResourcesFit", SHAPELESS, scoringStrategy={}),
    "a resource's weight above 100": argued(
        "NodeResourcesFit", "args.scoringStrategy.resources[0].weight: expected from 0 to 100, got 101",
        scoringStrategy={"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}),
    "an invalid ignored resource": argued(
        "NodeResourcesFit", 'args.ignoredResources[0]: expected a name, such as example.com/gpu, got "a b"', ignoredResources=["a b"]),
    "a group with a slash": argued("NodeResourcesFit", 'args.ignoredResourceGroups[0]: expected a group, such as example.com, got "a/b"',
                                   ignoredResourceGroups=["a/b"]),
    "a group with an invalid name": argued("NodeResourcesFit", 'args.ignoredResourceGroups[0]: expected a name, such as example.com/gpu, got "-a"',
                                      ignoredResourceGroups=["-a"]),
    "a duplicate balanced resource": argued("NodeResourcesBalancedAllocation", "args.resources: expected each resource only once",
                                        resources=2 * [{"name": "cpu"}]),
    "a balanced resource with another weight": argued(
        "NodeResourcesBalancedAllocation", "args.resources[0].weight: expected from 0 to 1, got 2",
        resources=[{"name": "cpu", "weight": 2}]),
    "an invalid required term": argued(
        "NodeAffinity", f"args.addedAffinity.{REQUIRED}.nodeSelectorTerms[0]: expected a term of node affinity",
        addedAffinity={REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}),
    "an invalid preferred term": argued(
        "NodeAffinity", f"args.addedAffinity.{PREFERRED}[0].preference.matchExpressions[0].key: expected a name, such as "
        'example.com/gpu, got "a b"', addedAffinity={PREFERRED: [{
            "weight": 1, "preference": {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}}]}),
    "a preferred term without a key": argued(
        "NodeAffinity", f"args.addedAffinity.{PREFERRED}[0].preference.matchExpressions[0]: expected a key",
        addedAffinity={PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [{"operator": "Exists"}]}}]}),
    "a negative timeout": argued("VolumeBinding", "args.bindTimeoutSeconds: expected from 0 to 9223372036854775807, got -1",
                                bindTimeoutSeconds=-1),
    "a shape that needs a feature gate": argued(
        "VolumeBinding", "args.shape: expected nothing, because the feature gate StorageCapacityScoring is off by default",
        shape=[]),
    "a negative filterTimeout": argued("DynamicResources", 'args.filterTimeout: expected a duration, such as "30s", got "-1s"',
                                         filterTimeout="-1s"),
    "a bindingTimeout below 1 s": argued("DynamicResources", 'args.bindingTimeout: expected a duration of at least 1s, got "5ms"',
                                            bindingTimeout="5ms"),
    # NewFramework
    "a plugin that is enabled twice": enabling('filter.enabled[1]: plugin "NodeName" is already enabled there', filter=["NodeName", "NodeName"]),
    "a plugin at a point that it does not implement": enabling(
        'preFilter.enabled[0]: plugin "ImageLocality" does not implement preFilter, only score', preFilter=["ImageLocality"]),
    "a future plugin": enabling(
        'multiPoint.enabled[0]: unknown plugin "DeferredPodScheduling"; is a file missing in --plugins?',
        multiPoint=["DeferredPodScheduling"]),
    "a plugin without a name": enabling("filter.enabled[0].name: is missing", filter=[""]),
    "no bind plugin": wrong("profiles[0].plugins.bind: expected one plugin, got none",
                            {"plugins": {"bind": {"disabled": plugins("*")}}}),
    "a field of another version": wrong('extenders[0].enableHttps: unknown field; use enableHTTPS',
                                     extenders=[{"enableHttps": True}]),
})
def test_configurations_that_kube_scheduler_rejects_are_rejected(document, message):
    """There is a row for each error in upstream's pkg/scheduler/apis/config/validation."""
    with pytest.raises(InputError) as error:
        read_configuration(document, "my-scheduler")
    assert str(error.value) == message


@table("document, message", {
    "two fields": (configuration({"x": 1}, y=2), ["profiles[0].x: unknown field", "y: unknown field"]),
    "one plugin at two points, in two profiles": (
        configuration(*({"schedulerName": name, "plugins": {point: {"enabled": plugins("Other")} for point in ("filter", "score")}}
                        for name in "ab")),
        ['profiles[0].plugins.filter.enabled[0]: unknown plugin "Other"', "is a file missing in --plugins?"]),
    "another project's plugins, in one line": (
        configuration({"plugins": {"multiPoint": {"enabled": plugins("LoadAware", "Reservation")}}}),
        ['profiles[0].plugins.multiPoint.enabled[0]: unknown plugins "LoadAware", "Reservation"',
         "is a file missing in --plugins?"]),
    "another project's plugin whose name resembles one of ours": (
        configuration({"plugins": {"score": {"enabled": plugins("NodeResourcesFitPlus")}}}),
        ['profiles[0].plugins.score.enabled[0]: unknown plugin "NodeResourcesFitPlus"', 'did you mean "NodeResourcesFit"?',
         "is a file missing in --plugins?"]),
    "arguments, an extender and a profile": (
        configuration({"pluginConfig": [{"name": "VolumeBinding", "args": {"x": 1, "bindTimeoutSeconds": "5"}}]}, {},
                      extenders=[{"prioritizeVerb": "x"}]),
        ["extenders[0].weight: must be positive where there is a prioritizeVerb",
         "profiles[0].pluginConfig[0].args.x: unknown field",
         'profiles[0].pluginConfig[0].args.bindTimeoutSeconds: expected a whole number, got "5"',
         "profiles[0].schedulerName: each profile needs its own",
         "profiles[1].schedulerName: each profile needs its own"]),
    "a field, a value, a plugin": (
        configuration({"x": 1, "plugins": {"filter": {"enabled": plugins("Other")}}}, parallelism=0),
        ["profiles[0].x: unknown field", "parallelism: expected from 1 to 2147483647, got 0",
         'profiles[0].plugins.filter.enabled[0]: unknown plugin "Other"', "is a file missing in --plugins?"]),
})
def test_all_problems_are_reported_at_once(document, message):
    with pytest.raises(InputError) as error:
        read_configuration(document, "my-scheduler")
    assert str(error.value).split("; ") == message


@table("profile, more", {
    "a weight of 0, which means the default": ({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
        "type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 0}]}}}]}, {}),
    "invalid times of an election that is off": ({}, {"leaderElection": {"leaderElect": False, "leaseDuration": "1s"}}),
    "... and an invalid resourceLock": ({}, {"leaderElection": {"leaderElect": False, "resourceLock": "foo"}}),
    "plugins at points where kube-scheduler runs them": ({"plugins": {"score": {"enabled": plugins("VolumeBinding")},
                                                                "bind": {"enabled": plugins("DefaultBinder")}}}, {}),
    "default constraints with new fields": ({"pluginConfig": [{"name": "PodTopologySpread", "args": {
        "defaultingType": "List", "defaultConstraints": [SPREAD | {"nodeTaintsPolicy": "Honor"}]}}]}, {}),
    "arguments with an empty kind": ({"pluginConfig": [{"name": "VolumeBinding", "args": {
        "kind": "", "apiVersion": None}}]}, {}),
    "an empty queueSort": ({"schedulerName": "my-scheduler", "plugins": {"queueSort": {"enabled": []}}}, {}),
    "a very long bindTimeoutSeconds": ({"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 2**40}}]}, {}),
    "arguments with their kind": ({"pluginConfig": [{"name": "VolumeBinding", "args": {
        "kind": "VolumeBindingArgs", "apiVersion": "kubescheduler.config.k8s.io/v1"}}]}, {}),
})
def test_configurations_that_kube_scheduler_accepts_are_accepted(profile, more):
    assert list(load(profile, **more)) == ["my-scheduler"]
