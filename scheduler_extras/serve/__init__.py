"""The HTTP server of --listen: health checks, metrics, the page, and the sandbox."""
