"""Which Services, ReplicaSets, ... select a pod. Rules that spread pods ask for that (`selectors_of`)."""

import collections
import contextlib

from scheduler_extras.common.errors import InvalidSelector, Malformed
from scheduler_extras.reading.fields import pick
from scheduler_extras.reading.label_selectors import label_selector, labels_match


OWNERS = ("services", "replicationcontrollers", "replicasets", "statefulsets")  # upstream: DefaultSelector
SELECT_BY_LABELS = ("services", "replicationcontrollers")  # the oldest kinds: their selector has labels only


def selectors_of(pod, snapshot, *resources):
    """Return the selectors of the services, ReplicaSets, ... that select the pod."""
    selectors = []
    for resource in resources:
        if resource not in snapshot.selectors:
            snapshot.selectors[resource] = Selectors(resource)
        with contextlib.suppress(InvalidSelector):  # then the whole kind is passed over, as upstream does
            selectors += snapshot.selectors[resource].that_select(pod, snapshot.objects[resource])
    return selectors


def selector_in(owner, resource):
    """Return the selector of a service, a ReplicaSet, ... as a LabelSelector."""
    selector = pick(owner, dict, "spec").get("selector")
    return {"matchLabels": selector} if selector and resource in SELECT_BY_LABELS else selector


class Selectors:
    """The selectors of a resource: each is read once, and found by its namespace and one of its labels."""

    def __init__(self, resource):
        self.resource = resource
        self.objects = {}  # namespace/name -> the API's JSON, as it was when selectors were last asked for
        self.places = {}  # namespace/name -> where its selector is found: the namespace, and a label or None
        self.found_at = collections.defaultdict(dict)  # such a place -> {namespace/name: the selector}
        self.unreadable = collections.defaultdict(set)  # namespace -> the namespace/name of such objects

    def that_select(self, pod, objects):
        """Return the selectors that select a pod, by the objects as they are by now, sorted by name.

        Raises Malformed, such as InvalidSelector, if one of the pod's namespace cannot be read.
        """
        if objects is not self.objects:  # what is there is another dict after each change
            self.keep_up(objects)
        for key in self.unreadable.get(pod.namespace, ()):
            self.read(objects[key])  # raises
        found = {}
        for label in (None, *pod.labels.items()):
            found |= self.found_at.get((pod.namespace, label), {})
        return [found[key] for key in sorted(found) if labels_match(pod.labels, found[key])]

    def keep_up(self, objects):
        """Apply new, changed and deleted objects."""
        before = self.objects
        self.objects = objects
        changed = [key for key, thing in objects.items() if before.get(key) is not thing]
        for key in [*(before.keys() - objects.keys()), *changed]:
            self.forget(key)
        for key in changed:
            self.take(key)

    def take(self, key):
        """Read an object's selector, and note where to find it."""
        namespace = key.rpartition("/")[0]
        try:
            selector = self.read(self.objects[key])
        except Malformed:
            self.unreadable[namespace].add(key)
            return
        labels = [(each.key, each.values[0]) for each in selector
                  if each.operator == "In" and len(each.values) == 1]
        self.places[key] = namespace, labels[0] if labels else None
        self.found_at[self.places[key]][key] = selector

    def forget(self, key):
        """Forget an object's selector, if there was one."""
        self.unreadable[key.rpartition("/")[0]].discard(key)
        place = self.places.pop(key, None)
        if place:
            del self.found_at[place][key]
            if not self.found_at[place]:
                del self.found_at[place]

    def read(self, thing):
        """Return the selector of an object as requirements. Raises Malformed, such as InvalidSelector."""
        return label_selector(selector_in(thing, self.resource))
