"""Random Policies, configurations, manifests and answers: each gives a decision or clear error lines, quickly.

EXAMPLES=100000 pytest tests/extras/test_properties.py      this many examples in total, different ones in each run
... --hypothesis-seed=N                              the same examples again
"""

import contextlib
import copy
import functools
import io
import json
import logging
import os
import queue
import re
import signal
import string
import tempfile
import threading
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, configuration, given, note, settings
from hypothesis import strategies as st

from helpers import extras
from helpers.everywhere import replace
from helpers.extras import ROOT, node, pod
from helpers.fake_api import without_streams
from helpers.faulty import ApiServer, ExtenderServer
from helpers.policies import load_policies
from scheduler_extras.api.election import LeaderElection
from scheduler_extras.api.responses import read_json
from scheduler_extras.command_line import command_line
from scheduler_extras.live.writer import Writer
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.reading.quantities import quantity


# --- the functions under test


def load_policy(path):
    """Read a Policy or a configuration; return {schedulerName: Policy}. Raises InputError."""
    return load_policies(path, "my-scheduler")


def decide(policies, incoming, objects):
    """Return (node or None, message) for a pod."""
    decision = extras.decide(policies, incoming, *objects)
    return decision.node, decision.message


def ask_extender(url, verb, incoming, nodes):
    """Return the decision about a pod under a Policy with an extender: (node or None, message)."""
    policies = {"my-scheduler": read_policy({
        "kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [],
        "extenders": [{"urlPrefix": url, f"{verb}Verb": verb, "weight": 1}]})}
    return decide(policies, incoming, nodes)


def hold_lease(api):
    """Try once to acquire a Lease; return whether that succeeded."""
    stop = threading.Event()
    stop.set()
    return LeaderElection(api, "my-scheduler", {}).lead(stop)


def read_quantity(text):
    """Read a quantity. Raises ValueError."""
    return quantity(text)


