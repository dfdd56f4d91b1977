"""The sandbox: manifests are scheduled again whenever one of their files, or the Policy, changes.

The command line runs it with --cluster and --listen; a page in a browser shows each run.
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
from scheduler_extras.policy.reloading import PolicyFile
from scheduler_extras.show.journal import Journal


PAUSE = 0.1  # seconds between looks at the files


def run_again_on_changes(paths: list[str], seen: dict[str, tuple], policy_file: PolicyFile,
                         run: Callable[[Manifests], bool], journal: Journal, stop: threading.Event,
                         is_anew: bool) -> None:
    """Run manifests again after each change of their files or of the Policy, until `stop` is set.

    seen: the versions of the files before they were read for the first run.
    An editor may write a file in several steps: so a file counts once it stays the same for a moment. If it
    cannot be read then, that is logged, and the page shows the last good run.
    """
    before = seen
    policies = policy_file.policies
    while not stop.wait(PAUSE):
        now = versions_of(paths)
        is_settled = now == before
        before = now
        is_edited = policy_file.current() is not policies
        if not is_settled or (now == seen and not is_edited):
            continue
        changed = [path for path in dict.fromkeys([*now, *seen]) if now.get(path) != seen.get(path)]
        names = ", ".join(Path(path).name for path in changed) or policy_file.path
        seen, policies = now, policy_file.policies
        try:
            manifests = Manifests(paths, policies if is_anew else ())
        except InputError as error:
            log.error("%s; still showing the last good files", error)
            continue
        journal.begin_run(f"{names}: changed, so all is decided again")
        run(manifests)


def versions_of(paths: list[str]) -> dict[str, tuple]:
    """Return when each file of these paths was changed, and its size. Standard input never changes."""
    versions = {}
    for path in paths:
        with contextlib.suppress(InputError, OSError):
            for file in files_at(path) if path != "-" else ():
                status = Path(file).stat()
                versions[str(file)] = status.st_mtime_ns, status.st_size, status.st_ino
    return versions
