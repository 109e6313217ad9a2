"""The commands that are about no single kind of work."""
