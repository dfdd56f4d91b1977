"""The Policy file: which files are accepted, and the lines that are logged."""

import json
import os
import re

import pytest

from helpers.extras import MANDATORY_PREDICATES, ROOT, decide, node, pod, run_scheduler, table
from helpers.golden import recorded
from helpers.policies import load_policies
from scheduler_extras.common.errors import InputError
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.deciding.rule import PREDICATES
from scheduler_extras.policy.own_rules import unplug
from scheduler_extras.policy.policy_file import PolicyFile, lines_of
from scheduler_extras.policy.policy_reader import ACCEPTED, REPLACED_BY_TAINTS, read_policy


POLICY_CASES = recorded("policy-cases")
DIFFERENT_ON_PURPOSE = {
    "removed-CheckNodeDiskPressure", "removed-PodToleratesNodeNoExecuteTaints",  # older names: accepted, with a notice
    "no-apiversion-gofieldname"}  # the names of Go's struct fields: rejected


@table("case", {case["id"]: case for case in POLICY_CASES if case["id"] not in DIFFERENT_ON_PURPOSE})
def test_kube_scheduler_accepts_and_rejects_the_same_policies(case, tmp_path):
    path = tmp_path / "policy"
    path.write_text(case["policy"])
    try:
        load_policies(path, "my-scheduler")
        problems = None
    except InputError as error:
        problems = str(error)
    assert (problems is None) == case["expect"]["accepted"], (problems, case["expect"].get("error"))


@table("case", {case["id"]: case for case in POLICY_CASES[::9] if case["id"] not in DIFFERENT_ON_PURPOSE})
def test_a_rejected_policy_gives_exit_code_2(case, tmp_path):
    path = tmp_path / "policy"
    path.write_text(case["policy"])
    run = run_scheduler("--policy", path, "--cluster", "-", input='{"kind": "Node", "metadata": {"name": "a"}}')
    accepted = case["expect"]["accepted"]
    assert run.returncode == (0 if accepted else 2)
    assert accepted or (run.stderr.startswith(f"{path}: ") and "Traceback" not in run.stderr)


def policy(predicates=(), priorities=(), **more):
    """A Policy as JSON, which also names the predicates that are always active."""
    named = [*predicates, *({"name": name} for name in MANDATORY_PREDICATES)]
    return json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": named,
                       "priorities": list(priorities), **more})


EXPECTED = f"expected {', or '.join(ACCEPTED)}, got"
CONFIG_MAP = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "my-policy", "namespace": "kube-system"},
              "data": {"policy.cfg": policy()}}
FROM_MAP = ("a ConfigMap; --policy needs its data[\"policy.cfg\"]: kubectl get configmap my-policy -n kube-system "
            "-o jsonpath='{.data.policy\\.cfg}' > policy.json")