class EndingWriter(Writer):
    """A Writer whose threads end as soon as the queue is empty."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.tasks.get = functools.partial(self.tasks.get, block=False)

    def start(self, *task):
        """Run the task in a new thread."""
        self.threads = 0
        super().start(*task)

    def work(self):
        """Run tasks until the queue is empty."""
        with contextlib.suppress(queue.Empty):
            super().work()


@contextlib.contextmanager
def leaving_nothing():
    """Start no streams and keep no threads, because this process goes on after the command line."""
    with pytest.MonkeyPatch.context() as patch:
        without_streams(patch)  # a single pass needs no streams
        replace(patch, "Writer", EndingWriter)
        patch.setattr("gc.freeze", lambda: None)
        yield


def run(*arguments):
    """Run the command line in this process; return its exit code, output and log."""
    extras.reset_process()
    out, err, handlers = io.StringIO(), io.StringIO(), logging.root.handlers
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    logging.root.handlers = []
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), leaving_nothing():
            code = command_line([*map(str, arguments)])
    except SystemExit as exit:
        code = exit.code
    finally:
        logging.root.handlers = handlers
        for number, handler in signals.items():
            signal.signal(number, handler)
    return code, out.getvalue(), err.getvalue()


# --- the number of examples, and their deadline

TOTAL, TESTS = int(os.environ.get("EXAMPLES", 700)), 14
SOON = settings(
    max_examples=max(TOTAL // TESTS, 1), deadline=timedelta(minutes=1), database=None, print_blob=True,
    derandomize="EXAMPLES" not in os.environ, suppress_health_check=list(HealthCheck))

# --- the input

FOLDER = tempfile.TemporaryDirectory()
configuration.set_hypothesis_home_dir(FOLDER.name)
POLICIES = [json.loads((ROOT / "policy.json").read_text()), {
    "kind": "Policy", "apiVersion": "v1", "alwaysCheckAllPredicates": True, "hardPodAffinitySymmetricWeight": 5,
    "predicates": [
        *({"name": name} for name in (
            "GeneralPredicates", "NoDiskConflict", "MaxEBSVolumeCount", "MaxCSIVolumeCountPred", "CheckVolumeBinding",
            "NoVolumeZoneConflict", "EvenPodsSpread", "MatchInterPodAffinity", "CheckNodeCondition",
            "CheckNodeMemoryPressure")),
        {"name": "Labels", "argument": {"labelsPresence": {"labels": ["zone"], "presence": True}}},
        {"name": "Service", "argument": {"serviceAffinity": {"labels": ["zone"]}}}],
    "priorities": [
        *({"name": name, "weight": 2} for name in (
            "MostRequestedPriority", "BalancedResourceAllocation", "ImageLocalityPriority", "InterPodAffinityPriority",
            "EvenPodsSpreadPriority", "SelectorSpreadPriority", "NodePreferAvoidPodsPriority")),
        {"name": "Label", "weight": 1, "argument": {"labelPreference": {"label": "zone", "presence": False}}},
        {"name": "Anti", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "zone"}}},
        {"name": "Ratio", "weight": 1, "argument": {"requestedToCapacityRatioArguments": {
            "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
            "resources": [{"name": "cpu", "weight": 3}, {"name": "example.com/gpu", "weight": 1}]}}}]}]
EXTENDED = {"kind": "Policy", "apiVersion": "v1", "extenders": [{
    "urlPrefix": "http://127.0.0.1:9", "filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind",
    "weight": 5, "enableHttps": False, "httpTimeout": 100000000, "nodeCacheCapable": True, "ignorable": True,
    "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
    "tlsConfig": {"insecure": True, "serverName": "a", "certFile": "a", "keyFile": "b", "caData": "YQ=="}}]}
CONFIGURATIONS = [yaml.safe_load(text) for text in ("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 16
leaderElection: {leaderElect: true, leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s, resourceName: a}
clientConnection: {qps: 50}
profiles:
- schedulerName: my-scheduler
  percentageOfNodesToScore: 50
  plugins:
    multiPoint: {enabled: [{name: NodeResourcesFit, weight: 3}], disabled: [{name: ImageLocality}]}
    filter: {disabled: [{name: "*"}], enabled: [{name: NodeName}]}
    score: {enabled: [{name: TaintToleration, weight: 7}]}
    queueSort: {enabled: [{name: PrioritySort}]}
  pluginConfig:
  - {name: NodeResourcesFit, args: {ignoredResources: [example.com/gpu], scoringStrategy: {
      type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 3}],
      requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}}
  - {name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [
      {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 5}}
- schedulerName: other
""", """
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {enabled: [{name: NodeLabel, weight: 2}, {name: RequestedToCapacityRatio, weight: 2}]}}
  pluginConfig:
  - {name: NodeLabel, args: {presentLabelsPreference: [zone], absentLabels: [bad]}}
  - {name: ServiceAffinity, args: {affinityLabels: [zone]}}
  - {name: RequestedToCapacityRatio, args: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}
""")]
OBJECTS = list(yaml.safe_load_all("""
{kind: Node, metadata: {name: a, labels: {zone: east, disk: ssd}, annotations: {
   scheduler.alpha.kubernetes.io/preferAvoidPods:
     '{"preferAvoidPods": [{"podSignature": {"podController": {"kind": "ReplicaSet", "uid": "u"}}}]}'}},
 spec: {unschedulable: false, taints: [{key: k, value: v, effect: PreferNoSchedule}]},
 status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110", ephemeral-storage: 1Ti, hugepages-2Mi: 4Mi,
   example.com/gpu: "2", attachable-volumes-aws-ebs: "3"}, images: [{names: ["nginx:latest"], sizeBytes: 100000000}],
   conditions: [{type: Ready, status: "True"}, {type: MemoryPressure, status: "False"}]}}
---
{kind: Node, metadata: {name: b, labels: {zone: west}}, spec: {taints: [{key: k, value: v, effect: NoSchedule}]},
 status: {allocatable: {cpu: "8", memory: 16Gi, pods: "110"}, conditions: [{type: Ready, status: "True"}]}}
---
{kind: Pod,
 metadata: {name: runs, labels: {app: web}, ownerReferences: [{kind: ReplicaSet, uid: u, controller: true}]},
 spec: {schedulerName: my-scheduler, nodeName: a, containers: [{name: c, image: nginx,
   resources: {requests: {cpu: 1500m, memory: 1Gi}}, ports: [{hostPort: 80, hostIP: 127.0.0.1, protocol: TCP}]}],
   affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
     {labelSelector: {matchLabels: {app: db}}, topologyKey: zone}]}}},
 status: {phase: Running}}
---
{kind: Pod, metadata: {name: rich, labels: {app: web, version: "1"}, annotations: {a: b},
   creationTimestamp: "2024-01-01T00:00:00Z", ownerReferences: [{kind: ReplicaSet, name: r, uid: u, controller: true}]},
 spec: {schedulerName: my-scheduler, priority: 5, nodeSelector: {disk: ssd}, overhead: {cpu: 100m},
   tolerations: [{key: k, operator: Equal, value: v, effect: NoSchedule}, {operator: Exists, tolerationSeconds: 5}],
   initContainers: [{name: i, image: b, restartPolicy: Always, resources: {requests: {cpu: 2}}}],
   containers: [{name: c, image: "nginx:1", resources: {
     requests: {cpu: 500m, memory: 1Gi, example.com/gpu: "1"}, limits: {cpu: "1"}}, ports: [{hostPort: 8080}]}],
   topologySpreadConstraints: [
     {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}},
      minDomains: 1, nodeAffinityPolicy: Honor, nodeTaintsPolicy: Ignore, matchLabelKeys: [version]},
     {maxSkew: 2, topologyKey: disk, whenUnsatisfiable: ScheduleAnyway}],
   affinity: {
     nodeAffinity: {
       requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
         {matchExpressions: [{key: zone, operator: In, values: [east]}, {key: n, operator: DoesNotExist}],
          matchFields: [{key: metadata.name, operator: In, values: [a]}]}]},
       preferredDuringSchedulingIgnoredDuringExecution: [
         {weight: 5, preference: {matchExpressions: [{key: disk, operator: Gt, values: ["3"]}]}}]},
     podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
       {labelSelector: {matchExpressions: [{key: app, operator: In, values: [web]}]}, topologyKey: zone,
        namespaces: [default], namespaceSelector: {matchLabels: {team: a}}}]},
     podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
       {weight: 3, podAffinityTerm: {labelSelector: {matchLabels: {app: db}}, topologyKey: zone}}]}},
   volumes: [{name: v, persistentVolumeClaim: {claimName: bound}}, {name: e, ephemeral: {volumeClaimTemplate: {}}},
     {name: d, gcePersistentDisk: {pdName: p, readOnly: true}}, {name: w, awsElasticBlockStore: {volumeID: i}},
     {name: r, rbd: {image: i, pool: p, monitors: [m]}}, {name: s, iscsi: {iqn: q}}]}}
---
{kind: Pod, metadata: {name: claims}, spec: {schedulerName: my-scheduler, containers: [{name: c}],
   volumes: [
     {name: v, persistentVolumeClaim: {claimName: waits}}, {name: m, persistentVolumeClaim: {claimName: made}}]}}
---
{kind: Pod, metadata: {name: gated}, spec: {schedulerName: my-scheduler, schedulingGates: [{name: g}]}}
---
{kind: Pod, metadata: {name: simple}, spec: {schedulerName: my-scheduler, containers: [{name: c}]}}
---
{kind: PersistentVolume, metadata: {name: pv, labels: {topology.kubernetes.io/zone: east__west}},
 spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], storageClassName: local, volumeMode: Filesystem,
   claimRef: {name: bound, namespace: default}, csi: {driver: d, volumeHandle: h},
   nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [east]}]}]}}},
 status: {phase: Bound}}
---
{kind: PersistentVolume, metadata: {name: free}, spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce],
   storageClassName: local}, status: {phase: Available}}
---
{kind: PersistentVolumeClaim, metadata: {name: bound, annotations: {pv.kubernetes.io/bind-completed: "yes"}},
 spec: {volumeName: pv, storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{kind: PersistentVolumeClaim, metadata: {name: waits},
 spec: {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}},
   selector: {matchLabels: {a: b}}}}
---
{kind: PersistentVolumeClaim, metadata: {name: made},
 spec: {storageClassName: made, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{kind: StorageClass, metadata: {name: local}, provisioner: kubernetes.io/no-provisioner,
 volumeBindingMode: WaitForFirstConsumer}
---
{kind: StorageClass, metadata: {name: made}, provisioner: d, volumeBindingMode: WaitForFirstConsumer,
 allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [east]}]}]}
---
{kind: CSINode, metadata: {name: a}, spec: {drivers: [{name: d, allocatable: {count: 3}, topologyKeys: [zone]}]}}
---
{kind: Service, metadata: {name: s}, spec: {selector: {app: web}}}
---
{kind: ReplicationController, metadata: {name: r}, spec: {selector: {app: web}}}
---
{kind: ReplicaSet, metadata: {name: r}, spec: {selector: {matchLabels: {app: web}}}}
---
{kind: StatefulSet, metadata: {name: s}, spec: {selector: {matchExpressions: [{key: app, operator: Exists}]}}}
---
{kind: Namespace, metadata: {name: default, labels: {team: a}}}
"""))
FILES = [path.read_bytes() for path in sorted((ROOT / "scheduler_extras" / "examples").glob("*.yaml"))] + [
    (ROOT / "policy.json").read_bytes(), *(yaml.safe_dump(thing).encode() for thing in POLICIES + CONFIGURATIONS)]

