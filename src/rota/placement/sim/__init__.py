"""Placement in the simulator."""
