"""Clocks, durations, back-off, rates, and the event loop in virtual time."""
