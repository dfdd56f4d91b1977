"""The live cluster: its objects, the cache, the queue, attempts, and writes."""
