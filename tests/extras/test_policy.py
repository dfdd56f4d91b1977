"""The Policy file: what is accepted and rejected, and what the lines say."""

import json
import os
import re

import pytest

from helpers.extras import MANDATORY_PREDICATES, ROOT, decide, node, pod, run_scheduler, table
from helpers.golden import recorded
from scheduler_extras.common.errors import InputError
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.deciding.rule import PREDICATES
from scheduler_extras.policy.own_rules import unplug
from scheduler_extras.policy.policy_file import PolicyFile, lines_of, load_policies
from scheduler_extras.policy.policy_reader import ACCEPTED, REPLACED_BY_TAINTS, read_policy


POLICY_CASES = recorded("policy-cases")
DIFFERENT_ON_PURPOSE = {
    "removed-CheckNodeDiskPressure", "removed-PodToleratesNodeNoExecuteTaints",  # older names: read, with a notice
    "no-apiversion-gofieldname"}  # what Go calls its fields internally: refused


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
def test_the_exit_code_is_2_for_a_rejected_policy(case, tmp_path):
    path = tmp_path / "policy"
    path.write_text(case["policy"])
    run = run_scheduler("--policy", path, "--cluster", "-", input='{"kind": "Node", "metadata": {"name": "a"}}')
    accepted = case["expect"]["accepted"]
    assert run.returncode == (0 if accepted else 2)
    assert accepted or (run.stderr.startswith(f"{path}: ") and "Traceback" not in run.stderr)


