"""The fleet in virtual time, in one process, from a seed number."""
