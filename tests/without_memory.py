"""A plugin of pytest that takes the memory out: every rule is asked about every node for every pod.

    PYTHONPATH=.:tests python -m pytest -p without_memory tests/test_golden.py
"""

import inspect

import scheduler

asked = 0


def recall(subject, like, snapshot, nodes, function, basis=None, then=lambda nodes, answers: answers):
    """What `recall` says that it is."""
    global asked
    asked += len(nodes)
    return then(nodes, {name: function(node) for name, node in nodes.items()})


def pytest_configure(config):
    """Replace what remembers by what does not."""
    scheduler.recall = recall
    for name, function in list(vars(scheduler).items()):
        if hasattr(function, "cache_info") and [*inspect.signature(function).parameters] == ["pod"]:
            setattr(scheduler, name, function.__wrapped__)


def pytest_terminal_summary(terminalreporter):
    """Say that it was so, and how often a rule was asked."""
    terminalreporter.write_line(f"{asked} nodes were asked without memory")
