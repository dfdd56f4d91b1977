"""The options of the command line, and their validation.

command_line.py reads them first.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence

from scheduler_extras.common.version import LATEST, UPSTREAM, VERSION
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.reading.hints import did_you_mean


PROXY = "http://127.0.0.1:8001"  # where kubectl proxy listens


def not_empty(text: str) -> str:
    """Return the value of an option. Raises ArgumentTypeError if it is empty."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; is a variable of the shell not set?")
    return text


def address_and_port(text: str) -> tuple[str, int]:
    """Parse the value of --listen, [ADDRESS:]PORT. Raises ArgumentTypeError."""
    match = re.fullmatch(r"(?:(\[[\da-fA-F:.]+]|[\w.-]+):)?(\d{1,5})", text)
    if not match or int(match[2]) > 65535:
        raise argparse.ArgumentTypeError("expected [ADDRESS:]PORT, such as 8080, 0.0.0.0:8080 or [::1]:8080")
    return (match[1] or "127.0.0.1").strip("[]"), int(match[2])


def option_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = argparse.ArgumentParser(
        prog="python scheduler_extras", usage="%(prog)s [options]", allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Schedule the pods that name this scheduler, with the rules of a Policy file.",
        epilog=f"""examples:
  kubectl proxy & python scheduler_extras         schedule the pods of a cluster until Ctrl-C
  python scheduler_extras --cluster tests/demo.yaml    schedule the pods of manifests, without a cluster
  python scheduler_extras --explain default/web-1 explain where that pod goes, or why it stays pending
  python scheduler_extras --cluster tests/demo.yaml --listen 8080    the same on a page, again after each edit
  {Manifests.COMMAND} | \\
    python scheduler_extras --cluster -           schedule a copy of a live cluster

exit codes: 0 success, even if pods stay pending; 1 failure, an object skipped, or --drain of a node that
cannot be drained; 2 wrong usage, Policy or manifest""")
    parser.add_argument("--version", action="version", help="show the version and exit", version=(
        f"scheduler_extras {VERSION} (decides like kube-scheduler {UPSTREAM} with a Policy, "
        f"and like {LATEST} with a KubeSchedulerConfiguration)"))
    add_rules(parser.add_argument_group("rules").add_argument)
    add_live(parser.add_argument_group("live cluster").add_argument)
    add_manifests(parser.add_argument_group("manifests").add_argument)
    add_show(parser.add_argument_group("output").add_argument)
    return parser


def add_rules(add: Callable) -> None:
    """Add the options that choose the pods and the rules."""
    add("--scheduler-name", type=not_empty, default="my-scheduler", metavar="NAME",
        help="schedule the pods with this spec.schedulerName (%(default)s)")
    add("--policy", "--config", "--policy-config-file", "--algorithm-provider",
        type=not_empty, metavar="FILE",
        help="a Policy or KubeSchedulerConfiguration; or DefaultProvider, ClusterAutoscalerProvider "
             "(policy.json)")
    add("--plugins", type=not_empty, nargs="+", action="extend", default=[], metavar="FILE",
        help="load rules of your own from Python files")
    add("--preempt", action="store_true",
        help="delete pods of lower priority to make room, as a KubeSchedulerConfiguration does by default")
    add("--seed", help="make the random choice among equally good nodes repeatable")


def add_live(add: Callable) -> None:
    """Add the options for a live cluster."""
    add("--server", metavar="URL",
        help=f"the address of kubectl proxy ({PROXY}; in a pod, the API server itself)")
    add("--interval", type=float, default=1, metavar="SECONDS", help="time between passes (%(default)s)")
    add("--once", action="store_true", help="stop when no pod is due")
    add("--leader-elect", nargs="?", const="true", choices=["true", "false"],
        help="with several replicas, let only the holder of the Lease schedule pods")
    add("--dry-run", action="store_true", help="decide, but write nothing to the cluster")
    add("--listen", type=address_and_port, metavar="[ADDRESS:]PORT",
        help="serve a live page over HTTP, beside a cluster also health checks and metrics; with "
             "--cluster, schedule again when a file changes (ADDRESS: 127.0.0.1)")


def add_manifests(add: Callable) -> None:
    """Add the options for manifests."""
    add("--cluster", type=not_empty, nargs="+", action="extend", default=[], metavar="FILE",
        help="schedule the pods in these files or folders instead (-: standard input)")
    add("--anew", action="store_true", help="also reschedule this scheduler's pods that already have a node")
    add("--compare", type=not_empty, nargs="+", action="extend", default=[], metavar="FILE",
        help="also schedule them with these Policies, and show the differences")


def add_show(add: Callable) -> None:
    """Add the options that choose the output."""
    add("--explain", type=not_empty, nargs="?", const=True, metavar="POD",
        help="explain each decision node by node, or only where POD would go")
    add("--fits", type=not_empty, metavar="POD", help="count how many copies of POD would fit")
    add("--drain", type=not_empty, metavar="NODE", help="show where NODE's pods would go if you drained it")
    add("-n", "--namespace", type=not_empty, metavar="NAMESPACE", help="the namespace of POD")
    add("-o", "--output", choices=["text", "json", "html"], default="text",
        help="print lines, a JSON object for each decision, or a web page of all decisions")
    add("-v", "--verbose", action="store_true", help="log every request to the API server")


def read_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line. A mistake in it ends the process."""
    parser = option_parser()
    options, unknown = parser.parse_known_args(argv)
    if unknown:
        word = unknown[0].partition("=")[0]
        otherwise = "" if word.startswith("-") else "; to schedule manifests, use --cluster"
        hint = did_you_mean(word, parser._option_string_actions, otherwise)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    problem = problem_of_server(options.server) if options.server is not None else ""
    if problem:
        parser.error(f"--server: {problem}")
    if options.anew and not options.cluster:
        parser.error("--anew needs --cluster: pods of a live cluster stay where they are")
    if not 0 < options.interval < 1e6:
        parser.error(f"--interval {options.interval}: expected a number of seconds above 0")
    is_about_one = bool(options.fits) or isinstance(options.explain, str)
    if options.drain and (is_about_one or options.compare or options.output == "html"):
        parser.error("--drain excludes --fits, --explain POD, --compare and --output html")
    is_compared_otherwise = options.explain or options.fits or options.output == "html"
    if options.compare and (is_compared_otherwise or not options.cluster):
        parser.error("--compare needs --cluster, and excludes --explain, --fits and --output html")
    ends_by_itself = bool(options.once or is_about_one or options.drain or options.compare)
    options.goes_on = bool(options.listen or not options.cluster) and not ends_by_itself  # until a signal
    if options.listen and ends_by_itself:
        parser.error("--listen excludes --once, --explain POD, --fits, --drain and --compare")
    return options


def problem_of_server(url: str) -> str:
    """Return the mistake in the URL of kubectl proxy, or ""."""
    server = re.fullmatch(r"http://([\w.-]+|\[[\da-fA-F:.]+])(:(\d{1,5}))?(/[\w./~%-]*)?", url)
    if url.startswith("https://"):
        return ("https needs a CA and a token, which kubectl proxy has: run it, and give its http:// URL. "
                "In a pod, leave --server out")
    if "://" not in url:
        return f"expected a URL such as {PROXY}, with http:// before the host"
    if not server or int(server[3] or 0) > 65535:
        return f"expected a URL such as {PROXY}, without a user or a password"
    return ""
