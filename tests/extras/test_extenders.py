"""HTTP extenders, tested with a real HTTP server."""

import base64
import datetime
import ipaddress
import json
import re
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from helpers import extras
from helpers.configuration import read_configuration
from helpers.control_plane import free_port
from helpers.extender import Service
from helpers.extras import new_cluster, node, pod, run_pass, run_scheduler, table, wait_for_writes
from helpers.fake_api import Server
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.live.writer import Writer
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.policy_reader import read_policy
from scheduler_extras.policy.schedule import schedule
from scheduler_extras.show.explain import explain
from scheduler_extras.show.text import Screen


def decide(extenders, incoming=None, nodes="abc", priorities=()):
    """Return the decision about a pod under a Policy with these extenders."""
    policies = {"my-scheduler": read_policy({
        "kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": list(priorities),
        "extenders": extenders})}
    return extras.decide(policies, incoming or pod("p"), *map(node, nodes))


@pytest.mark.parametrize("names_only", [False, True])
def test_a_filter_request_has_the_nodes_and_its_reasons_are_used(service, names_only):
    kept = {"NodeNames": ["b"]} if names_only else {"Nodes": {"items": [node("b")]}}
    service.answers["filter"] = 200, {**kept, "FailedNodes": {"a": "a is haunted"}}
    decision = decide([{"urlPrefix": service.url, "filterVerb": "filter", "nodeCacheCapable": names_only}])
    assert (decision.node, list(decision.total)) == ("b", ["b"])
    assert decision.failed == {"a": {"extenders[0]": ["a is haunted"]}, "c": {"extenders[0]": []}}
    [(verb, asked)] = service.asked
    assert verb == "filter" and asked["Pod"]["metadata"]["name"] == "p"
    assert asked["NodeNames"] == (["a", "b", "c"] if names_only else None)
    assert asked["Nodes"] is None if names_only else [item["metadata"]["name"] for item in asked["Nodes"]["items"]] == [
        "a", "b", "c"]


@table("names_only, answer, feasible", {
    "names": (True, {"NodeNames": ["b"]}, ["b"]),
    "nodes, if names were sent": (True, {"Nodes": {"items": [node("b")]}}, ["b"]),
    "names and nodes, if nodes were sent": (False, {"NodeNames": ["b"], "Nodes": {"items": [node("c")]}}, ["c"]),
    "nothing": (False, {}, []),
    "null": (False, None, []),
    "names in lower case": (True, {"nodenames": ["b"]}, ["b"]),
    "names in camel case": (True, {"nodeNames": ["b"]}, ["b"]),
    "nodes in lower case": (False, {"nodes": {"Items": [{"Metadata": {"name": "b", "labels": {"x": "y"}}}]}}, ["b"]),
    "unknown fields": (False, {"nodes": {"items": [node("b")], "kind": "NodeList"}, "took": 3}, ["b"]),
    "names that are null": (True, {"nodeNames": None, "nodes": {"items": [node("b")]}}, ["b"]),
})
def test_valid_answers_of_a_filter(service, names_only, answer, feasible):
    service.answers["filter"] = 200, answer
    decision = decide([{"urlPrefix": service.url, "filterVerb": "filter", "nodeCacheCapable": names_only}])
    assert list(decision.total) == feasible


@pytest.mark.parametrize("field", ["FailedNodes", "failedNodes"])
def test_the_message_counts_the_reasons_of_an_extender(service, field):
    service.answers["filter"] = 200, {"Nodes": {"items": []}, field: {"a": "a is haunted", "b": "a is haunted"}}
    decision = decide([{"urlPrefix": service.url, "filterVerb": "filter"}])
    assert decision.message == "0/3 nodes are available: 2 a is haunted."


@table("kind, answer, message", {
    "a configuration uses them": (
        "KubeSchedulerConfiguration", {"failedAndUnresolvableNodes": {"a": "a is lost", "b": "b is lost"}},
        "1 a is lost, 1 b is lost"),
    "... and they take precedence": (
        "KubeSchedulerConfiguration", {"FailedNodes": {"a": "a is haunted", "b": "b is haunted"},
                                       "FailedAndUnresolvableNodes": {"a": "a is lost"}},
        "1 a is lost, 1 b is haunted"),
    "a Policy ignores them": (
        "Policy", {"FailedNodes": {"a": "a is haunted", "b": "b is haunted"}, "FailedAndUnresolvableNodes": {"a": 1}},
        "1 a is haunted, 1 b is haunted"),
})
def test_failed_and_unresolvable_nodes(service, kind, answer, message):
    service.answers["filter"] = 200, answer
    extenders = [{"urlPrefix": service.url, "filterVerb": "filter"}]
    read = {"Policy": lambda document, name: {name: read_policy(document)},
            "KubeSchedulerConfiguration": read_configuration}[kind]
    policies = read({"kind": kind, "apiVersion": CONFIGURATION_VERSION, "extenders": extenders}, "my-scheduler")
    decision = extras.decide(policies, pod("p"), node("a"), node("b"))
    assert decision.message == f"0/2 nodes are available: {message}."


