"""Parsing: JSON and YAML, schemas, hints, pods and nodes, selectors."""
