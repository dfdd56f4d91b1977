"""The sandbox: manifests are scheduled again whenever one of their files, or the Policy, changes.

runs.py starts it for --cluster with --listen. The page shows each run.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

from scheduler import log
from scheduler_extras.common.errors import InputError
from scheduler_extras.manifests.input import files_at
from scheduler_extras.manifests.manifests import Manifests
from scheduler_extras.policy.policy_file import PolicyFile
from scheduler_extras.show.journal import Journal


PAUSE = 0.1  # seconds between checks of the files


def run_again_on_changes(paths: list[str], versions: dict[str, tuple], policy_file: PolicyFile,
                         run: Callable[[Manifests], bool], journal: Journal, stop: threading.Event,
                         is_rescheduling: bool) -> None:
    """Run manifests again after each change of their files or of the Policy, until `stop` is set.

    versions: of the files before the first run. is_rescheduling: the option --anew is set.
    Because an editor may write a file in several steps, a change counts once the files have been stable for
    `PAUSE`. If a file is invalid then, this is logged, and the page keeps showing the last good run.
    """
    before = versions
    policies = policy_file.policies
    while not stop.wait(PAUSE):
        now = versions_of(paths)
        is_stable = now == before
        before = now
        is_edited = policy_file.reload_if_changed() is not policies
        if not is_stable or (now == versions and not is_edited):
            continue
        changed = [path for path in dict.fromkeys([*now, *versions]) if now.get(path) != versions.get(path)]
        names = ", ".join(Path(path).name for path in changed) or policy_file.path
        versions, policies = now, policy_file.policies
        try:
            manifests = Manifests(paths, policies if is_rescheduling else ())
        except InputError as error:
            log.error("%s; still showing the last good files", error)
            continue
        journal.begin_run(f"{names}: changed, so all is decided again")
        run(manifests)


def versions_of(paths: list[str]) -> dict[str, tuple]:
    """Return the time of change, size and inode of each file at these paths. Standard input never changes."""
    versions = {}
    for path in paths:
        with contextlib.suppress(InputError, OSError):
            for file in files_at(path) if path != "-" else ():
                status = Path(file).stat()
                versions[str(file)] = status.st_mtime_ns, status.st_size, status.st_ino
    return versions
