"""A node's worker processes: which there should be, and starting, draining and killing them."""
