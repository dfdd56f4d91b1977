"""The syntax of the names of labels and resources.

Policies, configurations and manifests check names with it.
"""

import re

from scheduler_extras.reading.label_selectors import LABEL_VALUE
from scheduler_extras.reading.schemas import Form


def is_extended_resource(name: str) -> bool:
    """Return whether a name is valid for an extended resource. Upstream: IsExtendedResourceName."""
    is_native = "/" not in name or "kubernetes.io/" in name or name.startswith("requests.")
    return not is_native and is_qualified(f"requests.{name}")


def is_qualified(name: str) -> bool:
    """Return whether a name is valid for a label key or a resource. Upstream: IsQualifiedName."""
    domain, slash, word = name.rpartition("/")
    part = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    is_domain = len(domain) <= 253 and re.fullmatch(rf"{part}(\.{part})*", domain)
    return bool(word and len(word) <= 63 and LABEL_VALUE.fullmatch(word) and (is_domain or not slash))


NAME = Form("a name, such as example.com/gpu", is_qualified, str)
