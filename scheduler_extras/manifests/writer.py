"""What writes to manifests: it binds pods, and sends what rules want sent, like the writer of a live cluster.

Whoever makes a cluster of manifests makes one.
"""

from scheduler_extras.live.writer import HOOK_SECONDS, Writer


class WriterOfManifests(Writer):
    """Writes to manifests, among which only this program binds pods."""

    is_live = False
    patience = 2 * HOOK_SECONDS  # as only rules take long

    def bound_by(self, decision):
        """Ask the rules only. Whatever they have done, a Binding is to follow."""
        self.ask_binders(decision, [])

    def node_of(self, pod):
        """Return "" for a pod that is there, else None: each request to manifests gets an answer."""
        return "" if ("pods", pod.namespace, pod.name) in self.api.objects else None
