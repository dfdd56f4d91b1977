"""Options of the command line, and hints about those that kube-scheduler has or had."""

import argparse
import re

import pytest

from helpers.command_line import DEMO
from helpers.everywhere import script
from helpers.extras import ROOT, run_scheduler, table
from scheduler_extras.common.version import CONFIGURATION_VERSION
from scheduler_extras.options import address_and_port, option_parser, read_arguments
from scheduler_extras.policy.policy_reader import POLICY
from scheduler_extras.reading.hints import REPLACEMENTS


@table("arguments, message", {
    "a configuration": (["--config", "DefaultProvider"], "with DefaultProvider:"),
    "a Policy": (["--policy-config-file", "policy.json"], "with policy.json:"),
    "a provider": (["--algorithm-provider=ClusterAutoscalerProvider"], "with ClusterAutoscalerProvider:"),
    "leader election off": (["--leader-elect=false"], "with policy.json:"),
})
def test_flags_of_kube_scheduler_work(arguments, message):
    run = run_scheduler("--cluster", DEMO, "--explain", "report", *arguments, cwd=ROOT)
    assert run.returncode == 0 and message in " ".join(run.stdout.split())


def test_the_script_knows_each_option_that_only_scheduler_extras_has():
    of_the_script = re.findall(r'^    add\("(--[\w-]+)"', (ROOT / "scheduler.py").read_text(), re.M)
    assert {*option_parser()._option_string_actions} - {*of_the_script, "-h", "--help"} == {*script.OTHER_OPTIONS}


FLAGS = [name for name in REPLACEMENTS if name.startswith("--")]


OURS = [flag for flag in option_parser()._option_string_actions if len(flag) > len("--help")]


@pytest.mark.parametrize("flag", [*FLAGS, *sorted({flag[:-1] for flag in OURS} - {*OURS})])
def test_each_hint_about_a_flag_leads_to_an_option_that_exists(flag, capsys):
    while True:
        with pytest.raises(SystemExit):
            read_arguments([flag])
        message = capsys.readouterr().err
        if found := re.search(r"; use (--\S+)|; did you mean \"(--\S+)\"", message):
            flag = found[1] or found[2]
            if flag in REPLACEMENTS:
                continue
            assert flag in OURS
        elif found := re.search(r"; use (\w+) in the Policy", message):
            assert found[1] in POLICY
        else:
            assert "; use kubectl --kubeconfig FILE proxy" in message or ";" not in message or "ConfigMap" in message
        return


def test_the_flag_for_leader_election_overrides_the_configuration(answering, tmp_path):
    (tmp_path / "config.yaml").write_text(f"""kind: KubeSchedulerConfiguration
apiVersion: {CONFIGURATION_VERSION}
leaderElection: {{leaderElect: true}}""")
    run = run_scheduler("--server", answering(200, '{"items": []}'), "--config", tmp_path / "config.yaml", "--once",
                        "--leader-elect=false")
    assert run.returncode == 0 and "no pods to schedule" in run.stderr


@table("text, address", {
    "a port": ("8080", ("127.0.0.1", 8080)), "all addresses": ("0.0.0.0:80", ("0.0.0.0", 80)), "a name": ("box:80", ("box", 80)),
    "IPv6": ("[::1]:80", ("::1", 80)), "no port": ("localhost", None), "a URL": ("http://localhost:80", None),
    "a port out of range": ("65536", None)})
def test_an_address_to_listen_on(text, address):
    try:
        assert address_and_port(text) == address
    except argparse.ArgumentTypeError:
        assert address is None
