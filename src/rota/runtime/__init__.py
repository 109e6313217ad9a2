"""One machine's effects."""