def policy(predicates=(), priorities=(), **more):
    """A Policy as JSON, which names what is always on."""
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
    "a typo is compared with names of its sort only": (
        policy([{"name": "EvenPodsSpreadPriorit"}]),
        'predicates[0]: unknown predicate "EvenPodsSpreadPriorit"; did you mean "EvenPodsSpread"?; is a file missing '
        "in --plugins?"),
    "another project's name that is like one of ours": (
        policy([{"name": "NodeResourcesFitPlus"}]),
        'predicates[0]: unknown predicate "NodeResourcesFitPlus"; is a file missing in --plugins?'),
    "what Go calls a rule": (
        policy([{"name": "PodFitsHost"}]),
        'predicates[0]: unknown predicate "PodFitsHost"; use NodeName (in a Policy: HostName)'),
    "a priority among the predicates": (
        policy([{"name": "LeastRequestedPriority"}]),
        'predicates[0]: "LeastRequestedPriority" is a priority; put it under priorities'),
    "a predicate among the priorities": (
        policy((), [{"name": "PodFitsResources", "weight": 1}]),
        'priorities[0]: "PodFitsResources" is a predicate; put it under predicates'),
    "a name for several predicates among the priorities": (
        policy((), [{"name": "GeneralPredicates", "weight": 1}]),
        'priorities[0]: "GeneralPredicates" is a predicate; put it under predicates'),
    "a priority that is none": (
        policy((), [{"name": "Cheapest", "weight": 1}]),
        'priorities[0]: unknown priority "Cheapest"; is a file missing in --plugins?'),
    "a plugin's name, which its predicate has here": (
        policy([{"name": "NodeAffinity"}]), 'predicates[0]: unknown predicate "NodeAffinity"; did you mean "MatchNodeSelector"?'),
    "a plugin's name, which its priority has here": (
        policy((), [{"name": "NodeAffinity", "weight": 1}]),
        'priorities[0]: unknown priority "NodeAffinity"; did you mean "NodeAffinityPriority"?'),
    "a plugin's name that is like that of its priority": (
        policy([{"name": "TaintToleration"}]),
        'predicates[0]: unknown predicate "TaintToleration"; did you mean "PodToleratesNodeTaints"?'),
    "a priority that has gone": (
        policy((), [{"name": "ResourceLimitsPriority", "weight": 1}]),
        'priorities[0]: unknown priority "ResourceLimitsPriority"; leave it out'),
    "a predicate's name among the priorities, where one is called like it": (
        policy((), [{"name": "EvenPodsSpread", "weight": 1}]),
        'priorities[0]: unknown priority "EvenPodsSpread"; did you mean "EvenPodsSpreadPriority"?'),
    "plugins, which a configuration has": (
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
    "a predicate's argument among the priorities, which means the opposite there": (
        policy((), [{"name": "Zone", "weight": 1, "argument": {"serviceAffinity": {"labels": ["zone"]}}}]),
        "priorities[0].argument.serviceAffinity: unknown field; use pod affinity (in a Policy: a predicate of any name, with "
        "the argument serviceAffinity)"),
    "a version": ('{"kind": "Policy", "version": "v1"}', "version: unknown field; use apiVersion"),
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
    "predicates that are no list": (
        '{"kind": "Policy", "apiVersion": "v1", "predicates": "all"}', 'predicates: expected a list, got "all"'),
    "a key twice": ('{"kind": "Policy", "kind": "Policy"}', 'duplicate key "kind"'),
    "a key twice in YAML": ("kind: Policy\nkind: Policy\n", 'line 2: duplicate key "kind": kind: Policy'),
    "a key that is null": ("kind: Policy\napiVersion: v1\n~: {}\n", "line 3: a key that is null: ~: {}"),
    "an alias in what it stands for": (
        "kind: Policy\napiVersion: v1\npredicates: &all\n- *all\n", "line 4: *all contains itself"),
    "an anchor twice": (
        "kind: Policy\npredicates: [&a {name: HostName}]\npriorities: [&a {name: X}]\n",
        "line 3: a duplicate anchor: priorities: [&a {name: X}]"),
    "a second document behind JSON": (
        f'{policy()}\n{policy()}', f"line 2: expected nothing after the JSON document: {policy()}"),
    "... behind ---": (f"{policy()}\n---\n{{}}", "line 2: expected nothing after the JSON document: ---"),
    "a comment behind JSON": (f"{policy()}\n# that is all", "line 2: expected nothing after the JSON document: # that is all"),
    "half a file": (
        '{"kind": "Policy", "predi', 'line 1: Unterminated string starting at: {"kind": "Policy", "predi'),
    "half a file, up to a comma": (
        '{"kind": "Policy",', 'line 1: Expecting property name enclosed in double quotes: {"kind": "Policy",'),
    "a comma behind the last of a list": (
        '{"kind": "Policy",\n "predicates": [\n  {"name": "HostName"},\n ]}',
        'line 3: an extra comma: {"name": "HostName"},'),
    "a comma behind the last of an object": (
        '{"kind": "Policy", "apiVersion": "v1", }', 'line 1: an extra comma: {"kind": "Policy", "apiVersion": "v1", }'),
    "a comma behind the last, where tabs indent": (
        '{\n\t"kind": "Policy",\n\t"apiVersion": "v1",\n}', 'line 3: an extra comma: "apiVersion": "v1",'),
    "a quote that is missing in the last line": ('{"kind": "Policy,\n}', 'line 1: Invalid control character at: {"kind": "Policy,'),
    "two commas": ('{"kind": "Policy",\n "apiVersion": "v1",, "predicates": []}',
                   'line 2: @: "apiVersion": "v1",, "predicates": []}'),
    "no comma at the end of a line": (
        '{"kind": "Policy"\n "apiVersion": "v1"}', 'line 1: Expecting \',\' delimiter: {"kind": "Policy"'),
    "half a file, up to the end of a line": (
        '{"kind": "Policy",\n', 'line 1: Expecting property name enclosed in double quotes: {"kind": "Policy",'),
    "no value on the next line": ('{"kind":\n Policy}', 'line 1: Expecting value: {"kind":'),
    "neither kind nor apiVersion": (
        '{"predicates": []}', f'{EXPECTED} {{"predicates": []}}'),
    "nothing at all": ("", f"{EXPECTED} nothing"),
    "nothing but a comment": ("# soon\n", f"{EXPECTED} nothing"),
    "an object without anything": ("{}", f"{EXPECTED} {{}}"),
    "an empty document before the Policy": (
        "---\n{}\n---\nkind: Policy\napiVersion: v1\n", f"{EXPECTED} {{}}"),
    "no kind, as of half a file": ('{"apiVersion": "v1"}', f'{EXPECTED} {{"apiVersion": "v1"}}'),
    "no apiVersion": ('{"kind": "Policy"}', f'{EXPECTED} {{"kind": "Policy"}}'),
    "an empty apiVersion": (
        '{"kind": "Policy", "apiVersion": ""}', f'{EXPECTED} {{"kind": "Policy", "apiVersion": ""}}'),
    "another kind": ("kind: Service\napiVersion: v1\nspec: {}",
                     f'{EXPECTED} {{"kind": "Service", "apiVersion": "v1", "spec": {{}}}}'),
    "another kind, cut between words": (
        'kind: Service\napiVersion: v1\nmetadata: {name: a-name-of-many-letters}',
        f'{EXPECTED} {{"kind": "Service", "apiVersion": "v1", "metadata": ...'),
    "another API's Policy": (
        "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: []",
        f'{EXPECTED} {{"kind": "Policy", "apiVersion": "audit.k8s.io/v1", ...'),
    "a ConfigMap of something else": (
        json.dumps(CONFIG_MAP | {"data": {"queues.yaml": "partitions: []"}}), f"{EXPECTED} a ConfigMap without either"),
    "the ConfigMap that has it": (json.dumps(CONFIG_MAP), f"{EXPECTED} {FROM_MAP}"),
    "a List with that": (json.dumps({"kind": "List", "items": [CONFIG_MAP]}), f"{EXPECTED} a List with {FROM_MAP}"),
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
    "an extender's resources that are none": (
        policy(extenders=[{"urlPrefix": "http://x", "managedResources": [{"name": "cpu"}, {"name": "kubernetes.io/gpu"}]}]),
        'extenders[0].managedResources: "cpu" is no extended resource, such as example.com/gpu; extenders[0].managedResources: '
        '"kubernetes.io/gpu" is no extended resource, such as example.com/gpu'),
    "... that come twice": (
        policy(extenders=[{"urlPrefix": "http://x", "managedResources": [{"name": "example.com/gpu"}]}] * 2),
        'extenders[1].managedResources: "example.com/gpu" comes twice'),
    "all that is wrong at once, each once": (
        policy([{"name": "HostNam"}], [{"name": "ImageLocalit", "weight": 1}, {"name": "LeastRequestedPriority"}],
               extenders=[{"prioritizeVerb": "x"}]),
        'predicates[0]: unknown predicate "HostNam"; did you mean "HostName"?; priorities[0]: unknown priority "ImageLocalit"; '
        "is a file missing in --plugins?; priorities[1].weight: is missing; expected a "
        "number of 1 or more; extenders[0].weight: must be positive where there is a prioritizeVerb"),
    "labels wanted both ways": (
        policy([{"name": "A", "argument": {"labelsPresence": {"labels": ["x"], "presence": True}}},
                {"name": "B", "argument": {"labelsPresence": {"labels": ["x"]}}}]),
        'predicates[1]: label "x" cannot be wanted both present and absent'),
    "a label preferred both ways": (
        policy((), [{"name": "A", "weight": 1, "argument": {"labelPreference": {"label": "x", "presence": True}}},
                    {"name": "B", "weight": 1, "argument": {"labelPreference": {"label": "x"}}}]),
        'priorities[1]: label "x" cannot be wanted both present and absent'),
    "labelPreference entries that weigh differently": (
        policy((), [{"name": "A", "weight": 1, "argument": {"labelPreference": {"label": "x"}}},
                    {"name": "B", "weight": 2, "argument": {"labelPreference": {"label": "y"}}}]),
        "priorities[1].weight: must be 1 as in priorities[0], because they mean the same rule"),
    "... though the last weighs as much as the first": (
        policy((), [{"name": name, "weight": weight, "argument": {"labelPreference": {"label": name}}}
                    for name, weight in (("A", 2), ("B", 3), ("C", 2))]),
        "priorities[1].weight: must be 2 as in priorities[0], because they mean the same rule"),
    "a shape that goes back": (
        policy((), [{"name": "Pack", "weight": 1, "argument": {"requestedToCapacityRatioArguments": {
            "shape": [{"utilization": 50}, {"utilization": 50}]}}}]),
        "priorities[0]: the utilization values of shape must ascend"),
    "an entry that is null": (policy([None]), 'predicates[0]: unknown predicate ""; is a file missing in --plugins?'),
    "a CA as data that is none": (
        policy(extenders=[{"urlPrefix": "https://x", "tlsConfig": {"caData": "?"}}]),
        "extenders[0].tlsConfig.caData: expected what is in the file, in base64"),
    "a certificate that is not there": (
        policy(extenders=[{"urlPrefix": "https://x", "tlsConfig": {"certFile": "/nowhere"}}]),
        "extenders[0].tlsConfig.certFile: there is no file /nowhere"),
    "a CA that is not to be asked": (
        policy(extenders=[{"urlPrefix": "https://x", "tlsConfig": {"caFile": __file__, "insecure": True}}]),
        "extenders[0].tlsConfig: give either caFile, or caData, or insecure"),
    "an argument with a typo, under a name of the user's own": (
        policy([{"name": "A", "argument": {"labelPresence": {"labels": ["x"]}}}]),
        'predicates[0].argument.labelPresence: unknown field; did you mean "labelsPresence"?'),
    "an argument whose name is cut short": (
        policy((), [{"name": "A", "weight": 1, "argument": {"requestedToCapacityRatio": {}}}]),
        'priorities[0].argument.requestedToCapacityRatio: unknown field; did you mean '
        '"requestedToCapacityRatioArguments"?'),
    "an argument that is empty": (
        policy([{"name": "A", "argument": {"labelsPresence": None}}]),
        "predicates[0]: the argument must have exactly one member"),
    "neither a weight nor a rule of that name": (
        policy((), [{"name": "LeastRequestedPriorit"}]),
        'priorities[0]: unknown priority "LeastRequestedPriorit"; did you mean "LeastRequestedPriority"?'),
    "a rule that needs an argument under its own name": (
        policy((), [{"name": "NodeLabel", "weight": 1}]),
        "priorities[0]: needs another name, and the argument labelPreference"),
})
def test_what_is_wrong_is_said_in_a_line(text, line, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(text)
    run = run_scheduler("--policy", path, "--cluster", "/dev/null")
    message = re.sub("Expecting (value|property name enclosed in double quotes)", "@", run.stderr)
    assert (run.returncode, message if "@" in line else run.stderr) == (2, f"{path}: {line}\n"), "@ depends on Python's version"


def test_a_file_that_is_not_there():
    run = run_scheduler("--policy", "nowhere.yaml", "--cluster", "/dev/null")
    assert (run.returncode, run.stderr) == (2, "nowhere.yaml: No such file or directory\n")


@pytest.mark.parametrize("field", ["zone", "labels", "preference", "version"])
def test_a_rule_with_an_argument_whose_file_is_missing(field, tmp_path):
    (tmp_path / "policy.json").write_text(policy((), [
        {"name": "PreferZone", "weight": 1, "argument": {field: "east"}}]))
    run = run_scheduler("--policy", "policy.json", "--cluster", "/dev/null", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (2, (
        'policy.json: priorities[0]: unknown priority "PreferZone"; is a file missing in --plugins?\n'))


def test_a_rule_whose_file_has_none(tmp_path):
    (tmp_path / "policy.json").write_text(policy([{"name": "Mine"}]))
    (tmp_path / "my_rules.py").write_text("def mine(pod, node): return []\n")
    run = run_scheduler("--plugins", "my_rules.py", "--policy", "policy.json", "--cluster", "/dev/null", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (2, (
        'policy.json: predicates[0]: unknown predicate "Mine"; is a file missing in --plugins?\n'))


@table("text, accepted", {
    "a kind that is no string": ('{"kind": 0, "apiVersion": "v1"}', False),
    "a key that is a list": ("kind: Policy\napiVersion: v1\n? [kind]\n: Policy\n", False),
    "the longer version": ('{"kind": "Policy", "apiVersion": "kubescheduler.config.k8s.io/v1"}', True),
    "no labels, wanted both ways": (policy([
        {"name": "A", "argument": {"labelsPresence": {"presence": True}}}, {"name": "B", "argument": {
            "labelsPresence": {"presence": False}}}]), True),
    "Go's names": ('{"kind": "Policy", "apiVersion": "v1", "Predicates": []}', False),
})
def test_what_is_taken_for_a_policy(text, accepted, tmp_path):
    path = tmp_path / "policy"
    path.write_text(text)
    try:
        load_policies(path, "my-scheduler")
    except InputError:
        assert not accepted
    else:
        assert accepted


@table("where, entry, names", {
    "a name without a rule ignores its argument": (
        "priorities", {"name": "EqualPriority", "weight": 2, "argument": {"labelPreference": {"label": "x"}}}, []),
    "a name that 1.20 does not know is one of the user's own, if it has an argument": (
        "predicates", {"name": "CheckNodeCondition", "argument": {"labelsPresence": {"labels": ["x"]}}},
        ["CheckNodeUnschedulable", "PodToleratesNodeTaints", "CheckNodeLabelPresence"]),
})
def test_arguments_of_names_that_stand_for_no_rule(where, entry, names):
    built = read_policy(json.loads(policy(**{where: [entry]})))
    assert [rule.name for rule in getattr(built, where)] == names and built.notices == []


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(InputError) as error:
        read_policy(json.loads(policy(
            [{"name": "HostName", "labels": []}], [{"name": "EqualPriority", "weight": -1}],
            hardPodAffinitySymmetricWeight=101)))
    assert str(error.value) == (
        "predicates[0].labels: unknown field; priorities[0].weight: expected from 1 to 2147483647, got -1; "
        "hardPodAffinitySymmetricWeight: expected from 0 to 100, got 101")


@table("more, notices", {
    "an extender that helps to preempt": (
        {"extenders": [{"urlPrefix": "http://x", "preemptVerb": "preempt"}]},
        ["extenders[0].preemptVerb: not used, because no pod is preempted; see --preempt"]),
    "a predicate that needs an argument, under its own name": (
        {"predicates": [*({"name": name} for name in MANDATORY_PREDICATES), {"name": "CheckServiceAffinity"}]},
        ["predicates[2]: accepts every node; it needs another name, and the argument serviceAffinity"]),
})
def test_what_does_nothing_is_said(more, notices):
    assert read_policy({"kind": "Policy", "apiVersion": "v1", **more}).notices == notices


@table("text, notices", {
    "one document": (policy(), []),
    "a second one": (f"---\n{policy()}\n---\n{policy()}", ["only the first document is read, as in kube-scheduler"]),
    "an end of the document": (f"---\n{policy()}\n---\n", []),
})
def test_that_only_the_first_document_is_read_is_said(text, notices, tmp_path):
    (tmp_path / "policy.yaml").write_text(text)
    [built] = load_policies(tmp_path / "policy.yaml", "my-scheduler").values()
    assert built.notices == notices


def obeyed_map(message, document):
    """What is in a ConfigMap where the hint says that it is."""
    [path] = re.findall(r"-o jsonpath='\{\.data\.(.*?)\}'", message)
    return document["data"][path.replace("\\.", ".")]


@table("document, obeyed, predicates", {
    "a ConfigMap": (CONFIG_MAP | {"data": {"a.txt": "", "policy.cfg": policy([{"name": "HostName"}])}}, obeyed_map, ["HostName"]),
    "a List with one": (
        {"kind": "List", "items": [CONFIG_MAP | {"data": {"policy.cfg": policy([{"name": "HostName"}])}}]},
        lambda message, document: obeyed_map(message, document["items"][0]), ["HostName"]),
    "what Go calls a rule": (
        json.loads(policy([{"name": "PodMatchNodeSelector"}])),
        lambda message, document: policy([{"name": re.search(r"in a Policy: (\w+)\)", message)[1]}]), ["MatchNodeSelector"]),
    "a duration": (
        json.loads(policy([{"name": "HostName"}], extenders=[{"urlPrefix": "http://x", "httpTimeout": "30s"}])),
        lambda message, document: policy([{"name": "HostName"}], extenders=[
            {"urlPrefix": "http://x", "httpTimeout": int(re.search(r"such as (\d+)", message)[1])}]), ["HostName"]),
})
def test_a_hint_that_is_obeyed_leads_to_a_policy_that_means_the_same(document, obeyed, predicates, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as error:
        load_policies(path, "my-scheduler")
    path.write_text(obeyed(str(error.value), document))
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
    "GeneralPredicates brings its four forward, each once": (
        ["NoDiskConflict", "PodFitsResources", "GeneralPredicates"],
        "CheckNodeUnschedulable PodFitsResources HostName PodFitsHostPorts MatchNodeSelector NoDiskConflict "
        "PodToleratesNodeTaints"),
    "two predicates are always there": ([], "CheckNodeUnschedulable PodToleratesNodeTaints"),
})
def test_predicates_run_in_kube_schedulers_order(names, order):
    built = read_policy(json.loads(policy([{"name": name} for name in names])))
    assert [rule.name for rule in built.predicates] == order.split()


@table("weights, weighs", {
    "one preference": ([3], 3),
    "two are one rule, which weighs twice as much": ([3, 3], 6),
    "the most that there can be": ([2**31 - 1], 2**31 - 1),
})
def test_preferred_labels_weigh_together(weights, weighs):
    [rule] = read_policy(json.loads(policy((), [
        {"name": f"prefer-{i}", "weight": weight, "argument": {"labelPreference": {"label": f"label-{i}"}}}
        for i, weight in enumerate(weights)]))).priorities
    assert rule.weight == weighs


def test_two_rules_under_one_name_of_the_users_own_both_count():
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
    "a field": ({"ignoreable": True}, 'extenders[0].ignoreable: unknown field, ignored as in kube-scheduler'),
    "a field of a field": (
        {"managedResources": [{"name": "a/b", "ignoredBySchedular": True}]},
        "extenders[0].managedResources[0].ignoredBySchedular: unknown field, ignored as in kube-scheduler"),
    "whatever its case": ({"Weight": 1, "URLPREFIX": "http://x"}, None),
})
def test_what_is_misspelt_in_an_extender_is_said_and_passed_over(extender, message):
    built = read_policy({"kind": "Policy", "apiVersion": "v1", "extenders": [extender]})
    assert built.notices == ([message] if message else [])


