"""Streams: what the leader does for each of them."""