@table("host, score", {"in Go's case": ("Host", "Score"), "in lower case": ("host", "score")})
def test_scores_are_multiplied_by_ten_times_the_weight_and_added(service, host, score):
    service.answers["prioritize"] = 200, [{host: "a", score: 1}, {host: "b", score: 10}]
    decision = decide([{"urlPrefix": service.url, "prioritizeVerb": "prioritize", "weight": 3}],
                      priorities=[{"name": "LeastRequestedPriority", "weight": 1}])
    assert decision.scores[f"extenders[0] {service.url}"] == {"a": 30, "b": 300, "c": 0}
    assert decision.node == "b"
    assert decision.total["b"] - decision.total["c"] == 300
    decision = decide([{"urlPrefix": service.url, "prioritizeVerb": "prioritize", "weight": 3}])
    assert decision.total == {"a": 30, "b": 300, "c": 0}, "without priorities nodes start at 0, as in kube-scheduler"


def test_scores_of_a_node_that_is_named_twice_are_added(service):
    service.answers["prioritize"] = 200, [{"Host": "a", "Score": 5}, {"Host": "b", "Score": 6}, {"Host": "a", "Score": 4}]
    decision = decide([{"urlPrefix": service.url, "prioritizeVerb": "prioritize", "weight": 1}])
    assert decision.total == {"a": 90, "b": 60, "c": 0}


def test_a_long_reason_of_an_extender_is_cut(service):
    service.answers["filter"] = 200, {"FailedNodes": dict.fromkeys("abc", "x" * 100_000)}
    decision = decide([{"urlPrefix": service.url, "filterVerb": "filter"}])
    assert decision.message == f"0/3 nodes are available: 3 {'x' * 996} ...."


def test_explain_shows_the_scores_of_an_extender(service):
    service.answers["prioritize"] = 200, [{"Host": "a", "Score": 1}, {"Host": "b", "Score": 10}]
    decision = decide([{"urlPrefix": service.url, "prioritizeVerb": "prioritize", "weight": 3}])
    names, scores, total = [line.split() for line in explain(decision, Screen())[1:4]]
    assert (names, total) == (["*", "b", "a", "c"], ["Total", "300", "30", "0"])
    assert (scores[0], scores[2:]) == ("extenders[0]", ["300", "30", "0"])


@table("resources, container, called", {
    "no managed resources mean all pods": ([], {}, True),
    "a request": (["example.com/fpga"], {"requests": {"example.com/fpga": "1"}}, True),
    "a limit": (["example.com/fpga"], {"limits": {"example.com/fpga": "1"}}, True),
    "another resource": (["example.com/fpga"], {"requests": {"example.com/gpu": "1"}}, False),
})
def test_an_extender_is_called_only_for_pods_with_its_resources(service, resources, container, called):
    service.answers["filter"] = 200, {"Nodes": {"items": [node("a")]}}
    incoming = pod("p", containers=[{"name": "c", "resources": container}])
    decision = decide([{"urlPrefix": service.url, "filterVerb": "filter",
                        "managedResources": [{"name": name} for name in resources]}], incoming)
    assert bool(service.asked) == called
    assert list(decision.total) == (["a"] if called else ["a", "b", "c"])


