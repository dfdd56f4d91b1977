"""The live cluster: its objects, the cache, the queue, the binding cycle, and writes."""
