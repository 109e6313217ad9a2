"""What should happen: pure functions on what was seen. No clock, no loop, no files."""