QUANTITIES = st.from_regex(r"[+-]?[0-9]{0,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{0,5}|[numkKMGTPE]i?)?", fullmatch=True)
DURATIONS = st.from_regex(r"([0-9]{1,20}(\.[0-9]{0,20})?(ns|us|ms|s|m|h)){0,3}", fullmatch=True)
ODD = st.sampled_from([
    "", "a", " ", "-1", "0", "1", "3.5", "9" * 400, "1e400", "*", "a/b", "\ud800", "\x00", "é", "None", "true", "..",
    "metadata.name", "In", "Gt", "DoesNotExist", "Exists", "DoNotSchedule", "WaitForFirstConsumer", "my-scheduler",
    "zone", "{", "[", "127.0.0.1", -1, 0, 1, 2, 101, 2**31, 2**63, -2**63, 10**400, 0.5, -0.0, 1e308, float("inf"),
    float("nan"), True, False, None, [], {}, [None], [[]], [{}], {"": None}, {"a": {}}, {"name": "a"}, ["a"] * 100,
    {"key": "zone", "operator": "In", "values": []}])
LETTERS = st.characters(exclude_categories=["Cs"])  # the default alphabet of hypothesis, which takes a second to compute
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(LETTERS, max_size=20) | QUANTITIES | ODD
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(
    st.text(LETTERS, max_size=10) | st.sampled_from(["kind", "metadata", "name", "spec", "items", "predicates", "argument"]),
    inner, max_size=5), max_leaves=15)
