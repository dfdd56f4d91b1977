"""What is wrong in a KubeSchedulerConfiguration, and hints about what is meant."""

import pytest
import yaml

from helpers.configuration import RULES, configuration, load, plugins, wrong
from helpers.extras import ROOT, run_scheduler, table
from scheduler_extras.common.errors import InputError
from scheduler_extras.configuration.config_file import read_configuration
from scheduler_extras.deciding.rule import DURING_SCHEDULING
from scheduler_extras.policy.own_rules import as_in_the_script


with as_in_the_script():
    import tutorial_rules  # noqa: F401 (registers its rules)


@table("document, message", {
    "an unknown plugin": (configuration({"plugins": {"filter": {"enabled": plugins("NodePort")}}}),
                          'profiles[0].plugins.filter.enabled[0]: unknown plugin "NodePort"; did you mean "NodePorts"'),
    "a plugin with a typo is compared with those that can be there": (
        configuration({"plugins": {"filter": {"enabled": plugins("ImageLocalit")}}}),
        'unknown plugin "ImageLocalit"; is a file missing in --plugins?'),
    "a predicate's name, which a plugin does not have": (
        configuration({"plugins": {"filter": {"enabled": plugins("PodFitsResources")}}}),
        'profiles[0].plugins.filter.enabled[0]: unknown plugin "PodFitsResources"'),
    "a predicate's name, whose plugin is suggested": (
        configuration({"plugins": {"filter": {"enabled": plugins("PodToleratesNodeTaints")}}}),
        'unknown plugin "PodToleratesNodeTaints"; did you mean "TaintToleration"?'),
    "a plugin of v1beta1, and today's way": (
        configuration({"plugins": {"score": {"enabled": plugins("NodeResourcesMostAllocated")}}}),
        'enabled[0]: unknown plugin "NodeResourcesMostAllocated"; use NodeResourcesFit with scoringStrategy.type '
        "MostAllocated"),
    "a plugin of v1beta1 that is much like another one": (
        configuration({"plugins": {"score": {"enabled": plugins("NodeResourcesLeastAllocated")}}}),
        'unknown plugin "NodeResourcesLeastAllocated"; use NodeResourcesFit'),
    "a plugin of v1beta1 whose name has changed": (
        configuration({"plugins": {"score": {"enabled": plugins("SelectorSpread")}}}),
        'unknown plugin "SelectorSpread"; use PodTopologySpread with its default constraints'),
    "v1alpha1's algorithm": (configuration(algorithmSource={"provider": "DefaultProvider"}),
                             "algorithmSource: unknown field; leave it out for DefaultProvider; for a Policy, use --policy with "
                             "its file"),
    "v1alpha1's name of the scheduler": (
        configuration(schedulerName="x"), "schedulerName: unknown field; use profiles[0].schedulerName, or"),
    "v1alpha1's plugins": (configuration(plugins={}), "plugins: unknown field; use profiles[0].plugins"),
    "half of a priority's name": (
        configuration({"plugins": {"score": {"enabled": plugins("LeastRequested")}}}),
        'unknown plugin "LeastRequested"; is a file missing in --plugins?'),
    "an unknown extension point": (configuration({"plugins": {"filters": {}}}),
                                   'profiles[0].plugins.filters: unknown field; did you mean "filter"?'),
    "a version that has gone": (
        configuration(version="v1beta3"),
        'apiVersion "kubescheduler.config.k8s.io/v1beta3": write kubescheduler.config.k8s.io/v1'),
    "two profiles of one name": (configuration({"schedulerName": "a"}, {"schedulerName": "a"}),
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
    "an extender that never answers": (configuration(extenders=[{"urlPrefix": "http://x", "httpTimeout": "never"}]),
                                       'extenders[0].httpTimeout: expected a duration, such as "30s", got "never"'),
    "a plugin at a point that it does not extend": (
        configuration({"plugins": {"filter": {"enabled": plugins("ImageLocality")}}}),
        'profiles[0].plugins.filter.enabled[0]: plugin "ImageLocality" does not implement filter'),
    "arguments that come twice": (
        configuration({"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 1}}] * 2}),
        'profiles[0].pluginConfig[1]: duplicate arguments for "InterPodAffinity"'),
    "a weight out of range": (
        configuration({"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}}]}),
        "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: expected from 0 to 100, got 101"),
    "an unknown kind of defaulting": (
        configuration({"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "All"}}]}),
        'profiles[0].pluginConfig[0].args.defaultingType: expected one of List, System, got "All"'),
    "default constraints that are none": (
        configuration({"pluginConfig": [{"name": "PodTopologySpread", "args": {
            "defaultingType": "List", "defaultConstraints": [{"maxSkew": 1}]}}]}),
        "profiles[0].pluginConfig[0].args.defaultConstraints[0]: expected maxSkew, topologyKey and whenUnsatisfiable"),
    "an extender that scores, but has no weight": (
        configuration(extenders=[{"urlPrefix": "http://x", "prioritizeVerb": "score"}]),
        "extenders[0].weight: must be positive where there is a prioritizeVerb"),
    "an extender's field with a typo": (
        configuration(extenders=[{"urlPrefx": "http://x"}]),
        'extenders[0].urlPrefx: unknown field; did you mean "urlPrefix"?'),
    "a weight where all must have the same": (
        configuration({"pluginConfig": [{"name": "NodeResourcesBalancedAllocation", "args": {
            "resources": [{"name": "example.com/gpu", "weight": 2}]}}]}),
        'profiles[0].pluginConfig[0].args.resources[0].weight: expected from 0 to 1, got 2'),
    "an added affinity that is none": (
        configuration({"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": {"x": 1}}}]}),
        "profiles[0].pluginConfig[0].args.addedAffinity.x: unknown field"),
    "a plugin's weight that is none": (
        configuration({"plugins": {"score": {"enabled": plugins(NodeAffinity=-1)}}}),
        "profiles[0].plugins.score.enabled[0].weight: expected from 0 to 2147483647, got -1"),
    "a weight that is none": (
        configuration({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
            "resources": [{"name": "cpu", "weight": -1}]}}}]}),
        "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight: expected from 0 to 100, got -1"),
    "an unknown strategy": (
        configuration({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Best"}}}]}),
        "scoringStrategy.type: expected one of LeastAllocated, MostAllocated, RequestedToCapacityRatio, got"),
    "a lease of nearly all time": (configuration(leaderElection={"leaseDuration": "9" * 400 + "h"}),
                                   'leaderElection.leaseDuration: expected a duration, such as "30s", got "99999'),
    "a longest backoff that is shorter than the first one": (
        configuration(podInitialBackoffSeconds=5, podMaxBackoffSeconds=4),
        "expected 0 < podInitialBackoffSeconds <= podMaxBackoffSeconds"),
    "a lease that is no duration": (configuration(leaderElection={"leaseDuration": "15"}),
                                    'leaderElection.leaseDuration: expected a duration, such as "30s", got "15"'),
    "a lease that ends before it is renewed": (configuration(leaderElection={
        "leaderElect": True, "leaseDuration": "5s"}),
                                               "leaderElection: expected leaseDuration > renewDeadline > 1.2 x retryPeriod"),
})
def test_what_is_wrong_is_said_in_a_line(document, message, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(document))
    run = run_scheduler("--plugins", RULES, "--policy", path, "--cluster", ROOT / "tests/demo.yaml")
    assert run.returncode == 2
    [line] = run.stderr.splitlines()
    assert line.startswith(f"{path}: ") and message in line


def argued(plugin, message, **args):
    """A row: what is said of a plugin's arguments."""
    return wrong(f"profiles[0].pluginConfig[0].{message}", {"pluginConfig": [{"name": plugin, "args": args}]})


def enabling(message, **points):
    """A row: what is said of plugins that are enabled."""
    return wrong(f"profiles[0].plugins.{message}", {"plugins": {
        point: {"enabled": plugins(*names)} for point, names in points.items()}})


def ratio(**more):
    """A scoring strategy by a shape."""
    return {"scoringStrategy": {"type": "RequestedToCapacityRatio", **more}}


REQUIRED, PREFERRED = (f"{how}{DURING_SCHEDULING}" for how in ("required", "preferred"))
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
RATIO = "args.scoringStrategy.requestedToCapacityRatio"
SHAPELESS = "args.scoringStrategy: expected a type, and only for RequestedToCapacityRatio a shape, of ascending utilization"
LONGER = "leaderElection: expected leaseDuration > renewDeadline > 1.2 x retryPeriod"


@table("document, message", {
    # ValidateClientConnectionConfiguration, ValidateLeaderElectionConfiguration, NewLeaderElector
    "a burst below 0": wrong("clientConnection.burst: expected from 0 to 2147483647, got -1", clientConnection={"burst": -1}),
    "a lock that there never was": wrong('leaderElection.resourceLock: expected leases, got "foo"',
                                         leaderElection={"resourceLock": "foo"}),
    "a time that is no longer, to the nanosecond": wrong(LONGER, leaderElection={"renewDeadline": "3.6s", "retryPeriod": "3s"}),
    "a lease in a list": wrong('leaderElection.leaseDuration: expected a duration, such as "30s"',
                                leaderElection={"leaseDuration": ["15s"]}),
    "a lease that is empty": wrong('leaderElection.leaseDuration: expected a duration, such as "30s", got ""',
                                   leaderElection={"leaseDuration": ""}),
    "a lease that is longer than Go counts": wrong(
        'leaderElection.leaseDuration: expected a duration, such as "30s", got "999999999h"',
        leaderElection={"leaseDuration": "999999999h"}),
    "a lease below 0": wrong('leaderElection.leaseDuration: expected a duration, such as "30s", got "-1s"',
                             leaderElection={"leaseDuration": "-1s"}),
    "a lease no longer than the time to renew it": wrong(LONGER, leaderElection={"leaseDuration": "10s"}),
    "a time to renew that leaves none for pauses": wrong(LONGER, leaderElection={"renewDeadline": "2.4s"}),
    # ValidateKubeSchedulerConfiguration
    "nothing in parallel": wrong("parallelism: expected from 1 to 2147483647, got 0", parallelism=0),
    "more than all nodes": wrong("percentageOfNodesToScore: expected from 0 to 100, got 101", percentageOfNodesToScore=101),
    "less than none": wrong("profiles[0].percentageOfNodesToScore: expected from 0 to 100, got -1",
                            {"percentageOfNodesToScore": -1}),
    "a name that is empty": wrong("profiles[0].schedulerName: each profile needs its own", {"schedulerName": ""}),
    "a name that comes twice": wrong("profiles[1].schedulerName: each profile needs its own", *2 * [{"schedulerName": "a"}]),
    "no backoff": wrong(f"podInitialBackoffSeconds: expected from 1 to {2**63 - 1}, got 0", podInitialBackoffSeconds=0),
    "a longest backoff that is shorter": wrong("expected 0 < podInitialBackoffSeconds <= podMaxBackoffSeconds",
                                               podInitialBackoffSeconds=11),
    # validateKubeSchedulerProfile, validatePluginConfig
    "a plugin that has gone": enabling(
        'filter.enabled[0]: unknown plugin "EBSLimits"; leave it out, NodeVolumeLimits replaces it', filter=["EBSLimits"]),
    "arguments of one": wrong('profiles[0].pluginConfig[0]: unknown plugin "CinderLimits"; leave it out, NodeVolumeLimits '
                              "replaces it", {"pluginConfig": [{"name": "CinderLimits"}]}),
    "arguments that come twice": wrong('profiles[0].pluginConfig[1]: duplicate arguments for "NodePorts"',
                                       {"pluginConfig": 2 * [{"name": "NodePorts"}]}),
    "arguments of nobody": wrong("profiles[0].pluginConfig[0].name: is missing", {"pluginConfig": [{"args": {}}]}),
    "arguments of another kind": argued("NodeAffinity", 'args.kind: expected NodeAffinityArgs, got "X"', kind="X"),
    "arguments of another version": argued(
        "NodeAffinity", 'args.apiVersion: expected kubescheduler.config.k8s.io/v1, got "kubescheduler.config.k8s.io/v1beta3"',
        apiVersion="kubescheduler.config.k8s.io/v1beta3"),
    # validateCommonQueueSort
    "queues in different orders": wrong(
        "profiles[1].plugins.queueSort: must be the same as in profiles[0], including args", {"schedulerName": "a"},
        {"schedulerName": "b", "plugins": {"queueSort": {"enabled": plugins("PrioritySort")}}}),
    "... by their arguments": wrong(
        "profiles[1].plugins.queueSort: must be the same as in profiles[0], including args", *(
            {"schedulerName": name, "plugins": {"queueSort": {"enabled": plugins("PrioritySort")}},
             "pluginConfig": [{"name": "PrioritySort", "args": {"by": name}}]} for name in "ab")),
    "... by way of multiPoint": wrong(
        "profiles[1].plugins.queueSort: must be the same as in profiles[0], including args", {"schedulerName": "a"},
        {"schedulerName": "b", "plugins": {"multiPoint": {"enabled": plugins("Coscheduling"), "disabled": plugins("PrioritySort")}}}),
    # Since 1.37
    "an extension point to come": enabling("podGroupPostFilter: unknown field", podGroupPostFilter=["DefaultPreemption"]),
    "a field to come": wrong("percentageOfPlacementsToScore: unknown field; did you mean \"percentageOfNodesToScore\"?", percentageOfPlacementsToScore=50),
    "a queue in two orders": enabling("queueSort: expected one plugin, got PrioritySort, Coscheduling",
                                      queueSort=["PrioritySort", "Coscheduling"]),
    # validateExtenders
    "an extender that scores for nothing": wrong(
        "extenders[0].weight: must be positive where there is a prioritizeVerb", extenders=[{"prioritizeVerb": "x"}]),
    "two extenders that bind": wrong("extenders[1].bindVerb: only one extender may bind, and extenders[0] does",
                                     extenders=2 * [{"bindVerb": "x"}]),
    "a resource that is no name": wrong(
        'extenders[0].managedResources: "a b/c" is no extended resource, such as example.com/gpu',
        extenders=[{"managedResources": [{"name": "a b/c"}]}]),
    "a resource of kubernetes.io": wrong(
        'extenders[0].managedResources: "x.kubernetes.io/y" is no extended resource, such as example.com/gpu',
        extenders=[{"managedResources": [{"name": "x.kubernetes.io/y"}]}]),
    "a resource that is a quota's": wrong(
        'extenders[0].managedResources: "requests.a.b/c" is no extended resource, such as example.com/gpu',
        extenders=[{"managedResources": [{"name": "requests.a.b/c"}]}]),
    "a resource that comes twice": wrong('extenders[1].managedResources: "a.b/c" comes twice',
                                         extenders=2 * [{"managedResources": [{"name": "a.b/c"}]}]),
    # validation_pluginargs.go
    "a percentage beyond all": argued("DefaultPreemption", "args.minCandidateNodesPercentage: expected from 0 to 100, got 101",
                                      minCandidateNodesPercentage=101),
    "fewer than none": argued("DefaultPreemption", "args.minCandidateNodesAbsolute: expected from 0 to 2147483647, got -1",
                              minCandidateNodesAbsolute=-1),
    "no candidates either way": argued(
        "DefaultPreemption", "args: expected minCandidateNodesPercentage or minCandidateNodesAbsolute above 0",
        minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
    "a weight of affinity beyond 100": argued("InterPodAffinity", "args.hardPodAffinityWeight: expected from 0 to 100, got 101",
                                              hardPodAffinityWeight=101),
    "an unknown kind of defaults": argued("PodTopologySpread", 'args.defaultingType: expected one of List, System, got "X"',
                                          defaultingType="X"),
    "own defaults, and the system's": argued(
        "PodTopologySpread", "args: expected defaultingType List, because there are defaultConstraints", defaultConstraints=[SPREAD]),
    "no skew": argued("PodTopologySpread", "args.defaultConstraints[0].maxSkew: expected from 1 to 2147483647, got 0",
                      defaultingType="List", defaultConstraints=[SPREAD | {"maxSkew": 0}]),
    "no topologyKey": argued("PodTopologySpread", "args.defaultConstraints[0]: expected maxSkew, topologyKey and whenUnsatisfiable",
                             defaultingType="List", defaultConstraints=[{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]),
    "a topologyKey that is none": argued("PodTopologySpread", 'args.defaultConstraints[0].topologyKey: expected a name, such as example.com/gpu, got "a b"',
                                         defaultingType="List", defaultConstraints=[SPREAD | {"topologyKey": "a b"}]),
    "nothing to be done where it is not satisfied": argued(
        "PodTopologySpread", "args.defaultConstraints[0]: expected maxSkew, topologyKey and whenUnsatisfiable",
        defaultingType="List", defaultConstraints=[{"maxSkew": 1, "topologyKey": "zone"}]),
    "something unknown to be done": argued(
        "PodTopologySpread", "args.defaultConstraints[0].whenUnsatisfiable: expected one of DoNotSchedule, ScheduleAnyway, got "
        '"X"', defaultingType="List", defaultConstraints=[SPREAD | {"whenUnsatisfiable": "X"}]),
    "a selector of all pods": argued("PodTopologySpread", "args.defaultConstraints[0].labelSelector: unknown field",
                                     defaultingType="List", defaultConstraints=[SPREAD | {"labelSelector": {}}]),
    "a constraint twice": argued("PodTopologySpread", "args.defaultConstraints: expected each pair of topologyKey and whenUnsatisfiable only once",
                                 defaultingType="List", defaultConstraints=[SPREAD, SPREAD | {"maxSkew": 2}]),
    "no shape": argued("NodeResourcesFit", SHAPELESS, **ratio()),
    "a shape without points": argued("NodeResourcesFit", SHAPELESS,
                                     **ratio(requestedToCapacityRatio={"shape": []})),
    "a shape that stays": argued(
        "NodeResourcesFit", SHAPELESS,
        **ratio(requestedToCapacityRatio={"shape": [{"utilization": 5}, {"utilization": 5}]})),
    "a utilization beyond all": argued("NodeResourcesFit", f"{RATIO}.shape[0].utilization: expected from 0 to 100, got 101",
                                       **ratio(requestedToCapacityRatio={"shape": [{"utilization": 101}]})),
    "a score beyond ten": argued("NodeResourcesFit", f"{RATIO}.shape[0].score: expected from 0 to 10, got 11",
                                 **ratio(requestedToCapacityRatio={"shape": [{"score": 11}]})),
    "a shape beside another type": argued(
        "NodeResourcesFit", SHAPELESS,
        scoringStrategy={"type": "MostAllocated", "requestedToCapacityRatio": {}}),
    "no type": argued("NodeResourcesFit", SHAPELESS, scoringStrategy={}),
    "a resource's weight beyond 100": argued(
        "NodeResourcesFit", "args.scoringStrategy.resources[0].weight: expected from 0 to 100, got 101",
        scoringStrategy={"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}),
    "an ignored resource that is none": argued(
        "NodeResourcesFit", 'args.ignoredResources[0]: expected a name, such as example.com/gpu, got "a b"', ignoredResources=["a b"]),
    "a group with a slash": argued("NodeResourcesFit", 'args.ignoredResourceGroups[0]: expected a group, such as example.com, got "a/b"',
                                   ignoredResourceGroups=["a/b"]),
    "a group that is no name": argued("NodeResourcesFit", 'args.ignoredResourceGroups[0]: expected a name, such as example.com/gpu, got "-a"',
                                      ignoredResourceGroups=["-a"]),
    "a balanced resource twice": argued("NodeResourcesBalancedAllocation", "args.resources: expected each resource only once",
                                        resources=2 * [{"name": "cpu"}]),
    "a balanced resource that weighs more": argued(
        "NodeResourcesBalancedAllocation", "args.resources[0].weight: expected from 0 to 1, got 2",
        resources=[{"name": "cpu", "weight": 2}]),
    "a required term that is none": argued(
        "NodeAffinity", f"args.addedAffinity.{REQUIRED}.nodeSelectorTerms[0]: expected a term of node affinity",
        addedAffinity={REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}),
    "a preferred term that is none": argued(
        "NodeAffinity", f"args.addedAffinity.{PREFERRED}[0].preference.matchExpressions[0].key: expected a name, such as "
        'example.com/gpu, got "a b"', addedAffinity={PREFERRED: [{
            "weight": 1, "preference": {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}}]}),
    "... and one without a key": argued(
        "NodeAffinity", f"args.addedAffinity.{PREFERRED}[0].preference.matchExpressions[0]: expected a key",
        addedAffinity={PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [{"operator": "Exists"}]}}]}),
    "a timeout below 0": argued("VolumeBinding", "args.bindTimeoutSeconds: expected from 0 to 9223372036854775807, got -1",
                                bindTimeoutSeconds=-1),
    "a shape whose gate is off": argued(
        "VolumeBinding", "args.shape: expected nothing, because the feature gate StorageCapacityScoring is off by default",
        shape=[]),
    "a filter's timeout below 0": argued("DynamicResources", 'args.filterTimeout: expected a duration, such as "30s", got "-1s"',
                                         filterTimeout="-1s"),
    "a binding's timeout below 1 s": argued("DynamicResources", 'args.bindingTimeout: expected a duration of at least 1s, got "5ms"',
                                            bindingTimeout="5ms"),
    # NewFramework
    "a plugin twice": enabling('filter.enabled[1]: plugin "NodeName" is already enabled there', filter=["NodeName", "NodeName"]),
    "a plugin at another point": enabling(
        'preFilter.enabled[0]: plugin "ImageLocality" does not implement preFilter, only score', preFilter=["ImageLocality"]),
    "a plugin that there is not yet": enabling(
        'multiPoint.enabled[0]: unknown plugin "DeferredPodScheduling"; is a file missing in --plugins?',
        multiPoint=["DeferredPodScheduling"]),
    "a plugin without a name": enabling("filter.enabled[0].name: is missing", filter=[""]),
    "nobody to bind": wrong("profiles[0].plugins.bind: expected one plugin, got none",
                            {"plugins": {"bind": {"disabled": plugins("*")}}}),
    "another version's field": wrong('extenders[0].enableHttps: unknown field; use enableHTTPS',
                                     extenders=[{"enableHttps": True}]),
})
def test_what_kube_schedulers_validation_refuses_is_refused(document, message):
    """Upstream: pkg/scheduler/apis/config/validation, a row for each of its errors."""
    with pytest.raises(InputError) as error:
        read_configuration(document, "my-scheduler")
    assert str(error.value) == message


@table("document, message", {
    "fields": (configuration({"x": 1}, y=2), ["profiles[0].x: unknown field", "y: unknown field"]),
    "one plugin at two points, in two profiles": (
        configuration(*({"schedulerName": name, "plugins": {point: {"enabled": plugins("Other")} for point in ("filter", "score")}}
                        for name in "ab")),
        ['profiles[0].plugins.filter.enabled[0]: unknown plugin "Other"', "is a file missing in --plugins?"]),
    "another project's plugins, in one line": (
        configuration({"plugins": {"multiPoint": {"enabled": plugins("LoadAware", "Reservation")}}}),
        ['profiles[0].plugins.multiPoint.enabled[0]: unknown plugins "LoadAware", "Reservation"',
         "is a file missing in --plugins?"]),
    "what is like one of ours": (
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
def test_all_that_is_wrong_is_said_at_once(document, message):
    with pytest.raises(InputError) as error:
        read_configuration(document, "my-scheduler")
    assert str(error.value).split("; ") == message


@table("profile, more", {
    "a weight of 0 is none": ({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
        "type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 0}]}}}]}, {}),
    "times of an election that nobody holds": ({}, {"leaderElection": {"leaderElect": False, "leaseDuration": "1s"}}),
    "... and its lock": ({}, {"leaderElection": {"leaderElect": False, "resourceLock": "foo"}}),
    "a plugin of kube-scheduler's where it runs": ({"plugins": {"score": {"enabled": plugins("VolumeBinding")},
                                                                "bind": {"enabled": plugins("DefaultBinder")}}}, {}),
    "default constraints of today": ({"pluginConfig": [{"name": "PodTopologySpread", "args": {
        "defaultingType": "List", "defaultConstraints": [SPREAD | {"nodeTaintsPolicy": "Honor"}]}}]}, {}),
    "arguments that do not say of what kind they are": ({"pluginConfig": [{"name": "VolumeBinding", "args": {
        "kind": "", "apiVersion": None}}]}, {}),
    "a queue whose order nobody changes": ({"schedulerName": "my-scheduler", "plugins": {"queueSort": {"enabled": []}}}, {}),
    "a binding that may take its time": ({"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 2**40}}]}, {}),
    "arguments of their own kind": ({"pluginConfig": [{"name": "VolumeBinding", "args": {
        "kind": "VolumeBindingArgs", "apiVersion": "kubescheduler.config.k8s.io/v1"}}]}, {}),
})
def test_what_kube_scheduler_accepts_is_accepted(profile, more):
    assert list(load(profile, **more)) == ["my-scheduler"]
