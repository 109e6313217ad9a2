"""Streams in the simulator."""
