"""Requirements of pods that no rule of the policy checks."""

from helpers.command_line import WITH_CLAIM
from helpers.extras import node, pod, run_scheduler, table
from helpers.faulty import ApiServer


NO_PODS = "no pods to schedule for my-scheduler: no pod without a node has this spec.schedulerName"


def test_a_message_says_that_no_pod_of_a_live_cluster_names_this_scheduler(answering):
    for server, message in (answering(200, '{"items": []}'), NO_PODS), (answering(403, "{}"), "403"):
        run = run_scheduler("--server", server, "--once")
        assert len(run.stderr.splitlines()) == 3 and message in run.stderr.splitlines()[2]


HAS_NO_RULE = ("my-scheduler: policy.json has no rule for claims, required spreading, required pod affinity, required pod anti-affinity; "
               "--policy DefaultProvider has")


@table("arguments, is_placed", {
    "the shipped Policy, which is for teaching": ([], True),
    "kube-scheduler's defaults": (["--policy", "DefaultProvider"], False)})
def test_on_a_live_cluster_a_message_and_the_event_name_a_requirement_that_no_rule_checks(arguments, is_placed):
    server = ApiServer(node("a"), pod("p", **WITH_CLAIM), pod("q"))
    try:
        run = run_scheduler("--server", server.url, "--once", *arguments)
        events = {asked.json["involvedObject"]["name"]: asked.json["message"]
                  for asked in list(server.asked) if asked.path.endswith("/events")}
    finally:
        server.stop()
    assert run.stderr.splitlines()[1:2] == ([HAS_NO_RULE] if is_placed else [])
    assert events["q"] == "Successfully assigned default/q to a"
    assert events["p"] == (
        "Successfully assigned default/p to a, though it has claims, and CheckVolumeBinding, which looks at that, is not "
        "active" if is_placed else '0/1 nodes are available: 1 persistentvolumeclaim "c" not found.')
