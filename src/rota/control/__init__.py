"""The leader's effects: watch, ask `decide`, commit."""
