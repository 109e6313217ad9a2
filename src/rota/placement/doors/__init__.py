"""What the leader would do, without doing it."""
