"""What chance begins with.

The command line sets it; rules and the Policy, which choose by chance, look at it.
"""

import types


CHANCE = types.SimpleNamespace(seed=None)  # what --seed has chance begin with; None: nothing
