"""The table of overrides, which replace parts of rules under a KubeSchedulerConfiguration.

config_file.py applies it to the rules of each profile. What the table does not name stays as in 1.20.
"""

import collections
from collections.abc import Callable
from typing import Any, TypeVar

from scheduler_extras.common.blame import note_rule


Function = TypeVar("Function", bound=Callable[..., Any])
# Name of a rule -> {field of its FullRule: the value for 1.36}
OVERRIDES: dict[str, dict[str, Any]] = collections.defaultdict(dict)


def override(name: str, part: str = "function") -> Callable[[Function], Function]:
    """Return a decorator for a function that replaces the function of a rule, or another part of the rule."""

    def decorate(function: Function) -> Function:
        """Register the function."""
        OVERRIDES[name][part] = function
        note_rule(name, [function])
        return function

    return decorate