@table("status, answer, why", {
    "an error": (200, {"Error": "the licence has expired"}, "the licence has expired"),
    "an error in lower case": (200, {"error": "the licence has expired"}, "the licence has expired"),
    "status 500": (500, "oops", "it returned 500 Internal Server Error"),
    "an answer that is not JSON": (200, "<html>", "Expecting value: line 1 column 1 (char 0)"),
    "a list instead of an object": (200, [], "the answer: expected an object, got []"),
    "a name that is not a string": (200, {"nodeNames": [1]}, "the answer.nodeNames[0]: expected a string, got 1"),
    "nodes that were not sent": (
        200, {"Nodes": {"items": [node("z")]}}, "passes nodes it was not asked about"),
    "a reason that is not a string": (200, {"FailedNodes": {"a": 1}}, "FailedNodes[a]: expected a string, got 1"),
})
def test_a_failing_filter_keeps_the_pod_pending_unless_it_is_ignorable(service, status, answer, why, caplog):
    service.answers["filter"] = status, answer
    extender = {"urlPrefix": service.url, "filterVerb": "filter"}
    decision = decide([extender])
    assert (decision.node, decision.message) == (None, f"extender {service.url}: filter: {why}")
    assert list(decide([extender | {"ignorable": True}]).total) == ["a", "b", "c"]
    assert caplog.messages == [f"extender {service.url}: filter: {why}; it is ignorable, so the pods go on without it"]


def test_an_unreachable_extender_keeps_the_pod_pending():
    url = f"http://127.0.0.1:{free_port()}"
    decision = decide([{"urlPrefix": url, "filterVerb": "filter"}])
    assert decision.node is None and decision.message.startswith(f"extender {url}: filter: ")
    assert decision.message.endswith("filter: [Errno 111] Connection refused"), "the same each time, so that it is logged once"


@table("status, answer", {
    "status 500": (500, "oops"),
    "an object instead of a list": (200, {}),
    "a score above 10": (200, [{"Host": "a", "Score": 11}]),
    "a score that is not a number": (200, [{"Host": "a", "Score": "high"}]),
})
def test_the_scores_of_a_failing_extender_are_left_out(service, status, answer, caplog):
    service.answers["prioritize"] = status, answer
    decision = decide([{"urlPrefix": service.url, "prioritizeVerb": "prioritize", "weight": 1}])
    assert decision.scores == {} and decision.node
    assert caplog.messages[0].endswith("its scores are left out")


def test_an_extender_is_not_called_if_there_is_nothing_to_decide(service):
    extenders = [{"urlPrefix": service.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1}]
    service.answers["filter"] = 200, {"Nodes": {"items": [node("a")]}}
    assert decide(extenders, nodes="a").node == "a"
    assert [verb for verb, _ in service.asked] == ["filter"], "a single node needs no score"
    assert decide(extenders * 2, pod("p", tolerations=[]), nodes="").node is None
    service.answers["filter"] = 200, {"Nodes": {"items": []}}
    assert decide(extenders * 2, nodes="a").node is None
    assert len(service.asked) == 2, "if no node is left, the next extender is not called"


def test_ignorable_extenders_are_called_last(service):
    service.answers["first"] = 200, {"Nodes": {"items": [node("a"), node("b")]}}
    service.answers["last"] = 200, {"Nodes": {"items": [node("b")]}}
    decide([{"urlPrefix": service.url, "filterVerb": "last", "ignorable": True},
            {"urlPrefix": service.url, "filterVerb": "first"}])
    assert [verb for verb, _ in service.asked] == ["first", "last"]
    assert [item["metadata"]["name"] for item in service.asked[1][1]["Nodes"]["items"]] == ["a", "b"]


def test_two_extenders_with_the_same_url_both_count(service):
    service.answers["one"] = 200, [{"Host": "a", "Score": 1}]
    service.answers["two"] = 200, [{"Host": "a", "Score": 2}]
    decision = decide([{"urlPrefix": service.url, "prioritizeVerb": verb, "weight": 1} for verb in ("one", "two")])
    assert decision.total == {"a": 30, "b": 0, "c": 0}


def test_a_slow_extender_times_out(service):
    service.delay = 60
    service.answers["filter"] = 200, {"Nodes": {"items": []}}
    decision = decide([{"urlPrefix": service.url, "filterVerb": "filter", "httpTimeout": 200000000}])
    assert re.search(r": filter: (no answer within 0\.2 s|.*timed out)", decision.message), decision.message


def test_a_timeout_is_in_nanoseconds(service):
    policy = read_policy({"kind": "Policy", "apiVersion": "v1", "extenders": [
        {"urlPrefix": service.url, "httpTimeout": 1500000000}, {"urlPrefix": service.url}]})
    assert [extender.endpoint.timeout for extender in policy.extenders] == [1.5, 5]


