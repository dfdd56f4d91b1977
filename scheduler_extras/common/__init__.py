"""Shared by all packages: log texts, errors, the rule to blame for an exception, clocks and threads."""
