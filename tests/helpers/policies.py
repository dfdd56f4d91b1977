"""How the tests read Policies."""

from scheduler_extras.policy.policy_file import load_policies  # noqa: F401 (for the tests)
from scheduler_extras.policy.policy_reader import REPLACED_BY_TAINTS, known_names  # noqa: F401 (for the tests)


def names_in_policies():
    """The names of all predicates and priorities that a Policy can have, also those that tests have registered."""
    return [*known_names("predicates"), *known_names("priorities")]
