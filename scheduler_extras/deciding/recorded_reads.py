"""Which attributes of a pod a rule reads, and the cache key that follows from them.

prepared_rules.py passes rules a view of the pod (`RecordingView`), and caches their answers under the key
that `cache_key_of` returns.
"""

from __future__ import annotations

import hashlib
import marshal
import re
from collections.abc import Hashable, Sequence
from types import MappingProxyType as read_only
from typing import Any

from scheduler_extras.deciding.rule import FullRule
from scheduler_extras.reading.fields import text_at
from scheduler_extras.reading.pods_and_nodes import FullPod


# A rule need not declare which attributes of a pod it reads. It gets a view of the pod (`RecordingView`),
# which records them; `reads` has all that a rule has ever read. Its answers are kept for pods in which these
# are equal: the first read gives the same value, so the rule takes the same path to the second one, and so
# on. Pods of many kinds thus share the answers about taints, selectors and ports. An answer found without
# reading the node is the same for all nodes.
#
# This holds for rules whose answer depends only on what they read. A rule that depends on chance, the clock
# or state of its own is not `steady`: it receives the pod itself, and is called each time.


class RecordingView:
    """A view of a pod or node: it copies each attribute on the first read, and records the read.

    What a rule writes stays in the view. If it uses the whole object (as a key, in a comparison, for a copy),
    this is recorded as `__dict__`, which differs for all objects. known: attributes that the rule is known to
    read; they are copied at once, and not recorded.
    """

    def __init__(self, obj: Any, known: Sequence[str] = ()):
        self._thing = obj
        self._names: dict[str, None] = {}  # {attribute: None}, of other reads, also of missing attributes
        self.derived: dict = {}  # its own, so that kept_with_pod reads the pod each time
        values = vars(obj)
        for name in known:
            if name in values:
                setattr(self, name, values[name])

    def __getattr__(self, name: str) -> Any:  # is called where the copy has no such attribute yet
        self._names[name] = None
        value = getattr(self._thing, name)
        setattr(self, name, value)
        return value

    def itself(self) -> Any:
        """Return the object itself, and record that."""
        self._names["__dict__"] = None
        return self._thing

    __class__ = property(lambda self: type(self._thing))  # so that isinstance(pod, Pod) holds
    __dict__ = property(lambda self: vars(self.itself()))

    def __hash__(self) -> int:
        """Use the object itself."""
        return hash(self.itself())

    def __eq__(self, other: object) -> bool:
        """Use the object itself."""
        return self.itself() == other

    def __str__(self) -> str:
        """Use the object itself."""
        return str(self.itself())

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Let `copy` copy the object itself."""
        return self.itself().__reduce_ex__(protocol)


def recorded_reads(view: Any) -> dict[str, None]:
    """Return the reads that a view has recorded, {attribute: None}."""
    return view._names


def digest(text: str) -> bytes:
    """Return 16 bytes that stand for a text of any length."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def signature(pod: FullPod, names: tuple[str, ...]) -> bytes | None:
    """Return bytes that are equal for pods in which these attributes are equal.

    None: the pod shares no answers, because it is too large, or has values that are not of JSON's types.
    """
    if not names:  # a rule that reads nothing of a pod gives the same answer for every pod
        return b""
    data = pod.signatures.get(names, ...)
    if data is not ...:
        return data
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


def without_token(pod: FullPod, data: bytes) -> bytes:
    """Return the bytes without the random part of the name of the pod's token volume."""
    for volume in pod.volumes:
        name = text_at(volume, "name")
        if "projected" in volume and re.fullmatch("kube-api-access-[a-z0-9]{5}", name):
            named = marshal.dumps("name", 2) + marshal.dumps(name, 2)  # in the mounts of it, too
            data = data.replace(named, named[:-5] + b"*****")
    return data


def cache_key_of(pod: FullPod, rule: FullRule, metadata: object) -> tuple | None:
    """Return the key under which the answers of a rule for a pod are cached. The basis is its metadata.

    None: nothing is cached, because the rule is not steady, or the pod shares no answers.
    """
    if not rule.steady:
        return None
    names = rule.reads
    if rule.metadata and metadata:  # to save time: these are likely to be equal for pods of one family
        names += ("controller",) if pod.controller else ("labels",)
    data = signature(pod, names)
    return None if data is None else (rule, data)


def shared_key(subject: Hashable, prepared: Sequence) -> tuple | None:
    """Return the cache key of what follows from the answers of all these PreparedRules, or None."""
    keys = [rule.key for rule in prepared]
    return None if None in keys else (subject, *keys)
