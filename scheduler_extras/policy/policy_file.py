"""Loading the Policy file and the plugins, and reloading them in each pass if they have changed.

The loop gets the Policies in force from a PolicyFile. command_line.py creates one for each file.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scheduler import log
from scheduler_extras.common.errors import InputError
from scheduler_extras.common.log_texts import at_most, one_line, warn_once
from scheduler_extras.policy.own_rules import PLUGGED_IN, idle_plugins, load_plugins, restore, unplug
from scheduler_extras.policy.policy import FullPolicy
from scheduler_extras.policy.policy_reader import default_entries, read_policy
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.hints import did_you_mean
from scheduler_extras.reading.json_and_yaml import check_end_of_json, parse, text_in
from scheduler_extras.rules import PLUGIN_ORDER


MAX_BYTES = 2**20  # of a Policy or a plugin file; a ConfigMap has the same limit
SAVING_SECONDS = 0.05  # in which an editor writes a file, after it has emptied it
YAML_SECONDS = 1.0  # in which a YAML file must not change before it takes effect: half of it may be valid


def providers() -> dict[str, dict]:
    """Return the Policies that --policy can name, {name: Policy}. Upstream: algorithmprovider/registry.go."""
    head = {"kind": "Policy", "apiVersion": "v1"}
    packing = [entry | {"name": entry["name"].replace("Least", "Most")}
               for entry in default_entries("priorities")]
    return {"DefaultProvider": head, "ClusterAutoscalerProvider": head | {"priorities": packing}}


# Kind of a file that is not a Policy -> function(its document, --scheduler-name) that returns its Policies.
READERS: dict[str, Callable[..., dict]] = {}


def load_policies(path: str | Path, scheduler_name: str, preempt: bool = False) -> dict[str, FullPolicy]:
    """Return {schedulerName: Policy} of a Policy, a configuration or a provider. Raises InputError.

    preempt: make the Preemption rule active even if the Policy does not name it.
    """
    try:
        documents = documents_at(path)
        document = chosen_of(documents)
        reader = READERS.get(text_at(document, "kind"))
        if reader:
            policies = reader(document, scheduler_name)
        else:
            policies = {scheduler_name: read_policy(document, ["Preemption"] if preempt else [])}
    except InputError as error:
        raise InputError(f"{path}: {at_most(10_000, ' '.join(str(error).split()))}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {one_line(error)}{did_you_mean(path, providers(), '')}") from error
    policy, *_ = policies.values()
    if preempt and reader:
        policy.notices.append("--preempt changes nothing: DefaultPreemption of a profile does it, unless its "
                              "plugins.postFilter disables that")
    if documents[0] is not document:
        policy.notices.append("kube-scheduler reads only the first document, which is another one")
    elif any(documents[1:]):
        policy.notices.append("only the first document is read, as in kube-scheduler")
    if path in providers():  # their predicates run in the order of the plugins
        order = PLUGIN_ORDER + [rule.plugin for rule in policy.predicates]
        policy.predicates.sort(key=lambda rule: order.index(rule.plugin))
    return policies


def documents_at(path: str | Path) -> list[Any]:
    """Return the Policy of a provider, or the documents of a file, at least one. Raises OSError, ValueError.

    If a document after the first one cannot be parsed, it and those that follow are left out.
    """
    if path in providers():
        return [providers()[str(path)]]
    text = text_in(path, MAX_BYTES)
    documents = parse(text)
    found = [next(documents, None)]
    with contextlib.suppress(ValueError):
        found += documents
    check_end_of_json(text)
    return found


def chosen_of(documents: list[Any]) -> Any:
    """Return the first document that is a Policy or a configuration, else one that may contain it.

    If there is neither, return the first document.
    """
    if not text_at(documents[0], "kind"):
        return documents[0]
    for kinds in (("Policy", *READERS), ("ConfigMap", "ConfigMapList", "List")):
        for document in documents:
            if text_at(document, "kind") in kinds:
                return document
    return documents[0]


class PolicyFile:
    """A Policy file and plugins, which may be edited at any time.

    Raises InputError if they are invalid when it is created.
    """

    def __init__(self, path: str | Path, scheduler_name: str, plugins: Sequence[str | Path] = (),
                 preempt: bool = False):
        self.path = str(path)
        self.scheduler_name = scheduler_name
        self.plugins = plugins
        self.preempt = preempt
        self.policies: dict[str, FullPolicy] = {}  # in force
        self.known: dict[Path, tuple] = {}  # the versions of the files that were loaded last
        self.latest: dict[Path, tuple] = {}  # those at the last check
        self.latest_since = 0.0  # when these were seen first, in monotonic seconds
        self.reload_if_changed()

    def reload_if_changed(self) -> dict[str, FullPolicy]:
        """Reload changed files, and return the Policies in force: the last good ones while a file is invalid.

        If no rule has changed, the same objects stay in force, so that no assumed pod falls back.
        """
        versions = self.versions()
        if versions != self.latest:
            self.latest = versions
            self.latest_since = time.monotonic()
        if not self.policies or (versions != self.known and self.is_saved()):
            self.known = versions
            before = {**PLUGGED_IN}
            try:
                self.check_files()
                self.load()
            except InputError as error:
                restore(before)
                if not self.policies:
                    raise
                time.sleep(SAVING_SECONDS)
                if self.versions() != versions:  # an editor is saving it: the next pass reads it again
                    return self.policies
                log.error("%s; still using the last good Policy", error)
        return self.policies

    def is_saved(self) -> bool:
        """Return whether an edit of the Policy file is complete: JSON at once, YAML after a quiet second."""
        is_yaml = False
        if Path(self.path).absolute() in self.latest:
            with contextlib.suppress(OSError, ValueError):  # to load it raises the error
                is_yaml = text_in(self.path, MAX_BYTES).lstrip()[:1] not in ("{", "")
        return not is_yaml or time.monotonic() >= self.latest_since + YAML_SECONDS

    def versions(self) -> dict[Path, tuple]:
        """Return the versions of the Policy, the plugins, and the files that plugins may import.

        Pipes are left out, because they can be read only once.
        """
        versions = {}
        files = {Path(path).absolute() for path in [self.path, *self.plugins]}
        for folder in {Path(plugin).absolute().parent for plugin in self.plugins}:
            files.update(folder.glob("*.py"))
        for file in files:
            with contextlib.suppress(OSError):
                status = file.stat()
                if stat.S_ISREG(status.st_mode):
                    versions[file] = status.st_mtime_ns, status.st_size, status.st_ino
        return versions

    def check_files(self) -> None:
        """Raise InputError if a file is too large, or has become a pipe or a device, which may never end."""
        for path in [self.path, *self.plugins]:
            with contextlib.suppress(OSError):  # reading it raises the error
                status = Path(path).stat()
                is_file = stat.S_ISREG(status.st_mode)
                if self.policies and not (is_file or stat.S_ISDIR(status.st_mode)):
                    raise InputError(f"{path}: it is no longer a regular file")
                if is_file and status.st_size > MAX_BYTES:
                    raise InputError(f"{path}: it has more than {MAX_BYTES} bytes")

    def load(self) -> None:
        """Read the files, run the plugins that have changed, and log the differences. Raises InputError."""
        if not self.policies:
            unplug()  # plugins that another PolicyFile has run may have state
        changed = load_plugins(self.plugins)
        policies = load_policies(self.path, self.scheduler_name, self.preempt)
        lines = differences(self.policies, policies) if self.policies else []
        lines += [f"{file} has changed" for file in changed]
        if lines or not self.policies:
            self.policies = policies
        else:
            lines = ["reloaded without changes"]
        for line in lines:
            log.warning("%s: %s", self.path, line)
        notices = [notice for policy in policies.values() for notice in policy.notices]
        for notice in [*notices, *idle_plugins(self.plugins, policies)]:
            warn_once(f"{self.path}: {notice}")


def lines_of(policy: FullPolicy) -> list[str]:
    """Return the contents of a Policy, one line for each rule and setting."""
    lines = []
    for rule in policy.rules():
        words = [rule.title]
        if rule.name != rule.title:
            words.append(f"({rule.name})")
        if rule in policy.priorities:
            words.append(f"×{rule.weight}")
        words += [f"{name}={json.dumps(value)}" for name, value in rule.settings.items() if value != []]
        lines.append(" ".join([*words, *rule.hooks]))
    lines += [f"{extender.title} {json.dumps(extender.config)}" for extender in policy.extenders]
    if policy.always_check_all:
        lines.append("alwaysCheckAllPredicates")
    if (policy.initial_backoff, policy.max_backoff) != (FullPolicy.initial_backoff, FullPolicy.max_backoff):
        lines.append(f"backoff from {policy.initial_backoff} to {policy.max_backoff} s")
    if policy.election.get("leaderElect"):
        lines.append(f"leaderElection {json.dumps(policy.election)}")
    return lines


def differences(before: dict[str, FullPolicy], after: dict[str, FullPolicy]) -> list[str]:
    """Return the lines in which two sets of Policies differ, such as "- HostName"."""
    head = "{}: " if len(before | after) > 1 else ""
    old, new = [[head.format(name) + line for name, policy in policies.items() for line in lines_of(policy)]
                for policies in (before, after)]
    lines = [line for line in difflib.ndiff(old, new) if line[:2] in ("- ", "+ ")]
    differing = {*old} ^ {*new}  # empty if only the order differs
    return [line for line in lines if line[2:] in differing] or lines
