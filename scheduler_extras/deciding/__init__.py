"""Deciding: rules, the snapshot, the cache of answers, how rules are asked, and the decision."""
