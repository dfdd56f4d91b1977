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

    def place_of(self, pod):
        """Say that the pod is on none, or has gone: what is carried out is always answered."""
        return "" if ("pods", pod.namespace, pod.name) in self.api.objects else None
