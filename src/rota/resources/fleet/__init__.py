"""What the leader does for resources: asking their sources, and keeping those that settings declare."""