@table("answer, text", {
    "an error": ((200, {"error": "disk quota exceeded"}), "disk quota exceeded"),
    "status 500": ((500, "oops"), "it returned 500 Internal Server Error"),
    "a long error": ((200, {"error": "x" * 5000}), "x" * 900),
    "success, but the pod is not bound": ((200, {}), "says that the pod is bound to a, and it is not"),
})
def test_if_an_extender_does_not_bind_its_pod_backs_off_with_an_event(service, answer, text):
    service.answers["bind"] = answer
    server = Server(node("a"), pod("p"))
    policies = {"my-scheduler": read_policy({
        "kind": "Policy", "apiVersion": "v1", "extenders": [{"urlPrefix": service.url, "bindVerb": "bind"}]})}
    server.kind_of_writer = Writer
    cluster = new_cluster(server)
    policies["my-scheduler"].initial_backoff = policies["my-scheduler"].max_backoff = 600
    for _ in range(2):
        run_pass(cluster, policies)
        cluster.results.handle(patience=60)
    wait_for_writes(cluster)
    [record] = cluster.queue.values()
    assert (len(service.asked), record.retry.failures, server.placements()) == (1, 1, {})
    [message] = [body["message"] for *_, body in server.sent("POST", "/events")]
    assert message.startswith(f"binding rejected: extender {service.url}") and text in message
    assert len(message) <= 1024


def test_an_extender_binds_before_a_rule_does(service):
    """Upstream: Scheduler.bind asks the extenders first."""
    server, called = Server(node("a"), pod("p")), []
    service.answers["bind"] = lambda: (200, {}, server.put(pod("p", nodeName="a")))[:2]
    rule = FullRule("Binder", lambda pod, node: (), hooks={"bind": lambda pod, node_name: called.append(node_name)})
    policy = FullPolicy([rule], [], extenders=read_policy({
        "kind": "Policy", "apiVersion": "v1", "extenders": [{"urlPrefix": service.url, "bindVerb": "bind"}]}).extenders)
    server.kind_of_writer = Writer
    cluster = new_cluster(server)
    run_pass(cluster, {"my-scheduler": policy})
    wait_for_writes(cluster)
    assert len(service.asked) == 1 and not called and server.placements() == {"p": "a"}


