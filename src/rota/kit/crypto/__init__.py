"""A small certificate authority, and sealing a few bytes."""
