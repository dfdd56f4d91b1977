"""The HTTP server of --listen: the server itself, health checks, metrics."""

import contextlib
import http.client
import platform
import re
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from helpers.control_plane import free_port, wait_for
from helpers.everywhere import replace
from helpers.extras import node, pod, run_scheduler, table
from helpers.faulty import ApiServer, answering
from scheduler_extras.common.clocks import HEARTBEAT
from scheduler_extras.common.version import VERSION
from scheduler_extras.serve.health import health_routes
from scheduler_extras.serve.prometheus_text import Counter, exponential
from scheduler_extras.serve.server import MAX_CONNECTIONS, Response, Server


def ask(port, path, method="GET", **headers):
    """Send a raw request; return the status, the headers and the text of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(connection):
        connection.putrequest(method, path, skip_host=True)
        for name, value in ({"Host": f"127.0.0.1:{port}"} | headers).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


# ---- the server ----------------------------------------------------------------------------------------

@pytest.fixture
def serve():
    """A function that serves routes on a free port, and returns the port."""
    servers = []

    def start(routes):
        servers.append(Server("127.0.0.1", 0, routes))
        servers[-1].start()
        return servers[-1].server_port

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def mistaken(request):
    """A handler that raises an exception."""
    raise LookupError("oops")


ROUTES = {"/here": lambda request: Response(f"{request.path} {request.query}".encode()), "/broken": mistaken}


@table("path, method, host, status, text", {
    "a route": ("/here?a=1&b=&a=2", "GET", None, 200, "/here {'a': ['1', '2'], 'b': ['']}"),
    "a HEAD request": ("/here", "HEAD", None, 200, ""),
    "an unknown route": ("/there", "GET", None, 404, "not found; there is /here, /broken\n"),
    "a path with ..": ("/../here", "GET", None, 404, "not found; there is /here, /broken\n"),
    "an invalid URL": ("http://[", "GET", None, 400, None),
    "a handler that fails": ("/broken", "GET", None, 500, "oops\n"),
    "a POST request": ("/here", "POST", None, 501, None),
    "the host localhost": ("/here", "GET", "localhost", 200, None),
    "an IPv6 address": ("/here", "GET", "[::1]:80", 200, None),
    "a Service of the cluster": ("/here", "GET", "my-scheduler.kube-system.svc:10251", 200, None),
    "a host that may be public, as in DNS rebinding": (
        "/here", "GET", "example.com", 421, "the Host header names another server\n"),
    "a public host that begins with an address": ("/here", "GET", "127.0.0.1.example.com", 421, None),
    "an empty host": ("/here", "GET", "", 421, None)})
def test_answers_of_the_server(serve, path, method, host, status, text):
    port = serve(ROUTES)
    answer = ask(port, path, method, **({} if host is None else {"Host": host}))
    assert answer[0] == status and text in (None, answer[2])


def test_each_answer_has_security_headers(serve):
    _, headers, _ = ask(serve(ROUTES), "/here")
    assert "default-src 'none'" in headers["Content-Security-Policy"] and headers["X-Content-Type-Options"] == "nosniff"
    assert not {"Set-Cookie", "Access-Control-Allow-Origin", "Server"} & {*headers}


def test_a_response_may_have_other_headers(serve):
    routes = {"/": lambda request: Response(b"", "text/html", headers={"Content-Security-Policy": "sandbox"})}
    _, headers, _ = ask(serve(routes), "/")
    assert headers.get_all("Content-Security-Policy") == ["sandbox"] and headers["Content-Type"] == "text/html"


def test_idle_clients_do_not_block_a_probe_and_the_oldest_is_disconnected(serve):
    port = serve(ROUTES)
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(MAX_CONNECTIONS + 5)]
    assert ask(port, "/here")[0] == 200
    clients[0].settimeout(20)
    assert clients[0].recv(1) == b"", "the connection was closed"
    clients[-1].sendall(b"GET /here HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert clients[-1].recv(12) == b"HTTP/1.0 200"
    for client in clients:
        client.close()


def test_a_stream_is_sent_in_parts_and_ends_when_its_client_disconnects(serve):
    has_more, has_ended = threading.Event(), threading.Event()

    def parts():
        try:
            yield b"data: first\n\n"
            has_more.wait(20)
            while True:
                yield b"data: next\n\n"
                time.sleep(0.01)
        finally:
            has_ended.set()

    port = serve({"/events": lambda request: Response(parts(), "text/event-stream")})
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    client.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    received = b""
    while not received.endswith(b"data: first\n\n"):
        received += client.recv(1000)
    has_more.set()
    client.close()
    assert has_ended.wait(20)


@table("arguments, message", {
    "a port in use": (["--listen", "{port}"], "--listen: cannot listen on 127.0.0.1, port {port}: Address already in use\n"),
    "--listen with --once": (["--listen", "{port}", "--once"], "--listen excludes --once, --explain POD, --fits, --drain and --compare\n")})
def test_an_unusable_listen_option_gives_exit_code_2(arguments, message):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = run_scheduler("--server", "http://127.0.0.1:1", *(each.format(port=port) for each in arguments))
    assert run.returncode == 2 and run.stderr.endswith(message.format(port=port))


# ---- health --------------------------------------------------------------------------------------------

LATE = {"at": -1000, "limit": 60}
LISTED = {"pods": {}, "nodes": {}}


@table("path, listed, heartbeat, lost, status, text", {
    "alive": ("/livez", LISTED, {}, None, 200, "ok"),
    "alive, verbose": ("/livez?verbose", LISTED, {}, None, 200, "[+]ping ok\n[+]loop ok\nlivez check passed\n"),
    "healthz is the same": ("/healthz?verbose", LISTED, {}, None, 200, "[+]ping ok\n[+]loop ok\nhealthz check passed\n"),
    "the loop hangs": ("/livez", LISTED, LATE, None, 500, "[+]ping ok\n[-]loop failed: reason withheld\nlivez check failed\n"),
    "the API server is unreachable, so the loop is idle": ("/livez", {}, {"at": float("inf"), "limit": 60}, None, 200, "ok"),
    "the loop hangs, but its check is excluded": ("/livez?exclude=loop&verbose", LISTED, LATE, None, 200, "[+]ping ok\n[+]loop excluded: ok\nlivez check passed\n"),
    "an unknown check is excluded": ("/livez?exclude=etcd&verbose", LISTED, {}, None, 200,
        '[+]ping ok\n[+]loop ok\nwarn: some health checks cannot be excluded: no matches for "etcd"\nlivez check passed\n'),
    "a single check": ("/livez/loop", LISTED, {}, None, 200, "ok"),
    "a single check fails": ("/livez/loop", LISTED, LATE, None, 500, "internal server error: loop has failed\n"),
    "ready": ("/readyz", LISTED, {}, None, 200, "ok"),
    "not ready: nodes were not listed": ("/readyz", {"pods": {}}, {}, None, 500,
                                         "[+]ping ok\n[-]informer-sync failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n"),
    "a standby is alive": ("/livez?verbose", LISTED, {}, False, 200, "[+]ping ok\n[+]loop ok\n[+]leaderElection ok\nlivez check passed\n"),
    "a standby is ready": ("/readyz", LISTED, {}, False, 200, "ok"),
    "a replica that has lost the Lease": ("/livez", LISTED, {}, True, 500,
                                     "[+]ping ok\n[+]loop ok\n[-]leaderElection failed: reason withheld\nlivez check failed\n")})
def test_health(serve, monkeypatch, path, listed, heartbeat, lost, status, text):
    for name, value in ({"at": time.monotonic(), "limit": 60} | heartbeat).items():
        monkeypatch.setattr(HEARTBEAT, name, value)
    cluster = SimpleNamespace(cache=SimpleNamespace(objects=listed))
    election = None if lost is None else SimpleNamespace(lost=lost)
    answer = ask(serve(health_routes(cluster, election)), path)
    assert (answer[0], answer[2]) == (status, text)


def test_not_ready_during_shutdown(serve, monkeypatch):
    stop = threading.Event()
    replace(monkeypatch, "STOP", stop)
    port = serve(health_routes(SimpleNamespace(cache=SimpleNamespace(objects=LISTED)), None))
    assert ask(port, "/readyz")[0] == 200
    stop.set()
    assert "[-]shutdown failed" in ask(port, "/readyz")[2] and ask(port, "/livez")[0] == 200


# ---- metrics -------------------------------------------------------------------------------------------

def scraped(port):
    """Scrape /metrics; return {name of a metric: its family} and {(name, *labels): value}."""
    status, headers, text = ask(port, "/metrics")
    assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return families, {(sample.name, *sample.labels.values()): sample.value
                      for family in families.values() for sample in family.samples}


@pytest.fixture
def metrics_of(start_scheduler):
    """A function that runs the program against an API server in memory, and returns a function that scrapes its metrics."""
    with contextlib.ExitStack() as stack:
        def start(server, *arguments):
            stack.callback(server.stop)
            port = free_port()
            start_scheduler("--server", server.url, "--listen", port, "--interval=0.1", *arguments)
            wait_for("the program is ready", lambda: is_ready(port))
            return lambda: scraped(port)[1]

        yield start


def is_ready(port):
    """Return whether the program is ready."""
    with contextlib.suppress(OSError):
        return ask(port, "/readyz")[0] == 200


def test_attempts_pods_queues_and_requests_are_counted(metrics_of):
    server = ApiServer(node("a", cpu="2"), node("b", cpu="2", unschedulable=True), pod("small"), pod("large", {"cpu": "3"}),
                       pod("gated", schedulingGates=[{"name": "quota"}]))
    scrape = metrics_of(server)
    counted = wait_for("both pods are tried", lambda: (found := scrape()) and found.get(
        ("scheduler_schedule_attempts_total", "scheduled", "my-scheduler")) and found.get(
        ("scheduler_schedule_attempts_total", "unschedulable", "my-scheduler")) and found.get(("scheduler_pending_pods", "unschedulable")) and found)
    times = counted["scheduler_schedule_attempts_total", "unschedulable", "my-scheduler"]  # may be 2 on a slow machine
    expected = {
        ("scheduler_schedule_attempts_total", "scheduled", "my-scheduler"): 1,
        ("scheduler_scheduling_attempt_duration_seconds_count", "scheduled", "my-scheduler"): 1,
        ("scheduler_e2e_scheduling_duration_seconds_count", "scheduled", "my-scheduler"): 1,
        ("scheduler_scheduling_algorithm_duration_seconds_count",): 1, ("scheduler_binding_duration_seconds_count",): 1,
        ("scheduler_pod_scheduling_attempts_sum",): 1, ("scheduler_pod_scheduling_sli_duration_seconds_count", "1"): 1,
        ("scheduler_queue_incoming_pods_total", "active", "PodAdd"): 2,
        ("scheduler_queue_incoming_pods_total", "unschedulable", "ScheduleAttemptFailure"): times,
        ("scheduler_pending_pods", "active"): 0, ("scheduler_pending_pods", "unschedulable"): 1,
        ("scheduler_pending_pods", "backoff"): 0, ("scheduler_pending_pods", "gated"): 1,
        ("scheduler_unschedulable_pods", "NodeResourcesFit", "my-scheduler"): 1,
        ("scheduler_unschedulable_pods", "NodeUnschedulable", "my-scheduler"): 1,
        ("scheduler_cache_size", "nodes"): 2, ("scheduler_cache_size", "pods"): 1,
        ("scheduler_framework_extension_point_duration_seconds_count", "Filter", "Success", "my-scheduler"): 1 + times,
        ("scheduler_framework_extension_point_duration_seconds_count", "Bind", "Success", "my-scheduler"): 1,
        ("rest_client_requests_total", "201", "POST", server.url.removeprefix("http://")): None}
    for name, value in expected.items():
        assert name in counted and value in (None, counted[name]), (name, counted.get(name))
    assert counted["process_resident_memory_bytes",] > 1e7 and abs(counted["process_start_time_seconds",] - time.time()) < 600
    assert counted["scheduler_extras_build_info", VERSION, "1.20", re.match("[0-9.]+", platform.python_version())[0]] == 1
    assert not [name for name in counted if name[0].startswith(("scheduler_preemption", "leader_election"))], "these are not enabled here"


def test_a_failed_binding_counts_as_an_error_and_the_pod_as_in_backoff(metrics_of):
    server = ApiServer(node("a"), pod("p"))
    server.faults["binding"] = answering(422)
    scrape = metrics_of(server)
    counted = wait_for("the Binding has failed", lambda: (found := scrape()) and found.get(
        ("scheduler_schedule_attempts_total", "error", "my-scheduler")) and found)
    assert ("scheduler_schedule_attempts_total", "scheduled", "my-scheduler") not in counted
    assert counted["scheduler_queue_incoming_pods_total", "backoff", "ScheduleAttemptFailure"] >= 1


def test_names_of_pods_and_nodes_are_not_label_values(metrics_of):
    server = ApiServer(node("node-1"), *(pod(f"pod-{i}", {"cpu": "99"} if i % 2 else None) for i in range(20)))
    scrape = metrics_of(server)
    wait_for("half of the pods are scheduled", lambda: scrape().get(("scheduler_schedule_attempts_total", "scheduled", "my-scheduler")) == 10)
    assert not [labels for _, *labels in scrape() if any(re.match("(pod|node)-|.*/", label) for label in labels)]


def test_labels_types_and_buckets_match_a_real_kube_scheduler(control_plane, start_scheduler):
    """The buckets for victims are not compared: ours are those of 1.36, which differ from 1.20."""
    control_plane.create(node("n"), pod("ours"), pod("ours-too-large", {"cpu": "99"}), pod("theirs", schedulerName="default-scheduler"),
                         pod("theirs-too-large", {"cpu": "99"}, schedulerName="default-scheduler"))
    same = ["scheduler_schedule_attempts", "scheduler_e2e_scheduling_duration_seconds", "scheduler_scheduling_algorithm_duration_seconds",
            "scheduler_binding_duration_seconds", "scheduler_framework_extension_point_duration_seconds",
            SAMPLED, "scheduler_pod_scheduling_duration_seconds", "scheduler_pod_scheduling_attempts",
            "scheduler_pending_pods", "scheduler_queue_incoming_pods", "scheduler_preemption_attempts", "scheduler_scheduler_cache_size",
            "rest_client_requests", "process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds"]
    port, their_port = free_port(), free_port()
    start_scheduler("--server", control_plane.server, "--listen", port, "--preempt", "--policy", "DefaultProvider")
    theirs = control_plane.start(
        "kube-scheduler", f"--kubeconfig={control_plane.kubeconfig()}", "--leader-elect=false", f"--port={their_port}",
        "--address=127.0.0.1", "--secure-port=0")
    try:
        wait_for("both schedulers bind", lambda: len(control_plane.placements()) == 2)
        wait_for("both schedulers have a pod that fits nowhere", lambda: [key for key, thing in control_plane.pods().items() if "Unschedulable" in str(thing["status"])] == [
            "default/ours-too-large", "default/theirs-too-large"])
        of_1_20, ours = [wait_for("all metrics are exported", lambda: schema(each, {*same} - {SAMPLED})) for each in (their_port, port)]
    finally:
        theirs.kill()
        theirs.wait()
    both = [name for name in same if name in ours and name in of_1_20]
    assert [(name, ours[name], of_1_20[name]) for name in both if ours[name] != of_1_20[name]] == []


SAMPLED = "scheduler_plugin_execution_duration_seconds"  # both observe a share of the attempts, so possibly none


def schema(port, wanted):
    """Return {name of a metric: (type, labels, buckets)}, or a false value if a wanted metric is missing."""
    with contextlib.suppress(OSError):
        families = {family.name: family for family in text_string_to_metric_families(ask(port, "/metrics")[2])}
        return wanted <= families.keys() and {name: (family.type, sorted({label for sample in family.samples for label in sample.labels}),
                       sorted({float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels}))
                for name, family in families.items()}


def test_bucket_bounds_have_the_rounding_errors_of_kube_scheduler():
    """They are exported as text, in the label `le`. These are of scheduler_plugin_execution_duration_seconds in 1.20.2."""
    assert exponential(0.00001, 1.5, 20) == [
        1e-05, 1.5000000000000002e-05, 2.2500000000000005e-05, 3.375000000000001e-05, 5.062500000000001e-05,
        7.593750000000002e-05, 0.00011390625000000003, 0.00017085937500000006, 0.0002562890625000001, 0.00038443359375000017,
        0.0005766503906250003, 0.0008649755859375004, 0.0012974633789062506, 0.0019461950683593758, 0.0029192926025390638,
        0.004378938903808595, 0.006568408355712893, 0.009852612533569338, 0.014778918800354007, 0.02216837820053101]


def test_the_leader_exports_that_it_leads(metrics_of):
    server = ApiServer(node("a"))
    scrape = metrics_of(server, "--leader-elect")
    wait_for("the replica leads", lambda: scrape().get(("leader_election_master_status", "my-scheduler")) == 1)


@table("values, line", {
    "special characters are escaped": (('a"\\\n',), 'm{x="a\\"\\\\\\n"} 1'),
    "other characters are not": (("Bind",), 'm{x="Bind"} 1')})
def test_escaping_of_label_values(values, line):
    counter = Counter("m", "", "x")
    counter.add(*values)
    assert list(counter.samples()) == [line]
