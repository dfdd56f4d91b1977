"""The writer for manifests: it binds pods and sends the requests of rules, like the writer of a live cluster.

command_line.py and show/compare.py create one for each cluster of manifests.
"""

from __future__ import annotations

from scheduler_extras.live.binding import HOOK_SECONDS
from scheduler_extras.live.writer import Writer
from scheduler_extras.reading.pods_and_nodes import FullPod


class WriterOfManifests(Writer):
    """A Writer for manifests, where no other client binds pods."""

    is_live = False
    patience = 2 * HOOK_SECONDS  # only hooks of rules take long

    def fetch_node_name(self, pod: FullPod) -> str | None:
        """Return "" if the pod exists, else None. Unlike a live API server, manifests always answer."""
        return "" if ("pods", pod.namespace, pod.name) in self.api.objects else None
