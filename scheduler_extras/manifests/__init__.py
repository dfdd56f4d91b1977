"""Manifests as a cluster: input, validation, admission, and controllers."""