TOKENS = st.lists(st.sampled_from([
    "!!int ", "!!float ", "!!bool ", "!!null ", "!!binary ", "!!timestamp ", "!!set ", "!!omap ", "!!pairs ", "!!str ",
    "!!map ", "!!seq ", "!!merge ", "!!python/name:os.system ", "!a ", "! ", "&a ", "*a ", "&b ", "*b ", "<<: ", "- ",
    ": ", "? ", ", ", "{", "}", "[", "]", "\n", "\n  ", "\n- ", "a", "b", "kind: Policy\n", "apiVersion: v1\n",
    "predicates: ", "name: ", "items: ", "metadata: ", '"', "'", "|\n", ">\n", "%YAML 1.1\n", "---\n", "...\n", "# ",
    "0x", "0b", "1:2", "1e9", ".inf", ".nan", "~", "\t", "=", "2024-01-01", "\ufeff", "\x85", "\u2028"]),
    max_size=25).map("".join)


def positions(thing):
    """Yield all (holder, key) in a document."""
    for key in list(thing) if isinstance(thing, dict) else range(len(thing)):
        yield thing, key
        if isinstance(thing[key], (dict, list)):
            yield from positions(thing[key])


@st.composite
def spoilt(draw, documents, odd=JSON):
    """Draw one of the documents, with a few values replaced, left out, doubled, or renamed."""
    document = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(list(positions({"": document})))) if document else ({}, "")
        if not holder or holder == {"": document}:
            continue
        change = draw(st.sampled_from(["replace", "replace", "replace", "leave out", "double", "rename"]))
        if change == "replace" or (change == "double" and isinstance(holder, dict)):
            holder[key] = copy.deepcopy(draw(odd))
        elif change == "double":
            holder.insert(key, copy.deepcopy(holder[key]))
        elif change == "leave out":
            del holder[key]
        elif isinstance(holder, dict):
            holder[draw(st.text(LETTERS, max_size=5) | st.sampled_from(["name", "key", "values"]))] = holder.pop(key)
    return document