def test_the_shipped_policy_loads_without_a_word():
    [built] = load_policies(ROOT / "policy.json", "my-scheduler").values()
    assert built.notices == [] and len(built.predicates) > 4 and len(built.priorities) > 2


LEAST = {"name": "LeastRequestedPriority", "weight": 1}


@table("text, message", {
    "a predicate more": (policy([{"name": "HostName"}, {"name": "PodFitsHostPorts"}], [LEAST]), ["+ PodFitsHostPorts"]),
    "a predicate less": (policy([], [LEAST]), ["- HostName"]),
    "another weight": (policy([{"name": "HostName"}], [LEAST | {"weight": 5}]),
                       ["- LeastRequestedPriority ×1", "+ LeastRequestedPriority ×5"]),
    "all at once": (policy([{"name": "PodFitsResources"}], [{"name": "MostRequestedPriority", "weight": 1}]),
                    ["- HostName", "+ PodFitsResources", "- LeastRequestedPriority ×1", "+ MostRequestedPriority ×1"]),
    "all predicates are to be asked": (
        policy([{"name": "HostName"}], [LEAST], alwaysCheckAllPredicates=True), ["+ alwaysCheckAllPredicates"]),
    "an extender": (policy([{"name": "HostName"}], [LEAST], extenders=[{"urlPrefix": "http://x"}]),
                    ['+ extenders[0] {"urlPrefix": "http://x"}']),
    "other white space": (policy([{"name": "HostName"}], [LEAST]) + "\n", ["reloaded without changes"]),
    "what has no effect": (
        policy([{"name": "HostName", "argument": {"labelsPresence": {"labels": ["a"]}}}], [LEAST]),
        ["reloaded without changes", 'predicates[0]: "HostName" ignores its argument, as in kube-scheduler; use a name of '
         "your own"]),
    "a typo": ('{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "HostNam"}]}',
               ['predicates[0]: unknown predicate "HostNam"; did you mean "HostName"?; still using the last good Policy']),
    "nothing any more": ("", [f"{EXPECTED} nothing; still using the last good Policy"]),
    "an object without anything": ("{}", [f"{EXPECTED} {{}}; still using the last good Policy"]),
    "half a file": ('{"kind": "Pol', ["line 1: Unterminated string starting at: {\"kind\": \"Pol; still using the last "
                                      "good Policy"]),
})
def test_an_edit_is_obeyed_and_said_as_a_diff_once(text, message, tmp_path, caplog):
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
    assert [line for line in caplog.messages if "without changes" not in line and "still using" not in line] == [], "said once"
    assert (after[0] is before) == stays


