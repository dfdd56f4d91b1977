"""The API server: HTTP, errors, the watch, and the election of a leader."""
