"""The agent's side of the relay, and the line from a worker to it."""
