"""The doors: how the world outside asks a node."""
