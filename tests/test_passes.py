"""The loop of scheduler.py with an API server in memory: when pods are tried, and which requests are sent."""

import itertools
import json
import signal
import subprocess
import sys
import types

import pytest

from helpers.faulty import Choice, answering, failure
from helpers.script import (
    ROOT,
    TESTS,
    api_server,
    node,
    pod,
    policy,
    run,
    run_afresh,
    running,
    scheduler,
    table,
    wait_for,
)


@pytest.fixture
def clock(monkeypatch):
    """A clock for the script that only the test and the script's own sleeps advance."""
    clock = types.SimpleNamespace(now=1000.0)

    def sleep(seconds):
        clock.now += seconds

    monkeypatch.setattr(scheduler, "time", types.SimpleNamespace(
        monotonic=lambda: clock.now, sleep=sleep, time_ns=itertools.count(1).__next__,
        strftime=scheduler.time.strftime, gmtime=scheduler.time.gmtime))
    return clock


def cluster_of(server):
    """Return the script's Cluster for a server."""
    return scheduler.Cluster(scheduler.Proxy(server.url), "my-scheduler")


def run_pass(cluster, *predicates, priorities=()):
    """Run a pass with a Policy that names these rules."""
    scheduler.schedule_pending_pods(cluster, scheduler.policy_of(policy(predicates, priorities)))


def events(server):
    """Return the events that were sent: [(reason, message)]."""
    return [(sent.json["reason"], sent.json["message"]) for sent in server.sent("event")]


FULL = "0/1 nodes are available: 1 Insufficient cpu."


@table("objects, bound", {
    "a pod of this scheduler": ([pod("web")], {"default/web": "a"}),
    "a pod of another scheduler": ([pod("web", schedulerName="another")], {}),
    "a pod that is being deleted": ([pod("web", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], {}),
    "a pod with a scheduling gate": ([pod("web", schedulingGates=[{"name": "wait"}])], {}),
    "a pod that has ended": ([pod("web") | {"status": {"phase": "Failed"}}], {}),
    "the pod of the highest priority first": ([pod("web", {"cpu": "3"}), pod("important", {"cpu": "3"}, priority=7)], {"default/important": "a"}),
    "the older one of two pods with equal priority first": ([
        pod("young", {"cpu": "3"}, metadata={"creationTimestamp": "2026-01-02T00:00:00Z"}),
        pod("old", {"cpu": "3"}, metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})], {"default/old": "a"}),
    "pods that were assumed in this pass take room": ([pod(f"p{i}", {"cpu": "2"}) for i in range(3)], {"default/p0": "a", "default/p1": "a"}),
    "a pod whose nodeSelector matches no node": ([pod("web", nodeSelector={"disk": "ssd"})], {})})
def test_the_right_pods_are_bound(objects, bound):
    with api_server(node("a"), *objects) as server:
        run_pass(cluster_of(server), "PodFitsResources", "MatchNodeSelector")
        assert server.placements() == bound


def test_a_binding_has_the_uid_and_an_event_follows():
    with api_server(node("a"), pod("web")) as server:
        run_pass(cluster_of(server))
        [sent] = server.sent("binding")
        assert sent.json["metadata"]["uid"] == server.pods["default", "web"]["metadata"]["uid"]
        assert sent.json["target"] == {"apiVersion": "v1", "kind": "Node", "name": "a"}
        assert events(server) == [("Scheduled", "Successfully assigned default/web to a")]


def test_a_recreated_pod_is_not_bound_under_its_old_uid():
    with api_server(node("a"), pod("web")) as server:
        cluster = cluster_of(server)
        cluster.begin_pass()
        server.delete("web")
        server.create(pod("web"))
        decision = scheduler.schedule(cluster.next_pod(), cluster.nodes, scheduler.policy_of(policy()))
        cluster.bind(decision)
        assert decision.node is None and not cluster.has_failed and not server.placements()
        run_pass(cluster)
        assert server.placements() == {"default/web": "a"}


def test_lists_are_read_page_by_page():
    with api_server(node("a"), pod("web")) as server:
        pages = [json.dumps({"kind": "PodList", "metadata": {"continue": token}, "items": [pod(f"p{token}")]}) for token in ("1", "2", "")]
        server.faults["list"] = Choice(lambda asked: (lambda request: request.answer(200, pages.pop(0).encode())) if pages else None)
        assert [each["metadata"]["name"] for each in scheduler.Proxy(server.url).list("pods")] == ["p1", "p2", "p"]
        assert ["continue=1" in asked.path for asked in server.asked] == [False, True, False]


