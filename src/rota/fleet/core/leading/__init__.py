"""Which node leads, and which does a chore. Pure."""
