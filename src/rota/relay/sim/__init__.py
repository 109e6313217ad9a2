"""The relay in the simulator."""
