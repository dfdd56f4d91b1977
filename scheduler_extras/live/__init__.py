"""The live cluster: what is known of it, the cache, the queue, binding, and what is written."""