@table("answer, bound, message", {
    "it binds": ({}, True, ""),
    "it fails": ({"Error": "no"}, False, "bind: no"),
    "it answers success without binding": ({}, False, "says that the pod is bound to a, and it is not"),
})
def test_an_extender_binds_the_pod(control_plane, service, tmp_path, answer, bound, message):
    service.answers["bind"] = lambda: (200, answer, bound and control_plane.bind("p", "a"))[:2]
    control_plane.create(node("a"), pod("p"))
    uid = control_plane.pods()["default/p"]["metadata"]["uid"]
    (tmp_path / "policy.json").write_text(json.dumps({
        "kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [],
        "extenders": [{"urlPrefix": service.url, "bindVerb": "bind"}]}))
    run = run_scheduler("--server", control_plane.server, "--policy", tmp_path / "policy.json", "--once", "--dry-run")
    assert (run.returncode, service.asked) == (0, []), "a dry run does not call it"
    run = run_scheduler("--server", control_plane.server, "--policy", tmp_path / "policy.json", "--once")
    assert service.asked == [("bind", {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "a"})]
    assert (run.returncode == 0) == bound and message in run.stderr
    assert control_plane.placements() == ({"default/p": "a"} if bound else {}), "only the extender binds"
    assert len(control_plane.events("Scheduled")) == bound


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1, and its key: two PEM files."""
    folder = tmp_path_factory.mktemp("certificate")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    signed = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
              .serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
              .not_valid_after(now + datetime.timedelta(days=1))
              .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
              .add_extension(x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256()))
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()))
    return folder / "cert.pem", folder / "key.pem"


@table("host, tls, works", {
    "no CA means no check": ("localhost", {}, True),
    "insecure means no check": ("localhost", {"insecure": True}, True),
    "a CA, and the host in the certificate": ("127.0.0.1", {"caFile": "CERT"}, True),
    "a CA, and another host": ("localhost", {"caFile": "CERT"}, False),
    "a CA, another host, and the serverName in the certificate": ("localhost", {"caFile": "CERT", "serverName": "127.0.0.1"}, True),
    "a CA as data": ("127.0.0.1", {"caData": "CERT"}, True),
    "a CA as data with line breaks": ("127.0.0.1", {"caData": "CERT", "in lines": True}, True),
    "a CA as data, and a file that does not exist": ("127.0.0.1", {"caFile": "/nowhere", "caData": "CERT"}, True),
    "a CA as data, and another host": ("localhost", {"caData": "CERT"}, False),
    "a CA as data takes precedence over a file": ("127.0.0.1", {"caFile": "KEY", "caData": "CERT"}, True),
    "a client certificate": ("127.0.0.1", {"certFile": "CERT", "keyFile": "KEY"}, True),
    "a client certificate as data": ("127.0.0.1", {"certData": "CERT", "keyData": "KEY"}, True),
})
def test_https(certificate, host, tls, works):
    cert, key = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    if not tls.keys().isdisjoint(["certFile", "certData"]):
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cert)
    files = {"CERT": cert, "KEY": key}
    tls, encode = dict(tls), base64.b64encode
    if tls.pop("in lines", False):
        encode = base64.encodebytes
    tls = {name: value if value not in files else encode(files[value].read_bytes()).decode() if "Data" in name
           else str(files[value]) for name, value in tls.items()}
    service = Service(context)
    url = service.url.replace("127.0.0.1", host)
    service.answers["filter"] = 200, {"Nodes": {"items": [node("a")]}}
    decision = decide([{"urlPrefix": url, "filterVerb": "filter", "enableHttps": True, "tlsConfig": tls}])
    service.stop()
    assert (decision.node == "a") == works, decision.message


A_NODE_EACH = [*(node(name, cpu="1") for name in "abc"), *(
    pod(f"on-{name}", {"cpu": "1"}, nodeName=name, priority=i, metadata={"uid": f"uid-{name}"}) for i, name in enumerate("abc"))]
KINDS = {"Policy": lambda document: {"my-scheduler": read_policy(document, ["Preemption"])},
         "KubeSchedulerConfiguration": lambda document: read_configuration(document, "my-scheduler")}


def remedy(extenders, objects=A_NODE_EACH, kind="Policy"):
    """Return the remedy of the decision about a pod that fits nowhere, with these extenders."""
    document = {"kind": kind, "apiVersion": CONFIGURATION_VERSION, "extenders": extenders}
    if kind == "Policy":
        document |= {"predicates": [{"name": "PodFitsResources"}], "priorities": []}
    policies = KINDS[kind](document)
    cluster = extras.cluster_of(*objects, pod("p", {"cpu": "1"}, priority=9))
    [waiting] = extras.pending_pods(cluster, policies)
    snapshot = cluster.refresh_snapshot(policies)
    decision = schedule(waiting, snapshot, policies["my-scheduler"])
    policies["my-scheduler"].run_post_filter(decision, snapshot)
    assert any("DELETE" in request for request in decision.requests) == decision.remedy.startswith("It preempts default/")
    return decision.remedy


def victims(*uids, **more):
    """The victims on a node in an extender's answer."""
    return {"Pods": [{"UID": uid} for uid in uids], **more}


@pytest.mark.parametrize("names_only", [False, True])
def test_an_extender_is_called_with_the_victims(service, names_only):
    service.answers["preempt"] = 200, {"NodeNameToMetaVictims": {"c": victims("uid-c")}}
    message = remedy([{"urlPrefix": service.url, "preemptVerb": "preempt", "nodeCacheCapable": names_only}])
    assert message == "It preempts default/on-c on c, the only node where that helps."
    [(verb, asked)] = service.asked
    assert verb == "preempt" and asked["Pod"]["metadata"]["name"] == "p"
    kind = "NodeNameToMetaVictims" if names_only else "NodeNameToVictims"
    assert asked.keys() == {"Pod", kind} and asked[kind].keys() == {*"abc"}
    [first] = asked[kind]["a"]["Pods"]
    assert first == {"UID": "uid-a"} if names_only else first["metadata"]["uid"] == "uid-a" and "spec" in first
    assert asked[kind]["a"]["NumPDBViolations"] == 0


