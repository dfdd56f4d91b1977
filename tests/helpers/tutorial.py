"""Registers the rules of scheduler_extras/examples/tutorial_rules.py: the test files that use them import this one."""

import helpers.everywhere  # noqa: F401 (lets the example be imported)
from scheduler_extras.policy.own_rules import as_in_the_script


with as_in_the_script():
    import tutorial_rules  # noqa: F401 (registers its rules)