TWO = [{"name": "HostName"}, {"name": "PodFitsHostPorts"}]


@table("text, stays", {
    "touched": (policy(TWO, [LEAST]), True),
    "other white space": (policy(TWO, [LEAST]) + "\n", True),
    "other words for the same": (policy([*reversed(TWO)], [LEAST], alwaysCheckAllPredicates=False), True),
    "a weight more": (policy(TWO, [LEAST | {"weight": 2}]), False),
    "priorities in another order": (policy(TWO, [{"name": "ImageLocalityPriority", "weight": 1}, LEAST]), False),
})
def test_a_policy_that_says_the_same_stays_in_force(text, stays, tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(policy(TWO, [LEAST]))
    file = PolicyFile(path, "my-scheduler")
    before = file.reload_if_changed()["my-scheduler"]
    path.write_text(text)
    os.utime(path, (1, 1))
    assert (file.reload_if_changed()["my-scheduler"] is before) == stays


@table("text, expected", {
    "touched": ("yield 'closed'", ["reloaded without changes"]),
    "edited": ("yield 'shut'", ["has changed"]),
    "broken": ("yield 'shut", ["still using the last good Policy"]),
})
def test_a_policy_stays_in_force_unless_its_plugin_changes(text, expected, tmp_path, caplog):
    path, rules = tmp_path / "policy.json", tmp_path / "my_rules.py"
    rule = "from scheduler import predicate\n@predicate('Mine')\ndef mine(pod, node):\n    "
    path.write_text(policy([{"name": "Mine"}]))
    rules.write_text(rule + "yield 'closed'")
    file = PolicyFile(path, "my-scheduler", [rules])
    try:
        before = file.reload_if_changed()["my-scheduler"]
        rules.write_text(rule + text)
        os.utime(rules, (1, 1))
        os.utime(path, (1, 1))  # as where both are in one ConfigMap
        assert (file.reload_if_changed()["my-scheduler"] is before) == (expected != ["has changed"])
        assert [message.endswith(words) for message, words in zip(caplog.messages, expected)] == [True] * len(expected)
    finally:
        unplug()


def test_the_order_of_priorities_is_said(tmp_path, caplog):
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
    "of two profiles one goes: nothing of the other": (profiles("one", "two"), profiles("one"), "- two: "),
    "of two profiles one is new: nothing of the other": (profiles("one"), profiles("one", "two"), "+ two: "),
    "a profile has another name": (profiles("one"), profiles("two"), ("- one: ", "+ two: ")),
    "a list is left out: nothing of the rules that it named": (
        policy(ALL_DEFAULTS[:-1], [LEAST]), json.dumps({"kind": "Policy", "apiVersion": "v1", "priorities": [LEAST]}),
        f"+ {ALL_DEFAULTS[-1]['name']}"),
})
def test_of_rules_that_have_not_changed_no_line_is_printed(before, after, text, tmp_path, caplog):
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


