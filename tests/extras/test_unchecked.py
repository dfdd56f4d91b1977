"""What no rule of a policy checks, although pods require it."""

from helpers.command_line import WITH_CLAIM
from helpers.extras import node, pod, run_scheduler, table
from helpers.faulty import ApiServer


NOBODY_WAITS = "no pods to schedule for my-scheduler: no pod without a node has this spec.schedulerName"


def test_that_no_pod_of_a_live_cluster_names_it_is_said(answering):
    for server, message in (answering(200, '{"items": []}'), NOBODY_WAITS), (answering(403, "{}"), "403"):
        run = run_scheduler("--server", server, "--once")
        assert len(run.stderr.splitlines()) == 3 and message in run.stderr.splitlines()[2]


LOOKS_AT_NO = ("my-scheduler: policy.json has no rule for claims, required spreading, required pod affinity, required pod anti-affinity; "
               "--policy DefaultProvider has")


@table("arguments, is_placed", {
    "the shipped Policy, which is for teaching": ([], True),
    "kube-scheduler's defaults": (["--policy", "DefaultProvider"], False)})
def test_what_no_rule_looks_at_is_said_when_a_live_cluster_is_scheduled_and_in_the_event(arguments, is_placed):
    server = ApiServer(node("a"), pod("p", **WITH_CLAIM), pod("q"))
    try:
        run = run_scheduler("--server", server.url, "--once", *arguments)
        events = {asked.json["involvedObject"]["name"]: asked.json["message"]
                  for asked in list(server.asked) if asked.path.endswith("/events")}
    finally:
        server.stop()
    assert run.stderr.splitlines()[1:2] == ([LOOKS_AT_NO] if is_placed else [])
    assert events["q"] == "Successfully assigned default/q to a"
    assert events["p"] == (
        "Successfully assigned default/p to a, though it has claims, and CheckVolumeBinding, which looks at that, is not "
        "active" if is_placed else '0/1 nodes are available: 1 persistentvolumeclaim "c" not found.')
