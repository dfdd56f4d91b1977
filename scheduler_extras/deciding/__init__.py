"""Decisions: rules, the snapshot, the cache of answers, calling rules, and the decision itself."""