MARKS = [b"\n", b"\t", b'"', b"{", b"]", b"&a ", b"*a", b"!!int ", b": ", b"- ", b"\0"]


@st.composite
def mangled(draw, files):
    """Draw one of the files, with some bytes changed, left out, doubled, or cut off."""
    content = bytearray(draw(st.sampled_from(files)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 40)))
        content[start:end] = draw(st.sampled_from([b"", content[start:end] * 2, content[start:end] * 20]) | st.binary(
            max_size=5) | st.sampled_from(MARKS))
    return bytes(content[:draw(st.integers(0, len(content)) | st.just(len(content)))])


ANY_FILE = st.binary(max_size=100) | st.text(LETTERS).map(lambda text: text.encode("utf-8", "surrogatepass")) | TOKENS.map(
    str.encode) | JSON.map(lambda thing: json.dumps(thing).encode()) | mangled(FILES)


def write(content, name="file"):
    """Write a file with these bytes or this JSON; return its path."""
    path = Path(FOLDER.name, name)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def check_lines(text, start=""):
    """Check that the log has no traceback, and lines of a readable length."""
    assert "Traceback" not in text and " in a rule" not in text, text
    for line in text.removesuffix("\n").split("\n") if text else ():
        assert line.startswith(start) and len(line) < 1100, text  # the text is cut at 1,000 bytes, after the file's name


def check_outcome(node_name, message):
    """Check that the decision has a node or a message, and that no rule has raised an exception."""
    assert (node_name is None) != (message is None) and message != "", (node_name, message)
    assert " in a rule" not in (message or ""), message


def check_file(path):
    """Check that a Policy file is accepted, or rejected with clear lines; return whether it is accepted."""
    code, out, err = run("--policy", path, "--cluster", write(node("a"), "node"), "--output=json")
    assert (code, out) in ((0, ""), (2, "")) and (code == 0 or err), (code, out, err)
    check_lines(err, "" if code == 0 else f"{path}: ")
    return code == 0


# --- files


@SOON
@given(ANY_FILE)
def test_any_policy_file_is_accepted_or_rejected_with_clear_lines(content):
    check_file(write(content))


@SOON
@given(ANY_FILE)
def test_any_manifest_file_is_accepted_or_rejected_with_clear_lines(content):
    code, out, err = run("--cluster", write(content), "--output=json")
    assert code in (0, 2) or " skipped" in err, (code, out, err)
    check_lines(err)


def check_policy(document, incoming, objects):
    """Check that a Policy is rejected with clear lines, or makes a decision."""
    note(json.dumps(document))
    path = write(document)
    if not check_file(path):
        return
    policies = load_policy(path)
    if incoming["spec"]["schedulerName"] in policies and not document.get("extenders"):  # it would call them
        check_outcome(*decide(policies, copy.deepcopy(incoming), copy.deepcopy(objects)))


PENDING = [thing for thing in OBJECTS if thing["kind"] == "Pod" and thing["metadata"]["name"] in ("rich", "claims")]
OTHERS = [thing for thing in OBJECTS if thing["metadata"]["name"] not in ("rich", "claims", "gated", "simple")]


@SOON
@given(spoilt(POLICIES), st.sampled_from(PENDING))
def test_an_odd_policy_is_rejected_with_clear_lines_or_makes_a_decision(document, incoming):
    check_policy(document, incoming, OTHERS)


@SOON
@given(spoilt(CONFIGURATIONS), st.sampled_from(PENDING))
def test_an_odd_configuration_is_rejected_with_clear_lines_or_makes_a_decision(document, incoming):
    check_policy(document, incoming, OTHERS)


