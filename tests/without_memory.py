"""A plugin of pytest that takes the memory out: every rule is asked about every node for every pod.

    PYTHONPATH=.:tests python -m pytest -p without_memory tests/test_golden.py
"""

import scheduler

asked = 0


def each(self, what, nodes, function, basis=None):
    """What `Known.each` says that it is."""
    global asked
    asked += len(nodes)
    return {name: function(node) for name, node in nodes.items()}


def once(self, what, function, *things):
    """What `Known.once` says that it is."""
    return function(*things)


def pytest_configure(config):
    """Replace what remembers by what does not."""
    scheduler.Known.each = each
    scheduler.Known.once = once
    for name, function in list(vars(scheduler).items()):
        if hasattr(function, "__code__") and function.__code__.co_name == "recalled":  # by @remembered
            setattr(scheduler, name, function.__wrapped__)


def pytest_terminal_summary(terminalreporter):
    """Say that it was so, and how often a rule was asked."""
    terminalreporter.write_line(f"{asked} nodes were asked without memory")
