"""Fields of API objects, read without trusting their types.

Pods, nodes, rules and manifests read objects with it.
"""

import json

from scheduler_extras.common.errors import Malformed


TYPE_NAME = {dict: "an object", list: "a list", str: "a string", int: "a whole number", bool: "true or false"}


def pick(thing, wanted, *path, of=None):
    """Follow a path into an API object. Missing or null gives wanted(), such as {}. `of`: type of members."""
    for key in path:
        if type(thing) is not dict:
            raise wrong_type(".".join(path[:path.index(key)]) or "it", dict, thing)
        thing = thing.get(key)
        if thing is None:
            return wanted()
    if type(thing) is not wanted:
        raise wrong_type(".".join(path), wanted, thing)
    if of:
        for key, member in thing.items() if wanted is dict else enumerate(thing):
            if type(member) is not of:
                raise wrong_type(f"{'.'.join(path)}[{key}]", of, member)
    return thing


def wrong_type(where, wanted, thing):
    """Return the error that names the field, and the type that is expected there."""
    return Malformed(f"{where}: expected {TYPE_NAME[wanted]}, got {json.dumps(thing, default=str)[:40]}")


def text_at(thing, *path):
    """Return the string at a path into an object that may be malformed; "" if there is none."""
    for key in path:
        thing = thing.get(key) if isinstance(thing, dict) else None
    return thing if isinstance(thing, str) else ""
