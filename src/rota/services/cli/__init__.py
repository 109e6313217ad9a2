"""The commands about services."""