def test_an_argument_that_changes_is_said(tmp_path, caplog):
    path, entry = tmp_path / "policy.json", {"name": "Fast", "weight": 1}
    path.write_text(policy((), [entry | {"argument": {"labelPreference": {"label": "fast"}}}]))
    file = PolicyFile(path, "my-scheduler")
    path.write_text(policy((), [entry | {"argument": {"labelPreference": {"label": "faster"}}}]))
    file.reload_if_changed()
    assert caplog.messages == [f'{path}: - Fast (NodeLabel) ×1 arguments=[{{"label": "fast"}}]',
                               f'{path}: + Fast (NodeLabel) ×1 arguments=[{{"label": "faster"}}]']


def test_a_policy_that_vanishes_or_breaks_heals_by_itself(tmp_path, caplog):
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


def test_a_rule_that_takes_no_argument_says_so_if_it_is_given_one():
    with pytest.raises(InputError) as error:
        read_policy({"kind": "Policy", "apiVersion": "v1", "predicates": [
            {"name": "HostName", "argument": {"zone": "east"}}]})
    assert str(error.value) == "predicates[0].argument.zone: unknown field"


@pytest.mark.parametrize("name", ["CheckNodeLabelPresence", "CheckServiceAffinity"])
def test_a_predicate_whose_argument_names_no_labels_lets_every_node_pass(name):
    policies = {"my-scheduler": read_policy({
        "kind": "Policy", "apiVersion": "v1", "predicates": [{"name": name}], "priorities": []})}
    assert list(decide(policies, pod("p"), node("a"), node("b")).total) == ["a", "b"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])  # the last is what PowerShell writes
def test_a_policy_is_read_in_what_windows_writes(encoding, tmp_path):
    path = tmp_path / "policy.json"
    path.write_bytes((ROOT / "policy.json").read_text().replace("\n", "\r\n").encode(encoding))
    read, shipped = (load_policies(each, "my-scheduler")["my-scheduler"] for each in (path, ROOT / "policy.json"))
    assert lines_of(read) == lines_of(shipped)