@table("text, line", {
    "a predicate with a typo": (
        policy([{"name": "HostName"}, {"name": "PodFitsResource"}]),
        'predicates[1]: unknown predicate "PodFitsResource"; did you mean "PodFitsResources"?'),
    "a typo in a priority, among the predicates": (
        policy([{"name": "EvenPodsSpreadPriorit"}]),
        'predicates[0]: unknown predicate "EvenPodsSpreadPriorit"; did you mean "EvenPodsSpread"?; is a file missing '
        "in --plugins?"),
    "another project's name that resembles one of ours": (
        policy([{"name": "NodeResourcesFitPlus"}]),
        'predicates[0]: unknown predicate "NodeResourcesFitPlus"; is a file missing in --plugins?'),
    "the Go identifier of a rule": (
        policy([{"name": "PodFitsHost"}]),
        'predicates[0]: unknown predicate "PodFitsHost"; use NodeName (in a Policy: HostName)'),
    "a priority among the predicates": (
        policy([{"name": "LeastRequestedPriority"}]),
        'predicates[0]: "LeastRequestedPriority" is a priority; put it under priorities'),
    "a predicate among the priorities": (
        policy((), [{"name": "PodFitsResources", "weight": 1}]),
        'priorities[0]: "PodFitsResources" is a predicate; put it under predicates'),
    "an alias of several predicates among the priorities": (
        policy((), [{"name": "GeneralPredicates", "weight": 1}]),
        'priorities[0]: "GeneralPredicates" is a predicate; put it under predicates'),
    "an unknown priority": (
        policy((), [{"name": "Cheapest", "weight": 1}]),
        'priorities[0]: unknown priority "Cheapest"; is a file missing in --plugins?'),
    "the name of a predicate's plugin": (
        policy([{"name": "NodeAffinity"}]), 'predicates[0]: unknown predicate "NodeAffinity"; did you mean "MatchNodeSelector"?'),
    "the name of a priority's plugin": (
        policy((), [{"name": "NodeAffinity", "weight": 1}]),
        'priorities[0]: unknown priority "NodeAffinity"; did you mean "NodeAffinityPriority"?'),
    "a plugin's name that resembles its priority's name": (
        policy([{"name": "TaintToleration"}]),
        'predicates[0]: unknown predicate "TaintToleration"; did you mean "PodToleratesNodeTaints"?'),
    "a priority that was removed": (
        policy((), [{"name": "ResourceLimitsPriority", "weight": 1}]),
        'priorities[0]: unknown priority "ResourceLimitsPriority"; leave it out'),
    "a predicate's name among the priorities, one of which has a similar name": (
        policy((), [{"name": "EvenPodsSpread", "weight": 1}]),
        'priorities[0]: unknown priority "EvenPodsSpread"; did you mean "EvenPodsSpreadPriority"?'),
    "a field of a configuration": (
        policy(plugins={}), "plugins: unknown field; use profiles[0].plugins (in a Policy: predicates and priorities)"),
    "a predicate that was renamed": (
        policy([{"name": "NoVolumeNodeConflict"}]),
        'predicates[0]: unknown predicate "NoVolumeNodeConflict"; use VolumeBinding (in a Policy: CheckVolumeBinding)'),
    "a plugin of v1beta1 in a Policy": (
        policy((), [{"name": "NodeResourcesMostAllocated", "weight": 1}]),
        'priorities[0]: unknown priority "NodeResourcesMostAllocated"; use NodeResourcesFit with '
        "scoringStrategy.type MostAllocated (in a Policy: MostRequestedPriority)"),
    "a priority's argument among the predicates": (
        policy([{"name": "Ssd", "argument": {"labelPreference": {"label": "ssd", "presence": True}}}]),
        "predicates[0].argument.labelPreference: unknown field; use node affinity (in a Policy: a priority of any name, with "
        "the argument labelPreference)"),
    "a predicate's argument among the priorities": (
        policy((), [{"name": "Zone", "weight": 1, "argument": {"serviceAffinity": {"labels": ["zone"]}}}]),
        "priorities[0].argument.serviceAffinity: unknown field; use pod affinity (in a Policy: a predicate of any name, with "
        "the argument serviceAffinity)"),
    "version instead of apiVersion": ('{"kind": "Policy", "version": "v1"}', "version: unknown field; use apiVersion"),
    "a field with a typo": (
        policy(hardPodAffinitySymetricWeight=1),
        'hardPodAffinitySymetricWeight: unknown field; did you mean "hardPodAffinitySymmetricWeight"?'),
    "a weight in quotes": (
        policy((), [{"name": "LeastRequestedPriority", "weight": "3"}]),
        'priorities[0].weight: expected a whole number, got "3"'),
    "no weight": (
        policy((), [{"name": "LeastRequestedPriority"}]), "priorities[0].weight: is missing; expected a number of 1 or more"),
    "a weight beyond 32 bits": (
        policy((), [{"name": "LeastRequestedPriority", "weight": 2**31}]),
        "priorities[0].weight: expected from 1 to 2147483647, got 2147483648"),
    "predicates that are not a list": (
        '{"kind": "Policy", "apiVersion": "v1", "predicates": "all"}', 'predicates: expected a list, got "all"'),
    "a duplicate key": ('{"kind": "Policy", "kind": "Policy"}', 'duplicate key "kind"'),
    "a duplicate key in YAML": ("kind: Policy\nkind: Policy\n", 'line 2: duplicate key "kind": kind: Policy'),
    "a key that is null": ("kind: Policy\napiVersion: v1\n~: {}\n", "line 3: a key that is null: ~: {}"),
    "an alias that contains itself": (
        "kind: Policy\napiVersion: v1\npredicates: &all\n- *all\n", "line 4: *all contains itself"),
    "a duplicate anchor": (
        "kind: Policy\npredicates: [&a {name: HostName}]\npriorities: [&a {name: X}]\n",
        "line 3: a duplicate anchor: priorities: [&a {name: X}]"),
    "a second document after JSON": (
        f'{policy()}\n{policy()}', f"line 2: expected nothing after the JSON document: {policy()}"),
    "a second document after JSON and ---": (f"{policy()}\n---\n{{}}", "line 2: expected nothing after the JSON document: ---"),
    "a comment after JSON": (f"{policy()}\n# that is all", "line 2: expected nothing after the JSON document: # that is all"),
    "a file that is cut off in a string": (
        '{"kind": "Policy", "predi', 'line 1: Unterminated string starting at: {"kind": "Policy", "predi'),
    "a file that is cut off after a comma": (
        '{"kind": "Policy",', 'line 1: Expecting property name enclosed in double quotes: {"kind": "Policy",'),
    "a comma after the last entry of a list": (
        '{"kind": "Policy",\n "predicates": [\n  {"name": "HostName"},\n ]}',
        'line 3: an extra comma: {"name": "HostName"},'),
    "a comma after the last entry of an object": (
        '{"kind": "Policy", "apiVersion": "v1", }', 'line 1: an extra comma: {"kind": "Policy", "apiVersion": "v1", }'),
    "a comma after the last entry, with tabs as indentation": (
        '{\n\t"kind": "Policy",\n\t"apiVersion": "v1",\n}', 'line 3: an extra comma: "apiVersion": "v1",'),
    "a missing quote in the last line": ('{"kind": "Policy,\n}', 'line 1: Invalid control character at: {"kind": "Policy,'),
    "two commas": ('{"kind": "Policy",\n "apiVersion": "v1",, "predicates": []}',
                   'line 2: @: "apiVersion": "v1",, "predicates": []}'),
    "a missing comma at the end of a line": (
        '{"kind": "Policy"\n "apiVersion": "v1"}', 'line 1: Expecting \',\' delimiter: {"kind": "Policy"'),
    "a file that is cut off at the end of a line": (
        '{"kind": "Policy",\n', 'line 1: Expecting property name enclosed in double quotes: {"kind": "Policy",'),
    "a missing value on the next line": ('{"kind":\n Policy}', 'line 1: Expecting value: {"kind":'),
    "neither kind nor apiVersion": (
        '{"predicates": []}', f'{EXPECTED} {{"predicates": []}}'),
    "an empty file": ("", f"{EXPECTED} nothing"),
    "only a comment": ("# soon\n", f"{EXPECTED} nothing"),
    "an empty object": ("{}", f"{EXPECTED} {{}}"),
    "an empty document before the Policy": (
        "---\n{}\n---\nkind: Policy\napiVersion: v1\n", f"{EXPECTED} {{}}"),
    "no kind": ('{"apiVersion": "v1"}', f'{EXPECTED} {{"apiVersion": "v1"}}'),
    "no apiVersion": ('{"kind": "Policy"}', f'{EXPECTED} {{"kind": "Policy"}}'),
    "an empty apiVersion": (
        '{"kind": "Policy", "apiVersion": ""}', f'{EXPECTED} {{"kind": "Policy", "apiVersion": ""}}'),
    "another kind": ("kind: Service\napiVersion: v1\nspec: {}",
                     f'{EXPECTED} {{"kind": "Service", "apiVersion": "v1", "spec": {{}}}}'),
    "another kind, whose text is cut between words": (
        'kind: Service\napiVersion: v1\nmetadata: {name: a-name-of-many-letters}',
        f'{EXPECTED} {{"kind": "Service", "apiVersion": "v1", "metadata": ...'),
    "another API's Policy": (
        "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: []",
        f'{EXPECTED} {{"kind": "Policy", "apiVersion": "audit.k8s.io/v1", ...'),
    "a ConfigMap with other data": (
        json.dumps(CONFIG_MAP | {"data": {"queues.yaml": "partitions: []"}}), f"{EXPECTED} a ConfigMap without either"),
    "a ConfigMap with the Policy": (json.dumps(CONFIG_MAP), f"{EXPECTED} {FROM_MAP}"),
    "a List with such a ConfigMap": (json.dumps({"kind": "List", "items": [CONFIG_MAP]}), f"{EXPECTED} a List with {FROM_MAP}"),
    "a kubeadm file": (
        "kind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta3",
        f"{EXPECTED} a ClusterConfiguration; --policy needs the file that its config or policy-config-file names"),
    "Helm values": (
        "scheduler: {replicas: 2}", f'{EXPECTED} {{"scheduler": {{"replicas": 2}}}}; for Helm values, use the '
        "ConfigMap in the output of `helm template`"),
    "a template": (
        "kind: Policy\napiVersion: v1\npredicates:\n- name: {{ .Values.predicate }}",
        "line 4: found unhashable key: - name: {{ .Values.predicate }}; line 4 has {{: render the template first"),
    "a timeout as in a configuration": (
        policy(extenders=[{"urlPrefix": "http://x", "httpTimeout": "30s"}]),
        'extenders[0].httpTimeout: expected a whole number of nanoseconds, such as 30000000000, got "30s"'),
    "an extender's resources that are not extended resources": (
        policy(extenders=[{"urlPrefix": "http://x", "managedResources": [{"name": "cpu"}, {"name": "kubernetes.io/gpu"}]}]),
        'extenders[0].managedResources: "cpu" is not an extended resource, such as example.com/gpu; extenders[0].managedResources: '
        '"kubernetes.io/gpu" is not an extended resource, such as example.com/gpu'),
    "a resource of two extenders": (
        policy(extenders=[{"urlPrefix": "http://x", "managedResources": [{"name": "example.com/gpu"}]}] * 2),
        'extenders[1].managedResources: "example.com/gpu" appears twice'),
    "several mistakes, each reported once": (
        policy([{"name": "HostNam"}], [{"name": "ImageLocalit", "weight": 1}, {"name": "LeastRequestedPriority"}],
               extenders=[{"prioritizeVerb": "x"}]),
        'predicates[0]: unknown predicate "HostNam"; did you mean "HostName"?; priorities[0]: unknown priority "ImageLocalit"; '
        "is a file missing in --plugins?; priorities[1].weight: is missing; expected a "
        "number of 1 or more; extenders[0].weight: must be positive where there is a prioritizeVerb"),
    "a label that must be both present and absent": (
        policy([{"name": "A", "argument": {"labelsPresence": {"labels": ["x"], "presence": True}}},
                {"name": "B", "argument": {"labelsPresence": {"labels": ["x"]}}}]),
        'predicates[1]: label "x" cannot be wanted both present and absent'),
    "a label that is preferred both present and absent": (
        policy((), [{"name": "A", "weight": 1, "argument": {"labelPreference": {"label": "x", "presence": True}}},
                    {"name": "B", "weight": 1, "argument": {"labelPreference": {"label": "x"}}}]),
        'priorities[1]: label "x" cannot be wanted both present and absent'),
    "labelPreference entries with different weights": (
        policy((), [{"name": "A", "weight": 1, "argument": {"labelPreference": {"label": "x"}}},
                    {"name": "B", "weight": 2, "argument": {"labelPreference": {"label": "y"}}}]),
        "priorities[1].weight: must be 1 as in priorities[0], because they mean the same rule"),
    "... of which the last and the first are equal": (
        policy((), [{"name": name, "weight": weight, "argument": {"labelPreference": {"label": name}}}
                    for name, weight in (("A", 2), ("B", 3), ("C", 2))]),
        "priorities[1].weight: must be 2 as in priorities[0], because they mean the same rule"),
    "a shape that does not ascend": (
        policy((), [{"name": "Pack", "weight": 1, "argument": {"requestedToCapacityRatioArguments": {
            "shape": [{"utilization": 50}, {"utilization": 50}]}}}]),
        "priorities[0]: the utilization values of shape must ascend"),
    "an entry that is null": (policy([None]), 'predicates[0]: unknown predicate ""; is a file missing in --plugins?'),
    "caData that is not base64": (
        policy(extenders=[{"urlPrefix": "https://x", "tlsConfig": {"caData": "?"}}]),
        "extenders[0].tlsConfig.caData: expected what is in the file, in base64"),
    "a certificate file that does not exist": (
        policy(extenders=[{"urlPrefix": "https://x", "tlsConfig": {"certFile": "/nowhere"}}]),
        "extenders[0].tlsConfig.certFile: there is no file /nowhere"),
    "a CA together with insecure": (
        policy(extenders=[{"urlPrefix": "https://x", "tlsConfig": {"caFile": __file__, "insecure": True}}]),
        "extenders[0].tlsConfig: give either caFile, or caData, or insecure"),
    "an argument with a typo, under a custom name": (
        policy([{"name": "A", "argument": {"labelPresence": {"labels": ["x"]}}}]),
        'predicates[0].argument.labelPresence: unknown field; did you mean "labelsPresence"?'),
    "an argument whose name is incomplete": (
        policy((), [{"name": "A", "weight": 1, "argument": {"requestedToCapacityRatio": {}}}]),
        'priorities[0].argument.requestedToCapacityRatio: unknown field; did you mean '
        '"requestedToCapacityRatioArguments"?'),
    "an empty argument": (
        policy([{"name": "A", "argument": {"labelsPresence": None}}]),
        "predicates[0]: the argument must have exactly one member"),
    "an unknown priority without a weight": (
        policy((), [{"name": "LeastRequestedPriorit"}]),
        'priorities[0]: unknown priority "LeastRequestedPriorit"; did you mean "LeastRequestedPriority"?'),
    "a rule that needs an argument under its own name": (
        policy((), [{"name": "NodeLabel", "weight": 1}]),
        "priorities[0]: needs another name, and the argument labelPreference"),
})
def test_an_invalid_policy_gives_one_line(text, line, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(text)
    run = run_scheduler("--policy", path, "--cluster", "/dev/null")
    message = re.sub("Expecting (value|property name enclosed in double quotes)", "@", run.stderr)
    assert (run.returncode, message if "@" in line else run.stderr) == (2, f"{path}: {line}\n"), "@ depends on Python's version"


def test_a_missing_file():
    run = run_scheduler("--policy", "nowhere.yaml", "--cluster", "/dev/null")
    assert (run.returncode, run.stderr) == (2, "nowhere.yaml: No such file or directory\n")


@pytest.mark.parametrize("field", ["zone", "labels", "preference", "version"])
def test_a_rule_with_an_argument_whose_file_is_missing(field, tmp_path):
    (tmp_path / "policy.json").write_text(policy((), [
        {"name": "PreferZone", "weight": 1, "argument": {field: "east"}}]))
    run = run_scheduler("--policy", "policy.json", "--cluster", "/dev/null", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (2, (
        'policy.json: priorities[0]: unknown priority "PreferZone"; is a file missing in --plugins?\n'))


def test_a_plugins_file_without_rules(tmp_path):
    (tmp_path / "policy.json").write_text(policy([{"name": "Mine"}]))
    (tmp_path / "my_rules.py").write_text("def mine(pod, node): return []\n")
    run = run_scheduler("--plugins", "my_rules.py", "--policy", "policy.json", "--cluster", "/dev/null", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (2, (
        'policy.json: predicates[0]: unknown predicate "Mine"; is a file missing in --plugins?\n'))


@table("text, accepted", {
    "a kind that is not a string": ('{"kind": 0, "apiVersion": "v1"}', False),
    "a key that is a list": ("kind: Policy\napiVersion: v1\n? [kind]\n: Policy\n", False),
    "the longer apiVersion": ('{"kind": "Policy", "apiVersion": "kubescheduler.config.k8s.io/v1"}', True),
    "empty lists of labels, present and absent": (policy([
        {"name": "A", "argument": {"labelsPresence": {"presence": True}}}, {"name": "B", "argument": {
            "labelsPresence": {"presence": False}}}]), True),
    "the names of Go's struct fields": ('{"kind": "Policy", "apiVersion": "v1", "Predicates": []}', False),
})
def test_accepted_documents(text, accepted, tmp_path):
    path = tmp_path / "policy"
    path.write_text(text)
    try:
        load_policies(path, "my-scheduler")
    except InputError:
        assert not accepted
    else:
        assert accepted


@table("where, entry, names", {
    "EqualPriority ignores its argument": (
        "priorities", {"name": "EqualPriority", "weight": 2, "argument": {"labelPreference": {"label": "x"}}}, []),
    "a name that 1.20 does not know is a custom name if it has an argument": (
        "predicates", {"name": "CheckNodeCondition", "argument": {"labelsPresence": {"labels": ["x"]}}},
        ["CheckNodeUnschedulable", "PodToleratesNodeTaints", "CheckNodeLabelPresence"]),
})
def test_arguments_of_names_without_a_rule(where, entry, names):
    built = read_policy(json.loads(policy(**{where: [entry]})))
    assert [rule.name for rule in getattr(built, where)] == names and built.notices == []


def test_all_problems_are_reported_at_once():
    with pytest.raises(InputError) as error:
        read_policy(json.loads(policy(
            [{"name": "HostName", "labels": []}], [{"name": "EqualPriority", "weight": -1}],
            hardPodAffinitySymmetricWeight=101)))
    assert str(error.value) == (
        "predicates[0].labels: unknown field; priorities[0].weight: expected from 1 to 2147483647, got -1; "
        "hardPodAffinitySymmetricWeight: expected from 0 to 100, got 101")


@table("more, notices", {
    "an extender with a preemptVerb": (
        {"extenders": [{"urlPrefix": "http://x", "preemptVerb": "preempt"}]},
        ["extenders[0].preemptVerb: not used, because no pod is preempted; see --preempt"]),
    "a predicate that needs another name and an argument": (
        {"predicates": [*({"name": name} for name in MANDATORY_PREDICATES), {"name": "CheckServiceAffinity"}]},
        ["predicates[2]: accepts every node; it needs another name, and the argument serviceAffinity"]),
})
def test_entries_without_effect_give_a_notice(more, notices):
    assert read_policy({"kind": "Policy", "apiVersion": "v1", **more}).notices == notices


@table("text, notices", {
    "one document": (policy(), []),
    "a second document": (f"---\n{policy()}\n---\n{policy()}", ["only the first document is read, as in kube-scheduler"]),
    "an end of the document": (f"---\n{policy()}\n---\n", []),
})
def test_further_documents_give_a_notice(text, notices, tmp_path):
    (tmp_path / "policy.yaml").write_text(text)
    [built] = load_policies(tmp_path / "policy.yaml", "my-scheduler").values()
    assert built.notices == notices


def policy_at_hint(message, document):
    """Return the value in a ConfigMap at the path that the hint names."""
    [path] = re.findall(r"-o jsonpath='\{\.data\.(.*?)\}'", message)
    return document["data"][path.replace("\\.", ".")]


@table("document, follow, predicates", {
    "a ConfigMap": (CONFIG_MAP | {"data": {"a.txt": "", "policy.cfg": policy([{"name": "HostName"}])}}, policy_at_hint, ["HostName"]),
    "a List with a ConfigMap": (
        {"kind": "List", "items": [CONFIG_MAP | {"data": {"policy.cfg": policy([{"name": "HostName"}])}}]},
        lambda message, document: policy_at_hint(message, document["items"][0]), ["HostName"]),
    "the Go identifier of a rule": (
        json.loads(policy([{"name": "PodMatchNodeSelector"}])),
        lambda message, document: policy([{"name": re.search(r"in a Policy: (\w+)\)", message)[1]}]), ["MatchNodeSelector"]),
    "a duration": (
        json.loads(policy([{"name": "HostName"}], extenders=[{"urlPrefix": "http://x", "httpTimeout": "30s"}])),
        lambda message, document: policy([{"name": "HostName"}], extenders=[
            {"urlPrefix": "http://x", "httpTimeout": int(re.search(r"such as (\d+)", message)[1])}]), ["HostName"]),
})
def test_following_a_hint_gives_an_equivalent_policy(document, follow, predicates, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as error:
        load_policies(path, "my-scheduler")
    path.write_text(follow(str(error.value), document))
    [built] = load_policies(path, "my-scheduler").values()
    assert [rule.name for rule in built.predicates if not rule.always] == predicates
    assert [extender.endpoint.timeout for extender in built.extenders] in ([], [30])


def test_a_policy_may_come_from_standard_input():
    run = run_scheduler("--policy", "-", "--cluster", ROOT / "tests/demo.yaml", input=policy([{"name": "HostNam"}]))
    assert (run.returncode, run.stderr) == (2, '-: predicates[0]: unknown predicate "HostNam"; did you mean "HostName"?\n')


@table("names, order", {
    "the order in the Policy does not matter": (
        ["PodToleratesNodeTaints", "NoDiskConflict", "MatchNodeSelector", "PodFitsPorts"],
        "CheckNodeUnschedulable PodFitsHostPorts MatchNodeSelector NoDiskConflict PodToleratesNodeTaints"),
    "GeneralPredicates moves its four to the front, each once": (
        ["NoDiskConflict", "PodFitsResources", "GeneralPredicates"],
        "CheckNodeUnschedulable PodFitsResources HostName PodFitsHostPorts MatchNodeSelector NoDiskConflict "
        "PodToleratesNodeTaints"),
    "two predicates are always active": ([], "CheckNodeUnschedulable PodToleratesNodeTaints"),
})
def test_predicates_run_in_kube_schedulers_order(names, order):
    built = read_policy(json.loads(policy([{"name": name} for name in names])))
    assert [rule.name for rule in built.predicates] == order.split()


@table("weights, total", {
    "one preference": ([3], 3),
    "two preferences are one rule with the sum of their weights": ([3, 3], 6),
    "the highest weight": ([2**31 - 1], 2**31 - 1),
})
def test_label_preferences_are_one_rule(weights, total):
    [rule] = read_policy(json.loads(policy((), [
        {"name": f"prefer-{i}", "weight": weight, "argument": {"labelPreference": {"label": f"label-{i}"}}}
        for i, weight in enumerate(weights)]))).priorities
    assert rule.weight == total


def test_two_rules_with_the_same_custom_name_both_count():
    built = read_policy(json.loads(policy(
        [{"name": "x", "argument": {"labelsPresence": {"labels": ["a"], "presence": True}}},
         {"name": "x", "argument": {"serviceAffinity": {"labels": ["zone"]}}}],
        [{"name": "x", "weight": 2, "argument": {"labelPreference": {"label": "a", "presence": True}}},
         {"name": "x", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "zone"}}}],
        alwaysCheckAllPredicates=True)))
    decision = decide({"my-scheduler": built}, pod("p", nodeSelector={"zone": "z"}),
                      node("n", labels={"a": "", "zone": "z"}), node("m", labels={"a": "", "zone": "z"}), node("o"))
    assert decision.total == {"n": 300, "m": 300}
    assert decision.message is None and sorted(sum(decision.failed["o"].values(), [])) == [
        "node(s) didn't have the requested labels", "node(s) didn't match service affinity"]


@table("extender, message", {
    "an unknown field": ({"ignoreable": True}, 'extenders[0].ignoreable: unknown field, ignored as in kube-scheduler'),
    "an unknown field of a resource": (
        {"managedResources": [{"name": "a/b", "ignoredBySchedular": True}]},
        "extenders[0].managedResources[0].ignoredBySchedular: unknown field, ignored as in kube-scheduler"),
    "known fields in another case": ({"Weight": 1, "URLPREFIX": "http://x"}, None),
})
def test_unknown_fields_of_an_extender_give_a_notice(extender, message):
    built = read_policy({"kind": "Policy", "apiVersion": "v1", "extenders": [extender]})
    assert built.notices == ([message] if message else [])


def test_the_shipped_policy_gives_no_notice():
    [built] = load_policies(ROOT / "policy.json", "my-scheduler").values()
    assert built.notices == [] and len(built.predicates) > 4 and len(built.priorities) > 2


LEAST = {"name": "LeastRequestedPriority", "weight": 1}


@table("text, message", {
    "a new predicate": (policy([{"name": "HostName"}, {"name": "PodFitsHostPorts"}], [LEAST]), ["+ PodFitsHostPorts"]),
    "a removed predicate": (policy([], [LEAST]), ["- HostName"]),
    "another weight": (policy([{"name": "HostName"}], [LEAST | {"weight": 5}]),
                       ["- LeastRequestedPriority ×1", "+ LeastRequestedPriority ×5"]),
    "several changes": (policy([{"name": "PodFitsResources"}], [{"name": "MostRequestedPriority", "weight": 1}]),
                    ["- HostName", "+ PodFitsResources", "- LeastRequestedPriority ×1", "+ MostRequestedPriority ×1"]),
    "alwaysCheckAllPredicates": (
        policy([{"name": "HostName"}], [LEAST], alwaysCheckAllPredicates=True), ["+ alwaysCheckAllPredicates"]),
    "an extender": (policy([{"name": "HostName"}], [LEAST], extenders=[{"urlPrefix": "http://x"}]),
                    ['+ extenders[0] {"urlPrefix": "http://x"}']),
    "other white space": (policy([{"name": "HostName"}], [LEAST]) + "\n", ["reloaded without changes"]),
    "an entry without effect": (
        policy([{"name": "HostName", "argument": {"labelsPresence": {"labels": ["a"]}}}], [LEAST]),
        ["reloaded without changes", 'predicates[0]: "HostName" ignores its argument, as in kube-scheduler; use a name of '
         "your own"]),
    "a typo": ('{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "HostNam"}]}',
               ['predicates[0]: unknown predicate "HostNam"; did you mean "HostName"?; still using the last good Policy']),
    "an empty file": ("", [f"{EXPECTED} nothing; still using the last good Policy"]),
    "an empty object": ("{}", [f"{EXPECTED} {{}}; still using the last good Policy"]),
    "a file that is cut off": ('{"kind": "Pol', ["line 1: Unterminated string starting at: {\"kind\": \"Pol; still using the last "
                                      "good Policy"]),
})
def test_an_edit_takes_effect_and_is_logged_once_as_a_diff(text, message, tmp_path, caplog):
    path = tmp_path / "policy.json"
    path.write_text(policy([{"name": "HostName"}], [LEAST]))
    file = PolicyFile(path, "my-scheduler")
    before = file.reload_if_changed()
    path.write_text(text)
    after = [file.reload_if_changed() for _ in range(3)]
    assert caplog.messages == [f"{path}: {line}" for line in message]
    assert after[0] is after[1] is after[2]
    stays = message[0].endswith(("still using the last good Policy", "reloaded without changes"))
    caplog.clear()
    path.write_text(path.read_text() + " ")
    file.reload_if_changed()
    assert [line for line in caplog.messages if "without changes" not in line and "still using" not in line] == [], "logged once"
    assert (after[0] is before) == stays


TWO = [{"name": "HostName"}, {"name": "PodFitsHostPorts"}]


@table("text, stays", {
    "a new modification time": (policy(TWO, [LEAST]), True),
    "other white space": (policy(TWO, [LEAST]) + "\n", True),
    "another order of predicates, and an explicit default": (policy([*reversed(TWO)], [LEAST], alwaysCheckAllPredicates=False), True),
    "another weight": (policy(TWO, [LEAST | {"weight": 2}]), False),
    "priorities in another order": (policy(TWO, [{"name": "ImageLocalityPriority", "weight": 1}, LEAST]), False),
})
def test_an_equivalent_policy_does_not_replace_the_old_one(text, stays, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(policy(TWO, [LEAST]))
    file = PolicyFile(path, "my-scheduler")
    before = file.reload_if_changed()["my-scheduler"]
    path.write_text(text)
    os.utime(path, (1, 1))
    assert (file.reload_if_changed()["my-scheduler"] is before) == stays


@table("text, expected", {
    "a new modification time": ("yield 'closed'", ["reloaded without changes"]),
    "an edit": ("yield 'shut'", ["has changed"]),
    "a syntax error": ("yield 'shut", ["still using the last good Policy"]),
})
def test_a_policy_is_replaced_only_if_its_plugin_changes(text, expected, tmp_path, caplog):
    path, rules = tmp_path / "policy.json", tmp_path / "my_rules.py"
    rule = "from scheduler import predicate\n@predicate('Mine')\ndef mine(pod, node):\n    "
    path.write_text(policy([{"name": "Mine"}]))
    rules.write_text(rule + "yield 'closed'")
    file = PolicyFile(path, "my-scheduler", [rules])
    try:
        before = file.reload_if_changed()["my-scheduler"]
        rules.write_text(rule + text)
        os.utime(rules, (1, 1))
        os.utime(path, (1, 1))  # as if both were in the same ConfigMap
        assert (file.reload_if_changed()["my-scheduler"] is before) == (expected != ["has changed"])
        assert [message.endswith(words) for message, words in zip(caplog.messages, expected)] == [True] * len(expected)
    finally:
        unplug()


def test_another_order_of_priorities_is_logged(tmp_path, caplog):
    path, image = tmp_path / "policy.json", {"name": "ImageLocalityPriority", "weight": 1}
    path.write_text(policy((), [LEAST, image]))
    file = PolicyFile(path, "my-scheduler")
    path.write_text(policy((), [image, LEAST, ]) + "\n")
    file.reload_if_changed()
    assert sorted(caplog.messages) in (
        [f"{path}: + {name}", f"{path}: - {name}"] for name in ("LeastRequestedPriority ×1", "ImageLocalityPriority ×1"))


def profiles(*names):
    """A KubeSchedulerConfiguration with these profiles."""
    return json.dumps({"kind": "KubeSchedulerConfiguration", "apiVersion": CONFIGURATION_VERSION,
                       "profiles": [{"schedulerName": name} for name in names]})


ALL_DEFAULTS = [{"name": rule.name} for rule in PREDICATES.values() if rule.by_default]


@table("before, after, text", {
    "one of two profiles is removed": (profiles("one", "two"), profiles("one"), "- two: "),
    "a second profile is added": (profiles("one"), profiles("one", "two"), "+ two: "),
    "a profile is renamed": (profiles("one"), profiles("two"), ("- one: ", "+ two: ")),
    "a list is removed": (
        policy(ALL_DEFAULTS[:-1], [LEAST]), json.dumps({"kind": "Policy", "apiVersion": "v1", "priorities": [LEAST]}),
        f"+ {ALL_DEFAULTS[-1]['name']}"),
})
def test_unchanged_rules_are_not_logged(before, after, text, tmp_path, caplog):
    path = tmp_path / "policy.json"
    path.write_text(before)
    file = PolicyFile(path, "my-scheduler")
    caplog.clear()
    path.write_text(after)
    assert file.reload_if_changed() == file.policies and {*file.policies} == {*load_policies(path, "my-scheduler")}
    lines = [message.removeprefix(f"{path}: ") for message in caplog.messages]
    assert lines and all(line.startswith(text) for line in lines), lines


@table("name", {name: (name,) for name in REPLACED_BY_TAINTS})
def test_predicates_that_taints_have_replaced_are_accepted_with_a_notice(name):
    built = read_policy(json.loads(policy([{"name": name[0]}])))
    assert [rule.name for rule in built.predicates] == ["CheckNodeUnschedulable", "PodToleratesNodeTaints"]
    assert built.notices == [
        f"predicates[0]: taints have replaced {name[0]}, and PodToleratesNodeTaints is always active"]


def test_a_changed_argument_is_logged(tmp_path, caplog):
    path, entry = tmp_path / "policy.json", {"name": "Fast", "weight": 1}
    path.write_text(policy((), [entry | {"argument": {"labelPreference": {"label": "fast"}}}]))
    file = PolicyFile(path, "my-scheduler")
    path.write_text(policy((), [entry | {"argument": {"labelPreference": {"label": "faster"}}}]))
    file.reload_if_changed()
    assert caplog.messages == [f'{path}: - Fast (NodeLabel) ×1 arguments=[{{"label": "fast"}}]',
                               f'{path}: + Fast (NodeLabel) ×1 arguments=[{{"label": "faster"}}]']


def test_the_policy_recovers_after_the_file_was_missing_or_invalid(tmp_path, caplog):
    path = tmp_path / "policy.json"
    path.write_text(policy([{"name": "HostName"}], [LEAST]))
    file = PolicyFile(path, "my-scheduler")
    for state in (None, "{", policy([], [LEAST])):
        path.unlink(missing_ok=True)
        if state is not None:
            path.write_text(state)
        file.reload_if_changed()
    assert len(file.policies["my-scheduler"].predicates) == 2
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "No such file or directory; still using the last good Policy",
        "line 1: Expecting property name enclosed in double quotes: {; still using the last good Policy",
        "- HostName"]


def test_an_argument_for_a_rule_that_takes_none_is_an_error():
    with pytest.raises(InputError) as error:
        read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [
            {"name": "HostName", "argument": {"zone": "east"}}]})
    assert str(error.value) == "predicates[0].argument.zone: unknown field"


@pytest.mark.parametrize("name", ["CheckNodeLabelPresence", "CheckServiceAffinity"])
def test_a_label_predicate_without_labels_accepts_every_node(name):
    policies = {"my-scheduler": read_policy({
        "kind": "Policy", "apiVersion": "v1", "predicates": [{"name": name}], "priorities": []})}
    assert list(decide(policies, pod("p"), node("a"), node("b")).total) == ["a", "b"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])  # PowerShell writes the last one
def test_a_policy_may_have_the_encodings_and_line_endings_of_windows(encoding, tmp_path):
    path = tmp_path / "policy.json"
    path.write_bytes((ROOT / "policy.json").read_text().replace("\n", "\r\n").encode(encoding))
    read, shipped = (load_policies(each, "my-scheduler")["my-scheduler"] for each in (path, ROOT / "policy.json"))
    assert lines_of(read) == lines_of(shipped)
