"""Who leads, and who does a chore. Pure."""