def test_a_pod_that_is_bound_between_two_lists_is_skipped():
    with api_server(node("a"), pod("web")) as server:
        bound = pod("web", nodeName="a", metadata={"uid": server.pods["default", "web"]["metadata"]["uid"]})
        server.extra.append(lambda resource, selector: [bound] if "spec.nodeName!=" in selector else [])
        run_pass(cluster_of(server))
        assert not server.sent("binding")


def test_a_pod_that_fits_nowhere_backs_off_and_is_reported_once(clock, capsys):
    with api_server(node("a", cpu="1"), pod("web", {"cpu": "2"})) as server:
        cluster, tried = cluster_of(server), []
        for _ in range(60):
            due = clock.now
            run_pass(cluster, "PodFitsResources")
            attempts = cluster.attempts[server.pods["default", "web"]["metadata"]["uid"]]
            tried += [due] if attempts.count > len(tried) else []
            clock.now += 1
        assert [later - earlier for earlier, later in itertools.pairwise(tried)] == [1, 2, 4, 8, 10, 10, 10, 10]
        assert events(server) == [("FailedScheduling", FULL)]
        assert capsys.readouterr().out == f"default/web stays pending: {FULL}\n"


def test_a_new_reason_is_reported_again(clock):
    with api_server(node("a", cpu="1"), pod("web", {"cpu": "2"})) as server:
        cluster = cluster_of(server)
        run_pass(cluster, "PodFitsResources")
        server.create(node("b", cpu="1"))
        clock.now += 1
        run_pass(cluster, "PodFitsResources")
        assert events(server)[1:] == [("FailedScheduling", "0/2 nodes are available: 2 Insufficient cpu.")]


def test_without_nodes_the_message_is_that_of_kube_scheduler():
    with api_server(pod("web")) as server:
        run_pass(cluster_of(server))
        assert events(server) == [("FailedScheduling", "no nodes available to schedule pods")]


def test_a_pass_ends_after_five_seconds_and_the_next_one_goes_on(clock, monkeypatch, caplog):
    scheduler.log_once.cache_clear()
    monkeypatch.setattr(scheduler.os.path, "isdir", lambda path: True)
    with api_server(node("a"), *(pod(f"p{i}") for i in range(9))) as server:
        cluster = cluster_of(server)
        choose = scheduler.select_host

        def slowly(total):
            clock.now += 2
            return choose(total)

        monkeypatch.setattr(scheduler, "select_host", slowly)
        run_pass(cluster)
        assert len(server.placements()) == 3 and len(cluster.due) == 6
        run_pass(cluster)
        run_pass(cluster)
        assert len(server.sent("binding")) == len(server.placements()) == 9
        [hint] = caplog.messages
        assert hint.startswith("a pass has ended early, to LIST the cluster again; python ") and hint.endswith(" watches instead")


def test_a_slow_list_is_logged_once(clock, monkeypatch, caplog):
    scheduler.log_once.cache_clear()
    with api_server(node("a")) as server:
        cluster = cluster_of(server)
        plain = cluster.api.list

        def slowly(*arguments):
            clock.now += 1
            return plain(*arguments)

        monkeypatch.setattr(cluster.api, "list", slowly)
        for _ in range(3):
            run_pass(cluster)
        [hint] = caplog.messages
        assert hint.startswith("listing the cluster takes more than 2 seconds")


def refuse_one(code, name):
    """Return a fault that answers the Binding of one pod with this status."""
    return Choice(lambda asked: answering(code) if name in asked.path else None)


@table("code, has_failed, goes_on, text", {
    "another scheduler has bound the pod": (409, False, True, []), "the pod is gone": (404, False, True, []),
    "an admission webhook denies the Binding": (403, True, True, ["binding rejected: POST "]),
    "the API server fails, and may have bound the pod": (500, True, False, ["binding rejected: POST "]),
    "the API server is busy": (429, True, False, ["binding rejected: POST "])})
def test_after_a_failed_binding_the_pod_backs_off(clock, code, has_failed, goes_on, text):
    with api_server(node("a"), pod("odd", priority=1), pod("web")) as server:
        server.faults["binding"] = refuse_one(code, "odd")
        cluster = cluster_of(server)
        run_pass(cluster)
        assert bool(server.placements()) == goes_on and cluster.has_failed == has_failed
        run_pass(cluster)  # odd backs off
        assert server.placements() == {"default/web": "a"} and len(server.sent("binding")) == 2
        messages = [message for reason, message in events(server) if reason == "FailedScheduling"]
        assert [message[:23] for message in messages] == text
        server.faults.clear()
        clock.now += 1
        run_pass(cluster)
        assert server.placements() == {"default/web": "a", "default/odd": "a"}


