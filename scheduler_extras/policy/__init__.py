"""The Policy: its file, the Policy in force, rules of your own, and extenders."""
