"""Services in the simulator."""
