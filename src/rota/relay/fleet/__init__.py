"""The relay map, which the leader writes."""