def test_pods_whose_bindings_always_fail_do_not_block_other_pods(clock):
    odd = [pod(f"odd-{i}", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"}) for i in range(30)]
    with api_server(node("a"), *odd) as server:
        server.faults["binding"] = refuse_one(403, "odd")
        cluster = cluster_of(server)
        for _ in range(60):
            run_pass(cluster)
            clock.now += 0.1
        server.create(*(pod(f"web-{i}") for i in range(5)))
        for _ in range(60):
            run_pass(cluster)
        assert len(server.placements()) == 5


def test_a_rejected_event_does_not_prevent_the_binding(caplog):
    with api_server(node("a"), pod("web")) as server:
        server.faults["event"] = answering(403)
        run_pass(cluster_of(server))
        assert server.placements() == {"default/web": "a"} and len(caplog.messages) == 1


def test_a_binding_whose_answer_is_lost_is_not_sent_again():
    with api_server(node("a"), pod("web")) as server:
        server.faults["binding"] = "reset after"
        cluster = cluster_of(server)
        run_pass(cluster)
        run_pass(cluster)
        assert len(server.sent("binding")) == 1 and server.placements() == {"default/web": "a"}


@table("answer, message", {
    "an error with control characters": ((403, failure(403, message="no\nrights\x1b[31m")), "GET /api/v1/nodes: no rights[31m"),
    "plain text from kubectl proxy": ((502, b"dial tcp 127.0.0.1:6443: connect: connection refused\n"), r"{server}: 502 dial tcp 127.0.0.1:6443: connect: connection refused"),
    **{f"another server, with the answer {answer}": ((200, answer), "{server} is not an API server: its list of nodes has no items")
       for answer in ({"status": "ok"}, None, [], {"items": None})}})
def test_an_answer_without_a_list_gives_one_line(answer, message):
    with api_server() as server:
        server.faults["list"] = lambda request: request.answer(*answer)
        with pytest.raises(scheduler.ApiError) as raised:
            scheduler.Proxy(server.url).list("nodes")
        assert str(raised.value) == message.format(server=server.url)


def test_an_unreachable_proxy_is_logged_once_and_retried(tmp_path):
    with api_server() as server:
        url = server.url
    with running(tmp_path, "--server", url, "--interval", "0.05") as script:
        wait_for("an error is logged", lambda: "cannot reach" in script.err)
        wait_for("some passes fail", lambda: script.process.poll() is None)
        script.process.send_signal(signal.SIGINT)
        assert script.process.wait(10) == 130
        assert script.err.splitlines()[1:] == [f"cannot reach {url}: ConnectionError; is `kubectl proxy` running there?"]


def test_a_failure_and_the_recovery_are_logged_once_each(clock, caplog):
    passes = iter([scheduler.ApiError(0, "down"), scheduler.ApiError(0, "down"), None, None, scheduler.ApiError(0, "down"), KeyboardInterrupt()])

    def begin_pass():
        error = next(passes)
        if error:
            raise error

    cluster = types.SimpleNamespace(begin_pass=begin_pass, next_pod=lambda: None, due=[])
    with pytest.raises(KeyboardInterrupt):
        scheduler.run(cluster, lambda: None, interval=1, once=False)
    assert caplog.messages == ["down", "the API server answers again", "down"]


@table("objects, faults, code", {
    "all pods are bound": ([node("a"), pod("web")], {}, 0),
    "no pod is pending": ([node("a")], {}, 0),
    "a pod fits nowhere": ([node("a"), pod("web", {"cpu": "9"})], {}, 0),
    "another scheduler has bound the pod": ([node("a"), pod("web")], {"binding": answering(409)}, 0),
    "a Binding is rejected": ([node("a"), pod("web")], {"binding": answering(403)}, 1),
    "lists fail": ([node("a"), pod("web")], {"list": answering(500)}, 1)})
def test_the_exit_code_with_once(objects, faults, code):
    with api_server(*objects) as server:
        server.faults |= faults
        assert run("--server", server.url, "--once").returncode == code


def test_ctrl_c_gives_exit_code_130_and_no_traceback(tmp_path):
    with api_server(node("a"), pod("web")) as server, running(tmp_path, "--server", server.url) as script:
        wait_for("web is bound", lambda: server.placements())
        script.process.send_signal(signal.SIGINT)
        assert script.process.wait(10) == 130 and "Traceback" not in script.err


def test_an_edit_of_the_policy_takes_effect_in_the_next_pass(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text((ROOT / "policy.json").read_text())
    with api_server(node("a"), pod("picky", nodeSelector={"disk": "ssd"})) as server, running(
            tmp_path, "--server", server.url, "--policy", path, "--interval", "0.1") as script:
        wait_for("the pod is pending", lambda: "picky stays pending" in script.out)
        path.write_text(path.read_text().replace('{"name": "MatchNodeSelector"},', ""))
        wait_for("the pod is bound", lambda: server.placements() == {"default/picky": "a"})
        assert f"{path}: - MatchNodeSelector" in script.err


@table("spec, fields", {
    "a claim": ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "persistentVolumeClaim"),
    "spread constraints and pod anti-affinity": ({"topologySpreadConstraints": [{"maxSkew": 1}], "affinity": {"podAntiAffinity": {"x": []}}},
                                       "podAntiAffinity, topologySpreadConstraints"),
    "a resource claim": ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
    "only empty lists": ({"topologySpreadConstraints": [], "affinity": {"podAffinity": {}}}, None)})
def test_fields_that_no_rule_checks_are_logged_once(caplog, spec, fields):
    scheduler.log_once.cache_clear()
    with api_server(node("a"), pod("web", **spec)) as server:
        run_pass(cluster_of(server))
    expected = f"default/web is placed, but no rule of scheduler.py checks its {fields}"
    assert [line.partition("; ")[0] for line in caplog.messages] == ([expected] if fields else [])


def test_environment_variables_for_other_proxies_are_ignored(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with api_server(node("a")) as server:
        assert len(scheduler.Proxy(server.url).list("nodes")) == 1


def test_the_message_of_an_event_has_at_most_1024_characters():
    _, _, body = scheduler.event(scheduler.Pod(pod("x" * 253)), "Warning", "FailedScheduling", "m" * 5000)
    assert len(body["message"]) == 1024 and len(body["metadata"]["name"]) <= 253


@table("arguments, problem", {
    "a typo": (["--onse"], 'unknown argument "--onse"; did you mean "--once"?'),
    "an option of the second program": (["--explain", "default/web"],
                                        "scheduler.py has no --explain; python {extras} has: python {extras} --explain default/web"),
    "a server without http": (["--server", "localhost:8001"], "--server: expected a URL such as http://127.0.0.1:8001"),
    "an interval of 0": (["--interval", "0"], "--interval: expected a number of seconds above 0"),
    "a server with another scheme": (["--server", "ftp://x"], "--server: expected a URL such as http://127.0.0.1:8001"),
    "an infinite interval": (["--interval", "inf"], "--interval: expected a number of seconds above 0"),
    "an interval in words": (["--interval", "often"], "argument --interval: invalid float value: 'often'"),
    "an option without its value": (["--cluster"], "argument --cluster: expected at least one argument")})
def test_wrong_usage_gives_an_error_and_exit_code_2(monkeypatch, capsys, arguments, problem):
    monkeypatch.setattr(scheduler.sys, "argv", ["scheduler.py", *arguments])
    monkeypatch.setattr(scheduler.os.path, "isdir", lambda path: True)
    with pytest.raises(SystemExit) as ended:
        scheduler.read_options()
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"scheduler.py: error: {problem.format(extras=scheduler.EXTRAS)}"


def test_a_malformed_url_gives_one_line_and_exit_code_1():
    done = run("--server", "http://a..b", "--once")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1


def test_a_closed_output_pipe_ends_the_script_quietly(tmp_path):
    (tmp_path / "scheduler.py").write_text(f"{(ROOT / 'scheduler.py').read_text()}\nselect_host = lambda total: time.sleep(0.1) or min(total)\n")
    (tmp_path / "policy.json").write_text((ROOT / "policy.json").read_text())
    with open(tmp_path / "stderr", "wb") as stderr:
        command = [sys.executable, tmp_path / "scheduler.py", "--cluster", TESTS / "demo.yaml"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 1
    assert (tmp_path / "stderr").read_text() == ""


@table("quantities", {"large": "1e999999", "small": "1e-999999", "many digits": "9" * 100})
def test_extreme_quantities_do_not_stop_the_loop(quantities):
    with api_server(node("a"), pod("odd", {"cpu": quantities, "memory": quantities}, nodeName="a"), node("b"), pod("web", {"cpu": "1"})) as server:
        run_pass(cluster_of(server), "PodFitsResources")
        assert "default/web" in server.placements()


def test_help_has_examples_and_exit_codes():
    done = run("--help")
    assert done.returncode == 0 and "--cluster tests/demo.yaml" in done.stdout and "130 Ctrl-C" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_error_for_a_missing_package_names_the_command_that_installs_it(tmp_path):
    (tmp_path / "requests.py").write_text("raise ModuleNotFoundError(name='requests')")
    done = run_afresh("--help", env={**scheduler.os.environ, "PYTHONPATH": str(tmp_path)})
    assert (done.stderr, done.returncode) == ("requests is missing: pip install requests pyyaml\n", 1)
