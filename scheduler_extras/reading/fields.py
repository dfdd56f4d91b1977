"""Reading the fields of API objects without trusting their types.

Everything that parses API objects uses it.
"""

import json
from typing import Any, TypeVar

from scheduler_extras.common.errors import Malformed


JsonObject = dict[str, Any]  # an API object, or a part of one
Value = TypeVar("Value", dict, list, str, int, bool)
TYPE_NAME: dict[Any, str] = {
    dict: "an object", list: "a list", str: "a string", int: "a whole number", bool: "true or false"}


def pick(obj: Any, wanted: type[Value], *path: str, of: type | None = None) -> Value:
    """Follow a path into an API object, and check the type there. Raises Malformed.

    If the field is missing or null, return an empty value, such as {}. of: the type of its members.
    """
    for key in path:
        if type(obj) is not dict:
            raise wrong_type(".".join(path[:path.index(key)]) or "it", dict, obj)
        obj = obj.get(key)
        if obj is None:
            return wanted()
    if type(obj) is not wanted:
        raise wrong_type(".".join(path), wanted, obj)
    if of:
        members: Any = obj
        pairs: Any = members.items() if wanted is dict else enumerate(members)
        for key, member in pairs:
            if type(member) is not of:
                raise wrong_type(f"{'.'.join(path)}[{key}]", of, member)
    return obj


def wrong_type(where: str, wanted: type, obj: Any) -> Malformed:
    """Return the error that names the field, and the type that it should have."""
    return Malformed(f"{where}: expected {TYPE_NAME[wanted]}, got {json.dumps(obj, default=str)[:40]}")


def text_at(obj: Any, *path: str) -> str:
    """Return the string at a path into an object that may be malformed; "" if there is none."""
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj if isinstance(obj, str) else ""


def controlling_owner(obj: dict) -> dict:
    """Return the ownerReference of an object that names its controller, or {}. Raises Malformed."""
    owners = pick(obj, list, "metadata", "ownerReferences", of=dict)
    return next((owner for owner in owners if owner.get("controller")), {})