@SOON
@given(spoilt([EXTENDED]))
def test_an_odd_extender_is_rejected_with_clear_lines_or_accepted(document):
    check_policy(document, PENDING[0], [])


@SOON
@given(DURATIONS | QUANTITIES | st.text(LETTERS, max_size=20),
       st.sampled_from(["leaseDuration", "renewDeadline", "retryPeriod"]))
def test_a_duration_is_read_or_rejected_with_clear_lines(text, name):
    document = copy.deepcopy(CONFIGURATIONS[0])
    document["leaderElection"][name] = text
    check_policy(document, PENDING[0], OTHERS)


# --- objects


ONE_ODD = (st.integers(0, 6) | st.integers(0, len(OBJECTS) - 1)).flatmap(
    lambda i: spoilt([OBJECTS[i]]).map(lambda odd: (odd, OBJECTS[:i] + OBJECTS[i + 1:])))


@SOON
@given(ONE_ODD, st.sampled_from([[], ["--explain"], ["--output=json"]]), st.booleans())
def test_an_odd_manifest_gives_clear_lines_or_is_used(objects, arguments, default):
    document, others = objects
    path = write({"kind": "List", "items": [*others, document]})
    note(json.dumps(document))
    code, out, err = run("--cluster", path, *arguments, "--policy",
                         "DefaultProvider" if default else write(POLICIES[1], "policy"))
    assert code in (0, 2) or " skipped" in err, err
    assert " in a rule" not in out, out
    check_lines(err)


@pytest.fixture(scope="module")
def api_server():
    """An API server in memory."""
    server = ApiServer()
    yield server
    server.stop()


def reset(server):
    """Delete the recorded requests of a server and its objects, except for a node and a pending pod."""
    for known in (server.pods, server.nodes, server.read, server.asked, server.extra):
        known.clear()
    server.create(node("n"), pod("plain"))


@SOON
@given(thing=spoilt(OBJECTS[:2]) | spoilt(OBJECTS[2:7]))
def test_an_odd_object_of_the_api_server_does_not_stop_other_pods(thing, api_server):
    server = api_server
    reset(server)
    odd = thing if isinstance(thing, dict) else {}
    kind, assigned = thing.get("kind") if odd else "Pod", "nodeName" in (
        odd.get("spec") if isinstance(odd.get("spec"), dict) else {})
    assume(kind in ("Pod", "Node"))
    server.extra = [lambda resource, selector: [thing] if resource == f"{kind.lower()}s" and (
        kind == "Node" or ("spec.nodeName!=" in selector) == assigned) else []]
    note(json.dumps(thing))
    code, out, err = run("--server", server.url, "--once")
    assert code in (0, 1) and " in a rule" not in out, (code, out, err)
    assert "default/plain" in server.placements() or kind == "Node", (out, err)
    check_lines(err)


@SOON
@given(answer=JSON | st.binary(max_size=50) | spoilt([{"items": OBJECTS[2:7], "metadata": {"resourceVersion": "5"}}]),
       code=st.sampled_from([200, 200, 200, 201, 204, 304, 400, 403, 404, 409, 410, 429, 500, 503, 599, 999]))
def test_any_answer_of_the_api_server_is_accepted_or_gives_clear_lines(answer, code, api_server):
    server = api_server
    reset(server)
    if isinstance(answer, dict) and isinstance(answer.get("metadata"), dict):
        answer["metadata"].pop("continue", None)  # endless lists have their own test
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    server.faults = {"list": lambda request: request.answer(code, body if code not in (204, 304) else b"")}
    try:
        done, out, err = run("--server", server.url, "--once")
    finally:
        server.faults = {}
    assert done in (0, 1) and " in a rule" not in out and err.count("\n") <= 10, (done, out, err)
    check_lines(err)


LEASE = {"metadata": {"name": "my-scheduler", "namespace": "kube-system", "resourceVersion": "5"}, "spec": {
    "holderIdentity": "", "leaseDurationSeconds": 15, "acquireTime": "2024-01-01T00:00:00.000000Z",
    "renewTime": "2024-01-01T00:00:00.000000Z", "leaseTransitions": 4}}


