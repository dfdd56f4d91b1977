"""What people write: files, rules of their own, extenders, and the Policy."""
