"""Manifests as a cluster: what they hold, what an API server refuses, and what controllers make."""