@SOON
@given(lease=spoilt([LEASE]))
def test_any_lease_is_held_or_not(lease):
    class Leases:
        """An API server with this Lease."""

        def request(self, method, path, body=None, *others, **options):
            return body if method != "GET" else lease if isinstance(lease, dict) else {}

    assert hold_lease(Leases()) in (True, False)


# --- quantities, extenders, control characters, bytes


@SOON
@given(QUANTITIES | st.text(LETTERS, max_size=30) | st.text("0123456789.eE+-kKMGTPimun", max_size=500))
def test_a_quantity_is_a_whole_number_below_64_bits_or_a_clear_line(text):
    try:
        value = read_quantity(text)
        assert isinstance(value, int) and 0 <= value < 2**63
    except ValueError as error:
        assert "quantity" in str(error)


@SOON
@given(st.integers(0, 10**6), st.sampled_from(["", "k", "M", "G", "Ki", "Mi", "Gi", "m", "u", "n", "e3"]))
def test_a_quantity_is_exact(number, suffix):
    units = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "e3": 1000}
    parts = {"m": 10**3, "u": 10**6, "n": 10**9}
    expected = number * units[suffix] if suffix in units else -(-number // parts[suffix])
    assert read_quantity(f"{number}{suffix}") == expected


@pytest.fixture(scope="module")
def extender():
    """An extender whose answer a test sets."""
    server = ExtenderServer()
    yield server
    server.stop()


@SOON
@given(answer=JSON | st.binary(max_size=50) | spoilt([
    {"Nodes": {"items": [node("a"), node("b")]}, "NodeNames": ["a"], "FailedNodes": {"b": "no"}, "Error": ""},
    [{"Host": "a", "Score": 10}, {"Host": "b", "Score": 3}]]),
    verb=st.sampled_from(["filter", "prioritize"]), code=st.sampled_from([200, 200, 200, 204, 302, 500]))
def test_any_answer_of_an_extender_is_accepted_or_gives_a_message(answer, verb, code, extender):
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    extender.asked.clear()
    extender.answers[verb] = code, body if code != 204 else b"", {}
    check_outcome(*ask_extender(extender.url, verb, pod("p"), [node("a"), node("b"), node("c")]))


CONTROL = st.text(st.sampled_from("\x00\x07\b\n\r\x1b[]0;31mowned\x7f\x80\x85\x9b" + string.ascii_letters), min_size=1,
                  max_size=20)


@SOON
@given(spoilt(OBJECTS[:7], CONTROL), st.sampled_from([[], ["--explain"], ["--output=json"], ["--compare", "policy"]]))
def test_no_control_character_reaches_the_terminal(document, arguments):
    path, policy = write({"kind": "List", "items": [*OBJECTS, document]}), write(POLICIES[1], "policy")
    code, out, err = run("--cluster", path, "--policy", policy, *(
        policy if argument == "policy" else argument for argument in arguments))
    assert code in (0, 2) or " skipped" in err, err
    for text in (out, err):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), repr(text)


@given(st.binary(max_size=60).filter(lambda odd: b'"' not in odd and b"\\" not in odd),
       st.sampled_from(["name", "annotation", "managedFields"]))
def test_invalid_bytes_in_a_string_do_not_affect_other_objects_of_a_list_or_stream(odd, where):
    thing = {"name": {"metadata": {"name": "ODD"}}, "annotation": {"metadata": {"name": "a", "annotations": {"x": "ODD"}}},
             "managedFields": {"metadata": {"name": "a", "managedFields": [{"fieldsV1": {"f:ODD": {}}}]}}}[where]
    others = [{"metadata": {"name": "b"}}, {"metadata": {"name": "c"}}]
    text = json.dumps({"items": [thing, *others]}).encode().replace(b"ODD", odd)
    assert read_json(text)["items"][1:] == others
    stream = b"\n".join(json.dumps({"type": "ADDED", "object": each}).encode() for each in [thing, *others])
    lines = stream.replace(b"ODD", odd.replace(b"\n", b" ")).split(b"\n")
    assert [event["object"] for event in map(read_json, lines)][1:] == others
