"""What a rule looks at of a pod, and which pods are alike to it.

asking.py gives rules a view of the pod (`Seen`), and keeps their answers by what pods share (`cache_key_of`).
"""

import hashlib
import marshal
import re
from types import MappingProxyType as read_only

from scheduler_extras.reading.fields import text_at


# A rule need not declare which attributes of a pod it reads. It is given a view of the pod (`Seen`), which
# notes them; all that a rule has ever read are its `reads`. Its answers are kept for pods in which these are
# equal: what it has read first is the same then, so it has gone on in the same way, and so forth. So pods of
# many kinds share what taints, selectors and ports say about a node. An answer that was found without a look
# at the node is the same for all nodes.
#
# That holds for a rule that says the same whenever it looks at the same. One that goes by chance, by the
# clock, or by what it has kept itself, is not `steady`: it gets the pod itself, and is asked each time.


class Seen:
    """A view of a pod or of a node: a copy that gets each attribute when it is looked at, and notes that.

    What a rule writes into it stays with that rule. If it takes the thing as a whole (as a key, in a
    comparison, to copy it), that is noted as `__dict__`, in which no two are equal. `known`: attributes that
    it has from the start, as it is known already that they are looked at.
    """

    def __init__(self, thing, known=()):
        self._thing = thing
        self._names = {}  # {attribute: None}, of the others that were looked at, be they there or not
        self.derived = {}  # its own, so that kept_with_pod looks at the pod, even if the answer was known
        values = vars(thing)
        for name in known:
            if name in values:
                setattr(self, name, values[name])

    def __getattr__(self, name):  # is called where the copy has no such attribute yet
        self._names[name] = None
        value = getattr(self._thing, name)
        setattr(self, name, value)
        return value

    def itself(self):
        """Return the thing as a whole."""
        self._names["__dict__"] = None
        return self._thing

    __class__ = property(lambda self: type(self._thing))  # so that isinstance(pod, Pod) holds
    __dict__ = property(lambda self: vars(self.itself()))

    def __hash__(self):
        """As the thing itself."""
        return hash(self.itself())

    def __eq__(self, other):
        """As the thing itself."""
        return self.itself() == other

    def __str__(self):
        """As the thing itself."""
        return str(self.itself())

    def __reduce_ex__(self, protocol):
        """Have `copy` copy the thing itself."""
        return self.itself().__reduce_ex__(protocol)


def looked_at(seen):
    """Return what a view says was looked at, beside what was known before: {attribute: None}."""
    return seen._names


def digest(text):
    """Return 16 bytes that stand for a text of any length."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def signature(pod, names):
    """Return bytes that pods share in which these attributes are equal.

    None: no other pod is like it, as it says too much, or it has what is not of JSON's types.
    """
    if not names:  # to a rule that looks at nothing of a pod, all are alike
        return b""
    if names in pod.signatures:
        return pod.signatures[names]
    if pod.is_large:
        return None
    try:
        values = [getattr(pod, name, ...) for name in names]
        values = [dict(value) if type(value) is read_only else value for value in values]
        data = marshal.dumps(values, 2)  # in this version, equal values give equal bytes
        if b"kube-api-access-" in data:
            data = without_token(pod, data)
        if len(data) >= 200:
            data = hashlib.blake2b(data, digest_size=16).digest()
    except Exception:  # some value is not of JSON's types, or a property raises
        data = None
    pod.signatures[names] = data
    return data


def without_token(pod, data):
    """Return bytes without the random name of the volume with the pod's token."""
    for volume in pod.volumes:
        name = text_at(volume, "name")
        if "projected" in volume and re.fullmatch("kube-api-access-[a-z0-9]{5}", name):
            named = marshal.dumps("name", 2) + marshal.dumps(name, 2)  # in the mounts of it, too
            data = data.replace(named, named[:-5] + b"*****")
    return data


def cache_key_of(pod, rule, metadata):
    """Return what a pod shares with those that are alike to a rule, as far as its metadata are equal.

    None: nothing is to be remembered, as the rule is not steady, or the pod is like no other.
    """
    if not rule.steady:
        return None
    names = rule.reads
    if rule.metadata and metadata:  # to save time: these are likely to be equal for pods of one family
        names += ("controller",) if pod.controller else ("labels",)
    return signature(pod, names)


def shared_cache_key(prepared):
    """Return what a pod shares with those that are alike to each of these Prepared rules, or None."""
    keys = [rule.cache_key for rule in prepared]
    return None if None in keys else tuple(keys)