@table("answer, message", {
    "all nodes": ({"NodeNameToMetaVictims": {name: victims(f"uid-{name}") for name in "abc"}}, "It preempts default/on-a on a"),
    "fewer nodes, in lower case": ({"nodenametometavictims": {"b": {"pods": [{"uid": "uid-b"}]}}}, "It preempts default/on-b on b"),
    "no node": ({"NodeNameToMetaVictims": {}}, "No preemption: the extenders leave no node."),
    "nothing": ({}, "No preemption: the extenders leave no node."),
    "a node that was not sent": (
        {"NodeNameToMetaVictims": {"z": victims("uid-z")}}, "names nodes it was not asked about."),
    "a pod that was not sent": (
        {"NodeNameToMetaVictims": {"a": victims("uid-b")}}, "names others than the pods on a."),
    "no victims": ({"NodeNameToMetaVictims": {"a": victims(), "b": victims("uid-b")}}, "names no pod on a."),
    "an invalid answer": ({"NodeNameToMetaVictims": {"a": []}}, "expected an object, got []."),
    "an answer that is not JSON": ("oops", "Expecting value: line 1 column 1 (char 0)."),
})
def test_answers_of_an_extender_about_victims(service, answer, message):
    service.answers["preempt"] = 200, answer
    extender = {"urlPrefix": service.url, "preemptVerb": "preempt"}
    text = remedy([extender])
    assert message in text and text.startswith(("It preempts", "No preemption"))
    if "No preemption: extender " in text:
        assert text.startswith(f"No preemption: extender {service.url}: preempt: ")
        is_read = message == "names no pod on a."  # then the rest of the answer of an ignorable extender counts
        otherwise = "on-b on b, the only node where that helps." if is_read else "on-a on a, where the victim matters least."
        assert remedy([extender | {"ignorable": True}]) == f"It preempts default/{otherwise}"


def test_each_extender_gets_the_nodes_that_the_previous_one_has_left(service):
    answers = [{name: victims(f"uid-{name}") for name in "bc"}, {"c": victims("uid-c")}]
    service.answers["preempt"] = lambda: (200, {"NodeNameToMetaVictims": answers[len(service.asked) - 1]})
    extender = {"urlPrefix": service.url, "preemptVerb": "preempt", "nodeCacheCapable": True}
    other = {"urlPrefix": service.url, "preemptVerb": "others", "managedResources": [{"name": "example.com/gpu"}]}
    assert remedy([extender, other, extender]) == "It preempts default/on-c on c, the only node where that helps."
    assert [[*asked["NodeNameToMetaVictims"]] for _, asked in service.asked] == [[*"abc"], [*"bc"]]


def test_no_further_extender_is_called_if_no_node_is_left(service):
    service.answers["preempt"] = 200, {"NodeNameToMetaVictims": {}}
    extender = {"urlPrefix": service.url, "preemptVerb": "preempt"}
    assert remedy([extender, extender]) == "No preemption: the extenders leave no node."
    assert len(service.asked) == 1


def test_extenders_are_not_called_if_preemption_does_not_help(service):
    assert remedy([{"urlPrefix": service.url, "preemptVerb": "preempt"}], [node("a", cpu="0")]) == ""
    assert service.asked == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_violated_budgets_in_an_extenders_answer_count(service, kind):
    service.answers["preempt"] = 200, {"NodeNameToMetaVictims": {
        "a": victims("uid-a", NumPDBViolations=1), "c": victims("uid-c", NumPDBViolations=0)}}
    message = remedy([{"urlPrefix": service.url, "preemptVerb": "preempt"}], kind=kind)
    assert message == "It preempts default/on-c on c, where the fewest budgets are violated."


@pytest.mark.parametrize("kind", KINDS)
def test_no_pod_is_preempted_on_nodes_that_an_extender_rejects(service, kind, caplog):
    """Each node has room, but the extender rejects it."""
    roomy = [*(node(name) for name in "abc"), *A_NODE_EACH[3:]]
    service.answers["filter"] = 200, {"Nodes": {"items": []}, "FailedNodes": dict.fromkeys("abc", "no licence")}
    assert (remedy([{"urlPrefix": service.url, "filterVerb": "filter"}], roomy, kind), caplog.messages) == ("", [])


@table("field, preempts", {"FailedNodes": ("FailedNodes", True), "FailedAndUnresolvableNodes": ("FailedAndUnresolvableNodes", False)})
def test_no_pod_is_preempted_on_nodes_that_an_extender_calls_unresolvable(field, preempts, service):
    service.answers["filter"] = lambda: (200, {"Nodes": {"items": []}, field: {"n": "no licence"}})
    extenders = [{"urlPrefix": service.url, "filterVerb": "filter"}]
    document = {"kind": "KubeSchedulerConfiguration", "apiVersion": CONFIGURATION_VERSION, "extenders": extenders}
    low = pod("low", {"cpu": "1"}, nodeName="n", priority=0)
    cluster = extras.cluster_of(node("n", cpu="2"), low, pod("p", {"cpu": "1"}, priority=9))
    decisions = []
    extras.run_pass(cluster, read_configuration(document, "my-scheduler"), decisions.append)
    [decision] = decisions
    is_candidate = "Preemption is not helpful" not in decision.message
    assert is_candidate == preempts, decision.message
