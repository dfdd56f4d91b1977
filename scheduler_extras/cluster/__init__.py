"""The live cluster: what is known of it, what becomes of a pending pod, and what is written."""
