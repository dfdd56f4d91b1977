"""What --listen serves over HTTP: health, metrics, and pages that other modules add."""
